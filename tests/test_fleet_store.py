"""FleetStore and the file of a fleet: kills at chosen points, full disks, damage, and what memory holds."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest
from fleet_streams import keyed_stream, learned, learned_at_once

from ocelad.fleet import Fleet
from ocelad.fleet import fleet as fleet_module
from ocelad.fleet.fleet_store import FleetDamaged, FleetStore, StoredState
from ocelad.fleet.held_states import HeldStates
from ocelad.fleet.stream_learner import StreamLearner

STREAM = keyed_stream(1200, 60, seed=3)
CALL = 40
KILLED = 17


@pytest.fixture(scope="module")
def at_once():
    return learned_at_once(STREAM)


def learn_rest(fleet, last=1200):
    """Learn the rest of the stream up to a position in calls whose note is the position after them."""
    while fleet.n_answers < last:
        first = fleet.n_answers
        end = min(last, first + CALL)
        fleet.learn(*STREAM.part(first, end), note=str(end))
    return fleet


# Kills.


def run_until_killed(path, prepare, **settings):
    """Learn the stream in a forked process that ``prepare`` lets end; return the number of acknowledged answers."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            fleet = Fleet(path=path, **settings)
            prepare()
            while fleet.n_answers < len(STREAM):
                learn_rest(fleet, min(len(STREAM), fleet.n_answers + CALL))
                os.write(writing, b"%d\n" % fleet.n_answers)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as lines:
        acknowledged = [int(line) for line in lines]
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == KILLED, "the process ended before the kill"
    return acknowledged[-1] if acknowledged else 0


def ending(method, count, after=False):
    """Return a method that ends the process at a call, or after it."""
    n_calls = iter(range(1, 10**6))

    def counted(*arguments, **named):
        is_last = next(n_calls) == count
        if is_last and not after:
            os._exit(KILLED)
        result = method(*arguments, **named)
        if is_last:
            os._exit(KILLED)
        return result

    return counted


def assert_completes(path, acknowledged, at_once, **settings):
    """A killed fleet must have all acknowledged answers with their note, and learn the rest to the same bits."""
    with Fleet(path=path, durable=True, **settings) as fleet:
        assert acknowledged <= fleet.n_answers <= acknowledged + CALL
        assert fleet.note == (str(fleet.n_answers) if fleet.n_answers else "")
        assert learned(learn_rest(fleet)) == at_once


fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
threads_may_run = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@fork
@threads_may_run
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3, 8, 20, 21, 40, 41])
def test_a_kill_at_a_commit(tmp_path, at_once, at, after):
    """The commits are those of the journal and of the states that leave the memory, one after the other."""

    def prepare():
        FleetStore._commit = ending(FleetStore._commit, at, after)

    acknowledged = run_until_killed(tmp_path / "fleet", prepare, durable=True, memory=20_000)
    assert_completes(tmp_path / "fleet", acknowledged, at_once, memory=20_000)


@fork
@threads_may_run
@pytest.mark.parametrize("name", ["learn", "_learn_part", "_teach_prior"])
def test_a_kill_between_the_journal_and_learning(tmp_path, at_once, name):
    def prepare():
        setattr(StreamLearner, name, ending(getattr(StreamLearner, name), 12))

    acknowledged = run_until_killed(tmp_path / "fleet", prepare, durable=True, memory=0)
    assert acknowledged > 0
    assert_completes(tmp_path / "fleet", acknowledged, at_once, memory=0)


