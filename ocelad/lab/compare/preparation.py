"""Preparation of points whose statistics come from some of the rows only, so that held-out rows have no influence."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats


def center(X: Floats, rows: np.ndarray) -> Floats:
    """Subtract the mean of some rows from all rows.

    >>> center(np.array([[1.0], [3.0], [9.0]]), np.array([0, 1])).ravel()
    array([-1.,  1.,  7.])
    """
    return np.asarray(X - X[rows].mean(axis=0))


def standardize(X: Floats, rows: np.ndarray) -> Floats:
    """Scale all features to mean 0 and standard deviation 1 on some rows; constant features are only centred."""
    points = center(X, rows)
    spread = points[rows].std(axis=0)
    return np.asarray(points / np.where(spread > 0, spread, 1.0))


def project(X: Floats, rows: np.ndarray, n_components: int) -> Floats:
    """Return the first principal components of some rows, for all rows; X is centred."""
    _, _, directions = np.linalg.svd(X[rows], full_matrices=False)
    return np.asarray(X @ directions[:n_components].T)
