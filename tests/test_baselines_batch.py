"""The batch methods find the optimum of their objectives, and reject data that they cannot be fitted to."""

from __future__ import annotations

import copy
from collections import deque
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import pairwise_distances
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import MinMaxScaler

from ocelad import Metric
from ocelad.evaluation.scores import knn_error
from ocelad.evaluation.streams import DriftingClusters
from ocelad.lab.baselines import batch, lbfgs, mmc
from ocelad.lab.baselines.batch import (
    FitError,
    FitsPairs,
    FitsPoints,
    PeriodicRefit,
    calibrate_on_pairs,
    draw_balanced_pairs,
)
from ocelad.lab.baselines.cosine import CosineDistance
from ocelad.lab.baselines.euclidean import euclidean
from ocelad.lab.baselines.itml import Itml
from ocelad.lab.baselines.lda import Lda
from ocelad.lab.baselines.lmnn import Lmnn, pairs_problem, points_problem
from ocelad.lab.baselines.logdet import logdet_divergence
from ocelad.lab.baselines.mds import Mds
from ocelad.lab.baselines.mmc import Mmc
from ocelad.lab.baselines.nca import Nca
from ocelad.lab.baselines.pca import Pca
from ocelad.lab.baselines.standardized import Standardized
from ocelad.lab.baselines.whitening import Whitening

METHODS = [
    Lmnn(),
    Mmc(n_pairs=200),
    Mmc(diagonal=True, n_pairs=200),
    Itml(),
    Nca(),
    Lda(),
    Pca(),
    Mds(),
    Whitening(),
    Standardized(),
]
FROM_POINTS = [method for method in METHODS if isinstance(method, FitsPoints)]
FROM_PAIRS = [method for method in METHODS if isinstance(method, FitsPairs)]
SEEDS = st.integers(0, 2**32 - 1)


def method_id(method) -> str:
    return repr(method).split("(")[0] + ("(diagonal)" if getattr(method, "diagonal", False) else "")


def labelled_points(rng: np.random.Generator, count: int = 40, n: int = 3, n_classes: int = 3):
    """Draw overlapping clusters with at least two points per class."""
    classes = np.concatenate([np.repeat(np.arange(n_classes), 2), rng.integers(n_classes, size=count - 2 * n_classes)])
    return rng.normal(size=(count, n)) + 1.5 * rng.normal(size=(n_classes, n))[classes], classes


def some_pairs(rng: np.random.Generator, count: int = 40, n: int = 3):
    """Draw pairs of distinct points; similar pairs are closer in the first feature."""
    y = np.where(np.arange(count) % 2, 1.0, -1.0)
    X = rng.normal(size=(count, n))
    U = rng.normal(size=(count, n))
    U[:, 0] *= np.where(y > 0, 0.5, 2.0)
    return X, X - U, y


def factor_minimum(value, n: int, rng: np.random.Generator, starts: int = 4) -> float:
    """Minimise a function of positive semidefinite M without derivatives."""
    options = {"xatol": 1e-7, "fatol": 1e-9, "maxiter": 4000, "maxfev": 8000}
    lower = np.tril_indices(n)

    def of_lower(entries):
        L = np.zeros((n, n))
        L[lower] = entries
        return value(L @ L.T)

    best = np.inf
    for start in range(starts):
        entries = (np.eye(n) if start == 0 else rng.normal(size=(n, n)))[lower]
        for _ in range(3):  # restarts of a simplex that may have collapsed
            result = minimize(of_lower, entries, method="Nelder-Mead", options=options)
            entries = result.x
        best = min(best, result.fun)
    return best


# All methods.


@pytest.mark.parametrize("method", FROM_POINTS, ids=method_id)
def test_fitting_points_is_pure_and_deterministic(method):
    X, classes = labelled_points(np.random.default_rng(0))
    before = X.copy()
    X.flags.writeable = classes.flags.writeable = False
    metric = method.fit_points(X, classes)
    assert np.array_equal(X, before)
    assert metric == method.fit_points(before.tolist(), classes.tolist())
    assert metric == method.fit_points(before, np.array(["a", "b", "c"])[classes])
    check_metric(metric)


@pytest.mark.parametrize("method", FROM_PAIRS, ids=method_id)
def test_fitting_pairs_is_pure_and_deterministic(method):
    X, Z, y = some_pairs(np.random.default_rng(0))
    before = X.copy(), Z.copy(), y.copy()
    for array in (X, Z, y):
        array.flags.writeable = False
    metric = method.fit_pairs(X, Z, y)
    assert all(map(np.array_equal, (X, Z, y), before))
    assert metric == method.fit_pairs(X.tolist(), Z.tolist(), (y > 0).tolist())
    check_metric(metric)
    # The order of the two points does not matter.
    swapped = method.fit_pairs(Z, X, y)
    assert np.allclose(metric.matrix, swapped.matrix, rtol=1e-6, atol=1e-6 * np.abs(metric.matrix).max())


def check_metric(metric: Metric) -> None:
    assert metric.n_features == 3
    assert metric.threshold > 0
    assert np.linalg.eigvalsh(metric.matrix)[0] >= -1e-12 * np.abs(metric.matrix).max()


def test_which_methods_learn_from_points_and_from_pairs():
    assert FROM_POINTS == METHODS
    assert [method_id(method) for method in FROM_PAIRS] == [
        "Lmnn",
        "Mmc",
        "Mmc(diagonal)",
        "Itml",
        "Pca",
        "Mds",
        "Whitening",
        "Standardized",
    ]


GOOD = [[0.0, 1.0], [1.0, 3.0], [2.0, -1.0], [5.0, 0.5]]
BAD_POINTS = [
    ([[0.0, np.nan], *GOOD[1:]], [0, 0, 1, 1], "X holds nan at index (0, 1)"),
    ([*GOOD[:3], [np.inf, 0.0]], [0, 0, 1, 1], "X holds inf at index (3, 0)"),
    ([*GOOD[:3], [0.0, -2e30]], [0, 0, 1, 1], "X holds -2e+30 at index (3, 1)"),
    ([0.0, 1.0], [0, 1], "X has shape (2,)"),
    (np.zeros((0, 2)), [], "X is empty"),
    ([["a", "b"]] * 4, [0, 0, 1, 1], "X holds 'a' at index (0, 0)"),
    (None, [0, 1], "X is None"),
    ([[0.0], [1.0, 2.0]], [0, 1], "X is ragged"),
    (GOOD, [0, 0, 1], "labels has shape (3,)"),
    (GOOD, [[0, 0], [1]], "labels are ragged"),
    (GOOD, None, "labels has shape ()"),
    (GOOD, [0.0, np.nan, 1.0, 1.0], "labels holds nan at position 1"),
    (GOOD, np.array([0, "a", 1, 1], dtype=object), "labels hold values that cannot be compared"),
    (GOOD, np.array([0, None, 1, 1], dtype=object), "labels hold values that cannot be compared"),
]
BAD_PAIRS = [
    ([[0.0, np.nan], *GOOD[1:]], GOOD, [1, 1, -1, -1], "X holds nan at index (0, 1)"),
    (GOOD, [*GOOD[:3], [0.0, np.inf]], [1, 1, -1, -1], "Z holds inf at index (3, 1)"),
    (GOOD, [*GOOD[:3], [0.0, 2e30]], [1, 1, -1, -1], "Z holds 2e+30 at index (3, 1)"),
    (GOOD, GOOD[:3], [1, 1, -1, -1], "X has 4 rows and Z has 3"),
    (GOOD, [[0.0]] * 4, [1, 1, -1, -1], "Z has 1 features; 2 are expected"),
    (GOOD, GOOD[::-1], [1, 1, -1], "y has 3 labels for 4 pairs"),
    (GOOD, GOOD[::-1], [1, 1, 0, -1], "y holds 0 and -1"),
    (GOOD, GOOD[::-1], [1, 1, np.nan, -1], "y holds nan at position 2"),
    (GOOD, GOOD[::-1], ["s", "s", "d", "d"], "y holds 's' at position 0"),
]


