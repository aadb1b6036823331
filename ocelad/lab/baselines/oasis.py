"""OASIS: an online algorithm for scalable image similarity, of points and not of differences.

Chechik, Sharma, Shalit and Bengio, "Large scale online learning of image similarity through ranking", JMLR 2010,
section 2, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_array, check_integer, check_number, is_sparse
from ocelad.pairs import Event, Pair, Relative, alike

# Squared distances of points up to here are finite in any number of dimensions.
_LARGEST = 1e145


@dataclass(frozen=True, eq=False)
class Similarity:
    """The bilinear similarity ``S(p, q) = p'Wq``; W need be neither symmetric nor positive. Immutable.

    Attributes
    ----------
    matrix : array of shape (n_features, n_features)
        W; finite. Kept as a read-only copy.
    round : int
        After how many rounds (pairs) it was played.

    Examples
    --------
    >>> similarity = Similarity([[1.0, 2.0], [0.0, 0.0]])
    >>> similarity.similarity([1.0, 0.0], [0.0, 3.0])
    6.0
    """

    matrix: Floats
    round: int = 0

    def __post_init__(self) -> None:
        square = "a square matrix of shape (n_features, n_features)"
        W = check_array(self.matrix, "matrix", 2, shapes={2: square}).copy()
        if W.shape[0] != W.shape[1]:
            raise ValueError(f"matrix has shape {W.shape}; accepted: {square}")
        W.flags.writeable = False
        object.__setattr__(self, "matrix", W)
        object.__setattr__(self, "round", check_integer(self.round, "round", at_least=0))

    @classmethod
    def average(cls, similarities: Sequence[Similarity], probabilities: Floats) -> Similarity:
        """The weighted average of the matrices, of the latest round: how a bank of learners mixes what they play."""
        matrix = sum(p * one.matrix for p, one in zip(probabilities, similarities, strict=True))
        return cls(np.asarray(matrix), max(one.round for one in similarities))

    @property
    def n_features(self) -> int:
        """How many features the points have."""
        return len(self.matrix)

    def similarity(self, X: Any, Z: Any) -> Any:
        """``x'Wz`` of two points (a float), or of rows with rows or with one point (an array)."""
        x, z = alike(X, Z, "X", "Z", 1, 2, n_features=self.n_features)
        if is_sparse(x):
            raise TypeError("X and Z are sparse; accepted: arrays, which their toarray() are")
        if x.ndim == z.ndim == 2 and len(x) != len(z):
            raise ValueError(f"X has {len(x)} rows and Z has {len(z)}; accepted: as many, or one single point")
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.einsum("...i,...i->...", x @ self.matrix, z)
        return values if values.ndim else float(values)

    @property
    def components(self) -> Floats:
        """Rows C with C'C the positive semidefinite part of ``(W + W') / 2``, the largest eigenvalue first."""
        W = self.matrix
        eigenvalues, vectors = np.linalg.eigh(W / 2.0 + W.T / 2.0)
        keep = eigenvalues > len(W) * np.finfo(np.float64).eps * np.abs(eigenvalues).max()
        return np.asarray((np.sqrt(eigenvalues[keep]) * vectors[:, keep]).T[::-1])

    @property
    def rank(self) -> int:
        """How many dimensions the embedding has."""
        return len(self.components)

    def embed(self, X: Any) -> Floats:
        """Points whose inner products are the similarities, as far as points have any: ``X C'``.

        An inner product is symmetric and positive, so that only that part of W can be seen in it; k-nearest neighbours
        and k-means need points.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or (n_features,)
        """
        rows = check_array(X, "X", 1, 2, n_features=self.n_features)
        return np.asarray(rows @ self.components.T)

    def __eq__(self, other: object) -> bool:
        """Same bits."""
        if not isinstance(other, Similarity):
            return NotImplemented
        return self.round == other.round and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.round, self.n_features))

    def __repr__(self) -> str:
        return f"Similarity(n_features={self.n_features}, round={self.round})"


class Triplet(NamedTuple):
    """``p`` is more similar to ``like`` than to ``unlike``; OASIS's p, p+ and p-."""

    p: Floats
    like: Floats
    unlike: Floats


