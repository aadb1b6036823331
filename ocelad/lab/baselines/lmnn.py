"""LMNN: pull neighbours of the same class together, and push points of other classes out of the neighbourhood.

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
from ocelad.evaluation.scores.prepared_points import rescale
from ocelad.lab.baselines import batch
from ocelad.lab.baselines.batch import Indices, Solution
from ocelad.lab.baselines.lbfgs import minimize_lbfgs
from ocelad.metric import Metric
from ocelad.pairs import subtract

# The number of rows of inner products that are computed at a time; they fit into the cache of a core.
_BLOCK = 64
# It stops if the objective decreases by less than this share over five steps.
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Lmnn:
    """The metric in which k neighbours of the same class are nearer than any point of another class, by a margin of 1.

    It minimises equation (13) of the paper over positive semidefinite M, with d2 the squared distance by M::

        (1 - mu) sum over i, j of d2(i, j)  +  mu sum over i, j, l of max(0, 1 + d2(i, j) - d2(i, l))

    j are the *target neighbours* of i, the k points of its class that are nearest by Euclidean distance, and l are all
    points of other classes; those within the margin are *impostors*.

    Parameters
    ----------
    k : int
        The number of target neighbours of a point; all other points of its class if those are fewer.
    weight : float
        mu, between 0 and 1: the weight of pushing against pulling.
    max_iter : int
        The maximum number of iterations.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [0.0, 4.0], [1.0, 1.0], [1.0, 5.0]])
    >>> metric = Lmnn(k=1).fit_points(X, ["a", "a", "b", "b"])
    >>> metric.similar(X[0], X[1]), metric.similar(X[0], X[2])
    (True, False)

    Notes
    -----
    The problem is convex in M. It is solved for a square factor L with ``M = L'L``, which has no other local minimum (a
    metric near M has a factor near L), by L-BFGS; the paper uses projected gradient steps in M. (A factor of lower rank
    could be a saddle point; the start has full rank.) Every evaluation searches for all impostors; the paper keeps a
    list of them for some steps. The margin is 1 for data of any scale, because M scales inversely to the data.

    From pairs, the target neighbours are the similar pairs, and the impostors of a point are its dissimilar partners.
    Points are the same if all their features are equal. If fewer than half of the similar pairs have a point in common
    with a dissimilar pair, every dissimilar pair counts against every similar pair, with the weight 1 / (number of
    dissimilar pairs). k is not used.
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
        """Return the metric learned from the rows of X and their labels."""
        rows, classes = batch.check_labelled_points(X, labels)
        return batch.calibrate_on_points(self.solve(points_problem(rows, classes, self.k)).metric, rows, classes)

    def fit_pairs(self, X: Any, Z: Any, y: Any) -> Metric:
        """Return the metric learned from the pairs (X[i], Z[i]) with the labels y."""
        rows, others, y = batch.check_pairs(X, Z, y)
        solution = self.solve(pairs_problem(rows, others, y))
        return batch.calibrate_on_pairs(solution.metric, subtract(rows, others), y)

    def solve(self, problem: Problem) -> Solution:
        """Minimise the objective from a multiple of Euclidean distance; the history holds it from the start on."""
        n, scale = problem.n_features, problem.scale

        def evaluate(flat: Floats) -> tuple[float, Floats]:
            L = flat.reshape(n, n) / scale
            value, gradient = problem.evaluate(L.T @ L, self.weight)
            return value, (2.0 / scale) * (L @ gradient).ravel()

        x, history = minimize_lbfgs(evaluate, np.eye(n).ravel(), max_iter=self.max_iter, tolerance=_TOLERANCE)
        return Solution(batch.metric_from_factors(x.reshape(n, n) / scale, "LMNN"), history)


class Problem(Protocol):
    """The targets and impostors of a data set, and the objective as a function of M and the weight."""

    n_features: int
    scale: float

    def evaluate(self, M: Floats, weight: float) -> tuple[float, Floats]:
        """Return the objective and its gradient."""
        ...


def points_problem(X: Floats, classes: Indices, k: int) -> Problem:
    """Return the problem of labelled points: targets by Euclidean distance, impostors among all other classes."""
    batch.require_pairable_classes(classes, "LMNN")
    order = np.argsort(classes, kind="stable")
    rows = X[order] - X.mean(axis=0)
    ends = np.cumsum(np.bincount(classes))
    first, second = _targets(rows, ends, k)
    return _Points(rows, ends, first, second)


