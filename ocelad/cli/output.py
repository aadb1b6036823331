"""Check output paths before the work starts, and print tables and JSON."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

PICTURES = (".png", ".pdf", ".svg")


def check_picture(path: Path, *inputs: str | Path | None, option: str = "--output") -> None:
    """Raise ``BadParameter`` if a picture could not be written to the path, or would overwrite an input file."""
    if path.suffix.lower() not in PICTURES:
        raise click.BadParameter(
            f"{str(path)!r} does not end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}", param_hint=option
        )
    check_output(path, *inputs, option=option)


def check_output(path: Path, *inputs: str | Path | None, option: str = "--output") -> None:
    """Raise ``BadParameter`` if the file could not be written, or is an input file."""
    if not path.parent.is_dir():
        raise click.BadParameter(f"the folder {str(path.parent)!r} does not exist", param_hint=option)
    if not os.access(path.parent, os.W_OK):
        raise click.BadParameter(f"the folder {str(path.parent)!r} is not writable", param_hint=option)
    for other in inputs:
        if other and path.exists() and Path(other).exists() and path.samefile(other):
            raise click.BadParameter(f"{str(path)!r} is an input file; choose another name", param_hint=option)


def find_plotting_error() -> str | None:
    """Return why no picture can be drawn here, or None if one can."""
    from ocelad.evaluation.picture_style import pyplot

    try:
        pyplot().switch_backend("agg")  # draws into files, also on machines without a screen
    except ImportError as error:
        return str(error)
    return None


def print_json(content: dict[str, Any]) -> None:
    """Print one line of JSON on standard output."""
    click.echo(to_json(content))


def to_json(content: dict[str, Any]) -> str:
    """Return one line of JSON; NaN and infinite numbers, which JSON does not have, become null."""
    return json.dumps(_to_plain(content), allow_nan=False)


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _to_plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(entry) for entry in value]
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    number = float(value)
    return number if number - number == 0.0 else None


def count_of(n: int, thing: str) -> str:
    """Return a number and what it counts, in the plural if it is not 1.

    >>> count_of(1, "pair"), count_of(2000, "pair")
    ('1 pair', '2,000 pairs')
    """
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


def format_time(milliseconds: int | None) -> str:
    """Return a time in milliseconds since 1970 as text; empty for None.

    >>> format_time(0), format_time(None)
    ('1970-01-01 00:00 UTC', '')
    """
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def make_table(title: str, columns: list[str], rows: list[list[str]], *, numbers: bool = True) -> Any:
    """Build a table of text; with ``numbers``, columns that have a heading are right-aligned, except the first."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    # Names of columns and features may have brackets, which rich would take for markup.
    table = Table(title=escape(title), box=SIMPLE_HEAD, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(escape(column), justify="right" if index > 0 and column and numbers else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def print_tables(*tables: Any, width: int = 100) -> None:
    """Print tables on standard output; without colours and with this width where it is not a terminal."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else width)
    for table in tables:
        console.print(table)
