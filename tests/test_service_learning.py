"""The learner of a project: exact replay of the log, consistent views, and a map without jumps."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ocelad import Metric, MetricTracker, Pair
from ocelad.curved_metric import CurvedMetric
from ocelad.engines import kernel_loading
from ocelad.estimators.distance_shares import distance_shares
from ocelad.estimators.learning_method import method_from_settings, start_tracker
from ocelad.feature_maps import LandmarkMap
from ocelad.io import state_files
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet, Scaling
from ocelad.service.learning import Learner, View, rice_settings
from ocelad.service.learning import learner_thread as learner_module
from ocelad.service.learning.checkpoints import Checkpoints
from ocelad.service.learning.clusters import StableKMeans
from ocelad.service.learning.item_points import MAX_SHARE_PAIRS, ItemPoints, MeasuredPoints
from ocelad.service.learning.learning_state import Answers, LearningState
from ocelad.service.learning.log_reader import NO_ENTRY, LogReader
from ocelad.service.learning.map_projection import MAX_ROTATION, MapProjection, _rotate_towards_first_axes
from ocelad.service.learning.random_pairs import RandomPair
from ocelad.service.learning.snapshot import FORMAT
from ocelad.service.learning.timeline import TimelineRecorder, next_row_end
from ocelad.service.store.log_chain import EMPTY_CHAIN, entry_digest, next_chain

TIMEOUT = 60.0
LOW_RANK = {"max_rank": 2, "engine": "lowrank"}
ADAPTIVE = {"method": "adaptive"}


def item_set(features: Any, factors: Any = None) -> ItemSet:
    features = np.asarray(features)
    features = features if features.dtype == np.float32 else features.astype(float)
    n = features.shape[1]
    factors = np.linspace(0.5, 2.0, n) if factors is None else np.asarray(factors, dtype=float)
    names = tuple(f"f{i}" for i in range(n))
    return ItemSet(tuple(map(str, range(len(features)))), features, names, Scaling("features", factors))


def random_items(n_items: int, n_features: int, seed: int = 0) -> ItemSet:
    return item_set(np.random.default_rng(seed).normal(size=(n_items, n_features)))


def answer(seq: int, left: int, right: int, kind: Any = "same", source: Any = "given") -> Entry:
    return Entry(seq, 1000 + seq, kind, left, right, source, "anna")


def undo(seq: int, undone: Entry) -> Entry:
    return Entry(seq, 1000 + seq, "undo", undone.left, undone.right, undone.source, "anna", undone.seq)


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


def chained(log: Sequence[Entry]) -> list[Entry]:
    """Return the entries with chains, as the store makes them."""
    chain, entries = EMPTY_CHAIN, []
    for entry in log:
        chain = next_chain(chain, entry_digest(entry, b"salt"))
        entries.append(replace(entry, chain=chain))
    return entries


def active_answers(log: Sequence[Entry]) -> list[Entry]:
    """By definition: the answers "same" and "different" that no entry undoes."""
    undone = {entry.undoes for entry in log}
    return [entry for entry in log if entry.kind in ("same", "different") and entry.seq not in undone]


def replay(log: Sequence[Entry], items: ItemSet, tracker_settings: dict[str, Any]) -> Metric:
    """By definition: the metric of a tracker that learns from all answers, one by one."""
    tracker = start_tracker(method_from_settings(tracker_settings), items.features.shape[1])
    for entry in active_answers(log):
        tracker.step(Pair(items.points[entry.left], items.points[entry.right], similar=entry.kind == "same"))
    return tracker.play()


@contextmanager
def running_learner(
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


def wait_for(learner: Learner, seq: int) -> View:
    assert learner.wait(seq, TIMEOUT), learner.failure
    assert learner.failure is None
    return learner.view


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Decides whether compiled code is ready."""
    ready = {"ready": True}
    monkeypatch.setattr(
        kernel_loading, "kernels_ready", lambda family="adaptive", **_: family != "adaptive" or ready["ready"]
    )
    return ready


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


@pytest.mark.parametrize(("n_features", "tracker_settings"), [(3, {}), (5, LOW_RANK), (5, ADAPTIVE), (200, ADAPTIVE)])
@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_view_equals_a_replay_however_entries_arrive(
    n_features: int, tracker_settings: dict[str, Any], data: st.DataObject
) -> None:
    items = random_items(6, n_features)
    log = data.draw(logs(6))
    durable: list[Entry] = []
    views: list[View] = []
    with TemporaryDirectory() as folder:
        while len(durable) < len(log):
            with running_learner(durable, items, tracker_settings, Path(folder) / "snapshot", views.append) as learner:
                views.append(learner.view)
                for _ in range(data.draw(st.integers(1, 3), label="calls until a restart")):
                    more = log[len(durable) : len(durable) + data.draw(st.integers(1, 12))]
                    durable.extend(more)
                    # Some entries arrive twice, and some never: the learner reads those when a later one arrives.
                    passed = log[max(0, len(durable) - data.draw(st.integers(0, 12), label="passed")) : len(durable)]
                    learner.add_entries(passed)
                    if passed and data.draw(st.booleans(), label="wait"):
                        wait_for(learner, len(durable))
                learner.add_entries(durable[-1:])
                last = wait_for(learner, len(durable))
    for view in views:
        assert view.metric == replay(log[: view.seq], items, tracker_settings)
    with running_learner(durable, items, tracker_settings) as learner:
        plain = wait_for(learner, len(durable))
    np.testing.assert_array_equal(last.timeline.table, plain.timeline.table)
    assert last.expert_names == plain.expert_names
    assert last.timeline.random_course == plain.timeline.random_course


