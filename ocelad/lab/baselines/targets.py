"""TargetLearner: squared distances are pulled to targets by LogDet steps; what online ITML and LEGO share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isfinite, sqrt

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_number
from ocelad.lab.baselines.held import HeldMetric, finite
from ocelad.metric import Metric
from ocelad.pairs import Event, Events, Pair

# Where the targets are put, in multiples of the threshold, by one who does not say.
SIMILAR_SHARE = 0.75
DISSIMILAR_SHARE = 1.25


class TargetLearner(HeldMetric, ABC):
    """A pair's squared distance d2 is pulled to a target, by a step in the direction that LogDet gives.

    Similar pairs are to be at most ``similar_target`` apart, dissimilar ones at least ``dissimilar_target``, both of
    squared distances. A pair that is so already changes nothing. Of all matrices with ``u'Mu = r d2`` the nearest to M
    in the LogDet divergence is ``M + (r - 1) / d2 (Mu)(Mu)'``, positive definite for every r > 0; the methods differ in
    which r they choose. (An r too small for float64 beside 1, below about 1e-33, makes the pair's direction vanish.)

    M is held by a factor, ``M = LL'``, and ``L <- L + (sqrt(r) - 1) / d2 (L L'u)(L'u)'``: the same matrix, which
    rounding cannot make indefinite.

    Parameters
    ----------
    start : Metric
        Where it starts; positive definite. Its threshold stays as it is.
    eta : float
        Step size; above 0. It multiplies squares of squared distances, so that what fits depends on the threshold.
    similar_target, dissimilar_target : float or None
        At most so far apart, squared, are similar pairs to be, and at least so far dissimilar ones. Above 0, the first
        not above the second. None: three quarters of the threshold and five quarters of it, with the threshold between.
    """

    def __init__(
        self, start: Metric, *, eta: float, similar_target: float | None, dissimilar_target: float | None
    ) -> None:
        super().__init__(start)
        self._eta = check_number(eta, "eta", above=0)
        self._L = _factor(start)
        # How many rounds have passed since the metric was made, and whether L is another one since then.
        self._passed, self._moved = 0, False
        mu = start.threshold
        near = SIMILAR_SHARE * mu if similar_target is None else similar_target
        far = DISSIMILAR_SHARE * mu if dissimilar_target is None else dissimilar_target
        self._near = check_number(near, "similar_target", above=0)
        self._far = check_number(far, "dissimilar_target", above=0)
        if self._near > self._far:
            raise ValueError(
                f"similar_target is {self._near:g} and dissimilar_target {self._far:g}; "
                "accepted: similar pairs nearer than dissimilar ones"
            )

    @property
    def targets(self) -> tuple[float, float]:
        """The squared distance that similar pairs are to have at most, and dissimilar ones at least."""
        return self._near, self._far

    def loss(self, event: Event | Pair) -> float:
        """``(d2 - target)^2``, or 0 where the pair is as it should be."""
        u, y = self._seen(event)
        with np.errstate(over="ignore", invalid="ignore"):
            _, d2 = self._project(u)
        error = d2 - self._target(y)
        return finite(error * error) if self._violated(d2, y) else 0.0

    def update(self, event: Event | Pair) -> None:
        """One step towards the target."""
        u, y = self._seen(event)
        with np.errstate(over="ignore", invalid="ignore"):
            self._learn(u, y)

    def replay(self, events: Events) -> None:
        """One update after the other, to the bit, but faster: what was checked as a whole is not looked at again.

        When a pair is refused, those before it have been learned from.
        """
        if len(events):
            self._seen(events[0])  # all have as many features
        U = events.U.toarray() if events.sparse else events.U
        with np.errstate(over="ignore", invalid="ignore"):
            for u, y in zip(U, events.y.tolist(), strict=True):
                self._learn(u, y)

    def play(self) -> Metric:
        """The metric it holds."""
        if self._passed:
            metric = self._metric.at(self._metric.round + self._passed)
            if self._moved:
                metric = Metric.trusted(self._L @ self._L.T, metric.threshold, metric.round)
            self._metric, self._passed, self._moved = metric, 0, False
        return self._metric

    def _learn(self, u: Floats, y: float) -> None:
        w, d2 = self._project(u)
        if d2 > 0.0 and self._violated(d2, y):  # points in one place stay there, whatever M is
            stretch = (sqrt(self._ratio(d2, self._target(y))) - 1.0) / d2
            L = self._L + (self._L @ w)[:, None] * (stretch * w)
            if not isfinite(np.vdot(L, L)):  # no entry of LL' is larger than this, its trace
                finite(L @ L.T)
            self._L, self._moved = L, True
        self._passed += 1

    @abstractmethod
    def _ratio(self, d2: float, target: float) -> float:
        """r: by how much the squared distance of this pair is multiplied."""

    def _project(self, u: Floats) -> tuple[Floats, float]:
        w = u @ self._L
        d2 = float(w @ w)
        return w, d2 if isfinite(d2) else finite(d2)

    def _target(self, y: float) -> float:
        return self._near if y > 0 else self._far

    def _violated(self, d2: float, y: float) -> bool:
        return d2 > self._near if y > 0 else d2 < self._far


def _factor(start: Metric) -> Floats:
    try:
        return np.asarray(np.linalg.cholesky(start.matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"the LogDet divergence is infinite at a singular matrix, so it cannot start from one of rank {start.rank} "
            f"in {start.n_features} dimensions; start from a positive definite one"
        ) from None
