"""Trackers on a real Spark with two cores: what is learned is what one machine learns, bit for bit."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import spark_cases
from fleet_streams import KeyedStream
from spark_cases import COLUMNS, N_FEATURES, N_FILES, PRIOR, SCHEMA, answers, read_files, rows_of, run, stored_states

from ocelad import Metric
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.fleet import Fleet
from ocelad.fleet.packed_trackers import PackedTrackers
from ocelad.fleet.stored_tracker import StoredTracker
from ocelad.spark import (
    check_session,
    distance,
    embed,
    latest,
    probability,
    processor,
    refused_rows,
    track_stream,
    track_table,
)
from ocelad.spark.session import ARROW_ROWS, find_java

needs = [name for name, found in (("pyspark", find_spec("pyspark")), ("Java", find_java())) if not found]
if not needs:
    from pyspark.sql import functions as F  # noqa: N812  Spark's own name

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(bool(needs), reason=f"{' and '.join(needs)} missing: make .venv/.spark installs it"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

TABLE = answers()
TIMED = {**COLUMNS, "event_time": "at", "id": "n"}
TESTS = Path(__file__).parent


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    session = spark_cases.start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    spark_cases.write_files(folder, TABLE)
    return folder


@pytest.fixture(scope="session")
def uninterrupted(spark, files, tmp_path_factory):
    """Return the folder of a query that has read all files."""
    from spark_stream_job import rounds_of

    folder = tmp_path_factory.mktemp("uninterrupted")
    run(rounds_of(spark, files), folder / "checkpoint", folder / "rounds")
    return folder


def table_of(spark, folder):
    return spark.read.schema(SCHEMA).parquet(str(folder))


def states_of(rows):
    """Return the trackers of a table by key."""
    found = {row["user"]: tracker_in(row) for row in rows.collect()}
    assert len(found) == rows.count()
    return found


def tracker_in(row):
    return StoredTracker.from_bytes(bytes(row["state"])).tracker


def of_stream(table=TABLE):
    """Return a table as a stream of a fleet."""
    pairs = np.stack([table["x"], table["z"]], axis=1).astype(float)
    return KeyedStream(table["user"], pairs, np.array(table["same"]))


def packed_states(table, prior=None):
    """Return what each key of a table learns by itself."""
    stream, packed = of_stream(table), PackedTrackers(N_FEATURES, priors=[] if prior is None else [prior])
    states = {}
    for key in dict.fromkeys(stream.keys):
        mine = np.array(stream.keys) == key
        U = stream.pairs[mine, 0] - stream.pairs[mine, 1]
        states[key] = packed.learn_one(None, U, stream.y[mine].astype(float))
    return states


def trackers_in(checkpoint_states):
    return {key: StoredTracker.from_bytes(state).tracker for key, state in checkpoint_states.items()}


# What is learned.


def test_the_state_is_that_of_one_machine(spark, uninterrupted):
    stored = stored_states(spark, uninterrupted / "checkpoint")
    trackers = trackers_in(stored)
    assert trackers == packed_states(TABLE, PRIOR)
    with Fleet(shared=PRIOR) as fleet:
        fleet.learn(*of_stream())
        assert trackers == {key: fleet.state(key) for key in fleet}
        assert (
            max(fleet.summary(key).n_answers for key in fleet)
            > 128
            > min(fleet.summary(key).n_answers for key in fleet)
        )
        rounds = spark.read.parquet(str(uninterrupted / "rounds"))
        last = {row["user"]: row for row in latest(rounds, key="user").collect()}
        for key in fleet:
            assert last[key]["n_answers"] == fleet.summary(key).n_answers
            assert last[key]["drift"] == fleet.summary(key).drift
            assert last[key]["n_changes"] == len(fleet.summary(key).changes)
            assert bytes(last[key]["state"]) == stored[key]
    assert sum(row["n_new"] for row in rounds.collect()) == len(TABLE["user"])


def test_a_killed_driver_goes_on_from_its_checkpoint(spark, files, uninterrupted, tmp_path):
    """SIGKILL of the driver, its JVM and its workers within a micro-batch; then the query is started again."""
    from spark_stream_job import rounds_of

    checkpoint, output, log = tmp_path / "checkpoint", tmp_path / "rounds", tmp_path / "log"
    for stop_at in (2, 4):
        with log.open("ab") as stderr:
            driver = subprocess.Popen(
                [sys.executable, TESTS / "spark_stream_job.py", files, checkpoint, output],
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )
        end = time.monotonic() + 120
        while not (checkpoint / "offsets" / str(stop_at)).exists():  # written when the micro-batch begins
            assert driver.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.002)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        assert not (checkpoint / "commits" / str(stop_at)).exists()
        assert (checkpoint / "commits" / str(stop_at - 1)).exists()
    run(rounds_of(spark, files), checkpoint, output)
    assert (checkpoint / "commits" / str(N_FILES - 1)).exists()
    assert stored_states(spark, checkpoint) == stored_states(spark, uninterrupted / "checkpoint")
    rounds, expected = (spark.read.parquet(str(folder / "rounds")) for folder in (tmp_path, uninterrupted))
    assert sorted(map(tuple, rounds.collect())) == sorted(map(tuple, expected.collect()))


def test_a_table_at_rest_learns_what_a_stream_learns(spark, files, uninterrupted):
    rows = track_table(table_of(spark, files), **TIMED, prior=PRIOR)
    rounds = spark.read.parquet(str(uninterrupted / "rounds"))
    assert states_of(rows) == states_of(latest(rounds, key="user"))
    without = track_table(table_of(spark, files), **TIMED, prior=PRIOR, with_state=False)
    assert without.columns == [name for name in rows.columns if name != "state"]
    assert {tuple(row) for row in without.collect()} == {tuple(row)[:-1] for row in rows.collect()}


def test_blocks_of_keys_do_not_matter(spark, tmp_path):
    """More keys than fit into one block, in columns of other types: several key columns, numeric columns, booleans."""
    rng, n_rows = np.random.default_rng(1), 12_000
    keys = rng.integers(0, 5_000, n_rows)
    x, z = rng.normal(size=(2, n_rows, N_FEATURES))
    columns = {f"x{at}": x[:, at].tolist() for at in range(3)} | {f"z {at}.": z[:, at].tolist() for at in range(3)}
    same = (np.abs(x - z)[:, 0] < 1.0).tolist()
    rows = zip((keys // 10).tolist(), (keys % 10).tolist(), same, range(n_rows), *columns.values(), strict=True)
    df = spark.createDataFrame(list(rows), ["site", "user id", "same", "n", *columns]).repartition(3)
    sides = {"left": [f"x{at}" for at in range(3)], "right": [f"z {at}." for at in range(3)]}
    found = track_table(df, key=["site", "user id"], **sides, same="same", id="n").collect()
    packed = PackedTrackers(N_FEATURES)
    order = np.argsort(keys, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(keys[order])) + 1, n_rows)
    states = packed.learn([None] * len(ends), (x - z)[order], np.where(same, 1.0, -1.0)[order], ends)
    names = keys[order][ends - 1].tolist()
    assert {row["site"] * 10 + row["user id"]: tracker_in(row) for row in found} == dict(
        zip(names, states, strict=True)
    )


def test_compact_form(spark, files):
    states = states_of(track_table(table_of(spark, files), **TIMED, form="compact"))
    packed, stream = PackedTrackers(N_FEATURES, form="compact"), of_stream()
    for key, state in states.items():
        mine = np.array(stream.keys) == key
        U = stream.pairs[mine, 0] - stream.pairs[mine, 1]
        assert state == packed.learn_one(None, U, stream.y[mine].astype(float))


# Repeated rows, late rows, bad rows.


def test_repeated_rows_are_learned_once(spark, tmp_path):
    table = rows_of(TABLE, range(300))
    for at, rows in enumerate(([*range(100), *range(50)], [*range(80, 200)], [*range(300)])):
        spark_cases.write_file(tmp_path / "files", at, rows_of(table, rows))
    rounds = track_stream(read_files(spark, tmp_path / "files"), **COLUMNS, id="n")
    run(rounds, tmp_path / "checkpoint", tmp_path / "rounds")
    assert trackers_in(stored_states(spark, tmp_path / "checkpoint")) == packed_states(table)
    counts = spark.read.parquet(str(tmp_path / "rounds")).groupBy().sum("n_new", "n_skipped").first()
    assert tuple(counts) == (300, 50 + 20 + 200)


@pytest.mark.parametrize("ttl", [None, "1 day"])
def test_late_rows_are_not_learned(spark, tmp_path, ttl):
    """The third file has rows before the watermark, which the first two have moved, and repeated rows after it."""
    table, folder = rows_of(TABLE, range(400)), tmp_path / "files"
    spark_cases.write_file(folder, 0, rows_of(table, range(100)))
    spark_cases.write_file(folder, 1, rows_of(table, range(150, 300)))
    # After the second file the watermark is at second 299 - 60.
    late, new = [*range(100, 150)], [*range(300, 400)]
    spark_cases.write_file(folder, 2, rows_of(table, [*late, *range(280, 300), *new]))
    spark_cases.write_file(folder, 3, rows_of(table, late[:20]))  # Spark drops these itself: they are later by a file
    watermark = "60 seconds" if ttl is None else timedelta(seconds=60)
    rounds = track_stream(read_files(spark, folder), **TIMED, watermark=watermark, ttl=ttl)
    query = run(rounds, tmp_path / "checkpoint", tmp_path / "rounds")
    learned = rows_of(table, [*range(100), *range(150, 300), *new])
    assert trackers_in(stored_states(spark, tmp_path / "checkpoint")) == packed_states(learned)
    n_skipped = spark.read.parquet(str(tmp_path / "rounds")).groupBy().sum("n_skipped").first()[0]
    progress = [one["stateOperators"][0]["numRowsDroppedByWatermark"] for one in query.recentProgress]
    assert (sum(progress), n_skipped) == ((20, 50 + 20) if ttl is None else (0, 50 + 20 + 20))
    for state in stored_states(spark, tmp_path / "checkpoint").values():
        assert (StoredTracker.from_bytes(state).times > 239 * 10**6).all()


def test_bad_rows_go_to_a_side_table(spark, tmp_path):
    table = rows_of(TABLE, range(60))
    faults = {
        3: {"user": None},
        10: {"x": None},
        20: {"z": [1.0, 2.0]},
        30: {"x": [1.0, float("nan"), 2.0]},
        40: {"same": 7},
        50: {"n": None},
    }
    for row, fault in faults.items():
        for name, value in fault.items():
            table[name][row] = value
    spark_cases.write_files(tmp_path / "files", table, n_files=2)
    problems = {
        3: "user is null; accepted: a key",
        10: "x is null; accepted: 3 finite numbers",
        20: "z has 2 numbers; accepted: 3 finite numbers",
        30: "x holds nan at position 1; accepted: 3 finite numbers",
        40: "same is 7; accepted: +1 (or True) for similar, -1 (or 0 or False) for dissimilar",
        50: "n is null; accepted: the id of an answer",
    }
    stream = read_files(spark, tmp_path / "files")
    run(refused_rows(stream, **TIMED), tmp_path / "checkpoint-refused", tmp_path / "refused")
    refused = spark.read.parquet(str(tmp_path / "refused")).collect()
    assert {row["at"].timestamp() - spark_cases.BEGIN.timestamp(): row["problem"] for row in refused} == problems
    assert refused[0].asDict().keys() == {*table, "problem"}
    run(track_stream(stream, **TIMED), tmp_path / "checkpoint", tmp_path / "rounds")
    good = rows_of(table, [row for row in range(60) if row not in faults])
    assert trackers_in(stored_states(spark, tmp_path / "checkpoint")) == packed_states(good)
    at_rest = table_of(spark, tmp_path / "files")
    assert sorted(row["problem"] for row in refused_rows(at_rest, **TIMED).collect()) == sorted(problems.values())


# The life of a state.


def test_time_to_live(spark, tmp_path):
    """A key without answers for the time to live begins anew; one with answers goes on."""
    table = rows_of(TABLE, range(200))
    table["user"] = ["old" if at % 2 else "kept" for at in range(200)]
    old, kept = range(1, 200, 2), range(0, 200, 2)
    expected = packed_states(rows_of(table, [*kept, *old[40:]]))
    for seconds in (12, 60, 240):  # a longer one if the machine was too slow to renew the key within the time to live
        folder, longest = tmp_path / str(seconds), 0.0

        def learn(at, rows, folder=folder, seconds=seconds):
            begin = time.time()
            spark_cases.write_file(folder / "files", at, rows_of(table, rows))
            rounds = track_stream(read_files(spark, folder / "files"), **TIMED, ttl=f"{seconds} seconds")
            run(rounds, folder / "checkpoint", folder / "rounds")
            return begin

        last = learn(0, [*old[:40], *kept[:40]])
        first_end, at = time.time(), 1
        while time.time() < first_end + seconds + 2:  # each answer of the key that is kept renews its time
            begin = learn(at, [kept[39 + at]])
            longest, last, at = max(longest, time.time() - last), begin, at + 1
            time.sleep(seconds / 5)
        learn(at, [*old[40:], *kept[39 + at :]])
        if max(longest, time.time() - last) < seconds:
            break
    assert trackers_in(stored_states(spark, folder / "checkpoint")) == expected


def later_processor():
    """Return the processor of a later version, whose state has a further column."""

    class State:
        def __init__(self, state):
            self._state = state
            self.get, self.exists = state.get, state.exists

        def update(self, value):
            self._state.update((*value, 7))

    class LaterProcessor(processor.TrackerProcessor):
        def init(self, handle):
            schema = f"{processor.STATE_SCHEMA}, note INT"
            self._state = State(handle.getValueState(processor.STATE_NAME, schema, self._ttl_ms))

    return LaterProcessor


@pytest.mark.parametrize("is_upgrade", [True, False])
def test_a_state_with_a_further_column_is_read(spark, files, uninterrupted, tmp_path, monkeypatch, is_upgrade):
    """A later version may add a column to the state in Spark's store; it reads ours, and ours reads its."""
    from spark_stream_job import rounds_of

    stream = tmp_path / "stream"
    stream.mkdir()
    for is_later, part in ((not is_upgrade, range(3)), (is_upgrade, range(3, N_FILES))):
        for at in part:
            (stream / f"{at:03}.parquet").hardlink_to(files / f"{at:03}.parquet")
        with monkeypatch.context() as patch:
            if is_later:
                patch.setattr("ocelad.spark.track.TrackerProcessor", later_processor())
            run(rounds_of(spark, stream), tmp_path / "checkpoint", tmp_path / "rounds")
    assert stored_states(spark, tmp_path / "checkpoint") == stored_states(spark, uninterrupted / "checkpoint")


