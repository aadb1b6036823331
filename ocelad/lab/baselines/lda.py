"""Linear discriminant analysis, of labelled points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ocelad.lab.baselines import batch
from ocelad.lab.baselines.from_sklearn import check_components, fit, no_more_than
from ocelad.metric import Metric


@dataclass(frozen=True)
class Lda:
    """Linear discriminant analysis: the directions that tell the classes apart, in units of the spread within a class.

    Fisher, "The use of multiple measurements in taxonomic problems", 1936; Rao for more classes, 1948. L are the
    eigenvectors of ``inv(W) B`` with the largest eigenvalues, W the covariance within classes and B that between their
    means, scaled such that ``L W L' = I``. M has at most the rank (classes - 1).

    Parameters
    ----------
    n_components : int or None
        Rows of L; None, or more than there are: all.

    Examples
    --------
    >>> X = [[0.0, 0.0], [0.0, 4.0], [1.0, 0.0], [1.0, 4.0], [3.0, 1.0], [3.0, 5.0], [4.0, 1.0], [4.0, 5.0]]
    >>> metric = Lda().fit_points(X, list("aaaabbbb"))
    >>> metric.rank, bool(metric.distance(X[0], X[1]) < metric.distance(X[0], X[4]))
    (1, True)
    """

    n_components: int | None = None

    def __post_init__(self) -> None:
        check_components(self.n_components)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric learned from the rows of X and one label each."""
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        rows, classes = batch.labelled(X, labels)
        batch.both_alike_and_not(classes, "LDA")
        n_classes = int(classes.max()) + 1
        count = no_more_than(self.n_components, min(n_classes - 1, rows.shape[1]))
        lda = LinearDiscriminantAnalysis(n_components=count)
        fit(lda, rows, classes, "LDA")
        return batch.of_points(batch.of_factors(lda.scalings_[:, :count].T, "LDA"), rows, classes)
