"""The nearest neighbours, and how they vote."""

from __future__ import annotations

import numpy as np

from ocelad._compile import compiled
from ocelad._typing import Floats
from ocelad.evaluation.scores.kernels.blocks import LANES, Ints, distances_to
from ocelad.evaluation.scores.kernels.screen import ABREAST, LOST, Singles, less_products, put_place

# Up to so many neighbours are looked for by a screen; half of the minima that bound how far they are.
FEW = 16
MINIMA = 32
# So many places go through a block while it is in the fastest cache.
TILE = 5 * ABREAST
# What is found of them goes through the same vector lanes: so many, of which one is empty.
SIDE_BY_SIDE = 16


@compiled
def keep(distance: float, which: int, kept: Floats, neighbors: Ints, i: int) -> None:
    """Put a neighbour of i, nearer than the last one, in its place, behind those that are equally far.

    Distances in single precision come as ``0.0 + distance``, so that there is one such kernel and not two.
    """
    at = kept.shape[1] - 1
    while at > 0 and kept[i, at - 1] > distance:
        kept[i, at] = kept[i, at - 1]
        neighbors[i, at] = neighbors[i, at - 1]
        at -= 1
    kept[i, at] = distance
    neighbors[i, at] = which


@compiled
def nobody_yet(kept: Floats, i: int) -> None:
    for m in range(kept.shape[1]):
        kept[i, m] = np.inf


@compiled
def nearest(places: Floats, blocks: Floats, k: int, themselves: bool) -> Ints:
    """The k points nearest to each place; ``themselves``: the places are the points, and none is its own neighbour."""
    kept, neighbors = np.empty((len(places), k)), np.empty((len(places), k), dtype=np.int64)
    out = np.empty((len(blocks), LANES))
    for b in range(len(blocks)):
        for i in range(len(places)):
            if b == 0:
                nobody_yet(kept, i)
            distances_to(blocks, b, places, i, out, b)
            if themselves and i // LANES == b:
                out[b, i % LANES] = np.inf
            last = kept[i, k - 1]
            for j in range(LANES):
                if out[b, j] < last:
                    keep(out[b, j], b * LANES + j, kept, neighbors, i)
                    last = kept[i, k - 1]
    return neighbors


@compiled
def nearest_few(
    places: Floats,
    blocks: Floats,
    centred: Floats,
    screen: Singles,
    lowered: Singles,
    slack: Singles,
    share: float,
    factor: float,
    k: int,
    themselves: bool,
) -> Ints:
    """The points that ``nearest`` finds, in any order, by a screen; k is at most ``FEW``.

    Of few rows the screen leaves more candidates than are needed; these are looked at again in double precision.

    Parameters
    ----------
    places, blocks, k, themselves
        As of ``nearest``.
    centred : array of shape (n_places, n_features)
        The places, moved as the points of the screen were.
    screen, lowered, slack, share, factor
        See ``Screen``.
    """
    n = len(places)
    neighbors, kept = np.empty((n, k), dtype=np.int64), np.empty((n, k))
    candidates, out = np.empty(len(blocks) * LANES, dtype=np.int64), np.empty((len(blocks), LANES))
    doubled, own = np.zeros((TILE, places.shape[1]), dtype=np.float32), np.empty(TILE)
    # Of some places lower ends of all distances, and their minima in parts of the points.
    low, least = np.empty((TILE, len(blocks), LANES), dtype=np.float32), np.empty((TILE, LANES), dtype=np.float32)
    uppers = np.full((MINIMA, SIDE_BY_SIDE), np.inf, dtype=np.float32)
    smallest, most_slack = np.empty((k + 1, SIDE_BY_SIDE), dtype=np.float32), largest_of_parts(slack)
    near = np.empty(MINIMA, dtype=np.int64)
    for first in range(0, n, TILE):
        rows = min(TILE, n - first)
        for row in range(rows):
            own[row] = 2 * share * put_place(centred, first + row, factor, doubled, row) + LOST
            for j in range(LANES):
                least[row, j] = np.inf
        for b in range(len(blocks)):
            for row in range(rows + -rows % ABREAST):
                for j in range(LANES):
                    low[row, b, j] = lowered[b, j]
            for row in range(0, rows, ABREAST):
                less_products(screen, b, doubled, row, low)
            for row in range(rows):
                if themselves and (first + row) // LANES == b:
                    low[row, b, (first + row) % LANES] = np.inf
                for j in range(LANES):
                    least[row, j] = low[row, b, j] if low[row, b, j] < least[row, j] else least[row, j]
        for row in range(rows):
            reduce_to_parts(least, row, most_slack, uppers)
        order(uppers, smallest)
        for row in range(rows):
            i = first + row
            upto = smallest[k - 1, row] + own[row]
            count = gather(low, row, upto, least, near, candidates)
            if count > k:
                upto = bound_by_candidates(low, row, slack, candidates, count, kept, neighbors, i) + own[row]
                count = drop(low, row, upto, candidates, count)
            if count > k:
                look_again(blocks, places, low, row, upto, out, kept, neighbors, i)
            else:
                for m in range(k):
                    neighbors[i, m] = candidates[m]
    return neighbors


