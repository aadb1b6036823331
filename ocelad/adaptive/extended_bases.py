"""ExtendedBases: the squared distances of points, followed by those of their curved features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad._typing import Arrays, Floats, Metadata
from ocelad.adaptive.bases import Kinds
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.split_metric import PointMetric, SplitMetric, relative_change, squared_lengths
from ocelad.ensemble.state_reader import StateReader, add_prefix
from ocelad.metric import Metric
from ocelad.pairs import Events, Relatives

if TYPE_CHECKING:
    from ocelad.adaptive.compiled_bases import CompiledBases
    from ocelad.adaptive.mixture import Bases

#: Directions of a COMID learner of curved features.
CURVED_RANK = 12
# Bases have a standardized distance, which curved features leave out: some of these are almost always zero.
STANDARDIZED = 1


class CurvedKinds(Kinds):
    """The squared distances of curved features: Euclidean, and COMID learners of low rank.

    The bases compute a standardized distance beside them, which no expert uses.
    """

    def __init__(self, n_features: int, config: AdaptiveConfig) -> None:
        super().__init__(n_features, True, config)  # as of sparse features: no moments
        self.max_rank = CURVED_RANK

    @property
    def expert_names(self) -> tuple[str, ...]:
        """The name of each distance that is an expert."""
        return tuple(f"curved {name}" for k, name in enumerate(self.names) if k != STANDARDIZED)


class ExtendedBases:
    """Bases of extended events, whose features are those of the points followed by curved ones.

    Parameters
    ----------
    linear, curved : Bases
    linear_kinds : Kinds
    curved_kinds : CurvedKinds
    n_linear : int
        Number of features of the points.
    """

    def __init__(
        self, linear: Bases, curved: Bases, linear_kinds: Kinds, curved_kinds: CurvedKinds, n_linear: int
    ) -> None:
        self.linear, self.curved, self._n_linear = linear, curved, n_linear
        self._n_distances, self._n_curved = len(linear_kinds.names), len(curved_kinds.names)

    def measure_and_learn(
        self, events: Events | Relatives, weights: Floats, t: int, squares: Floats, sizes: Floats
    ) -> None:
        """Store the squared distances of each event before the round's update, then let the learned ones learn."""
        self.linear.measure_and_learn(_features(events, slice(None, self._n_linear)), weights, t, squares, sizes)
        of_curved, curved_sizes = self.learn_curved(events, weights, t)
        columns = slice(self._n_distances, self._n_distances + self._n_curved - 1)
        squares[:, columns] = np.delete(of_curved, STANDARDIZED, axis=1)
        if sizes is not squares:
            sizes[:, columns] = np.delete(curved_sizes, STANDARDIZED, axis=1)

    def learn_curved(self, events: Events | Relatives, weights: Floats, t: int) -> tuple[Floats, Floats]:
        """Let the distances of curved features learn; return the squares and sizes from before."""
        squares = np.empty((len(events), self._n_curved))
        sizes = np.empty_like(squares) if isinstance(events, Relatives) else squares
        curved = _features(events, slice(self._n_linear, None))
        if isinstance(curved, Events) and curved.sparse:
            curved = Events.from_trusted(curved.U.toarray(), curved.y)
        self.curved.measure_and_learn(curved, weights, t, squares, sizes)
        return squares, sizes

    def restart_windows(self, U: Floats, weights: Floats) -> Floats:
        """Let the windows begin again; curved features have none."""
        return self.linear.restart_windows(U, weights)

    def combine(self, coefficients: Floats) -> SplitMetric:
        """Return the weighted sum of the metrics of the squared distances."""
        linear = self.linear.combine(coefficients[: self._n_distances])
        curved = self.curved.combine(np.insert(coefficients[self._n_distances :], STANDARDIZED, 0.0))
        assert isinstance(linear, Metric)
        assert isinstance(curved, Metric)
        return SplitMetric(linear, curved, 0.0, 0)

    def squared_lengths(self, metric: PointMetric, U: Any, t: int) -> Floats:
        """Return the squared length of each row, a difference of round t, t + 1, ..., by a stored metric."""
        return squared_lengths(metric, U, t)

    def relative_change(self, metric: PointMetric, before: PointMetric) -> float:
        """Return how far a metric has moved; see ``Metric.relative_change``."""
        return relative_change(metric, before, self.mean_squares)

    @property
    def sums_of_squares(self) -> Floats:
        """The discounted sum of the squared differences of each feature of the points."""
        return self.linear.sums_of_squares

    @property
    def mean_squares(self) -> Floats:
        """The mean square of each feature."""
        return np.concatenate([self.linear.mean_squares, self.curved.mean_squares])

    def _compiled_parts(self) -> tuple[CompiledBases, CompiledBases]:
        return self.linear, self.curved  # type: ignore[return-value]

    def state(self) -> tuple[Arrays, Metadata]:
        """Return copies of all arrays that later rounds depend on, and metadata; of compiled bases only."""
        parts = [bases.state() for bases in self._compiled_parts()]
        arrays = {**add_prefix("linear", parts[0][0]), **add_prefix("curved", parts[1][0])}
        return arrays, {"linear": parts[0][1], "curved": parts[1][1]}

    def restore(self, saved: StateReader) -> None:
        """Continue from what ``state`` returned, after checking it."""
        for name, bases in zip(("linear", "curved"), self._compiled_parts(), strict=True):
            bases.restore(saved.section(name))


def _features(events: Events | Relatives, columns: slice) -> Events | Relatives:
    """Return the events with some of the features."""
    if isinstance(events, Relatives):
        return Relatives.from_trusted(*(np.ascontiguousarray(U[:, columns]) for U in (events.near, events.far)))
    U = events.U[:, columns]
    return Events.from_trusted(U if events.sparse else np.ascontiguousarray(U), events.y)
