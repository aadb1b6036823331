"""The adaptive method for many or sparse features: RICE in a unit set by the first pairs, with one Platt scaling."""

from __future__ import annotations

from copy import copy
from math import inf
from typing import Any, Self

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.adaptive.change_detection import MAX_CHANGES, Change, read_changes
from ocelad.adaptive.kernels import cusum, platt
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

#: Rank limit of each learner's metric.
MAX_RANK = 30
# The first WARMUP_ROUNDS pairs set the unit, in which their median squared length is the one that RICE's step size is
# made for.
USUAL_SQUARE, WARMUP_ROUNDS = 40.0, 8
_MIN_THRESHOLD = 1e-9
# The limits of the saved arrays.
_SAVED_ARRAYS: dict[str, tuple[float, float]] = {
    "fits": (-inf, inf),
    "evidence": (0.0, 2.0**53),
    "changes": (0.0, 2.0**53),
    "factor": (1e-200, 1e200),
}


def track_many_features(n_features: int, sparse: bool, settings: dict[str, Any]) -> Ocelad[Event | Pair, Metric]:
    """Return the tracker that ``track_adaptive`` uses for many or sparse features."""
    engine = choose_engine(n_features, Rice(max_rank=MAX_RANK), sparse=sparse)
    bank, _ = build_bank(n_features, Rice(engine=engine, max_rank=MAX_RANK), Schedule())
    return Ocelad(UnitWarmupBank(bank, n_features), settings=settings)


class UnitWarmupBank(MarginBank, MetricBank):
    """Stores the first pairs, which set the unit, and is then replaced by a ``CalibratedRiceBank``.

    Parameters
    ----------
    learners : CompiledBank
        The learners of the ``CalibratedRiceBank``.
    n_features : int
    """

    def __init__(self, learners: Any, n_features: int) -> None:
        self._learners, self._n = learners, n_features
        self._pairs: tuple[Event, ...] = ()
        self.engine = learners.engine
        self.last_margins = np.empty(0)

    def start(self, round_state: RoundState) -> Any:
        """Start the scales; return this bank or, after the warm-up, the bank that has learned from the stored pairs."""
        self._learners.start(round_state)
        squares = [square for square in map(_squared_length, self._pairs) if square > 0.0]
        if len(self._pairs) < WARMUP_ROUNDS or not squares:
            return self
        bank = CalibratedRiceBank(self._learners, self._n, float(np.sqrt(USUAL_SQUARE / np.median(squares))))
        for event in self._pairs:
            bank.observe(event, round_state)
        return bank

    def observe(self, event: Event | Pair, round_state: RoundState) -> tuple[Floats, Self]:
        """Store the pair; return losses of 0, and this bank."""
        event = as_event(event, self._n)
        square = _squared_length(event)
        if not 1e-100 < square < 1e100 and square != 0.0:  # keeps ratios of squared lengths finite
            scale = round_state.starting[0] if round_state.starting else Schedule().scale(0)
            problem = "could not learn from the pair (its squared length is not between 1e-100 and 1e100)"
            raise LearnerError(scale, round_state.round, problem)
        self._pairs = (*self._pairs[1 - WARMUP_ROUNDS :], event)
        self.last_margins = np.zeros(round_state.n_active)
        return np.zeros(round_state.n_active), self

    def mix(self, round_state: RoundState) -> Metric:
        """Return the learners' initial metric."""
        return self._learners.mix(round_state)  # type: ignore[no-any-return]

    def log_odds(self, U: Any, round_state: RoundState) -> Floats:
        """Return 0 for each difference: nothing is known during the warm-up."""
        return np.zeros(U.shape[0])

    def drift(self, round_state: RoundState) -> float:
        """Return NaN: the drift is not computed."""
        return np.nan

    @property
    def changes(self) -> list[Change]:
        """The detected changes: an empty list during the warm-up."""
        return []

    def state(self) -> tuple[Arrays, Metadata]:
        """Return all that later rounds depend on: the stored pairs, and the learners' arrays and metadata."""
        arrays, metadata = self._learners.state()
        pairs = [as_sparse(event.u, self._n) for event in self._pairs]
        own = {
            "watched_y": np.array([event.y for event in self._pairs]),
            "watched_row": np.repeat(np.arange(len(pairs)), [len(u.indices) for u in pairs]).astype(np.int64),
            "watched_column": np.concatenate([np.empty(0, np.int64), *(u.indices for u in pairs)]).astype(np.int64),
            "watched_value": np.concatenate([np.empty(0), *(u.values for u in pairs)]),
        }
        return {**own, **add_prefix("rice", arrays)}, {"engine": self.engine, "rice": metadata}

    def with_state(self, saved: StateReader, round_state: RoundState) -> Any:
        """Return the bank whose ``state`` was saved: one like this or the ``CalibratedRiceBank`` that replaced it."""
        saved.expect("engine", self.engine)
        if saved.size("factor"):
            return CalibratedRiceBank(self._learners, self._n, 1.0).with_state(saved, round_state)
        bank = copy(self)
        y = saved.floats("watched_y", (None,), -1.0, 1.0)
        size = saved.size("watched_value")
        rows = saved.integers("watched_row", (size,), 0, max(len(y) - 1, 0))
        columns = saved.integers("watched_column", (size,), 0, self._n - 1)
        U = np.zeros((len(y), self._n))
        U[rows, columns] = saved.floats("watched_value", (size,))
        bank._pairs = tuple(Event(as_sparse(u, self._n), label) for u, label in zip(U, y.tolist(), strict=True))
        bank._learners = self._learners.with_state(saved.section("rice"), round_state)
        return bank


