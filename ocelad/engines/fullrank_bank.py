"""FullRankBank: COMID learners as full matrices, eight at a time, for objectives without shrinkage."""

from __future__ import annotations

from copy import copy
from math import inf
from typing import Any, ClassVar, get_args

import numpy as np

from ocelad._typing import Floats
from ocelad.engines.compiled_bank import LOSS_CODES, CompiledBank, zero_cancellations
from ocelad.engines.kernels import cholesky, fullrank, rounds
from ocelad.engines.kernels.fullrank import Settings, State
from ocelad.engines.kernels.rounds import KernelArgs
from ocelad.engines.kernels.secular import LANES, padded
from ocelad.ensemble.bank import Finest, RoundState, Starts
from ocelad.ensemble.schedule import Schedule
from ocelad.ensemble.state_reader import StateReader
from ocelad.learners.comid import LossName
from ocelad.learners.step_schedule import StepSchedule
from ocelad.metric import Metric
from ocelad.pairs import Events, EventsName, as_dense

# The kernels' codes of ``starts`` and ``finest``.
SOURCE_CODES: dict[Starts | Finest, int] = {
    "below": fullrank.BELOW,
    "ensemble": fullrank.ENSEMBLE,
    "scratch": fullrank.SCRATCH,
    "reset": fullrank.SCRATCH,
    "carry": fullrank.KEEP,
}


class FullRankBank(CompiledBank):
    """A fast ``RiceBank`` for the squared Frobenius divergence without shrinkage and few features.

    Without shrinkage the metrics become full rank, where an eigendecomposition saves no work. A dissimilar pair is then
    a rank-one addition. After a similar pair at most one eigenvalue is negative, and a few Cholesky factorisations find
    it: for eight learners at once, one in each lane of the processor's vectors.

    Parameters
    ----------
    n_features, schedule, initial_scale, initial_threshold, step_size, finest, events, starts, step_schedule
        As in ``CompiledBank``.
    loss, max_norm
        As in ``track_metric``.
    """

    engine = "fullrank"
    replayable_starts: ClassVar[tuple[Starts, ...]] = get_args(Starts)

    _state: State
    _saved_arrays: ClassVar[dict[str, tuple[float, float]]] = {"M": (-inf, inf), "mu": (1.0, inf), "guess": (0.0, 1.0)}

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
        self._triangle = np.tril_indices(n_features)  # a metric is stored as its lower triangle
        self._initial_triangle = self._initial[0] * np.eye(n_features)[self._triangle]
        self._settings = Settings(
            loss=LOSS_CODES[loss],
            max_norm=inf if max_norm is None else float(max_norm),
            finest=rounds.CARRY if finest == "carry" else rounds.REPLACE,
            start_source=SOURCE_CODES[starts],
            finest_source=SOURCE_CODES[finest],
            steps=np.empty(0),
            n=n_features,
            initial_scale=self._initial[0],
            initial_threshold=self._initial[1],
        )
        self._state = self._allocate(n_active=1)

    def __deepcopy__(self, memo: dict[int, Any]) -> FullRankBank:
        bank = copy(self)  # every replay copies the bank, and kernels change only the arrays of _state
        bank._state = State(*(array.copy() for array in self._state))
        return bank

    def mix(self, round_state: RoundState) -> Metric:
        """Return the weighted average of the learners' metrics."""
        matrix, threshold = self._average(round_state.probabilities)
        return Metric.from_trusted_matrix(matrix, threshold, round_state.round - 1)

    def learner(self, j: int) -> Metric:
        """Return the metric of the learner of scale j."""
        only = np.zeros(len(self._state.slots))
        only[j] = 1.0
        return Metric.from_trusted_matrix(*self._average(only))

    def _rows(self, events: Events) -> Floats:
        return _as_kernel_array(events.U.toarray() if events.sparse else events.U)

    def _relative_rows(self, near: Floats, far: Floats) -> tuple[Floats, Floats]:
        near, far = zero_cancellations(near, far)
        return _as_kernel_array(near), _as_kernel_array(far)

    def _row(self, u: Any) -> Floats:
        return as_dense(u).reshape(1, -1).copy()

    def _play(self, rows: Any, args: KernelArgs) -> tuple[int, int]:
        if self._events == "relatives":
            near, far = rows
            return fullrank.play_relatives(self._state, self._settings, near, far, args)
        return fullrank.play(self._state, self._settings, rows, args)

    def _start_from_below(self, round_state: RoundState) -> None:
        if self._finest != "carry":
            spare = self._state.slots[-1:]
            if self._finest == "reset":
                self._set_initial(spare)
            else:
                self._set_metric(
                    spare[0],
                    Metric.from_trusted_matrix(
                        *self._average(round_state.previous_weights / round_state.previous_weights.sum())
                    ),
                )
        fullrank.start(self._state, len(round_state.starting), self._settings.finest)

    def _set_metric(self, slot: int, metric: Metric) -> None:
        self._state.M[slot // LANES, :, slot % LANES] = metric.matrix[self._triangle]
        self._state.mu[slot] = metric.threshold

    def _set_initial(self, slots: np.ndarray) -> None:
        M, mu = self._state.M, self._state.mu
        M[slots // LANES, :, slots % LANES] = self._initial_triangle
        mu[slots] = self._initial[1]

    def _start_from_ensemble_or_scratch(self, round_state: RoundState) -> None:
        fullrank.start_from_source(
            self._state,
            self._settings,
            len(round_state.starting),
            round_state.previous_weights.copy(),
            len(round_state.previous_weights),
        )

    def _average(self, probabilities: Floats) -> tuple[Floats, float]:
        """Return the weighted averages of the matrices and of the thresholds."""
        state, slots = self._state, self._state.slots[: len(probabilities)]
        lanes = state.M[slots // LANES, :, slots % LANES]
        matrix = np.zeros((self._n, self._n))
        matrix[self._triangle] = probabilities @ lanes
        matrix = np.tril(matrix) + np.tril(matrix, -1).T
        return matrix, max(float(probabilities @ state.mu[slots]), 1.0)

    def _reserve_saved(self, n_slots: int, saved: StateReader) -> None:
        self._reserve_slots(n_slots - 1)

    def _reserve_slots(self, n_active: int) -> None:
        old, n_old = self._state, len(self._state.slots)
        if n_active < n_old:
            return
        new = self._allocate(n_active)
        new.M[: len(old.M)] = old.M
        new.mu[:n_old], new.guess[:n_old] = old.mu, old.guess
        # The new scales get the new slots; the spare slot stays last.
        new.slots[: n_old - 1], new.slots[n_old - 1 : -1] = old.slots[:-1], np.arange(n_old, len(new.slots))
        new.slots[-1] = old.slots[-1]
        self._state = new

    def _allocate(self, n_active: int) -> State:
        """Return the state of initial learners for at least this many scales and a spare slot; set the step sizes."""
        n, groups = self._n, n_active // LANES + 1
        n_slots, size = LANES * groups, n * (n + 1) // 2
        state = State(
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
        state.M[:] = self._initial_triangle[:, None]
        self._settings = self._settings._replace(steps=self._step_sizes(n_slots - 1))
        return state


def _as_kernel_array(U: Floats) -> Floats:
    """Return the rows as a C-ordered and writable array, the only kind that the kernels are compiled for."""
    return U if U.flags.c_contiguous and U.flags.writeable else U.copy(order="C")
