"""ocelad embed and ocelad distance: what a saved tracker says of points and of pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.shared import (
    ROWS_SKIPPED,
    check_output,
    file_format,
    opened_pairs,
    reading_pairs,
    saved_tracker,
    side_file,
    skipping,
    tell_of_skipped,
)

if TYPE_CHECKING:
    from ocelad.io.output import ColumnKind

output_file = click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A .csv, .jsonl, .parquet or .arrow file; standard output, as CSV, by default.",
)


@click.command(short_help="Where items are under the learned distance.")
@saved_tracker
@click.argument("items")
@click.option("--dimensions", type=click.IntRange(1), help="Only the heaviest so many; all by default.")
@click.option("--id", "id_", help="The id column; 'id' where there is one, else the row's number.")
@click.option("--label", metavar="COLUMN", help="A column that is kept as it is.")
@file_format
@skipping
@output_file
def embed(
    tracker: Path, items: str, dimensions: int | None, label: str | None, output: Path | None, **options: Any
) -> None:
    """Map ITEMS to points whose Euclidean distance is the distance that TRACKER has learned.

    TRACKER is what `ocelad track` saved, or a metric that Metric.save wrote. ITEMS is a table with the features that
    were learned from, CSV, TSV, JSON lines, Parquet or Arrow. The heaviest direction comes first.

    \b
    Examples:
      ocelad embed pairs.tracker items.csv > points.csv
      ocelad embed pairs.tracker items.parquet --dimensions 2 -o points.parquet
    """
    import numpy as np

    from ocelad.estimators.saved_metric import load_metric
    from ocelad.io import open_items, open_output

    _check_table(output, tracker, items)
    saved = load_metric(tracker)
    arguments = {"format": options["format_"], "on_error": options["on_error"], "skipped": side_file(items, options)}
    with open_items(items, id=options["id_"] or "id", label=label, features=saved.feature_names, **arguments) as rows:
        saved.check_features(rows.feature_names, items)
        width = saved.metric.embed(np.zeros((1, saved.metric.n_features)), dimensions).shape[1]
        names = [f"dimension_{j}" for j in range(width)]
        kept = ["id"] if label is None else ["id", label]
        kinds: dict[str, ColumnKind] = dict.fromkeys(kept, "value")
        kinds |= dict.fromkeys(names, "float")
        with open_output(output, kinds) as out:
            for chunk in rows:
                points = saved.metric.embed(chunk.X, dimensions)
                out.write(
                    dict(zip(kept, (chunk.ids, chunk.labels), strict=False)) | dict(zip(names, points.T, strict=True))
                )
        _end(rows)


@click.command(short_help="How far apart the points of pairs are.")
@saved_tracker
@click.argument("file")
@reading_pairs
@skipping
@output_file
def distance(tracker: Path, file: str, output: Path | None, **options: Any) -> None:
    """The learned distance between the two points of each pair in FILE, and whether they are the same.

    FILE is as for `ocelad track`; it needs no labels. One row per pair: its line, the distance, and 1 or -1.

    \b
    Examples:
      ocelad distance pairs.tracker new_pairs.csv
      ocelad distance pairs.tracker candidates.csv --items items.csv -o distances.parquet
    """
    import numpy as np

    from ocelad.estimators.saved_metric import load_metric
    from ocelad.io import open_output

    _check_table(output, tracker, file, options["items"])
    saved = load_metric(tracker)
    with opened_pairs(file, options, saved.feature_names, label=False) as stream:
        saved.check_features(stream.feature_names, file)
        with open_output(output, {"line": "whole", "distance": "float", "similar": "whole"}) as out:
            for chunk in stream:
                distances = saved.metric.distance(chunk.pairs[:, 0], chunk.pairs[:, 1])
                similar = np.where(distances <= saved.threshold, 1, -1)
                out.write({"line": chunk.lines, "distance": distances, "similar": similar})
        _end(stream)


def _check_table(output: Path | None, *inputs: str | Path | None) -> None:
    from ocelad.io import OUTPUTS

    if output is not None:
        check_output(output, *inputs)
        if output.suffix.lower() not in OUTPUTS:
            raise click.BadParameter(f"{str(output)!r} does not end in {', '.join(OUTPUTS)}", param_hint="--output")


def _end(stream: Any) -> None:
    tell_of_skipped(stream)
    if stream.n_skipped:
        click.get_current_context().exit(ROWS_SKIPPED)
