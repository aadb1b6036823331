"""``Rows``: what a figure is drawn from, in files that say what they are."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from ocelad import checks
from ocelad.checks import About
from ocelad.saved import replace_whole

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
    >>> again.about, again.tables["errors"]["error"]
    ({'figure': '7'}, array([ 1.5, 17. ]))
    >>> again.where("errors", method="rice")["error"]
    array([1.5])
    """

    about: About
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
        checks.choice(format, "format", get_args(Format))
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, table in self.tables.items():
            path = folder / f"{name}.{format}"
            content = _csv(self.about, table) if format == "csv" else _parquet(self.about, table)
            replace_whole(path, content)
            # Rows of an earlier run in the other format would be as good as these to who looks.
            (folder / f"{name}.{'parquet' if format == 'csv' else 'csv'}").unlink(missing_ok=True)
            paths.append(path)
        return paths

    @classmethod
    def load(cls, folder: str | Path) -> Rows:
        """What ``save`` wrote."""
        paths = sorted(path for format in get_args(Format) for path in Path(folder).glob(f"*.{format}"))
        if not paths:
            raise FileNotFoundError(f"there are no rows in the folder {str(folder)!r}; compute them first")
        tables, abouts = {}, []
        for path in paths:
            about, tables[path.stem] = _read_csv(path) if path.suffix == ".csv" else _read_parquet(path)
            abouts.append(about)
        if any(about != abouts[0] for about in abouts):
            raise ValueError(f"the files in {str(folder)!r} are of different runs; compute them anew")
        return cls(abouts[0], tables)


def _csv(about: About, table: Mapping[str, np.ndarray]) -> bytes:
    text = io.StringIO()
    n_rows = len(next(iter(table.values())))  # by which a file that was cut off is known
    text.write(f"{_ABOUT}{json.dumps({'about': about, 'rows': n_rows}, sort_keys=True)}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
    return text.getvalue().encode()


def _read_csv(path: Path) -> tuple[About, dict[str, np.ndarray]]:
    try:
        first, _, text = path.read_text(encoding="utf-8").partition("\n")
        if not first.startswith(_ABOUT):
            raise ValueError("its first line does not say what it is")
        head = json.loads(first.removeprefix(_ABOUT))
        about: About = head["about"]
        names, *rows = csv.reader(io.StringIO(text, newline=""))
        if not text.endswith("\n") or len(rows) != head["rows"] or any(len(row) != len(names) for row in rows):
            raise ValueError("it is not whole")
        columns = {name: _column([row[at] for row in rows]) for at, name in enumerate(names)}
    except (KeyError, TypeError, ValueError) as error:  # of JSON and UTF-8, too
        raise ValueError(f"{str(path)!r} is no file of rows ({error}); compute them anew") from None
    return about, columns


def _column(values: list[str]) -> np.ndarray:
    """Truth values, whole numbers, numbers, or else text."""
    if values and set(values) <= {"True", "False"}:
        return np.array([value == "True" for value in values])
    for kind in (int, float):
        try:
            return np.array([kind(value) for value in values], dtype=kind)
        except ValueError:
            continue
    return np.array(values, dtype=str)


def _parquet(about: About, table: Mapping[str, np.ndarray]) -> bytes:
    pyarrow, parquet = _pyarrow()
    columns = {name: pyarrow.array(column.tolist()) for name, column in table.items()}
    arrow = pyarrow.table(columns).replace_schema_metadata({_KEY: json.dumps(about, sort_keys=True).encode()})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(arrow, sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _read_parquet(path: Path) -> tuple[About, dict[str, np.ndarray]]:
    pyarrow, parquet = _pyarrow()
    try:
        arrow = parquet.read_table(path)
        about: About = json.loads((arrow.schema.metadata or {})[_KEY])
    except (pyarrow.ArrowException, KeyError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is no file of rows ({error}); compute them anew") from None
    return about, {name: np.array(arrow.column(name).to_pylist()) for name in arrow.column_names}


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'ocelad[files]'") from None
    return pyarrow, pyarrow.parquet
