"""Compile the kernels of the baselines before their first use."""

from __future__ import annotations

import numpy as np

from ocelad.lab.baselines.lmnn import Lmnn


def precompile_baselines() -> None:
    """Compile all kernels of the baselines, or load them from the cache."""
    Lmnn(k=1, max_iter=1).fit_points(np.array([[0.0], [1.0], [3.0], [4.0]]), [0, 0, 1, 1])
