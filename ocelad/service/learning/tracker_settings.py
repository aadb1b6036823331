"""The settings of a project's tracker: defaults and validation. The database stores them as one flat JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from ocelad._typing import Floats
from ocelad.adaptive.adaptive_tracker import STATE_VERSION
from ocelad.engines.rice_settings import Rice
from ocelad.estimators import MetricTracker
from ocelad.estimators.known_items import draw_known
from ocelad.estimators.learning_method import CheckedMethod, method_from_settings, method_settings
from ocelad.service.itemset import ScaledPoints

Points: TypeAlias = ScaledPoints | Floats

# Settings of the method "rice". Up to this many features the metric has full rank; above, a pair would take many
# milliseconds.
MAX_FULL_RANK_FEATURES = 128
MAX_RANK = 32
# The results of these engines depend on how the answers are divided into calls.
_CALL_DEPENDENT_ENGINES = ("blocked", "sparse")
# With this scale about half of the items, whose median squared distance is 10, are within the threshold before anything
# is learned. Both values were chosen for a few dozen answers, for a thousand, and for a change of the question
# (docs/explanation/choice-of-pairs.md).
INITIAL_SCALE = 0.1
STEP_SIZE = 0.02
# Settings of a curved distance, and of groups.
_CURVED, _KNOWN_ITEMS, _TRANSITIVE = "curved", "known_items", "transitive"
# The version of the method, and of the package, that a project was created with.
_VERSION = "version"
#: The versions of the methods. Two versions of the package with the same one learn the same bits from the same log.
METHOD_VERSIONS = {"adaptive": STATE_VERSION, "rice": 1}


class Replay(NamedTuple):
    """Whether a project's log is learned as by the version that the project was created with.

    ``note`` says so in one sentence; None if it is.
    """

    kind: Literal["same", "changed", "unknown"]
    note: str | None = None


@dataclass(frozen=True)
class TrackerSettings:
    """The stored settings of a project.

    Attributes
    ----------
    method : "adaptive" or Rice
    curved : bool
        Whether the distance has a curved part. Projects that do not store it predate the choice and are linear.
    known_items : int
        The number of items that the tracker knows before the first answer: those that the project was created with. A
        curved distance draws its landmarks from them, and implied answers are scaled by them. Items that are added
        later do not change it: the log does not say when they were added, and what was learned must remain a function
        of the log. 0: the landmarks come from the answers.
    transitive : bool
        Whether answers imply others and make groups: if A is the same as B, and B as C, then A is the same as C.
        Projects that do not store it predate the choice and have no groups.
    """

    method: CheckedMethod
    curved: bool = False
    known_items: int = 0
    transitive: bool = False

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """Read the settings that the database stores.

        >>> TrackerSettings.read({"method": "adaptive"}).curved
        False
        """
        others = (_CURVED, _KNOWN_ITEMS, _TRANSITIVE, _VERSION)
        of_method = {name: value for name, value in settings.items() if name not in others}
        curved, known_items = bool(settings.get(_CURVED, False)), int(settings.get(_KNOWN_ITEMS, 0))
        return cls(method_from_settings(of_method), curved, known_items, bool(settings.get(_TRANSITIVE, False)))

    def known_points(self, points: Points | None) -> Floats | None:
        """Return those of the points that the tracker knows before the first answer; None: it knows none.

        Of many float32 items, which are not all read into memory, it knows the same sample as a ``MetricTracker``.
        """
        if points is None or not self.known_items:
            return None
        if isinstance(points, ScaledPoints) and points.is_single:
            return points[draw_known(self.known_items)]
        return points[: self.known_items]


def default_settings() -> dict[str, Any]:
    """Return the settings of new projects.

    >>> default_settings()
    {'method': 'adaptive', 'curved': True, 'transitive': True}
    """
    return {**method_settings("adaptive"), _CURVED: True, _TRANSITIVE: True}


def with_known_items(settings: Mapping[str, Any], n_items: int) -> dict[str, Any]:
    """Return the settings of a new project with this many items.

    >>> with_known_items(default_settings(), 500)
    {'method': 'adaptive', 'curved': True, 'transitive': True, 'known_items': 500}
    >>> with_known_items({"method": "adaptive", "curved": False}, 500)
    {'method': 'adaptive', 'curved': False}
    """
    knows_items = settings.get(_CURVED) or settings.get(_TRANSITIVE)
    return {**settings, _KNOWN_ITEMS: n_items} if knows_items else dict(settings)


def with_version(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a new project with the versions that it is created with."""
    return {**settings, _VERSION: {"method": METHOD_VERSIONS[_method_name(settings)], "package": version("ocelad")}}


def compare_version(settings: Mapping[str, Any]) -> Replay:
    """Return whether this version learns the same bits from a project's log as the one that has created the project.

    >>> compare_version(with_version(default_settings()))
    Replay(kind='same', note=None)
    >>> compare_version(default_settings()).kind
    'unknown'
    """
    method, stored = _method_name(settings), settings.get(_VERSION)
    if not isinstance(stored, Mapping):
        return Replay(
            "unknown",
            "the project was created by a version that did not store the version of its method: all answers are kept, "
            "but what this version learns from them may differ from what was learned before",
        )
    if stored.get("method") == METHOD_VERSIONS.get(method):
        return Replay("same")
    return Replay(
        "changed",
        f"the project was created with version {stored.get('method')} of the method {method!r} (ocelad "
        f"{stored.get('package')}), and this service learns with version {METHOD_VERSIONS.get(method)} (ocelad "
        f"{version('ocelad')}): all answers are kept, but what is learned from them differs from what was learned "
        "before; to learn it to the same bits, serve the project with the earlier version",
    )


def _method_name(settings: Mapping[str, Any]) -> str:
    return str(settings.get("method", "rice"))


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
    {'method': 'adaptive', 'curved': True, 'transitive': True}
    >>> check_settings(25, {"curved": False, "transitive": False})
    {'method': 'adaptive', 'curved': False, 'transitive': False}
    >>> check_settings(25, {"method": "rice", "step_size": 0.1})["loss"]
    'logistic'
    """
    defaults = dict(sorted(method_settings("rice").items()))
    for name in given:
        if name not in (*defaults, _CURVED, _TRANSITIVE):
            accepted = ", ".join(sorted([*defaults, _CURVED, _TRANSITIVE]))
            raise ValueError(f"the tracker has no setting {name!r}; accepted: {accepted}")
    is_rice = given.get("method") == "rice"
    curved, transitive = given.get(_CURVED, not is_rice), given.get(_TRANSITIVE, True)
    for name, value in ((_CURVED, curved), (_TRANSITIVE, transitive)):
        if not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}; accepted: true or false")
    if is_rice and curved:
        raise ValueError("the method rice learns a linear distance; accepted: curved=false, or the method adaptive")
    of_method = {name: value for name, value in given.items() if name not in (_CURVED, _TRANSITIVE)}
    settings = {**(defaults | rice_settings(n_features) if is_rice else method_settings("adaptive")), **of_method}
    try:
        method = method_from_settings(settings)
        engine = MetricTracker(method=method).start(n_features).engine_
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not isinstance(method, Rice):
        return {**method_settings(method), _CURVED: curved, _TRANSITIVE: transitive}
    if engine in _CALL_DEPENDENT_ENGINES:
        raise ValueError(
            f"these settings select the engine {engine!r}, with which a replay of the log is not exact; accepted: the "
            "method rice with the engine dense, fullrank or lowrank"
        )
    return {**settings, _TRANSITIVE: transitive}
