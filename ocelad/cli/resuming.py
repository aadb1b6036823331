"""What commands share that learn from a file, can be stopped, and are resumed by --resume."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ocelad.io import ComparisonStream

# Suffixes that are removed from the name of a file to name what is learned from it.
_SUFFIXES = (
    ".csv",
    ".tsv",
    ".txt",
    ".json",
    ".jsonl",
    ".ndjson",
    ".parquet",
    ".arrow",
    ".feather",
    ".ipc",
    ".npy",
    ".npz",
    ".gz",
)


def default_output(file: str, suffix: str) -> Path:
    """Return the file in the current folder for what is learned from a file.

    >>> str(default_output("answers/monday.csv.gz", ".tracker"))
    'monday.tracker'
    """
    if file == "-":
        raise click.UsageError("standard input has no name: give --output")
    path = Path(Path(file).name)
    while path.suffix.lower() in _SUFFIXES:
        path = path.with_suffix("")
    return Path(f"{path.name}{suffix}")


def resume_command(file: str) -> str:
    """Return the command that continues the current one, which reads ``file``: "-" is a pipe from another command."""
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--restart", "--resume")]
    command = shlex.join(["ocelad", *arguments, "--resume"])
    return f"... | {command}, where ... writes the same rows again" if file == "-" else command


@contextmanager
def stop_on_signal(stream: ComparisonStream) -> Iterator[list[int]]:
    """End the stream after the current chunk at Ctrl-C or SIGTERM, and raise at the second signal.

    Yields the list of the signals received. It is empty in the end if the stream had no rows left to stop before.
    """
    received: list[int] = []

    def handle(number: int, frame: Any) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        stream.stop()
        with suppress(RuntimeError):  # the signal interrupted another output
            click.echo("Stopping after the present step; a second Ctrl-C stops at once.", err=True)

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
        if received and stream.is_exhausted:
            received.clear()
            click.echo("Done: all rows had been read, so that nothing is left to continue.", err=True)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
