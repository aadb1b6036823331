"""The plane: where items are drawn. It follows the metric, and never jumps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad.metric import Metric
from ocelad.service.learning.item_points import ItemPoints, Singles

# Of how many heaviest directions there are coordinates.
LEADING = 10
# By how much the plane turns at most from one metric to the next, in radians.
MOST_TURN = 0.35
# How much closer it may come at a time; what would be outside moves it away at once.
_CLOSER = 1.05
# The points come so near to the edge.
_EDGE = 0.95
# The directions are found when the variances along two of them change by no more than this share.
_TOLERANCE = 1e-9
# Or after so many rounds: at first, and when one metric follows another.
_FIRST_ROUNDS, _ROUNDS = 60, 8
_Applied: TypeAlias = Callable[[Floats], Floats]


class Plane:
    """Coordinates of all points along the heaviest directions of their cloud, and two of them to be drawn.

    The two are the heaviest, turned and mirrored so that they are as near as can be to the two before. Where another
    direction has become the second heaviest, the plane turns towards it little by little.
    """

    def __init__(self) -> None:
        self._leading: Floats | None = None
        self._shown: Floats | None = None
        self._zoom = np.inf

    def follow(self, cloud: ItemPoints, metric: Metric) -> tuple[Singles, Singles]:
        """Coordinates along the leading directions, (n_items, k), and in the plane, (n_items, 2), within -1 and 1."""
        n = cloud.n_features
        old = np.empty((n, 0)) if self._leading is None else self._leading
        # Some directions of no meaning beside the last ones, so that none stays out of sight for ever.
        fresh = np.random.default_rng(0).normal(size=(n, LEADING + 2 - old.shape[1]))
        rounds = _FIRST_ROUNDS if self._leading is None else _ROUNDS
        values, leading = _heaviest(cloud.spread, metric.times, np.hstack([old, fresh]), rounds)
        self._leading = leading[:, :LEADING]
        values, leading = _at_least_two(values[:LEADING], self._leading)
        frame = np.eye(leading.shape[1], 2)
        if self._shown is not None:
            frame = _turned(self._before(cloud, values, leading))
        self._shown = leading @ frame
        coordinates = cloud.singles @ leading.astype(np.float32)
        xy = coordinates @ frame.astype(np.float32)
        size = float(np.sqrt(np.square(xy).mean()))
        if size > 0:  # a metric that is merely larger shows the same
            xy /= np.float32(size)
            self._zoom = min(_EDGE / float(np.abs(xy).max()), _CLOSER * self._zoom)
            xy *= np.float32(self._zoom)
        return coordinates, xy

    def _before(self, cloud: ItemPoints, values: Floats, leading: Floats) -> Floats:
        """The plane shown before, as two orthonormal columns of coefficients of the leading directions."""
        assert self._shown is not None
        covariances = leading.T @ cloud.spread(self._shown)
        fitted = np.divide(covariances, values[:, None], out=np.zeros_like(covariances), where=values[:, None] > 0)
        left, _, right = np.linalg.svd(fitted, full_matrices=False)
        return np.asarray(left @ right)


def _turned(before: Floats) -> Floats:
    """Two orthonormal columns that span the first two axes, nearest to the columns before.

    Where that is too far to turn at once, they are on the shortest way to there.
    """
    axes = np.eye(len(before), 2)
    left, cosines, right = np.linalg.svd(before[:2])
    turned = np.zeros_like(before)
    for i, angle in enumerate(np.arccos(np.clip(cosines, 0.0, 1.0))):
        there, here = axes @ left[:, i], before @ right[i]
        if angle > MOST_TURN:
            aside = (there - cosines[i] * here) / np.sin(angle)
            there = np.cos(MOST_TURN) * here + np.sin(MOST_TURN) * aside
        turned += np.outer(there, right[i])
    return turned


def _heaviest(spread: _Applied, times: _Applied, start: Floats, most_rounds: int) -> tuple[Floats, Floats]:
    """The heaviest directions Z of a cloud under a metric, and the variances along them, by subspace iteration.

    With C the covariances and M = L'L, the places ``L x`` have the covariances ``L C L'``. For a unit vector w along
    which those have the variance v, ``z = L'w`` gives the coordinate ``z'x``, and ``M C z = v z``; so M itself will do.
    """
    Z, last = start, np.zeros(2)
    for _ in range(most_rounds):
        Z = np.linalg.qr(Z)[0]
        Y = spread(Z)
        MY = times(Y)
        H = Y.T @ MY
        X = _within(Z.T @ Y, H)
        values = np.einsum("ij,ij->j", X, H @ X)
        heaviest, top = (Z @ X) * np.sqrt(values), np.pad(values[:2], (0, max(0, 2 - len(values))))
        if Z.shape[1] == len(Z) or not len(values) or np.abs(top - last).max() <= _TOLERANCE * top[0]:
            break
        last, Z = top, np.hstack([MY @ X, Z[:, : Z.shape[1] - len(values)]])
    return values, heaviest


def _within(G: Floats, H: Floats) -> Floats:
    """The solutions X of ``H x = v G x`` with ``x'G x = 1``, the largest v first; those with v = 0 lack."""
    g, U = np.linalg.eigh(G / 2 + G.T / 2)
    kept = g > len(g) * 1e-14 * max(g[-1], 0.0)
    whiten = U[:, kept] / np.sqrt(g[kept])
    core = whiten.T @ H @ whiten
    v, X = np.linalg.eigh(core / 2 + core.T / 2)
    positive = v > len(v) * 1e-14 * max(v[-1], 0.0) if len(v) else np.zeros(0, dtype=bool)
    return np.asarray(whiten @ X[:, positive][:, ::-1])


def _at_least_two(values: Floats, leading: Floats) -> tuple[Floats, Floats]:
    """With directions of zeros where there are fewer than two."""
    lack = max(0, 2 - len(values))
    return np.pad(values, (0, lack)), np.pad(leading, ((0, 0), (0, lack)))
