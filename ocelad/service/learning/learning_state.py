"""The state of learning: a tracker of the metric and the timeline of its answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.adaptive.adaptive_tracker import PLAIN_ROUNDS, STATE_VERSION, AdaptiveTracker
from ocelad.adaptive.changes import Change
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.comparison_graph import ComparisonGraph
from ocelad.curved_metric import AnyMetric
from ocelad.ensemble.state_reader import add_prefix
from ocelad.estimators.learning_method import AnyTracker, method_loss, start_tracker
from ocelad.estimators.saveable import strip_prefix
from ocelad.feature_maps import FeatureMap
from ocelad.pairs import Events, PointPairs, subtract
from ocelad.service.entries import Entry
from ocelad.service.learning.timeline import Timeline, TimelineRecorder, next_row_end
from ocelad.service.learning.tracker_settings import TrackerSettings


class Answers(NamedTuple):
    """Answers in the order of the log: positions of items, +1 (same) or -1, and whether the pair was random.

    ``names`` are the names of groups among them: positions of items, and the name that the group of each was given.
    """

    left: npt.NDArray[np.intp]
    right: npt.NDArray[np.intp]
    y: Floats
    random: npt.NDArray[np.bool_]
    names: Sequence[tuple[int, str]] = ()

    @classmethod
    def from_entries(cls, entries: Iterable[Entry], undone: Collection[int]) -> Self:
        """Select the answers "same" and "different", and the names, that are not undone."""
        standing = [entry for entry in entries if entry.seq not in undone]
        answers = [entry for entry in standing if entry.kind in ("same", "different")]
        return cls(
            np.array([entry.left for entry in answers], dtype=np.intp),
            np.array([entry.right for entry in answers], dtype=np.intp),
            np.array([1.0 if entry.kind == "same" else -1.0 for entry in answers]),
            np.array([entry.source == "random" for entry in answers], dtype=np.bool_),
            [(entry.left, entry.name) for entry in standing if entry.name is not None],
        )


#: The arrays and the JSON values of ``ComparisonGraph.state``.
GraphState: TypeAlias = tuple[Arrays, Metadata]


class LearningState:
    """A tracker and its timeline. Methods return new states and leave this one unchanged.

    Parameters
    ----------
    n_features : int
    settings : dict
        Parameters of ``MetricTracker``, flat.
    points : array of shape (n_items, n_features), or None
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

    def __init__(self, n_features: int, settings: Mapping[str, Any], points: Floats | None = None) -> None:
        chosen = TrackerSettings.read(settings)
        self.tracker: AnyTracker
        if chosen.curved:
            self.tracker = CurvedTracker(n_features, items=chosen.known_points(points))
        else:
            self.tracker = start_tracker(chosen.method, n_features)
        self.recorder = TimelineRecorder.start(self.tracker.play(), method_loss(chosen.method))
        self.names: dict[int, str] = {}
        # The answers by positions of items, and the groups that they imply, if "same" is taken as transitive. A large
        # graph is slow to copy: ``learn`` moves it to the next state, and the state of the graph remains.
        self._graph = ComparisonGraph() if chosen.transitive else None
        self._graph_state: GraphState | None = None
        self.is_provisional = False

    def copy(self) -> Self:
        """Return an independent copy."""
        state = copy(self)
        state.tracker, state.recorder = copy(self.tracker), self.recorder.copy()
        state.names = self.names.copy()
        state._graph, state._graph_state = self._take_graph(), None
        return state

    @property
    def graph_state(self) -> GraphState | None:
        """The state of the graph of all answers; None if "same" is not taken as transitive."""
        if self._graph_state is None and self._graph is not None:
            self._graph_state = self._graph.state()
        return self._graph_state

    def _take_graph(self) -> ComparisonGraph | None:
        """Return the graph for a state that may change it."""
        saved, graph = self.graph_state, self._graph
        self._graph = None
        return ComparisonGraph.from_state(*saved) if graph is None and saved is not None else graph

    def learn(self, answers: Answers, points: Floats) -> Self:
        """Return the state after these answers about pairs of these points."""
        state, done = self.copy(), 0
        while done < len(answers.y):
            recorder = state.recorder
            end = next_row_end(recorder.n_answers)
            # The adaptive method measures its memories by matrix products, whose rounding depends on the number of
            # rows. With one answer per call, the result does not depend on the division into batches.
            n = 1 if isinstance(state.tracker, AdaptiveTracker | CurvedTracker) else end - recorder.n_answers
            part = slice(done, done + n)
            y = answers.y[part]
            X, Z, feature_map = points[answers.left[part]], points[answers.right[part]], state.feature_map
            if isinstance(state.tracker, CurvedTracker):
                margins = state.tracker.replay(PointPairs.from_trusted(X, Z, y))
            else:
                margins = state.tracker.replay(Events(subtract(X, Z), y))
            if state.feature_map is not feature_map:
                recorder.forget_curved()
            recorder.add(y, margins, answers.random[part])
            if state._graph is not None:
                for left, right, label in zip(
                    answers.left[part].tolist(), answers.right[part].tolist(), y, strict=True
                ):
                    state._graph.add(left, right, label)
            done += len(y)
            if recorder.n_answers == end:
                recorder.end_row(state.tracker.play(), state.shares)
            state.is_provisional |= _waits_for_kernels(state.tracker)
        for item, name in answers.names:
            state.names.pop(item, None)  # the last name comes last
            state.names[item] = name
        return state

    @property
    def is_outdated(self) -> bool:
        """Whether compiled code has taken over from provisional rounds, so that all answers must be learned again.

        The metric is final then, but the timeline still has rows with the rounding of plain NumPy.
        """
        return self.is_provisional and not _waits_for_kernels(self.tracker)

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
        if self.graph_state is not None:
            graph_arrays, metadata["graph"] = self.graph_state
            arrays |= add_prefix("graph", graph_arrays)
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
        if state._graph is not None:
            state._graph = ComparisonGraph.from_state(strip_prefix("graph", arrays), metadata["graph"])
        # Snapshots of earlier versions have no names.
        state.names = {int(item): str(name) for item, name in metadata.get("names", ())}
        return state


def _waits_for_kernels(tracker: AnyTracker) -> bool:
    """Return whether plain NumPy plays rounds only because compiled code is not ready yet."""
    if isinstance(tracker, CurvedTracker):
        tracker = tracker._tracker
    return isinstance(tracker, AdaptiveTracker) and tracker.n_rounds > PLAIN_ROUNDS and not tracker._is_compiled
