"""ocelad demo: track the paper's drifting stream and show the result."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.output import check_picture, find_plotting_error

if TYPE_CHECKING:
    from rich.console import Console

    from ocelad.lab.demo import Demo, DemoProgress


@click.command(short_help="Track the paper's drifting stream: a table and a picture.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of the stream.")
@click.option(
    "--rounds",
    default=6000,
    show_default=True,
    type=click.IntRange(60, 1_000_000),
    help="Length of the stream; its five phases are scaled to fit.",
)
@click.option(
    "--output",
    default="ocelad-demo.png",
    show_default=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="The picture: a .png, .pdf or .svg file.",
)
@click.option("--quiet", is_flag=True, help="Print only the path of the picture.")
def demo(seed: int, rounds: int, output: Path, quiet: bool) -> None:
    """Track the paper's drifting stream with four methods, and print and draw their errors.

    Clusters of points in 25 dimensions rotate, slowly or fast, and the clustering that defines "same" changes from A
    to B and back. Each method sees one labelled pair per round. The methods are: adaptive (the default of this
    package), RICE-OCELAD (the paper's), one COMID learner with a fixed step size, and the Euclidean distance, which
    learns nothing.

    \b
    Examples:
      ocelad demo
      ocelad demo --seed 3 --output drift.svg
      ocelad demo --rounds 1200 --quiet
    """
    from rich.console import Console

    from ocelad.lab.demo import Demo

    check_picture(output)
    plotting_error = find_plotting_error()
    if quiet and plotting_error:
        raise click.ClickException(plotting_error)
    console = Console(quiet=quiet)
    run = Demo(seed, rounds)
    _run_with_progress(run, console)
    console.print(_make_table(run))
    if plotting_error:
        click.echo(f"No picture: {plotting_error}", err=True)
        return
    run.draw(output)
    click.echo(output if quiet else f"Picture: {output}")


def _run_with_progress(run: Demo, console: Console) -> None:
    """Run the demonstration with a live bar on a terminal, or one line per phase elsewhere."""
    if not sys.stdout.isatty() or console.is_dumb_terminal:
        for progress in _ends_of_phases(run):
            console.print(f"round {progress.round:>6}  {_describe(progress)}", highlight=False)
        return

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # These columns fit into 80 characters.
    columns = (BarColumn(bar_width=4), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, disable=console.quiet) as bar:
        task = bar.add_task("", total=len(run.stream))
        for progress in run:
            bar.update(task, completed=progress.round, description=_describe(progress))


def _ends_of_phases(run: Demo) -> Iterator[DemoProgress]:
    last: DemoProgress | None = None
    for progress in run:
        if last is not None and last.phase is not progress.phase:
            yield last
        last = progress
    if last is not None:
        yield last


def _describe(progress: DemoProgress) -> str:
    error = "  -  " if progress.knn_error is None else f"{progress.knn_error:5.1%}"
    return f"{progress.phase.name:<17} 5-NN error {error}, top interval {progress.top_length}"


def _make_table(run: Demo) -> Any:
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
    # Short, so that the table with four methods fits into 80 characters.
    return f"{100 * error:.2f}/{f'{nmi:.2f}'.removeprefix('0')}"
