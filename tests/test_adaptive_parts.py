"""Each part of the adaptive method against an independent computation."""

from __future__ import annotations

from copy import deepcopy
from math import exp, log, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocelad import Comid, Metric
from ocelad.adaptive.aggregator import ExpertCounts
from ocelad.adaptive.bases import Kinds
from ocelad.adaptive.calibration import (
    INITIAL_SPREAD,
    MIN_CURVATURE,
    MIN_SLOPE,
    WARMUP,
    PlattScaling,
    RunningMeans,
    RunningSpreads,
    log_loss,
    sigmoid,
)
from ocelad.adaptive.changes import (
    ALTERNATIVE_SCALE,
    CHANGE,
    CONFIDENCE_PSEUDO_COUNT,
    MAX_CHANGES,
    MAX_GROWTH,
    MAX_LOG_ODDS,
    MIN_GAP,
    NO_CHANGE,
    WARNING,
    ChangeDetector,
)
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.low_rank_comid import LowRankComid
from ocelad.adaptive.moments import Discriminants, WindowMoments
from ocelad.adaptive.prior_trust import N_FIRST, PriorTrust
from ocelad.adaptive.scales import FeatureScales
from ocelad.adaptive.similar_pairs import MAX_AGE, SimilarPairs
from ocelad.adaptive.weights import MAX_LOG_RATIO, MAX_LOSS, DiscountedWeights
from ocelad.ensemble.state_reader import StateReader
from ocelad.pairs import Event, Events, Relative, Relatives

CONFIG = AdaptiveConfig()
RTOL = 1e-9


# -- Scales --


def test_scales_are_discounted_mean_squares_shrunk_toward_their_mean():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(300, 4)) * [1.0, 100.0, 0.01, 1.0]  # there are no outliers
    X[:, 3] *= rng.random(300) < 0.1  # a rare feature
    scales = FeatureScales(4, CONFIG)
    for x in X:
        scales.update(x)
    discounts = (1.0 - 1.0 / CONFIG.scale_horizon) ** np.arange(len(X))[::-1]
    squares, differing = discounts @ X**2, discounts @ (X != 0.0)
    mean_squares, mean = squares / discounts.sum(), squares.mean() / discounts.sum()
    assert scales.factor == pytest.approx(1.0 / np.sqrt(mean), rel=RTOL)
    enlarged = mean_squares + squares / differing / CONFIG.outlier_limit
    shares = differing / (differing + CONFIG.ridge)
    np.testing.assert_allclose(scales.inverse_roots**-2.0, enlarged**shares * mean ** (1.0 - shares), rtol=RTOL)
    half = 1.0 / np.sqrt(scales.inverse_roots)  # half-standardized over standardized
    np.testing.assert_allclose(scales.ratios, half / np.sqrt(np.mean(1.0 / scales.inverse_roots)), rtol=RTOL)


def test_a_rare_feature_contributes_at_most_the_outlier_limit():
    scales = FeatureScales(2, CONFIG)
    for t in range(3000):
        scales.update(np.array([1.0, 1.0 if t % 50 == 0 else 0.0]))
    assert 0.9 < scales.inverse_roots[0] ** 2 < 1.0  # 1 / (1 + 1/10), and the shrinkage
    assert 0.5 * CONFIG.outlier_limit < scales.inverse_roots[1] ** 2 < CONFIG.outlier_limit  # not 50


def test_scales_ignore_differences_of_zero_until_the_first_other_one():
    scales, without_zeros = FeatureScales(3, CONFIG), FeatureScales(3, CONFIG)
    assert scales.factor == 1.0
    assert (scales.inverse_roots == 1.0).all()
    for _ in range(2 * WARMUP):
        scales.update(np.zeros(3))
    assert scales.warming_up
    rng = np.random.default_rng(1)
    for i in range(WARMUP):
        assert scales.warming_up
        x = rng.normal(size=3) if i != 3 else np.zeros(3)  # later zeros count
        scales.update(x)
        without_zeros.update(x)
    assert not scales.warming_up
    assert (scales.inverse_roots == without_zeros.inverse_roots).all()


def updated(scales, *differences):
    """Return a copy that includes these differences, too."""
    other = deepcopy(scales)
    for x in differences:
        other.update(x)
    return other


def ordinary_scales(n_pairs=100):
    return updated(FeatureScales(3, CONFIG), *np.random.default_rng(1).uniform(-1.0, 1.0, size=(n_pairs, 3)))


def mean_square(scales):
    return scales.factor**-2.0


@pytest.mark.parametrize("size", [1e2, 1e6, 1e30])
def test_one_outlier_changes_the_scales_like_one_at_the_limit(size):
    scales, x = ordinary_scales(), np.array([1.0, -2.0, 0.0])
    after, limit = updated(scales, size * x), CONFIG.outlier_limit * mean_square(scales)
    shortened = updated(scales, x * np.sqrt((1.0 - 1e-12) * limit / np.mean(x**2)))
    np.testing.assert_allclose(after.inverse_roots, shortened.inverse_roots, rtol=RTOL)
    assert mean_square(after) < 1.2 * mean_square(scales)


def test_outliers_within_the_warm_up_are_not_shortened():
    scales = updated(FeatureScales(2, CONFIG), *np.ones((WARMUP - 1, 2)))
    assert mean_square(updated(scales, np.full(2, 1e6))) == pytest.approx(1e12 / WARMUP, rel=0.01)


def test_many_long_differences_in_a_row_are_a_new_unit_of_the_scales():
    scales, x = ordinary_scales(), np.array([1e6, -1e6, 1e6])
    limited = updated(scales, *[x] * WARMUP)
    assert mean_square(limited) < 3.0 * mean_square(scales)
    assert mean_square(updated(limited, x)) > 1e9
    interrupted = updated(limited, np.ones(3), *[x] * WARMUP)  # the row begins again
    assert mean_square(interrupted) < 9.0 * mean_square(scales)
    assert mean_square(updated(interrupted, x)) > 1e9
    new_unit = updated(limited, *[x] * 5000)
    assert mean_square(new_unit) == pytest.approx(1e12, rel=0.02)


@pytest.mark.parametrize("size", [1e-60, 1.0, 1e12, 1e60])
def test_a_feature_that_never_differed_has_the_mean_factor_in_any_unit(size):
    scales = updated(FeatureScales(2, CONFIG), *np.array([[size, 0.0]] * 20))
    assert scales.inverse_roots[1] == pytest.approx(scales.factor, rel=RTOL)
    assert 0.0 < scales.inverse_roots[0] < np.inf


