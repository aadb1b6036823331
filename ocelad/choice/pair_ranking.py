"""The ranking of candidate pairs by uncertainty, novelty, disagreement of the scales, and coverage of the items.

Uncertainty is measured in the log odds of the method "adaptive", which are calibrated. The margins of the method "rice"
are not, and are divided by the threshold; only this method has scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.adaptive.changes import Change
from ocelad.curved_metric import AnyMetric
from ocelad.metric import Metric

Positions = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# The preferred log odds of a pair and, with the method "rice", the margin relative to the threshold. It is above 0
# because close pairs more often are the same, which random pairs rarely are.
TARGET = 0.2
# Weights of the other terms, relative to the deviation from the target; tuned by benchmarks/choice.py on other seeds.
NOVELTY_WEIGHT = 2.0
DISAGREEMENT_WEIGHT = 0.5
COVERAGE_WEIGHT = 0.1
# Disagreement requires a product with the metric of each scale, so that it is computed only for the best pairs.
SHORTLIST_SIZE = 64
_TINY = float(np.finfo(np.float64).tiny)


class PointTable(Protocol):
    """Points of items by position: an array, or what computes rows when they are asked for."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, rows: Any, /) -> Any: ...


class MetricView(Protocol):
    """The part of a view of learning that the choice of pairs uses."""

    @property
    def method(self) -> Literal["adaptive", "rice"]: ...
    @property
    def points(self) -> PointTable: ...
    @property
    def metric(self) -> AnyMetric: ...
    @property
    def scale_metrics(self) -> Sequence[Metric]: ...
    @property
    def shares(self) -> Floats: ...
    @property
    def changes(self) -> Sequence[Change]: ...
    def margins(self, left: Positions, right: Positions, /) -> Floats: ...


class PairRanking(NamedTuple):
    """The shortlist, best pair first; arrays of equal length.

    Attributes
    ----------
    rows : array of int
        The rows of the pairs among the candidates.
    margins : array of float
        The margins: the threshold minus the squared distance.
    novel : array of bool
        Whether recent pairs explain the pair less than most candidates.
    disputed : array of bool
        Whether the scales disagree more about the pair than about most of the shortlist.
    """

    rows: Positions
    margins: Floats
    novel: Bools
    disputed: Bools


def rank_pairs(view: MetricView, pairs: Positions, recent: Positions, counts: Positions) -> PairRanking:
    """Rank pairs by how informative an answer would be.

    Parameters
    ----------
    view : MetricView
    pairs : array of shape (n_pairs, 2)
        Positions of the items of the candidates.
    recent : array of shape (n_recent, 2)
        The pairs that were asked last.
    counts : array of shape (n_pairs,)
        How often the two items of each candidate were asked about.
    """
    margins = view.margins(pairs[:, 0], pairs[:, 1])
    unit = view.metric.threshold if view.method == "rice" else 1.0
    explained = _explained_share(_directions(view.points, pairs), _directions(view.points, recent))
    score = -np.abs(margins / unit - TARGET) - NOVELTY_WEIGHT * explained - COVERAGE_WEIGHT * np.log2(1.0 + counts)

    rows = np.argsort(-score, kind="stable")[:SHORTLIST_SIZE]
    disagreement = _disagreement(view, pairs[rows]) if view.scale_metrics else np.zeros(len(rows))
    order = np.argsort(-(score[rows] + DISAGREEMENT_WEIGHT * disagreement), kind="stable")
    rows = rows[order]
    return PairRanking(
        rows,
        margins[rows],
        explained[rows] < np.quantile(explained, 0.25),
        disagreement[order] > np.quantile(disagreement, 0.75),
    )


def _differences(points: PointTable, pairs: Positions) -> Floats:
    left, right = (np.asarray(points[column], dtype=np.float64) for column in pairs.T)
    return np.asarray(left - right)


def _directions(points: PointTable, pairs: Positions) -> Floats:
    """Return the differences of pairs, normalized to length 1; those of equal points are zero."""
    differences = _differences(points, pairs)
    lengths = np.linalg.norm(differences, axis=1, keepdims=True)
    return np.asarray(differences / np.maximum(lengths, _TINY))


def _explained_share(directions: Floats, asked: Floats) -> Floats:
    """Return how much of each direction's squared length the asked directions explain, from 0 to 1.

    A squared length is linear in the metric. If the metric is a random matrix, the correlation of the squared lengths
    along two directions is the square of their inner product. The result is the share of variance that is explained by
    observations along the asked directions with noise of the same variance.

    >>> _explained_share(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.0, 1.0]]))
    array([0. , 0.5])
    """
    with_asked = np.square(directions @ asked.T)
    among_asked = np.square(asked @ asked.T) + np.eye(len(asked))
    return np.asarray(np.einsum("ij,ji->i", with_asked, np.linalg.solve(among_asked, with_asked.T)))


def _disagreement(view: MetricView, pairs: Positions) -> Floats:
    """Return the standard deviation of the scales' margins on each pair, divided by the threshold."""
    differences = _differences(view.points, pairs)
    margins = np.array([metric.threshold - metric.squared_length(differences) for metric in view.scale_metrics])
    deviations = np.sqrt(view.shares @ np.square(margins - view.shares @ margins))
    return np.asarray(deviations / view.metric.threshold)
