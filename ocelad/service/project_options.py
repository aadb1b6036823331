"""The options of a project that may change at any time: its question, its guidelines, and the cards of its items.

The database stores them as one JSON object. What the distance learns from is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

DEFAULT_QUESTION = "Are these two the same?"
MAX_QUESTION, MAX_GUIDELINES, MAX_COLUMN_NAME, MAX_SHOWN = 300, 20_000, 200, 100
MAX_WEIGHTS, MAX_REPEAT_PEOPLE = 10_000, 20
RepeatShare = Annotated[float, Field(ge=0, le=1)]
RepeatPeople = Annotated[int, Field(ge=2, le=MAX_REPEAT_PEOPLE)]
Weight = Annotated[float, Field(ge=0, le=1)]
StoredName = Annotated[str, Field(max_length=200)]
ColumnName = Annotated[str, Field(min_length=1, max_length=MAX_COLUMN_NAME)]


class Cards(BaseModel):
    """The columns of an item's card.

    Attributes
    ----------
    title, text, link, picture : str or None
        The column that names the item, that of its text, of a link and of a picture; None: the card has none.
    fields : tuple of str
        Further columns, in the order in which they are displayed.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    title: ColumnName | None = None
    text: ColumnName | None = None
    link: ColumnName | None = None
    picture: ColumnName | None = None
    fields: Annotated[tuple[ColumnName, ...], Field(max_length=MAX_SHOWN)] = ()


class AnswerWeights(BaseModel):
    """The weight of each person's answers in what is learned.

    Attributes
    ----------
    mode : {"equal", "set", "learned"}
        Whether all answers weigh the same, or by numbers that were set, or learned from pairs that several people have
        answered.
    people : mapping of str to float
        Weights from 0 to 1, by the name under which answers are stored; others have the weight 1.
    learned_seq : int or None
        The last entry that the numbers were learned from.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    mode: Literal["equal", "set", "learned"] = "equal"
    people: Annotated[dict[StoredName, Weight], Field(max_length=MAX_WEIGHTS)] = {}
    learned_seq: Annotated[int, Field(ge=0)] | None = None

    @property
    def effective(self) -> dict[str, float]:
        """The weights that differ from 1."""
        return {} if self.mode == "equal" else {name: each for name, each in self.people.items() if each != 1.0}

    def without(self, person: str) -> AnswerWeights:
        """Return the weights without a person."""
        return self.model_copy(update={"people": {name: each for name, each in self.people.items() if name != person}})


class ProjectOptions(BaseModel):
    """The options of a project. Keys that a later version has stored are kept.

    >>> options = ProjectOptions.read({"question": "Same shoe?", "colour_of_later": "red"})
    >>> options.question, options.stored()
    ('Same shoe?', {'question': 'Same shoe?', 'colour_of_later': 'red'})
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    question: Annotated[str, Field(min_length=1, max_length=MAX_QUESTION)] = DEFAULT_QUESTION
    guidelines: Annotated[str, Field(max_length=MAX_GUIDELINES)] = ""
    #: None: the default cards of the items.
    cards: Cards | None = None
    #: The share of pairs that others have answered before, and how many people are asked about each of them.
    repeat_share: RepeatShare = 0.0
    repeat_people: RepeatPeople = 2
    weights: AnswerWeights = AnswerWeights()

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Read what the database stores. An option that this version cannot read has its default, but is kept."""
        try:
            return cls.model_validate(dict(stored))
        except ValidationError as error:
            unreadable = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
            readable = cls.model_validate({name: value for name, value in stored.items() if name not in unreadable})
            return readable.model_copy(update={f"{_UNREAD}{name}": stored[name] for name in unreadable})

    def stored(self) -> dict[str, Any]:
        """Return what the database stores: the options that were set, as JSON types."""
        found = self.model_dump(mode="json", exclude_unset=True)
        unread = {name.removeprefix(_UNREAD): found.pop(name) for name in list(found) if name.startswith(_UNREAD)}
        return {**unread, **found}

    def changed(self, **changes: Any) -> Self:
        """Return a copy with some options replaced, validated."""
        return type(self).model_validate({**self.model_dump(exclude_unset=True), **changes})


# Marks a stored value that this version cannot read.
_UNREAD = "unread "
