"""The regret of the adaptive method is below its bound on every interval, against every expert."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import COMPILED
from hypothesis import given
from hypothesis import strategies as st

from ocelad.adaptive.calibration import log_loss
from ocelad.adaptive.mixture import Mixture
from ocelad.adaptive.weights import MIN_SCALE, IntervalProd, interval_weight, regret_bound
from ocelad.evaluation.regret import Regret
from ocelad.lab.compare.few_answers import BENCHMARKS as FEW_ANSWERS
from ocelad.lab.compare.few_answers.held_out_split import draw_split
from ocelad.lab.compare.suite.benchmarks import BENCHMARKS
from ocelad.pairs import Events

only_compiled = pytest.mark.skipif(not COMPILED, reason="too many rounds for plain Python")
# The suites use seeds from 3000 on, and nothing was tuned on this one.
SEED = 5000


def interval_regrets(regrets):
    """Yield each length with the regrets of all intervals of that length, one row per interval."""
    sums = np.vstack([np.zeros(regrets.shape[1]), np.cumsum(regrets, axis=0)])
    for length in range(1, len(sums)):
        yield length, sums[length:] - sums[:-length]


def largest_share_of_the_bound(regrets, n_candidates, scale):
    """Return the largest ratio of a regret to its bound, over all intervals and experts."""
    of_one_round = np.array([regret_bound(1, last, n_candidates, scale) for last in range(1, len(regrets) + 1)])
    worst = 0.0
    for length, sums in interval_regrets(regrets):
        bounds = np.sqrt(length) * of_one_round[length - 1 :]
        worst = max(worst, float((sums.max(axis=1) / bounds).max()))
    return worst


def worst_interval(regrets):
    """Return the largest regret of all intervals against one expert."""
    zeros = np.zeros_like(regrets)
    return float(Regret(regrets, zeros).worst_intervals().regret.max())


# -- IntervalProd --


@given(st.lists(st.lists(st.floats(0.0, 5.0), min_size=3, max_size=3), min_size=1, max_size=70), st.floats(-12.0, 3.0))
def test_the_wealth_never_grows_and_bounds_the_regret_on_all_intervals(rounds, exponent):
    """Linear losses are the worst case of convex ones."""
    prod, regrets, rounds = IntervalProd(3), [], 2.0**exponent * np.array(rounds)
    wealth = _total_wealth(prod)
    for losses in rounds:
        shares = prod.shares()
        assert shares.sum() == pytest.approx(1.0)
        assert (shares >= 0.0).all()
        assert _total_wealth(prod) <= 1.0
        combined = float(shares @ losses)
        regrets.append(combined - losses)
        before = _total_wealth(prod)
        prod.update(combined, losses)
        assert _total_wealth(prod) <= before * (1.0 + 1e-12)
        assert prod.scale >= max(MIN_SCALE, np.abs(regrets[-1]).max()) * (1.0 - 1e-12)
    largest = np.abs(regrets).max()
    assert prod.scale == MIN_SCALE or prod.scale <= 2.0 * largest
    assert wealth == 0.5
    assert largest_share_of_the_bound(np.array(regrets), 3, prod.scale) <= 1.0


def _total_wealth(prod):
    return float((prod._priors * prod._wealth).sum())


@pytest.mark.parametrize("period", [3, 20, 64])
def test_the_regret_is_below_the_bound_when_the_best_candidate_changes(period):
    """The losses of the best candidate are 0 and those of the others 1; the scale grows on the way."""
    prod, regrets = IntervalProd(4), []
    for t in range(600):
        losses = np.ones(4) * 2.0 ** (t // 100)
        losses[(t // period) % 4] = 0.0
        combined = float(prod.shares() @ losses)
        regrets.append(combined - losses)
        prod.update(combined, losses)
    assert prod.scale == 32.0
    assert 0.0 < largest_share_of_the_bound(np.array(regrets), 4, prod.scale) <= 1.0


def test_a_good_first_candidate_is_followed_closely_and_a_bad_one_is_left():
    good, bad = IntervalProd(3), IntervalProd(3)
    for _ in range(400):
        for prod, losses in ((good, np.array([0.1, 0.5, 0.9])), (bad, np.array([0.9, 0.1, 0.5]))):
            prod.update(float(prod.shares() @ losses), losses)
    assert good.shares()[0] > 0.95
    assert bad.shares()[1] > 0.8


def test_the_prior_weights_of_all_entries_sum_to_at_most_one():
    prod, total = IntervalProd(4), 0.5
    for t in range(1, 2000):
        prod.shares()
        started = [j + 1 for j in range(t.bit_length()) if t % 2**j == 0]
        assert len(started) * interval_weight(t) <= 1.000001 / (t + 1.0) ** 2
        total += prod._priors[started].sum()
        prod.update(1.0, np.ones(4))
    assert 0.7 < total <= 1.0


def test_regrets_below_the_least_scale_are_not_amplified():
    prod = IntervalProd(2)
    for _ in range(50):
        losses = np.array([1.0, 1.0 - 1e-12])
        prod.update(float(prod.shares() @ losses), losses)
    assert prod.scale == MIN_SCALE
    assert prod.shares()[0] > 0.5


def test_the_bound_by_hand():
    """2 (powers of two up to R) x 2 sqrt(|J| log(1/p)) x 2 / (1 - 1/sqrt(2)) (two geometric series of intervals)."""
    log_weight = np.log(2 * 20 * 101**2 * 7)
    assert regret_bound(50, 100, 20, 0.5) == pytest.approx(0.5 * 4 * 2 / (1 - 0.5**0.5) * np.sqrt(50 * log_weight))


# -- The ensemble --


def play(events, weights=None, sparse=False):
    """Play one round after the other; return the mixture and its regret against each expert in each round."""
    mixture, regrets = Mixture(events.n_features, compiled=True, sparse=sparse), []
    weights = np.ones(len(events)) if weights is None else weights
    for t in range(len(events)):
        prediction, y = mixture.play(events[t : t + 1], weights[t : t + 1]), float(events.y[t])
        regrets.append(weights[t] * (log_loss(prediction, y) - log_loss(mixture.aggregator.log_odds, y)))
    return mixture, np.array(regrets)


def assert_bounded(mixture, regrets):
    scale, n_experts = mixture.aggregator.regret_scale, regrets.shape[1]
    assert np.abs(regrets).max() <= scale
    assert largest_share_of_the_bound(regrets, n_experts + 1, scale) <= 1.0


@pytest.mark.parametrize("seed", range(8 if COMPILED else 1))
def test_the_regret_against_every_expert_is_below_the_bound_on_every_interval(seed):
    """An adversary answers against the prediction, changes sides at random, and sends lengths of several sizes."""
    rng, rounds, n = np.random.default_rng(seed), 400 if COMPILED else 120, (2, 3, 5, 40)[seed % 4]
    mixture, regrets = Mixture(n, compiled=True), []
    weights = rng.choice([0.5, 1.0, 3.0], size=rounds) if seed % 2 else np.ones(rounds)
    for t in range(rounds):
        u = rng.normal(size=n) * rng.choice([0.1, 1.0, 3.0, 10.0])
        metric = mixture.metric()
        predicted = metric.threshold - metric.squared_length(u)
        against = (t // (20 + 10 * seed)) % 2 == seed % 2
        y = float(-np.sign(predicted) or 1.0) if against else float(rng.choice([-1.0, 1.0]))
        prediction = mixture.play(Events(u[None], [y]), weights[t : t + 1])
        regrets.append(weights[t] * (log_loss(prediction, y) - log_loss(mixture.aggregator.log_odds, y)))
    assert_bounded(mixture, np.array(regrets))


def suite_stream(name):
    """Return the first 2000 rounds of a benchmark of the adaptivity suite."""
    stream = BENCHMARKS[name].stream
    blocks = stream.blocks(SEED, every=2001)
    return next(iter(blocks)).events[:2000]


def few_answers_stream(name):
    """Return the first 1000 answers of a benchmark of the few-answers suite."""
    benchmark = FEW_ANSWERS[name]
    return draw_split(benchmark.load(SEED), 1000, SEED, balanced=benchmark.balanced).answers.events


FEW = ["digits-pca/natural", "breast-cancer/natural", "wine/balanced", "iris/natural", "rare-0.2%/balanced"]
STREAMS = {
    **dict.fromkeys(("S1", "S5", "S7", "wine"), suite_stream),
    **dict.fromkeys((*FEW, "isotropic/natural"), few_answers_stream),
}


@pytest.fixture(scope="module")
def played():
    """Return a function that plays a stream of a suite, each only once."""
    results = {}

    def get(name):
        if name not in results:
            results[name] = play(STREAMS[name](name))
        return results[name]

    return get


@only_compiled
@pytest.mark.parametrize("name", STREAMS)
def test_the_regret_on_the_streams_of_the_suites_is_below_the_bound(name, played):
    assert_bounded(*played(name))


SWITCH = pytest.mark.xfail(strict=True, reason="after a switch, confident predictions are wrong for a while")
FAR_PAIR = pytest.mark.xfail(strict=True, reason="12.2 nats on rounds 579 to 582: a similar pair is very far apart")
MARKS = {**dict.fromkeys(("S1", "S5", "S7"), SWITCH), "breast-cancer/natural": FAR_PAIR}
PRIOR_STREAMS = [pytest.param(name, marks=MARKS.get(name, ())) for name in STREAMS]


@only_compiled
@pytest.mark.parametrize("name", PRIOR_STREAMS)
def test_the_regret_against_the_euclidean_prior_is_at_most_8_nats(name, played):
    """Measured, not proved. After a change, a confident prediction is wrong for a while, and the prior's is not."""
    _, regrets = played(name)
    assert worst_interval(regrets[:, 0]) <= 8.0


@only_compiled
@pytest.mark.parametrize(("name", "last"), [("S1", 1000), ("S5", 300), ("S7", 1000)])
def test_before_the_first_change_the_regret_against_the_prior_is_at_most_8_nats(name, last, played):
    _, regrets = played(name)
    assert worst_interval(regrets[:last, 0]) <= 8.0
