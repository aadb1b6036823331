"""Settings of all tests."""

from __future__ import annotations

import hypothesis
import matplotlib
from threadpoolctl import threadpool_limits

matplotlib.use("Agg")
# Parallel tests with several BLAS threads each slow each other down tenfold.
threadpool_limits(1)
# No deadline, because timings on a shared machine vary. Derandomized, so that a failure is reproducible.
hypothesis.settings.register_profile("ocelad", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.load_profile("ocelad")
