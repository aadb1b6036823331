"""The base classes of the banks that play a metric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ocelad.ensemble.bank import RoundState
from ocelad.metric import Metric


class MetricBank(ABC):
    """A bank that plays a metric.

    Attributes
    ----------
    engine : str
        The name of the engine that computes it.
    expert_names : tuple of str, or None
        The names of the experts, in the order of their weights; None if each expert is the learner of a scale.
    """

    engine: str
    expert_names: tuple[str, ...] | None = None

    @property
    def n_cuts(self) -> int:
        """The number of directions that ``max_rank`` has removed; 0 without a rank bound."""
        return 0


class MetricLearnerBank(MetricBank):
    """A bank with one metric learner per scale, whose metrics can be read and replaced."""

    @abstractmethod
    def metrics(self, round_state: RoundState) -> list[Metric]:
        """Return the metrics of the active learners, the finest scale first."""

    @abstractmethod
    def with_metrics(self, metrics: Sequence[Metric], round_state: RoundState) -> Any:
        """Return a bank for this round whose learners hold these metrics, the finest scale first.

        ``self`` must have started round 1 and must not be used afterwards.
        """