@pytest.mark.parametrize("tracker_settings", [{}, ADAPTIVE])
@pytest.mark.parametrize(("n_entries", "undos"), [(1500, 0.0), (1300, 0.05)])
def test_a_long_log_gives_the_same_bits_and_rows_with_restarts_and_deep_undos(
    tmp_path: Path, kernels: dict[str, bool], n_entries: int, undos: float, tracker_settings: dict[str, Any]
) -> None:
    items = random_items(20, 4)
    log = random_log(n_entries, 20, undos=undos)
    durable: list[Entry] = []
    for cut in (300, 301, 900, n_entries):
        with running_learner(durable, items, tracker_settings, tmp_path / "snapshot") as learner:
            more = log[len(durable) : cut]
            durable.extend(more)
            learner.add_entries(more)
            view = wait_for(learner, cut)
    assert view.metric == replay(log, items, tracker_settings)
    only = [answer(i + 1, e.left, e.right, e.kind, e.source) for i, e in enumerate(active_answers(log))]
    with running_learner(only, items, tracker_settings) as learner:
        plain = wait_for(learner, len(only))
    np.testing.assert_array_equal(view.timeline.table, plain.timeline.table)
    assert view.timeline.random_course == plain.timeline.random_course
    assert view.timeline.random_counts.n == len({frozenset((e.left, e.right)) for e in only if e.source == "random"})


@pytest.mark.parametrize("method", ["rice", "adaptive"])
def test_the_timeline_agrees_with_a_tracker(kernels: dict[str, bool], method: Any) -> None:
    items, log = random_items(20, 3), random_log(700, 20)
    with running_learner(log, items, {"method": method}) as learner:
        table = wait_for(learner, 700).timeline.table
    answers, tracker = active_answers(log), MetricTracker(method=method).start(3)
    correct, loss, matrix = [], [], tracker.metric_.matrix
    random: dict[frozenset[int], bool] = {}  # each pair counts once
    done = 0
    for row in table:
        for entry in answers[done : int(row[0])]:
            y = 1 if entry.kind == "same" else -1
            margin = tracker.test_then_train([[items.points[entry.left], items.points[entry.right]]], [y])[0]
            correct.append(margin > 0)
            loss.append(np.log1p(np.exp(-margin)))
            if entry.source == "random":
                random.setdefault(frozenset((entry.left, entry.right)), correct[-1])
        count = int(row[0]) - done
        assert row[1] == pytest.approx(np.mean(loss[-count:]))
        assert row[2] == np.mean(correct[-count:])
        after = tracker.metric_.matrix
        assert row[3] == pytest.approx(np.linalg.norm(after - matrix) / np.linalg.norm(after) / count)
        np.testing.assert_allclose(row[4 : 4 + len(tracker.weights_)], tracker.weights_)
        assert not row[4 + len(tracker.weights_) :].any()
        done, matrix = int(row[0]), after
    assert done == len(answers)
    timeline = learner.view.timeline
    assert timeline.random_counts[:2] == (len(random), sum(random.values()))
    columns = timeline.columns()
    for values, column in zip(columns[:4], table.T[:4], strict=True):
        np.testing.assert_array_equal(values, column)
    np.testing.assert_array_equal(columns.shares, table.T[4:])
    assert timeline.expert_names == tracker.experts_
    if method == "rice":
        assert timeline.expert_names == tuple(str(2**j) for j in range(len(tracker.weights_)))


def test_the_timeline_has_256_rows_per_doubling_of_the_answers() -> None:
    ends = [0]
    while ends[-1] < 2**14:
        ends.append(next_row_end(ends[-1]))
    assert ends[:513] == list(range(513))
    for octave in range(9, 14):
        assert abs(sum(2**octave < end <= 2 ** (octave + 1) for end in ends) - 256) <= 1
    for n in range(2**12):
        assert next_row_end(n) == min(end for end in ends if end > n)


def test_a_view_includes_answers_that_are_undone_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_module, "_MAX_BATCH_SIZE", 4)
    monkeypatch.setattr(learner_module, "_PUBLISH_PAUSE", 0.0)
    items, log = random_items(10, 3), random_log(100, 10)
    undone = active_answers(log)[-8]
    log += [undo(101, undone)]  # read together with all others, before any is learned from
    views: list[View] = []
    with running_learner(log, items, on_view=views.append) as learner:
        wait_for(learner, 101)
    published = [view.seq for view in views]
    assert sum(seq < undone.seq for seq in published) > 10
    assert published[-1] == 101
    for view in views:
        assert view.metric == replay(log[: view.seq], items, {})


def test_no_view_is_published_while_answers_are_relearned_after_an_undo(monkeypatch: pytest.MonkeyPatch) -> None:
    """New items alone would be published at once."""
    monkeypatch.setattr(learner_module, "_MAX_BATCH_SIZE", 1)
    monkeypatch.setattr(learner_module, "_PUBLISH_PAUSE", 0.0)
    features = np.random.default_rng(0).normal(size=(12, 3))
    few, all_items, log = item_set(features[:10]), item_set(features), random_log(40, 10)
    views: list[View] = []
    with running_learner(log, few, on_view=views.append) as learner:
        wait_for(learner, 40)
        log.append(undo(41, active_answers(log)[-8]))
        with learner._changed:  # both arrive at once
            learner.add_entries(log[40:])
            learner.replace_items(all_items)
        wait_for(learner, 41)
    assert [view.seq for view in views] == sorted(view.seq for view in views)
    assert len(views[-1].items) == 12
    for view in views:
        assert view.metric == replay(log[: view.seq], all_items, {})


def test_no_snapshot_is_written_while_answers_are_relearned_after_an_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner_module, "_MAX_BATCH_SIZE", 1)
    monkeypatch.setattr(learner_module, "_SNAPSHOT_SECONDS", np.inf)
    items, log = random_items(10, 3), random_log(40, 10)
    saved: list[tuple[int, Metric]] = []

    def record(path: Path, seq: int, state: LearningState, *_: Any) -> None:
        saved.append((seq, state.tracker.play()))

    monkeypatch.setattr(learner_module.snapshot, "write", record)
    with running_learner(log, items, None, tmp_path / "snapshot") as learner:
        wait_for(learner, 40)
        assert saved == []
        monkeypatch.setattr(learner_module, "_SNAPSHOT_SECONDS", 0.0)  # from now on a snapshot is always due
        log.append(undo(41, active_answers(log)[-8]))
        learner.add_entries(log[40:])
        wait_for(learner, 41)
    assert [seq for seq, _ in saved] == [41]
    assert saved[0][1] == replay(log, items, {})


