"""The timeline of learning: loss, accuracy, drift and the share of each expert over the answers that are not undone.

The end of a row depends only on the number of answers, and sums are accumulated one by one. So the same answers give
the same rows, bit by bit, also after a restart or an undo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.adaptive.changes import Change
from ocelad.curved_metric import AnyMetric, CurvedMetric, linear_part
from ocelad.ensemble.schedule import MAX_SCALES
from ocelad.ensemble.state_reader import add_prefix
from ocelad.estimators import stream_statistics
from ocelad.estimators.saveable import strip_prefix
from ocelad.learners.comid import LossName
from ocelad.service.learning.random_pairs import RandomCounts, RandomPair, RandomPairs

# The first answers have one row each; after them, every doubling of the number of answers has half as many rows.
N_SINGLE_ROWS = 512
_N_STATISTICS = 4  # the number of columns before the shares


def next_row_end(n_answers: int) -> int:
    """Return the number of answers at the end of the row that the next answer belongs to.

    Long rows end two answers before a multiple of their length, where most scales are at the end of an interval. At the
    multiple itself many scales have just restarted, and the row would always show their initial weights.

    >>> [next_row_end(n) for n in (0, 511, 512, 514, 1023, 1026)]
    [1, 512, 514, 516, 1024, 1030]
    """
    end = n_answers + 1
    while (end + 2) % _row_length(end):
        end += -(end + 2) % _row_length(end)
    return end


def _row_length(n_answers: int) -> int:
    """Return the length of the rows near this number of answers, a power of two."""
    return 1 << max(0, (n_answers - 1).bit_length() - N_SINGLE_ROWS.bit_length() + 1)


class TimelineColumns(NamedTuple):
    """The columns of a timeline; ``shares`` has one row per expert."""

    n_answers: Floats
    loss: Floats
    accuracy: Floats
    drift: Floats
    shares: Floats


@dataclass(frozen=True)
class Timeline:
    """Statistics of the answers that are not undone, in rows. Immutable.

    Attributes
    ----------
    rows : tuple of arrays
        For each row: the number of answers up to its end, the mean loss, the share of correct predictions, the change
        of the metric per answer relative to its size, and the shares of all experts at its end.
    expert_names : tuple of str
        With the method "rice", the interval length of each scale.
    random_course : tuple of RandomCounts
        The counts of random pairs up to the end of each row.
    changes : tuple of Change
        The detected changes of the question, the oldest first; their rounds count the answers.
    """

    rows: tuple[Floats, ...]
    expert_names: tuple[str, ...]
    random_course: tuple[RandomCounts, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def random_counts(self) -> RandomCounts:
        """The number of random pairs, and how many of them were predicted correctly, by the metric and without it."""
        return self.random_course[-1] if self.random_course else RandomCounts()

    @property
    def table(self) -> Floats:
        """The rows as one array of shape (n_rows, 4 + n_experts)."""
        width = _N_STATISTICS + len(self.expert_names)
        return np.array([row[:width] for row in self.rows]).reshape(len(self.rows), width)

    def columns(self) -> TimelineColumns:
        """Return the columns of the table."""
        table = self.table
        n_answers, loss, accuracy, drift = table[:, :_N_STATISTICS].T
        return TimelineColumns(n_answers, loss, accuracy, drift, table[:, _N_STATISTICS:].T)


@dataclass
class TimelineRecorder:
    """A growing timeline: the complete rows, and sums over the current one.

    Attributes
    ----------
    loss : str
    directions : array of shape (n_features, n_directions)
        Fixed directions; the drift is the change of their products with the metric, or with its linear part.
    last_products : array of shape (n_features, n_directions)
        The products at the end of the last complete row.
    last_curved : array of shape (n_curved, n_curved), or None
        The matrix of the curved part at the end of the last complete row. None: there was none, or the feature map has
        been drawn again since.
    rows : list of arrays
    n_answers : int
    n_in_row, loss_in_row, n_correct_in_row : int, float and int
        The number of answers in the current row, the sum of their losses, and the number of correct predictions.
    random_pairs : RandomPairs
    random_course : list of RandomCounts
        One per complete row.
    """

    loss: LossName
    directions: Floats
    last_products: Floats
    last_curved: Floats | None
    rows: list[Floats]
    n_answers: int = 0
    n_in_row: int = 0
    loss_in_row: float = 0.0
    n_correct_in_row: int = 0
    random_pairs: RandomPairs = field(default_factory=RandomPairs)
    random_course: list[RandomCounts] = field(default_factory=list)

    @classmethod
    def start(cls, metric: AnyMetric, loss: LossName) -> Self:
        """Create a recorder before the first answer; ``metric`` is the initial metric."""
        directions = stream_statistics.probe_directions(metric.n_features)
        return cls(loss, directions, linear_part(metric).matmul(directions), _curved_matrix(metric), [])

    def copy(self) -> Self:
        """Return an independent copy; it shares the complete rows, which never change."""
        return replace(self, rows=self.rows.copy(), random_course=self.random_course.copy())

    def add(self, y: Floats, margins: Floats, random: Sequence[RandomPair] = ()) -> None:
        """Add answers, at most up to the end of the row, with the margins predicted before learning from them.

        ``random`` are the random pairs among them.
        """
        losses, correct = stream_statistics.score_margins(y, margins, self.loss)
        # One by one: the rounding of NumPy's sum would depend on how many answers are added at once.
        self.loss_in_row = float(np.add.accumulate([self.loss_in_row, *losses])[-1])
        self.n_correct_in_row += int(correct.sum())
        self.n_in_row += len(y)
        self.n_answers += len(y)
        for pair in random:
            self.random_pairs = self.random_pairs.add(pair, same=bool(y[pair.at] > 0), correct=bool(correct[pair.at]))

    def forget_curved(self) -> None:
        """Forget the curved part at the end of the last row, because the feature map was drawn again.

        The matrices of a curved part before and after refer to other features, so that their difference means nothing.
        The drift of this row is then that of the linear part.
        """
        self.last_curved = None

    def end_row(self, metric: AnyMetric, shares: Floats) -> None:
        """Complete the row; ``metric`` and ``shares`` are those after its last answer."""
        self.rows.append(self._row(metric, shares))
        self.random_course.append(self.random_pairs.counts)
        self.last_products, self.last_curved = linear_part(metric).matmul(self.directions), _curved_matrix(metric)
        self.n_in_row, self.loss_in_row, self.n_correct_in_row = 0, 0.0, 0

    def timeline(
        self, metric: AnyMetric, shares: Floats, expert_names: tuple[str, ...], changes: tuple[Change, ...] = ()
    ) -> Timeline:
        """Return the timeline up to now, including the incomplete row."""
        incomplete = [self._row(metric, shares)] if self.n_in_row else []
        course = [self.random_pairs.counts] if self.n_in_row else []
        return Timeline((*self.rows, *incomplete), expert_names, (*self.random_course, *course), changes)

    def _row(self, metric: AnyMetric, shares: Floats) -> Floats:
        row = np.zeros(_N_STATISTICS + MAX_SCALES)
        n = self.n_in_row
        row[:_N_STATISTICS] = (
            self.n_answers,
            self.loss_in_row / n,
            self.n_correct_in_row / n,
            self._relative_change(metric) / n,
        )
        row[_N_STATISTICS : _N_STATISTICS + len(shares)] = shares
        return row

    def _relative_change(self, metric: AnyMetric) -> float:
        """Return how far the metric has moved since the last row, relative to its norm."""
        before, after = self.last_products, linear_part(metric).matmul(self.directions)
        curved = _curved_matrix(metric)
        if self.last_curved is not None and curved is not None:
            before, after = (
                np.concatenate([one.ravel(), other.ravel()])
                for one, other in ((before, self.last_curved), (after, curved))
            )
        return stream_statistics.relative_change(before, after)

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything as arrays and JSON values."""
        rows = np.array(self.rows).reshape(len(self.rows), _N_STATISTICS + MAX_SCALES)
        metadata = {key: getattr(self, name) for key, name in _COUNTS.items()}
        curved: Arrays = {} if self.last_curved is None else {"curved_before": self.last_curved}
        course = np.array(self.random_course, dtype=np.int64).reshape(len(self.random_course), len(RandomCounts()))
        arrays = {"rows": rows, "before": self.last_products, "random_course": course, **curved}
        random_arrays, random_counts = self.random_pairs.state()
        arrays |= add_prefix("random", random_arrays)
        return arrays, {**metadata, "loss_in_row": self.loss_in_row, "random": random_counts}

    def with_state(self, arrays: Mapping[str, Any], metadata: Mapping[str, Any], n_curved: int = 0) -> Self:
        """Return a recorder that continues from the result of ``state``, after validation.

        ``n_curved`` is the number of curved features at present.
        """
        rows, products, curved = arrays["rows"], arrays["before"], arrays.get("curved_before")
        counts: dict[str, Any] = {name: int(metadata[key]) for key, name in _COUNTS.items()}
        random_pairs = RandomPairs.from_state(strip_prefix("random", arrays), metadata["random"])
        course = arrays["random_course"]
        if course.dtype != np.int64 or course.shape != (len(rows), len(RandomCounts())) or (course < 0).any():
            raise ValueError(f"the timeline has counts of random pairs of shape {course.shape}, or negative counts")
        if rows.ndim != 2 or rows.shape[1] != _N_STATISTICS + MAX_SCALES or products.shape != self.last_products.shape:
            raise ValueError(f"the timeline has arrays of shapes {rows.shape} and {products.shape}")
        if not np.isfinite(rows).all() or not np.isfinite(products).all() or min(counts.values()) < 0:
            raise ValueError("the timeline contains numbers that are not finite, or negative counts")
        if curved is not None and (curved.shape != (n_curved, n_curved) or not np.isfinite(curved).all()):
            raise ValueError(f"the timeline has a curved part of shape {curved.shape}, or numbers that are not finite")
        return replace(
            self,
            last_products=products,
            last_curved=curved,
            rows=list(rows),
            loss_in_row=float(metadata["loss_in_row"]),
            random_pairs=random_pairs,
            random_course=[RandomCounts(*row) for row in course.tolist()],
            **counts,
        )


def _curved_matrix(metric: AnyMetric) -> Floats | None:
    """Return the matrix of the curved part, if there is one."""
    return metric.curved_part.matrix if isinstance(metric, CurvedMetric) and metric.curved_part is not None else None


# Keys in snapshots, and the attributes that they store.
_COUNTS = {
    "n_answers": "n_answers",
    "n_in_row": "n_in_row",
    "right_in_row": "n_correct_in_row",
}
