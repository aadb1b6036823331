"""ocelad demo: track the paper's drifting stream and show the result."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.options import theme_option
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
    "-o",
    "--output",
    default="ocelad-demo.png",
    show_default=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="The picture: a .png, .pdf or .svg file.",
)
@theme_option
@click.option("--quiet", is_flag=True, help="Print only the path of the picture.")
def demo(seed: int, rounds: int, output: Path, quiet: bool) -> None:
    """Track the paper's drifting stream with four methods, and print and draw their errors.

    Clusters of points in 25 dimensions rotate, slowly or fast, and the clustering that defines "same" changes from A
    to B and back. Each method sees one labelled pair per round. The methods are: adaptive (the default of this
    package), RICE-OCELAD (the paper's), one COMID learner with a fixed step size, and the Euclidean distance, which
    learns nothing. The second table and the lower half of the picture show what the method adaptive does: which of its
    experts count, how fast its distance moves (drift_), and which changes of the question it detects (changes_).

    \b
    Examples:
      ocelad demo
      ocelad demo --seed 3 --output drift.svg --theme dark
      ocelad demo --rounds 1200 --quiet
    """
    from rich.console import Console
    from threadpoolctl import threadpool_limits

    from ocelad.lab.demo import Demo

    check_picture(output)
    plotting_error = find_plotting_error()
    if quiet and plotting_error:
        raise click.ClickException(plotting_error)
    console = Console(quiet=quiet)
    run = Demo(seed, rounds)
    with threadpool_limits(1):  # threads of BLAS make products of matrices of this size slower
        _run_with_progress(run, console)
    console.print(_make_table(run), _make_expert_table(run))
    if plotting_error:
        click.echo(f"No picture: {plotting_error}", err=True)
        return
    run.draw(output)
    click.echo(output if quiet else f"Picture: {output}")


def _run_with_progress(run: Demo, console: Console) -> None:
    """Run the demonstration with a live bar on a terminal, or one line per phase elsewhere."""
    if not sys.stdout.isatty() or console.is_dumb_terminal:
        for progress in _ends_of_phases(run, console):
            console.print(f"round {progress.round:>6}  {_describe(progress)}", highlight=False)
        return

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # These columns fit into 80 characters.
    columns = (BarColumn(bar_width=4), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, disable=console.quiet) as bar:
        task = bar.add_task("", total=len(run.stream))
        for progress in run:
            _print_change(progress, bar.console)
            bar.update(task, completed=progress.round, description=_describe(progress))


def _ends_of_phases(run: Demo, console: Console) -> Iterator[DemoProgress]:
    last: DemoProgress | None = None
    for progress in run:
        if last is not None and last.phase is not progress.phase:
            yield last
        _print_change(progress, console)
        last = progress
    if last is not None:
        yield last


def _print_change(progress: DemoProgress, console: Console) -> None:
    if progress.change is not None:
        line = (
            f"round {progress.round:>6}  change detected: the answers differ since about round {progress.change.round}"
        )
        console.print(line, highlight=False)


def _describe(progress: DemoProgress) -> str:
    error = "  -  " if progress.knn_error is None else f"{progress.knn_error:5.1%}"
    return f"{progress.phase.name:<17} error {error}, {progress.top_experts}"


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


def _make_expert_table(run: Demo) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title="The method adaptive: leading experts, drift_ per 1000 rounds, changes_", box=SIMPLE_HEAD)
    table.add_column("phase", no_wrap=True)
    table.add_column("most weight", no_wrap=True)
    table.add_column("", justify="right")
    table.add_column("drift_", justify="right")
    table.add_column("detected", justify="right", no_wrap=True)
    for summary in run.summaries():
        detected = ", ".join(str(change.detected) for change in summary.changes) or "-"
        weight, drift = f"{summary.weight:.0%}", f"{summary.drift:.1f}"
        table.add_row(summary.phase.name, summary.top_experts, weight, drift, detected)
    return table


def _error_and_nmi(error: float, nmi: float) -> str:
    # Short, so that the table with four methods fits into 80 characters.
    return f"{100 * error:.2f}/{f'{nmi:.2f}'.removeprefix('0')}"
