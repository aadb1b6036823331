"""What needs no learning: Euclidean distance, and Mahalanobis' own distance by the inverse covariance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer, check_number
from ocelad.lab.baselines import batch
from ocelad.metric import Metric
from ocelad.pairs import subtract


def euclidean(n_features: int) -> Metric:
    """``M = I / n`` with the threshold 1: the trackers' start.

    >>> euclidean(4).distance([2.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0])
    2.0
    """
    n = check_integer(n_features, "n_features", at_least=1)
    return Metric.from_diagonal(np.full(n, 1.0 / n))


@dataclass(frozen=True)
class Whitened:
    """``M = inv(C + r tr(C)/n I)``, C the covariance of the points: every direction counts by how little it spreads.

    Mahalanobis, "On the generalised distance in statistics", 1936. From pairs, C is half the mean of ``uu'`` over all
    pairs, similar or not, which of pairs drawn at random is the covariance too. The labels only choose the threshold.

    Parameters
    ----------
    regularization : float
        r; 0 or above. With 0 distances are the same after any invertible linear map of the points, and a singular
        covariance is refused.

    Examples
    --------
    >>> Whitened().fit_points([[0.0, 1.0], [0.0, -1.0], [3.0, 0.0], [-3.0, 0.0]], [0, 0, 1, 1]).diagonal.round(6)
    array([0.222099, 1.99005 ])
    """

    regularization: float = 1e-3

    def __post_init__(self) -> None:
        check_number(self.regularization, "regularization", at_least=0)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric of the points."""
        rows, classes = batch.labelled(X, labels)
        centred = rows - rows.mean(axis=0)
        return batch.of_points(self._inverse(centred.T @ centred / len(rows)), rows, classes)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """The metric of the pairs' differences."""
        rows, others, kinds = batch.paired(X, Z, y)
        U = subtract(rows, others)
        return batch.of_pairs(self._inverse(U.T @ U / (2.0 * len(U))), U, kinds)

    def _inverse(self, C: Floats) -> Metric:
        n = len(C)
        values, vectors = np.linalg.eigh(C)
        values = values + self.regularization * np.trace(C) / n
        if values[0] <= n * np.finfo(np.float64).eps * values[-1]:
            raise batch.FitError(
                f"the covariance is singular: the points lie in fewer than {n} dimensions; more points or a "
                "regularization above 0 is needed"
            )
        return batch.of_factors(vectors.T / np.sqrt(values)[:, None], "whitening")
