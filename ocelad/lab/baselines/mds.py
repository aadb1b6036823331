"""MDS: multidimensional scaling of points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.sklearn_wrappers import UnsupervisedMethod, check_spread
from ocelad.metric import Metric


@dataclass(frozen=True)
class Mds(UnsupervisedMethod):
    """Multidimensional scaling: few coordinates that best preserve the Euclidean distances of the points.

    Kruskal, "Multidimensional scaling by optimizing goodness of fit", 1964: coordinates c that minimise the stress
    ``sum over i < j of (|x_i - x_j| - |c_i - c_j|)^2``, by scikit-learn's ``smacof``, started from classical scaling.

    Multidimensional scaling does not apply to new points. The metric is therefore that of the linear map L from
    features to coordinates with the least squared error on the fitted points. The labels determine the threshold only.
    From pairs, the points are both points of all pairs.

    Parameters
    ----------
    n_components : int
        The number of coordinates, at most the number of features.
    max_iter : int
        The maximum number of iterations.
    max_points : int
        The maximum number of points; a random subset of more points is used. An iteration takes time quadratic in it.
    seed : int
        The seed of the random subset.

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
        check_integer(self.n_components, "n_components", at_least=1)
        check_integer(self.max_iter, "max_iter", at_least=1)
        check_integer(self.max_points, "max_points", at_least=2)
        check_integer(self.seed, "seed", at_least=0)

    def _fit_metric(self, rows: Floats) -> Metric:
        from sklearn.manifold import smacof
        from sklearn.metrics import pairwise_distances

        check_spread(rows, "MDS")
        if len(rows) > self.max_points:
            rows = rows[np.random.default_rng(self.seed).choice(len(rows), self.max_points, replace=False)]
            check_spread(rows, "MDS")
        centred = rows - rows.mean(axis=0)
        count = min(self.n_components, *rows.shape)
        left, roots, _ = np.linalg.svd(centred, full_matrices=False)
        classical = left[:, :count] * roots[:count]
        coordinates, _ = smacof(pairwise_distances(centred), init=classical, n_init=1, max_iter=self.max_iter)
        L, *_ = np.linalg.lstsq(centred, coordinates - coordinates.mean(axis=0))
        return batch.metric_from_factors(L.T, "MDS")