@pytest.mark.parametrize("method", FROM_POINTS, ids=method_id)
@pytest.mark.parametrize(("X", "labels", "message"), BAD_POINTS)
def test_invalid_points_are_rejected(method, X, labels, message):
    with pytest.raises((ValueError, TypeError)) as raised:
        method.fit_points(X, labels)
    check_message(raised.value, message)


@pytest.mark.parametrize("method", FROM_PAIRS, ids=method_id)
@pytest.mark.parametrize(("X", "Z", "y", "message"), BAD_PAIRS)
def test_invalid_pairs_are_rejected(method, X, Z, y, message):
    with pytest.raises((ValueError, TypeError)) as raised:
        method.fit_pairs(X, Z, y)
    check_message(raised.value, message)


def check_message(error: Exception, start: str) -> None:
    assert str(error).startswith(start)
    assert "\n" not in str(error)
    assert not isinstance(error, FitError)  # FitError is for valid data that do not suffice


NOT_ENOUGH_POINTS = {
    "one class": (GOOD, [7, 7, 7, 7]),
    "one point": (GOOD[:1], [0]),
    "one point of each class": (GOOD, [0, 1, 2, 3]),
    "equal points": ([[1.0, 2.0]] * 4, [0, 0, 1, 1]),
}
NOT_ENOUGH_PAIRS = {
    "all similar": (GOOD, GOOD[::-1], [1, 1, 1, 1]),
    "all dissimilar": (GOOD, GOOD[::-1], [-1, -1, -1, -1]),
    "pairs of equal points": (GOOD, GOOD, [1, 1, -1, -1]),
}


@pytest.mark.parametrize("method", FROM_POINTS, ids=method_id)
@pytest.mark.parametrize("case", NOT_ENOUGH_POINTS)
def test_insufficient_points_raise_fit_error(method, case):
    if case == "equal points" and isinstance(method, (Lmnn, Nca)):
        return  # their objectives are defined for any points
    with pytest.raises(FitError) as raised:
        method.fit_points(*NOT_ENOUGH_POINTS[case])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("method", FROM_PAIRS, ids=method_id)
@pytest.mark.parametrize("case", NOT_ENOUGH_PAIRS)
def test_insufficient_pairs_raise_fit_error(method, case):
    if case == "pairs of equal points" and isinstance(method, (Lmnn, Pca, Mds, Standardized)):
        return  # LMNN's objective is defined for any points; the others use the points of the pairs
    with pytest.raises(FitError) as raised:
        method.fit_pairs(*NOT_ENOUGH_PAIRS[case])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("method", FROM_POINTS, ids=method_id)
@pytest.mark.parametrize("shape", ["constant feature", "duplicates", "fewer points than features", "tiny", "large"])
def test_unusual_points_give_a_metric_or_fit_error(method, shape):
    rng = np.random.default_rng(1)
    X, classes = labelled_points(rng, count=9, n=12 if shape == "fewer points than features" else 3)
    if shape == "constant feature":
        X[:, 1] = 5.0
    elif shape == "duplicates":
        X, classes = np.repeat(X, 3, axis=0), np.repeat(classes, 3)
    elif shape in ("tiny", "large"):
        X *= 1e-170 if shape == "tiny" else 1e29
    try:
        metric = method.fit_points(X, classes)
    except FitError:
        assert shape in ("fewer points than features", "tiny")
    else:
        assert np.isfinite(metric.matrix).all()


@given(seed=SEEDS, count=st.integers(2, 9), n=st.integers(1, 4), n_classes=st.integers(1, 4))
def test_few_points_on_a_grid_give_a_metric_or_fit_error(seed, count, n, n_classes):
    rng = np.random.default_rng(seed)
    X, Z = rng.integers(-1, 2, size=(2, count, n)).astype(float)
    classes, y = rng.integers(n_classes, size=count), rng.choice([1.0, -1.0], count)
    for fit in [lambda m: m.fit_points(X, classes), lambda m: isinstance(m, FitsPairs) and m.fit_pairs(X, Z, y)]:
        for method in METHODS:
            try:
                metric = fit(method)
            except FitError:
                continue
            assert metric is False or np.isfinite(metric.matrix).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Lmnn(k=0), "k must be a whole number of at least 1; got 0"),
        (lambda: Lmnn(weight=1.0), "weight must be a finite number above 0 and below 1; got 1.0"),
        (lambda: Lmnn(weight=0.0), "weight must be a finite number above 0; got 0.0"),
        (lambda: Lmnn(max_iter=2.5), "max_iter must be a whole number"),
        (lambda: Mmc(diagonal=1), "diagonal must be one of True, False; got 1"),
        (lambda: Mmc(tolerance=0), "tolerance must be a finite number above 0"),
        (lambda: Mmc(n_pairs=1), "n_pairs must be a whole number of at least 2"),
        (lambda: Itml(gamma=-1.0), "gamma must be a finite number above 0"),
        (lambda: Itml(gamma=np.inf), "gamma must be a finite number above 0"),
        (
            lambda: Itml(similar_bound=2.0, dissimilar_bound=1.0),
            "similar_bound must be below dissimilar_bound; got 2 and 1",
        ),
        (lambda: Itml(dissimilar_bound="x"), "dissimilar_bound must be a finite number above 0"),
        (lambda: Itml(max_sweeps=0), "max_sweeps must be a whole number"),
        (lambda: Nca(n_components=0), "n_components must be a whole number"),
        (lambda: Nca(seed=2**32), "seed must be a whole number of at most"),
        (lambda: Lda(n_components=1.5), "n_components must be a whole number"),
        (lambda: Pca(n_components="2"), "n_components must be a whole number"),
        (lambda: Mds(n_components=None), "n_components must be a whole number"),
        (lambda: Mds(max_points=1), "max_points must be a whole number of at least 2"),
        (lambda: Whitening(regularization=-1e-9), "regularization must be a finite number of at least 0"),
        (lambda: euclidean(0), "n_features must be a whole number of at least 1"),
        (lambda: PeriodicRefit(Lda(), every=10, source="pairs", start=euclidean(2)), "Lda does not learn from pairs"),
        (lambda: PeriodicRefit(Lda(), every=0, start=euclidean(2)), "every must be a whole number"),
        (lambda: PeriodicRefit(Lda(), every=1, window=0, start=euclidean(2)), "window must be a whole number"),
        (lambda: PeriodicRefit(Lda(), every=1, source="triplets", start=euclidean(2)), "source must be one of"),
        (lambda: PeriodicRefit(Lda(), every=1, start=np.eye(2)), "start must be a Metric; got ndarray"),
    ],
)
def test_settings_are_checked(make, message):
    with pytest.raises((ValueError, TypeError)) as raised:
        make()
    assert str(raised.value).startswith(message)


