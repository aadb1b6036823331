"""The command line: parse, call, print. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import ocelad

if TYPE_CHECKING:
    from rich.console import Console

    from ocelad.demo import Demo, Snapshot

PICTURES = (".png", ".pdf", ".svg")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(ocelad.__version__, prog_name="ocelad")
def cli() -> None:
    """Track a distance that keeps changing, from answers to "are these two the same?".

    \b
    Examples:
      ocelad demo                         a drifting stream: a table and a picture
      ocelad demo --rounds 1200 --seed 7
      ocelad warm                         compile the fast engine ahead of its use
    """


@cli.command(short_help="Track the paper's drifting stream live.")
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

    from ocelad.demo import Demo

    _check_picture(output)
    no_picture = _why_no_picture()
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


@cli.command(short_help="Compile the fast engine's kernels ahead of their first use.")
def warm() -> None:
    """Compile the kernels of the fast engine and of diagonal metrics now, so that the first use does not wait.

    It takes about half a minute. What is compiled is kept on disk, beside the package or in NUMBA_CACHE_DIR.

    \b
    Example:
      ocelad warm
    """
    from time import perf_counter

    start = perf_counter()
    from ocelad.online.warm import warm as compile_all

    compile_all()
    click.echo(f"The kernels are compiled ({perf_counter() - start:.1f} s).")


def _check_picture(path: Path) -> None:
    """Refuse before the work what would fail after it."""
    if path.suffix.lower() not in PICTURES:
        raise click.BadParameter(
            f"{str(path)!r} does not end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}", param_hint="--output"
        )
    if not path.parent.is_dir():
        raise click.BadParameter(f"the folder {str(path.parent)!r} does not exist", param_hint="--output")
    if not os.access(path.parent, os.W_OK):
        raise click.BadParameter(f"the folder {str(path.parent)!r} cannot be written to", param_hint="--output")


def _why_no_picture() -> str | None:
    from ocelad.plots import pyplot

    try:
        pyplot().switch_backend("agg")  # a file, on machines without a screen too
    except ImportError as error:
        return str(error)
    return None


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
    return f"{snapshot.phase.name:<17} 5-NN error {error}, heaviest length {snapshot.heaviest_length}"


def _demo_table(run: Demo) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from ocelad.demo import COLORS

    table = Table(title="5-NN error in % / NMI of k-means (1 is perfect), by phase", box=SIMPLE_HEAD)
    table.add_column("phase")
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
    return f"{100 * error:5.2f} / {nmi:.2f}"


def main() -> None:
    """Run the command line; whatever goes wrong is told in one sentence."""
    try:
        cli(prog_name="ocelad")
    except Exception as error:
        if os.environ.get("OCELAD_TRACEBACK"):
            raise
        kind = "" if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: "
        click.echo(f"Error: {kind}{error} (OCELAD_TRACEBACK=1 shows where)", err=True)
        sys.exit(1)
