"""A pair of items with an answer, as a file names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ocelad.service.entries import Answer

# A longer description of an item is truncated in messages.
_MAX_LABEL = 80


@dataclass(frozen=True, slots=True)
class ItemReference:
    """An item as a file names it: by its id, or by the values of its columns.

    Attributes
    ----------
    id : str or None
    record : mapping of str to value, or None
        The columns of the item by name; it may contain the id.
    dataset : str or None
        The name of the table that the item is from, where ids are unique only within a table.
    """

    id: str | None = None
    record: Mapping[str, Any] | None = None
    dataset: str | None = None

    @property
    def label(self) -> str:
        """The item in messages.

        >>> ItemReference("x1").label, ItemReference(record={"name": "Bob"}).label
        ("'x1'", "{'name': 'Bob'}")
        """
        label = repr(self.id) if self.id is not None else repr(dict(self.record or {}))
        return label if len(label) <= _MAX_LABEL else f"{label[: _MAX_LABEL - 1]}…"


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two items and the answer about them.

    Attributes
    ----------
    left, right : ItemReference
    answer : {"same", "different", "skip"}
    where : str
        The place in the file, such as "line 3".
    person : str or None
        Who answered; None if the file does not say it.
    may_be_one_item : bool
        Whether both may be the same item; then the pair is left out. Otherwise such a pair is an error.
    """

    left: ItemReference
    right: ItemReference
    answer: Answer
    where: str
    person: str | None = None
    may_be_one_item: bool = False
