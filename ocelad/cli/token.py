"""``ocelad token``: who may read, answer and administer, by tokens."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.shared import Command, as_json, data_folder, print_json, print_tables, table

if TYPE_CHECKING:
    from ocelad.service.store import Tokens

RIGHTS = ("read", "answer", "admin")


def _where(command: Command) -> Command:
    """The options that say whose tokens they are: as of ``ocelad serve``, from the environment, too."""
    for option in (
        click.option(
            "--database",
            metavar="URL",
            envvar="OCELAD_SERVE_DATABASE",
            help="As of ocelad serve: postgresql://user@host/name in the place of SQLite in the data folder.",
        ),
        data_folder,
    ):
        command = option(command)
    return command


@click.group()
def token() -> None:
    """Make, list and revoke tokens: what a service asks for beyond its own machine.

    They can be made and revoked while the service runs. Who may answer may read, and an admin may do both, make
    projects and add items. Give everybody a token of their own: each answer is kept with its name, and one can be
    revoked alone.

    \b
    Examples:
      ocelad token create anna --right answer
      ocelad token create ben --project wines --right admin --project digits --right read
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
    help="What the token is for; give it once more, each with a right, for more. All projects by default.",
)
@click.option(
    "--right",
    "rights",
    multiple=True,
    type=click.Choice(RIGHTS),
    help="What it allows: one for all that is named, or one for each.  [default: answer]",
)
@_where
@as_json
def create(
    name: str,
    projects: tuple[str, ...],
    rights: tuple[Any, ...],
    data_folder: Path,
    database: str | None,
    as_json: bool,
) -> None:
    """Make a token, and print its secret this once: only a hash of it is kept."""
    projects, rights = projects or ("*",), rights or ("answer",)
    if len(set(projects)) < len(projects):
        raise click.UsageError("a project is named twice; name each once, with the greater right")
    if len(rights) not in (1, len(projects)):
        raise click.UsageError(
            f"{len(projects)} projects and {len(rights)} rights; give one right for all, or one for each"
        )
    granted = dict(zip(projects, rights * len(projects) if len(rights) == 1 else rights, strict=True))
    with _tokens(data_folder, database, may_be_new=True) as tokens:
        secret = tokens.create(name, granted)
    if as_json:
        print_json({"name": name, "rights": granted, "secret": secret})
        return
    click.echo(secret)
    click.echo(
        "Keep it: it is not shown again. The page asks for it; programs send it as 'Authorization: Bearer ...'.",
        err=True,
    )


@token.command("list")
@_where
@as_json
def list_(data_folder: Path, database: str | None, as_json: bool) -> None:
    """List all tokens that ever were, and what each allows."""
    with _tokens(data_folder, database) as tokens:
        rows = tokens.all()
    if as_json:
        print_json({"tokens": [asdict(row) for row in rows]})
    elif not rows:
        click.echo("There are no tokens; `ocelad token create NAME` makes one.")
    else:
        shown = [[row.name, _shown(row.rights), _time(row.created_at), _time(row.revoked_at)] for row in rows]
        print_tables(table("", ["name", "may", "made", "revoked"], shown, numbers=False))


@token.command()
@click.argument("name")
@_where
def revoke(name: str, data_folder: Path, database: str | None) -> None:
    """Let a token open nothing any more; a running service notices within seconds."""
    with _tokens(data_folder, database) as tokens:
        revoked = tokens.revoke(name)
    click.echo(f"The token {name!r} is revoked since {_time(revoked.revoked_at)}.")


def _tokens(data_folder: Path, database: str | None, *, may_be_new: bool = False) -> AbstractContextManager[Tokens]:
    from ocelad.service.store import open_tokens

    if not (may_be_new or database or data_folder.is_dir()):
        raise click.UsageError(f"there is no data folder {str(data_folder)!r}; --data-folder says another")
    return open_tokens(data_folder, database)


def _shown(rights: dict[str, Any]) -> str:
    return ", ".join(f"{right} {'all' if project == '*' else project}" for project, right in rights.items())


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
