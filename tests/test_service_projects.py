"""Served projects agree with the store even if confirmations are lost; exports show one moment."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from serving import some_items

from ocelad.adaptive.adaptive_tracker import STATE_VERSION
from ocelad.engines.tracker import RiceTracker
from ocelad.service import exports, serialize
from ocelad.service.entries import NewEntry
from ocelad.service.items import check_new_items, items_digest
from ocelad.service.learning import tracker_settings
from ocelad.service.service import Service
from ocelad.service.settings import Settings
from ocelad.service.store import DuplicateItem, ProjectExists, Store, StoreUnavailable
from ocelad.service.wire import NewItem

M = 12
ROOT = Path(__file__).parent.parent


@pytest.fixture
def service(tmp_path):
    service = Service.open(Settings(folder=tmp_path / "data"))
    yield service
    service.close()


@pytest.fixture
def project(service):
    texts = [f"text {i}" for i in range(M)]
    return service.create("some", "Some", replace(some_items(M), display="text", text=texts))


def new(*ids, first=0.5):
    return [
        NewItem(id=id, features=[first, 0.25, i], text=f"of {id}", fields={"colour": None}) for i, id in enumerate(ids)
    ]


def check_consistent(service, project):
    """Check that the served items are the stored ones, bit for bit, and that answers about them are learned from."""
    stored = service.store.items(project.id)
    assert items_digest(project.items) == items_digest(stored)
    last = len(stored) - 1
    assert project.position(stored.ids[last], "") == last
    service.store.append(project.id, [NewEntry(0, last, "same")]).result(30)
    assert project.learner.wait(project.seq, 30)
    assert len(project.view.items) == len(stored)


def test_new_projects_learn_by_the_adaptive_method(service, project):
    stored = service.store.project("some").settings
    versions = {"method": STATE_VERSION, "package": version("ocelad")}
    assert stored == {
        "method": "adaptive",
        "curved": True,
        "transitive": True,
        "known_items": M,
        "version": versions,
    }
    info, metric = (
        serialize.project_info(project, "admin"),
        serialize.metric_info(project.view, matrix=True, spectrum=True),
    )
    assert (info.method, info.curved, metric.method, metric.curved) == ("adaptive", True, "adaptive", True)


@pytest.mark.parametrize("stored", [{"step_size": 0.5}, {"method": "rice", "step_size": 0.5}, {"method": "adaptive"}])
def test_a_stored_project_keeps_its_method_and_settings(tmp_path, stored):
    """Settings without a method predate the choice and mean "rice"."""
    with Store.open(tmp_path / "data") as store:
        store.create_project("old", "Old", some_items(M), stored, "")
    for _ in range(2):
        service = Service.open(Settings(folder=tmp_path / "data"))
        try:
            project = service.project("old")
            service.store.append("old", [NewEntry(0, 1, "same"), NewEntry(2, 3, "different")]).result(30)
            assert project.learner.wait(project.seq, 30)
            assert service.store.project("old").settings == stored
            timeline, metric = serialize.timeline(project.view), serialize.project_info(project, "admin")
            expected = stored.get("method", "rice")
            assert timeline.method == metric.method == expected
            assert not metric.curved  # settings without "curved" predate it and mean a linear distance
            assert (timeline.experts[:2] == ["1", "2"]) == (expected == "rice")
        finally:
            service.close()


def test_settings_of_rice_need_its_method(service):
    with pytest.raises(ValueError, match="step_size is a setting of method='rice', but method is 'adaptive'"):
        service.create("some", "Some", some_items(M), {"step_size": 0.1})
    settings = service.create("some", "Some", some_items(M), {"method": "rice", "step_size": 0.1})
    assert settings.view.method == "rice"
    stored = service.store.project("some").settings
    assert (stored["step_size"], stored["initial_scale"], stored["loss"]) == (0.1, 0.1, "logistic")


@pytest.mark.parametrize("more", [{}, {"diagonal": True}, {"engine": "dense"}, {"engine": "lowrank", "max_rank": 2}])
def test_the_kernels_of_rice_are_compiled_before_a_project_is_served(service, more, monkeypatch):
    """The learner's thread then finds them compiled."""
    rounds = []
    original = RiceTracker.replay

    def replay(self, events, weights=None):
        rounds.append((threading.current_thread().name, len(events)))
        return original(self, events, weights)

    monkeypatch.setattr(RiceTracker, "replay", replay)
    service.create("some", "Some", some_items(M), {"method": "rice", **more})
    ((thread, n_rounds),) = rounds
    assert n_rounds == 10
    assert not thread.startswith("learner")


