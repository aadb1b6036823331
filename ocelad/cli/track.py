"""ocelad track: learn from a file of comparisons."""

from __future__ import annotations

import sys
from contextlib import closing
from math import inf
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.completion_words import FilePath
from ocelad.cli.exit_codes import INTERRUPTED, ROWS_SKIPPED
from ocelad.cli.file_kind import check_tracker
from ocelad.cli.one_answer import note_one_answer
from ocelad.cli.options import from_option, json_option, name_options, parse_settings, setting_option
from ocelad.cli.output import check_output, count_of, make_table, print_json, print_tables
from ocelad.cli.pair_files import bad_row_options, open_pairs, pair_file_options, report_skipped
from ocelad.cli.progress import show_pairs
from ocelad.cli.resuming import default_output, resume_command, stop_on_signal

if TYPE_CHECKING:
    from ocelad.estimators import MetricTracker
    from ocelad.estimators.file_tracker import FileTracker
    from ocelad.io import ComparisonStream, KnownFeatures

# The mean squared length of pairs that the default step size suits (see Rice), and the factor from which
# a different length is reported.
DEFAULT_SQUARED_LENGTH, MAX_LENGTH_FACTOR = 40.0, 8.0
# The least number of pairs whose mean squared length is reported.
MIN_PAIRS_TO_WARN = 100


