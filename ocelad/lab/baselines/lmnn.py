"""LMNN: neighbours of a class are pulled together, and points of other classes pushed out of their neighbourhood.

Weinberger and Saul, "Distance metric learning for large margin nearest neighbor classification", JMLR 10 (2009).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from ocelad._typing import Floats
from ocelad._validation import check_integer, check_number
from ocelad.evaluation.scores.labelled import sized
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.batch import Solution, Whole
from ocelad.lab.baselines.descent import descend
from ocelad.metric import Metric
from ocelad.pairs import subtract

# So many rows of inner products are made at a time: they fit into a core's cache.
_BLOCK = 64
# It stops where five steps gained less than this share of the objective.
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Lmnn:
    """The metric in which k neighbours of the same class are nearer than any point of another class, by a margin of 1.

    It minimises equation (13) of the paper over positive semidefinite M, with d2 the squared distance by M::

        (1 - mu) sum over i, j of d2(i, j)  +  mu sum over i, j, l of max(0, 1 + d2(i, j) - d2(i, l))

    j are the *target neighbours* of i, the k points of its class nearest to it by Euclidean distance, and l all
    points of other classes; those within the margin are *impostors*.

    Parameters
    ----------
    k : int
        How many target neighbours a point has; all of its class, where that is smaller.
    weight : float
        mu, between 0 and 1: how much pushing counts beside pulling.
    max_iter : int
        At most so many iterations.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [0.0, 4.0], [1.0, 1.0], [1.0, 5.0]])
    >>> metric = Lmnn(k=1).fit_points(X, ["a", "a", "b", "b"])
    >>> metric.similar(X[0], X[1]), metric.similar(X[0], X[2])
    (True, False)

    Notes
    -----
    The problem is convex in M. It is solved in the factor L with ``M = L'L``, a square one, which has no other local
    minimum (a metric near M has a factor near L), by steps of L-BFGS that all fall; the paper takes projected gradient
    steps in M. (A factor of less than full rank could be a saddle point; it starts from one of full rank.)
    Impostors are looked for in every evaluation, so that none is missed; the paper keeps a list of them for some steps.
    The margin is 1 whatever the scale of the data: M makes up for it, and the result is that of scaled data, scaled.

    From pairs, the target neighbours are the similar pairs, and the impostors of a point are those that it is
    dissimilar to. Points are the same where all their features are. Where fewer than half of the similar pairs have a
    point in common with a dissimilar one, every dissimilar pair stands against every similar one, each with the weight
    1 / (how many dissimilar ones there are). k has no meaning there.
    """

    k: int = 3
    weight: float = 0.5
    max_iter: int = 100

    def __post_init__(self) -> None:
        check_integer(self.k, "k", at_least=1)
        if check_number(self.weight, "weight", above=0) >= 1:
            raise ValueError(f"weight must be a finite number above 0 and below 1; got {self.weight!r}")
        check_integer(self.max_iter, "max_iter", at_least=1)

    def fit_points(self, X: Any, labels: Any) -> Metric:
        """The metric learned from the rows of X and one label each."""
        rows, classes = batch.labelled(X, labels)
        return batch.of_points(self.solve(points_problem(rows, classes, self.k)).metric, rows, classes)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """The metric learned from the rows of X against the rows of Z."""
        rows, others, kinds = batch.paired(X, Z, y)
        solution = self.solve(pairs_problem(rows, others, kinds))
        return batch.of_pairs(solution.metric, subtract(rows, others), kinds)

    def solve(self, problem: Problem) -> Solution:
        """Minimise the objective from a multiple of Euclidean distance; the history is of the start and every step."""
        n, scale = problem.n_features, problem.scale

        def evaluate(flat: Floats) -> tuple[float, Floats]:
            L = flat.reshape(n, n) / scale
            value, gradient = problem.evaluate(L.T @ L, self.weight)
            return value, (2.0 / scale) * (L @ gradient).ravel()

        x, history = descend(evaluate, np.eye(n).ravel(), max_iter=self.max_iter, tolerance=_TOLERANCE)
        return Solution(batch.of_factors(x.reshape(n, n) / scale, "LMNN"), history)


class Problem(Protocol):
    """Targets to be pulled and impostors to be pushed; the objective is a function of M and the weight."""

    n_features: int
    scale: float

    def evaluate(self, M: Floats, weight: float) -> tuple[float, Floats]:
        """The objective, and its gradient."""
        ...


def points_problem(X: Floats, classes: Whole, k: int) -> Problem:
    """Labelled points: targets by Euclidean distance, impostors among all other classes."""
    batch.both_alike_and_not(classes, "LMNN")
    order = np.argsort(classes, kind="stable")
    rows = X[order] - X.mean(axis=0)
    ends = np.cumsum(np.bincount(classes))
    first, second = _targets(rows, ends, k)
    return _Points(rows, ends, first, second)


def _targets(rows: Floats, ends: Whole, k: int) -> tuple[Whole, Whole]:
    """Of each point the k nearest of its class: two arrays of indices, in the order of the first."""
    from ocelad.evaluation.scores.kernels.blocks import packed  # imports numba
    from ocelad.evaluation.scores.kernels.neighbors import nearest

    firsts, seconds = [], []
    for start, end in zip(ends - np.diff(ends, prepend=0), ends, strict=True):
        near = min(k, end - start - 1)
        if near == 0:
            continue
        (of_class,) = sized(rows[start:end])
        neighbors = nearest(of_class, packed(of_class), near, True)
        firsts.append(np.repeat(np.arange(start, end), near))
        seconds.append(start + neighbors.ravel())
    return np.concatenate(firsts), np.concatenate(seconds)


def _scale(U: Floats) -> float:
    """The length in one feature by which these differences are measured: the start is Euclidean distance in it."""
    with np.errstate(under="ignore"):
        square = float(np.square(U).mean())
    return float(np.sqrt(square)) if square > 0 else 1.0


class _Points:
    """Rows sorted by class, ``ends`` where each class ends; targets in the order of ``first``."""

    def __init__(self, rows: Floats, ends: Whole, first: Whole, second: Whole) -> None:
        from ocelad.lab.baselines.lmnn_kernels import push_apart  # imports numba

        self._push_apart = push_apart
        self._rows, self._differences = rows, rows[first] - rows[second]
        self._columns = np.ascontiguousarray(rows.T)
        self._target_starts = np.searchsorted(first, np.arange(len(rows) + 1))
        self._with_targets = np.unique(first)
        # Blocks of points of one class, and where the points of later classes begin: every two points meet once.
        self._blocks = [
            (slice(block, min(block + _BLOCK, end)), end)
            for start, end in zip(ends - np.diff(ends, prepend=0), ends, strict=True)
            for block in range(start, end, _BLOCK)
            if end < len(rows)
        ]
        self.n_features = rows.shape[1]
        self.scale = _scale(self._differences)

    def evaluate(self, M: Floats, weight: float) -> tuple[float, Floats]:
        rows = self._rows
        near = _squared_lengths(self._differences, M)
        reach = np.full(len(rows), -np.inf)  # of a point without targets nobody is an impostor
        reach[self._with_targets] = np.maximum.reduceat(near, self._target_starts[self._with_targets]) + 1.0
        half = rows @ M
        lengths = (half * rows).sum(axis=1)
        loss, per_target = 0.0, np.zeros(len(near))
        # The sum of w (x_i - x_l)(x_i - x_l)' is made without the differences: X'diag(w's sums)X - X'WX - X'W'X.
        sums, mixed = np.zeros(len(rows)), np.zeros_like(rows)
        for block, later in self._blocks:
            loss += self._push_apart(
                half[block] @ self._columns[:, later:],
                block.start,
                later,
                lengths[block],
                lengths[later:],
                reach[block],
                reach[later:],
                near,
                self._target_starts,
                rows,
                per_target,
                sums,
                mixed,
            )
        pull = (1.0 - weight) + weight * per_target
        cross = rows.T @ mixed
        push = (rows * sums[:, None]).T @ rows - cross - cross.T
        gradient = (self._differences * pull[:, None]).T @ self._differences - weight * push
        return float((1.0 - weight) * near.sum() + weight * loss), gradient


def _squared_lengths(U: Floats, M: Floats) -> Floats:
    return np.asarray(((U @ M) * U).sum(axis=1))


def _hinges(near: Floats, far: Floats, target: Whole, impostor: Whole) -> tuple[float, Floats, Floats]:
    """The sum of ``max(0, 1 + near - far)`` over triples, and how many are above 0 of each target and impostor."""
    hinge = 1.0 + near[target] - far[impostor]
    active = hinge > 0.0
    per_target = np.bincount(target[active], minlength=len(near)).astype(np.float64)
    per_impostor = np.bincount(impostor[active], minlength=len(far)).astype(np.float64)
    return float(hinge[active].sum()), per_target, per_impostor


def _sorted_hinges(near: Floats, far: Floats) -> tuple[float, Floats, Floats]:
    """The same for every target against every impostor, each triple divided by how many impostors there are."""
    ascending = np.sort(far)
    per_target = np.searchsorted(ascending, near + 1.0, side="left")
    per_impostor = len(near) - np.searchsorted(np.sort(near), far - 1.0, side="right")
    sums = np.concatenate([[0.0], np.cumsum(ascending)])
    loss = (per_target * (1.0 + near) - sums[per_target]).sum()
    return float(loss) / len(far), per_target / len(far), per_impostor / len(far)


def pairs_problem(X: Floats, Z: Floats, y: Floats) -> Problem:
    """Pairs: similar ones are targets; dissimilar ones impostors, of those that they share a point with, or of all."""
    batch.both_kinds(y, "LMNN")
    U = subtract(X, Z)
    _, names = np.unique(np.concatenate([X, Z]), axis=0, return_inverse=True)
    names = names.reshape(2, len(X))  # each point's number, at either end of each pair
    target, impostor = _sharing(names[:, y > 0], names[:, y < 0])
    if 2 * len(np.unique(target)) < np.count_nonzero(y > 0):
        return _Pairs(U[y > 0], U[y < 0], _sorted_hinges)
    return _Pairs(U[y > 0], U[y < 0], lambda near, far: _hinges(near, far, target, impostor))


def _sharing(similar: Whole, dissimilar: Whole) -> tuple[Whole, Whole]:
    """All similar with all dissimilar pairs that have a point in common: two arrays of indices."""
    n_points = int(max(similar.max(), dissimilar.max())) + 1
    ends = [
        csr_array(
            (np.ones(names.size), (np.tile(np.arange(names.shape[1]), 2), names.ravel())), (names.shape[1], n_points)
        )
        for names in (similar, dissimilar)
    ]
    together = (ends[0] @ ends[1].T).tocoo()
    return together.row.astype(np.intp), together.col.astype(np.intp)


class _Pairs:
    """Differences of similar pairs and of dissimilar ones, and the hinge losses between them."""

    def __init__(
        self, near: Floats, far: Floats, hinges: Callable[[Floats, Floats], tuple[float, Floats, Floats]]
    ) -> None:
        self._near, self._far, self._hinges = near, far, hinges
        self.n_features = near.shape[1]
        self.scale = _scale(near)

    def evaluate(self, M: Floats, weight: float) -> tuple[float, Floats]:
        near, far = _squared_lengths(self._near, M), _squared_lengths(self._far, M)
        loss, per_target, per_impostor = self._hinges(near, far)
        pull = (1.0 - weight) + weight * per_target
        gradient = (self._near * pull[:, None]).T @ self._near
        gradient -= weight * ((self._far * per_impostor[:, None]).T @ self._far)
        return float((1.0 - weight) * near.sum() + weight * loss), gradient
