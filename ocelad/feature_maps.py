"""Feature maps: curved features of points, in which a linear distance can follow curved classes."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad._validation import is_sparse
from ocelad.ensemble.state_reader import StateReader

# Eigenvalues of the landmarks' kernel matrix below this share of the largest one are noise, and dropped.
_MIN_EIGENVALUE = 1e-3
#: Outputs of a map that the user gave, at most.
MAX_OWN_OUTPUTS = 4096


class FeatureMap(Protocol):
    """A map of points to curved features; ``LandmarkMap``, or ``OwnMap`` around a map that the user gave."""

    @property
    def n_features(self) -> int: ...

    @property
    def n_outputs(self) -> int: ...

    def __call__(self, X: Any) -> Floats: ...


def to_unit_length(X: Any) -> Any:
    """Return points, one per row, dense or sparse, divided by their lengths; a zero point stays zero.

    Squared Euclidean distances of the result are ``2 - 2 cos`` of the angle between two points.

    >>> to_unit_length(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    values = X.data if is_sparse(X) else X
    # Lengths of rows whose largest entry is 1 can neither overflow nor vanish.
    if is_sparse(X):
        sizes = np.asarray(abs(X).max(axis=1).todense()).ravel() if X.nnz else np.zeros(X.shape[0])
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        values = values / np.where(sizes > 0.0, sizes, 1.0)[rows]
        lengths = np.sqrt(np.bincount(rows, np.square(values), X.shape[0]))
        return type(X)((values / np.where(lengths > 0.0, lengths, 1.0)[rows], X.indices, X.indptr), shape=X.shape)
    sizes = np.abs(values).max(axis=-1, keepdims=True, initial=0.0)
    values = values / np.where(sizes > 0.0, sizes, 1.0)
    lengths = np.sqrt(np.einsum("...i,...i->...", values, values))[..., None]
    return values / np.where(lengths > 0.0, lengths, 1.0)


class LandmarkMap:
    """The Nystroem map of a Gaussian kernel: inner products of curved features are about ``exp(-|x - z|^2 / width)``.

    A curved feature is a combination of the similarities to landmarks, which are some of the points (Williams and
    Seeger 2001). So near points have similar features, and all points that are far from each other are equally far.

    Parameters
    ----------
    offsets : array of shape (n_landmarks, n_features), or ``csr_array``
        The landmarks relative to the origin: numbers that single precision can store, up to a power of two.
    width : float
    projection : array of shape (n_landmarks, n_outputs)
        ``K^(-1/2)`` of the landmarks' kernel matrix K, in its eigenvectors; in single precision, to be stored.
    origin : array of shape (n_features,), or None
        A point amid the landmarks: distances of points far from zero would lose digits. None: zero.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> features = LandmarkMap.from_points(X, 100, rng)(X)
    >>> distances = np.square(features[:250] - features[250:]).sum(axis=1)
    >>> bool(np.corrcoef(distances, np.square(X[:250] - X[250:]).sum(axis=1))[0, 1] > 0.7)
    True
    """

    def __init__(self, offsets: Any, width: float, projection: Floats, origin: Floats | None = None) -> None:
        self._offsets, self.width, self.projection, self._origin = offsets, width, projection, origin
        self._projection = projection.astype(np.float64)

    @classmethod
    def from_points(
        cls, points: Any, n_landmarks: int, rng: np.random.Generator, *, max_outputs: int | None = None
    ) -> LandmarkMap:
        """Return a map whose landmarks are drawn from the points, with the median squared distance as its width.

        Parameters
        ----------
        points : array or ``csr_array`` of shape (n_points, n_features)
            At least two different ones.
        n_landmarks : int
            At most; equal points count once.
        rng : Generator
        max_outputs : int or None
            The number of curved features, at most: those with the largest eigenvalues.
        """
        drawn = points[np.sort(rng.permutation(points.shape[0])[:n_landmarks])]
        origin = None if is_sparse(drawn) else np.median(drawn, axis=0)
        offsets = _in_single_precision(drawn if origin is None else drawn - origin)
        offsets = offsets[_first_of_equal_rows(offsets)]
        distances = _squared_distances(offsets, offsets)
        between = distances[np.triu_indices(len(distances), 1)]
        between = between[between > 0.0]  # others are 0 by rounding
        if not len(between):
            raise ValueError("all points are equal; accepted: at least two different points")
        width = float(np.median(between))
        eigenvalues, vectors = np.linalg.eigh(np.exp(-distances / width))
        kept = eigenvalues > _MIN_EIGENVALUE * eigenvalues[-1]
        # The largest eigenvalue first, in the signs that make entries of largest size positive.
        rows, roots = vectors.T[kept][::-1][:max_outputs], np.sqrt(eigenvalues[kept][::-1][:max_outputs])
        rows = rows * np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)])[:, None]
        return cls(offsets, width, np.ascontiguousarray((rows / roots[:, None]).T, dtype=np.float32), origin)

    @property
    def landmarks(self) -> Any:
        """The landmarks, one per row."""
        return self._offsets if self._origin is None else self._offsets + self._origin

    @property
    def n_features(self) -> int:
        """The number of features of a point."""
        return int(self._offsets.shape[1])

    @property
    def n_outputs(self) -> int:
        """The number of curved features."""
        return int(self.projection.shape[1])

    def similarities(self, X: Any) -> Floats:
        """Return the similarity of points, one per row, dense or sparse, to each landmark.

        A stack of arrays gives a stack of arrays.
        """
        distances = _squared_distances(X if self._origin is None else X - self._origin, self._offsets)
        return np.asarray(np.exp(-distances / self.width))

    def __call__(self, X: Any) -> Floats:
        """Return the curved features of points: an array of shape (n_rows, n_outputs); see ``similarities``."""
        return np.asarray(self.similarities(X) @ self._projection)

    def arrays(self) -> Arrays:
        """Return copies of the arrays that store the map."""
        L = self._offsets
        values = L.data if is_sparse(L) else L
        exponent = _exponent(values)
        arrays: Arrays = {
            "width": np.array([self.width]),
            "projection": self.projection.copy(),
            "exponent": np.array([exponent], dtype=np.int64),
        }
        stored = np.ldexp(values, -exponent).astype(np.float32)
        if self._origin is not None:
            return {**arrays, "offsets": stored, "origin": self._origin.copy()}
        parts = {"data": stored, "indices": L.indices.astype(np.int64), "indptr": L.indptr.astype(np.int64)}
        return {**arrays, **parts, "n_features": np.array([L.shape[1]], dtype=np.int64)}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> LandmarkMap:
        """Return the map of saved ``arrays``, with the same bits, after checking them."""
        saved = StateReader(arrays, {})
        width, projection = (
            float(saved.floats("width", (1,), at_least=0.0)[0]),
            saved.singles("projection", (None, None)),
        )
        exponent, count = int(saved.integers("exponent", (1,), -1100, 1100)[0]), len(projection)
        origin: Floats | None = None
        if saved.size("offsets"):
            offsets: Any = np.ldexp(saved.singles("offsets", (count, None)).astype(np.float64), exponent)
            origin = saved.floats("origin", (offsets.shape[1],))
        else:
            from scipy.sparse import csr_array

            n_features = int(saved.integers("n_features", (1,), 1, 2**53)[0])
            data = np.ldexp(saved.singles("data", (None,)).astype(np.float64), exponent)
            offsets = csr_array((data, *saved.csr_rows("", count, len(data), n_features)), shape=(count, n_features))
        saved.expect_end()
        if width <= 0.0 or 0 in projection.shape or not np.isfinite(offsets.data if origin is None else offsets).all():
            raise ValueError(f"a map has the width {width} and a projection of shape {projection.shape}")
        return cls(offsets, width, projection, origin)


