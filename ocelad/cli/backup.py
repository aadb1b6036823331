"""ocelad backup, ocelad restore: copy the data of a service to one file, and back."""

from __future__ import annotations

from pathlib import Path

import click

from ocelad.cli.options import data_folder_option


@click.command(short_help="Copy the data of a service to one file, also while it runs.")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@data_folder_option
def backup(target: Path, data_folder: Path) -> None:
    """Copy all data of a service to the new file TARGET: projects, items, answers and tokens.

    The service may run meanwhile: the copy has every answer that was acknowledged before the backup began, and is
    verified. For PostgreSQL use pg_dump instead.

    \b
    Examples:
      ocelad backup answers-$(date +%F).sqlite3
      ocelad backup --data-folder /var/lib/ocelad /mnt/backups/answers.sqlite3
    """
    from ocelad.service.store.backups import backup as copy

    copied = copy(data_folder, target)
    click.echo(f"Backup: {target} (projects: {copied.n_projects}, entries: {copied.n_entries})")


@click.command(short_help="Create a data folder from a backup.")
@click.argument("source", type=click.Path(dir_okay=False, path_type=Path))
@data_folder_option
def restore(source: Path, data_folder: Path) -> None:
    """Create a data folder from SOURCE, a file that `ocelad backup` wrote. The folder must be new or empty.

    Tokens are as they were: one that was revoked or rotated after the backup is valid again, until you revoke or rotate
    it again. People must log in again.

    \b
    Example:
      ocelad restore answers-2026-10-01.sqlite3 --data-folder restored
    """
    from ocelad.service.store.backups import restore as copy_back

    copied = copy_back(source, data_folder)
    click.echo(f"Restored: {data_folder} (projects: {copied.n_projects}, entries: {copied.n_entries})")
    click.echo(
        "Tokens that were revoked or rotated after the backup are valid again: see `ocelad token list`.", err=True
    )
