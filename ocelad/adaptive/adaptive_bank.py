"""AdaptiveBank: experts of different kinds, each calibrated, that tell how likely two points are the same."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from math import inf
from typing import Any, Self

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.adaptive.change_detection import MOST_CHANGES, Change, changes_of
from ocelad.adaptive.kernels import cusum as change_kernels
from ocelad.adaptive.kernels import experts, platt
from ocelad.adaptive.kernels.experts import State
from ocelad.adaptive.metric_regularization import played_matrix, trust_in_prior
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

#: How many rounds the windows of the moment learners span.
WINDOWS = (32, 64, 128, 256, 512, 1024, 2048)
#: The step sizes of the COMID learners, for differences in which every feature has a mean square of 1 / n_features.
COMID_STEPS = (19.0, 9.5, 4.75, 2.4, 1.2, 0.6)
PRIORS = ("Euclidean", "spread", "whitened")
N_MEMORIES = 3

_SMALLEST_THRESHOLD = 1e-9
# Which arrays later rounds depend on, and between what limits; the others are scratch.
_KEPT: dict[str, tuple[float, float]] = {
    "numbers": (-inf, inf),
    "spread": (0.0, inf),
    "P": (-inf, inf),
    "counts": (0.0, inf),
    "owed": (1e-9, 1.0),
    "fits": (-inf, inf),
    "priors": (-inf, inf),
    "memories": (-inf, inf),
    "taken": (0.0, inf),
    "aside": (-inf, inf),
    "aside_offset": (-inf, inf),
    "recent": (-inf, inf),
    "recent_y": (-1.0, 1.0),
    "recent_odds": (-inf, inf),
    "evidence": (0.0, 2.0**53),
    "changes": (0.0, 2.0**53),
}


class AdaptiveBank(ReplayBank, MetricBank):
    """Moment learners over windows, COMID learners, priors and memories: the experts of ``track_adaptive``.

    Each holds a squared distance, and an own logistic fit that makes of it log odds of "same". What an expert loses is
    the logarithmic loss of its probability. It changes in place, as a ``CompiledBank`` does.

    Parameters
    ----------
    n_features : int
    windows : sequence of int
        How many rounds the windows of the moment learners span, the shortest first.
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
        n, n_windows, n_experts = n_features, len(windows), len(self.expert_names)
        self._n = n
        grid = FixedExperts(COMID_STEPS)
        self._comid = FullRankBank(
            n,
            grid,
            initial_scale=1.0 / n,
            initial_threshold=1.0,
            step_size=1.0 / n**2,
            loss="logistic",
            max_norm=None,
            finest="reset",
            starts="scratch",
        ).start(
            RoundState(1, tuple(grid.scale(j) for j in range(grid.max_scales)), np.ones(grid.max_scales), np.empty(0))
        )
        self._state = State(
            keeps=1.0 - 2.0 / (np.array(windows) + 1.0),
            numbers=np.zeros(experts.N_NUMBERS),
            spread=np.zeros(n),
            P=np.zeros((n_windows + 1, n, n)),
            counts=np.zeros(n_windows + 1),
            owed=np.ones(n_windows),
            fits=np.zeros((n_experts, platt.N_COLUMNS)),
            priors=np.zeros(len(PRIORS)),
            memories=np.zeros((N_MEMORIES, n, n)),
            taken=np.zeros(N_MEMORIES),
            aside=np.zeros((2, n, n)),
            aside_offset=np.zeros(2),
            recent=np.zeros((experts.ASIDE, n)),
            recent_y=np.zeros(experts.ASIDE),
            recent_odds=np.zeros(experts.ASIDE),
            evidence=np.zeros(change_kernels.N_EVIDENCE),
            changes=np.zeros((MOST_CHANGES, 3)),
            x=np.zeros((1, n)),
            s=np.zeros((1, n)),
            V=np.zeros((n_windows + 1, n)),
            raw=np.zeros(n_windows + 1),
            remembered=np.zeros((N_MEMORIES, n)),
            squares=np.zeros(n_experts),
            odds=np.zeros(n_experts),
            column=np.zeros(n),
            mixed=np.zeros((n, n)),
        )
        self._learned = False
        #: The experts' margins on the event that was observed last: its label times their log odds.
        self.last_margins = np.empty(0)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        bank = copy(self)
        bank._comid = deepcopy(self._comid)
        bank._state = State(*(array.copy() for array in self._state))
        return bank

    def start(self, round_state: RoundState) -> Self:
        """Nothing: all experts run from the first round on."""
        if round_state.n_active != len(self.expert_names):
            raise ValueError(
                f"this AdaptiveBank has {len(self.expert_names)} experts; the ensemble has {round_state.n_active}"
            )
        if round_state.round == 1 and self._learned:
            raise ValueError("this AdaptiveBank has learned already; every Ocelad needs one of its own")
        return self

    def observe(self, event: Event | Pair, round_state: RoundState) -> tuple[Floats, Self]:
        """What each expert lost on the event; each has learned from it."""
        event = as_event(event, self._n)
        row, y = as_dense(event.u).reshape(1, -1).copy(), np.array([event.y])
        lost, margin, none = np.zeros(round_state.n_active), np.zeros(round_state.n_active), np.zeros(1)
        self._learned = True
        _, outcome = self._play(row, y, 0, round_state.round, round_state.records.copy(), 1.0, lost, margin, none, True)
        if outcome != rounds.PLAYED:
            raise self._error(round_state)
        self.last_margins = margin
        return lost, self

    def can_replay(self, config: EnsembleConfig) -> bool:
        """Return whether the ensemble has fixed experts and the weighting that the kernel implements."""
        return isinstance(config.schedule, FixedExperts) and config.kernel_weighting.code == DISCOUNTED

    def replay(
        self, events: Any, round_state: RoundState, config: EnsembleConfig
    ) -> tuple[RoundState, Floats, LearnerError | None]:
        """Play a round on each of the events without coming back to Python; the turn after them, and the margins."""
        if len(events):
            as_event(events[0], self._n)
        rows = events.U.toarray() if events.sparse else events.U
        rows = rows if rows.flags.c_contiguous and rows.flags.writeable else rows.copy(order="C")
        lost, margin = np.zeros(round_state.n_active), np.zeros(round_state.n_active)
        margins, records = np.empty(len(events)), round_state.records.copy()
        self._learned = True
        done, outcome = self._play(
            rows,
            events.y,
            0,
            round_state.round,
            records,
            config.kernel_weighting.horizon,
            lost,
            margin,
            margins,
            False,
        )
        error = None if outcome == rounds.PLAYED else self._error(round_state, round_state.round + done)
        if done:
            weights = records[WEIGHT].copy()
            round_state = RoundState(round_state.round + done, (), weights, weights.copy(), records)
        return round_state, margins[:done] if error else margins, error

    def _play(
        self,
        rows: Floats,
        y: Floats,
        first: int,
        t: int,
        records: Floats,
        horizon: float,
        lost: Floats,
        margin: Floats,
        margins: Floats,
        alone: bool,
    ) -> tuple[int, int]:
        comid = self._comid
        scratch = np.zeros((2, len(COMID_STEPS)))
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):  # where kernels run as plain Python
            return experts.play(
                self._state,
                comid._state,
                comid._settings,
                rows,
                y,
                first,
                len(rows),
                t,
                records,
                horizon,
                lost,
                margin,
                margins,
                alone,
                scratch[0],
                scratch[1],
            )

    def _error(self, round_state: RoundState, t: int | None = None) -> LearnerError:
        words = "could not learn from the pair (it is too far apart: its squared length is 1e250 or more)"
        return LearnerError(FixedExperts([1.0]).scale(0), round_state.round if t is None else t, words)

    def mix(self, round_state: RoundState) -> Metric:
        """The metric that is played: ``threshold - d^2`` are, about, the log odds of "same"."""
        state, passed = self._state, round_state.round - 1
        unit, spread = float(state.numbers[experts.UNIT]), state.spread
        if not self._has_begun:
            return self._at_first(passed)
        mixed, _ = self._mixture(round_state)
        matrix = played_matrix(mixed, spread, self._prior(), self.trust)
        seen = min(passed, len(state.recent))
        recent, odds = state.recent[:seen], state.recent_odds[:seen]
        slope, threshold = _in_odds(np.einsum("ij,jk,ik->i", recent, matrix, recent), odds)
        matrix *= slope * unit * unit
        if not np.isfinite(matrix).all():
            raise FloatingPointError("the metric overflows in the units of the data; data of a usual scale are needed")
        return Metric.trusted(matrix, threshold, passed)

    def _at_first(self, passed: int) -> Metric:
        """While pairs are only watched: each feature by its spread so far, as far as it is known."""
        squares = np.square(self._state.recent[: max(passed, 0)]).mean(axis=0) if passed else np.zeros(self._n)
        weights = np.divide(1.0, squares, out=np.ones(self._n), where=squares > 1e-200) / self._n
        return Metric.trusted(np.diag(weights if squares.any() else np.full(self._n, 1.0 / self._n)), 1.0, passed)

    @property
    def _has_begun(self) -> bool:
        """Whether experts have been judged; before that pairs are only watched."""
        return bool(self._state.fits[0, platt.LEVEL] > 0.0)

    @property
    def trust(self) -> float:
        """How far the prior distance is trusted, 0 to 1: whether its near pairs are the same as surely as others'."""
        numbers = self._state.numbers
        share = float(numbers[experts.SHARE_SAME])
        pseudo = experts.NEAR_PSEUDO
        same = [
            (float(numbers[place + 1]) + pseudo * share) / (float(numbers[place + 2]) + pseudo)
            for place in (experts.PRIOR_NEAR, experts.OWN_NEAR)
        ]
        return trust_in_prior(same[0], same[1], share)

    def log_odds(self, U: Floats, round_state: RoundState) -> Floats:
        """The ensemble's log odds of "same" for each of the differences."""
        if not self._has_begun:
            return np.zeros(len(U))
        mixed, offset = self._mixture(round_state)
        scaled = U * self._state.numbers[experts.UNIT]
        odds = offset - np.einsum("ij,jk,ik->i", scaled, mixed, scaled)
        return np.asarray(np.clip(odds, -platt.MOST_ODDS, platt.MOST_ODDS))

    def drift(self, round_state: RoundState) -> float:
        """How fast the metric moves: by which part of its size it has changed per round, over the last 64 or so."""
        return float(self._state.numbers[experts.DRIFT])

    @property
    def changes(self) -> list[Change]:
        """The last changes of the question that answers have shown."""
        return changes_of(self._state.evidence, self._state.changes)

    def _mixture(self, round_state: RoundState) -> tuple[Floats, float]:
        """What experts say on average, in the unit of the first pairs."""
        mixed = np.empty((self._n, self._n))
        offset = experts.mixture(self._state, self._comid._state.M, round_state.records.copy(), self._n, mixed)
        return mixed, float(offset)

    def _prior(self) -> Floats:
        """The priors' distance, weighed by how well each has done, and 1 on average."""
        state = self._state
        shares = np.exp(state.priors - state.priors.max())
        shares /= shares.sum()
        first = len(state.keeps) + len(COMID_STEPS)
        plain, by_spread, whitened = shares / state.fits[first : first + len(PRIORS), platt.LEVEL]
        inverse = np.divide(1.0, state.spread, out=np.zeros(self._n), where=state.spread > 0.0)
        prior: Floats = np.diag(plain + by_spread * inverse)
        prior += whitened * (state.counts[-1] + experts.RIDGE_ALL) * state.P[-1]
        return prior

    def state(self) -> tuple[Arrays, Metadata]:
        """All that later rounds depend on."""
        arrays, metadata = self._comid.state()
        own = {name: getattr(self._state, name).copy() for name in _KEPT}
        return {**own, **add_prefix("comid", arrays)}, {"engine": self.engine, "comid": metadata}

    def with_state(self, saved: StateReader, round_state: RoundState) -> Self:
        """A bank as it was when ``state`` was called; this one, which has not learned yet, stays as it is."""
        bank = deepcopy(self)
        saved.expect("engine", self.engine)
        for name, limits in _KEPT.items():
            array = getattr(bank._state, name)
            array[...] = saved.array_like(name, array, *limits)
        _check(bank._state)
        learners = RoundState(round_state.round, (), np.ones(len(COMID_STEPS)), np.ones(len(COMID_STEPS)))
        bank._comid = bank._comid.with_state(saved.section("comid"), learners)
        bank._learned = True
        return bank


