"""What a metric measures: prepared points and curved features, and a quadratic form of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.feature_maps import FeatureMap, to_unit_length
from ocelad.metric import Metric

# A metric with more rows than this share of the features is used as a full matrix.
MAX_ROW_SHARE = 1 / 4


class QuadraticForm(NamedTuple):
    """The squared length ``u' (diag(diagonal) + rows' diag(scales) rows) u``; or ``u' matrix u``, if there is one."""

    diagonal: Floats  # (n,)
    rows: Floats  # (k, n)
    scales: Floats  # (k,)
    matrix: Floats | None = None

    @classmethod
    def of(cls, metric: Metric) -> QuadraticForm:
        """Return the form of a metric, as a matrix if its rows are many."""
        arrays, n = metric.arrays(), metric.n_features
        if "matrix" in arrays or len(arrays["rows"]) > MAX_ROW_SHARE * n:
            return cls(np.zeros(n), np.zeros((0, n)), np.zeros(0), metric.matrix)
        return cls(np.broadcast_to(arrays["diagonal"], n), arrays["rows"], arrays["scales"])


class Geometry:
    """How points become what a metric measures: ``x * factors``, divided by its length, and its curved features.

    Two metrics with the same geometry differ only by their quadratic forms, which is what moves with each answer.
    """

    def __init__(self, metric: AnyMetric) -> None:
        self.n_features = metric.n_features
        self.unit_length, self.factors = False, None
        self.feature_map: FeatureMap | None = None
        if isinstance(metric, CurvedMetric):
            self.unit_length, self.factors, self.feature_map = metric.unit_length, metric.factors, metric.feature_map

    def measures_like(self, other: Geometry) -> bool:
        """Whether two geometries are the same."""
        same_factors = self.factors is other.factors or (
            self.factors is not None and other.factors is not None and np.array_equal(self.factors, other.factors)
        )
        is_same = (self.n_features, self.unit_length) == (other.n_features, other.unit_length)
        return bool(is_same and same_factors and self.feature_map is other.feature_map)

    @property
    def n_curved(self) -> int:
        """The number of curved features."""
        return 0 if self.feature_map is None else self.feature_map.n_outputs

    def factored(self, X: Any) -> Any:
        """Return points multiplied by the factors."""
        return X if self.factors is None else X * self.factors

    def prepare(self, X: Floats) -> Floats:
        """Return what a metric measures, as ``CurvedMetric.prepare`` does."""
        points = self.factored(X)
        return np.asarray(to_unit_length(points) if self.unit_length else points)


def forms_of(metric: AnyMetric) -> tuple[QuadraticForm, Floats | None]:
    """Return the quadratic form of prepared points, and the matrix of curved features."""
    if not isinstance(metric, CurvedMetric):
        return QuadraticForm.of(metric), None
    curved = None if metric.curved_part is None else metric.curved_part.matrix
    return QuadraticForm.of(metric.linear_part), curved
