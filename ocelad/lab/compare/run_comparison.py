"""``compare``: methods on the same streams, in parallel, tuned on other streams first if so wished."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import cpu_count
from pathlib import Path

import numpy as np

from ocelad._validation import check_choice, check_integer
from ocelad.lab.compare.comparison_streams import PairStream, Stream
from ocelad.lab.compare.methods import Method, check_stream, parsed
from ocelad.lab.compare.records import Records
from ocelad.lab.compare.registry import METHODS, STREAMS
from ocelad.lab.compare.summary import Comparison, Tuned, main_measure
from ocelad.lab.compare.trial import Record, run_trial
from ocelad.lab.trials import each_trial

#: Streams of seeds below this one are for tuning; those from it on for judging.
FIRST_SEED = 1000

#: Called with what is being done, how many trials are done, and how many there are.
Progress = Callable[[str, int, int], object]


def compare(
    methods: Iterable[str | Method],
    stream: str | Stream = "paper",
    *,
    seeds: int = 10,
    first_seed: int = FIRST_SEED,
    every: int = 100,
    tune: int = 0,
    tune_seeds: int = 3,
    reference: str | None = None,
    n_jobs: int = -1,
    journal: str | Path | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Compare methods on the same streams, by the same evaluation.

    Parameters
    ----------
    methods : iterable of str or Method
        Names, such as "rice" or "comid:step_size=1e-3", or methods of your own.
    stream : str or Stream
        The name of a built-in one, a ``PairStream`` of your own pairs, or any other ``Stream``.
    seeds, first_seed : int
        How many streams, and the seed of the first. Given pairs are one stream, whatever is said here.
    every : int
        How many rounds lie between two evaluations.
    tune : int
        How many settings of each method are tried first; 0: none, the defaults are taken. They are tried on the streams
        of seeds 0, 1, ..., which must be others than those compared on; of given pairs, on the first quarter, and the
        comparison is then on the rest. The default settings are always among those tried.
    tune_seeds : int
        On how many streams.
    reference : str or None
        The label of the method that the others are held against; None: the first.
    n_jobs : int
        How many processes; -1: as many as there are processors.
    journal : path or None
        A file in which finished trials are kept; those in it are not computed again (those of methods and streams of
        your own are: a file cannot know whether their code is still the same).
    restart : bool
        Whether what the journal has is forgotten.
    progress : callable or None
        Called with words, the number of trials done and of all, after each.

    Examples
    --------
    >>> comparison = compare(["euclidean", "truth"], "static", seeds=2, every=1000, n_jobs=1)
    >>> [round(row.mean, 1) for row in comparison.rows("knn_error")]
    [19.6, 0.2]
    """
    chosen, place = _methods(methods), _stream(stream)
    check_integer(every, "every", at_least=1)
    if every > place.rounds:
        raise ValueError(f"every is {every}, and the stream {place.name!r} has {place.rounds} pairs; accepted: fewer")
    check_integer(seeds, "seeds", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(tune, "tune", at_least=0)
    check_integer(tune_seeds, "tune_seeds", at_least=1)
    reference = chosen[0].label if reference is None else _known(reference, chosen)
    check_stream(chosen, place)
    tuning, place = _split(place, every, tune_seeds, first_seed) if tune else (place, place)
    for method in chosen:
        method.tried(place)
    with Records(None if journal is None else Path(journal), restart=restart) as kept:
        trials = _Trials(kept, every, n_jobs, progress)
        tuned = _tune(chosen, tuning, tune, range(tune_seeds if tuning.seeded else 1), trials) if tune else {}
        numbers = range(first_seed, first_seed + seeds) if place.seeded else [0]
        best = tuple(tuned[method.label].best if method.label in tuned else method for method in chosen)
        records = trials.run("comparing", place, [(seed, best) for seed in numbers])
    by_label = {method.label: [of_seed[at] for of_seed in records] for at, method in enumerate(chosen)}
    return Comparison(place, tuple(chosen), by_label, reference, every, tuple(numbers), tuned)


class _Trials:
    """Runs trials that are not in the journal."""

    def __init__(self, records: Records, every: int, n_jobs: int, progress: Progress | None) -> None:
        self._records, self._every, self._n_jobs = records, every, n_jobs
        self._progress = progress or (lambda words, done, total: None)

    def run(self, words: str, stream: Stream, wanted: Sequence[tuple[int, tuple[Method, ...]]]) -> list[list[Record]]:
        """The records of methods on seeds, in the order wanted."""
        every = self._every
        tasks = [
            (seed, part)
            for seed, methods in wanted
            for part in self._parts(self._records.missing(stream, methods, seed, every), len(wanted))
        ]
        total = sum(len(methods) for _, methods in wanted)
        done = total - sum(len(part) for _, part in tasks)
        self._progress(words, done, total)
        for (_, part), records in each_trial(
            partial(_task, stream, every), tasks, n_jobs=self._n_jobs, backend="processes"
        ):
            self._records.keep(stream, part, records, every)
            done += len(part)
            self._progress(words, done, total)
        return [[self._records.record(stream, method, seed, every) for method in methods] for seed, methods in wanted]

    def _parts(self, methods: tuple[Method, ...], n_trials: int) -> Iterable[tuple[Method, ...]]:
        """All methods of a trial together, which draw its stream once; one by one where few trials are to be shared."""
        if not methods:
            return []
        n_jobs = (cpu_count() or 1) if self._n_jobs == -1 else self._n_jobs
        return [methods] if n_trials >= 2 * n_jobs else [(method,) for method in methods]


def _task(stream: Stream, every: int, task: tuple[int, tuple[Method, ...]]) -> list[Record]:
    seed, methods = task
    return run_trial(stream, methods, seed, every)


def candidates(method: Method, count: int, seed: int = 0) -> list[Method]:
    """The settings that are tried: the method's own, and random ones of what may be tuned and was not given.

    >>> from ocelad.lab.compare import METHODS
    >>> len(candidates(METHODS["comid"], 5)), len(candidates(METHODS["euclidean"], 5))
    (5, 1)
    """
    free = {key: search for key, search in method.search.items() if key not in method.changed}
    rng = np.random.default_rng(seed)
    tried = {repr(method.values): method}
    for _ in range(20 * count if free else 0):  # where there are few values, the same ones come again
        if len(tried) >= count:
            break
        drawn = method.with_settings(**{key: search.draw(rng) for key, search in free.items()})
        tried.setdefault(repr(drawn.values), drawn)
    return list(tried.values())


def _tune(
    methods: Sequence[Method], stream: Stream, count: int, seeds: Sequence[int], trials: _Trials
) -> dict[str, Tuned]:
    tries = {method.label: tuple(candidates(method, count)) for method in methods}
    tries = {label: tried for label, tried in tries.items() if len(tried) > 1}
    results = iter(trials.run("tuning", stream, [(seed, tried) for tried in tries.values() for seed in seeds]))
    measure = main_measure(stream)
    tuned = {}
    for label, tried in tries.items():
        by_seed = [next(results) for _ in seeds]
        scores = [_mean([records[at] for records in by_seed], measure) for at in range(len(tried))]
        best = tried[int(np.argmin(scores))] if np.isfinite(scores).any() else tried[0]
        values = [(each.values, score) for each, score in zip(tried, scores, strict=True)]
        tuned[label] = Tuned(best, len(tried), values)
    return tuned


def _mean(records: Sequence[Record], measure: str) -> float:
    """Mean score over seeds and evaluations; infinite where it failed anywhere, or nothing could be judged."""
    values = np.concatenate([record.measured(measure) for record in records])
    if any(record.failed is not None for record in records) or np.isnan(values).all():
        return np.inf
    return float(np.nanmean(values))


def _split(stream: Stream, every: int, tune_seeds: int, first_seed: int) -> tuple[Stream, Stream]:
    """What to tune on, and what to compare on."""
    if stream.seeded and tune_seeds > first_seed:
        raise ValueError(
            f"tuning takes the seeds 0 to {tune_seeds - 1}, and the comparison begins at {first_seed}; "
            f"accepted: a first_seed of {tune_seeds} or more"
        )
    if stream.seeded:
        return stream, stream
    if not isinstance(stream, PairStream):
        raise TypeError(f"the stream {stream.name!r} cannot be split in a part to tune on and the rest")
    cut = stream.rounds // 4
    if cut < 2 * every:
        raise ValueError(
            f"tuning takes the first quarter of the pairs, and that of {stream.rounds} is fewer than two times "
            f"every={every}; accepted: more pairs, a smaller every, or no tuning"
        )
    # By its pairs alone: points that the comparison is judged by shall not choose the settings.
    return stream.part(0, cut, judged=False), stream.part(cut, stream.rounds)


def _stream(stream: str | Stream) -> Stream:
    if not isinstance(stream, str):
        if not callable(getattr(stream, "blocks", None)):
            raise TypeError(f"stream must be a name, a PairStream or another Stream; got {type(stream).__name__}")
        return stream
    return STREAMS[check_choice(stream, "stream", STREAMS)]


def _methods(methods: Iterable[str | Method]) -> list[Method]:
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise TypeError(f"methods must be a list of names and of Method; got {methods!r}")
    chosen = [parsed(method, METHODS) if isinstance(method, str) else method for method in methods]
    for method in chosen:
        if not isinstance(method, Method):
            raise TypeError(f"a method is a name or a Method; got {type(method).__name__}")
    if not chosen:
        raise ValueError("there is no method to compare; accepted: at least one")
    labels = [method.label for method in chosen]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{label} is there {labels.count(label)} times; accepted: every method once")
    return chosen


def _known(reference: str, methods: Sequence[Method]) -> str:
    labels = [method.label for method in methods]
    if reference.partition(":")[0] in METHODS:
        reference = parsed(reference, METHODS).label  # as it is written there, however it was typed
    if reference not in labels:
        raise ValueError(f"the reference {reference!r} is not compared; accepted: {', '.join(labels)}")
    return reference
