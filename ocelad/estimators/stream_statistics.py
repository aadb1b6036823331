"""Statistics of a tracker along a stream: losses and correct predictions, and how far the metric moves."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad.learners.comid import LossName
from ocelad.learners.losses import LOSSES

# The change of a metric is exact up to this number of features; above it, it is estimated by random directions.
MAX_EXACT_FEATURES, N_DIRECTIONS = 256, 32
# Losses and squared lengths are clipped to this value, so that their sums do not overflow.
MAX_TERM = 1e250


def score_margins(y: Floats, margins: Floats, loss: LossName) -> tuple[Floats, np.ndarray]:
    """Return the loss of each margin, clipped to ``MAX_TERM``, and whether each prediction was correct.

    A pair exactly at the threshold is predicted similar.

    >>> score_margins(np.array([1.0, -1.0]), np.array([0.0, 0.0]), "hinge")
    (array([1., 1.]), array([ True, False]))
    """
    value = LOSSES[loss].value
    correct = np.where(y > 0, margins >= 0, margins > 0)
    return np.minimum([value(margin) for margin in margins.tolist()], MAX_TERM), correct


def probe_directions(n_features: int) -> Floats:
    """Return directions V such that the Frobenius norm of ``(A - B) V`` equals, or estimates, that of A - B."""
    if n_features <= MAX_EXACT_FEATURES:
        return np.eye(n_features)
    return np.asarray(np.random.default_rng(0).normal(size=(n_features, N_DIRECTIONS)) / np.sqrt(N_DIRECTIONS))


def relative_change(before: Floats, after: Floats) -> float:
    """Return how far a metric moved relative to its norm, from its products with ``probe_directions``.

    >>> relative_change(np.eye(2), 2 * np.eye(2))
    0.5
    """
    largest = max(float(np.abs(after).max()), float(np.abs(before).max()))
    size = float(np.linalg.norm(after / largest)) if largest > 0 else 0.0  # a plain norm overflows at 1e154
    return float(np.linalg.norm(after / largest - before / largest)) / size if size > 0 else 0.0
