"""The settings of a project's tracker: defaults and validation. The database stores them as one flat JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ocelad.engines.rice_settings import Rice
from ocelad.estimators import MetricTracker
from ocelad.estimators.learning_method import method_from_settings, method_settings

# Settings of the method "rice". Up to this many features the metric has full rank; above, a pair would take many
# milliseconds.
MAX_FULL_RANK_FEATURES = 128
MAX_RANK = 32
# The results of these engines depend on how the answers are divided into calls.
_CALL_DEPENDENT_ENGINES = ("blocked", "sparse")
# With this scale about half of the items, whose median squared distance is 10, are within the threshold before anything
# is learned. Both values were chosen for a few dozen answers, for a thousand, and for a change of the question
# (docs/active.md).
INITIAL_SCALE = 0.1
STEP_SIZE = 0.02


def default_settings() -> dict[str, Any]:
    """Return the settings of new projects.

    >>> default_settings()
    {'method': 'adaptive'}
    """
    return method_settings("adaptive")


def rice_settings(n_features: int) -> dict[str, Any]:
    """Return the settings of ``Rice`` in which projects differ from its defaults.

    >>> rice_settings(25)
    {'method': 'rice', 'initial_scale': 0.1, 'step_size': 0.02}
    >>> rice_settings(784)
    {'method': 'rice', 'initial_scale': 0.1, 'step_size': 0.02, 'max_rank': 32, 'engine': 'lowrank'}
    """
    settings: dict[str, Any] = {"method": "rice", "initial_scale": INITIAL_SCALE, "step_size": STEP_SIZE}
    return settings if n_features <= MAX_FULL_RANK_FEATURES else {**settings, "max_rank": MAX_RANK, "engine": "lowrank"}


def check_settings(n_features: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the complete settings of a new project's tracker: the given ones and defaults for the others.

    The result is complete, so that a project keeps its settings when the defaults change.

    >>> check_settings(25, {})
    {'method': 'adaptive'}
    >>> check_settings(25, {"method": "rice", "step_size": 0.1})["loss"]
    'logistic'
    """
    defaults = dict(sorted(method_settings("rice").items()))
    for name in given:
        if name not in defaults:
            raise ValueError(f"the tracker has no setting {name!r}; accepted: {', '.join(sorted(defaults))}")
    is_rice = given.get("method") == "rice"
    settings = {**(defaults | rice_settings(n_features) if is_rice else default_settings()), **given}
    try:
        method = method_from_settings(settings)
        engine = MetricTracker(method=method).start(n_features).engine_
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not isinstance(method, Rice):
        return default_settings()
    if engine in _CALL_DEPENDENT_ENGINES:
        raise ValueError(
            f"these settings select the engine {engine!r}, with which a replay of the log is not exact; accepted: the "
            "method rice with the engine dense, fullrank or lowrank"
        )
    return settings
