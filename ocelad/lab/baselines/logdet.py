"""The LogDet divergence, and the rank-one steps that minimise it; used by ITML (online and batch) and LEGO.

    D(A, B) = tr(A inv(B)) - log det(A inv(B)) - n

Among all A with ``u'Au = p`` for one pair, the nearest to M in this divergence is ``M + beta (Mu)(Mu)'`` for some beta.
It is positive definite without any projection.
"""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats


def logdet_divergence(A: Floats, B: Floats) -> float:
    """Return ``D(A, B)`` of two positive definite matrices; it is 0 if they are equal.

    >>> logdet_divergence(np.eye(3), np.eye(3))
    0.0
    >>> round(logdet_divergence(np.diag([2.0, 1.0]), np.eye(2)), 6)
    0.306853
    """
    ratio = np.linalg.solve(B, A)
    sign, log_determinant = np.linalg.slogdet(ratio)
    if sign <= 0:
        raise ValueError("the LogDet divergence is defined for positive definite matrices only")
    return float(np.trace(ratio) - log_determinant - len(A))


def rank_one_update(M: Floats, u: Floats, beta: float) -> Floats:
    """Return ``M + beta (Mu)(Mu)'``, exactly symmetric.

    >>> rank_one_update(np.eye(2), np.array([1.0, 0.0]), 3.0)
    array([[4., 0.],
           [0., 1.]])
    """
    v = M @ u
    return np.asarray(M + beta * np.outer(v, v))
