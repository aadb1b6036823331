"""ocelad import and ocelad export-answers: over HTTP, and directly in a data folder."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib import import_module

import pytest
from command import run
from serving import served, some_items

from ocelad.cli.exit_codes import INTERRUPTED, ROWS_SKIPPED
from ocelad.service.labelled_pairs import import_plan
from ocelad.service.store import Store, open_tokens

command = import_module("ocelad.cli.import_answers")
ITEMS = some_items(m=6)
PAIRS = "id_a,id_b,same,person\nitem 0,item 1,yes,Zoë\nitem 1,item 2,no,\nitem 2,item 3,no,\n"


@pytest.fixture
def folder(tmp_path):
    """A data folder with two projects of the same items."""
    with Store.open(tmp_path / "data") as store:
        for name in ("some", "other"):
            store.create_project(name, "Some", ITEMS, {}, "")
    return tmp_path / "data"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text(PAIRS, encoding="utf-8")
    return path


def answers(folder, project="some"):
    with Store.open(folder) as store:
        return [(each.left, each.right, each.kind, each.person) for each in store.entries(project)]


class TestDataFolder:
    def test_import(self, folder, file):
        out = run("import", file, "--project", "some", "--data-folder", folder, "--person", "anna").stdout
        assert out == f"{file} (a table of pairs): 3 answers.\nImported: 3; imported before: 0.\n"
        assert answers(folder) == [(0, 1, "same", "Zoë"), (1, 2, "different", "anna"), (2, 3, "different", "anna")]
        again = run("import", file, "--project", "some", "--data-folder", folder, "--json").stdout
        assert {name: json.loads(again)[name] for name in ("n_imported", "n_repeated", "format")} == {
            "n_imported": 0,
            "n_repeated": 3,
            "format": "pairs",
        }
        assert len(answers(folder)) == 3

    def test_a_pipe_is_read_from_its_start(self, folder, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with ThreadPoolExecutor(1) as executor:
            writing = executor.submit((tmp_path / "pipe").write_text, PAIRS, "utf-8")
            out = run("import", tmp_path / "pipe", "--project", "some", "--data-folder", folder).stdout
            writing.result()
        assert "Imported: 3" in out

    def test_the_audit_log_records_it_once(self, folder, file):
        for _ in range(2):
            run("import", file, "--project", "some", "--data-folder", folder, "--person", "anna")
        with Store.open(folder) as store:
            (entry,) = store.audit(action="answers.import")
        assert (entry.who, entry.target, entry.detail["n_imported"]) == ("anna", "some", 3)

    def test_a_dry_run(self, folder, file):
        out = run("import", file, "--project", "some", "--data-folder", folder, "--dry-run").stdout
        assert "Nothing was stored: this was a dry run." in out
        assert answers(folder) == []

    def test_unknown_items(self, folder, file):
        file.write_text(PAIRS + "item 0,nobody,1,\n", encoding="utf-8")
        where = "--project", "some", "--data-folder", folder
        assert "'nobody' (line 5)" in run("import", file, *where, code=1).stderr
        assert answers(folder) == []
        out = run("import", file, *where, "--skip-unknown", code=ROWS_SKIPPED).stdout
        assert "Left out: answers about unknown items (1): 'nobody' (line 5)." in out
        assert len(answers(folder)) == 3

    @pytest.mark.parametrize("format", command.FORMATS)
    def test_an_export_is_imported(self, folder, file, format):
        run("import", file, "--project", "some", "--data-folder", folder)
        target = file.with_name(f"out.{format}")
        out = run("export-answers", target, "--project", "some", "--data-folder", folder, "--format", format).stdout
        assert out == f"{target}: the answers of some, for {format}.\n"
        run("import", target, "--project", "other", "--data-folder", folder)
        assert answers(folder, "other") == answers(folder)

    def test_a_running_service_is_named(self, folder, file):
        with Store.open(folder):
            error = run("import", file, "--project", "some", "--data-folder", folder, code=1).stderr
        assert "is in use by process" in error
        assert "give its address with --url" in error

    def test_wrong_usage(self, folder, file, tmp_path):
        assert (
            "there is no project 'none'"
            in run("import", file, "--project", "none", "--data-folder", folder, code=1).stderr
        )
        none = tmp_path / "none"
        assert (
            "there is no data folder" in run("import", file, "--project", "some", "--data-folder", none, code=2).stderr
        )
        assert not none.exists()
        assert "there is no file" in run("import", none, "--project", "some", "--data-folder", folder, code=1).stderr
        where = "--project", "some", "--data-folder", folder
        assert "name the format with --format" in run("export-answers", tmp_path / "x.json", *where, code=2).stderr
        assert (
            "does not end in .csv"
            in run("export-answers", tmp_path / "x.json", "--format", "csv", *where, code=2).stderr
        )


@pytest.fixture
def service(tmp_path):
    with served(tmp_path / "served", ITEMS, ITEMS, require_token=True) as (http, service):
        with open_tokens(service.settings.folder) as tokens:
            secret = tokens.create("lead", {"*": "admin"})
        token = tmp_path / "token.txt"
        token.write_text(secret + "\n")
        yield ("--url", str(http.base_url), "--token-file", token), service


def stored(service, project="some"):
    return [(each.left, each.right, each.kind, each.person) for each in service.store.entries(project)]


class TestService:
    @pytest.mark.parametrize("terminal", [False, True])
    def test_import_and_export(self, service, file, monkeypatch, terminal):
        where, server = service
        monkeypatch.setattr(command, "_POLL", 0.001)
        monkeypatch.setattr(import_plan, "BATCH_SIZE", 1)
        steps = []
        if terminal:
            monkeypatch.setattr(command, "_is_terminal", lambda: True)
            monkeypatch.setattr(command, "show_steps", lambda total, task: nullcontext(steps.append))
        out = run("import", file, "--project", "some", *where, "--person", "anna").stdout
        assert "Imported: 3; imported before: 0." in out
        assert stored(server) == [
            (0, 1, "same", "Zoë"),
            (1, 2, "different", "lead/anna"),
            (2, 3, "different", "lead/anna"),
        ]
        target = file.with_name("out.json")
        run("export-answers", target, "--project", "some", *where, "--format", "dedupe")
        run("import", target, "--project", "some1", *where)
        assert stored(server, "some1") == stored(server)

    def test_errors_are_one_sentence(self, service, file):
        where, _ = service
        file.write_text("id_a,id_b,same\na,b,perhaps\n")
        assert run("import", file, "--project", "some", *where, code=1).stderr.startswith(
            "Error: line 2: same is 'perhaps'; accepted"
        )
        assert "a token is required" in run("import", file, "--project", "some", *where[:2], code=1).stderr.lower()

    def test_an_interruption_says_how_to_continue(self, service, file, monkeypatch):
        def interrupt(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr(command, "_import_remotely", interrupt)
        error = run("import", file, "--project", "some", *service[0], code=INTERRUPTED).stderr
        assert "run the same command again: no answer is stored twice" in error
