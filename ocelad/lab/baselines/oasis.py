"""OASIS: an online algorithm for scalable image similarity, which learns from points and not from differences.

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
from ocelad.pairs import Event, Pair, Relative, check_same_kind

# Squared distances of points up to this size are finite in any number of dimensions.
_MAX_ABS = 1e145


@dataclass(frozen=True, eq=False)
class Similarity:
    """The bilinear similarity ``S(p, q) = p'Wq``. W need not be symmetric or positive semidefinite. Immutable.

    Attributes
    ----------
    matrix : array of shape (n_features, n_features)
        W; finite. Stored as a read-only copy.
    round : int
        The number of rounds (pairs) before it was played.

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
        """Return the weighted average of the matrices, with the latest round; ``LearnerBank`` mixes plays by it."""
        matrix = sum(p * one.matrix for p, one in zip(probabilities, similarities, strict=True))
        return cls(np.asarray(matrix), max(one.round for one in similarities))

    @property
    def n_features(self) -> int:
        """The number of features."""
        return len(self.matrix)

    def similarity(self, X: Any, Z: Any) -> Any:
        """Return ``x'Wz`` of two points (a float), or of rows with rows or with one point (an array)."""
        x, z = check_same_kind(X, Z, "X", "Z", 1, 2, n_features=self.n_features)
        if is_sparse(x):
            raise TypeError("X and Z are sparse; accepted: dense arrays, such as toarray() returns")
        if x.ndim == z.ndim == 2 and len(x) != len(z):
            raise ValueError(f"X has {len(x)} rows and Z has {len(z)}; accepted: equally many rows, or a single point")
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
        """The number of dimensions of the embedding."""
        return len(self.components)

    def embed(self, X: Any) -> Floats:
        """Return ``X C'``, points whose inner products approximate the similarities.

        An inner product is symmetric and positive semidefinite, so it can represent only that part of W. k-nearest
        neighbours and k-means need points.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or (n_features,)
        """
        rows = check_array(X, "X", 1, 2, n_features=self.n_features)
        return np.asarray(rows @ self.components.T)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same bits."""
        if not isinstance(other, Similarity):
            return NotImplemented
        return self.round == other.round and np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.round, self.n_features))

    def __repr__(self) -> str:
        return f"Similarity(n_features={self.n_features}, round={self.round})"


class Triplet(NamedTuple):
    """A point ``p`` that is more similar to ``like`` than to ``unlike``; p, p+ and p- in the paper."""

    p: Floats
    like: Floats
    unlike: Floats


class Oasis:
    """Passive-aggressive steps on triplets: p must be more similar to p+ than to p- by a margin of 1 (Algorithm 1).

    With the loss ``l = max(0, 1 - S(p, p+) + S(p, p-))`` of a triplet and ``V = p (p+ - p-)'``::

        W <- W + tau V,   tau = min(C, l / ||V||^2)

    The result is the nearest W without loss on the triplet, or a step towards it if C limits tau.

    Parameters
    ----------
    n_features : int
        The number of features. W starts from the identity, as in the paper.
    aggressiveness : float
        C, above 0.
    memory : int
        The number of latest similar and of latest dissimilar pairs to remember; 1 or more.
    start : Similarity or None
        The initial similarity; None: the identity.

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
    The paper draws triplets from labelled images. Pairs have no labels, so a triplet is made of two pairs that share a
    point: (p, p+) similar, (p, p-) dissimilar. Each point p of a new pair is matched with the nearest point, by
    Euclidean distance, in the remembered pairs of the other label; an identical point is the nearest. The other point
    of that pair completes the triplet. If points do not recur, a nearby point takes the place of the shared one, under
    the assumption that it is like p. A pair therefore makes two triplets, one for each of its points, and none while no
    pair of the other label is remembered. Nothing is random.
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
        self._memory_size = check_integer(memory, "memory", at_least=1)
        if start is not None and not isinstance(start, Similarity):
            raise TypeError(f"start must be a Similarity or None; got {type(start).__name__}")
        if start is not None and start.n_features != n:
            raise ValueError(f"start has {start.n_features} features; {n} are expected")
        self._similarity = Similarity(np.eye(n)) if start is None else start
        # The similar and the dissimilar pairs as arrays (count, 2, n), oldest first, never changed in place.
        empty = np.empty((0, 2, n))
        self._memory: dict[bool, Floats] = {True: empty, False: empty}

    def play(self) -> Similarity:
        """Return the current similarity."""
        return self._similarity

    def loss(self, pair: Pair) -> float:
        """Return the mean of l over the triplets of the pair; 0 if it makes none."""
        triplets = self._triplets(*self._check_pair(pair))
        W = self._similarity.matrix
        return float(np.mean([_loss(W, triplet) for triplet in triplets])) if triplets else 0.0

    def update(self, pair: Pair) -> None:
        """Take one step for each triplet of the pair, then remember the pair."""
        points, similar = self._check_pair(pair)
        W = self._similarity.matrix
        for triplet in self._triplets(points, similar):
            W = self._step(W, triplet)
        self._similarity = Similarity(W, self._similarity.round + 1)
        remembered = np.concatenate([self._memory[similar], points[None]])[-self._memory_size :]
        self._memory = {**self._memory, similar: remembered}

    def _step(self, W: Floats, triplet: Triplet) -> Floats:
        loss = _loss(W, triplet)
        p, difference = triplet.p, triplet.like - triplet.unlike
        one, other = float(p @ p), float(difference @ difference)  # their product ||V||^2 can overflow
        if loss == 0.0 or one == 0.0 or other == 0.0:  # V = 0 changes nothing for any tau
            return W
        tau = min(self._aggressiveness, loss / one / other)
        return np.asarray(W + np.outer(tau * p, difference))

    def _triplets(self, points: Floats, similar: bool) -> list[Triplet]:
        others = self._memory[not similar]
        if not len(others):
            return []
        triplets = []
        for p, partner in (points, points[::-1]):
            distances = np.square(others - p).sum(axis=-1)
            # Ties go to the latest pair.
            at, end = divmod(distances.size - 1 - int(distances.ravel()[::-1].argmin()), 2)
            third = others[at, 1 - end]
            triplets.append(Triplet(p, partner, third) if similar else Triplet(p, third, partner))
        return triplets

    def _check_pair(self, pair: Pair) -> tuple[Floats, bool]:
        """Validate a pair, and return its two points and whether they are similar."""
        if not isinstance(pair, Pair):
            hint = ", which holds differences only" if isinstance(pair, (Event, Relative)) else ""
            raise TypeError(f"OASIS learns from a Pair(x, z, similar); got {type(pair).__name__}{hint}")
        if is_sparse(pair.x):
            raise TypeError("the points of the pair are sparse; accepted: dense arrays, such as toarray() returns")
        n = self._similarity.n_features
        ends = [check_array(point, name, 1, n_features=n) for point, name in ((pair.x, "x"), (pair.z, "z"))]
        points = np.stack(ends)
        if np.abs(points).max() > _MAX_ABS:
            raise ValueError(
                f"the points of the pair are too large: their squares overflow; accepted: numbers up to {_MAX_ABS:g}"
            )
        return points, pair.similar

    def __deepcopy__(self, memo: dict[int, Any]) -> Oasis:
        return copy(self)


def _loss(W: Floats, triplet: Triplet) -> float:
    """Return ``max(0, 1 - S(p, p+) + S(p, p-))``; raise FloatingPointError if it overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        margin = float(triplet.p @ W @ (triplet.like - triplet.unlike))
    if not np.isfinite(margin):
        raise FloatingPointError("the similarity overflows; use points of a smaller scale")
    return max(0.0, 1.0 - margin)
