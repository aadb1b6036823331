"""OCELAD over any learners: retro-initialisation, failures that change nothing, and the contract checks."""

from __future__ import annotations

import pickle
from copy import deepcopy

import numpy as np
import pytest

from ocelad import LearnerBank, LearnerError, Metric, Ocelad, track_metric
from ocelad.online.rice import Rice
from ocelad.pairs import Event
from ocelad.testing import check_bank, check_learner


class Mean:
    """Follows a mean by gradient descent; it remembers what it was started from."""

    def __init__(self, scale, start):
        self.start = None if start is None else start.copy()
        self.value = np.zeros(1) if start is None else start
        self.step = 0.5 * scale.rate

    def play(self):
        return self.value

    def loss(self, event):
        return float(((self.value - event) ** 2).sum())

    def update(self, event):
        self.value -= self.step * (self.value - event)  # in place, on purpose


def steps(ocelad, rounds, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        ocelad.step(rng.normal(size=1))
    return ocelad


def test_a_scale_starts_from_what_the_scale_below_held():
    bank = LearnerBank(Mean)
    ocelad = steps(Ocelad(bank), 7)
    held = [learner.play().copy() for learner in bank.learners]
    steps(ocelad, 1, seed=1)  # round 8 starts scales 0 to 3
    started = [learner.start for learner in bank.learners]
    assert started[1:] == held[:3]


@pytest.mark.parametrize(("finest", "expected"), [("carry", "own"), ("ensemble", "mixed"), ("reset", None)])
def test_what_the_finest_scale_starts_from(finest, expected):
    made = []

    def make(scale, start):
        if scale.index == 0:
            made.append(start)
        return Mean(scale, start)

    bank = LearnerBank(make, finest=finest)
    ocelad = steps(Ocelad(bank), 5)
    plays = np.array([learner.play()[0] for learner in bank.learners])
    before = ocelad.turn.before
    made.clear()
    steps(ocelad, 1)
    if expected == "own":
        assert made == []
    elif expected == "mixed":
        np.testing.assert_allclose(made[-1], [before @ plays / before.sum()])
    else:
        assert made == [None]


def test_learners_that_update_in_place_do_not_disturb_each_other():
    assert_contract = [np.array([float(k)]) for k in range(12)]
    check_bank(lambda: LearnerBank(Mean), assert_contract)
    bank = LearnerBank(Mean)
    steps(Ocelad(bank), 9)
    values = [learner.play()[0] for learner in bank.learners]
    assert len(set(values)) == len(values)


class Broken(Mean):
    """Fails at scale 2, in the way and at the event it is told."""

    def __init__(self, scale, start, how):
        if how == "make" and scale.index == 2 and start is not None and start[0] > 0:
            raise KeyError("no room")
        super().__init__(scale, start)
        self.how = how if scale.index == 2 else None

    def loss(self, event):
        if event[0] == 99:
            if self.how == "loss nan":
                return float("nan")
            if self.how == "loss inf":
                return float("inf")
            if self.how == "loss raises":
                raise ZeroDivisionError("by zero")
        return super().loss(event)

    def update(self, event):
        super().update(event)
        if event[0] == 99:
            if self.how == "update raises":
                raise RuntimeError("cannot learn")
            if self.how == "plays nan":
                self.value = self.value * np.nan


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("loss nan", r"returned the loss nan"),
        ("loss inf", r"returned the loss inf"),
        ("loss raises", r"could not judge the event \(ZeroDivisionError: by zero\)"),
        ("update raises", r"could not learn from the event \(RuntimeError: cannot learn\)"),
        ("plays nan", r"came to play NaN or infinity"),
    ],
)
def test_a_learner_that_fails_is_named_and_nothing_has_changed(how, sentence):
    ocelad = Ocelad(LearnerBank(lambda scale, start: Broken(scale, start, how)))
    steps(ocelad, 6)
    untouched = deepcopy(ocelad)
    with pytest.raises(LearnerError, match=sentence) as caught:
        ocelad.step(np.array([99.0]))
    assert "scale 2 (interval length 4)" in str(caught.value)
    assert "in round 7" in str(caught.value)
    assert (caught.value.scale.index, caught.value.round) == (2, 7)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    # The ensemble goes on as if the round had never been tried.
    for _ in range(10):
        assert (ocelad.play() == untouched.play()).all()
        one, other = ocelad.step(np.ones(1)), untouched.step(np.ones(1))
        assert (one.losses == other.losses).all()
        assert (one.probabilities == other.probabilities).all()


