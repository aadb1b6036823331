"""Connection: requests to one service, with retries where a repetition is safe."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from ocelad.client.errors import ServiceError, error_of
from ocelad.io.atomic import replace_atomically

Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")
# The status of a request that was refused for now and had no effect, and those of a service that is unavailable.
_TOO_MANY_REQUESTS, _UNAVAILABLE = 429, (502, 503, 504)
# Pauses double up to 6.4 seconds; the service may request longer ones.
_FIRST_PAUSE, _MAX_DOUBLINGS, _MAX_PAUSE = 0.1, 6, 30.0
# Read timeouts in seconds: of event streams, which send a comment every 5 s, and of the creation of a project.
_EVENT_TIMEOUT, _CREATE_TIMEOUT = 45.0, 240.0


class Connection:
    """Sends requests and parses responses.

    Parameters
    ----------
    url : str
        The address of the service, such as "http://127.0.0.1:8765".
    token : str or None
    person : str or None
        The name of the person who answers.
    timeout : float
        Seconds without data after which a connection counts as lost.
    retries : int
        The number of retries.
    """

    def __init__(self, url: str, token: str | None, person: str | None, timeout: float, retries: int) -> None:
        headers = {"Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if person is not None:
            headers["Ocelad-Person"] = quote(person, safe=" '")  # letters of any script in an ASCII header
        base = httpx.URL(url)
        if base.scheme not in ("http", "https") or not base.host:
            raise ValueError(f"url must be an HTTP address such as http://127.0.0.1:8765; got {url!r}")
        is_local = base.host in ("localhost", "127.0.0.1", "::1")  # then no proxy is used
        self._http = httpx.Client(base_url=base, headers=headers, timeout=timeout, trust_env=not is_local)
        self._timeout, self._retries = timeout, retries

    def close(self) -> None:
        self._http.close()

    def get(self, model: type[Model], path: str, **params: Any) -> Model:
        """Return the response to a GET request."""
        return _parse(model, self.send("GET", path, params=_without_none(params)))

    def post(self, model: type[Model], path: str, new: BaseModel, *, key: str | None = None, repeatable: bool) -> Model:
        """Return the response to a POST request; ``repeatable`` if a repetition has no further effect."""
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
        content = new.model_dump_json()
        return _parse(model, self.send("POST", path, repeatable=repeatable, content=content, headers=headers))

    def patch(self, model: type[Model], path: str, change: BaseModel) -> Model:
        """Return the response to a PATCH request, which has the fields that were set."""
        headers = {"Content-Type": "application/json"}
        return _parse(
            model, self.send("PATCH", path, content=change.model_dump_json(exclude_unset=True), headers=headers)
        )

    def upload(self, model: type[Model], path: str, data: bytes, *, repeatable: bool = False, **params: Any) -> Model:
        """Return the response to a POST request with a file; ``repeatable`` if a repetition has no further effect."""
        timeout = self._timeout_with(_CREATE_TIMEOUT)
        response = self.send(
            "POST", path, repeatable=repeatable, content=data, params=_without_none(params), timeout=timeout
        )
        return _parse(model, response)

    def send(self, method: str, path: str, *, repeatable: bool = True, **content: Any) -> httpx.Response:
        """Send a request, with retries, and return the response."""

        def once() -> httpx.Response:
            response = self._http.request(method, path, **content)
            if response.is_error:
                raise RequestFailure(response)
            return response

        return self._retry(once, repeatable)

    def lines(self, path: str, headers: dict[str, str]) -> Iterator[str]:
        """Yield the lines of a streamed response, without retries; raise RequestFailure on any error."""
        try:
            with self._http.stream(
                "GET", path, headers=headers, timeout=self._timeout_with(_EVENT_TIMEOUT)
            ) as response:
                if response.is_error:
                    response.read()
                    raise RequestFailure(response)
                yield from response.iter_lines()
        except httpx.TransportError as error:
            raise RequestFailure(error) from error

    def download(self, path: str, target: Path, **params: Any) -> None:
        """Download to a file, atomically."""

        def once(temporary: Path) -> None:
            with (
                self._http.stream("GET", path, params=_without_none(params)) as response,
                open(temporary, "wb") as file,
            ):
                if response.is_error:
                    response.read()
                    raise RequestFailure(response)
                for chunk in response.iter_bytes():
                    file.write(chunk)

        with replace_atomically(target) as temporary:
            self._retry(lambda: once(temporary))

    @property
    def address(self) -> str:
        """The address of the service, for messages."""
        return f"{self._http.base_url.scheme}://{self._http.base_url.netloc.decode()}"

    def _timeout_with(self, seconds: float) -> httpx.Timeout:
        """Return the timeout with a read timeout of at least this many seconds."""
        return httpx.Timeout(self._timeout, read=max(self._timeout, seconds))

    def _retry(self, once: Callable[[], Value], repeatable: bool = True) -> Value:
        """Call a function until it succeeds, fails permanently, or the retries are used up."""
        attempt = 0
        while True:
            try:
                return once()
            except (RequestFailure, httpx.TransportError) as error:
                failure = error if isinstance(error, RequestFailure) else RequestFailure(error)
                if attempt == self._retries or not failure.is_temporary(repeatable):
                    raise failure.to_error(self.address) from error
                time.sleep(failure.pause(attempt))
                attempt += 1


class RequestFailure(Exception):
    """One failed attempt, with an error response or without a response."""

    def __init__(self, cause: httpx.Response | httpx.TransportError) -> None:
        self.cause = cause

    def is_temporary(self, repeatable: bool) -> bool:
        """Return whether to retry: the request had no effect or is repeatable, and may succeed later."""
        if isinstance(self.cause, httpx.Response):
            status = self.cause.status_code
            return status == _TOO_MANY_REQUESTS or (repeatable and status in _UNAVAILABLE)
        return repeatable or isinstance(self.cause, httpx.ConnectError)

    def pause(self, attempt: int) -> float:
        """Return the seconds to wait: as the service requests, or growing with the attempts."""
        requested = self.cause.headers.get("retry-after", "") if isinstance(self.cause, httpx.Response) else ""
        return _pause(attempt, float(requested) if requested.isdecimal() else _FIRST_PAUSE)

    def to_error(self, address: str) -> ServiceError:
        if isinstance(self.cause, httpx.Response):
            return error_of(self.cause)
        reason = str(self.cause) or type(self.cause).__name__
        return ServiceError("unreachable", f"no response from {address}: {reason}")


def _pause(attempt: int, min_pause: float) -> float:
    """Return an exponential pause with jitter, so that not all clients return at once."""
    return min(_MAX_PAUSE, max(min_pause, _FIRST_PAUSE * 2.0 ** min(attempt, _MAX_DOUBLINGS))) * random.uniform(
        1.0, 1.25
    )


def _without_none(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _parse(model: type[Model], response: httpx.Response) -> Model:
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        message = f"{response.url.host} is not an ocelad service of this version; invalid response: {reason}"
        raise ServiceError("not_the_service", message, response.status_code) from error
