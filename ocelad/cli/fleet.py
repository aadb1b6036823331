"""ocelad fleet: one distance per key, from files."""

from __future__ import annotations

import click

from ocelad.cli.fleet_embed import embed
from ocelad.cli.fleet_inspect import inspect
from ocelad.cli.fleet_track import track


@click.group(short_help="Learn and apply one distance per key: per user, tenant or site.")
def fleet() -> None:
    """Learn and apply one distance per key: a user, a tenant, a site or a topic.

    What "same" means differs from key to key. A fleet has one tracker for each, in one file; a new key begins with what
    the others have taught.

    \b
    Examples:
      ocelad fleet track answers.csv --key user               learn one distance per user
      ocelad fleet track answers.csv --key user --resume      continue after an interruption
      ocelad fleet inspect answers.fleet                      show the fleet and its most active keys
      ocelad fleet inspect answers.fleet --key anna           show what the tracker of one key has learned
      ocelad fleet embed answers.fleet items.csv --key user -o points.parquet
    """


for command in (track, inspect, embed):
    fleet.add_command(command)
