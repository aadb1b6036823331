"""The points of all items, and quantities of them that do not depend on the weights of a metric."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from hashlib import sha256
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.estimators.distance_shares import distance_shares, parts_of_differences, parts_of_moments
from ocelad.feature_maps import FeatureMap
from ocelad.metric import Metric
from ocelad.neighbors.exact_search import ExactSearch
from ocelad.neighbors.item_table import ItemTable
from ocelad.service.itemset import ItemSet, ScaledPoints

Floats32 = npt.NDArray[np.float32]

# Up to this many features the covariance matrix is stored; above, products are computed from a sample of the points.
_MAX_MATRIX_FEATURES = 1000
_SAMPLE_SIZE = 2000
# Of more items, this many are measured to find the plane of the map and the shares of features.
MAX_MEASURED = 20_000
# The number of points whose curved features, or whose digest, are computed at once.
_BLOCK_SIZE = 4096
# The number of pairs of items for the shares of features in a curved distance, which the page asks for at each view.
MAX_SHARE_PAIRS = 300


class ItemPoints:
    """The scaled points of all items, and the search of them.

    Attributes
    ----------
    items : ItemSet
    points : ScaledPoints
        The scaled features, on which the metric is learned.
    search : ExactSearch
        Of the features in their own units, by metrics with the factors of the scaling. It may hold more items, which
        were added later.
    """

    def __init__(self, items: ItemSet) -> None:
        self.items, self.points = items, items.points
        self._table = ItemTable(items.features, None)
        self.search = ExactSearch(self._table)
        self._last_measured: tuple[FeatureMap | None, MeasuredPoints] | None = None

    def extended(self, items: ItemSet) -> Self:
        """Return the points of more items, the first of which are these; the search keeps what it has computed."""
        other = type(self).__new__(type(self))
        other.items, other.points = items, items.points
        other._table, other.search, other._last_measured = self._table, self.search, None
        if len(items) > len(self._table):
            self._table.add(items.features[len(self._table) :], None)
        return other

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

    def neighbors(self, metric: AnyMetric, position: int, k: int) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return the positions of the k items nearest to an item, the nearest first, and their distances.

        The metric is one of features in their own units, with the factors of the scaling.
        """
        n = len(self.items)
        (found,) = self.search.neighbors_of(metric, [position], k + len(self._table) - n)
        among = np.flatnonzero(found.positions < n)[:k]
        return found.positions[among].astype(np.intp), np.sqrt(found.squares[among])

    def digest(self, n_items: int) -> str:
        """Return the SHA-256 of the first ``n_items`` points; of float32 items, of their features and factors."""
        if n_items == len(self.points):
            return self._full_digest
        return self._digest(n_items)

    @cached_property
    def _full_digest(self) -> str:
        return self._digest(len(self.points))

    def _digest(self, n_items: int) -> str:
        if not n_items * self.n_features:
            return ""
        is_single, total = self.items.is_single, sha256()
        if is_single:
            total.update(np.ascontiguousarray(self.items.scaling.factors).data)
        rows: Any = self.items.features if is_single else self.points
        for block in _blocks(n_items):
            total.update(np.ascontiguousarray(rows[block]).data)
        return total.hexdigest()


class MeasuredPoints:
    """Centered float32 points of at most 20,000 items, in the features that a metric is linear in. Immutable.

    A curved metric is linear in the features that ``CurvedMetric.extend`` returns: the points, or points of unit
    length, followed by their curved features. A linear metric is linear in the points themselves.

    Of more items, a sample is measured: every second item, every third, and so on. The plane of the map, and the shares
    of features, are hardly different with more.

    Parameters
    ----------
    points : ScaledPoints, or array of shape (n_items, n_features)
        The scaled points.
    metric : Metric or CurvedMetric
        Only its feature map is used, and whether points are divided by their lengths.

    Attributes
    ----------
    step : int
        The position of the second item that is measured; 1 if all are.
    points : array of shape (n_sampled, n_features)
    centered : float32 array of shape (n_sampled, n_measured)
        The measured features minus ``mean``, divided by ``unit``, so that the largest absolute value is 1.
    mean : array of shape (n_measured,)
    unit : float
    variances : array of shape (n_measured,)
        The variances of the features of ``centered``.
    """

    def __init__(self, points: ScaledPoints | Floats, metric: AnyMetric) -> None:
        self.step = _step(len(points), MAX_MEASURED)
        self.points = points[:: self.step]
        measured = _extend(self.points, metric) if isinstance(metric, CurvedMetric) else self.points
        self.mean = measured.mean(axis=0)
        centered = measured - self.mean
        # The division prevents overflow and underflow in float32, whatever the units of the data are.
        self.unit = float(np.abs(centered).max(initial=0.0)) or 1.0
        centered /= self.unit
        self.centered: Floats32 = centered.astype(np.float32)
        self.variances = np.einsum("ij,ij->j", centered, centered) / max(len(centered), 1)
        self._covariance: Floats | None = None
        self._sample = centered[:0]
        if centered.shape[1] <= _MAX_MATRIX_FEATURES:
            self._covariance = centered.T @ centered / len(centered)
        else:
            self._sample = centered[:: _step(len(centered), _SAMPLE_SIZE)].copy()

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


def _step(n: int, max_sampled: int) -> int:
    """Return the distance of equally spaced rows that are not too many."""
    return max(-(-n // max_sampled), 1)


def _extend(points: Floats, metric: CurvedMetric) -> Floats:
    """Return ``metric.extend`` of all points, in blocks: the similarities to all landmarks need much memory."""
    return np.concatenate([metric.extend(points[block]) for block in _blocks(len(points))])


def _blocks(n: int) -> Iterator[slice]:
    for first in range(0, n, _BLOCK_SIZE):
        yield slice(first, min(first + _BLOCK_SIZE, n))
