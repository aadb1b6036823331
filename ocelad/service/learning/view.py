"""View: what has been learned up to an entry of the log, and what may be asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.engines.metric_bank import MetricLearnerBank
from ocelad.ensemble.ocelad import Ocelad
from ocelad.metric import Metric
from ocelad.service.itemset import ItemSet
from ocelad.service.learning.clusters import Clusters, Labels
from ocelad.service.learning.item_points import ItemPoints, Singles
from ocelad.service.learning.nearest import Nearest
from ocelad.service.learning.timeline import Timeline

# How much of a metric is told.
_MOST_EIGENVALUES, _MOST_FEATURES = 20, 100


class FeatureShare(NamedTuple):
    """The part of a feature in the metric.

    Attributes
    ----------
    name : str
    weight : float
        The diagonal entry of the metric per unit of the feature, squared.
    share : float
        The share in the spread of the items under the metric; the shares of all features sum to 1.
    initial_share : float
        The share before any answer was learned from.
    """

    name: str
    weight: float
    share: float
    initial_share: float


class ScaleShare(NamedTuple):
    """The interval length of a scale, in answers, and its share in the metric; the shares sum to 1."""

    length: int
    share: float


class Summary(NamedTuple):
    """What is told of a metric: the heaviest features, and the share of each scale in it."""

    features: list[FeatureShare]
    scales: list[ScaleShare]


@dataclass(frozen=True, eq=False)
class View:
    """What has been learned up to an entry of the log. Immutable, for any number of threads.

    Positions are those of items; points are scaled as ``items.points`` are.

    Attributes
    ----------
    seq : int
        Up to which entry.
    metric : Metric
        On scaled points.
    scales : tuple of int
        The length of the intervals of each scale, in answers, the shortest first.
    shares : array of shape (n_scales,)
        The share of each scale in the metric; they sum to 1.
    timeline : Timeline
    plane : float32 array of shape (n_items, 2)
        Where items are drawn; within -1 and 1.
    """

    seq: int
    metric: Metric
    scales: tuple[int, ...]
    shares: Floats
    timeline: Timeline
    plane: Singles
    _cloud: ItemPoints
    _coordinates: Singles
    _nearest: Nearest
    _clusters: Clusters
    _ocelad: Ocelad[Any, Metric]

    @property
    def n_answers(self) -> int:
        """How many answers stand up to here."""
        return self.metric.round

    @property
    def items(self) -> ItemSet:
        return self._cloud.items

    @property
    def points(self) -> Floats:
        """The scaled features of all items, (n_items, n_features): ``items.points``, kept."""
        return self._cloud.points

    @cached_property
    def metric_of_features(self) -> Metric:
        """The same metric on features in their own units: with S the factors of the scaling, ``S M S``."""
        factors, held = self.items.scaling.factors, self.metric.arrays()
        threshold, round = self.metric.threshold, self.metric.round
        if "matrix" in held:
            return Metric.from_trusted_matrix(np.outer(factors, factors) * held["matrix"], threshold, round)
        same = (factors == factors[0]).all()
        squares = np.square(factors[0]) if same else np.square(factors)
        return Metric.low_rank(held["diagonal"] * squares, held["rows"] * factors, held["scales"], threshold, round)

    @cached_property
    def spectrum(self) -> Floats:
        """The largest eigenvalues of ``metric_of_features``, at most 20. Slow for many features."""
        return self.metric_of_features.eigenvalues(_MOST_EIGENVALUES)

    @cached_property
    def summary(self) -> Summary:
        """What is told of the metric whenever somebody asks."""
        return Summary(
            features=self.feature_shares(_MOST_FEATURES),
            scales=[
                ScaleShare(length=length, share=float(share))
                for length, share in zip(self.scales, self.shares, strict=True)
            ],
        )

    @cached_property
    def learners(self) -> list[Metric]:
        """The metric of each scale's learner; the metric is their average by the shares."""
        return cast(MetricLearnerBank, self._ocelad.bank).metrics(self._ocelad.round_state)

    @property
    def coordinates(self) -> Singles:
        """Where items are if Euclidean distance is to be the learned one, all divided by one number: along the
        heaviest directions of the items' cloud only, at most 10.
        """
        return self._coordinates

    def distances(self, left: Any, right: Any) -> Floats:
        """The distance between points, row by row."""
        return np.asarray(self.metric.distance(left, right))

    def margins(self, left: Any, right: Any) -> Floats:
        """``mu - d^2`` of pairs of items, by their positions: above 0 where they are taken for the same."""
        differences = self.points[np.asarray(left)] - self.points[np.asarray(right)]
        return np.asarray(self.metric.threshold - self.metric.squared_length(differences))

    def neighbors(self, position: int, k: int) -> tuple[npt.NDArray[np.intp], Floats]:
        """The positions of the k items nearest to another, the nearest first, and their distances."""
        return self._nearest.neighbors(position, k)

    def clusters(self, k: int) -> Labels:
        """The cluster of each item, 0 to k - 1, along the heaviest directions; numbers stay as alike as can be."""
        # Once for each view: what is told twice of one view must not differ. A race is lost by who comes later.
        found: dict[int, Labels] = self.__dict__.setdefault("_found_clusters", {})
        if k not in found:
            found.setdefault(k, self._clusters.of(self._coordinates, k))
        return found[k]

    def feature_shares(self, most: int | None = None) -> list[FeatureShare]:
        """What features weigh, those with the largest share of the items' spread first; only so many, where given.

        A feature's part in the spread is its variance times its entry on the diagonal of the metric.
        """
        weights, variances = self.metric.diagonal, self._cloud.variances
        spread = _shares(weights * variances)
        before, own = _shares(variances), weights * np.square(self.items.scaling.factors)
        return [
            FeatureShare(
                name=self.items.feature_names[i],
                weight=float(own[i]),
                share=float(spread[i]),
                initial_share=float(before[i]),
            )
            for i in np.argsort(-spread, kind="stable")[:most].tolist()
        ]


def _shares(parts: Floats) -> Floats:
    total = parts.sum()
    return np.asarray(parts / total) if total > 0 else np.full(len(parts), 1.0 / len(parts))
