"""``compare``: run methods on the same streams in parallel, after tuning them on other streams if requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ocelad._validation import check_choice, check_integer
from ocelad.lab.compare.block_streams import PairStream, Stream
from ocelad.lab.compare.comparison import Comparison, TuningResult, main_measure
from ocelad.lab.compare.journalled_trials import run_trials
from ocelad.lab.compare.methods import Method, check_known, check_stream, parse_method
from ocelad.lab.compare.registry import METHODS, STREAMS
from ocelad.lab.compare.trial import Record
from ocelad.lab.journal import Journal
from ocelad.lab.runner import Progress, Runner

#: Seeds below this one are for tuning, the others for comparing.
FIRST_SEED = 1000

_RunTrials = Callable[[str, Stream, Sequence[tuple[int, tuple[Method, ...]]]], list[list[Record]]]


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
    """Compare methods on the same streams with the same evaluation.

    Parameters
    ----------
    methods : iterable of str or Method
        Names, such as "rice" or "comid:step_size=1e-3", or user-defined methods.
    stream : str or Stream
        The name of a built-in stream, a ``PairStream`` of given pairs, or any other ``Stream``.
    seeds, first_seed : int
        The number of streams, and the seed of the first. Both are ignored for given pairs, which are one stream.
    every : int
        The number of rounds between evaluations.
    tune : int
        The number of settings to try for each method; 0: use the default settings. The trials run on the streams of
        the seeds 0, 1, ..., which must not overlap with the seeds compared on. Given pairs are tuned on their first
        quarter and compared on the rest. The default settings are always among those tried.
    tune_seeds : int
        The number of streams to tune on.
    reference : str or None
        The label of the method that the others are compared with; None: the first method.
    n_jobs : int
        The number of processes; -1: one per processor.
    journal : path or None
        A file for finished trials. Trials in it are not run again, except those of user-defined methods and streams,
        because a file cannot tell whether their code has changed.
    restart : bool
        Whether to ignore the trials in the journal.
    progress : callable or None
        Called with a label, the number of finished records and the number of all records.

    Examples
    --------
    >>> comparison = compare(["euclidean", "truth"], "static", seeds=2, every=1000, n_jobs=1)
    >>> [round(summary.mean, 1) for summary in comparison.summaries("knn_error")]
    [19.6, 0.2]
    """
    chosen, tuning_stream, test_stream, reference = plan_comparison(
        methods,
        stream,
        seeds=seeds,
        first_seed=first_seed,
        every=every,
        tune=tune,
        tune_seeds=tune_seeds,
        reference=reference,
    )
    with Journal(journal, restart=restart) as opened:
        runner = Runner(opened, n_jobs=n_jobs, progress=progress)

        def run(label: str, on: Stream, trials: Sequence[tuple[int, tuple[Method, ...]]]) -> list[list[Record]]:
            return run_trials(runner, label, on, trials, every)

        tuning_seeds = range(tune_seeds if tuning_stream.seeded else 1)
        tuned = _tune(chosen, tuning_stream, tune, tuning_seeds, run) if tune else {}
        numbers = range(first_seed, first_seed + seeds) if test_stream.seeded else [0]
        best = tuple(tuned[method.label].best if method.label in tuned else method for method in chosen)
        records = run("comparing", test_stream, [(seed, best) for seed in numbers])
    by_label = {method.label: [of_seed[at] for of_seed in records] for at, method in enumerate(chosen)}
    return Comparison(test_stream, chosen, by_label, reference, every, tuple(numbers), tuned)


class ComparisonPlan(NamedTuple):
    """What ``compare`` runs: methods that can run on the streams, and the label of the reference."""

    methods: tuple[Method, ...]
    tuning_stream: Stream
    test_stream: Stream
    reference: str


def plan_comparison(
    methods: Iterable[str | Method],
    stream: str | Stream,
    *,
    seeds: int,
    first_seed: int,
    every: int,
    tune: int,
    tune_seeds: int,
    reference: str | None,
) -> ComparisonPlan:
    """Return the plan of a comparison; raise ValueError or TypeError if an argument of ``compare`` is wrong."""
    chosen, test_stream = check_methods(methods), _check_stream(stream)
    if not chosen:
        raise ValueError("methods is empty; accepted: at least one method")
    check_integer(every, "every", at_least=1)
    if every > test_stream.rounds:
        raise ValueError(
            f"every is {every}; accepted: at most {test_stream.rounds}, the length of the stream {test_stream.name!r}"
        )
    check_integer(seeds, "seeds", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    check_integer(tune, "tune", at_least=0)
    check_integer(tune_seeds, "tune_seeds", at_least=1)
    reference = chosen[0].label if reference is None else _check_reference(reference, chosen)
    check_stream(chosen, test_stream)
    tuning_stream = test_stream
    if tune:
        tuning_stream, test_stream = _split(test_stream, every, tune_seeds, first_seed)
    for method in chosen:
        method.check_settings(test_stream)
    return ComparisonPlan(tuple(chosen), tuning_stream, test_stream, reference)


def candidates(method: Method, count: int, seed: int = 0) -> list[Method]:
    """Return the settings to try: those of the method, and random ones for the hyperparameters that are not set.

    >>> from ocelad.lab.compare import METHODS
    >>> len(candidates(METHODS["comid"], 5)), len(candidates(METHODS["euclidean"], 5))
    (5, 1)
    """
    free = {key: space for key, space in method.search_space.items() if key not in method.overrides}
    rng = np.random.default_rng(seed)
    tried = {repr(method.settings): method}
    for _ in range(20 * count if free else 0):  # a small search space repeats its values
        if len(tried) >= count:
            break
        drawn = method.with_settings(**{key: space.sample(rng) for key, space in free.items()})
        tried.setdefault(repr(drawn.settings), drawn)
    return list(tried.values())


def _tune(
    methods: Sequence[Method], stream: Stream, count: int, seeds: Sequence[int], run: _RunTrials
) -> dict[str, TuningResult]:
    tries = {method.label: tuple(candidates(method, count)) for method in methods}
    tries = {label: tried for label, tried in tries.items() if len(tried) > 1}
    results = iter(run("tuning", stream, [(seed, tried) for tried in tries.values() for seed in seeds]))
    measure = main_measure(stream)
    tuned = {}
    for label, tried in tries.items():
        by_seed = [next(results) for _ in seeds]
        scores = [_tuning_score([records[at] for records in by_seed], measure) for at in range(len(tried))]
        best = tried[int(np.argmin(scores))] if np.isfinite(scores).any() else tried[0]
        trials = [(each.settings, score) for each, score in zip(tried, scores, strict=True)]
        tuned[label] = TuningResult(best, trials)
    return tuned


def _tuning_score(records: Sequence[Record], measure: str) -> float:
    """Return the mean score over seeds and evaluations; infinity if a run failed or nothing was evaluated."""
    values = np.concatenate([record.values(measure) for record in records])
    if any(record.failure is not None for record in records) or np.isnan(values).all():
        return np.inf
    return float(np.nanmean(values))


def _split(stream: Stream, every: int, tune_seeds: int, first_seed: int) -> tuple[Stream, Stream]:
    """Return the stream to tune on and the stream to compare on."""
    if stream.seeded and tune_seeds > first_seed:
        raise ValueError(
            f"tuning uses the seeds 0 to {tune_seeds - 1}, and the comparison begins at {first_seed}; "
            f"accepted: a first_seed of {tune_seeds} or more"
        )
    if stream.seeded:
        return stream, stream
    if not isinstance(stream, PairStream):
        raise TypeError(f"the stream {stream.name!r} cannot be split for tuning; accepted: seeded streams, PairStream")
    cut = stream.rounds // 4
    if cut < 2 * every:
        raise ValueError(
            f"tuning uses the first quarter of the {stream.rounds} pairs, which is less than two times "
            f"every={every}; accepted: {f'every={cut // 2} or less' if cut > 1 else 'more pairs'}, or no tuning"
        )
    # Tuning is by pairs only, because the comparison is evaluated on the points of the eval_set.
    return stream.part(0, cut, with_eval_set=False), stream.part(cut, stream.rounds)


def _check_stream(stream: str | Stream) -> Stream:
    if _looks_like_a_file(stream):
        raise ValueError(
            f"stream is {str(stream)!r}, which looks like a file; accepted: the pairs of the file as a PairStream "
            f"(ocelad.io.open_comparisons reads them), ocelad compare --stream {stream} on the command line, or the "
            f"name of a built-in stream: {', '.join(STREAMS)}"
        )
    if not isinstance(stream, str):
        if not callable(getattr(stream, "blocks", None)):
            raise TypeError(f"stream must be a name, a PairStream or another Stream; got {type(stream).__name__}")
        return stream
    return STREAMS[check_choice(stream, "stream", STREAMS)]


def _looks_like_a_file(stream: object) -> bool:
    is_name = isinstance(stream, str) and (stream in STREAMS or ("." not in stream and Path(stream).name == stream))
    return isinstance(stream, str | Path) and not is_name


def check_methods(methods: Iterable[str | Method], known: Mapping[str, Method] = METHODS) -> list[Method]:
    """Return methods that are given by name or as such; raise TypeError or ValueError for anything else."""
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise TypeError(f"methods must be a list of names and of Method; got {methods!r}")
    methods = list(methods)
    check_known([method for method in methods if isinstance(method, str)], known)
    chosen = [parse_method(method, known) if isinstance(method, str) else method for method in methods]
    for method in chosen:
        if not isinstance(method, Method):
            raise TypeError(f"a method must be a name or a Method; got {type(method).__name__}")
    labels = [method.label for method in chosen]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"{label} is given {labels.count(label)} times; accepted: each method once")
    return chosen


def _check_reference(reference: str, methods: Sequence[Method]) -> str:
    labels = [method.label for method in methods]
    if reference.partition(":")[0] in METHODS:
        reference = parse_method(reference, METHODS).label  # normalizes the spelling of numbers
    if reference not in labels:
        raise ValueError(f"the reference {reference!r} is not compared; accepted: {', '.join(labels)}")
    return reference
