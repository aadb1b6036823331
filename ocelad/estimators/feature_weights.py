"""rank_features: the input features by their weight in a metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ocelad._validation import check_integer
from ocelad.metric import Metric


class FeatureWeight(NamedTuple):
    """The weight of one feature in a metric.

    Attributes
    ----------
    feature : str
        The name of the feature, or ``x0``, ``x1``, ... if features have no names.
    weight : float
        Its diagonal entry of M: the squared distance of two points that differ by 1 in this feature only.
    share : float
        The weight divided by the sum of all weights.
    """

    feature: str
    weight: float
    share: float


def rank_features(metric: Metric, names: Sequence[str] | None, n_features: int | None = None) -> list[FeatureWeight]:
    """Return the ``n_features`` features with the largest weights (None: all), the largest first.

    >>> rank_features(Metric([[1.0, 0.0], [0.0, 3.0]]), ["width", "height"], 1)
    [FeatureWeight(feature='height', weight=3.0, share=0.75)]
    """
    if n_features is not None:
        check_integer(n_features, "n_features", at_least=1)
    weights = metric.diagonal
    total = float(weights.sum()) or 1.0
    order = np.argsort(-weights, kind="stable")[:n_features]
    return [
        FeatureWeight(names[i] if names else f"x{i}", float(weights[i]), float(weights[i]) / total)
        for i in order.tolist()
    ]
