"""Fleet: trackers by key learn what single trackers learn, however the stream is divided."""

from __future__ import annotations

import enum
import os
import pickle
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from fleet_streams import KeyedStream, keyed_stream, learned, learned_at_once
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.special import expit

from ocelad import Metric, MetricTracker, track_adaptive
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.fleet import Fleet
from ocelad.fleet.keyed_pairs import KeyedAnswers, KeyedRows
from ocelad.fleet.memory_size import parse_memory
from ocelad.fleet.packed_trackers import PackedTrackers
from ocelad.pairs import Events

STREAM = keyed_stream(700, 60)
AT_ONCE = learned_at_once(STREAM)


# What is learned.


def assert_equals_single_trackers(fleet, keys, pairs, y):
    """Each key must be what a tracker of its own learns that begins with the same prior: same bits."""
    for key in fleet:
        mine = np.array([one == key for one in keys])
        prior = fleet.summary(key).prior
        single = track_adaptive(pairs.shape[2], prior=fleet.priors[prior] if prior >= 0 else None)
        single.replay(Events(pairs[mine, 0] - pairs[mine, 1], y[mine]))
        assert fleet.state(key) == PackedTrackers(pairs.shape[2]).pack(single, prior)
        single.compiled_parts()  # up to 64 answers, the definition has played, whose bits differ
        expected = single.play()
        assert fleet.metric(key).matrix.tobytes() == expected.matrix.tobytes()
        assert fleet.metric(key).threshold == expected.threshold
        assert fleet.summary(key) == (mine.sum(), single.drift, tuple(single.changes), prior)


def moving_stream(n_answers, n_keys, n_features=3, seed=4):
    """Return a stream of which the question of each key changes in the middle; all keys begin late or early."""
    rng = np.random.default_rng(seed)
    keys = [
        f"{'late' if at >= 130 else 'early'} {code}" for at, code in enumerate(rng.integers(n_keys, size=n_answers))
    ]
    pairs = rng.normal(size=(n_answers, 2, n_features))
    feature = np.where(np.arange(n_answers) < n_answers // 2, 0, 1)
    u = pairs[np.arange(n_answers), 0, feature] - pairs[np.arange(n_answers), 1, feature]
    return KeyedStream(keys, pairs, np.where(abs(u) < 1.0, 1, -1))


@pytest.mark.parametrize("shared", [False, True])
def test_keys_equal_single_trackers(tmp_path, shared):
    """Interleaved keys with more and with fewer than 64 answers; in calls, on the disk, closed and opened again."""
    stream = moving_stream(2000, 3)
    path, settings = tmp_path / "fleet", {"shared": shared, "memory": 0}
    for first in range(0, len(stream), 400):
        with Fleet(path=path, durable=first == 800, **settings) as fleet:
            fleet.learn(*stream.part(first, first + 250)).learn(*stream.part(first + 250, first + 400))
    with Fleet(path=path, **settings) as fleet:
        assert {fleet.summary(key).n_answers > 64 for key in fleet} == {False, True}
        assert any(fleet.changes(key) for key in fleet)
        assert {fleet.summary(key).prior >= 0 for key in fleet} == {False, shared}
        assert_equals_single_trackers(fleet, *stream)
        assert learned(fleet) == learned_at_once(stream, shared=shared)


def test_a_fleet_without_a_shared_prior_agrees_with_metric_trackers():
    stream = keyed_stream(300, 4)
    fleet = Fleet(shared=False).learn(*stream)
    for key in fleet:
        mine = np.array([one == key for one in stream.keys])
        tracker = MetricTracker().fit(stream.pairs[mine], stream.y[mine])
        probability = fleet.probability(key, STREAM.pairs[:20])
        np.testing.assert_allclose(probability, tracker.predict_proba(STREAM.pairs[:20])[:, 1], rtol=1e-6)


@given(st.lists(st.integers(0, len(STREAM)), max_size=12), st.booleans())
def test_the_division_into_calls_does_not_matter(cuts, is_small):
    """Same bits of all states and priors, also if the memory has room for a few states only."""
    assert len(AT_ONCE["priors"]) == 4
    assert len({prior[2] for prior in AT_ONCE["priors"]}) > 1, (
        "no key showed whether a prior helps: all priors have the same weight"
    )
    with Fleet(memory=20_000 if is_small else "1 GB") as fleet:
        for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), None], strict=True):
            fleet.learn(*STREAM.part(first, last))
        assert learned(fleet) == AT_ONCE
        assert fleet._states.n_bytes < 20_000 or not is_small


