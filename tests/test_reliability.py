"""Reliability of probabilities: against scikit-learn's scores, and by what the bins promise."""

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
def test_figures_are_those_of_scikit_learn(both):
    log_odds, y = both
    told, p = reliability(log_odds, y), expit(log_odds)
    assert told.log_loss == pytest.approx(log_loss(y, p, labels=[-1, 1]))
    assert told.brier_score == pytest.approx(brier_score_loss(y, p, labels=[-1, 1], pos_label=1))
    if abs(y.sum()) < len(y):
        assert told.roc_auc == pytest.approx(roc_auc_score(y, p))
    else:
        assert np.isnan(told.roc_auc)


@given(log_odds_and_labels, st.randoms())
def test_bins_hold_each_pair_once_whatever_their_order(both, random):
    log_odds, y = both
    told, p = reliability(log_odds, y), expit(log_odds)
    assert 1 <= len(told.bins) <= N_BINS
    assert sum(each.pairs for each in told.bins) == len(y)
    assert sum(each.pairs * each.predicted for each in told.bins) == pytest.approx(p.sum())
    assert sum(each.pairs * each.observed for each in told.bins) == pytest.approx((y > 0).sum())
    predicted = [each.predicted for each in told.bins]
    assert predicted == sorted(predicted)
    order = list(range(len(y)))
    random.shuffle(order)  # equal probabilities are never parted, so that their order does not matter
    again = reliability(log_odds[order], y[order])
    assert [each.pairs for each in again.bins] == [each.pairs for each in told.bins]
    assert [each.observed for each in again.bins] == [each.observed for each in told.bins]
    assert again.calibration_error == pytest.approx(told.calibration_error)


def test_distinct_probabilities_are_in_bins_of_equal_counts():
    rng = np.random.default_rng(0)
    told = reliability(rng.normal(size=1000), rng.choice([-1, 1], size=1000))
    assert [each.pairs for each in told.bins] == [100] * 10


def test_calibrated_probabilities_have_a_small_error_and_others_a_large_one():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(scale=2, size=20_000)
    y = np.where(rng.random(20_000) < expit(log_odds), 1, -1)
    assert reliability(log_odds, y).calibration_error < 0.02
    assert reliability(3 * log_odds, y).calibration_error > 0.08
    assert reliability(log_odds, -y).calibration_error > 0.4
    assert reliability(3 * log_odds, y).log_loss > reliability(log_odds, y).log_loss


def test_certain_and_wrong_costs_much_but_not_infinity():
    assert reliability([1000.0, -1000.0], [-1, 1]).log_loss == 1000.0


def test_refuses():
    with pytest.raises(ValueError, match="log_odds holds nan"):
        reliability([np.nan], [1])
    with pytest.raises(ValueError, match="y has 1 labels for 2"):
        reliability([0.0, 1.0], [1])
    with pytest.raises(ValueError, match="log_odds is empty"):
        reliability([], [])
