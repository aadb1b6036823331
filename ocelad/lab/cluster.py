"""Trials on a running Dask cluster. Only this module imports Dask, which is an optional dependency.

It uses Dask's futures instead of joblib's Dask backend: if a worker dies repeatedly, or cannot import the trial, joblib
waits forever, whereas the futures raise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from distributed import Client

Seed = TypeVar("Seed")
Result = TypeVar("Result")

_ADDRESS = re.compile(r"((tcp|tls|ws|wss)://)?[^/\s]+:[0-9]{1,5}")
CONNECT_SECONDS = 10
# An adaptive cluster may start without workers.
WORKER_SECONDS = 60


def iter_cluster_trials(
    trial: Callable[[int, Seed], Result], seeds: Sequence[Seed], address: str | None
) -> Iterator[Result]:
    """Yield ``trial(index, seed)`` in the order in which trials finish; closing the iterator cancels the rest."""
    with connect(address) as client:
        from distributed import as_completed

        futures = client.map(trial, range(len(seeds)), seeds, pure=False)
        try:
            for _, result in as_completed(futures, loop=client.loop, with_results=True):
                yield result
        finally:
            client.cancel(futures)


@contextmanager
def connect(address: str | None) -> Iterator[Client]:
    """Connect to the scheduler at the address, and check that all workers have the same version of this package."""
    # A client with an address that Dask cannot parse hangs for a long time.
    if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
        raise ValueError(f"a Dask cluster needs its scheduler's address, such as tcp://127.0.0.1:8786; got {address!r}")
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("a Dask cluster needs distributed: pip install 'ocelad[cluster]'") from None
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise OSError(f"no Dask scheduler answers at {address!r} ({_first_line(error)})") from None
    with client:
        _check_workers(client, address)
        yield client


def _check_workers(client: Client, address: str) -> None:
    """Raise if the cluster has no workers, or if a worker lacks ocelad or has other sources or dependencies."""
    from ocelad.lab.journal import source_digest

    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise OSError(f"the Dask cluster at {address} has no worker after {WORKER_SECONDS} seconds") from None
    # A worker without the package cannot unpickle the package's functions, but it can run a builtin.
    expression = "__import__('importlib').import_module('ocelad.lab.journal').source_digest()"
    for worker, answer in client.run(eval, expression, on_error="return").items():
        if isinstance(answer, BaseException):
            raise ImportError(
                f"the Dask worker {worker} cannot import ocelad ({_first_line(answer)}); install the same version there"
            )
        if answer != source_digest():
            raise ImportError(
                f"the Dask worker {worker} has another ocelad, or other versions of NumPy, SciPy, scikit-learn or "
                "numba, than this process; install the same there"
            )


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
