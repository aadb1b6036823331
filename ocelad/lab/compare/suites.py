"""What the suites share: our method, the seeds for testing, targets, and benchmarks whose data are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from ocelad.lab.compare.methods import Method
from ocelad.lab.compare.plain_table import plain_table
from ocelad.lab.runner import Progress

#: The method that the suites evaluate.
OURS = "adaptive"
#: Seeds from this one on are for testing only; all design decisions used seeds below 1000.
FIRST_TEST_SEED = 3000
#: The number of seeds of each benchmark.
N_SEEDS = 20


class Target(NamedTuple):
    """A target of a benchmark, and whether it is met.

    Attributes
    ----------
    benchmark, quantity : str
    bound : str
        The bound in words, such as "at most 1.10".
    value : float
        The measured value.
    met : bool
    """

    benchmark: str
    quantity: str
    bound: str
    value: float
    met: bool


def format_targets(
    suite: str, targets: Sequence[Target], skipped: Mapping[str, str], *, only_missed: bool = False
) -> str:
    """Return a table of the targets, whether each is met, and the names of benchmarks that were not run.

    With ``only_missed`` the table leaves out the targets that are met, for suites with hundreds of them.
    """
    rows = [
        [each.benchmark, each.quantity, each.bound, f"{each.value:.2f}", "met" if each.met else "missed"]
        for each in targets
        if not (only_missed and each.met)
    ]
    met = sum(target.met for target in targets)
    table = plain_table(
        f"{suite} suite: {met} of {len(targets)} targets are met", ["benchmark", "", "target", "value", "result"], rows
    )
    return f"{table}\nskipped: {', '.join(skipped)}" if skipped else table


class Named(Protocol):
    """A benchmark of any suite."""

    @property
    def name(self) -> str: ...


AnyBenchmark = TypeVar("AnyBenchmark", bound=Named)
Data = TypeVar("Data")


def load_available(
    benchmarks: Iterable[AnyBenchmark], load: Callable[[AnyBenchmark], Data], skipped: dict[str, str]
) -> Iterator[tuple[AnyBenchmark, Data]]:
    """Yield each benchmark with its data; if these are missing, add the reason to ``skipped`` instead."""
    for benchmark in benchmarks:
        try:
            data = load(benchmark)
        except (ImportError, FileNotFoundError) as error:
            skipped[benchmark.name] = str(error)
        else:
            yield benchmark, data


def check_not_empty(outcomes: Iterable[object], skipped: Mapping[str, str]) -> None:
    """Raise ValueError if no benchmark was run, with the reasons."""
    if not list(outcomes):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items()) or "none is named"
        raise ValueError(f"there is no benchmark to run ({reasons})")


def merge_methods(*groups: Iterable[Method]) -> list[Method]:
    """Return the methods of all groups, each label once."""
    return list({method.label: method for group in groups for method in group}.values())


def relabel(progress: Progress | None, label: str) -> Progress | None:
    """Return a callback that reports progress under another label."""
    return None if progress is None else partial(_report, progress, label)


def _report(progress: Progress, label: str, _: str, done: int, total: int) -> None:
    progress(label, done, total)
