"""MetricTracker(transitive=...): answers by id imply others, and the tracker learns from them."""

from __future__ import annotations

import pickle
from collections import UserDict
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pytest
from engine_cases import COMPILED
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.preprocessing import PolynomialFeatures

from ocelad import MetricTracker
from ocelad.adaptive.precompile import precompile_adaptive
from ocelad.comparison_graph import Contradiction
from ocelad.engines.kernel_loading import mark_kernels_ready

CURVED = pytest.mark.parametrize("curved", [False, True])
COLUMNS = ["a", "b", "c"]
# The estimator's file holds compiled state, so every test of bits needs compiled code.
pytestmark = pytest.mark.skipif(not COMPILED, reason="too many rounds for plain Python")


@pytest.fixture(scope="module", autouse=True)
def _compiled_kernels():
    """Compile all kernels first: until they are ready, the definition computes, with other last bits."""
    precompile_adaptive()
    mark_kernels_ready()


def some_items(count=30, seed=0):
    """Return points of two classes, which differ in a feature of small variance, and the classes."""
    rng = np.random.default_rng(seed)
    classes = np.arange(count) % 2
    points = rng.normal(size=(count, 3)) * [0.2, 1.0, 1.0]
    points[:, 0] += classes
    return points, classes


def some_pairs(classes, count, seed=0):
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(len(classes), 2, replace=False) for _ in range(count)])
    return pairs, np.where(classes[pairs[:, 0]] == classes[pairs[:, 1]], 1, -1)


def seen(tracker, points):
    """Return all that a user can see, as numbers that can be compared."""
    pairs = np.stack([points[:-1], points[1:]], axis=1)
    return (
        tracker.pair_distance(pairs).tolist(),
        tracker.threshold_,
        tracker.n_rounds_,
        tracker.experts_,
        tracker.weights_.tolist(),
        tracker.drift_,
        tracker.changes_,
        tracker.decide(pairs, 0.2).tolist(),
        tracker.groups_,
        tracker.contradictions_,
        tracker.n_implied_,
        tracker.transitivity_,
    )


def is_transitive(tracker):
    try:
        return tracker.n_implied_ > 0
    except AttributeError as error:
        sentence = "n_implied_ needs pairs by id, a preprocessor, and transitive='auto' or True"
        assert str(error) == sentence  # noqa: PT017
        return False


# -- When answers imply others --


def test_auto_is_on_for_ids_and_indices_only():
    points, classes = some_items()
    pairs, y = some_pairs(classes, 12)
    assert is_transitive(MetricTracker(preprocessor=points).fit(pairs, y))
    assert is_transitive(MetricTracker(preprocessor=points, transitive=True).fit(pairs, y))
    assert is_transitive(MetricTracker(preprocessor=points).partial_fit(pairs, y))
    assert is_transitive(MetricTracker(preprocessor=points).start(3).partial_fit(pairs, y))
    assert is_transitive(MetricTracker(preprocessor=points).learn_one(0, 2, True).learn_one(0, 1, False))
    off = [
        MetricTracker().fit(points[pairs], y),
        MetricTracker(preprocessor=points).fit(points[pairs], y),
        MetricTracker(preprocessor=points).start(3),
        MetricTracker(preprocessor=points, transitive=False).fit(pairs, y),
        MetricTracker(preprocessor=points, method="rice").fit(pairs, y),
        MetricTracker(preprocessor=csr_array(points)).fit(pairs, y),
        MetricTracker(preprocessor=csr_array(points)).start(3).partial_fit(pairs, y),
        MetricTracker(preprocessor=points).partial_fit(points[pairs[:5]], y[:5]).partial_fit(pairs, y),
        MetricTracker(preprocessor=points).learn_one(points[0], points[1], True).learn_one(0, 1, False),
        MetricTracker(transitive=False).fit(points[pairs], y),
    ]
    for tracker in off:
        assert not is_transitive(tracker)
        for attribute in ("groups_", "contradictions_", "transitivity_"):
            with pytest.raises(AttributeError, match=f"{attribute} needs pairs by id, a preprocessor"):
                getattr(tracker, attribute)


