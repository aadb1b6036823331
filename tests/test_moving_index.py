"""Neighbours by a metric that moves: the exact search against brute force, and indexes of other libraries."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocelad import LabelMetricTracker, Metric, MetricTracker, Rice
from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.curved_metric import CurvedMetric
from ocelad.feature_maps import LandmarkMap, OwnMap
from ocelad.neighbors import MovingIndex
from ocelad.neighbors.exact_search import ExactSearch
from ocelad.neighbors.exact_view import ExactView
from ocelad.neighbors.item_table import ItemTable

BACKENDS = [
    ("faiss", {"kind": "ivf"}),
    ("faiss", {"kind": "flat"}),
    ("faiss", {"kind": "hnsw"}),
    ("usearch", {}),
    ("lancedb", {}),
]


def assert_nearest(index: MovingIndex, items: dict[Any, np.ndarray], query: np.ndarray, k: int) -> None:
    """Compare a search with measuring all items by the current metric."""
    names, points = list(items), np.array(list(items.values()), dtype=np.float64)
    distances = index.metric.distance(points, query)
    found = index.search(query, k)
    assert found.exact
    assert len(found.ids) == min(k, len(items)) == len(set(found.ids.tolist()))
    own = np.array([distances[names.index(name)] for name in found.ids.tolist()])
    np.testing.assert_allclose(found.distances, own, rtol=1e-7, atol=1e-7 * distances.max())
    np.testing.assert_allclose(found.distances, np.sort(distances)[: len(own)], rtol=1e-7, atol=1e-7 * distances.max())


def random_metric(rng: np.random.Generator, n: int, round: int = 0) -> Metric:
    """Return a metric of any form: a matrix, a diagonal, or a diagonal and rows, some of them with negative scales."""
    kind = rng.integers(4)
    if kind == 0:
        factors = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-2, 2)
        return Metric(factors.T @ factors, 1.0, round)
    diagonal = 10.0 ** rng.uniform(-1, 1) * (1.0 + rng.random(n) * rng.choice([0.0, 0.01, 1.0]))
    rank = 0 if kind == 1 else int(rng.integers(1, max(n // 5, 2)))
    rows = np.linalg.qr(rng.normal(size=(n, n)))[0][:rank]
    scales = np.where(rng.random(rank) < 0.3, -0.5 * diagonal.min(), 10.0 ** rng.uniform(-2, 3, size=rank))
    return Metric.low_rank(diagonal, rows, scales, 1.0, round)


def moved(rng: np.random.Generator, metric: Metric) -> Metric:
    """Return a metric after an answer: one new row, other scales, and a slightly different diagonal."""
    arrays = metric.arrays()
    if "matrix" in arrays:
        return random_metric(rng, metric.n_features)
    rows = np.concatenate([arrays["rows"], rng.normal(size=(1, metric.n_features))])[-3:]
    scales = np.abs(np.append(arrays["scales"], 1.0))[-3:] * rng.uniform(0.5, 2.0)
    return Metric.low_rank(arrays["diagonal"] * rng.uniform(0.9, 1.1, metric.n_features), rows, scales, 1.0)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 40),
    offset=st.sampled_from([0.0, 3.0, 1e3, 1e6]),
    kind=st.sampled_from([np.float32, np.float64]),
)
def test_a_search_is_exact_for_any_metrics_and_items(seed: int, n: int, offset: float, kind: Any) -> None:
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-3, 3)
    points = (scale * rng.normal(size=(int(rng.integers(1, 200)), n)) + offset).astype(kind)
    points = points[rng.integers(len(points), size=len(points))]  # some are equal
    metric = random_metric(rng, n)
    index = MovingIndex(points, metric)
    items: dict[Any, np.ndarray] = dict(enumerate(points))
    for _ in range(6):
        for _ in range(2):
            near = rng.random() < 0.5
            query = points[rng.integers(len(points))] + 0.0 if near else scale * rng.normal(size=n) + offset
            assert_nearest(index, items, query.astype(np.float64), int(rng.integers(1, 12)))
        metric = index.metric = moved(rng, metric)


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**32), unit_length=st.booleans(), with_factors=st.booleans())
def test_a_search_by_curved_metrics_is_exact(seed: int, unit_length: bool, with_factors: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 30))
    points = rng.normal(size=(150, n)).astype(np.float32)
    points[3] = 0.0
    factors = rng.uniform(0.1, 3.0, n) if with_factors else None
    feature_map = LandmarkMap.from_points(rng.normal(size=(30, n)), 20, rng)

    def curved(linear: Metric) -> CurvedMetric:
        part = random_metric(rng, feature_map.n_outputs)
        return CurvedMetric(linear, feature_map, part, 1.0, unit_length=unit_length, factors=factors)

    linear = random_metric(rng, n)
    index = MovingIndex(points, curved(linear))
    for _ in range(4):
        assert_nearest(index, dict(enumerate(points)), rng.normal(size=n), 5)
        linear = moved(rng, linear)
        index.metric = curved(linear)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), offset=st.sampled_from([0.0, 10.0, 1e4]))
def test_bounds_hold_for_every_item(seed: int, offset: float) -> None:
    """The certificate: no item is nearer than its lower bound or farther than its upper bound."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 300))
    points = (rng.normal(size=(60, n)) * 10.0 ** rng.uniform(-2, 2, n) + offset).astype(np.float32)
    search = ExactSearch(ItemTable(points, None))
    metric = random_metric(rng, n)
    for _ in range(12):
        metric = moved(rng, metric)
        queries = rng.normal(size=(3, n)) * 10.0 ** rng.uniform(-2, 2, n) + offset
        truth = np.array([metric.squared_distance(points.astype(np.float64), query) for query in queries])
        rounding = (
            1e-13 * np.square(np.abs(queries).max() + np.abs(points).max()) * np.linalg.norm(metric.matrix, 2) * n
        )
        for places, lower, upper in search.view(metric)._bounds(queries):
            assert (lower <= truth[:, places] + rounding).all()
            assert (upper >= truth[:, places] - rounding).all()


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32), exponent=st.floats(-26, 19), kind=st.sampled_from([np.float32, np.float64]))
def test_a_search_is_exact_for_tiny_and_huge_numbers(seed: int, exponent: float, kind: Any) -> None:
    """Squares that vanish or overflow in the vectors' type are measured in double precision."""
    rng = np.random.default_rng(seed)
    points = (10.0**exponent * rng.normal(size=(80, 4))).astype(kind)
    metric = random_metric(rng, 4)
    index = MovingIndex(points, metric)
    for _ in range(3):
        assert_nearest(index, dict(enumerate(points)), 10.0**exponent * rng.normal(size=4), 5)
        metric = index.metric = moved(rng, metric)


