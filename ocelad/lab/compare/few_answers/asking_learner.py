"""AskingLearner: a tracker that chooses the pairs it learns from, which are answered by the classes of the items."""

from __future__ import annotations

from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad.choice import NoPairsLeft, PairChooser, TrackerView
from ocelad.estimators.metric_tracker import MetricTracker
from ocelad.lab.compare.block_streams import Block, EvalSet
from ocelad.lab.compare.methods import StreamInfo
from ocelad.lab.compare.scoring import Play


class AskingLearner:
    """Learns from answers about pairs of items that it chooses itself, or draws at random.

    A block of the stream only says how many answers come next.

    Parameters
    ----------
    items : EvalSet
        The items and their classes, which answer the questions.
    seed : int
    choose : bool
        Whether a ``PairChooser`` chooses the pairs; otherwise they are random.
    transitive : bool
        Whether the tracker learns from implied answers, too.
    wrong : float
        The share of wrong answers.
    curved : bool
        Whether the distance has a curved part.
    """

    def __init__(
        self,
        items: EvalSet,
        seed: int,
        *,
        choose: bool = True,
        transitive: bool = True,
        wrong: float = 0.0,
        curved: bool = True,
    ) -> None:
        self._items, self._wrong = items, wrong
        self._rng = np.random.default_rng([seed, 1])
        n_items, n_features = items.points.shape
        self._chooser = PairChooser(n_items, seed=seed) if choose else None
        self.tracker = MetricTracker(preprocessor=items.points, curved=curved, transitive=transitive).start(n_features)

    def update(self, block: Block) -> None:
        """Ask as many questions as the block has pairs; fewer if the answers imply all others."""
        for _ in range(len(block.y)):
            try:
                left, right = self._next_pair()
            except NoPairsLeft:
                return
            same = bool(self._items.labels[left] == self._items.labels[right])
            same ^= bool(self._rng.random() < self._wrong)
            if self._chooser is not None:
                self._chooser.record(left, right, "same" if same else "different")
            self.tracker.learn_one(left, right, same)

    def _next_pair(self) -> tuple[int, int]:
        n_items = len(self._items.labels)
        if self._chooser is None:
            left = int(self._rng.integers(n_items))
            return left, int((left + self._rng.integers(1, n_items)) % n_items)
        choice = self._chooser.next(TrackerView(self.tracker, self._items.points))
        return choice.left, choice.right

    def play(self) -> Play:
        return self.tracker.metric_

    def log_odds(self, X: Any, Z: Any) -> Floats:
        """Return the log odds of "similar" for each pair of rows."""
        return self.tracker.log_odds(np.stack([X, Z], axis=1))


def start_asking(info: StreamInfo, **settings: Any) -> AskingLearner:
    """Return the learner of a stream whose classes answer the questions."""
    assert info.initial_points is not None
    return AskingLearner(info.initial_points, info.seed, **settings)
