"""What the store keeps and what is served stay one, whatever is lost between them; and exports are of one moment."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import numpy as np
import pytest
from serving import some_items

from ocelad.service import exports
from ocelad.service.entries import NewEntry
from ocelad.service.items import append, digest
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
def live(service):
    texts = [f"text {i}" for i in range(M)]
    return service.create("some", "Some", replace(some_items(M), shown="text", text=texts))


def new(*ids, first=0.5):
    return [
        NewItem(id=id, features=[first, 0.25, i], text=f"of {id}", fields={"colour": None}) for i, id in enumerate(ids)
    ]


def are_one(service, live):
    """What is served is what is kept, to the bit, and can be answered about."""
    kept = service.store.items(live.id)
    assert digest(live.items) == digest(kept)
    last = len(kept) - 1
    assert live.position(kept.ids[last], "") == last
    service.store.append(live.id, [NewEntry(0, last, "same")]).result(30)
    assert live.learner.wait(live.seq, 30)
    assert len(live.view.items) == len(kept)


def test_new_items_are_served_as_they_are_kept(service, live):
    assert service.add_items(live, new("a", "b")) == M + 2
    assert live.items.ids[M:] == ("a", "b")
    are_one(service, live)


def test_items_that_were_kept_unheard_of_are_taken_up_when_they_come_again(service, live):
    service.store.add_items("some", append(live.items, new("a", "b")))  # and its answer was lost
    assert service.add_items(live, new("a", "b")) == M + 2
    are_one(service, live)
    assert service.add_items(live, new("c")) == M + 3


def test_items_that_were_kept_unheard_of_are_taken_up_with_others(service, live):
    service.store.add_items("some", append(live.items, new("a", "b")))
    assert service.add_items(live, new("c")) == M + 3
    assert live.items.ids[M:] == ("a", "b", "c")
    are_one(service, live)


def test_items_of_known_ids_that_are_others_are_refused_and_the_kept_ones_taken_up(service, live):
    service.store.add_items("some", append(live.items, new("a", "b")))
    with pytest.raises(DuplicateItem, match="'a'"):
        service.add_items(live, new("a", "b", first=0.75))
    assert len(live.items) == M + 2
    are_one(service, live)


def test_items_whose_commit_was_not_heard_of_are_there(service, live, monkeypatch):
    add = service.store.add_items

    def lost(project, items):
        add(project, items)
        raise StoreUnavailable("the answer was lost")

    with monkeypatch.context() as broken:
        broken.setattr(service.store, "add_items", lost)
        assert service.add_items(live, new("a")) == M + 1
    are_one(service, live)


def test_a_project_that_was_kept_unserved_is_served_when_it_is_made_again(service, monkeypatch):
    def fails(project):
        raise StoreUnavailable("it went away")

    with monkeypatch.context() as broken:
        broken.setattr(service.store, "items", fails)
        with pytest.raises(StoreUnavailable):
            service.create("new", "New", some_items())
    assert "new" not in service
    live = service.create("new", "New", some_items())
    assert live is service.project("new")
    are_one(service, live)
    with pytest.raises(ProjectExists):
        service.create("new", "New", some_items())


def test_a_project_that_was_kept_unserved_is_served_though_another_is_refused(service):
    service.store.create_project("new", "New", some_items(), {}, digest(some_items()))
    with pytest.raises(ProjectExists):
        service.create("new", "New", some_items(M + 1))
    are_one(service, service.project("new"))


def test_readiness_tells_of_the_database_without_naming_it(service, live):
    assert live.learner.wait(0, 30)
    assert service.readiness().status == "ready"
    service.store._writer.failure = "'/a/secret/path' is damaged"
    told = service.readiness()
    assert (told.status, told.reason) == ("failing", "the database cannot be written to at present")


def test_an_export_is_of_one_moment(service, live, monkeypatch):
    """An answer that is undone while the file is written stands in it, as it stood when it was asked for."""
    monkeypatch.setattr(exports, "_PAGE", 2)
    for i in range(5):
        service.store.append("some", [NewEntry(i, i + 1, "same")]).result(30)
    service.store.undo("some", 1).result(30)
    whole, log = [
        [json.loads(line) for line in b"".join(exports.chunks(live, what, "jsonl")).splitlines()]
        for what in ("comparisons", "log")
    ]
    pieces = [exports.chunks(live, what, "jsonl") for what in ("comparisons", "log")]
    begun = [next(each) + next(each) for each in pieces]
    service.store.undo("some", 5).result(30)
    rows = [
        [json.loads(line) for line in (first + b"".join(rest)).splitlines()]
        for first, rest in zip(begun, pieces, strict=True)
    ]
    assert rows == [whole, log]
    assert [row["seq"] for row in whole] == [2, 3, 4, 5]
    assert [row["undone"] for row in log] == [True, False, False, False, False, False]
    after = b"".join(exports.chunks(live, "comparisons", "jsonl")).splitlines()
    assert [json.loads(line)["seq"] for line in after] == [2, 3, 4]


def test_the_log_is_read_once_before_the_service_is_there(tmp_path, monkeypatch, caplog):
    """Where there is a snapshot; and what was noted of it is all of it."""
    caplog.set_level(logging.WARNING)
    settings = Settings(folder=tmp_path / "data")
    monkeypatch.setattr("ocelad.service.served_project._PAGE", 50)
    monkeypatch.setattr("ocelad.service.learning.answer_log._AT_A_TIME", 50)
    monkeypatch.setattr("ocelad.service.learning.answer_log._AT_HAND", 50)
    service = Service.open(settings)
    live = service.create("some", "Some", some_items(M))
    rng = np.random.default_rng(0)
    pairs = [[int(position) for position in rng.choice(M, 2, replace=False)] for _ in range(400)]
    service.store.append("some", [NewEntry(left, right, "same") for left, right in pairs]).result(30)
    service.store.undo("some", 7).result(30)
    assert live.learner.wait(401, 30)
    service.close()
    n_read, read = [], type(service.store).entries

    def counting(store, *args, **kwargs):
        entries = read(store, *args, **kwargs)
        n_read.append(len(entries))
        return entries

    monkeypatch.setattr(type(service.store), "entries", counting)
    again = Service.open(settings)
    try:
        live_again = again.project("some")
        assert live_again.view.seq == 401
        assert sum(n_read) == 401
        assert (live_again.seq, live_again.entries(0, 500)[-1].seq) == (401, 401)
        for kept in ("_entries", "_times"):
            np.testing.assert_equal(getattr(live_again.chooser, kept), getattr(live.chooser, kept))
        assert live_again.told(again.store.entry("some", 7)).undone
    finally:
        again.close()
    assert "a snapshot cannot be used" not in caplog.text