def test_directions_of_hardly_any_weight_count() -> None:
    metric = Metric.low_rank(np.zeros(8), np.eye(8)[:2], np.array([1.0, 5e-13]), 1.0)
    items = np.zeros((201, 8))
    items[:, 1] = np.linspace(-1.0, 1.0, 201)
    assert_nearest(MovingIndex(items, metric), dict(enumerate(items)), np.eye(8)[1] * 0.5, 3)


def test_lengths_of_any_size_become_one() -> None:
    rng = np.random.default_rng(0)
    for size in (1e170, 1e-170, 1.0):
        points = rng.normal(size=(60, 4))
        points[::2] *= size
        metric = CurvedMetric(Metric(np.eye(4)), None, None, 1.0, unit_length=True)
        assert_nearest(MovingIndex(points, metric), dict(enumerate(points)), rng.normal(size=4), 5)


@pytest.mark.parametrize("n", [16, 136])
def test_points_of_unit_length_that_are_very_near_each_other(n: int) -> None:
    rng = np.random.default_rng(1)
    direction = rng.normal(size=n)
    points = (rng.uniform(0.1, 9.0, (300, 1)) * (direction + 1e-5 * rng.normal(size=(300, n)))).astype(np.float32)
    metric = CurvedMetric(random_metric(rng, n), None, None, 1.0, unit_length=True)
    search, query = ExactSearch(ItemTable(points, None)), points.mean(axis=0, dtype=np.float64)
    truth = metric.squared_distance(points.astype(np.float64), query)
    for places, lower, upper in search.view(metric)._bounds(query[None]):
        assert (lower[0] <= truth[places] * (1 + 1e-9) + 1e-24).all()
        assert (upper[0] >= truth[places] * (1 - 1e-9) - 1e-24).all()


def test_a_steep_map_of_your_own() -> None:
    rng = np.random.default_rng(2)
    points = rng.normal(size=(200, 4)).astype(np.float32)
    steep = OwnMap(lambda X: np.sin(1e5 * X), points[:1].astype(np.float64))
    metric = CurvedMetric(Metric(np.eye(4)), steep, Metric(np.eye(4)), 1.0, unit_length=True)
    for query in rng.normal(size=(20, 4)):
        assert_nearest(MovingIndex(points, metric), dict(enumerate(points)), query, 3)


