"""Compile the kernels of the scores ahead of their use."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ocelad.evaluation.scores.clustering import clustering_nmi
from ocelad.evaluation.scores.kernels.neighbors import FEW
from ocelad.evaluation.scores.neighbors import knn_error, knn_error_by_closeness
from ocelad.evaluation.scores.sparse import sparse_knn_error


def precompile_scores() -> None:
    """Compile every kernel of the scores, or load it from the disk."""
    points, labels = np.eye(FEW + 2), [0, 1] * (FEW // 2 + 1)
    for k in (1, FEW + 1):
        knn_error(points, labels, k)
    knn_error_by_closeness(points, labels, 1)
    sparse_knn_error(csr_array(points), labels, 1)
    clustering_nmi(points, labels)
