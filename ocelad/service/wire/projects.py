"""The JSON models of projects and their options."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from ocelad.service.project_options import (
    MAX_GUIDELINES,
    MAX_QUESTION,
    MAX_SHOWN,
    MAX_WEIGHTS,
    ColumnName,
    RepeatPeople,
    RepeatShare,
    StoredName,
    Weight,
)
from ocelad.service.wire.models import Name, Notice, Permission, RequestModel, ResponseModel, is_displayable

MethodName = Literal["adaptive", "rice"]


#: "unknown": the project stores no version, because it was created before versions were stored.
Replay = Literal["same", "changed", "unknown"]


# What a project learns from is fixed when it is created.
_FIXED = ("features", "exclude", "item_id", "method", "settings", "curved", "transitive", "missing")


def _check_question(question: str) -> str:
    """Return a question without spaces around it; raise an error if it is empty or has control characters."""
    if not question.strip() or not is_displayable(question, lines=False):
        message = f"the question is empty or contains control characters; accepted: 1 to {MAX_QUESTION} characters"
        raise PydanticCustomError("question", message)
    return question.strip()


def _check_lines(text: str) -> str:
    if not is_displayable(text, lines=True):
        raise PydanticCustomError("lines", "the text contains control characters; accepted: plain text in lines")
    return text


class Column(ResponseModel):
    """A column of the data that is not learned from and that the map can be coloured by."""

    name: str
    kind: Literal["number", "category"]


class CardColumn(ResponseModel):
    """A column that the cards of items can show."""

    name: str
    kind: Literal["text", "link", "number", "boolean", "picture"]
    is_feature: bool  # whether the distance is learned from it


class Cards(ResponseModel):
    """The columns of an item's card; None: the card has none."""

    title: str | None  # names the item
    text: str | None
    link: str | None
    picture: str | None
    fields: list[str]  # in the order of display


class ProjectInfo(ResponseModel):
    id: str
    title: str
    created_at: int  # milliseconds since 1970, UTC
    n_items: int
    feature_names: list[str]
    display: Literal["picture", "text", "features"]  # what an item has to show
    columns: list[Column]
    question: str  # that people answer
    guidelines: str | None  # plain text; None in lists of projects
    cards: Cards | None  # None in lists of projects
    card_columns: list[CardColumn] | None  # all columns that cards can show; None in lists of projects
    method: MethodName  # of learning
    curved: bool  # whether the distance has a curved part beside the linear one
    transitive: bool  # whether answers imply others; if not, there are no groups
    seq: int  # the last entry in the log
    learned_seq: int | None  # the last entry that the metric has learned from; None in lists: it is not in memory
    n_answers: int | None  # answers "same" or "different" that are not undone; None in lists: it is not in memory
    n_implied: int | None  # pairs whose answer the answers imply, those that were asked included
    n_groups: int | None  # of items with answers
    n_contradictions: int | None  # pairs whose answers contradict the groups; these three are None in lists of projects
    permission: Permission  # of the caller
    repeat_share: float  # of pairs that others have answered before
    repeat_people: int  # who are asked about each of them
    weights: Literal["equal", "set", "learned"]  # of people's answers
    notice: Notice | None = None
    archived_at: int | None = None  # milliseconds since 1970, UTC; None: people can answer
    replay: Replay  # whether this version learns the same from the log as the version that the project was created with
    replay_note: str | None  # one sentence for people, unless it is the same
    notes: list[str] = []  # about the file of items, when a project has just been created from it


class CardsChange(RequestModel):
    """The columns of an item's card; what is left out stays as it is, and null removes it."""

    title: ColumnName | None = None
    text: ColumnName | None = None
    link: ColumnName | None = None
    picture: ColumnName | None = None
    fields: Annotated[list[ColumnName], Field(max_length=MAX_SHOWN)] = []


class WeightsChange(RequestModel):
    """Equal weights, or the weight of each person's answers, from 0 to 1; people who are not named have 1."""

    mode: Literal["equal", "set"]
    people: Annotated[dict[StoredName, Weight], Field(max_length=MAX_WEIGHTS)] = {}

    @model_validator(mode="after")
    def _refuse_unused(self) -> Self:
        if self.mode == "equal" and self.people:
            raise PydanticCustomError("weights", 'mode is "equal", but people have weights; accepted: mode "set"')
        return self


class ProjectChange(RequestModel):
    """What may be changed of a project; what is left out stays as it is."""

    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    question: Annotated[str, Field(max_length=MAX_QUESTION), AfterValidator(_check_question)] | None = None
    guidelines: Annotated[str, Field(max_length=MAX_GUIDELINES), AfterValidator(_check_lines)] | None = None
    cards: CardsChange | None = None
    repeat_share: RepeatShare | None = None  # of pairs that others have answered before
    repeat_people: RepeatPeople | None = None  # who are asked about each of them
    weights: WeightsChange | None = None  # of people's answers

    @model_validator(mode="before")
    @classmethod
    def _refuse_learning(cls, body: Any) -> Any:
        fixed = [name for name in body if name in _FIXED] if isinstance(body, dict) else []
        if fixed:
            message = f"{fixed[0]} cannot be changed: the answers were learned with it; create another project"
            raise PydanticCustomError("fixed", message)
        return body


class ProjectList(ResponseModel):
    projects: list[ProjectInfo]
    next: int | None = None  # the value of after= for the next page; None: this is the last page


class ProjectCopy(RequestModel):
    id: Name  # of the copy
    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None  # None: that of the project
    answers: bool = False  # whether the log is copied, with people and times
