"""The kernels: the secular equation, updates of an eigenform, Cholesky factors in lanes.

With NUMBA_DISABLE_JIT=1 they run as plain Python, on fewer examples.
"""

from __future__ import annotations

from math import sqrt
from types import SimpleNamespace

import numpy as np
import pytest
from engine_cases import COMPILED, as_batch, difficult_events, make
from hypothesis import given, settings
from hypothesis import strategies as st

from ocelad import _compile
from ocelad.engines.kernels import cholesky, eigenform, row_cholesky, secular
from ocelad.engines.lowrank_bank import LowRankBank
from ocelad.testing import strategies


def solve(d, z, s):
    """Return the eigenvalues of ``diag(d) + s zz'``, and the eigenvectors as columns."""
    m = len(d)
    poles = np.zeros((eigenform.N_POLES, secular.padded(m)))
    poles[secular.D, :m], poles[secular.Z, :m] = d, z
    with np.errstate(all="ignore"):
        secular.solve(poles, s, m, np.zeros(secular.N_NUMBERS))
    origin, offset, weights = (poles[row, :m] for row in (secular.ROOT_ORIGIN, secular.ROOT_OFFSET, secular.Z))
    Q = weights[:, None] / ((d[:, None] - origin) - offset)
    return origin + offset, Q / np.linalg.norm(Q, axis=0)


@settings(max_examples=200 if COMPILED else 30)
@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=20, unique=True),
    st.integers(0, 10**6),
    st.sampled_from([1e-12, 1e-6, 0.1, 1.0]),
)
def test_secular_equation(poles, seed, s):
    d = np.sort(np.array(poles))
    z = np.random.default_rng(seed).normal(size=len(d))
    z /= np.linalg.norm(z)  # the problem has size 1
    # Nearly equal poles and negligible weights are deflated before the equation is solved.
    d = d[np.append(True, np.diff(d) > 1e-13)]
    z = z[: len(d)]
    keep = np.abs(z) > 1e-13 / s
    d, z = d[keep], z[keep]
    if len(d) == 0:
        return
    roots, Q = solve(d, z, s)
    A = np.diag(d) + s * np.outer(z, z)
    np.testing.assert_allclose((Q * roots) @ Q.T, A, atol=2e-14)
    np.testing.assert_allclose(Q.T @ Q, np.eye(len(d)), atol=1e-13)
    assert (np.diff(roots) >= 0).all()


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("m", [2, 7, 8, 9, 17])
def test_close_poles(gap, m):
    d = 0.3 + gap * np.arange(m)
    z = np.where(np.arange(m) % 2, 1.0, -0.4)
    z /= np.linalg.norm(z)
    roots, Q = solve(d, z, 0.5)
    np.testing.assert_allclose((Q * roots) @ Q.T, np.diag(d) + 0.5 * np.outer(z, z), atol=2e-14)
    np.testing.assert_allclose(Q.T @ Q, np.eye(m), atol=1e-13)
    # Interlacing: a root lies between each two neighbouring poles.
    assert (roots >= d).all()
    assert (roots[:-1] <= d[1:]).all()


def work_space(n, capacity):
    return eigenform.Work(
        q=np.zeros(secular.padded(n)),
        poles=np.zeros((eigenform.N_POLES, secular.padded(capacity))),
        Q=np.zeros(capacity * capacity),
        lanes=np.zeros(secular.N_NUMBERS + secular.LANES * secular.padded(capacity)),
        order=np.zeros((eigenform.N_ORDERS, secular.padded(capacity)), dtype=np.int64),
    )


def test_the_eigenvalue_nearest_to_the_base_is_dropped():
    for base, expected in ((0.0, [5.0, 3.0, 2.0]), (2.9, [5.0, 2.0, 1.0]), (9.0, [3.0, 2.0, 1.0])):
        work = work_space(4, 8)
        work.poles[eigenform.ROOT, :4] = [5.0, 3.0, 2.0, 1.0]
        work.order[eigenform.KEPT, :4] = np.arange(4)
        assert eigenform.drop_nearest_to_base(work.poles, work.order, 4, base) == 3
        assert work.poles[eigenform.ROOT, work.order[eigenform.KEPT, :3]].tolist() == expected


def test_inserted_poles_are_sorted():
    work = work_space(4, 8)
    m = 0
    for column, value in enumerate([2.0, -1.0, 5.0, 2.0, 0.0]):
        m = eigenform.insert_pole(value, 10.0 + column, column, m, work.poles, work.order)
    assert m == 5
    assert work.poles[eigenform.VALUE, :5].tolist() == [-1.0, 0.0, 2.0, 2.0, 5.0]
    assert work.order[eigenform.SOURCE, :5].tolist() == [1, 4, 0, 3, 2]
    assert work.poles[eigenform.WEIGHT, :5].tolist() == [11.0, 14.0, 10.0, 13.0, 12.0]


