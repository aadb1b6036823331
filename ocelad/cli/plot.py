"""ocelad plot: a saved tracker as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from ocelad.cli.evaluate import labelled_items
from ocelad.cli.shared import check_picture, saved_tracker, why_no_picture

MOST_POINTS = 10_000


@click.command(short_help="A picture: history, spectrum, weights or embedding.")
@saved_tracker
@click.argument("kind", type=click.Choice(["history", "weights", "spectrum", "features", "embedding"]))
@click.option("--items", metavar="FILE", help="For an embedding: the items.")
@click.option("--label", metavar="COLUMN", help="For an embedding: the column that colours them.")
@click.option("--id", "id_", help="The id column of the items.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="A .png, .pdf or .svg; TRACKER's name and KIND by default.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Which items, where they are many.")
def plot(
    tracker: Path, kind: str, items: str | None, label: str | None, id_: str | None, output: Path | None, seed: int
) -> None:
    """Draw TRACKER: how tracking went (history), which experts it trusts (weights), its eigenvalues (spectrum),
    the features that matter, or where items are (embedding).

    \b
    Examples:
      ocelad plot pairs.tracker history
      ocelad plot pairs.tracker embedding --items items.csv --label genre -o genres.svg
    """
    output = output or Path(f"{tracker.stem}-{kind}.png")
    check_picture(output, tracker, items)
    if kind == "embedding" and items is None:
        raise click.UsageError("an embedding is of items: give --items FILE")
    if no_picture := why_no_picture():
        raise click.ClickException(no_picture)

    from ocelad.estimators.file_tracking import Tracking
    from ocelad.estimators.saved_metric import load_estimator, load_metric
    from ocelad.evaluation import plots

    if kind in ("history", "weights"):
        tracking = Tracking.load(tracker)
        if not len(tracking.history):
            raise ValueError(f"{str(tracker)!r} has no history; `ocelad track` writes one")
        rows, shares = tracking.history.rows(), tracking.history.shares()
        draw = plots.history if kind == "history" else plots.weights
        figure = draw(rows, shares, tracking.tracker.experts_)
    elif kind == "spectrum":
        figure = plots.spectrum(load_metric(tracker).metric.spectrum())
    elif kind == "features":
        weights = load_estimator(tracker).feature_weights(30)
        figure = plots.features([row.feature for row in weights], [row.weight for row in weights])
    else:
        saved = load_metric(tracker)
        X, labels = labelled_items(saved, str(items), label, seed, MOST_POINTS, id=id_)
        figure = plots.embedding(saved.metric.embed(X), labels if label else None, label)
    plots.save(figure, output)
    click.echo(f"Picture: {output}")
