"""CBCE, coin betting for changing environments (Jun, Orabona, Willett and Wright, AISTATS 2017, Algorithm 1).

The intervals are those of SAOL. On each interval J, which begins with round J1, a bettor stakes the Krichevsky-Trofimov
share of its wealth on the learner of J being better than the ensemble. Let g be the loss of the ensemble minus that of
the learner, in [-1, 1], or only its positive part if w is not above 0. The next stake is

    w = (sum of g since J1) / (rounds since J1 + 1) * (1 + sum of g w since J1).

The probability of a learner is proportional to ``pi_J max(w, 0)`` with the prior pi_J proportional to
``1 / (J1^2 (1 + floor(log2 J1)))``. If this is 0 for all learners, it is proportional to the prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_number
from ocelad.engines.build import build_bank
from ocelad.engines.kernels.baseline_updates import cbce_prior, cbce_update, cbce_weights, clip_losses
from ocelad.engines.rice_settings import Rice
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import Scale, Schedule
from ocelad.ensemble.weight_updates import CBCE, NONE_DRAWN, ensemble_value
from ocelad.ensemble.weighting import KernelWeighting, RoundInfo
from ocelad.learners.comid import LossName
from ocelad.metric import Metric
from ocelad.pairs import EventsName


class Cbce:
    """CBCE's weighting, for ``Ocelad`` over any learners.

    Parameters
    ----------
    largest_loss : float
        Losses are clipped to [0, largest_loss] and divided by it, because the method requires losses in [0, 1].

    Examples
    --------
    >>> weighting = Cbce()
    >>> start, halves = np.transpose([weighting.begin(Scale(j, 2**j), t=4) for j in (1, 2)]), np.full(2, 0.5)
    >>> info = RoundInfo(round=4, started=2, losses=np.array([1.0, 0.0]), probabilities=halves)
    >>> weighting.weights(weighting.learn(start, info, rates=halves)) > 0  # a stake on the better one
    array([False,  True])

    Notes
    -----
    The loss of the ensemble is the weighted mean of the learners' losses (or the loss of the drawn learner). A convex
    loss of the averaged play is at most this mean, so the bound holds. But a learner that has just started from the
    averaged play seems slightly better than the ensemble if the learners disagree. A g of at most 1e-12 counts as 0:
    learners that have just started are equal, and the only stakes would be bets on rounding.
    """

    def __init__(self, largest_loss: float = 1.0) -> None:
        self._largest = check_number(largest_loss, "largest_loss", above=0)

    @property
    def kernel_weighting(self) -> KernelWeighting | None:
        """The parameters for kernels; None for a subclass, which may compute other weights."""
        return KernelWeighting(CBCE, largest_loss=self._largest) if type(self) is Cbce else None

    @property
    def settings(self) -> dict[str, Any]:
        """Its name and the largest loss."""
        return {"name": "cbce", "largest_loss": self._largest}

    def begin(self, scale: Scale, t: int) -> Sequence[float]:
        """Return no gain, a wealth of 1, the prior of an interval that starts at round t, and no stake."""
        return 0.0, 1.0, 0.0, cbce_prior(t), 0.0

    def learn(self, records: Floats, info: RoundInfo, rates: Floats) -> Floats:
        """Return the records after every bettor is paid ``g w``."""
        after, losses, n = records.copy(), info.losses.copy(), len(info.losses)
        clip_losses(losses, self._largest, n)
        mean = ensemble_value(self.weights(records), losses, n, NONE_DRAWN if info.drawn is None else info.drawn)
        cbce_update(after, losses, mean, n)
        return after

    def weights(self, records: Floats) -> Floats:
        """Return ``pi_J max(w, 0)``, or the prior if that is 0 for all learners."""
        weights = np.empty(records.shape[1])
        cbce_weights(records, weights, len(weights))
        return weights


def cbce(
    n_features: int,
    *,
    loss: LossName = "hinge",
    step_size: float = 1e-2,
    seed: int | None = None,
    largest_loss: float = 3.0,
    shortest_interval: int = 1,
    n_scales: int | None = None,
    events: EventsName = "pairs",
    **learners: Any,
) -> Ocelad[Any, Metric]:
    """Create CBCE over COMID metric learners, which start from the play of the ensemble at the start of each interval.

    Parameters
    ----------
    n_features : int
    loss, step_size, shortest_interval, n_scales, events
        See ``track_metric``; the step size of an interval is ``step_size / sqrt(length)``.
    seed : int or None
        None: average the learners. An integer: draw one learner per round, with this seed.
    largest_loss : float
        See ``Cbce``. The defaults of this and of the step size were the best on the drifting clusters.
    **learners
        Further settings of ``track_metric``, such as ``shrinkage``, ``initial_scale``, ``max_norm`` or ``engine``.

    Examples
    --------
    >>> from ocelad import Pair
    >>> tracker = cbce(n_features=2, step_size=0.1, engine="dense")
    >>> for _ in range(50):
    ...     _ = tracker.step(Pair([0.0, 2.0], [0.0, 0.0], similar=True))
    ...     _ = tracker.step(Pair([2.0, 0.0], [0.0, 0.0], similar=False))
    >>> metric = tracker.play()
    >>> metric.similar([0.0, 2.0], [0.0, 0.0]), metric.similar([2.0, 0.0], [0.0, 0.0])
    (True, False)
    """
    schedule, weighting = Schedule(shortest_interval, n_scales), Cbce(largest_loss)
    rice = Rice(finest="ensemble", loss=loss, step_size=step_size, **learners)
    bank, settings = build_bank(n_features, rice, schedule, starts="ensemble", events=events)
    return Ocelad(bank, schedule=schedule, weighting=weighting, seed=seed, settings=settings)
