"""Random pairs of labelled points."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer

Rows: TypeAlias = npt.NDArray[np.int64]


def draw_pairs(
    labels: npt.ArrayLike, n_pairs: int, seed: int = 0, *, rows: npt.ArrayLike | None = None, balanced: bool = False
) -> tuple[Rows, Rows, Floats]:
    """Draw pairs of different points at random, with replacement, and compare their labels.

    Parameters
    ----------
    labels : array-like of shape (n_points,)
        The class of each point.
    n_pairs : int
        The number of pairs.
    seed : int
        Seed of the random generator. The same seed gives the same pairs.
    rows : array-like of int, or None
        Indices of the points to pair, each at most once. None: all points. They must cover two classes or more.
    balanced : bool
        False: all ordered pairs of different points are equally likely. True: the first point is uniform, a fair coin
        decides whether the pair is similar, and the second point is uniform among the points that match this
        decision. The share of similar pairs is then 1/2 in expectation. The only point of a class has no similar
        partner, so all its pairs are dissimilar; at least one class needs two points or more.

    Returns
    -------
    left, right : arrays of int of shape (n_pairs,)
        Indices of the two points of each pair, taken from ``rows``.
    y : array of float of shape (n_pairs,)
        +1 if both points have the same label, otherwise -1.

    Examples
    --------
    >>> left, right, y = draw_pairs(["a", "a", "b", "b"], 1000, seed=1, balanced=True)
    >>> bool((left != right).all())
    True
    >>> round(float((y > 0).mean()), 1)
    0.5
    """
    n_pairs = check_integer(n_pairs, "n_pairs", at_least=1)
    rng = np.random.default_rng(check_integer(seed, "seed", at_least=0))
    check_choice(balanced, "balanced", (False, True))
    labels = np.asarray(labels)
    rows = np.arange(len(labels)) if rows is None else np.asarray(rows)
    _, classes, sizes = np.unique(labels[rows], return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        raise ValueError("all points to be paired have the same label; accepted: two labels or more")
    if not balanced:
        left, right = draw_uniform_pairs(len(rows), n_pairs, rng)
        return rows[left], rows[right], np.where(classes[left] == classes[right], 1.0, -1.0)
    if sizes.max() < 2:
        raise ValueError("each label has one point only; accepted for balanced pairs: a label with two points or more")
    left, right, similar = _draw_balanced(classes, sizes, n_pairs, rng)
    return rows[left], rows[right], np.where(similar, 1.0, -1.0)


def draw_uniform_pairs(n_points: int, n_pairs: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Draw index pairs of different points; all ordered pairs are equally likely."""
    left, right = rng.integers(n_points, size=n_pairs), rng.integers(n_points - 1, size=n_pairs)
    right += right >= left  # skips the first point of the pair
    return left, right


def _draw_balanced(
    classes: npt.NDArray[np.intp], sizes: npt.NDArray[np.intp], n_pairs: int, rng: np.random.Generator
) -> tuple[Rows, Rows, npt.NDArray[np.bool_]]:
    # Sorted by class, the candidates for the second point are one contiguous range or its complement.
    order = np.argsort(classes, kind="stable")
    starts = np.cumsum(sizes) - sizes
    left = rng.integers(len(classes), size=n_pairs)
    start, size = starts[classes[order[left]]], sizes[classes[order[left]]]
    similar = (rng.random(n_pairs) < 0.5) & (size > 1)
    right = rng.integers(np.where(similar, size - 1, len(classes) - size))
    same_class = start + right + (start + right >= left)
    other_class = right + np.where(right >= start, size, 0)
    return order[left], order[np.where(similar, same_class, other_class)], similar
