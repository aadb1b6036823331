"""DiagonalBank: compiled COMID learners of diagonal metrics."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad.engines.compiled_bank import LOSS_CODES, CompiledBank
from ocelad.engines.kernels import diagonal
from ocelad.engines.kernels.diagonal import CARRY, ENSEMBLE, LANES, RESET, UNKNOWN, Settings, State
from ocelad.engines.kernels.rounds import KernelArgs
from ocelad.ensemble.bank import Finest, RoundState, Starts
from ocelad.ensemble.schedule import Schedule
from ocelad.ensemble.state_reader import StateReader
from ocelad.learners.comid import LossName
from ocelad.learners.step_schedule import StepSchedule
from ocelad.metric import Metric
from ocelad.pairs import Events, EventsName, as_sparse

FINEST_CODES: dict[Finest, int] = {"carry": CARRY, "ensemble": ENSEMBLE, "reset": RESET}


class Rows(NamedTuple):
    """The squared entries of sparse rows; those of row i are at ``indptr[i]`` .. ``indptr[i + 1] - 1``."""

    indptr: Any
    indices: Any
    squares: Floats


class DiagonalBank(CompiledBank):
    """A fast ``DiagonalRiceBank``: a pair costs O(nnz) per learner.

    Shrinkage of a feature is deferred until a pair touches the feature. Starting a scale rotates pointers and copies
    the features that were touched since the two slots were equal; per pair this costs no more than the update. Only
    ``finest="ensemble"`` costs O(n_features) per scale whenever the finest scale starts.

    Parameters
    ----------
    n_features, schedule, initial_scale, initial_threshold, step_size, finest, events, starts, step_schedule
        As in ``CompiledBank``.
    loss, shrinkage
        As in ``track_metric``.
    """

    engine = "diagonal"
    _state: State
    _saved_arrays: ClassVar[dict[str, tuple[float, float]]] = {
        "w": (0.0, inf),
        "s": (0.0, inf),
        "S": (0.0, inf),
        "mu": (1.0, inf),
        "ceiling": (0.0, inf),
        "touched": (0, 2**62),
        "n_touched": (0, 2**62),
        "like": (UNKNOWN, 2**62),
    }

    def __init__(
        self,
        n_features: int,
        schedule: Schedule,
        *,
        initial_scale: float,
        initial_threshold: float,
        step_size: float,
        loss: LossName,
        shrinkage: float,
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
        self._settings = Settings(
            loss=LOSS_CODES[loss],
            rho=float(shrinkage),
            threshold_slope=1.0 if events == "pairs" else 0.0,
            finest=FINEST_CODES[finest],
            steps=np.empty(0),
            initial_weight=self._initial[0],
            initial_threshold=self._initial[1],
        )
        # Frequent enough for the accuracy of the deferred shrinkage, rare enough to cost each pair only a few features.
        self.repair_interval = max(1024, n_features // 4)
        self._state = self._allocate(LANES)

    def mix(self, round_state: RoundState) -> Metric:
        """Return the weighted average of the learners' metrics."""
        weights = np.empty(self._n)
        threshold = diagonal.average(self._state, round_state.weights.copy(), round_state.n_active, weights)
        return Metric.low_rank(weights, np.zeros((0, self._n)), np.zeros(0), threshold, round_state.round - 1)

    def learner(self, j: int) -> Metric:
        """Return the metric of the learner of scale j."""
        only = np.zeros(len(self._state.slots))
        only[j] = 1.0
        weights = np.empty(self._n)
        threshold = diagonal.average(self._state, only, len(only), weights)
        return Metric.low_rank(weights, np.zeros((0, self._n)), np.zeros(0), threshold)

    def _rows(self, events: Events) -> Rows:
        if events.sparse:
            return Rows(events.U.indptr.astype(np.int64), events.U.indices.astype(np.int64), np.square(events.U.data))
        return _entries(np.square(events.U), events.U != 0.0)

    def _relative_rows(self, near: Floats, far: Floats) -> Rows:
        squares = np.square(near) - np.square(far)
        return _entries(squares, squares != 0.0)

    def _row(self, u: Any) -> Rows:
        indices, values, _ = as_sparse(u)
        # The kernels are compiled for writable arrays only, and those of a SparseVector are read-only.
        return Rows(np.array([0, len(indices)]), indices.copy(), np.square(values))

    def _play(self, rows: Any, args: KernelArgs) -> tuple[int, int]:
        return diagonal.play(self._state, self._settings, rows.indptr, rows.indices, rows.squares, args)

    def _start_from_below(self, round_state: RoundState) -> None:
        diagonal.start(
            self._state,
            self._settings,
            len(round_state.starting),
            round_state.previous_weights.copy(),
            len(round_state.previous_weights),
        )

    def _repair_rounding(self) -> None:
        """Apply the deferred shrinkage to every weight."""
        if self._settings.rho > 0.0:
            diagonal.apply_deferred_shrinkage(self._state)

    def _set_metric(self, slot: int, metric: Metric) -> None:
        state, weights = self._state, metric.diagonal
        state.w[:, slot], state.s[:, slot], state.S[slot] = weights, 0.0, 0.0
        state.mu[slot], state.ceiling[slot], state.like[slot] = metric.threshold, weights.max(), UNKNOWN

    def _set_initial(self, slots: np.ndarray) -> None:
        first = Metric.from_diagonal(np.full(self._n, self._initial[0]), self._initial[1])
        for slot in slots:
            self._set_metric(int(slot), first)

    def _reserve_saved(self, n_slots: int, saved: StateReader) -> None:
        self._reserve_slots(n_slots)

    def _restore(self, saved: StateReader, round_state: RoundState) -> None:
        super()._restore(saved, round_state)
        if self._state.touched.max() >= self._n or self._state.like.max() > self._state.n_touched[0]:
            raise ValueError("saved array 'touched' or 'like' holds an index beyond the end")

    def _reserve_slots(self, n_active: int) -> None:
        old, n_old = self._state, len(self._state.slots)
        if n_active <= n_old:
            return
        new = self._allocate(n_active)._replace(touched=old.touched, n_touched=old.n_touched)
        new.w[:, :n_old], new.s[:, :n_old] = old.w, old.s
        new.S[:n_old], new.mu[:n_old], new.ceiling[:n_old] = old.S, old.mu, old.ceiling
        new.slots[:n_old], new.like[:n_old] = old.slots, old.like
        self._state = new

    def _allocate(self, n_active: int) -> State:
        """Return the state of initial learners for at least this many scales; set the step sizes."""
        n, n_slots = self._n, (n_active + LANES - 1) // LANES * LANES
        self._settings = self._settings._replace(steps=self._step_sizes(n_slots))
        return State(
            w=np.full((n, n_slots), self._settings.initial_weight),
            s=np.zeros((n, n_slots)),
            S=np.zeros(n_slots),
            mu=np.full(n_slots, self._settings.initial_threshold),
            ceiling=np.full(n_slots, self._settings.initial_weight),
            slots=np.arange(n_slots),
            # Copying more than half of the features one by one is slower than copying all of them in order.
            touched=np.zeros(n // 2 + 1, dtype=np.int64),
            n_touched=np.zeros(1, dtype=np.int64),
            like=np.full(n_slots, UNKNOWN),
            distance=np.zeros(n_slots),
            slope=np.zeros(n_slots),
            step=np.zeros(n_slots),
            failed=np.zeros(1, dtype=np.int64),
        )


def _entries(squares: Floats, mask: Any) -> Rows:
    """Return the entries where the mask is true, as sparse rows."""
    rows, indices = np.nonzero(mask)
    indptr = np.searchsorted(rows, np.arange(len(squares) + 1))
    return Rows(indptr, np.ascontiguousarray(indices), squares[rows, indices])