class CalibratedRiceBank(ReplayBank, MetricBank):
    """RICE's learners on scaled differences; Platt scaling turns the ensemble's margins into log odds.

    Parameters
    ----------
    learners : CompiledBank
    n_features : int
    factor : float
        Factor of all differences.
    """

    def __init__(self, learners: Any, n_features: int, factor: float) -> None:
        self._learners, self._n = learners, n_features
        self._factor = np.array([factor])
        self._fits = np.zeros((1, platt.N_COLUMNS))
        platt.init_fit(self._fits, 0, 0.0, 1.0, 1.0)
        self._cusum, self._changes = np.zeros(cusum.N_FIELDS), np.zeros((MAX_CHANGES, 3))
        self.engine = learners.engine
        self.last_margins = np.empty(0)

    def start(self, round_state: RoundState) -> Self:
        """Start the learners of the scales that begin an interval."""
        self._learners.start(round_state)
        return self

    def observe(self, event: Event | Pair, round_state: RoundState) -> tuple[Floats, Self]:
        """Update every learner on the event; return their losses before the update, and this bank."""
        event, factor = as_event(event, self._n), float(self._factor[0])
        u = event.u._replace(values=factor * event.u.values) if isinstance(event.u, SparseVector) else factor * event.u
        losses, self._learners = self._learners.observe(Event(u, event.y), round_state)
        # The same function as in a replay, for the same bits.
        margins, n_active = self._learners.last_margins, round_state.n_active
        margin = ensemble_value(round_state.weights, margins, n_active, NONE_DRAWN)
        calibrated = self._calibrate(np.array([margin]), np.array([event.y]), round_state.round)
        self.last_margins = np.full(n_active, calibrated[0])  # only the ensemble is calibrated, not each learner
        return losses, self

    def can_replay(self, config: EnsembleConfig) -> bool:
        """Return whether the learners can play many rounds at once."""
        return bool(self._learners.can_replay(config))

    def replay(
        self, events: Any, round_state: RoundState, config: EnsembleConfig
    ) -> tuple[RoundState, Floats, LearnerError | None]:
        """Play a round on each event.

        Returns the state of the next round, the margins in calibrated log odds, and an error if an event was refused.
        """
        scaled = Events(events.U * float(self._factor[0]), events.y)
        after, margins, error = self._learners.replay(scaled, round_state, config)
        done = after.round - round_state.round
        margins[:done] = self._calibrate(margins[:done], events.y[:done], round_state.round)
        return after, margins, error

    def _calibrate(self, margins: Floats, y: Floats, t: int) -> Floats:
        """Return the margins in calibrated log odds; update the calibration and the CUSUM test after each."""
        calibrated = np.empty(len(margins))
        for i, (margin, label) in enumerate(zip(margins.tolist(), y.tolist(), strict=True)):
            odds = platt.log_odds(self._fits, 0, -margin * label)
            calibrated[i] = odds * label
            cusum.update_cusum(self._cusum, self._changes, odds, label, t + i)
            platt.newton_step(self._fits, 0, -margin * label, odds, label, t + i, False)
        return calibrated

    def mix(self, round_state: RoundState) -> Metric:
        """Return the ensemble's metric, scaled so that ``threshold - d^2`` are the log odds of "same"."""
        metric: Metric = self._learners.mix(round_state)
        slope = max(float(self._fits[0, platt.SLOPE]), 1e-6)
        threshold = max(float(self._fits[0, platt.OFFSET]) + slope * metric.threshold, _MIN_THRESHOLD)
        return metric.scaled(float(self._factor[0]) ** 2 * slope, threshold)

    def log_odds(self, U: Any, round_state: RoundState) -> Floats:
        """Return the ensemble's log odds of "same" for each difference, a row of U."""
        metric: Metric = self._learners.mix(round_state)
        squares = np.asarray(metric.squared_length(U * float(self._factor[0])))
        return np.array([platt.log_odds(self._fits, 0, square - metric.threshold) for square in squares.tolist()])

    def drift(self, round_state: RoundState) -> float:
        """Return NaN: the drift is not computed, because no earlier metric is stored."""
        return np.nan

    @property
    def changes(self) -> list[Change]:
        """The last changes of the question that were detected, oldest first."""
        return read_changes(self._cusum, self._changes)

    def _own_arrays(self) -> dict[str, Floats]:
        return {"fits": self._fits, "evidence": self._cusum, "changes": self._changes, "factor": self._factor}

    def state(self) -> tuple[Arrays, Metadata]:
        """Return copies of all arrays that later rounds depend on, and metadata."""
        arrays, metadata = self._learners.state()
        own = {name: array.copy() for name, array in self._own_arrays().items()}
        return {**own, **add_prefix("rice", arrays)}, {"engine": self.engine, "rice": metadata}

    def with_state(self, saved: StateReader, round_state: RoundState) -> Self:
        """Return a bank with a state from ``state``."""
        bank = type(self)(self._learners.with_state(saved.section("rice"), round_state), self._n, 1.0)
        for name, array in bank._own_arrays().items():
            array[...] = saved.array_like(name, array, *_SAVED_ARRAYS[name])
        return bank


def _squared_length(event: Event) -> float:
    values = event.u.values if isinstance(event.u, SparseVector) else event.u
    return float(np.square(values).sum())
