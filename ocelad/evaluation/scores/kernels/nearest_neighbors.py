"""Nearest neighbours and their votes."""

from __future__ import annotations

import numpy as np

from ocelad._compile import jit
from ocelad._typing import Floats
from ocelad.evaluation.scores.kernels.distance_blocks import LANES, Ints, squared_distances
from ocelad.evaluation.scores.kernels.screen import (
    QUERIES_PER_PASS,
    UNDERFLOW_ERROR,
    Float32s,
    load_query,
    subtract_products,
)

# The largest number of neighbours that the screen is used for: half the number of parts, whose minima bound distances.
MAX_SCREENED_NEIGHBORS = 16
N_PARTS = 32
# The number of queries that are screened against a block while it is in the L1 cache.
QUERIES_PER_TILE = 5 * QUERIES_PER_PASS
# The queries of a tile, padded by one, are sorted side by side in vector lanes.
SORT_LANES = 16


@jit
def insert_neighbor(distance: float, index: int, distances: Floats, neighbors: Ints, i: int) -> None:
    """Insert a neighbour of i that is nearer than the last one, after all with an equal distance.

    Callers pass distances in single precision as ``0.0 + distance``, so that only one version is compiled.
    """
    at = distances.shape[1] - 1
    while at > 0 and distances[i, at - 1] > distance:
        distances[i, at] = distances[i, at - 1]
        neighbors[i, at] = neighbors[i, at - 1]
        at -= 1
    distances[i, at] = distance
    neighbors[i, at] = index


@jit
def clear_neighbors(distances: Floats, i: int) -> None:
    for m in range(distances.shape[1]):
        distances[i, m] = np.inf


@jit
def nearest_neighbors(queries: Floats, blocks: Floats, k: int, exclude_self: bool) -> Ints:
    """Return the k points nearest to each query.

    If ``exclude_self``, the queries are the points, and no point is its own neighbour.
    """
    distances, neighbors = np.empty((len(queries), k)), np.empty((len(queries), k), dtype=np.int64)
    out = np.empty((len(blocks), LANES))
    for b in range(len(blocks)):
        for i in range(len(queries)):
            if b == 0:
                clear_neighbors(distances, i)
            squared_distances(blocks, b, queries, i, out, b)
            if exclude_self and i // LANES == b:
                out[b, i % LANES] = np.inf
            last = distances[i, k - 1]
            for j in range(LANES):
                if out[b, j] < last:
                    insert_neighbor(out[b, j], b * LANES + j, distances, neighbors, i)
                    last = distances[i, k - 1]
    return neighbors


@jit
def nearest_neighbors_screened(
    queries: Floats,
    blocks: Floats,
    centred: Floats,
    screen: Float32s,
    lower_norms: Float32s,
    slack: Float32s,
    relative_error: float,
    scale: float,
    k: int,
    exclude_self: bool,
) -> Ints:
    """Return the same points as ``nearest_neighbors``, in any order, with the help of a screen.

    For a few queries the screen leaves more than k candidates. Double precision decides between these.

    Parameters
    ----------
    queries, blocks, k, exclude_self
        As in ``nearest_neighbors``; k is at most ``MAX_SCREENED_NEIGHBORS``.
    centred : array of shape (n_queries, n_features)
        The queries minus the centre of the points.
    screen, lower_norms, slack, relative_error, scale
        The fields of ``Screen``.
    """
    n = len(queries)
    neighbors, distances = np.empty((n, k), dtype=np.int64), np.empty((n, k))
    candidates, out = np.empty(len(blocks) * LANES, dtype=np.int64), np.empty((len(blocks), LANES))
    doubled, query_slack = np.zeros((QUERIES_PER_TILE, queries.shape[1]), dtype=np.float32), np.empty(QUERIES_PER_TILE)
    # Lower bounds of all distances of the queries of a tile, and their minima in parts of the points.
    lower = np.empty((QUERIES_PER_TILE, len(blocks), LANES), dtype=np.float32)
    minima = np.empty((QUERIES_PER_TILE, LANES), dtype=np.float32)
    upper_bounds = np.full((N_PARTS, SORT_LANES), np.inf, dtype=np.float32)
    smallest, max_slack = np.empty((k + 1, SORT_LANES), dtype=np.float32), max_slack_of_parts(slack)
    near_parts = np.empty(N_PARTS, dtype=np.int64)
    for first in range(0, n, QUERIES_PER_TILE):
        rows = min(QUERIES_PER_TILE, n - first)
        for row in range(rows):
            norm = load_query(centred, first + row, scale, doubled, row)
            query_slack[row] = 2 * relative_error * norm + UNDERFLOW_ERROR
            for j in range(LANES):
                minima[row, j] = np.inf
        for b in range(len(blocks)):
            for row in range(rows + -rows % QUERIES_PER_PASS):
                for j in range(LANES):
                    lower[row, b, j] = lower_norms[b, j]
            for row in range(0, rows, QUERIES_PER_PASS):
                subtract_products(screen, b, doubled, row, lower)
            for row in range(rows):
                if exclude_self and (first + row) // LANES == b:
                    lower[row, b, (first + row) % LANES] = np.inf
                for j in range(LANES):
                    minima[row, j] = lower[row, b, j] if lower[row, b, j] < minima[row, j] else minima[row, j]
        for row in range(rows):
            reduce_to_parts(minima, row, max_slack, upper_bounds)
        sort_smallest(upper_bounds, smallest)
        for row in range(rows):
            i = first + row
            limit = smallest[k - 1, row] + query_slack[row]
            count = gather_candidates(lower, row, limit, minima, near_parts, candidates)
            if count > k:
                bound = bound_by_candidates(lower, row, slack, candidates, count, distances, neighbors, i)
                limit = bound + query_slack[row]
                count = filter_candidates(lower, row, limit, candidates, count)
            if count > k:
                search_candidates(blocks, queries, lower, row, limit, out, distances, neighbors, i)
            else:
                for m in range(k):
                    neighbors[i, m] = candidates[m]
    return neighbors


