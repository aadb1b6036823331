"""Principal component analysis, of points."""

from __future__ import annotations

from dataclasses import dataclass

from ocelad._typing import Floats
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.from_sklearn import OfAllPoints, check_components, check_spread, no_more_than
from ocelad.metric import Metric


@dataclass(frozen=True)
class Pca(OfAllPoints):
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
        check_components(self.n_components)

    def _of(self, rows: Floats) -> Metric:
        from sklearn.decomposition import PCA

        check_spread(rows, "PCA")
        # svd_solver="full" draws nothing at random.
        pca = PCA(no_more_than(self.n_components, min(rows.shape)), svd_solver="full").fit(rows)
        return batch.of_factors(pca.components_, "PCA")
