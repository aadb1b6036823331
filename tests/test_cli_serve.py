"""The command ocelad serve: its arguments, its start and its end."""

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


def fail_to_start(tmp_path, *arguments, **env):
    """Return the error message of a command that does not start; check that it leaves nothing behind."""
    folder = tmp_path / "data"
    existed = folder.exists()
    result = CliRunner(env=env).invoke(
        cli, ["serve", "--port", "0", "--data-folder", str(folder), *map(str, arguments)]
    )
    assert result.exit_code != 0
    assert folder.exists() == existed
    return result.output + str(result.exception or "")


def test_a_folder_without_projects_is_served_again(tmp_path):
    """The last project may have been deleted on the page, where the next one is created."""
    Store.open(tmp_path / "data").close()
    server = Server(tmp_path / "data")
    assert httpx.get(f"{server.url}/v1/projects").json()["projects"] == []
    assert server.stop() == 0


class TestErrors:
    def test_nothing_to_serve(self, tmp_path):
        assert "has no projects yet: give ITEMS, or try --demo; --empty starts" in fail_to_start(tmp_path)

    def test_items_and_a_demo(self, tmp_path, items):
        assert "give ITEMS or --demo, not both" in fail_to_start(tmp_path, items, "--demo")

    def test_no_such_file(self, tmp_path):
        assert "there is no file none.csv; accepted: a table of items" in fail_to_start(tmp_path, "none.csv")

    def test_settings_of_the_tracker_leave_no_project_behind(self, tmp_path, items):
        assert "'step=1' is not NAME=VALUE with one of curved, diagonal" in fail_to_start(
            tmp_path, items, "--set", "step=1"
        )
        assert "step_size must be a finite number above 0" in fail_to_start(
            tmp_path, items, "--set", "method=rice", "--set", "step_size=-1"
        )
        assert "a replay of the log is not exact" in fail_to_start(
            tmp_path, items, "--set", "method=rice", "--set", "engine=sparse"
        )
        assert "the method rice learns a linear distance" in fail_to_start(
            tmp_path, items, "--set", "method=rice", "--set", "curved=true"
        )
        assert "curved is 'yes'; accepted: true or false" in fail_to_start(tmp_path, items, "--set", "curved=yes")
        assert "transitive is 1; accepted: true or false" in fail_to_start(tmp_path, items, "--set", "transitive=1")
        assert "is not NAME=VALUE" in fail_to_start(tmp_path, items, "--set", "step_size")
        assert "has no projects yet" in fail_to_start(tmp_path)

    def test_a_name_that_is_not_allowed_in_an_address(self, tmp_path, items):
        assert "a project name has at most 64 lower-case letters" in fail_to_start(
            tmp_path, items, "--project", "Big Boxes"
        )

    @pytest.mark.parametrize("wrong", [("--demo",), ("--project", "Big Boxes")])
    def test_wrong_usage_is_reported_before_any_work(self, tmp_path, items, wrong, monkeypatch):
        monkeypatch.setattr(import_module("ocelad.cli.serve"), "_serve", None)
        assert "Usage:" in fail_to_start(tmp_path, items, *wrong)

    def test_a_format_that_does_not_match_the_file(self, tmp_path, items):
        assert "Parquet" in fail_to_start(tmp_path, items, "--format", "parquet")

    def test_an_interrupt_during_the_start(self, tmp_path, items, monkeypatch):
        def interrupt(*arguments):
            raise KeyboardInterrupt

        monkeypatch.setattr("ocelad.service.service.Service.create", interrupt)
        result = CliRunner().invoke(cli, ["serve", str(items), "--port", "0", "--data-folder", str(tmp_path / "data")])
        assert (result.exit_code, result.output.startswith("Interrupted before the service had started")) == (130, True)
        assert not (tmp_path / "data").exists()

    @pytest.mark.parametrize("content", ["a project", "a token", "another file"])
    def test_a_folder_that_is_not_empty_is_not_deleted(self, tmp_path, items, content, monkeypatch):
        folder = tmp_path / "data"

        def fail(*arguments):
            if content == "a token":
                with open_tokens(folder) as tokens:
                    tokens.create("anna", {"*": "read"})
            elif content == "another file":
                (folder / "notes.txt").write_text("mine")
            raise KeyboardInterrupt

        target = (
            "ocelad.service.learning.precompile_learning"
            if content == "a project"
            else "ocelad.service.service.Service.create"
        )
        monkeypatch.setattr(target, fail)
        arguments = ["serve", str(items), "--port", "0", "--data-folder", str(folder)]
        assert CliRunner().invoke(cli, arguments).exit_code == 130
        assert folder.exists()
        if content == "a project":
            with Store.open(folder) as store:
                assert [row.id for row in store.projects()] == ["big-boxes"]

    def test_a_wrong_environment_variable(self, tmp_path, items):
        assert "OCELAD_SERVE_RANDOM_SHARE" in fail_to_start(tmp_path, items, OCELAD_SERVE_RANDOM_SHARE="2")

    def test_an_unknown_environment_variable(self, tmp_path, items):
        message = fail_to_start(tmp_path, items, OCELAD_SERVE_PROT="80")
        assert "OCELAD_SERVE_PROT is not a setting; did you mean OCELAD_SERVE_PORT?" in message
        assert "accepted: OCELAD_SERVE_FOLDER, " in fail_to_start(tmp_path, items, OCELAD_SERVE_QQQQQQQQQQQQQQQQQ="80")

    def test_a_port_that_is_taken(self, tmp_path, items):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            message = fail_to_start(tmp_path, items, "--port", taken.getsockname()[1])
        assert "cannot listen on 127.0.0.1" in message
        assert "choose another with --port" in message

    def test_a_password_is_not_printed(self, tmp_path):
        message = fail_to_start(tmp_path, "--database", "postgresql://anna:geheim@127.0.0.1:1/none")
        assert "geheim" not in message
        assert "127.0.0.1" in message


def test_starts_stops_and_starts_again(tmp_path, items):
    """The first run creates the project and stores an answer; the second finds both and recognises the file."""
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
            assert list(lines)  # the server ends the stream
    assert server.stop() == 0
    logged = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert [line["event"] for line in logged][-1] == "stopped"
    again = Server(data, str(items))
    assert httpx.get(f"{again.url}/v1/projects/big-boxes").json()["seq"] == 1
    assert again.stop() == 0
    assert "its settings cannot be changed" in fail_to_start(tmp_path, items, "--set", "step_size=1")
    items.write_text(ITEMS + "e,1,1,x\n")
    assert "was created from other items" in fail_to_start(tmp_path, items)


def test_prints_the_features_and_how_to_get_access(tmp_path, items):
    data = tmp_path / "data"
    server = Server(data, str(items), "--host", "0.0.0.0", "--format", "csv")
    assert server.url.startswith("http://127.0.0.1:")
    assert httpx.get(f"{server.url}/v1/health").status_code == 200
    features = "Learning from height, width (2 features); shown: values; not used: kind (change with --features)\n"
    assert server.process.stdout.readline() == features
    access = f"There is no token yet; create one: ocelad token create NAME --data-folder {data}\n"
    assert server.process.stdout.readline() == access
    assert server.stop() == 0
    with open_tokens(data) as tokens:
        tokens.create("anna", {"*": "read"})
    again = Server(data, "--require-token")
    again.process.terminate()
    assert again.process.stdout.read() == ""
    assert again.stop() == 0
