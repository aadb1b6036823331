"""Timeline: loss, right answers, movement and the share of each scale along the answers that stand.

Where a row ends depends on the number of answers alone, and sums are taken one by one, so that the same answers give
the same rows, to the bit, however they came: after a restart and after an undo, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.ensemble.schedule import MAX_SCALES
from ocelad.estimators import stream_statistics
from ocelad.learners.comid import LossName
from ocelad.metric import Metric

# A row for each of the first so many answers; then half as many rows as that for every doubling of their number.
EACH = 512
_SHARES = 4  # the first column of the shares


def next_row_end(n_answers: int) -> int:
    """After how many answers the row ends that the next answer belongs to.

    Long rows do not end at multiples of their length, where many scales have just begun an interval and would always
    be seen with the weights that they begin with, but two answers before, where most are at the end of one.

    >>> [next_row_end(n) for n in (0, 511, 512, 514, 1023, 1026)]
    [1, 512, 514, 516, 1024, 1030]
    """
    end = n_answers + 1
    while (end + 2) % _row_length(end):
        end += -(end + 2) % _row_length(end)
    return end


def _row_length(n_answers: int) -> int:
    """Of the rows around so many answers; a power of two."""
    return 1 << max(0, (n_answers - 1).bit_length() - EACH.bit_length() + 1)


class TimelineColumns(NamedTuple):
    """The columns of a timeline; ``shares`` has one row per scale."""

    n_answers: Floats
    loss: Floats
    accuracy: Floats
    drift: Floats
    shares: Floats


@dataclass(frozen=True)
class Timeline:
    """What happened along the answers that stand. Immutable.

    Attributes
    ----------
    rows : tuple of arrays
        Of each row the number of answers up to its end, mean loss, share of right answers, how far the metric moved per
        answer relative to its size, and the shares of all scales at its end.
    lengths : tuple of int
        The interval length of each scale.
    n_honest, honest_right : int
        How many answers were about pairs drawn at random, and how many of them were judged right before they were
        learned from.
    """

    rows: tuple[Floats, ...]
    lengths: tuple[int, ...]
    n_honest: int
    honest_right: int

    @property
    def table(self) -> Floats:
        """The rows as one array of shape (n_rows, 4 + n_scales)."""
        width = _SHARES + len(self.lengths)
        return np.array([row[:width] for row in self.rows]).reshape(len(self.rows), width)

    def columns(self) -> TimelineColumns:
        """The columns of the table."""
        table = self.table
        n_answers, loss, accuracy, drift = table[:, :_SHARES].T
        return TimelineColumns(n_answers, loss, accuracy, drift, table[:, _SHARES:].T)


@dataclass
class Recording:
    """A timeline that is being made: the rows that are whole, and sums over the one that is not."""

    loss: LossName
    directions: Floats
    #: What the metric did to the directions when the last row ended.
    before: Floats
    rows: list[Floats]
    n_answers: int = 0
    n_in_row: int = 0
    loss_in_row: float = 0.0
    right_in_row: int = 0
    n_honest: int = 0
    honest_right: int = 0

    @classmethod
    def begun(cls, metric: Metric, loss: LossName) -> Self:
        """Before the first answer."""
        directions = stream_statistics.probe_directions(metric.n_features)
        return cls(loss, directions, metric.matmul(directions), [])

    def copy(self) -> Self:
        """One that goes on by itself; whole rows are never changed."""
        return replace(self, rows=self.rows.copy())

    def add(self, y: Floats, margins: Floats, random: np.ndarray) -> None:
        """Some answers, at most up to the end of the row, with the margins that they were judged with before."""
        losses, right = stream_statistics.score_margins(y, margins, self.loss)
        # One after the other: NumPy's sum would depend on how many come at a time.
        self.loss_in_row = float(np.add.accumulate([self.loss_in_row, *losses])[-1])
        self.right_in_row += int(right.sum())
        self.n_in_row += len(y)
        self.n_answers += len(y)
        self.n_honest += int(random.sum())
        self.honest_right += int((random & right).sum())

    def end_row(self, metric: Metric, shares: Floats) -> None:
        """The row is whole, and this is what is played after it."""
        applied = metric.matmul(self.directions)
        self.rows.append(self._row(applied, shares))
        self.before = applied
        self.n_in_row, self.loss_in_row, self.right_in_row = 0, 0.0, 0

    def timeline(self, metric: Metric, shares: Floats, lengths: tuple[int, ...]) -> Timeline:
        """What there is, with the row that is not whole yet."""
        more = [self._row(metric.matmul(self.directions), shares)] if self.n_in_row else []
        return Timeline((*self.rows, *more), lengths, self.n_honest, self.honest_right)

    def _row(self, applied: Floats, shares: Floats) -> Floats:
        row = np.zeros(_SHARES + MAX_SCALES)
        n = self.n_in_row
        row[:_SHARES] = (
            self.n_answers,
            self.loss_in_row / n,
            self.right_in_row / n,
            stream_statistics.relative_change(self.before, applied) / n,
        )
        row[_SHARES : _SHARES + len(shares)] = shares
        return row

    def state(self) -> tuple[Arrays, Metadata]:
        """All of it as arrays and values that JSON can hold."""
        rows = np.array(self.rows).reshape(len(self.rows), _SHARES + MAX_SCALES)
        metadata = {name: getattr(self, name) for name in _COUNTS}
        return {"rows": rows, "before": self.before}, {**metadata, "loss_in_row": self.loss_in_row}

    def restored(self, arrays: Mapping[str, Any], metadata: Mapping[str, Any]) -> Self:
        """One of the same kind that goes on from what ``state`` gave; checked."""
        rows, before = arrays["rows"], arrays["before"]
        counts: dict[str, Any] = {name: int(metadata[name]) for name in _COUNTS}
        if rows.ndim != 2 or rows.shape[1] != _SHARES + MAX_SCALES or before.shape != self.before.shape:
            raise ValueError(f"its timeline has the shapes {rows.shape} and {before.shape}")
        if not np.isfinite(rows).all() or not np.isfinite(before).all() or min(counts.values()) < 0:
            raise ValueError("its timeline holds what is not a finite number, or counts below 0")
        return replace(self, before=before, rows=list(rows), loss_in_row=float(metadata["loss_in_row"]), **counts)


_COUNTS = ("n_answers", "n_in_row", "right_in_row", "n_honest", "honest_right")
