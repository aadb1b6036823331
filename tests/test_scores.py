"""Scores against scikit-learn, full sorts and brute force.

With NUMBA_DISABLE_JIT=1 the kernels run as plain Python, on fewer examples.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from engine_cases import COMPILED
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score, roc_auc_score
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from ocelad import _compile
from ocelad.evaluation.scores import clustering_nmi, knn_error, knn_error_and_nmi, knn_error_from_similarity, pair_auc
from ocelad.evaluation.scores.clustering import k_means, nmi
from ocelad.evaluation.scores.kernels import distance_blocks, nearest_neighbors, screen
from ocelad.evaluation.scores.kernels import k_means as lloyd
from ocelad.evaluation.scores.precompile import precompile_scores
from ocelad.evaluation.scores.prepared_points import encode_labels, prepare
from ocelad.evaluation.streams import SCENARIOS

EXAMPLES = settings(max_examples=100 if COMPILED else 5)
SIZES = (2, 7, 127, 128, 129, 300) if COMPILED else (2, 7, 129)


def reference_error(similarity, classes, truth, k):
    """The definition: a full sort of each row; ties go to the earlier point, and to the smallest class."""
    order = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
    winners = [np.bincount(classes[neighbors]).argmax() for neighbors in order]
    return np.mean(winners != truth)


def leave_one_out(X, classes, k):
    similarity = -((X[:, None] - X[None]) ** 2.0).sum(axis=2)
    np.fill_diagonal(similarity, -np.inf)
    return reference_error(similarity, classes, classes, k)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("n_features", [1, 3, 4, 5, 25])
def test_knn_error_equals_a_full_sort_and_scikit_learn(n, n_features):
    rng = np.random.default_rng(n + 1000 * n_features)
    X, labels = rng.normal(size=(n, n_features)), rng.integers(0, 3, size=n)
    for k in {1, min(5, n - 1), n - 1}:
        expected = leave_one_out(X, labels, k)
        assert knn_error(X, labels, k) == expected
        with threadpool_limits(1):
            neighbors = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X).kneighbors(return_distance=False)
        votes = np.eye(3)[labels[neighbors]].sum(axis=1)
        assert np.mean(votes.argmax(axis=1) != labels) == expected


@EXAMPLES
@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 5), st.integers(1, 4))
def test_earlier_rows_vote_on_a_lattice_with_many_ties(seed, n, n_features, width):
    rng = np.random.default_rng(seed)
    X, labels = rng.integers(-width, width + 1, size=(n, n_features)), rng.integers(0, 4, size=n)
    k = int(rng.integers(1, n))
    assert knn_error(X, labels, k) == leave_one_out(X, labels, k)


def test_of_equally_distant_neighbours_the_earlier_rows_vote():
    # All other points have the same distance to the last one.
    X, labels = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [0.0, 0.0]], ["b", "b", "a", "a", "b"]
    nearest = nearest_neighbors.nearest_neighbors(np.array(X), distance_blocks.pack_blocks(np.array(X)), 2, True)
    assert nearest[4].tolist() == [0, 1]
    assert knn_error(X, labels, 4) == leave_one_out(np.array(X), np.array([1, 1, 0, 0, 1]), 4)


def test_points_far_from_the_origin_are_distinguished():
    rng = np.random.default_rng(0)
    X, labels = rng.integers(-50, 50, size=(60, 3)), rng.integers(0, 3, size=60)
    assert knn_error(X + 2.0**50, labels) == knn_error(X, labels) == leave_one_out(X, labels, 5)


@pytest.mark.parametrize("exponent", [-1022, -500, 500, 1018])
def test_scores_do_not_depend_on_the_scale(exponent):
    rng = np.random.default_rng(1)
    # Multiples of 1/8 keep all digits when they become subnormal.
    X = np.round(8 * (rng.normal(size=(50, 3)) + 4 * np.eye(3)[rng.integers(0, 3, size=50)])) / 8
    labels = rng.integers(0, 3, size=50)
    other = np.ldexp(X, exponent)
    assert np.isfinite(other).all()
    assert knn_error(other, labels) == knn_error(X, labels)
    assert knn_error(other, labels, test_points=other, test_labels=labels) == knn_error(
        X, labels, test_points=X, test_labels=labels
    )
    assert (k_means(other, 3) == k_means(X, 3)).all()


@pytest.mark.parametrize("n_test", [1, 130])
def test_test_points_do_not_vote(n_test):
    rng = np.random.default_rng(2)
    X, T = rng.integers(0, 9, size=(150, 3)), rng.integers(0, 9, size=(n_test, 3))
    labels, truth = rng.integers(0, 3, size=150), rng.integers(0, 4, size=n_test)
    similarity = -((T[:, None] - X[None]) ** 2).sum(axis=2)
    expected = reference_error(similarity, labels, truth, 7)
    assert knn_error(X, labels, 7, test_points=T, test_labels=truth) == expected
    assert knn_error_from_similarity(similarity, labels, 7, test_labels=truth) == expected


def test_a_test_point_equal_to_a_point_is_its_neighbour():
    X, labels = np.arange(6.0)[:, None], ["a", "b", "a", "b", "a", "b"]
    assert knn_error(X, labels, 1, test_points=X, test_labels=labels) == 0
    assert knn_error(X, labels, 1) == 1
    assert knn_error(X, labels, 6, test_points=X, test_labels=["unknown"] * 6) == 1


@EXAMPLES
@given(st.integers(0, 10**6), st.integers(2, 30))
def test_similarities_need_not_come_from_a_distance(seed, n):
    rng = np.random.default_rng(seed)
    similarity, labels = rng.integers(-5, 6, size=(n, n)).astype(float), rng.integers(0, 3, size=n)
    k = int(rng.integers(1, n))
    others = similarity.copy()
    np.fill_diagonal(others, -np.inf)
    assert knn_error_from_similarity(similarity, labels, k) == reference_error(others, labels, labels, k)


def test_many_classes_and_any_kind_of_label():
    rng = np.random.default_rng(3)
    classes = rng.integers(0, 100, size=250 if COMPILED else 120)
    X = rng.normal(size=(len(classes), 2)) + 0.5 * classes[:, None]
    names = np.array([f"class {c:03}" for c in range(100)])
    _, used = np.unique(classes, return_inverse=True)
    assert knn_error(X, names[classes]) == knn_error(X, classes.tolist()) == leave_one_out(X, used, 5)
    assert clustering_nmi(X, names[classes]) == clustering_nmi(X, classes - 7.5) > 0.7


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, np.float64])
@EXAMPLES
@given(st.lists(st.integers(-3, 30), min_size=1, max_size=25))
def test_labels_are_encoded_in_sorted_order(dtype, labels):
    labels = np.array(labels).astype(dtype)
    classes = encode_labels(labels, len(labels))
    assert classes.dtype == np.int64
    assert classes.tolist() == [sorted(set(labels.tolist())).index(label) for label in labels.tolist()]


KINDS = ("normal", "lattice", "far off", "equidistant", "heavy tails", "all scales", "duplicates", "outlier")


def hard_points(kind, rng, n, n_features):
    """Draw points that single precision can hardly distinguish, each kind for another reason."""
    X = rng.normal(size=(n, n_features))
    if kind == "lattice":
        return rng.integers(-2, 3, size=X.shape) / 10
    if kind == "far off":
        return 1e6 + rng.integers(-2, 3, size=X.shape) / 10
    if kind == "equidistant":  # all have the same distance to the first point, up to rounding
        return np.vstack([np.zeros(n_features), *(rng.permuted(X[0]) * rng.choice([-1, 1], n_features) for _ in X[1:])])
    if kind == "heavy tails":
        return rng.standard_cauchy(size=X.shape) ** 3
    if kind == "all scales":
        return X * 10.0 ** rng.integers(-300, 1, size=n_features)
    if kind == "duplicates":
        return X[rng.integers(0, 3, size=n) % n]
    if kind == "outlier":
        X[0] = 1e9
    return X


@pytest.mark.parametrize("kind", KINDS)
@EXAMPLES
@given(
    st.integers(0, 10**6),
    st.integers(2, 300 if COMPILED else 20),
    st.integers(1, 30),
    st.integers(1, nearest_neighbors.MAX_SCREENED_NEIGHBORS),
)
def test_the_screen_does_not_change_the_neighbours(kind, seed, n, n_features, k):
    rng = np.random.default_rng(seed)
    X, T = np.split(hard_points(kind, rng, n + 7, n_features), [n])
    for prepared, exclude_self in ((prepare(X), True), (prepare(X, T), False)):
        n_neighbors = min(k, n - exclude_self)
        blocks = distance_blocks.pack_blocks(prepared.points)
        found = nearest_neighbors.nearest_neighbors_screened(
            prepared.queries, blocks, prepared.centred_queries, *prepared.screen, n_neighbors, exclude_self
        )
        expected = nearest_neighbors.nearest_neighbors(prepared.queries, blocks, n_neighbors, exclude_self)
        assert (np.sort(found, axis=1) == np.sort(expected, axis=1)).all()


def cluster(prepared, draws, use_screen=True):
    """Run k-means; without the screen all distances are computed in double precision."""
    _, _, slack, relative_error, scale = prepared.screen
    slack = slack if use_screen else np.full_like(slack, np.inf)
    blocks = distance_blocks.pack_blocks(prepared.centred)
    return lloyd.k_means(prepared.centred, blocks, prepared.screen.blocks, slack, relative_error, scale, draws).tolist()


@pytest.mark.parametrize("kind", KINDS)
@EXAMPLES
@given(st.integers(0, 10**6), st.integers(2, 300 if COMPILED else 12), st.integers(1, 30), st.integers(1, 8))
def test_the_screen_does_not_change_the_clusters(kind, seed, n, n_features, n_clusters):
    rng = np.random.default_rng(seed)
    prepared = prepare(hard_points(kind, rng, n, n_features))
    draws = rng.random((5 if COMPILED else 1, min(n, n_clusters), 3))
    assert cluster(prepared, draws) == cluster(prepared, draws, use_screen=False)


@pytest.mark.skipif(not COMPILED, reason="needs a kernel and its source")
@pytest.mark.parametrize("max_iterations", [1, 2, 5])
def test_the_screen_does_not_change_the_best_of_incomplete_runs(max_iterations, monkeypatch):
    monkeypatch.setattr(lloyd, "MAX_ITERATIONS", max_iterations)
    monkeypatch.setattr(lloyd, "k_means", lloyd.k_means.py_func)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        prepared, draws = prepare(rng.normal(size=(200, 2))), rng.random((5, 6, 3))
        assert cluster(prepared, draws) == cluster(prepared, draws, use_screen=False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_features", [1, 3, 4, 25, 400])
def test_distances_are_within_the_bounds_of_the_screen(kind, n_features):
    rng = np.random.default_rng(n_features)
    n = 200 if COMPILED else 12
    prepared = prepare(np.abs(hard_points(kind, rng, n, n_features)))
    blocks, lower_norms, slack, relative_error, scale = prepared.screen
    y, i = scale * prepared.centred, n // 2
    doubled = np.zeros((screen.QUERIES_PER_PASS, n_features), dtype=np.float32)
    norm = screen.load_query(prepared.centred, i, scale, doubled, 0)
    query_slack = 2 * relative_error * norm + screen.UNDERFLOW_ERROR
    screened = np.repeat(lower_norms[None], screen.QUERIES_PER_PASS, axis=0)
    for b in range(len(blocks)):
        screen.subtract_products(blocks, b, doubled, 0, screened)
    lower = screened[0].ravel()[:n].astype(float)
    exact = ((y - y[i]) ** 2).sum(axis=1) - (y[i] ** 2).sum()
    assert (lower - query_slack / 2 <= exact).all()
    assert (exact <= lower + slack.ravel()[:n] + query_slack / 2).all()
    assert np.abs(y).max() <= 1
    assert np.isposinf(screened[0].ravel()[n:]).all()


@EXAMPLES
@given(st.integers(0, 10**6), st.integers(2, 60 if COMPILED else 12), st.integers(1, 6))
def test_the_combined_function_returns_both_scores(seed, n, n_features):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(n, n_features)), rng.integers(0, 3, size=n)
    k = int(rng.integers(1, n))
    expected = knn_error(X, labels, k), clustering_nmi(X, labels, 4)
    assert knn_error_and_nmi(X, labels, k, seed=4) == expected


def inertia(X, clusters):
    return sum(((X[clusters == c] - X[clusters == c].mean(axis=0)) ** 2).sum() for c in np.unique(clusters))


def sklearn_clusters(X, n_clusters):
    with threadpool_limits(1):  # its threads wait for each other on a busy machine
        return KMeans(n_clusters, n_init=10, random_state=0).fit(X).labels_


@pytest.mark.parametrize("n_features", [1, 7, 8, 9, 19])
def test_the_sums_of_a_cluster(n_features):
    rng = np.random.default_rng(n_features)
    X, sums = rng.normal(size=(20, n_features)), np.full((3, n_features), np.nan)
    members, counts = np.array([4, 7, 19, 0, 2]), np.array([9, 4, 9])
    lloyd.add_members(X, members, counts, sums, 1)  # the first four members
    np.testing.assert_allclose(sums[1], X[[4, 7, 19, 0]].sum(axis=0), atol=1e-14)
    assert np.isnan(sums[[0, 2]]).all()


@pytest.mark.parametrize("before", [-1, 0])
def test_a_moved_point_takes_its_coordinates_along(before):
    X, clusters = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([before, 1])
    sums, counts = np.array([[10.0, 20.0], [30.0, 40.0]]), np.array([4, 5])
    lloyd.move_point(X, 0, 1, clusters, sums, counts)
    assert clusters.tolist() == [1, 1]
    assert counts.tolist() == ([4, 6] if before < 0 else [3, 6])
    assert sums.tolist() == [[10.0, 20.0] if before < 0 else [9.0, 18.0], [31.0, 42.0]]


@pytest.mark.parametrize("undecided", [False, True])
def test_points_are_reassigned_to_their_nearest_centres(undecided):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 3))
    blocks, centres = distance_blocks.pack_blocks(X), X[:4] + 0.1
    nearest = np.square(X[:, None] - centres).sum(axis=2).argmin(axis=1)
    clusters = np.where(rng.random(50) < 0.3, (nearest + 1) % 4, nearest)
    counts = np.bincount(clusters, minlength=4)
    sums = np.stack([X[clusters == c].sum(axis=0) for c in range(4)])
    lanes = blocks.shape[0], lloyd.LANES
    nearest_centre = np.zeros(lanes, dtype=np.int32)
    nearest_centre.ravel()[:50] = lloyd.UNDECIDED if undecided else nearest
    arguments = (X, blocks, centres, 4, np.zeros(lanes), nearest_centre, np.zeros((4 * len(blocks), lloyd.LANES)))
    moving = np.empty(50, dtype=np.int64)
    assert lloyd.reassign(*arguments, clusters, sums, counts, moving)
    assert (clusters == nearest).all()
    assert (counts == np.bincount(nearest, minlength=4)).all()
    np.testing.assert_allclose(sums, [X[nearest == c].sum(axis=0) for c in range(4)], atol=1e-13)
    assert not lloyd.reassign(*arguments, clusters, sums, counts, moving)


def test_k_means_almost_always_finds_the_best_partition():
    rng = np.random.default_rng(4)
    missed = []
    for n_clusters in (1, 2, 3):
        for _ in range(10):
            X = rng.normal(size=(6, 2))
            best = min(inertia(X, np.array(split)) for split in product(range(n_clusters), repeat=6))
            missed.append(inertia(X, k_means(X, n_clusters)) > best * (1 + 1e-9))
    assert sum(missed) <= 1


@EXAMPLES
@given(st.integers(0, 10**6), st.integers(2, 200), st.integers(1, 8), st.integers(1, 6))
def test_every_point_is_nearest_to_the_mean_of_its_cluster(seed, n, n_features, n_clusters):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) + rng.normal(scale=5, size=(n_clusters, n_features))[np.arange(n) % n_clusters]
    clusters = k_means(X, min(n, n_clusters), seed)
    assert set(clusters) == set(range(min(n, n_clusters)))  # none is empty
    means = np.array([X[clusters == c].mean(axis=0) for c in range(clusters.max() + 1)])
    distances = ((X[:, None] - means[None]) ** 2).sum(axis=2)
    own = distances[np.arange(n), clusters]
    assert (own <= distances.min(axis=1) * (1 + 1e-9)).all()


@pytest.mark.skipif(not COMPILED, reason="would take minutes")
def test_inertia_is_as_low_as_with_scikit_learn():
    worse = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, n_features, k = int(rng.integers(30, 300)), int(rng.integers(1, 20)), int(rng.integers(2, 6))
        X = rng.normal(size=(n, n_features)) + 3 * rng.normal(size=(k, n_features))[rng.integers(0, k, size=n)]
        theirs = inertia(X, sklearn_clusters(X, k))
        worse += inertia(X, k_means(X, k)) > theirs * (1 + 1e-6)
    assert worse <= 3


@pytest.mark.skipif(not COMPILED, reason="would take minutes")
def test_scores_of_a_scenario_agree_with_scikit_learn():
    for seed in range(10):
        step = next(iter(SCENARIOS["static"].stream(seed)))
        # From the true subspace to nearly all features.
        weights = step.true_metric().matrix + 0.05 * seed * np.eye(25)
        X, labels = step.points(slice(600)) @ weights, step.labels[:600]
        clusters = sklearn_clusters(X, 3)
        assert inertia(X, k_means(X, 3)) <= inertia(X, clusters) * (1 + 1e-3)
        assert clustering_nmi(X, labels) == pytest.approx(normalized_mutual_info_score(labels, clusters), abs=0.03)


def test_the_seed_determines_the_initial_centres():
    X = np.random.default_rng(5).normal(size=(60, 3))
    runs = [k_means(X, 5, seed).tolist() for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    before = X.copy()
    clustering_nmi(X, np.arange(60) % 3)
    assert (before == X).all()


@EXAMPLES
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=60))
def test_nmi_equals_scikit_learn(pairs):
    one, other = np.array(pairs).T
    assert nmi(one, other) == pytest.approx(normalized_mutual_info_score(one, other), abs=1e-12)
    assert nmi(one, other) == pytest.approx(nmi(other, one), abs=1e-12)
    assert 0 <= nmi(one, other) <= 1 + 1e-12


@EXAMPLES
@given(st.integers(0, 10**6), st.integers(2, 150), st.integers(1, 3), st.integers(1, 9))
def test_each_distinct_point_is_a_cluster_if_they_are_not_more_than_the_classes(seed, n, n_distinct, n_classes):
    rng = np.random.default_rng(seed)
    index, labels = rng.integers(0, n_distinct, size=n), rng.integers(0, n_classes, size=n)
    assume(len(np.unique(index)) <= len(np.unique(labels)))
    X = rng.normal(size=(n_distinct, 2))[index]
    assert clustering_nmi(X, labels) == pytest.approx(normalized_mutual_info_score(labels, index), abs=1e-12)


@pytest.mark.parametrize(
    ("points", "labels", "expected"),
    [
        (np.ones((9, 2)), [0, 1, 2] * 3, 0.0),  # all points are equal
        (np.ones((9, 2)), [0] * 9, 1.0),
        (np.arange(9.0)[:, None], [0] * 9, 1.0),  # one class, one cluster
        ([[0.0], [1.0]], ["a", "b"], 1.0),
        ([[3.0]], ["a"], 1.0),
        (np.arange(9.0)[:, None] ** 3, range(9), 1.0),
        ([[1e308], [-1e308], [1e308], [-1e308]], [0, 1, 0, 1], 1.0),
        ([[1e-308], [-1e-308], [1e-308], [-1e-308]], [0, 1, 0, 1], 1.0),
        ([[1e16], [1e16 + 2], [1e16 + 20], [1e16 + 22]], [0, 0, 1, 1], 1.0),
    ],
)
def test_nmi_in_extreme_cases(points, labels, expected):
    assert clustering_nmi(points, labels) == pytest.approx(expected, abs=1e-12)


def test_clusters_far_from_the_origin_are_found():
    rng = np.random.default_rng(6)
    labels = np.arange(300 if COMPILED else 60) % 3
    X = rng.integers(-1, 2, size=(len(labels), 2)) + np.array([[0, 0], [7, 0], [0, 7]])[labels]
    assert clustering_nmi(X + 2.0**52, labels) == pytest.approx(1.0)


def test_a_candidate_is_sampled_by_squared_distance_and_never_at_a_centre():
    min_distances, cumulative = np.zeros((1, distance_blocks.LANES)), np.empty(5)
    min_distances[0, :5] = [0.0, 3.0, 0.0, 1.0, 0.0]
    lloyd.cumulate(min_distances, cumulative)
    assert [lloyd.sample_point(cumulative, target) for target in (0.0, 2.9, 3.0, 3.1, 4.0)] == [1, 1, 1, 3, 3]


def test_an_empty_cluster_gets_the_farthest_point():
    X = np.array([[0.0], [1.0], [9.0], [20.0]])
    clusters, counts = np.array([0, 0, 0, 2]), np.array([3, 0, 1])
    sums, centres = np.array([[10.0], [0.0], [20.0]]), np.zeros((3, 1))
    min_distances = np.zeros((1, distance_blocks.LANES))
    min_distances[0, :4] = [0.0, 1.0, 81.0, 400.0]  # the last point is farthest, but the only one of its cluster
    lloyd.update_centres(X, min_distances, clusters, sums, counts, centres, 3)
    assert clusters.tolist() == [0, 0, 1, 2]
    assert counts.tolist() == [2, 1, 1]
    assert centres.ravel().tolist() == [0.5, 9.0, 20.0]


@EXAMPLES
@given(st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=2, max_size=120))
def test_auc_equals_scikit_learn(pairs):
    distances, similar = map(np.array, zip(*pairs, strict=True))
    assume(similar.any() and not similar.all())
    expected = roc_auc_score(similar, -distances)
    assert pair_auc(distances, similar) == pytest.approx(expected, abs=1e-12)
    assert pair_auc(np.exp(distances / 3), np.where(similar, 1, -1)) == pytest.approx(expected, abs=1e-12)
    assert pair_auc(-distances, similar) == pytest.approx(1 - expected, abs=1e-12)


@pytest.mark.parametrize("y", [[1, 1], [-1, -1]])
def test_auc_of_one_label_is_not_a_number(y):
    assert np.isnan(pair_auc([1.0, 2.0], y))


TWO = [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: knn_error(TWO, [0, 1], 2), "n_neighbors is 2; accepted: at most 1, the number of other points"),
        (
            lambda: knn_error(TWO, [0, 1], 3, test_points=TWO, test_labels=[0, 1]),
            "n_neighbors is 3; accepted: at most 2, the number of points",
        ),
        (lambda: knn_error(TWO, [0, 1], 1.5), "n_neighbors must be a whole number"),
        (lambda: knn_error(TWO, [0, 1], 1, test_labels=[0, 1]), "test_labels is given without test_points"),
        (lambda: knn_error(TWO, [0, 1], 1, test_points=[[1.0, 2.0]], test_labels=[0]), "2 features; 1 are expected"),
        (lambda: knn_error(TWO, [0, 1], 1, test_points=TWO, test_labels=[0]), "one label for each of the 2 test poin"),
        (lambda: knn_error(TWO, [0, 1], 1, test_points=TWO), "test_labels has shape \\(\\)"),
        (lambda: knn_error(TWO, [0, 1], 1, test_points=[[np.inf]], test_labels=[0]), "test_points holds inf"),
        (lambda: knn_error(TWO, [None, "a"], 1), "labels hold values that cannot be compared"),
        (lambda: knn_error([["a"], ["b"]], [0, 1], 1), "points holds 'a' at index"),
        (lambda: knn_error_from_similarity([[1.0, 2.0]], [0, 1], 1), "without test_labels"),
        (lambda: knn_error_from_similarity(np.eye(2), [0, 1, 2], 1), "one label for each of the 2 points"),
        (lambda: knn_error_from_similarity(np.eye(2), [0, 1], 2), "at most 1, the number of other points"),
        (lambda: knn_error_from_similarity([[np.nan, 1.0], [1.0, 1.0]], [0, 1], 1), "similarity holds nan"),
        (lambda: knn_error_and_nmi([[1.0], [np.nan]], [0, 1], 1), "only finite numbers"),
        (lambda: knn_error_and_nmi(TWO, [0, 1]), "n_neighbors is 5; accepted: at most 1, the number of other points"),
        (lambda: knn_error_and_nmi(TWO, [0, 1], 1, seed=-1), "seed must be a whole number"),
        (lambda: clustering_nmi([[1.0], [np.nan]], [0, 1]), "only finite numbers"),
        (lambda: clustering_nmi(TWO, [0, 1], seed=-1), "seed must be a whole number"),
        (lambda: clustering_nmi(TWO, [[0, 1]]), "one label for each of the 2 points"),
        (lambda: pair_auc([1.0, np.nan], [1, -1]), "distances holds nan"),
        (lambda: pair_auc([1.0, 2.0], [1, 2]), "y holds 2 at position 1"),
        (lambda: pair_auc([1.0, 2.0], [1]), "y has 1 labels for 2 pairs"),
        (lambda: pair_auc([], []), "distances is empty"),
        (lambda: pair_auc([[1.0]], [1]), "distances has shape"),
    ],
)
def test_invalid_arguments_raise_an_error(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def score_kernels():
    return {
        kernel
        for module in (distance_blocks, screen, nearest_neighbors, lloyd)
        for kernel in vars(module).values()
        if hasattr(kernel, "py_func")
    }


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_cached_kernels_have_the_stamp_of_the_shared_sources_and_of_their_folder():
    stamp = _compile.source_digest(*_compile.SHARED_SOURCES, Path(distance_blocks.__file__).parent)
    assert len(score_kernels()) > 20
    for kernel in score_kernels():
        assert kernel._cache._cache_file._source_stamp == stamp, kernel


@pytest.mark.skipif(not COMPILED, reason="needs the compiler")
def test_each_kernel_is_compiled_for_one_signature_only():
    precompile_scores()
    n_signatures = {kernel: len(kernel.signatures) for kernel in score_kernels()}
    X, labels = np.asfortranarray(np.arange(12).reshape(6, 2)), np.array([0, 1, 2] * 2, dtype=np.uint8)
    knn_error(X[::2], labels[::2], 1)
    knn_error(np.tile(X, (3, 1)), np.tile(labels, 3), nearest_neighbors.MAX_SCREENED_NEIGHBORS + 1)
    knn_error(X, labels, 1, test_points=X[::-1], test_labels=labels[::-1])
    knn_error_from_similarity(np.eye(6).T, labels, 2, test_labels=labels[::-1])
    clustering_nmi(X[::-1].astype(np.float32), labels)
    for kernel, count in n_signatures.items():
        assert len(kernel.signatures) == count <= 1, kernel
    for kernel in (
        nearest_neighbors.nearest_neighbors,
        nearest_neighbors.nearest_neighbors_screened,
        nearest_neighbors.most_similar,
        nearest_neighbors.count_wrong_votes,
        lloyd.k_means,
    ):
        assert n_signatures[kernel] == 1