@fork
@threads_may_run
@pytest.mark.parametrize("after_renewal", [1, 60, 200])
@pytest.mark.parametrize("renewal", [512, 1024])
def test_a_kill_after_a_renewal_of_the_prior(tmp_path, at_once, renewal, after_renewal):
    """The renewed prior was weighted by the states of that time; learning again must not use later ones."""

    def prepare():
        evict, n_answers = HeldStates.evict, -(-(renewal + min(after_renewal, 1200 - renewal)) // CALL) * CALL

        def evict_and_end(states):
            evict(states)
            if max(state.through for state in states._store().read_states([STREAM.keys[0]]).values()) >= n_answers:
                os._exit(KILLED)

        HeldStates.evict = evict_and_end

    acknowledged = run_until_killed(tmp_path / "fleet", prepare, durable=True, memory=0)
    assert acknowledged >= renewal - CALL
    assert_completes(tmp_path / "fleet", acknowledged, at_once, memory=0)


@fork
@threads_may_run
def test_a_kill_between_the_answers_and_their_note(tmp_path, at_once):
    def prepare():
        FleetStore.write_meta = ending(FleetStore.write_meta, 2)

    acknowledged = run_until_killed(tmp_path / "fleet", prepare, durable=True)
    assert_completes(tmp_path / "fleet", acknowledged, at_once)


FORKING = """
import gc, os, signal, sys
from fleet_streams import keyed_stream
from ocelad.fleet import Fleet

path, in_child = sys.argv[1:]
stream = keyed_stream(200, 10, seed=3)
fleet = Fleet(path=path, durable=True).learn(*stream.part(0, 100))
if pid := os.fork():
    os.waitpid(pid, 0)
    fleet.learn(*stream.part(100))
    print(fleet.n_answers, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
if in_child == "close":
    fleet.close()
if in_child == "drop":
    del fleet
    gc.collect()
sys.exit()
"""


@fork
@pytest.mark.parametrize("in_child", ["exit", "close", "drop"])
def test_a_forked_process_that_ends_leaves_the_log(tmp_path, in_child):
    """Python closes everything when it ends, and SQLite removes the log with the last connection."""
    path = tmp_path / "fleet"
    ended = subprocess.run(
        [sys.executable, "-c", FORKING, path, in_child],
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "200\n"), ended.stderr
    with Fleet(path=path) as fleet:
        assert fleet.n_answers == 200


@fork
@threads_may_run
def test_a_killed_fleet_that_is_not_durable_has_what_was_saved(tmp_path, at_once):
    """States that have left the memory since then are not in the file: it has no journal to complete them."""
    path = tmp_path / "fleet"
    with Fleet(path=path) as fleet:
        saved = learned(learn_rest(fleet, 400))

    def prepare():
        HeldStates.evict = ending(HeldStates.evict, 30, after=True)

    assert run_until_killed(path, prepare, memory=0) > 400
    with Fleet(path=path) as fleet:
        assert learned(fleet) == saved
        assert fleet.note == "400"
        assert learned(learn_rest(fleet)) == at_once


def test_everything_is_synchronized_with_the_disk(tmp_path):
    store = FleetStore(tmp_path / "fleet", "each call")
    settings = {name: store._execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "fullfsync")}
    assert settings == {"synchronous": 2, "fullfsync": 1}
    store.close()


# Full disks.


class FullDisk(OSError):
    pass


@pytest.fixture
def full_disk(monkeypatch):
    """Return a dict whose "is_full" says whether states can be written."""
    disk, write = {"is_full": False}, FleetStore.write_states

    def write_states(store, states, meta):
        if disk["is_full"]:
            raise FullDisk("cannot write the states (database or disk is full)")
        write(store, states, meta)

    monkeypatch.setattr(FleetStore, "write_states", write_states)
    return disk


