"""Comid: each step minimises its objective, and invalid settings are rejected."""

from __future__ import annotations

import numpy as np
import pytest

from ocelad import Comid, LearnerError, Metric, MetricTracker, Rice, track_metric
from ocelad.learners import l1_prox
from ocelad.learners.losses import LOSSES
from ocelad.learners.mirror_maps import DIVERGENCES
from ocelad.pairs import Event
from ocelad.testing import check_learner

N = 4


def random_metric(rng: np.random.Generator, n: int = N) -> Metric:
    A = rng.normal(size=(n, n))
    return Metric(A @ A.T / n + 0.05 * np.eye(n), threshold=rng.uniform(1, 3))


def regularize(name: str | None, M: np.ndarray) -> float:
    return {"nuclear": np.abs(np.linalg.eigvalsh(M)).sum(), "l1": np.abs(M).sum(), None: 0.0}[name]


def objective(start, event, eta, loss, divergence, regularizer, shrinkage):
    """Return the objective of equation (4), as a function of M."""
    u, y = event
    slope = LOSSES[loss].slope(y * (start.threshold - u @ start.matrix @ u))

    def value(M):
        step = eta * slope * y * (u @ M @ u)
        return DIVERGENCES[divergence].between(M, start.matrix) + step + eta * shrinkage * regularize(regularizer, M)

    return value


def feasible_neighbours(M: np.ndarray, rng: np.random.Generator):
    """Yield positive definite matrices near M and far from it, along random and along special directions."""
    n = len(M)
    for size in (1e-6, 1e-4, 1e-2, 0.3):
        for _ in range(30):
            A = rng.normal(size=(n, n))
            for direction in (A + A.T, np.outer(A[0], A[0]), -np.outer(A[0], A[0]), np.diag(A[0]), -M, M):
                values, V = np.linalg.eigh(M + size * np.linalg.norm(M) * direction / np.linalg.norm(direction))
                yield (V * np.maximum(values, 1e-14)) @ V.T


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("regularizer", ["nuclear", "l1", None])
def test_step_minimises_its_objective(loss, divergence, regularizer):
    rng = np.random.default_rng(list(map(ord, loss + divergence + str(regularizer))))
    singular = 0
    settings = {"loss": loss, "divergence": divergence, "regularizer": regularizer}
    settings["shrinkage"] = 0.0 if regularizer is None else 0.3
    for y, large in ((1.0, False), (-1.0, False), (1.0, True), (1.0, True)):
        start = random_metric(rng)
        # The step size is small enough for Burg, which halves larger ones (tested below). With the Frobenius
        # divergence, a large step on a similar pair ends at the boundary of the cone.
        event = Event(rng.normal(size=N), y)
        eta = 0.2 / max(1.0, event.u @ start.matrix @ event.u) ** 2
        if large:
            event, eta = Event(2 * event.u, y), 1.0
        learner = Comid(start, step_size=eta, **settings)
        learner.update(event)
        M = learner.play().matrix
        value = objective(start, event, eta, **settings)
        minimum = value(M)
        rounding = 1e-11 * (1 + abs(minimum))
        assert all(value(other) >= minimum - rounding for other in feasible_neighbours(M, rng))
        assert any(value(other) > minimum + rounding for other in feasible_neighbours(M, rng))
        singular += np.linalg.eigvalsh(M)[0] < 1e-12
    if divergence == "frobenius":
        assert singular >= 1


@pytest.mark.parametrize("y", [1.0, -1.0])
def test_threshold_moves_with_the_label_and_stays_at_least_1(y):
    start = Metric(np.eye(2), threshold=1.05)
    learner = Comid(start, step_size=0.1)
    event = Event(np.array([1.2, 0.0]), y)
    learner.update(event)
    # The margin is below 1 for both labels, so the slope is 1; 1.05 - 0.1 would be below 1.
    assert learner.play().threshold == (1.05 + 0.1 if y > 0 else 1.0)


