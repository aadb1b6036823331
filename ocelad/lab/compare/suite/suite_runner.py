"""``run_suite``: run the methods of the suite on its benchmarks, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ocelad._validation import check_choice
from ocelad.lab.compare.block_streams import Stream
from ocelad.lab.compare.methods import Method
from ocelad.lab.compare.registry import METHODS
from ocelad.lab.compare.run_comparison import check_methods, compare
from ocelad.lab.compare.suite.benchmarks import BENCHMARKS, COMID_GRID, OPPONENTS, Benchmark
from ocelad.lab.compare.suite.suite_results import BenchmarkResult, SuiteResult, best_comid
from ocelad.lab.compare.suites import (
    FIRST_TEST_SEED,
    N_SEEDS,
    OURS,
    check_not_empty,
    load_available,
    merge_methods,
    relabel,
)
from ocelad.lab.runner import Progress

#: The number of rounds between evaluations, and the same where the recovery time is measured.
EVERY, EVERY_RECOVERY = 100, 25


def run_suite(
    benchmarks: Iterable[str] = tuple(BENCHMARKS),
    *,
    extra_methods: Iterable[str | Method] = (),
    seeds: int = N_SEEDS,
    first_seed: int = FIRST_TEST_SEED,
    n_jobs: int = -1,
    journal: str | Path | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> SuiteResult:
    """Run the adaptivity suite.

    Parameters
    ----------
    benchmarks : iterable of str
        Names of ``BENCHMARKS``. A benchmark with missing data is skipped, and the result gives the reason.
    extra_methods : iterable of str or Method
        Further opponents, as in ``compare``. A benchmark leaves out those that cannot run on its stream.
    seeds, first_seed : int
        The number of streams of each benchmark, and the seed of the first.
    n_jobs, journal, restart
        See ``compare``.
    progress : callable or None
        Called with the name of the benchmark, the number of finished records and the number of all records.

    Examples
    --------
    >>> result = run_suite(["wine"], seeds=2, n_jobs=1)
    >>> [outcome.benchmark.name for outcome in result.outcomes], [t.quantity for t in result.outcomes[0].targets]
    (['wine'], ['error minus the lower error of euclidean and rice'])
    """
    chosen = [BENCHMARKS[check_choice(name, "a benchmark of the suite", BENCHMARKS)] for name in benchmarks]
    opponents = (METHODS[name] for name in (OURS, *OPPONENTS))
    reported = merge_methods(opponents, check_methods(extra_methods))
    outcomes: list[BenchmarkResult] = []
    skipped: dict[str, str] = {}
    for benchmark, stream in load_available(dict.fromkeys(chosen), _load_stream, skipped):
        if (reason := METHODS[OURS].incompatibility(stream)) is not None:
            skipped[benchmark.name] = f"{OURS}: {reason}"
            continue
        common: dict[str, Any] = {"seeds": seeds, "first_seed": first_seed, "n_jobs": n_jobs, "journal": journal}
        compatible = [method for method in reported if method.incompatibility(stream) is None]
        grid = [method for method in COMID_GRID if method.incompatibility(stream) is None]
        comparison = compare(
            merge_methods(compatible, grid),
            stream,
            reference=OURS,
            every=EVERY,
            restart=restart,
            progress=relabel(progress, benchmark.name),
            **common,
        )
        restart = False  # a second restart would drop the records of this benchmark
        recovery_comparison = None
        if benchmark.switches:
            best = next(method for method in COMID_GRID if method.label == best_comid(comparison))
            recovery_comparison = compare(
                merge_methods(compatible, [best]),
                stream,
                reference=OURS,
                every=EVERY_RECOVERY,
                progress=relabel(progress, f"{benchmark.name}, recovery"),
                **common,
            )
        outcomes.append(BenchmarkResult(benchmark, comparison, recovery_comparison))
    check_not_empty(outcomes, skipped)
    return SuiteResult(tuple(outcomes), skipped)


def _load_stream(benchmark: Benchmark) -> Stream:
    return benchmark.stream
