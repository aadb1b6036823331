"""The store against a simple model, on SQLite and PostgreSQL, and its behaviour under failures."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, wait
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from click.testing import CliRunner
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from postgres import PASSWORD, postgres  # noqa: F401  a fixture
from sqlalchemy import Engine, event, text

from ocelad.cli.backup import backup as backup_command
from ocelad.cli.backup import restore as restore_command
from ocelad.service.entries import Entry, NewEntry, NewName
from ocelad.service.itemset import ItemSet, Scaling
from ocelad.service.store import (
    AlreadyUndone,
    DuplicateItem,
    InvalidRequest,
    KeyConflict,
    NothingToUndo,
    Overloaded,
    ProjectExists,
    Store,
    StoreInUse,
    StoreUnavailable,
    TokenExists,
    UnknownEntry,
    UnknownItem,
    UnknownProject,
    UnknownToken,
    backup,
    item_table,
    open_tokens,
    restore,
    writer,
)
from ocelad.service.store.database import Database
from ocelad.service.store.durable_files import make_folder
from ocelad.service.store.entry_log import AppendRequest, AppendResult
from ocelad.service.store.project_table import check_text
from ocelad.service.store.schema import MIGRATIONS, VERSION_TABLE
from ocelad.service.store.tables import metadata
from ocelad.service.token_secret import hash_secret

N_ITEMS = 5
numbers = count(1)


def some_items(n=N_ITEMS, prefix="item ", **others):
    features = np.random.default_rng(n).normal(size=(n, 3))
    names = ("x", "y", "z")
    return ItemSet(tuple(f"{prefix}{i}" for i in range(n)), features, names, Scaling("none", np.ones(3)), **others)


def some_entries(n, start=0):
    return [NewEntry(i % N_ITEMS, (i + 1) % N_ITEMS, "same" if i % 3 else "different") for i in range(start, start + n)]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request):
    return None if request.param == "sqlite" else request.getfixturevalue("postgres").new_url()


@pytest.fixture
def store(tmp_path, url):
    with Store.open(tmp_path / "data", url) as store:
        yield store


@pytest.fixture
def project(store):
    store.create_project("it", "It", some_items(), {"step_size": 0.1}, "digest")
    return "it"


@contextmanager
def one_batch(store):
    """Hold the writer, so that everything appended within the block is written in one batch."""
    if "held" not in {row.id for row in store.projects()}:
        store.create_project("held", "", some_items(2), {}, "")
    held, go = threading.Event(), threading.Event()

    def hold(project, entries):
        if project == "held":
            held.set()
            go.wait(30)

    store.listen(hold)
    store.append("held", [NewEntry(0, 1, "skip")])
    assert held.wait(30)
    try:
        yield
    finally:
        go.set()


def outcome(future: Future):
    error = future.exception(30)
    return type(error) if error else (future.result().entries, future.result().repeated)


class Model:
    """A simple model of a log."""

    def __init__(self):
        self.log = []  # (kind, left, right, source, person, undoes, name, bundle)
        self.keys = {}

    def submit(self, new, seq, person, key, origin):
        """Return the class of the error, or the numbers of the entries and whether they are repeated."""
        content = origin or (new if isinstance(new, NewName) else tuple(new), seq), person
        if (person, key) in self.keys:
            known, numbers = self.keys[person, key]
            return (numbers, True) if known == content else KeyConflict
        before = len(self.log)
        bundle = before + 1 if origin else None
        if isinstance(new, NewName):
            self.log.append(("name", new.item, new.item, "given", person, None, new.name, None))
        elif new:
            self.log += [
                (entry.answer, entry.left, entry.right, entry.source, person, None, None, bundle) for entry in new
            ]
        else:
            if seq is None:
                standing = [n for n in range(1, before + 1) if self.log[n - 1][4] == person and self.stands(n)]
                if not standing:
                    return NothingToUndo
                seq = standing[-1]
            if not 1 <= seq <= before:
                return UnknownEntry
            if not self.stands(seq):
                return AlreadyUndone
            bundle = self.log[seq - 1][-1]
            for n in range(1, before + 1):
                _, left, right, source, *_, of = self.log[n - 1]
                if n == seq or (of is not None and of == bundle):
                    self.log.append(("undo", left, right, source, person, n, None, None))
        made = range(before + 1, len(self.log) + 1)
        if key is not None:
            self.keys[person, key] = content, made
        return made, False

    def stands(self, n):
        return self.log[n - 1][0] != "undo" and n not in self.undone()

    def undone(self):
        return {entry[5] for entry in self.log} - {None}


positions = st.lists(st.integers(0, N_ITEMS - 1), min_size=2, max_size=2, unique=True)
new_entries = st.builds(
    lambda two, answer, source: NewEntry(*two, answer, source),
    positions,
    st.sampled_from(["same", "different", "skip"]),
    st.sampled_from(["active", "random", "link", "check", "settle", "given"]),
)
people = st.sampled_from(["", "ann", "böb/violet otter"])
keys = st.none() | st.sampled_from(["k1", "k2", "k3", "k4"])
several = st.lists(new_entries, min_size=1, max_size=3)
names = st.builds(NewName, st.integers(0, N_ITEMS - 1), st.sampled_from(["red", "größer"]))
origins = st.sampled_from([("merge", 0, 1), ("split", 2)])
requests = st.one_of(
    st.tuples(several, st.none(), people, keys, st.none()),
    st.tuples(st.just([]), st.none() | st.integers(1, 12), people, keys, st.none()),
    st.tuples(several, st.none(), people, keys, origins),
    st.tuples(names, st.none(), people, keys, st.none()),
)


def machine(folder, url):
    """Return a state machine whose projects are all in one database, and the open store."""
    opened = [Store.open(folder, url)]

    class Logs(RuleBasedStateMachine):
        @initialize()
        def begin(self):
            self.id = f"p{next(numbers)}"
            opened[0].create_project(self.id, "", some_items(), {}, "")
            self.model, self.heard = Model(), []
            self.listen()

        def listen(self):
            opened[0].listen(lambda project, entries: self.heard.extend(entries if project == self.id else []))

        def check(self, request, future):
            expected = self.model.submit(*request)
            if isinstance(expected, type):
                assert outcome(future) is expected
            else:
                entries, repeated = outcome(future)
                assert ([entry.seq for entry in entries], repeated) == (list(expected[0]), expected[1])
                assert [content_of(entry) for entry in entries] == [self.model.log[entry.seq - 1] for entry in entries]

        def submit(self, request):
            new, seq, person, key, origin = request
            if isinstance(new, NewName):
                return opened[0].name_group(self.id, new.item, new.name, person, key)
            if new:
                return opened[0].append(self.id, new, person, key, origin)
            return opened[0].undo(self.id, seq, person, key)

        @rule(request=requests)
        def one(self, request):
            self.check(request, self.submit(request))

        @rule(requests=st.lists(requests, min_size=2, max_size=6))
        def several_at_once(self, requests):
            with one_batch(opened[0]):
                futures = [self.submit(request) for request in requests]
            for request, future in zip(requests, futures, strict=True):
                self.check(request, future)

        @rule()
        def reopen(self):
            opened[0].close()
            opened[0] = Store.open(folder, url)
            self.listen()

        @invariant()
        def agrees_with_the_model(self):
            store, log = opened[0], self.model.log
            stored = store.entries(self.id)
            assert [content_of(entry) for entry in stored] == log
            assert [entry.seq for entry in stored] == list(range(1, len(log) + 1))
            assert store.project(self.id).seq == len(log)
            assert self.heard == stored  # each once, in order

    return Logs, opened


def content_of(entry: Entry):
    return entry.kind, entry.left, entry.right, entry.source, entry.person, entry.undoes, entry.name, entry.bundle


# Both databases share all code but the SQL dialect, so that many long runs on SQLite and fewer on PostgreSQL suffice.
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_log_agrees_with_a_simple_model(tmp_path, url, slow):
    n_examples, n_steps = (5, 12) if not slow else (30, 30) if url is None else (8, 30)
    logs, opened = machine(tmp_path, url)
    try:
        run_state_machine_as_test(logs, settings=settings(max_examples=n_examples, stateful_step_count=n_steps))
    finally:
        opened[0].close()


def test_items_are_stored_bit_for_bit(store):
    extreme = np.array([[5e-324, -0.0, 1 / 3], [1.7e308, -2.2e-308, 0.1]])
    items = ItemSet(
        ("a\u2028b", "ü"),
        extreme,
        ("x", "y\0", "half \ud800"),
        Scaling("features", np.array([1 / 3, 1e-300, 2.0])),
        display="text",
        text=["zero \0, half \udfff, '\"", ""],
        fields={"n": [1, None], "f": [0.1, 1e300], "b": [True, False], "s": ["", "\0"]},
    )
    row = store.create_project("it", "Its title", items, {"step_size": 0.1, "max_rank": None}, "digest")
    back = store.items("it")
    assert back.features.tobytes() == extreme.tobytes()
    assert back.scaling.factors.tobytes() == items.scaling.factors.tobytes()
    assert (back.ids, back.feature_names, back.text, back.fields, back.pictures) == (
        items.ids,
        items.feature_names,
        items.text,
        items.fields,
        None,
    )
    assert back.metadata() == items.metadata() == row.metadata
    assert (row.title, row.settings, row.digest) == ("Its title", {"step_size": 0.1, "max_rank": None}, "digest")
    assert (row.n_items, row.seq, store.projects()) == (2, 0, [row])


def test_items_are_appended_completely_or_not_at_all(store, project):
    more = some_items(3, "more ")
    assert store.add_items(project, more) == store.project(project).n_items == N_ITEMS + 3
    assert store.items(project).ids == some_items().ids + more.ids
    assert store.append(project, [NewEntry(0, N_ITEMS + 2, "same")]).result().entries[0].right == N_ITEMS + 2
    with pytest.raises(DuplicateItem, match="'more 1'"):
        store.add_items(project, ItemSet(("new", "more 1"), np.ones((2, 3)), ("x", "y", "z"), more.scaling))
    with pytest.raises(DuplicateItem, match="'twice' occurs 2 times"):
        store.add_items(project, ItemSet(("twice", "twice"), np.ones((2, 3)), ("x", "y", "z"), more.scaling))
    with pytest.raises(InvalidRequest, match="features that are not those"):
        store.add_items(project, ItemSet(("new",), np.ones((1, 3)), ("x", "y", "w"), more.scaling))
    with pytest.raises(InvalidRequest, match="no column 'colour'"):
        store.add_items(project, some_items(1, "other ", fields={"colour": ["red"]}))
    assert len(store.items(project)) == N_ITEMS + 3


def test_pictures_are_read_on_access(store):
    pictures = [bytes([i]) * 10 for i in range(4)]
    store.create_project("seen", "", some_items(4, display="picture", pictures=pictures), {}, "")
    back = store.items("seen").pictures
    assert list(back) == pictures
    assert (back[-1], back[1:3], len(back)) == (pictures[3], pictures[1:3], 4)
    with pytest.raises(IndexError):
        back[4]
    assert (store.picture("seen", 2), store.picture("seen", 4)) == (pictures[2], None)


def test_a_project_id_is_unique(store, project):
    with pytest.raises(ProjectExists, match="'it'"):
        store.create_project(project, "Another", some_items(), {}, "")
    assert [row.title for row in store.projects()] == ["It"]
    with pytest.raises(UnknownProject, match="'else'"):
        store.items("else")
    with pytest.raises(InvalidRequest, match="shape"):
        store.create_project("odd", "", ItemSet(("a",), np.ones((1, 2)), ("x",), Scaling("none", np.ones(1))), {}, "")


def test_invalid_entries_are_rejected_and_nothing_is_stored(store, project):
    wrong = [
        (NewEntry(0, N_ITEMS, "same"), UnknownItem),
        (NewEntry(-1, 0, "same"), UnknownItem),
        (NewEntry(1, 1, "same"), UnknownItem),
        (NewEntry(np.int64(1), 0, "same"), UnknownItem),
        (NewEntry(0, 1, "undo"), InvalidRequest),
        (NewEntry(0, 1, "same", "guessed"), InvalidRequest),
    ]
    for entry, error in wrong:
        with pytest.raises(error, match=r"entry 1 .*accepted"):
            store.append(project, [NewEntry(0, 1, "same"), entry])
    for text_ in ("a\0b", "\ud800", "x" * 201):  # which a database cannot store
        with pytest.raises(InvalidRequest, match="accepted"):
            store.append(project, some_entries(1), text_)
        with pytest.raises(InvalidRequest, match="accepted"):
            store.undo(project, 1, "", text_)
    with pytest.raises(UnknownEntry):
        store.undo(project, 2**70)
    assert store.entries(project) == []


def test_an_invalid_request_in_a_batch_does_not_affect_the_others(store, project):
    """Also one that only the database rejects."""
    with one_batch(store):
        first = store.append(project, some_entries(2), "ann", "key")
        conflict = store.append(project, some_entries(3), "ann", "key")
        nothing = store.undo(project, None, "unknown")
        # Changed after its check to a kind that the table does not allow.
        entries = [NewEntry(0, 1, "same")]
        bad = store.append(project, entries)
        entries[0] = NewEntry(0, 1, "perhaps")
        last = store.append(project, some_entries(1, 7))
    assert outcome(conflict) is KeyConflict
    assert outcome(nothing) is NothingToUndo
    assert outcome(bad) is StoreUnavailable
    assert [entry.seq for entry in first.result().entries + last.result().entries] == [1, 2, 3]
    assert [entry.seq for entry in store.entries(project)] == [1, 2, 3]
    assert store.append(project, some_entries(1)).result().entries[0].seq == 4


def test_repetitions_within_a_batch_are_stored_once(store, project):
    with one_batch(store):
        answers = [store.append(project, some_entries(2), "ann", "key") for _ in range(3)]
        undos = [store.undo(project, 2, "ann", "other key") for _ in range(2)]
    assert [future.result().repeated for future in answers + undos] == [False, True, True, False, True]
    assert {future.result().entries for future in answers} == {tuple(store.entries(project, 0, 2))}
    assert {future.result().entries for future in undos} == {tuple(store.entries(project, 2))}
    assert store.project(project).seq == 3


def test_a_key_belongs_to_a_person(store, project):
    """Two people who use the same key for the same answer by chance have given two answers."""
    first = store.append(project, some_entries(1), "ann", "key").result()
    second = store.append(project, some_entries(1), "bob", "key").result()
    assert [each.entries[0].seq for each in (first, second)] == [1, 2]
    for person, given in (("ann", first), ("bob", second)):
        assert store.append(project, some_entries(1), person, "key").result() == AppendResult(given.entries, True)
    store.undo(project, 1, "ann", "undo key").result()
    assert outcome(store.undo(project, 1, "bob", "undo key")) is AlreadyUndone
    assert store.project(project).seq == 3


@pytest.mark.parametrize(
    "other",
    [
        (NewEntry(1, 0, "same", "given"),),
        (NewEntry(0, 2, "same", "given"),),
        (NewEntry(0, 1, "skip", "given"),),
        (NewEntry(0, 1, "same", "given"), NewEntry(0, 1, "same", "given")),
    ],
)
def test_a_key_belongs_to_the_content_of_a_request(store, project, other):
    store.append(project, [NewEntry(0, 1, "same", "given")], "ann", "key").result()
    assert outcome(store.append(project, other, "ann", "key")) is KeyConflict
    assert outcome(store.undo(project, 1, "ann", "key")) is KeyConflict


def test_the_digest_of_a_request_is_the_one_in_existing_databases():
    """A change of the digest would turn repeated requests after an upgrade into conflicts."""
    request = AppendRequest("it", [NewEntry(0, 1, "same", "given")], "ann", "key")
    undo = AppendRequest("it", (), "ann", "key", undoes=3)
    assert request.digest == hashlib.sha256(b'["ann", [[0, 1, "same"]]]').digest()
    assert undo.digest == hashlib.sha256(b'["ann", ["undo", 3]]').digest()
    for source in ("given", "random", "active"):  # clients named the source before
        earlier = hashlib.sha256(f'["ann", [[0, 1, "same", "{source}"]]]'.encode()).digest()
        assert request.is_repetition_of(earlier)
    assert not request.is_repetition_of(hashlib.sha256(b'["ann", [[0, 1, "skip", "given"]]]').digest())


def test_a_repeated_bundle_is_found_by_its_origin_whatever_its_entries(store, project):
    assert store.find_repeated(project, "ann", "key", ["merge", 0, 1]) is None
    first = store.append(project, some_entries(2), "ann", "key", ["merge", 0, 1]).result()
    again = store.append(project, some_entries(3), "ann", "key", ["merge", 0, 1]).result()
    found = store.find_repeated(project, "ann", "key", ["merge", 0, 1])
    assert first.entries == again.entries == found.entries
    assert [first.repeated, again.repeated, found.repeated] == [False, True, True]
    assert store.find_repeated(project, "bob", "key", ["merge", 0, 1]) is None
    with pytest.raises(KeyConflict):
        store.find_repeated(project, "ann", "key", ["merge", 0, 2])
    with pytest.raises(InvalidRequest, match=r"^the bundle has 10,001 entries; accepted: up to 10,000$"):
        store.append(project, some_entries(10_001), "ann", None, ["split"])


@pytest.mark.parametrize("wrong", ["", "x" * 201, "a\0b", 7])
def test_a_name_that_cannot_be_stored_is_rejected(store, project, wrong):
    with pytest.raises(InvalidRequest, match=r"^the name .* accepted: 1 to 200 characters$"):
        store.name_group(project, 0, wrong)
    with pytest.raises(UnknownItem, match=rf"^'it' has no item {N_ITEMS}; accepted: 0 to {N_ITEMS - 1}$"):
        store.name_group(project, N_ITEMS, "name")
    assert store.project(project).seq == 0


def test_undo_skips_undos_and_undone_answers(store, project):
    store.append(project, some_entries(2), "ann").result()
    store.append(project, some_entries(1), "bob").result()
    assert [store.undo(project, None, "ann").result().entries[0].undoes for _ in range(2)] == [2, 1]
    assert outcome(store.undo(project, None, "ann")) is NothingToUndo
    assert store.undo(project, None, "bob").result().entries[0].undoes == 3


def test_concurrent_requests_are_stored_in_order(store, project):
    """The entries of a request are consecutive, and those of a thread in the order of their acknowledgements."""
    acknowledged, heard = {}, []
    store.listen(lambda project, entries: heard.extend(entries))

    def answer(name):
        mine = acknowledged[name] = []
        for i in range(12):
            result = store.append(project, some_entries(1 + i % 3, i), name, f"{name}{i}").result(30)
            again = store.append(project, some_entries(1 + i % 3, i), name, f"{name}{i}").result(30)
            assert again.repeated
            assert again.entries == result.entries
            mine.append(result.entries)

    threads = [threading.Thread(target=answer, args=(f"t{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = store.entries(project)
    assert [entry.seq for entry in log] == list(range(1, 8 * 24 + 1))
    assert heard == log
    for name, batches in acknowledged.items():
        mine = [entry for batch in batches for entry in batch]
        assert mine == [entry for entry in log if entry.person == name]
        assert all(after.seq == before.seq + 1 for batch in batches for before, after in pairwise(batch))


def test_the_queue_is_bounded(store, project, monkeypatch):
    monkeypatch.setattr(writer, "MAX_QUEUED", 10)
    with one_batch(store):
        accepted = [store.append(project, some_entries(4)) for _ in range(2)]
        with pytest.raises(Overloaded, match="8 entries are queued"):
            store.append(project, some_entries(4))
    wait(accepted)
    assert [entry.seq for entry in store.append(project, some_entries(50)).result().entries] == list(range(9, 59))


def test_a_cancelled_request_is_not_written(store, project):
    with one_batch(store):
        cancelled, written = (store.append(project, some_entries(1)) for _ in range(2))
        assert cancelled.cancel()
    assert written.result().entries[0].seq == 1


def test_a_failing_listener_does_not_fail_requests(store, project, caplog):
    def fail(project, entries):
        raise RuntimeError("the listener failed")

    store.listen(fail)
    assert store.append(project, some_entries(1)).result().entries[0].seq == 1
    assert store.append(project, some_entries(1)).result().entries[0].seq == 2
    assert "a listener failed" in caplog.text


def test_close_writes_the_queue(tmp_path, url):
    store = Store.open(tmp_path, url)
    store.create_project("it", "", some_items(), {}, "")
    futures = [store.append("it", some_entries(3)) for _ in range(20)]
    store.close()
    assert sorted(entry.seq for future in futures for entry in future.result(0).entries) == list(range(1, 61))
    with pytest.raises(StoreUnavailable, match="closed"):
        store.append("it", some_entries(1))


def test_entries_come_in_pages(store, project):
    store.append(project, some_entries(10)).result()
    assert [entry.seq for entry in store.entries(project, 3, 4)] == [4, 5, 6, 7]
    assert store.entries(project, 10) == []
    assert store.entry(project, 10).seq == 10
    with pytest.raises(UnknownEntry, match="1 to 10"):
        store.entry(project, 11)


def test_tokens_are_stored_hashed_and_names_are_unique(tmp_path, store, url):
    with open_tokens(tmp_path / "data", url) as tokens:  # while the store is open
        secret = tokens.create("ann", {"digits": "answer", "*": "read"})
        other = tokens.create("bob", {"*": "admin"})
    assert secret.startswith("ocelad_")
    assert len(secret) == 50
    assert store.find_token(hash_secret(secret)).permissions == {"digits": "answer", "*": "read"}
    assert store.find_token(hash_secret(other)).name == "bob"
    assert store.find_token(hash_secret(secret + "x")) is None
    with open_tokens(tmp_path / "data", url) as tokens:
        revoked = tokens.revoke("ann")
        assert revoked == tokens.revoke("ann") == store.find_token(hash_secret(secret))
        assert revoked.revoked_at is not None
        assert [(token.name, token.revoked_at is None) for token in tokens.all()] == [("ann", False), ("bob", True)]
        with pytest.raises(TokenExists, match="'ann'"):
            tokens.create("ann", {"*": "read"})
        with pytest.raises(UnknownToken, match="'eve'"):
            tokens.revoke("eve")
        with pytest.raises(InvalidRequest, match="accepted: read, answer, review, admin"):
            tokens.create("eve", {"*": "everything"})
        for name in ("", "alice/bob", "a\nb", "ann\n", "a\0b", "\ud800", "x" * 65):
            with pytest.raises(InvalidRequest, match="accepted: 1 to 64 letters"):
                tokens.create(name, {"*": "read"})
    assert all(secret.encode() not in path.read_bytes() for path in (tmp_path / "data").iterdir())


def test_tokens_can_be_created_before_the_first_start_of_a_service(tmp_path, url):
    with open_tokens(tmp_path / "new", url) as tokens:
        secret = tokens.create("ann", {"*": "read"})
    with Store.open(tmp_path / "new", url) as store:
        assert store.find_token(hash_secret(secret)).name == "ann"


def test_the_migrations_create_the_tables_of_the_queries(tmp_path, store, url):
    database = Database(tmp_path / "data", url)
    with database.read_connection() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": "ocelad_schema"})
        assert compare_metadata(context, metadata) == []
    database.dispose()


def test_a_database_of_the_first_schema_is_migrated_with_all_entries(tmp_path, url):
    make_folder(tmp_path)
    database = Database(tmp_path, url)
    scripts = ScriptDirectory(MIGRATIONS, version_locations=[MIGRATIONS])
    with database.write_transaction() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        with Operations.context(context):
            scripts.get_revision("0001").module.upgrade()
            context.stamp(scripts, "0001")
        connection.execute(
            text("INSERT INTO projects VALUES (1, 'it', 'It', 1, '{}', :about, '', 2)"),
            {"about": json.dumps(some_items(2).metadata())},
        )
        for position in range(2):
            row = {"position": position, "id": f"item {position}", "features": np.zeros(3).tobytes()}
            connection.execute(text("INSERT INTO items VALUES (1, :position, :id, :features, '[null]')"), row)
        for values in ("1, 5, 'same', 0, 1, 'given', 'ann', NULL", "2, 6, 'undo', 0, 1, 'given', 'bob', 1"):
            connection.execute(text(f"INSERT INTO entries VALUES (1, {values})"))
    database.dispose()
    with Store.open(tmp_path, url) as store:
        before = [Entry(1, 5, "same", 0, 1, "given", "ann"), Entry(2, 6, "undo", 0, 1, "given", "bob", 1)]
        assert store.entries("it") == before
        store.name_group("it", 1, "one", "ann").result()
        store.append("it", [NewEntry(0, 1, "same")], "ann", None, ["merge"]).result()
    with Store.open(tmp_path, url) as store:
        entries = store.entries("it")
        assert entries[:2] == before
        assert [(entry.kind, entry.name, entry.bundle) for entry in entries[2:]] == [
            ("name", "one", None),
            ("same", None, 4),
        ]
        assert outcome(store.undo("it", 1, "ann")) is AlreadyUndone
        database = Database(tmp_path, url)
        with database.read_connection() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
            assert compare_metadata(context, metadata) == []
        for wrong in ("'maybe', 0, 1, 'given', '', NULL, NULL, NULL", "'name', 0, 0, 'given', '', NULL, NULL, NULL"):
            with pytest.raises(StoreUnavailable), database.write_transaction() as connection:
                connection.execute(text(f"INSERT INTO entries VALUES (1, 99, 5, {wrong})"))
        database.dispose()


def test_a_newer_schema_is_rejected_and_not_changed(tmp_path, url):
    Store.open(tmp_path, url).close()
    database = Database(tmp_path, url)
    with database.write_transaction() as connection:
        connection.execute(text("UPDATE ocelad_schema SET version_num = '9999'"))
    with pytest.raises(StoreUnavailable, match=r"newer version of ocelad \(schema 9999\)"):
        Store.open(tmp_path, url)
    with database.read_connection() as connection:
        assert connection.scalar(text("SELECT version_num FROM ocelad_schema")) == "9999"
    database.dispose()


def test_a_second_writer_is_rejected_and_told_the_first(tmp_path, store, url, monkeypatch):
    with pytest.raises(StoreInUse, match=f"in use by process {os.getpid()} on .*; stop that process"):
        Store.open(tmp_path / "data", url)
    if url is not None:
        monkeypatch.setattr("ocelad.service.store.lock._LOCK_TIMEOUT_S", 0.1)
        with pytest.raises(
            StoreInUse, match=f"in use by ocelad on .*, process {os.getpid()}; stop that process"
        ) as raised:
            Store.open(tmp_path / "another folder", url)
        assert PASSWORD not in str(raised.value)
    store.close()
    Store.open(tmp_path / "data", url).close()


def test_a_lost_connection_is_reopened(store, project, url, postgres):  # noqa: F811
    """Requests in flight fail and can be repeated by key; listeners hear of unconfirmed commits."""
    if url is None:
        pytest.skip("SQLite has no connection to lose")
    heard = []
    store.listen(lambda project, entries: heard.extend(entries))
    store.append(project, some_entries(2), key="one").result()
    assert postgres.end_connections(url)
    with pytest.raises(StoreUnavailable) as raised:
        store.append(project, some_entries(2), key="two").result(30)
    assert PASSWORD not in str(raised.value)
    # As if the commit had taken effect, and only its confirmation was lost.
    database = Database(Path(), url)
    with database.write_transaction() as connection:
        number = store.project(project).number
        copied = "at, kind, left_item, right_item, asked, who, undoes, name, bundle, chain"
        connection.execute(text(f"INSERT INTO entries SELECT project, 3, {copied} FROM entries LIMIT 1"))
    database.dispose()
    assert store.append(project, some_entries(2), key="two").result(30).entries[-1].seq == 5
    assert store.append(project, some_entries(2), key="one").result(30).repeated
    assert [entry.seq for entry in heard] == [1, 2, 3, 4, 5]
    assert heard == store.entries(project)
    assert store.project(project).number == number


def test_a_lost_connection_is_reopened_without_a_request(store, project, url, postgres, monkeypatch):  # noqa: F811
    if url is None:
        pytest.skip("SQLite has no connection to lose")
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    postgres.end_connections(url)
    with pytest.raises(StoreUnavailable):
        store.append(project, some_entries(1)).result(30)
    deadline = time.monotonic() + 30
    while store._writer._connection is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store._writer._connection is not None


@pytest.mark.parametrize(
    "wrong",
    [
        "mysql://me:sesame@host/it",
        "postgresql://me:sesame@127.0.0.1:1/it",
        "postgresql://me:sesame@127.0.0.1:notaport/it",
        "sesame",
        "postgresql://me@127.0.0.1:1/it?password=sesame",
    ],
)
def test_the_error_of_an_invalid_url_does_not_contain_the_password(tmp_path, wrong):
    with pytest.raises((StoreUnavailable, ValueError)) as raised:
        Store.open(tmp_path, wrong)
    assert "sesame" not in str(raised.value)
    Store.open(tmp_path).close()  # the lock was released


def test_the_error_of_a_wrong_password_does_not_contain_it(tmp_path, postgres):  # noqa: F811
    wrong = postgres.url("postgres").replace("otter", "0tter")
    with pytest.raises(StoreUnavailable, match="password authentication failed") as raised:
        Store.open(tmp_path, wrong)
    assert "0tter" not in str(raised.value)


@contextmanager
def small_disk(pages):
    """Limit the size of SQLite databases, so that the disk appears to be full."""

    def limit(connection, _):
        if isinstance(connection, sqlite3.Connection):
            connection.execute(f"PRAGMA max_page_count = {pages}").close()

    event.listen(Engine, "connect", limit)
    try:
        yield
    finally:
        event.remove(Engine, "connect", limit)


def test_a_full_disk_loses_no_acknowledged_entry(tmp_path):
    with small_disk(60), Store.open(tmp_path) as store:
        store.create_project("it", "", some_items(), {}, "")
        n_stored = 0
        while not (error := (future := store.append("it", some_entries(100))).exception()):
            n_stored += len(future.result().entries)
        assert isinstance(error, StoreUnavailable)
        assert "no space left on the disk" in str(error)
        assert len(store.entries("it", limit=10**6)) == n_stored >= 100
        with pytest.raises(StoreUnavailable, match="no space left on the disk"):
            store.create_project("big", "", some_items(20_000), {}, "")
        assert [row.id for row in store.projects()] == ["it"]
    with Store.open(tmp_path) as store:  # when there is space again
        assert store.append("it", some_entries(100)).result().entries[0].seq == n_stored + 1


def test_a_damaged_database_is_reported(tmp_path):
    Store.open(tmp_path).close()
    path = tmp_path / "ocelad.sqlite3"
    whole = path.read_bytes()
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(StoreUnavailable, match="is not a SQLite database or is damaged; restore a backup"):
        Store.open(tmp_path)
    path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    with pytest.raises(StoreUnavailable, match="is damaged"):
        Store.open(tmp_path)
    with pytest.raises(StoreUnavailable, match="is damaged"):
        backup(tmp_path, tmp_path / "copy")
    path.write_bytes(whole)
    Store.open(tmp_path).close()  # the lock was released


def test_a_folder_that_is_not_writable_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"cannot create .*accepted: a writable folder"):
        Store.open(tmp_path / "file" / "data")
    (tmp_path / "data").mkdir(mode=0o555)
    (tmp_path / "read-only database").mkdir()
    Store.open(tmp_path / "read-only database").close()
    (tmp_path / "read-only database" / "ocelad.sqlite3").chmod(0o444)
    program = (
        "import os, sys; from pathlib import Path; from ocelad.service.store import Store\n"
        "if os.geteuid() == 0: os.setgid(65534), os.setuid(65534)\n"
        "for folder in sys.argv[1:]:\n"
        "    try: Store.open(Path(folder))\n"
        "    except OSError as error: print(type(error).__name__, error)\n"
    )
    if os.geteuid() == 0:
        for path in [*tmp_path.parents[:2], *tmp_path.rglob("*"), tmp_path]:
            path.chmod(path.stat().st_mode | 0o055)
        (tmp_path / "read-only database").chmod(0o777)
        (tmp_path / "read-only database" / "ocelad.lock").chmod(0o666)
    folders = [tmp_path / "data", tmp_path / "read-only database"]
    ended = subprocess.run([sys.executable, "-c", program, *folders], capture_output=True, text=True, check=True)
    lines = ended.stdout.splitlines()
    assert all(line.startswith("StoreUnavailable") for line in lines), lines
    assert all("accepted: a writable folder" in line for line in lines), lines
    assert len(lines) == 2


def test_a_backup_during_writes_is_a_consistent_state(tmp_path):
    """It contains everything that was acknowledged before it began, and only complete requests."""
    stop = threading.Event()
    with Store.open(tmp_path / "data") as store:
        store.create_project("it", "", some_items(display="picture", pictures=[b"png"] * N_ITEMS), {"a": 1}, "digest")
        with open_tokens(tmp_path / "data") as tokens:
            secret = tokens.create("ann", {"*": "read"})

        def answer(name):
            for i in count():
                if stop.is_set():
                    return
                store.append("it", some_entries(7, i), name, f"{name}{i}").result()

        threads = [threading.Thread(target=answer, args=(f"t{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        before = []
        for i in range(3):
            time.sleep(0.05)
            before.append(store.project("it").seq)
            backup(tmp_path / "data", tmp_path / f"copy{i}")
        stop.set()
        for thread in threads:
            thread.join()
        log, items = store.entries("it", limit=10**6), store.items("it")
        assert 0 < before[0] < before[-1] < len(log)
        for i, n_before in enumerate(before):
            assert (tmp_path / f"copy{i}").stat().st_mode & 0o777 == 0o600
            restore(tmp_path / f"copy{i}", tmp_path / f"restored{i}")
            with Store.open(tmp_path / f"restored{i}") as again:
                entries = again.entries("it", limit=10**6)
                assert len(entries) >= n_before
                assert len(entries) % 7 == 0
                assert entries == log[: len(entries)]
                assert again.items("it").features.tobytes() == items.features.tobytes()
                assert list(again.items("it").pictures) == [b"png"] * N_ITEMS
                assert again.find_token(hash_secret(secret)).name == "ann"
                assert again.append("it", some_entries(7), "t0", "t00").result().repeated


def test_the_commands_backup_and_restore(tmp_path):
    with Store.open(tmp_path / "data") as store:
        store.create_project("it", "", some_items(), {}, "")
        store.append("it", some_entries(3)).result()
        assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "data").glob("*.sqlite3*"))
        made = CliRunner().invoke(backup_command, [str(tmp_path / "copy"), "--data-folder", str(tmp_path / "data")])
    back = CliRunner().invoke(restore_command, [str(tmp_path / "copy"), "--data-folder", str(tmp_path / "new")])
    assert made.output == f"Backup: {tmp_path / 'copy'} (projects: 1, entries: 3)\n"
    assert back.stdout == f"Restored: {tmp_path / 'new'} (projects: 1, entries: 3)\n"
    with Store.open(tmp_path / "new") as store:
        assert len(store.entries("it")) == 3


def test_impossible_backups_and_restores_are_rejected(tmp_path):
    data, copy = tmp_path / "data", tmp_path / "copy"
    with pytest.raises(StoreUnavailable, match="accepted: a data folder with SQLite"):
        backup(data, copy)
    Store.open(data).close()
    backup(data, copy)
    with pytest.raises(InvalidRequest, match="exists already"):
        backup(data, copy)
    with pytest.raises(InvalidRequest, match="does not exist"):
        backup(data, tmp_path / "no" / "copy")
    with pytest.raises(InvalidRequest, match="not empty"):
        restore(copy, data)
    with pytest.raises(StoreUnavailable, match="nothing' does not exist"):
        restore(tmp_path / "nothing", tmp_path / "new")
    other = sqlite3.connect(tmp_path / "other")
    other.execute("CREATE TABLE something (x)")
    other.close()
    with pytest.raises(InvalidRequest, match="not a database of ocelad"):
        restore(tmp_path / "other", tmp_path / "new")
    newer = sqlite3.connect(copy)
    newer.execute("UPDATE ocelad_schema SET version_num = '9999'")
    newer.commit()
    newer.close()
    with pytest.raises(StoreUnavailable, match="newer"):
        restore(copy, tmp_path / "new")
    copy.unlink()
    backup(data, copy)
    restore(copy, tmp_path / "new")  # the failed attempts left nothing behind
    assert not list(tmp_path.rglob("*.part"))


def test_pg_dump_and_pg_restore_copy_a_database(tmp_path, postgres):  # noqa: F811
    url, other = postgres.new_url(), postgres.new_url()
    with Store.open(tmp_path / "data", url) as store:
        store.create_project("it", "", some_items(), {}, "")
        store.append("it", some_entries(50), "ann", "key").result()
        dump = [postgres.bindir / "pg_dump", "--format=custom", f"--file={tmp_path / 'dump'}", url]
        subprocess.run(dump, check=True, capture_output=True)
        log, items = store.entries("it"), store.items("it")
    subprocess.run([postgres.bindir / "pg_restore", f"--dbname={other}", tmp_path / "dump"], check=True)
    with Store.open(tmp_path / "other", other) as again:
        assert again.entries("it") == log
        assert again.items("it").features.tobytes() == items.features.tobytes()
        assert again.append("it", some_entries(50), "ann", "key").result().repeated
        assert again.create_project("new", "", some_items(), {}, "").seq == 0


def until(condition):
    """Wait until another thread has made a condition true."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), CommandError("no such revision"), KeyError("x")])