@given(seed=SEEDS, sizes=st.lists(st.integers(1, 5), min_size=2, max_size=4), count=st.integers(2, 60))
def test_balanced_pairs_are_distinct_points_with_the_right_labels(seed, sizes, count):
    classes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    if max(sizes) == 1:
        with pytest.raises(FitError):
            draw_balanced_pairs(classes, count, seed)
        return
    first, second, y = draw_balanced_pairs(classes, count, seed)
    assert (first != second).all()
    assert ((classes[first] == classes[second]) == (y > 0)).all()
    assert len(y) == count


def test_half_of_the_balanced_pairs_are_similar():
    classes = np.repeat(np.arange(4), [40, 3, 2, 5])
    _, _, y = draw_balanced_pairs(classes, 20_000, seed=0)
    assert np.mean(y > 0) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(20_000))


def test_every_pair_can_be_drawn():
    classes = np.array([0, 1, 0, 2, 1, 0])
    first, second, _ = draw_balanced_pairs(classes, 2000, seed=3)
    possible = {(i, j) for i, j in product(range(6), repeat=2) if i != j and not (i == j == 3)}
    assert set(zip(first.tolist(), second.tolist(), strict=True)) == possible


@given(seed=SEEDS)
def test_no_threshold_classifies_more_pairs_correctly(seed):
    rng = np.random.default_rng(seed)
    U, y = rng.integers(-3, 4, size=(15, 2)).astype(float), np.append([1.0, -1.0], rng.choice([1.0, -1.0], 13))
    metric = calibrate_on_pairs(Metric([[2.0, 0.0], [0.0, 1.0]]), U, y)
    d2 = metric.squared_length(U)
    n_correct = [np.sum((d2 <= threshold) == (y > 0)) for threshold in (0.0, *d2, metric.threshold)]
    assert n_correct[-1] == max(n_correct)


# The tracker of batch methods.


def test_periodic_refit_fits_the_window_after_enough_rows():
    X, classes = labelled_points(np.random.default_rng(2), count=60)
    start = euclidean(3)
    tracker = PeriodicRefit(Whitening(), every=20, window=25, start=start)
    fitted = []
    for at in range(0, 60, 8):
        tracker.add_points(X[at : at + 8], classes[at : at + 8])
        seen = min(at + 8, 60)
        if seen in (24, 48):
            last = slice(max(seen - 25, 0), seen)
            fitted.append(Whitening().fit_points(X[last], classes[last]).with_round(seen))
        assert tracker.play() == (fitted[-1] if fitted else start)
    assert len(fitted) == 2
    assert tracker.failed_fits == ()


def test_periodic_refit_without_a_window_fits_all_pairs():
    X, Z, y = some_pairs(np.random.default_rng(3), count=30)
    tracker = PeriodicRefit(Itml(), every=30, source="pairs", start=euclidean(3))
    given = X.copy()
    tracker.add_pairs(given[:11], Z[:11], y[:11])
    given[:] = 0.0  # the caller may change its arrays
    copied = copy.deepcopy(tracker)
    tracker.add_pairs(X[11:], Z[11:], y[11:] > 0)
    assert tracker.play() == Itml().fit_pairs(X, Z, y).with_round(30)
    assert copied.play() == euclidean(3)


def test_periodic_refit_remembers_failed_fits():
    X, classes = labelled_points(np.random.default_rng(4), count=30)
    start = euclidean(3)
    tracker = PeriodicRefit(Lda(), every=10, start=start)
    tracker.add_points(X[:10], np.zeros(10))
    assert tracker.play() == start
    assert tracker.failed_fits == ((10, "all 10 points have the same class; LDA needs two classes or more"),)
    tracker.add_points(X[10:20], classes[10:20])
    assert tracker.play().round == 20
    assert len(tracker.failed_fits) == 1
    one_class = PeriodicRefit(Lda(), every=1, window=1, start=start)
    for _ in range(batch._MAX_FAILED_FITS + 5):
        one_class.add_points(X[:1], [1])
    assert [failed.round for failed in one_class.failed_fits] == list(range(6, batch._MAX_FAILED_FITS + 6))


def test_all_blocks_have_text_labels_or_all_have_numbers():
    tracker = PeriodicRefit(Whitening(), every=100, start=euclidean(2))
    tracker.add_points(GOOD[:2], ["a", "b"])
    tracker.add_points(GOOD[2:], ["long name", "b"])
    with pytest.raises(TypeError, match="labels are text in one block and numbers in another"):
        tracker.add_points(GOOD[:2], [0, 1])


@pytest.mark.parametrize(("y", "kind"), [([1, 1], "similar"), ([-1, -1], "dissimilar")])
def test_the_missing_kind_of_pairs_is_named(y, kind):
    with pytest.raises(FitError, match=f"all 2 pairs are {kind}; MMC needs similar and dissimilar pairs"):
        Mmc().fit_pairs(GOOD[:2], GOOD[2:4], y)


@pytest.mark.parametrize(
    ("feed", "message"),
    [
        (lambda tracker: tracker.add_points([[1.0, np.nan]], [0]), "X holds nan"),
        (lambda tracker: tracker.add_points([[1.0, 2.0, 3.0]], [0]), "X has 3 features; 2 are expected"),
        (lambda tracker: tracker.add_points([[1.0, 2.0]], [0, 1]), "labels has shape (2,)"),
        (
            lambda tracker: tracker.add_points([[1.0, 2.0]], ["a"]),
            "labels are text in one block and numbers in another",
        ),
        (lambda tracker: tracker.add_pairs([[1.0, 2.0]], [[1.0, 2.0]], [1]), "this tracker learns from points"),
    ],
)
def test_a_rejected_block_changes_nothing(feed, message):
    blocks = [(GOOD[:2], [0, 1]), (GOOD[2:], [0, 1]), ([[7.0, 7.0]], [1])]
    trackers = [PeriodicRefit(Whitening(), every=5, start=euclidean(2)) for _ in range(2)]
    for block in blocks:
        for tracker in trackers:
            tracker.add_points(*block)
        if block is not blocks[-1]:
            with pytest.raises((ValueError, TypeError)) as raised:
                feed(trackers[0])
            assert str(raised.value).startswith(message)
    assert trackers[0].play() == trackers[1].play()
    assert trackers[0].play().round == 5


