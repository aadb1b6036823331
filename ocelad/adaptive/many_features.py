"""Many features, or sparse ones: RICE alone, in a unit that the first pairs set, and with one calibration."""

from __future__ import annotations

from copy import copy
from math import inf
from typing import Any, Self

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.adaptive.change_detection import MOST_CHANGES, Change, changes_of
from ocelad.adaptive.kernels import platt
from ocelad.adaptive.kernels.cusum import N_EVIDENCE, look_for_change
from ocelad.engines.build import build_bank
from ocelad.engines.choose import choose_engine
from ocelad.engines.metric_bank import MetricBank
from ocelad.engines.rice_settings import Rice
from ocelad.ensemble.bank import LearnerError, MarginBank, ReplayBank, RoundState
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import Schedule
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.ensemble.weight_updates import NONE_DRAWN, ensemble_value
from ocelad.ensemble.weighting import EnsembleConfig
from ocelad.metric import Metric
from ocelad.pairs import Event, Events, Pair, SparseVector, as_event, as_sparse

#: At most so many directions per learner.
MOST_DIRECTIONS = 30
# The squared length for which RICE's step size is made; and of how many pairs the usual one is the median.
USUAL_SQUARE, WATCHED = 40.0, 8
_SMALLEST_THRESHOLD = 1e-9
# Which arrays are kept, and between what limits.
_KEPT: dict[str, tuple[float, float]] = {
    "fits": (-inf, inf),
    "evidence": (0.0, 2.0**53),
    "changes": (0.0, 2.0**53),
    "factor": (1e-200, 1e200),
}


def wide_tracker(n_features: int, sparse: bool, settings: dict[str, Any]) -> Ocelad[Event | Pair, Metric]:
    """The tracker that ``track_adaptive`` makes for many features."""
    engine = choose_engine(n_features, Rice(max_rank=MOST_DIRECTIONS), sparse=sparse)
    bank, _ = build_bank(n_features, Rice(engine=engine, max_rank=MOST_DIRECTIONS), Schedule())
    return Ocelad(Watching(bank, n_features), settings=settings)


class Watching(MarginBank, MetricBank):
    """While the first pairs are only watched; then a ``WideBank`` takes over.

    Parameters
    ----------
    learners : CompiledBank
        RICE's, that will learn.
    n_features : int
    """

    def __init__(self, learners: Any, n_features: int) -> None:
        self._learners, self._n = learners, n_features
        self._watched: tuple[Event, ...] = ()
        self.engine = learners.engine
        self.last_margins = np.empty(0)

    def start(self, round_state: RoundState) -> Any:
        """Start the scales; when enough pairs have been seen, the bank that learns, and has learned from those."""
        self._learners.start(round_state)
        squares = [square for square in map(_square, self._watched) if square > 0.0]
        if len(self._watched) < WATCHED or not squares:
            return self
        bank = WideBank(self._learners, self._n, float(np.sqrt(USUAL_SQUARE / np.median(squares))))
        for event in self._watched:
            bank.observe(event, round_state)
        return bank

    def observe(self, event: Event | Pair, round_state: RoundState) -> tuple[Floats, Self]:
        """Note how far apart the pair is; nobody loses anything."""
        event = as_event(event, self._n)
        square = _square(event)
        if not 1e-100 < square < 1e100 and square != 0.0:  # of any two, one in the unit of the other does not overflow
            raise LearnerError(
                round_state.starting[0] if round_state.starting else Schedule().scale(0), round_state.round, _TOO_FAR
            )
        self._watched = (*self._watched[1 - WATCHED :], event)
        self.last_margins = np.zeros(round_state.n_active)
        return np.zeros(round_state.n_active), self

    def mix(self, round_state: RoundState) -> Metric:
        """What learning starts from."""
        return self._learners.mix(round_state)  # type: ignore[no-any-return]

    def log_odds(self, U: Any, round_state: RoundState) -> Floats:
        """Nothing is known yet: 0."""
        return np.zeros(U.shape[0])

    def drift(self, round_state: RoundState) -> float:
        """Not known."""
        return np.nan

    @property
    def changes(self) -> list[Change]:
        """None."""
        return []

    def state(self) -> tuple[Arrays, Metadata]:
        """All that later rounds depend on."""
        arrays, metadata = self._learners.state()
        watched = [as_sparse(event.u, self._n) for event in self._watched]
        own = {
            "watched_y": np.array([event.y for event in self._watched]),
            "watched_row": np.repeat(np.arange(len(watched)), [len(u.indices) for u in watched]).astype(np.int64),
            "watched_column": np.concatenate([np.empty(0, np.int64), *(u.indices for u in watched)]).astype(np.int64),
            "watched_value": np.concatenate([np.empty(0), *(u.values for u in watched)]),
        }
        return {**own, **add_prefix("rice", arrays)}, {"engine": self.engine, "rice": metadata}

    def with_state(self, saved: StateReader, round_state: RoundState) -> Any:
        """A bank as it was when ``state`` was called: this one, or the one that follows."""
        saved.expect("engine", self.engine)
        if saved.size("factor"):
            return WideBank(self._learners, self._n, 1.0).with_state(saved, round_state)
        bank = copy(self)
        y = saved.floats("watched_y", (None,), -1.0, 1.0)
        size = saved.size("watched_value")
        rows = saved.integers("watched_row", (size,), 0, max(len(y) - 1, 0))
        columns = saved.integers("watched_column", (size,), 0, self._n - 1)
        U = np.zeros((len(y), self._n))
        U[rows, columns] = saved.floats("watched_value", (size,))
        bank._watched = tuple(Event(as_sparse(u, self._n), label) for u, label in zip(U, y.tolist(), strict=True))
        bank._learners = self._learners.with_state(saved.section("rice"), round_state)
        return bank


