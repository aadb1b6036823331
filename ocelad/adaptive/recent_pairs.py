"""RecentPairs: the points and answers of the latest pairs, from which a feature map is drawn and learned again."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad._validation import is_sparse
from ocelad.ensemble.state_reader import StateReader
from ocelad.pairs import PointPairs

#: Numbers of all stored points together, at most, but at least MIN_PAIRS pairs are stored.
MAX_NUMBERS, MIN_PAIRS = 2**20, 64
# Larger entries, in units of the first points, are cut.
MAX_SINGLE = 1e37


class _Part(NamedTuple):
    X: Any
    Z: Any
    y: Floats
    weights: Floats


class RecentPairs:
    """The last pairs of a stream: points in single precision, answers and weights. Copies share their parts.

    Dense points are stored relative to the first one, and all points in units of a power of two near the first length.
    So neither the origin nor the unit of the data matters.

    Parameters
    ----------
    n_features : int
    max_pairs : int
        Fewer pairs of many features are stored.
    """

    def __init__(self, n_features: int, max_pairs: int) -> None:
        self._n_features = n_features
        self.capacity = min(max_pairs, max(MIN_PAIRS, MAX_NUMBERS // (2 * n_features)))
        self._parts: tuple[_Part, ...] = ()
        self._n_stored = 0
        self._exponent: int | None = None
        self._origin: Floats | None = None

    def __len__(self) -> int:
        return min(self._n_stored, self.capacity)

    def add(self, pairs: PointPairs, weights: Floats) -> None:
        """Add pairs; the oldest ones beyond the capacity are dropped."""
        X, Z = pairs.X, pairs.Z
        if not is_sparse(X):
            self._origin = X[0].copy() if self._origin is None else self._origin
            X, Z = X - self._origin, Z - self._origin
        if self._exponent is None:
            self._exponent = _first_exponent(PointPairs.from_trusted(X, Z, pairs.y))
        X, Z = (_as_singles(points, -(self._exponent or 0)) for points in (X, Z))
        self._parts = (*self._parts, _Part(X, Z, pairs.y.copy(), weights.copy()))
        self._n_stored += len(pairs)
        if self._n_stored >= 2 * self.capacity:
            self._parts, self._n_stored = (self._last(),), self.capacity

    def pairs(self) -> tuple[PointPairs, Floats]:
        """Return the pairs, oldest first, and their weights; there must be some."""
        last = self._last()
        X, Z = (_as_doubles(points, self._exponent or 0) for points in (last.X, last.Z))
        if self._origin is not None:
            X, Z = X + self._origin, Z + self._origin
        return PointPairs.from_trusted(X, Z, last.y), last.weights

    def _last(self) -> _Part:
        """Return the pairs up to the capacity in one part."""
        joined = (_stack([getattr(part, name) for part in self._parts])[-self.capacity :] for name in _Part._fields)
        return _Part(*joined)

    def arrays(self) -> Arrays:
        """Return the pairs as copies of arrays."""
        if not self._parts:
            return {}
        part = self._last()
        exponent = np.array([self._exponent or 0], dtype=np.int64)
        arrays: dict[str, Any] = {"y": part.y.copy(), "weights": part.weights.copy(), "exponent": exponent}
        if self._origin is not None:
            arrays["origin"] = self._origin.copy()
        for name, points in (("X", part.X), ("Z", part.Z)):
            if is_sparse(points):
                arrays |= {f"{name}_data": points.data.copy(), f"{name}_indices": points.indices.astype(np.int64)}
                arrays[f"{name}_indptr"] = points.indptr.astype(np.int64)
            else:
                arrays[name] = points.copy()
        return arrays

    @classmethod
    def restore(cls, saved: StateReader, n_features: int, max_pairs: int, sparse: bool) -> Self:
        """Return the pairs that ``arrays`` returned, after checking them."""
        pairs = cls(n_features, max_pairs)
        if saved.size("y") == 0:
            return pairs
        y = saved.floats("y", (None,), -1.0, 1.0)
        if len(y) > pairs.capacity or not np.isin(y, (-1.0, 1.0)).all():
            raise ValueError(f"saved array 'y' must hold at most {pairs.capacity} answers, +1 or -1")
        weights = saved.floats("weights", (len(y),), at_least=0.0)
        points = [_read_points(saved, name, len(y), n_features, sparse) for name in ("X", "Z")]
        pairs._origin = None if sparse else saved.floats("origin", (n_features,))
        pairs._exponent = int(saved.integers("exponent", (1,), -1100, 1100)[0])
        pairs._parts, pairs._n_stored = (_Part(points[0], points[1], y, weights),), len(y)
        return pairs


def _first_exponent(pairs: PointPairs) -> int | None:
    """Return the exponent of the largest entry of the first pair that has one; None if all points are zero."""
    for at in range(len(pairs)):
        first = pairs[at : at + 1]
        size = max(float(abs(points).max()) for points in (first.X, first.Z))
        if size > 0.0:
            return int(np.frexp(size)[1])
    return None


def _as_singles(points: Any, exponent: int) -> Any:
    with np.errstate(over="ignore"):
        values = np.ldexp(points.data if is_sparse(points) else points, exponent)
    values = np.clip(values, -MAX_SINGLE, MAX_SINGLE)
    if not is_sparse(points):
        return values.astype(np.float32)
    return type(points)((values.astype(np.float32), points.indices, points.indptr), shape=points.shape)


def _as_doubles(points: Any, exponent: int) -> Any:
    if not is_sparse(points):
        return np.ldexp(points.astype(np.float64), exponent)
    return type(points)(
        (np.ldexp(points.data.astype(np.float64), exponent), points.indices, points.indptr), shape=points.shape
    )


def _stack(parts: list[Any]) -> Any:
    if not is_sparse(parts[0]):
        return np.concatenate(parts)
    from scipy.sparse import vstack

    return vstack(parts, format="csr")


def _read_points(saved: StateReader, name: str, count: int, n_features: int, sparse: bool) -> Any:
    if not sparse:
        return saved.singles(name, (count, n_features))
    from scipy.sparse import csr_array

    data = saved.singles(f"{name}_data", (None,))
    return csr_array((data, *saved.csr_rows(f"{name}_", count, len(data), n_features)), shape=(count, n_features))
