"""ocelad evaluate: score a saved tracker on held-out pairs or items."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ocelad.cli.completion_words import FilePath
from ocelad.cli.exit_codes import ROWS_SKIPPED
from ocelad.cli.one_answer import note_one_answer
from ocelad.cli.options import json_option, theme_option, tracker_argument
from ocelad.cli.output import check_picture, count_of, find_plotting_error, make_table, print_json, print_tables
from ocelad.cli.pair_files import bad_row_options, open_item_table, open_pairs, pair_file_options, report_skipped

if TYPE_CHECKING:
    from ocelad._typing import Floats
    from ocelad.estimators.saved_metric import SavedMetric
    from ocelad.estimators.training_sketch import Overlap
    from ocelad.evaluation.reliability import Reliability
    from ocelad.io import ComparisonChunk

LEARNED, STANDARDIZED, EUCLIDEAN = "learned", "standardized", "Euclidean"
# k-NN and k-means on more points take minutes, and a sample of this size gives nearly the same scores.
MAX_POINTS = 5000
# If neither the training stream nor items are known, features are scaled by this many of the evaluated pairs.
MAX_PAIRS_OF_SPREADS, CHUNK_SIZE = 10_240, 1024
# The least difference of two shares of "same" that is noted, absolute and in standard errors.
MIN_SHARE_DIFFERENCE, MIN_STANDARD_ERRORS = 0.05, 2.0


class Spreads(NamedTuple):
    """The standard deviations of the features, by which standardized Euclidean distance divides them.

    Attributes
    ----------
    scales : array of shape (n_features,)
        1 for a feature that is constant.
    source : str
        What they were computed from, in words.
    """

    scales: Floats
    source: str


class Answers(NamedTuple):
    """The numbers of evaluated pairs that are "same" and "different"."""

    n_similar: int
    n_dissimilar: int

    @property
    def commoner(self) -> tuple[str, float]:
        """The more common answer, and the accuracy of always predicting it."""
        n = max(self)
        return "same" if n == self.n_similar else "different", n / sum(self)


class PairScores(NamedTuple):
    """The scores of a file of pairs."""

    scores: dict[str, dict[str, float]]
    reliability: Reliability
    spreads: Spreads
    overlap: Overlap | None
    n_skipped: int
    note: str | None
    answers: Answers


class ItemScores(NamedTuple):
    """The scores of a table of items."""

    scores: dict[str, dict[str, float]]
    spreads: Spreads
    overlap: Overlap | None


@click.command(short_help="Score a saved tracker on held-out pairs or items.")
@tracker_argument
@click.argument("file", type=FilePath(), required=False)
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
@theme_option
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
    error, and the NMI of k-means clusters with the classes (1 is perfect). The same scores of the Euclidean distance,
    with features as they are and divided by their standard deviations, are printed for comparison; their threshold is
    the most accurate one in hindsight.

    Scores are only honest on data that the tracker has not learned from. A tracker that `ocelad track` saved
    recognizes what it learned from, in bounded memory, and the report says how much of the data that is.

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
    of_pairs = None if file is None else _score_pairs(saved, file, options)
    of_items = _score_items(saved, class_, neighbors, seed, options) if options["items"] and class_ else None
    parts: list[PairScores | ItemScores] = [part for part in (of_pairs, of_items) if part is not None]
    scores = {name: score for part in parts for name, score in part.scores.items()}
    n_skipped = 0 if of_pairs is None else of_pairs.n_skipped
    reliability = None if of_pairs is None else of_pairs.reliability
    if of_pairs is not None and of_pairs.note:
        click.echo(of_pairs.note, err=True)
    if as_json:
        learned_from = {
            name: part.overlap and part.overlap._asdict()
            for name, part in (("pairs", of_pairs), ("items", of_items))
            if part is not None
        }
        more: dict[str, Any] = {
            "learned_from": learned_from,
            "standardized_by": [part.spreads.source for part in parts],
        }
        if of_pairs is not None:
            answer, accuracy = of_pairs.answers.commoner
            more["commoner_answer"] = {"answer": answer, "accuracy": accuracy}
        print_json({"scores": scores, "skipped": n_skipped, **more, **_reliability_json(reliability, saved)})
    else:
        columns = [
            each for each in (LEARNED, STANDARDIZED, EUCLIDEAN) if any(each in score for score in scores.values())
        ]
        rows = [[name, *(_format_score(score, column) for column in columns)] for name, score in scores.items()]
        print_tables(make_table("Scores", ["", *columns], rows))
        for source in dict.fromkeys(part.spreads.source for part in parts if STANDARDIZED in columns):
            click.echo(
                f"standardized: Euclidean distance of features divided by their standard deviations over {source}."
            )
        if of_pairs is not None:
            _print_answers(of_pairs, saved)
            click.echo(describe_overlap(of_pairs.overlap, "pair"))
        if of_items is not None:
            click.echo(describe_overlap(of_items.overlap, "item"))
        if reliability is not None:
            click.echo()
            _print_reliability(reliability, saved)
    if plot is not None and reliability is not None:
        from ocelad.evaluation.picture_style import save_figure
        from ocelad.evaluation.plots import plot_reliability

        save_figure(plot_reliability(reliability.bins), plot)
        click.echo(f"Picture: {plot}", err=as_json)
    if n_skipped:
        click.get_current_context().exit(ROWS_SKIPPED)


def _format_score(score: dict[str, float], column: str) -> str:
    return f"{score[column]:.4f}" if column in score else ""


def _print_answers(of_pairs: PairScores, saved: SavedMetric) -> None:
    """Say by which threshold pairs are classified, the accuracy of a constant answer, and whether shares differ."""
    if STANDARDIZED in of_pairs.scores["accuracy of pairs"]:
        click.echo(
            f"accuracy of pairs: {LEARNED} with its own threshold, {STANDARDIZED} and {EUCLIDEAN} with the threshold "
            "that is best on these pairs in hindsight, so that only ROC AUC compares the distances alike."
        )
    answer, accuracy = of_pairs.answers.commoner
    click.echo(f'accuracy of always predicting the more common answer, "{answer}": {accuracy:.4f}.')
    sketch = saved.sketch
    trained = None if sketch is None else Answers(sketch.n_similar, sketch.n_dissimilar)
    if trained is not None and (note := describe_shares(of_pairs.answers, trained)):
        click.echo(note)


def describe_shares(evaluated: Answers, trained: Answers) -> str | None:
    """Say that the share of "same" differs clearly from that of the training answers; None if it does not.

    >>> describe_shares(Answers(20, 80), Answers(200, 200))
    'Note: 20 % of these pairs are "same", but 50 % of the training answers; threshold and probabilities fit those.'
    >>> describe_shares(Answers(45, 55), Answers(200, 200)) is None
    True
    """
    n, n_trained = sum(evaluated), sum(trained)
    if not n_trained:
        return None
    share, of_training = evaluated.n_similar / n, trained.n_similar / n_trained
    pooled = (evaluated.n_similar + trained.n_similar) / (n + n_trained)
    error = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / n_trained)) ** 0.5
    if abs(share - of_training) <= max(MIN_SHARE_DIFFERENCE, MIN_STANDARD_ERRORS * error):
        return None
    return (
        f'Note: {share:.0%} of these pairs are "same", but {of_training:.0%} of the training answers; '
        "threshold and probabilities fit those."
    ).replace("%", " %")


def describe_overlap(overlap: Overlap | None, thing: str) -> str:
    """Say how many of the evaluated pairs or items were learned from; ``thing`` is "pair" or "item".

    >>> from ocelad.estimators.training_sketch import Overlap
    >>> describe_overlap(Overlap(12, 400, exact=True), "pair")
    'Learned from: 12 of the 400 pairs. The scores are not held-out.'
    >>> describe_overlap(Overlap(0, 50_000, exact=False), "item")
    'In pairs that were learned from: about none of the 50,000 items.'
    """
    learned = "Learned from" if thing == "pair" else "In pairs that were learned from"
    if overlap is None:
        return f"{learned}: unknown. A tracker that `ocelad track` of this version saved would know."
    count = f"{overlap.n_learned:,}" if overlap.n_learned else "none"
    warning = " The scores are not held-out." if overlap.n_learned and thing == "pair" else ""
    return f"{learned}: {'' if overlap.exact else 'about '}{count} of the {count_of(overlap.n, thing)}.{warning}"


def _reliability_json(reliability: Reliability | None, saved: SavedMetric) -> dict[str, Any]:
    if reliability is None:
        return {}
    bins = [{**each._asdict(), "distance": _distance_at(each.predicted, saved)} for each in reliability.bins]
    return {"reliability": {**reliability._asdict(), "bins": bins, "calibrated": saved.is_calibrated}}


def _print_reliability(reliability: Reliability, saved: SavedMetric) -> None:
    source = "calibrated along the stream" if saved.is_calibrated else "not calibrated"
    scores = (
        *([] if reliability.roc_auc != reliability.roc_auc else [("ROC AUC of probabilities", reliability.roc_auc)]),
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
    print_tables(make_table('Probabilities of "same"', ["", ""], [[name, f"{value:.4f}"] for name, value in scores]))
    if reliability.roc_auc == reliability.roc_auc:
        click.echo(
            'ROC AUC of pairs: how often a "same" pair is nearer than a "different" one. ROC AUC of probabilities: how '
            'often it is more probably "same". The probability falls with the distance, so that the two agree.\n'
        )
    print_tables(
        make_table("Predicted and observed", ["distance", "predicted", "observed", "pairs"], rows),
    )
    click.echo(f"The probabilities, logistic(threshold - d^2), are {source}.")


def _distance_at(probability: float, saved: SavedMetric) -> float:
    """Return the distance of pairs that are the same with this probability."""
    from math import log, sqrt

    p = min(max(probability, 1e-300), 1.0 - 1e-16)
    return sqrt(max(saved.metric.threshold - log(p / (1.0 - p)), 0.0))


def _score_pairs(saved: SavedMetric, file: str, options: dict[str, Any]) -> PairScores:
    import numpy as np

    from ocelad.estimators.training_sketch import hash_pairs
    from ocelad.evaluation.reliability import reliability

    distances: dict[str, list[Floats]] = {LEARNED: [], STANDARDIZED: [], EUCLIDEAN: []}
    log_odds, is_right, hashes = [], [], []
    labels: list[Any] = []
    with open_pairs(file, options, saved.features, chunk_size=CHUNK_SIZE) as stream:
        saved.check_features(stream.feature_names, file)
        chunks: Iterator[ComparisonChunk] = iter(stream)
        spreads = _known_spreads(saved, options, None if stream.items is None else stream.items.X)
        if spreads is None:
            first = list(islice(chunks, MAX_PAIRS_OF_SPREADS // CHUNK_SIZE))
            chunks = chain(first, chunks)
            spreads = _find_spreads([chunk.pairs for chunk in first], f"the pairs of {file}", MAX_PAIRS_OF_SPREADS)
        for chunk in chunks:
            differences = chunk.pairs[:, 0] - chunk.pairs[:, 1]
            distances[LEARNED].append(saved.metric.distance(chunk.pairs[:, 0], chunk.pairs[:, 1]))
            distances[STANDARDIZED].append(np.linalg.norm(differences / spreads.scales, axis=1))
            distances[EUCLIDEAN].append(np.linalg.norm(differences, axis=1))
            log_odds.append(saved.log_odds(chunk.pairs))
            is_right.append(saved.predict(chunk.pairs) == chunk.y)
            labels.append(chunk.y)
            hashes.append(hash_pairs(chunk.pairs))
    report_skipped(stream)
    if not labels:
        raise ValueError(f"{file} has no pairs to evaluate on")
    y: Floats = np.concatenate(labels)
    scores, note = _compare_distances({name: np.concatenate(parts) for name, parts in distances.items()}, y, file)
    scores["accuracy of pairs"][LEARNED] = float(np.mean(np.concatenate(is_right)))
    overlap = None if saved.sketch is None else saved.sketch.find_pairs(np.concatenate(hashes))
    calibration = reliability(np.concatenate(log_odds), y)
    answers = Answers(int((y > 0).sum()), int((y < 0).sum()))
    return PairScores(scores, calibration, spreads, overlap, stream.n_skipped, note, answers)


def _compare_distances(
    distances: dict[str, Floats], y: Floats, file: str
) -> tuple[dict[str, dict[str, float]], str | None]:
    """Return the scores of each distance, and a note if all pairs have one answer, so that some are missing."""
    import numpy as np

    from ocelad.estimators.threshold_calibration import ThresholdCalibration
    from ocelad.evaluation.scores import pair_auc

    if note := note_one_answer(int((y > 0).sum()), int((y < 0).sum()), file):
        return {"accuracy of pairs": {}}, f"{note} There is no ROC AUC, and the accuracy says little."
    accuracy: dict[str, float] = {}
    for name in (STANDARDIZED, EUCLIDEAN):
        threshold = ThresholdCalibration("accuracy").threshold(distances[name], y)
        accuracy[name] = float(np.mean(np.where(distances[name] <= threshold, 1, -1) == y))
    auc = {name: pair_auc(of_pairs, y) for name, of_pairs in distances.items()}
    return {"ROC AUC of pairs": auc, "accuracy of pairs": accuracy}, None


def _known_spreads(saved: SavedMetric, options: dict[str, Any], items: Any) -> Spreads | None:
    """Return the standard deviations of the training pairs or, if they are not known, of the items; None without both.

    What is evaluated does not determine them, so that the distance is as held-out as the learned one.
    """
    trained = None if saved.sketch is None else saved.sketch.standard_deviations()
    if trained is not None:
        return Spreads(_without_zeros(trained), "the training pairs")
    return None if items is None else _find_spreads([items], f"the items of {options['items']}")


def _find_spreads(blocks: list[Any], source: str, max_rows: int | None = None) -> Spreads:
    """Return the standard deviations of points in blocks; ``max_rows`` is named if there are more."""
    import numpy as np

    if not blocks:
        return Spreads(np.ones(1), source)
    points = np.concatenate([block.reshape(-1, block.shape[-1]) for block in blocks])
    n_rows = sum(map(len, blocks))
    first = f"the first {n_rows:,} of " if max_rows is not None and n_rows >= max_rows else ""
    return Spreads(_without_zeros(points.std(axis=0, dtype=np.float64)), f"{first}{source}")


def _without_zeros(deviations: Floats) -> Floats:
    import numpy as np

    return np.where(deviations > 0.0, deviations, 1.0)


def _score_items(saved: SavedMetric, class_: str, neighbors: int, seed: int, options: dict[str, Any]) -> ItemScores:
    import numpy as np

    from ocelad.estimators.training_sketch import hash_points
    from ocelad.evaluation.prequential import embed_points
    from ocelad.evaluation.scores import clustering_nmi, knn_error

    named = {**options, "class_": class_}
    X, labels = read_labelled_items(saved, options["items"], class_, seed, MAX_POINTS, named)
    if len(np.unique(labels)) < 2:
        raise ValueError(f"all items have the {class_} {labels[0]!r}; at least two classes are needed")
    spreads = _known_spreads(saved, options, X)
    assert spreads is not None
    embeddings = {LEARNED: embed_points(saved.metric, X), STANDARDIZED: X / spreads.scales, EUCLIDEAN: X}
    scores = {
        f"{neighbors}-NN error": {name: knn_error(points, labels, neighbors) for name, points in embeddings.items()},
        "NMI of k-means": {name: clustering_nmi(points, labels, seed) for name, points in embeddings.items()},
    }
    return ItemScores(scores, spreads, None if saved.sketch is None else saved.sketch.find_points(hash_points(X)))


def read_labelled_items(
    saved: SavedMetric, file: str, label: str | None, seed: int, max_points: int, options: dict[str, Any]
) -> tuple[Any, Any]:
    """Return the points and the labels of at most ``max_points`` items, sampled at random if there are more.

    Labels are texts, "" if one is missing. ``options`` are those of ``open_item_table``.
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
    X, classes = np.concatenate(points), np.array(["" if entry is None else str(entry) for entry in labels])
    if len(X) > max_points:
        sample = np.sort(np.random.default_rng(seed).choice(len(X), max_points, replace=False))
        click.echo(f"A random sample of {max_points:,} of the {len(X):,} items is used.", err=True)
        X, classes = X[sample], classes[sample]
    return X, classes
