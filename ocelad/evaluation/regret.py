"""Regret on every interval: the loss of a run minus the loss of a comparator.

Theorem 1 bounds the dynamic regret of OCELAD on all intervals at once, so the worst interval of each length counts. It
is found exactly: cumulative sums give the regret of all intervals. The theorem is about convex losses in [0, 1]; see
``regret_bound``.

Examples
--------
>>> import numpy as np
>>> from ocelad.evaluation import regret
>>> run = regret.Regret(losses=[1.0, 3.0, 0.0, 2.0], comparator_losses=[0.0, 1.0, 1.0, 2.0])
>>> run.on_interval(1, 2), run.on_interval(2, 4)
(3.0, 1.0)
>>> worst = run.worst_intervals()
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
from ocelad.evaluation.picture_style import GREY, PALETTE, pyplot, styled
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
    """An online learner that plays before each event and then learns from it, such as ``Ocelad``."""

    def play(self) -> CoPlay:
        """Return the current play."""
        ...

    def step(self, event: ContraEvent, /) -> object:
        """Learn from an event."""
        ...


@dataclass(frozen=True, eq=False)
class WorstIntervals:
    """The interval with the largest regret, for each interval length; arrays of equal length.

    Attributes
    ----------
    length : array of int
        1, 2, ..., T.
    regret : array
        The largest regret of all intervals of this length.
    first, last : array of int
        The first and last round of that interval.
    path_length : array
        The path length of the comparator on that interval.
    bound : array
        The bound of Theorem 1 on that interval.
    ratio : array
        The largest ratio of regret to bound of all intervals of this length, possibly on another interval.
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
        The losses of the plays, ``f_t(theta_t)``.
    comparator_losses : array-like of shape (n_rounds,) or (n_rounds, n_candidates)
        One dimension: the losses of a comparator sequence, for dynamic regret. Two dimensions: the losses of fixed
        candidates, for static regret against the best candidate of each interval.
    movements : array-like of shape (n_rounds - 1,), optional
        The distances between consecutive comparators. Default: 0.
    """

    def __init__(self, losses: Any, comparator_losses: Any, movements: Any = None) -> None:
        self.losses = check_array(losses, "losses", 1, shapes=_SHAPES)
        self.comparator_losses = check_array(comparator_losses, "comparator_losses", 1, 2, shapes=_SHAPES)
        T = len(self.losses)
        if len(self.comparator_losses) != T:
            raise ValueError(
                f"losses has {T} rounds and comparator_losses has {len(self.comparator_losses)}; accepted: equally many"
            )
        if movements is None or (T == 1 and np.size(movements) == 0):
            movements = np.zeros(T - 1)
        else:
            movements = check_array(movements, "movements", 1, shapes={1: f"{T - 1} distances"})
        if len(movements) != T - 1 or (movements < 0).any():
            raise ValueError(f"movements must be {T - 1} distances of at least 0, one between each two rounds")
        self.movements: Floats = movements

    @classmethod
    def from_run(
        cls,
        player: Player[AnyEvent, Play],
        events: Iterable[AnyEvent],
        comparators: Iterable[Play],
        loss: Callable[[Play, AnyEvent], float],
        distance: Callable[[Play, Play], float] | None = None,
    ) -> Regret:
        """Compute the dynamic regret of a player on events, against one comparator per event.

        Parameters
        ----------
        player : Player
            Such as ``Ocelad``; it is stepped through the events. ``SingleLearner`` of
            ``ocelad.evaluation.prequential`` makes a player of one learner with ``play``, ``loss`` and ``update``.
        events : iterable
        comparators : iterable of plays
            The comparator of each round, such as the true metric.
        loss : callable (play, event) -> float
            For metrics: ``margin_loss("hinge")``.
        distance : callable (play, play) -> float, optional
            The distance of two comparators. Default: the Frobenius norm of their difference.
        """
        _check_run(player, comparators, loss)
        events, comparators = list(events), list(comparators)
        if len(events) != len(comparators):
            raise ValueError(f"got {len(events)} events and {len(comparators)} comparators; accepted: equally many")
        distance = distance or frobenius_distance
        losses, comparator_losses, movements = [], [], []
        previous: Play | None = None
        for event, comparator in zip(events, comparators, strict=True):
            play = player.play()
            _check_comparator(comparator, play)
            losses.append(loss(play, event))
            comparator_losses.append(loss(comparator, event))
            if previous is not None:
                movements.append(distance(previous, comparator))
            player.step(event)
            previous = comparator
        return cls(np.array(losses), np.array(comparator_losses), np.array(movements))

    @property
    def n_rounds(self) -> int:
        """The number of rounds."""
        return len(self.losses)

    def on_interval(self, first: int, last: int) -> float:
        """Return the regret on the rounds first, ..., last, counted from 1."""
        rounds = self._rounds(first, last)
        differences = self.losses[rounds, None] - self.comparator_losses.reshape(self.n_rounds, -1)[rounds]
        return float(differences.sum(axis=0).max())

    def path_length(self, first: int, last: int) -> float:
        """Return gamma, the path length of the comparator on the interval."""
        self._rounds(first, last)
        return float(self.movements[first - 1 : last - 1].sum())

    def worst_intervals(self, learner_constant: float = 0.0) -> WorstIntervals:
        """Find the interval with the largest regret for each interval length, among all intervals.

        Parameters
        ----------
        learner_constant : float
            The constant C of Theorem 1 in the regret bound of the learners. With 0 the bound has only its second term;
            a ratio below 1 then shows that the bound holds for every C.
        """
        C = check_number(learner_constant, "learner_constant", at_least=0)
        T = self.n_rounds
        # One column per candidate; the regret against the best candidate is the largest.
        differences = _cumulative_sum(self.losses[:, None] - self.comparator_losses.reshape(T, -1))
        movements = _cumulative_sum(np.append(self.movements, 0.0))
        rounds = np.arange(1, T + 1)
        columns: dict[str, Any] = {name: np.empty(T) for name in ("regret", "path_length", "bound", "ratio")}
        starts = np.empty(T, dtype=np.int64)
        for length in range(1, T + 1):
            regrets = (differences[length:] - differences[:-length]).max(axis=1)
            paths = movements[length - 1 : T] - movements[: T - length + 1]
            bounds = regret_bound(rounds[: T - length + 1], rounds[length - 1 :], paths, C)
            at = int(regrets.argmax())
            starts[length - 1] = at + 1
            columns["regret"][length - 1] = regrets[at]
            columns["path_length"][length - 1] = paths[at]
            columns["bound"][length - 1] = bounds[at]
            columns["ratio"][length - 1] = (regrets / bounds).max()
        return WorstIntervals(length=rounds, first=starts, last=starts + rounds - 1, **columns)

    def _rounds(self, first: int, last: int) -> slice:
        first, last = check_integer(first, "first", at_least=1), check_integer(last, "last", at_least=1)
        if not first <= last <= self.n_rounds:
            raise ValueError(f"the interval {first} .. {last} is not in the rounds 1 .. {self.n_rounds}")
        return slice(first - 1, last)


def _check_run(player: object, comparators: object, loss: object) -> None:
    """Raise TypeError for arguments of ``from_run`` that are of another kind."""
    missing = [name for name in ("play", "step") if not callable(getattr(player, name, None))]
    if missing:
        raise TypeError(
            f"player is a {type(player).__name__} without {missing[0]}; accepted: an object with play and step, such "
            "as Ocelad, or SingleLearner(learner) of ocelad.evaluation.prequential for a learner with play, loss and "
            "update"
        )
    if not isinstance(comparators, Iterable):
        raise TypeError(f"comparators is a {type(comparators).__name__}; accepted: a list with one play for each event")
    if not callable(loss):
        raise TypeError(f"loss is {loss!r}; accepted: a function loss(play, event), such as margin_loss('hinge')")


def _check_comparator(comparator: object, play: object) -> None:
    """Raise TypeError for a comparator that is no metric, if the play is one."""
    if isinstance(play, Metric) and not isinstance(comparator, Metric):
        raise TypeError(
            f"a comparator is a {type(comparator).__name__}, and the player plays a Metric; accepted: one Metric for "
            "each event"
        )


def regret_bound(first: Any, last: Any, path_length: Any = 0.0, learner_constant: float = 0.0) -> Any:
    """The bound of Theorem 1, ``8 C (1 + gamma) sqrt(|I|) + 40 log(s + 1) sqrt(|I|)``, on intervals I = [q, s].

    It holds for losses that are convex in the play, so that the average of the learners loses no more than they do on
    average, and that lie in [0, 1], if each learner has the dynamic regret ``C (1 + gamma) sqrt(|I|)`` on its own
    interval. Divide other losses by their range, and C with them.

    Parameters
    ----------
    first, last : int or array of int
        The rounds q and s.
    path_length : float or array
        The path length gamma of the comparator on the interval.
    learner_constant : float
        The constant C of the learners.

    Notes
    -----
    The theorem states no range of the losses. Its second term does not change with their unit, whereas the regret does,
    so it needs one; [0, 1] is that of SAOL, whose analysis it extends. COMID with a bounded metric, ``||M|| <= c``, and
    bounded points has bounded losses and gradients and, by the paper's Corollary, such a C.

    Examples
    --------
    >>> round(float(regret_bound(1, 100)), 1)
    1846.0
    """
    first, last, path_length = np.asarray(first), np.asarray(last), np.asarray(path_length)
    if (first < 1).any() or (last < first).any():
        raise ValueError("an interval must begin at a round of at least 1, and must not end before it begins")
    root = np.sqrt(last - first + 1)
    return 8 * learner_constant * (1 + path_length) * root + 40 * np.log(last + 1.0) * root


def margin_loss(name: str) -> Callable[[Metric, Event | Pair], float]:
    """Return the loss function of a metric on an event: "hinge", "squared_hinge" or "logistic".

    It leaves out the regulariser ``rho r(M)``, which is part of f_t in equation (3), and measures only the
    classification of pairs.

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
    """Return ``||M - N||_F`` of two metrics, or the Euclidean norm of the difference of two arrays or numbers."""
    one, other = (play.matrix if isinstance(play, Metric) else np.asarray(play) for play in (one, other))
    if one.shape != other.shape:
        raise ValueError(f"the plays have the shapes {one.shape} and {other.shape}; accepted: equal shapes")
    return float(np.linalg.norm(one - other))


@styled
def plot_worst_intervals(worst: WorstIntervals | Regret, ax: Axes | None = None) -> Axes:
    """Plot the worst regret and its bound against the interval length, on logarithmic axes.

    The bound is for losses in [0, 1]; see ``regret_bound``.
    """
    if isinstance(worst, Regret):
        worst = worst.worst_intervals()
    if ax is None:
        _, ax = pyplot().subplots(figsize=(6.5, 4.2), layout="constrained")
    positive = worst.regret > 0  # others have no logarithm
    if not positive.any():
        ax.text(0.5, 0.5, "no interval has a positive regret", ha="center", transform=ax.transAxes)
    lines = (
        ("worst interval", worst.regret, PALETTE[0], "-"),
        ("bound of Theorem 1 (for losses in [0, 1])", worst.bound, GREY, "--"),
    )
    for name, values, color, style in lines:
        ax.loglog(worst.length[positive], values[positive], color=color, linewidth=2, linestyle=style, label=name)
    ax.legend(frameon=False, loc="upper left")
    ax.set_xlabel("interval length (rounds)")
    ax.set_ylabel("regret")
    return ax


def _cumulative_sum(values: Floats) -> Floats:
    """Return the sums of the first 0, 1, 2, ... rows."""
    return np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