@pytest.mark.parametrize(
    ("settings", "sparse", "sentence"),
    [
        ({}, False, "transitive=True needs a preprocessor, which has the items; set it, or transitive=False"),
        ({"method": "rice"}, False, "transitive=True needs method='adaptive'; set it, or transitive=False"),
        ({}, True, "transitive=True needs dense points; set it, or transitive=False"),
    ],
)
def test_what_true_needs(settings, sparse, sentence):
    points, classes = some_items()
    pairs, y = some_pairs(classes, 12)
    if sparse or settings:
        settings = {**settings, "preprocessor": csr_array(points) if sparse else points}
    tracker, given = MetricTracker(transitive=True, **settings), pairs if "preprocessor" in settings else points[pairs]
    calls = [lambda: tracker.fit(given, y), lambda: tracker.partial_fit(given, y)]
    calls += [lambda: tracker.learn_one(0, 1, 1)] if "preprocessor" in settings else []
    calls += [lambda: tracker.start(3)] if not sparse else [lambda: tracker.start(3).partial_fit(given, y)]
    for call in calls:
        with pytest.raises(ValueError, match="needs") as error:
            call()
        assert str(error.value) == sentence


@pytest.mark.parametrize("wrong", ["yes", 1, None, np.True_])
def test_other_settings_are_refused(wrong):
    points, classes = some_items()
    with pytest.raises(ValueError, match="transitive must be one of 'auto', False, True; got"):
        MetricTracker(preprocessor=points, transitive=wrong).fit(*some_pairs(classes, 12))


def test_changing_it_after_the_first_pairs_is_refused():
    points, classes = some_items()
    pairs, y = some_pairs(classes, 12)
    on = MetricTracker(preprocessor=points).fit(pairs, y)
    off = MetricTracker(preprocessor=points, transitive=False).fit(pairs, y)
    expected = seen(on, points)
    for tracker, changed in ((on, False), (off, True)):
        tracker.set_params(transitive=changed)
        for call in (lambda t=tracker: t.partial_fit(pairs, y), lambda t=tracker: t.learn_one(0, 1, 1)):
            with pytest.raises(ValueError, match="transitive was changed after the first pairs; call fit to start"):
                call()
    assert seen(on, points) == expected
    assert not is_transitive(on.fit(pairs, y))
    assert is_transitive(off.fit(pairs, y))
    on = MetricTracker(preprocessor=points).fit(pairs, y).set_params(transitive=True).partial_fit(pairs, y)
    assert on.n_rounds_ == 24  # "auto" has decided so already


# -- What answers imply --


def test_groups_contradictions_and_implied_pairs():
    names = ["cat", "kitten", "tom", "dog", "puppy", "cow"]
    tracker = MetricTracker(preprocessor=dict(zip(names, some_items(6)[0], strict=True)))
    tracker.learn_one("cat", "kitten", True).learn_one("kitten", "tom", True).learn_one("tom", "dog", False)
    assert tracker.groups_ == [["cat", "kitten", "tom"]]
    assert tracker.n_implied_ == 6
    assert tracker.contradictions_ == []
    assert tracker.transitivity_ == 1.0
    tracker.partial_fit([["dog", "puppy"], ["cow", "dog"]], [1, -1])
    assert tracker.groups_ == [["cat", "kitten", "tom"], ["dog", "puppy"]]
    assert tracker.n_implied_ == 3 + 1 + 6 + 2
    tracker.learn_one("cat", "tom", False)  # as many answers for Tom's group as against it: he leaves
    assert tracker.groups_ == [["cat", "kitten"], ["dog", "puppy"]]
    assert tracker.contradictions_ == [Contradiction("kitten", "tom", 1.0)]
    assert tracker.transitivity_ == pytest.approx(2 * 4 / 5 - 1)
    assert tracker.n_rounds_ == 6
    assert "groups" in tracker.experts_


def test_results_are_copies():
    points, _ = some_items()
    tracker = MetricTracker(preprocessor=points).learn_one(0, 2, True)
    tracker.groups_[0].append("another")
    tracker.contradictions_.append("another")
    assert tracker.groups_ == [[0, 2]]
    assert tracker.contradictions_ == []


