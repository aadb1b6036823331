"""ocelad fleet track: learn one distance per key from a file of comparisons."""

from __future__ import annotations

import sys
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

import click

from ocelad.cli.completion_words import FilePath
from ocelad.cli.exit_codes import INTERRUPTED, ROWS_SKIPPED
from ocelad.cli.file_kind import check_fleet, describe_file
from ocelad.cli.fleet_report import describe_fleet, find_changed, fleet_rows, memory_option
from ocelad.cli.one_answer import note_one_answer
from ocelad.cli.options import json_option
from ocelad.cli.output import check_output, count_of, make_table, print_json, print_tables
from ocelad.cli.pair_files import bad_row_options, open_pairs, pair_file_options, report_skipped
from ocelad.cli.progress import show_pairs
from ocelad.cli.resuming import default_output, resume_command, stop_on_signal

if TYPE_CHECKING:
    from ocelad.fleet import Fleet
    from ocelad.io import ComparisonChunk, ComparisonStream, KnownFeatures

# Rows per chunk of a pipe: a slow one delays learning until a chunk is full.
PIPE_CHUNK_SIZE = 4096
# The least number of seconds between two lines of progress.
LINE_SECONDS = 10.0


@click.command("track", short_help="Learn one distance per key from a file of comparisons.")
@click.argument("file", type=FilePath())
@click.option(
    "--key",
    metavar="COLUMN",
    required=True,
    help="The column of keys: to whom or to what each answer belongs, such as a user, a tenant or a site.",
)
@pair_file_options
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of the fleet; by default FILE's name with .fleet in the current folder.",
)
@click.option("--resume", is_flag=True, help="Continue from OUTPUT; start from the beginning if it does not exist.")
@click.option("--restart", is_flag=True, help="Start from the beginning and replace OUTPUT.")
@bad_row_options
@click.option(
    "--form",
    type=click.Choice(["exact", "compact"]),
    help="Whether the trackers are stored with all their bits, or in less space, for at most 128 features.  "
    "[default: exact]",
)
@click.option(
    "--shared/--no-shared",
    default=None,
    help="Whether a new key begins with what other keys have taught, as far as that helps.  [default: shared]",
)
@memory_option
@json_option
@click.option("--quiet", is_flag=True, help="Print neither progress nor report.")
def track(file: str, output: Path | None, as_json: bool, quiet: bool, **options: Any) -> None:
    """Learn one distance per key from the comparisons of FILE, in their order, and save them in one file.

    FILE has the formats and columns that `ocelad track` reads, and a column of keys: a user, a tenant, a site or a
    topic. Each key has a tracker of its own, which learns from the answers of this key only; a new one begins with what
    other keys have taught, as far as that helps. Keys are texts: the number 17 and the text "17" are the same key. An
    empty cell is no key. Answers by ids of items imply no others here.

    The file is read in chunks and can have any size, and so can the fleet: with more keys than --memory has room for,
    the least recently used trackers are on the disk only. What was learned is saved after each chunk. Ctrl-C stops
    after the current one. --resume continues, also after a kill, and gives exactly the same fleet as a run without
    interruption.

    In Python, `ocelad.fleet.Fleet.open` opens the file.

    \b
    Examples:
      ocelad fleet track answers.csv --key user
      ocelad fleet track answers.parquet --key tenant --items items.parquet --label same -o tenants.fleet
      ocelad fleet track answers.csv --key user --form compact --memory "4 GB"
      ocelad fleet track answers.csv --key user --resume --on-error skip
      zcat answers.jsonl.gz | ocelad fleet track - --key site --format jsonl -o sites.fleet --json
    """
    output = output or default_output(file, ".fleet")
    check_output(output, file, options["items"], options["skipped"])
    try:
        with (
            _FileLearning(output, options) as learning,
            open_pairs(file, {**options, "quiet": quiet}, learning.known_features, **learning.reading(file)) as stream,
        ):
            start = monotonic()
            stopped = _learn(learning, stream, options["on_error"], is_shown=not (quiet or as_json))
            seconds = monotonic() - start
            if not learning.n_answers:
                if stopped:
                    click.echo("Stopped before the first pair.", err=True)
                    sys.exit(INTERRUPTED)
                report_skipped(stream)
                raise ValueError(f"{file} has no rows to learn from")
            assert learning.fleet is not None
            content = {} if quiet and not as_json else _describe(learning.fleet, is_shown=not as_json)
    except KeyboardInterrupt:  # the second signal: exit without finishing the chunk, which the file has
        sys.exit(INTERRUPTED)
    content["file_bytes"] = output.stat().st_size
    if as_json:
        counts = {"skipped": stream.n_skipped, "out_of_order": stream.n_out_of_order}
        print_json({**content, **counts, "output": str(output), "stopped": stopped})
    elif not quiet:
        _print_report(content, learning, stream, output, seconds)
    report_skipped(stream)
    if not learning.is_resumed and (note := note_one_answer(learning.n_similar, learning.n_dissimilar, file)):
        click.echo(f"{note} A distance is learned from both.", err=True)
    if stopped:
        click.echo(f"Stopped and saved; to continue: {resume_command(file)}", err=True)
        sys.exit(INTERRUPTED)
    if stream.n_skipped:
        sys.exit(ROWS_SKIPPED)


