"""ocelad token: create, list, rotate and revoke the access tokens of a service."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.durations import Duration, Moment
from ocelad.cli.options import Command, database_options, json_option
from ocelad.cli.output import format_time, make_table, print_json, print_tables

if TYPE_CHECKING:
    from ocelad.service.store import Tokens

PERMISSIONS = ("read", "answer", "review", "admin")
# Who acts, in the audit log.
BY = "command line"


def expires_option(default: str) -> Callable[[Command], Command]:
    """Return the option --expires, whose help names the default."""
    return click.option(
        "--expires",
        "expires_at",
        type=Moment(),
        metavar="TIME",
        help="When the token expires: after 30d or 12h, or at a date such as 2027-01-31 (00:00 UTC).  "
        f"[default: {default}]",
    )


@click.group(short_help="Create, list, rotate and revoke access tokens.")
def token() -> None:
    """Create, list, rotate and revoke access tokens, which a service requires from clients on other machines.

    Tokens can be created, rotated and revoked while the service runs. Each permission includes those before it:
    "read"; "answer"; "review", which also allows settling disagreements; "admin", which also allows creating, changing
    and deleting projects. Give every person a separate token: each answer is stored with the token's name, and each
    token can be revoked separately.

    \b
    Examples:
      ocelad token create anna --permission answer
      ocelad token create ben --project wines --permission admin --project digits --permission read
      ocelad token create robot --permission read --expires 30d
      ocelad token list
      ocelad token rotate anna --grace 1h
      ocelad token revoke anna
    """


@token.command()
@click.argument("name")
@click.option(
    "--project",
    "projects",
    multiple=True,
    metavar="NAME",
    help="The project that the token is valid for. Repeatable; all projects by default.",
)
@click.option(
    "--permission",
    "permissions",
    multiple=True,
    type=click.Choice(PERMISSIONS),
    help="What the token permits: given once for all named projects, or once for each.  [default: answer]",
)
@expires_option("never")
@database_options
@json_option
def create(
    name: str,
    projects: tuple[str, ...],
    permissions: tuple[Any, ...],
    expires_at: int | None,
    data_folder: Path,
    database: str | None,
    as_json: bool,
) -> None:
    """Create the token NAME and print its secret.

    The secret is shown only once: the service stores only its hash.

    \b
    Examples:
      ocelad token create anna --permission answer --expires 30d
      ocelad token create ben --project wines --permission admin --project digits --permission read
    """
    projects, permissions = projects or ("*",), permissions or ("answer",)
    if len(set(projects)) < len(projects):
        raise click.UsageError("a project is named twice; name each once, with the higher permission")
    if len(permissions) not in (1, len(projects)):
        raise click.UsageError(
            f"{len(projects)} projects and {len(permissions)} permissions; give one permission for all, or one for each"
        )
    granted = dict(zip(projects, permissions * len(projects) if len(permissions) == 1 else permissions, strict=True))
    with _open_tokens(data_folder, database, create=True) as tokens:
        secret = tokens.create(name, granted, expires_at)
    if as_json:
        print_json({"name": name, "permissions": granted, "expires_at": expires_at, "secret": secret})
        return
    click.echo(secret)
    until = "" if expires_at is None else f" It expires at {format_time(expires_at)}."
    click.echo(
        "Store it now: it is not shown again. The page asks for it; programs send 'Authorization: Bearer ...'." + until,
        err=True,
    )


@token.command("list")
@database_options
@json_option
def list_(data_folder: Path, database: str | None, as_json: bool) -> None:
    """List all tokens with their permissions, including revoked and expired ones.

    \b
    Example:
      ocelad token list
    """
    with _open_tokens(data_folder, database) as tokens:
        rows = tokens.all()
    if as_json:
        print_json({"tokens": [asdict(row) for row in rows]})
    elif not rows:
        click.echo("There are no tokens; `ocelad token create NAME` creates one.")
    else:
        cells = [
            [
                row.name,
                _format_permissions(row.permissions),
                format_time(row.created_at),
                _format_expiry(row.expires_at),
                format_time(row.revoked_at),
            ]
            for row in rows
        ]
        print_tables(make_table("", ["name", "permissions", "created", "expires", "revoked"], cells, numbers=False))


@token.command()
@click.argument("name")
@click.option(
    "--grace",
    type=Duration(),
    metavar="TIME",
    default="0",
    show_default=True,
    help="How long the old secret remains valid, such as 30m, 1h or 7d.",
)
@expires_option("as before")
@database_options
@json_option
def rotate(
    name: str, grace: int, expires_at: int | None, data_folder: Path, database: str | None, as_json: bool
) -> None:
    """Give the token NAME a new secret and print it; its permissions stay.

    The old secret remains valid during the grace period, so that programs can change to the new one; without one, a
    running service rejects it within seconds. A secret before the old one is rejected in any case. --expires sets a new
    time; without it, the time stays.

    \b
    Examples:
      ocelad token rotate anna
      ocelad token rotate robot --grace 1h --expires 30d
    """
    with _open_tokens(data_folder, database) as tokens:
        secret = tokens.rotate(name, grace, expires_at)
    if as_json:
        print_json({"name": name, "secret": secret, "grace_ms": grace})
        return
    click.echo(secret)
    old = "The old secret is no longer valid." if grace == 0 else f"The old one is valid until {_from_now(grace)}."
    click.echo(f"Store it now: it is not shown again. {old}", err=True)


@token.command()
@click.argument("name")
@database_options
def revoke(name: str, data_folder: Path, database: str | None) -> None:
    """Revoke the token NAME; a running service rejects it within seconds.

    \b
    Example:
      ocelad token revoke anna
    """
    with _open_tokens(data_folder, database) as tokens:
        revoked = tokens.revoke(name)
    click.echo(f"The token {name!r} was revoked at {format_time(revoked.revoked_at)}.")


def _open_tokens(data_folder: Path, database: str | None, *, create: bool = False) -> AbstractContextManager[Tokens]:
    from ocelad.service.store import open_tokens

    if not (create or database or data_folder.is_dir()):
        raise click.UsageError(f"there is no data folder {str(data_folder)!r}; choose another with --data-folder")
    return open_tokens(data_folder, database, BY)


def _format_permissions(permissions: dict[str, Any]) -> str:
    return ", ".join(
        f"{permission} {'all' if project == '*' else project}" for project, permission in permissions.items()
    )


def _format_expiry(expires_at: int | None) -> str:
    expired = expires_at is not None and expires_at <= time() * 1000
    return format_time(expires_at) + (" (expired)" if expired else "")


def _from_now(milliseconds: int) -> str:
    return format_time(int(time() * 1000) + milliseconds)
