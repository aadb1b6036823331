"""SharedPrior: a metric from which trackers begin, because others have learned it."""

from __future__ import annotations

from dataclasses import dataclass

from ocelad.metric import Metric


@dataclass(frozen=True)
class SharedPrior:
    """A metric that joins the ensemble of a new tracker as its first memory.

    The tracker begins with what others have learned, and keeps it only if it predicts its own answers: a memory is an
    expert like any other.

    Parameters
    ----------
    metric : Metric
        ``threshold - d^2`` are its log odds of "same".
    log_weight : float
        Its log weight before the first answer, relative to the Euclidean distance.
    """

    metric: Metric
    log_weight: float
