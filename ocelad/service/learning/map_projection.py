"""The projection of all items to the plane of the map, which follows the metric without jumps."""

from __future__ import annotations

from collections.abc import Callable
from math import lcm
from typing import NamedTuple, TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric, CurvedMetric
from ocelad.feature_maps import FeatureMap
from ocelad.service.learning.item_points import Floats32, MeasuredPoints, as_linear

# The number of principal directions for which coordinates are computed.
N_DIRECTIONS = 10
# The largest rotation of the plane from one metric to the next, in radians.
MAX_ROTATION = 0.35
# The largest factor by which the map is enlarged per update; it is reduced at once if a point would be outside.
_MAX_ENLARGEMENT = 1.05
# The largest absolute coordinate.
_MAX_COORDINATE = 0.95
# Subspace iteration stops when the two largest variances change by no more than this share,
_TOLERANCE = 1e-9
# or after this many iterations: for the first metric, and for each later one.
_FIRST_ITERATIONS, _ITERATIONS = 60, 8
_LinearMap: TypeAlias = Callable[[Floats], Floats]


class MapAxes(NamedTuple):
    """The principal directions under a metric, and a plane of them.

    Attributes
    ----------
    directions : array of shape (n_measured, n_directions)
        ``MeasuredPoints.centered @ directions`` are the coordinates of the measured items.
    plane : array of shape (n_directions, 2)
        Coordinates times this matrix are places on the map.
    """

    directions: Floats
    plane: Floats

    def place(self, coordinates: Floats32) -> Floats32:
        """Return where items with these coordinates are on the map, within -1 and 1.

        Only items that were not measured can be outside; they are moved to the edge.
        """
        return np.clip(coordinates @ self.plane.astype(np.float32), -1.0, 1.0)


