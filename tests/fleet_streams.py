"""Streams of answers of many keys, and what two fleets that learned the same have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ocelad.fleet import Fleet


class KeyedStream(NamedTuple):
    """Answers of many keys; a slice of it is a stream, too."""

    keys: list
    pairs: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def part(self, first, last=None):
        return KeyedStream(*(values[first:last] for values in self))


def keyed_stream(n_answers, n_keys, n_features=4, seed=0):
    """Return a stream of which each key looks at one feature of its own; new keys appear until its end.

    Every third key is an integer. The first keys give most answers, and every sixth one comes from the first key.
    """
    rng = np.random.default_rng(seed)
    rank = np.minimum(rng.geometric(3.0 / n_keys, n_answers), 1 + n_keys * (np.arange(n_answers) + 4) // n_answers)
    rank[::6] = 1
    keys = [int(k) if k % 3 == 0 else f"key {k}" for k in rank]
    pairs = rng.normal(size=(n_answers, 2, n_features))
    u = pairs[np.arange(n_answers), 0, rank % n_features] - pairs[np.arange(n_answers), 1, rank % n_features]
    return KeyedStream(keys, pairs, np.where(abs(u) < 1.0, 1, -1))


def learned(fleet):
    """Return everything that a fleet has learned, with all bits."""
    priors = [(prior.metric.arrays(), prior.metric.threshold, prior.log_weight) for prior in fleet.priors]
    return {
        "keys": fleet.keys(),
        "n_keys": len(fleet),
        "states": [fleet.state(key) for key in fleet.keys()],  # noqa: SIM118  of this order
        "n_answers": fleet.n_answers,
        "priors": [({name: array.tobytes() for name, array in one.items()}, *more) for one, *more in priors],
    }


def learned_at_once(stream, **settings):
    """Return what a fleet in memory learns from a stream in one call."""
    with Fleet(**settings) as fleet:
        return learned(fleet.learn(*stream))
