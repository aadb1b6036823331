"""Data sets as streams: who judges is never paired, and nothing is learned from those who judge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_reviews import write_top5000

from ocelad.evaluation.streams import load_reviews
from ocelad.evaluation.streams.reviews import SwitchingReviews
from ocelad.lab.compare import METHODS, datasets
from ocelad.lab.compare.point_streams import NEARBY, SCENE_AROUND, TableStream
from ocelad.lab.compare.records import Records
from ocelad.lab.compare.trial import Record, run_trial

shapes = st.fixed_dictionaries(
    {
        "n_points": st.integers(12, 80),
        "n_questions": st.integers(1, 3),
        "rounds": st.integers(20, 120),
        "standardised": st.booleans(),
        "n_components": st.sampled_from([None, 2]),
        "n_noise": st.integers(0, 2),
        "in_order": st.booleans(),
    }
)


def drawn(n_points, n_questions, seed=0, **more):
    """Points that are all different, with one or more questions about them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_points, 4)) * [1.0, 10.0, 0.1, 3.0]
    questions = {f"q{i}": np.roll(np.arange(n_points) % (i + 2), i) for i in range(n_questions)}
    return X, TableStream("made", "", X, questions, **more)


def gathered(stream, seed, every=10):
    blocks = list(stream.blocks(seed, every))
    return blocks, *(np.concatenate([getattr(block, name) for block in blocks]) for name in ("X", "Z", "y"))


