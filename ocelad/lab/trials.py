"""Run many independent trials in parallel: in threads, in processes, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Literal, TypeVar, get_args

from ocelad._validation import check_choice
from ocelad.lab.cluster import iter_cluster_trials

Seed = TypeVar("Seed")
Result = TypeVar("Result")
Backend = Literal["threads", "processes", "dask"]

IDLE_SECONDS = 10


def map_trials(
    trial: Callable[[Seed], Result],
    seeds: Sequence[Seed],
    *,
    n_jobs: int = -1,
    backend: Backend = "threads",
    address: str | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[Result]:
    """Compute ``[trial(seed) for seed in seeds]`` in parallel: the same results, bit for bit, in the same order.

    Parameters
    ----------
    trial : callable
        A function of one seed. With processes and on a cluster, it and its results must be picklable.
    seeds : sequence
        The arguments of the trials, of any type.
    n_jobs : int
        The number of parallel trials; -1: one per processor. Ignored on a cluster, which runs one trial per thread of
        its workers.
    backend : {"threads", "processes", "dask"}
        Threads share memory and start at once. They suit trials that spend their time in ``Ocelad.replay`` with a
        compiled engine, because compiled engines release the GIL. Processes suit trials that run much Python code,
        such as those that draw a stream pair by pair. "dask" submits the trials to a running Dask cluster, whose
        workers need the same version of ocelad.
    address : str or None
        The address of the Dask scheduler, such as "tcp://127.0.0.1:8786".
    progress : callable or None
        Called with the number of finished trials, after each of them.

    Examples
    --------
    >>> import numpy as np
    >>> from ocelad import Events, track_metric
    >>> def trial(seed):
    ...     U = np.random.default_rng(seed).normal(size=(50, 3))
    ...     tracker = track_metric(3, step_size=0.1)
    ...     tracker.replay(Events(U, abs(U[:, 0]) < 1))
    ...     return tracker.play()
    >>> metrics = map_trials(trial, range(8))
    >>> metrics[5] == trial(5)
    True

    Notes
    -----
    Linear algebra runs on one thread inside a trial, because parallel trials would compete for the processors.
    """
    seeds = _check_arguments(trial, seeds, n_jobs, backend)
    results: dict[int, Result] = {}
    for index, result in _iter_indexed(trial, seeds, n_jobs, backend, address):
        results[index] = result
        if progress is not None:
            progress(len(results))
    return [results[index] for index in range(len(seeds))]


def iter_trials(
    trial: Callable[[Seed], Result],
    seeds: Iterable[Seed],
    *,
    n_jobs: int = -1,
    backend: Backend = "threads",
    address: str | None = None,
) -> Iterator[tuple[Seed, Result]]:
    """Yield ``(seed, trial(seed))`` in the order in which the trials finish; see ``map_trials`` for the parameters.

    The caller can save each result at once, so that an interrupt loses only the trials that are still running.

    >>> sorted(iter_trials(abs, [-3, 1, -2]))
    [(-3, 3), (-2, 2), (1, 1)]
    """
    seeds = _check_arguments(trial, seeds, n_jobs, backend)
    return ((seeds[index], result) for index, result in _iter_indexed(trial, seeds, n_jobs, backend, address))


def _check_arguments(trial: object, seeds: Iterable[Seed], n_jobs: int, backend: str) -> Sequence[Seed]:
    check_choice(backend, "backend", get_args(Backend))
    if not callable(trial):
        raise TypeError(f"trial must be a function of one seed; got {type(trial).__name__}")
    if not isinstance(seeds, Iterable):
        raise TypeError(f"seeds must be a sequence, one for each trial; got {seeds!r}")
    if n_jobs != -1 and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs < 1):
        raise ValueError(f"n_jobs must be a whole number of at least 1, or -1 for all processors; got {n_jobs!r}")
    return list(seeds)


def _iter_indexed(
    trial: Callable[[Seed], Result], seeds: Sequence[Seed], n_jobs: int, backend: Backend, address: str | None
) -> Iterator[tuple[int, Result]]:
    if backend == "dask":
        yield from iter_cluster_trials(partial(_run_in_worker, trial), seeds, address)
        return
    from joblib import Parallel, delayed, effective_n_jobs

    if backend == "threads" or effective_n_jobs(n_jobs) == 1:  # one job runs in this process in any case
        from threadpoolctl import threadpool_limits

        from ocelad.engines.kernel_loading import waiting_for_kernels  # imports numba

        # The limit applies to the whole process, so it must outlive every single trial.
        with threadpool_limits(1), waiting_for_kernels():
            tasks = (delayed(_run_indexed)(trial, index, seed) for index, seed in enumerate(seeds))
            yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", backend="threading")(tasks)
        return
    # Workers do not notice when their parent is killed; the timeout ends them soon after their last trial.
    workers: dict[str, Any] = {"backend": "loky", "idle_worker_timeout": IDLE_SECONDS}
    tasks = (delayed(_run_in_worker)(trial, index, seed) for index, seed in enumerate(seeds))
    yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", **workers)(tasks)


def _run_indexed(trial: Callable[[Seed], Result], index: int, seed: Seed) -> tuple[int, Result]:
    return index, trial(seed)


def _run_in_worker(trial: Callable[[Seed], Result], index: int, seed: Seed) -> tuple[int, Result]:
    """Run a trial in a worker process, with linear algebra on one thread."""
    from ocelad.engines.kernel_loading import waiting_for_kernels

    _limit_threads()
    with waiting_for_kernels():
        return index, trial(seed)


@cache
def _limit_threads() -> None:
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
