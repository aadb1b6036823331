"""How good distances are: votes of nearest neighbours, clusterings, and areas under the ROC curve; compiled."""

from ocelad.scores.clustering import clustering_nmi
from ocelad.scores.neighbors import knn_error, knn_error_by_closeness
from ocelad.scores.ranking import pair_auc
from ocelad.scores.together import knn_error_and_nmi

__all__ = ["clustering_nmi", "knn_error", "knn_error_and_nmi", "knn_error_by_closeness", "pair_auc"]