# -- Moments --


def test_window_moments_are_discounted_sums_with_a_ridge():
    """The ridge is checked by itself in the next test; here it is what is left when the pairs are subtracted."""
    rng = np.random.default_rng(2)
    X, weights = 0.5 * rng.normal(size=(40, 3)), rng.choice([0.5, 1.0, 2.0], size=40)  # short: there are no outliers
    moments = WindowMoments(3, [16, 256], CONFIG)
    for x, weight in zip(X, weights, strict=True):
        moments.learn(x, weight)
    for k, window in enumerate((16, 256)):
        later = np.append(np.cumsum(weights[::-1])[::-1][1:], 0.0)  # decays apply to earlier pairs
        discounts = weights * (1.0 - 1.0 / window) ** later
        sums, count = (X.T * discounts) @ X, discounts.sum()
        ridge = moments.means[k] * (count + CONFIG.ridge) - sums
        np.testing.assert_allclose(ridge, np.diag(np.diag(ridge)), atol=1e-9)
        assert np.diag(ridge).sum() == pytest.approx(3 * CONFIG.ridge)
        np.testing.assert_allclose(moments.inverses[k] @ moments.means[k], np.eye(3), atol=1e-9)


def test_each_update_restores_the_ridge_of_one_feature():
    n, decay = 4, 1.0 - 1.0 / 8
    moments, diagonal, count = WindowMoments(n, [8], CONFIG), np.full(n, CONFIG.ridge), 0.0
    for i in range(3 * n):
        moments.learn(np.zeros(n), 1.0)
        diagonal, count = decay * diagonal, decay * count + 1.0
        diagonal[i % n] += n * CONFIG.ridge / 8
        np.testing.assert_allclose(moments.means[0] * (count + CONFIG.ridge), np.diag(diagonal), rtol=RTOL)
    assert diagonal.sum() == pytest.approx(n * CONFIG.ridge)


def test_an_outlier_counts_as_a_pair_at_the_limit():
    x = np.array([30.0, 0.0])
    moments = WindowMoments(2, [64], CONFIG)
    moments.learn(x, 1.0)
    weight = CONFIG.outlier_limit / (x @ x / 2.0)
    expected = 63 / 64 * CONFIG.ridge + weight * 900.0 + 2 * CONFIG.ridge / 64
    assert moments.means[0, 0, 0] == pytest.approx(expected / (weight + CONFIG.ridge), rel=RTOL)


def test_discriminants_are_the_stated_product_of_moments():
    rng = np.random.default_rng(3)
    n, ratios = 3, np.array([0.5, 1.0, 2.0])
    moments = Discriminants(n, [64], [64], CONFIG)
    similar, scaled, everything = (WindowMoments(n, [window], CONFIG) for window in (64, 64, CONFIG.scale_horizon))
    for t in range(30):
        x, y = 0.5 * rng.normal(size=n), 1.0 if t % 3 else -1.0
        moments.learn(x, ratios, y, 1.0)
        everything.learn(x, 1.0)
        if y > 0.0:
            similar.learn(ratios * x, 1.0)
            scaled.learn(x, 1.0)
    moments.learn(x, ratios, 1.0, 0.0)  # a weight of 0: no similar pair, but one of all pairs
    everything.learn(x, 1.0)
    R, T = np.diag(ratios), everything.means[0]
    S, S_scaled = similar.means[0], scaled.means[0]
    whitened, half, standardized = moments.matrices(ratios)
    np.testing.assert_allclose(whitened, np.linalg.inv(T), rtol=RTOL)
    expected = R @ np.linalg.inv(S) @ (R @ T @ R) @ np.linalg.inv(S) @ R
    np.testing.assert_allclose(half, expected, rtol=RTOL, atol=1e-12)
    expected = np.linalg.inv(S_scaled) @ T @ np.linalg.inv(S_scaled)
    np.testing.assert_allclose(standardized, expected, rtol=RTOL, atol=1e-12)
    assert np.linalg.eigvalsh(half)[0] > 0.0


def test_restarted_windows_learn_only_the_given_pairs():
    rng = np.random.default_rng(12)
    moments, fresh = WindowMoments(3, [16, 64, 256], CONFIG), WindowMoments(3, [64, 256], CONFIG)
    for x in rng.normal(size=(50, 3)):
        moments.learn(x, rng.choice([0.5, 1.0, 2.0]))
    rows, weights = 2.0 * rng.normal(size=(7, 3)), rng.choice([0.5, 1.0, 2.0], size=7)
    first, first_inverse = moments.means[0].copy(), moments.inverses[0].copy()
    moments.restart(rows, weights)
    for x, weight in zip(rows, weights.tolist(), strict=True):
        fresh.learn(x, weight)
    np.testing.assert_array_equal(moments.means[0], first)
    np.testing.assert_allclose(moments.inverses[0], first_inverse, rtol=RTOL)
    np.testing.assert_allclose(moments.means[1:], fresh.means, rtol=RTOL)
    np.testing.assert_allclose(moments.inverses[1:], fresh.inverses, rtol=RTOL)
    moments.restart(np.empty((0, 3)), np.empty(0))  # no similar pair since the change: what is left is the ridge
    np.testing.assert_array_equal(moments.means[0], first)
    np.testing.assert_allclose(moments.means[1:], [np.eye(3)] * 2, rtol=RTOL)


def test_restarted_discriminants_learn_only_the_given_pairs_and_return_mean_distances():
    rng = np.random.default_rng(13)
    n, ratios = 3, np.array([0.5, 1.0, 2.0])
    moments, everything = (
        Discriminants(n, [16, 64], [32, 128], CONFIG),
        WindowMoments(n, [CONFIG.scale_horizon], CONFIG),
    )
    fresh, fresh_scaled = WindowMoments(n, [64], CONFIG), WindowMoments(n, [128], CONFIG)
    for t, x in enumerate(rng.normal(size=(40, n))):
        moments.learn(x, ratios, 1.0 if t % 3 else -1.0, 1.0)
        everything.learn(x, 1.0)
    before, rows, weights = moments.matrices(ratios), rng.normal(size=(9, n)), rng.choice([0.5, 1.0, 2.0], size=9)
    means = moments.restart(rows, weights, ratios)
    for x, weight in zip(rows, weights.tolist(), strict=True):
        fresh.learn(ratios * x, weight)
        fresh_scaled.learn(x, weight)
    whitened, first, longer, first_scaled, longer_scaled = moments.matrices(ratios)
    np.testing.assert_allclose([whitened, first, first_scaled], before[[0, 1, 3]], rtol=RTOL, atol=1e-12)
    R, T = np.diag(ratios), everything.means[0]
    S, S_scaled = np.linalg.inv(fresh.means[0]), np.linalg.inv(fresh_scaled.means[0])
    np.testing.assert_allclose(longer, R @ S @ (R @ T @ R) @ S @ R, rtol=RTOL, atol=1e-12)
    np.testing.assert_allclose(longer_scaled, S_scaled @ T @ S_scaled, rtol=RTOL, atol=1e-12)
    expected = [np.trace(A @ T) for A in (first, longer, first_scaled, longer_scaled)]
    np.testing.assert_allclose(means, expected, rtol=RTOL)


