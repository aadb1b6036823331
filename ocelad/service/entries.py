"""Entries of a project's log: the only data of a service, besides the items, that cannot be recomputed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

#: The answer about two items. A skipped pair is not learned from and not asked again.
Answer: TypeAlias = Literal["same", "different", "skip"]
#: A "name" names the group of an item. The content of an "erased" entry is gone; an "erase" records that this happened.
Kind: TypeAlias = Literal["same", "different", "skip", "undo", "name", "erased", "erase"]
#: How the pair was selected: by the client ("given"), as ``PairChooser`` does, to ask a further person ("repeat"), by a
#: reviewer who settles a disagreement ("review"), or elsewhere, before it was imported.
PairSource: TypeAlias = Literal["active", "random", "link", "check", "settle", "given", "repeat", "review", "import"]


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An answer that is not in the log yet.

    Attributes
    ----------
    left, right : int
        Positions of two different items in the project, from 0.
    answer : {"same", "different", "skip"}
    source : PairSource
    person : str or None
        Who answered; None: the person of the request. An import has answers of many people.
    """

    left: int
    right: int
    answer: Answer
    source: PairSource = "given"
    person: str | None = None


@dataclass(frozen=True, slots=True)
class NewUndo:
    """An undo of an entry that is not in the log yet.

    Attributes
    ----------
    seq : int
        The number of the entry to undo.
    source : PairSource or None
        Why; None: the source of the undone entry.
    """

    seq: int
    source: PairSource | None = None


@dataclass(frozen=True, slots=True)
class NewName:
    """A name for the group of an item that is not in the log yet.

    Attributes
    ----------
    item : int
        The position of the item.
    name : str
    """

    item: int
    name: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a project's log; never removed, and changed only to erase the answers of a person.

    Attributes
    ----------
    seq : int
        The number of the entry in the project: 1, 2, 3, ... without gaps, in the order of the commits.
    at : int
        The time in milliseconds since 1970, UTC.
    kind : Kind
    left, right : int
        Positions of the items; those of the undone entry for an undo. Both are the same item for a name. Both are 0 if
        the content is erased.
    source : PairSource
        That of the undone entry for an undo, or "review".
    person : str
        Who answered; may be empty.
    undoes : int or None
        The number of the undone entry for an undo; None for other kinds.
    name : str or None
        The name that is given to the group of the item; None for other kinds.
    bundle : int or None
        The number of the first of the entries that were stored together and are undone together, such as the answers
        that merge two groups. None: the entry is undone by itself.
    chain : bytes
        A digest of the log up to this entry (``store/log_chain.py``): equal chains mean equal logs.
    erased : bytes or None
        The digest of the entry before its content was erased; None: it was not.
    """

    seq: int
    at: int
    kind: Kind
    left: int
    right: int
    source: PairSource
    person: str
    undoes: int | None = None
    name: str | None = None
    bundle: int | None = None
    chain: bytes = field(default=b"", compare=False, repr=False)
    erased: bytes | None = field(default=None, compare=False, repr=False)
