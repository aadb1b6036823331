"""MetricBank: the COMID learners of all scales in eigenform, compiled. The mathematics of ``Comid``."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_integer
from ocelad.engines.compiled_bank import LOSS_CODES, CompiledBank, KernelArgs, zero_cancellations
from ocelad.engines.kernels import lowrank, rounds
from ocelad.engines.kernels.eigenform import N_ORDERS, N_POLES, Work
from ocelad.engines.kernels.lowrank import Basis, Settings, State
from ocelad.engines.kernels.secular import LANES, N_NUMBERS, padded
from ocelad.ensemble.bank import Finest, RoundState, Starts
from ocelad.ensemble.schedule import Schedule
from ocelad.ensemble.state_reader import StateReader
from ocelad.learners.comid import LossName
from ocelad.learners.step_schedule import StepSchedule
from ocelad.metric import Metric
from ocelad.pairs import Events, EventsName, as_dense

# How far from orthonormal directions may be before they are made so again.
HEALTHY = 1e-12
# Above so many features, what is played is held by its directions, not as a matrix.
LARGE = 200


class LowRankBank(CompiledBank):
    """The learners of ``RiceBank`` for the squared Frobenius divergence with the nuclear norm or no regulariser, fast.

    Each learner holds ``base * I`` plus what differs from it along some orthonormal directions. A pair that is
    told apart already costs a projection and an addition; another one costs a rank-one change of the eigenform.
    Starting a scale is a change of pointers and one copy.

    Parameters
    ----------
    n_features, schedule, initial_scale, initial_threshold, step_size, finest, events, starts, pace
        As of every ``CompiledBank``.
    loss, shrinkage, max_norm
        As in ``track_metric``.
    max_rank : int or None
        At most so many directions per learner may differ from the base. Beyond it the direction whose eigenvalue
        is nearest to the base (the smallest, where the base is zero) is cut, and ``n_cuts`` counts it. None: no
        direction is ever dropped.
    """

    engine: ClassVar[str] = "lowrank"
    check_up_every = 4096

    _state: State
    _kept: ClassVar[dict[str, tuple[float, float]]] = {
        "rank": (0, 2**62),
        "mu": (1.0, inf),
        "base": (0.0, inf),
        "shift": (0.0, inf),
        "filled": (0, 2**62),
        "cuts": (0, 2**62),
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
        max_norm: float | None,
        finest: Finest,
        max_rank: int | None = None,
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
            max_norm=inf if max_norm is None else float(max_norm),
            max_rank=n_features if max_rank is None else check_integer(max_rank, "max_rank", at_least=1),
            finest=rounds.CARRY if finest == "carry" else rounds.REPLACE,
            steps=np.empty(0),
            n=n_features,
        )
        self._resize(n_scales=4, capacity=LANES)

    @property
    def n_cuts(self) -> int:
        """How many directions ``max_rank`` has cut."""
        return int(self._state.cuts[0])

    @property
    def ranks(self) -> tuple[int, ...]:
        """Along how many directions each scale's metric differs from its base."""
        return tuple(int(self._state.rank[slot]) for slot in self._state.slots[:-1])

    def state(self) -> tuple[Arrays, Metadata]:
        """All that later rounds depend on: of V and lam the rows that are in use, one slot's after the other's."""
        arrays, metadata = super().state()
        state = self._state
        used = [(state.buffer[slot], slot, state.rank[slot]) for slot in range(len(state.slots))]
        arrays["V"] = np.concatenate([state.V[buffer, :r] for buffer, _, r in used])
        arrays["lam"] = np.concatenate([state.lam[slot, :r] for _, slot, r in used])
        return arrays, {**metadata, "capacity": state.lam.shape[1]}

    def _make_same_room(self, n_slots: int, saved: StateReader) -> None:
        # It is doubled until all directions fit, of which there are at most as many as features.
        capacity = saved.whole("capacity", LANES, max(LANES, 2 * self._n))
        if capacity % LANES or n_slots < len(self._state.slots):
            raise ValueError(f"a {type(self).__name__} never has {n_slots} slots for {capacity} directions")
        self._resize(n_slots - 1, capacity)

    def _restore(self, saved: StateReader, round_state: RoundState) -> None:
        super()._restore(saved, round_state)
        state, at = self._state, 0
        capacity, width = state.V.shape[1:]
        if (
            round_state.active >= len(state.slots)
            or state.rank.max() > min(capacity, self._n)
            or state.filled.max() > width
        ):
            raise ValueError("it has more scales, directions or coefficients than it has room for")
        total = int(state.rank.sum())
        V, lam = saved.floats("V", (total, width)), saved.floats("lam", (total,), at_least=0.0)
        for slot, r in enumerate(state.rank):
            state.V[state.buffer[slot], :r], state.lam[slot, :r] = V[at : at + r], lam[at : at + r]
            at += r

    def mix(self, round_state: RoundState) -> Metric:
        """The weighted average of the learners' metrics."""
        rows, scales, base, threshold = self._average(round_state.probabilities)
        if self._n > LARGE:
            return Metric.low_rank(base, rows, scales, threshold, round_state.round - 1)
        return Metric.trusted(_matrix(rows, scales, base), threshold, round_state.round - 1)

    def learner(self, j: int) -> Metric:
        """The metric that the learner of scale j holds."""
        slot = self._state.slots[j]
        directions, differences, base = self._parts(slot)
        return Metric.low_rank(base, directions.copy(), differences, float(self._state.mu[slot]))

    def _rows(self, events: Events) -> Floats:
        return self._padded(events.U.toarray() if events.sparse else events.U)

    def _row(self, u: Any) -> Floats:
        return self._padded(as_dense(u).reshape(1, -1))

    def _relative_rows(self, near: Floats, far: Floats) -> tuple[Floats, Floats]:
        near, far = zero_cancellations(near, far)
        return self._padded(near), self._padded(far)

    def _padded(self, U: Floats) -> Floats:
        """Rows of whole lanes, with zeros behind."""
        width = padded(self._n)
        if U.shape[1] == width and U.flags.c_contiguous and U.flags.writeable:
            return U
        rows = np.zeros((len(U), width))
        rows[:, : self._n] = U
        return rows

    def _play(self, rows: Any, stretch: KernelArgs) -> tuple[int, int]:
        if self._events == "relatives":
            near, far = rows
            return lowrank.play_relatives(
                self._state,
                self._settings,
                self._frame,
                self._work,
                near,
                far,
                *stretch[1:],  # they have no labels
            )
        return lowrank.play(
            self._state,
            self._settings,
            self._frame,
            self._work,
            rows,
            *stretch,
        )

    def _start(self, round_state: RoundState) -> None:
        if self._finest == "reset":
            self._hold_first(self._state.slots[-1:])
        elif self._finest == "ensemble":
            self._hold_average(self._state.slots[-1:], round_state.before)
        lowrank.start(self._state, self._frame, len(round_state.starting), self._settings.finest)

    def _hold_first(self, slots: np.ndarray) -> None:
        state = self._state
        state.rank[slots], state.shift[slots] = 0, 0.0
        state.base[slots], state.mu[slots] = self._initial

    def _hold_average(self, slots: np.ndarray, weights: Floats) -> None:
        rows, scales, base, threshold = self._average(weights / weights.sum())
        n = self._n
        if len(rows) < n:  # in the span of the directions, all else has the base
            span, R = np.linalg.qr(rows.T)
            eigenvalues, round_state = np.linalg.eigh((R * scales) @ R.T)
            eigenvalues, directions = eigenvalues + base, (span @ round_state).T
        else:
            eigenvalues, vectors = np.linalg.eigh(_matrix(rows, scales, base))
            directions = vectors.T
        eigenvalues = np.maximum(eigenvalues, 0.0)
        # What is nearest to the base is cut, where there is a bound.
        saved = np.argsort(-np.abs(eigenvalues - base))[: self._settings.max_rank]
        self._state.cuts[0] += len(eigenvalues) - len(saved)
        while self._state.lam.shape[1] < min(len(saved) + 1, n):
            self._widen()
        state = self._state
        for slot in slots:
            self._put(slot, directions[saved], eigenvalues[saved])
        state.mu[slots], state.base[slots] = threshold, base if len(saved) < n else 0.0
        state.shift[slots] = 0.0

    def _directions(self, slot: int) -> Floats:
        """The directions of the metric in a slot, as rows."""
        state = self._state
        return state.V[state.buffer[slot], : state.rank[slot], : self._n]

    def _put(self, slot: int, directions: Floats, eigenvalues: Floats) -> None:
        """Let a slot have these directions, which it has room for."""
        state, r = self._state, len(directions)
        state.V[state.buffer[slot], :r, : self._n] = directions
        state.lam[slot, :r], state.rank[slot] = eigenvalues, r

    def _hold(self, slot: int, metric: Metric) -> None:
        eigenvalues, vectors = np.linalg.eigh(metric.matrix)
        positive = eigenvalues > 0.0
        while self._state.lam.shape[1] < min(positive.sum() + 1, self._n):
            self._widen()
        self._put(slot, vectors.T[positive], eigenvalues[positive])
        self._state.base[slot], self._state.mu[slot] = 0.0, metric.threshold

    def _average(self, probabilities: Floats) -> tuple[Floats, Floats, float, float]:
        """The weighted average of the metrics, ``base I + rows' diag(scales) rows``, and of the thresholds."""
        slots, parts = self._state.slots[: len(probabilities)], []
        for slot, p in zip(slots, probabilities, strict=True):
            directions, differences, base = self._parts(slot)
            parts.append((directions, p * differences, p * base))
        rows, scales, bases = zip(*parts, strict=True)
        threshold = float(probabilities @ self._state.mu[slots])
        return np.concatenate(rows), np.concatenate(scales), sum(bases), max(threshold, 1.0)

    def _parts(self, slot: int) -> tuple[Floats, Floats, float]:
        """The metric in a slot: its directions as rows, by how much each differs from the base, and the base."""
        state = self._state
        shift, lam = state.shift[slot], state.lam[slot, : state.rank[slot]]
        base = float(max(state.base[slot] - shift, 0.0))
        return self._directions(slot), np.maximum(lam - shift, 0.0) - base, base

    def _check_up(self) -> None:
        """Where rounding has made the directions of a metric oblique, make them orthonormal again."""
        state = self._state
        for slot in range(len(state.slots)):
            V, r = self._directions(slot), state.rank[slot]
            if r and np.abs(V @ V.T - np.eye(r)).max() > HEALTHY:
                Q, R = np.linalg.qr(V.T)
                eigenvalues, round_state = np.linalg.eigh((R * (state.lam[slot, :r] - state.base[slot])) @ R.T)
                self._put(slot, (Q @ round_state).T, np.maximum(eigenvalues + state.base[slot], 0.0))

    def _make_room(self, n_active: int) -> None:
        n_slots, capacity = self._state.lam.shape
        if n_active >= n_slots:
            self._resize(n_active + 3, capacity)

    def _widen(self) -> None:
        n_slots, capacity = self._state.lam.shape
        self._resize(n_slots - 1, 2 * capacity)

    def _row_width(self, capacity: int) -> int:
        """How long the rows of V are."""
        return padded(self._n)

    def _resize(self, n_scales: int, capacity: int) -> None:
        """Have slots for so many scales and one to spare, with room for so many directions; what is held is kept."""
        n_slots, width = n_scales + 1, self._row_width(capacity)
        new = State(
            V=np.zeros((n_slots + 1, capacity, width)),
            buffer=np.arange(n_slots + 1),
            lam=np.zeros((n_slots, capacity)),
            rank=np.zeros(n_slots, dtype=np.int64),
            mu=np.full(n_slots, self._initial[1]),
            base=np.full(n_slots, self._initial[0]),
            shift=np.zeros(n_slots),
            filled=np.full(n_slots, width),
            slots=np.arange(n_slots),
            z=np.zeros((n_slots + 1, capacity)),
            slope=np.zeros(n_slots),
            cuts=np.zeros(1, dtype=np.int64),
            failed=np.zeros(1, dtype=np.int64),
        )
        old: State | None = getattr(self, "_state", None)
        if old is not None:
            n_old, old_capacity = old.lam.shape
            for slot in range(n_old):
                new.V[slot, :old_capacity, : old.V.shape[2]] = old.V[old.buffer[slot]]
            new.lam[:n_old, :old_capacity] = old.lam
            for name in ("rank", "mu", "base", "shift", "filled"):
                getattr(new, name)[:n_old] = getattr(old, name)
            new.cuts[:] = old.cuts
            # The new slots are those of the new scales; the spare one stays at the end.
            new.slots[: n_old - 1], new.slots[n_old - 1 : -1] = old.slots[:-1], np.arange(n_old, n_slots)
            new.slots[-1] = old.slots[-1]
        self._state = new
        self._frame = self._new_frame(n_slots, capacity)
        self._work = Work(
            q=np.zeros(width),
            poles=np.zeros((N_POLES, capacity)),
            Q=np.zeros(capacity * capacity),
            lanes=np.zeros(N_NUMBERS + LANES * capacity),
            order=np.zeros((N_ORDERS, capacity), dtype=np.int64),
        )
        self._settings = self._settings._replace(steps=self._steps(n_scales))

    def _new_frame(self, n_slots: int, capacity: int) -> Basis:
        """None: V holds the directions themselves."""
        integers, none = np.zeros(n_slots, dtype=np.int64), np.zeros((0, 0))
        zeros = np.zeros(n_slots)
        return Basis(0, integers, integers.copy(), none, none, none, integers - 1, zeros, zeros.copy(), zeros.copy())


def _matrix(rows: Floats, scales: Floats, base: float) -> Floats:
    """``base I + rows' diag(scales) rows``, symmetric to the last bit."""
    product = (rows.T * scales) @ rows
    product[np.diag_indices(len(product))] += base
    return (product + product.T) / 2.0
