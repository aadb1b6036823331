"""Projects of float32 vectors: files that are mapped into memory, and views that compute what is asked for."""

from __future__ import annotations

import io
import os
import sqlite3
import tracemalloc
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres import postgres  # noqa: F401  a fixture
from test_service_learning import answer, item_set, random_log, running_learner, wait_for

from ocelad import Metric, MetricTracker, PairChooser
from ocelad.choice import TrackerView
from ocelad.estimators import known_items
from ocelad.neighbors.exact_search import ExactSearch
from ocelad.service.items import ItemsError, check_new_items, fit_scaling, items_digest, load_items, write_items
from ocelad.service.items.load_items import parse_upload
from ocelad.service.items.sandbox import read_upload
from ocelad.service.items.upload_limits import UploadLimits
from ocelad.service.itemset import ItemSet, ScaledPoints, Scaling
from ocelad.service.learning import clusters, item_points
from ocelad.service.learning.clusters import StableKMeans
from ocelad.service.learning.item_points import ItemPoints, MeasuredPoints
from ocelad.service.learning.map_projection import MapProjection
from ocelad.service.learning.tracker_settings import TrackerSettings
from ocelad.service.service import Service
from ocelad.service.settings import Settings
from ocelad.service.store import Store, StoreUnavailable, vector_files
from ocelad.service.store.database import DATABASE_FILE
from ocelad.service.wire import NewItem

N_FEATURES = 7


def vectors(n: int, seed: int = 0, n_features: int = N_FEATURES) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, n_features)).astype(np.float32)


def vector_items(n: int, seed: int = 0, prefix: str = "") -> ItemSet:
    names = tuple(f"x{i}" for i in range(N_FEATURES))
    ids = tuple(f"{prefix}{i}" for i in range(n))
    return ItemSet(ids, vectors(n, seed), names, Scaling("all", np.full(N_FEATURES, 0.7)))


def is_mapped(array: Any) -> bool:
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    return None if request.param == "sqlite" else request.getfixturevalue("postgres").new_url()


def create(folder: Path, items: ItemSet, url: str | None = None) -> None:
    with Store.open(folder, url) as store:
        store.create_project("p", "P", items, settings={}, digest="d")


def load(folder: Path, url: str | None = None) -> ItemSet:
    with Store.open(folder, url) as store:
        return store.items("p")


def vector_file(folder: Path) -> Path:
    (path,) = (folder / vector_files.FOLDER).iterdir()
    return path


# Files.


def test_float32_vectors_are_stored_bit_for_bit_and_mapped_into_memory(tmp_path, url):
    items = vector_items(50)
    create(tmp_path, items, url)
    for _ in range(2):  # the second time, the file exists
        loaded = load(tmp_path, url)
        assert loaded.features.dtype == np.float32
        assert loaded.features.tobytes() == items.features.tobytes()
        assert is_mapped(loaded.features)
        assert (loaded.ids, loaded.metadata()) == (items.ids, items.metadata())
    assert vector_file(tmp_path).stat().st_size < items.features.nbytes + 100


def test_the_database_stores_four_bytes_for_a_float32_number_and_eight_for_others(tmp_path):
    items = vector_items(5)
    for name, features in (("single", items.features), ("double", items.features.astype(np.float64))):
        create(tmp_path / name, replace(items, features=features))
        with closing(sqlite3.connect(tmp_path / name / DATABASE_FILE)) as database:
            stored = b"".join(row[0] for row in database.execute("SELECT features FROM items ORDER BY position"))
        assert stored == features.tobytes()
    assert load(tmp_path / "double").features.dtype == np.float64
    assert not (tmp_path / "double" / vector_files.FOLDER).exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:30],
        lambda content: content[:-1],
        lambda content: b"x" + content[1:],
        lambda content: content[:64] + b"\1" + content[65:],  # the first vector
        lambda content: content[:-2] + b"\1" + content[-1:],  # the last one
    ],
)
def test_a_damaged_file_of_vectors_is_written_again(tmp_path, damage):
    items = vector_items(200)
    create(tmp_path, items)
    load(tmp_path)
    path = vector_file(tmp_path)
    content = path.read_bytes()
    assert damage(content) != content
    path.write_bytes(damage(content))
    assert load(tmp_path).features.tobytes() == items.features.tobytes()
    assert path.read_bytes() == content


