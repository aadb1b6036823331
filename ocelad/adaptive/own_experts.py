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
    """Return copies of the experts; refuse objects that are none, and names that occur twice."""
    if not isinstance(experts, Sequence):
        raise TypeError(f"experts must be a list of experts; got {type(experts).__name__}")
    for i, expert in enumerate(experts):
        missing = [name for name in ("square", "learn", "metric") if not callable(getattr(expert, name, None))]
        if missing or not isinstance(getattr(expert, "name", None), str):
            raise TypeError(
                f"expert {i} is a {type(expert).__name__} without {missing[0] if missing else 'name'}; accepted: "
                "objects with a name and the methods square, learn and metric"
            )
        n = expert.metric().n_features
        if n != n_features:
            raise ValueError(f"the metric of expert {expert.name!r} has {n} features; {n_features} are expected")
    names = [expert.name for expert in experts]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"the name {twice[0]!r} occurs twice; accepted: experts with different names")
    return deepcopy(tuple(experts))


def play_own_expert(expert: OwnExpert, events: Events | Relatives, weights: Floats) -> Floats:
    """Return the expert's squared distance of each pair before the expert learns from it."""
    assert isinstance(events, Events)  # experts of one's own exclude relative comparisons
    squares = np.empty(len(events))
    for row, (u, y, weight) in enumerate(zip(events.U, events.y.tolist(), weights.tolist(), strict=True)):
        squares[row] = expert.square(u)
        if not 0.0 <= squares[row] <= MAX_SQUARE:
            raise ValueError(
                f"the squared distance of expert {expert.name!r} is {squares[row]}; accepted: numbers from 0 to "
                f"{MAX_SQUARE:g}"
            )
        expert.learn(u, y, weight)
    return squares
