"""Projects that learn a curved distance: the same bits as a replay, what they learn, settings, and what is shown."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from test_service_learning import (
    active_answers,
    answer,
    item_set,
    project,
    random_log,
    running_learner,
    undo,
    wait_for,
)

from ocelad import Metric, MetricTracker
from ocelad.adaptive import curved_tracker
from ocelad.choice import PairChooser
from ocelad.curved_metric import CurvedMetric
from ocelad.engines import kernel_loading
from ocelad.estimators.distance_shares import distance_shares
from ocelad.feature_maps import LandmarkMap
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import View, check_settings, with_known_items
from ocelad.service.learning import learner_thread as learner_module
from ocelad.service.learning.item_points import ItemPoints, MeasuredPoints, as_linear
from ocelad.service.learning.learning_state import Answers, LearningState
from ocelad.service.learning.map_projection import MapProjection
from ocelad.service.learning.timeline import TimelineRecorder

LINEAR = {"method": "adaptive"}
FROM_ANSWERS = {"method": "adaptive", "curved": True}


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Decides whether compiled code is ready."""
    ready = {"ready": True}
    monkeypatch.setattr(
        kernel_loading, "kernels_ready", lambda family="adaptive", **_: family != "adaptive" or ready["ready"]
    )
    return ready


def of_items(items: ItemSet) -> dict[str, Any]:
    """The settings that a new project with these items stores if answers imply no others."""
    return with_known_items(check_settings(items.features.shape[1], {"transitive": False}), len(items))


def disk(n_items: int, n_features: int = 2, seed: int = 0) -> tuple[ItemSet, np.ndarray]:
    """Items in a disk or in the ring around it, as many of both, and which of them are in the disk."""
    rng = np.random.default_rng(seed)
    inside = np.arange(n_items) % 2 == 0
    angle, radius = rng.uniform(0, 2 * np.pi, n_items), np.where(inside, rng.uniform(0, 1, n_items), 2.0)
    features = np.zeros((n_items, n_features))
    features[:, :2] = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return item_set(features, np.ones(n_features)), inside


def log_about(classes: np.ndarray, n_entries: int, seed: int = 0) -> list[Entry]:
    rng, log = np.random.default_rng(seed), []
    for seq in range(1, n_entries + 1):
        left, right = rng.choice(len(classes), 2, replace=False).tolist()
        kind = "same" if classes[left] == classes[right] else "different"
        log.append(answer(seq, left, right, kind, str(rng.choice(["random", "active"]))))
    return log


def replay(log: Sequence[Entry], items: ItemSet, n_known: int | None) -> CurvedMetric:
    """By definition: a tracker that knows the first items, and learns from all answers one by one."""
    points = items.points
    tracker = MetricTracker(curved=True, preprocessor=None if n_known is None else points[:n_known])
    tracker.start(points.shape[1])
    for entry in active_answers(log):
        tracker.learn_one(points[entry.left], points[entry.right], entry.kind == "same")
    return tracker.metric_


def final_view(
    log: list[Entry], items: ItemSet, tracker_settings: dict[str, Any], snapshot: Path | None = None
) -> View:
    with running_learner(log, items, tracker_settings, snapshot) as learner:
        return wait_for(learner, len(log))


def assert_same_bits(view: View, other: View) -> None:
    assert view.metric == other.metric
    np.testing.assert_array_equal(view.timeline.table, other.timeline.table)
    np.testing.assert_array_equal(view.shares, other.shares)
    assert view.timeline.changes == other.timeline.changes
    assert view.expert_names == other.expert_names


# What is learned.


