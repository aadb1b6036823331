"""Comparisons of points, and the differences and labels that learners see of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad._validation import check_array, check_integer, check_label, check_labels, check_sparse, is_sparse

#: The kinds of events: labelled pairs, or relative comparisons.
EventsName: TypeAlias = Literal["pairs", "relatives"]


class SparseVector(NamedTuple):
    """A difference stored by its non-zero entries; immutable.

    ``as_sparse`` creates and checks one from an array, a SciPy sparse row or another ``SparseVector``.
    """

    indices: npt.NDArray[np.int64]
    values: Floats
    n_features: int


class Event(NamedTuple):
    """A pair as learners see it: the difference ``u = x - z`` and the label ``y``, +1 similar, -1 dissimilar.

    u is an array of shape (n_features,) or a ``SparseVector``. ``Pair(x, z, similar).event()`` creates one.

    The margin of every event is linear in the metric and the threshold: ``m = threshold_slope mu - <gradient, M>``.
    """

    u: Any
    y: float

    def margin(self, squared_length: Callable[[Any], float], threshold: float) -> float:
        """Return ``m = y (mu - u'Mu)``, which is positive if the metric classifies the pair correctly."""
        return self.y * (threshold - squared_length(self.u))

    def gradient(self, square: Callable[[Any], Floats]) -> Floats:
        """Return ``-dm/dM = y uu'``; ``square`` maps u to the matrix ``uu'`` or to its diagonal."""
        return self.y * square(self.u)

    @property
    def threshold_slope(self) -> float:
        """``dm/dmu``, the derivative of the margin by the threshold."""
        return self.y


class Relative(NamedTuple):
    """A relative comparison, "x is nearer to a than to b", with ``near = x - a`` and ``far = x - b``.

    For "a and b are nearer to each other than c and d" it has ``near = a - b`` and ``far = c - d``. Both are arrays of
    shape (n_features,). A tracker from ``track_metric(events="relatives")`` learns from relative comparisons.

    Examples
    --------
    >>> from ocelad import Metric
    >>> Metric([[1.0, 0.0], [0.0, 4.0]]).margin(Relative(near=[1.0, 0.0], far=[0.0, 1.0]))
    3.0
    """

    near: Any
    far: Any

    def margin(self, squared_length: Callable[[Any], float], threshold: float) -> float:
        """Return ``m = far'M far - near'M near``, positive if the metric orders the two correctly; ignores mu."""
        return squared_length(self.far) - squared_length(self.near)

    def gradient(self, square: Callable[[Any], Floats]) -> Floats:
        """Return ``-dm/dM = near near' - far far'``; ``square`` is as in ``Event.gradient``."""
        return square(self.near) - square(self.far)

    @property
    def threshold_slope(self) -> float:
        """``dm/dmu``, the derivative of the margin by the threshold."""
        return 0.0


class Pair:
    """Two points and whether they are similar.

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
        self.x, self.z = check_same_kind(x, z, "x", "z", 1)
        for point, name in ((self.x, "x"), (self.z, "z")):
            if len(point.shape) == 2 and point.shape[0] != 1:
                raise ValueError(f"{name} has shape {point.shape}; accepted: one sparse row, shape (1, n_features)")
        self.similar = check_label(similar, "similar") > 0

    def event(self) -> Event:
        """Return the pair as learners see it: its difference and label."""
        u = subtract(self.x, self.z)
        return Event(sparse_row(u, 0) if is_sparse(u) else u, 1.0 if self.similar else -1.0)

    def __repr__(self) -> str:
        return f"Pair(x={self.x!r}, z={self.z!r}, similar={self.similar})"


class Events:
    """Many events as arrays: differences, one per row of U, and labels. Iterating yields each ``Event``.

    Parameters
    ----------
    U : array-like or SciPy sparse matrix of shape (n_events, n_features)
        A sparse matrix is stored as a ``csr_array`` with sorted indices and without stored zeros; its events hold
        a ``SparseVector``.
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
        self.sparse = is_sparse(U)
        self.U = _check_lengths(check_sparse(U, "U") if self.sparse else check_array(U, "U", 2).copy())
        self.y = check_labels(y, "y", self.U.shape[0]).copy()

    @classmethod
    def from_event(cls, event: Event) -> Events:
        """Return the events that consist of one event, which must have been checked."""
        u = event.u
        if isinstance(u, SparseVector):
            from scipy.sparse import csr_array

            return cls.from_trusted(
                csr_array((u.values, u.indices, [0, len(u.indices)]), shape=(1, u.n_features)), event.y
            )
        return cls.from_trusted(u.reshape(1, -1), event.y)

    @classmethod
    def from_trusted(cls, U: Any, y: Any) -> Events:
        """Return the events of a checked array, or CSR array, and checked labels; nothing is copied."""
        events = object.__new__(cls)
        events.U, events.y, events.sparse = U, np.atleast_1d(y), not isinstance(U, np.ndarray)
        return events

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return int(self.U.shape[1])

    def __len__(self) -> int:
        return int(self.U.shape[0])

    @overload
    def __getitem__(self, at: int) -> Event: ...

    @overload
    def __getitem__(self, at: slice) -> Events: ...

    def __getitem__(self, at: int | slice) -> Event | Events:
        """Return one event, or the ``Events`` of a slice."""
        if isinstance(at, slice):
            return self.from_trusted(self.U[at], self.y[at])
        at = _row_index(at, len(self))
        return Event(sparse_row(self.U, at) if self.sparse else self.U[at], float(self.y[at]))

    def __iter__(self) -> Iterator[Event]:
        return (self[i] for i in range(len(self)))


class PointPairs:
    """Many pairs as arrays: the points of each pair, row by row, and labels. For learners that need the points.

    Parameters
    ----------
    X, Z : arrays or SciPy sparse matrices of shape (n_pairs, n_features)
    y : array-like of shape (n_pairs,)
        +1 (or True) for similar, -1 (or False) for dissimilar.

    Examples
    --------
    >>> PointPairs([[1.0, 2.0]], [[0.0, 3.0]], [True]).events().U
    array([[ 1., -1.]])
    """

    __slots__ = ("X", "Z", "y")

    X: Any
    Z: Any
    y: Floats

    def __init__(self, X: Any, Z: Any, y: Any) -> None:
        self.X, self.Z = check_same_kind(X, Z, "X", "Z", 2)
        if self.X.shape != self.Z.shape:
            raise ValueError(f"X has {self.X.shape[0]} rows and Z has {self.Z.shape[0]}; accepted: one pair per row")
        self.y = check_labels(y, "y", self.X.shape[0])

    @classmethod
    def from_trusted(cls, X: Any, Z: Any, y: Floats) -> PointPairs:
        """Return the pairs of checked arrays and labels; nothing is copied."""
        pairs = object.__new__(cls)
        pairs.X, pairs.Z, pairs.y = X, Z, y
        return pairs

    @classmethod
    def from_pair(cls, pair: Pair) -> PointPairs:
        """Return the pairs that consist of one pair."""
        X, Z = (point if is_sparse(point) else point[None] for point in (pair.x, pair.z))
        return cls.from_trusted(X, Z, np.array([1.0 if pair.similar else -1.0]))

    def events(self) -> Events:
        """Return the differences of the pairs, with their labels."""
        return Events.from_trusted(subtract(self.X, self.Z), self.y)

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return int(self.X.shape[1])

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, part: slice) -> PointPairs:
        """Return the pairs of a slice."""
        return self.from_trusted(self.X[part], self.Z[part], self.y[part])


