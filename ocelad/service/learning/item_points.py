"""Cloud: the points of all items, and what of them does not depend on the metric."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.service.itemset import ItemSet

Singles = npt.NDArray[np.float32]

# Up to so many features there is a matrix of their covariances; above, some of the points stand for it.
_MATRIX_TO = 1000
_SOME = 2000
# So many points are enough for covariances.
_MANY = 20_000


class ItemPoints:
    """Points as they are learned from, and in single precision as they are searched and drawn. Immutable.

    Attributes
    ----------
    items : ItemSet
    points : array of shape (n_items, n_features)
        The scaled features, as they are learned from.
    singles : float32 array of shape (n_items, n_features)
        The points around their middle, all divided by one number so that the largest entry is 1.
    lengths : float32 array of shape (n_items,)
        Their Euclidean lengths.
    variances : array of shape (n_features,)
        Of their features.
    """

    def __init__(self, items: ItemSet) -> None:
        self.items = items
        self.points = np.ascontiguousarray(items.points)
        centred = self.points - self.points.mean(axis=0)
        # Nothing of what is computed with them overflows, or vanishes, whatever the data's units are.
        centred /= float(np.abs(centred).max(initial=0.0)) or 1.0
        self.singles: Singles = centred.astype(np.float32)
        self.lengths: Singles = np.sqrt(np.einsum("ij,ij->i", self.singles, self.singles))
        self.variances = np.einsum("ij,ij->j", centred, centred) / max(len(centred), 1)
        step = -(-len(centred) // (_MANY if centred.shape[1] <= _MATRIX_TO else _SOME))
        self._some = centred[:: max(step, 1)]
        self._covariance: Floats | None = None
        if centred.shape[1] <= _MATRIX_TO:
            self._covariance = self._some.T @ self._some / len(self._some)
            self._some = self._some[:0]

    @property
    def n_features(self) -> int:
        """How many features the points have."""
        return int(self.points.shape[1])

    def spread(self, directions: Floats) -> Floats:
        """The matrix of covariances times some directions, the columns of an array."""
        if self._covariance is not None:
            return np.asarray(self._covariance @ directions)
        return np.asarray(self._some.T @ (self._some @ directions) / len(self._some))

    def digest(self, n_items: int) -> str:
        """Of the first so many points: another one where any of them is another."""
        if n_items == len(self.points):
            return self._whole_digest
        return _digest(self.points[:n_items])

    @cached_property
    def _whole_digest(self) -> str:
        return _digest(self.points)


def _digest(points: Any) -> str:
    return sha256(points.data).hexdigest() if points.size else ""