def test_a_state_of_a_newer_format_is_refused(spark, files):
    states = track_table(table_of(spark, files), **TIMED).limit(1).collect()
    newer = bytes(states[0]["state"])
    newer = newer[:4] + bytes([newer[4] + 1]) + newer[5:]
    initial = spark.createDataFrame([(states[0]["user"], bytearray(newer))], ["user", "state"])
    with pytest.raises(Exception, match="the state has version 2 of the format of ocelad"):
        track_table(table_of(spark, files), **TIMED, initial=initial).collect()


@pytest.fixture(scope="module")
def fleet():
    """Return a fleet that has learned the first half of the table, with priors that it has learned itself."""
    with Fleet() as fleet:
        fleet.learn(*of_stream().part(0, 450))
        fleet.learn(["only in the fleet"] * 3, *of_stream().part(0, 3)[1:])
        yield fleet


def frame_of(spark, fleet):
    return spark.createDataFrame([(key, bytearray(fleet.state(key))) for key in fleet], "user STRING, state BINARY")


@pytest.mark.parametrize("is_stream", [True, False])
def test_initial_states(spark, tmp_path, fleet, is_stream):
    """Keys go on from the states of a fleet, and new keys begin with its last prior."""
    table = rows_of(TABLE, range(450, 900))
    table["user"][5:40] = ["new"] * 35
    spark_cases.write_files(tmp_path / "files", table, n_files=2)
    initial, packed = frame_of(spark, fleet), PackedTrackers(N_FEATURES, priors=fleet.priors)
    stream = of_stream(table)
    expected = {"only in the fleet": fleet.state("only in the fleet")}
    for key in dict.fromkeys(stream.keys):
        mine = np.array(stream.keys) == key
        U = stream.pairs[mine, 0] - stream.pairs[mine, 1]
        state = fleet.state(key) if key in fleet else None
        expected[key] = packed.learn_one(state, U, stream.y[mine].astype(float))
    assert len(expected) > len(table["user"]) / 100
    assert packed.summary(expected["new"]).prior == len(fleet.priors) - 1
    if not is_stream:
        rows = track_table(table_of(spark, tmp_path / "files"), **TIMED, prior=fleet.priors, initial=initial)
        assert states_of(rows) == expected
        return
    for _ in range(2):  # the second query goes on from the checkpoint, and does not begin again
        rounds = track_stream(read_files(spark, tmp_path / "files"), **TIMED, prior=fleet.priors, initial=initial)
        run(rounds, tmp_path / "checkpoint", tmp_path / "rounds")
        assert trackers_in(stored_states(spark, tmp_path / "checkpoint")) == expected


