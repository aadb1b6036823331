"""A comparison of two points, and what of it the learners see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from ocelad import checks
from ocelad.checks import Floats


class SparseVector(NamedTuple):
    """A difference of which only the entries that are not zero are held; immutable.

    ``as_sparse`` makes one, checked, from an array, from a SciPy sparse row, or from another one.
    """

    indices: npt.NDArray[np.int64]
    values: Floats
    n_features: int


class Event(NamedTuple):
    """What the core sees of a pair: the difference ``u = x - z`` and the label ``y``, +1 similar, -1 dissimilar.

    u is an array of shape (n_features,) or a ``SparseVector``. Made by ``Pair(x, z, similar).event()``.
    """

    u: Any
    y: float


class Pair:
    """Two points, and whether they are similar.

    Parameters
    ----------
    x, z : array-like of shape (n_features,), or SciPy sparse rows of shape (1, n_features)
        The points; finite numbers.
    similar : bool, or +1 / -1
        The answer to "are these two the same?".

    Examples
    --------
    >>> Pair([3.0, 1.0], [1.0, 1.0], similar=True).event()
    Event(u=array([2., 0.]), y=1.0)
    """

    __slots__ = ("similar", "x", "z")

    def __init__(self, x: Any, z: Any, similar: Any) -> None:
        self.x, self.z = alike(x, z, "x", "z", 1)
        for point, name in ((self.x, "x"), (self.z, "z")):
            if len(point.shape) == 2 and point.shape[0] != 1:
                raise ValueError(f"{name} has shape {point.shape}; accepted: one sparse row, shape (1, n_features)")
        self.similar = checks.label(similar, "similar") > 0

    def event(self) -> Event:
        """The pair as the core sees it."""
        u = subtract(self.x, self.z)
        return Event(sparse_row(u, 0) if checks.is_sparse(u) else u, 1.0 if self.similar else -1.0)

    def __repr__(self) -> str:
        return f"Pair(x={self.x!r}, z={self.z!r}, similar={self.similar})"


class Events:
    """Many events as arrays: the differences, one per row of U, and their labels; checked. Iterates over the events.

    Parameters
    ----------
    U : array-like or SciPy sparse matrix of shape (n_events, n_features)
        A sparse one is kept as a ``csr_array`` with sorted indices, without stored zeros, and its events have a
        ``SparseVector`` each.
    y : array-like of shape (n_events,)
        +1 (or True) for similar, -1 (or False) for dissimilar.

    Examples
    --------
    >>> [event.y for event in Events([[1.0, 2.0], [0.0, 3.0]], [True, -1])]
    [1.0, -1.0]
    """

    __slots__ = ("U", "sparse", "y")

    U: Any
    sparse: bool
    y: Floats

    def __init__(self, U: Any, y: Any) -> None:
        self.sparse = checks.is_sparse(U)
        self.U = _short(checks.sparse(U, "U") if self.sparse else checks.array(U, "U", 2).copy())
        self.y = checks.labels(y, "y", self.U.shape[0]).copy()

    def __len__(self) -> int:
        return int(self.U.shape[0])

    @overload
    def __getitem__(self, at: int) -> Event: ...

    @overload
    def __getitem__(self, at: slice) -> Events: ...

    def __getitem__(self, at: int | slice) -> Event | Events:
        """One event, or some of them in a row."""
        if isinstance(at, slice):
            part = object.__new__(Events)
            part.U, part.y, part.sparse = self.U[at], self.y[at], self.sparse
            return part
        if not isinstance(at, (int, np.integer)):
            raise TypeError(f"events are counted by whole numbers, or slices of them; got {at!r}")
        if not -len(self) <= at < len(self):
            raise IndexError(f"there is no event {at}; there are {len(self)}")
        at %= len(self)
        return Event(sparse_row(self.U, at) if self.sparse else self.U[at], float(self.y[at]))

    def __iter__(self) -> Iterator[Event]:
        return (self[i] for i in range(len(self)))


def as_event(event: Event | Pair, n_features: int) -> Event:
    """The event of a pair, or the event itself; checked. A sparse difference stays sparse."""
    if isinstance(event, Pair):
        event = event.event()
    if not isinstance(event, Event):
        raise TypeError(f"an event must be a Pair(x, z, similar) or an Event(u, y); got {type(event).__name__}")
    sparse = isinstance(event.u, SparseVector) or checks.is_sparse(event.u)
    u = as_sparse(event.u, n_features) if sparse else as_dense(event.u, n_features)
    return Event(u, checks.label(event.y, "the pair's label y"))


def as_dense(u: Any, n_features: int | None = None) -> Floats:
    """A difference as an array of shape (n_features,); checked.

    >>> as_dense(SparseVector(np.array([2]), np.array([5.0]), 4))
    array([0., 0., 5., 0.])
    """
    if not isinstance(u, SparseVector) and not checks.is_sparse(u):
        dense: Floats = _short(checks.array(u, "the pair's difference", 1, n_features=n_features))
        return dense
    vector = as_sparse(u, n_features)
    dense = np.zeros(vector.n_features)
    dense[vector.indices] = vector.values
    return dense


def as_sparse(u: Any, n_features: int | None = None) -> SparseVector:
    """A difference as a ``SparseVector``: checked, its indices in ascending order, its zeros left out.

    >>> as_sparse([0.0, 0.0, 5.0, 0.0])
    SparseVector(indices=array([2]), values=array([5.]), n_features=4)
    """
    name = "the pair's difference"
    if isinstance(u, SparseVector):
        return _checked(u, n_features)
    if checks.is_sparse(u):
        row = _short(checks.sparse(u, name, n_features=n_features))
        if row.shape[0] != 1:
            raise ValueError(f"{name} has shape {row.shape}; accepted: one sparse row, shape (1, n_features)")
        return sparse_row(row, 0)
    dense = as_dense(u, n_features)
    indices = np.flatnonzero(dense)
    return _vector(indices, dense[indices], len(dense))


def differences(pairs: Any, n_features: int | None = None) -> Any:
    """``x - z`` of each of the pairs: an array of shape (n_pairs, 2, n_features), or sparse rows X and Z as (X, Z).

    >>> differences([[[1, 2], [0, 2]], [[5, 5], [5, 4]]])
    array([[1., 0.],
           [0., 1.]])
    >>> from scipy.sparse import csr_array
    >>> differences((csr_array([[1, 2], [5, 5]]), csr_array([[0, 2], [5, 4]]))).toarray()
    array([[1., 0.],
           [0., 1.]])
    """
    if checks.is_sparse(pairs):
        raise TypeError("pairs is one sparse matrix; accepted: two of them, pairs=(X, Z), one pair per row")
    if isinstance(pairs, (tuple, list)) and len(pairs) == 2 and any(map(checks.is_sparse, pairs)):
        X, Z = alike(pairs[0], pairs[1], "X", "Z", 2, n_features=n_features)
        if X.shape[0] != Z.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and Z has {Z.shape[0]}; accepted: as many, one pair per row")
        return subtract(X, Z)
    checked = checks.array(pairs, "pairs", 3, n_features=n_features)
    if checked.shape[1] != 2:
        raise ValueError(f"pairs has shape {checked.shape}; accepted: numbers of shape (n_pairs, 2, n_features)")
    return subtract(checked[:, 0], checked[:, 1])


def subtract(X: Any, Z: Any) -> Any:
    """``X - Z`` of two arrays or two sparse matrices, refused where the squared length of a difference overflows."""
    with np.errstate(over="ignore"):
        return _short(X - Z)


def _short(U: Any) -> Any:
    """The differences, refused where the squared length of one overflows."""
    with np.errstate(over="ignore"):
        lengths = U.multiply(U).sum(axis=1) if checks.is_sparse(U) else np.einsum("...i,...i->...", U, U)
    if not np.isfinite(lengths).all():
        row = int(np.flatnonzero(~np.isfinite(lengths))[0])
        raise ValueError(
            f"the points of pair {row} are too far apart: their squared distance overflows; "
            "accepted: differences up to about 1e150"
        )
    return U


def alike(x: Any, z: Any, x_name: str, z_name: str, *ndims: int, n_features: int | None = None) -> tuple[Any, Any]:
    """Two points, or rows of them: both sparse or both arrays, of as many features."""
    if checks.is_sparse(x) != checks.is_sparse(z):
        one, other = (x_name, z_name) if checks.is_sparse(x) else (z_name, x_name)
        raise TypeError(f"{one} is sparse and {other} is not; accepted: both sparse, or both arrays")
    if checks.is_sparse(x):
        rows = checks.sparse(x, x_name, n_features=n_features)
        return rows, checks.sparse(z, z_name, n_features=rows.shape[1])
    X = checks.array(x, x_name, *ndims, n_features=n_features)
    return X, checks.array(z, z_name, *ndims, n_features=X.shape[-1])


def sparse_row(rows: Any, i: int) -> SparseVector:
    """A row of a ``csr_array`` as ``checks.sparse`` makes it."""
    first, last = rows.indptr[i], rows.indptr[i + 1]
    return _vector(rows.indices[first:last].astype(np.int64), rows.data[first:last].copy(), rows.shape[1])


def _vector(indices: npt.NDArray[np.int64], values: Floats, n_features: int) -> SparseVector:
    indices.flags.writeable = values.flags.writeable = False
    return SparseVector(indices, values, n_features)


def _checked(u: SparseVector, n_features: int | None) -> SparseVector:
    """The same vector, sorted and without zeros; refused where it is none."""
    n = checks.whole(u.n_features, "the difference's n_features", at_least=1)
    if n_features is not None and n != n_features:
        raise ValueError(f"the pair's difference has {n} features; {n_features} are expected")
    indices, values = np.asarray(u.indices), np.asarray(u.values)
    if indices.ndim != 1 or indices.shape != values.shape or (indices.size and indices.dtype.kind not in "iu"):
        raise ValueError(
            f"a SparseVector has indices of shape {indices.shape} and type {indices.dtype} and values of shape "
            f"{values.shape}; accepted: whole numbers and as many values, shape (n_entries,)"
        )
    if not indices.size:
        return _vector(np.empty(0, dtype=np.int64), np.empty(0), n)
    indices, values = indices.astype(np.int64), checks.array(values, "the values of a SparseVector", 1)
    if not (indices[1:] > indices[:-1]).all():
        order = np.argsort(indices, kind="stable")
        indices, values = indices[order], values[order]
        again = np.flatnonzero(indices[1:] == indices[:-1])
        if again.size:
            raise ValueError(f"a SparseVector has the index {indices[again[0]]} twice; accepted: every index once")
    if indices[0] < 0 or indices[-1] >= n:
        wrong = indices[0] if indices[0] < 0 else indices[-1]
        raise ValueError(f"a SparseVector has the index {wrong}; accepted: indices from 0 to {n - 1}")
    keep = values != 0.0
    return _vector(indices[keep], _short(values[keep]), n)
