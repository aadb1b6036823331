"""k-means: greedy k-means++ and Lloyd's algorithm."""

from __future__ import annotations

import numpy as np

from ocelad._compile import jit, jit_reassoc
from ocelad._typing import Floats
from ocelad.evaluation.scores.kernels.distance_blocks import LANES, Int32s, Ints, squared_distances
from ocelad.evaluation.scores.kernels.screen import (
    QUERIES_PER_PASS,
    UNDERFLOW_ERROR,
    Float32s,
    load_query,
    subtract_products,
)

# Lloyd's algorithm terminates, except for cycles of ties caused by rounding. scikit-learn has the same limit.
MAX_ITERATIONS = 300
# Instead of the index of a centre: the screen cannot decide which centre is nearest.
UNDECIDED = -2


@jit
def k_means(
    X: Floats, blocks: Floats, screen: Float32s, slack: Float32s, relative_error: float, scale: float, draws: Floats
) -> Ints:
    """Return the clusters of the run with the lowest inertia.

    ``draws`` holds for each run a table of shape (n_clusters, n_candidates) of random numbers in [0, 1).
    """
    n, n_clusters = len(X), draws.shape[1]
    centres, sums = np.empty((n_clusters, X.shape[1])), np.empty((n_clusters, X.shape[1]))
    counts = np.empty(n_clusters, dtype=np.int64)
    clusters, best = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    # The squared distance of each point to its nearest centre, and the index of this centre.
    min_distances, nearest_centre = np.empty((len(blocks), LANES)), np.empty((len(blocks), LANES), dtype=np.int32)
    out, cumulative = np.empty((draws.shape[2] * len(blocks), LANES)), np.empty(n)
    candidates, costs = np.empty(draws.shape[2], dtype=np.int64), np.empty(draws.shape[2])
    # The centres in single precision, and the screened distances.
    doubled = np.zeros((n_clusters + -n_clusters % QUERIES_PER_PASS, X.shape[1]), dtype=np.float32)
    screened = np.zeros((len(doubled), len(blocks), LANES), dtype=np.float32)
    nearer, moving = np.empty((2, LANES), dtype=np.float32), np.empty(n, dtype=np.int64)
    lowest_inertia = np.inf
    for run in range(len(draws)):
        n_centres = init_centres(X, blocks, draws, run, centres, min_distances, cumulative, out, candidates, costs)
        for iteration in range(MAX_ITERATIONS):
            max_slack = (
                2 * relative_error * load_centres(centres, n_centres, scale, doubled, screened) + UNDERFLOW_ERROR
            )
            screen_centres(screen, doubled, slack, max_slack, n_centres, screened, nearer, nearest_centre)
            if iteration == 0:
                assign_all(
                    X, blocks, centres, n_centres, min_distances, nearest_centre, out, clusters, sums, counts, moving
                )
                changed = True
            else:
                changed = reassign(
                    X, blocks, centres, n_centres, min_distances, nearest_centre, out, clusters, sums, counts, moving
                )
            if not changed or iteration == MAX_ITERATIONS - 1 or min_count(counts, n_centres) == 0:
                for b in range(len(blocks)):
                    assign_block(blocks, b, centres, n_centres, min_distances, nearest_centre, out)
            if not changed:
                break
            update_centres(X, min_distances, clusters, sums, counts, centres, n_centres)
        inertia = total(min_distances, n)
        if inertia < lowest_inertia:
            lowest_inertia = inertia
            for i in range(n):
                best[i] = clusters[i]
    return best


@jit
def init_centres(
    X: Floats,
    blocks: Floats,
    draws: Floats,
    run: int,
    centres: Floats,
    min_distances: Floats,
    cumulative: Floats,
    out: Floats,
    candidates: Ints,
    costs: Floats,
) -> int:
    """Choose the initial centres by greedy k-means++, and return their number: fewer if every point is at a centre."""
    n_blocks = len(blocks)
    for c in range(len(centres)):
        if c == 0:
            chosen, at = int(draws[run, 0, 0] * len(X)), 0
            for b in range(n_blocks):
                squared_distances(blocks, b, X, chosen, out, b)
                for j in range(LANES):
                    min_distances[b, j] = np.inf
        else:
            cumulate(min_distances, cumulative)
            if cumulative[-1] == 0:
                return c
            chosen, at = best_candidate(X, blocks, draws, run, c, min_distances, cumulative, out, candidates, costs)
        for f in range(X.shape[1]):
            centres[c, f] = X[chosen, f]
        for b in range(n_blocks):
            for j in range(LANES):
                min_distances[b, j] = min(min_distances[b, j], out[at + b, j])
    return len(centres)


