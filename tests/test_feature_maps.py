"""Feature maps approximate their kernel, curved metrics are distances, and both survive files and copies."""

from __future__ import annotations

import contextlib
import pickle
from copy import copy, deepcopy

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist, pdist
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem, RBFSampler

from ocelad.curved_metric import CurvedMetric
from ocelad.feature_maps import MAX_OWN_OUTPUTS, LandmarkMap, OwnMap, to_unit_length
from ocelad.metric import Metric

MIN_EIGENVALUE = 1e-3  # directions of the kernel matrix below this share of the largest one are dropped
SINGLE = 1e-6  # projections are stored in single precision


def few_digits(X):
    """Return numbers that single precision can hold: maps store landmarks in it."""
    return np.round(X * 2.0**12) / 2.0**12


def points(seed, rows=60, n=3):
    return few_digits(np.random.default_rng(seed).normal(size=(rows, n)))


def sparse_rows(seed, rows=60, n=12):
    """Return an array of which most entries are zero."""
    rng = np.random.default_rng(seed)
    return few_digits(np.where(rng.random((rows, n)) < 0.4, rng.normal(size=(rows, n)), 0.0))


def draw_map(X, n_landmarks=None, seed=0):
    return LandmarkMap.from_points(X, n_landmarks or X.shape[0], np.random.default_rng(seed))


def kernel(X, Z, width):
    return np.exp(-cdist(X, Z, "sqeuclidean") / width)


def inner_products(feature_map, X):
    features = feature_map(X)
    return features @ features.T


# -- LandmarkMap: the kernel --


@pytest.mark.parametrize(("rows", "n"), [(60, 1), (60, 3), (150, 2), (20, 30)])
def test_inner_products_approximate_the_kernel_of_all_landmarks(rows, n):
    """If all points are landmarks, only directions with small eigenvalues are missing."""
    X = points(rows + n, rows, n)
    feature_map = draw_map(X)
    K = kernel(X, X, feature_map.width)
    largest = np.linalg.eigvalsh(K)[-1]
    missing = np.linalg.eigvalsh(K - inner_products(feature_map, X))
    assert missing[-1] <= (MIN_EIGENVALUE + SINGLE) * largest
    assert missing[0] >= -SINGLE * largest
    assert feature_map.n_outputs == np.count_nonzero(np.linalg.eigvalsh(K) > MIN_EIGENVALUE * largest)
    assert (feature_map.n_features, feature_map(X).shape) == (n, (rows, feature_map.n_outputs))


def test_few_landmarks_give_the_nystroem_approximation():
    """The pseudoinverse drops the same directions as the map."""
    X, new = points(1, 80, 4), points(2, 30, 4)
    feature_map = draw_map(X, 25)
    L, width = feature_map.landmarks, feature_map.width
    assert L.shape == (25, 4)
    inverse = np.linalg.pinv(kernel(L, L, width), rcond=MIN_EIGENVALUE, hermitian=True)
    expected = kernel(new, L, width) @ inverse @ kernel(L, new, width)
    np.testing.assert_allclose(inner_products(feature_map, new), expected, atol=SINGLE)


def test_agrees_with_scikit_learn():
    """With few points in many dimensions, no direction is dropped."""
    X, new = points(3, 20, 30), points(4, 10, 30)
    feature_map = draw_map(X)
    other = Nystroem(kernel="rbf", gamma=1.0 / feature_map.width, n_components=20, random_state=0).fit(X)
    expected = other.transform(new) @ other.transform(new).T
    np.testing.assert_allclose(inner_products(feature_map, new), expected, atol=SINGLE)


def test_the_width_is_the_median_squared_distance_of_landmarks():
    for n_landmarks in (2, 25, 150):
        feature_map = draw_map(points(5, 150), n_landmarks)
        assert feature_map.width == pytest.approx(np.median(pdist(feature_map.landmarks, "sqeuclidean")), rel=1e-9)


def test_features_are_in_the_order_of_their_variance_with_known_signs():
    feature_map = draw_map(points(6), 40)
    projection, features = feature_map.projection, feature_map(feature_map.landmarks)
    lengths = np.square(features).sum(axis=0)
    assert (np.diff(lengths) <= 1e-9 * lengths[0]).all()
    assert (projection[np.abs(projection).argmax(axis=0), np.arange(projection.shape[1])] > 0.0).all()


def test_a_limit_of_features_keeps_the_first_ones():
    X = points(6)
    everything = draw_map(X)(X)
    for limit in (1, 7, 1000):
        feature_map = LandmarkMap.from_points(X, 60, np.random.default_rng(0), max_outputs=limit)
        assert feature_map.n_outputs == min(limit, everything.shape[1])
        np.testing.assert_allclose(feature_map(X), everything[:, :limit], rtol=1e-9, atol=1e-12)


# -- LandmarkMap: landmarks --


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array])
def test_landmarks_are_points_drawn_by_the_seed(as_rows):
    X = sparse_rows(7)
    one, same, other = (draw_map(as_rows(X), 20, seed) for seed in (1, 1, 2))
    assert (one(as_rows(X)) == same(as_rows(X))).all()
    dense = [L if isinstance(L, np.ndarray) else L.toarray() for L in (one.landmarks, other.landmarks)]
    assert not np.array_equal(*dense)
    for landmarks in dense:
        nearest = cdist(landmarks, X).argmin(axis=1)
        assert len(set(nearest)) == 20
        np.testing.assert_allclose(landmarks, X[nearest], atol=SINGLE)