@pytest.mark.parametrize("method", ["linear", "curved", "rice", "labels"])
def test_a_search_is_exact_after_each_answer(method: str) -> None:
    rng = np.random.default_rng(0)
    n = 150 if method == "linear" else 12
    items = rng.normal(size=(300, n)).astype(np.float32)
    classes = (items[:, 0] > 0).astype(int)
    trackers: dict[str, Any] = {
        "linear": lambda: MetricTracker().start(n),
        "curved": lambda: MetricTracker(curved=True).start(n, items=items),
        "rice": lambda: MetricTracker(method=Rice()).start(n),
        "labels": lambda: LabelMetricTracker(random_state=0).partial_fit(items[:40], classes[:40], classes=[0, 1]),
    }
    tracker: Any = trackers[method]()
    index = MovingIndex(items, tracker)
    for t in range(60):
        if t == 30:
            classes = (items[:, 1] > 0).astype(int)  # the question changes
        i, j = rng.integers(300, size=2)
        if method == "labels":
            tracker.partial_fit(items[[i]], classes[[i]])
        else:
            tracker.learn_one(items[i], items[j], classes[i] == classes[j])
        assert index.metric is tracker.metric_
        assert_nearest(index, dict(enumerate(items)), items[rng.integers(300)] + 0.1, 7)


def test_only_what_is_new_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an answer, items are multiplied by about one new direction, not by all of the metric's rows."""
    from ocelad.neighbors.segment import InFrame

    projected: list[int] = []
    project = InFrame._project

    def count(self: InFrame, segment: Any, new: np.ndarray, out: np.ndarray) -> None:
        projected.append(len(new))
        project(self, segment, new, out)

    monkeypatch.setattr(InFrame, "_project", count)
    ranked: list[int] = []
    rank = ExactView._rank

    def count_ranked(self: ExactView, query: np.ndarray, places: np.ndarray, k: int | None) -> Any:
        ranked.append(len(places))
        return rank(self, query, places, k)

    monkeypatch.setattr(ExactView, "_rank", count_ranked)
    rng = np.random.default_rng(0)
    items = rng.normal(size=(400, 300)).astype(np.float32)
    tracker = MetricTracker().start(300)
    index = MovingIndex(items, tracker)
    for _ in range(200):
        i, j = rng.integers(400, size=2)
        tracker.learn_one(items[i], items[j], (items[i, 0] > 0) == (items[j, 0] > 0))
        index.search(items[0])
    assert 100 < sum(projected) < 1.5 * 200
    assert np.mean(ranked) < 0.2 * 400  # the bounds are tight, so that few items are measured twice
    assert index.n_bytes < 0.3 * items.nbytes


