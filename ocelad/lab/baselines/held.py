"""HeldMetric: what the online learners of a metric share, whatever their step is."""

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


class HeldMetric:
    """A learner holds one metric, plays it, and puts a new one in its place.

    All its parts are immutable, so that a copy shares them and learns apart.

    Parameters
    ----------
    start : Metric
        Where it starts.
    """

    def __init__(self, start: Metric) -> None:
        if not isinstance(start, Metric):
            raise TypeError(f"start must be a Metric; got {type(start).__name__}")
        self._metric = start

    def play(self) -> Metric:
        """The metric it holds."""
        return self._metric

    def _seen(self, event: Event | Pair) -> tuple[Floats, float]:
        """The difference u and the label y of an event; checked."""
        u, y = as_event(event, self._metric.n_features)
        return as_dense(u) if not isinstance(u, np.ndarray) else u, y

    def _margin(self, u: Floats, y: float) -> float:
        """``m = y (mu - u'Mu)``; refused where it is too large for a number."""
        with np.errstate(over="ignore", invalid="ignore"):
            return finite(y * (self._metric.threshold - float(u @ self._metric.matrix @ u)))

    def _hold(self, M: Floats, threshold: float) -> None:
        """Take the next metric, a round later; refused, with nothing changed, where it is not finite."""
        self._metric = Metric.trusted(finite(M), finite(threshold), self._metric.round + 1)

    def _wait(self) -> None:
        """Let a round pass that changes nothing."""
        self._metric = self._metric.at(self._metric.round + 1)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return copy(self)


def finite(value: Number) -> Number:
    """The value itself, refused where it is not finite."""
    if not np.isfinite(value).all():
        raise FloatingPointError("the metric overflows; smaller steps or data of a smaller scale are needed")
    return value


def without_negative(S: Floats) -> Floats:
    """The nearest positive semidefinite matrix to a symmetric one that has at most one negative eigenvalue.

    What a positive semidefinite matrix less a rank-one term is. ``S - lambda vv'`` of that eigenvalue, so that only
    one eigenvector is computed, not all.

    >>> without_negative(np.diag([2.0, -1.0]))
    array([[2., 0.],
           [0., 0.]])
    """
    lowest, vectors, _, _, failed = dsyevr(S, range="I", il=1, iu=1)
    if failed:
        raise FloatingPointError("the eigenvalues of the metric cannot be computed; data of a smaller scale are needed")
    if lowest[0] >= 0.0:
        return S
    v = vectors[:, 0]
    return np.asarray(S - lowest[0] * np.outer(v, v))


def positive_part(S: Floats) -> Floats:
    """The nearest positive semidefinite matrix in the Frobenius norm; S itself where it is positive definite.

    >>> positive_part(np.diag([2.0, -1.0]))
    array([[2., 0.],
           [0., 0.]])
    """
    try:
        np.linalg.cholesky(S)  # a tenth of what the eigenvalues cost
    except np.linalg.LinAlgError:
        return DIVERGENCES["frobenius"].from_dual(S)
    return S