class OwnMap:
    """A map that the user gave: a fitted transformer of scikit-learn, or a function of points.

    Parameters
    ----------
    function : transformer, or callable (X) -> array of shape (n_rows, n_outputs)
    points : array or ``csr_array`` of shape (n_points, n_features)
        Some points, at which the number of outputs is read.

    Examples
    --------
    >>> own_map = OwnMap(np.square, np.ones((1, 3)))
    >>> own_map.n_outputs, own_map(np.array([[1.0, 2.0, 3.0]]))
    (3, array([[1., 4., 9.]]))
    """

    def __init__(self, function: Any, points: Any) -> None:
        self.function, self.n_features = function, int(points.shape[1])
        self._transform = function.transform if hasattr(function, "transform") else function
        self.n_outputs = 0  # until the first call
        self.n_outputs = int(self(points[:1]).shape[1])
        if not 1 <= self.n_outputs <= MAX_OWN_OUTPUTS:
            raise ValueError(f"{self._name} has {self.n_outputs} outputs; accepted: 1 to {MAX_OWN_OUTPUTS}")

    @property
    def _name(self) -> str:
        return f"the feature map {type(self.function).__name__}"

    def __call__(self, X: Any) -> Floats:
        """Return the features of points, one per row; a stack of arrays gives a stack of arrays."""
        rows = X.reshape(-1, self.n_features) if len(X.shape) > 2 else X
        values = self._transform(rows)
        values = values.toarray() if is_sparse(values) else np.asarray(values)
        if values.ndim != 2 or len(values) != rows.shape[0] or values.shape[1] != (self.n_outputs or values.shape[1]):
            expected = self.n_outputs or "n_outputs"
            raise ValueError(
                f"{self._name} returned shape {values.shape} for {rows.shape[0]} points; accepted: "
                f"({rows.shape[0]}, {expected})"
            )
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise ValueError(f"{self._name} returned values that are not finite numbers")
        return values.astype(np.float64).reshape(*X.shape[:-1], values.shape[1])


def _in_single_precision(points: Any) -> Any:
    """Return the points with entries that single precision can store, relative to a power of two."""
    values = points.data if is_sparse(points) else points
    exponent = _exponent(values)
    rounded = np.ldexp(np.ldexp(values, -exponent).astype(np.float32).astype(np.float64), exponent)
    return type(points)((rounded, points.indices, points.indptr), shape=points.shape) if is_sparse(points) else rounded


def _exponent(values: Floats) -> int:
    """Return the exponent of the largest entry."""
    return int(np.frexp(np.abs(values).max(initial=0.0))[1])


def _first_of_equal_rows(rows: Any) -> np.ndarray:
    """Return the positions of the rows that equal no earlier one."""
    if is_sparse(rows):
        bounds = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        keys = [(rows.indices[a:b].tobytes(), rows.data[a:b].tobytes()) for a, b in bounds]
    else:
        keys = [(b"", row.tobytes()) for row in rows + 0.0]  # makes -0.0 equal to 0.0
    return np.array([i for i, key in enumerate(keys) if keys.index(key) == i])


def _squared_distances(X: Any, Z: Any) -> Floats:
    """Return the squared distance of each row of X to each row of Z; X may be a stack of arrays."""
    products = X @ Z.T
    products = products.toarray() if is_sparse(products) else products
    return np.asarray(np.maximum(_squared_lengths(X)[..., None] + _squared_lengths(Z) - 2.0 * products, 0.0))


def _squared_lengths(X: Any) -> Floats:
    return np.asarray(X.multiply(X).sum(axis=1) if is_sparse(X) else np.einsum("...i,...i->...", X, X))
