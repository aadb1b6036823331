"""What a saved file says of distances, whether it holds a tracker of any kind or a metric alone."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ocelad import estimators, saved, tables
from ocelad.metric import Metric


class SavedMetric(NamedTuple):
    """A metric from a file, with the threshold on the distance and, where it knows them, the features' names."""

    metric: Metric
    threshold: float
    feature_names: tuple[str, ...] | None

    def check_features(self, names: tuple[str, ...], file: str) -> None:
        """Refuse a file whose features are not those that were learned from."""
        if self.feature_names is None and len(names) != self.metric.n_features:
            raise ValueError(f"{file} has {len(names)} features; {self.metric.n_features} were learned from")
        tables.same_names(names, self.feature_names, file)


def load_metric(path: str | os.PathLike[str]) -> SavedMetric:
    """The metric in a file that ``ocelad track``, an estimator's ``save`` or ``Metric.save`` wrote."""
    if saved.kind(path) == "metric":
        metric = Metric.load(path)
        return SavedMetric(metric, metric.distance_threshold, None)
    tracker = load_estimator(path)
    names, metric = getattr(tracker, "feature_names_in_", None), tracker.metric_
    threshold = getattr(tracker, "threshold_", metric.distance_threshold)
    return SavedMetric(metric, threshold, None if names is None else tuple(names))


def load_estimator(path: str | os.PathLike[str]) -> Any:
    """The estimator in a file, of whatever kind it is."""
    _, about = saved.read(path, saved.TRACKER)
    with saved.refusing(path, saved.TRACKER):
        if about["estimator"] not in estimators.__all__:
            raise ValueError(f"it holds a {about['estimator']}, which is not known")
    return getattr(estimators, about["estimator"]).load(path)
