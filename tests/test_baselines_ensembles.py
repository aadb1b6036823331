"""SAOL, CBCE, Hedge and Ader: weights by hand and by brute force, starts and draws, with every engine."""

from __future__ import annotations

import math
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ocelad import LearnerBank, Ocelad, Rice, track_metric
from ocelad.engines.build import build_bank
from ocelad.engines.grow import add_features
from ocelad.engines.kernels.baseline_updates import PRIOR, WEALTH
from ocelad.ensemble.sampling import sample_learner
from ocelad.ensemble.schedule import Expert, FixedExperts, Scale, Schedule
from ocelad.lab.baselines.ader import Ader, ader, step_sizes
from ocelad.lab.baselines.cbce import Cbce, cbce
from ocelad.lab.baselines.hedge import Hedge, hedge
from ocelad.lab.baselines.saol import Saol, saol
from ocelad.learners.comid import Comid
from ocelad.pairs import Event, Events
from ocelad.testing import check_bank

ENSEMBLES = {
    "saol": lambda n, **more: saol(n, step_size=0.1, **more),
    "saol, averaged": lambda n, **more: saol(n, step_size=0.1, seed=None, **more),
    "cbce": lambda n, **more: cbce(n, step_size=0.1, **more),
    "cbce, drawn": lambda n, **more: cbce(n, step_size=0.1, seed=3, **more),
    "hedge": lambda n, **more: hedge(n, step_sizes=[0.01, 0.03, 0.1], rate=0.5, **more),
    "ader": lambda n, **more: ader(n, horizon=60, **more),
}


class ScriptedBank:
    """A bank whose losses are the event, and whose plays are the indices of its learners."""

    def start(self, round_state):
        return self

    def observe(self, event, round_state):
        return np.asarray(event, dtype=float)[: round_state.n_active], self

    def mix(self, round_state):
        return round_state.probabilities

    def pick(self, j, round_state):
        return j


def events_of(seed, n, rounds):
    rng = np.random.default_rng(seed)
    U = rng.normal(size=(rounds, n)) * rng.uniform(0.3, 1.5, size=(rounds, 1))
    return Events(U, np.where(np.abs(U[:, 0]) < 0.6, 1.0, -1.0))


def play_all(ocelad, losses):
    """Return the probabilities of each round, and those after the last."""
    seen = []
    for row in losses:
        seen.append(ocelad.round_state.probabilities)
        ocelad.step(row)
    return [*seen, ocelad.round_state.probabilities]


# ---------------------------------------------------------------------------
# By hand
# ---------------------------------------------------------------------------


def test_saol_by_hand():
    ocelad = Ocelad(ScriptedBank(), weighting=Saol())
    # Round 1: the interval [1, 1], weight min(1/2, 1/sqrt 1). One learner has no regret.
    assert ocelad.round_state.weights.tolist() == [0.5]
    ocelad.step([1.0])
    # Round 2: [2, 2] and [2, 3] begin with 1/2 each. The mean of 0.8 and 0.2 is 0.5, regrets -0.3 and 0.3,
    # weights 0.5 (1 - 0.5 * 0.3) and 0.5 (1 + 0.5 * 0.3).
    assert ocelad.round_state.weights.tolist() == [0.5, 0.5]
    ocelad.step([0.8, 0.2])
    np.testing.assert_allclose(ocelad.round_state.previous_weights, [0.425, 0.575], rtol=1e-15)
    # Round 3: [3, 3] begins. 3 is clipped to 1. The mean is 0.5 / 1.075 = 20/43, regrets -23/43 and 20/43.
    np.testing.assert_allclose(ocelad.round_state.weights, [0.5, 0.575], rtol=1e-15)
    ocelad.step([3.0, -1.0])
    expected = [0.5 * (1 - 11.5 / 43), 0.575 * (1 + 10 / 43)]
    np.testing.assert_allclose(ocelad.round_state.previous_weights, expected, rtol=1e-15)
    # Round 4: [4, 4], [4, 5] and [4, 7] begin, the last with min(1/2, 1/sqrt 4).
    assert ocelad.round_state.weights.tolist() == [0.5, 0.5, 0.5]


