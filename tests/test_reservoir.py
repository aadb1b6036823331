"""Reservoir and DistanceScaler: what they draw and compute, and that a saved state continues unchanged."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ocelad.estimators.reservoir import Reservoir, stack_points
from ocelad.estimators.scaling import DistanceScaler
from ocelad.pairs import as_sparse

LABELS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=60)


def make_reservoir(labels, size=8, seed=0, point=lambda i: np.array([float(i), 1.0])):
    reservoir = Reservoir(size, seed)
    for i, label in enumerate(labels):
        reservoir.add(point(i), label)
    return reservoir


def continue_draws(reservoir, labels=("a", "b", "c", "z"), count=5):
    """Return the next partners, drawing and adding points alternately."""
    partners = []
    for i, label in enumerate(labels):
        partners += [(np.asarray(point).tolist(), similar) for point, similar in reservoir.draw_partners(label, count)]
        reservoir.add(np.array([-float(i), 0.0]), label)
    return partners


@given(LABELS, st.integers(1, 9), st.integers(0, 99))
def test_partners_are_past_points_of_the_right_class(labels, size, seed):
    reservoir = Reservoir(size, seed)
    past = []
    for i, label in enumerate(labels):
        held = Counter(reservoir.labels)
        assert len(reservoir) == min(i, size)
        assert all(past[point] == its for point, its in zip(reservoir.points, reservoir.labels, strict=True))
        partners = reservoir.draw_partners(label, 4)
        for point, similar in partners:
            assert point in reservoir.points
            assert (past[point] == label) == similar
        n_same, n_other = 2 * bool(held[label]), 2 * bool(held.total() - held[label])
        assert Counter(similar for _, similar in partners) == Counter({True: n_same, False: n_other})
        reservoir.add(i, label)
        past.append(label)
        assert i in reservoir.points


def test_points_of_a_class_and_other_classes_are_equally_likely():
    labels = ["a"] * 4 + ["b"] * 3 + ["c"] * 1  # c is rare, and drawn as often as b
    reservoir = make_reservoir(labels, size=8, point=lambda i: i)
    n = 6000
    draws = Counter(point for _ in range(n) for point, _ in reservoir.draw_partners("a", 2))
    for point in range(4):
        assert draws[point] == pytest.approx(n / 4, rel=0.1)
    for point in range(4, 7):
        assert draws[point] == pytest.approx(n / 6, rel=0.1)
    assert draws[7] == pytest.approx(n / 2, rel=0.1)


def test_old_points_are_replaced_at_the_documented_rate():
    size, rounds, held = 20, 60, Counter()
    for seed in range(400):
        held.update(make_reservoir(["a"] * (size + rounds), size, seed, point=lambda i: i).points)
    for k in (0, 10, 30, 59):  # the number of later points
        assert held[size + rounds - 1 - k] / 400 == pytest.approx((1 - 1 / size) ** k, abs=0.08)


def test_an_odd_number_of_partners_is_balanced_over_points():
    reservoir = make_reservoir("aabb")
    kinds = Counter(partner.similar for _ in range(10) for partner in reservoir.draw_partners("a", 3))
    assert kinds == {True: 15, False: 15}
    assert [partner.similar for _ in range(4) for partner in reservoir.draw_partners("b", 1)] == [
        True,
        False,
        True,
        False,
    ]


@given(LABELS, st.booleans())
def test_a_saved_reservoir_continues_with_the_same_draws(labels, sparse):
    dense = lambda i: np.array([float(i), 0.0, 1.5])  # noqa: E731
    reservoir = make_reservoir(labels, point=(lambda i: as_sparse(dense(i))) if sparse else dense)
    reservoir.draw_partners("a", 3)
    arrays, metadata = reservoir.arrays(), json.loads(json.dumps(reservoir.metadata()))
    assert all(isinstance(array, np.ndarray) for array in arrays.values())
    again = Reservoir.from_state({name: array.copy() for name, array in arrays.items()}, metadata)
    if labels:
        assert (abs(stack_points(again.points) - stack_points(reservoir.points))).max() == 0.0
    assert again.labels == reservoir.labels
    for label in "abcab":
        for mine, theirs in zip(reservoir.draw_partners(label, 3), again.draw_partners(label, 3), strict=True):
            assert mine.similar == theirs.similar
            assert all(map(np.array_equal, mine.point, theirs.point))
        new = dense(99)
        reservoir.add(as_sparse(new) if sparse else new, label)
        again.add(as_sparse(new) if sparse else new, label)
    assert again.labels == reservoir.labels


@given(LABELS)
def test_a_copy_is_independent_and_the_seed_determines_all_draws(labels):
    reservoir = make_reservoir(labels)
    twin, third = reservoir.copy(), make_reservoir(labels)
    expected = continue_draws(reservoir)
    assert continue_draws(twin) == expected
    assert continue_draws(third) == expected


def test_draws_can_be_undone():
    reservoir = make_reservoir("abcabc")
    before = reservoir.random_state()
    first = [point.tolist() for point, _ in reservoir.draw_partners("a", 7)]
    reservoir.set_random_state(before)
    assert [point.tolist() for point, _ in reservoir.draw_partners("a", 7)] == first


def test_refuses_invalid_arguments():
    with pytest.raises(ValueError, match="reservoir_size must be a whole number of at least 1; got 0"):
        Reservoir(0)
    reservoir = make_reservoir([("a", 1)])
    with pytest.raises(TypeError, match=r"the class \('a', 1\) cannot be saved; accepted: strings"):
        reservoir.metadata()


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.booleans())
def test_chunks_do_not_change_the_scaling(sizes, sparse):
    U = np.random.default_rng(0).normal(size=(sum(sizes), 5)) * np.logspace(0, 2, sum(sizes))[:, None]
    U[0] = 0.0
    whole, parts = DistanceScaler(), DistanceScaler()
    expected = whole.rescale(U)
    scaled = []
    for size, end in zip(sizes, np.cumsum(sizes), strict=True):
        part = U[end - size : end]
        scaled.append(parts.rescale(csr_array(part)).toarray() if sparse else parts.rescale(part))
        parts = DistanceScaler.from_state(json.loads(json.dumps(parts.state())))
    if sparse:
        np.testing.assert_allclose(np.concatenate(scaled), expected, rtol=1e-12)
    else:
        assert np.array_equal(np.concatenate(scaled), expected)
    assert parts.length == pytest.approx(whole.length, rel=1e-12)


def test_the_scaling_is_independent_of_the_unit_and_fixed_after_100_pairs():
    U = np.random.default_rng(0).normal(size=(300, 3))
    one, other = DistanceScaler(), DistanceScaler()
    assert np.array_equal(one.rescale(U), other.rescale(1024.0 * U))
    assert other.length == 1024.0 * one.length
    assert one.length**2 == pytest.approx(np.sort(np.square(U[:100]).sum(axis=1))[50] / 10.0)
    before = one.length
    one.rescale(1e6 * U)
    assert one.length == before


def test_outliers_and_zero_differences_hardly_change_the_scaling():
    U = np.random.default_rng(0).normal(size=(100, 3))
    plain, outliers = DistanceScaler(), DistanceScaler()
    plain.rescale(U)
    outliers.rescale(np.vstack([1e100 * U[:5], 0.0 * U, U]))
    assert outliers.length == pytest.approx(plain.length, rel=0.2)


def test_a_given_scale():
    U = np.random.default_rng(0).normal(size=(5, 3))
    assert np.array_equal(DistanceScaler(2.0).rescale(U), U / 2.0)
    for scale, sentence in ((0.0, "scale must be a finite number above 0"), ("best", "scale must be one of 'auto'")):
        with pytest.raises(ValueError, match=sentence):
            DistanceScaler(scale)


def test_a_full_reservoir_can_be_saved_and_continued():
    reservoir = make_reservoir("abcabcabcabc", size=8)
    assert len(reservoir) == 8
    again = Reservoir.from_state(reservoir.arrays(), json.loads(json.dumps(reservoir.metadata())))
    assert len(again) == again.size == 8
    assert continue_draws(again) == continue_draws(reservoir)


def test_differences_below_the_smallest_length_do_not_count():
    scaler = DistanceScaler()
    scaler.rescale(np.full((3, 1), 1e-100))  # squared: exactly the limit
    assert scaler.length == 1.0
    scaler.rescale(np.array([[1.1e-100]]))
    assert scaler.length == pytest.approx(1.1e-100 / np.sqrt(10))