@click.command(short_help="Learn from a file of comparisons and save the tracker.")
@click.argument("file", type=FilePath())
@pair_file_options
@click.option(
    "--weight", metavar="COLUMN", help="adaptive: the column of weights from 0 to 10; by default all pairs weigh 1."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of the saved tracker; by default FILE's name with .tracker in the current folder.",
)
@click.option("--resume", is_flag=True, help="Continue from OUTPUT; start from the beginning if it does not exist.")
@from_option
@click.option("--restart", is_flag=True, help="Start from the beginning and replace OUTPUT.")
@click.option(
    "--every",
    default=50_000,
    show_default=True,
    type=click.IntRange(1),
    help="The number of pairs between saves; a killed run loses at most this many.",
)
@bad_row_options
@click.option(
    "--method",
    type=click.Choice(["adaptive", "rice"]),
    help="adaptive (default) needs no settings; rice is the paper's algorithm, with the settings below.",
)
@click.option(
    "--curved/--linear",
    default=None,
    help="adaptive: whether the distance has a curved part, for classes with curved borders.  [default: curved]",
)
@click.option(
    "--transitive/--no-transitive",
    default=None,
    help="adaptive, with --items: whether answers imply others (A = B and B = C give A = C), which are learned from, "
    "too; a pair then takes milliseconds.  [default: transitive]",
)
@click.option(
    "--loss", type=click.Choice(["logistic", "hinge", "squared_hinge"]), help="rice: the loss.  [default: logistic]"
)
@click.option(
    "--step-size", type=float, help="rice: eta0; the default suits a mean squared length of 40.  [default: 0.01]"
)
@click.option("--shrinkage", type=float, help="rice: rho, the strength of the regulariser.  [default: 0]")
@click.option("--diagonal", is_flag=True, help="rice: learn one weight per feature and no correlations.")
@setting_option
@json_option
@click.option("--quiet", is_flag=True, help="Print neither progress nor report.")
def track(file: str, output: Path | None, as_json: bool, quiet: bool, **options: Any) -> None:
    """Learn from the comparisons of FILE, in their order, and save the tracker.

    FILE is CSV, TSV, JSON lines (each also gzipped), Parquet or Arrow, or - for standard input. Each row has either
    two points (columns x_..., z_... and similar), or the ids of two items (id_a, id_b, similar) of the table --items.
    Labels are 1/-1, 1/0, true/false, same/different or yes/no. With --weight, answers that count less or more than
    others have a weight in a column. The file is read in chunks and can have any size. With --items, answers imply
    others, and the tracker learns from those, too; --no-transitive turns this off, for large files or if "same" only
    means "near".

    Items may be vectors, such as embeddings of texts or pictures: a column of lists in a Parquet, Arrow or JSON lines
    file, a .npy file (its ids are row numbers from 0), or a .npz file with the arrays ids and vectors. Columns of text
    are left out, with a note. The tracker remembers its features, so that later commands find them.

    Each pair is first predicted, then learned from; the report shows these predictions' loss and accuracy. Ctrl-C
    saves and stops. --resume continues, and gives exactly the same tracker as a run without interruption.

    \b
    Examples:
      ocelad track pairs.csv
      ocelad track answers.parquet --items items.parquet --label same -o answers.tracker
      ocelad track answers.csv --items embeddings.npy
      ocelad track answers.csv --items products.parquet --features vector
      ocelad track answers.csv --items houses.csv --exclude zip_code --missing median
      ocelad track answers.csv --items items.csv --no-transitive
      ocelad track pairs.csv --resume --on-error skip
      ocelad track clicks.csv --weight confidence
      ocelad track pairs.csv --linear
      ocelad track pairs.csv --method rice --loss hinge --step-size 0.003
      ocelad track today.csv --from yesterday.tracker -o today.tracker
      zcat pairs.jsonl.gz | ocelad track - --format jsonl -o pairs.tracker --json
    """
    from ocelad.adaptive.adaptive_tracker import MAX_DIFFERENCE
    from ocelad.estimators import MetricTracker
    from ocelad.estimators.file_tracker import CHUNK_SIZE, PIPE_CHUNK_SIZE, SMALL_BYTES, SMALL_CHUNK_SIZE
    from ocelad.estimators.learning_method import check_method
    from ocelad.io.tabular.file_errors import RowError

    output = output or default_output(file, ".tracker")
    check_output(output, file, options["items"], options["skipped"], options["from_"])
    if options["transitive"] and not options["items"]:
        raise click.UsageError("--transitive needs --items: answers imply others only about items with ids")
    tracking = _open_tracking(output, options)
    adaptive = check_method(tracking.tracker.method) == "adaptive"
    if options["weight"] is not None and not adaptive:
        raise click.UsageError("--weight needs the method adaptive; the method rice has no weights of pairs")
    size = PIPE_CHUNK_SIZE if file == "-" else CHUNK_SIZE
    if file != "-" and Path(file).is_file() and Path(file).stat().st_size <= SMALL_BYTES:
        size = SMALL_CHUNK_SIZE
    limit = MAX_DIFFERENCE if adaptive else inf
    known = _known_features(tracking)
    reading = {"chunk_size": size, "resume": tracking.position, "max_difference": limit}
    with open_pairs(file, {**options, "quiet": quiet}, known, **reading) as stream:
        start = perf_counter()
        try:
            stopped = _track(tracking, stream, output, options["every"], quiet=quiet or as_json)
        except KeyboardInterrupt:  # the second signal: exit without finishing the chunk
            sys.exit(INTERRUPTED)
        except Exception as error:
            is_row = isinstance(error, RowError) and options["on_error"] == "stop"
            if tracking.position is not None and output.exists():
                done = MetricTracker.load(output).n_rounds_
                ways = "--resume continues from there"
                ways += "; --resume --on-error skip also leaves out rows that cannot be read" if is_row else ""
                click.echo(f"{output} has the first {count_of(done, 'pair')}; {ways}.", err=True)
            elif is_row:
                click.echo("Nothing was saved. --on-error skip leaves out rows that cannot be read.", err=True)
            raise
        if not tracking.tracker.n_rounds_:
            if stopped:
                click.echo("Stopped before the first pair.", err=True)
                sys.exit(INTERRUPTED)
            report_skipped(stream)
            raise ValueError(f"{file} has no rows to learn from")
        seconds = perf_counter() - start
    if as_json:
        print_json({**_make_report(tracking, stream), "output": str(output), "stopped": bool(stopped)})
    elif not quiet:
        _print_report(tracking, stream, output, seconds)
    report_skipped(stream)
    sketch = tracking.sketch
    if sketch is not None and (note := note_one_answer(sketch.n_similar, sketch.n_dissimilar, file)):
        click.echo(f"{note} A distance is learned from both.", err=True)
    if stopped:
        click.echo(f"Stopped and saved; to continue: {resume_command(file)}", err=True)
        sys.exit(INTERRUPTED)
    if stream.n_skipped:
        sys.exit(ROWS_SKIPPED)


