"""Means, standard errors, paired differences, and the rule of significance at its boundary."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t, ttest_rel

from ocelad.lab.statistics import CONFIDENCE, Estimate, estimate_columns, estimate_mean, paired_difference


@pytest.mark.parametrize("n", [2, 3, 10, 61, 1000])
def test_the_boundary_is_student_s_t_at_95_percent_two_sided(n):
    boundary = t.ppf(0.975, n - 1)
    assert CONFIDENCE == 0.95
    for sign in (1, -1):
        above, below = Estimate(sign * boundary * 1.0001, 1.0, n), Estimate(sign * boundary * 0.9999, 1.0, n)
        assert (above.significant_sign, above.is_significant) == (sign, True)
        assert (below.significant_sign, below.is_significant) == (0, False)


def test_with_many_values_two_standard_errors_are_needed_and_one_is_not_enough():
    assert not Estimate(1.0, 1.0, 61).is_significant
    assert not Estimate(1.99, 1.0, 61).is_significant
    assert Estimate(2.01, 1.0, 61).is_significant


def test_few_values_need_a_larger_difference():
    assert Estimate(10.0, 1.0, 3).is_significant
    assert not Estimate(10.0, 1.0, 2).is_significant  # 12.7 standard errors are needed


def test_without_two_values_nothing_is_known():
    for values in ([], [5.0], [5.0, np.nan]):
        estimate = estimate_mean(np.array(values))
        assert np.isnan(estimate.standard_error)
        assert estimate.significant_sign is None
        assert not estimate.is_significant
    assert np.isnan(estimate_mean(np.array([])).mean)
    assert estimate_mean(np.array([5.0])).mean == 5.0


def test_equal_values_are_significant_unless_they_are_zero():
    assert estimate_mean(np.array([0.1, 0.1])).significant_sign == 1
    assert estimate_mean(np.zeros(3)).significant_sign == 0


def test_the_standard_error_is_that_of_the_sample():
    estimate = estimate_mean(np.array([1.0, 2.0, 6.0, np.nan]))
    assert estimate == (3.0, pytest.approx(np.std([1, 2, 6], ddof=1) / np.sqrt(3)), 3)


@pytest.mark.parametrize("seed", range(5))
def test_paired_differences_agree_with_the_paired_t_test(seed):
    rng = np.random.default_rng(seed)
    level = 10 * rng.normal(size=12)  # common to both, so that only the pairing reveals the difference
    one, other = level + 0.5 + 0.6 * rng.normal(size=12), level + 0.6 * rng.normal(size=12)
    difference = paired_difference(one, other)
    expected = ttest_rel(one, other)
    assert difference.mean / difference.standard_error == pytest.approx(expected.statistic)
    assert difference.is_significant == (expected.pvalue < 0.05)
    assert paired_difference(other, one).mean == pytest.approx(-difference.mean)


def test_a_pair_with_a_missing_value_is_ignored():
    one, other = np.array([1.0, 2.0, np.nan, 9.0]), np.array([0.0, 0.0, 5.0, np.nan])
    assert paired_difference(one, other) == (1.5, 0.5, 2)


def test_columns_have_the_estimates_of_their_values():
    values = np.random.default_rng(0).normal(size=(20, 6))
    values[3:, 1] = values[1:, 2] = values[:, 3] = np.nan
    means, errors = estimate_columns(values)
    expected = [estimate_mean(column) for column in values.T]
    np.testing.assert_allclose(means, [estimate.mean for estimate in expected], rtol=1e-12)
    np.testing.assert_allclose(errors, [estimate.standard_error for estimate in expected], rtol=1e-12)
