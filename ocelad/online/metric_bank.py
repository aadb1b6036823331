"""MetricBank: the COMID learners of all scales, compiled. The mathematics of ``Comid``, in eigenform."""

from __future__ import annotations

from math import inf
from typing import get_args

import numpy as np

from ocelad import checks
from ocelad.checks import Floats
from ocelad.metric import Metric
from ocelad.online.bank import Finest, LearnerError, Turn
from ocelad.online.comid import LossName
from ocelad.online.dyadic import Schedule
from ocelad.online.kernels import scales
from ocelad.online.kernels.eigenform import LANES, N_VECTORS, Work
from ocelad.online.kernels.scales import Settings, State
from ocelad.online.kernels.secular import N_ROWS
from ocelad.online.ocelad import Ocelad
from ocelad.pairs import Event, Events, Pair, as_event

LOSS_CODES: dict[LossName, int] = {
    "hinge": scales.HINGE,
    "squared_hinge": scales.SQUARED_HINGE,
    "logistic": scales.LOGISTIC,
}
# How often, in rounds, the directions are checked to be orthonormal still, and how far off they may be.
HEALTH_EVERY = 4096
HEALTHY = 1e-12


class MetricBank:
    """The learners of ``Rice`` for the squared Frobenius divergence with the nuclear norm or no regulariser, fast.

    Each learner holds ``base * I`` plus what differs from it along some orthonormal directions. A pair that is
    told apart already costs a projection and an addition; another one costs a rank-one change of the eigenform.
    Starting a scale is a change of pointers and one copy.

    It changes in place. A pair that is refused changes nothing; an interrupt in the middle of a step may leave
    it one round ahead of the weights. (``Ocelad.replay`` works on a copy.)

    Parameters
    ----------
    n_features : int
    schedule : Schedule
        Of the ``Ocelad`` that it is for; it gives the step sizes.
    initial_scale, initial_threshold, step_size, loss, shrinkage, max_norm, finest
        As in ``track_metric``.
    max_rank : int or None
        At most so many directions per learner may differ from the base. Beyond it the direction whose eigenvalue
        is nearest to the base (the smallest, where the base is zero) is cut, and ``n_cuts`` counts it. None: no
        direction is ever dropped.
    """

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
    ) -> None:
        self._n = n_features
        self._schedule = schedule
        self._initial = (initial_scale, initial_threshold)
        self._finest = checks.choice(finest, "finest", get_args(Finest))
        self._step_size = step_size
        self._settings = Settings(
            loss=LOSS_CODES[loss],
            rho=float(shrinkage),
            max_norm=inf if max_norm is None else float(max_norm),
            max_rank=n_features if max_rank is None else checks.whole(max_rank, "max_rank", at_least=1),
            finest=scales.CARRY if finest == "carry" else scales.REPLACE,
            steps=np.empty(0),
        )
        self._state = self._empty_state(n_scales=4, capacity=LANES)
        self._fit_to_state()

    @property
    def n_cuts(self) -> int:
        """How many directions ``max_rank`` has cut."""
        return int(self._state.cuts[0])

    @property
    def ranks(self) -> tuple[int, ...]:
        """Along how many directions each scale's metric differs from its base."""
        return tuple(int(self._state.rank[slot]) for slot in self._state.slots[:-1])

    def start(self, turn: Turn) -> MetricBank:
        """Give the scales that start with this round the metrics of the scales below them."""
        if turn.starting and turn.starting[0].length != self._schedule.shortest:
            raise ValueError(
                f"this MetricBank was made for intervals of {self._schedule.shortest} rounds and up, "
                f"not of {turn.starting[0].length}"
            )
        if turn.round == 1 and (self._state.rank.any() or self._state.shift.any()):
            raise ValueError("this MetricBank has learned already; every Ocelad needs one of its own")
        self._make_room(turn.active)
        if turn.starting and turn.round > 1:
            self._prepare_spare(turn)
            scales.start(self._state, len(turn.starting), self._settings.finest)
        if turn.round % HEALTH_EVERY == 0:
            self._keep_orthonormal()
        return self

    def observe(self, event: Event | Pair, turn: Turn) -> tuple[Floats, MetricBank]:
        """What each learner lost on the pair; each has learned from it."""
        u, y = as_event(event, self._n)
        lost = np.zeros(turn.active)
        while True:
            with np.errstate(over="ignore", invalid="ignore"):  # where kernels run as plain Python; told by the outcome
                outcome = scales.observe(self._state, self._settings, self._work, u, y, turn.active, lost)
            if outcome != scales.NO_ROOM:
                break
            self._make_room(turn.active, more_directions=True)
        if outcome != scales.PLAYED:
            raise self._error(outcome, turn.round)
        return lost, self

    def mix(self, turn: Turn) -> Metric:
        """The weighted average of the learners' metrics."""
        matrix, threshold, _ = self._average(turn.probabilities)
        return Metric.trusted(matrix, threshold, turn.round - 1)

    def replay(self, events: Events, turn: Turn, schedule: Schedule, rates: Floats) -> tuple[Turn, LearnerError | None]:
        """Play a round on each of the events without coming back to Python; the turn after them.

        Where a pair is refused, the turn is the one of that pair, and the error says why.
        """
        U, y = events.U, events.y
        if U.shape[1] != self._n:
            raise ValueError(f"U has {U.shape[1]} features; {self._n} are expected")
        weights = np.zeros((2, len(rates)))
        weights[0, : turn.active], weights[1, : len(turn.before)] = turn.weights, turn.before
        done, t, error = 0, turn.round, None
        while done < len(U) and error is None:
            self._make_room(schedule.active(t))
            stop = min(len(U), done + HEALTH_EVERY - t % HEALTH_EVERY)
            with np.errstate(over="ignore", invalid="ignore"):
                now, outcome = scales.replay(
                    self._state,
                    self._settings,
                    self._work,
                    U[:stop],
                    y,
                    done,
                    t,
                    schedule.shortest,
                    schedule.most,
                    weights,
                    rates,
                )
            t, done = t + now - done, now
            if outcome == scales.NO_ROOM:
                self._make_room(schedule.active(t), more_directions=True)
            elif outcome == scales.NO_SCALE:
                self.start(_turn(t, weights, schedule))
            elif outcome != scales.PLAYED:
                error = self._error(outcome, t)
            elif t % HEALTH_EVERY == 0:
                self._keep_orthonormal()
        return _turn(t, weights, schedule) if t > turn.round else turn, error

    def _error(self, outcome: int, t: int) -> LearnerError:
        what = "loss is not finite" if outcome == scales.INFINITE_LOSS else "metric overflows"
        words = f"could not learn from the pair (its {what}; a smaller step_size or data of a smaller scale is needed)"
        return LearnerError(self._schedule.scale(0), t, words)

    def _average(self, probabilities: Floats) -> tuple[Floats, float, float]:
        """The weighted average of the metrics, of the thresholds and of the bases."""
        state, n = self._state, self._n
        total, threshold, base = np.zeros((n, n)), 0.0, 0.0
        for slot, p in zip(state.slots[: len(probabilities)], probabilities, strict=True):
            r = state.rank[slot]
            V, shift = state.V[slot, :, :r], state.shift[slot]
            own = max(state.base[slot] - shift, 0.0)
            total += (V * (p * (np.maximum(state.lam[slot, :r] - shift, 0.0) - own))) @ V.T
            base += p * own
            threshold += p * state.mu[slot]
        total[np.diag_indices(n)] += base
        return (total + total.T) / 2.0, max(float(threshold), 1.0), float(base)

    def _prepare_spare(self, turn: Turn) -> None:
        """Put into the spare slot what the finest scale starts from, where it does not carry on."""
        if self._finest == "carry":
            return
        if self._finest == "reset":
            spare = self._state.slots[-1]
            self._state.rank[spare] = 0
            self._state.base[spare], self._state.mu[spare] = self._initial
        else:
            matrix, threshold, base = self._average(turn.before / turn.before.sum())
            eigenvalues, vectors = np.linalg.eigh(matrix)
            self._make_room(0, capacity=self._n)
            state, r = self._state, self._n
            spare = state.slots[-1]
            state.V[spare, :, :r] = vectors[:, ::-1]
            state.lam[spare, :r] = np.maximum(eigenvalues[::-1], 0.0)
            while r > self._settings.max_rank:
                r = scales.cut(state.V, state.lam, spare, r, base)
                state.cuts[0] += 1
            state.rank[spare], state.mu[spare] = r, threshold
            state.base[spare] = base if r < self._n else 0.0
        self._state.shift[spare] = 0.0

    def _keep_orthonormal(self) -> None:
        """Where rounding has made the directions of a metric oblique, make them orthonormal again."""
        state = self._state
        for slot in range(len(state.slots)):
            r = state.rank[slot]
            V = state.V[slot, :, :r]
            if r and np.abs(V.T @ V - np.eye(r)).max() > HEALTHY:
                Q, R = np.linalg.qr(V)
                eigenvalues, turn = np.linalg.eigh((R * (state.lam[slot, :r] - state.base[slot])) @ R.T)
                state.V[slot, :, :r] = (Q @ turn)[:, ::-1]
                state.lam[slot, :r] = np.maximum(eigenvalues[::-1] + state.base[slot], 0.0)

    def _empty_state(self, n_scales: int, capacity: int) -> State:
        n_slots = n_scales + 1
        return State(
            V=np.zeros((n_slots, self._n, capacity)),
            lam=np.zeros((n_slots, capacity)),
            rank=np.zeros(n_slots, dtype=np.int64),
            mu=np.full(n_slots, self._initial[1]),
            base=np.full(n_slots, self._initial[0]),
            shift=np.zeros(n_slots),
            slots=np.arange(n_slots),
            z=np.zeros((n_slots + 1, capacity)),
            slope=np.zeros(n_slots),
            cuts=np.zeros(1, dtype=np.int64),
        )

    def _make_room(self, n_active: int, more_directions: bool = False, capacity: int = 0) -> None:
        """Have slots for so many scales, and columns for more directions; what is held is kept."""
        old = self._state
        n_old, width = len(old.slots), old.lam.shape[1]
        n_scales = n_old - 1 if n_active < n_old else n_active + 3
        capacity = max(capacity, width, 2 * width if more_directions else 0)
        capacity = (capacity + LANES - 1) // LANES * LANES
        if (n_scales, capacity) == (n_old - 1, width):
            return
        new = self._empty_state(n_scales, capacity)
        new.V[:n_old, :, :width] = old.V
        new.lam[:n_old, :width] = old.lam
        for mine, theirs in ((new.rank, old.rank), (new.mu, old.mu), (new.base, old.base), (new.shift, old.shift)):
            mine[:n_old] = theirs
        new.cuts[:] = old.cuts
        # The new slots are those of the new scales; the spare one stays at the end.
        new.slots[: n_old - 1], new.slots[n_old - 1 : -1] = old.slots[:-1], np.arange(n_old, n_scales + 1)
        new.slots[-1] = old.slots[-1]
        self._state = new
        self._fit_to_state()

    def _fit_to_state(self) -> None:
        capacity = self._state.lam.shape[1]
        self._work = Work(
            q=np.zeros(self._n),
            vectors=np.zeros((N_VECTORS, capacity)),
            Q=np.zeros((capacity, capacity)),
            core=np.zeros((capacity, capacity)),
            secular=np.zeros((N_ROWS, capacity)),
            turn=np.zeros(capacity * capacity),
            before=np.zeros(self._n * capacity),
            after=np.zeros(self._n * capacity),
            order=np.zeros((4, capacity), dtype=np.int64),
        )
        rates = [self._schedule.scale(j).rate for j in range(len(self._state.slots) - 1)]
        self._settings = self._settings._replace(steps=self._step_size * np.array(rates))


def _turn(t: int, weights: Floats, schedule: Schedule) -> Turn:
    """The turn of round t, of the weights in it and before its starts."""
    starting = tuple(schedule.scale(j) for j in range(schedule.starting(t)))
    return Turn(t, starting, weights[0, : schedule.active(t)].copy(), weights[1, : schedule.active(t - 1)].copy())


def warm() -> None:
    """Compile every kernel, or load it from the disk."""
    schedule = Schedule()
    bank = MetricBank(
        3,
        schedule,
        initial_scale=1.0,
        initial_threshold=1.0,
        step_size=0.1,
        loss="logistic",
        shrinkage=0.0,
        max_norm=None,
        finest="carry",
    )
    ocelad = Ocelad(bank)
    events = Events(np.eye(3), np.array([1.0, -1.0, 1.0]))
    ocelad.replay(events)
    for event in events:
        ocelad.step(event)
