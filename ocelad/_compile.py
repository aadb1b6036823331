"""Decorators that compile kernels with numba; the only module that imports numba.

A kernel is a module-level function of arrays and numbers. It is compiled on first use and cached on disk. With
NUMBA_DISABLE_JIT=1 it runs as plain Python. The decorators differ in the floating-point freedom of the compiler:

- ``jit``: a product and a sum may be fused into one instruction; sums keep their order.
- ``jit_exact``: none; the result has the same bits as plain Python.
- ``jit_reassoc``: sums may also be reordered, for inner products only. (The secular equation breaks under it.)
- ``jit_inline``: as ``jit``, and inlined into its caller.
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

numba_config: Any = numba.config  # its attributes come from the environment and are unknown to type checkers
Kernel = TypeVar("Kernel", bound=Callable[..., Any])


@cache
def announce() -> None:
    """Say once why the first use is slow."""
    # Printed to standard error unless the program configures logging, possibly for machine-readable logs.
    logging.getLogger("ocelad").warning(
        "ocelad: compiling kernels; this happens once per installation and takes ten seconds to a minute"
    )


class _CompileListener(numba_event.Listener):
    """Acts when numba compiles one of this package's kernels; loading one from the cache does not trigger it.

    Announces why the first use is slow. Enables SLP vectorization for our kernels; the setting for other functions
    stays unchanged.
    """

    def __init__(self) -> None:
        self._saved_settings: list[Any] = []

    def on_start(self, event: Any) -> None:
        self._saved_settings.append(numba_config.SLP_VECTORIZE)
        if event.data["dispatcher"].py_func.__module__.startswith("ocelad."):
            numba_config.SLP_VECTORIZE = 1
            announce()

    def on_end(self, event: Any) -> None:
        numba_config.SLP_VECTORIZE = self._saved_settings.pop()


numba_event.register("numba:compile", _CompileListener())  # type: ignore[no-untyped-call]


def source_digest(*paths: Path) -> bytes:
    """Return a digest of source files, and of all source files under folders."""
    digest = sha256()
    for path in paths:
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(source.read_bytes())
    return digest.digest()


_PACKAGE = Path(__file__).parent
# The sources of the kernels of the engines and of the adaptive ensemble; import-linter checks that they use no others.
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


def cache_folder(kernel: Any) -> Path:
    """Return the folder in which numba stores the compiled code of a kernel."""
    return Path(kernel._cache.cache_path)


@cache
def kernels_digest() -> str:
    """Return a digest of what compiled kernels depend on: their sources, numba, and the processor."""
    from llvmlite import binding  # type: ignore[import-untyped]

    machine = f"{numba.__version__} {binding.get_host_cpu_name()}".encode()
    return sha256(source_digest(*SHARED_SOURCES) + machine).hexdigest()[:20]


@cache
def _cache_stamp(source: Path) -> bytes:
    """Return a digest of all sources that a kernel in this file may depend on."""
    if any(source == path or source.is_relative_to(path) for path in SHARED_SOURCES):
        return source_digest(*SHARED_SOURCES)
    return source_digest(*SHARED_SOURCES, source.parent)


def jit(function: Kernel) -> Kernel:
    """Compile a kernel: cached on disk, without the GIL, with division by zero as in NumPy.

    A product and a sum may be fused into one instruction, which rounds once; sums keep their order.
    """
    return _compile(function, {"contract"})


def jit_exact(function: Kernel) -> Kernel:
    """Compile a function that also runs as plain Python and must give the same bits."""
    return _compile(function, set())


def jit_inline(function: Kernel) -> Kernel:
    """Compile a kernel into its caller; for kernels with tuples of arrays that are called in one place.

    Passing a tuple to a separate function costs an atomic reference count per array, on entry and on return.
    """
    return _compile(function, {"contract"}, inline="always")


def jit_reassoc(function: Kernel) -> Kernel:
    """Compile a kernel whose sums may be reordered and so vectorized; for inner products only."""
    return _compile(function, {"contract", "reassoc"})


def _compile(function: Kernel, fastmath: set[str], inline: str = "never") -> Kernel:
    options: Any = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": fastmath, "inline": inline}
    kernel: Any = numba.njit(**options)(function)
    if not numba_config.DISABLE_JIT:
        # A cached kernel contains the kernels that it calls, but numba checks only the file that defines it. After an
        # upgrade it would mix old and new kernels. The version is compared before the index of the cache is unpickled,
        # which fails if the index has types that do not exist any more.
        file = kernel._cache._cache_file
        file._source_stamp = _cache_stamp(Path(function.__code__.co_filename))
        file._version = f"{file._version} {file._source_stamp.hex()}"
    return cast(Kernel, kernel)
