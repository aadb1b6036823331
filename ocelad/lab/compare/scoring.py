"""Score a metric, or a similarity, on labelled points and on the pairs that come next."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from ocelad._typing import Floats
from ocelad.curved_metric import CurvedMetric
from ocelad.evaluation.prequential import embed_points
from ocelad.evaluation.scores import clustering_nmi, knn_error_and_nmi, knn_error_from_similarity, pair_auc
from ocelad.lab.baselines.cosine import CosineDistance
from ocelad.lab.baselines.oasis import Similarity
from ocelad.lab.compare.block_streams import Block
from ocelad.metric import Metric

#: What a method plays: a metric, or a distance or similarity that is not a metric.
Play: TypeAlias = Metric | CurvedMetric | CosineDistance | Similarity

#: The clusters count as found if the NMI is above this value.
NMI_THRESHOLD = 0.8


@runtime_checkable
class BlockLearner(Protocol):
    """A method while it runs on a stream: it learns from blocks of pairs."""

    def play(self) -> Play:
        """Return the current metric, distance or similarity, without side effects."""
        ...

    def update(self, block: Block) -> None:
        """Learn from the pairs of a block in order; the block holds only the side information that it requires."""
        ...


@runtime_checkable
class OddsLearner(Protocol):
    """A method that predicts the log odds of "similar" for any pair; it may have no distance."""

    def log_odds(self, X: Any, Z: Any) -> Floats:
        """Return the log odds of each pair of rows, without side effects."""
        ...

    def update(self, block: Block) -> None:
        """Learn from the pairs of a block in order."""
        ...


class Scores(NamedTuple):
    """The scores of one play; NaN if it could not be evaluated.

    Attributes
    ----------
    knn_error : float
        The leave-one-out 5-NN error on the evaluation points.
    nmi : float
        The normalized mutual information of k-means clusters and classes on the evaluation points.
    ranking_error : float
        The share of (similar, dissimilar) couples of the block's pairs in which the similar pair has the larger
        distance: one minus the area under the ROC curve.
    """

    knn_error: float
    nmi: float
    ranking_error: float


def score_play(play: Play, block: Block, *, score_pairs: bool = True) -> Scores:
    """Return the scores of a play on the evaluation points of a block and, with ``score_pairs``, on its pairs."""
    if not isinstance(play, Play):
        raise TypeError(
            f"play() of a compared method returned an object of the type {type(play).__name__}; accepted: a Metric, "
            "such as Metric(matrix) or Metric.from_diagonal(weights)"
        )
    ranking_error = 1.0 - pair_auc(pair_distances(play, block), block.y) if score_pairs else np.nan
    if block.eval_set is None:
        return Scores(np.nan, np.nan, ranking_error)
    points, labels = block.eval_set
    coordinates = embed_points(play, points)
    if not np.isfinite(coordinates).all():
        raise FloatingPointError("its distances overflow; use smaller steps")
    if isinstance(play, Similarity):
        error = knn_error_from_similarity(points @ play.matrix @ points.T, labels)
        return Scores(error, clustering_nmi(coordinates, labels), ranking_error)
    return Scores(*knn_error_and_nmi(coordinates, labels), ranking_error)


def pair_distances(play: Play, block: Block) -> Floats:
    """Return the squared distance of each pair of a block, or minus the similarity."""
    if isinstance(play, Similarity):
        return np.asarray(-play.similarity(block.X, block.Z))
    if isinstance(play, CosineDistance | CurvedMetric):
        return np.asarray(play.squared_distance(block.X, block.Z))
    return np.asarray(play.squared_length(block.events.U))