# -- Similar pairs --


def test_similar_pairs_are_those_of_pairs_and_the_near_ones_of_comparisons():
    rng, weights = np.random.default_rng(14), np.array([1.0, 2.0, 0.0, 0.5])
    near, far = rng.normal(size=(2, 4, 3))
    of_pairs, of_relatives = SimilarPairs(3), SimilarPairs(3)
    of_pairs.add(Events(near, [1.0, -1.0, 1.0, 1.0]), weights, 1)  # the third has no weight
    of_relatives.add(Relatives(near, far), weights, 1)
    for pairs, rows in ((of_pairs, [0, 3]), (of_relatives, [0, 1, 3])):
        for first_round in range(1, 6):
            U, W = pairs.since(first_round)
            expected = [row for row in rows if row + 1 >= first_round]
            np.testing.assert_array_equal(U, near[expected])
            np.testing.assert_array_equal(W, weights[expected])


@pytest.mark.parametrize("size", [1, 7, 64])
def test_similar_pairs_are_dropped_after_the_greatest_age(size):
    rounds = 3 * MAX_AGE
    U, y = np.arange(1.0, rounds + 1.0)[:, None], np.where(np.arange(rounds) % 3, 1.0, -1.0)  # a row is its round
    events, pairs = Events(U, y), SimilarPairs(1)
    for i in range(0, rounds, size):
        pairs.add(events[i : i + size], np.ones(len(events[i : i + size])), i + 1)
        last = min(i + size, rounds)
        expected = [t for t in range(max(1, last - MAX_AGE + 1), last + 1) if y[t - 1] > 0.0]
        assert pairs.since(1)[0][:, 0].tolist() == expected
        assert pairs.since(last - 10)[0][:, 0].tolist() == [t for t in expected if t >= last - 10]


def stored_pairs():
    rng, pairs = np.random.default_rng(15), SimilarPairs(2)
    pairs.add(Events(rng.normal(size=(6, 2)), [1.0, 1.0, -1.0] * 2), rng.uniform(0.5, 2.0, size=6), 11)
    return pairs


