"""The methods by which estimators learn: "adaptive", or RICE-OCELAD with the settings of a ``Rice``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np

from ocelad._typing import Arrays, Metadata
from ocelad.adaptive.adaptive_tracker import STATE_VERSION, AdaptiveTracker
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.engines.rice import resume_metric, track_metric
from ocelad.engines.rice_settings import Rice
from ocelad.engines.tracker import RiceTracker, Tracker
from ocelad.learners.comid import LossName
from ocelad.pairs import EventsName

#: What the parameter ``method`` of estimators accepts; "rice" means ``Rice()``.
Method: TypeAlias = Rice | Literal["adaptive", "rice"]
CheckedMethod: TypeAlias = Rice | Literal["adaptive"]
#: What the parameter ``curved`` of estimators accepts.
Curved: TypeAlias = bool | Literal["auto"] | Any  # a fitted transformer, or a callable
#: A tracker of differences, or of points.
AnyTracker: TypeAlias = Tracker | CurvedTracker


def check_method(method: Any) -> CheckedMethod:
    """Return the method with "rice" replaced by ``Rice()``; refuse anything unknown.

    >>> check_method("rice")
    Rice()
    """
    if isinstance(method, Rice):
        return method
    if isinstance(method, str) and method == "rice":
        return Rice()
    if isinstance(method, str) and method == "adaptive":
        return "adaptive"
    raise ValueError(f"method must be 'adaptive', 'rice' or a Rice; got {method!r}")


def start_tracker(
    method: Method,
    n_features: int,
    *,
    sparse: bool = False,
    events: EventsName = "pairs",
    items: Any = None,
) -> Tracker:
    """Create a tracker that has learned nothing yet.

    Parameters
    ----------
    method : "adaptive", "rice" or Rice
    n_features : int
    sparse : bool
        Whether the differences of pairs are sparse.
    events : {"pairs", "relatives"}
    items : array, sparse matrix or None
        Points without labels, which the method "adaptive" learns the scales of features from.
    """
    checked = check_method(method)
    if isinstance(checked, Rice):
        return RiceTracker(track_metric(n_features, checked, sparse=sparse, events=events))
    return track_adaptive(n_features, sparse=sparse, events=events, items=items)


def own_map(curved: Curved) -> Any:
    """Return the feature map that a user has given as ``curved``; None if it is a bool or "auto".

    >>> own_map("auto") is None, own_map(np.square)
    (True, <ufunc 'square'>)
    """
    if not isinstance(curved, type) and (hasattr(curved, "transform") or callable(curved)):
        return curved
    if isinstance(curved, bool | np.bool_) or (isinstance(curved, str) and curved == "auto"):
        return None
    raise ValueError(f"curved must be False, True, 'auto', a fitted transformer or a callable; got {curved!r}")


def is_curved(curved: Curved, method: Method) -> bool:
    """Return whether the distance has a curved part: "auto" means that it has, if the method is "adaptive".

    >>> is_curved("auto", "rice")
    False
    """
    adaptive, is_map = check_method(method) == "adaptive", own_map(curved) is not None
    if isinstance(curved, str) and not is_map:
        return adaptive
    wanted = is_map or bool(curved)
    if wanted and not adaptive:
        raise ValueError("a curved distance needs method='adaptive'; with RICE, curved must be False or 'auto'")
    return wanted


def resume_tracker(arrays: Arrays, metadata: Metadata) -> AnyTracker:
    """Return the tracker, of either method, whose ``state`` was saved; it continues with the same bits.

    >>> tracker = start_tracker("adaptive", n_features=3)
    >>> resume_tracker(*tracker.state()).play() == tracker.play()
    True
    """
    settings = metadata.get("settings")
    if not isinstance(settings, Mapping) or "method" not in settings:  # RICE saves no method
        return RiceTracker(resume_metric(arrays, metadata))
    if settings["method"] != "adaptive":
        raise ValueError(f"the saved method is {settings['method']!r}; accepted: 'adaptive'")
    if settings.get("version") != STATE_VERSION:
        raise ValueError(
            "it was learned by another version of the method 'adaptive', which this version cannot continue; learn "
            "from the pairs again"
        )
    tracker: AdaptiveTracker | CurvedTracker
    grouped = settings.get("grouped", False)
    try:
        if settings.get("curved"):
            tracker = CurvedTracker(settings["n_features"], sparse=settings["sparse"], grouped=grouped)
        else:
            tracker = track_adaptive(
                settings["n_features"], sparse=settings["sparse"], events=settings["events"], grouped=grouped
            )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the saved settings are not those of track_adaptive: {error}") from None
    tracker.restore(arrays, metadata)
    return tracker


def method_loss(method: Method) -> LossName:
    """Return the loss that the method minimizes; that of "adaptive" is logistic."""
    checked = check_method(method)
    return checked.loss if isinstance(checked, Rice) else "logistic"


def method_settings(method: Method) -> dict[str, Any]:
    """Return the method and its settings as one flat dict of JSON values, as saved files and the service store them.

    >>> method_settings("adaptive")
    {'method': 'adaptive'}
    >>> method_settings(Rice(step_size=0.1))["step_size"]
    0.1
    """
    checked = check_method(method)
    if not isinstance(checked, Rice):
        return {"method": checked}
    params = {name: python_value(value) for name, value in sorted(checked.get_params().items())}
    return {"method": "rice", **params}


def method_from_settings(settings: Mapping[str, Any]) -> CheckedMethod:
    """Return the method that a flat dict of settings describes.

    Files and projects without "method" predate the choice and mean "rice".

    >>> method_from_settings({"step_size": 0.1})
    Rice(step_size=0.1)
    >>> method_from_settings({"method": "adaptive", "step_size": 0.1})
    Traceback (most recent call last):
        ...
    ValueError: step_size is a setting of method='rice', but method is 'adaptive'; set method='rice' or omit step_size
    """
    of_rice = {name: value for name, value in settings.items() if name != "method"}
    method = check_method(settings.get("method", "rice"))
    if isinstance(method, Rice):
        return method if not of_rice else Rice(**of_rice)
    defaults = Rice().get_params()
    for name, value in of_rice.items():
        # Files of LabelMetricTracker list the defaults of all settings.
        if name not in defaults or value != defaults[name]:
            raise ValueError(
                f"{name} is a setting of method='rice', but method is 'adaptive'; set method='rice' or omit {name}"
            )
    return method


def python_value(value: object) -> object:
    """Return a setting as JSON can store it: a NumPy number as a Python number."""
    return value.item() if isinstance(value, np.generic) else value
