"""ocelad verify: check that nobody has changed the logs of a service behind its back."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ocelad.cli.options import database_options
from ocelad.cli.output import to_json


@click.command(short_help="Check that the answers in a database are those that were stored.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per project instead of sentences.")
@database_options
def verify(as_json: bool, data_folder: Path, database: str | None) -> None:
    """Read the log of every project and check its chain of digests.

    Each entry has a digest of all entries before it. An entry that was changed, removed or inserted in the database
    does not fit. Erased answers have lost their content but not their digest, so that the chain holds. The service may
    run meanwhile. The exit code is 1 if a log does not hold.

    \b
    Examples:
      ocelad verify
      ocelad verify --data-folder /var/lib/ocelad --json
    """
    from ocelad.service.store.log_check import verify_logs

    if not (database or data_folder.is_dir()):
        raise click.UsageError(f"there is no data folder {str(data_folder)!r}; choose another with --data-folder")
    all_hold = True
    for project, check in verify_logs(data_folder, database):
        holds = check.broken_at is None
        all_hold &= holds
        if as_json:
            fields = {"entries": check.n_entries, "erased": check.n_erased, "broken_at": check.broken_at}
            click.echo(to_json({"project": project, "holds": holds, **fields, "reason": check.reason or None}))
        elif holds:
            click.echo(f"{project}: all {check.n_entries:,} entries hold ({check.n_erased:,} erased).")
        else:
            click.echo(f"{project}: entry {check.broken_at:,} does not hold: {check.reason}.")
    if not all_hold:
        sys.exit(1)
