"""The chain of a log: a changed database is noticed, and erasure keeps the chain."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import some_items

from ocelad.cli import cli
from ocelad.service.entries import Entry, NewEntry, NewUndo
from ocelad.service.store import Store
from ocelad.service.store.log_chain import EMPTY_CHAIN, entry_digest, next_chain
from ocelad.service.store.log_check import verify_chain, verify_logs

SALTS = {"anna": b"salt of anna", "ben": b"salt of ben"}


def chained(log):
    chain, found = EMPTY_CHAIN, []
    for each in log:
        chain = next_chain(chain, entry_digest(each, SALTS[each.person]))
        found.append(replace(each, chain=chain))
    return found


def some_log(n=12):
    people = ("anna", "ben")
    return chained(
        [Entry(i, i, "same" if i % 3 else "skip", i, i + 1, "given", people[i % 2]) for i in range(1, n + 1)]
    )


def erased(log, person):
    """Erase a person as the store does."""
    gone = [
        replace(each, kind="erased", left=0, right=0, person="", at=0, erased=entry_digest(each, SALTS[each.person]))
        if each.person == person
        else each
        for each in log
    ]
    record = Entry(len(log) + 1, 99, "erase", 0, 0, "given", "ben")
    return [*gone, replace(record, chain=next_chain(log[-1].chain, entry_digest(record, SALTS["ben"])))]


def test_a_log_holds_before_and_after_an_erasure():
    log = some_log()
    assert verify_chain(log, SALTS) == verify_chain(iter(log), SALTS)
    assert (verify_chain(log, SALTS).n_entries, verify_chain(log, SALTS).broken_at) == (12, None)
    check = verify_chain(erased(log, "anna"), {"ben": SALTS["ben"]})
    assert (check.n_entries, check.n_erased, check.broken_at) == (13, 6, None)
    assert verify_chain([], {}).broken_at is None


@given(
    at=st.integers(0, 11),
    change=st.sampled_from(
        [
            {"kind": "different"},
            {"left": 77},
            {"right": 77},
            {"person": "ben!"},
            {"source": "random"},
            {"at": 77},
            {"bundle": 1},
            {"undoes": 1},
            {"name": "x"},
            {"chain": bytes(32)},
            {"kind": "erased"},
            {"kind": "erased", "erased": bytes(32)},
            {"erased": bytes(32)},
        ]
    ),
    after_erasure=st.booleans(),
)
@settings(deadline=None)
def test_any_change_is_noticed(at, change, after_erasure):
    log = erased(some_log(), "anna") if after_erasure else some_log()
    if log[at].erased is not None and not {"chain", "erased", "name"} & set(change):
        return  # the content of an erased entry is gone, and what is in its place is not looked at
    log[at] = replace(log[at], **change)
    check = verify_chain(log, SALTS)
    assert check.broken_at == at + 1, check


def test_missing_moved_and_inserted_entries_are_noticed():
    log = some_log()
    assert verify_chain(log[:5] + log[6:], SALTS).broken_at == 6
    assert verify_chain(log[1:], SALTS).broken_at == 1
    moved = [*log[:4], replace(log[5], seq=5), replace(log[4], seq=6), *log[6:]]
    assert verify_chain(moved, SALTS).broken_at == 5
    inserted = [*log[:4], log[3], *(replace(each, seq=each.seq + 1) for each in log[4:])]
    assert verify_chain(inserted, SALTS).broken_at == 5


def test_content_cannot_be_removed_without_a_record():
    log = some_log()
    hidden = erased(log, "anna")[:-1]
    assert verify_chain(hidden, SALTS).broken_at == 2
    assert "records" in verify_chain(hidden, SALTS).reason


@pytest.fixture
def folder(tmp_path):
    with Store.open(tmp_path / "data") as store:
        store.create_project("some", "Some items", some_items(12), {}, "")
        store.create_project("more", "More items", some_items(12), {}, "")
        for i in range(1, 8):
            store.append("some", [NewEntry(0, i, "same")], "anna").result(20)
            store.append("some", [NewEntry(0, i, "different")], "ben").result(20)
        store.append("some", [NewUndo(2, "review"), NewEntry(0, 1, "same", "review")], "rex", origin=["x"]).result(20)
        store.undo("some", 3, "anna").result(20)
    return tmp_path / "data"


def run(folder, *more):
    result = CliRunner().invoke(cli, ["verify", "--data-folder", str(folder), *more])
    return result.exit_code, result.output


def test_the_command_checks_all_logs_before_and_after_an_erasure(folder):
    assert run(folder) == (0, "some: all 17 entries hold (0 erased).\nmore: all 0 entries hold (0 erased).\n")
    with Store.open(folder) as store:
        store.erase_person("some", "anna", "rex")
        assert run(folder)[0] == 0  # while a service runs
        store.append("some", [NewEntry(0, 9, "same")], "anna").result(20)
        store.erase_person("some", "anna", "anna")
        store.erase_person("some", "rex", "")
    code, output = run(folder, "--json")
    checks = [json.loads(line) for line in output.splitlines()]
    assert code == 0
    assert checks[0] == {
        "project": "some", "holds": True, "entries": 21, "erased": 12, "broken_at": None, "reason": None
    }  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "broken_at"),
    [
        ("UPDATE entries SET kind = 'different' WHERE seq = 5", 5),
        ("UPDATE entries SET who = 'ben' WHERE seq = 5", 5),
        ("DELETE FROM entries WHERE seq = 6", 6),
        ("DELETE FROM people WHERE who = 'ben'", 2),
        ("UPDATE entries SET kind = 'erased', erased = x'00', left_item = 0, right_item = 0 WHERE seq = 5", 5),
    ],
)
def test_the_command_notices_a_changed_database(folder, statement, broken_at):
    connection = sqlite3.connect(next(folder.glob("*.sqlite3")))
    connection.execute(statement)
    connection.commit()
    connection.close()
    code, output = run(folder)
    assert code == 1
    assert f"some: entry {broken_at} does not hold" in output
    assert "more: all 0 entries hold" in output
    assert dict(verify_logs(folder))["some"].broken_at == broken_at


def test_a_folder_that_does_not_exist_is_not_created(tmp_path):
    code, output = run(tmp_path / "none")
    assert code == 2
    assert "there is no data folder" in output
    assert not (tmp_path / "none").exists()
