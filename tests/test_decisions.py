"""Decisions with a promised error: the bound on any stream, one definition and one kernel, and clear refusals."""

from __future__ import annotations

from math import inf, log1p, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocelad.adaptive import decisions as definition
from ocelad.adaptive.decisions import CHANGE_PROBABILITY, DECIDED, ERRORS, RISK, THRESHOLD, WRONG, DecisionThresholds
from ocelad.adaptive.kernels.decisions import update_decisions

log_odds = st.floats(-12.0, 12.0) | st.sampled_from([0.0, -0.0, 0.25, -0.25, 9.75, -10.0, 1e300, -inf, inf])


def compiled_update(decisions, prediction, y, weight=1.0):
    update_decisions(decisions.bins, decisions.levels, decisions.clock, prediction, y, weight)


def honest_stream(rng, rounds, scale=4.0, temperature=1.0):
    """Return log odds, and answers that agree with them as often as their probability says."""
    z = rng.normal(scale=scale, size=rounds)
    return z, np.where(rng.random(rounds) < 1.0 / (1.0 + np.exp(-temperature * z)), 1.0, -1.0)


def play(decisions, z, y, update=compiled_update):
    """Return whether each pair was decided, by level, before its answer was learned."""
    decided = []
    for prediction, answer in zip(z.tolist(), y.tolist(), strict=True):
        decided.append(abs(prediction) >= decisions.levels[THRESHOLD])
        update(decisions, prediction, answer)
    return np.array(decided)


def largest_excess(decisions, weight=1.0):
    """Return the largest number of wrong decisions above the bound, over all levels."""
    errors, rounds = decisions.levels[0], decisions.clock[0]
    bound = errors * decisions.levels[DECIDED] + 1.0 + 2.0 * np.log1p(errors * rounds) + max(0.0, weight - 1.0)
    return float(np.max(decisions.levels[WRONG] - bound))


class TestGuarantee:
    @given(st.lists(st.tuples(log_odds, st.booleans()), max_size=60))
    @settings(max_examples=60, deadline=None)
    def test_any_stream(self, rounds):
        decisions = DecisionThresholds()
        for prediction, same in rounds:
            decisions.update(prediction, 1.0 if same else -1.0)
            assert largest_excess(decisions) <= 1e-9

    @given(
        seed=st.integers(0, 2**32 - 1),
        level=st.integers(0, len(ERRORS) - 1),
        trust=st.integers(0, 1500),
        scale=st.floats(0.5, 12.0),
        lull=st.integers(1, 300),
    )
    @settings(max_examples=20, deadline=None)
    def test_an_adversary_that_knows_the_thresholds(self, seed, level, trust, scale, lull):
        """It earns trust first. Then it contradicts each decision at a level, and behaves well between attacks."""
        rng, decisions, attack = np.random.default_rng(seed), DecisionThresholds(), 0
        for t in range(2500):
            z = float(rng.normal(scale=scale))
            decided = abs(z) >= decisions.levels[THRESHOLD, level]
            hostile = t >= trust and decided and t >= attack
            if hostile and rng.random() < 0.3:
                attack = t + lull
            compiled_update(decisions, z, 1.0 if (z >= 0.0) != hostile else -1.0)
            if hostile:  # all other answers agree with the predictions
                assert largest_excess(decisions) <= 1e-9

    def test_attacks_reach_the_bound_and_do_not_pass_it(self):
        """Rare attacks leave the estimated risk low, so that only the bound stops the decisions."""
        decisions, spent, reached = DecisionThresholds(), 0, 0.0
        level = ERRORS.index(0.01)
        for t in range(20_000):
            decided = decisions.levels[THRESHOLD, level] < inf
            hostile = decided and t % 60 == 0
            compiled_update(decisions, -8.0 if hostile else 8.0, 1.0)
            wrong, n = decisions.levels[WRONG, level], decisions.levels[DECIDED, level]
            reached = max(reached, wrong - 0.01 * n)
            spent += not decided
            assert wrong <= 0.01 * n + 1.0 + 2.0 * log1p(0.01 * (t + 1))
        assert reached > 1.0
        assert spent > 1000

    def test_a_level_whose_next_mistake_could_break_the_bound_does_not_decide(self):
        decisions = DecisionThresholds()
        play(decisions, np.full(2000, 8.0), np.ones(2000))
        level = ERRORS.index(0.02)
        assert decisions.threshold(0.02) < inf
        decisions.levels[DECIDED, level] = 0.0
        room = 2.0 * log1p(0.02 * 2002.0) + 0.02  # after one more round, for the round after it
        for wrong, stops in ((room - 1e-6, False), (room + 1e-6, True)):
            decisions.levels[WRONG, level] = wrong
            other = DecisionThresholds.restore(decisions.arrays())
            other.update(0.0, 1.0)  # decided by no level
            assert (other.threshold(0.02) == inf) == stops

    @given(st.lists(st.tuples(log_odds, st.booleans(), st.floats(0.0, 5.0)), max_size=50))
    @settings(max_examples=40, deadline=None)
    def test_weights_above_one_raise_the_bound_by_the_largest_minus_one(self, rounds):
        decisions, largest = DecisionThresholds(), 0.0
        play(decisions, np.full(400, 9.0), np.ones(400))
        for prediction, same, weight in rounds:
            largest = max(largest, weight)
            decisions.update(prediction, 1.0 if same else -1.0, weight)
            assert largest_excess(decisions, largest) <= 1e-9