@compiled
def largest_of_parts(slack: Singles) -> Singles:
    """The largest slack in each of the ``MINIMA`` parts of the points."""
    largest = np.zeros(MINIMA, dtype=np.float32)
    for b in range(len(slack)):
        for j in range(LANES):
            largest[j % MINIMA] = max(largest[j % MINIMA], slack[b, j])
    return largest


@compiled
def reduce_to_parts(least: Singles, row: int, most_slack: Singles, uppers: Singles) -> None:
    """From the minima of all lanes to those of ``MINIMA`` parts, and upper ends of the least distance in each part."""
    width = LANES
    while width > MINIMA:
        width //= 2
        for j in range(width):
            one, other = least[row, j], least[row, width + j]
            least[row, j] = one if one < other else other
    for j in range(MINIMA):
        uppers[j, row] = least[row, j] + most_slack[j]


@compiled
def order(uppers: Singles, smallest: Singles) -> None:
    """The smallest upper ends of each place, in order, for all places at once: no branch, which nobody could foresee.

    The k-th is an upper end of the k-th smallest distance. Of k + 1 rows the last one is for what does not fit.
    """
    last = len(smallest) - 1
    for m in range(last):
        for row in range(SIDE_BY_SIDE):
            smallest[m, row] = np.inf
    for part in range(MINIMA):
        for row in range(SIDE_BY_SIDE):
            smallest[last, row] = uppers[part, row]
        for m in range(last):
            for row in range(SIDE_BY_SIDE):
                here, new = smallest[m, row], smallest[last, row]
                smallest[m, row] = new if new < here else here
                smallest[last, row] = here if new < here else new


@compiled
def gather(low: Singles, row: int, upto: float, least: Singles, near: Ints, candidates: Ints) -> int:
    """The points whose distance may be as small as that, and how many they are; again without a branch."""
    parts = 0
    for j in range(MINIMA):
        near[parts] = j
        parts += least[row, j] <= upto
    count = 0
    for m in range(parts):
        for b in range(low.shape[1]):
            for j in range(near[m], LANES, MINIMA):
                candidates[count] = b * LANES + j
                count += low[row, b, j] <= upto
    return count


@compiled
def bound_by_candidates(
    low: Singles, row: int, slack: Singles, candidates: Ints, count: int, kept: Floats, neighbors: Ints, i: int
) -> float:
    """The k-th smallest upper end."""
    nobody_yet(kept, i)
    last = kept.shape[1] - 1
    for m in range(count):
        b, j = candidates[m] // LANES, candidates[m] % LANES
        upper = 0.0 + low[row, b, j] + slack[b, j]
        if upper < kept[i, last]:
            keep(upper, m, kept, neighbors, i)
    return float(kept[i, last])


@compiled
def drop(low: Singles, row: int, upto: float, candidates: Ints, count: int) -> int:
    """Leave the candidates whose distance may be as small as that; how many they are."""
    left = 0
    for m in range(count):
        if low[row, candidates[m] // LANES, candidates[m] % LANES] <= upto:
            candidates[left] = candidates[m]
            left += 1
    return left


@compiled
def look_again(
    blocks: Floats,
    places: Floats,
    low: Singles,
    row: int,
    upto: float,
    out: Floats,
    kept: Floats,
    neighbors: Ints,
    i: int,
) -> None:
    """The nearest of the points whose distance may be as small as that, in double precision."""
    nobody_yet(kept, i)
    last = kept.shape[1] - 1
    for b in range(len(blocks)):
        known = False
        for j in range(LANES):
            if low[row, b, j] <= upto:
                if not known:
                    distances_to(blocks, b, places, i, out, b)
                    known = True
                if out[b, j] < kept[i, last]:
                    keep(out[b, j], b * LANES + j, kept, neighbors, i)


@compiled
def closest(closeness: Floats, k: int, themselves: bool) -> Ints:
    """The k columns of largest closeness in each row; see ``nearest``."""
    n, n_points = closeness.shape
    kept, neighbors = np.empty((n, k)), np.empty((n, k), dtype=np.int64)
    for i in range(n):
        nobody_yet(kept, i)
        for j in range(n_points):
            if -closeness[i, j] < kept[i, k - 1] and not (themselves and i == j):
                keep(-closeness[i, j], j, kept, neighbors, i)
    return neighbors


@compiled
def wrong_votes(neighbors: Ints, classes: Ints, truth: Ints, n_classes: int) -> int:
    """How often the class of most neighbours, of several the first, is not the true one."""
    n, k = neighbors.shape
    votes = np.empty(n_classes, dtype=np.int64)
    wrong = 0
    for i in range(n):
        for m in range(k):
            votes[classes[neighbors[i, m]]] = 0
        for m in range(k):
            votes[classes[neighbors[i, m]]] += 1
        winner = classes[neighbors[i, 0]]
        for m in range(1, k):
            c = classes[neighbors[i, m]]
            if votes[c] > votes[winner] or (votes[c] == votes[winner] and c < winner):
                winner = c
        if winner != truth[i]:
            wrong += 1
    return wrong
