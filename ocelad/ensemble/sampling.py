"""One learner drawn by the weights: the same one whenever the same seed and round are asked."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ocelad._typing import Floats
from ocelad.ensemble.weight_updates import chosen

BLOCK = 1024


def drawn_one(weights: Floats, seed: int, t: int) -> int:
    """An index by its share in the weights, a function of them, the seed and the round t and nothing else.

    >>> drawn_one(np.array([0.0, 1.0]), seed=0, t=1)
    1
    >>> draws = [drawn_one(np.array([0.25, 0.75]), seed=0, t=t) for t in range(4000)]
    >>> bool(0.72 < np.mean(draws) < 0.78)
    True
    """
    return chosen(weights, len(weights), _uniforms(seed, t // BLOCK)[t % BLOCK])


def uniforms(seed: int, first: int, count: int) -> Floats:
    """The numbers that the learners of so many rounds from the first on are drawn by.

    >>> drawn = [drawn_one(np.array([0.5, 0.5]), seed=3, t=t) for t in (1023, 1024)]
    >>> drawn == (uniforms(seed=3, first=1023, count=2) >= 0.5).astype(int).tolist()
    True
    """
    blocks = range(first // BLOCK, (first + count - 1) // BLOCK + 1)
    numbers = np.concatenate([_uniforms(seed, block) for block in blocks])
    return numbers[first % BLOCK :][:count]


@lru_cache(maxsize=64)  # to seed a generator in every round would take as long as the round
def _uniforms(seed: int, block: int) -> tuple[float, ...]:
    """Numbers from [0, 1) for BLOCK rounds; others than those that a user draws with the same seed."""
    return tuple(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,))).random(BLOCK).tolist())