def test_a_project_learns_a_question_that_no_linear_distance_answers(kernels: dict[str, bool]) -> None:
    items, inside = disk(200)
    log, rng = log_about(inside, 300), np.random.default_rng(9)
    left, right = rng.integers(200, size=(2, 400))
    same = inside[left] == inside[right]
    errors = {}
    for name, tracker_settings in (("curved", of_items(items)), ("linear", LINEAR)):
        view = final_view(log, items, tracker_settings)
        errors[name] = np.mean((expit(view.margins(left, right)) > 0.5) != same)
        neighbors = [view.neighbors(position, 10)[0] for position in range(40)]
        errors[f"neighbors, {name}"] = np.mean([inside[found] != inside[i] for i, found in enumerate(neighbors)])
        assert view.curved == (name == "curved")
    assert errors["curved"] < 0.1
    assert errors["linear"] > 0.25
    assert errors["neighbors, curved"] < 0.05


def test_probabilities_and_decisions_are_those_of_a_tracker(kernels: dict[str, bool]) -> None:
    items, inside = disk(60)
    log, points = log_about(inside, 300), items.points
    tracker = MetricTracker(curved=True, preprocessor=points[: len(items)])
    tracker.start(points.shape[1])
    for entry in active_answers(log):
        tracker.learn_one(points[entry.left], points[entry.right], entry.kind == "same")
    left, right = np.random.default_rng(5).integers(60, size=(2, 200))
    pairs = np.stack([points[left], points[right]], axis=1)
    view = final_view(log, items, of_items(items))
    distances = view.distances(points[left], points[right])
    np.testing.assert_allclose(view.probabilities(distances), tracker.predict_proba(pairs)[:, 1], rtol=1e-6)
    for error, decisions in ((0.05, {-1, 1}), (0.001, {0})):
        decided = view.decide(distances, error)
        np.testing.assert_array_equal(decided, tracker.decide(pairs, error))
        assert set(decided.tolist()) == decisions
    rice = final_view(log, items, check_settings(2, {"method": "rice", "transitive": False}))
    assert rice.decide(distances, 0.05) is None


