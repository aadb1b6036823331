"""Settings of the service, from the command line or the environment (OCELAD_SERVE_...), with defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MEBIBYTE = 2**20
_PREFIX = "OCELAD_SERVE_"
# Wildcard addresses to listen on, and the loopback address of the same family.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def _separate(names: Any) -> Any:
    """Split a comma-separated text, as the environment provides it."""
    return tuple(name.strip() for name in names.split(",") if name.strip()) if isinstance(names, str) else names


def _bytes(size: Any) -> Any:
    """Parse a number of bytes with a unit.

    >>> _bytes("4 MiB"), _bytes("30000"), _bytes("2 otters")
    (4194304, '30000', '2 otters')
    """
    match = re.fullmatch(r"\s*([0-9]{1,12})\s*(KiB|MiB|GiB)\s*", size, re.IGNORECASE) if isinstance(size, str) else None
    return size if match is None else int(match[1]) * 2 ** {"kib": 10, "mib": 20, "gib": 30}[match[2].lower()]


def _none(value: Any) -> Any:
    """Parse "none", which switches a limit off."""
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


def _host(name: str) -> str:
    """Check a host name or IP address without a port."""
    try:
        return str(ip_address(name.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    if re.fullmatch(r"[A-Za-z0-9._-]+", name) is None:
        raise ValueError(f"{name!r} is not a host name; accepted: a name such as labels.example.org, without a port")
    return name


def _network(text: Any) -> Any:
    """Parse an address, or a network such as 10.0.0.0/8."""
    if not isinstance(text, str):
        return text
    try:
        return ip_network(text.removeprefix("[").removesuffix("]"), strict=False)
    except ValueError:
        raise ValueError(
            f"{text!r} is not an address; accepted: an IP address such as 127.0.0.1, or a network such as 10.0.0.0/8"
        ) from None


def _header(name: str) -> str:
    """Check the name of a header; a proxy must be able to set it, and it must not mean anything else already."""
    if re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", name) is None or name.lower() in _RESERVED_HEADERS:
        raise ValueError(f"{name!r} cannot name a person; accepted: a header such as X-Forwarded-User")
    return name


def _group_rule(text: str) -> str:
    """Check GROUP=PERMISSION or GROUP=PERMISSION:PROJECT."""
    if re.fullmatch(r".+=(read|answer|review|admin)(:[a-z0-9][a-z0-9_-]{0,63})?", text) is None:
        raise ValueError(f"{text!r} is not GROUP=PERMISSION or GROUP=PERMISSION:PROJECT, such as reviewers=admin")
    return text


def _safe_url(url: str) -> str:
    """Check an https URL, or an http URL of this machine, where nobody else can read what is sent."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(f"{url!r} is not a URL; accepted: https://...") from None
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and local)) or "@" in parts.netloc:
        raise ValueError(f"{url!r} is not safe; accepted: https://..., or http://... on this machine")
    return url


def _origin(url: str) -> str:
    """Check the URL of the service, which has no path."""
    parts = urlsplit(_safe_url(url))
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError(f"{url!r} has a path; accepted: https://HOST or https://HOST:PORT")
    return f"{parts.scheme}://{parts.netloc.lower()}"


