"""The JSON models of groups of items."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from ocelad.service.wire.items import Item
from ocelad.service.wire.models import MAX_BATCH_SIZE, Id, RequestModel, ResponseModel, is_displayable


class Group(ResponseModel):
    """Items that the answers imply to be the same."""

    id: str  # the id of the item that answers named first
    name: str | None  # the last name that was given to one of the items
    size: int
    items: list[Item]  # the first ones


class GroupPage(ResponseModel):
    seq: int
    n_answers: int
    n_implied: int  # pairs whose answer the answers imply, those that were asked included
    n_groups: int
    n_contradictions: int
    groups: list[Group]  # the largest first
    next: int | None  # the value of after= for the next page; None: this is the last page


class GroupItems(ResponseModel):
    seq: int
    group: Group
    items: list[Item]  # in the order in which answers named them
    next: int | None  # the value of after= for the next page; None: this is the last page


class Contradiction(ResponseModel):
    """A pair whose answers contradict the groups."""

    left: Item
    right: Item
    votes: float  # answers "same" minus answers "different"; negative: the two are in one group nevertheless


class ContradictionPage(ResponseModel):
    seq: int
    contradictions: list[Contradiction]  # in the order in which they were first asked
    next: int | None  # the value of after= for the next page; None: this is the last page


def _check_name(name: str) -> str:
    """Return a name without spaces around it; raise an error if nothing is left, or if it has control characters."""
    if not name.strip() or not is_displayable(name, lines=False):
        message = "the name is empty or contains control characters; accepted: 1 to 100 characters in one line"
        raise PydanticCustomError("name", message)
    return name.strip()


class Merge(RequestModel):
    left: Id  # an item of one group
    right: Id  # an item of another one


class Split(RequestModel):
    items: Annotated[list[Id], Field(min_length=1, max_length=MAX_BATCH_SIZE)]  # they leave their group together


class GroupName(RequestModel):
    item: Id  # any item of the group
    name: Annotated[str, Field(max_length=100), AfterValidator(_check_name)]
