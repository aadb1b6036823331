"""The mixture: one answer, no harm, and the bound on every interval."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocelad.adaptive.mixture import Mixture, MixtureConfig
from ocelad.adaptive.mixture.calibration import PlattScaling, log_loss, sigmoid
from ocelad.adaptive.mixture.moments import Discriminants
from ocelad.adaptive.mixture.prior_trust import PriorTrust
from ocelad.adaptive.mixture.scales import FeatureScales, limit_length
from ocelad.adaptive.mixture.weights import DiscountedWeights, IntervalProd, regret_bound

FAST = MixtureConfig(windows=(32, 256), comid_steps=(4.0,), scaled_comid_steps=(4.0,))


def random_pairs(rng, n, rounds, relevant=0):
    X = rng.normal(size=(rounds, n))
    return X, np.where(np.abs(X[:, relevant]) < 0.6, 1.0, -1.0)


def play(mixture, X, y):
    return np.array([mixture.step(x, answer) for x, answer in zip(X, y, strict=True)])


def largest_interval_sum(values):
    """Return the largest sum over consecutive values."""
    best = current = 0.0
    for value in values:
        current = max(0.0, current + value)
        best = max(best, current)
    return best


@pytest.mark.parametrize("n", [1, 4, 140])
def test_the_exported_metric_gives_the_predicted_log_odds(n):
    rng = np.random.default_rng(n)
    X, y = random_pairs(rng, n, 90)
    X[40] *= 50.0  # an outlier is predicted by the same metric
    X[60] = 0.0
    mixture = Mixture(n, FAST)
    for x, answer in zip(X, y, strict=True):
        matrix, threshold = mixture.metric()
        log_odds = mixture.step(x, answer)
        if mixture.round > 1:
            assert log_odds == pytest.approx(threshold - x @ matrix @ x, rel=1e-9, abs=1e-9)
    assert np.linalg.eigvalsh(mixture.metric()[0]).min() >= -1e-9


def test_what_is_too_expensive_is_left_out_visibly():
    rng = np.random.default_rng(0)
    names = {}
    for n in (4, 129):
        mixture = Mixture(n, FAST)
        assert mixture.experts == {}
        mixture.step(rng.normal(size=n), 1.0)
        names[n] = mixture.experts
    assert "window 32" in names[4]
    assert "whitened" in names[4]
    assert "memory 1" in names[4]
    assert not any("window" in name or "whitened" in name for name in names[129])
    assert "low-rank COMID 30" in names[129]
    assert "blend 1:10" in names[129]


def test_a_common_factor_of_the_data_does_not_matter():
    X, y = random_pairs(np.random.default_rng(1), 3, 150)
    expected = play(Mixture(3, FAST), X, y)
    np.testing.assert_allclose(play(Mixture(3, FAST), 2.0**40 * X, y), expected, rtol=1e-9)
    np.testing.assert_allclose(play(Mixture(3, FAST), X / 3e7, y), expected, rtol=1e-6, atol=1e-9)


def test_pairs_of_equal_points_teach_nothing_before_the_first_difference():
    X, y = random_pairs(np.random.default_rng(2), 3, 60)
    expected = play(Mixture(3, FAST), X, y)
    mixture = Mixture(3, FAST)
    assert play(mixture, np.zeros((5, 3)), np.ones(5)).tolist() == [1.0] * 5
    np.testing.assert_array_equal(mixture.metric()[0], np.eye(3))
    np.testing.assert_array_equal(play(mixture, X, y), expected)


def test_it_learns_which_feature_matters_and_follows_a_change():
    rng = np.random.default_rng(3)
    (X, y), (Z, z) = random_pairs(rng, 5, 500), random_pairs(rng, 5, 500, relevant=1)
    mixture = Mixture(5, FAST)
    play(mixture, X, y)
    matrix, _ = mixture.metric()
    assert matrix[0, 0] > 10 * np.diag(matrix)[1:].max()
    log_odds = play(mixture, Z, z)
    matrix, _ = mixture.metric()
    assert matrix[1, 1] > 5 * np.delete(np.diag(matrix), 1).max()
    assert np.mean(np.sign(log_odds[300:]) == z[300:]) > 0.85
    (change,) = [change for change in mixture.changes if change.start > 450]
    assert 480 <= change.start <= change.detected < 600
    assert change.evidence > FAST.detection_level


def test_answers_at_random_leave_the_euclidean_distance():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 4))
    mixture = Mixture(4, FAST)
    play(mixture, X, rng.choice([-1.0, 1.0], size=300))
    matrix, _ = mixture.metric()
    assert mixture.experts["Euclidean"] > 0.5 or np.linalg.cond(matrix) < 2.0


def test_a_column_that_is_almost_always_zero_does_not_dominate():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 4))
    X[:, 3] = np.where(rng.random(400) < 0.01, 1.0, 0.0)
    y = np.where(np.abs(X[:, 0]) < 0.6, 1.0, -1.0)
    mixture = Mixture(4, FAST)
    play(mixture, X, y)
    matrix, _ = mixture.metric()
    assert matrix[3, 3] < 2 * matrix[0, 0]


@pytest.mark.parametrize("seed", range(6))
def test_the_regret_against_every_expert_is_below_the_bound_on_every_interval(seed):
    """The adversary answers against the mixture, changes sides at random, and sends lengths of several sizes."""
    rng = np.random.default_rng(seed)
    mixture, regrets = Mixture(3, FAST), []
    worst_of_prior = []
    for t in range(300):
        x = rng.normal(size=3) * rng.choice([0.1, 1.0, 3.0])
        matrix, threshold = mixture.metric()
        predicted = threshold - x @ matrix @ x
        against = (t // 25) % 2 == seed % 2
        y = float(-np.sign(predicted) or 1.0) if against else float(rng.choice([-1.0, 1.0]))
        mixed = mixture.step(x, y)
        regrets.append(log_loss(np.array(mixed), y) - log_loss(mixture._experts.log_odds, y))
        worst_of_prior.append(regrets[-1][0])
    regrets = np.array(regrets)
    scale = mixture._experts.insurance.scale
    assert scale >= np.abs(regrets).max() / 2
    sums = np.vstack([np.zeros(regrets.shape[1]), np.cumsum(regrets, axis=0)])
    for first in range(0, 300, 7):
        for last in range(first + 1, 301, 7):
            bound = regret_bound(last - first, last, regrets.shape[1] + 1, scale)
            assert (sums[last] - sums[first]).max() <= bound
    assert largest_interval_sum(worst_of_prior) <= 8.0


losses = st.lists(st.lists(st.floats(0.0, 5.0), min_size=3, max_size=3), min_size=1, max_size=60)


@given(rounds=losses)
@settings(max_examples=60, deadline=None)
def test_the_total_wealth_of_prod_never_grows_and_bounds_the_regret(rounds):
    prod, differences = IntervalProd(3), []
    for candidates in rounds:
        candidates = np.array(candidates)
        shares = prod.shares()
        assert shares.sum() == pytest.approx(1.0)
        assert (shares >= 0.0).all()
        combined = float(shares @ candidates)  # linear losses: the worst case of convex ones
        differences.append(combined - candidates)
        prod.update(combined, candidates)
        assert (prod._priors * prod._wealth).sum() <= 1.0 + 1e-12
    sums = np.vstack([np.zeros(3), np.cumsum(differences, axis=0)])
    for first in range(len(rounds)):
        for last in range(first + 1, len(rounds) + 1):
            assert (sums[last] - sums[first]).max() <= regret_bound(last - first, last, 3, prod.scale) + 1e-9


def test_prod_follows_a_good_first_candidate_closely_and_leaves_a_bad_one():
    good, bad = IntervalProd(3), IntervalProd(3)
    for t in range(1, 401):
        for prod, candidates in ((good, np.array([0.1, 0.5, 0.9])), (bad, np.array([0.9, 0.1, 0.5]))):
            shares = prod.shares()
            if t == 400:
                assert shares.argmax() == (0 if prod is good else 1)
            prod.update(float(shares @ candidates), candidates)
    assert good.shares()[0] > 0.95
    assert bad.shares()[1] > 0.8


def test_the_weight_of_all_intervals_is_at_most_one():
    prod, total = IntervalProd(4), 0.5
    for t in range(1, 2000):
        prod.shares()
        started = [j + 1 for j in range(t.bit_length()) if t % 2**j == 0]
        total += prod._priors[started].sum()
        prod.update(1.0, np.ones(4))
    assert 0.7 < total <= 1.0


def test_discounted_weights_need_evidence_against_a_handicap():
    weights = DiscountedWeights(np.array([0.0, 4.0]), (64.0, 512.0))
    assert weights.shares[1] == pytest.approx(np.exp(-4) / (1 + np.exp(-4)))
    for _ in range(30):
        weights.update(np.array([0.0, 2.0]), 1.0)  # the second expert is right
    assert weights.shares[1] > 0.99
    for _ in range(400):
        weights.update(np.array([1.0, 1.0]), 1.0)  # no evidence: the handicap returns
    assert weights.shares[1] < 0.7


def test_a_calibration_by_few_answers_stays_near_the_start_and_later_fits():
    config = MixtureConfig()
    fit = PlattScaling(1, config)
    start = fit.parameters.copy()
    fit.learn(np.array([1.0]), fit.log_odds(np.array([1.0])), -1.0)
    assert np.abs(fit.parameters - start).max() < 0.5
    rng = np.random.default_rng(6)
    for _ in range(4000):
        distance = rng.chisquare(3) / 3
        truth = 2.0 - 3.0 * distance
        y = 1.0 if rng.random() < sigmoid(np.array(truth)) else -1.0
        relative = np.array([distance])
        fit.learn(relative, fit.log_odds(relative), y)
    np.testing.assert_allclose(fit.parameters[0], [2.0, 3.0], atol=0.9)
    assert log_loss(np.array([-800.0]), 1.0)[0] == 800.0
    assert log_loss(np.array([0.0]), -1.0)[0] == log(2.0)


def test_nearer_never_means_less_similar():
    fit = PlattScaling(1, MixtureConfig())
    for t in range(300):
        relative = np.array([0.1 if t % 2 else 2.0])
        fit.learn(relative, fit.log_odds(relative), -1.0 if t % 2 else 1.0)
        assert fit.parameters[0, 1] >= 0.0


def test_discriminants_are_the_stated_product_of_moments():
    rng = np.random.default_rng(7)
    moments, sums, count = Discriminants(3, [64], 2.0), np.zeros((3, 3)), 0.0
    for t in range(12):  # short differences: all pairs have the weight 1
        x, y = 0.5 * rng.normal(size=3), 1.0 if t % 3 else -1.0
        moments.learn(x, y)
        decay = 1 - 2 / 65
        sums, count = decay * sums, decay * count
        if y > 0:
            sums, count = sums + np.outer(x, x), count + 1.0
    inverse = np.linalg.inv((sums + 2 * np.eye(3)) / (count + 2))
    expected = inverse @ np.linalg.inv(moments.whitening) @ inverse
    np.testing.assert_allclose(moments.matrices[0], expected, rtol=1e-9)
    assert np.linalg.eigvalsh(moments.matrices[0]).min() > 0.0


def test_trust_begins_at_one_and_follows_the_near_pairs():
    rng = np.random.default_rng(8)
    informative, noise = PriorTrust(MixtureConfig()), PriorTrust(MixtureConfig())
    assert informative.value == 1.0
    for _ in range(2000):
        distance = rng.chisquare(3) / 3
        informative.update(distance, 1.0 if distance < 0.4 else -1.0)
        noise.update(distance, rng.choice([-1.0, 1.0]))
    assert informative.value > 0.8
    assert noise.value < 0.05


def test_scales_shrink_rare_features_and_outliers_are_shortened():
    scales = FeatureScales(np.array([1.0, 0.0, 1.0]), pseudo_count=8.0)
    for _ in range(30):
        scales.update(np.array([1.0, 0.0, 1.0]))
    assert scales.factor == pytest.approx(np.sqrt(1.5))
    roots = scales.inverse_roots
    assert 1.0 < roots[0] < 1.1
    assert roots[1] < 4.0
    long = np.array([100.0, 0.0])
    assert limit_length(long) @ limit_length(long) == pytest.approx(20.0)
    assert limit_length(np.ones(2)).tolist() == [1.0, 1.0]
