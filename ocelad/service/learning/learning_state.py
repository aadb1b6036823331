"""The state of learning: a tracker of the metric and the timeline of its answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from math import dist
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.adaptive.adaptive_tracker import PLAIN_ROUNDS, STATE_VERSION, AdaptiveTracker
from ocelad.adaptive.changes import Change
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.curved_metric import AnyMetric
from ocelad.ensemble.state_reader import add_prefix
from ocelad.estimators.learning_method import AnyTracker, method_loss, start_tracker
from ocelad.estimators.saveable import strip_prefix
from ocelad.feature_maps import FeatureMap
from ocelad.implied_answers import Answer, ImpliedAnswers, draw_reference
from ocelad.pairs import Events, PointPairs, subtract
from ocelad.service.entries import Entry
from ocelad.service.learning.random_pairs import RandomPair
from ocelad.service.learning.timeline import Timeline, TimelineRecorder, next_row_end
from ocelad.service.learning.tracker_settings import Points, TrackerSettings

Positions: TypeAlias = npt.NDArray[np.intp]


class Answers(NamedTuple):
    """Answers in the order of the log: positions of items, +1 (same) or -1, and whether the pair was random.

    ``names`` are the names of groups among them: positions of items, and the name that the group of each was given.
    ``weights`` are those of the answers, from 0 to 1; None: all are 1.
    """

    left: Positions
    right: Positions
    y: Floats
    random: npt.NDArray[np.bool_]
    names: Sequence[tuple[int, str]] = ()
    weights: Floats | None = None

    @classmethod
    def from_entries(
        cls, entries: Iterable[Entry], undone: Collection[int], weights: Mapping[str, float] | None = None
    ) -> Self:
        """Select the answers "same" and "different", and the names, that are not undone.

        ``weights`` are those of people; who is not in it has 1, and so has the decision of a reviewer.
        """
        standing = [entry for entry in entries if entry.seq not in undone]
        answers = [entry for entry in standing if entry.kind in ("same", "different")]
        return cls(
            np.array([entry.left for entry in answers], dtype=np.intp),
            np.array([entry.right for entry in answers], dtype=np.intp),
            np.array([1.0 if entry.kind == "same" else -1.0 for entry in answers]),
            np.array([entry.source == "random" for entry in answers], dtype=np.bool_),
            [(entry.left, entry.name) for entry in standing if entry.name is not None],
            None
            if not weights
            else np.array([1.0 if entry.source == "review" else weights.get(entry.person, 1.0) for entry in answers]),
        )


#: Arrays and JSON values, as the methods ``state`` return them.
SavedState: TypeAlias = tuple[Arrays, Metadata]


class KnownItems(NamedTuple):
    """The points of all items by position, and how many of them the project was created with."""

    table: Points
    n_known: int

    def points(self, ids: Sequence[int]) -> Floats:
        """Return the points of items, one per row."""
        return np.asarray(self.table[np.asarray(ids, dtype=np.intp)])

    def reference(self) -> Floats | None:
        """Return the points of some of the items that the project was created with; None if it stores no number."""
        return self.points(draw_reference(self.n_known).tolist()) if self.n_known else None


class LearningState:
    """A tracker and its timeline. Methods return new states and leave this one unchanged.

    Parameters
    ----------
    n_features : int
    settings : dict
        Parameters of ``MetricTracker``, flat.
    points : ScaledPoints, array of shape (n_items, n_features), or None
        The points of the items, from the first of which a curved distance draws its landmarks. None: from the answers.

    Attributes
    ----------
    tracker : Tracker or CurvedTracker
    recorder : TimelineRecorder
    names : dict of int to str
        The last name that was given to the group of each item, the earliest first.
    is_provisional : bool
        Whether plain NumPy has played rounds that compiled code will play again, with other rounding. This happens only
        while kernels are being compiled; the state must not be saved.
    """

    def __init__(self, n_features: int, settings: Mapping[str, Any], points: Points | None = None) -> None:
        chosen = TrackerSettings.read(settings)
        self.tracker: AnyTracker
        if chosen.curved:
            # Not ``with_groups`` afterwards, which would rehearse the items again: that is most of the time of a load.
            self.tracker = CurvedTracker(n_features, items=chosen.known_points(points), grouped=chosen.transitive)
        else:
            self.tracker = start_tracker(chosen.method, n_features)
            if chosen.transitive and isinstance(self.tracker, AdaptiveTracker):
                self.tracker = self.tracker.with_groups()
        self.recorder = TimelineRecorder.start(self.tracker.play(), method_loss(chosen.method))
        self.names: dict[int, str] = {}
        # The answers by positions of items and what they imply, if "same" is taken as transitive. A large graph is slow
        # to copy: ``learn`` moves it to the next state, and arrays from which it can be restored remain.
        self._implied = ImpliedAnswers() if chosen.transitive else None
        self._implied_state: SavedState | None = None
        self._n_known = chosen.known_items
        self.is_provisional = False

    def copy(self) -> Self:
        """Return an independent copy."""
        state = copy(self)
        state.tracker, state.recorder = copy(self.tracker), self.recorder.copy()
        state.names = self.names.copy()
        state._implied, state._implied_state = self._take_implied(), None
        return state

    @property
    def implied_state(self) -> SavedState | None:
        """``ImpliedAnswers.state`` after all answers; None if "same" is not taken as transitive."""
        if self._implied_state is None and self._implied is not None:
            self._implied_state = self._implied.state()
        return self._implied_state

    @property
    def graph_state(self) -> SavedState | None:
        """``ComparisonGraph.state`` after all answers; None if "same" is not taken as transitive."""
        if self.implied_state is None:
            return None
        arrays, metadata = self.implied_state
        return strip_prefix("graph", arrays), metadata["graph"]

    def _take_implied(self) -> ImpliedAnswers | None:
        """Return the implied answers for a state that may change them."""
        saved, implied = self.implied_state, self._implied
        self._implied = None
        return ImpliedAnswers.from_state(*saved) if implied is None and saved is not None else implied

    def learn(self, answers: Answers, points: Points) -> Self:
        """Return the state after these answers about pairs of these points."""
        state, done, items = self.copy(), 0, KnownItems(points, self._n_known)
        while done < len(answers.y):
            recorder = state.recorder
            end = next_row_end(recorder.n_answers)
            # The adaptive method measures its memories by matrix products, whose rounding depends on the number of
            # rows. With one answer per call, the result does not depend on the division into batches.
            n = 1 if isinstance(state.tracker, AdaptiveTracker | CurvedTracker) else end - recorder.n_answers
            part = slice(done, done + n)
            y, feature_map = answers.y[part], state.feature_map
            weights = None if answers.weights is None else answers.weights[part]
            margins = state._play(answers.left[part], answers.right[part], y, weights, items)
            if state.feature_map is not feature_map:
                recorder.forget_curved()
            recorder.add(y, margins, _random_pairs(answers, part, points))
            done += len(y)
            if recorder.n_answers == end:
                state._update_groups(items)
                recorder.end_row(state.tracker.play(), state.shares)
            state.is_provisional |= _waits_for_kernels(state.tracker)
        state._update_groups(items)
        for item, name in answers.names:
            state.names.pop(item, None)  # the last name comes last
            state.names[item] = name
        return state

    def _play(self, left: Positions, right: Positions, y: Floats, weights: Floats | None, items: KnownItems) -> Floats:
        """Learn from answers, and from what they imply; return the margins before. The adaptive method: one answer."""
        weight = 1.0 if weights is None else float(weights[0])
        X, Z, implied, tracker = items.table[left], items.table[right], self._implied, self.tracker
        if implied is not None and isinstance(tracker, AdaptiveTracker | CurvedTracker):
            return np.array([implied.learn(tracker, Answer(int(left[0]), int(right[0]), float(y[0]), weight), items)])
        if implied is not None:
            for i, j, label in zip(left.tolist(), right.tolist(), y.tolist(), strict=True):
                implied.graph.add(i, j, label)
        if isinstance(tracker, CurvedTracker):
            return tracker.replay(PointPairs.from_trusted(X, Z, y), weights)
        if isinstance(tracker, AdaptiveTracker):
            return tracker.replay(Events(subtract(X, Z), y), weights)
        if weights is not None:
            raise ValueError("the method rice learns from all answers alike; weights require the method adaptive")
        return tracker.replay(Events(subtract(X, Z), y))

    def _update_groups(self, items: KnownItems) -> None:
        """Bring the distances that follow from the groups up to date."""
        if self._implied is not None and isinstance(self.tracker, AdaptiveTracker | CurvedTracker):
            self._implied.update(self.tracker, items)

    @property
    def is_outdated(self) -> bool:
        """Whether compiled code has taken over from provisional rounds, so that all answers must be learned again.

        The metric is final then, but the timeline still has rows with the rounding of plain NumPy.
        """
        return self.is_provisional and not _waits_for_kernels(self.tracker)

    @property
    def can_be_saved(self) -> bool:
        """Whether ``state`` neither waits for compiled code nor changes what is learned later.

        Until compiled code plays, a tracker with groups cannot save the implied answers that it has learned from.
        """
        has_groups = self.implied_state is not None and isinstance(self.tracker, AdaptiveTracker | CurvedTracker)
        return not self.is_provisional and not (has_groups and self.n_answers <= PLAIN_ROUNDS)

    @property
    def n_bytes(self) -> int:
        """The size of the arrays of ``state``; of a tracker that cannot be saved yet, which is small, it is omitted."""
        arrays = [self.recorder.last_products]
        if self.can_be_saved:
            arrays += self.tracker.state()[0].values()
        if self.implied_state is not None:
            arrays += self.implied_state[0].values()
        return sum(array.nbytes for array in arrays)

    @property
    def n_answers(self) -> int:
        """The number of answers learned from."""
        return self.tracker.n_rounds

    @property
    def feature_map(self) -> FeatureMap | None:
        """The map to curved features; None before the first one, and if the distance is linear."""
        return self.tracker.feature_map if isinstance(self.tracker, CurvedTracker) else None

    @property
    def shares(self) -> Floats:
        """The weight of each expert in the metric; they sum to 1."""
        return self.tracker.expert_weights

    @property
    def changes(self) -> tuple[Change, ...]:
        """The detected changes of the question, the oldest first; none with the method "rice", which does not test."""
        return tuple(self.tracker.changes) if isinstance(self.tracker, AdaptiveTracker | CurvedTracker) else ()

    def timeline(self, metric: AnyMetric) -> Timeline:
        """Return the timeline up to now; ``metric`` is the current metric."""
        return self.recorder.timeline(metric, self.shares, self.tracker.expert_names, self.changes)

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything as arrays and JSON values."""
        tracker_arrays, tracker_metadata = self.tracker.state()
        timeline_arrays, timeline_metadata = self.recorder.state()
        arrays = add_prefix("core", tracker_arrays) | add_prefix("timeline", timeline_arrays)
        metadata = {"core": tracker_metadata, "timeline": timeline_metadata, "names": list(self.names.items())}
        if self.implied_state is not None:
            implied_arrays, metadata["implied"] = self.implied_state
            arrays |= add_prefix("implied", implied_arrays)
        return arrays, metadata

    def with_state(self, arrays: Arrays, metadata: Metadata) -> Self:
        """Return a copy of this untrained state that continues from the result of ``state``, after validation."""
        state, core = self.copy(), metadata["core"]
        settings = core["settings"]
        if settings.get("method") == "adaptive" and settings.get("version") != STATE_VERSION:
            raise ValueError("it was learned by another version of the method 'adaptive'")
        state.tracker.restore(strip_prefix("core", arrays), core)
        n_curved = 0 if state.feature_map is None else state.feature_map.n_outputs
        state.recorder = self.recorder.with_state(strip_prefix("timeline", arrays), metadata["timeline"], n_curved)
        if state.recorder.n_answers != state.n_answers:
            raise ValueError(f"the timeline has {state.recorder.n_answers} answers, the tracker {state.n_answers}")
        if state._implied is not None:
            state._implied = ImpliedAnswers.from_state(strip_prefix("implied", arrays), metadata["implied"])
        # Snapshots of earlier versions have no names.
        state.names = {int(item): str(name) for item, name in metadata.get("names", ())}
        return state


def _random_pairs(answers: Answers, part: slice, points: Points) -> list[RandomPair]:
    """Return the random pairs among a part of the answers."""
    found = []
    for at in np.flatnonzero(answers.random[part]).tolist():
        left, right = int(answers.left[part.start + at]), int(answers.right[part.start + at])
        # ``dist`` rounds once: the distance does not depend on how many pairs are measured together.
        x, z = np.asarray(points[np.array([left, right])]).tolist()
        found.append(RandomPair(at, left, right, dist(x, z)))
    return found


def _waits_for_kernels(tracker: AnyTracker) -> bool:
    """Return whether plain NumPy plays rounds only because compiled code is not ready yet."""
    if isinstance(tracker, CurvedTracker):
        tracker = tracker._tracker
    return isinstance(tracker, AdaptiveTracker) and tracker.n_rounds > PLAIN_ROUNDS and not tracker._is_compiled
