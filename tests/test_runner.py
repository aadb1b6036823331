"""Trials run anywhere, in any order, and never twice; the journal survives interrupts and damage."""

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
from ocelad.lab.figures.figure_folder import FigureFolder
from ocelad.lab.journal import Journal, result_key, source_digest
from ocelad.lab.runner import Runner, _module_digest, _run_trial
from ocelad.lab.trials import iter_trials, map_trials

SMALL = {"trials": 3, "every": 3000, "methods": "comid saol"}


def square(task, context):
    if task["x"] < 0:
        raise ValueError("x is negative")
    return {"square": task["x"] ** 2, "context": context}


class TestRunner:
    tasks = ({"x": 3}, {"x": 1}, {"x": 2})

    def test_answers_are_in_the_order_of_the_tasks(self):
        reports = []
        runner = Runner(backend="threads", progress=lambda *words: reports.append(words))
        assert [answer["square"] for answer in runner.run("squares", square, self.tasks)] == [9, 1, 4]
        assert reports == [("squares", done, 3) for done in range(4)]

    def test_nothing_is_computed_twice(self, tmp_path):
        with Journal(tmp_path / "j") as journal:
            Runner(journal, backend="threads").run("", square, self.tasks[:2], context="first")
        with Journal(tmp_path / "j") as journal:
            reports = []
            runner = Runner(journal, backend="threads", progress=lambda *words: reports.append(words[1:]))
            answers = runner.run("", square, self.tasks, context="second")
        assert [answer["context"] for answer in answers] == ["first", "first", "second"]
        assert reports == [(2, 3), (3, 3)]

    def test_trials_that_finished_before_a_failure_are_journalled(self, tmp_path):
        with Journal(tmp_path / "j") as journal, pytest.raises(ValueError, match="x is negative"):
            Runner(journal, backend="threads", n_jobs=1).run("", square, [{"x": 2}, {"x": -1}])
        assert json.loads((tmp_path / "j").read_text())["square"] == 4

    def test_a_changed_trial_function_is_run_again(self, tmp_path, monkeypatch):
        with Journal(tmp_path / "j") as journal:
            Runner(journal, backend="threads").run("", square, self.tasks, context="first")
            monkeypatch.setattr("ocelad.lab.runner._module_digest", lambda trial: "changed")
            answers = Runner(journal, backend="threads").run("", square, self.tasks, context="second")
        assert {answer["context"] for answer in answers} == {"second"}

    def test_answers_that_json_cannot_represent_are_rejected(self, tmp_path):
        with Journal(tmp_path / "j") as journal, pytest.raises(ValueError, match="JSON"):
            Runner(journal, backend="threads").run("", square, [{"x": float("inf")}])
        assert (tmp_path / "j").read_bytes() == b""

    def test_experiments_and_figures_are_not_part_of_the_source_digest(self, tmp_path, monkeypatch):
        from ocelad.lab import journal

        (tmp_path / "lab" / "experiments").mkdir(parents=True)
        (tmp_path / "lab" / "figures").mkdir()
        (tmp_path / "core.py").write_text("# one")
        monkeypatch.setattr(journal, "ROOT", tmp_path)
        before = journal.source_digest.__wrapped__()
        (tmp_path / "lab" / "experiments" / "new.py").write_text("# two")
        (tmp_path / "lab" / "figures" / "new.py").write_text("# two")
        assert journal.source_digest.__wrapped__() == before
        (tmp_path / "core.py").write_text("# two")
        assert journal.source_digest.__wrapped__() != before

    def test_a_trial_must_be_callable(self):
        with pytest.raises(TypeError, match="trial must be a function of a task and a context; got int"):
            Runner().run("", 5, [{"x": 1}])

    def test_the_path_of_a_journal_may_be_a_string(self, tmp_path):
        with Journal(f"{tmp_path}/j") as journal:
            Runner(journal, backend="threads").run("", square, self.tasks[:1])
        assert (tmp_path / "j").read_text().count("\n") == 1

    def test_answers_of_a_function_without_a_source_file_stay_in_memory(self, tmp_path):
        typed = {"__name__": "typed"}
        exec("def double(task, context):\n    return {'double': 2 * task['x']}", typed)
        sys.modules["typed"] = ModuleType("typed")
        try:
            with Journal(tmp_path / "j") as journal:
                runner = Runner(journal, backend="threads")
                assert runner.run("", typed["double"], [{"x": 2}]) == [{"double": 4}]
        finally:
            del sys.modules["typed"]
        assert (tmp_path / "j").read_bytes() == b""

    def test_a_worker_with_other_sources_is_rejected(self):
        known = source_digest(), _module_digest(square)
        assert _run_trial(square, None, known, {"x": 2}) == [{"square": 4, "context": None}]
        for wrong in (("another", known[1]), (known[0], "another")):
            with pytest.raises(ImportError, match="a worker has another ocelad, or another test_runner"):
                _run_trial(square, None, wrong, {"x": 2})