def test_the_descriptions_of_a_curved_view_agree(kernels: dict[str, bool], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    items = item_set(rng.normal(size=(60, 5)) * [1, 10, 0.1, 1, 1], [1.0, 0.1, 10.0, 2.0, 0.5])
    log = log_about(np.abs(np.asarray(items.points)[:, 0]) < 0.7, 150)
    view = final_view(log, items, of_items(items))
    left, right = np.arange(30), np.arange(30, 60)
    distances = view.distances(items.points[left], items.points[right])
    np.testing.assert_allclose(view.margins(left, right), view.metric.threshold - distances**2, rtol=1e-9)
    in_own_units = view.metric_of_features
    np.testing.assert_allclose(in_own_units.distance(items.features[left], items.features[right]), distances, rtol=1e-9)
    in_own_units.save(tmp_path / "metric")
    assert CurvedMetric.load(tmp_path / "metric") == in_own_units != view.metric
    shares = {each.name: each for each in view.feature_shares()}
    of_metric = distance_shares(view.metric, items.points)
    np.testing.assert_allclose([shares[f"f{i}"].share for i in range(5)], of_metric, atol=0.1)
    np.testing.assert_allclose(distance_shares(in_own_units, items.features), of_metric, rtol=1e-6)
    assert sum(each.share for each in shares.values()) == pytest.approx(1.0)
    assert sum(each.initial_share for each in shares.values()) == pytest.approx(1.0)
    variances = np.asarray(items.points).var(axis=0)
    np.testing.assert_allclose([shares[f"f{i}"].initial_share for i in range(5)], variances / variances.sum())
    factors = items.scaling.factors
    matrix = np.outer(factors, factors) * view.metric.linear_part.matrix
    np.testing.assert_allclose(view.linear_part_of_features.matrix, matrix)
    np.testing.assert_allclose([shares[f"f{i}"].weight for i in range(5)], np.diag(matrix))
    np.testing.assert_allclose(view.spectrum, np.linalg.eigvalsh(matrix)[::-1][: len(view.spectrum)], atol=1e-12)
    names = [expert.name for expert in view.summary.experts]
    assert {"Euclidean", "curved Euclidean", "curved COMID 30"} <= set(names)
    assert len(names) == len(view.shares) == view.timeline.table.shape[1] - 4
    np.testing.assert_array_equal(view.timeline.table[-1, 4:], view.shares)  # no expert is cut off


def test_a_view_of_many_features_measures_points_of_unit_length(kernels: dict[str, bool]) -> None:
    rng = np.random.default_rng(0)
    classes = rng.integers(3, size=90)
    features = (rng.normal(size=(3, 140))[classes] + 0.5 * rng.normal(size=(90, 140))) * rng.uniform(0.1, 9, (90, 1))
    items = item_set(features)
    view = final_view(log_about(classes, 120), items, of_items(items))
    assert view.metric.unit_length
    positions, distances = view.neighbors(0, 5)
    brute = view.distances(items.points, items.points[0])
    np.testing.assert_array_equal(positions, np.argsort(brute[1:], kind="stable")[:5] + 1)
    np.testing.assert_allclose(distances, brute[positions], rtol=1e-9)
    assert (classes[positions] == classes[0]).all()
    np.testing.assert_allclose(
        view.distances(9.0 * items.points[1], items.points[2] / 7.0), view.distances(*items.points[1:3])
    )
    points = np.asarray(items.points)
    directions = points / np.linalg.norm(points, axis=1, keepdims=True)
    variances, shares = directions.var(axis=0), {each.name: each for each in view.feature_shares()}
    initial = [shares[name].initial_share for name in items.feature_names]
    np.testing.assert_allclose(initial, variances / variances.sum(), rtol=1e-9)
    assert view.xy.shape == (90, 2)
    assert len(view.clusters(3)) == 90
    assert PairChooser(90, random_share=0.0, seed=0).next(view).distance > 0


@given(st.integers(1, 12), st.integers(2, 60), st.integers(1, 70), st.integers(0, 2**32 - 1), st.booleans())
@settings(deadline=None, max_examples=40)
def test_neighbors_are_those_of_brute_force(
    n_features: int, n_items: int, k: int, seed: int, unit_length: bool
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, n_features)) * 10.0 ** rng.integers(-2, 2, size=n_features)
    feature_map = LandmarkMap.from_points(X, 20, rng)
    linear = Metric.from_factors(rng.normal(size=(2, n_features)) * 10.0 ** rng.integers(-3, 2))
    curved = Metric.low_rank(0.1, rng.normal(size=(2, feature_map.n_outputs)), np.ones(2), 1.0)
    metric = CurvedMetric(linear, feature_map, curved, unit_length=unit_length)
    position = int(rng.integers(n_items))
    found, distances = ItemPoints(item_set(X, np.ones(n_features))).neighbors(metric, position, k)
    brute = metric.distance(X, X[position])
    others = np.delete(np.arange(n_items), position)
    assert len(found) == min(k, n_items - 1) == len(set(found.tolist()) - {position})
    np.testing.assert_allclose(distances, brute[found], rtol=1e-9, atol=1e-9 * brute.max())
    np.testing.assert_allclose(distances, np.sort(brute[others])[:k], rtol=1e-9, atol=1e-9 * brute.max())


# The same bits.


@pytest.mark.parametrize("n_features", [2, 140])
@pytest.mark.parametrize("from_items", [True, False])
def test_undos_and_restarts_give_the_bits_of_a_replay(
    tmp_path: Path,
    kernels: dict[str, bool],
    n_features: int,
    from_items: bool,
) -> None:
    """The log is longer than all rounds at which a map is drawn, or tested."""
    items, inside = disk(30, n_features)
    tracker_settings = of_items(items) if from_items else FROM_ANSWERS
    log = log_about(inside, 300)
    for depth in (1, 200, 290):
        with running_learner(log, items, tracker_settings, tmp_path / "snapshot") as learner:
            wait_for(learner, len(log))
            log.append(undo(len(log) + 1, active_answers(log)[-depth]))
            learner.add_entries(log[-1:])
            view = wait_for(learner, len(log))
    assert view.metric.feature_map is not None
    assert view.metric == replay(log, items, len(items) if from_items else None)
    assert_same_bits(view, final_view(log, items, tracker_settings))