# -- Every way of giving ids --


def table_with_ids(names, points):
    return pd.DataFrame(points, columns=COLUMNS, index=names)


@CURVED
def test_every_way_of_giving_items_is_the_same(curved):
    points, classes = some_items()
    pairs, y = some_pairs(classes, 12)
    names = np.array([f"item {i}" for i in range(30)])
    with_column = {"id": names.tolist(), **{name: points[:, k] for k, name in enumerate(COLUMNS)}}
    by_name = dict(zip(names.tolist(), points, strict=True))
    expected = MetricTracker(curved=curved, preprocessor=points).fit(pairs, y)
    assert is_transitive(expected)
    ways = [
        (points, pairs),
        (points, pairs.astype(np.uint8)),
        (points.tolist(), pairs.tolist()),
        (points, pd.DataFrame(pairs)),
        (points, pl.DataFrame(pairs)),
        (dict(enumerate(points)), pairs),
        ({2**63 + i: point for i, point in enumerate(points)}, pairs.astype(np.uint64) + np.uint64(2**63)),
        ({2**70 + i: point for i, point in enumerate(points)}, pairs.astype(object) + 2**70),
        (by_name, names[pairs]),
        (by_name, names[pairs].astype(object)),
        (UserDict(by_name), pd.DataFrame(names[pairs])),
        ({(name, 1): point for name, point in by_name.items()}, tuples_of(names[pairs])),
        (table_with_ids(names, points), names[pairs]),
        (pd.DataFrame(with_column), pl.DataFrame(names[pairs].astype(object).tolist(), orient="row")),
        (pl.DataFrame(with_column), names[pairs]),
    ]
    for items, keys in ways:
        tracker = MetricTracker(curved=curved, preprocessor=items).fit(keys, y)
        assert seen_without_ids(tracker, points) == seen_without_ids(expected, points)
        assert [len(group) for group in tracker.groups_] == [len(group) for group in expected.groups_]


def tuples_of(names):
    keys = np.empty(names.shape, dtype=object)
    for at, name in np.ndenumerate(names):
        keys[at] = (str(name), 1)
    return keys


def seen_without_ids(tracker, points):
    if "feature_names_in_" in vars(tracker):
        pairs = [pd.DataFrame(part, columns=COLUMNS) for part in (points[:-1], points[1:])]
    else:
        pairs = np.stack([points[:-1], points[1:]], axis=1)
    return tracker.pair_distance(pairs).tolist(), tracker.weights_.tolist(), tracker.n_implied_, tracker.transitivity_


@CURVED
def test_one_by_one_and_in_any_chunks(curved):
    points, classes = some_items()
    pairs, y = some_pairs(classes, 80)
    weights = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], size=80)
    make = MetricTracker(curved=curved, preprocessor=points)
    expected = seen(clone(make).fit(pairs, y, sample_weight=weights), points)
    started, one_by_one, chunks = clone(make).start(3), clone(make), clone(make)
    started.partial_fit(pairs, y, sample_weight=weights)
    for (left, right), label, weight in zip(pairs.tolist(), y, weights, strict=True):
        one_by_one.learn_one(left, right, label, weight)
    for part in (slice(0, 1), slice(1, 3), slice(3, 63), slice(63, 66), slice(66, 80)):
        chunks.partial_fit(pairs[part], y[part], sample_weight=weights[part])
    for tracker in (started, one_by_one, chunks):
        assert seen(tracker, points) == expected
    twice = clone(make).set_params(transitive=True).fit(pairs[:30], y[:30])
    assert seen(twice.fit(pairs, y, sample_weight=weights), points) == expected


def test_margins_are_those_before_each_answer():
    points, classes = some_items()
    pairs, y = some_pairs(classes, 80)
    tracker, one_by_one = MetricTracker(preprocessor=points), MetricTracker(preprocessor=points)
    margins = tracker.test_then_train(pairs, y)
    chunks = [one_by_one.test_then_train(pairs[[t]], y[[t]])[0] for t in range(80)]
    np.testing.assert_allclose(chunks, margins, rtol=1e-6)
    assert chunks[70:] == margins[70:].tolist()


