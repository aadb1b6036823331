"""Settings of the service: from the command line, from the environment (OCELAD_SERVE_...), otherwise these."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MEBIBYTE = 2**20
_PREFIX = "OCELAD_SERVE_"
# Hosts that stand for all addresses of a machine, which none is reached by, and the one that it reaches itself by.
_SELF = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def _separate(names: Any) -> Any:
    """A text of names with commas between, as the environment has it, in parts."""
    return tuple(name.strip() for name in names.split(",") if name.strip()) if isinstance(names, str) else names


def _host(name: str) -> str:
    """A name or an address alone: which port a request is sent to does not matter."""
    try:
        return str(ip_address(name.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    if re.fullmatch(r"[A-Za-z0-9._-]+", name) is None:
        raise ValueError(f"{name!r} is no name of a host; accepted: such as labels.example.org, without a port")
    return name


Host = Annotated[str, AfterValidator(_host)]


def check_environment(environment: Iterable[str]) -> None:
    """Refuse a name that looks like a setting and is none: who wrote it thinks that it has an effect.

    >>> check_environment(["HOME", "OCELAD_SERVE_PROT"])
    Traceback (most recent call last):
        ...
    ValueError: OCELAD_SERVE_PROT is no setting; is OCELAD_SERVE_PORT meant?
    """
    known = [_PREFIX + name.upper() for name in Settings.model_fields]
    for name in environment:
        if name.upper().startswith(_PREFIX) and name.upper() not in known:
            meant = get_close_matches(name.upper(), known, n=1)
            hint = f"is {meant[0]} meant?" if meant else f"accepted: {', '.join(known)}"
            raise ValueError(f"{name} is no setting; {hint}")


class Settings(BaseSettings):
    """How the service runs; what is learned, and how, belongs to each project.

    Examples
    --------
    >>> Settings(port=9000).address
    'http://127.0.0.1:9000'
    >>> Settings(host="0.0.0.0").address
    'http://127.0.0.1:8765'
    >>> Settings(allow_hosts="labels.example.org, [::1]").allow_hosts
    ('labels.example.org', '::1')
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, extra="forbid")

    folder: Path = Path("ocelad-data")
    #: postgresql://user:password@host/name; None: SQLite in the folder. Secret, because it may hold a password.
    database: SecretStr | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    #: Other names that the service is reached by, as behind a reverse proxy; in the environment with commas between.
    allow_hosts: Annotated[tuple[Host, ...], NoDecode, BeforeValidator(_separate)] = ()
    #: Ask for a token on loopback, too. Beyond loopback it is asked for in any case.
    require_token: bool = False
    #: How many of the pairs that are asked for are drawn at random.
    random_share: Annotated[float, Field(ge=0, le=1)] = 0.2

    max_body: Annotated[int, Field(ge=1024)] = 4 * MEBIBYTE
    max_items_body: Annotated[int, Field(ge=1024)] = 32 * MEBIBYTE
    max_upload: Annotated[int, Field(ge=1024)] = 256 * MEBIBYTE
    max_streams: Annotated[int, Field(ge=1)] = 256
    #: Requests a second of one token, or of one address without a token; None: no limit.
    rate: Annotated[float, Field(gt=0)] | None = 200.0
    #: Seconds until headers, a body and an answer must be complete.
    header_timeout: Annotated[float, Field(gt=0)] = 10.0
    body_timeout: Annotated[float, Field(gt=0)] = 60.0
    request_timeout: Annotated[float, Field(gt=0)] = 60.0
    #: Seconds that requests at hand are waited for when the service is told to stop.
    stop_timeout: Annotated[int, Field(ge=1)] = 10

    @property
    def at_all_addresses(self) -> bool:
        """Whether it listens at whatever addresses this machine has."""
        return self.host in _SELF

    @property
    def address(self) -> str:
        """Where it is reached from this machine."""
        host = _SELF.get(self.host, self.host)
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}"

    @property
    def database_url(self) -> str | None:
        return None if self.database is None else self.database.get_secret_value()
