"""The L1 step: exact answers, certified gaps, block boundaries, and the iterations of its two solvers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, cg

from ocelad.learners import l1_prox
from ocelad.learners.mirror_maps import DIVERGENCES

FROBENIUS = DIVERGENCES["frobenius"]


def project(A):
    """Return the nearest positive semidefinite matrix."""
    values, V = np.linalg.eigh(A)
    return (V * np.maximum(values, 0.0)) @ V.T


def soft_threshold(A, tau):
    return np.sign(A) * np.maximum(np.abs(A) - tau, 0.0)


def objective(M, D, tau):
    return np.square(M - D).sum() / 2 + tau * np.abs(M).sum()


def by_splitting(D, tau, rounds=4000):
    """Return the minimiser by alternating directions (ADMM), which shares nothing with the solver."""
    N = U = np.zeros_like(D)
    for _ in range(rounds):
        M = project((D + N - U) / 2)
        N = soft_threshold(M + U, tau)
        U = U + M - N
    return project(N)


def symmetric(seed, n, scale=1.0):
    A = scale * np.random.default_rng(seed).normal(size=(n, n))
    return (A + A.T) / 2


def rank_one(seed, n):
    """Return a matrix whose L1 step has a singular minimiser, where gradient steps converge slowly."""
    u = 1.2 * np.random.default_rng(seed).normal(size=n) / np.sqrt(n)
    return np.outer(u, u)


@pytest.fixture
def decompositions(monkeypatch):
    """Return a list with one entry for each eigendecomposition that was computed."""
    sizes, eigh = [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda A: sizes.append(len(A)) or eigh(A))
    return sizes


# Exact answers.


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_diagonal_matrix_is_shrunk_by_its_eigenvalues(divergence):
    D = -np.diag([0.5, 1.0, 3.0])
    expected = {
        "frobenius": [0.0, 0.0, 0.0],
        "von_neumann": np.exp([-0.7, -1.2, -3.2]),
        "burg": [1 / 0.7, 1 / 1.2, 1 / 3.2],
    }[divergence]
    np.testing.assert_allclose(l1_prox.shrink(DIVERGENCES[divergence], D, 0.2), np.diag(expected), rtol=1e-14)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_positive_definite_answer_is_the_soft_thresholded_matrix(sign, decompositions):
    D = np.array([[2.0, sign * 1.25], [sign * 1.25, 1.5]])
    np.testing.assert_allclose(l1_prox.shrink(FROBENIUS, D, 0.25), [[1.75, sign], [sign, 1.25]], rtol=1e-14)
    assert len(decompositions) == 1  # the start is the solution


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_singular_answer_of_two_features(sign):
    # D - tau sign(D) = [[1, 1.5], [1.5, 1]] has the eigenvalues 2.5 and -0.5. Its projection has the same signs.
    D = np.array([[1.25, sign * 1.75], [sign * 1.75, 1.25]])
    np.testing.assert_allclose(
        l1_prox.shrink(FROBENIUS, D, 0.25), 1.25 * np.array([[1.0, sign], [sign, 1.0]]), rtol=1e-6
    )


def test_a_block_with_a_negative_definite_answer_is_zero(decompositions):
    D = np.array([[-1.0, 0.5], [0.5, -1.0]])
    assert not l1_prox.shrink(FROBENIUS, D, 0.1).any()
    assert len(decompositions) == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tau", [0.1, 0.4])
def test_the_step_agrees_with_alternating_directions(seed, tau):
    D = symmetric(seed, 5)
    M, expected = l1_prox.shrink(FROBENIUS, D, tau), by_splitting(D, tau)
    assert objective(M, D, tau) == pytest.approx(objective(expected, D, tau), rel=1e-5)
    assert objective(M, D, tau) <= objective(expected, D, tau) + 1e-11
    np.testing.assert_allclose(M, expected, atol=1e-3)
    assert np.linalg.eigvalsh(M)[0] >= -1e-14


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_frobenius_step_scales_with_its_input(scale):
    for D in (symmetric(0, 6), rank_one(1, 10)):
        M = l1_prox.shrink(FROBENIUS, D, 0.1)
        np.testing.assert_allclose(l1_prox.shrink(FROBENIUS, scale * D, scale * 0.1), scale * M, atol=1e-5 * scale)


# The gap and the tolerance.


def test_the_gap_by_hand():
    M, Z = np.array([[2.0, -1.0], [-1.0, 1.0]]), np.array([[0.5, -0.25], [-0.25, 0.5]])
    assert l1_prox.gap(M, Z, 0.5) == 0.5 * 5.0 - (1.0 + 0.25 + 0.25 + 0.5)
    assert l1_prox.gap(M, 0.5 * np.sign(M), 0.5) == 0.0


@pytest.mark.parametrize("scale", [1e-5, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6])
def test_the_objective_is_within_the_tolerance_at_every_scale(scale, tolerance):
    D, tau = scale * symmetric(3, 6), scale * 0.2
    exact, near = (l1_prox.shrink(FROBENIUS, D, tau, t) for t in (1e-12, tolerance))
    above = objective(near, D, tau) - objective(exact, D, tau)
    assert above <= tolerance * tau * np.abs(near).sum()
    assert above > 0  # the solver stops when the tolerance is reached


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_larger_tolerance_needs_fewer_decompositions(divergence, decompositions):
    D = DIVERGENCES[divergence].to_dual(project(symmetric(1, 8)) + 0.1 * np.eye(8))
    counts = []
    for tolerance in (1e-12, 1e-6, 1e-2):
        decompositions.clear()
        l1_prox.shrink(DIVERGENCES[divergence], D, 0.1, tolerance)
        counts.append(len(decompositions))
    assert counts[0] > counts[1] > counts[2]


# Blocks.


def test_an_entry_of_exactly_tau_connects_nothing():
    D = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, -0.5], [0.0, -0.5, 1.0]])
    isolated, blocks = l1_prox._blocks(D, 0.5)
    assert isolated.tolist() == [0, 1, 2]
    assert blocks == []
    isolated, blocks = l1_prox._blocks(D, np.nextafter(0.5, 0.0))
    assert isolated.tolist() == []
    assert [block.tolist() for block in blocks] == [[0, 1, 2]]


def test_blocks_are_the_connected_components():
    D = np.zeros((7, 7))
    for i, j in ((0, 4), (4, 2), (1, 6)):
        D[i, j] = D[j, i] = -1.0
    isolated, blocks = l1_prox._blocks(D, 0.5)
    assert isolated.tolist() == [3, 5]
    assert sorted(block.tolist() for block in blocks) == [[0, 2, 4], [1, 6]]


def test_nan_connects_its_features():
    D = np.eye(3)
    D[0, 2] = D[2, 0] = np.nan
    isolated, blocks = l1_prox._blocks(D, 0.5)
    assert isolated.tolist() == [1]
    assert [block.tolist() for block in blocks] == [[0, 2]]


# The start.


def ring(n):
    """Return a negative definite matrix that soft-thresholding by 0.1 makes indefinite: tau (6 - n) on the ones."""
    distances = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    near = np.minimum(distances, n - distances)
    return -np.select([near == 0, near == 1], [5.01, -(5.0 + (n - 3) * 0.2) / 2], 0.2)


@pytest.mark.parametrize("falls_back", [False, True])
def test_the_start_is_in_the_box_and_the_minimum_exists_there(falls_back):
    burg, tau = DIVERGENCES["burg"], 0.1
    D = ring(8) if falls_back else -project(symmetric(1, 8)) - 0.05 * np.eye(8)
    assert burg.reaches(D)
    soft = np.where(np.eye(8, dtype=bool), D - tau, soft_threshold(D, tau))
    assert burg.reaches(soft) is not falls_back
    Z = l1_prox._start(burg, D, tau)
    np.testing.assert_allclose(D - Z, D - tau * np.eye(8) if falls_back else soft, atol=1e-15)
    M = l1_prox.shrink(burg, D, tau)
    Z = D - burg.to_dual(M)
    assert np.abs(Z).max() <= tau * (1 + 1e-6)
    assert l1_prox.gap(M, Z, tau) <= 1e-9 * tau * np.abs(M).sum()


# The gradient steps.


def literal_accelerated_steps(divergence, D, tau, Z, steps):
    """The accelerated projected gradient method of Beck and Teboulle (2009) with restarts, on the dual."""
    ahead, t, length = Z, 1.0, 1.0
    for _ in range(steps):
        M, length = divergence.from_dual(D - ahead), 1.1 * length
        while True:
            following = np.clip(ahead + length * M, -tau, tau)
            change = M - divergence.from_dual(D - following)
            if np.sum(change * (following - ahead)) * length <= np.sum((following - ahead) ** 2) * (1 + 1e-9):
                break
            length /= 2
        if np.sum((ahead - following) * (following - Z)) > 0:
            t = 1.0
        t_next = (1 + np.sqrt(1 + 4 * t**2)) / 2
        ahead = np.clip(following + (t - 1) / t_next * (following - Z), -tau, tau)
        Z, t = following, t_next
    return Z


@pytest.mark.parametrize("divergence", ["frobenius", "von_neumann"])
@pytest.mark.parametrize("steps", [1, 2, 3, 10, 40])
def test_gradient_steps_are_those_of_the_literal_loop(divergence, steps):
    divergence, D, tau = DIVERGENCES[divergence], 2.0 * symmetric(5, 8), 0.4
    Z = l1_prox._start(divergence, D, tau)
    found, M = l1_prox._gradient_steps(divergence, D, tau, Z, divergence.from_dual(D - Z), 1e-14, steps)
    np.testing.assert_allclose(found, literal_accelerated_steps(divergence, D, tau, Z, steps), atol=1e-9)
    np.testing.assert_allclose(M, divergence.from_dual(D - found), rtol=1e-12)


# About 15 % more eigendecompositions than the accelerated steps need; plain gradient steps need several times as many.
@pytest.mark.parametrize(("divergence", "most"), [("frobenius", 740), ("von_neumann", 840), ("burg", 910)])
def test_accelerated_gradient_steps_converge_fast(divergence, most, monkeypatch, decompositions):
    monkeypatch.setattr(l1_prox, "GRADIENT_STEPS", l1_prox.MAX_STEPS)  # no Newton steps
    for seed in range(12):
        D = symmetric(seed, 8)
        if divergence != "frobenius":
            D = DIVERGENCES[divergence].to_dual(project(D) + 0.05 * np.eye(8))
        l1_prox.shrink(DIVERGENCES[divergence], D, 0.1)
    assert len(decompositions) <= most


# The Newton steps.


def test_newton_steps_certify_singular_minimisers(monkeypatch, decompositions):
    # Gradient steps alone need thousands of iterations for these.
    monkeypatch.setattr(l1_prox, "MAX_STEPS", l1_prox.GRADIENT_STEPS)
    for seed in range(10):
        decompositions.clear()
        M = l1_prox.shrink(FROBENIUS, rank_one(seed, 20), 0.05)
        assert np.linalg.matrix_rank(M, tol=1e-9) < 20
        assert len(decompositions) <= 2 * l1_prox.GRADIENT_STEPS + 40


def projection_derivative(A, E, h=1e-6):
    return (project(A + h * E) - project(A - h * E)) / (2 * h)


NEWTON_CASES = {
    "distinct": [-1.0, -0.3, 0.4, 1.5, 2.0],
    "repeated": [-1.0, -1.0, 0.5, 0.5, 0.5],
    "close to zero": [-1.0, -2e-4, 3e-4, 0.5, 1.0],
    "positive": [0.5, 1.0, 1.5, 2.0, 2.5],
}


@pytest.mark.parametrize("case", NEWTON_CASES)
@pytest.mark.parametrize("relative", [4.0, 1.0, 1e-2, 1e-6])
@pytest.mark.parametrize("products", [1, 2, 5, 200])
@pytest.mark.parametrize("scale", [1e-6, 1.0])
def test_the_newton_step_is_a_damped_conjugate_gradient_solution(case, relative, products, scale):
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    eigenvalues = np.array(NEWTON_CASES[case])
    A = (Q * eigenvalues) @ Q.T
    free = symmetric(1, 5) > -0.3
    assert 0 < free.sum() < 25
    target = np.where(free, symmetric(2, 5), 0.0)

    def product(direction):
        D = direction.reshape(5, 5)
        return (np.where(free, projection_derivative(A, D), 0.0) + damping * D).ravel()

    damping = 1e-3 * min(1.0, relative**0.5)
    accuracy = (1e-4 * min(1.0, relative)) ** 0.5
    expected = cg(LinearOperator((25, 25), product, dtype=float), target.ravel(), rtol=accuracy, maxiter=products)[0]
    step = l1_prox._newton_step(scale * eigenvalues, Q, target, free, relative, products)
    np.testing.assert_allclose(step, expected.reshape(5, 5), atol=1e-4 * np.abs(expected).max())
    assert (step == step.T).all()


def test_the_projection_does_not_move_at_zero_eigenvalues():
    # Where two eigenvalues are zero, the derivative is taken from below: only the damping remains.
    target = np.diag([0.0, 1.0, 1.0])
    step = l1_prox._newton_step(np.array([1.0, 0.0, 0.0]), np.eye(3), target, np.ones((3, 3), bool), 1.0, 10)
    np.testing.assert_allclose(step, 1e3 * target)
    step = l1_prox._newton_step(np.zeros(3), np.eye(3), np.eye(3), np.ones((3, 3), bool), 1.0, 10)
    np.testing.assert_allclose(step, 1e3 * np.eye(3))


def newton_case(seed, tau):
    """Return D and a Z in the box with some entries at the bound, and the entries whose gradient points out of it."""
    D = symmetric(seed, 6)
    Z = np.clip(symmetric([seed, 1], 6), -tau, tau)
    Z[0, 0] = tau
    D += 2.0 * np.outer(np.eye(6)[0], np.eye(6)[0])  # M[0, 0] is positive
    at_bound = (np.abs(Z) == tau) & (Z * project(D - Z) > 0)
    assert 0 < at_bound.sum() < 36
    return D, Z, at_bound


@pytest.mark.parametrize("tau", [0.3, 1.5])
@pytest.mark.parametrize("size", [1.0, 5.0, 20.0, 100.0, 1e3, 1e5])
@pytest.mark.parametrize("seed", range(4))
def test_newton_steps_are_halved_until_they_descend(tau, size, seed, monkeypatch):
    D, Z, at_bound = newton_case(seed, tau)
    M = project(D - Z)
    proposal = symmetric([seed, 2], 6)
    proposal *= size * np.sign((M * proposal).sum())
    asked = []

    def newton_step(eigenvalues, Q, target, free, relative, max_products):
        asked.append((target, free, relative, max_products))
        return proposal

    monkeypatch.setattr(l1_prox, "_newton_step", newton_step)
    monkeypatch.setattr(l1_prox, "NEWTON_STEPS", 1)
    Z_next, M_next = l1_prox._newton_steps(D, tau, Z, 1e-12, 7)
    [(target, free, relative, max_products)] = asked
    assert (free == ~at_bound).all()
    np.testing.assert_allclose(target, np.where(at_bound, 0.0, M), atol=1e-14)
    assert relative == pytest.approx(l1_prox.gap(M, Z, tau) / (tau * np.abs(M).sum()))
    assert max_products == 7

    def acceptable(Z_new):
        """The dual falls by 1e-4 of its linear prediction, or the gap by a tenth."""
        M_new = project(D - Z_new)
        falls = (np.square(M).sum() - np.square(M_new).sum()) / 2 >= 1e-4 * (M * (Z_new - Z)).sum()
        return falls or l1_prox.gap(M_new, Z_new, tau) <= 0.9 * l1_prox.gap(M, Z, tau)

    step = np.where(at_bound, M, proposal)
    candidates = [np.clip(Z + 0.5**k * step, -tau, tau) for k in range(10)]  # the last length is above 1e-3
    expected = next((candidate for candidate in candidates if acceptable(candidate)), Z)
    np.testing.assert_allclose(Z_next, expected, atol=1e-14)
    np.testing.assert_allclose(M_next, project(D - expected), atol=1e-13)


def test_newton_steps_stop_at_a_certified_point(decompositions):
    D, tau = np.array([[2.0, 1.25], [1.25, 1.5]]), 0.25
    Z, M = l1_prox._newton_steps(D, tau, np.full((2, 2), tau), 1e-12, 60)
    assert len(decompositions) == 1
    assert Z.tolist() == [[tau, tau], [tau, tau]]
    np.testing.assert_allclose(M, D - tau)
