"""Whitening: the Mahalanobis distance with the inverse covariance of the points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_number
from ocelad.lab.baselines import batch
from ocelad.metric import Metric
from ocelad.pairs import subtract


@dataclass(frozen=True)
class Whitening:
    """``M = inv(C + r tr(C)/n I)`` with C the covariance of the points: directions of large variance count less.

    Mahalanobis, "On the generalised distance in statistics", 1936. From pairs, C is half the mean of ``uu'`` over all
    pairs, similar or not, which estimates the covariance if the pairs are drawn at random. The labels determine the
    threshold only.

    Parameters
    ----------
    regularization : float
        r; 0 or above. With 0 the distances are invariant to invertible linear maps of the points, and a singular
        covariance raises ``FitError``.

    Examples
    --------
    >>> Whitening().fit_points([[0.0, 1.0], [0.0, -1.0], [3.0, 0.0], [-3.0, 0.0]], [0, 0, 1, 1]).diagonal.round(6)
    array([0.222099, 1.99005 ])
    """

    regularization: float = 1e-3

    def __post_init__(self) -> None:
        check_number(self.regularization, "regularization", at_least=0)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """Return the metric of the points."""
        rows, classes = batch.check_labelled_points(X, labels)
        centred = rows - rows.mean(axis=0)
        return batch.calibrate_on_points(self._inverse(centred.T @ centred / len(rows)), rows, classes)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """Return the metric of the differences of the pairs."""
        rows, others, y = batch.check_pairs(X, Z, y)
        U = subtract(rows, others)
        return batch.calibrate_on_pairs(self._inverse(U.T @ U / (2.0 * len(U))), U, y)

    def _inverse(self, C: Floats) -> Metric:
        n = len(C)
        values, vectors = np.linalg.eigh(C)
        values = values + self.regularization * np.trace(C) / n
        if values[0] <= n * np.finfo(np.float64).eps * values[-1]:
            raise batch.FitError(
                f"the covariance is singular: the points span fewer than {n} dimensions; "
                "whitening needs more points or a regularization above 0"
            )
        return batch.metric_from_factors(vectors.T / np.sqrt(values)[:, None], "whitening")
