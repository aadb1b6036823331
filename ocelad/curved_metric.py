"""CurvedMetric: a distance of points that is the sum of a linear and a curved part, with a threshold."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad._validation import check_array, check_integer, check_number, check_sparse, is_sparse
from ocelad.feature_maps import LandmarkMap
from ocelad.io import state_files
from ocelad.metric import Metric, PointDistance
from ocelad.pairs import check_same_kind, subtract


class CurvedMetric(PointDistance):
    """The distance ``sqrt(|x - z|_M^2 + |f(x) - f(z)|_C^2)`` of points and of their curved features f(x). Immutable.

    Parameters
    ----------
    linear_part : Metric
        M.
    feature_map : LandmarkMap or None
        f; None before the first map: then the distance is linear.
    curved_part : Metric or None
        C.
    threshold : float
        For the squared distance: two points are similar if ``d^2 <= threshold``.
    round : int
        Number of pairs after which the metric was played.

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

    __slots__ = ("curved_part", "feature_map", "linear_part", "round", "threshold")

    linear_part: Metric
    feature_map: LandmarkMap | None
    curved_part: Metric | None
    threshold: float
    round: int

    def __init__(
        self,
        linear_part: Metric,
        feature_map: LandmarkMap | None,
        curved_part: Metric | None,
        threshold: float = 1.0,
        round: int = 0,
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
        X, Z = check_same_kind(x, z, "x", "z", 1, 2, n_features=self.n_features)
        linear = self.linear_part.squared_distance(X, Z)
        if self.feature_map is None or self.curved_part is None:
            return linear
        U = subtract(self._map(X), self._map(Z))
        squares = linear + self.curved_part.squared_length(U)
        return squares if np.ndim(squares) else float(squares)

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
            Number of dimensions: those in which the landmarks vary most, the first ones most; None: all.
        """
        n = self.n_features
        rows: Any = check_sparse(X, "X", n_features=n) if is_sparse(X) else check_array(X, "X", 1, 2, n_features=n)
        if self.feature_map is None:
            return self.linear_part.embed(rows, n_components)
        points = self._embed_all(rows)
        if n_components is None:
            return points
        check_integer(n_components, "n_components", at_least=1)
        variances = self._embed_all(self.feature_map.landmarks).var(axis=0)
        return np.asarray(points[..., np.argsort(-variances, kind="stable")[:n_components]])

    def _embed_all(self, rows: Any) -> Floats:
        assert self.curved_part is not None
        return np.concatenate([self.linear_part.embed(rows), self.curved_part.embed(self._map(rows))], axis=-1)

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
            parts |= {"map": self.feature_map, "curved": self.curved_part}
        return {f"{name}.{key}": array for name, part in parts.items() for key, array in part.arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Arrays, threshold: float, round: int = 0) -> CurvedMetric:
        """Return the metric of arrays from ``arrays``, with the same bits; the arrays are checked."""
        parts: dict[str, dict[str, Any]] = {"linear": {}, "map": {}, "curved": {}}
        for name, array in arrays.items():
            part, _, key = name.partition(".")
            if part not in parts:
                raise ValueError(f"a curved metric has no array {name!r}")
            parts[part][key] = array
        linear = Metric.from_arrays(parts["linear"], threshold, round)
        if not parts["map"] and not parts["curved"]:
            return cls(linear, None, None, threshold, round)
        curved = Metric.from_arrays(parts["curved"], threshold, round)
        return cls(linear, LandmarkMap.from_arrays(parts["map"]), curved, threshold, round)

    def __eq__(self, other: object) -> bool:
        """Return whether threshold, round and the stored arrays have the same bits."""
        if not isinstance(other, CurvedMetric):
            return NotImplemented
        mine, theirs = self.arrays(), other.arrays()
        return ((self.threshold, self.round, mine.keys()) == (other.threshold, other.round, theirs.keys())) and all(
            np.array_equal(mine[name], theirs[name]) for name in mine
        )

    def __hash__(self) -> int:
        return hash((self.threshold, self.round, self.n_features))

    def __deepcopy__(self, memo: dict[int, Any]) -> CurvedMetric:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return CurvedMetric, (self.linear_part, self.feature_map, self.curved_part, self.threshold, self.round)

    def __repr__(self) -> str:
        return f"CurvedMetric(n_features={self.n_features}, threshold={self.threshold:.6g}, round={self.round})"


#: A distance with a threshold, linear or curved.
AnyMetric: TypeAlias = Metric | CurvedMetric


def linear_part(metric: AnyMetric) -> Metric:
    """Return the linear part of a metric; all of it, if it is not curved."""
    return metric.linear_part if isinstance(metric, CurvedMetric) else metric
