"""COMID alone, of sparse pairs, with a step size that falls: the learner of worlds at rest with many features.

Greenewald, Kelley and Hero, "Dynamic metric learning from pairwise comparisons", section VI-B, learn the embeddings of
product reviews with it.
"""

from __future__ import annotations

from copy import deepcopy
from math import sqrt
from typing import Any

from ocelad import checks
from ocelad.metric import Metric
from ocelad.online.comid import LossName
from ocelad.online.track import resume_metric, track_metric
from ocelad.pairs import Events

# The step size is the same for so many pairs: it falls by less than a twentieth meanwhile, where ``decay`` is 1000.
STRETCH = 100


class SparseComid:
    """One COMID learner with the steps ``step_size / sqrt(1 + t / decay)``, as fast as the engine "sparse".

    Parameters
    ----------
    n_features : int
    step_size : float
        eta0. For points of mean squared length 1 about 1 to 10 suits.
    decay : float
        After how many pairs the steps are smaller by ``sqrt(2)``.
    loss, max_rank, max_norm
        As in ``track_metric``.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> learner = SparseComid(3, step_size=1.0)
    >>> learner.replay(Events(csr_array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]), [-1, 1]))
    >>> learner.play().matrix.round(2) + 0.0
    array([[0.  , 0.  , 0.  ],
           [0.  , 1.33, 0.  ],
           [0.  , 0.  , 0.33]])

    Notes
    -----
    The step size is set anew every 100 pairs, and not at every one. Steps of ``1 / sqrt(t)`` from the first pair on
    fall too early here: hundreds of words must be seen before the metric has a direction at all.
    """

    def __init__(
        self,
        n_features: int,
        *,
        step_size: float,
        decay: float = 1000.0,
        loss: LossName = "hinge",
        max_rank: int = 30,
        max_norm: float | None = None,
    ) -> None:
        self._step_size = checks.number(step_size, "step_size", above=0)
        self._decay = checks.number(decay, "decay", above=0)
        self._tracker = track_metric(
            n_features,
            loss=loss,
            step_size=self._step_size,
            n_scales=1,
            engine="sparse",
            max_rank=max_rank,
            max_norm=max_norm,
        )

    @property
    def rounds(self) -> int:
        """How many pairs it has learned from."""
        return self._tracker.play().round

    def play(self) -> Metric:
        """The metric it holds."""
        return self._tracker.play()

    def replay(self, events: Events) -> None:
        """Learn from each of the events; where one is refused, from none."""
        tracker, t, first = self._tracker, self.rounds, 0
        while first < len(events):
            if t % STRETCH == 0:
                tracker = _with_step(tracker, self._step_size / sqrt(1.0 + t / self._decay))
            elif first == 0:
                tracker = deepcopy(tracker)
            last = min(len(events), first + STRETCH - t % STRETCH)
            tracker.replay(events[first:last])
            t, first = t + last - first, last
        self._tracker = tracker


def _with_step(tracker: Any, step_size: float) -> Any:
    """Another tracker, which goes on from what this one holds, with another step size."""
    arrays, about = tracker.state()
    return resume_metric(arrays, {**about, "settings": {**about["settings"], "step_size": step_size}})
