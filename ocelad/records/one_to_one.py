"""One-to-one matching: the links of largest total evidence in which no record occurs twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from ocelad._typing import Floats


def match_one_to_one(pairs: npt.NDArray[Any], gains: Floats) -> npt.NDArray[np.intp]:
    """Return the positions of the pairs of a matching whose sum of gains is largest.

    Parameters
    ----------
    pairs : array of int of shape (n_pairs, 2)
        Rows of the left and of the right table; no pair twice.
    gains : array of shape (n_pairs,)
        What each pair adds; pairs without a positive gain are left out.

    Examples
    --------
    >>> match_one_to_one(np.array([[0, 0], [0, 1], [1, 0]]), np.array([3.0, 2.0, 2.0]))
    array([1, 2])
    """
    used = np.flatnonzero(gains > 0)
    if not len(used):
        return used
    left_rows, left = np.unique(pairs[used, 0], return_inverse=True)
    right_rows, right = np.unique(pairs[used, 1], return_inverse=True)
    n_left, n_right = len(left_rows), len(right_rows)
    # Each left record also has a partner of its own, without gain, so that a full matching exists. A constant that is
    # added to all costs changes nothing, because each left record is matched once; it keeps them above 0, which sparse
    # matrices do not store.
    highest = float(gains[used].max()) + 1.0
    rows = np.concatenate([left, np.arange(n_left)])
    columns = np.concatenate([right, n_right + np.arange(n_left)])
    costs = np.concatenate([highest - gains[used], np.full(n_left, highest)])
    graph = coo_array((costs, (rows, columns)), shape=(n_left, n_right + n_left)).tocsr()
    matched_left, matched_right = min_weight_full_bipartite_matching(graph)
    position = {(a, b): k for a, b, k in zip(left.tolist(), right.tolist(), used.tolist(), strict=True)}
    found = [position.get(pair) for pair in zip(matched_left.tolist(), matched_right.tolist(), strict=True)]
    return np.array(sorted(k for k in found if k is not None), dtype=np.intp)
