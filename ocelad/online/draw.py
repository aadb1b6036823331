"""One learner drawn by the probabilities: the same one whenever the same seed and round are asked."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ocelad.checks import Floats

BLOCK = 1024


def drawn_one(probabilities: Floats, seed: int, t: int) -> int:
    """An index i with probability ``probabilities[i]``, a function of the seed and the round t and nothing else.

    >>> drawn_one(np.array([0.0, 1.0]), seed=0, t=1)
    1
    >>> draws = [drawn_one(np.array([0.25, 0.75]), seed=0, t=t) for t in range(4000)]
    >>> bool(0.72 < np.mean(draws) < 0.78)
    True
    """
    left, last = _uniforms(seed, t // BLOCK)[t % BLOCK], 0
    for i, probability in enumerate(probabilities.tolist()):
        if probability > 0.0:
            left, last = left - probability, i
            if left < 0.0:
                break
    return last  # also where rounding leaves the sum below 1


@lru_cache(maxsize=64)  # to seed a generator in every round would take as long as the round
def _uniforms(seed: int, block: int) -> tuple[float, ...]:
    """Numbers from [0, 1) for BLOCK rounds; others than those that a user draws with the same seed."""
    return tuple(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,))).random(BLOCK).tolist())
