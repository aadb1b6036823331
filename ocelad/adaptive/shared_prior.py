"""SharedPrior: a metric from which trackers begin, because others have learned it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ocelad._validation import check_number
from ocelad.metric import Metric

#: How far the log weight of a prior stays below the log odds that it predicts a new key better than no prior: a prior
#: that is wrong for a key costs more answers than one that is right for it saves.
CAUTION = 2.0


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
        Its log weight before the first answer, relative to the Euclidean distance; finite.

    Examples
    --------
    >>> SharedPrior(Metric([[4.0]]), log_weight=float("nan"))
    Traceback (most recent call last):
        ...
    ValueError: log_weight must be a finite number; got nan
    """

    metric: Metric
    log_weight: float

    def __post_init__(self) -> None:
        if not isinstance(self.metric, Metric):
            raise TypeError(f"metric is a {type(self.metric).__name__}; accepted: a Metric")
        object.__setattr__(self, "log_weight", check_number(self.log_weight, "log_weight"))

    @property
    def is_likely(self) -> bool:
        """Whether it probably predicts a new key better than no prior."""
        return self.log_weight >= -CAUTION


def as_priors(prior: SharedPrior | Sequence[SharedPrior] | None, n_features: int) -> tuple[SharedPrior, ...]:
    """Return one prior, several or none as a tuple, checked."""
    priors = () if prior is None else (prior,) if isinstance(prior, SharedPrior) else tuple(prior)
    for one in priors:
        if not isinstance(one, SharedPrior):
            raise TypeError(f"prior holds a {type(one).__name__}; accepted: a SharedPrior, or a sequence of them")
        if one.metric.n_features != n_features:
            raise ValueError(f"the prior has {one.metric.n_features} features; {n_features} are expected")
    return priors
