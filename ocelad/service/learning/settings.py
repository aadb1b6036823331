"""With which settings a project is learned from."""

from __future__ import annotations

from typing import Any

# Up to so many features a metric has all directions; above, a pair would take many milliseconds.
FULL_RANK_TO = 128
MOST_DIRECTIONS = 32


def default_settings(n_features: int) -> dict[str, Any]:
    """Settings of ``MetricTracker`` for items whose squared distance is 10 in the middle.

    Only engines whose bits do not depend on how answers are cut into calls are among them.

    >>> default_settings(25)
    {}
    >>> default_settings(784)
    {'max_rank': 32, 'engine': 'lowrank'}
    """
    return {} if n_features <= FULL_RANK_TO else {"max_rank": MOST_DIRECTIONS, "engine": "lowrank"}