class TestThresholds:
    @given(st.lists(st.tuples(log_odds, st.booleans()), max_size=80), st.integers(0, 500))
    @settings(max_examples=60, deadline=None)
    def test_a_larger_error_never_has_a_larger_threshold(self, rounds, honest):
        decisions = DecisionThresholds()
        play(decisions, *honest_stream(np.random.default_rng(honest), honest))
        for prediction, same in rounds:
            compiled_update(decisions, prediction, 1.0 if same else -1.0)
            assert (decisions.levels[THRESHOLD, :-1] >= decisions.levels[THRESHOLD, 1:]).all()
        queries = [decisions.threshold(error) for error in np.geomspace(1e-4, 0.49, 200)]
        assert (np.diff([min(query, 1e9) for query in queries]) <= 0.0).all()

    def test_nothing_is_decided_before_answers_arrive_and_below_the_first_level(self):
        decisions = DecisionThresholds()
        assert decisions.decide([inf, -1e9, 0.0], 0.4).tolist() == [0, 0, 0]
        play(decisions, np.full(20_000, 8.0), np.ones(20_000))
        assert decisions.decide([8.0, 7.5, -8.0], 0.005).tolist() == [1, 0, -1]
        assert decisions.decide([inf, 1e9], 0.0009).tolist() == [0, 0]
        assert decisions.account(0.0009) == (0.0, 0.0)
        assert decisions.slack(0.0009) == 0.0

    def test_an_error_between_two_levels_uses_the_lower_one(self):
        decisions = DecisionThresholds()
        play(decisions, *honest_stream(np.random.default_rng(0), 3000))
        for error, level in ((0.03, 0.025), (0.06 / 3, 0.02), (0.0199, 0.016), (0.499, 0.4)):
            assert decisions.threshold(error) == decisions.threshold(level)
            assert decisions.account(error) == decisions.account(level)
        assert len(set(decisions.levels[THRESHOLD].tolist())) > 5

    def test_decisions_on_new_pairs_are_those_that_the_account_counts(self):
        rng, decisions = np.random.default_rng(1), DecisionThresholds()
        for z, y in zip(*honest_stream(rng, 1500), strict=True):
            decision = decisions.decide([z], 0.05)[0]
            before = decisions.account(0.05)
            decisions.update(z, y)
            after = decisions.account(0.05)
            assert after[0] - before[0] == abs(decision)
            assert after[1] - before[1] == (decision == -y)
        assert after[0] > 300

    def test_both_sides_are_treated_alike(self):
        one, other = DecisionThresholds(), DecisionThresholds()
        z, y = honest_stream(np.random.default_rng(2), 800)
        play(one, z, y)
        play(other, -z, -y)
        np.testing.assert_array_equal(one.levels, other.levels)

    def test_the_risk_of_a_confidence_needs_answers(self):
        """Right answers at a low confidence lower the risk there and above, and not below."""
        decisions = DecisionThresholds()
        play(decisions, np.full(600, 3.1), np.ones(600))
        risks = decisions.bins[RISK]
        assert (risks[:12] == 0.5).all()
        assert (risks[12:] < 0.03).all()


