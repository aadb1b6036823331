"""Ader, adaptive learning for dynamic environments (Zhang, Lu and Zhou, NeurIPS 2018, Algorithms 1 and 2, Theorem 3).

Hedge over learners with the step sizes

    eta_i = 2^(i-1) (D / G) sqrt(7 / (2 T)),   i = 1 .. N,   N = ceil(log2(1 + 4 T / 7) / 2) + 1,

with the rate ``sqrt(8 / (T c^2))`` and the prior ``C / (i (i + 1))``. D is the diameter of the set of metrics, G bounds
the gradients, c is the range of the losses, and T is the length of the stream.
"""

from __future__ import annotations

from math import ceil, log2, sqrt
from typing import Any

from ocelad._validation import check_integer, check_number
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import FixedExperts, Scale
from ocelad.lab.baselines.hedge import Hedge, build_grid
from ocelad.learners.comid import LossName
from ocelad.metric import Metric


class Ader(Hedge):
    """Ader's weighting: Hedge with a prior that prefers small steps.

    Parameters
    ----------
    horizon : int
        T.
    loss_range : float
        c.

    Examples
    --------
    >>> weighting = Ader(horizon=800, loss_range=1.0)
    >>> weighting.settings["rate"]
    0.1
    >>> [weighting.prior(Scale(i, 1)) for i in range(3)]
    [0.5, 0.16666666666666666, 0.08333333333333333]
    """

    name = "ader"

    def __init__(self, horizon: int, loss_range: float = 1.0) -> None:
        T = check_integer(horizon, "horizon", at_least=1)
        super().__init__(sqrt(8.0 / T) / check_number(loss_range, "loss_range", above=0))

    def prior(self, scale: Scale) -> float:
        """Return ``1 / (i (i + 1))`` with i from 1; the normalisation of the weights cancels C."""
        i = scale.index + 1
        return 1.0 / (i * (i + 1))


def step_sizes(horizon: int, diameter: float, gradient_bound: float) -> list[float]:
    """Return the step sizes eta_1, ..., eta_N of Theorem 3.

    >>> [round(eta, 4) for eta in step_sizes(horizon=14, diameter=1.0, gradient_bound=1.0)]
    [0.5, 1.0, 2.0]
    """
    T = check_integer(horizon, "horizon", at_least=1)
    D, G = check_number(diameter, "diameter", above=0), check_number(gradient_bound, "gradient_bound", above=0)
    N = ceil(log2(1.0 + 4.0 * T / 7.0) / 2.0) + 1
    return [2.0**i * (D / G) * sqrt(7.0 / (2.0 * T)) for i in range(N)]


def ader(
    n_features: int,
    *,
    horizon: int,
    diameter: float = 1.0,
    gradient_bound: float | None = None,
    loss_range: float = 4.0,
    loss: LossName = "hinge",
    **learners: Any,
) -> Ocelad[Any, Metric]:
    """Create Ader over COMID metric learners.

    Parameters
    ----------
    n_features : int
    horizon, diameter, gradient_bound, loss_range
        T, D, G and c. The default of G is ``2 n_features``, the expected ``|u|^2`` of two points of unit variance.
    loss : {"hinge", "squared_hinge", "logistic"}
    **learners
        Further settings of ``track_metric``, such as ``shrinkage``, ``initial_scale``, ``max_norm`` or ``engine``.

    Examples
    --------
    >>> from ocelad import Pair
    >>> tracker = ader(n_features=2, horizon=1000, engine="dense")
    >>> tracker.round_state.n_active
    6
    >>> tracker.step(Pair([1.0, 0.0], [0.0, 0.0], similar=False)).probabilities.round(2)
    array([0.58, 0.19, 0.1 , 0.06, 0.04, 0.03])

    Notes
    -----
    The paper's learners project onto a bounded set. These project onto the positive semidefinite cone, with a bound
    only if ``max_norm`` is given. The paper's improved variant with a linear surrogate loss is not implemented: it
    saves gradients, but for pairs a gradient costs no more than a loss.
    """
    if gradient_bound is None:
        gradient_bound = 2.0 * check_integer(n_features, "n_features", at_least=1)
    grid = FixedExperts(step_sizes(horizon, diameter, gradient_bound), "step sizes")
    return build_grid(n_features, grid, Ader(horizon, loss_range), loss=loss, **learners)
