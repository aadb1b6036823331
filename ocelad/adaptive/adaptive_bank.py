"""AdaptiveBank: calibrated experts of several kinds that predict how likely two points are the same."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from math import inf
from typing import Any, NamedTuple, Self

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.adaptive.change_detection import MAX_CHANGES, Change, read_changes
from ocelad.adaptive.kernels import cusum, experts, platt
from ocelad.adaptive.kernels.experts import PlayArgs, State
from ocelad.adaptive.metric_regularization import prior_trust, regularize_matrix
from ocelad.engines.fullrank_bank import FullRankBank
from ocelad.engines.kernels import rounds
from ocelad.engines.metric_bank import MetricBank
from ocelad.ensemble.bank import LearnerError, ReplayBank, RoundState
from ocelad.ensemble.schedule import FixedExperts
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.ensemble.weight_updates import DISCOUNTED, WEIGHT
from ocelad.ensemble.weighting import EnsembleConfig
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair, as_dense, as_event

#: Lengths of the moment learners' windows, in rounds.
WINDOWS = (32, 64, 128, 256, 512, 1024, 2048)
#: Step sizes of the COMID learners, for differences in which every feature has a mean square of 1 / n_features.
COMID_STEPS = (19.0, 9.5, 4.75, 2.4, 1.2, 0.6)
#: Prior distances: Euclidean, features divided by their root mean square, and the inverse covariance of all pairs.
PRIORS = ("Euclidean", "standardized", "whitened")
N_MEMORIES = 3

_MIN_THRESHOLD = 1e-9


class _SavedArray(NamedTuple):
    """The name of a state array in files, and the limits of its entries."""

    key: str
    at_least: float = -inf
    at_most: float = inf


# The state arrays that later rounds depend on; the others are scratch. The keys are part of the file format.
_SAVED_ARRAYS = {
    "scalars": _SavedArray("numbers"),
    "mean_squares": _SavedArray("spread", 0.0),
    "P": _SavedArray("P"),
    "counts": _SavedArray("counts", 0.0),
    "pending_decay": _SavedArray("owed", 1e-9, 1.0),
    "fits": _SavedArray("fits"),
    "prior_scores": _SavedArray("priors"),
    "memories": _SavedArray("memories"),
    "usage": _SavedArray("taken", 0.0),
    "snapshots": _SavedArray("aside"),
    "snapshot_offsets": _SavedArray("aside_offset"),
    "recent": _SavedArray("recent"),
    "recent_labels": _SavedArray("recent_y", -1.0, 1.0),
    "recent_log_odds": _SavedArray("recent_odds"),
    "cusum": _SavedArray("evidence", 0.0, 2.0**53),
    "changes": _SavedArray("changes", 0.0, 2.0**53),
}


class AdaptiveBank(ReplayBank, MetricBank):
    """The experts of ``track_adaptive``: moment learners over windows, COMID learners, priors and memories.

    Each expert has its own squared distance and Platt scaling, which turns the distance into log odds of "same".
    Its loss is the logarithmic loss of the resulting probability. The bank changes in place, like a ``CompiledBank``.
    ``ocelad.adaptive.definition`` is the same method in plain NumPy.

    Parameters
    ----------
    n_features : int
    windows : sequence of int
        Lengths of the moment learners' windows, in rounds, the shortest first.
    """

    engine = "adaptive"
    expert_names: tuple[str, ...]

    def __init__(self, n_features: int, windows: Sequence[int] = WINDOWS) -> None:
        self.expert_names = (
            *(f"window {length}" for length in windows),
            *(f"COMID {step:g}" for step in COMID_STEPS),
            *PRIORS,
            *(f"memory {j + 1}" for j in range(N_MEMORIES)),
        )
        n, n_windows, n_experts, n_comid = n_features, len(windows), len(self.expert_names), len(COMID_STEPS)
        self._n = n
        schedule = FixedExperts(COMID_STEPS)
        self._comid = FullRankBank(
            n,
            schedule,
            initial_scale=1.0 / n,
            initial_threshold=1.0,
            step_size=1.0 / n**2,
            loss="logistic",
            max_norm=None,
            finest="reset",
            starts="scratch",
        ).start(RoundState(1, tuple(schedule.scale(j) for j in range(n_comid)), np.ones(n_comid), np.empty(0)))
        self._state = State(
            decays=1.0 - 2.0 / (np.array(windows) + 1.0),
            scalars=np.zeros(experts.N_SCALARS),
            mean_squares=np.zeros(n),
            P=np.zeros((n_windows + 1, n, n)),
            counts=np.zeros(n_windows + 1),
            pending_decay=np.ones(n_windows),
            fits=np.zeros((n_experts, platt.N_COLUMNS)),
            prior_scores=np.zeros(len(PRIORS)),
            memories=np.zeros((N_MEMORIES, n, n)),
            usage=np.zeros(N_MEMORIES),
            snapshots=np.zeros((2, n, n)),
            snapshot_offsets=np.zeros(2),
            recent=np.zeros((experts.SNAPSHOT_PERIOD, n)),
            recent_labels=np.zeros(experts.SNAPSHOT_PERIOD),
            recent_log_odds=np.zeros(experts.SNAPSHOT_PERIOD),
            cusum=np.zeros(cusum.N_FIELDS),
            changes=np.zeros((MAX_CHANGES, 3)),
            x=np.zeros((1, n)),
            s=np.zeros((1, n)),
            Px=np.zeros((n_windows + 1, n)),
            forms=np.zeros(n_windows + 1),
            memory_products=np.zeros((N_MEMORIES, n)),
            squares=np.zeros(n_experts),
            odds=np.zeros(n_experts),
            column=np.zeros(n),
            mean_matrix=np.zeros((n, n)),
        )
        self._learned = False
        #: The experts' margins on the last event observed: its label times their log odds.
        self.last_margins = np.empty(0)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        bank = copy(self)
        bank._comid = deepcopy(self._comid)
        bank._state = State(*(array.copy() for array in self._state))
        return bank

    def start(self, round_state: RoundState) -> Self:
        """Check that the bank belongs to this ensemble; all experts run from the first round on."""
        if round_state.n_active != len(self.expert_names):
            raise ValueError(
                f"this AdaptiveBank has {len(self.expert_names)} experts; the ensemble has {round_state.n_active}"
            )
        if round_state.round == 1 and self._learned:
            raise ValueError("this AdaptiveBank has already learned; every Ocelad needs its own bank")
        return self

    def observe(self, event: Event | Pair, round_state: RoundState) -> tuple[Floats, Self]:
        """Update every expert on the event; return their losses before the update, and this bank."""
        event = as_event(event, self._n)
        row, y = as_dense(event.u).reshape(1, -1).copy(), np.array([event.y])
        records = round_state.records.copy()
        args = self._play_args(y, round_state.round, records, horizon=1.0, margins=np.zeros(1), observe_only=True)
        _, outcome = self._play(row, args)
        if outcome != rounds.PLAYED:
            raise _too_far_apart(round_state.round)
        self.last_margins = args.learner_margins
        return args.losses, self

    def can_replay(self, config: EnsembleConfig) -> bool:
        """Return whether the ensemble has fixed experts and the weighting that the kernel implements."""
        return isinstance(config.schedule, FixedExperts) and config.kernel_weighting.code == DISCOUNTED

    def replay(
        self, events: Any, round_state: RoundState, config: EnsembleConfig
    ) -> tuple[RoundState, Floats, LearnerError | None]:
        """Play a round on each event without returning to Python.

        Returns the state of the next round, the ensemble's margins, and an error if an event was refused.
        """
        if len(events):
            as_event(events[0], self._n)
        rows = events.U.toarray() if events.sparse else events.U
        rows = rows if rows.flags.c_contiguous and rows.flags.writeable else rows.copy(order="C")
        margins, records = np.empty(len(events)), round_state.records.copy()
        horizon = config.kernel_weighting.horizon
        args = self._play_args(events.y, round_state.round, records, horizon, margins, observe_only=False)
        done, outcome = self._play(rows, args)
        error = None if outcome == rounds.PLAYED else _too_far_apart(round_state.round + done)
        if done:
            weights = records[WEIGHT].copy()
            round_state = RoundState(round_state.round + done, (), weights, weights.copy(), records)
        return round_state, margins[:done] if error else margins, error

    def _play_args(
        self, y: Floats, t: int, records: Floats, horizon: float, margins: Floats, observe_only: bool
    ) -> PlayArgs:
        n_experts, n_comid = len(self.expert_names), len(COMID_STEPS)
        return PlayArgs(
            y=y,
            t=t,
            records=records,
            horizon=horizon,
            losses=np.zeros(n_experts),
            learner_margins=np.zeros(n_experts),
            margins=margins,
            observe_only=observe_only,
            comid_losses=np.zeros(n_comid),
            comid_margins=np.zeros(n_comid),
        )

    def _play(self, rows: Floats, args: PlayArgs) -> tuple[int, int]:
        self._learned = True
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # for kernels that run as plain Python
            return experts.play(self._state, self._comid._state, self._comid._settings, rows, args)

    def mix(self, round_state: RoundState) -> Metric:
        """Return the ensemble's metric; ``threshold - d^2`` approximates the log odds of "same"."""
        state, n_rounds = self._state, round_state.round - 1
        if not self._is_calibrated:
            return self._warmup_metric(n_rounds)
        mean_matrix, _ = self._average_experts(round_state)
        matrix = regularize_matrix(mean_matrix, state.mean_squares, self._prior_matrix(), self.prior_trust)
        n_recent = min(n_rounds, len(state.recent))
        recent, odds = state.recent[:n_recent], state.recent_log_odds[:n_recent]
        slope, threshold = _fit_log_odds(np.einsum("ij,jk,ik->i", recent, matrix, recent), odds)
        unit = float(state.scalars[experts.UNIT])
        matrix *= slope * unit * unit
        if not np.isfinite(matrix).all():
            raise FloatingPointError("the metric overflows in the units of the data; rescale the data")
        return Metric.from_trusted_matrix(matrix, threshold, n_rounds)

    def _warmup_metric(self, n_rounds: int) -> Metric:
        """Return the metric of the warm-up: features weighted by their inverse mean squares, if known."""
        recent = self._state.recent[: max(n_rounds, 0)]
        mean_squares = np.square(recent).mean(axis=0) if n_rounds else np.zeros(self._n)
        weights = np.divide(1.0, mean_squares, out=np.ones(self._n), where=mean_squares > 1e-200) / self._n
        if not mean_squares.any():
            weights = np.full(self._n, 1.0 / self._n)
        return Metric.from_trusted_matrix(np.diag(weights), 1.0, n_rounds)

    @property
    def _is_calibrated(self) -> bool:
        """Whether the experts have been judged; during the warm-up they are not."""
        return bool(self._state.fits[0, platt.MEAN_DISTANCE] > 0.0)

    @property
    def prior_trust(self) -> float:
        """The trust in the prior distance, 0 to 1; see ``metric_regularization.prior_trust``."""
        scalars, pseudo_count = self._state.scalars, experts.NEAR_PSEUDO_COUNT
        similar_rate = float(scalars[experts.SIMILAR_RATE])
        by_prior, by_ensemble = (
            (float(scalars[bound + 1]) + pseudo_count * similar_rate) / (float(scalars[bound + 2]) + pseudo_count)
            for bound in (experts.PRIOR_BOUND, experts.ENSEMBLE_BOUND)
        )
        return prior_trust(by_prior, by_ensemble, similar_rate)

    def log_odds(self, U: Floats, round_state: RoundState) -> Floats:
        """Return the ensemble's log odds of "same" for each difference, a row of U."""
        if not self._is_calibrated:
            return np.zeros(len(U))
        mean_matrix, offset = self._average_experts(round_state)
        scaled = U * self._state.scalars[experts.UNIT]
        odds = offset - np.einsum("ij,jk,ik->i", scaled, mean_matrix, scaled)
        return np.asarray(np.clip(odds, -platt.MAX_LOG_ODDS, platt.MAX_LOG_ODDS))

    def drift(self, round_state: RoundState) -> float:
        """Return the relative change of the metric per round, between the last two snapshots, 64 rounds apart."""
        return float(self._state.scalars[experts.DRIFT])

    @property
    def changes(self) -> list[Change]:
        """The last changes of the question that were detected, oldest first."""
        return read_changes(self._state.cusum, self._state.changes)

    def _average_experts(self, round_state: RoundState) -> tuple[Floats, float]:
        """Return the weighted mean of the experts' matrices, in the unit of the first pairs, and of their offsets."""
        mean_matrix = np.empty((self._n, self._n))
        records = round_state.records.copy()
        offset = experts.average_experts(self._state, self._comid._state.M, records, self._n, mean_matrix)
        return mean_matrix, float(offset)

    def _prior_matrix(self) -> Floats:
        """Return the mean of the priors' matrices, weighted by their likelihoods; its mean squared distance is 1."""
        state = self._state
        shares = np.exp(state.prior_scores - state.prior_scores.max())
        shares /= shares.sum()
        first = len(state.decays) + len(COMID_STEPS)
        euclidean, standardized, whitened = shares / state.fits[first : first + len(PRIORS), platt.MEAN_DISTANCE]
        inverse = np.divide(1.0, state.mean_squares, out=np.zeros(self._n), where=state.mean_squares > 0.0)
        prior: Floats = np.diag(euclidean + standardized * inverse)
        prior += whitened * (state.counts[-1] + experts.RIDGE_ALL) * state.P[-1]
        return prior

    def state(self) -> tuple[Arrays, Metadata]:
        """Return copies of all arrays that later rounds depend on, and metadata."""
        arrays, metadata = self._comid.state()
        own = {saved.key: getattr(self._state, field).copy() for field, saved in _SAVED_ARRAYS.items()}
        return {**own, **add_prefix("comid", arrays)}, {"engine": self.engine, "comid": metadata}

    def with_state(self, saved: StateReader, round_state: RoundState) -> Self:
        """Return a bank with a state from ``state``; this bank, which must not have learned yet, stays unchanged."""
        bank = deepcopy(self)
        saved.expect("engine", self.engine)
        for field, (key, at_least, at_most) in _SAVED_ARRAYS.items():
            array = getattr(bank._state, field)
            array[...] = saved.array_like(key, array, at_least, at_most)
        _check_state(bank._state)
        learners = RoundState(round_state.round, (), np.ones(len(COMID_STEPS)), np.ones(len(COMID_STEPS)))
        bank._comid = bank._comid.with_state(saved.section("comid"), learners)
        bank._learned = True
        return bank


