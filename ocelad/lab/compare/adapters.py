"""Adapters: run each kind of learner on the blocks of a stream."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.ensemble.learner import Learner
from ocelad.ensemble.ocelad import Ocelad
from ocelad.estimators.metric_tracker import MetricTracker
from ocelad.lab.baselines.batch import PeriodicRefit
from ocelad.lab.baselines.comid_variants import ResettingLearner
from ocelad.lab.baselines.kissme import ForgettingKissme
from ocelad.lab.baselines.logdet_learner import LogDetLearner
from ocelad.lab.compare.block_streams import Block
from ocelad.lab.compare.scoring import Play
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair, PointPairs


class EnsembleAdapter:
    """Run an ``Ocelad`` ensemble, or the tracker of the adaptive method."""

    def __init__(self, ensemble: Ocelad[Any, Metric] | AdaptiveTracker) -> None:
        self._ensemble = ensemble

    def play(self) -> Play:
        return self._ensemble.play()

    def update(self, block: Block) -> None:
        self._ensemble.replay(block.events)


class CurvedAdapter:
    """Run a ``CurvedTracker``, which needs both points of a pair."""

    def __init__(self, tracker: CurvedTracker) -> None:
        self._tracker = tracker

    def play(self) -> Play:
        return self._tracker.play()

    def update(self, block: Block) -> None:
        self._tracker.replay(PointPairs.from_trusted(block.X, block.Z, block.y))


class TrackerAdapter:
    """Run a ``MetricTracker``, which has log odds, too."""

    def __init__(self, tracker: MetricTracker) -> None:
        self._tracker = tracker

    def play(self) -> Play:
        return self._tracker.metric_

    def update(self, block: Block) -> None:
        self._tracker.partial_fit(np.stack([block.X, block.Z], axis=1), block.y)

    def log_odds(self, X: Any, Z: Any) -> Floats:
        """Return the log odds of "similar" for each pair of rows."""
        return self._tracker.log_odds(np.stack([X, Z], axis=1))


class LearnerAdapter:
    """Run one online metric learner."""

    def __init__(self, learner: Learner[Event, Metric]) -> None:
        self._learner = learner

    def play(self) -> Play:
        return self._learner.play()

    def update(self, block: Block) -> None:
        if isinstance(self._learner, LogDetLearner | ForgettingKissme):
            self._learner.replay(block.events)
            return
        for event in block.events:
            self._learner.update(event)


class PairLearner(Protocol):
    """An online learner that needs both points of a pair, and not only their difference."""

    def play(self) -> Play: ...

    def update(self, pair: Pair) -> None: ...


class PairLearnerAdapter:
    """Run one online learner that needs both points of a pair."""

    def __init__(self, learner: PairLearner) -> None:
        self._learner = learner

    def play(self) -> Play:
        return self._learner.play()

    def update(self, block: Block) -> None:
        for x, z, y in zip(block.X, block.Z, block.y, strict=True):
            self._learner.update(Pair(x, z, y))


class ResettingAdapter:
    """Run a learner that is reset at each concept change; the method requires "changes"."""

    def __init__(self, oracle: ResettingLearner[Block, Play]) -> None:
        self._oracle = oracle

    def play(self) -> Play:
        return self._oracle.play()

    def update(self, block: Block) -> None:
        bounds = [0, *block.changes, len(block)]
        for number, (first, last) in enumerate(pairwise(bounds)):
            if number > 0:
                self._oracle.reset()
            if last > first:
                self._oracle.update(block[first:last])


class FixedAdapter:
    """Play one metric in all rounds."""

    def __init__(self, metric: Play) -> None:
        self._metric = metric

    def play(self) -> Play:
        return self._metric

    def update(self, block: Block) -> None:
        pass


class TrueMetricAdapter(FixedAdapter):
    """Play the metric that generates the labels, which learners do not know; the method requires "truth"."""

    def set_truth(self, truth: Metric) -> None:
        """Set the metric of the coming pairs."""
        self._metric = truth


class BatchAdapter:
    """Run a batch method that is periodically refitted to the latest pairs or points."""

    def __init__(self, method: PeriodicRefit, from_points: bool) -> None:
        self._method, self._from_points = method, from_points

    def play(self) -> Play:
        return self._method.play()

    def update(self, block: Block) -> None:
        if self._from_points:
            assert block.labels is not None  # guaranteed by Method.requires
            # Pair after pair, so that a window holds the points of the latest pairs.
            points = np.stack([block.X, block.Z], axis=1).reshape(-1, block.X.shape[1])
            self._method.add_points(points, block.labels.ravel())
        else:
            self._method.add_pairs(block.X, block.Z, block.y)
