"""k-NN error and clustering against brute force, and test before train."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ocelad import Comid, Metric
from ocelad.evaluation.prequential import Alone, Frozen, clustering_nmi, knn_error, prequential
from ocelad.evaluation.streams import DriftingClusters, Phase


def test_knn_error_by_brute_force():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(60, 3)), rng.integers(0, 3, size=60)
    wrong = 0
    for i in range(60):
        others = sorted((j for j in range(60) if j != i), key=lambda j: np.linalg.norm(X[i] - X[j]))[:5]
        votes = Counter(labels[j] for j in others)
        winner = min(votes, key=lambda label: (-votes[label], label))
        wrong += winner != labels[i]
    assert knn_error(X, labels, n_neighbors=5) == wrong / 60


def test_nmi_of_clear_and_of_no_clusters():
    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"], 50)
    clear = rng.normal(size=(150, 2)) + 20 * np.repeat([[0, 0], [1, 0], [0, 1]], 50, axis=0)
    assert clustering_nmi(clear, labels) == pytest.approx(1.0)
    assert clustering_nmi(rng.normal(size=(150, 2)), labels) < 0.1


def test_judged_before_it_learns_on_the_world_as_it_is():
    stream = DriftingClusters([Phase("p", "A", 0.05, 20)], n_points=200)
    seen = []

    class Watching:
        steps = 0

        def play(self):
            seen.append(self.steps)
            return Metric(np.eye(25))

        def step(self, event):
            self.steps += 1

    results = list(prequential(stream, {"watching": Watching()}, every=10, n_points=100))
    assert seen == [9, 19]
    assert [len(rows) for _, rows in results] == [0] * 9 + [1] + [0] * 9 + [1]
    moment, (row,) = results[19]
    assert (row.round, row.phase, row.method) == (20, "p", "watching")
    assert row.knn_error == knn_error(moment.points()[:100], moment.labels[:100])


def test_the_truth_is_nearly_perfect_and_learning_helps():
    stream = DriftingClusters([Phase("p", "A", 0.0, 300)])
    truth = next(iter(stream)).true_metric()
    start = Metric(np.eye(25) / 25)
    trackers = {
        "truth": Frozen(truth),
        "nothing": Frozen(start),
        "learned": Alone(Comid(start, step_size=3e-3, loss="logistic")),
    }
    *_, (_, rows) = prequential(stream, trackers, every=300)
    scores = {row.method: row for row in rows}
    assert scores["truth"].knn_error < 0.02
    assert scores["truth"].nmi > 0.9
    assert scores["truth"].knn_error < scores["learned"].knn_error < scores["nothing"].knn_error / 2
    assert scores["nothing"].nmi < 0.2


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: knn_error([[1.0], [2.0]], [0, 1], n_neighbors=2), "has only 1 others"),
        (lambda: knn_error([[1.0], [2.0]], [0, 1], n_neighbors=0), "n_neighbors must be"),
        (lambda: knn_error([[1.0], [np.nan]], [0, 1], n_neighbors=1), "only finite numbers"),
        (lambda: knn_error([[1.0], [2.0]], [0], n_neighbors=1), "one label for each of the 2 points"),
        (lambda: clustering_nmi([1.0, 2.0], [0, 1]), "points has shape"),
        (lambda: clustering_nmi(np.zeros((0, 2)), []), "points is empty"),
        (lambda: next(prequential([], {}, every=0)), "every must be"),
        (lambda: next(prequential([], {}, n_points=1)), "n_points must be"),
    ],
)
def test_refuses(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


def test_a_metric_that_has_shrunk_to_nothing_is_judged_too():
    stream = DriftingClusters([Phase("p", "A", 0.0, 2)], n_points=100)
    *_, (_, rows) = prequential(stream, {"nothing": Frozen(Metric(np.zeros((25, 25))))}, every=2)
    assert rows[0].nmi == pytest.approx(0.0, abs=1e-9)


def test_labels_that_cannot_be_compared():
    with pytest.raises(TypeError, match="cannot be compared"):
        knn_error([[1.0], [2.0]], [None, "a"], n_neighbors=1)
