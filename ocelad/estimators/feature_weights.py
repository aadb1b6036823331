"""Which input features a metric weighs most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ocelad._validation import check_integer
from ocelad.metric import Metric


class FeatureWeight(NamedTuple):
    """What a feature counts for in the metric.

    Attributes
    ----------
    feature : str
        Its name, or ``x0``, ``x1``, ... where the features have none.
    weight : float
        Its entry on the diagonal of M: the squared distance that a difference of 1 in this feature alone makes.
    share : float
        Of the sum of all weights.
    """

    feature: str
    weight: float
    share: float


def heaviest_features(metric: Metric, names: Sequence[str] | None, most: int | None = None) -> list[FeatureWeight]:
    """The features by their weight, the heaviest first; only so many, where a number is given.

    >>> heaviest_features(Metric([[1.0, 0.0], [0.0, 3.0]]), ["width", "height"], 1)
    [FeatureWeight(feature='height', weight=3.0, share=0.75)]
    """
    if most is not None:
        check_integer(most, "n_features", at_least=1)
    weights = metric.diagonal
    total = float(weights.sum()) or 1.0
    order = np.argsort(-weights, kind="stable")[:most]
    return [
        FeatureWeight(names[i] if names else f"x{i}", float(weights[i]), float(weights[i]) / total)
        for i in order.tolist()
    ]
