"""Trials on a Dask cluster that is there already, and the one door to Dask, which is an extra.

Dask's own futures and not joblib's way to them: where a worker dies again and again, or cannot import what it is sent,
joblib waits for ever, and these say so.
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
# A cluster that grows when it is needed may have no worker at first.
WORKER_SECONDS = 60


def each_on_cluster(
    trial: Callable[[int, Seed], Result], seeds: Sequence[Seed], address: str | None
) -> Iterator[Result]:
    """``trial(place, seed)`` for each seed, as soon as it is finished; what is left is called off when nobody waits."""
    with connected(address) as client:
        from distributed import as_completed

        futures = client.map(trial, range(len(seeds)), seeds, pure=False)
        try:
            for _, result in as_completed(futures, loop=client.loop, with_results=True):
                yield result
        finally:
            client.cancel(futures)


@contextmanager
def connected(address: str | None) -> Iterator[Client]:
    """A client of the cluster whose scheduler is at the address; all workers have this very package."""
    # One that Dask cannot read makes a client that hangs for long.
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
    """Refuse a cluster without workers, or with one that has no ocelad or another one."""
    from ocelad.lab.journal import program

    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise OSError(f"the Dask cluster at {address} has no worker after {WORKER_SECONDS} seconds") from None
    # A function of the package could not even be received where there is no package: builtins everybody has.
    asked = "__import__('importlib').import_module('ocelad.lab.journal').program()"
    for worker, answer in client.run(eval, asked, on_error="return").items():
        if isinstance(answer, BaseException):
            raise ImportError(
                f"the Dask worker {worker} cannot import ocelad ({_first_line(answer)}); install the same version there"
            )
        if answer != program():
            raise ImportError(
                f"the Dask worker {worker} has another ocelad, or other versions of NumPy, SciPy, scikit-learn or "
                "numba, than this process; install the same there"
            )


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