def test_shrinkage_applies_when_the_slope_is_zero():
    learner = Comid(Metric(np.eye(2), threshold=3.0), step_size=0.1, shrinkage=0.5)
    learner.update(Event(np.zeros(2), 1.0))
    np.testing.assert_allclose(learner.play().matrix, 0.95 * np.eye(2))
    assert learner.play().threshold == 3.0


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_the_l1_step_satisfies_the_optimality_conditions(divergence):
    rng, n_checked = np.random.default_rng(3), 0
    for n in (2, 5, 12):
        D = DIVERGENCES[divergence].to_dual(random_metric(rng, n).matrix)
        tau = 0.05
        M = l1_prox.shrink(DIVERGENCES[divergence], D, tau)
        # Optimality, without the solver: psi'(M) = D - Z; Z = tau sign(M) where M is nonzero, |Z| <= tau elsewhere.
        if np.linalg.eigvalsh(M)[0] > 1e-9:
            n_checked += 1
            Z = D - DIVERGENCES[divergence].to_dual(M)
            assert np.abs(Z).max() <= tau * (1 + 1e-6)
            assert l1_prox.gap(M, Z, tau) <= 1e-9 * tau * np.abs(M).sum()
            nonzero = np.abs(M) > 1e-7 * np.abs(M).max()
            np.testing.assert_allclose(Z[nonzero], tau * np.sign(M[nonzero]), rtol=1e-4)
    assert n_checked > 0


def in_blocks(rng, sizes):
    """Return a block-diagonal positive definite matrix with permuted features."""
    M = np.zeros((sum(sizes), sum(sizes)))
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        M[end - size : end, end - size : end] = random_metric(rng, size).matrix
    order = rng.permutation(len(M))
    return M[np.ix_(order, order)]


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 1), (4, 3, 1, 1), (9,), (1,)])
def test_the_l1_step_by_blocks_equals_the_step_of_the_whole_matrix(divergence, sizes, monkeypatch):
    rng = np.random.default_rng(sizes)
    divergence, tau = DIVERGENCES[divergence], 0.05
    D = divergence.to_dual(in_blocks(rng, sizes))
    noise = rng.uniform(-0.3 * tau, 0.3 * tau, size=D.shape)
    D += noise + noise.T  # entries between blocks, below tau
    solved = []
    solve = l1_prox._shrink_block
    monkeypatch.setattr(
        l1_prox, "_shrink_block", lambda *arguments: solved.append(len(arguments[1])) or solve(*arguments)
    )
    M = l1_prox.shrink(divergence, D, tau)
    whole = solve(divergence, D, tau, 1e-12)
    np.testing.assert_allclose(M, whole, atol=1e-5 * np.abs(whole).max())  # the accuracy that the gap guarantees
    assert max(solved, default=1) <= max(sizes)
    assert (M == M.T).all()
    assert np.linalg.eigvalsh(M)[0] >= -1e-12

    # The certificate of the whole matrix, with Z = D between blocks.
    if divergence.positive_definite:
        Z = D - divergence.to_dual(M)
        assert np.abs(Z).max() <= tau * (1 + 1e-6)
        assert l1_prox.gap(M, Z, tau) <= 1e-9 * tau * np.abs(M).sum()


def test_isolated_features_are_shrunk_separately():
    D = np.diag([2.0, 0.3, -1.0]) + 0.4 * (1 - np.eye(3))
    assert (l1_prox.shrink(DIVERGENCES["frobenius"], D, 0.5) == np.diag([1.5, 0.0, 0.0])).all()


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-6])
def test_the_l1_step_is_as_accurate_as_its_tolerance(tolerance):
    rng = np.random.default_rng(1)
    u, tau = rng.normal(size=12), 0.3
    D = np.outer(u, u) - 0.2 * np.eye(12)
    exact, near = (l1_prox.shrink(DIVERGENCES["frobenius"], D, tau, t) for t in (1e-11, tolerance))

    def objective(M):
        return np.square(M - D).sum() / 2 + tau * np.abs(M).sum()

    allowed = tolerance * tau * np.abs(near).sum()
    above = objective(near) - objective(exact)
    assert 0 < above <= allowed
    assert np.linalg.norm(near - exact) <= np.sqrt(2 * allowed)
    assert np.linalg.eigvalsh(near)[0] >= -1e-14


