"""The models for River: River's own checks, features that appear over time, neighbours against a brute-force search."""

from __future__ import annotations

import copy
import importlib
import pickle
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import checks, datasets, evaluate, linear_model, metrics, neighbors, preprocessing
from river.datasets import synth

import ocelad.river
from ocelad import LearnerError, Rice, track_metric
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.estimators.reservoir import MAX_COORDINATE, Partner
from ocelad.estimators.scaling import DistanceScaler
from ocelad.pairs import Event, Events
from ocelad.river import LabelMetric, MetricKNNClassifier, PairMetric, check_point


def some_points(count=200, names=("a", "b", "c", "d"), seed=0, relevant=0, gap=4.0):
    """Return points of three classes that differ in one feature."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(count, len(names))), rng.integers(3, size=count)
    X[:, relevant] += gap * y
    return [dict(zip(names, row, strict=True)) for row in X.tolist()], y.tolist()


def train(model, points, labels):
    for x, y in zip(points, labels, strict=True):
        model.learn_one(x, y)
    return model


both_methods = pytest.mark.parametrize("method", ["adaptive", "rice"])


def euclidean(x, z):
    return sum((x.get(name, 0.0) - z.get(name, 0.0)) ** 2 for name in x.keys() | z.keys()) ** 0.5


@pytest.mark.parametrize(
    "check",
    [
        pytest.param((model, check), id=f"{type(model).__name__}-{check.__name__}-{i}")
        for model in (LabelMetric(), MetricKNNClassifier(), MetricKNNClassifier(method="rice"))
        for i, check in enumerate(checks.yield_checks(model))
    ],
)
def test_river_checks(check):
    model, run = check
    assert not model._unit_test_skips()
    run(model.clone())


def test_a_pair_metric_agrees_with_track_metric():
    points, _ = some_points(60)
    metric, core, scaler = (
        PairMetric(method=Rice(step_size=0.02)),
        track_metric(4, step_size=0.02, initial_scale=0.1),
        DistanceScaler(),
    )
    rng = np.random.default_rng(1)
    for x, z in zip(points[::2], points[1::2], strict=True):
        similar = bool(rng.random() < 0.5)
        metric.learn_pair(x, z, similar)
        u = np.array(list(x.values())) - np.array(list(z.values()))
        core.step(Event(scaler.rescale(u[None])[0], 1.0 if similar else -1.0))
    assert metric.n_rounds == 30
    expected = core.play().scaled(scaler.length**-2)
    for x, z in zip(points[:20], points[20:40], strict=True):
        d = expected.distance(list(x.values()), list(z.values()))
        assert metric.distance(x, z) == pytest.approx(d, rel=1e-12)
        assert metric.similar(x, z) == (metric.distance(x, z) <= metric.threshold)
    assert metric.threshold == expected.distance_threshold


def test_a_pair_metric_agrees_with_track_adaptive():
    points, _ = some_points(200)
    metric, core = PairMetric(), track_adaptive(4)
    X, similar = np.array([list(point.values()) for point in points]), np.arange(100) % 3 == 0
    for i in range(100):
        metric.learn_pair(points[2 * i], points[2 * i + 1], bool(similar[i]))
    core.replay(Events(X[::2] - X[1::2], similar))
    expected = core.play()
    assert metric.n_rounds == 100
    assert metric.threshold == expected.distance_threshold
    for i in range(20):
        assert metric.distance(points[i], points[i + 20]) == expected.distance(X[i], X[i + 20])


def test_the_scale_does_not_matter_for_the_adaptive_method():
    points, labels = some_points(60)
    one, other = train(LabelMetric(seed=0), points, labels), train(LabelMetric(scale=1e3, seed=0), points, labels)
    assert one.transform_one(points[0]) == other.transform_one(points[0])


def test_initial_distances_are_euclidean_up_to_a_factor():
    x, z = {"a": 1.0, "b": 2.0}, {"b": 5.0, "c": -1.0}
    metric = PairMetric(method=Rice(initial_scale=0.25))
    assert metric.distance(x, z) == pytest.approx(0.5 * euclidean(x, z))
    assert metric.distance({}, {}) == 0.0
    for adaptive in (PairMetric(), LabelMetric()):
        factor = adaptive.distance({"a": 1.0}, {})
        assert factor > 0.0
        assert adaptive.distance(x, z) == pytest.approx(factor * euclidean(x, z))
    assert LabelMetric(method=Rice(initial_scale=0.25)).transform_one(x) == {"a": 0.5, "b": 1.0}
    assert MetricKNNClassifier().predict_proba_one(x) == {}
    assert MetricKNNClassifier().predict_one(x) is None


@pytest.mark.parametrize("method", ["adaptive", "rice", Rice(diagonal=True)], ids=["adaptive", "rice", "diagonal"])
def test_mapped_points_keep_their_names_and_have_the_tracked_distances(method):
    points, labels = some_points()
    model = train(LabelMetric(method=method, seed=0), points, labels)
    assert model.n_rounds > 390
    assert model.distance({"new": 2.0}, {}) > 0.0
    for x, z in zip(points[:30], points[30:60], strict=True):
        z = {**z, "new": 2.0}  # never learned from
        mapped, other = model.transform_one(x), model.transform_one(z)
        assert list(mapped) == list(x)
        assert list(other) == list(z)
        assert euclidean(mapped, other) == pytest.approx(model.distance(x, z), rel=1e-9)
        partly = model.transform_one({"b": x["b"]})
        assert euclidean(partly, other) == pytest.approx(model.distance({"b": x["b"]}, z), rel=1e-9)
        # The root is symmetric and positive semidefinite, so a point and its image never point in opposite directions.
        assert sum(x[name] * mapped[name] for name in x) >= 0.0


@both_methods
def test_the_map_changes_little_from_one_point_to_the_next(method):
    points, labels = some_points(300)
    model, moves = LabelMetric(method=method, seed=0), []
    for x, y in zip(points, labels, strict=True):
        before = model.transform_one(points[0])
        model.learn_one(x, y)
        after = model.transform_one(points[0])
        moves.append(euclidean(before, after) / euclidean(before, {}))
    assert max(moves[100:]) < 0.5  # the flip of an axis would move it by up to 2


@settings(max_examples=15)
@given(st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1), min_size=30, max_size=60), st.booleans())
def test_with_rice_late_features_count_as_zero_before(names, diagonal):
    rng = np.random.default_rng(0)
    points = [{name: float(rng.normal()) for name in sorted(each)} for each in names]
    labels = rng.integers(2, size=len(points)).tolist()
    late = LabelMetric(method=Rice(diagonal=diagonal), seed=0)
    known = LabelMetric(method=Rice(diagonal=diagonal), seed=0)
    for x, y in zip(points, labels, strict=True):
        late.learn_one(x, y)
        known.learn_one({**dict.fromkeys("abcdefgh", 0.0), **x}, y)
    assert late.n_rounds == known.n_rounds
    for x, z in zip(points, reversed(points), strict=True):
        assert late.distance(x, z) == pytest.approx(known.distance(x, z), rel=1e-9, abs=1e-9)


def test_with_adaptive_an_unknown_feature_has_the_mean_weight_of_the_others():
    model = train(LabelMetric(seed=0), *some_points())
    squares = [model.distance({name: 1.0}, {}) ** 2 for name in "abcd"]
    assert model.distance({"new": 1.0}, {}) ** 2 == pytest.approx(np.mean(squares))


def late_features(count, seed=0):
    """Return points of which the second feature appears after a third and the third one after two thirds."""
    points, labels = some_points(count, ("a", "b", "c"), seed)
    names = ["a", "ab", "abc"]
    return [{name: x[name] for name in names[3 * t // count]} for t, x in enumerate(points)], labels


def test_adaptive_learns_from_its_pairs_again_when_a_feature_appears():
    points, labels = late_features(120)
    late, known = LabelMetric(seed=0), LabelMetric(seed=0)
    for t, (x, y) in enumerate(zip(points, labels, strict=True)):
        late.learn_one(x, y)
        known.learn_one({**dict.fromkeys("abc", 0.0), **x}, y)
        if t > 80:
            assert late.transform_one(points[-1]) == known.transform_one(points[-1])
    assert late.n_rounds == known.n_rounds
    for x, z in zip(points, reversed(points), strict=True):
        assert late.distance(x, z) == known.distance(x, z)


def test_adaptive_learns_again_from_the_latest_pairs_only(monkeypatch):
    monkeypatch.setattr("ocelad.river.MAX_REPLAYED_PAIRS", 30)
    points, _ = some_points(202)
    pairs = [(x, z, i % 3 == 0) for i, (x, z) in enumerate(zip(points[::2], points[1::2], strict=True))]
    whole, recent = PairMetric(), PairMetric()
    for pair in pairs[:100]:
        whole.learn_pair(*pair)
    for pair in pairs[70:100]:
        recent.learn_pair(*pair)
    assert whole.distance(*points[:2]) != recent.distance(*points[:2])
    x, z, similar = pairs[100]
    for model in (whole, recent):
        model.learn_pair({**x, "new": 1.0}, z, similar)
    assert (whole.n_rounds, recent.n_rounds) == (101, 31)
    for one, other in pairwise(points[:20]):
        assert whole.distance(one, other) == recent.distance(one, other)


def test_the_capacity_doubles():
    """With the adaptive method from 32 features on; below, there are no unused columns."""
    for method, expected in (("rice", [1, 2, 4, 8, 16, 32, 64]), ("adaptive", [*range(1, 33), 64])):
        model, capacities = LabelMetric(method=method, seed=0), []
        for i in range(40):
            model.learn_one({f"feature {i}": 1.0}, i % 2)
            capacities.append(model._learner.tracker.capacity)
        assert sorted(set(capacities)) == expected


@both_methods
def test_points_without_features_are_accepted(method):
    model = LabelMetric(method=method, seed=0)
    for t in range(6):
        model.learn_one({}, t % 2)
    assert model.n_rounds == 9
    model.learn_one({"a": 1.0}, 0)
    assert model.distance({"a": 1.0}, {}) > 0.0


def test_learning_from_many_features():
    """Above 128 features the adaptive metric is a diagonal plus few directions."""
    names = [f"feature {i}" for i in range(140)]
    points, labels = some_points(150, names, gap=8.0)
    points = [x if t < 100 else {**x, "late": 1.0} for t, x in enumerate(points)]
    model = train(MetricKNNClassifier(seed=0), points, labels)
    assert model._learner.tracker.capacity == 280
    assert sum(model.predict_proba_one(points[0]).values()) == pytest.approx(1.0)
    metric = train(LabelMetric(seed=0), points, labels)
    one, other = points[0], points[120]
    mapped = euclidean(metric.transform_one(one), metric.transform_one(other))
    assert mapped == pytest.approx(metric.distance(one, other), rel=1e-9)


def brute_force_votes(distances, labels, k, weighted):
    """Return the share of the votes for each class among the nearest k."""
    near = sorted(zip(distances, labels, strict=True))[:k]
    votes = [1.0 / distance if weighted else 1.0 for distance, _ in near]
    return {
        label: sum(v for v, (_, own) in zip(votes, near, strict=True) if own == label) / sum(votes)
        for label in dict.fromkeys(labels)
    }


@both_methods
@pytest.mark.parametrize("weighted", [True, False])
def test_neighbours_agree_with_a_brute_force_search(weighted, method):
    """Votes under the powers 0, 1 and 2 of the metric, weighted by the discounted votes for the right class."""
    points, labels = some_points(60)
    model = MetricKNNClassifier(n_neighbors=3, window_size=20, weighted=weighted, method=method, seed=0)
    metric, gains = LabelMetric(method=method, seed=0), np.zeros(3)
    mappings = (lambda x: x, metric.transform_one, lambda x: metric.transform_one(metric.transform_one(x)))
    for t, (x, y) in enumerate(zip(points, labels, strict=True)):
        window, classes = points[:t][-20:], labels[:t][-20:]
        searches = [
            brute_force_votes([euclidean(mapped(x), mapped(z)) for z in window], classes, 3, weighted)
            for mapped in mappings
        ]
        weights = np.exp(0.5 * gains) / np.exp(0.5 * gains).sum()
        expected = {
            label: sum(w * votes.get(label, 0.0) for w, votes in zip(weights, searches, strict=True))
            for label in dict.fromkeys(labels[:t])
        }
        assert model.predict_proba_one(x) == pytest.approx(expected, rel=1e-6, abs=1e-9)
        gains = (1.0 - 1.0 / 500.0) * gains + [votes.get(y, 0.0) for votes in searches]
        model.learn_one(x, y)
        metric.learn_one(x, y)
    assert model.n_rounds == metric.n_rounds
    assert np.ptp(weights) > 0.01


@both_methods
def test_is_not_much_worse_than_euclidean_neighbours_where_the_metric_does_not_help(method):
    """With drifting Gaussians a metric of RICE alone loses 2 in 100 points."""
    right = {"plain": [], "learned": []}
    for seed in (300, 301):
        stream = list(synth.RandomRBFDrift(seed, seed, n_classes=4, change_speed=0.001).take(1500))
        for name, pairs_per_point in (("plain", 0), ("learned", 2)):
            model = MetricKNNClassifier(window_size=500, pairs_per_point=pairs_per_point, method=method, seed=seed)
            for x, y in stream:
                right[name].append(model.predict_one(x) == y)
                model.learn_one(x, y)
    assert np.mean(right["learned"]) > np.mean(right["plain"]) - 0.005


@pytest.mark.parametrize("dataset", [datasets.Phishing, datasets.ImageSegments])
def test_without_learning_it_agrees_with_the_k_nearest_neighbours_of_river(dataset):
    engine = neighbors.LazySearch(window_size=100)
    theirs = preprocessing.StandardScaler() | neighbors.KNNClassifier(n_neighbors=5, engine=engine)
    mine = preprocessing.StandardScaler() | MetricKNNClassifier(window_size=100, pairs_per_point=0)
    for x, y in dataset().take(300):
        expected = theirs.predict_proba_one(x)
        if 1.0 not in expected.values():  # at distance 0 River follows one neighbour, we follow all
            assert mine.predict_proba_one(x) == pytest.approx(expected, rel=1e-6)
        theirs.learn_one(x, y)
        mine.learn_one(x, y)


def test_points_at_distance_zero_share_all_votes():
    model = MetricKNNClassifier(n_neighbors=3, pairs_per_point=0)
    for value, label in ((1.0, "a"), (1.0, "b"), (2.0, "b"), (1.0, "a")):
        model.learn_one({"x": value}, label)
    assert model.predict_proba_one({"x": 1.0}) == pytest.approx({"a": 2 / 3, "b": 1 / 3})


def test_is_better_than_euclidean_neighbours_and_follows_a_change():
    """With one relevant feature of 30, which changes once, the accuracy gains 5 in 100 before and after the change."""
    names = [f"feature {i}" for i in range(30)]
    correct = {(pairs, relevant): [] for pairs in (0, 2) for relevant in (0, 1)}
    for seed in range(100, 103):
        for pairs in (0, 2):
            model = MetricKNNClassifier(window_size=200, pairs_per_point=pairs, seed=seed)
            for relevant in (0, 1):
                points, labels = some_points(500, names, 10 * seed + relevant, relevant, gap=2.5)
                for t, (x, y) in enumerate(zip(points, labels, strict=True)):
                    if t >= 300:
                        correct[pairs, relevant].append(model.predict_one(x) == y)
                    model.learn_one(x, y)
    for relevant in (0, 1):
        assert np.mean(correct[2, relevant]) > np.mean(correct[0, relevant]) + 0.05


def test_pipelines_scores_and_copies():
    for model in (
        preprocessing.StandardScaler() | MetricKNNClassifier(seed=0),
        preprocessing.StandardScaler() | LabelMetric(seed=0) | linear_model.LogisticRegression(),
    ):
        first = evaluate.progressive_val_score(datasets.Phishing().take(200), model.clone(), metrics.Accuracy())
        assert first.get() > 0.75
        again = evaluate.progressive_val_score(datasets.Phishing().take(200), model.clone(), metrics.Accuracy())
        assert again.get() == first.get()
        for x, y in datasets.Phishing().take(100):
            model.learn_one(x, y)
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            left = copy.deepcopy(model)
            for x, y in datasets.Phishing().take(50):
                assert twin.predict_proba_one(x) == left.predict_proba_one(x)
                twin.learn_one(x, y)
                left.learn_one(x, y)


WRONG = [
    ({"a": float("nan")}, ValueError, "feature 'a' of x is nan; accepted: finite numbers"),
    ({"a": 1.0, 7: float("inf")}, ValueError, "feature 7 of x is inf; accepted: finite numbers"),
    ({"a": "tall"}, TypeError, "feature 'a' of x is 'tall'; accepted: finite numbers"),
    ({"a": None}, TypeError, "feature 'a' of x is None; accepted: finite numbers"),
    ({"a": 1j}, TypeError, r"feature 'a' of x is 1j; accepted: finite numbers"),
    ([1.0, 2.0], TypeError, "x is a list; accepted: a dict of features and their values"),
    ({"a": 1e31}, ValueError, r"feature 'a' of x is 1e\+31; accepted: numbers up to 1e\+30"),
    ({"a": 10**400}, ValueError, "feature 'a' of x is inf; accepted: finite numbers"),
    ({"a": 1e200, "new": 1.0}, ValueError, "too far apart"),
    ({"a": 1e149, "new": 1.0}, LearnerError, "could not learn"),
]


@pytest.fixture
def without_limit(request, monkeypatch):
    """Remove the limit on coordinates, so that the core refuses the numbers."""
    if request.node.callspec.params["sentence"] in ("too far apart", "could not learn"):
        monkeypatch.setattr("ocelad.river.MAX_COORDINATE", float("inf"))


@pytest.mark.parametrize(("x", "error", "sentence"), WRONG)
@pytest.mark.parametrize("kind", [LabelMetric, MetricKNNClassifier])
@pytest.mark.usefixtures("without_limit")
def test_refused_points_change_nothing(kind, x, error, sentence):
    model = train(kind(method=Rice(loss="squared_hinge"), seed=0), *some_points(30))
    read = "transform_one" if kind is LabelMetric else "predict_proba_one"
    twin = copy.deepcopy(model)
    with pytest.raises(error, match=sentence):
        model.learn_one(x, 0)
    with pytest.raises(TypeError, match=r"y is \[0\]; accepted: a class"):
        model.learn_one({"a": 1.0}, [0])
    if "of x" in sentence:
        with pytest.raises(error, match=sentence):
            getattr(model, read)(x)
    for point, label in zip(*some_points(20, seed=1), strict=True):
        assert getattr(model, read)(point) == getattr(twin, read)(point)
        model.learn_one(point, label)
        twin.learn_one(point, label)


@pytest.mark.parametrize(("x", "error", "sentence"), WRONG)
@pytest.mark.usefixtures("without_limit")
def test_refused_pairs_change_nothing(x, error, sentence):
    points, _ = some_points(30)
    model = PairMetric(method=Rice(loss="squared_hinge"))
    for one, other in zip(points[::2], points[1::2], strict=True):
        model.learn_pair(one, other, True)
    twin = copy.deepcopy(model)
    with pytest.raises(error, match=sentence):
        model.learn_pair(x, {"a": -1.0}, True)
    with pytest.raises(TypeError, match="similar is 'yes'; accepted"):
        model.learn_pair({"a": 1.0}, {"a": -1.0}, "yes")
    for one, other in pairwise(points):
        assert model.distance(one, other) == twin.distance(one, other)
        model.learn_pair(one, other, False)
        twin.learn_pair(one, other, False)


def test_numbers_of_any_kind():
    one = train(LabelMetric(seed=0), [{"a": 1, "b": True}, {"a": np.float32(2), "b": np.bool_(False)}], [0, 1])
    other = train(LabelMetric(seed=0), [{"a": 1.0, "b": 1.0}, {"a": 2.0, "b": 0.0}], [0, 1])
    assert one.transform_one({"a": 1, "b": 2}) == other.transform_one({"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scale", "small"),
        ("reservoir_size", 0),
        ("pairs_per_point", -1),
        ("n_neighbors", 0),
        ("window_size", 0),
        ("weighted", 2),
        ("method", "paper"),
        ("method", None),
    ],
)
def test_parameters_are_checked(name, value):
    with pytest.raises((ValueError, TypeError), match=f"{name} must be"):
        MetricKNNClassifier(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss", "hing"),
        ("step_size", 0),
        ("shrinkage", -1),
        ("initial_scale", -1),
        ("diagonal", "yes"),
        ("max_rank", 2),
        ("max_norm", 2.0),
    ],
)
def test_settings_of_rice_are_checked(name, value):
    for model in (PairMetric, LabelMetric, MetricKNNClassifier):
        with pytest.raises((ValueError, TypeError), match=f"{name} must be"):
            model(method=Rice(**{name: value}))


def test_without_river_the_error_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(ImportError, match=r"ocelad.river needs River: pip install 'ocelad\[river\]'"):
        importlib.reload(ocelad.river)


def test_a_first_point_far_out_is_refused_and_others_are_learned():
    for kind in (LabelMetric, MetricKNNClassifier):
        model = kind(seed=0, scale=1.0)
        with pytest.raises(ValueError, match="accepted: numbers up to"):
            model.learn_one({"a": 1.7e308}, 0)
        assert train(model, *some_points(30)).n_rounds > 0


@both_methods
def test_data_in_any_unit_can_be_read(method):
    for unit in (1e-170, 1e-120, 1e-60, 1e25):
        points, labels = some_points(30)
        scaled = [{name: unit * value for name, value in point.items()} for point in points]
        model = train(LabelMetric(method=method, seed=0), scaled, labels)
        assert all(np.isfinite(list(model.transform_one(point).values())).all() for point in scaled)
        neighbours = train(MetricKNNClassifier(method=method, seed=0), scaled, labels)
        assert sum(neighbours.predict_proba_one(scaled[0]).values()) == pytest.approx(1.0)


def test_a_point_is_learned_with_all_of_its_partners_or_not_at_all():
    model = train(LabelMetric(method=Rice(loss="squared_hinge"), scale=1.0, seed=0), *some_points(30))
    tracker, (points, _) = model._learner.tracker, some_points(3, seed=1)
    before = tracker.n_rounds, tracker.metric()
    with pytest.raises(LearnerError, match="could not learn"):
        tracker.learn(points[0], [Partner(points[1], True), Partner({"a": 1e149}, True)])
    assert (tracker.n_rounds, tracker.metric()) == before
    tracker.learn(points[0], [Partner(points[1], True), Partner(points[2], True)])
    assert tracker.n_rounds == before[0] + 2


@pytest.mark.parametrize("engine", ["dense", "fullrank", "lowrank", "blocked", "sparse"])
def test_every_engine_supports_new_features(engine):
    points, labels = some_points(30)
    points = [x if t < 15 else {**x, "late": float(t % 3)} for t, x in enumerate(points)]
    model, default = LabelMetric(method=Rice(engine=engine), seed=0), LabelMetric(method="rice", seed=0)
    train(model, points, labels), train(default, points, labels)
    for x, z in zip(points[:10], points[-10:], strict=True):
        assert model.distance(x, z) == pytest.approx(default.distance(x, z), rel=1e-9)


def test_clones_have_the_same_settings():
    rice = Rice(step_size=0.05)
    model = LabelMetric(method=rice, pairs_per_point=3, seed=0)
    other = model.clone()
    assert (other.method, other.pairs_per_point) == (rice, 3)
    assert other.clone({"method": Rice()}).method == Rice()
    points, labels = some_points(40)
    train(model, points[:20], labels[:20]), train(other, points[:20], labels[:20])
    rice.set_params(step_size=0.9)  # later changes of the settings have no effect
    train(model, points[20:], labels[20:]), train(other, points[20:], labels[20:])
    assert model.transform_one(points[0]) == other.transform_one(points[0])
    assert LabelMetric().method == MetricKNNClassifier().method == PairMetric().method == "adaptive"


def test_nan_is_not_a_class():
    for label in (None, float("nan")):
        with pytest.raises(TypeError, match="accepted: a class, such as a string, a number or a boolean"):
            LabelMetric().learn_one({"a": 1.0}, label)


def test_new_models_have_learned_nothing():
    assert [model().n_rounds for model in (PairMetric, LabelMetric, MetricKNNClassifier)] == [0, 0, 0]
    assert PairMetric(method="rice").threshold == 1.0
    model = LabelMetric(pairs_per_point=0)
    assert train(model, *some_points(10)).n_rounds == 0
    points, _ = some_points(2)
    assert model.distance(*points) == pytest.approx(euclidean(*points) * model.distance({"a": 1.0}, {}))


def test_the_neighbours_in_a_large_window_are_the_nearest():
    points, labels = some_points(600)
    model = MetricKNNClassifier(n_neighbors=4, window_size=500, weighted=False, pairs_per_point=0)
    train(model, points, labels)
    for x, _ in zip(*some_points(20, seed=1), strict=True):
        near = sorted((euclidean(x, z), label) for z, label in zip(points[100:], labels[100:], strict=True))[:4]
        expected = {label: sum(each == label for _, each in near) / 4 for label in range(3)}
        assert model.predict_proba_one(x) == pytest.approx(expected)


def test_a_full_window_is_not_enlarged_or_copied():
    points, labels = some_points(60)
    model, sizes, copies = MetricKNNClassifier(window_size=20, pairs_per_point=0), [], 0
    for x, y in zip(points, labels, strict=True):
        before = model._window
        model.learn_one(x, y)
        sizes.append(len(model._window))
        copies += model._window is not before
    assert max(sizes) == 20
    assert copies == 2  # to 16 rows, and to 20


def test_coordinates_up_to_the_limit_are_accepted():
    for value in (MAX_COORDINATE, -MAX_COORDINATE):
        assert check_point({"a": value}, "x") == {"a": value}
        with pytest.raises(ValueError, match="accepted: numbers up to"):
            check_point({"a": np.nextafter(value, 2 * value)}, "x")