class _FileLearning:
    """The fleet that learns from a file. A new one is created with the first chunk: a wrong file leaves none behind.

    It is durable: each chunk is in the file together with the position after it, as soon as it is learned from.
    """

    def __init__(self, output: Path, options: dict[str, Any]) -> None:
        self.output, self._memory = output, options["memory"]
        self.n_similar = self.n_dissimilar = 0
        self._settings = {name: options[name] for name in ("form", "shared") if options[name] is not None}
        self._replaces = False
        self.fleet = self._open(options)
        self.is_resumed = self.fleet is not None and self.fleet.n_answers > 0

    def _open(self, options: dict[str, Any]) -> Fleet | None:
        """Return the fleet that --resume continues; None: a new one will be created."""
        from ocelad.fleet import Fleet
        from ocelad.fleet.file_learning import find_position

        output = self.output
        if options["resume"] and options["restart"]:
            raise click.UsageError("--resume and --restart exclude each other")
        if not output.exists():
            return None
        if options["restart"]:
            if describe_file(output) != "a fleet":
                raise click.UsageError(f"{str(output)!r} is not a saved fleet; --restart replaces only those")
            self._replaces = True
            return None
        if not options["resume"]:
            raise click.UsageError(f"{str(output)!r} exists; --resume continues from it, --restart replaces it")
        fleet = Fleet.open(check_fleet(output), memory=self._memory, durable=True)
        try:
            self._check_settings(fleet)
            if fleet.n_answers and find_position(fleet) is None:
                raise click.UsageError(
                    f"{str(output)!r} last learned in Python and has no position in a file; continue in Python, or "
                    "--restart"
                )
        except BaseException:
            fleet.close()
            raise
        return fleet

    def _check_settings(self, fleet: Fleet) -> None:
        """Raise ``UsageError`` if the fleet has other settings than those that were given."""
        saved = {"form": fleet.settings.form, "shared": {"learned": True, "none": False}.get(fleet.settings.shared)}
        words = {True: "--shared", False: "--no-shared", "exact": "--form exact", "compact": "--form compact"}
        words[None] = "a prior of its own"
        for name, value in self._settings.items():
            if saved[name] != value:
                raise click.UsageError(
                    f"{str(self.output)!r} was started with {words[saved[name]]}, not {words[value]}; omit the option, "
                    "or --restart"
                )

    @property
    def known_features(self) -> KnownFeatures | None:
        """The features of a fleet that continues; None for a new one."""
        from ocelad.io import KnownFeatures

        return KnownFeatures(self.fleet.settings.feature_names) if self.fleet is not None else None

    def reading(self, file: str) -> dict[str, Any]:
        """Return further arguments of ``open_comparisons``."""
        from ocelad.adaptive.adaptive_tracker import MAX_DIFFERENCE
        from ocelad.fleet.file_learning import find_position
        from ocelad.fleet.keyed_pairs import MAX_COMPACT_DIFFERENCE

        form = self._settings.get("form", "exact") if self.fleet is None else self.fleet.form
        return {
            "chunk_size": PIPE_CHUNK_SIZE if file == "-" else None,
            "resume": None if self.fleet is None else find_position(self.fleet),
            "max_difference": min(MAX_DIFFERENCE, MAX_COMPACT_DIFFERENCE if form == "compact" else inf),
        }

    def learn(self, chunk: ComparisonChunk, stream: ComparisonStream) -> None:
        """Learn from a chunk, and save it."""
        from ocelad.fleet import Fleet
        from ocelad.fleet.file_learning import learn_chunk
        from ocelad.fleet.fleet_store import remove_fleet

        if self.fleet is None:
            settings = {"memory": self._memory, "durable": True, **self._settings}
            n_features = len(stream.feature_names)
            Fleet(n_features, **{**settings, "durable": False}).close()  # refuses settings before a file is replaced
            if self._replaces:
                remove_fleet(self.output)
            self.fleet = Fleet(n_features, path=self.output, **settings)
        learn_chunk(self.fleet, chunk, stream.feature_names)
        assert chunk.y is not None
        self.n_similar += int((chunk.y > 0.0).sum())
        self.n_dissimilar += int((chunk.y < 0.0).sum())

    @property
    def n_answers(self) -> int:
        """The number of answers learned from so far."""
        return 0 if self.fleet is None else self.fleet.n_answers

    @property
    def n_keys(self) -> int:
        """The number of keys so far."""
        return 0 if self.fleet is None else len(self.fleet)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        # After the second signal nobody waits: the file has all answers, and learns from the last ones when it is
        # opened.
        if self.fleet is not None and kind is not KeyboardInterrupt:
            self.fleet.close()


