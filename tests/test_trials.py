"""Trials in threads and processes: the same bits as one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from ocelad import Events, track_metric
from ocelad.lab.trials import map_trials


def trial(seed):
    U = np.random.default_rng(seed).normal(size=(80, 4))
    tracker = track_metric(4, step_size=0.05)
    tracker.replay(Events(U, np.abs(U[:, 0]) < 1))
    return tracker.play(), tracker.round_state.weights.tolist()


@pytest.mark.parametrize("backend", ["threads", "processes"])
@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_same_bits_in_the_same_order(backend, n_jobs):
    done = []
    results = map_trials(trial, range(6), n_jobs=n_jobs, backend=backend, progress=done.append)
    assert results == [trial(seed) for seed in range(6)]
    assert done == [1, 2, 3, 4, 5, 6]


def test_an_error_of_a_trial_is_raised():
    def fails(seed):
        raise ValueError(f"failed for seed {seed}")

    with pytest.raises(ValueError, match="failed for seed 3"):
        map_trials(fails, [3])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backend": "spark"}, "backend must be one of 'threads', 'processes', 'dask'"),
        ({"backend": "dask"}, "a Dask cluster needs its scheduler's address"),
        ({"n_jobs": 0}, "n_jobs must be a whole number of at least 1, or -1 for all processors; got 0"),
        ({"n_jobs": "2"}, "n_jobs must be .*; got '2'"),
        ({"seeds": 5}, "seeds must be a sequence, one for each trial; got 5"),
        ({"trial": None}, "trial must be a function of one seed; got NoneType"),
    ],
)
def test_invalid_arguments_are_rejected(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        map_trials(**{"trial": trial, "seeds": range(2), **changes})