def test_restored_similar_pairs_continue_like_the_original():
    pairs, more = stored_pairs(), Events(np.ones((3, 2)), [1.0, -1.0, 1.0])
    arrays = pairs.arrays()
    restored = SimilarPairs.restore(StateReader(arrays, {}), 2, 16)
    for array in arrays.values():
        array[...] = 7.0  # a copy
    for each in (pairs, restored):
        each.add(more, np.ones(3), 11 + MAX_AGE - 2)
    for first_round in (1, 12, 14, 11 + MAX_AGE):
        for one, other in zip(pairs.since(first_round), restored.since(first_round), strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(pairs.since(1)[0]) == 5  # only the oldest of four pairs was dropped
    empty = SimilarPairs.restore(StateReader(SimilarPairs(2).arrays(), {}), 2, 16)
    assert len(empty.since(1)[0]) == 0


@pytest.mark.parametrize(
    ("name", "damaged", "sentence"),
    [
        ("differences", np.ones((4, 3)), "'differences' has shape"),
        ("differences", np.full((4, 2), np.inf), "'differences' holds inf"),
        ("differences", np.ones((3, 2)), "'weights' has shape"),
        ("differences", None, "'differences' is missing"),
        ("weights", np.full(4, -1.0), "'weights' holds -1.0"),
        ("weights", np.full(4, nan), "'weights' holds nan"),
        ("rounds", np.ones(5), "'rounds' has shape"),
        ("rounds", np.zeros(4), "'rounds' holds 0.0"),
        ("rounds", np.ones(4, dtype=int), "'rounds' has type int64"),
        ("rounds", np.array([11.0, 12.0, 14.0, 17.0]), "'rounds' holds 17.0"),
        ("rounds", np.array([11.0, 12.0, 12.0, 15.0]), "'rounds' must hold ascending rounds"),
        ("rounds", np.array([11.0, 12.5, 14.0, 15.0]), "'rounds' must hold ascending rounds"),
    ],
)
def test_damaged_similar_pairs_are_refused(name, damaged, sentence):
    arrays = {**stored_pairs().arrays(), name: damaged}
    with pytest.raises(ValueError, match=sentence):
        SimilarPairs.restore(StateReader({key: array for key, array in arrays.items() if array is not None}, {}), 2, 16)


# -- COMID --


def random_event(rng, n, kind):
    near, far = rng.normal(size=(2, n)) * rng.uniform(0.3, 3.0, size=(2, 1))
    if kind == "relatives":
        return Relative(near, far if rng.random() < 0.9 else -near)
    return Event(near, rng.choice([-1.0, 1.0]))


def learn(learner, event, weight):
    if isinstance(event, Relative):
        learner.learn_relative(event.near, event.far, weight)
    else:
        learner.learn_pair(event.u, event.y, weight)


@pytest.mark.parametrize("kind", ["pairs", "relatives"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_low_rank_comid_with_full_rank_is_comid(n, kind):
    rng = np.random.default_rng(n)
    learner, eta = LowRankComid(n, 2.0 / n**2, n), 2.0 / n**2
    exact = Comid(Metric(np.eye(n) / n, threshold=1.0), step_size=eta, loss="logistic", regularizer=None)
    for _ in range(60):
        event, weight, probe = random_event(rng, n, kind), rng.choice([0.25, 1.0, 3.0]), rng.normal(size=n)
        learn(learner, event, weight)
        exact = exact.with_start(exact.play(), weight * eta)
        exact.update(event)
        assert learner.square(probe) == pytest.approx(exact.play().squared_length(probe), rel=RTOL, abs=RTOL)
        assert learner.threshold == pytest.approx(exact.play().threshold, rel=RTOL)


@pytest.mark.parametrize("kind", ["pairs", "relatives"])
def test_low_rank_comid_drops_the_directions_nearest_to_the_base(kind):
    rng, n, max_rank, eta = np.random.default_rng(4), 6, 2, 0.1
    learner, base = LowRankComid(n, eta, max_rank), 1.0 / n
    metric = Metric(base * np.eye(n), threshold=1.0)
    for _ in range(40):
        event = random_event(rng, n, kind)
        learn(learner, event, 1.0)
        exact = Comid(metric, step_size=eta, loss="logistic", regularizer=None)
        exact.update(event)
        values, vectors = np.linalg.eigh(exact.play().matrix)
        values[np.argsort(-np.abs(values - base))[max_rank:]] = base
        metric = Metric.from_trusted_matrix((vectors * values) @ vectors.T, exact.play().threshold)
        assert len(learner.directions) <= max_rank
        np.testing.assert_allclose(
            learner.directions @ learner.directions.T, np.eye(len(learner.directions)), atol=1e-9
        )
        probe = rng.normal(size=n)
        assert learner.square(probe) == pytest.approx(metric.squared_length(probe), rel=1e-8, abs=1e-9)


def test_low_rank_comid_learns_nothing_from_equal_points():
    learner = LowRankComid(3, 1.0, 2)
    learner.learn_pair(np.zeros(3), 1.0, 1.0)
    assert learner.threshold > 1.0
    learner.learn_relative(np.ones(3), -np.ones(3), 1.0)
    assert len(learner.directions) == 0


# -- Calibration --


def test_probabilities_and_losses_do_not_overflow():
    assert sigmoid(np.array([0.0, -800.0, 800.0])).tolist() == [0.5, 0.0, 1.0]
    assert log_loss(np.array([-800.0]), 1.0)[0] == 800.0
    assert log_loss(np.array([0.0]), -1.0)[0] == log(2.0)


def test_running_means_are_means_at_first_and_forget_later():
    rng, means = np.random.default_rng(5), RunningMeans(2, CONFIG)
    sizes = rng.uniform(1.0, 3.0, size=(600, 2))
    means.update(np.zeros(2))  # leading pairs of equal points are ignored
    assert (means.values == 1.0).all()
    for i, size in enumerate(sizes):
        assert means.warming_up == (i < WARMUP)
        means.update(size)
        if i + 1 == 150:
            np.testing.assert_allclose(means.values, sizes[:150].mean(axis=0), rtol=RTOL)
    rate = 1.0 / CONFIG.horizon
    n_mean = int(CONFIG.horizon)
    discounts = rate * (1.0 - rate) ** np.arange(600 - n_mean)[::-1]
    expected = discounts @ sizes[n_mean:] + (1.0 - rate) ** (600 - n_mean) * sizes[:n_mean].mean(axis=0)
    np.testing.assert_allclose(means.values, expected, rtol=RTOL)
    means.freeze(1)
    means.update(np.array([5.0, 5.0]))
    assert means.values[1] == 1.0
    assert means.values[0] > expected[0]


N_UNLIMITED = int(CONFIG.horizon)  # until then, means are those of all pairs


def included(running, *pairs):
    """Return a copy of running means or spreads that includes these pairs, too."""
    other = deepcopy(running)
    for pair in pairs:
        other.update(np.array(pair))
    return other


def ordinary_means(n_pairs):
    return included(RunningMeans(2, CONFIG), *np.random.default_rng(11).uniform([1.0, 10.0], [3.0, 30.0], (n_pairs, 2)))


@pytest.mark.parametrize("size", [10.0, 1e6, 1e200])
@pytest.mark.parametrize("n_pairs", [N_UNLIMITED, 500])
def test_one_outlier_changes_a_running_mean_by_a_bounded_factor(size, n_pairs):
    means, share = ordinary_means(n_pairs), 1.0 / CONFIG.horizon
    factor = 1.0 + share * (CONFIG.winsor_limit - 1.0)
    np.testing.assert_allclose(included(means, size * means.values).values, factor * means.values, rtol=RTOL)
    # Each distance has a limit of its own.
    pair = [0.5, size] * means.values
    np.testing.assert_allclose(included(means, pair).values, [1.0 - 0.5 * share, factor] * means.values, rtol=RTOL)


def test_the_limit_of_a_running_mean_does_not_apply_to_the_first_pairs():
    for n_pairs in (WARMUP, N_UNLIMITED):
        means = included(RunningMeans(2, CONFIG), *[[1.0, 1.0]] * (n_pairs - 1), [1e6, 1e6])
        np.testing.assert_allclose(means.values, (n_pairs - 1 + 1e6) / n_pairs, rtol=RTOL)


def test_many_long_pairs_in_a_row_are_a_new_unit_of_the_running_means():
    means, pair = ordinary_means(500), [1e6, 1e7]
    limited = included(means, *[pair] * WARMUP)
    growth = (1.0 + (CONFIG.winsor_limit - 1.0) / CONFIG.horizon) ** WARMUP
    np.testing.assert_allclose(limited.values, growth * means.values, rtol=RTOL)
    accepted = included(limited, pair).values
    np.testing.assert_allclose(accepted, limited.values + (pair - limited.values) / CONFIG.horizon, rtol=RTOL)
    np.testing.assert_allclose(included(limited, *[pair] * 2000).values, pair, rtol=1e-3)
    interrupted = included(limited, means.values, *[pair] * WARMUP)  # the row begins again
    assert (interrupted.values < growth**2 * means.values).all()
    # The Euclidean length decides: a learned distance may grow while it learns.
    others = included(means, *[[2.0, 1e7]] * (2 * WARMUP))
    assert others.values[1] == pytest.approx(growth**2 * means.values[1], rel=RTOL)


@pytest.mark.parametrize("relative", [False, True])
def test_running_spreads_are_mean_squared_deviations(relative):
    rng, spreads, location = np.random.default_rng(6), RunningSpreads(2, CONFIG, relative), 0.0 if relative else 1.0
    signs, sizes = rng.choice([-1.0, 1.0], size=(100, 2)), np.sqrt(rng.uniform(0.25, 0.75, size=(100, 2)))
    distances = location + signs * sizes  # there are no outliers
    for distance in distances:
        spreads.update(distance)
    squares = (INITIAL_SPREAD**2 + ((distances - location) ** 2).sum(axis=0)) / 101
    np.testing.assert_allclose(spreads.squares, squares, rtol=RTOL)
    expected = (distances[0] - location) / np.sqrt(squares)
    np.testing.assert_allclose(spreads.deviations(distances[0]), expected, rtol=RTOL)
    spreads.freeze(0)
    spreads.update(np.array([9.0, 9.0]))
    assert spreads.deviations(np.array([2.5, 2.5]))[0] == 2.5
    for _ in range(5000):
        spreads.update(np.full(2, location))
    assert spreads.squares[1] > 0.0


@pytest.mark.parametrize("size", [1e2, 1e100])
def test_one_outlier_changes_a_spread_by_a_bounded_factor(size):
    spreads = included(RunningSpreads(2, CONFIG, False), *[[0.4, 1.7]] * N_UNLIMITED)
    factors = 1.0 + np.array([CONFIG.winsor_limit - 1.0, -1.0]) / CONFIG.horizon
    after = included(spreads, [1.0 + size, 1.0])
    np.testing.assert_allclose(after.squares, factors * spreads.squares, rtol=RTOL)
    lasting = included(spreads, *[[101.0, 1.7]] * 3000)  # pairs that stay far from their mean are no outliers
    np.testing.assert_allclose(lasting.squares, [1e4, 0.49], rtol=1e-3)


def test_the_limit_of_a_spread_does_not_apply_to_the_first_pairs():
    spreads = included(RunningSpreads(1, CONFIG, False), *[[1.0]] * (N_UNLIMITED - 2), [101.0])
    # The initial spread counts as one pair.
    assert spreads.squares[0] == pytest.approx((INITIAL_SPREAD**2 + 1e4) / N_UNLIMITED, rel=RTOL)


def platt(n_experts=1, pseudo_count=2.0, horizon=200.0, limit=10.0, relative=False, start=(-0.5, 1.0)):
    return PlattScaling(n_experts, start, pseudo_count=pseudo_count, horizon=horizon, limit=limit, relative=relative)


def answer(fit, deviation, y, weight=1.0):
    deviations = np.array([deviation])
    fit.learn(deviations, fit.log_odds(deviations), y, weight)


def test_few_answers_move_a_calibration_little():
    for y in (1.0, -1.0):
        fit = platt()
        answer(fit, 1.0, y)
        assert 0.0 < np.abs(fit.parameters[0] - [-0.5, 1.0]).max() < 0.5
        cautious = platt(pseudo_count=20.0)
        answer(cautious, 1.0, y)
        assert np.abs(cautious.parameters - [-0.5, 1.0]).max() < 0.05


def test_a_calibration_step_is_a_newton_step():
    fit, ridge = platt(pseudo_count=2.0, horizon=50.0), 2.0
    answer(fit, 0.7, -1.0, weight=0.5)
    x, p = np.array([1.0, -0.7]), 1.0 / (1.0 + exp(0.5 + 0.7))
    hessian = ridge * np.eye(2) + 0.5 * p * (1.0 - p) * np.outer(x, x)
    expected = np.array([-0.5, 1.0]) - np.linalg.solve(hessian, 0.5 * p * x)
    np.testing.assert_allclose(fit.parameters[0], expected, rtol=RTOL)


def test_many_answers_fit_the_truth():
    rng, fits = np.random.default_rng(7), platt(n_experts=2, horizon=5000.0)
    for _ in range(8000):
        deviation = rng.normal()
        y = 1.0 if rng.random() < 1.0 / (1.0 + exp(-(1.0 - 2.0 * deviation))) else -1.0
        deviations = np.array([deviation, rng.normal()])
        fits.learn(deviations, fits.log_odds(deviations), y, 1.0)
    np.testing.assert_allclose(fits.parameters[0], [1.0, 2.0], atol=0.25)
    assert fits.parameters[1, 1] < 0.15  # a distance that says nothing


def test_far_never_means_similar():
    for relative in (False, True):
        fit = platt(relative=relative)
        for t in range(300):
            answer(fit, -1.0 if t % 2 else 1.0, -1.0 if t % 2 else 1.0)
            assert fit.parameters[0, 1] >= MIN_SLOPE
            assert fit.parameters[0, 0] == 0.0 or not relative


def test_outliers_count_as_the_limit_in_a_calibration():
    fits = [platt(limit=10.0), platt(limit=10.0)]
    for fit, deviation in zip(fits, (10.0, 1e6), strict=True):
        fit.learn(np.array([deviation]), np.array([-9.0]), 1.0, 1.0)
    np.testing.assert_array_equal(*(fit.parameters for fit in fits))


def test_the_calibration_of_a_stored_metric_starts_at_its_log_odds():
    fits = platt(n_experts=2)
    for t in range(50):
        fits.learn(np.full(2, 0.1 * t), np.zeros(2), -1.0, 1.0)
    fits.reset(1, 3.5)
    assert fits.log_odds(np.array([0.0, 1.25]))[1] == 3.5 - 1.25
    before = fits.parameters.copy()
    answers = np.array([0.5, 0.5])
    fits.learn(answers, fits.log_odds(answers), -1.0, 1.0)
    assert np.abs(fits.parameters[1] - before[1]).max() < 0.2


@pytest.mark.parametrize("relative", [False, True])
def test_a_pair_without_weight_does_not_change_a_calibration(relative):
    fit = platt(relative=relative)
    for t in range(20):
        answer(fit, 0.1 * t, 1.0 if t % 3 else -1.0)
    same = deepcopy(fit)
    answer(same, 3.0, -1.0, weight=0.0)
    np.testing.assert_array_equal(same.parameters, fit.parameters)
    for each in (fit, same):
        answer(each, 0.5, 1.0)
    np.testing.assert_array_equal(same.parameters, fit.parameters)


def test_a_pair_of_weight_two_forgets_like_two_pairs():
    """Both terms of the ridge and the sums of earlier pairs decay once for each unit of weight."""
    rng, fit, ridge, start = np.random.default_rng(16), platt(horizon=20.0), 2.0, np.array([-0.5, 1.0])
    parameters, hessian = start, ridge * np.eye(2)
    for weight in (1.0, 2.0, 0.5, 2.0, 3.0, 0.0, 2.0) * 3:
        deviation, y = rng.normal(), rng.choice([-1.0, 1.0])
        x, kept = np.array([1.0, -deviation]), 0.95**weight
        p = 1.0 / (1.0 + exp(-parameters @ x))
        hessian = kept * hessian + weight * p * (1.0 - p) * np.outer(x, x) + (1.0 - kept) * ridge * np.eye(2)
        gradient = weight * (p - (y > 0.0)) * x + (1.0 - kept) * ridge * (parameters - start)
        parameters = parameters - np.linalg.solve(hessian, gradient)
        answer(fit, deviation, y, weight)
        np.testing.assert_allclose(fit.parameters[0], parameters, rtol=RTOL)
    assert fit.parameters[0, 1] > MIN_SLOPE


def test_a_fit_can_continue_from_another_one():
    fits = platt(n_experts=2)
    for t in range(20):
        deviations = np.array([0.1 * t, -0.1 * t])
        fits.learn(deviations, fits.log_odds(deviations), 1.0 if t % 3 else -1.0, 1.0)
    assert (fits.parameters[0] != fits.parameters[1]).all()
    fits.copy_fit(0, 1)
    for y in (1.0, -1.0):
        np.testing.assert_array_equal(fits.parameters[0], fits.parameters[1])
        fits.learn(np.full(2, 0.3), fits.log_odds(np.full(2, 0.3)), y, 1.0)
    fits.learn(np.array([0.3, 2.0]), fits.log_odds(np.array([0.3, 2.0])), 1.0, 1.0)
    assert (fits.parameters[0] != fits.parameters[1]).all()  # independent


# -- Trust in the prior --


def test_trust_begins_at_one_and_follows_the_near_pairs():
    rng = np.random.default_rng(8)
    informative, noise = PriorTrust(CONFIG), PriorTrust(CONFIG)
    assert informative.value == noise.value == 1.0
    for _ in range(3000):
        distance = rng.chisquare(3) / 3
        informative.update(distance, 1.0 if distance < 0.4 else -1.0, 1.0)
        noise.update(distance, rng.choice([-1.0, 1.0]), 1.0)
    assert informative.value > 0.8
    assert noise.value < 0.05
    # The bound is near the quantile of near pairs.
    assert np.mean(rng.chisquare(3, size=4000) / 3 < informative._bound) == pytest.approx(CONFIG.near_share, abs=0.03)


def test_trust_is_a_power_of_the_lift():
    trust = PriorTrust(CONFIG)
    for _ in range(N_FIRST):
        trust.update(1.0, -1.0, 1.0)
    similar, count, rate, bound = 0.0, 0.0, trust._similar_rate, trust._bound
    for t, (distance, y) in enumerate([(0.01, 1.0), (5.0, -1.0), (0.02, 1.0), (0.015, -1.0)], start=N_FIRST + 1):
        trust.update(distance, y, 1.0)
        if distance < bound:
            similar, count = 0.99 * similar + (y > 0), 0.99 * count + 1.0
        bound *= exp(max(0.05, 2.0 / t) * (CONFIG.near_share - (distance < bound)))
        rate += ((y > 0) - rate) / (t + 1.0)
    lift = ((similar + CONFIG.ridge) / (count + CONFIG.ridge) - rate) / (1.0 - rate)
    assert trust.value == pytest.approx(lift**CONFIG.trust_exponent, rel=RTOL)
    assert 0.0 < trust.value < 1.0


def test_pairs_without_weight_do_not_change_the_trust():
    one, other = PriorTrust(CONFIG), PriorTrust(CONFIG)
    for t in range(60):
        one.update(0.01 * (t + 1), -1.0, 0.0)
        other.update(0.01 * (t + 1), 1.0, 0.0)
    assert one.value == other.value == 1.0


# -- Weights by discounted losses --


HANDICAP_PAIRS = 20.0


def discounted_weights(handicaps, absent=(), config=CONFIG, n_combinations=0):
    mask = np.isin(np.arange(len(handicaps)), absent)
    return DiscountedWeights(np.array(handicaps), HANDICAP_PAIRS, len(handicaps) - n_combinations, mask, config)


def test_discounted_weights_need_evidence_against_a_handicap():
    weights = discounted_weights([0.0, 4.0])
    assert weights.shares[1] == pytest.approx(exp(-4) / (1 + exp(-4)))
    for _ in range(30):
        weights.update(log_loss(np.array([0.0, 2.0]), 1.0), 1.0, 1.0)  # the second expert is right
    assert weights.shares[1] > 0.99
    for _ in range(2000):
        weights.update(np.ones(2), 1.0, 1.0)  # no evidence: the losses are forgotten, and the handicap too
    assert weights.shares[1] == pytest.approx(0.5, abs=0.05)


def test_discounted_weights_are_exponential_in_discounted_losses():
    rng, config = np.random.default_rng(9), AdaptiveConfig(horizon=50.0)
    handicaps, losses = np.array([0.0, 1.0, 2.0]), np.zeros(3)
    weights = discounted_weights(handicaps, config=config)
    for _ in range(40):
        log_odds, y, weight = rng.normal(size=3), rng.choice([-1.0, 1.0]), rng.choice([0.0, 0.5, 1.0, 2.0])
        weights.update(weight * log_loss(log_odds, y), y, weight)
        losses = 0.98**weight * losses + weight * np.log1p(np.exp(-y * log_odds))
        if y > 0.0:
            handicaps = (1.0 - 1.0 / HANDICAP_PAIRS) ** weight * handicaps
        expected = np.exp(-losses - handicaps)
        np.testing.assert_allclose(weights.shares, expected / expected.sum(), rtol=RTOL)


def test_an_expert_that_was_wrong_for_long_can_return():
    weights = discounted_weights(np.zeros(2))
    for _ in range(1000):
        weights.update(log_loss(np.array([5.0, -5.0]), 1.0), 1.0, 1.0)
    assert weights.shares[1] < 1e-4
    for _ in range(20):
        weights.update(log_loss(np.array([5.0, -5.0]), -1.0), -1.0, 1.0)
    assert weights.shares[1] > 0.99


def test_a_combination_that_is_far_ahead_does_not_make_distances_equal():
    weights = discounted_weights(np.zeros(3), n_combinations=1)
    for _ in range(2000):
        weights.update(np.array([0.50, 0.52, 0.0]), 1.0, 1.0)
    best, other, combination = weights.shares
    assert best / other == pytest.approx(exp(0.02 * CONFIG.horizon), rel=0.01)
    assert combination / best == pytest.approx(exp(MAX_LOG_RATIO), rel=RTOL)
    for _ in range(40):
        weights.update(np.array([0.0, 0.0, 0.5]), 1.0, 1.0)  # the distances can return
    assert weights.shares[2] < 0.01


def test_one_pair_costs_an_expert_at_most_the_largest_loss():
    for weight in (0.5, 1.0):
        one, other = discounted_weights(np.zeros(2)), discounted_weights(np.zeros(2))
        one.update(weight * np.array([0.0, MAX_LOSS]), 1.0, weight)
        other.update(weight * np.array([0.0, 1e6]), 1.0, weight)
        np.testing.assert_array_equal(one.shares, other.shares)
        assert one.shares[1] / one.shares[0] == pytest.approx(exp(-weight * MAX_LOSS), rel=RTOL)


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.0])
def test_handicaps_fade_only_at_similar_pairs(weight):
    weights = discounted_weights([0.0, 4.0])
    before = weights.shares
    for _ in range(100):
        weights.update(np.full(2, 0.7 * weight), -1.0, weight)
    np.testing.assert_array_equal(weights.shares, before)
    for k in range(1, 31):
        weights.update(np.full(2, 0.7 * weight), 1.0, weight)
        handicap = 4.0 * (1.0 - 1.0 / HANDICAP_PAIRS) ** (k * weight)
        assert weights.shares[1] == pytest.approx(1.0 / (1.0 + exp(handicap)), rel=RTOL)


def test_a_pair_without_weight_does_not_change_the_weights():
    rng, weights = np.random.default_rng(17), discounted_weights([0.0, 1.0, 4.0, 0.0], absent=[3])
    for _ in range(20):
        weights.update(rng.uniform(0.0, 2.0, size=4), rng.choice([-1.0, 1.0]), 1.0)
    before, losses = weights.shares, rng.uniform(0.0, 9.0, size=4)
    for y in (1.0, -1.0):
        weights.update(0.0 * losses, y, 0.0)
        np.testing.assert_array_equal(weights.shares, before)


def test_absent_experts_have_no_weight_until_they_start():
    rng, n = np.random.default_rng(18), 4
    weights, without = discounted_weights(np.zeros(n), absent=[1, 3]), discounted_weights(np.zeros(2))
    for _ in range(30):
        losses, y = rng.uniform(0.0, 1.0, size=n), rng.choice([-1.0, 1.0])
        weights.update(losses, y, 1.0)
        without.update(losses[[0, 2]], y, 1.0)
        assert (weights.shares[[1, 3]] == 0.0).all()
        np.testing.assert_allclose(weights.shares[[0, 2]], without.shares, rtol=RTOL)
    weights = discounted_weights(np.zeros(n), absent=[1, 3])
    weights.update(np.array([0.2, 0.9, 0.5, 0.9]), 1.0, 1.0)
    weights.start(3)
    assert weights.shares[1] == 0.0
    assert weights.shares[3] / weights.shares[0] == pytest.approx(exp(-CONFIG.handicap), rel=RTOL)
    for _ in range(30):
        weights.update(np.array([1.0, 0.0, 1.0, 0.0]), 1.0, 1.0)  # the stored metric is right
    assert weights.shares[3] > 0.99
    assert weights.shares[1] == 0.0


def test_a_restarted_expert_has_the_losses_of_the_best_of_the_others():
    weights = discounted_weights([0.0, 0.0, 0.0, 1.0, 0.0])
    for _ in range(5):
        weights.update(np.array([0.1, 0.5, 0.3, 0.9, 0.7]), -1.0, 1.0)
    before = weights.shares
    weights.restart(slice(1, 4), 3)
    after = weights.shares
    assert after[3] / after[2] == pytest.approx(exp(-1.0), rel=RTOL)  # its handicap stays
    np.testing.assert_allclose(after[[0, 1, 4]] / after[2], before[[0, 1, 4]] / before[2], rtol=RTOL)
    assert after.sum() == pytest.approx(1.0, rel=RTOL)


# -- Experts --


def expert_counts(n_features, n_own=0, config=CONFIG):
    kinds = Kinds(n_features, False, config)
    counts = ExpertCounts(
        priors=len(kinds.priors),
        learned=len(kinds.learned) + n_own,
        memories=2,
        scaled=kinds.scaled,
        windows=(len(kinds.windows), len(kinds.scaled_windows)),
        handicap_pairs=HANDICAP_PAIRS,
    )
    return kinds, counts


@pytest.mark.parametrize("n", [3, 40, 100, 200])
@pytest.mark.parametrize("n_own", [0, 2])
def test_handicaps_by_kind_of_expert(n, n_own):
    kinds, counts = expert_counts(n, n_own)
    expected = {"Euclidean": 0.0, "memory": 0.0, "all": 3.0, "window": 4.0, "COMID": 4.0, "own": 4.0}
    expected |= {"standardized": 6.0, "whitened": 6.0}
    names = [*kinds.names, *["own"] * n_own, "memory 1", "memory 2", "all learned", "all learned 1:3 prior"]
    assert counts.experts == len(names)
    handicaps = counts.handicaps(AdaptiveConfig(handicap=4.0))
    assert handicaps.tolist() == [expected[name.split()[0]] for name in names]
    np.testing.assert_allclose(counts.handicaps(AdaptiveConfig(handicap=1.0)), handicaps / 4.0, rtol=RTOL)


@pytest.mark.parametrize("n", [3, 40, 100, 200])
@pytest.mark.parametrize("n_own", [0, 2])
@pytest.mark.parametrize("left_out", [{}, {"windows": ()}, {"scaled_windows": ()}])
def test_window_ranges_are_the_windows_of_each_kind(n, n_own, left_out):
    kinds, counts = expert_counts(n, n_own, AdaptiveConfig(**left_out))
    half, scaled = (list(kinds.names[windows]) for windows in counts.window_ranges)
    assert half == [name for name in kinds.names if name.startswith("window")]
    assert scaled == [name for name in kinds.names if name.startswith("standardized window")]
    for names in (half, scaled):
        lengths = [int(name.split()[-1]) for name in names]
        assert lengths == sorted(lengths)


# -- Change test --


def evidence(log_odds, y):
    """Return the log likelihood ratio of weakened predictions against those of the anchor."""
    z = max(-MAX_LOG_ODDS, min(MAX_LOG_ODDS, log_odds))
    likelihoods = [1.0 / (1.0 + exp(-y * factor * z)) for factor in (ALTERNATIVE_SCALE, 1.0)]
    return log(likelihoods[0] / likelihoods[1])


def test_without_an_anchor_nothing_is_tested():
    detector = ChangeDetector(CONFIG)
    detector.update(2.0, -1.0, 1.0, 1)
    before = detector.evidence
    assert before > 0.0
    assert detector.update(nan, -1.0, 1.0, 2) == NO_CHANGE
    assert detector.evidence == before


class Confidence:
    """The slope of a logistic fit of the answers on an anchor's log odds, by Newton steps, at most 1 when used."""

    def __init__(self):
        self.slope, self.hessian = 1.0, CONFIDENCE_PSEUDO_COUNT

    def weaken(self, log_odds):
        return min(self.slope, 1.0) * np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)

    def learn(self, log_odds, y, weight):
        x, decay = np.clip(log_odds, -MAX_LOG_ODDS, MAX_LOG_ODDS), (1.0 - 1.0 / CONFIG.scale_horizon) ** weight
        p, ridge = 1.0 / (1.0 + np.exp(-self.slope * x)), (1.0 - decay) * CONFIDENCE_PSEUDO_COUNT
        self.hessian = decay * self.hessian + weight * max(p * (1.0 - p), MIN_CURVATURE) * x**2 + ridge
        gradient = weight * (p - (y > 0.0)) * x + ridge * (self.slope - 1.0)
        self.slope = max(self.slope - gradient / self.hessian, MIN_SLOPE)


