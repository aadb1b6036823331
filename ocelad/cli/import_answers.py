"""ocelad import: add answers from a file to a project of a service."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.exit_codes import INTERRUPTED, ROWS_SKIPPED
from ocelad.cli.file_kind import check_table
from ocelad.cli.options import json_option
from ocelad.cli.output import print_json
from ocelad.cli.progress import show_steps
from ocelad.cli.service_options import open_local, open_remote, service_options

if TYPE_CHECKING:
    from ocelad.client import Project
    from ocelad.service.wire import ImportResult

FORMATS = ("csv", "jsonl", "parquet", "dedupe", "splink", "zingg")
# Seconds between two looks at the progress of a service.
_POLL = 0.3


@click.command("import", short_help="Add answers from a file to a project.")
@click.argument("file", type=click.Path(path_type=Path))
@service_options
@click.option("--format", "format_", type=click.Choice(FORMATS), help="By default found from the file's content.")
@click.option("--id-column", metavar="COLUMN", help="The column of ids in records of dedupe and Zingg.")
@click.option("--person", metavar="NAME", help="Who answered, where the file does not say it.")
@click.option("--skip-unknown", is_flag=True, help="Leave out answers about items that the project does not have.")
@click.option("--dry-run", is_flag=True, help="Check the file and store nothing.")
@json_option
def import_answers(file: Path, as_json: bool, **options: Any) -> None:
    """Add the answers in FILE to a project: over HTTP with --url, or directly in the data folder if no service runs.

    \b
    FILE is one of
      a table with the columns id_a, id_b, same and if you like person (CSV, TSV, JSON lines, Parquet);
        same is yes/no, true/false, 1/0, same/different or match/distinct, and empty for a skipped pair
      a training file of dedupe (JSON)
      labelled pairs of Splink: unique_id_l, unique_id_r, clerical_match_score
      labelled pairs of Zingg: z_cluster, z_isMatch, and the records

    All rows are checked before the first answer is stored. The same file is imported once: to continue after an
    interruption, run the same command again.

    \b
    Examples:
      ocelad import answers.csv --project wines --url http://127.0.0.1:8765
      ocelad import training.json --project wines --data-folder ocelad-data
      ocelad import labels.parquet --project wines --url https://labels.example.org --token-file token.txt --dry-run
    """
    if not file.exists():
        raise FileNotFoundError(f"there is no file {file}; accepted: a file of answers")
    check_table(str(file), "answers: a table with id_a, id_b and same, or pairs of dedupe, Splink or Zingg")
    try:
        result = _import_directly(file, options) if options["url"] is None else _import_remotely(file, options)
    except KeyboardInterrupt:
        click.echo("Interrupted. To continue, run the same command again: no answer is stored twice.", err=True)
        sys.exit(INTERRUPTED)
    if as_json:
        print_json(result)
    else:
        click.echo("\n".join(_describe(file, result)))
    if result["n_unknown"]:
        click.get_current_context().exit(ROWS_SKIPPED)


def _import_remotely(file: Path, options: dict[str, Any]) -> dict[str, Any]:
    with open_remote(options, options["person"]) as project:
        choices = {"format": options["format_"], **_pick(options, "id_column", "skip_unknown")}
        data = file.read_bytes()
        if options["dry_run"] or not _is_terminal():
            return project.import_answers(data, dry_run=options["dry_run"], **choices).model_dump()
        total = project.import_answers(data, dry_run=True, **choices).n_answers
        return _import_with_progress(project, data, total, choices).model_dump()


def _import_with_progress(project: Project, data: bytes, total: int, choices: dict[str, Any]) -> ImportResult:
    """Import while the growth of the log shows the progress; answers of other people may be among it."""
    before, shown = project.info().seq, 0
    with show_steps(total, "Importing") as advance, ThreadPoolExecutor(1) as executor:
        importing = executor.submit(project.import_answers, data, **choices)
        while not wait([importing], _POLL).done:
            done = min(project.info().seq - before, total)
            advance(max(0, done - shown))
            shown = max(shown, done)
        advance(total - shown)
        return importing.result()


def _import_directly(file: Path, options: dict[str, Any]) -> dict[str, Any]:
    from ocelad.service.answer_import import ImportOutcome, store_import
    from ocelad.service.labelled_pairs import KINDS, plan_import

    with open_local(options) as store:
        store.project(options["project"])
        items = store.items(options["project"])
        format = None if options["format_"] is None else KINDS[options["format_"]]
        choices = _pick(options, "id_column", "skip_unknown")
        plan = plan_import(file.read_bytes(), items, options["person"] or "", format=format, **choices)
        outcome = ImportOutcome(0, 0, None, None, [])
        if not options["dry_run"]:
            with show_steps(plan.n_answers, "Importing") as advance:
                outcome = store_import(store, options["project"], plan, advance)
        if outcome.n_imported:
            detail = {"digest": plan.digest, "format": plan.format, "n_imported": outcome.n_imported}
            store.add_audit(options["person"] or "", "answers.import", options["project"], detail).result()
    return {
        "format": plan.format,
        "dry_run": options["dry_run"],
        "digest": plan.digest,
        "n_answers": plan.n_answers,
        "n_imported": outcome.n_imported,
        "n_repeated": outcome.n_repeated,
        "n_left_out": plan.n_left_out,
        "n_unknown": plan.n_unknown,
        "unknown": [{"item": each.item, "where": each.where} for each in plan.unknown],
        "first": outcome.first,
        "last": outcome.last,
        "notes": [*plan.notes, *outcome.notes],
    }


def _is_terminal() -> bool:
    return sys.stderr.isatty()


def _pick(options: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: options[name] for name in names}


def _describe(file: Path, result: dict[str, Any]) -> list[str]:
    """Return what was imported, as sentences."""
    kind = "a table of pairs" if result["format"] == "pairs" else f"of {result['format'].capitalize()}"
    lines = [f"{file} ({kind}): {result['n_answers']:,} answers."]
    if result["dry_run"]:
        lines.append("Nothing was stored: this was a dry run.")
    else:
        lines.append(f"Imported: {result['n_imported']:,}; imported before: {result['n_repeated']:,}.")
    if result["n_unknown"]:
        listed = ", ".join(f"{each['item']} ({each['where']})" for each in result["unknown"])
        more = " ..." if result["n_unknown"] > len(result["unknown"]) else ""
        lines.append(f"Left out: answers about unknown items ({result['n_unknown']:,}): {listed}{more}.")
    return lines + list(result["notes"])
