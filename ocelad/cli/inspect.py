"""ocelad inspect: show the content of a saved file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.options import json_option, tracker_argument
from ocelad.cli.output import make_table, print_json, print_tables

if TYPE_CHECKING:
    from ocelad.estimators import MetricTracker
    from ocelad.estimators.file_tracker import FileTracker
    from ocelad.metric import Metric

# The number of eigenvalues that are listed.
N_EIGENVALUES = 10
BAR_WIDTH = 20


@click.command(short_help="Show what a saved tracker has learned.")
@tracker_argument
@click.option(
    "--features", default=10, show_default=True, type=click.IntRange(1), help="The number of features to list."
)
@json_option
def inspect(tracker: Path, features: int, as_json: bool) -> None:
    """Show the content of TRACKER: the number of rounds, settings, rank and eigenvalues of the metric, the features
    with the largest weights, and the weight of each expert (method rice: of each interval length).

    With the method adaptive also the drift (the current relative change of the metric per pair) and the detected
    changes of the question, each with its evidence: the log likelihood ratio by which the answers contradicted the
    metric before the change. A negative threshold means that no pair is predicted similar.

    \b
    Examples:
      ocelad inspect pairs.tracker
      ocelad inspect pairs.tracker --features 30 --json
    """
    from ocelad.estimators import MetricTracker
    from ocelad.estimators.file_tracker import FileTracker
    from ocelad.estimators.saved_metric import load_estimator
    from ocelad.io import state_files
    from ocelad.metric import Metric

    if state_files.read_kind(tracker) == "metric":
        content = {"kind": "metric", **_describe_metric(Metric.load(tracker))}
    else:
        estimator = load_estimator(tracker)
        content = {"kind": "tracker", **_describe_estimator(estimator, features)}
        if isinstance(estimator, MetricTracker):
            content |= _describe_tracking(FileTracker.load(tracker))
    if as_json:
        print_json(content)
    else:
        print_tables(*_make_tables(content))


def _describe_metric(metric: Metric) -> dict[str, Any]:
    rank, eigenvalues = _rank_and_eigenvalues(metric)
    return {
        "rounds": metric.round,
        "features": metric.n_features,
        "rank": rank,
        "threshold": metric.distance_threshold,
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


def _describe_estimator(estimator: Any, n_features: int) -> dict[str, Any]:
    from ocelad.engines.rice_settings import Rice

    defaults = type(estimator)().get_params(deep=False)
    params = estimator.get_params(deep=False)
    settings = {name: value for name, value in params.items() if name != "method" and value != defaults[name]}
    if isinstance(method := params.get("method"), Rice):
        default_rice = Rice().get_params()
        settings |= {name: value for name, value in method.get_params().items() if value != default_rice[name]}
    return {
        "estimator": type(estimator).__name__,
        **_describe_metric(estimator.metric_),
        "settings": {
            name: value if isinstance(value, (int, float, str)) else repr(value) for name, value in settings.items()
        },
        "heaviest_features": {row.feature: row.weight for row in estimator.feature_weights(n_features)},
    }


def _describe_tracking(tracking: FileTracker) -> dict[str, Any]:
    tracker = tracking.tracker
    total = tracking.history.total() if len(tracking.history) else None
    return {
        "threshold": tracker.threshold_,
        "method": tracker.method_,
        "engine": tracker.engine_,
        "weights": dict(zip(tracker.experts_, tracker.weights_.tolist(), strict=True)),
        "accuracy": None if total is None else total.accuracy,
        "loss": None if total is None else total.loss,
        **(_describe_changes(tracker) if tracker.method_ == "adaptive" else {}),
    }


def _describe_changes(tracker: MetricTracker) -> dict[str, Any]:
    return {"drift": tracker.drift_, "changes": [change._asdict() for change in tracker.changes_]}


def _make_tables(content: dict[str, Any]) -> list[Any]:
    names = (
        *("kind", "estimator", "method", "engine", "rounds", "features", "rank", "threshold"),
        *("accuracy", "loss", "drift"),
    )
    rows = [[name, _format(content[name])] for name in names if content.get(name) is not None]
    rows += [[f"setting {name}", repr(value)] for name, value in content.get("settings", {}).items()]
    tables = [make_table("Saved", ["", ""], rows)]
    largest = content["spectrum"][0] if content["spectrum"] else 0.0
    spectrum = [
        [str(index), f"{value:.4g}", _make_bar(value, largest)] for index, value in enumerate(content["spectrum"], 1)
    ]
    tables.append(make_table("Largest eigenvalues", ["", "eigenvalue", ""], spectrum))
    for name, title, kind in (
        ("heaviest_features", "Features with the largest weights", "feature"),
        ("weights", "Weight of each expert", "expert"),
    ):
        if content.get(name):
            largest = max(content[name].values())
            lines = [[str(key), f"{value:.4g}", _make_bar(value, largest)] for key, value in content[name].items()]
            tables.append(make_table(title, [kind, "weight", ""], lines))
    if "changes" in content:
        changes = [
            [f"{change['round']:,}", f"{change['detected']:,}", f"{change['evidence']:.1f}"]
            for change in content["changes"]
        ]
        columns = ["from about pair", "detected at pair", "evidence"]
        tables.append(make_table("Detected changes", columns, changes or [["none", "", ""]]))
    return tables


def _format(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _make_bar(value: float, largest: float) -> str:
    return "█" * round(BAR_WIDTH * value / largest) if largest > 0 else ""
