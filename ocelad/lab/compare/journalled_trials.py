"""The trials of a comparison, run and journalled by a ``Runner``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from os import cpu_count
from typing import Any

from ocelad.lab.compare.block_streams import PairStream, Stream, WordStream
from ocelad.lab.compare.dataset_stream import DatasetStream
from ocelad.lab.compare.methods import Method
from ocelad.lab.compare.registry import METHODS, STREAMS
from ocelad.lab.compare.trial import Record, run_trial
from ocelad.lab.journal import result_key
from ocelad.lab.runner import Call, Entry, Runner


def run_trials(
    runner: Runner, label: str, stream: Stream, trials: Sequence[tuple[int, tuple[Method, ...]]], every: int
) -> list[list[Record]]:
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
    calls = []
    for seed, methods in trials:
        todo = tuple(method for method in methods if runner.missing(journal_entry(stream, method, seed, every)))
        for group in _split_methods(todo, len(trials), runner.n_jobs):
            calls.append(Call((seed, group), tuple(journal_entry(stream, method, seed, every) for method in group)))
    entries = [journal_entry(stream, method, seed, every) for seed, methods in trials for method in methods]
    results = iter(runner.collect(label, partial(_run_call, stream, every), calls, entries))
    return [[Record.from_json(next(results)) for _ in methods] for _, methods in trials]


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
    known = METHODS.get(method.name)
    has_known_factory = known is not None and known.factory is method.factory
    has_digest = isinstance(stream, PairStream | DatasetStream) or (isinstance(stream, WordStream) and stream.origin)
    return has_known_factory and (bool(has_digest) or STREAMS.get(stream.name) is stream)
