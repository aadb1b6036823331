"""The blocked engines: their bases, pairs close to the span of earlier ones, and sparse pairs with many features.

With NUMBA_DISABLE_JIT=1 the kernels run as plain Python, on fewer rounds.
"""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from engine_cases import COMPILED, ROUNDS, RTOL, assert_same, assert_same_bits, make
from scipy import sparse

from ocelad import Pair
from ocelad.engines.basis import Combination, DenseVectors, SparseVectors
from ocelad.engines.blocked_bank import BlockedBank
from ocelad.pairs import Event, Events, SparseVector

BLOCKED = ["blocked", "blocked, 4", "sparse", "sparse, 4"]


def sparse_events(seed, n, rounds, entries=4):
    """Return differences with few entries, with zeros and repetitions among them."""
    rng = np.random.default_rng(seed)
    U = np.zeros((rounds, n))
    for t in range(rounds):
        if t % 13 == 5:
            U[t] = U[t - 1]
        elif t % 17 != 3:
            where = rng.choice(n, size=min(entries, n), replace=False)
            U[t, where] = rng.normal(size=len(where))
    return Events(sparse.csr_array(U), np.where(rng.random(rounds) < 0.5, 1.0, -1.0))


@pytest.mark.parametrize("distance", [1e-1, 1e-2, 1e-3, 1e-6, 1e-9, 1e-12, 0.0])
@pytest.mark.parametrize("shrinkage", [0.0, 0.02])
def test_pairs_close_to_the_span_of_earlier_ones(shrinkage, distance):
    # The component of a pair outside the earlier directions is too small to be computed from inner products.
    n = 30
    rng = np.random.default_rng(1)
    shared = {"initial_scale": 0.0, "step_size": 0.02, "shrinkage": shrinkage, "loss": "hinge"}
    definition, fast = make("dense", n, **shared), {each: make(each, n, **shared) for each in ("lowrank", *BLOCKED)}
    u = rng.normal(size=n)
    for t in range(ROUNDS // 5):
        u = u + distance * rng.normal(size=n) if t % 5 else rng.normal(size=n)
        event = Event(u, -1.0 if t % 3 else 1.0)
        expected = definition.step(event).losses
        for engine, tracker in fast.items():
            losses = tracker.step(event).losses
            np.testing.assert_allclose(losses, expected, rtol=RTOL, atol=RTOL, err_msg=engine)
    for engine, tracker in fast.items():
        assert_same(tracker, definition, what=engine)


@pytest.mark.parametrize("engine", ["blocked, 4", "sparse, 4"])
def test_small_residuals_are_computed_from_the_vectors(engine, monkeypatch):
    resolved, refined = [], []
    resolve, refine = BlockedBank._resolve, BlockedBank._refine

    def count(calls, method):
        return lambda *arguments: (calls.append(1), method(*arguments))[1]

    monkeypatch.setattr(BlockedBank, "_resolve", count(resolved, resolve))
    monkeypatch.setattr(BlockedBank, "_refine", count(refined, refine))
    tracker = make(engine, 6, initial_scale=0.0, loss="hinge", step_size=1e-6)
    u = np.arange(6.0)
    tracker.step(Event(u, -1.0))
    assert not resolved
    tracker.step(Event(u, -1.0))
    assert resolved  # the pair is in the span of the directions
    assert not refined
    tracker.step(Event(u + 1e-7 * np.eye(6)[0], -1.0))
    assert refined


@pytest.mark.parametrize("shrinkage", [0.0, 0.01])
def test_rounding_does_not_grow_with_few_directions(shrinkage):
    # Directions are dropped and found again repeatedly, each time as a combination of the current ones, which could
    # amplify rounding errors.
    n, intrinsic = 40, 4
    rng = np.random.default_rng(0)
    span = rng.normal(size=(intrinsic, n)) / np.sqrt(n)
    shared = {"step_size": 0.05, "shrinkage": shrinkage, "initial_scale": 0.0}
    definition, fast = make("dense", n, **shared), {engine: make(engine, n, **shared) for engine in BLOCKED}
    for _ in range(2 * ROUNDS):
        u = 2.0 * rng.normal(size=intrinsic) @ span + 1e-2 * rng.normal(size=n)
        event = Event(u, float(rng.choice([-1, 1])))
        expected = definition.step(event).losses
        for engine, tracker in fast.items():
            losses = tracker.step(event).losses
            np.testing.assert_allclose(losses, expected, rtol=1e-10, atol=1e-10, err_msg=engine)
    for engine, tracker in fast.items():
        assert_same(tracker, definition, 1e-10, what=engine)


@pytest.mark.parametrize("kind", [DenseVectors, SparseVectors])
def test_operations_on_anchors_and_pairs(kind):
    n, block = 7, 5
    rng = np.random.default_rng(0)
    vectors, products, gram = kind(n, block), np.zeros((block, 20)), np.zeros((block, 8))
    U = rng.normal(size=(block, n)) * (rng.random((block, n)) < 0.6)
    rows = vectors.rows(Events(U, np.ones(block)))
    vectors.add(rows, 0, 2, products, gram, 0)
    vectors.add(vectors.row(U[2]), 0, 1, products, gram, 2)
    vectors.add(rows, 3, 5, products, gram, 3)
    np.testing.assert_allclose(np.tril(gram[:, :block]), np.tril(U @ U.T), atol=1e-14)
    # Two slots: one with three anchors, combinations of all pairs, and one without anchors.
    first, none = rng.normal(size=(3, block)), np.zeros((0, block))
    vectors.renew([Combination(0, np.zeros((3, 0)), first), Combination(0, np.zeros((0, 0)), none)], block)
    anchors = first @ U
    for at in range(3):
        np.testing.assert_allclose(vectors.get(at), anchors[at], atol=1e-14)
    more = rng.normal(size=(9, n))  # more than the allocated room
    assert vectors.append(more) == 3
    anchors = np.concatenate([anchors, more])
    V = rng.normal(size=(2, n))
    vectors.add(vectors.rows(Events(V, np.ones(2))), 0, 2, products, gram, 0)
    np.testing.assert_allclose(products[:2, :12], V @ anchors.T, atol=1e-13)
    np.testing.assert_allclose(np.tril(gram[:2, :2]), np.tril(V @ V.T), atol=1e-13)
    part = Combination(2, rng.normal(size=(4, 5)), rng.normal(size=(4, 2)))
    expected = part.anchors @ anchors[2:7] + part.pairs @ V
    np.testing.assert_allclose(vectors.combine(part, 2), expected, atol=1e-13)
    vectors.renew([part, Combination(0, np.eye(2, 3), np.zeros((2, 2)))], 2)
    np.testing.assert_allclose([vectors.get(at) for at in range(4)], expected, atol=1e-13)
    np.testing.assert_allclose(vectors.get(5), anchors[1], atol=1e-13)
    vectors.put(5, V[0])
    np.testing.assert_allclose(vectors.get(5), V[0], atol=1e-15)
    vectors.renew([Combination(4, np.eye(2), np.zeros((2, 0)))], 0)  # without pairs
    np.testing.assert_allclose(vectors.get(1), V[0], atol=1e-13)


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("engine", ["sparse", "sparse, 4"])
def test_sparse_and_dense_pairs_give_the_same(engine, finest):
    n = 60
    events = sparse_events(2, n, ROUNDS // 2)
    shared = {"shrinkage": 0.02, "step_size": 0.1, "finest": finest, "initial_scale": 0.0}
    definition, rows, vectors, dense = (make(each, n, **shared) for each in ("dense", engine, engine, engine))
    rows.replay(events)
    dense.replay(Events(events.U.toarray(), events.y))
    for event in events:
        assert isinstance(event.u, SparseVector)
        definition.step(event)
        vectors.step(event)
    assert_same_bits(rows, dense)
    for tracker in (rows, vectors):
        assert_same(tracker, definition)
    pair = Pair(sparse.csr_array(np.eye(1, n)), sparse.csr_array((1, n)), True)
    np.testing.assert_allclose(vectors.step(pair).losses, definition.step(pair).losses, rtol=RTOL)


@pytest.mark.parametrize("base", [0.0, 0.1])
def test_features_that_have_not_occurred(base):
    n = 50
    shared = {"initial_scale": base, "loss": "hinge", "step_size": 0.1}
    tracker, definition = (make(engine, n, **shared) for engine in ("sparse", "dense"))
    for t in range(40):
        u = SparseVector(np.array([t % 3, 3 + t % 5]), np.array([1.0, -2.0]), n)
        for each in (tracker, definition):
            each.step(Event(u, -1.0 if t % 2 else 1.0))
    new = Event(SparseVector(np.array([30, 49]), np.array([1.0, 1.0]), n), 1.0)
    none = Event(SparseVector(np.array([], dtype=int), np.array([]), n), -1.0)
    for event in (new, none, new):
        np.testing.assert_allclose(tracker.step(event).losses, definition.step(event).losses, rtol=RTOL)
    assert_same(tracker, definition)
    M = tracker.play().matrix
    np.testing.assert_allclose(M[20:30, 20:30], base * np.eye(10), atol=1e-15)


@pytest.mark.parametrize("engine", BLOCKED)
def test_pairs_of_equal_points(engine):
    fast, definition = (make(each, 4, shrinkage=0.1, loss="hinge", step_size=0.5) for each in (engine, "dense"))
    for t in range(20):
        event = Event(np.zeros(4), -1.0 if t % 3 else 1.0)
        np.testing.assert_allclose(fast.step(event).losses, definition.step(event).losses, rtol=RTOL)
    assert_same(fast, definition)


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
@pytest.mark.parametrize("finest", ["carry", "reset"])
def test_a_hundred_thousand_features_need_little_memory(finest):
    n, rounds = 100_000, 600
    rng = np.random.default_rng(0)
    U = sparse.random(rounds, n, density=8e-4, format="csr", random_state=rng)  # 80 per pair
    events = Events(U, np.where(np.arange(rounds) % 2, 1.0, -1.0))
    tracker = make("sparse", n, shrinkage=0.5, step_size=0.01, finest=finest, initial_scale=0.0)
    tracemalloc.start()
    tracker.replay(events)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(tracker.bank.ranks) > 8
    assert peak < 500e6  # n * n numbers would be 80e9 bytes
    assert tracker.play().n_features == n
    assert tracker.step(Pair(U[[0]], U[[1]], False)).round == rounds + 1
