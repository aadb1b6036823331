"""Read answers from Arrow record batches: the differences, or a sentence that says what is wrong with the row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad._validation import ACCEPTED_LABELS
from ocelad.spark.answer_columns import AnswerColumns


class AnswerBatch(NamedTuple):
    """Answers of one record batch, one per row.

    Attributes
    ----------
    answers : structured array with the fields order, y and u
        See ``answer_type``. Rows with a problem have no meaning.
    problems : list of str or None
        What is wrong with each row.
    """

    answers: npt.NDArray[np.void]
    problems: list[str | None]


def answer_type(n_features: int) -> np.dtype[np.void]:
    """Return the type of an answer between two stages of Spark, where it is one binary value.

    Its fields are the event time in microseconds, or the position of the row in its partition (order), the answer (y)
    and the difference of the points (u).
    """
    return np.dtype([("order", "<i8"), ("y", "i1"), ("u", "<f8", (n_features,))])


def read_answers(batch: Any, columns: AnswerColumns, first: int = 0) -> AnswerBatch:
    """Read the answers of a record batch whose first row has the position ``first`` in its partition.

    >>> import pyarrow as pa
    >>> rows = {"user": ["a", "a", None], "x": [[1.0, 2.0], [1.0], [0.0, 0.0]], "z": [[0.0, 0.0]] * 3}
    >>> rows["same"] = [1, 0, 1]
    >>> columns = AnswerColumns(("user",), "x", "z", "same", n_features=2)
    >>> answers, problems = read_answers(pa.RecordBatch.from_pydict(rows), columns)
    >>> answers["u"][0], answers["y"][0]
    (array([1., 2.]), np.int8(1))
    >>> problems
    [None, 'x has 1 number; accepted: 2 finite numbers', 'user is null; accepted: a key']
    """
    count = batch.num_rows
    problems: list[str | None] = [None] * count
    answers = np.zeros(count, answer_type(columns.n_features))
    answers["order"] = 0 if columns.id is not None else first + np.arange(count)
    for name in columns.key:
        _note_nulls(batch.column(name), f"{name} is null; accepted: a key", problems)
    if columns.event_time is not None:
        times = batch.column(columns.event_time)
        _note_nulls(times, f"{columns.event_time} is null; accepted: a time", problems)
        answers["order"] = _microseconds(times)
    if columns.id is not None:
        _note_nulls(batch.column(columns.id), f"{columns.id} is null; accepted: the id of an answer", problems)
    answers["y"] = _labels(batch.column(columns.same), columns.same, problems)
    left, right = (read_points(batch, side, columns.n_features, problems) for side in (columns.left, columns.right))
    with np.errstate(over="ignore", invalid="ignore"):
        answers["u"] = left - right
        sizes = np.abs(answers["u"]).max(axis=1, initial=0.0)
    limit = columns.max_difference
    for row in np.flatnonzero(~(sizes <= limit)):
        _note(problems, row, f"the points differ by {sizes[row]:.3g}; accepted: differences up to {limit:g}")
    return AnswerBatch(answers, problems)


def read_points(batch: Any, side: str | tuple[str, ...], n: int, problems: list[str | None]) -> Floats:
    """Return the points of one side; notes what is wrong with a row that has no problem yet."""
    import pyarrow as pa

    count = batch.num_rows
    X = np.zeros((count, n))
    if not isinstance(side, str):
        for at, name in enumerate(side):
            column = batch.column(name)
            X[:, at] = _floats(column)
            _note_nulls(column, f"{name} is null; accepted: a finite number", problems)
            for row in np.flatnonzero(~np.isfinite(X[:, at])):
                _note(problems, row, f"{name} is {X[row, at]}; accepted: a finite number")
        return X
    column = batch.column(side)
    accepted = f"{n} finite numbers"
    _note_nulls(column, f"{side} is null; accepted: {accepted}", problems)
    lengths = np.asarray(column.value_lengths().fill_null(n).to_numpy(zero_copy_only=False))
    for row in np.flatnonzero(lengths != n):
        size = "1 number" if lengths[row] == 1 else f"{lengths[row]} numbers"
        _note(problems, row, f"{side} has {size}; accepted: {accepted}")
    complete = (lengths == n) & np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
    values = column.filter(pa.array(complete)).flatten()
    X[complete] = _floats(values).reshape(-1, n)
    rows = np.flatnonzero(~np.isfinite(X).all(axis=1))
    nulls = np.zeros((count, n), bool)
    if len(rows):
        nulls[complete] = np.asarray(values.is_null().to_numpy(zero_copy_only=False)).reshape(-1, n)
    for row in rows:
        at = int(np.argmin(np.isfinite(X[row])))
        entry = "null" if nulls[row, at] else X[row, at]
        _note(problems, row, f"{side} holds {entry} at position {at}; accepted: {accepted}")
    return X


def _labels(column: Any, name: str, problems: list[str | None]) -> npt.NDArray[np.int8]:
    """Return +1 for "same" and -1 for "different"."""
    import pyarrow as pa

    _note_nulls(column, f"{name} is null; accepted: {ACCEPTED_LABELS}", problems)
    if pa.types.is_boolean(column.type):
        return np.where(np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False)), 1, -1).astype(np.int8)
    values = _floats(column)
    for row in np.flatnonzero(~np.isin(values, (1.0, 0.0, -1.0))):
        _note(problems, row, f"{name} is {values[row]:g}; accepted: {ACCEPTED_LABELS}")
    return np.where(values == 1.0, 1, -1).astype(np.int8)


def _floats(column: Any) -> Floats:
    """Return a column of numbers as float64; null becomes NaN."""
    import pyarrow as pa

    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _microseconds(column: Any) -> npt.NDArray[np.int64]:
    import pyarrow as pa

    return np.asarray(column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).fill_null(0).to_numpy())


def _note_nulls(column: Any, sentence: str, problems: list[str | None]) -> None:
    if column.null_count:
        for row in np.flatnonzero(np.asarray(column.is_null().to_numpy(zero_copy_only=False))):
            _note(problems, row, sentence)


def _note(problems: list[str | None], row: int | np.integer[Any], sentence: str) -> None:
    """Note the first problem of a row."""
    if problems[row] is None:
        problems[row] = sentence


def to_binary(answers: npt.NDArray[np.void]) -> Any:
    """Return answers as an Arrow array of binary values."""
    import pyarrow as pa

    size = answers.dtype.itemsize
    offsets = np.arange(len(answers) + 1, dtype=np.int32) * np.int32(size)
    return pa.Array.from_buffers(
        pa.binary(), len(answers), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(answers))]
    )
