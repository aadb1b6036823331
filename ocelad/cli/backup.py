"""ocelad backup, ocelad restore: all that a service keeps, in one file."""

from __future__ import annotations

from pathlib import Path

import click

from ocelad.cli.shared import data_folder


@click.command(short_help="Copy what a service keeps into one file, while it runs.")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@data_folder
def backup(target: Path, data_folder: Path) -> None:
    """Copy all that the service in a data folder keeps into the new file TARGET: projects, items, every answer, and
    tokens. It may run meanwhile; what it acknowledged before is in the copy, which is checked.

    For PostgreSQL use its own pg_dump.

    \b
    Examples:
      ocelad backup answers-$(date +%F).sqlite3
      ocelad backup --data-folder /var/lib/ocelad /mnt/backups/answers.sqlite3
    """
    from ocelad.service.store.backups import backup as copy

    copied = copy(data_folder, target)
    click.echo(f"Backup: {target} (projects: {copied.n_projects}, entries: {copied.n_entries})")


@click.command(short_help="Make a data folder from a backup.")
@click.argument("source", type=click.Path(dir_okay=False, path_type=Path))
@data_folder
def restore(source: Path, data_folder: Path) -> None:
    """Make a new data folder from SOURCE, which `ocelad backup` made. The folder must not be there, or be empty.

    \b
    Example:
      ocelad restore answers-2026-10-01.sqlite3 --data-folder restored
    """
    from ocelad.service.store.backups import restore as copy_back

    copied = copy_back(source, data_folder)
    click.echo(f"Restored: {data_folder} (projects: {copied.n_projects}, entries: {copied.n_entries})")