Host = Annotated[str, AfterValidator(_host)]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(ge=1024)]
Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network)]
HeaderName = Annotated[str, AfterValidator(_header)]
# Headers that the service, browsers or HTTP itself use.
_RESERVED_HEADERS = frozenset(
    {
        *("accept", "authorization", "connection", "content-length", "content-type", "cookie", "expect", "host"),
        *("idempotency-key", "last-event-id", "ocelad-person", "ocelad-proxy-secret", "origin", "referer"),
        *("sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site", "transfer-encoding", "upgrade", "user-agent"),
    }
)


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

    model_config = SettingsConfigDict(env_prefix=_PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    folder: Annotated[Path, AfterValidator(Path.expanduser)] = Path("ocelad-data")
    #: postgresql://user:password@host/name; None: SQLite in the folder. Secret: it may contain a password.
    database: SecretStr | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    #: Further host names of the service, such as that of a reverse proxy; comma-separated in the environment.
    allow_hosts: Annotated[tuple[Host, ...], NoDecode, BeforeValidator(_separate)] = ()
    #: Require a token on loopback, too; beyond loopback it is always required.
    require_token: bool = False

    #: Login by a header that a reverse proxy sets, such as X-Forwarded-User; None: off.
    login_header: HeaderName | None = None
    #: The header with the groups of the person, comma-separated.
    login_groups_header: HeaderName | None = None
    #: The addresses of the proxy; a request from elsewhere may not have the header.
    trust_proxy: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_separate)] = ()
    #: What the proxy sends as Ocelad-Proxy-Secret; a request without it may not have the header.
    proxy_secret: Annotated[SecretStr, Field(min_length=16)] | None = None
    #: What everybody who logs in may do on all projects.
    login_permission: Literal["none", "read", "answer", "review", "admin"] = "answer"
    #: The names of people with the permission "admin" on all projects.
    admins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_separate)] = ()
    #: GROUP=PERMISSION or GROUP=PERMISSION:PROJECT for the members of groups.
    login_groups: Annotated[
        tuple[Annotated[str, AfterValidator(_group_rule)], ...], NoDecode, BeforeValidator(_separate)
    ] = ()
    #: The URL of the service for people; None: its address on this machine.
    public_url: Annotated[str, AfterValidator(_origin)] | None = None
    #: Login by OpenID Connect: the URL of the provider; None: off.
    oidc_issuer: Annotated[str, AfterValidator(_safe_url)] | None = None
    oidc_client_id: Annotated[str, Field(min_length=1)] | None = None
    oidc_client_secret: Annotated[SecretStr, Field(min_length=1)] | None = None
    oidc_scope: Annotated[str, Field(pattern=r"^openid( [!#-\[\]-~]+)*$")] = "openid email profile"
    #: The claims with the name and the groups of the person.
    oidc_claim: Annotated[str, Field(min_length=1)] = "email"
    oidc_groups_claim: Annotated[str, Field(min_length=1)] = "groups"
    #: Hours after which a login must be repeated.
    session_hours: Annotated[float, Field(gt=0, le=24 * 366)] = 12.0

    #: The share of pairs that are drawn at random; None: 0.12 in a project with groups, 0.2 in one without.
    random_share: Annotated[Annotated[float, Field(ge=0, le=1)] | None, BeforeValidator(_none)] = None

    #: The projects in memory: their largest number and size, by an estimate. Others are loaded when they are asked for.
    max_loaded_projects: Annotated[int, Field(ge=1)] = 128
    max_loaded_bytes: Bytes = 512 * MEBIBYTE
    #: The number of threads in which all projects learn.
    learner_threads: Annotated[int, Field(ge=1, le=64)] = 2
    #: Networks that webhooks may be sent to although they are not public; comma-separated in the environment.
    webhook_networks: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_separate)] = ()

    max_body: Bytes = 4 * MEBIBYTE
    max_items_body: Bytes = 32 * MEBIBYTE
    max_upload: Bytes = 256 * MEBIBYTE
    #: The largest file of answers, and how many are imported at a time.
    max_import: Bytes = 64 * MEBIBYTE
    max_imports: Annotated[int, Field(ge=1)] = 2
    max_streams: Annotated[int, Field(ge=1)] = 256
    #: Uploads of items, and exports, at a time. Each upload is in memory until its items are stored.
    max_uploads: Annotated[int, Field(ge=1)] = 4
    max_exports: Annotated[int, Field(ge=1)] = 8
    #: Requests per second of one token, or of one address without a token; None: no limit.
    rate: Annotated[Annotated[float, Field(gt=0)] | None, BeforeValidator(_none)] = 200.0
    #: Seconds for the headers and the body to arrive, and for the response to begin.
    header_timeout: Annotated[float, Field(gt=0)] = 10.0
    body_timeout: Annotated[float, Field(gt=0)] = 60.0
    request_timeout: Annotated[float, Field(gt=0)] = 60.0
    #: Seconds that running requests have to finish when the service stops.
    stop_timeout: Annotated[int, Field(ge=1)] = 10

    @model_validator(mode="after")
    def _check_logins(self) -> Self:
        if self.login_header is not None and not self.trust_proxy and self.proxy_secret is None:
            raise ValueError(
                "login_header needs trust_proxy (--trust-proxy ADDRESS) or proxy_secret (OCELAD_SERVE_PROXY_SECRET): "
                "otherwise anybody could send the header"
            )
        if self.login_header is None and (self.login_groups_header or self.trust_proxy or self.proxy_secret):
            raise ValueError("login_groups_header, trust_proxy and proxy_secret need login_header (--login-header)")
        if (self.oidc_issuer is None) != (self.oidc_client_id is None):
            raise ValueError("oidc_issuer and oidc_client_id are needed together (--oidc-issuer, --oidc-client-id)")
        if self.oidc_issuer is None and self.oidc_client_secret is not None:
            raise ValueError("oidc_client_secret needs oidc_issuer (--oidc-issuer)")
        return self

    @property
    def has_login(self) -> bool:
        """Whether people can log in, so that every request needs a login or a token."""
        return self.login_header is not None or self.oidc_issuer is not None

    @property
    def page_url(self) -> str:
        """The URL of the service for people."""
        return self.public_url or self.address

    @property
    def host_names(self) -> tuple[str, ...]:
        """The host names and addresses that requests may name."""
        public = () if self.public_url is None else (urlsplit(self.public_url).hostname or "",)
        return (self.host, *self.allow_hosts, *public)

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
