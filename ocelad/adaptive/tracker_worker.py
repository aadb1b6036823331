"""TrackerWorker: one compiled tracker whose state is exchanged for that of many others, without Python objects."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive import calibration
from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.adaptive.bases import COMID_FLOOR
from ocelad.adaptive.changes import MAX_EVIDENCE_TO_REPLACE, MIN_ROUND, Change
from ocelad.adaptive.compiled_aggregator import stored_changes
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.decisions import DecisionThresholds
from ocelad.adaptive.kernels import many_trackers
from ocelad.adaptive.kernels.decisions import play_decisions
from ocelad.adaptive.kernels.tracker_records import move_tracker
from ocelad.adaptive.kernels.tracker_rounds import (
    DRIFT,
    EXISTS,
    METRIC_ROUND,
    N_CLOCK,
    N_SIMILAR_COLUMNS,
    N_STORED_COLUMNS,
    NEXT_SIMILAR,
    RESTART_FROM,
    ROUND,
    THRESHOLD,
    Scratch,
    TrackerConstants,
    TrackerState,
)
from ocelad.adaptive.mixture import SNAPSHOT_PERIOD, Mixture, MixtureClock
from ocelad.adaptive.similar_pairs import MAX_AGE, SimilarPairs
from ocelad.adaptive.split_metric import PointMetric
from ocelad.engines.kernels.secular import LANES
from ocelad.metric import Metric
from ocelad.pairs import Events

_MAX_FLOAT32 = float(np.finfo(np.float32).max)


class Record(NamedTuple):
    """A stored tracker: numbers, and 16-bit integers; see ``kernels/tracker_records.py``."""

    numbers: np.ndarray
    integers: np.ndarray


class TrackerWorker:
    """Plays the rounds of many trackers of dense pairs in compiled code, one tracker after the other.

    A worker is for one thread. It holds the arrays of one tracker, into which the kernel restores each record.

    Parameters
    ----------
    n_features : int
        At most ``AdaptiveConfig.max_moment_features``.
    compact : bool
        Whether records are compact.
    """

    def __init__(self, n_features: int, compact: bool) -> None:
        _load_parts()
        self._n, self.compact = n_features, compact
        self._mixture, self._decisions = Mixture(n_features, compiled=True), DecisionThresholds()
        self._state, self._constants, self._scratch = _bind(self._mixture, self._decisions)
        self._real = np.float32 if compact else np.float64
        # Every number of the state takes at most two numbers of a record.
        arrays = [*_arrays(self._state)]
        self.max_numbers = 2 * sum(array.size for array in arrays)
        # Every entry of a matrix or of a row takes at most one integer, and a similar pair one more.
        self.max_integers = sum(array.size for array in arrays if array.ndim > 1) + MAX_AGE

    def record(self, tracker: AdaptiveTracker) -> Record:
        """Return the record of a tracker; it must have had weights of 1."""
        mixture, decisions = tracker.compiled_parts()
        state, constants, _ = _bind(mixture, decisions)
        record = self._empty(1)
        offsets = move_tracker(state, constants, *record, self.compact, True)
        return self._stored(record, offsets.number, offsets.integer)

    def tracker(self, record: Record) -> AdaptiveTracker:
        """Return a tracker of its own that continues from a record."""
        mixture, decisions = Mixture(self._n, compiled=True), DecisionThresholds()
        state, constants, _ = _bind(mixture, decisions)
        # Copied, because a record may be read-only.
        numbers, integers = record.numbers.astype(float), record.integers.copy()
        move_tracker(state, constants, numbers, integers, self.compact, False)
        _unbind(state, mixture)
        return AdaptiveTracker.from_compiled_parts(self._n, mixture, decisions)

    def drift_and_changes(self, record: Record) -> tuple[float, list[Change]]:
        """Return the drift of a stored tracker, and its detected changes."""
        numbers = record.numbers.astype(float)
        move_tracker(self._state, self._constants, numbers, record.integers.copy(), self.compact, False)
        return float(self._state.clock[DRIFT]), stored_changes(self._state.aggregator)

    def learn(
        self, records: Record, begins: np.ndarray, U: Floats, y: Floats, ends: np.ndarray
    ) -> tuple[Record, np.ndarray, np.ndarray]:
        """Let trackers learn; return their new records, the end of each, and whether the kernel could play the rounds.

        Parameters
        ----------
        records : Record
            The records of all trackers, one after the other.
        begins : array of int of shape (n_trackers, 2)
            The first number and the first integer of each tracker's record.
        U, y : arrays
        ends : array of int of shape (n_trackers,)
        """
        new, new_ends = self._empty(len(ends)), np.empty((len(ends), 2), np.int64)
        played = self._play(records, begins, U, y, ends, new=new, new_ends=new_ends)
        return self._stored(new, *new_ends[-1]), new_ends, played

    def metrics(
        self, records: Record, begins: np.ndarray, U: Floats, y: Floats, ends: np.ndarray
    ) -> tuple[Floats, Floats, np.ndarray]:
        """Return the matrices and thresholds of trackers after further answers, which are not stored; see ``learn``."""
        matrices, thresholds = np.empty((len(ends), self._n, self._n)), np.empty(len(ends))
        played = self._play(records, begins, U, y, ends, matrices=matrices, thresholds=thresholds)
        return matrices, thresholds, played

    def predictions(
        self, records: Record, begins: np.ndarray, U: Floats, y: Floats, ends: np.ndarray
    ) -> tuple[Floats, np.ndarray]:
        """Return the log odds that each tracker predicts for its pairs, each before it is learned from."""
        log_odds = np.empty(len(y))
        played = self._play(records, begins, U, y, ends, log_odds=log_odds)
        return log_odds, played

    def _play(
        self,
        records: Record,
        begins: np.ndarray,
        U: Floats,
        y: Floats,
        ends: np.ndarray,
        *,
        new: Record | None = None,
        new_ends: np.ndarray | None = None,
        matrices: Floats | None = None,
        thresholds: Floats | None = None,
        log_odds: Floats | None = None,
    ) -> np.ndarray:
        played = np.empty(len(ends), bool)
        # The outcome reports overflows; NumPy would warn of them where kernels run as plain Python.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            many_trackers.play_many(
                self._state,
                self._constants,
                self._scratch,
                self.compact,
                records.numbers.astype(float, copy=False),
                records.integers,
                begins,
                U,
                y,
                ends,
                *(self._empty(0) if new is None else new),
                np.empty((0, 2), np.int64) if new_ends is None else new_ends,
                np.empty((0, self._n, self._n)) if matrices is None else matrices,
                np.empty(0) if thresholds is None else thresholds,
                np.empty(0) if log_odds is None else log_odds,
                played,
            )
        return played

    def _empty(self, count: int) -> Record:
        return Record(np.empty(count * self.max_numbers), np.empty(count * self.max_integers, np.int16))

    def _stored(self, record: Record, n_numbers: int, n_integers: int) -> Record:
        """Return the first numbers and integers as they are stored; the largest float32 stands for larger numbers."""
        numbers = record.numbers[:n_numbers]
        if self.compact:
            numbers = np.clip(numbers, -_MAX_FLOAT32, _MAX_FLOAT32)
        return Record(numbers.astype(self._real), record.integers[:n_integers].copy())


@cache
def _load_parts() -> None:
    """Load the kernels that a ``Mixture`` calls, before the one that contains a copy of each.

    Of functions with one name, the linker takes the first that is loaded. The copies were optimized in another place
    and may round in another way; trackers in this process, and those of a worker, must not depend on which came first.
    """
    mixture, decisions = Mixture(3, compiled=True), DecisionThresholds()
    pairs = Events(
        np.random.default_rng(0).normal(size=(2 * SNAPSHOT_PERIOD, 3)), np.tile([1.0, -1.0], SNAPSHOT_PERIOD)
    )
    ones = np.ones(len(pairs))
    play_decisions(decisions.bins, decisions.levels, decisions.clock, mixture.play(pairs), pairs.y, ones)
    mixture.aggregator.restart_windows(mixture.bases.restart_windows(pairs.U, ones))
    mixture.aggregator.start_memory(mixture.aggregator.least_used_memory(), 1.0)


def _arrays(state: tuple[Any, ...]) -> list[np.ndarray]:
    """Return all arrays of nested tuples."""
    arrays: list[np.ndarray] = []
    for part in state:
        if isinstance(part, np.ndarray):
            arrays.append(part)
        elif isinstance(part, tuple):
            arrays += _arrays(part)
    return arrays


def _bind(mixture: Mixture, decisions: DecisionThresholds) -> tuple[TrackerState, TrackerConstants, Scratch]:
    """Return the kernel's view of a compiled mixture, and scratch arrays.

    Arrays are shared; stored metrics, similar pairs and the clock are copied.
    """
    bases, aggregator = mixture.compiled_parts()
    config: AdaptiveConfig = mixture.config
    parts, (of_aggregator, settings) = bases.kernel_parts, aggregator.kernel_parts
    # A learner of full rank needs room for one more direction while it is updated.
    parts.comid.reserve_directions(2 * LANES)
    comid, comid_settings, basis, work = parts.comid.kernel_parts
    n, n_memories = len(parts.sums), len(of_aggregator.usage)
    metrics, stored = np.zeros((n_memories + 2, n, n)), np.zeros((n_memories + 2, N_STORED_COLUMNS))
    for j, metric in enumerate((*mixture.memories, mixture.snapshot, mixture.anchor)):
        if metric is not None:
            assert isinstance(metric, Metric)
            metrics[j], stored[j] = metric.matrix, (1.0, metric.threshold, metric.round)
    clock, similar = np.zeros(N_CLOCK), np.zeros((MAX_AGE, N_SIMILAR_COLUMNS))
    clock[ROUND], clock[DRIFT], clock[RESTART_FROM] = mixture.clock
    pairs = np.zeros((MAX_AGE, n))
    if mixture.similar_pairs is not None:
        rows = mixture.similar_pairs.arrays()
        count = len(rows["rounds"])
        pairs[:count], similar[:count, 0], similar[:count, 1] = rows["differences"], rows["weights"], rows["rounds"]
        clock[NEXT_SIMILAR] = count % MAX_AGE
    state = TrackerState(
        *parts[:-1],
        comid,
        comid_settings,
        basis,
        work,
        of_aggregator,
        settings,
        metrics,
        stored,
        pairs,
        similar,
        decisions.bins,
        decisions.levels,
        decisions.clock,
        clock,
    )
    n_comid = len(mixture.kinds.comid_steps)
    constants = TrackerConstants(
        n=n,
        n_comid=n_comid,
        snapshot_period=SNAPSHOT_PERIOD,
        first_anchor=MIN_ROUND,
        max_evidence=MAX_EVIDENCE_TO_REPLACE,
        max_age=MAX_AGE,
        ridge=config.ridge,
        limit=config.outlier_limit,
        comid_floor=COMID_FLOOR,
        memory_curvature=calibration.MEMORY_RIDGE * config.ridge,
        repair_interval=parts.comid.repair_interval,
        schedule=parts.comid.kernel_schedule,
    )
    rows_, width, n_distances = SNAPSHOT_PERIOD, parts.comid.row_width, len(of_aggregator.means)
    scratch = Scratch(
        X=np.zeros((rows_, width)),
        S=np.zeros((rows_, width)),
        ratios=np.empty((rows_, n)),
        shrinks=np.empty(rows_),
        lengths=np.empty(rows_),
        squares=np.empty((rows_, n_distances)),
        of_comid=np.empty((rows_, n_comid)),
        anchor=np.empty(rows_),
        ones=np.ones(rows_),
        predictions=np.empty(rows_),
        column=np.empty(rows_),
        losses=np.zeros(n_comid),
        margins=np.zeros(n_comid),
        A=np.empty((n, n)),
        B=np.empty((n, n)),
        matrix=np.empty((n, n)),
        coefficients=np.empty(n_distances),
        means=np.empty(len(parts.decays)),
        pair=np.empty((MAX_AGE, n)),
        pair_ratios=np.empty((MAX_AGE, n)),
        pair_weights=np.empty(MAX_AGE),
        none=np.empty(0),
        no_rows=np.empty((2, 0)),
    )
    return state, constants, scratch


def _unbind(state: TrackerState, mixture: Mixture) -> None:
    """Copy stored metrics, similar pairs and the clock from the kernel's view to its mixture."""
    metrics: list[PointMetric | None] = [
        Metric.from_trusted_matrix(matrix.copy(), float(stored[THRESHOLD]), int(stored[METRIC_ROUND]))
        if stored[EXISTS]
        else None
        for matrix, stored in zip(state.metrics, state.stored, strict=True)
    ]
    *mixture.memories, mixture.snapshot, mixture.anchor = metrics
    clock = MixtureClock(int(state.clock[ROUND]), float(state.clock[DRIFT]), int(state.clock[RESTART_FROM]))
    used = state.similar[:, 1] > 0.0
    pairs = SimilarPairs.from_rows(
        state.similar_pairs[used], state.similar[used, 0], state.similar[used, 1], clock.round
    )
    mixture.set_clock(clock, pairs)
