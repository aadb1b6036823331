"""TrackerState: the fitted part of an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from threading import RLock
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import are_boolean, dissimilar_label
from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.curved_metric import AnyMetric
from ocelad.estimators.learning_method import AnyTracker, Method, method_settings, start_tracker
from ocelad.implied_answers import Answer, ImpliedAnswers, ItemPoints
from ocelad.io import dataframes
from ocelad.metric import Metric
from ocelad.pairs import Events, EventsName, PointPairs, Relatives


class SeenLabels(NamedTuple):
    """What the labels so far have been.

    Attributes
    ----------
    dissimilar : float or None
        The number that has stood for "dissimilar", 0 or -1; None: neither.
    are_boolean : bool or None
        Whether all of them were booleans; None: there were none.
    """

    dissimilar: float | None = None
    are_boolean: bool | None = None

    def with_more(self, labels: Any) -> SeenLabels:
        """Return what the labels have been after further valid ones, one or many; refuse 0 after -1, and the reverse.

        >>> SeenLabels().with_more([True, False]).with_more(0)
        SeenLabels(dissimilar=0.0, are_boolean=False)
        """
        code = dissimilar_label(labels)
        if code is not None and self.dissimilar not in (None, code):
            raise ValueError(
                f"y holds {code:g} for dissimilar pairs, but earlier labels held {self.dissimilar:g}; accepted: one of "
                "the two, or booleans"
            )
        return SeenLabels(
            self.dissimilar if code is None else code, self.are_boolean is not False and are_boolean(labels)
        )

    @property
    def classes(self) -> np.ndarray:
        """The labels of dissimilar and of similar pairs."""
        if self.are_boolean:
            return np.array([False, True])
        return np.array([-1 if self.dissimilar is None else int(self.dissimilar), 1])


class TrackerState:
    """A tracker, the settings it was created with, the names of the features, and a cache of its metric.

    Parameters
    ----------
    tracker : Tracker or CurvedTracker
    settings : dict
        The result of ``method_settings``.
    names : tuple of str, or None
        The names of the features, if known.
    """

    def __init__(self, tracker: AnyTracker, settings: dict[str, Any], names: tuple[str, ...] | None) -> None:
        self.tracker = tracker
        self.n_features = tracker.n_features
        self.settings = settings
        self.names = names
        self.labels = SeenLabels()
        #: What answers about items by id imply; None: nothing.
        self.implied: ImpliedAnswers | None = None
        self._metric: AnyMetric | None = None
        self._replacement: Metric | None = None
        #: Held while the tracker learns in place, and while its metric is computed.
        self.lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= {**state, "lock": RLock()}

    @classmethod
    def start(
        cls,
        method: Method,
        n_features: int,
        *,
        sparse: bool = False,
        events: EventsName = "pairs",
        names: tuple[str, ...] | None = None,
        curved: bool = False,
        items: Any = None,
        own_map: Any = None,
    ) -> TrackerState:
        """Create the state before the first event.

        ``items`` are points without labels, if they are known; see ``CurvedTracker`` for ``own_map``.
        """
        settings = method_settings(method)
        if curved:
            tracker = CurvedTracker(n_features, sparse=sparse, items=items, own_map=own_map)
            return cls(tracker, settings, names)
        return cls(start_tracker(method, n_features, sparse=sparse, events=events, items=items), settings, names)

    def with_implied_answers(self) -> TrackerState:
        """Return the state, before the first event, of a tracker for which answers about items imply others."""
        assert isinstance(self.tracker, AdaptiveTracker | CurvedTracker)
        state = copy(self)
        state.tracker, state.implied = self.tracker.with_groups(), ImpliedAnswers()
        return state

    @property
    def curved(self) -> bool:
        """Whether the tracker learns from points, and its distance has a curved part."""
        return isinstance(self.tracker, CurvedTracker)

    @property
    def own_map(self) -> Any:
        """The feature map that the user gave; None if landmarks are drawn."""
        return self.tracker.own_map if isinstance(self.tracker, CurvedTracker) else None

    def learn(
        self,
        events: Events | Relatives | PointPairs,
        names: tuple[str, ...] | None = None,
        weights: Floats | None = None,
    ) -> tuple[TrackerState, Floats]:
        """Return the state after more events, and the margin of each event before it was learned from.

        This state does not change, so that a refused event has no effect. ``names`` are those of the events' features,
        ``weights`` the weights of the events.
        """
        dataframes.check_feature_names(names, self.names, "the table")
        state = copy(self)
        return state, state.replay(events, weights)

    def replay(self, events: Events | Relatives | PointPairs, weights: Floats | None) -> Floats:
        """Let this state's tracker learn from more events; return the margin of each before it was learned from."""
        tracker, n_before = self.tracker, self.tracker.n_rounds
        if isinstance(tracker, CurvedTracker):
            assert isinstance(events, PointPairs)
            margins = tracker.replay(events, weights)
        else:
            assert not isinstance(events, PointPairs)
            margins = tracker.replay(events, weights)
        if self.implied is not None:
            assert isinstance(tracker, AdaptiveTracker | CurvedTracker)
            self.implied.follow_points(tracker, since=n_before)
        return margins

    def learn_by_id(self, answers: Sequence[Answer], items: ItemPoints) -> Floats:
        """Let this state's tracker learn from answers about items, which have been checked, and from what they imply.

        Returns the margin of each answer before it was learned from.
        """
        assert self.implied is not None
        assert isinstance(self.tracker, AdaptiveTracker | CurvedTracker)
        margins = [self.implied.learn(self.tracker, answer, items) for answer in answers]
        self.implied.update(self.tracker, items)
        return np.array(margins)

    def with_metric(self, metric: Metric) -> TrackerState:
        """Return a state that reports another metric until the next round."""
        state = copy(self)
        state._metric = state._replacement = metric
        return state

    @property
    def has_learned_metric(self) -> bool:
        """Whether ``metric`` is the learned one, not one given to ``with_metric``."""
        return self._replacement is None or self._replacement.round != self.tracker.n_rounds

    def metric(self) -> AnyMetric:
        """Return the current metric. It is averaged over the learners on the first call of each round."""
        with self.lock:
            if self._metric is None or self._metric.round != self.tracker.n_rounds:
                self._metric = self.tracker.play()
            return self._metric

    def check_settings(self, method: Method) -> None:
        """Refuse settings that differ from those the tracker was created with."""
        for name, value in method_settings(method).items():
            if value != self.settings[name]:
                raise ValueError(
                    f"{name} was changed from {self.settings[name]!r} to {value!r} after the first pairs; "
                    "call fit to start again with it, or set it back"
                )

    def __copy__(self) -> TrackerState:
        state = TrackerState(copy(self.tracker), self.settings, self.names)
        state.labels = self.labels
        state.implied = None if self.implied is None else self.implied.copy()
        return state
