"""Splink's labelled pairs: a table of unique_id_l, unique_id_r and clerical_match_score."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ocelad.io.tabular import cells
from ocelad.service.entries import Answer
from ocelad.service.itemset import ItemSet
from ocelad.service.labelled_pairs.answered_pairs import read_id, read_person
from ocelad.service.labelled_pairs.csv_lines import csv_line
from ocelad.service.labelled_pairs.item_records import PERSON
from ocelad.service.labelled_pairs.labelled_pair import ItemReference, LabelledPair
from ocelad.service.labelled_pairs.left_out import LeftOut
from ocelad.service.labelled_pairs.pairs_error import PairsError
from ocelad.service.labelled_pairs.record_table import RecordTable, find_column
from ocelad.service.labelled_pairs.written_answer import Answers

_SCORE = ("clerical_match_score", "match_score", "match", "label", "is_match")
_ACCEPTED = "accepted: columns unique_id_l, unique_id_r and clerical_match_score"
# Scores above this mean "same", scores below it "different"; this one means that the person was not sure.
_UNDECIDED = 0.5


def is_splink_labels(table: RecordTable) -> bool:
    """Return whether a table has a score and a pair of columns of ids that end in _l and _r."""
    return _find_ids(table) is not None and find_column(table.columns, _SCORE) is not None


def read_splink_labels(table: RecordTable, left_out: LeftOut) -> Iterator[LabelledPair]:
    """Yield the labels of a table in order; names of source datasets are optional."""
    ids, score = _find_ids(table), find_column(table.columns, _SCORE)
    if ids is None or score is None:
        missing = "unique_id_l and unique_id_r" if ids is None else _SCORE[0]
        found = ", ".join(table.columns)[:200] or "none"
        raise PairsError(f"the file has no column {missing}; {_ACCEPTED}; it has {found}")
    datasets = [find_column(table.columns, (f"source_dataset_{side}",)) for side in "lr"]
    person = find_column(table.columns, (PERSON, "person"))
    uncertain = 0
    for number, row in table:
        where = f"{table.unit} {number}"
        answer, value = _read_score(row.get(score), score, where)
        uncertain += value not in (0.0, 1.0)
        left, right = (
            ItemReference(read_id(row, column, where), dataset=None if dataset is None else str(row.get(dataset)))
            for column, dataset in zip(ids, datasets, strict=True)
        )
        yield LabelledPair(left, right, answer, where, read_person(row, person, where))
    if uncertain:
        table.notes.append(
            f"Scores between 0 and 1 ({uncertain:,}): above 0.5 means same, below it different, and 0.5 skipped."
        )


def write_splink_labels(answers: Answers, items: ItemSet) -> Iterator[bytes]:
    """Yield the bytes of a CSV file of labels, 1 for same and 0 for different."""
    yield csv_line(["unique_id_l", "unique_id_r", "clerical_match_score", PERSON])
    for answer in answers():
        cells = (items.ids[answer.left], items.ids[answer.right], 1.0 if answer.same else 0.0, answer.person)
        yield csv_line(cells)


def _find_ids(table: RecordTable) -> tuple[str, str] | None:
    """Return the columns of ids: unique_id_l and unique_id_r, or the only other pair of columns in _l and _r."""
    by_name = {column.casefold(): column for column in table.columns}
    names = [name[:-2] for name in by_name if name.endswith("_l") and f"{name[:-2]}_r" in by_name]
    names = [name for name in names if name != "source_dataset"]
    name = "unique_id" if "unique_id" in names else names[0] if len(names) == 1 else None
    return None if name is None else (by_name[f"{name}_l"], by_name[f"{name}_r"])


def _read_score(cell: Any, column: str, where: str) -> tuple[Answer, float]:
    if isinstance(cell, bool):
        number: float | None = float(cell)
    elif isinstance(cell, str):
        number = {"true": 1.0, "false": 0.0}.get(cell.strip().casefold(), cells.parse_number(cell))
    else:
        number = cells.to_number(cell)
    if number is None or not 0 <= number <= 1:
        shown = "empty" if cell in (None, "") else repr(cell)[:60]
        raise PairsError(f"{where}: {column} is {shown}; accepted: a number from 0 (different) to 1 (same)")
    return "skip" if number == _UNDECIDED else "same" if number > _UNDECIDED else "different", number