@pytest.mark.parametrize("seed", range(6))
def test_l1_steps_with_a_singular_minimiser_are_certified(seed):
    # Without Newton steps this needs more than thousands of gradient steps.
    rng = np.random.default_rng(seed)
    u = 2 * rng.normal(size=25) / 5
    D, tau = np.eye(25) / 25 + 0.3 * np.outer(u, u), 0.02
    M = l1_prox.shrink(DIVERGENCES["frobenius"], D, tau)
    assert 0 < np.linalg.matrix_rank(M, tol=1e-9) < 25
    assert np.linalg.eigvalsh(M)[0] >= -1e-14
    # No positive semidefinite matrix has a lower objective.
    minimum = np.square(M - D).sum() / 2 + tau * np.abs(M).sum()
    for other in feasible_neighbours(M, rng):
        assert np.square(other - D).sum() / 2 + tau * np.abs(other).sum() >= minimum - 1e-11


def test_the_tolerance_reaches_the_l1_step():
    rng = np.random.default_rng(0)
    pairs, y = rng.normal(size=(15, 2, 6)), np.where(rng.random(15) < 0.5, 1, -1)
    exact, near = (
        MetricTracker(method=Rice(regularizer="l1", shrinkage=0.3, step_size=0.1, l1_tolerance=t)).fit(pairs, y).metric_
        for t in (1e-12, 1e-3)
    )
    assert exact != near
    np.testing.assert_allclose(near.matrix, exact.matrix, atol=0.1 * np.abs(exact.matrix).max())


def test_an_l1_step_that_cannot_be_certified_raises(monkeypatch):
    monkeypatch.setattr(l1_prox, "MAX_STEPS", 2)
    rng = np.random.default_rng(0)
    D = DIVERGENCES["burg"].to_dual(random_metric(rng, 6).matrix)
    with pytest.raises(ArithmeticError, match="did not reach its duality gap"):
        l1_prox.shrink(DIVERGENCES["burg"], D, 0.3)


def test_l1_makes_zeros():
    start = Metric(np.array([[1.0, 0.1], [0.1, 1.0]]), threshold=5.0)
    learner = Comid(start, step_size=0.5, regularizer="l1", shrinkage=0.4)
    learner.update(Event(np.zeros(2), 1.0))
    np.testing.assert_allclose(learner.play().matrix, 0.8 * np.eye(2), atol=1e-12)


def test_burg_halves_a_step_that_has_no_minimum():
    # inv(M) - eta uu' is positive definite only for eta < 1 / u'Mu = 1/16.
    start = Metric(np.eye(2), threshold=20.0)
    event = Event(np.array([4.0, 0.0]), -1.0)
    halved, small = (Comid(start, step_size=eta, divergence="burg") for eta in (0.2, 0.05))
    halved.update(event)
    small.update(event)
    assert halved.play() == small.play()


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_norm_is_bounded_by_scaling(divergence):
    rng = np.random.default_rng(1)
    start = Metric(0.3 * np.eye(N))
    free, bounded = (Comid(start, step_size=0.3, divergence=divergence, max_norm=c) for c in (None, 0.62))
    event = Event(rng.normal(size=N), -1.0)
    free.update(event)
    bounded.update(event)
    M = free.play().matrix
    assert np.linalg.norm(M) > 0.62
    np.testing.assert_allclose(bounded.play().matrix, M * 0.62 / np.linalg.norm(M), rtol=1e-12)
    assert bounded.play().threshold == free.play().threshold


def test_metrics_within_the_bound_are_not_scaled():
    event = Event(np.ones(N), 1.0)
    free, bounded = (Comid(Metric(0.3 * np.eye(N)), step_size=0.01, max_norm=c) for c in (None, 50.0))
    free.update(event)
    bounded.update(event)
    assert free.play() == bounded.play()


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regularizer", ["nuclear", "l1"])
def test_satisfies_the_contract_of_a_learner(loss, divergence, regularizer):
    rng = np.random.default_rng(2)
    events = [Event(rng.normal(size=3), float(rng.choice([-1, 1]))) for _ in range(6)]
    settings = {"loss": loss, "divergence": divergence, "regularizer": regularizer, "shrinkage": 0.05}
    check_learner(lambda: Comid(Metric(np.eye(3)), step_size=0.05, **settings), events)


@pytest.mark.parametrize("u", [np.zeros(3), np.full(3, 1e-8), np.full(3, 1e8), np.array([1e8, 1e-8, 0.0])])
def test_extreme_differences(u):
    for y in (1.0, -1.0):
        learner = Comid(Metric(np.eye(3)), step_size=0.01)
        learner.update(Event(u, y))
        M = learner.play().matrix
        assert np.isfinite(M).all()
        assert np.linalg.eigvalsh(M)[0] >= -1e-12 * np.linalg.norm(M)


