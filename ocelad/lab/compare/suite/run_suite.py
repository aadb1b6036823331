"""``run_suite``: the methods of the suite on its rows, one row after the other."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from ocelad._validation import check_choice
from ocelad.lab.compare.registry import METHODS
from ocelad.lab.compare.run_comparison import Progress, compare
from ocelad.lab.compare.suite.benchmarks import FIRST_FRESH_SEED, HINDSIGHT, OPPONENTS, OURS, ROWS
from ocelad.lab.compare.suite.suite_summary import Outcome, SuiteResult, best_in_hindsight

#: Rounds between evaluations, and where it is measured how soon a method recovers.
EVERY, EVERY_RECOVERING = 100, 25
#: How many streams of each row.
SEEDS = 20


def run_suite(
    rows: Iterable[str] = tuple(ROWS),
    *,
    seeds: int = SEEDS,
    first_seed: int = FIRST_FRESH_SEED,
    n_jobs: int = -1,
    journal: str | Path | None = None,
    restart: bool = False,
    progress: Progress | None = None,
) -> SuiteResult:
    """Run the adaptivity suite.

    Parameters
    ----------
    rows : iterable of str
        The names of rows, of ``ROWS``. One whose data are not there is left out, and the result says why.
    seeds, first_seed : int
        How many streams of each row, and the seed of the first.
    n_jobs, journal, restart
        As of ``compare``.
    progress : callable or None
        Called with the row, the number of trials done and of all, after each.

    Examples
    --------
    >>> result = run_suite(["wine"], seeds=2, n_jobs=1)
    >>> [outcome.row.name for outcome in result.outcomes], [aim.what for aim in result.outcomes[0].aims]
    (['wine'], ['error against euclidean and rice'])
    """
    chosen = [ROWS[check_choice(name, "a row of the suite", ROWS)] for name in rows]
    named = [METHODS[name] for name in dict.fromkeys((OURS, *OPPONENTS))]
    outcomes, skipped = [], {}
    for row in dict.fromkeys(chosen):
        try:
            stream = row.stream
        except (ImportError, FileNotFoundError) as error:
            skipped[row.name] = str(error)
            continue
        if (reason := METHODS[OURS].why_not(stream)) is not None:
            skipped[row.name] = f"{OURS}: {reason}"
            continue
        common: dict[str, Any] = {"seeds": seeds, "first_seed": first_seed, "n_jobs": n_jobs, "journal": journal}
        fitting = [method for method in (*named, *HINDSIGHT) if method.why_not(stream) is None]
        comparison = compare(
            fitting, stream, reference=OURS, every=EVERY, restart=restart, progress=_of(progress, row.name), **common
        )
        restart = False  # what this row has kept must stay
        recovering = None
        if row.switches:
            best = next(method for method in HINDSIGHT if method.label == best_in_hindsight(comparison))
            recovering = compare(
                [*named, best],
                stream,
                reference=OURS,
                every=EVERY_RECOVERING,
                progress=_of(progress, f"{row.name}, recovery"),
                **common,
            )
        outcomes.append(Outcome(row, comparison, recovering))
    if not outcomes:
        reasons = "; ".join(f"{name}: {why}" for name, why in skipped.items()) or "none is named"
        raise ValueError(f"there is no row to run ({reasons})")
    return SuiteResult(tuple(outcomes), skipped)


def _of(progress: Progress | None, words: str) -> Progress | None:
    """The progress of a comparison, told under other words."""
    return None if progress is None else partial(_tell, progress, words)


def _tell(progress: Progress, words: str, _: str, done: int, total: int) -> None:
    progress(words, done, total)
