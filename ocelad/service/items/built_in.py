"""Items that need no file."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ocelad._validation import check_choice
from ocelad.evaluation.streams.drifting_clusters import SUBSPACES, DriftingClusters, Phase
from ocelad.service.items.picture_files import pixel_names
from ocelad.service.items.pictures import pillow, png
from ocelad.service.items.scaling import scaled
from ocelad.service.itemset import ItemSet

BUILT_IN = ("digits", "synthetic")
# How many pixels a pixel of a digit is shown as, each way.
_ENLARGED = 12


def built_in(name: Literal["digits", "synthetic"]) -> ItemSet:
    """Items by name.

    "digits" are scikit-learn's 1797 pictures of 8 x 8 pixels, with the digit and its parity as fields; "synthetic" is
    the cloud of 2000 points in which the paper's stream begins, with both of its clusterings as fields.

    >>> built_in("synthetic").features.shape
    (2000, 25)
    """
    check_choice(name, "name", BUILT_IN)
    return _digits() if name == "digits" else _synthetic()


def _digits() -> ItemSet:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    X = np.asarray(bunch.data, dtype=np.float64)
    digits = [int(digit) for digit in bunch.target]
    return ItemSet(
        ids=tuple(map(str, range(len(X)))),
        features=X,
        feature_names=pixel_names(8, 8),
        scaling=scaled(X, "all"),
        shown="picture",
        pictures=[_enlarged(row) for row in X.reshape(-1, 8, 8)],
        fields={"digit": list(digits), "parity": ["odd" if digit % 2 else "even" for digit in digits]},
    )


def _enlarged(ink: np.ndarray) -> bytes:
    """Black ink on white: 16 is the blackest there is."""
    paper = (255 - np.minimum(ink, 16) * (255 / 16)).round().astype(np.uint8)
    return png(pillow().fromarray(np.kron(paper, np.ones((_ENLARGED, _ENLARGED), dtype=np.uint8))))


def _synthetic() -> ItemSet:
    # Not turned: the first three features show cluster A, the next three cluster B, and who looks can see which.
    worlds = {name: next(iter(DriftingClusters([Phase(name, name, 0.0, 1)]))) for name in SUBSPACES}
    X = np.ascontiguousarray(worlds["A"].points())
    return ItemSet(
        ids=tuple(map(str, range(len(X)))),
        features=X,
        feature_names=tuple(f"x{j + 1}" for j in range(X.shape[1])),
        scaling=scaled(X, "all"),
        fields={f"cluster {name}": [int(label) + 1 for label in world.labels] for name, world in worlds.items()},
    )
