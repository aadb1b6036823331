"""ocelad embed, ocelad distance: apply a saved tracker to items and to pairs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.completion_words import FilePath
from ocelad.cli.exit_codes import ROWS_SKIPPED
from ocelad.cli.options import tracker_argument
from ocelad.cli.output import check_output, count_of
from ocelad.cli.pair_files import (
    bad_row_options,
    item_table_options,
    open_item_table,
    open_pairs,
    pair_file_options,
    report_skipped,
    skipped_rows_path,
)
from ocelad.cli.progress import show_bytes

if TYPE_CHECKING:
    from ocelad._typing import Floats
    from ocelad.estimators.saved_metric import SavedMetric
    from ocelad.io import ItemStream
    from ocelad.io.table_output import ColumnKind

# The ids of further items are not searched for repetitions, so that a large file needs no more memory.
MAX_CHECKED_IDS = 1_000_000

table_output_option = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A .csv, .jsonl, .parquet or .arrow file; by default CSV on standard output.",
)


@click.command(short_help="Map items to points in the learned space.")
@tracker_argument
@click.argument("items", type=FilePath())
@click.option(
    "--dimensions",
    type=click.IntRange(1),
    help="Only the first N principal axes of the items in the learned space; all dimensions by default.",
)
@click.option(
    "--axes-of",
    type=FilePath(),
    metavar="FILE",
    help="With --dimensions: the items whose principal axes are used, so that several files get the same axes; by "
    "default ITEMS.",
)
@click.option("--label", metavar="COLUMN", help="A column that is copied to the output.")
@item_table_options
@table_output_option
def embed(
    tracker: Path, items: str, dimensions: int | None, label: str | None, output: Path | None, **options: Any
) -> None:
    """Map ITEMS to points whose Euclidean distance is the distance that TRACKER has learned.

    TRACKER is a file that `ocelad track` or Metric.save wrote. ITEMS is a table with the features that the tracker was
    trained on: CSV, TSV, JSON lines, Parquet, Arrow, .npy or .npz; or one with a column of vectors of the same length.
    All dimensions are sorted by eigenvalue, largest first. With --dimensions N, they are the N directions in which the
    items differ most in the learned space. These depend on the items: to compare points of several files, give each
    command the same file with --axes-of.

    \b
    Examples:
      ocelad embed pairs.tracker items.csv > points.csv
      ocelad embed pairs.tracker items.parquet --dimensions 2 -o points.parquet
      ocelad embed pairs.tracker queries.npy --dimensions 64 --axes-of embeddings.npy -o queries.parquet
    """
    import numpy as np

    from ocelad.estimators.saved_metric import load_metric
    from ocelad.io import open_output
    from ocelad.io.item_files import SeenIds

    check_table_output(output, tracker, items, options["axes_of"])
    if options["axes_of"] and dimensions is None:
        raise click.UsageError("--axes-of needs --dimensions; without it, all dimensions are used")
    saved = load_metric(tracker)
    points_of = _find_embedding(saved, items, dimensions, options)
    with _open_embedded(saved, items, options, label=label) as rows:
        n_dimensions = points_of(np.zeros((1, saved.metric.n_features))).shape[1]
        if dimensions is not None and n_dimensions < dimensions:
            click.echo(f"Note: the learned space has only {count_of(n_dimensions, 'dimension')}.", err=True)
        names = [f"dimension_{j}" for j in range(n_dimensions)]
        copied = ["id"] if label is None else ["id", label]
        kinds: dict[str, ColumnKind] = dict.fromkeys(copied, "value")
        kinds |= dict.fromkeys(names, "float")
        n_rows, seen, repeated = 0, SeenIds(rows, MAX_CHECKED_IDS), None
        with open_output(output, kinds) as out, show_bytes(rows, "Embedding", is_shown=output is not None) as chunks:
            for chunk in chunks:
                repeated = repeated or seen.add(chunk)
                points = points_of(chunk.X)
                n_rows += len(points)
                out.write(
                    dict(zip(copied, (chunk.ids, chunk.labels), strict=False)) | dict(zip(names, points.T, strict=True))
                )
        if output is not None:
            report_table(output, n_rows, len(kinds))
        if repeated is not None:
            click.echo(f"Note: {repeated}; all rows are embedded.", err=True)
        exit_if_skipped(rows)


def _open_embedded(saved: SavedMetric, items: str, options: dict[str, Any], **arguments: Any) -> ItemStream:
    """Open the items that are embedded, and check their features."""
    arguments = {
        "format": options["format_"],
        "on_error": options["on_error"],
        "skipped": skipped_rows_path(items, options),
        **arguments,
    }
    rows = open_item_table(items, options, saved.features, **arguments)
    try:
        saved.check_features(rows.feature_names, items)
    except BaseException:
        rows.close()
        raise
    return rows


def _find_embedding(
    saved: SavedMetric, items: str, dimensions: int | None, options: dict[str, Any]
) -> Callable[[Any], Floats]:
    """Return the function that maps items to points of the output."""
    from ocelad.curved_metric import project
    from ocelad.estimators.leading_axes import MAX_PROJECTED

    metric = saved.metric
    if dimensions is None:
        return metric.embed
    if metric.n_features > MAX_PROJECTED:
        click.echo(
            f"Note: with more than {MAX_PROJECTED:,} features, dimensions are those of the largest eigenvalues.",
            err=True,
        )
        return lambda X: metric.embed(X, dimensions)
    projection = _find_projection(saved, items, dimensions, options)
    return lambda X: project(metric, X, projection)


def _find_projection(saved: SavedMetric, items: str, dimensions: int, options: dict[str, Any]) -> Floats:
    """Return the matrix whose columns are the first principal axes of the items in the learned space."""
    file = options["axes_of"] or items
    if file == "-":
        raise click.UsageError(
            "standard input can be read only once, and --dimensions reads the items twice; give a file, or --axes-of"
        )
    format_ = options["format_"] if file == items else None
    with (
        _open_embedded(saved, file, {**options, "format_": format_, "quiet": True}, label=False) as rows,
        show_bytes(rows, "Finding the axes") as chunks,
    ):
        return saved.metric.projection((chunk.X for chunk in chunks), dimensions)


@click.command(short_help="Compute the learned distance of each pair in a file.")
@tracker_argument
@click.argument("file", type=FilePath())
@pair_file_options
@bad_row_options
@table_output_option
def distance(tracker: Path, file: str, output: Path | None, **options: Any) -> None:
    """Compute the learned distance of each pair in FILE, and predict whether it is similar.

    FILE has the format that `ocelad track` reads, and needs no labels. The output has one row per pair: its line in
    FILE; the ids and all other columns of FILE that are not features, except those that are named like one of the
    output's own; the distance; with the method adaptive the calibrated probability of "same"; and 1 (similar) or -1
    (dissimilar).

    \b
    Examples:
      ocelad distance pairs.tracker new_pairs.csv
      ocelad distance pairs.tracker candidates.csv --items items.csv -o distances.parquet
    """
    from ocelad.estimators.saved_metric import load_metric
    from ocelad.io import open_output

    check_table_output(output, tracker, file, options["items"])
    saved = load_metric(tracker)
    with open_pairs(file, options, saved.features, label=False, time=False, keep=True) as stream:
        saved.check_features(stream.feature_names, file)
        measured = _measured_columns(saved)
        copied = [name for name in stream.kept_columns if name not in ("line", *measured)]
        n_rows = 0
        columns: dict[str, ColumnKind] = {"line": "integer", **dict.fromkeys(copied, "value"), **measured}
        with (
            open_output(output, columns) as out,
            show_bytes(stream, "Measuring", is_shown=output is not None) as chunks,
        ):
            for chunk in chunks:
                kept = {name: chunk.kept[name] for name in copied}
                n_rows += len(chunk.pairs)
                out.write({"line": chunk.lines, **kept, **_measure_pairs(saved, chunk.pairs)})
        if output is not None:
            report_table(output, n_rows, len(columns))
        if not saved.is_calibrated:
            click.echo('Note: no probabilities of "same": only the method adaptive calibrates them.', err=True)
        exit_if_skipped(stream)


def _measured_columns(saved: SavedMetric) -> dict[str, ColumnKind]:
    """Return the columns that are computed, in their order."""
    probability: dict[str, ColumnKind] = {"probability": "float"} if saved.is_calibrated else {}
    return {"distance": "float", **probability, "similar": "integer"}


def _measure_pairs(saved: SavedMetric, pairs: Floats) -> dict[str, Any]:
    """Return the values of the computed columns for pairs of shape (n_pairs, 2, n_features)."""
    from scipy.special import expit

    distances = saved.metric.distance(pairs[:, 0], pairs[:, 1])
    probability = {"probability": expit(saved.log_odds(pairs))} if saved.is_calibrated else {}
    return {"distance": distances, **probability, "similar": saved.predict(pairs)}


def check_table_output(output: Path | None, *inputs: str | Path | None) -> None:
    """Refuse an output that could not be written, or whose name does not say its format."""
    from ocelad.io import OUTPUT_SUFFIXES

    if output is not None:
        check_output(output, *inputs)
        if output.suffix.lower() not in OUTPUT_SUFFIXES:
            raise click.BadParameter(
                f"{str(output)!r} does not end in {', '.join(OUTPUT_SUFFIXES)}", param_hint="--output"
            )


def report_table(output: Path, n_rows: int, n_columns: int) -> None:
    """Print what was written to a table."""
    click.echo(f"Saved: {output} ({count_of(n_rows, 'row')}, {count_of(n_columns, 'column')})")


def exit_if_skipped(stream: Any) -> None:
    """Report skipped rows, and exit if there are some."""
    report_skipped(stream)
    if stream.n_skipped:
        click.get_current_context().exit(ROWS_SKIPPED)
