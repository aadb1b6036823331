"""``Runner``: the trials of an experiment, on all cores or a cluster, none of them twice."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

from ocelad.lab.journal import Journal, key, program
from ocelad.lab.trials import Backend, each_trial

#: What a trial is asked for and what it answers: what JSON can hold.
Task: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]
Trial: TypeAlias = Callable[[Task, Any], Answer]

#: Called with what is being done, how many trials are done, and how many there are.
Progress = Callable[[str, int, int], object]


class Runner:
    """Runs trials that the journal does not have.

    Parameters
    ----------
    journal : Journal or None
        Where finished trials are kept; None: nowhere.
    engine : {"processes", "threads", "dask"}
        Where trials run.
    n_jobs : int
        How many at a time; -1: as many as there are processors.
    address : str or None
        Of the Dask cluster's scheduler.
    progress : callable or None
        Called with words, the number of trials done and of all, after each.

    Examples
    --------
    >>> def square(task, given):
    ...     return {"is": task["x"] ** 2}
    >>> Runner(engine="threads").run("squares", square, [{"x": 2}, {"x": 3}])
    [{'is': 4}, {'is': 9}]
    """

    def __init__(
        self,
        journal: Journal | None = None,
        *,
        engine: Backend = "processes",
        n_jobs: int = -1,
        address: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._journal = journal or Journal()
        self._each = partial(each_trial, n_jobs=n_jobs, backend=engine, address=address)
        self._progress = progress or (lambda words, done, total: None)

    def run(self, words: str, trial: Trial, tasks: Sequence[Task], *, given: Any = None) -> list[Answer]:
        """The answers to the tasks, in their order, whatever the order in which they came.

        Parameters
        ----------
        words : str
            What is being done, for the progress.
        trial : callable (task, given) -> answer
            A function of a module; an answer is known by the task, and by the sources of the package and that module.
            Answers of one that is in no file are not kept in one.
        tasks : sequence of dict
        given : object
            What the trial gets beside its task and no answer depends on, such as the folder that a copy of the data,
            which the task knows by its digest, is in.
        """
        if not callable(trial):
            raise TypeError(f"trial must be a function of a task and what is given; got {type(trial).__name__}")
        source = _source(trial)
        of = (
            f"{id(trial)}" if source is None else source
        )  # of one without, only this process can know that it is the same
        keys = [key(of, trial.__qualname__, json.dumps(task, sort_keys=True)) for task in tasks]
        todo = [place for place, its_key in enumerate(keys) if its_key not in self._journal]
        done = len(tasks) - len(todo)
        self._progress(words, done, len(tasks))
        todo_tasks = [(place, tasks[place]) for place in todo]
        asked = partial(_answer, trial, given, (program(), source))
        for (place, _), answer in self._each(asked, todo_tasks):
            self._journal.keep({keys[place]: answer}, in_file=source is not None)
            done += 1
            self._progress(words, done, len(tasks))
        return [self._journal[its_key] for its_key in keys]


def _answer(trial: Trial, given: Any, known: tuple[str, str | None], task: tuple[int, Task]) -> Answer:
    """As it comes back from a file, so that it is the same when it does."""
    if (program(), _source(trial)) != known:  # on another machine, which may have joined late
        raise ImportError(f"a worker has another ocelad, or another {trial.__module__}; install the same there")
    answer: Answer = json.loads(json.dumps(trial(task[1], given), allow_nan=False))
    return answer


@cache
def _source(trial: Trial) -> str | None:
    """A digest of the module that the trial is in; None where it is in no file, such as what is typed at a prompt."""
    try:
        source = inspect.getsource(sys.modules[trial.__module__])
    except (OSError, TypeError):
        return None
    return hashlib.sha256(source.encode()).hexdigest()
