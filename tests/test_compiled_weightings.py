"""The compiled weightings: a replay gives the same bits as steps, with every start and engine."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from engine_cases import COMPILED, as_batch, assert_same_bits, difficult_events, difficult_relatives

from ocelad import Events, LearnerBank, Ocelad, Rice
from ocelad.engines.build import build_bank
from ocelad.engines.kernels import baseline_updates
from ocelad.ensemble import weight_updates
from ocelad.ensemble.bank import LearnerError
from ocelad.ensemble.sampling import BLOCK, sample_learner, uniforms
from ocelad.ensemble.schedule import Schedule
from ocelad.ensemble.weight_updates import CBCE, DISCOUNTED, RESCALED, SAOL
from ocelad.ensemble.weighting import CompiledWeighting, DiscountedHedge, RescaledRegret
from ocelad.lab.baselines.cbce import Cbce
from ocelad.lab.baselines.saol import Saol

N = 3
ROUNDS = 150 if COMPILED else 20
WEIGHTINGS = {"rescaled": RescaledRegret(), "saol": Saol(0.7), "cbce": Cbce(2.0)}


def ensemble(
    weighting, *, engine="fullrank", shortest=1, seed=None, loss="hinge", starts="below", events="pairs", **more
):
    schedule = Schedule(shortest, 6)
    rice = Rice(engine=engine, step_size=0.2, loss=loss, **more)
    bank, settings = build_bank(N, rice, schedule, starts=starts, events=events)
    return Ocelad(bank, schedule=schedule, weighting=weighting, seed=seed, settings=settings)


def assert_replay_equals_steps(events, make):
    whole, parts, steps = make(), make(), make()
    margins = whole.replay(as_batch(events))
    in_parts = np.concatenate([parts.replay(as_batch(events[i : i + 37])) for i in range(0, len(events), 37)])
    expected = []
    for event in events:
        expected.append(steps.play().margin(event))
        steps.step(event)
    assert (in_parts == margins).all()
    np.testing.assert_allclose(margins, expected, rtol=1e-9, atol=1e-12)
    for other in (parts, steps):
        assert_same_bits(whole, other)
        assert np.array_equal(whole.round_state.records, other.round_state.records)


@pytest.mark.parametrize("seed", [None, 11])
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_fullrank_with_every_start(weighting, seed):
    for starts, finest in product(("below", "ensemble", "scratch"), ("carry", "ensemble", "reset")):
        more = {"starts": starts, "finest": finest, "seed": seed, "shortest": 1 if finest == "carry" else 3}
        events = difficult_events(len(starts), N, ROUNDS)
        assert_replay_equals_steps(events, lambda: ensemble(WEIGHTINGS[weighting], **more))  # noqa: B023


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("weighting", ["saol", "cbce"])
@pytest.mark.parametrize("more", [{"engine": "lowrank", "shrinkage": 0.01}, {"engine": "auto", "diagonal": True}])
def test_other_engines(weighting, seed, more):
    events = difficult_events(4, N, ROUNDS)
    assert_replay_equals_steps(events, lambda: ensemble(WEIGHTINGS[weighting], seed=seed, **more))


@pytest.mark.parametrize("weighting", ["saol", "cbce"])
def test_blocked_and_lowrank_agree_up_to_rounding(weighting):
    events = difficult_events(5, N, ROUNDS)
    blocked, low = (ensemble(WEIGHTINGS[weighting], engine=engine, seed=2) for engine in ("blocked", "lowrank"))
    np.testing.assert_allclose(blocked.replay(as_batch(events)), low.replay(as_batch(events)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(blocked.round_state.weights, low.round_state.weights, rtol=1e-9)


@pytest.mark.parametrize("weighting", ["saol", "cbce"])
def test_relative_comparisons(weighting):
    more = {"starts": "ensemble", "finest": "ensemble", "events": "relatives"}
    assert_replay_equals_steps(difficult_relatives(6, N, ROUNDS), lambda: ensemble(WEIGHTINGS[weighting], **more))


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_a_replay_stops_at_a_rejected_event(weighting):
    good = as_batch(difficult_events(7, N, 20))
    U, y, more = np.array(good.U), np.array(good.y), {"starts": "scratch", "finest": "reset", "seed": 1}
    U[13], y[13] = 1e149, 1.0
    replayed, stepped = (ensemble(WEIGHTINGS[weighting], loss="squared_hinge", **more) for _ in range(2))
    with pytest.raises(LearnerError, match="in round 14 the learner of scale 0"):
        replayed.replay(Events(U, y))
    stepped.replay(good[:13])
    assert_same_bits(replayed, stepped)
    replayed.replay(good[13:])
    stepped.replay(good[13:])
    assert_same_bits(replayed, stepped)


def test_a_subclass_of_a_compiled_weighting_is_not_replayed_as_its_base():
    class Inverse(Saol):
        def learn(self, records, info, rates):
            return 1.0 / super().learn(records, info, rates)

    events = difficult_events(8, N, 40)
    assert_replay_equals_steps(events, lambda: ensemble(Inverse()))
    one, other = ensemble(Inverse()), ensemble(Saol())
    one.replay(as_batch(events))
    other.replay(as_batch(events))
    assert not np.array_equal(one.round_state.weights, other.round_state.weights)


class KeepsWeights:
    """A weighting with the methods of ``Weighting`` only."""

    @property
    def settings(self):
        return {"name": "constant"}

    def begin(self, scale, t):
        return (1.0,)

    def learn(self, records, info, rates):
        return records.copy()

    def weights(self, records):
        return records[0]


def test_a_weighting_without_a_compiled_form():
    assert_replay_equals_steps(difficult_events(9, N, 40), lambda: ensemble(KeepsWeights()))


def test_a_weighting_that_the_kernels_of_the_bank_do_not_implement():
    assert_replay_equals_steps(difficult_events(9, N, 40), lambda: ensemble(DiscountedHedge()))


@pytest.mark.parametrize("weighting", [RescaledRegret(), Saol(0.7), Cbce(2.0), DiscountedHedge()])
def test_compiled_weightings_and_their_subclasses(weighting):
    assert isinstance(weighting, CompiledWeighting)
    assert weighting.kernel_weighting is not None
    subclass = type("Subclass", (type(weighting),), {})()
    assert isinstance(subclass, CompiledWeighting)
    assert subclass.kernel_weighting is None


def test_the_parameters_of_compiled_weightings():
    assert RescaledRegret().kernel_weighting == (RESCALED, 1.0, math.inf)
    assert Saol(0.7).kernel_weighting == (SAOL, 0.7, math.inf)
    assert Cbce(2.0).kernel_weighting == (CBCE, 2.0, math.inf)
    assert DiscountedHedge().kernel_weighting == (DISCOUNTED, 1.0, 64.0)


def test_replay_with_a_learner_bank():
    class Mean:
        def __init__(self, scale, start):
            self.value, self.step = 0.0 if start is None else start, scale.rate

        def play(self):
            return self.value

        def loss(self, event):
            return abs(self.value - event)

        def update(self, event):
            self.value += self.step * (event - self.value)

    for weighting in WEIGHTINGS.values():
        replayed, stepped = (
            Ocelad(LearnerBank(Mean), weighting=weighting),
            Ocelad(LearnerBank(Mean), weighting=weighting),
        )
        replayed.replay([0.3, 0.7, 0.1] * 5)
        for event in [0.3, 0.7, 0.1] * 5:
            stepped.step(event)
        assert replayed.play() == stepped.play()


@pytest.mark.parametrize(("first", "count"), [(1, 1), (BLOCK - 3, 7), (BLOCK, BLOCK), (2 * BLOCK - 1, 2 * BLOCK + 2)])
def test_uniforms_are_those_of_the_rounds(first, count):
    numbers, weights = uniforms(9, first, count), np.array([0.2, 0.5, 0.3])
    assert len(numbers) == count
    cumulative = np.cumsum(weights)
    expected = np.searchsorted(cumulative, numbers, side="right")
    assert expected.tolist() == [sample_learner(weights, 9, first + i) for i in range(count)]


def test_the_updates_of_the_baselines_agree_with_their_formulas():
    rng, n = np.random.default_rng(0), 5
    losses = rng.normal(size=n + 1) * 3.0
    clipped = losses.copy()
    baseline_updates.clip_losses(clipped, 2.0, n)
    np.testing.assert_allclose(clipped[:n], np.clip(losses[:n] / 2.0, 0.0, 1.0))
    assert clipped[n] == losses[n]
    weights, rates = rng.random(n + 1), rng.random(n + 1)
    updated = weights.copy()
    baseline_updates.saol_update(updated, rates, clipped, 0.4, n)
    np.testing.assert_allclose(updated[:n], weights[:n] * (1.0 + rates[:n] * (0.4 - clipped[:n])))
    assert updated[n] == weights[n]
    # CBCE: g and the stake w of each round give the sum of g, the wealth and the next stake; a bettor without wealth
    # on its side does not lose.
    records = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [0.5, 0.25], [0.0, 0.0]])
    gains, wealth, stake = 0.0, 1.0, 0.0
    for t, g in enumerate([0.5, -0.25, 0.125, -0.5, -0.5, 0.25], 1):
        baseline_updates.cbce_update(records, np.array([0.0, 9.0]), g, 1)
        g = g if g > 0 or stake > 0 else 0.0
        gains, wealth = gains + g, wealth + g * stake
        stake = gains / (t + 1) * wealth
        assert records[:, 0] == pytest.approx([gains, wealth, t, 0.5, stake])
        cbce = np.ones(2)
        baseline_updates.cbce_weights(records, cbce, 1)
        assert cbce == pytest.approx([0.5 * stake if stake > 0 else 0.5, 1.0])
    assert records[:, 1].tolist() == [0.0, 1.0, 0.0, 0.25, 0.0]
    for t in (1, 2, 3, 4, 7, 8, 1000):
        assert baseline_updates.cbce_prior(t) == pytest.approx(1.0 / (t**2 * (1 + math.floor(math.log2(t)))))


def test_the_rescaled_regret_agrees_with_its_formula():
    rng, n = np.random.default_rng(1), 4
    for size in (1e-3, 1.0, 1e3, 1e300):
        weights, rates, losses = rng.random(n + 1) * 3.0, rng.random(n + 1), rng.random(n + 1) * size
        updated = weights.copy()
        weight_updates.rescaled_regret_update(updated, rates, losses, n)
        regrets = np.average(losses[:n] / size, weights=weights[:n]) - losses[:n] / size
        expected = weights[:n] * (1.0 + rates[:n] * regrets / np.abs(regrets).max())
        np.testing.assert_allclose(updated[:n], np.maximum(expected, weight_updates.MIN_WEIGHT))
        assert updated[n] == weights[n]
    weights = rng.random(n)
    updated = weights.copy()
    weight_updates.rescaled_regret_update(updated, rng.random(n), 5.0 + 1e-13 * rng.random(n), n)
    assert (updated == weights).all()  # the losses differ by rounding


def test_a_sampled_index_is_that_of_the_cumulated_weights():
    rng = np.random.default_rng(2)
    for n in (1, 2, 5):
        weights = rng.random(n + 1) * (rng.random(n + 1) < 0.7)
        weights[n - 1] += 0.5
        edges = np.cumsum(weights[:n]) / weights[:n].sum()
        for uniform in rng.random(200):
            found = weight_updates.sample_index(weights, n, uniform)
            assert found == int(np.searchsorted(edges, uniform, side="right"))
    # An index of weight zero is never returned, even if rounding leaves the sum of the probabilities below 1.
    assert weight_updates.sample_index(np.array([0.0, 0.1, 0.2, 0.3, 0.0]), 5, np.nextafter(1.0, 0.0)) == 3
    values = rng.random(4)
    assert weight_updates.ensemble_value(weights, values, 3, weight_updates.NONE_DRAWN) == pytest.approx(
        np.average(values[:3], weights=weights[:3])
    )
    assert weight_updates.ensemble_value(weights, values, 3, 1) == values[1]


def test_discounted_weights_are_exponentials_of_discounted_losses():
    rng, n, horizon = np.random.default_rng(3), 3, 5.0
    records, sums = np.zeros((2, n + 1)), np.zeros(n)
    for _ in range(20):
        losses = rng.random(n)
        weight_updates.discounted_update(records, losses, n, horizon)
        sums = (1.0 - 1.0 / horizon) * sums + losses
        expected = np.exp(sums.min() - sums)
        np.testing.assert_allclose(records[weight_updates.WEIGHT, :n], expected)
        np.testing.assert_allclose(records[weight_updates.LOG_WEIGHT, :n], np.log(expected), atol=1e-12)
        assert (records[:, n] == 0.0).all()
    weight_updates.discounted_update(records, np.array([1e6, 0.0, 1e300]), n, horizon)
    assert records[weight_updates.LOG_WEIGHT, [0, 2]].tolist() == [weight_updates.MIN_LOG_WEIGHT] * 2


@pytest.mark.parametrize("more", [{"engine": "fullrank"}, {"engine": "lowrank", "shrinkage": 0.01}, {"diagonal": True}])
def test_every_start_agrees_with_learners_in_plain_numpy(more):
    events = difficult_events(7, N, 24)
    for starts, finest in product(("below", "ensemble", "scratch"), ("carry", "ensemble", "reset")):
        options = {"starts": starts, "finest": finest, "shortest": 1 if finest == "carry" else 3, **more}
        compiled = ensemble(RescaledRegret(), **{"engine": "auto", **options})
        plain = ensemble(RescaledRegret(), **{**options, "engine": "dense"})
        for event in events:
            compiled.step(event)
            plain.step(event)
            np.testing.assert_allclose(compiled.play().matrix, plain.play().matrix, rtol=1e-7, atol=1e-9)
            assert compiled.play().threshold == pytest.approx(plain.play().threshold, rel=1e-9)
            np.testing.assert_allclose(compiled.round_state.weights, plain.round_state.weights, rtol=1e-7)