@pytest.mark.parametrize("is_stream", [True, False])
def test_two_initial_states_of_a_key_are_refused(spark, files, tmp_path, fleet, is_stream):
    initial = frame_of(spark, fleet).where("user = 'user 1'")
    initial = initial.union(initial)
    settings = {**TIMED, "prior": fleet.priors, "initial": initial}
    if is_stream:
        rounds = track_stream(read_files(spark, files), **settings)
    else:
        rows = track_table(table_of(spark, files), **settings)
    with pytest.raises(Exception, match="initial has two states for the key 'user 1'; accepted: one, as ocelad"):
        run(rounds, tmp_path / "checkpoint", tmp_path / "rounds") if is_stream else rows.collect()


def test_the_first_micro_batch_is_not_split(spark, tmp_path, fleet):
    """Spark splits a key by its limit of rows in the first micro-batch with initial states, so there must be none."""
    assert spark.conf.get(ARROW_ROWS) == "0"
    n_answers = 10_100  # more than Spark's own limit
    table = answers(n_answers, n_keys=1)
    order = np.random.default_rng(0).permutation(n_answers)
    spark_cases.write_file(tmp_path / "files", 0, rows_of(table, order.tolist()))
    settings = {**TIMED, "prior": fleet.priors, "initial": frame_of(spark, fleet).where("user = 'only in the fleet'")}
    run(track_stream(read_files(spark, tmp_path / "files"), **settings), tmp_path / "checkpoint", tmp_path / "rounds")
    rows = spark.read.parquet(str(tmp_path / "rounds")).collect()
    assert [(row["user"], row["n_new"]) for row in rows] == [("user 1", n_answers)]
    try:
        spark.conf.set(ARROW_ROWS, 7)
        with pytest.raises(RuntimeError, match=r"limits them to 7, which would split the answers of a key; accepted"):
            track_stream(read_files(spark, tmp_path / "files"), **settings)
        without = {**settings, "initial": None}
        run(track_stream(read_files(spark, tmp_path / "files"), **without), tmp_path / "other", tmp_path / "others")
    finally:
        spark.conf.set(ARROW_ROWS, 0)
    assert stored_states(spark, tmp_path / "checkpoint")["user 1"] == stored_states(spark, tmp_path / "other")["user 1"]