def _targets(rows: Floats, ends: Indices, k: int) -> tuple[Indices, Indices]:
    """Return the k nearest points of the same class of each point: two arrays of indices, sorted by the first."""
    from ocelad.evaluation.scores.kernels.distance_blocks import pack_blocks  # imports numba
    from ocelad.evaluation.scores.kernels.nearest_neighbors import nearest_neighbors

    firsts, seconds = [], []
    for start, end in zip(ends - np.diff(ends, prepend=0), ends, strict=True):
        near = min(k, end - start - 1)
        if near == 0:
            continue
        (of_class,) = rescale(rows[start:end])
        neighbors = nearest_neighbors(of_class, pack_blocks(of_class), near, True)
        firsts.append(np.repeat(np.arange(start, end), near))
        seconds.append(start + neighbors.ravel())
    return np.concatenate(firsts), np.concatenate(seconds)


def _scale(U: Floats) -> float:
    """Return the root mean square of the entries of the differences, by which the start scales Euclidean distance."""
    with np.errstate(under="ignore"):
        square = float(np.square(U).mean())
    return float(np.sqrt(square)) if square > 0 else 1.0


class _Points:
    """The problem of labelled points: rows sorted by class, ``ends`` of the classes, targets sorted by ``first``."""

    def __init__(self, rows: Floats, ends: Indices, first: Indices, second: Indices) -> None:
        from ocelad.lab.baselines.lmnn_kernels import accumulate_hinges  # imports numba

        self._accumulate_hinges = accumulate_hinges
        self._rows, self._differences = rows, rows[first] - rows[second]
        self._columns = np.ascontiguousarray(rows.T)
        self._target_starts = np.searchsorted(first, np.arange(len(rows) + 1))
        self._with_targets = np.unique(first)
        # Blocks of points of one class, and the start of the later classes: every two points are compared once.
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
        reach = np.full(len(rows), -np.inf)  # a point without targets has no impostors
        reach[self._with_targets] = np.maximum.reduceat(near, self._target_starts[self._with_targets]) + 1.0
        half = rows @ M
        lengths = (half * rows).sum(axis=1)
        loss, per_target = 0.0, np.zeros(len(near))
        # The sum of w (x_i - x_l)(x_i - x_l)' without the differences: X'diag(row sums of w)X - X'WX - X'W'X.
        sums, mixed = np.zeros(len(rows)), np.zeros_like(rows)
        for block, later in self._blocks:
            loss += self._accumulate_hinges(
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


def _hinges(near: Floats, far: Floats, target: Indices, impostor: Indices) -> tuple[float, Floats, Floats]:
    """Return the sum of ``max(0, 1 + near - far)`` over triples, and the active ones per target and per impostor."""
    hinge = 1.0 + near[target] - far[impostor]
    active = hinge > 0.0
    per_target = np.bincount(target[active], minlength=len(near)).astype(np.float64)
    per_impostor = np.bincount(impostor[active], minlength=len(far)).astype(np.float64)
    return float(hinge[active].sum()), per_target, per_impostor


def _sorted_hinges(near: Floats, far: Floats) -> tuple[float, Floats, Floats]:
    """Return the same for all pairs of targets and impostors, divided by the number of impostors."""
    ascending = np.sort(far)
    per_target = np.searchsorted(ascending, near + 1.0, side="left")
    per_impostor = len(near) - np.searchsorted(np.sort(near), far - 1.0, side="right")
    sums = np.concatenate([[0.0], np.cumsum(ascending)])
    loss = (per_target * (1.0 + near) - sums[per_target]).sum()
    return float(loss) / len(far), per_target / len(far), per_impostor / len(far)


def pairs_problem(X: Floats, Z: Floats, y: Floats) -> Problem:
    """Return the problem of pairs: similar ones are targets; dissimilar ones with a common point, or all, impostors."""
    batch.require_both_labels(y, "LMNN")
    U = subtract(X, Z)
    _, names = np.unique(np.concatenate([X, Z]), axis=0, return_inverse=True)
    names = names.reshape(2, len(X))  # the index of each point, for both points of each pair
    target, impostor = _pairs_with_common_point(names[:, y > 0], names[:, y < 0])
    if 2 * len(np.unique(target)) < np.count_nonzero(y > 0):
        return _Pairs(U[y > 0], U[y < 0], _sorted_hinges)
    return _Pairs(U[y > 0], U[y < 0], lambda near, far: _hinges(near, far, target, impostor))


def _pairs_with_common_point(similar: Indices, dissimilar: Indices) -> tuple[Indices, Indices]:
    """Return all couples of a similar and a dissimilar pair with a common point: two arrays of indices."""
    n_points = int(max(similar.max(), dissimilar.max())) + 1
    incidence = [
        csr_array(
            (np.ones(names.size), (np.tile(np.arange(names.shape[1]), 2), names.ravel())), (names.shape[1], n_points)
        )
        for names in (similar, dissimilar)
    ]
    common = (incidence[0] @ incidence[1].T).tocoo()
    return common.row.astype(np.intp), common.col.astype(np.intp)


class _Pairs:
    """The problem of pairs: the differences of similar and of dissimilar pairs, and the hinge losses between them."""

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
