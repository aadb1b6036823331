"""ocelad session: list and end the sessions of people who have logged in."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ocelad.cli.options import database_options, json_option
from ocelad.cli.output import format_time, make_table, print_json, print_tables
from ocelad.cli.token import BY

if TYPE_CHECKING:
    from ocelad.service.store import Sessions


@click.group(short_help="List and end the sessions of logged-in people.")
def session() -> None:
    """List and end the sessions of people who have logged in with OpenID Connect.

    A session lasts until it expires or the person logs out, also if the person loses the account at the provider
    meanwhile. End it here; a running service rejects it within seconds.

    \b
    Examples:
      ocelad session list
      ocelad session end anna@example.org
      ocelad session end --all
    """


@session.command("list")
@database_options
@json_option
def list_(data_folder: Path, database: str | None, as_json: bool) -> None:
    """List the sessions that have not expired.

    \b
    Example:
      ocelad session list
    """
    with _open_sessions(data_folder, database) as sessions:
        rows = sessions.all()
    if as_json:
        print_json({"sessions": [asdict(row) for row in rows]})
    elif not rows:
        click.echo("Nobody is logged in.")
    else:
        cells = [
            [row.who, ", ".join(row.groups), format_time(row.created_at), format_time(row.expires_at)] for row in rows
        ]
        print_tables(make_table("", ["who", "groups", "logged in", "expires"], cells, numbers=False))


@session.command()
@click.argument("name", required=False)
@click.option("--all", "everybody", is_flag=True, help="End the sessions of everybody.")
@database_options
def end(name: str | None, everybody: bool, data_folder: Path, database: str | None) -> None:
    """End all sessions of the person NAME, or of everybody.

    \b
    Examples:
      ocelad session end anna@example.org
      ocelad session end --all
    """
    if (name is None) != everybody:
        raise click.UsageError("give the NAME of a person or --all, and not both")
    with _open_sessions(data_folder, database) as sessions:
        n_ended = sessions.end_all(name)
    click.echo(f"Sessions ended: {n_ended}.")


def _open_sessions(data_folder: Path, database: str | None) -> AbstractContextManager[Sessions]:
    from ocelad.service.store import open_sessions

    if not (database or data_folder.is_dir()):
        raise click.UsageError(f"there is no data folder {str(data_folder)!r}; choose another with --data-folder")
    return open_sessions(data_folder, database, BY)