def test_long_keys_count_in_memory_and_in_the_size_of_calls(monkeypatch):
    keys = [chr(0x1F600 + at) * 1000 for at in range(20)]
    monkeypatch.setattr("ocelad.fleet.fleet._CALL_BYTES", 100_000)
    fleet, sizes = Fleet(shared=False), []
    parts = KeyedAnswers.parts
    monkeypatch.setattr(
        KeyedAnswers,
        "parts",
        lambda *arguments: (sizes.append(len(part.to_bytes())) or part for part in parts(*arguments)),
    )
    fleet.learn(keys, STREAM.pairs[:20], STREAM.y[:20])
    assert len(sizes) > 2
    assert max(sizes) <= 100_000 + 100
    assert fleet.keys() == keys
    assert fleet._states.n_bytes >= 20 * 4000, "characters of several bytes"


def test_pair_by_pair():
    fleet = Fleet(memory=50_000)
    for key, pair, y in zip(*STREAM.part(0, 200), strict=True):
        fleet.learn([key], [pair], [y])
    assert learned(fleet) == learned_at_once(STREAM.part(0, 200))
    fleet.close()


def test_chunks_of_keys_and_parts_of_calls_do_not_matter(monkeypatch):
    monkeypatch.setattr("ocelad.fleet.held_states._MIN_KEYS", 3)
    monkeypatch.setattr("ocelad.fleet.held_states._MAX_KEYS", 3)
    monkeypatch.setattr("ocelad.fleet.stream_learner._MAX_ROWS", 20)
    monkeypatch.setattr("ocelad.fleet.fleet._CALL_BYTES", 8 * 4 * 50)
    assert learned_at_once(STREAM) == AT_ONCE


def test_the_prior_depends_on_the_position_of_the_first_answer():
    fleet = Fleet().learn(*STREAM)
    first = {}
    for at, key in enumerate(STREAM.keys):
        first.setdefault(key, at)
    assert fleet.keys() == list(first)
    renewals = np.array([64, 128, 256, 512])
    assert {key: fleet.summary(key).prior for key in fleet} == {
        key: int((renewals <= at).sum()) - 1 for key, at in first.items()
    }
    assert fleet.prior is fleet.priors[-1]
    assert fleet.n_answers == len(STREAM) == sum(fleet.summary(key).n_answers for key in fleet)


def test_a_fixed_prior():
    prior = SharedPrior(Metric(np.diag([9.0, 1.0, 0.0, 0.0]), threshold=2.0), log_weight=1.0)
    fleet = Fleet(shared=prior)
    assert fleet.n_features == 4
    assert fleet.learn(*STREAM).priors == (prior,)
    assert {fleet.summary(key).prior for key in fleet} == {0}
    assert fleet.state("key 1") != Fleet().learn(*STREAM).state("key 1")
    with pytest.raises(ValueError, match="the prior has 4 features; 3 are expected"):
        Fleet(3, shared=prior)


@pytest.mark.parametrize("metric", [Metric(np.diag([9.0, 1.0, 0.0, 0.0])), Metric.from_diagonal([9.0, 1.0, 0.0, 0.0])])
@pytest.mark.parametrize("durable", [False, True])
def test_a_file_has_its_fixed_prior(tmp_path, metric, durable):
    path, prior = tmp_path / "fleet", SharedPrior(metric.with_threshold(2.0), log_weight=1.0)
    with Fleet(shared=prior, path=path, durable=durable) as fleet:
        fleet.learn(*STREAM.part(0, 300))
    with Fleet.open(path, durable=durable) as fleet:
        assert fleet.priors == (prior,)
        assert learned(fleet.learn(*STREAM.part(300))) == learned_at_once(STREAM, shared=prior)
    with Fleet(shared=prior, path=path) as fleet:
        assert fleet.n_answers == len(STREAM)
    other = SharedPrior(prior.metric, log_weight=2.0)
    for settings in ({"shared": other}, {}):
        with pytest.raises(ValueError, match="has a fleet with another prior as shared; accepted: the same prior"):
            Fleet(path=path, **settings)


