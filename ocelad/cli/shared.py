"""What several commands share: options, pictures, output for people and for machines."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ocelad.io import ComparisonStream
    from ocelad.io.tabular.chunks import FileStream

PICTURES = (".png", ".pdf", ".svg")
#: Exit codes beside 0 (done), 1 (failed) and 2 (wrong usage).
ROWS_SKIPPED, INTERRUPTED = 3, 130

Command = Callable[..., None]

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")
saved_tracker = click.argument("tracker", type=click.Path(dir_okay=False, path_type=Path))
data_folder = click.option(
    "--data-folder",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="OCELAD_SERVE_FOLDER",
    default=Path("ocelad-data"),
    show_default=True,
    help="As of ocelad serve.",
)
more_settings = click.option(
    "--set",
    "more",
    multiple=True,
    metavar="NAME=VALUE",
    help="Any other setting of MetricTracker, such as max_rank=20; may be given again.",
)


def reading_pairs(command: Command) -> Command:
    """The options that say how comparisons are read."""
    for option in reversed(
        (
            click.option(
                "--items",
                metavar="FILE",
                help="A table of items with an id column; the comparisons then name ids (id_a, id_b).",
            ),
            click.option(
                "--features",
                metavar="COLUMNS",
                help="The items' features: names or patterns with commas between; all columns but the id by default.",
            ),
            click.option("--x", metavar="COLUMNS", help="Columns of the first point, such as 'left_*'."),
            click.option("--z", metavar="COLUMNS", help="Columns of the second point."),
            click.option("--label", metavar="COLUMN", help="The column that says same or different."),
            click.option("--id", "id_", default="id", show_default=True, help="The id column of the items."),
            click.option("--id-a", default="id_a", show_default=True, help="The id column of the first point."),
            click.option("--id-b", default="id_b", show_default=True, help="The id column of the second point."),
            click.option("--time", metavar="COLUMN", help="The column of timestamps; found by itself by default."),
            file_format,
        )
    ):
        command = option(command)
    return command


file_format = click.option(
    "--format",
    "format_",
    type=click.Choice(["csv", "tsv", "jsonl", "parquet", "arrow"]),
    help="What the file is; known by its name or first bytes by default.",
)


def with_more_settings(settings: Mapping[str, Any], more: Iterable[str]) -> dict[str, Any]:
    """Settings of a tracker, and those of ``more_settings``; values are JSON, and anything else is a text.

    >>> with_more_settings({"loss": "hinge"}, ["max_rank=20", "engine=lowrank"])
    {'loss': 'hinge', 'max_rank': 20, 'engine': 'lowrank'}
    """
    from ocelad.estimators import MetricTracker

    accepted = sorted(set(MetricTracker().get_params()) - {"preprocessor"})
    settings = dict(settings)
    for entry in more:
        name, equals, value = entry.partition("=")
        if not equals or name not in accepted:
            raise click.BadParameter(
                f"{entry!r} is not NAME=VALUE with one of {', '.join(accepted)}", param_hint="--set"
            )
        if name in settings:
            raise click.BadParameter(f"{name} is given twice", param_hint="--set")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def skipping(command: Command) -> Command:
    """The options that say what becomes of bad rows."""
    for option in (
        click.option(
            "--skipped",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Where skipped rows go; FILE with .skipped.jsonl, and the command's name, by default.",
        ),
        click.option(
            "--on-error",
            type=click.Choice(["stop", "skip"]),
            default="stop",
            show_default=True,
            help="What a bad row does: stop, or be written to a side file.",
        ),
    ):
        command = option(command)
    return command


def side_file(file: str, options: dict[str, Any]) -> Path | None:
    """Where skipped rows go: of every command to a file of its own, so that none takes away another's."""
    command = click.get_current_context().info_name
    if options["skipped"] or file == "-" or command == "track":
        given: Path | None = options["skipped"]
        return given
    return Path(f"{file}.{command}.skipped.jsonl")


