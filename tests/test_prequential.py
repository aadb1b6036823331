"""Prequential evaluation, and the scores against brute force."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ocelad import Comid, Metric
from ocelad.evaluation.prequential import FixedMetric, SingleLearner, embed_points, prequential_scores
from ocelad.evaluation.scores import clustering_nmi, knn_error
from ocelad.evaluation.streams import DriftingClusters, Phase


def test_knn_error_by_brute_force():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(60, 3)), rng.integers(0, 3, size=60)
    n_wrong = 0
    for i in range(60):
        others = sorted((j for j in range(60) if j != i), key=lambda j: np.linalg.norm(X[i] - X[j]))[:5]
        votes = Counter(labels[j] for j in others)
        winner = min(votes, key=lambda label: (-votes[label], label))
        n_wrong += winner != labels[i]
    assert knn_error(X, labels, n_neighbors=5) == n_wrong / 60


def test_nmi_is_1_for_separated_clusters_and_near_0_for_none():
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], 50)
    separated = rng.normal(size=(150, 2)) + 20 * np.repeat([[0, 0], [1, 0], [0, 1]], 50, axis=0)
    assert clustering_nmi(separated, labels) == pytest.approx(1.0)
    assert clustering_nmi(rng.normal(size=(150, 2)), labels) < 0.1


def test_trackers_are_scored_on_the_current_points_before_they_learn():
    stream = DriftingClusters([Phase("p", "A", 0.05, 20)], n_points=200)
    played_after = []

    class Counting:
        n_steps = 0

        def play(self):
            played_after.append(self.n_steps)
            return Metric(np.eye(25))

        def step(self, event):
            self.n_steps += 1

    results = list(prequential_scores(stream, {"counting": Counting()}, every=10, n_points=100))
    assert played_after == [9, 19]
    assert [len(rows) for _, rows in results] == [0] * 9 + [1] + [0] * 9 + [1]
    step, (row,) = results[19]
    assert (row.round, row.phase, row.method) == (20, "p", "counting")
    assert row.knn_error == knn_error(step.points()[:100], step.labels[:100])


def test_the_true_metric_is_nearly_perfect_and_learning_helps():
    stream = DriftingClusters([Phase("p", "A", 0.0, 300)])
    truth = next(iter(stream)).true_metric()
    start = Metric(np.eye(25) / 25)
    trackers = {
        "truth": FixedMetric(truth),
        "euclidean": FixedMetric(start),
        "learned": SingleLearner(Comid(start, step_size=3e-3, loss="logistic")),
    }
    *_, (_, rows) = prequential_scores(stream, trackers, every=300)
    scores = {row.method: row for row in rows}
    assert scores["truth"].knn_error < 0.02
    assert scores["truth"].nmi > 0.9
    assert scores["truth"].knn_error < scores["learned"].knn_error < scores["euclidean"].knn_error / 2
    assert scores["euclidean"].nmi < 0.2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: knn_error([[1.0], [2.0]], [0, 1], n_neighbors=2), "accepted: at most 1, the number of other points"),
        (lambda: knn_error([[1.0], [2.0]], [0, 1], n_neighbors=0), "n_neighbors must be"),
        (lambda: knn_error([[1.0], [np.nan]], [0, 1], n_neighbors=1), "only finite numbers"),
        (lambda: knn_error([[1.0], [2.0]], [0], n_neighbors=1), "one label for each of the 2 points"),
        (lambda: clustering_nmi([1.0, 2.0], [0, 1]), "points has shape"),
        (lambda: clustering_nmi(np.zeros((0, 2)), []), "points is empty"),
        (lambda: next(prequential_scores([], {}, every=0)), "every must be"),
        (lambda: next(prequential_scores([], {}, n_points=1)), "n_points must be"),
    ],
)
def test_invalid_arguments_raise_an_error(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_zero_metric_is_scored_too():
    stream = DriftingClusters([Phase("p", "A", 0.0, 2)], n_points=100)
    *_, (_, rows) = prequential_scores(stream, {"zero": FixedMetric(Metric(np.zeros((25, 25))))}, every=2)
    assert rows[0].nmi == pytest.approx(0.0, abs=1e-9)


def test_points_are_embedded_with_the_distances_of_the_metric():
    rng = np.random.default_rng(0)
    A, X = rng.normal(size=(2, 4)), rng.normal(size=(5, 4))
    metric = Metric(A.T @ A)
    embedded = embed_points(metric, X)
    for i, j in ((0, 1), (2, 4)):
        assert np.linalg.norm(embedded[i] - embedded[j]) == pytest.approx(metric.distance(X[i], X[j]))

    class Embedder:
        def __init__(self, rank):
            self.rank = rank

        def embed(self, points):
            return points[:, : self.rank]

    np.testing.assert_array_equal(embed_points(Embedder(3), X), X[:, :3])
    np.testing.assert_array_equal(embed_points(Embedder(0), X), np.zeros((5, 1)))


def test_labels_that_cannot_be_compared():
    with pytest.raises(TypeError, match="cannot be compared"):
        knn_error([[1.0], [2.0]], [None, "a"], n_neighbors=1)