def test_the_prior_costs_keys_that_contradict_all_others_at_most_four_nats_in_ten_answers():
    """All keys look at one feature and say that the prior helps; then keys come that look at another one."""
    rng = np.random.default_rng(0)

    def answers(count, feature):
        pairs = rng.normal(size=(count, 2, 4))
        return pairs, np.where(abs(pairs[:, 0, feature] - pairs[:, 1, feature]) < 1, 1.0, -1.0)

    fleet = Fleet().learn(np.arange(2048) // 8, *answers(2048, 0))
    assert fleet.prior.is_likely
    costs = []
    for _ in range(60):
        pairs, y = answers(10, 3)
        losses = [
            np.logaddexp(0.0, -track_adaptive(4, prior=prior).replay(Events(pairs[:, 0] - pairs[:, 1], y))).sum()
            for prior in (fleet.prior, None)
        ]
        costs.append(losses[0] - losses[1])
    assert 0.0 < np.mean(costs) < 4.0


def test_changes():
    rng = np.random.default_rng(2)
    pairs = rng.normal(size=(1200, 2, 3))
    near = abs(pairs[:, 0] - pairs[:, 1]) < 1
    fleet = Fleet().learn("steady", pairs, near[:, 0]).learn("moved", pairs[:600], near[:600, 0])
    fleet.learn("moved", pairs[600:], near[600:, 1])
    assert list(fleet.changes()) == ["moved"]
    assert fleet.changes("steady") == []
    change = fleet.changes("moved")[0]
    assert abs(change.round - 600) < 40
    assert fleet.changes()["moved"] == fleet.changes("moved") == list(fleet.summary("moved").changes)


def test_the_compact_form_takes_less_space_and_predicts_nearly_the_same():
    exact, compact = (Fleet(form=form).learn(*STREAM) for form in ("exact", "compact"))
    keys = [key for key in exact if exact.summary(key).n_answers > 64]
    assert keys
    for key in keys:
        assert len(compact.state(key)) < 0.6 * len(exact.state(key))
    probabilities = [fleet.probability(STREAM.keys, STREAM.pairs) for fleet in (exact, compact)]
    np.testing.assert_allclose(*probabilities, atol=0.02)


# Results.


def test_results_follow_from_the_metric_of_each_key():
    fleet = Fleet().learn(*STREAM)
    part = STREAM.part(0, 120)
    U = part.pairs[:, 0] - part.pairs[:, 1]
    squares = np.array([fleet.metric(key).squared_length(u) for key, u in zip(part.keys, U, strict=True)])
    thresholds = np.array([fleet.metric(key).threshold for key in part.keys])
    np.testing.assert_allclose(fleet.distance(part.keys, part.pairs) ** 2, squares, rtol=1e-12)
    np.testing.assert_allclose(fleet.probability(part.keys, part.pairs), expit(thresholds - squares), rtol=1e-12)
    X, Z = (fleet.embed(part.keys, part.pairs[:, side]) for side in (0, 1))
    assert X.shape == (120, 4)
    np.testing.assert_allclose(((X - Z) ** 2).sum(axis=1), squares, rtol=1e-9)


def test_reading_changes_nothing_and_the_cache_of_metrics_is_bounded():
    fleet = Fleet(memory=60_000).learn(*STREAM)
    before = [fleet.probability(STREAM.keys, STREAM.pairs) for _ in range(2)]
    assert np.array_equal(*before)
    assert learned(fleet) == AT_ONCE
    assert 0 < len(fleet._metrics._cache) * (8 * 16) < 60_000
    fleet.learn(*keyed_stream(100, 20, seed=9))  # a cached metric must not outlive its state
    assert not np.array_equal(before[0], fleet.probability(STREAM.keys, STREAM.pairs))
    again = Fleet().learn(*STREAM).learn(*keyed_stream(100, 20, seed=9))
    assert np.array_equal(again.probability(STREAM.keys, STREAM.pairs), fleet.probability(STREAM.keys, STREAM.pairs))
    fleet.close()


def test_an_unknown_key_begins_as_a_new_one():
    fleet = Fleet().learn(*STREAM.part(0, 300))
    as_new = PackedTrackers(4, priors=fleet.priors).metric(None)
    assert fleet.metric("new") == as_new
    U = STREAM.pairs[:9, 0] - STREAM.pairs[:9, 1]
    np.testing.assert_array_equal(
        fleet.probability("new", STREAM.pairs[:9]), expit(as_new.threshold - as_new.squared_length(U))
    )
    assert "new" not in fleet
    assert learned(fleet) == learned_at_once(STREAM.part(0, 300))


def test_a_fleet_that_has_learned_nothing_measures_a_multiple_of_the_euclidean_distance():
    for fleet in (Fleet(), Fleet(4)):
        distances = fleet.distance(["a", 1, "a"], STREAM.pairs[:3])
        euclidean = np.linalg.norm(STREAM.pairs[:3, 0] - STREAM.pairs[:3, 1], axis=1)
        assert np.allclose(distances / euclidean, distances[0] / euclidean[0])
        assert len(fleet) == fleet.n_answers == 0
        assert fleet.keys() == []
        assert fleet.prior is None
        assert fleet.changes() == {}
    with pytest.raises(ValueError, match="has learned nothing, and it was created without n_features"):
        Fleet().metric("a")


def test_results_have_the_type_of_the_input():
    fleet = Fleet().learn(*STREAM.part(0, 100))
    pairs = STREAM.pairs[:5].astype(np.float32)
    assert fleet.probability("key 1", pairs).dtype == np.float32
    assert fleet.distance("key 1", pairs).dtype == np.float32
    assert fleet.embed("key 1", pairs[:, 0]).dtype == np.float32
    assert fleet.embed("key 1", pairs[:, 0].astype(float)).dtype == np.float64


def test_a_tracker_of_its_own_does_not_change_the_fleet():
    fleet = Fleet().learn(*STREAM)
    tracker = fleet.tracker("key 1")
    tracker.replay(Events(STREAM.pairs[:50, 0] - STREAM.pairs[:50, 1], STREAM.y[:50]))
    assert learned(fleet) == AT_ONCE


# Keys and tables.


class Site(enum.StrEnum):
    NORTH = "north"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["1", 1, "1"], ["1", 1]),
        ((np.int8(3), 3, np.str_("b")), [3, "b"]),
        (np.array([3, 1, 3]), [3, 1]),
        (np.ma.masked_array([3, 1, 3], mask=False), [3, 1]),
        (np.array([2**63 - 1, 0, 1], dtype=np.uint64), [2**63 - 1, 0, 1]),
        (np.array(["é", "", "é"]), ["é", ""]),
        (np.array(["a", 1, "a"], dtype=object), ["a", 1]),
        ([Site.NORTH, "north", "x\0y"], ["north", "x\0y"]),
        (pd.Series(["a", "b", "a"], index=[7, 8, 9]), ["a", "b"]),
        (pd.Series(["a", "b", "a"], dtype="category"), ["a", "b"]),
        (pd.Index([5, 6, 5]), [5, 6]),
        (pl.Series([5, 6, 5]), [5, 6]),
        (pa.array(["a", "b", "a"]), ["a", "b"]),
        ("all", ["all"]),
        (-(2**63), [-(2**63)]),
    ],
)
def test_accepted_keys(keys, expected, tmp_path):
    for path in (None, tmp_path / "fleet"):
        with Fleet(path=path).learn(keys, STREAM.pairs[:3], STREAM.y[:3]) as fleet:
            assert fleet.keys() == expected
            assert [type(key) for key in fleet] == [type(key) for key in expected]
            assert all(key in fleet for key in expected)
    with Fleet(path=tmp_path / "fleet", memory=0) as fleet:
        assert fleet.keys() == expected
        assert all(key in fleet for key in expected)
        assert fleet.summary(expected[0]).n_answers > 0


