"""Tables of items from files, in chunks or as a whole: each row holds an id and a point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice
from ocelad.io.tabular import cells
from ocelad.io.tabular.column_samples import ColumnSample, Sample, default_features
from ocelad.io.tabular.column_selection import find_column, find_feature_columns
from ocelad.io.tabular.columnar import ColumnarTable
from ocelad.io.tabular.file_errors import BadRowError, FileError, RowError, quote, quote_all
from ocelad.io.tabular.file_formats import open_table
from ocelad.io.tabular.file_stream import FileStream
from ocelad.io.tabular.key_column import KeyColumn
from ocelad.io.tabular.point_columns import (
    AsNumber,
    FilledPoints,
    ItemTable,
    ListColumn,
    ObjectColumn,
    PointColumns,
    Record,
    ScalarColumns,
    get_cell,
    read_item_point,
)
from ocelad.io.tabular.record_blocks import Ints, Selection, Table, Values
from ocelad.io.tabular.sources import Source

_DEFAULT_ID = "id"
# The names of ids and labels; arrays of .npz files are usually named in the plural.
_ID_COLUMNS, _LABEL_COLUMNS = ("id", "ids"), ("label", "labels")
MISSING = ("stop", "median")
# The number of first rows that determine whether a column holds numbers, and the features of a nested column.
_N_SAMPLE_ROWS = 100
# The largest number of rows, and about the largest number of values, of a chunk.
_CHUNK_ROWS, _CHUNK_VALUES = 8192, 1 << 22


@dataclass(frozen=True)
class ItemChunk:
    """Consecutive items of a file.

    Attributes
    ----------
    ids : list
        The ids as in the file; numbers from 0 if the file has no column of ids.
    X : array of shape (m, n_features)
        The points: float32 if the file stores them in float32 or less, otherwise float64.
    labels : list, or None
        The labels as in the file; None without a column of labels.
    lines : int64 array of shape (m,)
        The line of each row, or its row number in Parquet and Arrow files, counted from 1.
    keys : list of str, or None
        The key of each item, as text; None when no keys are read.
    """

    ids: list[Any]
    X: Floats
    labels: list[Any] | None
    lines: Ints
    keys: list[str] | None = None


@dataclass(frozen=True)
class ItemSchema:
    """The conversion of rows to items. ``filled`` replaces missing numbers; ``may_miss`` accepts NaN after that."""

    points: PointColumns
    id: str | None
    label: str | None
    dtype: Any = np.float64
    filled: FilledPoints | None = None
    may_miss: bool = False
    key: KeyColumn | None = None

    @property
    def selection(self) -> Selection:
        key = None if self.key is None else self.key.column
        return Selection((self.points,), tuple(name for name in (self.id, self.label, key) if name is not None))

    def columns(self, table: Any) -> Values | None:
        X = np.empty((table.num_rows, self.points.width), dtype=self.dtype)
        if not (self.filled or self.points).fill(table, X) or not self._is_valid(X):
            return None
        ids = labels = None
        try:
            if self.id is not None:
                ids = [cells.normalize_value(entry) for entry in table.column(self.id).to_pylist()]
                if any(cells.normalize_id(entry) is None for entry in ids):
                    return None
            if self.label is not None:
                labels = [cells.normalize_value(entry) for entry in table.column(self.label).to_pylist()]
        except TypeError:
            return None
        keys = None
        if self.key is not None:
            keys = self.key.keys(table)
            if keys is None:
                return None
        return {"X": X, "ids": ids, "labels": labels, "keys": keys}

    def row(self, record: Record, as_number: AsNumber) -> Values:
        point = read_item_point(self.filled or self.points, record, as_number)
        values: Values = {"X": point, "ids": None, "labels": None, "keys": None}
        if self.id is not None:
            entry = get_cell(record, self.id)
            cells.require(self.id, entry, cells.normalize_id, "an id is expected: text or a whole number")
            values["ids"] = cells.normalize_value(entry)
        if self.label is not None:
            values["labels"] = cells.require_value(self.label, get_cell(record, self.label))
        if self.key is not None:
            values["keys"] = self.key.key(record)
        return values

    def stack(self, rows: list[Values]) -> Values:
        return {
            "X": np.array([row["X"] for row in rows], dtype=self.dtype).reshape(len(rows), self.points.width),
            "ids": None if self.id is None else [row["ids"] for row in rows],
            "labels": None if self.label is None else [row["labels"] for row in rows],
            "keys": None if self.key is None else [row["keys"] for row in rows],
        }

    def _is_valid(self, X: Any) -> bool:
        return not np.isinf(X).any() if self.may_miss else bool(np.isfinite(X).all())


@dataclass(frozen=True)
class KnownFeatures:
    """The features that a distance was learned from, to be found in a table of items.

    They are the columns with their names. If the table has no such columns, they are the vectors in the column that was
    learned from, or in the only column of vectors.

    Attributes
    ----------
    names : tuple of str, or None
        The names of the features, as far as they are known; numbers from 0 if the features came in vectors.
    column : str, or None
        The column of vectors that was learned from.
    """

    names: tuple[str, ...] | None
    column: str | None = None


class FeatureColumns(NamedTuple):
    """The columns of the features: how points are read, the names of the features, and the columns left out."""

    points: PointColumns
    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    # A cell with digits of each column that is left out, if it has any.
    examples: Mapping[str, str] = MappingProxyType({})


class ItemStream(FileStream[ItemChunk]):
    """The items of a file, in chunks; returned by ``open_items``.

    Attributes
    ----------
    column_notes : tuple of str
        What a user should know about the columns: those that are not features.
    """

    column_notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the file: columns that are not features, its numbers, and its encoding."""
        return (*self.column_notes, *self.number_notes, *self.encoding_notes)

    @property
    def vector_column(self) -> str | None:
        """The column of vectors that holds the points; None if each feature has its column."""
        points = self._schema.points if isinstance(self._schema, ItemSchema) else None
        return points.column if isinstance(points, ListColumn | ObjectColumn) else None

    @property
    def has_ids(self) -> bool:
        """Whether the file has a column of ids; otherwise they are numbers from 0."""
        return isinstance(self._schema, ItemSchema) and self._schema.id is not None

    @property
    def numbering(self) -> str:
        """A clause that says that the items are numbered, and the way out; empty if the file has a column of ids."""
        if self.has_ids:
            return ""
        if self._table.format == "npy":
            return f"{self.name} has no ids, so that its items are numbered from 0"
        return (
            f"{self.name} has no column {quote(_DEFAULT_ID)}, so that its items are numbered from 0; name the column "
            "of ids with id="
        )

    @property
    def array(self) -> Any:
        """All points of a NumPy file as an array, mapped into memory where possible; None for other files."""
        schema, column = self._schema, self.vector_column
        if not isinstance(schema, ItemSchema) or not isinstance(self._table, ColumnarTable) or column is None:
            return None
        array = self._table.arrays.get(column)
        usable = array is not None and array.dtype in (np.float32, np.float64) and array.dtype.isnative
        return array if usable and schema.filled is None else None

    @property
    def name(self) -> str:
        """The name of the file in messages."""
        return self._source.name

    @property
    def unit(self) -> str:
        """The unit that ``lines`` counts: "line" or "row"."""
        return self._table.unit

    def _make_chunk(self, values: Values, lines: Ints, numbers: Ints) -> ItemChunk:
        ids = numbers.tolist() if values["ids"] is None else values["ids"]
        return ItemChunk(ids, values["X"], values["labels"], lines, values["keys"])


