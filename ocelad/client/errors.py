"""ServiceError: what the service refused, or that it could not be reached."""

from __future__ import annotations

from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from ocelad.service.wire import TAGS, ErrorResponse

Model = TypeVar("Model", bound=BaseModel)


class ServiceError(Exception):
    """What the service refused, or that it could not be reached, in one sentence.

    Attributes
    ----------
    code : str
        A word for programs, such as "not_found"; "unreachable" where no answer came.
    message : str
    status : int or None
        Of HTTP; None where no answer came, or where nothing was sent because it was plainly wrong.
    where : str or None
        In what was sent, such as "body.comparisons.3.left".
    """

    def __init__(self, code: str, message: str, status: int | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.status, self.where = code, message, status, where


def checked(model: type[Model], **values: Any) -> Model:
    """What is to be sent; where the service would refuse it, that is told as if it had."""
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in ("body", *first["loc"]) if part not in TAGS)
        raise ServiceError("invalid", f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}", where=where) from None


def refused(response: httpx.Response) -> ServiceError:
    """What an answer with a status of 400 or above says; its content must have been read."""
    try:
        error = ErrorResponse.model_validate_json(response.content).error
    except ValidationError:
        sentence = f"{response.url.host} answered with status {response.status_code}, and not as an ocelad service does"
        return ServiceError("not_the_service", sentence, response.status_code)
    return ServiceError(error.code, error.message, response.status_code, error.where)
