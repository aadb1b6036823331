"""Rice: the settings of RICE-OCELAD as one object, with scikit-learn's protocol of parameters."""

from __future__ import annotations

import pickle
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from ocelad import Events, MetricTracker, Rice, track_metric
from ocelad.engines.build import build_bank
from ocelad.engines.rice_settings import RICE_SETTINGS
from ocelad.ensemble.schedule import Schedule

OTHERS = {
    "loss": "hinge",
    "step_size": 0.02,
    "shrinkage": 0.01,
    "regularizer": None,
    "divergence": "burg",
    "shortest_interval": 3,
    "n_scales": 4,
    "finest": "ensemble",
    "initial_scale": 0.4,
    "initial_threshold": 1.2,
    "max_norm": 2.0,
    "engine": "dense",
    "max_rank": 2,
    "diagonal": True,
    "l1_tolerance": 1e-10,
}


def some_pairs(count=60, seed=0):
    pairs = np.random.default_rng(seed).normal(size=(count, 2, 3))
    return pairs, np.where(np.abs(pairs[:, 0, 0] - pairs[:, 1, 0]) < 1, 1, -1)


@pytest.mark.parametrize("name", RICE_SETTINGS)
def test_each_setting_counts_for_equality_and_is_shown_if_it_is_not_the_default(name):
    changed = Rice(**{name: OTHERS[name]})
    assert changed != Rice()
    assert changed == Rice().set_params(**{name: OTHERS[name]})
    assert repr(changed) == f"Rice({name}={OTHERS[name]!r})"
    assert eval(repr(changed), {"Rice": Rice}) == changed
    assert changed.get_params() == Rice().get_params() | {name: OTHERS[name]}


def test_parameters():
    assert repr(Rice()) == "Rice()"
    assert tuple(Rice().get_params(deep=False)) == RICE_SETTINGS == tuple(OTHERS)
    rice = Rice(**OTHERS)
    for copy in (clone(rice), deepcopy(rice), pickle.loads(pickle.dumps(rice))):
        assert copy == rice
        assert copy is not rice
        assert copy.set_params(loss="logistic") != rice
    with pytest.raises(ValueError, match=r"Rice has no setting 'eta'; accepted: diagonal, .*, step_size"):
        rice.set_params(loss="squared_hinge", eta=0.1)
    assert rice.loss == "hinge"
    with pytest.raises(TypeError):
        Rice("hinge")


def test_a_search_reaches_the_settings():
    pairs, y = some_pairs(200)
    search = GridSearchCV(MetricTracker(method=Rice()), {"method__step_size": [1e-9, 0.05]}, cv=3).fit(pairs, y)
    assert search.best_params_ == {"method__step_size": 0.05}
    assert search.best_estimator_.method == Rice(step_size=0.05)
    assert search.best_estimator_.metric_ == MetricTracker(method=Rice(step_size=0.05)).fit(pairs, y).metric_


def test_track_metric_accepts_settings_or_an_object():
    rice = Rice(step_size=0.1, loss="hinge")
    one, other = track_metric(3, rice), track_metric(3, step_size=0.1, loss="hinge")
    assert one.settings == other.settings
    assert track_metric(3, rice=rice).settings == one.settings
    assert track_metric(3).settings == track_metric(3, Rice()).settings
    with pytest.raises(TypeError, match="either by rice or as keywords, not both; got rice and loss"):
        track_metric(3, rice, loss="hinge")
    with pytest.raises(TypeError, match=r"rice must be a Rice; got {'loss': 'hinge'}"):
        track_metric(3, {"loss": "hinge"})
    with pytest.raises(TypeError, match="eta"):
        track_metric(3, eta=0.1)


def test_later_changes_of_the_object_do_not_reach_a_tracker():
    pairs, y = some_pairs()
    events = Events(pairs[:, 0] - pairs[:, 1], y)
    rice = Rice(step_size=0.1)
    tracker, expected = track_metric(3, rice), track_metric(3, step_size=0.1)
    rice.set_params(step_size=0.9, loss="hinge")
    tracker.replay(events), expected.replay(events)
    assert tracker.play() == expected.play()
    assert tracker.settings == expected.settings


