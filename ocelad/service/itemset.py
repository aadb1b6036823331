"""The items of a project: features, scaling, texts, pictures and other columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

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


@dataclass(frozen=True)
class ItemSet:
    """Items in a fixed order; the log refers to an item by its position.

    Attributes
    ----------
    ids : tuple of str
        Unique; 1 to 200 characters.
    features : float64 array of shape (n_items, n_features)
        Finite, in their own units.
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
    features: Floats
    feature_names: tuple[str, ...]
    scaling: Scaling
    display: Display = "features"
    text: Sequence[str] | None = None
    pictures: Sequence[bytes] | None = None
    fields: dict[str, list[FieldValue]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def points(self) -> Floats:
        """The scaled features, on which the metric is learned."""
        return np.asarray(self.features * self.scaling.factors)

    def metadata(self) -> dict[str, Any]:
        """Return what all items share, as JSON types; the keys are those of the database."""
        return {
            "feature_names": list(self.feature_names),
            "scaling": {"kind": self.scaling.kind, "factors": self.scaling.factors.tolist()},
            "shown": self.display,
            "fields": list(self.fields),
        }
