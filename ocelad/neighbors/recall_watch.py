"""RecallWatch: the measured share of the true nearest neighbours that an approximate search finds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from ocelad._typing import Floats
from ocelad.curved_metric import AnyMetric
from ocelad.neighbors.exact_view import Found

#: The efforts of a search: each takes twice the candidates of the one before, and searches twice as far.
EFFORTS = (1, 2, 4, 8, 16, 32)
#: Queries by which the recall is measured, and those of the last searches that they are drawn from.
N_SAMPLED, N_REMEMBERED = 48, 256
#: Answers after which the recall is measured again.
CHECK_INTERVAL = 25


class RecallWatch:
    """Measures the share of the true nearest neighbours that an approximate search finds, on queries of users.

    Parameters
    ----------
    promise : float
        The recall that is promised. The effort of a search is doubled until at most half of the promised misses are
        measured; when no effort keeps the promise, the index is renewed.
    """

    def __init__(self, promise: float) -> None:
        self.promise = promise
        # Between two measurements the metric moves, and a measurement is a sample: half of the promised misses.
        self._target = (1.0 + promise) / 2.0
        self.effort = EFFORTS[0]
        self.recall = 1.0
        self._queries: deque[tuple[Floats, int]] = deque(maxlen=N_REMEMBERED)
        self._checked: AnyMetric | None = None  # the metric by which the recall was measured last; None: a new index
        self._recall_when_new = promise

    @property
    def has_queries(self) -> bool:
        """Whether there are queries to measure the recall by."""
        return bool(self._queries)

    def remember(self, queries: Floats, k: int) -> None:
        """Keep the queries of a search, from which some are drawn."""
        self._queries.extend((query, k) for query in queries[-N_REMEMBERED:])

    def is_due(self, metric: AnyMetric) -> bool:
        """Whether the recall must be measured again: after some answers, or if the metric was set anew."""
        before = self._checked
        if before is None or before is metric:
            return before is None and self.has_queries
        return self.has_queries and (before.round == metric.round or abs(metric.round - before.round) >= CHECK_INTERVAL)

    def measure(
        self,
        metric: AnyMetric,
        exact: Callable[[Floats, int], list[Found]],
        approximate: Callable[[Floats, int, int], list[Found]],
    ) -> bool:
        """Measure the recall and set the effort; return whether the index is too old for any effort.

        An index that was below the promise when it was new is as good as another new one.
        """
        is_new, self._checked = self._checked is None, metric
        remembered = list(self._queries)
        drawn = np.random.default_rng(metric.round).permutation(len(remembered))[:N_SAMPLED]
        queries, k = np.stack([remembered[at][0] for at in drawn]), max(remembered[at][1] for at in drawn)
        truth = exact(queries, k)
        for effort in EFFORTS:
            found = approximate(queries, k, effort)
            recall = float(np.mean([_share_found(*pair) for pair in zip(truth, found, strict=True)]))
            if recall >= self._target:
                break
        self.effort, self.recall = effort, recall
        if is_new:
            self._recall_when_new = min(recall, self.promise)  # another new one would be no better
        return recall < self._recall_when_new

    def start_again(self) -> None:
        """Forget what was measured of an index that has been replaced."""
        self._checked = None


def _share_found(truth: Found, found: Found) -> float:
    """Return the share of the true neighbours that were found; one that is as near as the farthest is as good."""
    if not len(truth.positions):
        return 1.0
    bound = truth.squares[-1] * (1.0 + 1e-9)
    return min(float((found.squares <= bound).sum()) / len(truth.positions), 1.0)