@given(st.lists(st.tuples(st.floats(-6.0, 6.0), st.sampled_from([-1.0, 1.0]), st.floats(0.0, 2.0)), max_size=60))
def test_the_evidence_is_a_cusum_of_log_likelihood_ratios(answers):
    detector, statistic, since, warned, found = ChangeDetector(CONFIG), 0.0, 1, False, []
    confidence, before = Confidence(), 1.0
    for t, (log_odds, y, weight) in enumerate(answers, start=1):
        outcome = detector.update(log_odds, y, weight, t)
        statistic += weight * evidence(confidence.weaken(log_odds), y)
        confidence.learn(log_odds, y, weight)
        if statistic > CONFIG.detection_level:
            assert outcome == CHANGE
            found.append((since, t, pytest.approx(statistic)))
            statistic, since, warned = 0.0, t + 1, False
            before = confidence.slope = 0.5 * (confidence.slope + before)
        elif statistic <= 1e-12:
            assert outcome == NO_CHANGE
            statistic, since, warned, before = 0.0, t + 1, False, confidence.slope
        else:
            assert outcome == (WARNING if statistic > CONFIG.warning_level and not warned else NO_CHANGE)
            warned = warned or outcome == WARNING
        assert detector.evidence == pytest.approx(statistic, abs=1e-9)
    assert detector.changes == found[:1]  # all within the gap