def test_the_writer_fails_requests_and_retries_after_any_error(store, project, error, monkeypatch, caplog):
    """The failure and the recovery are logged once each."""
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    attempts = []

    def connect():
        attempts.append(1)
        raise error

    assert store.failure is None
    with monkeypatch.context() as broken:
        broken.setattr(store._writer, "_connect", connect)
        store._writer._disconnect()
        with pytest.raises(StoreUnavailable, match="cannot use"):
            store.append(project, some_entries(1), key="key").result(30)
        until(lambda: len(attempts) > 3)
        assert str(error) in store.failure
    until(lambda: store.failure is None)
    assert store.append(project, some_entries(1), key="key").result(30).entries[0].seq == 1
    assert [caplog.text.count(words) for words in ("writing failed", "is available again")] == [1, 1]


def test_an_unexpected_error_in_the_writer_fails_the_request(store, project, monkeypatch, caplog):
    with monkeypatch.context() as broken:
        broken.setattr(store._writer, "_announce", lambda project, new: 1 / 0)
        with pytest.raises(StoreUnavailable, match="ZeroDivisionError"):
            store.append(project, some_entries(1), key="key").result(30)
    assert "unexpected error in the writer thread" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert store.append(project, some_entries(1), key="key").result(30).repeated


def test_a_connection_that_is_lost_while_idle_is_noticed(
    store,
    project,
    url,
    postgres,  # noqa: F811
    monkeypatch,
    caplog,
):
    if url is None:
        pytest.skip("SQLite has no connection to lose")
    monkeypatch.setattr(writer, "PING_S", 0.01)
    monkeypatch.setattr(writer, "RETRY_S", 0.01)
    store.append(project, some_entries(1)).result()  # the new intervals apply from here on
    postgres.end_connections(url)
    until(lambda: "is available again" in caplog.text)
    assert store.append(project, some_entries(1)).result(30).entries[0].seq == 2


