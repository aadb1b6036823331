"""Options of commands that work on a running service, or on its data folder while none runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.options import Command, add_options, data_folder_option, database_option

if TYPE_CHECKING:
    from ocelad.client import Project
    from ocelad.service.store import Store


def service_options(command: Command) -> Command:
    """Add the options that say where a project is: at an address, or in a data folder."""
    return add_options(
        command,
        click.option("--project", required=True, metavar="NAME", help="The project's name."),
        click.option(
            "--url",
            metavar="URL",
            help="The address of the service, such as http://127.0.0.1:8765; needs: pip install 'ocelad[client]'.",
        ),
        click.option(
            "--token-file",
            type=click.Path(dir_okay=False, exists=True, path_type=Path),
            help="A file with the token, if the service at --url requires one.",
        ),
        data_folder_option,
        database_option,
    )


@contextmanager
def open_remote(options: dict[str, Any], person: str | None = None) -> Iterator[Project]:
    """Yield the project at --url; an error of the service is printed as one sentence."""
    from ocelad.client import Client, ServiceError

    token = None if options["token_file"] is None else options["token_file"].read_text(encoding="utf-8").strip()
    with Client(options["url"], token=token, person=person) as client:
        try:
            yield client.project(options["project"])
        except ServiceError as error:
            raise click.ClickException(error.message) from None


@contextmanager
def open_local(options: dict[str, Any]) -> Iterator[Store]:
    """Yield the store of --data-folder; raise an error if it does not exist, or if a service runs on it."""
    from ocelad.service.store import Store, StoreInUse

    folder: Path = options["data_folder"]
    if options["token_file"] is not None:
        raise click.UsageError("--token-file is for a service at --url; a data folder needs no token")
    if not (options["database"] or folder.is_dir()):
        raise click.UsageError(f"there is no data folder {str(folder)!r}; name it with --data-folder, or use --url")
    try:
        store = Store.open(folder, options["database"])
    except StoreInUse as error:
        raise click.ClickException(f"{error}; while a service runs on it, give its address with --url") from None
    with store:
        yield store