class TestStreams:
    @pytest.mark.parametrize("temperature", [0.6, 1.0, 3.0])
    def test_the_promise_holds_and_many_pairs_are_decided_whether_or_not_the_odds_are_calibrated(self, temperature):
        streams = [honest_stream(np.random.default_rng(seed), 4000, temperature=temperature) for seed in range(6)]
        decided = np.array([play(DecisionThresholds(), z, y) for z, y in streams])
        wrong = np.array([(z >= 0.0) != (y > 0.0) for z, y in streams])
        for error in (0.01, 0.05):
            chosen = decided[:, :, ERRORS.index(error)]
            realised = np.mean((chosen & wrong).sum(axis=1) / np.maximum(chosen.sum(axis=1), 1))
            assert realised <= error
            best = []
            for (z, _), mistakes in zip(streams, wrong, strict=True):
                rates = np.cumsum(mistakes[np.argsort(-np.abs(z))]) / np.arange(1, len(z) + 1)
                best.append(np.flatnonzero(rates <= realised).max(initial=-1) + 1)
            if temperature >= 1.0 or error == 0.05:  # overconfident odds: 1 % needs more answers than these
                assert chosen.mean() >= np.mean(best) / 4000 - 0.1

    def test_useless_predictions_stop_the_decisions_within_some_mistakes_and_good_ones_resume_them(self):
        rng, decisions = np.random.default_rng(3), DecisionThresholds()
        play(decisions, *honest_stream(rng, 2000))
        level = ERRORS.index(0.02)
        assert decisions.levels[THRESHOLD, level] < inf
        wrong = decisions.levels[WRONG, level]
        play(decisions, rng.normal(scale=4.0, size=200), rng.choice([-1.0, 1.0], size=200))
        assert decisions.clock[CHANGE_PROBABILITY] > 0.5
        assert decisions.levels[THRESHOLD, level] == inf
        assert decisions.levels[WRONG, level] - wrong <= 4.0
        decided = play(decisions, *honest_stream(rng, 2000))[:, level]
        assert decided[-500:].mean() > 0.2

    def test_predictions_that_are_often_wrong_at_any_confidence_are_hardly_decided(self):
        z, y = honest_stream(np.random.default_rng(4), 3000)
        y = np.where(np.random.default_rng(5).random(3000) < 0.1, -y, y)
        decided = play(DecisionThresholds(), z, y)
        assert decided[:, ERRORS.index(0.01)].mean() < 0.01
        assert decided[:, ERRORS.index(0.2)].mean() > 0.4


