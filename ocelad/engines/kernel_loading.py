"""Decides when compiled kernels are ready, and compiles them in the background if they are not.

Compiling the kernels of a family takes ten seconds to half a minute of processor time, once per installation; loading
them from the cache on disk takes half a second. Until they are ready, the definitions compute the rounds.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from time import perf_counter, sleep
from typing import IO, Literal, TypeAlias, get_args

from ocelad import _compile
from ocelad.engines.kernels import rounds

#: The kernels that are compiled together: those of the adaptive method, those that play it for many trackers, and those
#: of an engine of the method "rice".
Family: TypeAlias = Literal["adaptive", "many_trackers", "fullrank", "lowrank"]

_compilers: dict[Family, subprocess.Popen[bytes]] = {}
# The number of running blocks that wait for compiled code; see ``waiting_for_kernels``.
_n_waiting = 0
# How often ``compile_elsewhere`` checks whether another process has finished.
_POLL_SECONDS = 0.2


def kernels_ready(family: Family = "adaptive", *, start: bool = True) -> bool:
    """Return whether the compiled code of a family can be used without waiting.

    Parameters
    ----------
    family : {"adaptive", "fullrank", "lowrank"}
    start : bool
        Whether to compile it in the background if it is not ready.
    """
    if _n_waiting or _compile.numba_config.DISABLE_JIT or kernels_compiled(family):
        return True
    if start and family not in _compilers:
        with suppress(OSError):
            _start_compiler(family)
    compiler = _compilers.get(family)
    return compiler is not None and compiler.poll() is not None  # a failed compiler leaves the work to this process


@contextmanager
def waiting_for_kernels() -> Iterator[None]:
    """Let this process compile kernels when it first needs them, instead of computing by the definitions meanwhile.

    Many trials are then faster, and a trial has the same bits whether or not kernels were compiled before it.
    """
    global _n_waiting
    _n_waiting += 1
    try:
        yield
    finally:
        _n_waiting -= 1


def compile_elsewhere(family: Family) -> None:
    """Wait until another process has compiled the kernels of a family, unless the cache on disk holds them.

    A process that compiles kernels may round in another way than those that load them later: the compiler optimizes a
    kernel together with its callers. States that must have the same bits in every process need kernels that were
    loaded. If no other process can compile them, this one does when it first needs them.
    """
    if _compile.numba_config.DISABLE_JIT or kernels_compiled(family):
        return
    _compile.announce()
    if family in _compilers:
        _compilers[family].wait()
    with suppress(OSError):
        while not kernels_compiled(family):
            if compiler := _start_compiler(family):
                compiler.wait()
                return
            sleep(_POLL_SECONDS)


def compile_probe() -> float:
    """Compile a tiny function, which is not cached, and return the seconds that it took."""
    start = perf_counter()
    probe = lambda x: x + 1  # noqa: E731  (its module is changed, so that nothing announces it)
    probe.__module__ = "__main__"
    if _compile.numba.njit(probe)(1) != 2:  # type: ignore[attr-defined]
        raise RuntimeError("compiled code computes a wrong sum")
    return perf_counter() - start


def kernels_compiled(*families: Family) -> bool:
    """Return whether the cache on disk holds all kernels of these families; by default of all."""
    return all(_stamp(family).exists() for family in families or get_args(Family))


def kernels_folder() -> Path:
    """Return the folder of the cache on disk."""
    return _stamp("adaptive").parent


def mark_kernels_ready(family: Family = "adaptive") -> None:
    """Record that the cache on disk holds all kernels of a family."""
    _stamp(family).parent.mkdir(parents=True, exist_ok=True)
    _stamp(family).write_text(f"the kernels of {family} are compiled\n")


@cache
def _stamp(family: Family) -> Path:
    """Return the file that exists once the kernels of a family are compiled for these sources, processor and numba."""
    folder = _compile.cache_folder(rounds.loss_value)
    return folder / f"ocelad-{_compile.kernels_digest()}.{family}.compiled"


def _start_compiler(family: Family) -> subprocess.Popen[bytes] | None:
    """Start a process that compiles the kernels of a family, at a low priority; None: one does so already.

    The compiler inherits an open file with a lock, which the system releases when the compiler ends in any way.
    """
    path = _stamp(family).with_suffix(".compiling")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        if not _lock(file):
            return None
        _compilers[family] = process = subprocess.Popen(
            [sys.executable, "-m", "ocelad.adaptive.precompile", family],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=() if sys.platform == "win32" else (file.fileno(),),
        )
        file.truncate(0)
        file.write(str(process.pid))
    return process


def _lock(file: IO[str]) -> bool:
    """Lock a file and return whether no other process has; always True where files cannot be locked."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True
