"""NCA: neighbourhood components analysis of labelled points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ocelad._validation import check_integer
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.sklearn_wrappers import cap_components, check_n_components, fit_transformer
from ocelad.metric import Metric


@dataclass(frozen=True)
class Nca:
    """Neighbourhood components analysis: the L that maximizes the accuracy of stochastic nearest neighbours.

    Goldberger, Hinton, Roweis and Salakhutdinov, "Neighbourhood components analysis", NIPS 2004::

        maximise  sum over i, j of one class of p_ij,
        p_ij = exp(-|Lx_i - Lx_j|^2) / sum over l != i of exp(-|Lx_i - Lx_l|^2)

    An iteration takes time quadratic in the number of points.

    Parameters
    ----------
    n_components : int or None
        The number of rows of L, at most the number of features; None: the number of features.
    max_iter : int
        The maximum number of iterations.
    seed : int
        The seed of scikit-learn's ``NeighborhoodComponentsAnalysis``, which computes L.

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
        check_n_components(self.n_components)
        check_integer(self.max_iter, "max_iter", at_least=1)
        check_integer(self.seed, "seed", at_least=0, at_most=2**32 - 1)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """Return the metric learned from the rows of X and their labels."""
        from sklearn.neighbors import NeighborhoodComponentsAnalysis

        rows, classes = batch.check_labelled_points(X, labels)
        batch.require_pairable_classes(classes, "NCA")
        nca = NeighborhoodComponentsAnalysis(
            cap_components(self.n_components, rows.shape[1]), max_iter=self.max_iter, random_state=self.seed
        )
        fit_transformer(nca, rows, classes, "NCA")
        return batch.calibrate_on_points(batch.metric_from_factors(nca.components_, "NCA"), rows, classes)