@given(shape=shapes, seed=st.integers(0, 2**32), every=st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_points_that_judge_are_in_no_pair(shape, seed, every):
    _, stream = drawn(**shape)
    blocks, X, Z, _ = gathered(stream, seed, every)
    paired = {row.tobytes() for row in np.concatenate([X, Z])}
    judges = {row.tobytes() for block in blocks for row in block.scene.points}
    assert judges
    assert not paired & judges
    if not shape["in_order"]:
        assert len(judges) == shape["n_points"] // 2
    assert {row.tobytes() for row in stream.opening(seed).points} >= paired


@given(shape=shapes, seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_nothing_that_is_paired_depends_on_those_who_judge(shape, seed):
    X, stream = drawn(**shape)
    scene = stream._drawn(seed).scene
    changed = X.copy()
    changed[scene] = 1e3 * changed[scene] + 7.0
    questions = dict(zip(stream.phases, stream._labels, strict=True))
    made_with = {name: shape[name] for name in ("rounds", "standardised", "n_components", "n_noise", "in_order")}
    other = TableStream("made", "", changed, questions, **made_with)
    for one, another in zip(gathered(stream, seed)[1:], gathered(other, seed)[1:], strict=True):
        assert (one == another).all()


@given(shape=shapes, seed=st.integers(0, 2**32), every=st.integers(1, 50))
@settings(max_examples=40, deadline=None)
def test_answers_are_by_the_question_of_the_round(shape, seed, every):
    _, stream = drawn(**shape)
    blocks, X, Z, y = gathered(stream, seed, every)
    points, pairs, _ = stream._drawn(seed)
    n, rounds = len(stream.phases), stream.rounds
    asked = [t * n // rounds for t in range(rounds)]
    expected = [
        1.0 if stream._labels[q, a] == stream._labels[q, b] else -1.0 for q, (a, b) in zip(asked, pairs, strict=True)
    ]
    assert y.tolist() == expected
    assert (points[pairs[:, 0]] == X).all()
    assert (points[pairs[:, 1]] == Z).all()
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert [block.round + at for block in blocks for at in block.changes] == [
        t + 1 for t in range(1, rounds) if asked[t] != asked[t - 1]
    ]
    for block in blocks:
        assert block.phase == stream.phases[asked[block.round - 1]]
    assert np.median(np.square(X - Z).sum(axis=1)) == pytest.approx(40.0)


def test_points_in_order_meet_those_before_them_and_are_judged_by_those_around():
    n, rounds = 3000, 500
    time = np.arange(float(n))
    X = np.stack([time, np.random.default_rng(0).normal(size=n)], axis=1)
    stream = TableStream("made", "", X, {"q": np.arange(n) % 2}, in_order=True, rounds=rounds)
    points, pairs, scene = stream._drawn(1)
    paired = np.setdiff1d(np.arange(n), scene)
    places = np.searchsorted(paired, pairs)
    assert ((places[:, 1] - places[:, 0] >= 1) & (places[:, 1] - places[:, 0] <= NEARBY)).all()
    assert (np.diff(pairs[:, 1]) >= 0).all()
    assert pairs[-1, 1] > 0.99 * n
    for block in stream.blocks(1, 50):
        judges = scene[np.isin(points[scene, 0], block.scene.points[:, 0])]
        assert len(judges) == SCENE_AROUND
        at_an_end = judges[0] == scene[0] or judges[-1] == scene[-1]
        assert at_an_end or abs(judges[SCENE_AROUND // 2] - n * block.round / rounds) < 60
        assert at_an_end == (not 150 <= block.round <= 350)


def test_what_is_done_to_the_points():
    X = np.random.default_rng(0).normal(size=(200, 4)) * [1.0, 100.0, 0.01, 1.0] + 5.0
    X[:, 3] = 2.0  # a feature that says nothing has no spread to be divided by
    plain, even, turned = (
        TableStream("made", "", X, {"q": np.arange(200) % 2}, **more)
        for more in ({}, {"standardised": True, "n_noise": 3}, {"n_components": 2})
    )
    assert (plain.n_features, even.n_features, turned.n_features) == (4, 7, 2)
    opening = even.opening(0).points
    spread = opening.std(axis=0)
    np.testing.assert_allclose(spread[:3], spread[0])
    np.testing.assert_allclose(spread[4:], spread[0], rtol=0.25)
    np.testing.assert_allclose(opening[:, :4].mean(axis=0), 0.0, atol=1e-12)
    assert (opening[:, 3] == 0.0).all()
    whole, part = (np.linalg.svd(stream.opening(0).points, compute_uv=False) for stream in (plain, turned))
    assert part[1] / part[0] == pytest.approx(whole[1] / whole[0])


def test_seeds_draw_other_streams_and_fingerprints_tell_data_apart():
    X, stream = drawn(60, 1, rounds=100)
    assert (gathered(stream, 3)[1] == gathered(stream, 3, every=7)[1]).all()
    assert not (gathered(stream, 3)[1] == gathered(stream, 4)[1]).all()
    classes = {"q0": np.arange(60) % 2}
    others = [
        TableStream("made", "", X + 1.0, classes, rounds=100),
        TableStream("made", "", X, {"q0": np.arange(60) % 3}, rounds=100),
        TableStream("made", "", X, classes, rounds=101),
        TableStream("made", "", X, classes, rounds=100, in_order=True),
        TableStream("made", "", X, classes, rounds=100, n_noise=1),
    ]
    assert stream.fingerprint() == drawn(60, 1, rounds=100)[1].fingerprint()
    assert len({stream.fingerprint(), *(other.fingerprint() for other in others)}) == 6


def test_records_on_data_are_kept_in_the_file(tmp_path):
    _, stream = drawn(60, 1, rounds=100)
    with Records(tmp_path / "trials.jsonl") as journal:
        journal.keep(stream, [METHODS["euclidean"]], [Record("euclidean", 0)], 50)
    with Records(tmp_path / "trials.jsonl") as journal:
        assert not journal.missing(drawn(60, 1, rounds=100)[1], [METHODS["euclidean"]], 0, 50)
        assert journal.missing(drawn(60, 1, seed=1, rounds=100)[1], [METHODS["euclidean"]], 0, 50)


@pytest.mark.parametrize(
    ("questions", "more", "sentence"),
    [
        ({}, {}, "questions is empty"),
        ({"q": [0, 1]}, {}, r"the question 'q' has classes of shape \(2,\) for 12 points; accepted: one each"),
        ({"q": np.ones(12)}, {}, "by the question 'q' all points are of one class"),
        ({"q": np.arange(12)}, {"rounds": 0}, "rounds must be"),
        ({"q": np.arange(12)}, {"n_components": 5}, "n_components must be"),
        ({"q": np.arange(12)}, {"n_noise": -1}, "n_noise must be"),
        ({"q": np.arange(12)}, {"in_order": 1.5}, "in_order must be"),
        ({"q": np.arange(12)}, {"standardised": None}, "standardised must be"),
    ],
)
def test_bad_tables_are_refused(questions, more, sentence):
    with pytest.raises(ValueError, match=sentence):
        TableStream("made", "", np.zeros((12, 4)), questions, **more)


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
def test_data_sets_are_what_they_say(load, n_features, n_classes):
    if load in (datasets.phishing, datasets.image_segments, datasets.bananas):
        pytest.importorskip("river")
    stream = load()
    assert (stream.n_features, stream.rounds) == (n_features, 3000)
    (record,) = run_trial(stream, [METHODS["euclidean"]], seed=0, every=1000)
    assert (record.measured("knn_error") < 0.25).all()  # chance is worse on all of them
    labels = {label for block in stream.blocks(0, 1000) for label in block.scene.labels.tolist()}
    assert len(labels) == n_classes


def test_every_grouping_of_digits_is_another_one():
    parts = {
        frozenset([frozenset(group), frozenset(range(10)) - frozenset(group)])
        for group in datasets.DIGIT_GROUPS.values()
    }
    assert len(parts) == len(datasets.DIGIT_GROUPS) == 6
    blocks = list(datasets.switching_digits().blocks(0, 100))
    assert [block.round + at for block in blocks for at in block.changes] == [501, 1001, 1501, 2001, 2501]


def test_without_river_its_data_sets_say_what_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "river", None)
    with pytest.raises(ImportError, match=r"it comes with River: pip install 'ocelad\[river\]'"):
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

    def test_they_are_a_stream_where_the_folder_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setenv("OCELAD_DATA", str(write_top5000(tmp_path / "one")))
        stream = datasets.reviews.__wrapped__()
        assert stream.rounds == 3000
        assert stream.phases == ("sentiment", "type")
        (record,) = run_trial(stream, [METHODS["euclidean"]], seed=0, every=1000)
        assert np.isfinite(record.measured("ranked_wrong")[:2]).all()  # of the last pair alone nothing can be said
        monkeypatch.setenv("OCELAD_DATA", str(write_top5000(tmp_path / "other", seed=1)))
        assert datasets.reviews.__wrapped__().fingerprint() != stream.fingerprint()
        with Records(tmp_path / "trials.jsonl") as journal:
            journal.keep(stream, [METHODS["euclidean"]], [record], 1000)
        assert (tmp_path / "trials.jsonl").read_bytes()

    def test_without_them_it_is_said_what_is_missing(self, tmp_path, monkeypatch):
        monkeypatch.delenv("OCELAD_DATA", raising=False)
        with pytest.raises(FileNotFoundError, match="OCELAD_DATA does not name the folder"):
            datasets.reviews.__wrapped__()
        monkeypatch.setenv("OCELAD_DATA", str(tmp_path / "nowhere"))
        with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere, which OCELAD_DATA names"):
            datasets.reviews.__wrapped__()
