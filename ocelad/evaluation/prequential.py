"""Prequential evaluation: each tracker is scored on a stream before it learns from the next pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.ensemble.learner import Learner
from ocelad.evaluation.scores import knn_error_and_nmi
from ocelad.evaluation.streams import StreamStep
from ocelad.metric import Metric
from ocelad.pairs import Event

AnyEvent = TypeVar("AnyEvent")
Play = TypeVar("Play")

__all__ = ["Embedder", "FixedMetric", "ScoreRow", "SingleLearner", "Tracker", "embed_points", "prequential_scores"]


class Embedder(Protocol):
    """A map of points into a Euclidean space, such as a ``Metric``."""

    @property
    def rank(self) -> int: ...

    def embed(self, points: Any) -> Floats: ...


def embed_points(embedder: Embedder, points: Floats) -> Floats:
    """Embed points so that Euclidean distances are those of the metric. A metric of rank 0 maps all points to 0.

    >>> embed_points(Metric([[0.0, 0.0], [0.0, 0.0]]), np.ones((3, 2)))
    array([[0.],
           [0.],
           [0.]])
    """
    if isinstance(embedder, Metric):
        coordinates = embedder.embed_unordered(points)
        return coordinates if coordinates.shape[1] else np.zeros((len(points), 1))
    return embedder.embed(points) if embedder.rank else np.zeros((len(points), 1))


class Tracker(Protocol):
    """A learner of a metric that can be followed along a stream, such as ``Ocelad``."""

    def play(self) -> Metric:
        """Return the current metric."""
        ...

    def step(self, event: Event) -> object:
        """Learn from an event."""
        ...


class SingleLearner(Generic[AnyEvent, Play]):
    """A tracker that consists of one learner."""

    def __init__(self, learner: Learner[AnyEvent, Play]) -> None:
        self._learner = learner

    def play(self) -> Play:
        """Return the play of the learner."""
        return self._learner.play()

    def step(self, event: AnyEvent) -> None:
        """Update the learner."""
        self._learner.update(event)


class FixedMetric:
    """A tracker that always returns the same metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def play(self) -> Metric:
        """Return the metric."""
        return self._metric

    def step(self, event: Event) -> None:
        """Ignore the event."""


class ScoreRow(NamedTuple):
    """The scores of one tracker at one round, before it learned from the pair of that round."""

    round: int
    phase: str
    method: str
    knn_error: float
    nmi: float


def prequential_scores(
    stream: Iterable[StreamStep], trackers: Mapping[str, Tracker], *, every: int = 100, n_points: int = 600
) -> Iterator[tuple[StreamStep, list[ScoreRow]]]:
    """Run trackers along a stream, and score each of them at regular intervals before it learns from the pair.

    Parameters
    ----------
    stream : iterable of StreamStep
        Such as ``DriftingClusters()``.
    trackers : mapping from name to Tracker
    every : int
        The number of rounds between two evaluations.
    n_points : int
        The number of points of the stream that are embedded for an evaluation.

    Yields
    ------
    (StreamStep, list of ScoreRow)
        For every round; the list is empty between evaluations.
    """
    check_integer(every, "every", at_least=1)
    check_integer(n_points, "n_points", at_least=2)
    for step in stream:
        rows = []
        if step.round % every == 0:
            points, labels = step.points(slice(n_points)), step.labels[:n_points]
            for name, tracker in trackers.items():
                scores = knn_error_and_nmi(embed_points(tracker.play(), points), labels)
                rows.append(ScoreRow(step.round, step.phase.name, name, *scores))
        event = step.event()
        for tracker in trackers.values():
            tracker.step(event)
        yield step, rows
