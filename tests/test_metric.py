"""Metric: distances, the embedding, immutability, files."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from ocelad import Metric
from ocelad.testing import strategies


@given(strategies.metrics(3), strategies.vectors(3), strategies.vectors(3))
def test_embedding_turns_the_distance_into_the_euclidean_one(metric, x, z):
    embedded = np.linalg.norm(metric.embed(x) - metric.embed(z))
    assert metric.distance(x, z) == pytest.approx(embedded, rel=1e-6, abs=1e-5)
    assert metric.squared_distance(x, z) == pytest.approx((x - z) @ metric.matrix @ (x - z), rel=1e-9, abs=1e-9)


@given(strategies.metrics(3), strategies.vectors(3), strategies.vectors(3), strategies.vectors(3))
def test_is_a_pseudometric(metric, x, y, z):
    assert metric.distance(x, x) == 0
    assert metric.distance(x, z) == metric.distance(z, x)
    assert metric.distance(x, z) <= metric.distance(x, y) + metric.distance(y, z) + 1e-7


@given(strategies.metrics(4, max_rank=2))
def test_components_are_sorted_and_have_deterministic_signs(metric):
    components = metric.components
    assert metric.rank == len(components) <= 2
    np.testing.assert_allclose(components.T @ components, metric.matrix, atol=1e-9 * (1 + np.abs(metric.matrix).max()))
    lengths = np.linalg.norm(components, axis=1)
    assert (np.diff(lengths) <= 1e-12).all()
    for row in components:
        assert row[np.abs(row).argmax()] > 0


def test_factors_give_the_same_metric_as_their_matrix():
    L = np.random.default_rng(0).normal(size=(2, 5))
    x, z = np.random.default_rng(1).normal(size=(2, 7, 5))
    factored, dense = Metric.from_factors(L, 2.0, 3), Metric(L.T @ L, 2.0, 3)
    np.testing.assert_allclose(factored.distance(x, z), dense.distance(x, z))
    np.testing.assert_allclose(factored.components, dense.components, atol=1e-9)
    assert (factored.rank, factored.n_features) == (2, 5)
    L[:] = 0
    assert factored.rank == 2


def test_zero_metric_has_no_dimensions():
    for metric in (Metric(np.zeros((3, 3))), Metric.from_factors(np.zeros((2, 3)))):
        assert metric.rank == 0
        assert metric.embed(np.ones((4, 3))).shape == (4, 0)
        assert metric.distance(np.ones(3), np.zeros(3)) == 0


def test_rows_against_rows_and_against_one_point():
    metric = Metric(np.diag([1.0, 4.0]), threshold=4.0)
    X = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    np.testing.assert_allclose(metric.distance(X, [0, 0]), [0, 2, 4])
    np.testing.assert_allclose(metric.distance(X, X[::-1]), [4, 0, 4])
    assert metric.similar(X, [0, 0]).tolist() == [True, True, False]
    assert metric.distance_threshold == 2.0
    assert metric.embed(X, n_components=1).shape == (3, 1)


def test_is_immutable():
    metric = Metric(np.eye(2))
    for name in ("threshold", "round", "matrix", "anything"):
        with pytest.raises(AttributeError):
            setattr(metric, name, 1)
    with pytest.raises(AttributeError):
        del metric.threshold
    for array in (metric.matrix, metric.components):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 7.0


def test_does_not_hold_on_to_the_array_it_was_made_from():
    M = np.eye(2)
    metric = Metric(M)
    M[0, 0] = 9.0
    assert metric.matrix[0, 0] == 1.0
    assert M.flags.writeable


def test_equality_is_of_bits():
    M = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert Metric(M, 2.0, 3) == Metric(M.copy(), 2.0, 3)
    assert hash(Metric(M)) == hash(Metric(M.copy()))
    assert Metric(M) != Metric(M + np.diag([1e-15, 0]))
    assert Metric(M, 2.0) != Metric(M, 1.0)
    assert Metric(M, round=1) != Metric(M, round=2)
    assert Metric(np.eye(2)) != Metric.from_factors(np.eye(2))
    assert Metric.from_factors(np.eye(2)) == Metric.from_factors(np.eye(2))
    assert Metric(np.eye(2)) != Metric(np.eye(3))
    assert Metric(M) != M.tolist()


@given(strategies.metrics(3), st.integers(0, 10**12))
def test_pickles(metric, round):
    assert pickle.loads(pickle.dumps(metric.at(round))) == metric.at(round)


@pytest.mark.parametrize("make", [Metric, Metric.from_factors])
def test_saved_and_loaded_is_the_same_to_the_bit(tmp_path, make):
    L = np.random.default_rng(0).normal(size=(4, 4))
    metric = make(L @ L.T, 0.1 + 0.2 + 1, 12345)
    path = tmp_path / "metric.safetensors"
    metric.save(path)
    loaded = Metric.load(path)
    assert loaded == metric
    assert (loaded.components == metric.components).all()
    assert [file.name for file in tmp_path.iterdir()] == ["metric.safetensors"]


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "metric.safetensors"
    Metric(np.eye(2)).save(path)

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space left"):
        Metric(2 * np.eye(2)).save(path)
    assert Metric.load(path) == Metric(np.eye(2))
    assert len(list(tmp_path.iterdir())) == 1


def test_files_that_are_not_metrics_are_refused(tmp_path):
    path = tmp_path / "metric.safetensors"
    Metric(np.eye(3)).save(path)
    whole = path.read_bytes()
    for broken in (whole[:-8], whole[:20], b"", b"not a metric"):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="is not a whole metric file"):
            Metric.load(path)
    for arrays, about in (
        ({"matrix": np.eye(2)}, None),
        ({"matrix": np.eye(2)}, {"ocelad": "{"}),
        ({"matrix": np.eye(2)}, {"ocelad": '{"format": "ocelad.metric/9", "threshold": 1, "round": 0}'}),
        ({"other": np.eye(2)}, {"ocelad": '{"format": "ocelad.metric/1", "threshold": 1, "round": 0}'}),
        ({"matrix": -np.eye(2)}, {"ocelad": '{"format": "ocelad.metric/1", "threshold": 1, "round": 0}'}),
        ({"matrix": np.eye(2)}, {"ocelad": '{"format": "ocelad.metric/1", "threshold": "x", "round": 0}'}),
        ({"matrix": np.eye(2)}, {"ocelad": "[1]"}),
    ):
        save_file(arrays, path, metadata=about)
        with pytest.raises(ValueError, match="is not a whole metric file"):
            Metric.load(path)
    with pytest.raises(FileNotFoundError, match="no file at"):
        Metric.load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="no file at"):
        Metric.load(tmp_path)


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (np.ones((2, 3)), "a square matrix"),
        (np.ones(3), "accepted: a square matrix"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), "not symmetric"),
        (np.diag([1.0, -0.1]), "negative eigenvalue -0.1"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "only finite numbers"),
        ([["a", "b"], ["c", "d"]], "holds text"),
        (np.zeros((0, 0)), "is empty"),
    ],
)
def test_refuses_a_matrix_that_is_no_metric(matrix, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        Metric(matrix)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"threshold": -1}, "threshold must be a finite number of at least 0"),
        ({"threshold": float("nan")}, "threshold must be"),
        ({"round": -1}, "round must be a whole number of at least 0"),
        ({"round": 1.5}, "round must be a whole number"),
    ],
)
def test_refuses_settings(settings, sentence):
    for make in (Metric, Metric.from_factors):
        with pytest.raises((ValueError, TypeError), match=sentence):
            make(np.eye(2), **settings)


def test_rounding_below_zero_is_accepted():
    assert Metric(np.diag([1.0, -1e-14])).rank == 1


def test_saving_respects_the_umask_and_links_and_says_what_is_wrong(tmp_path):
    path, link = tmp_path / "metric.safetensors", tmp_path / "link"
    link.symlink_to(path)
    before = os.umask(0o027)
    try:
        Metric(np.eye(2)).save(link)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    Metric(np.eye(2)).save(tmp_path / ("x" * 250))
    with pytest.raises(FileNotFoundError, match=r"the folder '.*nowhere' does not exist"):
        Metric(np.eye(2)).save(tmp_path / "nowhere" / "metric")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        Metric(np.eye(2)).save(tmp_path)


def test_very_large_numbers():
    assert Metric([[1e308]]).matrix[0, 0] == 1e308
    assert Metric([[1e308]]).distance([1e10], [0.0]) == np.inf
    with pytest.raises(ValueError, match="factors are too large"):
        Metric.from_factors([[1e200]])


def test_rank_of_factors_that_depend_on_each_other():
    row = np.random.default_rng(0).normal(size=5)
    assert Metric.from_factors([row, 2 * row, row / 3]).rank == 1


def test_average_stays_within_what_is_averaged():
    metrics = [Metric(np.eye(2), threshold=1.0)] * 6
    assert Metric.average(metrics, np.full(6, 1 / 6)).threshold == 1.0


@pytest.mark.parametrize("method", ["distance", "squared_distance", "similar"])
@pytest.mark.parametrize(
    ("x", "z", "sentence"),
    [
        ([1.0, np.nan], [0.0, 0.0], "x holds nan at position 1"),
        ([1.0, 2.0], [0.0], "z has 1 features; 2 are expected"),
        ([], [], "x is empty"),
        ([[1.0, 2.0]] * 3, [[1.0, 2.0]] * 2, "x has 3 rows and z has 2"),
        ("ab", [0.0, 0.0], "x holds text"),
        (None, [0.0, 0.0], "x is None"),
        (np.zeros((1, 2, 2)), [0.0, 0.0], "x has shape"),
        ([1e200, 0.0], [0.0, 0.0], "too far apart"),
    ],
)
def test_distances_refuse(method, x, z, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        getattr(Metric(np.eye(2)), method)(x, z)


def test_embedding_refuses():
    metric = Metric(np.eye(2))
    for X, n_components, sentence in (
        ([1.0, np.inf], None, "X holds inf"),
        ([[1.0]], None, "X has 1 features"),
        ([[1.0, 2.0]], 0, "n_components must be"),
        ([[1.0, 2.0]], 1.5, "n_components must be"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence):
            metric.embed(X, n_components)
    with pytest.raises(ValueError, match="round must be"):
        metric.at(-1)


@pytest.mark.parametrize(
    ("factors", "sentence"),
    [([1.0], "factors has shape"), ([[np.nan]], "factors holds nan"), ([], "factors has shape")],
)
def test_factors_refused(factors, sentence):
    with pytest.raises(ValueError, match=sentence):
        Metric.from_factors(factors)
