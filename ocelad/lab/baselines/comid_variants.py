"""Variants of COMID without an ensemble: with a step size schedule, and with resets at known changes.

Greenewald, Kelley and Hero, "Dynamic metric learning from pairwise comparisons", equation (4) and section VI; the
nonadaptive learners there are those of Kunapuli and Shavlik, "Mirror descent for metric learning", 2012.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from math import sqrt
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from ocelad._validation import check_array, check_number
from ocelad.engines.build import build_bank
from ocelad.engines.rice_settings import Rice
from ocelad.ensemble.ocelad import Ocelad
from ocelad.ensemble.schedule import Schedule
from ocelad.learners import l1_prox
from ocelad.learners.comid import Comid, DivergenceName, LossName, RegularizerName
from ocelad.metric import Metric
from ocelad.pairs import Event, EventsName, Pair, Relative, as_dense, as_event, as_relative

#: A step size: a constant, one per round, or a function of the round t = 1, 2, 3, ...
Rate: TypeAlias = float | Sequence[float] | Callable[[int], float]

SeenEvent = TypeVar("SeenEvent")
ContraEvent = TypeVar("ContraEvent", contravariant=True)
CoPlay = TypeVar("CoPlay", covariant=True)
Play = TypeVar("Play")


@dataclass(frozen=True)
class inverse_root:  # noqa: N801  an instance is used as a function
    """The step size ``eta0 / sqrt(1 + (t - 1) / after)`` of round t; by default ``eta0 / sqrt(t)``.

    This schedule suits static streams. The larger ``after``, the longer the step size stays near ``eta0``.

    >>> rate = inverse_root(0.5)
    >>> rate(1), rate(4)
    (0.5, 0.25)
    >>> slower = inverse_root(0.5, after=1000)
    >>> slower(1), slower(3001)
    (0.5, 0.25)
    >>> slower
    inverse_root(eta0=0.5, after=1000.0)
    """

    eta0: float
    after: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta0", check_number(self.eta0, "eta0", above=0))
        object.__setattr__(self, "after", check_number(self.after, "after", above=0))

    def __call__(self, t: int) -> float:
        return self.eta0 / sqrt(1.0 + (t - 1) / self.after)


class ScheduledComid:
    """``Comid`` with the step size ``eta_t`` in round t = 1, 2, 3, ...

    Parameters
    ----------
    start : Metric
        The initial metric.
    rate : float, sequence of floats, or callable t -> float
        eta_t; above 0. After the end of a sequence, its last value applies.
    loss, divergence, regularizer, shrinkage, max_norm, l1_tolerance
        See ``Comid``.

    Examples
    --------
    >>> import numpy as np
    >>> learner = ScheduledComid(Metric(np.eye(2)), rate=inverse_root(0.1))
    >>> for _ in range(2):
    ...     learner.update(Event(u=np.array([1.0, 0.0]), y=1.0))
    >>> round(float(1.0 - learner.play().matrix[0, 0]), 6)  # 0.1 (1 + 1 / sqrt(2))
    0.170711
    """

    def __init__(
        self,
        start: Metric,
        *,
        rate: Rate,
        loss: LossName = "hinge",
        divergence: DivergenceName = "frobenius",
        regularizer: RegularizerName | None = "nuclear",
        shrinkage: float = 0.0,
        max_norm: float | None = None,
        l1_tolerance: float = l1_prox.RELATIVE_GAP,
    ) -> None:
        self._rate = _as_function(rate)
        self._t = 1
        self._comid = Comid(
            start,
            step_size=self._eta(),
            loss=loss,
            divergence=divergence,
            regularizer=regularizer,
            shrinkage=shrinkage,
            max_norm=max_norm,
            l1_tolerance=l1_tolerance,
        )

    @property
    def step_size(self) -> float:
        """The step size of the next round."""
        return self._eta()

    def play(self) -> Metric:
        """Return the current metric."""
        return self._comid.play()

    def loss(self, event: Event | Pair | Relative) -> float:
        """Return ``l(m)``."""
        return self._comid.loss(self._check_event(event))

    def update(self, event: Event | Pair | Relative) -> None:
        """Take one step of equation (4) with the step size of this round."""
        comid = self._comid.with_start(self._comid.play(), self._eta())
        comid.update(self._check_event(event))
        self._comid = comid
        self._t += 1

    def _eta(self) -> float:
        return check_number(self._rate(self._t), f"the rate of round {self._t}", above=0)

    def _check_event(self, event: Event | Pair | Relative) -> Event | Relative:
        n = self._comid.play().n_features
        if isinstance(event, Relative):
            return as_relative(event, n)
        u, y = as_event(event, n)
        return Event(as_dense(u), y)

    def __deepcopy__(self, memo: dict[int, Any]) -> ScheduledComid:
        return copy(self)


def scheduled_comid(
    n_features: int,
    *,
    rate: Rate,
    loss: LossName = "hinge",
    events: EventsName = "pairs",
    **learner: Any,
) -> Ocelad[Any, Metric]:
    """Create one COMID metric learner with the step size ``eta_t`` in round t: ``ScheduledComid`` with any engine.

    It is an ensemble of one learner, with the ``replay``, ``state`` and ``restore`` of ``Ocelad``.

    Parameters
    ----------
    n_features : int
    rate : float, sequence of floats, or callable t -> float
        See ``ScheduledComid``; a callable must depend on the round only.
    loss : {"hinge", "squared_hinge", "logistic"}
    events : {"pairs", "relatives"}
        See ``track_metric``.
    **learner
        Further settings of ``track_metric``, such as ``shrinkage``, ``initial_scale``, ``max_norm`` or ``engine``.

    Examples
    --------
    >>> from ocelad import Events
    >>> learner = scheduled_comid(2, rate=inverse_root(0.1), initial_scale=1.0)
    >>> _ = learner.replay(Events([[1.0, 0.0], [1.0, 0.0]], [1, 1]))
    >>> round(float(1.0 - learner.play().matrix[0, 0]), 6)  # 0.1 (1 + 1 / sqrt(2))
    0.170711
    >>> scheduled_comid(5000, rate=inverse_root(5.0, after=1000), engine="sparse", max_rank=30).bank.engine
    'sparse'
    """
    schedule, step_schedule = Schedule(n_scales=1), _as_function(rate)
    check_number(step_schedule(1), "the rate of round 1", above=0)
    rice = Rice(step_size=1.0, loss=loss, **learner)
    bank, settings = build_bank(n_features, rice, schedule, step_schedule=step_schedule, events=events)
    # restore() compares this entry; for a function it holds the name and the address.
    return Ocelad(bank, schedule=schedule, settings={**settings, "rate": repr(step_schedule)})


@dataclass(frozen=True)
class _Constant:
    eta: float

    def __call__(self, t: int) -> float:
        return self.eta


@dataclass(frozen=True)
class _Listed:
    etas: tuple[float, ...]

    def __call__(self, t: int) -> float:
        return self.etas[min(t, len(self.etas)) - 1]


def _as_function(rate: Any) -> Callable[[int], float]:
    if callable(rate):
        function: Callable[[int], float] = rate
        return function
    if hasattr(rate, "__len__") and not isinstance(rate, (str, bytes)):
        etas = tuple(float(eta) for eta in check_array(rate, "rate", 1, shapes={1: "one step size for each round"}))
        if min(etas) <= 0:
            raise ValueError(f"rate holds {min(etas):g} at position {etas.index(min(etas))}; accepted: numbers above 0")
        return _Listed(etas)
    return _Constant(check_number(rate, "rate", above=0))


class Resettable(Protocol[ContraEvent, CoPlay]):
    """What can be reset: a ``Learner``; its ``loss`` is optional."""

    def play(self) -> CoPlay: ...

    def update(self, event: ContraEvent) -> None: ...


class ResettingLearner(Generic[SeenEvent, Play]):
    """The oracle: a learner that is reset at each change of the environment (section VI-B).

    The changes are not known in practice. The oracle shows how well a learner would do that forgets at the right
    moments.

    Parameters
    ----------
    create : callable () -> Learner
        Creates the learner, at the start and after every change.

    Examples
    --------
    >>> import numpy as np
    >>> oracle = ResettingLearner(lambda: Comid(Metric(np.eye(2)), step_size=0.1))
    >>> oracle.update(Event(u=np.array([1.0, 0.0]), y=1.0))
    >>> oracle.reset()
    >>> oracle.play().matrix
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(self, create: Callable[[], Resettable[SeenEvent, Play]]) -> None:
        if not callable(create):
            raise TypeError(f"create must be a function that returns a learner; got {type(create).__name__}")
        self._create = create
        self._learner = create()

    def reset(self) -> None:
        """Replace the learner by a new one, because the environment has changed."""
        self._learner = self._create()

    def play(self) -> Play:
        """Return the play of the learner."""
        return self._learner.play()

    def loss(self, event: SeenEvent) -> float:
        """Return the loss of the learner."""
        learner: Any = self._learner
        return float(learner.loss(event))

    def update(self, event: SeenEvent) -> None:
        """Update the learner."""
        self._learner.update(event)

    def __deepcopy__(self, memo: dict[int, Any]) -> ResettingLearner[SeenEvent, Play]:
        oracle = copy(self)  # shares the factory
        oracle._learner = deepcopy(self._learner, memo)
        return oracle
