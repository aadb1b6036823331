"""Scores of distances, compiled: k-NN error, NMI of k-means clusters, and area under the ROC curve of pairs."""

from ocelad.evaluation.scores.clustering import clustering_nmi
from ocelad.evaluation.scores.combined import knn_error_and_nmi
from ocelad.evaluation.scores.knn import knn_error, knn_error_from_similarity
from ocelad.evaluation.scores.ranking import pair_auc

__all__ = ["clustering_nmi", "knn_error", "knn_error_and_nmi", "knn_error_from_similarity", "pair_auc"]
