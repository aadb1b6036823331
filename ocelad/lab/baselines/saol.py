"""SAOL, strongly adaptive online learning (Daniely, Gonen and Shalev-Shwartz, ICML 2015, Algorithm 1).

One learner per dyadic interval, each started from scratch. One learner is drawn with probability ``w_I / sum w``, and

    w_I <- w_I (1 + eta_I r_I),   r_I = (loss of the ensemble) - (loss of the learner of I),

with ``eta_I = min(1/2, 1/sqrt|I|)``, which is also the initial weight of an interval. Losses are in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ocelad._typing import Floats
from ocelad._validation import check_number
from ocelad.engines.build import build_bank
from ocelad.engines.kernels.baseline_updates import clip_losses, saol_update
from ocelad.engines.rice_settings import Rice
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import Scale, Schedule
from ocelad.ensemble.weight_updates import NONE_DRAWN, SAOL, ensemble_value
from ocelad.ensemble.weighting import KernelWeighting, RoundInfo
from ocelad.learners.comid import LossName
from ocelad.metric import Metric
from ocelad.pairs import EventsName


class Saol:
    """SAOL's weighting, for ``Ocelad`` over any learners.

    Parameters
    ----------
    largest_loss : float
        Losses are clipped to [0, largest_loss] and divided by it, because the method requires losses in [0, 1].

    Examples
    --------
    >>> from ocelad import LearnerBank, Ocelad
    >>> class Guess:
    ...     def __init__(self, scale, start):
    ...         self.value, self.step = 0.0 if start is None else start, scale.rate
    ...     def play(self):
    ...         return self.value
    ...     def loss(self, event):
    ...         return abs(self.value - event)
    ...     def update(self, event):
    ...         self.value += self.step * (event - self.value)
    >>> bank = LearnerBank(Guess, starts="scratch", finest="reset")
    >>> saol = Ocelad(bank, weighting=Saol(), seed=0)
    >>> for _ in range(100):
    ...     last = saol.step(0.5)
    >>> saol.play() in [learner.value for learner in saol.bank.learners]  # the play of one learner, not an average
    True

    Notes
    -----
    With ``seed=None`` the learners are averaged, and the loss of the ensemble is the weighted mean of their losses,
    which is also the expected loss of a drawn learner. Weights stay positive in the longest intervals too.
    """

    def __init__(self, largest_loss: float = 1.0) -> None:
        self._largest = check_number(largest_loss, "largest_loss", above=0)

    @property
    def kernel_weighting(self) -> KernelWeighting | None:
        """The parameters for kernels; None for a subclass, which may compute other weights."""
        return KernelWeighting(SAOL, largest_loss=self._largest) if type(self) is Saol else None

    @property
    def settings(self) -> dict[str, Any]:
        """Its name and the largest loss."""
        return {"name": "saol", "largest_loss": self._largest}

    def begin(self, scale: Scale, t: int) -> Sequence[float]:
        """Return the initial weight ``eta_I``."""
        return (scale.weight_rate,)

    def learn(self, records: Floats, info: RoundInfo, rates: Floats) -> Floats:
        """Return the weights after ``w <- w (1 + eta_I r)``."""
        after, losses, n = records.copy(), info.losses.copy(), len(info.losses)
        clip_losses(losses, self._largest, n)
        mean = ensemble_value(records[0], losses, n, NONE_DRAWN if info.drawn is None else info.drawn)
        saol_update(after[0], rates, losses, mean, n)
        return after

    def weights(self, records: Floats) -> Floats:
        """Return the weights, which are the records."""
        weights: Floats = records[0]
        return weights


def saol(
    n_features: int,
    *,
    loss: LossName = "hinge",
    step_size: float = 3e-2,
    seed: int | None = 0,
    largest_loss: float = 1.0,
    shortest_interval: int = 1,
    n_scales: int | None = None,
    events: EventsName = "pairs",
    **learners: Any,
) -> Ocelad[Any, Metric]:
    """Create SAOL over COMID metric learners, which start from the initial metric at the start of each interval.

    Parameters
    ----------
    n_features : int
    loss, step_size, shortest_interval, n_scales, events
        See ``track_metric``; the step size of an interval is ``step_size / sqrt(length)``.
    seed : int or None
        The seed of the draws. None: average the learners instead, which is sound for a convex loss.
    largest_loss : float
        See ``Saol``.
    **learners
        Further settings of ``track_metric``, such as ``shrinkage``, ``initial_scale``, ``max_norm`` or ``engine``.

    Examples
    --------
    >>> from ocelad import Pair
    >>> tracker = saol(n_features=2, step_size=0.1, engine="dense")
    >>> tracker.step(Pair([1.0, 0.0], [0.0, 0.0], similar=False)).drawn
    0
    >>> tracker.play()
    Metric(n_features=2, threshold=1, round=1)
    """
    schedule, weighting = Schedule(shortest_interval, n_scales), Saol(largest_loss)
    rice = Rice(finest="reset", loss=loss, step_size=step_size, **learners)
    bank, settings = build_bank(n_features, rice, schedule, starts="scratch", events=events)
    return Ocelad(bank, schedule=schedule, weighting=weighting, seed=seed, settings=settings)
