"""The learner of a project: the same bits however entries come, views to be trusted, and a plane that is calm."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ocelad import Metric, MetricTracker
from ocelad.estimators.methods import method_from_settings
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet, Scaling
from ocelad.service.learning import Learner, View, default_settings
from ocelad.service.learning import learner as learner_file
from ocelad.service.learning.answer_log import Log
from ocelad.service.learning.clusters import Clusters
from ocelad.service.learning.course import Answers, Checkpoints, Course
from ocelad.service.learning.item_points import ItemPoints
from ocelad.service.learning.nearest import Nearest
from ocelad.service.learning.plane import MOST_TURN, Plane, _turned
from ocelad.service.learning.timeline import next_row_end

PATIENCE = 60.0
LOW_RANK = {"max_rank": 2, "engine": "lowrank"}


def item_set(features: Any, factors: Any = None) -> ItemSet:
    features = np.asarray(features, dtype=float)
    n = features.shape[1]
    factors = np.linspace(0.5, 2.0, n) if factors is None else np.asarray(factors, dtype=float)
    names = tuple(f"f{i}" for i in range(n))
    return ItemSet(tuple(map(str, range(len(features)))), features, names, Scaling("features", factors))


def random_items(n_items: int, n_features: int, seed: int = 0) -> ItemSet:
    return item_set(np.random.default_rng(seed).normal(size=(n_items, n_features)))


def answer(seq: int, left: int, right: int, kind: Any = "same", asked: Any = "given") -> Entry:
    return Entry(seq, 1000 + seq, kind, left, right, asked, "somebody")


def undo(seq: int, undone: Entry) -> Entry:
    return Entry(seq, 1000 + seq, "undo", undone.left, undone.right, undone.source, "somebody", undone.seq)


def random_log(n_entries: int, n_items: int, seed: int = 0, undos: float = 0.0) -> list[Entry]:
    rng = np.random.default_rng(seed)
    log: list[Entry] = []
    for seq in range(1, n_entries + 1):
        if log and rng.random() < undos:
            log.append(undo(seq, log[rng.integers(len(log))]))
            continue
        left, right = rng.choice(n_items, 2, replace=False).tolist()
        kind = rng.choice(["same", "different", "skip"], p=[0.4, 0.5, 0.1])
        log.append(answer(seq, left, right, str(kind), str(rng.choice(["random", "active"]))))
    return log


def standing(log: Sequence[Entry]) -> list[Entry]:
    """The definition: answers that teach something, and that no entry undoes."""
    undone = {entry.undoes for entry in log}
    return [entry for entry in log if entry.kind in ("same", "different") and entry.seq not in undone]


def replayed(log: Sequence[Entry], items: ItemSet, tracker_settings: dict[str, Any]) -> Metric:
    """The definition: a plain fit."""
    kept, tracker = standing(log), MetricTracker(method=method_from_settings(tracker_settings))
    if not kept:
        return tracker.start(items.features.shape[1]).metric_
    pairs = np.stack([items.points[[e.left for e in kept]], items.points[[e.right for e in kept]]], axis=1)
    return tracker.fit(pairs, [1 if e.kind == "same" else -1 for e in kept]).metric_


@contextmanager
def learning(
    log: list[Entry],
    items: ItemSet,
    tracker_settings: dict[str, Any] | None = None,
    snapshot: Path | None = None,
    on_view: Callable[[View], None] | None = None,
) -> Iterator[Learner]:
    def read(after: int, limit: int) -> list[Entry]:
        return log[after : after + limit]

    learner = Learner(items, tracker_settings or {}, snapshot=snapshot, read=read, on_view=on_view)
    try:
        yield learner
    finally:
        learner.close()


def learned(learner: Learner, seq: int) -> View:
    assert learner.wait(seq, PATIENCE), learner.failure
    assert learner.failure is None
    return learner.view


@st.composite
def logs(draw: st.DrawFn, n_items: int) -> list[Entry]:
    log: list[Entry] = []
    for seq in range(1, draw(st.integers(1, 40)) + 1):
        if log and draw(st.integers(0, 3)) == 0:
            log.append(undo(seq, draw(st.sampled_from(log))))
        else:
            left, right = draw(st.lists(st.integers(0, n_items - 1), min_size=2, max_size=2, unique=True))
            kind = draw(st.sampled_from(["same", "different", "skip"]))
            log.append(answer(seq, left, right, kind, draw(st.sampled_from(["random", "given"]))))
    return log


@pytest.mark.parametrize(("n_features", "tracker_settings"), [(3, {}), (5, LOW_RANK)])
@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_view_is_a_plain_replay_however_entries_come(
    n_features: int, tracker_settings: dict[str, Any], data: st.DataObject
) -> None:
    items = random_items(6, n_features)
    log = data.draw(logs(6))
    durable: list[Entry] = []
    views: list[View] = []
    with TemporaryDirectory() as folder:
        while len(durable) < len(log):
            with learning(durable, items, tracker_settings, Path(folder) / "snapshot", views.append) as learner:
                views.append(learner.view)
                for _ in range(data.draw(st.integers(1, 3), label="calls until a restart")):
                    more = log[len(durable) : len(durable) + data.draw(st.integers(1, 12))]
                    durable.extend(more)
                    # Some are told twice, some never: those are found when a later one comes.
                    told = log[max(0, len(durable) - data.draw(st.integers(0, 12), label="told")) : len(durable)]
                    learner.take(told)
                    if told and data.draw(st.booleans(), label="wait"):
                        learned(learner, len(durable))
                learner.take(durable[-1:])
                last = learned(learner, len(durable))
    for view in views:
        assert view.metric == replayed(log[: view.seq], items, tracker_settings)
    with learning(durable, items, tracker_settings) as learner:
        plain = learned(learner, len(durable))
    np.testing.assert_array_equal(last.timeline.table, plain.timeline.table)
    assert last.timeline.to_wire(last.seq) == plain.timeline.to_wire(plain.seq)


@pytest.mark.parametrize(("n_entries", "undos"), [(1500, 0.0), (1300, 0.05)])
def test_a_long_log_gives_the_same_bits_and_rows_with_restarts_and_deep_undos(
    tmp_path: Path, n_entries: int, undos: float
) -> None:
    items = random_items(20, 4)
    log = random_log(n_entries, 20, undos=undos)
    durable: list[Entry] = []
    for cut in (300, 301, 900, n_entries):
        with learning(durable, items, None, tmp_path / "snapshot") as learner:
            more = log[len(durable) : cut]
            durable.extend(more)
            learner.take(more)
            view = learned(learner, cut)
    assert view.metric == replayed(log, items, {})
    only = [answer(i + 1, e.left, e.right, e.kind, e.source) for i, e in enumerate(standing(log))]
    with learning(only, items) as learner:
        plain = learned(learner, len(only))
    np.testing.assert_array_equal(view.timeline.table, plain.timeline.table)
    assert view.timeline.n_honest == plain.timeline.n_honest == sum(e.source == "random" for e in only)
    assert view.timeline.honest_right == plain.timeline.honest_right


def test_the_timeline_tells_what_a_tracker_does(tmp_path: Path) -> None:
    items, log = random_items(20, 3), random_log(700, 20)
    with learning(log, items) as learner:
        table = learned(learner, 700).timeline.table
    kept, tracker = standing(log), MetricTracker(method="rice").start(3)
    right, loss, honest, matrix = [], [], [], tracker.metric_.matrix
    begun = 0
    for row in table:
        for entry in kept[begun : int(row[0])]:
            y = 1 if entry.kind == "same" else -1
            margin = tracker.test_then_train([[items.points[entry.left], items.points[entry.right]]], [y])[0]
            right.append(margin > 0)
            loss.append(np.log1p(np.exp(-margin)))
            honest.append(entry.source == "random")
        count = int(row[0]) - begun
        assert row[1] == pytest.approx(np.mean(loss[-count:]))
        assert row[2] == np.mean(right[-count:])
        after = tracker.metric_.matrix
        assert row[3] == pytest.approx(np.linalg.norm(after - matrix) / np.linalg.norm(after) / count)
        np.testing.assert_allclose(row[4 : 4 + len(tracker.weights_)], tracker.weights_)
        assert not row[4 + len(tracker.weights_) :].any()
        begun, matrix = int(row[0]), after
    assert begun == len(kept)
    timeline = learner.view.timeline
    assert (timeline.n_honest, timeline.honest_right) == (sum(honest), sum(np.array(right) & np.array(honest)))
    told = timeline.to_wire(700)
    assert len(told.answers) == len(table)
    assert len(told.shares) == len(told.scales) == len(tracker.weights_)
    assert told.scales[:3] == [1, 2, 4]


def test_rows_come_about_256_to_a_doubling() -> None:
    ends = [0]
    while ends[-1] < 2**14:
        ends.append(next_row_end(ends[-1]))
    assert ends[:513] == list(range(513))
    for octave in range(9, 14):
        assert abs(sum(2**octave < end <= 2 ** (octave + 1) for end in ends) - 256) <= 1
    for n in range(2**12):
        assert next_row_end(n) == min(end for end in ends if end > n)


def test_a_view_knows_nothing_of_later_undos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_file, "_LARGEST_PIECE", 16)
    items, log = random_items(10, 3), random_log(100, 10)
    log += [undo(101, standing(log)[2])]  # which is read with all the others, before any is learned from
    views: list[View] = []
    with learning(log, items, on_view=views.append) as learner:
        learned(learner, 101)
    for view in views:
        assert view.metric == replayed(log[: view.seq], items, {})


def test_nobody_sees_the_way_back_from_an_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even when items come in the middle of it, which have it published at once."""
    monkeypatch.setattr(learner_file, "_LARGEST_PIECE", 1)
    monkeypatch.setattr(learner_file, "_REST", 0.0)
    features = np.random.default_rng(0).normal(size=(12, 3))
    few, all_items, log = item_set(features[:10]), item_set(features), random_log(40, 10)
    views: list[View] = []
    with learning(log, few, on_view=views.append) as learner:
        learned(learner, 40)
        log.append(undo(41, standing(log)[-8]))
        with learner._changed:  # both come at once
            learner.take(log[40:])
            learner.add_items(all_items)
        learned(learner, 41)
    assert [view.seq for view in views] == sorted(view.seq for view in views)
    assert len(views[-1].items) == 12
    for view in views:
        assert view.metric == replayed(log[: view.seq], all_items, {})