def test_added_vectors_extend_the_file_and_leave_mapped_arrays_as_they_are(tmp_path, url, monkeypatch):
    create(tmp_path, vector_items(30), url)
    more, firsts, append = vector_items(12, 1, "more "), [], vector_files._append

    def spy(path, n_written, *others):
        firsts.append(n_written)
        append(path, n_written, *others)

    monkeypatch.setattr(vector_files, "_append", spy)
    with Store.open(tmp_path, url) as store:
        before = store.items("p")
        assert store.add_items("p", more) == 42
        after = store.items("p")
        np.testing.assert_array_equal(before.features, vectors(30))
        np.testing.assert_array_equal(after.features, np.vstack([vectors(30), more.features]))
        assert is_mapped(after.features)
    assert firsts == [0, 30]
    assert load(tmp_path, url).features.tobytes() == after.features.tobytes()
    assert firsts == [0, 30]


def test_vectors_that_were_not_written_completely_are_written_again(tmp_path):
    """As after a power cut: the file is longer than the header says, and what follows is not on the disk."""
    create(tmp_path, vector_items(30))
    load(tmp_path)
    with Store.open(tmp_path) as store:
        store.add_items("p", vector_items(12, 1, "more "))
    with open(vector_file(tmp_path), "ab") as file:
        file.write(bytes(12 * N_FEATURES * 4))
    np.testing.assert_array_equal(load(tmp_path).features, np.vstack([vectors(30), vectors(12, 1)]))


def test_a_project_of_another_database_has_another_file(tmp_path):
    """A data folder may be used with one PostgreSQL database, and later with another that has a project of this id."""
    first, second = vector_items(20), vector_items(20, 5)
    create(tmp_path, first)
    assert load(tmp_path).features.tobytes() == first.features.tobytes()
    create(tmp_path / "other", second)
    os.replace(tmp_path / "other" / DATABASE_FILE, tmp_path / DATABASE_FILE)
    assert load(tmp_path).features.tobytes() == second.features.tobytes()


def test_a_file_that_cannot_be_written_is_reported_in_one_sentence(tmp_path):
    create(tmp_path, vector_items(5))
    (tmp_path / vector_files.FOLDER).write_text("a file instead of a folder")
    with pytest.raises(StoreUnavailable, match=r"cannot create .*vectors"):
        load(tmp_path)


# Reading and writing items.


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(("kind", "expected"), [("f2", "f4"), ("f4", "f4"), (">f4", "f4"), ("f8", "f8"), ("i2", "f8")])
def test_the_precision_of_vectors_is_that_of_the_file(tmp_path, kind, expected):
    array = (10 * vectors(20)).astype(kind)
    (tmp_path / "a.npy").write_bytes(npy(array))
    for items in (load_items(tmp_path / "a.npy"), read_upload(npy(array), "npy")):
        assert items.features.dtype == np.dtype(expected)
        np.testing.assert_array_equal(items.features, array)
        np.testing.assert_allclose(items.scaling.factors, fit_scaling(array.astype(float), "all").factors, rtol=1e-6)


def test_numbers_that_float32_cannot_square_make_vectors_float64():
    array = vectors(5)
    array[2, 3] = 1e30
    items = parse_upload(npy(array), "npy")
    assert items.features.dtype == np.float64
    np.testing.assert_array_equal(items.features, array)


def test_limits_of_float32_vectors_are_their_own():
    limits = UploadLimits(max_values=10, max_single_values=5 * N_FEATURES)
    assert len(parse_upload(npy(vectors(5)), "npy", limits=limits)) == 5
    for array in (vectors(6), vectors(5).astype(np.float64)):
        with pytest.raises(ItemsError, match="too many numbers"):
            parse_upload(npy(array), "npy", limits=limits)


def test_exported_vectors_are_read_again_with_the_same_bits(tmp_path):
    items = vector_items(20)
    for suffix in ("parquet", "jsonl", "csv"):
        write_items(items, tmp_path / f"a.{suffix}")
        np.testing.assert_array_equal(load_items(tmp_path / f"a.{suffix}").features, items.features)


def test_digests_of_items_tell_precisions_apart_and_are_those_of_before_for_float64():
    items = vector_items(5000)
    double = replace(items, features=items.features.astype(np.float64))
    assert items_digest(items) != items_digest(double)
    assert items_digest(items) != items_digest(vector_items(5000, 1))
    # Snapshots of existing projects store this digest.
    points = double.features * double.scaling.factors
    assert ItemPoints(double).digest(4500) == sha256(points[:4500].data).hexdigest()
    assert ItemPoints(double).digest(5000) == sha256(points.data).hexdigest()
    assert ItemPoints(items).digest(5000) != ItemPoints(vector_items(5000, 1)).digest(5000)
    scaled = replace(items, scaling=Scaling("all", np.full(N_FEATURES, 0.8)))
    assert ItemPoints(items).digest(10) != ItemPoints(scaled).digest(10)


