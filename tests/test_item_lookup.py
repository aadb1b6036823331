"""Pairs by id: every kind of preprocessor gives the same tracker, and wrong ids and labels are refused."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from ocelad import MetricTracker, TripletTracker
from ocelad.estimators.item_lookup import find_items

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
IDS = [f"item {i}" for i in range(len(X))]
PAIRS = RNG.integers(len(X), size=(120, 2))
SAME = np.abs(X[PAIRS[:, 0], 0] - X[PAIRS[:, 1], 0]) < 1.0
COLUMNS = dict(zip("abc", X.T, strict=True))
BY_ID = {
    "mapping": dict(zip(IDS, X, strict=True)),
    "mapping of lists": {entry: point.tolist() for entry, point in zip(IDS, X, strict=True)},
    "pandas index": pd.DataFrame(COLUMNS, index=IDS),
    "pandas column": pd.DataFrame({"id": IDS, **COLUMNS}),
    "polars": pl.DataFrame({"id": IDS, **COLUMNS}),
    "arrow": pa.table({"id": IDS, **COLUMNS}),
}


def learn(preprocessor, pairs, curved):
    """Learn from some pairs at once and from the others one by one."""
    tracker = MetricTracker(preprocessor=preprocessor, curved=curved).fit(pairs[:100], SAME[:100])
    for (left, right), same in zip(pairs[100:], SAME[100:], strict=True):
        tracker.learn_one(left, right, same)
    return tracker


@cache
def learn_by_index(curved):
    return learn(X, PAIRS, curved)


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("items", BY_ID.values(), ids=BY_ID.keys())
def test_ids_and_indices_give_the_same_tracker(items, curved):
    named = np.array(IDS)[PAIRS]
    by_id, by_index = learn(items, named, curved), learn_by_index(curved)
    assert by_id.metric_ == by_index.metric_
    assert (by_id.predict_proba(named) == by_index.predict_proba(PAIRS)).all()
    assert [w.share for w in by_id.feature_weights()] == [w.share for w in by_index.feature_weights()]
    assert (pickle.loads(pickle.dumps(by_id)).predict(named) == by_index.predict(PAIRS)).all()


def test_a_mapping_may_grow_and_have_any_ids_and_sparse_points():
    items = {7: X[0], "a": X[1]}
    tracker = MetricTracker(preprocessor=items).learn_one(7, "a", True)
    items[8] = X[2]
    assert tracker.learn_one(7, 8, False).n_rounds_ == 2
    sparse = {entry: csr_array(point[None]) for entry, point in zip(IDS, X, strict=True)}
    by_id = MetricTracker(preprocessor=sparse).fit(np.array(IDS)[PAIRS], SAME)
    assert by_id.metric_ == MetricTracker(preprocessor=csr_array(X)).fit(PAIRS, SAME).metric_


def test_triplets_by_id():
    triplets = RNG.integers(len(X), size=(50, 3))
    by_id = TripletTracker(preprocessor=BY_ID["mapping"]).fit(np.array(IDS)[triplets])
    assert by_id.metric_ == TripletTracker(preprocessor=X).fit(triplets).metric_


def test_a_column_of_numbers_named_id_is_a_feature():
    table = pl.DataFrame({"id": [1.0, 2.0, 4.0], "a": [0.0, 1.0, 0.0]})
    assert MetricTracker(preprocessor=table).fit([[0, 1], [1, 2]], [1, -1]).n_features_in_ == 2


INTEGER_IDS = {"id": list(range(7, 47)), **COLUMNS}


@pytest.mark.parametrize("items", [pd.DataFrame(INTEGER_IDS), pl.DataFrame(INTEGER_IDS), pa.table(INTEGER_IDS)])
def test_a_column_of_integers_named_id_is_refused(items):
    with pytest.raises(ValueError, match=r"the preprocessor has a column 'id' of integers.*accepted: ids as text"):
        MetricTracker(preprocessor=items).fit(PAIRS, SAME)


def test_pairs_of_tables_may_have_a_feature_named_id():
    table = pd.DataFrame(INTEGER_IDS)
    tracker = MetricTracker().fit((table[:-1], table[1:]), SAME[:39])
    assert tracker.feature_names_in_.tolist() == ["id", "a", "b", "c"]
    assert tracker.transform(table).shape == (40, 4)


@pytest.mark.parametrize(
    ("items", "pairs", "sentence"),
    [
        (BY_ID["mapping"], [["item 1", "item 99"]], r"pairs holds 'item 99' at \(0, 1\); the preprocessor has no item"),
        (BY_ID["polars"], [["item 1", "item 2"], ["x", "item 2"]], r"pairs holds 'x' at \(1, 0\)"),
        ({"a": [1.0, 2.0], "b": [[1.0]]}, [["a", "b"]], r"a point of shape \(1, 1\) for the id 'b'"),
        (
            {"a": [1.0, 2.0], "b": [1.0]},
            [["a", "b"]],
            "for the id 'b'|and 1 for item 'b'; accepted: points of one length",
        ),
        (pl.DataFrame({"id": ["a", "a"], "x": [1.0, 2.0]}), [["a", "a"]], "has the id 'a' twice"),
        ({}, [["a", "b"]], "holds 'a' at"),
        (X[:0], [[0, 1]], r"the preprocessor has no rows \(shape \(0, 3\)\); accepted: at least one point"),
        (pl.DataFrame({"a": []}), [[0, 1]], "the preprocessor has no rows"),
        (X, [["item 1", "item 2"]], "accepted: integers from 0 to 39"),
        (X, [[0, 40]], r"holds the index 40 at \(0, 1\)"),
        (None, [["item 1", "item 2"]], "indices or ids of shape"),
        (lambda keys: X[:1], [["a", "b"], ["c", "d"]], r"returned shape \(1, 3\) for 2 indices"),
        ({"a": [np.nan], "b": [1.0]}, [["a", "b"]], "nan|finite"),
    ],
)
def test_wrong_ids_and_items_are_refused(items, pairs, sentence):
    tracker = MetricTracker(preprocessor=items)
    with pytest.raises((ValueError, TypeError), match=sentence):
        tracker.fit(pairs, [1] * len(pairs))
    assert not tracker.__sklearn_is_fitted__()


GAP = X.copy()
GAP[5, 2] = np.nan
GAP_COLUMNS = dict(zip("abc", GAP.T, strict=True))


@pytest.mark.parametrize(
    ("items", "keys", "sentence"),
    [
        (GAP, [6, 5], "the preprocessor holds nan for item 5 in feature 2"),
        (csr_array(GAP), [6, 5], "the preprocessor holds nan for item 5 in feature 2"),
        (dict(zip(IDS, GAP, strict=True)), ["item 6", "item 5"], "holds nan for item 'item 5' in feature 2"),
        (GAP.__getitem__, [6, 5], "holds nan for item 5 in feature 2"),
        (pd.DataFrame(GAP_COLUMNS), [6, 5], "has no value for item 5 in column 'c'"),
        (pd.DataFrame(GAP_COLUMNS, index=IDS), ["item 6", "item 5"], "has no value for item 'item 5' in column 'c'"),
        (pl.DataFrame({"id": IDS, **GAP_COLUMNS}), ["item 6", "item 5"], "holds nan for item 'item 5' in column 'c'"),
        (pl.DataFrame({"id": ["u", "v"], "a": [1.0, None]}), ["u", "v"], "has no value for item 'v' in column 'a'"),
        (pd.DataFrame({"a": [1.0, np.inf]}), [0, 1], "holds inf for item 1 in column 'a'"),
    ],
)
def test_a_number_that_is_missing_is_named_with_its_item(items, keys, sentence):
    tracker = MetricTracker(preprocessor=items)
    with pytest.raises(ValueError, match=sentence):
        tracker.learn_one(*keys, True)
    with pytest.raises(ValueError, match=sentence):
        tracker.fit([keys[:1] * 2, keys], [1, -1])
    tracker.start(1 if sentence.endswith("'a'") else 3)
    with pytest.raises(ValueError, match=sentence):
        tracker.transform(keys)


FRAME = pd.DataFrame(COLUMNS)


@pytest.mark.parametrize(
    ("table", "found"),
    [
        (FRAME[FRAME["a"] > 0], None),
        (FRAME[::-1], "the index 39 in row 0"),
        (pd.concat([FRAME, FRAME]), "the index 0 in row 40"),
        (FRAME.set_axis(range(1, 41)), "the index 1 in row 0"),
    ],
    ids=["filtered", "reversed", "concatenated", "from 1"],
)
def test_a_table_whose_index_holds_other_integers_than_positions_is_refused(table, found):
    with pytest.raises(ValueError, match=f"the preprocessor is a table with {found or 'the index'}.*reset_index"):
        MetricTracker(preprocessor=table).learn_one(0, 1, True)
    assert find_items(table.reset_index(drop=True)).n_items == len(table)
    assert find_items(table.set_axis([f"row {i}" for i in range(len(table))])).rows(np.array(["row 1"]), "").size == 3


def test_an_index_that_is_no_number_is_ignored():
    assert find_items(FRAME.set_axis(pd.date_range("2020", periods=40))).rows(np.array([1]), "").size == 3


def test_ids_without_items_are_refused_with_what_to_do(tmp_path):
    """Also after loading: a file does not hold the items."""
    MetricTracker(preprocessor=BY_ID["mapping"]).fit(np.array(IDS)[PAIRS], SAME).save(tmp_path / "tracker")
    tracker = MetricTracker.load(tmp_path / "tracker")
    assert tracker.preprocessor is None
    for keys in (["item 1", "item 2"], [1, 2]):
        for call in (
            lambda keys=keys: tracker.learn_one(*keys, True),
            lambda keys=keys: tracker.predict([keys]),
            lambda keys=keys: tracker.partial_fit([keys], [1]),
            lambda keys=keys: tracker.transform(keys),
        ):
            with pytest.raises((TypeError, ValueError), match=r"preprocessor.*set_params\(preprocessor=\.\.\.\)"):
                call()
    tracker.set_params(preprocessor=BY_ID["mapping"])
    assert tracker.learn_one("item 1", "item 2", True).n_rounds_ == len(PAIRS) + 1


@pytest.mark.parametrize("items", [None, X, BY_ID["mapping"]], ids=["no items", "array", "mapping"])
def test_one_pair_without_a_list_around_it_is_refused(items):
    tracker = MetricTracker(preprocessor=items).start(3)
    for pair in (["item 1", "item 2"], (1, 2)):
        with pytest.raises(ValueError, match=r"pairs has shape \(2,\); wrap a single one: \[\[a, b\]\]"):
            tracker.predict(pair)


@pytest.mark.parametrize("items", [X, BY_ID["mapping"]], ids=["array", "mapping"])
def test_one_point_without_a_list_around_it_is_refused(items):
    tracker = MetricTracker(preprocessor=items).start(3)
    with pytest.raises((TypeError, ValueError), match=r"points need two dimensions.*\[x\] instead of x"):
        tracker.transform(X[0])
    assert tracker.transform([X[0]]).shape[0] == 1


def test_items_are_not_pickled_twice():
    tracker = MetricTracker(preprocessor=BY_ID["polars"]).fit(np.array(IDS)[PAIRS], SAME)
    assert "_read_items" not in pickle.loads(pickle.dumps(tracker)).__dict__


def test_another_preprocessor_is_read_anew():
    tracker = MetricTracker(preprocessor=X).fit(PAIRS, SAME)
    tracker.set_params(preprocessor=2.0 * X)
    assert (
        tracker.pair_distance(PAIRS) == 2.0 * MetricTracker(preprocessor=X).fit(PAIRS, SAME).pair_distance(PAIRS)
    ).all()
    assert find_items(X).table() is X


# -- Labels --


def test_zero_and_one_are_labels():
    pairs, same = PAIRS[:40], SAME[:40]
    y = np.where(same, 1, -1)
    expected = MetricTracker(preprocessor=X).fit(pairs, y).metric_
    for labels in (same, same.astype(int), same.astype(float), same.tolist(), (y + 1) // 2):
        assert MetricTracker(preprocessor=X).fit(pairs, labels).metric_ == expected
    tracker = MetricTracker(preprocessor=X).fit(pairs, same.astype(int))
    assert set(tracker.predict(PAIRS)) <= {0, 1}
    assert tracker.score(PAIRS, SAME.astype(int)) == tracker.score(PAIRS, np.where(SAME, 1, -1))


@pytest.mark.parametrize(("first", "then"), [(0, -1), (-1, 0)])
def test_a_stream_with_0_and_with_minus_1_is_refused(first, then, tmp_path):
    with pytest.raises(ValueError, match="y holds 0 and -1"):
        MetricTracker(preprocessor=X).fit(PAIRS[:2], [first, then])
    tracker = MetricTracker(preprocessor=X).fit(PAIRS[:2], [1, first])
    tracker.save(tmp_path / "tracker")
    for each in (tracker, MetricTracker.load(tmp_path / "tracker").set_params(preprocessor=X)):
        each.partial_fit(PAIRS[:2], [1, 1]).partial_fit(PAIRS[:2], [True, False]).learn_one(0, 1, first)
        n_rounds, metric = each.n_rounds_, each.metric_
        sentence = f"y holds {then} for dissimilar pairs, but earlier labels held {first}"
        with pytest.raises(ValueError, match=sentence):
            each.partial_fit(PAIRS[:2], [1, then])
        with pytest.raises(ValueError, match=sentence):
            each.learn_one(0, 1, then)
        assert (each.n_rounds_, each.metric_) == (n_rounds, metric)
    assert tracker.fit(PAIRS[:2], [1, then]).n_rounds_ == 2  # fit begins again