@jit
def best_candidate(
    X: Floats,
    blocks: Floats,
    draws: Floats,
    run: int,
    c: int,
    min_distances: Floats,
    cumulative: Floats,
    out: Floats,
    candidates: Ints,
    costs: Floats,
) -> tuple[int, int]:
    """Draw candidates by their squared distances to the centres, and choose the one with the lowest cost.

    Returns the point, and the first row of its distances in ``out``.
    """
    n_blocks = len(blocks)
    for m in range(len(candidates)):
        candidates[m] = sample_point(cumulative, draws[run, c, m] * cumulative[-1])
        costs[m] = 0.0
    for b in range(n_blocks):  # all candidates while the block is in the L1 cache
        for m in range(len(candidates)):
            squared_distances(blocks, b, X, candidates[m], out, m * n_blocks + b)
            costs[m] += sum_of_minima(min_distances, b, out, m * n_blocks + b, min(LANES, len(X) - b * LANES))
    best = 0
    for m in range(1, len(candidates)):
        best = m if costs[m] < costs[best] else best
    return int(candidates[best]), best * n_blocks


@jit
def cumulate(min_distances: Floats, cumulative: Floats) -> None:
    """Compute the cumulative sum of the squared distances to the nearest centres."""
    result = 0.0
    for i in range(len(cumulative)):
        result += min_distances[i // LANES, i % LANES]
        cumulative[i] = result


@jit
def sample_point(cumulative: Floats, target: float) -> int:
    """Return the first point with a positive cumulative sum of at least ``target``."""
    i = 0
    while cumulative[i] < target or cumulative[i] == 0:
        i += 1
    return i


@jit
def total(min_distances: Floats, n: int) -> float:
    result = 0.0
    for i in range(n):
        result += min_distances[i // LANES, i % LANES]
    return result


@jit_reassoc
def sum_of_minima(min_distances: Floats, b: int, out: Floats, row: int, count: int) -> float:
    result = 0.0
    for j in range(count):
        result += min(min_distances[b, j], out[row, j])
    return result


@jit
def load_centres(centres: Floats, n_centres: int, scale: float, doubled: Float32s, screened: Float32s) -> float:
    """Load the centres as queries of the screen, and return their largest squared length."""
    largest = 0.0
    for c in range(n_centres):
        length = load_query(centres, c, scale, doubled, c)
        largest = max(largest, length)
        for b in range(screened.shape[1]):
            for j in range(LANES):
                screened[c, b, j] = length
    return largest


@jit
def screen_centres(
    screen: Float32s,
    doubled: Float32s,
    slack: Float32s,
    max_slack: float,
    n_centres: int,
    screened: Float32s,
    nearer: Float32s,
    nearest_centre: Int32s,
) -> None:
    """Find the nearest centre of each point with the screen; ``UNDECIDED`` if another centre may be as near."""
    centre_slack = np.float32(max_slack)
    for b in range(len(screen)):
        for c in range(0, n_centres, QUERIES_PER_PASS):
            subtract_products(screen, b, doubled, c, screened)
        for j in range(LANES):
            nearer[0, j], nearer[1, j] = screened[0, b, j], np.inf
            nearest_centre[b, j] = 0
        for c in range(1, n_centres):
            for j in range(LANES):
                this, first, second = screened[c, b, j], nearer[0, j], nearer[1, j]
                nearest_centre[b, j] = c if this < first else nearest_centre[b, j]
                second = this if this < second else second
                nearer[1, j] = first if this < first else second
                nearer[0, j] = this if this < first else first
        for j in range(LANES):
            is_certain = nearer[1, j] - nearer[0, j] > slack[b, j] + centre_slack
            nearest_centre[b, j] = nearest_centre[b, j] if is_certain else UNDECIDED


@jit
def assign_block(
    blocks: Floats, b: int, centres: Floats, n_centres: int, min_distances: Floats, nearest_centre: Int32s, out: Floats
) -> None:
    """Find the nearest centre of each point of a block, of several the first, and its squared distance."""
    for j in range(LANES):
        min_distances[b, j] = np.inf
        nearest_centre[b, j] = 0
    for c in range(n_centres):
        squared_distances(blocks, b, centres, c, out, b)
        for j in range(LANES):
            nearer = out[b, j] < min_distances[b, j]
            nearest_centre[b, j] = c if nearer else nearest_centre[b, j]
            min_distances[b, j] = out[b, j] if nearer else min_distances[b, j]


@jit
def assign_all(
    X: Floats,
    blocks: Floats,
    centres: Floats,
    n_centres: int,
    min_distances: Floats,
    nearest_centre: Int32s,
    out: Floats,
    clusters: Ints,
    sums: Floats,
    counts: Ints,
    members: Ints,
) -> None:
    """Assign every point to its nearest centre for the first time."""
    for i in range(len(X)):
        b, j = i // LANES, i % LANES
        if nearest_centre[b, j] == UNDECIDED:
            assign_block(blocks, b, centres, n_centres, min_distances, nearest_centre, out)
        clusters[i] = nearest_centre[b, j]
    for c in range(len(counts)):
        count = 0
        for i in range(len(X)):
            members[count] = i
            count += clusters[i] == c
        counts[c] = count
        add_members(X, members, counts, sums, c)


@jit
def add_members(X: Floats, members: Ints, counts: Ints, sums: Floats, c: int) -> None:
    """Sum the points of a cluster, eight features at a time, which stay in registers."""
    count, by_eight = counts[c], X.shape[1] - X.shape[1] % 8
    for f in range(0, by_eight, 8):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for m in range(count):
            i = members[m]
            s0 += X[i, f]
            s1 += X[i, f + 1]
            s2 += X[i, f + 2]
            s3 += X[i, f + 3]
            s4 += X[i, f + 4]
            s5 += X[i, f + 5]
            s6 += X[i, f + 6]
            s7 += X[i, f + 7]
        sums[c, f], sums[c, f + 1], sums[c, f + 2], sums[c, f + 3] = s0, s1, s2, s3
        sums[c, f + 4], sums[c, f + 5], sums[c, f + 6], sums[c, f + 7] = s4, s5, s6, s7
    for f in range(by_eight, X.shape[1]):
        result = 0.0
        for m in range(count):
            result += X[members[m], f]
        sums[c, f] = result


@jit
def reassign(
    X: Floats,
    blocks: Floats,
    centres: Floats,
    n_centres: int,
    min_distances: Floats,
    nearest_centre: Int32s,
    out: Floats,
    clusters: Ints,
    sums: Floats,
    counts: Ints,
    moving: Ints,
) -> bool:
    """Assign every point to its nearest centre, and return whether a cluster has changed."""
    count = 0
    for i in range(len(X)):  # without a branch, which would be unpredictable
        moving[count] = i
        count += nearest_centre[i // LANES, i % LANES] != clusters[i]
    changed = False
    for m in range(count):
        i = moving[m]
        b, j = i // LANES, i % LANES
        if nearest_centre[b, j] == UNDECIDED:
            assign_block(blocks, b, centres, n_centres, min_distances, nearest_centre, out)
        c = 0 + nearest_centre[b, j]  # int64, as all other indices
        if c != clusters[i]:
            changed = True
            move_point(X, i, c, clusters, sums, counts)
    return changed


@jit
def min_count(counts: Ints, n_centres: int) -> int:
    smallest = counts[0]
    for c in range(1, n_centres):
        smallest = min(smallest, counts[c])
    return int(smallest)


@jit
def move_point(X: Floats, i: int, c: int, clusters: Ints, sums: Floats, counts: Ints) -> None:
    """Move point i to cluster c."""
    before = clusters[i]
    clusters[i] = c
    counts[c] += 1
    for f in range(X.shape[1]):
        sums[c, f] += X[i, f]
    if before >= 0:
        counts[before] -= 1
        for f in range(X.shape[1]):
            sums[before, f] -= X[i, f]


@jit
def update_centres(
    X: Floats, min_distances: Floats, clusters: Ints, sums: Floats, counts: Ints, centres: Floats, n_centres: int
) -> None:
    """Move each centre to the mean of its points. An empty cluster gets the point farthest from its centre."""
    for c in range(n_centres):
        if counts[c] == 0:
            farthest = farthest_point(min_distances, clusters, counts)
            min_distances[farthest // LANES, farthest % LANES] = 0.0
            move_point(X, farthest, c, clusters, sums, counts)
    for c in range(n_centres):
        for f in range(X.shape[1]):
            centres[c, f] = sums[c, f] / counts[c]


@jit
def farthest_point(min_distances: Floats, clusters: Ints, counts: Ints) -> int:
    """Return the point farthest from its centre, among the clusters with two points or more."""
    farthest, largest = 0, -1.0
    for i in range(len(clusters)):
        if counts[clusters[i]] > 1 and min_distances[i // LANES, i % LANES] > largest:
            farthest = i
            largest = min_distances[i // LANES, i % LANES]
    return farthest