def test_memory_with_curved_distances() -> None:
    rng = np.random.default_rng(0)
    items = rng.normal(size=(500, 384)).astype(np.float32)
    tracker = MetricTracker(curved=True).start(384, items=items)
    index = MovingIndex(items, tracker)
    for _ in range(60):
        i, j = rng.integers(500, size=2)
        tracker.learn_one(items[i], items[j], (items[i, 0] > 0) == (items[j, 0] > 0))
        index.search(items[0])
    assert index.n_bytes < 0.7 * items.nbytes


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_items_come_and_go(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    items: dict[Any, np.ndarray] = {f"a{i}": rng.normal(size=4) for i in range(8)}
    metric = random_metric(rng, 4)
    index = MovingIndex(np.array(list(items.values())), metric, ids=list(items))
    for step in range(data.draw(st.integers(1, 12))):
        names = list(items)
        some = [names[at] for at in rng.permutation(len(names))[: rng.integers(1, 4)]]
        action = data.draw(st.sampled_from(["add", "remove", "update", "move"]))
        if action == "add":
            new = {f"b{step}.{i}": rng.normal(size=4) for i in range(int(rng.integers(1, 6)))}
            index.add(list(new.values()), ids=list(new))
            items |= new
        elif action == "remove" and len(items) > 4:
            index.remove(some)
            items = {name: point for name, point in items.items() if name not in some}
        elif action == "update":
            changed = {name: rng.normal(size=4) for name in some}
            index.update(list(changed.values()), list(changed))
            items |= changed
        else:
            metric = index.metric = moved(rng, metric)
        assert len(index) == len(items)
        assert set(index.ids) == set(items)
        assert_nearest(index, items, rng.normal(size=4), 3)


def test_neighbors_of_items_are_others() -> None:
    items = np.array([[0.0], [1.0], [3.0], [7.0]])
    index = MovingIndex(items, Metric([[1.0]]), ids=["a", "b", "c", "d"])
    found = index.neighbors_of(["b", "d"], k=2)
    assert found.ids.tolist() == [["a", "c"], ["c", "b"]]
    np.testing.assert_allclose(found.distances, [[1, 2], [4, 6]])


@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.sampled_from([np.float32, np.float64]))
@settings(deadline=None, max_examples=40)
def test_products_with_directions_are_those_of_prepared_points(
    seed: int, is_curved: bool, with_factors: bool, kind: Any
) -> None:
    """Also of items that were added, changed and removed; an offset is subtracted before rounding to float32."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    X = (rng.normal(size=(40, n)) + 5.0).astype(kind)
    table = ItemTable(X[:30], None)
    table.add(X[30:], None)
    table.update(X[:3][::-1].copy(), [5, 6, 7])
    table.remove([0, 33])
    now = X.copy()
    now[[5, 6, 7]] = X[:3][::-1]
    alive = np.delete(np.arange(40), [0, 33])
    factors = 10.0 ** rng.uniform(-2, 2, size=n) if with_factors else None
    feature_map = LandmarkMap.from_points(X.astype(np.float64) * (1.0 if factors is None else factors), 10, rng)
    curved = Metric(np.eye(feature_map.n_outputs))
    parts = (feature_map, curved) if is_curved else (None, None)
    metric = CurvedMetric(Metric(np.eye(n)), *parts, unit_length=False, factors=factors)
    extended = metric.extend(now.astype(np.float64))
    directions = rng.normal(size=(extended.shape[1], 3))
    offset = 1e6 + extended.mean(axis=0) @ directions
    search = ExactSearch(table)
    found = search.project(metric, directions[:n], directions[n:] if is_curved else None, offset=offset)
    assert found.dtype == np.float32
    size = np.abs(extended).max() * np.abs(directions).max() * n
    near = search.project(metric, directions[:n], directions[n:] if is_curved else None, offset=offset - 1e6)
    expected = (extended @ directions - (offset - 1e6))[alive]
    np.testing.assert_allclose(near[alive], expected, atol=1e-5 * (size + 1.0))
    np.testing.assert_allclose(found[alive], expected - 1e6, rtol=1e-6)


def test_probabilities_are_those_of_the_tracker() -> None:
    rng = np.random.default_rng(1)
    items = rng.normal(size=(200, 6))
    tracker = MetricTracker(preprocessor=items, transitive=False).start(6)
    index = MovingIndex(items, tracker)
    for i, j in rng.integers(200, size=(400, 2)):
        tracker.learn_one(i, j, abs(items[i, 0] - items[j, 0]) < 0.7)
    found = index.search(items[5], k=9)
    pairs = np.stack([np.tile(items[5], (9, 1)), items[found.ids]], axis=1)
    np.testing.assert_allclose(found.probabilities, tracker.predict_proba(pairs)[:, 1], rtol=1e-9)


@pytest.mark.parametrize("error", [0.02, 0.1])
def test_within_is_what_the_tracker_decides(error: float) -> None:
    rng = np.random.default_rng(2)
    items = rng.normal(size=(300, 4))
    tracker = MetricTracker(preprocessor=items, transitive=False).start(4)
    for i, j in rng.integers(300, size=(3000, 2)):
        tracker.learn_one(i, j, abs(items[i, 0] - items[j, 0]) < 1)
    index = MovingIndex(items, tracker)
    found = index.within(items[3], error)
    pairs = np.stack([np.tile(items[3], (300, 1)), items], axis=1)
    assert set(found.ids.tolist()) == set(np.flatnonzero(tracker.decide(pairs, error) > 0).tolist()) != set()
    probable = index.within(items[3], probability=0.7)
    assert set(probable.ids.tolist()) == set(np.flatnonzero(tracker.predict_proba(pairs)[:, 1] >= 0.7).tolist())
    assert (np.diff(probable.distances) >= 0).all()


def test_threads_search_while_the_tracker_learns() -> None:
    rng = np.random.default_rng(3)
    items = rng.normal(size=(400, 20)).astype(np.float32)
    tracker = MetricTracker().start(20)
    index = MovingIndex(items, tracker)
    metrics, done, failures = [tracker.metric_], Event(), list[BaseException]()
    n_searches = [0, 0]

    def search(number: int) -> None:
        own = np.random.default_rng(number)
        try:
            while not done.is_set():
                query, first = own.normal(size=20), len(metrics) - 1
                found = index.search(query, 5)
                n_searches[number] += 1
                last = tracker.metric_
                seen = [*metrics[first:], last]
                nearest = [np.sort(metric.distance(items.astype(np.float64), query))[:5] for metric in seen]
                assert any(np.allclose(found.distances, distances, rtol=1e-6) for distances in nearest)
        except BaseException as failure:
            failures.append(failure)
            raise

    threads = [Thread(target=search, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for i, j in rng.integers(400, size=(300, 2)):
        tracker.learn_one(items[i], items[j], (items[i, 0] > 0) == (items[j, 0] > 0))
        metrics.append(tracker.metric_)
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert min(n_searches) > 0


# Files.


@pytest.mark.parametrize(("backend", "options"), [("exact", {}), *BACKENDS])
def test_save_and_load(backend: str, options: dict[str, Any], tmp_path: Any) -> None:
    rng = np.random.default_rng(4)
    items = rng.normal(size=(300, 12)).astype(np.float32)
    metric = random_metric(rng, 12)
    index = MovingIndex(items, metric, ids=[f"i{i}" for i in range(300)], backend=backend, options=options)
    index.remove(["i3", "i200"])
    index.add(rng.normal(size=(2, 12)), ids=["x", "y"])
    index.update(rng.normal(size=(1, 12)), ids=["i7"])
    index.save(tmp_path / "index")
    loaded = MovingIndex.load(tmp_path / "index", metric)
    assert sorted(loaded.ids) == sorted(index.ids)
    for query in rng.normal(size=(5, 12)):
        np.testing.assert_array_equal(loaded.search(query).ids, index.search(query).ids)
    index.remove(["x"])
    index.save(tmp_path / "index")  # replaces it
    assert "x" not in MovingIndex.load(tmp_path / "index", metric)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_vectors_of_a_saved_index_are_memory_mapped(tmp_path: Any) -> None:
    items = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    MovingIndex(items, Metric(np.eye(3))).save(tmp_path / "index")
    loaded = MovingIndex.load(tmp_path / "index", Metric(np.eye(3)), items=items)
    vectors = loaded._table.snapshot.segments[0].vectors
    assert isinstance(vectors.base, np.memmap) or isinstance(vectors, np.memmap)
    assert vectors.dtype == np.float32
    loaded.add(items[:3])
    assert len(loaded) == 53


def test_damaged_files_are_refused(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    items, metric = rng.normal(size=(50, 3)), Metric(np.eye(3))
    folder = tmp_path / "index"
    MovingIndex(items, metric).save(folder)
    with pytest.raises(ValueError, match="was built on other items"):
        MovingIndex.load(folder, metric, items=items + 1.0)
    with pytest.raises(ValueError, match="3 features; the metric has 4"):
        MovingIndex.load(folder, Metric(np.eye(4)))
    content = (folder / "vectors.npy").read_bytes()
    (folder / "vectors.npy").write_bytes(content[:-100])
    with pytest.raises(ValueError, match=r"vectors\.npy is missing, cut or damaged"):
        MovingIndex.load(folder, metric)
    (folder / "vectors.npy").write_bytes(content)
    settings_file = folder / "index.json"
    saved = settings_file.read_text()
    settings_file.write_text(saved[:20])
    with pytest.raises(ValueError, match="damaged"):
        MovingIndex.load(folder, metric)
    settings_file.write_text(json.dumps({**json.loads(saved), "n_items": 51}))
    with pytest.raises(ValueError, match="50 vectors of 51"):
        MovingIndex.load(folder, metric)
    with pytest.raises(ValueError, match="is not an index"):
        MovingIndex.load(tmp_path / "none", metric)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    with pytest.raises(ValueError, match="exists and is not an index"):
        MovingIndex(items, metric).save(tmp_path / "other")


def test_a_save_that_fails_leaves_the_earlier_one(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    items, metric, folder = np.eye(3), Metric(np.eye(3)), tmp_path / "index"
    MovingIndex(items, metric, ids=["a", "b", "c"]).save(folder)
    rename = Path.rename

    def fail(self: Path, target: Any) -> Any:
        if self.name.endswith(".new"):
            raise OSError("no space")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="no space"):
        MovingIndex(items, metric, ids=["x", "y", "z"]).save(folder)
    monkeypatch.undo()
    assert MovingIndex.load(folder, metric).ids == ["a", "b", "c"]
    folder.rename(tmp_path / ".index.old")  # as after a crash between the two steps
    assert MovingIndex.load(folder, metric).ids == ["a", "b", "c"]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_an_index_of_other_items_is_refused(tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    for n in (300, 200):
        index = MovingIndex(rng.normal(size=(n, 4)), Metric(np.eye(4)), backend="usearch")
        index.save(tmp_path / str(n))
    for file in (tmp_path / "300" / "built").iterdir():
        file.write_bytes((tmp_path / "200" / "built" / file.name).read_bytes())
    with pytest.raises(ValueError, match="an index of 200 other items"):
        MovingIndex.load(tmp_path / "300", Metric(np.eye(4)))


@pytest.mark.parametrize("ids", [[1, "a", 2.5], np.array([5, 6, 7]), [np.int64(3), np.str_("b"), 4]])
def test_ids_that_are_text_or_numbers_are_saved(ids: Any, tmp_path: Any) -> None:
    index = MovingIndex(np.eye(3), Metric(np.eye(3)), ids=ids)
    index.save(tmp_path / "index")
    assert MovingIndex.load(tmp_path / "index", Metric(np.eye(3)), items=np.eye(3).tolist()).ids == list(ids)


def test_other_ids_are_not_saved(tmp_path: Any) -> None:
    index = MovingIndex(np.eye(2), Metric(np.eye(2)), ids=[("a", 1), ("a", 2)])
    with pytest.raises(TypeError, match=r"the id \('a', 1\) cannot be saved"):
        index.save(tmp_path / "index")
    assert not list(tmp_path.iterdir())


def test_a_refused_id_does_not_change_how_items_are_named() -> None:
    index = MovingIndex(np.eye(2), Metric(np.eye(2)))
    with pytest.raises(ValueError, match="the id 1 at row 1 is in the index already"):
        index.add(np.eye(2), ids=["x", 1])
    index.add(np.eye(2))
    assert index.ids == [0, 1, 2, 3]


def test_the_repr_says_what_is_in_it() -> None:
    index = MovingIndex(np.eye(3)[:2], Metric(np.eye(3)))
    index.add(np.eye(3)[2:])
    assert repr(index) == "<MovingIndex of 3 items with 3 features, backend 'exact'>"


def test_one_id_counts_as_a_list_of_one() -> None:
    for ids in (None, [f"u{i}" for i in range(9)]):
        index = MovingIndex(np.random.default_rng(0).normal(size=(9, 3)), Metric(np.eye(3)), ids=ids)
        one = index.ids[7]
        single, several = index.neighbors_of(one, k=2), index.neighbors_of([one], k=2)
        assert single.ids.tolist() == several.ids.tolist()
        assert single.ids.shape == (1, 2)
        assert (index.vectors_of(one) == index.vectors_of([one])).all()
        index.update([[1.0, 2.0, 3.0]], one)
        assert index.vectors_of(one).tolist() == [[1.0, 2.0, 3.0]]
        index.remove(one)
        assert one not in index
        with pytest.raises(ValueError, match=f"there is no item {one!r} in the index"):
            index.neighbors_of(one)


@pytest.mark.parametrize("kind", ["index", "column", "polars"])
def test_a_table_gives_its_ids(kind: str, tmp_path: Path) -> None:
    points, names = np.random.default_rng(0).normal(size=(9, 3)), [f"u{i}" for i in range(9)]
    columns = dict(zip("abc", points.T, strict=True))
    table = {
        "index": pd.DataFrame(columns, index=names),
        "column": pd.DataFrame({"id": names, **columns}),
        "polars": pl.DataFrame({"id": names, **columns}),
    }[kind]
    index = MovingIndex(table[:8], MetricTracker(preprocessor=table).start(3))
    index.add(table[8:])
    assert index.ids == names
    assert (index.vectors_of(["u8", "u1"]) == points[[8, 1]]).all()
    assert MovingIndex(table, index.metric, ids=range(9)).ids == list(range(9))
    index.save(tmp_path / "index")
    assert MovingIndex.load(tmp_path / "index", index.metric, items=table).ids == names


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_table_with_a_column_of_integers_named_id_is_refused(kind: Any) -> None:
    items = kind({"id": [7, 8, 9], "x": [0.0, 1.0, 2.0]})
    for ids in (None, [7, 8, 9]):
        with pytest.raises(ValueError, match="items has a column 'id' of integers"):
            MovingIndex(items, Metric(np.eye(2)), ids=ids)


def test_a_table_whose_index_holds_other_integers_than_positions_needs_ids() -> None:
    table = pd.DataFrame(np.eye(3))[1:]
    with pytest.raises(ValueError, match="items is a table with the index 1 in row 0"):
        MovingIndex(table, Metric(np.eye(3)))
    assert MovingIndex(table, Metric(np.eye(3)), ids=table.index).ids == [1, 2]


# Input.


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda index: index.search([1.0, 2.0]), "queries has 2 features; 3 are expected"),
        (lambda index: index.search([1.0, 2.0, np.nan]), "queries holds nan"),
        (lambda index: index.search([1.0, 2.0, 3.0], k=0), "k must be"),
        (lambda index: index.add([[1.0, 2.0]], ids=["x"]), "items has 2 features; 3 are expected"),
        (lambda index: index.add([[1.0, np.inf, 2.0]], ids=["x"]), r"items holds inf at index \(0, 1\)"),
        (lambda index: index.add([[1.0, 2.0, 3.0]], ids=["a"]), "the id 'a' at row 0 is in the index already"),
        (lambda index: index.add([[1.0, 2.0, 3.0]] * 2, ids=["x", "x"]), "the id 'x' is repeated, at row 1"),
        (lambda index: index.add([[1.0, 2.0, 3.0]]), "the new ones need ids, too"),
        (lambda index: index.add([[1.0, 2.0, 3.0]], ids=["x", "y"]), "2 ids and 1 items"),
        (lambda index: index.add([[1.0, 2.0, 3.0]] * 2, ids="n2"), "ids is the text 'n2'"),
        (lambda index: index.add([[1.0, 2.0, 3.0]], ids=[["x"]]), "the id at row 0 is a list"),
        (lambda index: index.add([], ids=[]), "with at least one item"),
        (lambda index: index.remove(["z"]), "there is no item 'z'"),
        (lambda index: index.remove(["a", "a"]), "an item is named twice"),
        (lambda index: index.update([[1.0, 2.0, 3.0]], ["z"]), "there is no item 'z'"),
        (lambda index: index.neighbors_of(["z"]), "there is no item 'z'"),
        (lambda index: index.neighbors_of([]), "ids is empty"),
        (lambda index: index.within([0.0, 0.0, 0.0]), "a metric alone makes no decisions"),
        (lambda index: index.within([0.0, 0.0, 0.0], probability=1.0), "probability must be below 1"),
        (lambda index: setattr(index, "metric", Metric([[1.0]])), "3 features; the metric has 1"),
        (lambda index: setattr(index, "metric", "metric"), "metric has the type str"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(call: Any, sentence: str) -> None:
    index = MovingIndex(np.eye(3), Metric(np.eye(3)), ids=["a", "b", "c"])
    with pytest.raises((TypeError, ValueError), match=sentence):
        call(index)
    assert index.ids == ["a", "b", "c"]
    assert index.search([1.0, 0.0, 0.0], k=1).ids.tolist() == ["a"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"items": [[np.nan, 1.0]]}, r"items holds nan at index \(0, 0\)"),
        ({"items": [1.0, 2.0]}, "shape"),
        ({"items": np.zeros((0, 2))}, "at least one item"),
        ({"items": [["a", "b"]]}, "items"),
        ({"ids": ["x"]}, "1 ids and 2 items"),
        (
            {"metric": MetricTracker()},
            r"metric has the type MetricTracker; .* a MetricTracker .* started, by fit or \.start\(n_features\)",
        ),
        (
            {"metric": AdaptiveTracker(2)},
            r"the type AdaptiveTracker; accepted: a Metric, such as tracker\.play\(\) or fleet\.metric\(key\), or",
        ),
        ({"ids": "xy"}, r"ids is the text 'xy'; accepted: a sequence of ids, one for each item, such as \['xy'\]"),
        ({"backend": "best"}, "there is no backend 'best'; accepted: exact, faiss"),
        ({"options": {"kind": "flat"}}, "the backend 'exact' has no options"),
        ({"backend": "faiss", "options": {"kind": "tree"}}, "kind is 'tree'"),
        ({"backend": "faiss", "options": {"foo": 1}}, "^the backend 'faiss' has no option 'foo'; accepted: kind$"),
        ({"backend": "faiss", "options": "hnsw"}, "^options is 'hnsw'; accepted: a dict, such as {'kind': 'hnsw'}$"),
        ({"recall": 1.5}, "recall"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    given = {"items": [[0.0, 1.0], [2.0, 3.0]], "metric": Metric(np.eye(2)), **arguments}
    with pytest.raises((TypeError, ValueError), match=sentence):
        MovingIndex(given.pop("items"), given.pop("metric"), **given)


def test_sparse_items_are_refused() -> None:
    from scipy.sparse import csr_array

    with pytest.raises(TypeError, match="items is a sparse matrix"):
        MovingIndex(csr_array(np.eye(3)), Metric(np.eye(3)))


def test_an_empty_index_says_so() -> None:
    index = MovingIndex(np.eye(2), Metric(np.eye(2)))
    index.remove([0, 1])
    with pytest.raises(ValueError, match="the index has no items"):
        index.search([0.0, 0.0])
    index.add(np.eye(2))
    assert index.search([1.0, 0.0], k=1).ids.tolist() == [2]


# Indexes of other libraries.


@pytest.mark.parametrize(("backend", "options"), BACKENDS)
def test_approximate_indexes_keep_their_promise(backend: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(5)
    items = (rng.normal(size=(1500, 6)) @ rng.normal(size=(6, 24)) + 0.1 * rng.normal(size=(1500, 24))).astype(
        np.float32
    )
    tracker = MetricTracker().start(24)
    index, exact = MovingIndex(items, tracker, backend=backend, options=options), MovingIndex(items, tracker)
    recalls = []
    for t in range(120):
        i, j = rng.integers(1500, size=2)
        tracker.learn_one(items[i], items[j], (items[i, 0] > 0) == (items[j, 0] > 0))
        query = items[rng.integers(1500)] + 0.05
        found = index.search(query)
        assert not found.exact
        if t % 10 == 9:
            index.check_recall()
            truth = exact.search(query)
            recalls.append(np.isin(truth.ids, index.search(query).ids).mean())
    assert np.mean(recalls) >= 0.98
    assert index.measured_recall >= 0.99
    assert index.n_renewals <= 1


def test_an_index_is_renewed_when_the_metric_has_moved_far() -> None:
    rng = np.random.default_rng(6)
    items = rng.normal(size=(3000, 16)).astype(np.float32)
    before = Metric.from_diagonal([100.0] * 2 + [0.01] * 14)
    index = MovingIndex(items, before, backend="faiss", options={"kind": "flat"})
    index.search(items[:20])
    assert index.check_recall() == 1.0
    index.metric = Metric.from_diagonal([0.01] * 14 + [100.0] * 2)
    assert index.spread(before) > 5
    assert index.spread(index.metric.scaled(3.0)) == pytest.approx(1.0)
    assert index.check_recall() < 0.99
    assert index.n_renewals == 1
    assert index.check_recall() >= 0.99
    assert index.n_renewals == 1


def test_items_that_were_added_and_removed_are_known_before_a_renewal() -> None:
    rng = np.random.default_rng(7)
    items = rng.normal(size=(500, 8)).astype(np.float32)
    index = MovingIndex(items, Metric(np.eye(8)), backend="usearch")
    index.search(items[0])
    index.add(items[:1] + 0.001)
    assert index.search(items[0], k=2).ids.tolist() == [0, 500]
    index.remove([0])
    assert index.search(items[0], k=1).ids.tolist() == [500]
    index.update(items[[7]], [500])
    assert set(index.search(items[7], k=2).ids.tolist()) == {7, 500}
    assert index.n_renewals == 0


def wait_for(condition: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the background did not end"
        time.sleep(0.05)


def test_a_metric_that_is_set_anew_is_measured_again() -> None:
    """Two metrics of the same round, so that the number of answers says nothing."""
    rng = np.random.default_rng(8)
    items = rng.normal(size=(3000, 16)).astype(np.float32)
    index = MovingIndex(items, Metric.from_diagonal([100.0] * 2 + [0.01] * 14), backend="faiss")
    index.search(items[:20])
    index.metric = Metric.from_diagonal([0.01] * 14 + [100.0] * 2)
    index.search(items[:20])
    wait_for(lambda: index.n_renewals == 1)
    assert index.check_recall() >= 0.98


@pytest.mark.parametrize(("backend", "options"), BACKENDS)
def test_as_many_neighbours_as_there_are(backend: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(9)
    items = rng.normal(size=(600, 4)).astype(np.float32)
    index = MovingIndex(items, Metric(np.eye(4)), backend=backend, options=options)
    assert index.search(items[:3], k=1000).ids.shape == (3, 600)
    index.remove(list(range(560)))
    assert index.search(items[:3], k=10).ids.shape == (3, 10)
    assert index.search(items[:3], k=100).ids.shape == (3, 40)
    index.check_recall()
    assert index.n_renewals >= 1
    index.remove(list(range(560, 600)))
    with pytest.raises(ValueError, match="the index has no items"):
        index.renew()


@pytest.mark.parametrize(("backend", "options"), BACKENDS)
def test_a_metric_by_which_all_are_equal(backend: str, options: dict[str, Any]) -> None:
    index = MovingIndex(np.eye(50), Metric.from_diagonal(np.zeros(50)), backend=backend, options=options)
    assert index.search(np.zeros(50), k=3).distances.tolist() == [0.0, 0.0, 0.0]
    diagonal = MovingIndex(np.eye(50), Metric.from_diagonal(np.ones(50)), backend=backend, options=options)
    assert diagonal.search(np.eye(50)[7], k=1).ids.tolist() == [7]


@pytest.mark.parametrize(
    ("backend", "module"), [("faiss", "faiss"), ("usearch", "usearch.index"), ("lancedb", "lancedb")]
)
def test_a_missing_library_is_named(backend: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"ocelad.neighbors.backends.{backend}_backend", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'ocelad\[{backend}\]'"):
        MovingIndex(np.eye(2), Metric(np.eye(2)), backend=backend)
