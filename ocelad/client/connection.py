"""Connection: requests to one service, sent again where that is safe."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from ocelad.client.errors import ServiceError, refused
from ocelad.io.atomic import replace_atomically

Model = TypeVar("Model", bound=BaseModel)
Value = TypeVar("Value")
# Too many requests, not now, or a proxy finds no service: nothing is wrong with the request itself.
_LATER = (429, 502, 503, 504)
# Pauses double so often, to 6.4 seconds; the service may ask for longer ones.
_FIRST_PAUSE, _DOUBLINGS, _LONGEST_PAUSE = 0.1, 6, 30.0
# Seconds in which a stream of events has many signs of life, and in which a project is made of any items.
_SILENCE, _MAKING = 45.0, 240.0


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
        timeout = self._patient(_MAKING)
        response = self.sent("POST", path, repeatable=False, content=data, params=_given(params), timeout=timeout)
        return _parsed(model, response)

    def sent(self, method: str, path: str, *, repeatable: bool = True, **content: Any) -> httpx.Response:
        """The answer to a request, which may have been sent more than once."""

        def once() -> httpx.Response:
            response = self._http.request(method, path, **content)
            if response.is_error:
                raise Failed(response)
            return response

        return self._persist(once, repeatable)

    def lines(self, path: str, headers: dict[str, str]) -> Iterator[str]:
        """The lines of an answer as they come; asked for once, and ``Failed`` where that or the connection breaks."""
        try:
            with self._http.stream("GET", path, headers=headers, timeout=self._patient(_SILENCE)) as response:
                if response.is_error:
                    response.read()
                    raise Failed(response)
                yield from response.iter_lines()
        except httpx.TransportError as error:
            raise Failed(error) from error

    def download(self, path: str, target: Path, **params: Any) -> None:
        """Put what is at a path into a file, whole or not at all."""

        def once(temporary: Path) -> None:
            with self._http.stream("GET", path, params=_given(params)) as response, open(temporary, "wb") as file:
                if response.is_error:
                    response.read()
                    raise Failed(response)
                for chunk in response.iter_bytes():
                    file.write(chunk)

        with replace_atomically(target) as temporary:
            self._persist(lambda: once(temporary))

    @property
    def place(self) -> str:
        """Where the service is, for people."""
        return f"{self._http.base_url.scheme}://{self._http.base_url.netloc.decode()}"

    def _patient(self, silence: float) -> httpx.Timeout:
        """Where nothing may come for longer than usual."""
        return httpx.Timeout(self._timeout, read=max(self._timeout, silence))

    def _persist(self, once: Callable[[], Value], repeatable: bool = True) -> Value:
        """Do something, again and again until it succeeds, or fails in a way that will not pass."""
        for attempt in range(self._retries + 1):
            try:
                return once()
            except (Failed, httpx.TransportError) as error:
                failed = error if isinstance(error, Failed) else Failed(error)
                if attempt == self._retries or not failed.may_pass(repeatable):
                    raise failed.told(self.place) from error
                time.sleep(failed.pause(attempt))
        raise AssertionError  # the last attempt returns or raises


class Failed(Exception):
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


def _pause(attempt: int, least: float) -> float:
    """Twice as long each time; spread, so that not all clients come back at once."""
    return min(_LONGEST_PAUSE, max(least, _FIRST_PAUSE * 2.0 ** min(attempt, _DOUBLINGS))) * random.uniform(1.0, 1.25)


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