# -- A function as the preprocessor; a mapping that grows --


@CURVED
@pytest.mark.parametrize("by_name", [False, True])
def test_a_function_gets_each_id_once(curved, by_name):
    """It may be slow: it may read a file and compute an embedding, for instance."""
    points, classes = some_items()
    pairs, y = some_pairs(classes, 50)
    calls, kinds = [], set()

    def look_up(keys):
        calls.extend(keys.tolist())
        kinds.add(keys.dtype.kind)
        return points[np.char.lstrip(keys.astype(str), "item").astype(int) if by_name else keys]

    keys = np.char.add("item", pairs.astype(str)) if by_name else pairs
    tracker = MetricTracker(curved=curved, preprocessor=look_up)
    tracker.fit(keys[:40], y[:40])
    tracker.partial_fit(keys[40:45], y[40:45])
    for (left, right), label in zip(keys[45:].tolist(), y[45:], strict=True):
        tracker.learn_one(left, right, label)
    assert len(calls) == 2 * 50
    assert is_transitive(tracker)
    copied = pickle.loads(pickle.dumps(tracker.set_params(preprocessor=None)))
    del calls[:]
    kinds.clear()
    copied.set_params(preprocessor=look_up).partial_fit(keys[:1], y[:1])
    earlier = {key for pair in keys.tolist() for key in pair}
    assert len(calls) == 2 + len(earlier)
    assert kinds == {"U" if by_name else "i"}  # as in the call


def test_a_mapping_that_grows():
    """What was learned depends on the items that were known at each answer, not on how the tracker was stored."""
    points, classes = some_items(40)
    pairs, y = some_pairs(classes, 80)
    pairs = pairs[np.argsort(pairs.max(axis=1), kind="stable")]
    y = np.where(classes[pairs[:, 0]] == classes[pairs[:, 1]], 1, -1)
    grown = []
    for stored in (False, True):
        items, tracker = {0: points[0]}, None
        tracker = MetricTracker(preprocessor=items)
        for t, ((left, right), label) in enumerate(zip(pairs.tolist(), y, strict=True)):
            items.update({i: points[i] for i in range(max(left, right) + 1)})
            tracker.learn_one(left, right, label)
            if stored and t % 20 == 0:
                tracker = pickle.loads(pickle.dumps(tracker)).set_params(preprocessor=items)
        grown.append(seen(tracker, points))
        assert tracker._state.tracker._mixture.discriminants[0] is not None
    assert grown[0] == grown[1]


def test_a_preprocessor_that_lost_an_item_changes_nothing():
    points, classes = some_items()
    pairs, y = some_pairs(classes, 70)
    tracker = MetricTracker(preprocessor=dict(enumerate(points))).fit(pairs, y)
    expected = seen(tracker, points)
    tracker.set_params(preprocessor={0: points[0], 1: points[1], "new": points[0] + 1.0})
    for call in (
        lambda: tracker.learn_one(0, 1, False),
        lambda: tracker.learn_one(0, "new", True),
        lambda: tracker.partial_fit([[0, 1]], [-1]),
    ):
        with pytest.raises(ValueError, match=r"earlier pairs holds \d+ at \(\d+, 0\); the preprocessor has no item"):
            call()
        assert seen(tracker, points) == expected
    tracker.set_params(preprocessor={i: point * (np.nan if i == 5 else 1.0) for i, point in enumerate(points)})
    with pytest.raises(ValueError, match="the preprocessor"):
        tracker.learn_one(0, 1, False)
    assert seen(tracker, points) == expected


# -- Calls that are refused --