def test_every_restart_gives_the_same_bits_while_the_map_changes(
    kernels: dict[str, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Answers move from items at one place to items at another, so that the map is drawn again."""
    monkeypatch.setattr(curved_tracker, "TEST_PERIOD", 32)
    points = np.concatenate(
        [np.random.default_rng(0).normal(size=(40, 3)), np.random.default_rng(1).normal(30, 1, (40, 3))]
    )
    chance, tracker_settings = np.random.default_rng(2), {**FROM_ANSWERS, "known_items": 40}
    state, maps = LearningState(3, tracker_settings, points), []
    resumed = state
    for seq in range(1, 310):
        left, right = (chance.choice(40, 2, replace=False) + (40 if seq > 240 else 0)).tolist()
        kind = "same" if abs(points[left, 0] - points[right, 0]) < 1 else "different"
        given_answer = Answers.from_entries([answer(seq, left, right, kind)], ())
        state, resumed = state.learn(given_answer, points), resumed.learn(given_answer, points)
        if seq % 50 == 0 or seq in (287, 288, 289, 303):  # also just before and after a map was drawn
            resumed = LearningState(3, tracker_settings, points).with_state(*resumed.state())
        if not maps or maps[-1] is not state.feature_map:
            maps.append(state.feature_map)
    assert len(maps) > 1
    assert resumed.tracker.play() == state.tracker.play()
    metric = state.tracker.play()
    np.testing.assert_array_equal(resumed.timeline(metric).table, state.timeline(metric).table)
    assert np.isfinite(state.timeline(metric).table).all()


def test_learning_before_kernels_are_ready_ends_with_the_same_bits(tmp_path: Path, kernels: dict[str, bool]) -> None:
    items, inside = disk(20)
    log, path = log_about(inside, 140), tmp_path / "snapshot"
    kernels["ready"] = False
    with running_learner(log, items, of_items(items), path) as learner:
        provisional = wait_for(learner, 140)
    assert not path.exists()  # with the rounding of plain NumPy, it would not be that of a replay
    with running_learner(log, items, of_items(items), path) as learner:
        wait_for(learner, 140)
        kernels["ready"] = True
        expected = replay(log, items, len(items))
        np.testing.assert_allclose(
            provisional.metric.embed(items.points), expected.embed(items.points), rtol=1e-3, atol=1e-6
        )
        log.append(answer(141, 0, 1))
        learner.add_entries(log[140:])
        view = wait_for(learner, 141)
    assert view.metric == replay(log, items, len(items))
    assert_same_bits(view, final_view(log, items, of_items(items)))


def test_items_that_are_added_later_do_not_change_what_was_learned(tmp_path: Path, kernels: dict[str, bool]) -> None:
    all_items, inside = disk(60)
    few = item_set(all_items.features[:40], np.ones(2))
    tracker_settings, log = of_items(few), log_about(inside[:40], 80)
    with running_learner(log, few, tracker_settings, tmp_path / "snapshot") as learner:
        before = wait_for(learner, 80)
        learner.replace_items(all_items)
        log += [answer(81, 3, 59), answer(82, 58, 59, "different")]
        learner.add_entries(log[80:])
        view = wait_for(learner, 82)
        assert len(view.xy) == len(view.clusters(3)) == len(view.items) == 60
        assert len(before.xy) == 40
        assert 59 in view.neighbors(0, 59)[0]
    assert view.metric == replay(log, all_items, 40) != replay(log, all_items, 60)
    with running_learner(log, all_items, tracker_settings, tmp_path / "snapshot") as learner:
        assert learner.view.seq == 82  # from the snapshot
        assert_same_bits(learner.view, view)
    fresh = final_view(log, all_items, tracker_settings)  # all items are known at the start, as after a kill
    assert_same_bits(fresh, view)
    log.append(undo(83, log[2]))
    with running_learner(log, all_items, tracker_settings, tmp_path / "snapshot") as learner:
        assert wait_for(learner, 83).metric == replay(log, all_items, 40)


@pytest.mark.parametrize(("before", "after"), [(True, False), (False, True)])
def test_a_snapshot_of_the_other_kind_of_distance_is_ignored(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    kernels: dict[str, bool],
    before: bool,
    after: bool,
) -> None:
    items, inside = disk(20)
    log, of_kind = log_about(inside, 30), {True: of_items(items), False: LINEAR}
    final_view(log, items, of_kind[before], tmp_path / "snapshot")
    with caplog.at_level(logging.WARNING):
        view = final_view(log, items, of_kind[after], tmp_path / "snapshot")
    assert "a snapshot cannot be used" in caplog.text
    assert_same_bits(view, final_view(log, items, of_kind[after]))


# The map, the timeline, and when points are computed again.


def test_curved_features_of_items_are_computed_once_per_map(
    kernels: dict[str, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learner_module, "_PUBLISH_PAUSE", 0.0)
    monkeypatch.setattr(learner_module, "_MAX_BATCH_SIZE", 4)
    items, inside = disk(50)
    views: list[View] = []
    log = log_about(inside, 100)
    with running_learner(log, items, of_items(items), on_view=views.append) as learner:
        wait_for(learner, 100)
    assert len(views) > 5
    assert len({id(view._measured) for view in views}) == 1
    assert views[0]._measured.n_measured == 2 + views[0].metric.feature_map.n_outputs


def two_metrics() -> tuple[np.ndarray, CurvedMetric, CurvedMetric]:
    """Points, and about the same distance by two maps."""
    X = np.random.default_rng(0).normal(size=(150, 3)) * [3.0, 2.0, 1.0]
    maps = [LandmarkMap.from_points(X, n, np.random.default_rng(n), max_outputs=n - 10) for n in (60, 80)]
    parts = [Metric.from_diagonal(np.full(each.n_outputs, 5.0)) for each in maps]
    one, other = (CurvedMetric(Metric(np.eye(3)), *both) for both in zip(maps, parts, strict=True))
    return X, one, other


def test_the_map_hardly_moves_when_the_feature_map_is_drawn_again() -> None:
    X, one, other = two_metrics()
    item_points, projection = ItemPoints(item_set(X, np.ones(3))), MapProjection()
    maps = [project(projection, item_points.measured_by(metric), metric)[1] for metric in (one, one, other, other)]
    assert item_points.measured_by(one).n_measured != item_points.measured_by(other).n_measured
    steps = [np.linalg.norm(after - before) / np.linalg.norm(before) for before, after in pairwise(maps)]
    assert max(steps) < 0.1  # a flipped axis would move it by 1 or more


def test_the_map_shows_the_principal_components_of_a_curved_distance() -> None:
    X, metric, _ = two_metrics()
    coordinates, _ = project(MapProjection(), MeasuredPoints(X, metric), metric)
    embedded = metric.embed(X)
    embedded -= embedded.mean(axis=0)
    expected = np.linalg.svd(embedded, full_matrices=False)[1][:2]
    shown = np.linalg.norm(coordinates[:, :2], axis=0)
    np.testing.assert_allclose(shown / shown[0], expected / expected[0], rtol=1e-4)


def test_an_extended_metric_measures_the_same_distances() -> None:
    X, metric, _ = two_metrics()
    points = metric.extend(X)
    np.testing.assert_allclose(as_linear(metric).distance(points[0], points[1:]), metric.distance(X[0], X[1:]))


def test_the_drift_of_both_parts_and_across_a_new_map() -> None:
    _, one, other = two_metrics()
    shares, y = np.ones(1), np.ones(1)

    def drift(metric: CurvedMetric, *, new_map: bool = False) -> float:
        recorder = TimelineRecorder.start(one, "logistic")
        recorder.add(y, y)
        if new_map:
            recorder.forget_curved()
        recorder.end_row(metric, shares)
        return float(recorder.rows[0][3])

    def with_parts(linear: float, curved: float) -> CurvedMetric:
        return CurvedMetric(one.linear_part.scaled(linear), one.feature_map, one.curved_part.scaled(curved))

    def norm(linear: float, curved: float) -> float:
        return float(np.hypot(linear * np.sqrt(3), curved * 5 * np.sqrt(one.curved_part.n_features)))

    assert drift(one) == 0.0
    assert drift(with_parts(1, 2)) == pytest.approx(norm(0, 1) / norm(1, 2))
    assert drift(with_parts(2, 1)) == pytest.approx(norm(1, 0) / norm(2, 1))
    assert drift(other, new_map=True) == 0.0  # only the linear part can be compared, and it did not move
    assert drift(with_parts(2, 9), new_map=True) == pytest.approx(0.5)


def test_a_saved_timeline_of_a_curved_metric_continues_and_damage_is_refused() -> None:
    _, metric, other = two_metrics()
    n = metric.curved_part.n_features
    recorder = TimelineRecorder.start(metric, "logistic")
    recorder.add(np.ones(1), np.ones(1))
    arrays, metadata = recorder.state()
    fresh = TimelineRecorder.start(other, "logistic")
    resumed, changed = fresh.with_state(arrays, metadata, n), metric.curved_part.scaled(3.0)
    moved = CurvedMetric(metric.linear_part, metric.feature_map, changed)
    assert resumed.timeline(moved, np.ones(1), ("1",)).table[0, 3] > 0.1
    for each in (resumed, recorder):
        each.end_row(moved, np.ones(1))
    np.testing.assert_array_equal(resumed.rows[0], recorder.rows[0])
    for wrong in (np.full((n, n), np.nan), np.eye(n + 1), np.eye(n)[0]):
        with pytest.raises(ValueError, match="the timeline has a curved part"):
            fresh.with_state({**arrays, "curved_before": wrong}, metadata, n)


# Settings.


def test_settings_of_new_projects_are_curved_unless_refused() -> None:
    curved = {"method": "adaptive", "curved": True, "transitive": True}
    assert check_settings(4, {}) == curved
    assert check_settings(4, {"method": "adaptive", "curved": True}) == curved
    assert check_settings(4, {"curved": False}) == {**curved, "curved": False}
    assert "curved" not in check_settings(4, {"method": "rice", "curved": False})
    assert "curved" not in check_settings(4, {"method": "rice"})
    with pytest.raises(ValueError, match=r"^the method rice learns a linear distance; accepted: curved=false"):
        check_settings(4, {"method": "rice", "curved": True})
    for wrong in ("auto", 1, None):
        with pytest.raises(ValueError, match=r"^curved is .*; accepted: true or false$"):
            check_settings(4, {"curved": wrong})
    with pytest.raises(ValueError, match="the tracker has no setting 'known_items'; accepted: curved, diagonal"):
        check_settings(4, {"known_items": 3})


@pytest.mark.parametrize("stored", [LINEAR, {"method": "adaptive", "curved": False}])
def test_stored_settings_without_a_curved_distance_stay_linear(
    kernels: dict[str, bool], stored: dict[str, Any]
) -> None:
    items, log = item_set(np.random.default_rng(0).normal(size=(10, 3))), random_log(80, 10)
    view, tracker = final_view(log, items, stored), MetricTracker().start(3)
    for entry in active_answers(log):
        tracker.learn_one(items.points[entry.left], items.points[entry.right], entry.kind == "same")
    assert isinstance(view.metric, Metric)
    assert view.metric == tracker.metric_