def test_answers_are_written_between_batches_of_items(store, project, monkeypatch):
    monkeypatch.setattr("ocelad.service.store.item_table.MAX_BATCH_ROWS", 10)
    seen, futures, insert = [], [], item_table.ItemBatch.insert

    def insert_and_answer(batch, connection):
        insert(batch, connection)
        if len(futures) < 4:
            futures.append(store.append(project, some_entries(1)))

    store.listen(lambda name, entries: seen.append((store.project(project).n_items, len(store.projects()))))
    monkeypatch.setattr(item_table.ItemBatch, "insert", insert_and_answer)
    assert store.add_items(project, some_items(45, "more ")) == N_ITEMS + 45
    wait(futures)
    assert seen == [(N_ITEMS, 1)] * 4  # no new item was visible yet
    futures.clear(), seen.clear()
    store.create_project("new", "", some_items(45), {}, "")
    wait(futures)
    assert seen == [(N_ITEMS + 45, 1)] * 4
    assert store.items("new").features.tobytes() == some_items(45).features.tobytes()
    assert store.items(project).ids == some_items().ids + some_items(45, "more ").ids


def test_batches_of_items_are_bounded_in_bytes_as_well(monkeypatch):
    monkeypatch.setattr("ocelad.service.store.item_table.MAX_BATCH_BYTES", 1000)
    items = some_items(8, display="picture", pictures=[b"x" * 400] * 7 + [b"y" * 5000])
    batches = list(item_table.split_items(1, items.metadata(), 0, items))
    assert [len(batch.rows) for batch in batches] == [2, 2, 2, 1, 1]
    assert [row for batch in batches for row in batch.picture_rows] == [
        (1, i, png, None) for i, png in enumerate(items.pictures)
    ]


