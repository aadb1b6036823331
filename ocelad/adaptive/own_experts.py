"""OwnExpert: the protocol of a distance of the user's own that joins the ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Protocol

import numpy as np

from ocelad._typing import Floats
from ocelad.metric import Metric
from ocelad.pairs import Events, Relatives

#: Squares of larger numbers could overflow.
MAX_SQUARE = 1e150


class OwnExpert(Protocol):
    """A squared distance that may learn from pairs.

    The ensemble calibrates it, weighs it by its losses, and adds its metric to the exported one. So it has to be a
    squared Mahalanobis distance, in any unit. ``ocelad.testing.check_expert`` checks the protocol.

    Attributes
    ----------
    name : str
        Its name in ``AdaptiveTracker.expert_names``.
    """

    name: str

    def square(self, u: Floats) -> float:
        """Return the squared length of a difference: ``metric().squared_length(u)``."""
        ...

    def learn(self, u: Floats, y: float, weight: float) -> None:
        """Learn from a pair with the difference u and the answer y, +1 for "same" or -1."""
        ...

    def metric(self) -> Metric:
        """Return the present metric."""
        ...


def check_own_experts(experts: Any, n_features: int) -> tuple[OwnExpert, ...]:
    """Return copies of the experts; refuse objects that are none, empty names, and names that occur twice."""
    if not isinstance(experts, Sequence):
        raise TypeError(f"experts must be a list of experts; got {type(experts).__name__}")
    for i, expert in enumerate(experts):
        if (problem := find_expert_problem(expert)) is not None:
            raise TypeError(f"expert {i} {problem}")
        if not isinstance(expert.name, str) or not expert.name:
            raise ValueError(f"the name of expert {i} is {expert.name!r}; accepted: a string that is not empty")
        n = metric_of(expert).n_features
        if n != n_features:
            raise ValueError(f"the metric of expert {expert.name!r} has {n} features; {n_features} are expected")
    names = [expert.name for expert in experts]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"the name {twice[0]!r} occurs twice; accepted: experts with different names")
    return deepcopy(tuple(experts))


def find_expert_problem(expert: object) -> str | None:
    """Return why an object is no expert, as the end of a sentence; None if it has a name and the methods.

    >>> find_expert_problem(5)
    'is an object of type int without square; accepted: objects with a name and the methods square, learn and metric'
    """
    if isinstance(expert, type):
        return f"is a class; accepted: an object, such as {expert.__name__}()"
    missing = [name for name in ("square", "learn", "metric") if not callable(getattr(expert, name, None))]
    missing += [] if hasattr(expert, "name") else ["name"]
    if not missing:
        return None
    return (
        f"is an object of type {type(expert).__name__} without {missing[0]}; accepted: objects with a name and the "
        "methods square, learn and metric"
    )


def check_names_are_free(experts: Sequence[OwnExpert], names: Sequence[str]) -> None:
    """Refuse experts with the name of a built-in expert; ``names`` are those of the whole ensemble."""
    for expert in experts:
        if names.count(expert.name) > 1:
            raise ValueError(f"the name {expert.name!r} belongs to a built-in expert; accepted: another name")


def metric_of(expert: OwnExpert) -> Metric:
    """Return the present metric of an expert, or raise an error that names the expert."""
    try:
        metric: object = expert.metric()
    except Exception as error:
        raise RuntimeError(f"the expert {expert.name!r} could not return its metric ({_describe(error)})") from error
    if not isinstance(metric, Metric):
        raise TypeError(f"metric() of expert {expert.name!r} returned a {type(metric).__name__}; accepted: a Metric")
    return metric


def play_own_expert(expert: OwnExpert, events: Events | Relatives, weights: Floats, first_round: int) -> Floats:
    """Return the expert's squared distance of each pair before the expert learns from it.

    An error of the expert is raised as one that names it. The tracker discards a part that is half learned.
    """
    assert isinstance(events, Events)  # experts of one's own exclude relative comparisons
    squares = np.empty(len(events))
    for row, (u, y, weight) in enumerate(zip(events.U, events.y.tolist(), weights.tolist(), strict=True)):
        try:
            squares[row] = expert.square(u)
        except Exception as error:
            raise _failure(expert, first_round + row, "measure", error) from error
        if not 0.0 <= squares[row] <= MAX_SQUARE:
            raise ValueError(
                f"the squared distance of expert {expert.name!r} is {squares[row]}; accepted: numbers from 0 to "
                f"{MAX_SQUARE:g}"
            )
        try:
            expert.learn(u, y, weight)
        except Exception as error:
            raise _failure(expert, first_round + row, "learn from", error) from error
    return squares


def _failure(expert: OwnExpert, round: int, action: str, error: Exception) -> RuntimeError:
    return RuntimeError(
        f"in round {round} the expert {expert.name!r} could not {action} the pair ({_describe(error)}); the tracker is "
        "unchanged"
    )


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