@pytest.mark.parametrize("is_stream", [True, False])
def test_keys_of_initial_states(spark, tmp_path, is_stream):
    """Whole numbers of fewer bytes are cast; other types are refused, and null."""
    spark_cases.write_file(tmp_path / "files", 0, rows_of(TABLE, range(60)))

    def with_number(df):
        return df.drop("user").withColumn("user", F.expr("cast(n % 3 as int)"))

    source = read_files(spark, tmp_path / "files") if is_stream else table_of(spark, tmp_path / "files")
    df, track = with_number(source), track_stream if is_stream else track_table
    first = track_table(with_number(table_of(spark, tmp_path / "files")), **TIMED)
    first = spark.createDataFrame(first.collect(), first.schema)
    for kind in ("string", "bigint"):
        initial = first.withColumn("user", F.col("user").cast(kind))
        with pytest.raises(TypeError, match=f"'user' has the type int in df and {kind} in initial; accepted: the same"):
            track(df, **TIMED, initial=initial)
    small = first.withColumn("user", F.col("user").cast("smallint"))
    rows = track(df, **{**TIMED, "id": None}, initial=small)
    null = track(df, **TIMED, initial=first.limit(1).withColumn("user", F.lit(None).cast("int")))
    if is_stream:
        run(rows, tmp_path / "checkpoint", tmp_path / "rounds")
        rows = spark.read.parquet(str(tmp_path / "rounds"))
    assert sorted((row["user"], row["n_answers"], row["n_new"]) for row in rows.collect()) == [
        (0, 40, 20),
        (1, 40, 20),
        (2, 40, 20),
    ]
    with pytest.raises(Exception, match=r"initial has a state whose key is null \(None\); accepted: a key"):
        run(null, tmp_path / "null", tmp_path / "nulls") if is_stream else null.collect()


