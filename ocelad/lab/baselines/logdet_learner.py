"""``LogDetLearner``: pull squared distances to targets by LogDet steps; the base of online ITML and LEGO."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isfinite, sqrt

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_number
from ocelad.lab.baselines.metric_learner import MetricLearner, check_finite
from ocelad.metric import Metric
from ocelad.pairs import Event, Events, Pair

# The default targets, in multiples of the threshold.
SIMILAR_SHARE = 0.75
DISSIMILAR_SHARE = 1.25


class LogDetLearner(MetricLearner, ABC):
    """A learner that pulls the squared distance d2 of a pair to a target by a rank-one LogDet step.

    The squared distance of a similar pair should be at most ``similar_target``, that of a dissimilar pair at least
    ``dissimilar_target``. A pair that satisfies its constraint changes nothing. Among all matrices with ``u'Mu = r
    d2``, the nearest to M in the LogDet divergence is ``M + (r - 1) / d2 (Mu)(Mu)'``, which is positive definite for
    every r > 0. The methods differ in their choice of r. (An r below about 1e-33 is lost beside 1 in float64, and the
    direction of the pair vanishes.)

    M is stored by a factor, ``M = LL'``, with the update ``L <- L + (sqrt(r) - 1) / d2 (L L'u)(L'u)'``. This gives the
    same matrix, and rounding cannot make it indefinite.

    Parameters
    ----------
    start : Metric
        The initial metric; positive definite. Its threshold never changes.
    eta : float
        The step size; above 0. It multiplies squares of squared distances, so a suitable value depends on the
        threshold.
    similar_target, dissimilar_target : float or None
        The largest squared distance of similar pairs, and the smallest one of dissimilar pairs. Above 0, the first at
        most the second. None: 0.75 and 1.25 times the threshold.
    """

    def __init__(
        self, start: Metric, *, eta: float, similar_target: float | None, dissimilar_target: float | None
    ) -> None:
        super().__init__(start)
        self._eta = check_number(eta, "eta", above=0)
        self._L = _factor(start)
        # The number of rounds since self._metric was computed, and whether L has changed since then.
        self._n_pending, self._L_changed = 0, False
        mu = start.threshold
        similar = SIMILAR_SHARE * mu if similar_target is None else similar_target
        dissimilar = DISSIMILAR_SHARE * mu if dissimilar_target is None else dissimilar_target
        self._similar_target = check_number(similar, "similar_target", above=0)
        self._dissimilar_target = check_number(dissimilar, "dissimilar_target", above=0)
        if self._similar_target > self._dissimilar_target:
            raise ValueError(
                f"similar_target is {self._similar_target:g} and dissimilar_target is {self._dissimilar_target:g}; "
                "accepted: similar_target at most dissimilar_target"
            )

    @property
    def targets(self) -> tuple[float, float]:
        """The largest squared distance of similar pairs, and the smallest one of dissimilar pairs."""
        return self._similar_target, self._dissimilar_target

    def loss(self, event: Event | Pair) -> float:
        """Return ``(d2 - target)^2``, or 0 if the pair satisfies its constraint."""
        u, y = self._check_event(event)
        with np.errstate(over="ignore", invalid="ignore"):
            _, d2 = self._project(u)
        error = d2 - self._target(y)
        return check_finite(error * error) if self._violated(d2, y) else 0.0

    def update(self, event: Event | Pair) -> None:
        """Take one step towards the target."""
        u, y = self._check_event(event)
        with np.errstate(over="ignore", invalid="ignore"):
            self._learn(u, y)

    def replay(self, events: Events) -> None:
        """Update on all events, with the same bits as ``update`` but faster, because the events are checked once.

        If an event is rejected, the learner has learned from the events before it.
        """
        if len(events):
            self._check_event(events[0])  # all events have the same number of features
        U = events.U.toarray() if events.sparse else events.U
        with np.errstate(over="ignore", invalid="ignore"):
            for u, y in zip(U, events.y.tolist(), strict=True):
                self._learn(u, y)

    def play(self) -> Metric:
        """Return the current metric."""
        if self._n_pending:
            metric = self._metric.with_round(self._metric.round + self._n_pending)
            if self._L_changed:
                metric = Metric.from_trusted_matrix(self._L @ self._L.T, metric.threshold, metric.round)
            self._metric, self._n_pending, self._L_changed = metric, 0, False
        return self._metric

    def _learn(self, u: Floats, y: float) -> None:
        w, d2 = self._project(u)
        if d2 > 0.0 and self._violated(d2, y):  # no metric moves equal points apart
            factor = (sqrt(self._ratio(d2, self._target(y))) - 1.0) / d2
            L = self._L + (self._L @ w)[:, None] * (factor * w)
            if not isfinite(np.vdot(L, L)):  # the trace of LL' bounds its entries
                check_finite(L @ L.T)
            self._L, self._L_changed = L, True
        self._n_pending += 1

    @abstractmethod
    def _ratio(self, d2: float, target: float) -> float:
        """Return r, the factor by which the squared distance of the pair is multiplied."""

    def _project(self, u: Floats) -> tuple[Floats, float]:
        w = u @ self._L
        d2 = float(w @ w)
        return w, d2 if isfinite(d2) else check_finite(d2)

    def _target(self, y: float) -> float:
        return self._similar_target if y > 0 else self._dissimilar_target

    def _violated(self, d2: float, y: float) -> bool:
        return d2 > self._similar_target if y > 0 else d2 < self._dissimilar_target


def _factor(start: Metric) -> Floats:
    try:
        return np.asarray(np.linalg.cholesky(start.matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise ValueError(
            "start must be positive definite, because the LogDet divergence of a singular matrix is infinite; "
            f"got a metric of rank {start.rank} in {start.n_features} dimensions"
        ) from None