class Relatives:
    """Many relative comparisons as arrays, one per row. Iterating yields each ``Relative``.

    Parameters
    ----------
    near, far : array-like of shape (n_events, n_features)
        Differences of the nearer points and of the farther points; see ``Relative``. Sparse matrices are not
        accepted.

    Examples
    --------
    >>> X, A, B = np.zeros((2, 3)), np.ones((2, 3)), np.full((2, 3), 5.0)
    >>> next(iter(Relatives(near=X - A, far=X - B)))
    Relative(near=array([-1., -1., -1.]), far=array([-5., -5., -5.]))
    """

    __slots__ = ("far", "near")

    near: Floats
    far: Floats

    def __init__(self, near: Any, far: Any) -> None:
        self.near = _dense_differences(near, "near", 2, None).copy()
        self.far = _dense_differences(far, "far", 2, self.near.shape[1]).copy()
        if len(self.near) != len(self.far):
            raise ValueError(
                f"near has {len(self.near)} rows and far has {len(self.far)}; "
                "accepted: the same number of rows, one comparison per row"
            )

    @classmethod
    def from_trusted(cls, near: Floats, far: Floats) -> Relatives:
        """Return the comparisons of checked arrays; nothing is copied."""
        relatives = object.__new__(cls)
        relatives.near, relatives.far = near, far
        return relatives

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return int(self.near.shape[1])

    def __len__(self) -> int:
        return len(self.near)

    @overload
    def __getitem__(self, at: int) -> Relative: ...

    @overload
    def __getitem__(self, at: slice) -> Relatives: ...

    def __getitem__(self, at: int | slice) -> Relative | Relatives:
        """Return one comparison, or the ``Relatives`` of a slice."""
        if isinstance(at, slice):
            return self.from_trusted(self.near[at], self.far[at])
        at = _row_index(at, len(self))
        return Relative(self.near[at], self.far[at])

    def __iter__(self) -> Iterator[Relative]:
        return (self[i] for i in range(len(self)))


