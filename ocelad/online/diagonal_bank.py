"""DiagonalBank: the learners of diagonal metrics of all scales, compiled. The mathematics of ``DiagonalComid``."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from ocelad import checks
from ocelad.checks import Floats
from ocelad.metric import Metric
from ocelad.online.bank import Finest, LearnerError, Turn
from ocelad.online.comid import LossName
from ocelad.online.dyadic import Schedule
from ocelad.online.kernels import diagonal
from ocelad.online.kernels.diagonal import CARRY, ENSEMBLE, LANES, RESET, UNKNOWN, Settings, State
from ocelad.online.kernels.rounds import HINGE, INFINITE_LOSS, LOGISTIC, NO_SCALE, PLAYED, SQUARED_HINGE
from ocelad.pairs import Event, Events, Pair, as_event, as_sparse

LOSS_CODES: dict[LossName, int] = {"hinge": HINGE, "squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC}
FINEST_CODES: dict[Finest, int] = {"carry": CARRY, "ensemble": ENSEMBLE, "reset": RESET}


class DiagonalBank:
    """The learners of ``DiagonalRice``, fast: a pair costs each learner what it has entries that are not zero.

    Shrinkage is put off until a feature is touched. Starting a scale is a change of pointers and a copy of the
    features that were touched since the two slots were the same, which per pair comes to no more than learning from
    it does. Only ``finest="ensemble"`` costs every feature and scale whenever the finest scale starts.

    It changes in place. A pair that is refused changes nothing; an interrupt in the middle of a step may leave
    it one round ahead of the weights. (``Ocelad.replay`` works on a copy.)

    Parameters
    ----------
    n_features : int
    schedule : Schedule
        Of the ``Ocelad`` that it is for; it gives the step sizes.
    initial_scale, initial_threshold, step_size, loss, shrinkage, finest
        As in ``track_metric``.
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
        finest: Finest,
    ) -> None:
        self._n = n_features
        self._schedule = schedule
        self._step_size = step_size
        self._settings = Settings(
            loss=LOSS_CODES[loss],
            rho=float(shrinkage),
            finest=FINEST_CODES[checks.choice(finest, "finest", get_args(Finest))],
            steps=np.empty(0),
            weight=float(initial_scale),
            threshold=float(initial_threshold),
            # Often enough for the digits, seldom enough that it costs each pair a few features.
            settle_every=max(1024, n_features // 4),
        )
        self._learned = False
        self._make_room(LANES)

    def start(self, turn: Turn) -> DiagonalBank:
        """Give the scales that start with this round the metrics of the scales below them."""
        if turn.starting and turn.starting[0].length != self._schedule.shortest:
            raise ValueError(
                f"this DiagonalBank was made for intervals of {self._schedule.shortest} rounds and up, "
                f"not of {turn.starting[0].length}"
            )
        if turn.round == 1 and self._learned:
            raise ValueError("this DiagonalBank has learned already; every Ocelad needs one of its own")
        self._make_room(turn.active)
        if turn.round > 1:
            n_before = len(turn.before)
            before = turn.before.copy()  # writable, as in a replay: kernels are compiled for that only
            diagonal.start(self._state, self._settings, turn.round, len(turn.starting), before, n_before)
        return self

    def observe(self, event: Event | Pair, turn: Turn) -> tuple[Floats, DiagonalBank]:
        """What each learner lost on the pair; each has learned from it."""
        u, y = as_event(event, self._n)
        indices, values, _ = as_sparse(u, self._n)
        lost = np.zeros(turn.active)
        with np.errstate(over="ignore", invalid="ignore"):  # where kernels run as plain Python; told by the outcome
            outcome = diagonal.observe(
                self._state, self._settings, indices.copy(), values.copy(), 0, len(indices), y, turn.active, lost
            )
        if outcome != PLAYED:
            raise self._error(outcome, turn.round)
        self._learned = True
        return lost, self

    def mix(self, turn: Turn) -> Metric:
        """The weighted average of the learners' metrics."""
        weights = np.empty(self._n)
        threshold = diagonal.average(self._state, turn.weights.copy(), turn.active, weights)
        return Metric.low_rank(weights, np.zeros((0, self._n)), np.zeros(0), threshold, turn.round - 1)

    def replay(self, events: Events, turn: Turn, schedule: Schedule, rates: Floats) -> tuple[Turn, LearnerError | None]:
        """Play a round on each of the events without coming back to Python; the turn after them.

        Where a pair is refused, the turn is the one of that pair, and the error says why.
        """
        indptr, indices, values = _csr(events, self._n)
        weights = np.zeros((2, len(rates)))
        weights[0, : turn.active], weights[1, : len(turn.before)] = turn.weights, turn.before
        done, t, error = 0, turn.round, None
        self._learned = True
        while done < len(events) and error is None:
            with np.errstate(over="ignore", invalid="ignore"):
                now, outcome = diagonal.replay(
                    self._state,
                    self._settings,
                    indptr,
                    indices,
                    values,
                    events.y,
                    done,
                    t,
                    schedule.shortest,
                    schedule.most,
                    weights,
                    rates,
                )
            t, done = t + now - done, now
            if outcome == NO_SCALE:
                self.start(_turn(t, weights, schedule))
            elif outcome != PLAYED:
                error = self._error(outcome, t)
        return _turn(t, weights, schedule) if t > turn.round else turn, error

    def _error(self, outcome: int, t: int) -> LearnerError:
        what = "loss is not finite" if outcome == INFINITE_LOSS else "metric overflows"
        words = f"could not learn from the pair (its {what}; a smaller step_size or data of a smaller scale is needed)"
        return LearnerError(self._schedule.scale(int(self._state.failed[0])), t, words)

    def _make_room(self, n_active: int) -> None:
        """Have slots for so many scales; what is held is kept."""
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
        steps = self._step_size * np.array([self._schedule.scale(j).rate for j in range(K)])
        self._settings = self._settings._replace(steps=steps)


def _csr(events: Events, n_features: int) -> tuple[Any, Any, Floats]:
    """The events' differences as the three arrays of sparse rows."""
    if events.U.shape[1] != n_features:
        raise ValueError(f"U has {events.U.shape[1]} features; {n_features} are expected")
    if events.sparse:
        return events.U.indptr.astype(np.int64), events.U.indices.astype(np.int64), events.U.data
    rows, indices = np.nonzero(events.U)
    indptr = np.searchsorted(rows, np.arange(len(events) + 1))
    return indptr, np.ascontiguousarray(indices), events.U[rows, indices]


def _turn(t: int, weights: Floats, schedule: Schedule) -> Turn:
    """The turn of round t, of the weights in it and before its starts."""
    starting = tuple(schedule.scale(j) for j in range(schedule.starting(t)))
    return Turn(t, starting, weights[0, : schedule.active(t)].copy(), weights[1, : schedule.active(t - 1)].copy())