class Oasis:
    """Passive-aggressive steps on triplets: like points shall be more similar than unlike ones, by 1 (Algorithm 1).

    With the loss ``l = max(0, 1 - S(p, p+) + S(p, p-))`` of a triplet and ``V = p (p+ - p-)'``::

        W <- W + tau V,   tau = min(C, l / ||V||^2)

    That is the nearest W without a loss on the triplet, or as far towards it as C allows.

    Parameters
    ----------
    n_features : int
        How many features the points have. It starts from the identity, as in the paper.
    aggressiveness : float
        C, above 0.
    memory : int
        Of each kind, similar and dissimilar, so many of the last pairs are remembered; 1 or more.
    start : Similarity or None
        Where it starts, where that is not the identity.

    Examples
    --------
    >>> learner = Oasis(2, aggressiveness=1.0)
    >>> learner.update(Pair([1.0, 0.0], [0.0, 1.0], similar=False))  # no triplet yet
    >>> learner.update(Pair([1.0, 0.0], [0.0, 0.0], similar=True))
    >>> learner.play().matrix  # now [1, 0] is more similar to [0, 0] than to [0, 1], by 1
    array([[ 1., -1.],
           [ 0.,  1.]])

    Notes
    -----
    The paper draws triplets from labelled images. Pairs have no labels, so that a triplet is made of two pairs of
    different kinds that share a point: (p, p+) similar, (p, p-) dissimilar. Each end p of a new pair looks for the
    nearest end, by Euclidean distance, of the remembered pairs of the other kind; the same point is the nearest there
    is. The other end of that pair completes the triplet. Where points do not come again, a near one stands in for a
    shared one: it is taken to be like p. So a pair makes two triplets, one for each end, and none as long as nothing of
    the other kind is remembered. Nothing is random.
    """

    def __init__(
        self,
        n_features: int,
        *,
        aggressiveness: float = 0.01,
        memory: int = 30,
        start: Similarity | None = None,
    ) -> None:
        n = check_integer(n_features, "n_features", at_least=1)
        self._aggressiveness = check_number(aggressiveness, "aggressiveness", above=0)
        self._memory = check_integer(memory, "memory", at_least=1)
        if start is not None and not isinstance(start, Similarity):
            raise TypeError(f"start must be a Similarity or None; got {type(start).__name__}")
        if start is not None and start.n_features != n:
            raise ValueError(f"start has {start.n_features} features; {n} are expected")
        self._similarity = Similarity(np.eye(n)) if start is None else start
        # Of each kind the pairs as one array (count, 2, n), the oldest first, never changed in place.
        nothing = np.empty((0, 2, n))
        self._remembered: dict[bool, Floats] = {True: nothing, False: nothing}

    def play(self) -> Similarity:
        """The similarity it holds."""
        return self._similarity

    def loss(self, pair: Pair) -> float:
        """The mean of l over the triplets that the pair makes; 0 where it makes none."""
        triplets = self._triplets(*self._seen(pair))
        W = self._similarity.matrix
        return float(np.mean([_loss(W, triplet) for triplet in triplets])) if triplets else 0.0

    def update(self, pair: Pair) -> None:
        """One step for each triplet that the pair makes; then it is remembered."""
        points, similar = self._seen(pair)
        W = self._similarity.matrix
        for triplet in self._triplets(points, similar):
            W = self._stepped(W, triplet)
        self._similarity = Similarity(W, self._similarity.round + 1)
        kept = np.concatenate([self._remembered[similar], points[None]])[-self._memory :]
        self._remembered = {**self._remembered, similar: kept}

    def _stepped(self, W: Floats, triplet: Triplet) -> Floats:
        loss = _loss(W, triplet)
        p, apart = triplet.p, triplet.like - triplet.unlike
        one, other = float(p @ p), float(apart @ apart)  # whose product, the square of V, may overflow
        if loss == 0.0 or one == 0.0 or other == 0.0:  # a V of zero changes nothing, whatever tau is
            return W
        tau = min(self._aggressiveness, loss / one / other)
        return np.asarray(W + np.outer(tau * p, apart))

    def _triplets(self, points: Floats, similar: bool) -> list[Triplet]:
        others = self._remembered[not similar]
        if not len(others):
            return []
        made = []
        for p, partner in (points, points[::-1]):
            distances = np.square(others - p).sum(axis=-1)
            # Of equally near ones the last that was seen.
            at, end = divmod(distances.size - 1 - int(distances.ravel()[::-1].argmin()), 2)
            third = others[at, 1 - end]
            made.append(Triplet(p, partner, third) if similar else Triplet(p, third, partner))
        return made

    def _seen(self, pair: Pair) -> tuple[Floats, bool]:
        """The two points and whether they are similar; checked."""
        if not isinstance(pair, Pair):
            also = ", which has no points but their difference" if isinstance(pair, (Event, Relative)) else ""
            raise TypeError(f"OASIS learns from a Pair(x, z, similar); got {type(pair).__name__}{also}")
        if is_sparse(pair.x):
            raise TypeError("the points of the pair are sparse; accepted: arrays, which their toarray() are")
        n = self._similarity.n_features
        ends = [check_array(point, name, 1, n_features=n) for point, name in ((pair.x, "x"), (pair.z, "z"))]
        points = np.stack(ends)
        if np.abs(points).max() > _LARGEST:
            raise ValueError(
                f"the points of the pair are too large: their squares overflow; accepted: up to {_LARGEST:g}"
            )
        return points, pair.similar

    def __deepcopy__(self, memo: dict[int, Any]) -> Oasis:
        return copy(self)


def _loss(W: Floats, triplet: Triplet) -> float:
    """``max(0, 1 - S(p, p+) + S(p, p-))``; refused where it is too large for a number."""
    with np.errstate(over="ignore", invalid="ignore"):
        margin = float(triplet.p @ W @ (triplet.like - triplet.unlike))
    if not np.isfinite(margin):
        raise FloatingPointError("the similarity overflows; points of a smaller scale are needed")
    return max(0.0, 1.0 - margin)