@pytest.mark.parametrize("divergence", ["von_neumann", "burg"])
@pytest.mark.parametrize("regularizer", ["nuclear", "l1"])
def test_eigenvalues_below_the_resolution_of_float64(divergence, regularizer):
    # Distant similar pairs lower one eigenvalue; close dissimilar pairs raise the other.
    tracker = track_metric(2, divergence=divergence, regularizer=regularizer, shrinkage=1e-9)
    for _ in range(30):
        tracker.step(Event(np.array([1e9, 1e9]), 1.0))
        tracker.step(Event(np.array([0.1, -0.1]), -1.0))
    M = tracker.play().matrix
    assert np.isfinite(M).all()
    assert tracker.play().squared_length(np.array([0.1, -0.1])) > 0


@pytest.mark.parametrize("divergence", ["von_neumann", "burg"])
def test_the_dual_of_a_singular_matrix_is_finite(divergence):
    divergence = DIVERGENCES[divergence]
    D = divergence.to_dual(np.diag([1.0, 0.0, -1e-18]))
    assert np.isfinite(D).all()
    assert divergence.reaches(D)
    np.testing.assert_allclose(divergence.from_dual(D), np.diag([1.0, 0.0, 0.0]), atol=1e-14)


@pytest.mark.parametrize("regularizer", ["nuclear", "l1"])
def test_overflow_of_von_neumann_raises_with_every_regularizer(regularizer):
    tracker = MetricTracker(
        method=Rice(divergence="von_neumann", regularizer=regularizer, shrinkage=0.01, initial_scale=1e-8)
    )
    with pytest.raises(LearnerError, match="the metric overflows; use a smaller step_size"):
        tracker.learn_one([400.0, 0.0], [0.0, 0.0], -1)


def test_extreme_step_sizes_terminate():
    rng = np.random.default_rng(0)
    pairs, y = rng.normal(size=(20, 2, 3)), np.where(rng.random(20) < 0.5, 1, -1)
    MetricTracker(method=Rice(step_size=1e10, divergence="burg")).fit(pairs, y)
    with pytest.raises(LearnerError, match="overflows"):
        MetricTracker(method=Rice(step_size=1e3, divergence="von_neumann", regularizer="l1", shrinkage=0.1)).fit(
            pairs, y
        )


def test_max_norm_bounds_a_metric_whose_norm_overflows():
    learner = Comid(Metric(1e-200 * np.eye(2)), step_size=1.0, max_norm=5.0)
    learner.update(Event(np.array([1e78, 0.0]), -1.0))
    np.testing.assert_allclose(learner.play().matrix, np.diag([5.0, 0.0]), atol=1e-9)


def test_halving_with_burg_includes_the_shrinkage():
    # At eta = 1, inv(M) - eta uu' + eta rho I is positive definite only because of rho.
    start, event = Metric(np.eye(2), threshold=20.0), Event(np.array([2.0, 0.0]), -1.0)
    learner = Comid(start, step_size=1.0, divergence="burg", shrinkage=4.0)
    learner.update(event)
    np.testing.assert_allclose(learner.play().matrix, np.diag([1.0, 1 / 5]))


