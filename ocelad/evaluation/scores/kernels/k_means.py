"""k-means: greedy k-means++ and Lloyd's algorithm."""

from __future__ import annotations

import numpy as np

from ocelad._compile import compiled, compiled_sums
from ocelad._typing import Floats
from ocelad.evaluation.scores.kernels.blocks import LANES, Ints, Narrow, distances_to
from ocelad.evaluation.scores.kernels.screen import ABREAST, LOST, Singles, less_products, put_place

# Lloyd's algorithm ends by itself but for ties that rounding turns in a circle; scikit-learn's limit, too.
MOST_ITERATIONS = 300
# In the place of a centre, and of no cluster: the screen does not tell which one is nearest.
IN_DOUBT = -2


@compiled
def k_means(
    X: Floats, blocks: Floats, screen: Singles, slack: Singles, share: float, factor: float, draws: Floats
) -> Ints:
    """The clusters of the best run; one run for each table of draws, (n_clusters, n_candidates), from [0, 1)."""
    n, n_clusters = len(X), draws.shape[1]
    centres, sums = np.empty((n_clusters, X.shape[1])), np.empty((n_clusters, X.shape[1]))
    counts = np.empty(n_clusters, dtype=np.int64)
    clusters, best = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    # Of each point the squared distance to its nearest centre, and which that is.
    left, nearest_centre = np.empty((len(blocks), LANES)), np.empty((len(blocks), LANES), dtype=np.int32)
    out, running = np.empty((draws.shape[2] * len(blocks), LANES)), np.empty(n)
    candidates, leaves = np.empty(draws.shape[2], dtype=np.int64), np.empty(draws.shape[2])
    # Centres in single precision, and what the screen says of their distances.
    doubled = np.zeros((n_clusters + -n_clusters % ABREAST, X.shape[1]), dtype=np.float32)
    said = np.zeros((len(doubled), len(blocks), LANES), dtype=np.float32)
    nearer, moving = np.empty((2, LANES), dtype=np.float32), np.empty(n, dtype=np.int64)
    least = np.inf
    for run in range(len(draws)):
        n_centres = start(X, blocks, draws, run, centres, left, running, out, candidates, leaves)
        for iteration in range(MOST_ITERATIONS):
            most_slack = 2 * share * place(centres, n_centres, factor, doubled, said) + LOST
            sift(screen, doubled, slack, most_slack, n_centres, said, nearer, nearest_centre)
            if iteration == 0:
                settle(X, blocks, centres, n_centres, left, nearest_centre, out, clusters, sums, counts, moving)
                changed = True
            else:
                changed = regroup(
                    X, blocks, centres, n_centres, left, nearest_centre, out, clusters, sums, counts, moving
                )
            if not changed or iteration == MOST_ITERATIONS - 1 or least_count(counts, n_centres) == 0:
                for b in range(len(blocks)):
                    assign(blocks, b, centres, n_centres, left, nearest_centre, out)
            if not changed:
                break
            recentre(X, left, clusters, sums, counts, centres, n_centres)
        inertia = total(left, n)
        if inertia < least:
            least = inertia
            for i in range(n):
                best[i] = clusters[i]
    return best


@compiled
def start(
    X: Floats,
    blocks: Floats,
    draws: Floats,
    run: int,
    centres: Floats,
    left: Floats,
    running: Floats,
    out: Floats,
    candidates: Ints,
    leaves: Floats,
) -> int:
    """Greedy k-means++: the first centres, and how many there are: fewer where each point is at one of them."""
    n_blocks = len(blocks)
    for c in range(len(centres)):
        if c == 0:
            chosen, at = int(draws[run, 0, 0] * len(X)), 0
            for b in range(n_blocks):
                distances_to(blocks, b, X, chosen, out, b)
                for j in range(LANES):
                    left[b, j] = np.inf
        else:
            add_up(left, running)
            if running[-1] == 0:
                return c
            chosen, at = best_candidate(X, blocks, draws, run, c, left, running, out, candidates, leaves)
        for f in range(X.shape[1]):
            centres[c, f] = X[chosen, f]
        for b in range(n_blocks):
            for j in range(LANES):
                left[b, j] = min(left[b, j], out[at + b, j])
    return len(centres)


