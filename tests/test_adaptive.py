"""The adaptive ensemble: it agrees with a plain program, keeps its bits, is scale-free, and refuses what is wrong."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from adaptive_reference import AdaptiveReference
from adaptive_streams import logistic_answers, right, told_by_one
from engine_cases import COMPILED, assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

from ocelad import LearnerError, Relative, Relatives, track_metric
from ocelad.adaptive.adaptive_bank import N_MEMORIES, WINDOWS, AdaptiveBank
from ocelad.adaptive.change_detection import MOST_CHANGES, changes_of
from ocelad.adaptive.kernels import cusum as change_kernels
from ocelad.adaptive.kernels import experts, platt
from ocelad.adaptive.metric_regularization import played_matrix
from ocelad.adaptive.track import MOST_FEATURES, resume, track_adaptive
from ocelad.ensemble.schedule import Scale
from ocelad.ensemble.weight_updates import MIN_LOG_WEIGHT
from ocelad.ensemble.weighting import DiscountedHedge, RoundInfo
from ocelad.pairs import Event, Events

# Same mathematics, other arithmetic; it was 1e-12 at worst.
RTOL = 1e-6
# With NUMBA_DISABLE_JIT=1 kernels run as plain Python, and the tests on fewer rounds and features.
ROUNDS = 600 if COMPILED else 300
only_compiled = pytest.mark.skipif(not COMPILED, reason="it needs thousands of rounds, and plain Python is too slow")


def late_and_zero(n: int) -> Events:
    """Pairs of which the first 70 do not differ; later ones now and then; half of the features first differ at 100.

    Then one difference is 1000 times as large as usual.
    """
    events = told_by_one(4, n, 300, every=150)
    U = events.U.copy()
    U[:70], U[::17], U[:100, n // 2 :] = 0.0, 0.0, 0.0
    U[250] *= 1000.0
    return Events(U, events.y)


def tracker_after(events: Events, rounds: int):
    tracker = track_adaptive(events.n_features)
    tracker.replay(events[:rounds])
    return tracker


# -- Against a program that was written apart --


def assert_agrees(events: Events) -> AdaptiveReference:
    """The whole stream, round by round: losses, margins, weights, and all that is told beside them."""
    n = events.n_features
    tracker, reference = track_adaptive(n), AdaptiveReference(n)
    margins = track_adaptive(n).replay(events)
    for t, (event, margin) in enumerate(zip(events, margins, strict=True), start=1):
        probabilities = reference.shares()
        losses, expected = reference.step(event)
        passed = tracker.step(event)
        np.testing.assert_allclose(passed.losses, losses, rtol=RTOL, atol=RTOL, err_msg=f"round {t}")
        np.testing.assert_allclose(passed.probabilities, probabilities, rtol=RTOL, err_msg=f"round {t}")
        assert margin == pytest.approx(expected, rel=RTOL, abs=RTOL), f"round {t}"
    bank = tracker.bank
    assert bank.drift(tracker.round_state) == pytest.approx(reference.drift, rel=RTOL)
    assert [(change.round, change.noticed) for change in bank.changes] == [each[:2] for each in reference.changes]
    for place, near in ((experts.PRIOR_NEAR, reference.near_prior), (experts.OWN_NEAR, reference.near_own)):
        told = bank._state.numbers[place : place + 3]
        np.testing.assert_allclose(told, [near.bound, near.same, near.seen], rtol=RTOL, atol=RTOL)
    np.testing.assert_allclose(bank._state.priors, reference.prior_likelihoods, rtol=RTOL)
    if reference.fits:
        U = events.U[-20:]
        A, offset = reference.mixture(reference.shares())
        squares = np.array([u @ A @ u for u in U * reference.unit])
        odds = np.clip(offset - squares, -platt.MOST_ODDS, platt.MOST_ODDS)
        np.testing.assert_allclose(bank.log_odds(U, tracker.round_state), odds, rtol=RTOL, atol=RTOL)
    return reference


@pytest.mark.parametrize("n", [1, 2, 5, 25] if COMPILED else [1, 3])
def test_it_agrees_with_a_plain_program(n):
    reference = assert_agrees(told_by_one(3, n, ROUNDS, every=150))
    if n == 1:  # where the question changes so that nobody can miss it
        assert reference.n_memorised > 0
        assert reference.n_restarts > 0
        assert reference.changes


@only_compiled
@pytest.mark.parametrize("n", [2, 5, 25])
def test_it_agrees_when_answers_are_turned_round(n):
    """In few dimensions, where it is noticed soon, all memories are in use, and the least used ones have given way."""
    events = told_by_one(5, n, 900)
    turned = np.where(np.arange(900) // 130 % 2 == 1, -1.0, 1.0)
    reference = assert_agrees(Events(events.U, events.y * turned))
    assert reference.n_memorised > (N_MEMORIES if n < 25 else 0)
    assert reference.n_restarts > 0


@only_compiled
@pytest.mark.parametrize("n", [1, 2, 5])
def test_it_agrees_on_zeros_and_features_that_come_late(n):
    assert_agrees(late_and_zero(n))


# -- The same bits --


@settings(max_examples=10 if COMPILED else 3)
@given(st.data())
def test_a_stream_can_be_cut_anywhere(data):
    n = data.draw(st.sampled_from([1, 2, 7]), label="n")
    rounds = 400 if COMPILED else 150
    events = told_by_one(data.draw(st.integers(0, 99), label="seed"), n, rounds, every=rounds // 3)
    cuts = sorted(data.draw(st.lists(st.integers(0, rounds), max_size=5), label="cuts"))
    whole, stepped, cut = (track_adaptive(n) for _ in range(3))
    margins = whole.replay(events)
    parts = [cut.replay(events[a:b]) for a, b in zip([0, *cuts], [*cuts, rounds], strict=True)]
    assert (np.concatenate(parts) == margins).all()
    own = [stepped.step(event).ensemble_value(stepped.bank.last_margins) for event in events]
    np.testing.assert_allclose(own, margins, rtol=1e-12, atol=1e-12)  # weights are divided first, or sums
    for other in (cut, stepped):
        assert_same_bits(whole, other)
        assert whole.bank.changes == other.bank.changes


@settings(max_examples=15 if COMPILED else 5)
@given(st.data())
def test_it_goes_on_from_its_state(data):
    n = data.draw(st.sampled_from([1, 3, 6]), label="n")
    rounds = 400 if COMPILED else 150
    kept_at = data.draw(st.integers(0, 12) | st.integers(0, rounds), label="kept at")
    events = told_by_one(data.draw(st.integers(0, 99), label="seed"), n, rounds, every=rounds // 3)
    tracker = tracker_after(events, kept_at)
    arrays, metadata = tracker.state()
    resumed = resume(arrays, metadata)
    for array in arrays.values():  # they are copies, on either side
        array[...] = 0
    assert_same_bits(tracker, resumed)
    for name in experts.State._fields[: experts.State._fields.index("x")]:  # from there on it is scratch
        assert np.array_equal(getattr(tracker.bank._state, name), getattr(resumed.bank._state, name)), name
    rest = events[kept_at:]
    assert (tracker.replay(rest) == resumed.replay(rest)).all()
    assert_same_bits(tracker, resumed)
    assert tracker.bank.changes == resumed.bank.changes
    assert tracker.bank.drift(tracker.round_state) == resumed.bank.drift(resumed.round_state)


def test_reading_changes_nothing():
    """As ``check_bank`` asks, which itself does not apply: it gives a bank dyadic scales, not all experts at once."""
    events = told_by_one(1, 3, 30)
    read, unread = track_adaptive(3), track_adaptive(3)
    for event in events:
        read.play(), read.bank.log_odds(events.U, read.round_state), read.bank.changes, read.state(), deepcopy(read)
        assert (read.step(event).losses == unread.step(event).losses).all()
    assert_same_bits(read, unread)


# -- What is kept and damaged --


def damaged_arrays(arrays):
    """Each array once missing, of another shape, of another type, and with a number that is none."""
    for name, array in arrays.items():
        yield name, {key: value for key, value in arrays.items() if key != name}
        yield name, {**arrays, name: array[..., :-1] if array.ndim else array[None]}
        yield name, {**arrays, name: array.astype(np.float32)}
        if array.dtype == np.float64 and array.size:
            wrong = array.copy()
            wrong.flat[-1] = np.nan
            yield name, {**arrays, name: wrong}


@pytest.mark.parametrize("rounds", [0, 5, 30])
def test_damaged_arrays_are_refused(rounds):
    arrays, metadata = tracker_after(told_by_one(1, 3, 30), rounds).state()
    for name, damaged in damaged_arrays(arrays):
        if all(np.array_equal(damaged.get(key), value) for key, value in arrays.items()):
            continue  # no column can be taken from an array without any
        with pytest.raises(ValueError, match=name.removeprefix("bank.").removeprefix("comid.")):
            resume(damaged, metadata)
    with pytest.raises(ValueError, match="saved state holds 'more', which is unknown"):
        resume({**arrays, "more": np.zeros(1)}, metadata)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("fits", (0, platt.SLOPE)), -1.0),
        (("fits", (2, platt.OFFSET)), 1e9),
        (("fits", (3, platt.LEVEL)), 0.0),
        (("fits", (1, platt.CURVE_SLOPE)), -1.0),
        (("owed", 1), 0.0),
        (("owed", 0), 2.0),
        (("spread", 0), -1.0),
        (("numbers", experts.UNIT), -1.0),
        (("evidence", 3), -1.0),
        (("taken", 0), -1.0),
    ],
)
def test_impossible_numbers_are_refused(place, value):
    arrays, metadata = tracker_after(told_by_one(1, 3, 30), 30).state()
    name, at = place
    arrays[f"bank.{name}"][at] = value
    with pytest.raises(ValueError, match=f"what was kept as '{name}'"):
        resume(arrays, metadata)


@pytest.mark.parametrize(
    "change",
    [
        {"method": "another"},
        {"n_features": 4},
        {"n_features": "3"},
        {"n_features": -1},
        {"sparse": None},
        {"weighing": {"name": "rescaled"}},
        {"rates": [1.0]},
        {"unknown": 1},
    ],
)
def test_settings_of_something_else_are_refused(change):
    arrays, metadata = track_adaptive(3).state()
    with pytest.raises(ValueError, match=r"\S+ \S+ \S+"):
        resume(arrays, {**metadata, "settings": {**metadata["settings"], **change}})


@pytest.mark.parametrize("missing", ["n_features", "sparse", "weighing", "rates"])
def test_settings_that_are_missing_are_told(missing):
    arrays, metadata = track_adaptive(3).state()
    del metadata["settings"][missing]
    with pytest.raises(ValueError, match="settings"):
        resume(arrays, metadata)


# -- Scale-free --


def some_stream(n):
    return logistic_answers(2, n, 1000 if COMPILED else 30)


@pytest.mark.parametrize("power", [-300, -60, -1, 3, 100])
def test_twice_as_large_gives_the_same_bits(power):
    events = some_stream(4)
    scaled = Events(events.U * 2.0**power, events.y)
    one, other = track_adaptive(4), track_adaptive(4)
    assert (one.replay(events) == other.replay(scaled)).all()
    assert (one.bank.log_odds(events.U, one.round_state) == other.bank.log_odds(scaled.U, other.round_state)).all()
    assert one.bank.changes == other.bank.changes
    metric, same = one.play(), other.play()
    np.testing.assert_allclose(same.squared_length(scaled.U), metric.squared_length(events.U), rtol=1e-12)
    assert same.threshold == metric.threshold


@pytest.mark.parametrize("factor", [1e-30, 1e-3, 3.0, 1e7])
def test_in_any_unit_it_says_the_same(factor):
    events = some_stream(4)
    margins = track_adaptive(4).replay(events)
    scaled = track_adaptive(4).replay(Events(events.U * factor, events.y))
    np.testing.assert_allclose(scaled, margins, rtol=1e-6, atol=1e-6)


@only_compiled
@pytest.mark.parametrize("n", [6, 25])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_features_in_units_of_their_own_hardly_matter(n, seed):
    """Only the Euclidean prior is another one then, which is not worth much where few features tell."""
    events = told_by_one(seed, n, 1500)
    units = 10.0 ** np.random.default_rng(seed).uniform(-3.0, 3.0, size=n)
    scaled = Events(events.U * units, events.y)
    one, other = track_adaptive(n), track_adaptive(n)
    margins, same = one.replay(events), other.replay(scaled)
    assert np.mean((margins > 0.0) == (same > 0.0)) > 0.99
    assert abs(right(margins[300:]) - right(same[300:])) <= 0.005
    assert np.corrcoef(one.play().squared_length(events.U), other.play().squared_length(scaled.U))[0, 1] > 0.98
    rice = [right(track_metric(n, step_size=0.05).replay(each)[300:]) for each in (events, scaled)]
    assert rice[1] < rice[0] - 0.1


# -- What is played --


def assert_playable(tracker, U):
    metric = tracker.play()
    values = np.linalg.eigvalsh(metric.matrix)
    assert np.isfinite(metric.matrix).all()
    assert (metric.matrix == metric.matrix.T).all()
    assert values[0] >= -1e-9 * values[-1]
    assert 0.0 < metric.threshold < np.inf
    assert metric.round == tracker.n_rounds
    odds = tracker.bank.log_odds(U, tracker.round_state)
    assert (np.abs(odds) <= platt.MOST_ODDS).all()
    assert 0.0 <= tracker.bank.trust <= 1.0
    return metric


@settings(max_examples=30 if COMPILED else 3)
@given(st.integers(0, 999), st.sampled_from([1, 2, 5]), st.integers(1, 300 if COMPILED else 12), st.integers(-20, 20))
def test_what_is_played_is_a_metric(seed, n, rounds, magnitude):
    rng = np.random.default_rng(seed)
    events = Events(rng.normal(size=(rounds, n)) * 10.0**magnitude, rng.choice([-1.0, 1.0], size=rounds))
    assert_playable(tracker_after(events, rounds), rng.normal(size=(5, n)) * 10.0**magnitude)


@only_compiled
@pytest.mark.parametrize("n", [1, 3])
def test_a_metric_is_played_when_far_is_the_same(n):
    """There is no such metric, but one must be played."""
    events = told_by_one(1, n, 600)
    tracker = track_adaptive(n)
    for at in range(0, 600, 20):
        tracker.replay(Events(events.U[at : at + 20], -events.y[at : at + 20]))
        assert assert_playable(tracker, events.U).matrix.any()


def test_a_metric_is_played_when_no_pair_has_differed_lately():
    events = told_by_one(1, 3, 30)
    tracker = tracker_after(events, 30)
    tracker.replay(Events(np.zeros((experts.ASIDE, 3)), np.ones(experts.ASIDE)))
    assert assert_playable(tracker, events.U).matrix.any()


@only_compiled
@pytest.mark.parametrize("n", [6, 25])
def test_what_is_played_tells_as_the_ensemble_does(n):
    events = logistic_answers(3, n, 2000)
    tracker = tracker_after(events, 1500)
    U = events.U[1500:]
    by_metric = tracker.play().threshold - tracker.play().squared_length(U)
    odds = tracker.bank.log_odds(U, tracker.round_state)
    assert np.mean((by_metric > 0.0) == (odds > 0.0)) > 0.9
    assert np.corrcoef(by_metric, odds)[0, 1] > 0.9


@only_compiled
@pytest.mark.parametrize("n", [2, 6, 25])
def test_one_feature_that_tells_alone_weighs_most(n):
    events, tracker = told_by_one(3, n, 1500, every=750), track_adaptive(n)
    for telling in (0, 1):
        tracker.replay(events[750 * telling : 750 * (telling + 1)])
        weights = np.diag(tracker.play().matrix)
        assert weights[telling] > 2.0 * np.delete(weights, telling).max()


@given(st.integers(0, 999), st.integers(1, 6), st.floats(0.0, 1.0))
def test_played_matrices_are_positive_semidefinite(seed, n, trust):
    rng = np.random.default_rng(seed)
    A, spread = rng.normal(size=(n, n)), rng.uniform(0.1, 10.0, size=n) * (rng.random(n) < 0.8)
    prior = np.diag(rng.uniform(size=n))
    matrix = played_matrix(A + A.T, spread, prior, trust)
    assert np.linalg.eigvalsh(matrix)[0] >= -1e-9 * max(np.abs(matrix).max(), 1.0)


# -- Weighing --

RECORDS = st.integers(1, 6).flatmap(
    lambda k: st.tuples(
        st.lists(st.floats(MIN_LOG_WEIGHT, 0.0), min_size=k, max_size=k),
        st.lists(st.floats(0.0, 20.0), min_size=k, max_size=k),
    )
)


@given(RECORDS, st.floats(-5.0, 5.0))
def test_discounted_weights(case, shift):
    logarithms, losses = map(np.array, case)
    weighting, halves = DiscountedHedge(), np.full(len(losses), 0.5)
    records = np.array([logarithms, np.exp(logarithms)])
    before = records.copy()
    after = weighting.learn(records, RoundInfo(2, 0, losses, halves), halves)
    assert (records == before).all()
    weights = weighting.weights(after)
    assert weights.max() == 1.0
    assert weights.min() >= np.exp(MIN_LOG_WEIGHT) * (1.0 - 1e-12)
    # What all lose alike does not matter.
    moved = weighting.weights(weighting.learn(records, RoundInfo(2, 0, losses + shift, halves), halves))
    np.testing.assert_allclose(moved, weights, rtol=1e-9)
    # By the definition, written out.
    logs = (1.0 - 1.0 / DiscountedHedge.horizon) * logarithms - losses
    np.testing.assert_allclose(np.log(weights), np.maximum(logs - logs.max(), MIN_LOG_WEIGHT), atol=1e-9)


def test_discounted_weights_let_anyone_come_back():
    weighting, halves = DiscountedHedge(), np.full(2, 0.5)
    records = np.transpose([weighting.begin(Scale(j, 1), t=1) for j in (0, 1)])
    for t in range(1000):
        records = weighting.learn(records, RoundInfo(t + 1, 0, np.array([0.0, 1.0]), halves), halves)
    assert weighting.weights(records)[1] == pytest.approx(np.exp(MIN_LOG_WEIGHT))
    for t in range(20):
        records = weighting.learn(records, RoundInfo(t + 1, 0, np.array([1.0, 0.0]), halves), halves)
    assert weighting.weights(records)[1] == 1.0


# -- What is refused --


def refused(tracker, event, kind, words):
    before = deepcopy(tracker)
    for attempt in (lambda: tracker.step(event), lambda: tracker.replay([event])):
        with pytest.raises(kind, match=words) as told:
            attempt()
        assert "\n" not in str(told.value)
        assert_same_bits(tracker, before)
        assert tracker.bank.state()[0].keys() == before.bank.state()[0].keys()
        for name, array in tracker.bank.state()[0].items():
            assert np.array_equal(array, before.bank.state()[0][name]), name


@pytest.mark.parametrize("rounds", [0, 7, 8, 30])
def test_wrong_events_change_nothing(rounds):
    tracker = tracker_after(told_by_one(1, 3, 30), rounds)
    refused(tracker, Event(np.ones(2), 1.0), ValueError, "3")
    refused(tracker, Event(np.array([1.0, np.nan, 0.0]), 1.0), ValueError, "finite")
    refused(tracker, Event(np.array([1.0, np.inf, 0.0]), 1.0), ValueError, "finite")
    refused(tracker, Event(np.ones(3), 0.5), ValueError, r"\S+ \S+")
    refused(tracker, Relative(np.ones(3), np.ones(3)), TypeError, "Relative")
    refused(tracker, Event(np.full(3, 1e140), 1.0), LearnerError, "too far apart")
    with pytest.raises(TypeError, match="Relative"):
        tracker.replay(Relatives(np.ones((2, 3)), np.zeros((2, 3))))
    with pytest.raises(ValueError, match="3"):
        tracker.replay(Events(np.ones((2, 4)), [1, 1]))
    assert tracker.n_rounds == rounds


def test_pairs_before_one_too_far_apart_are_learned_from():
    events = told_by_one(1, 3, 30)
    U = events.U.copy()
    U[20] = 1e140
    tracker = track_adaptive(3)
    with pytest.raises(LearnerError, match="too far apart") as told:
        tracker.replay(Events(U, events.y))
    assert told.value.round == 21
    assert_same_bits(tracker, tracker_after(events, 20))


def test_a_bank_is_for_one_ensemble():
    bank = tracker_after(told_by_one(1, 3, 30), 5).bank
    round_state = track_adaptive(3).round_state
    with pytest.raises(ValueError, match="every Ocelad needs one of its own"):
        bank.start(round_state)
    with pytest.raises(ValueError, match="experts; the ensemble has 1"):
        AdaptiveBank(3).start(track_metric(3).round_state)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "3", None])
def test_numbers_of_features_that_are_none(wrong):
    with pytest.raises((ValueError, TypeError), match="n_features"):
        track_adaptive(wrong)


def test_which_engine_there_is():
    assert track_adaptive(MOST_FEATURES).bank.engine == "adaptive"
    assert track_adaptive(MOST_FEATURES + 1).bank.engine != "adaptive"
    assert track_adaptive(5, sparse=True).bank.engine != "adaptive"
    assert track_adaptive(50_000, sparse=True).bank.engine == "sparse"


def test_experts_have_names():
    bank = AdaptiveBank(3, windows=(10, 20))
    assert len(set(bank.expert_names)) == len(bank.expert_names) == track_adaptive(3).round_state.n_active - len(WINDOWS) + 2


# -- Changes, one by one --


def test_the_last_changes_are_remembered():
    evidence, table = np.zeros(change_kernels.N_EVIDENCE), np.zeros((MOST_CHANGES, 3))
    found = []
    for t in range(1, 40_000):
        if (
            change_kernels.look_for_change(evidence, table, 2.0 if t % 200 < 30 else 0.0, -1.0, t)
            == change_kernels.CERTAIN
        ):
            found.append(t)
    told = changes_of(evidence, table)
    assert len(told) == MOST_CHANGES
    assert len(found) > MOST_CHANGES
    assert all(change.round <= change.noticed for change in told)
    assert all(0.9 < change.confidence < 1.0 for change in told)
    noticed = [change.noticed for change in told]
    assert noticed == sorted(noticed)
    assert set(noticed) <= set(found)
    assert noticed[-1] > 39_700
    assert (np.diff(noticed) > change_kernels.APART).all()
