"""AdaptiveTracker: the tracker of the adaptive method, which computes the first rounds without compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from math import isfinite
from typing import Any, Literal, NamedTuple, Self, TypeAlias, cast, get_args

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_array, check_choice, check_integer, check_sparse, check_weights, is_sparse
from ocelad.adaptive.changes import Change
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.decisions import DecisionThresholds
from ocelad.adaptive.group_discriminant import Grouping, linear_discriminant
from ocelad.adaptive.mixture import SNAPSHOT_PERIOD, Mixture
from ocelad.adaptive.own_experts import OwnExpert, check_names_are_free, check_own_experts
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.adaptive.split_metric import PointMetric, SplitMetric
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.metric import Metric
from ocelad.pairs import (
    Event,
    Events,
    EventsName,
    Pair,
    PointPairs,
    Relative,
    Relatives,
    as_event,
    as_relative,
    subtract,
)

#: Rounds that the definition computes even if compiled code is ready: loading that takes longer.
PLAIN_ROUNDS = 64
#: Seconds that the definition may take before a process compiles the kernels, which takes half a minute once.
PLAIN_SECONDS = 4.0
# Larger differences could overflow; of smaller ones the squares could be 0, and they count as 0.
MAX_DIFFERENCE, MIN_DIFFERENCE = 1e75, 1e-140
#: Version of the saved state.
STATE_VERSION = 3
#: The experts of groups of items, by points and by curved features.
DISCRIMINANTS = ("groups", "curved groups")


#: What events are learned for: as answers, with or without a test for changes, or as implied pairs.
Role: TypeAlias = Literal["answers", "untested answers", "learn implied", "weigh implied", "renew curved"]


class _PlayedPart(NamedTuple):
    """Events that the definition has learned from, with their weights, and the discriminants that measured them."""

    events: Events | Relatives
    weights: Floats
    discriminants: tuple[PointMetric | None, ...] = ()
    role: Role = "answers"
    transport: Floats | None = None  # of renewed curved features; see Mixture.renew_curved


class AdaptiveTracker:
    """Tracks a metric with the ensemble of calibrated distances (``Mixture``); it has no settings to tune.

    The definition, in plain NumPy, plays the first rounds and further ones until compiled code is ready. Compiled code
    then plays all rounds again from the first one, and the definition's state is discarded. So what was learned never
    depends on when compiled code became ready.

    Parameters
    ----------
    n_features : int
    sparse : bool
        Whether differences are sparse.
    events : {"pairs", "relatives"}
    config : AdaptiveConfig or None
        The constants of the method, for ablations.
    experts : sequence of OwnExpert
        Distances of your own that join the ensemble; for dense pairs. Each tracker uses copies of them.
    n_curved : int
        The number of curved features, the last of the ``n_features``; see ``CurvedTracker``.
    rehearsal : Events or None
        Differences of items, whose answers have no meaning: the scales and moments of all pairs learn from them before
        the first round.
    grouped : bool
        Whether discriminants of groups of items join the ensemble; ``set_discriminants`` sets them.
    prior : SharedPrior or None
        A metric that others have learned; for pairs without curved features.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> U = 1e6 * rng.normal(size=(500, 3))  # any unit will do
    >>> y = np.where(abs(U[:, 0]) < 5e5, 1.0, -1.0)  # only the first feature is informative
    >>> tracker = AdaptiveTracker(n_features=3)
    >>> margins = tracker.replay(Events(U, y))
    >>> bool(np.mean(margins[100:] > 0) > 0.8)
    True
    """

    engine = "adaptive"
    n_cuts = 0

    def __init__(
        self,
        n_features: int,
        *,
        sparse: bool = False,
        events: EventsName = "pairs",
        config: AdaptiveConfig | None = None,
        experts: Sequence[OwnExpert] = (),
        n_curved: int = 0,
        rehearsal: Events | None = None,
        grouped: bool = False,
        prior: SharedPrior | None = None,
    ) -> None:
        self.n_features = check_integer(n_features, "n_features", at_least=1)
        self._sparse = check_choice(sparse, "sparse", (False, True))
        self._events: EventsName = check_choice(events, "events", ("pairs", "relatives"))
        self._config, self._experts = config, check_own_experts(experts, self.n_features)
        self._grouped = check_choice(grouped, "grouped", (False, True))
        self._n_curved = check_integer(n_curved, "n_curved", at_least=0, at_most=self.n_features - 1)
        if self._experts and (sparse or events == "relatives" or n_curved or grouped):
            raise ValueError(
                "experts of your own accept dense pairs only: no sparse ones, no comparisons, no curved features, no "
                "groups"
            )
        if prior is not None and (events == "relatives" or n_curved):
            raise ValueError("a prior is for pairs without curved features")
        if prior is not None and prior.metric.n_features != self.n_features:
            raise ValueError(f"the prior has {prior.metric.n_features} features; {self.n_features} are expected")
        self._prior = prior
        self._rehearsal: Events | None = None if rehearsal is None else self._checked_events(rehearsal)
        self._mixture, self._decisions = self._new_mixture(compiled=False), DecisionThresholds()
        check_names_are_free(self._experts, self._mixture.expert_names)
        self._is_compiled = False
        self._pending: tuple[_PlayedPart, ...] = ()  # the rounds that the definition has played

    def _new_mixture(self, compiled: bool) -> Mixture:
        mixture = Mixture(
            self.n_features,
            self._config,
            sparse=self._sparse,
            events=self._events,
            compiled=compiled,
            experts=deepcopy(self._experts),
            n_curved=self._n_curved,
            discriminants=DISCRIMINANTS[: 2 if self._n_curved else 1] if self._grouped else (),
        )
        if self._rehearsal is not None:
            mixture.rehearse(self._rehearsal)
        if self._prior is not None:
            mixture.begin_with(self._prior)
        return mixture

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._mixture, other._decisions = deepcopy(self._mixture), deepcopy(self._decisions)
        return other

    def with_groups(self) -> Self:
        """Return a tracker with discriminants of groups among its experts; this one must not have played a round."""
        if self.n_rounds > 0 or self._experts or self._sparse or self._events == "relatives":
            raise ValueError("groups are for dense pairs without experts of your own, before the first round")
        other = copy(self)
        other._grouped, other._is_compiled = True, False
        other._mixture = other._new_mixture(compiled=False)
        return other

    # Learning.

    def replay(self, events: Events | Relatives, weights: Floats | None = None, *, test_changes: bool = True) -> Floats:
        """Play one round per event; return the margin of each event before it was learned from.

        The margin is the label times the log odds of "same"; of a relative comparison, the log odds that near is
        nearer than far.

        Parameters
        ----------
        events : Events or Relatives
        weights : array of shape (n_events,), or None
            The weight of each event's loss; None: 1.
        test_changes : bool
            Whether the change test sees the events. It should not see pairs that were chosen because of other answers.
        """
        events = self._checked_events(events)
        checked_weights = check_weights(weights, len(events))
        # Pending rounds are played again, and the caller may change its array before.
        weights = np.ones(len(events)) if checked_weights is None else checked_weights.copy()
        if self._experts:  # one that raises an error must not leave a block half learned
            other = copy(self)
            margins = other._replay(events, weights, test_changes)
            self.__dict__.update(other.__dict__)
            return margins
        return self._replay(events, weights, test_changes)

    def _replay(self, events: Events | Relatives, weights: Floats, test_changes: bool) -> Floats:
        log_odds, done = np.empty(len(events)), 0
        while done < len(events):
            if not self._is_compiled and self.n_rounds + len(events) - done > PLAIN_ROUNDS:
                self._hand_over(planned=self.n_rounds + len(events) - done)
            last = len(events) if self._is_compiled else min(len(events), done + SNAPSHOT_PERIOD)
            part = events if last - done == len(events) else events[done:last]
            part_weights = weights[done:last]
            discriminants = tuple(self._mixture.discriminants)
            role: Role = "answers" if test_changes else "untested answers"
            log_odds[done:last] = self._play_and_record(_PlayedPart(part, part_weights, discriminants, role))
            done = last
        return log_odds * events.y if isinstance(events, Events) else log_odds

    def _play_and_record(self, part: _PlayedPart) -> Floats:
        """Learn from a part of the stream, and record it while it must be played again; return the predictions."""
        log_odds = self._play(part)
        if not self._is_compiled:
            self._pending = (*self._pending, part)
        return log_odds

    def _play(self, part: _PlayedPart) -> Floats:
        """Learn from events, and let the decisions learn from the predictions of answers; return the predictions."""
        events, weights = part.events, part.weights
        self._mixture.discriminants = list(part.discriminants)
        if part.transport is not None:
            assert isinstance(events, Events)
            self._mixture.renew_curved(events, weights, part.transport)
            self.n_features, self._n_curved = events.n_features, part.transport.shape[1]
            return np.empty(0)
        if part.role in ("learn implied", "weigh implied"):
            assert isinstance(events, Events)
            learn = self._mixture.learn_implied if part.role == "learn implied" else self._mixture.weigh_implied
            learn(events, weights)
            return np.empty(0)
        log_odds = self._mixture.play(events, weights, test_changes=part.role == "answers")
        if isinstance(events, Relatives):
            return log_odds
        decisions = self._decisions
        if self._is_compiled:
            from ocelad.adaptive.kernels.decisions import play_decisions

            play_decisions(decisions.bins, decisions.levels, decisions.clock, log_odds, events.y, weights)
        else:
            for prediction, y, weight in zip(log_odds.tolist(), events.y.tolist(), weights.tolist(), strict=True):
                decisions.update(prediction, y, weight)
        return log_odds

    def step(self, event: Event | Pair | Relative, weight: float = 1.0) -> float:
        """Play one round; return the margin of the event before it was learned from."""
        if self._events == "relatives":
            relative = as_relative(event, self.n_features)
            return float(self.replay(Relatives(relative.near[None], relative.far[None]), np.array([weight]))[0])
        u, y = as_event(event, self.n_features)
        # Pending rounds are played again, and the caller may change its array before.
        checked = Event(u.copy() if isinstance(u, np.ndarray) else u, y)
        return float(self.replay(Events.from_event(checked), np.array([weight]))[0])

    def find_discriminants(
        self, points: Floats, grouping: Grouping, reference: Floats
    ) -> tuple[PointMetric | None, ...]:
        """Return the discriminants of groups of points, for ``set_discriminants``."""
        return (linear_discriminant(points, grouping, reference),) if self._grouped else ()

    def set_discriminants(self, metrics: Sequence[PointMetric | None]) -> None:
        """Replace the discriminants, the distances that joined the ensemble by name; None: the Euclidean distance."""
        self._mixture.discriminants = list(metrics)

    def learn_implied(self, pairs: Events | PointPairs, weights: Floats) -> None:
        """Let the distances learn from pairs whose answers are implied by others; see ``Mixture.learn_implied``."""
        self._use_implied(pairs, weights, "learn implied")

    def weigh_implied(self, pairs: Events | PointPairs, weights: Floats) -> None:
        """Let the weights of the experts learn from such pairs; see ``Mixture.weigh_implied``."""
        self._use_implied(pairs, weights, "weigh implied")

    def _use_implied(self, pairs: Events | PointPairs, weights: Floats, role: Role) -> None:
        events = pairs.events() if isinstance(pairs, PointPairs) else pairs
        discriminants = tuple(self._mixture.discriminants)
        self._play_and_record(_PlayedPart(self._checked_events(events), weights, discriminants, role))

    def renew_curved(self, events: Events, weights: Floats, transport: Floats) -> None:
        """Replace the curved features by others, and let their distances learn again from the latest events.

        See ``Mixture.renew_curved``.
        """
        discriminants = tuple(self._mixture.discriminants)
        self._play_and_record(_PlayedPart(events, weights, discriminants, "renew curved", transport))

    def _hand_over(self, planned: int = 0, wait: bool = False) -> None:
        """Let compiled code play all rounds again, if it is ready.

        Parameters
        ----------
        planned : int
            The number of rounds after the present call; if the definition is slow for so many, the kernels are
            compiled in the background.
        wait : bool
            Whether to compile now, if necessary.
        """
        from ocelad.engines.kernel_loading import kernels_ready

        if wait or kernels_ready(start=plain_seconds(planned, self.n_features, self._sparse) > PLAIN_SECONDS):
            compiled = copy(self)
            if renewed := [part for part in self._pending if part.transport is not None]:
                assert renewed[0].transport is not None
                compiled._n_curved = renewed[0].transport.shape[0]  # that of the first rounds
                compiled.n_features += compiled._n_curved - self._n_curved
            compiled._mixture, compiled._decisions = compiled._new_mixture(compiled=True), DecisionThresholds()
            compiled._is_compiled = True
            for part in self._pending:
                compiled._play(part)
            compiled._mixture.discriminants = self._mixture.discriminants
            compiled._pending, compiled._rehearsal, compiled._prior = (), None, None
            self.__dict__.update(compiled.__dict__)

    def _checked_events(self, events: Any) -> Any:
        """Return the events, sparse if this tracker is; refuse those that it cannot learn from."""
        kind = Relatives if self._events == "relatives" else Events
        if not isinstance(events, kind):
            raise TypeError(f"events must be {kind.__name__}; got {type(events).__name__}")
        if events.n_features != self.n_features:
            raise ValueError(f"the events have {events.n_features} features; {self.n_features} are expected")
        if isinstance(events, Relatives):
            near, far = (checked_differences(U, "comparison") for U in (events.near, events.far))
            return events if near is events.near and far is events.far else Relatives(near, far)
        U = checked_differences(events.U, "pair")
        if self._sparse and not events.sparse:
            from scipy.sparse import csr_array

            U = csr_array(U)
        return events if U is events.U else Events(U, events.y)

    # Its compiled parts.

    def compiled_parts(self) -> tuple[Mixture, DecisionThresholds]:
        """Return the compiled ensemble and the decisions, with which learning continues in other ways.

        If the definition has computed the rounds so far, compiled code plays them again first.
        """
        if not self._is_compiled:
            self._hand_over(wait=True)
        return self._mixture, self._decisions

    @classmethod
    def from_compiled_parts(cls, n_features: int, mixture: Mixture, decisions: DecisionThresholds) -> Self:
        """Return a tracker of dense pairs that continues with a compiled ensemble."""
        tracker = cls(n_features)
        tracker._mixture, tracker._decisions, tracker._is_compiled = mixture, decisions, True
        return tracker

    # Results.

    @property
    def settings(self) -> dict[str, Any]:
        """The settings, as saved state holds them."""
        settings: dict[str, Any] = {
            "method": "adaptive",
            "version": STATE_VERSION,
            "n_features": self.n_features,
            "sparse": self._sparse,
            "events": self._events,
        }
        settings |= {"n_curved": self._n_curved} if self._n_curved else {}
        return settings | {"grouped": True} if self._grouped else settings

    @property
    def n_rounds(self) -> int:
        """The number of rounds played."""
        return self._mixture.round

    @property
    def expert_names(self) -> tuple[str, ...]:
        """The names of the experts."""
        return self._mixture.expert_names

    @property
    def expert_weights(self) -> Floats:
        """The weight of each expert in the next round; they sum to 1."""
        return self._mixture.aggregator.shares

    @property
    def drift(self) -> float:
        """The relative change of the metric per round, measured every 64 rounds; 0: it does not move."""
        return self._mixture.drift

    @property
    def n_discriminants(self) -> int:
        """The number of discriminants of groups among the experts."""
        return len(self._mixture.discriminants)

    @property
    def detected_change(self) -> int:
        """The first round of a change that the last round has detected; 0 if it has detected none."""
        return self._mixture.detected_change

    @property
    def sums_of_squares(self) -> Floats:
        """The discounted sum of the squared differences of each feature; 0 for one that never differed."""
        return self._mixture.bases.sums_of_squares

    @property
    def changes(self) -> list[Change]:
        """The last changes of the question that were detected, oldest first."""
        return self._mixture.aggregator.changes

    def play(self) -> Metric:
        """Return the current metric; ``threshold - d^2`` are the log odds of "same"."""
        metric = self._mixture.metric()
        if not isinstance(metric, Metric):
            raise TypeError("a metric of curved features is not linear; split_metric returns it")
        return metric

    def split_metric(self) -> SplitMetric:
        """Return the current metric of points with curved features."""
        metric = self._mixture.metric()
        if not isinstance(metric, SplitMetric):
            raise TypeError("this tracker has no curved features; play returns its metric")
        return metric

    def decide(self, log_odds: Floats, error: float) -> np.ndarray:
        """Return +1 ("same") or -1 ("different") for confident log odds, and 0 ("ask a person") for the others.

        Along the stream, at most the share ``error`` of the decided pairs is wrong; see ``DecisionThresholds``.
        """
        return self._decisions.decide(log_odds, error)

    def log_odds(self, U: Any) -> Floats:
        """Return the log odds of "same" for each difference, a row of U."""
        metric = self._mixture.metric()
        return np.asarray(metric.threshold - metric.squared_length(U))

    # State.

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything that later rounds depend on: copies of arrays, and JSON values.

        Before compiled code has taken over, these are the pairs learned from.
        """
        if self._experts:
            raise ValueError("a tracker with experts of your own cannot be saved; it can be pickled if they can")
        if any(part.transport is not None for part in self._pending):
            self._hand_over(wait=True)  # the saved pairs have one number of features
        metadata: dict[str, Any] = {"settings": self.settings, "n_rounds": self.n_rounds}
        if not self._is_compiled:
            n_rehearsed = 0 if self._rehearsal is None else len(self._rehearsal)
            metadata |= {"pending": True, "n_rehearsed": n_rehearsed}
            pending = self._pending_arrays()
            if self._prior is not None:
                metric = self._prior.metric
                metadata |= {"prior": [metric.threshold, metric.round, self._prior.log_weight]}
                pending |= add_prefix("prior", {name: np.array(array) for name, array in metric.arrays().items()})
            if not self._grouped:
                return pending, metadata
            arrays, thresholds = self._pending_parts()
            return {**pending, **arrays}, {**metadata, "thresholds": thresholds}
        arrays, of_mixture = self._mixture.state()
        arrays |= add_prefix("decisions", self._decisions.arrays())
        return arrays, {**metadata, "pending": False, "mixture": of_mixture}

    def restore(self, arrays: Arrays, metadata: Metadata) -> None:
        """Continue from what ``state`` returned, with the same bits as the original.

        This tracker must have the same settings and must not have played a round yet. A state that does not match
        raises a ``ValueError`` and changes nothing.
        """
        if self.n_rounds > 0:
            raise ValueError(f"this tracker has played {self.n_rounds} rounds; accepted: a new one from track_adaptive")
        saved = StateReader(arrays, metadata)
        settings = saved.value("settings")
        if settings != self.settings:
            raise ValueError(f"the saved tracker has the settings {settings}; expected {self.settings}")
        n_rounds, other = saved.integer("n_rounds", 0, 2**53), copy(self)
        other._rehearsal = other._prior = None
        if saved.value("pending"):
            if saved.has_value("prior"):
                other._prior = other._read_prior(saved)
            events, weights = other._read_pending(saved)
            most = 0 if self._events == "relatives" else len(weights)
            n_rehearsed = saved.integer("n_rehearsed", 0, most) if saved.has_value("n_rehearsed") else 0
            if events is not None and n_rehearsed:
                assert isinstance(events, Events)
                other._rehearsal = events[:n_rehearsed]
            other._mixture = other._new_mixture(compiled=False)
            if saved.has_value("thresholds"):
                other._play_parts(saved, cast("Events | None", events), weights, n_rehearsed)
            elif events is not None and n_rehearsed < len(weights):
                other.replay(events[n_rehearsed:], weights[n_rehearsed:])
            saved.expect_end()
        else:
            other._mixture = other._new_mixture(compiled=True)
            other._mixture.restore(saved, n_rounds)
            other._decisions = DecisionThresholds.restore(saved.section("decisions").remaining_arrays())
            other._is_compiled = True
            saved.expect_end()
        if other.n_rounds != n_rounds:
            raise ValueError(f"saved value 'n_rounds' is {n_rounds}; expected {other.n_rounds}")
        self.__dict__.update(other.__dict__)

    def _pending_arrays(self) -> Arrays:
        """Return the rehearsed differences, with weights of 0, then the rounds that the definition has played."""
        pending = list(self._pending)
        if self._rehearsal is not None:
            pending.insert(0, _PlayedPart(self._rehearsal, np.zeros(len(self._rehearsal))))
        if self._events == "relatives":
            parts = [(events.near, events.far) for events, *_ in pending if isinstance(events, Relatives)]
            empty = np.empty((0, self.n_features))
            near, far = (np.concatenate([empty, *(part[i] for part in parts)]) for i in (0, 1))
            arrays = {"near": near, "far": far}
        else:
            pairs = [events for events, *_ in pending if isinstance(events, Events)]
            arrays = {"y": np.concatenate([np.empty(0), *(events.y for events in pairs)])}
            if self._sparse:
                from scipy.sparse import csr_array, vstack

                U = vstack([csr_array((0, self.n_features)), *(csr_array(events.U) for events in pairs)], format="csr")
                arrays |= {"indptr": U.indptr.astype(np.int64), "indices": U.indices.astype(np.int64), "data": U.data}
            else:
                dense = [events.U.toarray() if events.sparse else events.U for events in pairs]
                arrays["U"] = np.concatenate([np.empty((0, self.n_features)), *dense])
        return {**arrays, "weights": np.concatenate([np.empty(0), *(part.weights for part in pending)])}

    def _pending_parts(self) -> tuple[Arrays, list[list[float]]]:
        """Return the role of each pending part and the discriminants that measured it.

        Each row of "parts" is the length of a part, its role, and the positions of its discriminants among all of them,
        from 1 on; 0: none. The last row, without rounds, is that of the present discriminants.
        """
        roles = get_args(Role)
        parts = [(len(part.events), roles.index(part.role), part.discriminants) for part in self._pending]
        metrics: dict[int, tuple[int, PointMetric]] = {}  # by identity: its position, and the metric
        rows = []
        for length, role, discriminants in (*parts, (0, 0, tuple(self._mixture.discriminants))):
            for metric in discriminants:
                if metric is not None:
                    metrics.setdefault(id(metric), (len(metrics) + 1, metric))
            rows.append([length, role, *(0 if metric is None else metrics[id(metric)][0] for metric in discriminants)])
        arrays: Arrays = {"parts": np.array(rows, dtype=np.int64)}
        for position, metric in metrics.values():
            copies = {name: np.array(array) for name, array in metric.arrays().items()}
            arrays |= add_prefix(f"discriminants.{position}", copies)
        return arrays, [[metric.threshold, metric.round] for _, metric in metrics.values()]

    def _play_parts(self, saved: StateReader, events: Events | None, weights: Floats, done: int) -> None:
        """Play saved parts, whose events begin at a row, by compiled code if it is ready."""
        metrics = self._read_discriminants(saved)
        rows = saved.integers("parts", (None, 2 + len(self._mixture.discriminants)), 0, 2**31)
        roles: tuple[Role, ...] = get_args(Role)
        if len(rows) == 0 or done + rows[:, 0].sum() != len(weights) or (rows[:-1, 0] == 0).any() or rows[-1, 0] > 0:
            raise ValueError(f"saved array 'parts' does not divide the {len(weights) - done} saved rounds")
        if rows[:, 1].max() >= len(roles) or rows[:, 2:].max(initial=0) >= len(metrics):
            raise ValueError("saved array 'parts' names an unknown role or discriminant")
        for length, role, *positions in rows[:-1].tolist():
            assert events is not None  # the parts have rounds
            part, discriminants = slice(done, done + length), tuple(metrics[at] for at in positions)
            self._pending = (*self._pending, _PlayedPart(events[part], weights[part], discriminants, roles[role]))
            done += length
        # As in ``replay``, only answers count: a saved tracker and a loaded one hand over in the same round.
        n_answers = sum(len(part.events) for part in self._pending if part.role in ("answers", "untested answers"))
        if n_answers > PLAIN_ROUNDS:
            self._hand_over()
        if not self._is_compiled:
            for pending in self._pending:
                self._play(pending)
        self._mixture.discriminants = [metrics[at] for at in rows[-1, 2:].tolist()]

    def _read_prior(self, saved: StateReader) -> SharedPrior:
        """Return the metric that the saved tracker began with."""
        *of_metric, log_weight = saved.value("prior")
        metric = self._mixture.read_metric(saved.section("prior"), "prior", of_metric)
        if not isinstance(metric, Metric) or not isinstance(log_weight, float) or not isfinite(log_weight):
            raise ValueError("the saved prior must be a metric with a finite log weight")
        return SharedPrior(metric, log_weight)

    def _read_discriminants(self, saved: StateReader) -> list[PointMetric | None]:
        """Return the discriminants that measured saved parts, after None."""
        arrays: dict[str, Arrays] = {}
        for name, array in saved.section("discriminants").remaining_arrays().items():
            number, _, rest = name.partition(".")
            arrays.setdefault(number, {})[rest] = array
        thresholds = saved.value("thresholds")
        if arrays.keys() != {str(at + 1) for at in range(len(thresholds))}:
            raise ValueError(f"the saved discriminants are {sorted(arrays)}; expected 1 to {len(thresholds)}")
        metrics: list[PointMetric | None] = [None]
        for position, values in enumerate(thresholds, start=1):
            of_metric = StateReader(arrays[str(position)], {})
            metrics.append(self._mixture.read_metric(of_metric, f"discriminants.{position}", values))
        return metrics

    def _read_pending(self, saved: StateReader) -> tuple[Events | Relatives | None, Floats]:
        """Return the saved rounds and their weights; no events if there are none."""
        weights = saved.floats("weights", (None,), at_least=0.0)
        count, n = len(weights), self.n_features
        if self._events == "relatives":
            near, far = saved.floats("near", (count, n)), saved.floats("far", (count, n))
            return Relatives(near, far) if count else None, weights
        y = saved.floats("y", (count,), -1.0, 1.0)
        if not self._sparse:
            U = saved.floats("U", (count, n))
            return Events(U, y) if count else None, weights
        from scipy.sparse import csr_array

        data = saved.floats("data", (None,))
        rows = csr_array((data, *saved.csr_rows("", count, len(data), n)), shape=(count, n))
        return Events(rows, y) if count else None, weights


