"""Groups of records of one entity, from links with probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import average, fcluster
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ocelad._typing import Floats


def group_records(
    n_records: int, pairs: npt.NDArray[Any], probabilities: Floats, threshold: float
) -> npt.NDArray[np.int64]:
    """Return the number of the group of each record, in the order of their first records.

    Records that links connect are grouped by average linkage, while the mean probability of the pairs of two groups is
    at least the threshold: one doubtful link does not join two groups. Pairs without a link have the probability 0.

    >>> group_records(4, np.array([[0, 1], [1, 2], [0, 2]]), np.array([0.9, 0.9, 0.8]), 0.5)
    array([0, 0, 0, 1])
    """
    groups = np.arange(n_records)
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n_records, n_records))
    _, components = connected_components(graph, directed=False)
    of_pairs = components[pairs[:, 0]]
    order = np.argsort(of_pairs, kind="stable")
    for positions in np.split(order, np.flatnonzero(np.diff(of_pairs[order])) + 1):
        if not len(positions):
            continue
        records, members = np.unique(pairs[positions], return_inverse=True)
        members, n = members.reshape(-1, 2), len(records)
        low, high = members.min(axis=1), members.max(axis=1)
        distances = np.ones(n * (n - 1) // 2)
        distances[n * low - low * (low + 1) // 2 + high - low - 1] = 1.0 - probabilities[positions]
        clusters = fcluster(average(distances), 1.0 - threshold + 1e-9, "distance")
        _, firsts, positions_of = np.unique(clusters, return_index=True, return_inverse=True)
        groups[records] = records[firsts][positions_of]
    return np.unique(groups, return_inverse=True)[1].astype(np.int64)