def test_a_learner_that_cannot_be_started_is_named():
    ocelad = Ocelad(LearnerBank(lambda scale, start: Broken(scale, start, "make")))
    for _ in range(3):
        ocelad.step(np.ones(1))
    turn = ocelad.turn
    with pytest.raises(LearnerError, match=r"scale 2 .* could not be started \(KeyError: 'no room'\)"):
        ocelad.step(np.ones(1))
    with pytest.raises(LearnerError, match="could not be started"):
        ocelad.play()
    assert ocelad.turn is turn


def test_losses_without_bound_and_below_zero_are_welcome():
    class Shifted(Mean):
        def loss(self, event):
            return 1e12 * (super().loss(event) - 5.0)

    plain, shifted = Ocelad(LearnerBank(Mean)), Ocelad(LearnerBank(Shifted))
    rng = np.random.default_rng(0)
    for _ in range(60):
        event = rng.normal(size=1)
        plain.step(event)
        shifted.step(event)
    # Only differences of losses count, and only relative to the largest.
    np.testing.assert_allclose(plain.turn.weights, shifted.turn.weights, rtol=1e-6)


def test_refuses_an_unknown_finest():
    with pytest.raises(ValueError, match="finest must be one of 'carry', 'ensemble', 'reset'; got 'coarse'"):
        LearnerBank(Mean, finest="coarse")


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("shortest_interval", [1, 3])
def test_rice_keeps_the_bank_s_contract(finest, shortest_interval):
    rng = np.random.default_rng(0)
    events = [Event(rng.normal(size=3), float(rng.choice([-1, 1]))) for _ in range(20)]
    check_bank(
        lambda: Rice(Metric(np.eye(3)), step_size=0.1, finest=finest),
        events,
        shortest_interval=shortest_interval,
        refused=Event(np.array([1.0, np.nan, 0.0]), 1.0),
    )


@pytest.mark.parametrize("u", [np.full(3, np.nan), np.full(3, np.inf), np.zeros(2), np.zeros((3, 1))])
def test_a_bad_event_names_what_is_wrong_and_changes_nothing(u):
    tracker = track_metric(3)
    for _ in range(5):
        tracker.step(Event(np.ones(3), 1.0))
    before = tracker.play()
    with pytest.raises(LearnerError, match="scale 0"):
        tracker.step(Event(u, 1.0))
    assert tracker.play() == before


# The contract checks must catch what breaks the contract.


class Drifts(Mean):
    def play(self):
        self.value = self.value + 1.0
        return self.value


class LearnsWhenJudged(Mean):
    def loss(self, event):
        self.update(event)
        return super().loss(event)


class Shares(Mean):
    def __deepcopy__(self, memo):
        return self


class LosesArrays(Mean):
    def loss(self, event):
        return (self.value - event) ** 2


class LosesNothing(Mean):
    def loss(self, event):
        return float("nan")


class Rolls(Mean):
    rng = np.random.default_rng(0)

    def update(self, event):
        self.value = self.rng.normal(size=1)


@pytest.mark.parametrize("broken", [Drifts, LearnsWhenJudged, Shares, LosesArrays, LosesNothing, Rolls])
def test_check_learner_catches(broken):
    from ocelad.online.dyadic import Scale

    events = [np.array([float(k)]) for k in range(1, 5)]
    check_learner(lambda: Mean(Scale(0, 1), None), events)
    with pytest.raises(AssertionError):
        check_learner(lambda: broken(Scale(0, 1), None), events)


class ReadingChanges(LearnerBank):
    def mix(self, turn):
        self._members = self._started(turn)
        return super().mix(turn)


class OneLossTooMany(LearnerBank):
    def observe(self, event, turn):
        return np.append(super().observe(event, turn), 0.0)


class TakesAnything(LearnerBank):
    def observe(self, event, turn):
        return super().observe(np.nan_to_num(event), turn)


class HalfARound(LearnerBank):
    def observe(self, event, turn):
        super().observe(np.nan_to_num(event), turn)
        return super().observe(event, turn)


@pytest.mark.parametrize("broken", [ReadingChanges, OneLossTooMany, TakesAnything, HalfARound])
def test_check_bank_catches(broken):
    events = [np.array([float(k)]) for k in range(1, 12)]
    refused = np.array([np.nan])
    check_bank(lambda: LearnerBank(Mean), events, refused=refused)
    with pytest.raises((AssertionError, ValueError)):
        check_bank(lambda: broken(Mean), events, refused=refused)
