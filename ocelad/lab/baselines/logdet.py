"""The LogDet divergence and the rank-one steps by which it is minimised; of ITML (online and batch) and LEGO.

    D(A, B) = tr(A inv(B)) - log det(A inv(B)) - n

Of all A that give one pair the squared distance ``u'Au = p``, the nearest to M in this divergence is
``M + beta (Mu)(Mu)'`` for one beta, and it stays positive definite without any projection.
"""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats


def divergence(A: Floats, B: Floats) -> float:
    """``D(A, B)`` of two positive definite matrices; 0 where they are equal.

    >>> divergence(np.eye(3), np.eye(3))
    0.0
    >>> round(divergence(np.diag([2.0, 1.0]), np.eye(2)), 6)
    0.306853
    """
    ratio = np.linalg.solve(B, A)
    sign, log_determinant = np.linalg.slogdet(ratio)
    if sign <= 0:
        raise ValueError("the LogDet divergence is of positive definite matrices only")
    return float(np.trace(ratio) - log_determinant - len(A))


def stretched(M: Floats, u: Floats, beta: float) -> Floats:
    """``M + beta (Mu)(Mu)'``, symmetric to the last bit.

    >>> stretched(np.eye(2), np.array([1.0, 0.0]), 3.0)
    array([[4., 0.],
           [0., 1.]])
    """
    v = M @ u
    return np.asarray(M + beta * np.outer(v, v))
