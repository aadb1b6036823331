"""parse_memory: sizes such as "500 MB"."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_MAX_BYTES = 2**60
# The longest value that a message shows.
_MAX_SHOWN = 60


def parse_memory(size: Any) -> int:
    """Return a number of bytes, given as a number, or as a text with a unit or without one.

    >>> parse_memory("1.5 GB"), parse_memory("500 MiB"), parse_memory("1000000"), parse_memory(10**6)
    (1500000000, 524288000, 1000000, 1000000)
    """
    if isinstance(size, str):
        match = _SIZE.fullmatch(size)
        if match is not None and (unit := match[2].lower() or "b") in _UNITS:
            n_bytes = float(match[1]) * _UNITS[unit]
            if n_bytes <= _MAX_BYTES:
                return int(n_bytes)
    elif isinstance(size, int | np.integer) and not isinstance(size, bool) and 0 <= size <= _MAX_BYTES:
        return int(size)
    shown = repr(size) if len(repr(size)) <= _MAX_SHOWN else f"{repr(size)[:_MAX_SHOWN]}..."
    raise ValueError(
        f"memory is {shown}; accepted: a number of bytes, or a text such as '500 MB' or '2 GB', up to 1 EiB"
    )