def test_keys_of_different_requests_differ():
    requests = [("a", 1), ("a", 2), ("b", 1), ("a", "1"), ("a",)]
    assert len({result_key(*request) for request in requests}) == len(requests)


class TestJournal:
    def test_results_are_read_back(self, tmp_path):
        path = tmp_path / "new" / "folder" / "j"
        with Journal(path) as journal:
            journal.add({"a": {"x": 1}, "b": {"x": 2}})
        with Journal(path) as journal:
            assert "a" in journal
            assert "c" not in journal
            assert journal["b"] == {"x": 2}

    def test_results_that_must_not_persist_stay_in_memory(self, tmp_path):
        with Journal(tmp_path / "j") as journal:
            journal.add({"a": {"x": 1}}, persist=False)
            assert journal["a"] == {"x": 1}
        assert (tmp_path / "j").read_bytes() == b""

    def test_an_incomplete_last_line_is_dropped(self, tmp_path):
        path = tmp_path / "j"
        with Journal(path) as journal:
            journal.add({"a": {"x": 1}})
            complete = path.read_bytes()
            journal.add({"b": {"x": 2}})
        lines = path.read_bytes()
        for cut in range(len(complete) + 1, len(lines)):
            path.write_bytes(lines[:cut])
            with Journal(path) as reread:
                assert "a" in reread
                assert "b" not in reread
                reread.add({"b": {"x": 3}})
            with Journal(path) as again:
                assert again["b"] == {"x": 3}
        for cut in (1, 5, 10):  # an incomplete first line
            path.write_bytes(lines[:cut])
            with Journal(path):
                assert path.read_bytes() == b""

    def test_two_journals_cannot_open_the_same_file(self, tmp_path):
        with Journal(tmp_path / "j"), pytest.raises(ValueError, match="another run is writing"):
            Journal(tmp_path / "j")

    def test_a_file_that_is_not_a_journal_is_rejected_and_left_unchanged(self, tmp_path):
        path = tmp_path / "j"
        for content in ("my notes\nand more\n", "my notes", '{"mine": 1}', '{"mine": 1}\n'):
            path.write_text(content)
            for restart in (False, True):
                with pytest.raises(ValueError, match="is not a journal of trials"):
                    Journal(path, restart=restart)
            assert path.read_text() == content

    def test_a_restart_ignores_the_file_until_the_first_new_result(self, tmp_path):
        path = tmp_path / "j"
        with Journal(path) as journal:
            journal.add({"a": {"x": 1}})
        before = path.read_bytes()
        with Journal(path, restart=True) as journal:
            assert "a" not in journal
            assert path.read_bytes() == before  # a run that fails before its first result loses nothing
            journal.add({"b": {"x": 2}})
            journal.add({"c": {"x": 3}})
        with Journal(path) as journal:
            assert [key in journal for key in "abc"] == [False, True, True]

    @pytest.mark.parametrize("damage", [b"\x00" * 50 + b"\n", b"nonsense\n", b'{"key": 3}\n', b"\x00" * 50])
    @pytest.mark.parametrize("restart", [False, True])
    def test_a_damaged_line_loses_only_its_own_result(self, tmp_path, damage, restart):
        path = tmp_path / "j"
        with Journal(path) as journal:
            journal.add({"a": {"x": 1}})
            complete = path.read_bytes()
            journal.add({"b": {"x": 2}})
        path.write_bytes(complete + damage + (path.read_bytes()[len(complete) :] if damage.endswith(b"\n") else b""))
        with Journal(path, restart=restart) as journal:
            assert ("a" in journal) is not restart
            assert ("b" in journal) is (not restart and damage.endswith(b"\n"))
            journal.add({"c": {"x": 3}})
        with Journal(path) as journal:
            assert "c" in journal

    def test_the_digest_covers_the_sources_that_a_trial_depends_on(self, tmp_path, monkeypatch):
        from ocelad.lab import journal

        for name in ("__init__.py", "lab/baselines/pola.py", "learners/comid.py", "cli/track.py", "lab/statistics.py"):
            (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
            (tmp_path / name).write_text("# one")
        monkeypatch.setattr(journal, "ROOT", tmp_path)

        def digest():
            return journal.source_digest.__wrapped__()

        before = digest()
        for name in ("lab/baselines/pola.py", "learners/comid.py"):
            (tmp_path / name).write_text("# two")
            assert digest() != before
            (tmp_path / name).write_text("# one")
        (tmp_path / "cli/track.py").write_text("# two")
        (tmp_path / "lab/statistics.py").write_text("# two")
        assert digest() == before
        monkeypatch.setattr(journal, "version", lambda package: f"another {package}")
        assert digest() != before

    def test_every_excluded_source_exists(self):
        from ocelad.lab.journal import EXCLUDED, ROOT

        assert [part for part in EXCLUDED if not (ROOT / part).exists()] == []


def read_csv_files(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}


def compute_rows(root, **running):
    folder = FigureFolder(root, FIGURES["3"])
    folder.compute(FIGURES["3"].resolve_settings(**SMALL), **running)
    return read_csv_files(folder.path)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return compute_rows(tmp_path_factory.mktemp("one"), backend="threads", n_jobs=1)


class TestSameRows:
    @pytest.mark.parametrize("backend", ["threads", "processes"])
    def test_on_this_machine(self, tmp_path, expected, backend):
        assert compute_rows(tmp_path, backend=backend, n_jobs=2) == expected

    def test_on_a_cluster_of_two_workers(self, tmp_path, expected, two_workers):
        assert compute_rows(tmp_path, backend="dask", address=two_workers) == expected

    def test_trials_may_run_in_any_order_and_in_parts(self, tmp_path, expected):
        figure = FIGURES["3"]
        with Journal(tmp_path / "figure-3" / "trials.jsonl") as journal:
            tasks = [
                {"seed": seed, "methods": SMALL["methods"].split(), "every": SMALL["every"]} for seed in (1002, 1000)
            ]
            Runner(journal, backend="threads", n_jobs=1).run("", tracking.trial, tasks)
        folder = FigureFolder(tmp_path, figure)
        reports = []
        settings = figure.resolve_settings(**SMALL)
        folder.compute(settings, backend="threads", progress=lambda *words: reports.append(words))
        assert ("tracking", 2, 3) in reports
        assert ("tracking", 0, 3) not in reports
        assert read_csv_files(folder.path) == expected


@contextmanager
def dask_processes(folder, n_workers, **environment):
    """Start a scheduler on a loopback port and some workers, each in its own process."""
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


def shadow_package(folder, content):
    """Create a package named ocelad that workers import instead of the real one."""
    (folder / "ocelad" / "lab").mkdir(parents=True)
    (folder / "ocelad" / "__init__.py").write_text("")
    (folder / "ocelad" / "lab" / "__init__.py").write_text("")
    (folder / "ocelad" / "lab" / "journal.py").write_text(textwrap.dedent(content))
    return {"PYTHONPATH": str(folder)}


class TestCluster:
    def test_all_results_are_yielded(self, two_workers):
        results = list(iter_trials(abs, range(-20, 0), backend="dask", address=two_workers))
        assert sorted(results) == [(seed, -seed) for seed in range(-20, 0)]

    def test_an_error_of_a_trial_is_raised_and_the_cluster_stays_usable(self, two_workers):
        with pytest.raises(TypeError, match="bad operand type"):
            map_trials(abs, ["three"], backend="dask", address=two_workers)
        assert map_trials(abs, [-2], backend="dask", address=two_workers) == [2]

    def test_closing_the_iterator_cancels_the_remaining_trials(self, two_workers):
        trials = iter_trials(time.sleep, [0.01] * 400, backend="dask", address=two_workers)
        next(trials)
        trials.close()
        from distributed import Client

        with Client(two_workers, set_as_default=False) as client:
            deadline = time.monotonic() + 20
            while any(client.processing().values()) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert not any(client.processing().values())

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("raise ImportError('broken package')", "cannot import ocelad .*broken package"),
            ("def source_digest():\n    return 'another'", "has another ocelad"),
        ],
    )
    def test_workers_with_another_package_are_rejected_before_any_trial(self, tmp_path, content, message):
        with (
            dask_processes(tmp_path, 1, **shadow_package(tmp_path, content)) as address,
            pytest.raises(ImportError, match=message),
        ):
            map_trials(abs, [-1], backend="dask", address=address)

    def test_no_scheduler_at_the_address(self, monkeypatch):
        monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
        with pytest.raises(OSError, match="no Dask scheduler answers"):
            map_trials(abs, [1], backend="dask", address="tcp://127.0.0.1:9")

    @pytest.mark.parametrize(
        "address", ["nonsense", "nonsense://x:1", "http://127.0.0.1:8786", "tcp://127.0.0.1", "", 5]
    )
    def test_invalid_addresses_are_rejected(self, address):
        with pytest.raises(ValueError, match="needs its scheduler's address, such as"):
            map_trials(abs, [1], backend="dask", address=address)

    def test_a_cluster_without_workers_is_rejected(self, tmp_path, monkeypatch):
        monkeypatch.setattr(cluster, "WORKER_SECONDS", 0.5)
        with dask_processes(tmp_path, 0) as address, pytest.raises(OSError, match="has no worker after"):
            map_trials(abs, [1], backend="dask", address=address)