@pytest.mark.parametrize(
    ("divergence", "u"), [("von_neumann", [0.0, 100.0]), ("frobenius", [1e140, 1e140]), ("burg", [1e155, 0.0])]
)
def test_overflow_raises_and_changes_nothing(divergence, u):
    learner = Comid(Metric(1e-20 * np.eye(2)), step_size=1.0, divergence=divergence, loss="squared_hinge")
    before = learner.play()
    y = -1.0 if divergence == "von_neumann" else 1.0
    with pytest.raises(FloatingPointError, match="smaller step_size"):
        learner.update(Event(np.array(u), y))
    assert learner.play() is before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hing"}, "loss must be one of 'hinge'"),
        ({"divergence": "kl"}, "divergence must be one of"),
        ({"regularizer": "l2"}, "regularizer must be one of"),
        ({"regularizer": None, "shrinkage": 0.1}, "shrinkage must be 0 with regularizer None; got 0.1"),
        ({"step_size": 0.0}, "step_size must be a finite number above 0"),
        ({"step_size": float("nan")}, "step_size must be a finite number above 0"),
        ({"step_size": "fast"}, "step_size must be a finite number above 0"),
        ({"shrinkage": -0.1}, "shrinkage must be a finite number of at least 0"),
        ({"max_norm": 0.0}, "max_norm must be a finite number above 0"),
        ({"max_norm": 0.1}, "max_norm must be at least the Frobenius norm 1.41421 of the initial metric; got"),
        (
            {"start": Metric(np.zeros((2, 2))), "divergence": "burg"},
            "divergence 'burg' needs a positive definite start",
        ),
        ({"start": Metric(np.diag([1.0, 0.0])), "divergence": "von_neumann"}, "got a metric of rank 1 in 2 dimensions"),
        ({"start": Metric(np.eye(2), threshold=0.5)}, "the threshold of start must be at least 1"),
        ({"start": np.eye(2)}, "start must be a Metric; got ndarray"),
        ({"l1_tolerance": 1e-15}, "l1_tolerance must be a finite number of at least 1e-12 and of at most 0.1"),
        ({"l1_tolerance": 0.11}, "l1_tolerance must be"),
        ({"regularizer": None, "shrinkage": 1e-4}, "shrinkage must be 0 with regularizer None; got 0.0001"),
        ({"max_norm": 1.4}, "max_norm must be at least the Frobenius norm 1.41421 of the initial metric; got"),
    ],
)
def test_invalid_settings_are_rejected(settings, message):
    arguments = {"start": Metric(np.eye(2)), "step_size": 0.1, **settings}
    with pytest.raises((ValueError, TypeError), match=message):
        Comid(arguments.pop("start"), **arguments)


@pytest.mark.parametrize("l1_tolerance", [1e-12, 0.1])
def test_the_ends_of_the_range_of_l1_tolerance_are_accepted(l1_tolerance):
    assert Comid(Metric(np.eye(2)), step_size=0.1, l1_tolerance=l1_tolerance).play() == Metric(np.eye(2))


def test_a_small_l1_shrinkage_shrinks_every_entry():
    learner = Comid(Metric([[1.0, 0.5], [0.5, 1.0]], threshold=9.0), step_size=1.0, regularizer="l1", shrinkage=5e-4)
    learner.update(Event(np.zeros(2), 1.0))
    np.testing.assert_allclose(learner.play().matrix, [[0.9995, 0.4995], [0.4995, 0.9995]], rtol=1e-12)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_round_without_a_step_changes_no_bit(divergence):
    start = Metric(random_metric(np.random.default_rng(0)).matrix, threshold=9.0)
    learner = Comid(start, step_size=0.1, divergence=divergence)
    learner.update(Event(np.zeros(N), 1.0))
    assert np.array_equal(learner.play().matrix, start.matrix)


def test_burg_without_a_minimum_at_any_step_size_raises():
    # The slope is 1e300: eta uu' exceeds inv(M) even at the smallest eta above 0.
    learner = Comid(Metric(1e30 * np.eye(2), threshold=1e300), step_size=1.0, loss="squared_hinge", divergence="burg")
    with pytest.raises(ArithmeticError, match="no minimum at any step size"):
        learner.update(Event(np.array([1.0, 0.0]), -1.0))


def test_a_bounded_metric_may_become_zero():
    learner = Comid(Metric(0.1 * np.eye(2)), step_size=1.0, shrinkage=1.0, max_norm=1.0)
    learner.update(Event(np.array([1.0, 0.0]), 1.0))
    assert learner.play().matrix.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("scale", [1e-10, 1.0, 1e10])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_burg_reaches_matrices_that_float64_can_invert(scale, n):
    burg, eps = DIVERGENCES["burg"], np.finfo(float).eps
    assert burg.reaches(-scale * np.eye(n))
    assert not burg.reaches(scale * np.eye(n))
    if n > 1:
        smallest = np.ones(n)
        for factor, reached in ((1.5, True), (1.0, False), (0.5, False), (-1.0, False)):
            smallest[0] = factor * n * eps
            assert burg.reaches(-np.diag(scale * smallest)) is reached
    assert burg.reaches(burg.to_dual(scale * np.diag(np.arange(float(n)))))


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_the_mirror_map_and_its_inverse(divergence):
    divergence, M = DIVERGENCES[divergence], random_metric(np.random.default_rng(1)).matrix
    np.testing.assert_allclose(divergence.from_dual(divergence.to_dual(M)), M, rtol=1e-12)
    assert np.isfinite(divergence.to_dual(np.zeros((3, 3)))).all()
    assert divergence.positive_definite == (divergence is not DIVERGENCES["frobenius"])


