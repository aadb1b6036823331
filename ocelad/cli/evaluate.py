"""ocelad evaluate: score a saved tracker on held-out pairs or items."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.exit_codes import ROWS_SKIPPED
from ocelad.cli.options import json_option, tracker_argument
from ocelad.cli.output import check_picture, find_plotting_error, make_table, print_json, print_tables
from ocelad.cli.pair_files import bad_row_options, open_item_table, open_pairs, pair_file_options, report_skipped

if TYPE_CHECKING:
    from ocelad.estimators.saved_metric import SavedMetric
    from ocelad.evaluation.reliability import Reliability

LEARNED, EUCLIDEAN = "learned", "Euclidean"
# k-NN and k-means on more points take minutes, and a sample of this size gives nearly the same scores.
MAX_POINTS = 5000


@click.command(short_help="Score a saved tracker on held-out pairs or items.")
@tracker_argument
@click.argument("file", required=False)
@pair_file_options
@click.option("--class", "class_", metavar="COLUMN", help="With --items: the column of the items' classes.")
@click.option("--neighbors", default=5, show_default=True, type=click.IntRange(1), help="k of the k-NN error.")
@click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of k-means and of the sample of items."
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With FILE: draw a reliability diagram of the probabilities to a .png, .pdf or .svg file.",
)
@bad_row_options
@json_option
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
    """Score TRACKER on held-out pairs (FILE), on items with known classes (--items and --class), or on both.

    Pairs: the area under the ROC curve (0.5 is chance, 1 is perfect) and the accuracy. Items: the leave-one-out k-NN
    error, and the NMI of k-means clusters with the classes (1 is perfect). The same scores of the Euclidean distance
    are printed for comparison; its threshold is the most accurate one in hindsight.

    For pairs, the reliability of the probabilities of "same" follows, each next to the distance that it belongs to.
    The probability is logistic(threshold - d^2) of the squared distance d^2; only the method adaptive calibrates it.

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
        raise click.UsageError("--class names a column of the items: give --items FILE, too")
    if plot is not None:
        if file is None:
            raise click.UsageError("--plot draws the probabilities of pairs: give a FILE of pairs, too")
        check_picture(plot, tracker, file, options["items"], option="--plot")
        if plotting_error := find_plotting_error():
            raise click.ClickException(plotting_error)
    saved = load_metric(tracker)
    scores: dict[str, dict[str, float]] = {}
    reliability: Reliability | None = None
    n_skipped = 0
    if file is not None:
        pair_scores, reliability, n_skipped = _score_pairs(saved, file, options)
        scores |= pair_scores
    if options["items"] and class_:
        scores |= _score_items(saved, class_, neighbors, seed, options)
    if as_json:
        print_json({"scores": scores, "skipped": n_skipped, **_reliability_json(reliability, saved)})
    else:
        rows = [[name, f"{score[LEARNED]:.4f}", f"{score[EUCLIDEAN]:.4f}"] for name, score in scores.items()]
        print_tables(make_table("On held-out data", ["", LEARNED, EUCLIDEAN], rows))
        if reliability is not None:
            _print_reliability(reliability, saved)
    if plot is not None and reliability is not None:
        from ocelad.evaluation import plots

        plots.save_figure(plots.plot_reliability(reliability.bins), plot)
        click.echo(f"Picture: {plot}", err=as_json)
    if n_skipped:
        click.get_current_context().exit(ROWS_SKIPPED)


def _reliability_json(reliability: Reliability | None, saved: SavedMetric) -> dict[str, Any]:
    if reliability is None:
        return {}
    bins = [{**each._asdict(), "distance": _distance_at(each.predicted, saved)} for each in reliability.bins]
    return {"reliability": {**reliability._asdict(), "bins": bins, "calibrated": saved.is_calibrated}}


def _print_reliability(reliability: Reliability, saved: SavedMetric) -> None:
    source = "calibrated along the stream" if saved.is_calibrated else "not calibrated"
    scores = (
        ("ROC AUC", reliability.roc_auc),
        ("log loss", reliability.log_loss),
        ("Brier score", reliability.brier_score),
        ("expected calibration error", reliability.calibration_error),
    )
    rows = [
        [
            f"{_distance_at(each.predicted, saved):.4g}",
            f"{each.predicted:.4f}",
            f"{each.observed:.4f}",
            f"{each.pairs:,}",
        ]
        for each in reliability.bins
    ]
    print_tables(
        make_table('Probabilities of "same"', ["", ""], [[name, f"{value:.4f}"] for name, value in scores]),
        make_table("Predicted and observed", ["distance", "predicted", "observed", "pairs"], rows),
    )
    click.echo(f"The probabilities, logistic(threshold - d^2), are {source}.")


