"""``ocelad serve``: a page and an HTTP API where people and programs teach a distance."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ocelad.service.itemset import ItemSet
    from ocelad.service.service import Service

DEMOS = ("digits", "synthetic")


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
@click.option(
    "--set", "more", multiple=True, metavar="NAME=VALUE", help="A setting of the tracker, as of ocelad track."
)
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
    from ocelad.service import logs
    from ocelad.service.learning import warm
    from ocelad.service.run import Server, bound
    from ocelad.service.service import Service

    if items is not None and options["demo"] is not None:
        raise click.UsageError("give ITEMS or --demo, not both")
    settings = _settings(options)
    logs.set_up(options["log_format"] or ("console" if sys.stderr.isatty() else "json"), options["log_level"])
    listening, settings = bound(settings)
    with listening:
        service = Service.open(settings)
        try:
            project = _project(service, items, options)
            if not list(service) and not options["empty"]:
                raise click.UsageError(
                    f"{str(settings.folder)!r} has no projects yet; name a file of items, or try --demo"
                )
            warm(live.view.metric.n_features for live in service)
        except BaseException:
            service.close()
            raise
        address = settings.address + ("/" if project is None else f"/?project={project}")

        def started() -> None:
            click.echo(f"ocelad is at {address}  (Ctrl-C stops it; everything is kept in {settings.folder})")
            sys.stdout.flush()
            if options["open_"]:
                click.launch(address)

        Server(service, started).run(sockets=[listening])


def _settings(options: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    from ocelad.service.settings import Settings

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


def _project(service: Service, file: Path | None, options: dict[str, Any]) -> str | None:
    """The project of the items, made where it is not there yet; None where there were none given."""
    from ocelad.service import items as reading

    if file is None and options["demo"] is None:
        return None
    name = options["project"] or options["demo"] or _name(file)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name):
        raise click.UsageError(f"a project's name is of small letters, digits, - and _, at most 64; got {name!r}")
    columns = {
        "id": options["id_"],
        "text": options["text"],
        "features": options["features"],
        "fields": options["field"],
    }
    known_by = f"built-in {options['demo']}" if file is None else _fingerprint(file, columns)
    if name not in service:
        settings = _tracker_settings(options["more"])
        items = reading.built_in(options["demo"]) if file is None else _read(file, columns)
        service.create(name, options["title"] or name, items, settings, known_by)
    elif known_by != service.store.project(name).digest:
        raise click.UsageError(
            f"the project {name!r} was made of other items, or of other columns; serve it without ITEMS as it is, or "
            "give the new ones another name with --project"
        )
    elif options["more"]:
        raise click.UsageError(f"the project {name!r} is there; its settings are those that it was made with")
    return str(name)


def _fingerprint(file: Path, columns: dict[str, Any]) -> str:
    from ocelad.service import items as reading

    if not file.exists():
        raise FileNotFoundError(f"there is no file {file}; accepted: a table of items, or a folder of pictures")
    return reading.fingerprint(file, **columns)


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


def _name(file: Path | None) -> str:
    assert file is not None
    stem = file.resolve().name.split(".")[0]
    return re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-_")[:64] or "items"


def _tracker_settings(entries: tuple[str, ...]) -> dict[str, Any]:
    settings = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals:
            raise click.BadParameter(f"{entry!r} is not NAME=VALUE", param_hint="--set")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings
