"""Drawing one learner per round: the draw depends only on the weights, the seed and the round."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ocelad._typing import Floats
from ocelad.ensemble.weight_updates import sample_index

# The number of rounds whose random numbers come from one generator.
BLOCK = 1024


def sample_learner(weights: Floats, seed: int, t: int) -> int:
    """Return the index drawn in round t, with probabilities proportional to the weights.

    >>> sample_learner(np.array([0.0, 1.0]), seed=0, t=1)
    1
    >>> draws = [sample_learner(np.array([0.25, 0.75]), seed=0, t=t) for t in range(4000)]
    >>> bool(0.72 < np.mean(draws) < 0.78)
    True
    """
    return sample_index(weights, len(weights), _block_of_uniforms(seed, t // BLOCK)[t % BLOCK])


def uniforms(seed: int, first: int, count: int) -> Floats:
    """Return the random numbers in [0, 1) of ``count`` rounds, beginning with round ``first``.

    >>> draws = [sample_learner(np.array([0.5, 0.5]), seed=3, t=t) for t in (1023, 1024)]
    >>> draws == (uniforms(seed=3, first=1023, count=2) >= 0.5).astype(int).tolist()
    True
    """
    blocks = range(first // BLOCK, (first + count - 1) // BLOCK + 1)
    numbers = np.concatenate([_block_of_uniforms(seed, block) for block in blocks])
    return numbers[first % BLOCK :][:count]


@lru_cache(maxsize=64)  # seeding a generator takes as long as a round
def _block_of_uniforms(seed: int, block: int) -> tuple[float, ...]:
    """Return random numbers for BLOCK rounds; the spawn key makes them differ from those of ``default_rng(seed)``."""
    return tuple(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,))).random(BLOCK).tolist())