def test_undo_goes_back_no_further_than_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    items, log = random_items(10, 3), random_log(400, 10)
    counts: list[int] = []
    plain = Course.learned

    def counting(self: Course, answers: Answers, points: Any) -> Course:
        counts.append(len(answers.y))
        return plain(self, answers, points)

    monkeypatch.setattr(Course, "learned", counting)
    monkeypatch.setattr(learner_file, "_LARGEST_PIECE", 16)
    with learning(log, items) as learner:
        learned(learner, 400)
        for back in (5, 60):
            counts.clear()
            log.append(undo(len(log) + 1, log[-back]))
            learner.take(log[-1:])
            view = learned(learner, len(log))
            assert view.metric == replayed(log, items, {})
            assert 0 < sum(counts) <= 2 * back + 16


@given(st.integers(1, 400), st.integers(0, 400))
@settings(deadline=None, max_examples=30)
def test_checkpoints_are_few_and_near(n_kept: int, back: int) -> None:
    assume(back < n_kept)
    course = Course(2, {})
    checkpoints = Checkpoints(course)
    for seq in range(1, n_kept + 1):
        checkpoints.add(seq, course)
    assert len(checkpoints) <= 8 * np.log2(n_kept + 1) + 3
    seq, _ = checkpoints.back_before(n_kept - back)
    assert seq < n_kept - back
    assert n_kept - seq <= 2 * (back + 1) + 1