def test_an_interrupted_upload_is_invisible_and_can_be_repeated(tmp_path, url, monkeypatch):
    monkeypatch.setattr("ocelad.service.store.item_table.MAX_BATCH_ROWS", 2)
    folder = tmp_path / "data"
    more = some_items(6, "more ", display="picture", pictures=[b"new"] * 6)
    with Store.open(folder, url) as store:
        store.create_project("it", "", some_items(display="picture", pictures=[b"png"] * N_ITEMS), {}, "")
        # The clean-up after the failure fails, too.
        monkeypatch.setattr(Store, "_run", failing_after(3, Store._run))
        for add in (lambda: store.add_items("it", more), lambda: store.create_project("new", "", more, {}, "")):
            with pytest.raises(StoreUnavailable, match="power cut"):
                add()
            assert [row.n_items for row in store.projects()] == [N_ITEMS]
            assert len(store.items("it")) == len(store.items("it").pictures) == N_ITEMS
            assert store.picture("it", N_ITEMS) is None
        monkeypatch.undo()
    with Store.open(folder, url) as store:
        database = Database(folder, url)
        with database.read_connection() as connection:
            rows = {name: connection.scalar(text(f"SELECT count(*) FROM {name}")) for name in ("items", "pictures")}
        database.dispose()
        assert rows == {"items": N_ITEMS, "pictures": N_ITEMS}
        assert store.create_project("new", "", more, {}, "").n_items == 6
        assert store.add_items("it", more) == N_ITEMS + 6
        assert list(store.items("it").pictures) == [b"png"] * N_ITEMS + [b"new"] * 6


