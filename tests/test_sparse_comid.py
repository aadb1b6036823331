"""A learner whose steps fall, of sparse pairs, is the definition with those steps."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy.sparse import csr_array

from ocelad.baselines.comid import RatedComid
from ocelad.baselines.sparse_comid import STRETCH, SparseComid
from ocelad.metric import Metric
from ocelad.online.bank import LearnerError
from ocelad.pairs import Events

N = 6


def some_events(count, seed=0):
    draw = np.random.default_rng(seed)
    U = draw.normal(size=(count, N)) * (draw.random((count, N)) < 0.5)
    return Events(csr_array(U), np.where(np.abs(U[:, 0]) < 0.5, 1.0, -1.0))


@pytest.mark.parametrize("decay", [50.0, 1000.0])
def test_it_is_the_definition_with_steps_that_fall(decay):
    events = some_events(3 * STRETCH + 20)
    learner = SparseComid(N, step_size=0.3, decay=decay, max_rank=N)
    learner.replay(events)
    definition = RatedComid(Metric(np.eye(N) / N), rate=lambda t: 0.3 / sqrt(1 + (t - 1) // STRETCH * STRETCH / decay))
    for event in events:
        definition.update(event)
    np.testing.assert_allclose(learner.play().matrix, definition.play().matrix, rtol=1e-9, atol=1e-12)
    assert learner.play().threshold == pytest.approx(definition.play().threshold, rel=1e-9)
    assert learner.rounds == len(events)


@pytest.mark.parametrize("size", [1, 30, 110])
def test_events_may_come_in_chunks(size):
    events = some_events(120)
    at_once, in_chunks = SparseComid(N, step_size=0.3), SparseComid(N, step_size=0.3)
    at_once.replay(events)
    for first in range(0, len(events), size):
        in_chunks.replay(events[first : first + size])
    # Products of matrices of other shapes round otherwise.
    np.testing.assert_allclose(at_once.play().matrix, in_chunks.play().matrix, rtol=1e-9, atol=1e-12)


def test_what_is_refused_changes_nothing():
    learner = SparseComid(N, step_size=0.01, loss="squared_hinge")
    learner.replay(some_events(150))
    before = learner.play()
    bad = Events(csr_array(np.concatenate([some_events(120).U.toarray(), np.full((1, N), 1e140)])), [1, -1, *[1] * 119])
    with pytest.raises(LearnerError):
        learner.replay(bad)
    assert learner.play() == before
    assert learner.rounds == 150


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"step_size": 0}, "step_size must be a finite number above 0"),
        ({"decay": 0}, "decay must be a finite number above 0"),
        ({"max_rank": 0}, "max_rank must be a whole number of at least 1"),
        ({"loss": "squared"}, "loss must be one of"),
    ],
)
def test_wrong_settings_are_refused(settings, why):
    with pytest.raises(ValueError, match=why):
        SparseComid(N, **{"step_size": 0.1, **settings})
