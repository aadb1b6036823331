"""What all tests share."""

from __future__ import annotations

import sys
from pathlib import Path

import hypothesis
import matplotlib

# Tests import tests/reference.py, and examples/ as modules.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "examples")]
matplotlib.use("Agg")
# No deadline: times on a shared machine say nothing. Derandomised: a red run must be red again.
hypothesis.settings.register_profile("ocelad", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.load_profile("ocelad")