def test_cbce_by_hand():
    ocelad = Ocelad(ScriptedBank(), weighting=Cbce())
    # Round 1: no stake yet, so the prior decides: 1 / (1^2 (1 + 0)).
    assert ocelad.round_state.weights.tolist() == [1.0]
    ocelad.step([1.0])
    # Round 2: [2, 2] and [2, 3], prior 1 / (2^2 (1 + 1)) each. The mean loss is 0.5; g is -0.3, of which only the
    # positive part counts where there is no stake, and 0.3. So w = 0.3 / 2 * (1 + 0.3 * 0) for [2, 3].
    assert ocelad.round_state.weights.tolist() == [1 / 8, 1 / 8]
    ocelad.step([0.8, 0.2])
    np.testing.assert_allclose(ocelad.round_state.previous_weights, [0.0, 0.15 / 8], rtol=1e-15)
    # Round 3: [3, 3] has no stake, and [2, 3] has the loss of the ensemble, g = 0; its w becomes 0.3 / 3. The first
    # one gains 1: w = 1 / 2, with the prior 1 / (3^2 (1 + 1)).
    np.testing.assert_allclose(ocelad.round_state.probabilities, [0.0, 1.0], rtol=1e-15)
    ocelad.step([0.0, 1.0])
    np.testing.assert_allclose(ocelad.round_state.previous_weights, [0.5 / 18, 0.1 / 8], rtol=1e-15)
    # Round 4: [4, 4], [4, 5], [4, 7], prior 1 / (4^2 (1 + 2)).
    np.testing.assert_allclose(ocelad.round_state.weights, [1 / 48] * 3, rtol=1e-15)


# ---------------------------------------------------------------------------
# By brute force: one object per interval, and the papers' sums recomputed in every round
# ---------------------------------------------------------------------------


class Interval:
    def __init__(self, level, length, first):
        self.level, self.length, self.first = level, length, first
        self.seen = []  # (g, w), for CBCE
        self.w = min(0.5, 1.0 / math.sqrt(length))  # for SAOL

    def stake(self):
        total = sum(g for g, _ in self.seen)
        return total / (len(self.seen) + 1) * (1.0 + sum(g * w for g, w in self.seen))

    def prior(self):
        return 1.0 / (self.first**2 * (1 + math.floor(math.log2(self.first))))


def brute_force(method, losses, shortest, largest=1.0, drawn=None):
    """Return the probabilities of every round by the definition."""
    current, answers = {}, []
    for t in range(1, len(losses) + 2):
        for level in range(40):
            length = shortest * 2**level
            if length > t and level > 0:
                break
            if t % length == 0 or (t == 1 and level == 0):
                current[level] = Interval(level, length, t)
        active = [current[level] for level in sorted(current)]
        if method == "saol":
            weights = [i.w for i in active]
        else:
            weights = [i.prior() * max(i.stake(), 0.0) for i in active]
            if sum(weights) == 0.0:
                weights = [i.prior() for i in active]
        p = [w / sum(weights) for w in weights]
        answers.append(p)
        if t > len(losses):
            return answers
        lost = [min(max(loss / largest, 0.0), 1.0) for loss in losses[t - 1][: len(active)]]
        if drawn is None:
            meta = sum(a * b for a, b in zip(p, lost, strict=True))
        else:
            meta = lost[sample_learner(np.array(p), drawn, t)]
        for i, own in zip(active, lost, strict=True):
            if method == "saol":
                i.w *= 1.0 + min(0.5, 1.0 / math.sqrt(i.length)) * (meta - own)
            else:
                w = i.stake()
                i.seen.append((meta - own if w > 0 else max(meta - own, 0.0), w))
    return None