class WideBank(ReplayBank, MetricBank):
    """RICE's learners on differences of the usual length; its log odds are calibrated as those of any expert.

    Parameters
    ----------
    learners : CompiledBank
    n_features : int
    factor : float
        What differences are multiplied by.
    """

    def __init__(self, learners: Any, n_features: int, factor: float) -> None:
        self._learners, self._n = learners, n_features
        self._factor = np.array([factor])
        self._fits = np.zeros((1, platt.N_COLUMNS))
        platt.begin_fit(self._fits, 0, 0.0, 1.0, 1.0)
        self._evidence, self._changes = np.zeros(N_EVIDENCE), np.zeros((MOST_CHANGES, 3))
        self.engine = learners.engine
        self.last_margins = np.empty(0)

    def start(self, round_state: RoundState) -> Self:
        """Give the scales that start what they start from."""
        self._learners.start(round_state)
        return self

    def observe(self, event: Event | Pair, round_state: RoundState) -> tuple[Floats, Self]:
        """What each learner lost on the event; each has learned from it."""
        event, factor = as_event(event, self._n), float(self._factor[0])
        u = event.u._replace(values=factor * event.u.values) if isinstance(event.u, SparseVector) else factor * event.u
        losses, self._learners = self._learners.observe(Event(u, event.y), round_state)
        margin = ensemble_value(
            round_state.weights, self._learners.last_margins, round_state.n_active, NONE_DRAWN
        )  # as in a replay, to the bit
        calibrated = self._calibrate(np.array([margin]), np.array([event.y]), round_state.round)
        self.last_margins = np.full(
            round_state.n_active, calibrated[0]
        )  # there is one calibration, of what is said together
        return losses, self

    def can_replay(self, config: EnsembleConfig) -> bool:
        """Return whether the learners can play many rounds at once."""
        return bool(self._learners.can_replay(config))

    def replay(
        self, events: Any, round_state: RoundState, config: EnsembleConfig
    ) -> tuple[RoundState, Floats, LearnerError | None]:
        """Play a round on each of the events; the turn after them, and the margins in calibrated log odds."""
        scaled = Events(events.U * float(self._factor[0]), events.y)
        after, margins, error = self._learners.replay(scaled, round_state, config)
        done = after.round - round_state.round
        margins[:done] = self._calibrate(margins[:done], events.y[:done], round_state.round)
        return after, margins, error

    def _calibrate(self, margins: Floats, y: Floats, t: int) -> Floats:
        """Margins in calibrated log odds, each by what was known before it; and learn from them."""
        calibrated = np.empty(len(margins))
        for at, (margin, label) in enumerate(zip(margins.tolist(), y.tolist(), strict=True)):
            odds = platt.odds_of(self._fits, 0, -margin * label)
            calibrated[at] = odds * label
            look_for_change(self._evidence, self._changes, odds, label, t + at)
            platt.fit(self._fits, 0, -margin * label, odds, label, t + at, False)
        return calibrated

    def mix(self, round_state: RoundState) -> Metric:
        """The metric that is played: ``threshold - d^2`` are the log odds of "same"."""
        metric: Metric = self._learners.mix(round_state)
        slope = max(float(self._fits[0, platt.SLOPE]), 1e-6)
        threshold = max(float(self._fits[0, platt.OFFSET]) + slope * metric.threshold, _SMALLEST_THRESHOLD)
        return metric.scaled(float(self._factor[0]) ** 2 * slope, threshold)

    def log_odds(self, U: Any, round_state: RoundState) -> Floats:
        """The ensemble's log odds of "same" for each of the differences."""
        metric: Metric = self._learners.mix(round_state)
        squares = np.asarray(metric.squared_length(U * float(self._factor[0])))
        return np.array([platt.odds_of(self._fits, 0, square - metric.threshold) for square in squares.tolist()])

    def drift(self, round_state: RoundState) -> float:
        """Not known: no two metrics are held at a time."""
        return np.nan

    @property
    def changes(self) -> list[Change]:
        """The last changes of the question that answers have shown."""
        return changes_of(self._evidence, self._changes)

    def _own(self) -> dict[str, Floats]:
        return {"fits": self._fits, "evidence": self._evidence, "changes": self._changes, "factor": self._factor}

    def state(self) -> tuple[Arrays, Metadata]:
        """All that later rounds depend on."""
        arrays, metadata = self._learners.state()
        own = {name: array.copy() for name, array in self._own().items()}
        return {**own, **add_prefix("rice", arrays)}, {"engine": self.engine, "rice": metadata}

    def with_state(self, saved: StateReader, round_state: RoundState) -> Self:
        """A bank as it was when ``state`` was called."""
        bank = type(self)(self._learners.with_state(saved.section("rice"), round_state), self._n, 1.0)
        for name, array in bank._own().items():
            array[...] = saved.array_like(name, array, *_KEPT[name])
        return bank


def _square(event: Event) -> float:
    values = event.u.values if isinstance(event.u, SparseVector) else event.u
    return float(np.square(values).sum())


_TOO_FAR = "could not learn from the pair (its squared length is not between 1e-100 and 1e100)"