class MapProjection:
    """The principal directions of the items under the metric, and two of them for the map.

    Both are computed from the measured items: of many, a sample. The two are the directions of largest variance,
    rotated and reflected to be as close as possible to the previous two. If another direction becomes the second
    largest, the plane rotates towards it in steps of at most ``MAX_ROTATION``. This also holds from one feature map of
    a curved metric to the next.
    """

    def __init__(self) -> None:
        self._feature_map: FeatureMap | None = None
        self._directions: Floats | None = None
        self._in_plane: Floats32 | None = None  # of the measured items, before they are scaled
        self._step = 1
        self._zoom = np.inf

    def update(self, measured: MeasuredPoints, metric: AnyMetric) -> MapAxes:
        """Return the directions and the plane under a new metric."""
        feature_map = metric.feature_map if isinstance(metric, CurvedMetric) else None
        if feature_map is not self._feature_map:  # directions in the features of another map mean nothing
            self._feature_map, self._directions = feature_map, None
        n = measured.n_measured
        old = np.empty((n, 0)) if self._directions is None else self._directions
        # Random directions beside the previous ones let the iteration find directions that were unimportant before.
        new = np.random.default_rng(0).normal(size=(n, N_DIRECTIONS + 2 - old.shape[1]))
        n_iterations = _FIRST_ITERATIONS if self._directions is None else _ITERATIONS
        variances, directions = _principal_directions(
            measured.covariance_product, as_linear(metric).matmul, np.hstack([old, new]), n_iterations
        )
        self._directions = directions[:, :N_DIRECTIONS]
        variances, directions = _pad_to_two(variances[:N_DIRECTIONS], self._directions)
        frame = np.eye(directions.shape[1], 2)
        coordinates = measured.centered @ directions.astype(np.float32)
        if self._in_plane is not None:  # of items that were measured before, too
            step = lcm(self._step, measured.step)
            before, after = self._in_plane[:: step // self._step], coordinates[:: step // measured.step]
            frame = _rotate_towards_first_axes(_previous_frame(before, after, variances))
        self._in_plane, self._step = coordinates @ frame.astype(np.float32), measured.step
        size = float(np.sqrt(np.square(self._in_plane).mean()))
        scale = 1.0
        if size > 0:  # a multiple of the same metric gives the same map
            largest = float(np.abs(self._in_plane).max()) / size
            self._zoom = min(_MAX_COORDINATE / largest, _MAX_ENLARGEMENT * self._zoom)
            scale = self._zoom / size
        return MapAxes(directions, scale * frame)


def _previous_frame(in_plane: Floats32, coordinates: Floats32, variances: Floats) -> Floats:
    """Return the previous plane as two orthonormal columns of coefficients of the new directions.

    They fit the previous coordinates of the items; items that were added later have none.
    """
    n = len(in_plane)
    covariances = (coordinates[:n].T @ in_plane).astype(np.float64) / n
    fitted = np.divide(covariances, variances[:, None], out=np.zeros_like(covariances), where=variances[:, None] > 0)
    left, _, right = np.linalg.svd(fitted, full_matrices=False)
    return np.asarray(left @ right)


def _rotate_towards_first_axes(previous: Floats) -> Floats:
    """Return the two orthonormal columns in the span of the first two axes that are closest to the previous ones.

    Along each principal angle the rotation is at most ``MAX_ROTATION``; larger ones end on the geodesic.
    """
    axes = np.eye(len(previous), 2)
    left, cosines, right = np.linalg.svd(previous[:2])
    rotated = np.zeros_like(previous)
    for i, angle in enumerate(np.arccos(np.clip(cosines, 0.0, 1.0))):
        target, current = axes @ left[:, i], previous @ right[i]
        if angle > MAX_ROTATION:
            orthogonal = (target - cosines[i] * current) / np.sin(angle)
            target = np.cos(MAX_ROTATION) * current + np.sin(MAX_ROTATION) * orthogonal
        rotated += np.outer(target, right[i])
    return rotated


def _principal_directions(
    covariance_product: _LinearMap, metric_product: _LinearMap, start: Floats, max_iterations: int
) -> tuple[Floats, Floats]:
    """Compute the principal directions Z under a metric, and the variances along them, by subspace iteration.

    With covariance C and metric M = L'L, the embedded points ``L x`` have the covariance ``L C L'``. For a unit
    eigenvector w of it with eigenvalue v, ``z = L'w`` gives the coordinate ``z'x``, and ``M C z = v z``. So the
    iteration needs only M, no factor L.
    """
    Z, last = start, np.zeros(2)
    for _ in range(max_iterations):
        Z = np.linalg.qr(Z)[0]
        Y = covariance_product(Z)
        MY = metric_product(Y)
        H = Y.T @ MY
        X = _generalized_eigenvectors(Z.T @ Y, H)
        variances = np.maximum(np.einsum("ij,ij->j", X, H @ X), 0.0)  # rounding can make them negative
        directions = (Z @ X) * np.sqrt(variances)
        largest = np.pad(variances[:2], (0, max(0, 2 - len(variances))))
        if Z.shape[1] == len(Z) or not len(variances) or np.abs(largest - last).max() <= _TOLERANCE * largest[0]:
            break
        last, Z = largest, np.hstack([MY @ X, Z[:, : Z.shape[1] - len(variances)]])
    return variances, directions


def _generalized_eigenvectors(G: Floats, H: Floats) -> Floats:
    """Return the solutions X of ``H x = v G x`` with ``x'G x = 1`` and v > 0, the largest v first."""
    g, U = np.linalg.eigh(G / 2 + G.T / 2)
    nonzero = g > len(g) * 1e-14 * max(g[-1], 0.0)
    whiten = U[:, nonzero] / np.sqrt(g[nonzero])
    core = whiten.T @ H @ whiten
    v, X = np.linalg.eigh(core / 2 + core.T / 2)
    positive = v > len(v) * 1e-14 * max(v[-1], 0.0) if len(v) else np.zeros(0, dtype=bool)
    return np.asarray(whiten @ X[:, positive][:, ::-1])


def _pad_to_two(variances: Floats, directions: Floats) -> tuple[Floats, Floats]:
    """Append zero directions if there are fewer than two."""
    missing = max(0, 2 - len(variances))
    return np.pad(variances, (0, missing)), np.pad(directions, ((0, 0), (0, missing)))
