"""load_metric: the metric in a saved file, whether the file holds an estimator or only a metric."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ocelad import estimators
from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.estimators import LabelMetricTracker, MetricTracker
from ocelad.estimators.file_tracker import read_sketch, read_vector_column
from ocelad.estimators.saveable import Saveable
from ocelad.estimators.training_sketch import TrainingSketch
from ocelad.io import KnownFeatures, dataframes, state_files
from ocelad.metric import Metric


class SavedMetric(NamedTuple):
    """A metric from a file.

    Attributes
    ----------
    metric : Metric or CurvedMetric
    threshold : float
        The threshold on the distance.
    feature_names : tuple of str, or None
        The names of the features, if the file has them.
    tracker : MetricTracker or None
        The tracker of pairs that learned the metric, if the file holds one.
    is_calibrated : bool
        Whether the log odds of "same" were calibrated along the training stream: the method "adaptive" does so, for
        pairs and for labelled points.
    vector_column : str or None
        The column of vectors in the table of items that `ocelad track` learned from.
    sketch : TrainingSketch or None
        A digest of the pairs learned from, if the file has one: files that `ocelad track` wrote do.
    """

    metric: AnyMetric
    threshold: float
    feature_names: tuple[str, ...] | None
    tracker: MetricTracker | None = None
    is_calibrated: bool = False
    vector_column: str | None = None
    sketch: TrainingSketch | None = None

    @property
    def features(self) -> KnownFeatures:
        """The features, to be found in a table of items."""
        return KnownFeatures(self.feature_names, self.vector_column)

    def log_odds(self, pairs: Any) -> Floats:
        """Return the log odds of "similar" for pairs of shape (n_pairs, 2, n_features).

        Without a tracker they are the margin ``threshold - d^2``, with the threshold on the squared distance.
        """
        if self.tracker is not None:
            return self.tracker.log_odds(pairs)
        return np.asarray(self.metric.threshold - self.metric.squared_distance(pairs[:, 0], pairs[:, 1]))

    def predict(self, pairs: Any) -> Any:
        """Return +1 for each pair predicted similar, otherwise -1; pairs have shape (n_pairs, 2, n_features)."""
        if self.tracker is not None:
            return np.where(self.tracker.predict(pairs) == self.tracker.classes_[1], 1, -1)
        return np.where(self.metric.distance(pairs[:, 0], pairs[:, 1]) <= self.threshold, 1, -1)

    def check_features(self, names: tuple[str, ...], file: str) -> None:
        """Refuse a file whose features differ from those of the metric."""
        if self.feature_names is None and len(names) != self.metric.n_features:
            raise ValueError(f"{file} has {len(names)} features; the metric has {self.metric.n_features}")
        dataframes.check_feature_names(names, self.feature_names, file)


def load_metric(path: str | os.PathLike[str]) -> SavedMetric:
    """Load the metric of a file written by ``ocelad track`` or by the ``save`` of an estimator or a metric."""
    kind = state_files.read_kind(path)
    metric: AnyMetric
    if kind in ("metric", "curved-metric"):
        metric = Metric.load(path) if kind == "metric" else CurvedMetric.load(path)
        return SavedMetric(metric, metric.distance_threshold, None)
    estimator = load_estimator(path)
    names, metric = getattr(estimator, "feature_names_in_", None), estimator.metric_
    threshold = getattr(estimator, "threshold_", metric.distance_threshold)
    tracker = estimator if isinstance(estimator, MetricTracker) else None
    learned_by = estimator.tracker_ if isinstance(estimator, LabelMetricTracker) and estimator.n_rounds_ else tracker
    calibrated = learned_by is not None and learned_by.method_ == "adaptive"
    arrays, metadata = state_files.read(path, state_files.TRACKER)
    with state_files.content_errors(path, state_files.TRACKER):
        column, sketch = read_vector_column(metadata), read_sketch(arrays)
    names = None if names is None else tuple(names)
    return SavedMetric(metric, threshold, names, tracker, calibrated, column, sketch)


def load_estimator(path: str | os.PathLike[str]) -> Any:
    """Load the estimator of a file, of any class."""
    _, metadata = state_files.read(path, state_files.TRACKER)
    with state_files.content_errors(path, state_files.TRACKER):
        kind: Any = getattr(estimators, str(metadata["estimator"]), None)
        if not (isinstance(kind, type) and issubclass(kind, Saveable)):
            raise ValueError(f"it holds a {metadata['estimator']}, which is not known")
    return kind.load(path)