# LMNN.


def lmnn_objective(X, classes, M, k, weight):
    """Return the objective of the paper, triple by triple."""

    def d2(i, j):
        return (X[i] - X[j]) @ M @ (X[i] - X[j])

    pull = push = 0.0
    for i in range(len(X)):
        others = [j for j in range(len(X)) if j != i and classes[j] == classes[i]]
        for j in sorted(others, key=lambda j: np.sum((X[i] - X[j]) ** 2))[:k]:
            pull += d2(i, j)
            push += sum(max(0.0, 1 + d2(i, j) - d2(i, m)) for m in range(len(X)) if classes[m] != classes[i])
    return (1 - weight) * pull + weight * push


@given(seed=SEEDS, k=st.integers(1, 4), weight=st.floats(0.05, 0.95))
def test_lmnn_objective_is_that_of_the_paper(seed, k, weight):
    rng = np.random.default_rng(seed)
    X, classes = labelled_points(rng, count=14)
    A = rng.normal(size=(3, 3))
    value, _ = points_problem(X, classes, k).evaluate(A.T @ A, weight)
    assert value == pytest.approx(lmnn_objective(X, classes, A.T @ A, k, weight), rel=1e-9)


def test_lmnn_objective_with_more_points_than_a_block():
    rng = np.random.default_rng(12)
    X, classes = labelled_points(rng, count=700, n_classes=2)
    M = np.diag([0.02, 0.01, 0.03])
    same = classes[:, None] == classes
    near = np.where(same & ~np.eye(700, dtype=bool), pairwise_distances(X), np.inf)
    reach = pairwise_distances(X @ np.sqrt(M)) ** 2
    pulled = np.take_along_axis(reach, np.argsort(near, axis=1)[:, :2], axis=1)
    pushed = sum(np.maximum(0.0, 1 + pulled[:, [j]] - reach)[~same].sum() for j in range(2))
    value, _ = points_problem(X, classes, 2).evaluate(M, 0.25)
    assert value == pytest.approx(0.75 * pulled.sum() + 0.25 * pushed, rel=1e-9)


def lmnn_pairs_objective(X, Z, y, M, weight):
    d2 = np.einsum("ij,jk,ik->i", X - Z, M, X - Z)
    similar, dissimilar = np.flatnonzero(y > 0), np.flatnonzero(y < 0)

    def share(s, d):
        return any(np.array_equal(a[s], b[d]) for a, b in product((X, Z), repeat=2))

    triples = [(s, d) for s, d in product(similar, dissimilar) if share(s, d)]
    per_triple = 1.0
    if 2 * len({s for s, _ in triples}) < len(similar):
        triples, per_triple = list(product(similar, dissimilar)), 1.0 / len(dissimilar)
    push = sum(max(0.0, 1 + d2[s] - d2[d]) for s, d in triples)
    return (1 - weight) * d2[similar].sum() + weight * per_triple * push


@given(seed=SEEDS, n_points=st.sampled_from([6, 14, 200]))
def test_lmnn_objective_of_pairs_is_the_documented_one(seed, n_points):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n_points, 3))
    first = rng.integers(n_points, size=16)
    second = (first + rng.integers(1, n_points, size=16)) % n_points
    X, Z, y = points[first], points[second], np.append([1.0, -1.0], rng.choice([1.0, -1.0], 14))
    A = rng.normal(size=(3, 3))
    value, _ = pairs_problem(X, Z, y).evaluate(A.T @ A, 0.3)
    assert value == pytest.approx(lmnn_pairs_objective(X, Z, y, A.T @ A, 0.3), rel=1e-9)


def lmnn_problems(rng: np.random.Generator, n: int):
    X, classes = labelled_points(rng, count=300, n=n)  # more than one block per class
    yield points_problem(X, classes, 3)
    X, classes = labelled_points(rng, count=30, n=n)
    yield points_problem(X, classes, 2)
    yield pairs_problem(*some_pairs(rng, n=n))
    first, second, y = draw_balanced_pairs(classes, 60, seed=0)
    yield pairs_problem(X[first], X[second], y)


