"""Learner: one thread per project that learns from durable entries and publishes what came of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Condition, Thread
from time import monotonic
from typing import Any

from threadpoolctl import threadpool_limits

from ocelad.io import atomic
from ocelad.service.entries import Entry
from ocelad.service.itemset import ItemSet
from ocelad.service.learning import snapshot
from ocelad.service.learning.answer_log import NONE, Log
from ocelad.service.learning.clusters import Clusters
from ocelad.service.learning.course import Answers, Checkpoints, Course
from ocelad.service.learning.item_points import ItemPoints
from ocelad.service.learning.nearest import Nearest
from ocelad.service.learning.plane import Plane
from ocelad.service.learning.view import View

# Entries are learned from for about so many seconds at a time.
_PIECE_SECONDS = 0.1
_LARGEST_PIECE = 2048
# Between two publications there is so many times as long as the last one took, so that learning gets its share.
_REST = 9.0
# A change is on the disk after so many seconds or entries at the latest.
_SNAPSHOT_SECONDS, _SNAPSHOT_ENTRIES = 30.0, 20_000
# Answers that come less than so many seconds after the last ones were learned from wait until then for more to come:
# a turn costs as much as many answers, in time that requests wait for.
_GATHER = 0.1
# Where learning cannot keep up with answers that pour in, it leaves them so much of the time that it takes: they are
# what cannot be done later.
_YIELD = 1.0
# More entries that wait are not kept at hand but read when their turn comes.
_MOST_WAITING = 50_000
# After a failure it is tried again after so many seconds, and ever later up to the other number.
_FIRST_RETRY, _LAST_RETRY = 0.5, 30.0

_logger = logging.getLogger(__name__)


class Learner:
    """Learns from a project's log in a thread of its own; readers take ``view`` and never wait.

    After entry L the metric is what a ``MetricTracker`` with the settings comes to on the answers among entries 1 to L
    that none of these undoes, in their order; to the bit, whatever came between.

    Parameters
    ----------
    items : ItemSet
    settings : dict
        Of ``MetricTracker``; with an engine whose bits do not depend on how answers are cut into calls.
    snapshot : path or None
        A file of its own, to begin from at the next start. It is only a cache.
    read : callable (after, limit) -> list of Entry
        The durable entries that follow one.
    on_view : callable (View) -> None, or None
        Called in the learner's thread with every view that is published after the first.
    """

    def __init__(
        self,
        items: ItemSet,
        settings: Mapping[str, Any],
        *,
        snapshot: Path | None,
        read: Callable[[int, int], list[Entry]],
        on_view: Callable[[View], None] | None = None,
    ) -> None:
        _one_thread_per_product()
        self._path, self._on_view = snapshot, on_view
        self._changed = Condition()  # guards what comes from other threads, and tells of views
        self._waiting: list[Entry] = []
        self._unread = True  # whether there may be entries in the log that have not been handed over
        self._new_items: ItemSet | None = None
        self._closing = False
        #: Why it does not learn at present; None: it does. It tries again by itself.
        self.failure: str | None = None

        self._cloud, self._plane, self._clusters = ItemPoints(items), Plane(), Clusters()
        self._log = Log(read)
        self._course = Course(self._cloud.n_features, settings)
        self._checkpoints = Checkpoints(self._course)
        self._seq = 0  # up to which entry the course has come
        self._resume()
        self._piece = 16
        self._saved_seq, self._saved_at = self._seq, monotonic()
        self._learned_at, self._took = -_NEVER, 0.0
        self._rest_until = 0.0
        #: The last that was published.
        self.view = self._seen()
        self._thread = Thread(target=self._run, name="learner", daemon=True)
        self._thread.start()

    def take(self, entries: Sequence[Entry]) -> None:
        """Take new durable entries, in their order. Returns at once. What was missed is read, repeats are dropped."""
        with self._changed:
            self._waiting.extend(entries)
            if len(self._waiting) > _MOST_WAITING:
                self._waiting.clear()
                self._unread = True
            self._changed.notify_all()

    def add_items(self, items: ItemSet) -> None:
        """Have more items: all of them, those before first. To be called before entries that name them are taken."""
        with self._changed:
            self._new_items = items
            self._changed.notify_all()

    def wait(self, seq: int, timeout: float | None = None) -> bool:
        """Wait until what was learned from an entry is published; False where it takes longer than so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.view.seq >= seq, timeout)

    def close(self) -> None:
        """Finish the piece at hand, write a snapshot, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _resume(self) -> None:
        if self._path is None:
            return
        atomic.remove_leftovers(self._path)
        kept = snapshot.read(self._path, self._course, self._log, self._cloud)
        if kept is not None:
            self._seq, self._course = kept
            self._checkpoints.add(*kept)
            self._log.revoked = NONE  # what is undone up to there is not in the snapshot

    def _run(self) -> None:
        retry = _FIRST_RETRY
        while True:
            try:
                going_on = self._turn()
                self.failure, retry = None, _FIRST_RETRY
            except Exception as error:
                _logger.exception("learning failed after entry %d; it is tried again", self._seq)
                self.failure = f"learning failed after entry {self._seq}: {error}"
                self._unread = True
                self._piece = 1  # to come as near as can be to an answer that cannot be learned from
                going_on = self._pause(retry)
                retry = min(2 * retry, _LAST_RETRY)
            if not going_on:
                return

    def _turn(self) -> bool:
        """Do what is to be done next, or wait for it; False when that is to end."""
        self._hear()
        # What has been learned comes first, so that it is published even if the next answer cannot be learned from.
        if self._is_new() and monotonic() >= self._rest_until:
            self._publish()
        if self._save_due() <= monotonic():
            self._save()
        if self._seq < self._log.end:
            self._learn()
        with self._changed:
            if not self._closing:
                if self._waiting and self._seq < self._log.end:
                    self._changed.wait_for(lambda: self._closing, _YIELD * self._took)
                elif self._seq == self._log.end:
                    self._changed.wait_for(self._has_news, self._until_due())
                    if self._waiting:
                        self._changed.wait_for(lambda: self._closing, self._learned_at + _GATHER - monotonic())
                return True
        if self._save_due() < _NEVER:
            self._save()
        return False

    def _hear(self) -> None:
        """See what came from other threads."""
        with self._changed:
            entries, self._waiting = self._waiting, []
            unread, self._unread = self._unread, False
            items, self._new_items = self._new_items, None
        if items is not None:
            self._cloud = ItemPoints(items)
        self._log.take(entries)
        if unread:
            self._log.fetch()
        if self._log.revoked <= self._seq:
            self._seq, self._course = self._checkpoints.back_before(self._log.revoked)
        self._log.revoked = NONE

    def _learn(self) -> None:
        """Learn from the next piece of the log."""
        began = monotonic()
        entries = self._log.after(self._seq, self._piece)
        if not entries:
            raise RuntimeError(f"the log cannot be read beyond entry {self._seq}")
        answers = Answers.standing(entries, self._log.undone)
        self._check(answers)
        self._course = self._course.learned(answers, self._cloud.points)
        self._seq = entries[-1].seq
        self._checkpoints.add(self._seq, self._course)
        self._learned_at = monotonic()
        self._took = self._learned_at - began
        each = self._took / len(entries)
        self._piece = int(min(max(_PIECE_SECONDS / each, 1), 2 * self._piece, _LARGEST_PIECE))

    def _check(self, answers: Answers) -> None:
        n_items = len(self._cloud.points)
        for positions in (answers.left, answers.right):
            if len(positions) and not 0 <= positions.min() <= positions.max() < n_items:
                raise ValueError(f"an entry names an item beyond the {n_items} that there are")

    def _is_new(self) -> bool:
        """Whether there is something to publish, and it is what the log says, no less."""
        changed = self._seq > self.view.seq or self._cloud is not self.view._cloud
        return changed and self._is_whole()

    def _is_whole(self) -> bool:
        """Whether the course is what the log up to its entry says: not on the way back from an undo."""
        return self._seq >= self.view.seq and self._log.is_settled(self._seq)

    def _publish(self) -> None:
        began = monotonic()
        view = self._seen()
        with self._changed:
            self.view = view
            self._changed.notify_all()
        self._log.forget_undos(view.seq)
        self._tell(view)
        ended = monotonic()
        self._rest_until = ended + _REST * (ended - began)

    def _tell(self, view: View) -> None:
        try:
            if self._on_view is not None:
                self._on_view(view)
        except Exception:  # whose affair it is, it must not stop learning
            _logger.exception("somebody could not be told of a new view")

    def _seen(self) -> View:
        course, cloud = self._course, self._cloud
        metric = course.ocelad.play()
        coordinates, plane = self._plane.follow(cloud, metric)
        return View(
            seq=self._seq,
            metric=metric,
            scales=course.lengths,
            shares=course.shares,
            timeline=course.timeline(metric),
            plane=plane,
            _cloud=cloud,
            _coordinates=coordinates,
            _nearest=Nearest(cloud, metric),
            _clusters=self._clusters,
            _ocelad=course.ocelad,
        )

    def _save_due(self) -> float:
        """When the next snapshot is to be written."""
        if self._path is None or self._seq <= self._saved_seq or self._seq < self._log.totalled or not self._is_whole():
            return _NEVER
        if self._seq - self._saved_seq >= _SNAPSHOT_ENTRIES:
            return 0.0
        return self._saved_at + _SNAPSHOT_SECONDS

    def _save(self) -> None:
        assert self._path is not None
        try:
            snapshot.write(self._path, self._seq, self._course, self._log, self._cloud)
        except OSError as error:
            _logger.warning("a snapshot could not be written, which costs time at the next start: %s", error)
        self._saved_seq, self._saved_at = self._seq, monotonic()

    def _has_news(self) -> bool:
        return bool(self._waiting or self._unread or self._closing or self._new_items is not None)

    def _until_due(self) -> float | None:
        """Seconds until something is to be done even if nothing comes; None: nothing is."""
        due = min(self._rest_until if self._is_new() else _NEVER, self._save_due())
        return None if due == _NEVER else max(0.0, due - monotonic())

    def _pause(self, seconds: float) -> bool:
        """Wait for so long, or until something comes; False when that is to end."""
        with self._changed:
            self._changed.wait_for(
                lambda: bool(self._waiting or self._closing or self._new_items is not None), timeout=seconds
            )
            return not self._closing


_NEVER = float("inf")


@cache
def _one_thread_per_product() -> None:
    """Matrix products are small here, and threads of theirs would only wait for each other and for readers."""
    threadpool_limits(limits=1, user_api="blas")
