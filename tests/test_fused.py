"""Weighings that kernels know: a replay is one step after the other, to the bit, whatever is combined with what."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from engine_cases import COMPILED, assert_same_bits, awkward_events, awkward_relatives, together

from ocelad import Events, LearnerBank, Ocelad, Rice
from ocelad.engines.build import build_bank
from ocelad.ensemble.bank import LearnerError
from ocelad.ensemble.sampling import BLOCK, sample_learner, uniforms
from ocelad.ensemble.schedule import Schedule
from ocelad.ensemble.weighting import RescaledRegret
from ocelad.lab.baselines.cbce import Cbce
from ocelad.lab.baselines.saol import Saol

N = 3
ROUNDS = 150 if COMPILED else 20
WEIGHINGS = {"rescaled": RescaledRegret(), "saol": Saol(0.7), "cbce": Cbce(2.0)}


def ensemble(
    weighting, *, engine="fullrank", shortest=1, drawn=None, loss="hinge", starts="below", events="pairs", **more
):
    schedule = Schedule(shortest, 6)
    rice = Rice(engine=engine, step_size=0.2, loss=loss, **more)
    bank, settings = build_bank(N, rice, schedule, starts=starts, events=events)
    return Ocelad(bank, schedule=schedule, weighting=weighting, seed=drawn, settings=settings)


def assert_replays_are_steps(events, make):
    whole, parts, steps = make(), make(), make()
    margins = whole.replay(together(events))
    in_parts = np.concatenate([parts.replay(together(events[i : i + 37])) for i in range(0, len(events), 37)])
    expected = []
    for event in events:
        expected.append(steps.play().margin(event))
        steps.step(event)
    assert (in_parts == margins).all()
    np.testing.assert_allclose(margins, expected, rtol=1e-9, atol=1e-12)
    for other in (parts, steps):
        assert_same_bits(whole, other)
        assert np.array_equal(whole.round_state.records, other.round_state.records)


@pytest.mark.parametrize("drawn", [None, 11])
@pytest.mark.parametrize("weighting", WEIGHINGS)
def test_full_matrices_with_every_start(weighting, drawn):
    for starts, finest in product(("below", "ensemble", "scratch"), ("carry", "ensemble", "reset")):
        more = {"starts": starts, "finest": finest, "drawn": drawn, "shortest": 1 if finest == "carry" else 3}
        events = awkward_events(len(starts), N, ROUNDS)
        assert_replays_are_steps(events, lambda: ensemble(WEIGHINGS[weighting], **more))  # noqa: B023


@pytest.mark.parametrize("drawn", [None, 5])
@pytest.mark.parametrize("weighting", ["saol", "cbce"])
@pytest.mark.parametrize("more", [{"engine": "lowrank", "shrinkage": 0.01}, {"engine": "auto", "diagonal": True}])
def test_other_engines_with_starts_from_below(weighting, drawn, more):
    events = awkward_events(4, N, ROUNDS)
    assert_replays_are_steps(events, lambda: ensemble(WEIGHINGS[weighting], drawn=drawn, **more))


@pytest.mark.parametrize("weighting", ["saol", "cbce"])
def test_blocks_agree_but_for_how_blas_rounds(weighting):
    events = awkward_events(5, N, ROUNDS)
    blocked, low = (ensemble(WEIGHINGS[weighting], engine=engine, drawn=2) for engine in ("blocked", "lowrank"))
    np.testing.assert_allclose(blocked.replay(together(events)), low.replay(together(events)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(blocked.round_state.weights, low.round_state.weights, rtol=1e-9)


@pytest.mark.parametrize("weighting", ["saol", "cbce"])
def test_relative_comparisons(weighting):
    more = {"starts": "ensemble", "finest": "ensemble", "events": "relatives"}
    assert_replays_are_steps(awkward_relatives(6, N, ROUNDS), lambda: ensemble(WEIGHINGS[weighting], **more))


@pytest.mark.parametrize("weighting", WEIGHINGS)
def test_a_replay_that_is_refused_has_passed_up_to_there(weighting):
    good = together(awkward_events(7, N, 20))
    U, y, more = np.array(good.U), np.array(good.y), {"starts": "scratch", "finest": "reset", "drawn": 1}
    U[13], y[13] = 1e149, 1.0
    replayed, stepped = (ensemble(WEIGHINGS[weighting], loss="squared_hinge", **more) for _ in range(2))
    with pytest.raises(LearnerError, match="in round 14 the learner of scale 0"):
        replayed.replay(Events(U, y))
    stepped.replay(good[:13])
    assert_same_bits(replayed, stepped)
    replayed.replay(good[13:])
    stepped.replay(good[13:])
    assert_same_bits(replayed, stepped)


def test_a_weighing_made_of_a_known_one_is_not_taken_for_it():
    class Contrary(Saol):
        def learn(self, records, passed, rates):
            return 1.0 / super().learn(records, passed, rates)

    events = awkward_events(8, N, 40)
    assert_replays_are_steps(events, lambda: ensemble(Contrary()))
    one, other = ensemble(Contrary()), ensemble(Saol())
    one.replay(together(events))
    other.replay(together(events))
    assert not np.array_equal(one.round_state.weights, other.round_state.weights)


def test_banks_that_are_not_compiled_know_nothing_of_it():
    class Mean:
        def __init__(self, scale, start):
            self.value, self.step = 0.0 if start is None else start, scale.rate

        def play(self):
            return self.value

        def loss(self, event):
            return abs(self.value - event)

        def update(self, event):
            self.value += self.step * (event - self.value)

    for weighting in WEIGHINGS.values():
        replayed, stepped = (
            Ocelad(LearnerBank(Mean), weighting=weighting),
            Ocelad(LearnerBank(Mean), weighting=weighting),
        )
        replayed.replay([0.3, 0.7, 0.1] * 5)
        for event in [0.3, 0.7, 0.1] * 5:
            stepped.step(event)
        assert replayed.play() == stepped.play()


@pytest.mark.parametrize(("first", "count"), [(1, 1), (BLOCK - 3, 7), (BLOCK, BLOCK), (2 * BLOCK - 1, 2 * BLOCK + 2)])
def test_the_numbers_that_draw_are_those_of_the_rounds(first, count):
    numbers, weights = uniforms(9, first, count), np.array([0.2, 0.5, 0.3])
    assert len(numbers) == count
    cumulative = np.cumsum(weights)
    expected = np.searchsorted(cumulative, numbers, side="right")
    assert expected.tolist() == [sample_learner(weights, 9, first + i) for i in range(count)]
