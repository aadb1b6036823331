"""ITML: the metric nearest to a given one among those that keep similar pairs near and dissimilar pairs far.

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
from ocelad.lab.baselines.logdet import rank_one_update
from ocelad.metric import Metric
from ocelad.pairs import subtract

# Points whose squared distance is below this share of the largest one are equal up to rounding.
_EQUAL_SHARE = 1e-20


@dataclass(frozen=True)
class Itml:
    """The metric nearest to Euclidean distance in LogDet divergence that satisfies two bounds, with slack.

    It solves the paper's problem by its Algorithm 1, cyclic projections onto the bound of one pair after the other::

        minimise  D(M, I) + gamma D(diag(xi), diag(xi_0))
        subject to  u'Mu <= xi of a similar pair,  u'Mu >= xi of a dissimilar one

    xi_0 is ``similar_bound`` for similar pairs and ``dissimilar_bound`` for dissimilar ones, both squared distances.

    Parameters
    ----------
    gamma : float
        The weight of the bounds; the larger, the less slack.
    similar_bound, dissimilar_bound : float or None
        The bounds, the first below the second. None: the 5th and the 95th percentile of the squared distances of the
        pairs, as in the paper.
    tolerance : float
        It stops if a sweep over all pairs changes the dual variables by less than this share.
    max_sweeps : int
        The maximum number of sweeps.
    n_pairs : int or None
        From labelled points: the number of random pairs, half of them similar in expectation. None: 20 c^2 for c
        classes, as in the paper.
    seed : int
        The seed of these pairs.

    Examples
    --------
    >>> X, Z = [[0.0, 0.0], [0.0, 0.0]], [[2.0, 0.0], [0.0, 1.0]]
    >>> metric = Itml(gamma=1e9, similar_bound=1.0, dissimilar_bound=3.0).fit_pairs(X, Z, [1, -1])
    >>> metric.diagonal.round(6)
    array([0.25, 3.  ])

    Notes
    -----
    Step 3.4 of Algorithm 1 is exact as printed only for gamma = 1. Here it is the one that follows from the other steps
    for any gamma: ``alpha = min(lambda, delta gamma / (gamma + 1) (1 / p - 1 / xi))``. Pairs of equal points, which no
    metric can change, are ignored. The percentiles are those of the training pairs.
    """

    gamma: float = 1.0
    similar_bound: float | None = None
    dissimilar_bound: float | None = None
    tolerance: float = 1e-3
    max_sweeps: int = 100
    n_pairs: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        check_number(self.gamma, "gamma", above=0)
        for name in ("similar_bound", "dissimilar_bound"):
            if getattr(self, name) is not None:
                check_number(getattr(self, name), name, above=0)
        similar, dissimilar = self.similar_bound, self.dissimilar_bound
        if similar is not None and dissimilar is not None and similar >= dissimilar:
            raise ValueError(f"similar_bound must be below dissimilar_bound; got {similar:g} and {dissimilar:g}")
        check_number(self.tolerance, "tolerance", above=0)
        check_integer(self.max_sweeps, "max_sweeps", at_least=1)
        if self.n_pairs is not None:
            check_integer(self.n_pairs, "n_pairs", at_least=2)
        check_integer(self.seed, "seed", at_least=0)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """Return the metric learned from random pairs of the rows of X, which are similar if their labels are equal."""
        rows, classes = batch.check_labelled_points(X, labels)
        count = 20 * (int(classes.max()) + 1) ** 2 if self.n_pairs is None else self.n_pairs
        first, second, y = batch.draw_balanced_pairs(classes, count, self.seed)
        return self.fit_pairs(rows[first], rows[second], y)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """Return the metric learned from the pairs (X[i], Z[i]) with the labels y."""
        rows, others, y = batch.check_pairs(X, Z, y)
        U = subtract(rows, others)
        return batch.calibrate_on_pairs(self.solve(U, y).metric, U, y)

    def solve(self, U: Floats, y: Floats) -> ItmlSolution:
        """Run Algorithm 1 on differences and their labels."""
        batch.require_both_labels(y, "ITML")
        lengths = np.einsum("ij,ij->i", U, U)
        distinct = lengths > max(_EQUAL_SHARE * lengths.max(), np.finfo(np.float64).tiny)
        if not distinct.any():
            raise FitError("the points of every pair are equal; ITML needs a pair of points that differ")
        U, y = U[distinct], y[distinct]
        similar, dissimilar = self._initial_bounds(lengths[distinct])
        bounds = np.where(y > 0, similar, dissimilar)
        M, multipliers = np.eye(U.shape[1]), np.zeros(len(U))
        changes: list[float] = []
        while len(changes) < self.max_sweeps and (not changes or changes[-1] > self.tolerance):
            before = multipliers.copy()
            M = self._sweep(M, U, y, bounds, multipliers)
            total = float(np.abs(multipliers).sum())
            changes.append(float(np.abs(multipliers - before).sum()) / total if total else 0.0)
        return ItmlSolution(Metric.from_trusted_matrix(M, 1.0), multipliers, bounds, tuple(changes))

    def _initial_bounds(self, lengths: Floats) -> tuple[float, float]:
        similar = float(np.percentile(lengths, 5)) if self.similar_bound is None else self.similar_bound
        dissimilar = float(np.percentile(lengths, 95)) if self.dissimilar_bound is None else self.dissimilar_bound
        if similar >= dissimilar:
            raise FitError(
                f"the bound of similar pairs is {similar:g} and that of dissimilar pairs {dissimilar:g}; "
                "ITML needs a lower bound for similar pairs"
            )
        return similar, dissimilar

    def _sweep(self, M: Floats, U: Floats, y: Floats, bounds: Floats, multipliers: Floats) -> Floats:
        """Apply the steps 3.1 to 3.8 to every pair; ``bounds`` (xi) and ``multipliers`` (lambda) change in place."""
        share = self.gamma / (self.gamma + 1.0)
        for i, (u, delta) in enumerate(zip(U, y.tolist(), strict=True)):
            p, xi = float(u @ M @ u), float(bounds[i])
            if not 0.0 < p < np.inf:
                raise FitError("no finite metric satisfies the bounds; ITML needs a smaller gamma")
            alpha = min(float(multipliers[i]), delta * share * (1.0 / p - 1.0 / xi))
            if alpha == 0.0:
                continue
            bounds[i] = self.gamma * xi / (self.gamma + delta * alpha * xi)
            multipliers[i] -= alpha
            M = rank_one_update(M, u, delta * alpha / (1.0 - delta * alpha * p))
        return M


class ItmlSolution(NamedTuple):
    """The metric, lambda and xi of each pair, and the relative change of lambda in each sweep."""

    metric: Metric
    multipliers: Floats
    bounds: Floats
    changes: tuple[float, ...]
