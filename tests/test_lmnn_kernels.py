"""The compiled loop of LMNN against a literal loop over all triplets."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ocelad.lab.baselines.lmnn_kernels import accumulate_hinges


def case(seed):
    """Return points of two classes, and the targets of each point: up to three other points of its class."""
    rng = np.random.default_rng(seed)
    points, classes = rng.normal(size=(11, 3)), np.repeat([0, 1], [5, 6])
    targets = [
        rng.permutation([j for j in range(11) if classes[j] == classes[i] and j != i])[: rng.integers(1, 4)]
        for i in range(11)
    ]
    return points, classes, targets


def by_loops(points, classes, targets):
    """Return the sum of all hinges, and the active triplets (i, number of its target, l)."""
    loss, active = 0.0, []
    for i in range(len(points)):
        for number, j in enumerate(targets[i]):
            for other in np.flatnonzero(classes != classes[i]):
                hinge = 1.0 + np.square(points[i] - points[j]).sum() - np.square(points[i] - points[other]).sum()
                if hinge > 0:
                    loss += hinge
                    active.append((i, number, int(other)))
    return loss, active


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_hinges_and_counts_are_those_of_all_triplets(seed, scale):
    points, classes, targets = case(seed)
    points = scale * points
    starts = np.cumsum([0, *map(len, targets)])
    near = np.concatenate([np.square(points[i] - points[t]).sum(axis=1) for i, t in enumerate(targets)])
    reach = np.array([near[a:b].max() + 1.0 for a, b in pairwise(starts)])
    lengths = np.square(points).sum(axis=1)
    per_target, sums, mixed = np.full(len(near), 7.0), np.full(11, 3.0), np.full((11, 3), 2.0)
    loss = accumulate_hinges(
        *(points[:5] @ points[5:].T, 0, 5, lengths[:5], lengths[5:], reach[:5], reach[5:]),
        *(near, starts, points, per_target, sums, mixed),
    )
    expected, active = by_loops(points, classes, targets)
    assert loss == pytest.approx(expected, rel=1e-12)
    assert 0 < len(active) < sum(len(t) * (6 if i < 5 else 5) for i, t in enumerate(targets))
    counts, pairs = np.zeros(len(near)), np.zeros((11, 11))
    for i, number, other in active:
        counts[starts[i] + number] += 1
        pairs[min(i, other), max(i, other)] += 1
    # The numbers are added to what the arrays hold.
    assert (per_target - 7.0 == counts).all()
    assert (sums - 3.0 == pairs.sum(axis=0) + pairs.sum(axis=1)).all()
    np.testing.assert_allclose(mixed - 2.0, pairs @ points, atol=1e-12)


def test_a_hinge_of_exactly_zero_is_not_active():
    # The target is at squared distance 1, the other point at squared distance 2.
    products, zeros = np.zeros((1, 1)), np.zeros(2)
    starts, per_target, mixed = np.array([0, 1, 1]), np.zeros(1), np.zeros((2, 1))
    loss = accumulate_hinges(
        *(products, 0, 1, np.array([0.0]), np.array([2.0]), np.array([2.0]), np.array([9.0])),
        *(np.array([1.0]), starts, np.ones((2, 1)), per_target, zeros, mixed),
    )
    assert loss == 0.0
    assert not any(array.any() for array in (per_target, zeros, mixed))
