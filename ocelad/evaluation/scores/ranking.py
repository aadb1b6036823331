"""The ranking of pairs by distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad._validation import check_array, check_labels


def pair_auc(distances: Any, y: Any) -> float:
    """The area under the ROC curve of distances as a classifier of similar pairs.

    It is the probability that a similar pair has a smaller distance than a dissimilar pair; ties count one half.

    Parameters
    ----------
    distances : array-like of shape (n_pairs,)
        Or any increasing function of the distances, such as their squares.
    y : array-like of shape (n_pairs,)
        +1 (or True) for similar, -1 (or False) for dissimilar.

    Returns
    -------
    float
        0.5 is chance, 1 perfect; NaN if all pairs have the same label.

    Examples
    --------
    >>> pair_auc([0.1, 0.4, 0.4, 2.0], [1, 1, -1, -1])
    0.875
    """
    d = check_array(distances, "distances", 1, shapes={1: "numbers of shape (n_pairs,)"})
    similar = check_labels(y, "y", len(d)) > 0
    near, far = np.sort(d[similar]), d[~similar]
    if not len(near) or not len(far):
        return float("nan")
    nearer_twice = near.searchsorted(far, "left") + near.searchsorted(far, "right")
    return int(nearer_twice.sum()) / (2 * len(near) * len(far))
