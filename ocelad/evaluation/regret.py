"""Regret on every interval: how much more a run lost than a comparator, wherever one looks.

Theorem 1 bounds the dynamic regret of OCELAD on every interval at once, so the interval that counts is the
worst one. For every length all intervals are compared, by running sums.

Examples
--------
>>> import numpy as np
>>> from ocelad.evaluation import regret
>>> run = regret.Regret(losses=[1.0, 3.0, 0.0, 2.0], comparator_losses=[0.0, 1.0, 1.0, 2.0])
>>> run.on(1, 2), run.on(2, 4)
(3.0, 1.0)
>>> worst = run.worst()
>>> worst.length, worst.regret, worst.first
(array([1, 2, 3, 4]), array([2., 3., 2., 2.]), array([2, 1, 1, 1]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_array, check_choice, check_integer, check_number
from ocelad.evaluation.plots import pyplot
from ocelad.learners.losses import LOSSES
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHAPES = {1: "one number per round", 2: "one row per round, one column per candidate"}

AnyEvent = TypeVar("AnyEvent")
ContraEvent = TypeVar("ContraEvent", contravariant=True)
Play = TypeVar("Play")
CoPlay = TypeVar("CoPlay", covariant=True)


class Player(Protocol[ContraEvent, CoPlay]):
    """What plays before each event and then learns from it, such as ``Ocelad``."""

    def play(self) -> CoPlay: ...

    def step(self, event: ContraEvent, /) -> object: ...


@dataclass(frozen=True, eq=False)
class Worst:
    """For each length of interval, the one with the largest regret; arrays of the same length.

    Attributes
    ----------
    length : array of int
        1, 2, ..., T.
    regret : array
        The largest regret of any interval of this length.
    first, last : array of int
        The first and last round of that interval.
    path_length : array
        How far the comparator moved in it.
    bound : array
        Theorem 1's bound on it.
    ratio : array
        The largest ratio of regret to bound of any interval of this length, which need not be the same one.
    """

    length: np.ndarray
    regret: Floats
    first: np.ndarray
    last: np.ndarray
    path_length: Floats
    bound: Floats
    ratio: Floats


class Regret:
    """The regret of a run against a comparator, on every interval of rounds [q, s] (section V).

    Parameters
    ----------
    losses : array-like of shape (n_rounds,)
        What was lost in each round by what was played, ``f_t(played)``.
    comparator_losses : array-like of shape (n_rounds,) or (n_rounds, n_candidates)
        One dimension: what the comparator sequence lost; the regret is dynamic. Two dimensions: what each of
        some fixed candidates lost; the regret is static, against the best candidate of each interval.
    movements : array-like of shape (n_rounds - 1,), optional
        How far the comparator moved after each round but the last. Default: not at all.
    """

    def __init__(self, losses: Any, comparator_losses: Any, movements: Any = None) -> None:
        self.losses = check_array(losses, "losses", 1, shapes=_SHAPES)
        self.comparator_losses = check_array(comparator_losses, "comparator_losses", 1, 2, shapes=_SHAPES)
        T = len(self.losses)
        if len(self.comparator_losses) != T:
            raise ValueError(
                f"losses has {T} rounds and comparator_losses {len(self.comparator_losses)}; accepted: as many"
            )
        if movements is None or (T == 1 and np.size(movements) == 0):
            movements = np.zeros(T - 1)
        else:
            movements = check_array(movements, "movements", 1, shapes={1: f"{T - 1} distances"})
        if len(movements) != T - 1 or (movements < 0).any():
            raise ValueError(f"movements must be {T - 1} distances, one between each two rounds, none below 0")
        self.movements: Floats = movements

    @classmethod
    def of_run(
        cls,
        player: Player[AnyEvent, Play],
        events: Iterable[AnyEvent],
        comparators: Iterable[Play],
        loss: Callable[[Play, AnyEvent], float],
        distance: Callable[[Play, Play], float] | None = None,
    ) -> Regret:
        """Dynamic regret of a player on events, against one comparator per event.

        Parameters
        ----------
        player : Player
            Such as ``Ocelad``; it is stepped through the events.
        events : iterable
        comparators : iterable of plays
            What would have been played in each round, such as the truth.
        loss : callable (play, event) -> float
            For metrics: ``margin_loss("hinge")``.
        distance : callable (play, play) -> float, optional
            How far two comparators are apart; default: the Frobenius norm of their difference.
        """
        events, comparators = list(events), list(comparators)
        if len(events) != len(comparators):
            raise ValueError(f"there are {len(events)} events and {len(comparators)} comparators; accepted: as many")
        between = distance or frobenius_distance
        played, compared, movements = [], [], []
        last: Play | None = None
        for event, comparator in zip(events, comparators, strict=True):
            played.append(loss(player.play(), event))
            compared.append(loss(comparator, event))
            if last is not None:
                movements.append(between(last, comparator))
            player.step(event)
            last = comparator
        return cls(np.array(played), np.array(compared), np.array(movements))

    @property
    def n_rounds(self) -> int:
        """How many rounds were played."""
        return len(self.losses)

    def on(self, first: int, last: int) -> float:
        """The regret on the interval of rounds first .. last, both included, counted from 1."""
        rounds = self._rounds(first, last)
        lost = self.losses[rounds, None] - self.comparator_losses.reshape(self.n_rounds, -1)[rounds]
        return float(lost.sum(axis=0).max())

    def path_length(self, first: int, last: int) -> float:
        """gamma: how far the comparator moved within the interval."""
        self._rounds(first, last)
        return float(self.movements[first - 1 : last - 1].sum())

    def worst(self, learner_constant: float = 0.0) -> Worst:
        """The worst interval of each length: all are compared, none is sampled.

        Parameters
        ----------
        learner_constant : float
            C of Theorem 1, the constant of the learners' own regret bound. With 0 only the second term of the
            bound counts, so that a ratio below 1 says that the theorem's bound holds whatever C is.
        """
        C = check_number(learner_constant, "learner_constant", at_least=0)
        T = self.n_rounds
        # Against every candidate; the regret against the best of them is the largest.
        lost = _running_sum(self.losses[:, None] - self.comparator_losses.reshape(T, -1))
        moved = _running_sum(np.append(self.movements, 0.0))
        rounds = np.arange(1, T + 1)
        columns: dict[str, Any] = {name: np.empty(T) for name in ("regret", "path_length", "bound", "ratio")}
        starts = np.empty(T, dtype=np.int64)
        for length in range(1, T + 1):
            regrets = (lost[length:] - lost[:-length]).max(axis=1)
            paths = moved[length - 1 : T] - moved[: T - length + 1]
            bounds = bound(rounds[: T - length + 1], rounds[length - 1 :], paths, C)
            at = int(regrets.argmax())
            starts[length - 1] = at + 1
            columns["regret"][length - 1] = regrets[at]
            columns["path_length"][length - 1] = paths[at]
            columns["bound"][length - 1] = bounds[at]
            columns["ratio"][length - 1] = (regrets / bounds).max()
        return Worst(length=rounds, first=starts, last=starts + rounds - 1, **columns)

    def _rounds(self, first: int, last: int) -> slice:
        first, last = check_integer(first, "first", at_least=1), check_integer(last, "last", at_least=1)
        if not first <= last <= self.n_rounds:
            raise ValueError(f"no interval {first} .. {last} in a run of {self.n_rounds} rounds")
        return slice(first - 1, last)


def bound(first: Any, last: Any, path_length: Any = 0.0, learner_constant: float = 0.0) -> Any:
    """Theorem 1's bound ``8 C (1 + gamma) sqrt(|I|) + 40 log(s + 1) sqrt(|I|)`` on I = [q, s], or on arrays of them.

    >>> round(float(bound(1, 100)), 1)
    1846.0
    """
    first, last, path_length = np.asarray(first), np.asarray(last), np.asarray(path_length)
    if (first < 1).any() or (last < first).any():
        raise ValueError("an interval must go from a round of at least 1 to one that is not earlier")
    root = np.sqrt(last - first + 1)
    return 8 * learner_constant * (1 + path_length) * root + 40 * np.log(last + 1.0) * root


def margin_loss(name: str) -> Callable[[Metric, Event | Pair], float]:
    """What a metric loses on an event by the loss of this name: "hinge", "squared_hinge" or "logistic".

    Without the regulariser ``rho r(M)``, which equation (3) counts into f_t: what is compared is how well pairs
    are told apart.

    >>> from ocelad import Metric, Pair
    >>> margin_loss("hinge")(Metric([[1.0]], threshold=1.0), Pair([2.0], [0.0], similar=True))
    4.0
    """
    value = LOSSES[check_choice(name, "loss", LOSSES)].value

    def loss(metric: Metric, event: Event | Pair) -> float:
        u, y = event.event() if isinstance(event, Pair) else event
        return value(y * (metric.threshold - metric.squared_length(u)))

    return loss


def frobenius_distance(one: Any, other: Any) -> float:
    """``||M - N||_F`` of two metrics, or the Euclidean norm of the difference of two arrays or numbers."""
    one, other = (play.matrix if isinstance(play, Metric) else np.asarray(play) for play in (one, other))
    if one.shape != other.shape:
        raise ValueError(f"one has shape {one.shape}, the other {other.shape}; accepted: plays of one shape")
    return float(np.linalg.norm(one - other))


def plot(worst: Worst | Regret, ax: Axes | None = None) -> Axes:
    """Worst regret against interval length, with the bound on that very interval, on logarithmic axes."""
    if isinstance(worst, Regret):
        worst = worst.worst()
    if ax is None:
        _, ax = pyplot().subplots(figsize=(6.5, 4.2), layout="constrained")
    shown = worst.regret > 0  # a logarithm has no place for the rest
    if not shown.any():
        ax.text(0.5, 0.5, "no interval has a positive regret", ha="center", transform=ax.transAxes)
    lines = (
        ("worst interval", worst.regret, "#0072B2", "-"),
        ("Theorem 1's bound on it", worst.bound, "#555555", "--"),
    )
    for name, values, color, style in lines:
        ax.loglog(worst.length[shown], values[shown], color=color, linewidth=2, linestyle=style, label=name)
    ax.legend(frameon=False, loc="upper left")
    ax.set_xlabel("interval length (rounds)")
    ax.set_ylabel("regret")
    ax.grid(which="major", color="#dddddd", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _running_sum(values: Floats) -> Floats:
    """Sums of the first 0, 1, 2, ... rows."""
    return np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