@jit
def max_slack_of_parts(slack: Float32s) -> Float32s:
    """Return the largest slack in each of the ``N_PARTS`` parts of the points."""
    largest = np.zeros(N_PARTS, dtype=np.float32)
    for b in range(len(slack)):
        for j in range(LANES):
            largest[j % N_PARTS] = max(largest[j % N_PARTS], slack[b, j])
    return largest


@jit
def reduce_to_parts(minima: Float32s, row: int, max_slack: Float32s, upper_bounds: Float32s) -> None:
    """Reduce the minima of all lanes to ``N_PARTS`` parts, and bound the smallest distance in each part from above."""
    width = LANES
    while width > N_PARTS:
        width //= 2
        for j in range(width):
            one, other = minima[row, j], minima[row, width + j]
            minima[row, j] = one if one < other else other
    for j in range(N_PARTS):
        upper_bounds[j, row] = minima[row, j] + max_slack[j]


@jit
def sort_smallest(upper_bounds: Float32s, smallest: Float32s) -> None:
    """Sort the smallest upper bounds of all queries of a tile at once, without branches.

    The k-th of them bounds the k-th smallest distance. The last of the k + 1 rows holds the value to insert.
    """
    last = len(smallest) - 1
    for m in range(last):
        for row in range(SORT_LANES):
            smallest[m, row] = np.inf
    for part in range(N_PARTS):
        for row in range(SORT_LANES):
            smallest[last, row] = upper_bounds[part, row]
        for m in range(last):
            for row in range(SORT_LANES):
                here, new = smallest[m, row], smallest[last, row]
                smallest[m, row] = new if new < here else here
                smallest[last, row] = here if new < here else new


@jit
def gather_candidates(
    lower: Float32s, row: int, limit: float, minima: Float32s, near_parts: Ints, candidates: Ints
) -> int:
    """Collect the points whose lower bound is at most ``limit``, without branches, and return their number."""
    n_near = 0
    for j in range(N_PARTS):
        near_parts[n_near] = j
        n_near += minima[row, j] <= limit
    count = 0
    for m in range(n_near):
        for b in range(lower.shape[1]):
            for j in range(near_parts[m], LANES, N_PARTS):
                candidates[count] = b * LANES + j
                count += lower[row, b, j] <= limit
    return count


@jit
def bound_by_candidates(
    lower: Float32s, row: int, slack: Float32s, candidates: Ints, count: int, distances: Floats, neighbors: Ints, i: int
) -> float:
    """Return the k-th smallest upper bound among the candidates."""
    clear_neighbors(distances, i)
    last = distances.shape[1] - 1
    for m in range(count):
        b, j = candidates[m] // LANES, candidates[m] % LANES
        upper = 0.0 + lower[row, b, j] + slack[b, j]
        if upper < distances[i, last]:
            insert_neighbor(upper, m, distances, neighbors, i)
    return float(distances[i, last])


@jit
def filter_candidates(lower: Float32s, row: int, limit: float, candidates: Ints, count: int) -> int:
    """Keep the candidates whose lower bound is at most ``limit``, and return their number."""
    n_kept = 0
    for m in range(count):
        if lower[row, candidates[m] // LANES, candidates[m] % LANES] <= limit:
            candidates[n_kept] = candidates[m]
            n_kept += 1
    return n_kept


@jit
def search_candidates(
    blocks: Floats,
    queries: Floats,
    lower: Float32s,
    row: int,
    limit: float,
    out: Floats,
    distances: Floats,
    neighbors: Ints,
    i: int,
) -> None:
    """Find the nearest of the points whose lower bound is at most ``limit``, in double precision."""
    clear_neighbors(distances, i)
    last = distances.shape[1] - 1
    for b in range(len(blocks)):
        is_computed = False
        for j in range(LANES):
            if lower[row, b, j] <= limit:
                if not is_computed:
                    squared_distances(blocks, b, queries, i, out, b)
                    is_computed = True
                if out[b, j] < distances[i, last]:
                    insert_neighbor(out[b, j], b * LANES + j, distances, neighbors, i)


@jit
def most_similar(similarity: Floats, k: int, exclude_self: bool) -> Ints:
    """Return the k columns with the largest similarity in each row; see ``nearest_neighbors``."""
    n, n_points = similarity.shape
    distances, neighbors = np.empty((n, k)), np.empty((n, k), dtype=np.int64)
    for i in range(n):
        clear_neighbors(distances, i)
        for j in range(n_points):
            if -similarity[i, j] < distances[i, k - 1] and not (exclude_self and i == j):
                insert_neighbor(-similarity[i, j], j, distances, neighbors, i)
    return neighbors


@jit
def count_wrong_votes(neighbors: Ints, classes: Ints, truth: Ints, n_classes: int) -> int:
    """Count the rows whose majority class, of several the first, is not the true class."""
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
