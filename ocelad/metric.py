"""Metric: a Mahalanobis distance with a threshold; it measures, embeds and decides "similar or not"."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad._validation import check_array, check_integer, check_number, check_sparse, is_sparse
from ocelad.io import state_files
from ocelad.pairs import Event, Pair, Relative, as_dense, as_event, as_relative, check_same_kind, subtract
from ocelad.principal_axes import PrincipalAxes, iterate_blocks

_EPS = float(np.finfo(np.float64).eps)
# Negative eigenvalues up to this size, relative to the largest, are accepted as rounding. float64 arithmetic usually
# loses three digits less.
_ROUNDING = 1e-10
# From this number of rows on, it pays to test whether fewer directions span them before computing singular values.
_MANY_ROWS = 100
# Largest number of features for which a dense matrix and its eigendecomposition are computed.
_MAX_DENSE = 4000


class _LowRankForm(NamedTuple):
    """The form ``M = diag(diagonal) + rows' diag(scales) rows``, for metrics whose matrix would be too large."""

    diagonal: Floats  # of shape () or (n,); not negative
    rows: Floats  # (k, n); k may be 0
    scales: Floats  # (k,); may be negative as long as M is positive semidefinite


class PointDistance:
    """What follows from the squared distance of two points and a threshold: the base of linear and curved metrics."""

    __slots__ = ()

    threshold: float

    def squared_distance(self, x: Any, z: Any) -> Any:
        """Return the squared distance: a float for two points, an array if x or z has rows."""
        raise NotImplementedError

    def distance(self, x: Any, z: Any) -> Any:
        """Return the distance; see ``squared_distance`` for the shapes."""
        distances = np.sqrt(self.squared_distance(x, z))
        return distances if np.ndim(distances) else float(distances)

    def __call__(self, u: Any, v: Any, squared: bool = False) -> Any:
        """Return ``distance(u, v)`` or ``squared_distance(u, v)``, for callers that expect a function of two points.

        As in metric-learn and SciPy, points are vectors: axes of length 1 are dropped, and arrays of several points are
        refused; ``distance`` accepts them.

        >>> metric = Metric([[4.0, 0.0], [0.0, 1.0]])
        >>> metric([[1, 0]], [0, 0]), metric([1, 0], [[0], [0]], squared=True)
        (2.0, 4.0)
        """
        u, v = _as_vector(u, "u"), _as_vector(v, "v")
        return self.squared_distance(u, v) if squared else self.distance(u, v)

    def similar(self, x: Any, z: Any) -> Any:
        """Return whether ``d^2 <= threshold``: a bool or an array of bools."""
        return self.squared_distance(x, z) <= self.threshold

    @property
    def distance_threshold(self) -> float:
        """Square root of the threshold, the largest distance of similar points; negative if the threshold is."""
        return float(np.copysign(np.sqrt(abs(self.threshold)), self.threshold))


