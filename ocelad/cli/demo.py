"""ocelad demo: the paper's drifting stream, live."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.shared import check_picture, why_no_picture

if TYPE_CHECKING:
    from rich.console import Console

    from ocelad.lab.demo import Demo, Snapshot


@click.command(short_help="Track the paper's drifting stream live.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Which stream is drawn.")
@click.option(
    "--rounds",
    default=6000,
    show_default=True,
    type=click.IntRange(60, 1_000_000),
    help="Length of the stream; its five phases are stretched to fit.",
)
@click.option(
    "--output",
    default="ocelad-demo.png",
    show_default=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Where the picture goes: .png, .pdf or .svg.",
)
@click.option("--quiet", is_flag=True, help="Print only the path of the picture.")
def demo(seed: int, rounds: int, output: Path, quiet: bool) -> None:
    """Track the paper's drifting stream live: a table and a picture of how well it went.

    Clusters of points in 25 dimensions rotate, slowly or fast, while the question which two are the same
    changes from clustering A to B and back. RICE-OCELAD sees one answer per round. Beside it: Euclidean
    distance, which learns nothing, and one COMID learner with a fixed rate.

    \b
    Examples:
      ocelad demo
      ocelad demo --seed 3 --output drift.svg
      ocelad demo --rounds 1200 --quiet
    """
    from rich.console import Console

    from ocelad.lab.demo import Demo

    check_picture(output)
    no_picture = why_no_picture()
    if quiet and no_picture:
        raise click.ClickException(no_picture)
    console = Console(quiet=quiet)
    run = Demo(seed, rounds)
    _follow(run, console)
    console.print(_demo_table(run))
    if no_picture:
        click.echo(f"No picture: {no_picture}", err=True)
        return
    run.draw(output)
    click.echo(output if quiet else f"Picture: {output}")


def _follow(run: Demo, console: Console) -> None:
    """Let the run happen: a live bar on a terminal, a line per phase elsewhere."""
    if not sys.stdout.isatty() or console.is_dumb_terminal:
        for snapshot in _last_of_each_phase(run):
            console.print(f"round {snapshot.round:>6}  {_progress_words(snapshot)}", highlight=False)
        return

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # Narrow enough for 80 columns.
    columns = (BarColumn(bar_width=4), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, disable=console.quiet) as bar:
        task = bar.add_task("", total=len(run.stream))
        for snapshot in run:
            bar.update(task, completed=snapshot.round, description=_progress_words(snapshot))


def _last_of_each_phase(run: Demo) -> Any:
    last: Snapshot | None = None
    for snapshot in run:
        if last is not None and last.phase is not snapshot.phase:
            yield last
        last = snapshot
    yield last


def _progress_words(snapshot: Snapshot) -> str:
    error = "  -  " if snapshot.knn_error is None else f"{snapshot.knn_error:5.1%}"
    return f"{snapshot.phase.name:<17} 5-NN error {error}, RICE's heaviest length {snapshot.heaviest_length}"


def _demo_table(run: Demo) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ocelad.lab.demo import COLORS

    table = Table(title="5-NN error in %/NMI of k-means (1 is perfect), by phase", box=SIMPLE_HEAD)
    table.add_column("phase", no_wrap=True)
    table.add_column("drift", justify="right")
    for method in COLORS:
        table.add_column(method, justify="right")
    scores = {method: run.by_phase(method) for method in COLORS}
    for index, phase in enumerate(run.stream.phases):
        cells = (_error_and_nmi(*scores[method][index]) for method in COLORS)
        table.add_row(phase.name, f"{phase.drift:g}", *cells, end_section=index == len(run.stream.phases) - 1)
    table.add_row("all", "", *(_error_and_nmi(*run.overall(method)) for method in COLORS))
    return table


def _error_and_nmi(error: float, nmi: float) -> str:
    return f"{100 * error:.2f}/{f'{nmi:.2f}'.removeprefix('0')}"  # short: a table of four methods in 80 columns
