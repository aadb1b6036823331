"""MMC: dissimilar points as far apart as can be, while similar ones stay within a bound.

Xing, Ng, Jordan and Russell, "Distance metric learning, with application to clustering with side-information",
NIPS 2002.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer, check_number
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.batch import FitError, Solution
from ocelad.metric import Metric
from ocelad.pairs import subtract

_EPS = float(np.finfo(np.float64).eps)
# Differences below this are none: their squares, and one over these, are near the ends of float64.
_TINY = 1e-140
# Armijo's constant: a step is taken when it gains at least this share of what its slope promises.
_ENOUGH = 1e-4
_MOST_HALVINGS = 60


@dataclass(frozen=True)
class Mmc:
    """The metric that maximises the distances of dissimilar pairs within a bound on those of similar pairs.

    Equations (6) to (8) of the paper, d the distance by M and S, D the similar and the dissimilar pairs::

        maximise  g(M) = sum over D of d   subject to   sum over S of d^2 <= 1,  M positive semidefinite

    With ``diagonal`` M has one weight per feature, and what is minimised is the objective of section 2.1, with the same
    solution up to a factor::

        sum over S of d^2 - log(sum over D of d)

    Parameters
    ----------
    diagonal : bool
    tolerance : float
        It stops where g is within this share of the maximum (by a bound that holds for every M), or with ``diagonal``
        where a Newton step would gain less than this.
    max_iter : int
        At most so many iterations.
    n_pairs : int
        From labelled points: so many pairs are drawn, half of them similar.
    seed : int
        Of that draw.

    Examples
    --------
    >>> X, Z = [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]]
    >>> metric = Mmc().fit_pairs(X, Z, [1, 1, -1])
    >>> metric.matrix.round(4)
    array([[0.9  , 0.15 ],
           [0.15 , 0.025]])

    Notes
    -----
    The paper takes gradient steps, each followed by projections onto the two constraints in turn until both hold. Here
    the points are mapped first so that the similar pairs' ``sum uu'`` is the identity. The bound is then one on the
    trace of M, the projection onto both constraints at once is exact (that of the eigenvalues onto a simplex), and
    steps that do not gain are halved. The maximum is the same. There is none where dissimilar pairs differ in a
    direction in which no similar ones do. Of the diagonal, weights at 0 that would fall further are left out of the
    Newton step (Bertsekas, "Projected Newton methods for optimization problems with simple constraints", 1982); the
    paper only shortens it.
    """

    diagonal: bool = False
    tolerance: float = 1e-6
    max_iter: int = 500
    n_pairs: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.diagonal, "diagonal", (True, False))
        check_number(self.tolerance, "tolerance", above=0)
        check_integer(self.max_iter, "max_iter", at_least=1)
        check_integer(self.n_pairs, "n_pairs", at_least=2)
        check_integer(self.seed, "seed", at_least=0)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric learned from pairs drawn of the rows of X, similar where their labels are equal."""
        rows, classes = batch.labelled(X, labels)
        first, second, kinds = batch.drawn_pairs(classes, self.n_pairs, self.seed)
        return self.fit_pairs(rows[first], rows[second], kinds)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """The metric learned from the rows of X against the rows of Z."""
        rows, others, kinds = batch.paired(X, Z, y)
        batch.both_kinds(kinds, "MMC")
        U = subtract(rows, others)
        return batch.of_pairs(self.solve(U[kinds > 0], U[kinds < 0]).metric, U, kinds)

    def solve(self, similar: Floats, dissimilar: Floats) -> Solution:
        """The metric of the differences of similar and of dissimilar pairs, at which ``sum over S of d^2 = 1``.

        Its history is of g, or with ``diagonal`` that of section 2.1, before each iteration.
        """
        smallest = min(np.abs(similar).max(), np.abs(dissimilar).max())
        if smallest < _TINY:
            raise FitError("the points of all similar or of all dissimilar pairs are equal; MMC needs some that differ")
        return (self._diagonal if self.diagonal else self._full)(similar, dissimilar)

    def _full(self, similar: Floats, dissimilar: Floats) -> Solution:
        values, vectors = np.linalg.eigh(similar.T @ similar)
        held = values > len(values) * _EPS * max(values[-1], 0.0)
        if np.abs(dissimilar @ vectors[:, ~held]).max(initial=0.0) > 1e-9 * np.abs(dissimilar).max():
            raise FitError(
                "dissimilar pairs differ in directions in which no similar ones do, so that nothing bounds the metric "
                "there; MMC needs more similar pairs"
            )
        white = vectors.T[held] / np.sqrt(values[held])[:, None]  # after it the similar pairs have sum uu' = I
        V = dissimilar @ white.T
        B = np.eye(len(white)) / len(white)
        history, step = [], 1.0
        value, gradient, bound = _distances(V, B)
        for _ in range(self.max_iter):
            history.append(value)
            if bound <= (1.0 + self.tolerance) * value:
                break
            found = _uphill(V, B, value, gradient, step)
            if found is None:
                break
            B, step = found
            value, gradient, bound = _distances(V, B)
        eigenvalues, round_state = np.linalg.eigh(B)
        L = (round_state * np.sqrt(np.maximum(eigenvalues, 0.0))).T @ white
        return Solution(batch.of_factors(L, "MMC"), tuple(history))

    def _diagonal(self, similar: Floats, dissimilar: Floats) -> Solution:
        s, W = np.square(similar).sum(axis=0), np.square(dissimilar)
        held = s > 0.0
        if W[:, ~held].any():
            feature = int(np.flatnonzero(~held & W.any(axis=0))[0])
            raise FitError(f"no similar pairs differ in feature {feature}, so that nothing bounds it; MMC needs some")
        W = W[:, held] / s[held]  # in units in which the similar pairs' squares add up to 1 in each feature
        a = np.full(W.shape[1], 1.0 / W.shape[1])
        history = []
        for _ in range(self.max_iter):
            value, gradient, hessian = _logarithmic(W, a)
            history.append(value)
            free = (a > 0.0) | (gradient < 0.0)
            direction = np.zeros_like(a)
            ridge = _EPS * np.trace(hessian) * np.eye(int(free.sum()))
            direction[free] = -np.linalg.solve(hessian[np.ix_(free, free)] + ridge, gradient[free])
            if -gradient @ direction <= 2.0 * self.tolerance:
                break
            found = _downhill(W, a, value, gradient, direction)
            if found is None:
                break
            a = found
        weights = np.zeros(len(s))
        weights[held] = a / (s[held] * a.sum())
        return Solution(Metric.from_diagonal(weights), tuple(history))


