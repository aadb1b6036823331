"""Compiled loops of LMNN."""

from __future__ import annotations

import numpy as np

from ocelad._compile import jit, jit_inline
from ocelad._typing import Floats


@jit
def accumulate_hinges(
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
    """Return the sum of LMNN's hinges between the points i from ``first`` on and the points l from ``second`` on.

    The two ranges have no class in common. ``products[a, b]`` is ``i'Ml`` of the a-th i and the b-th l, ``length[a]``
    is ``i'Mi``, and ``lengths[b]`` is ``l'Ml``. A point within ``reach[a]`` of i is an impostor of one of its targets.
    The squared distances to the targets of i are at ``starts[i] .. starts[i + 1]`` of ``near``. Both directions count:
    l may be an impostor of i, and i of l.

    The number of active hinges is added to ``per_target`` and to ``sums`` of both points, and that number times l to
    ``mixed[i]``.
    """
    loss, n = 0.0, products.shape[1]
    within = np.empty(n)
    for a in range(products.shape[0]):
        i, own_length, own_reach = first + a, length[a], reach[a]
        for b in range(n):  # a separate loop without branches, which vectorizes
            farthest = reaches[b] if reaches[b] > own_reach else own_reach
            within[b] = farthest - (own_length + lengths[b] - 2.0 * products[a, b])
        for b in range(n):
            if within[b] > 0.0:
                other, d2 = second + b, own_length + lengths[b] - 2.0 * products[a, b]
                added, one_way = target_hinges(d2, i, near, starts, per_target)
                loss += added
                added, other_way = target_hinges(d2, other, near, starts, per_target)
                loss += added
                sums[i] += one_way + other_way
                sums[other] += one_way + other_way
                for f in range(rows.shape[1]):
                    mixed[i, f] += (one_way + other_way) * rows[other, f]
    return loss


@jit_inline
def target_hinges(d2: float, i: int, near: Floats, starts: np.ndarray, per_target: Floats) -> tuple[float, float]:
    """Return the sum and the number of the hinges of the targets of i against a point at squared distance d2."""
    loss, count = 0.0, 0.0
    for target in range(starts[i], starts[i + 1]):
        hinge = 1.0 + near[target] - d2
        if hinge > 0.0:
            loss += hinge
            count += 1.0
            per_target[target] += 1.0
    return loss, count
