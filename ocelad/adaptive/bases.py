"""PlainBases: the squared distances that experts are combinations of, by kind, in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.low_rank_comid import LowRankComid
from ocelad.adaptive.moments import Discriminants
from ocelad.adaptive.scales import FeatureScales
from ocelad.adaptive.split_metric import PointMetric, relative_change, squared_lengths
from ocelad.metric import Metric
from ocelad.pairs import Events, Relatives

#: Share of the Euclidean distance in every COMID distance: answers of one kind would shrink a metric to zero.
COMID_FLOOR = 1e-3


class Kinds:
    """Which squared distances there are for a number of features; what is too expensive is left out by kind.

    - Priors: Euclidean, standardized (each feature divided by its root mean square) and whitened.
    - Learned: discriminants over windows, and COMID learners. With more than ``max_moment_features`` features, or with
      sparse ones: only COMID learners, of low rank.

    Attributes
    ----------
    dense : bool
        Whether metrics are matrices. Otherwise they are a diagonal plus few directions.
    windows, scaled_windows : tuple of int
    comid_steps : tuple of float
    max_rank : int
        Directions of a COMID learner.
    priors, learned : tuple of str
        Names of the distances.
    """

    def __init__(self, n_features: int, sparse: bool, config: AdaptiveConfig) -> None:
        self.dense = n_features <= config.max_moment_features and not sparse
        self.max_rank = config.max_rank
        if self.dense:
            self.priors: tuple[str, ...] = ("Euclidean", "standardized", "whitened")
            self.windows, self.scaled_windows = (
                tuple(length for length in windows if 2 * length >= n_features)
                for windows in (config.windows, config.scaled_windows)
            )
            self.comid_steps = config.comid_steps
        else:
            self.priors = ("Euclidean", "standardized")
            self.windows, self.scaled_windows, self.comid_steps = (), (), config.low_rank_steps
        self.learned: tuple[str, ...] = (
            *(f"window {length}" for length in self.windows),
            *(f"standardized window {length}" for length in self.scaled_windows),
            *(f"COMID {step:g}" for step in self.comid_steps),
        )

    @property
    def has_windows(self) -> bool:
        """Whether there are discriminants over windows."""
        return bool(self.windows or self.scaled_windows)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each distance."""
        return (*self.priors, *self.learned)

    @property
    def scaled(self) -> tuple[int, ...]:
        """The positions of the distances of standardized features."""
        return tuple(k for k, name in enumerate(self.names) if name.startswith(("standardized", "whitened")))


