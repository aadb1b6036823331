"""The few-answers suite: benchmarks, splits, scores, targets and the run."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from synthetic_reviews import write_top5000

from ocelad import Metric, MetricTracker
from ocelad.evaluation.scores import knn_error, pair_auc
from ocelad.lab.baselines.pair_logistic import PairLogistic
from ocelad.lab.compare import Method
from ocelad.lab.compare.adapters import FixedAdapter, TrackerAdapter
from ocelad.lab.compare.few_answers import (
    BENCHMARKS,
    CHECKPOINTS,
    METHODS,
    RIVALS,
    AnswerBenchmark,
    AnswerResult,
    FewAnswersResult,
    accepted_names,
    few_answers_runner,
    review_lsa,
    run_few_answers,
)
from ocelad.lab.compare.few_answers.checkpoint_scores import CheckpointScores, recalibration_slope, score_checkpoint
from ocelad.lab.compare.few_answers.checkpoint_trial import CheckpointRecord, run_checkpoints
from ocelad.lab.compare.few_answers.held_out_split import count_held_out, draw_split
from ocelad.lab.compare.few_answers.labelled_points import (
    LabelledPoints,
    digits,
    isotropic,
    principal_components,
    rare,
    standardize,
)
from ocelad.lab.compare.few_answers.no_harm import better_reference, no_harm_targets
from ocelad.lab.compare.suites import FIRST_TEST_SEED, OURS
from ocelad.pairs import Events

EUCLIDEAN, STANDARDIZED = "euclidean", "standardized-start"
LABELS = [OURS, "curved", *(method.label for method in RIVALS)]


def some_points(seed=0, n=60, prepare=standardize):
    """Draw two classes that differ in the first of four features."""
    rng = np.random.default_rng(seed)
    classes = np.arange(n) % 2
    X = rng.normal(size=(n, 4)) * [1.0, 3.0, 3.0, 3.0]
    X[:, 0] += 3 * classes
    return LabelledPoints(X, classes, prepare)


SMALL = AnswerBenchmark("small", False, lambda seed: some_points(seed))


class TestBenchmarks:
    def test_each_data_set_has_natural_and_balanced_pairs(self):
        by_data_set = {}
        for benchmark in BENCHMARKS.values():
            by_data_set.setdefault(benchmark.data_set, []).append(benchmark.balanced)
        assert len(by_data_set) == 23
        assert all(kinds == [False, True] for kinds in by_data_set.values())
        assert set(accepted_names(BENCHMARKS)) == {*by_data_set, *BENCHMARKS}

    def test_cosine_is_a_target_of_embeddings_whose_lengths_differ(self):
        names = {benchmark.data_set for benchmark in BENCHMARKS.values() if benchmark.cosine_target}
        assert names == {"lsa-300-type", "lsa-300-sentiment", "lsa-300-four"}

    def test_rotated_digits_keep_their_distances(self):
        plain, rotated = digits(), digits(n_dimensions=200)
        assert rotated.X.shape == (1797, 200)
        np.testing.assert_allclose(np.linalg.norm(rotated.X, axis=1), np.linalg.norm(plain.X, axis=1))
        assert set(digits(question="parity").classes) == {0, 1}
        assert set(plain.classes[digits(question="loop").classes == 1]) == {0, 6, 8, 9}

    @pytest.mark.parametrize("density", [0.05, 0.002, 0.0005])
    def test_rare_columns_have_their_density_and_no_information(self, density):
        points = rare(density, seed=1)
        columns = points.X[:, 10:]
        assert set(np.unique(columns)) == {0.0, 1.0}
        assert columns.mean() == pytest.approx(density, rel=0.3)
        assert len(np.unique(points.classes)) == 4
        assert points.digest() == rare(density, seed=1).digest() != rare(density, seed=2).digest()

    def test_five_of_384_directions_separate_the_classes(self):
        points = isotropic(0)
        means = np.array([points.X[points.classes == k].mean(axis=0) for k in range(4)])
        within = points.X - means[points.classes]
        assert points.X.shape == (2000, 384)
        assert np.cov(within.T).diagonal().mean() == pytest.approx(1.0, abs=0.05)
        assert np.linalg.norm(means, axis=1).mean() == pytest.approx(4.0, abs=0.7)

    def test_test_seeds_are_those_of_the_other_suite(self):
        from ocelad.lab.compare.suite import FIRST_TEST_SEED as OF_ADAPTIVITY

        assert FIRST_TEST_SEED == OF_ADAPTIVITY == 3000


class TestReviews:
    @pytest.fixture
    def folders(self, tmp_path, monkeypatch):
        write_top5000(tmp_path / "top5000")
        monkeypatch.setenv("OCELAD_DATA", str(tmp_path))
        monkeypatch.setenv("OCELAD_CACHE", str(tmp_path / "cache"))
        return tmp_path

    def test_components_have_unit_length_and_are_computed_once(self, folders, monkeypatch):
        points, classes = review_lsa.load_review_lsa(5, "both")
        assert points.shape == (160, 5)
        np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0)
        assert len(np.unique(classes)) == 4
        monkeypatch.setattr(review_lsa, "_compute", lambda *_: pytest.fail("it was computed again"))
        again, types = review_lsa.load_review_lsa(5, "type")
        assert np.array_equal(points, again)
        assert set(types) == {"books", "electronics"}

    def test_components_can_keep_their_lengths(self, folders):
        plain, classes = review_lsa.load_review_lsa(5, "both", unit_length=False)
        points, same_classes = review_lsa.load_review_lsa(5, "both")
        lengths = np.linalg.norm(plain, axis=1)
        assert lengths.min() > 0.0
        assert lengths.max() > 1.05 * lengths.min()
        np.testing.assert_allclose(plain / lengths[:, None], points)
        assert np.array_equal(classes, same_classes)

    def test_a_damaged_cache_is_computed_again(self, folders):
        points, _ = review_lsa.load_review_lsa(5, "type")
        (path,) = (folders / "cache" / "review-lsa").iterdir()
        path.write_bytes(path.read_bytes()[:100])
        assert np.array_equal(review_lsa.load_review_lsa(5, "type")[0], points)
        np.save(path, np.ones((160, 4), dtype=np.float32))
        assert np.array_equal(review_lsa.load_review_lsa(5, "type")[0], points)

    def test_missing_reviews_are_reported(self, tmp_path, monkeypatch):
        monkeypatch.delenv("OCELAD_DATA", raising=False)
        with pytest.raises(FileNotFoundError, match="OCELAD_DATA is not set"):
            review_lsa.load_review_lsa(5, "type")
        monkeypatch.setenv("OCELAD_DATA", str(tmp_path))
        with pytest.raises(FileNotFoundError, match="has no reviews; accepted: top5000"):
            review_lsa.load_review_lsa(5, "type")


class TestSplits:
    @given(st.integers(0, 1000), st.integers(20, 90), st.booleans())
    @settings(max_examples=20, deadline=None)
    def test_no_pair_contains_a_held_out_point(self, seed, n, balanced):
        split = draw_split(some_points(n=n), 300, seed, balanced=balanced)
        training, held_out = ({tuple(row) for row in part.points} for part in (split.training, split.held_out))
        assert not training & held_out
        assert len(held_out) == count_held_out(n) == n // 2
        for block, points in ((split.answers, training), (split.test_pairs, held_out)):
            assert {tuple(row) for row in np.concatenate([block.X, block.Z])} <= points
            assert np.array_equal(block.y > 0, block.labels[:, 0] == block.labels[:, 1])
        assert len(split.answers) == 300
        assert len(split.test_pairs) == 4000

    @pytest.mark.parametrize("prepare", [standardize, principal_components])
    def test_held_out_points_have_no_influence_on_the_preparation(self, prepare):
        points = some_points(prepare=prepare)
        split = draw_split(points, 50, 3)
        order = np.random.default_rng(np.random.SeedSequence([3, 0]).spawn(3)[0]).permutation(60)
        changed = points.X.copy()
        changed[order[:30]] *= 100.0
        other = draw_split(replace(points, X=changed), 50, 3)
        np.testing.assert_array_equal(split.training.points, other.training.points)
        np.testing.assert_array_equal(split.answers.X, other.answers.X)
        assert not np.allclose(split.held_out.points, other.held_out.points)

    def test_there_are_at_most_1000_held_out_points(self):
        assert [count_held_out(n) for n in (178, 1999, 14_143)] == [89, 999, 1000]

    def test_half_of_the_balanced_pairs_are_similar(self):
        shares = [
            np.mean(draw_split(digits(), 12_000, 0, balanced=balanced).answers.y > 0) for balanced in (False, True)
        ]
        assert shares == [pytest.approx(0.1, abs=0.02), pytest.approx(0.5, abs=0.02)]

    def test_more_answers_begin_with_the_same_ones(self):
        few, many = (draw_split(some_points(), n, 5) for n in (20, 300))
        np.testing.assert_array_equal(few.answers.X, many.answers.X[:20])
        np.testing.assert_array_equal(few.test_pairs.X, many.test_pairs.X)
        other = draw_split(some_points(), 20, 5, number=1)
        assert not np.array_equal(few.answers.X, other.answers.X)


class TestScores:
    split = draw_split(some_points(), 100, 0)

    def test_neighbours_are_the_training_points(self):
        metric = Metric.from_diagonal([1.0, 0.0, 0.0, 0.0])
        scores = score_checkpoint(metric, None, self.split)
        first = self.split.training.points[:, :1], self.split.held_out.points[:, :1]
        expected = knn_error(
            first[0], self.split.training.labels, 5, test_points=first[1], test_labels=self.split.held_out.labels
        )
        assert scores.knn_error == expected < 0.3
        assert scores.ranking_error == scores.distance_ranking_error < 0.3
        assert np.isnan(scores[3:]).all()

    def test_log_odds_are_ranked_and_calibrated_on_their_own(self):
        y = self.split.test_pairs.y
        scores = score_checkpoint(None, 2.0 * y, self.split)
        assert np.isnan([scores.knn_error, scores.distance_ranking_error]).all()
        assert scores.ranking_error == 0.0
        assert scores.log_loss == pytest.approx(np.log1p(np.exp(-2.0)))
        assert scores.calibration_error == pytest.approx(expit(-2.0))
        assert scores.recalibration_slope > 1.0

    def test_infinite_distances_are_failures(self):
        with pytest.raises(FloatingPointError, match="overflow"):
            score_checkpoint(None, np.full(4000, np.inf), self.split)

    @given(st.integers(0, 1000), st.floats(0.1, 10.0))
    @settings(max_examples=20, deadline=None)
    def test_the_slope_undoes_a_scale(self, seed, factor):
        rng = np.random.default_rng(seed)
        log_odds = rng.normal(1.0, 2.0, size=2000)
        y = np.where(rng.random(2000) < expit(log_odds), 1.0, -1.0)
        assert recalibration_slope(log_odds, y) == pytest.approx(1.0, abs=0.35)
        assert recalibration_slope(factor * log_odds, y) == pytest.approx(
            recalibration_slope(log_odds, y) / factor, rel=1e-3
        )

    def test_constant_log_odds_have_no_slope(self):
        assert np.isnan(recalibration_slope(np.full(10, 0.3), np.ones(10)))


class TestLogistic:
    def pairs(self, n=200, seed=0):
        U = np.random.default_rng(seed).normal(size=(n, 3))
        return Events(U, np.where(np.abs(U[:, 0]) < 0.7, 1.0, -1.0))

    @pytest.mark.parametrize(
        ("y", "odds"), [([], 1.0), ([1, 1, 1], 3.5 / 0.5), ([-1, -1], 0.5 / 2.5), ([1, -1, -1, -1], 1.5 / 3.5)]
    )
    def test_it_predicts_the_base_rate_until_two_pairs_of_each_label_were_seen(self, y, odds):
        model = PairLogistic(3)
        for label in y:
            model.add_pairs(Events(np.ones((1, 3)), np.array([float(label)])))
        np.testing.assert_allclose(model.log_odds(np.eye(3)), np.log(odds))

    def test_it_is_refitted_to_all_pairs(self):
        whole, parts = PairLogistic(3), PairLogistic(3)
        events = self.pairs()
        whole.add_pairs(events)
        parts.add_pairs(Events(events.U[:50], events.y[:50]))
        before = parts.log_odds(np.eye(3))
        parts.add_pairs(Events(events.U[50:], events.y[50:]))
        np.testing.assert_array_equal(parts.log_odds(np.eye(3)), whole.log_odds(np.eye(3)))
        assert not np.allclose(before, whole.log_odds(np.eye(3)))

    def test_it_learns_which_feature_matters(self):
        model, test = PairLogistic(3), self.pairs(500, seed=1)
        model.add_pairs(self.pairs())
        assert pair_auc(-model.log_odds(test.U), test.y) > 0.95
        with pytest.raises(ValueError, match="U has 2 features; 3 are expected"):
            model.log_odds(np.ones((1, 2)))


class TestTrials:
    def test_ours_is_the_estimator(self):
        (record,) = run_checkpoints(SMALL, [METHODS[OURS]], 4, (10, 50))
        split = draw_split(some_points(4), 50, 4)
        pairs = np.stack([split.answers.X, split.answers.Z], axis=1)
        tracker = MetricTracker().fit(pairs, split.answers.y)
        log_odds = tracker.log_odds(np.stack([split.test_pairs.X, split.test_pairs.Z], axis=1))
        assert record.values("ranking_error")[1] == pytest.approx(1 - pair_auc(-log_odds, split.test_pairs.y))
        expected = score_checkpoint(tracker.metric_, log_odds, split)
        np.testing.assert_allclose(record.scores[1], expected, rtol=1e-6)

    def test_scores_do_not_depend_on_later_answers(self):
        methods = [METHODS[OURS], *RIVALS]
        few, many = (run_checkpoints(SMALL, methods, 0, checkpoints) for checkpoints in ((10, 20), (10, 20, 50)))
        for one, other in zip(few, many, strict=True):
            np.testing.assert_allclose(one.scores, other.scores[:2], rtol=1e-9)

    def test_a_distance_that_learns_is_scored_at_each_checkpoint(self):
        fixed, learned = run_checkpoints(SMALL, [METHODS[EUCLIDEAN], METHODS["kissme"]], 0, (10, 20, 50))
        assert len({scores.ranking_error for scores in fixed.scores}) == 1
        assert len({scores.ranking_error for scores in learned.scores}) == 3

    def test_splits_are_averaged(self):
        (record,) = run_checkpoints(replace(SMALL, n_splits=3), [METHODS[EUCLIDEAN]], 0, (10,))
        errors = [
            score_checkpoint(Metric(np.eye(4)), None, draw_split(some_points(), 10, 0, number=n)) for n in range(3)
        ]
        assert record.scores[0].knn_error == pytest.approx(np.mean([scores.knn_error for scores in errors]))

    def test_the_logistic_regression_has_no_neighbours(self):
        (record,) = run_checkpoints(SMALL, [METHODS["logistic"]], 0, (10, 300))
        assert np.isnan([record.values("knn_error"), record.values("distance_ranking_error")]).all()
        assert record.values("ranking_error")[1] < 0.35

    def test_a_failure_ends_a_method_and_no_other(self):
        class Failing(FixedAdapter):
            def update(self, block):
                raise FloatingPointError("too large")

        failing = Method("failing", "", lambda info: Failing(Metric(np.eye(4))))
        failed, fine = run_checkpoints(SMALL, [failing, METHODS[EUCLIDEAN]], 0, (10, 20))
        assert (failed.failure, failed.scores) == ("too large", [])
        assert fine.failure is None
        assert CheckpointRecord.from_json(json.loads(json.dumps(failed.to_json()))) == failed
        again = CheckpointRecord.from_json(json.loads(json.dumps(fine.to_json())))
        np.testing.assert_array_equal(again.scores, fine.scores)

    def test_any_error_of_an_own_method_is_its_failure(self):
        def broken(info, **settings):
            raise RuntimeError("too late")

        failed, fine = run_checkpoints(SMALL, [Method("own", "", broken), METHODS[EUCLIDEAN]], 0, (10, 20))
        assert (failed.failure, fine.failure) == ("RuntimeError: too late", None)
        with pytest.raises(RuntimeError, match="too late"):
            run_checkpoints(SMALL, [replace(METHODS["logistic"], factory=broken)], 0, (10, 20))


def fake_outcome(
    ours,
    *,
    euclidean=10.0,
    standardized=20.0,
    cosine=50.0,
    curved=None,
    n_seeds=4,
    checkpoints=CHECKPOINTS,
    held_out=1000,
    benchmark="digits/natural",
    **more,
):
    """Return an outcome with these k-NN errors in percent; ``ours`` has the shape of (seeds, checkpoints).

    It has a curved method only if its error is given.
    """
    shape = n_seeds, len(checkpoints)
    errors = {OURS: ours, EUCLIDEAN: euclidean, STANDARDIZED: standardized, "curved": curved, "cosine": cosine}
    records = {}
    for label in LABELS:
        if label == "curved" and curved is None:
            continue
        table = np.broadcast_to(np.asarray(errors.get(label, 50.0), dtype=float), shape) / 100
        records[label] = [
            CheckpointRecord(label, seed, [CheckpointScores(e, 0.1, 0.1, more.get(label, 0.5), 0.0, 1.0) for e in row])
            for seed, row in enumerate(table)
        ]
    return AnswerResult(BENCHMARKS[benchmark], checkpoints, records, held_out)


def missed(outcome):
    return [target for target in no_harm_targets(outcome) if not target.met]


class TestTargets:
    def test_all_are_met_if_nothing_is_worse(self):
        outcome = fake_outcome(10.0)
        assert not missed(outcome)
        n_cells = 3 * len(CHECKPOINTS)
        assert len(no_harm_targets(outcome)) == n_cells + 3
        assert len(no_harm_targets(fake_outcome(10.0, held_out=499))) == n_cells

    @pytest.mark.parametrize(("ours", "met"), [(10.49, True), (10.51, False)])
    def test_a_constant_excess_is_missed_at_every_number_of_answers(self, ours, met):
        found = missed(fake_outcome(ours))
        assert len(found) == (0 if met else len(CHECKPOINTS))
        assert all(target.quantity.startswith("adaptive: k-NN error minus that of euclidean") for target in found)

    def test_one_doctored_cell_is_missed(self):
        errors = np.full((4, len(CHECKPOINTS)), 10.0)
        errors[:, 2] = 12.0
        (target,) = missed(fake_outcome(errors))
        assert target.quantity == "adaptive: k-NN error minus that of euclidean after 50 answers"
        assert (target.bound, target.value) == ("at most 0.5", pytest.approx(2.0))

    def test_curved_distances_have_the_same_targets(self):
        met = fake_outcome(10.0, curved=9.0)
        assert len(no_harm_targets(met)) == 2 * len(no_harm_targets(fake_outcome(10.0)))
        assert not missed(met)
        found = missed(fake_outcome(10.0, curved=11.0))
        assert len(found) == len(CHECKPOINTS)
        assert all(target.quantity.startswith("curved: k-NN error minus that of euclidean") for target in found)

    @pytest.mark.parametrize("benchmark", ["lsa-300-four/natural", "lsa-300-type/balanced", "digits/natural"])
    def test_curved_distances_of_embeddings_must_not_be_worse_than_cosine(self, benchmark):
        """Linear distances cannot be like cosine; and points of other data sets are no embeddings."""
        settings = {"benchmark": benchmark, "curved": 9.0}
        without = len(no_harm_targets(fake_outcome(10.0, **settings | {"benchmark": "digits/natural"})))
        is_target = benchmark.startswith("lsa")
        targets = no_harm_targets(fake_outcome(10.0, cosine=8.6, **settings))
        assert len(targets) == without + (3 * len(CHECKPOINTS) if is_target else 0)
        assert all(target.met for target in targets)
        found = missed(fake_outcome(10.0, cosine=8.0, **settings))
        assert len(found) == (len(CHECKPOINTS) if is_target else 0)
        assert all(target.quantity.startswith("curved: k-NN error minus that of cosine after") for target in found)

    def test_an_excess_within_its_confidence_interval_is_not_missed(self):
        noise = np.array([-3.0, 3.0, -2.0, 4.0])[:, None]
        outcome = fake_outcome(10.5 + noise)
        assert outcome.difference(OURS, "knn_error", 10).mean == pytest.approx(1.0)
        assert not missed(replace(outcome, n_held_out=100))
        assert len(missed(fake_outcome(11.0 + noise / 10, held_out=100))) == len(CHECKPOINTS)

    def test_the_better_reference_counts_from_100_answers_on(self):
        outcome = fake_outcome(9.0, standardized=6.0)
        assert better_reference(outcome, "knn_error", 300) == STANDARDIZED
        quantities = [target.quantity for target in missed(outcome)]
        late = [n for n in CHECKPOINTS if n >= 100]
        assert quantities == [f"adaptive: k-NN error minus that of {STANDARDIZED} after {n} answers" for n in late]

    def test_a_single_seed_must_not_be_much_worse(self):
        errors = np.full((4, len(CHECKPOINTS)), 10.0)
        errors[1, 0] = 15.2
        (target,) = missed(fake_outcome(errors))
        assert (target.quantity, target.bound) == (
            "adaptive: k-NN error minus that of euclidean, worst seed",
            "at most 5",
        )
        assert target.value == pytest.approx(5.2)
        assert not missed(fake_outcome(errors, held_out=400))

    def test_no_target_is_met_if_a_run_of_ours_failed(self):
        outcome = fake_outcome(1.0)
        outcome.records[OURS][2] = CheckpointRecord(OURS, 2, failure="why")
        assert len(missed(outcome)) == len(no_harm_targets(outcome))

    def test_cells_with_a_log_loss_no_worse_than_logistic_regression(self):
        outcomes = tuple(fake_outcome(10.0, logistic=loss) for loss in (0.6, 0.7, 0.4, 0.5))  # ours is 0.5
        assert FewAnswersResult(outcomes, (), {}).log_loss_cells == (3 * len(CHECKPOINTS), 4 * len(CHECKPOINTS))

    def test_differences_are_paired_by_seed(self):
        outcome = fake_outcome(np.array([[1.0], [2.0], [6.0], [7.0]]), euclidean=np.array([[2.0], [4.0], [7.0], [7.0]]))
        difference = outcome.difference(OURS, "knn_error", 20)
        assert (difference.mean, difference.n) == (pytest.approx(-1.0), 4)
        assert difference.standard_error == pytest.approx(np.std([-1, -2, -1, 0], ddof=1) / 2)


class TestRun:
    @pytest.fixture
    def benchmarks(self, monkeypatch):
        def gone(seed):
            raise FileNotFoundError("the data are missing")

        known = {
            "small/natural": SMALL,
            "small/balanced": replace(SMALL, balanced=True),
            "gone/natural": AnswerBenchmark("gone", False, gone),
        }
        monkeypatch.setattr(few_answers_runner, "ANSWER_BENCHMARKS", known)
        return known

    def test_benchmarks_with_missing_data_are_skipped_with_the_reason(self, benchmarks):
        reports = []
        result = run_few_answers(
            ["small", "gone"], answers=30, seeds=2, n_jobs=1, progress=lambda *report: reports.append(report)
        )
        assert [outcome.benchmark.name for outcome in result.outcomes] == ["small/natural", "small/balanced"]
        assert result.skipped == {"gone/natural": "the data are missing"}
        assert (result.seeds, result.checkpoints) == ((3000, 3001), (10, 20))
        assert result.outcomes[0].methods == LABELS
        assert reports[-1] == ("small/balanced", 2 * len(LABELS), 2 * len(LABELS))
        content = json.loads(json.dumps(result.to_json()))
        assert content["benchmarks"][0]["methods"][0]["method"] == OURS
        met = sum(target.met for target in result.targets)
        first, _, *lines = str(result).split("\n")
        assert first == f"few-answers suite: {met} of {len(result.targets)} targets are met"
        assert sum(line.endswith("missed") for line in lines) == len(result.targets) - met
        assert not any(line.endswith("met") for line in lines)
        with pytest.raises(ValueError, match=r"there is no benchmark to run \(gone/natural: the data are missing\)"):
            run_few_answers(["gone"], seeds=1, n_jobs=1)

    def test_finished_trials_are_not_run_again(self, benchmarks, tmp_path, monkeypatch):
        common = {"answers": 10, "n_jobs": 1, "journal": tmp_path / "trials.jsonl"}
        first = run_few_answers(["small"], seeds=2, **common)
        assert len(common["journal"].read_bytes().splitlines()) == 2 * 2 * len(LABELS)
        monkeypatch.setattr(few_answers_runner, "run_checkpoints", lambda *_: pytest.fail("it ran"))
        again = run_few_answers(["small"], seeds=2, **common)
        assert [t.value for t in first.targets] == [t.value for t in again.targets]

    def test_a_method_of_the_user_takes_part_with_or_without_log_odds(self, benchmarks, tmp_path):
        first = Method("first", "", lambda info: FixedAdapter(Metric.from_diagonal(np.eye(info.n_features)[0])))
        hinge = Method("own", "", lambda info: TrackerAdapter(MetricTracker(method="rice").start(info.n_features)))
        journal = tmp_path / "trials.jsonl"
        result = run_few_answers(
            ["small/natural"], extra_methods=[first, hinge, "lego"], answers=10, seeds=1, n_jobs=1, journal=journal
        )
        (outcome,) = result.outcomes
        assert outcome.methods == [*LABELS, "first", "own", "lego"]
        assert outcome.difference("first", "knn_error", 10).mean < 0
        assert outcome.has("own", "log_loss")
        assert not outcome.has("first", "log_loss")
        assert b'"first"' not in journal.read_bytes()  # a file cannot identify its code

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            ({"answers": 9}, "answers must be a whole number of at least 10"),
            ({"answers": 12_001}, "answers must be a whole number of at most 12000"),
            ({"seeds": 0}, "seeds must be a whole number of at least 1"),
            ({"extra_methods": ["legoo"]}, "there is no method 'legoo'"),
            ({"extra_methods": ["kissme:window=1"]}, "kissme:window=1: window must be a whole number of at least 2"),
            ({"extra_methods": ["truth"]}, "truth: it requires the true metric"),
            ({"extra_methods": [Method("none", "", lambda info: None)]}, "which has no play or log_odds, and update"),
            ({"benchmarks": ["wines"]}, "a benchmark of the suite must be one of"),
        ],
    )
    def test_bad_input_is_refused_in_a_sentence(self, benchmarks, more, message):
        with pytest.raises((TypeError, ValueError), match=message) as raised:
            run_few_answers(**{"benchmarks": ["small"], "n_jobs": 1, **more})
        assert "\n" not in str(raised.value)