def test_a_stream_knows_the_ids_of_history(spark, files, tmp_path):
    """Answers of a table that come again on the stream are not learned twice, also by way of ``latest``."""
    history = track_table(table_of(spark, files).where("n < 450"), **TIMED, prior=PRIOR)
    history.write.parquet(str(tmp_path / "history"))
    initial = latest(spark.read.parquet(str(tmp_path / "history")), key="user")
    rounds = track_stream(read_files(spark, files), **TIMED, prior=PRIOR, initial=initial)
    run(rounds, tmp_path / "checkpoint", tmp_path / "rounds")
    assert trackers_in(stored_states(spark, tmp_path / "checkpoint")) == packed_states(TABLE, PRIOR)
    counts = spark.read.parquet(str(tmp_path / "rounds")).groupBy().sum("n_new", "n_skipped").first()
    assert tuple(counts) == (450, 450)


def test_partitions_do_not_matter_with_ids(spark, tmp_path):
    """The number of partitions of a source follows that of cores: a query that restarts elsewhere has the same bits."""
    spark_cases.write_files(tmp_path / "files", rows_of(TABLE, range(200)), n_files=2)
    stored = []
    try:
        for n_partitions in (1, 2):
            spark.conf.set("spark.sql.files.minPartitionNum", n_partitions)
            stream = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "files"))
            checkpoint = tmp_path / f"checkpoint-{n_partitions}"
            run(track_stream(stream, **COLUMNS, id="n"), checkpoint, tmp_path / f"rounds-{n_partitions}")
            stored.append(stored_states(spark, checkpoint))
    finally:
        spark.conf.unset("spark.sql.files.minPartitionNum")
    assert stored[0] == stored[1]


