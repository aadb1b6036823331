"""Dataframes of pandas, polars, Arrow and other libraries that narwhals supports, as arrays with column names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class FrameRows(NamedTuple):
    """Points, one per row, that are not validated yet: an array-like or SciPy sparse matrix, and the column names."""

    values: Any
    names: tuple[str, ...] | None


def to_rows(value: Any, name: str) -> FrameRows:
    """Return the rows and the column names of a dataframe. Other values are returned unchanged, without names.

    >>> import polars as pl
    >>> values, names = to_rows(pl.DataFrame({"height": [1.5, 2.0], "width": [3, 4]}), "X")
    >>> names
    ('height', 'width')
    >>> values
    array([[1.5, 3. ],
           [2. , 4. ]])
    """
    frame = _to_narwhals(value)
    if frame is None:
        return FrameRows(value, None)
    names = column_names(value)
    if any(str(dtype).startswith("Sparse") for dtype in getattr(value, "dtypes", ())):
        return FrameRows(_from_sparse_columns(value, name), names)
    return FrameRows(_to_numpy(frame, name), names)


def is_dataframe(value: Any) -> bool:
    """Return whether the value is a dataframe."""
    return _to_narwhals(value) is not None


def is_single_precision(value: Any) -> bool:
    """Return whether an array, a sparse matrix or a dataframe holds float32 numbers only.

    >>> is_single_precision(np.zeros(2, dtype=np.float32)), is_single_precision([1.0])
    (True, False)
    """
    frame = _to_narwhals(value)
    if frame is None:
        return getattr(value, "dtype", None) == np.float32
    return bool(frame.columns) and all(str(dtype) == "Float32" for dtype in frame.schema.values())


def column_names(value: Any) -> tuple[str, ...] | None:
    """Return the column names of a dataframe; None if it has none.

    As in scikit-learn, pandas columns that are not all strings count as unnamed.
    """
    frame = _to_narwhals(value)
    if frame is None or (hasattr(value, "set_axis") and not all(isinstance(column, str) for column in value.columns)):
        return None
    return tuple(frame.columns)


def column_arrays(table: Any) -> list[Any]:
    """Return the columns of a dataframe as arrays."""
    frame = _to_narwhals(table)
    return [frame[column].to_numpy() for column in frame.columns]


def to_columns(value: Any) -> dict[str, list[Any]] | None:
    """Return the columns of a dataframe as lists by name; None for other values.

    >>> import polars as pl
    >>> to_columns(pl.DataFrame({"name": ["Ann", None], "age": [3, 4]}))
    {'name': ['Ann', None], 'age': [3, 4]}
    """
    frame = _to_narwhals(value)
    return None if frame is None else {column: frame[column].to_list() for column in frame.columns}


def take_rows(value: Any, indices: Any) -> Any:
    """Return rows of a dataframe or array by their indices, in the same type."""
    if hasattr(value, "iloc"):  # narwhals would rename pandas columns that are not strings
        return value.iloc[indices]
    frame = _to_narwhals(value)
    return value[indices] if frame is None else frame[indices.tolist()].to_native()


def concatenate(tables: Sequence[Any]) -> Any:
    """Return the rows of several dataframes of one library below each other, as one dataframe of this library."""
    import narwhals as nw

    return nw.concat([nw.from_native(table, eager_only=True) for table in tables]).to_native()


def split_ids(table: Any, column: str, name: str) -> tuple[list[Any], Any] | None:
    """Return the ids of a dataframe and the rest of it; None if it has none.

    Ids are the strings in a column of this name, or in the index of a pandas table. A column of integers is refused: it
    would be learned as a feature, and ids would be taken for row numbers.

    >>> import polars as pl
    >>> ids, rest = split_ids(pl.DataFrame({"id": ["a", "b"], "height": [1.5, 2.0]}), "id", "items")
    >>> ids, rest.columns
    (['a', 'b'], ['height'])
    """
    frame = _to_narwhals(table)
    if frame is None:
        return None
    if column in frame.columns and str(frame[column].dtype) in ("String", "Categorical", "Enum", "Object"):
        return frame[column].to_list(), frame.drop(column).to_native()
    if column in frame.columns and frame[column].dtype.is_integer():
        raise ValueError(
            f"{name} has a column {column!r} of integers, which may be ids or a feature; accepted: ids as text, such "
            f"as df[{column!r}].astype(str), or no column {column!r}, for items by row number, or another name"
        )
    index = getattr(table, "index", None)
    if index is not None and hasattr(index, "tolist") and all(isinstance(entry, str) for entry in index):
        return index.tolist(), table
    return None


def find_missing(value: Any) -> tuple[int, str] | None:
    """Return the row and the column of the first missing value of a dataframe; None for other values, or if none is.

    >>> import polars as pl
    >>> find_missing(pl.DataFrame({"height": [1.5, None], "width": [3, 4]}))
    (1, 'height')
    """
    frame = _to_narwhals(value)
    for column in () if frame is None else frame.columns:
        missing = frame[column].is_null().to_numpy()
        if missing.any():
            return int(missing.argmax()), column
    return None


def check_index(table: Any, name: str) -> None:
    """Refuse a pandas table whose index holds numbers other than positions: an index could then mean two rows."""
    index = getattr(table, "index", None) if hasattr(table, "iloc") else None
    kind = None if index is None else getattr(index, "inferred_type", None)
    if index is None or kind not in ("integer", "floating", "mixed-integer-float"):
        return
    wrong = np.flatnonzero(np.asarray(index) != np.arange(len(index)))
    if len(wrong):
        raise ValueError(
            f"{name} is a table with the index {index[wrong[0]]} in row {wrong[0]}; accepted: reset_index(drop=True), "
            "for items by row number, or strings in the index or in a column 'id', for items by id"
        )


def _to_narwhals(value: Any) -> Any:
    """Return a narwhals DataFrame, or None for other values; narwhals is imported only if the value may be one."""
    if type(value).__module__.partition(".")[0] in ("builtins", "numpy", "scipy", "ocelad"):
        return None
    import narwhals as nw

    # narwhals does not support record batches.
    if type(value).__module__ == "pyarrow.lib" and type(value).__name__ == "RecordBatch":
        from pyarrow import Table

        value = Table.from_batches([value])
    if hasattr(value, "set_axis") and not all(isinstance(column, str) for column in value.columns):
        value = value.set_axis([f"column {i}" for i in range(value.shape[1])], axis=1)
    try:
        frame = nw.from_native(value, eager_only=True, pass_through=True)
        # The selection raises DuplicateError; pandas accepts duplicate names.
        frame = frame.select(frame.columns) if isinstance(frame, nw.DataFrame) else frame
    except nw.exceptions.DuplicateError:
        raise ValueError("a table has two columns of one name; accepted: columns with different names") from None
    return frame if isinstance(frame, nw.DataFrame) else None


def _to_numpy(frame: Any, name: str) -> Any:
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
            f"{name} mixes sparse and dense columns, or has sparse columns with a fill value other than 0; accepted: "
            "all columns dense, or all sparse with the fill value 0"
        ) from None


def check_feature_names(
    names: tuple[str, ...] | None, expected: tuple[str, ...] | None, name: str, origin: str = "the training data"
) -> None:
    """Raise ValueError unless the feature names equal the expected names in the same order. None matches any names.

    Parameters
    ----------
    names, expected : tuple of str, or None
    name, origin : str
        How the message names the value with these names, and that with the expected names.
    """
    if names is None or expected is None or names == expected:
        return
    if set(names) == set(expected):
        at = next(i for i, (one, other) in enumerate(zip(names, expected, strict=True)) if one != other)
        raise ValueError(
            f"{name} has its features in another order: {names[at]!r} where {expected[at]!r} is expected; "
            f"accepted: the columns in the order of {origin}"
        )
    unknown, missing = sorted(set(names) - set(expected)), sorted(set(expected) - set(names))
    parts = [f"has the unknown features {_quote_some(unknown)}"] if unknown else []
    parts += [f"lacks {_quote_some(missing)}"] if missing else []
    raise ValueError(f"{name} {' and '.join(parts)}; accepted: the features of {origin}")


def _quote_some(names: list[str], max_names: int = 5) -> str:
    more = f" and {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(map(repr, names[:max_names])) + more
