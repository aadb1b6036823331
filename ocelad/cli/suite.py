"""ocelad compare --suite: one setting of each method on many streams, and which aims are met."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.comparison_report import JOURNAL, MARKS, number_of, with_error
from ocelad.cli.progress import tell_of_interrupt, trial_progress
from ocelad.cli.shared import json_line, print_tables, table, why_no_picture

if TYPE_CHECKING:
    from ocelad.lab.compare.suite import Outcome, SuiteResult

RESULT, LINES, PICTURE = "suite.json", "suite.csv", "suite"


def compare_suite(options: dict[str, Any], as_json: bool) -> None:
    """Run the suite that is meant, and tell what came of it."""
    from ocelad.lab.compare.suite import FIRST_FRESH_SEED, ROWS, run_suite
    from ocelad.lab.compare.suite.run_suite import SEEDS

    output: Path = options["output"]
    rows = [name.strip() for name in options["rows"].split(",")] if options["rows"] else list(ROWS)
    unknown = [name for name in rows if name not in ROWS]
    if unknown:
        raise click.UsageError(f"the suite has no row {unknown[0]!r}; accepted: {', '.join(ROWS)}")
    with trial_progress() as progress:
        try:
            result = run_suite(
                rows,
                seeds=options["seeds"] or SEEDS,
                first_seed=FIRST_FRESH_SEED if options["first_seed"] is None else options["first_seed"],
                n_jobs=options["jobs"],
                journal=output / JOURNAL,
                restart=options["restart"],
                progress=progress,
            )
        except KeyboardInterrupt:
            tell_of_interrupt(output / JOURNAL, options["restart"])
    _write(result, output, f"{PICTURE}.{options['picture']}", as_json)


def _write(result: SuiteResult, output: Path, picture: str, as_json: bool) -> None:
    """The result as JSON, as CSV and as a picture in the folder, and on the terminal."""
    from ocelad.io.state_files import replace_whole
    from ocelad.lab.compare.suite.suite_plot import draw

    content = json_line(result.to_json())
    replace_whole(output / RESULT, f"{content}\n".encode())
    replace_whole(output / LINES, "".join(_csv_lines(result)).encode())
    no_picture = why_no_picture()
    if no_picture is None:
        draw(result, output / picture)
    if as_json:
        click.echo(content)
        return
    print_tables(_errors(result), _differences(result), _aims(result), width=140)
    click.echo("\n".join(_notes(result)))
    click.echo(f"Result: {output / RESULT}; every line: {output / LINES}")
    click.echo(f"Picture: {output / picture}" if no_picture is None else f"No picture: {no_picture}")


def _columns(result: SuiteResult) -> list[str]:
    """The names of all methods, ours first."""
    return list(dict.fromkeys(outcome.name_of(label) for outcome in result.outcomes for label in outcome.methods))


def _by_name(outcome: Outcome) -> dict[str, str]:
    return {outcome.name_of(label): label for label in outcome.methods}


def _errors(result: SuiteResult) -> Any:
    columns = _columns(result)
    rows = []
    for outcome in result.outcomes:
        labels = _by_name(outcome)
        rows.append([outcome.row.name, *(_cell(outcome, labels[name]) if name in labels else "" for name in columns)])
    first = result.outcomes[0]
    labels = _by_name(first)
    costs = [number_of(first.comparison.microseconds(labels[name]), 0) if name in labels else "" for name in columns]
    rows.append([f"us/pair, {first.row.name}", *costs])
    title = f"Error in % / P(NMI > 0.8) in %, means over {len(result.seeds)} streams a row"
    return table(title, ["row", *columns], rows)


def _cell(outcome: Outcome, label: str) -> str:
    return " / ".join(
        number_of(outcome.mean(label, measure).mean, digits)
        for measure, digits in zip(outcome.measures, (2, 1), strict=False)
    )


def _differences(result: SuiteResult) -> Any:
    from ocelad.lab.compare.suite import OURS

    columns = [name for name in _columns(result) if name != OURS]
    rows = []
    for outcome in result.outcomes:
        labels = _by_name(outcome)
        cells = [with_error(outcome.more(labels[name]), sign=True) if name in labels else "" for name in columns]
        rows.append([outcome.row.name, *cells])
    title = f"Error in points more than {OURS}, with the standard error of the difference, paired by stream"
    return table(title, ["row", *columns], rows)


def _aims(result: SuiteResult) -> Any:
    rows = [
        [aim.row, aim.what, aim.wanted, number_of(aim.value), "met" if aim.met else "missed"] for aim in result.aims
    ]
    return table("What is aimed at", ["row", "", "wanted", "found", "aim"], rows)


def _notes(result: SuiteResult) -> Iterator[str]:
    """What the tables do not say by themselves."""
    from ocelad.lab.compare.suite import OURS

    yield from (f"The error is: {kind}, on {', '.join(rows)}." for kind, rows in _kinds_of_error(result).items())
    for outcome in result.outcomes:
        for label in outcome.methods:
            failed = outcome.comparison.failures(label)
            if failed:
                yield (
                    f"{outcome.row.name}: {label} failed on {len(failed)} of {len(result.seeds)} streams, which are "
                    f"left out of its means; the first: {failed[0].failed}"
                )
    words = [f"{outcome.row.name} {outcome.hindsight.partition(':')[2]}" for outcome in result.outcomes]
    yield f"The best COMID learner, chosen in hindsight on the same streams: {'; '.join(words)}."
    for outcome in result.outcomes:
        if outcome.row.switches:
            told = [f"{outcome.name_of(label)} {_recovery(outcome, label)}" for label in outcome.methods]
            yield f"{outcome.row.name}, rounds until recovered after each switch: {', '.join(told)}."
    for name, why in result.skipped.items():
        yield f"Left out, {name}: {why}."
    yield ""
    missed: dict[str, list[str]] = {}
    for aim in result.aims:
        if not aim.met:
            missed.setdefault(aim.row, []).append(aim.what)
    yield f"Of {len(result.aims)} aims {sum(map(len, missed.values()))} are missed."
    yield from (f"  {row}: {'; '.join(whats)}" for row, whats in missed.items())
    lost = [line for outcome in result.outcomes if (line := _not_won(outcome))]
    if lost:
        yield f"Where {OURS} does not win (minus {OURS}, paired, 95 %; P: of P(NMI > 0.8), = alike, ? cannot be told):"
        yield from lost
    else:
        yield f"{OURS} wins everywhere (95 % confidence, paired)."


def _kinds_of_error(result: SuiteResult) -> dict[str, list[str]]:
    """What the error is, and on which rows."""
    from ocelad.lab.compare.summary import MEASURES

    kinds: dict[str, list[str]] = {}
    for outcome in result.outcomes:
        kinds.setdefault(MEASURES[outcome.main], []).append(outcome.row.name)
    return kinds


def _recovery(outcome: Outcome, label: str) -> str:
    from ocelad.lab.compare.suite.recovery import WATCHED

    return "/".join(f">{WATCHED}" if steps is None else str(steps) for steps in outcome.recovery(label))


def _not_won(outcome: Outcome) -> str:
    words = [
        f"{outcome.name_of(lost.method)}{' P' if lost.measure == 'found' else ''} "
        f"{MARKS[lost.verdict]}{with_error(lost.difference, sign=True)}"
        for lost in outcome.not_won()
    ]
    return f"  {outcome.row.name}: {', '.join(words)}" if words else ""


def _csv_lines(result: SuiteResult) -> Iterator[str]:
    """A line for each row, method and measure, for tools that read tables."""
    yield "row,method,called,measure,mean,standard_error,more_than_ours,more_standard_error,n,us_per_pair\n"
    for outcome in result.outcomes:
        for label in outcome.methods:
            cost = outcome.comparison.microseconds(label)
            for measure in outcome.measures:
                mean, more = outcome.mean(label, measure), outcome.more(label, measure)
                numbers = (*mean[:2], *more[:2], mean.n, cost)
                shown = ",".join("" if number != number else repr(number) for number in numbers)
                yield f'{outcome.row.name},"{label}","{outcome.name_of(label)}",{measure},{shown}\n'
