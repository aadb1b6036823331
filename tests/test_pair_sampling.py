"""Random pairs of labelled points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocelad.evaluation.streams import draw_pairs


@given(seed=st.integers(0, 2**40), balanced=st.booleans())
def test_pairs_come_from_the_given_rows_with_the_right_labels(seed, balanced):
    labels = np.random.default_rng(seed).permutation([*"aaaaaaabbbccc"])
    rows = np.random.default_rng(seed).permutation(13)[:12]
    left, right, y = draw_pairs(labels, 300, seed, rows=rows, balanced=balanced)
    assert len(left) == len(right) == len(y) == 300
    assert set(left) | set(right) <= set(rows)
    assert (left != right).all()
    np.testing.assert_array_equal(y, np.where(labels[left] == labels[right], 1.0, -1.0))
    for first, second in zip(
        (left, right, y), draw_pairs(labels, 300, seed, rows=rows, balanced=balanced), strict=True
    ):
        np.testing.assert_array_equal(first, second)


def test_without_rows_all_points_are_paired():
    labels = [*"abab"]
    np.testing.assert_array_equal(draw_pairs(labels, 50, 3), draw_pairs(labels, 50, 3, rows=[0, 1, 2, 3]))


def test_another_seed_draws_other_pairs():
    assert (draw_pairs([*"abab"], 50, 3)[0] != draw_pairs([*"abab"], 50, 4)[0]).any()


@pytest.mark.parametrize("balanced", [False, True])
def test_every_ordered_pair_has_its_documented_probability(balanced):
    labels = np.array([*"abacbaabc"])
    n_points, n_pairs = len(labels), 200_000
    left, right, _ = draw_pairs(labels, n_pairs, 1, balanced=balanced)
    frequency = np.zeros((n_points, n_points))
    np.add.at(frequency, (left, right), 1 / n_pairs)
    same = labels[:, None] == labels[None]
    size = same.sum(axis=1, keepdims=True)
    if balanced:
        expected = np.where(same, 0.5 / (size - 1), 0.5 / (n_points - size)) / n_points
    else:
        expected = np.full((n_points, n_points), 1 / (n_points * (n_points - 1)))
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(frequency, expected, atol=5 * np.sqrt(expected.max() / n_pairs))


def test_the_only_point_of_a_class_gets_dissimilar_partners():
    labels = np.array([0, 0, 1])
    left, right, y = draw_pairs(labels, 400, 1, balanced=True)
    assert (left != right).all()
    np.testing.assert_array_equal(y, np.where(labels[left] == labels[right], 1.0, -1.0))
    assert set(y[left == 2]) == {-1.0}
    assert set(y[left < 2]) == {1.0, -1.0}


def test_labels_that_allow_no_comparison_raise_an_error():
    with pytest.raises(ValueError, match="all points to be paired have the same label"):
        draw_pairs([0, 0, 1], 5, rows=[0, 1])
    with pytest.raises(ValueError, match="accepted for balanced pairs: a label with two points or more"):
        draw_pairs([0, 1, 2], 5, balanced=True)
    with pytest.raises(ValueError, match="n_pairs must be a whole number of at least 1; got 0"):
        draw_pairs([0, 0, 1], 0)
    with pytest.raises(ValueError, match="balanced must be"):
        draw_pairs([0, 0, 1], 5, balanced="half")
