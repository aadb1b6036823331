"""With which settings a project is learned from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocelad.estimators import MetricTracker
from ocelad.estimators.methods import method_from_settings, method_settings

# Up to so many features a metric has all directions; above, a pair would take many milliseconds.
FULL_RANK_TO = 128
MOST_DIRECTIONS = 32
_CUT_BY_CALLS = ("blocked", "sparse")
# The first: before anything is learned, items are about as often within the threshold as beyond it. Both: what serves a
# few dozen answers, a thousand, and a change of the question (docs/active.md).
INITIAL_SCALE = 0.1
STEP_SIZE = 0.02


def default_settings(n_features: int) -> dict[str, Any]:
    """Settings of ``MetricTracker`` for items whose squared distance is 10 in the middle.

    Only engines whose bits do not depend on how answers are cut into calls are among them.

    >>> default_settings(25)
    {'method': 'rice', 'initial_scale': 0.1, 'step_size': 0.02}
    >>> default_settings(784)
    {'method': 'rice', 'initial_scale': 0.1, 'step_size': 0.02, 'max_rank': 32, 'engine': 'lowrank'}
    """
    settings: dict[str, Any] = {"method": "rice", "initial_scale": INITIAL_SCALE, "step_size": STEP_SIZE}
    return settings if n_features <= FULL_RANK_TO else {**settings, "max_rank": MOST_DIRECTIONS, "engine": "lowrank"}


def tracker_of(settings: Mapping[str, Any]) -> MetricTracker:
    """The tracker, without a pair, of a project with these settings.

    Projects that name no method are of before there was a choice.
    """
    return MetricTracker(method=method_from_settings(settings))


def checked_settings(n_features: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of the tracker of a project, those that were given and the usual ones.

    All of them, so that a project is learned from in the same way when the usual ones have become others.

    >>> checked_settings(25, {"step_size": 0.1})["loss"]
    'logistic'
    >>> checked_settings(25, {"method": "adaptive"})  # which has nothing to set
    {'method': 'adaptive'}
    """
    usual = dict(sorted(method_settings("rice").items()))
    for name in given:
        if name not in usual:
            raise ValueError(f"the tracker has no setting {name!r}; accepted: {', '.join(sorted(usual))}")
    rice = {**usual, **default_settings(n_features)}
    settings = dict(given) if given.get("method") == "adaptive" else {**rice, **given}
    try:
        engine = tracker_of(settings).start(n_features).engine_
    except TypeError as error:
        raise ValueError(str(error)) from None
    if engine in _CUT_BY_CALLS:
        raise ValueError(
            f"the engine {engine!r}, which these settings come to, gives other bits when a log is replayed; accepted: "
            "the method rice with the engine dense, fullrank or lowrank"
        )
    return settings