def test_tables():
    part = STREAM.part(0, 90)
    keys = [str(key) for key in part.keys]
    names = ["a", "b", "c", "d"]
    expected = learned(Fleet().learn(keys, part.pairs, part.y))
    left, right = ({name: part.pairs[:, side, at] for at, name in enumerate(names)} for side in (0, 1))
    sides = {f"left_{name}": left[name] for name in names} | {f"right_{name}": right[name] for name in names}
    columns = {"user": keys, **sides, "same": part.y == 1}
    vectors = {"user": keys, "left": part.pairs[:, 0].tolist(), "right": part.pairs[:, 1].tolist(), "same": part.y}
    lefts, rights = ([f"{side}_{name}" for name in names] for side in ("left", "right"))
    for kind in (pd.DataFrame, pl.DataFrame, pa.table, lambda table: pa.RecordBatch.from_pydict(table)):
        fleet = Fleet().learn((keys), (kind(left), kind(right)), part.y) if kind is not pa.table else None
        assert fleet is None or learned(fleet) == expected
        fleet = Fleet().learn_table(kind(columns), key="user", left=lefts, right=rights, same="same")
        assert learned(fleet) == expected
        fleet = Fleet().learn_table(kind(vectors), key="user", left="left", right="right", same="same")
        assert learned(fleet) == expected


def test_names_of_features_are_checked():
    left, right = (pd.DataFrame(STREAM.pairs[:5, side], columns=list("abcd")) for side in (0, 1))
    fleet = Fleet().learn("k", (left, right), STREAM.y[:5])
    assert fleet.embed("k", left).shape == (5, 4)
    for refused in (
        lambda: fleet.learn("k", (left[list("bacd")], right[list("bacd")]), STREAM.y[:5]),
        lambda: fleet.distance("k", (left[list("bacd")], right[list("bacd")])),
        lambda: fleet.embed("k", left[list("bacd")]),
    ):
        with pytest.raises(ValueError, match="another order: 'b' where 'a' is expected"):
            refused()


