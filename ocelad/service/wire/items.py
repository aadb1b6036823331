"""The JSON models of items."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ocelad.service.wire.models import MAX_BATCH_SIZE, Id, Number, RequestModel, ResponseModel

UploadFormat = Literal["csv", "jsonl", "parquet", "arrow", "npy", "npz"]


class Item(ResponseModel):
    """An item with its card; the project's ``cards`` say which columns it shows."""

    id: str
    position: int
    title: str | None  # names the item
    text: str | None
    link: str | None  # begins with http:// or https://; other links are among the fields
    picture: str | None  # the path of a picture of at most 256 x 256 pixels on this server
    picture_full: str | None  # the path of the same picture in its own size, at most 2048 x 2048 pixels
    features: dict[str, float]  # empty in lists, and for items with more than 100 features
    fields: dict[str, str | float | bool | None]  # in the order of display


class ItemPage(ResponseModel):
    items: list[Item]
    next: int | None  # the value of after= for the next page; None: this is the last page


class NewItem(RequestModel):
    id: Id
    features: list[Number]
    text: str | None = None
    fields: dict[str, str | float | bool | None] = {}


class NewItems(RequestModel):
    items: Annotated[list[NewItem], Field(min_length=1, max_length=MAX_BATCH_SIZE)]


class ItemsAdded(ResponseModel):
    n_added: int
    n_items: int


class ColumnValues(ResponseModel):
    name: str
    kind: Literal["number", "category"]
    categories: list[str] | None  # the most frequent first; None for numbers
    values: list[float | None]  # numbers, or indices into categories
