"""ocelad export: hand the learned distance over to a vector store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ocelad.cli.completion_words import FilePath
from ocelad.cli.exit_codes import ROWS_SKIPPED
from ocelad.cli.options import tracker_argument
from ocelad.cli.output import check_output
from ocelad.cli.pair_files import item_table_options

TARGETS = ("matrix", "npy", "faiss", "usearch", "lancedb")


@click.command(short_help="Write the learned distance for a vector store.")
@tracker_argument
@click.argument("items", type=FilePath(), required=False)
@click.option("--to", type=click.Choice(TARGETS), required=True, help="What to write; see above.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The file, or the folder of lancedb; by default the name of TRACKER with a suffix.",
)
@click.option("--dimensions", type=click.IntRange(1), help="Only the first N principal axes; all by default.")
@click.option("--kind", type=click.Choice(["flat", "ivf", "hnsw"]), help="The kind of index of faiss.  [default: hnsw]")
@item_table_options
def export(
    tracker: Path,
    items: str | None,
    to: str,
    output: Path | None,
    dimensions: int | None,
    kind: str | None,
    **options: Any,
) -> None:
    """Write the distance that TRACKER has learned, so that a vector store can search by it.

    \b
    matrix    a .npy file P of shape (features, dimensions): store "vectors @ P" and search with "query @ P" by
              Euclidean distance, in pgvector, Elasticsearch or any other store; ITEMS is needed for --dimensions
    npy       ITEMS multiplied by P, as float32
    faiss     an index of faiss with these, usearch a graph of usearch, lancedb a table with the columns id and vector

    With ITEMS, dimensions are their principal axes in the learned space. P is written beside an index, and so are the
    ids as a JSON list, if they are not row numbers. A curved distance (track without --linear) has no matrix: `ocelad
    embed TRACKER QUERIES --axes-of ITEMS --dimensions N` embeds queries.

    \b
    Examples:
      ocelad export pairs.tracker --to matrix -o matrix.npy
      ocelad export pairs.tracker embeddings.npy --to faiss --dimensions 64 -o items.faiss
      ocelad export pairs.tracker items.parquet --to lancedb -o lancedb
    """
    from ocelad.cli.item_arrays import read_items
    from ocelad.estimators.saved_metric import load_metric
    from ocelad.neighbors.export_index import export_index

    if kind is not None and to != "faiss":
        raise click.UsageError(f"--kind is an option of --to faiss; this is --to {to}")
    if items is None and to != "matrix":
        raise click.UsageError(f"--to {to} needs ITEMS")
    suffix = {"matrix": "matrix.npy", "npy": "npy"}.get(to, to)
    path = tracker.with_suffix(f".{suffix}") if output is None else output
    check_output(path, tracker, items)
    saved = load_metric(tracker)
    read = None if items is None else read_items(saved, items, options, options["format_"])
    try:
        written = export_index(
            saved.metric,
            to,  # type: ignore[arg-type]
            path,
            items=None if read is None else read.vectors,
            ids=None if read is None else read.ids,
            n_components=dimensions,
            options={"kind": kind or "hnsw"} if to == "faiss" else None,
        )
    except ImportError as error:  # it says which extra to install
        raise click.ClickException(str(error)) from error
    click.echo(_describe(written, to, saved.metric.n_features))
    if read is not None and read.n_skipped:
        click.get_current_context().exit(ROWS_SKIPPED)


def _describe(written: Any, to: str, n_features: int) -> str:
    if to == "matrix":
        return f"{written.path}: a matrix of shape ({n_features}, {written.n_dimensions}); store vectors @ matrix."
    lines = [f"{written.path}: {written.n_items:,} items in {written.n_dimensions} dimensions."]
    if written.matrix is not None:
        lines.append(f"{written.matrix}: multiply queries by this matrix.")
    else:
        lines.append("The distance is curved: embed queries with `ocelad embed --axes-of`.")
    if written.ids is not None:
        lines.append(f"{written.ids}: the ids of the rows.")
    return "\n".join(lines)
