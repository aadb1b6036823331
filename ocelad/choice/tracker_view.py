"""TrackerView: what a ``MetricTracker`` has learned about items, for the choice of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats
from ocelad.adaptive.changes import Change
from ocelad.choice.pair_ranking import Positions
from ocelad.estimators.metric_tracker import MetricTracker
from ocelad.metric import Metric


class TrackerView:
    """The present metric of a tracker and the points of all items; ``PairChooser.next`` chooses by it.

    The margins are the log odds of "same" with the method "adaptive".

    Parameters
    ----------
    tracker : MetricTracker
        A fitted tracker, or one after ``start``.
    points : array of shape (n_items, n_features)
        Of float32, it is not copied, and may be mapped into memory.
    """

    scale_metrics: Sequence[Metric] = ()
    shares: Floats = np.ones(0)

    def __init__(self, tracker: MetricTracker, points: Any) -> None:
        self.metric = tracker.metric_
        is_single = isinstance(points, np.ndarray) and points.dtype == np.float32
        self.points: npt.NDArray[Any] = points if is_single else np.asarray(points, dtype=np.float64)
        if self.points.ndim != 2 or self.points.shape[1] != self.metric.n_features:
            expected = f"(n_items, {self.metric.n_features})"
            raise ValueError(f"points have the shape {self.points.shape}; accepted: {expected}, as the tracker's")
        self.method: Literal["adaptive", "rice"] = "rice" if tracker.method_ == "rice" else "adaptive"
        self.changes: Sequence[Change] = tracker.changes_ if self.method == "adaptive" else ()

    def margins(self, left: Positions, right: Positions, /) -> Floats:
        """Return the threshold minus the squared distance of pairs of items."""
        return np.asarray(self.metric.threshold - self.metric.squared_distance(self.points[left], self.points[right]))
