"""How good distances are: votes of nearest neighbours, clusterings, and areas under the ROC curve; compiled."""

from ocelad.evaluation.scores.clustering import clustering_nmi
from ocelad.evaluation.scores.neighbors import knn_error, knn_error_by_closeness
from ocelad.evaluation.scores.ranking import pair_auc
from ocelad.evaluation.scores.together import knn_error_and_nmi

__all__ = ["clustering_nmi", "knn_error", "knn_error_and_nmi", "knn_error_by_closeness", "pair_auc"]
