"""Served projects agree with the store even if confirmations are lost; exports show one moment."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
from serving import some_items

from ocelad.service import exports, serialize
from ocelad.service.entries import NewEntry
from ocelad.service.items import check_new_items, items_digest
from ocelad.service.service import Service
from ocelad.service.settings import Settings
from ocelad.service.store import DuplicateItem, ProjectExists, StoreUnavailable
from ocelad.service.wire import NewItem

M = 12


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
    assert "new" not in service
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


def test_the_log_is_read_once_at_the_start(tmp_path, monkeypatch, caplog):
    """If there is a snapshot; all state that depends on the log is restored."""
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
        assert sum(n_read) == 401
        assert (after.seq, after.entries(0, 500)[-1].seq) == (401, 401)
        for name in ("_n_entries", "_item_counts"):
            np.testing.assert_equal(getattr(after.chooser, name), getattr(before.chooser, name))
        assert after.is_undone(again.store.entry("some", 7))
    finally:
        again.close()
    assert "a snapshot cannot be used" not in caplog.text