def _row_index(at: Any, count: int) -> int:
    """Return the non-negative row index; a negative ``at`` counts from the end."""
    if not isinstance(at, (int, np.integer)):
        raise TypeError(f"an index of events must be an integer or a slice; got {at!r}")
    if not -count <= at < count:
        raise IndexError(f"event {at} does not exist; the number of events is {count}")
    return int(at) % count


def as_event(event: Any, n_features: int) -> Event:
    """Return the checked event of a ``Pair`` or an ``Event``; a sparse difference stays sparse."""
    if isinstance(event, Pair):
        event = event.event()
    if not isinstance(event, Event):
        also = "; track_metric(events='relatives') learns from those" if isinstance(event, Relative) else ""
        raise TypeError(f"an event must be a Pair(x, z, similar) or an Event(u, y); got {type(event).__name__}{also}")
    sparse = isinstance(event.u, SparseVector) or is_sparse(event.u)
    u = as_sparse(event.u, n_features) if sparse else as_dense(event.u, n_features)
    return Event(u, check_label(event.y, "the pair's label y"))


def as_relative(event: Any, n_features: int) -> Relative:
    """Return the checked relative comparison."""
    if not isinstance(event, Relative):
        also = "; track_metric(events='pairs') learns from those" if isinstance(event, (Event, Pair)) else ""
        raise TypeError(f"an event must be a Relative(near, far); got {type(event).__name__}{also}")
    return Relative(
        _dense_differences(event.near, "near", 1, n_features), _dense_differences(event.far, "far", 1, n_features)
    )


def _dense_differences(differences: Any, name: str, ndim: int, n_features: int | None) -> Floats:
    """Return the checked differences of relative comparisons."""
    if isinstance(differences, SparseVector) or is_sparse(differences):
        raise TypeError(f"{name} is sparse; accepted: an array, e.g. {name}.toarray() (only pairs may be sparse)")
    dense: Floats = _check_lengths(check_array(differences, name, ndim, n_features=n_features), "comparison")
    return dense


def as_dense(u: Any, n_features: int | None = None) -> Floats:
    """Return a checked difference as an array of shape (n_features,).

    >>> as_dense(SparseVector(np.array([2]), np.array([5.0]), 4))
    array([0., 0., 5., 0.])
    """
    if not isinstance(u, SparseVector) and not is_sparse(u):
        dense: Floats = _check_lengths(check_array(u, "the pair's difference", 1, n_features=n_features))
        return dense
    vector = as_sparse(u, n_features)
    dense = np.zeros(vector.n_features)
    dense[vector.indices] = vector.values
    return dense


def as_sparse(u: Any, n_features: int | None = None) -> SparseVector:
    """Return a checked difference as a ``SparseVector`` with ascending indices and without zeros.

    >>> as_sparse([0.0, 0.0, 5.0, 0.0])
    SparseVector(indices=array([2]), values=array([5.]), n_features=4)
    """
    name = "the pair's difference"
    if isinstance(u, SparseVector):
        return _check_vector(u, n_features)
    if is_sparse(u):
        row = _check_lengths(check_sparse(u, name, n_features=n_features))
        if row.shape[0] != 1:
            raise ValueError(f"{name} has shape {row.shape}; accepted: one sparse row, shape (1, n_features)")
        return sparse_row(row, 0)
    dense = as_dense(u, n_features)
    indices = np.flatnonzero(dense)
    return _read_only_vector(indices, dense[indices], len(dense))


