"""Differences, dense and sparse: equal values, and error messages for invalid ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from ocelad import Events, Metric, MetricTracker, Pair, Rice, track_metric
from ocelad.pairs import Event, Relative, Relatives, SparseVector, as_dense, as_event, as_relative, as_sparse


def some_rows(seed=0, rows=6, n=7):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, n)) * (rng.random((rows, n)) < 0.4)


@given(st.lists(st.sampled_from([0.0, -2.5, 1e-300, 1e100]), min_size=1, max_size=9))
def test_sparse_and_dense_differences_are_the_same(numbers):
    u = np.array(numbers)
    vector = as_sparse(u)
    assert (vector.values != 0).all()
    assert (np.diff(vector.indices) > 0).all()
    assert (as_dense(vector, len(u)) == u).all()
    for other in (vector, sparse.csr_array(u[None]), SparseVector(vector.indices[::-1], vector.values[::-1], len(u))):
        assert (as_sparse(other, len(u)).indices == vector.indices).all()
        assert (as_dense(other) == u).all()


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("kind", [sparse.coo_matrix, sparse.coo_array])
def test_events_take_every_sparse_format(form, kind):
    U, y = some_rows(), [1, -1, 1, 1, -1, True]
    events = Events(kind(U).asformat(form), y)
    assert events.sparse
    assert (len(events), events.n_features) == (6, 7)
    for event, u in zip(events, U, strict=True):
        assert (as_dense(event.u) == u).all()
        assert as_event(event, 7).u.indices.dtype == np.int64


def test_duplicate_entries_are_summed_and_stored_zeros_are_removed():
    given_rows = sparse.coo_array(([1.0, 2.0, -3.0, 3.0, 0.0], ([0, 0, 1, 1, 1], [4, 4, 2, 2, 0])), shape=(2, 5))
    first, second = Events(given_rows, [1, 1])
    assert (first.u.indices.tolist(), first.u.values.tolist()) == ([4], [3.0])
    assert second.u.indices.size == 0
    assert given_rows.nnz == 5


def test_events_copy_their_input():
    for make in (np.array, sparse.csr_array):
        U = make([[1.0, 2.0]])
        events = Events(U, [1])
        U[0, 0] = 9.0
        assert as_dense(next(iter(events)).u)[0] == 1.0


def test_a_sparse_vector_is_read_only():
    vector = as_sparse([1.0, 0.0])
    for part in (vector.indices, vector.values):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 7


def test_a_pair_of_sparse_rows():
    X, Z = some_rows(1), some_rows(2)
    rows, others = sparse.csr_matrix(X), sparse.csc_array(Z)
    assert (as_dense(Pair(rows[0], others[[0]], True).event().u) == X[0] - Z[0]).all()


def test_a_tracker_learns_the_same_from_sparse_pairs():
    X, Z, y = some_rows(1, rows=20), some_rows(2, rows=20), np.where(np.arange(20) % 3, 1, -1)
    pairs = np.stack([X, Z], axis=1)
    rows = sparse.csr_array(X), sparse.csr_array(Z)
    dense, other, single = (MetricTracker(method=Rice(step_size=0.1)) for _ in range(3))
    dense.fit(pairs, y)
    other.fit(rows, y)
    for i in range(20):
        single.learn_one(rows[0][[i]], rows[1][[i]], y[i])
    assert dense.metric_ == other.metric_ == single.metric_


def test_an_ocelad_takes_sparse_events_one_by_one_and_all_at_once():
    U, y = some_rows(rows=12), np.where(np.arange(12) % 2, 1, -1)
    one, other = track_metric(7), track_metric(7)
    for event in Events(sparse.csr_array(U), y):
        one.step(event)
    other.replay(Events(U, y))
    assert one.play() == other.play()


@pytest.mark.parametrize(
    ("u", "sentence"),
    [
        (SparseVector(np.array([0, 0]), np.ones(2), 3), "has the index 0 twice; accepted: every index once"),
        (SparseVector(np.array([3]), np.ones(1), 3), "has the index 3; accepted: indices from 0 to 2"),
        (SparseVector(np.array([-1]), np.ones(1), 3), "has the index -1; accepted"),
        (SparseVector(np.array([0.5]), np.ones(1), 3), "type float64 .* accepted: integers"),
        (SparseVector(np.array([0, 1]), np.ones(1), 3), "values of shape"),
        (SparseVector(np.array([0]), np.array([np.nan]), 3), "holds nan at position 0"),
        (SparseVector(np.array([0]), np.array([1e200]), 3), "too far apart"),
        (SparseVector(np.array([0]), np.ones(1), 4), "has 4 features; 3 are expected"),
        (SparseVector(np.array([0]), np.ones(1), 0), "n_features must be a whole number of at least 1"),
        (sparse.csr_array([[1.0, 2.0]]), "has 2 features; 3 are expected"),
        (sparse.csr_array(np.eye(3)), "accepted: one sparse row"),
        (sparse.csr_array([[np.inf, 0.0, 0.0]]), r"holds inf at index \(0, 0\)"),
        (sparse.csr_array([[1j, 0.0, 0.0]]), "values of type complex128"),
    ],
)
def test_refuses_invalid_differences(u, sentence):
    for refuse in (as_sparse, as_dense, lambda u, n: as_event(Event(u, 1.0), n)):
        with pytest.raises((ValueError, TypeError), match=sentence):
            refuse(u, 3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: Pair(sparse.csr_array(np.eye(3)), sparse.csr_array(np.eye(3)), True), "accepted: one sparse row"),
        (lambda: Pair(np.ones(3), sparse.csr_array(np.eye(3)), True), "z is sparse and x is not"),
        (lambda: Events(sparse.csr_array((0, 3)), []), r"U has shape \(0, 3\)"),
        (lambda: Events(1e200 * sparse.eye_array(2).tocsr(), [1, 1]), "points of pair 0 are too far apart"),
        (lambda: Events(sparse.eye_array(2), [1]), "y has 1 labels for 2 pairs"),
    ],
)
def test_refuses_invalid_sparse_pairs(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()


def test_zeros_of_a_sparse_vector_are_removed_and_small_values_are_not():
    vector = as_sparse(SparseVector(np.array([3, 0, 2, 1]), np.array([0.0, 1e-3, -0.0, 5e-324]), 4))
    assert (vector.indices.tolist(), vector.values.tolist()) == ([0, 1], [1e-3, 5e-324])
    for empty in (SparseVector([], [], 3), SparseVector(np.array([1]), np.zeros(1), 3)):
        vector = as_sparse(empty)
        assert (vector.indices.tolist(), vector.indices.dtype, vector.values.tolist()) == ([], np.int64, [])
        assert as_dense(empty).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("make", [np.array, sparse.csr_array])
def test_events_are_indexed_like_a_list(make):
    U, y = some_rows(), [1, -1, 1, 1, -1, 1]
    events, count = Events(make(U), y), len(U)
    for at in range(-count, count):
        assert as_dense(events[at].u).tolist() == U[at].tolist()
        assert events[np.int64(at)].y == y[at]
    part = events[1:6:2]
    assert [as_dense(event.u).tolist() for event in part] == U[1:6:2].tolist()
    assert [event.y for event in part] == y[1:6:2]
    assert part.n_features == 7
    for at in (count, -count - 1):
        with pytest.raises(IndexError, match=f"event {at} does not exist; the number of events is {count}"):
            events[at]
    with pytest.raises(TypeError, match="must be an integer or a slice"):
        events["0"]


def test_relatives_are_indexed_like_a_list():
    near, far = some_rows(1), some_rows(2)
    relatives, count = Relatives(near, far), len(near)
    assert (len(relatives), relatives.n_features) == (count, 7)
    for at in range(-count, count):
        assert (relatives[at].near.tolist(), relatives[at].far.tolist()) == (near[at].tolist(), far[at].tolist())
    assert [event.far.tolist() for event in relatives[:4:2]] == far[:4:2].tolist()
    for at in (count, -count - 1):
        with pytest.raises(IndexError, match="does not exist"):
            relatives[at]
    near[0] = 99.0
    assert relatives[0].near.max() < 99.0
    with pytest.raises(ValueError, match="near has 6 rows and far has 5"):
        Relatives(far, far[:5])


@given(st.integers(0, 2**32 - 1))
def test_margins_are_linear_in_the_metric_and_the_threshold(seed):
    """``m = threshold_slope mu - <gradient, M>``, for pairs and relative comparisons."""
    rng = np.random.default_rng(seed)
    factors, u, v = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)
    M, mu = factors.T @ factors, rng.random() + 1.0
    for event, margin in (
        (Event(u, 1.0), mu - u @ M @ u),
        (Event(u, -1.0), u @ M @ u - mu),
        (Relative(near=u, far=v), v @ M @ v - u @ M @ u),
    ):
        gradient = event.gradient(lambda w: np.outer(w, w))
        assert event.threshold_slope * mu - (gradient * M).sum() == pytest.approx(margin)
        assert event.margin(lambda w: w @ M @ w, mu) == pytest.approx(margin)
        assert Metric(M, mu).margin(event) == pytest.approx(margin)


def test_errors_name_the_pair_and_the_tracker_for_it():
    U = np.zeros((3, 2))
    U[1, 0] = 1e200
    for make in (np.array, sparse.csr_array):
        with pytest.raises(ValueError, match="points of pair 1 are too far apart"):
            Events(make(U), [1, 1, 1])
    with pytest.raises(ValueError, match="points of comparison 1 are too far apart"):
        Relatives(np.zeros((3, 2)), U)
    with pytest.raises(TypeError, match=r"got Relative; track_metric\(events='relatives'\)"):
        as_event(Relative([1.0], [2.0]), 1)
    with pytest.raises(TypeError, match=r"got Event; track_metric\(events='pairs'\)"):
        as_relative(Event([1.0], 1.0), 1)
    with pytest.raises(TypeError, match=r"got list$"):
        as_relative([1.0], 1)
    with pytest.raises(TypeError, match="x is sparse and z is not"):
        Pair(sparse.csr_array([[1.0]]), [1.0], True)
    with pytest.raises(TypeError, match="near is sparse"):
        Relatives(sparse.csr_array([[1.0]]), [[1.0]])


def test_labels_of_pairs():
    assert [Pair([1.0], [0.0], label).event().y for label in (True, 1, 1.0, False, -1)] == [1, 1, 1, -1, -1]
    assert [Pair([1.0], [0.0], label).similar for label in (True, -1)] == [True, False]
