"""PCA: principal component analysis of points."""

from __future__ import annotations

from dataclasses import dataclass

from ocelad._typing import Floats
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.sklearn_wrappers import UnsupervisedMethod, cap_components, check_n_components, check_spread
from ocelad.metric import Metric


@dataclass(frozen=True)
class Pca(UnsupervisedMethod):
    """Principal component analysis: Euclidean distance in the directions of largest variance.

    Pearson, "On lines and planes of closest fit to systems of points in space", 1901. L has orthonormal rows; with all
    components M is the identity. The labels determine the threshold only. From pairs, the points are both points of all
    pairs.

    Parameters
    ----------
    n_components : int or None
        The number of rows of L, at most the number of features and of points; None: as many as possible.

    Examples
    --------
    >>> Pca(n_components=1).fit_points([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]], [0, 0, 1, 1]).matrix
    array([[1., 0.],
           [0., 0.]])
    """

    n_components: int | None = None

    def __post_init__(self) -> None:
        check_n_components(self.n_components)

    def _fit_metric(self, rows: Floats) -> Metric:
        from sklearn.decomposition import PCA

        check_spread(rows, "PCA")
        # The full solver is deterministic.
        pca = PCA(cap_components(self.n_components, min(rows.shape)), svd_solver="full").fit(rows)
        return batch.metric_from_factors(pca.components_, "PCA")
