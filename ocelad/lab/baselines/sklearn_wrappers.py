"""What the methods that scikit-learn implements share: the conversion of its results to metrics.

All results are rows L with ``M = L'L``: a distance by the metric is the Euclidean distance of the transformed points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.batch import FitError, Indices
from ocelad.metric import Metric
from ocelad.pairs import subtract

# Smaller differences count as 0, because their squares underflow.
_MIN_SPREAD = 1e-140


class UnsupervisedMethod(ABC):
    """A batch method that uses the points only; the labels determine the threshold."""

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """Return the metric of the points."""
        rows, classes = batch.check_labelled_points(X, labels)
        return batch.calibrate_on_points(self._fit_metric(rows), rows, classes)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """Return the metric of all points of the pairs."""
        rows, others, y = batch.check_pairs(X, Z, y)
        return batch.calibrate_on_pairs(self._fit_metric(np.concatenate([rows, others])), subtract(rows, others), y)

    @abstractmethod
    def _fit_metric(self, rows: Floats) -> Metric:
        """Return the metric of the points, without a calibrated threshold."""


def check_n_components(n_components: int | None) -> None:
    """Raise ValueError or TypeError if n_components is not None or a number of rows of L."""
    if n_components is not None:
        check_integer(n_components, "n_components", at_least=1)


def cap_components(n_components: int | None, available: int) -> int:
    """Return the requested number of components, or the available number if that is smaller."""
    return available if n_components is None else min(n_components, available)


def fit_transformer(transformer: Any, rows: Floats, classes: Indices, method: str) -> None:
    """Fit a transformer of scikit-learn to the centred points."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # metric_from_factors reports them
        try:
            transformer.fit(rows - rows.mean(axis=0), classes)
        except (ValueError, IndexError) as error:  # raised for classes without variance; NCA may start from LDA
            raise FitError(
                f"the points within each class are equal; {method} needs a class with points that differ"
            ) from error


def check_spread(rows: Floats, method: str) -> None:
    """Raise FitError if all points are equal."""
    if np.ptp(rows, axis=0).max() < _MIN_SPREAD:
        raise FitError(f"{method} needs points that differ; got {len(rows)} equal points")
