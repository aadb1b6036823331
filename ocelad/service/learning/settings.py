"""With which settings a project is learned from."""

from __future__ import annotations

from typing import Any

# Up to so many features a metric has all directions; above, a pair would take many milliseconds.
FULL_RANK_TO = 128
MOST_DIRECTIONS = 32
# The first: before anything is learned, items are about as often within the threshold as beyond it. Both: what serves a
# few dozen answers, a thousand, and a change of the question (docs/active.md).
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
