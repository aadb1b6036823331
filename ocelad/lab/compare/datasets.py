"""Data sets as streams to compare methods on: those of scikit-learn and of River, and reviews from a folder."""

from __future__ import annotations

import os
from functools import cache, partial
from typing import Any

import numpy as np

from ocelad.evaluation.streams.reviews import PAPER_WORDS, SwitchingReviews, find_reviews, load_reviews, reviews_known
from ocelad.lab.compare.comparison_streams import WordStream
from ocelad.lab.compare.point_streams import TableStream

# Which digits go together, one grouping after the other; the rest are the other group.
DIGIT_GROUPS = {
    "even": (0, 2, 4, 6, 8),
    "below five": (0, 1, 2, 3, 4),
    "with a loop": (0, 4, 6, 8, 9),
    "multiple of three": (0, 3, 6, 9),
    "prime": (2, 3, 5, 7),
    "of straight strokes": (1, 4, 7),
}
N_COMPONENTS, N_NOISE = 25, 12


@cache
def wine() -> TableStream:
    """178 wines of three growers: 13 measurements, standardised, and 12 features of noise."""
    from sklearn.datasets import load_wine

    X, y = load_wine(return_X_y=True)
    return TableStream("wine", "wines and 12 features of noise", X, {"grower": y}, standardised=True, n_noise=N_NOISE)


@cache
def breast_cancer() -> TableStream:
    """569 tumours, benign or not: 30 measurements, standardised."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return TableStream("breast cancer", "tumours, benign or not", X, {"kind": y}, standardised=True)


@cache
def digits() -> TableStream:
    """1797 written digits, by 25 principal components: which of ten."""
    X, y = _digits()
    return TableStream("digits", "written digits, which of ten", X, {"digit": y}, n_components=N_COMPONENTS)


@cache
def switching_digits() -> TableStream:
    """The same digits; every 500 rounds they are grouped otherwise."""
    X, y = _digits()
    groups = {name: np.isin(y, group) for name, group in DIGIT_GROUPS.items()}
    metadata = "written digits, grouped otherwise every 500 rounds"
    return TableStream("switching digits", metadata, X, groups, n_components=N_COMPONENTS)


@cache
def phishing() -> TableStream:
    """River's 1250 web sites, honest or not, in their order."""
    return _of_river("Phishing", "web sites, honest or not, in their order")


@cache
def image_segments() -> TableStream:
    """River's 2310 parts of pictures, of seven kinds, in their order."""
    return _of_river("ImageSegments", "parts of pictures of seven kinds, in their order")


@cache
def bananas() -> TableStream:
    """River's 5300 points in the plane, in two shapes that no straight line parts, in their order."""
    return _of_river("Bananas", "points in two bent shapes, in their order")


@cache
def reviews() -> WordStream:
    """Product reviews from the folder that OCELAD_DATA names: by their sentiment, then by the type of the product."""
    if not os.environ.get("OCELAD_DATA"):
        raise FileNotFoundError("the environment variable OCELAD_DATA does not name the folder of the product reviews")
    folder = str(find_reviews())
    known = load_reviews(folder, n_words=PAPER_WORDS).fingerprint()
    metadata = "product reviews, by their sentiment and then by their type"
    return WordStream("reviews", metadata, partial(_reviews, folder, known), origin=known)


def _reviews(folder: str, fingerprint: str, seed: int) -> SwitchingReviews:
    return SwitchingReviews(reviews_known(folder, fingerprint, PAPER_WORDS), seed=seed)


def _digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X, y


def _of_river(name: str, metadata: str) -> TableStream:
    try:
        from river import datasets
    except ImportError:
        raise ImportError("it comes with River: pip install 'ocelad[river]'") from None
    rows = list(getattr(datasets, name)())
    X = np.array([list(features.values()) for features, _ in rows], dtype=float)
    classes = np.array([str(label) for _, label in rows])
    return TableStream(name, metadata, X, {"class": classes}, standardised=True, in_order=True)
