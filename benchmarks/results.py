"""Save and print the results of the benchmarks."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent / "results"


def save(name: str, settings: dict[str, Any], rows: list[dict[str, Any]]) -> Path:
    """Write ``results/NAME.json``, with a description of the machine, and return its path."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    content = {"settings": settings, "machine": describe_machine(), "rows": rows}
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def describe_machine() -> dict[str, Any]:
    """Return the processor, the system and the versions of packages."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: version(package) for package in ("ocelad", "numpy", "scipy", "scikit-learn")},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()


def show(console: Console, title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows as a table."""
    table = Table(title=title, box=None, padding=(0, 1, 0, 0))
    for column in rows[0]:
        table.add_column(column, justify="left" if isinstance(rows[0][column], str) else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(format_value, row.values()))
    console.print(table)


def format_value(value: float | str) -> str:
    """Format a value of a row."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.1e}" if 0 < abs(value) < 1e-3 else f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