def plain_seconds(n_rounds: int, n_features: int, sparse: bool = False) -> float:
    """Return about how long the definition takes for rounds of this many features, on a machine of 2020.

    >>> plain_seconds(6000, 25) < PLAIN_SECONDS < plain_seconds(6000, 128)
    True
    """
    dense = n_features <= AdaptiveConfig().max_moment_features and not sparse
    return n_rounds * (4e-4 + (1.4e-7 * n_features**2 if dense else 7e-8 * n_features))


def checked_points(points: Any, name: str, n_features: int, *, sparse: bool) -> Any:
    """Return points, one per row, as an array or a ``csr_array``; refuse enormous ones."""
    if is_sparse(points):
        rows: Any = check_sparse(points, name, n_features=n_features)
    else:
        rows = check_array(points, name, 2, n_features=n_features)
    size = float(np.abs(rows.data if is_sparse(rows) else rows).max(initial=0.0))
    if size > MAX_DIFFERENCE:
        raise ValueError(f"{name} holds a number of size {size:.3g}; accepted: up to {MAX_DIFFERENCE:g}")
    if is_sparse(rows) and not sparse:
        return rows.toarray()
    if sparse and not is_sparse(rows):
        from scipy.sparse import csr_array

        return csr_array(rows)
    return rows


def check_pairs(X: Any, Z: Any) -> None:
    """Refuse pairs of points, row by row, that are enormous or too far apart."""
    for points, name in ((X, "X"), (Z, "Z")):
        checked_points(points, name, points.shape[1], sparse=is_sparse(points))
    checked_differences(subtract(X, Z), "pair")


def checked_differences(U: Any, kind: str) -> Any:
    """Return the differences with tiny entries replaced by 0; refuse enormous ones."""
    sparse = is_sparse(U)
    sizes = np.abs(U.data if sparse else U)
    enormous, tiny = sizes > MAX_DIFFERENCE, (sizes < MIN_DIFFERENCE) & (sizes > 0.0)
    if enormous.any():
        first = int(np.argmax(enormous if sparse else enormous.any(axis=1)))
        row = int(np.searchsorted(U.indptr, first, side="right")) - 1 if sparse else first
        raise ValueError(
            f"the points of {kind} {row} are too far apart: they differ by {sizes.max():.3g}; accepted: differences up "
            f"to {MAX_DIFFERENCE:g}"
        )
    if not tiny.any():
        return U
    U = U.copy()
    (U.data if sparse else U)[tiny] = 0.0
    return U
