"""Metric: what the tracker plays. Distances, an embedding, and "similar or not"."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad._validation import check_array, check_integer, check_number, check_sparse, is_sparse
from ocelad.io import state_files
from ocelad.pairs import Event, Pair, Relative, as_dense, as_event, as_relative, check_same_kind, subtract

_EPS = float(np.finfo(np.float64).eps)
# A matrix whose smallest eigenvalue is this far below zero, relative to the largest, is taken for a positive
# semidefinite one that was rounded (three digits more than float64 arithmetic usually loses).
_ROUNDING = 1e-10
# From so many rows on their singular values take long enough for a look whether fewer directions span them.
_MANY_ROWS = 100
# Up to here a matrix of all directions, and its eigendecomposition, are made where nothing less will do.
_MOST_DENSE = 4000


class _Parts(NamedTuple):
    """``M = diag(diagonal) + rows' diag(scales) rows``: what is held where a matrix would be too large."""

    diagonal: Floats  # of shape () or (n,), 0 or above
    rows: Floats  # (k, n); k may be 0
    scales: Floats  # (k,); negative ones where the diagonal makes up for them


class Metric:
    """A Mahalanobis distance ``d(x, z) = sqrt((x - z)' M (x - z))`` with a threshold (equation 1). Immutable.

    Parameters
    ----------
    matrix : array-like of shape (n_features, n_features)
        M, symmetric and positive semidefinite. ``Metric.from_factors`` takes L with M = L'L instead,
        ``Metric.from_diagonal`` the weights of the features; neither makes the matrix unless it is asked for.
    threshold : float
        The paper's mu, on the *squared* distance: two points are similar when ``d^2 <= threshold``.
    round : int
        After how many rounds (pairs) the metric was played.

    Examples
    --------
    >>> metric = Metric([[4.0, 0.0], [0.0, 0.0]], threshold=2.0)
    >>> metric.distance([1, 0], [0, 5])
    2.0
    >>> metric.similar([1, 0], [0, 5])
    False
    >>> metric.embed([[1, 7], [2, 7]])
    array([[2.],
           [4.]])
    """

    __slots__ = ("_components", "_held", "_top", "round", "threshold")

    _held: Floats | _Parts  # the matrix, or a diagonal plus rows
    _components: Floats | None
    _top: Floats | None
    threshold: float
    round: int

    def __init__(self, matrix: Any, threshold: float = 1.0, round: int = 0) -> None:
        square = "a square matrix of shape (n_features, n_features)"
        M = check_array(matrix, "matrix", 2, shapes={2: square})
        if M.shape[0] != M.shape[1]:
            raise ValueError(f"matrix has shape {M.shape}; accepted: {square}")
        size = np.abs(M).max()
        if np.abs(M - M.T).max() > _ROUNDING * size:
            raise ValueError("matrix is not symmetric; accepted: a symmetric positive semidefinite matrix")
        M = M.copy() if (M == M.T).all() else M / 2.0 + M.T / 2.0  # halves of the smallest numbers would be lost
        lowest = np.linalg.eigvalsh(M)[0]
        if lowest < -_ROUNDING * size * len(M):
            raise ValueError(
                f"matrix has the negative eigenvalue {lowest:.3g}; accepted: a positive semidefinite matrix"
            )
        self._hold(M, *_checked(threshold, round))

    @classmethod
    def from_factors(cls, factors: Any, threshold: float = 1.0, round: int = 0) -> Metric:
        """The metric ``M = L'L`` of the rows L, of shape (n_factors, n_features).

        >>> Metric.from_factors([[2.0, 0.0]]).matrix
        array([[4., 0.],
               [0., 0.]])
        """
        L = check_array(factors, "factors", 2)
        with np.errstate(over="ignore"):
            if not np.isfinite(np.square(L).sum()):
                raise ValueError("factors are too large: the squares of their entries overflow")
        return cls.low_rank(np.zeros(()), L.copy(), np.ones(len(L)), *_checked(threshold, round))

    @classmethod
    def from_diagonal(cls, weights: Any, threshold: float = 1.0, round: int = 0) -> Metric:
        """The metric ``M = diag(weights)`` that weighs each feature by itself; weights of 0 or above.

        >>> Metric.from_diagonal([4.0, 0.0, 1.0]).distance([1, 5, 0], [0, 0, 0])
        2.0
        """
        w = check_array(weights, "weights", 1).copy()
        if w.min() < 0:
            raise ValueError(f"weights holds {w.min():g} at position {w.argmin()}; accepted: numbers of 0 or above")
        return cls.low_rank(w, np.zeros((0, len(w))), np.zeros(0), *_checked(threshold, round))

    @classmethod
    def from_trusted_matrix(cls, matrix: Floats, threshold: float, round: int = 0) -> Metric:
        """A metric of a matrix that is known to be symmetric, positive semidefinite and finite: nothing is checked.

        The matrix is kept, not copied, and made read-only.
        """
        return cls.__new__(cls)._hold(matrix, threshold, round)

    @classmethod
    def low_rank(
        cls, diagonal: float | Floats, rows: Floats, scales: Floats, threshold: float, round: int = 0
    ) -> Metric:
        """The metric ``M = diag(diagonal) + rows' diag(scales) rows``; no matrix is made unless it is asked for.

        Nothing is checked: M is known to be positive semidefinite and finite. Arrays in C order are kept, not
        copied, and made read-only.

        Parameters
        ----------
        diagonal : float, or array of shape (n_features,)
            0 or above; one number for all features, or one each.
        rows : array of shape (k, n_features)
            k may be 0.
        scales : array of shape (k,)
            Negative where M has less along the row than the diagonal has.
        threshold, round
            As of every metric.

        Examples
        --------
        >>> Metric.low_rank(1.0, np.array([[0.6, 0.8]]), np.array([-1.0]), threshold=1.0).matrix
        array([[ 0.64, -0.48],
               [-0.48,  0.36]])
        """
        # In C order, as files have it: then one loaded, pickled or copied computes the same bits.
        parts = _Parts(np.asarray(diagonal, dtype=np.float64), np.ascontiguousarray(rows), np.ascontiguousarray(scales))
        return cls.__new__(cls)._hold(parts, threshold, round)

    @classmethod
    def average(cls, metrics: Sequence[Metric], probabilities: Floats) -> Metric:
        """The weighted average of the matrices and of the thresholds (equation 6), of the latest round."""
        thresholds = np.array([metric.threshold for metric in metrics])
        # Rounding must not put the average outside what was averaged, least of all below the smallest allowed.
        threshold = float(np.clip(probabilities @ thresholds, thresholds.min(), thresholds.max()))
        last = max(metric.round for metric in metrics)
        parts = [metric._held for metric in metrics if isinstance(metric._held, _Parts)]
        if len(parts) == len(metrics) and sum(len(part.rows) for part in parts) < metrics[0].n_features:
            diagonal = sum(p * part.diagonal for p, part in zip(probabilities, parts, strict=True))
            scales = np.concatenate([p * part.scales for p, part in zip(probabilities, parts, strict=True)])
            return cls.low_rank(diagonal, np.concatenate([part.rows for part in parts]), scales, threshold, last)
        # A sum of symmetric matrices entry by entry is symmetric to the last bit; a BLAS product need not be.
        matrix = sum(p * metric.matrix for p, metric in zip(probabilities, metrics, strict=True))
        return cls.from_trusted_matrix(np.asarray(matrix), threshold, last)

    def _hold(self, held: Floats | _Parts, threshold: float, round: int) -> Metric:
        for array in held if isinstance(held, _Parts) else (held,):
            _read_only(array)
        put = object.__setattr__
        put(self, "_held", held)
        put(self, "_components", None)
        put(self, "_top", None)
        put(self, "threshold", threshold)
        put(self, "round", round)
        return self

    def with_round(self, round: int) -> Metric:
        """The same metric, said to be played after another number of rounds."""
        round = check_integer(round, "round", at_least=0)
        return Metric.__new__(Metric)._hold(self._held, self.threshold, round)

    def scaled(self, factor: float, threshold: float | None = None) -> Metric:
        """The metric ``factor * M``, with the same threshold or another; distances change by the factor's root.

        >>> Metric([[1.0]]).scaled(4.0).distance([1.0], [0.0])
        2.0
        """
        factor = check_number(factor, "factor", at_least=0)
        held = self._held
        if isinstance(held, _Parts):
            times: Floats | _Parts = _Parts(np.asarray(factor * held.diagonal), held.rows, factor * held.scales)
        else:
            times = factor * held
        if threshold is not None:
            threshold = check_number(threshold, "threshold", at_least=0)
        return Metric.__new__(Metric)._hold(times, self.threshold if threshold is None else threshold, self.round)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Metric is immutable: {name!r} cannot be set; make a new Metric instead")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Metric is immutable: {name!r} cannot be deleted")

    @property
    def n_features(self) -> int:
        """How many features the points have."""
        return int((self._held.rows if isinstance(self._held, _Parts) else self._held).shape[1])

    @property
    def matrix(self) -> Floats:
        """M, of shape (n_features, n_features); read-only. Made on every call where the metric is held without it."""
        if not isinstance(self._held, _Parts):
            return self._held
        diagonal, rows, scales = self._held
        product = (rows.T * scales) @ rows
        matrix = product / 2.0 + product.T / 2.0
        matrix[np.diag_indices(self.n_features)] += diagonal
        return _read_only(matrix)

    @property
    def diagonal(self) -> Floats:
        """The diagonal of M, of shape (n_features,): the weights of the features, where it is a diagonal metric."""
        if not isinstance(self._held, _Parts):
            return np.diag(self._held)
        diagonal, rows, scales = self._held
        if self.is_diagonal:
            return np.broadcast_to(diagonal, self.n_features)
        return _read_only(diagonal + scales @ np.square(rows))

    @property
    def components(self) -> Floats:
        """Rows C with ``M = C'C``, the largest eigenvalue first, of shape (rank, n_features); read-only.

        The sign of each row is chosen so that its entry of largest size is positive. Where there are too many for
        an array, ``embed(X, n_components)`` may still give the first of them.
        """
        if self._components is None:
            # Kept for the next reader. Two threads may both compute it; they arrive at the same bits.
            object.__setattr__(self, "_components", _read_only(self._all_components()))
        assert self._components is not None
        return self._components

    def _all_components(self) -> Floats:
        n = self.n_features
        if isinstance(self._held, _Parts):
            if self.is_diagonal:
                features, roots = self._weighed_features()
                self._refuse_if_large(len(features) * n)
                components = np.zeros((len(features), n))
                components[np.arange(len(features)), features] = roots
                return components
            if not self._held.diagonal.any():
                return self._top_components()
            self._refuse_if_large(n * n)
        eigenvalues, vectors = np.linalg.eigh(self.matrix)
        keep = eigenvalues > n * _EPS * max(eigenvalues[-1], 0.0)
        return _signed(vectors.T[keep][::-1], np.sqrt(eigenvalues[keep][::-1]))

    def _top_components(self) -> Floats:
        """The components with an eigenvalue above the diagonal's, where that is one number: all are along the rows."""
        assert isinstance(self._held, _Parts)
        if self._top is None:
            base, rows, scales = float(self._held.diagonal.max()), self._held.rows, self._held.scales
            if (scales >= 0).all():  # the singular values keep twice the digits of the eigenvalues
                roots, vectors = _singular(np.sqrt(scales)[:, None] * rows)
                keep = roots > max(rows.shape) * _EPS * roots.max(initial=0.0)
                top = _signed(vectors[keep], np.hypot(np.sqrt(base), roots[keep]))
            else:
                eigenvalues, vectors = self._along_rows()
                size = max(base, float(np.abs(eigenvalues).max()))
                keep = eigenvalues > base + self.n_features * _EPS * size
                top = _signed(vectors[keep][::-1], np.sqrt(eigenvalues[keep][::-1]))
            object.__setattr__(self, "_top", _read_only(top))
        assert self._top is not None
        return self._top

    def _along_rows(self) -> tuple[Floats, Floats]:
        """The eigenvalues of M along the span of the rows, ascending, and their directions.

        The diagonal is one number.
        """
        assert isinstance(self._held, _Parts)
        _, rows, scales = self._held
        Q, R = np.linalg.qr(rows.T)
        core = (R * scales) @ R.T
        eigenvalues, round_state = np.linalg.eigh(core / 2.0 + core.T / 2.0)
        return eigenvalues + self._held.diagonal.max(), (Q @ round_state).T

    @property
    def is_diagonal(self) -> bool:
        """Whether it is held by the weights of the features and nothing else."""
        return isinstance(self._held, _Parts) and not len(self._held.rows)

    def _weighed_features(self, most: int | None = None) -> tuple[Any, Floats]:
        """Of a diagonal metric: the features whose weight is not zero, the heaviest first, and the weights' roots."""
        assert isinstance(self._held, _Parts)
        weights = np.broadcast_to(self._held.diagonal, self.n_features)
        features = np.argsort(-weights, kind="stable")[: np.count_nonzero(weights)][:most]
        return features, np.sqrt(weights[features])

    def _refuse_if_large(self, entries: int) -> None:
        if entries > _MOST_DENSE**2:
            raise ValueError(
                f"all components of this metric in {self.n_features} dimensions would take an array of {entries:,} "
                f"numbers; accepted: up to {_MOST_DENSE**2:,}, or embed(X, n_components) with fewer of them"
            )

    @property
    def rank(self) -> int:
        """How many eigenvalues are above rounding, and so how many dimensions the embedding has."""
        if isinstance(self._held, _Parts):
            diagonal = self._held.diagonal
            if self.is_diagonal:
                return int(np.count_nonzero(np.broadcast_to(diagonal, self.n_features)))
            if diagonal.ndim == 0 and diagonal > 0:
                along, _ = self._along_rows()
                above = along > self.n_features * _EPS * max(along[-1], float(diagonal))
                return self.n_features - len(along) + int(np.count_nonzero(above))
        return len(self.components)

    def eigenvalues(self, n: int | None = None) -> Floats:
        """The eigenvalues above rounding, the largest first; only so many of them, where a number is given."""
        if self.is_diagonal:
            return np.square(self._weighed_features(n)[1])
        return np.asarray(np.square(self._first_components(n)).sum(axis=1))

    @property
    def distance_threshold(self) -> float:
        """The root of the threshold; similar points are at most this far apart."""
        return float(np.sqrt(self.threshold))

    def squared_distance(self, x: Any, z: Any) -> Any:
        """``(x - z)' M (x - z)``, of two points (a float) or of rows against rows or one point (an array).

        SciPy sparse rows against sparse rows, or against one, give an array.
        """
        X, Z = check_same_kind(x, z, "x", "z", 1, 2, n_features=self.n_features)
        if is_sparse(X):  # which broadcast nothing by themselves
            X, Z = _repeated(X, Z.shape[0]), _repeated(Z, X.shape[0])
        if X.ndim == Z.ndim == 2 and X.shape[0] != Z.shape[0]:
            raise ValueError(f"x has {X.shape[0]} rows and z has {Z.shape[0]}; accepted: as many, or one single point")
        return self.squared_length(subtract(X, Z))

    def squared_length(self, u: Any) -> Any:
        """``u' M u`` of a difference u (a float), or of each row of differences, dense or sparse (an array)."""
        with np.errstate(over="ignore", invalid="ignore"):  # farther apart than float64 can say is infinitely far
            squares = self._squares_sparse(u) if is_sparse(u) else self._squares(u)
        squares = np.maximum(squares, 0.0)  # rounding can put a zero distance below zero
        return squares if np.ndim(squares) else float(squares)

    def length(self, u: Any) -> Any:
        """The root of that: how far apart points are that differ by u."""
        return np.sqrt(self.squared_length(u))

    def _squares(self, u: Floats) -> Any:
        if not isinstance(self._held, _Parts):
            return np.einsum("...i,...i->...", u @ self._held, u)
        diagonal, rows, scales = self._held
        squares = np.square(u @ rows.T) @ scales
        return squares + np.einsum("...i,...i->...", diagonal * u, u) if diagonal.any() else squares

    def _squares_sparse(self, U: Any) -> Any:
        if not isinstance(self._held, _Parts):
            # As many rows at a time as the matrix has, so that it takes no more memory than that.
            n = self.n_features
            chunks = [U[first : first + n] for first in range(0, U.shape[0], n)]
            return np.concatenate([chunk.multiply(chunk @ self._held).sum(axis=1) for chunk in chunks])
        diagonal, rows, scales = self._held
        return U.multiply(U) @ np.broadcast_to(diagonal, self.n_features) + np.square(U @ rows.T) @ scales

    def matmul(self, directions: Floats) -> Floats:
        """``M V`` of some directions V, the columns of an array of shape (n_features, n_directions)."""
        if not isinstance(self._held, _Parts):
            return np.asarray(self._held @ directions)
        diagonal, rows, scales = self._held
        return np.asarray(diagonal[..., None] * directions + rows.T @ (scales[:, None] * (rows @ directions)))

    def margin(self, event: Event | Pair | Relative) -> float:
        """Above 0 where it is right: of a pair ``y (mu - u'Mu)``, of a ``Relative`` ``far'M far - near'M near``.

        >>> Metric([[4.0]], threshold=2.0).margin(Pair([1.0], [0.0], similar=False))
        2.0
        """
        if isinstance(event, Relative):
            return as_relative(event, self.n_features).margin(self.squared_length, self.threshold)
        u, y = as_event(event, self.n_features)
        return Event(as_dense(u), y).margin(self.squared_length, self.threshold)

    def distance(self, x: Any, z: Any) -> Any:
        """``sqrt((x - z)' M (x - z))``, of two points (a float) or of rows against rows or one point (an array)."""
        distances = np.sqrt(self.squared_distance(x, z))
        return distances if np.ndim(distances) else float(distances)

    def __call__(self, u: Any, v: Any, squared: bool = False) -> Any:
        """``distance(u, v)``, or ``squared_distance``: a metric is a function of two points, for who wants one."""
        return self.squared_distance(u, v) if squared else self.distance(u, v)

    def similar(self, x: Any, z: Any) -> Any:
        """Whether ``d^2 <= threshold``: a bool, or an array of them."""
        return self.squared_distance(x, z) <= self.threshold

    def embed(self, X: Any, n_components: int | None = None) -> Floats:
        """The points where Euclidean distance is this distance: ``X C'``, the heaviest direction first.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or (n_features,), or SciPy sparse rows
        n_components : int or None
            Only the first so many directions; None: all.
        """
        sparse = is_sparse(X)
        n = self.n_features
        rows: Any = check_sparse(X, "X", n_features=n) if sparse else check_array(X, "X", 1, 2, n_features=n)
        if n_components is not None:
            check_integer(n_components, "n_components", at_least=1)
        if self.is_diagonal:
            features, roots = self._weighed_features(n_components)
            columns = rows[:, features].toarray() if sparse else rows[..., features]
            return np.asarray(columns * roots)
        return np.asarray(rows @ self._first_components(n_components).T)

    def embed_unordered(self, X: Any) -> Floats:
        """As ``embed``, but along directions of no meaning: for who needs distances only, and in less time.

        Of a full matrix it takes a factorisation by Cholesky, with pivots, in the place of the eigenvectors.

        >>> metric = Metric([[4.0, 2.0], [2.0, 1.0]])
        >>> metric.embed_unordered([[0.0, 0.0], [1.0, 1.0]]).round(6)
        array([[0.],
               [3.]])
        """
        if isinstance(self._held, _Parts):
            return self.embed(X)
        from scipy.linalg import lapack

        rows = check_array(X, "X", 1, 2, n_features=self.n_features)
        factor, order, rank, _ = lapack.dpstrf(self._held, lower=1)
        return np.asarray(rows[..., order - 1] @ np.tril(factor)[:, :rank])

    def _first_components(self, n_components: int | None) -> Floats:
        held = self._held
        if n_components is not None and isinstance(held, _Parts) and held.diagonal.ndim == 0:
            top = self._top_components()
            if n_components <= len(top):
                return top[:n_components]
        return self.components[:n_components]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to one safetensors file, replacing it whole or not at all."""
        state_files.write(path, state_files.METRIC, self.arrays(), {"threshold": self.threshold, "round": self.round})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Metric:
        """Read a metric that ``save`` wrote; equal to what was saved, bit for bit."""
        arrays, metadata = state_files.read(path, state_files.METRIC, needs_checksum=False)
        with state_files.content_errors(path, state_files.METRIC):
            if "factors" in arrays:  # as metrics of factors were written at first
                return cls.from_factors(arrays["factors"], metadata["threshold"], metadata["round"])
            return cls.from_arrays(arrays, metadata["threshold"], metadata["round"])

    def arrays(self) -> Arrays:
        """The arrays that it is held by: the matrix; or diagonal, rows and scales. Read-only.

        >>> list(Metric.from_diagonal([4.0, 0.0]).arrays())
        ['diagonal', 'rows', 'scales']
        """
        return self._held._asdict() if isinstance(self._held, _Parts) else {"matrix": self._held}

    @classmethod
    def from_arrays(cls, arrays: Arrays, threshold: float, round: int = 0) -> Metric:
        """The metric of the arrays that ``held`` gave, bit for bit; they are checked, as they may come from outside."""
        if arrays.keys() == set(_Parts._fields):
            return cls._of_parts(_Parts(**arrays), threshold, round)
        if arrays.keys() != {"matrix"} or arrays["matrix"].dtype != np.float64:
            got = {name: str(array.dtype) for name, array in arrays.items()}
            raise ValueError(f"a metric is held by its matrix, or by diagonal, rows and scales, of float64; got {got}")
        return cls(arrays["matrix"], threshold, round)

    @classmethod
    def _of_parts(cls, parts: _Parts, threshold: float, round: int) -> Metric:
        """The metric of parts that come from outside; checked."""
        diagonal, rows, scales = parts
        n = rows.shape[-1]
        if rows.ndim != 2 or scales.shape != rows.shape[:1] or diagonal.shape not in ((), (n,)) or n == 0:
            raise ValueError(f"its parts have shapes {diagonal.shape}, {rows.shape} and {scales.shape}")
        if any(part.dtype != np.float64 or not np.isfinite(part).all() for part in parts) or diagonal.min() < 0:
            raise ValueError("its parts are not all finite numbers, the diagonal's of 0 or above")
        metric = cls.low_rank(*parts, *_checked(threshold, round))
        with np.errstate(over="ignore", invalid="ignore"):
            size = float(diagonal.max() + np.abs(scales) @ np.square(rows).sum(axis=1))
        if not np.isfinite(size):
            raise ValueError("its rows are too large: the squares of their entries overflow")
        if (scales < 0).any():
            if diagonal.ndim and n > _MOST_DENSE:
                raise ValueError("it has negative scales beside a diagonal of many numbers")
            lowest = np.linalg.eigvalsh(metric.matrix)[0] if diagonal.ndim else metric._along_rows()[0][0]
            if lowest < -_ROUNDING * size:
                raise ValueError(f"it has the negative eigenvalue {lowest:.3g}")
        return metric

    def __eq__(self, other: object) -> bool:
        """Same bits: threshold, round, and what the metric is held by, a matrix or a diagonal plus rows."""
        if not isinstance(other, Metric):
            return NotImplemented
        if (self.threshold, self.round) != (other.threshold, other.round):
            return False
        mine, theirs = self._held, other._held
        if isinstance(mine, _Parts) and isinstance(theirs, _Parts):
            return all(map(np.array_equal, mine, theirs))
        return type(mine) is type(theirs) and np.array_equal(mine, theirs)

    def __hash__(self) -> int:
        return hash((self.threshold, self.round, self.n_features))

    def __deepcopy__(self, memo: dict[int, Any]) -> Metric:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._held, self.threshold, self.round)

    def __repr__(self) -> str:
        return f"Metric(n_features={self.n_features}, threshold={self.threshold:.6g}, round={self.round})"


def _restore(held: Floats | _Parts, threshold: float, round: int) -> Metric:
    return Metric.__new__(Metric)._hold(held, threshold, round)


def _repeated(rows: Any, count: int) -> Any:
    """One sparse row as often as is asked for; more rows as they are."""
    return rows[np.zeros(count, dtype=np.int64)] if rows.shape[0] == 1 else rows


def _singular(rows: Floats) -> tuple[Floats, Floats]:
    """The singular values of a matrix, the largest first, and their directions; those that are only rounding may lack.

    The learners of an ensemble have much in common, so that their directions together, k of them in n dimensions, often
    have a small rank. Then it is enough to look at them in a basis of that rank.
    """
    used = np.flatnonzero(rows.any(axis=0))
    A = np.ascontiguousarray(rows[:, used]) if len(used) < rows.shape[1] else rows
    basis = _small_basis(A)
    if basis is None:
        _, roots, inside = np.linalg.svd(A, full_matrices=False)
    else:
        _, roots, round_state = np.linalg.svd(A @ basis.T, full_matrices=False)
        inside = round_state @ basis
    vectors = np.zeros((len(inside), rows.shape[1]))
    vectors[:, used] = inside
    return roots, vectors


def _small_basis(A: Floats) -> Floats | None:
    """Orthonormal rows that span those of A, if a quarter as many will do: random combinations of them, and a check.

    (Halko, Martinsson and Tropp 2011, algorithm 4.1.)
    """
    k, n = A.shape
    if k < _MANY_ROWS or n < k:
        return None
    combinations = np.random.default_rng(0).normal(size=(k // 4, k)) @ A
    basis = np.linalg.qr(combinations.T)[0].T
    left = np.linalg.norm(A - (A @ basis.T) @ basis)
    return np.ascontiguousarray(basis) if left <= 1e-13 * np.linalg.norm(A) else None


def _signed(directions: Floats, roots: Floats) -> Floats:
    """The directions, as long as the roots, the entry of largest size of each positive."""
    if not len(directions):
        return np.zeros_like(directions)
    largest = directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)]
    return np.ascontiguousarray(directions * (np.sign(largest) * roots)[:, None])


def _checked(threshold: Any, round: Any) -> tuple[float, int]:
    return check_number(threshold, "threshold", at_least=0), check_integer(round, "round", at_least=0)


def _read_only(array: Floats) -> Floats:
    array.flags.writeable = False
    return array
