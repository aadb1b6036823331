"""The state of learning up to an entry of the log, and queries of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from ocelad._typing import Floats
from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.adaptive.changes import Change
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.comparison_graph import ComparisonGraph
from ocelad.curved_metric import AnyMetric, CurvedMetric, linear_part
from ocelad.engines.metric_bank import MetricLearnerBank
from ocelad.engines.tracker import RiceTracker
from ocelad.estimators.learning_method import AnyTracker
from ocelad.metric import Metric
from ocelad.service.itemset import ItemSet, ScaledPoints
from ocelad.service.learning.clusters import Labels, StableKMeans
from ocelad.service.learning.groups import Groups
from ocelad.service.learning.item_points import Floats32, ItemPoints, MeasuredPoints
from ocelad.service.learning.map_projection import MapAxes
from ocelad.service.learning.timeline import Timeline

# The numbers of eigenvalues and features in the description of a metric.
_MAX_EIGENVALUES, _MAX_FEATURES = 20, 100


class FeatureShare(NamedTuple):
    """What a feature contributes to the distances between items.

    Attributes
    ----------
    name : str
    weight : float
        The diagonal entry of the metric, or of its linear part, on features in their own units; see
        ``linear_part_of_features``.
    share : float
        The share of the squared distances between items, averaged over all pairs; see ``distance_shares``. The shares
        of all features sum to 1. That of a feature that is correlated with others can be negative.
    initial_share : float
        The share of Euclidean distance between scaled items, before any answer was learned from. If the metric divides
        points by their lengths, between items of unit length.
    """

    name: str
    weight: float
    share: float
    initial_share: float


class ExpertShare(NamedTuple):
    """The name of an expert and its share in the metric; the shares sum to 1."""

    name: str
    share: float


class Summary(NamedTuple):
    """The description of a metric: the features with the largest shares, and the share of each expert."""

    features: list[FeatureShare]
    experts: list[ExpertShare]


@dataclass(frozen=True, eq=False)
class View:
    """The state of learning up to an entry of the log. Immutable and thread-safe.

    Items are given by their positions; points are scaled like ``items.points``. The map, the clusters and the search
    are computed when they are first asked for: with many items they take much longer than learning from an answer.

    Attributes
    ----------
    seq : int
        The number of the last entry that was learned from.
    metric : Metric or CurvedMetric
        The metric on scaled points.
    shares : array of shape (n_experts,)
        The share of each expert in the metric; they sum to 1.
    timeline : Timeline
    groups : Groups or None
        The groups that the answers imply; None if "same" is not taken as transitive.
    """

    seq: int
    metric: AnyMetric
    shares: Floats
    timeline: Timeline
    groups: Groups | None
    _item_points: ItemPoints
    _measured: MeasuredPoints
    _axes: MapAxes
    _k_means: StableKMeans
    _tracker: AnyTracker

    @property
    def method(self) -> Literal["adaptive", "rice"]:
        """The method of learning."""
        return "rice" if isinstance(self._tracker, RiceTracker) else "adaptive"

    @property
    def curved(self) -> bool:
        """Whether the distance has a curved part."""
        return isinstance(self.metric, CurvedMetric)

    @property
    def expert_names(self) -> tuple[str, ...]:
        """The names of the experts; with the method "rice", the interval length of each scale, the shortest first."""
        return self.timeline.expert_names

    @property
    def n_answers(self) -> int:
        """The number of answers learned from."""
        return self.metric.round

    @property
    def changes(self) -> tuple[Change, ...]:
        """The detected changes of the question, the oldest first; their rounds count the answers."""
        return self.timeline.changes

    @property
    def items(self) -> ItemSet:
        return self._item_points.items

    @property
    def points(self) -> ScaledPoints:
        """The scaled features of all items: ``items.points``."""
        return self._item_points.points

    @property
    def graph(self) -> ComparisonGraph | None:
        """The answers by positions of items, and what they imply; None if "same" is not taken as transitive."""
        return None if self.groups is None else self.groups.graph

    @cached_property
    def metric_of_features(self) -> AnyMetric:
        """The metric on features in their own units."""
        if isinstance(self.metric, CurvedMetric):
            return self.metric.with_factors(self.items.scaling.factors)
        return self.linear_part_of_features

    @cached_property
    def linear_part_of_features(self) -> Metric:
        """The linear part on features in their own units: ``S M S`` with the diagonal matrix S of the scaling factors.

        If the metric divides points by their lengths (a curved one of more than 128 features), M is the linear part of
        points of unit length: the distances are those of ``S x / |S x|``.
        """
        factors, arrays = self.items.scaling.factors, linear_part(self.metric).arrays()
        threshold, round = self.metric.threshold, self.metric.round
        if "matrix" in arrays:
            return Metric.from_trusted_matrix(np.outer(factors, factors) * arrays["matrix"], threshold, round)
        same = (factors == factors[0]).all()
        squares = np.square(factors[0]) if same else np.square(factors)
        return Metric.low_rank(
            arrays["diagonal"] * squares, arrays["rows"] * factors, arrays["scales"], threshold, round
        )

    @cached_property
    def spectrum(self) -> Floats:
        """The largest eigenvalues of ``linear_part_of_features``, at most 20. Slow with many features."""
        return self.linear_part_of_features.eigenvalues(_MAX_EIGENVALUES)

    @cached_property
    def summary(self) -> Summary:
        """The description of the metric."""
        return Summary(
            features=self.feature_shares(_MAX_FEATURES),
            experts=[
                ExpertShare(name=name, share=float(share))
                for name, share in zip(self.expert_names, self.shares, strict=True)
            ],
        )

    @cached_property
    def scale_metrics(self) -> list[Metric]:
        """The metric of each scale, with the method "rice"; the metric is their average, weighted by the shares.

        Empty with the method "adaptive", whose experts share squared distances.
        """
        if not isinstance(self._tracker, RiceTracker):
            return []
        ocelad = self._tracker.ocelad
        return cast(MetricLearnerBank, ocelad.bank).metrics(ocelad.round_state)

    @cached_property
    def _search_metric(self) -> AnyMetric:
        """The metric on features in their own units, which multiplies them by the factors before it measures them."""
        if isinstance(self.metric, CurvedMetric):
            return self.metric_of_features
        factors = self.items.scaling.factors
        return CurvedMetric(self.metric, None, None, self.metric.threshold, self.metric.round, factors=factors)

    @cached_property
    def coordinates(self) -> Floats32:
        """Coordinates of the items along the principal directions, at most 10, up to a common factor.

        Euclidean distance between them approximates the learned distance.
        """
        n, measured = self.metric.n_features, self._measured
        directions = self._axes.directions / measured.unit
        curved = directions[n:] if measured.n_measured > n else None
        offset = measured.mean @ directions
        return self._item_points.search.project(self._search_metric, directions[:n], curved, offset=offset)[
            : len(self.items)
        ]

    @cached_property
    def xy(self) -> Floats32:
        """The places of the items on the map, of shape (n_items, 2), within -1 and 1."""
        return self._axes.place(self.coordinates)

    def distances(self, left: Any, right: Any) -> Floats:
        """Return the distances between points, row by row."""
        return np.asarray(self.metric.distance(left, right))

    def probabilities(self, distances: Any) -> Floats:
        """Return the probability of "same" at these distances; with the method "adaptive" it is calibrated."""
        return np.asarray(expit(self.metric.threshold - np.square(distances)))

    def decide(self, distances: Any, error: float) -> npt.NDArray[np.intp] | None:
        """Return +1 ("same"), -1 ("different") or 0 ("ask a person"); None: only the method "adaptive" decides.

        At most the share ``error`` of the decided pairs is wrong, if they are like those that were asked.
        """
        if not isinstance(self._tracker, AdaptiveTracker | CurvedTracker):
            return None
        log_odds = self.metric.threshold - np.square(np.asarray(distances, dtype=np.float64))
        return np.asarray(self._tracker.decide(log_odds, error), dtype=np.intp)

    def margins(self, left: Any, right: Any) -> Floats:
        """Return ``mu - d^2`` of pairs of items; positive if they are predicted to be the same.

        With the method "adaptive" these are calibrated log odds.
        """
        squares = self.metric.squared_distance(self.points[np.asarray(left)], self.points[np.asarray(right)])
        return np.asarray(self.metric.threshold - squares)

    def neighbors(self, position: int, k: int) -> tuple[npt.NDArray[np.intp], Floats]:
        """Return the positions of the k items nearest to an item, the nearest first, and their distances."""
        return self._item_points.neighbors(self._search_metric, position, k)

    def clusters(self, k: int) -> Labels:
        """Return the cluster of each item, 0 to k - 1; numbers are matched to those of the previous clustering."""
        # Computed once, so that all responses about one view agree; if two threads compute it, the first result stays.
        labels: dict[int, Labels] = self.__dict__.setdefault("_labels", {})
        if k not in labels:
            labels.setdefault(k, self._k_means.labels(self.coordinates, k))
        return labels[k]

    def feature_shares(self, limit: int | None = None) -> list[FeatureShare]:
        """Return the features with their weights and shares, the largest share first; at most ``limit``.

        If no two items differ under the metric, all shares are equal.
        """
        weights = linear_part(self.metric).diagonal
        shares = _normalize(self._measured.distance_parts(self.metric))
        initial_shares = _normalize(self._measured.variances[: self.metric.n_features])
        unscaled_weights = weights * np.square(self.items.scaling.factors)
        return [
            FeatureShare(
                name=self.items.feature_names[i],
                weight=float(unscaled_weights[i]),
                share=float(shares[i]),
                initial_share=float(initial_shares[i]),
            )
            for i in np.argsort(-shares, kind="stable")[:limit].tolist()
        ]


def _normalize(parts: Floats) -> Floats:
    total = parts.sum()
    return np.asarray(parts / total) if total > 0 else np.full(len(parts), 1.0 / len(parts))
