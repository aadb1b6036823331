"""Ocelad over arbitrary learners: retro-initialisation, failures that change nothing, and the contract checks."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pytest

from ocelad import Events, LearnerBank, LearnerError, Metric, Ocelad, Pair, track_metric
from ocelad.engines.rice_bank import RiceBank
from ocelad.ensemble.schedule import Scale
from ocelad.pairs import Event
from ocelad.testing import check_bank, check_expert, check_learner, contracts


class Mean:
    """Tracks a mean by gradient descent, and records its start."""

    def __init__(self, scale, start):
        self.start = None if start is None else start.copy()
        self.value = np.zeros(1) if start is None else start
        self.step = 0.5 * scale.rate

    def play(self):
        return self.value

    def loss(self, event):
        return float(((self.value - event) ** 2).sum())

    def update(self, event):
        self.value -= self.step * (self.value - event)  # in place, as learners may


def steps(ocelad, rounds, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        ocelad.step(rng.normal(size=1))
    return ocelad


def test_a_scale_starts_from_the_play_of_the_next_finer_scale():
    ocelad = steps(Ocelad(LearnerBank(Mean)), 6)
    event = np.array([0.3])
    _, after = ocelad.bank.observe(event, ocelad.round_state)
    plays = [learner.play() for learner in after.learners]
    ocelad.step(event)  # round 7; round 8 starts scales 0 to 3
    assert [learner.start for learner in ocelad.bank.learners][1:] == plays


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
def test_start_of_the_finest_scale(finest):
    starts = []

    def make(scale, start):
        if scale.index == 0:
            starts.append(start)
        return Mean(scale, start)

    ocelad = steps(Ocelad(LearnerBank(make, finest=finest)), 5)
    event = np.array([0.3])
    _, after = ocelad.bank.observe(event, ocelad.round_state)
    plays = np.array([learner.play()[0] for learner in after.learners])
    starts.clear()
    ocelad.step(event)
    weights = ocelad.round_state.previous_weights
    if finest == "carry":
        assert starts == []
        assert ocelad.bank.learners[0].play() == plays[0]
    elif finest == "ensemble":
        np.testing.assert_allclose(starts, [[weights @ plays / weights.sum()]])
    else:
        assert starts == [None]


def test_reading_creates_no_learners():
    starts = []

    def make(scale, start):
        starts.append(scale.index)
        return Mean(scale, start)

    ocelad = steps(Ocelad(LearnerBank(make)), 3)
    count = len(starts)
    assert ocelad.play() == ocelad.play()
    assert len(starts) == count == 1 + 1 + 0 + 2  # rounds 1 and 2, none in 3, scales 1 and 2 in 4


def test_make_may_modify_its_start():
    def make(scale, start):
        if start is not None:
            start += 100.0
        return Mean(scale, start)

    ocelad = Ocelad(LearnerBank(make))
    ocelad.step(np.array([1.0]))
    assert ocelad.bank.learners[0].play() == 0.5
    assert ocelad.bank.learners[1].play() == 100.5


def test_learners_that_update_in_place_are_independent():
    check_bank(lambda: LearnerBank(Mean), [np.array([float(k)]) for k in range(12)])
    ocelad = steps(Ocelad(LearnerBank(Mean)), 10)
    values = [learner.play()[0] for learner in ocelad.bank.learners]
    assert len(set(values)) == len(values)


class Broken(Mean):
    """Fails at scale 2, in the given way, at the event 99."""

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
        ("loss raises", r"could not compute its loss \(ZeroDivisionError: by zero\)"),
        ("update raises", r"could not learn from the event \(RuntimeError: cannot learn\)"),
        ("plays nan", r"returned the play array\(\[nan\]\), which is not finite"),
    ],
)
def test_the_error_names_a_learner_that_fails_and_nothing_changes(how, sentence):
    ocelad = Ocelad(LearnerBank(lambda scale, start: Broken(scale, start, how)))
    steps(ocelad, 6)
    untouched = deepcopy(ocelad)
    with pytest.raises(LearnerError, match=sentence) as caught:
        ocelad.step(np.array([99.0]))
    assert "scale 2 (interval length 4)" in str(caught.value)
    assert "in round 7" in str(caught.value)
    assert (caught.value.scale.index, caught.value.round) == (2, 7)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    # The ensemble continues as if the round had not been attempted.
    for _ in range(10):
        assert (ocelad.play() == untouched.play()).all()
        one, other = ocelad.step(np.ones(1)), untouched.step(np.ones(1))
        assert (one.losses == other.losses).all()
        assert (one.probabilities == other.probabilities).all()


def test_the_error_names_a_learner_that_cannot_start():
    ocelad = Ocelad(LearnerBank(lambda scale, start: Broken(scale, start, "make")))
    ocelad.step(np.ones(1))
    ocelad.step(np.ones(1))
    round_state, play = ocelad.round_state, ocelad.play()
    with pytest.raises(LearnerError, match=r"in round 4 .* scale 2 .* could not start \(KeyError: 'no room'\)"):
        ocelad.step(np.ones(1))
    assert ocelad.round_state is round_state
    assert ocelad.play() == play


@pytest.mark.parametrize(
    ("play", "sentence"),
    [
        (lambda: 1 / 0, r"scale 0 .* could not play \(ZeroDivisionError"),
        (lambda: float("inf"), "scale 0 .* returned the play inf"),
        (lambda: None, "scale 0 .* returned the play None"),
        (lambda: {"a": np.array([1.0, np.nan])}, "scale 0 .* returned the play"),
        (lambda: (1.0, complex("nan")), "scale 0 .* returned the play"),
        (lambda: [1.0, 2.0], r"plays of type list could not be averaged .* LearnerBank\(make, mix\)"),
        (lambda: "left", "plays of type str could not be averaged"),
    ],
)
def test_the_constructor_rejects_invalid_plays(play, sentence):
    class Odd(Mean):
        def play(self):
            return play()

    with pytest.raises((LearnerError, TypeError), match=sentence):
        Ocelad(LearnerBank(Odd))


@dataclass
class Line:
    slope: np.ndarray
    height: float


class Fit(Mean):
    def play(self):
        return {"line": Line(self.value, 1.0)}

    def __init__(self, scale, start):
        super().__init__(scale, None if start is None else start["line"].slope)


def mix_lines(plays, probabilities):
    slopes = [play["line"].slope for play in plays]
    return {"line": Line(sum(p * slope for p, slope in zip(probabilities, slopes, strict=True)), 1.0)}


@pytest.mark.parametrize("finest", ["carry", "ensemble"])
def test_plays_of_any_type_with_a_custom_mix(finest):
    events = [np.array([float(k)]) for k in range(12)]
    check_bank(lambda: LearnerBank(Fit, mix_lines, finest=finest), events)
    fit, mean = Ocelad(LearnerBank(Fit, mix_lines, finest=finest)), Ocelad(LearnerBank(Mean, finest=finest))
    for event in events:
        fit.step(event)
        mean.step(event)
    assert fit.play()["line"].slope == mean.play()


@pytest.mark.parametrize("stage", ["learn", "_next_round_state"])
def test_an_interrupt_between_learners_and_weights_changes_nothing(monkeypatch, stage):
    ocelad = steps(Ocelad(LearnerBank(Mean)), 5)
    before = ocelad.play().copy()

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if stage == "learn":
            patch.setattr("ocelad.ensemble.weighting.rescaled_regret_update", interrupt)
        else:
            patch.setattr(Ocelad, "_next_round_state", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ocelad.step(np.ones(1))
    assert ocelad.n_rounds == 5
    assert ocelad.play() == before


@pytest.mark.parametrize("losses", [[1.0, 2.0, 3.0], [np.nan], 1.0])
def test_invalid_losses_of_a_bank_are_rejected(losses):
    class Odd(LearnerBank):
        def observe(self, event, round_state):
            return np.array(losses), super().observe(event, round_state)[1]

    ocelad = Ocelad(Odd(Mean))
    before = ocelad.play()
    with pytest.raises(ValueError, match="observe must return 1 finite losses in round 1"):
        ocelad.step(np.ones(1))
    assert ocelad.play() == before


@pytest.mark.parametrize("bank", [None, Mean, [1], LearnerBank, RiceBank])
def test_objects_without_the_methods_of_a_bank_are_rejected(bank):
    with pytest.raises(TypeError, match="bank must have the methods start, observe and mix, as a LearnerBank has; got"):
        Ocelad(bank)


class MinimalBank:
    """A bank with the three methods of ``Bank`` only."""

    def __init__(self):
        self.n_events = 0

    def start(self, round_state):
        return self

    def observe(self, event, round_state):
        self.n_events += 1
        return np.zeros(round_state.n_active), self

    def mix(self, round_state):
        return self.n_events


def test_a_bank_needs_no_more_than_start_observe_and_mix():
    ocelad = Ocelad(MinimalBank())
    assert ocelad.replay([1.0, 2.0]) is None
    assert ocelad.replay(Events(np.ones((3, 2)), [1, -1, 1])) is None
    assert ocelad.play() == 5
    with pytest.raises(TypeError, match="a MinimalBank cannot be saved; accepted: a bank with state and with_state"):
        ocelad.state()
    with pytest.raises(ValueError, match="has a MinimalBank; accepted: a new one from track_metric"):
        Ocelad(MinimalBank()).restore({}, {})
    with pytest.raises(TypeError, match="bank must have the methods start, observe, mix and pick"):
        Ocelad(MinimalBank(), seed=0)


def test_losses_may_be_large_and_negative():
    class Shifted(Mean):
        def loss(self, event):
            return 1e12 * (super().loss(event) - 5.0)

    plain, shifted = Ocelad(LearnerBank(Mean)), Ocelad(LearnerBank(Shifted))
    rng = np.random.default_rng(0)
    for _ in range(60):
        event = rng.normal(size=1)
        plain.step(event)
        shifted.step(event)
    # The weights depend only on differences of losses, relative to the largest one.
    np.testing.assert_allclose(plain.round_state.weights, shifted.round_state.weights, rtol=1e-6)


def test_a_learner_instead_of_a_function_that_makes_learners_is_rejected():
    sentence = r"make must be a function make\(scale, start\) that creates a learner; got a Mean object"
    with pytest.raises(TypeError, match=sentence):
        LearnerBank(Mean(Scale(0, 1), None))


def test_an_unknown_finest_is_rejected():
    with pytest.raises(ValueError, match="finest must be one of 'carry', 'ensemble', 'reset'; got 'coarse'"):
        LearnerBank(Mean, finest="coarse")


@pytest.mark.parametrize("finest", ["carry", "ensemble", "reset"])
@pytest.mark.parametrize("shortest_interval", [1, 3])
def test_rice_bank_satisfies_the_contract(finest, shortest_interval):
    rng = np.random.default_rng(0)
    events = [Event(rng.normal(size=3), float(rng.choice([-1, 1]))) for _ in range(20)]
    check_bank(
        lambda: RiceBank(Metric(np.eye(3)), step_size=0.1, finest=finest),
        events,
        shortest_interval=shortest_interval,
        invalid_event=Event(np.array([1.0, np.nan, 0.0]), 1.0),
    )


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (Event(np.full(3, np.nan), 1.0), "difference holds nan"),
        (Event(np.full(3, np.inf), 1.0), "difference holds inf"),
        (Event(np.zeros(2), 1.0), "has 2 features; 3 are expected"),
        (Event(np.zeros((3, 1)), 1.0), "has shape"),
        (Event("abc", 1.0), "holds 'abc'; accepted"),
        (Event(np.zeros(3), 0.5), "label y is 0.5; accepted"),
        (Event(np.zeros(3), False), None),
        (Event(np.full(3, 1e200), 1.0), "too far apart"),
        (Pair([1.0], [2.0], True), "has 1 features; 3 are expected"),
        (([1.0, 2.0, 3.0], 1.0), r"must be a Pair\(x, z, similar\) or an Event\(u, y\); got tuple"),
        (None, "got NoneType"),
    ],
)
def test_an_invalid_event_changes_nothing(event, sentence):
    tracker = track_metric(3)
    for _ in range(5):
        tracker.step(Pair(np.ones(3), np.zeros(3), True))
    before = tracker.play()
    if sentence is None:
        tracker.step(event)
        assert tracker.n_rounds == 6
        return
    with pytest.raises((ValueError, TypeError), match=sentence):
        tracker.step(event)
    assert tracker.play() == before


# The contract checks must detect violations of the contract and describe them.


class Drifts(Mean):
    def play(self):
        self.value = self.value + 1.0
        return self.value


class LearnsInLoss(Mean):
    def loss(self, event):
        self.update(event)
        return super().loss(event)


class Shares(Mean):
    def __deepcopy__(self, memo):
        return self


class ForgetsItsStep(Mean):
    def __deepcopy__(self, memo):
        copy = type(self)(Scale(0, 1), self.value)
        copy.value, copy.step = self.value.copy(), 0.1
        return copy


class ReturnsArrayLosses(Mean):
    def loss(self, event):
        return (self.value - event) ** 2


class ReturnsNanLosses(Mean):
    def loss(self, event):
        return float("nan")


class ReturnsTextLosses(Mean):
    def loss(self, event):
        return "3.5"


class DiffersEveryTime(Mean):
    count = 0

    def __init__(self, scale, start):
        super().__init__(scale, start)
        DiffersEveryTime.count += 1
        self.step /= DiffersEveryTime.count


class Explodes(Mean):
    def update(self, event):
        self.value = self.value + np.inf


class Fails(Mean):
    def update(self, event):
        raise RuntimeError("no")


class StartsInfinite(Mean):
    def __init__(self, scale, start):
        super().__init__(scale, start)
        self.value = np.full(1, np.inf)


class SharesItsPlay(Shares):
    def loss(self, event):
        return 1.0


class SharesItsLosses(Mean):
    bias = None

    def loss(self, event):
        return super().loss(event) + float(self.bias[0])

    def update(self, event):
        super().update(event)
        self.bias += 1.0

    def __deepcopy__(self, memo):
        copy = Mean.__new__(type(self))
        copy.__dict__ = {**self.__dict__, "value": self.value.copy()}  # the bias is shared
        return copy


def shares_its_losses(scale, start):
    learner = SharesItsLosses(scale, start)
    learner.bias = np.zeros(1)
    return learner


EVENTS = [np.array([float(k)]) for k in range(1, 12)]


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (Drifts, "play and loss must not change the learner; at event 1"),
        (LearnsInLoss, "loss must return the same number twice; at event 1"),
        (Shares, "a deep copy must be independent of the original"),
        (ForgetsItsStep, "a deep copy must learn like the original"),
        (ReturnsArrayLosses, "loss must return one finite number"),
        (ReturnsNanLosses, "loss must return one finite number; at event 1 it returned nan"),
        (ReturnsTextLosses, "loss must return one finite number; at event 1 it returned '3.5'"),
        (DiffersEveryTime, "learning must be deterministic"),
        (Explodes, "play must return finite numbers; after event 1"),
        (Fails, "update must not fail; at event 1 it raised RuntimeError: no"),
        (StartsInfinite, "play must return finite numbers; at event 1"),
        (SharesItsPlay, "a deep copy must be independent of the original; at event 1"),
        (shares_its_losses, "a deep copy must be independent of the original; at event 1"),
    ],
)
def test_check_learner_detects(broken, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_learner(lambda: broken(Scale(0, 1), None), EVENTS)


def test_check_learner_checks_its_arguments():
    check_learner(lambda: Mean(Scale(0, 1), None), iter(EVENTS))
    one = Mean(Scale(0, 1), None)
    for make, events, sentence in (
        (lambda: one, EVENTS, "the same one twice"),
        (one, EVENTS, "make must be a function"),
        (lambda: Mean(Scale(0, 1), None), [], "at least one event"),
    ):
        with pytest.raises(AssertionError, match=sentence):
            check_learner(make, events)


class ReadingChanges(LearnerBank):
    def mix(self, round_state):
        play = super().mix(round_state)
        for learner in self.learners:
            learner.value += 1.0
        return play


class ReadingChangesLater(LearnerBank):
    def mix(self, round_state):
        play = super().mix(round_state)
        for learner in self.learners:
            learner.step *= 0.9
        return play


class OneLossTooMany(LearnerBank):
    def observe(self, event, round_state):
        losses, bank = super().observe(event, round_state)
        return np.append(losses, 0.0), bank


class AcceptsAnything(LearnerBank):
    def observe(self, event, round_state):
        return super().observe(np.nan_to_num(event), round_state)


class HalfARound(LearnerBank):
    def observe(self, event, round_state):
        _, self._members = (lambda result: (None, result[1]._members))(
            super().observe(np.nan_to_num(event), round_state)
        )
        return super().observe(event, round_state)


class RemembersReading(LearnerBank):
    """Adds the number of earlier rounds in which it was read to the play; the losses do not change."""

    read = frozenset()

    def mix(self, round_state):
        self.read = self.read | {round_state.round}
        return super().mix(round_state) + float(len(self.read))

    def observe(self, event, round_state):
        losses, bank = super().observe(event, round_state)
        bank.read = self.read
        return losses, bank

    def start(self, round_state):
        bank = super().start(round_state)
        bank.read = self.read
        return bank


class MixesNanOfTwoScales(LearnerBank):
    def mix(self, round_state):
        return super().mix(round_state) * (np.nan if round_state.n_active == 2 else 1.0)


class MixesNan(LearnerBank):
    def mix(self, round_state):
        return super().mix(round_state) * (np.nan if round_state.round == 3 else 1.0)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (ReadingChanges, "mix must return the same play twice"),
        (ReadingChangesLater, "mix must not change the bank; in round 2 the losses differ"),
        (RemembersReading, "mix must not change the bank; the last play differs"),
        (OneLossTooMany, "observe must return 1 finite losses"),
        (AcceptsAnything, "observe must raise an error for the invalid event"),
        (HalfARound, "an event that is rejected must change nothing"),
        (MixesNan, "mix must return finite numbers; in round 3"),
    ],
)
def test_check_bank_detects(broken, sentence):
    invalid = np.array([np.nan]) if broken in (AcceptsAnything, HalfARound) else None
    check_bank(lambda: LearnerBank(Mean), EVENTS, invalid_event=np.array([np.nan]))
    with pytest.raises((AssertionError, ValueError), match=sentence):
        check_bank(lambda: broken(Mean), EVENTS, invalid_event=invalid)


def test_check_bank_checks_its_arguments():
    with pytest.raises(AssertionError, match="at least one event"):
        check_bank(lambda: LearnerBank(Mean), [])
    with pytest.raises(AssertionError, match="make must be a function"):
        check_bank(LearnerBank(Mean), EVENTS)


class InverseSpread:
    """A good expert: weighs each feature by the inverse of its mean square among similar pairs."""

    name = "inverse spread"

    def __init__(self):
        self.sums, self.count = np.ones(2), 1.0

    def weights(self):
        return self.count / self.sums

    def square(self, u):
        return float(self.weights() @ u**2)

    def learn(self, u, y, weight):
        if y > 0.0:
            self.sums += weight * u**2  # in place, as experts may
            self.count += weight

    def metric(self):
        return Metric.from_diagonal(self.weights())


class HasNoName(InverseSpread):
    name = ""


class HasANumberAsName(InverseSpread):
    name = 3


class ReturnsArraySquares(InverseSpread):
    def square(self, u):
        return self.weights() * u**2


class ReturnsNanSquares(InverseSpread):
    def square(self, u):
        return np.nan


class ReturnsNegativeSquares(InverseSpread):
    def square(self, u):
        return -super().square(u)


class ReturnsDistances(InverseSpread):
    def square(self, u):
        return float(np.sqrt(super().square(u)))


class PrefersADirection(InverseSpread):
    def square(self, u):
        return super().square(u) * (1.0 + 1e-12 * (u[0] > 0.0))


class SquareLearns(InverseSpread):
    def square(self, u):
        square = super().square(u)
        self.learn(u, 1.0, 1e-12)
        return square


class MetricLearns(InverseSpread):
    def metric(self):
        metric = super().metric()
        self.sums = self.sums * (1.0 + 1e-12)
        return metric


class SquareSlowsLearning(InverseSpread):
    step = 1.0

    def square(self, u):
        self.step *= 0.9
        return super().square(u)

    def learn(self, u, y, weight):
        super().learn(u, y, self.step * weight)


class SquareChangesU(InverseSpread):
    def square(self, u):
        u *= np.sqrt(self.weights())
        return float(u @ u)


class LearnChangesU(InverseSpread):
    def learn(self, u, y, weight):
        u *= weight
        super().learn(u, y, 1.0)


class SharesItsSums(InverseSpread):
    def __deepcopy__(self, memo):
        copy = type(self)()
        copy.sums, copy.count = self.sums, self.count
        return copy


class CopiesForget(InverseSpread):
    def __deepcopy__(self, memo):
        return type(self)()


class CannotBeCopied(InverseSpread):
    def __deepcopy__(self, memo):
        raise TypeError("no")


class LearnFails(InverseSpread):
    def learn(self, u, y, weight):
        raise RuntimeError("no")


class LearnsNan(InverseSpread):
    def metric(self):
        return Metric.from_trusted_matrix(np.diag(self.weights()) * (np.nan if self.count > 2.0 else 1.0), 1.0)


class DividesByTheWeight(InverseSpread):
    def learn(self, u, y, weight):
        self.sums = self.sums * (np.float64(weight) / np.float64(weight))

    def metric(self):
        return Metric.from_trusted_matrix(np.diag(self.weights()), 1.0)


class LearnsNegativeWeights(InverseSpread):
    def weights(self):
        return np.array([2.5, 2.5]) - self.count

    def square(self, u):
        return self.metric().squared_length(u)

    def metric(self):
        return Metric.from_trusted_matrix(np.diag(self.weights()), 1.0)


class IsAsymmetric(InverseSpread):
    def metric(self):
        return Metric.from_trusted_matrix(np.diag(self.weights()) + np.array([[0.0, 0.1], [-0.1, 0.0]]), 1.0)


class ReturnsAMatrix(InverseSpread):
    def metric(self):
        return np.diag(self.weights())


class HasNoMetric(InverseSpread):
    metric = None


class HasAnotherNumberOfFeatures(InverseSpread):
    def metric(self):
        return Metric(np.eye(3))


EXPERT_EVENTS = Events([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0], [2.0, 0.0], [0.0, 0.0]], [1.0, -1.0, 1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (HasNoName, "name must be a string that is not empty; got ''"),
        (HasANumberAsName, "name must be a string that is not empty; got 3"),
        (ReturnsArraySquares, "square must return one finite number of at least 0; at event 1"),
        (ReturnsNanSquares, "square must return one finite number of at least 0; at event 1 it returned nan"),
        (ReturnsNegativeSquares, "square must return one finite number of at least 0; at event 1 it returned -5.0"),
        (
            ReturnsDistances,
            r"square must return metric\(\).squared_length\(u\); at event 1 it returned 2.2.* instead of 5.0",
        ),
        (PrefersADirection, "square must be the same for u and -u; at event 1"),
        (SquareLearns, "square and metric must not change the expert; at event 1"),
        (MetricLearns, "square and metric must not change the expert; at event 1"),
        (SquareSlowsLearning, "two experts must learn the same, even if square is called only for one; after event 1"),
        (SquareChangesU, "square must not change the difference; after event 1"),
        (LearnChangesU, "learn must not change the difference; at event 1"),
        (SharesItsSums, "a deep copy must be independent of the original; at event 1"),
        (CopiesForget, "a deep copy must learn like the original; after event 2"),
        (CannotBeCopied, "deepcopy must not fail; at event 1 it raised TypeError: no"),
        (LearnFails, "learn must not fail; at event 1 it raised RuntimeError: no"),
        (LearnsNan, "metric must return finite numbers; after event 3 it did not"),
        (DividesByTheWeight, "metric must return finite numbers; after event 1 with a weight of 0"),
        (LearnsNegativeWeights, "metric must stay positive semidefinite; after event 3 it has the eigenvalue -0.5"),
        (IsAsymmetric, "metric must return a symmetric matrix; at event 1"),
        (ReturnsAMatrix, "metric must return a Metric; at event 1 it returned array"),
        (HasAnotherNumberOfFeatures, "metric must have the features of the differences, 2; at event 1 it has 3"),
    ],
)
def test_check_expert_detects(broken, sentence):
    check_expert(InverseSpread, EXPERT_EVENTS)
    with pytest.raises(AssertionError, match=sentence), np.errstate(invalid="ignore"):
        check_expert(broken, EXPERT_EVENTS)


def test_check_expert_checks_its_arguments():
    check_expert(InverseSpread, iter(EXPERT_EVENTS))
    check_expert(InverseSpread, [Pair([1.0, 2.0], [0.0, 1.0], similar=False).event()])
    one = InverseSpread()
    for make, events, sentence in (
        (lambda: one, EXPERT_EVENTS, "the same one twice"),
        (one, EXPERT_EVENTS, "make must be a function"),
        (InverseSpread, [], "at least one event"),
        (object, EXPERT_EVENTS, "make must return an expert; what it returned is an object of type object without"),
        (lambda: type("New", (), {}), EXPERT_EVENTS, r"is a class; accepted: an object, such as New\(\)"),
        (HasNoMetric, EXPERT_EVENTS, "is an object of type HasNoMetric without metric"),
    ):
        with pytest.raises(AssertionError, match=sentence):
            check_expert(make, events)


def test_one_event_is_enough_for_the_checks():
    check_learner(lambda: Mean(Scale(0, 1), None), EVENTS[:1])
    check_bank(lambda: LearnerBank(Mean), EVENTS[:1])
    check_expert(InverseSpread, EXPERT_EVENTS[:1])


def test_check_bank_uses_the_schedule_that_is_asked_for():
    # By default, as in Ocelad, the second scale starts in round 2.
    with pytest.raises(AssertionError, match="mix must return finite numbers; in round 2"):
        check_bank(lambda: MixesNanOfTwoScales(Mean), EVENTS[:2])
    check_bank(lambda: MixesNanOfTwoScales(Mean), EVENTS[:3], shortest_interval=4)
    check_bank(lambda: MixesNanOfTwoScales(Mean), EVENTS, n_scales=1)


@dataclass
class Play:
    value: np.ndarray
    name: str = "a"


@dataclass
class OtherPlay(Play):
    pass


ONE, TWO = np.array([1.0, 2.0]), np.array([1.0, 3.0])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1.0, 1.0, True),
        (1.0, 2.0, False),
        (ONE, ONE.copy(), True),
        (ONE, TWO, False),
        (ONE, 1.0, False),
        (1.0, ONE, False),
        (np.ones(2), 1.0, False),
        ((ONE, 1.0), (ONE.copy(), 1.0), True),
        ((ONE, 1.0), [ONE.copy(), 1.0], True),
        ((ONE, 1.0), (TWO, 1.0), False),
        ((ONE, 1.0), (ONE, 2.0), False),
        ((ONE, 1.0), (ONE,), False),
        ((), (ONE,), False),
        ((1.0,), 1.0, False),
        (1.0, (1.0,), False),
        ({"a": ONE}, {"a": ONE.copy()}, True),
        ({"a": ONE}, {"a": TWO}, False),
        ({"a": ONE}, {"b": ONE}, False),
        ({}, {"a": ONE}, False),
        ({"a": ONE}, 1.0, False),
        (1.0, {"a": ONE}, False),
        (Play(ONE), Play(ONE.copy()), True),
        (Play(ONE), Play(TWO), False),
        (Play(ONE), Play(ONE, "b"), False),
        (Play(ONE), OtherPlay(ONE), False),
        (Play(ONE), 1.0, False),
    ],
)
def test_plays_are_compared_by_their_values(one, other, same):
    assert contracts._equal(one, other) is same


@pytest.mark.parametrize("engine", ["dense", "fullrank"])
def test_a_picked_metric_has_the_number_of_rounds_played(engine):
    tracker = track_metric(2, engine=engine)
    for _ in range(5):
        tracker.step(Event(np.ones(2), 1.0))
    assert {tracker.bank.pick(j, tracker.round_state).round for j in range(3)} == {5}
