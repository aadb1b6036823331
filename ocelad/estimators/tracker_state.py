"""TrackerState: the fitted part of an estimator."""

from __future__ import annotations

from copy import copy
from typing import Any

from ocelad.ensemble.ocelad import Ocelad
from ocelad.estimators.learning_method import Method, method_settings, start_tracker
from ocelad.io import dataframes
from ocelad.metric import Metric
from ocelad.pairs import Events, EventsName, Relatives


class TrackerState:
    """A tracker, the settings it was created with, the names of the features, and a cache of its metric.

    Parameters
    ----------
    ocelad : Ocelad
        The tracker.
    settings : dict
        The result of ``method_settings``.
    names : tuple of str, or None
        The names of the features, if known.
    """

    def __init__(self, ocelad: Ocelad[Any, Metric], settings: dict[str, Any], names: tuple[str, ...] | None) -> None:
        self.ocelad = ocelad
        self.n_features = int(ocelad.settings["n_features"])
        self.settings = settings
        self.names = names
        self._metric: Metric | None = None
        self._replacement: Metric | None = None

    @classmethod
    def start(
        cls,
        method: Method,
        n_features: int,
        *,
        sparse: bool = False,
        events: EventsName = "pairs",
        names: tuple[str, ...] | None = None,
    ) -> TrackerState:
        """Create the state before the first event."""
        settings = method_settings(method)
        return cls(start_tracker(method, n_features, sparse=sparse, events=events), settings, names)

    def learn(self, events: Events | Relatives, names: tuple[str, ...] | None = None) -> tuple[TrackerState, Any]:
        """Return the state after more events, and the margin of each event before it was learned from.

        This state does not change, so that a refused event has no effect. ``names`` are those of the events' features.
        """
        dataframes.check_feature_names(names, self.names, "the table")
        state = self._copy()
        return state, state.ocelad.replay(events)

    def with_metric(self, metric: Metric) -> TrackerState:
        """Return a state that reports another metric until the next round."""
        state = self._copy()
        state._metric = state._replacement = metric
        return state

    @property
    def has_learned_metric(self) -> bool:
        """Whether ``metric`` is the learned one, not one given to ``with_metric``."""
        return self._replacement is None or self._replacement.round != self.ocelad.n_rounds

    def metric(self) -> Metric:
        """Return the current metric. It is averaged over the learners on the first call of each round."""
        if self._metric is None or self._metric.round != self.ocelad.n_rounds:
            self._metric = self.ocelad.play()
        return self._metric

    def check_settings(self, method: Method) -> None:
        """Refuse settings that differ from those the tracker was created with."""
        for name, value in method_settings(method).items():
            if value != self.settings[name]:
                raise ValueError(
                    f"{name} was changed from {self.settings[name]!r} to {value!r} after the first pairs; "
                    "call fit to start again with it, or set it back"
                )

    def _copy(self) -> TrackerState:
        # A shallow copy is enough: a replay replaces the attributes of the tracker and does not modify their values.
        return TrackerState(copy(self.ocelad), self.settings, self.names)