def test_a_change_is_reported_with_its_first_round_and_evidence():
    detector, outcomes = ChangeDetector(CONFIG), []
    for t in range(1, 201):
        outcomes.append(detector.update(2.0, 1.0, 1.0, t))  # the anchor is right
    for t in range(201, 230):
        outcomes.append(detector.update(2.0, -1.0, 1.0, t))
        if outcomes[-1] == CHANGE:
            break
    confidence, statistic, n_needed = Confidence(), 0.0, 0
    for _ in range(200):
        confidence.learn(2.0, 1.0, 1.0)
    while statistic <= CONFIG.detection_level:
        statistic += evidence(confidence.weaken(2.0), -1.0)
        confidence.learn(2.0, -1.0, 1.0)
        n_needed += 1
    assert detector.changes == [(201, 200 + n_needed, pytest.approx(statistic))]
    assert outcomes.count(WARNING) == 1
    assert outcomes.index(WARNING) < outcomes.index(CHANGE) == 200 + n_needed - 1
    assert detector.changes[0].evidence > CONFIG.detection_level
    assert detector.evidence == 0.0


@pytest.mark.parametrize(("gap", "n_changes"), [(MIN_GAP, 1), (MIN_GAP + 1, 2)])
def test_detections_within_the_gap_are_one_change(gap, n_changes):
    detector = ChangeDetector(CONFIG)
    for t in (10, 10 + gap):
        assert detector.update(-2.0, 1.0, 100.0, t) == CHANGE
    assert len(detector.changes) == n_changes


