"""ocelad audit: list who did what to the projects and tokens of a service."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from ocelad.cli.options import database_options
from ocelad.cli.output import format_time, make_table, print_tables, to_json


@click.command(short_help="List who did what on a service.")
@click.option("--who", metavar="NAME", help="Only what this token or person did.")
@click.option("--action", metavar="NAME", help="Only actions of this name, such as project.delete.")
@click.option(
    "--project", "--target", "target", metavar="NAME", help="Only what was done to this project, token or person."
)
@click.option("--after", type=click.IntRange(0), default=0, help="Only entries after this number.")
@click.option("--limit", type=click.IntRange(1), help="At most this many entries.  [default: all]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line instead of a table.")
@database_options
def audit(
    who: str | None,
    action: str | None,
    target: str | None,
    after: int,
    limit: int | None,
    as_json: bool,
    data_folder: Path,
    database: str | None,
) -> None:
    """List who did what: projects, items, exports, imports, tokens, logins; the oldest first.

    Single answers are not listed: they are in the log of their project, with who gave them. The service may run
    meanwhile.

    \b
    Examples:
      ocelad audit --project wines
      ocelad audit --action login.refused --json
    """
    from ocelad.service.store import read_audit

    if not (database or data_folder.is_dir()):
        raise click.UsageError(f"there is no data folder {str(data_folder)!r}; choose another with --data-folder")
    rows: list[list[str]] = []
    for n, entry in enumerate(read_audit(data_folder, database, after, who=who, action=action, target=target)):
        if n == limit:
            break
        if as_json:
            click.echo(to_json(asdict(entry)))
        else:
            cells = [str(entry.number), format_time(entry.at), entry.who, entry.action, entry.target]
            rows.append([*cells, _describe(entry.detail)])
    if rows:
        columns = ["number", "when", "who", "action", "target", "detail"]
        print_tables(make_table("", columns, rows, numbers=False))
    elif not as_json:
        click.echo("There are no entries of this kind.")


def _describe(detail: dict[str, Any]) -> str:
    return ", ".join(
        f"{key}: {value if isinstance(value, str) else json.dumps(value)}" for key, value in detail.items()
    )
