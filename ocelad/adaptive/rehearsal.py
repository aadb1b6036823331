"""Pairs of items without answers, from which a tracker learns scales and moments before the first answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad.pairs import PointPairs

#: Pairs of items that are drawn. More of them change little, and a tracker rehearses them without compiled code.
N_REHEARSED = 128


def draw_item_pairs(items: Any) -> PointPairs | None:
    """Return random pairs of different rows of the items, the same for the same items; None if there is one item.

    Their answers have no meaning.

    >>> pairs = draw_item_pairs(np.eye(3))
    >>> len(pairs), bool((pairs.X == pairs.Z).all(axis=1).any())
    (128, False)
    """
    n = items.shape[0]
    if n < 2:
        return None
    rng = np.random.default_rng(n)
    left = rng.integers(n, size=N_REHEARSED)
    right = (left + rng.integers(1, n, size=N_REHEARSED)) % n
    return PointPairs.from_trusted(items[left], items[right], np.full(N_REHEARSED, -1.0))
