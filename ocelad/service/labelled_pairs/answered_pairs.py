"""Tables with one answer per row: id_a, id_b and same; the service's own exports are such tables, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unicodedata import category, normalize

from ocelad.io.tabular import cells
from ocelad.service.labelled_pairs.answer_words import ACCEPTED_ANSWERS, parse_answer
from ocelad.service.labelled_pairs.labelled_pair import ItemReference, LabelledPair
from ocelad.service.labelled_pairs.left_out import LeftOut
from ocelad.service.labelled_pairs.pairs_error import PairsError
from ocelad.service.labelled_pairs.record_table import RecordTable, find_column

LEFT, RIGHT = ("id_a", "left", "id_1", "id1", "left_id"), ("id_b", "right", "id_2", "id2", "right_id")
_ANSWER = ("same", "similar", "answer", "label", "match", "is_match")
_PERSON, _TIME, _UNDONE = ("person", "annotator"), ("at", "time"), ("undone",)
# Entries of an exported log that are not answers.
_NOT_ANSWERS = ("undo", "name", "erase", "erased")
_ACCEPTED = "accepted: columns id_a, id_b and same, and if you like person and at"


def is_answered_pairs(table: RecordTable) -> bool:
    """Return whether a table has columns of two ids."""
    return find_column(table.columns, LEFT) is not None and find_column(table.columns, RIGHT) is not None


def read_answered_pairs(table: RecordTable, left_out: LeftOut) -> Iterator[LabelledPair]:
    """Yield the answers of a table in order."""
    columns = table.columns
    left, right, answer = (find_column(columns, names) for names in (LEFT, RIGHT, _ANSWER))
    if left is None or right is None or answer is None:
        missing = next(name for name, found in (("id_a", left), ("id_b", right), ("same", answer)) if found is None)
        raise PairsError(f"the file has no column {missing}; {_ACCEPTED}; it has {', '.join(columns)[:200] or 'none'}")
    person, undone = find_column(columns, _PERSON), find_column(columns, _UNDONE)
    if find_column(columns, _TIME) is not None:
        table.notes.append("The times in the file are not stored: the log records when answers were imported.")
    for number, row in table:
        where = f"{table.unit} {number}"
        given = row.get(answer)
        if isinstance(given, str) and given in _NOT_ANSWERS:
            left_out.add("entries that are not answers")
            continue
        if undone is not None and parse_answer(row.get(undone)) == "same":
            left_out.add("undone answers")
            continue
        parsed = parse_answer(given)
        if parsed is None:
            raise PairsError(f"{where}: {answer} is {_quote(given)}; {ACCEPTED_ANSWERS}")
        yield LabelledPair(
            ItemReference(read_id(row, left, where)),
            ItemReference(read_id(row, right, where)),
            parsed,
            where,
            read_person(row, person, where),
        )


def read_id(row: dict[str, Any], column: str, where: str) -> str:
    """Return the id in a cell; raise PairsError if the cell is empty."""
    cell = row.get(column)
    id = cells.normalize_id(cell)
    if id is None:
        raise PairsError(f"{where}: {column} is {_quote(cell)}; accepted: the id of an item, text or a whole number")
    return id


def read_person(row: dict[str, Any], column: str | None, where: str) -> str | None:
    """Return the person in a cell, in Unicode's composed form, in which names are compared; None if it is empty."""
    cell = None if column is None else row.get(column)
    if cell is None or cell == "":
        return None
    if not isinstance(cell, str) or not is_person(cell):
        raise PairsError(
            f"{where}: {column} is {_quote(cell)}; accepted: a name of 1 to 200 visible characters in one line"
        )
    return normalize("NFC", cell)


def is_person(name: str) -> bool:
    """Return whether a name can be stored: at most 200 characters, and none that are invisible.

    >>> is_person("misty hare"), is_person("a\\nb")
    (True, False)
    """
    return len(name) <= 200 and not any(category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in name)


def _quote(cell: Any) -> str:
    return "empty" if cell in (None, "") else repr(cell)[:60]