@given(st.integers(0, 100), st.integers(2, 40), st.integers(1, 4), st.integers(2, 50))
def test_any_points_give_finite_features_of_length_at_most_one(seed, rows, n, n_landmarks):
    """On a grid many points are equal, and many distances as well."""
    X = np.random.default_rng(seed).integers(-2, 3, size=(rows, n)).astype(float)
    drawn = np.random.default_rng(seed).permutation(rows)[:n_landmarks]
    assume(len(np.unique(X[drawn], axis=0)) > 1)
    feature_map = draw_map(X, n_landmarks, seed)
    lengths = np.square(feature_map(X)).sum(axis=1)
    assert len(feature_map.landmarks) == len(np.unique(X[drawn], axis=0))
    assert 1 <= feature_map.n_outputs <= len(feature_map.landmarks)
    assert (lengths <= 1.0 + SINGLE).all()  # the kernel of a point with itself is 1


def test_sparse_points_give_the_same_map_as_dense_ones():
    X, new = sparse_rows(8), sparse_rows(9)
    dense, sparse = draw_map(X, 30), draw_map(csr_array(X), 30)
    np.testing.assert_allclose(sparse.landmarks.toarray(), dense.landmarks, atol=SINGLE)
    assert sparse.width == pytest.approx(dense.width, rel=SINGLE)
    expected = inner_products(dense, new)
    for feature_map, rows in ((sparse, csr_array(new)), (sparse, new), (dense, csr_array(new))):
        np.testing.assert_allclose(inner_products(feature_map, rows), expected, atol=SINGLE)


def test_duplicates_count_once():
    X = points(10, 20)
    expected, repeated = draw_map(X), draw_map(np.tile(X, (3, 1)))
    assert len(repeated.landmarks) == 20
    assert repeated.width == pytest.approx(expected.width, rel=1e-9)
    np.testing.assert_allclose(inner_products(repeated, X), inner_products(expected, X), atol=SINGLE)


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array])
@pytest.mark.parametrize("point", [[3.0, 0.0, -1.0], [0.0, 0.0, 0.0], [1e-200, 0.0, 0.0]])
@pytest.mark.parametrize("count", [1, 5])
def test_equal_points_give_no_map(as_rows, point, count):
    X = np.tile([point], (count, 1))
    with pytest.raises(ValueError, match="all points are equal; accepted: at least two different points"):
        draw_map(as_rows(X))
    with pytest.raises(ValueError, match="all points are equal"):
        draw_map(as_rows(np.vstack([X, X + 1.0])), 1)


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array])
def test_points_that_are_equal_up_to_rounding_give_finite_features(as_rows):
    """The median of their squared distances can be 0, and all distances of tiny points are."""
    X = np.array([[0.0, 1.0]] * 30 + [[0.0, -1.0]] * 10)
    X[:, 0] = 1e-9 * np.random.default_rng(0).normal(size=40)
    feature_map = draw_map(as_rows(X))
    assert feature_map.width > 0.0
    assert np.isfinite(feature_map(as_rows(X))).all()
    with pytest.raises(ValueError, match="all points are equal"):
        draw_map(as_rows(1e-200 * X))


def test_two_points_have_the_kernel_of_their_distance():
    """The width is their squared distance."""
    X = np.array([[1.0, 2.0], [4.0, -2.0]])
    expected = [[1.0, np.exp(-1.0)], [np.exp(-1.0), 1.0]]
    np.testing.assert_allclose(inner_products(draw_map(X), X), expected, atol=SINGLE)


# -- LandmarkMap: units and numbers --


@pytest.mark.parametrize("distance", [2.0**10, 2.0**24, 2.0**40])
def test_points_far_from_the_origin_lose_no_digits(distance):
    X = points(11)
    far = X + distance * np.array([1.0, -1.0, 0.5])
    assert (far - X == far[0] - X[0]).all()
    np.testing.assert_allclose(inner_products(draw_map(far, 30), far), inner_products(draw_map(X, 30), X), atol=SINGLE)


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array])
@pytest.mark.parametrize("power", [-300, -7, 1, 300])
def test_a_power_of_two_gives_the_same_bits(as_rows, power):
    X, factor = sparse_rows(12), 2.0**power
    feature_map, other = draw_map(as_rows(X), 30), draw_map(as_rows(factor * X), 30)
    assert (other(as_rows(factor * X)) == feature_map(as_rows(X))).all()
    assert other.width == factor**2 * feature_map.width


@pytest.mark.parametrize("size", [1e3, 1e6, 1e8, 1e20])
def test_an_outlier_does_not_hide_the_other_points(size):
    X = points(13)
    expected = kernel(X[1:], X[1:], draw_map(X[1:]).width)
    X[0, 0] = size
    feature_map = draw_map(X)
    assert len(feature_map.landmarks) == len(X)
    np.testing.assert_allclose(inner_products(feature_map, X[1:]), expected, atol=0.1)


def test_a_stack_of_arrays_gives_a_stack_of_features():
    X = points(14)
    feature_map = draw_map(X, 30)
    stacked = feature_map(X.reshape(5, 4, 3, 3))
    assert stacked.shape == (5, 4, 3, feature_map.n_outputs)
    np.testing.assert_allclose(stacked.reshape(60, -1), feature_map(X), rtol=1e-9, atol=1e-12)


# -- LandmarkMap: saved arrays --


def map_arrays(sparse=False):
    X = sparse_rows(15)
    return {name: array.copy() for name, array in draw_map(csr_array(X) if sparse else X, 30).arrays().items()}


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array])
def test_saved_arrays_give_the_same_bits(as_rows):
    X = as_rows(sparse_rows(16))
    feature_map = draw_map(X, 30)
    arrays = feature_map.arrays()
    restored = LandmarkMap.from_arrays(arrays)
    assert (restored(X) == feature_map(X)).all()
    assert (restored.width, restored.n_features) == (feature_map.width, feature_map.n_features)
    for name, array in restored.arrays().items():
        assert array.dtype == arrays[name].dtype
        assert np.array_equal(array, arrays[name]), name


