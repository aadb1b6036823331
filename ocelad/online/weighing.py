"""Weighing: how much each scale counts, by what its learner has lost since it started; OCELAD's own is ``Rescaled``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ocelad.checks import Floats
from ocelad.online.dyadic import Scale
from ocelad.online.weights import reweigh


class Weighing(Protocol):
    """What is recorded of each active scale, and the weights that follow from the records.

    Records are the columns of an array, one per active scale, the finest first. Nothing but them is remembered from one
    round to the next, so that they are all that a saved ensemble must keep.
    """

    @property
    def settings(self) -> dict[str, Any]:
        """Its name and what it was made with, as values that JSON can hold."""
        ...

    def begin(self, scale: Scale, t: int) -> Sequence[float]:
        """The record of a scale that starts with round t."""
        ...

    def learn(self, records: Floats, shares: Floats, losses: Floats, rates: Floats) -> Floats:
        """The records after a round; those given stay as they are.

        Parameters
        ----------
        records : array of shape (n_rows, n_active)
        shares : array of shape (n_active,)
            What was played, as shares of the learners: the probabilities, or 1 for the learner that was drawn.
        losses : array of shape (n_active,)
        rates : array of shape (n_active,)
            ``eta_I`` of each scale, its ``weight_rate``.
        """
        ...

    def weights(self, records: Floats) -> Floats:
        """The weights, at least 0 and one of them above 0, of an array of their own or the records' own row."""
        ...


class Rescaled:
    """OCELAD's own weighing: a weight grows by the regret, relative to the largest of the round (equation 5).

    >>> import numpy as np
    >>> weighing = Rescaled()
    >>> halves, losses = np.array([0.5, 0.5]), np.array([3.0, 1.0])
    >>> weighing.weights(weighing.learn(halves.reshape(1, 2), halves, losses, halves))
    array([0.25, 0.75])
    """

    @property
    def settings(self) -> dict[str, Any]:
        """Its name."""
        return {"name": "rescaled"}

    def begin(self, scale: Scale, t: int) -> Sequence[float]:
        """``eta_I``."""
        return (scale.weight_rate,)

    def learn(self, records: Floats, shares: Floats, losses: Floats, rates: Floats) -> Floats:
        """``w <- w (1 + eta_I r / max|r|)``; the mean that regrets are taken to is weighed by the weights."""
        records = records.copy()
        reweigh(records[0], rates, losses, len(losses))
        return records

    def weights(self, records: Floats) -> Floats:
        """The records are the weights."""
        weights: Floats = records[0]
        return weights
