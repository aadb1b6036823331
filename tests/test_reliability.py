"""Reliability of probabilities, against scikit-learn, and the properties of the bins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from ocelad.evaluation.reliability import N_BINS, reliability

log_odds_and_labels = st.integers(1, 200).flatmap(
    lambda n: st.tuples(
        arrays(float, n, elements=st.integers(-8, 8).map(lambda k: k / 2)),
        arrays(float, n, elements=st.sampled_from([-1.0, 1.0])),
    )
)


@given(log_odds_and_labels)
def test_scores_equal_scikit_learn(both):
    log_odds, y = both
    scores, p = reliability(log_odds, y), expit(log_odds)
    assert scores.log_loss == pytest.approx(log_loss(y, p, labels=[-1, 1]))
    assert scores.brier_score == pytest.approx(brier_score_loss(y, p, labels=[-1, 1], pos_label=1))
    if abs(y.sum()) < len(y):
        assert scores.roc_auc == pytest.approx(roc_auc_score(y, p))
    else:
        assert np.isnan(scores.roc_auc)


@given(log_odds_and_labels, st.randoms())
def test_bins_partition_the_pairs_in_any_order(both, random):
    log_odds, y = both
    scores, p = reliability(log_odds, y), expit(log_odds)
    assert 1 <= len(scores.bins) <= N_BINS
    assert sum(each.pairs for each in scores.bins) == len(y)
    assert sum(each.pairs * each.predicted for each in scores.bins) == pytest.approx(p.sum())
    assert sum(each.pairs * each.observed for each in scores.bins) == pytest.approx((y > 0).sum())
    predicted = [each.predicted for each in scores.bins]
    assert predicted == sorted(predicted)
    order = list(range(len(y)))
    random.shuffle(order)  # equal probabilities are in one bin, so that their order does not matter
    again = reliability(log_odds[order], y[order])
    assert [each.pairs for each in again.bins] == [each.pairs for each in scores.bins]
    assert [each.observed for each in again.bins] == [each.observed for each in scores.bins]
    assert again.calibration_error == pytest.approx(scores.calibration_error)


@pytest.mark.parametrize(
    ("n_pairs", "expected"), [(3, [1, 1, 1]), (10, [1] * 10), (11, [2] + [1] * 9), (25, [3, 2] * 5)]
)
def test_bins_of_few_distinct_probabilities_differ_by_at_most_one_pair(n_pairs, expected):
    bins = reliability(np.arange(n_pairs) / 10, np.ones(n_pairs)).bins
    assert [each.pairs for each in bins] == expected


def test_distinct_probabilities_are_in_bins_of_equal_counts():
    rng = np.random.default_rng(0)
    scores = reliability(rng.normal(size=1000), rng.choice([-1, 1], size=1000))
    assert [each.pairs for each in scores.bins] == [100] * 10


def test_calibrated_probabilities_have_a_small_error_and_others_a_large_one():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(scale=2, size=20_000)
    y = np.where(rng.random(20_000) < expit(log_odds), 1, -1)
    assert reliability(log_odds, y).calibration_error < 0.02
    assert reliability(3 * log_odds, y).calibration_error > 0.08
    assert reliability(log_odds, -y).calibration_error > 0.4
    assert reliability(3 * log_odds, y).log_loss > reliability(log_odds, y).log_loss


def test_the_log_loss_of_a_confident_error_is_finite():
    assert reliability([1000.0, -1000.0], [-1, 1]).log_loss == 1000.0


def test_invalid_arguments_raise_an_error():
    with pytest.raises(ValueError, match="log_odds holds nan"):
        reliability([np.nan], [1])
    with pytest.raises(ValueError, match="y has 1 labels for 2"):
        reliability([0.0, 1.0], [1])
    with pytest.raises(ValueError, match="log_odds is empty"):
        reliability([], [])
