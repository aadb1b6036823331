"""Lines of CSV files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO
from typing import Any


def csv_line(cells: Sequence[Any]) -> bytes:
    """Return a line of CSV. It ends in CR LF: with LF only, the writer would not quote a CR in a cell."""
    line = StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue().encode()