@pytest.mark.parametrize("method", ["saol", "cbce"])
@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    shortest=st.sampled_from([1, 2, 3, 5, 8]),
    largest=st.sampled_from([1.0, 2.5]),
    drawn=st.sampled_from([None, None, 7]),
)
def test_weights_are_those_of_the_definition(method, seed, shortest, largest, drawn):
    rng = np.random.default_rng(seed)
    losses = rng.uniform(-0.2, 1.2, size=(50, 8)) * largest
    losses[:, int(rng.integers(4))] *= 0.3  # one scale is better, so stakes and wealth grow
    weighting = {"saol": Saol, "cbce": Cbce}[method](largest_loss=largest)
    ocelad = Ocelad(ScriptedBank(), shortest_interval=shortest, weighting=weighting, seed=drawn)
    expected = brute_force(method, losses, shortest, largest, drawn)
    for got, wanted in zip(play_all(ocelad, losses), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-15)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 9), rate=st.floats(0.01, 3.0), dear=st.booleans())
def test_hedge_and_ader_are_exponential_weights(seed, n, rate, dear):
    losses = np.random.default_rng(seed).exponential(size=(30, n)) * (1000.0 if dear else 1.0)
    T, c = 123, 2.0
    for weighting, eta, prior in (
        (Hedge(rate), rate, lambda i: 1.0 / n),
        (Ader(T, c), math.sqrt(8.0 / (T * c**2)), lambda i: (1 + 1 / n) / (i * (i + 1))),
    ):
        ocelad = Ocelad(ScriptedBank(), schedule=FixedExperts([1.0] * n), weighting=weighting)
        seen, lost = play_all(ocelad, losses), np.zeros(n)
        priors = np.array([prior(i) for i in range(1, n + 1)])
        assert priors.sum() == pytest.approx(1.0)  # as in the papers
        for t, got in enumerate(seen):
            scores = np.log(priors) - eta * lost
            wanted = np.exp(scores - np.logaddexp.reduce(scores))
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-300)
            lost = lost + losses[t] if t < len(losses) else lost


def test_ader_accepts_one_round_and_one_feature():
    tracker = ader(1, horizon=1)
    assert tracker.round_state.n_active == len(step_sizes(1, 1.0, 1.0)) == 2


def test_the_step_sizes_of_ader():
    # T = 7: N = ceil(log2(5) / 2) + 1 = 3, and sqrt(7 / 14) = sqrt(1/2).
    np.testing.assert_allclose(step_sizes(7, 2.0, 4.0), np.array([1, 2, 4]) * 0.5 * math.sqrt(0.5), rtol=1e-15)
    # They cover the range of the theorem: D/G sqrt(7/(2T)) to D/G sqrt(7/(2T) + 2).
    for T in (1, 10, 1000, 10**6):
        steps = step_sizes(T, 1.0, 1.0)
        assert steps[0] == pytest.approx(math.sqrt(3.5 / T))
        assert steps[-1] >= math.sqrt(3.5 / T + 2.0) * (1 - 1e-12) > steps[-1] / 4


# ---------------------------------------------------------------------------
# Guarantees of the papers
# ---------------------------------------------------------------------------


