"""Metric: distances, embeddings, immutability and files."""

from __future__ import annotations

import copy
import os
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from scipy import sparse

from ocelad import Metric
from ocelad.pairs import Pair
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


def test_copies_the_matrix():
    M = np.eye(2)
    metric = Metric(M)
    M[0, 0] = 9.0
    assert metric.matrix[0, 0] == 1.0
    assert M.flags.writeable


def test_equality_compares_bits():
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
    assert pickle.loads(pickle.dumps(metric.with_round(round))) == metric.with_round(round)


@pytest.mark.parametrize("make", [Metric, Metric.from_factors])
def test_a_loaded_metric_has_the_same_bits(tmp_path, make):
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
        with pytest.raises(ValueError, match="is not a valid metric file"):
            Metric.load(path)
    for arrays, metadata in (
        ({"matrix": np.eye(2)}, None),
        ({"matrix": np.eye(2)}, {"ocelad": "{"}),
        ({"matrix": np.eye(2)}, {"ocelad": '{"format": "ocelad.metric/0", "threshold": 1, "round": 0}'}),
        ({"other": np.eye(2)}, {"ocelad": '{"format": "ocelad.metric/1", "threshold": 1, "round": 0}'}),
        ({"matrix": -np.eye(2)}, {"ocelad": '{"format": "ocelad.metric/1", "threshold": 1, "round": 0}'}),
        ({"matrix": np.eye(2)}, {"ocelad": '{"format": "ocelad.metric/1", "threshold": "x", "round": 0}'}),
        ({"matrix": np.eye(2)}, {"ocelad": "[1]"}),
    ):
        save_file(arrays, path, metadata=metadata)
        with pytest.raises(ValueError, match="is not a valid metric file"):
            Metric.load(path)
    with pytest.raises(FileNotFoundError, match="no file at"):
        Metric.load(tmp_path / "nowhere")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        Metric.load(tmp_path)


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        (np.ones((2, 3)), "a square matrix"),
        (np.ones(3), "accepted: a square matrix"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), "not symmetric"),
        (np.diag([1.0, -0.1]), "negative eigenvalue -0.1"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), "only finite numbers"),
        ([["a", "b"], ["c", "d"]], "holds 'a' at index"),
        (np.zeros((0, 0)), "is empty"),
    ],
)
def test_refuses_an_invalid_matrix(matrix, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        Metric(matrix)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"threshold": float("nan")}, "threshold must be a finite number"),
        ({"threshold": float("-inf")}, "threshold must be a finite number"),
        ({"threshold": "1"}, "threshold must be a finite number"),
        ({"round": -1}, "round must be a whole number of at least 0"),
        ({"round": 1.5}, "round must be a whole number"),
    ],
)
def test_refuses_settings(settings, sentence):
    for make in (Metric, Metric.from_factors):
        with pytest.raises((ValueError, TypeError), match=sentence):
            make(np.eye(2), **settings)


@pytest.mark.parametrize("metric", [Metric(np.eye(2), -4.0), Metric.from_diagonal([1.0, 1.0], -4.0)])
def test_with_a_negative_threshold_no_pair_is_similar(metric, tmp_path):
    assert metric.distance_threshold == -2.0
    assert not metric.similar([1.0, 2.0], [1.0, 2.0])
    assert metric.margin(Pair([0.0, 0.0], [1.0, 0.0], similar=True)) == -5.0
    metric.save(tmp_path / "metric")
    assert Metric.load(tmp_path / "metric") == metric == pickle.loads(pickle.dumps(metric))


def test_rounding_below_zero_is_accepted():
    assert Metric(np.diag([1.0, -1e-14])).rank == 1


def test_saving_respects_the_umask_and_links_and_reports_errors(tmp_path):
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


def test_from_trusted_matrix_neither_checks_nor_copies():
    matrix = np.diag([1.0, -1.0])
    metric = Metric.from_trusted_matrix(matrix, 2.0, 3)
    assert metric.matrix is matrix
    assert not matrix.flags.writeable
    assert (metric.threshold, metric.round) == (2.0, 3)


