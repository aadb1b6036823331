"""MMC: maximise the distances of dissimilar pairs within a bound on those of similar pairs.

Xing, Ng, Jordan and Russell, "Distance metric learning, with application to clustering with side-information", NIPS
2002.
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
# Smaller differences count as 0, because their squares underflow and the inverse squares overflow.
_MIN_DIFFERENCE = 1e-140
# The Armijo constant: a step must gain at least this share of the gain that its slope predicts.
_ARMIJO = 1e-4
_MAX_HALVINGS = 60


@dataclass(frozen=True)
class Mmc:
    """The metric that maximises the distances of dissimilar pairs within a bound on those of similar pairs.

    Equations (6) to (8) of the paper, with d the distance by M, and S and D the similar and the dissimilar pairs::

        maximise  g(M) = sum over D of d   subject to   sum over S of d^2 <= 1,  M positive semidefinite

    With ``diagonal`` M has one weight per feature, and the objective of section 2.1 is minimised, which has the same
    solution up to a factor::

        sum over S of d^2 - log(sum over D of d)

    Parameters
    ----------
    diagonal : bool
    tolerance : float
        It stops if g is within this share of the maximum, by an upper bound for all M; with ``diagonal``, if a Newton
        step would gain less than this.
    max_iter : int
        The maximum number of iterations.
    n_pairs : int
        From labelled points: the number of random pairs, half of them similar in expectation.
    seed : int
        The seed of these pairs.

    Examples
    --------
    >>> X, Z = [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]]
    >>> metric = Mmc().fit_pairs(X, Z, [1, 1, -1])
    >>> metric.matrix.round(4)
    array([[0.9  , 0.15 ],
           [0.15 , 0.025]])

    Notes
    -----
    The paper alternates gradient steps with projections onto the two constraints until both hold. Here the points are
    first mapped so that ``sum uu'`` over the similar pairs is the identity. The constraint then bounds the trace of M,
    and the projection onto both constraints is exact (that of the eigenvalues onto a simplex). Steps that do not gain
    are halved. The maximum is the same. It does not exist if dissimilar pairs differ in a direction in which no similar
    pairs do. With ``diagonal``, weights at 0 that would decrease are excluded from the Newton step (Bertsekas,
    "Projected Newton methods for optimization problems with simple constraints", 1982); the paper only shortens the
    step.
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
        """Return the metric learned from random pairs of the rows of X, which are similar if their labels are equal."""
        rows, classes = batch.check_labelled_points(X, labels)
        first, second, y = batch.draw_balanced_pairs(classes, self.n_pairs, self.seed)
        return self.fit_pairs(rows[first], rows[second], y)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """Return the metric learned from the pairs (X[i], Z[i]) with the labels y."""
        rows, others, y = batch.check_pairs(X, Z, y)
        batch.require_both_labels(y, "MMC")
        U = subtract(rows, others)
        return batch.calibrate_on_pairs(self.solve(U[y > 0], U[y < 0]).metric, U, y)

    def solve(self, similar: Floats, dissimilar: Floats) -> Solution:
        """Return the metric with ``sum over S of d^2 = 1`` for the differences of similar and of dissimilar pairs.

        The history holds g, or with ``diagonal`` the objective of section 2.1, before each iteration.
        """
        smallest = min(np.abs(similar).max(), np.abs(dissimilar).max())
        if smallest < _MIN_DIFFERENCE:
            raise FitError(
                "the points of all similar, or of all dissimilar, pairs are equal; MMC needs some that differ"
            )
        return (self._diagonal if self.diagonal else self._full)(similar, dissimilar)

    def _full(self, similar: Floats, dissimilar: Floats) -> Solution:
        values, vectors = np.linalg.eigh(similar.T @ similar)
        bounded = values > len(values) * _EPS * values[-1]
        if np.abs(dissimilar @ vectors[:, ~bounded]).max(initial=0.0) > 1e-9 * np.abs(dissimilar).max():
            raise FitError(
                "dissimilar pairs differ in directions in which no similar pairs do, so nothing bounds the metric "
                "there; MMC needs more similar pairs"
            )
        # Whitening makes the sum of uu' over the similar pairs the identity.
        white = vectors.T[bounded] / np.sqrt(values[bounded])[:, None]
        V = dissimilar @ white.T
        B = np.eye(len(white)) / len(white)
        history, step = [], 1.0
        value, gradient, bound = _full_objective(V, B)
        for _ in range(self.max_iter):
            history.append(value)
            if bound <= (1.0 + self.tolerance) * value:
                break
            found = _ascent_step(V, B, value, gradient, step)
            if found is None:
                break
            B, step = found
            value, gradient, bound = _full_objective(V, B)
        eigenvalues, rotation = np.linalg.eigh(B)
        L = (rotation * np.sqrt(np.maximum(eigenvalues, 0.0))).T @ white
        return Solution(batch.metric_from_factors(L, "MMC"), tuple(history))

    def _diagonal(self, similar: Floats, dissimilar: Floats) -> Solution:
        s, W = np.square(similar).sum(axis=0), np.square(dissimilar)
        bounded = s > 0.0
        if W[:, ~bounded].any():
            feature = int(np.flatnonzero(~bounded & W.any(axis=0))[0])
            raise FitError(f"no similar pair differs in feature {feature}, so nothing bounds its weight; MMC needs one")
        W = W[:, bounded] / s[bounded]  # scaled so that the squares of the similar pairs sum to 1 in each feature
        a = np.full(W.shape[1], 1.0 / W.shape[1])
        history = []
        for _ in range(self.max_iter):
            value, gradient, hessian = _diagonal_objective(W, a)
            history.append(value)
            free = (a > 0.0) | (gradient < 0.0)
            direction = np.zeros_like(a)
            ridge = _EPS * np.trace(hessian) * np.eye(int(free.sum()))
            direction[free] = -np.linalg.solve(hessian[np.ix_(free, free)] + ridge, gradient[free])
            if -gradient @ direction <= 2.0 * self.tolerance:
                break
            found = _descent_step(W, a, value, gradient, direction)
            if found is None:
                break
            a = found
        weights = np.zeros(len(s))
        weights[bounded] = a / (s[bounded] * a.sum())
        return Solution(Metric.from_diagonal(weights), tuple(history))