@compiled
def best_candidate(
    X: Floats,
    blocks: Floats,
    draws: Floats,
    run: int,
    c: int,
    left: Floats,
    running: Floats,
    out: Floats,
    candidates: Ints,
    leaves: Floats,
) -> tuple[int, int]:
    """Of some points, drawn by how much is left of them, the one that leaves least as the next centre.

    Returns it, and the row from which on its distances are.
    """
    n_blocks = len(blocks)
    for m in range(len(candidates)):
        candidates[m] = point_at(running, draws[run, c, m] * running[-1])
        leaves[m] = 0.0
    for b in range(n_blocks):  # all candidates while the block is in the fastest cache
        for m in range(len(candidates)):
            distances_to(blocks, b, X, candidates[m], out, m * n_blocks + b)
            leaves[m] += sum_of_lesser(left, b, out, m * n_blocks + b, min(LANES, len(X) - b * LANES))
    best = 0
    for m in range(1, len(candidates)):
        best = m if leaves[m] < leaves[best] else best
    return int(candidates[best]), best * n_blocks


@compiled
def add_up(left: Floats, running: Floats) -> None:
    """The running sum of what is left."""
    result = 0.0
    for i in range(len(running)):
        result += left[i // LANES, i % LANES]
        running[i] = result


@compiled
def point_at(running: Floats, upto: float) -> int:
    """The point at which the running sum comes to ``upto``, at most its last; one of which something is left."""
    i = 0
    while running[i] < upto or running[i] == 0:
        i += 1
    return i


@compiled
def total(left: Floats, n: int) -> float:
    result = 0.0
    for i in range(n):
        result += left[i // LANES, i % LANES]
    return result


@compiled_sums
def sum_of_lesser(left: Floats, b: int, out: Floats, row: int, count: int) -> float:
    result = 0.0
    for j in range(count):
        result += min(left[b, j], out[row, j])
    return result


@compiled
def place(centres: Floats, n_centres: int, factor: float, doubled: Singles, said: Singles) -> float:
    """Put the centres before the screen; the largest squared length of one, there."""
    largest = 0.0
    for c in range(n_centres):
        length = put_place(centres, c, factor, doubled, c)
        largest = max(largest, length)
        for b in range(said.shape[1]):
            for j in range(LANES):
                said[c, b, j] = length
    return largest


@compiled
def sift(
    screen: Singles,
    doubled: Singles,
    slack: Singles,
    most_slack: float,
    n_centres: int,
    said: Singles,
    nearer: Singles,
    nearest_centre: Narrow,
) -> None:
    """What ``assign`` finds, by the screen; ``IN_DOUBT`` where another centre may be as near."""
    beside = np.float32(most_slack)
    for b in range(len(screen)):
        for c in range(0, n_centres, ABREAST):
            less_products(screen, b, doubled, c, said)
        for j in range(LANES):
            nearer[0, j], nearer[1, j] = said[0, b, j], np.inf
            nearest_centre[b, j] = 0
        for c in range(1, n_centres):
            for j in range(LANES):
                this, first, second = said[c, b, j], nearer[0, j], nearer[1, j]
                nearest_centre[b, j] = c if this < first else nearest_centre[b, j]
                second = this if this < second else second
                nearer[1, j] = first if this < first else second
                nearer[0, j] = this if this < first else first
        for j in range(LANES):
            zero_cancellations = nearer[1, j] - nearer[0, j] > slack[b, j] + beside
            nearest_centre[b, j] = nearest_centre[b, j] if zero_cancellations else IN_DOUBT


@compiled
def assign(
    blocks: Floats, b: int, centres: Floats, n_centres: int, left: Floats, nearest_centre: Narrow, out: Floats
) -> None:
    """The nearest centre of each point in a block, of several the first, and the squared distance to it."""
    for j in range(LANES):
        left[b, j] = np.inf
        nearest_centre[b, j] = 0
    for c in range(n_centres):
        distances_to(blocks, b, centres, c, out, b)
        for j in range(LANES):
            nearer = out[b, j] < left[b, j]
            nearest_centre[b, j] = c if nearer else nearest_centre[b, j]
            left[b, j] = out[b, j] if nearer else left[b, j]


@compiled
def settle(
    X: Floats,
    blocks: Floats,
    centres: Floats,
    n_centres: int,
    left: Floats,
    nearest_centre: Narrow,
    out: Floats,
    clusters: Ints,
    sums: Floats,
    counts: Ints,
    members: Ints,
) -> None:
    """Put each point, of those that are in no cluster yet, into that of its nearest centre."""
    for i in range(len(X)):
        b, j = i // LANES, i % LANES
        if nearest_centre[b, j] == IN_DOUBT:
            assign(blocks, b, centres, n_centres, left, nearest_centre, out)
        clusters[i] = nearest_centre[b, j]
    for c in range(len(counts)):
        count = 0
        for i in range(len(X)):
            members[count] = i
            count += clusters[i] == c
        counts[c] = count
        add_members(X, members, counts, sums, c)


@compiled
def add_members(X: Floats, members: Ints, counts: Ints, sums: Floats, c: int) -> None:
    """The sum of some points; eight features at a time, which stay in registers."""
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


@compiled
def regroup(
    X: Floats,
    blocks: Floats,
    centres: Floats,
    n_centres: int,
    left: Floats,
    nearest_centre: Narrow,
    out: Floats,
    clusters: Ints,
    sums: Floats,
    counts: Ints,
    moving: Ints,
) -> bool:
    """Put each point into the cluster of its nearest centre; whether any was in another one."""
    count = 0
    for i in range(len(X)):  # without a branch, which nobody could foresee
        moving[count] = i
        count += nearest_centre[i // LANES, i % LANES] != clusters[i]
    changed = False
    for m in range(count):
        i = moving[m]
        b, j = i // LANES, i % LANES
        if nearest_centre[b, j] == IN_DOUBT:
            assign(blocks, b, centres, n_centres, left, nearest_centre, out)
        c = 0 + nearest_centre[b, j]  # as wide as all other indices
        if c != clusters[i]:
            changed = True
            move(X, i, c, clusters, sums, counts)
    return changed


@compiled
def least_count(counts: Ints, n_centres: int) -> int:
    least = counts[0]
    for c in range(1, n_centres):
        least = min(least, counts[c])
    return int(least)


@compiled
def move(X: Floats, i: int, c: int, clusters: Ints, sums: Floats, counts: Ints) -> None:
    """Put point i into cluster c."""
    before = clusters[i]
    clusters[i] = c
    counts[c] += 1
    for f in range(X.shape[1]):
        sums[c, f] += X[i, f]
    if before >= 0:
        counts[before] -= 1
        for f in range(X.shape[1]):
            sums[before, f] -= X[i, f]


@compiled
def recentre(
    X: Floats, left: Floats, clusters: Ints, sums: Floats, counts: Ints, centres: Floats, n_centres: int
) -> None:
    """Put each centre at the mean of its points; one that has lost all of them gets the point with most left."""
    for c in range(n_centres):
        if counts[c] == 0:
            farthest = most_left(left, clusters, counts)
            left[farthest // LANES, farthest % LANES] = 0.0
            move(X, farthest, c, clusters, sums, counts)
    for c in range(n_centres):
        for f in range(X.shape[1]):
            centres[c, f] = sums[c, f] / counts[c]


@compiled
def most_left(left: Floats, clusters: Ints, counts: Ints) -> int:
    """The point farthest from its centre, of those that are not alone in their cluster."""
    farthest, most = 0, -1.0
    for i in range(len(clusters)):
        if counts[clusters[i]] > 1 and left[i // LANES, i % LANES] > most:
            farthest = i
            most = left[i // LANES, i % LANES]
    return farthest
