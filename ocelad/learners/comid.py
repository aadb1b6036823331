"""Comid: one metric learner, dense and readable; the definition that every engine must agree with."""

from __future__ import annotations

from copy import copy
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_number
from ocelad.learners import l1_prox
from ocelad.learners.losses import LOSSES
from ocelad.learners.mirror_maps import DIVERGENCES, Divergence
from ocelad.metric import Metric
from ocelad.pairs import Event, Relative

LossName: TypeAlias = Literal["hinge", "squared_hinge", "logistic"]
DivergenceName: TypeAlias = Literal["frobenius", "von_neumann", "burg"]
RegularizerName: TypeAlias = Literal["nuclear", "l1"]


class Comid:
    """Composite objective mirror descent on the margin loss of pairs, or of relative comparisons (equation 4).

    On a pair with difference u and label y, with ``g = -l'(m)`` at the margin ``m = y (mu - u'Mu)``:

        M  <- argmin over M PSD of  B(M, M_t) + eta <g y uu', M> + eta rho r(M)
        mu <- max(1, mu + eta g y)

    For a relative comparison the margin is ``m = far'M far - near'M near``, ``near near' - far far'`` replaces
    ``y uu'``, and mu does not change.

    Parameters
    ----------
    start : Metric
        The initial metric.
    step_size : float
        eta, above 0.
    loss : {"hinge", "squared_hinge", "logistic"}
        l; the paper uses the hinge loss.
    divergence : {"frobenius", "von_neumann", "burg"}
        B; the paper's experiments use the squared Frobenius norm.
    regularizer : {"nuclear", "l1", None}
        r: the sum of the eigenvalues, the sum of the entries' absolute values, or 0.
    shrinkage : float
        rho; 0 or above.
    max_norm : float or None
        c: a metric with ``||M||_F > c`` is scaled to the norm c. None: no bound.
    l1_tolerance : float
        With "l1": the duality gap of a step, relative to the regulariser; 1e-12 to 0.1.

    Examples
    --------
    >>> learner = Comid(Metric(np.eye(2)), step_size=0.1)
    >>> learner.update(Event(u=np.array([1.0, 0.0]), y=1.0))
    >>> learner.play().matrix
    array([[0.9, 0. ],
           [0. , 1. ]])

    Notes
    -----
    The nuclear norm of a positive semidefinite matrix is its trace, so its gradient is the identity. The L1 step has no
    closed form; it is computed to a certified duality gap (``ocelad.learners.l1_prox``).

    With the Burg divergence, the minimum does not exist if the points of a dissimilar pair are too distant. The step
    size is then halved for M, mu and the shrinkage until the minimum exists, as is common for LogDet methods.

    The paper bounds the metric only in its theory (``||M|| <= c``, Corollary 1); ``max_norm`` scales the metric. The
    threshold takes a plain gradient step for every divergence, where the paper uses ``B_psi`` for it too.
    """

    def __init__(
        self,
        start: Metric,
        *,
        step_size: float,
        loss: LossName = "hinge",
        divergence: DivergenceName = "frobenius",
        regularizer: RegularizerName | None = "nuclear",
        shrinkage: float = 0.0,
        max_norm: float | None = None,
        l1_tolerance: float = l1_prox.RELATIVE_GAP,
    ) -> None:
        self._loss = LOSSES[check_choice(loss, "loss", LOSSES)]
        self._divergence: Divergence = DIVERGENCES[check_choice(divergence, "divergence", DIVERGENCES)]
        self._regularizer = check_choice(regularizer, "regularizer", (*get_args(RegularizerName), None))
        self._step_size = check_number(step_size, "step_size", above=0)
        self._shrinkage = check_number(shrinkage, "shrinkage", at_least=0)
        self._max_norm = None if max_norm is None else check_number(max_norm, "max_norm", above=0)
        self._l1_tolerance = check_number(l1_tolerance, "l1_tolerance", at_least=l1_prox.RELATIVE_GAP, at_most=0.1)
        if not isinstance(start, Metric):
            raise TypeError(f"start must be a Metric; got {type(start).__name__}")
        self._metric = start
        _check_consistency(self, divergence)

    def with_start(self, start: Metric, step_size: float) -> Comid:
        """Return a learner with the same objective, another initial metric and another step size."""
        learner = copy(self)
        learner._metric, learner._step_size = start, step_size
        return learner

    @property
    def step_size(self) -> float:
        """eta, the step size."""
        return self._step_size

    def play(self) -> Metric:
        """Return the current metric."""
        return self._metric

    def loss(self, event: Event | Relative) -> float:
        """Return ``l(m)``."""
        return self._loss.value(self._margin(event))

    def update(self, event: Event | Relative) -> None:
        """Take one step of equation (4)."""
        slope = self._loss.slope(self._margin(event))
        if slope == 0.0 and self._shrinkage == 0.0:
            self._metric = self._metric.with_round(self._metric.round + 1)
            return
        with np.errstate(over="ignore", invalid="ignore"):  # _check_finite raises instead
            gradient = _check_finite(slope * event.gradient(_outer))
            try:
                M, step = self._minimize(gradient)
            except np.linalg.LinAlgError:  # LAPACK fails on numbers near the largest float
                raise _overflow() from None
            _check_finite(M)
            if self._max_norm is not None:
                size = float(np.abs(M).max()) or 1.0
                norm = size * float(np.linalg.norm(M / size))  # a plain norm overflows at entries of 1e154
                M *= self._max_norm / max(norm, self._max_norm)
        mu = max(1.0, self._metric.threshold + step * slope * event.threshold_slope)
        self._metric = Metric.from_trusted_matrix(M, mu, self._metric.round + 1)

    def _margin(self, event: Event | Relative) -> float:
        with np.errstate(over="ignore", invalid="ignore"):  # the bank raises on an infinite loss
            return float(event.margin(self._squared_length, self._metric.threshold))

    def _squared_length(self, u: Floats) -> Any:
        M = self._metric.matrix
        check_shape(u, len(M))
        return u @ M @ u

    def _minimize(self, gradient: Floats) -> tuple[Floats, float]:
        """Return the minimiser of equation (4), and the step size at which it exists."""
        divergence, eta = self._divergence, self._step_size
        dual, shrinkage = divergence.to_dual(self._metric.matrix), self._shrinkage * np.eye(len(gradient))
        while not divergence.reaches(dual - eta * (gradient + shrinkage)):
            eta /= 2.0
            if eta == 0.0:
                raise ArithmeticError("the step has no minimum at any step size: the metric is too ill-conditioned")
        if self._regularizer == "l1" and self._shrinkage > 0.0:
            tau = eta * self._shrinkage
            return l1_prox.shrink(divergence, dual - eta * gradient, tau, self._l1_tolerance), eta
        return divergence.from_dual(dual - eta * (gradient + shrinkage)), eta

    def __deepcopy__(self, memo: dict[int, Any]) -> Comid:
        return copy(self)  # the attributes are immutable; update replaces them


