"""DiagonalComid: one learner of a diagonal metric, dense and readable; the definition of ``DiagonalBank``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad.learners.comid import Comid, LossName, RegularizerName, check_shape
from ocelad.metric import Metric
from ocelad.pairs import Event, Relative


class DiagonalComid(Comid):
    """Composite objective mirror descent (equation 4) over diagonal metrics ``M = diag(w)``, ``w >= 0``.

    With ``g = -l'(m)`` at the margin ``m = y (mu - sum_i w_i u_i^2)``, and the squared Frobenius divergence:

        w  <- max(0, w - eta (g y u*u + rho))
        mu <- max(1, mu + eta g y)

    Parameters
    ----------
    start : Metric
        The initial metric, made by ``Metric.from_diagonal``.
    step_size, loss, shrinkage
        As in ``Comid``.
    regularizer : {"nuclear", "l1", None}
        "nuclear" and "l1" are equivalent: the weights are both the eigenvalues and the entries of a diagonal matrix.

    Examples
    --------
    >>> learner = DiagonalComid(Metric.from_diagonal([1.0, 1.0]), step_size=0.1, shrinkage=0.5)
    >>> learner.update(Event(u=np.array([1.0, 0.0]), y=1.0))
    >>> learner.play().diagonal
    array([0.85, 0.95])
    """

    def __init__(
        self,
        start: Metric,
        *,
        step_size: float,
        loss: LossName = "hinge",
        regularizer: RegularizerName | None = "nuclear",
        shrinkage: float = 0.0,
    ) -> None:
        super().__init__(start, step_size=step_size, loss=loss, regularizer=regularizer, shrinkage=shrinkage)
        if not start.is_diagonal:
            raise ValueError("start must be a diagonal metric, made by Metric.from_diagonal(weights)")

    def update(self, event: Event | Relative) -> None:
        """Take one step of equation (4)."""
        slope = self._loss.slope(self._margin(event))
        with np.errstate(over="ignore", invalid="ignore"):
            step = self._step_size * slope
            w = self._metric.diagonal - step * event.gradient(np.square) - self._step_size * self._shrinkage
            w = np.maximum(w, 0.0)
        if not np.isfinite(w).all():
            raise FloatingPointError("the metric overflows; use a smaller step_size or rescale the data")
        mu = max(1.0, self._metric.threshold + step * event.threshold_slope)
        self._metric = Metric.low_rank(w, np.zeros((0, len(w))), np.zeros(0), mu, self._metric.round + 1)

    def _squared_length(self, u: Floats) -> Any:
        check_shape(u, self._metric.n_features)
        return self._metric.diagonal @ (u * u)
