"""A pytest plugin that writes how long each test took to the file that MUTATION_TIMES names."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

_times: dict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up setup, call and teardown; under xdist the controller sees all reports."""
    _times[report.nodeid] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the times, unless this is a worker of xdist."""
    if not hasattr(session.config, "workerinput"):
        Path(os.environ["MUTATION_TIMES"]).write_text(json.dumps(_times))
