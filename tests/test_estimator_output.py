"""What the estimators return: tables by ``set_output``, a chosen number of components, float32, and a short repr."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from ocelad import LabelMetricTracker, MetricTracker, QuadrupletTracker, Rice, TripletTracker
from ocelad.estimators import leading_axes

N_FEATURES = 4
rng = np.random.default_rng(0)
ITEMS = rng.normal(size=(60, N_FEATURES)) * [1.0, 3.0, 0.2, 1.0]
CLASSES = (ITEMS[:, 0] > 0).astype(int)
TUPLES = {size: rng.integers(60, size=(200, size)) for size in (2, 3, 4)}
SAME = np.where(CLASSES[TUPLES[2][:, 0]] == CLASSES[TUPLES[2][:, 1]], 1, -1)

FIT = {
    "pairs": lambda **settings: MetricTracker(**settings).fit(ITEMS[TUPLES[2]], SAME),
    "rice": lambda **settings: MetricTracker(method="rice", **settings).fit(ITEMS[TUPLES[2]], SAME),
    "curved": lambda **settings: MetricTracker(curved=True, **settings).fit(ITEMS[TUPLES[2]], SAME),
    "own map": lambda **settings: MetricTracker(curved=FunctionTransformer(np.square), **settings).fit(
        ITEMS[TUPLES[2]], SAME
    ),
    "items": lambda **settings: MetricTracker(preprocessor=ITEMS, transitive=False, **settings).fit(TUPLES[2], SAME),
    "triplets": lambda **settings: TripletTracker(**settings).fit(ITEMS[TUPLES[3]]),
    "quadruplets": lambda **settings: QuadrupletTracker(**settings).fit(ITEMS[TUPLES[4]]),
    "labels": lambda **settings: LabelMetricTracker(random_state=0, **settings).fit(ITEMS, CLASSES),
    "linear labels": lambda **settings: LabelMetricTracker(MetricTracker(), random_state=0, **settings).fit(
        ITEMS, CLASSES
    ),
}
every_estimator = pytest.mark.parametrize("fit", FIT.values(), ids=FIT)


@every_estimator
@pytest.mark.parametrize("n_components", [None, 1, 3])
def test_columns_and_names_agree(fit, n_components):
    estimator = fit(n_components=n_components)
    points, names = estimator.transform(ITEMS), estimator.get_feature_names_out()
    rank = estimator.metric_.rank
    assert points.shape == (60, n_components or rank)
    assert list(names) == [f"{type(estimator).__name__.lower()}{i}" for i in range(n_components or rank)]
    for library, name in ((pd, "pandas"), (pl, "polars")):
        table = estimator.set_output(transform=name).transform(ITEMS)
        assert isinstance(table, library.DataFrame)
        assert list(table.columns) == list(names)
        np.testing.assert_array_equal(table.to_numpy(), points)
    estimator.set_output(transform="default")
    assert clone(estimator).n_components == n_components
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(estimator)).transform(ITEMS), points)


def test_a_table_keeps_its_index():
    table = pd.DataFrame(ITEMS, index=[f"item {i}" for i in range(60)])
    assert FIT["pairs"]().set_output(transform="pandas").transform(table).index.tolist() == table.index.tolist()


@every_estimator
def test_distances_with_all_components_are_exact_and_with_some_are_smaller(fit):
    estimator = fit()
    exact = np.linalg.norm(estimator.transform(ITEMS)[:, None] - estimator.transform(ITEMS), axis=2)
    previous = np.zeros_like(exact)
    for n_components in (1, 2, 3, N_FEATURES):
        points = estimator.set_params(n_components=n_components).transform(ITEMS)
        distances = np.linalg.norm(points[:, None] - points, axis=2)
        assert (distances >= previous - 1e-9).all()
        assert (distances <= exact + 1e-9).all()
        previous = distances
    if estimator.metric_.rank == N_FEATURES:
        np.testing.assert_allclose(previous, exact)


def test_known_items_determine_the_order_of_the_components():
    """Items that differ most along a direction of small weight have it as their first component."""
    tracker = FIT["items"](n_components=1)
    tracker.components_ = np.diag([1.0, 0.9, 0.8, 0.7])
    by_variance = tracker.transform(ITEMS)
    np.testing.assert_allclose(np.abs(np.corrcoef(by_variance[:, 0], ITEMS[:, 1])[0, 1]), 1.0, atol=0.02)
    by_eigenvalue = tracker.set_params(preprocessor=None).transform(ITEMS)
    np.testing.assert_allclose(by_eigenvalue[:, 0], ITEMS[:, 0])
    projection = tracker.metric_.projection(ITEMS, 1)
    np.testing.assert_allclose(by_variance, ITEMS @ projection)


def test_rows_do_not_change_the_axes_of_each_other():
    for fit in FIT.values():
        estimator = fit(n_components=2)
        np.testing.assert_allclose(
            np.concatenate([estimator.transform(ITEMS[:7]), estimator.transform(ITEMS[7:])]),
            estimator.transform(ITEMS),
            atol=1e-12,
        )


def test_axes_follow_the_metric_and_are_computed_once_for_each(monkeypatch):
    calls, find = [], leading_axes.find_axes
    monkeypatch.setattr("ocelad.estimators.mahalanobis.find_axes", lambda *args: calls.append(1) or find(*args))
    tracker = FIT["items"](n_components=2)
    before = tracker.transform(ITEMS)
    tracker.transform(ITEMS)
    assert len(calls) == 1
    tracker.partial_fit(TUPLES[2][:50], -SAME[:50])
    assert np.abs(tracker.transform(ITEMS) - before).max() > 0.01
    assert len(calls) == 2
    copied = copy.deepcopy(tracker)
    np.testing.assert_array_equal(copied.transform(ITEMS), tracker.transform(ITEMS))


def test_a_small_rank_leaves_columns_of_zeros():
    tracker = FIT["pairs"](n_components=3)
    tracker.components_ = [[1.0, 0.0, 0.0, 0.0]]
    np.testing.assert_array_equal(tracker.transform(ITEMS), np.pad(ITEMS[:, :1], ((0, 0), (0, 2))))


@pytest.mark.parametrize("n_components", [0, -1, 1.5, "two", True])
@pytest.mark.parametrize("fit", [FIT["pairs"], FIT["triplets"], FIT["labels"]], ids=["pairs", "triplets", "labels"])
def test_refuses_a_wrong_number_of_components(fit, n_components):
    with pytest.raises((ValueError, TypeError), match="n_components must be a whole number of at least 1"):
        fit(n_components=n_components)


def test_a_linear_distance_has_at_most_as_many_components_as_features():
    for name in ("pairs", "triplets", "linear labels"):
        with pytest.raises(ValueError, match="n_components is 5; accepted: up to the number of features, 4"):
            FIT[name](n_components=5)
    assert FIT["curved"](n_components=6).transform(ITEMS).shape == (60, 6)


@every_estimator
def test_files_keep_the_number_of_components(fit, tmp_path):
    if fit is FIT["own map"]:
        pytest.skip("a feature map of one's own cannot be saved")
    estimator = fit(n_components=2)
    estimator.save(tmp_path / "tracker")
    loaded = type(estimator).load(tmp_path / "tracker")
    assert loaded.n_components == 2
    assert loaded.transform(ITEMS).shape == (60, 2)
    fit().save(tmp_path / "tracker")
    assert type(estimator).load(tmp_path / "tracker").n_components is None
    assert b"n_components" not in (tmp_path / "tracker").read_bytes()


def test_sparse_points_have_components_too():
    X = csr_array(np.where(np.abs(ITEMS) < 0.3, 0.0, ITEMS))
    left, right = X[TUPLES[2][:, 0]], X[TUPLES[2][:, 1]]
    for curved in (False, True):
        tracker = MetricTracker(n_components=2, curved=curved, preprocessor=X).fit((left, right), SAME)
        np.testing.assert_allclose(tracker.transform(X), tracker.transform(X.toarray()), atol=1e-12)
    labels = LabelMetricTracker(n_components=2, random_state=0).fit(X, CLASSES)
    np.testing.assert_allclose(labels.transform(X), labels.transform(X.toarray()), atol=1e-12)


SINGLE = {
    "array": lambda X: X,
    "sparse": csr_array,
    "pandas": lambda X: pd.DataFrame(X, columns=list("abcd")),
    "polars": lambda X: pl.DataFrame(X, schema=list("abcd")),
}


@pytest.mark.filterwarnings("ignore:X has feature names")
@every_estimator
@pytest.mark.parametrize("kind", SINGLE.values(), ids=SINGLE)
@pytest.mark.parametrize("n_components", [None, 2])
def test_transform_keeps_single_precision(fit, kind, n_components):
    estimator = fit(n_components=n_components)
    if fit is FIT["own map"] and kind is csr_array:
        pytest.skip("the map takes dense rows")
    single, double = (estimator.transform(kind(ITEMS.astype(dtype))) for dtype in (np.float32, np.float64))
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    scale = np.abs(double).max()
    np.testing.assert_allclose(single, double, atol=1e-5 * scale)
    assert estimator.transform(ITEMS.tolist()).dtype == np.float64


@pytest.mark.parametrize("method", ["adaptive", Rice()])
def test_scores_of_pairs_keep_single_precision(method):
    pairs = ITEMS[TUPLES[2]].astype(np.float32)
    tracker = MetricTracker(method=method).fit(pairs, SAME)
    tables = tuple(pl.DataFrame(pairs[:, k]) for k in range(2))
    for read in ("pair_distance", "pair_score", "decision_function", "log_odds", "predict_proba"):
        single, double = getattr(tracker, read)(pairs), getattr(tracker, read)(pairs.astype(np.float64))
        assert (single.dtype, double.dtype) == (np.float32, np.float64)
        np.testing.assert_array_equal(single, double.astype(np.float32))  # computed in float64
        assert getattr(tracker, read)(tables).dtype == np.float32
        assert getattr(tracker, read)(pairs.tolist()).dtype == np.float64
    by_index = MetricTracker(method=method, preprocessor=ITEMS.astype(np.float32)).fit(TUPLES[2], SAME)
    assert by_index.pair_distance(TUPLES[2]).dtype == np.float32
    assert tracker.metric_.components.dtype == np.float64  # what is learned stays in float64


def test_scores_of_triplets_keep_single_precision():
    triplets = ITEMS[TUPLES[3]].astype(np.float32)
    tracker = TripletTracker().fit(triplets)
    assert tracker.decision_function(triplets).dtype == np.float32
    assert tracker.decision_function(triplets.astype(float)).dtype == np.float64


def test_an_overflow_of_single_precision_is_infinite():
    pair = np.array([[[3e38], [-3e38]]], dtype=np.float32)
    tracker = MetricTracker(method="rice").start(1)
    assert tracker.log_odds(pair).tolist() == [-np.inf]
    assert tracker.predict_proba(pair).tolist() == [[1.0, 0.0]]


def test_decisions_are_made_in_double_precision():
    """A distance that is above the threshold by less than single precision resolves is above it."""
    tracker = MetricTracker(method="rice").start(1)
    tracker.components_ = [[1.0]]
    pair = np.array([[[0.0], [1.0]]], dtype=np.float32)
    assert tracker.set_threshold(1.0 - 1e-12).predict(pair).tolist() == [-1]
    assert tracker.calibrate_threshold(np.concatenate([pair, 3 * pair]), [1, -1]).predict(pair).tolist() == [1]


TABLES = {
    "array of shape (60, 4)": ITEMS,
    "list of 60 points": ITEMS.tolist(),
    "pandas table of shape (60, 4)": pd.DataFrame(ITEMS),
    "polars table of shape (60, 4)": pl.DataFrame(ITEMS),
    "mapping of 60 items": {f"item {i}": row for i, row in enumerate(ITEMS)},
    "sparse matrix of shape (60, 4)": csr_array(ITEMS),
}


@pytest.mark.parametrize(("text", "table"), TABLES.items(), ids=TABLES)
def test_the_repr_names_a_table_instead_of_printing_it(text, table):
    for estimator in (MetricTracker(preprocessor=table), TripletTracker(preprocessor=table)):
        assert repr(estimator) == f"{type(estimator).__name__}(preprocessor=<{text}>)"
    nested = GridSearchCV(make_pipeline(MetricTracker(preprocessor=table)), {})
    assert f"MetricTracker(preprocessor=<{text}>)" in repr(nested).replace("\n", "").replace(" " * 37, "")
    html = nested._repr_html_()
    assert f"&lt;{text}&gt;" in html
    assert f"{ITEMS[0, 0]:.3f}" not in html


def test_the_short_repr_changes_nothing_else():
    tracker = MetricTracker(preprocessor=ITEMS)
    assert tracker.get_params()["preprocessor"] is ITEMS
    np.testing.assert_array_equal(clone(tracker).preprocessor, ITEMS)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(tracker)).preprocessor, ITEMS)
    assert repr(MetricTracker(preprocessor=np.sin)) == "MetricTracker(preprocessor=<ufunc 'sin'>)"
    assert repr(MetricTracker(method=Rice(step_size=0.5))) == "MetricTracker(method=Rice(step_size=0.5))"
