"""Built-in items, which need no file."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ocelad._validation import check_choice
from ocelad.service.items.item_scaling import fit_scaling
from ocelad.service.items.picture_folder import pixel_names
from ocelad.service.items.pictures import encode_png, pillow
from ocelad.service.itemset import ItemSet

BUILT_IN = ("digits", "synthetic")
# The factor by which the pictures of digits are enlarged, in each direction.
_ENLARGEMENT = 12


def load_built_in(name: Literal["digits", "synthetic"]) -> ItemSet:
    """Return a built-in set of items.

    "digits": scikit-learn's 1797 pictures of 8 x 8 pixels, with the digit and its parity as fields. "synthetic": the
    2000 points at the start of the paper's stream, with both clusterings as fields.

    >>> load_built_in("synthetic").features.shape
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
        scaling=fit_scaling(X, "all"),
        display="picture",
        pictures=[_enlarge(row) for row in X.reshape(-1, 8, 8)],
        fields={"digit": list(digits), "parity": ["odd" if digit % 2 else "even" for digit in digits]},
    )


def _enlarge(ink: np.ndarray) -> bytes:
    """Return a PNG of black ink on white; the maximum, 16, is black."""
    paper = (255 - np.minimum(ink, 16) * (255 / 16)).round().astype(np.uint8)
    return encode_png(pillow().fromarray(np.kron(paper, np.ones((_ENLARGEMENT, _ENLARGEMENT), dtype=np.uint8))))


def _synthetic() -> ItemSet:
    # Imported here: the process that reads an upload starts in a fifth of the time without it.
    from ocelad.evaluation.streams.drifting_clusters import SUBSPACES, DriftingClusters, Phase

    # Not rotated, so that the first three features separate clustering A and the next three clustering B.
    worlds = {name: next(iter(DriftingClusters([Phase(name, name, 0.0, 1)]))) for name in SUBSPACES}
    X = np.ascontiguousarray(worlds["A"].points())
    return ItemSet(
        ids=tuple(map(str, range(len(X)))),
        features=X,
        feature_names=tuple(f"x{j + 1}" for j in range(X.shape[1])),
        scaling=fit_scaling(X, "all"),
        fields={f"cluster {name}": [int(label) + 1 for label in world.labels] for name, world in worlds.items()},
    )
