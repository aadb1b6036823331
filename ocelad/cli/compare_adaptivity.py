"""The printed report of the adaptivity suite: errors, paired differences, targets, and where ours does not win."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ocelad.cli.compare_report import MARKS, format_estimate, format_number
from ocelad.cli.output import make_table

if TYPE_CHECKING:
    from ocelad.lab.compare.suite import BenchmarkResult, SuiteResult

# The width of the tables where the output is not a terminal.
WIDTH = 140


def make_tables(result: SuiteResult) -> list[Any]:
    """Build the tables of errors, of paired differences and of targets."""
    return [_error_table(result), _difference_table(result), _target_table(result)]


def _method_names(result: SuiteResult) -> list[str]:
    """Return the names of all methods, ours first."""
    return list(dict.fromkeys(outcome.display_name(label) for outcome in result.outcomes for label in outcome.methods))


def _labels_by_name(outcome: BenchmarkResult) -> dict[str, str]:
    return {outcome.display_name(label): label for label in outcome.methods}


def _error_table(result: SuiteResult) -> Any:
    columns = _method_names(result)
    rows = []
    for outcome in result.outcomes:
        labels = _labels_by_name(outcome)
        rows.append(
            [outcome.benchmark.name, *(_cell(outcome, labels[name]) if name in labels else "" for name in columns)]
        )
    first = result.outcomes[0]
    labels = _labels_by_name(first)
    times = [
        format_number(first.comparison.microseconds(labels[name]), 0) if name in labels else "" for name in columns
    ]
    rows.append([f"us/pair, {first.benchmark.name}", *times])
    title = f"Error in % / P(NMI > 0.8) in %, means over {len(result.seeds)} streams per benchmark"
    return make_table(title, ["benchmark", *columns], rows)


def _cell(outcome: BenchmarkResult, label: str) -> str:
    return " / ".join(
        format_number(outcome.mean(label, measure).mean, digits)
        for measure, digits in zip(outcome.measures, (2, 1), strict=False)
    )


def _difference_table(result: SuiteResult) -> Any:
    from ocelad.lab.compare.suite import OURS

    columns = [name for name in _method_names(result) if name != OURS]
    rows = []
    for outcome in result.outcomes:
        labels = _labels_by_name(outcome)
        cells = [
            format_estimate(outcome.difference(labels[name]), sign=True) if name in labels else "" for name in columns
        ]
        rows.append([outcome.benchmark.name, *cells])
    title = f"Error minus that of {OURS}, in percentage points, with the standard error of the paired difference"
    return make_table(title, ["benchmark", *columns], rows)


def _target_table(result: SuiteResult) -> Any:
    rows = [
        [
            target.benchmark,
            target.quantity,
            target.bound,
            format_number(target.value),
            "met" if target.met else "missed",
        ]
        for target in result.targets
    ]
    return make_table("Targets", ["benchmark", "", "target", "value", "result"], rows)


def make_notes(result: SuiteResult) -> Iterator[str]:
    """Yield the lines below the tables: legend, failures, recovery times, missed targets, unbeaten methods."""
    from ocelad.lab.compare.suite import OURS

    yield from (f"Error on {', '.join(names)}: {kind}." for kind, names in _kinds_of_error(result).items())
    for outcome in result.outcomes:
        for label in outcome.methods:
            failed = outcome.comparison.failures(label)
            if failed:
                yield (
                    f"{outcome.benchmark.name}: {label} failed on {len(failed)} of {len(result.seeds)} streams, which "
                    f"are excluded from its means; the first failure: {failed[0].failure}"
                )
    settings = [f"{outcome.benchmark.name} {outcome.best_comid.partition(':')[2]}" for outcome in result.outcomes]
    yield f"The best COMID learner in hindsight, chosen on the same streams: {'; '.join(settings)}."
    for outcome in result.outcomes:
        if outcome.benchmark.switches:
            times = [f"{outcome.display_name(label)} {_format_recovery(outcome, label)}" for label in outcome.methods]
            yield f"{outcome.benchmark.name}, rounds to recovery after each switch: {', '.join(times)}."
    for name, reason in result.skipped.items():
        yield f"Skipped {name}: {reason}."
    yield ""
    missed: dict[str, list[str]] = {}
    for target in result.targets:
        if not target.met:
            missed.setdefault(target.benchmark, []).append(target.quantity)
    yield f"{sum(map(len, missed.values()))} of {len(result.targets)} targets are missed."
    yield from (f"  {name}: {'; '.join(targets)}" for name, targets in missed.items())
    unbeaten = [line for outcome in result.outcomes if (line := _describe_unbeaten(outcome))]
    if unbeaten:
        marks = "P: P(NMI > 0.8), = no significant difference, ? unknown"
        yield f"Where {OURS} does not win (minus {OURS}, paired, 95 % confidence; {marks}):"
        yield from unbeaten
    else:
        yield f"{OURS} wins everywhere (95 % confidence, paired)."


def _kinds_of_error(result: SuiteResult) -> dict[str, list[str]]:
    """Return the benchmarks by the measure that is their error."""
    from ocelad.lab.compare.comparison import MEASURES

    kinds: dict[str, list[str]] = {}
    for outcome in result.outcomes:
        kinds.setdefault(MEASURES[outcome.main_measure], []).append(outcome.benchmark.name)
    return kinds


def _format_recovery(outcome: BenchmarkResult, label: str) -> str:
    from ocelad.lab.compare.suite.recovery import RECOVERY_WINDOW

    return "/".join(f">{RECOVERY_WINDOW}" if steps is None else str(steps) for steps in outcome.recovery_times(label))


def _describe_unbeaten(outcome: BenchmarkResult) -> str:
    methods = [
        f"{outcome.display_name(each.method)}{' P' if each.measure == 'clusters_found' else ''} "
        f"{MARKS[each.verdict]}{format_estimate(each.difference, sign=True)}"
        for each in outcome.unbeaten()
    ]
    return f"  {outcome.benchmark.name}: {', '.join(methods)}" if methods else ""


def csv_lines(result: SuiteResult) -> Iterator[str]:
    """Yield the lines of a CSV file with a row for each benchmark, method and measure."""
    yield "benchmark,method,name,measure,mean,standard_error,difference,difference_standard_error,n,us_per_pair\n"
    for outcome in result.outcomes:
        for label in outcome.methods:
            cost = outcome.comparison.microseconds(label)
            for measure in outcome.measures:
                mean, difference = outcome.mean(label, measure), outcome.difference(label, measure)
                numbers = (*mean[:2], *difference[:2], mean.n, cost)
                cells = ",".join("" if number != number else repr(number) for number in numbers)
                yield f'{outcome.benchmark.name},"{label}","{outcome.display_name(label)}",{measure},{cells}\n'
