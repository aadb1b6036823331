"""The result of a round (``RoundInfo``) and the weightings: OCELAD's ``RescaledRegret``, and ``DiscountedHedge``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ocelad._typing import Floats
from ocelad.ensemble.schedule import Scale, Schedule
from ocelad.ensemble.weight_updates import DISCOUNTED, RESCALED, WEIGHT, discounted_update, rescaled_regret_update


@dataclass(frozen=True, slots=True, eq=False)
class RoundInfo:
    """The result of a round.

    Attributes
    ----------
    round : int
        The round number t = 1, 2, 3, ...
    started : int
        The number of scales (0 .. n-1) that started a new interval in this round.
    losses : array of shape (n_active,)
        The loss of each active learner, for the estimate that it held before it saw the event.
    probabilities : array of shape (n_active,)
        The probabilities with which the learners' plays were averaged, or one learner was drawn.
    drawn : int or None
        The scale of the drawn learner; None if the plays are averaged.
    """

    round: int
    started: int
    losses: Floats
    probabilities: Floats
    drawn: int | None = None

    @property
    def loss(self) -> float:
        """The weighted mean of the losses, or the loss of the drawn learner.

        If the loss is convex, the loss of the averaged play is at most the weighted mean.
        """
        return self.ensemble_value(self.losses)

    def ensemble_value(self, values: Floats) -> float:
        """Return the weighted mean of the learners' values, or the value of the drawn learner."""
        return float(self.probabilities @ values if self.drawn is None else values[self.drawn])


class KernelWeighting(NamedTuple):
    """A weighting as kernels compute it: its code in ``weight_updates``, and its parameters."""

    code: int
    largest_loss: float = 1.0  # SAOL and CBCE clip losses to [0, largest_loss]
    horizon: float = inf  # the number of rounds over which DISCOUNTED forgets losses


class EnsembleConfig(NamedTuple):
    """The settings of an ensemble that a bank needs to play many rounds at once."""

    schedule: Schedule
    rates: Floats  # eta_I of every scale
    kernel_weighting: KernelWeighting
    seed: int | None  # the seed of the draws; None: the learners are averaged


@runtime_checkable
class Weighting(Protocol):
    """A rule that computes the weights of the active scales from their records.

    The records are the columns of an array, one per active scale, the finest scale first. They are the only memory of a
    weighting, so a saved ensemble needs nothing else.
    """

    @property
    def settings(self) -> dict[str, Any]:
        """The name and the parameters of the weighting, as JSON values."""
        ...

    def begin(self, scale: Scale, t: int) -> Sequence[float]:
        """Return the record of a scale that starts at round t."""
        ...

    def learn(self, records: Floats, info: RoundInfo, rates: Floats) -> Floats:
        """Return the records after a round, as a new array.

        ``rates`` holds the ``weight_rate`` of each active scale.
        """
        ...

    def weights(self, records: Floats) -> Floats:
        """Return the weights, as a new array or as a row of the records.

        No weight is negative, and at least one is positive.
        """
        ...


@runtime_checkable
class CompiledWeighting(Weighting, Protocol):
    """A weighting that kernels compute too, to the same bits."""

    @property
    def kernel_weighting(self) -> KernelWeighting | None:
        """The parameters for kernels; None if kernels cannot compute the weighting.

        A subclass that computes other weights must override this.
        """
        ...


class RescaledRegret:
    """OCELAD's weighting: a weight grows with the regret relative to the largest regret of the round (equation 5).

    >>> import numpy as np
    >>> weighting, halves = RescaledRegret(), np.array([0.5, 0.5])
    >>> info = RoundInfo(round=2, started=2, losses=np.array([3.0, 1.0]), probabilities=halves)
    >>> weighting.weights(weighting.learn(halves.reshape(1, 2), info, rates=halves))
    array([0.25, 0.75])
    """

    @property
    def kernel_weighting(self) -> KernelWeighting | None:
        """The parameters for kernels; None for a subclass, which may compute other weights."""
        return KernelWeighting(RESCALED) if type(self) is RescaledRegret else None

    @property
    def settings(self) -> dict[str, Any]:
        """The name of the weighting."""
        return {"name": "rescaled"}

    def begin(self, scale: Scale, t: int) -> Sequence[float]:
        """Return ``eta_I``."""
        return (scale.weight_rate,)

    def learn(self, records: Floats, info: RoundInfo, rates: Floats) -> Floats:
        """Compute ``w <- w (1 + eta_I r / max|r|)``.

        r is the weighted mean loss minus the learner's loss, also if a learner is drawn.
        """
        records = records.copy()
        rescaled_regret_update(records[0], rates, info.losses, len(info.losses))
        return records

    def weights(self, records: Floats) -> Floats:
        """Return the only row of the records."""
        weights: Floats = records[0]
        return weights


class DiscountedHedge:
    """Exponential weights of discounted losses, for experts that are always active.

    Losses are forgotten over about 64 rounds, and no weight falls below exp(-12) of the largest one.

    >>> import numpy as np
    >>> weighting = DiscountedHedge()
    >>> records = np.transpose([weighting.begin(Scale(j, 1), t=1) for j in (0, 1)])
    >>> info = RoundInfo(round=1, started=2, losses=np.array([0.1, 1.1]), probabilities=np.full(2, 0.5))
    >>> weighting.weights(weighting.learn(records, info, rates=np.full(2, 0.5))).round(3)
    array([1.   , 0.368])
    """

    horizon = 64.0

    @property
    def kernel_weighting(self) -> KernelWeighting | None:
        """The parameters for kernels; None for a subclass, which may compute other weights."""
        return KernelWeighting(DISCOUNTED, horizon=self.horizon) if type(self) is DiscountedHedge else None

    @property
    def settings(self) -> dict[str, Any]:
        """The name and the horizon of the weighting."""
        return {"name": "discounted", "horizon": self.horizon}

    def begin(self, scale: Scale, t: int) -> Sequence[float]:
        """Return a log weight of 0 and a weight of 1."""
        return 0.0, 1.0

    def learn(self, records: Floats, info: RoundInfo, rates: Floats) -> Floats:
        """Compute ``log w <- (1 - 1/horizon) log w - loss``, relative to the largest log weight."""
        records = records.copy()
        discounted_update(records, info.losses, len(info.losses), self.horizon)
        return records

    def weights(self, records: Floats) -> Floats:
        """Return the row of weights; the records hold them so that ``exp`` is evaluated in one place only."""
        weights: Floats = records[WEIGHT]
        return weights
