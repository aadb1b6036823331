"""SplitMetric: a metric of points that are followed by their curved features; a sum of two metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad._validation import is_sparse
from ocelad.adaptive.aligned_rows import apply_to_rows
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.metric import Metric


@dataclass(frozen=True, slots=True)
class SplitMetric:
    """The squared distance ``u'M u + v'C v`` of differences (u, v): of points, and of their curved features. Immutable.

    Parameters
    ----------
    linear, curved : Metric
        M and C; their thresholds are not used.
    threshold : float
    round : int

    Examples
    --------
    >>> metric = SplitMetric(Metric.from_diagonal([1.0, 1.0]), Metric.from_diagonal([4.0]), threshold=2.0, round=0)
    >>> metric.squared_length(np.array([[1.0, 1.0, 0.5]]))
    array([3.])
    """

    linear: Metric
    curved: Metric
    threshold: float
    round: int

    @property
    def n_features(self) -> int:
        """The number of features, curved ones included."""
        return self.linear.n_features + self.curved.n_features

    def squared_length(self, U: Any) -> Floats:
        """Return the squared length of each row (u, v), dense or sparse."""
        n = self.linear.n_features
        return np.asarray(self.linear.squared_length(U[..., :n]) + self.curved.squared_length(U[..., n:]))

    def truncated(self, max_rank: int) -> SplitMetric:
        """Return a metric with at most this many directions in parts that are a diagonal plus directions."""
        return SplitMetric(self.linear.truncated(max_rank), self.curved.truncated(max_rank), self.threshold, self.round)

    def with_curved_rank(self, max_rank: int) -> SplitMetric:
        """Return a metric with at most this many directions in the curved part."""
        return SplitMetric(self.linear, self.curved.truncated(max_rank), self.threshold, self.round)

    def arrays(self) -> Arrays:
        """Return the arrays that store the metric."""
        return {**add_prefix("linear", self.linear.arrays()), **add_prefix("curved", self.curved.arrays())}

    @classmethod
    def restore(cls, saved: StateReader, threshold: float, round: int) -> SplitMetric:
        """Return the metric of saved ``arrays``, after checking them."""
        linear = Metric.from_arrays(saved.section("linear").remaining_arrays(), threshold, round)
        curved = Metric.from_arrays(saved.section("curved").remaining_arrays(), threshold, round)
        return cls(linear.with_threshold(0.0), curved.with_threshold(0.0), linear.threshold, linear.round)

    def __deepcopy__(self, memo: dict[int, Any]) -> SplitMetric:
        return self


#: The metric of points, with or without curved features.
PointMetric: TypeAlias = Metric | SplitMetric


def weighted_sum(metrics: Sequence[PointMetric], weights: Floats, threshold: float, round: int) -> PointMetric:
    """Return the metric whose squared distances are the weighted sum of those of metrics of one kind."""
    if isinstance(metrics[0], Metric):
        return Metric.weighted_sum([each for each in metrics if isinstance(each, Metric)], weights, threshold, round)
    split = [each for each in metrics if isinstance(each, SplitMetric)]
    linear = Metric.weighted_sum([each.linear for each in split], weights, 0.0, round)
    curved = Metric.weighted_sum([each.curved for each in split], weights, 0.0, round)
    return SplitMetric(linear, curved, threshold, round)


def squared_lengths(metric: PointMetric, U: Any, t: int) -> Floats:
    """Return the squared length of each row, a difference of round t, t + 1, ...; see ``apply_to_rows``."""
    if is_sparse(U):
        return np.asarray(metric.squared_length(U))
    return apply_to_rows(metric.squared_length, U, t)


def relative_change(metric: PointMetric, before: PointMetric, mean_squares: Floats) -> float:
    """Return ``|M - M_before| / |M|`` of metrics of one kind; see ``Metric.relative_change``."""
    if isinstance(metric, Metric) and isinstance(before, Metric):
        return metric.relative_change(before, mean_squares)
    assert isinstance(metric, SplitMetric)
    assert isinstance(before, SplitMetric)
    n = metric.linear.n_features
    linear = metric.linear.squared_change(before.linear, mean_squares[:n])
    curved = metric.curved.squared_change(before.curved, mean_squares[n:])
    change, size = linear[0] + curved[0], linear[1] + curved[1]
    return float(np.sqrt(change / size)) if size > 0.0 else 0.0
