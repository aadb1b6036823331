"""Entries: what the log of a project holds, and the only thing that cannot be computed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

#: What an entry says of two items. A skipped pair teaches nothing, and is not asked again.
Answer: TypeAlias = Literal["same", "different", "skip"]
Kind: TypeAlias = Literal["same", "different", "skip", "undo"]
#: How the two came to be asked for: chosen actively, drawn at random, or brought by who answered.
Asked: TypeAlias = Literal["active", "random", "given"]


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An answer that is not in the log yet.

    Attributes
    ----------
    left, right : int
        Positions of two items in the project, from 0; not the same one.
    answer : {"same", "different", "skip"}
    asked : {"active", "random", "given"}
    """

    left: int
    right: int
    answer: Answer
    asked: Asked = "given"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a project's log; never changed, never removed.

    Attributes
    ----------
    seq : int
        Its number in the project: 1, 2, 3, ... without gaps, in the order in which entries became durable.
    at : int
        When, in milliseconds since 1970, UTC.
    kind : {"same", "different", "skip", "undo"}
    left, right : int
        Positions of the items; of an undo, those of the entry that it undoes.
    asked : {"active", "random", "given"}
        Of an undo, as of the entry that it undoes.
    who : str
        Who answered; may be empty.
    undoes : int or None
        Of an undo: the number of the entry that counts as never made from here on. None of all others.
    """

    seq: int
    at: int
    kind: Kind
    left: int
    right: int
    asked: Asked
    who: str
    undoes: int | None = None