def _distance_at(probability: float, saved: SavedMetric) -> float:
    """Return the distance of pairs that are the same with this probability."""
    from math import log, sqrt

    p = min(max(probability, 1e-300), 1.0 - 1e-16)
    return sqrt(max(saved.metric.threshold - log(p / (1.0 - p)), 0.0))


def _score_pairs(
    saved: SavedMetric, file: str, options: dict[str, Any]
) -> tuple[dict[str, dict[str, float]], Reliability, int]:
    import numpy as np

    from ocelad.estimators.threshold_calibration import ThresholdCalibration
    from ocelad.evaluation.reliability import reliability
    from ocelad.evaluation.scores import pair_auc

    learned, euclidean, log_odds, is_right, labels = [], [], [], [], []
    with open_pairs(file, options, saved.features) as stream:
        saved.check_features(stream.feature_names, file)
        for chunk in stream:
            differences = chunk.pairs[:, 0] - chunk.pairs[:, 1]
            learned.append(saved.metric.distance(chunk.pairs[:, 0], chunk.pairs[:, 1]))
            euclidean.append(np.linalg.norm(differences, axis=1))
            log_odds.append(saved.log_odds(chunk.pairs))
            is_right.append(saved.predict(chunk.pairs) == chunk.y)
            labels.append(chunk.y)
    report_skipped(stream)
    if not labels:
        raise ValueError(f"{file} has no pairs to evaluate on")
    y, learned_distances, euclidean_distances = map(np.concatenate, (labels, learned, euclidean))
    if abs(y.sum()) == len(y):
        raise ValueError(f"all pairs of {file} have the label {y[0]:+g}; similar and dissimilar pairs are needed")
    threshold = ThresholdCalibration("accuracy").threshold(euclidean_distances, y)
    scores = {
        "ROC AUC of pairs": {LEARNED: pair_auc(learned_distances, y), EUCLIDEAN: pair_auc(euclidean_distances, y)},
        "accuracy of pairs": {
            LEARNED: float(np.mean(np.concatenate(is_right))),
            EUCLIDEAN: float(np.mean(np.where(euclidean_distances <= threshold, 1, -1) == y)),
        },
    }
    return scores, reliability(np.concatenate(log_odds), y), stream.n_skipped


def _score_items(
    saved: SavedMetric, class_: str, neighbors: int, seed: int, options: dict[str, Any]
) -> dict[str, dict[str, float]]:
    import numpy as np

    from ocelad.evaluation.prequential import embed_points
    from ocelad.evaluation.scores import clustering_nmi, knn_error

    X, labels = read_labelled_items(saved, options["items"], class_, seed, MAX_POINTS, options)
    embeddings = {LEARNED: embed_points(saved.metric, X), EUCLIDEAN: X}
    if len(np.unique(labels)) < 2:
        raise ValueError(f"all items have the {class_} {labels[0]!r}; at least two classes are needed")
    return {
        f"{neighbors}-NN error": {name: knn_error(points, labels, neighbors) for name, points in embeddings.items()},
        "NMI of k-means": {name: clustering_nmi(points, labels, seed) for name, points in embeddings.items()},
    }


def read_labelled_items(
    saved: SavedMetric, file: str, label: str | None, seed: int, max_points: int, options: dict[str, Any]
) -> tuple[Any, Any]:
    """Return the points and the labels of at most ``max_points`` items, sampled at random if there are more.

    ``options`` are those of ``open_item_table``.
    """
    import numpy as np

    points, labels = [], []
    with open_item_table(file, options, saved.features, label=label) as rows:
        saved.check_features(rows.feature_names, file)
        for chunk in rows:
            points.append(chunk.X)
            labels += list(chunk.labels or [""] * len(chunk.X))
    if not points:
        raise ValueError(f"{file} has no items")
    X, classes = np.concatenate(points), np.array([str(entry) for entry in labels])
    if len(X) > max_points:
        sample = np.sort(np.random.default_rng(seed).choice(len(X), max_points, replace=False))
        click.echo(f"A random sample of {max_points:,} of the {len(X):,} items is used.", err=True)
        X, classes = X[sample], classes[sample]
    return X, classes
