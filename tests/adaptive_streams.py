"""Streams of pairs for the tests of the adaptive ensemble."""

from __future__ import annotations

import numpy as np

from ocelad.pairs import Events


def one_informative_feature(seed: int, n: int, rounds: int, period: int | None = None, noise: float = 0.0) -> Events:
    """Return pairs of which one feature differs little if they are similar, and much otherwise.

    After every ``period`` rounds the informative feature alternates between the first two. With a single feature, near
    and far are swapped instead. A share ``noise`` of the labels is random.
    """
    rng = np.random.default_rng(seed)
    U, y, t = rng.normal(size=(rounds, n)), rng.choice([-1.0, 1.0], size=rounds), np.arange(rounds)
    second = (t // (period or rounds)) % 2
    near, feature = (y > 0.0) != ((n == 1) & (second == 1)), np.minimum(second, n - 1)
    values = U[t, feature]
    U[t, feature] = np.where(near, 0.2 * values, np.sign(values) + values)
    return Events(U, np.where(rng.random(rounds) < noise, rng.choice([-1.0, 1.0], size=rounds), y))


def logistic_answers(seed: int, n: int, rounds: int, turn: float = 0.0) -> Events:
    """Return pairs that are similar with the probability ``1 / (1 + exp(4 d^2 - 3))``.

    d is the difference along a direction that turns by the angle ``turn`` in every round.
    """
    rng = np.random.default_rng(seed)
    U, angle = rng.normal(size=(rounds, n)), turn * np.arange(rounds)
    d = np.cos(angle) * U[:, 0] + np.sin(angle) * U[:, -1]
    return Events(U, np.where(rng.random(rounds) < 1.0 / (1.0 + np.exp(4.0 * d**2 - 3.0)), 1.0, -1.0))


def accuracy(margins: np.ndarray) -> float:
    """Return the share of positive margins."""
    return float(np.mean(margins > 0.0))
