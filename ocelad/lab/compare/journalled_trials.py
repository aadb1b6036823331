"""The trials of a comparison, run and journalled by a ``Runner``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import cpu_count
from typing import Any, TypeAlias

from ocelad.lab.compare.block_streams import PairStream, Stream, WordStream
from ocelad.lab.compare.dataset_stream import DatasetStream
from ocelad.lab.compare.methods import Method
from ocelad.lab.compare.registry import METHODS, STREAMS
from ocelad.lab.compare.trial import Record, run_trial
from ocelad.lab.journal import result_key
from ocelad.lab.runner import Answer, Call, Entry, Runner

#: The seeds of a run, each with the methods that run on it.
Trials: TypeAlias = Sequence[tuple[int, tuple[Method, ...]]]


def run_trials(runner: Runner, label: str, stream: Stream, trials: Trials, every: int) -> list[list[Record]]:
    """Return the records of each trial, in the order of the trials and of their methods.

    Parameters
    ----------
    runner : Runner
    label : str
        The label of the progress, which counts methods.
    stream : Stream
    trials : sequence of (seed, methods)
    every : int
        The number of rounds between evaluations.
    """

    def entry(method: Method, seed: int) -> Entry:
        return journal_entry(stream, method, seed, every)

    results = collect_records(runner, label, partial(_run_call, stream, every), entry, trials)
    return [[Record.from_json(result) for result in of_trial] for of_trial in results]


def collect_records(
    runner: Runner,
    label: str,
    run: Callable[[tuple[int, tuple[Method, ...]]], list[Answer]],
    entry: Callable[[Method, int], Entry],
    trials: Trials,
) -> list[list[Answer]]:
    """Run what is not in the journal, and return the results of each trial, one for each of its methods.

    Parameters
    ----------
    runner : Runner
    label : str
        The label of the progress, which counts methods.
    run : callable ((seed, methods)) -> list of dict
        Returns one JSON-serializable result for each method. It must be picklable.
    entry : callable (method, seed) -> Entry
        Returns the place of a result in the journal.
    trials : sequence of (seed, methods)
    """
    calls = []
    for seed, methods in trials:
        todo = tuple(method for method in methods if runner.missing(entry(method, seed)))
        for group in _split_methods(todo, len(trials), runner.n_jobs):
            calls.append(Call((seed, group), tuple(entry(method, seed) for method in group)))
    entries = [entry(method, seed) for seed, methods in trials for method in methods]
    results = iter(runner.collect(label, run, calls, entries))
    return [[next(results) for _ in methods] for _, methods in trials]


def _run_call(stream: Stream, every: int, argument: tuple[int, tuple[Method, ...]]) -> list[dict[str, Any]]:
    seed, methods = argument
    return [record.to_json() for record in run_trial(stream, methods, seed, every)]


def _split_methods(methods: tuple[Method, ...], n_trials: int, n_jobs: int) -> Iterable[tuple[Method, ...]]:
    """Group the methods of a trial into calls.

    One call for all methods draws the stream only once. With few trials per job, one call per method is faster.
    """
    if not methods:
        return []
    n_jobs = (cpu_count() or 1) if n_jobs == -1 else n_jobs
    return [methods] if n_trials >= 2 * n_jobs else [(method,) for method in methods]


def journal_entry(stream: Stream, method: Method, seed: int, every: int) -> Entry:
    """Return the journal entry of a record.

    The records of user-defined methods and streams stay in memory, because a file cannot tell whether their code has
    changed.
    """
    persist = _is_identifiable(stream, method)
    identity = "" if persist else f"{id(stream)} {id(method.factory)}"
    request = (identity, stream.fingerprint(), method.name, sorted(method.settings.items()), seed, every)
    return Entry(result_key(*request), persist)


def _is_identifiable(stream: Stream, method: Method) -> bool:
    """Whether the method is built in, and the stream is built in or identified by a digest of its data."""
    has_digest = isinstance(stream, PairStream | DatasetStream) or (isinstance(stream, WordStream) and stream.origin)
    return is_built_in(method) and (bool(has_digest) or STREAMS.get(stream.name) is stream)


def is_built_in(method: Method, known: Mapping[str, Method] = METHODS) -> bool:
    """Whether the method is one of the known ones, whatever its settings."""
    return method.name in known and known[method.name].factory is method.factory
