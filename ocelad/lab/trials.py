"""Many trials at once: over threads, because the compiled engines let go of the interpreter, over processes, or on a
Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Literal, TypeVar, get_args

from ocelad._validation import check_choice
from ocelad.lab.cluster import each_on_cluster

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
    """``[trial(seed) for seed in seeds]``, several at a time: the same results, to the bit, in the same order.

    Parameters
    ----------
    trial : callable
        What to do with one seed. With processes and on a cluster it and its result must be picklable.
    seeds : sequence
        One for each trial; anything that ``trial`` takes.
    n_jobs : int
        How many at a time; -1: as many as there are processors. A cluster takes as many as its workers have threads.
    backend : {"threads", "processes", "dask"}
        Threads share memory and start at once, and suit trials that spend their time in ``Ocelad.replay`` over a
        compiled engine. Processes suit trials with much Python of their own, such as drawing a stream pair by pair.
        "dask" hands them to a Dask cluster that is there already; its workers must have the same ocelad.
    address : str or None
        Of the cluster's scheduler, such as "tcp://127.0.0.1:8786".
    progress : callable or None
        Called with the number of trials done, after each of them.

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
    Inside a trial linear algebra runs on one thread: several trials with several threads each get in each other's way.
    """
    seeds = _checked(trial, seeds, n_jobs, backend)
    results: dict[int, Result] = {}
    for place, result in _as_finished(trial, seeds, n_jobs, backend, address):
        results[place] = result
        if progress is not None:
            progress(len(results))
    return [results[place] for place in range(len(seeds))]


def each_trial(
    trial: Callable[[Seed], Result],
    seeds: Iterable[Seed],
    *,
    n_jobs: int = -1,
    backend: Backend = "threads",
    address: str | None = None,
) -> Iterator[tuple[Seed, Result]]:
    """Each seed with its ``trial(seed)``, as soon as it is finished, in any order; parameters as of ``map_trials``.

    For work that shall not be lost: what came so far is there when the rest is interrupted.

    >>> sorted(each_trial(abs, [-3, 1, -2]))
    [(-3, 3), (-2, 2), (1, 1)]
    """
    seeds = _checked(trial, seeds, n_jobs, backend)
    return ((seeds[place], result) for place, result in _as_finished(trial, seeds, n_jobs, backend, address))


def _checked(trial: object, seeds: Iterable[Seed], n_jobs: int, backend: str) -> Sequence[Seed]:
    check_choice(backend, "backend", get_args(Backend))
    if not callable(trial):
        raise TypeError(f"trial must be a function of one seed; got {type(trial).__name__}")
    if not isinstance(seeds, Iterable):
        raise TypeError(f"seeds must be a sequence, one for each trial; got {seeds!r}")
    if n_jobs != -1 and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs < 1):
        raise ValueError(f"n_jobs must be a whole number of at least 1, or -1 for all processors; got {n_jobs!r}")
    return list(seeds)


def _as_finished(
    trial: Callable[[Seed], Result], seeds: Sequence[Seed], n_jobs: int, backend: Backend, address: str | None
) -> Iterator[tuple[int, Result]]:
    if backend == "dask":
        yield from each_on_cluster(partial(_alone, trial), seeds, address)
        return
    from joblib import Parallel, delayed, effective_n_jobs

    if backend == "threads" or effective_n_jobs(n_jobs) == 1:  # one at a time is in this process anyway
        from threadpoolctl import threadpool_limits

        # Around all of them: the limit is of the process, and threads that end would take it from the others.
        with threadpool_limits(1):
            tasks = (delayed(_placed)(trial, place, seed) for place, seed in enumerate(seeds))
            yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", backend="threading")(tasks)
        return
    # Workers whose parent was killed do not know; soon after their last trial they shall go.
    workers: dict[str, Any] = {"backend": "loky", "idle_worker_timeout": IDLE_SECONDS}
    tasks = (delayed(_alone)(trial, place, seed) for place, seed in enumerate(seeds))
    yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered", **workers)(tasks)


def _placed(trial: Callable[[Seed], Result], place: int, seed: Seed) -> tuple[int, Result]:
    return place, trial(seed)


def _alone(trial: Callable[[Seed], Result], place: int, seed: Seed) -> tuple[int, Result]:
    """In a worker, where linear algebra stays on one thread from the first trial on."""
    _limit_threads()
    return place, trial(seed)


@cache
def _limit_threads() -> None:
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
