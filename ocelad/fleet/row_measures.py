"""Distances, probabilities and embeddings of the rows of Arrow record batches, each by the metric of its row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.metric import Metric

Kind: TypeAlias = Literal["distance", "probability", "embed"]
Ints: TypeAlias = npt.NDArray[np.intp]
Mask: TypeAlias = npt.NDArray[np.bool_]


class RowMeasure(NamedTuple):
    """What is computed for each row; it travels to workers.

    Attributes
    ----------
    kind : {"distance", "probability", "embed"}
    sides : tuple of str or tuple of str
        For each point of a row, the column with arrays of numbers, or the numeric columns.
    n_features : int
    output : str
        The name of the new column.
    n_components : int or None
        The number of dimensions of an embedding; None: all.

    Examples
    --------
    >>> import pyarrow as pa
    >>> batch = pa.RecordBatch.from_pydict({"x": [[0.0, 1.0], [3.0], [None, 1.0]], "z": [[0.0, 3.0]] * 3})
    >>> measure = RowMeasure("distance", ("x", "z"), 2, "distance")
    >>> measure.column(batch, [(np.arange(3), Metric(np.eye(2)))]).to_pylist()
    [2.0, None, None]
    """

    kind: Kind
    sides: tuple[str | tuple[str, ...], ...]
    n_features: int
    output: str
    n_components: int | None = None

    def column(self, batch: Any, metrics: Iterable[tuple[Ints, Metric]]) -> Any:
        """Return the new column of a record batch, as an Arrow array.

        Where a point is null, holds null or has another length, the result is null. NaN and infinity give NaN.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
        metrics : iterable of (rows, metric)
            Which rows are measured by which metric; each row belongs to one.
        """
        import pyarrow as pa

        sides = [_read_side(batch, side, self.n_features) for side in self.sides]
        points, valid = [X for X, _ in sides], np.logical_and.reduce([valid for _, valid in sides])
        finite = np.logical_and.reduce([valid, *(np.isfinite(X).all(axis=1) for X in points)])
        if self.kind == "embed":
            return pa.array(self._embeddings(points[0], valid, finite, metrics), pa.list_(pa.float64()))
        numbers = np.full(batch.num_rows, np.nan)
        for rows, metric in metrics:
            good = rows[finite[rows]]
            if len(good):
                numbers[good] = self._numbers(points[0][good] - points[1][good], metric)
        return pa.array(numbers, mask=~valid)

    def _numbers(self, U: Floats, metric: Metric) -> Floats:
        """Return the distance or the probability for each difference."""
        squared = np.asarray(metric.squared_length(U))
        if self.kind == "distance":
            return np.asarray(np.sqrt(squared))
        from scipy.special import expit

        return np.asarray(expit(metric.threshold - squared))

    def _embeddings(
        self, X: Floats, valid: Mask, finite: Mask, metrics: Iterable[tuple[Ints, Metric]]
    ) -> list[Floats | None]:
        """Return the embedding of each point; metrics may differ in their numbers of dimensions."""
        embeddings: list[Floats | None] = [None] * len(X)
        for rows, metric in metrics:
            good, not_finite = rows[finite[rows]], rows[valid[rows] & ~finite[rows]]
            if len(good):
                embedded = metric.embed(X[good], self.n_components)
                for row, values in zip(good.tolist(), embedded, strict=True):
                    embeddings[row] = values
            if len(not_finite):
                nothing = np.full_like(metric.embed(np.zeros(self.n_features), self.n_components), np.nan)
                for row in not_finite.tolist():
                    embeddings[row] = nothing
        return embeddings


def rows_by_code(codes: Ints) -> Iterator[tuple[int, Ints]]:
    """Return each code and its rows.

    >>> [(code, rows.tolist()) for code, rows in rows_by_code(np.array([7, -1, 7]))]
    [(-1, [1]), (7, [0, 2])]
    """
    order = np.argsort(codes, kind="stable")
    in_order = codes[order]
    for rows in np.split(order, np.flatnonzero(np.diff(in_order)) + 1) if len(codes) else ():
        yield int(codes[rows[0]]), rows


def metric_numbers(metric: Metric) -> Floats:
    """Return the threshold and the matrix of a metric as one array: what measures need of it."""
    return np.concatenate([[metric.threshold], np.asarray(metric.matrix).ravel()])


def metric_from_numbers(numbers: Floats) -> Metric:
    """Return the metric of which ``metric_numbers`` returned the array.

    >>> metric_from_numbers(metric_numbers(Metric([[4.0, 0.0], [0.0, 1.0]], threshold=3.0))).threshold
    3.0
    """
    n = round(np.sqrt(len(numbers) - 1))
    return Metric.from_trusted_matrix(numbers[1:].reshape(n, n).copy(), float(numbers[0]))


def _read_side(batch: Any, side: str | tuple[str, ...], n: int) -> tuple[Floats, Mask]:
    """Return the points of one side, and which rows have one: no null, and n numbers."""
    import pyarrow as pa

    count = batch.num_rows
    X, valid = np.full((count, n), np.nan), np.ones(count, bool)
    if not isinstance(side, str):
        for at, name in enumerate(side):
            numbers = batch.column(name)
            X[:, at] = numbers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            valid &= np.asarray(numbers.is_valid().to_numpy(zero_copy_only=False))
        return X, valid
    arrays = batch.column(side)
    lengths = np.asarray(arrays.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False))
    valid = lengths == n
    values = arrays.filter(pa.array(valid)).flatten()
    X[valid] = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)).reshape(-1, n)
    if values.null_count:
        complete = np.asarray(values.is_valid().to_numpy(zero_copy_only=False)).reshape(-1, n).all(axis=1)
        valid[np.flatnonzero(valid)[~complete]] = False
    return X, valid
