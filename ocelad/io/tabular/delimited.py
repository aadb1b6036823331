"""CSV and TSV: separated cells, quoted if they contain a separator, a quote or a line end.

A CSV file may have semicolons or tabs instead of commas. With semicolons it may have decimal commas, as spreadsheets
write it in countries with decimal commas. If one column has them, points separate thousands in the whole file.
"""

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
# The number of rows that decide whether the numbers of a column have decimal commas.
_N_SAMPLED = 1000
_EXPONENT = r"(?:[eE][+-]?[0-9]+)?"
_WHOLE_NUMBER = re.compile(rf"[+-]?[0-9]+{_EXPONENT}")
# With a decimal comma, points may separate thousands.
_COMMA_NUMBER = re.compile(rf"[+-]?(?:[0-9]{{1,3}}(?:\.[0-9]{{3}})+|[0-9]+),[0-9]+{_EXPONENT}")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:\.[0-9]{3})+")
_QUOTE, _LF, _CR = b'"'[0], b"\n"[0], b"\r"[0]


class DelimitedGrammar:
    """The grammar of separated cells, with the names of the columns, and of those whose numbers have decimal commas.

    In cells of the latter, and in all cells that are read as numbers if there are such columns, numbers are read as if
    they had decimal points.
    """

    def __init__(self, separator: str, names: tuple[str, ...] = ()) -> None:
        self.separator, self.names = separator, names
        self.comma_columns: frozenset[str] = frozenset()
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
        numbers = _number_columns(selection) if not self.comma_columns else set()
        types = {name: pa.float64() if name in numbers else pa.string() for name in selection.columns}
        try:
            table = csv.read_csv(
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
            return self._with_decimal_points(table, selection) if self.comma_columns else table
        except pa.ArrowInvalid:
            return None

    def _with_decimal_points(self, table: Any, selection: Selection) -> Any:
        """Return a table with decimal points; None if points separate thousands. Raises ArrowInvalid."""
        pa, compute = arrow(), arrow("compute")
        numbers = _number_columns(selection)
        for name in numbers | self.comma_columns.intersection(selection.columns):
            column = table.column(name)
            if compute.any(compute.match_substring(column, ".")).as_py():
                return None
            if name in numbers:
                column = compute.replace_substring(column, ",", ".").cast(pa.float64())
            else:
                cells = map(_with_decimal_point, column.to_pylist())
                column = pa.array(cells, pa.string())
            table = table.set_column(table.schema.get_field_index(name), name, column)
        return table

    def record(self, text: str, selection: Selection) -> Record:
        row = self.split(text)
        if len(row) != len(self.names):
            raise BadRowError(f"the row has {len(row)} cells; the header has {len(self.names)}")
        record = dict(zip(self.names, row, strict=True))
        if not self.comma_columns:
            return record
        numbers = _number_columns(selection)
        # Of a sample, no cell is known to be read as a number, and any may be.
        for name in numbers | self.comma_columns if selection.columns else self.names:
            cell = _with_decimal_point(record[name])
            if name in numbers and "." in cell and cell == record[name] and cells.parse_number(cell) is not None:
                first = next(column for column in self.names if column in self.comma_columns)
                which = "its first numbers" if name in self.comma_columns else f"the numbers of {quote(first)}"
                raise BadRowError(
                    f"column {quote(name)} holds {quote(cell)}, but {which} have decimal commas; accepted: decimal "
                    "commas in the whole file"
                )
            record[name] = cell
        return record

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
    """Open a CSV or TSV file, and read its header. A CSV file may be separated by semicolons or tabs, too."""
    name = reader.source.name
    head = reader.peek_lines(2)
    separator = SEPARATORS[format] if format != "csv" else _find_separator(head)
    grammar = DelimitedGrammar(separator)
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
                f"{word}; accepted: commas or semicolons (format='csv') or tabs (format='tsv')"
            )
    for column in names:
        if names.count(column) > 1:
            raise FileError(f"{name} has the column {quote(column)} twice; accepted: columns with different names")
    grammar.names = tuple(names)
    notes: tuple[str, ...] = ()
    if separator == ",":
        notes = _describe_commas(name, head[1:], grammar)
    elif separator == ";":
        sample = [record for _, record in reader.sample(grammar, _N_SAMPLED) if not isinstance(record, BadRowError)]
        grammar.comma_columns = _find_comma_columns(sample, grammar.names)
        notes = _describe_thousands(name, sample, grammar)
    return TextTable(reader, grammar, format, dict.fromkeys(names, "cell"), cells.parse_number, notes)


