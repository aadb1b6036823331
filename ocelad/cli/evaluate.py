"""ocelad evaluate: how good a saved tracker is on what it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.shared import (
    ROWS_SKIPPED,
    as_json,
    check_picture,
    opened_pairs,
    print_json,
    print_tables,
    reading_pairs,
    saved_tracker,
    skipping,
    table,
    tell_of_skipped,
    why_no_picture,
)

if TYPE_CHECKING:
    from ocelad.estimators.saved_metric import SavedMetric
    from ocelad.evaluation.reliability import Reliability

LEARNED, EUCLIDEAN = "learned", "Euclidean"
# k-NN and k-means of more points take minutes, and say the same.
MOST_POINTS = 5000


@click.command(short_help="How good it is on held-out pairs or items.")
@saved_tracker
@click.argument("file", required=False)
@reading_pairs
@click.option("--class", "class_", metavar="COLUMN", help="With --items: the column of the items' classes.")
@click.option("--neighbors", default=5, show_default=True, type=click.IntRange(1), help="k of the k-NN error.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of k-means and of samples.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With FILE: draw how probabilities agree with the answers, as a .png, .pdf or .svg.",
)
@skipping
@as_json
def evaluate(
    tracker: Path,
    file: str | None,
    class_: str | None,
    neighbors: int,
    seed: int,
    plot: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """How good TRACKER is on pairs it has not seen (FILE), on items with known classes (--items --class), or both.

    Pairs: the area under the ROC curve (0.5 is chance, 1 perfect) and the share of right answers. Items: the
    leave-one-out k-NN error, and the NMI of k-means with the classes (1 is perfect). Beside each, the same with
    Euclidean distance, which learns nothing (its threshold is the best one in hindsight).

    Then, of pairs, how well the probabilities of "same" agree with the answers. Those of the method adaptive are
    calibrated; what else there is has logistic(threshold - d^2), on the squared distance, in their place.

    \b
    Examples:
      ocelad evaluate pairs.tracker held_out.csv
      ocelad evaluate pairs.tracker held_out.csv --plot reliability.png
      ocelad evaluate pairs.tracker --items items.csv --class genre --json
    """
    from ocelad.estimators.saved_metric import load_metric

    if file is None and not (options["items"] and class_):
        raise click.UsageError("nothing to evaluate on: give a FILE of pairs, or --items with --class")
    if class_ and not options["items"]:
        raise click.UsageError("--class names a column of items: give --items FILE, too")
    if plot is not None:
        if file is None:
            raise click.UsageError("--plot draws probabilities of pairs: give a FILE of pairs, too")
        check_picture(plot, tracker, file, options["items"], option="--plot")
        if no_picture := why_no_picture():
            raise click.ClickException(no_picture)
    saved = load_metric(tracker)
    scores: dict[str, dict[str, float]] = {}
    agreement: Reliability | None = None
    n_skipped = 0
    if file is not None:
        of_pairs, agreement, n_skipped = _on_pairs(saved, file, options)
        scores |= of_pairs
    if options["items"] and class_:
        scores |= _on_items(saved, class_, neighbors, seed, options)
    if as_json:
        print_json({"scores": scores, "skipped": n_skipped, **_in_json(agreement, saved)})
    else:
        rows = [[name, f"{by[LEARNED]:.4f}", f"{by[EUCLIDEAN]:.4f}"] for name, by in scores.items()]
        print_tables(table("On held-out data", ["", LEARNED, EUCLIDEAN], rows))
        if agreement is not None:
            _print_reliability(agreement, saved)
    if plot is not None and agreement is not None:
        from ocelad.evaluation import plots

        plots.save(plots.reliability(agreement.bins), plot)
        click.echo(f"Picture: {plot}", err=as_json)
    if n_skipped:
        click.get_current_context().exit(ROWS_SKIPPED)


def _in_json(agreement: Reliability | None, saved: SavedMetric) -> dict[str, Any]:
    if agreement is None:
        return {}
    bins = [each._asdict() for each in agreement.bins]
    return {"reliability": {**agreement._asdict(), "bins": bins, "calibrated": saved.is_calibrated}}


def _print_reliability(agreement: Reliability, saved: SavedMetric) -> None:
    of = "calibrated along the stream" if saved.is_calibrated else "logistic(threshold - d^2), not calibrated"
    figures = (
        ("ROC AUC", agreement.roc_auc),
        ("log loss", agreement.log_loss),
        ("Brier score", agreement.brier_score),
        ("expected calibration error", agreement.calibration_error),
    )
    rows = [[f"{each.predicted:.4f}", f"{each.observed:.4f}", f"{each.pairs:,}"] for each in agreement.bins]
    print_tables(
        table('Probabilities of "same"', ["", ""], [[name, f"{value:.4f}"] for name, value in figures]),
        table("Predicted and observed", ["predicted", "observed", "pairs"], rows),
    )
    click.echo(f"The probabilities are {of}.")


def _on_pairs(
    saved: SavedMetric, file: str, options: dict[str, Any]
) -> tuple[dict[str, dict[str, float]], Reliability, int]:
    import numpy as np

    from ocelad.estimators.threshold_calibration import Calibration
    from ocelad.evaluation.reliability import reliability
    from ocelad.evaluation.scores import pair_auc

    learned, euclidean, log_odds, right, labels = [], [], [], [], []
    with opened_pairs(file, options, saved.feature_names) as stream:
        saved.check_features(stream.feature_names, file)
        for chunk in stream:
            differences = chunk.pairs[:, 0] - chunk.pairs[:, 1]
            learned.append(np.sqrt(saved.metric.squared_length(differences)))
            euclidean.append(np.linalg.norm(differences, axis=1))
            log_odds.append(saved.log_odds(chunk.pairs))
            right.append(saved.predict(chunk.pairs) == chunk.y)
            labels.append(chunk.y)
    tell_of_skipped(stream)
    if not labels:
        raise ValueError(f"{file} has no pairs to evaluate on")
    y, distances, plain = map(np.concatenate, (labels, learned, euclidean))
    if abs(y.sum()) == len(y):
        raise ValueError(f"all pairs of {file} have the label {y[0]:+g}; similar and dissimilar ones are needed")
    best = Calibration("accuracy").threshold(plain, y)
    scores = {
        "ROC AUC of pairs": {LEARNED: pair_auc(distances, y), EUCLIDEAN: pair_auc(plain, y)},
        "right answers": {
            LEARNED: float(np.mean(np.concatenate(right))),
            EUCLIDEAN: float(np.mean(np.where(plain <= best, 1, -1) == y)),
        },
    }
    return scores, reliability(np.concatenate(log_odds), y), stream.n_skipped


def _on_items(
    saved: SavedMetric, class_: str, neighbors: int, seed: int, options: dict[str, Any]
) -> dict[str, dict[str, float]]:
    import numpy as np

    from ocelad.evaluation.prequential import clustering_nmi, embedded, knn_error

    X, labels = labelled_items(saved, options["items"], class_, seed, MOST_POINTS, id=options["id_"])
    places = {LEARNED: embedded(saved.metric, X), EUCLIDEAN: X}
    if len(np.unique(labels)) < 2:
        raise ValueError(f"all items have the {class_} {labels[0]!r}; at least two classes are needed")
    return {
        f"{neighbors}-NN error": {name: knn_error(points, labels, neighbors) for name, points in places.items()},
        "NMI of k-means": {name: clustering_nmi(points, labels, seed) for name, points in places.items()},
    }


def labelled_items(
    saved: SavedMetric, file: str, label: str | None, seed: int, most: int, id: str | None = None
) -> tuple[Any, Any]:
    """At most so many items, drawn at random, with their labels."""
    import numpy as np

    from ocelad.io import open_items

    points, labels = [], []
    with open_items(file, label=label, id=id or "id", features=saved.feature_names) as rows:
        saved.check_features(rows.feature_names, file)
        for chunk in rows:
            points.append(chunk.X)
            labels += list(chunk.labels or [""] * len(chunk.X))
    if not points:
        raise ValueError(f"{file} has no items")
    X, classes = np.concatenate(points), np.array([str(entry) for entry in labels])
    if len(X) > most:
        chosen = np.sort(np.random.default_rng(seed).choice(len(X), most, replace=False))
        click.echo(f"{most:,} of {len(X):,} items are looked at, drawn at random.", err=True)
        X, classes = X[chosen], classes[chosen]
    return X, classes
