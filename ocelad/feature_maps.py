"""Feature maps: curved features of points, in which a linear distance can follow curved classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad._validation import is_sparse

# Eigenvalues of the landmarks' kernel matrix below this share of the largest one are noise, and dropped.
_MIN_EIGENVALUE = 1e-3
# Points from which the median distance is estimated.
_MEDIAN_POINTS = 200


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
        n_landmarks : int
            At most; equal points are drawn once.
        rng : Generator
        max_outputs : int or None
            The number of curved features, at most: those with the largest eigenvalues.
        """
        drawn = points[np.sort(rng.permutation(points.shape[0])[:n_landmarks])]
        origin = None if is_sparse(drawn) else drawn.mean(axis=0)
        drawn = _in_single_precision(drawn if origin is None else drawn - origin)
        distances = _squared_distances(drawn, drawn)
        first = np.array([not (distances[i, :i] <= 1e-12 * distances.max()).any() for i in range(len(distances))])
        offsets, distances = drawn[first], distances[np.ix_(first, first)]
        sample = distances[:_MEDIAN_POINTS, :_MEDIAN_POINTS]
        between = sample[np.triu_indices(len(sample), 1)]
        width = float(np.median(between)) if len(between) else 1.0
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

    def __call__(self, X: Any) -> Floats:
        """Return the curved features of points, one per row, dense or sparse: an array of shape (n_rows, n_outputs).

        A stack of arrays gives a stack of arrays.
        """
        distances = _squared_distances(X if self._origin is None else X - self._origin, self._offsets)
        return np.asarray(np.exp(-distances / self.width) @ self._projection)

    def arrays(self) -> Arrays:
        """Return the arrays that store the map."""
        L = self._offsets
        values = L.data if is_sparse(L) else L
        exponent = _exponent(values)
        stored = np.ldexp(values, -exponent).astype(np.float32)
        arrays: Arrays = {"width": np.array(self.width), "projection": self.projection, "exponent": np.array(exponent)}
        if self._origin is not None:
            return {**arrays, "offsets": stored, "origin": self._origin}
        parts = {"data": stored, "indices": L.indices.astype(np.int64), "indptr": L.indptr.astype(np.int64)}
        return {**arrays, **parts, "n_features": np.array(L.shape[1])}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> LandmarkMap:
        """Return the map of saved ``arrays``, with the same bits, after checking them."""
        known = {"offsets", "origin"} if "offsets" in arrays else {"data", "indices", "indptr", "n_features"}
        if arrays.keys() != {"width", "projection", "exponent"} | known:
            raise ValueError(
                f"a map has the arrays width, projection, exponent, offsets and origin; got {sorted(arrays)}"
            )
        if any(array.dtype.kind == "f" and not np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("a map must have finite numbers")
        exponent = int(arrays["exponent"])
        if not -1100 <= exponent <= 1100:
            raise ValueError(f"a map has the exponent {exponent}; accepted: -1100 to 1100")
        origin = arrays.get("origin")
        if "offsets" in arrays:
            offsets: Any = np.ldexp(arrays["offsets"].astype(np.float64), exponent)
        else:
            from scipy.sparse import csr_array

            shape = (len(arrays["indptr"]) - 1, int(arrays["n_features"]))
            data = np.ldexp(arrays["data"].astype(np.float64), exponent)
            offsets = csr_array((data, arrays["indices"], arrays["indptr"]), shape=shape)
        width, projection = float(arrays["width"]), arrays["projection"]
        if offsets.ndim != 2 or projection.ndim != 2 or len(projection) != offsets.shape[0] or width <= 0.0:
            raise ValueError(f"a map has incompatible arrays: {offsets.shape} landmarks, {projection.shape}, {width}")
        if origin is not None and origin.shape != offsets.shape[1:]:
            raise ValueError(f"a map has {offsets.shape[1]} features and an origin of shape {origin.shape}")
        return cls(offsets, width, projection, origin)


def _in_single_precision(points: Any) -> Any:
    """Return the points with entries that single precision can store, relative to a power of two."""
    values = points.data if is_sparse(points) else points
    exponent = _exponent(values)
    rounded = np.ldexp(np.ldexp(values, -exponent).astype(np.float32).astype(np.float64), exponent)
    return type(points)((rounded, points.indices, points.indptr), shape=points.shape) if is_sparse(points) else rounded


def _exponent(values: Floats) -> int:
    """Return the exponent of the largest entry."""
    return int(np.frexp(np.abs(values).max(initial=0.0))[1])


def _squared_distances(X: Any, Z: Any) -> Floats:
    """Return the squared distance of each row of X to each row of Z; X may be a stack of arrays."""
    products = X @ Z.T
    products = products.toarray() if is_sparse(products) else products
    return np.asarray(np.maximum(_squared_lengths(X)[..., None] + _squared_lengths(Z) - 2.0 * products, 0.0))


def _squared_lengths(X: Any) -> Floats:
    return np.asarray(X.multiply(X).sum(axis=1) if is_sparse(X) else np.einsum("...i,...i->...", X, X))
