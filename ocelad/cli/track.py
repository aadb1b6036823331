"""ocelad track: learn from a file of comparisons."""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.shared import (
    INTERRUPTED,
    ROWS_SKIPPED,
    as_json,
    by_options,
    check_output,
    more_settings,
    opened_pairs,
    print_json,
    print_tables,
    reading_pairs,
    skipping,
    table,
    tell_of_skipped,
    with_more_settings,
)

if TYPE_CHECKING:
    from ocelad.estimators import MetricTracker
    from ocelad.estimators.file_tracking import Tracking
    from ocelad.io import ComparisonStream

# The squared length of pairs that the default step size suits (see track_metric), and how far off goes unremarked.
SUITS_SQUARED_LENGTH, FAR_OFF = 40.0, 8.0
# What is taken off the name of a file to name its tracker.
ENDINGS = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather", ".ipc", ".gz")


@click.command(short_help="Learn from a file of comparisons and save the tracker.")
@click.argument("file")
@reading_pairs
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the tracker is saved; FILE's name with .tracker in the current folder by default.",
)
@click.option("--resume", is_flag=True, help="Go on from OUTPUT where it is there; begin where it is not.")
@click.option(
    "--from",
    "from_",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Begin FILE with what this tracker has learned from another.",
)
@click.option("--restart", is_flag=True, help="Begin anew and replace OUTPUT.")
@click.option(
    "--every",
    default=50_000,
    show_default=True,
    type=click.IntRange(1),
    help="Save after so many pairs; a kill costs at most these.",
)
@skipping
@click.option(
    "--method",
    type=click.Choice(["adaptive", "rice"]),
    help="Default: adaptive, which has nothing to set. What follows are settings of rice, the paper's algorithm.",
)
@click.option("--loss", type=click.Choice(["logistic", "hinge", "squared_hinge"]), help="Default: logistic.")
@click.option("--step-size", type=float, help="eta0; default 0.01, for pairs of squared length around 40.")
@click.option("--shrinkage", type=float, help="rho; default 0.")
@click.option("--diagonal", is_flag=True, help="One weight per feature, no correlations.")
@more_settings
@as_json
@click.option("--quiet", is_flag=True, help="No progress, no report.")
def track(file: str, output: Path | None, as_json: bool, quiet: bool, **options: Any) -> None:
    """Learn from the comparisons of FILE, in their order, and save the tracker.

    FILE is CSV, TSV, JSON lines (each also gzipped), Parquet or Arrow, or - for standard input. Either each row has
    both points (columns x_..., z_... and similar), or it names two ids of a table of items (id_a, id_b, similar).
    Labels are 1/-1, 1/0, true/false, same/different or yes/no. A file of any size is read piece by piece.

    Every pair is first judged by the metric as it is, then learned from; the report shows how that went. Ctrl-C saves
    and stops; --resume goes on, and ends with the same bits as if it had never stopped.

    \b
    Examples:
      ocelad track pairs.csv
      ocelad track answers.parquet --items items.parquet --label same -o answers.tracker
      ocelad track pairs.csv --resume --on-error skip
      ocelad track pairs.csv --method rice --loss hinge --step-size 0.003
      ocelad track today.csv --from yesterday.tracker -o today.tracker
      zcat pairs.jsonl.gz | ocelad track - --format jsonl -o pairs.tracker --json
    """
    from ocelad.estimators import MetricTracker
    from ocelad.estimators.file_tracking import CHUNK, PIPE_CHUNK

    output = output or _default_output(file)
    check_output(output, file, options["items"], options["skipped"], options["from_"])
    tracking = _begun(output, options)
    size = PIPE_CHUNK if file == "-" else CHUNK
    with opened_pairs(file, options, chunk_size=size, resume=tracking.position) as stream:
        start = perf_counter()
        try:
            stopped = _follow(tracking, stream, output, options["every"], quiet=quiet or as_json)
        except KeyboardInterrupt:  # asked twice: not even the chunk at hand is waited for
            sys.exit(INTERRUPTED)
        except Exception:
            if tracking.position is not None and output.exists():
                done = MetricTracker.load(output).n_rounds_
                click.echo(f"{done:,} pairs are in {output}; --resume goes on from there.", err=True)
            raise
        if not tracking.tracker.n_rounds_:
            if stopped:
                click.echo("Stopped before there was anything to learn from.", err=True)
                sys.exit(INTERRUPTED)
            tell_of_skipped(stream)
            raise ValueError(f"{file} has no rows to learn from")
        seconds = perf_counter() - start
    if as_json:
        print_json({**_report(tracking, stream), "output": str(output), "stopped": bool(stopped)})
    elif not quiet:
        _print_report(tracking, stream, output, seconds)
    tell_of_skipped(stream)
    if stopped:
        click.echo(f"Stopped and saved; go on with: {_same_command_resumed()}", err=True)
        sys.exit(INTERRUPTED)
    if stream.n_skipped:
        sys.exit(ROWS_SKIPPED)


