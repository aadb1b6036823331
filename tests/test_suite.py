"""The adaptivity suite: benchmarks, the best COMID learner, recovery times, targets, and the command."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from command import run
from hypothesis import given, settings
from hypothesis import strategies as st

from ocelad import Metric
from ocelad.lab.compare import METHODS, STREAMS, Method, compare
from ocelad.lab.compare.adapters import FixedAdapter
from ocelad.lab.compare.comparison import Comparison
from ocelad.lab.compare.dataset_stream import DatasetStream
from ocelad.lab.compare.run_comparison import FIRST_SEED
from ocelad.lab.compare.scoring import Scores
from ocelad.lab.compare.suite import (
    BENCHMARKS,
    COMID_GRID,
    FIRST_TEST_SEED,
    OPPONENTS,
    OURS,
    Benchmark,
    run_suite,
    suite_runner,
)
from ocelad.lab.compare.suite.recovery import RECOVERY_TOLERANCE, RECOVERY_WINDOW, recovery_time
from ocelad.lab.compare.suite.suite_results import BEST_COMID, BenchmarkResult, SuiteResult, best_comid
from ocelad.lab.compare.trial import Record

NAMED = tuple(dict.fromkeys((OURS, *OPPONENTS)))


def small_stream(seed=0, rounds=240):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)) * [1.0, 3.0, 3.0, 3.0]
    X[:, 0] += 3 * (np.arange(60) % 2)
    return DatasetStream("small", "", X, {"q": np.arange(60) % 2}, rounds=rounds)


def fake_comparison(errors, found=None, *, stream=STREAMS["rotated"], every=100, failed=(), phases=None):
    """Return a comparison of all methods of the suite with the given k-NN errors in percent, one row per seed."""
    methods = (*(METHODS[name] for name in NAMED), *COMID_GRID)
    records = {}
    for method in methods:
        of_method = np.atleast_2d(errors.get(method.label, errors["others"]))
        nmi = 0.9 if (found or {}).get(method.label, True) else 0.1
        records[method.label] = [
            Record(
                method.label,
                seed,
                [every * (at + 1) for at in range(len(row))],
                phases or ["A, static"] * len(row),
                phases or ["A, static"] * len(row),
                [Scores(error / 100, nmi, error / 100) for error in row],
                1.0,
                "why" if (method.label, seed) in failed else None,
            )
            for seed, row in enumerate(of_method)
        ]
    return Comparison(stream, methods, records, OURS, every, tuple(range(len(of_method))))


class TestBenchmarks:
    def test_the_eight_synthetic_streams_are_rotated_and_differ_as_documented(self):
        drawn = {name: BENCHMARKS[name].stream for name in ("S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8")}
        assert len({stream.fingerprint() for stream in drawn.values()}) == 8
        examples = {name: stream._draw(0) for name, stream in drawn.items()}
        assert all(example.random_rotation for example in examples.values())
        assert [len(example) for example in examples.values()] == [6000, 3000, 3000, 3000, 3000, 6000, 6000, 6000]
        assert [e.label_noise for e in examples.values()] == [0, 0, 0, 0, 0, 0.1, 0, 0]
        assert [e.feature_noise for e in examples.values()] == ["normal"] * 6 + ["t3", "normal"]
        assert [e.random_units for e in examples.values()] == [False] * 7 + [True]

    def test_switches_are_the_concept_changes_of_the_stream(self):
        for benchmark in BENCHMARKS.values():
            if benchmark.switches:
                blocks = benchmark.stream.blocks(0, 100)
                changes = tuple(block.round + at - 1 for block in blocks for at in block.changes)
                assert changes == benchmark.switches

    def test_the_grid_has_ten_distinct_comid_learners(self):
        assert len({method.label for method in COMID_GRID}) == 10
        assert {method.name for method in COMID_GRID} == {"comid"}
        assert {method.settings["loss"] for method in COMID_GRID} == {"hinge", "logistic"}
        assert not {method.label for method in COMID_GRID} & set(NAMED)

    def test_test_seeds_are_not_those_of_tuning_or_of_plain_comparisons(self):
        assert FIRST_TEST_SEED >= 2 * FIRST_SEED


class TestBestComid:
    def test_it_has_the_lowest_mean_error_on_the_compared_streams(self):
        stream = small_stream()
        comparison = compare([OURS, *COMID_GRID], stream, seeds=3, first_seed=5, every=60, n_jobs=1)
        means = {
            method.label: np.mean([record.values("knn_error").mean() for record in comparison.records[method.label]])
            for method in COMID_GRID
        }
        assert means[best_comid(comparison)] == min(means.values()) < max(means.values())

    @given(st.lists(st.integers(0, 1000), min_size=30, max_size=30), st.sets(st.integers(0, 9), max_size=9))
    @settings(max_examples=50, deadline=None)
    def test_a_learner_with_a_failed_run_is_not_the_best(self, errors, failing):
        by_label = {m.label: [[e / 10] for e in errors[3 * at : 3 * at + 3]] for at, m in enumerate(COMID_GRID)}
        failed = [(COMID_GRID[at].label, 1) for at in failing]
        comparison = fake_comparison({**by_label, "others": [[0.0]] * 3}, failed=failed)
        best = best_comid(comparison)
        whole = [m.label for at, m in enumerate(COMID_GRID) if at not in failing]
        assert best in whole
        assert np.mean(by_label[best]) == pytest.approx(min(np.mean(by_label[label]) for label in whole))

    def test_both_measures_are_those_of_the_same_learner(self):
        best = COMID_GRID[3].label
        found = {best: False}
        outcome = BenchmarkResult(BENCHMARKS["S1"], fake_comparison({best: [[1.0]] * 2, "others": [[2.0]] * 2}, found))
        assert outcome.best_comid == best
        assert outcome.mean(outcome.best_comid, "clusters_found").mean == 0.0
        assert outcome.methods == [*NAMED, best]
        assert [outcome.display_name(label) for label in outcome.methods] == [*NAMED, BEST_COMID]


class TestRecovery:
    rounds = tuple(range(25, 2025, 25))
    phases = ("before",) * 40 + ("after",) * 40

    @given(st.lists(st.integers(0, 30), min_size=40, max_size=40))
    @settings(max_examples=200, deadline=None)
    def test_it_is_the_first_round_after_which_the_error_stays_near(self, after):
        errors = np.array([1.0] * 40 + [float(error) for error in after])
        near = [error <= np.mean(after[20:]) + RECOVERY_TOLERANCE for error in after[:20]]
        expected = next((25 * (at + 1) for at in range(20) if all(near[at:])), None)
        assert recovery_time(self.rounds, self.phases, errors, 1000) == expected

    def test_other_phases_do_not_matter(self):
        errors = np.full(80, 50.0)
        errors[40:44] = [30.0, 20.0, 3.0, 1.0]
        errors[44:60] = 1.0
        phases = ["before"] * 40 + ["after"] * 20 + ["later"] * 20
        assert recovery_time(self.rounds, phases, errors, 1000) == 75
        errors[58:60] = 90.0  # a higher settled error, still far away at the end of the window
        assert RECOVERY_WINDOW == 500
        assert recovery_time(self.rounds, phases, errors, 1000) is None

    def test_it_uses_the_mean_error_over_the_seeds(self):
        phases = ["A, static"] * 40 + ["B, moderate drift"] * 40 + ["A, slow drift"] * 160
        one, other = np.full(240, 1.0), np.full(240, 1.0)
        one[40:48], other[40:44] = 6.0, 20.0  # 225 and 125 if taken separately
        recovery = fake_comparison({"others": [one, other]}, every=25, phases=phases)
        outcome = BenchmarkResult(
            replace(BENCHMARKS["S1"], switches=(1000,)), fake_comparison({"others": [[1.0], [1.0]]}), recovery
        )
        assert outcome.recovery_times(OURS) == (225,)
        target = outcome.targets[-1]
        assert (target.quantity, target.value, target.met) == ("recovery time after round 1000", 225.0, False)


class TestTargets:
    def targets(self, name, **more):
        return {
            target.quantity: target for target in BenchmarkResult(BENCHMARKS[name], fake_comparison(**more)).targets
        }

    @pytest.mark.parametrize(("error", "met"), [(0.62, True), (0.63, False)])
    def test_the_error_has_an_upper_bound(self, error, met):
        target = self.targets("S2", errors={OURS: [[error]] * 2, "others": [[5.0]] * 2})["error"]
        assert (target.benchmark, target.bound, target.met) == ("S2", "at most 0.62", met)
        assert target.value == pytest.approx(error)

    @pytest.mark.parametrize(("found", "met"), [(True, True), (False, False)])
    def test_found_clusters_have_a_lower_bound(self, found, met):
        target = self.targets("S2", errors={"others": [[0.5]] * 2}, found={OURS: found})["P(NMI > 0.8)"]
        assert (target.value, target.bound, target.met) == (100.0 if found else 0.0, "at least 98.2", met)

    def test_both_measures_are_compared_with_the_best_comid_learner(self):
        best = COMID_GRID[0].label
        errors = {OURS: [[1.0]] * 2, best: [[1.5]] * 2, "others": [[9.0]] * 2}
        error, found = "error minus the best COMID's", "P(NMI > 0.8) minus the best COMID's"
        targets = self.targets("S3", errors=errors, found={best: False})
        assert targets[error].value == pytest.approx(-0.5)
        assert (targets[error].met, targets[found].met) == (True, True)
        targets = self.targets("S3", errors={**errors, OURS: [[1.5]] * 2})
        assert (targets[error].met, targets[found].met) == (False, False)  # equal is not better
        assert targets[found].value == 0.0

    @pytest.mark.parametrize(("ours", "met"), [(3.19, True), (3.21, False), (1.0, True)])
    def test_on_real_data_the_error_is_close_to_the_safe_baselines(self, ours, met, monkeypatch):
        monkeypatch.setattr("ocelad.lab.compare.suite.suite_results.OURS", "cbce")
        errors = {"cbce": [[ours]] * 2, "rice": [[3.0]] * 2, "euclidean": [[8.0]] * 2, "others": [[0.1]] * 2}
        comparison = replace(fake_comparison(errors), reference="cbce")
        outcome = BenchmarkResult(BENCHMARKS["wine"], comparison)
        (target,) = outcome.targets
        assert (target.bound, target.met) == ("at most 0.2", met)
        assert target.value == pytest.approx(ours - 3.0)
        assert outcome.beats_safe_baselines == (ours < 3.0)
        better = BenchmarkResult(
            BENCHMARKS["digits"], replace(fake_comparison({**errors, "cbce": [[1.0]] * 2}), reference="cbce")
        )
        worse = BenchmarkResult(
            BENCHMARKS["bananas"], replace(fake_comparison({**errors, "cbce": [[4.0]] * 2}), reference="cbce")
        )
        common = [SuiteResult(outcomes, {}).targets[-1] for outcomes in ((better, worse), (better, worse, worse))]
        assert [(target.value, target.met) for target in common] == [(1, True), (1, False)]
        assert common[1].bound == "at least half of 3"

    def test_no_target_is_met_if_a_run_of_ours_failed(self):
        errors = {OURS: [[0.1]] * 2, "others": [[5.0]] * 2}
        assert self.targets("S2", errors=errors)["error"].met
        assert not self.targets("S2", errors=errors, failed=[(OURS, 1)])["error"].met

    def test_a_result_prints_as_a_table_of_targets(self):
        errors = {OURS: [[0.1]] * 2, "others": [[5.0]] * 2}
        result = SuiteResult((BenchmarkResult(BENCHMARKS["S2"], fake_comparison(errors)),), {"gone": "no data"})
        first, *lines = str(result).split("\n")
        met = sum(target.met for target in result.targets)
        assert first == f"adaptivity suite: {met} of {len(result.targets)} targets are met"
        assert [line.split()[-1] for line in lines[1:-1]] == [("missed", "met")[each.met] for each in result.targets]
        assert lines[-1] == "skipped: gone"

    def test_differences_are_paired_and_minus_ours(self):
        outcome = BenchmarkResult(
            BENCHMARKS["S2"], fake_comparison({OURS: [[1.0], [2.0], [6.0]], "others": [[2.0], [4.0], [7.0]]})
        )
        difference = outcome.difference("euclidean")
        assert (difference.mean, difference.standard_error, difference.n) == (
            pytest.approx(4 / 3),
            pytest.approx(1 / 3),
            3,
        )
        assert outcome.difference(OURS).mean == 0.0


class TestRun:
    @pytest.fixture
    def benchmarks(self, monkeypatch):
        def missing():
            raise FileNotFoundError("the data are missing")

        benchmarks = {
            "one": Benchmark("one", small_stream, is_real=True),
            "gone": Benchmark("gone", missing, is_real=True),
            "two": Benchmark("two", lambda: small_stream(seed=1), is_real=True),
        }
        monkeypatch.setattr(suite_runner, "BENCHMARKS", benchmarks)
        monkeypatch.setattr(suite_runner, "COMID_GRID", COMID_GRID[:2])
        monkeypatch.setattr("ocelad.lab.compare.suite.suite_results.COMID_GRID", COMID_GRID[:2])
        return benchmarks

    def test_benchmarks_with_missing_data_are_skipped_with_the_reason(self, benchmarks):
        result = run_suite(list(benchmarks), seeds=2, n_jobs=1)
        assert [outcome.benchmark.name for outcome in result.outcomes] == ["one", "two"]
        assert result.skipped == {"gone": "the data are missing"}
        assert result.seeds == (FIRST_TEST_SEED, FIRST_TEST_SEED + 1)
        assert all(outcome.comparison.reference == OURS for outcome in result.outcomes)
        content = json.loads(json.dumps(result.to_json()))
        assert [benchmark["benchmark"] for benchmark in content["benchmarks"]] == ["one", "two"]
        assert content["benchmarks"][0]["methods"][0]["method"] == OURS
        with pytest.raises(ValueError, match=r"there is no benchmark to run \(gone: the data are missing\)"):
            run_suite(["gone"], seeds=1, n_jobs=1)

    def test_finished_trials_are_not_run_again_and_a_restart_applies_once(self, benchmarks, tmp_path, monkeypatch):
        journal = tmp_path / "trials.jsonl"
        first = run_suite(["one", "two"], seeds=1, n_jobs=1, journal=journal)
        lines = journal.read_bytes().splitlines()
        run_suite(["one", "two"], seeds=1, n_jobs=1, journal=journal, restart=True)
        assert len(journal.read_bytes().splitlines()) == len(lines) == 2 * (len(NAMED) + 2)
        monkeypatch.setattr("ocelad.lab.compare.journalled_trials.run_trial", lambda *_: pytest.fail("it ran"))
        again = run_suite(["one", "two"], seeds=1, n_jobs=1, journal=journal)
        means = [[o.mean(label).mean for o in result.outcomes for label in o.methods] for result in (first, again)]
        assert means[0] == means[1]

    def test_recovery_is_measured_where_there_are_switches(self, benchmarks, monkeypatch):
        from ocelad.evaluation.streams import DriftingClusters, Phase
        from ocelad.lab.compare.block_streams import DriftingStream

        phases = [Phase("A, static", "A", 0.0, 200), Phase("B, static", "B", 0.0, 300)]
        stream = DriftingStream("s", "", lambda seed: DriftingClusters(phases, n_points=60, n_features=6, seed=seed))
        monkeypatch.setitem(benchmarks, "s", Benchmark("s", lambda: stream, switches=(200,)))
        reports = []
        result = run_suite(["s"], seeds=1, n_jobs=1, progress=lambda *report: reports.append(report))
        (outcome,) = result.outcomes
        assert outcome.recovery_comparison.every == 25
        assert len(outcome.recovery_times(OURS)) == 1
        assert {label for label, _, _ in reports} == {"s", "s, recovery"}

    def test_an_incompatible_method_is_not_run(self, benchmarks, monkeypatch):
        blind = Method("blind", "", FixedAdapter, requires=frozenset({"truth"}))
        monkeypatch.setattr(suite_runner, "METHODS", {**METHODS, "cbce": blind})
        (outcome,) = run_suite(["one"], seeds=1, n_jobs=1).outcomes
        assert outcome.methods[:-1] == [name for name in NAMED if name != "cbce"]
        monkeypatch.setattr(suite_runner, "METHODS", {**METHODS, OURS: blind})
        with pytest.raises(ValueError, match="it requires the true metric"):
            run_suite(["one"], seeds=1, n_jobs=1)

    def test_a_method_of_the_user_takes_part(self, benchmarks):
        first = Method(
            "first", "", lambda info: FixedAdapter(Metric.from_diagonal(np.eye(info.n_features)[0])), sparse=True
        )
        blind = Method("blind", "", FixedAdapter, requires=frozenset({"truth"}))
        extra = [first, "lego", "rice", blind]  # rice takes part anyway, and blind cannot run
        (outcome,) = run_suite(["one"], extra_methods=extra, seeds=2, n_jobs=1).outcomes
        assert outcome.methods[:-1] == [*NAMED, "first", "lego"]
        assert outcome.difference("first").mean < outcome.difference("euclidean").mean
        with pytest.raises(ValueError, match="there is no method 'legoo'"):
            run_suite(["one"], extra_methods=["legoo"])

    def test_unknown_benchmarks_are_rejected(self):
        with pytest.raises(ValueError, match="a benchmark of the suite must be one of 'S1'"):
            run_suite(["S9"])


class TestCommand:
    command = ("compare", "--suite", "adaptivity", "--benchmarks", "wine", "--seeds", "2", "--jobs", "1")

    def test_it_writes_tables_a_picture_csv_and_json(self, tmp_path):
        result = run(*self.command, cwd=tmp_path)
        for words in ("best of 10 COMID", "error minus the lower error", "us/pair, wine", "targets", "95 %"):
            assert words in result.stdout, words
        n_trials = 2 * (len(NAMED) + len(COMID_GRID))
        assert f"wine: {n_trials} of {n_trials} trials" in result.stderr
        folder = tmp_path / "ocelad-compare"
        assert (folder / "suite.png").read_bytes().startswith(b"\x89PNG")
        content = json.loads((folder / "suite.json").read_text())
        assert content == json.loads(run(*self.command, "--json", cwd=tmp_path).stdout)
        assert content["seeds"] == [3000, 3001]
        lines = list(csv.DictReader((folder / "suite.csv").read_text().splitlines()))
        (benchmark,) = content["benchmarks"]
        assert {line["name"] for line in lines} == {*NAMED, "best of 10 COMID"}
        for method in benchmark["methods"]:
            (line,) = [line for line in lines if (line["method"], line["measure"]) == (method["method"], "knn_error")]
            assert float(line["mean"]) == method["error"]["mean"]
            assert float(line["difference"]) == method["error"]["difference"]["mean"]
            assert f"{method['error']['mean']:.2f} / {method['clusters_found']['mean']:.1f}" in result.stdout

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--suite", "adaptivity", "--answers", "300"), "--answers belongs to --suite few-answers"),
            (("--suite", "adaptivity", "--tune", "3"), "--tune cannot be used with --suite"),
            (("--suite", "adaptivity", "--stream", "static"), "--stream cannot be used with --suite"),
            (("--suite", "adaptivity", "--class", "c"), "--class cannot be used with --suite"),
            (("--suite", "adaptivity", "--benchmarks", "S1,S9"), "the suite has no benchmark 'S9'; accepted: S1, S2"),
            (("--suite", "speed"), "adaptivity"),
            (("rice", "--benchmarks", "S1"), "--benchmarks names benchmarks of a suite: give --suite, too"),
        ],
    )
    def test_contradictory_options_are_rejected(self, arguments, message, tmp_path):
        assert message in run("compare", *arguments, cwd=tmp_path, code=2).stderr

    def test_a_single_benchmark_with_missing_data_is_reported(self, tmp_path, monkeypatch):
        monkeypatch.setenv("OCELAD_DATA", str(tmp_path / "nowhere"))
        command = ("compare", "--suite", "adaptivity", "--benchmarks", "reviews", "--seeds", "1")
        assert "there is no benchmark to run (reviews: the folder" in run(*command, cwd=tmp_path, code=1).stderr

    def test_an_interrupt_says_how_to_resume(self, tmp_path, monkeypatch):
        def interrupted(*benchmarks, **settings):
            raise KeyboardInterrupt

        monkeypatch.setattr("ocelad.lab.compare.suite.run_suite", interrupted)
        result = run(*self.command, cwd=tmp_path, code=130).stderr
        assert "trials.jsonl. To continue, run the same command again" in result

    def test_plain_comparisons_have_their_own_first_seed(self, tmp_path):
        result = run(
            "compare",
            "euclidean",
            "--stream",
            "static",
            "--seeds",
            "1",
            "--every",
            "3000",
            "--json",
            "--jobs",
            "1",
            cwd=tmp_path,
        )
        assert json.loads(result.stdout)["seeds"] == [FIRST_SEED]
