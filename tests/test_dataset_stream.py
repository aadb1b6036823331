"""Data sets as streams: evaluation points are never paired, and the preparation of the points does not use them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_reviews import write_top5000

from ocelad.evaluation.streams import load_reviews
from ocelad.evaluation.streams.reviews import SwitchingReviews
from ocelad.lab.compare import METHODS, datasets
from ocelad.lab.compare.dataset_stream import MAX_LAG, N_NEARBY_EVAL_POINTS, DatasetStream
from ocelad.lab.compare.journalled_trials import journal_entry
from ocelad.lab.compare.trial import run_trial

shapes = st.fixed_dictionaries(
    {
        "n_points": st.integers(12, 80),
        "n_labelings": st.integers(1, 3),
        "rounds": st.integers(20, 120),
        "standardize": st.booleans(),
        "n_components": st.sampled_from([None, 2]),
        "n_noise": st.integers(0, 2),
        "in_order": st.booleans(),
    }
)


def make_stream(n_points, n_labelings, seed=0, **more):
    """Return distinct points, and a stream of them with one or more labelings."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_points, 4)) * [1.0, 10.0, 0.1, 3.0]
    labelings = {f"q{i}": np.roll(np.arange(n_points) % (i + 2), i) for i in range(n_labelings)}
    return X, DatasetStream("made", "", X, labelings, **more)


def concatenate_blocks(stream, seed, every=10):
    blocks = list(stream.blocks(seed, every))
    return blocks, *(np.concatenate([getattr(block, name) for block in blocks]) for name in ("X", "Z", "y"))


