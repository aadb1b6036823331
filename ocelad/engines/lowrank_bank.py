"""LowRankBank: COMID learners as low-rank eigendecompositions, for objectives with shrinkage or a rank bound."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_integer
from ocelad.engines.compiled_bank import LOSS_CODES, CompiledBank, zero_cancellations
from ocelad.engines.kernels import lowrank, rounds
from ocelad.engines.kernels.eigenform import N_ORDERS, N_POLES, Work
from ocelad.engines.kernels.lowrank import Basis, Settings, State
from ocelad.engines.kernels.rounds import KernelArgs
from ocelad.engines.kernels.secular import LANES, N_NUMBERS, padded
from ocelad.ensemble.bank import Finest, RoundState, Starts
from ocelad.ensemble.schedule import Schedule
from ocelad.ensemble.state_reader import StateReader
from ocelad.learners.comid import LossName
from ocelad.learners.step_schedule import StepSchedule
from ocelad.metric import Metric
from ocelad.pairs import Events, EventsName, as_dense

# Directions with a larger loss of orthogonality are orthonormalised again.
MAX_ORTHOGONALITY_LOSS = 1e-12
# With more features, ``mix`` returns a low-rank metric instead of a matrix.
MAX_MATRIX_FEATURES = 200


class LowRankBank(CompiledBank):
    """A fast ``RiceBank`` for the squared Frobenius divergence with the nuclear norm or without a regulariser.

    Each learner holds ``base * I`` plus a difference along some orthonormal directions. A pair with zero slope costs a
    projection and an addition; any other pair costs a rank-one update of the eigendecomposition. Starting a scale
    rotates pointers and copies one metric.

    Parameters
    ----------
    n_features, schedule, initial_scale, initial_threshold, step_size, finest, events, starts, step_schedule
        As in ``CompiledBank``.
    loss, shrinkage, max_norm
        As in ``track_metric``.
    max_rank : int or None
        The maximum number of directions per learner that differ from the base. Beyond it, the direction whose
        eigenvalue is nearest to the base (the smallest one if the base is zero) is removed, and ``n_cuts`` counts it.
        None: no limit.
    """

    engine = "lowrank"
    repair_interval = 4096

    _state: State
    _saved_arrays: ClassVar[dict[str, tuple[float, float]]] = {
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
        self._state = self._allocate(n_scales=4, capacity=LANES)

    @property
    def n_cuts(self) -> int:
        """The number of directions that ``max_rank`` has removed."""
        return int(self._state.cuts[0])

    @property
    def ranks(self) -> tuple[int, ...]:
        """The number of directions along which each scale's metric differs from its base."""
        return tuple(int(self._state.rank[slot]) for slot in self._state.slots[:-1])

    @property
    def kernel_parts(self) -> tuple[State, Settings, Basis, Work]:
        """The arguments of ``lowrank.play``."""
        return self._state, self._settings, self._basis, self._work

    def reserve_directions(self, capacity: int) -> None:
        """Make sure that each learner has room for this many directions."""
        n_slots, present = self._state.lam.shape
        if present < capacity:
            self._resize(n_slots - 1, capacity)

    @property
    def row_width(self) -> int:
        """The number of columns that dense rows must have; those after the features are zero."""
        return padded(self._n)

    def state(self) -> tuple[Arrays, Metadata]:
        """Return everything that later rounds depend on; V and lam without unused rows, slot by slot."""
        arrays, metadata = super().state()
        state = self._state
        used = [(state.buffer[slot], slot, state.rank[slot]) for slot in range(len(state.slots))]
        arrays["V"] = np.concatenate([state.V[buffer, :r] for buffer, _, r in used])
        arrays["lam"] = np.concatenate([state.lam[slot, :r] for _, slot, r in used])
        return arrays, {**metadata, "capacity": state.lam.shape[1]}

    def _reserve_saved(self, n_slots: int, saved: StateReader) -> None:
        # The capacity doubles until the directions fit, and a metric has at most n directions.
        capacity = saved.integer("capacity", LANES, max(LANES, 2 * self._n))
        if capacity % LANES or n_slots < len(self._state.slots):
            raise ValueError(f"a {type(self).__name__} cannot have {n_slots} slots with room for {capacity} directions")
        self._resize(n_slots - 1, capacity)

    def _restore(self, saved: StateReader, round_state: RoundState) -> None:
        super()._restore(saved, round_state)
        state, at = self._state, 0
        capacity, width = state.V.shape[1:]
        if (
            round_state.n_active >= len(state.slots)
            or state.rank.max() > min(capacity, self._n)
            or state.filled.max() > width
        ):
            raise ValueError("the saved bank has more scales, directions or coefficients than it has room for")
        total = int(state.rank.sum())
        V, lam = saved.floats("V", (total, width)), saved.floats("lam", (total,), at_least=0.0)
        for slot, r in enumerate(state.rank):
            state.V[state.buffer[slot], :r], state.lam[slot, :r] = V[at : at + r], lam[at : at + r]
            at += r

    def mix(self, round_state: RoundState) -> Metric:
        """Return the weighted average of the learners' metrics."""
        rows, scales, base, threshold = self._average(round_state.probabilities)
        if self._n > MAX_MATRIX_FEATURES:
            return Metric.low_rank(base, rows, scales, threshold, round_state.round - 1)
        return Metric.from_trusted_matrix(_matrix(rows, scales, base), threshold, round_state.round - 1)

    def learner(self, j: int) -> Metric:
        """Return the metric of the learner of scale j."""
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
        """Return the rows, padded with zeros to a multiple of the vector length."""
        width = padded(self._n)
        if U.shape[1] == width and U.flags.c_contiguous and U.flags.writeable:
            return U
        rows = np.zeros((len(U), width))
        rows[:, : self._n] = U
        return rows

    def _play(self, rows: Any, args: KernelArgs) -> tuple[int, int]:
        if self._events == "relatives":
            near, far = rows
            return lowrank.play_relatives(self._state, self._settings, self._basis, self._work, near, far, args)
        return lowrank.play(self._state, self._settings, self._basis, self._work, rows, args)

    def _start_from_below(self, round_state: RoundState) -> None:
        if self._finest == "reset":
            self._set_initial(self._state.slots[-1:])
        elif self._finest == "ensemble":
            self._set_average(self._state.slots[-1:], round_state.previous_weights)
        lowrank.start(self._state, self._basis, len(round_state.starting), self._settings.finest)

    def _set_initial(self, slots: np.ndarray) -> None:
        state = self._state
        state.rank[slots], state.shift[slots] = 0, 0.0
        state.base[slots], state.mu[slots] = self._initial

    def _set_average(self, slots: np.ndarray, weights: Floats) -> None:
        rows, scales, base, threshold = self._average(weights / weights.sum())
        n = self._n
        if len(rows) < n:  # decompose in the span of the directions; outside it, all eigenvalues are the base
            span, R = np.linalg.qr(rows.T)
            eigenvalues, vectors = np.linalg.eigh((R * scales) @ R.T)
            eigenvalues, directions = eigenvalues + base, (span @ vectors).T
        else:
            eigenvalues, vectors = np.linalg.eigh(_matrix(rows, scales, base))
            directions = vectors.T
        eigenvalues = np.maximum(eigenvalues, 0.0)
        largest = np.argsort(-np.abs(eigenvalues - base))[: self._settings.max_rank]
        self._state.cuts[0] += len(eigenvalues) - len(largest)
        while self._state.lam.shape[1] < min(len(largest) + 1, n):
            self._grow_capacity()
        state = self._state
        for slot in slots:
            self._set_directions(slot, directions[largest], eigenvalues[largest])
        state.mu[slots], state.base[slots] = threshold, base if len(largest) < n else 0.0
        state.shift[slots] = 0.0

    def _directions(self, slot: int) -> Floats:
        """Return the directions of the metric in a slot, as rows."""
        state = self._state
        return state.V[state.buffer[slot], : state.rank[slot], : self._n]

    def _set_directions(self, slot: int, directions: Floats, eigenvalues: Floats) -> None:
        """Set the directions and eigenvalues of a slot, which must have room for them."""
        state, r = self._state, len(directions)
        state.V[state.buffer[slot], :r, : self._n] = directions
        state.lam[slot, :r], state.rank[slot] = eigenvalues, r

    def _set_metric(self, slot: int, metric: Metric) -> None:
        eigenvalues, vectors = np.linalg.eigh(metric.matrix)
        positive = eigenvalues > 0.0
        while self._state.lam.shape[1] < min(positive.sum() + 1, self._n):
            self._grow_capacity()
        self._set_directions(slot, vectors.T[positive], eigenvalues[positive])
        self._state.base[slot], self._state.mu[slot] = 0.0, metric.threshold

    def _average(self, probabilities: Floats) -> tuple[Floats, Floats, float, float]:
        """Return rows, scales and base of the average ``base I + rows' diag(scales) rows``, and its threshold."""
        slots, parts = self._state.slots[: len(probabilities)], []
        for slot, p in zip(slots, probabilities, strict=True):
            directions, differences, base = self._parts(slot)
            parts.append((directions, p * differences, p * base))
        rows, scales, bases = zip(*parts, strict=True)
        threshold = float(probabilities @ self._state.mu[slots])
        return np.concatenate(rows), np.concatenate(scales), sum(bases), max(threshold, 1.0)

    def _parts(self, slot: int) -> tuple[Floats, Floats, float]:
        """Return the metric in a slot: its directions as rows, their eigenvalues minus the base, and the base."""
        state = self._state
        shift, lam = state.shift[slot], state.lam[slot, : state.rank[slot]]
        base = float(max(state.base[slot] - shift, 0.0))
        return self._directions(slot), np.maximum(lam - shift, 0.0) - base, base

    def _repair_rounding(self) -> None:
        """Orthonormalise the directions of metrics that have lost orthogonality."""
        state = self._state
        for slot in range(len(state.slots)):
            V, r = self._directions(slot), state.rank[slot]
            if r and np.abs(V @ V.T - np.eye(r)).max() > MAX_ORTHOGONALITY_LOSS:
                Q, R = np.linalg.qr(V.T)
                eigenvalues, vectors = np.linalg.eigh((R * (state.lam[slot, :r] - state.base[slot])) @ R.T)
                self._set_directions(slot, (Q @ vectors).T, np.maximum(eigenvalues + state.base[slot], 0.0))

    def _reserve_slots(self, n_active: int) -> None:
        n_slots, capacity = self._state.lam.shape
        if n_active >= n_slots:
            self._resize(n_active + 3, capacity)

    def _grow_capacity(self) -> None:
        n_slots, capacity = self._state.lam.shape
        self._resize(n_slots - 1, 2 * capacity)

    def _row_width(self, capacity: int) -> int:
        """Return the length of the rows of V."""
        return padded(self._n)

    def _resize(self, n_scales: int, capacity: int) -> None:
        """Reallocate the state for this many scales and directions; the learners keep their metrics."""
        old, old_basis = self._state, self._basis
        new = self._allocate(n_scales, capacity)
        n_old, old_capacity = old.lam.shape
        for slot in range(n_old):
            new.V[slot, :old_capacity, : old.V.shape[2]] = old.V[old.buffer[slot]]
        new.lam[:n_old, :old_capacity] = old.lam
        new.rank[:n_old], new.mu[:n_old], new.base[:n_old] = old.rank, old.mu, old.base
        new.shift[:n_old], new.filled[:n_old], new.cuts[:] = old.shift, old.filled, old.cuts
        # The new scales get the new slots; the spare slot stays last.
        new.slots[: n_old - 1], new.slots[n_old - 1 : -1] = old.slots[:-1], np.arange(n_old, len(new.slots))
        new.slots[-1] = old.slots[-1]
        self._state = new
        self._copy_basis(old_basis)

    def _allocate(self, n_scales: int, capacity: int) -> State:
        """Return the state of initial learners for this many scales and a spare slot, each with this many directions.

        Also allocate the basis and the scratch arrays, and set the step sizes.
        """
        n_slots, width = n_scales + 1, self._row_width(capacity)
        self._basis = self._new_basis(n_slots, capacity)
        self._work = Work(
            q=np.zeros(width),
            poles=np.zeros((N_POLES, capacity)),
            Q=np.zeros(capacity * capacity),
            lanes=np.zeros(N_NUMBERS + LANES * capacity),
            order=np.zeros((N_ORDERS, capacity), dtype=np.int64),
        )
        self._settings = self._settings._replace(steps=self._step_sizes(n_scales))
        return State(
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

    def _new_basis(self, n_slots: int, capacity: int) -> Basis:
        """Return an empty basis: V holds the directions themselves."""
        integers, none = np.zeros(n_slots, dtype=np.int64), np.zeros((0, 0))
        zeros = np.zeros(n_slots)
        return Basis(0, integers, integers.copy(), none, none, none, integers - 1, zeros, zeros.copy(), zeros.copy())

    def _copy_basis(self, old: Basis) -> None:
        """Copy the contents of the basis before ``_resize`` into the new one."""


def _matrix(rows: Floats, scales: Floats, base: float) -> Floats:
    """Return ``base I + rows' diag(scales) rows``, exactly symmetric."""
    product = (rows.T * scales) @ rows
    product[np.diag_indices(len(product))] += base
    return (product + product.T) / 2.0