def test_learn_table_takes_the_names_of_the_left_columns():
    table = pl.DataFrame({"user": ["u"] * 5, "same": STREAM.y[:5]}).with_columns(
        pl.Series(f"{side}{name}", STREAM.pairs[:5, at, feature])
        for at, side in enumerate(("", "other "))
        for feature, name in enumerate("abcd")
    )

    def sides(names):
        return {"key": "user", "left": list(names), "right": [f"other {name}" for name in names], "same": "same"}

    fleet = Fleet().learn_table(table, **sides("abcd"))
    assert fleet.settings.feature_names == tuple("abcd")
    assert fleet.embed("u", table[list("abcd")]).shape == (5, 4)
    before = learned(fleet)
    for refused in (
        lambda: fleet.learn_table(table, **sides("bacd")),
        lambda: fleet.learn("u", (table[list("bacd")], table[list("bacd")]), STREAM.y[:5]),
        lambda: fleet.embed("u", table[list("bacd")]),
    ):
        with pytest.raises(ValueError, match="another order: 'b' where 'a' is expected"):
            refused()
    assert learned(fleet) == before
    fleet.learn("u", STREAM.pairs[:5], STREAM.y[:5])  # arrays have no names
    vectors = {"key": "user", "left": "v", "right": "v", "same": "same"}
    fleet.learn_table(pl.DataFrame({"user": ["u"], "v": [[1.0, 2, 3, 4]], "same": [1]}), **vectors)


def test_answers_as_bytes_are_the_same_answers():
    rows = KeyedRows(["é", -5, ""], np.array([0, 1, 2, 0]))
    answers = KeyedAnswers(rows, np.random.default_rng(0).normal(size=(4, 3)), np.array([1.0, -1, -1, 1]))
    again = KeyedAnswers.from_bytes(answers.to_bytes())
    assert again.rows.keys == rows.keys
    assert np.array_equal(again.rows.codes, rows.codes)
    assert np.array_equal(again.U, answers.U)
    assert np.array_equal(again.y, answers.y)


# Input that is refused.

PAIRS, Y = STREAM.pairs[:3], STREAM.y[:3]


def _with(value, where):
    pairs = PAIRS.copy()
    pairs[where] = value
    return pairs


