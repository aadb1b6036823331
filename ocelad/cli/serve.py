"""``ocelad serve``: a page and an HTTP API where people and programs teach a distance."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.shared import INTERRUPTED, file_format, more_settings, with_more_settings

if TYPE_CHECKING:
    from ocelad.service.itemset import ItemSet
    from ocelad.service.service import Service
    from ocelad.service.settings import Settings

DEMOS = ("digits", "synthetic")
_SHOWN = {"features": "values", "text": "texts", "picture": "pictures"}
# So many columns are named.
_MOST_NAMES = 8


@click.command()
@click.argument("items", required=False, type=click.Path(path_type=Path))
@click.option(
    "--demo",
    type=click.Choice(DEMOS),
    is_flag=False,
    flag_value="digits",
    help="Serve a built-in set: pictures of digits, or points of the synthetic stream.",
)
@click.option("--project", metavar="NAME", help="The project's name; that of the file by default.")
@click.option("--title", help="What the page calls it.")
@click.option("--id", "id_", metavar="COLUMN", help="The column of ids; 'id' by default, if there is one.")
@click.option("--text", metavar="COLUMN", help="The column of texts to show; the longest by default.")
@click.option("--field", multiple=True, metavar="COLUMN", help="A column that is shown, and not learned on.")
@click.option("--features", metavar="COLUMNS", help="What is learned on: names or patterns, with commas between.")
@file_format
@more_settings
@click.option(
    "--data-folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where everything is kept.  [default: ocelad-data]",
)
@click.option(
    "--database", metavar="URL", help="postgresql://user@host/name in the place of SQLite in the data folder."
)
@click.option("--host", help="The address to listen at; beyond this machine a token is needed.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 takes a free one.  [default: 8765]")
@click.option("--allow-host", multiple=True, metavar="NAME", help="Another name that it is reached by, as by a proxy.")
@click.option("--require-token", is_flag=True, default=None, help="Ask for a token on this machine, too.")
@click.option("--random-share", type=click.FloatRange(0, 1), help="Share of pairs asked at random.  [default: 0.2]")
@click.option("--empty", is_flag=True, help="Start without a project, too: they are made over HTTP.")
@click.option("--workers", type=click.IntRange(1, 1), default=1, help="Processes; one writes, and one is enough.")
@click.option("--open", "open_", is_flag=True, help="Open the page in a browser.")
@click.option("--log-format", type=click.Choice(["console", "json"]), help="By default console on a terminal.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def serve(items: Path | None, **options: Any) -> None:
    """Serve a page where people answer "same" or "different", and an HTTP API for programs.

    ITEMS is a table with an item per row (CSV, TSV, JSON lines, Parquet, Arrow) or a folder of pictures. Its numbers
    are what is learned on; a file of texts alone is learned on by its words. The items and all answers are kept in
    the data folder: serve it again, with or without ITEMS, and everything is as it was.

    \b
    Examples:
      ocelad serve --demo
      ocelad serve reviews.csv --text review --open
      ocelad serve photos/ --project photos --port 9000
      ocelad serve                                    the projects that are in ./ocelad-data
      ocelad token create anna --right answer         then: ocelad serve --host 0.0.0.0

    Settings can come from the environment, too: OCELAD_SERVE_PORT, OCELAD_SERVE_DATABASE, ...
    """
    if items is not None and options["demo"] is not None:
        raise click.UsageError("give ITEMS or --demo, not both")
    name = _name(items, options)
    try:
        _serve(name, items, options)
    except KeyboardInterrupt:  # once it serves, it ends by itself
        click.echo("Interrupted before it was started; what was kept before is there.", err=True)
        sys.exit(INTERRUPTED)


def _serve(name: str | None, items: Path | None, options: dict[str, Any]) -> None:
    from ocelad.service import logs
    from ocelad.service.learning import precompile_learning
    from ocelad.service.server import Server, bound
    from ocelad.service.service import Service
    from ocelad.service.store import without_leftovers

    settings = _settings(options)
    logs.set_up(options["log_format"] or ("console" if sys.stderr.isatty() else "json"), options["log_level"])
    listening, settings = bound(settings)
    with listening, without_leftovers(settings.folder):
        service = Service.open(settings)
        try:
            made = None if name is None else _made(service, name, items, options)
            if not list(service) and not options["empty"]:
                raise click.UsageError(
                    f"{str(settings.folder)!r} has no projects yet; name a file of items, or try --demo"
                )
            precompile_learning(live.view.metric.n_features for live in service)
        except BaseException:
            service.close()
            raise
        address = settings.address + ("/" if name is None else f"/?project={name}")
        where = f"{address} and all other addresses of this machine" if settings.at_all_addresses else address
        said = [f"ocelad is at {where}  (Ctrl-C stops it; everything is kept in {settings.folder})"]
        said += [] if made is None else [_learned_on(made)]
        said += [] if _can_be_opened(settings) else [_how_to_open(settings)]

        def started() -> None:
            click.echo("\n".join(said))
            sys.stdout.flush()
            if options["open_"]:
                click.launch(address)

        Server(service, started).run(sockets=[listening])


def _settings(options: dict[str, Any]) -> Settings:
    from pydantic import ValidationError

    from ocelad.service.settings import Settings, check_environment

    try:
        check_environment(os.environ)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    given = {
        "folder": options["data_folder"],
        "database": options["database"],
        "host": options["host"],
        "port": options["port"],
        "allow_hosts": options["allow_host"] or None,
        "require_token": options["require_token"],
        "random_share": options["random_share"],
    }
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        setting = str(first["loc"][0])
        name = (
            "--allow-host" if setting == "allow_hosts" and options["allow_host"] else f"OCELAD_SERVE_{setting.upper()}"
        )
        raise click.UsageError(f"{name}: {first['msg'].removeprefix('Value error, ')}") from None


def _name(file: Path | None, options: dict[str, Any]) -> str | None:
    """What the project of the items is called; None where there were none given."""
    if file is None and options["demo"] is None:
        return None
    if file is not None and not file.exists():
        raise FileNotFoundError(f"there is no file {file}; accepted: a table of items, or a folder of pictures")
    name = str(options["project"] or options["demo"] or _name_of(file))
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name):
        raise click.UsageError(f"a project's name is of small letters, digits, - and _, at most 64; got {name!r}")
    return name


def _made(service: Service, name: str, file: Path | None, options: dict[str, Any]) -> ItemSet | None:
    """The items that a project was made of; None where it was there, of the same ones."""
    from ocelad.service import items as reading

    columns = {
        "id": options["id_"],
        "text": options["text"],
        "features": options["features"],
        "fields": options["field"],
    }
    if options["format_"] is not None:  # what files are known by says nothing of it otherwise
        columns["format"] = options["format_"]
    known_by = f"built-in {options['demo']}" if file is None else reading.fingerprint(file, **columns)
    if name not in service:
        settings = with_more_settings({}, options["more"])
        items = reading.built_in(options["demo"]) if file is None else _read(file, columns)
        service.create(name, options["title"] or name, items, settings, known_by)
        return items
    if known_by != service.store.project(name).digest:
        raise click.UsageError(
            f"the project {name!r} was made of other items, or of other columns; serve it without ITEMS as it is, or "
            "give the new ones another name with --project"
        )
    if options["more"]:
        raise click.UsageError(f"the project {name!r} is there; its settings are those that it was made with")
    return None


def _learned_on(items: ItemSet) -> str:
    """What a newcomer may have thought otherwise: which columns are learned on."""
    count = len(items.feature_names)
    features = f"{_listed(items.feature_names)} ({count:,} feature{'s' if count != 1 else ''})"
    left = f"; not learned on: {_listed(items.fields)} (--features says otherwise)" if items.fields else ""
    return f"Learned on {features}; shown: {_SHOWN[items.shown]}{left}"


def _listed(names: Iterable[str]) -> str:
    """The first names, and how many more there are.

    >>> _listed("abc"), _listed("abcdefghijk")
    ('a, b, c', 'a, b, c, d, e, f, g, h and 3 more')
    """
    names = list(names)
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _can_be_opened(settings: Settings) -> bool:
    """Whether no token is needed, or there is one."""
    from ocelad.service.security import needs_token
    from ocelad.service.store import open_tokens

    if not needs_token(settings.host, settings.require_token):
        return True
    with open_tokens(settings.folder, settings.database_url) as tokens:
        return any(token.revoked_at is None for token in tokens.all())


def _how_to_open(settings: Settings) -> str:
    database = "" if settings.database is None else " --database URL"  # which may hold a password
    folder = shlex.quote(str(settings.folder))
    return f"No token can open it yet: ocelad token create NAME --data-folder {folder}{database}"


def _read(file: Path, columns: dict[str, Any]) -> ItemSet:
    from ocelad.service import items as reading

    def left_out(sentence: str) -> None:
        click.echo(f"Left out: {sentence}", err=True)

    if not file.is_dir() or not sys.stderr.isatty():
        return reading.read_items(file, **columns, skip=left_out)
    with click.progressbar(length=1, label="Reading pictures", file=sys.stderr) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        return reading.read_items(file, **columns, skip=left_out, progress=progress)


def _name_of(file: Path | None) -> str:
    assert file is not None
    stem = file.resolve().name.split(".")[0]
    return re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-_")[:64] or "items"