def _check(state: State) -> None:
    """Refuse what no rounds can have left; limits of whole arrays have been looked at."""
    fits, begun = state.fits, bool(state.fits.any())
    most, least = platt.MOST_ODDS, platt.LEAST_LEVEL if begun else 0.0
    curves = fits[:, [platt.CURVE_OFFSET, platt.CURVE_SLOPE]]
    if (
        not (np.abs(fits[:, platt.OFFSET]) <= most).all()
        or not ((fits[:, platt.SLOPE] >= 0.0) & (fits[:, platt.SLOPE] <= most)).all()
        or not (fits[:, platt.LEVEL] >= least).all()
        or not (curves > 0.0 if begun else curves == 0.0).all()
    ):
        raise ValueError("what was kept as 'fits' holds a calibration that is none")
    if state.numbers[experts.UNIT] < 0.0 or (begun and state.numbers[experts.UNIT] == 0.0):
        raise ValueError(
            f"what was kept as 'numbers' holds a unit of {state.numbers[experts.UNIT]}; above 0 is expected"
        )


def _in_odds(squares: Floats, odds: Floats) -> tuple[float, float]:
    """The slope and the offset by which ``offset - slope d^2`` is nearest to log odds that were given.

    Where those are near 0 it matters most.
    """
    weights, largest = 1.0 / (1.0 + np.square(odds)), float(squares.max())
    if not largest > 1e-300:  # no pair has differed lately; the matrix is in log odds already
        return 1.0, max(float(np.average(odds, weights=weights)), _SMALLEST_THRESHOLD)
    squares = squares / largest
    mean, middle = np.average(squares, weights=weights), np.average(odds, weights=weights)
    spread = np.average(np.square(squares - mean), weights=weights)
    slope = -np.average((squares - mean) * (odds - middle), weights=weights) / spread if spread > 0.0 else 0.0
    if not slope * mean > 1e-6:  # nothing has been told apart yet
        slope = 1.0 / max(mean, 1e-300)
    return float(slope / largest), max(float(middle + slope * mean), _SMALLEST_THRESHOLD)
