"""The points of all items, and quantities of them that do not depend on the weights of a metric."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.estimators.distance_shares import distance_shares, parts_of_differences, parts_of_moments
from ocelad.feature_maps import FeatureMap
from ocelad.metric import Metric
from ocelad.service.itemset import ItemSet

Floats32 = npt.NDArray[np.float32]

# Up to this many features the covariance matrix is stored; above, products are computed from a sample of the points.
_MAX_MATRIX_FEATURES = 1000
_SAMPLE_SIZE = 2000
# The largest number of points for the covariance matrix.
_MAX_COVARIANCE_POINTS = 20_000
# The number of points whose curved features are computed at once.
_BLOCK_SIZE = 4096
# The number of pairs of items for the shares of features in a curved distance, which the page asks for at each view.
MAX_SHARE_PAIRS = 300


class ItemPoints:
    """The scaled points of all items.

    Attributes
    ----------
    items : ItemSet
    points : array of shape (n_items, n_features)
        The scaled features, on which the metric is learned.
    """

    def __init__(self, items: ItemSet) -> None:
        self.items = items
        self.points = np.ascontiguousarray(items.points)
        self._last_measured: tuple[FeatureMap | None, MeasuredPoints] | None = None

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.points.shape[1])

    def measured_by(self, metric: AnyMetric) -> MeasuredPoints:
        """Return the points as this metric measures them; computed again only if its feature map is another one.

        All metrics must be of one tracker, which either divides all points by their lengths or none.
        """
        feature_map = metric.feature_map if isinstance(metric, CurvedMetric) else None
        last = self._last_measured
        if last is None or last[0] is not feature_map:
            last = self._last_measured = feature_map, MeasuredPoints(self.points, metric)
        return last[1]

    def digest(self, n_items: int) -> str:
        """Return the SHA-256 of the first ``n_items`` points."""
        if n_items == len(self.points):
            return self._full_digest
        return _digest(self.points[:n_items])

    @cached_property
    def _full_digest(self) -> str:
        return _digest(self.points)


class MeasuredPoints:
    """Centered float32 points for search and display, in the features that a metric is linear in. Immutable.

    A curved metric is linear in the features that ``CurvedMetric.extend`` returns: the points, or points of unit
    length, followed by their curved features. A linear metric is linear in the points themselves.

    Parameters
    ----------
    points : array of shape (n_items, n_features)
        The scaled points.
    metric : Metric or CurvedMetric
        Only its feature map is used, and whether points are divided by their lengths.

    Attributes
    ----------
    points : array of shape (n_items, n_features)
    centered : float32 array of shape (n_items, n_measured)
        The measured features minus their mean, divided by one number so that the largest absolute value is 1.
    norms : float32 array of shape (n_items,)
        The Euclidean norms of ``centered``.
    variances : array of shape (n_measured,)
        The variances of the features of ``centered``.
    """

    def __init__(self, points: Floats, metric: AnyMetric) -> None:
        self.points = points
        measured = _extend(points, metric) if isinstance(metric, CurvedMetric) else points
        centered = measured - measured.mean(axis=0)
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
    def n_measured(self) -> int:
        """The number of features that the metric is linear in."""
        return int(self.centered.shape[1])

    def covariance_product(self, directions: Floats) -> Floats:
        """Return the covariance matrix times directions, which are the columns of an array."""
        if self._covariance is not None:
            return np.asarray(self._covariance @ directions)
        return np.asarray(self._sample.T @ (self._sample @ directions) / len(self._sample))

    def distance_parts(self, metric: AnyMetric) -> Floats:
        """Return what each feature of the items contributes to their squared distances, up to a common factor.

        See ``distance_shares``; with many items or features, the covariance matrix or the points are those of a sample.
        """
        if isinstance(metric, CurvedMetric):
            if len(self.points) < 2:
                return np.zeros(metric.n_features)
            return distance_shares(metric, self.points, max_pairs=MAX_SHARE_PAIRS)
        if self._covariance is not None:
            return parts_of_moments(metric, self._covariance)
        return parts_of_differences(metric, self._sample)


def as_linear(metric: AnyMetric) -> Metric:
    """Return the same distance as a linear metric of the features of ``MeasuredPoints``."""
    return metric.extended if isinstance(metric, CurvedMetric) else metric


def _extend(points: Floats, metric: CurvedMetric) -> Floats:
    """Return ``metric.extend`` of all points, in blocks: the similarities to all landmarks need much memory."""
    return np.concatenate(
        [metric.extend(points[first : first + _BLOCK_SIZE]) for first in range(0, len(points), _BLOCK_SIZE)]
    )


def _digest(points: Any) -> str:
    return sha256(points.data).hexdigest() if points.size else ""
