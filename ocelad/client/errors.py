"""The error of a request that the service rejected or did not receive."""

from __future__ import annotations

from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from ocelad.service.wire import TAGS, ErrorResponse

Model = TypeVar("Model", bound=BaseModel)


class ServiceError(Exception):
    """A request failed: the service rejected it or could not be reached.

    Attributes
    ----------
    code : str
        A constant for programs, such as "not_found"; "unreachable" if there was no response.
    message : str
        One sentence for people.
    status : int or None
        The HTTP status; None if there was no response, or if the request was invalid and not sent.
    where : str or None
        The location in the request, such as "body.comparisons.3.left".
    """

    def __init__(self, code: str, message: str, status: int | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.status, self.where = code, message, status, where


def validate(model: type[Model], **values: Any) -> Model:
    """Return the model of a request body; raise the ServiceError that the service would return if it is invalid."""
    try:
        return model(**values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in ("body", *first["loc"]) if part not in TAGS)
        raise ServiceError("invalid", f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}", where=where) from None


def error_of(response: httpx.Response) -> ServiceError:
    """Return the error of a response with a status of 400 or above, whose content must have been read."""
    try:
        error = ErrorResponse.model_validate_json(response.content).error
    except ValidationError:
        message = f"{response.url.host} is not an ocelad service: it responded with status {response.status_code}"
        return ServiceError("not_the_service", message, response.status_code)
    return ServiceError(error.code, error.message, response.status_code, error.where)
