"""The decorators for kernels; the only file that imports numba.

A kernel is a module-level function of arrays and numbers. It is compiled on first use and kept on disk, and runs as
plain Python with NUMBA_DISABLE_JIT=1. Sums are not reordered (the secular equation breaks under it), but for
inner products.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event as numba_event

numba_config: Any = numba.config  # its names come from the environment, where no type checker sees them
Kernel = TypeVar("Kernel", bound=Callable[..., Any])


class _WhileCompiling(numba_event.Listener):
    """Around the compilation of a kernel of ours; what comes from the disk does not get here.

    Tells the user, once, why the first use takes a while. And has the compiler look for vector instructions in
    straight code too, not only in loops; for others' functions that stays as they set it.
    """

    def __init__(self) -> None:
        self._told = False
        self._theirs: list[Any] = []

    def on_start(self, event: Any) -> None:
        ours = event.data["dispatcher"].py_func.__module__.startswith("ocelad.")
        self._theirs.append(numba_config.SLP_VECTORIZE)
        if ours:
            numba_config.SLP_VECTORIZE = 1
            if not self._told:
                self._told = True
                # Onto standard error, unless the program has logs of its own, whose lines may be for machines.
                logging.getLogger("ocelad").warning(
                    "ocelad: compiling its kernels for this machine, once; ten seconds to a minute"
                )

    def on_end(self, event: Any) -> None:
        numba_config.SLP_VECTORIZE = self._theirs.pop()


numba_event.register("numba:compile", _WhileCompiling())  # type: ignore[no-untyped-call]


def sources_stamp(*paths: Path) -> bytes:
    """Return a digest of source files, and of all source files under folders."""
    stamp = sha256()
    for path in paths:
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            stamp.update(source.read_bytes())
    return stamp.digest()


_PACKAGE = Path(__file__).parent
# The sources that the kernels of the engines and of the adaptive ensemble are made of; import-linter holds them to it.
SHARED_SOURCES = tuple(
    _PACKAGE / name
    for name in (
        "_compile.py",
        "ensemble/schedule.py",
        "ensemble/weight_updates.py",
        "learners/losses.py",
        "engines/kernels",
        "adaptive/kernels",
    )
)


@cache
def _stamp_of(source: Path) -> bytes:
    """Return a digest of all sources that a kernel in this file may be compiled from."""
    if any(source == path or source.is_relative_to(path) for path in SHARED_SOURCES):
        return sources_stamp(*SHARED_SOURCES)
    return sources_stamp(*SHARED_SOURCES, source.parent)


def compiled(function: Kernel) -> Kernel:
    """Compile a kernel: cached on disk, without the interpreter's lock, division by zero as in NumPy.

    A product and a sum may become one instruction, which rounds once; sums keep their order.
    """
    return _compiled(function, {"contract"})


def compiled_as_written(function: Kernel) -> Kernel:
    """Compile a function that runs as plain Python too, to the same bits."""
    return _compiled(function, set())


def inlined(function: Kernel) -> Kernel:
    """Compile a kernel as a part of the one that calls it: one that is called in one place, with tuples of arrays.

    To hand over a tuple costs a reference count, an atomic one, for every array in it, and back.
    """
    return _compiled(function, {"contract"}, inline="always")


def compiled_sums(function: Kernel) -> Kernel:
    """Compile a kernel whose sums may be taken in any order, and so in vector lanes: for inner products alone."""
    return _compiled(function, {"contract", "reassoc"})


def _compiled(function: Kernel, fastmath: set[str], inline: str = "never") -> Kernel:
    options: Any = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": fastmath, "inline": inline}
    kernel: Any = numba.njit(**options)(function)
    if not numba_config.DISABLE_JIT:
        # What is on the disk holds the kernels that it calls too, but numba only compares the file that it is in: after
        # an upgrade it would run a mixture of old and new ones.
        kernel._cache._cache_file._source_stamp = _stamp_of(Path(function.__code__.co_filename))
    return cast(Kernel, kernel)
