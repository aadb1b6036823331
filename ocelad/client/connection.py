"""Connection: requests to one service, sent again where that is safe."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx
from pydantic import BaseModel, ValidationError

from ocelad.client.errors import ServiceError, refused

Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")
# Too many requests, or not now: nothing is wrong with the request itself.
_LATER = (429, 503)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
# A stream of events has a sign of life every 15 seconds.
_SILENCE = 45.0


class Connection:
    """Sends requests, and reads answers.

    Parameters
    ----------
    url : str
        Of the service, such as "http://127.0.0.1:8765".
    token : str or None
    person : str or None
        Who answers.
    timeout : float
        Seconds without any byte after which a connection is taken for lost.
    retries : int
        How often a request is sent again.
    """

    def __init__(self, url: str, token: str | None, person: str | None, timeout: float, retries: int) -> None:
        headers = {"Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if person is not None:
            headers["Ocelad-Person"] = person
        base = httpx.URL(url)
        if base.scheme not in ("http", "https") or not base.host:
            raise ValueError(f"{url!r} is no address of a service; accepted: such as http://127.0.0.1:8765")
        own_machine = base.host in ("localhost", "127.0.0.1", "::1")  # which no proxy leads to
        self._http = httpx.Client(base_url=base, headers=headers, timeout=timeout, trust_env=not own_machine)
        self._timeout, self._retries = timeout, retries

    def close(self) -> None:
        self._http.close()

    def get(self, model: type[Model], path: str, **params: Any) -> Model:
        """What is at a path."""
        return _parsed(model, self.sent("GET", path, params=_given(params)))

    def post(self, model: type[Model], path: str, new: BaseModel, *, key: str | None = None, repeatable: bool) -> Model:
        """What comes of sending something; ``repeatable`` where sending it twice is as good as once."""
        headers = {"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key})
        content = new.model_dump_json()
        return _parsed(model, self.sent("POST", path, repeatable=repeatable, content=content, headers=headers))

    def upload(self, model: type[Model], path: str, data: bytes, **params: Any) -> Model:
        """What comes of sending a file."""
        return _parsed(model, self.sent("POST", path, repeatable=False, content=data, params=_given(params)))

    def sent(self, method: str, path: str, *, repeatable: bool = True, **content: Any) -> httpx.Response:
        """The answer to a request, which may have been sent more than once."""

        def once() -> httpx.Response:
            response = self._http.request(method, path, **content)
            if response.is_error:
                raise _Failed(response)
            return response

        return self._persist(once, repeatable)

    def opened(self, path: str, headers: dict[str, str]) -> httpx.Response:
        """An answer that is read as it comes, and closed by who reads it."""
        timeout = httpx.Timeout(self._timeout, read=max(self._timeout, _SILENCE))
        request = self._http.build_request("GET", path, headers=headers, timeout=timeout)

        def once() -> httpx.Response:
            response = self._http.send(request, stream=True)
            if response.is_error:
                response.read()
                raise _Failed(response)
            return response

        return self._persist(once)

    def download(self, path: str, target: Path, **params: Any) -> None:
        """Put what is at a path into a file, whole or not at all."""
        temporary = target.with_name(f".{target.name[:100]}.{uuid4().hex}.part")

        def once() -> None:
            with self._http.stream("GET", path, params=_given(params)) as response, open(temporary, "wb") as file:
                if response.is_error:
                    response.read()
                    raise _Failed(response)
                for chunk in response.iter_bytes():
                    file.write(chunk)

        try:
            self._persist(once)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    def pause(self, attempt: int, reason: str) -> int:
        """Wait before another attempt, whose number is returned; after the last one, the reason is told as an error."""
        if attempt == self._retries:
            raise ServiceError("unreachable", f"{self._place()}: {reason}")
        time.sleep(_pause(attempt))
        return attempt + 1

    def _place(self) -> str:
        return f"{self._http.base_url.scheme}://{self._http.base_url.netloc.decode()}"

    def _persist(self, once: Callable[[], Value], repeatable: bool = True) -> Value:
        """Do something, again and again until it succeeds, or fails in a way that will not pass."""
        for attempt in range(self._retries + 1):
            try:
                return once()
            except (_Failed, httpx.TransportError) as error:
                failed = error if isinstance(error, _Failed) else _Failed(error)
                if attempt == self._retries or not failed.may_pass(repeatable):
                    raise failed.told(self._place()) from error
                time.sleep(failed.pause(attempt))
        raise AssertionError  # the last attempt returns or raises


class _Failed(Exception):
    """One attempt that failed: by an answer, or without one."""

    def __init__(self, cause: httpx.Response | httpx.TransportError) -> None:
        super().__init__()
        self.cause = cause

    def may_pass(self, repeatable: bool) -> bool:
        """Whether to try again: where nothing was done, or where doing it twice is as good as once."""
        if isinstance(self.cause, httpx.Response):
            return self.cause.status_code == 429 or (repeatable and self.cause.status_code in _LATER)
        return repeatable or isinstance(self.cause, httpx.ConnectError)

    def pause(self, attempt: int) -> float:
        """Seconds to wait: as the service says, or longer each time."""
        told = self.cause.headers.get("retry-after", "") if isinstance(self.cause, httpx.Response) else ""
        return _pause(attempt, float(told) if told.isdecimal() else 0.0)

    def told(self, place: str) -> ServiceError:
        if isinstance(self.cause, httpx.Response):
            return refused(self.cause)
        return ServiceError("unreachable", f"no answer came from {place}: {self.cause or type(self.cause).__name__}")


def _pause(attempt: int, least: float = 0.0) -> float:
    """Twice as long each time; spread, so that not all clients come back at once."""
    return min(_LONGEST_PAUSE, max(least, _FIRST_PAUSE * 2.0**attempt)) * random.uniform(1.0, 1.25)


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _parsed(model: type[Model], response: httpx.Response) -> Model:
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        sentence = (
            f"{response.url.host} did not answer as an ocelad service of this version does: {error.errors()[0]['msg']}"
        )
        raise ServiceError("not_the_service", sentence, response.status_code) from error