@pytest.mark.parametrize("settings", [{"durable": True, "path": "fleet"}, {"path": "fleet"}, {}])
def test_a_full_disk_stops_neither_learning_nor_reading(tmp_path, monkeypatch, full_disk, at_once, settings):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fleet_module, "_JOURNAL_BYTES", 5000)
    monkeypatch.setattr(fleet_module, "_UNSAVED_BYTES", 5000)
    fleet = learn_rest(Fleet(memory=20_000, **settings), 400)
    full_disk["is_full"] = True
    with pytest.warns(RuntimeWarning, match=r"disk is full\)\. Nothing is lost: states stay in memory") as warned:
        learn_rest(fleet, 1100)
    assert len(warned) == 1, "one warning is enough"
    assert fleet.n_answers == 1100
    assert np.isfinite(fleet.probability(STREAM.keys, STREAM.pairs)).all()
    assert {fleet.summary(key).n_answers > 0 for key in fleet} == {True}
    assert fleet._states.n_bytes > 20_000
    full_disk["is_full"] = False
    assert learned(learn_rest(fleet)) == at_once
    assert fleet._states.n_bytes <= 20_000
    fleet.close()
    if settings:
        with Fleet(**settings) as fleet:
            assert learned(fleet) == at_once


def test_a_durable_fleet_on_a_full_disk_is_complete_after_closing(tmp_path, monkeypatch, full_disk, at_once):
    path = tmp_path / "fleet"
    fleet = learn_rest(Fleet(memory=20_000, path=path, durable=True), 400)
    full_disk["is_full"] = True
    with pytest.warns(RuntimeWarning, match="Nothing is lost: states stay in memory"):
        learn_rest(fleet)
    with pytest.warns(RuntimeWarning, match="Nothing is lost: the next opening learns from the answers in the journal"):
        fleet.close()
    assert repr(fleet) == "Fleet(closed)"
    with pytest.warns(RuntimeWarning, match="Nothing is lost"):
        fleet = Fleet(path=path, durable=True, memory=20_000)
    assert learned(fleet) == at_once
    with pytest.raises(OSError, match="disk is full"):
        fleet.save()
    full_disk["is_full"] = False
    fleet.close()


@pytest.mark.parametrize("error", [OSError("the disk is full"), KeyboardInterrupt()])
def test_a_fleet_that_cannot_be_saved_stays_open(tmp_path, monkeypatch, at_once, error):
    path = tmp_path / "fleet"
    fleet = learn_rest(Fleet(path=path, memory=20_000))

    def fails(store, states, meta):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(FleetStore, "write_states", fails)
        with pytest.raises(type(error)), fleet:
            pass
        assert fleet.n_answers == len(STREAM)
        with pytest.raises(type(error)):
            fleet.close()
    fleet.close()
    with Fleet(path=path) as fleet:
        assert learned(fleet) == at_once


def test_states_that_the_disk_has_leave_the_memory_while_it_is_full(tmp_path, full_disk):
    fleet = learn_rest(Fleet(memory=20_000, path=tmp_path / "fleet", durable=True), 800)
    fleet.save()
    full_disk["is_full"] = True
    with pytest.warns(RuntimeWarning, match="Nothing is lost"):
        learn_rest(fleet, 1000)
    n_bytes = []
    for _ in range(3):
        fleet.probability(STREAM.keys, STREAM.pairs)
        n_bytes.append(fleet._states.n_bytes)
    assert n_bytes[0] == n_bytes[1] == n_bytes[2], "reading must not fill the memory"
    full_disk["is_full"] = False
    fleet.close()


def allow_pages(fleet, count):
    """Let the file grow by this many pages: more is a full disk to SQLite."""
    execute = fleet._states.store._connection.execute
    execute(f"PRAGMA max_page_count = {execute('PRAGMA page_count').fetchone()[0] + count}")


def test_answers_that_cannot_be_stored_are_not_learned(tmp_path, at_once):
    path = tmp_path / "fleet"
    fleet = learn_rest(Fleet(path=path, durable=True), 200)
    allow_pages(fleet, 0)
    part = STREAM.part(200, 600)
    with pytest.raises(OSError, match=r"cannot write '.*fleet' \(database or disk is full\)"):
        fleet.learn(*part, note="600")
    assert (fleet.n_answers, fleet.note) == (200, "200")
    assert np.isfinite(fleet.probability(part.keys, part.pairs)).all()
    assert learned(fleet) == learned_at_once(STREAM.part(0, 200))
    with pytest.raises(OSError, match="disk is full"):
        fleet.learn(*part, note="600")
    allow_pages(fleet, 10**6)
    assert learned(learn_rest(fleet)) == at_once
    fleet.close()
    with Fleet(path=path) as fleet:
        assert learned(fleet) == at_once


