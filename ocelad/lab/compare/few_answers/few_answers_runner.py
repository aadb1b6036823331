"""``run_few_answers``: run the methods of the few-answers suite on its benchmarks, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ocelad._validation import check_integer
from ocelad.lab.compare.block_streams import SideInformation
from ocelad.lab.compare.few_answers.answer_benchmarks import (
    ANSWER_BENCHMARKS,
    CHECKPOINTS,
    AnswerBenchmark,
    choose_benchmarks,
)
from ocelad.lab.compare.few_answers.answer_methods import CURVED, METHODS, REFERENCES, RIVALS
from ocelad.lab.compare.few_answers.checkpoint_trial import CheckpointRecord, run_checkpoints
from ocelad.lab.compare.few_answers.few_answers_results import AnswerResult, FewAnswersResult
from ocelad.lab.compare.few_answers.held_out_split import count_held_out
from ocelad.lab.compare.few_answers.labelled_points import LabelledPoints
from ocelad.lab.compare.journalled_trials import collect_records, is_built_in
from ocelad.lab.compare.methods import Method, check_stream
from ocelad.lab.compare.run_comparison import check_methods
from ocelad.lab.compare.suites import FIRST_TEST_SEED, N_SEEDS, OURS, check_not_empty, load_available, merge_methods
from ocelad.lab.journal import Journal, result_key
from ocelad.lab.runner import Entry, Progress, Runner

#: The default largest number of answers.
N_ANSWERS = 1000


class AnswerProperties(NamedTuple):
    """The properties of a benchmark that decide whether a method can run on it; see ``Stream``."""

    name: str
    n_features: int
    rounds: int
    sparse: bool = False
    provides: frozenset[SideInformation] = frozenset({"labels", "length", "items"})


def run_few_answers(
    benchmarks: Iterable[str] = tuple(ANSWER_BENCHMARKS),
    *,
    extra_methods: Iterable[str | Method] = (),
    rivals: bool = True,
    answers: int = N_ANSWERS,
    seeds: int = N_SEEDS,
    first_seed: int = FIRST_TEST_SEED,
    n_jobs: int = -1,
    journal: str | Path | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> FewAnswersResult:
    """Run the few-answers suite.

    Parameters
    ----------
    benchmarks : iterable of str
        Names of ``BENCHMARKS``, or of data sets, which stand for their natural and balanced pairs. A benchmark with
        missing data is skipped, and the result gives the reason.
    extra_methods : iterable of str or Method
        Further methods: names of ``METHODS``, with settings if desired, or user-defined ones. A learner with
        ``log_odds(X, Z)`` is scored by its probabilities, too (``OddsLearner``).
    rivals : bool
        Whether all ``RIVALS`` take part; False: only the fixed distances that targets refer to, which is much faster.
    answers : int
        The largest number of answers; the methods are evaluated at the ``CHECKPOINTS`` up to it.
    seeds, first_seed : int
        The number of seeds of each benchmark, and the first of them.
    n_jobs, journal, restart
        See ``compare``.
    progress : callable or None
        Called with the name of the benchmark, the number of finished records and the number of all records.

    Examples
    --------
    >>> result = run_few_answers(["iris/balanced"], answers=20, seeds=2, first_seed=0, n_jobs=1)
    >>> outcome = result.outcomes[0]
    >>> outcome.checkpoints, outcome.difference("euclidean", "knn_error", 10).mean
    ((10, 20), 0.0)
    """
    chosen = choose_benchmarks(benchmarks, ANSWER_BENCHMARKS)
    others = RIVALS if rivals else REFERENCES
    methods = tuple(merge_methods([METHODS[OURS], METHODS[CURVED]], others, check_methods(extra_methods, METHODS)))
    check_integer(answers, "answers", at_least=CHECKPOINTS[0], at_most=CHECKPOINTS[-1])
    checkpoints = tuple(checkpoint for checkpoint in CHECKPOINTS if checkpoint <= answers)
    check_integer(seeds, "seeds", at_least=1)
    check_integer(first_seed, "first_seed", at_least=0)
    outcomes: list[AnswerResult] = []
    skipped: dict[str, str] = {}
    with Journal(journal, restart=restart) as opened:
        runner = Runner(opened, n_jobs=n_jobs, progress=progress)
        for benchmark, points in load_available(chosen, _load, skipped):
            properties = AnswerProperties(benchmark.name, points.X.shape[1], checkpoints[-1])
            check_stream(methods, properties)
            for method in methods:
                method.check_settings(properties, needs_play=False)
            entry = partial(_journal_entry, benchmark, points.digest(), checkpoints)
            trials = [(seed, methods) for seed in range(first_seed, first_seed + seeds)]
            run = partial(_run_call, benchmark, checkpoints)
            results = collect_records(runner, benchmark.name, run, entry, trials)
            records = {
                method.label: [CheckpointRecord.from_json(of_seed[at]) for of_seed in results]
                for at, method in enumerate(methods)
            }
            outcomes.append(AnswerResult(benchmark, checkpoints, records, count_held_out(len(points))))
    check_not_empty(outcomes, skipped)
    return FewAnswersResult(tuple(outcomes), methods, skipped)


def _load(benchmark: AnswerBenchmark) -> LabelledPoints:
    """Return the points of any seed: a check that the data exist, their size and their digest."""
    return benchmark.load(0)


def _run_call(
    benchmark: AnswerBenchmark, checkpoints: tuple[int, ...], argument: tuple[int, tuple[Method, ...]]
) -> list[dict[str, Any]]:
    seed, methods = argument
    return [record.to_json() for record in run_checkpoints(benchmark, methods, seed, checkpoints)]


def _journal_entry(
    benchmark: AnswerBenchmark, digest: str, checkpoints: tuple[int, ...], method: Method, seed: int
) -> Entry:
    """Return the journal entry of a record; the records of user-defined methods stay in memory."""
    persist = is_built_in(method, METHODS) and ANSWER_BENCHMARKS.get(benchmark.name) is benchmark
    identity = "" if persist else f"{id(benchmark)} {id(method.factory)}"
    request = (identity, benchmark.name, digest, method.name, sorted(method.settings.items()), seed, checkpoints)
    return Entry(result_key("few-answers", *request), persist)
