"""Compilation of the kernels that a service needs, before its first use."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ocelad.engines.rice_settings import Rice
from ocelad.estimators import MetricTracker
from ocelad.service.learning.clusters import StableKMeans
from ocelad.service.learning.tracker_settings import default_settings


def precompile_learning(n_features: Iterable[int]) -> None:
    """Compile the kernels for these numbers of features, or load them from the cache, so that no request waits."""
    for engine in {default_settings(n).get("engine", "fullrank") for n in n_features}:
        MetricTracker(method=Rice(engine=engine)).start(3).partial_fit(np.arange(36.0).reshape(6, 2, 3), [1, -1] * 3)
    StableKMeans().labels(np.eye(20, 2, dtype=np.float32), 2)
