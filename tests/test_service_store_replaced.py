# ruff: noqa: F811  fixtures are imported, and tests name them as parameters
"""The store notices a log that is not the one it has written: restored, written by another service, deleted, erased."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres import postgres  # noqa: F401  a fixture
from sqlalchemy import text
from test_service_store import (
    outcome,
    project,  # noqa: F401  a fixture
    some_entries,
    some_items,
    store,  # noqa: F401  a fixture
    until,
    url,  # noqa: F401  a fixture
)

from ocelad.service.entries import NewEntry, NewUndo
from ocelad.service.store import (
    AlreadyUndone,
    DatabaseLost,
    InvalidRequest,
    LogReplaced,
    ProjectExists,
    Store,
    StoreUnavailable,
    UnknownProject,
    backup,
    restore,
    writer,
)
from ocelad.service.store.database import DATABASE_FILE, Database
from ocelad.service.store.entry_log import KEY_LIFETIME_MS
from ocelad.service.store.log_chain import EMPTY_CHAIN, entry_digest, next_chain
from ocelad.service.store.tables import people


def chain_of(store, project):
    """Return the chain of a log, computed again from all of its entries and the salts."""
    record, chain = store.project(project), EMPTY_CHAIN
    with store._database.read_connection() as connection:
        rows = connection.execute(people.select().where(people.c.project == record.number))
        salts = {row.who: bytes(row.salt) for row in rows}
    for entry in store.entries(project, limit=10**6):
        chain = next_chain(chain, entry_digest(entry, salts.get(entry.person, b"")))
        assert chain == entry.chain, entry
    return chain


def heard_replacements(store):
    heard = []
    store.listen_to_replacements(lambda projects, reason: heard.append((list(projects), reason)))
    return heard


def run_sql(url, *statements):
    database = Database(Path(), url)
    with database.write_transaction() as connection:
        for statement in statements:
            connection.execute(text(statement))
    database.dispose()


def test_the_chain_is_that_of_all_entries(store, project):
    assert store.project(project).chain == store.chain(project, 0) == EMPTY_CHAIN
    store.append(project, some_entries(3), "ann").result()
    store.undo(project, 2, "ann").result()
    store.append(project, some_entries(2), "bob", None, ["merge"]).result()
    store.name_group(project, 1, "größer", "bob").result()
    assert chain_of(store, project) == store.project(project).chain == store.chain(project, 7)
    assert store.chain(project, 8) is None


def test_equal_answers_have_another_chain_in_another_log(store, project):
    """The salts differ, so that nobody can find the content of an erased entry by trying all answers."""
    store.create_project("other", "", some_items(), {}, "")
    for each in (project, "other"):
        store.append(each, [NewEntry(0, 1, "same")], "ann").result()
    assert store.project(project).chain != store.project("other").chain


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_database_restored_to_an_earlier_point_is_noticed(store, project, url, postgres):
    """The numbers that are missing would be handed out again, and readers would keep the old entries."""
    store.create_project("other", "", some_items(), {}, "")
    store.append(project, some_entries(5), "ann").result()
    heard, entries = heard_replacements(store), []
    store.listen(lambda project, new: entries.extend(new))
    number = store.project(project).number
    assert postgres.end_connections(url)
    run_sql(url, f"DELETE FROM entries WHERE project = {number} AND seq > 3")
    with pytest.raises(StoreUnavailable):
        store.append(project, some_entries(1), "ann").result(30)
    until(lambda: heard)
    assert heard == [([project], "it was restored to an earlier point")]
    assert store.project(project).seq == 3
    result = store.append(project, some_entries(2), "ann").result(30)
    assert [entry.seq for entry in result.entries] == [entry.seq for entry in entries] == [4, 5]
    assert chain_of(store, project) == store.project(project).chain


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_numbers_that_were_handed_out_again_are_noticed(store, project, url, postgres):
    """The log is as long as before, but its last entry is another one."""
    store.append(project, some_entries(5), "ann").result()
    heard = heard_replacements(store)
    assert postgres.end_connections(url)
    run_sql(url, "UPDATE entries SET chain = decode('00', 'hex') WHERE seq = 5")
    until(lambda: outcome(store.append(project, some_entries(1), "ann")) is not StoreUnavailable)
    assert heard[0][0] == [project]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_another_service_that_has_held_the_lock_is_noticed(store, project, url, postgres, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "RETRY_S", 30.0)  # the first service comes back only with a request
    store.append(project, some_entries(2), "ann").result()
    heard = heard_replacements(store)
    store._writer._disconnect()
    with Store.open(tmp_path / "other", url) as other:
        other.append(project, some_entries(3), "bob").result()
    assert outcome(store.append(project, some_entries(1), "ann")) is LogReplaced
    assert heard == [([project], "another service has written to it meanwhile")]
    assert store.append(project, some_entries(1), "ann").result(30).entries[0].seq == 6
    assert chain_of(store, project) == store.project(project).chain


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_another_database_in_its_place_is_noticed(store, project, url, postgres):
    store.append(project, some_entries(2), "ann").result()
    heard = heard_replacements(store)
    assert postgres.end_connections(url)
    run_sql(url, "UPDATE identity SET id = 'another'")
    until(lambda: heard)
    assert heard == [([project], "another database is in its place")]


def test_reconnecting_to_the_same_log_replaces_nothing(store, project):
    store.append(project, some_entries(2), "ann").result()
    heard = heard_replacements(store)
    for _ in range(3):
        store._writer._disconnect()
        store.append(project, some_entries(1), "ann").result(30)
    assert heard == []


@pytest.mark.parametrize("name", [DATABASE_FILE, f"{DATABASE_FILE}-wal"])
@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_no_answer_is_acknowledged_into_a_deleted_file(tmp_path, name, how):
    with Store.open(tmp_path / "data") as store:
        store.create_project("it", "", some_items(), {}, "")
        store.append("it", some_entries(1)).result()
        path = tmp_path / "data" / name
        if how == "replaced":
            shutil.copy(path, tmp_path / "copy")
            os.replace(tmp_path / "copy", path)
        else:
            path.unlink()
        with pytest.raises(StoreUnavailable, match=f"was {how} while the service was running"):
            store.append("it", some_entries(1)).result()
        assert name in store.failure
        if name == DATABASE_FILE:  # it stays so: a new, empty database must not take its place
            assert outcome(store.append("it", some_entries(1))) is DatabaseLost
            assert path.exists() == (how == "replaced")


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("cache", ["snapshots", "vectors"])
def test_a_lost_database_beside_its_caches_is_refused(tmp_path, empty, cache):
    Store.open(tmp_path / "data").close()
    (tmp_path / "data" / cache).mkdir()
    (tmp_path / "data" / cache / "some").touch()
    Store.open(tmp_path / "data").close()
    path = tmp_path / "data" / DATABASE_FILE
    path.unlink()
    if empty:
        path.touch()
    with pytest.raises(StoreUnavailable, match=r"but .* shows that there were projects; restore a backup"):
        Store.open(tmp_path / "data")
    assert not path.exists() or path.stat().st_size == 0


def test_the_answers_of_a_person_are_erased(store, project):
    store.append(project, some_entries(2), "ann", "key").result()
    store.append(project, [NewEntry(3, 4, "same")], "bob", "key").result()
    store.name_group(project, 1, "secret of ann", "ann").result()
    store.undo(project, 3, "ann").result()  # of bob's answer
    store.undo(project, 1, "bob").result()  # of ann's answer
    before, heard = store.entries(project), heard_replacements(store)
    assert store.erase_person(project, "ann", "admin") == 4
    after = store.entries(project)
    assert [entry.chain for entry in after[:-1]] == [entry.chain for entry in before]
    assert [entry.kind for entry in after] == ["erased", "erased", "same", "erased", "undo", "undo", "erase"]
    assert [entry.person for entry in after] == ["", "", "bob", "", "", "bob", "admin"]
    # Bob's answer stays undone, and his undo does not tell what it has undone.
    assert [(entry.left, entry.right, entry.undoes) for entry in after[4:6]] == [(3, 4, 3), (0, 0, 1)]
    assert heard == [([project], "the answers of a person were erased")]
    assert chain_of(store, project) == store.project(project).chain
    # The key and the salt are gone, so that the same request is a new answer with another chain.
    assert not store.append(project, some_entries(2), "ann", "key").result().repeated
    assert store.append(project, [NewEntry(3, 4, "same")], "bob", "key").result().repeated
    assert chain_of(store, project) == store.project(project).chain
    with pytest.raises(InvalidRequest, match="'carl' has no entries in 'it'"):
        store.erase_person(project, "carl", "admin")


def test_erased_content_is_not_in_the_files(tmp_path):
    with Store.open(tmp_path / "data") as store:
        store.create_project("it", "", some_items(), {}, "")
        store.name_group("it", 1, "SECRETNAME", "SECRETPERSON").result()
        assert any(b"SECRETNAME" in path.read_bytes() for path in (tmp_path / "data").glob("ocelad.sqlite3*"))
        store.erase_person("it", "SECRETPERSON", "SECRETPERSONS BOSS")
        for path in (tmp_path / "data").glob("ocelad.sqlite3*"):
            assert b"SECRETNAME" not in path.read_bytes()
            assert b"SECRETPERSON\0" not in path.read_bytes().replace(b"SECRETPERSONS BOSS", b"")


def test_a_person_can_erase_their_own_answers(store, project):
    store.append(project, some_entries(3), "ann").result()
    assert store.erase_person(project, "ann", "ann") == 3
    assert [entry.person for entry in store.entries(project)] == ["", "", "", "ann"]
    store.append(project, some_entries(1), "ann").result()
    assert chain_of(store, project) == store.project(project).chain


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.sampled_from(["ann", "bob", "eve"]), st.sampled_from(["answer", "undo", "erase"])), max_size=14
    )
)
def test_erasure_keeps_the_other_people_and_the_chain(tmp_path_factory, steps):
    with Store.open(tmp_path_factory.mktemp("data")) as store:
        store.create_project("it", "", some_items(), {}, "")
        for person, step in steps:
            if step == "answer":
                store.append("it", some_entries(1), person).result()
            elif step == "undo":
                outcome(store.undo("it", None, person))
            else:
                others = [
                    e for e in store.entries("it") if e.person not in (person, "") and e.kind in ("same", "different")
                ]
                try:
                    store.erase_person("it", person, "admin")
                except InvalidRequest:
                    continue
                left = [
                    e for e in store.entries("it") if e.person not in (person, "") and e.kind in ("same", "different")
                ]
                assert left == others
                assert all(entry.person != person for entry in store.entries("it"))
            assert chain_of(store, "it") == store.project("it").chain


def test_a_deleted_project_leaves_nothing(store, project, url, tmp_path, monkeypatch):
    store.create_project("other", "", some_items(), {}, "")
    store.append(project, some_entries(5), "ann", "key").result()
    store.append("other", some_entries(1), "ann").result()
    number = store.project(project).number
    store.delete_project(project)
    with pytest.raises(UnknownProject):
        store.project(project)
    assert [each.id for each in store.projects()] == ["other"]
    with store._database.read_connection() as connection:
        for table in ("entries", "items", "pictures", "keys", "people"):
            assert connection.scalar(text(f"SELECT count(*) FROM {table} WHERE project = {number}")) == 0
    store.create_project(project, "Again", some_items(), {}, "")
    assert store.append(project, some_entries(1), "ann", "key").result().entries[0].seq == 1


def test_a_deletion_that_was_interrupted_is_finished_at_the_next_start(tmp_path, monkeypatch):
    with Store.open(tmp_path / "data") as store:
        store.create_project("it", "", some_items(), {}, "")
        store.append("it", some_entries(5), "ann").result()
        monkeypatch.setattr(Store, "_delete_hidden", lambda self: None)
        store.delete_project("it")
        assert store.projects() == []
    monkeypatch.undo()
    with Store.open(tmp_path / "data") as store:
        assert store.projects() == []
        with store._database.read_connection() as connection:
            assert connection.scalar(text("SELECT count(*) FROM entries")) == 0


def test_a_copy_has_the_same_log(store, project):
    store.append(project, some_entries(3), "ann").result()
    store.undo(project, 2, "ann").result()
    store.append(project, some_entries(2), "bob", None, ["merge"]).result()
    assert store.copy_project(project, "copy", "", answers=True).seq == 6
    assert store.entries("copy") == store.entries(project)
    assert chain_of(store, "copy") == store.project("copy").chain != store.project(project).chain
    with pytest.raises(ProjectExists):
        store.copy_project(project, "copy", "", answers=True)
    assert store.project("copy").seq == 6


def test_expired_keys_are_deleted(store, project, monkeypatch):
    store.append(project, some_entries(1), "ann", "key").result()
    monkeypatch.setattr(writer, "_CLEANUP_S", 0.0)
    assert store.append(project, some_entries(1), "ann", "key").result().repeated
    now = writer.now_ms()
    monkeypatch.setattr(writer, "now_ms", lambda: now + KEY_LIFETIME_MS + 1000)
    store.append(project, some_entries(1), "ann").result()  # the clean-up follows a write
    until(lambda: not store.append(project, some_entries(1), "ann", "key").result().repeated)


def test_undos_and_answers_are_one_bundle(store, project):
    """A reviewer undoes the losing answers and gives their own in one step."""
    for person, answer in (("ann", "same"), ("bob", "different"), ("eve", "different")):
        store.append(project, [NewEntry(0, 1, answer)], person).result()
    settled = [NewUndo(2, "review"), NewUndo(3, "review"), NewEntry(0, 1, "same", "review")]
    first = store.append(project, settled, "boss", "key", ["settle", 0, 1]).result()
    assert [(entry.kind, entry.undoes, entry.source, entry.bundle) for entry in first.entries] == [
        ("undo", 2, "review", 4),
        ("undo", 3, "review", 4),
        ("same", None, "review", 4),
    ]
    assert store.append(project, settled, "boss", "key", ["settle", 0, 1]).result().repeated
    assert store.undone(project) == {2: 4, 3: 5}
    for wrong in ([NewUndo(2)], [NewUndo(4)], [NewUndo(1), NewUndo(1)], [NewUndo(99)], [NewUndo(0)]):
        with pytest.raises(InvalidRequest):
            store.append(project, wrong, "boss").result()
    assert store.project(project).seq == 6
    undone = store.undo(project, 6, "boss").result()  # the undos of the bundle stand
    assert [entry.undoes for entry in undone.entries] == [6]
    assert outcome(store.undo(project, 6, "boss")) is AlreadyUndone
    assert chain_of(store, project) == store.project(project).chain


def test_a_project_can_be_changed_and_archived(store, project, url, tmp_path):
    assert store.project(project).options == {}
    changed = store.update_project(project, title="New", options={"question": "Same wine?"}, archived=True)
    assert (changed.title, changed.options, changed.archived_at is None) == ("New", {"question": "Same wine?"}, False)
    assert store.update_project(project, archived=False).archived_at is None
    assert store.project(project).title == "New"


def test_the_audit_log_keeps_the_order(store):
    for i in range(5):
        store.add_audit("ann" if i % 2 else "bob", "project.create", f"p{i}", {"n": i}).result()
    assert [entry.target for entry in store.audit()] == ["p0", "p1", "p2", "p3", "p4"]
    first, second = store.audit(limit=2)
    assert [entry.target for entry in store.audit(after=second.number, limit=2)] == ["p2", "p3"]
    assert [entry.detail["n"] for entry in store.audit(who="ann")] == [1, 3]
    assert first.who == "bob"
    assert first.at > 0


def test_a_backup_has_the_chain_and_the_epoch_goes_on(tmp_path):
    with Store.open(tmp_path / "data") as store:
        store.create_project("it", "", some_items(), {}, "")
        store.append("it", some_entries(3), "ann").result()
        backup(tmp_path / "data", tmp_path / "copy")
        chain = store.project("it").chain
    restore(tmp_path / "copy", tmp_path / "restored")
    with Store.open(tmp_path / "restored") as store:
        assert chain_of(store, "it") == chain
        store.append("it", some_entries(1), "ann").result()
        assert chain_of(store, "it") == store.project("it").chain
    with closing(sqlite3.connect(tmp_path / "restored" / DATABASE_FILE)) as database:
        assert database.execute("SELECT epoch FROM identity").fetchone()[0] >= 2