DENSE_DAMAGE = {
    "no width": lambda arrays: arrays.pop("width"),
    "no projection": lambda arrays: arrays.pop("projection"),
    "no offsets": lambda arrays: arrays.pop("offsets"),
    "no origin": lambda arrays: arrays.pop("origin"),
    "origin of other features": lambda arrays: arrays.update(origin=np.zeros(3)),
    "origin in two dimensions": lambda arrays: arrays.update(origin=arrays["origin"][None]),
    "unknown name": lambda arrays: arrays.update(more=np.zeros(1)),
    "sparse and dense": lambda arrays: arrays.update(indptr=np.zeros(1)),
    "NaN in offsets": lambda arrays: arrays["offsets"].__setitem__((0, 0), np.nan),
    "infinite projection": lambda arrays: arrays["projection"].__setitem__((0, 0), np.inf),
    "NaN as width": lambda arrays: arrays.update(width=np.array([np.nan])),
    "no exponent": lambda arrays: arrays.pop("exponent"),
    "exponent too large": lambda arrays: arrays.update(exponent=np.array([5000])),
    "no positive width": lambda arrays: arrays.update(width=np.array([0.0])),
    "one row fewer": lambda arrays: arrays.update(projection=arrays["projection"][1:]),
    "offsets in one dimension": lambda arrays: arrays.update(offsets=arrays["offsets"][0]),
    "projection in one dimension": lambda arrays: arrays.update(projection=arrays["projection"][:, 0]),
    "two widths": lambda arrays: arrays.update(width=np.ones(2)),
    "two exponents": lambda arrays: arrays.update(exponent=np.ones(2, dtype=int)),
    "an exponent that is no integer": lambda arrays: arrays.update(exponent=np.array([0.5])),
    "origin of objects": lambda arrays: arrays.update(origin=arrays["origin"].astype(object)),
    "complex projection": lambda arrays: arrays.update(projection=arrays["projection"] * 1j),
    "no outputs": lambda arrays: arrays.update(projection=arrays["projection"][:, :0]),
    "no rows": lambda arrays: arrays.update(projection=arrays["projection"][:0], offsets=arrays["offsets"][:0]),
}
SPARSE_DAMAGE = {
    "no indices": lambda arrays: arrays.pop("indices"),
    "NaN in data": lambda arrays: arrays["data"].__setitem__(0, np.nan),
    "rows beyond the data": lambda arrays: arrays["indptr"].__setitem__(-1, len(arrays["data"]) + 1),
    "fewer data": lambda arrays: arrays.update(data=arrays["data"][1:]),
    # Compiled code of SciPy would read memory outside of the arrays.
    "index too large": lambda arrays: arrays["indices"].__setitem__(-1, 12),
    "negative index": lambda arrays: arrays["indices"].__setitem__(0, -1),
    "descending rows": lambda arrays: arrays["indptr"].__setitem__(1, len(arrays["data"])),
    "rows that are numbers": lambda arrays: arrays.update(indptr=np.array(3)),
    "indices that are not integers": lambda arrays: arrays.update(indices=arrays["indices"] + 0.5),
    "two numbers of features": lambda arrays: arrays.update(n_features=np.array([12, 12])),
}


@pytest.mark.parametrize(
    ("sparse", "damage"),
    [
        *(pytest.param(False, damage, id=name) for name, damage in DENSE_DAMAGE.items()),
        *(pytest.param(True, damage, id=name) for name, damage in SPARSE_DAMAGE.items()),
    ],
)
def test_damaged_arrays_of_a_map_are_refused(sparse, damage):
    arrays = map_arrays(sparse)
    LandmarkMap.from_arrays(dict(arrays))
    damage(arrays)
    with pytest.raises(ValueError, match=r"^(saved (array|state) .*'\w+'|a map has the width)") as error:
        LandmarkMap.from_arrays(arrays)
    assert "\n" not in str(error.value)


# -- CurvedMetric --


def curved_metric(kind="dense", seed=0, threshold=0.7, round=5):
    """Return a metric with a map of dense or sparse landmarks, with low-rank or full-rank parts, or without a map."""
    rng = np.random.default_rng(seed)
    X = sparse_rows(seed, 40, 6)
    linear = Metric.from_factors(rng.normal(size=(2, 6)))
    if kind == "linear":
        return CurvedMetric(linear, None, None, threshold, round)
    feature_map = draw_map(csr_array(X) if kind == "sparse" else X, 20, seed)
    C = rng.normal(size=(feature_map.n_outputs, feature_map.n_outputs))
    if kind == "matrices":
        return CurvedMetric(Metric(np.eye(6)), feature_map, Metric(C @ C.T), threshold, round)
    return CurvedMetric(linear, feature_map, Metric.low_rank(0.1, C[:3], np.ones(3), 0.0), threshold, round)


KINDS = ("linear", "dense", "sparse", "matrices")
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_the_distance_is_that_of_the_embedding_and_of_the_definition(kind):
    metric, (X, Z) = curved_metric(kind), sparse_rows(1, 80, 6).reshape(2, 40, 6)
    distances = metric.distance(X, Z)
    np.testing.assert_allclose(np.linalg.norm(metric.embed(X) - metric.embed(Z), axis=1), distances, rtol=1e-9)
    unordered = metric.embed_unordered(X) - metric.embed_unordered(Z)
    np.testing.assert_allclose(np.linalg.norm(unordered, axis=1), distances, rtol=1e-9)
    squares = np.einsum("ij,jk,ik->i", X - Z, metric.linear_part.matrix, X - Z)
    if kind != "linear":
        V = metric.feature_map(X) - metric.feature_map(Z)
        squares += np.einsum("ij,jk,ik->i", V, metric.curved_part.matrix, V)
    np.testing.assert_allclose(metric.squared_distance(X, Z), squares, rtol=1e-9)
    assert metric.rank == metric.embed(X).shape[1]
    assert metric.n_features == 6


