"""The contracts of learners, banks and experts, as checks that raise an AssertionError."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.own_experts import OwnExpert, find_expert_problem
from ocelad.ensemble.bank import Bank, is_finite
from ocelad.ensemble.learner import Learner
from ocelad.ensemble.ocelad import Ocelad
from ocelad.metric import Metric
from ocelad.pairs import Event as PairEvent
from ocelad.pairs import Events, as_dense

Event = TypeVar("Event")
Play = TypeVar("Play")

# Relative errors by rounding: of a squared length, and of the eigenvalues of a matrix per feature.
LENGTH_ROUNDING, EIGENVALUE_ROUNDING = 1e-9, 1e-10


def check_learner(make: Callable[[], Learner[Event, Play]], events: Sequence[Event]) -> None:
    """Check that a learner satisfies the contract of ``Learner``.

    ``play`` and ``loss`` must not change the learner. Losses must be finite numbers. A deep copy must learn
    independently of the original. Two learners that see the same events must end with the same play.

    Parameters
    ----------
    make : callable () -> Learner
        Creates a new learner, the same one in every call.
    events : sequence
        At least one event that the learner accepts.

    Examples
    --------
    >>> from ocelad import Comid, Metric, Pair
    >>> event = Pair([1.0, 2.0], [0.0, 0.0], similar=True).event()
    >>> check_learner(lambda: Comid(Metric([[1.0, 0.0], [0.0, 1.0]]), step_size=0.1), [event])
    """
    events = list(events)
    _require(callable(make), f"make must be a function that creates a learner; got {type(make).__name__}")
    _require(len(events) > 0, "check_learner needs at least one event")
    learner, twin = make(), make()
    _require(learner is not twin, "make must create a new learner in every call; it returned the same one twice")
    for number, event in enumerate(events, start=1):
        where = f"at event {number}"
        before = deepcopy(_call("play", learner.play, where))
        _require(is_finite(before), f"play must return finite numbers; {where} it returned {before!r}")
        loss = _call("loss", lambda: learner.loss(event), where)  # noqa: B023
        _require(_is_finite_number(loss), f"loss must return one finite number; {where} it returned {loss!r}")
        _require(learner.loss(event) == loss, f"loss must return the same number twice; {where} it did not")
        _require(_equal(learner.play(), before), f"play and loss must not change the learner; {where} the play changed")
        copy = _call("deepcopy", lambda: deepcopy(learner), where)
        _call("update", lambda: copy.update(event), where)  # noqa: B023
        after = copy.play()
        _require(is_finite(after), f"play must return finite numbers; after event {number} it returned {after!r}")
        _require(
            _equal(learner.play(), before) and learner.loss(event) == loss,
            f"a deep copy must be independent of the original; {where} updating the copy changed the original",
        )
        learner.update(event)
        twin.update(event)
        _require(_equal(learner.play(), after), f"a deep copy must learn like the original; {where} they differ")
        _require(_equal(learner.play(), twin.play()), f"learning must be deterministic; {where} two learners differ")


def check_bank(
    make: Callable[[], Bank[Event, Play]],
    events: Sequence[Event],
    *,
    shortest_interval: int = 1,
    n_scales: int | None = None,
    invalid_event: Event | None = None,
) -> None:
    """Check that a bank satisfies the contract of ``Bank``.

    ``observe`` must return one finite loss for each active scale. ``mix`` must not change the bank: a run that calls it
    in every round must give the same bits as a run that does not. An event that is rejected must change nothing.

    Parameters
    ----------
    make : callable () -> Bank
        Creates a new bank, the same one in every call.
    events : sequence
        Events that the bank accepts; with ten or more, several scales are active.
    shortest_interval, n_scales
        The settings of the schedule.
    invalid_event : event, optional
        An event for which the bank must raise an error.

    Examples
    --------
    >>> import numpy as np
    >>> from ocelad import Metric, Pair
    >>> from ocelad.engines.rice_bank import RiceBank
    >>> event = Pair([1.0, 2.0], [0.0, 0.0], similar=True).event()
    >>> check_bank(lambda: RiceBank(Metric(np.eye(2)), step_size=0.1), [event] * 10)
    """
    events = list(events)
    _require(callable(make), f"make must be a function that creates a bank; got {type(make).__name__}")
    _require(len(events) > 0, "check_bank needs at least one event")
    read, unread = (Ocelad(make(), shortest_interval=shortest_interval, n_scales=n_scales) for _ in range(2))
    for event in events:
        where = f"in round {read.n_rounds + 1}"
        if invalid_event is not None:
            _check_rejection(read, invalid_event, where)
        before = deepcopy(read.play())
        _require(is_finite(before), f"mix must return finite numbers; {where} it returned {before!r}")
        _require(_equal(read.play(), before), f"mix must return the same play twice; {where} it did not")
        losses, expected = read.step(event).losses, unread.step(event).losses  # step checks their number and values
        _require(
            _equal(losses, expected), f"mix must not change the bank; {where} the losses differ from a run without it"
        )
    same = _equal(read.play(), unread.play())
    _require(same, "mix must not change the bank; the last play differs from a run without it")


def _check_rejection(ocelad: Ocelad[Event, Play], event: Event, where: str) -> None:
    before, round_state = deepcopy(ocelad.play()), ocelad.round_state
    try:
        ocelad.step(event)
    except Exception:
        unchanged = ocelad.round_state is round_state and _equal(ocelad.play(), before)
        _require(unchanged, f"an event that is rejected must change nothing; {where} it did")
    else:
        raise AssertionError(f"observe must raise an error for the invalid event; {where} it accepted it")


def check_expert(make: Callable[[], OwnExpert], events: Events | Sequence[PairEvent]) -> None:
    """Check that a distance of your own satisfies the contract of ``OwnExpert``.

    ``name`` must be a string that is not empty. ``square`` must return the squared length by ``metric``, a finite
    number of at least 0 that is the same for u and -u. ``square`` and ``metric`` must not change the expert. A deep
    copy must learn independently of the original. Two experts that see the same events must have the same metric. It
    must stay finite and positive semidefinite, also if a pair has no weight.

    Parameters
    ----------
    make : callable () -> OwnExpert
        Creates a new expert, the same one in every call.
    events : Events or sequence of Event
        At least one event that the expert accepts.

    Examples
    --------
    >>> from ocelad import Metric, Pair
    >>> class FirstFeature:
    ...     name = "first feature"
    ...
    ...     def square(self, u):
    ...         return u[0] ** 2
    ...
    ...     def learn(self, u, y, weight):
    ...         pass
    ...
    ...     def metric(self):
    ...         return Metric.from_diagonal([1.0, 0.0])
    >>> check_expert(FirstFeature, [Pair([1.0, 2.0], [0.0, 0.0], similar=True).event()])
    """
    events = list(events)
    _require(callable(make), f"make must be a function that creates an expert; got {type(make).__name__}")
    _require(len(events) > 0, "check_expert needs at least one event")
    expert, unread = make(), make()
    _require(expert is not unread, "make must create a new expert in every call; it returned the same one twice")
    problem = find_expert_problem(expert)
    _require(problem is None, f"make must return an expert; what it returned {problem}")
    named = isinstance(expert.name, str) and expert.name != ""
    _require(named, f"name must be a string that is not empty; got {expert.name!r}")
    for number, event in enumerate(events, start=1):
        where, u, y = f"at event {number}", as_dense(event.u), float(event.y)
        square, metric = _check_measures(expert, u, where)
        learned, without_weight = (_call("deepcopy", lambda: deepcopy(expert), where) for _ in range(2))
        _learn(learned, u, y, 1.0, where)
        _learn(without_weight, u, y, 0.0, where)
        _require(
            _equal(expert.metric(), metric) and expert.square(u) == square,
            f"a deep copy must be independent of the original; {where} learning by the copy changed the original",
        )
        _check_metric(without_weight.metric(), len(u), f"after event {number} with a weight of 0")
        _learn(expert, u, y, 1.0, where)
        _learn(unread, u, y, 1.0, where)
        after = f"after event {number}"
        _, metric = _check_measures(expert, u, after)
        _require(
            _equal(unread.metric(), metric),
            f"two experts must learn the same, even if square is called only for one; {after} they differ",
        )
        _require(_equal(learned.metric(), metric), f"a deep copy must learn like the original; {after} they differ")


def _check_measures(expert: OwnExpert, u: Floats, where: str) -> tuple[float, Metric]:
    """Check ``square`` and ``metric`` at a difference; return what they return."""
    metric = _call("metric", expert.metric, where)
    _check_metric(metric, len(u), where)
    square = _square(expert, u, where)
    valid = _is_finite_number(square) and square >= 0.0
    _require(valid, f"square must return one finite number of at least 0; {where} it returned {square!r}")
    expected = metric.squared_length(u)
    _require(
        abs(square - expected) <= LENGTH_ROUNDING * expected,
        f"square must return metric().squared_length(u); {where} it returned {square!r} instead of {expected!r}",
    )
    unchanged = _square(expert, u, where) == square and _equal(expert.metric(), metric)
    _require(unchanged, f"square and metric must not change the expert; {where} they did")
    opposite = _square(expert, -u, where)
    same = opposite == square
    _require(same, f"square must be the same for u and -u; {where} it returned {square!r} and {opposite!r}")
    return square, metric


def _check_metric(metric: Any, n_features: int, where: str) -> None:
    _require(isinstance(metric, Metric), f"metric must return a Metric; {where} it returned {metric!r}")
    n = metric.n_features
    _require(n == n_features, f"metric must have the features of the differences, {n_features}; {where} it has {n}")
    matrix = metric.matrix
    _require(is_finite(matrix), f"metric must return finite numbers; {where} it did not")
    _require(bool((matrix == matrix.T).all()), f"metric must return a symmetric matrix; {where} it did not")
    lowest, size = np.linalg.eigvalsh(matrix)[0], np.abs(matrix).max()
    _require(
        lowest >= -EIGENVALUE_ROUNDING * size * n,
        f"metric must stay positive semidefinite; {where} it has the eigenvalue {lowest:.3g}",
    )


def _square(expert: OwnExpert, u: Floats, where: str) -> Any:
    given = u.copy()
    square = _call("square", lambda: expert.square(given), where)
    _require(_equal(given, u), f"square must not change the difference; {where} it did")
    return square


def _learn(expert: OwnExpert, u: Floats, y: float, weight: float, where: str) -> None:
    given = u.copy()
    _call("learn", lambda: expert.learn(given, y, weight), where)
    _require(_equal(given, u), f"learn must not change the difference; {where} it did")


def _call(name: str, function: Callable[[], Any], where: str) -> Any:
    try:
        return function()
    except Exception as error:
        raise AssertionError(f"{name} must not fail; {where} it raised {type(error).__name__}: {error}") from error


def _is_finite_number(value: object) -> bool:
    return isinstance(value, (Real, np.number)) and is_finite(value)


def _equal(one: Any, other: Any) -> bool:
    """Return whether two plays have the same bits: numbers, arrays, containers of them, or any comparable objects."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    if is_dataclass(one) and type(one) is type(other):
        return all(_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)
