"""The items of a project: features, scaling, texts, pictures and other columns."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats

Display: TypeAlias = Literal["picture", "text", "features"]
FieldValue: TypeAlias = str | float | int | bool | None
SourceRole: TypeAlias = Literal["id", "text", "picture"]


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
        What an item has to show: a picture, otherwise a text, otherwise only features.
    text : sequence of str, or None
        One text per item if the items have texts.
    pictures : sequence of bytes, or None
        One PNG per item if the items have pictures; empty for an item without one.
    full_pictures : sequence of bytes, or None
        The pictures in their own size, up to a limit; empty where that is the size of ``pictures``.
    fields : dict of str to list
        All further columns by name, one value per item. They can be displayed and can colour the map, but are not
        learned from.
    source_columns : dict
        The columns of the file that the ids, texts and pictures come from, by "id", "text" and "picture".
    has_picture : array of bool, or None
        Whether each item has a picture; None: all have one if any has.
    notes : tuple of str
        What a user should know about the file that the items were read from; not stored.
    """

    ids: tuple[str, ...]
    features: npt.NDArray[Any]
    feature_names: tuple[str, ...]
    scaling: Scaling
    display: Display = "features"
    text: Sequence[str] | None = None
    pictures: Sequence[bytes] | None = None
    fields: dict[str, list[FieldValue]] = field(default_factory=dict)
    full_pictures: Sequence[bytes] | None = None
    source_columns: dict[SourceRole, str] = field(default_factory=dict)
    has_picture: npt.NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()

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
        shared: dict[str, Any] = {
            "feature_names": list(self.feature_names),
            "scaling": {"kind": self.scaling.kind, "factors": self.scaling.factors.tolist()},
            "shown": self.display,
            "fields": list(self.fields),
        }
        # Keys that earlier versions do not store are left out where they say nothing.
        if self.is_single:
            shared["dtype"] = "float32"
        if self.source_columns:
            shared["columns"] = dict(self.source_columns)
        if self.text is not None and self.display != "text":
            shared["has_text"] = True
        if self.has_picture is not None:
            shared["has_picture"] = b64encode(np.packbits(self.has_picture).tobytes()).decode()
        return shared

    @staticmethod
    def unpack_has_picture(metadata: Mapping[str, Any], n_items: int) -> npt.NDArray[np.bool_] | None:
        """Return ``has_picture`` as ``metadata`` stores it."""
        packed = metadata.get("has_picture")
        if packed is None:
            return None
        return np.unpackbits(np.frombuffer(b64decode(packed), np.uint8), count=n_items).astype(np.bool_)