def _find_separator(lines: list[str]) -> str:
    """Return the separator of a CSV file: of those that give both of its first lines as many cells, the one with most.

    >>> _find_separator(["id;Price, EUR;x", "a;1,5;2"]), _find_separator(["id,tags;x;y", "a,b"])
    (';', ',')
    """
    counts = {separator: [_count_cells(separator, line) for line in lines] for separator in (",", ";", "\t")}
    agreeing = {separator: found[0] for separator, found in counts.items() if found and len(set(found)) == 1}
    best = max(agreeing, key=lambda separator: agreeing[separator], default=",")
    if agreeing.get(best, 0) > 1:
        return best
    return next((separator for separator, found in counts.items() if found and found[0] > 1), ",")


def _count_cells(separator: str, line: str) -> int:
    """Return the number of cells of a line; 0 if it is only a part of a row."""
    try:
        return len(DelimitedGrammar(separator).split(line))
    except BadRowError:
        return 0


def _number_columns(selection: Selection) -> set[str]:
    """Return the columns whose cells are read as numbers."""
    return {name for points in selection.points if isinstance(points, ScalarColumns) for name in points.columns}


def _find_comma_columns(sample: list[Record], names: tuple[str, ...]) -> frozenset[str]:
    """Return the columns whose first numbers have decimal commas; all of their cells that are not empty are numbers."""
    found = []
    for name in names:
        present = _present_cells(sample, name)
        has_commas = any(_COMMA_NUMBER.fullmatch(text) for text in present)
        if has_commas and all(_is_comma_number(text) for text in present):
            found.append(name)
    return frozenset(found)


def _describe_commas(name: str, first_row: list[str], grammar: DelimitedGrammar) -> tuple[str, ...]:
    """Return a sentence about the first cell of the first row that looks like a number with a comma."""
    try:
        row = [cell for line in first_row for cell in grammar.split(line)]
    except BadRowError:
        return ()
    for column, cell in zip(grammar.names, row, strict=False):
        if _COMMA_NUMBER.fullmatch(cell.strip(" \t")):
            return (
                f"{name}: {quote(cell)} in {quote(column)} is read as text: for decimal commas, separate the columns "
                "with semicolons; write thousands without a comma",
            )
    return ()


def _describe_thousands(name: str, sample: list[Record], grammar: DelimitedGrammar) -> tuple[str, ...]:
    """Return a sentence about the first column without decimal commas in which points separate thousands."""
    commas = [column for column in grammar.names if column in grammar.comma_columns]
    for column in grammar.names if commas else ():
        present = _present_cells(sample, column)
        thousands = [text for text in present if _THOUSANDS.fullmatch(text)]
        if column not in commas and thousands and all(_is_comma_number(text) for text in present):
            number = _with_decimal_point(thousands[0])
            return (
                f"{name}: points separate thousands, because {quote(commas[0])} has decimal commas: {thousands[0]} in "
                f"{quote(column)} is {number}",
            )
    return ()


def _present_cells(sample: list[Record], column: str) -> list[str]:
    return [text for record in sample if not cells.is_missing(text := record[column].strip(" \t"))]


def _is_comma_number(text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in (_WHOLE_NUMBER, _COMMA_NUMBER, _THOUSANDS))


def _with_decimal_point(cell: str) -> str:
    """Return a number with a decimal point instead of a decimal comma; any other cell as it is.

    >>> _with_decimal_point("1.234,5"), _with_decimal_point("1,5e3"), _with_decimal_point("a,b")
    ('1234.5', '1.5e3', 'a,b')
    """
    text = cell.strip(" \t")
    if _COMMA_NUMBER.fullmatch(text) or _THOUSANDS.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return cell