def subtract(X: Any, Z: Any) -> Any:
    """Return ``X - Z`` of two arrays or sparse matrices; raise ValueError if the squared length of a row overflows."""
    with np.errstate(over="ignore"):
        return _check_lengths(X - Z)


def _check_lengths(U: Any, kind: str = "pair") -> Any:
    """Return the differences; raise ValueError if the squared length of one overflows."""
    if is_sparse(U):
        with np.errstate(over="ignore"):
            lengths = U.multiply(U).sum(axis=1)
    else:
        lengths = np.einsum("...i,...i->...", U, U)  # does not warn of overflows
    if not np.isfinite(lengths).all():
        row = int(np.flatnonzero(~np.isfinite(lengths))[0])
        raise ValueError(
            f"the points of {kind} {row} are too far apart: their squared distance overflows; "
            "accepted: differences up to 1e+75"
        )
    return U


def check_same_kind(
    x: Any, z: Any, x_name: str, z_name: str, *ndims: int, n_features: int | None = None
) -> tuple[Any, Any]:
    """Return two checked points or arrays of rows: both sparse or both dense, with the same number of features."""
    if is_sparse(x) != is_sparse(z):
        one, other = (x_name, z_name) if is_sparse(x) else (z_name, x_name)
        raise TypeError(f"{one} is sparse and {other} is not; accepted: both sparse, or both arrays")
    if is_sparse(x):
        rows = check_sparse(x, x_name, n_features=n_features)
        return rows, check_sparse(z, z_name, n_features=rows.shape[1])
    X = check_array(x, x_name, *ndims, n_features=n_features)
    return X, check_array(z, z_name, *ndims, n_features=X.shape[-1])


def sparse_row(rows: Any, i: int) -> SparseVector:
    """Return a row of a ``csr_array`` from ``check_sparse``."""
    first, last = rows.indptr[i], rows.indptr[i + 1]
    return _read_only_vector(rows.indices[first:last].astype(np.int64), rows.data[first:last].copy(), rows.shape[1])


def _read_only_vector(indices: npt.NDArray[np.int64], values: Floats, n_features: int) -> SparseVector:
    indices.flags.writeable = values.flags.writeable = False
    return SparseVector(indices, values, n_features)


def _check_vector(u: SparseVector, n_features: int | None) -> SparseVector:
    """Return the vector sorted and without zeros; raise ValueError if it is invalid."""
    n = check_integer(u.n_features, "the difference's n_features", at_least=1)
    if n_features is not None and n != n_features:
        raise ValueError(f"the pair's difference has {n} features; {n_features} are expected")
    indices, values = np.asarray(u.indices), np.asarray(u.values)
    if indices.ndim != 1 or indices.shape != values.shape or (indices.size and indices.dtype.kind not in "iu"):
        raise ValueError(
            f"a SparseVector has indices of shape {indices.shape} and type {indices.dtype} and values of shape "
            f"{values.shape}; accepted: integers and the same number of values, shape (n_entries,)"
        )
    if not indices.size:
        return _read_only_vector(np.empty(0, dtype=np.int64), np.empty(0), n)
    indices, values = indices.astype(np.int64), check_array(values, "the values of a SparseVector", 1)
    if not (indices[1:] > indices[:-1]).all():
        order = np.argsort(indices, kind="stable")
        indices, values = indices[order], values[order]
        repeated = np.flatnonzero(indices[1:] == indices[:-1])
        if repeated.size:
            raise ValueError(f"a SparseVector has the index {indices[repeated[0]]} twice; accepted: every index once")
    if indices[0] < 0 or indices[-1] >= n:
        wrong = indices[0] if indices[0] < 0 else indices[-1]
        raise ValueError(f"a SparseVector has the index {wrong}; accepted: indices from 0 to {n - 1}")
    keep = values != 0.0
    return _read_only_vector(indices[keep], _check_lengths(values[keep]), n)
