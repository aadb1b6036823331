"""How much an answer about each of some pairs is wanted: where the metric is unsure, and what was not asked yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.metric import Metric

Positions = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# What the squared distance of a pair that is asked should be, over the threshold. Less than 1: among near pairs more
# turn out to be the same, which random pairs seldom are.
TARGET = 0.8
# How much each of these counts beside how far from there a pair is; chosen by benchmarks/choice.py, on other seeds.
NOVELTY = 2.0
DISAGREEMENT = 0.5
SPREAD = 0.1
# The disagreement of the scales takes a product with each of their metrics: only for the best pairs without it.
SHORTLIST = 64
_TINY = float(np.finfo(np.float64).tiny)


class Seen(Protocol):
    """What is asked of a view of what was learned."""

    @property
    def points(self) -> Floats: ...
    @property
    def metric(self) -> Metric: ...
    @property
    def learners(self) -> Sequence[Metric]: ...
    @property
    def shares(self) -> Floats: ...
    def margins(self, left: Positions, right: Positions, /) -> Floats: ...


class Ranked(NamedTuple):
    """The best pairs, the most wanted first; arrays of one length."""

    rows: Positions  # which of the pairs they are
    closeness: Floats  # their distance over the threshold
    novel: Bools  # whether pairs that were asked lately tell less of them than of most
    disputed: Bools  # whether the scales disagree more about them than about most


def most_wanted(view: Seen, pairs: Positions, lately: Positions, times: Positions) -> Ranked:
    """Rank pairs by how much an answer is wanted.

    Parameters
    ----------
    view : View
    pairs : array of shape (n_pairs, 2)
        Positions of items.
    lately : array of shape (n_asked, 2)
        The pairs that were asked about last.
    times : array of shape (n_pairs,)
        How often the two items of each pair were asked about.
    """
    threshold = view.metric.threshold
    squares = threshold - view.margins(pairs[:, 0], pairs[:, 1])
    familiar = _familiar(_directions(view.points, pairs), _directions(view.points, lately))
    score = -np.abs(squares / threshold - TARGET) - NOVELTY * familiar - SPREAD * np.log2(1.0 + times)

    rows = np.argsort(-score, kind="stable")[:SHORTLIST]
    disagreement = _disagreement(view, pairs[rows])
    order = np.argsort(-(score[rows] + DISAGREEMENT * disagreement), kind="stable")
    rows = rows[order]
    return Ranked(
        rows,
        np.sqrt(np.maximum(squares[rows], 0.0) / threshold),
        familiar[rows] < np.quantile(familiar, 0.25),
        disagreement[order] > np.quantile(disagreement, 0.75),
    )


def _differences(points: Floats, pairs: Positions) -> Floats:
    return np.asarray(points[pairs[:, 0]] - points[pairs[:, 1]])


def _directions(points: Floats, pairs: Positions) -> Floats:
    """What pairs differ by, as directions of length 1; of items that are alike, none."""
    differences = _differences(points, pairs)
    lengths = np.linalg.norm(differences, axis=1, keepdims=True)
    return np.asarray(differences / np.maximum(lengths, _TINY))


def _familiar(directions: Floats, asked: Floats) -> Floats:
    """How much of the squared length of each direction is told by those that were asked: from 0 to 1.

    A squared length is linear in the metric. Where the metric is a random matrix, the lengths along two directions go
    together by the square of their inner product, and this is the share of the variance that is gone once the lengths
    along the asked ones are known up to noise as large as they are themselves.

    >>> _familiar(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 1.0]]))
    array([0. , 0.5])
    """
    with_asked = np.square(directions @ asked.T)
    among_asked = np.square(asked @ asked.T) + np.eye(len(asked))
    return np.asarray(np.einsum("ij,ji->i", with_asked, np.linalg.solve(among_asked, with_asked.T)))


def _disagreement(view: Seen, pairs: Positions) -> Floats:
    """How far the scales' margins on each pair lie apart, over the threshold."""
    differences = _differences(view.points, pairs)
    margins = np.array([metric.threshold - metric.squared_length(differences) for metric in view.learners])
    deviations = np.sqrt(view.shares @ np.square(margins - view.shares @ margins))
    return np.asarray(deviations / view.metric.threshold)
