"""The built-in stream is the scenario it says it is."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ocelad.streams import PAPER_PHASES, DriftingClusters, Phase
from ocelad.streams.clusters import SUBSPACES


def test_phases_of_the_paper():
    assert [(phase.clustering, phase.drift, phase.length) for phase in PAPER_PHASES] == [
        ("A", 0.0, 1000),
        ("B", 0.03, 1000),
        ("B", 0.06, 1000),
        ("B", 0.03, 1000),
        ("A", 0.01, 2000),
    ]
    assert len({phase.name for phase in PAPER_PHASES}) == 5


def test_rounds_and_phases_come_in_order():
    phases = [Phase("one", "A", 0.0, 3), Phase("two", "B", 0.1, 2)]
    moments = list(DriftingClusters(phases, n_points=50))
    assert [(moment.round, moment.phase.name) for moment in moments] == [
        (1, "one"),
        (2, "one"),
        (3, "one"),
        (4, "two"),
        (5, "two"),
    ]


@pytest.mark.parametrize("clustering", ["A", "B"])
def test_clusters_have_the_shares_spread_and_sides_that_they_should(clustering):
    moment = next(iter(DriftingClusters([Phase("p", clustering, 0.0, 1)], n_points=20_000)))
    assert np.bincount(moment.labels).tolist() == [10_000, 4_000, 6_000]
    points = moment.points()
    inside = points[:, SUBSPACES[clustering]]
    centres = np.array([inside[moment.labels == k].mean(axis=0) for k in range(3)])
    spreads = np.array([inside[moment.labels == k].std(axis=0) for k in range(3)])
    sides = [np.linalg.norm(centres[i] - centres[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(sides, 2.0, atol=0.04)
    np.testing.assert_allclose(spreads, 1 / 3, atol=0.02)
    np.testing.assert_allclose(points[:, 6:].std(axis=0), 1.0, atol=0.03)
    np.testing.assert_allclose(points[:, 6:].mean(axis=0), 0.0, atol=0.04)


def test_the_two_clusterings_are_independent():
    stream = DriftingClusters([Phase("a", "A", 0.0, 1), Phase("b", "B", 0.0, 1)], n_points=20_000)
    A, B = (moment.labels for moment in stream)
    joint = np.histogram2d(A, B, bins=3)[0] / 20_000
    np.testing.assert_allclose(joint, np.outer([0.5, 0.2, 0.3], [0.5, 0.2, 0.3]), atol=0.015)


@pytest.mark.parametrize("drift", [0.01, 0.06])
def test_the_projector_moves_as_fast_as_the_phase_says(drift):
    metrics = [moment.true_metric().matrix for moment in DriftingClusters([Phase("p", "A", drift, 400)], n_points=10)]
    moved = [np.linalg.norm(after - before) for before, after in pairwise(metrics)]
    assert np.sqrt(np.mean(np.square(moved))) == pytest.approx(drift, rel=0.05)


def test_rotations_stay_rotations():
    *_, last = DriftingClusters([Phase("p", "A", 0.3, 500)], n_points=10)
    np.testing.assert_allclose(last.rotation @ last.rotation.T, np.eye(25), atol=1e-11)
    assert np.linalg.det(last.rotation) == pytest.approx(1.0)


def test_event_is_that_of_the_pair_and_the_answer_that_of_the_labels():
    for moment in DriftingClusters([Phase("p", "B", 0.1, 50)], n_points=30):
        pair, event = moment.pair(), moment.event()
        np.testing.assert_allclose(pair.event().u, event.u, atol=1e-12)
        assert pair.event().y == event.y
        assert moment.first != moment.second
        assert moment.similar == (moment.labels[moment.first] == moment.labels[moment.second])
        np.testing.assert_allclose(pair.x, moment.points()[moment.first])


def test_the_triangles_are_turned_at_random():
    planes = []
    for seed in range(2):
        moment = next(iter(DriftingClusters(seed=seed)))
        assert moment.true_metric().round == 0
        centres = np.array([moment.points()[moment.labels == k, :3].mean(axis=0) for k in range(3)])
        planes.append(np.cross(centres[1] - centres[0], centres[2] - centres[0]))
    cosine = planes[0] @ planes[1] / np.linalg.norm(planes[0]) / np.linalg.norm(planes[1])
    assert abs(cosine) < 0.99


def test_true_metric_tells_nearly_all_pairs_apart():
    right = [
        moment.true_metric().similar(moment.pair().x, moment.pair().z) == moment.similar
        for moment in DriftingClusters([Phase("p", "B", 0.05, 2000)])
    ]
    assert np.mean(right) == pytest.approx(0.95, abs=0.02)


def test_same_seed_same_stream_and_it_can_be_walked_twice():
    phases = [Phase("p", "A", 0.05, 20)]
    one, other = DriftingClusters(phases, seed=3), DriftingClusters(phases, seed=3)
    walks = [[moment.event() for moment in stream] for stream in (one, other, one)]
    for again in walks[1:]:
        assert all((a.u == b.u).all() and a.y == b.y for a, b in zip(walks[0], again, strict=True))
    different = [moment.event() for moment in DriftingClusters(phases, seed=4)]
    assert not all((a.u == b.u).all() for a, b in zip(walks[0], different, strict=True))


def test_wrong_answers_change_nothing_else():
    phases = [Phase("p", "A", 0.05, 2000)]
    clean, noisy = (list(DriftingClusters(phases, n_points=50, flipped=share)) for share in (0.0, 0.1))
    assert all((a.first, a.second) == (b.first, b.second) for a, b in zip(clean, noisy, strict=True))
    assert (clean[-1].rotation == noisy[-1].rotation).all()
    flipped = np.mean([a.similar != b.similar for a, b in zip(clean, noisy, strict=True)])
    assert flipped == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Phase("p", "C", 0.1, 10), "clustering must be one of 'A', 'B'"),
        (lambda: Phase("p", "A", -0.1, 10), "drift must be"),
        (lambda: Phase("p", "A", float("nan"), 10), "drift must be"),
        (lambda: Phase("p", "A", 0.1, 0), "length must be a whole number of at least 1"),
        (lambda: DriftingClusters([]), "at least one Phase"),
        (lambda: DriftingClusters(["A"]), "at least one Phase"),
        (lambda: DriftingClusters(3), "at least one Phase"),
        (lambda: Phase(None, "A", 0.1, 10), "name must be text"),
        (lambda: DriftingClusters(n_features=5), "n_features must be a whole number of at least 6"),
        (lambda: DriftingClusters(n_points=2), "n_points must be"),
        (lambda: DriftingClusters(flipped=1.5), "flipped must be"),
        (lambda: DriftingClusters(seed=-1), "seed must be a whole number"),
        (lambda: DriftingClusters(seed="0"), "seed must be a whole number"),
    ],
)
def test_refuses(make, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()
