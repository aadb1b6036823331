"""Latent semantic analysis of the product reviews, computed once and stored in the user's cache folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import sklearn

from ocelad._typing import Floats
from ocelad.evaluation.streams.reviews import Reviews, load_reviews
from ocelad.evaluation.streams.reviews.download import cache_folder
from ocelad.io.atomic import open_atomically
from ocelad.lab.compare.datasets import require_data_folder


def load_review_lsa(n_components: int, question: str, *, unit_length: bool = True) -> tuple[Floats, np.ndarray]:
    """Return the reviews in the folder ``OCELAD_DATA`` as points, and their classes for a question.

    The components are those of all reviews; no label has an influence. Reviews whose components are all 0 are dropped.

    Parameters
    ----------
    n_components : int
    question : {"type", "sentiment", "both"}
        See ``Reviews.labels``.
    unit_length : bool
        Whether points are scaled to unit length. Before, their lengths differ by about 10 %.
    """
    require_data_folder()
    reviews = load_reviews(source="top5000")
    points = _components(reviews, n_components)
    lengths = np.linalg.norm(points, axis=1)
    rows = lengths > 0
    points = points / np.where(rows, lengths, 1.0)[:, None] if unit_length else points
    return points[rows], reviews.labels(question)[rows]


def _components(reviews: Reviews, n_components: int) -> Floats:
    """Return the components from the cache, or compute and store them."""
    path = _cache_path(reviews, n_components)
    shape = len(reviews), n_components
    points = _read(path, shape)
    if points is None:
        points = _compute(reviews, n_components)
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_atomically(path) as file:
            np.save(file, points, allow_pickle=False)
    return points.astype(np.float64)


def _cache_path(reviews: Reviews, n_components: int) -> Path:
    name = f"{reviews.fingerprint()[:16]}-{n_components}-scikit-learn-{sklearn.__version__}.npy"
    return cache_folder().expanduser() / "review-lsa" / name


def _read(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    """Return the stored components, or None if there are none or the file is damaged."""
    try:
        points: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return points if points.shape == shape and np.isfinite(points).all() else None


def _compute(reviews: Reviews, n_components: int) -> np.ndarray:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer

    weighted = TfidfTransformer(sublinear_tf=True).fit_transform(reviews.counts)
    points: np.ndarray = TruncatedSVD(n_components, random_state=0).fit_transform(weighted)
    return points.astype(np.float32)  # half the file; distances keep seven digits
