"""Ahead-of-time compilation of the kernels of the scores."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ocelad.evaluation.scores.clustering import clustering_nmi
from ocelad.evaluation.scores.kernels.nearest_neighbors import MAX_SCREENED_NEIGHBORS
from ocelad.evaluation.scores.knn import knn_error, knn_error_from_similarity
from ocelad.evaluation.scores.sparse_knn import sparse_knn_error


def precompile_scores() -> None:
    """Compile every kernel of the scores, or load it from the cache on disk."""
    points, labels = np.eye(MAX_SCREENED_NEIGHBORS + 2), [0, 1] * (MAX_SCREENED_NEIGHBORS // 2 + 1)
    for k in (1, MAX_SCREENED_NEIGHBORS + 1):
        knn_error(points, labels, k)
    knn_error_from_similarity(points, labels, 1)
    sparse_knn_error(csr_array(points), labels, 1)
    clustering_nmi(points, labels)
