"""The points of all items, and quantities of them that do not depend on the metric."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.estimators.distance_shares import distance_shares, parts_of_differences, parts_of_moments
from ocelad.service.itemset import ItemSet

Floats32 = npt.NDArray[np.float32]

# Up to this many features the covariance matrix is stored; above, products are computed from a sample of the points.
_MAX_MATRIX_FEATURES = 1000
_SAMPLE_SIZE = 2000
# The largest number of points for the covariance matrix.
_MAX_COVARIANCE_POINTS = 20_000


class ItemPoints:
    """The scaled points for learning, and centered float32 points for search and display. Immutable.

    Attributes
    ----------
    items : ItemSet
    points : array of shape (n_items, n_features)
        The scaled features, on which the metric is learned.
    centered : float32 array of shape (n_items, n_features)
        The points minus their mean, divided by one number so that the largest absolute value is 1.
    norms : float32 array of shape (n_items,)
        The Euclidean norms of ``centered``.
    variances : array of shape (n_features,)
        The variances of the features of ``centered``.
    """

    def __init__(self, items: ItemSet) -> None:
        self.items = items
        self.points = np.ascontiguousarray(items.points)
        centered = self.points - self.points.mean(axis=0)
        # The division prevents overflow and underflow in float32, whatever the units of the data are.
        centered /= float(np.abs(centered).max(initial=0.0)) or 1.0
        self.centered: Floats32 = centered.astype(np.float32)
        self.norms: Floats32 = np.sqrt(np.einsum("ij,ij->i", self.centered, self.centered))
        self.variances = np.einsum("ij,ij->j", centered, centered) / max(len(centered), 1)
        step = -(
            -len(centered) // (_MAX_COVARIANCE_POINTS if centered.shape[1] <= _MAX_MATRIX_FEATURES else _SAMPLE_SIZE)
        )
        self._sample = centered[:: max(step, 1)]
        self._covariance: Floats | None = None
        if centered.shape[1] <= _MAX_MATRIX_FEATURES:
            self._covariance = self._sample.T @ self._sample / len(self._sample)
            self._sample = self._sample[:0]

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.points.shape[1])

    def covariance_product(self, directions: Floats) -> Floats:
        """Return the covariance matrix times directions, which are the columns of an array."""
        if self._covariance is not None:
            return np.asarray(self._covariance @ directions)
        return np.asarray(self._sample.T @ (self._sample @ directions) / len(self._sample))

    def distance_parts(self, metric: AnyMetric) -> Floats:
        """Return what each feature contributes to the squared distances between items, up to a common factor.

        See ``distance_shares``; with many items or features, the covariance matrix or the points are those of a sample.
        """
        if isinstance(metric, CurvedMetric):
            return distance_shares(metric, self.points) if len(self.points) > 1 else np.zeros(self.n_features)
        if self._covariance is not None:
            return parts_of_moments(metric, self._covariance)
        return parts_of_differences(metric, self._sample)

    def digest(self, n_items: int) -> str:
        """Return the SHA-256 of the first ``n_items`` points."""
        if n_items == len(self.points):
            return self._full_digest
        return _digest(self.points[:n_items])

    @cached_property
    def _full_digest(self) -> str:
        return _digest(self.points)


def _digest(points: Any) -> str:
    return sha256(points.data).hexdigest() if points.size else ""