def test_evidence_that_grows_for_too_long_is_no_change():
    """Answers contradict an anchor a little, again and again: the evidence restarts, and a better anchor can come."""
    detector, outcomes, largest = ChangeDetector(CONFIG), [], 0.0
    for t in range(1, 3 * MAX_GROWTH):
        outcomes.append(detector.update(0.5, 1.0 if t % 12 < 6 else -1.0, 0.3, t))
        largest = max(largest, detector.evidence)
    assert CHANGE not in outcomes
    assert largest > 0.0
    detector = ChangeDetector(CONFIG)
    for t in range(1, MAX_GROWTH + 2):  # every step adds some
        detector.update(1.0, -1.0, 0.01, t)
        assert detector.evidence > 0.0 or t == MAX_GROWTH + 1
    assert detector.evidence == 0.0


def test_anchors_that_are_too_confident_are_weakened():
    """The answers follow 0.4 times the log odds. Without the confidence there would be a change every 100 rounds."""
    rng, detector = np.random.default_rng(11), ChangeDetector(CONFIG)
    log_odds = rng.choice([-2.0, 2.0], size=20_000)
    y = np.where(rng.random(20_000) < sigmoid(0.4 * log_odds), 1.0, -1.0)
    for t in range(20_000):
        detector.update(log_odds[t], y[t], 1.0, t + 1)
    late = [change for change in detector.changes if change.detected > 2000]
    assert len(late) <= 5


def test_the_last_changes_are_kept():
    detector = ChangeDetector(CONFIG)
    for k in range(MAX_CHANGES + 5):
        detector.update(-2.0, 1.0, 100.0, 200 * (k + 1))
        for _ in range(50):  # the next anchor is right
            detector.update(3.0, 1.0, 100.0, 200 * (k + 1) + 1)
    assert [change.detected for change in detector.changes] == [200 * (k + 1) for k in range(5, MAX_CHANGES + 5)]


def test_false_alarms_are_as_rare_as_the_level_promises():
    """From calibrated predictions, a likelihood ratio reaches e^level with a probability of at most e^-level."""
    rng, config = np.random.default_rng(10), AdaptiveConfig(detection_level=4.0)
    n_rounds, n_detected, detector = 40_000, 0, ChangeDetector(config)
    log_odds = rng.normal(scale=2.0, size=n_rounds)
    y = np.where(rng.random(n_rounds) < sigmoid(log_odds), 1.0, -1.0)
    for t in range(n_rounds):
        n_detected += detector.update(log_odds[t], y[t], 1.0, t + 1) == CHANGE
    assert n_detected <= n_rounds * exp(-4.0)
