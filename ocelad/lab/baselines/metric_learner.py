"""``MetricLearner``: what the online metric learners share, whatever their update rule."""

from __future__ import annotations

from copy import copy
from typing import Any, Self, TypeVar

import numpy as np
from scipy.linalg.lapack import dsyevr

from ocelad._typing import Floats
from ocelad.learners.mirror_maps import DIVERGENCES
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair, as_dense, as_event

Number = TypeVar("Number", float, Floats)


class MetricLearner:
    """An online learner that holds one metric and replaces it after each event.

    All its parts are immutable, so a copy shares them and learns independently.

    Parameters
    ----------
    start : Metric
        The initial metric.
    """

    def __init__(self, start: Metric) -> None:
        if not isinstance(start, Metric):
            raise TypeError(f"start must be a Metric; got {type(start).__name__}")
        self._metric = start

    def play(self) -> Metric:
        """Return the current metric."""
        return self._metric

    def _check_event(self, event: Event | Pair) -> tuple[Floats, float]:
        """Validate an event, and return its difference u as a dense array and its label y."""
        u, y = as_event(event, self._metric.n_features)
        return as_dense(u) if not isinstance(u, np.ndarray) else u, y

    def _margin(self, u: Floats, y: float) -> float:
        """Return ``m = y (mu - u'Mu)``; raise FloatingPointError if it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return check_finite(y * (self._metric.threshold - float(u @ self._metric.matrix @ u)))

    def _set_metric(self, M: Floats, threshold: float) -> None:
        """Set the metric of the next round; raise FloatingPointError, without any change, if it is not finite."""
        self._metric = Metric.from_trusted_matrix(check_finite(M), check_finite(threshold), self._metric.round + 1)

    def _skip_round(self) -> None:
        """Advance the round without changing the metric."""
        self._metric = self._metric.with_round(self._metric.round + 1)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy(self)


def check_finite(value: Number) -> Number:
    """Return the value; raise FloatingPointError if it is not finite."""
    if not np.isfinite(value).all():
        raise FloatingPointError("the metric overflows; use smaller steps or data of a smaller scale")
    return value


def clip_negative_eigenvalue(S: Floats) -> Floats:
    """Return the nearest positive semidefinite matrix to a symmetric one with at most one negative eigenvalue.

    A positive semidefinite matrix minus a rank-one term has at most one. The result is ``S - lambda vv'`` with this
    eigenvalue, so that only one eigenvector is computed.

    >>> clip_negative_eigenvalue(np.diag([2.0, -1.0]))
    array([[2., 0.],
           [0., 0.]])
    """
    lowest, vectors, _, _, failed = dsyevr(S, range="I", il=1, iu=1)
    if failed:
        raise FloatingPointError("the eigenvalues of the metric cannot be computed; use data of a smaller scale")
    if lowest[0] >= 0.0:
        return S
    v = vectors[:, 0]
    return np.asarray(S - lowest[0] * np.outer(v, v))


def project_psd(S: Floats) -> Floats:
    """Return the nearest positive semidefinite matrix in the Frobenius norm; S itself if it is positive definite.

    >>> project_psd(np.diag([2.0, -1.0]))
    array([[2., 0.],
           [0., 0.]])
    """
    try:
        np.linalg.cholesky(S)  # ten times faster than the eigenvalues
    except np.linalg.LinAlgError:
        return DIVERGENCES["frobenius"].from_dual(S)
    return S
