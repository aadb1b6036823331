"""Learner: learns from a project's durable entries in a pool of threads, and publishes views."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Condition, Lock
from time import monotonic
from typing import Any

from threadpoolctl import threadpool_limits

from ocelad.io import atomic
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import snapshot
from ocelad.service.learning.checkpoints import Checkpoints
from ocelad.service.learning.clusters import StableKMeans
from ocelad.service.learning.groups import Groups
from ocelad.service.learning.item_points import ItemPoints
from ocelad.service.learning.learner_pool import LearnerPool
from ocelad.service.learning.learning_state import Answers, LearningState
from ocelad.service.learning.log_reader import NO_ENTRY, LogReader
from ocelad.service.learning.map_projection import MapProjection
from ocelad.service.learning.view import View

# The time spent on one batch of entries, in seconds, and its largest size.
_BATCH_SECONDS = 0.1
_MAX_BATCH_SIZE = 2048
# The pause between two publications, as a multiple of the duration of the last one, so that learning gets its share.
_PUBLISH_PAUSE = 9.0
# A change is in a snapshot after this many seconds or entries at the latest.
_SNAPSHOT_SECONDS, _SNAPSHOT_ENTRIES = 30.0, 20_000
# Answers that arrive sooner than this after the last batch, in seconds, wait for more to arrive: a batch has a fixed
# cost, during which requests wait.
_MIN_BATCH_INTERVAL = 0.1
# If learning cannot keep up with new answers, it pauses after each batch for this multiple of the batch's duration,
# because storing answers cannot be postponed and learning can.
_BACKLOG_PAUSE = 1.0
# If more entries than this are queued, the queue is dropped and the entries are read from the log later.
_MAX_QUEUED = 50_000
# The pause before a retry after a failure, in seconds; it doubles up to the second number.
_FIRST_RETRY, _MAX_RETRY = 0.5, 30.0

_NEVER = float("inf")
_logger = logging.getLogger(__name__)


class Learner:
    """Learns from a project's log in the background; readers use ``view`` and never wait.

    After entry L the metric is that of a ``MetricTracker`` with these settings that has learned, in order, from the
    answers among the entries 1 to L that none of these entries undoes; with a curved distance, that of one that knows
    the items that the project was created with; if "same" is transitive, from their positions. It is identical bit by
    bit, independently of restarts, undos and the division into batches. (While kernels are being compiled, plain NumPy
    learns, with other rounding. Once they are ready, all answers are learned again.)

    Parameters
    ----------
    items : ItemSet
    settings : dict
        Those of ``TrackerSettings``, with an engine whose results do not depend on the division into calls.
    snapshot : path or None
        A file for snapshots, from which the next start continues. It is only a cache.
    read : callable (after, limit) -> list of Entry
        Returns up to ``limit`` durable entries after a number.
    find_undone : callable (last) -> iterable of int, or None
        Returns the numbers of the entries that entries up to a number undo. None: they are read.
    on_view : callable (View) -> None, or None
        Called in a thread of the pool with every published view after the first.
    pool : LearnerPool or None
        The threads in which it learns; None: a thread of its own.
    weights : mapping of str to float, or None
        The weight of each person's answers, from 0 to 1; others have 1.

    Attributes
    ----------
    view : View
        The last published view.
    failure : str or None
        Why learning fails at present; it is retried automatically. None: it does not fail.
    """

    def __init__(
        self,
        items: ItemSet,
        settings: Mapping[str, Any],
        *,
        snapshot: Path | None,
        read: Callable[[int, int], list[Entry]],
        find_undone: Callable[[int], Iterable[int]] | None = None,
        on_view: Callable[[View], None] | None = None,
        pool: LearnerPool | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        _limit_blas_threads()
        self._snapshot_path, self._on_view = snapshot, on_view
        self._changed = Condition()  # guards the attributes set by other threads, and is notified of views
        self._queue: list[Entry] = []
        self._has_unread = True  # whether the log may contain entries that were not passed to ``add_entries``
        self._new_items: ItemSet | None = None
        self._weights: Mapping[str, float] = dict(weights or {})
        self._new_weights: Mapping[str, float] | None = None
        self._view_is_outdated = False  # whether the view was learned with other weights
        self.failure: str | None = None
        self._retry = _FIRST_RETRY
        self._saving = Lock()  # after ``discard`` no snapshot is written
        self._is_discarded = False

        self._item_points, self._projection, self._k_means = ItemPoints(items), MapProjection(), StableKMeans()
        self._log = LogReader(read, find_undone)
        self._state = LearningState(self._item_points.n_features, settings, self._item_points.points)
        self._checkpoints = Checkpoints(self._state)
        self._seq = 0  # the number of the last entry in the state
        self._resume()
        self._batch_size = 16
        self._saved_seq, self._saved_at = self._seq, monotonic()
        self._learned_at, self._batch_duration = -_NEVER, 0.0
        self._next_publication = 0.0
        self.view = self._make_view()
        self._earliest = -_NEVER  # the earliest time of the next step, whatever arrives
        self._pool, self._owns_pool = pool or LearnerPool(), pool is None
        self._pool.add(self)

    def add_entries(self, entries: Sequence[Entry]) -> None:
        """Queue new durable entries, in order, and return at once. Gaps are read; repeated entries are dropped."""
        with self._changed:
            self._queue.extend(entries)
            if len(self._queue) > _MAX_QUEUED:
                self._queue.clear()
                self._has_unread = True
        self._wake()

    def replace_items(self, items: ItemSet) -> None:
        """Replace the items by a set that begins with them; must be called before entries name the new items."""
        with self._changed:
            self._new_items = items
        self._wake()

    def replace_weights(self, weights: Mapping[str, float]) -> None:
        """Replace the weights of people's answers, and learn all answers again. Until then the view stays as it is."""
        with self._changed:
            current = self._weights if self._new_weights is None else self._new_weights
            if dict(weights) == dict(current):
                return
            self._new_weights = dict(weights)
        self._wake()

    def _wake(self) -> None:
        # Answers that arrive soon after a batch wait for more to arrive.
        self._pool.wake(self, max(self._earliest, self._learned_at + _MIN_BATCH_INTERVAL))

    def wait(self, seq: int, timeout: float | None = None) -> bool:
        """Wait until a view of at least entry ``seq`` is published; return False after ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.view.seq >= seq, timeout)

    @property
    def is_idle(self) -> bool:
        """Whether everything that has arrived is learned and published, so that ``close`` loses nothing."""
        with self._changed:
            waits = self._has_news() or self._seq < self._log.end or self._has_new_view()
            return not (waits or self.failure or self._state.is_provisional)

    @property
    def n_bytes(self) -> int:
        """The approximate size of what has been learned and of its checkpoints."""
        return self._checkpoints.n_bytes

    def close(self) -> None:
        """Finish the current batch, write a snapshot, and learn no more."""
        self._pool.remove(self)
        if self._save_due() < _NEVER:
            self._save()
        if self._owns_pool:
            self._pool.close()

    def discard(self) -> None:
        """Learn no more, and remove the snapshot: the log is not the one that was learned from. Returns at once."""
        with self._saving:
            self._is_discarded = True
            if self._snapshot_path is not None:
                with suppress(OSError):
                    self._snapshot_path.unlink(missing_ok=True)
        self._pool.remove(self, wait=False)
        # No entry stays in memory. A step that is running fails then, which has no effect any more.
        self._log, self._queue = LogReader(lambda after, limit: []), []

    def _resume(self) -> None:
        if self._snapshot_path is None:
            return
        atomic.remove_leftovers(self._snapshot_path)
        saved = snapshot.read(self._snapshot_path, self._state, self._log, self._item_points, self._weights)
        if saved is not None:
            self._seq, self._state = saved
            self._checkpoints.add(*saved)

    def step(self) -> float | None:
        """Do whatever is due; return the seconds until the next step, or None: when something arrives.

        Only the pool calls it.
        """
        try:
            delay = self._step()
            self.failure, self._retry = None, _FIRST_RETRY
            return delay
        except Exception as error:
            if self._is_discarded:
                return None
            _logger.exception("learning failed after entry %d; it will be retried", self._seq)
            self.failure = f"learning failed after entry {self._seq}: {error}"
            self._has_unread = True
            self._batch_size = 1  # learn as many answers as possible before the one that fails
            delay, self._retry = self._retry, min(2 * self._retry, _MAX_RETRY)
            return delay

    def _step(self) -> float | None:
        self._receive()
        # Publish before learning, so that the view is published even if the next batch fails.
        if self._has_new_view() and monotonic() >= self._next_publication:
            self._publish()
        if self._save_due() <= monotonic():
            self._save()
        if self._seq < self._log.end:
            self._learn()
        with self._changed:
            if self._seq < self._log.end:
                pause = _BACKLOG_PAUSE * self._batch_duration if self._queue else 0.0
                self._earliest = monotonic() + pause
                return pause
            if self._has_news():
                return max(0.0, self._learned_at + _MIN_BATCH_INTERVAL - monotonic()) if self._queue else 0.0
            return self._seconds_until_due()

    def _receive(self) -> None:
        """Take over what other threads have passed, and go back to a checkpoint if a learned entry was undone."""
        with self._changed:
            entries, self._queue = self._queue, []
            has_unread, self._has_unread = self._has_unread, False
            items, self._new_items = self._new_items, None
            weights, self._new_weights = self._new_weights, None
            if weights is not None:
                self._weights, self._view_is_outdated = weights, True
        if weights is not None:
            self._seq, self._state = self._checkpoints.restore_before(1)
            self._saved_seq = 0
        if items is not None:
            self._item_points = self._item_points.extended(items)
        self._log.add(entries)
        if has_unread:
            self._log.fetch()
        if self._log.first_undone <= self._seq:
            self._seq, self._state = self._checkpoints.restore_before(self._log.first_undone)
        self._log.first_undone = NO_ENTRY

    def _learn(self) -> None:
        """Learn from the next batch of the log."""
        start = monotonic()
        entries = self._log.after(self._seq, self._batch_size)
        if not entries:
            raise RuntimeError(f"the log cannot be read beyond entry {self._seq}")
        answers = Answers.from_entries(entries, self._log.undone, self._weights)
        self._check_positions(answers)
        self._state = self._state.learn(answers, self._item_points.points)
        if self._state.is_outdated:
            self._seq, self._state = self._checkpoints.restore_before(1)
            return
        self._seq = entries[-1].seq
        self._checkpoints.add(self._seq, self._state)
        self._learned_at = monotonic()
        self._batch_duration = self._learned_at - start
        seconds_per_entry = self._batch_duration / len(entries)
        self._batch_size = int(min(max(_BATCH_SECONDS / seconds_per_entry, 1), 2 * self._batch_size, _MAX_BATCH_SIZE))

    def _check_positions(self, answers: Answers) -> None:
        n_items = len(self._item_points.points)
        for positions in (answers.left, answers.right):
            if len(positions) and not 0 <= positions.min() <= positions.max() < n_items:
                raise ValueError(f"an entry refers to an item outside the {n_items} items of the project")

    def _has_new_view(self) -> bool:
        """Return whether the state differs from the last view and may be published."""
        changed = self._seq > self.view.seq or self._item_points is not self.view._item_points
        changed |= self._view_is_outdated
        return changed and self._is_consistent()

    def _is_consistent(self) -> bool:
        """Return whether the state is that of the log up to its entry; not so while answers are relearned."""
        return self._seq >= self.view.seq and self._log.is_settled(self._seq)

    def _publish(self) -> None:
        start = monotonic()
        view = self._make_view()
        with self._changed:
            self.view = view
            self._view_is_outdated = False
            self._changed.notify_all()
        self._log.forget_undos(view.seq)
        self._notify(view)
        end = monotonic()
        self._next_publication = end + _PUBLISH_PAUSE * (end - start)

    def _notify(self, view: View) -> None:
        try:
            if self._on_view is not None:
                self._on_view(view)
        except Exception:  # an error of the callback must not stop learning
            _logger.exception("the callback for a new view failed")

    def _make_view(self) -> View:
        state, item_points = self._state, self._item_points
        metric = state.tracker.play()
        measured = item_points.measured_by(metric)
        return View(
            seq=self._seq,
            metric=metric,
            shares=state.shares,
            timeline=state.timeline(metric),
            groups=None if state.graph_state is None else Groups(state.graph_state, state.names),
            _item_points=item_points,
            _measured=measured,
            _axes=self._projection.update(measured, metric),
            _k_means=self._k_means,
            _tracker=state.tracker,
        )

    def _save_due(self) -> float:
        """Return the time at which the next snapshot is due."""
        if self._snapshot_path is None or self._seq <= self._saved_seq:
            return _NEVER
        if not self._is_consistent() or not self._state.can_be_saved:
            return _NEVER
        if self._seq - self._saved_seq >= _SNAPSHOT_ENTRIES:
            return 0.0
        return self._saved_at + _SNAPSHOT_SECONDS

    def _save(self) -> None:
        assert self._snapshot_path is not None
        with self._saving:
            if not self._is_discarded:
                self._write_snapshot(self._snapshot_path)
        self._saved_seq, self._saved_at = self._seq, monotonic()

    def _write_snapshot(self, path: Path) -> None:
        try:
            snapshot.write(path, self._seq, self._state, self._log, self._item_points, self._weights)
        except (OSError, ValueError) as error:
            _logger.warning("a snapshot could not be written; the next start will take longer: %s", error)

    def _has_news(self) -> bool:
        has_news = self._new_items is not None or self._new_weights is not None
        return bool(self._queue or self._has_unread or has_news)

    def _seconds_until_due(self) -> float | None:
        """Return the seconds until the next publication or snapshot is due; None if neither is."""
        due = min(self._next_publication if self._has_new_view() else _NEVER, self._save_due())
        return None if due == _NEVER else max(0.0, due - monotonic())


@cache
def _limit_blas_threads() -> None:
    """Use one thread per matrix product: they are small, and more threads would delay each other and the readers."""
    threadpool_limits(limits=1, user_api="blas")