@CURVED
def test_a_refused_call_changes_nothing(curved):
    points, classes = some_items()
    enormous = np.vstack([points, np.full((1, 3), 1e200), [[np.nan] * 3]])
    pairs, y = some_pairs(classes, 75)
    weights = np.ones(3)
    for count in (10, 70):
        trackers = [MetricTracker(curved=curved, preprocessor=enormous).start(3, items=points) for _ in range(2)]
        for tracker in trackers:
            tracker.partial_fit(pairs[:count], y[:count])
        tracker, twin = trackers
        expected = seen(tracker, points)
        wrong = [
            ([*pairs[:2].tolist(), [0, 99]], [1, 1, 1], weights),  # unknown
            ([*pairs[:2].tolist(), [0, 30]], [1, 1, 1], weights),  # enormous
            ([*pairs[:2].tolist(), [0, 31]], [1, 1, 1], weights),  # not a number
            (pairs[:3], [1, 1, 2], weights),
            (pairs[:3], [1, 1, 0], weights),
            (pairs[:3], [1, 1, 1], [1.0, 1.0, np.nan]),
            (pairs[:3], [1, 1, 1], [1.0, 1.0, 11.0]),
            (pairs[:3], [1, 1], weights),
        ]
        for keys, labels, given in wrong:
            with pytest.raises(ValueError, match=r"\w+ \w+") as error:
                tracker.partial_fit(keys, labels, sample_weight=given)
            assert "\n" not in str(error.value)
        for arguments in ((0, 99, 1), (0, 30, 1), (0, 31, 1), (0, 1, 2), (0, 1, 1, np.nan), (0, 1, 1, -1.0)):
            with pytest.raises(ValueError, match=r"\w+ \w+"):
                tracker.learn_one(*arguments)
        assert seen(tracker, points) == expected
        for one in trackers:
            one.partial_fit(pairs[count:], y[count:])
        assert seen(tracker, points) == seen(twin, points)


def test_a_first_call_that_is_refused_leaves_the_tracker_as_it_was():
    points, _ = some_items()
    tracker = MetricTracker(preprocessor=points)
    with pytest.raises(ValueError, match="holds the index 99"):
        tracker.fit([[0, 1], [0, 99]], [1, 1])
    assert not tracker.__sklearn_is_fitted__()
    tracker.start(3)
    with pytest.raises(ValueError, match="holds the index 99"):
        tracker.partial_fit([[0, 1], [0, 99]], [1, 1])
    assert not is_transitive(tracker)
    assert tracker.n_rounds_ == 0


def test_ids_that_are_not_hashable():
    points, _ = some_items()
    keys = np.empty((2, 2), dtype=object)
    keys[:] = [[[0], [2]], [[0], [1]]]
    look_up = {"preprocessor": lambda ids: points[[i[0] for i in ids]]}
    sentence = (
        r"pairs holds the id \[0\], which is not hashable; accepted: ids such as texts and numbers, or transitive"
    )
    tracker = MetricTracker(**look_up)
    with pytest.raises(TypeError, match=sentence):
        tracker.fit(keys, [1, -1])
    assert not tracker.__sklearn_is_fitted__()
    assert MetricTracker(**look_up, transitive=False).fit(keys, [1, -1]).n_rounds_ == 2


# -- Copies and files --


def test_clones_params_and_tags():
    points, classes = some_items()
    tracker = MetricTracker(preprocessor=points, transitive=True).fit(*some_pairs(classes, 12))
    twin = clone(tracker)
    assert twin.get_params()["transitive"] is tracker.get_params()["transitive"] is True
    assert MetricTracker().get_params()["transitive"] == "auto"
    assert not twin.__sklearn_is_fitted__()
    tags = tracker.__sklearn_tags__()
    assert tags.input_tags.two_d_array
    assert tags.estimator_type == "classifier"


@pytest.mark.parametrize(
    ("curved", "transitive", "count"),
    [
        (False, "auto", 0),
        (False, "auto", 20),
        (False, "auto", 70),
        (False, True, 0),
        (False, True, 20),
        (False, False, 0),
        (False, False, 20),
        (True, "auto", 0),
        (True, True, 20),
        (True, "auto", 70),
    ],
)
def test_files_and_pickles_continue_with_the_same_bits(curved, transitive, count, tmp_path):
    points, classes = some_items()
    pairs, y = some_pairs(classes, 80)
    tracker = MetricTracker(curved=curved, preprocessor=points, transitive=transitive).start(3)
    if count:
        tracker.partial_fit(pairs[:count], y[:count])
    pickled = pickle.loads(pickle.dumps(tracker))
    tracker.save(tmp_path / "tracker")
    loaded = MetricTracker.load(tmp_path / "tracker")
    assert loaded.transitive == transitive
    loaded.preprocessor = points
    read = seen if transitive else seen_of_points
    if count and transitive:
        assert read(loaded, points) == read(tracker, points)
    for other in (loaded, pickled, tracker):
        other.partial_fit(pairs[count:], y[count:])
    assert is_transitive(loaded) == bool(transitive)
    assert read(loaded, points) == read(tracker, points) == read(pickled, points)


