"""What all tests share."""

from __future__ import annotations

import hypothesis
import matplotlib
from threadpoolctl import threadpool_limits

matplotlib.use("Agg")
# Several tests at a time with several threads of linear algebra each get in each other's way, tenfold.
threadpool_limits(1)
# No deadline: times on a shared machine say nothing. Derandomised: a red run must be red again.
hypothesis.settings.register_profile("ocelad", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.load_profile("ocelad")
