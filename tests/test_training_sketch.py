"""TrainingSketch: pairs that were learned from are recognized, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from ocelad import MetricTracker
from ocelad.estimators import training_sketch
from ocelad.estimators.file_tracker import FileTracker
from ocelad.estimators.saved_metric import load_metric
from ocelad.estimators.training_sketch import MAX_HASHES, Overlap, TrainingSketch, hash_pairs, hash_points
from ocelad.io import open_comparisons


def some_pairs(count, seed=0, n_features=3):
    return np.random.default_rng(seed).normal(size=(count, 2, n_features))


def add(sketch, pairs):
    sketch.add(pairs, np.where(pairs[:, 0, 0] > 0, 1.0, -1.0))


def test_a_few_pairs_are_counted_exactly_in_any_order():
    pairs = some_pairs(500)
    sketch = TrainingSketch()
    for part in np.array_split(pairs[:300], 7):
        add(sketch, part)
    assert sketch.find_pairs(hash_pairs(pairs[250:][:, ::-1])) == Overlap(50, 250, True)
    assert sketch.find_points(hash_points(pairs[299:310].reshape(-1, 3))) == Overlap(2, 22, True)
    crossed = np.stack([pairs[:300, 0], pairs[np.arange(300) - 1, 1]], axis=1)  # known points, but new pairs
    assert sketch.find_pairs(hash_pairs(crossed)).n_learned == 0
    whole = TrainingSketch()
    add(whole, pairs[:300][::-1])
    for name in ("pairs", "points", "answers"):
        np.testing.assert_array_equal(whole.arrays()[name], sketch.arrays()[name])
    np.testing.assert_allclose(sketch.standard_deviations(), pairs[:300].reshape(-1, 3).std(axis=0))


def test_of_many_pairs_a_sample_gives_an_estimate_in_bounded_memory():
    sketch, n_learned = TrainingSketch(), 10 * MAX_HASHES
    pairs = some_pairs(n_learned + 60_000)
    for part in np.array_split(pairs[:n_learned], 30):
        add(sketch, part)
    assert all(len(sketch.arrays()[name]) == MAX_HASHES for name in ("pairs", "points"))
    overlap = sketch.find_pairs(hash_pairs(pairs[n_learned - 20_000 :]))
    assert (overlap.n, overlap.exact) == (80_000, False)
    assert overlap.n_learned == pytest.approx(20_000, abs=1500)  # about 8000 of them are looked up
    assert sketch.find_pairs(hash_pairs(some_pairs(50_000, seed=1))).n_learned == 0


@pytest.mark.parametrize(
    "values", [np.arange(4096.0), 2.0 ** np.arange(-500, 500), np.arange(4096) * 2.0**40, np.eye(64) * 3.0]
)
def test_different_points_have_different_hashes(values):
    """Also those whose bits differ only at one end."""
    X = values if values.ndim == 2 else values[:, None]
    hashes = hash_points(X)
    assert len(np.unique(hashes)) == len(X)
    assert abs(np.unpackbits(hashes.view(np.uint8)).mean() - 0.5) < 0.05


def test_hashes_are_those_of_earlier_files():
    """Files hold them, so that they must never change."""
    assert hash_points(np.array([[1.5, -2.0]])).tolist() == HASH
    assert hash_points(np.array([[-0.0]])).tolist() == hash_points(np.array([[0.0]])).tolist()
    assert hash_points(np.array([[1.5, -2.0]], dtype=np.float32)).tolist() == HASH


HASH = [7625415926243066302]


def test_files_keep_it(tmp_path):
    rows = [f"{i},{i * i % 17},{i % 2}" for i in range(40)]
    (tmp_path / "pairs.csv").write_text("x_a,z_a,similar\n" + "\n".join(rows) + "\n")
    tracking = FileTracker(MetricTracker())
    with open_comparisons(tmp_path / "pairs.csv") as stream:
        list(tracking.follow(stream, tmp_path / "tracker"))
    learned = np.array([[[float(i)], [float(i * i % 17)]] for i in range(40)])
    for sketch in (load_metric(tmp_path / "tracker").sketch, FileTracker.load(tmp_path / "tracker").sketch):
        assert (sketch.n_similar, sketch.n_dissimilar) == (20, 20)
        assert sketch.find_pairs(hash_pairs(np.concatenate([learned, some_pairs(3, n_features=1)]))) == Overlap(
            40, 43, True
        )
    tracker = MetricTracker.load(tmp_path / "tracker")
    tracker.save(tmp_path / "by Python")
    assert load_metric(tmp_path / "by Python").sketch is None
    continued = FileTracker.load(tmp_path / "by Python")
    assert continued.sketch is None, "what it learned from before is not known"
    assert FileTracker(MetricTracker().start(3)).sketch is not None


@pytest.mark.parametrize(
    "change",
    [
        {"pairs": np.array([2, 1], dtype=np.uint64)},
        {"pairs": np.array([1, 1], dtype=np.uint64)},
        {"points": np.array([1.0])},
        {"points": np.zeros(MAX_HASHES + 1, dtype=np.uint64)},
        {"moments": np.zeros((3, 2))},
        {"moments": np.ones((2, 2))},
        {"answers": np.array([1, -1])},
        {"answers": np.array([1.0, 1.0])},
    ],
)
def test_damaged_arrays_are_refused(change):
    sketch = TrainingSketch()
    add(sketch, some_pairs(5))
    with pytest.raises(ValueError, match="learned from"):
        TrainingSketch.from_arrays({**sketch.arrays(), **change})


def test_spreads_that_overflow_are_not_known():
    sketch = TrainingSketch()
    add(sketch, np.array([[[1e300], [-1e300]]]))
    assert sketch.standard_deviations() is None
    assert TrainingSketch().standard_deviations() is None
    assert training_sketch.MAX_HASHES == 8192
