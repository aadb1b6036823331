"""Compiled loops of the scores.

Points come twice: one per row, and packed, ``LANES`` of them side by side in a block, feature by feature, so that the
distances of one place to a whole block are vector instructions. Arrays come whole with an index, because views cost
atomic reference counts, and are filled by loops, because NumPy's ways to fill them take long to compile.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ocelad.checks import Floats
from ocelad.online.compiled import compiled, compiled_sums

Ints = npt.NDArray[np.int64]

# A block of 25 features is 25 kB and stays in the fastest cache.
LANES = 128
# Lloyd's algorithm ends by itself but for ties that rounding turns in a circle; scikit-learn's limit, too.
MOST_ITERATIONS = 300


def packed(X: Floats) -> Floats:
    """The points in blocks, of shape (n_blocks, n_features, LANES); what fills the last one is infinitely far."""
    n, n_features = X.shape
    n_blocks = -(-n // LANES)
    rows = np.full((n_blocks * LANES, n_features), np.inf)
    rows[:n] = X
    return np.ascontiguousarray(rows.reshape(n_blocks, LANES, n_features).transpose(0, 2, 1))


@compiled
def distances_to(blocks: Floats, b: int, places: Floats, i: int, out: Floats) -> None:
    """Squared distances of the points in block b to place i."""
    n_features = blocks.shape[1]
    for j in range(LANES):
        out[j] = 0.0
    by_four = n_features - n_features % 4
    for f in range(0, by_four, 4):  # four at a time: the sums are loaded and stored less often
        p, q, r, s = places[i, f], places[i, f + 1], places[i, f + 2], places[i, f + 3]
        for j in range(LANES):
            one, two = blocks[b, f, j] - p, blocks[b, f + 1, j] - q
            three, four = blocks[b, f + 2, j] - r, blocks[b, f + 3, j] - s
            result = out[j] + one * one
            result += two * two
            result += three * three
            out[j] = result + four * four
    for f in range(by_four, n_features):
        p = places[i, f]
        for j in range(LANES):
            one = blocks[b, f, j] - p
            out[j] += one * one


@compiled
def keep(distance: float, which: int, kept: Floats, neighbors: Ints, i: int) -> None:
    """Put a neighbour of i, nearer than the last one, in its place, behind those that are equally far."""
    at = kept.shape[1] - 1
    while at > 0 and kept[i, at - 1] > distance:
        kept[i, at] = kept[i, at - 1]
        neighbors[i, at] = neighbors[i, at - 1]
        at -= 1
    kept[i, at] = distance
    neighbors[i, at] = which


@compiled
def nearest(places: Floats, blocks: Floats, k: int, themselves: bool) -> Ints:
    """The k points nearest to each place; ``themselves``: the places are the points, and none is its own neighbour."""
    kept, neighbors = np.empty((len(places), k)), np.empty((len(places), k), dtype=np.int64)
    out = np.empty(LANES)
    for b in range(len(blocks)):
        for i in range(len(places)):
            if b == 0:
                nobody_yet(kept, i)
            distances_to(blocks, b, places, i, out)
            if themselves and i // LANES == b:
                out[i % LANES] = np.inf
            last = kept[i, k - 1]
            for j in range(LANES):
                if out[j] < last:
                    keep(out[j], b * LANES + j, kept, neighbors, i)
                    last = kept[i, k - 1]
    return neighbors


@compiled
def nobody_yet(kept: Floats, i: int) -> None:
    for m in range(kept.shape[1]):
        kept[i, m] = np.inf


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


@compiled
def k_means(X: Floats, blocks: Floats, draws: Floats) -> Ints:
    """The clusters of the best run; one run for each table of draws, (n_clusters, n_candidates), from [0, 1)."""
    n, n_clusters = len(X), draws.shape[1]
    centres, sums = np.empty((n_clusters, X.shape[1])), np.empty((n_clusters, X.shape[1]))
    counts = np.empty(n_clusters, dtype=np.int64)
    clusters, best = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    # Of each point the squared distance to its nearest centre, and which that is.
    left, nearest_centre = np.empty((len(blocks), LANES)), np.empty((len(blocks), LANES), dtype=np.int64)
    out = np.empty(LANES)
    least = np.inf
    for run in range(len(draws)):
        n_centres = start(X, blocks, draws, run, centres, left, out)
        disband(clusters, sums, counts)
        for _ in range(MOST_ITERATIONS):
            assign(blocks, centres, n_centres, left, nearest_centre, out)
            if not regroup(X, nearest_centre, clusters, sums, counts):
                break
            recentre(X, left, clusters, sums, counts, centres, n_centres)
        inertia = total(left, n)
        if inertia < least:
            least = inertia
            for i in range(n):
                best[i] = clusters[i]
    return best


@compiled
def start(X: Floats, blocks: Floats, draws: Floats, run: int, centres: Floats, left: Floats, out: Floats) -> int:
    """Greedy k-means++: the first centres, and how many there are: fewer where each point is at one of them."""
    n = len(X)
    for c in range(len(centres)):
        chosen = int(draws[run, 0, 0] * n)
        if c > 0:
            remaining = total(left, n)
            if remaining == 0:
                return c
            chosen = best_candidate(X, blocks, draws, run, c, remaining, left, out)
        for f in range(X.shape[1]):
            centres[c, f] = X[chosen, f]
        for b in range(len(blocks)):
            distances_to(blocks, b, X, chosen, out)
            for j in range(LANES):
                left[b, j] = out[j] if c == 0 else min(left[b, j], out[j])
    return len(centres)


@compiled
def best_candidate(
    X: Floats, blocks: Floats, draws: Floats, run: int, c: int, remaining: float, left: Floats, out: Floats
) -> int:
    """Of some points, drawn by how much is left of them, the one that leaves least as the next centre."""
    chosen = 0
    least = np.inf
    for m in range(draws.shape[2]):
        i = point_at(left, len(X), draws[run, c, m] * remaining)
        leaves = 0.0
        for b in range(len(blocks)):
            distances_to(blocks, b, X, i, out)
            leaves += sum_of_lesser(left, b, out, min(LANES, len(X) - b * LANES))
        if leaves < least:
            least = leaves
            chosen = i
    return chosen


@compiled
def total(left: Floats, n: int) -> float:
    result = 0.0
    for i in range(n):
        result += left[i // LANES, i % LANES]
    return result


@compiled
def point_at(left: Floats, n: int, upto: float) -> int:
    """The point at which the running sum comes to ``upto``; one of which something is left."""
    result, chosen = 0.0, 0
    for i in range(n):
        this = left[i // LANES, i % LANES]
        if this > 0:
            chosen = i
            result += this
            if result >= upto:
                break
    return chosen


@compiled_sums
def sum_of_lesser(left: Floats, b: int, out: Floats, count: int) -> float:
    result = 0.0
    for j in range(count):
        result += min(left[b, j], out[j])
    return result


@compiled
def assign(blocks: Floats, centres: Floats, n_centres: int, left: Floats, nearest_centre: Ints, out: Floats) -> None:
    """The nearest centre of each point, of several the first, and the squared distance to it."""
    for b in range(len(blocks)):
        for j in range(LANES):
            left[b, j] = np.inf
            nearest_centre[b, j] = 0
        for c in range(n_centres):
            distances_to(blocks, b, centres, c, out)
            for j in range(LANES):
                nearer = out[j] < left[b, j]
                nearest_centre[b, j] = c if nearer else nearest_centre[b, j]
                left[b, j] = out[j] if nearer else left[b, j]


@compiled
def disband(clusters: Ints, sums: Floats, counts: Ints) -> None:
    """No point is in any cluster."""
    for i in range(len(clusters)):
        clusters[i] = -1
    for c in range(len(counts)):
        counts[c] = 0
        for f in range(sums.shape[1]):
            sums[c, f] = 0.0


@compiled
def regroup(X: Floats, nearest_centre: Ints, clusters: Ints, sums: Floats, counts: Ints) -> bool:
    """Put each point into the cluster of its nearest centre; whether any was in another one."""
    changed = False
    for i in range(len(X)):
        c = nearest_centre[i // LANES, i % LANES]
        if clusters[i] != c:
            changed = True
            move(X, i, c, clusters, sums, counts)
    return changed


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
