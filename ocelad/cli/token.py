"""ocelad token: create, list and revoke the access tokens of a service."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.options import Command, add_options, data_folder_option, json_option
from ocelad.cli.output import make_table, print_json, print_tables

if TYPE_CHECKING:
    from ocelad.service.store import Tokens

PERMISSIONS = ("read", "answer", "admin")


def _database_options(command: Command) -> Command:
    """Add the options that say where the tokens are stored; as for ``ocelad serve``, also by environment variables."""
    return add_options(
        command,
        data_folder_option,
        click.option(
            "--database",
            metavar="URL",
            envvar="OCELAD_SERVE_DATABASE",
            help="The service's database, postgresql://user@host/name, if it is not SQLite in the data folder.",
        ),
    )


@click.group()
def token() -> None:
    """Create, list and revoke access tokens, which a service requires from clients on other machines.

    Tokens can be created and revoked while the service runs. The permission "answer" includes "read"; "admin"
    includes both, and also allows creating projects and adding items. Give every person a separate token: each answer
    is stored with the token's name, and each token can be revoked separately.

    \b
    Examples:
      ocelad token create anna --permission answer
      ocelad token create ben --project wines --permission admin --project digits --permission read
      ocelad token list
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
@_database_options
@json_option
def create(
    name: str,
    projects: tuple[str, ...],
    permissions: tuple[Any, ...],
    data_folder: Path,
    database: str | None,
    as_json: bool,
) -> None:
    """Create the token NAME and print its secret.

    The secret is shown only once: the service stores only its hash.

    \b
    Examples:
      ocelad token create anna --permission answer
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
        secret = tokens.create(name, granted)
    if as_json:
        print_json({"name": name, "permissions": granted, "secret": secret})
        return
    click.echo(secret)
    click.echo(
        "Store it now: it is not shown again. The page asks for it; programs send 'Authorization: Bearer ...'.",
        err=True,
    )


@token.command("list")
@_database_options
@json_option
def list_(data_folder: Path, database: str | None, as_json: bool) -> None:
    """List all tokens with their permissions, including revoked ones.

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
            [row.name, _format_permissions(row.permissions), _format_time(row.created_at), _format_time(row.revoked_at)]
            for row in rows
        ]
        print_tables(make_table("", ["name", "permissions", "created", "revoked"], cells, numbers=False))


@token.command()
@click.argument("name")
@_database_options
def revoke(name: str, data_folder: Path, database: str | None) -> None:
    """Revoke the token NAME; a running service rejects it within seconds.

    \b
    Example:
      ocelad token revoke anna
    """
    with _open_tokens(data_folder, database) as tokens:
        revoked = tokens.revoke(name)
    click.echo(f"The token {name!r} was revoked at {_format_time(revoked.revoked_at)}.")


def _open_tokens(data_folder: Path, database: str | None, *, create: bool = False) -> AbstractContextManager[Tokens]:
    from ocelad.service.store import open_tokens

    if not (create or database or data_folder.is_dir()):
        raise click.UsageError(f"there is no data folder {str(data_folder)!r}; choose another with --data-folder")
    return open_tokens(data_folder, database)


def _format_permissions(permissions: dict[str, Any]) -> str:
    return ", ".join(
        f"{permission} {'all' if project == '*' else project}" for project, permission in permissions.items()
    )


def _format_time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