@pytest.mark.parametrize(
    ("keys", "pairs", "y", "sentence"),
    [
        (
            ["a", None, "b"],
            PAIRS,
            Y,
            "keys holds None at row 1; accepted: texts of at most 1000 characters, or integers of 64 bits",
        ),
        (["a", float("nan"), "b"], PAIRS, Y, "keys holds nan at row 1; accepted: texts"),
        ([1.0, 2.0, 3.0], PAIRS, Y, "keys holds 1.0 at row 0; accepted: texts"),
        (np.array([1.0, np.nan, 2.0]), PAIRS, Y, "keys holds 1.0 at row 0; accepted: texts"),
        (["a", True, "b"], PAIRS, Y, "keys holds True at row 1; accepted: texts"),
        (["a", b"b", "b"], PAIRS, Y, "keys holds b'b' at row 1; accepted: texts"),
        (np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), PAIRS, Y, "keys holds None at row 1; accepted: texts"),
        (np.ma.masked_array(["a", "b", "c"], mask=[0, 0, 1]), PAIRS, Y, "keys holds None at row 2; accepted: texts"),
        (np.array(["2026-01-01"] * 3, "M8[ns]"), PAIRS, Y, r"keys holds .*2026-01-01.* at row 0; accepted: texts"),
        (np.array(["2026-01-01"] * 3, "M8[D]"), PAIRS, Y, r"keys holds .*2026-01-01.* at row 0; accepted: texts"),
        (np.array([1, 2, 3], "m8[ns]"), PAIRS, Y, r"keys holds .*timedelta64.* at row 0; accepted: texts"),
        (["a", "b", np.timedelta64(3, "s")], PAIRS, Y, r"keys holds .*timedelta64.* at row 2; accepted: texts"),
        (pd.Series(pd.to_datetime(["2026-01-01"] * 3)), PAIRS, Y, "keys holds Timestamp.* at row 0; accepted: texts"),
        (["a", ["b"], "b"], PAIRS, Y, r"keys holds \['b'\] at row 1; accepted: texts"),
        ([1, 2**63, 1], PAIRS, Y, "keys holds 9223372036854775808 at row 1; accepted: texts"),
        (["a", "a", "\ud800"], PAIRS, Y, r"keys holds '\\ud800' at row 2; accepted: texts"),
        (pd.Series([1, 2, None]), PAIRS, Y, "keys holds 1.0 at row 0; accepted: texts"),
        (pd.Series([1, 2, None], dtype="Int64"), PAIRS, Y, "keys holds .* at row 2; accepted: texts"),
        (pl.Series(["a", None, "a"]), PAIRS, Y, "keys holds None at row 1; accepted: texts"),
        (
            {"a": 1},
            PAIRS,
            Y,
            "keys is a dict; accepted: a column of texts of at most 1000 characters, or integers of 64 bits",
        ),
        (np.array([["a"], ["b"], ["c"]]), PAIRS, Y, r"keys has shape \(3, 1\); accepted: texts"),
        (None, PAIRS, Y, "keys is None; accepted: texts .*, one for each row or one for all rows"),
        (1.5, PAIRS, Y, "keys is 1.5; accepted: texts"),
        ("a", PAIRS, [True, None, False], "y holds None at position 1; accepted"),
        ("a", PAIRS, [1, "same", 0], "y holds 'same' at position 1; accepted"),
        ("a", PAIRS, ["s" * 99] * 3, "y holds a str of 101 characters at position 0; accepted"),
        (["a", "b"], PAIRS, Y, "keys has 2 entries for 3 pairs; accepted: one key for each"),
        ("a", PAIRS[:, :1], Y, r"pairs has shape \(3, 1, 4\); accepted: numbers of shape \(n_pairs, 2, n_features\)"),
        ("a", PAIRS[0], Y, r"pairs has shape \(2, 4\); accepted: numbers of shape \(n_pairs, 2, n_features\)"),
        ("a", PAIRS[:, :, :3], Y, "pairs has 3 features; 4 are expected"),
        ("a", _with(np.nan, (1, 0, 2)), Y, r"pairs holds nan at index \(1, 0, 2\); only finite numbers"),
        ("a", _with(np.inf, (2, 1, 0)), Y, r"pairs holds inf at index \(2, 1, 0\); only finite numbers"),
        ("a", _with(1e80, (2, 1, 0)), Y, "the points of pair 2 are too far apart: they differ by 1e[+]80"),
        (
            "a",
            _with(1e200, (1, 1, 0)),
            Y,
            r"points of pair 1 are too far apart: .* overflows; accepted: differences up to 1e\+75",
        ),
        ("a", [[["x"] * 4] * 2] * 3, Y, "pairs holds 'x' at index .*; accepted: numbers"),
        ("a", None, Y, "pairs is None; accepted: numbers"),
        ("a", (csr_array(PAIRS[:, 0]), csr_array(PAIRS[:, 1])), Y, "pairs is sparse; accepted: numbers"),
        ("a", np.empty((0, 2, 4)), Y, "y has 3 labels for 0 pairs"),
        ("a", np.empty((3, 2, 0)), Y, "pairs is empty"),
        ("a", PAIRS, Y[:2], "y has 2 labels for 3 pairs; accepted: one label per pair"),
        ("a", PAIRS, [1, 0, -1], "y holds 0 and -1; accepted"),
        ("a", PAIRS, [1, 1, 2], "y holds 2 at position 2; accepted"),
        ("a", PAIRS, [1, 0, 0], "y holds 0 for different pairs, but earlier labels held -1; accepted: one of the two"),
        ("a", PAIRS, ["same"] * 3, "y holds 'same' at position 0; accepted"),
    ],
)
def test_a_refused_call_changes_nothing(keys, pairs, y, sentence):
    fleet = Fleet().learn(*STREAM.part(0, 100))
    with pytest.raises((TypeError, ValueError), match=sentence) as refused:
        fleet.learn(keys, pairs, y)
    assert "\n" not in str(refused.value)
    assert learned(fleet.learn(*STREAM.part(100))) == AT_ONCE


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize(("note", "sentence"), [(5, "note is a int; accepted: a text"), ("\ud800", "note cannot be")])
def test_a_refused_note_changes_nothing(count, note, sentence):
    fleet = Fleet().learn(*STREAM.part(0, 100))
    with pytest.raises((TypeError, ValueError), match=sentence):
        fleet.learn(["a"] * count, PAIRS[:count], Y[:count], note=note)
    assert (fleet.n_answers, fleet.note) == (100, "")


