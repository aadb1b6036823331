"""The command line. Each command imports the heavy packages that it needs when it runs."""

from __future__ import annotations

import os
import sys

import click

import ocelad
from ocelad.cli.audit import audit
from ocelad.cli.backup import backup, restore
from ocelad.cli.compare import compare
from ocelad.cli.completion import completion
from ocelad.cli.demo import demo
from ocelad.cli.distance import distance, embed
from ocelad.cli.doctor import doctor
from ocelad.cli.evaluate import evaluate
from ocelad.cli.export import export
from ocelad.cli.export_answers import export_answers
from ocelad.cli.figure import figure
from ocelad.cli.fleet import fleet
from ocelad.cli.import_answers import import_answers
from ocelad.cli.inspect import inspect
from ocelad.cli.neighbors import neighbors
from ocelad.cli.options import name_options
from ocelad.cli.plot import plot
from ocelad.cli.records import records
from ocelad.cli.reproduce import reproduce
from ocelad.cli.serve import serve
from ocelad.cli.session import session
from ocelad.cli.token import token
from ocelad.cli.track import track
from ocelad.cli.verify import verify
from ocelad.cli.warm import warm


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(ocelad.__version__, prog_name="ocelad")
def cli() -> None:
    """Learn a distance from answers to "are these two the same?", and keep tracking it while it changes.

    \b
    Examples:
      ocelad demo                                       track a drifting stream: a table and a picture
      ocelad track pairs.csv                            learn from a file and save the tracker
      ocelad track pairs.csv --resume                   continue after an interruption
      ocelad inspect pairs.tracker                      show what a saved tracker has learned
      ocelad embed pairs.tracker items.csv              map items to points in the learned space
      ocelad neighbors pairs.tracker items.csv          find the nearest items by the learned distance
      ocelad export pairs.tracker items.csv --to faiss  write the items for a vector store
      ocelad fleet track answers.csv --key user         learn one distance per user
      ocelad records crm.csv shop.csv                   find records of the same entity, by your answers
      ocelad compare rice comid saol                    run several methods on the same streams
      ocelad figure 3                                   compute and draw a figure of the paper
      ocelad reproduce --quick                          compute all figures and write a report
      ocelad serve --demo                               serve a web page that collects answers
      ocelad import answers.csv --project digits        add answers from a file to a project
      ocelad doctor                                     check the installation and the machine

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done with rows skipped, 130 interrupted (and saved).
    """


for command in (
    *(track, embed, distance, neighbors, export, fleet, records, evaluate, inspect, plot),
    *(demo, compare, figure, reproduce),
    *(serve, token, session, audit, import_answers, export_answers, backup, restore, verify, warm, doctor, completion),
):
    cli.add_command(command)


# The extra that installs a package.
_EXTRAS = (
    dict.fromkeys(
        (
            *("alembic", "fastapi", "httptools", "prometheus_client", "pydantic", "pydantic_settings"),
            *("sqlalchemy", "starlette", "structlog", "uvicorn"),
        ),
        "serve",
    )
    | dict.fromkeys(("authlib", "joserfc", "requests"), "oidc")
    | {"httpx": "client", "rapidfuzz": "records"}
)


def main() -> None:
    """Run the command line; print an error as one sentence, or with its traceback if OCELAD_TRACEBACK is set."""
    try:
        cli(prog_name="ocelad")
    except Exception as error:
        if os.environ.get("OCELAD_TRACEBACK"):
            raise
        from ocelad.ensemble.bank import LearnerError

        package = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
        extra = _EXTRAS.get(package.partition(".")[0])
        if extra is not None:
            click.echo(f"Error: this needs {package}; install it with: pip install 'ocelad[{extra}]'", err=True)
        elif isinstance(error, (ValueError, OSError, LearnerError)):  # their messages are written for users
            click.echo(f"Error: {name_options(str(error))}", err=True)
        else:
            click.echo(f"Error: {type(error).__name__}: {error} (OCELAD_TRACEBACK=1 shows where)", err=True)
        sys.exit(1)
