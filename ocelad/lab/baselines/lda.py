"""LDA: linear discriminant analysis of labelled points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ocelad.lab.baselines import batch
from ocelad.lab.baselines.sklearn_wrappers import cap_components, check_n_components, fit_transformer
from ocelad.metric import Metric


@dataclass(frozen=True)
class Lda:
    """Linear discriminant analysis: the directions that separate the classes, relative to the spread within them.

    Fisher, "The use of multiple measurements in taxonomic problems", 1936; Rao, 1948, for more than two classes. L are
    the eigenvectors of ``inv(W) B`` with the largest eigenvalues, where W is the covariance within the classes and B
    that of their means, scaled such that ``L W L' = I``. The rank of M is at most (classes - 1).

    Parameters
    ----------
    n_components : int or None
        The number of rows of L, at most (classes - 1); None: as many as possible.

    Examples
    --------
    >>> X = [[0.0, 0.0], [0.0, 4.0], [1.0, 0.0], [1.0, 4.0], [3.0, 1.0], [3.0, 5.0], [4.0, 1.0], [4.0, 5.0]]
    >>> metric = Lda().fit_points(X, list("aaaabbbb"))
    >>> metric.rank, bool(metric.distance(X[0], X[1]) < metric.distance(X[0], X[4]))
    (1, True)
    """

    n_components: int | None = None

    def __post_init__(self) -> None:
        check_n_components(self.n_components)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """Return the metric learned from the rows of X and their labels."""
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        rows, classes = batch.check_labelled_points(X, labels)
        batch.require_pairable_classes(classes, "LDA")
        n_classes = int(classes.max()) + 1
        count = cap_components(self.n_components, min(n_classes - 1, rows.shape[1]))
        lda = LinearDiscriminantAnalysis(n_components=count)
        fit_transformer(lda, rows, classes, "LDA")
        return batch.calibrate_on_points(batch.metric_from_factors(lda.scalings_[:, :count].T, "LDA"), rows, classes)