def seen_of_points(tracker, points):
    return tracker.pair_distance(np.stack([points[:-1], points[1:]], axis=1)).tolist(), tracker.weights_.tolist()


def test_pickles_do_not_change_with_the_original():
    points, classes = some_items()
    pairs, y = some_pairs(classes, 90)
    tracker = MetricTracker(preprocessor=points).fit(pairs[:70], y[:70])
    copied = pickle.loads(pickle.dumps(tracker))
    expected = seen(copied, points)
    tracker.partial_fit(pairs[70:], y[70:])
    assert seen(copied, points) == expected
    assert seen(copied.partial_fit(pairs[70:], y[70:]), points) == seen(tracker, points)


@pytest.mark.parametrize("names", [[("a", 1), ("b", 1), ("c", 2)], [UUID(int=i) for i in range(3)], [b"a", b"b", b"c"]])
def test_ids_that_cannot_be_saved_get_one_sentence(names, tmp_path):
    keys = np.empty((2, 2), dtype=object)
    keys[0, 0], keys[0, 1], keys[1, 0], keys[1, 1] = names[0], names[1], names[1], names[2]
    tracker = MetricTracker(preprocessor=dict(zip(names, some_items(3)[0], strict=True))).fit(keys, [1, -1])
    assert tracker.groups_ == [names[:2]]
    with pytest.raises(ValueError, match="cannot be saved; accepted: texts and numbers") as error:
        tracker.save(tmp_path / "tracker")
    assert repr(names[0]) in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "tracker").exists()
    assert pickle.loads(pickle.dumps(tracker)).groups_ == [names[:2]]


def test_files_with_groups_without_answers_are_refused():
    points, classes = some_items()
    arrays, metadata = MetricTracker(preprocessor=points).fit(*some_pairs(classes, 12)).state()
    assert MetricTracker.from_state(arrays, metadata).n_rounds_ == 12
    del metadata["implied"]
    with pytest.raises(ValueError, match="groups of items without the answers about them"):
        MetricTracker.from_state(arrays, metadata)


# -- Pairs of points --


@CURVED
def test_pairs_of_points_are_learned_from_too(curved):
    points, classes = some_items()
    pairs, y = some_pairs(classes, 90)
    trackers = [MetricTracker(curved=curved, preprocessor=points) for _ in range(3)]
    for tracker, size in zip(trackers, (30, 7, 1), strict=True):
        for first in range(0, 90, 30):
            for part in range(first, first + 30, size):
                rows = slice(part, min(part + size, first + 30))
                given = points[pairs[rows]] if first == 30 else pairs[rows]
                if size == 1:
                    tracker.learn_one(*given[0], y[part])
                else:
                    tracker.partial_fit(given, y[rows])
        assert tracker.n_rounds_ == 90
        assert tracker._state.implied.graph.n_answers == 60
    assert seen(trackers[0], points) == seen(trackers[1], points) == seen(trackers[2], points)