@pytest.mark.parametrize(
    ("metric", "log_weight", "sentence"),
    [
        (np.eye(2), 0.0, "metric is a ndarray; accepted: a Metric"),
        (Metric(np.eye(2)), np.nan, "log_weight must be a finite number; got nan"),
        (Metric(np.eye(2)), -np.inf, "log_weight must be a finite number; got -inf"),
        (Metric(np.eye(2)), "0", "log_weight must be a finite number; got '0'"),
        (Metric(np.eye(2)), None, "log_weight must be a finite number; got None"),
    ],
)
def test_refused_priors(metric, log_weight, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        SharedPrior(metric, log_weight)
    assert type(SharedPrior(Metric(np.eye(2)), np.float32(1)).log_weight) is float


def test_a_refused_first_call_fixes_nothing():
    fleet = Fleet()
    with pytest.raises(TypeError, match="keys holds None"):
        fleet.learn([None] * 3, PAIRS, [1, 0, 0])
    assert fleet.n_features is None
    assert learned(fleet.learn(*STREAM)) == AT_ONCE


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"key": "users"}, "the table has no column 'users'; accepted: one of 'user', 'x1', 'x2', 'same', 'v'"),
        ({"left": []}, "left has 0 columns and right has 1; accepted: as many, at least one"),
        ({"left": ["x1", "x2"]}, "left has 2 columns and right has 1; accepted: as many, at least one"),
        ({"key": "hole"}, "column 'hole' of the table has no value in row 1; accepted: a value"),
        ({"same": "hole"}, "column 'hole' of the table has no value in row 1; accepted: a value"),
        (
            {"right": ["user"]},
            "right holds '.*' at position 0; accepted: numbers, or vectors of one length, in the column 'user'",
        ),
        ({"left": "v"}, r"left has shape \(2, 2\) and right has \(2, 1\); accepted: the same shape"),
    ],
)
def test_refused_tables(columns, sentence):
    data = {"user": ["a", "b"], "x1": [0.0, 1.0], "x2": [2.0, 3.0], "same": [True, False]}
    data |= {"v": [[1.0, 2.0], [3.0, 4.0]]}
    if "hole" in columns.values():
        data["hole"] = [1, None]
    arguments = {"key": "user", "left": ["x1"], "right": ["x2"], "same": "same"} | columns
    with pytest.raises((TypeError, ValueError), match=sentence):
        Fleet().learn_table(pl.DataFrame(data), **arguments)
    with pytest.raises(TypeError, match="table is a dict; accepted: a dataframe"):
        Fleet().learn_table(data, **arguments)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"n_features": 0}, "n_features must be a whole number of at least 1; got 0"),
        ({"form": "small"}, "form must be one of 'exact', 'compact'; got 'small'"),
        ({"shared": "yes"}, "shared must be one of True, False; got 'yes'"),
        ({"memory": "2 otters"}, "memory is '2 otters'; accepted: a number of bytes, or a text such as '500 MB'"),
        ({"memory": -1}, "memory is -1; accepted"),
        ({"memory": None}, "memory is None; accepted"),
        ({"memory": "9" * 400 + " GB"}, r"memory is '9{59}\.\.\.; accepted"),
        ({"memory": 10**400}, r"memory is 10{59}\.\.\.; accepted: .*, up to 1 EiB"),
        ({"memory": "1000000 MBytes"}, "memory is '1000000 MBytes'; accepted"),
        ({"durable": True}, "durable=True needs a path"),
        ({"durable": 1, "path": "x"}, "durable must be one of True, False; got 1"),
    ],
)
def test_refused_settings(settings, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        Fleet(**settings)


def test_refused_questions():
    fleet = Fleet().learn(*STREAM)
    for ask in (fleet.state, fleet.tracker, fleet.summary, fleet.changes):
        with pytest.raises(KeyError, match="this fleet has no key 'nobody'"):
            ask("nobody")
    for ask in (fleet.state, fleet.metric):
        with pytest.raises(TypeError, match=r"the key is 1\.5; accepted: a text, or an integer"):
            ask(1.5)
    assert 1.5 not in fleet
    assert None not in fleet
    with pytest.raises(ValueError, match="keys has 1 entries for 3 rows"):
        fleet.embed(["a"], PAIRS[:, 0])
    with pytest.raises(TypeError, match="X is sparse"):
        fleet.embed("a", csr_array(PAIRS[:, 0]))
    with pytest.raises(ValueError, match="no path to save to"):
        fleet.save()
    with pytest.raises(TypeError, match="a Fleet cannot be pickled or copied; open its path"):
        pickle.dumps(fleet)
    assert learned(fleet) == AT_ONCE


def test_empty_batches_are_accepted():
    fleet = Fleet()
    empty = pd.DataFrame({name: [] for name in "abcd"})
    for n, pairs in ((None, []), (None, np.empty((0, 2, 4))), (4, (empty, empty))):
        assert fleet.learn([], pairs, []).n_features is None
        assert fleet.probability([], pairs).shape == (0,)
        assert learned(Fleet(n).learn([], pairs, []).learn(*STREAM)) == AT_ONCE
    assert fleet.embed([], np.empty((0, 4))).shape[0] == 0
    table = pl.DataFrame({"user": [], "x1": [], "x2": [], "same": []})
    assert len(fleet.learn_table(table, key="user", left=["x1"], right=["x2"], same="same")) == 0
    with pytest.raises(ValueError, match="keys has 1 entries for 0 pairs"):
        fleet.learn(["a"], [], [])


@pytest.mark.parametrize("factor", [1e70, 1e-70])
def test_huge_and_tiny_values(factor):
    """The unit of the features does not matter, and nothing overflows with a warning."""
    fleet, other = Fleet().learn(*STREAM), Fleet().learn(STREAM.keys, factor * STREAM.pairs, STREAM.y)
    one = fleet.probability(STREAM.keys, STREAM.pairs)
    np.testing.assert_allclose(other.probability(STREAM.keys, factor * STREAM.pairs), one, rtol=1e-3, atol=1e-6)
    assert np.isfinite(other.embed(STREAM.keys, factor * STREAM.pairs[:, 0])).all()
    assert fleet.probability("key 1", 1e150 * STREAM.pairs[:3]).max() == 0.0


def test_the_compact_form_refuses_what_single_precision_cannot_hold():
    fleet = Fleet(form="compact").learn(*STREAM)
    with pytest.raises(ValueError, match=r"pair 2 are too far apart for form='compact': they differ by 1e\+20; accept"):
        fleet.learn("a", _with(1e20, (2, 1, 0)), Y)
    fleet.learn(STREAM.keys, 1e14 * STREAM.pairs / 4, STREAM.y)
    assert np.isfinite(fleet.probability(STREAM.keys, STREAM.pairs)).all()


def test_memory_sizes():
    assert [parse_memory(size) for size in ("0 B", "1000000", "1kb", " 2.5 MB ", "1 GiB", np.int64(7))] == [
        0,
        1_000_000,
        1000,
        2_500_000,
        2**30,
        7,
    ]


# Interruptions, threads and processes.


@pytest.mark.parametrize("kind", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("n_done", range(7))
def test_an_interrupted_call_is_completed_by_the_next(monkeypatch, n_done, kind):
    monkeypatch.setattr("ocelad.fleet.held_states._MIN_KEYS", 10)
    fleet, learn, n_calls = Fleet(4, memory=30_000), PackedTrackers.learn, iter(range(10**6))

    def interrupted(packed, *arguments):
        if next(n_calls) == n_done:
            raise kind
        return learn(packed, *arguments)

    monkeypatch.setattr(fleet._learner.packed, "learn", interrupted.__get__(fleet._learner.packed))
    with pytest.raises(kind):
        fleet.learn(*STREAM.part(0, 500))
    assert fleet.n_answers == 500
    assert learned(fleet.learn(*STREAM.part(500))) == AT_ONCE
    fleet.close()


def test_threads_may_learn_and_ask():
    """Each thread has keys of its own, which must equal those of one thread; without a prior their order is open."""
    fleet, errors = Fleet(shared=False, memory=100_000), []
    streams = [keyed_stream(300, 6, seed=seed) for seed in range(4)]

    def run(seed):
        try:
            stream = streams[seed]
            for at in range(0, 300, 50):
                part = stream.part(at, at + 50)
                fleet.learn([f"{seed} {key}" for key in part.keys], part.pairs, part.y)
                assert np.isfinite(fleet.probability([f"{seed} {key}" for key in part.keys], part.pairs)).all()
                assert len(fleet) > 0
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[seed]) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert fleet.n_answers == 1200
    for seed, stream in enumerate(streams):
        alone = Fleet(shared=False).learn(*stream)
        assert all(fleet.state(f"{seed} {key}") == alone.state(key) for key in alone)
    fleet.close()


def test_a_closed_fleet_is_refused():
    fleet = Fleet(memory=1000).learn(*STREAM)
    folder = fleet._states.store.folder
    assert os.path.isdir(folder)
    fleet.close()
    fleet.close()
    assert not os.path.exists(folder)
    assert repr(fleet) == "Fleet(closed)"
    for use in (lambda: fleet.learn(*STREAM), lambda: len(fleet), lambda: fleet.metric("key 1"), fleet.save):
        with pytest.raises(ValueError, match="this fleet is closed; accepted: a new Fleet"):
            use()


def test_a_fleet_that_is_left_removes_its_temporary_file():
    fleet = Fleet(memory=1000).learn(*STREAM)
    folder = fleet._states.store.folder
    assert os.path.isdir(folder)
    del fleet
    assert not os.path.exists(folder)


@pytest.mark.parametrize("memory", ["1 GB", 0])
def test_a_file_that_is_left_without_saving_is_a_warning(tmp_path, memory):
    path = tmp_path / "fleet"
    fleet = Fleet(path=path, memory=memory).learn(*STREAM)
    with pytest.warns(
        ResourceWarning, match=r"fleet' was dropped without close\(\): what it learned since it was last"
    ):
        del fleet
    fleet = Fleet(path=path, memory=memory).learn(*STREAM)
    fleet.save()
    del fleet  # nothing is lost
    fleet = Fleet(path=path, memory=memory, durable=True).learn(*STREAM)
    del fleet
    with Fleet(path=path) as fleet:
        assert fleet.n_answers == 2 * len(STREAM)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_use_or_remove_the_file(tmp_path):
    fleet = Fleet(memory=1000).learn(*STREAM)
    pid = os.fork()
    if pid == 0:
        try:
            fleet.learn(*STREAM)
        except ValueError as error:
            fleet.close()
            os._exit(17 if "opened by another process" in str(error) else 1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17
    assert learned(fleet) == AT_ONCE
    fleet.close()
