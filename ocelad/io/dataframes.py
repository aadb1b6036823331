"""Tables of pandas, polars and Arrow (whatever narwhals knows) as rows of numbers with the names of their columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Rows(NamedTuple):
    """One point per row: an array-like or a SciPy sparse matrix, not checked yet, and the names of its columns."""

    values: Any
    names: tuple[str, ...] | None


def rows(value: Any, name: str) -> Rows:
    """The rows of a table and the names of its columns; anything else as it is, without names.

    >>> import polars as pl
    >>> values, names = rows(pl.DataFrame({"height": [1.5, 2.0], "width": [3, 4]}), "X")
    >>> names
    ('height', 'width')
    >>> values
    array([[1.5, 3. ],
           [2. , 4. ]])
    """
    frame = _frame(value)
    if frame is None:
        return Rows(value, None)
    # As scikit-learn has it, numbers that pandas puts in the place of names are none.
    named = not hasattr(value, "set_axis") or all(isinstance(column, str) for column in value.columns)
    known = tuple(frame.columns) if named else None
    if any(str(dtype).startswith("Sparse") for dtype in getattr(value, "dtypes", ())):
        return Rows(_from_sparse_columns(value, name), known)
    return Rows(_numbers(frame, name), known)


def is_table(value: Any) -> bool:
    """Whether it has rows and named columns."""
    return _frame(value) is not None


def columns(table: Any) -> list[Any]:
    """The columns of a table as arrays."""
    frame = _frame(table)
    return [frame[column].to_numpy() for column in frame.columns]


def taken(value: Any, at: Any) -> Any:
    """Some rows of a table or array, as what it is."""
    if hasattr(value, "iloc"):  # pandas, whose names must stay as they are
        return value.iloc[at]
    frame = _frame(value)
    return value[at] if frame is None else frame[at.tolist()].to_native()


def _frame(value: Any) -> Any:
    """The value as a narwhals DataFrame, or None; narwhals is imported only for what may be one."""
    if type(value).__module__.partition(".")[0] in ("builtins", "numpy", "scipy", "ocelad"):
        return None
    import narwhals as nw

    if (
        type(value).__module__ == "pyarrow.lib" and type(value).__name__ == "RecordBatch"
    ):  # which narwhals does not know
        from pyarrow import Table

        value = Table.from_batches([value])
    if hasattr(value, "set_axis") and not all(isinstance(column, str) for column in value.columns):
        value = value.set_axis([f"column {i}" for i in range(value.shape[1])], axis=1)
    try:
        frame = nw.from_native(value, eager_only=True, pass_through=True)
        frame = frame.select(frame.columns) if isinstance(frame, nw.DataFrame) else frame  # pandas checks nothing
    except nw.exceptions.DuplicateError:
        raise ValueError("a table has two columns of one name; accepted: columns with names of their own") from None
    return frame if isinstance(frame, nw.DataFrame) else None


def _numbers(frame: Any, name: str) -> Any:
    for column in frame.columns:
        dtype = frame[column].dtype
        if not dtype.is_numeric() and str(dtype) != "Boolean":
            raise TypeError(f"column {column!r} of {name} holds {dtype}; accepted: columns of numbers")
        missing = frame[column].is_null()
        if missing.any():
            row = int(missing.to_numpy().argmax())
            raise ValueError(f"column {column!r} of {name} has no value in row {row}; accepted: finite numbers")
    return np.asarray(frame.to_numpy(), dtype=np.float64)


def _from_sparse_columns(value: Any, name: str) -> Any:
    try:
        return value.sparse.to_coo().tocsr()
    except (AttributeError, ValueError):
        raise TypeError(
            f"{name} has sparse columns beside others, or fills them with something else than 0; accepted: "
            "columns that are all dense, or all sparse and filled with 0"
        ) from None


def same_names(names: tuple[str, ...] | None, expected: tuple[str, ...] | None, name: str) -> None:
    """Refuse features by other names, or in another order, than those that were learned from."""
    if names is None or expected is None or names == expected:
        return
    if set(names) == set(expected):
        at = next(i for i, (one, other) in enumerate(zip(names, expected, strict=True)) if one != other)
        raise ValueError(
            f"{name} has its features in another order: {names[at]!r} where {expected[at]!r} is expected; "
            "accepted: the columns in the order in which they were learned from"
        )
    new, gone = sorted(set(names) - set(expected)), sorted(set(expected) - set(names))
    words = [f"has {_some(new)}, which were not learned from"] if new else []
    words += [f"lacks {_some(gone)}"] if gone else []
    raise ValueError(f"{name} {' and '.join(words)}; accepted: the features that were learned from")


def _some(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