def test_a_disk_that_is_full_between_the_journal_and_the_states(tmp_path, at_once):
    """SQLite itself finds the disk full: the journal of small calls fits, many states do not."""
    path = tmp_path / "fleet"
    fleet = learn_rest(Fleet(path=path, durable=True, memory=20_000), 400)
    n_known = fleet.n_answers
    allow_pages(fleet, 4)
    with pytest.warns(RuntimeWarning) as warned, pytest.raises(OSError, match="disk is full"):
        learn_rest(fleet)
    assert len(warned) == 1, "the states did not fit, the answers did"
    assert fleet.n_answers > n_known
    assert fleet.note == str(fleet.n_answers)
    assert learned(fleet) == learned_at_once(STREAM.part(0, fleet.n_answers))
    allow_pages(fleet, 10**6)
    assert learned(learn_rest(fleet)) == at_once
    fleet.close()


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="needs /proc")
def test_only_the_beginnings_of_states_are_read_for_their_sizes(tmp_path):
    store = FleetStore(tmp_path / "fleet", "commit")
    with store.checkpoint():
        write(store, *(state_of(serial, n_bytes=100_000) for serial in range(100)), state_of(100, n_bytes=3))
    store.close()
    store = FleetStore(tmp_path / "fleet", "commit")
    before = n_bytes_read()
    heads = sorted(store.heads(16), key=lambda head: head.serial)
    assert n_bytes_read() - before < 3_000_000
    assert heads == [(f"k{at}", at, b"x" * 16, 100_000) for at in range(100)] + [("k100", 100, b"xxx", 3)]
    store.close()


def n_bytes_read():
    with open("/proc/self/io") as counts:
        return int(counts.readline().removeprefix("rchar: "))


# Transactions.


def state_of(serial, key="k", n_bytes=10, content=b"x"):
    return StoredState(f"{key}{serial}", serial, serial + 1, content * n_bytes)


def write(store, *states):
    store.write_states(list(states), {})


def keys_of(path):
    store = FleetStore(path, "each call")
    try:
        assert store.n_states() == len(store.serials())
        return set(store.serials())
    finally:
        store.close()


def test_an_error_undoes_only_its_own_block(tmp_path, monkeypatch):
    """Without durability all changes up to the next checkpoint are one transaction."""
    store = FleetStore(tmp_path / "fleet", "commit")
    write(store, state_of(1))
    with monkeypatch.context() as patch:
        patch.setattr(store, "_execute_many", lambda *arguments: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            write(store, state_of(2))
    write(store, state_of(3))
    assert set(store.serials()) == {"k1", "k3"}
    with store.checkpoint():
        pass
    store.close()
    assert keys_of(tmp_path / "fleet") == {"k1", "k3"}


def test_a_lost_transaction_is_an_error_of_all_later_calls(tmp_path):
    """Some errors of SQLite end the whole transaction: the states that had left the memory are lost."""
    store = FleetStore(tmp_path / "fleet", "commit")
    write(store, state_of(1))

    def states():
        store._connection.execute("ROLLBACK")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), store._writing():
        states()
    for use in (store.serials, store.check_intact, lambda: write(store, state_of(2))):
        with pytest.raises(OSError, match="what was learned since it was last saved is lost; open it again"):
            use()
    store.close()


def test_a_transaction_that_was_ended_between_two_calls_is_noticed(tmp_path):
    """SQLite ends a transaction when a read has to write its pages to a full disk."""
    store = FleetStore(tmp_path / "fleet", "commit")
    write(store, state_of(1))
    store._connection.execute("ROLLBACK")
    for _ in range(2):
        with pytest.raises(OSError, match="what was learned since it was last saved is lost; open it again"):
            write(store, state_of(2))
    store.close()