@settings(max_examples=60 if COMPILED else 10)
@given(strategies.streams(4, max_size=25 if COMPILED else 8), st.sampled_from(["hinge", "logistic"]))
@pytest.mark.parametrize("engine", ["lowrank", "blocked, 4", "sparse, 4"])
def test_directions_stay_orthonormal_and_eigenvalues_above_zero(engine, events, loss):
    tracker = make(engine, 4, loss=loss, step_size=0.2)
    for event in events:
        tracker.step(event)
    bank, state = tracker.bank, tracker.bank._state
    for slot in state.slots[: tracker.round_state.n_active]:
        V, lam = bank._directions(slot), state.lam[slot, : state.rank[slot]]
        np.testing.assert_allclose(V @ V.T, np.eye(len(V)), atol=1e-12 if engine == "lowrank" else 1e-9)
        assert (lam >= 0).all()
        assert (lam > 0).all() or state.base[slot] > 0


@pytest.mark.parametrize("engine", ["lowrank", "blocked, 4", "sparse, 4"])
def test_directions_are_orthonormalized_again(engine):
    tracker = make(engine, 5, step_size=0.05)
    for event in difficult_events(4, 5, 30):
        tracker.step(event)
    bank, before = tracker.bank, tracker.play()
    slot = bank._state.slots[0]
    r = bank._state.rank[slot]
    assert r > 1
    V = bank._state.V[bank._state.buffer[slot], :r]
    V += 1e-9 * np.where(V != 0.0, np.random.default_rng(0).normal(size=V.shape), 0.0)
    skewed = bank._directions(slot)
    assert np.abs(skewed @ skewed.T - np.eye(r)).max() > 1e-11
    bank._repair_rounding()
    repaired = bank._directions(slot)
    np.testing.assert_allclose(repaired @ repaired.T, np.eye(r), atol=1e-13)
    np.testing.assert_allclose(tracker.play().matrix, before.matrix, atol=1e-8)


