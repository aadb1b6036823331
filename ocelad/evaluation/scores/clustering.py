"""k-means, and how well its clusters agree with labels."""

from __future__ import annotations

from functools import lru_cache
from math import fsum, log
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.evaluation.scores.kernels import k_means as kernels
from ocelad.evaluation.scores.kernels.blocks import packed
from ocelad.evaluation.scores.labelled import Ready, labelled, ready

RESTARTS = 10


def clustering_nmi(points: Any, labels: Any, seed: int = 0) -> float:
    """Normalised mutual information between the labels and k-means with as many clusters.

    Parameters
    ----------
    points : array-like of shape (n_points, n_features)
    labels : array-like of shape (n_points,)
        Numbers or text.
    seed : int
        Of the places where k-means starts; the same seed gives the same clusters.

    Returns
    -------
    float
        ``I(labels, clusters) / mean(H(labels), H(clusters))``: 0 is chance, 1 perfect.

    Examples
    --------
    >>> round(clustering_nmi([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1]), 6)
    1.0
    """
    X, classes = labelled(points, labels)
    return nmi_of_k_means(ready(X), classes, check_integer(seed, "seed", at_least=0))


def nmi_of_k_means(made: Ready, classes: np.ndarray, seed: int) -> float:
    """``clustering_nmi`` of points that have been checked."""
    return nmi(classes, _clusters(made, int(classes.max()) + 1, seed))


def k_means(X: Floats, n_clusters: int, seed: int = 0) -> np.ndarray:
    """The cluster of each point: of ten runs, the one with the least sum of squared distances to the clusters' means.

    Each run is Lloyd's algorithm until no point changes its cluster, from a start by k-means++ (Arthur and
    Vassilvitskii 2007, "k-means++: the advantages of careful seeding"), the greedy form, as in scikit-learn: the next
    centre is the best of several candidates. Where there are fewer places than clusters, each place is a cluster.

    >>> clusters = k_means(np.array([[0.0], [2.0], [7.0], [9.0]]), 2)
    >>> bool(clusters[0] == clusters[1] != clusters[2] == clusters[3])
    True
    """
    return _clusters(ready(X), n_clusters, seed)


def _clusters(made: Ready, n_clusters: int, seed: int) -> np.ndarray:
    # Around the origin, so that sums of points lose no digits.
    points, (blocks, _, slack, share, factor) = made.centred, made.screen
    clusters: np.ndarray = kernels.k_means(
        points, packed(points), blocks, slack, share, factor, _draws(n_clusters, seed)
    )
    return clusters


@lru_cache(maxsize=8)
def _draws(n_clusters: int, seed: int) -> Floats:
    return np.random.default_rng(seed).random((RESTARTS, n_clusters, 2 + int(log(n_clusters))))


def nmi(one: np.ndarray, other: np.ndarray) -> float:
    """Normalised mutual information of two labellings by whole numbers from 0.

    It is 1 where neither splits the points, and 0 where one of the two does not.

    >>> nmi(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]))
    1.0
    """
    both = one * (int(other.max()) + 1) + other
    entropies = _entropy(one) + _entropy(other)
    return max(0.0, 2 * (1 - _entropy(both) / entropies)) if entropies else 1.0


def _entropy(labels: np.ndarray) -> float:
    counts = [count for count in np.bincount(labels).tolist() if count]
    # The exact sum, so that the same counts have the same entropy in whatever order they come.
    return log(len(labels)) - fsum(count * log(count) for count in counts) / len(labels)