class TestKernel:
    @given(
        seed=st.integers(0, 2**32 - 1),
        scale=st.floats(0.1, 8.0),
        noise=st.floats(0.0, 0.5),
        weighted=st.booleans(),
    )
    @settings(max_examples=15, deadline=None)
    def test_it_agrees_with_the_definition(self, seed, scale, noise, weighted):
        rng = np.random.default_rng(seed)
        z, y = honest_stream(rng, 300, scale)
        y = np.where(rng.random(300) < noise * (np.arange(300) > 200), -y, y)
        weights = rng.uniform(0.0, 2.0, size=300) if weighted else np.ones(300)
        slow, fast = DecisionThresholds(), DecisionThresholds()
        for row in zip(z.tolist(), y.tolist(), weights.tolist(), strict=True):
            slow.update(*row)
            compiled_update(fast, *row)
        for name, array in slow.arrays().items():
            np.testing.assert_allclose(fast.arrays()[name], array, rtol=1e-12, atol=1e-12)

    def test_it_agrees_with_the_definition_on_a_long_stream_with_a_change(self):
        rng, slow, fast = np.random.default_rng(6), DecisionThresholds(), DecisionThresholds()
        z, y = honest_stream(rng, 3000, 5.0)
        y[1500:1600] = rng.choice([-1.0, 1.0], size=100)
        a = play(slow, z, y, DecisionThresholds.update)
        b = play(fast, z, y)
        np.testing.assert_array_equal(a, b)
        assert a.any(axis=0)[ERRORS.index(0.01) :].all()
        for name, array in slow.arrays().items():
            np.testing.assert_allclose(fast.arrays()[name], array, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("prediction", [inf, -inf, 1e300, 0.0, -0.0])
    def test_extreme_log_odds(self, prediction):
        slow, fast = DecisionThresholds(), DecisionThresholds()
        for y in (1.0, -1.0, 1.0):
            slow.update(prediction, y)
            compiled_update(fast, prediction, y)
        for name, array in slow.arrays().items():
            np.testing.assert_allclose(fast.arrays()[name], array, rtol=1e-12)


class TestRefusals:
    @pytest.mark.parametrize("error", [0.0, -0.1, 0.5, 1.0, nan, inf, "0.1", None, True])
    def test_errors_that_are_not_between_0_and_a_half(self, error):
        decisions = DecisionThresholds()
        for call in (decisions.threshold, decisions.account, decisions.slack, lambda e: decisions.decide([1.0], e)):
            with pytest.raises(ValueError, match=r"^error must be a number above 0 and below 0\.5; got "):
                call(error)

    def test_log_odds_that_are_nan_or_of_another_shape(self):
        decisions = DecisionThresholds()
        with pytest.raises(ValueError, match=r"^log_odds holds nan at position 1; only numbers are accepted$"):
            decisions.decide([0.0, nan], 0.1)
        with pytest.raises(ValueError, match=r"^log_odds has shape \(1, 1\); accepted: one number for each pair"):
            decisions.decide([[0.0]], 0.1)
        with pytest.raises(ValueError, match=r"^log_odds holds nan; only numbers are accepted$"):
            decisions.update(nan, 1.0)
        with pytest.raises(ValueError, match=r"^log_odds has shape \(1,\); accepted: one number$"):
            decisions.update([1.0], 1.0)

    @pytest.mark.parametrize(("y", "weight"), [(0.5, 1.0), (nan, 1.0), (2.0, 1.0), (1.0, -1.0), (1.0, nan), (1.0, inf)])
    def test_a_refused_answer_changes_nothing(self, y, weight):
        decisions = DecisionThresholds()
        before = decisions.arrays()
        with pytest.raises(ValueError, match=r"^(y is|weight must be)"):
            decisions.update(1.0, y, weight)
        for name, array in decisions.arrays().items():
            np.testing.assert_array_equal(array, before[name])


class TestState:
    def test_it_is_small_and_restored_thresholds_continue_with_the_same_bits(self):
        z, y = honest_stream(np.random.default_rng(7), 1200)
        whole, part = DecisionThresholds(), DecisionThresholds()
        play(whole, z, y)
        play(part, z[:700], y[:700])
        arrays = part.arrays()
        assert sum(array.nbytes for array in arrays.values()) < 4096
        assert {array.dtype for array in arrays.values()} == {np.dtype(np.float64)}
        restored = DecisionThresholds.restore(arrays)
        play(restored, z[700:], y[700:])
        for name, array in whole.arrays().items():
            np.testing.assert_array_equal(restored.arrays()[name], array)
        np.testing.assert_array_equal(arrays["levels"], part.levels)  # restoring made copies

    def test_damaged_states_are_refused(self):
        arrays = DecisionThresholds().arrays()
        with pytest.raises(ValueError, match=r"needs 'clock', float64 numbers of shape \(2,\)"):
            DecisionThresholds.restore({name: arrays[name] for name in ("bins", "levels")})
        with pytest.raises(ValueError, match=r"needs 'bins', float64 numbers of shape \(4, 40\)"):
            DecisionThresholds.restore({**arrays, "bins": arrays["bins"][:, :10]})
        with pytest.raises(ValueError, match="other error levels"):
            DecisionThresholds.restore({**arrays, "levels": 2.0 * arrays["levels"]})
        with pytest.raises(ValueError, match="holds nan"):
            DecisionThresholds.restore({**arrays, "clock": np.array([nan, 0.5])})

    def test_the_levels_are_ascending_and_contain_the_usual_promises(self):
        assert (np.diff(ERRORS) > 0.0).all()
        assert {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2} <= set(ERRORS)
        assert definition.N_BINS * definition.BIN_WIDTH == 10.0
