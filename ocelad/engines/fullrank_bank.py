"""FullRankBank: the COMID learners of all scales as full matrices, eight at a time, for steps without shrinkage."""

from __future__ import annotations

from copy import copy
from math import inf
from typing import Any, ClassVar, get_args

import numpy as np

from ocelad._typing import Floats
from ocelad.engines.compiled_bank import LOSS_CODES, CompiledBank, KernelArgs, zero_cancellations
from ocelad.engines.kernels import cholesky, fullrank, rounds
from ocelad.engines.kernels.fullrank import Settings, State
from ocelad.engines.kernels.secular import LANES, padded
from ocelad.ensemble.bank import Finest, RoundState, Starts
from ocelad.ensemble.schedule import Schedule
from ocelad.ensemble.state_reader import StateReader
from ocelad.learners.comid import LossName
from ocelad.learners.step_schedule import StepSchedule
from ocelad.metric import Metric
from ocelad.pairs import Events, EventsName, as_dense

# What a scale above the finest, and what the finest starts from, as kernels know it.
SOURCES: dict[Starts | Finest, int] = {
    "below": fullrank.BELOW,
    "ensemble": fullrank.ENSEMBLE,
    "scratch": fullrank.SCRATCH,
    "reset": fullrank.SCRATCH,
    "carry": fullrank.KEEP,
}