def test_new_items_get_the_precision_of_the_project_and_must_fit_it():
    items = vector_items(20)
    new = check_new_items(items, [NewItem(id="new", features=[0.1] * N_FEATURES)])
    assert new.features.dtype == np.float32
    np.testing.assert_array_equal(new.features, np.float32(0.1))
    with pytest.raises(ItemsError, match=r"has a feature beyond 1e\+15"):
        check_new_items(items, [NewItem(id="new", features=[1e16] * N_FEATURES)])


def test_items_can_be_added_to_a_served_project_of_vectors(tmp_path):
    service = Service.open(Settings(folder=tmp_path))
    try:
        project = service.create("p", "P", vector_items(40))
        before = project.view
        new = [NewItem(id=f"new {i}", features=vectors(3, 9)[i].tolist()) for i in range(3)]
        assert service.add_items(project, new) == 43
        assert is_mapped(project.items.features)
        np.testing.assert_array_equal(project.items.features, np.vstack([vectors(40), vectors(3, 9)]))
        with project.learner._changed:
            assert project.learner._changed.wait_for(lambda: len(project.view.items) == 43, 30)
        assert 42 in project.view.neighbors(0, 42)[0]
        # A request may still use the view before: it knows the first items only.
        found, distances = before.neighbors(3, 12)
        brute = before.distances(before.points, before.points[3])
        brute[3] = np.inf
        np.testing.assert_array_equal(found, np.argsort(brute, kind="stable")[:12])
        np.testing.assert_allclose(distances, np.sort(brute)[:12], rtol=1e-9)
        assert before.xy.shape == (40, 2)
    finally:
        service.close()


# Learning.


@pytest.mark.parametrize("options", [{"curved": True, "transitive": True, "known_items": 60}, {"transitive": False}])
def test_float32_and_float64_vectors_give_the_same_metric_bit_for_bit(options):
    log = [entry for entry in random_log(60, 60) if entry.kind != "skip"]
    log = [answer(seq, entry.left, entry.right, entry.kind) for seq, entry in enumerate(log, 1)]
    features, views = vectors(60), []
    for kind in (np.float32, np.float64):
        items = item_set(features.astype(kind), np.full(N_FEATURES, 0.7))
        with running_learner(log, items, {"method": "adaptive", **options}) as learner:
            views.append(wait_for(learner, len(log)))
    single, double = views
    assert single.metric == double.metric
    np.testing.assert_array_equal(single.margins([0, 1], [2, 3]), double.margins([0, 1], [2, 3]))
    for position in range(20):
        found, distances = single.neighbors(position, 9)
        np.testing.assert_array_equal(found, double.neighbors(position, 9)[0])
        np.testing.assert_array_equal(distances, double.neighbors(position, 9)[1])
    for view in views:  # all items are measured, so that those of the map are known
        coordinates = view._measured.centered @ view._axes.directions.astype(np.float32)
        np.testing.assert_allclose(view.coordinates, coordinates, atol=1e-5 * np.abs(coordinates).max())
        np.testing.assert_allclose(view.xy, view._axes.place(coordinates), atol=1e-4)


def test_of_many_float32_items_a_tracker_knows_the_same_sample_as_a_metric_tracker(monkeypatch):
    monkeypatch.setattr(known_items, "MAX_ITEMS", 50)
    options = TrackerSettings("adaptive", True, 80, True)
    points = vector_items(80).points
    known = options.known_points(points)
    assert len({row.tobytes() for row in known}) == 50
    log = [answer(seq, seq, seq + 1, "same" if seq % 3 else "different") for seq in range(1, 6)]
    with running_learner(log, vector_items(80), {"method": "adaptive", "curved": True, "known_items": 80}) as learner:
        metric = wait_for(learner, len(log)).metric
    tracker = MetricTracker(curved=True, preprocessor=np.asarray(points), transitive=False)
    pairs = [[entry.left, entry.right] for entry in log]
    assert tracker.fit(pairs, [entry.kind == "same" for entry in log]).metric_ == metric
    longer = ScaledPoints(np.vstack([vectors(80), vectors(40, 1)]), np.full(N_FEATURES, 0.7))
    np.testing.assert_array_equal(options.known_points(longer), known)
    double = ScaledPoints(vectors(80).astype(np.float64), np.full(N_FEATURES, 0.7))
    np.testing.assert_array_equal(options.known_points(double), double[:])  # as in projects that exist


