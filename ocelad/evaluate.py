"""How good a metric is: k-NN error and clustering, by test-then-train along a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ocelad import checks
from ocelad.checks import Floats
from ocelad.metric import Metric
from ocelad.online.learner import Learner
from ocelad.pairs import Event
from ocelad.streams import Moment

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


def knn_error(points: Any, labels: Any, n_neighbors: int = 5) -> float:
    """The share of points that the vote of their nearest others gets wrong (leave-one-out).

    >>> knn_error([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1], n_neighbors=1)
    0.0
    """
    from sklearn.neighbors import NearestNeighbors

    X, classes = _labelled(points, labels)
    checks.whole(n_neighbors, "n_neighbors", at_least=1)
    if n_neighbors >= len(X):
        raise ValueError(f"n_neighbors is {n_neighbors}, but each of {len(X)} points has only {len(X) - 1} others")
    with _one_thread():
        nearest = NearestNeighbors(n_neighbors=n_neighbors, algorithm="brute").fit(X)
        neighbors = nearest.kneighbors(return_distance=False)
    votes = np.eye(classes.max() + 1)[classes[neighbors]].sum(axis=1)
    return float(np.mean(votes.argmax(axis=1) != classes))


def clustering_nmi(points: Any, labels: Any, seed: int = 0) -> float:
    """Normalised mutual information between the labels and k-means with as many clusters.

    >>> round(clustering_nmi([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1]), 6)
    1.0
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import normalized_mutual_info_score

    X, classes = _labelled(points, labels)
    distinct, clusters = np.unique(X, axis=0, return_inverse=True)
    if len(distinct) <= classes.max() + 1:  # every place is a cluster of its own; k-means would find none better
        return float(normalized_mutual_info_score(classes, clusters))
    with _one_thread():
        clusters = KMeans(classes.max() + 1, n_init=10, random_state=seed).fit_predict(X)
    return float(normalized_mutual_info_score(classes, clusters))


@cache
def _threadpools() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _one_thread() -> AbstractContextManager[object]:
    """Some hundred points are done in milliseconds; threads that wait for a busy core make it seconds."""
    limited: AbstractContextManager[object] = _threadpools().limit(limits=1)
    return limited


def _labelled(points: Any, labels: Any) -> tuple[Floats, np.ndarray]:
    X = checks.array(points, "points", 2)
    if np.shape(labels) != (len(X),):
        raise ValueError(f"labels has shape {np.shape(labels)}; accepted: one label for each of the {len(X)} points")
    try:
        _, classes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise TypeError("labels hold values that cannot be compared; accepted: all numbers or all text") from None
    return X, classes


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
    checks.whole(every, "every", at_least=1)
    checks.whole(n_points, "n_points", at_least=2)
    for moment in moments:
        rows = []
        if moment.round % every == 0:
            points, labels = moment.points(slice(n_points)), moment.labels[:n_points]
            for name, tracker in trackers.items():
                metric = tracker.play()
                # A metric that has shrunk to nothing sees all points in one place.
                embedded = metric.embed(points) if metric.rank else np.zeros((len(points), 1))
                scores = knn_error(embedded, labels), clustering_nmi(embedded, labels)
                rows.append(Row(moment.round, moment.phase.name, name, *scores))
        event = moment.event()
        for tracker in trackers.values():
            tracker.step(event)
        yield moment, rows
