"""``ocelad serve``: what it makes of its arguments, and how it begins and ends."""

from __future__ import annotations

import json
import socket
from importlib import import_module

import httpx
import pytest
from click.testing import CliRunner
from serving import Server

from ocelad.cli import cli
from ocelad.service.store import Store, open_tokens

ITEMS = "id,height,width,kind\na,1,2,x\nb,3,5,y\nc,7,4,x\nd,2,9,y\n"


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "Big Boxes.csv"
    path.write_text(ITEMS)
    return path


def refused(tmp_path, *arguments, **env):
    """What the command says when it does not start; it leaves nothing behind."""
    folder = tmp_path / "data"
    was_there = folder.exists()
    result = CliRunner(env=env).invoke(
        cli, ["serve", "--port", "0", "--data-folder", str(folder), *map(str, arguments)]
    )
    assert result.exit_code != 0
    assert folder.exists() == was_there
    return result.output + str(result.exception or "")


class TestRefusals:
    def test_nothing_to_serve(self, tmp_path):
        assert "has no projects yet; name a file of items, or try --demo" in refused(tmp_path)

    def test_items_and_a_demo(self, tmp_path, items):
        assert "give ITEMS or --demo, not both" in refused(tmp_path, items, "--demo")

    def test_no_such_file(self, tmp_path):
        assert "there is no file none.csv; accepted: a table of items" in refused(tmp_path, "none.csv")

    def test_settings_of_the_tracker_leave_no_project_behind(self, tmp_path, items):
        assert "'step=1' is not NAME=VALUE with one of diagonal" in refused(tmp_path, items, "--set", "step=1")
        assert "step_size must be a finite number above 0" in refused(tmp_path, items, "--set", "step_size=-1")
        assert "gives other bits when a log is replayed" in refused(tmp_path, items, "--set", "engine=sparse")
        assert "is not NAME=VALUE" in refused(tmp_path, items, "--set", "step_size")
        assert "has no projects yet" in refused(tmp_path)

    def test_a_name_that_no_address_can_hold(self, tmp_path, items):
        assert "a project's name is of small letters" in refused(tmp_path, items, "--project", "Big Boxes")

    @pytest.mark.parametrize("wrong", [("--demo",), ("--project", "Big Boxes")])
    def test_wrong_usage_is_told_before_anything_heavy_is_done(self, tmp_path, items, wrong, monkeypatch):
        monkeypatch.setattr(import_module("ocelad.cli.serve"), "_serve", None)
        assert "Usage:" in refused(tmp_path, items, *wrong)

    def test_a_format_that_is_not_the_files(self, tmp_path, items):
        assert "Parquet" in refused(tmp_path, items, "--format", "parquet")

    def test_an_interrupt_while_it_starts(self, tmp_path, items, monkeypatch):
        def interrupted(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr("ocelad.service.service.Service.create", interrupted)
        result = CliRunner().invoke(cli, ["serve", str(items), "--port", "0", "--data-folder", str(tmp_path / "data")])
        assert (result.exit_code, result.output.startswith("Interrupted before it was started")) == (130, True)
        assert not (tmp_path / "data").exists()

    @pytest.mark.parametrize("kept", ["a project", "a token", "a file of others"])
    def test_a_folder_with_anything_in_it_stays(self, tmp_path, items, kept, monkeypatch):
        folder = tmp_path / "data"

        def fails(*arguments):
            if kept == "a token":
                with open_tokens(folder) as tokens:
                    tokens.create("anna", {"*": "read"})
            elif kept == "a file of others":
                (folder / "notes.txt").write_text("mine")
            raise KeyboardInterrupt

        where = "ocelad.service.learning.precompile" if kept == "a project" else "ocelad.service.service.Service.create"
        monkeypatch.setattr(where, fails)
        arguments = ["serve", str(items), "--port", "0", "--data-folder", str(folder)]
        assert CliRunner().invoke(cli, arguments).exit_code == 130
        assert folder.exists()
        if kept == "a project":
            with Store.open(folder) as store:
                assert [row.id for row in store.projects()] == ["big-boxes"]

    def test_a_setting_of_the_environment(self, tmp_path, items):
        assert "OCELAD_SERVE_RANDOM_SHARE" in refused(tmp_path, items, OCELAD_SERVE_RANDOM_SHARE="2")

    def test_an_unknown_setting_of_the_environment(self, tmp_path, items):
        said = refused(tmp_path, items, OCELAD_SERVE_PROT="80")
        assert "OCELAD_SERVE_PROT is no setting; is OCELAD_SERVE_PORT meant?" in said
        assert "accepted: OCELAD_SERVE_FOLDER, " in refused(tmp_path, items, OCELAD_SERVE_QQQQQQQQQQQQQQQQQ="80")

    def test_a_port_that_is_taken(self, tmp_path, items):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            said = refused(tmp_path, items, "--port", taken.getsockname()[1])
        assert "cannot listen at 127.0.0.1" in said
        assert "--port says another" in said

    def test_a_password_is_not_told(self, tmp_path):
        said = refused(tmp_path, "--database", "postgresql://anna:geheim@127.0.0.1:1/none")
        assert "geheim" not in said
        assert "127.0.0.1" in said


def test_begins_ends_and_begins_again(tmp_path, items):
    """One run makes the project and takes an answer; the next finds both, and knows the file again."""
    data = tmp_path / "data"
    server = Server(data, str(items), "--title", "Boxes")
    with httpx.Client(base_url=server.url) as client:
        (project,) = client.get("/v1/projects").json()["projects"]
        assert (project["id"], project["title"], project["columns"]) == (
            "big-boxes",
            "Boxes",
            [{"name": "kind", "kind": "category"}],
        )
        answer = {"left": "a", "right": "b", "answer": "same"}
        assert client.post("/v1/projects/big-boxes/comparisons", json=answer).status_code == 201
        with client.stream("GET", "/v1/projects/big-boxes/events") as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("event: hello")
            server.process.terminate()
            assert list(lines)  # the stream ends by itself
    assert server.stop() == 0
    logged = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert [line["event"] for line in logged][-1] == "stopped"
    again = Server(data, str(items))
    assert httpx.get(f"{again.url}/v1/projects/big-boxes").json()["seq"] == 1
    assert again.stop() == 0
    assert "its settings are those that it was made with" in refused(tmp_path, items, "--set", "step_size=1")
    items.write_text(ITEMS + "e,1,1,x\n")
    assert "was made of other items" in refused(tmp_path, items)


def test_says_what_is_learned_on_and_how_it_is_opened(tmp_path, items):
    data = tmp_path / "data"
    server = Server(data, str(items), "--host", "0.0.0.0", "--format", "csv")
    assert server.url.startswith("http://127.0.0.1:")
    assert httpx.get(f"{server.url}/v1/health").status_code == 200
    learned = "Learned on height, width (2 features); shown: values; not learned on: kind (--features says otherwise)\n"
    assert server.process.stdout.readline() == learned
    assert (
        server.process.stdout.readline() == f"No token can open it yet: ocelad token create NAME --data-folder {data}\n"
    )
    assert server.stop() == 0
    with open_tokens(data) as tokens:
        tokens.create("anna", {"*": "read"})
    again = Server(data, "--require-token")
    again.process.terminate()
    assert again.process.stdout.read() == ""
    assert again.stop() == 0
