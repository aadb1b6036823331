"""The printed report of the few-answers suite: differences from Euclidean distance, probabilities and targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ocelad.cli.compare_report import format_estimate, format_number
from ocelad.cli.output import make_table

if TYPE_CHECKING:
    from ocelad.lab.compare.few_answers import AnswerResult, FewAnswersResult

# The width of the tables where the output is not a terminal.
WIDTH = 160
# The measures of the table of all methods.
_MAIN_MEASURES = ("knn_error", "ranking_error")


def make_tables(result: FewAnswersResult) -> list[Any]:
    """Build the tables of our differences from Euclidean distance, of all methods, and of the probabilities."""
    from ocelad.lab.compare.few_answers.answer_methods import CURVED, CURVED_ITEMS
    from ocelad.lab.compare.few_answers.no_harm import NAMES
    from ocelad.lab.compare.suites import OURS

    ours = [method.label for method in result.methods if method.label in (OURS, CURVED, CURVED_ITEMS)]
    tables = [_difference_table(result, label, measure, name) for label in ours for measure, name in NAMES.items()]
    return [*tables, _method_table(result), _probability_table(result), _missed_table(result)]


def _difference_table(result: FewAnswersResult, label: str, measure: str, name: str) -> Any:
    from ocelad.lab.compare.few_answers.answer_methods import EUCLIDEAN

    rows = []
    for outcome in result.outcomes:
        first = outcome.checkpoints[0]
        reference = format_number(outcome.mean(EUCLIDEAN, measure, first).mean)
        cells = [format_estimate(outcome.difference(label, measure, n), sign=True) for n in outcome.checkpoints]
        rows.append([outcome.benchmark.name, reference, *cells])
    title = f"{name}, {label} minus {EUCLIDEAN} in percentage points, by the number of answers"
    return make_table(title, ["benchmark", EUCLIDEAN, *_headings(result)], rows)


def _method_table(result: FewAnswersResult) -> Any:
    from ocelad.lab.compare.few_answers.answer_methods import EUCLIDEAN

    rows = [
        [
            method.label,
            *(
                " / ".join(_mean_difference(result, method.label, measure, n) for measure in _MAIN_MEASURES)
                for n in result.checkpoints
            ),
        ]
        for method in result.methods
        if method.label != EUCLIDEAN
    ]
    n_benchmarks = len(result.outcomes)
    title = f"k-NN error / ranking error minus {EUCLIDEAN}, in percentage points, means over {n_benchmarks} benchmarks"
    return make_table(title, ["method", *_headings(result)], rows)


def _mean_difference(result: FewAnswersResult, label: str, measure: str, answers: int) -> str:
    means = [outcome.difference(label, measure, answers).mean for outcome in result.outcomes]
    known = [mean for mean in means if mean == mean]
    return f"{sum(known) / len(known):+.2f}" if known else "-"


def _probability_table(result: FewAnswersResult) -> Any:
    from ocelad.lab.compare.few_answers.answer_methods import LOGISTIC
    from ocelad.lab.compare.suites import OURS

    rows = [
        [outcome.benchmark.name, *(_probability_cell(outcome, n) for n in outcome.checkpoints)]
        for outcome in result.outcomes
    ]
    title = f"{OURS}: log loss minus {LOGISTIC} / expected calibration error in % / median recalibration slope"
    return make_table(title, ["benchmark", *_headings(result)], rows)


def _probability_cell(outcome: AnswerResult, answers: int) -> str:
    from ocelad.lab.compare.few_answers.answer_methods import LOGISTIC
    from ocelad.lab.compare.suites import OURS

    loss = outcome.difference(OURS, "log_loss", answers, LOGISTIC).mean
    error = format_number(outcome.mean(OURS, "calibration_error", answers).mean, 1)
    slope = format_number(outcome.median(OURS, "recalibration_slope", answers), 2)
    return f"{'-' if loss != loss else f'{loss:+.3f}'} / {error} / {slope}"


def _missed_table(result: FewAnswersResult) -> Any:
    rows = [
        [target.benchmark, target.quantity, target.bound, format_number(target.value)]
        for target in result.targets
        if not target.met
    ]
    return make_table("Missed targets", ["benchmark", "", "target", "value"], rows)


def _headings(result: FewAnswersResult) -> list[str]:
    return [str(answers) for answers in result.checkpoints]


def make_notes(result: FewAnswersResult) -> Iterator[str]:
    """Yield the lines below the tables: legend, failures, skipped benchmarks, and counts."""
    from ocelad.lab.compare.few_answers.answer_methods import LOGISTIC
    from ocelad.lab.compare.suites import OURS

    n_seeds = len(result.seeds)
    seeds = f"{n_seeds} seeds" if n_seeds > 1 else "one seed"
    yield f"Means over {seeds} per benchmark, differences paired by seed, with their standard errors."
    if n_seeds == 1:
        yield "One seed has no confidence bound: of the targets only those of the worst seed can be missed."
    for outcome in result.outcomes:
        for label in outcome.methods:
            if failed := outcome.failures(label):
                yield (
                    f"{outcome.benchmark.name}: {label} failed on {len(failed)} of {n_seeds} seeds, which are excluded "
                    f"from its means; the first failure: {failed[0].failure}"
                )
    for name, reason in result.skipped.items():
        yield f"Skipped {name}: {reason}."
    yield ""
    cells = result.log_loss_cells
    if cells.total:
        yield f"In {cells.holding} of {cells.total} cells the log loss of {OURS} is no worse than that of {LOGISTIC}."
    missed = Counter(target.benchmark for target in result.targets if not target.met)
    yield f"{sum(missed.values())} of {len(result.targets)} targets are missed."
    yield from (f"  {name}: {count}" for name, count in missed.items())


def csv_lines(result: FewAnswersResult) -> Iterator[str]:
    """Yield the lines of a CSV file with a row for each benchmark, method, number of answers and measure."""
    from ocelad.lab.compare.few_answers.few_answers_results import ANSWER_MEASURES

    yield "benchmark,method,answers,measure,mean,standard_error,difference,difference_standard_error,n\n"
    for outcome in result.outcomes:
        for label in outcome.methods:
            for measure in (name for name in ANSWER_MEASURES if outcome.has(label, name)):
                for answers in outcome.checkpoints:
                    mean = outcome.mean(label, measure, answers)
                    difference = outcome.difference(label, measure, answers)
                    numbers = (*mean[:2], *difference[:2], mean.n)
                    cells = ",".join("" if number != number else repr(number) for number in numbers)
                    yield f'"{outcome.benchmark.name}","{label}",{answers},{measure},{cells}\n'