@pytest.mark.parametrize("seed", range(3))
def test_lmnn_gradient_agrees_with_finite_differences(seed):
    rng = np.random.default_rng(seed)
    for problem in lmnn_problems(rng, 3):
        A, D = rng.normal(size=(2, 3, 3))
        M, D = A.T @ A + 0.1 * np.eye(3), 1e-7 * (D + D.T)
        _, gradient = problem.evaluate(M, 0.4)
        slope = problem.evaluate(M + D, 0.4)[0] - problem.evaluate(M - D, 0.4)[0]
        assert slope == pytest.approx(2 * np.sum(gradient * D), rel=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_lmnn_decreases_to_the_optimum(seed):
    rng = np.random.default_rng(seed)
    for problem in list(lmnn_problems(rng, 2))[1:]:
        solution = Lmnn(max_iter=300).solve(problem)
        assert (np.diff(solution.history) <= 0).all()
        assert len(solution.history) > 3
        value = problem.evaluate(solution.metric.matrix, 0.5)[0]
        assert value == pytest.approx(solution.history[-1], rel=1e-9)
        best = factor_minimum(lambda M, problem=problem: problem.evaluate(M, 0.5)[0], 2, rng, starts=1)
        assert value <= best * (1 + 1e-4)


def test_lmnn_is_equivariant_to_scale_and_rotation():
    rng = np.random.default_rng(5)
    X, classes = labelled_points(rng)
    M = Lmnn().fit_points(X, classes).matrix
    scaled = Lmnn().fit_points(1e6 * X + 1e7, classes).matrix
    assert np.allclose(scaled * 1e12, M, rtol=1e-3, atol=1e-3 * np.abs(M).max())
    problem = points_problem(X, classes, 3)
    R, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    rotated = R @ Lmnn().fit_points(X @ R, classes).matrix @ R.T
    assert problem.evaluate(rotated, 0.5)[0] == pytest.approx(problem.evaluate(M, 0.5)[0], rel=1e-3)


def test_lmnn_recovers_the_clustering_of_its_labels():
    step = next(iter(DriftingClusters(seed=0)))
    X, labels = step.points(), step.labels
    metric = Lmnn().fit_points(X[600:1400], labels[600:1400])
    assert knn_error(metric.embed(X[:600]), labels[:600]) < 0.02
    assert knn_error(X[:600], labels[:600]) > 0.1


def accuracy_of_3_nn(method, X, y) -> float:
    """Return the accuracy as Suarez, Garcia and Herrera measure it: ten folds, features scaled to [0, 1]."""
    right = []
    for train, test in StratifiedKFold(10, shuffle=True, random_state=0).split(X, y):
        scaler = MinMaxScaler().fit(X[train])
        metric = method.fit_points(scaler.transform(X[train]), y[train])
        vote = KNeighborsClassifier(3).fit(metric.embed(scaler.transform(X[train])), y[train])
        right.append(vote.score(metric.embed(scaler.transform(X[test])), y[test]))
    return float(np.mean(right))


# "A tutorial on distance metric learning", Neurocomputing 425 (2021); figures: github.com/jlsuarezdiaz/pyDML-Stats.
PUBLISHED_WINE = {Lmnn(): 0.983, Itml(): 0.977, Nca(): 0.988, Lda(): 0.989, Pca(): 0.961}
PUBLISHED_DIGITS = {Lmnn(): 0.986, Itml(): 0.973, Nca(): 0.989, Lda(): 0.968, Pca(): 0.987}


@pytest.mark.parametrize("method", PUBLISHED_WINE, ids=method_id)
def test_wine_as_published(method):
    assert accuracy_of_3_nn(method, *load_wine(return_X_y=True)) > PUBLISHED_WINE[method] - 0.025


@pytest.mark.heavy
@pytest.mark.parametrize("method", PUBLISHED_DIGITS, ids=method_id)
def test_digits_as_published(method):
    assert accuracy_of_3_nn(method, *load_digits(return_X_y=True)) > PUBLISHED_DIGITS[method] - 0.01


# MMC.


def differences(rng: np.random.Generator, n: int, count: int = 30):
    X, Z, y = some_pairs(rng, count, n)
    return (X - Z)[y > 0], (X - Z)[y < 0]


def mmc_ratio(M, similar, dissimilar) -> float:
    """Return ``g(M)`` after scaling M to the bound; g grows with the root of the scale."""
    spread = np.einsum("ij,jk,ik->", similar, M, similar)
    return np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", dissimilar, M, dissimilar), 0)).sum() / np.sqrt(spread + 1e-300)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("diagonal", [False, True])
def test_mmc_satisfies_the_bound_and_improves_monotonically(seed, diagonal):
    similar, dissimilar = differences(np.random.default_rng(seed), 5)
    metric, history = Mmc(diagonal=diagonal, tolerance=1e-6).solve(similar, dissimilar)
    assert metric.squared_length(similar).sum() == pytest.approx(1.0, rel=1e-9)
    gains = -np.diff(history) if diagonal else np.diff(history)
    assert (gains >= 0).all()
    assert len(gains) > 2
    assert metric.is_diagonal == diagonal
    g = metric.length(dissimilar).sum()
    if not diagonal:
        assert g == pytest.approx(history[-1], rel=1e-9)
        # No metric within the bound has a larger g.
        A = np.random.default_rng(seed).normal(size=(200, 5, 5))
        assert max(mmc_ratio(a.T @ a, similar, dissimilar) for a in A) <= g * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_mmc_finds_the_maximum(seed):
    rng = np.random.default_rng(seed)
    similar, dissimilar = differences(rng, 2)
    best = -factor_minimum(lambda M: -mmc_ratio(M, similar, dissimilar), 2, rng)
    full = Mmc(tolerance=1e-6, max_iter=2000).solve(similar, dissimilar).metric
    assert full.length(dissimilar).sum() == pytest.approx(best, rel=1e-5)
    diagonal = Mmc(diagonal=True, tolerance=1e-9).solve(similar, dissimilar).metric
    weights = np.stack([np.linspace(0, 1, 20001), np.linspace(1, 0, 20001)], axis=1) / np.square(similar).sum(axis=0)
    grid = np.sqrt(weights @ np.square(dissimilar).T).sum(axis=1).max()
    assert diagonal.length(dissimilar).sum() == pytest.approx(grid, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_diagonal_mmc_satisfies_the_optimality_conditions(seed):
    rng = np.random.default_rng(seed)
    mix, size = rng.normal(size=(8, 8)), rng.uniform(0.3, 3.0, size=8)
    similar, dissimilar = rng.normal(size=(40, 8)) @ mix, rng.normal(size=(40, 8)) @ mix * size
    metric = Mmc(diagonal=True, tolerance=1e-12).solve(similar, dissimilar).metric
    slopes = (dissimilar**2 / metric.length(dissimilar)[:, None]).sum(axis=0)
    per_bound = slopes / np.square(similar).sum(axis=0)
    # The gain of g per share of the bound is equal for all features with a weight, and lower for the others.
    assert np.count_nonzero(metric.diagonal) in range(2, 8)
    assert np.allclose(per_bound[metric.diagonal > 0], per_bound.max(), rtol=1e-4)


def test_mmc_gradients_agree_with_finite_differences():
    rng = np.random.default_rng(13)
    W, a, h = rng.uniform(size=(9, 3)), rng.uniform(0.5, 1.0, size=3), 1e-6 * rng.normal(size=3)
    (up, slope_up, _), (down, slope_down, _) = mmc._diagonal_objective(W, a + h), mmc._diagonal_objective(W, a - h)
    _, slope, hessian = mmc._diagonal_objective(W, a)
    assert up - down == pytest.approx(2 * slope @ h, rel=1e-6)
    assert np.allclose(slope_up - slope_down, 2 * hessian @ h, rtol=1e-6)
    V, A, D = rng.normal(size=(9, 3)), rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    B, D = A @ A.T, 1e-6 * (D + D.T)
    rise = mmc._full_objective(V, B + D)[0] - mmc._full_objective(V, B - D)[0]
    assert rise == pytest.approx(2 * np.sum(mmc._full_objective(V, B)[1] * D), rel=1e-6)


def test_mmc_ignores_features_in_which_only_similar_pairs_differ():
    rng = np.random.default_rng(0)
    similar, dissimilar = differences(rng, 3)
    dissimilar[:, 2] = 0.0
    assert Mmc(diagonal=True).solve(similar, dissimilar).metric.diagonal[2] == 0.0


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_mmc_does_not_depend_on_the_unit(diagonal, scale):
    similar, dissimilar = differences(np.random.default_rng(1), 3)
    one = Mmc(diagonal=diagonal).solve(similar, dissimilar).metric
    other = Mmc(diagonal=diagonal).solve(scale * similar, scale * dissimilar).metric
    np.testing.assert_allclose(other.matrix * scale**2, one.matrix, rtol=1e-6)


def test_mmc_is_invariant_to_linear_maps():
    rng = np.random.default_rng(1)
    similar, dissimilar = differences(rng, 3)
    A = rng.normal(size=(3, 3))
    one = Mmc(tolerance=1e-7, max_iter=5000).solve(similar, dissimilar).metric
    other = Mmc(tolerance=1e-7, max_iter=5000).solve(similar @ A, dissimilar @ A).metric
    assert np.allclose(one.length(dissimilar), other.length(dissimilar @ A), rtol=1e-3)


@pytest.mark.parametrize("diagonal", [False, True])
def test_mmc_needs_similar_pairs_in_all_directions_of_dissimilar_ones(diagonal):
    similar, dissimilar = differences(np.random.default_rng(2), 3)
    similar[:, 1] = 0.0
    with pytest.raises(FitError, match="nothing bounds"):
        Mmc(diagonal=diagonal).solve(similar, dissimilar)
    dissimilar[:, 1] = 0.0  # a direction without differences is fine
    metric = Mmc(diagonal=diagonal).solve(similar, dissimilar).metric
    assert np.allclose(metric.matrix[1], 0.0)


@given(seed=SEEDS)
def test_the_projection_onto_the_spectrahedron_is_the_nearest_point(seed):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(3, 3)) * 2
    A = A + A.T
    P = mmc._project_spectrahedron(A)
    assert np.trace(P) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(P)[0] >= -1e-12
    for _ in range(30):
        B = rng.normal(size=(3, rng.integers(1, 4)))
        Q = B @ B.T / np.sum(B * B)
        assert np.sum((A - P) * (Q - P)) <= 1e-9  # characterizes a projection onto a convex set


def mmc_step_without_gain(gain, slope, longest):
    """Return a length at which a step gains less than the Armijo condition requires, but loses less than that."""
    low, high = 0.0, longest
    assert gain(high) < 0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gain(middle) > 0 else (low, middle)
    assert abs(gain(high)) < 1e-4 * slope(high)
    return high


@pytest.mark.parametrize("seed", range(3))
def test_mmc_rejects_steps_that_gain_too_little(seed):
    rng = np.random.default_rng(seed)
    V = np.repeat(np.eye(3), [4, 3, 3], axis=0) + 0.1 * rng.normal(size=(10, 3))  # the best metric has rank 3
    B = np.eye(3) / 3
    value, G, _ = mmc._full_objective(V, B)

    def candidate(length):
        return mmc._project_spectrahedron(B + length / np.linalg.norm(G) * G)

    def gain(length):
        return mmc._full_objective(V, candidate(length))[0] - value

    longest = mmc_step_without_gain(gain, lambda length: np.sum(G * (candidate(length) - B)), 1e3)
    step, following = mmc._ascent_step(V, B, value, G, longest)
    np.testing.assert_allclose(step, candidate(longest / 2), atol=1e-12)
    assert following == longest  # twice the accepted length is tried next
    W, a = V**2, np.full(3, 0.05)
    value, gradient, _ = mmc._diagonal_objective(W, a)

    def descent(share):
        return np.maximum(a - share * gradient, 0.0)

    longest = mmc_step_without_gain(
        lambda share: value - mmc._diagonal_objective(W, descent(share))[0],
        lambda share: gradient @ (a - descent(share)),
        20.0,
    )
    step = mmc._descent_step(W, a, value, gradient, -longest * gradient)
    np.testing.assert_allclose(step, descent(longest / 2), atol=1e-12)


def test_mmc_steps_without_any_gain_end_the_search():
    V = np.random.default_rng(0).normal(size=(20, 3))
    value, G, _ = mmc._full_objective(V, np.eye(3) / 3)
    assert mmc._ascent_step(V, np.eye(3) / 3, 2 * value, G, 1.0) is None
    value, gradient, _ = mmc._diagonal_objective(V**2, np.ones(3))
    assert mmc._descent_step(V**2, np.ones(3), value - 9.0, gradient, -gradient) is None


def test_mmc_keeps_the_number_of_iterations():
    similar, dissimilar = differences(np.random.default_rng(3), 5)
    for diagonal in (False, True):
        for max_iter in (1, 3):
            history = Mmc(diagonal=diagonal, tolerance=1e-15, max_iter=max_iter).solve(similar, dissimilar)[1]
            assert len(history) == max_iter


# L-BFGS.


def evaluations(function):
    """Return a function that records the points of its calls, and the record."""
    points = []
    return lambda x: points.append(x.copy()) or function(x), points


def quadratic(A, b):
    return lambda x: (float(x @ A @ x / 2 - b @ x), A @ x - b)


@pytest.mark.parametrize("scale", [1e-6, 1.0])
@pytest.mark.parametrize("n", [1, 3, 10])
def test_lbfgs_minimises_a_quadratic(n, scale):
    rng = np.random.default_rng(n)
    L, b = rng.normal(size=(n, n)), rng.normal(size=n)
    A = L @ L.T + np.eye(n)
    evaluate, points = evaluations(quadratic(scale * A, scale * b))
    x, history = lbfgs.minimize_lbfgs(evaluate, np.zeros(n), max_iter=200, tolerance=1e-15)
    np.testing.assert_allclose(x, np.linalg.solve(A, b), atol=1e-6)
    assert (np.diff(history) <= 0).all()
    assert history[-1] == quadratic(scale * A, scale * b)(x)[0]
    # Gradient steps would need as many as the condition number. At the minimum, rounding decides whether one more line
    # search looks for a decrease in vain.
    assert len(points) <= 12 * (n + 1) + lbfgs._MAX_TRIALS


def test_the_first_step_of_lbfgs_has_unit_length():
    evaluate, points = evaluations(lambda x: (float(np.exp(x).sum()), np.exp(x)))
    lbfgs.minimize_lbfgs(evaluate, np.zeros(4), max_iter=1, tolerance=1e-9)
    np.testing.assert_allclose(points[1], -0.5 * np.ones(4))


@pytest.mark.parametrize("max_iter", [1, 2, 5])
def test_lbfgs_takes_at_most_max_iter_steps(max_iter):
    function = quadratic(np.diag([1.0, 10.0, 100.0, 1000.0]), np.ones(4))
    history = lbfgs.minimize_lbfgs(function, np.zeros(4), max_iter=max_iter, tolerance=1e-15)[1]
    assert len(history) == max_iter + 1


def test_lbfgs_stops_after_five_steps_with_a_small_decrease():
    def slow(x):  # the value falls by 1 per step of length 1, from 1000
        return float(1000.0 + x[0]), np.ones(1)

    assert len(lbfgs.minimize_lbfgs(slow, np.zeros(1), max_iter=50, tolerance=1e300)[1]) == 6
    minimum = lbfgs.minimize_lbfgs(quadratic(np.eye(2), np.zeros(2)), np.zeros(2), max_iter=50, tolerance=1e-9)
    assert minimum.history == (0.0,)  # the gradient is zero


@pytest.mark.parametrize("n_steps", [1, 3])
def test_the_inverse_hessian_satisfies_the_secant_equation(n_steps):
    rng = np.random.default_rng(n_steps)
    L = rng.normal(size=(4, 4))
    A = L @ L.T + np.eye(4)
    steps = deque((s, A @ s) for s in rng.normal(size=(n_steps, 4)))
    s, change = steps[-1]
    np.testing.assert_allclose(lbfgs._multiply_inverse_hessian(change, steps), s, rtol=1e-10)
    # The BFGS formula, applied to the matrix that the last step scales.
    H = np.eye(4) * (s @ change) / (change @ change)
    for s, change in steps:
        V = np.eye(4) - np.outer(change, s) / (s @ change)
        H = V.T @ H @ V + np.outer(s, s) / (s @ change)
    g = rng.normal(size=4)
    before = g.copy()
    np.testing.assert_allclose(lbfgs._multiply_inverse_hessian(g, steps), H @ g, rtol=1e-10)
    assert (g == before).all()


@pytest.mark.parametrize("minimum", [0.3, 1.0, 7.0, 300.0, 1e-3])
def test_the_line_search_meets_the_wolfe_conditions(minimum):
    def function(x):
        return float(np.square(x - minimum).sum()), 2.0 * (x - minimum)

    x, direction = np.zeros(1), np.ones(1)
    value, gradient = function(x)
    candidate, new_value, new_gradient = lbfgs._line_search(function, x, value, gradient, direction)
    slope = gradient @ direction
    assert function(candidate)[0] == new_value <= value + 1e-4 * candidate[0] * slope
    assert (new_gradient == function(candidate)[1]).all()
    assert new_gradient @ direction >= 0.9 * slope
    for uphill in (-direction, np.zeros(1)):
        assert lbfgs._line_search(function, x, value, gradient, uphill) is None


def test_the_line_search_brackets_by_doubling_and_bisection():
    # Below the kink at 3, the slope is too steep for the Wolfe condition; at 4 the value is still low enough.
    evaluate, points = evaluations(lambda x: (float(abs(x[0] - 3.0)), np.sign(x - 3.0)))
    candidate, _, _ = lbfgs._line_search(evaluate, np.zeros(1), 3.0, -np.ones(1), np.ones(1))
    assert [point[0] for point in points] == [1.0, 2.0, 4.0]
    assert candidate[0] == 4.0
    evaluate, points = evaluations(lambda x: (100 * max(x[0] - 3.0, 0.0) - x[0], np.where(x > 3.0, 99.0, -1.0)))
    lbfgs._line_search(evaluate, np.zeros(1), 0.0, -np.ones(1), np.ones(1))
    assert [point[0] for point in points][:5] == [1.0, 2.0, 4.0, 3.0, 3.5]


def test_a_step_that_never_meets_the_wolfe_condition_is_still_used():
    found = lbfgs._line_search(lambda x: (-float(x[0]), -np.ones(1)), np.zeros(1), 0.0, -np.ones(1), np.ones(1))
    assert found is not None
    assert found[1] < -1e6
    assert lbfgs._line_search(lambda x: (1.0, -np.ones(1)), np.zeros(1), 0.0, -np.ones(1), np.ones(1)) is None


# ITML.


@pytest.mark.parametrize(("n_classes", "n_pairs", "expected"), [(2, None, 80), (3, None, 180), (3, 17, 17)])
def test_itml_draws_20_pairs_for_each_couple_of_classes(n_classes, n_pairs, expected, monkeypatch):
    counts = []
    draw = batch.draw_balanced_pairs
    monkeypatch.setattr(
        batch, "draw_balanced_pairs", lambda c, count, seed: counts.append(count) or draw(c, count, seed)
    )
    rng = np.random.default_rng(0)
    classes = np.arange(30) % n_classes
    Itml(n_pairs=n_pairs).fit_points(rng.normal(size=(30, 2)) + classes[:, None], classes)
    assert counts == [expected]


def itml_objective(M, U, y, gamma, near, far) -> float:
    """Return the primal objective with the optimal slack for M: xi is its initial value or the distance of the pair."""
    if np.linalg.eigvalsh(M)[0] <= 1e-12:
        return np.inf
    p = np.einsum("ij,jk,ik->i", U, M, U)
    ratio = np.where(y > 0, np.maximum(p / near, 1.0), np.minimum(p / far, 1.0))
    return logdet_divergence(M, np.eye(len(M))) + gamma * np.sum(ratio - np.log(ratio) - 1.0)


@pytest.mark.parametrize("gamma", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("seed", range(2))
def test_itml_finds_the_minimum(gamma, seed):
    rng = np.random.default_rng(seed)
    X, Z, y = some_pairs(rng, 12, 2)
    U = X - Z
    solution = Itml(gamma=gamma, similar_bound=0.5, dissimilar_bound=3.0, tolerance=1e-10, max_sweeps=3000).solve(U, y)
    best = factor_minimum(lambda M: itml_objective(M, U, y, gamma, 0.5, 3.0), 2, rng, starts=2)
    assert itml_objective(solution.metric.matrix, U, y, gamma, 0.5, 3.0) == pytest.approx(best, rel=1e-5)
    assert solution.changes[-1] <= 1e-10


@given(seed=SEEDS, gamma=st.floats(0.01, 100.0))
def test_itml_primal_and_dual_variables_are_consistent(seed, gamma):
    X, Z, y = some_pairs(np.random.default_rng(seed), 20)
    M, multipliers, bounds, changes = Itml(gamma=gamma, similar_bound=0.5, dissimilar_bound=3.0, max_sweeps=7).solve(
        X - Z, y
    )
    assert (multipliers >= 0).all()
    inverse = np.eye(3) + ((X - Z).T * (multipliers * y)) @ (X - Z)
    assert np.allclose(M.matrix @ inverse, np.eye(3), atol=1e-6)
    assert np.allclose(gamma / bounds, gamma / np.where(y > 0, 0.5, 3.0) - y * multipliers)
    assert len(changes) <= 7


def test_itml_satisfies_feasible_bounds_if_slack_is_expensive():
    X, Z, y = some_pairs(np.random.default_rng(6), 40)
    U = X - Z
    U[:, 0] = np.where(y > 0, 0.1, 1.0) * np.where(U[:, 0] > 0, 1, -1)  # the first feature separates the pairs
    tight = (
        Itml(gamma=1e6, similar_bound=1.0, dissimilar_bound=2.0, tolerance=1e-9, max_sweeps=5000)
        .solve(U, y)
        .metric.squared_length(U)
    )
    assert tight[y > 0].max() <= 1.0 + 1e-3
    assert tight[y < 0].min() >= 2.0 - 1e-3
    loose = Itml(gamma=1e-3, similar_bound=1.0, dissimilar_bound=2.0).solve(U, y).metric.squared_length(U)
    assert loose[y > 0].max() > 1.5


def test_itml_stays_finite_with_contradictory_bounds():
    U = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    metric = (
        Itml(gamma=1e12, similar_bound=0.1, dissimilar_bound=5.0, max_sweeps=500)
        .solve(U, np.array([1.0, -1.0, 1.0]))
        .metric
    )
    assert np.isfinite(metric.matrix).all()


def test_itml_takes_its_bounds_from_the_pairs():
    X, Z, y = some_pairs(np.random.default_rng(7), 60)
    near, far = np.percentile(np.square(X - Z).sum(axis=1), [5, 95])
    chosen = Itml().fit_pairs(X, Z, y)
    assert np.allclose(chosen.matrix, Itml(similar_bound=near, dissimilar_bound=far).fit_pairs(X, Z, y).matrix)
    assert np.allclose(Itml().fit_pairs(1e-5 * X, 1e-5 * Z, y).matrix, chosen.matrix, rtol=1e-6)
    with pytest.raises(FitError, match="ITML needs a lower bound for similar pairs"):
        Itml().fit_pairs(np.zeros((4, 2)), np.eye(2)[[0, 1, 0, 1]], [1, 1, -1, -1])


# Methods of scikit-learn, whitening and Euclidean distance.


@pytest.mark.parametrize("n_components", [None, 1, 2, 99])
def test_distances_are_those_of_the_transformed_points(n_components):
    X, classes = labelled_points(np.random.default_rng(8), n=4)
    max_components = {Nca: 4, Lda: 2, Pca: 4}
    transformers = {Nca: NeighborhoodComponentsAnalysis, Lda: LinearDiscriminantAnalysis, Pca: PCA}
    for method, transformer in transformers.items():
        count = min(n_components or 99, max_components[method])
        settings = {"random_state": 0} if method is Nca else {}
        centred = X - X.mean(axis=0)  # the same rounding, on which the number of iterations of NCA may depend
        transformed = transformer(n_components=count, **settings).fit(centred, classes).transform(centred)
        metric = method(n_components=n_components).fit_points(X, classes)
        assert metric.rank == count
        assert np.allclose(pairwise_distances(metric.embed(X)), pairwise_distances(transformed), rtol=1e-7, atol=1e-7)


def test_all_principal_components_are_euclidean_distance():
    X, classes = labelled_points(np.random.default_rng(9))
    assert np.allclose(Pca().fit_points(X, classes).matrix, np.eye(3))
    assert np.allclose(Pca().fit_pairs(X[:20], X[20:], [1, -1] * 10).matrix, np.eye(3))


@pytest.mark.parametrize("max_points", [10, 500])
def test_mds_preserves_the_distances_of_points_in_a_plane(max_points):
    rng = np.random.default_rng(10)
    plane = rng.normal(size=(40, 2)) @ np.linalg.qr(rng.normal(size=(5, 2)))[0].T
    metric = Mds(n_components=2, max_points=max_points).fit_points(plane + 3.0, np.arange(40) % 2)
    assert np.allclose(pairwise_distances(metric.embed(plane)), pairwise_distances(plane), atol=1e-6)


def test_mds_has_less_stress_than_pca():
    X, classes = labelled_points(np.random.default_rng(11), n=5)
    D = pairwise_distances(X)
    stress = {m: np.sum((D - pairwise_distances(m.fit_points(X, classes).embed(X))) ** 2) for m in (Mds(), Pca(2))}
    assert stress[Mds()] < stress[Pca(2)]


@given(seed=SEEDS)
def test_whitening_is_invariant_to_linear_maps(seed):
    rng = np.random.default_rng(seed)
    X, classes = labelled_points(rng)
    A = (
        np.linalg.qr(rng.normal(size=(3, 3)))[0]
        * rng.uniform(0.1, 10, size=3)
        @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    )
    plain, mapped = (Whitening(regularization=0).fit_points(points, classes) for points in (X, X @ A + 5.0))
    assert np.allclose(
        pairwise_distances(plain.embed(X)), pairwise_distances(mapped.embed(X @ A)), rtol=1e-6, atol=1e-6
    )
    # The mean squared distance from the mean is the number of features.
    assert plain.squared_distance(X, X.mean(axis=0)).mean() == pytest.approx(3.0)
    y = np.where(np.arange(20) % 2, 1.0, -1.0)
    from_pairs = Whitening(regularization=0).fit_pairs(X[:20], X[20:], y)
    assert from_pairs.squared_distance(X[:20], X[20:]).mean() == pytest.approx(6.0)


@given(seed=SEEDS)
def test_standardized_distance_ignores_the_units_of_features(seed):
    rng = np.random.default_rng(seed)
    X, classes = labelled_points(rng)
    Y = X * [0.01, 1.0, 300.0] + 5.0
    plain, changed = (Standardized().fit_points(points, classes) for points in (X, Y))
    distances = [metric.squared_distance(*pair) for metric, pair in ((plain, (X, X[::-1])), (changed, (Y, Y[::-1])))]
    assert np.allclose(*distances)
    # Each standardized feature has the variance 1.
    assert np.allclose(X.var(axis=0) * plain.diagonal, 1.0)


@given(seed=SEEDS)
def test_cosine_distance_depends_on_directions_only(seed):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(2, 10, 3))
    cosines = np.sum(X * Z, axis=1) / np.linalg.norm(X, axis=1) / np.linalg.norm(Z, axis=1)
    factors = 10.0 ** rng.uniform(-200, 200, size=(10, 1))
    assert np.allclose(CosineDistance(3).squared_distance(factors * X, Z), 2 - 2 * cosines)
    assert np.array_equal(CosineDistance(3).embed(np.zeros((1, 3))), np.zeros((1, 3)))
    with pytest.raises(ValueError, match="points has 2 features; 3 are expected"):
        CosineDistance(3).embed(X[:, :2])


def test_euclidean_is_the_initial_metric_of_the_trackers():
    assert np.array_equal(euclidean(4).matrix, np.eye(4) / 4)
    assert euclidean(4).threshold == 1.0


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_of_mmc_holds_for_every_metric(seed):
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(12, 3))

    def of_trace_one(rank):
        L = rng.normal(size=(rank, 3))
        return L.T @ L / np.square(L).sum()

    for _ in range(50):
        bound = mmc._full_objective(V, of_trace_one(3))[2]
        others = [mmc._full_objective(V, of_trace_one(rank))[0] for rank in (1, 2, 3)]
        assert max(others) <= bound * (1 + 1e-12)
    best = max(mmc._full_objective(V, of_trace_one(1 + k % 3))[0] for k in range(500))
    tightest = min(mmc._full_objective(V, of_trace_one(1 + k % 3))[2] for k in range(500))
    assert tightest <= 1.5 * best  # the bound is not trivial