def _full_objective(V: Floats, B: Floats) -> tuple[float, Floats, float]:
    """Return ``g(B)``, its gradient, and an upper bound of g over all positive semidefinite matrices of trace 1.

    g is concave, so ``g(C) <= g(B) + <G, C - B>``, which is largest if C is along the first eigenvector of G.
    """
    lengths = np.sqrt(np.maximum(np.einsum("ij,ij->i", V @ B, V), 0.0))
    value = float(lengths.sum())
    # A pair of distance 0 would have an infinite slope.
    G = (V / np.maximum(lengths, 1e-12 * lengths.max())[:, None]).T @ V / 2.0
    return value, G, value + float(np.linalg.eigvalsh(G)[-1]) - float(np.sum(G * B))


def _ascent_step(V: Floats, B: Floats, value: float, gradient: Floats, step: float) -> tuple[Floats, float] | None:
    """Return a projected gradient step that gains, halved until it does, and the step length to try next.

    None: the remaining gain is below rounding.
    """
    length = step
    for _ in range(_MAX_HALVINGS):
        candidate = _project_spectrahedron(B + (length / float(np.linalg.norm(gradient))) * gradient)
        if _full_objective(V, candidate)[0] >= value + _ARMIJO * float(np.sum(gradient * (candidate - B))):
            return candidate, 2.0 * length
        length /= 2.0
    return None


def _descent_step(W: Floats, a: Floats, value: float, gradient: Floats, direction: Floats) -> Floats | None:
    """Return a Newton step of the diagonal problem, clipped at 0 and halved until it gains, or None."""
    share = 1.0
    for _ in range(_MAX_HALVINGS):
        candidate = np.maximum(a + share * direction, 0.0)
        if (W @ candidate).any() and _diagonal_objective(W, candidate)[0] <= value + _ARMIJO * float(
            gradient @ (candidate - a)
        ):
            return candidate
        share /= 2.0
    return None


def _project_spectrahedron(A: Floats) -> Floats:
    """Return the nearest positive semidefinite matrix of trace 1.

    >>> _project_spectrahedron(np.diag([3.0, 2.5, -1.0])).round(6)
    array([[0.75, 0.  , 0.  ],
           [0.  , 0.25, 0.  ],
           [0.  , 0.  , 0.  ]])
    """
    values, vectors = np.linalg.eigh(A)
    descending = values[::-1]
    excess = (np.cumsum(descending) - 1.0) / np.arange(1, len(values) + 1)
    level = excess[np.flatnonzero(descending > excess)[-1]]
    return np.asarray((vectors * np.maximum(values - level, 0.0)) @ vectors.T)


def _diagonal_objective(W: Floats, a: Floats) -> tuple[float, Floats, Floats]:
    """Return ``sum(a) - log(sum of sqrt(W a))``, the objective of section 2.1, with its gradient and its Hessian."""
    lengths = np.sqrt(W @ a)
    total = float(lengths.sum())
    lengths = np.maximum(lengths, 1e-8 * lengths.max())
    slope = (W / lengths[:, None]).sum(axis=0) / (2.0 * total)
    hessian = (W / (4.0 * total * lengths**3)[:, None]).T @ W + np.outer(slope, slope)
    return float(a.sum()) - float(np.log(total)), 1.0 - slope, hessian
