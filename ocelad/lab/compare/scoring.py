"""How a play is judged: on the points of a scene, and on the pairs that come next."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad.evaluation.prequential import clustering_nmi, embedded, knn_error_and_nmi, knn_error_by_closeness, pair_auc
from ocelad.lab.baselines.oasis import Similarity
from ocelad.lab.compare.comparison_streams import Block
from ocelad.metric import Metric

#: What a method says: a distance, or a similarity that is none.
Play: TypeAlias = Metric | Similarity

#: From which NMI on the clusters count as found.
FOUND = 0.8


class Contender(Protocol):
    """A method on its way through a stream: a learner of blocks.

    One that needs "truth" also has ``told(truth)``, which is called with the true metric before each play.
    """

    def play(self) -> Play:
        """What it says now. Changes nothing."""
        ...

    def update(self, block: Block) -> None:
        """Learn from the pairs of a block, one after the other. Of what else is in it, only what the method needs."""
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


def judged(play: Play, block: Block, *, by_pairs: bool = True) -> Scores:
    """The scores of a play by the scene of a block, and by its pairs unless those do not matter."""
    wrong = 1.0 - pair_auc(_distances(play, block), block.y) if by_pairs else np.nan
    if block.scene is None:
        return Scores(np.nan, np.nan, wrong)
    points, labels = block.scene
    places = embedded(play, points)
    if not np.isfinite(places).all():
        raise FloatingPointError("its distances overflow; smaller steps are needed")
    if isinstance(play, Similarity):
        error = knn_error_by_closeness(points @ play.matrix @ points.T, labels)
        return Scores(error, clustering_nmi(places, labels), wrong)
    return Scores(*knn_error_and_nmi(places, labels), wrong)


def _distances(play: Play, block: Block) -> Floats:
    if isinstance(play, Similarity):
        return np.asarray(-play.similarity(block.X, block.Z))
    return np.asarray(play.squared_length(block.events.U))