def failing_after(n_tasks, run):
    """Return ``run`` with failures: after every ``n_tasks`` tasks the next one and the clean-up fail."""
    done = count()

    def fail(store, task):
        if next(done) % (n_tasks + 2) >= n_tasks:
            raise StoreUnavailable("power cut")
        return run(store, task)

    return fail


def test_a_duplicate_in_the_last_batch_rejects_all_items(store, project, monkeypatch):
    monkeypatch.setattr("ocelad.service.store.item_table.MAX_BATCH_ROWS", 2)
    more = some_items(6, "more ")
    known = ItemSet((*more.ids[:5], "item 0"), more.features, more.feature_names, more.scaling)
    with pytest.raises(DuplicateItem, match="'item 0'"):
        store.add_items(project, known)
    assert store.add_items(project, more) == N_ITEMS + 6


def test_a_commit_whose_confirmation_was_lost_is_recognized(store, project, monkeypatch):
    def losing(connection):
        raise OSError("the confirmation was lost")

    def lost_once(batch, connection):
        last(batch, connection)
        monkeypatch.setattr(
            store._writer, "_load_projects", lambda connection: (monkeypatch.undo(), losing(connection))
        )

    last = item_table.ItemBatch.insert_last
    monkeypatch.setattr(item_table.ItemBatch, "insert_last", lost_once)
    assert store.add_items(project, some_items(3, "more ")) == N_ITEMS + 3
    monkeypatch.setattr(item_table.ItemBatch, "insert_last", lost_once)
    assert store.create_project("new", "", some_items(), {}, "").n_items == N_ITEMS
    assert store.failure is None


