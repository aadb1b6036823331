"""DiagonalBank: the learners of diagonal metrics of all scales, compiled. The mathematics of ``DiagonalComid``."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad.engines.compiled_bank import LOSS_CODES, CompiledBank, KernelArgs
from ocelad.engines.kernels import diagonal
from ocelad.engines.kernels.diagonal import CARRY, ENSEMBLE, LANES, RESET, UNKNOWN, Settings, State
from ocelad.ensemble.bank import Finest, RoundState, Starts
from ocelad.ensemble.schedule import Schedule
from ocelad.ensemble.state_reader import StateReader
from ocelad.learners.comid import LossName
from ocelad.learners.step_schedule import StepSchedule
from ocelad.metric import Metric
from ocelad.pairs import Events, EventsName, as_sparse

FINEST_CODES: dict[Finest, int] = {"carry": CARRY, "ensemble": ENSEMBLE, "reset": RESET}


class Rows(NamedTuple):
    """Sparse rows, squared: the entries of row i are those from ``indptr[i]`` up to ``indptr[i + 1]``."""

    indptr: Any
    indices: Any
    squares: Floats


class DiagonalBank(CompiledBank):
    """The learners of ``DiagonalRiceBank``, fast: a pair costs each learner what it has entries that are not zero.

    Shrinkage is put off until a feature is touched. Starting a scale is a change of pointers and a copy of the
    features that were touched since the two slots were the same, which per pair comes to no more than learning from
    it does. Only ``finest="ensemble"`` costs every feature and scale whenever the finest scale starts.

    Parameters
    ----------
    n_features, schedule, initial_scale, initial_threshold, step_size, finest, events, starts, pace
        As of every ``CompiledBank``.
    loss, shrinkage
        As in ``track_metric``.
    """

    engine: ClassVar[str] = "diagonal"
    _state: State
    _kept: ClassVar[dict[str, tuple[float, float]]] = {
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
            pull=1.0 if events == "pairs" else 0.0,
            finest=FINEST_CODES[finest],
            steps=np.empty(0),
            weight=self._initial[0],
            threshold=self._initial[1],
        )
        # Often enough for the digits of what is put off, seldom enough that it costs each pair a few features.
        self.check_up_every = max(1024, n_features // 4)
        self._make_room(LANES)

    def mix(self, round_state: RoundState) -> Metric:
        """The weighted average of the learners' metrics."""
        weights = np.empty(self._n)
        threshold = diagonal.average(self._state, round_state.weights.copy(), round_state.active, weights)
        return Metric.low_rank(weights, np.zeros((0, self._n)), np.zeros(0), threshold, round_state.round - 1)

    def learner(self, j: int) -> Metric:
        """The metric that the learner of scale j holds."""
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
        # Writable, as in a replay: kernels are compiled for that only.
        return Rows(np.array([0, len(indices)]), indices.copy(), np.square(values))

    def _play(self, rows: Any, stretch: KernelArgs) -> tuple[int, int]:
        return diagonal.play(
            self._state,
            self._settings,
            rows.indptr,
            rows.indices,
            rows.squares,
            *stretch,
        )

    def _start(self, round_state: RoundState) -> None:
        diagonal.start(
            self._state, self._settings, len(round_state.starting), round_state.before.copy(), len(round_state.before)
        )

    def _check_up(self) -> None:
        """Shrink every weight by what has been put off."""
        if self._settings.rho > 0.0:
            diagonal.settle(self._state)

    def _hold(self, slot: int, metric: Metric) -> None:
        state, weights = self._state, metric.diagonal
        state.w[:, slot], state.s[:, slot], state.S[slot] = weights, 0.0, 0.0
        state.mu[slot], state.ceiling[slot], state.like[slot] = metric.threshold, weights.max(), UNKNOWN

    def _hold_first(self, slots: np.ndarray) -> None:
        first = Metric.from_diagonal(np.full(self._n, self._initial[0]), self._initial[1])
        for slot in slots:
            self._hold(int(slot), first)

    def _make_same_room(self, n_slots: int, saved: StateReader) -> None:
        self._make_room(n_slots)

    def _restore(self, saved: StateReader, round_state: RoundState) -> None:
        super()._restore(saved, round_state)
        if self._state.touched.max() >= self._n or self._state.like.max() > self._state.n_touched[0]:
            raise ValueError("what was kept as 'touched' or 'like' points behind the end")

    def _make_room(self, n_active: int) -> None:
        old: State | None = getattr(self, "_state", None)
        n_old = 0 if old is None else len(old.slots)
        if n_active <= n_old:
            return
        n, K = self._n, (n_active + LANES - 1) // LANES * LANES
        new = State(
            w=np.full((n, K), self._settings.weight),
            s=np.zeros((n, K)),
            S=np.zeros(K),
            mu=np.full(K, self._settings.threshold),
            ceiling=np.full(K, self._settings.weight),
            slots=np.arange(K),
            # Copying more features than half of them one by one takes longer than copying all in their order.
            touched=np.zeros(n // 2 + 1, dtype=np.int64) if old is None else old.touched,
            n_touched=np.zeros(1, dtype=np.int64) if old is None else old.n_touched,
            like=np.full(K, UNKNOWN),
            distance=np.zeros(K),
            slope=np.zeros(K),
            step=np.zeros(K),
            failed=np.zeros(1, dtype=np.int64),
        )
        if old is not None:
            new.w[:, :n_old], new.s[:, :n_old] = old.w, old.s
            for name in ("S", "mu", "ceiling", "slots", "like"):
                getattr(new, name)[:n_old] = getattr(old, name)
        self._state = new
        self._settings = self._settings._replace(steps=self._steps(K))


def _entries(squares: Floats, saved: Any) -> Rows:
    """The entries that are kept, as sparse rows."""
    rows, indices = np.nonzero(saved)
    indptr = np.searchsorted(rows, np.arange(len(squares) + 1))
    return Rows(indptr, np.ascontiguousarray(indices), squares[rows, indices])
