"""Answers and points of many keys in one call: checks, and rows grouped by key."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad._validation import MAX_KEY_LENGTH, check_array, check_labels, is_encodable, is_sparse
from ocelad.adaptive.adaptive_tracker import checked_differences
from ocelad.estimators.tuples import Points, read_points, result_type
from ocelad.fleet.packed_trackers import Form
from ocelad.io import dataframes
from ocelad.pairs import subtract

#: A key of a fleet. "1" and 1 are different keys.
Key: TypeAlias = str | int
Ints: TypeAlias = npt.NDArray[np.int64]

ACCEPTED_KEYS = f"texts of at most {MAX_KEY_LENGTH} characters, or integers of 64 bits"
# The compact form has single precision, in which sums of squares must not overflow.
MAX_COMPACT_DIFFERENCE = 1e15
_MIN_KEY, _MAX_KEY = -(2**63), 2**63 - 1
_LENGTHS = struct.Struct("<qqq")


class KeyedRows(NamedTuple):
    """The keys of the rows of one call.

    Attributes
    ----------
    keys : list of str or int
        The distinct keys, in the order of their first rows.
    codes : array of shape (n_rows,)
        The position of each row's key in ``keys``.
    """

    keys: list[Key]
    codes: Ints

    def group(self, first: int = 0, last: int | None = None) -> RowGroups:
        """Return the rows from ``first`` to ``last``, grouped by key.

        >>> rows = KeyedRows(["a", "b", "c"], np.array([0, 1, 0, 2, 0]))
        >>> groups = rows.group(1, 5)
        >>> groups.codes, groups.order, groups.ends
        (array([0, 1, 2]), array([2, 4, 1, 3]), array([2, 3, 4]))
        """
        codes = self.codes[first:last]
        order = np.argsort(codes, kind="stable")
        in_order = codes[order]
        starts = np.flatnonzero(np.diff(in_order, prepend=-1))
        return RowGroups(in_order[starts], order + first, np.append(starts[1:], len(codes)).astype(np.int64))


class RowGroups(NamedTuple):
    """Rows grouped by key.

    Attributes
    ----------
    codes : array of shape (n_keys,)
        The positions of the keys.
    order : array of shape (n_rows,)
        The rows of the first key in the order given, then those of the second, and so on.
    ends : array of shape (n_keys,)
        The position in ``order`` after the last row of each key.
    """

    codes: Ints
    order: Ints
    ends: Ints

    def chunks(self, n_keys: int, n_rows: int) -> Iterator[RowGroups]:
        """Return parts of at most this many keys, and at most this many rows if they have more than one key."""
        at = begin = 0
        while at < len(self.codes):
            last = min(at + n_keys, max(at + 1, int(np.searchsorted(self.ends, begin + n_rows, side="right"))))
            ends = self.ends[at:last]
            yield RowGroups(self.codes[at:last], self.order[begin : ends[-1]], ends - begin)
            at, begin = last, int(ends[-1])

    def select(self, wanted: Sequence[int]) -> RowGroups:
        """Return the groups at these positions."""
        if len(wanted) == len(self.codes):
            return self
        begins = np.append(0, self.ends[:-1])
        rows = [self.order[begins[at] : self.ends[at]] for at in wanted]
        ends = np.cumsum([len(part) for part in rows], dtype=np.int64)
        return RowGroups(self.codes[list(wanted)], np.concatenate(rows), ends)


@dataclass(frozen=True)
class KeyedAnswers:
    """Answers of many keys, in the order of the stream.

    Attributes
    ----------
    rows : KeyedRows
    U : array of shape (n_answers, n_features)
        The differences of the pairs.
    y : array of shape (n_answers,)
        +1 for "same", -1 for "different".
    """

    rows: KeyedRows
    U: Floats
    y: Floats

    def __len__(self) -> int:
        return len(self.y)

    @property
    def max_row_bytes(self) -> int:
        """The most bytes that ``to_bytes`` takes for an answer, if each has a key of its own."""
        return 8 * int(self.U.shape[1]) + 6 + max((len(json.dumps(key)) for key in self.rows.keys), default=0)

    def parts(self, n_answers: int) -> Iterator[KeyedAnswers]:
        """Return parts of at most this many answers."""
        if len(self) <= n_answers:
            yield self
            return
        for at in range(0, len(self), n_answers):
            part = slice(at, at + n_answers)
            present, codes = np.unique(self.rows.codes[part], return_inverse=True)
            keys = [self.rows.keys[code] for code in present.tolist()]
            yield KeyedAnswers(KeyedRows(keys, codes.astype(np.int64)), self.U[part], self.y[part])

    def to_bytes(self) -> bytes:
        """Return everything as bytes."""
        keys = json.dumps(self.rows.keys, separators=(",", ":")).encode()
        parts = (self.rows.codes.astype("<i4"), self.y.astype("i1"), np.ascontiguousarray(self.U, "<f8"))
        return b"".join([_LENGTHS.pack(len(keys), *self.U.shape), keys, *(part.tobytes() for part in parts)])

    @classmethod
    def from_bytes(cls, data: bytes) -> KeyedAnswers:
        """Return the answers of which ``to_bytes`` returned the bytes.

        >>> rows = KeyedRows(["a", 7], np.array([0, 1]))
        >>> KeyedAnswers.from_bytes(KeyedAnswers(rows, np.eye(2), np.array([1.0, -1.0])).to_bytes()).rows.keys
        ['a', 7]
        """
        n_bytes, count, n_features = _LENGTHS.unpack_from(data)
        at = _LENGTHS.size + n_bytes
        keys = json.loads(data[_LENGTHS.size : at])
        codes = np.frombuffer(data, "<i4", count, at).astype(np.int64)
        y = np.frombuffer(data, "i1", count, at + 4 * count).astype(float)
        U = np.frombuffer(data, "<f8", count * n_features, at + 5 * count).reshape(count, n_features)
        return cls(KeyedRows(keys, codes), U.astype(float), y)


def read_keys(keys: Any, count: int, rows_name: str = "pairs") -> KeyedRows:
    """Return the keys of ``count`` rows, after checking them.

    Parameters
    ----------
    keys : sequence, array or column of texts or integers, or one of them
        One key means that all rows have it.
    count : int
    rows_name : str
        How messages name the rows.

    Examples
    --------
    >>> read_keys(["a", 1, "a"], 3)
    KeyedRows(keys=['a', 1], codes=array([0, 1, 0]))
    >>> read_keys(["a", None], 2)
    Traceback (most recent call last):
        ...
    TypeError: keys holds None at row 1; accepted: texts of at most 1000 characters, or integers of 64 bits
    """
    entries = _entries(keys, count)
    if len(entries) != count:
        raise ValueError(f"keys has {len(entries)} entries for {count} {rows_name}; accepted: one key for each")
    for kind in set(map(type, entries)):
        # NumPy's durations are integers to Python.
        if not issubclass(kind, str | int | np.integer) or issubclass(kind, bool | np.timedelta64):
            row = next(row for row, entry in enumerate(entries) if type(entry) is kind)
            raise TypeError(f"keys holds {entries[row]!r} at row {row}; accepted: {ACCEPTED_KEYS}")
    # Everything per row runs in compiled loops of the interpreter; only distinct keys are looked at one by one.
    position = dict.fromkeys(entries)
    position.update(zip(position, range(len(position)), strict=True))
    codes = np.fromiter(map(position.__getitem__, entries), np.int64, count)
    distinct = [_plain_key(key) for key in position]
    for at, key in enumerate(distinct):
        if isinstance(key, int):
            wrong = None if _MIN_KEY <= key <= _MAX_KEY else f"{key!r}"
        elif len(key) > MAX_KEY_LENGTH:
            wrong = f"a text of {len(key)} characters"
        else:
            wrong = None if is_encodable(key) else f"{key!r}"
        if wrong is not None:
            raise ValueError(f"keys holds {wrong} at row {np.argmax(codes == at)}; accepted: {ACCEPTED_KEYS}")
    return KeyedRows(distinct, codes)


def check_key(key: Any) -> Key:
    """Return one key, after checking it."""
    if not isinstance(key, str | int | np.integer) or isinstance(key, bool | np.timedelta64):
        raise TypeError(f"the key is {key!r}; accepted: a text, or an integer")
    return read_keys(key, 1).keys[0]


def read_pairs(pairs: Any, n_features: int | None, names: tuple[str, ...] | None) -> Points:
    """Return the points of pairs, after checking them; there may be none.

    Parameters
    ----------
    pairs : array-like of shape (n_pairs, 2, n_features), or (left, right)
        left and right are tables of shape (n_pairs, n_features).
    n_features : int or None
        The required number of features; None: any.
    names : tuple of str, or None
        The required names of the features, for pairs from tables.
    """
    if is_sparse(pairs) or (isinstance(pairs, tuple | list) and any(map(is_sparse, pairs))):
        raise TypeError("pairs is sparse; accepted: numbers of shape (n_pairs, 2, n_features), or two tables")
    if isinstance(pairs, tuple | list) and len(pairs) == 2 and any(map(dataframes.is_dataframe, pairs)):
        if all(dataframes.is_dataframe(part) and len(part) == 0 for part in pairs):
            return _no_points(n_features or 1, *pairs)
        points = read_points(pairs, 2, None, n_features)
        dataframes.check_feature_names(points.names, names, "the table")
        return points
    shape = np.shape(pairs) if isinstance(pairs, np.ndarray | list | tuple) else None
    if shape is not None and shape[:1] == (0,) and shape[1:] in ((), (2, n_features or shape[-1])):
        return _no_points(n_features or shape[-1] or 1, pairs)
    array = check_array(pairs, "pairs", 3, n_features=n_features)
    if array.shape[1] != 2:
        raise ValueError(
            f"pairs has shape {array.shape}; accepted: numbers of shape (n_pairs, 2, n_features), or two tables"
        )
    return Points((array[:, 0], array[:, 1]), None, dtype=result_type(pairs))


def read_rows(X: Any, n_features: int | None, names: tuple[str, ...] | None) -> tuple[Floats, type]:
    """Return points, one per row, after checking them, and the type of results; there may be none."""
    if is_sparse(X):
        raise TypeError("X is sparse; accepted: numbers of shape (n_rows, n_features), or a table")
    values, found = dataframes.to_rows(X, "X")
    dataframes.check_feature_names(found, names, "X")
    shape = np.shape(values)
    if shape == (0,) or (len(shape) == 2 and shape[0] == 0 and n_features in (None, shape[1])):
        return np.empty((0, n_features or shape[-1] or 1)), result_type(X)
    return check_array(values, "X", 2, n_features=n_features), result_type(X)


def read_answers(keys: Any, points: Points, y: Any, form: Form) -> KeyedAnswers:
    """Return the answers about pairs of points, which a fleet of this form learns from, after checking everything."""
    labels = check_labels(y, "y", points.n_tuples)
    rows = read_keys(keys, points.n_tuples)
    if not len(labels):
        return KeyedAnswers(rows, points.parts[0], labels)
    U = checked_differences(subtract(*points.parts), "pair")
    if form == "compact" and np.abs(U).max() > MAX_COMPACT_DIFFERENCE:
        row = int(np.argmax(np.abs(U).max(axis=1) > MAX_COMPACT_DIFFERENCE))
        raise ValueError(
            f"the points of pair {row} are too far apart for form='compact': they differ by "
            f"{np.abs(U[row]).max():.3g}; accepted: up to {MAX_COMPACT_DIFFERENCE:g}, or form='exact'"
        )
    return KeyedAnswers(rows, U, labels)


class TableColumns(NamedTuple):
    """The columns of a table of answers: keys, points and labels, not checked yet.

    ``names`` are the columns of the left points; None if these are vectors.
    """

    keys: list[Any]
    pairs: Any
    y: list[Any]
    names: tuple[str, ...] | None


def read_table(table: Any, key: str, left: str | Sequence[str], right: str | Sequence[str], same: str) -> TableColumns:
    """Return the keys, the pairs and the labels in the columns of a dataframe.

    >>> import polars as pl
    >>> table = pl.DataFrame({"user": ["a", "b"], "x1": [0.0, 1.0], "x2": [2.0, 3.0], "same": [True, False]})
    >>> read_table(table, "user", ["x1"], ["x2"], "same").pairs.shape
    (2, 2, 1)
    """
    import narwhals as nw

    if not dataframes.is_dataframe(table):
        raise TypeError(f"table is a {type(table).__name__}; accepted: a dataframe of pandas, polars or Arrow")
    if type(table).__name__ == "RecordBatch":
        from pyarrow import Table

        table = Table.from_batches([table])
    frame = nw.from_native(table, eager_only=True)
    sides = [[side] if isinstance(side, str) else list(side) for side in (left, right)]
    names = [key, *sides[0], *sides[1], same]
    for name in names:
        if name not in frame.columns:
            raise ValueError(
                f"the table has no column {name!r}; accepted: one of {', '.join(map(repr, frame.columns))}"
            )
    if not sides[0] or len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"left has {len(sides[0])} columns and right has {len(sides[1])}; accepted: as many, at least one"
        )
    missing = dataframes.find_missing(frame.select(list(dict.fromkeys(names))).to_native())
    if missing is not None:
        raise ValueError(f"column {missing[1]!r} of the table has no value in row {missing[0]}; accepted: a value")
    points = [_points(frame, columns, name) for columns, name in zip(sides, ("left", "right"), strict=True)]
    if points[0].shape != points[1].shape:
        raise ValueError(f"left has shape {points[0].shape} and right has {points[1].shape}; accepted: the same shape")
    names_of_left = None if _has_vectors(frame, sides[0]) else tuple(sides[0])
    return TableColumns(frame[key].to_list(), np.stack(points, axis=1), frame[same].to_list(), names_of_left)


def _has_vectors(frame: Any, columns: list[str]) -> bool:
    return len(columns) == 1 and not frame[columns[0]].dtype.is_numeric()


def _points(frame: Any, columns: list[str], name: str) -> Floats:
    """Return the points in columns of numbers, or in one column of vectors."""
    if len(frame) == 0:
        return np.empty((0, len(columns)))
    if _has_vectors(frame, columns):
        vectors = f"numbers, or vectors of one length, in the column {columns[0]!r}"
        return check_array(frame[columns[0]].to_list(), name, 2, shapes={2: vectors})
    return check_array(dataframes.to_rows(frame.select(columns).to_native(), name).values, name, 2)


def _no_points(n_features: int, *sources: Any) -> Points:
    no_points = np.empty((0, n_features))
    return Points((no_points, no_points), None, dtype=result_type(*sources))


def _entries(keys: Any, count: int) -> list[Any]:
    """Return the key of each row as a list; numbers of NumPy become integers."""
    if isinstance(keys, str | int | np.integer):
        return [keys] * count
    if isinstance(keys, list | tuple):
        return list(keys)
    if not isinstance(keys, np.ndarray):
        import narwhals as nw

        if type(keys).__module__ == "pyarrow.lib" and type(keys).__name__.endswith("Array"):
            return list(keys.to_pylist())
        column = nw.from_native(keys, series_only=True, pass_through=True)
        if isinstance(column, nw.Series):
            entries: list[Any] = column.to_list()
            return entries
        if isinstance(keys, dict | set) or dataframes.is_dataframe(keys):
            raise TypeError(f"keys is a {type(keys).__name__}; accepted: a column of {ACCEPTED_KEYS}")
    array = np.asanyarray(keys)  # a masked array stays one: its masked entries are None
    if array.ndim == 0:
        raise TypeError(f"keys is {keys!r}; accepted: {ACCEPTED_KEYS}, one for each row or one for all rows")
    if array.ndim != 1:
        raise TypeError(f"keys has shape {array.shape}; accepted: {ACCEPTED_KEYS}, one for each row")
    return list(array) if array.dtype.kind in "mM" else list(array.tolist())  # times are no integers


def _plain_key(key: Any) -> Key:
    # A member of an enumeration of texts stands for its value.
    return str.__str__(key) if isinstance(key, str) else int(key)
