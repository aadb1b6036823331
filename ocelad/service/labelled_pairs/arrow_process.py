"""Reading Parquet and Arrow files in a separate process, so that a malicious file cannot harm the service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

from ocelad.service.labelled_pairs.csv_lines import csv_line
from ocelad.service.labelled_pairs.pairs_error import PairsError
from ocelad.service.labelled_pairs.record_table import ARROW_MAGIC, PARQUET_MAGIC, read_table

MAX_SECONDS = 60
#: The largest data segment of the process, and the largest text that it may write, in bytes.
MAX_MEMORY, MAX_TEXT = 2 << 30, 256 << 20
# Other environment variables are not passed on: they may contain secrets.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "LANG", "SYSTEMROOT")
# The first byte of the output.
_TEXT, _ERROR = b"t", b"e"


def as_text(data: bytes) -> bytes:
    """Return the rows of a Parquet or Arrow file as JSON lines, and any other file unchanged."""
    if not data.startswith((PARQUET_MAGIC, ARROW_MAGIC)):
        return data
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[3]), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", f"from {__name__} import main; main()"],
            input=data,
            capture_output=True,
            env=environment,
            timeout=MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PairsError(f"reading the file took more than {MAX_SECONDS} seconds") from None
    if done.returncode or done.stdout[:1] not in (_TEXT, _ERROR):
        raise PairsError("the file cannot be read: its process has ended; the file may be damaged or too large")
    if done.stdout.startswith(_ERROR):
        raise PairsError(done.stdout[1:].decode())
    return done.stdout[1:]


def main() -> None:
    """Run the process: read a file from standard input, and write its rows to standard output."""
    _limit_memory()
    try:
        output = _TEXT + to_json_lines(sys.stdin.buffer.read())
    except MemoryError:
        output = _ERROR + f"reading the file needs more than {MAX_MEMORY >> 30} GiB of memory".encode()
    except ValueError as error:
        output = _ERROR + str(error).encode("utf-8", "replace")
    sys.stdout.buffer.write(output)


def to_json_lines(data: bytes) -> bytes:
    """Return the rows of a table as JSON lines; of one without rows, its columns as the header of a CSV file."""
    lines: list[bytes] = []
    size, table = 0, read_table(data)
    for _, row in table:
        lines.append(json.dumps(row, default=_to_json).encode() + b"\n")
        size += len(lines[-1])
        if size > MAX_TEXT:
            raise PairsError(f"the rows are longer than {MAX_TEXT >> 20} MiB as text; split the file")
    return b"".join(lines) or csv_line(table.columns)


def _to_json(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else str(value)


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows does not have it
        return
    _, hard_limit = resource.getrlimit(resource.RLIMIT_DATA)
    limit = MAX_MEMORY if hard_limit == resource.RLIM_INFINITY else min(MAX_MEMORY, hard_limit)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard_limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # only Linux has this file: it kills this process first when memory runs out
        Path("/proc/self/oom_score_adj").write_text("1000")
