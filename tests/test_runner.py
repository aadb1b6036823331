"""Trials that run anywhere and in any order, and none of them twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from types import ModuleType

import pytest

from ocelad.lab import cluster
from ocelad.lab.experiments import tracking
from ocelad.lab.figures import FIGURES
from ocelad.lab.figures.folder import Folder
from ocelad.lab.journal import Journal, key, program
from ocelad.lab.runner import Runner, _answer, _source
from ocelad.lab.trials import each_trial, map_trials

SMALL = {"trials": 3, "every": 3000, "methods": "comid saol"}


def square(task, given):
    if task["x"] < 0:
        raise ValueError("no negative numbers")
    return {"is": task["x"] ** 2, "with": given}


class TestRunner:
    tasks = ({"x": 3}, {"x": 1}, {"x": 2})

    def test_answers_come_in_the_order_of_the_tasks(self):
        told = []
        runner = Runner(engine="threads", progress=lambda *words: told.append(words))
        assert [answer["is"] for answer in runner.run("squares", square, self.tasks)] == [9, 1, 4]
        assert told == [("squares", done, 3) for done in range(4)]

    def test_nothing_is_computed_twice(self, tmp_path):
        with Journal(tmp_path / "j") as journal:
            Runner(journal, engine="threads").run("", square, self.tasks[:2], given="first")
        with Journal(tmp_path / "j") as journal:
            told = []
            runner = Runner(journal, engine="threads", progress=lambda *words: told.append(words[1:]))
            answers = runner.run("", square, self.tasks, given="second")
        assert [answer["with"] for answer in answers] == ["first", "first", "second"]
        assert told == [(2, 3), (3, 3)]

    def test_what_was_finished_before_one_failed_is_kept(self, tmp_path):
        with Journal(tmp_path / "j") as journal, pytest.raises(ValueError, match="no negative numbers"):
            Runner(journal, engine="threads", n_jobs=1).run("", square, [{"x": 2}, {"x": -1}])
        assert json.loads((tmp_path / "j").read_text())["is"] == 4

    def test_another_source_of_the_trial_is_another_answer(self, tmp_path, monkeypatch):
        with Journal(tmp_path / "j") as journal:
            Runner(journal, engine="threads").run("", square, self.tasks, given="first")
            monkeypatch.setattr("ocelad.lab.runner._source", lambda trial: "changed")
            answers = Runner(journal, engine="threads").run("", square, self.tasks, given="second")
        assert {answer["with"] for answer in answers} == {"second"}

    def test_numbers_that_json_has_no_word_for_are_refused(self, tmp_path):
        with Journal(tmp_path / "j") as journal, pytest.raises(ValueError, match="JSON"):
            Runner(journal, engine="threads").run("", square, [{"x": float("inf")}])
        assert (tmp_path / "j").read_bytes() == b""

    def test_an_experiment_changes_the_keys_of_its_own_trials_only(self, tmp_path, monkeypatch):
        from ocelad.lab import journal

        (tmp_path / "experiments").mkdir()
        (tmp_path / "figures").mkdir()
        (tmp_path / "core.py").write_text("# one")
        monkeypatch.setattr(journal, "ROOT", tmp_path)
        before = journal.program.__wrapped__()
        (tmp_path / "experiments" / "new.py").write_text("# two")
        (tmp_path / "figures" / "new.py").write_text("# two")
        assert journal.program.__wrapped__() == before
        (tmp_path / "core.py").write_text("# two")
        assert journal.program.__wrapped__() != before

    def test_what_is_no_trial(self):
        with pytest.raises(TypeError, match="trial must be a function of a task and what is given; got int"):
            Runner().run("", 5, [{"x": 1}])

    def test_a_journal_may_be_named_by_text(self, tmp_path):
        with Journal(f"{tmp_path}/j") as journal:
            Runner(journal, engine="threads").run("", square, self.tasks[:1])
        assert (tmp_path / "j").read_text().count("\n") == 1

    def test_a_trial_that_is_in_no_file_runs_and_is_not_kept_in_one(self, tmp_path):
        typed = {"__name__": "typed"}
        exec("def double(task, given):\n    return {'is': 2 * task['x']}", typed)
        sys.modules["typed"] = ModuleType("typed")
        try:
            with Journal(tmp_path / "j") as journal:
                runner = Runner(journal, engine="threads")
                assert runner.run("", typed["double"], [{"x": 2}]) == [{"is": 4}]
        finally:
            del sys.modules["typed"]
        assert (tmp_path / "j").read_bytes() == b""

    def test_a_worker_with_another_trial_is_refused(self):
        known = program(), _source(square)
        assert _answer(square, None, known, (0, {"x": 2})) == {"is": 4, "with": None}
        for wrong in (("another", known[1]), (known[0], "another")):
            with pytest.raises(ImportError, match="a worker has another ocelad, or another test_runner"):
                _answer(square, None, wrong, (0, {"x": 2}))


def test_keys_differ_where_anything_does():
    asked = [("a", 1), ("a", 2), ("b", 1), ("a", "1"), ("a",)]
    assert len({key(*metadata) for metadata in asked}) == len(asked)


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}


def rows_by(root, **running):
    folder = Folder(root, FIGURES["3"])
    folder.compute(FIGURES["3"].chosen(**SMALL), **running)
    return files_of(folder.path)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return rows_by(tmp_path_factory.mktemp("one"), engine="threads", n_jobs=1)


class TestSameRows:
    @pytest.mark.parametrize("engine", ["threads", "processes"])
    def test_on_this_machine(self, tmp_path, expected, engine):
        assert rows_by(tmp_path, engine=engine, n_jobs=2) == expected

    def test_on_a_cluster_of_two_workers(self, tmp_path, expected, two_workers):
        assert rows_by(tmp_path, engine="dask", address=two_workers) == expected

    def test_in_any_order_and_in_parts(self, tmp_path, expected):
        figure = FIGURES["3"]
        with Journal(tmp_path / "figure-3" / "trials.jsonl") as journal:
            tasks = [
                {"seed": seed, "methods": SMALL["methods"].split(), "every": SMALL["every"]} for seed in (1002, 1000)
            ]
            Runner(journal, engine="threads", n_jobs=1).run("", tracking.trial, tasks)
        folder = Folder(tmp_path, figure)
        told = []
        settings = figure.chosen(**SMALL)
        folder.compute(settings, engine="threads", progress=lambda *words: told.append(words))
        assert ("tracking", 2, 3) in told
        assert ("tracking", 0, 3) not in told
        assert files_of(folder.path) == expected


@contextmanager
def dask_processes(folder, n_workers, **environment):
    """A scheduler on a loopback port and workers, each a process of its own."""
    file = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    started = [subprocess.Popen([*command, "--no-dashboard", "--scheduler-file", str(file)], **quiet)]
    try:
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        address = json.loads(file.read_text())["address"]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
        worker += ["--host", "127.0.0.1", "--no-nanny", "--death-timeout", "60", "--local-directory", str(folder)]
        for _ in range(n_workers):
            started.append(subprocess.Popen(worker, env={**os.environ, **environment}, **quiet))
        yield address
    finally:
        for process in reversed(started):
            process.kill()
        for process in started:
            process.wait()


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    with dask_processes(tmp_path_factory.mktemp("cluster"), 2) as address:
        yield address


def package(folder, content):
    """A package of the name ocelad that is found before the real one."""
    (folder / "ocelad").mkdir()
    (folder / "ocelad" / "__init__.py").write_text("")
    (folder / "ocelad" / "journal.py").write_text(textwrap.dedent(content))
    return {"PYTHONPATH": str(folder)}


def fails(seed):
    raise ValueError(f"no luck with {seed}")


class TestCluster:
    def test_all_results_come_as_they_are_finished(self, two_workers):
        results = list(each_trial(abs, range(-20, 0), backend="dask", address=two_workers))
        assert sorted(results) == [(seed, -seed) for seed in range(-20, 0)]

    def test_a_trial_that_fails_is_told_and_the_cluster_stays(self, two_workers):
        with pytest.raises(TypeError, match="bad operand type"):
            map_trials(abs, ["three"], backend="dask", address=two_workers)
        assert map_trials(abs, [-2], backend="dask", address=two_workers) == [2]

    def test_who_stops_waiting_calls_off_the_rest(self, two_workers):
        trials = each_trial(time.sleep, [0.01] * 400, backend="dask", address=two_workers)
        next(trials)
        trials.close()
        from distributed import Client

        with Client(two_workers, set_as_default=False) as client:
            deadline = time.monotonic() + 20
            while any(client.processing().values()) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not any(client.processing().values())

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            ("raise ImportError('there is nothing here')", "cannot import ocelad .*nothing here"),
            ("def program():\n    return 'another'", "has another ocelad"),
        ],
    )
    def test_workers_without_this_package_are_refused_before_any_trial(self, tmp_path, content, sentence):
        with (
            dask_processes(tmp_path, 1, **package(tmp_path, content)) as address,
            pytest.raises(ImportError, match=sentence),
        ):
            map_trials(abs, [-1], backend="dask", address=address)

    def test_nobody_at_the_address(self, monkeypatch):
        monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
        with pytest.raises(OSError, match="no Dask scheduler answers"):
            map_trials(abs, [1], backend="dask", address="tcp://127.0.0.1:9")

    @pytest.mark.parametrize(
        "address", ["nonsense", "nonsense://x:1", "http://127.0.0.1:8786", "tcp://127.0.0.1", "", 5]
    )
    def test_what_is_no_address(self, address):
        with pytest.raises(ValueError, match="needs its scheduler's address, such as"):
            map_trials(abs, [1], backend="dask", address=address)

    def test_a_cluster_without_workers(self, tmp_path, monkeypatch):
        monkeypatch.setattr(cluster, "WORKER_SECONDS", 0.5)
        with dask_processes(tmp_path, 0) as address, pytest.raises(OSError, match="has no worker after"):
            map_trials(abs, [1], backend="dask", address=address)