class PlainBases:
    """Squared distances that learn from events, in plain NumPy.

    Parameters
    ----------
    kinds : Kinds
    n_features : int
    config : AdaptiveConfig
    """

    def __init__(self, kinds: Kinds, n_features: int, config: AdaptiveConfig) -> None:
        n = n_features
        self._scales = FeatureScales(n, config)
        self._moments = Discriminants(n, kinds.windows, kinds.scaled_windows, config) if kinds.dense else None
        self._comid = [LowRankComid(n, step / n**2, kinds.max_rank) for step in kinds.comid_steps]

    def measure_and_learn(
        self, events: Events | Relatives, weights: Floats, t: int, squares: Floats, sizes: Floats
    ) -> None:
        """Store the squared distances of each event before the round's update, then let the learned ones learn.

        Parameters
        ----------
        events : Events or Relatives
        weights : array of shape (n_events,)
        t : int
            The first round.
        squares, sizes : array of shape (n_events, n_distances)
            Their first columns receive the squared distances; of relative comparisons, the differences of near minus
            far, and their sizes.
        """
        for row in range(len(events)):
            if isinstance(events, Relatives):
                self._relative(events.near[row], events.far[row], float(weights[row]), squares[row], sizes[row])
            else:
                u = events.U[[row]].toarray()[0] if events.sparse else events.U[row]
                of_pair = self._pair(u, float(events.y[row]), float(weights[row]))
                squares[row, : len(of_pair)] = sizes[row, : len(of_pair)] = of_pair

    def _pair(self, x: Floats, y: float, weight: float) -> Floats:
        warming_up = self._scales.warming_up
        if warming_up:
            self._scales.update(x)
        roots = self._scales.inverse_roots
        fixed, vector, comid = self._fixed_squares(x, roots), x * self._scales.factor, []
        shrink, floor = self._scales.length_limit(x), COMID_FLOOR * float(vector @ vector) / len(x)
        for learner in self._comid:
            comid.append(learner.square(shrink * vector) / shrink**2 + floor)
            learner.learn_pair(shrink * vector, y, weight)
        if self._moments is not None:
            self._moments.learn(x * roots, self._scales.ratios, y, weight)
        if not warming_up:
            self._scales.update(x)
        return np.array([*fixed, *comid])

    def _relative(self, near: Floats, far: Floats, weight: float, squares: Floats, sizes: Floats) -> None:
        warming_up = self._scales.warming_up
        if warming_up:
            self._scales.update(near)
            self._scales.update(far)
        roots, factor = self._scales.inverse_roots, self._scales.factor
        fixed = np.array([self._fixed_squares(near, roots), self._fixed_squares(far, roots)])
        comid = []
        shrink = min(self._scales.length_limit(near), self._scales.length_limit(far))
        a, b = shrink * factor * near, shrink * factor * far
        floor = COMID_FLOOR * factor**2 * float(near @ near - far @ far) / len(near)
        for learner in self._comid:
            comid.append((learner.square(a) - learner.square(b)) / shrink**2 + floor)
            learner.learn_relative(a, b, weight)
        if self._moments is not None:
            self._moments.learn(near * roots, self._scales.ratios, 1.0, weight)
            self._moments.learn(far * roots, self._scales.ratios, -1.0, weight)
        if not warming_up:
            self._scales.update(near)
            self._scales.update(far)
        n_distances = fixed.shape[1] + len(comid)
        squares[:n_distances] = [*(fixed[0] - fixed[1]), *comid]
        # COMID learners start with a mean distance of 1.
        sizes[:n_distances] = [*fixed.mean(axis=0), *(1.0 + np.abs(comid))]

    def _fixed_squares(self, x: Floats, roots: Floats) -> list[float]:
        """Return the squared length of x by the priors and the windows."""
        standardized = x * roots
        squares = [float(x @ x), float(standardized @ standardized)]
        if self._moments is not None:
            matrices = self._moments.matrices(self._scales.ratios)
            squares += np.einsum("i,kij,j->k", standardized, matrices, standardized).tolist()
        return squares

    def restart_windows(self, U: Floats, weights: Floats) -> Floats:
        """Let all windows but the shortest begin again with these differences of similar pairs.

        Returns the mean squared distance by each window.
        """
        assert self._moments is not None  # there are windows
        return self._moments.restart(U * self._scales.inverse_roots, weights, self._scales.ratios)

    def metrics(self) -> list[Metric]:
        """Return the metric of each squared distance."""
        roots, factor = self._scales.inverse_roots, self._scales.factor
        n = len(roots)
        if self._moments is None:
            metrics = [diagonal_metric(np.ones(n)), diagonal_metric(roots**2)]
            for learner in self._comid:
                differences, base = factor**2 * (learner.eigenvalues - learner.base), learner.base + COMID_FLOOR / n
                metrics.append(Metric.low_rank(factor**2 * base, learner.directions, differences, 0.0))
            return metrics
        matrices = [
            np.eye(n),
            np.diag(roots**2),
            *(self._moments.matrices(self._scales.ratios) * np.outer(roots, roots)),
        ]
        for learner in self._comid:
            rows = learner.directions
            matrix = (learner.base + COMID_FLOOR / n) * np.eye(n) + rows.T @ (
                (learner.eigenvalues - learner.base)[:, None] * rows
            )
            matrices.append(factor**2 * matrix)
        return [Metric.from_trusted_matrix((A + A.T) / 2.0, 0.0) for A in matrices]

    def combine(self, coefficients: Floats) -> Metric:
        """Return the weighted sum of the metrics."""
        return Metric.weighted_sum(self.metrics(), coefficients, 0.0, 0)

    def squared_lengths(self, metric: PointMetric, U: Any, t: int) -> Floats:
        """Return the squared length of each row, a difference of round t, t + 1, ..., by a stored metric."""
        return squared_lengths(metric, U, t)

    def relative_change(self, metric: PointMetric, before: PointMetric) -> float:
        """Return how far a metric has moved; see ``Metric.relative_change``."""
        return relative_change(metric, before, self.mean_squares)

    @property
    def sums_of_squares(self) -> Floats:
        """The discounted sum of the squared differences of each feature; 0 for one that never differed."""
        return self._scales.sums_of_squares

    @property
    def mean_squares(self) -> Floats:
        """The mean square of each feature."""
        return np.asarray(self._scales.inverse_roots**-2.0)


def diagonal_metric(weights: Floats) -> Metric:
    """Return the metric that weighs each feature."""
    return Metric.low_rank(weights, np.zeros((0, len(weights))), np.zeros(0), 0.0)
