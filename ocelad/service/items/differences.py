"""The features in which two items differ most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ocelad.service.itemset import ItemSet


class Difference(NamedTuple):
    """The values of a feature of two items, and its share of the squared distance between the scaled items."""

    feature: str
    left: float
    right: float
    share: float


def largest_differences(items: ItemSet, left: int, right: int, limit: int = 12) -> list[Difference]:
    """Return up to ``limit`` features in which two items differ, the largest share first."""
    both = items.features[[left, right]].astype(np.float64)
    u = (both[0] - both[1]) * items.scaling.factors
    squares = np.square(u)
    total = float(squares.sum())
    shares = squares / total if total else squares
    largest = np.argsort(-shares, kind="stable")[:limit]
    return [
        Difference(
            feature=items.feature_names[j],
            left=float(items.features[left, j]),
            right=float(items.features[right, j]),
            share=float(shares[j]),
        )
        for j in largest
        if shares[j] > 0
    ]
