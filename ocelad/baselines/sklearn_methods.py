"""The methods that scikit-learn has, each as a metric: NCA, LDA, PCA and MDS.

All give rows L with ``M = L'L``: a distance by the metric is the Euclidean one of the points that scikit-learn
would transform the points to. None is written again here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ocelad import checks
from ocelad.baselines import batch
from ocelad.baselines.batch import FitError, Whole
from ocelad.checks import Floats
from ocelad.metric import Metric
from ocelad.pairs import subtract

# Differences below this are none: their squares are near the end of float64.
_TINY = 1e-140


def _check_components(n_components: int | None) -> None:
    if n_components is not None:
        checks.whole(n_components, "n_components", at_least=1)


def _no_more_than(n_components: int | None, most: int) -> int:
    return most if n_components is None else min(n_components, most)


def _fit(transformer: Any, rows: Floats, classes: Whole, method: str) -> None:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # told by of_factors instead
        try:
            transformer.fit(rows - rows.mean(axis=0), classes)
        except (ValueError, IndexError) as error:  # what comes of classes without any spread; NCA may start from LDA
            raise FitError(f"the points within the classes do not differ; {method} needs some that do") from error


@dataclass(frozen=True)
class Nca:
    """Neighbourhood components analysis: the L by which random neighbours are most often of the right class.

    Goldberger, Hinton, Roweis and Salakhutdinov, "Neighbourhood components analysis", NIPS 2004:

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
        _check_components(self.n_components)
        checks.whole(self.max_iter, "max_iter", at_least=1)
        checks.whole(self.seed, "seed", at_least=0, at_most=2**32 - 1)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric learned from the rows of X and one label each."""
        from sklearn.neighbors import NeighborhoodComponentsAnalysis

        rows, classes = batch.labelled(X, labels)
        batch.both_alike_and_not(classes, "NCA")
        nca = NeighborhoodComponentsAnalysis(
            _no_more_than(self.n_components, rows.shape[1]), max_iter=self.max_iter, random_state=self.seed
        )
        _fit(nca, rows, classes, "NCA")
        return batch.of_points(batch.of_factors(nca.components_, "NCA"), rows, classes)


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
        _check_components(self.n_components)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric learned from the rows of X and one label each."""
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        rows, classes = batch.labelled(X, labels)
        batch.both_alike_and_not(classes, "LDA")
        n_classes = int(classes.max()) + 1
        count = _no_more_than(self.n_components, min(n_classes - 1, rows.shape[1]))
        lda = LinearDiscriminantAnalysis(n_components=count)
        _fit(lda, rows, classes, "LDA")
        return batch.of_points(batch.of_factors(lda.scalings_[:, :count].T, "LDA"), rows, classes)


@dataclass(frozen=True)
class Pca:
    """Principal component analysis: Euclidean distance in the directions in which the points spread most.

    Pearson, "On lines and planes of closest fit to systems of points in space", 1901. L has orthonormal rows; with all
    of them M is the identity. Labels, or which pairs are similar, only choose the threshold. From pairs the points are
    both ends of all pairs.

    Parameters
    ----------
    n_components : int or None
        Rows of L; None, or more than there are: as many as features, or points.

    Examples
    --------
    >>> Pca(n_components=1).fit_points([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]], [0, 0, 1, 1]).matrix
    array([[1., 0.],
           [0., 0.]])
    """

    n_components: int | None = None

    def __post_init__(self) -> None:
        _check_components(self.n_components)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric of the points."""
        rows, classes = batch.labelled(X, labels)
        return batch.of_points(self._of(rows), rows, classes)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """The metric of all points in the pairs."""
        rows, others, kinds = batch.paired(X, Z, y)
        return batch.of_pairs(self._of(np.concatenate([rows, others])), subtract(rows, others), kinds)

    def _of(self, rows: Floats) -> Metric:
        from sklearn.decomposition import PCA

        _check_spread(rows, "PCA")
        # svd_solver="full" draws nothing at random.
        pca = PCA(_no_more_than(self.n_components, min(rows.shape)), svd_solver="full").fit(rows)
        return batch.of_factors(pca.components_, "PCA")


@dataclass(frozen=True)
class Mds:
    """Multidimensional scaling: few coordinates in which the points' Euclidean distances are kept as well as can be.

    Kruskal, "Multidimensional scaling by optimizing goodness of fit", 1964: coordinates c that minimise the stress
    ``sum over i < j of (|x_i - x_j| - |c_i - c_j|)^2``, by scikit-learn's ``smacof``, from those of classical scaling.

    It says nothing of new points. It becomes a metric by the linear map L from features to coordinates that has the
    least squared error on the points it was fitted to. Labels, or which pairs are similar, only choose the threshold.
    From pairs the points are both ends of all pairs.

    Parameters
    ----------
    n_components : int
        How many coordinates; as many as features, where that is less.
    max_iter : int
        At most so many iterations.
    max_points : int
        Of more points so many are drawn; each iteration takes time with their square.
    seed : int
        Of that draw.

    Examples
    --------
    >>> metric = Mds(n_components=1).fit_points([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]], [0, 0, 1])
    >>> round(metric.distance([0.0, 0.0], [6.0, 8.0]), 6)
    10.0
    """

    n_components: int = 2
    max_iter: int = 300
    max_points: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        checks.whole(self.n_components, "n_components", at_least=1)
        checks.whole(self.max_iter, "max_iter", at_least=1)
        checks.whole(self.max_points, "max_points", at_least=2)
        checks.whole(self.seed, "seed", at_least=0)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric of the points."""
        rows, classes = batch.labelled(X, labels)
        return batch.of_points(self._of(rows), rows, classes)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """The metric of all points in the pairs."""
        rows, others, kinds = batch.paired(X, Z, y)
        return batch.of_pairs(self._of(np.concatenate([rows, others])), subtract(rows, others), kinds)

    def _of(self, rows: Floats) -> Metric:
        from sklearn.manifold import smacof
        from sklearn.metrics import pairwise_distances

        _check_spread(rows, "MDS")
        if len(rows) > self.max_points:
            rows = rows[np.random.default_rng(self.seed).choice(len(rows), self.max_points, replace=False)]
            _check_spread(rows, "MDS")
        centred = rows - rows.mean(axis=0)
        count = min(self.n_components, *rows.shape)
        left, roots, _ = np.linalg.svd(centred, full_matrices=False)
        classical = left[:, :count] * roots[:count]
        coordinates, _ = smacof(pairwise_distances(centred), init=classical, n_init=1, max_iter=self.max_iter)
        L, *_ = np.linalg.lstsq(centred, coordinates - coordinates.mean(axis=0))
        return batch.of_factors(L.T, "MDS")


def _check_spread(rows: Floats, method: str) -> None:
    if np.ptp(rows, axis=0).max() < _TINY:
        raise FitError(f"{method} needs points that differ; got {len(rows)} in one place")