def _known_features(tracking: FileTracker) -> KnownFeatures | None:
    """Return the features of a tracker that continues; None for a new one."""
    from ocelad.io import KnownFeatures

    if not tracking.tracker.__sklearn_is_fitted__():
        return None
    names = getattr(tracking.tracker, "feature_names_in_", None)
    return KnownFeatures(None if names is None else tuple(names), tracking.vector_column)


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the tracker that were given."""
    settings = {
        name: options[name] for name in ("method", "loss", "step_size", "shrinkage") if options[name] is not None
    }
    settings |= {"diagonal": True} if options["diagonal"] else {}
    settings |= {name: options[name] for name in ("curved", "transitive") if options[name] is not None}
    return parse_settings(settings, options["more"])


def _open_tracking(output: Path, options: dict[str, Any]) -> FileTracker:
    """Return a new tracking, or load the one that --resume or --from names."""
    from ocelad.estimators.file_tracker import FileTracker
    from ocelad.io import atomic, state_files

    settings = _settings(options)
    if options["resume"] and options["restart"]:
        raise click.UsageError("--resume and --restart exclude each other")
    if output.exists() and options["restart"] and state_files.read_kind(output) != "tracker":
        raise click.UsageError(f"{str(output)!r} is not a saved tracker; --restart replaces only those")
    if not output.exists() or options["restart"]:
        atomic.remove_leftovers(output)
        if options["from_"] is None:
            return FileTracker(_make_tracker(settings))
        tracking = FileTracker.load(options["from_"])
        tracking.position = None
        _check_same_settings(tracking, settings, options["from_"])
        return tracking
    if not options["resume"]:
        raise click.UsageError(f"{str(output)!r} exists; --resume continues from it, --restart replaces it")
    tracking = FileTracker.load(check_tracker(output))
    atomic.remove_leftovers(output)
    if tracking.position is None and tracking.tracker.n_rounds_:
        raise click.UsageError(
            f"{str(output)!r} was saved from Python and has no position in a file; continue in Python, or --restart"
        )
    _check_same_settings(tracking, settings, output)
    return tracking


def _check_same_settings(tracking: FileTracker, settings: dict[str, Any], file: Path) -> None:
    """Raise ``UsageError`` if the saved tracker has other settings than those that were given."""
    from ocelad.engines.rice_settings import Rice
    from ocelad.estimators.learning_method import method_settings

    tracker = tracking.tracker
    saved = Rice().get_params() | method_settings(tracker.method)
    saved |= {"curved": tracker.curved, "transitive": bool(tracker.transitive)}
    _make_tracker({"method": saved["method"], **settings})
    for name, value in settings.items():
        if saved[name] != value:
            raise click.UsageError(
                f"{str(file)!r} was started with {name} {saved[name]!r}, not {value!r}; omit the option, or --restart"
            )


def _make_tracker(settings: dict[str, Any]) -> MetricTracker:
    """Return a tracker with these settings; raise ``UsageError`` if they are wrong, before any file is read."""
    from ocelad.estimators import MetricTracker
    from ocelad.estimators.learning_method import method_from_settings

    try:
        of_method = {name: value for name, value in settings.items() if name not in ("curved", "transitive")}
        method = method_from_settings({"method": "adaptive", **of_method})
        curved = settings.get("curved", method == "adaptive")
        if curved and method != "adaptive":
            raise click.UsageError("--curved needs the method adaptive; omit --curved, or omit --method rice")
        MetricTracker(method=method, curved=curved).start(1)
    except (ValueError, TypeError) as error:
        raise click.UsageError(name_options(str(error))) from None
    if settings.get("transitive") and method != "adaptive":
        raise click.UsageError("--transitive needs the method adaptive; omit --transitive, or omit --method rice")
    return MetricTracker(method=method, curved=curved, transitive="auto" if settings.get("transitive", True) else False)


def _track(tracking: FileTracker, stream: ComparisonStream, output: Path, every: int, quiet: bool) -> bool:
    """Track the stream, with a live bar on a terminal or a line per save elsewhere; return whether it was stopped."""
    from threadpoolctl import threadpool_limits

    with (
        threadpool_limits(1, user_api="blas"),  # matrices are small; where others use the cores, threads only wait
        stop_on_signal(stream) as signals,
        closing(tracking.follow(stream, output, every)) as chunks,
        show_pairs(stream, is_shown=not quiet) as show,
    ):
        for progress in chunks:
            show(progress.n_pairs, lambda: _describe_recent(tracking), progress.saved)
    return bool(signals)


def _describe_recent(tracking: FileTracker) -> str:
    recent = tracking.history.last()
    return f"loss {recent.loss:.3f}, accuracy {recent.accuracy:.1%}"


def _history_rows(tracking: FileTracker, max_rows: int) -> list[dict[str, Any]]:
    experts = tracking.tracker.experts_
    return [
        {
            "pairs": row.round,
            "loss": row.loss,
            "accuracy": row.accuracy,
            "drift": row.drift,
            "leading": experts[row.leading_expert],
        }
        for row in tracking.history.rows(max_rows)
    ]


def _make_report(tracking: FileTracker, stream: ComparisonStream) -> dict[str, Any]:
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
        **_describe_implied(tracker),
        "rows": _history_rows(tracking, 20),
    }


def _describe_implied(tracker: MetricTracker) -> dict[str, Any]:
    """Describe what the answers imply; nothing if they imply none."""
    from ocelad.cli.inspect import describe_implied

    return describe_implied(tracker)


def _print_report(tracking: FileTracker, stream: ComparisonStream, output: Path, seconds: float) -> None:
    from ocelad.adaptive.expert_names import describe_expert

    total, tracker = tracking.history.total(), tracking.tracker
    rows = [
        [
            f"{row['pairs']:,}",
            f"{row['loss']:.3f}",
            f"{row['accuracy']:.1%}",
            f"{row['drift']:.3f}",
            describe_expert(row["leading"]),
        ]
        for row in _history_rows(tracking, 12)
    ]
    rows.append(["all", f"{total.loss:.3f}", f"{total.accuracy:.1%}", f"{total.drift:.3f}", ""])
    columns = ["pairs up to", "loss", "accuracy", "drift per 1000", "leading expert"]
    print_tables(make_table("Predictions before learning from each pair", columns, rows))
    pairs, features = count_of(tracker.n_rounds_, "pair"), count_of(tracker.n_features_in_, "feature")
    click.echo(f"{pairs} of {features}; this run took {seconds:.1f} s.")
    if implied := _describe_implied(tracker):
        comparisons, groups = count_of(implied["implied"], "comparison"), count_of(implied["groups"], "group")
        n_against = implied["contradictions"]
        against = "1 pair contradicts" if n_against == 1 else f"{n_against:,} pairs contradict"
        click.echo(f"The answers imply {comparisons} and {groups}; {against} the groups.")
    if stream.n_out_of_order:
        rows_are = "1 row is" if stream.n_out_of_order == 1 else f"{stream.n_out_of_order:,} rows are"
        click.echo(f"{rows_are} earlier than the row before; the file's order was used.")
    _warn_if_badly_scaled(tracking)
    click.echo(f"Saved: {output}")


def _warn_if_badly_scaled(tracking: FileTracker) -> None:
    """Warn if the default step size does not suit the scale of the data, which otherwise fails silently."""
    from ocelad.engines.rice_settings import Rice
    from ocelad.estimators.learning_method import check_method

    tracker: MetricTracker = tracking.tracker
    square, method = tracking.history.total().squared_length, check_method(tracker.method)
    if not isinstance(method, Rice) or method.step_size != Rice().step_size or not square:
        return
    if tracker.n_rounds_ < MIN_PAIRS_TO_WARN:
        return
    if not 1 / MAX_LENGTH_FACTOR < square / DEFAULT_SQUARED_LENGTH < MAX_LENGTH_FACTOR:
        click.echo(
            f"Note: the mean squared length of the pairs is {square:.3g}, and the default step size suits about "
            f"{DEFAULT_SQUARED_LENGTH:g}: the learned metric may be poor. Scale the features to a standard deviation "
            "of about 1 first.",
            err=True,
        )