def changing_losses(seed, rounds, scales):
    """Draw losses in {0, 1} whose best scale changes every 32 rounds."""
    rng = np.random.default_rng(seed)
    best = np.repeat(rng.integers(scales, size=rounds // 32 + 1), 32)[:rounds]
    losses = (rng.random((rounds, scales)) < 0.6).astype(float)
    losses[np.arange(rounds), best] = rng.random(rounds) < 0.1
    return losses


@pytest.mark.parametrize("seed", range(4))
def test_cbce_has_positive_wealth_and_satisfies_its_regret_bound(seed):
    rounds = 512
    losses = changing_losses(seed, rounds, 10)
    ocelad = Ocelad(ScriptedBank(), weighting=Cbce())
    regret, total_prior = {}, math.pi**2 / 6  # the priors of all intervals sum to at most this
    for t in range(1, rounds + 1):
        for scale in ocelad.round_state.starting:
            regret[scale.index] = (t, 0.0)
        passed = ocelad.step(losses[t - 1])
        wealth, prior = ocelad.round_state.records[WEALTH], ocelad.round_state.records[PRIOR]
        assert (wealth > 0.0).all()
        assert (prior * wealth).max() <= total_prior * (1 + 1e-9)
        for j in range(len(passed.losses)):
            first, so_far = regret[j]
            so_far += passed.loss - passed.losses[j]
            regret[j] = first, so_far
            age = t - first + 1
            assert so_far <= math.sqrt(age * (7 * math.log(t) + 5))


def test_cbce_and_saol_prefer_the_better_scale():
    losses = np.tile([0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.1, 0.9], (127, 1))
    for weighting in (Saol(), Cbce()):
        ocelad = Ocelad(ScriptedBank(), weighting=weighting)
        probabilities = play_all(ocelad, losses)
        # Scale 6 starts at round 64; the other scales are equally bad.
        assert (
            probabilities[-2][6] > 0.9 if isinstance(weighting, Cbce) else probabilities[-2][6] > probabilities[-2][5]
        )


# ---------------------------------------------------------------------------
# Draws
# ---------------------------------------------------------------------------


def test_draws_follow_the_probabilities_and_are_repeatable():
    p = np.array([0.1, 0.0, 0.6, 0.3, 0.0])
    draws = np.array([sample_learner(p, 5, t) for t in range(1, 20001)])
    counts = np.bincount(draws, minlength=5)
    assert counts[1] == counts[4] == 0
    np.testing.assert_allclose(counts / 20000, p, atol=4 * 0.5 / math.sqrt(20000))
    assert draws.tolist() == [sample_learner(p, 5, t) for t in range(1, 20001)]
    assert draws.tolist() != [sample_learner(p, 6, t) for t in range(1, 20001)]
    assert draws[:1000].tolist() != draws[1024:2024].tolist()  # random numbers are drawn for 1024 rounds at a time
    # Consecutive draws are independent.
    same = np.mean(draws[1:] == draws[:-1])
    assert abs(same - (p**2).sum()) < 0.02


def test_a_draw_works_if_the_probabilities_sum_to_less_than_one():
    assert sample_learner(np.array([0.0, 1e-300, 0.0]), 0, 1) == 1


def test_the_play_is_that_of_the_drawn_learner_and_has_no_side_effects():
    ocelad = Ocelad(ScriptedBank(), weighting=Saol(), seed=1)
    for t in range(100):
        j = ocelad.play()
        assert ocelad.play() == j
        losses = np.arange(8.0) / 10 + t / 1000
        passed = ocelad.step(losses)
        assert passed.drawn == j
        assert passed.loss == passed.losses[j]


def test_draws_need_no_average():
    class Word:
        def __init__(self, scale, start):
            self.word = "a" * (scale.index + 1)

        def play(self):
            return {"word": self.word}

        def loss(self, event):
            return 0.5

        def update(self, event):
            pass

    bank = LearnerBank(Word, starts="scratch", finest="reset")
    assert Ocelad(bank, weighting=Saol(), seed=0).play() == {"word": "a"}
    with pytest.raises(TypeError, match="could not be averaged"):
        Ocelad(bank, weighting=Saol())


# ---------------------------------------------------------------------------
# Starts
# ---------------------------------------------------------------------------


class Tally:
    """A learner that adds up its events, and remembers its start."""

    def __init__(self, scale, start):
        self.start, self.value = start, 0.0 if start is None else start

    def play(self):
        return self.value

    def loss(self, event):
        return abs(self.value - event)

    def update(self, event):
        self.value += event


def test_the_starts_of_scales():
    scratch = Ocelad(LearnerBank(Tally, starts="scratch", finest="reset"), weighting=Saol())
    for _ in range(7):
        scratch.step(1.0)
    # All four scales start at round 8; after it scale 0 starts again, and the others have seen one round.
    assert [learner.value for learner in scratch.bank.learners] == [0.0] * 4
    scratch.step(1.0)
    assert [learner.value for learner in scratch.bank.learners] == [0.0, 1.0, 1.0, 1.0]
    together = Ocelad(LearnerBank(Tally, starts="ensemble", finest="carry"), weighting=Cbce())
    for t in range(1, 40):
        before = together.bank
        together.step(0.1 * (t % 3))
        round_state = together.round_state
        learned = before.observe(0.1 * (t % 3), round_state)[1]
        mean = learned._average(round_state.previous_weights / round_state.previous_weights.sum(), t)
        for scale in round_state.starting[1:]:
            assert together.bank.learners[scale.index].start == pytest.approx(mean, rel=1e-12)
        assert together.bank.learners[0].value == pytest.approx(sum(0.1 * (s % 3) for s in range(1, t + 1)))


def test_the_starts_of_the_learners_of_each_method():
    events = events_of(8, 2, 8)
    anew, together, grid = (make(2, engine="dense") for make in (saol, cbce, hedge))
    first = anew.play()
    for tracker in (anew, together, grid):
        for event in events[:7]:
            tracker.step(event)
    # All four scales start at round 8: SAOL's from the initial metric, CBCE's from the learned play of the ensemble.
    assert [np.array_equal(learner.play().matrix, first.matrix) for learner in anew.bank.learners] == [True] * 4
    metrics = [learner.play().matrix for learner in together.bank.learners]
    assert all(np.array_equal(matrix, metrics[0]) for matrix in metrics)
    assert not np.array_equal(metrics[0], first.matrix)
    assert len({learner.play().matrix.tobytes() for learner in grid.bank.learners}) == 8


@pytest.mark.parametrize("starts", ["below", "ensemble", "scratch"])
@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("engine", ["fullrank", "lowrank", "blocked", "diagonal"])
def test_compiled_banks_agree_with_the_definition_on_starts(engine, starts, finest):
    n, rounds = 3, 40
    schedule, more = Schedule(1), {"finest": finest, "step_size": 0.2, "loss": "logistic"}
    if engine == "diagonal":
        more |= {"diagonal": True, "shrinkage": 0.01}
    elif engine != "fullrank":
        more |= {"shrinkage": 0.01}
    engine = "auto" if engine == "diagonal" else engine
    fast = build_bank(n, Rice(engine=engine, **more), schedule, starts=starts)[0]
    slow = build_bank(n, Rice(engine="dense", **more), schedule, starts=starts)[0]
    for weighting in (Cbce(), Saol()):
        one, other = (Ocelad(deepcopy(bank), schedule=schedule, weighting=weighting) for bank in (fast, slow))
        for event in events_of(1, n, rounds):
            a, b = one.step(event), other.step(event)
            np.testing.assert_allclose(a.losses, b.losses, rtol=1e-9, atol=1e-12)
        metric, wanted = one.play(), other.play()
        np.testing.assert_allclose(metric.matrix, wanted.matrix, rtol=1e-9, atol=1e-9)
        assert metric.threshold == pytest.approx(wanted.threshold, rel=1e-9)


def test_a_replay_by_equation_5_respects_other_starts():
    schedule, events = Schedule(1), events_of(2, 3, 60)
    banks = [
        build_bank(3, Rice(finest="reset", engine=e), schedule, starts="scratch")[0] for e in ("fullrank", "dense")
    ]
    fast, slow = (Ocelad(bank, schedule=schedule) for bank in banks)
    np.testing.assert_allclose(fast.replay(events), slow.replay(events), rtol=1e-9)
    np.testing.assert_allclose(fast.play().matrix, slow.play().matrix, rtol=1e-9)


def test_a_grid_agrees_with_single_learners():
    steps, events = [0.02, 0.2, 0.05], events_of(3, 3, 50)
    for engine in ("fullrank", "lowrank", "dense"):
        tracker = hedge(3, step_sizes=steps, engine=engine)
        alone = [Comid(track_metric(3).play(), step_size=eta) for eta in steps]
        for event in events:
            losses = tracker.step(event).losses
            np.testing.assert_allclose(losses, [learner.loss(event) for learner in alone], rtol=1e-9, atol=1e-12)
            for learner in alone:
                learner.update(event)
    assert [scale.rate for scale in map(tracker.schedule.scale, range(3))] == steps


# ---------------------------------------------------------------------------
# Ensembles of metric learners: engines, replay, margins, saving
# ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENSEMBLES)
def test_engines_agree_and_a_replay_agrees_with_steps(name):
    events = events_of(4, 3, 60)
    fast, stepped, slow = (ENSEMBLES[name](3, engine=engine) for engine in ("fullrank", "fullrank", "dense"))
    margins, expected = fast.replay(events), []
    for event in events:
        expected.append(slow.play().margin(event))
        stepped.step(event)
        slow.step(event)
    np.testing.assert_allclose(margins, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.play().matrix, slow.play().matrix, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fast.round_state.probabilities, slow.round_state.probabilities, rtol=1e-7, atol=1e-12)
    assert fast.play() == stepped.play()
    assert fast.play().round == slow.play().round == 60
    assert np.array_equal(fast.round_state.records, stepped.round_state.records)


@pytest.mark.parametrize("engine", ["fullrank", "lowrank", "dense"])
@pytest.mark.parametrize("name", ENSEMBLES)
def test_a_restored_ensemble_continues_with_the_same_bits(name, engine):
    events = events_of(5, 3, 40)
    tracker, other = ENSEMBLES[name](3, engine=engine), ENSEMBLES[name](3, engine=engine)
    tracker.replay(events[:21])
    arrays, metadata = tracker.state()
    other.restore(arrays, metadata)
    tracker.replay(events[21:])
    other.replay(events[21:])
    assert other.play() == tracker.play()
    assert np.array_equal(other.round_state.records, tracker.round_state.records)


def test_the_state_of_another_ensemble_is_rejected():
    arrays, metadata = saol(2, engine="dense").state()
    for other in (cbce(2, engine="dense"), saol(2, engine="dense", seed=1), track_metric(2, engine="dense")):
        with pytest.raises(ValueError, match="the saved tracker has"):
            other.restore(arrays, metadata)
        assert other.n_rounds == 0
    tracker = cbce(2, engine="dense")
    tracker.replay(events_of(6, 2, 9))
    arrays, metadata = tracker.state()
    for name, wrong, words in (
        ("records", arrays["records"][:-1], "has shape"),
        ("records", arrays["records"] * 2.0, "does not follow"),
        ("before", arrays["before"] * 0.0, "does not follow"),
        ("weights", -arrays["weights"], "at least 0"),
    ):
        fresh = cbce(2, engine="dense")
        with pytest.raises(ValueError, match=words):
            fresh.restore({**arrays, name: wrong}, metadata)
        assert fresh.n_rounds == 0


def test_only_trackers_of_track_metric_can_grow():
    for make in ENSEMBLES.values():
        with pytest.raises(TypeError, match="tracker must come from track_metric"):
            add_features(make(2, engine="dense"), 3)


@pytest.mark.parametrize("starts", ["ensemble", "scratch"])
def test_banks_satisfy_the_bank_contract(starts):
    events = list(events_of(7, 2, 30))
    for engine in ("fullrank", "dense"):
        invalid = Event(np.array([1e200, 0.0]), -1.0)
        check_bank(
            lambda: build_bank(2, Rice(engine=engine), Schedule(), starts=starts)[0],  # noqa: B023
            events,
            invalid_event=invalid,
        )


def test_losses_of_any_size():
    for weighting in (Saol(), Cbce(), Hedge(10.0)):
        ocelad = Ocelad(ScriptedBank(), weighting=weighting)
        for t in range(70):
            ocelad.step(np.array([1.7e308, -1.7e308] * 4) if t % 2 else np.zeros(8))
            probabilities = ocelad.round_state.probabilities
            assert np.isfinite(probabilities).all()
            assert probabilities.sum() == pytest.approx(1.0)


def test_hedge_stores_differences_of_losses():
    ocelad = Ocelad(ScriptedBank(), schedule=FixedExperts([1.0, 1.0]), weighting=Hedge(1.0))
    for losses in ([1e300, 0.0], [0.0, 1e300], [1.0, 0.0]):
        ocelad.step(losses)
    np.testing.assert_allclose(ocelad.round_state.probabilities, [1 / (1 + math.e), math.e / (1 + math.e)], rtol=1e-12)


def test_weights_of_saol_stay_positive():
    weighting, records = Saol(), np.array([[0.5, 0.5]])
    ocelad = Ocelad(ScriptedBank(), schedule=FixedExperts([1.0, 1.0]), weighting=weighting)
    for _ in range(1200):
        ocelad.step([1.0, 0.0])
    assert ocelad.round_state.weights[0] > 0.0
    assert records.tolist() == [[0.5, 0.5]]


# ---------------------------------------------------------------------------
# Invalid arguments
# ---------------------------------------------------------------------------


def test_invalid_arguments_are_rejected():
    bank = ScriptedBank()
    for error, words, make in (
        (TypeError, "weighting must have settings, begin, learn and weights", lambda: Ocelad(bank, weighting=Saol)),
        (TypeError, "weighting must have settings, begin, learn and weights", lambda: Ocelad(bank, weighting="saol")),
        (TypeError, "seed must be a whole number", lambda: Ocelad(bank, seed=True)),
        (ValueError, "seed must be a whole number of at least 0", lambda: Ocelad(bank, seed=-1)),
        (TypeError, "start, observe, mix and pick", lambda: Ocelad(track_metric, seed=0)),
        (TypeError, "schedule must be a Schedule or FixedExperts", lambda: Ocelad(bank, schedule=3)),
        (
            ValueError,
            "give either schedule, or shortest_interval and n_scales",
            lambda: Ocelad(bank, schedule=FixedExperts([1.0]), n_scales=2),
        ),
        (ValueError, r"rates\[1\] must be a finite number above 0", lambda: FixedExperts([1.0, 0.0])),
        (TypeError, "rates must be numbers above 0", lambda: FixedExperts(3.0)),
        (ValueError, "rates must be 1 to 62 numbers; got 0", lambda: FixedExperts([])),
        (ValueError, "rates must be 1 to 62 numbers; got 63", lambda: FixedExperts([1.0] * 63)),
        (ValueError, r"step_sizes\[0\] must be a finite number", lambda: hedge(2, step_sizes=[math.nan])),
        (ValueError, "rate must be a finite number above 0", lambda: hedge(2, rate=0.0)),
        (ValueError, "largest_loss must be a finite number above 0", lambda: saol(2, largest_loss=math.inf)),
        (TypeError, "largest_loss must be a finite number", lambda: cbce(2, largest_loss="1")),
        (ValueError, "horizon must be a whole number of at least 1", lambda: ader(2, horizon=0)),
        (ValueError, "diameter must be a finite number above 0", lambda: ader(2, horizon=9, diameter=-1.0)),
        (ValueError, "gradient_bound must be", lambda: ader(2, horizon=9, gradient_bound=0.0)),
        (ValueError, "loss_range must be", lambda: ader(2, horizon=9, loss_range=0.0)),
        (ValueError, "starts must be one of 'below', 'ensemble', 'scratch'", lambda: LearnerBank(Tally, starts="new")),
        (ValueError, "starts must be one of", lambda: build_bank(2, Rice(), Schedule(), starts="above")),
    ):
        with pytest.raises(error, match=words):
            make()


def test_an_error_names_the_learner_of_a_grid():
    tracker = hedge(2, step_sizes=[0.1, 1e300], engine="fullrank")
    with pytest.raises(RuntimeError, match=r"expert 1 \(rate 1e\+300\)"):
        tracker.step(Event(np.full(2, 1e6), 1.0))
    assert tracker.n_rounds == 0
    assert str(Scale(3, 8)) == "scale 3 (interval length 8)"
    assert Expert(1, 8, 0.25).weight_rate == 0.5
