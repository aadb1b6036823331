"""A split of labelled points into training points, which form the pairs, and held-out points for evaluation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad.evaluation.streams.pair_sampling import draw_pairs
from ocelad.lab.compare.block_streams import Block, EvalSet, scale_factor
from ocelad.lab.compare.few_answers.answer_benchmarks import CHECKPOINTS
from ocelad.lab.compare.few_answers.labelled_points import LabelledPoints

#: The largest number of held-out points, and the number of held-out pairs.
MAX_HELD_OUT, N_TEST_PAIRS = 1000, 4000
# The number of pairs that determine the scale of the points.
_N_SCALE_PAIRS = 1000


class Split(NamedTuple):
    """Training points with their pairs, and held-out points with theirs.

    Attributes
    ----------
    training, held_out : EvalSet
        The points with their classes.
    answers, test_pairs : Block
        Pairs of training points, and pairs of held-out points.
    """

    training: EvalSet
    held_out: EvalSet
    answers: Block
    test_pairs: Block


def count_held_out(n_points: int) -> int:
    """Return the number of held-out points: half of the points, at most ``MAX_HELD_OUT``."""
    return min(MAX_HELD_OUT, n_points // 2)


def draw_split(points: LabelledPoints, n_answers: int, seed: int, *, number: int = 0, balanced: bool = False) -> Split:
    """Draw a split.

    The seed and the number of the split determine everything. With more answers the first ones are the same. All
    points are multiplied by one factor, so that the median squared distance of pairs is as in the built-in streams.
    """
    order_rng, *pair_rngs = (np.random.default_rng(child) for child in np.random.SeedSequence([seed, number]).spawn(3))
    order = order_rng.permutation(len(points))
    n_held_out = count_held_out(len(points))
    held_out, training = np.sort(order[:n_held_out]), np.sort(order[n_held_out:])
    X = points.prepare(points.X, training)
    drawn = []
    for rows, n_pairs, rng in zip((training, held_out), (CHECKPOINTS[-1], N_TEST_PAIRS), pair_rngs, strict=True):
        pair_seed = int(rng.integers(2**62))
        drawn.append(draw_pairs(points.classes, n_pairs, pair_seed, rows=rows, balanced=balanced))
    left, right, y = drawn[0]
    X = X * scale_factor(X[left[:_N_SCALE_PAIRS]] - X[right[:_N_SCALE_PAIRS]])
    return Split(
        EvalSet(X[training], points.classes[training]),
        EvalSet(X[held_out], points.classes[held_out]),
        _make_block(X, points.classes, left[:n_answers], right[:n_answers], y[:n_answers]),
        _make_block(X, points.classes, *drawn[1]),
    )


def _make_block(X: Floats, classes: np.ndarray, left: np.ndarray, right: np.ndarray, y: Floats) -> Block:
    labels = np.stack([classes[left], classes[right]], axis=1)
    return Block(1, "", "", X[left], X[right], y, labels=labels)