def _too_far_apart(t: int) -> LearnerError:
    problem = "could not learn from the pair (it is too far apart: its squared length is 1e250 or more)"
    return LearnerError(FixedExperts([1.0]).scale(0), t, problem)


def _check_state(state: State) -> None:
    """Raise ValueError for a combination of values that no rounds can produce; each array's limits were checked."""
    fits, calibrated = state.fits, bool(state.fits.any())
    limit, min_mean = platt.MAX_LOG_ODDS, platt.MIN_MEAN_DISTANCE if calibrated else 0.0
    hessian = fits[:, [platt.HESSIAN_OFFSET, platt.HESSIAN_SLOPE]]
    if (
        not (np.abs(fits[:, platt.OFFSET]) <= limit).all()
        or not ((fits[:, platt.SLOPE] >= 0.0) & (fits[:, platt.SLOPE] <= limit)).all()
        or not (fits[:, platt.MEAN_DISTANCE] >= min_mean).all()
        or not (hessian > 0.0 if calibrated else hessian == 0.0).all()
    ):
        raise ValueError("saved array 'fits' holds an impossible calibration")
    unit = state.scalars[experts.UNIT]
    if unit < 0.0 or (calibrated and unit == 0.0):
        raise ValueError(f"saved array 'numbers' holds the unit {unit}; expected a number above 0")


def _fit_log_odds(squares: Floats, odds: Floats) -> tuple[float, float]:
    """Return the slope and offset of the least-squares fit of ``offset - slope * d^2`` to log odds.

    Log odds near 0 get the largest weights, because errors matter most there.
    """
    weights, largest = 1.0 / (1.0 + np.square(odds)), float(squares.max())
    if not largest > 1e-300:  # no recent pair has differed; the matrix is already in units of log odds
        return 1.0, max(float(np.average(odds, weights=weights)), _MIN_THRESHOLD)
    squares = squares / largest
    mean_square, mean_odds = np.average(squares, weights=weights), np.average(odds, weights=weights)
    variance = np.average(np.square(squares - mean_square), weights=weights)
    covariance = np.average((squares - mean_square) * (odds - mean_odds), weights=weights)
    slope = -covariance / variance if variance > 0.0 else 0.0
    if not slope * mean_square > 1e-6:  # the log odds do not depend on the distance yet
        slope = 1.0 / max(mean_square, 1e-300)
    return float(slope / largest), max(float(mean_odds + slope * mean_square), _MIN_THRESHOLD)