def test_a_watermark_of_the_stream_itself_is_not_used(spark, files):
    df = read_files(spark, files).withWatermark("at", "1 minute")
    with pytest.warns(UserWarning, match="track_stream does not use the watermark of df on 'at', and learns late answ"):
        track_stream(df, **TIMED)
    measured = distance(df, "x", "z", metric=METRIC)
    assert measured.schema["at"].metadata == df.schema["at"].metadata


# Distances.

METRIC = Metric(np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.3]]), threshold=1.5)
POINTS = {"x": TABLE["x"][:50], "z": TABLE["z"][:50]}


def values(df, name):
    return [row[name] for row in df.orderBy("n").collect()]


def test_one_metric_for_all_rows(spark):
    rows = [(at, x, z) for at, (x, z) in enumerate(zip(POINTS["x"], POINTS["z"], strict=True))]
    rows += [(50, None, [0.0] * 3), (51, [0.0] * 2, [0.0] * 3), (52, [None, 0.0, 0.0], [0.0] * 3)]
    rows += [(53, [float("nan"), 0.0, 0.0], [0.0] * 3), (54, [0.0] * 3, [float("inf"), 0.0, 0.0])]
    df = spark.createDataFrame(rows, "n INT, x ARRAY<DOUBLE>, z ARRAY<DOUBLE>")
    x, z = np.array(POINTS["x"]), np.array(POINTS["z"])
    d2 = METRIC.squared_length(x - z)
    for function, expected in ((distance, np.sqrt(d2)), (probability, 1.0 / (1.0 + np.exp(d2 - METRIC.threshold)))):
        found = values(function(df, "x", "z", metric=METRIC, output="found"), "found")
        np.testing.assert_allclose(np.array(found[:50]), expected, rtol=1e-12)
        assert found[50:53] == [None] * 3
        assert np.isnan(found[53:]).all()
    found = values(embed(df, "x", metric=METRIC), "embedding")
    assert np.array(found[:50]).tolist() == METRIC.embed(x).tolist()
    assert found[50:53] == [None, None, None]
    assert np.isnan(found[53]).all()
    assert np.array(values(embed(df, "z", metric=METRIC, n_components=2), "embedding")[:50]).shape == (50, 2)
    columns = spark.createDataFrame([(0, 1.0, 2, 3.0), (1, None, 1, 1.0)], ["n", "a", "b", "c"])
    assert values(embed(columns, ["a", "b", "c"], metric=METRIC, output="e"), "e")[1] is None
    zero = distance(columns, ["a", "b", "c"], ["a", "b", "c"], metric=METRIC)
    assert values(zero, "distance") == [0.0, None]
    assert zero.columns == ["n", "a", "b", "c", "distance"]


def test_the_tracker_of_each_row(spark, fleet, uninterrupted, files, tmp_path):
    """By the states of a fleet or of a state store; a key without a state is measured as a new one."""
    users = ["user 1", "user 2", "unknown", None, "only in the fleet"]
    rows = [(at, users[at % 5], x, z) for at, (x, z) in enumerate(zip(POINTS["x"], POINTS["z"], strict=True))]
    df = spark.createDataFrame(rows, "n INT, user STRING, x ARRAY<DOUBLE>, z ARRAY<DOUBLE>")
    packed = PackedTrackers(N_FEATURES, priors=fleet.priors)
    metrics = [packed.metric(fleet.state(user) if user in fleet else None) for user in users]
    settings = {"states": frame_of(spark, fleet), "key": "user", "prior": fleet.priors, "n_features": N_FEATURES}
    found = distance(df, "x", "z", **settings)
    assert found.columns == [*df.columns, "distance"]
    u = np.array(POINTS["x"]) - np.array(POINTS["z"])
    expected = [float(np.sqrt(metrics[at % 5].squared_length(u[at : at + 1])[0])) for at in range(50)]
    np.testing.assert_allclose(values(found, "distance"), expected, rtol=1e-12)
    likely = np.array(values(probability(df, "x", "z", **settings), "probability"))
    named = [at for at in range(50) if users[at % 5] in fleet]
    alone = [fleet.probability(users[at % 5], np.array([[POINTS["x"][at], POINTS["z"][at]]]))[0] for at in named]
    np.testing.assert_allclose(likely[named], alone, rtol=1e-9)
    embedded = np.array(values(embed(df, "x", **settings), "embedding"))
    at_z = np.array(values(embed(df, "z", **settings), "embedding"))
    np.testing.assert_allclose(np.linalg.norm(embedded - at_z, axis=1), expected, rtol=1e-7)
    states = latest(spark.read.parquet(str(uninterrupted / "rounds")), key="user")
    known = distance(table_of(spark, files), "x", "z", states=states, key="user", prior=PRIOR, n_features=N_FEATURES)
    packed = PackedTrackers(N_FEATURES, priors=[PRIOR])
    metrics = {key: packed.metric(state) for key, state in packed_states(TABLE, PRIOR).items()}
    u = np.array(TABLE["x"]) - np.array(TABLE["z"])
    expected = [np.sqrt(metrics[user].squared_length(u[at])) for at, user in enumerate(TABLE["user"])]
    np.testing.assert_allclose(values(known, "distance"), expected, rtol=1e-12)
    by_key = {"states": states, "key": "user", "prior": PRIOR, "n_features": N_FEATURES}
    on_stream = distance(read_files(spark, files), "x", "z", **by_key)
    run(on_stream, tmp_path / "checkpoint", tmp_path / "measured")
    assert values(spark.read.parquet(str(tmp_path / "measured")), "distance") == values(known, "distance")


