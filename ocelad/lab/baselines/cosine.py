"""Cosine distance: Euclidean distance of points scaled to unit length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_array, check_integer
from ocelad.feature_maps import to_unit_length


@dataclass(frozen=True)
class CosineDistance:
    """``|x/|x| - z/|z||^2 = 2 - 2 cos(x, z)``, a squared distance that is no function of the difference ``x - z``.

    A point at the origin stays there.

    Parameters
    ----------
    n_features : int

    Examples
    --------
    >>> CosineDistance(2).squared_distance([[1.0, 0.0]], [[0.0, 5.0]])
    array([2.])
    """

    n_features: int

    def __post_init__(self) -> None:
        check_integer(self.n_features, "n_features", at_least=1)

    @property
    def rank(self) -> int:
        """The number of dimensions of the embedding."""
        return self.n_features

    def embed(self, points: Any) -> Floats:
        """Return the points scaled to unit length."""
        return np.asarray(to_unit_length(check_array(points, "points", 2, n_features=self.n_features)))

    def squared_distance(self, X: Any, Z: Any) -> Floats:
        """Return the squared distances of the rows of X and Z."""
        return np.asarray(np.square(self.embed(X) - self.embed(Z)).sum(axis=1))
