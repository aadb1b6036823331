"""Tracker: what estimators and the service ask of a tracker of a metric; and RiceTracker, that of RICE-OCELAD."""

from __future__ import annotations

from copy import copy
from typing import Any, Protocol, Self, cast

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.engines.metric_bank import MetricBank
from ocelad.ensemble.ocelad import Ocelad
from ocelad.metric import Metric
from ocelad.pairs import Events, Relatives


class Tracker(Protocol):
    """Learns a metric from events, one round per event. ``copy.copy`` returns an independent copy.

    Attributes
    ----------
    settings : dict
        The settings as saved state holds them; includes ``n_features``.
    n_features, n_rounds, n_cuts : int
        Numbers of features, of rounds played, and of directions that a rank bound has removed.
    engine : str
        The name of the implementation.
    expert_names : tuple of str
    expert_weights : array of shape (n_experts,)
        They sum to 1.
    """

    @property
    def settings(self) -> dict[str, Any]: ...

    @property
    def n_features(self) -> int: ...

    @property
    def n_rounds(self) -> int: ...

    @property
    def n_cuts(self) -> int: ...

    @property
    def engine(self) -> str: ...

    @property
    def expert_names(self) -> tuple[str, ...]: ...

    @property
    def expert_weights(self) -> Floats: ...

    def replay(self, events: Events | Relatives, weights: Floats | None = None) -> Floats:
        """Play one round per event; return the margin of each event before it was learned from."""
        ...

    def step(self, event: Any, weight: float = 1.0) -> Any:
        """Play one round."""
        ...

    def play(self) -> Metric:
        """Return the current metric."""
        ...

    def log_odds(self, U: Any) -> Floats:
        """Return the log odds of "same" for each difference, a row of U."""
        ...

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything that later rounds depend on."""
        ...

    def restore(self, arrays: Arrays, metadata: Metadata) -> None:
        """Continue from what ``state`` returned; this tracker must not have played a round yet."""
        ...


class RiceTracker:
    """The ``Tracker`` of an ``Ocelad`` that ``track_metric`` created.

    Parameters
    ----------
    ocelad : Ocelad
    """

    def __init__(self, ocelad: Ocelad[Any, Metric]) -> None:
        self.ocelad = ocelad

    def __copy__(self) -> Self:
        return type(self)(copy(self.ocelad))  # a shallow copy: a replay replaces the attributes of the ensemble

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the ensemble."""
        return self.ocelad.settings

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.ocelad.settings["n_features"])

    @property
    def n_rounds(self) -> int:
        """The number of rounds played."""
        return self.ocelad.n_rounds

    @property
    def n_cuts(self) -> int:
        """The number of directions that ``max_rank`` has removed."""
        return self._bank.n_cuts

    @property
    def engine(self) -> str:
        """The engine that computes all learners."""
        return self._bank.engine

    @property
    def expert_names(self) -> tuple[str, ...]:
        """The interval length of each active scale, the finest first."""
        schedule = self.ocelad.schedule
        return tuple(str(schedule.scale(j).length) for j in range(self.ocelad.round_state.n_active))

    @property
    def expert_weights(self) -> Floats:
        """The weight of each active scale; they sum to 1."""
        return self.ocelad.round_state.probabilities

    @property
    def _bank(self) -> MetricBank:
        return cast(MetricBank, self.ocelad.bank)

    def replay(self, events: Events | Relatives, weights: Floats | None = None) -> Floats:
        """Play one round per event; return the margin of each event before it was learned from."""
        _refuse_weights(weights)
        return np.asarray(self.ocelad.replay(events))

    def step(self, event: Any, weight: float = 1.0) -> Any:
        """Play one round."""
        _refuse_weights(None if weight == 1.0 else np.array([weight]))
        return self.ocelad.step(event)

    def play(self) -> Metric:
        """Return the current metric."""
        return self.ocelad.play()

    def log_odds(self, U: Any) -> Floats:
        """Return the margin ``mu - d^2`` of each difference, which the logistic loss treats as log odds."""
        metric = self.play()
        return np.asarray(metric.threshold - metric.squared_length(U))

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything that later rounds depend on."""
        return self.ocelad.state()

    def restore(self, arrays: Arrays, metadata: Metadata) -> None:
        """Continue from what ``state`` returned."""
        self.ocelad.restore(arrays, metadata)


def _refuse_weights(weights: Floats | None) -> None:
    if weights is not None and (np.asarray(weights) != 1.0).any():
        raise ValueError("sample_weight needs method='adaptive'; the method 'rice' has no weights of pairs")
