"""CurvedMetric: a distance of points that is the sum of a linear and a curved part, with a threshold."""

from __future__ import annotations

import os
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad._validation import check_array, check_integer, check_number, check_sparse, is_sparse
from ocelad.feature_maps import FeatureMap, LandmarkMap, to_unit_length
from ocelad.io import state_files
from ocelad.metric import Metric, PointDistance
from ocelad.pairs import check_same_kind, subtract
from ocelad.principal_axes import iterate_blocks


class CurvedMetric(PointDistance):
    """The distance ``sqrt(|x - z|_M^2 + |f(x) - f(z)|_C^2)`` of points and of their curved features f(x). Immutable.

    Parameters
    ----------
    linear_part : Metric
        M.
    feature_map : LandmarkMap, OwnMap or None
        f; None before the first map: then the distance is linear.
    curved_part : Metric or None
        C.
    threshold : float
        For the squared distance: two points are similar if ``d^2 <= threshold``.
    round : int
        Number of pairs after which the metric was played.
    unit_length : bool
        Whether points are first divided by their lengths: then x, z and f(x) are those of points of length 1.
    factors : array of shape (n_features,), or None
        What features are multiplied by before all else, for points in their own units. None: 1.

    Examples
    --------
    >>> X = np.linspace(-3, 3, 7)[:, None]
    >>> feature_map = LandmarkMap.from_points(X, 7, np.random.default_rng(0))
    >>> curved_part = Metric.from_diagonal(np.ones(feature_map.n_outputs))
    >>> metric = CurvedMetric(Metric([[0.0]]), feature_map, curved_part, threshold=0.5)
    >>> metric.distance([[1.0], [-3.0]], [[0.0], [3.0]]).round(2)  # far points are about equally far
    array([0.67, 1.41])
    >>> bool(np.allclose(np.linalg.norm(np.diff(metric.embed(X[:2]), axis=0)), metric.distance(X[0], X[1])))
    True
    """

    __slots__ = ("curved_part", "factors", "feature_map", "linear_part", "round", "threshold", "unit_length")

    linear_part: Metric
    feature_map: FeatureMap | None
    curved_part: Metric | None
    threshold: float
    round: int
    unit_length: bool
    factors: Floats | None

    def __init__(
        self,
        linear_part: Metric,
        feature_map: FeatureMap | None,
        curved_part: Metric | None,
        threshold: float = 1.0,
        round: int = 0,
        *,
        unit_length: bool = False,
        factors: Any = None,
    ) -> None:
        if (feature_map is None) != (curved_part is None):
            raise ValueError("accepted: a feature map and a curved part, or neither")
        if feature_map is not None and curved_part is not None:
            if feature_map.n_features != linear_part.n_features:
                raise ValueError(
                    f"the map takes {feature_map.n_features} features and the linear part {linear_part.n_features}"
                )
            if feature_map.n_outputs != curved_part.n_features:
                raise ValueError(
                    f"the map has {feature_map.n_outputs} outputs and the curved part {curved_part.n_features} features"
                )
        put = object.__setattr__
        put(self, "linear_part", linear_part)
        put(self, "feature_map", feature_map)
        put(self, "curved_part", curved_part)
        put(self, "threshold", check_number(threshold, "threshold"))
        put(self, "round", check_integer(round, "round", at_least=0))
        put(self, "unit_length", bool(unit_length))
        if factors is not None:
            factors = check_array(factors, "factors", 1, n_features=linear_part.n_features).copy()
            factors.flags.writeable = False
        put(self, "factors", factors)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a CurvedMetric is immutable: {name!r} cannot be set; create a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a CurvedMetric is immutable: {name!r} cannot be deleted")

    def __getattr__(self, name: str) -> Any:
        if name in ("matrix", "components", "diagonal", "eigenvalues"):
            raise AttributeError(
                f"a curved metric has no {name}: it is not linear; linear_part.{name} is that of its linear part"
            )
        raise AttributeError(f"a CurvedMetric has no attribute {name!r}")

    @property
    def n_features(self) -> int:
        """Number of features of the points."""
        return self.linear_part.n_features

    @property
    def rank(self) -> int:
        """The dimension of the embedding."""
        return self.linear_part.rank + (0 if self.curved_part is None else self.curved_part.rank)

    def squared_distance(self, x: Any, z: Any) -> Any:
        """Return the squared distance: a float for two points, an array if x or z has rows, dense or sparse."""
        X, Z = (self.prepare(points) for points in check_same_kind(x, z, "x", "z", 1, 2, n_features=self.n_features))
        linear = self.linear_part.squared_distance(X, Z)
        if self.feature_map is None or self.curved_part is None:
            return linear
        U = subtract(self._map(X), self._map(Z))
        squares = linear + self.curved_part.squared_length(U)
        return squares if np.ndim(squares) else float(squares)

    def prepare(self, X: Any) -> Any:
        """Return what the two parts measure: the points, multiplied by the factors, or of unit length."""
        if self.factors is not None and is_sparse(X):
            X = type(X)((X.data * self.factors[X.indices], X.indices, X.indptr), shape=X.shape)
        elif self.factors is not None:
            X = X * self.factors
        return to_unit_length(X) if self.unit_length else X

    def with_factors(self, factors: Any) -> CurvedMetric:
        """Return the same distance of points that are multiplied by these factors before all else.

        >>> X = np.random.default_rng(0).normal(size=(9, 2))
        >>> feature_map = LandmarkMap.from_points(X, 9, np.random.default_rng(0))
        >>> curved = Metric.from_diagonal(np.ones(feature_map.n_outputs))
        >>> metric = CurvedMetric(Metric.from_diagonal([1.0, 2.0]), feature_map, curved)
        >>> in_own_units = metric.with_factors([4.0, 0.5])
        >>> in_own_units.distance(X[0] / [4.0, 0.5], X[1] / [4.0, 0.5]) == metric.distance(X[0], X[1])
        True
        """
        parts = self.linear_part, self.feature_map, self.curved_part
        return CurvedMetric(*parts, self.threshold, self.round, unit_length=self.unit_length, factors=factors)

    def _map(self, X: Any) -> Floats:
        """Return the curved features of one point, or of rows."""
        assert self.feature_map is not None
        return self.feature_map(X) if len(X.shape) == 2 else self.feature_map(X[None])[0]

    def embed(self, X: Any, n_components: int | None = None) -> Floats:
        """Return points in a space where the Euclidean distance is this distance: linear part, then curved part.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features) or (n_features,), or SciPy sparse rows
        n_components : int or None
            Number of dimensions: the principal directions of the landmarks (with a map of your own, of the points),
            in which the distance is approximate; None: all.
        """
        n = self.n_features
        rows: Any = check_sparse(X, "X", n_features=n) if is_sparse(X) else check_array(X, "X", 1, 2, n_features=n)
        rows = self.prepare(rows)
        if self.feature_map is None:
            return self.linear_part.embed(rows, n_components)
        points = self._embed_all(rows)
        if n_components is None:
            return points
        check_integer(n_components, "n_components", at_least=1)
        landmarks = self.feature_map.landmarks if isinstance(self.feature_map, LandmarkMap) else rows
        embedded = np.atleast_2d(self._embed_all(landmarks))
        _, directions = np.linalg.eigh(np.cov(embedded, rowvar=False, bias=True).reshape(2 * [embedded.shape[1]]))
        directions = directions[:, ::-1][:, :n_components]  # the largest variance first
        return np.asarray(points @ (directions * _signs(directions)))

    def _embed_all(self, rows: Any) -> Floats:
        assert self.curved_part is not None
        return np.concatenate([self.linear_part.embed(rows), self.curved_part.embed(self._map(rows))], axis=-1)

    def extend(self, X: Any) -> Any:
        """Return points, dense rows, followed by their curved features; see ``extended``."""
        rows = self.prepare(check_array(X, "X", 1, 2, n_features=self.n_features))
        return rows if self.feature_map is None else np.concatenate([rows, self._map(rows)], axis=-1)

    def projection(self, items: Any, n_components: int | None = None) -> Floats:
        """Return the matrix P for which ``extend(X) @ P`` has about the Euclidean distances that X has by this metric.

        No matrix of the points themselves gives a curved distance; ``extend`` adds their curved features. Otherwise as
        ``Metric.projection``.

        Parameters
        ----------
        items : array-like of shape (n_items, n_features), or an iterator over blocks of rows
            They are read in blocks.
        n_components : int or None
            The number of columns; None: all axes along which the variance is above rounding.

        Returns
        -------
        float64 array of shape (n_features + n_outputs of the feature map, n_components)

        Examples
        --------
        >>> X = np.random.default_rng(0).normal(size=(9, 2))
        >>> feature_map = LandmarkMap.from_points(X, 9, np.random.default_rng(0))
        >>> curved = Metric.from_diagonal(np.ones(feature_map.n_outputs))
        >>> metric = CurvedMetric(Metric.from_diagonal([1.0, 2.0]), feature_map, curved)
        >>> points = metric.extend(X) @ metric.projection(X)
        >>> bool(np.isclose(np.linalg.norm(points[0] - points[1]), metric.distance(X[0], X[1])))
        True
        """
        blocks = (self.extend(block) for block in iterate_blocks(items, self.n_features))
        return self.extended.projection(blocks, n_components)

    @property
    def extended(self) -> Metric:
        """The same distance as a linear metric of extended points.

        >>> X = np.random.default_rng(0).normal(size=(9, 2))
        >>> feature_map = LandmarkMap.from_points(X, 9, np.random.default_rng(0))
        >>> curved = Metric.from_diagonal(np.ones(feature_map.n_outputs))
        >>> metric = CurvedMetric(Metric.from_diagonal([1.0, 2.0]), feature_map, curved)
        >>> points = metric.extend(X)
        >>> bool(np.isclose(metric.extended.distance(points[0], points[1]), metric.distance(X[0], X[1])))
        True
        """
        if self.curved_part is None:
            return self.linear_part.with_threshold(self.threshold)
        return Metric.block_diagonal(self.linear_part, self.curved_part, self.threshold, self.round)

    def embed_unordered(self, X: Any) -> Floats:
        """Return ``embed(X)``; the axes of an embedding may come in any order."""
        return self.embed(X)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the metric to a safetensors file; an existing file is replaced atomically."""
        metadata = {"threshold": self.threshold, "round": self.round}
        state_files.write(path, state_files.CURVED_METRIC, self.arrays(), metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CurvedMetric:
        """Read a metric that ``save`` wrote, with the same bits."""
        arrays, metadata = state_files.read(path, state_files.CURVED_METRIC)
        with state_files.content_errors(path, state_files.CURVED_METRIC):
            return cls.from_arrays(arrays, metadata["threshold"], metadata["round"])

    def arrays(self) -> Arrays:
        """Return the arrays that store the metric."""
        parts: dict[str, Any] = {"linear": self.linear_part}
        if self.feature_map is not None:
            parts |= {"map": stored_map(self.feature_map), "curved": self.curved_part}
        arrays = {f"{name}.{key}": array for name, part in parts.items() for key, array in part.arrays().items()}
        arrays = {**arrays, "unit_length": np.ones(1)} if self.unit_length else arrays
        return arrays if self.factors is None else {**arrays, "factors": self.factors}

    @classmethod
    def from_arrays(cls, arrays: Arrays, threshold: float, round: int = 0) -> CurvedMetric:
        """Return the metric of arrays from ``arrays``, with the same bits; the arrays are checked."""
        parts: dict[str, dict[str, Any]] = {"linear": {}, "map": {}, "curved": {}}
        arrays = dict(arrays)
        unit_length, factors = arrays.pop("unit_length", None) is not None, arrays.pop("factors", None)
        for name, array in arrays.items():
            part, _, key = name.partition(".")
            if part not in parts:
                raise ValueError(f"a curved metric has no array {name!r}")
            parts[part][key] = array
        linear = Metric.from_arrays(parts["linear"], threshold, round)
        if not parts["map"] and not parts["curved"]:
            return cls(linear, None, None, threshold, round, unit_length=unit_length, factors=factors)
        curved, feature_map = (
            Metric.from_arrays(parts["curved"], threshold, round),
            LandmarkMap.from_arrays(parts["map"]),
        )
        return cls(linear, feature_map, curved, threshold, round, unit_length=unit_length, factors=factors)

    def __eq__(self, other: object) -> bool:
        """Return whether threshold, round and the stored arrays have the same bits."""
        if not isinstance(other, CurvedMetric):
            return NotImplemented
        if not all(
            metric.feature_map is None or isinstance(metric.feature_map, LandmarkMap) for metric in (self, other)
        ):
            return self is other
        mine, theirs = self.arrays(), other.arrays()
        return ((self.threshold, self.round, mine.keys()) == (other.threshold, other.round, theirs.keys())) and all(
            np.array_equal(mine[name], theirs[name]) for name in mine
        )

    def __hash__(self) -> int:
        return hash((self.threshold, self.round, self.n_features))

    def __deepcopy__(self, memo: dict[int, Any]) -> CurvedMetric:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self.linear_part, self.feature_map, self.curved_part
        make = partial(CurvedMetric, unit_length=self.unit_length, factors=self.factors)
        return make, (*parts, self.threshold, self.round)

    def __repr__(self) -> str:
        return f"CurvedMetric(n_features={self.n_features}, threshold={self.threshold:.6g}, round={self.round})"


def stored_map(feature_map: FeatureMap) -> LandmarkMap:
    """Return the map if files can store it; refuse one that the user gave."""
    if isinstance(feature_map, LandmarkMap):
        return feature_map
    raise ValueError("a feature map of your own cannot be stored in this file; pickle the tracker or metric instead")


def _signs(directions: Floats) -> Floats:
    """Return the signs that make the entry of largest size of each column positive."""
    return np.asarray(np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(directions.shape[1])]))


#: A distance with a threshold, linear or curved.
AnyMetric: TypeAlias = Metric | CurvedMetric


def project(metric: AnyMetric, X: Any, projection: Floats) -> Floats:
    """Return the points that a matrix from ``metric.projection`` gives for X."""
    rows = (
        metric.extend(X) if isinstance(metric, CurvedMetric) else check_array(X, "X", 2, n_features=metric.n_features)
    )
    return np.asarray(rows @ projection)


def linear_part(metric: AnyMetric) -> Metric:
    """Return the linear part of a metric; all of it, if it is not curved."""
    return metric.linear_part if isinstance(metric, CurvedMetric) else metric
