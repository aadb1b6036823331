"""The state of learning: an ensemble of metric learners and the timeline of its answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.state_reader import add_prefix
from ocelad.estimators.learning_method import method_from_settings, method_loss, start_tracker
from ocelad.estimators.saveable import strip_prefix
from ocelad.metric import Metric
from ocelad.pairs import Events, subtract
from ocelad.service.entries import Entry
from ocelad.service.learning.timeline import Timeline, TimelineRecorder, next_row_end


class Answers(NamedTuple):
    """Answers in the order of the log: positions of items, +1 (same) or -1, and whether the pair was random."""

    left: npt.NDArray[np.intp]
    right: npt.NDArray[np.intp]
    y: Floats
    random: npt.NDArray[np.bool_]

    @classmethod
    def from_entries(cls, entries: Iterable[Entry], undone: Collection[int]) -> Self:
        """Select the answers "same" and "different" that are not undone."""
        answers = [entry for entry in entries if entry.kind in ("same", "different") and entry.seq not in undone]
        return cls(
            np.array([entry.left for entry in answers], dtype=np.intp),
            np.array([entry.right for entry in answers], dtype=np.intp),
            np.array([1.0 if entry.kind == "same" else -1.0 for entry in answers]),
            np.array([entry.source == "random" for entry in answers], dtype=np.bool_),
        )


class LearningState:
    """An ensemble and its timeline. Methods return new states and leave this one unchanged.

    Parameters
    ----------
    n_features : int
    settings : dict
        Parameters of ``MetricTracker``, flat.
    """

    def __init__(self, n_features: int, settings: Mapping[str, Any]) -> None:
        method = method_from_settings(settings)
        self.ocelad: Ocelad[Any, Metric] = start_tracker(method, n_features)
        self.recorder = TimelineRecorder.start(self.ocelad.play(), method_loss(method))

    def copy(self) -> Self:
        """Return an independent copy."""
        state = copy(self)
        state.ocelad, state.recorder = copy(self.ocelad), self.recorder.copy()
        return state

    def learn(self, answers: Answers, points: Floats) -> Self:
        """Return the state after these answers about pairs of these points."""
        state, done = self.copy(), 0
        while done < len(answers.y):
            recorder = state.recorder
            end = next_row_end(recorder.n_answers)
            part = slice(done, done + end - recorder.n_answers)
            y = answers.y[part]
            differences = subtract(points[answers.left[part]], points[answers.right[part]])
            margins = state.ocelad.replay(Events(differences, y))
            assert margins is not None  # metrics have margins
            recorder.add(y, margins, answers.random[part])
            done += len(y)
            if recorder.n_answers == end:
                recorder.end_row(state.ocelad.play(), state.shares)
        return state

    @property
    def n_answers(self) -> int:
        """The number of answers learned from."""
        return self.ocelad.n_rounds

    @property
    def shares(self) -> Floats:
        """The weight of each scale in the metric, the shortest scale first."""
        return self.ocelad.round_state.probabilities

    @property
    def lengths(self) -> tuple[int, ...]:
        """The interval length of each scale, in answers."""
        round_state, schedule = self.ocelad.round_state, self.ocelad.schedule
        return tuple(schedule.scale(j).length for j in range(round_state.n_active))

    def timeline(self, metric: Metric) -> Timeline:
        """Return the timeline up to now; ``metric`` is the current metric."""
        return self.recorder.timeline(metric, self.shares, self.lengths)

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything as arrays and JSON values."""
        ensemble_arrays, ensemble_metadata = self.ocelad.state()
        timeline_arrays, timeline_metadata = self.recorder.state()
        arrays = add_prefix("core", ensemble_arrays) | add_prefix("timeline", timeline_arrays)
        return arrays, {"core": ensemble_metadata, "timeline": timeline_metadata}

    def with_state(self, arrays: Arrays, metadata: Metadata) -> Self:
        """Return a copy of this untrained state that continues from the result of ``state``, after validation."""
        state = self.copy()
        state.ocelad.restore(strip_prefix("core", arrays), metadata["core"])
        state.recorder = self.recorder.with_state(strip_prefix("timeline", arrays), metadata["timeline"])
        if state.recorder.n_answers != state.n_answers:
            raise ValueError(f"the timeline has {state.recorder.n_answers} answers, the tracker {state.n_answers}")
        return state