@given(shape=shapes, seed=st.integers(0, 2**32), every=st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_evaluation_points_are_in_no_pair(shape, seed, every):
    _, stream = make_stream(**shape)
    blocks, X, Z, _ = concatenate_blocks(stream, seed, every)
    paired = {row.tobytes() for row in np.concatenate([X, Z])}
    evaluated = {row.tobytes() for block in blocks for row in block.eval_set.points}
    assert evaluated
    assert not paired & evaluated
    if not shape["in_order"]:
        assert len(evaluated) == shape["n_points"] // 2
    assert {row.tobytes() for row in stream.initial_points(seed).points} >= paired


@given(shape=shapes, seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_pairs_do_not_depend_on_evaluation_points(shape, seed):
    X, stream = make_stream(**shape)
    eval_rows = stream._draw(seed).eval_rows
    changed = X.copy()
    changed[eval_rows] = 1e3 * changed[eval_rows] + 7.0
    labelings = dict(zip(stream.phases, stream._labels, strict=True))
    parameters = {name: shape[name] for name in ("rounds", "standardize", "n_components", "n_noise", "in_order")}
    other = DatasetStream("made", "", changed, labelings, **parameters)
    for one, another in zip(concatenate_blocks(stream, seed)[1:], concatenate_blocks(other, seed)[1:], strict=True):
        assert (one == another).all()


@given(shape=shapes, seed=st.integers(0, 2**32), every=st.integers(1, 50))
@settings(max_examples=40, deadline=None)
def test_labels_follow_the_labeling_of_the_round(shape, seed, every):
    _, stream = make_stream(**shape)
    blocks, X, Z, y = concatenate_blocks(stream, seed, every)
    points, pairs, _ = stream._draw(seed)
    n, rounds = len(stream.phases), stream.rounds
    labeling = [t * n // rounds for t in range(rounds)]
    expected = [
        1.0 if stream._labels[q, a] == stream._labels[q, b] else -1.0 for q, (a, b) in zip(labeling, pairs, strict=True)
    ]
    assert y.tolist() == expected
    assert (points[pairs[:, 0]] == X).all()
    assert (points[pairs[:, 1]] == Z).all()
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert [block.round + at for block in blocks for at in block.changes] == [
        t + 1 for t in range(1, rounds) if labeling[t] != labeling[t - 1]
    ]
    for block in blocks:
        assert block.phase == stream.phases[labeling[block.round - 1]]
    assert np.median(np.square(X - Z).sum(axis=1)) == pytest.approx(40.0)


def test_points_in_order_are_paired_and_evaluated_with_their_neighbours_in_time():
    n, rounds = 3000, 500
    time = np.arange(float(n))
    X = np.stack([time, np.random.default_rng(0).normal(size=n)], axis=1)
    stream = DatasetStream("made", "", X, {"q": np.arange(n) % 2}, in_order=True, rounds=rounds)
    points, pairs, eval_rows = stream._draw(1)
    paired = np.setdiff1d(np.arange(n), eval_rows)
    lags = np.diff(np.searchsorted(paired, pairs), axis=1)
    assert ((lags >= 1) & (lags <= MAX_LAG)).all()
    assert lags.max() == MAX_LAG
    assert (np.diff(pairs[:, 1]) >= 0).all()
    assert pairs[-1, 1] > 0.99 * n
    for block in stream.blocks(1, 50):
        evaluated = eval_rows[np.isin(points[eval_rows, 0], block.eval_set.points[:, 0])]
        assert len(evaluated) == N_NEARBY_EVAL_POINTS
        at_an_end = evaluated[0] == eval_rows[0] or evaluated[-1] == eval_rows[-1]
        assert at_an_end or abs(evaluated[N_NEARBY_EVAL_POINTS // 2] - n * block.round / rounds) < 60
        assert at_an_end == (not 150 <= block.round <= 350)


def test_points_are_standardized_projected_and_extended_by_noise():
    X = np.random.default_rng(0).normal(size=(200, 4)) * [1.0, 100.0, 0.01, 1.0] + 5.0
    X[:, 3] = 2.0  # a constant feature has no standard deviation to divide by
    plain, even, turned = (
        DatasetStream("made", "", X, {"q": np.arange(200) % 2}, **more)
        for more in ({}, {"standardize": True, "n_noise": 3}, {"n_components": 2})
    )
    assert (plain.n_features, even.n_features, turned.n_features) == (4, 7, 2)
    initial_points = even.initial_points(0).points
    spread = initial_points.std(axis=0)
    np.testing.assert_allclose(spread[:3], spread[0])
    np.testing.assert_allclose(spread[4:], spread[0], rtol=0.25)
    np.testing.assert_allclose(initial_points[:, :4].mean(axis=0), 0.0, atol=1e-12)
    assert (initial_points[:, 3] == 0.0).all()
    whole, part = (np.linalg.svd(stream.initial_points(0).points, compute_uv=False) for stream in (plain, turned))
    assert part[1] / part[0] == pytest.approx(whole[1] / whole[0])


def test_seeds_draw_other_streams_and_fingerprints_identify_the_data():
    X, stream = make_stream(60, 1, rounds=100)
    assert (concatenate_blocks(stream, 3)[1] == concatenate_blocks(stream, 3, every=7)[1]).all()
    assert not (concatenate_blocks(stream, 3)[1] == concatenate_blocks(stream, 4)[1]).all()
    classes = {"q0": np.arange(60) % 2}
    others = [
        DatasetStream("made", "", X + 1.0, classes, rounds=100),
        DatasetStream("made", "", X, {"q0": np.arange(60) % 3}, rounds=100),
        DatasetStream("made", "", X, classes, rounds=101),
        DatasetStream("made", "", X, classes, rounds=100, in_order=True),
        DatasetStream("made", "", X, classes, rounds=100, n_noise=1),
    ]
    assert stream.fingerprint() == make_stream(60, 1, rounds=100)[1].fingerprint()
    assert len({stream.fingerprint(), *(other.fingerprint() for other in others)}) == 6


def test_records_on_data_sets_are_written_to_the_journal_by_a_digest_of_the_data():
    one, same, other = (make_stream(60, 1, seed=seed, rounds=100)[1] for seed in (0, 0, 1))
    entries = [journal_entry(stream, METHODS["euclidean"], 0, 50) for stream in (one, same, other)]
    assert all(entry.persist for entry in entries)
    assert entries[0] == entries[1] != entries[2]


@pytest.mark.parametrize(
    ("labelings", "more", "message"),
    [
        ({}, {}, "labelings is empty"),
        ({"q": [0, 1]}, {}, r"the labeling 'q' has shape \(2,\) for 12 points; accepted: one class per point"),
        ({"q": np.ones(12)}, {}, "the labeling 'q' has one class"),
        ({"q": np.arange(12)}, {"rounds": 0}, "rounds must be"),
        ({"q": np.arange(12)}, {"n_components": 5}, "n_components must be"),
        ({"q": np.arange(12)}, {"n_noise": -1}, "n_noise must be"),
        ({"q": np.arange(12)}, {"in_order": 1.5}, "in_order must be"),
        ({"q": np.arange(12)}, {"standardize": None}, "standardize must be"),
    ],
)
def test_bad_parameters_are_rejected(labelings, more, message):
    with pytest.raises(ValueError, match=message):
        DatasetStream("made", "", np.zeros((12, 4)), labelings, **more)


@pytest.mark.parametrize(
    ("load", "n_features", "n_classes"),
    [
        (datasets.wine, 25, 3),
        (datasets.breast_cancer, 30, 2),
        (datasets.digits, 25, 10),
        (datasets.switching_digits, 25, 2),
        (datasets.phishing, 9, 2),
        (datasets.image_segments, 18, 7),
        (datasets.bananas, 2, 2),
    ],
)
def test_data_sets_have_the_documented_size_and_classes(load, n_features, n_classes):
    if load in (datasets.phishing, datasets.image_segments, datasets.bananas):
        pytest.importorskip("river")
    stream = load()
    assert (stream.n_features, stream.rounds) == (n_features, 3000)
    (record,) = run_trial(stream, [METHODS["euclidean"]], seed=0, every=1000)
    assert (record.values("knn_error") < 0.25).all()  # chance level is higher on all of them
    labels = {label for block in stream.blocks(0, 1000) for label in block.eval_set.labels.tolist()}
    assert len(labels) == n_classes


def test_groupings_of_digits_by_arithmetic():
    groups, digits = datasets.DIGIT_GROUPS, range(10)
    assert all(list(group) == sorted(set(group) & set(digits)) for group in groups.values())
    assert list(groups["even"]) == [d for d in digits if d % 2 == 0]
    assert list(groups["below five"]) == [d for d in digits if d < 5]
    assert list(groups["multiple of three"]) == [d for d in digits if d % 3 == 0]
    assert list(groups["prime"]) == [d for d in digits if sum(d % k == 0 for k in range(1, d + 1)) == 2]


def test_all_groupings_of_digits_differ():
    parts = {
        frozenset([frozenset(group), frozenset(range(10)) - frozenset(group)])
        for group in datasets.DIGIT_GROUPS.values()
    }
    assert len(parts) == len(datasets.DIGIT_GROUPS) == 6
    blocks = list(datasets.switching_digits().blocks(0, 100))
    assert [block.round + at for block in blocks for at in block.changes] == [501, 1001, 1501, 2001, 2501]


def test_without_river_its_data_sets_name_the_missing_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "river", None)
    with pytest.raises(ImportError, match=r"this data set needs River: pip install 'ocelad\[river\]'"):
        datasets.phishing.__wrapped__()


class TestReviews:
    def test_pairs_are_by_sentiment_and_then_by_type(self, tmp_path):
        reviews = load_reviews(write_top5000(tmp_path))
        stream = SwitchingReviews(reviews, length=200, seed=1)
        for rows, question in ((slice(200), "sentiment"), (slice(200, None), "type")):
            left, right = stream.pairs[rows].T
            labels = reviews.labels(question)
            assert (left != right).all()
            assert (stream.y[rows] == np.where(labels[left] == labels[right], 1.0, -1.0)).all()
        assert [stream.question(t) for t in (1, 200, 201)] == ["sentiment", "sentiment", "type"]
        assert len(stream) == 400
        lengths = stream.documents.multiply(stream.documents).sum(axis=1)
        np.testing.assert_allclose(lengths, 20.0)
        assert not (stream.pairs == SwitchingReviews(reviews, length=200, seed=2).pairs).all()

    def test_reviews_are_a_stream_if_the_folder_is_set(self, tmp_path, monkeypatch):
        monkeypatch.setenv("OCELAD_DATA", str(write_top5000(tmp_path / "one")))
        stream = datasets.reviews.__wrapped__()
        assert stream.rounds == 3000
        assert stream.phases == ("sentiment", "type")
        (record,) = run_trial(stream, [METHODS["euclidean"]], seed=0, every=1000)
        assert np.isfinite(
            record.values("ranking_error")[:2]
        ).all()  # the last block has one pair, which cannot be ranked
        monkeypatch.setenv("OCELAD_DATA", str(write_top5000(tmp_path / "other", seed=1)))
        assert datasets.reviews.__wrapped__().fingerprint() != stream.fingerprint()
        assert journal_entry(stream, METHODS["euclidean"], 0, 1000).persist

    def test_a_missing_folder_is_reported(self, tmp_path, monkeypatch):
        monkeypatch.delenv("OCELAD_DATA", raising=False)
        with pytest.raises(FileNotFoundError, match="OCELAD_DATA is not set"):
            datasets.reviews.__wrapped__()
        monkeypatch.setenv("OCELAD_DATA", str(tmp_path / "nowhere"))
        with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere \(OCELAD_DATA\) does not exist"):
            datasets.reviews.__wrapped__()
