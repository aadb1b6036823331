"""Streams of answers for the tests of the adaptive ensemble."""

from __future__ import annotations

import numpy as np

from ocelad.pairs import Events


def told_by_one(seed: int, n: int, rounds: int, every: int | None = None, noise: float = 0.0) -> Events:
    """One feature tells: it differs little in similar pairs, and much in others.

    Every so many rounds another one does, of two by turns; of a single feature, what was near becomes far. A share of
    the answers, ``noise``, are drawn at random.
    """
    rng = np.random.default_rng(seed)
    U, y, t = rng.normal(size=(rounds, n)), rng.choice([-1.0, 1.0], size=rounds), np.arange(rounds)
    second = (t // (every or rounds)) % 2
    near, feature = (y > 0.0) != ((n == 1) & (second == 1)), np.minimum(second, n - 1)
    told = U[t, feature]
    U[t, feature] = np.where(near, 0.2 * told, np.sign(told) + told)
    return Events(U, np.where(rng.random(rounds) < noise, rng.choice([-1.0, 1.0], size=rounds), y))


def logistic_answers(seed: int, n: int, rounds: int, round_state: float = 0.0) -> Events:
    """Answers with the probability ``1 / (1 + exp(4 d^2 - 3))``, d the difference in a direction that may turn."""
    rng = np.random.default_rng(seed)
    U, angle = rng.normal(size=(rounds, n)), round_state * np.arange(rounds)
    d = np.cos(angle) * U[:, 0] + np.sin(angle) * U[:, -1]
    return Events(U, np.where(rng.random(rounds) < 1.0 / (1.0 + np.exp(4.0 * d**2 - 3.0)), 1.0, -1.0))


def right(margins: np.ndarray) -> float:
    """The share of right answers."""
    return float(np.mean(margins > 0.0))
