"""The drifting clusters have the documented distribution, and seeds give fixed streams."""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocelad.evaluation.streams import PAPER_PHASES, SCENARIOS, DriftingClusters, Phase
from ocelad.evaluation.streams.drifting_clusters import SUBSPACES, pair_points
from ocelad.metric import Metric


def test_the_phases_of_the_paper():
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
    steps = list(DriftingClusters(phases, n_points=50))
    assert [(step.round, step.phase.name) for step in steps] == [
        (1, "one"),
        (2, "one"),
        (3, "one"),
        (4, "two"),
        (5, "two"),
    ]


@pytest.mark.parametrize("clustering", ["A", "B"])
def test_clusters_have_the_documented_shares_spread_and_distances(clustering):
    step = next(iter(DriftingClusters([Phase("p", clustering, 0.0, 1)], n_points=20_000)))
    assert np.bincount(step.labels).tolist() == [10_000, 4_000, 6_000]
    points = step.points()
    inside = points[:, SUBSPACES[clustering]]
    centres = np.array([inside[step.labels == k].mean(axis=0) for k in range(3)])
    spreads = np.array([inside[step.labels == k].std(axis=0) for k in range(3)])
    sides = [np.linalg.norm(centres[i] - centres[j]) for i, j in ((0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(sides, 2.0, atol=0.04)
    np.testing.assert_allclose(spreads, 1 / 3, atol=0.02)
    np.testing.assert_allclose(points[:, 6:].std(axis=0), 1.0, atol=0.03)
    np.testing.assert_allclose(points[:, 6:].mean(axis=0), 0.0, atol=0.04)


def test_the_two_clusterings_are_independent():
    stream = DriftingClusters([Phase("a", "A", 0.0, 1), Phase("b", "B", 0.0, 1)], n_points=20_000)
    A, B = (step.labels for step in stream)
    joint = np.histogram2d(A, B, bins=3)[0] / 20_000
    np.testing.assert_allclose(joint, np.outer([0.5, 0.2, 0.3], [0.5, 0.2, 0.3]), atol=0.015)


@pytest.mark.parametrize("drift", [0.01, 0.06])
def test_the_projector_moves_by_the_drift_of_the_phase(drift):
    metrics = [step.true_metric().matrix for step in DriftingClusters([Phase("p", "A", drift, 400)], n_points=10)]
    moved = [np.linalg.norm(after - before) for before, after in pairwise(metrics)]
    assert np.sqrt(np.mean(np.square(moved))) == pytest.approx(drift, rel=0.05)


def test_rotations_stay_rotations():
    *_, last = DriftingClusters([Phase("p", "A", 0.3, 500)], n_points=10)
    np.testing.assert_allclose(last.rotation @ last.rotation.T, np.eye(25), atol=1e-11)
    assert np.linalg.det(last.rotation) == pytest.approx(1.0)


def test_events_agree_with_pairs_and_labels():
    for step in DriftingClusters([Phase("p", "B", 0.1, 50)], n_points=30):
        pair, event = step.pair(), step.event()
        np.testing.assert_allclose(pair.event().u, event.u, atol=1e-12)
        assert pair.event().y == event.y
        assert step.first != step.second
        assert step.similar == (step.labels[step.first] == step.labels[step.second])
        np.testing.assert_allclose(pair.x, step.points()[step.first])


def test_the_planes_of_the_triangles_are_random():
    planes = []
    for seed in range(2):
        step = next(iter(DriftingClusters(seed=seed)))
        assert step.true_metric().round == 0
        centres = np.array([step.points()[step.labels == k, :3].mean(axis=0) for k in range(3)])
        planes.append(np.cross(centres[1] - centres[0], centres[2] - centres[0]))
    cosine = planes[0] @ planes[1] / np.linalg.norm(planes[0]) / np.linalg.norm(planes[1])
    assert abs(cosine) < 0.99


def test_the_true_metric_classifies_95_percent_of_the_pairs_correctly():
    right = [
        step.true_metric().similar(step.pair().x, step.pair().z) == step.similar
        for step in DriftingClusters([Phase("p", "B", 0.05, 2000)])
    ]
    assert np.mean(right) == pytest.approx(0.95, abs=0.02)


def test_a_seed_determines_the_stream_which_can_be_iterated_twice():
    phases = [Phase("p", "A", 0.05, 20)]
    one, other = DriftingClusters(phases, seed=3), DriftingClusters(phases, seed=3)
    runs = [[step.event() for step in stream] for stream in (one, other, one)]
    for again in runs[1:]:
        assert all((a.u == b.u).all() and a.y == b.y for a, b in zip(runs[0], again, strict=True))
    different = [step.event() for step in DriftingClusters(phases, seed=4)]
    assert not all((a.u == b.u).all() for a, b in zip(runs[0], different, strict=True))


def draw_one_by_one(stream):
    """The definition: the random draws of each round, in order, and the rotation."""
    rotations, pairs, labels = map(np.random.default_rng, np.random.SeedSequence(stream.seed).spawn(4)[1:])
    n, eye = stream.n_features, np.eye(stream.n_features)
    rotation = next(iter(stream)).rotation if stream.random_rotation else eye
    for phase in stream.phases:
        for _ in range(phase.length):
            if phase.drift:
                skew = np.zeros((n, n))
                skew[np.triu_indices(n, 1)] = rotations.normal(
                    scale=phase.drift / np.sqrt(6 * (n - 3)), size=n * (n - 1) // 2
                )
                skew -= skew.T
                rotation = np.linalg.solve(eye - skew / 2, eye + skew / 2) @ rotation
            first, second = pairs.integers(stream.n_points), pairs.integers(stream.n_points - 1)
            second += second >= first
            yield first, second, bool(labels.random() < stream.label_noise), rotation


@pytest.mark.parametrize(
    "stream",
    [
        DriftingClusters([Phase("a", "A", 0.0, 70), Phase("b", "B", 0.06, 200), Phase("c", "A", 0.5, 1)], seed=5),
        DriftingClusters([Phase("b", "B", 0.1, 300)], n_points=10, n_features=6, label_noise=0.3, seed=6),
        DriftingClusters([Phase("b", "B", 1.0, 3)], n_points=70_000, n_features=120, seed=7),
        DriftingClusters(
            [Phase("a", "A", 0.0, 2), Phase("b", "B", 0.1, 300)], n_points=11, random_rotation=True, seed=8
        ),
    ],
)
def test_chunks_of_rounds_equal_single_draws(stream):
    events = stream.events()
    assert len(events) == len(stream)
    for step, event, drawn in zip(stream, events, draw_one_by_one(stream), strict=True):
        first, second, wrong, rotation = drawn
        assert (step.first, step.second) == (first, second)
        assert step.similar == ((step.labels[first] == step.labels[second]) != wrong)
        assert (step.rotation == rotation).all()
        assert (step.event().u == event.u).all()
        assert step.event().y == event.y


@pytest.mark.parametrize("n_features", [6, 25])
def test_the_points_of_many_pairs_equal_those_of_each_step(n_features):
    phases = [Phase("a", "A", 0.0, 70), Phase("b", "B", 0.06, 100)]
    steps = list(DriftingClusters(phases, n_features=n_features, n_points=40, random_rotation=True, seed=2))
    each = np.array([step.points([step.first, step.second]) for step in steps])
    assert (pair_points(steps) == each).all()
    assert (pair_points(steps[-1:]) == each[-1:]).all()


def test_the_true_metric_is_valid_and_of_rank_3():
    for step in DriftingClusters([Phase("b", "B", 0.5, 30)], n_points=10, random_rotation=True):
        metric = step.true_metric()
        assert metric == Metric(metric.matrix, metric.threshold, metric.round)
        assert np.linalg.matrix_rank(metric.matrix) == 3


@pytest.mark.parametrize(
    ("seed", "pairs", "last"),
    [
        (0, "15e626e85a3c2310", [0.0502259699236, 1.01274410708, -2.02554552063, -1.44502908377]),
        (1, "1552fe9fcbabedd7", [-0.291485539935, -1.2344586218, 2.26248582618, -0.0715720678585]),
        (7, "1236ab3db951e50c", [1.8351113496, -0.300684170819, 1.41100857483, -1.50014372948]),
    ],
)
def test_the_stream_of_a_seed_never_changes(seed, pairs, last):
    """Published figures depend on it. Linear algebra rounds differently on other machines."""
    stream, digest = DriftingClusters(seed=seed), sha256()
    for step in stream:
        digest.update(np.array([step.first, step.second, step.similar], dtype="<i8").tobytes())
    assert digest.hexdigest()[:16] == pairs
    np.testing.assert_allclose(step.event().u[:4], last, rtol=1e-9)


def test_rounds_are_drawn_lazily():
    stream = DriftingClusters([Phase("p", "A", 0.1, 10**12)])
    assert [step.round for step, _ in zip(stream, range(100), strict=False)] == list(range(1, 101))


def test_a_random_rotation_leaves_pairs_and_labels_unchanged():
    phases = [Phase("a", "A", 0.0, 5), Phase("b", "B", 0.1, 100)]
    plain, rotated, again = (
        list(DriftingClusters(phases, n_points=50, random_rotation=rotation, seed=3))
        for rotation in (False, True, True)
    )
    Q = rotated[0].rotation
    np.testing.assert_allclose(Q @ Q.T, np.eye(25), atol=1e-13)
    assert np.linalg.det(Q) == pytest.approx(1.0)
    for a, b, c in zip(plain, rotated, again, strict=True):
        assert (a.first, a.second, a.similar) == (b.first, b.second, b.similar)
        np.testing.assert_allclose(b.rotation, a.rotation @ Q, atol=1e-12)
        assert (b.rotation == c.rotation).all()


def test_random_rotations_are_uniform():
    streams = [DriftingClusters(n_points=10, random_rotation=True, seed=seed) for seed in range(400)]
    entries = np.array([next(iter(stream)).rotation for stream in streams])
    # An entry of a uniform rotation has mean 0, variance 1/n and fourth moment 3 / (n (n + 2)).
    np.testing.assert_allclose(np.linalg.det(entries), 1.0)
    assert np.abs(entries.mean(axis=0)).max() < 5 * np.sqrt(1 / 25 / 400)
    np.testing.assert_allclose((entries**2).mean(axis=0), 1 / 25, atol=5 * np.sqrt(2 / 25**2 / 400))
    assert (entries**4).mean() == pytest.approx(3 / (25 * 27), rel=0.02)


def test_scenarios_have_the_documented_parameters():
    lengths = {name: len(scenario.stream(0)) for name, scenario in SCENARIOS.items()}
    short = dict.fromkeys(("static", "slow", "fast", "switching"), 3000)
    assert lengths == dict.fromkeys(SCENARIOS, 6000) | short
    assert (SCENARIOS["paper"].stream(4).events().U == DriftingClusters(seed=4).events().U).all()
    assert [phase.clustering for phase in SCENARIOS["switching"].phases] == ["A", "B"] * 5
    for name, drift in (("static", 0.0), ("slow", 0.003), ("fast", 0.1), ("switching", 0.0)):
        stream = SCENARIOS[name].stream(1)
        assert {phase.drift for phase in stream.phases} == {drift}
        assert stream.random_rotation
        assert len({phase.name for phase in stream.phases}) == len(stream.phases)
    assert all("\n" not in scenario.description for scenario in SCENARIOS.values())


def test_the_noisy_scenario_differs_from_the_paper_only_in_the_labels():
    paper, noisy = (SCENARIOS[name].stream(2).events() for name in ("paper", "noisy"))
    assert (paper.U == noisy.U).all()
    assert np.mean(paper.y != noisy.y) == pytest.approx(0.1, abs=0.02)


def test_label_noise_changes_nothing_else():
    phases = [Phase("p", "A", 0.05, 2000)]
    clean, noisy = (list(DriftingClusters(phases, n_points=50, label_noise=share)) for share in (0.0, 0.1))
    assert all((a.first, a.second) == (b.first, b.second) for a, b in zip(clean, noisy, strict=True))
    assert (clean[-1].rotation == noisy[-1].rotation).all()
    share = np.mean([a.similar != b.similar for a, b in zip(clean, noisy, strict=True)])
    assert share == pytest.approx(0.1, abs=0.02)


def test_variants_of_the_rotated_scenario_differ_from_it_in_one_parameter():
    rotated, noisy, heavy, units = (
        SCENARIOS[name].stream(3) for name in ("rotated", "rotated-noisy", "heavy-tailed", "units")
    )
    assert all(stream.random_rotation and stream.phases == PAPER_PHASES for stream in (rotated, noisy, heavy, units))
    events = rotated.events()
    assert (noisy.events().U == events.U).all()
    assert np.mean(noisy.events().y != events.y) == pytest.approx(0.1, abs=0.02)
    assert (heavy.events().y == events.y).all()
    np.testing.assert_allclose(units.events().U, events.U * next(iter(units)).units, rtol=1e-12, atol=1e-12)
    assert (units.events().y == events.y).all()


def test_heavy_tails_are_in_the_noise_only_and_have_variance_one():
    phases = [Phase("a", "A", 0.0, 1), Phase("b", "B", 0.1, 20)]
    normal, heavy = (list(DriftingClusters(phases, n_points=20_000, feature_noise=noise)) for noise in ("normal", "t3"))
    for one, other in zip(normal, heavy, strict=True):
        assert (one.first, one.second, one.similar) == (other.first, other.second, other.similar)
        assert (one.rotation == other.rotation).all()
    points, heavy_points = normal[0].points(), heavy[0].points()
    assert (points[:, :6] == heavy_points[:, :6]).all()
    # The sample variance of Student's t with 3 degrees of freedom has infinite variance; quantiles do not.
    quantiles = [0.05, 0.25, 0.75, 0.95, 0.999]
    expected = np.array([-2.35336, -0.76489, 0.76489, 2.35336, 10.21453]) / np.sqrt(3)
    np.testing.assert_allclose(np.quantile(heavy_points[:, 6:], quantiles), expected, rtol=0.05)
    assert np.quantile(points[:, 6:], 0.999) < 3.3


@given(seed=st.integers(0, 2**32), n_features=st.integers(6, 12), random_rotation=st.booleans())
@settings(max_examples=30, deadline=None)
def test_units_multiply_the_points_and_the_true_metric_divides_by_them(seed, n_features, random_rotation):
    phases = [Phase("a", "A", 0.0, 3), Phase("b", "B", 0.1, 5)]
    settings = {"n_points": 12, "n_features": n_features, "random_rotation": random_rotation, "seed": seed}
    plain, scaled = (DriftingClusters(phases, random_units=random_units, **settings) for random_units in (False, True))
    units = next(iter(scaled)).units
    assert np.mean(units**2) == pytest.approx(1.0)
    assert units.max() / units.min() < 1000 * (1 + 1e-9)
    np.testing.assert_allclose(scaled.events().U, plain.events().U * units, rtol=1e-12)
    for one, other in zip(plain, scaled, strict=True):
        assert (one.units == 1.0).all()
        np.testing.assert_allclose(other.points(), one.points() * units, rtol=1e-12)
        np.testing.assert_allclose(other.event().u, one.event().u * units, rtol=1e-12)
        np.testing.assert_allclose(other.pair().x, one.pair().x * units, rtol=1e-12)
        true, same = (step.true_metric().squared_length(step.event().u) for step in (one, other))
        assert same == pytest.approx(true, rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(pair_points(list(scaled)), pair_points(list(plain)) * units, rtol=1e-12)


def test_units_differ_by_orders_of_magnitude():
    streams = [DriftingClusters(n_points=10, random_units=True, seed=seed) for seed in range(40)]
    units = np.concatenate([next(iter(stream)).units for stream in streams])
    assert np.log10(units).std() == pytest.approx(3 / np.sqrt(12), rel=0.1)


@pytest.mark.parametrize(
    ("make", "message"),
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
        (lambda: DriftingClusters(label_noise=1.5), "label_noise must be"),
        (lambda: DriftingClusters(random_rotation="no"), "random_rotation must be one of False, True"),
        (lambda: DriftingClusters(feature_noise="t4"), "feature_noise must be one of 'normal', 't3'"),
        (lambda: DriftingClusters(random_units="m"), "random_units must be one of False, True"),
        (lambda: DriftingClusters(seed=-1), "seed must be a whole number"),
        (lambda: DriftingClusters(seed="0"), "seed must be a whole number"),
    ],
)
def test_invalid_arguments_raise_an_error(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
