"""add_features: continue a tracker with more features."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ocelad._validation import check_integer
from ocelad.engines.metric_bank import MetricLearnerBank
from ocelad.engines.rice import has_rice_settings, track_metric
from ocelad.ensemble.ocelad import Ocelad
from ocelad.metric import Metric


def add_features(tracker: Ocelad[Any, Metric], n_features: int) -> Ocelad[Any, Metric]:
    """Return a tracker with more features that continues with the round, the weights and the learners' metrics.

    Every learner's ``M`` becomes ``[[M, 0], [0, initial_scale * I]]``. Without shrinkage, the result is the same as if
    all earlier points had had the new features with the value 0. The given tracker does not change.

    Parameters
    ----------
    tracker : Ocelad
        A tracker of ``track_metric``. If ``initial_scale`` was None, it stays one over the tracker's first n_features.
    n_features : int
        The new number of features; the old features come first.

    Examples
    --------
    >>> from ocelad import Pair
    >>> tracker = track_metric(1, initial_scale=0.5)
    >>> _ = tracker.step(Pair([1.0], [0.0], similar=True))
    >>> wider = add_features(tracker, 2)
    >>> wider.n_rounds, float(wider.play().matrix[1, 1])
    (1, 0.5)

    Notes
    -----
    The new features may raise a metric's norm above ``max_norm``; the next step scales it back.
    """
    settings = tracker.settings if isinstance(tracker, Ocelad) else {}
    if not has_rice_settings(settings):
        raise TypeError(f"tracker must come from track_metric; got {tracker!r}")
    n_before = settings["n_features"]
    n = check_integer(n_features, "n_features", at_least=n_before)
    if settings["max_rank"] is not None:
        raise ValueError("max_rank must be None: every new feature is a new direction")
    wider, round_state = track_metric(**{**settings, "n_features": n}), tracker.round_state
    metrics = cast(MetricLearnerBank, tracker.bank).metrics(round_state)
    padded = [_pad(metric, n - n_before, settings["initial_scale"]) for metric in metrics]
    bank = cast(MetricLearnerBank, wider.bank).with_metrics(padded, round_state)
    return wider.with_bank(bank, round_state)


def _pad(metric: Metric, n_new: int, weight: float) -> Metric:
    """Return the metric with ``n_new`` further features of this weight, uncorrelated with the others."""
    if metric.is_diagonal:
        weights = np.concatenate([metric.diagonal, np.full(n_new, weight)])
        return Metric.from_diagonal(weights, metric.threshold, metric.round)
    n = metric.n_features
    matrix = np.diag(np.full(n + n_new, float(weight)))
    matrix[:n, :n] = metric.matrix
    return Metric.from_trusted_matrix(matrix, metric.threshold, metric.round)
