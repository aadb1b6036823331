"""Tracking a file of comparisons: judge, learn, keep a history, save, and go on after a stop to the same bits."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ocelad._typing import Floats
from ocelad.ensemble.state_reader import add_prefix
from ocelad.estimators import MetricTracker
from ocelad.estimators.history import History
from ocelad.estimators.methods import method_loss
from ocelad.estimators.saveable import strip_prefix
from ocelad.io import dataframes, state_files
from ocelad.learners.comid import LossName
from ocelad.learners.losses import LOSSES
from ocelad.metric import Metric

if TYPE_CHECKING:
    from ocelad.io import ComparisonStream

# How many pairs are learned from at a time. With the engines "blocked" and "sparse" the last bits depend on it.
# Odd, because the scales' shares are looked at when a chunk ends: after every 1024th pair eleven scales have just begun
# an interval, and all would be seen with the weights that they begin with.
CHUNK = 1021
# The same of a pipe, which may be slow: what waits for a chunk to fill has not been learned from.
PIPE_CHUNK = 127
# Up to so many features the metric's movement is exact; above, it is estimated by so many random directions.
EXACT_FEATURES, DIRECTIONS = 256, 32


# Larger losses and squared lengths count as this in the history, whose sums must not overflow.
MOST = 1e250


class Progress(NamedTuple):
    """After a chunk: how many pairs have been learned from, and whether that has been saved."""

    n_pairs: int
    saved: bool


class Tracking:
    """A tracker, its history, and where in the file it is; saved as one file, which ``MetricTracker.load`` reads, too.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from ocelad.io import open_comparisons
    >>> with TemporaryDirectory() as folder:
    ...     with open(f"{folder}/pairs.csv", "w") as file:
    ...         _ = file.write("x_a,z_a,similar\\n1.5,2.5,1\\n7,0.5,0\\n")
    ...     tracking = Tracking(MetricTracker())
    ...     with open_comparisons(f"{folder}/pairs.csv") as stream:
    ...         progress = list(tracking.follow(stream, f"{folder}/tracker"))
    ...     Tracking.load(f"{folder}/tracker").tracker.n_rounds_
    2
    """

    def __init__(self, tracker: MetricTracker) -> None:
        if not isinstance(tracker, MetricTracker):
            raise TypeError(f"tracker must be a MetricTracker; got {type(tracker).__name__}")
        self.tracker = tracker
        self.history = History()
        #: What ``open_comparisons(resume=...)`` takes to go on after what has been learned; None: from the start.
        self.position: dict[str, Any] | None = None
        self._directions: Floats | None = None

    def follow(
        self, stream: ComparisonStream, output: str | os.PathLike[str], checkpoint_every: int = 50_000
    ) -> Generator[Progress, None, None]:
        """Learn from what the stream still has, chunk by chunk; saved every so many pairs, at the end and when left.

        Close the iterator to stop early. Where the stream fails, the whole chunks that came before are learned from
        and saved.
        """
        if self.tracker.__sklearn_is_fitted__():
            self._check_features(stream.feature_names)
        else:
            self.tracker.start(len(stream.feature_names), stream.feature_names)
        unsaved, whole = 0, True
        before = self._applied(self.tracker.metric_)
        try:
            for chunk in stream:
                if chunk.y is None:
                    raise ValueError("the stream was opened without labels; there is nothing to learn from")
                whole = False  # an interrupt in between must not save pairs as learned twice, or never
                try:
                    margins = self.tracker.test_then_train(chunk.pairs, chunk.y)
                except Exception:
                    whole = True  # what is refused has changed nothing
                    raise
                before = self._note(chunk.pairs, chunk.y, margins, before)
                self.position = chunk.position
                unsaved += len(chunk.y)
                whole = True
                due = unsaved >= checkpoint_every
                if due:
                    self.save(output)
                    unsaved = 0
                yield Progress(self.tracker.n_rounds_, due)
            behind = self.position != stream.position  # rows at the end that were skipped
            self.position = stream.position
            unsaved += behind
        finally:
            if whole and unsaved and self.tracker.n_rounds_:
                self.save(output)

    def _check_features(self, names: tuple[str, ...]) -> None:
        known = getattr(self.tracker, "feature_names_in_", None)
        dataframes.check_feature_names(names, None if known is None else tuple(known), "the file")
        if len(names) != self.tracker.n_features_in_:
            raise ValueError(f"the file has {len(names)} features; {self.tracker.n_features_in_} were learned from")

    def _note(self, pairs: Floats, y: Floats, margins: Floats, before: Floats) -> Floats:
        """Put a chunk that was learned from into the history; what the metric does to the directions now."""
        after = self._applied(self.tracker.metric_)
        with np.errstate(over="ignore"):
            squares = np.square(pairs[:, 0] - pairs[:, 1]).sum(axis=1)
        losses, right = judged(y, margins, method_loss(self.tracker.method))
        self.history.add(
            len(y),
            float(losses.sum()),
            int(right.sum()),
            moved(before, after),
            float(np.minimum(squares, MOST).sum()),
            self.tracker.weights_,
        )
        return after

    def _applied(self, metric: Metric) -> Floats:
        """What the metric does to the directions that its movement is told by."""
        if self._directions is None:
            self._directions = directions(metric.n_features)
        return metric.times(self._directions)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of it to one file, which is replaced whole or not at all."""
        arrays, metadata = self.tracker.state()
        arrays |= add_prefix("history", self.history.arrays())
        state_files.write(path, state_files.TRACKER, arrays, {**metadata, "position": self.position})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """What was saved, ready to go on; a tracker that ``MetricTracker.save`` wrote has no history yet."""
        arrays, metadata = state_files.read(path, state_files.TRACKER)
        MetricTracker.check_kind(path, metadata)
        with state_files.content_errors(path, state_files.TRACKER):
            tracking = cls(MetricTracker.from_state(arrays, metadata))
            tracking.position = metadata.get("position")
            if "history.sums" in arrays:
                tracking.history = History.of_arrays(strip_prefix("history", arrays))
        return tracking


def judged(y: Floats, margins: Floats, loss: LossName) -> tuple[Floats, np.ndarray]:
    """The loss of each margin, large ones cut so that sums do not overflow, and whether it was right.

    >>> judged(np.array([1.0, -1.0]), np.array([0.0, 0.0]), "hinge")  # a pair at the very threshold is similar
    (array([1., 1.]), array([ True, False]))
    """
    value = LOSSES[loss].value
    right = np.where(y > 0, margins >= 0, margins > 0)
    return np.minimum([value(margin) for margin in margins.tolist()], MOST), right


def directions(n_features: int) -> Floats:
    """Directions V by which metrics are compared: the Frobenius norm of ``(A - B) V`` is that of A - B, or about so."""
    if n_features <= EXACT_FEATURES:
        return np.eye(n_features)
    return np.asarray(np.random.default_rng(0).normal(size=(n_features, DIRECTIONS)) / np.sqrt(DIRECTIONS))


def moved(before: Floats, after: Floats) -> float:
    """How far a metric moved, relative to its size, by what it does to ``directions`` before and after.

    >>> moved(np.eye(2), 2 * np.eye(2))
    0.5
    """
    largest = max(float(np.abs(after).max()), float(np.abs(before).max()))
    size = float(np.linalg.norm(after / largest)) if largest > 0 else 0.0  # a plain norm overflows at 1e154
    return float(np.linalg.norm(after / largest - before / largest)) / size if size > 0 else 0.0
