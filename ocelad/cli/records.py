"""ocelad records: find the records of two tables, or of one, that describe the same entity."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ocelad.cli.exit_codes import INTERRUPTED
from ocelad.cli.file_kind import RECORD_ANSWERS, RECORDS, check_table
from ocelad.cli.keyboard import Keyboard, open_keyboard
from ocelad.cli.options import json_option
from ocelad.cli.output import check_output, print_json
from ocelad.cli.progress import show_steps

if TYPE_CHECKING:
    from ocelad.io.table_output import ColumnKind
    from ocelad.records import Answer, Links, Question, RecordLinker, RecordTable

COLUMNS: dict[str, ColumnKind] = {
    "id_left": "value",
    "id_right": "value",
    "probability": "float",
    "decision": "value",
    "answered": "value",
}
DECISIONS = {1: "same", 0: "check", -1: "different"}
_GUESSES = "links are guesses until there are 2 answers of each kind"
ANSWER_COLUMNS = ("id_left", "id_right", "same")
_KEYS = "[y] yes  [n] no  [s] skip  [u] undo  [q] stop and write the links"
_ANSWER_WORDS = {**{key: key for key in "ynsuq"}, "yes": "y", "no": "n"}


@click.command(short_help="Find records of the same entity in two tables, or duplicates in one.")
@click.argument("left")
@click.argument("right", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of links (.csv, .jsonl, .parquet, .arrow); by default LEFT-RIGHT-links.csv in the current folder.",
)
@click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of answers and what was learned; by default LEFT-RIGHT.linker in the current folder.",
)
@click.option("--restart", is_flag=True, help="Start without answers and replace STATE.")
@click.option("--answers", metavar="FILE", help="Learn the answers of FILE (id_left, id_right, same); ask nothing.")
@click.option("--questions", type=click.IntRange(0), metavar="N", help="Stop after N questions.")
@click.option("--id", "id_", metavar="COLUMN", help="The column of ids.  [default: id, otherwise row numbers from 0]")
@click.option(
    "--compare",
    multiple=True,
    metavar="COLUMN=KIND",
    help="How a column is compared: text, word, code, number, date or exact; otherwise guessed. Repeatable.",
)
@click.option("--exclude", multiple=True, metavar="COLUMN", help="A column that is not compared. Repeatable.")
@click.option("--rename", multiple=True, metavar="NEW=OLD", help="Rename the column OLD of RIGHT to NEW. Repeatable.")
@click.option(
    "--block",
    metavar="RULES",
    help="Compare records only if they share a key, such as phone,name:3+city: the same phone, or the same city and "
    "first 3 letters of the name. Also :-4 (the last ones), :word, :first, :date, :year.",
)
@click.option(
    "--max-block", type=click.IntRange(1), metavar="N", help="Skip keys in more than N pairs.  [default: 1000]"
)
@click.option("--one-to-one", is_flag=True, help="At most one link per record, for two tables without duplicates.")
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    help="The least probability of a link.  [default: 0.5; with --one-to-one, that with the largest expected F1]",
)
@click.option(
    "--error",
    type=click.FloatRange(0, 0.5, min_open=True, max_open=True),
    default=0.02,
    show_default=True,
    help="The promised share of errors among the decisions `same` and `different`.",
)
@click.option(
    "--groups",
    type=click.Path(dir_okay=False, path_type=Path),
    help="For duplicates: also write the entity of each record to this file.",
)
@json_option
def records(left: str, right: str | None, output: Path | None, as_json: bool, **options: Any) -> None:
    """Find the records of LEFT and RIGHT, or duplicates within LEFT, that describe the same entity.

    Two records at a time are shown on the terminal; press y if they are the same, n if not, s to skip, u to undo, and q
    or Ctrl-D to write the links. Keys within half a second after a question or another key are ignored. Every answer is
    saved at once in STATE, and the same command continues there. A few dozen answers are enough for most tables. The
    questions are those from which most can be learned.

    LEFT and RIGHT are CSV, TSV, JSON lines, Parquet or Arrow. Columns of the same name are compared. The output has the
    ids of both records (row numbers from 0 without ids), the probability that they are the same, and a decision: same,
    different, or check, where a person should look.

    \b
    Examples:
      ocelad records crm.csv shop.csv -o links.csv
      ocelad records customers.csv --groups entities.csv
      ocelad records crm.csv shop.csv --one-to-one --block phone,name:word --compare zip=code
      ocelad records crm.csv shop.csv --rename name=customer --id number
      ocelad records crm.csv shop.csv --answers answers.csv -o links.parquet --json
    """
    from ocelad.records import NoQuestionsLeft

    stem = "-".join(Path(name).name.partition(".")[0] for name in (left, right) if name is not None)
    output = output or Path(f"{stem}-links.csv")
    state = options["state"] or Path(f"{stem}.linker")
    _check_outputs(output, state, options["groups"], [left, right, options["answers"]], right is None)
    if options["one_to_one"] and right is None:
        raise click.UsageError("--one-to-one needs two tables; within one, an entity may have many records")
    # Before the tables, which may take minutes to compare.
    read = None if options["answers"] is None else _read_answer_table(options["answers"])
    linker = _open_linker(left, right, state, options)
    asks = options["answers"] is None and options["questions"] != 0
    if asks and not _is_terminal():  # after the tables, so that what is wrong with them is said first
        raise click.UsageError(
            "questions need a terminal, and standard input is not a terminal; give --answers FILE, or --questions 0 to "
            "write the links by the answers so far"
        )
    notes = [*linker.notes, _note_ids(linker, [left, right or left])]
    for note in filter(None, notes):
        click.echo(f"Note: {note}", err=True)
    if read is not None:
        _learn_file(linker, read, state)
    elif asks:
        try:
            _ask(linker, state, options["questions"])
        except NoQuestionsLeft:
            click.echo("All candidate pairs are answered.", err=True)
        except KeyboardInterrupt:
            click.echo(f"\nInterrupted. All answers are in {state}; the same command continues there.", err=True)
            sys.exit(INTERRUPTED)
    links = linker.links(one_to_one=options["one_to_one"], threshold=options["threshold"], error=options["error"])
    _write_links(output, linker, links)
    if options["groups"] is not None:
        _write_groups(options["groups"], linker, links)
    report = _make_report(linker, links, options["error"], output, state, options["groups"])
    if as_json:
        print_json(report)
    else:
        click.echo("\n".join(_describe(report)))


def _check_outputs(
    output: Path, state: Path, groups: Path | None, inputs: list[str | None], is_one_table: bool
) -> None:
    from ocelad.io import OUTPUT_SUFFIXES

    for path, option in ((output, "--output"), (groups, "--groups")):
        if path is None:
            continue
        if path.suffix.lower() not in OUTPUT_SUFFIXES:
            raise click.BadParameter(f"{str(path)!r} does not end in {', '.join(OUTPUT_SUFFIXES)}", param_hint=option)
        check_output(path, *inputs, state, option=option)
    check_output(state, *inputs, option="--state")
    if groups is not None and not is_one_table:
        raise click.UsageError("--groups is for duplicates in one table; of two tables, the links are the result")
    if groups is not None and groups.resolve() == output.resolve():
        raise click.BadParameter(f"{str(groups)!r} is the output, too; choose another name", param_hint="--groups")


def _open_linker(left: str, right: str | None, state: Path, options: dict[str, Any]) -> RecordLinker:
    """Return the linker of the tables, with the answers so far."""
    from ocelad.records import RecordLinker, read_table

    columns, places = _read_columns(left)
    tables = [(columns, left, places)]
    if right is not None:
        columns, places = _read_columns(right)
        tables.append((_rename(columns, right, _parse_pairs(options["rename"], "--rename")), right, places))
    elif options["rename"]:
        raise click.UsageError("--rename renames columns of RIGHT, and there is only one table")
    read = [read_table(table, name, options["id_"], places=places) for table, name, places in tables]
    settings: dict[str, Any] = {
        "compare": _parse_pairs(options["compare"], "--compare") or None,
        "exclude": options["exclude"] or None,
        "block": options["block"],
        "max_block": options["max_block"],
    }
    with _show_comparing() as progress:
        if state.exists() and not options["restart"]:
            return RecordLinker.load(state, *read, progress=progress, **settings)
        given = {name: value for name, value in settings.items() if value is not None}
        return RecordLinker(*read, progress=progress, **given)


def _read_columns(path: str) -> tuple[dict[str, list[Any]], list[str]]:
    """Return the columns of a file, and the place of each row."""
    from ocelad.io.record_files import read_placed_records

    check_table(path, RECORDS)
    columns, places, skipped = read_placed_records(path)
    if skipped:
        click.echo(f"Note: {path}: lists, objects and bytes are not compared: {', '.join(skipped)}", err=True)
    return columns, places


def _note_ids(linker: RecordLinker, names: list[str]) -> str | None:
    """Return a note if only one of two tables has ids, with the option that uses a column of ids."""
    without = [side for side, table in enumerate(linker.tables) if not table.has_ids]
    if len(without) != 1:
        return None
    side = without[0]
    columns = linker.tables[side].columns
    column = next((name for name, values in columns.items() if _is_column_of_ids(name, values)), "COLUMN")
    # --id is the column of both tables, and --rename is about the right one.
    option = f"--rename id={column}" if side else f"--id {column} --rename {column}=id"
    return f"{names[side]} has no column id: its records are numbered; {option} uses that column"


def _is_column_of_ids(name: str, values: list[Any]) -> bool:
    is_named = re.search(r"(?i:(^|[\W_])(id|key))$|[a-z](Id|ID)$", name)
    return is_named is not None and None not in values and len(set(map(str, values))) == len(values)


def _parse_pairs(entries: Iterable[str], option: str) -> dict[str, str]:
    """Return options of the form NAME=VALUE."""
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.rpartition("=")
        if not equals or not name or not value:
            raise click.BadParameter(f"{entry!r} has not the form NAME=VALUE", param_hint=option)
        if name in found:
            raise click.BadParameter(f"{name} is given twice", param_hint=option)
        found[name] = value
    return found


def _rename(table: dict[str, list[Any]], path: str, names: dict[str, str]) -> dict[str, list[Any]]:
    for new, old in names.items():
        if old not in table:
            raise click.BadParameter(f"{path} has no column {old!r}; it has {', '.join(table)}", param_hint="--rename")
        if new in table:
            raise click.BadParameter(f"{path} has a column {new!r} already", param_hint="--rename")
    new_names = {old: new for new, old in names.items()}
    return {new_names.get(name, name): values for name, values in table.items()}


@contextmanager
def _show_comparing() -> Iterator[Callable[[int, int], None]]:
    """Yield a function of (pairs compared, all pairs) that shows a bar on a terminal."""
    with ExitStack() as stack:
        bars: list[Callable[[int], None]] = []

        def show(count: int, total: int) -> None:
            if not bars:
                bars.append(stack.enter_context(show_steps(total, "Comparing records")))
            bars[0](count)

        yield show


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _learn_file(linker: RecordLinker, read: _AnswerTable, state: Path) -> None:
    """Learn the answers of a file that are not known yet. All are checked before the first is learned.

    The last answer about a pair counts, in the file as among the known ones: the same file again teaches nothing.
    """
    known, given = (
        {(answer.left, answer.right): answer for answer in answers}
        for answers in (linker.answers, _find_answers(linker, read))
    )
    answers = [answer for pair, answer in given.items() if answer != known.get(pair)]
    with show_steps(len(answers), "Learning") as advance:
        for answer in answers:
            linker.learn(*answer)
            advance(1)
    linker.save(state)


class _AnswerTable(NamedTuple):
    """The columns of a file of answers, and the place of each row."""

    path: str
    columns: Mapping[str, Sequence[Any]]
    places: Sequence[str]


def _read_answer_table(path: str) -> _AnswerTable:
    """Read a file of answers, and check that it has the columns of one."""
    from ocelad.io import FileError
    from ocelad.io.record_files import read_placed_records

    check_table(path, RECORD_ANSWERS)
    table, places, _ = read_placed_records(path)
    for column in ANSWER_COLUMNS:
        if column not in table:
            raise FileError(
                f"{path} has no column {column!r}; it has {', '.join(table)}; id_left, id_right, same are needed"
            )
    return _AnswerTable(path, table, places)


def _find_answers(linker: RecordLinker, read: _AnswerTable) -> list[Answer]:
    """Return the answers of a file, about the rows of the tables."""
    from ocelad.io import FileError
    from ocelad.io.tabular import cells
    from ocelad.records import Answer

    path, table, places = read
    rows = [{str(entry): row for row, entry in enumerate(side.ids)} for side in linker.tables]
    found = []
    for place, left, right, same in zip(places, *(table[column] for column in ANSWER_COLUMNS), strict=True):
        ids = [cells.normalize_id(entry) for entry in (left, right)]
        for entry, known, side in zip(ids, rows, ("left", "right"), strict=True):
            if entry not in known:
                raise FileError(f"{path}, {place}: the {side} table has no record with the id {entry!r}")
        label = cells.parse_label(same)
        if label is None and same is not None:
            raise FileError(
                f"{path}, {place}: same is {same!r}; accepted: yes/no, true/false, 1/0, same/different, or empty"
            )
        one, other = (known[str(entry)] for entry, known in zip(ids, rows, strict=True))
        if linker.is_one_table:
            if one == other:
                raise FileError(f"{path}, {place}: both records are {ids[0]!r}; two different ones are expected")
            one, other = sorted((one, other))
        found.append(Answer(one, other, None if label is None else label > 0))
    return found


def _ask(linker: RecordLinker, state: Path, n_questions: int | None) -> None:
    """Ask about pairs until the person stops; each answer is saved before the next question."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if linker.answers:
        click.echo(f"Continuing after {_count(len(linker.answers), 'answer')} in {state}.")
    n_asked = 0
    with open_keyboard() as keyboard:
        while n_questions is None or n_asked < n_questions:
            question = linker.propose()
            console.print(_make_card(linker, question))
            key = _read_answer(console, keyboard, _progress_line(linker, question))
            if key == "q":
                return
            if key == "u" and not linker.answers:
                console.print("There is no answer to undo.")
                continue
            if key == "u":
                linker.undo()
                n_asked = max(0, n_asked - 1)
            else:
                linker.learn(question.left, question.right, {"y": True, "n": False, "s": None}[key])
                n_asked += 1
            linker.save(state)


