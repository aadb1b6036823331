"""The one decorator for kernels; the only file that imports numba.

A kernel is a module-level function of arrays and numbers. It is compiled on first use and kept on disk. No
reassociation of sums (the secular equation breaks under it) and no contraction, so that the same kernel run as
plain Python, with NUMBA_DISABLE_JIT=1, gives the same bits.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import event as numba_event

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


class _SaysSoOnce(numba_event.Listener):
    """Tells the user, once, why the first use takes a while; what comes from the disk does not get here."""

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"].py_func.__module__.startswith("ocelad."):
            print("ocelad: compiling its kernels for this machine, once; about 10 seconds", file=sys.stderr)
            numba_event.unregister("numba:compile", self)  # type: ignore[no-untyped-call]

    def on_end(self, event: Any) -> None:
        pass


numba_event.register("numba:compile", _SaysSoOnce())  # type: ignore[no-untyped-call]


def compiled(function: Kernel) -> Kernel:
    """Compile a kernel: cached on disk, without the interpreter's lock, division by zero as in NumPy."""
    kernel: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return cast(Kernel, kernel)
