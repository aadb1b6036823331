"""grown: a tracker of more features that goes on where one of fewer has come to."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from ocelad._validation import check_integer
from ocelad.engines.rice_bank import RiceBank
from ocelad.engines.track import WarmupBank, track_metric
from ocelad.ensemble.ocelad import Ocelad
from ocelad.metric import Metric


def grown(tracker: Ocelad[Any, Metric], n_features: int) -> Ocelad[Any, Metric]:
    """A tracker of more features: round, weights and every learner's metric are kept, new features start afresh.

    Every learner's ``M`` becomes ``[[M, 0], [0, initial_scale * I]]``. Without shrinkage that is what would have come
    of points that had the new features from the start, with the value 0. The tracker given stays as it is.

    Parameters
    ----------
    tracker : Ocelad
        What ``track_metric`` made. (Where it chose ``initial_scale``, that is one over the features it had then.)
    n_features : int
        How many features there are from now on, the old ones first.

    Examples
    --------
    >>> from ocelad import Pair
    >>> tracker = track_metric(1, initial_scale=0.5)
    >>> _ = tracker.step(Pair([1.0], [0.0], similar=True))
    >>> wider = grown(tracker, 2)
    >>> wider.n_rounds, float(wider.play().matrix[1, 1])
    (1, 0.5)

    Notes
    -----
    A metric of norm ``max_norm`` has a larger one when it has grown; the next step scales it back.
    """
    settings = tracker.settings if isinstance(tracker, Ocelad) else {}
    if settings.keys() != signature(track_metric).parameters.keys():
        raise TypeError(f"tracker is {tracker!r}; accepted: what track_metric made")
    n_before = settings["n_features"]
    n = check_integer(n_features, "n_features", at_least=n_before)
    if settings["max_rank"] is not None:
        raise ValueError("max_rank cannot be kept: new features are new directions; accepted: max_rank None")
    larger = track_metric(**{**settings, "n_features": n})
    round_state, bank = tracker.round_state, larger.bank
    held = tracker.bank.held(round_state)  # type: ignore[attr-defined]
    metrics = [_padded(metric, n - n_before, settings["initial_scale"]) for metric in held]
    if isinstance(bank, WarmupBank):
        return larger.resumed(bank.taking_over(metrics, round_state, larger.schedule), round_state)
    if isinstance(bank, RiceBank):
        return larger.resumed(bank.taking_over(metrics, larger.schedule), round_state)
    return larger.resumed(bank.taking_over(metrics), round_state)  # type: ignore[attr-defined]


def _padded(metric: Metric, count: int, weight: float) -> Metric:
    """The metric with so many features more, each by itself, of this weight."""
    if metric.is_diagonal:
        weights = np.concatenate([metric.diagonal, np.full(count, weight)])
        return Metric.from_diagonal(weights, metric.threshold, metric.round)
    n = metric.n_features
    matrix = np.diag(np.full(n + count, float(weight)))
    matrix[:n, :n] = metric.matrix
    return Metric.trusted(matrix, metric.threshold, metric.round)
