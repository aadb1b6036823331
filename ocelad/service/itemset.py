"""ItemSet: the items of a project, as they are learned from and as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from ocelad._typing import Floats

Shown: TypeAlias = Literal["picture", "text", "features"]
Field: TypeAlias = str | float | int | bool | None


@dataclass(frozen=True)
class Scaling:
    """What features are multiplied by before anything is learned, so that one step size suits any data.

    Differences of points are all that is learned from, so that no centre is taken off. Fixed when the project is made:
    items that come later are scaled by the same numbers.

    Attributes
    ----------
    kind : {"features", "all", "none"}
        Whether each feature has a factor of its own (tables), or all have one (pictures), or none.
    factors : array of shape (n_features,)
    """

    kind: Literal["features", "all", "none"]
    factors: Floats


@dataclass(frozen=True)
class ItemSet:
    """Items in a fixed order; an item's position in it is what the log names.

    Attributes
    ----------
    ids : tuple of str
        Each once; 1 to 200 characters.
    features : float64 array of shape (n_items, n_features)
        As they came, in their own units; finite.
    feature_names : tuple of str
    scaling : Scaling
    shown : {"picture", "text", "features"}
        What a person is shown of an item.
    text : sequence of str, or None
        One text per item, where texts are shown.
    pictures : sequence of bytes, or None
        One PNG per item, where pictures are shown.
    fields : dict of str to list
        More columns of the data, by name, one value per item: what the page colours by and tells of an item. They are
        not learned from.
    """

    ids: tuple[str, ...]
    features: Floats
    feature_names: tuple[str, ...]
    scaling: Scaling
    shown: Shown = "features"
    text: Sequence[str] | None = None
    pictures: Sequence[bytes] | None = None
    fields: dict[str, list[Field]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def points(self) -> Floats:
        """The scaled features, which the metric is learned on."""
        return np.asarray(self.features * self.scaling.factors)

    def metadata(self) -> dict[str, Any]:
        """What is the same for all items, as JSON can hold it."""
        return {
            "feature_names": list(self.feature_names),
            "scaling": {"kind": self.scaling.kind, "factors": self.scaling.factors.tolist()},
            "shown": self.shown,
            "fields": list(self.fields),
        }
