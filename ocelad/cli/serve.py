"""ocelad serve: a web page and an HTTP API that collect answers and learn a distance from them."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.exit_codes import INTERRUPTED
from ocelad.cli.file_kind import check_table
from ocelad.cli.login_options import login_options, login_settings, option_of_setting
from ocelad.cli.options import exclude_option, format_option, missing_option, parse_settings

if TYPE_CHECKING:
    from ocelad.service.itemset import ItemSet
    from ocelad.service.project_options import ProjectOptions
    from ocelad.service.service import Service
    from ocelad.service.settings import Settings

DEMOS = ("digits", "synthetic")
# How the page shows an item.
_DISPLAYS = {"features": "values", "text": "texts", "picture": "pictures"}
# The number of columns that are named in a message.
_MAX_NAMES = 8


@click.command(short_help="Serve a web page and an HTTP API that collect answers.")
@click.argument("items", required=False, type=click.Path(path_type=Path))
@click.option(
    "--demo",
    type=click.Choice(DEMOS),
    is_flag=False,
    flag_value="digits",
    help="Serve built-in items: digits (pictures, the default) or synthetic (points of the drifting stream).",
)
@click.option("--project", metavar="NAME", help="The project's name; by default the file's name.")
@click.option("--title", help="The project's title on the page.")
@click.option("--id", "id_", metavar="COLUMN", help="The column of ids; by default 'id', if it exists.")
@click.option("--text", metavar="COLUMN", help="The column of texts to show; by default the longest texts.")
@click.option("--item-title", metavar="COLUMN", help="The column that names an item; by default 'title' or 'name'.")
@click.option("--link", metavar="COLUMN", help="The column of links to show; by default the first one with links.")
@click.option(
    "--picture",
    metavar="COLUMN",
    help="The column of pictures: bytes, base64, or paths in the folder of the table; by default 'picture' or 'image'.",
)
@click.option(
    "--show", multiple=True, metavar="COLUMN", help="A further column on the cards of items, in this order. Repeatable."
)
@click.option("--question", help="What people are asked.  [default: Are these two the same?]")
@click.option(
    "--guidelines",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A text file with guidelines for the people who answer.",
)
@click.option(
    "--field", multiple=True, metavar="COLUMN", help="A column that is shown but is not a feature. Repeatable."
)
@click.option("--features", metavar="COLUMNS", help="The columns of features: names or patterns, separated by commas.")
@exclude_option
@missing_option
@format_option
@click.option(
    "--set",
    "more",
    multiple=True,
    metavar="NAME=VALUE",
    help="curved=false (a linear distance), transitive=false (answers imply no others), the method, or any setting of "
    "Rice, such as max_rank=20. Repeatable.",
)
@click.option(
    "--data-folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of all data: items, answers, tokens and snapshots.  [default: ocelad-data]",
)
@click.option(
    "--database", metavar="URL", help="Use PostgreSQL, postgresql://user@host/name, instead of SQLite in the folder."
)
@click.option("--host", help="The address to listen on; clients on other machines need a token.  [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="The port; 0 chooses a free one.  [default: 8765]")
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Another host name of the service, such as a proxy's. Repeatable.",
)
@click.option("--require-token", is_flag=True, default=None, help="Require a token from clients on this machine, too.")
@login_options
@click.option(
    "--random-share",
    type=click.FloatRange(0, 1),
    help="The share of pairs that are chosen at random.  [default: 0.12; 0.2 in projects without groups]",
)
@click.option(
    "--allow-webhook-network",
    multiple=True,
    metavar="NETWORK",
    help="A network, such as 10.0.0.0/8, that webhooks may be sent to although it is not public. Repeatable.",
)
@click.option("--empty", is_flag=True, help="Start even without a project; clients can create projects over HTTP.")
@click.option("--workers", type=click.IntRange(1, 1), default=1, help="The number of processes; only 1 is supported.")
@click.option("--open", "open_", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--log-format", type=click.Choice(["console", "json"]), help="By default console on a terminal, else json."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least severe messages that are logged.",
)
def serve(items: Path | None, **options: Any) -> None:
    """Serve a web page where people answer "same" or "different", and an HTTP API for programs.

    ITEMS is a table with one item per row (CSV, TSV, JSON lines, Parquet, Arrow), a .npy or .npz file of vectors, or a
    folder of pictures. The column of vectors, or else the numeric columns, are the features; a table that has only
    texts gets word features. Items and answers are stored in the data
    folder: the next start, with or without ITEMS, continues from there.

    \b
    Examples:
      ocelad serve --demo
      ocelad serve reviews.csv --text review --open
      ocelad serve embeddings.npz
      ocelad serve photos/ --project photos --port 9000
      ocelad serve                                    serve the projects in ./ocelad-data
      ocelad token create anna --permission answer    then: ocelad serve --host 0.0.0.0

    Environment variables set the same options: OCELAD_SERVE_PORT, OCELAD_SERVE_DATABASE, ...
    """
    if items is not None and options["demo"] is not None:
        raise click.UsageError("give ITEMS or --demo, not both")
    name = _project_name(items, options)
    try:
        _serve(name, items, options)
    except KeyboardInterrupt:  # a running server handles the signal itself
        click.echo("Interrupted before the service had started; stored data are unchanged.", err=True)
        sys.exit(INTERRUPTED)


def _serve(name: str | None, items: Path | None, options: dict[str, Any]) -> None:
    from ocelad.service.learning import precompile_learning
    from ocelad.service.log_setup import configure_logging
    from ocelad.service.server import Server, bind_socket
    from ocelad.service.service import Service
    from ocelad.service.store import removed_on_failure

    settings = _settings(options)
    if settings.oidc_issuer is not None:
        import_module("ocelad.service.security.openid_provider")  # says at once that the extra "oidc" is missing
    configure_logging(options["log_format"] or ("console" if sys.stderr.isatty() else "json"), options["log_level"])
    listening, settings = bind_socket(settings)
    existed = settings.folder.is_dir()  # its last project may have been deleted; a new folder may be a misspelled one
    with listening, removed_on_failure(settings.folder):
        service = Service.open(settings)
        try:
            created = None if name is None else _create_project(service, name, items, options)
            if not service.records() and not options["empty"] and not existed:
                raise click.UsageError(
                    f"{str(settings.folder)!r} has no projects yet: give ITEMS, or try --demo; --empty starts without "
                    "a project, and you create one on the page"
                )
            precompile_learning()
        except BaseException:
            service.close()
            raise
        address = settings.address + ("/" if name is None else f"/?project={name}")
        where = f"{address} and all other addresses of this machine" if settings.listens_on_all_addresses else address
        lines = [f"ocelad is at {where}  (Ctrl-C stops it; all data are in {settings.folder})"]
        lines += [] if created is None else [_describe_features(created)]
        lines += [] if _is_accessible(settings) else [_describe_access(settings)]

        def on_start() -> None:
            click.echo("\n".join(lines))
            sys.stdout.flush()
            if options["open_"]:
                click.launch(address)

        Server(service, on_start).run(sockets=[listening])


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
        "webhook_networks": options["allow_webhook_network"] or None,
        **login_settings(options),
    }
    given = {name: value for name, value in given.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:  # settings that do not fit together
            raise click.UsageError(message) from None
        setting = str(first["loc"][0])
        option = "--allow-host" if setting == "allow_hosts" else option_of_setting(setting)
        raise click.UsageError(
            f"{option if setting in given else f'OCELAD_SERVE_{setting.upper()}'}: {message}"
        ) from None


def _project_name(file: Path | None, options: dict[str, Any]) -> str | None:
    """Return the name of the project of the given items, or None if none were given."""
    if file is None and options["demo"] is None:
        return None
    if file is not None and not file.exists():
        raise FileNotFoundError(f"there is no file {file}; accepted: a table of items, or a folder of pictures")
    if file is not None and not file.is_dir():
        check_table(str(file), "a table of items, or a folder of pictures")
    name = str(options["project"] or options["demo"] or _default_name(file))
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name):
        raise click.UsageError(f"a project name has at most 64 lower-case letters, digits, - and _; got {name!r}")
    return name


def _create_project(service: Service, name: str, file: Path | None, options: dict[str, Any]) -> ItemSet | None:
    """Create a project and return its items; return None if it exists and was created from the same items."""
    from ocelad.service import items as reading

    columns = {
        "id": options["id_"],
        "text": options["text"],
        "features": options["features"],
        "fields": options["field"],
    }
    # Fingerprints of projects without these options must stay the same.
    if options["format_"] is not None:
        columns["format"] = options["format_"]
    if options["exclude"]:
        columns["exclude"] = options["exclude"]
    if options["missing"] != "stop":
        columns["missing"] = options["missing"]
    for option, role in (("item_title", "title"), ("picture", "picture")):
        if options[option] is not None:
            columns[role] = options[option]
    digest = f"built-in {options['demo']}" if file is None else reading.source_digest(file, **columns)
    if name not in service:
        settings = parse_settings({}, options["more"], "curved", "transitive")
        items = reading.load_built_in(options["demo"]) if file is None else _read_items(file, columns)
        for note in items.notes:
            click.echo(f"Note: {note}.", err=True)
        chosen = _project_options(items, options)
        if file is None:  # the fields of built-in items are their classes, which people are to find out
            chosen = chosen.changed(cards=reading.default_cards(items).model_copy(update={"fields": ()}))
        service.create(name, options["title"] or name, items, settings, digest, chosen)
        return items
    if digest != service.store.project(name).digest:
        raise click.UsageError(
            f"the project {name!r} was created from other items or columns; serve it without ITEMS, or choose another "
            "name with --project"
        )
    if options["more"]:
        raise click.UsageError(f"the project {name!r} exists; its settings cannot be changed")
    if any(options[option] for option in ("question", "guidelines", "link", "show")):
        raise click.UsageError(
            f"the project {name!r} exists; its question, guidelines and cards are changed on the page, or with PATCH "
            f"/v1/projects/{name}"
        )
    return None


def _project_options(items: ItemSet, options: dict[str, Any]) -> ProjectOptions:
    """Return the question, the guidelines and the cards of a new project."""
    from pydantic import ValidationError

    from ocelad.service import items as reading
    from ocelad.service.project_options import ProjectOptions
    from ocelad.service.wire import ProjectChange

    roles = {"title": "item_title", "text": "text", "link": "link", "picture": "picture", "fields": "show"}
    chosen = {role: options[option] for role, option in roles.items() if options[option]}
    words: dict[str, Any] = {"question": options["question"]} if options["question"] is not None else {}
    try:
        if options["guidelines"] is not None:
            words["guidelines"] = options["guidelines"].read_text(encoding="utf-8-sig")
        words = ProjectChange.model_validate(words).model_dump(exclude_unset=True)
    except UnicodeDecodeError:
        raise click.UsageError(f"{options['guidelines']} is not a text in UTF-8") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise click.UsageError(f"--{first['loc'][0]}: {first['msg']}") from None
    cards = reading.choose_cards(items, chosen) if chosen else None
    return ProjectOptions().changed(**words, **({} if cards is None else {"cards": cards}))


def _describe_features(items: ItemSet) -> str:
    """Say which columns are features and which are only shown, since users may expect others."""
    count = len(items.feature_names)
    features = f"{_join_names(items.feature_names)} ({count:,} feature{'s' if count != 1 else ''})"
    fields = f"; not used: {_join_names(items.fields)} (change with --features)" if items.fields else ""
    return f"Learning from {features}; shown: {_DISPLAYS[items.display]}{fields}"


def _join_names(names: Iterable[str]) -> str:
    """Join the first names, and say how many more there are.

    >>> _join_names("abc"), _join_names("abcdefghijk")
    ('a, b, c', 'a, b, c, d, e, f, g, h and 3 more')
    """
    names = list(names)
    more = f" and {len(names) - _MAX_NAMES:,} more" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _is_accessible(settings: Settings) -> bool:
    """Whether no token is required, or a valid one exists."""
    from ocelad.service.security import requires_token
    from ocelad.service.store import open_tokens

    if settings.has_login or not requires_token(settings.host, settings.require_token):
        return True
    with open_tokens(settings.folder, settings.database_url) as tokens:
        now = time() * 1000
        return any(
            token.revoked_at is None and (token.expires_at is None or token.expires_at > now) for token in tokens.all()
        )


def _describe_access(settings: Settings) -> str:
    database = "" if settings.database is None else " --database URL"  # the real URL may contain a password
    folder = shlex.quote(str(settings.folder))
    return f"There is no token yet; create one: ocelad token create NAME --data-folder {folder}{database}"


def _read_items(file: Path, columns: dict[str, Any]) -> ItemSet:
    from ocelad.service import items as reading

    def report_skipped(reason: str) -> None:
        click.echo(f"Skipped: {reason}", err=True)

    if not file.is_dir() or not sys.stderr.isatty():
        return reading.load_items(file, **columns, skip=report_skipped)
    with click.progressbar(length=1, label="Reading pictures", file=sys.stderr) as bar:

        def progress(done: int, total: int) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        return reading.load_items(file, **columns, skip=report_skipped, progress=progress)


def _default_name(file: Path | None) -> str:
    assert file is not None
    stem = file.resolve().name.split(".")[0]
    return re.sub(r"[^a-z0-9_-]+", "-", stem.lower()).strip("-_")[:64] or "items"
