"""How far long work is, and how long it will take."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, NoReturn

import click

from ocelad.cli.shared import INTERRUPTED

# Seconds between two lines where there is no bar.
QUIET = 2.0


@contextmanager
def trial_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A live bar with the time that is left on a terminal; elsewhere a line for every tenth."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def show(words: str, done: int, total: int) -> None:
            if words not in tasks:
                tasks[words] = bar.add_task(words, total=total, completed=done)
            bar.update(tasks[words], completed=done)

        yield show


def _lines() -> Callable[[str, int, int], None]:
    begun: dict[str, tuple[float, int]] = {}
    last: dict[str, tuple[int, float]] = {}

    def show(words: str, done: int, total: int) -> None:
        now = monotonic()
        start, before = begun.setdefault(words, (now, done))
        tenth = 10 * done // max(total, 1)
        told, when = last.get(words, (-1, -QUIET))
        if tenth > told and (now - when >= QUIET or done == total):
            last[words] = tenth, now
            left = (now - start) / max(done - before, 1) * (total - done)
            until = f", about {duration(left)} left" if before < done < total else ""
            click.echo(f"{words}: {done} of {total} trials{until}", err=True)

    return show


def tell_of_interrupt(where: Path, restart: bool) -> NoReturn:
    """Say how to go on, and end."""
    again = "the same command without --restart" if restart else "the same command again"
    click.echo(f"Interrupted; what is finished is in {where}: run {again} to go on.", err=True)
    sys.exit(INTERRUPTED)


def duration(seconds: float) -> str:
    """In the largest two units that it has.

    >>> duration(7.4), duration(135), duration(7500)
    ('7 s', '2 min 15 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
