"""What the JSON models of the HTTP API share: base classes, types of fields, and errors."""

from __future__ import annotations

from typing import Annotated, Literal
from unicodedata import category

from pydantic import BaseModel, ConfigDict, Field

MAX_BATCH_SIZE = 10_000


Id = Annotated[str, Field(min_length=1, max_length=200)]


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="Lowercase letters, digits, - and _")]


Seq = Annotated[int, Field(ge=0, le=2**53)]


Number = Annotated[float, Field(allow_inf_nan=False)]


Permission = Literal["read", "answer", "review", "admin"]


#: Tags of the union types. Pydantic puts them into the locations of errors, from where they are removed again.
ONE, MANY, BY_ID, BY_FEATURES = TAGS = ("<one>", "<many>", "<id>", "<features>")


class RequestModel(BaseModel):
    """Base class of request bodies: unknown fields are rejected and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ResponseModel(BaseModel):
    """Base class of response bodies."""

    model_config = ConfigDict(frozen=True)


def is_displayable(text: str, *, lines: bool) -> bool:
    """Return whether a text has no control characters or surrogates; on request it may have line ends and tabs."""
    plain = text.translate(_LINE_CHARACTERS) if lines else text
    return not any(category(character) in ("Cc", "Cs", "Zl", "Zp") for character in plain)


_LINE_CHARACTERS = dict.fromkeys(map(ord, "\n\r\t"), " ")


class ErrorDetail(ResponseModel):
    code: str  # a constant for programs, such as "not_found"
    message: str  # one sentence for people: what was wrong, where, and what is accepted
    where: str | None = None  # the location in the request, such as "body.comparisons.3.left"


class ErrorResponse(ResponseModel):
    """The body of every response with a status of 400 or above."""

    error: ErrorDetail


class Notice(ResponseModel):
    """What happened to a project while the service was running, such as that its log was replaced."""

    at: int  # milliseconds since 1970, UTC
    text: str
