"""ComidExperts: COMID learners with several step sizes, run by the engines of RICE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad.engines.fullrank_bank import FullRankBank
from ocelad.engines.lowrank_bank import LowRankBank
from ocelad.ensemble.bank import RoundState
from ocelad.ensemble.schedule import FixedExperts
from ocelad.pairs import Event


class ComidExperts:
    """Learners that start at the Euclidean distance of differences with a mean squared length of n.

    Parameters
    ----------
    n_features : int
    steps : sequence of float
        Step sizes, in units of 1 / n^2.
    max_rank : int or None
        Number of directions in which a learner's matrix differs from a multiple of the identity; None: no limit.
    """

    def __init__(self, n_features: int, steps: Sequence[float], max_rank: int | None) -> None:
        self._steps, self._round = tuple(steps), 1
        schedule = FixedExperts(self._steps)
        common: dict[str, Any] = {
            "initial_scale": 1.0 / n_features,
            "initial_threshold": 1.0,
            "step_size": 1.0 / n_features**2,
            "loss": "logistic",
            "max_norm": None,
            "finest": "reset",
            "starts": "scratch",
        }
        bank: Any
        if max_rank is None:
            bank = FullRankBank(n_features, schedule, **common)
        else:
            bank = LowRankBank(n_features, schedule, shrinkage=0.0, max_rank=max_rank, **common)
        scales = tuple(schedule.scale(j) for j in range(len(self._steps)))
        self._bank = bank.start(RoundState(1, scales, np.ones(len(scales)), np.empty(0)))

    def measure_and_learn(self, x: Floats, y: float) -> Floats:
        """Update every learner on the pair; return its squared distance by each of them before the update."""
        thresholds = np.array([self._learner(k).threshold for k in range(len(self._steps))])
        weights = np.ones(len(self._steps))
        _, self._bank = self._bank.observe(Event(x, y), RoundState(self._round, (), weights, weights))
        self._round += 1
        return np.maximum(thresholds - y * self._bank.last_margins, 0.0)  # type: ignore[no-any-return]

    def _learner(self, k: int) -> Any:
        one_hot = np.eye(len(self._steps))[k]
        return self._bank.mix(RoundState(self._round, (), one_hot, one_hot))

    @property
    def matrices(self) -> list[Floats]:
        """The matrix of each learner's squared distance."""
        return [np.asarray(self._learner(k).matrix) for k in range(len(self._steps))]