def test_a_view_reads_all_items_only_when_it_is_asked(monkeypatch):
    calls: list[str] = []
    for name in ("project", "view"):
        original = getattr(ExactSearch, name)

        def spy(self: Any, *arguments: Any, name: str = name, original: Any = original, **options: Any) -> Any:
            calls.append(name)
            return original(self, *arguments, **options)

        monkeypatch.setattr(ExactSearch, name, spy)
    log = [answer(seq, seq, seq + 1, "same" if seq % 2 else "different") for seq in range(1, 30)]
    with running_learner(log, vector_items(60), {"method": "adaptive"}) as learner:
        view = wait_for(learner, len(log))
    view.margins([0], [1])
    assert view.summary.features
    assert calls == []
    assert view.xy is view.xy
    view.clusters(3)
    assert calls == ["project"]
    view.neighbors(0, 3)
    assert calls == ["project", "view"]


def test_memory_beside_the_vectors_is_a_part_of_theirs(monkeypatch):
    """Neither searches nor maps nor learning make a copy of all items."""
    monkeypatch.setattr(item_points, "MAX_MEASURED", 1000)
    n, n_features = 60_000, 128
    rng = np.random.default_rng(0)
    features = rng.standard_normal((n, n_features), dtype=np.float32)
    items = item_set(features, np.full(n_features, 0.3))
    log = [answer(seq, seq, seq + 7, "same" if seq % 3 else "different") for seq in range(1, 21)]
    tracemalloc.start()
    try:
        with running_learner(log, items, {"method": "adaptive"}) as learner:
            view = wait_for(learner, len(log))
            view.neighbors(0, 10)
            view.clusters(5)
            assert view.xy.shape == (n, 2)
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.2 * features.nbytes  # a copy in float64 would take 2


def test_the_choice_of_pairs_is_the_same_for_float32_points_which_are_not_copied():
    X = vectors(200)
    tracker = MetricTracker(preprocessor=X.astype(np.float64)).start(N_FEATURES)
    choosers = [PairChooser(200, seed=0) for _ in range(2)]
    for left in range(40):
        tracker.learn_one(left, left + 1, bool(left % 2))
        views = [TrackerView(tracker, points) for points in (X, X.astype(np.float64))]
        assert views[0].points is X
        single, double = (chooser.next(view) for chooser, view in zip(choosers, views, strict=True))
        assert single == double
        for chooser in choosers:
            chooser.record(single.left, single.right, "same" if left % 2 else "different")


# The map and the clusters of many items.


def test_the_map_of_a_sample_is_about_that_of_all_items(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6)) * [5.0, 3.0, 1.0, 1.0, 1.0, 1.0]
    metric = Metric(np.eye(6))
    places = []
    for size in (3000, 300):
        monkeypatch.setattr(item_points, "MAX_MEASURED", size)
        measured = MeasuredPoints(X, metric)
        assert len(measured.centered) == size
        axes = MapProjection().update(measured, metric)
        coordinates = ((X - measured.mean) / measured.unit) @ axes.directions
        places.append(axes.place(coordinates.astype(np.float32)))
    of_all, of_sample = places
    assert np.abs(of_sample).max() <= 1.0
    fitted = of_sample @ np.linalg.lstsq(of_sample, of_all, rcond=None)[0]
    assert np.linalg.norm(fitted - of_all) < 0.15 * np.linalg.norm(of_all)


def test_the_map_does_not_jump_when_other_items_are_measured(monkeypatch):
    """More items are added than are measured, so that other ones are."""
    monkeypatch.setattr(item_points, "MAX_MEASURED", 100)
    X = np.random.default_rng(0).normal(size=(330, 4)) * [3.0, 2.5, 1.0, 1.0]
    metric, projection, places = Metric(np.eye(4)), MapProjection(), []
    for n in (90, 150, 250, 330):
        measured = MeasuredPoints(X[:n], metric)
        axes = projection.update(measured, metric)
        coordinates = ((X[:90] - measured.mean) / measured.unit) @ axes.directions
        places.append(axes.place(coordinates.astype(np.float32)))
    for before, after in pairwise(places):
        cosine = (before * after).sum() / (np.linalg.norm(before) * np.linalg.norm(after))
        assert cosine > 0.9  # a reflected axis would make it about 0


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=10)
def test_clusters_of_many_items_are_those_of_a_sample(seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(4, size=1000)
    coordinates = (20 * np.eye(4)[truth] + rng.normal(size=(1000, 4))).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clusters, "_MAX_REFINED", 100)
        patch.setattr(clusters, "_BLOCK_ENTRIES", 64)
        k_means = StableKMeans()
        first = k_means.labels(coordinates, 4)
        assert len(set(zip(first.tolist(), truth.tolist(), strict=True))) == 4
        np.testing.assert_array_equal(k_means.labels(coordinates, 4), first)
