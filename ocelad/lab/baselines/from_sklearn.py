"""What the methods that scikit-learn has share: its answers become metrics, and none is written again.

All give rows L with ``M = L'L``: a distance by the metric is the Euclidean one of the points that scikit-learn would
transform the points to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.batch import FitError, Whole
from ocelad.metric import Metric
from ocelad.pairs import subtract

# Differences below this are none: their squares are near the end of float64.
_TINY = 1e-140


class OfAllPoints(ABC):
    """A batch method that looks at the points alone; labels, or which pairs are similar, only choose the threshold."""

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric of the points."""
        rows, classes = batch.labelled(X, labels)
        return batch.of_points(self._of(rows), rows, classes)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """The metric of all points in the pairs."""
        rows, others, kinds = batch.paired(X, Z, y)
        return batch.of_pairs(self._of(np.concatenate([rows, others])), subtract(rows, others), kinds)

    @abstractmethod
    def _of(self, rows: Floats) -> Metric:
        """The metric of these points."""


def check_components(n_components: int | None) -> None:
    """Refuse what is no number of rows of L."""
    if n_components is not None:
        check_integer(n_components, "n_components", at_least=1)


def no_more_than(n_components: int | None, most: int) -> int:
    """As many as are wished for, or as there are."""
    return most if n_components is None else min(n_components, most)


def fit(transformer: Any, rows: Floats, classes: Whole, method: str) -> None:
    """Fit one of scikit-learn's to the centred points."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # told by of_factors instead
        try:
            transformer.fit(rows - rows.mean(axis=0), classes)
        except (ValueError, IndexError) as error:  # what comes of classes without any spread; NCA may start from LDA
            raise FitError(f"the points within the classes do not differ; {method} needs some that do") from error


def check_spread(rows: Floats, method: str) -> None:
    """Refuse points that are all in one place."""
    if np.ptp(rows, axis=0).max() < _TINY:
        raise FitError(f"{method} needs points that differ; got {len(rows)} in one place")
