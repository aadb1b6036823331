"""Multidimensional scaling, of points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.from_sklearn import OfAllPoints, check_spread
from ocelad.metric import Metric


@dataclass(frozen=True)
class Mds(OfAllPoints):
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
        check_integer(self.n_components, "n_components", at_least=1)
        check_integer(self.max_iter, "max_iter", at_least=1)
        check_integer(self.max_points, "max_points", at_least=2)
        check_integer(self.seed, "seed", at_least=0)

    def _of(self, rows: Floats) -> Metric:
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
        return batch.of_factors(L.T, "MDS")
