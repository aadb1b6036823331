"""dedupe's training file: a JSON object with the lists "distinct" and "match" of pairs of records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ocelad.service.entries import Answer
from ocelad.service.itemset import ItemSet
from ocelad.service.labelled_pairs.answered_pairs import read_person
from ocelad.service.labelled_pairs.item_records import PERSON, SEQ, column_readers, make_record
from ocelad.service.labelled_pairs.labelled_pair import ItemReference, LabelledPair
from ocelad.service.labelled_pairs.pairs_error import PairsError
from ocelad.service.labelled_pairs.written_answer import Answers, WrittenAnswer

_ANSWERS: dict[str, Answer] = {"distinct": "different", "match": "same"}
_OPTIONAL = ("uncertain", "unsure")
_ACCEPTED = 'accepted: {"distinct": [[record, record], ...], "match": [...]}, where a record is an object'


def is_dedupe_training(content: Any) -> bool:
    """Return whether parsed JSON is an object with the lists of dedupe."""
    return isinstance(content, dict) and any(isinstance(content.get(name), list) for name in _ANSWERS)


def read_dedupe_training(content: Any) -> Iterator[LabelledPair]:
    """Yield the pairs of a training file: those of an export in the order of the answers, others list by list."""
    if not is_dedupe_training(content):
        raise PairsError(f"the file is not a training file of dedupe; {_ACCEPTED}")
    if unknown := [name for name in content if name not in (*_ANSWERS, *_OPTIONAL)]:
        raise PairsError(f"the file has the key {unknown[0][:60]!r}; {_ACCEPTED}")
    pairs: list[tuple[Any, LabelledPair]] = []
    for name, answer in (*_ANSWERS.items(), *((name, "skip") for name in _OPTIONAL)):
        for number, pair in enumerate(_as_list(content.get(name, [])) or (), 1):
            pairs.append(_read_pair(pair, answer, f"pair {number} of {name!r}"))
    if all(type(seq) is int for seq, _ in pairs):
        pairs.sort(key=lambda each: each[0])
    return (pair for _, pair in pairs)


def _read_pair(pair: Any, answer: Any, where: str) -> tuple[Any, LabelledPair]:
    """Return the number of the answer in the log that was exported, if there is one, and the pair."""
    records = _as_list(pair)
    if records is None or len(records) != 2 or not all(isinstance(record, dict) for record in records):
        raise PairsError(f"{where} is not a pair of records; {_ACCEPTED}")
    left, right = ({k: v for k, v in record.items() if k not in (SEQ, PERSON)} for record in records)
    person = read_person(records[0], PERSON, where)
    references = ItemReference(record=left), ItemReference(record=right)
    return records[0].get(SEQ), LabelledPair(*references, answer, where, person, may_be_one_item=True)


def _as_list(value: Any) -> list[Any] | None:
    """Return the elements of a list, or of a tuple or a set as dedupe writes them; None for anything else."""
    if isinstance(value, dict) and "__class__" in value:
        value = value.get("__value__")
    return value if isinstance(value, list) else None


def write_dedupe_training(answers: Answers, items: ItemSet) -> Iterator[bytes]:
    """Yield the bytes of a training file. Its records also have the number and the person of the answer."""
    readers = column_readers(items)

    def pair(answer: WrittenAnswer) -> bytes:
        more = {SEQ: answer.seq, PERSON: answer.person}
        records = [{**make_record(items, readers, position), **more} for position in (answer.left, answer.right)]
        return json.dumps({"__class__": "tuple", "__value__": records}, ensure_ascii=False).encode()

    for start, same, end in ((b'{"distinct": [', False, b"], "), (b'"match": [', True, b"]}\n")):
        separator = start
        for answer in answers():
            if answer.same == same:
                yield separator + b"\n" + pair(answer)
                separator = b","
        yield end if separator == b"," else start + end
