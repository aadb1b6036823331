"""The streams of the benchmarks."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ocelad.evaluation.streams import DriftingClusters
from ocelad.pairs import Events, Relatives


def blobs(n: int, rounds: int, spread: float = 0.6) -> Events:
    """Return pairs of three slightly overlapping clusters in three dimensions; the other dimensions are noise.

    The total variance of the noise does not depend on n. With the settings ``NUCLEAR`` a pair updates 3 to 6 of 12
    learners, and the ranks settle at 4 to 10, for every n.
    """
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, size=(rounds, 2))
    points = rng.normal(size=(rounds, 2, n)) * np.sqrt(6.0 / n)
    points[:, :, :3] = spread * rng.normal(size=(rounds, 2, 3)) + 2 * np.eye(3)[labels]
    return Events(points[:, 0] - points[:, 1], np.where(labels[:, 0] == labels[:, 1], 1.0, -1.0))


def triplets(n: int, rounds: int, spread: float = 0.6) -> Relatives:
    """Return relative comparisons of points as in ``blobs``: points of one cluster are nearer to each other."""
    rng = np.random.default_rng(0)
    same, other = rng.integers(0, 3, size=rounds), rng.integers(1, 3, size=rounds)
    points = rng.normal(size=(rounds, 3, n)) * np.sqrt(6.0 / n)
    labels = np.stack([same, same, (same + other) % 3], axis=1)
    points[:, :, :3] = spread * rng.normal(size=(rounds, 3, 3)) + 2 * np.eye(3)[labels]
    return Relatives(near=points[:, 0] - points[:, 1], far=points[:, 0] - points[:, 2])


NUCLEAR = {"step_size": 0.1, "shrinkage": 0.5, "initial_scale": 0.0, "loss": "hinge"}


def words(n: int, rounds: int, entries: int = 80) -> Events:
    """Return sparse pairs: three informative features as in ``blobs``, and some others by a power law."""
    rng = np.random.default_rng(0)
    cumulative = np.cumsum(np.arange(1.0, n - 2) ** -0.8)
    labels = rng.integers(0, 3, size=(rounds, 2))
    rows, columns, values = [], [], []
    for t, (one, other) in enumerate(labels):
        noise = 3 + np.unique(np.searchsorted(cumulative, cumulative[-1] * rng.random(entries)))
        informative = 2.0 * (np.eye(3)[one] - np.eye(3)[other]) + 0.6 * np.sqrt(2.0) * rng.normal(size=3)
        columns.append(np.concatenate([np.arange(3), noise]))
        values.append(np.concatenate([informative, rng.normal(size=len(noise)) * np.sqrt(12.0 / len(noise))]))
        rows.append(np.full(len(columns[-1]), t))
    matrix = csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(rounds, n))
    return Events(matrix, np.where(labels[:, 0] == labels[:, 1], 1.0, -1.0))


def scenario(seed: int = 0) -> Events:
    """Return the events of the paper's drifting stream."""
    return DriftingClusters(seed=seed).events()
