"""Hedge over a grid of step sizes (Freund and Schapire, JCSS 1997: exponential weights).

Learners that differ only in their step sizes run from the first to the last round. The weight of learner i is

    w_i = prior_i exp(-rate * (its total loss so far)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_number
from ocelad.engines.build import build_bank
from ocelad.engines.rice_settings import Rice
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import FixedExperts, Scale
from ocelad.ensemble.weighting import RoundInfo
from ocelad.learners.comid import LossName
from ocelad.metric import Metric
from ocelad.pairs import EventsName

# The rows of the records.
REGRET, PRIOR = 0, 1
MAX_REGRET = 1e300
STEP_SIZES = tuple(1e-4 * 2.0**k for k in range(8))


class Hedge:
    """Exponential weights, for ``Ocelad`` over any learners.

    Parameters
    ----------
    rate : float
        The learning rate, which multiplies losses; above 0.

    Examples
    --------
    >>> weighting = Hedge(rate=1.0)
    >>> records = np.transpose([weighting.begin(Scale(j, 1), t=1) for j in (0, 1)])
    >>> halves = np.full(2, 0.5)
    >>> info = RoundInfo(round=1, started=2, losses=np.array([5.0, 6.0]), probabilities=halves)
    >>> weighting.weights(weighting.learn(records, info, rates=halves)).round(3)
    array([1.   , 0.368])
    """

    name = "hedge"

    def __init__(self, rate: float) -> None:
        self._rate = check_number(rate, "rate", above=0)

    @property
    def settings(self) -> dict[str, Any]:
        """Its name and rate."""
        return {"name": self.name, "rate": self._rate}

    def prior(self, scale: Scale) -> float:
        """Return the prior weight, the same for all learners."""
        return 1.0

    def begin(self, scale: Scale, t: int) -> Sequence[float]:
        """Return a record without regret."""
        return 0.0, self.prior(scale)

    def learn(self, records: Floats, info: RoundInfo, rates: Floats) -> Floats:
        """Return the records with the regret of each learner to the best; only differences matter."""
        after = records.copy()
        with np.errstate(over="ignore"):
            regret = after[REGRET] + (info.losses - info.losses.min())
        after[REGRET] = np.minimum(regret - regret.min(), MAX_REGRET)
        return after

    def weights(self, records: Floats) -> Floats:
        """Return ``prior exp(-rate regret)``; the best learner has no regret, so not all weights vanish."""
        weights: Floats = records[PRIOR] * np.exp(-self._rate * records[REGRET])
        return weights


def hedge(
    n_features: int,
    *,
    step_sizes: Sequence[float] = STEP_SIZES,
    rate: float = 1e-3,
    loss: LossName = "hinge",
    **learners: Any,
) -> Ocelad[Any, Metric]:
    """Create Hedge over COMID metric learners with these step sizes.

    Parameters
    ----------
    n_features : int
    step_sizes : sequence of float
        One per learner.
    rate : float
        See ``Hedge``. The default was the best on the drifting clusters.
    loss : {"hinge", "squared_hinge", "logistic"}
    **learners
        Further settings of ``track_metric``, such as ``shrinkage``, ``initial_scale``, ``max_norm`` or ``engine``.

    Examples
    --------
    >>> from ocelad import Pair
    >>> tracker = hedge(n_features=2, step_sizes=[0.01, 0.1], rate=1.0, engine="dense")
    >>> for _ in range(20):
    ...     _ = tracker.step(Pair([0.0, 2.0], [0.0, 0.0], similar=True))
    >>> tracker.round_state.probabilities.round(2)  # the learner with the larger step size has the lower loss
    array([0., 1.])
    """
    return build_grid(n_features, FixedExperts(step_sizes, "step_sizes"), Hedge(rate), loss=loss, **learners)


def build_grid(
    n_features: int, grid: FixedExperts, weighting: Hedge, *, events: EventsName = "pairs", **learners: Any
) -> Ocelad[Any, Metric]:
    """Return an ensemble of COMID learners whose step sizes are the rates of the grid."""
    rice = Rice(step_size=1.0, **learners)
    bank, settings = build_bank(n_features, rice, grid, starts="scratch", events=events)
    return Ocelad(bank, schedule=grid, weighting=weighting, settings=settings)