@pytest.mark.parametrize("metric", [Metric([[4.0, 2.0], [2.0, 3.0]], 1.5, 7), Metric.from_diagonal([2.0, 0.5], 1.5, 7)])
def test_arrays_and_products(metric):
    V = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]])
    np.testing.assert_allclose(metric.matmul(V), metric.matrix @ V, rtol=1e-15)
    assert Metric.from_arrays(metric.arrays(), 1.5, 7) == metric
    expected = np.linalg.eigvalsh(metric.matrix)[::-1]
    np.testing.assert_allclose(metric.eigenvalues(), expected, rtol=1e-12)
    np.testing.assert_allclose(metric.eigenvalues(1), expected[:1], rtol=1e-12)


def test_a_pair_at_the_threshold_is_similar():
    metric = Metric([[1.0]], threshold=4.0)
    assert metric.similar([2.0], [0.0])
    assert not metric.similar([np.nextafter(2.0, 3.0)], [0.0])
    assert metric.length(np.array([2.0])) == 2.0
    assert metric([2.0], [0.0]) == 2.0
    assert metric([2.0], [0.0], squared=True) == 4.0


def test_very_large_numbers():
    assert Metric([[1e308]]).matrix[0, 0] == 1e308
    assert Metric([[1e308]]).distance([1e10], [0.0]) == np.inf
    with pytest.raises(ValueError, match="factors are too large"):
        Metric.from_factors([[1e200]])


def test_rank_of_dependent_factors():
    row = np.random.default_rng(0).normal(size=5)
    assert Metric.from_factors([row, 2 * row, row / 3]).rank == 1


def test_the_average_threshold_stays_in_range():
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
        ("ab", [0.0, 0.0], "x holds 'ab'; accepted"),
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
        metric.with_round(-1)


@pytest.mark.parametrize(
    ("factors", "sentence"),
    [([1.0], "factors has shape"), ([[np.nan]], "factors holds nan"), ([], "factors has shape")],
)
def test_factors_refused(factors, sentence):
    with pytest.raises(ValueError, match=sentence):
        Metric.from_factors(factors)