@pytest.mark.parametrize(
    ("max_norm", "n_features", "initial_scale"),
    [(None, 4, 0.25), (9.0, 4, 0.25), (0.5, 4, 0.25), (0.3, 4, 0.15), (0.5, 1, 0.5)],
)
def test_the_default_initial_scale_respects_max_norm(max_norm, n_features, initial_scale):
    checked = Rice(max_norm=max_norm).validate(n_features)
    assert checked.initial_scale == pytest.approx(initial_scale)
    assert Rice(max_norm=max_norm, initial_scale=0.1).validate(n_features).initial_scale == 0.1


def test_validation_returns_a_copy_with_python_numbers():
    rice = Rice(step_size=np.float32(0.5), shrinkage=np.int8(0), max_rank=np.int64(3), initial_threshold=1)
    checked = rice.validate(3)
    assert checked is not rice
    assert isinstance(rice.step_size, np.float32)
    assert rice.initial_scale is None
    for name, kind in (("step_size", float), ("shrinkage", float), ("max_rank", int), ("initial_threshold", float)):
        assert type(getattr(checked, name)) is kind
        assert getattr(checked, name) == getattr(rice, name)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"loss": "hing"}, "loss must be one of"),
        ({"step_size": 0}, "step_size must be"),
        ({"shrinkage": -1e-9}, "shrinkage must be"),
        ({"regularizer": "l2"}, "regularizer must be one of"),
        ({"divergence": "kl"}, "divergence must be one of"),
        ({"shortest_interval": 0}, "shortest_interval must be"),
        ({"n_scales": 0}, "n_scales must be"),
        ({"finest": "first"}, "finest must be one of"),
        ({"initial_scale": -1e-9}, "initial_scale must be"),
        ({"initial_scale": 1e101}, "initial_scale must be"),
        ({"initial_threshold": 0.99}, "initial_threshold must be"),
        ({"max_norm": 0}, "max_norm must be"),
        ({"engine": "fast"}, "engine must be one of"),
        ({"max_rank": 0}, "max_rank must be"),
        ({"diagonal": "yes"}, "diagonal must be one of"),
        ({"l1_tolerance": 0.2}, "l1_tolerance must be"),
        ({"diagonal": True, "engine": "lowrank"}, "diagonal=True needs .* engine='lowrank'"),
        ({"diagonal": True, "divergence": "burg"}, "diagonal=True needs .* divergence='burg'"),
        ({"diagonal": True, "max_norm": 2.0}, "diagonal=True needs .* max_norm=2.0"),
        ({"diagonal": True, "max_rank": 2}, "diagonal=True needs .* max_rank=2"),
    ],
)
def test_invalid_settings_are_refused(settings, sentence):
    rice = Rice(**settings)  # the constructor only stores
    with pytest.raises((ValueError, TypeError), match=sentence):
        rice.validate(3)
    with pytest.raises((ValueError, TypeError), match=sentence):
        track_metric(3, rice)
    with pytest.raises((ValueError, TypeError), match=sentence):
        build_bank(3, rice, Schedule())


def test_limits_are_accepted():
    for settings in (
        {"shrinkage": 0},
        {"shortest_interval": 1},
        {"n_scales": 1},
        {"initial_scale": 0},
        {"initial_scale": 1e100},
        {"initial_threshold": 1},
        {"max_rank": 1},
        {"l1_tolerance": 0.1},
        {"l1_tolerance": 1e-12},
        {"diagonal": True, "engine": "dense"},
    ):
        assert isinstance(Rice(**settings).validate(1), Rice)


def test_sparse_pairs_may_select_another_engine():
    assert track_metric(2000, shrinkage=0.1, sparse=True).bank.engine == "sparse"
    assert track_metric(2000, shrinkage=0.1).bank.engine == "blocked"
    assert track_metric(2000, shrinkage=0.1, sparse=True, engine="lowrank").bank.engine == "lowrank"
    assert track_metric(2000, diagonal=True, sparse=True).bank.engine == "diagonal"
    assert track_metric(3, sparse=True).settings == track_metric(3).settings
    rice = Rice(shrinkage=0.1)
    track_metric(2000, rice, sparse=True)
    assert rice.engine == "auto"


def test_settings_do_not_import_scikit_learn_or_numba():
    script = "import sys; from ocelad import Rice; Rice(); print(*{'sklearn', 'numba'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""


def test_an_unknown_keyword_is_refused_with_the_accepted_ones():
    with pytest.raises(TypeError, match=r"track_metric has no setting 'stepsize'; accepted: .*step_size"):
        track_metric(3, stepsize=0.1)
