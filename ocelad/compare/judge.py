"""How a play is judged: on the points of a scene, and on the pairs that come next."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from ocelad.baselines.oasis import Similarity
from ocelad.checks import Floats
from ocelad.compare.streams import Block
from ocelad.evaluate import clustering_nmi, knn_error, knn_error_by_closeness, pair_auc
from ocelad.metric import Metric

#: What a method says: a distance, or a similarity that is none.
Play: TypeAlias = Metric | Similarity

#: From which NMI on the clusters count as found.
FOUND = 0.8


class Contender(Protocol):
    """A method on its way through a stream."""

    def play(self, now: Block) -> Play:
        """What it says before it has seen the pairs of the block. Only the truth itself looks at the block."""
        ...

    def learn(self, block: Block) -> None:
        """Learn from the pairs of the block, one after the other."""
        ...


class Scores(NamedTuple):
    """How good one play was; NaN where it could not be judged.

    Attributes
    ----------
    knn_error : float
        The leave-one-out 5-NN error on the scene.
    nmi : float
        Of k-means on the scene.
    ranked_wrong : float
        The share of (similar, dissimilar) couples of the block's pairs in which the similar pair is farther apart: one
        minus the area under the ROC curve.
    """

    knn_error: float
    nmi: float
    ranked_wrong: float


def judged(play: Play, block: Block) -> Scores:
    """The scores of a play by the scene of a block, and by its pairs."""
    wrong = 1.0 - pair_auc(_distances(play, block), block.y)
    if block.scene is None:
        return Scores(np.nan, np.nan, wrong)
    points, labels = block.scene
    embedded = _embedded(play, points)
    if isinstance(play, Similarity):
        error = knn_error_by_closeness(points @ play.matrix @ points.T, labels)
    else:
        error = knn_error(embedded, labels)
    return Scores(error, clustering_nmi(embedded, labels), wrong)


def _distances(play: Play, block: Block) -> Floats:
    if isinstance(play, Similarity):
        return np.asarray(-play.similarity(block.X, block.Z))
    return np.asarray(play.squared_distance(block.X, block.Z))


def _embedded(play: Play, points: Floats) -> Floats:
    if not play.rank:  # it has shrunk to nothing, and sees all points in one place
        return np.zeros((len(points), 1))
    return np.asarray(play.embed(points))