def test_checkpoints_keep_to_their_bytes() -> None:
    course = Course(30, {})
    one = Checkpoints(course)
    one.add(1, course)
    checkpoints = Checkpoints(course, most_bytes=5 * one._kept[0].size)
    for seq in range(1, 100):
        checkpoints.add(seq, course)
    assert len(checkpoints) == 5
    assert checkpoints.back_before(2)[0] == 0


def test_a_snapshot_is_begun_from_at_once_and_nothing_is_learned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, log = random_items(10, 3), random_log(200, 10, undos=0.1)
    with learning(log, items, None, tmp_path / "snapshot") as learner:
        view = learned(learner, 200)

    def refused(*_: Any) -> Course:
        raise AssertionError("learned again")

    monkeypatch.setattr(Course, "learned", refused)
    with learning(log, items, None, tmp_path / "snapshot") as learner:
        assert learner.view.seq == 200
        assert learner.view.metric == view.metric
        np.testing.assert_array_equal(learner.view.timeline.table, view.timeline.table)
        learner.take(log[-1:])
        assert learner.failure is None


def _damaged(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return log, items


def _other_log(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    return [answer(1, 0, 1, "different" if log[0].kind == "same" else "same"), *log[1:]], items


def _shorter_log(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    return log[:-1], items


def _other_items(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    return log, item_set(items.features + np.eye(10, 3))


def _fewer_items(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    return [answer(1, 0, 1)], item_set(items.features[:5])


def _a_metric(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    Metric(np.eye(3)).save(path)
    return log, items


@pytest.mark.parametrize("change", [_damaged, _other_log, _shorter_log, _other_items, _fewer_items, _a_metric])
def test_a_snapshot_of_something_else_is_refused_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[..., tuple[list[Entry], ItemSet]]
) -> None:
    items, log, path = random_items(10, 3), random_log(40, 10), tmp_path / "snapshot"
    with learning(log, items, None, path) as learner:
        learned(learner, 40)
    log, items = change(path, log, items)
    with caplog.at_level(logging.WARNING), learning(log, items, None, path) as learner:
        assert learned(learner, len(log)).metric == replayed(log, items, {})
    assert "a snapshot cannot be used" in caplog.text
    with learning(log, items, None, path) as learner:  # it has written one of its own
        assert learner.view.seq == len(log)


def test_other_settings_refuse_a_snapshot(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    items, log, path = random_items(10, 3), random_log(40, 10), tmp_path / "snapshot"
    with learning(log, items, None, path) as learner:
        learned(learner, 40)
    with learning(log, items, {"step_size": 0.5}, path) as learner:
        assert learned(learner, 40).metric == replayed(log, items, {"step_size": 0.5})
    assert "step_size" in caplog.text


def test_a_snapshot_that_cannot_be_written_costs_nothing_but_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = random_log(20, 10)
    with learning(log, random_items(10, 3), None, tmp_path / "lacking" / "snapshot") as learner:
        learned(learner, 20)
    assert "a snapshot could not be written" in caplog.text


def test_a_failure_is_told_and_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_file, "_FIRST_RETRY", 0.01)
    items, log = random_items(10, 3), random_log(30, 10, undos=0.2)
    broken = [True]

    def read(after: int, limit: int) -> list[Entry]:
        if broken[0]:
            raise OSError("the disk is gone")
        return log[after : after + limit]

    learner = Learner(items, {}, snapshot=None, read=read)
    learner.take(log[:10])
    assert not learner.wait(30, 0.2)
    assert learner.failure is not None
    assert "the disk is gone" in learner.failure
    assert learner.view.neighbors(0, 3)[0].shape == (3,)
    broken[0] = False
    assert learned_in_the_end(learner, 30).metric == replayed(log, items, {})
    learner.close()


def learned_in_the_end(learner: Learner, seq: int) -> View:
    assert learner.wait(seq, PATIENCE)
    return learner.view


def test_an_answer_that_cannot_be_learned_from_can_be_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_file, "_FIRST_RETRY", 0.01)
    features = np.vstack([np.eye(3), 1e154 * np.ones((1, 3))])  # too far away to be compared with anything
    items, log = item_set(features, np.ones(3)), [answer(1, 0, 1), answer(2, 0, 2, "different"), answer(3, 0, 3)]
    with learning(log, items) as learner:
        assert not learner.wait(3, 0.3)
        assert learner.failure is not None
        assert "too far apart" in learner.failure
        assert learned_in_the_end(learner, 2).metric == replayed(log[:2], items, {})
        log.append(undo(4, log[2]))
        learner.take(log[3:])
        assert learned_in_the_end(learner, 4).metric == replayed(log, items, {})


def test_who_is_told_of_views_cannot_stop_learning(caplog: pytest.LogCaptureFixture) -> None:
    def broken(view: View) -> None:
        raise ValueError("I am gone")

    log = random_log(5, 10)
    with learning(log, random_items(10, 3), on_view=broken) as learner:
        learned(learner, 5)
        log.extend([answer(6, 0, 1)])
        learner.take(log[5:])
        learned(learner, 6)


def test_items_that_come_later_are_seen_and_learned_from(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(15, 3))
    few, all_items, log = item_set(features[:10]), item_set(features), random_log(30, 10)
    with learning(log, few, None, tmp_path / "snapshot") as learner:
        before = learned(learner, 30)
        learner.add_items(all_items)
        log.append(answer(31, 3, 14))
        learner.take(log[30:])
        view = learned(learner, 31)
        assert len(view.items) == len(view.plane) == len(view.clusters(3)) == 15
        assert len(before.items) == len(before.plane) == 10
        assert view.metric == replayed(log, all_items, {})
    with learning(log, all_items, None, tmp_path / "snapshot") as learner:
        assert learner.view.seq == 31


def test_the_log_refuses_gaps() -> None:
    log = Log(lambda after, limit: [answer(after + 2, 0, 1)])
    with pytest.raises(RuntimeError, match="gap after entry 0"):
        log.fetch()
    log = Log(lambda after, limit: [])
    with pytest.raises(RuntimeError, match="cannot be read beyond entry 0"):
        log.take([answer(3, 0, 1)])


# What readers ask.


def view_of(items: ItemSet, n_answers: int = 200, tracker_settings: dict[str, Any] | None = None) -> View:
    log = [entry for entry in random_log(2 * n_answers, len(items)) if entry.kind != "skip"][:n_answers]
    log = [answer(i + 1, e.left, e.right, e.kind) for i, e in enumerate(log)]
    with learning(log, items, tracker_settings) as learner:
        return learned(learner, n_answers)


@given(
    st.integers(1, 12), st.integers(1, 30), st.integers(1, 35), st.integers(0, 2**32 - 1), st.booleans(), st.booleans()
)
@settings(deadline=None, max_examples=60)
def test_neighbors_are_those_of_brute_force(
    n_features: int, n_items: int, k: int, seed: int, far_away: bool, low_rank: bool
) -> None:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_items, n_features)) * 10.0 ** rng.integers(-3, 3, size=n_features)
    features[rng.integers(n_items, size=n_items // 3)] = features[0]  # some are the same
    features += 1e6 * far_away
    rows = rng.normal(size=(2, n_features))
    metric = Metric.low_rank(0.1, rows, np.ones(2), 1.0) if low_rank else Metric.from_factors(rows)
    cloud, position = ItemPoints(item_set(features)), int(rng.integers(n_items))
    found, distances = Nearest(cloud, metric).neighbors(position, k)
    brute = metric.distance(cloud.points, cloud.points[position])
    others = np.delete(np.arange(n_items), position)
    assert len(found) == min(k, n_items - 1) == len(set(found.tolist()) - {position})
    np.testing.assert_allclose(distances, brute[found], rtol=1e-9, atol=1e-9 * brute.max())
    np.testing.assert_allclose(distances, np.sort(brute[others])[:k], rtol=1e-9, atol=1e-9 * brute.max())


def test_neighbors_in_many_dimensions() -> None:
    items = item_set(np.random.default_rng(0).normal(size=(500, 400)), np.full(400, 0.1))
    view = view_of(items, 100, default_settings(400))
    assert view.metric.held().keys() == {"diagonal", "rows", "scales"}
    for position in (0, 17):
        brute = view.distances(view.points, view.points[position])
        brute[position] = np.inf
        order = np.argsort(brute, kind="stable")[:20]
        found, distances = view.neighbors(position, 20)
        np.testing.assert_array_equal(found, order)
        np.testing.assert_allclose(distances, brute[order], rtol=1e-12)


def test_neighbors_that_single_precision_cannot_tell_apart() -> None:
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(300, 5))
    order = rng.permutation(300)
    away = directions / np.linalg.norm(directions, axis=1)[:, None] * (1 + 1e-9 * order)[:, None]
    cloud = ItemPoints(item_set(np.vstack([np.zeros(5), away]), np.ones(5)))
    found, _ = Nearest(cloud, Metric(np.eye(5))).neighbors(0, 10)
    np.testing.assert_array_equal(found, 1 + np.argsort(order)[:10])


def test_a_search_looks_closely_at_few(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(random_items(3000, 10))
    looked: list[int] = []
    plain = Metric.length

    def counting(self: Metric, u: Any) -> Any:
        looked.append(len(u))
        return plain(self, u)

    monkeypatch.setattr(Metric, "length", counting)
    for position in range(20):
        view.neighbors(position, 10)
    assert max(looked) < 60


@pytest.mark.parametrize("tracker_settings", [{}, LOW_RANK])
def test_a_view_tells_one_thing_in_many_ways(tracker_settings: dict[str, Any]) -> None:
    items = random_items(40, 6)
    view = view_of(items, 100, tracker_settings)
    assert view.n_answers == view.seq == 100
    left, right = np.arange(20), np.arange(20, 40)
    distances = view.distances(items.points[left], items.points[right])
    np.testing.assert_allclose(
        view.metric_of_features.distance(items.features[left], items.features[right]), distances, rtol=1e-9
    )
    np.testing.assert_allclose(view.margins(left, right), view.metric.threshold - distances**2)
    average = sum(share * learner.matrix for share, learner in zip(view.shares, view.learners, strict=True))
    np.testing.assert_allclose(average, view.metric.matrix, atol=1e-12)
    assert len(view.scales) == len(view.shares) == 7
    shares = view.feature_shares()
    assert sum(each.share for each in shares) == pytest.approx(1.0) == sum(each.before for each in shares)
    assert [each.share for each in shares] == sorted((each.share for each in shares), reverse=True)
    weights = {each.name: each.weight for each in shares}
    np.testing.assert_allclose([weights[name] for name in items.feature_names], view.metric_of_features.diagonal)
    assert view.feature_shares(2) == shares[:2]
    features, scales = view.summary
    assert features == shares
    eigenvalues = np.linalg.eigvalsh(view.metric_of_features.matrix)[::-1]
    np.testing.assert_allclose(view.spectrum, eigenvalues[: len(view.spectrum)], atol=1e-12)
    assert [scale.length for scale in scales] == [1, 2, 4, 8, 16, 32, 64]
    assert sum(scale.share for scale in scales) == pytest.approx(1.0)


def test_the_metric_of_features_can_be_saved(tmp_path: Path) -> None:
    items = item_set(np.random.default_rng(0).normal(size=(50, 250)), np.full(250, 0.2))
    metric = view_of(items, 60, default_settings(250)).metric_of_features
    metric.save(tmp_path / "metric")
    assert Metric.load(tmp_path / "metric") == metric


def test_a_view_holds_still_while_learning_goes_on() -> None:
    items, log = random_items(10, 3), random_log(100, 10)
    durable = log[:50]
    with learning(durable, items) as learner:
        view = learned(learner, 50)
        durable.extend(log[50:])
        learner.take(log[50:])
        learned(learner, 100)
    average = sum(share * each.matrix for share, each in zip(view.shares, view.learners, strict=True))
    np.testing.assert_allclose(average, replayed(log[:50], items, {}).matrix, atol=1e-12)
    assert len(view.timeline.rows) == view.n_answers == len(standing(log[:50]))


# The plane.


def spread_plane(cloud: ItemPoints, metric: Metric) -> np.ndarray:
    """The oracle: principal components of the places, by eigenvectors."""
    places = metric.embed(cloud.points - cloud.points.mean(axis=0))
    _, _, directions = np.linalg.svd(places, full_matrices=False)
    return np.asarray(places @ directions[:2].T)


@pytest.mark.parametrize("n_features", [2, 5, 40])
def test_the_plane_shows_the_heaviest_directions(n_features: int) -> None:
    rng = np.random.default_rng(1)
    cloud = ItemPoints(item_set(rng.normal(size=(200, n_features)) * np.linspace(3, 0.1, n_features)))
    metric = Metric.from_factors(rng.normal(size=(n_features, n_features)))
    coordinates, xy = Plane().follow(cloud, metric)
    oracle = spread_plane(cloud, metric)
    assert xy.dtype == np.float32
    assert np.abs(xy).max() == pytest.approx(0.95, rel=1e-5)
    zoom = np.linalg.norm(xy) / np.linalg.norm(oracle)
    for column in range(2):
        sign = np.sign(xy[0, column] * oracle[0, column])
        np.testing.assert_allclose(xy[:, column], sign * zoom * oracle[:, column], atol=2e-3)
    assert coordinates.shape == (200, min(10, n_features))


def test_the_plane_moves_little_with_an_answer_and_never_flips() -> None:
    items = random_items(60, 8)
    rng = np.random.default_rng(3)
    cloud, plane, course = ItemPoints(items), Plane(), Course(8, {})
    planes = [plane.follow(cloud, course.ocelad.play())[1]]
    for seq in range(1, 200):
        left, right = rng.choice(60, 2, replace=False).tolist()
        same = np.abs(items.points[left] - items.points[right])[[2, 5]].sum() < 1.2
        entry = answer(seq, left, right, "same" if same else "different")
        course = course.learned(Answers.standing([entry], ()), cloud.points)
        planes.append(plane.follow(cloud, course.ocelad.play())[1])
    sizes = np.array([np.linalg.norm(plane) for plane in planes])
    steps = np.array([np.linalg.norm(after - before) for before, after in pairwise(planes)]) / sizes[1:]
    alike = np.array([(after * before).sum() for before, after in pairwise(planes)]) / (sizes[1:] * sizes[:-1])
    assert np.median(steps) < 0.1
    assert alike.min() > 0.7  # an axis that is turned round makes it about 0
    assert all(np.abs(plane).max() <= 1.0 for plane in planes)


def test_the_plane_turns_little_by_little_to_a_direction_that_has_become_heavier() -> None:
    cloud = ItemPoints(item_set(np.random.default_rng(0).normal(size=(300, 3)), np.ones(3)))
    plane = Plane()
    _, before = plane.follow(cloud, Metric.from_diagonal([9.0, 4.0, 1.0]))
    metric = Metric.from_diagonal([9.0, 1.0, 4.0])
    steps = []
    for _ in range(8):
        _, after = plane.follow(cloud, metric)
        steps.append(np.linalg.norm(after - before) / np.linalg.norm(before))
        before = after
    assert max(steps) < 0.8
    assert steps[-1] < 1e-3
    shown, oracle = after.astype(float), spread_plane(cloud, metric)
    fitted = shown @ np.linalg.lstsq(shown, oracle, rcond=None)[0]
    assert np.linalg.norm(fitted - oracle) < 1e-2 * np.linalg.norm(oracle)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
@settings(deadline=None, max_examples=50)
def test_a_turn_is_orthonormal_and_no_longer_than_allowed(seed: int, n: int) -> None:
    before = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, 2)))[0]
    after = _turned(before)
    np.testing.assert_allclose(after.T @ after, np.eye(2), atol=1e-9)
    cosines = np.linalg.svd(before.T @ after)[1]
    assert np.arccos(np.clip(cosines, -1, 1)).max() <= MOST_TURN + 1e-6
    angles = np.arccos(np.clip(np.linalg.svd(before[:2])[1], -1, 1))
    if angles.max() <= MOST_TURN:
        np.testing.assert_allclose(after[2:], 0.0, atol=1e-9)


@pytest.mark.parametrize(
    "features", [[[1.0, 2.0]], [[1.0], [2.0], [4.0]], [[0.0, 0.0]] * 3, [[1.0, 0.0], [2.0, 0.0], [5.0, 0.0]]]
)
def test_a_plane_of_hardly_anything(features: list[list[float]]) -> None:
    cloud, plane = ItemPoints(item_set(features)), Plane()
    n = cloud.n_features
    for metric in (Metric(np.eye(n)), Metric(np.zeros((n, n))), Metric(np.eye(n))):
        coordinates, xy = plane.follow(cloud, metric)
        assert xy.shape == (len(features), 2)
        assert np.isfinite(xy).all()
        assert np.isfinite(coordinates).all()
        assert len(Nearest(cloud, metric).neighbors(0, 5)[0]) == len(features) - 1
        assert Clusters().of(coordinates, 3).shape == (len(features),)


# Clusters.


def blobs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, size=400)
    return (10 * np.eye(4)[truth] + rng.normal(size=(400, 4))).astype(np.float32), truth