class Metric(PointDistance):
    """A Mahalanobis distance ``d(x, z) = sqrt((x - z)' M (x - z))`` with a threshold (equation 1). Immutable.

    Parameters
    ----------
    matrix : array-like of shape (n_features, n_features)
        M, symmetric and positive semidefinite. ``Metric.from_factors`` takes L with M = L'L instead, and
        ``Metric.from_diagonal`` the weights of the features; neither computes the matrix until it is needed.
    threshold : float
        The paper's mu, for the *squared* distance: two points are similar if ``d^2 <= threshold``. With a negative
        threshold no pair is similar.
    round : int
        Number of rounds (pairs) after which the metric was played.

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

    __slots__ = ("_components", "_form", "_top", "round", "threshold")

    _form: Floats | _LowRankForm  # the matrix, or a diagonal plus rows
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
        M = M.copy() if (M == M.T).all() else M / 2.0 + M.T / 2.0  # halving would lose bits of subnormal numbers
        lowest = np.linalg.eigvalsh(M)[0]
        if lowest < -_ROUNDING * size * len(M):
            raise ValueError(
                f"matrix has the negative eigenvalue {lowest:.3g}; accepted: a positive semidefinite matrix"
            )
        self._set_form(M, *_check_threshold_and_round(threshold, round))

    @classmethod
    def from_factors(cls, factors: Any, threshold: float = 1.0, round: int = 0) -> Metric:
        """Return the metric ``M = L'L`` for L of shape (n_factors, n_features).

        >>> Metric.from_factors([[2.0, 0.0]]).matrix
        array([[4., 0.],
               [0., 0.]])
        """
        L = check_array(factors, "factors", 2)
        with np.errstate(over="ignore"):
            if not np.isfinite(np.square(L).sum()):
                raise ValueError("factors are too large: the squares of their entries overflow")
        return cls.low_rank(np.zeros(()), L.copy(), np.ones(len(L)), *_check_threshold_and_round(threshold, round))

    @classmethod
    def from_diagonal(cls, weights: Any, threshold: float = 1.0, round: int = 0) -> Metric:
        """Return the metric ``M = diag(weights)``; weights must not be negative.

        >>> Metric.from_diagonal([4.0, 0.0, 1.0]).distance([1, 5, 0], [0, 0, 0])
        2.0
        """
        w = check_array(weights, "weights", 1).copy()
        if w.min() < 0:
            raise ValueError(f"weights holds {w.min():g} at position {w.argmin()}; accepted: numbers of 0 or above")
        return cls.low_rank(w, np.zeros((0, len(w))), np.zeros(0), *_check_threshold_and_round(threshold, round))

    @classmethod
    def from_trusted_matrix(cls, matrix: Floats, threshold: float, round: int = 0) -> Metric:
        """Return the metric of a matrix that is known to be symmetric, positive semidefinite and finite; unchecked.

        The matrix is not copied, and it is made read-only.
        """
        return cls.__new__(cls)._set_form(matrix, threshold, round)

    @classmethod
    def low_rank(
        cls, diagonal: float | Floats, rows: Floats, scales: Floats, threshold: float, round: int = 0
    ) -> Metric:
        """Return the metric ``M = diag(diagonal) + rows' diag(scales) rows``; the matrix is computed when needed.

        Nothing is checked: M must be positive semidefinite and finite. Arrays in C order are not copied, and they are
        made read-only.

        Parameters
        ----------
        diagonal : float, or array of shape (n_features,)
            Not negative; one number for all features, or one for each.
        rows : array of shape (k, n_features)
            k may be 0.
        scales : array of shape (k,)
            Negative where M is smaller along the row than the diagonal.
        threshold, round
            As in ``Metric``.

        Examples
        --------
        >>> Metric.low_rank(1.0, np.array([[0.6, 0.8]]), np.array([-1.0]), threshold=1.0).matrix
        array([[ 0.64, -0.48],
               [-0.48,  0.36]])
        """
        # In C order, as in files, so that loaded, pickled and copied metrics compute the same bits.
        parts = _LowRankForm(
            np.asarray(diagonal, dtype=np.float64), np.ascontiguousarray(rows), np.ascontiguousarray(scales)
        )
        return cls.__new__(cls)._set_form(parts, threshold, round)

    @classmethod
    def average(cls, metrics: Sequence[Metric], probabilities: Floats) -> Metric:
        """Return the weighted average of the matrices and thresholds (equation 6), with the latest round."""
        thresholds = np.array([metric.threshold for metric in metrics])
        # Rounding must not move the average outside the range of the thresholds.
        threshold = float(np.clip(probabilities @ thresholds, thresholds.min(), thresholds.max()))
        return cls.weighted_sum(metrics, probabilities, threshold, max(metric.round for metric in metrics))

    @classmethod
    def weighted_sum(cls, metrics: Sequence[Metric], weights: Floats, threshold: float, round: int) -> Metric:
        """Return the metric whose matrix is the weighted sum of the matrices; weights must not be negative."""
        parts = [metric._form for metric in metrics if isinstance(metric._form, _LowRankForm)]
        if len(parts) == len(metrics) and sum(len(part.rows) for part in parts) < metrics[0].n_features:
            diagonal = sum(w * part.diagonal for w, part in zip(weights, parts, strict=True))
            scales = np.concatenate([w * part.scales for w, part in zip(weights, parts, strict=True)])
            return cls.low_rank(diagonal, np.concatenate([part.rows for part in parts]), scales, threshold, round)
        # An elementwise sum of symmetric matrices is exactly symmetric; a BLAS product need not be.
        matrix = sum(w * metric.matrix for w, metric in zip(weights, metrics, strict=True))
        return cls.from_trusted_matrix(np.asarray(matrix), threshold, round)

    @classmethod
    def block_diagonal(cls, first: Metric, second: Metric, threshold: float, round: int) -> Metric:
        """Return the metric of points side by side: the squared distance is the sum of the two.

        >>> Metric.block_diagonal(Metric([[2.0]]), Metric([[3.0]]), threshold=1.0, round=0).matrix
        array([[2., 0.],
               [0., 3.]])
        """
        sizes, one, other = (first.n_features, second.n_features), first._form, second._form
        if isinstance(one, _LowRankForm) and isinstance(other, _LowRankForm):
            diagonals = [np.broadcast_to(form.diagonal, n) for form, n in zip((one, other), sizes, strict=True)]
            rows = np.zeros((len(one.rows) + len(other.rows), sum(sizes)))
            rows[: len(one.rows), : sizes[0]], rows[len(one.rows) :, sizes[0] :] = one.rows, other.rows
            scales = np.concatenate([one.scales, other.scales])
            return cls.low_rank(np.concatenate(diagonals), rows, scales, threshold, round)
        matrix = np.zeros((sum(sizes), sum(sizes)))
        matrix[: sizes[0], : sizes[0]], matrix[sizes[0] :, sizes[0] :] = first.matrix, second.matrix
        return cls.from_trusted_matrix(matrix, threshold, round)

    def _set_form(self, form: Floats | _LowRankForm, threshold: float, round: int) -> Metric:
        for array in form if isinstance(form, _LowRankForm) else (form,):
            _read_only(array)
        put = object.__setattr__
        put(self, "_form", form)
        put(self, "_components", None)
        put(self, "_top", None)
        put(self, "threshold", threshold)
        put(self, "round", round)
        return self

    def with_threshold(self, threshold: float) -> Metric:
        """Return the same metric with another threshold."""
        return Metric.__new__(Metric)._set_form(self._form, check_number(threshold, "threshold"), self.round)

    def with_round(self, round: int) -> Metric:
        """Return the same metric with another round."""
        round = check_integer(round, "round", at_least=0)
        return Metric.__new__(Metric)._set_form(self._form, self.threshold, round)

    def scaled(self, factor: float, threshold: float | None = None) -> Metric:
        """Return the metric ``factor * M``, optionally with another threshold; distances scale by sqrt(factor).

        >>> Metric([[1.0]]).scaled(4.0).distance([1.0], [0.0])
        2.0
        """
        factor = check_number(factor, "factor", at_least=0)
        form = self._form
        if isinstance(form, _LowRankForm):
            scaled: Floats | _LowRankForm = _LowRankForm(
                np.asarray(factor * form.diagonal), form.rows, factor * form.scales
            )
        else:
            scaled = factor * form
        if threshold is not None:
            threshold = check_number(threshold, "threshold")
        return Metric.__new__(Metric)._set_form(scaled, self.threshold if threshold is None else threshold, self.round)

    def truncated(self, max_rank: int) -> Metric:
        """Return a metric with at most this many directions beside the diagonal: those with the largest eigenvalues.

        Of a dense matrix, they are those whose eigenvalues differ most from the median, and the diagonal is the mean of
        the others.

        >>> metric = Metric.low_rank(1.0, np.eye(3)[:2], np.array([5.0, 0.1]), threshold=1.0)
        >>> metric.truncated(1).diagonal
        array([6., 1., 1.])
        """
        form = self._form
        if not isinstance(form, _LowRankForm):
            eigenvalues, vectors = np.linalg.eigh(form)
            eigenvalues = np.maximum(eigenvalues, 0.0)  # rounding can make them negative
            order = np.argsort(-np.abs(eigenvalues - np.median(eigenvalues)), kind="stable")
            keep, others = np.sort(order[:max_rank]), order[max_rank:]
            base = float(eigenvalues[others].mean()) if len(others) else 0.0
            return Metric.low_rank(base, vectors.T[keep], eigenvalues[keep] - base, self.threshold, self.round)
        if len(form.rows) <= max_rank:
            return self
        eigenvalues, vectors = self._eigenform_of_rows()
        keep = np.sort(np.argsort(-np.abs(eigenvalues), kind="stable")[:max_rank])
        return Metric.low_rank(form.diagonal, vectors[keep], eigenvalues[keep], self.threshold, self.round)

    def relative_change(self, before: Metric, mean_squares: Floats) -> float:
        """Return ``|M - M_before| / |M|`` in the Frobenius norm, with features scaled to a mean square of 1."""
        change, size = self.squared_change(before, mean_squares)
        return float(np.sqrt(change / size)) if size > 0.0 else 0.0

    def squared_change(self, before: Metric, mean_squares: Floats) -> tuple[float, float]:
        """Return ``|M - M_before|^2`` and ``|M|^2``; see ``relative_change``."""
        mine, theirs = self._scaled_by(mean_squares), before._scaled_by(mean_squares)
        size = mine._inner_product(mine)
        change = size - 2.0 * mine._inner_product(theirs) + theirs._inner_product(theirs)
        return max(change, 0.0), size

    def _scaled_by(self, mean_squares: Floats) -> Metric:
        """Return the metric of points whose features are divided by the roots of their mean squares."""
        form, roots = self._form, np.sqrt(mean_squares)
        if isinstance(form, _LowRankForm):
            return Metric.low_rank(form.diagonal * mean_squares, form.rows * roots, form.scales, self.threshold)
        return Metric.from_trusted_matrix(form * np.outer(roots, roots), self.threshold)

    def _inner_product(self, other: Metric) -> float:
        """Return the sum of the products of the entries of two matrices."""
        a, b = self._form, other._form
        if not isinstance(a, _LowRankForm) or not isinstance(b, _LowRankForm):
            return float(np.vdot(self.matrix, other.matrix))
        squares_a, squares_b = a.scales @ np.square(a.rows), b.scales @ np.square(b.rows)
        of_diagonals = np.sum(a.diagonal * b.diagonal * np.ones(self.n_features))
        crossed = np.sum(a.diagonal * squares_b) + np.sum(b.diagonal * squares_a)
        return float(of_diagonals + crossed + a.scales @ np.square(a.rows @ b.rows.T) @ b.scales)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Metric is immutable: {name!r} cannot be set; create a new Metric")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Metric is immutable: {name!r} cannot be deleted")

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return int((self._form.rows if isinstance(self._form, _LowRankForm) else self._form).shape[1])

    @property
    def matrix(self) -> Floats:
        """M, of shape (n_features, n_features); read-only. Computed on every access if the metric stores factors."""
        if not isinstance(self._form, _LowRankForm):
            return self._form
        diagonal, rows, scales = self._form
        product = (rows.T * scales) @ rows
        matrix = product / 2.0 + product.T / 2.0
        matrix[np.diag_indices(self.n_features)] += diagonal
        return _read_only(matrix)

    @property
    def diagonal(self) -> Floats:
        """The diagonal of M, of shape (n_features,); for a diagonal metric, the weights of the features."""
        if not isinstance(self._form, _LowRankForm):
            return np.diag(self._form)
        diagonal, rows, scales = self._form
        if self.is_diagonal:
            return np.broadcast_to(diagonal, self.n_features)
        return _read_only(diagonal + scales @ np.square(rows))

    @property
    def components(self) -> Floats:
        """Rows C with ``M = C'C``, the largest eigenvalue first, of shape (rank, n_features); read-only.

        The sign of each row makes its entry of largest size positive. If there are too many rows for an array,
        ``embed(X, n_components)`` may still use the first of them.
        """
        if self._components is None:
            # Cached. If two threads compute it at the same time, both get the same bits.
            object.__setattr__(self, "_components", _read_only(self._all_components()))
        assert self._components is not None
        return self._components

    def _all_components(self) -> Floats:
        n = self.n_features
        if isinstance(self._form, _LowRankForm):
            if self.is_diagonal:
                features, roots = self._nonzero_features()
                self._check_size(len(features) * n)
                components = np.zeros((len(features), n))
                components[np.arange(len(features)), features] = roots
                return components
            if not self._form.diagonal.any():
                return self._top_components()
            self._check_size(n * n)
        eigenvalues, vectors = np.linalg.eigh(self.matrix)
        keep = eigenvalues > n * _EPS * max(eigenvalues[-1], 0.0)
        return _with_signs(vectors.T[keep][::-1], np.sqrt(eigenvalues[keep][::-1]))

    def _top_components(self) -> Floats:
        """Return the components with eigenvalues above a scalar diagonal; they lie in the span of the rows."""
        assert isinstance(self._form, _LowRankForm)
        if self._top is None:
            base, rows, scales = float(self._form.diagonal.max()), self._form.rows, self._form.scales
            if (scales >= 0).all():  # singular values keep twice as many digits as eigenvalues
                roots, vectors = _right_singular_vectors(np.sqrt(scales)[:, None] * rows)
                keep = roots > max(rows.shape) * _EPS * roots.max(initial=0.0)
                top = _with_signs(vectors[keep], np.hypot(np.sqrt(base), roots[keep]))
            else:
                eigenvalues, vectors = self._along_rows()
                size = max(base, float(np.abs(eigenvalues).max()))
                keep = eigenvalues > base + self.n_features * _EPS * size
                top = _with_signs(vectors[keep][::-1], np.sqrt(eigenvalues[keep][::-1]))
            object.__setattr__(self, "_top", _read_only(top))
        assert self._top is not None
        return self._top

    def _along_rows(self) -> tuple[Floats, Floats]:
        """Return the eigenvalues of M in the span of the rows, ascending, and the eigenvectors.

        The diagonal must be a scalar.
        """
        assert isinstance(self._form, _LowRankForm)
        eigenvalues, vectors = self._eigenform_of_rows()
        return eigenvalues + self._form.diagonal.max(), vectors

    def _eigenform_of_rows(self) -> tuple[Floats, Floats]:
        """Return the eigenvalues of ``rows' diag(scales) rows`` in the span of the rows, ascending, and the vectors."""
        assert isinstance(self._form, _LowRankForm)
        _, rows, scales = self._form
        Q, R = np.linalg.qr(rows.T)
        core = (R * scales) @ R.T
        eigenvalues, rotation = np.linalg.eigh(core / 2.0 + core.T / 2.0)
        return eigenvalues, (Q @ rotation).T

    @property
    def is_diagonal(self) -> bool:
        """Whether the metric stores only the weights of the features."""
        return isinstance(self._form, _LowRankForm) and not len(self._form.rows)

    def _nonzero_features(self, n: int | None = None) -> tuple[Any, Floats]:
        """Return the first n features of a diagonal metric by descending non-zero weight, and the weights' roots."""
        assert isinstance(self._form, _LowRankForm)
        weights = np.broadcast_to(self._form.diagonal, self.n_features)
        features = np.argsort(-weights, kind="stable")[: np.count_nonzero(weights)][:n]
        return features, np.sqrt(weights[features])

    def _check_size(self, entries: int) -> None:
        if entries > _MAX_DENSE**2:
            raise ValueError(
                f"all components of this metric in {self.n_features} dimensions would need an array of {entries:,} "
                f"numbers; accepted: at most {_MAX_DENSE**2:,}; embed(X, n_components) can use fewer components"
            )

    @property
    def rank(self) -> int:
        """Number of eigenvalues above rounding, which is the dimension of the embedding."""
        if isinstance(self._form, _LowRankForm):
            diagonal = self._form.diagonal
            if self.is_diagonal:
                return int(np.count_nonzero(np.broadcast_to(diagonal, self.n_features)))
            if diagonal.ndim == 0 and diagonal > 0:
                along, _ = self._along_rows()
                cutoff = self.n_features * _EPS * max(along[-1], float(diagonal))
                outside = self.n_features - len(along) if diagonal > cutoff else 0
                return outside + int(np.count_nonzero(along > cutoff))
        return len(self.components)

    def eigenvalues(self, n: int | None = None) -> Floats:
        """Return the eigenvalues above rounding, or the first n of them, the largest first."""
        if self.is_diagonal:
            return np.square(self._nonzero_features(n)[1])
        return np.asarray(np.square(self._first_components(n)).sum(axis=1))

    def squared_distance(self, x: Any, z: Any) -> Any:
        """Return ``(x - z)' M (x - z)``: a float for two points, an array if x or z has rows.

        Two arrays of rows are compared row by row. SciPy sparse rows are accepted and give an array.
        """
        X, Z = check_same_kind(x, z, "x", "z", 1, 2, n_features=self.n_features)
        if is_sparse(X):  # sparse matrices do not broadcast
            X, Z = _repeat_row(X, Z.shape[0]), _repeat_row(Z, X.shape[0])
        if X.ndim == Z.ndim == 2 and X.shape[0] != Z.shape[0]:
            raise ValueError(
                f"x has {X.shape[0]} rows and z has {Z.shape[0]}; accepted: the same number of rows, or one point"
            )
        return self.squared_length(subtract(X, Z))

    def squared_length(self, u: Any) -> Any:
        """Return ``u' M u``: a float for one difference u, an array for rows of differences, dense or sparse."""
        with np.errstate(over="ignore", invalid="ignore"):  # a distance too large for float64 is infinite
            squares = self._squares_sparse(u) if is_sparse(u) else self._squares(u)
        squares = np.maximum(squares, 0.0)  # rounding can make a zero distance negative
        return squares if np.ndim(squares) else float(squares)

    def length(self, u: Any) -> Any:
        """Return ``sqrt(u' M u)``, the distance of points that differ by u."""
        return np.sqrt(self.squared_length(u))

    def _squares(self, u: Floats) -> Any:
        if not isinstance(self._form, _LowRankForm):
            return np.einsum("...i,...i->...", u @ self._form, u)
        diagonal, rows, scales = self._form
        squares = np.square(u @ rows.T) @ scales
        return squares + np.einsum("...i,...i->...", diagonal * u, u) if diagonal.any() else squares

    def _squares_sparse(self, U: Any) -> Any:
        if not isinstance(self._form, _LowRankForm):
            # In chunks of n rows, so that the product takes no more memory than the matrix.
            n = self.n_features
            chunks = [U[first : first + n] for first in range(0, U.shape[0], n)]
            return np.concatenate([chunk.multiply(chunk @ self._form).sum(axis=1) for chunk in chunks])
        diagonal, rows, scales = self._form
        return U.multiply(U) @ np.broadcast_to(diagonal, self.n_features) + np.square(U @ rows.T) @ scales

    def matmul(self, directions: Floats) -> Floats:
        """Return ``M V`` for V of shape (n_features, n_directions)."""
        if not isinstance(self._form, _LowRankForm):
            return np.asarray(self._form @ directions)
        diagonal, rows, scales = self._form
        return np.asarray(diagonal[..., None] * directions + rows.T @ (scales[:, None] * (rows @ directions)))

    def margin(self, event: Event | Pair | Relative) -> float:
        """Return ``y (mu - u'Mu)`` for a pair and ``far'M far - near'M near`` for a ``Relative``; positive if correct.

        >>> Metric([[4.0]], threshold=2.0).margin(Pair([1.0], [0.0], similar=False))
        2.0
        """
        if isinstance(event, Relative):
            return as_relative(event, self.n_features).margin(self.squared_length, self.threshold)
        u, y = as_event(event, self.n_features)
        return Event(as_dense(u), y).margin(self.squared_length, self.threshold)

    def embed(self, X: Any, n_components: int | None = None) -> Floats:
        """Return ``X C'``, in which the Euclidean distance is this distance; the largest eigenvalue comes first.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or (n_features,), or SciPy sparse rows
        n_components : int or None
            Number of dimensions; None: all. There are fewer if the metric has a smaller rank.
        """
        sparse = is_sparse(X)
        n = self.n_features
        rows: Any = check_sparse(X, "X", n_features=n) if sparse else check_array(X, "X", 1, 2, n_features=n)
        if n_components is not None:
            check_integer(n_components, "n_components", at_least=1)
        if self.is_diagonal:
            features, roots = self._nonzero_features(n_components)
            columns = rows[:, features].toarray() if sparse else rows[..., features]
            return np.asarray(columns * roots)
        return np.asarray(rows @ self._first_components(n_components).T)

    def embed_unordered(self, X: Any) -> Floats:
        """Return an embedding with the same distances as ``embed``, but with axes in no particular order; faster.

        A dense matrix needs only a pivoted Cholesky factorization instead of its eigenvectors.

        >>> metric = Metric([[4.0, 2.0], [2.0, 1.0]])
        >>> metric.embed_unordered([[0.0, 0.0], [1.0, 1.0]]).round(6)
        array([[0.],
               [3.]])
        """
        if isinstance(self._form, _LowRankForm):
            return self.embed(X)
        from scipy.linalg import lapack

        rows = check_array(X, "X", 1, 2, n_features=self.n_features)
        factor, order, rank, _ = lapack.dpstrf(self._form, lower=1)
        return np.asarray(rows[..., order - 1] @ np.tril(factor)[:, :rank])

    def projection(self, items: Any, n_components: int | None = None) -> Floats:
        """Return the matrix P for which ``X @ P`` has about the Euclidean distances that X has by this metric.

        Its columns are the principal axes of the items in the learned space, so that the first columns hold as much of
        the variance between the items as that many can. (``embed(X, n_components)`` orders by eigenvalue instead, which
        may select directions in which the items hardly differ.) A vector database needs nothing but ``X @ P``: store it
        and search it by Euclidean distance. Multiply queries by the same P.

        Parameters
        ----------
        items : array-like of shape (n_items, n_features), SciPy sparse rows, or an iterator over blocks of either
            They are read in blocks, as float64. Large arrays of float32, also mapped from a file, are not copied.
        n_components : int or None
            The number of columns; more than ``rank`` means ``rank``. With ``rank`` columns, the distances of any points
            are exact. None: all axes along which the variance is above rounding; the distances between the items are
            exact.

        Returns
        -------
        float64 array of shape (n_features, n_components)

        Examples
        --------
        >>> metric = Metric.from_diagonal([9.0, 1.0])
        >>> items = np.array([[0.0, 0.0], [0.1, 10.0], [0.0, 20.0]])  # they differ by the second feature
        >>> P = metric.projection(items, n_components=1)
        >>> P.shape
        (2, 1)
        >>> abs(items[2] @ P - items[0] @ P).round(1), round(metric.distance(items[2], items[0]), 1)
        (array([20.]), 20.0)
        """
        if n_components is not None:
            check_integer(n_components, "n_components", at_least=1)
        components = self.components
        axes = PrincipalAxes(len(components))
        for block in iterate_blocks(items, self.n_features):
            axes.add(np.asarray(block @ components.T))
        variances, directions = axes.compute()
        count = axes.count_above_rounding(variances) if n_components is None else n_components
        return np.ascontiguousarray(components.T @ directions[:, :count])

    def _first_components(self, n_components: int | None) -> Floats:
        form = self._form
        if n_components is not None and isinstance(form, _LowRankForm) and form.diagonal.ndim == 0:
            top = self._top_components()
            if n_components <= len(top):
                return top[:n_components]
        return self.components[:n_components]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a safetensors file; an existing file is replaced atomically."""
        state_files.write(path, state_files.METRIC, self.arrays(), {"threshold": self.threshold, "round": self.round})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Metric:
        """Read a metric that ``save`` wrote, with the same bits."""
        arrays, metadata = state_files.read(path, state_files.METRIC, needs_checksum=False)
        with state_files.content_errors(path, state_files.METRIC):
            if "factors" in arrays:  # early files of factored metrics
                return cls.from_factors(arrays["factors"], metadata["threshold"], metadata["round"])
            return cls.from_arrays(arrays, metadata["threshold"], metadata["round"])

    def arrays(self) -> Arrays:
        """Return the read-only arrays that store the metric: ``matrix``, or ``diagonal``, ``rows`` and ``scales``.

        >>> list(Metric.from_diagonal([4.0, 0.0]).arrays())
        ['diagonal', 'rows', 'scales']
        """
        return self._form._asdict() if isinstance(self._form, _LowRankForm) else {"matrix": self._form}

    @classmethod
    def from_arrays(cls, arrays: Arrays, threshold: float, round: int = 0) -> Metric:
        """Return the metric of arrays from ``arrays``, with the same bits; the arrays are checked."""
        if arrays.keys() == set(_LowRankForm._fields):
            return cls._from_low_rank_arrays(_LowRankForm(**arrays), threshold, round)
        if arrays.keys() != {"matrix"} or arrays["matrix"].dtype != np.float64:
            got = {name: str(array.dtype) for name, array in arrays.items()}
            raise ValueError(f"a metric has the float64 array matrix, or diagonal, rows and scales; got {got}")
        return cls(arrays["matrix"], threshold, round)

    @classmethod
    def _from_low_rank_arrays(cls, parts: _LowRankForm, threshold: float, round: int) -> Metric:
        """Check the arrays of a low-rank form and return their metric."""
        diagonal, rows, scales = parts
        n = rows.shape[-1]
        if rows.ndim != 2 or scales.shape != rows.shape[:1] or diagonal.shape not in ((), (n,)) or n == 0:
            raise ValueError(
                f"diagonal, rows and scales have incompatible shapes {diagonal.shape}, {rows.shape} and {scales.shape}"
            )
        if any(part.dtype != np.float64 or not np.isfinite(part).all() for part in parts) or diagonal.min() < 0:
            raise ValueError("diagonal, rows and scales must be finite float64 numbers, and the diagonal not negative")
        metric = cls.low_rank(*parts, *_check_threshold_and_round(threshold, round))
        with np.errstate(over="ignore", invalid="ignore"):
            size = float(diagonal.max() + np.abs(scales) @ np.square(rows).sum(axis=1))
        if not np.isfinite(size):
            raise ValueError("the rows are too large: the squares of their entries overflow")
        if (scales < 0).any() and diagonal.ndim and n > _MAX_DENSE:
            if not _is_positive(diagonal + _ROUNDING * size, rows, scales):
                raise ValueError("the metric has a negative eigenvalue")
        elif (scales < 0).any():
            lowest = np.linalg.eigvalsh(metric.matrix)[0] if diagonal.ndim else metric._along_rows()[0][0]
            if lowest < -_ROUNDING * size:
                raise ValueError(f"the metric has the negative eigenvalue {lowest:.3g}")
        return metric

    def __eq__(self, other: object) -> bool:
        """Return whether threshold, round and the stored arrays have the same bits."""
        if not isinstance(other, Metric):
            return NotImplemented
        if (self.threshold, self.round) != (other.threshold, other.round):
            return False
        mine, theirs = self._form, other._form
        if isinstance(mine, _LowRankForm) and isinstance(theirs, _LowRankForm):
            return all(map(np.array_equal, mine, theirs))
        return type(mine) is type(theirs) and np.array_equal(mine, theirs)

    def __hash__(self) -> int:
        return hash((self.threshold, self.round, self.n_features))

    def __deepcopy__(self, memo: dict[int, Any]) -> Metric:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._form, self.threshold, self.round)

    def __repr__(self) -> str:
        return f"Metric(n_features={self.n_features}, threshold={self.threshold:.6g}, round={self.round})"


def check_metric(metric: Any, *others: type) -> None:
    """Raise TypeError if a value is neither a ``Metric`` nor of one of the other types.

    >>> check_metric(np.eye(2))
    Traceback (most recent call last):
        ...
    TypeError: metric is a ndarray; accepted: a Metric, such as tracker.metric_
    """
    if not isinstance(metric, (Metric, *others)):
        raise TypeError(f"metric is a {type(metric).__name__}; accepted: a Metric, such as tracker.metric_")


def _restore(form: Floats | _LowRankForm, threshold: float, round: int) -> Metric:
    return Metric.__new__(Metric)._set_form(form, threshold, round)


def _as_vector(point: Any, name: str) -> Any:
    """Return a point without axes of length 1, as metric-learn does; sparse rows stay as they are."""
    if is_sparse(point):
        return point
    shape = np.shape(point)
    vector = np.atleast_1d(np.squeeze(np.asarray(point))) if len(shape) != 1 else point
    if len(np.shape(vector)) > 1:
        raise ValueError(
            f"{name} has shape {shape}; accepted: one point; distance(x, z) compares two arrays row by row"
        )
    return vector


def _repeat_row(rows: Any, count: int) -> Any:
    """Repeat a single sparse row ``count`` times; return several rows unchanged."""
    return rows[np.zeros(count, dtype=np.int64)] if rows.shape[0] == 1 else rows


def _right_singular_vectors(rows: Floats) -> tuple[Floats, Floats]:
    """Return the singular values of a matrix, the largest first, and the right singular vectors.

    Values at the level of rounding may be missing. The learners of an ensemble are alike, so that their k directions
    together often have a small rank. The decomposition is then done in a basis of that rank.
    """
    used = np.flatnonzero(rows.any(axis=0))
    A = np.ascontiguousarray(rows[:, used]) if len(used) < rows.shape[1] else rows
    basis = _low_rank_basis(A)
    if basis is None:
        _, roots, inside = np.linalg.svd(A, full_matrices=False)
    else:
        _, roots, rotation = np.linalg.svd(A @ basis.T, full_matrices=False)
        inside = rotation @ basis
    vectors = np.zeros((len(inside), rows.shape[1]))
    vectors[:, used] = inside
    return roots, vectors


def _low_rank_basis(A: Floats) -> Floats | None:
    """Return orthonormal rows that span those of A if a quarter as many suffice, else None.

    Uses random combinations of the rows with a fixed seed, and checks the residual (Halko, Martinsson and Tropp 2011,
    algorithm 4.1).
    """
    k, n = A.shape
    if k < _MANY_ROWS or n < k:
        return None
    combinations = np.random.default_rng(0).normal(size=(k // 4, k)) @ A
    basis = np.linalg.qr(combinations.T)[0].T
    left = np.linalg.norm(A - (A @ basis.T) @ basis)
    return np.ascontiguousarray(basis) if left <= 1e-13 * np.linalg.norm(A) else None


def _with_signs(directions: Floats, roots: Floats) -> Floats:
    """Return the directions scaled to lengths ``roots``, each with the sign that makes its largest entry positive."""
    if not len(directions):
        return np.zeros_like(directions)
    largest = directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)]
    return np.ascontiguousarray(directions * (np.sign(largest) * roots)[:, None])


def _check_threshold_and_round(threshold: Any, round: Any) -> tuple[float, int]:
    return check_number(threshold, "threshold"), check_integer(round, "round", at_least=0)


def _read_only(array: Floats) -> Floats:
    array.flags.writeable = False
    return array


def _is_positive(diagonal: Floats, rows: Floats, scales: Floats) -> bool:
    """Return whether ``D + R' S R`` has no negative eigenvalue, for a positive diagonal D; the matrix is not computed.

    It has none if ``I + Q' S Q`` has none, where ``Q = R D^(-1/2)``; its eigenvalues other than 1 are those of the
    small matrix ``I + T S T'``, where T is the triangle of ``Q'``.

    >>> rows = np.array([[1.0, 1.0, 0.0]])
    >>> [_is_positive(np.array([1.0, 2.0, 3.0]), rows, np.array([scale])) for scale in (-0.6, -0.7)]
    [True, False]
    """
    T = np.asarray(np.linalg.qr((rows / np.sqrt(diagonal)).T, mode="r"))
    return bool(np.linalg.eigvalsh((T * scales) @ T.T)[0] >= -1.0)
