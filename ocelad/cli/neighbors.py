"""ocelad neighbors: the nearest items by the learned distance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.completion_words import FilePath
from ocelad.cli.distance import check_table_output, report_table, table_output_option
from ocelad.cli.exit_codes import ROWS_SKIPPED
from ocelad.cli.options import tracker_argument
from ocelad.cli.output import count_of
from ocelad.cli.pair_files import item_table_options

if TYPE_CHECKING:
    from ocelad.cli.item_arrays import ItemArrays
    from ocelad.estimators import MetricTracker
    from ocelad.io.table_output import ColumnKind
    from ocelad.neighbors import MovingIndex, Neighbors

# Queries that are searched at once, between two steps of the progress bar.
BATCH = 256
COLUMNS: dict[str, ColumnKind] = {
    "query": "value",
    "rank": "integer",
    "id": "value",
    "distance": "float",
    "probability": "float",
}


@click.command(short_help="Find the nearest items by the learned distance.")
@tracker_argument
@click.argument("items", type=FilePath())
@click.option("--queries", type=FilePath(), metavar="FILE", help="A table of queries; by default the items themselves.")
@click.option("--of", "of_ids", multiple=True, metavar="ID", help="The neighbours of this item only. Repeatable.")
@click.option("-k", "k", type=click.IntRange(1), default=10, show_default=True, help="The number of neighbours.")
@click.option(
    "--within",
    "error",
    type=float,
    metavar="ERROR",
    help="Instead of -k, all items that may be taken for the same with at most this share of errors, such as 0.02.",
)
@item_table_options
@table_output_option
def neighbors(
    tracker: Path,
    items: str,
    queries: str | None,
    of_ids: tuple[str, ...],
    k: int,
    error: float | None,
    output: Path | None,
    **options: Any,
) -> None:
    """Find the nearest ITEMS by the distance that TRACKER has learned, exactly.

    ITEMS is a table with the features that the tracker was trained on, or with a column of vectors: CSV, TSV, JSON
    lines, Parquet, Arrow, .npy (which is mapped into memory) or .npz. The output has a row per neighbour: the query,
    the rank, the item, the distance, and the probability of "same". An item is not a neighbour of itself.

    \b
    Examples:
      ocelad neighbors pairs.tracker items.csv --of a17 -k 5
      ocelad neighbors pairs.tracker embeddings.npy --queries new.npy -o neighbors.parquet
      ocelad neighbors pairs.tracker embeddings.npy --queries new.npy --within 0.02
    """
    from ocelad.cli.item_arrays import read_items
    from ocelad.cli.progress import show_steps
    from ocelad.estimators.saved_metric import load_metric
    from ocelad.io import open_output
    from ocelad.neighbors import MovingIndex

    if queries is not None and of_ids:
        raise click.UsageError("--queries and --of both say what to search for; give one of them")
    check_table_output(output, tracker, items, queries)
    saved = load_metric(tracker)
    if error is not None and (saved.tracker is None or not saved.is_calibrated):
        raise click.UsageError("--within needs a file that `ocelad track` wrote with the method adaptive")
    if error is not None and saved.tracker is not None:
        saved.tracker.decide_log_odds([0.0], error)  # refuses an error that is out of range before all else
    read = read_items(saved, items, options, options["format_"], unique=True)
    index = MovingIndex(read.vectors, saved.tracker or saved.metric, ids=read.ids)
    searched = None if queries is None else read_items(saved, queries, {**options, "features": None}, None)
    names = _query_ids(index, read, searched, of_ids)
    n_found = 0
    with (
        open_output(output, COLUMNS) as out,
        show_steps(len(names), "Searching", is_shown=output is not None) as advance,
    ):
        for first in range(0, len(names), BATCH):
            batch = names[first : first + BATCH]
            vectors = None if searched is None else searched.vectors[first : first + BATCH]
            for name, found in zip(batch, _search(index, batch, vectors, k, error), strict=True):
                n = len(found.ids)
                n_found += n
                out.write(
                    {
                        "query": [name] * n,
                        "rank": list(range(1, n + 1)),
                        "id": found.ids.tolist(),
                        "distance": found.distances,
                        "probability": found.probabilities,
                    }
                )
            advance(len(batch))
    if output is not None:
        report_table(output, n_found, len(COLUMNS))
    if error is not None and saved.tracker is not None and names and not n_found:
        click.echo(_explain_nothing_within(saved.tracker, error), err=True)
    if read.n_skipped or (searched is not None and searched.n_skipped):
        click.get_current_context().exit(ROWS_SKIPPED)


def _explain_nothing_within(tracker: MetricTracker, error: float) -> str:
    """Return a note: no error can be promised yet, or no item is near enough."""
    from math import inf

    share = f"an error of {100 * error:g} %"
    if tracker.decide_log_odds([inf], error)[0] == 0:
        answers = count_of(tracker.n_rounds_, "answer")
        return f"Note: no distance can be promised {share} after {answers}; -k finds the nearest items."
    return f"Note: no item is near enough to be taken for the same with {share}; -k finds the nearest items."


def _query_ids(index: MovingIndex, read: ItemArrays, searched: ItemArrays | None, of_ids: tuple[str, ...]) -> list[Any]:
    """Return the ids of what is searched for; those on the command line may be numbers."""
    if searched is not None:
        return list(range(len(searched.vectors))) if searched.ids is None else searched.ids
    if not of_ids:
        return index.ids
    found = []
    for text in of_ids:
        names = [text, int(text)] if text.isascii() and text.isdigit() else [text]
        known = [name for name in names if name in index]
        if not known:
            raise click.BadParameter(f"there is no item {text!r} in the table", param_hint="--of")
        found.append(known[0])
    return found


def _search(index: MovingIndex, ids: list[Any], vectors: Any, k: int, error: float | None) -> list[Neighbors]:
    """Return the neighbours of each of some items, or of vectors."""
    from ocelad.neighbors import Neighbors

    if error is not None:
        points = index.vectors_of(ids) if vectors is None else vectors
        found = [index.within(point, error) for point in points]
        return found if vectors is not None else [_without(one, name) for one, name in zip(found, ids, strict=True)]
    all_found = index.neighbors_of(ids, k) if vectors is None else index.search(vectors, k)
    parts = zip(all_found.ids, all_found.distances, all_found.probabilities, strict=True)
    return [Neighbors(*part, all_found.exact) for part in parts]


def _without(found: Neighbors, name: Any) -> Neighbors:
    kept = [at for at, other in enumerate(found.ids.tolist()) if other != name]
    return found._replace(ids=found.ids[kept], distances=found.distances[kept], probabilities=found.probabilities[kept])
