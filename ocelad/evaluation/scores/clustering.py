"""k-means, and the agreement of its clusters with labels."""

from __future__ import annotations

from functools import lru_cache
from math import fsum, log
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.evaluation.scores.kernels import k_means as kernels
from ocelad.evaluation.scores.kernels.distance_blocks import pack_blocks
from ocelad.evaluation.scores.prepared_points import PreparedPoints, check_labelled_points, prepare

N_RESTARTS = 10


def clustering_nmi(points: Any, labels: Any, seed: int = 0) -> float:
    """Normalised mutual information between the labels and the clusters of k-means, with one cluster per label.

    Parameters
    ----------
    points : array-like of shape (n_points, n_features)
    labels : array-like of shape (n_points,)
        Numbers or text.
    seed : int
        Seed of the initial centres. The same seed gives the same clusters.

    Returns
    -------
    float
        ``I(labels, clusters) / mean(H(labels), H(clusters))``: 0 is chance, 1 perfect.

    Examples
    --------
    >>> round(clustering_nmi([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1]), 6)
    1.0
    """
    X, classes = check_labelled_points(points, labels)
    return k_means_nmi(prepare(X), classes, check_integer(seed, "seed", at_least=0))


def k_means_nmi(prepared: PreparedPoints, classes: np.ndarray, seed: int) -> float:
    """Compute ``clustering_nmi`` of points that are prepared already."""
    return nmi(classes, _cluster(prepared, int(classes.max()) + 1, seed))


def k_means(X: Floats, n_clusters: int, seed: int = 0) -> np.ndarray:
    """Return the cluster of each point: the best of ten runs by the sum of squared distances to the cluster means.

    Each run is Lloyd's algorithm until no point changes its cluster. Its initial centres are those of greedy k-means++
    (Arthur and Vassilvitskii 2007, "k-means++: the advantages of careful seeding"), as in scikit-learn: the next
    centre is the best of several candidates. If the points have fewer distinct values than clusters, each distinct
    value is a cluster.

    >>> clusters = k_means(np.array([[0.0], [2.0], [7.0], [9.0]]), 2)
    >>> bool(clusters[0] == clusters[1] != clusters[2] == clusters[3])
    True
    """
    return _cluster(prepare(X), n_clusters, seed)


def _cluster(prepared: PreparedPoints, n_clusters: int, seed: int) -> np.ndarray:
    # Sums of centred points lose no digits.
    points, (blocks, _, slack, relative_error, scale) = prepared.centred, prepared.screen
    clusters: np.ndarray = kernels.k_means(
        points, pack_blocks(points), blocks, slack, relative_error, scale, _draw_uniform(n_clusters, seed)
    )
    return clusters


@lru_cache(maxsize=8)
def _draw_uniform(n_clusters: int, seed: int) -> Floats:
    return np.random.default_rng(seed).random((N_RESTARTS, n_clusters, 2 + int(log(n_clusters))))


def nmi(one: np.ndarray, other: np.ndarray) -> float:
    """Normalised mutual information of two labellings by integers from 0.

    It is 1 if both have one label only, and 0 if exactly one of them has.

    >>> nmi(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    both = one * (int(other.max()) + 1) + other
    entropies = _entropy(one) + _entropy(other)
    return max(0.0, 2 * (1 - _entropy(both) / entropies)) if entropies else 1.0


def _entropy(labels: np.ndarray) -> float:
    counts = [count for count in np.bincount(labels).tolist() if count]
    # The exact sum does not depend on the order of the counts.
    return log(len(labels)) - fsum(count * log(count) for count in counts) / len(labels)
