"""ocelad plot: draw a saved tracker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ocelad.cli.completion_words import FilePath
from ocelad.cli.described_items import check_one_file, read_described_items
from ocelad.cli.evaluate import read_labelled_items
from ocelad.cli.file_kind import TRACKER, describe_file, refuse
from ocelad.cli.options import missing_option, theme_option, tracker_argument
from ocelad.cli.output import check_picture, find_plotting_error

# An embedding of more points is a picture in which single points are not visible.
MAX_POINTS = 10_000
# A history has at most this many points, each of at least so many pairs: fewer pairs are mostly chance.
MAX_ROWS, MIN_PAIRS_PER_ROW = 60, 25
# The number of features in the picture of feature weights.
N_FEATURES = 30


@click.command(short_help="Draw what a saved tracker has learned.")
@tracker_argument
@click.argument("kind", type=click.Choice(["history", "weights", "spectrum", "features", "embedding"]))
@click.option("--items", type=FilePath(), metavar="FILE", help="With embedding and features: the table of items.")
@click.option(
    "--pairs",
    type=FilePath(),
    metavar="FILE",
    help="With features: a file of pairs (x_..., z_...), whose points are the items.",
)
@click.option("--label", metavar="COLUMN", help="With embedding: the column that colours the points.")
@click.option("--id", "id_", help="The id column of the items.")
@click.option("--features", metavar="COLUMNS", help="The items' features, if they are not those of the training.")
@missing_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="A .png, .pdf or .svg file; TRACKER-KIND.png by default.",
)
@theme_option
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Seed of the sample of items, if they are many.",
)
def plot(
    tracker: Path,
    kind: str,
    items: str | None,
    pairs: str | None,
    label: str | None,
    output: Path | None,
    seed: int,
    **options: Any,
) -> None:
    """Draw what TRACKER has learned.

    \b
    history    accuracy, drift and the weights of the experts along the stream
    weights    the weights of the experts along the stream, in groups
    spectrum   the eigenvalues of the metric
    features   the features with the largest shares of the distances between items; see ocelad inspect
    embedding  items in the plane of their first two principal axes in the learned space

    Dashed lines mark detected changes of the question.

    \b
    Examples:
      ocelad plot pairs.tracker history --theme dark
      ocelad plot pairs.tracker features --items items.csv
      ocelad plot pairs.tracker embedding --items items.csv --label genre -o genres.svg
    """
    output = output or Path(f"{tracker.stem}-{kind}.png")
    check_picture(output, tracker, items, pairs)
    check_one_file(items, pairs)
    if kind == "embedding" and items is None:
        raise click.UsageError("an embedding needs items: give --items FILE")
    if plotting_error := find_plotting_error():
        raise click.ClickException(plotting_error)

    from ocelad.adaptive.expert_names import group_weights
    from ocelad.curved_metric import linear_part
    from ocelad.estimators.file_tracker import FileTracker
    from ocelad.estimators.saved_metric import load_estimator, load_metric
    from ocelad.evaluation import plots
    from ocelad.evaluation.picture_style import save_figure

    if kind in ("history", "weights", "features") and (what := describe_file(tracker)) == "a metric":
        raise refuse(tracker, what, f"{TRACKER}, to draw its {kind}")
    if kind in ("history", "weights"):
        tracking = FileTracker.load(tracker)
        if not len(tracking.history):
            raise ValueError(f"{str(tracker)!r} has no history; `ocelad track` writes one")
        learned, history = tracking.tracker, tracking.history
        n_rows = max(1, min(MAX_ROWS, history.total().n_pairs // MIN_PAIRS_PER_ROW))
        groups, shares = group_weights(learned.experts_, history.weights(n_rows, merge_short=True))
        changes = learned.changes_ if learned.method_ == "adaptive" else []
        draw = plots.plot_history if kind == "history" else plots.plot_weights
        figure = draw(history.rows(n_rows, merge_short=True), shares, groups, changes=changes)
    elif kind == "spectrum":
        figure = plots.plot_spectrum(linear_part(load_metric(tracker).metric).eigenvalues())
    elif kind == "features":
        points = read_described_items(tracker, items, pairs, options)
        weights = load_estimator(tracker).feature_weights(N_FEATURES, items=points)
        figure = plots.plot_feature_weights(weights, weights.description)
    else:
        saved = load_metric(tracker)
        X, labels = read_labelled_items(saved, str(items), label, seed, MAX_POINTS, options)
        figure = plots.plot_embedding(saved.metric.embed(X), labels if label else None, label)
    save_figure(figure, output)
    click.echo(f"Picture: {output}")
