"""FileTracker: learns from a file of comparisons, records a history, saves checkpoints and resumes to the same bits."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ocelad._typing import Floats
from ocelad.ensemble.state_reader import add_prefix
from ocelad.estimators import MetricTracker
from ocelad.estimators.history import History
from ocelad.estimators.item_lookup import NamedItems
from ocelad.estimators.learning_method import check_method, method_loss
from ocelad.estimators.saveable import strip_prefix
from ocelad.estimators.stream_statistics import MAX_TERM, probe_directions, relative_change, score_margins
from ocelad.estimators.training_sketch import TrainingSketch
from ocelad.io import dataframes, state_files
from ocelad.metric import Metric

if TYPE_CHECKING:
    from ocelad.io import ComparisonStream

# The number of pairs learned from at a time. With the engines "blocked" and "sparse" the last bits depend on it.
# It is odd because the weights are recorded at the end of a chunk: after every 1024th pair eleven scales have just
# started an interval, and the history would show only their initial weights.
CHUNK_SIZE = 1021
# The chunk size of a pipe: smaller, because a slow pipe delays learning until a chunk is full.
PIPE_CHUNK_SIZE = 127
# The chunk size of a file of at most so many bytes: its history has a row for each of these few pairs.
SMALL_CHUNK_SIZE, SMALL_BYTES = 25, 1_000_000


class Progress(NamedTuple):
    """The state after a chunk.

    Attributes
    ----------
    n_pairs : int
        The number of pairs learned from so far.
    saved : bool
        Whether a checkpoint was saved after this chunk.
    """

    n_pairs: int
    saved: bool


class FileTracker:
    """A tracker, its history and its position in a file of comparisons.

    All three are saved to one file, which ``MetricTracker.load`` also reads.

    Parameters
    ----------
    tracker : MetricTracker

    Attributes
    ----------
    tracker : MetricTracker
    history : History
    position : dict or None
        The argument ``resume`` of ``open_comparisons`` that continues after the last pair learned from; None: from the
        start.
    vector_column : str or None
        The column of vectors in the table of items; None if each feature has its column, or rows hold points.
    sketch : TrainingSketch or None
        A digest of the pairs learned from; None if the tracker learned from others before, of which nothing is known.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from ocelad.io import open_comparisons
    >>> with TemporaryDirectory() as folder:
    ...     with open(f"{folder}/pairs.csv", "w") as file:
    ...         _ = file.write("x_a,z_a,similar\\n1.5,2.5,1\\n7,0.5,0\\n")
    ...     file_tracker = FileTracker(MetricTracker())
    ...     with open_comparisons(f"{folder}/pairs.csv") as stream:
    ...         progress = list(file_tracker.follow(stream, f"{folder}/tracker"))
    ...     FileTracker.load(f"{folder}/tracker").tracker.n_rounds_
    2
    """

    def __init__(self, tracker: MetricTracker) -> None:
        if not isinstance(tracker, MetricTracker):
            raise TypeError(f"tracker must be a MetricTracker; got {type(tracker).__name__}")
        self.tracker = tracker
        self.history = History()
        self.position: dict[str, Any] | None = None
        self.vector_column: str | None = None
        learned = tracker.__sklearn_is_fitted__() and tracker.n_rounds_ > 0
        self.sketch: TrainingSketch | None = None if learned else TrainingSketch()
        self._directions: Floats | None = None

    def follow(
        self, stream: ComparisonStream, output: str | os.PathLike[str], checkpoint_every: int = 50_000
    ) -> Generator[Progress, None, None]:
        """Learn from the rest of a stream, chunk by chunk.

        The tracker is saved to ``output`` every ``checkpoint_every`` pairs, at the end, and when the generator is
        closed, which stops early. If the stream fails, the complete chunks before the error are learned from and saved.
        """
        if self.tracker.__sklearn_is_fitted__():
            self._check_features(stream.feature_names)
        else:
            adaptive = check_method(self.tracker.method) == "adaptive"
            items = stream.items.X if adaptive and stream.items is not None else None
            self.tracker.start(len(stream.feature_names), stream.feature_names, items=items)
        if stream.items is not None:
            self.tracker.preprocessor = NamedItems(list(stream.items.rows), stream.items.X)
            self.vector_column = stream.items.column or self.vector_column
        n_unsaved, consistent = 0, True
        before = self._probe(self.tracker.linear_part_)
        try:
            for chunk in stream:
                if chunk.y is None:
                    raise ValueError("the stream was opened without labels, which learning requires")
                consistent = False  # an interrupt here must not save a tracker ahead of its position
                try:
                    pairs = chunk.pairs if chunk.ids is None else np.array(chunk.ids, dtype=object)
                    margins = self.tracker.test_then_train(pairs, chunk.y, sample_weight=chunk.weights)
                except Exception:
                    consistent = True  # a refused chunk has changed nothing
                    raise
                before = self._record(chunk.pairs, chunk.y, margins, before)
                if self.sketch is not None:
                    self.sketch.add(chunk.pairs, chunk.y)
                self.position = chunk.position
                n_unsaved += len(chunk.y)
                consistent = True
                due = n_unsaved >= checkpoint_every
                if due:
                    self.save(output)
                    n_unsaved = 0
                yield Progress(self.tracker.n_rounds_, due)
            n_unsaved += self.position != stream.position  # rows at the end that were skipped
            self.position = stream.position
        finally:
            if consistent and n_unsaved and self.tracker.n_rounds_:
                self.save(output)

    def _check_features(self, names: tuple[str, ...]) -> None:
        known = getattr(self.tracker, "feature_names_in_", None)
        dataframes.check_feature_names(names, None if known is None else tuple(known), "the file")
        if len(names) != self.tracker.n_features_in_:
            raise ValueError(f"the file has {len(names)} features; the tracker has {self.tracker.n_features_in_}")

    def _record(self, pairs: Floats, y: Floats, margins: Floats, before: Floats) -> Floats:
        """Add a chunk to the history; return the products of the current metric with the probe directions."""
        after = self._probe(self.tracker.linear_part_)
        with np.errstate(over="ignore"):
            squares = np.square(pairs[:, 0] - pairs[:, 1]).sum(axis=1)
        losses, correct = score_margins(y, margins, method_loss(self.tracker.method))
        self.history.add(
            len(y),
            float(losses.sum()),
            int(correct.sum()),
            self._change(before, after, len(y)),
            float(np.minimum(squares, MAX_TERM).sum()),
            self.tracker.weights_,
        )
        return after

    def _probe(self, metric: Metric) -> Floats:
        """Return the products of a metric with the probe directions."""
        if self._directions is None:
            self._directions = probe_directions(metric.n_features)
        return metric.matmul(self._directions)

    def _change(self, before: Floats, after: Floats, n_pairs: int) -> float:
        """Return the relative change of the metric by a chunk; for a curved one, by the tracker's own drift."""
        if self.tracker.metric_ is self.tracker.linear_part_:
            return relative_change(before, after)
        return n_pairs * self.tracker.drift_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tracker, history and position to one file, which is replaced atomically."""
        arrays, metadata = self.tracker.state()
        arrays |= add_prefix("history", self.history.arrays())
        if self.sketch is not None:
            arrays |= add_prefix("sketch", self.sketch.arrays())
        state_files.write(path, state_files.TRACKER, arrays, {**metadata, **self._origin()})

    def _origin(self) -> dict[str, Any]:
        """Return what is saved about the input files; files of earlier versions have no column of vectors."""
        column = {} if self.vector_column is None else {"vector_column": self.vector_column}
        return {"position": self.position, **column}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file written by ``save``, or by ``MetricTracker.save``, which has no history and no position."""
        arrays, metadata = state_files.read(path, state_files.TRACKER)
        MetricTracker.check_kind(path, metadata)
        with state_files.content_errors(path, state_files.TRACKER):
            file_tracker = cls(MetricTracker.from_state(arrays, metadata))
            file_tracker.position = metadata.get("position")
            file_tracker.vector_column = read_vector_column(metadata)
            if "history.sums" in arrays:
                file_tracker.history = History.from_arrays(strip_prefix("history", arrays))
            file_tracker.sketch = read_sketch(arrays) or file_tracker.sketch
        return file_tracker


def read_sketch(arrays: Mapping[str, Any]) -> TrainingSketch | None:
    """Return the digest of the pairs that a saved tracker learned from; None if the file has none."""
    parts = strip_prefix("sketch", arrays)
    return TrainingSketch.from_arrays(parts) if parts else None


def read_vector_column(metadata: Mapping[str, Any]) -> str | None:
    """Return the column of vectors that a saved tracker learned from, after checking it."""
    column = metadata.get("vector_column")
    if column is not None and not isinstance(column, str):
        raise ValueError(f"its column of vectors is {column!r}, which is no text")
    return column