def some_parts(form, n=6, seed=0):
    """Return (diagonal, rows, scales) of a positive semidefinite matrix of this form."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(2, n))
    orthonormal = np.linalg.qr(rows.T)[0].T
    none, no_scales = np.zeros((0, n)), np.zeros(0)
    return {
        "factors": (0.0, rows, np.ones(2)),
        "factors of zeros": (np.zeros(n), rows, np.array([2.0, 0.5])),
        "base": (0.7, none, no_scales),
        "weights": (np.array([0.0, 3.0, 0.0, 0.5, 2.0, 3.0])[:n], none, no_scales),
        "no weight": (np.zeros(n), none, no_scales),
        "base and more": (0.7, rows, np.array([1.0, 0.3])),
        "base, more and less": (0.7, orthonormal, np.array([1.5, -0.4])),
        "base without a direction": (0.7, orthonormal, np.array([1.5, -0.7])),
        "weights and more": (np.linspace(0.0, 2.0, n), rows, np.array([1.0, 0.3])),
        "many rows": (0.1, rng.normal(size=(2 * n, n)), rng.random(2 * n)),
    }[form]


FORMS = [
    "factors",
    "factors of zeros",
    "base",
    "weights",
    "no weight",
    "base and more",
    "base, more and less",
    "base without a direction",
    "weights and more",
    "many rows",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_every_form_is_the_metric_of_its_matrix(form, seed):
    diagonal, rows, scales = some_parts(form, seed=seed)
    metric = Metric.low_rank(diagonal, rows, scales, 1.5, 7)
    M = np.diag(np.broadcast_to(diagonal, 6)) + sum(s * np.outer(w, w) for s, w in zip(scales, rows, strict=True))
    dense = Metric(M, 1.5, 7)
    np.testing.assert_allclose(metric.matrix, M, atol=1e-13)
    assert (metric.matrix == metric.matrix.T).all()
    X, Z = np.random.default_rng(seed + 10).normal(size=(2, 8, 6))
    np.testing.assert_allclose(metric.squared_distance(X, Z), dense.squared_distance(X, Z), rtol=1e-11, atol=1e-12)
    assert metric.squared_distance(X[0], Z[0]) == pytest.approx(dense.squared_distance(X[0], Z[0]), abs=1e-12)
    assert (metric.similar(X, Z) == dense.similar(X, Z)).all()
    assert metric.rank == dense.rank == len(metric.components)
    assert (metric.n_features, metric.threshold, metric.round) == (6, 1.5, 7)
    np.testing.assert_allclose(metric.components.T @ metric.components, M, atol=1e-12)
    lengths = np.linalg.norm(metric.components, axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(dense.components, axis=1), rtol=1e-9)
    for k in (1, 2, 5, None):
        embedded = metric.embed(X, k)
        # Directions of equal eigenvalues are not unique, but the sum of squares along the first k is.
        assert np.square(embedded).sum() == pytest.approx(np.square(X @ metric.components[:k].T).sum())
        assert (embedded == metric.embed(X, k)).all()
    flat = metric.embed(X)
    np.testing.assert_allclose(np.linalg.norm(flat - metric.embed(Z), axis=1), dense.distance(X, Z), atol=1e-7)


@pytest.mark.parametrize("form", [*FORMS, "matrix"])
def test_sparse_rows_agree_with_dense_rows(form):
    metric = Metric(np.cov(np.eye(6)) + np.eye(6)) if form == "matrix" else Metric.low_rank(*some_parts(form), 1.5)
    rng = np.random.default_rng(3)
    X, Z = rng.normal(size=(2, 20, 6)) * (rng.random((2, 20, 6)) < 0.3)
    rows, others = sparse.csc_matrix(X), sparse.csr_array(Z)
    close = {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(metric.squared_distance(rows, others), metric.squared_distance(X, Z), **close)
    np.testing.assert_allclose(metric.distance(rows, others[[2]]), metric.distance(X, Z[2]), **close)
    np.testing.assert_allclose(metric.distance(rows[[2]], others), metric.distance(X[2], Z), **close)
    assert (metric.similar(rows, others) == metric.similar(X, Z)).all()
    np.testing.assert_allclose(metric.squared_length(sparse.csr_array(X)), metric.squared_length(X), **close)
    np.testing.assert_allclose(metric.embed(rows), metric.embed(X), **close)
    np.testing.assert_allclose(metric.embed(rows, 1), metric.embed(X, 1), **close)
    with pytest.raises(TypeError, match="x is sparse and z is not; accepted: both"):
        metric.distance(rows, Z)
    with pytest.raises(ValueError, match="x has 20 rows and z has 7"):
        metric.distance(rows, others[:7])
    with pytest.raises(ValueError, match="X has 5 features; 6 are expected"):
        metric.embed(rows[:, :5])


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_saved_pickled_compared_and_read_only(form, tmp_path):
    metric = Metric.low_rank(*some_parts(form), 1.5, 7)
    metric.save(tmp_path / "metric.safetensors")
    loaded = Metric.load(tmp_path / "metric.safetensors")
    assert loaded == metric == pickle.loads(pickle.dumps(metric))
    assert hash(loaded) == hash(metric)
    assert (loaded.components == metric.components).all()
    assert metric.with_round(8) != metric
    assert metric.with_round(8).with_round(7) == metric
    assert metric != Metric(metric.matrix, 1.5, 7)
    assert metric != Metric.low_rank(2.0, *some_parts(form)[1:], 1.5, 7)
    for array in (loaded.matrix, loaded.components, metric._form.diagonal, metric._form.rows, loaded._form.scales):
        assert not array.flags.writeable


def test_reads_early_files_of_factors(tmp_path):
    L = np.random.default_rng(0).normal(size=(2, 5))
    metadata = {"ocelad": '{"format": "ocelad.metric/1", "threshold": 2.0, "round": 3}'}
    save_file({"factors": L}, tmp_path / "old.safetensors", metadata=metadata)
    assert Metric.load(tmp_path / "old.safetensors") == Metric.from_factors(L, 2.0, 3)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"diagonal": np.array(-1.0)}, "not negative"),
        ({"diagonal": np.zeros(2)}, "shapes"),
        ({"scales": np.ones(3)}, "shapes"),
        ({"rows": np.ones(6)}, "shapes"),
        ({"scales": np.array([1.5, -0.8])}, "negative eigenvalue"),
        ({"scales": np.array([1.5, -0.8]), "diagonal": np.full(6, 0.7)}, "negative eigenvalue"),
        ({"scales": np.array([1.5, np.nan])}, "must be finite"),
        ({"scales": np.ones(2, dtype=np.float32)}, "must be finite float64 numbers"),
        ({"rows": np.full((2, 6), 1e200)}, "overflow"),
    ],
)
def test_refuses_a_file_with_invalid_arrays(change, sentence, tmp_path):
    path = tmp_path / "metric.safetensors"
    Metric.low_rank(*some_parts("base, more and less"), 1.5).save(path)
    metadata = {"ocelad": '{"format": "ocelad.metric/1", "threshold": 2.0, "round": 3}'}
    save_file({**load_file(path), **change}, path, metadata=metadata)
    with pytest.raises(ValueError, match=f"is not a valid metric file .*{sentence}"):
        Metric.load(path)


def test_an_average_keeps_the_smaller_form():
    metrics = [Metric.low_rank(*some_parts(form, seed=i), 1.0 + i, i) for i, form in enumerate(FORMS[2:6])]
    shares = np.array([0.1, 0.2, 0.3, 0.4])
    average = Metric.average(metrics, shares)
    np.testing.assert_allclose(average.matrix, sum(p * m.matrix for p, m in zip(shares, metrics, strict=True)))
    assert average.threshold == pytest.approx(3.0)
    assert average.round == 3
    weights = [Metric.from_diagonal([1.0, 0.0]), Metric.from_diagonal([0.0, 3.0])]
    assert Metric.average(weights, np.array([0.5, 0.5])) == Metric.from_diagonal([0.5, 1.5])


def test_from_diagonal_checks_and_copies_the_weights():
    weights = np.array([1.0, 2.0])
    metric = Metric.from_diagonal(weights)
    weights[0] = 7.0
    assert metric.distance([1.0, 0.0], [0.0, 0.0]) == 1.0
    with pytest.raises(ValueError, match="weights holds -1 at position 1; accepted: numbers of 0 or above"):
        Metric.from_diagonal([0.0, -1.0])


def test_a_hundred_thousand_features_need_little_memory(tmp_path):
    n = 100_000
    rng = np.random.default_rng(0)
    rows = sparse.random(50, n, density=1e-3, format="csr", random_state=rng)
    diagonal = Metric.from_diagonal(rng.random(n))
    low_rank = Metric.low_rank(0.5, rng.normal(size=(3, n)), np.array([2.0, 1.0, -1e-7]), 1.0)
    tracemalloc.start()
    for metric in (diagonal, low_rank):
        assert metric.distance(rows, rows[[0]]).shape == (50,)
        assert metric.embed(rows, 2).shape == (50, 2)
        assert metric.rank == n
        metric.save(tmp_path / "metric.safetensors")
        assert Metric.load(tmp_path / "metric.safetensors") == metric
        with pytest.raises(ValueError, match=r"would need an array of 10,000,000,000 numbers; .* embed\(X, n_comp"):
            _ = metric.components
    with pytest.raises(ValueError, match="would need an array"):
        low_rank.embed(rows, 3)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    "metric",
    [
        Metric([[2.0, 1.0], [1.0, 3.0]], threshold=1.5, round=7),
        Metric.from_factors([[2.0, 1.0]]),
        Metric.from_diagonal([2.0, 0.5]),
        Metric.low_rank(1.0, np.array([[0.6, 0.8]]), np.array([-1.0]), threshold=1.0),
    ],
)
def test_scaling_by_four_doubles_distances(metric):
    x, z = [1.0, 2.0], [-1.0, 0.5]
    scaled = metric.scaled(4.0)
    assert scaled.distance(x, z) == pytest.approx(2.0 * metric.distance(x, z), rel=1e-12)
    np.testing.assert_allclose(scaled.matrix, 4.0 * metric.matrix, rtol=1e-12)
    assert (scaled.threshold, scaled.round, scaled.is_diagonal) == (metric.threshold, metric.round, metric.is_diagonal)
    with pytest.raises(ValueError, match="factor must be a finite number of at least 0; got -1"):
        metric.scaled(-1)


@pytest.mark.parametrize(
    ("k", "n", "rank"), [(120, 300, 7), (120, 300, 29), (120, 300, 31), (200, 150, 5), (150, 400, 150)]
)
@pytest.mark.parametrize("sparse_columns", [False, True])
def test_components_of_many_rows_are_those_of_the_matrix(k, n, rank, sparse_columns):
    rng = np.random.default_rng(rank)
    rows = rng.normal(size=(k, rank)) @ (np.geomspace(1.0, 1e-9, rank)[:, None] * rng.normal(size=(rank, n)))
    if sparse_columns:
        rows[:, rng.random(n) < 0.5] = 0.0
    scales = rng.random(k)
    metric = Metric.low_rank(0.0, rows, scales, threshold=1.0)
    components = metric.components
    # Singular values down to 1e-9 of the largest are found, up to rounding relative to the largest.
    expected = np.linalg.svd(np.sqrt(scales)[:, None] * rows, compute_uv=False)
    found = np.linalg.norm(components, axis=1)
    assert len(found) <= min(rank, n)
    np.testing.assert_allclose(found, expected[: len(found)], atol=1e-13 * expected[0])
    assert expected[len(found) :].max(initial=0.0) <= 1e-10 * expected[0]
    np.testing.assert_allclose(components.T @ components, metric.matrix, atol=1e-13 * metric.matrix.max())
    directions = components[found > 1e-6 * found[0]]
    directions = directions / np.linalg.norm(directions, axis=1)[:, None]
    np.testing.assert_allclose(directions @ directions.T, np.eye(len(directions)), atol=1e-8)


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 2**32 - 1), st.sampled_from([1e-150, 1e-3, 1.0, 1e100]))
def test_the_unordered_embedding_has_the_same_distances(n, rank, seed, scale):
    rng = np.random.default_rng(seed)
    factors, X = rng.normal(size=(rank, n)), rng.normal(size=(5, n))
    metric = Metric(scale * (factors.T @ factors))
    unordered, embedded = metric.embed_unordered(X), metric.embed(X)
    assert unordered.shape[1] <= n
    # Rounding can leave a pivot above LAPACK's tolerance; a dimension beyond the rank is of the size of its root.
    assert np.abs(unordered[:, rank:]).max(initial=0.0) <= 1e-7 * np.abs(unordered).max(initial=0.0)
    for i in range(5):
        expected = np.square(embedded - embedded[i]).sum(axis=1)
        np.testing.assert_allclose(
            np.square(unordered - unordered[i]).sum(axis=1), expected, rtol=1e-9, atol=1e-12 * scale
        )


def test_the_threshold_is_one_and_the_round_zero_unless_they_are_given():
    for metric in (Metric(np.eye(2)), Metric.from_factors(np.eye(2)), Metric.from_diagonal(np.ones(2))):
        assert (metric.threshold, metric.round) == (1.0, 0)
    for metric in (
        Metric.from_trusted_matrix(np.eye(2), 1.0),
        Metric.low_rank(1.0, np.eye(2), np.ones(2), 1.0),
        Metric.from_arrays({"matrix": np.eye(2)}, 1.0),
    ):
        assert metric.round == 0
    for threshold in (0.0, 5.0, -2.0):
        assert Metric(np.eye(2), threshold).threshold == threshold
        assert Metric(np.eye(2)).scaled(0.0, threshold) == Metric(np.zeros((2, 2)), threshold)
    with pytest.raises(ValueError, match="threshold must be"):
        Metric(np.eye(2)).scaled(1.0, np.nan)
    assert Metric(np.eye(2), round=3).with_round(0).round == 0


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_matrix_may_deviate_by_rounding_relative_to_its_size(unit):
    for matrix, sentence in (([[1.0, 1e-6], [0.0, 1.0]], "not symmetric"), (np.diag([1.0, -1e-6]), "negative")):
        with pytest.raises(ValueError, match=sentence):
            Metric(unit * np.array(matrix))
    rounded = unit * np.array([[2.0, 1.0 + 1e-14], [1.0, 2.0]])
    metric = Metric(rounded)
    assert (metric.matrix == metric.matrix.T).all()
    np.testing.assert_allclose(metric.matrix, rounded, rtol=2e-14)
    assert Metric(unit * np.diag([1.0, -1e-14])).rank == 1


def test_a_symmetric_matrix_keeps_its_bits():
    assert Metric([[5e-324]]).matrix[0, 0] == 5e-324


@pytest.mark.parametrize("share", [0.5, 1.0, 2.0])
def test_the_rank_counts_values_above_rounding_as_numpy_does(share):
    """Singular values of factors and eigenvalues of a matrix count above ``max(shape) eps`` times the largest."""
    eps = np.finfo(float).eps
    factors = np.zeros((2, 64))
    factors[0, 0], factors[1, 1] = 1.0, share * 64 * eps
    assert Metric.from_factors(factors).rank == np.linalg.matrix_rank(factors) == (2 if share > 1 else 1)
    matrix = np.diag([1.0, share * 3 * eps, 0.0])
    assert Metric(matrix).rank == np.linalg.matrix_rank(matrix, hermitian=True) == (2 if share > 1 else 1)


def test_the_rank_above_a_scalar_diagonal_counts_all_directions_that_are_not_removed():
    """Rows that repeat each other or are zero lower the rank by no more than what they remove."""
    u = np.eye(5)[0]
    for rows, scales, rank in (
        ([u], [-1.0], 4),
        ([u], [-0.5], 5),
        ([u, u], [-0.5, -0.5], 4),
        ([u, np.eye(5)[3]], [-1.0, -1.0], 3),
        ([u, 0.0 * u], [-1.0, 1.0], 4),
        ([u], [1e20], 1),  # the diagonal is below rounding
    ):
        metric = Metric.low_rank(1.0, np.array(rows), np.array(scales), 1.0)
        assert metric.rank == np.linalg.matrix_rank(metric.matrix, hermitian=True) == len(metric.components) == rank


def test_all_components_need_an_array_of_limited_size(monkeypatch):
    monkeypatch.setattr("ocelad.metric._MAX_DENSE", 4)
    weights = np.array([1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert Metric.from_diagonal(weights).components.shape == (2, 8)
    base = Metric.low_rank(1.0, np.ones((1, 4)), np.ones(1), 1.0)
    assert base.components.shape == (4, 4)
    for metric in (
        Metric.from_diagonal(np.append(weights, 0.0)),
        Metric.low_rank(1.0, np.ones((1, 5)), np.ones(1), 1.0),
    ):
        with pytest.raises(ValueError, match="would need an array of"):
            _ = metric.components
        assert metric.embed(np.ones((1, metric.n_features)), 1).shape == (1, 1)


def test_scales_are_checked_where_the_diagonal_is_a_vector(monkeypatch):
    monkeypatch.setattr("ocelad.metric._MAX_DENSE", 4)
    for n in (4, 5):  # with a dense matrix, and without
        for scale, is_accepted in ((-0.9 / n, True), (-1.1 / n, False), (0.0, True), (1.0, True)):
            arrays = {"diagonal": np.ones(n), "rows": np.ones((1, n)), "scales": np.array([scale])}
            if is_accepted:
                assert Metric.from_arrays(arrays, 1.0).n_features == n
            else:
                with pytest.raises(ValueError, match="negative eigenvalue"):
                    Metric.from_arrays(arrays, 1.0)
            assert Metric.from_arrays({**arrays, "diagonal": np.array(2.0)}, 1.0).n_features == n


@pytest.mark.parametrize("seed", range(20))
def test_negative_eigenvalues_are_found_without_the_matrix(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    arrays = {"diagonal": rng.uniform(0.5, 2.0, 7), "rows": rng.normal(size=(3, 7)), "scales": rng.normal(size=3) / 9}
    lowest = np.linalg.eigvalsh(Metric.low_rank(**arrays, threshold=1.0).matrix)[0]
    monkeypatch.setattr("ocelad.metric._MAX_DENSE", 4)
    if lowest >= 0.0:
        assert Metric.from_arrays(arrays, 1.0).n_features == 7
    else:
        with pytest.raises(ValueError, match="negative eigenvalue"):
            Metric.from_arrays(arrays, 1.0)


def test_an_average_has_a_matrix_unless_its_rows_are_fewer_than_the_features():
    low = [Metric.low_rank(*some_parts("base and more", seed=seed), 1.0) for seed in range(3)]
    for metrics, names in (
        (low[:2], {"diagonal", "rows", "scales"}),
        (low, {"matrix"}),
        ([low[0], Metric(np.eye(6))], {"matrix"}),
    ):
        shares = np.full(len(metrics), 1.0 / len(metrics))
        average = Metric.average(metrics, shares)
        assert average.arrays().keys() == names
        np.testing.assert_allclose(average.matrix, sum(p * m.matrix for p, m in zip(shares, metrics, strict=True)))


@pytest.mark.parametrize("threshold", [0.1, 0.7, 1.3])
def test_equal_thresholds_have_this_average(threshold):
    for count in range(2, 12):
        metrics = [Metric.from_diagonal([1.0], threshold, round) for round in range(count)]
        average = Metric.average(metrics, np.full(count, 1.0 / count))
        assert (average.threshold, average.round) == (threshold, count - 1)


def test_the_diagonal_is_that_of_the_matrix():
    for form in FORMS:
        metric = Metric.low_rank(*some_parts(form), 1.5)
        np.testing.assert_allclose(metric.diagonal, np.diag(metric.matrix), rtol=1e-12, atol=1e-15)
        assert metric.is_diagonal == (not len(some_parts(form)[1]))
    assert Metric([[4.0, 1.0], [1.0, 2.0]]).diagonal.tolist() == [4.0, 2.0]


def test_copies_of_a_metric_are_the_metric():
    metric = Metric(np.eye(2))
    assert copy.deepcopy(metric) is metric
    assert metric != Metric.from_arrays({**Metric.from_diagonal([1.0, 1.0]).arrays()}, 1.0)
    for arrays in ({"matrix": np.eye(2, dtype=np.float32)}, {"matrix": np.eye(2), "rows": np.eye(2)}, {}):
        with pytest.raises(ValueError, match="a metric has the float64 array matrix"):
            Metric.from_arrays(arrays, 1.0)


def _random_low_rank(seed, n=7, k=3, diagonal=None, scales=None):
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.5, 1.0) if diagonal == "scalar" else rng.uniform(0.5, 1.0, size=n)
    rows = np.linalg.qr(rng.normal(size=(n, k)))[0].T
    scales = rng.uniform(-0.4, 5.0, size=k) if scales is None else np.array(scales)
    return Metric.low_rank(base, rows, scales, threshold=1.0, round=seed)


@pytest.mark.parametrize("dense", [False, True])
def test_a_weighted_sum_is_that_of_the_matrices(dense):
    metrics = [_random_low_rank(1, diagonal="scalar"), _random_low_rank(2, k=2)]
    if dense:
        metrics.append(Metric(np.diag(np.arange(7.0))))
    weights = np.array([0.5, 2.0, 0.25])[: len(metrics)]
    metric = Metric.weighted_sum(metrics, weights, -3.5, 12)
    expected = sum(w * m.matrix for w, m in zip(weights, metrics, strict=True))
    np.testing.assert_allclose(metric.matrix, expected, rtol=1e-12)
    assert (metric.matrix == metric.matrix.T).all()
    assert (metric.threshold, metric.round) == (-3.5, 12)
    assert ("rows" in metric.arrays()) != dense
    assert len(metric.arrays().get("rows", ())) == (0 if dense else 5)


@pytest.mark.parametrize("max_rank", [1, 2, 3, 4])
def test_a_truncated_metric_keeps_the_directions_with_the_largest_eigenvalues(max_rank):
    metric = _random_low_rank(3, scales=[0.1, -0.4, 3.0])
    truncated = metric.truncated(max_rank)
    assert len(truncated.arrays()["rows"]) == min(max_rank, 3)
    diagonal = np.diag(metric.arrays()["diagonal"])
    values, vectors = np.linalg.eigh(metric.matrix - diagonal)
    values[np.argsort(-np.abs(values))[max_rank:]] = 0.0
    np.testing.assert_allclose(truncated.matrix, diagonal + (vectors * values) @ vectors.T, atol=1e-12)
    assert (truncated.threshold, truncated.round) == (metric.threshold, metric.round)
    assert np.linalg.eigvalsh(truncated.matrix)[0] >= 0.0


@pytest.mark.parametrize("forms", ["low rank", "mixed", "dense"])
def test_the_relative_change_is_that_of_scaled_matrices(forms):
    mean_squares = np.array([1.0, 4.0, 0.01, 1.0, 9.0, 1.0, 100.0])
    before, after = _random_low_rank(4, diagonal="scalar"), _random_low_rank(5, k=4)
    if forms != "low rank":
        before = Metric(before.matrix)
    if forms == "dense":
        after = Metric(after.matrix)
    scaling = np.sqrt(np.outer(mean_squares, mean_squares))
    expected = np.linalg.norm(scaling * (after.matrix - before.matrix)) / np.linalg.norm(scaling * after.matrix)
    assert after.relative_change(before, mean_squares) == pytest.approx(expected, rel=1e-9)
    assert after.relative_change(after, mean_squares) == pytest.approx(0.0, abs=1e-7)  # the root of rounding
    zero = Metric.from_diagonal(np.zeros(7))
    assert zero.relative_change(zero, mean_squares) == 0.0
