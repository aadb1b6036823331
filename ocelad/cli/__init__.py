"""The command line: parse, call, print. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import os
import sys

import click

import ocelad
from ocelad.cli.backup import backup, restore
from ocelad.cli.compare import compare
from ocelad.cli.demo import demo
from ocelad.cli.distance import distance, embed
from ocelad.cli.evaluate import evaluate
from ocelad.cli.figure import figure
from ocelad.cli.inspect import inspect
from ocelad.cli.plot import plot
from ocelad.cli.reproduce import reproduce
from ocelad.cli.serve import serve
from ocelad.cli.shared import by_options
from ocelad.cli.token import token
from ocelad.cli.track import track
from ocelad.cli.warm import warm


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(ocelad.__version__, prog_name="ocelad")
def cli() -> None:
    """Track a distance that keeps changing, from answers to "are these two the same?".

    \b
    Examples:
      ocelad demo                                  a drifting stream: a table and a picture
      ocelad track pairs.csv                       learn from a file, save the tracker
      ocelad track pairs.csv --resume              go on where it stopped
      ocelad inspect pairs.tracker                 what is in it
      ocelad embed pairs.tracker items.csv         points where Euclidean distance is the learned one
      ocelad compare rice comid saol               methods on the same streams: who wins where
      ocelad figure 3                              a figure of the paper
      ocelad reproduce --quick                     all of them, and a page about them
      ocelad serve --demo                          a page where people teach the distance

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done with rows skipped, 130 interrupted (and saved).
    """


for command in (
    *(demo, track, embed, distance, evaluate, inspect, plot, compare, figure, reproduce),
    *(serve, token, backup, restore, warm),
):
    cli.add_command(command)


# What the extra "serve" brings.
_OF_SERVE = (
    *("alembic", "fastapi", "httptools", "prometheus_client", "pydantic", "pydantic_settings"),
    *("sqlalchemy", "starlette", "structlog", "uvicorn"),
)


def main() -> None:
    """Run the command line; whatever goes wrong is told in one sentence."""
    try:
        cli(prog_name="ocelad")
    except Exception as error:
        if os.environ.get("OCELAD_TRACEBACK"):
            raise
        from ocelad.ensemble.bank import LearnerError

        known = ValueError, OSError, LearnerError
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in _OF_SERVE:
            click.echo(f"Error: this needs {error.name}; install it with: pip install 'ocelad[serve]'", err=True)
        elif isinstance(error, known):  # told in a sentence of our own
            click.echo(f"Error: {by_options(str(error))}", err=True)
        else:
            click.echo(f"Error: {type(error).__name__}: {error} (OCELAD_TRACEBACK=1 shows where)", err=True)
        sys.exit(1)
