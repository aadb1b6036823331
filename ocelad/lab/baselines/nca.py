"""Neighbourhood components analysis, of labelled points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ocelad._validation import check_integer
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.from_sklearn import check_components, fit, no_more_than
from ocelad.metric import Metric


@dataclass(frozen=True)
class Nca:
    """Neighbourhood components analysis: the L by which random neighbours are most often of the right class.

    Goldberger, Hinton, Roweis and Salakhutdinov, "Neighbourhood components analysis", NIPS 2004::

        maximise  sum over i, j of one class of p_ij,
        p_ij = exp(-|Lx_i - Lx_j|^2) / sum over l != i of exp(-|Lx_i - Lx_l|^2)

    Every iteration takes time with the square of the number of points.

    Parameters
    ----------
    n_components : int or None
        Rows of L; None, or more than there are: as many as features.
    max_iter : int
        At most so many iterations.
    seed : int
        Of scikit-learn's ``NeighborhoodComponentsAnalysis``, which does it.

    Examples
    --------
    >>> X = [[0.0, 0.0], [0.0, 4.0], [1.0, 1.0], [1.0, 5.0]]
    >>> metric = Nca().fit_points(X, ["a", "a", "b", "b"])
    >>> bool(metric.distance(X[0], X[1]) < metric.distance(X[0], X[2]))
    True
    """

    n_components: int | None = None
    max_iter: int = 50
    seed: int = 0

    def __post_init__(self) -> None:
        check_components(self.n_components)
        check_integer(self.max_iter, "max_iter", at_least=1)
        check_integer(self.seed, "seed", at_least=0, at_most=2**32 - 1)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric learned from the rows of X and one label each."""
        from sklearn.neighbors import NeighborhoodComponentsAnalysis

        rows, classes = batch.labelled(X, labels)
        batch.both_alike_and_not(classes, "NCA")
        nca = NeighborhoodComponentsAnalysis(
            no_more_than(self.n_components, rows.shape[1]), max_iter=self.max_iter, random_state=self.seed
        )
        fit(nca, rows, classes, "NCA")
        return batch.of_points(batch.of_factors(nca.components_, "NCA"), rows, classes)
