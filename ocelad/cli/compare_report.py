"""The printed report of a comparison: tables, notes, and where the reference does not win."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ocelad.cli.output import make_table

if TYPE_CHECKING:
    from ocelad.lab.compare import Comparison, Method
    from ocelad.lab.compare.comparison import Unbeaten
    from ocelad.lab.statistics import Estimate

# The finished trials, in the folder of the results.
JOURNAL = "trials.jsonl"
# Marks of the verdicts on a method: better than the reference, not significantly different, or not comparable.
MARKS = {"better": "", "tie": "= ", "unknown": "? "}
# Streams with more phases have no column for each.
MAX_PHASES = 6
# Labels up to this length are column headings.
MAX_LABEL_LENGTH = 20
NEEDS_NOTE = (
    "* uses more than the pairs: the classes, the times of change, the length of the stream, or the true metric."
)


def score_lines(result: Comparison) -> Iterator[str]:
    """Yield the lines of a CSV file with every score; the phase is that of the main measure."""
    from ocelad.lab.compare.scoring import Scores

    yield f"method,seed,round,phase,{','.join(Scores._fields)}\n"
    for label, records in result.records.items():
        for record in records:
            for t, phase, scores in zip(record.rounds, result.phases_of(record), record.scores, strict=True):
                numbers = ",".join("" if score != score else repr(float(score)) for score in scores)
                yield f'"{label}",{record.seed},{t},"{phase}",{numbers}\n'


def make_tables(result: Comparison) -> list[Any]:
    """Build the table of the methods' scores, and one of the tuned settings if there are any."""
    from ocelad.lab.compare.comparison import MEASURES

    by_label = {line.method: line for line in result.summaries()}
    lines = [by_label[label] for label in result.ranking]
    requires = {method.label: method.requires for method in result.methods}
    headings = _phase_headings(result)
    others = [measure for measure in result.measures if measure != result.main_measure]
    by_measure = {measure: {line.method: line for line in result.summaries(measure)} for measure in others}
    reference = result.reference if len(result.reference) <= MAX_LABEL_LENGTH else "reference"
    columns = ["method", *headings.values(), "all", f"minus {reference}"]
    columns += [{"clusters_found": "found", "ranking_error": "ranked"}[measure] for measure in others] + ["us/pair"]
    rows = []
    for line in lines:
        label = line.method
        n_failed, star = len(result.failures(label)), " *" if requires[label] else ""
        row = [f"{label}{star}{f' ({len(result.seeds) - n_failed}/{len(result.seeds)})' if n_failed else ''}"]
        row += [format_number(line.by_phase[phase].mean) for phase in headings]
        row += [format_estimate(line.overall)]
        row += ["" if label == result.reference else format_estimate(line.difference, sign=True)]
        row += [format_number(by_measure[measure][label].mean, 1) for measure in others]
        rows.append([*row, format_number(result.microseconds(label), 0)])
    streams = f"{len(result.seeds)} streams" if len(result.seeds) > 1 else "one stream"
    title = f"{MEASURES[result.main_measure]}, mean and standard error: {result.stream.name}, {streams}"
    tables = [make_table(title, columns, rows)]
    if result.tuned:
        settings = [[label, _format_tuned(tuned.best), str(len(tuned.trials))] for label, tuned in result.tuned.items()]
        title = "Tuned on other streams" if result.stream.seeded else "Tuned on the first quarter of the file"
        tables.append(make_table(title, ["method", "", "tried"], settings))
    return tables


def _phase_headings(result: Comparison) -> dict[str, str]:
    """Return a short heading for each phase, or none if there are too many phases for columns."""
    if not 1 < len(result.phases) <= MAX_PHASES:
        return {}
    return {phase: f"P{number}" for number, phase in enumerate(result.phases, start=1)}


def _format_tuned(method: Method) -> str:
    return ", ".join(f"{key}={method.settings[key]}" for key in method.search_space)


def make_notes(result: Comparison) -> list[str]:
    """Return the lines below the table: its legend, failures, and where the reference does not win."""
    from ocelad.lab.compare.comparison import MEASURES

    notes = []
    if headings := _phase_headings(result):
        meaning = "" if result.stream.seeded else " of the file."
        if meaning and result.main_measure == "ranking_error":
            meaning += " An evaluation ranks the pairs until the next one, and counts in the part with most of them."
        notes.append("; ".join(f"{heading}: {phase}" for phase, heading in headings.items()) + meaning)
    if result.stream.has_eval_sets:
        meanings = [f"found: {MEASURES['clusters_found']}, higher is better"]
        if "ranking_error" in result.measures:
            meanings.append(f"ranked: {MEASURES['ranking_error']}, lower is better")
        notes.append(f"{'; '.join(meanings)}.")
    if any(method.requires for method in result.methods):
        notes.append(NEEDS_NOTE)
    if not result.stream.seeded:
        notes.append(f"Standard errors are over {result.n_segments} consecutive segments of the stream.")
    return [*notes, *result.failure_notes(), "", *_describe_unbeaten(result)]


def _describe_unbeaten(result: Comparison) -> list[str]:
    """Return where the reference does not win: phase by phase, then over the whole stream by each measure."""
    from ocelad.lab.compare.comparison import MEASURES

    stars = {method.label: " *" if method.requires else "" for method in result.methods}
    unbeaten = result.unbeaten()
    if not unbeaten:
        return [f"{result.reference} wins everywhere (95 % confidence, paired)."] if len(result.methods) > 1 else []
    marks = "= no significant difference at 95 % confidence, ? unknown: one stream only, or one of the two failed"
    lines = [f"Where {result.reference} does not win (minus {result.reference}, paired; {marks}):"]
    for measure, phase in dict.fromkeys((each.measure, each.phase) for each in unbeaten):
        here = sorted((each for each in unbeaten if (each.measure, each.phase) == (measure, phase)), key=_sort_key)
        methods = [
            f"{each.method}{stars[each.method]} {MARKS[each.verdict]}{format_estimate(each.difference, sign=True)}"
            for each in here
        ]
        lines.append(f"  {phase or f'over all, {MEASURES[measure]}'}: {', '.join(methods)}")
    return lines


def _sort_key(unbeaten: Unbeaten) -> float:
    """Sort the better methods first, those with the largest difference in front."""
    return -abs(unbeaten.difference.mean) if unbeaten.verdict == "better" else 0.0


def format_estimate(estimate: Estimate, sign: bool = False) -> str:
    """Format a mean with its standard error, as far as they are known."""
    mean, error = estimate.mean, estimate.standard_error
    if mean != mean:
        return "-"
    number = f"{mean:+.2f}" if sign else f"{mean:.2f}"
    return number if error != error else f"{number} ±{error:.2f}"


def format_number(value: float, digits: int = 2) -> str:
    """Format a number; NaN becomes a dash."""
    return "-" if value != value else f"{value:.{digits}f}"