def test_columns_of_other_types_stay(spark, files):
    """Vectors of pyspark.ml, and fields with names that DDL cannot express."""
    from pyspark.ml.linalg import Vectors, VectorUDT

    vector = F.udf(lambda values: Vectors.dense(values), VectorUDT())
    df = table_of(spark, files).limit(20).withColumn("vector", vector("x"))
    df = df.withColumn("odd", F.struct(F.col("n").alias("a b"), F.lit("x").alias("c-d"))).withColumn(
        "ocelad_metric", F.lit(1)
    )
    df = df.withColumn("decimals", F.expr("cast(x as array<decimal(20,10)>)"))
    states = track_table(df, **{**TIMED, "left": "decimals"})
    wrong = df.withColumn("same", F.lit(7))
    for given, measured in (
        (df, distance(df, "x", "z", metric=METRIC)),
        (df, embed(df, "x", metric=METRIC)),
        (df, distance(df, "x", "z", states=states, key="user", n_features=N_FEATURES)),
        (wrong, refused_rows(wrong, **TIMED)),
    ):
        assert measured.schema.fields[:-1] == given.schema.fields
        row = measured.orderBy("n").first()
        assert row["vector"] == Vectors.dense(row["x"])
        assert row["odd"].asDict() == {"a b": row["n"], "c-d": "x"}
        assert row["ocelad_metric"] == 1
        assert row[measured.columns[-1]]


# Wrong arguments.


def wrong_arguments():
    given = {**COLUMNS}

    def case(name, error, *, of="table", **changes):
        return pytest.param(of, given | changes, error, id=name)

    return [
        case("no such column", "left is 'y', which is no column; the columns are 'user', 'x', 'z', 'same'", left="y"),
        case(
            "type of the points", r"left is the column 'user' of type string; accepted: arrays of numbers", left="user"
        ),
        case(
            "type of the answer", "same is the column 'at' of type timestamp; accepted: booleans, or numbers", same="at"
        ),
        case("type of the key", "key is the column 'x' of type array<double>; accepted: strings, whole", key="x"),
        case("no key", "key names no column; accepted: the name of a column, or a list of names", key=[]),
        case("key None", "key is None; accepted: the name of a column, or a list of names", key=None),
        case("point None", "left is None; accepted: the name of a column, or a list of names", left=None),
        case("n_features", "n_features is needed, because a column of arrays does not say", n_features=None),
        case("numbers differ", r"the numbers of features differ or are 0 \(left: 1, n_features: 3\)", left=["n"]),
        case("key twice", "key names the column 'user' twice; accepted: each column once", key=["user", "user"]),
        case("form", "form must be one of 'exact', 'compact'; got 'small'", form="small"),
        case("prior", "prior holds a Metric; accepted: a SharedPrior, or a sequence of them", prior=[METRIC]),
        case("priors", "the prior has 3 features; 2 are expected", prior=PRIOR, n_features=2),
        case("initial", "initial has no binary column 'state'; accepted: the key columns and state", initial="table"),
        case("event time", "event_time is the column 'n' of type bigint; accepted: timestamps", event_time="n"),
        case(
            "event time without a zone",
            "event_time is the column 'ntz' of type timestamp_ntz; accepted: timestamps .a cast to 'timestamp' makes",
            event_time="ntz",
        ),
        case(
            "two watermarks",
            "df has a watermark on 'at' already, and Spark allows one; accepted: watermark=, or withWatermark before",
            of="stream with a watermark, and for one",
            event_time="at",
            watermark="1 minute",
        ),
        case("id", "id is the column 'x' of type array<double>; accepted: strings, whole numbers or binary", id="x"),
        case(
            "a table at rest",
            "df is a table at rest, and track_stream learns from a stream; use",
            of="table, but for a stream",
        ),
        case("a stream", "df is a stream, and track_table learns from a table at rest; use track_stream", of="stream"),
        case(
            "watermark",
            "watermark needs event_time, the column of timestamps",
            of="stream, and for one",
            watermark="1 minute",
        ),
        case(
            "watermark in words",
            "watermark is 'ten minutes'; accepted: a timedelta, or text such as '10 minutes'",
            of="stream, and for one",
            event_time="at",
            watermark="ten minutes",
        ),
        case(
            "watermark of another kind",
            "watermark is 5; accepted: a timedelta, or text such as '10 minutes'",
            of="stream, and for one",
            event_time="at",
            watermark=5,
        ),
        case(
            "ttl",
            "ttl is '1 month'; accepted: a timedelta, or text such as '90 days'",
            of="stream, and for one",
            ttl="1 month",
        ),
    ]


