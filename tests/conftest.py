"""What all tests share."""

from __future__ import annotations

import hypothesis
import matplotlib

matplotlib.use("Agg")
# No deadline: times on a shared machine say nothing. Derandomised: a red run must be red again.
hypothesis.settings.register_profile("ocelad", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.load_profile("ocelad")
