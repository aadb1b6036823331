"""JSON lines: one object per line."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ocelad.io.tabular import cells
from ocelad.io.tabular.arrow import arrow
from ocelad.io.tabular.blocks import Ints, Wanted
from ocelad.io.tabular.errors import BadRowError, FileError, RowError, shown
from ocelad.io.tabular.points import Members, Record, Scalars, Vector
from ocelad.io.tabular.text import TextReader, TextTable

_LF = b"\n"[0]
_SAMPLE = 100


class JsonLines:
    """The grammar of one object per line. Columns that are kept have the type that they have in the first record."""

    def __init__(self) -> None:
        self.first: Record = {}

    def ends(self, data: bytes) -> Ints:
        return np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _LF) + 1

    def table(self, data: bytes, wanted: Wanted) -> Any:
        # pyarrow cares for objects, not for lines. Where every line ends and begins with a brace, no object can go over
        # a line end: "}" and "{" with nothing between them stand in no JSON value.
        trimmed = data.strip(b"\r\n")
        if trimmed.count(b"\n") != trimmed.count(b"}\n{") + trimmed.count(b"}\r\n{"):
            return None
        if not trimmed.startswith(b"{"):  # pyarrow 26 crashes where the first record is null
            return None
        pa, reader = arrow(), arrow("json")
        try:
            return reader.read_json(
                pa.BufferReader(data),
                read_options=reader.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=reader.ParseOptions(
                    explicit_schema=self._schema(wanted), unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid:
            return None

    def record(self, text: str) -> Record:
        try:
            record = json.loads(text, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            why = f" ({error.msg} at column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
            raise BadRowError(f"the line is not JSON{why}; one object per line is expected") from None
        if not isinstance(record, dict):
            raise BadRowError(f"the line holds {shown(record)}; a JSON object is expected")
        for name, first in self.first.items():
            # In a column of floats pyarrow reads whole numbers as floats.
            if type(first) is float and type(record.get(name)) is int:
                value = cells.number_in_value(record[name])
                record[name] = record[name] if value is None else value
        return record

    def _schema(self, wanted: Wanted) -> Any:
        pa = arrow()
        kept = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
        fields = {name: kept.get(type(self.first.get(name)), pa.string()) for name in wanted.columns}
        for points in wanted.points:
            match points:
                case Scalars(columns):
                    fields.update(dict.fromkeys(columns, pa.float64()))
                case Vector(column, _):
                    fields[column] = pa.list_(pa.float64())
                case Members(column, keys):
                    fields[column] = pa.struct([(key, pa.float64()) for key in keys])
        return pa.schema(list(fields.items()))


def open_json_lines(reader: TextReader, format: str, stop: bool) -> TextTable:
    """A file of JSON lines; the keys of its first object are its columns."""
    name = reader.source.name
    grammar = JsonLines()
    if reader.first_character() == "[":
        raise FileError(f"{name} begins with '['; JSON lines are expected: one object per line")
    for count in (1, _SAMPLE):
        found = reader.sample(grammar, count)
        if not found:
            raise FileError(f"{name} is empty")
        for line, record in found:
            if not isinstance(record, BadRowError):
                grammar.first = record
                kinds = {key: _kind(value) for key, value in record.items()}
                return TextTable(reader, grammar, format, kinds, cells.number_in_value)
            if stop:
                raise RowError(f"{name}, line {line}: {record}", line)
    raise FileError(f"{name} is not JSON lines: none of its first {len(found)} lines holds an object")


def _kind(value: Any) -> str:
    if isinstance(value, (bool, str)):
        return "flag" if isinstance(value, bool) else "text"
    kinds = {int: "number", float: "number", list: "list", dict: "object"}
    return kinds.get(type(value), "other")


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(members)
    if len(built) < len(members):
        names = [name for name, _ in members]
        built.update((name, cells.Twice()) for name in built if names.count(name) > 1)
    return built
