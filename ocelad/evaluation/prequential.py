"""How good a metric is: k-NN error and clustering, by test-then-train along a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.ensemble.learner import Learner
from ocelad.evaluation.scores import clustering_nmi, knn_error, knn_error_and_nmi, knn_error_by_closeness, pair_auc
from ocelad.evaluation.streams import Moment
from ocelad.metric import Metric
from ocelad.pairs import Event

__all__ = [
    "Alone",
    "Embedding",
    "Frozen",
    "Row",
    "Tracker",
    "clustering_nmi",
    "embedded",
    "knn_error",
    "knn_error_and_nmi",
    "knn_error_by_closeness",
    "pair_auc",
    "prequential",
]


class Embedding(Protocol):
    """What puts points in places: a ``Metric``, and anything else that does."""

    @property
    def rank(self) -> int: ...

    def embed(self, points: Any) -> Floats: ...


def embedded(embedding: Embedding, points: Floats) -> Floats:
    """Where a metric sees the points, along whatever directions; one that has shrunk to nothing sees all in one place.

    >>> embedded(Metric([[0.0, 0.0], [0.0, 0.0]]), np.ones((3, 2)))
    array([[0.],
           [0.],
           [0.]])
    """
    if isinstance(embedding, Metric):
        places = embedding.coordinates(points)
        return places if places.shape[1] else np.zeros((len(points), 1))
    return embedding.embed(points) if embedding.rank else np.zeros((len(points), 1))


class Tracker(Protocol):
    """What can be followed along a stream: ``Ocelad``, and anything else that plays metrics."""

    def play(self) -> Metric: ...

    def step(self, event: Event) -> object: ...


class Alone:
    """A single learner of a metric as a tracker."""

    def __init__(self, learner: Learner[Event, Metric]) -> None:
        self._learner = learner

    def play(self) -> Metric:
        return self._learner.play()

    def step(self, event: Event) -> None:
        self._learner.update(event)


class Frozen:
    """A metric that never changes as a tracker."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def play(self) -> Metric:
        return self._metric

    def step(self, event: Event) -> None:
        pass


class Row(NamedTuple):
    """How good one method was at one round, before it learned from that round's pair."""

    round: int
    phase: str
    method: str
    knn_error: float
    nmi: float


def prequential(
    moments: Iterable[Moment], trackers: Mapping[str, Tracker], *, every: int = 100, n_points: int = 600
) -> Iterator[tuple[Moment, list[Row]]]:
    """Follow a stream: every so many rounds each tracker is judged by what it played, then learns from the pair.

    Parameters
    ----------
    moments : iterable of Moment
        Such as ``DriftingClusters()``.
    trackers : mapping from name to Tracker
    every : int
        How many rounds lie between two evaluations.
    n_points : int
        How many of the stream's points are embedded for an evaluation.

    Yields
    ------
    (Moment, list of Row)
        For every round; the rows are empty between evaluations.
    """
    check_integer(every, "every", at_least=1)
    check_integer(n_points, "n_points", at_least=2)
    for moment in moments:
        rows = []
        if moment.round % every == 0:
            points, labels = moment.points(slice(n_points)), moment.labels[:n_points]
            for name, tracker in trackers.items():
                scores = knn_error_and_nmi(embedded(tracker.play(), points), labels)
                rows.append(Row(moment.round, moment.phase.name, name, *scores))
        event = moment.event()
        for tracker in trackers.values():
            tracker.step(event)
        yield moment, rows
