"""Settings of the service, from the command line or the environment (OCELAD_SERVE_...), with defaults."""

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
# Wildcard addresses to listen on, and the loopback address of the same family.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def _separate(names: Any) -> Any:
    """Split a comma-separated text, as the environment provides it."""
    return tuple(name.strip() for name in names.split(",") if name.strip()) if isinstance(names, str) else names


def _host(name: str) -> str:
    """Check a host name or IP address without a port."""
    try:
        return str(ip_address(name.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    if re.fullmatch(r"[A-Za-z0-9._-]+", name) is None:
        raise ValueError(f"{name!r} is not a host name; accepted: a name such as labels.example.org, without a port")
    return name


Host = Annotated[str, AfterValidator(_host)]


def check_environment(environment: Iterable[str]) -> None:
    """Reject environment variables with the prefix that are not settings, such as misspelled ones.

    >>> check_environment(["HOME", "OCELAD_SERVE_PROT"])
    Traceback (most recent call last):
        ...
    ValueError: OCELAD_SERVE_PROT is not a setting; did you mean OCELAD_SERVE_PORT?
    """
    known = [_PREFIX + name.upper() for name in Settings.model_fields]
    for name in environment:
        if name.upper().startswith(_PREFIX) and name.upper() not in known:
            meant = get_close_matches(name.upper(), known, n=1)
            hint = f"did you mean {meant[0]}?" if meant else f"accepted: {', '.join(known)}"
            raise ValueError(f"{name} is not a setting; {hint}")


class Settings(BaseSettings):
    """How the service runs. Settings of learning belong to each project.

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
    #: postgresql://user:password@host/name; None: SQLite in the folder. Secret: it may contain a password.
    database: SecretStr | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    #: Further host names of the service, such as that of a reverse proxy; comma-separated in the environment.
    allow_hosts: Annotated[tuple[Host, ...], NoDecode, BeforeValidator(_separate)] = ()
    #: Require a token on loopback, too; beyond loopback it is always required.
    require_token: bool = False
    #: The share of pairs that are drawn at random; None: 0.12 in a project with groups, 0.2 in one without.
    random_share: Annotated[float, Field(ge=0, le=1)] | None = None

    max_body: Annotated[int, Field(ge=1024)] = 4 * MEBIBYTE
    max_items_body: Annotated[int, Field(ge=1024)] = 32 * MEBIBYTE
    max_upload: Annotated[int, Field(ge=1024)] = 256 * MEBIBYTE
    max_streams: Annotated[int, Field(ge=1)] = 256
    #: Requests per second of one token, or of one address without a token; None: no limit.
    rate: Annotated[float, Field(gt=0)] | None = 200.0
    #: Seconds for the headers and the body to arrive, and for the response to begin.
    header_timeout: Annotated[float, Field(gt=0)] = 10.0
    body_timeout: Annotated[float, Field(gt=0)] = 60.0
    request_timeout: Annotated[float, Field(gt=0)] = 60.0
    #: Seconds that running requests have to finish when the service stops.
    stop_timeout: Annotated[int, Field(ge=1)] = 10

    @property
    def listens_on_all_addresses(self) -> bool:
        """Whether the service listens on all addresses of this machine."""
        return self.host in _LOOPBACK

    @property
    def address(self) -> str:
        """The URL of the service on this machine."""
        host = _LOOPBACK.get(self.host, self.host)
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{self.port}"

    @property
    def database_url(self) -> str | None:
        """The URL of the PostgreSQL database in plain text, or None."""
        return None if self.database is None else self.database.get_secret_value()