def _same_command_resumed() -> str:
    given = [argument for argument in sys.argv[1:] if argument not in ("--restart", "--resume")]
    return shlex.join(["ocelad", *given, "--resume"])


def _default_output(file: str) -> Path:
    if file == "-":
        raise click.UsageError("standard input has no name; say with --output where the tracker goes")
    path = Path(Path(file).name)
    while path.suffix.lower() in ENDINGS:
        path = path.with_suffix("")
    return Path(f"{path.name}.tracker")


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """What was said about the tracker, and nothing else."""
    settings = {
        name: options[name] for name in ("method", "loss", "step_size", "shrinkage") if options[name] is not None
    }
    settings |= {"diagonal": True} if options["diagonal"] else {}
    return with_more_settings(settings, options["more"])


def _begun(output: Path, options: dict[str, Any]) -> Tracking:
    """A new tracking, or the one that was saved."""
    from ocelad.estimators.file_tracking import Tracking
    from ocelad.io import atomic, state_files

    settings = _settings(options)
    if options["resume"] and options["restart"]:
        raise click.UsageError("--resume goes on and --restart begins anew; only one of them can be")
    if output.exists() and options["restart"] and state_files.read_kind(output) != "tracker":
        raise click.UsageError(f"{str(output)!r} holds no tracker; --restart replaces only those")
    if not output.exists() or options["restart"]:
        atomic.remove_leftovers(output)
        if options["from_"] is None:
            return Tracking(_made(settings))
        tracking = Tracking.load(options["from_"])
        tracking.position = None
        return _with_settings(tracking, settings, options["from_"])
    if not options["resume"]:
        raise click.UsageError(f"{str(output)!r} is there; --resume goes on from it, --restart replaces it")
    tracking = Tracking.load(output)
    atomic.remove_leftovers(output)
    if tracking.position is None and tracking.tracker.n_rounds_:
        raise click.UsageError(
            f"{str(output)!r} was saved from Python and does not know where in a file it is; "
            "go on in Python, or --restart"
        )
    return _with_settings(tracking, settings, output)


def _with_settings(tracking: Tracking, settings: dict[str, Any], file: Path) -> Tracking:
    """The tracking, if it was begun with these settings."""
    _made({"method": tracking.tracker.method, **settings})
    for name, value in settings.items():
        if getattr(tracking.tracker, name) != value:
            raise click.UsageError(
                f"{str(file)!r} was begun with {name} {getattr(tracking.tracker, name)!r}, not {value!r}; leave the "
                "option out, or begin anew"
            )
    return tracking


def _made(settings: dict[str, Any]) -> MetricTracker:
    """A tracker with these settings; what is wrong with them is told before anything is read."""
    from ocelad.estimators import MetricTracker

    try:
        MetricTracker(**settings).start(1)
    except (ValueError, TypeError) as error:
        raise click.UsageError(by_options(str(error))) from None
    return MetricTracker(**settings)