@pytest.mark.parametrize("engine", ["lowrank", "blocked, 4"])
def test_repairs_happen_at_the_same_rounds_in_steps_and_replays(engine, monkeypatch):
    monkeypatch.setattr("ocelad.engines.lowrank_bank.MAX_ORTHOGONALITY_LOSS", 0.0)
    monkeypatch.setattr(LowRankBank, "repair_interval", 16)
    repairs = []
    plain = LowRankBank._repair_rounding
    monkeypatch.setattr(LowRankBank, "_repair_rounding", lambda bank: repairs.append(plain(bank)))
    events = difficult_events(7, 4, 100 if COMPILED else 40)
    one, whole, parts = (make(engine, 4, step_size=0.05) for _ in range(3))
    for event in events:
        one.step(event)
    whole.replay(as_batch(events))
    for first in range(0, len(events), 7):
        parts.replay(as_batch(events[first : first + 7]))
    assert len(repairs) == 3 * (len(events) // 16)
    if engine == "lowrank":
        assert one.play() == whole.play() == parts.play()
    else:
        np.testing.assert_allclose(whole.play().matrix, one.play().matrix, rtol=1e-10, atol=1e-12)


# Cholesky factorizations of eight matrices at once.


def triangles(matrices):
    n = matrices.shape[1]
    M = np.zeros((1, n * (n + 1) // 2, secular.LANES))
    for lane, matrix in enumerate(matrices):
        M[0, :, lane] = matrix[np.tril_indices(n)]
    return M


def clip(matrices, u, s):
    """Return the size of the negative eigenvalue of each ``M - s uu'``, and its eigenvector."""
    n = len(u)
    M, norm2 = triangles(matrices), float(u @ u)
    C, x = np.zeros((n, n, secular.LANES)), np.zeros((cholesky.N_VECTORS, n, secular.LANES))
    lanes = np.zeros((cholesky.N_NUMBERS, secular.LANES))
    x[cholesky.U] = (u / sqrt(norm2))[:, None]
    lanes[cholesky.S], lanes[cholesky.GUESS] = s, 0.3
    cholesky.find_negative_eigenpairs(
        M, 0, n, norm2, C, x, lanes, np.zeros((n + cholesky.N_VECTORS, secular.padded(n)))
    )
    sizes = lanes[cholesky.MAGNITUDE] * s * norm2
    vectors = x[cholesky.EIGENVECTOR].T
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return sizes, vectors / np.where(lengths > 0, lengths, 1.0)


def eight_matrices(rng, n):
    """Return matrices of full rank, of lower ranks, zero, of size 1e-3 and 1e3, and with repeated eigenvalues."""
    A = rng.normal(size=(8, n, n))
    A[1, n // 2 :] = 0.0
    A[2, 1:] = 0.0
    A[3] = 0.0
    A[4] *= sqrt(1e-3)
    A[5] *= sqrt(1e3)
    A[6] = np.eye(n)
    A[7] = np.diag(np.arange(n) % 2)
    return np.einsum("kij,kil->kjl", A, A) / n


@pytest.mark.parametrize("n", [1, 2, 5, 12])
@pytest.mark.parametrize("s", [1e-6, 1e-2, 1.0, 100.0])
def test_negative_eigenpairs(n, s):
    rng = np.random.default_rng(n)
    for _ in range(20 if COMPILED else 2):
        matrices, u = eight_matrices(rng, n), rng.normal(size=n)
        sizes, vectors = clip(matrices, u, s)
        for matrix, size, v in zip(matrices, sizes, vectors, strict=True):
            values, basis = np.linalg.eigh(matrix - s * np.outer(u, u))
            scale = max(np.abs(values).max(), s * (u @ u))
            assert size == pytest.approx(max(-values[0], 0.0), abs=1e-13 * n * scale)
            clipped = matrix - s * np.outer(u, u) + size * np.outer(v, v)
            positive = (basis * np.maximum(values, 0.0)) @ basis.T
            np.testing.assert_allclose(clipped, positive, atol=1e-12 * n * scale)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 17])
@pytest.mark.parametrize("s", [1e-6, 1e-2, 1.0, 100.0])
def test_a_single_lane_agrees_with_eigh(n, s):
    rng = np.random.default_rng(n)
    matrices, u = eight_matrices(rng, n), rng.normal(size=n)
    for lane in range(8) if COMPILED else (0, 7):
        sizes, vectors = clip(matrices, u, np.where(np.arange(8) == lane, s, 0.0))
        assert (np.delete(sizes, lane) == 0.0).all()
        values, basis = np.linalg.eigh(matrices[lane] - s * np.outer(u, u))
        scale = max(np.abs(values).max(), s * (u @ u))
        assert sizes[lane] == pytest.approx(max(-values[0], 0.0), abs=1e-13 * n * scale)
        v = vectors[lane]
        clipped = matrices[lane] - s * np.outer(u, u) + sizes[lane] * np.outer(v, v)
        np.testing.assert_allclose(clipped, (basis * np.maximum(values, 0.0)) @ basis.T, atol=1e-12 * n * scale)


def test_positive_matrices_have_no_negative_eigenvalue():
    rng = np.random.default_rng(0)
    u = rng.normal(size=4)
    matrices = np.array([scale * np.eye(4) for scale in (1.0, 2.0, 1e3, 1e6, 1e12, 1.0, 1.0, 1.0)])
    sizes, _ = clip(matrices, u, 0.9 / (u @ u))
    assert (sizes == 0.0).all()
    sizes, _ = clip(matrices, u, 1.1 / (u @ u))
    np.testing.assert_allclose(sizes, [0.1, 0, 0, 0, 0, 0.1, 0.1, 0.1], atol=1e-14)


def test_a_lane_without_a_step_is_skipped():
    rng = np.random.default_rng(0)
    matrices, u = eight_matrices(rng, 4), rng.normal(size=4)
    s = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
    sizes, _ = clip(matrices, u, s)
    all_lanes, _ = clip(matrices, u, 1.0)
    assert (sizes[s == 0.0] == 0.0).all()
    np.testing.assert_allclose(sizes[s > 0.0], all_lanes[s > 0.0], rtol=1e-12)
    assert (all_lanes[s > 0.0] > 0.0).all()


def test_a_slightly_indefinite_matrix():
    u = np.array([1.0, 0.0, 0.0])
    matrices = np.array([np.diag([0.5, -1e-17, 1.0])] * 8)
    sizes, vectors = clip(matrices, u, 1.0)
    np.testing.assert_allclose(sizes, 0.5, rtol=1e-12)
    np.testing.assert_allclose(np.abs(vectors[:, 0]), 1.0, rtol=1e-12)


@pytest.mark.parametrize("n_lanes", [1, 8])
def test_the_search_moves_on_if_there_is_no_factor(n_lanes):
    matrices = np.array([np.diag([0.5, -0.4, 1.0])] * 8)  # not positive definite at the starting point 0.3
    sizes, _ = clip(matrices, np.array([1.0, 0.0, 0.0]), np.where(np.arange(8) < n_lanes, 1.0, 0.0))
    np.testing.assert_allclose(sizes[:n_lanes], 0.5, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 3, 7])
def test_operations_on_triangles(n):
    rng = np.random.default_rng(n)
    matrices, u = eight_matrices(rng, n), rng.normal(size=(2, n))
    M, outer, lanes = triangles(matrices), np.zeros(n * (n + 1) // 2), np.zeros((cholesky.N_NUMBERS, secular.LANES))
    cholesky.outer_product(u, 1, n, outer)
    squares = cholesky.squared_lengths(M, 0, outer, n)
    np.testing.assert_allclose(squares, [u[1] @ matrix @ u[1] for matrix in matrices], atol=1e-10)
    lanes[cholesky.S] = np.arange(8.0)
    cholesky.add_rank_one(M, 0, outer, lanes, len(outer))
    added = matrices + np.arange(8.0)[:, None, None] * np.outer(u[1], u[1])
    np.testing.assert_allclose(M, triangles(added), atol=1e-12)
    lanes[cholesky.SHIFT], lanes[cholesky.INVERSE_UNIT] = 0.5, 2.0
    C = np.zeros((n, n, secular.LANES))
    cholesky.factor(M, 0, n, C, lanes)
    assert (lanes[cholesky.FAILED] == 0.0).all()
    x = np.zeros((cholesky.N_VECTORS, n, secular.LANES))
    x[cholesky.U] = u[0][:, None]
    cholesky.forward(C, n, x, cholesky.U, cholesky.Y)
    cholesky.backward(C, n, x, cholesky.Y, cholesky.X)
    for lane in range(8):
        expected = np.linalg.solve(2.0 * added[lane] + 0.5 * np.eye(n), u[0])
        np.testing.assert_allclose(x[cholesky.X, :, lane], expected, rtol=1e-9, atol=1e-12)
    lanes[cholesky.SHIFT] = -1e6
    cholesky.factor(M, 0, n, C, lanes)
    assert (lanes[cholesky.FAILED] == 1.0).all()


@pytest.mark.parametrize("n", [1, 7, 8, 9, 17])
def test_factorization_along_rows(n):
    rng = np.random.default_rng(n)
    matrices, u = eight_matrices(rng, n), rng.normal(size=n)
    M, R = triangles(matrices), np.full((n + 3, secular.padded(n)), np.nan)
    R[:, n:], R[n, :n] = 0.0, u
    for lane in range(8):
        A = 2.0 * matrices[lane] + 0.5 * np.eye(n)
        L = np.linalg.cholesky(A)
        assert row_cholesky.factor_one(M, 0, lane, n, 2.0, 0.5, R)
        np.testing.assert_allclose(np.triu(R[:n, :n], 1), np.triu(L.T, 1), atol=1e-10)
        np.testing.assert_allclose(R.diagonal()[:n], 1.0 / L.diagonal(), rtol=1e-10)
        row_cholesky.forward_one(R, n, n, n + 1)
        np.testing.assert_allclose(R[n + 1, :n], np.linalg.solve(L, u), rtol=1e-9, atol=1e-12)
        row_cholesky.backward_one(R, n, n + 1, n + 2)
        np.testing.assert_allclose(R[n + 2, :n], np.linalg.solve(A, u), rtol=1e-9, atol=1e-12)
        assert row_cholesky.squared_norm_one(R, n) == pytest.approx(u @ u)
        assert not row_cholesky.factor_one(M, 0, lane, n, 2.0, -1e6, R)


def test_the_first_compilation_is_announced_once_and_settings_are_restored(monkeypatch, caplog):
    """Kernels of this package are compiled with another setting; that of other functions does not change."""
    listener = _compile._CompileListener()
    _compile.announce.cache_clear()  # an earlier test may have compiled something

    def event_of(module):
        function = SimpleNamespace(__module__=module)
        return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})

    monkeypatch.setattr(_compile.numba_config, "SLP_VECTORIZE", 0)
    listener.on_start(event_of("other.ocelad.kernels"))
    assert (_compile.numba_config.SLP_VECTORIZE, caplog.text) == (0, "")
    listener.on_start(event_of("ocelad.kernels"))  # within the compilation of the other one
    listener.on_start(event_of("ocelad.more"))
    assert _compile.numba_config.SLP_VECTORIZE == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "compiling kernels" in caplog.text
    for expected in (1, 0, 0):
        listener.on_end(None)
        assert expected == _compile.numba_config.SLP_VECTORIZE
