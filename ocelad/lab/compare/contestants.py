"""The ways in which methods go through a stream."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from ocelad.ensemble.learner import Learner
from ocelad.ensemble.ocelad import Ocelad
from ocelad.lab.baselines.batch import Refitted
from ocelad.lab.baselines.comid_variants import Reinitialised
from ocelad.lab.baselines.targets import TargetLearner
from ocelad.lab.compare.comparison_streams import Block
from ocelad.lab.compare.scoring import Play
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair


class Ensemble:
    """An ``Ocelad``, over whatever bank."""

    def __init__(self, ensemble: Ocelad[Any, Metric]) -> None:
        self._ensemble = ensemble

    def play(self) -> Play:
        return self._ensemble.play()

    def update(self, block: Block) -> None:
        self._ensemble.replay(block.events)


class Single:
    """One online learner of a metric."""

    def __init__(self, learner: Learner[Event, Metric]) -> None:
        self._learner = learner

    def play(self) -> Play:
        return self._learner.play()

    def update(self, block: Block) -> None:
        if isinstance(self._learner, TargetLearner):
            self._learner.replay(block.events)
            return
        for event in block.events:
            self._learner.update(event)


class PairLearner(Protocol):
    """A learner that needs both points and not only their difference."""

    def play(self) -> Play: ...

    def update(self, pair: Pair) -> None: ...


class OfPoints:
    """One online learner that needs both points of a pair."""

    def __init__(self, learner: PairLearner) -> None:
        self._learner = learner

    def play(self) -> Play:
        return self._learner.play()

    def update(self, block: Block) -> None:
        for x, z, y in zip(block.X, block.Z, block.y, strict=True):
            self._learner.update(Pair(x, z, y))


class ToldOfChanges:
    """A contender that is told when the question changes, and made afresh then; it needs "changes"."""

    def __init__(self, oracle: Reinitialised[Block, Play]) -> None:
        self._oracle = oracle

    def play(self) -> Play:
        return self._oracle.play()

    def update(self, block: Block) -> None:
        cuts = [0, *block.changes, len(block)]
        for number, (first, last) in enumerate(pairwise(cuts)):
            if number > 0:
                self._oracle.changed()
            if last > first:
                self._oracle.update(block[first:last])


class Fixed:
    """A metric that never changes."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def play(self) -> Play:
        return self._metric

    def update(self, block: Block) -> None:
        pass


class Truth(Fixed):
    """The metric by which the pairs are answered, which no learner is told; it needs "truth"."""

    def told(self, truth: Metric) -> None:
        """Be told the metric of the pairs to come."""
        self._metric = truth


class Batch:
    """A batch method that is fitted anew, every so many rounds, on what was seen."""

    def __init__(self, refitted: Refitted, from_points: bool) -> None:
        self._refitted, self._from_points = refitted, from_points

    def play(self) -> Play:
        return self._refitted.play()

    def update(self, block: Block) -> None:
        if self._from_points:
            assert block.labels is not None  # a method that needs them is not run without
            # The pairs one after the other, so that a window holds the last of them.
            points = np.stack([block.X, block.Z], axis=1).reshape(-1, block.X.shape[1])
            self._refitted.see_points(points, block.labels.ravel())
        else:
            self._refitted.see_pairs(block.X, block.Z, block.y)
