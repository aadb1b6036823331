"""ocelad embed, ocelad distance: apply a saved tracker to items and to pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.exit_codes import ROWS_SKIPPED
from ocelad.cli.options import format_option, tracker_argument
from ocelad.cli.output import check_output
from ocelad.cli.pair_files import bad_row_options, open_pairs, pair_file_options, report_skipped, skipped_rows_path

if TYPE_CHECKING:
    from ocelad._typing import Floats
    from ocelad.estimators.saved_metric import SavedMetric
    from ocelad.io.table_output import ColumnKind

table_output_option = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A .csv, .jsonl, .parquet or .arrow file; by default CSV on standard output.",
)


@click.command(short_help="Map items to points in the learned space.")
@tracker_argument
@click.argument("items")
@click.option(
    "--dimensions", type=click.IntRange(1), help="Only the dimensions of the N largest eigenvalues; all by default."
)
@click.option("--id", "id_", help="The id column; by default 'id' if it exists, else the row number.")
@click.option("--label", metavar="COLUMN", help="A column that is copied to the output.")
@format_option
@bad_row_options
@table_output_option
def embed(
    tracker: Path, items: str, dimensions: int | None, label: str | None, output: Path | None, **options: Any
) -> None:
    """Map ITEMS to points whose Euclidean distance is the distance that TRACKER has learned.

    TRACKER is a file that `ocelad track` or Metric.save wrote. ITEMS is a table with the features that the tracker was
    trained on: CSV, TSV, JSON lines, Parquet or Arrow. The dimensions are sorted by eigenvalue, largest first.

    \b
    Examples:
      ocelad embed pairs.tracker items.csv > points.csv
      ocelad embed pairs.tracker items.parquet --dimensions 2 -o points.parquet
    """
    import numpy as np

    from ocelad.estimators.saved_metric import load_metric
    from ocelad.io import open_items, open_output

    _check_table_output(output, tracker, items)
    saved = load_metric(tracker)
    arguments = {
        "format": options["format_"],
        "on_error": options["on_error"],
        "skipped": skipped_rows_path(items, options),
    }
    with open_items(items, id=options["id_"] or "id", label=label, features=saved.feature_names, **arguments) as rows:
        saved.check_features(rows.feature_names, items)
        n_dimensions = saved.metric.embed(np.zeros((1, saved.metric.n_features)), dimensions).shape[1]
        names = [f"dimension_{j}" for j in range(n_dimensions)]
        copied = ["id"] if label is None else ["id", label]
        kinds: dict[str, ColumnKind] = dict.fromkeys(copied, "value")
        kinds |= dict.fromkeys(names, "float")
        with open_output(output, kinds) as out:
            for chunk in rows:
                points = saved.metric.embed(chunk.X, dimensions)
                out.write(
                    dict(zip(copied, (chunk.ids, chunk.labels), strict=False)) | dict(zip(names, points.T, strict=True))
                )
        _exit_if_skipped(rows)


@click.command(short_help="Compute the learned distance of each pair in a file.")
@tracker_argument
@click.argument("file")
@pair_file_options
@bad_row_options
@table_output_option
def distance(tracker: Path, file: str, output: Path | None, **options: Any) -> None:
    """Compute the learned distance of each pair in FILE, and predict whether it is similar.

    FILE has the format that `ocelad track` reads, and needs no labels. The output has one row per pair: its line in
    FILE, the distance, with the method adaptive the calibrated probability of "same", and 1 (similar) or -1
    (dissimilar).

    \b
    Examples:
      ocelad distance pairs.tracker new_pairs.csv
      ocelad distance pairs.tracker candidates.csv --items items.csv -o distances.parquet
    """
    from ocelad.estimators.saved_metric import load_metric
    from ocelad.io import open_output

    _check_table_output(output, tracker, file, options["items"])
    saved = load_metric(tracker)
    with open_pairs(file, options, saved.feature_names, label=False) as stream:
        saved.check_features(stream.feature_names, file)
        with open_output(output, _pair_columns(saved)) as out:
            for chunk in stream:
                out.write({"line": chunk.lines, **_measure_pairs(saved, chunk.pairs)})
        _exit_if_skipped(stream)


def _pair_columns(saved: SavedMetric) -> dict[str, ColumnKind]:
    """Return the columns of a table of pairs, in their order."""
    probability: dict[str, ColumnKind] = {"probability": "float"} if saved.is_calibrated else {}
    return {"line": "integer", "distance": "float", **probability, "similar": "integer"}


def _measure_pairs(saved: SavedMetric, pairs: Floats) -> dict[str, Any]:
    """Return the values of all columns but the lines, for pairs of shape (n_pairs, 2, n_features)."""
    from scipy.special import expit

    distances = saved.metric.distance(pairs[:, 0], pairs[:, 1])
    probability = {"probability": expit(saved.log_odds(pairs))} if saved.is_calibrated else {}
    return {"distance": distances, **probability, "similar": saved.predict(pairs)}


def _check_table_output(output: Path | None, *inputs: str | Path | None) -> None:
    from ocelad.io import OUTPUT_SUFFIXES

    if output is not None:
        check_output(output, *inputs)
        if output.suffix.lower() not in OUTPUT_SUFFIXES:
            raise click.BadParameter(
                f"{str(output)!r} does not end in {', '.join(OUTPUT_SUFFIXES)}", param_hint="--output"
            )


def _exit_if_skipped(stream: Any) -> None:
    report_skipped(stream)
    if stream.n_skipped:
        click.get_current_context().exit(ROWS_SKIPPED)