def test_sqlite_waits_for_the_disk(tmp_path):
    """Also on macOS, where an ordinary fsync does not."""
    names = ("journal_mode", "synchronous", "fullfsync")
    with Store.open(tmp_path) as store:
        for engine in (store._database.writers, store._database.readers):
            with engine.connect() as connection:
                assert [connection.scalar(text(f"PRAGMA {name}")) for name in names] == ["wal", 2, 1]


def test_each_level_of_a_new_folder_is_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("ocelad.service.store.durable_files.fsync_folder", synced.append)
    make_folder(tmp_path / "a" / "b" / "c")
    assert set(synced) == {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}


def test_a_project_without_items_is_rejected(store):
    with pytest.raises(InvalidRequest, match="accepted: at least one"):
        store.create_project("none", "", some_items(0), {}, "")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_texts_have_exactly_the_accepted_lengths(store):
    for value, is_accepted in (("", True), ("x" * 200, True), ("x" * 201, False), ("\ud7ff\ue000", True)):
        for minimum in (0, 1):
            if is_accepted and len(value) >= minimum:
                assert check_text(value, "it", min_length=minimum) == value
            else:
                with pytest.raises(InvalidRequest, match=f"accepted: {minimum} to 200 characters"):
                    check_text(value, "it", min_length=minimum)
    for value in ("\0", "a\ud800", "\udfff", None, 7):
        with pytest.raises(InvalidRequest, match="accepted: 0 to 500 characters"):
            check_text(value, "it", max_length=500)
    store.create_project("x" * 64, "t" * 500, some_items(), {}, "")
    for id, title in (("x" * 65, ""), ("", ""), ("y", "t" * 501)):
        with pytest.raises(InvalidRequest, match="accepted: "):
            store.create_project(id, title, some_items(), {}, "")


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_tasks_and_requests_of_a_batch_are_written_in_their_order(store, project):
    """A task sees the entries that were queued before it, and none that were queued after it."""

    def count_entries(connection):
        return connection.execute(text("SELECT count(*) FROM entries")).scalar_one()

    tasks = [writer.WriteTask(count_entries) for _ in range(3)]
    with one_batch(store):
        store._writer.submit(tasks[0])
        first = store.append(project, some_entries(2))
        store._writer.submit(tasks[1])
        second = store.append(project, some_entries(3))
        third = store.append(project, some_entries(1))
        store._writer.submit(tasks[2])
    before = tasks[0].future.result(30)
    assert [task.future.result(30) - before for task in tasks] == [0, 2, 6]
    assert [len(future.result(30).entries) for future in (first, second, third)] == [2, 3, 1]
