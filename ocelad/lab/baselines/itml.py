"""ITML: of all metrics that keep similar pairs near and dissimilar ones far, the nearest to a given one.

Davis, Kulis, Jain, Sra and Dhillon, "Information-theoretic metric learning", ICML 2007.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer, check_number
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.batch import FitError
from ocelad.lab.baselines.logdet import stretched
from ocelad.metric import Metric
from ocelad.pairs import subtract

# Points whose squared distance is this far below the largest one are equal but for rounding.
_EQUAL = 1e-20


@dataclass(frozen=True)
class Itml:
    """The metric nearest to Euclidean distance in LogDet divergence that keeps to two bounds, with slack.

    The paper's problem, solved by its algorithm 1, projections onto one pair's bound after the other::

        minimise  D(M, I) + gamma D(diag(xi), diag(xi_0))
        subject to  u'Mu <= xi of a similar pair,  u'Mu >= xi of a dissimilar one

    xi_0 is ``near`` for similar pairs and ``far`` for dissimilar ones, both squared distances.

    Parameters
    ----------
    gamma : float
        How much a bound weighs; the larger, the less slack.
    near, far : float or None
        The bounds, near below far. None: the 5th and the 95th percentile of the pairs' squared distances (the paper's).
    tolerance : float
        It stops where a sweep over all pairs changes the dual variables by less than this share.
    max_sweeps : int
        At most so many sweeps.
    n_pairs : int or None
        From labelled points: so many pairs are drawn, half of them similar. None: 20 c^2 for c classes (the paper's).
    seed : int
        Of that draw.

    Examples
    --------
    >>> X, Z = [[0.0, 0.0], [0.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]]
    >>> metric = Itml(gamma=1e9, near=1.0, far=3.0).fit_pairs(X, Z, [1, -1])
    >>> metric.diagonal.round(6)
    array([0.25, 3.  ])

    Notes
    -----
    Step 3.4 of algorithm 1 is exact as printed only for gamma = 1. Here it is the one that follows from the other steps
    for any gamma: ``alpha = min(lambda, delta gamma / (gamma + 1) (1 / p - 1 / xi))``. Pairs of equal points, which no
    metric can move, are left out. The percentiles are of the pairs that it learns from.
    """

    gamma: float = 1.0
    near: float | None = None
    far: float | None = None
    tolerance: float = 1e-3
    max_sweeps: int = 100
    n_pairs: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_number(self.gamma, "gamma", above=0)
        for name in ("near", "far"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, above=0)
        if self.near is not None and self.far is not None and self.near >= self.far:
            raise ValueError(f"near must be below far; got near {self.near:g} and far {self.far:g}")
        check_number(self.tolerance, "tolerance", above=0)
        check_integer(self.max_sweeps, "max_sweeps", at_least=1)
        if self.n_pairs is not None:
            check_integer(self.n_pairs, "n_pairs", at_least=2)
        check_integer(self.seed, "seed", at_least=0)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric learned from pairs drawn of the rows of X, similar where their labels are equal."""
        rows, classes = batch.labelled(X, labels)
        count = 20 * (int(classes.max()) + 1) ** 2 if self.n_pairs is None else self.n_pairs
        first, second, kinds = batch.drawn_pairs(classes, count, self.seed)
        return self.fit_pairs(rows[first], rows[second], kinds)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """The metric learned from the rows of X against the rows of Z."""
        rows, others, kinds = batch.paired(X, Z, y)
        U = subtract(rows, others)
        return batch.of_pairs(self.solve(U, kinds).metric, U, kinds)

    def solve(self, U: Floats, y: Floats) -> Projected:
        """Algorithm 1 on differences and their labels."""
        batch.both_kinds(y, "ITML")
        lengths = np.einsum("ij,ij->i", U, U)
        apart = lengths > max(_EQUAL * lengths.max(), np.finfo(np.float64).tiny)
        if not apart.any():
            raise FitError("the points of every pair are equal; ITML needs some that differ")
        U, y = U[apart], y[apart]
        near, far = self._bounds(lengths[apart])
        bounds = np.where(y > 0, near, far)
        M, multipliers = np.eye(U.shape[1]), np.zeros(len(U))
        changes: list[float] = []
        while len(changes) < self.max_sweeps and (not changes or changes[-1] > self.tolerance):
            before = multipliers.copy()
            M = self._sweep(M, U, y, bounds, multipliers)
            total = float(np.abs(multipliers).sum())
            changes.append(float(np.abs(multipliers - before).sum()) / total if total else 0.0)
        return Projected(Metric.trusted(M, 1.0), multipliers, bounds, tuple(changes))

    def _bounds(self, lengths: Floats) -> tuple[float, float]:
        near = float(np.percentile(lengths, 5)) if self.near is None else self.near
        far = float(np.percentile(lengths, 95)) if self.far is None else self.far
        if near >= far:
            raise FitError(
                f"the bound of similar pairs is {near:g} and that of dissimilar ones {far:g}; near must be below far"
            )
        return near, far

    def _sweep(self, M: Floats, U: Floats, y: Floats, bounds: Floats, multipliers: Floats) -> Floats:
        """Steps 3.1 to 3.8 for every pair; ``bounds`` (xi) and ``multipliers`` (lambda) change in place."""
        share = self.gamma / (self.gamma + 1.0)
        for i, (u, delta) in enumerate(zip(U, y.tolist(), strict=True)):
            p, xi = float(u @ M @ u), float(bounds[i])
            if not 0.0 < p < np.inf:
                raise FitError("no metric that float64 can hold keeps to the bounds; ITML needs a smaller gamma")
            alpha = min(float(multipliers[i]), delta * share * (1.0 / p - 1.0 / xi))
            if alpha == 0.0:
                continue
            bounds[i] = self.gamma * xi / (self.gamma + delta * alpha * xi)
            multipliers[i] -= alpha
            M = stretched(M, u, delta * alpha / (1.0 - delta * alpha * p))
        return M


class Projected(NamedTuple):
    """The metric, lambda and xi of each pair, and by which share each sweep changed lambda."""

    metric: Metric
    multipliers: Floats
    bounds: Floats
    changes: tuple[float, ...]