class FullRankBank(CompiledBank):
    """The learners of ``RiceBank`` for the squared Frobenius divergence without shrinkage, fast where n is small.

    Without shrinkage metrics come to have full rank, and an eigenform is no help. But then a dissimilar pair is only an
    addition, and after a similar one at most one eigenvalue is negative, which a few Cholesky factorisations find:
    of eight learners at once, one in each lane of the processor's vectors.

    Parameters
    ----------
    n_features, schedule, initial_scale, initial_threshold, step_size, finest, events, starts, pace
        As of every ``CompiledBank``.
    loss, max_norm
        As in ``track_metric``.
    """

    engine: ClassVar[str] = "fullrank"
    fused_starts: ClassVar[tuple[Starts, ...]] = get_args(Starts)

    _state: State
    _kept: ClassVar[dict[str, tuple[float, float]]] = {"M": (-inf, inf), "mu": (1.0, inf), "guess": (0.0, 1.0)}

    def __init__(
        self,
        n_features: int,
        schedule: Schedule,
        *,
        initial_scale: float,
        initial_threshold: float,
        step_size: float,
        loss: LossName,
        max_norm: float | None,
        finest: Finest,
        events: EventsName = "pairs",
        starts: Starts = "below",
        step_schedule: StepSchedule | None = None,
    ) -> None:
        super().__init__(
            n_features,
            schedule,
            initial_scale=initial_scale,
            initial_threshold=initial_threshold,
            step_size=step_size,
            finest=finest,
            events=events,
            starts=starts,
            step_schedule=step_schedule,
        )
        self._triangle = np.tril_indices(n_features)
        self._first = self._initial[0] * np.eye(n_features)[self._triangle]
        self._settings = Settings(
            loss=LOSS_CODES[loss],
            max_norm=inf if max_norm is None else float(max_norm),
            finest=rounds.CARRY if finest == "carry" else rounds.REPLACE,
            starts=SOURCES[starts],
            own=SOURCES[finest],
            steps=np.empty(0),
            n=n_features,
            weight=self._initial[0],
            threshold=self._initial[1],
        )
        self._make_room(1)

    def __deepcopy__(self, memo: dict[int, Any]) -> FullRankBank:
        # Kernels change nothing but these, and every replay begins with a copy.
        bank = copy(self)
        bank._state = State(*(array.copy() for array in self._state))
        return bank

    def mix(self, round_state: RoundState) -> Metric:
        """The weighted average of the learners' metrics."""
        matrix, threshold = self._average(round_state.probabilities)
        return Metric.trusted(matrix, threshold, round_state.round - 1)

    def learner(self, j: int) -> Metric:
        """The metric that the learner of scale j holds."""
        only = np.zeros(len(self._state.slots))
        only[j] = 1.0
        return Metric.trusted(*self._average(only))

    def _rows(self, events: Events) -> Floats:
        return _in_order(events.U.toarray() if events.sparse else events.U)

    def _relative_rows(self, near: Floats, far: Floats) -> tuple[Floats, Floats]:
        near, far = zero_cancellations(near, far)
        return _in_order(near), _in_order(far)

    def _row(self, u: Any) -> Floats:
        return as_dense(u).reshape(1, -1).copy()

    def _play(self, rows: Any, stretch: KernelArgs) -> tuple[int, int]:
        if self._events == "relatives":
            near, far = rows
            return fullrank.play_relatives(
                self._state,
                self._settings,
                near,
                far,
                *stretch[1:],  # they have no labels
            )
        return fullrank.play(
            self._state,
            self._settings,
            rows,
            *stretch,
        )

    def _start(self, round_state: RoundState) -> None:
        if self._finest != "carry":
            spare = self._state.slots[-1:]
            if self._finest == "reset":
                self._hold_first(spare)
            else:
                self._hold(spare[0], Metric.trusted(*self._average(round_state.before / round_state.before.sum())))
        fullrank.start(self._state, len(round_state.starting), self._settings.finest)

    def _hold(self, slot: int, metric: Metric) -> None:
        self._state.M[slot // LANES, :, slot % LANES] = metric.matrix[self._triangle]
        self._state.mu[slot] = metric.threshold

    def _hold_first(self, slots: np.ndarray) -> None:
        M, mu = self._state.M, self._state.mu
        M[slots // LANES, :, slots % LANES] = self._first
        mu[slots] = self._initial[1]

    def _start_alike(self, round_state: RoundState) -> None:
        fullrank.start_alike(
            self._state, self._settings, len(round_state.starting), round_state.before.copy(), len(round_state.before)
        )

    def _average(self, probabilities: Floats) -> tuple[Floats, float]:
        """The weighted average of the matrices and of the thresholds."""
        state, slots = self._state, self._state.slots[: len(probabilities)]
        lanes = state.M[slots // LANES, :, slots % LANES]
        matrix = np.zeros((self._n, self._n))
        matrix[self._triangle] = probabilities @ lanes
        matrix = np.tril(matrix) + np.tril(matrix, -1).T
        return matrix, max(float(probabilities @ state.mu[slots]), 1.0)

    def _make_same_room(self, n_slots: int, saved: StateReader) -> None:
        self._make_room(n_slots - 1)

    def _make_room(self, n_active: int) -> None:
        old: State | None = getattr(self, "_state", None)
        n_old = 0 if old is None else len(old.slots)
        if n_active < n_old:
            return
        n, groups = self._n, n_active // LANES + 1
        n_slots, size = LANES * groups, n * (n + 1) // 2
        new = State(
            M=np.zeros((groups, size, LANES)),
            mu=np.full(n_slots, self._initial[1]),
            guess=np.full(n_slots, 0.3),
            slots=np.arange(n_slots),
            square=np.zeros(n_slots),
            change=np.zeros(n_slots),
            outer=np.zeros(size),
            C=np.zeros((n, n, LANES)),
            x=np.zeros((cholesky.N_VECTORS, n, LANES)),
            lanes=np.zeros((cholesky.N_NUMBERS, LANES)),
            R=np.zeros((n + cholesky.N_VECTORS, padded(n))),
            failed=np.zeros(1, dtype=np.int64),
        )
        new.M[:] = self._first[:, None]
        if old is not None:
            new.M[: len(old.M)] = old.M
            new.mu[:n_old], new.guess[:n_old] = old.mu, old.guess
            # The new slots are those of the new scales; the spare one stays at the end.
            new.slots[: n_old - 1], new.slots[n_old - 1 : -1] = old.slots[:-1], np.arange(n_old, n_slots)
            new.slots[-1] = old.slots[-1]
        self._state = new
        self._settings = self._settings._replace(steps=self._steps(n_slots - 1))


def _in_order(U: Floats) -> Floats:
    """Rows as the kernels were compiled for: in C order, and writable."""
    return U if U.flags.c_contiguous and U.flags.writeable else U.copy(order="C")