def test_the_divergences_by_hand():
    # Of diagonal matrices, a divergence is the sum over the entries.
    M, N_ = np.diag([2.0, 0.5]), np.diag([1.0, 3.0])
    assert DIVERGENCES["frobenius"].between(M, N_) == pytest.approx((1.0 + 2.5**2) / 2)
    entropy = 2 * np.log(2) - 2 + 1 + 0.5 * np.log(0.5 / 3) - 0.5 + 3
    assert DIVERGENCES["von_neumann"].between(M, N_) == pytest.approx(entropy)
    assert DIVERGENCES["burg"].between(M, N_) == pytest.approx(2 + 1 / 6 - np.log(2 / 6) - 2)


def test_an_event_of_another_length_is_rejected():
    with pytest.raises(ValueError, match=r"u must have shape \(2,\); got \(3,\)"):
        Comid(Metric(np.eye(2)), step_size=0.1).loss(Event(np.zeros(3), 1.0))


def test_max_norm_may_be_the_norm_of_the_start_up_to_rounding():
    start, norm = Metric(np.eye(2)), np.sqrt(2.0)
    for max_norm in (norm * (1 + 1e-8), norm, norm * (1 - 0.9e-9)):
        assert Comid(start, step_size=0.1, max_norm=max_norm).play() is start
    with pytest.raises(ValueError, match=r"max_norm must be at least the Frobenius norm 1\.41421 .*; got 1\.41421"):
        Comid(start, step_size=0.1, max_norm=norm * (1 - 1.1e-9))


def test_a_metric_of_exactly_max_norm_is_not_scaled():
    learner = Comid(Metric(0.5 * np.eye(2), threshold=9.0), step_size=1.0, loss="hinge", max_norm=1.0)
    learner.update(Event(np.array([np.sqrt(0.5), 0.0]), 1.0))  # the margin is above 1: nothing to learn
    assert np.array_equal(learner.play().matrix, 0.5 * np.eye(2))
    bounded = Comid(Metric(np.diag([0.6, 0.0])), step_size=0.4, loss="hinge", max_norm=1.0)
    bounded.update(Event(np.array([1.0, 0.0]), -1.0))  # 0.6 + 0.4 = 1
    assert bounded.play().matrix.tolist() == [[1.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("threshold", [1.0, np.nextafter(1.0, 0.0)])
def test_the_threshold_of_the_start_is_at_least_1(threshold):
    if threshold == 1.0:
        assert Comid(Metric(np.eye(2), threshold=threshold), step_size=0.1).play().threshold == 1.0
    else:
        with pytest.raises(ValueError, match="the threshold of start must be at least 1"):
            Comid(Metric(np.eye(2), threshold=threshold), step_size=0.1)


def test_a_round_without_a_step_counts():
    learner = Comid(Metric(np.eye(2), threshold=9.0), step_size=0.1, loss="hinge")
    learner.update(Event(np.zeros(2), 1.0))
    assert (learner.play().round, learner.play().matrix.tolist()) == (1, np.eye(2).tolist())


def test_with_start_changes_only_the_metric_and_the_step_size():
    learner = Comid(Metric(np.eye(2)), step_size=0.1, loss="squared_hinge", shrinkage=0.2, max_norm=3.0)
    other, event = learner.with_start(Metric(0.5 * np.eye(2)), 0.3), Event(np.array([0.5, 0.2]), -1.0)
    same = Comid(Metric(0.5 * np.eye(2)), step_size=0.3, loss="squared_hinge", shrinkage=0.2, max_norm=3.0)
    other.update(event)
    same.update(event)
    assert (other.step_size, learner.step_size) == (0.3, 0.1)
    assert other.play() == same.play()
    assert learner.play() == Metric(np.eye(2))