@kinds
def test_single_points_and_rows_give_the_same_distances(kind):
    metric, (X, Z) = curved_metric(kind), sparse_rows(2, 40, 6).reshape(2, 20, 6)
    expected = metric.distance(X, Z)
    single = [metric.distance(x, z) for x, z in zip(X, Z, strict=True)]
    assert all(type(distance) is float for distance in single)
    np.testing.assert_allclose(single, expected, rtol=1e-9)
    assert type(metric.squared_distance(X[0], Z[0])) is float
    assert metric(X[0], Z[0]) == metric.distance(X[0], Z[0])
    assert metric(X[0], Z[0], squared=True) == metric.squared_distance(X[0], Z[0])
    np.testing.assert_allclose(metric.distance(X, Z[0]), [metric.distance(x, Z[0]) for x in X], rtol=1e-9)
    np.testing.assert_allclose(metric.embed(X[3]), metric.embed(X)[3], rtol=1e-9, atol=1e-12)
    assert (metric.distance(X, X) == 0.0).all()


@kinds
def test_sparse_rows_give_the_distances_of_dense_ones(kind):
    metric, (X, Z) = curved_metric(kind), sparse_rows(3, 40, 6).reshape(2, 20, 6)
    expected, tolerance = metric.distance(X, Z), {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(metric.distance(csr_array(X), csr_array(Z)), expected, **tolerance)
    one = metric.distance(csr_array(X), csr_array(Z[:1]))
    np.testing.assert_allclose(one, metric.distance(X, Z[0]), **tolerance)
    np.testing.assert_allclose(metric.embed(csr_array(X)), metric.embed(X), **tolerance)


@kinds
def test_similar_points_are_within_the_threshold(kind):
    X, Z = sparse_rows(4, 80, 6).reshape(2, 40, 6)
    median = float(np.median(curved_metric(kind).squared_distance(X, Z)))
    metric = curved_metric(kind, threshold=median)
    similar = metric.similar(X, Z)
    assert 0 < np.count_nonzero(similar) < 40
    np.testing.assert_array_equal(similar, metric.distance(X, Z) <= metric.distance_threshold)
    assert curved_metric(kind, threshold=-4.0).distance_threshold == -2.0
    assert not curved_metric(kind, threshold=-4.0).similar(X[0], X[0])


@kinds
def test_first_components_are_the_principal_directions_of_the_landmarks(kind):
    """Without a map, those with the largest eigenvalues. They do not depend on the other rows."""
    metric, X = curved_metric(kind), sparse_rows(5, 50, 6)
    everything = metric.embed(X)
    for n in (1, 2, 4, 1000):
        first = metric.embed(X, n)
        assert first.shape == (50, min(n, metric.rank))
        np.testing.assert_allclose(metric.embed(X[:3], n), first[:3], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(metric.embed(X[0], n), first[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(metric.embed(X, 1)[:, 0], first[:, 0], rtol=1e-9, atol=1e-9)
        shorter = np.linalg.norm(first[:25] - first[25:], axis=1)
        assert (shorter <= metric.distance(X[:25], X[25:]) * (1.0 + 1e-9)).all()
        if n == 1000:
            np.testing.assert_allclose(shorter, metric.distance(X[:25], X[25:]), rtol=1e-9)
        if kind == "linear":
            np.testing.assert_allclose(first, everything[:, :n], rtol=1e-9, atol=1e-12)
        else:
            landmarks = metric.feature_map.landmarks
            covariance = np.atleast_2d(np.cov(metric.embed(landmarks, n), rowvar=False, bias=True))
            variances = np.linalg.eigvalsh(np.cov(metric.embed(landmarks), rowvar=False, bias=True))[::-1][:n]
            np.testing.assert_allclose(covariance, np.diag(variances), atol=1e-9 * variances[0])
    with pytest.raises(ValueError, match="n_components must be a whole number of at least 1"):
        metric.embed(X, 0)


@kinds
def test_copies_are_equal(kind):
    metric, (X, Z) = curved_metric(kind), sparse_rows(6, 80, 6).reshape(2, 40, 6)
    for twin in (pickle.loads(pickle.dumps(metric)), deepcopy(metric), copy(metric)):
        assert twin == metric
        assert hash(twin) == hash(metric)
        assert (twin.squared_distance(X, Z) == metric.squared_distance(X, Z)).all()
        assert repr(twin) == repr(metric)


def test_equality_compares_everything():
    metric = curved_metric()
    others = [curved_metric(kind) for kind in KINDS if kind != "dense"]
    others += [curved_metric(threshold=0.71), curved_metric(round=6), curved_metric(seed=1)]
    parts = metric.linear_part, metric.feature_map, metric.curved_part
    others.append(CurvedMetric(parts[0].scaled(2.0), *parts[1:], metric.threshold, metric.round))
    others.append(CurvedMetric(*parts[:2], parts[2].scaled(2.0), metric.threshold, metric.round))
    for other in [*others, metric.linear_part, 1]:
        assert metric != other
    assert metric == CurvedMetric(*parts, metric.threshold, metric.round)


def test_a_metric_cannot_be_changed():
    metric = curved_metric()
    for name in ("threshold", "round", "linear_part", "feature_map", "curved_part", "other"):
        with pytest.raises(AttributeError, match=f"a CurvedMetric is immutable: '{name}' cannot be set"):
            setattr(metric, name, 1.0)


def test_an_attribute_cannot_be_deleted():
    with pytest.raises(AttributeError, match="a CurvedMetric is immutable"):
        del curved_metric().threshold


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array])
def test_arrays_of_a_map_are_read_only_or_copies(as_rows):
    feature_map = draw_map(as_rows(sparse_rows(17)), 30)
    expected = deepcopy(feature_map.arrays())
    for name, array in feature_map.arrays().items():
        with contextlib.suppress(ValueError):  # read-only
            array[...] = 0
        assert np.array_equal(feature_map.arrays()[name], expected[name]), name


@pytest.mark.parametrize("name", ["matrix", "components", "diagonal", "eigenvalues"])
def test_what_only_linear_metrics_have_is_refused_with_a_sentence(name):
    metric = curved_metric()
    assert not hasattr(metric, name)
    with pytest.raises(AttributeError, match=rf"a curved metric has no {name}: it is not linear; linear_part\.{name}"):
        getattr(metric, name)
    assert getattr(metric.linear_part, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'missing'"):
        _ = metric.missing


def test_parts_that_do_not_fit_are_refused():
    metric = curved_metric()
    linear, feature_map, curved = metric.linear_part, metric.feature_map, metric.curved_part
    for parts in ((linear, feature_map, None), (linear, None, curved)):
        with pytest.raises(ValueError, match="a feature map and a curved part, or neither"):
            CurvedMetric(*parts)
    with pytest.raises(ValueError, match="the map takes 6 features and the linear part 2"):
        CurvedMetric(Metric(np.eye(2)), feature_map, curved)
    with pytest.raises(ValueError, match="outputs and the curved part 2 features"):
        CurvedMetric(linear, feature_map, Metric(np.eye(2)))


@kinds
def test_wrong_points_are_refused(kind):
    metric, X = curved_metric(kind), sparse_rows(7, 5, 6)
    for x, z, sentence in (
        (X[:, :5], X, "x has 5 features; 6 are expected"),
        (X, X[:3], "x has 5 rows and z has 3"),
        (X, csr_array(X), "z is sparse and x is not"),
        (np.full(6, np.nan), X, "only finite numbers are accepted"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence):
            metric.squared_distance(x, z)
    with pytest.raises(ValueError, match="X has 5 features; 6 are expected"):
        metric.embed(X[:, :5])


@pytest.mark.parametrize("arguments", [{"threshold": np.nan}, {"threshold": np.inf}, {"round": -1}])
def test_threshold_and_round_are_checked(arguments):
    with pytest.raises(ValueError, match="must be"):
        curved_metric(**arguments)


@pytest.mark.parametrize("unit_length", [False, True])
def test_factors_turn_a_metric_of_scaled_points_into_one_of_points_in_their_own_units(unit_length, tmp_path):
    rng = np.random.default_rng(3)
    X, factors = rng.normal(size=(20, 6)), rng.uniform(0.1, 10.0, size=6)
    feature_map = LandmarkMap.from_points(X, 15, rng)
    parts = Metric(np.eye(6)), feature_map, Metric(np.eye(feature_map.n_outputs))
    metric = CurvedMetric(*parts, 2.0, 5, unit_length=unit_length)
    own, features = metric.with_factors(factors), X / factors
    expected = metric.distance(X[0], X[1:])
    np.testing.assert_allclose(own.distance(features[0], features[1:]), expected, rtol=1e-9)
    np.testing.assert_allclose(own.distance(csr_array(features[:1]), csr_array(features[1:])), expected, rtol=1e-9)
    np.testing.assert_allclose(own.embed(features, 4), metric.embed(X, 4), rtol=1e-9, atol=1e-12)
    extended = own.extend(features)
    np.testing.assert_allclose(own.extended.distance(extended[0], extended[1:]), expected, rtol=1e-9)
    own.save(tmp_path / "metric")
    for same in (CurvedMetric.load(tmp_path / "metric"), pickle.loads(pickle.dumps(own))):
        assert same == own != metric
        assert same.distance(features[0], features[1]) == own.distance(features[0], features[1])
    assert not own.factors.flags.writeable
    with pytest.raises(ValueError, match="factors"):
        metric.with_factors(factors[:3])


# -- CurvedMetric in files --


@kinds
def test_a_file_holds_the_same_bits(kind, tmp_path):
    metric, (X, Z) = curved_metric(kind, threshold=0.1 + 0.2, round=12), sparse_rows(8, 80, 6).reshape(2, 40, 6)
    metric.save(tmp_path / "metric")
    loaded = CurvedMetric.load(tmp_path / "metric")
    assert loaded == metric
    assert (loaded.threshold, loaded.round, type(loaded.round)) == (0.1 + 0.2, 12, int)
    assert (loaded.squared_distance(X, Z) == metric.squared_distance(X, Z)).all()
    assert (loaded.embed(X) == metric.embed(X)).all()
    first = (tmp_path / "metric").read_bytes()
    loaded.save(tmp_path / "metric")
    assert (tmp_path / "metric").read_bytes() == first


@kinds
def test_damaged_files_are_refused(kind, tmp_path):
    path = tmp_path / "metric"
    curved_metric(kind).save(path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [content[:length] for length in (0, 1, 8, 100, len(content) // 2, len(content) - 1)]
    damaged.append(content + b"\0")
    for at in [*rng.integers(0, len(content), 40).tolist(), len(content) - 1]:
        damaged.append(content[:at] + bytes([content[at] ^ 1 << int(rng.integers(8))]) + content[at + 1 :])
    for wrong in damaged:
        path.write_bytes(wrong)
        with pytest.raises(
            ValueError, match=r"metric' (is not a valid curved-metric file|holds|has the format)"
        ) as error:
            CurvedMetric.load(path)
        assert "\n" not in str(error.value)


def test_files_of_other_metrics_are_refused(tmp_path):
    path = tmp_path / "metric"
    Metric(np.eye(2)).save(path)
    with pytest.raises(ValueError, match="holds a metric, not a curved-metric"):
        CurvedMetric.load(path)
    curved_metric().save(path)
    with pytest.raises(ValueError, match="holds a curved-metric, not a metric"):
        Metric.load(path)
    with pytest.raises(FileNotFoundError, match="no file at"):
        CurvedMetric.load(tmp_path / "missing")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"other.matrix": np.eye(2)}, "a curved metric has no array 'other.matrix'"),
        ({"linear.matrix": np.eye(6)}, "a metric has the float64 array matrix"),
        ({"linear.rows": None}, "a metric has the float64 array matrix"),
        ({"map.width": None}, "saved array 'width' is missing"),
        ({"map.width": np.array([-1.0])}, "saved array 'width' holds -1.0; expected numbers of at least 0"),
        ({"map.width": np.array(1.0)}, r"saved array 'width' has shape \(\); expected \(1\)"),
        ({"curved.scales": np.array([-9.0, 1.0, 1.0])}, "negative eigenvalue"),
        (
            {"curved.diagonal": None, "curved.rows": None, "curved.scales": None},
            "a metric has the float64 array matrix",
        ),
    ],
)
def test_wrong_arrays_of_a_curved_metric_are_refused(change, sentence):
    arrays = {**curved_metric().arrays(), **change}
    with pytest.raises(ValueError, match=sentence):
        CurvedMetric.from_arrays({name: array for name, array in arrays.items() if array is not None}, 1.0)


def test_a_curved_part_without_a_map_is_refused():
    arrays = {name: array for name, array in curved_metric().arrays().items() if not name.startswith("map.")}
    assert any(name.startswith("curved.") for name in arrays)
    with pytest.raises(ValueError, match=r"\w+ \w+"):
        CurvedMetric.from_arrays(arrays, 1.0)


# -- Metric: dense matrices that are truncated, and changes --


def random_matrix(seed, n, rank=None):
    factors = np.random.default_rng(seed).normal(size=(rank or n, n))
    return factors.T @ factors


@given(st.integers(0, 1000), st.integers(1, 8), st.integers(1, 8), st.integers(0, 9))
def test_a_truncated_matrix_replaces_the_eigenvalues_near_the_median_by_their_mean(seed, n, rank, max_rank):
    M = random_matrix(seed, n, rank)
    metric = Metric(M, threshold=2.5, round=7).truncated(max_rank)
    values = np.linalg.eigvalsh(M)
    by_distance = values[np.argsort(-np.abs(values - np.median(values)), kind="stable")]
    others = by_distance[max_rank:]
    expected = np.sort([*by_distance[:max_rank], *np.full(len(others), others.mean() if len(others) else 0.0)])
    tolerance = 1e-9 * values[-1]
    np.testing.assert_allclose(np.linalg.eigvalsh(metric.matrix), expected, rtol=1e-9, atol=tolerance)
    assert np.trace(metric.matrix) == pytest.approx(np.trace(M), rel=1e-9)
    assert len(metric.arrays()["rows"]) <= max_rank
    assert (metric.threshold, metric.round) == (2.5, 7)
    np.testing.assert_allclose(metric.matrix @ M, M @ metric.matrix, atol=tolerance * values[-1])  # same eigenvectors


def test_a_truncated_matrix_has_no_negative_eigenvalue():
    """Matrices may have them by rounding, relative to the larger numbers that they were computed from."""
    for values in ([-1e-16, 0.0, 0.0, 0.0], [-1e-16, 1e-17, 2e-17, 5e-16]):
        metric = Metric.from_trusted_matrix(np.diag(values), 0.0).truncated(2)
        assert np.linalg.eigvalsh(metric.matrix)[0] >= -1e-20
        assert Metric.from_arrays(metric.arrays(), metric.threshold) == metric


@given(st.integers(0, 1000), st.integers(5, 9), st.floats(0.0, 3.0))
def test_few_directions_beside_a_multiple_of_the_identity_are_found_exactly(seed, n, base):
    """Directions may be longer or shorter than the others."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.array([*rng.uniform(base, base + 5.0, size=1), rng.uniform(0.0, base), *np.full(n - 2, base)])
    M = (Q * values) @ Q.T
    metric = Metric((M + M.T) / 2.0).truncated(2)
    np.testing.assert_allclose(metric.matrix, M, rtol=1e-9, atol=1e-9)
    assert Metric.from_arrays(metric.arrays(), metric.threshold) == metric  # accepted, so positive semidefinite


def forms(seed, n):
    """Return a dense matrix, a diagonal plus directions, a multiple of the identity plus directions, a diagonal."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(2, n))
    return [
        Metric(random_matrix(seed, n)),
        Metric.low_rank(rng.uniform(size=n), rows, np.array([1.0, 0.3]), 0.0),
        Metric.low_rank(5.0, rows / np.linalg.norm(rows, axis=1)[:, None], np.array([-1.0, 2.0]), 0.0),
        Metric.from_diagonal(rng.uniform(size=n)),
    ]


@pytest.mark.parametrize("n", [1, 4, 9])
@pytest.mark.parametrize("i", range(4))
@pytest.mark.parametrize("j", range(4))
def test_the_squared_change_is_that_of_the_matrices(n, i, j):
    metric, before = forms(1, n)[i], forms(2, n)[j]
    mean_squares = np.random.default_rng(3).uniform(0.1, 10.0, size=n)
    unit = np.sqrt(np.outer(mean_squares, mean_squares))
    change, size = (np.square(A * unit).sum() for A in (metric.matrix - before.matrix, metric.matrix))
    assert metric.squared_change(before, mean_squares) == pytest.approx((change, size), rel=1e-9)
    assert metric.relative_change(before, mean_squares) == pytest.approx(np.sqrt(change / size), rel=1e-9)
    itself, _ = metric.squared_change(metric, mean_squares)
    assert 0.0 <= itself <= 1e-12 * size


# -- Points of unit length --


@given(st.integers(0, 1000), st.integers(1, 8), st.integers(1, 9), st.integers(-290, 290))
def test_points_of_unit_length_keep_their_directions(seed, rows, n, exponent):
    """Whatever their lengths; a zero point stays zero."""
    X = sparse_rows(seed, rows, n) * 10.0**exponent
    unit = to_unit_length(X)
    zero = ~X.any(axis=1)
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), np.where(zero, 0.0, 1.0), rtol=1e-14)
    scale = np.abs(X).max(axis=1, keepdims=True)
    scale[zero] = 1.0
    lengths = np.linalg.norm(X / scale, axis=1, keepdims=True)
    np.testing.assert_allclose(unit * lengths, X / scale, rtol=1e-14)
    sparse = to_unit_length(csr_array(X))
    assert sparse.shape == X.shape
    np.testing.assert_allclose(sparse.toarray(), unit, rtol=1e-14)
    np.testing.assert_allclose(to_unit_length(unit), unit, rtol=1e-14)


def test_unit_length_of_one_point_of_a_stack_and_of_nothing():
    X = points(1, 24, 4)
    unit = to_unit_length(X)
    assert (to_unit_length(X[3]) == unit[3]).all()
    assert (to_unit_length(X.reshape(2, 3, 4, 4)) == unit.reshape(2, 3, 4, 4)).all()
    assert (to_unit_length(csr_array((3, 4))).toarray() == 0.0).all()
    before = X.copy()
    to_unit_length(X)
    np.testing.assert_array_equal(X, before)


@given(st.integers(0, 1000), st.integers(-60, 60))
def test_powers_of_two_change_no_bit_of_unit_length(seed, power):
    X = sparse_rows(seed, 5, 7)
    factors = 2.0 ** (power * np.array([1, -1, 2, 0, 1]))[:, None]
    assert (to_unit_length(X * factors) == to_unit_length(X)).all()
    assert (to_unit_length(csr_array(X * factors)).toarray() == to_unit_length(csr_array(X)).toarray()).all()


def cosine_metric(kind="dense"):
    """Return a metric of points that are divided by their lengths first."""
    metric = curved_metric(kind)
    parts = metric.linear_part, metric.feature_map, metric.curved_part
    return CurvedMetric(*parts, metric.threshold, metric.round, unit_length=True)


@kinds
def test_a_metric_of_unit_length_is_that_of_the_directions(kind):
    metric, plain, (X, Z) = cosine_metric(kind), curved_metric(kind), sparse_rows(31, 40, 6).reshape(2, 20, 6)
    X[3] = Z[4] = 0.0
    lengths = np.random.default_rng(0).uniform(0.1, 9.0, size=(2, 20, 1)) * 10.0 ** np.array([[[-60.0]], [[60.0]]])
    expected = plain.distance(to_unit_length(X), to_unit_length(Z))
    for x, z in ((X, Z), (lengths[0] * X, lengths[1] * Z), (csr_array(X), csr_array(Z))):
        np.testing.assert_allclose(metric.distance(x, z), expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(
            np.linalg.norm(metric.embed(x) - metric.embed(z), axis=1), expected, rtol=1e-9, atol=1e-9
        )
    np.testing.assert_allclose([metric.distance(x, z) for x, z in zip(X, Z, strict=True)], expected, atol=1e-9)
    np.testing.assert_allclose(metric.embed(X, 2), plain.embed(to_unit_length(X), 2), rtol=1e-9, atol=1e-9)
    assert (metric.prepare(X) == to_unit_length(X)).all()
    assert plain.prepare(X) is X
    assert metric.rank == plain.rank


@kinds
def test_unit_length_is_saved_pickled_and_compared(kind, tmp_path):
    metric, (X, Z) = cosine_metric(kind), sparse_rows(32, 40, 6).reshape(2, 20, 6)
    metric.save(tmp_path / "metric")
    for twin in (CurvedMetric.load(tmp_path / "metric"), pickle.loads(pickle.dumps(metric)), deepcopy(metric)):
        assert twin.unit_length is True
        assert twin == metric
        assert hash(twin) == hash(metric)
        assert (twin.distance(X, Z) == metric.distance(X, Z)).all()
    plain = curved_metric(kind)
    assert plain.unit_length is False
    assert metric != plain
    assert plain != metric
    plain.save(tmp_path / "plain")
    assert CurvedMetric.load(tmp_path / "plain").unit_length is False
    with pytest.raises(AttributeError, match="a CurvedMetric is immutable: 'unit_length' cannot be set"):
        metric.unit_length = False


# -- Extended points --


@kinds
@pytest.mark.parametrize("make", [curved_metric, cosine_metric])
def test_the_distance_is_linear_in_extended_points(kind, make):
    metric, (X, Z) = make(kind), sparse_rows(33, 40, 6).reshape(2, 20, 6)
    extended, (x, z) = metric.extended, (metric.extend(points) for points in (X, Z))
    assert x.shape == (20, extended.n_features)
    np.testing.assert_allclose(extended.distance(x, z), metric.distance(X, Z), rtol=1e-9, atol=1e-12)
    assert isinstance(extended, Metric)
    assert (extended.threshold, extended.n_features) == (metric.threshold, x.shape[1])
    if kind != "linear":
        assert extended.round == metric.round
        assert x.shape[1] == 6 + metric.feature_map.n_outputs
    assert (x[:, :6] == metric.prepare(X)).all()
    np.testing.assert_allclose(metric.extend(X[0]), x[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("second", range(4))
def test_a_block_diagonal_metric_has_both_matrices(first, second):
    one, other = forms(1, 3)[first], forms(2, 5)[second]
    both = Metric.block_diagonal(one, other, threshold=0.3, round=7)
    expected = np.zeros((8, 8))
    expected[:3, :3], expected[3:, 3:] = one.matrix, other.matrix
    np.testing.assert_allclose(both.matrix, expected, rtol=1e-12, atol=1e-12)
    assert (both.threshold, both.round, both.n_features) == (0.3, 7, 8)
    U = np.random.default_rng(0).normal(size=(9, 8))
    parts = one.squared_length(U[:, :3]) + other.squared_length(U[:, 3:])
    np.testing.assert_allclose(both.squared_length(U), parts, rtol=1e-9)
    assert Metric.from_arrays(both.arrays(), both.threshold, both.round) == both
    assert ("matrix" in both.arrays()) == ("matrix" in one.arrays() or "matrix" in other.arrays())


def test_a_block_diagonal_of_scalar_diagonals():
    both = Metric.block_diagonal(
        Metric.low_rank(2.0, np.eye(1, 3), np.ones(1), 0.0), Metric.low_rank(5.0, np.eye(1, 2), np.ones(1), 0.0), 0.0, 0
    )
    np.testing.assert_allclose(both.matrix, np.diag([3.0, 2.0, 2.0, 6.0, 5.0]))


# -- Maps of one's own --


def squares_and_products(X):
    return np.hstack([np.square(X), X[:, :1] * X])


def test_an_own_map_is_the_function_or_the_transformer():
    X = points(40, 30, 4)
    fitted = RBFSampler(n_components=7, random_state=0).fit(X)
    for function, expected in (
        (squares_and_products, squares_and_products(X)),
        (fitted, fitted.transform(X)),
        (fitted.transform, fitted.transform(X)),
        (lambda X: csr_array(np.square(X)), np.square(X)),
        (lambda X: (X > 0).astype(bool), (X > 0).astype(float)),
        (lambda X: np.square(X).astype(np.float32).tolist(), np.square(X).astype(np.float32)),
        (lambda X: X.astype(int), X.astype(int)),
    ):
        own_map = OwnMap(function, X)
        assert (own_map.n_features, own_map.n_outputs) == (4, expected.shape[1])
        assert own_map(X).dtype == np.float64
        np.testing.assert_allclose(own_map(X), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(own_map(X.reshape(5, 6, 4)), expected.reshape(5, 6, -1), rtol=1e-12, atol=1e-12)


WRONG_OUTPUTS = {
    "one dimension": (lambda X: X[:, 0], r"returned shape \(1,\) for 1 points; accepted: \(1, n_outputs\)"),
    "three dimensions": (lambda X: X[None], r"returned shape \(1, 1, 3\) for 1 points"),
    "rows": (lambda X: X[:0], r"returned shape \(0, 3\) for 1 points"),
    "nothing": (lambda X: None, r"returned shape \(\) for 1 points"),
    "NaN": (lambda X: X * np.nan, "returned values that are not finite numbers"),
    "infinite": (lambda X: X + np.inf, "returned values that are not finite numbers"),
    "strings": (lambda X: X.astype(str), "returned values that are not finite numbers"),
    "objects": (lambda X: X.astype(object), "returned values that are not finite numbers"),
    "complex": (lambda X: X * 1j, "returned values that are not finite numbers"),
    "no outputs": (lambda X: X[:, :0], f"has 0 outputs; accepted: 1 to {MAX_OWN_OUTPUTS}"),
    "many outputs": (lambda X: np.zeros((len(X), MAX_OWN_OUTPUTS + 1)), f"has {MAX_OWN_OUTPUTS + 1} outputs"),
}


@pytest.mark.parametrize("wrong", WRONG_OUTPUTS)
def test_wrong_outputs_are_refused(wrong):
    function, sentence = WRONG_OUTPUTS[wrong]
    with pytest.raises(ValueError, match=f"the feature map function {sentence}") as error:
        OwnMap(function, points(41))
    assert "\n" not in str(error.value)


def test_as_many_outputs_as_accepted_are_accepted():
    assert OwnMap(lambda X: np.zeros((len(X), MAX_OWN_OUTPUTS)), points(41)).n_outputs == MAX_OWN_OUTPUTS


def test_outputs_of_another_number_are_refused_later():
    own_map = OwnMap(lambda X: X[:, : min(len(X), 2)], points(41))  # one output for one point
    with pytest.raises(ValueError, match=r"returned shape \(5, 2\) for 5 points; accepted: \(5, 1\)"):
        own_map(points(41)[:5])


def test_a_transformer_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError, match="RBFSampler instance is not fitted yet"):
        OwnMap(RBFSampler(), points(41))


def own_metric():
    X = points(42, 30, 4)
    own_map = OwnMap(squares_and_products, X)
    linear, curved = Metric.from_factors(X[:2]), Metric(random_matrix(0, own_map.n_outputs))
    return CurvedMetric(linear, own_map, curved, 0.7, 5), X


def test_a_metric_with_an_own_map_is_a_distance():
    metric, X = own_metric()
    Z = points(43, 30, 4)
    distances = metric.distance(X, Z)
    f = squares_and_products(X) - squares_and_products(Z)
    expected = np.einsum("ij,jk,ik->i", f, metric.curved_part.matrix, f) + metric.linear_part.squared_distance(X, Z)
    np.testing.assert_allclose(distances, np.sqrt(expected), rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(metric.embed(X) - metric.embed(Z), axis=1), distances, rtol=1e-9)
    np.testing.assert_allclose(metric.extended.distance(metric.extend(X), metric.extend(Z)), distances, rtol=1e-9)
    np.testing.assert_allclose([metric.distance(x, z) for x, z in zip(X, Z, strict=True)], distances, rtol=1e-9)
    variances = np.linalg.eigvalsh(np.cov(metric.embed(X), rowvar=False, bias=True))
    np.testing.assert_allclose(metric.embed(X, 2).var(axis=0), variances[::-1][:2], rtol=1e-9)
    assert metric.embed(X[0], 2).shape == (2,)
    assert metric.embed(X[0]).shape == (metric.rank,)


def test_a_metric_with_an_own_map_can_be_pickled_but_not_saved(tmp_path):
    metric, X = own_metric()
    twin = pickle.loads(pickle.dumps(metric))
    assert (twin.distance(X, X[::-1]) == metric.distance(X, X[::-1])).all()
    assert (twin.threshold, twin.round) == (metric.threshold, metric.round)
    assert deepcopy(metric) == metric
    assert copy(metric).feature_map is metric.feature_map
    assert hash(metric) == hash(twin)
    assert metric != curved_metric()
    with pytest.raises(ValueError, match="a feature map of your own cannot be stored in this file; pickle") as error:
        metric.save(tmp_path / "metric")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "metric").exists()
