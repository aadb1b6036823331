"""Streams of points for the tests of curved distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad.pairs import PointPairs


def disk(seed: int, rounds: int, n: int = 2, moved_from: int | None = None) -> PointPairs:
    """Return pairs that are similar if both points are inside a disk of the first two features, or both outside.

    No linear distance can tell them apart. From round ``moved_from`` on, all points have moved far away.
    """
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(2, rounds, n))
    y = np.where(in_disk(X) == in_disk(Z), 1.0, -1.0)
    if moved_from is not None:
        X[moved_from:] += 20.0
        Z[moved_from:] += 20.0
    return PointPairs(X, Z, y)


def in_disk(X: np.ndarray) -> np.ndarray:
    """Return which points are inside a disk of the first two features; it holds half of normal points."""
    return np.square(X[:, :2]).mean(axis=1) < (0.69 if X.shape[1] > 1 else 0.45)


def sparse_points(seed: int, rounds: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the points and labels of pairs, as arrays of mostly zeros; similar pairs agree on the first features."""
    rng = np.random.default_rng(seed)
    X, Z = (np.where(rng.random((rounds, n)) < 0.2, rng.normal(size=(rounds, n)), 0.0) for _ in range(2))
    busy = [np.count_nonzero(points[:, : n // 3], axis=1) > n // 15 for points in (X, Z)]
    return X, Z, np.where(busy[0] == busy[1], 1.0, -1.0)


def scaled(pairs: PointPairs, factor: float) -> PointPairs:
    """Return the pairs with all points multiplied by a factor."""
    return PointPairs(factor * pairs.X, factor * pairs.Z, pairs.y)


def replay_in_chunks(tracker: Any, pairs: PointPairs, sizes: list[int], weights: np.ndarray | None = None) -> Any:
    """Replay chunks of these sizes, again and again; return all margins."""
    margins, done, i = [], 0, 0
    while done < len(pairs):
        part = slice(done, min(done + sizes[i % len(sizes)], len(pairs)))
        margins.append(tracker.replay(pairs[part], None if weights is None else weights[part]))
        done, i = part.stop, i + 1
    return np.concatenate(margins)
