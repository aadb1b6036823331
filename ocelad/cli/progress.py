"""Show the progress of trials and of reading files, with the estimated time left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from ocelad.cli.exit_codes import INTERRUPTED

if TYPE_CHECKING:
    from ocelad.io.tabular.file_stream import FileStream

Chunk = TypeVar("Chunk")

# The least number of seconds between two progress lines.
LINE_INTERVAL = 2.0


@contextmanager
def show_trials() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function of (task, done, total): on a terminal it updates a bar, elsewhere it prints every tenth."""
    if not sys.stderr.isatty():
        yield _print_lines()
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
        bars: dict[str, Any] = {}

        def show(task: str, done: int, total: int) -> None:
            if task not in bars:
                bars[task] = bar.add_task(task, total=total, completed=done)
            bar.update(bars[task], completed=done)

        yield show


@contextmanager
def show_bytes(stream: FileStream[Chunk], task: str, *, is_shown: bool = True) -> Iterator[Iterator[Chunk]]:
    """Yield the chunks of a file; if ``is_shown`` and on a terminal, a bar shows how much of it has been read."""
    if not is_shown or not sys.stderr.isatty():
        yield iter(stream)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(task, total=stream.total_bytes)

        def chunks() -> Iterator[Chunk]:
            for chunk in stream:
                yield chunk
                bar.update(shown, completed=stream.bytes_read)

        yield chunks()


@contextmanager
def show_pairs(
    stream: FileStream[Any], *, is_shown: bool = True
) -> Iterator[Callable[[int, Callable[[], str], bool], None]]:
    """Yield a function of (pairs so far, words, whether they are saved), to be called after each chunk of a file.

    On a terminal it updates a bar; elsewhere it prints a line after each save.
    """
    if not is_shown or not sys.stderr.isatty():

        def show_line(n_pairs: int, words: Callable[[], str], saved: bool) -> None:
            if saved and is_shown:
                click.echo(f"pair {n_pairs:>12,}  {words()}  saved", err=True)

        yield show_line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(bar_width=16), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, start, before = bar.add_task("", total=stream.total_bytes), monotonic(), stream.n_rows

        def show_bar(n_pairs: int, words: Callable[[], str], saved: bool) -> None:
            rate = (stream.n_rows - before) / max(monotonic() - start, 1e-9)
            bar.update(task, completed=stream.bytes_read, description=f"{n_pairs:,} pairs, {rate:,.0f}/s, {words()}")

        yield show_bar


@contextmanager
def show_steps(total: int, task: str, *, is_shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Yield a function that adds steps; if ``is_shown`` and on a terminal, a bar shows how many are done."""
    if not is_shown or not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task(task, total=total)
        yield lambda count: bar.advance(shown, count)


def _print_lines() -> Callable[[str, int, int], None]:
    started: dict[str, tuple[float, int]] = {}
    printed: dict[str, tuple[int, float]] = {}

    def show(task: str, done: int, total: int) -> None:
        now = monotonic()
        start, done_at_start = started.setdefault(task, (now, done))
        tenth = 10 * done // max(total, 1)
        last_tenth, last_time = printed.get(task, (-1, -LINE_INTERVAL))
        if tenth > last_tenth and (now - last_time >= LINE_INTERVAL or done == total):
            printed[task] = tenth, now
            left = (now - start) / max(done - done_at_start, 1) * (total - done)
            estimate = f", about {format_duration(left)} left" if done_at_start < done < total else ""
            click.echo(f"{task}: {done} of {total} trials{estimate}", err=True)

    return show


def exit_interrupted(results: Path, restart: bool) -> NoReturn:
    """Print how to continue, and exit."""
    command = "the same command without --restart" if restart else "the same command again"
    click.echo(f"Interrupted; finished trials are in {results}. To continue, run {command}.", err=True)
    sys.exit(INTERRUPTED)


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units.

    >>> format_duration(7.4), format_duration(135), format_duration(7500)
    ('7 s', '2 min 15 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
