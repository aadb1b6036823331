"""Euclidean distance, the start of all learners."""

from __future__ import annotations

import numpy as np

from ocelad._validation import check_integer
from ocelad.metric import Metric


def euclidean(n_features: int) -> Metric:
    """Return ``M = I / n`` with the threshold 1, the initial metric of the trackers.

    >>> euclidean(4).distance([2.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0])
    2.0
    """
    n = check_integer(n_features, "n_features", at_least=1)
    return Metric.from_diagonal(np.full(n, 1.0 / n))