def test_undo_goes_back_no_further_than_necessary(monkeypatch: pytest.MonkeyPatch) -> None:
    items, log = random_items(10, 3), random_log(400, 10)
    counts: list[int] = []
    original = LearningState.learn

    def counting(self: LearningState, answers: Answers, points: Any) -> LearningState:
        counts.append(len(answers.y))
        return original(self, answers, points)

    monkeypatch.setattr(LearningState, "learn", counting)
    monkeypatch.setattr(learner_module, "_MAX_BATCH_SIZE", 16)
    with running_learner(log, items) as learner:
        wait_for(learner, 400)
        for back in (5, 60):
            counts.clear()
            log.append(undo(len(log) + 1, log[-back]))
            learner.add_entries(log[-1:])
            view = wait_for(learner, len(log))
            assert view.metric == replay(log, items, {})
            assert 0 < sum(counts) <= 2 * back + 16


@given(st.integers(1, 400), st.integers(0, 400))
@settings(deadline=None, max_examples=30)
def test_checkpoints_are_few_and_close_enough(n_added: int, back: int) -> None:
    assume(back < n_added)
    state = LearningState(2, {})
    checkpoints = Checkpoints(state)
    for seq in range(1, n_added + 1):
        checkpoints.add(seq, state)
    assert len(checkpoints) <= 8 * np.log2(n_added + 1) + 3
    seq, _ = checkpoints.restore_before(n_added - back)
    assert seq < n_added - back
    assert n_added - seq <= 2 * (back + 1) + 1


def test_checkpoints_respect_their_memory_limit() -> None:
    state = LearningState(30, {})
    one = Checkpoints(state)
    one.add(1, state)
    checkpoints = Checkpoints(state, max_bytes=5 * one._checkpoints[0].n_bytes)
    for seq in range(1, 100):
        checkpoints.add(seq, state)
    assert len(checkpoints) == 5
    assert checkpoints.restore_before(2)[0] == 0


def test_a_start_from_a_snapshot_learns_nothing_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items, log = random_items(10, 3), random_log(200, 10, undos=0.1)
    with running_learner(log, items, None, tmp_path / "snapshot") as learner:
        view = wait_for(learner, 200)

    def fail(*_: Any) -> LearningState:
        raise AssertionError("learned again")

    monkeypatch.setattr(LearningState, "learn", fail)
    with running_learner(log, items, None, tmp_path / "snapshot") as learner:
        assert learner.view.seq == 200
        assert learner.view.metric == view.metric
        np.testing.assert_array_equal(learner.view.timeline.table, view.timeline.table)
        learner.add_entries(log[-1:])
        assert learner.failure is None


