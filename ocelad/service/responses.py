"""HTTP responses of models and errors."""

from __future__ import annotations

from pydantic import BaseModel
from starlette.responses import Response

from ocelad.service.api_error import ApiError
from ocelad.service.wire import ErrorDetail, ErrorResponse


def json_response(model: BaseModel, status: int = 200) -> Response:
    """Return the response of a model without validating the model again, as FastAPI would."""
    return Response(model.model_dump_json(), status_code=status, media_type="application/json")


def error_response(error: ApiError) -> Response:
    """Return the response of an error."""
    detail = ErrorDetail(code=error.code, message=error.message, where=error.where)
    return Response(
        ErrorResponse(error=detail).model_dump_json(),
        status_code=error.status,
        media_type="application/json",
        headers=error.headers,
    )
