"""Blocking: candidate pairs of records that share a key, instead of all pairs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, hstack, triu

from ocelad.records.column_kinds import Kind, clean_code, clean_text, to_days
from ocelad.records.record_table import RecordTable

#: A key that more pairs of records share is skipped.
MAX_BLOCK = 1000
# The length of words that are keys.
_MIN_WORD = 3
_PART = re.compile(r"(?P<column>.+?)(:(?P<part>word|first|date|year|-?[1-9]\d?))?")


@dataclass(frozen=True)
class BlockKey:
    """One key of a blocking rule: a column, and which part of its values two records share.

    ``part`` is None, the whole value; "3" or "-6", the first three or the last six letters and digits; "word", any word
    of at least three letters; "first", the first word; "date", the date, however it is written; or "year", its year.
    """

    column: str
    part: str | None = None

    def keys(self, values: Sequence[Any]) -> list[frozenset[str]]:
        """Return the keys of each value.

        >>> sorted(BlockKey("name", "word").keys(["Ann of York"])[0])
        ['ann', 'york']
        """
        if self.part in ("date", "year"):
            days = zip(values, to_days(values).tolist(), strict=True)
            return [frozenset(_date_key(value, day, self.part == "year")) for value, day in days]
        return [frozenset(key for key in self._of(value) if key) for value in values]

    def _of(self, value: Any) -> Iterable[str]:
        if self.part == "word":
            return (word for word in clean_text(value).split() if len(word) >= _MIN_WORD)
        if self.part == "first":
            return clean_text(value).split()[:1]
        if self.part is None:
            return (clean_text(value),)
        code, n = clean_code(value), int(self.part)
        return (code[:n] if n > 0 else code[n:],)

    def __str__(self) -> str:
        return self.column if self.part is None else f"{self.column}:{self.part}"


#: A blocking rule: two records are a candidate pair if they share all of its keys.
Rule = tuple[BlockKey, ...]


def _date_key(value: Any, day: float, is_year: bool) -> list[str]:
    """Return the date or the year of a value; a value that is no date, such as 1980 or "1980", may be a year."""
    if day == day:
        text = str(np.datetime64(int(day), "D"))
        return [text.rpartition("-")[0].rpartition("-")[0] if is_year else text]
    match = re.search(r"\d{4}", str(value)) if is_year and value is not None else None
    return [match[0]] if match else []


def parse_rules(rules: str | Iterable[str], columns: Mapping[str, Any]) -> tuple[Rule, ...]:
    """Return blocking rules from their texts: parts of columns, joined by "+"; several rules are separated by commas.

    >>> rules = parse_rules("phone,name:3+city", {"name": "text", "city": "word", "phone": "code"})
    >>> [" + ".join(map(str, rule)) for rule in rules]
    ['phone', 'name:3 + city']
    """
    texts = rules.split(",") if isinstance(rules, str) else list(rules)
    found = []
    for text in texts:
        keys = []
        for part in text.split("+"):
            match = _PART.fullmatch(part.strip())
            if match is None or match["column"] not in columns:
                raise ValueError(
                    f"the blocking rule {text!r} names no column of both tables; accepted: {', '.join(columns)}, also "
                    "with :3 (first letters), :-4 (last ones), :word, :first, :date or :year, joined by +"
                )
            keys.append(BlockKey(match["column"], match["part"]))
        found.append(tuple(keys))
    if not found:
        raise ValueError("there is no blocking rule; accepted: at least one, or None for the default ones")
    return tuple(found)


def default_rules(kinds: Mapping[str, Kind]) -> tuple[Rule, ...]:
    """Return the rules for columns of these kinds: records share a word, the end of a code, or a date.

    Columns of single words, such as cities, are used only if there are no others.
    """
    of_kind: dict[Kind, tuple[str | None, ...]] = {"text": ("word", "5"), "code": ("-6",), "date": ("date",)}
    rules = [(BlockKey(column, part),) for column, kind in kinds.items() for part in of_kind.get(kind, ())]
    return tuple(rules or [(BlockKey(column),) for column in kinds])


class Candidates(NamedTuple):
    """Candidate pairs.

    Attributes
    ----------
    pairs : array of int of shape (n_pairs, 2)
        Rows of the left and of the right table, sorted; in one table, the first is the smaller one.
    notes : tuple of str
        How many keys of each rule were skipped, with the one in most pairs.
    """

    pairs: npt.NDArray[np.int32]
    notes: tuple[str, ...]


def candidate_pairs(
    left: RecordTable, right: RecordTable, rules: Sequence[Rule], max_block: int = MAX_BLOCK
) -> Candidates:
    """Return the pairs of records that share all keys of at least one rule.

    The pairs are the entries of a product of two sparse matrices, of records by keys. A key that more than
    ``max_block`` pairs share is skipped: a frequent surname, or a word such as "street".

    >>> from ocelad.records.record_table import read_table
    >>> left = read_table({"name": ["Ann Lee", "Bob Ray"]}, "left")
    >>> right = read_table({"name": ["Lee, Anne", "Rob Ray", "Eve Roe"]}, "right")
    >>> candidate_pairs(left, right, parse_rules("name:word", left.columns)).pairs.tolist()
    [[0, 0], [1, 1]]
    """
    is_same_table = left is right
    parts: list[tuple[Any, Any]] = []
    skipped = []
    for rule in rules:
        of_left, of_right, keys = _incidence(left, right, rule)
        n_left, n_right = (np.asarray(part.sum(axis=0)).ravel() for part in (of_left, of_right))
        n_pairs = n_left * (n_left - 1) // 2 if is_same_table else n_left * n_right
        too_large = n_pairs > max_block
        if too_large.any():
            largest = int(n_pairs.argmax())
            name = " + ".join(map(str, rule))
            skipped.append(f"{int(too_large.sum())} of {name} ({keys[largest]!r})")
        parts.append((of_left[:, ~too_large], of_right[:, ~too_large]))
    shared = hstack([part for part, _ in parts], format="csr") @ hstack([part for _, part in parts], format="csr").T
    shared = (triu(shared, k=1, format="csr") if is_same_table else csr_array(shared)).tocsr()
    shared.sort_indices()
    rows = np.repeat(np.arange(shared.shape[0], dtype=np.int32), np.diff(shared.indptr))
    notes = (f"keys in more than {max_block} pairs are skipped: {', '.join(skipped)}",) if skipped else ()
    return Candidates(np.column_stack([rows, shared.indices.astype(np.int32)]), notes)


def _incidence(left: RecordTable, right: RecordTable, rule: Rule) -> tuple[Any, Any, list[str]]:
    """Return which records have which keys, as two sparse matrices of int64, and the keys."""
    numbers: dict[str, int] = {}

    def matrix(table: RecordTable) -> Any:
        rows: list[int] = []
        columns: list[int] = []
        of_columns = [key.keys(table.columns[key.column]) for key in rule]
        for row, keys in enumerate(zip(*of_columns, strict=True)):
            joined = [""]
            for options in keys:
                joined = [f"{start}\x1f{key}" for start in joined for key in options]
            for key in joined:
                rows.append(row)
                columns.append(numbers.setdefault(key[1:].replace("\x1f", " + "), len(numbers)))
        return rows, columns

    positions = matrix(left)
    others = positions if right is left else matrix(right)

    def sparse(entries: tuple[list[int], list[int]], n_rows: int) -> Any:
        ones = np.ones(len(entries[0]), dtype=np.int64)
        return csr_array((ones, entries), shape=(n_rows, len(numbers)))

    return sparse(positions, len(left)), sparse(others, len(right)), list(numbers)