def test_clusters_are_found_and_keep_their_numbers() -> None:
    coordinates, truth = blobs()
    clusters = Clusters()
    first = clusters.of(coordinates, 4)
    assert first.dtype == np.uint8
    assert len({(a, b) for a, b in zip(first.tolist(), truth.tolist(), strict=True)}) == 4
    round_state = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0].astype(np.float32)
    np.testing.assert_array_equal(clusters.of(coordinates @ round_state, 4), first)
    np.testing.assert_array_equal(clusters.of(np.vstack([coordinates, coordinates[:5]]), 4), [*first, *first[:5]])


@pytest.mark.parametrize("shift", range(4))
def test_clusters_that_have_become_poor_are_left_and_the_others_keep_their_numbers(shift: int) -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(5), 80)  # 0 and 1 are together at first, 2 and 3 are later; 4 stays
    noise = 0.3 * rng.normal(size=(400, 2))
    first = np.array([[0, 0], [0, 0], [30, 0], [34, 0], [0, 30]])[group] + noise
    later = np.array([[-3, 0], [3, 0], [30, 0], [30, 0], [0, 30]])[group] + noise
    clusters = Clusters()
    before = (clusters.of(first.astype(np.float32), 4) + np.uint8(shift)) % np.uint8(4)
    clusters._last[4] = before
    after = clusters.of(later.astype(np.float32), 4)

    def numbers(labels: Any, *groups: int) -> set[int]:
        return set(labels[np.isin(group, groups)].tolist())

    assert [len(numbers(before, *groups)) for groups in ((0, 1), (2,), (3,), (4,))] == [1, 1, 1, 1]
    assert [len(numbers(after, *groups)) for groups in ((0,), (1,), (2, 3), (4,))] == [1, 1, 1, 1]
    assert numbers(after, 4) == numbers(before, 4)
    assert numbers(after, 0, 1) >= numbers(before, 0, 1)


def test_clusters_of_a_view_do_not_change() -> None:
    view = view_of(random_items(100, 3), 20)
    assert view.clusters(3) is view.clusters(3)
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        view.clusters(0)
