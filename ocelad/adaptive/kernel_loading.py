"""Decides when compiled code is ready, and compiles it in the background if it is not.

Compiling all kernels takes about a minute of processor time, once per machine; loading them from the cache on disk
takes half a second. Until they are ready, the definition computes the rounds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from ocelad import _compile
from ocelad.adaptive.kernels import scales

_compiler: subprocess.Popen[bytes] | None = None


def kernels_ready() -> bool:
    """Return whether compiled code can be used without waiting; otherwise start to compile it in the background."""
    global _compiler
    if _compile.numba_config.DISABLE_JIT or _stamp().exists():
        return True
    if _compiler is None:
        if not _is_compiling_elsewhere():
            _compiler = _start_compiler()
        return False
    return _compiler.poll() is not None  # a failed compiler leaves the work to this process


def mark_kernels_ready() -> None:
    """Record that the cache on disk holds all kernels of these sources."""
    _stamp().parent.mkdir(parents=True, exist_ok=True)
    _stamp().write_text("all kernels are compiled\n")


@cache
def _stamp() -> Path:
    """Return the file that exists once all kernels of these sources are compiled for this processor and numba."""
    return _compile.cache_folder(scales.total) / f"ocelad-{_compile.kernels_digest()}.compiled"


def _is_compiling_elsewhere() -> bool:
    """Return whether another process is compiling the kernels."""
    try:
        process = int(_lock().read_text())
        os.kill(process, 0)
    except (OSError, ValueError):
        return False
    return True


def _lock() -> Path:
    return _stamp().with_suffix(".compiling")


def _start_compiler() -> subprocess.Popen[bytes] | None:
    """Start a process that compiles all kernels, at a low priority."""
    command = [sys.executable, "-m", "ocelad.adaptive.precompile"]
    quiet = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        _lock().parent.mkdir(parents=True, exist_ok=True)
        _lock().write_text(str(process.pid))
    except OSError:
        return None
    return process
