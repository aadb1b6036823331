"""What happened in a round, and how much each scale counts after it: ``Weighting``, OCELAD's own being ``RescaledRegret``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ocelad._typing import Floats
from ocelad.ensemble.schedule import Scale, Schedule
from ocelad.ensemble.weight_updates import DISCOUNTED, RESCALED, discount, reweigh


@dataclass(frozen=True, slots=True, eq=False)
class RoundInfo:
    """What happened in a round.

    Attributes
    ----------
    round : int
        Its number t = 1, 2, 3, ...
    started : int
        How many scales (0 .. n-1) began a new interval with it.
    losses : array of shape (n_active,)
        What each active learner lost, by the estimate it held before it saw the event.
    probabilities : array of shape (n_active,)
        What the learners' plays were averaged with in this round, or one of them was drawn with.
    drawn : int or None
        The scale whose learner was drawn; None where plays are averaged.
    """

    round: int
    started: int
    losses: Floats
    probabilities: Floats
    drawn: int | None = None

    @property
    def loss(self) -> float:
        """The weighted mean of the losses; where the loss is convex, the ensemble's own loss is at most this.

        Where one learner was drawn, what that one lost.
        """
        return self.played(self.losses)

    def played(self, values: Floats) -> float:
        """Of one value per learner, the weighted mean, or that of the learner that was drawn."""
        return float(self.probabilities @ values if self.drawn is None else values[self.drawn])


class KernelWeighting(NamedTuple):
    """How kernels know a weighing: by its number in ``weights.py``, and the largest loss that it takes."""

    code: int
    largest_loss: float = 1.0


class EnsembleConfig(NamedTuple):
    """What a bank must know to play many rounds by itself."""

    schedule: Schedule
    rates: Floats  # ``eta_I`` of every scale
    kernel_weighting: KernelWeighting
    seed: int | None  # by which one learner is drawn; None: they are averaged


class Weighting(Protocol):
    """What is recorded of each active scale, and the weights that follow from the records.

    Records are the columns of an array, one per active scale, the finest first. Nothing but them is remembered from one
    round to the next, so that they are all that a saved ensemble must keep.

    One whose class has ``kernel_weighting``, a ``KernelWeighting``, is what a kernel computes to the same bits, and faster.
    """

    @property
    def settings(self) -> dict[str, Any]:
        """Its name and what it was made with, as values that JSON can hold."""
        ...

    def begin(self, scale: Scale, t: int) -> Sequence[float]:
        """The record of a scale that starts with round t."""
        ...

    def learn(self, records: Floats, info: RoundInfo, rates: Floats) -> Floats:
        """The records after the round that has passed; those given stay as they are.

        ``rates`` are ``eta_I`` of each active scale, its ``weight_rate``.
        """
        ...

    def weights(self, records: Floats) -> Floats:
        """The weights, at least 0 and one of them above 0, of an array of their own or the records' own row."""
        ...


class RescaledRegret:
    """OCELAD's own weighing: a weight grows by the regret, relative to the largest of the round (equation 5).

    >>> import numpy as np
    >>> weighting, halves = RescaledRegret(), np.array([0.5, 0.5])
    >>> info = RoundInfo(round=2, started=2, losses=np.array([3.0, 1.0]), probabilities=halves)
    >>> weighting.weights(weighting.learn(halves.reshape(1, 2), info, rates=halves))
    array([0.25, 0.75])
    """

    kernel_weighting = KernelWeighting(RESCALED)

    @property
    def settings(self) -> dict[str, Any]:
        """Its name."""
        return {"name": "rescaled"}

    def begin(self, scale: Scale, t: int) -> Sequence[float]:
        """``eta_I``."""
        return (scale.weight_rate,)

    def learn(self, records: Floats, info: RoundInfo, rates: Floats) -> Floats:
        """``w <- w (1 + eta_I r / max|r|)``; r is the weighted mean of the losses minus the own one, drawn or not."""
        records = records.copy()
        reweigh(records[0], rates, info.losses, len(info.losses))
        return records

    def weights(self, records: Floats) -> Floats:
        """The records are the weights."""
        weights: Floats = records[0]
        return weights


class DiscountedHedge:
    """Exponential weights of losses that are forgotten over about 64 rounds: for experts that all run all the time.

    Who was best lately counts most, and nobody is ever lost sight of.

    >>> import numpy as np
    >>> weighting = DiscountedHedge()
    >>> records = np.transpose([weighting.begin(Scale(j, 1), t=1) for j in (0, 1)])
    >>> info = RoundInfo(round=1, started=2, losses=np.array([0.1, 1.1]), probabilities=np.full(2, 0.5))
    >>> weighting.weights(weighting.learn(records, info, rates=np.full(2, 0.5))).round(3)
    array([1.   , 0.368])
    """

    horizon = 64.0
    kernel_weighting = KernelWeighting(DISCOUNTED, horizon)

    @property
    def settings(self) -> dict[str, Any]:
        """Its name and horizon."""
        return {"name": "discounted", "horizon": self.horizon}

    def begin(self, scale: Scale, t: int) -> Sequence[float]:
        """Nothing lost, and a weight of 1."""
        return 0.0, 1.0

    def learn(self, records: Floats, info: RoundInfo, rates: Floats) -> Floats:
        """``log w <- (1 - 1/horizon) log w - loss``, relative to the best."""
        records = records.copy()
        discount(records, info.losses, len(info.losses), self.horizon)
        return records

    def weights(self, records: Floats) -> Floats:
        """The weights are in the records: exponentials, made once, are the same wherever they are used."""
        weights: Floats = records[1]
        return weights
