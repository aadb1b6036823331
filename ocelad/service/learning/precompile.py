"""Compilation of the kernels that learning needs, so that neither answers nor learning wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast, get_args

import numpy as np

from ocelad.engines.choose import choose_engine
from ocelad.engines.kernel_loading import Family, kernels_ready
from ocelad.engines.rice_settings import Rice
from ocelad.estimators.learning_method import start_tracker
from ocelad.pairs import Events
from ocelad.service.learning.tracker_settings import TrackerSettings

# More rounds than RICE plays without compiled code.
_N_ROUNDS = 10


def prepare_kernels(settings: Mapping[str, Any], n_features: int) -> None:
    """Prepare the kernels for a project with these settings.

    Those of the method "adaptive" are compiled in a process in the background; until they are ready, plain NumPy
    learns. Those of the method "rice" are compiled before this returns: plain NumPy is slow with many answers, and a
    tracker that has begun with it does not change to compiled code soon.
    """
    method = TrackerSettings.read(settings).method
    if isinstance(method, Rice):
        from ocelad.adaptive.precompile import precompile

        if not method.diagonal and (engine := choose_engine(n_features, method)) in get_args(Family):
            precompile(cast(Family, engine))
        labels = np.where(np.arange(_N_ROUNDS) % 2, 1.0, -1.0)
        start_tracker(method, n_features).replay(Events(np.eye(_N_ROUNDS, n_features), labels))
    else:
        kernels_ready()


def precompile_learning(n_features: Iterable[int] = ()) -> None:
    """Start to compile the kernels of the default method in the background, and return at once.

    ``n_features`` has no effect: the kernels are the same for any number of features.
    """
    kernels_ready()