def _distances(V: Floats, B: Floats) -> tuple[float, Floats, float]:
    """``g(B)``, its gradient, and a bound on g at any positive semidefinite matrix of trace 1.

    g is concave, so that ``g(C) <= g(B) + <G, C - B>``, which is largest where C is along G's first eigenvector.
    """
    lengths = np.sqrt(np.maximum(np.einsum("ij,ij->i", V @ B, V), 0.0))
    value = float(lengths.sum())
    # A pair that B puts in one place would have an infinite slope.
    G = (V / np.maximum(lengths, 1e-12 * lengths.max())[:, None]).T @ V / 2.0
    return value, G, value + float(np.linalg.eigvalsh(G)[-1]) - float(np.sum(G * B))


def _uphill(V: Floats, B: Floats, value: float, gradient: Floats, step: float) -> tuple[Floats, float] | None:
    """A projected gradient step that gains, halved until it does, and the length to try next.

    None: what is left to gain is less than rounding.
    """
    length = step
    for _ in range(_MOST_HALVINGS):
        nearby = _on_spectrahedron(B + (length / float(np.linalg.norm(gradient))) * gradient)
        if _distances(V, nearby)[0] >= value + _ENOUGH * float(np.sum(gradient * (nearby - B))):
            return nearby, 2.0 * length
        length /= 2.0
    return None


def _downhill(W: Floats, a: Floats, value: float, gradient: Floats, direction: Floats) -> Floats | None:
    """The same for a Newton step of the diagonal, cut off at 0."""
    share = 1.0
    for _ in range(_MOST_HALVINGS):
        nearby = np.maximum(a + share * direction, 0.0)
        if (W @ nearby).any() and _logarithmic(W, nearby)[0] <= value + _ENOUGH * float(gradient @ (nearby - a)):
            return nearby
        share /= 2.0
    return None


def _on_spectrahedron(A: Floats) -> Floats:
    """The nearest positive semidefinite matrix of trace 1.

    >>> _on_spectrahedron(np.diag([3.0, 2.5, -1.0])).round(6)
    array([[0.75, 0.  , 0.  ],
           [0.  , 0.25, 0.  ],
           [0.  , 0.  , 0.  ]])
    """
    values, vectors = np.linalg.eigh(A)
    descending = values[::-1]
    excess = (np.cumsum(descending) - 1.0) / np.arange(1, len(values) + 1)
    level = excess[np.flatnonzero(descending > excess)[-1]]
    return np.asarray((vectors * np.maximum(values - level, 0.0)) @ vectors.T)


def _logarithmic(W: Floats, a: Floats) -> tuple[float, Floats, Floats]:
    """``sum(a) - log(sum of sqrt(W a))``, the objective of section 2.1, its gradient and its Hessian."""
    lengths = np.sqrt(W @ a)
    total = float(lengths.sum())
    lengths = np.maximum(lengths, 1e-8 * lengths.max())
    slope = (W / lengths[:, None]).sum(axis=0) / (2.0 * total)
    hessian = (W / (4.0 * total * lengths**3)[:, None]).T @ W + np.outer(slope, slope)
    return float(a.sum()) - float(np.log(total)), 1.0 - slope, hessian