def open_items(
    source: Any,
    *,
    format: str | None = None,
    id: str = _DEFAULT_ID,
    label: str | bool | None = None,
    key: str | None = None,
    features: str | Sequence[str] | KnownFeatures | None = None,
    exclude: str | Sequence[str] = (),
    missing: str = "stop",
    on_error: str = "stop",
    skipped: Any = None,
    chunk_size: int | None = None,
) -> ItemStream:
    """Read a table of items from a file in chunks.

    Parameters
    ----------
    source : path, or "-" for standard input
        CSV, TSV, JSON lines (each may be gzipped), Parquet, Arrow IPC, or NumPy's .npy and .npz. A .npy file holds one
        vector per row, in the column "vector". Each array of a .npz file is a column: a 2-D array a column of vectors.
        Arrow and .npy files are mapped into memory.
    format : {"csv", "tsv", "jsonl", "parquet", "arrow", "npy", "npz"}, optional
        Default: detected from the suffix, or from the first bytes.
    id : str, default "id"
        The column of ids. If the file has no column ``id`` (.npz: ``id`` or ``ids``), the items are numbered from 0.
    label : str or False, optional
        The column of labels; False: read no labels. Default: ``label`` (.npz: also ``labels``), if the file has it.
    key : str, optional
        The column of keys, texts or whole numbers, which may be that of the ids. Default: no keys.
    features : str, sequence of str or KnownFeatures, optional
        The columns of the features, as names or patterns, or one column of vectors: lists, fixed-size lists or objects
        of numbers. Default: the column of vectors, otherwise all other columns of numbers. Columns of text are left
        out; ``notes`` of the stream says so.
    exclude : str or sequence of str
        Columns that are not features, as names or patterns.
    missing : {"stop", "median"}, default "stop"
        What happens to missing numbers, such as empty cells, null and NaN: "stop" treats the row as invalid, "median"
        replaces them by the median of the feature in this file, which is then read more than once.
    on_error, skipped
        As in ``open_comparisons``.
    chunk_size : int, optional
        Rows per chunk. Default: 8192, or fewer if rows are long.

    Returns
    -------
    ItemStream
        An iterator over ``ItemChunk`` objects and a context manager. It can be iterated over once.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "items.csv")
    >>> _ = path.write_text("id,height,width\\na,1,2\\nb,3,4\\n")
    >>> with open_items(path) as stream:
    ...     [(items.ids, items.X.tolist()) for items in stream]
    [(['a', 'b'], [[1.0, 2.0], [3.0, 4.0]])]
    """
    check_choice(on_error, "on_error", ("stop", "skip"))
    check_choice(missing, "missing", MISSING)
    stop = on_error == "stop"

    def start(medians: Floats | None, collects: bool) -> ItemStream:
        """Open the file from its beginning; with ``collects``, missing numbers stay NaN."""
        opened = Source(source)
        try:
            table = open_table(opened, format, stop)
            roles, found = _find_columns(opened.name, table, (id, label, key), features, exclude, stop)
            filled = None
            if missing == "median":
                if opened.total_bytes is None:
                    raise FileError(
                        f"{opened.name} can be read only once, and missing='median' reads it twice; accepted: a file"
                    )
                values = np.full(found.points.width, np.nan) if medians is None else medians
                filled = FilledPoints(found.points, values)
            is_single = set(found.points.columns) <= table.single_precision
            keys = None if roles.key is None else KeyColumn(roles.key)
            dtype = np.float32 if is_single else np.float64
            schema = ItemSchema(found.points, roles.id, roles.label, dtype, filled, collects, keys)
            rows = chunk_size or max(1, min(_CHUNK_ROWS, _CHUNK_VALUES // found.points.width))
            side_file = {"on_error": on_error, "skipped": skipped}
            stream = ItemStream(opened, table, schema, found.names, **side_file, chunk_size=rows, resume=None)
            stream.column_notes = _describe_left_out(opened.name, found)
            return stream
        except BaseException:
            opened.close()
            raise

    if missing == "stop":
        return start(None, collects=False)
    with start(None, collects=True) as first:
        name, names = first.name, first.feature_names
    medians = find_medians(name, names, lambda: _points_of(start(None, collects=True)))
    return start(medians, collects=False)


def _points_of(stream: ItemStream) -> Iterator[Any]:
    with stream:
        for items in stream:
            yield items.X


def find_medians(name: str, features: Sequence[str], read: Callable[[], Iterator[Any]]) -> Floats:
    """Return the median of each feature that is missing somewhere, and NaN for the others.

    ``read`` returns an iterator over blocks of points, in which missing numbers are NaN. It is called twice, so that
    only the features with missing numbers are held in memory.
    """
    is_missing = np.zeros(len(features), dtype=bool)
    for X in read():
        is_missing |= np.isnan(X).any(axis=0)
    medians = np.full(len(features), np.nan)
    if is_missing.any():
        values = np.concatenate([X[:, is_missing] for X in read()])
        present = ~np.isnan(values).all(axis=0)
        if not present.all():
            feature = np.array(features, dtype=object)[is_missing][~present][0]
            raise FileError(
                f"{name}: the feature {quote(feature)} is missing in every row, so that it has no median; leave it out "
                "with exclude="
            )
        medians[is_missing] = np.nanmedian(values, axis=0)
    return medians


def load_item_table(stream: ItemStream) -> ItemTable:
    """Read all items of a stream; those of a .npy file stay in the file. Raises RowError if an id occurs twice."""
    rows: dict[str, int] = {}
    lines: list[int] = []
    parts = []
    array = stream.array if stream.skipped is None else None
    for items in stream:
        for line, entry in zip(items.lines.tolist(), items.ids, strict=True):
            key = cells.normalize_id(entry)
            assert key is not None
            if key in rows:
                raise RowError(_describe_repeated(stream, entry, line, lines[rows[key]]), line)
            rows[key] = len(rows)
            lines.append(line)
        if array is None:
            parts.append(items.X)
    if not rows:
        raise FileError(f"{stream.name} has no items")
    return ItemTable(rows, np.concatenate(parts) if array is None else array, stream.name, stream.vector_column)


class SeenIds:
    """The lines of the first ``max_ids`` ids of a stream, to find one that is repeated."""

    def __init__(self, stream: ItemStream, max_ids: float = inf) -> None:
        self._stream, self._max_ids = stream, max_ids if stream.has_ids else 0
        self._lines: dict[str | None, int] = {}

    def add(self, items: ItemChunk) -> RowError | None:
        """Add the ids of a chunk; return an error about the first one that is repeated."""
        repeated = None
        for line, entry in zip(items.lines.tolist(), items.ids, strict=True):
            if len(self._lines) >= self._max_ids:
                break
            first = self._lines.setdefault(cells.normalize_id(entry), line)
            if first != line and repeated is None:
                repeated = RowError(_describe_repeated(self._stream, entry, line, first), line)
        return repeated


def _describe_repeated(stream: ItemStream, entry: Any, line: int, first: int) -> str:
    return f"{stream.name}, {stream.unit} {line}: the id {quote(entry)} occurs already in {stream.unit} {first}"


class _Roles(NamedTuple):
    """The columns of ids, labels and keys; None if there is none."""

    id: str | None
    label: str | None
    key: str | None


def _find_columns(
    name: str,
    table: Table,
    requested: tuple[str, Any, str | None],
    features: Any,
    exclude: str | Sequence[str],
    stop: bool,
) -> tuple[_Roles, FeatureColumns]:
    """Return the columns of ids, labels and keys, and those of features."""
    id, label, key = requested
    plural = table.format == "npz"
    key_column = find_column(name, table.kinds, key, (), "key", required=False)
    id_column = find_column(
        name, table.kinds, None if id == _DEFAULT_ID else id, _ID_COLUMNS[: 1 + plural], "id", required=False
    )
    labels = _LABEL_COLUMNS[: 1 + plural]
    label_column = find_column(
        name, table.kinds, label, labels, "label", required=False, used=() if key_column is None else (key_column,)
    )
    roles = _Roles(id_column, label_column, key_column)
    used = [column for column in roles if column is not None]
    return roles, _feature_columns(name, table, features, used, exclude, stop)


def _feature_columns(
    name: str, table: Table, features: Any, used: list[str], exclude: str | Sequence[str], stop: bool
) -> FeatureColumns:
    excluded = excluded_columns(name, table.kinds, exclude)
    free = [column for column in table.kinds if column not in used and column not in excluded]
    found = table.sample(_N_SAMPLE_ROWS)
    names = None
    if isinstance(features, KnownFeatures):
        features, names = _known_columns(name, table, features, free, excluded, found), features.names
    if features is not None:
        chosen = find_feature_columns(name, table.kinds, features, [*used, *excluded])
        if both := [column for column in chosen if column in excluded]:
            raise FileError(f"{name}: the column {quote(both[0])} is in features= and in exclude=")
        left_out: tuple[str, ...] = ()
        examples: dict[str, str] = {}
    else:
        if "" in free:
            raise FileError(
                f"{name} has a column without a name, perhaps an index; name it, or select columns with features="
            )
        samples = {column: ColumnSample(table, column, found) for column in free}
        chosen = default_features(name, samples, free)
        left_out = tuple(column for column in free if column not in chosen)
        examples = {column: cell for column in left_out if (cell := _find_digits(samples[column], table)) is not None}
    if not chosen:
        raise FileError(
            f"{name} has no columns of features: numbers, or a column of vectors; it has {quote_all(table.kinds)}"
        )
    if len(chosen) == 1 and ColumnSample(table, chosen[0], found).kind == "list":
        return FeatureColumns(*nested_point_column(name, table, chosen[0], found, stop, names), left_out)
    for column in chosen:
        entries = [record[column] for _, record in found if not isinstance(record, BadRowError) and column in record]
        entries = [entry for entry in entries if not cells.is_missing(entry)]
        numeric = any(table.as_number(entry) is not None for entry in entries)
        if (table.kinds[column] != "number" and table.typed) or (entries and not numeric):
            what = f"{quote(entries[0])} in its first row" if entries else f"values of the kind {table.kinds[column]!r}"
            raise FileError(
                f"{name}: the column {quote(column)} holds {what}; numbers are expected; features= selects columns"
            )
    return FeatureColumns(ScalarColumns(chosen), chosen, left_out, examples)


def _find_digits(sample: ColumnSample, table: Table) -> str | None:
    """Return the first text with digits that is no number, such as "512.3 €": numbers may be meant."""
    texts = (value for value in sample.values if isinstance(value, str) and table.as_number(value) is None)
    return next((text for text in texts if any(map(str.isdecimal, text))), None)


def excluded_columns(name: str, columns: Mapping[str, Any], exclude: str | Sequence[str]) -> tuple[str, ...]:
    """Return the columns that names and patterns exclude. Raises FileError if one matches no column."""
    try:
        return find_feature_columns(name, columns, exclude, ()) if exclude else ()
    except FileError as error:
        raise FileError(str(error).replace("(features=)", "(exclude=)")) from None


def _known_columns(
    name: str, table: Table, known: KnownFeatures, free: list[str], excluded: Sequence[str], found: Sample
) -> Any:
    """Return the columns of known features; None if nothing is known of them."""
    if known.names is not None and set(known.names) <= set(free):
        return known.names
    if known.column is not None and known.column in free:
        return known.column
    is_vector = known.names is None or known.column is not None or known.names == _numbered(len(known.names))
    vectors = [column for column in free if is_vector and ColumnSample(table, column, found).kind == "list"]
    if len(vectors) == 1:
        return vectors[0]
    if len(vectors) > 1:
        raise FileError(f"{name} has several columns of vectors, {quote_all(vectors)}; select one with features=")
    if known.column is not None:
        raise FileError(
            f"{name} has no column {quote(known.column)} and no other column of vectors; it has "
            f"{quote_all(table.kinds)}; features= selects columns"
        )
    if left_out := [column for column in known.names or () if column in excluded]:
        raise FileError(
            f"{name}: exclude= leaves out the column {quote(left_out[0])}, which the tracker was trained on; "
            "omit exclude="
        )
    if missing := [column for column in known.names or () if column not in table.kinds]:
        columns = "column" if len(missing) == 1 else "columns"
        raise FileError(
            f"{name} lacks the {columns} {quote_all(missing, 5)}, which the tracker was trained on; it has "
            f"{quote_all(table.kinds)}"
        )
    return known.names


def _numbered(count: int) -> tuple[str, ...]:
    """Return the names of the features of a vector."""
    return tuple(map(str, range(count)))


def _describe_left_out(name: str, found: FeatureColumns) -> tuple[str, ...]:
    if not found.left_out:
        return ()
    columns = "column is" if len(found.left_out) == 1 else "columns are"
    if isinstance(found.points, ScalarColumns):
        features = "which have no numbers" if len(found.left_out) > 1 else "which has no numbers"
    else:
        features = f"because {quote(found.points.columns[0])} has the vectors"
    described = [
        f"{quote(column)} (such as {quote(found.examples[column])})" if column in found.examples else quote(column)
        for column in found.left_out
    ]
    more = f", ... ({len(described)} in all)" if len(described) > 8 else ""
    left_out = f"{', '.join(described[:8])}{more}"
    return (
        f"{name}: {len(found.left_out)} {columns} left out of the features: {left_out}, {features}; features= selects "
        "columns",
    )


def nested_point_column(
    name: str, table: Table, column: str, found: Sample, stop: bool, names: tuple[str, ...] | None = None
) -> tuple[PointColumns, tuple[str, ...]]:
    """Return the reader of a column of lists or objects, and its feature names, from the first rows ``found``.

    Objects are read in the order of ``names``, if they have these keys.
    """
    for line, record in found:
        value = record if isinstance(record, BadRowError) else record.get(column)
        if isinstance(value, list) and value:
            return ListColumn(column, len(value)), _numbered(len(value))
        if isinstance(value, dict) and value:
            keys = names if names is not None and set(names) == set(value) else tuple(value)
            return ObjectColumn(column, keys), keys
        if stop and value is not None:
            raise RowError(f"{name}, {table.unit} {line}: the column {quote(column)} holds no numbers", line)
    raise FileError(f"{name}: none of the first rows holds numbers in the column {quote(column)}")
