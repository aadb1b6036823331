"""CSV and TSV: separated cells, quoted if they contain a separator, a quote or a line end."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ocelad.io.tabular import cells
from ocelad.io.tabular.arrow import arrow
from ocelad.io.tabular.file_errors import BadRowError, FileError, quote, quote_all
from ocelad.io.tabular.point_columns import Record, ScalarColumns
from ocelad.io.tabular.record_blocks import Ints, Selection
from ocelad.io.tabular.text import TextReader, TextTable

SEPARATORS = {"csv": ",", "tsv": "\t"}
_QUOTE, _LF, _CR = b'"'[0], b"\n"[0], b"\r"[0]


class DelimitedGrammar:
    """The grammar of separated cells, with the names of the columns."""

    def __init__(self, separator: str, names: tuple[str, ...] = ()) -> None:
        self.separator, self.names = separator, names
        s = separator.encode()
        # Possessive quantifiers (++ and *+) prevent backtracking: an opening quote is never matched as anything else.
        cell = rb'(?>"[^"]*+(?:""[^"]*+)*+"[^%b\n]*+|[^"%b\n][^%b\n]*+|)' % (s, s, s)
        self._record = re.compile(cell + rb"(?:%b%b)*+\n" % (s, cell))
        self._cell = re.compile(rf'"([^"]*+(?:""[^"]*+)*+)"(?={separator}|\Z)|([^"{separator}][^{separator}]*+|)')

    def ends(self, data: bytes) -> Ints:
        characters = np.frombuffer(data, dtype=np.uint8)
        newlines = np.flatnonzero(characters == _LF)
        if b'"' not in data:
            return newlines + 1
        quotes = np.flatnonzero(characters == _QUOTE)
        if self._well_quoted(characters, quotes):
            is_unquoted = np.searchsorted(quotes, newlines) % 2 == 0
            return np.asarray(newlines[is_unquoted] + 1, dtype=np.int64)
        ends = []
        at = 0
        while (match := self._record.match(data, at)) is not None:
            at = match.end()
            ends.append(at)
        return np.array(ends, dtype=np.int64)

    def table(self, data: bytes, selection: Selection) -> Any:
        if b'"' in data:
            characters = np.frombuffer(data, dtype=np.uint8)
            quotes = np.flatnonzero(characters == _QUOTE)
            if len(quotes) % 2 or not self._well_quoted(characters, quotes):
                return None
        pa, csv = arrow(), arrow("csv")
        numbers = {name for points in selection.points if isinstance(points, ScalarColumns) for name in points.columns}
        types = {name: pa.float64() if name in numbers else pa.string() for name in selection.columns}
        try:
            return csv.read_csv(
                pa.BufferReader(data),
                read_options=csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self.names),
                parse_options=csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                convert_options=csv.ConvertOptions(
                    column_types=types,
                    include_columns=list(types),
                    null_values=[],
                    strings_can_be_null=False,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid:
            return None

    def record(self, text: str) -> Record:
        row = self.split(text)
        if len(row) != len(self.names):
            raise BadRowError(f"the row has {len(row)} cells; the header has {len(self.names)}")
        return dict(zip(self.names, row, strict=True))

    def split(self, text: str) -> list[str]:
        """Split a record into cells.

        >>> DelimitedGrammar(",").split('1,"a ""b"", c",')
        ['1', 'a "b", c', '']
        """
        if '"' not in text:
            if "\r" in text:
                raise BadRowError("the row has a carriage return that does not end a line")
            return text.split(self.separator)
        row: list[str] = []
        at = 0
        while True:
            match = self._cell.match(text, at)
            if match is None or (match.end() < len(text) and text[match.end()] != self.separator):
                raise BadRowError(
                    f"cell {len(row) + 1} has a quote that is not closed, or text after the closing quote"
                )
            quoted, bare = match.groups(default="")
            if "\r" in bare:
                raise BadRowError("the row has a carriage return that does not end a line")
            row.append(bare or quoted.replace('""', '"'))
            if match.end() == len(text):
                return row
            at = match.end() + 1

    def _well_quoted(self, characters: Any, quotes: Ints) -> bool:
        """Return whether quotes occur only around cells and, doubled, inside; then every second quote is closing."""
        separator = ord(self.separator)
        opening, closing = quotes[0::2], quotes[1::2]
        before = characters[opening[opening > 0] - 1]
        after = characters[closing[closing + 1 < len(characters)] + 1]
        return bool(
            np.isin(before, (separator, _LF, _QUOTE)).all() and np.isin(after, (separator, _LF, _CR, _QUOTE)).all()
        )


def open_delimited(reader: TextReader, format: str) -> TextTable:
    """Open a CSV or TSV file, and read its header."""
    name = reader.source.name
    grammar = DelimitedGrammar(SEPARATORS[format])
    try:
        names = [cell.strip(" \t") for cell in grammar.split(reader.first_line(grammar))]
    except BadRowError as error:
        raise FileError(f"{name}: the header cannot be read: {error}") from None
    if all(cells.parse_number(cell) is not None for cell in names):
        raise FileError(
            f"{name} has no header: its first line holds numbers, {quote_all(names, 3)}; names are expected"
        )
    for mark, word in ((";", "semicolons"), ("\t", "tabs"), (",", "commas")):
        if len(names) == 1 and mark in names[0]:
            raise FileError(
                f"{name} is read as {format}, but its header {quote(names[0])} seems to be separated by "
                f"{word}; accepted: commas (format='csv') or tabs (format='tsv')"
            )
    for column in names:
        if names.count(column) > 1:
            raise FileError(f"{name} has the column {quote(column)} twice; accepted: columns with different names")
    grammar.names = tuple(names)
    return TextTable(reader, grammar, format, dict.fromkeys(names, "cell"), cells.parse_number)