def _damaged(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    return log, items


def _other_log(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    return chained([answer(1, 0, 1, "different" if log[0].kind == "same" else "same"), *log[1:]]), items


def _erased(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    """The chain of the erased entry stays."""
    erased = replace(log[0], kind="erased", left=0, right=0, person="", erased=b"digest")
    return [erased, *log[1:], Entry(len(log) + 1, 0, "erase", 0, 0, "given", "admin", chain=b"last")], items


def _shorter_log(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    return log[:-1], items


def _other_items(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    return log, item_set(items.features + np.eye(10, 3))


def _fewer_items(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    return [answer(1, 0, 1)], item_set(items.features[:5])


def _a_metric(path: Path, log: list[Entry], items: ItemSet) -> tuple[list[Entry], ItemSet]:
    Metric(np.eye(3)).save(path)
    return log, items


@pytest.mark.parametrize("change", [_damaged, _other_log, _erased, _shorter_log, _other_items, _fewer_items, _a_metric])
def test_a_snapshot_of_something_else_is_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Callable[..., tuple[list[Entry], ItemSet]]
) -> None:
    items, log, path = random_items(10, 3), chained(random_log(40, 10)), tmp_path / "snapshot"
    with running_learner(log, items, None, path) as learner:
        wait_for(learner, 40)
    log, items = change(path, log, items)
    with caplog.at_level(logging.WARNING), running_learner(log, items, None, path) as learner:
        assert wait_for(learner, len(log)).metric == replay(log, items, {})
    assert "a snapshot cannot be used" in caplog.text
    with running_learner(log, items, None, path) as learner:  # the learner has replaced the snapshot
        assert learner.view.seq == len(log)


def test_a_snapshot_with_other_settings_is_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    items, log, path = random_items(10, 3), random_log(40, 10), tmp_path / "snapshot"
    with running_learner(log, items, None, path) as learner:
        wait_for(learner, 40)
    with running_learner(log, items, {"step_size": 0.5}, path) as learner:
        assert wait_for(learner, 40).metric == replay(log, items, {"step_size": 0.5})
    assert "step_size" in caplog.text


def test_learning_continues_if_a_snapshot_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = random_log(20, 10)
    with running_learner(log, random_items(10, 3), None, tmp_path / "missing" / "snapshot") as learner:
        wait_for(learner, 20)
    assert "a snapshot could not be written" in caplog.text


def test_learning_continues_after_a_failure_and_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_module, "_FIRST_RETRY", 0.01)
    items, log = random_items(10, 3), random_log(30, 10, undos=0.2)
    broken = [True]

    def read(after: int, limit: int) -> list[Entry]:
        if broken[0]:
            raise OSError("the disk is gone")
        return log[after : after + limit]

    learner = Learner(items, {}, snapshot=None, read=read)
    learner.add_entries(log[:10])
    assert not learner.wait(30, 0.2)
    assert learner.failure is not None
    assert "the disk is gone" in learner.failure
    assert learner.view.neighbors(0, 3)[0].shape == (3,)
    broken[0] = False
    assert wait_despite_failure(learner, 30).metric == replay(log, items, {})
    learner.close()


def wait_despite_failure(learner: Learner, seq: int) -> View:
    assert learner.wait(seq, TIMEOUT)
    return learner.view


def test_an_answer_that_cannot_be_learned_can_be_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_module, "_FIRST_RETRY", 0.01)
    features = np.vstack([np.eye(3), 1e154 * np.ones((1, 3))])  # too far away to be compared with anything
    items, log = item_set(features, np.ones(3)), [answer(1, 0, 1), answer(2, 0, 2, "different"), answer(3, 0, 3)]
    with running_learner(log, items) as learner:
        assert not learner.wait(3, 0.3)
        assert learner.failure is not None
        assert "too far apart" in learner.failure
        assert wait_despite_failure(learner, 2).metric == replay(log[:2], items, {})
        log.append(undo(4, log[2]))
        learner.add_entries(log[3:])
        assert wait_despite_failure(learner, 4).metric == replay(log, items, {})


def test_an_error_of_the_callback_does_not_stop_learning(caplog: pytest.LogCaptureFixture) -> None:
    def broken(view: View) -> None:
        raise ValueError("broken callback")

    log = random_log(5, 10)
    with running_learner(log, random_items(10, 3), on_view=broken) as learner:
        wait_for(learner, 5)
        log.extend([answer(6, 0, 1)])
        learner.add_entries(log[5:])
        wait_for(learner, 6)
    assert "the callback for a new view failed" in caplog.text
    assert "broken callback" in caplog.text


def test_items_that_are_added_later_are_shown_and_learned_from(tmp_path: Path) -> None:
    features = np.random.default_rng(0).normal(size=(15, 3))
    few, all_items, log = item_set(features[:10]), item_set(features), random_log(30, 10)
    with running_learner(log, few, None, tmp_path / "snapshot") as learner:
        before = wait_for(learner, 30)
        learner.replace_items(all_items)
        log.append(answer(31, 3, 14))
        learner.add_entries(log[30:])
        view = wait_for(learner, 31)
        assert len(view.items) == len(view.xy) == len(view.clusters(3)) == 15
        assert len(before.items) == len(before.xy) == 10
        assert view.metric == replay(log, all_items, {})
    with running_learner(log, all_items, None, tmp_path / "snapshot") as learner:
        assert learner.view.seq == 31


def test_the_log_reader_rejects_gaps() -> None:
    log = LogReader(lambda after, limit: [answer(after + 2, 0, 1)])
    with pytest.raises(RuntimeError, match="gap after entry 0"):
        log.fetch()
    log = LogReader(lambda after, limit: [])
    with pytest.raises(RuntimeError, match="cannot be read beyond 0"):
        log.add([answer(3, 0, 1)])


@pytest.mark.parametrize(("seq", "settled"), [(1, True), (2, True), (3, False), (4, False), (5, True), (6, True)])
def test_the_log_is_settled_before_an_undone_entry_and_from_its_undo_on(seq: int, settled: bool) -> None:
    log = LogReader(lambda after, limit: [])
    log.add([*(answer(i, 0, 1) for i in range(1, 5)), undo(5, answer(3, 0, 1)), answer(6, 0, 1)])
    assert log.is_settled(seq) == settled
    log.forget_undos(4)
    assert log.is_settled(seq) == settled
    log.forget_undos(5)
    assert log.is_settled(seq)


def test_the_log_reader_reports_the_first_entry_that_was_newly_undone() -> None:
    log = LogReader(lambda after, limit: [])
    log.add([*(answer(i, 0, 1) for i in range(1, 5)), undo(5, answer(3, 0, 1)), undo(6, answer(2, 0, 1))])
    assert (log.undone, log.first_undone) == ({2, 3}, 2)
    log.first_undone = NO_ENTRY
    log.add([undo(7, answer(3, 0, 1))])  # was undone before
    assert log.first_undone == NO_ENTRY


@pytest.mark.parametrize("cached", [2, 100])
def test_the_log_reader_returns_entries_and_chains_from_memory_and_from_the_store(
    cached: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ocelad.service.learning.log_reader._N_CACHED", cached)
    monkeypatch.setattr("ocelad.service.learning.log_reader._PAGE_SIZE", 3)
    stored = chained(random_log(20, 10, undos=0.2))
    reads: list[int] = []

    def read(after: int, limit: int) -> list[Entry]:
        reads.append(after)
        return stored[after : after + limit]

    log = LogReader(read)
    log.add(stored)
    assert reads == []
    for seq in range(21):
        assert log.after(seq, 4) == stored[seq : seq + 4]
    assert bool(reads) == (cached == 2)
    assert [log.chain(seq) for seq in range(1, 22)] == [*(entry.chain for entry in stored), None]


@pytest.mark.parametrize("start", [0, 7, 20])
@pytest.mark.parametrize("finds", [False, True])
def test_a_log_reader_that_starts_in_the_middle_agrees_with_one_that_reads_everything(start: int, finds: bool) -> None:
    stored, reads = random_log(20, 10, undos=0.3), []

    def read(after: int, limit: int) -> list[Entry]:
        reads.append(after)
        return stored[after : after + limit]

    def find_undone(last: int) -> list[int]:
        return [entry.undoes for entry in stored[:last] if entry.undoes is not None]

    whole, part = LogReader(read), LogReader(read, find_undone if finds else None)
    whole.fetch()
    reads.clear()
    part.start_after(start)
    part.fetch()
    assert (part.end, part.undone) == (whole.end, whole.undone)
    assert not finds or min(reads) == start
    assert [part.after(seq, 5) for seq in range(21)] == [whole.after(seq, 5) for seq in range(21)]
    newly = [entry.undoes for entry in stored[start:] if entry.undoes is not None]
    before = set(find_undone(start))
    assert part.first_undone == min((seq for seq in newly if seq not in before), default=NO_ENTRY)


# The method "adaptive": plain NumPy plays the first rounds, then compiled code takes over.


def changing_log(n_entries: int, items: ItemSet, seed: int = 0) -> list[Entry]:
    """Answers about the first feature, which are reversed from the middle on: a change, at which a memory is stored."""
    rng, log = np.random.default_rng(seed), []
    for seq in range(1, n_entries + 1):
        left, right = rng.choice(len(items), 2, replace=False).tolist()
        same = (abs(items.features[left, 0] - items.features[right, 0]) < 0.6) == (seq <= n_entries / 2)
        log.append(answer(seq, left, right, "same" if same else "different", str(rng.choice(["random", "active"]))))
    return log


def assert_same_learning(view: View, log: Sequence[Entry], items: ItemSet, tracker_settings: dict[str, Any]) -> None:
    """The metric is that of a replay; everything else is that of a learner that reads all entries at once."""
    assert view.metric == replay(log, items, tracker_settings)
    with running_learner(list(log), items, tracker_settings) as learner:
        fresh = wait_for(learner, len(log))
    assert view.metric == fresh.metric
    np.testing.assert_array_equal(view.timeline.table, fresh.timeline.table)
    np.testing.assert_array_equal(view.shares, fresh.shares)
    assert view.timeline.changes == fresh.timeline.changes
    assert view.expert_names == fresh.expert_names


@pytest.mark.parametrize("n_features", [5, 200])
@given(data=st.data())
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
def test_undo_at_any_depth_gives_the_same_bits_as_a_replay(
    n_features: int, kernels: dict[str, bool], data: st.DataObject
) -> None:
    items = random_items(12, n_features)
    log = changing_log(data.draw(st.integers(40, 400), label="answers"), items)
    with TemporaryDirectory() as folder:
        for _ in range(2):  # the second learner starts from the snapshot of the first
            with running_learner(log, items, ADAPTIVE, Path(folder) / "snapshot") as learner:
                wait_for(learner, len(log))
                for depth in data.draw(st.lists(st.integers(1, len(log)), min_size=1, max_size=3), label="depths"):
                    remaining = active_answers(log)
                    log.append(undo(len(log) + 1, remaining[-min(depth, len(remaining))]))
                    learner.add_entries(log[-1:])
                    view = wait_for(learner, len(log))
                    assert view.metric == replay(log, items, ADAPTIVE)
    assert_same_learning(view, log, items, ADAPTIVE)


@pytest.mark.parametrize("n_features", [25, 384])
def test_deep_undos_and_restarts_in_few_and_many_features(
    tmp_path: Path, kernels: dict[str, bool], n_features: int
) -> None:
    items = random_items(30, n_features)
    log = changing_log(700, items)
    for depth in (1, 40, 300, 690, 5):
        with running_learner(log, items, ADAPTIVE, tmp_path / "snapshot") as learner:
            wait_for(learner, len(log))
            log.append(undo(len(log) + 1, active_answers(log)[-depth]))
            learner.add_entries(log[-1:])
            view = wait_for(learner, len(log))
            assert view.metric == replay(log, items, ADAPTIVE)
    assert_same_learning(view, log, items, ADAPTIVE)


@pytest.mark.parametrize("n_features", [5, 25, 200, 384])
def test_a_restart_alone_changes_no_bit(kernels: dict[str, bool], n_features: int) -> None:
    items = random_items(30, n_features)
    state = LearningState(n_features, ADAPTIVE)
    for entry in changing_log(300, items):
        state = state.learn(Answers.from_entries([entry], ()), items.points)
        restored = LearningState(n_features, ADAPTIVE).with_state(*state.state())
        assert restored.tracker.play() == state.tracker.play()


def test_a_change_of_the_question_is_in_the_timeline(kernels: dict[str, bool]) -> None:
    items = random_items(40, 5)
    with running_learner(changing_log(1000, items), items, ADAPTIVE) as learner:
        changes = wait_for(learner, 1000).timeline.changes
    assert len(changes) >= 1
    assert 450 <= changes[0].round <= changes[0].detected <= 700
    with running_learner(changing_log(1000, items), items) as learner:
        assert wait_for(learner, 1000).timeline.changes == ()


def test_learning_does_not_wait_for_kernels_and_ends_with_the_same_bits(
    tmp_path: Path, kernels: dict[str, bool]
) -> None:
    items = random_items(12, 5)
    log, path = changing_log(120, items), tmp_path / "snapshot"
    kernels["ready"] = False
    with running_learner(log, items, ADAPTIVE, path) as learner:
        provisional = wait_for(learner, 120)
        assert provisional.n_answers == 120
    assert not path.exists()  # with the rounding of plain NumPy, it would not be that of a replay
    with running_learner(log, items, ADAPTIVE, path) as learner:
        wait_for(learner, 120)
        kernels["ready"] = True
        np.testing.assert_allclose(provisional.metric.matrix, replay(log, items, ADAPTIVE).matrix, rtol=1e-6, atol=1e-9)
        log.append(answer(121, 0, 1))
        learner.add_entries(log[120:])
        view = wait_for(learner, 121)
    assert_same_learning(view, log, items, ADAPTIVE)
    with running_learner(log, items, ADAPTIVE, path) as learner:
        assert learner.view.seq == 121


def test_kernels_that_become_ready_within_a_batch_change_no_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    items = random_items(12, 5)
    log, calls = changing_log(100, items), iter(range(1000))
    monkeypatch.setattr(kernel_loading, "kernels_ready", lambda *_, **__: next(calls) > 10)
    monkeypatch.setattr(learner_module, "_BATCH_SECONDS", 1e9)
    with running_learner(log, items, ADAPTIVE) as learner:
        view = wait_for(learner, 100)
    monkeypatch.setattr(kernel_loading, "kernels_ready", lambda *_, **__: True)
    assert_same_learning(view, log, items, ADAPTIVE)


def test_a_snapshot_of_an_earlier_version_of_the_method_is_learned_again(
    tmp_path: Path, kernels: dict[str, bool], caplog: pytest.LogCaptureFixture
) -> None:
    items, path = random_items(12, 5), tmp_path / "snapshot"
    log = changing_log(80, items)
    with running_learner(log, items, ADAPTIVE, path) as learner:
        wait_for(learner, 80)
    arrays, metadata = state_files.read(path, FORMAT)
    del metadata["core"]["settings"]["version"]
    state_files.write(path, FORMAT, arrays, {key: metadata[key] for key in ("core", "timeline", "origin")})
    with caplog.at_level(logging.WARNING), running_learner(log, items, ADAPTIVE, path) as learner:
        assert wait_for(learner, 80).metric == replay(log, items, ADAPTIVE)
    assert "all answers are learned again, because a snapshot cannot be used" in caplog.text
    assert "it was learned by another version of the method 'adaptive'" in caplog.text
    with running_learner(log, items, ADAPTIVE, path) as learner:
        assert learner.view.seq == 80


@pytest.mark.parametrize("n_features", [6, 200])
def test_the_descriptions_of_a_view_of_the_adaptive_method_agree(kernels: dict[str, bool], n_features: int) -> None:
    items = random_items(40, n_features)
    view = view_of(items, 100, ADAPTIVE)
    assert (view.method, view.n_answers, view.scale_metrics) == ("adaptive", 100, [])
    left, right = np.arange(20), np.arange(20, 40)
    squares = view.distances(items.points[left], items.points[right]) ** 2
    np.testing.assert_allclose(view.margins(left, right), view.metric.threshold - squares)
    np.testing.assert_allclose(
        view.metric_of_features.squared_distance(items.features[left], items.features[right]), squares, rtol=1e-9
    )
    assert view.expert_names[0] == "Euclidean"
    assert [expert.name for expert in view.summary.experts] == list(view.expert_names)
    assert sum(expert.share for expert in view.summary.experts) == pytest.approx(1.0)
    eigenvalues = np.linalg.eigvalsh(view.metric_of_features.matrix)[::-1]
    np.testing.assert_allclose(view.spectrum, eigenvalues[: len(view.spectrum)], rtol=1e-6, atol=1e-12)


# Queries of a view.


def view_of(items: ItemSet, n_answers: int = 200, tracker_settings: dict[str, Any] | None = None) -> View:
    log = [entry for entry in random_log(2 * n_answers, len(items)) if entry.kind != "skip"][:n_answers]
    log = [answer(i + 1, e.left, e.right, e.kind) for i, e in enumerate(log)]
    with running_learner(log, items, tracker_settings) as learner:
        return wait_for(learner, n_answers)


@given(
    st.integers(1, 12),
    st.integers(1, 30),
    st.integers(1, 35),
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_neighbors_are_those_of_brute_force(
    n_features: int, n_items: int, k: int, seed: int, far_away: bool, low_rank: bool, single: bool
) -> None:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_items, n_features)) * 10.0 ** rng.integers(-3, 3, size=n_features)
    features[rng.integers(n_items, size=n_items // 3)] = features[0]  # some items are equal
    features += 1e6 * far_away
    rows = rng.normal(size=(2, n_features))
    metric = Metric.low_rank(0.1, rows, np.ones(2), 1.0) if low_rank else Metric.from_factors(rows)
    position, kind = int(rng.integers(n_items)), np.float32 if single else np.float64
    items = item_set(features.astype(kind))
    in_own_units = CurvedMetric(metric, None, None, factors=items.scaling.factors)
    found, distances = ItemPoints(items).neighbors(in_own_units, position, k)
    brute = metric.distance(items.points, items.points[position])
    others = np.delete(np.arange(n_items), position)
    assert len(found) == min(k, n_items - 1) == len(set(found.tolist()) - {position})
    np.testing.assert_allclose(distances, brute[found], rtol=1e-9, atol=1e-9 * brute.max())
    np.testing.assert_allclose(distances, np.sort(brute[others])[:k], rtol=1e-9, atol=1e-9 * brute.max())


def test_neighbors_in_many_dimensions() -> None:
    items = item_set(np.random.default_rng(0).normal(size=(500, 400)), np.full(400, 0.1))
    view = view_of(items, 100, rice_settings(400))
    assert view.metric.arrays().keys() == {"diagonal", "rows", "scales"}
    for position in (0, 17):
        brute = view.distances(view.points, view.points[position])
        brute[position] = np.inf
        order = np.argsort(brute, kind="stable")[:20]
        found, distances = view.neighbors(position, 20)
        np.testing.assert_array_equal(found, order)
        np.testing.assert_allclose(distances, brute[order], rtol=1e-12)


def test_neighbors_that_are_equal_in_float32_are_ordered_exactly() -> None:
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(300, 5))
    order = rng.permutation(300)
    away = directions / np.linalg.norm(directions, axis=1)[:, None] * (1 + 1e-9 * order)[:, None]
    items = item_set(np.vstack([np.zeros(5), away]), np.ones(5))
    found, _ = ItemPoints(items).neighbors(Metric(np.eye(5)), 0, 10)
    np.testing.assert_array_equal(found, 1 + np.argsort(order)[:10])


def test_a_search_computes_few_exact_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(random_items(3000, 10))
    n_exact: list[int] = []
    original = Metric.squared_length

    def counting(self: Metric, u: Any) -> Any:
        n_exact.append(len(u))
        return original(self, u)

    monkeypatch.setattr(Metric, "squared_length", counting)
    for position in range(20):
        view.neighbors(position, 10)
    assert max(n_exact) < 60


@pytest.mark.parametrize("tracker_settings", [{}, LOW_RANK])
def test_the_descriptions_of_a_view_agree(tracker_settings: dict[str, Any]) -> None:
    items = random_items(40, 6)
    view = view_of(items, 100, tracker_settings)
    assert view.n_answers == view.seq == 100
    left, right = np.arange(20), np.arange(20, 40)
    distances = view.distances(items.points[left], items.points[right])
    np.testing.assert_allclose(
        view.metric_of_features.distance(items.features[left], items.features[right]), distances, rtol=1e-9
    )
    np.testing.assert_allclose(view.margins(left, right), view.metric.threshold - distances**2)
    average = sum(share * metric.matrix for share, metric in zip(view.shares, view.scale_metrics, strict=True))
    np.testing.assert_allclose(average, view.metric.matrix, atol=1e-12)
    assert len(view.expert_names) == len(view.shares) == 7
    shares = view.feature_shares()
    assert sum(each.share for each in shares) == pytest.approx(1.0) == sum(each.initial_share for each in shares)
    assert [each.share for each in shares] == sorted((each.share for each in shares), reverse=True)
    weights = {each.name: each.weight for each in shares}
    np.testing.assert_allclose([weights[name] for name in items.feature_names], view.metric_of_features.diagonal)
    shares_by_name = {each.name: each.share for each in shares}
    expected = distance_shares(view.metric_of_features, items.features)
    np.testing.assert_allclose([shares_by_name[name] for name in items.feature_names], expected, rtol=1e-9)
    assert view.feature_shares(2) == shares[:2]
    features, experts = view.summary
    assert features == shares
    eigenvalues = np.linalg.eigvalsh(view.metric_of_features.matrix)[::-1]
    np.testing.assert_allclose(view.spectrum, eigenvalues[: len(view.spectrum)], atol=1e-12)
    assert [expert.name for expert in experts] == ["1", "2", "4", "8", "16", "32", "64"]
    assert sum(expert.share for expert in experts) == pytest.approx(1.0)


def test_what_features_contribute_to_distances_between_items() -> None:
    X = np.random.default_rng(0).normal(size=(60, 1100)) * np.linspace(0.1, 1.0, 1100)
    for n in (30, 1100):  # with a covariance matrix, and without
        rows = np.random.default_rng(1).normal(size=(3, n))
        metric = Metric.low_rank(1.0, rows, np.ones(3), 1.0)
        feature_map = LandmarkMap.from_points(X[:, :n], 20, np.random.default_rng(0))
        curved = CurvedMetric(metric, feature_map, Metric.from_diagonal(np.ones(feature_map.n_outputs)))
        for each in (metric, Metric(metric.matrix), curved):
            parts = MeasuredPoints(X[:, :n], each).distance_parts(each)
            expected = distance_shares(each, X[:, :n], max_pairs=MAX_SHARE_PAIRS)
            np.testing.assert_allclose(parts / parts.sum(), expected, rtol=1e-6, atol=1e-9)
    curved = CurvedMetric(Metric(np.eye(2)), None, None)
    assert MeasuredPoints(np.array([[1.0, 2.0]]), curved).distance_parts(curved).tolist() == [0.0, 0.0]


def test_the_metric_of_features_can_be_saved(tmp_path: Path) -> None:
    items = item_set(np.random.default_rng(0).normal(size=(50, 250)), np.full(250, 0.2))
    metric = view_of(items, 60, rice_settings(250)).metric_of_features
    metric.save(tmp_path / "metric")
    assert Metric.load(tmp_path / "metric") == metric


def test_a_view_does_not_change_while_learning_continues() -> None:
    items, log = random_items(10, 3), random_log(100, 10)
    durable = log[:50]
    with running_learner(durable, items) as learner:
        view = wait_for(learner, 50)
        durable.extend(log[50:])
        learner.add_entries(log[50:])
        wait_for(learner, 100)
    average = sum(share * each.matrix for share, each in zip(view.shares, view.scale_metrics, strict=True))
    np.testing.assert_allclose(average, replay(log[:50], items, {}).matrix, atol=1e-12)
    assert len(view.timeline.rows) == view.n_answers == len(active_answers(log[:50]))


# The map.


def principal_components(points: np.ndarray, metric: Metric) -> np.ndarray:
    """Reference: the first two principal components of the embedded points, by a singular value decomposition."""
    embedded = metric.embed(points - points.mean(axis=0))
    _, _, directions = np.linalg.svd(embedded, full_matrices=False)
    return np.asarray(embedded @ directions[:2].T)


def project(projection: MapProjection, measured: MeasuredPoints, metric: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates of the measured items and their places on the map."""
    axes = projection.update(measured, metric)
    coordinates = measured.centered @ axes.directions.astype(np.float32)
    return coordinates, axes.place(coordinates)


@pytest.mark.parametrize("n_features", [2, 5, 40])
def test_the_map_shows_the_principal_components(n_features: int) -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(200, n_features)) * np.linspace(3, 0.1, n_features)
    metric = Metric.from_factors(rng.normal(size=(n_features, n_features)))
    coordinates, xy = project(MapProjection(), MeasuredPoints(points, metric), metric)
    expected = principal_components(points, metric)
    assert xy.dtype == np.float32
    assert np.abs(xy).max() == pytest.approx(0.95, rel=1e-5)
    zoom = np.linalg.norm(xy) / np.linalg.norm(expected)
    for column in range(2):
        sign = np.sign(xy[0, column] * expected[0, column])
        np.testing.assert_allclose(xy[:, column], sign * zoom * expected[:, column], atol=2e-3)
    assert coordinates.shape == (200, min(10, n_features))


def test_the_map_moves_little_per_answer_and_never_flips() -> None:
    items = random_items(60, 8)
    rng = np.random.default_rng(3)
    projection, state = MapProjection(), LearningState(8, {})
    measured = MeasuredPoints(items.points, state.tracker.play())
    maps = [project(projection, measured, state.tracker.play())[1]]
    for seq in range(1, 200):
        left, right = rng.choice(60, 2, replace=False).tolist()
        same = np.abs(items.points[left] - items.points[right])[[2, 5]].sum() < 1.2
        entry = answer(seq, left, right, "same" if same else "different")
        state = state.learn(Answers.from_entries([entry], ()), items.points)
        maps.append(project(projection, measured, state.tracker.play())[1])
    sizes = np.array([np.linalg.norm(xy) for xy in maps])
    steps = np.array([np.linalg.norm(after - before) for before, after in pairwise(maps)]) / sizes[1:]
    cosines = np.array([(after * before).sum() for before, after in pairwise(maps)]) / (sizes[1:] * sizes[:-1])
    assert np.median(steps) < 0.1
    assert cosines.min() > 0.7  # a reflected axis would make it about 0
    assert all(np.abs(xy).max() <= 1.0 for xy in maps)


def test_the_map_rotates_in_small_steps_to_a_direction_that_has_become_more_important() -> None:
    points = np.random.default_rng(0).normal(size=(300, 3))
    projection, metric = MapProjection(), Metric.from_diagonal([9.0, 1.0, 4.0])
    measured = MeasuredPoints(points, metric)
    _, before = project(projection, measured, Metric.from_diagonal([9.0, 4.0, 1.0]))
    steps = []
    for _ in range(8):
        _, after = project(projection, measured, metric)
        steps.append(np.linalg.norm(after - before) / np.linalg.norm(before))
        before = after
    assert max(steps) < 0.8
    assert steps[-1] < 1e-3
    shown, expected = after.astype(float), principal_components(points, metric)
    fitted = shown @ np.linalg.lstsq(shown, expected, rcond=None)[0]
    assert np.linalg.norm(fitted - expected) < 1e-2 * np.linalg.norm(expected)


@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
@settings(deadline=None, max_examples=50)
def test_a_rotation_is_orthonormal_and_within_the_limit(seed: int, n: int) -> None:
    before = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, 2)))[0]
    after = _rotate_towards_first_axes(before)
    np.testing.assert_allclose(after.T @ after, np.eye(2), atol=1e-9)
    cosines = np.linalg.svd(before.T @ after)[1]
    assert np.arccos(np.clip(cosines, -1, 1)).max() <= MAX_ROTATION + 1e-6
    angles = np.arccos(np.clip(np.linalg.svd(before[:2])[1], -1, 1))
    if angles.max() <= MAX_ROTATION:
        np.testing.assert_allclose(after[2:], 0.0, atol=1e-9)


@pytest.mark.parametrize(
    "features", [[[1.0, 2.0]], [[1.0], [2.0], [4.0]], [[0.0, 0.0]] * 3, [[1.0, 0.0], [2.0, 0.0], [5.0, 0.0]]]
)
def test_a_map_of_degenerate_items(features: list[list[float]]) -> None:
    projection, n = MapProjection(), len(features[0])
    measured = MeasuredPoints(np.array(features), Metric(np.eye(n)))
    for metric in (Metric(np.eye(n)), Metric(np.zeros((n, n))), Metric(np.eye(n))):
        coordinates, xy = project(projection, measured, metric)
        assert xy.shape == (len(features), 2)
        assert np.isfinite(xy).all()
        assert np.isfinite(coordinates).all()
        items = item_set(np.array(features), np.ones(n))
        assert len(ItemPoints(items).neighbors(metric, 0, 5)[0]) == len(features) - 1
        assert StableKMeans().labels(coordinates, 3).shape == (len(features),)


# Clusters.


def blobs(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, size=400)
    return (10 * np.eye(4)[truth] + rng.normal(size=(400, 4))).astype(np.float32), truth


def test_clusters_are_found_and_keep_their_numbers() -> None:
    coordinates, truth = blobs()
    k_means = StableKMeans()
    first = k_means.labels(coordinates, 4)
    assert first.dtype == np.uint8
    assert len({(a, b) for a, b in zip(first.tolist(), truth.tolist(), strict=True)}) == 4
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0].astype(np.float32)
    np.testing.assert_array_equal(k_means.labels(coordinates @ rotation, 4), first)
    np.testing.assert_array_equal(k_means.labels(np.vstack([coordinates, coordinates[:5]]), 4), [*first, *first[:5]])


@pytest.mark.parametrize("shift", range(4))
def test_poor_clusters_are_replaced_and_the_others_keep_their_numbers(shift: int) -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(5), 80)  # 0 and 1 coincide at first, 2 and 3 later; 4 stays
    noise = 0.3 * rng.normal(size=(400, 2))
    first = np.array([[0, 0], [0, 0], [30, 0], [34, 0], [0, 30]])[group] + noise
    later = np.array([[-3, 0], [3, 0], [30, 0], [30, 0], [0, 30]])[group] + noise
    k_means = StableKMeans()
    before = (k_means.labels(first.astype(np.float32), 4) + np.uint8(shift)) % np.uint8(4)
    k_means._last[4] = before
    after = k_means.labels(later.astype(np.float32), 4)

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


def test_a_saved_timeline_continues_and_each_damage_is_refused() -> None:
    metric, shares = Metric(np.diag([1.0, 2.0, 3.0])), np.array([0.25, 0.75])
    recorder = TimelineRecorder.start(Metric(np.eye(3)), "logistic")
    for _ in range(2):
        random = [RandomPair(at, recorder.n_answers + at, 100, 1.0 + at) for at in (0, 1)]
        recorder.add(np.array([1.0, -1.0, 1.0]), np.array([0.5, -0.5, 0.5]), random)
        recorder.end_row(metric, shares)
    recorder.add(np.array([1.0]), np.array([2.0]))
    arrays, metadata = recorder.state()
    fresh = TimelineRecorder.start(Metric(np.eye(3)), "logistic")
    resumed = fresh.with_state(arrays, metadata)
    expected = recorder.timeline(metric, shares, ("1", "2"))
    assert expected.random_counts == (4, 2, 2, 2)  # Euclidean distance has no threshold for the first two pairs
    np.testing.assert_array_equal(resumed.timeline(metric, shares, ("1", "2")).table, expected.table)
    assert resumed.timeline(metric, shares, ("1", "2")).random_course == expected.random_course
    for name in ("rows", "before"):
        wrong = arrays[name].copy()
        wrong[0, 0] = np.nan
        for damaged in (wrong, arrays[name][:, :-1], arrays[name][0]):
            with pytest.raises(ValueError, match="the timeline"):
                fresh.with_state({**arrays, name: damaged}, metadata)
    for name in metadata.keys() - {"loss_in_row", "random"}:
        with pytest.raises(ValueError, match="negative counts"):
            fresh.with_state(arrays, {**metadata, name: -1})
    for name in metadata["random"]:
        for damaged in (-1, 5):
            with pytest.raises(ValueError, match="counts"):
                fresh.with_state(arrays, {**metadata, "random": {**metadata["random"], name: damaged}})
    for name in ("random.codes", "random.distances", "random.same", "random_course"):
        for damaged in (arrays[name][:-1], arrays[name].astype(np.float32)):
            with pytest.raises(ValueError, match=r"the (random pairs|timeline)"):
                fresh.with_state({**arrays, name: damaged}, metadata)
    for name in ("random.codes", "random.distances"):
        with pytest.raises(ValueError, match="ascending"):
            fresh.with_state({**arrays, name: arrays[name][::-1]}, metadata)
    assert fresh.rows == []
