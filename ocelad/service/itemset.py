"""The items of a project: features, scaling, texts, pictures and other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats

Display: TypeAlias = Literal["picture", "text", "features"]
FieldValue: TypeAlias = str | float | int | bool | None


@dataclass(frozen=True)
class Scaling:
    """Factors that the features are multiplied by before learning, so that one step size suits any data.

    Only differences of points are learned from, so that centering would have no effect. The factors are fixed when the
    project is created; later items are scaled by the same factors.

    Attributes
    ----------
    kind : {"features", "all", "none"}
        One factor per feature (tables), one factor for all features (pictures), or no scaling.
    factors : array of shape (n_features,)
    """

    kind: Literal["features", "all", "none"]
    factors: Floats


class ScaledPoints:
    """The scaled features of items, on which the metric is learned: ``features * factors``, in float64.

    Rows are computed when they are asked for, so that a million vectors need not be in memory twice.

    >>> points = ScaledPoints(np.array([[1, 2], [3, 4]], dtype=np.float32), np.array([0.5, 2.0]))
    >>> points.shape, points[1], points[[0, 0]]
    ((2, 2), array([1.5, 8. ]), array([[0.5, 4. ],
           [0.5, 4. ]]))
    """

    def __init__(self, features: npt.NDArray[Any], factors: Floats) -> None:
        self._features, self._factors = features, factors

    def __len__(self) -> int:
        return len(self._features)

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of items and of features."""
        return self._features.shape

    @property
    def is_single(self) -> bool:
        """Whether the features are in single precision."""
        return bool(self._features.dtype == np.float32)

    def __getitem__(self, rows: Any) -> Floats:
        """Return the points of some items: a position, a slice, or an array of positions."""
        return np.asarray(self._features[rows], dtype=np.float64) * self._factors

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.asarray(self[:], dtype=dtype)


@dataclass(frozen=True)
class ItemSet:
    """Items in a fixed order; the log refers to an item by its position.

    Attributes
    ----------
    ids : tuple of str
        Unique; 1 to 200 characters.
    features : float64 or float32 array of shape (n_items, n_features)
        Finite, in their own units. Vectors in float32 stay so, and are mapped into memory once they are stored.
    feature_names : tuple of str
    scaling : Scaling
    display : {"picture", "text", "features"}
        How an item is displayed.
    text : sequence of str, or None
        One text per item if texts are displayed.
    pictures : sequence of bytes, or None
        One PNG per item if pictures are displayed.
    fields : dict of str to list
        Further columns by name, one value per item. They are displayed and can colour the map, but are not learned
        from.
    """

    ids: tuple[str, ...]
    features: npt.NDArray[Any]
    feature_names: tuple[str, ...]
    scaling: Scaling
    display: Display = "features"
    text: Sequence[str] | None = None
    pictures: Sequence[bytes] | None = None
    fields: dict[str, list[FieldValue]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def points(self) -> ScaledPoints:
        """The scaled features, on which the metric is learned."""
        return ScaledPoints(self.features, self.scaling.factors)

    @property
    def is_single(self) -> bool:
        """Whether the features are vectors in single precision."""
        return self.points.is_single

    def metadata(self) -> dict[str, Any]:
        """Return what all items share, as JSON types; the keys are those of the database."""
        shared = {
            "feature_names": list(self.feature_names),
            "scaling": {"kind": self.scaling.kind, "factors": self.scaling.factors.tolist()},
            "shown": self.display,
            "fields": list(self.fields),
        }
        return {**shared, "dtype": "float32"} if self.is_single else shared