def check_shape(u: Floats, n: int) -> None:
    """Check that a difference has n entries."""
    if np.shape(u) != (n,):
        raise ValueError(f"u must have shape ({n},); got {np.shape(u)}")


def _outer(u: Floats) -> Floats:
    return np.outer(u, u)


def _check_finite(array: Floats) -> Floats:
    if not np.isfinite(array).all():
        raise _overflow()
    return array


def _overflow() -> FloatingPointError:
    return FloatingPointError("the metric overflows; use a smaller step_size or rescale the data")


def _check_consistency(learner: Comid, divergence: str) -> None:
    """Raise an error if the settings contradict each other."""
    if learner._regularizer is None and learner._shrinkage > 0.0:
        raise ValueError(
            f"shrinkage must be 0 with regularizer None; got {learner._shrinkage:g} (or choose 'nuclear' or 'l1')"
        )
    start = learner._metric
    if learner._divergence.positive_definite and start.rank < start.n_features:
        raise ValueError(
            f"divergence {divergence!r} needs a positive definite start; got a metric of rank {start.rank} in "
            f"{start.n_features} dimensions (or choose 'frobenius')"
        )
    if start.threshold < 1.0:
        raise ValueError(f"the threshold of start must be at least 1 (equation 4); got {start.threshold:g}")
    if learner._max_norm is None:
        return
    norm = float(np.linalg.norm(start.matrix))
    if norm > learner._max_norm * (1.0 + 1e-9):
        raise ValueError(
            f"max_norm must be at least the Frobenius norm {norm:g} of the initial metric; got {learner._max_norm:g}"
        )
