"""Entries of a project's log: the only data of a service, besides the items, that cannot be recomputed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

#: The answer about two items. A skipped pair is not learned from and not asked again.
Answer: TypeAlias = Literal["same", "different", "skip"]
#: A "name" names the group of an item.
Kind: TypeAlias = Literal["same", "different", "skip", "undo", "name"]
#: How the pair was selected: by the client, or as ``PairChooser`` does.
PairSource: TypeAlias = Literal["active", "random", "link", "check", "settle", "given"]


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An answer that is not in the log yet.

    Attributes
    ----------
    left, right : int
        Positions of two different items in the project, from 0.
    answer : {"same", "different", "skip"}
    source : {"active", "random", "link", "check", "settle", "given"}
    """

    left: int
    right: int
    answer: Answer
    source: PairSource = "given"


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
    """An entry of a project's log; never changed or removed.

    Attributes
    ----------
    seq : int
        The number of the entry in the project: 1, 2, 3, ... without gaps, in the order of the commits.
    at : int
        The time in milliseconds since 1970, UTC.
    kind : {"same", "different", "skip", "undo", "name"}
    left, right : int
        Positions of the items; those of the undone entry for an undo. Both are the same item for a name.
    source : {"active", "random", "link", "check", "settle", "given"}
        That of the undone entry for an undo.
    person : str
        Who answered; may be empty.
    undoes : int or None
        The number of the undone entry for an undo; None for other kinds.
    name : str or None
        The name that is given to the group of the item; None for other kinds.
    bundle : int or None
        The number of the first of the entries that were stored together and are undone together, such as the answers
        that merge two groups. None: the entry is undone by itself.
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
