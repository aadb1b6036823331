"""Compiled loops of the batch methods."""

from __future__ import annotations

import numpy as np

from ocelad._compile import compiled, inlined
from ocelad._typing import Floats


@compiled
def push_apart(
    products: Floats,
    first: int,
    second: int,
    length: Floats,
    lengths: Floats,
    reach: Floats,
    reaches: Floats,
    near: Floats,
    starts: np.ndarray,
    rows: Floats,
    per_target: Floats,
    sums: Floats,
    mixed: Floats,
) -> float:
    """The hinges of LMNN between the points i from first on and the points l from second on, of other classes.

    ``products[a, b]`` is ``i'Ml`` of the a-th and the b-th of them, ``length[a]`` is ``i'Mi``, and ``lengths[b]`` is
    ``l'Ml``. What is within ``reach[a]`` of i is an impostor of one of its targets; they are at ``starts[i] ..
    starts[i + 1]`` of ``near``, the squared distances to them. Both ways: l may be an impostor of i, and i of l.

    Returns the sum of the hinges. How many are above 0 is added to ``per_target``, to ``sums`` of both points, and as
    often l itself to ``mixed[i]``.
    """
    loss, n = 0.0, products.shape[1]
    within = np.empty(n)
    for a in range(products.shape[0]):
        i, own_length, own_reach = first + a, length[a], reach[a]
        for b in range(n):  # by itself, because a loop without branches is vector instructions
            farthest = reaches[b] if reaches[b] > own_reach else own_reach
            within[b] = farthest - (own_length + lengths[b] - 2.0 * products[a, b])
        for b in range(n):
            if within[b] > 0.0:
                other, d2 = second + b, own_length + lengths[b] - 2.0 * products[a, b]
                lost, one_way = hinges(d2, i, near, starts, per_target)
                loss += lost
                lost, other_way = hinges(d2, other, near, starts, per_target)
                loss += lost
                sums[i] += one_way + other_way
                sums[other] += one_way + other_way
                for f in range(rows.shape[1]):
                    mixed[i, f] += (one_way + other_way) * rows[other, f]
    return loss


@inlined
def hinges(d2: float, i: int, near: Floats, starts: np.ndarray, per_target: Floats) -> tuple[float, float]:
    """What the targets of i lose to a point at this squared distance from i, and how many of them lose."""
    loss, count = 0.0, 0.0
    for target in range(starts[i], starts[i + 1]):
        hinge = 1.0 + near[target] - d2
        if hinge > 0.0:
            loss += hinge
            count += 1.0
            per_target[target] += 1.0
    return loss, count
