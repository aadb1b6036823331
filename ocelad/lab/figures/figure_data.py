"""``FigureData``: the tables that a figure is drawn from, and their files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from ocelad._typing import Metadata
from ocelad._validation import check_choice
from ocelad.io.atomic import write_atomically

#: Columns by name, all of the same length: numbers, text or truth values.
Table: TypeAlias = Mapping[str, Sequence[Any] | np.ndarray]
Format = Literal["csv", "parquet"]

# The first line of a CSV file starts with this; other readers can skip it as a comment.
_HEADER_PREFIX = "# ocelad figure "
# The key of the same header in the metadata of a Parquet file.
_PARQUET_KEY = b"ocelad"
# The metadata are in the last bytes of a Parquet file.
_PARQUET_FOOTER = 1 << 16


@dataclass(frozen=True, eq=False)
class FigureData:
    """Named tables, with the settings and versions that they were computed with.

    Attributes
    ----------
    metadata : dict
        The figure, its settings and versions, as JSON-compatible values.
    tables : dict of tables
        The columns of each table as arrays.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> data = FigureData({"figure": "7"}, {"errors": {"method": ["rice", "saol"], "error": [1.5, 17.0]}})
    >>> with TemporaryDirectory() as folder:
    ...     _ = data.save(folder)
    ...     loaded = FigureData.load(folder)
    >>> loaded.metadata, loaded.tables["errors"]["error"]
    ({'figure': '7'}, array([ 1.5, 17. ]))
    >>> loaded.where("errors", method="rice")["error"]
    array([1.5])
    """

    metadata: Metadata
    tables: Mapping[str, Mapping[str, np.ndarray]]

    def __post_init__(self) -> None:
        arrays = {name: {key: np.asarray(column) for key, column in each.items()} for name, each in self.tables.items()}
        object.__setattr__(self, "tables", arrays)
        for name, table in arrays.items():
            shapes = {key: column.shape for key, column in table.items()}
            if len(set(shapes.values())) != 1 or any(column.ndim != 1 for column in table.values()):
                raise ValueError(f"the columns of {name} must have one length; got the shapes {shapes}")

    def where(self, table: str, **values: Any) -> dict[str, np.ndarray]:
        """Return the rows of a table in which the named columns have these values."""
        columns = self.tables[table]
        matches = np.ones(len(next(iter(columns.values()))), dtype=bool)
        for name, value in values.items():
            matches &= columns[name] == value
        return {name: column[matches] for name, column in columns.items()}

    def save(self, folder: str | Path, format: Format = "csv") -> list[Path]:
        """Write one file per table, with the metadata in each, and return their paths.

        The same data give the same bytes. Files of tables that the data no longer have are deleted.
        """
        check_choice(format, "format", get_args(Format))
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, table in self.tables.items():
            path = folder / f"{name}.{format}"
            header = _make_header(self.metadata, self.tables, table)
            content = _to_csv(header, table) if format == "csv" else _to_parquet(header, table)
            write_atomically(path, content)
            paths.append(path)
        for stale in (path for path in _list_files(folder) if path not in paths and _is_figure_data(path)):
            stale.unlink()  # it belongs to an earlier run and would be taken for part of this one
        return paths

    @classmethod
    def load(cls, folder: str | Path) -> FigureData:
        """Load the data that ``save`` wrote."""
        paths = _list_files(Path(folder))
        if not paths:
            raise FileNotFoundError(f"there are no data in the folder {str(folder)!r}; compute the figure first")
        tables, headers = {}, []
        for path in paths:
            with _describe_errors(path):
                header, table = _read_csv(path) if path.suffix == ".csv" else _read_parquet(path)
                if _make_header(header["about"], header["tables"], table) != header:
                    raise ValueError("it is incomplete or was changed")
            tables[path.stem] = table
            headers.append((header["about"], header["tables"]))
        if any(header != headers[0] for header in headers):
            raise ValueError(f"the files in {str(folder)!r} are from different runs; compute the figure again")
        if missing := set(headers[0][1]) - set(tables):
            names = ", ".join(sorted(missing))
            raise FileNotFoundError(f"{names} is missing in {str(folder)!r}; compute the figure again")
        return cls(headers[0][0], tables)


def _list_files(folder: Path) -> list[Path]:
    return sorted(path for format in get_args(Format) for path in folder.glob(f"*.{format}"))


def _is_figure_data(path: Path) -> bool:
    """Whether the file has the header of a figure data file."""
    content = path.read_bytes()
    if path.suffix == ".csv":
        return content.startswith(_HEADER_PREFIX.encode())
    return _PARQUET_KEY in content[-_PARQUET_FOOTER:]


def _make_header(metadata: Metadata, names: Iterable[str], table: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the header of a file, which reveals a truncated file and missing files of the same run."""
    kinds = {name: column.dtype.kind for name, column in table.items()}
    return {"about": metadata, "tables": sorted(names), "rows": len(next(iter(table.values()))), "columns": kinds}


@contextmanager
def _describe_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:  # errors of JSON, UTF-8 and Arrow are ValueErrors
        raise ValueError(f"{str(path)!r} is not a figure data file ({error}); compute the figure again") from None


def _to_csv(header: dict[str, Any], table: Mapping[str, np.ndarray]) -> bytes:
    text = io.StringIO()
    text.write(f"{_HEADER_PREFIX}{json.dumps(header, sort_keys=True)}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
    return text.getvalue().encode()


def _read_csv(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    first, _, text = path.read_text(encoding="utf-8").partition("\n")
    if not first.startswith(_HEADER_PREFIX):
        raise ValueError("it has no header")
    header: dict[str, Any] = json.loads(first.removeprefix(_HEADER_PREFIX))
    names, *rows = csv.reader(io.StringIO(text, newline=""))
    if not text.endswith("\n") or any(len(row) != len(names) for row in rows):
        raise ValueError("it is incomplete")
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    kinds = header["columns"]
    return header, {name: _parse_column(kinds[name], column) for name, column in zip(names, columns, strict=True)}


def _parse_column(kind: str, values: Iterable[str]) -> np.ndarray:
    """Return an array of numpy's dtype kind: "b" (bool), "i" (integer), "f" (float) or "U" (text)."""
    if kind == "b":
        return np.array([{"True": True, "False": False}[value] for value in values], dtype=bool)
    return np.array(list(values), dtype={"i": np.int64, "f": np.float64, "U": str}[kind])


def _to_parquet(header: dict[str, Any], table: Mapping[str, np.ndarray]) -> bytes:
    pyarrow, parquet = _import_pyarrow()
    columns = {name: pyarrow.array(column.tolist()) for name, column in table.items()}
    arrow = pyarrow.table(columns).replace_schema_metadata({_PARQUET_KEY: json.dumps(header, sort_keys=True).encode()})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(arrow, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _read_parquet(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    _, parquet = _import_pyarrow()
    arrow = parquet.read_table(path)
    header: dict[str, Any] = json.loads((arrow.schema.metadata or {})[_PARQUET_KEY])
    return header, {name: np.array(arrow.column(name).to_pylist()) for name in arrow.column_names}


def _import_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'ocelad[files]'") from None
    return pyarrow, pyarrow.parquet