def test_a_fleet_whose_written_states_are_lost_says_so(tmp_path, monkeypatch):
    path = tmp_path / "fleet"
    with Fleet(path=path) as fleet:
        learn_rest(fleet, 200)
    fleet = learn_rest(Fleet(path=path, memory=20_000), 400)

    def fails(*arguments):
        fleet._states.store._connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(fleet._states.store, "_execute_many", fails)
    sentence = "what was learned since it was last saved is lost; open it again"
    with pytest.raises(OSError, match=sentence):
        learn_rest(fleet)
    for use in (lambda: fleet.n_answers, lambda: fleet.probability(STREAM.keys, STREAM.pairs), fleet.close):
        with pytest.raises(OSError, match=sentence):
            use()
    with Fleet(path=path) as fleet:
        assert (fleet.n_answers, fleet.note) == (200, "200")


class Interrupted:
    """A connection that is interrupted once, right after a statement."""

    def __init__(self, connection, statement):
        self.connection, self.statement = connection, statement

    def execute(self, statement, *values):
        result = self.connection.execute(statement, *values)
        if statement == self.statement:
            self.statement = None
            raise KeyboardInterrupt
        return result

    def __getattr__(self, name):
        return getattr(self.connection, name)


@pytest.mark.parametrize("durability", ["commit", "each call"])
def test_an_interruption_right_after_a_commit_loses_nothing(tmp_path, durability):
    store = FleetStore(tmp_path / "fleet", durability)
    store._connection = Interrupted(store._connection, "COMMIT")
    with pytest.raises(KeyboardInterrupt), store.checkpoint():
        write(store, state_of(1))
    write(store, state_of(2))
    with store.checkpoint():
        pass
    assert set(store.serials()) == {"k1", "k2"}
    store.close()


@pytest.mark.parametrize("durability", ["commit", "each call"])
@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "SAVEPOINT part", "RELEASE part"])
def test_an_interruption_right_after_another_statement_loses_nothing(tmp_path, durability, statement):
    store = FleetStore(tmp_path / "fleet", durability)
    if statement != "BEGIN IMMEDIATE":
        write(store, state_of(1))
    connection = store._connection
    for serial, interrupted in ((2, statement), (4, "SAVEPOINT part"), (6, "RELEASE part")):
        store._connection = Interrupted(connection, interrupted)
        with pytest.raises(KeyboardInterrupt):
            write(store, state_of(serial))
        write(store, state_of(serial + 1))
    store._connection = connection
    with store.checkpoint():
        write(store, state_of(8))
    store.close()
    # What was interrupted is not known to be written.
    certain = {"k3", "k5", "k7", "k8"} | ({"k1"} if statement != "BEGIN IMMEDIATE" else set())
    assert certain <= keys_of(tmp_path / "fleet") <= certain | {"k2", "k6"}


# Damage.


@pytest.fixture(scope="module")
def whole_file(tmp_path_factory):
    """A file with states of 500 answers, and a journal of further 120."""
    folder = tmp_path_factory.mktemp("whole")
    fleet = learn_rest(Fleet(path=folder / "fleet", durable=True, memory=20_000), 500)
    fleet.save()
    learn_rest(fleet, 620)
    fleet._states.store._execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(folder / "fleet", folder / "copy")
    fleet.close()
    return folder / "copy"


def read_all(path):
    fleet = Fleet(path=path)
    try:
        fleet.changes()
    finally:
        fleet._states.close()


def changed(whole_file, tmp_path, *statements):
    """Return a copy of a file after statements of SQL."""
    path = tmp_path / "fleet"
    shutil.copy(whole_file, path)
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return path


