"""ocelad records: questions on a terminal, answers from files, links, groups, and what it refuses."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from importlib import import_module
from unittest import mock

import pytest
from command import run

from ocelad.cli.keyboard import PAUSE, Keyboard, open_keyboard
from ocelad.evaluation.streams import LinkedTables
from ocelad.records import RecordLinker

TABLES = LinkedTables("persons", n_rows=120, seed=1)
LINKS = {(TABLES.left["id"][i], TABLES.right["id"][j]) for i, j in TABLES.links.tolist()}
records = import_module("ocelad.cli.records")  # the package has the command of this name


def write(path, table):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "crm.csv", TABLES.left)
    write(tmp_path / "shop.csv", TABLES.right)
    linker = RecordLinker(TABLES.left, TABLES.right)
    truth = set(map(tuple, TABLES.links.tolist()))
    for _ in range(30):
        left, right, *_ = linker.propose()
        linker.learn(left, right, (left, right) in truth)
    answers = [
        (TABLES.left["id"][a.left], TABLES.right["id"][a.right], "yes" if a.same else "no") for a in linker.answers
    ]
    write(tmp_path / "answers.csv", dict(zip(("id_left", "id_right", "same"), zip(*answers, strict=True), strict=True)))
    return tmp_path


def typed(keys):
    """Return options of ``run`` with which the command reads keys as from a terminal."""
    return mock.patch.object(records, "_is_terminal", return_value=True), {"input": keys}


def test_answers_from_a_file_give_links(folder):
    arguments = ["records", "crm.csv", "shop.csv", "--answers", "answers.csv", "--one-to-one"]
    report = json.loads(run(*arguments, "--json", cwd=folder).stdout)
    found = read(folder / "crm-shop-links.csv")
    pairs = {(row["id_left"], row["id_right"]) for row in found}
    assert len(pairs) == len(found) == report["links"]
    assert 2 * len(pairs & LINKS) / (len(pairs) + len(LINKS)) > 0.9
    assert report["answers"]["same"] == sum(row["answered"] == "yes" for row in found)
    assert sum(report["answers"].values()) == 30
    assert report["decisions"]["same"] == sum(row["decision"] == "same" for row in found)
    assert report["links_by_answers"] == report["answers"]["same"]
    # The same answers again teach nothing; other outputs have the same links.
    state = (folder / "crm-shop.linker").read_bytes()
    text = run(*arguments, "-o", "links.jsonl", cwd=folder).stdout
    assert (folder / "crm-shop.linker").read_bytes() == state
    assert f"Wrote {len(found)} links" in text
    n_decided, n_left = (
        sum((row["decision"], row["answered"]) == (d, "no") for row in found) for d in ("same", "check")
    )
    n_answered = report["links_by_answers"]
    assert f"{n_answered} by your answers, {n_decided} decided with a promised error of 2 %, {n_left} to check." in text
    rows = [json.loads(line) for line in (folder / "links.jsonl").read_text().splitlines()]
    assert {(row["id_left"], row["id_right"]) for row in rows} == pairs


def test_a_file_with_contradictory_answers_teaches_its_last_ones_once(folder):
    first, *_ = read(folder / "answers.csv")
    other = {**first, "same": "no" if first["same"] == "yes" else "yes"}
    write(folder / "twice.csv", {name: [row[name] for row in (first, other, first, other)] for name in first})
    reports = [
        json.loads(run("records", "crm.csv", "shop.csv", "--answers", "twice.csv", "--json", cwd=folder).stdout)
        for _ in range(2)
    ]
    assert reports[0] == reports[1]
    assert reports[0]["answers"] == {"same": 0, "different": 0, "skipped": 0} | {
        "same" if other["same"] == "yes" else "different": 1
    }


def test_questions_are_answered_by_keys_and_continue_after_a_stop(folder):
    terminal, options = typed("yn?ssuq")
    with terminal:
        shown = run("records", "crm.csv", "shop.csv", cwd=folder, **options).stdout
    assert "Accepted keys:" in shown
    assert "1 same, 1 different, 2 skipped" in shown
    assert "Answers: 1 same, 1 different, 1 skipped." in shown
    assert "Links without an answer are guesses. Missing answers: 1 same, 1 different." in shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", shown), "control characters"
    terminal, options = typed("y")  # and the end of the input
    with terminal:
        shown = run("records", "crm.csv", "shop.csv", "--questions", "5", cwd=folder, **options).stdout
    assert "Continuing after 3 answers in crm-shop.linker." in shown
    assert "Answers: 2 same, 1 different, 1 skipped." in shown
    assert "Missing answers: 1 different." in shown
    terminal, options = typed("uq")
    with terminal:
        shown = run("records", "crm.csv", "shop.csv", "--restart", cwd=folder, **options).stdout
    assert "There is no answer to undo." in shown
    assert "Answers: 0 same" in shown


def test_the_number_of_questions_is_limited(folder):
    terminal, options = typed("ynynyn")
    with terminal:
        shown = run("records", "crm.csv", "shop.csv", "--questions", "3", cwd=folder, **options).stdout
    assert "Answers: 2 same, 1 different, 0 skipped." in shown


def run_on_terminal(arguments, folder, inputs, finish=None):
    """Run the command on a pseudo-terminal, and return its output and exit code.

    For each question one of the inputs is sent: a text, or several, with a pause before each.
    """
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "ocelad", "records", *arguments]
    environment = {**os.environ, "COLUMNS": "120"}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment)
    os.close(slave)
    shown, n_asked = b"", 0
    while select.select([master], [], [], 60)[0]:
        try:
            piece = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        shown += piece
        while n_asked < shown.count(b"Are they the same?"):
            if n_asked < len(inputs):
                for text in inputs[n_asked]:
                    time.sleep(PAUSE + 0.1)
                    os.write(master, text.encode())
            elif finish is not None:
                process.send_signal(finish)
            n_asked += 1
    os.close(master)
    return shown.decode(), process.wait(60)


@pytest.mark.slow
def test_only_accepted_keys_are_answers_on_a_real_terminal(folder):
    function_keys = ["\x1bOQ", "\x1bOS", "\x1b[A"]
    inputs = [[*function_keys, "yes"], ["nothing", "No"], ["\x04"]]
    shown, code = run_on_terminal(["crm.csv", "shop.csv"], folder, inputs)
    assert code == 0
    assert shown.count("Accepted keys:") == len(function_keys) + 1
    assert "Answers: 1 same, 1 different, 0 skipped." in shown


class Prompts:
    """A console that sends the next text to a terminal whenever something is printed."""

    def __init__(self, terminal, texts):
        self.terminal, self.texts, self.shown = terminal, list(texts), []

    def print(self, text):
        self.shown.append(text)
        if self.texts:
            os.write(self.terminal, self.texts.pop(0).encode())


@pytest.mark.parametrize(
    ("texts", "pause", "key", "shown"),
    [
        (["y"], 0.0, "y", []),
        (["Y\n"], 0.0, "y", []),
        (["NO"], 0.0, "n", []),
        (["\x1bOQ", "\x1b[1;5C", "yy", "q"], 0.0, "q", ["Accepted"] * 3),
        (["\x04"], 3600.0, "q", []),
        # Keys that come too soon are no answers; the end of the input always is.
        (["y", "\x04"], 3600.0, "q", ["Ignored"]),
    ],
)
def test_what_arrives_together_is_one_input(texts, pause, key, shown):
    master, slave = pty.openpty()
    with (
        open(master, "rb", buffering=0),
        open(slave) as stdin,
        mock.patch.object(sys, "stdin", stdin),
        open_keyboard() as keyboard,
    ):
        keyboard.pause = pause
        prompts = Prompts(master, texts)
        assert records._read_answer(prompts, keyboard, "?") == key
    assert [line.split()[0].strip(":") for line in prompts.shown[1:-1]] == shown


def test_letters_of_a_typed_word_come_too_soon():
    clock = [10.0, 10.6, 10.8, 11.1, 11.7]  # the question, and four keys
    keyboard = Keyboard(iter("yesn").__next__)
    with mock.patch("time.monotonic", side_effect=clock):
        keyboard.start_question()
        assert [keyboard.read() for _ in range(4)] == [("y", False), ("e", True), ("s", True), ("n", False)]


@pytest.mark.slow
def test_nothing_is_lost_on_a_real_terminal_when_killed_or_interrupted(folder):
    tables = ["crm.csv", "shop.csv"]
    _, code = run_on_terminal(tables, folder, "yn", signal.SIGKILL)
    assert code == -signal.SIGKILL
    shown, code = run_on_terminal(tables, folder, "ny", signal.SIGINT)
    assert code == 130
    assert "Continuing after 2 answers" in shown
    assert "Interrupted. All answers are in crm-shop.linker" in shown
    assert "Traceback" not in shown
    shown, code = run_on_terminal(tables, folder, "yq")
    assert code == 0
    assert "Answers: 3 same, 2 different, 0 skipped." in shown
    answers = json.loads(run("records", *tables, "--questions", "0", "--json", cwd=folder).stdout)["answers"]
    assert answers == {"same": 3, "different": 2, "skipped": 0}


def test_duplicates_of_one_table_are_written_with_groups(folder):
    both = {name: [*TABLES.left[name], *TABLES.right[name]] for name in TABLES.left}
    write(folder / "both.csv", both)
    run("records", "both.csv", "--answers", "answers.csv", "--groups", "entities.csv", cwd=folder)
    entities = {row["id"]: row["entity"] for row in read(folder / "entities.csv")}
    assert list(entities) == both["id"]
    assert sum(entities[left] == entities[right] for left, right in LINKS) > 0.8 * len(LINKS)
    assert len(set(entities.values())) > 150


def test_columns_are_renamed_chosen_and_blocked(folder):
    shop = {("customer" if name == "name" else name): values for name, values in TABLES.right.items()}
    write(folder / "shop.csv", shop)
    options = [
        "--rename",
        "name=customer",
        "--compare",
        "city=exact",
        "--exclude",
        "street",
        "--block",
        "phone:-6,name:3",
    ]
    report = json.loads(
        run("records", "crm.csv", "shop.csv", *options, "--questions", "0", "--json", cwd=folder).stdout
    )
    assert report["missing_answers"] == {"same": 2, "different": 2}
    assert report["columns"] == {"name": "text", "city": "exact", "born": "date", "phone": "code"}


def test_a_note_says_how_a_column_becomes_the_ids(folder):
    write(folder / "orders.csv", {("customer_id" if name == "id" else name): v for name, v in TABLES.right.items()})
    for tables, options in (
        (["crm.csv", "orders.csv"], ["--rename", "id=customer_id"]),
        (["orders.csv", "crm.csv"], ["--id", "customer_id", "--rename", "customer_id=id"]),
    ):
        arguments = ["records", *tables, "--questions", "0"]
        note = f"orders.csv has no column id: its records are numbered; {' '.join(options)} uses that column"
        assert note in run(*arguments, cwd=folder).stderr
        assert "numbered" not in run(*arguments, *options, cwd=folder).stderr
        assert read(folder / f"{tables[0][:-4]}-{tables[1][:-4]}-links.csv")[0]["id_right"][0] in "LR"


def test_a_note_names_columns_that_are_not_read(folder):
    rows = [{"id": "a", "name": "Ann Lee", "tags": ["x"], "home": {"city": "Rome"}}, {"id": "b", "name": "Anne Lee"}]
    (folder / "crm.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    note = "Note: crm.jsonl: lists, objects and bytes are not compared: tags, home"
    assert note in run("records", "crm.jsonl", "--questions", "0", cwd=folder).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["crm.csv", "shop.csv"], 2, "questions need a terminal"),
        (["crm.csv", "shop.csv", "--compare", "name=x"], 1, "must be one of 'text', 'word'"),
        (["crm.csv", "shop.csv", "--block", "x:3"], 1, "names no column of both tables"),
        (["crm.csv", "items.csv"], 1, "no column in common"),
        (["crm.csv", "picture.csv"], 1, "picture.csv is a picture; `ocelad records` expects a table of records"),
        (["crm.csv", "shop.csv", "--answers", "picture.csv"], 1, "expects answers: a table with the columns id_left"),
        (
            ["crm.csv", "some.linker"],
            1,
            "some.linker is a file of answers, saved by `ocelad records`; `ocelad records` e",
        ),
        (["crm.csv", "no.csv", "--questions", "0"], 1, "no.csv"),
        (["crm.csv", "--one-to-one", "--questions", "0"], 2, "--one-to-one needs two tables"),
        (["crm.csv", "shop.csv", "--groups", "g.csv", "--questions", "0"], 2, "--groups is for duplicates"),
        (["crm.csv", "shop.csv", "-o", "links.txt", "--questions", "0"], 2, "does not end in .csv"),
        (["crm.csv", "shop.csv", "-o", "crm.csv", "--questions", "0"], 2, "is an input file"),
        (["crm.csv", "shop.csv", "--compare", "name", "--questions", "0"], 2, "has not the form NAME=VALUE"),
        (["crm.csv", "shop.csv", "--compare", "name=x", "--questions", "0"], 1, "must be one of 'text', 'word'"),
        (["crm.csv", "shop.csv", "--exclude", "x", "--questions", "0"], 1, "no column 'x' is in both tables"),
        (["crm.csv", "shop.csv", "--rename", "name=x", "--questions", "0"], 2, "has no column 'x'"),
        (["crm.csv", "shop.csv", "--rename", "name=city", "--questions", "0"], 2, "has a column 'name' already"),
        (["crm.csv", "shop.csv", "--id", "x", "--questions", "0"], 1, "crm.csv has no column 'x' of ids"),
        (["crm.csv", "shop.csv", "--block", "x:3", "--questions", "0"], 1, "names no column of both tables"),
        (["crm.csv", "shop.csv", "--answers", "shop.csv"], 1, "shop.csv has no column 'id_left'"),
        (["no.csv", "--answers", "none.csv"], 1, "the file none.csv does not exist"),  # before the tables are compared
        (
            ["crm.csv", "shop.csv", "--answers", "wrong-id.csv"],
            1,
            "wrong-id.csv, line 3: the left table has no record with the id",
        ),
        (["crm.csv", "shop.csv", "--answers", "wrong-word.csv"], 1, "wrong-word.csv, line 2: same is 'perhaps'"),
        (["crm.csv", "shop.csv", "--state", "answers.csv", "--questions", "0"], 1, "answers.csv"),
        (["empty.csv", "--questions", "0"], 1, "empty"),
        (["crm.csv", "note.txt"], 1, "note.txt has no rows; accepted: a table with at least one row"),
        (["twice.csv"], 1, "twice.csv has the id 'a' twice, in line 2 and line 5; accepted: unique ids"),
        (
            ["crm.csv", "items.csv", "--compare", "name=text"],
            1,
            "no column in common to compare: one has 'name', 'street', 'city', 'born', 'phone', the other 'height'",
        ),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(folder, arguments, code, message):
    (folder / "empty.csv").write_text("")
    (folder / "items.csv").write_text("id,height\na,1.5\n")
    (folder / "note.txt").write_text("Call Ann about the order.\n")
    (folder / "twice.csv").write_text('id,name\na,"Ann\nLee"\nb,Bob Ray\na,Ann Lee\n')
    (folder / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n")
    RecordLinker(TABLES.left, TABLES.right).save(folder / "some.linker")
    (folder / "wrong-id.csv").write_text("id_left,id_right,same\nL00000,R00000,no\nL99,R00000,no\n")
    (folder / "wrong-word.csv").write_text("id_left,id_right,same\nL00000,R00000,perhaps\n")
    error = run("records", *arguments, cwd=folder, code=code).stderr
    assert message in error
    assert len([line for line in error.splitlines() if line.startswith("Error:")]) == 1
    assert not list(folder.glob("*links*"))
