"""The one door to matplotlib, which is an extra."""

from __future__ import annotations

from typing import Any


def pyplot() -> Any:
    """``matplotlib.pyplot``, or a sentence that says how to get it."""
    try:
        import matplotlib.pyplot
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'ocelad[plot]'") from None
    return matplotlib.pyplot