def test_the_unchanged_copy_continues(whole_file, tmp_path, at_once):
    with Fleet(path=changed(whole_file, tmp_path)) as fleet:
        assert (fleet.n_answers, fleet.note) == (620, "620")
        assert learned(learn_rest(fleet)) == at_once


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "UPDATE meta SET value = CAST(value || ' ' AS BLOB) WHERE name = 'settings'",
            "the settings does not match its checksum",
        ),
        (
            "UPDATE meta SET value = CAST('7' AS BLOB) WHERE name = 'n_answers'",
            "the n_answers does not match its checksum",
        ),
        ("DELETE FROM meta WHERE name = 'settings'", "it has no settings"),
        ("DELETE FROM meta WHERE name = 'n_answers'", "it has no n_answers"),
        ("DELETE FROM meta WHERE name = 'note'", "it has no note"),
        ("DELETE FROM meta WHERE name = 'shared'", "it has no shared"),
        ("DELETE FROM meta WHERE name = 'n_keys'", r"it has \d+ states for 0 keys"),
        ("DELETE FROM states WHERE key = 'key 4'", r"it has \d+ states for \d+ keys"),
        ("DELETE FROM states", r"it has 0 states for \d+ keys"),
        ("UPDATE states SET state = substr(state, 1, 50) WHERE key = 'key 1'", "the state of the key 'key 1' does not"),
        ("UPDATE states SET state = 'text' WHERE key = 'key 1'", "the state of the key 'key 1' does not match"),
        ("UPDATE states SET serial = 999 WHERE key = 'key 1'", "the state of the key 'key 1' does not match"),
        ("UPDATE states SET through = 999 WHERE key = 'key 1'", "the state of the key 'key 1' does not match"),
        ("UPDATE states SET key = 'other' WHERE key = 'key 1'", "the state of the key 'other' does not match"),
        ("UPDATE states SET key = '3' WHERE key = 3", "the state of the key '3' does not match"),
        (
            "UPDATE journal SET answers = CAST(answers || x'00' AS BLOB)",
            "the answers from 500 on does not match its checksum",
        ),
        ("DELETE FROM journal WHERE first = 500", "the answers from 500 to 540 are missing"),
        ("DELETE FROM journal WHERE first = 540", "the answers from 540 to 580 are missing"),
        (
            "PRAGMA user_version = 2",
            "has version 2 of the format, from a newer version of ocelad; this version reads 1",
        ),
        ("PRAGMA application_id = 0", "is another program's file; accepted: the file of a fleet"),
        ("DROP TABLE journal", "is damaged, or it is not the file of a fleet"),
    ],
)
def test_damage_is_found(whole_file, tmp_path, statement, sentence):
    path = changed(whole_file, tmp_path, statement)
    content = path.read_bytes()
    with pytest.raises(FleetDamaged, match=sentence) as found:
        read_all(path)
    assert "\n" not in str(found.value)
    assert str(path) in str(found.value)
    if "PRAGMA" in statement:
        assert path.read_bytes() == content, "the file may belong to another program"


@pytest.mark.parametrize("content", [b"", b"text" * 1000])
def test_other_files_are_refused_and_stay(tmp_path, content):
    path = tmp_path / "fleet"
    path.write_bytes(content)
    with pytest.raises(FleetDamaged, match="accepted: the file of a fleet"):
        Fleet(path=path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"form": "compact"}, "has a fleet of the form 'exact'; got form='compact'; accepted: the same form"),
        ({"shared": False}, "has a fleet with shared=True; accepted: the same prior"),
        ({"n_features": 3}, "has a fleet of 4 features; got n_features=3; accepted: 4, or None"),
    ],
)
def test_a_file_of_other_settings_is_refused(whole_file, tmp_path, settings, sentence):
    path = changed(whole_file, tmp_path)
    with pytest.raises(ValueError, match=sentence):
        Fleet(path=path, **settings)
    with Fleet(path=path) as fleet:
        assert fleet.n_answers == 620


