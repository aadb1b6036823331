"""Course: what has come of the answers that stand, and how it comes back to where it was before one of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.state_reader import add_prefix
from ocelad.estimators.methods import method_from_settings, method_loss, start_tracker
from ocelad.estimators.saveable import strip_prefix
from ocelad.metric import Metric
from ocelad.pairs import Events, subtract
from ocelad.service.entries import Entry
from ocelad.service.learning.timeline import Recording, Timeline, next_row_end


class Answers(NamedTuple):
    """Some answers in the order of the log: positions of items, +1 (same) or -1, and whether drawn at random."""

    left: npt.NDArray[np.intp]
    right: npt.NDArray[np.intp]
    y: Floats
    random: npt.NDArray[np.bool_]

    @classmethod
    def standing(cls, entries: Iterable[Entry], undone: Collection[int]) -> Self:
        """The answers among entries that teach something and are not undone."""
        kept = [entry for entry in entries if entry.kind in ("same", "different") and entry.seq not in undone]
        return cls(
            np.array([entry.left for entry in kept], dtype=np.intp),
            np.array([entry.right for entry in kept], dtype=np.intp),
            np.array([1.0 if entry.kind == "same" else -1.0 for entry in kept]),
            np.array([entry.source == "random" for entry in kept], dtype=np.bool_),
        )


class Course:
    """A tracker and its timeline. Learning leaves what others hold of it alone.

    Parameters
    ----------
    n_features : int
    settings : dict
        Of ``MetricTracker``.
    """

    def __init__(self, n_features: int, settings: Mapping[str, Any]) -> None:
        method = method_from_settings(settings)
        self.ocelad: Ocelad[Any, Metric] = start_tracker(method, n_features)
        self.recording = Recording.begun(self.ocelad.play(), method_loss(method))

    def copy(self) -> Self:
        """One that goes on by itself."""
        course = copy(self)
        course.ocelad, course.recording = copy(self.ocelad), self.recording.copy()
        return course

    def learned(self, answers: Answers, points: Floats) -> Self:
        """The course after some more answers about these points."""
        course, done = self.copy(), 0
        while done < len(answers.y):
            recording = course.recording
            end = next_row_end(recording.n_answers)
            now = slice(done, done + end - recording.n_answers)
            y = answers.y[now]
            differences = subtract(points[answers.left[now]], points[answers.right[now]])
            margins = course.ocelad.replay(Events(differences, y))
            assert margins is not None  # metrics have margins
            recording.add(y, margins, answers.random[now])
            done += len(y)
            if recording.n_answers == end:
                recording.end_row(course.ocelad.play(), course.shares)
        return course

    @property
    def n_answers(self) -> int:
        """How many answers it has learned from."""
        return self.ocelad.n_rounds

    @property
    def shares(self) -> Floats:
        """The share of each scale in the metric, the finest first."""
        return self.ocelad.round_state.probabilities

    @property
    def lengths(self) -> tuple[int, ...]:
        """The length of the intervals of each scale, in answers."""
        round_state, schedule = self.ocelad.round_state, self.ocelad.schedule
        return tuple(schedule.scale(j).length for j in range(round_state.n_active))

    def timeline(self, metric: Metric) -> Timeline:
        """What happened, up to the metric that is played now."""
        return self.recording.timeline(metric, self.shares, self.lengths)

    def state(self) -> tuple[Arrays, Metadata]:
        """All of it as arrays and values that JSON can hold."""
        core, about_core = self.ocelad.state()
        timeline, about_timeline = self.recording.state()
        arrays = add_prefix("core", core) | add_prefix("timeline", timeline)
        return arrays, {"core": about_core, "timeline": about_timeline}

    def restored(self, arrays: Arrays, metadata: Metadata) -> Self:
        """A course with the settings of this one, which has learned nothing, that goes on from a ``state``; checked."""
        course = self.copy()
        course.ocelad.restore(strip_prefix("core", arrays), metadata["core"])
        course.recording = self.recording.restored(strip_prefix("timeline", arrays), metadata["timeline"])
        if course.recording.n_answers != course.n_answers:
            raise ValueError(f"its timeline has {course.recording.n_answers} answers, its tracker {course.n_answers}")
        return course


class Checkpoint(NamedTuple):
    """A course as it was after an entry of the log."""

    seq: int
    recording: Recording
    core: tuple[Arrays, Metadata]

    @property
    def size(self) -> int:
        """How many bytes it takes."""
        return sum(array.nbytes for array in self.core[0].values()) + self.recording.before.nbytes


class Checkpoints:
    """Courses as they were, close together not long ago and ever farther apart before that.

    Parameters
    ----------
    beginning : Course
        Before the first answer, to which it is always possible to go back.
    most_bytes : int
        What they may take together; the oldest are given up first.
    """

    def __init__(self, beginning: Course, most_bytes: int = 2**28) -> None:
        self._beginning = beginning
        self._most_bytes = most_bytes
        self._kept: list[Checkpoint] = []

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, seq: int, course: Course) -> None:
        """Keep a course as it is after an entry of the log, which is later than all that are kept."""
        self._kept.append(Checkpoint(seq, course.recording.copy(), course.ocelad.state()))
        self._thin_out()
        while len(self._kept) > 1 and sum(checkpoint.size for checkpoint in self._kept) > self._most_bytes:
            del self._kept[0]

    def back_before(self, seq: int) -> tuple[int, Course]:
        """The last course that is kept from before an entry, and after which entry it was; later ones are forgotten."""
        while self._kept and self._kept[-1].seq >= seq:
            self._kept.pop()
        if not self._kept:
            return 0, self._beginning
        checkpoint = self._kept[-1]
        course = self._beginning.copy()
        course.ocelad.restore(*checkpoint.core)
        course.recording = checkpoint.recording.copy()
        return checkpoint.seq, course

    def _thin_out(self) -> None:
        """Drop each that has neighbours nearer to each other than half their distance to the last."""
        last, kept = self._kept[-1].seq, self._kept[:1]
        for between, after in zip(self._kept[1:], self._kept[2:], strict=False):
            if after.seq - kept[-1].seq > (last - after.seq) / 2:
                kept.append(between)
        self._kept = kept + self._kept[1:][-1:]
