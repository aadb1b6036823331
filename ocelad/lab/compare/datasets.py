"""Data sets as streams: those of scikit-learn and River, and the product reviews."""

from __future__ import annotations

import os
from functools import cache, partial
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad.evaluation.streams.reviews import (
    PAPER_N_WORDS,
    SwitchingReviews,
    find_review_folder,
    load_reviews,
    load_verified_reviews,
)
from ocelad.lab.compare.block_streams import WordStream
from ocelad.lab.compare.dataset_stream import DatasetStream

# The groupings of the digits, in the order of time: these digits against the others.
DIGIT_GROUPS = {
    "even": (0, 2, 4, 6, 8),
    "below five": (0, 1, 2, 3, 4),
    "with a loop": (0, 4, 6, 8, 9),
    "multiple of three": (0, 3, 6, 9),
    "prime": (2, 3, 5, 7),
    "straight strokes": (1, 4, 7),
}
N_COMPONENTS, N_NOISE = 25, 12


@cache
def wine() -> DatasetStream:
    """Return 178 wines of three growers: 13 standardized measurements, and 12 noise features."""
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    return DatasetStream("wine", "wines, with 12 noise features", X, {"grower": y}, standardize=True, n_noise=N_NOISE)


@cache
def breast_cancer() -> DatasetStream:
    """Return 569 tumours, benign or malignant: 30 standardized measurements."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return DatasetStream("breast cancer", "tumours, benign or malignant", X, {"kind": y}, standardize=True)


@cache
def digits() -> DatasetStream:
    """Return 1797 handwritten digits of ten classes, as 25 principal components."""
    X, y = _load_digits()
    return DatasetStream("digits", "handwritten digits, ten classes", X, {"digit": y}, n_components=N_COMPONENTS)


@cache
def switching_digits() -> DatasetStream:
    """Return the same digits in two groups that change every 500 rounds."""
    X, y = _load_digits()
    groups = {name: np.isin(y, group) for name, group in DIGIT_GROUPS.items()}
    description = "handwritten digits, two groups that change every 500 rounds"
    return DatasetStream("switching digits", description, X, groups, n_components=N_COMPONENTS)


@cache
def phishing() -> DatasetStream:
    """Return River's 1250 web sites, phishing or not, in their order."""
    return _river_stream("Phishing", "web sites, phishing or not, in their order")


@cache
def image_segments() -> DatasetStream:
    """Return River's 2310 image segments of seven classes, in their order."""
    return _river_stream("ImageSegments", "image segments of seven classes, in their order")


@cache
def bananas() -> DatasetStream:
    """Return River's 5300 points in the plane, in two clusters that are not linearly separable, in their order."""
    return _river_stream("Bananas", "points in two banana-shaped clusters, in their order")


@cache
def reviews() -> WordStream:
    """Return the product reviews in the folder ``OCELAD_DATA``, compared by sentiment and then by product type."""
    require_data_folder()
    folder = str(find_review_folder())
    known = load_reviews(folder, n_words=PAPER_N_WORDS).fingerprint()
    description = "product reviews, compared by sentiment and then by product type"
    return WordStream("reviews", description, partial(_reviews, folder, known), origin=known)


def require_data_folder() -> None:
    """Raise FileNotFoundError if OCELAD_DATA is not set."""
    if not os.environ.get("OCELAD_DATA"):
        raise FileNotFoundError("OCELAD_DATA is not set; set it to the folder of the product reviews")


def _reviews(folder: str, fingerprint: str, seed: int) -> SwitchingReviews:
    return SwitchingReviews(load_verified_reviews(folder, fingerprint, PAPER_N_WORDS), seed=seed)


def _load_digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X, y


def _river_stream(name: str, description: str) -> DatasetStream:
    X, classes = load_river(name)
    return DatasetStream(name, description, X, {"class": classes}, standardize=True, in_order=True)


def load_river(name: str) -> tuple[Floats, Any]:
    """Return the points and classes of a data set of River, in its order."""
    try:
        from river import datasets
    except ImportError:
        raise ImportError("this data set needs River: pip install 'ocelad[river]'") from None
    rows = list(getattr(datasets, name)())
    X = np.array([list(features.values()) for features, _ in rows], dtype=float)
    return X, np.array([str(label) for _, label in rows])