@pytest.mark.parametrize(("of", "settings", "error"), wrong_arguments())
def test_wrong_arguments(spark, files, of, settings, error):
    table = table_of(spark, files)
    if "initial" in settings:
        settings = settings | {"initial": table}
    track = track_table if of in ("table", "stream") else track_stream
    df = read_files(spark, files) if of.startswith("stream") else table
    if "with a watermark" in of:
        df = df.withWatermark("at", "1 minute")
    if settings.get("event_time") == "ntz":
        df = df.withColumn("ntz", F.col("at").cast("timestamp_ntz"))
    with pytest.raises((ValueError, TypeError), match=error):
        track(df, **settings)


def test_wrong_arguments_of_distances(spark, files, uninterrupted):
    table = table_of(spark, files)
    states = latest(spark.read.parquet(str(uninterrupted / "rounds")), key="user")
    by_key = {"states": states, "key": "user", "n_features": 3}
    cases = [
        ({}, "give either metric, one for all rows, or states and key, one for each key"),
        ({"metric": METRIC, **by_key}, "give either metric, one for all rows, or states and key"),
        ({"metric": 3}, "metric is a int; accepted: a Metric"),
        ({"states": states}, "states and key belong together"),
        ({"metric": METRIC, "output": "at"}, "df has a column 'at' already; choose another name with output="),
        ({"metric": METRIC, "output": "At"}, "df has a column 'at' already; choose another name with output="),
        ({"metric": METRIC, "n_features": 2}, "the metric has 3 features; got n_features=2"),
        (
            {**by_key, "states": states.withColumn("user", F.lit(1))},
            "type string in df and int in states; accepted: the",
        ),
        ({**by_key, "states": table}, "states has no binary column 'state'; accepted: the key columns and state"),
        ({**by_key, "prior": PRIOR, "n_features": 2}, "the prior has 3 features; 2 are expected"),
    ]
    for settings, error in cases:
        with pytest.raises((ValueError, TypeError), match=re.escape(error)):
            distance(table, "x", "z", **settings)
    twice = distance(table, "x", "z", **by_key | {"states": states.union(states), "prior": PRIOR})
    with pytest.raises(
        Exception, match=r"states has two states for the key user .; accepted: one, as ocelad\.spark\.l"
    ):
        twice.collect()
    other = SharedPrior(METRIC, log_weight=0.5)
    with pytest.raises(Exception, match="the state began with another prior than prior 1 of those given"):
        distance(table, "x", "z", **by_key, prior=other).collect()
    for function in (track_table, track_stream, refused_rows):
        with pytest.raises(TypeError, match=r"df is a pandas.DataFrame; accepted: a DataFrame of Spark"):
            function(pd.DataFrame(TABLE), **COLUMNS)
    with pytest.raises(ValueError, match="rounds has no column 'n_answers'; accepted: a table that track_stream wrote"):
        latest(table, key="user")
    for name in ("problem", "Problem"):
        with pytest.raises(ValueError, match=f"df has a column '{name}' already; rename it"):
            refused_rows(table.withColumnRenamed("at", name), **COLUMNS)
    for name in ("state", "State", "OCELAD_ID"):
        with pytest.raises(ValueError, match=f"the key column '{name}' has the name of a column of the result; rename"):
            track_table(table.withColumnRenamed("user", name), **{**COLUMNS, "key": name})


def test_the_session(spark):
    check_session(spark)
    try:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", "org.example.Other")
        with pytest.raises(
            RuntimeError, match="transformWithState needs the RocksDB state store, and this session has"
        ):
            check_session(spark)
    finally:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", spark_cases.ROCKSDB)


# The example and the benchmark.


def output_of(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True, timeout=300).stdout


def test_the_benchmark(tmp_path):
    shutil.copytree(TESTS.parent / "benchmarks", tmp_path / "benchmarks", ignore=lambda *_: ["results", "compare"])
    script = tmp_path / "benchmarks" / "fleet_spark.py"
    output = output_of(script, "--keys", "20", "--answers", "4", "--features", "3", "--batches", "2")
    assert len(re.findall(r"^(?:engine|learning|defaults) +20 ", output, re.M)) == 3
