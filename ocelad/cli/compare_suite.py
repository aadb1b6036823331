"""ocelad compare --suite: run the methods of a suite on all its benchmarks, and check the targets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.compare_report import JOURNAL
from ocelad.cli.options import usage_errors
from ocelad.cli.output import find_plotting_error, print_tables, to_json
from ocelad.cli.progress import exit_interrupted, show_trials

if TYPE_CHECKING:
    from ocelad.lab.compare import Method

SUITES = ("adaptivity", "few-answers")
RESULT, LINES, PICTURE = "suite.json", "suite.csv", "suite"


@dataclass(frozen=True)
class Suite:
    """A suite on the command line: how to run it and how to report its result, which has ``to_json``.

    Attributes
    ----------
    benchmarks : sequence of str
        The names of all benchmarks.
    accepted : sequence of str
        The names that --benchmarks accepts.
    methods : mapping from str to Method
        The methods that can take part by name.
    run : callable (names, keywords) -> result
    make_tables, make_notes, csv_lines : callables of the result
    draw : callable (result, path)
    width : int
        The width of the tables where the output is not a terminal.
    """

    benchmarks: Sequence[str]
    accepted: Sequence[str]
    methods: dict[str, Method]
    run: Callable[..., Any]
    make_tables: Callable[[Any], list[Any]]
    make_notes: Callable[[Any], Iterable[str]]
    csv_lines: Callable[[Any], Iterable[str]]
    draw: Callable[[Any, Path], None]
    width: int


def load_suite(name: str) -> Suite:
    """Return a suite by its name."""
    return _load_few_answers() if name == "few-answers" else _load_adaptivity()


def _load_adaptivity() -> Suite:
    from ocelad.cli.compare_adaptivity import WIDTH, csv_lines, make_notes, make_tables
    from ocelad.lab.compare import METHODS, suite
    from ocelad.lab.compare.suite.suite_plot import draw_suite

    names = tuple(suite.BENCHMARKS)
    return Suite(names, names, METHODS, suite.run_suite, make_tables, make_notes, csv_lines, draw_suite, WIDTH)


def _load_few_answers() -> Suite:
    from ocelad.cli.compare_few_answers import WIDTH, csv_lines, make_notes, make_tables
    from ocelad.lab.compare import few_answers
    from ocelad.lab.compare.few_answers.few_answers_plot import draw_few_answers

    return Suite(
        tuple(few_answers.BENCHMARKS),
        few_answers.accepted_names(few_answers.BENCHMARKS),
        few_answers.METHODS,
        few_answers.run_few_answers,
        make_tables,
        make_notes,
        csv_lines,
        draw_few_answers,
        WIDTH,
    )


def compare_suite(extra_methods: Sequence[str], options: dict[str, Any], as_json: bool) -> None:
    """Run a suite and report its results."""
    from ocelad.lab.compare.run_comparison import check_methods
    from ocelad.lab.compare.suites import FIRST_TEST_SEED, N_SEEDS

    suite = load_suite(options["suite"])
    output: Path = options["output"]
    with usage_errors():
        methods = check_methods(extra_methods, suite.methods)
    more = {} if options["answers"] is None else {"answers": options["answers"]}
    more |= {"rivals": False} if options["no_rivals"] else {}
    with show_trials() as progress:
        try:
            result = suite.run(
                _choose_benchmarks(options["benchmarks"], suite),
                extra_methods=methods,
                seeds=options["seeds"] or N_SEEDS,
                first_seed=FIRST_TEST_SEED if options["first_seed"] is None else options["first_seed"],
                n_jobs=options["jobs"],
                journal=output / JOURNAL,
                restart=options["restart"],
                progress=progress,
                **more,
            )
        except KeyboardInterrupt:
            exit_interrupted(output / JOURNAL, options["restart"])
    _write_results(suite, result, output, f"{PICTURE}.{options['picture']}", as_json)


def _choose_benchmarks(given: str | None, suite: Suite) -> Sequence[str]:
    if given is None:
        return suite.benchmarks
    names = [name.strip() for name in given.split(",")]
    for name in names:
        if name not in suite.accepted:
            raise click.UsageError(f"the suite has no benchmark {name!r}; accepted: {', '.join(suite.accepted)}")
    return names


def _write_results(suite: Suite, result: Any, output: Path, picture: str, as_json: bool) -> None:
    """Write the result to the folder as JSON, CSV and a picture, and print it."""
    from ocelad.io.atomic import write_atomically

    content = to_json(result.to_json())
    write_atomically(output / RESULT, f"{content}\n".encode())
    write_atomically(output / LINES, "".join(suite.csv_lines(result)).encode())
    plotting_error = find_plotting_error()
    if plotting_error is None:
        suite.draw(result, output / picture)
    if as_json:
        click.echo(content)
        return
    print_tables(*suite.make_tables(result), width=suite.width)
    click.echo("\n".join(suite.make_notes(result)))
    click.echo(f"Result: {output / RESULT}; all means: {output / LINES}")
    click.echo(f"Picture: {output / picture}" if plotting_error is None else f"No picture: {plotting_error}")