def _follow(tracking: Tracking, stream: ComparisonStream, output: Path, every: int, quiet: bool) -> bool:
    """Track the stream with a live bar on a terminal, a line per save elsewhere; whether it was told to stop."""
    with _asked_to_stop(stream) as asked, closing(tracking.follow(stream, output, every)) as rounds:
        if quiet or not sys.stderr.isatty():
            for progress in rounds:
                if progress.saved and not quiet:
                    click.echo(f"pair {progress.n_pairs:>12,}  {_words(tracking)}  saved", err=True)
            return bool(asked)

        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        columns = (
            BarColumn(bar_width=16),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task, start, first = bar.add_task("", total=stream.total_bytes), perf_counter(), None
            for progress in rounds:
                first = progress.n_pairs if first is None else first
                rate = (progress.n_pairs - first) / max(perf_counter() - start, 1e-9)
                words = f"{progress.n_pairs:,} pairs, {rate:,.0f}/s, {_words(tracking)}"
                bar.update(task, completed=stream.bytes_read, description=words)
            return bool(asked)


@contextmanager
def _asked_to_stop(stream: ComparisonStream) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM only ask the stream to end; the second of them is not waited for."""
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        stream.stop()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _words(tracking: Tracking) -> str:
    lately = tracking.history.lately()
    return f"loss {lately.loss:.3f}, {lately.accuracy:.1%} right"


def _rows(tracking: Tracking, most: int) -> list[dict[str, Any]]:
    experts = tracking.tracker.experts_
    return [
        {
            "pairs": row.round,
            "loss": row.loss,
            "accuracy": row.accuracy,
            "drift": row.drift,
            "leading": experts[row.scale],
        }
        for row in tracking.history.rows(most)
    ]


def _report(tracking: Tracking, stream: ComparisonStream) -> dict[str, Any]:
    total, tracker = tracking.history.total(), tracking.tracker
    return {
        "pairs": tracker.n_rounds_,
        "features": tracker.n_features_in_,
        "skipped": stream.n_skipped,
        "out_of_order": stream.n_out_of_order,
        "loss": total.loss,
        "accuracy": total.accuracy,
        "drift": total.drift,
        "method": tracker.method_,
        "engine": tracker.engine_,
        "rows": _rows(tracking, 20),
    }


def _print_report(tracking: Tracking, stream: ComparisonStream, output: Path, seconds: float) -> None:
    total, tracker = tracking.history.total(), tracking.tracker
    rows = [
        [
            f"{row['pairs']:,}",
            f"{row['loss']:.3f}",
            f"{row['accuracy']:.1%}",
            f"{row['drift']:.3f}",
            row["leading"],
        ]
        for row in _rows(tracking, 12)
    ]
    rows.append(["all", f"{total.loss:.3f}", f"{total.accuracy:.1%}", f"{total.drift:.3f}", ""])
    columns = ["pairs up to", "loss", "right", "drift per 1000", "leading expert"]
    print_tables(table("Each pair judged before it was learned from", columns, rows))
    click.echo(f"{tracker.n_rounds_:,} pairs of {tracker.n_features_in_} features in {seconds:.1f} s of this run.")
    if stream.n_out_of_order:
        click.echo(f"{stream.n_out_of_order:,} rows are earlier than the row before them; the file's order was kept.")
    _warn_of_scale(tracking)
    click.echo(f"Saved: {output}")


def _warn_of_scale(tracking: Tracking) -> None:
    """A step size that does not suit the data's scale fails silently; say so."""
    tracker: MetricTracker = tracking.tracker
    square = tracking.history.total().squared_length
    if tracker.method_ != "rice" or tracker.step_size != type(tracker)().step_size or not square:
        return
    if tracker.n_rounds_ >= 100 and not 1 / FAR_OFF < square / SUITS_SQUARED_LENGTH < FAR_OFF:
        click.echo(
            f"Note: the pairs' squared length is {square:.3g} on average, and the default step size suits about "
            f"{SUITS_SQUARED_LENGTH:g}: what was learned may be poor. Bring the features to a standard deviation of "
            "about 1 first.",
            err=True,
        )
