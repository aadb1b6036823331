"""``Rows``: what a figure is drawn from, in files that say what they are."""

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
from ocelad.io.state_files import replace_whole

#: Columns by their names, all of the same length: numbers, text or truth values.
Table: TypeAlias = Mapping[str, Sequence[Any] | np.ndarray]
Format = Literal["csv", "parquet"]

# How the line begins that says what a file is; readers skip it as a comment.
_ABOUT = "# ocelad figure "
_KEY = b"ocelad"


@dataclass(frozen=True, eq=False)
class Rows:
    """Tables with a name each, and what they were computed with.

    Attributes
    ----------
    about : dict
        What JSON can hold: the figure, its settings, versions.
    tables : dict of tables
        Arrays by the names of columns.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> rows = Rows({"figure": "7"}, {"errors": {"method": ["rice", "saol"], "error": [1.5, 17.0]}})
    >>> with TemporaryDirectory() as folder:
    ...     _ = rows.save(folder)
    ...     again = Rows.load(folder)
    >>> again.metadata, again.tables["errors"]["error"]
    ({'figure': '7'}, array([ 1.5, 17. ]))
    >>> again.where("errors", method="rice")["error"]
    array([1.5])
    """

    metadata: Metadata
    tables: Mapping[str, Mapping[str, np.ndarray]]

    def __post_init__(self) -> None:
        arrays = {name: {key: np.asarray(column) for key, column in each.items()} for name, each in self.tables.items()}
        object.__setattr__(self, "tables", arrays)
        for name, table in arrays.items():
            lengths = {key: column.shape for key, column in table.items()}
            if len(set(lengths.values())) != 1 or any(column.ndim != 1 for column in table.values()):
                raise ValueError(f"the columns of {name} have the shapes {lengths}; accepted: one length for all")

    def where(self, table: str, **values: Any) -> dict[str, np.ndarray]:
        """The rows of a table that have these values."""
        columns = self.tables[table]
        wanted = np.ones(len(next(iter(columns.values()))), dtype=bool)
        for name, value in values.items():
            wanted &= columns[name] == value
        return {name: column[wanted] for name, column in columns.items()}

    def save(self, folder: str | Path, format: Format = "csv") -> list[Path]:
        """Write a file for each table; each says in itself what it was computed with. The same rows, the same bytes."""
        check_choice(format, "format", get_args(Format))
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, table in self.tables.items():
            path = folder / f"{name}.{format}"
            head = _head(self.metadata, self.tables, table)
            content = _csv(head, table) if format == "csv" else _parquet(head, table)
            replace_whole(path, content)
            paths.append(path)
        for left in (path for path in _files(folder) if path not in paths and _is_ours(path)):
            left.unlink()  # of an earlier run, and as good as these to who looks
        return paths

    @classmethod
    def load(cls, folder: str | Path) -> Rows:
        """What ``save`` wrote."""
        paths = _files(Path(folder))
        if not paths:
            raise FileNotFoundError(f"there are no rows in the folder {str(folder)!r}; compute them first")
        tables, heads = {}, []
        for path in paths:
            with _refusing(path):
                head, table = _read_csv(path) if path.suffix == ".csv" else _read_parquet(path)
                if _head(head["about"], head["tables"], table) != head:
                    raise ValueError("it is not whole, or was changed")
            tables[path.stem] = table
            heads.append((head["about"], head["tables"]))
        if any(head != heads[0] for head in heads):
            raise ValueError(f"the files in {str(folder)!r} are of different runs; compute them anew")
        if lost := set(heads[0][1]) - set(tables):
            raise FileNotFoundError(f"{', '.join(sorted(lost))} is not in {str(folder)!r}; compute the rows anew")
        return cls(heads[0][0], tables)


def _files(folder: Path) -> list[Path]:
    return sorted(path for format in get_args(Format) for path in folder.glob(f"*.{format}"))


def _is_ours(path: Path) -> bool:
    """Whether it says that it is a file of rows."""
    content = path.read_bytes()
    return content.startswith(_ABOUT.encode()) if path.suffix == ".csv" else _KEY in content[-(1 << 16) :]


def _head(metadata: Metadata, names: Iterable[str], table: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What a file says of itself, by which one is known that was cut off, or whose fellows are not there."""
    kinds = {name: column.dtype.kind for name, column in table.items()}
    return {"about": metadata, "tables": sorted(names), "rows": len(next(iter(table.values()))), "columns": kinds}


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:  # of JSON, UTF-8 and Arrow, too
        raise ValueError(f"{str(path)!r} is no file of rows ({error}); compute them anew") from None


def _csv(head: dict[str, Any], table: Mapping[str, np.ndarray]) -> bytes:
    text = io.StringIO()
    text.write(f"{_ABOUT}{json.dumps(head, sort_keys=True)}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
    return text.getvalue().encode()


def _read_csv(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    first, _, text = path.read_text(encoding="utf-8").partition("\n")
    if not first.startswith(_ABOUT):
        raise ValueError("its first line does not say what it is")
    head: dict[str, Any] = json.loads(first.removeprefix(_ABOUT))
    names, *rows = csv.reader(io.StringIO(text, newline=""))
    if not text.endswith("\n") or any(len(row) != len(names) for row in rows):
        raise ValueError("it is not whole")
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    kinds = head["columns"]
    return head, {name: _column(kinds[name], column) for name, column in zip(names, columns, strict=True)}


def _column(kind: str, values: Iterable[str]) -> np.ndarray:
    """Truth values, whole numbers, numbers, or text."""
    if kind == "b":
        return np.array([{"True": True, "False": False}[value] for value in values], dtype=bool)
    return np.array(list(values), dtype={"i": np.int64, "f": np.float64, "U": str}[kind])


def _parquet(head: dict[str, Any], table: Mapping[str, np.ndarray]) -> bytes:
    pyarrow, parquet = _pyarrow()
    columns = {name: pyarrow.array(column.tolist()) for name, column in table.items()}
    arrow = pyarrow.table(columns).replace_schema_metadata({_KEY: json.dumps(head, sort_keys=True).encode()})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(arrow, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _read_parquet(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    _, parquet = _pyarrow()
    arrow = parquet.read_table(path)  # an ArrowInvalid is a ValueError
    head: dict[str, Any] = json.loads((arrow.schema.metadata or {})[_KEY])
    return head, {name: np.array(arrow.column(name).to_pylist()) for name in arrow.column_names}


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'ocelad[files]'") from None
    return pyarrow, pyarrow.parquet
