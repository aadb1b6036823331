"""The parts of ocelad.spark that run without Spark: rows, stored states, and what a key learns from micro-batches."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocelad import Metric
from ocelad.adaptive.adaptive_tracker import MAX_DIFFERENCE
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.fleet import Fleet
from ocelad.fleet.packed_trackers import PackedTrackers
from ocelad.fleet.stored_tracker import StoredTracker, digests, prior_digest
from ocelad.spark import session
from ocelad.spark.answer_columns import AnswerColumns
from ocelad.spark.answer_rows import answer_type, read_answers, to_binary
from ocelad.spark.key_learner import KeyAnswers, KeyLearner
from ocelad.spark.track import _milliseconds

# Rows.

COLUMNS = AnswerColumns(("user",), "x", "z", "same", n_features=2, event_time="at", id="n")
COORDINATES = st.one_of(st.floats(-5, 5), st.sampled_from([None, np.nan, np.inf, 1e300, -1e300, 1e74]))
POINTS = st.one_of(st.none(), st.lists(COORDINATES, min_size=1, max_size=3), st.tuples(st.floats(-5, 5), st.just(1.0)))
ROWS = st.fixed_dictionaries(
    {
        "user": st.sampled_from([None, "a", "b"]),
        "x": POINTS,
        "z": POINTS,
        "same": st.sampled_from([None, 1.0, 0.0, -1.0, 2.0, np.nan]),
        "at": st.sampled_from([None, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)]),
        "n": st.sampled_from([None, 1, 2]),
    }
)
TYPES = pa.schema(
    {
        "user": pa.string(),
        "x": pa.list_(pa.float64()),
        "z": pa.list_(pa.float64()),
        "same": pa.float64(),
        "at": pa.timestamp("us", tz="UTC"),
        "n": pa.int64(),
    }
)


def is_point(point):
    return point is not None and len(point) == 2 and all(v is not None and np.isfinite(v) for v in point)


def is_answer(row):
    """Say in plain Python whether a row is an answer."""
    if any(row[name] is None for name in ("user", "at", "n")) or row["same"] not in (1.0, 0.0, -1.0):
        return False
    return is_point(row["x"]) and is_point(row["z"]) and np.abs(np.subtract(row["x"], row["z"])).max() <= MAX_DIFFERENCE


@given(st.lists(ROWS, min_size=1, max_size=20), st.integers(0, 3))
def test_rows_that_are_answers_and_rows_that_are_not(rows, offset):
    """Each row is read, or refused with a sentence that names a column at fault; also in a slice of a batch."""
    batch = pa.RecordBatch.from_pylist([rows[0]] * offset + rows, TYPES).slice(offset)
    answers, problems = read_answers(batch, COLUMNS)
    assert [problem is None for problem in problems] == [is_answer(row) for row in rows]
    for row, answer, problem in zip(rows, answers, problems, strict=True):
        if problem is None:
            assert answer["u"].tolist() == np.subtract(row["x"], row["z"]).tolist()
            assert answer["y"] == (1 if row["same"] == 1.0 else -1)
            assert answer["order"] == row["at"].timestamp() * 1_000_000
        else:
            assert problem.split()[0] in TYPES.names or problem.startswith("the points differ by ")
            assert "; accepted: " in problem
    assert [value.as_py() for value in to_binary(answers)] == [answer.tobytes() for answer in answers]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"user": None}, "user is null; accepted: a key"),
        ({"x": [1.0]}, "x has 1 number; accepted: 2 finite numbers"),
        ({"x": []}, "x has 0 numbers; accepted: 2 finite numbers"),
        ({"z": None}, "z is null; accepted: 2 finite numbers"),
        ({"z": [1.0, np.nan]}, "z holds nan at position 1; accepted: 2 finite numbers"),
        ({"x": [None, np.inf]}, "x holds null at position 0; accepted: 2 finite numbers"),
        ({"x": [1e300, 0.0], "z": [-1e308, 0.0]}, "the points differ by 1e+308; accepted: differences up to 1e+75"),
        ({"same": None}, r"same is null; accepted: +1 (or True) for similar, -1 (or 0 or False) for dissimilar"),
        ({"same": 2.0}, r"same is 2; accepted: +1 (or True) for similar, -1 (or 0 or False) for dissimilar"),
        ({"at": None}, "at is null; accepted: a time"),
        ({"n": None}, "n is null; accepted: the id of an answer"),
    ],
)
def test_problems_are_sentences(change, problem):
    row = {"user": "a", "x": [1.0, 2.0], "z": [0.0, 0.0], "same": 1.0, "at": datetime(2026, 1, 1, tzinfo=UTC), "n": 1}
    assert read_answers(pa.RecordBatch.from_pylist([row | change], TYPES), COLUMNS).problems == [problem]


def test_decimals():
    kind = pa.decimal128(20, 10)
    points = pa.array([[Decimal("1.5"), Decimal("0.25")], [Decimal(1), None]], pa.list_(kind))
    rows = {"user": pa.array(["a", "a"]), "x": points, "z": pa.array([[0.0, 0.0]] * 2), "same": pa.array([1, 0])}
    columns = AnswerColumns(("user",), "x", "z", "same", n_features=2)
    answers, problems = read_answers(pa.RecordBatch.from_pydict(rows), columns)
    assert answers["u"][0].tolist() == [1.5, 0.25]
    assert problems == [None, "x holds null at position 1; accepted: 2 finite numbers"]


def test_numeric_columns_and_booleans():
    columns = AnswerColumns(("user",), ("a", "b"), ("c", "d"), "same", n_features=2)
    rows = {"user": [1, 1, 1], "a": [1, 2, None], "b": [0.5, np.nan, 1.0], "c": [0, 0, 0], "d": [1.0] * 3}
    answers, problems = read_answers(pa.RecordBatch.from_pydict(rows | {"same": [True, True, False]}), columns, 7)
    assert problems == [None, "b is nan; accepted: a finite number", "a is null; accepted: a finite number"]
    assert answers["u"][0].tolist() == [1.0, -0.5]
    assert answers["y"].tolist() == [1, 1, -1]
    assert answers["order"].tolist() == [7, 8, 9]


# What a key learns.

N = 3


def answers_of_a_key(count, seed=0):
    """Return answers in the order of their event times, which are 1, 2, 3 ... seconds."""
    rng = np.random.default_rng(seed)
    answers = np.zeros(count, answer_type(N))
    answers["u"], answers["order"] = rng.normal(size=(count, N)), 1_000_000 * (1 + np.arange(count))
    answers["y"] = np.where(abs(answers["u"][:, 0]) < 0.5, 1, -1)
    return answers


ANSWERS = answers_of_a_key(200)
IDS = [f"answer {at}" for at in range(len(ANSWERS))]
EXPECTED = PackedTrackers(N).learn_one(None, ANSWERS["u"].astype(float), ANSWERS["y"].astype(float))


@given(st.lists(st.integers(0, 200), max_size=6), st.randoms(use_true_random=False))
def test_micro_batches_and_the_order_within_them_do_not_matter(cuts, random):
    """Each micro-batch comes shuffled, with answers of earlier ones again: the state is the same, bit for bit."""
    learner, stored, tracker, n_new, n_rows = KeyLearner(N), None, None, 0, 0
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), 200], strict=True):
        rows = [*range(first, last), *random.sample(range(last), min(last, 5))]
        random.shuffle(rows)
        learned = learner.learn([stored], [KeyAnswers(ANSWERS[rows], [IDS[row] for row in rows])])[0]
        assert learned.n_new == last - first
        n_new, n_rows = n_new + learned.n_new, n_rows + learned.n_new + learned.n_skipped
        stored, tracker = learned.stored, learned.tracker
        n_rows -= len(rows)
    assert (n_new, n_rows) == (200, 0)
    assert tracker == EXPECTED
    assert StoredTracker.from_bytes(stored).tracker == EXPECTED


def test_several_keys_at_once_learn_what_each_learns():
    learner = KeyLearner(N)
    keys = [KeyAnswers(answers_of_a_key(count, seed)) for seed, count in enumerate((3, 90, 0, 150))]
    assert learner.learn([None] * 4, keys) == [learner.learn([None], [key])[0] for key in keys]
    assert learner.report(learner.learn([None], [keys[2]])[0]) == {
        "n_answers": 0,
        "n_new": 0,
        "n_skipped": 0,
        "drift": None,
        "n_changes": 0,
        "last_change": None,
        "state": None,
    }


def test_late_answers_are_skipped_and_old_ids_are_forgotten():
    learner = KeyLearner(N)
    first = learner.learn([None], [KeyAnswers(ANSWERS[:10], IDS[:10])], watermark=0)[0]
    assert (first.n_new, len(StoredTracker.from_bytes(first.stored).ids)) == (10, 10)
    at_5, wanted = int(ANSWERS["order"][4]), [3, 4, 9, 10, 11]
    second = learner.learn([first.stored], [KeyAnswers(ANSWERS[wanted], [IDS[at] for at in wanted])], at_5)[0]
    assert (second.n_new, second.n_skipped) == (2, 3)  # two are late, and one has been learned
    stored = StoredTracker.from_bytes(second.stored)
    assert sorted(stored.ids.tolist()) == sorted(digests(IDS[5:12]).tolist())
    assert second.tracker == learner.packed.learn_one(None, ANSWERS["u"][:12] * 1.0, ANSWERS["y"][:12] * 1.0)
    too_late = learner.learn([None], [KeyAnswers(ANSWERS[:3], IDS[:3])], at_5)[0]
    assert (too_late.stored, too_late.tracker, too_late.n_skipped) == (None, None, 3)


def test_changes_are_reported():
    rng = np.random.default_rng(0)
    answers = answers_of_a_key(1200)
    answers["u"] = rng.normal(size=(1200, N))
    feature = np.where(np.arange(1200) < 800, 0, 2)
    answers["y"] = np.where(abs(answers["u"][np.arange(1200), feature]) < 0.5, 1, -1)
    learner = KeyLearner(N)
    report = learner.report(learner.learn([None], [KeyAnswers(answers)])[0])
    assert report["n_answers"] == 1200
    assert report["n_changes"] == 1
    assert 750 < report["last_change"] < 850
    assert report["drift"] > 0.0


PRIORS = [SharedPrior(Metric(np.diag(np.arange(N) + float(at)), threshold=1.0), log_weight=1.0) for at in range(3)]


def test_states_of_a_fleet_go_on():
    keys = ["a", "b"] * 100
    y = ANSWERS["y"].astype(float)
    pairs = np.stack([ANSWERS["u"], np.zeros_like(ANSWERS["u"])], axis=1)
    with Fleet(shared=PRIORS[0]) as fleet, Fleet(shared=PRIORS[0]) as whole:
        half = fleet.learn(keys[:150], pairs[:150], y[:150]).state("a")
        expected = whole.learn(keys, pairs, y).state("a")
    learner = KeyLearner(N, priors=PRIORS[:1])
    later = ANSWERS[150:][::2]
    assert learner.learn([learner.adopt(half)], [KeyAnswers(later)])[0].tracker == expected
    assert learner.learn([half], [KeyAnswers(later)])[0].tracker == expected


def test_new_priors_are_for_new_keys():
    first = KeyLearner(N, priors=PRIORS[:1]).learn([None], [KeyAnswers(ANSWERS[:5])])[0].stored
    more = KeyLearner(N, priors=PRIORS[:2])
    known, new = more.learn([first, None], [KeyAnswers(ANSWERS[5:9]), KeyAnswers(ANSWERS[:9])])
    assert [more.packed.summary(one.tracker).prior for one in (known, new)] == [0, 1]
    assert known.tracker == KeyLearner(N, priors=PRIORS[:1]).learn([None], [KeyAnswers(ANSWERS[:9])])[0].tracker


@pytest.mark.parametrize(
    ("learner", "error"),
    [
        (KeyLearner(4, priors=()), "the state has 3 features; 4 are expected"),
        (KeyLearner(N, form="compact", priors=PRIORS), "the state has the exact form; form='compact' was asked for"),
        (KeyLearner(N), "the state began with prior 1, and 0 were given; accepted: all priors that it was learned"),
        (KeyLearner(N, priors=PRIORS[1:]), "the state began with another prior than prior 1 of those given; accepted"),
    ],
)
def test_states_of_other_settings_are_refused(learner, error):
    stored = KeyLearner(N, priors=PRIORS[:1]).learn([None], [KeyAnswers(ANSWERS[:70])])[0].stored
    answers = np.zeros(1, answer_type(learner.packed.n_features))
    with pytest.raises(ValueError, match=error):
        learner.learn([stored], [KeyAnswers(answers)])


def test_a_worker_uses_one_thread():
    assert KeyLearner(N).packed._n_threads == 1


# Stored states.


def test_ids_are_the_same_in_all_types_of_bytes():
    assert digests([b"a"]).tolist() == digests([bytearray(b"a")]).tolist()
    assert len(set(digests(["a", b"a", 97, "97", b"97", "", b"", 0]).tolist())) == 8
    # The digest belongs to the format of states: it must not change with a version of Python.
    assert digests(["ä", 7]).tolist() == [8354027261753481575, 6190822855650523688]


@given(st.binary(), st.lists(st.integers(), unique=True), st.booleans(), st.integers(-1, 5))
def test_stored_trackers(tracker, ids, has_times, prior):
    found = digests(ids)
    times = np.arange(len(ids), dtype=np.int64) if has_times else None
    stored = StoredTracker(b"ocel" + tracker, 3, "exact", prior, prior_digest(PRIORS[0]), found, times)
    data = stored.to_bytes()
    read = StoredTracker.from_bytes(data)
    assert read.to_bytes() == data
    assert read.tracker == b"ocel" + tracker
    assert read[1:5] == stored[1:5]
    pairs = dict(zip(found.tolist(), range(len(ids)), strict=True))
    assert set(read.ids.tolist()) == set(pairs)
    assert read.times is None or dict(zip(read.ids.tolist(), read.times.tolist(), strict=True)) == pairs
    turned = stored._replace(ids=found[::-1], times=None if times is None else times[::-1])
    assert turned.to_bytes() == data


def test_damaged_and_newer_states_are_refused():
    stored = StoredTracker(b"ocel", 3, "exact", -1, ids=digests(range(3))).to_bytes()
    for length in range(4, len(stored) - 4):
        with pytest.raises(ValueError, match=f"a state of {length} bytes is truncated; accepted"):
            StoredTracker.from_bytes(stored[:length])
    with pytest.raises(
        ValueError, match=r"the state has version 2 of the format of ocelad\.spark, and this ocelad read"
    ):
        StoredTracker.from_bytes(stored[:4] + b"\x02" + stored[5:])


def test_durations():
    assert _milliseconds("1.5 hours", "ttl") == _milliseconds(timedelta(minutes=90), "ttl") == 5_400_000
    for wrong in ("1 month", "soon", "0 days", timedelta(0)):
        with pytest.raises(ValueError, match=r"ttl is .*; accepted: "):
            _milliseconds(wrong, "ttl")


# The installation.


def test_missing_java_and_packages(monkeypatch, tmp_path):
    monkeypatch.setattr(session, "import_module", lambda name: None)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match="no Java was found; Spark needs Java 17 or newer: apt install openjdk-17"):
        session.check_installation()
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    with pytest.raises(RuntimeError, match="java is Java 11; Spark needs Java 17 or newer"):
        session.check_installation()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    session.check_installation()

    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(session, "import_module", missing)
    with pytest.raises(ImportError, match=r"pip install 'ocelad\[spark\]' \(No module named 'pyspark'\)"):
        session.spark_session()


def fake_session(version="4.1.0", provider=session.ROCKSDB, python=sys.executable):
    context = SimpleNamespace(master="local[2]", pythonExec=python)
    conf = {session.STATE_STORE: provider, session.ARROW_ROWS: "10000"}
    return SimpleNamespace(version=version, conf=conf, _sc=context)


def script(path, text):
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_python_of_workers_has_to_say_which_it_is(tmp_path):
    """A script elsewhere that runs this Python is accepted, as those of pyenv; a neighbour of this Python is not."""
    session.check_python(fake_session(python=script(tmp_path / "shims" / "python3", f'exec {sys.executable} "$@"')))
    for name, text in (
        ("older", f"echo {sys.prefix}; echo 3.9"),
        ("other", "echo /opt; echo 3.11"),
        ("broken", "exit 1"),
    ):
        python = script(tmp_path / name / "python3", text)
        with pytest.raises(RuntimeError, match=rf"workers would run .*{name}/python3, and this process runs"):
            session.check_python(fake_session(python=python))


def test_what_is_no_session_and_no_settings_is_refused():
    with pytest.raises(
        TypeError, match=r"spark is None; accepted: a session of Spark, such as ocelad\.spark\.spark_ses"
    ):
        session.check_session(None)
    with pytest.raises(TypeError, match="settings is 'a'; accepted: a mapping, such as"):
        session.spark_session(settings="a")


def test_sessions_that_cannot_keep_trackers():
    session.check_session(fake_session(), run=False)
    session.check_session(
        fake_session(provider=f"com.databricks.sql.streaming.state.{session.ROCKSDB.split('.')[-1]}"), run=False
    )
    with pytest.raises(
        RuntimeError, match="initial needs record batches of any number of rows, and this session limits"
    ):
        session.check_stream(fake_session(), has_initial=True)
    with pytest.raises(RuntimeError, match=r"this session runs Spark 4\.0\.2; accepted: 4\.1 or newer"):
        session.check_session(fake_session("4.0.2"), run=False)
    with pytest.raises(RuntimeError, match="needs the RocksDB state store, and this session has Memory; accepted"):
        session.check_session(fake_session(provider="a.b.Memory"), run=False)
    with pytest.raises(RuntimeError, match=r"workers would run /other/python3, and this process runs .*PYSPARK_PYTHON"):
        session.check_session(fake_session(python="/other/python3"), run=False)
