"""``Runner``: run trials in parallel or on a cluster, and journal each result when it is finished."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

from ocelad.lab.journal import Journal, result_key, source_digest
from ocelad.lab.trials import Backend, iter_trials

#: The input and the output of a trial; both are JSON-serializable.
Task: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]
Trial: TypeAlias = Callable[[Task, Any], Answer]

#: Called with a label, the number of finished results and the number of all results.
Progress = Callable[[str, int, int], object]


class Entry(NamedTuple):
    """The place of one result in the journal.

    Attributes
    ----------
    key : str
    persist : bool
        Whether the result is written to the journal's file. False for a result of code that the key cannot identify in
        another process; such a result stays in memory.
    """

    key: str
    persist: bool = True


class Call(NamedTuple):
    """One call of a function that computes one or more results.

    Attributes
    ----------
    argument : object
        The argument of the function.
    entries : tuple of Entry
        The places of the results, in their order.
    """

    argument: Any
    entries: tuple[Entry, ...]


class Runner:
    """Run the trials whose results are not in the journal.

    Parameters
    ----------
    journal : Journal or None
        The journal of finished results; None: a new one in memory.
    backend : {"processes", "threads", "dask"}
        See ``map_trials``.
    n_jobs : int
        The number of parallel jobs; -1: one per processor.
    address : str or None
        The address of the Dask scheduler.
    progress : callable or None
        Called with a label, the number of finished results and the number of all results, after each call.

    Examples
    --------
    >>> def square(task, context):
    ...     return {"square": task["x"] ** 2}
    >>> Runner(backend="threads").run("squares", square, [{"x": 2}, {"x": 3}])
    [{'square': 4}, {'square': 9}]
    """

    def __init__(
        self,
        journal: Journal | None = None,
        *,
        backend: Backend = "processes",
        n_jobs: int = -1,
        address: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._journal = journal or Journal()
        self._n_jobs = n_jobs
        self._iter_trials = partial(iter_trials, n_jobs=n_jobs, backend=backend, address=address)
        self._progress = progress or (lambda label, done, total: None)

    @property
    def n_jobs(self) -> int:
        """The number of parallel jobs; -1: one per processor."""
        return self._n_jobs

    def run(self, label: str, trial: Trial, tasks: Sequence[Task], *, context: Any = None) -> list[Answer]:
        """Return the answers to the tasks, in the order of the tasks.

        Parameters
        ----------
        label : str
            The label of the progress.
        trial : callable (task, context) -> answer
            A function of a module. The key of an answer covers the task and the sources of the package and of that
            module. Answers of a function without a source file are not written to the journal's file.
        tasks : sequence of dict
        context : object
            A second argument that no answer depends on, such as the folder of a data set that the task identifies by
            its digest.
        """
        if not callable(trial):
            raise TypeError(f"trial must be a function of a task and a context; got {type(trial).__name__}")
        source = _module_digest(trial)
        # A function without a source file is identified by its address, which is valid in this process only.
        identity = f"{id(trial)}" if source is None else source
        entries = [
            Entry(result_key(identity, trial.__qualname__, json.dumps(task, sort_keys=True)), source is not None)
            for task in tasks
        ]
        calls = [Call(task, (entry,)) for task, entry in zip(tasks, entries, strict=True) if self.missing(entry)]
        function = partial(_run_trial, trial, context, (source_digest(), source))
        return self.collect(label, function, calls, entries)

    def missing(self, entry: Entry) -> bool:
        """Whether the journal lacks the result of an entry."""
        return entry.key not in self._journal

    def collect(
        self, label: str, function: Callable[[Any], Sequence[Answer]], calls: Sequence[Call], entries: Sequence[Entry]
    ) -> list[Answer]:
        """Call the function for the missing results, and return the results of all entries.

        Parameters
        ----------
        label : str
            The label of the progress.
        function : callable (argument) -> sequence of dict
            Returns one JSON-serializable result for each entry of its call.
        calls : sequence of Call
            The calls that compute the entries that are missing.
        entries : sequence of Entry
            The entries whose results are returned, in this order.
        """
        total = len(entries)
        done = total - sum(len(call.entries) for call in calls)
        self._progress(label, done, total)
        for call, results in self._iter_trials(partial(_call, function), calls):
            for persist in (True, False):
                self._journal.add(
                    {
                        entry.key: result
                        for entry, result in zip(call.entries, results, strict=True)
                        if entry.persist is persist
                    },
                    persist=persist,
                )
            done += len(call.entries)
            self._progress(label, done, total)
        return [self._journal[entry.key] for entry in entries]


def _call(function: Callable[[Any], Sequence[Answer]], call: Call) -> Sequence[Answer]:
    return function(call.argument)


def _run_trial(trial: Trial, context: Any, expected: tuple[str, str | None], task: Task) -> list[Answer]:
    """Run a trial in a worker; the answer is converted to JSON and back, as if read from the journal."""
    if (source_digest(), _module_digest(trial)) != expected:  # a worker on another machine may have joined late
        raise ImportError(
            f"a worker has another ocelad, or another {trial.__module__}, than this process; install the same there"
        )
    answer: Answer = json.loads(json.dumps(trial(task, context), allow_nan=False))
    return [answer]


@cache
def _module_digest(trial: Trial) -> str | None:
    """Return a digest of the source of the trial's module; None if it has no source file, such as in a prompt."""
    try:
        source = inspect.getsource(sys.modules[trial.__module__])
    except (OSError, TypeError):
        return None
    return hashlib.sha256(source.encode()).hexdigest()