NO_COMPILER = """
import sys
from pathlib import Path
import numba.core.event
from ocelad.engines import kernel_loading
compiled = []
class Listener(numba.core.event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__qualname__)
    def on_end(self, event):
        pass
numba.core.event.register("numba:compile", Listener())
kernel_loading._start_compiler = lambda family: None
sys.path.insert(0, "tests")
from serving import some_items
from ocelad.service import serialize
from ocelad.service.entries import NewEntry
from ocelad.service.learning import precompile_learning
from ocelad.service.service import Service
from ocelad.service.settings import Settings
service = Service.open(Settings(folder=Path(sys.argv[1])))
project = service.create("some", "Some", some_items(20))
precompile_learning([3])
for i in range(100):
    entry = NewEntry(i % 20, (i + 1 + i // 20) % 20, "same" if i % 3 else "different")
    service.store.append("some", [entry]).result(30)
assert project.learner.wait(100, 60), project.learner.failure
assert project.view.n_answers == 100
serialize.item_map(project.view, 4), serialize.timeline(project.view), project.view.neighbors(0, 3)
project.chooser.next(project.view)
service.close()
assert not compiled, compiled
assert not any((Path(sys.argv[1]) / "snapshots").iterdir())
"""


def test_answers_and_learning_need_no_compiled_code(tmp_path):
    """On a machine without compiled kernels, nothing waits for a compiler."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "empty cache")}
    command = [sys.executable, "-c", NO_COMPILER, str(tmp_path / "data")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert result.returncode == 0, result.stderr[-3000:]


def test_new_items_are_served_as_they_are_stored(service, project):
    assert service.add_items(project, new("a", "b")) == M + 2
    assert project.items.ids[M:] == ("a", "b")
    check_consistent(service, project)


def test_items_whose_confirmation_was_lost_are_accepted_again(service, project):
    service.store.add_items("some", check_new_items(project.items, new("a", "b")))  # and the confirmation was lost
    assert service.add_items(project, new("a", "b")) == M + 2
    check_consistent(service, project)
    assert service.add_items(project, new("c")) == M + 3


def test_items_whose_confirmation_was_lost_are_loaded_with_the_next_ones(service, project):
    service.store.add_items("some", check_new_items(project.items, new("a", "b")))
    assert service.add_items(project, new("c")) == M + 3
    assert project.items.ids[M:] == ("a", "b", "c")
    check_consistent(service, project)


def test_other_items_with_stored_ids_are_rejected_and_the_stored_ones_loaded(service, project):
    service.store.add_items("some", check_new_items(project.items, new("a", "b")))
    with pytest.raises(DuplicateItem, match="'a'"):
        service.add_items(project, new("a", "b", first=0.75))
    assert len(project.items) == M + 2
    check_consistent(service, project)


def test_items_are_served_if_the_store_fails_after_the_commit(service, project, monkeypatch):
    add = service.store.add_items

    def lost(project, items):
        add(project, items)
        raise StoreUnavailable("the confirmation was lost")

    with monkeypatch.context() as broken:
        broken.setattr(service.store, "add_items", lost)
        assert service.add_items(project, new("a")) == M + 1
    check_consistent(service, project)


def test_a_stored_project_that_is_not_served_can_be_created_again(service, monkeypatch):
    def fails(project):
        raise StoreUnavailable("the database is down")

    with monkeypatch.context() as broken:
        broken.setattr(service.store, "items", fails)
        with pytest.raises(StoreUnavailable):
            service.create("new", "New", some_items())
    project = service.create("new", "New", some_items())
    assert project is service.project("new")
    check_consistent(service, project)
    with pytest.raises(ProjectExists):
        service.create("new", "New", some_items())


def test_a_stored_project_is_served_even_if_another_with_its_id_is_rejected(service):
    service.store.create_project("new", "New", some_items(), {}, items_digest(some_items()))
    with pytest.raises(ProjectExists):
        service.create("new", "New", some_items(M + 1))
    check_consistent(service, service.project("new"))


def test_readiness_reports_a_failure_of_the_database_without_its_path(service, project):
    assert project.learner.wait(0, 30)
    assert serialize.readiness(service).status == "ready"
    service.store._writer.failure = "'/a/secret/path' is damaged"
    readiness = serialize.readiness(service)
    assert (readiness.status, readiness.reason) == ("failing", "the database cannot be written")


def test_an_export_shows_one_moment(service, project, monkeypatch):
    """An answer that is undone while the file is written is not undone in it."""
    monkeypatch.setattr(exports, "_PAGE", 2)
    for i in range(5):
        service.store.append("some", [NewEntry(i, i + 1, "same")]).result(30)
    service.store.undo("some", 1).result(30)
    whole, log = [
        [json.loads(line) for line in b"".join(exports.export_chunks(project, content, "jsonl")).splitlines()]
        for content in ("comparisons", "log")
    ]
    chunks = [exports.export_chunks(project, content, "jsonl") for content in ("comparisons", "log")]
    begun = [next(each) + next(each) for each in chunks]
    service.store.undo("some", 5).result(30)
    rows = [
        [json.loads(line) for line in (first + b"".join(rest)).splitlines()]
        for first, rest in zip(begun, chunks, strict=True)
    ]
    assert rows == [whole, log]
    assert [row["seq"] for row in whole] == [2, 3, 4, 5]
    assert [row["undone"] for row in log] == [True, False, False, False, False, False]
    after = b"".join(exports.export_chunks(project, "comparisons", "jsonl")).splitlines()
    assert [json.loads(line)["seq"] for line in after] == [2, 3, 4]


def test_a_project_with_a_snapshot_is_loaded_without_reading_its_log(tmp_path, monkeypatch, caplog):
    """All state that depends on the log is restored."""
    caplog.set_level(logging.WARNING)
    settings = Settings(folder=tmp_path / "data")
    monkeypatch.setattr("ocelad.service.served_project._PAGE", 50)
    monkeypatch.setattr("ocelad.service.learning.log_reader._PAGE_SIZE", 50)
    monkeypatch.setattr("ocelad.service.learning.log_reader._N_CACHED", 50)
    service = Service.open(settings)
    before = service.create("some", "Some", some_items(M))
    rng = np.random.default_rng(0)
    pairs = [[int(position) for position in rng.choice(M, 2, replace=False)] for _ in range(400)]
    service.store.append("some", [NewEntry(left, right, "same") for left, right in pairs]).result(30)
    service.store.undo("some", 7).result(30)
    assert before.learner.wait(401, 30)
    assert before.chooser
    service.close()
    n_read, read = [], type(service.store).entries

    def counting(store, *args, **kwargs):
        entries = read(store, *args, **kwargs)
        n_read.append(len(entries))
        return entries

    monkeypatch.setattr(type(service.store), "entries", counting)
    again = Service.open(settings)
    try:
        after = again.project("some")
        assert after.view.seq == 401
        assert sum(n_read) <= 1  # the entry of the snapshot
        assert (after.seq, after.entries(0, 500)[-1].seq) == (401, 401)
        asked = [{code: len(of_pair) for code, of_pair in p.chooser._asked.entries.items()} for p in (after, before)]
        assert asked[0] == asked[1]
        np.testing.assert_array_equal(after.chooser._asked.item_counts, before.chooser._asked.item_counts)
        assert after.is_undone(again.store.entry("some", 7))
    finally:
        again.close()
    assert "a snapshot cannot be used" not in caplog.text


class TestReplay:
    """A project says whether its log is learned as by the version that it was created with."""

    def reopened(self, folder):
        service = Service.open(Settings(folder=folder))
        try:
            project = service.project("some")
            return serialize.project_info(project, "admin", detailed=True)
        finally:
            service.close()

    def created(self, folder, settings=None):
        service = Service.open(Settings(folder=folder))
        try:
            service.create("some", "Some", some_items(M), settings)
        finally:
            service.close()

    @pytest.mark.parametrize("method", ["adaptive", "rice"])
    def test_the_same_version(self, tmp_path, method):
        self.created(tmp_path / "data", {"method": method})
        info = self.reopened(tmp_path / "data")
        assert (info.replay, info.replay_note) == ("same", None)

    @pytest.mark.parametrize("method", ["adaptive", "rice"])
    def test_another_version_is_served_and_says_so(self, tmp_path, monkeypatch, method):
        warnings = []
        log = SimpleNamespace(info=lambda *args, **more: None, warning=lambda *args, **more: warnings.append(more))
        monkeypatch.setattr("ocelad.service.service.log", log)
        self.created(tmp_path / "data", {"method": method})
        versions = {**tracker_settings.METHOD_VERSIONS, method: 99}
        monkeypatch.setattr(tracker_settings, "METHOD_VERSIONS", versions)
        info = self.reopened(tmp_path / "data")
        assert (info.replay, info.n_items, info.method) == ("changed", M, method)
        assert f"version {1 if method == 'rice' else STATE_VERSION} of the method" in info.replay_note
        assert "learns with version 99" in info.replay_note
        assert warnings == [{"project": "some", "reason": info.replay_note}]

    def test_the_other_method_does_not_matter(self, tmp_path, monkeypatch):
        self.created(tmp_path / "data")
        monkeypatch.setattr(tracker_settings, "METHOD_VERSIONS", {**tracker_settings.METHOD_VERSIONS, "rice": 99})
        assert self.reopened(tmp_path / "data").replay == "same"

    def test_a_project_without_a_version_is_unknown(self, tmp_path):
        with Store.open(tmp_path / "data") as store:
            store.create_project("some", "Some", some_items(M), {"method": "adaptive"}, "")
        info = self.reopened(tmp_path / "data")
        assert info.replay == "unknown"
        assert "did not store the version" in info.replay_note