def opened_pairs(
    file: str, options: dict[str, Any], features: Sequence[str] | None = None, **more: Any
) -> ComparisonStream:
    """The comparisons of a file, by the options of ``reading_pairs`` and ``skipping``; of items with these features."""
    from ocelad.io import open_comparisons, open_items

    names = ("label", "id_a", "id_b", "time", "on_error")
    arguments = {name: options[name] for name in names} | {"format": options["format_"]}
    arguments |= {"x": listed(options["x"]), "z": listed(options["z"])}
    arguments |= {"skipped": side_file(file, options), **more}
    if not options["items"]:
        return open_comparisons(file, **arguments)
    # They are read into memory while the comparisons are opened.
    chosen = listed(options["features"]) or features
    with open_items(options["items"], id=options["id_"], features=chosen, label=options.get("class_")) as items:
        return open_comparisons(file, items=items, **arguments)


def tell_of_skipped(stream: FileStream[Any]) -> None:
    """Say on standard error how many rows were skipped, if any, and where they are."""
    if stream.n_skipped:
        where = "" if stream.skipped is None else f"; they are in {stream.skipped}"
        rows = "1 row was" if stream.n_skipped == 1 else f"{stream.n_skipped:,} rows were"
        click.echo(f"{rows} skipped{where}.", err=True)


def listed(columns: str | None) -> list[str] | str | None:
    """Columns as the reader takes them: names with commas between (in quotes where they have some), or one pattern."""
    if columns is None or "," not in columns:
        return columns
    return [name.strip() for name in next(csv.reader([columns]))]


def check_picture(path: Path, *inputs: str | Path | None, option: str = "--output") -> None:
    """Refuse before the work what would fail after it."""
    if path.suffix.lower() not in PICTURES:
        raise click.BadParameter(
            f"{str(path)!r} does not end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}", param_hint=option
        )
    check_output(path, *inputs, option=option)


def check_output(output: Path, *inputs: str | Path | None, option: str = "--output") -> None:
    """The same for a file, which must not be one of those that are read."""
    check_folder(output, option=option)
    for other in inputs:
        if other and output.exists() and Path(other).exists() and output.samefile(other):
            raise click.BadParameter(f"{str(output)!r} is a file that is read; name another", param_hint=option)


def check_folder(path: Path, *, option: str = "--output") -> None:
    """The same for any file that will be written."""
    if not path.parent.is_dir():
        raise click.BadParameter(f"the folder {str(path.parent)!r} does not exist", param_hint=option)
    if not os.access(path.parent, os.W_OK):
        raise click.BadParameter(f"the folder {str(path.parent)!r} cannot be written to", param_hint=option)


def why_no_picture() -> str | None:
    """Why no picture can be drawn here, if so."""
    from ocelad.evaluation.plots import pyplot

    try:
        pyplot().switch_backend("agg")  # a file, on machines without a screen too
    except ImportError as error:
        return str(error)
    return None


def print_json(content: dict[str, Any]) -> None:
    """Onto standard output, on one line."""
    click.echo(json_line(content))


def json_line(content: dict[str, Any]) -> str:
    """One line; numbers that JSON has no word for become null."""
    return json.dumps(_plain(content), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    number = float(value)
    return number if number - number == 0.0 else None


def table(title: str, columns: list[str], rows: list[list[str]], *, numbers: bool = True) -> Any:
    """A table of text; numbers, which have a heading, to the right, unless all is words."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    result = Table(title=title, box=SIMPLE_HEAD, title_justify="left")
    for at, column in enumerate(columns):
        result.add_column(column, justify="right" if at > 0 and column and numbers else "left")
    for row in rows:
        result.add_row(*row)
    return result


def print_tables(*tables: Any, width: int = 100) -> None:
    """Onto standard output; without colours, and so many characters wide, where that is no terminal."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else width)
    for each in tables:
        console.print(each)


def by_options(sentence: str) -> str:
    """The sentence with options in the place of a function's arguments.

    >>> by_options("it has no column 'y'; say which with label=, or so with format='csv'")
    "it has no column 'y'; say which with --label, or so with --format csv"
    >>> by_options("what is named in fields= is not learned from")
    'what is named in --field is not learned from'
    """
    sentence = sentence.replace(", or label=False for none", "")  # which no option says
    names = "features|fields|format|id_a|id_b|id|items|label|method|skipped|text|time|x|z"
    options = re.sub(rf"\b({names})=(?=[\s,;.]|$)", lambda match: _option(match[1]), sentence)
    return re.sub(rf"\b({names})='(\w+)'", lambda match: f"{_option(match[1])} {match[2]}", options)


def _option(name: str) -> str:
    return "--field" if name == "fields" else f"--{name.replace('_', '-')}"
