"""JSON lines: one JSON object per line."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ocelad.io.tabular import cells
from ocelad.io.tabular.arrow import arrow
from ocelad.io.tabular.file_errors import BadRowError, FileError, RowError, quote
from ocelad.io.tabular.point_columns import ListColumn, ObjectColumn, Record, ScalarColumns
from ocelad.io.tabular.record_blocks import Ints, Selection
from ocelad.io.tabular.text import TextReader, TextTable

_LF = b"\n"[0]
# The number of first lines that are searched for an object.
_N_SAMPLE_ROWS = 100


class JsonLinesGrammar:
    """The grammar of one object per line. The first record determines the types of columns other than points."""

    def __init__(self) -> None:
        self.first: Record = {}

    def ends(self, data: bytes) -> Ints:
        return np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == _LF) + 1

    def table(self, data: bytes, selection: Selection) -> Any:
        # pyarrow ignores the ends of lines. If every line begins and ends with a brace, no object spans two lines,
        # because "}" followed by "{" occurs in no JSON value.
        trimmed = data.strip(b"\r\n")
        if trimmed.count(b"\n") != trimmed.count(b"}\n{") + trimmed.count(b"}\r\n{"):
            return None
        if not trimmed.startswith(b"{"):  # pyarrow 26 crashes if the first record is null
            return None
        pa, reader = arrow(), arrow("json")
        try:
            return reader.read_json(
                pa.BufferReader(data),
                read_options=reader.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=reader.ParseOptions(
                    explicit_schema=self._schema(selection), unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid:
            return None

    def record(self, text: str, selection: Selection) -> Record:
        try:
            record = json.loads(text, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            reason = f" ({error.msg} at column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
            raise BadRowError(f"the line is not JSON{reason}; one object per line is expected") from None
        if not isinstance(record, dict):
            raise BadRowError(f"the line holds {quote(record)}; a JSON object is expected")
        for name, first in self.first.items():
            # pyarrow reads integers in a column of floats as floats.
            if type(first) is float and type(record.get(name)) is int:
                value = cells.to_number(record[name])
                record[name] = record[name] if value is None else value
        return record

    def _schema(self, selection: Selection) -> Any:
        pa = arrow()
        types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
        fields = {name: types.get(type(self.first.get(name)), pa.string()) for name in selection.columns}
        for points in selection.points:
            match points:
                case ScalarColumns(columns):
                    fields.update(dict.fromkeys(columns, pa.float64()))
                case ListColumn(column, _):
                    fields[column] = pa.list_(pa.float64())
                case ObjectColumn(column, keys):
                    fields[column] = pa.struct([(key, pa.float64()) for key in keys])
        return pa.schema(list(fields.items()))


def open_json_lines(reader: TextReader, format: str, stop: bool) -> TextTable:
    """Open a file of JSON lines. The keys of its first object are its columns."""
    name = reader.source.name
    grammar = JsonLinesGrammar()
    if reader.first_character() == "[":
        raise FileError(f"{name} begins with '['; JSON lines are expected: one object per line")
    for count in (1, _N_SAMPLE_ROWS):
        found = reader.sample(grammar, count)
        if not found:
            raise FileError(f"{name} is empty")
        for line, record in found:
            if not isinstance(record, BadRowError):
                grammar.first = record
                kinds = {key: _kind(value) for key, value in record.items()}
                return TextTable(reader, grammar, format, kinds, cells.to_number)
            if stop:
                raise RowError(f"{name}, line {line}: {record}", line)
    raise FileError(f"{name} is not JSON lines: none of its first {len(found)} lines holds an object")


def _kind(value: Any) -> str:
    if isinstance(value, (bool, str)):
        return "boolean" if isinstance(value, bool) else "text"
    kinds = {int: "number", float: "number", list: "list", dict: "object"}
    return kinds.get(type(value), "other")


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(members)
    if len(built) < len(members):
        names = [name for name, _ in members]
        built.update((name, cells.DuplicateKey()) for name in built if names.count(name) > 1)
    return built
