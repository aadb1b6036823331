"""What a saved file says of distances, whether it holds a tracker of any kind or a metric alone."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ocelad import estimators
from ocelad._typing import Floats
from ocelad.estimators import MetricTracker
from ocelad.io import dataframes, state_files
from ocelad.metric import Metric


class SavedMetric(NamedTuple):
    """A metric from a file, with the threshold on the distance and, where it knows them, the features' names.

    ``tracker`` is the one of pairs that has learned it, where the file holds one.
    """

    metric: Metric
    threshold: float
    feature_names: tuple[str, ...] | None
    tracker: MetricTracker | None = None

    @property
    def is_calibrated(self) -> bool:
        """Whether its log odds have been calibrated along the stream that it has learned from."""
        return self.tracker is not None and self.tracker.method_ == "adaptive"

    def log_odds(self, pairs: Any) -> Floats:
        """The log odds of "same" for pairs of shape (n_pairs, 2, n_features).

        They are the tracker's own; a metric alone has ``threshold - d^2``, on the squared distance, in their place.
        """
        if self.tracker is not None:
            return self.tracker.log_odds(pairs)
        return np.asarray(self.metric.threshold - self.metric.squared_length(pairs[:, 0] - pairs[:, 1]))

    def predict(self, pairs: Any) -> Any:
        """+1 for each of such pairs that is taken to be similar, otherwise -1."""
        if self.tracker is not None:
            return self.tracker.predict(pairs)
        return np.where(self.metric.length(pairs[:, 0] - pairs[:, 1]) <= self.threshold, 1, -1)

    def check_features(self, names: tuple[str, ...], file: str) -> None:
        """Refuse a file whose features are not those that were learned from."""
        if self.feature_names is None and len(names) != self.metric.n_features:
            raise ValueError(f"{file} has {len(names)} features; {self.metric.n_features} were learned from")
        dataframes.check_feature_names(names, self.feature_names, file)


def load_metric(path: str | os.PathLike[str]) -> SavedMetric:
    """The metric in a file that ``ocelad track``, an estimator's ``save`` or ``Metric.save`` wrote."""
    if state_files.read_kind(path) == "metric":
        metric = Metric.load(path)
        return SavedMetric(metric, metric.distance_threshold, None)
    tracker = load_estimator(path)
    names, metric = getattr(tracker, "feature_names_in_", None), tracker.metric_
    threshold = getattr(tracker, "threshold_", metric.distance_threshold)
    of_pairs = tracker if isinstance(tracker, MetricTracker) else None
    return SavedMetric(metric, threshold, None if names is None else tuple(names), of_pairs)


def load_estimator(path: str | os.PathLike[str]) -> Any:
    """The estimator in a file, of whatever kind it is."""
    _, metadata = state_files.read(path, state_files.TRACKER)
    with state_files.content_errors(path, state_files.TRACKER):
        if metadata["estimator"] not in estimators.__all__:
            raise ValueError(f"it holds a {metadata['estimator']}, which is not known")
    return getattr(estimators, metadata["estimator"]).load(path)
