"""Options that several commands share, and the parsing of ``--set``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import click

from ocelad.cli.completion_words import SETTINGS, Words
from ocelad.cli.file_kind import check_tracker

Command: TypeAlias = Callable[..., None]

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")


def _check_tracker(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    with context.scope(cleanup=False):
        return None if path is None else check_tracker(path)


tracker_argument = click.argument("tracker", type=click.Path(path_type=Path), callback=_check_tracker)
from_option = click.option(
    "--from",
    "from_",
    metavar="TRACKER",
    type=click.Path(path_type=Path),
    callback=_check_tracker,
    help="Start with this saved tracker, which was trained on another file.",
)
data_folder_option = click.option(
    "--data-folder",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="OCELAD_SERVE_FOLDER",
    default=Path("ocelad-data"),
    show_default=True,
    help="The data folder of the service.",
)
database_option = click.option(
    "--database",
    metavar="URL",
    envvar="OCELAD_SERVE_DATABASE",
    help="The service's database, postgresql://user@host/name, if it is not SQLite in the data folder.",
)
setting_option = click.option(
    "--set",
    "more",
    multiple=True,
    type=Words(tuple(f"{name}=" for name in ("method", *SETTINGS))),
    metavar="NAME=VALUE",
    help="The method, or any setting of Rice, such as max_rank=20. Repeatable.",
)
format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(["csv", "tsv", "jsonl", "parquet", "arrow", "npy", "npz"]),
    help="The file's format; by default found from its name or its first bytes.",
)
exclude_option = click.option(
    "--exclude",
    multiple=True,
    metavar="COLUMN",
    help="A column of the items that is not a feature, or a pattern such as 'note_*'. Repeatable.",
)
missing_option = click.option(
    "--missing",
    type=click.Choice(["stop", "median"]),
    default="stop",
    show_default=True,
    help="At a missing number of an item, such as an empty cell: stop, or fill in the median of its column.",
)


def add_options(command: Command, *options: Callable[[Command], Command]) -> Command:
    """Add options to a command; ``--help`` lists them in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def database_options(command: Command) -> Command:
    """Add the options that say where a service stores its data; as for ``ocelad serve``, also by the environment."""
    return add_options(command, data_folder_option, database_option)


def parse_settings(settings: Mapping[str, Any], more: Iterable[str], *names: str) -> dict[str, Any]:
    """Add the values of ``--set`` to the settings of a tracker; a value that is not JSON is a string.

    ``names`` are accepted beside the method and the settings of Rice.

    >>> parse_settings({"loss": "hinge"}, ["max_rank=20", "engine=lowrank"])
    {'loss': 'hinge', 'max_rank': 20, 'engine': 'lowrank'}
    """
    from ocelad.engines.rice_settings import RICE_SETTINGS

    accepted = sorted({"method", *RICE_SETTINGS, *names})
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


def name_options(message: str) -> str:
    """Replace the names of function arguments in an error message by those of the options.

    >>> name_options("it has no column 'y'; name it with label=, or the format with format='csv'")
    "it has no column 'y'; name it with --label, or the format with --format csv"
    >>> name_options("it has no column of labels; name it with label=, or pass label=False for none")
    'it has no column of labels; name it with --label'
    >>> name_options("accepted: every=37 or less")
    'accepted: --every 37 or less'
    >>> name_options("the columns of fields= are shown only")
    'the columns of --field are shown only'
    """
    message = re.sub(r",? or [^,;]*\b\w+=False[^,;]*", "", message)  # no option means label=False
    message = re.sub(r"\bevery=(\d+)", r"--every \1", message)
    names = (
        "exclude|features|fields|form|format|id_a|id_b|id|items|key|label|method|missing|skipped|text|time|weight|x|z"
    )
    message = re.sub(rf"\b({names})=(?=[\s,;.)]|$)", lambda match: _option_name(match[1]), message)
    return re.sub(rf"\b({names})='(\w+)'", lambda match: f"{_option_name(match[1])} {match[2]}", message)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn each ValueError, whose message is written for users, into a usage error."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(name_options(str(error))) from error


def _option_name(argument: str) -> str:
    return "--field" if argument == "fields" else f"--{argument.replace('_', '-')}"


def theme_option(command: Any) -> Any:
    """Add ``--theme``, the colours of the pictures that a command draws."""
    return click.option(
        "--theme",
        type=click.Choice(["light", "dark"]),
        default="light",
        show_default=True,
        callback=_use_theme,
        expose_value=False,
        help="Colours of the picture, for a light or a dark page.",
    )(command)


def _use_theme(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Draw in a theme until the command ends."""
    from ocelad.evaluation.picture_style import picture_theme

    context.with_resource(picture_theme(value))