def test_after_a_change_that_pairs_of_points_show_earlier_answers_imply_nothing():
    rng = np.random.default_rng(0)
    attributes = rng.integers(2, size=(2, 60))
    points = rng.normal(size=(60, 3)) * 0.3 + 2.0 * np.vstack([attributes, attributes[:1] * 0]).T
    pairs = np.array([rng.choice(60, 2, replace=False) for _ in range(700)])
    y = np.where(
        [attributes[int(t >= 200), i] == attributes[int(t >= 200), j] for t, (i, j) in enumerate(pairs)], 1, -1
    )
    tracker = MetricTracker(preprocessor=points).fit(pairs[:200], y[:200])
    assert tracker.n_implied_ > 1000
    tracker.partial_fit(points[pairs[200:]], y[200:])
    assert tracker.changes_[-1].round > 190
    assert tracker.n_implied_ < 200
    tracker.partial_fit(pairs[300:600], y[300:600])
    assert tracker.transitivity_ > 0.8
    assert len(tracker.groups_[0]) > 20
    # Answers by id show the next change, long after pairs of points.
    tracker.partial_fit(points[pairs[300:]], y[300:]).partial_fit(pairs[:200], y[:200])
    assert tracker.n_rounds_ == 1600


def test_a_map_of_ones_own():
    points, classes = some_items()
    pairs, y = some_pairs(classes, 70)
    squares = PolynomialFeatures(2, include_bias=False).fit(points)
    make = MetricTracker(curved=squares.transform, preprocessor=points)
    tracker = MetricTracker(curved=squares.transform, preprocessor=points).fit(pairs, y)
    for (left, right), label in zip(pairs.tolist(), y, strict=True):
        make.learn_one(left, right, label)
    assert seen(make, points) == seen(tracker, points)
    assert is_transitive(tracker)
    by_function = MetricTracker(curved=squares, preprocessor=lambda ids: points[ids]).fit(pairs, y)
    assert {"groups", "curved groups"} <= set(by_function.experts_)
    with pytest.raises(ValueError, match="feature map of your own cannot be saved"):
        tracker.state()


# -- What it is good for --


def ranking_error(tracker, points, same):
    """Return the share of pairs of a similar and a dissimilar pair of which the dissimilar one is nearer."""
    i, j = np.triu_indices(len(points), 1)
    distances, together = tracker.pair_distance(np.stack([points[i], points[j]], axis=1)), same(i, j)
    return float(np.mean(distances[together][:, None] > distances[~together][None]))


def errors_with_and_without(curved, draw, seeds):
    errors = []
    for seed in range(seeds):
        points, held_out, answers, same = draw(np.random.default_rng(seed))
        y = [1 if same_pair else -1 for *_, same_pair in answers]
        pairs = np.array([answer[:2] for answer in answers])
        trackers = [
            MetricTracker(curved=curved, preprocessor=points, transitive=on).fit(pairs, y) for on in (True, False)
        ]
        errors.append([ranking_error(tracker, held_out, same) for tracker in trackers])
    return np.mean(errors, axis=0)


@CURVED
def test_linking_answers_teach_more_with_what_they_imply(curved):
    """Two Gaussian classes that differ along a direction of small variance; answers link each item with its class."""

    def draw(rng):
        rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
        classes, held_out_classes = rng.integers(2, size=(2, 61))
        classes[:2] = 0, 1

        def points_of(of_class):
            points = rng.normal(size=(61, 6)) * ([0.25] + [1.0] * 5)
            points[:, 0] += of_class
            return points @ rotation

        answers = [(0, 1, False), *((int(classes[i]), i, True) for i in range(2, 61))]
        points, held_out = points_of(classes), points_of(held_out_classes)
        return points, held_out, answers, lambda i, j: held_out_classes[i] == held_out_classes[j]

    with_implied, without = errors_with_and_without(curved, draw, 2)
    assert with_implied < 0.6 * without


@CURVED
def test_a_relation_that_is_not_transitive_loses_little(curved):
    """Same means near on a line: chains of the same end at different things, and trust falls."""

    def draw(rng):
        points, held_out = rng.normal(size=(2, 60, 4))
        points[:, 0], held_out[:, 0] = rng.uniform(0.0, 4.0, size=(2, 60))
        pairs = np.array([rng.choice(60, 2, replace=False) for _ in range(120)])
        answers = [(i, j, abs(points[i, 0] - points[j, 0]) < 1.0) for i, j in pairs]
        return points, held_out, answers, lambda i, j: np.abs(held_out[i, 0] - held_out[j, 0]) < 1.0

    with_implied, without = errors_with_and_without(curved, draw, 3)
    assert with_implied < 1.1 * without + 0.01
