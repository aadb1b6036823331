"""With which settings a project is learned from."""

from __future__ import annotations

from typing import Any

# Up to so many features a metric has all directions; above, a pair would take many milliseconds.
FULL_RANK_TO = 128
MOST_DIRECTIONS = 32
# Two items in the middle are as far apart as the threshold before anything is learned; and a few dozen answers are worth
# as much as a thousand and a change of the question allow (docs/active.md).
INITIAL_SCALE = 0.1
STEP_SIZE = 0.02


def default_settings(n_features: int) -> dict[str, Any]:
    """Settings of ``MetricTracker`` for items whose squared distance is 10 in the middle.

    Only engines whose bits do not depend on how answers are cut into calls are among them.

    >>> default_settings(25)
    {'initial_scale': 0.1, 'step_size': 0.02}
    >>> default_settings(784)
    {'initial_scale': 0.1, 'step_size': 0.02, 'max_rank': 32, 'engine': 'lowrank'}
    """
    settings: dict[str, Any] = {"initial_scale": INITIAL_SCALE, "step_size": STEP_SIZE}
    return settings if n_features <= FULL_RANK_TO else {**settings, "max_rank": MOST_DIRECTIONS, "engine": "lowrank"}
