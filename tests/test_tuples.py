"""Tuples of points from arrays, tables, sparse matrices, and indices with a preprocessor."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from ocelad import MetricTracker, Rice
from ocelad.estimators.tuples import read_points
from ocelad.io.dataframes import to_rows

NAMES = ["width", "height", "depth"]


def some_points(count=12, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 3)).round(2)


def make_tables(X):
    """Return the same numbers as every kind of table."""
    columns = {name: X[:, i] for i, name in enumerate(NAMES)}
    frame = pd.DataFrame(columns)
    return {
        "pandas": frame,
        "pandas, nullable": frame.astype("Float64"),
        "pandas, Arrow": frame.astype("double[pyarrow]"),
        "polars": pl.DataFrame(columns),
        "arrow": pa.table(columns),
        "record batch": pa.RecordBatch.from_pydict(columns),
    }


KINDS = list(make_tables(some_points()))


@pytest.mark.parametrize("kind", KINDS)
def test_tables_give_numbers_and_names(kind):
    X = some_points()
    values, names = to_rows(make_tables(X)[kind], "X")
    assert names == tuple(NAMES)
    np.testing.assert_array_equal(values, X)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 3, 4])
def test_tuples_of_tables_and_of_indices(kind, size):
    X, rng = some_points(), np.random.default_rng(1)
    indices = rng.integers(0, len(X), size=(9, size))
    parts = tuple(make_tables(X[indices[:, k]])[kind] for k in range(size))
    if hasattr(parts[0], "iloc"):  # rows of tables make a tuple by position, whatever their index
        parts[0].index = np.arange(9)[::-1] * 7
    of_indices = read_points(indices, size, preprocessor=make_tables(X)[kind])
    of_ids = read_points(pl.DataFrame(indices, schema=[f"id_{k}" for k in range(size)]), size, make_tables(X)[kind])
    for points in (read_points(parts, size), of_indices, of_ids):
        assert points.names == tuple(NAMES)
        for k in range(size):
            np.testing.assert_array_equal(points.parts[k], X[indices[:, k]])


@pytest.mark.parametrize(
    "preprocessor",
    [
        lambda X: X,
        lambda X: X.tolist(),
        lambda X: lambda indices: X[indices],
        lambda X: lambda indices: X[indices].tolist(),
        lambda X: lambda indices: make_tables(X[indices])["pandas"],
    ],
)
def test_preprocessors(preprocessor):
    X, indices = some_points(), np.array([[0, 3], [11, 2]])
    first, second = read_points(indices, 2, preprocessor(X)).parts
    np.testing.assert_array_equal(first, X[[0, 11]])
    np.testing.assert_array_equal(second, X[[3, 2]])


def test_sparse_stays_sparse():
    X, indices = some_points(), np.array([[0, 3], [11, 2]])
    X[X < 0] = 0
    with_names = pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(X), columns=NAMES)
    for given in (
        read_points((sparse.csc_matrix(X[[0, 11]]), sparse.coo_array(X[[3, 2]])), 2),
        read_points(indices, 2, sparse.csc_array(X)),
        read_points(indices, 2, lambda i: sparse.csr_matrix(X)[i]),
        read_points((with_names.iloc[[0, 11]], with_names.iloc[[3, 2]]), 2),
    ):
        assert all(sparse.issparse(part) for part in given.parts)
        np.testing.assert_array_equal(given.parts[0].toarray(), X[[0, 11]])
        np.testing.assert_array_equal(given.parts[1].toarray(), X[[3, 2]])


EVEN = pd.DataFrame(np.eye(2), columns=["a", "b"])
ODD = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, np.nan]})
BAD = [
    (lambda: to_rows(pd.DataFrame({"a": ["x"]}), "X"), "column 'a' of X holds String; accepted: columns of numbers"),
    (lambda: to_rows(pl.DataFrame({"a": [1, None]}), "X"), "column 'a' of X has no value in row 1"),
    (lambda: to_rows(pa.table({"a": pa.array([1.0, None])}), "X"), "column 'a' of X has no value in row 1"),
    (lambda: to_rows(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), "X"), "two columns of one name"),
    (lambda: to_rows(pa.table([[1.0], [2.0]], names=["a", "a"]), "X"), "two columns of one name"),
    (lambda: to_rows(ODD, "X"), "column 'b' of X has no value in row 1; accepted: finite numbers"),
    (
        lambda: read_points(np.zeros((3, 2)), 2),
        r"pairs has shape \(3, 2\); accepted: numbers of shape \(n_pairs, 2, n_fe",
    ),
    (lambda: read_points(np.zeros((3, 2, 1)), 3), r"triplets has shape \(3, 2, 1\); accepted"),
    (lambda: read_points([[0, 1, 2]], 2, np.eye(3)), r"pairs has shape \(1, 3\); accepted"),
    (
        lambda: read_points([[0, 3]], 2, np.eye(3)),
        r"the index 3 at \(0, 1\); the preprocessor has 3 points, from 0 to 2",
    ),
    (lambda: read_points([[0, -1]], 2, np.eye(3)), r"the index -1 at \(0, 1\)"),
    (lambda: read_points([[0.5, 1.0]], 2, np.eye(3)), "indices of type float64; accepted: integers from 0 to 2"),
    (lambda: read_points([[0, 1]], 2, np.ones(3)), r"the preprocessor has shape \(3,\); accepted: one point per row"),
    (lambda: read_points([[0, 1]], 2, lambda i: np.ones(3)), r"returned shape \(3,\) for 1 indices"),
    (lambda: read_points([[0, 1]], 2, np.full((3, 2), np.nan)), "the preprocessor holds nan"),
    (lambda: read_points([[0, 1]], 2, np.eye(3), n_features=2), "the preprocessor has 3 features; 2 are expected"),
    (lambda: read_points((sparse.eye_array(3), np.eye(3)), 2), "X is sparse and Z is not"),
    (lambda: read_points((sparse.eye_array(3), sparse.csr_array(np.ones((2, 3)))), 2), "X has 3 rows and Z has 2"),
    (lambda: read_points((sparse.eye_array(3), sparse.eye_array(2)), 2), "Z has 2 features; 3 are expected"),
    (lambda: read_points((sparse.eye_array(3),) * 2, 2, n_features=5), "X has 3 features; 5 are expected"),
    (lambda: read_points(sparse.eye_array(3), 2), "pairs is one sparse matrix; accepted: 2 of them"),
    (
        lambda: read_points((ODD[["a"]], ODD[["a"]].rename(columns={"a": "c"})), 2),
        "^the right table has the unknown features 'c' and lacks 'a'; accepted: the features of the left table$",
    ),
    (
        lambda: read_points((EVEN, EVEN[["b", "a"]]), 2),
        "^the right table has its features in another order: 'b' where 'a' .* in the order of the left table$",
    ),
    (
        lambda: read_points((EVEN[["a"]], EVEN[["a"]], EVEN[["b"]]), 3),
        "^V has the unknown features 'b' and lacks 'a'; accepted: the features of X$",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), BAD)
def test_refuses_invalid_input(call, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        call()


def test_a_tracker_stores_the_names():
    X, rng = some_points(40), np.random.default_rng(1)
    indices, y = rng.integers(0, 40, size=(300, 2)), rng.choice([1, -1], size=300)
    frame = make_tables(X)["polars"]
    plain = MetricTracker(method=Rice(step_size=0.1)).fit(X[indices], y)
    tracker = MetricTracker(method=Rice(step_size=0.1), preprocessor=frame).fit(indices, pl.Series(y))
    assert tracker.metric_ == plain.metric_
    assert tracker.feature_names_in_.tolist() == NAMES
    assert not hasattr(plain, "feature_names_in_")
    assert [row.feature for row in plain.feature_weights(items=X)] == [
        f"x{NAMES.index(row.feature)}" for row in tracker.feature_weights()
    ]
    np.testing.assert_array_equal(tracker.transform(frame), plain.transform(X))
    assert len(tracker.get_feature_names_out()) == tracker.transform(frame).shape[1]
    for table, sentence in (
        (frame[:, ::-1], "X has its features in another order: 'depth' where 'width' is expected"),
        (frame.rename({"depth": "length"}), "X has the unknown features 'length' and lacks 'depth'"),
    ):
        with pytest.raises(ValueError, match=sentence):
            tracker.transform(table)
    before = tracker.metric_
    with pytest.raises(ValueError, match="in another order"):
        tracker.partial_fit((frame[:, ::-1], frame[:, ::-1]), np.ones(40))
    assert tracker.metric_ is before
    tracker.fit(X[indices], y)
    assert not hasattr(tracker, "feature_names_in_")


def test_feature_weights_are_a_table():
    pairs = np.random.default_rng(0).normal(size=(500, 2, 3))
    y = np.abs(pairs[:, 0, 1] - pairs[:, 1, 1]) < 1
    tracker = MetricTracker(method=Rice(step_size=0.1)).fit(pairs, y)
    table = pd.DataFrame(tracker.feature_weights())
    assert table.columns.tolist() == ["feature", "weight", "share"]
    assert table.feature[0] == "x1"
    assert table.share.sum() == pytest.approx(1)
    assert table.weight.is_monotonic_decreasing
    assert sorted(table.weight) == sorted(np.diag(tracker.get_mahalanobis_matrix()))
    assert len(tracker.feature_weights(2)) == 2
    with pytest.raises(ValueError, match="n_features must be a whole number of at least 1"):
        tracker.feature_weights(0)


@pytest.mark.parametrize(
    "column", [pa.array, lambda y: pa.chunked_array([y[:1], y[1:]]), pl.Series, lambda y: pd.Series(y, dtype="boolean")]
)
def test_labels_in_columns(column):
    pairs = np.random.default_rng(0).normal(size=(3, 2, 2))
    expected = MetricTracker().fit(pairs, [True, False, True])
    assert MetricTracker().fit(pairs, column([True, False, True])).metric_ == expected.metric_
    with pytest.raises((ValueError, TypeError), match="y holds"):
        MetricTracker().fit(pairs, column([True, None, True]))


def test_integer_column_labels_are_not_names():
    X = some_points()
    assert to_rows(pd.DataFrame(X), "X").names is None
    np.testing.assert_array_equal(to_rows(pd.DataFrame(X), "X").values, X)
    tracker = MetricTracker(preprocessor=pd.DataFrame(X)).fit([[0, 1], [2, 3]], [1, -1])
    assert tracker.transform(pd.DataFrame(X)).shape == (12, 3)
    assert not hasattr(tracker, "feature_names_in_")
