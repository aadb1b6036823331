"""Zingg's labelled records: rows with z_cluster and z_isMatch; the records of one cluster are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, islice
from typing import Any

from ocelad.io.tabular import cells
from ocelad.service.entries import Answer
from ocelad.service.itemset import ItemSet
from ocelad.service.labelled_pairs.answered_pairs import read_person
from ocelad.service.labelled_pairs.csv_lines import csv_line
from ocelad.service.labelled_pairs.item_records import PERSON, column_readers, id_column, make_record
from ocelad.service.labelled_pairs.labelled_pair import ItemReference, LabelledPair
from ocelad.service.labelled_pairs.left_out import LeftOut
from ocelad.service.labelled_pairs.pairs_error import PairsError
from ocelad.service.labelled_pairs.record_table import RecordTable, find_column
from ocelad.service.labelled_pairs.written_answer import Answers

CLUSTER, IS_MATCH = "z_cluster", "z_isMatch"
_ANSWERS: dict[float, Answer | None] = {1.0: "same", 0.0: "different", 2.0: "skip", -1.0: None}
_ACCEPTED = "accepted: columns z_cluster and z_isMatch, and the columns of the records"
# Larger clusters are not training data: they would have more than a thousand pairs.
_MAX_CLUSTER = 50
# The number of rows that show which column of a table without a header holds the ids.
_N_SAMPLED = 100


def is_zingg_labels(table: RecordTable) -> bool:
    """Return whether a table has Zingg's columns of clusters and labels."""
    return all(find_column(table.columns, (name.casefold(),)) for name in (CLUSTER, IS_MATCH))


def read_zingg_labels(table: RecordTable, left_out: LeftOut, known: Sequence[str]) -> Iterator[LabelledPair]:
    """Yield the pairs of records of each cluster, the clusters in the order of their first records.

    Zingg compares all records of a cluster with each other, and so does this. Zingg's own example has no header; then
    the first columns are the cluster and the label, and the column with the most ``known`` ids has the ids.
    """
    cluster, label = (find_column(table.columns, (name.casefold(),)) for name in (CLUSTER, IS_MATCH))
    rows: Iterator[tuple[int, dict[str, Any]]] = iter(table)
    if cluster is None or label is None:
        lines = table.without_header()
        if cluster is not None or label is not None or lines is None:
            found = ", ".join(table.columns)[:200] or "none"
            raise PairsError(f"the file has no column {CLUSTER} or {IS_MATCH}; {_ACCEPTED}; it has {found}")
        cluster, label, rows = CLUSTER, IS_MATCH, _rows_without_header(lines, set(known))
    person = find_column(table.columns, (PERSON,))
    clusters: dict[Any, list[tuple[int, dict[str, Any]]]] = {}
    for number, row in rows:
        if not isinstance(row.get(cluster), str | int | float):
            raise PairsError(f"{table.unit} {number} has no {cluster}; accepted: a text or a number")
        members = clusters.setdefault(row[cluster], [])
        members.append((number, row))
        if len(members) > _MAX_CLUSTER:
            raise PairsError(
                f"{table.unit} {number}: the cluster {row.get(cluster)!r} has more than {_MAX_CLUSTER} records; "
                "accepted: pairs and small clusters"
            )
    for members in clusters.values():
        yield from _pairs(members, table.unit, (cluster, label), person, left_out)


def _pairs(
    members: list[tuple[int, dict[str, Any]]],
    unit: str,
    columns: tuple[str, str],
    person: str | None,
    left_out: LeftOut,
) -> Iterator[LabelledPair]:
    cluster, label = columns
    answers = {_read_label(row.get(label), f"{unit} {number}", label) for number, row in members}
    number, first = members[0]
    if len(members) == 1:
        raise PairsError(
            f"{unit} {number}: the cluster {first.get(cluster)!r} has one record; accepted: two or more per cluster"
        )
    if len(answers) > 1:
        raise PairsError(
            f"{unit} {number}: the records of the cluster {first.get(cluster)!r} have different values of {label}; "
            "accepted: one value per cluster"
        )
    (answer,) = answers
    if answer is None:
        left_out.add("clusters without a label (-1)")
        return
    for (_, left), (number, right) in combinations(members, 2):
        records = [{k: v for k, v in row.items() if not k.casefold().startswith("z_")} for row in (left, right)]
        where = f"{unit} {number}"
        yield LabelledPair(
            ItemReference(record=records[0]),
            ItemReference(record=records[1]),
            answer,
            where,
            read_person(right, person, where),
            may_be_one_item=True,
        )


def write_zingg_labels(answers: Answers, items: ItemSet) -> Iterator[bytes]:
    """Yield the bytes of a CSV file with a header; each answer is a cluster of two rows."""
    readers = column_readers(items)
    yield csv_line([CLUSTER, IS_MATCH, id_column(items), *readers, PERSON])
    for answer in answers():
        for position in (answer.left, answer.right):
            record = make_record(items, readers, position)
            yield csv_line([answer.seq, int(answer.same), *record.values(), answer.person])


def _rows_without_header(
    lines: Iterator[tuple[int, list[str]]], known: set[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    sampled = list(islice(lines, _N_SAMPLED))
    n_known = [
        sum(cell in known for cell in column) for column in zip(*(line[2:] for _, line in sampled), strict=False)
    ]
    best = max(range(len(n_known)), key=n_known.__getitem__, default=0)
    for number, line in chain(sampled, lines):
        if len(line) <= best + 2:
            raise PairsError(f"line {number} has {len(line)} cells; accepted: a cluster, a label, and a record")
        yield number, {CLUSTER: line[0], IS_MATCH: line[1], "id": line[best + 2]}


def _read_label(cell: Any, where: str, column: str) -> Answer | None:
    number = cells.parse_number(cell) if isinstance(cell, str) else cells.to_number(cell)
    if number not in _ANSWERS:
        shown = "empty" if cell in (None, "") else repr(cell)[:60]
        raise PairsError(f"{where}: {column} is {shown}; accepted: 1 (match), 0 (no match), 2 (not sure), -1 (none)")
    return _ANSWERS[number]
