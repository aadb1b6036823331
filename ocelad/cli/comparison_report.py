"""What is said of a comparison: tables, notes, where the reference does not win; and what can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.shared import print_json, print_tables, table

if TYPE_CHECKING:
    from ocelad.lab.compare import Comparison, Method
    from ocelad.lab.compare.summary import Estimate, NotWon

# What is finished, in the folder of the results.
JOURNAL = "trials.jsonl"
# How it is said that a method is better than the reference, alike, or that it cannot be known.
MARKS = {"better": "", "alike": "= ", "unknown": "? "}
# More phases than these have no columns of their own.
MOST_PHASES = 6


def score_lines(result: Comparison) -> Iterator[str]:
    """Every score, for tools that read tables."""
    from ocelad.lab.compare.scoring import Scores

    yield f"method,seed,round,phase,{','.join(Scores._fields)}\n"
    for label, records in result.records.items():
        for record in records:
            for t, phase, scores in zip(record.rounds, record.phases, record.scores, strict=True):
                numbers = ",".join("" if score != score else repr(float(score)) for score in scores)
                yield f'"{label}",{record.seed},{t},"{phase}",{numbers}\n'


def tables(result: Comparison) -> list[Any]:
    from ocelad.lab.compare.summary import MEASURES

    by_label = {line.method: line for line in result.rows()}
    lines = [by_label[label] for label in result.ranking]
    told = {method.label: method.needs for method in result.methods}
    numbered = _numbered(result)
    others = [measure for measure in result.measures if measure != result.main]
    by_measure = {measure: {line.method: line for line in result.rows(measure)} for measure in others}
    reference = result.reference if len(result.reference) <= 20 else "reference"
    columns = ["method", *numbered.values(), "all", f"minus {reference}"]
    columns += [{"found": "found", "ranked_wrong": "ranked"}[measure] for measure in others] + ["us/pair"]
    rows = []
    for line in lines:
        label = line.method
        failed, star = len(result.failures(label)), " *" if told[label] else ""
        row = [f"{label}{star}{f' ({len(result.seeds) - failed}/{len(result.seeds)})' if failed else ''}"]
        row += [number_of(line.by_phase[phase].mean) for phase in numbered]
        row += [with_error(line.overall)]
        row += ["" if label == result.reference else with_error(line.difference, sign=True)]
        row += [number_of(by_measure[measure][label].mean, 1) for measure in others]
        rows.append([*row, number_of(result.microseconds(label), 0)])
    over = f"{len(result.seeds)} streams" if len(result.seeds) > 1 else "one stream"
    title = f"{MEASURES[result.main]}, mean and standard error: {result.stream.name}, {over}"
    made = [table(title, columns, rows)]
    if result.tuned:
        settings = [[label, _settings(tuned.best), str(tuned.n_tried)] for label, tuned in result.tuned.items()]
        made.append(
            table(
                "Tuned on other streams" if result.stream.seeded else "Tuned on the pairs before",
                ["method", "", "tried"],
                settings,
            )
        )
    return made


def _numbered(result: Comparison) -> dict[str, str]:
    """A short name for each phase that has a column, where there are not too many."""
    if not 1 < len(result.phases) <= MOST_PHASES:
        return {}
    return {phase: f"P{at}" for at, phase in enumerate(result.phases, start=1)}


def _settings(method: Method) -> str:
    return ", ".join(f"{key}={method.values[key]}" for key in method.search)


def notes(result: Comparison) -> list[str]:
    """What the table does not say by itself."""
    from ocelad.lab.compare.summary import MEASURES

    said = []
    if numbered := _numbered(result):
        said.append("; ".join(f"{number}: {phase}" for phase, number in numbered.items()))
    if result.stream.has_scenes:
        said.append(f"found: {MEASURES['found']}, more is better; ranked: {MEASURES['ranked_wrong']}, less is better.")
    if any(method.needs for method in result.methods):
        said.append(
            "* is told more than the pairs: classes, when the question changes, how long the stream is, or the truth."
        )
    if not result.stream.seeded:
        said.append(f"Standard errors are over {result.n_stretches} stretches of the stream, one after the other.")
    for method in result.methods:
        failed = result.failures(method.label)
        if failed:
            said.append(
                f"{method.label} failed on {len(failed)} of {len(result.seeds)} streams, which are left out of its "
                f"means; the first: {failed[0].failed}"
            )
    return [*said, "", *_not_won(result)]


def _not_won(result: Comparison) -> list[str]:
    """Where the reference does not win: phase by phase, then by every measure."""
    from ocelad.lab.compare.summary import MEASURES

    told = {method.label: " *" if method.needs else "" for method in result.methods}
    found = result.not_won()
    if not found:
        return [f"{result.reference} wins everywhere (95 % confidence, paired)."] if len(result.methods) > 1 else []
    marks = "= not told apart with 95 % confidence, ? cannot be told: one stream only, or one of the two failed"
    lines = [f"Where {result.reference} does not win (minus {result.reference}, paired; {marks}):"]
    for measure, phase in dict.fromkeys((lost.measure, lost.phase) for lost in found):
        here = sorted((lost for lost in found if (lost.measure, lost.phase) == (measure, phase)), key=_size)
        words = [
            f"{lost.method}{told[lost.method]} {MARKS[lost.verdict]}{with_error(lost.difference, sign=True)}"
            for lost in here
        ]
        lines.append(f"  {phase or f'over all, {MEASURES[measure]}'}: {', '.join(words)}")
    return lines


def _size(lost: NotWon) -> float:
    return -abs(lost.difference.mean) if lost.verdict == "better" else 0.0


def with_error(estimate: Estimate, sign: bool = False) -> str:
    """A mean with its standard error, as far as they are known."""
    mean, error = estimate.mean, estimate.error
    if mean != mean:
        return "-"
    number = f"{mean:+.2f}" if sign else f"{mean:.2f}"
    return number if error != error else f"{number} ±{error:.2f}"


def number_of(value: float, digits: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "-" if value != value else f"{value:.{digits}f}"


def print_list(as_json: bool) -> None:
    from ocelad.lab.compare import GROUPS, METHODS, STREAMS
    from ocelad.lab.compare.suite import ROWS

    if as_json:
        methods = {
            method.name: {
                "about": method.metadata,
                "group": method.group,
                "settings": method.values,
                "tuned": list(method.search),
                "told": sorted(method.needs),
                "sparse": method.sparse,
            }
            for method in METHODS.values()
        }
        streams = {
            name: {"about": stream.metadata, "rounds": stream.rounds, "phases": stream.phases}
            for name, stream in STREAMS.items()
        }
        print_json({"methods": methods, "streams": streams, "suites": {"adaptivity": list(ROWS)}})
        return
    groups = []
    for group in GROUPS:
        rows = [
            [f"{method.name} *" if method.needs else method.name, method.metadata, _listed(method)]
            for method in METHODS.values()
            if method.group == group
        ]
        groups.append(table(group, ["method", "", ""], rows))
    streams_rows = [[name, f"{stream.metadata}; {stream.rounds} rounds"] for name, stream in STREAMS.items()]
    print_tables(*groups, table("streams", ["stream", ""], streams_rows))
    click.echo(
        "* is told more than the pairs: classes, when the question changes, how long the stream is, or the truth."
    )
    click.echo(f"The rows of --suite adaptivity: {', '.join(ROWS)}.")


def _listed(method: Method) -> str:
    return ", ".join(f"{key}={value}" for key, value in method.values.items())
