"""ocelad inspect: what is in a saved file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.shared import as_json, print_json, print_tables, saved_tracker, table

if TYPE_CHECKING:
    from ocelad.estimators import MetricTracker
    from ocelad.estimators.file_tracking import Tracking
    from ocelad.metric import Metric


@click.command(short_help="What is in a saved file.")
@saved_tracker
@click.option("--features", default=10, show_default=True, type=click.IntRange(1), help="How many features are listed.")
@as_json
def inspect(tracker: Path, features: int, as_json: bool) -> None:
    """What is in TRACKER: rounds, settings, rank and spectrum, features that matter, the weight of each expert (of the
    method rice: of each interval length). With the method adaptive also its drift, which is the relative change of the
    metric per pair now, and where the question changed.

    \b
    Examples:
      ocelad inspect pairs.tracker
      ocelad inspect pairs.tracker --features 30 --json
    """
    from ocelad.estimators import MetricTracker
    from ocelad.estimators.file_tracking import Tracking
    from ocelad.estimators.saved_metric import load_estimator
    from ocelad.io import state_files
    from ocelad.metric import Metric

    if state_files.kind(tracker) == "metric":
        content = {"kind": "metric", **_of_metric(Metric.load(tracker))}
    else:
        estimator = load_estimator(tracker)
        content = {"kind": "tracker", **_of_estimator(estimator, features)}
        if isinstance(estimator, MetricTracker):
            content |= _of_tracking(Tracking.load(tracker))
    if as_json:
        print_json(content)
    else:
        print_tables(*_tables(content))


def _of_metric(metric: Metric) -> dict[str, Any]:
    return {
        "rounds": metric.round,
        "features": metric.n_features,
        "rank": metric.rank,
        "threshold": metric.distance_threshold,
        "spectrum": [float(value) for value in metric.spectrum(10)],
    }


def _of_estimator(estimator: Any, n_features: int) -> dict[str, Any]:
    usual = type(estimator)().get_params(deep=False)
    given = {name: value for name, value in estimator.get_params(deep=False).items() if name != "method"}
    settings = {name: value for name, value in given.items() if value != usual[name]}
    return {
        "estimator": type(estimator).__name__,
        **_of_metric(estimator.metric_),
        "settings": {
            name: value if isinstance(value, (int, float, str)) else repr(value) for name, value in settings.items()
        },
        "heaviest_features": {row.feature: row.weight for row in estimator.feature_weights(n_features)},
    }


def _of_tracking(tracking: Tracking) -> dict[str, Any]:
    tracker = tracking.tracker
    total = tracking.history.total() if len(tracking.history) else None
    return {
        "threshold": tracker.threshold_,
        "method": tracker.method_,
        "engine": tracker.engine_,
        "weights": dict(zip(tracker.experts_, tracker.weights_.tolist(), strict=True)),
        "accuracy": None if total is None else total.accuracy,
        "loss": None if total is None else total.loss,
        **(_of_changes(tracker) if tracker.method_ == "adaptive" else {}),
    }


def _of_changes(tracker: MetricTracker) -> dict[str, Any]:
    return {"drift": tracker.drift_, "changes": [change._asdict() for change in tracker.changes_]}


def _tables(content: dict[str, Any]) -> list[Any]:
    plain = (
        *("kind", "estimator", "method", "engine", "rounds", "features", "rank", "threshold"),
        *("accuracy", "loss", "drift"),
    )
    rows = [[name, _in_words(content[name])] for name in plain if content.get(name) is not None]
    rows += [[f"setting {name}", repr(value)] for name, value in content.get("settings", {}).items()]
    tables = [table("Saved", ["", ""], rows)]
    largest = content["spectrum"][0] if content["spectrum"] else 0.0
    spectrum = [[str(at), f"{value:.4g}", _bar(value, largest)] for at, value in enumerate(content["spectrum"], 1)]
    tables.append(table("Largest eigenvalues", ["", "eigenvalue", ""], spectrum))
    for name, title in (("heaviest_features", "Features that matter"), ("weights", "Weight of each expert")):
        if content.get(name):
            most = max(content[name].values())
            lines = [[str(key), f"{value:.4g}", _bar(value, most)] for key, value in content[name].items()]
            tables.append(table(title, ["feature" if "features" in name else "expert", "weight", ""], lines))
    if "changes" in content:
        changes = [
            [f"{change['round']:,}", f"{change['noticed']:,}", f"{change['confidence']:.1%}"]
            for change in content["changes"]
        ]
        columns = ["from about pair", "noticed after", "confidence"]
        tables.append(table("Where the question changed", columns, changes or [["nowhere", "", ""]]))
    return tables


def _in_words(value: Any) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _bar(value: float, largest: float) -> str:
    return "█" * round(20 * value / largest) if largest > 0 else ""
