"""Standardized Euclidean distance: each feature is divided by its standard deviation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocelad._typing import Floats
from ocelad.lab.baselines.batch import FitError
from ocelad.lab.baselines.sklearn_wrappers import UnsupervisedMethod, check_spread
from ocelad.metric import Metric


@dataclass(frozen=True)
class Standardized(UnsupervisedMethod):
    """``M = diag(1 / variance)`` of the points: Euclidean distance of standardized features.

    A feature that does not vary has the weight 0. The labels determine the threshold only. From pairs, the points are
    both points of all pairs.

    Examples
    --------
    >>> Standardized().fit_points([[0.0, 1.0], [4.0, 1.0], [0.0, 2.0], [4.0, 2.0]], [0, 0, 1, 1]).diagonal
    array([0.25, 4.  ])
    """

    def _fit_metric(self, rows: Floats) -> Metric:
        check_spread(rows, "standardized Euclidean distance")
        variance = rows.var(axis=0)
        with np.errstate(divide="ignore", over="ignore"):
            weights = np.where(variance > 0.0, 1.0 / variance, 0.0)
        if not weights.any() or not np.isfinite(weights.sum()):
            raise FitError("the variance of a feature is too small to divide by; use features of a larger scale")
        return Metric.from_diagonal(weights)