def test_a_file_in_which_nobody_has_learned_has_settings(tmp_path):
    Fleet(path=tmp_path / "fleet", shared=False).close()
    with pytest.raises(ValueError, match="has a fleet with shared=False; accepted: the same prior"):
        Fleet(path=tmp_path / "fleet")


def test_the_number_of_features_is_stored_before_the_first_answers(tmp_path):
    path, copy = tmp_path / "fleet", tmp_path / "copy"
    Fleet(path=path).close()
    y = STREAM.y[:CALL] > 0  # booleans change no other setting
    fleet = Fleet(4, path=path, durable=True).learn(STREAM.keys[:CALL], STREAM.pairs[:CALL], y)
    fleet._states.store._execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(path, copy)  # what a kill would leave
    fleet.close()
    with Fleet.open(copy) as fleet:
        assert (fleet.n_features, fleet.n_answers) == (4, CALL)


def test_answers_without_a_number_of_features_are_damage(tmp_path):
    path = tmp_path / "fleet"
    Fleet(path=path).close()
    store = FleetStore(path, "each call")
    store.append([(0, b"answers")], {})
    store.close()
    for n_features in (None, 4):
        with pytest.raises(FleetDamaged, match="it has no number of features; accepted: a backup"):
            Fleet(n_features, path=path)


# States in memory.


class InterruptedAtLine:
    """Interrupts the program once, before the line of ``HeldStates`` that is the n-th to be computed."""

    def __init__(self, n):
        self.n_lines = n

    def __call__(self, frame, event, argument):
        return self.line if frame.f_code in CODES else None

    def line(self, frame, event, argument):
        self.n_lines -= event == "line"
        if self.n_lines == 0:
            raise KeyboardInterrupt
        return self.line


CODES = {getattr(HeldStates, name).__code__ for name in ("put", "get", "evict", "_set", "_count", "_mark_stored")}


def test_an_interruption_at_any_line_leaves_the_counts_right(monkeypatch):
    def until_done(call):
        try:
            call()
        except KeyboardInterrupt:
            call()

    def put(states, serial):
        states.get([f"k{serial}"])
        states.put(f"k{serial}", serial, through=10, state=b"x" * 400)

    n = 0
    tracing = sys.gettrace()
    while True:
        n += 1
        states = HeldStates(max_bytes=2000, store=None)
        for serial in range(4):
            states.put(f"k{serial}", serial, through=serial + 1, state=b"x" * 300)
        sys.settrace(interrupted := InterruptedAtLine(n))
        try:
            until_done(states.evict)
            for serial in (0, 3, 4):  # on the disk, in memory, and new
                until_done(lambda serial=serial, states=states: put(states, serial))
        finally:
            sys.settrace(tracing)
        assert len(states) == len(states.keys()) == 5
        states.evict()
        held = states._held
        assert states.n_bytes == sum(402 + len(state.state) for state in held.values())
        lacking = [state for state in held.values() if state.stored != state.through]
        assert states.unstored_bytes == sum(402 + len(state.state) for state in lacking)
        states.close()
        if interrupted.n_lines > 0:
            break
    assert n > 50


def test_the_least_recently_used_state_leaves():
    states = HeldStates(max_bytes=7500, store=None)
    for serial, key in enumerate("abcdefghij"):  # a state of 300 bytes takes 701 with its key
        states.put(key, serial, through=serial + 1, state=bytes(300))
    states.get(["a"])
    states.put("b", 1, through=11, state=bytes(300))
    states.put("k", 10, through=12, state=bytes(300))
    states.evict()  # to 90 % of the memory
    assert list(states._held) == [*"efghij", "a", "b", "k"]
    assert [held.serial for held in states.get(["c", "a", "d"])] == [2, 0, 3]
    assert [held.through for held in states.get(["c", "b"])] == [3, 11]
    assert len(states) == 11
    states.close()
