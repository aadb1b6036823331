"""ocelad export-answers: write the answers of a project to a file, also for dedupe, Splink and Zingg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ocelad.cli.import_answers import FORMATS
from ocelad.cli.output import check_output
from ocelad.cli.service_options import open_local, open_remote, service_options

_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}


@click.command("export-answers", short_help="Write the answers of a project to a file.")
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
@service_options
@click.option("--format", "format_", type=click.Choice(FORMATS), help="By default that of the suffix of TARGET.")
def export_answers(target: Path, format_: str | None, **options: Any) -> None:
    """Write the answers "same" and "different" that are not undone to the file TARGET, in order.

    \b
    csv, jsonl, parquet   a table with the columns id_a, id_b and similar, for `ocelad track`
    dedupe                a training file for dedupe's prepare_training (JSON)
    splink                labelled pairs: unique_id_l, unique_id_r, clerical_match_score (CSV)
    zingg                 training samples: z_cluster, z_isMatch, and the records (CSV)

    `ocelad import` reads all of them.

    \b
    Examples:
      ocelad export-answers answers.csv --project wines --url http://127.0.0.1:8765
      ocelad export-answers training.json --format dedupe --project wines --data-folder ocelad-data
    """
    format = format_ or _SUFFIXES.get(target.suffix.lower())
    if format is None:
        accepted = ", ".join(_SUFFIXES)
        raise click.UsageError(f"{str(target)!r} does not end in {accepted}; name the format with --format")
    if format not in ("dedupe", "splink", "zingg") and _SUFFIXES.get(target.suffix.lower()) != format:
        raise click.UsageError(f"{str(target)!r} does not end in .{format}; rename it, or leave --format out")
    check_output(target, option="TARGET")
    if options["url"] is not None:
        with open_remote(options) as project:
            project.export(target, "comparisons", format)  # type: ignore[arg-type]
    else:
        from ocelad.service.answer_export import write_answers

        with open_local(options) as store:
            write_answers(store, options["project"], target, format)  # type: ignore[arg-type]
    click.echo(f"{target}: the answers of {options['project']}, for {format}.")