def _read_answer(console: Any, keyboard: Keyboard, prompt: str) -> str:
    """Return y, n, s, u or q; the end of the input means q.

    Inputs that came too soon are ignored: typed before the person could read the question, or letters of a word.
    """
    console.print(prompt)
    keyboard.start_question()
    is_explained = False
    while True:
        text, is_too_soon = keyboard.read()
        key = "q" if not text else _ANSWER_WORDS.get(text.strip().lower())
        if text and is_too_soon:
            if not is_explained:
                console.print("Ignored: typed within half a second after the question or another key.")
            is_explained = True
        elif key is None:
            console.print(f"Accepted keys: {_KEYS}")
        else:
            console.print(f"> {key}\n")
            return key


def _progress_line(linker: RecordLinker, question: Question) -> str:
    same = [answer.same for answer in linker.answers]
    counts = f"{same.count(True)} same, {same.count(False)} different, {same.count(None)} skipped"
    probability = f"the same with probability {question.probability:.2f}" if linker.has_started else _GUESSES
    return f"{counts}; {probability}\nAre they the same? {_KEYS}"


def _make_card(linker: RecordLinker, question: Question) -> Any:
    """Return both records side by side; values that differ are bold."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    left, right = linker.tables
    card = Table(box=SIMPLE_HEAD)
    card.add_column("")
    for table, row in ((left, question.left), (right, question.right)):
        card.add_column(Text(_printable(table.ids[row])), overflow="fold")
    for name in dict.fromkeys([*left.columns, *right.columns]):
        values = [_cell(table, name, row) for table, row in ((left, question.left), (right, question.right))]
        style = "" if values[0] == values[1] else "bold"
        card.add_row(Text(_printable(name)), *(Text(value, style=style) for value in values))
    return card


def _cell(table: RecordTable, name: str, row: int) -> str:
    value = table.columns[name][row] if name in table.columns else None
    return "" if value is None else _printable(value)


def _printable(value: Any) -> str:
    """Return a value as text without control characters, which could change the terminal."""
    return "".join(character if character.isprintable() else " " for character in str(value))


def _write_links(output: Path, linker: RecordLinker, links: Links) -> None:
    from ocelad.io import open_output

    left, right = linker.tables
    with open_output(output, COLUMNS) as out:
        out.write(
            {
                "id_left": [left.ids[row] for row in links.left.tolist()],
                "id_right": [right.ids[row] for row in links.right.tolist()],
                "probability": links.probability,
                "decision": [DECISIONS[decision] for decision in links.decision.tolist()],
                "answered": ["yes" if answered else "no" for answered in links.answered.tolist()],
            }
        )


def _write_groups(path: Path, linker: RecordLinker, links: Links) -> None:
    from ocelad.io import open_output

    with open_output(path, {"id": "value", "entity": "integer"}) as out:
        out.write({"id": linker.tables[0].ids, "entity": linker.groups(links)})


def _make_report(
    linker: RecordLinker, links: Links, error: float, output: Path, state: Path, groups: Path | None
) -> dict[str, Any]:
    from ocelad.records.question_choice import N_START

    same = [answer.same for answer in linker.answers]
    return {
        "candidate_pairs": len(linker.pairs),
        "answers": {"same": same.count(True), "different": same.count(False), "skipped": same.count(None)},
        "missing_answers": {
            "same": max(0, N_START - same.count(True)),
            "different": max(0, N_START - same.count(False)),
        },
        "links": len(links),
        "links_by_answers": int(links.answered.sum()),
        "decisions": {name: int((links.decision == code).sum()) for code, name in DECISIONS.items()},
        "error": error,
        "threshold": links.threshold,
        "columns": linker.comparison.kinds,
        "output": str(output),
        "state": str(state),
        "groups": None if groups is None else str(groups),
    }


def _describe(report: dict[str, Any]) -> list[str]:
    answers, decisions = report["answers"], report["decisions"]
    columns = ", ".join(f"{name} ({kind})" for name, kind in report["columns"].items())
    missing = [f"{n} {name}" for name, n in report["missing_answers"].items() if n]
    n_decided = decisions["same"] - report["links_by_answers"]
    n_left = report["links"] - decisions["same"]
    lines = [
        f"Compared {_count(report['candidate_pairs'], 'pair')} of records by {columns}.",
        f"Answers: {answers['same']} same, {answers['different']} different, {answers['skipped']} skipped.",
        f"Wrote {_count(report['links'], 'link')} with a probability of at least {report['threshold']:.2f} to "
        f"{report['output']}.",
        f"Links: {report['links_by_answers']:,} by your answers, {n_decided:,} decided with a promised error of "
        f"{100 * report['error']:g} %, {n_left:,} to check.",
    ]
    if report["groups"] is not None:
        lines.append(f"Wrote the entity of each record to {report['groups']}.")
    if missing:
        lines.append(f"Links without an answer are guesses. Missing answers: {', '.join(missing)}.")
    return lines


def _count(number: int, noun: str) -> str:
    """Return a number and a noun, in the plural unless the number is 1.

    >>> _count(1, "pair"), _count(2000, "pair")
    ('1 pair', '2,000 pairs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
