"""``run_suite``: run the methods of the suite on its benchmarks, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from ocelad._validation import check_choice
from ocelad.lab.compare.registry import METHODS
from ocelad.lab.compare.run_comparison import compare
from ocelad.lab.compare.suite.benchmarks import BENCHMARKS, COMID_GRID, FIRST_TEST_SEED, OPPONENTS, OURS
from ocelad.lab.compare.suite.suite_results import BenchmarkResult, SuiteResult, best_comid
from ocelad.lab.runner import Progress

#: The number of rounds between evaluations, and the same where the recovery time is measured.
EVERY, EVERY_RECOVERY = 100, 25
#: The number of streams of each benchmark.
SEEDS = 20


def run_suite(
    benchmarks: Iterable[str] = tuple(BENCHMARKS),
    *,
    seeds: int = SEEDS,
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
    named = [METHODS[name] for name in dict.fromkeys((OURS, *OPPONENTS))]
    outcomes, skipped = [], {}
    for benchmark in dict.fromkeys(chosen):
        try:
            stream = benchmark.stream
        except (ImportError, FileNotFoundError) as error:
            skipped[benchmark.name] = str(error)
            continue
        if (reason := METHODS[OURS].incompatibility(stream)) is not None:
            skipped[benchmark.name] = f"{OURS}: {reason}"
            continue
        common: dict[str, Any] = {"seeds": seeds, "first_seed": first_seed, "n_jobs": n_jobs, "journal": journal}
        compatible = [method for method in (*named, *COMID_GRID) if method.incompatibility(stream) is None]
        comparison = compare(
            compatible,
            stream,
            reference=OURS,
            every=EVERY,
            restart=restart,
            progress=_relabel(progress, benchmark.name),
            **common,
        )
        restart = False  # a second restart would drop the records of this benchmark
        recovery_comparison = None
        if benchmark.switches:
            best = next(method for method in COMID_GRID if method.label == best_comid(comparison))
            recovery_comparison = compare(
                [*named, best],
                stream,
                reference=OURS,
                every=EVERY_RECOVERY,
                progress=_relabel(progress, f"{benchmark.name}, recovery"),
                **common,
            )
        outcomes.append(BenchmarkResult(benchmark, comparison, recovery_comparison))
    if not outcomes:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items()) or "none is named"
        raise ValueError(f"there is no benchmark to run ({reasons})")
    return SuiteResult(tuple(outcomes), skipped)


def _relabel(progress: Progress | None, label: str) -> Progress | None:
    """Return a callback that reports the progress of a comparison under another label."""
    return None if progress is None else partial(_report, progress, label)


def _report(progress: Progress, label: str, _: str, done: int, total: int) -> None:
    progress(label, done, total)
