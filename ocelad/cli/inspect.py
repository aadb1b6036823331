"""ocelad inspect: show the content of a saved file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.completion_words import FilePath
from ocelad.cli.described_items import check_one_file, read_described_items
from ocelad.cli.one_answer import note_one_answer
from ocelad.cli.options import json_option, missing_option, tracker_argument
from ocelad.cli.output import make_table, print_json, print_tables

if TYPE_CHECKING:
    from ocelad.curved_metric import AnyMetric
    from ocelad.estimators import MetricTracker
    from ocelad.estimators.feature_weights import FeatureWeights
    from ocelad.estimators.file_tracker import FileTracker
    from ocelad.estimators.training_sketch import TrainingSketch
    from ocelad.metric import Metric

# The number of eigenvalues that are listed.
N_EIGENVALUES = 10
BAR_WIDTH = 20
# Experts of smaller weights are listed together.
MIN_WEIGHT = 0.001
# Names of rows that differ from those in the JSON.
_LABELS = {"drift": "drift per 1000 pairs", "prior_answers": "shared prior from answers"}


@click.command(short_help="Show what a saved tracker has learned.")
@tracker_argument
@click.option(
    "--features", default=10, show_default=True, type=click.IntRange(1), help="The number of features to list."
)
@click.option(
    "--items",
    type=FilePath(),
    metavar="FILE",
    help="A table of items: features are listed by their share between them.",
)
@click.option(
    "--pairs", type=FilePath(), metavar="FILE", help="A file of pairs (x_..., z_...), whose points are the items."
)
@click.option("--id", "id_", help="The id column of the items.")
@missing_option
@json_option
def inspect(tracker: Path, features: int, items: str | None, pairs: str | None, as_json: bool, **options: Any) -> None:
    """Show the content of TRACKER: the number of rounds, settings, rank and eigenvalues of the metric, the features
    that the distance looks at most, and the weight of each expert (method rice: of each interval length).

    Features are listed by their share of the squared distances between the items of --items or --pairs, averaged over
    all pairs. Shares sum to 100 %; those of features that are correlated with others can be negative. Without a file,
    the spreads along the stream are used. The method rice does not store them: then shares are those of the weights
    per unit of each feature.

    With the method adaptive also the drift (the current relative change of the metric per 1000 pairs) and the detected
    changes of the question, each with its evidence: the log likelihood ratio by which the answers contradicted the
    metric before the change. A negative threshold means that no pair is predicted similar.

    \b
    Examples:
      ocelad inspect pairs.tracker
      ocelad inspect pairs.tracker --features 30 --json
      ocelad inspect pairs.tracker --items items.csv
      ocelad inspect pairs.tracker --items embeddings.npy
    """
    check_one_file(items, pairs)

    from ocelad.estimators import MetricTracker
    from ocelad.estimators.feature_weights import rank_features
    from ocelad.estimators.file_tracker import FileTracker
    from ocelad.estimators.saved_metric import load_estimator, load_metric
    from ocelad.io import state_files

    if state_files.read_kind(tracker) != "tracker":
        metric = load_metric(tracker).metric
        content = {"kind": "metric", **describe_metric(metric)}
        points = read_described_items(tracker, items, pairs, options)
        content |= describe_features(rank_features(metric, None, features, items=points))
    else:
        estimator = load_estimator(tracker)
        content = {"kind": "tracker", **_describe_estimator(estimator)}
        points = read_described_items(tracker, items, pairs, options)
        content |= describe_features(estimator.feature_weights(features, items=points))
        if isinstance(estimator, MetricTracker):
            content |= _describe_tracking(FileTracker.load(tracker))
    if as_json:
        print_json(content)
    else:
        print_tables(*make_tables(content))
    if note := note_one_answer(content.get("similar", 0), content.get("dissimilar", 0), str(tracker)):
        click.echo(f"{note} A distance is learned from both.", err=True)


def describe_metric(metric: AnyMetric) -> dict[str, Any]:
    """Describe a metric; the eigenvalues of a curved one are those of its linear part."""
    from ocelad.curved_metric import linear_part

    linear = linear_part(metric)
    rank, eigenvalues = _rank_and_eigenvalues(linear)
    return {
        "rounds": metric.round,
        "features": metric.n_features,
        "rank": rank if linear is metric else metric.rank,
        **({} if linear is metric else {"rank_linear": rank}),
        "threshold": metric.distance_threshold,
        "curved": linear is not metric,
        "spectrum": [float(value) for value in eigenvalues],
    }


def _rank_and_eigenvalues(metric: Metric) -> tuple[int | None, Any]:
    """Return the rank and the largest eigenvalues; with too many features for all of them, the rank is unknown."""
    try:
        return metric.rank, metric.eigenvalues(N_EIGENVALUES)
    except ValueError:
        import numpy as np
        from scipy.sparse.linalg import LinearOperator, eigsh

        n = metric.n_features
        operator = LinearOperator((n, n), matvec=lambda v: metric.matmul(v.reshape(n, 1))[:, 0], dtype=np.float64)
        return None, eigsh(operator, N_EIGENVALUES, v0=np.ones(n), return_eigenvectors=False)[::-1]


def describe_features(weights: FeatureWeights) -> dict[str, Any]:
    """Describe features by their shares."""
    return {"feature_weights": [row._asdict() for row in weights], "shares_of": weights.source}


def _describe_estimator(estimator: Any) -> dict[str, Any]:
    from ocelad.engines.rice_settings import Rice

    defaults = type(estimator)().get_params(deep=False)
    params = estimator.get_params(deep=False)
    settings = {name: value for name, value in params.items() if name != "method" and value != defaults[name]}
    if isinstance(method := params.get("method"), Rice):
        default_rice = Rice().get_params()
        settings |= {name: value for name, value in method.get_params().items() if value != default_rice[name]}
    return {
        "estimator": type(estimator).__name__,
        **describe_metric(estimator.metric_),
        "settings": {
            name: value if isinstance(value, (int, float, str)) else repr(value) for name, value in settings.items()
        },
    }


def _describe_tracking(tracking: FileTracker) -> dict[str, Any]:
    tracker = tracking.tracker
    total = tracking.history.total() if len(tracking.history) else None
    return {
        "threshold": tracker.threshold_,
        "method": tracker.method_,
        "engine": tracker.engine_,
        **({} if tracking.sketch is None else _describe_answers(tracking.sketch)),
        "weights": dict(zip(tracker.experts_, tracker.weights_.tolist(), strict=True)),
        "accuracy": None if total is None else total.accuracy,
        "loss": None if total is None else total.loss,
        **(_describe_changes(tracker) if tracker.method_ == "adaptive" else {}),
        **describe_implied(tracker),
    }


def _describe_answers(sketch: TrainingSketch) -> dict[str, Any]:
    """Describe the answers of a tracker that `ocelad track` saved."""
    return {"similar": sketch.n_similar, "dissimilar": sketch.n_dissimilar}


def describe_implied(tracker: MetricTracker) -> dict[str, Any]:
    """Describe what the answers imply; nothing if they imply none."""
    try:
        groups = tracker.groups_
    except AttributeError:
        return {}
    return {
        "groups": len(groups),
        "implied": tracker.n_implied_,
        "contradictions": len(tracker.contradictions_),
        "transitivity": tracker.transitivity_,
    }


def _describe_changes(tracker: MetricTracker) -> dict[str, Any]:
    return {"drift": 1000 * tracker.drift_, "changes": [change._asdict() for change in tracker.changes_]}


def make_tables(content: dict[str, Any], title: str = "Saved") -> list[Any]:
    """Return tables of what is known of a metric, and of the tracker that has learned it."""
    from ocelad.adaptive.expert_names import describe_expert

    names = (
        *("kind", "estimator", "method", "engine", "rounds", "answers", "similar", "dissimilar", "features", "rank"),
        *(
            "threshold",
            "prior_answers",
            "accuracy",
            "loss",
            "drift",
            "groups",
            "implied",
            "contradictions",
            "transitivity",
        ),
    )
    rows = [[_LABELS.get(name, name), _format(content[name])] for name in names if content.get(name) is not None]
    if (linear := content.get("rank_linear")) is not None:
        rank = f"{content['rank']:,} ({linear:,} linear + {content['rank'] - linear:,} curved)"
        rows = [[name, rank if name == "rank" else value] for name, value in rows]
    rows += [[f"setting {name}", repr(value)] for name, value in content.get("settings", {}).items()]
    tables = [make_table(title, ["", ""], rows)]
    largest = content["spectrum"][0] if content["spectrum"] else 0.0
    spectrum = [
        [str(index), f"{value:.4g}", _make_bar(value, largest)] for index, value in enumerate(content["spectrum"], 1)
    ]
    heading = "Largest eigenvalues of the linear part" if content["curved"] else "Largest eigenvalues"
    tables.append(make_table(heading, ["", "eigenvalue", ""], spectrum))
    tables.append(_make_feature_table(content))
    if content.get("weights"):
        largest = max(content["weights"].values())
        lines = [
            [describe_expert(key), f"{value:.4f}", _make_bar(value, largest)]
            for key, value in content["weights"].items()
            if value >= MIN_WEIGHT
        ]
        if others := [value for value in content["weights"].values() if value < MIN_WEIGHT]:
            lines.append(["1 other" if len(others) == 1 else f"{len(others)} others", f"{sum(others):.4f}", ""])
        tables.append(make_table("Weight of each expert", ["expert", "weight", ""], lines))
    if "changes" in content:
        changes = [
            [f"{change['round']:,}", f"{change['detected']:,}", f"{change['evidence']:.1f}"]
            for change in content["changes"]
        ]
        columns = ["from about pair", "detected at pair", "evidence"]
        tables.append(make_table("Detected changes", columns, changes or [["none", "", ""]]))
    return tables


def _make_feature_table(content: dict[str, Any]) -> Any:
    from ocelad.estimators.feature_weights import FeatureWeights

    rows = content["feature_weights"]
    largest = max((row["share"] for row in rows), default=0.0)
    lines = [
        [row["feature"], f"{row['share']:.1%}", _make_bar(row["share"], largest), f"{row['weight']:.4g}"]
        for row in rows
    ]
    description = FeatureWeights(source=content["shares_of"]).description
    return make_table(f"Features by their {description}", ["feature", "share", "", "weight per unit"], lines)


def _format(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _make_bar(value: float, largest: float) -> str:
    return "█" * round(BAR_WIDTH * value / largest) if largest > 0 else ""