def _learn(learning: _FileLearning, stream: ComparisonStream, on_error: str, *, is_shown: bool) -> bool:
    """Learn from the rest of a stream; return whether it was stopped."""
    from ocelad.io.tabular.file_errors import RowError

    try:
        with stop_on_signal(stream) as signals, show_pairs(stream, is_shown=is_shown) as show:
            last = monotonic()
            for chunk in stream:
                learning.learn(chunk, stream)
                is_due = monotonic() - last >= LINE_SECONDS
                last = monotonic() if is_due else last
                show(learning.n_answers, lambda: count_of(learning.n_keys, "key"), is_due)
        return bool(signals)
    except Exception as error:
        is_row = isinstance(error, RowError) and on_error == "stop"
        if learning.n_answers:
            ways = "--resume continues from there"
            ways += "; --resume --on-error skip also leaves out rows that cannot be read" if is_row else ""
            click.echo(f"{learning.output} has the first {count_of(learning.n_answers, 'pair')}; {ways}.", err=True)
        elif is_row:
            click.echo("Nothing was saved. --on-error skip leaves out rows that cannot be read.", err=True)
        raise


def _describe(fleet: Fleet, *, is_shown: bool) -> dict[str, Any]:
    sizes = fleet.key_sizes()
    return describe_fleet(fleet, sizes, find_changed(fleet, sizes, is_shown=is_shown))


def _print_report(
    content: dict[str, Any], learning: _FileLearning, stream: ComparisonStream, output: Path, seconds: float
) -> None:
    print_tables(make_table("Learned", ["", ""], fleet_rows(content)))
    n_learned = learning.n_similar + learning.n_dissimilar
    rate = f", {n_learned / max(seconds, 1e-9):,.0f} per second" if n_learned else ""
    click.echo(f"This run learned from {count_of(n_learned, 'answer')} in {seconds:.1f} s{rate}.")
    if stream.n_out_of_order:
        rows_are = "1 row is" if stream.n_out_of_order == 1 else f"{stream.n_out_of_order:,} rows are"
        click.echo(f"{rows_are} earlier than the row before; the file's order was used.")
    click.echo(f"Saved: {output}")
