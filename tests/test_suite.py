"""The adaptivity suite: its rows, the best in hindsight, recovery, aims, and the command."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from command import run
from hypothesis import given, settings
from hypothesis import strategies as st

from ocelad.lab.compare import METHODS, STREAMS, Method, compare
from ocelad.lab.compare.contestants import Fixed
from ocelad.lab.compare.point_streams import TableStream
from ocelad.lab.compare.run_comparison import FIRST_SEED
from ocelad.lab.compare.scoring import Scores
from ocelad.lab.compare.suite import FIRST_FRESH_SEED, HINDSIGHT, OPPONENTS, OURS, ROWS, Row, run_suite
from ocelad.lab.compare.suite import run_suite as running
from ocelad.lab.compare.suite.recovery import WATCHED, WITHIN, recovered
from ocelad.lab.compare.suite.suite_summary import HINDSIGHT_NAME, Outcome, SuiteResult, best_in_hindsight
from ocelad.lab.compare.summary import Comparison
from ocelad.lab.compare.trial import Record

NAMED = tuple(dict.fromkeys((OURS, *OPPONENTS)))


def little(seed=0, rounds=240):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)) * [1.0, 3.0, 3.0, 3.0]
    X[:, 0] += 3 * (np.arange(60) % 2)
    return TableStream("little", "", X, {"q": np.arange(60) % 2}, rounds=rounds)


def made_up(errors, found=None, *, stream=STREAMS["turned"], every=100, failed=(), phases=None):
    """A comparison of all methods of the suite: their k-NN errors, a row for each seed, in percent."""
    methods = (*(METHODS[name] for name in NAMED), *HINDSIGHT)
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


class TestRows:
    def test_the_eight_drawn_streams_are_turned_and_differ_as_they_say(self):
        drawn = {name: ROWS[name].stream for name in ("S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8")}
        assert len({stream.fingerprint() for stream in drawn.values()}) == 8
        examples = {name: stream._draw(0) for name, stream in drawn.items()}
        assert all(example.turned for example in examples.values())
        assert [len(example) for example in examples.values()] == [6000, 3000, 3000, 3000, 3000, 6000, 6000, 6000]
        assert [e.flipped for e in examples.values()] == [0, 0, 0, 0, 0, 0.1, 0, 0]
        assert [e.noise for e in examples.values()] == ["normal"] * 6 + ["t3", "normal"]
        assert [e.units for e in examples.values()] == [False] * 7 + [True]

    def test_switches_are_where_the_question_changes(self):
        for row in ROWS.values():
            if row.switches:
                blocks = row.stream.blocks(0, 100)
                changes = tuple(block.round + at - 1 for block in blocks for at in block.changes)
                assert changes == row.switches

    def test_the_grid_has_ten_comid_learners_and_no_method_is_twice(self):
        assert len({method.label for method in HINDSIGHT}) == 10
        assert {method.name for method in HINDSIGHT} == {"comid"}
        assert {method.values["loss"] for method in HINDSIGHT} == {"hinge", "logistic"}
        assert not {method.label for method in HINDSIGHT} & set(NAMED)

    def test_seeds_are_not_those_that_others_choose_or_judge_by(self):
        assert FIRST_FRESH_SEED >= 2 * FIRST_SEED


class TestHindsight:
    def test_it_is_the_one_of_the_lowest_mean_error_on_these_streams(self):
        stream = little()
        comparison = compare([OURS, *HINDSIGHT], stream, seeds=3, first_seed=5, every=60, n_jobs=1)
        means = {
            method.label: np.mean([record.measured("knn_error").mean() for record in comparison.records[method.label]])
            for method in HINDSIGHT
        }
        assert means[best_in_hindsight(comparison)] == min(means.values()) < max(means.values())

    @given(st.lists(st.integers(0, 1000), min_size=30, max_size=30), st.sets(st.integers(0, 9), max_size=9))
    @settings(max_examples=50, deadline=None)
    def test_whatever_the_errors_and_one_that_failed_comes_last(self, errors, failing):
        by_label = {m.label: [[e / 10] for e in errors[3 * at : 3 * at + 3]] for at, m in enumerate(HINDSIGHT)}
        failed = [(HINDSIGHT[at].label, 1) for at in failing]
        comparison = made_up({**by_label, "others": [[0.0]] * 3}, failed=failed)
        best = best_in_hindsight(comparison)
        whole = [m.label for at, m in enumerate(HINDSIGHT) if at not in failing]
        assert best in whole
        assert np.mean(by_label[best]) == pytest.approx(min(np.mean(by_label[label]) for label in whole))

    def test_clusters_found_are_those_of_the_same_learner(self):
        best = HINDSIGHT[3].label
        found = {best: False}
        outcome = Outcome(ROWS["S1"], made_up({best: [[1.0]] * 2, "others": [[2.0]] * 2}, found))
        assert outcome.hindsight == best
        assert outcome.mean(outcome.hindsight, "found").mean == 0.0
        assert outcome.methods == [*NAMED, best]
        assert [outcome.name_of(label) for label in outcome.methods] == [*NAMED, HINDSIGHT_NAME]


class TestRecovery:
    rounds = tuple(range(25, 2025, 25))
    phases = ("before",) * 40 + ("after",) * 40

    @given(st.lists(st.integers(0, 30), min_size=40, max_size=40))
    @settings(max_examples=200, deadline=None)
    def test_it_is_the_first_round_from_which_on_the_error_stays_near(self, after):
        errors = np.array([1.0] * 40 + [float(error) for error in after])
        near = [error <= np.mean(after[20:]) + WITHIN for error in after[:20]]
        expected = next((25 * (at + 1) for at in range(20) if all(near[at:])), None)
        assert recovered(self.rounds, self.phases, errors, 1000) == expected

    def test_what_comes_after_the_phase_and_what_was_before_do_not_matter(self):
        errors = np.full(80, 50.0)
        errors[40:44] = [30.0, 20.0, 3.0, 1.0]
        errors[44:60] = 1.0
        phases = ["before"] * 40 + ["after"] * 20 + ["later"] * 20
        assert recovered(self.rounds, phases, errors, 1000) == 75
        errors[58:60] = 90.0  # settled at much more, and by then there
        assert WATCHED == 500
        assert recovered(self.rounds, phases, errors, 1000) is None

    def test_it_is_of_the_mean_over_the_seeds(self):
        phases = ["A, static"] * 40 + ["B, moderate drift"] * 40 + ["A, slow drift"] * 160
        one, other = np.full(240, 1.0), np.full(240, 1.0)
        one[40:48], other[40:44] = 6.0, 20.0  # alone 225 and 125
        recovering = made_up({"others": [one, other]}, every=25, phases=phases)
        outcome = Outcome(replace(ROWS["S1"], switches=(1000,)), made_up({"others": [[1.0], [1.0]]}), recovering)
        assert outcome.recovery(OURS) == (225,)
        aim = outcome.aims[-1]
        assert (aim.what, aim.value, aim.met) == ("recovery after round 1000", 225.0, False)


class TestAims:
    def aims(self, row, **more):
        return {aim.what: aim for aim in Outcome(ROWS[row], made_up(**more)).aims}

    @pytest.mark.parametrize(("error", "met"), [(0.62, True), (0.63, False)])
    def test_an_error_at_most(self, error, met):
        aim = self.aims("S2", errors={OURS: [[error]] * 2, "others": [[5.0]] * 2})["error"]
        assert (aim.row, aim.wanted, aim.met) == ("S2", "at most 0.62", met)
        assert aim.value == pytest.approx(error)

    @pytest.mark.parametrize(("found", "met"), [(True, True), (False, False)])
    def test_clusters_found_at_least(self, found, met):
        aim = self.aims("S2", errors={"others": [[0.5]] * 2}, found={OURS: found})["P(NMI > 0.8)"]
        assert (aim.value, aim.wanted, aim.met) == (100.0 if found else 0.0, "at least 98.2", met)

    def test_both_measures_are_held_against_the_best_in_hindsight(self):
        best = HINDSIGHT[0].label
        errors = {OURS: [[1.0]] * 2, best: [[1.5]] * 2, "others": [[9.0]] * 2}
        error, found = "error, less the best COMID's", "P(NMI > 0.8), less the best COMID's"
        aims = self.aims("S3", errors=errors, found={best: False})
        assert aims[error].value == pytest.approx(-0.5)
        assert (aims[error].met, aims[found].met) == (True, True)
        aims = self.aims("S3", errors={**errors, OURS: [[1.5]] * 2})
        assert (aims[error].met, aims[found].met) == (False, False)  # alike is not better
        assert aims[found].value == 0.0

    @pytest.mark.parametrize(("ours", "met"), [(3.19, True), (3.21, False), (1.0, True)])
    def test_on_real_data_it_does_no_harm(self, ours, met, monkeypatch):
        monkeypatch.setattr("ocelad.lab.compare.suite.suite_summary.OURS", "cbce")
        errors = {"cbce": [[ours]] * 2, "rice": [[3.0]] * 2, "euclidean": [[8.0]] * 2, "others": [[0.1]] * 2}
        comparison = replace(made_up(errors), reference="cbce")
        outcome = Outcome(ROWS["wine"], comparison)
        (aim,) = outcome.aims
        assert (aim.wanted, aim.met) == ("at most 0.2 more", met)
        assert aim.value == pytest.approx(ours - 3.0)
        assert outcome.beats_both == (ours < 3.0)
        better = Outcome(ROWS["digits"], replace(made_up({**errors, "cbce": [[1.0]] * 2}), reference="cbce"))
        worse = Outcome(ROWS["bananas"], replace(made_up({**errors, "cbce": [[4.0]] * 2}), reference="cbce"))
        of_all = [SuiteResult(outcomes, {}).aims[-1] for outcomes in ((better, worse), (better, worse, worse))]
        assert [(aim.value, aim.met) for aim in of_all] == [(1, True), (1, False)]
        assert of_all[1].wanted == "at least half of 3"

    def test_where_ours_failed_nothing_is_met(self):
        errors = {OURS: [[0.1]] * 2, "others": [[5.0]] * 2}
        assert self.aims("S2", errors=errors)["error"].met
        assert not self.aims("S2", errors=errors, failed=[(OURS, 1)])["error"].met

    def test_differences_are_paired_and_of_the_opponent_less_ours(self):
        outcome = Outcome(ROWS["S2"], made_up({OURS: [[1.0], [2.0], [6.0]], "others": [[2.0], [4.0], [7.0]]}))
        more = outcome.more("euclidean")
        assert (more.mean, more.error, more.n) == (pytest.approx(4 / 3), pytest.approx(1 / 3), 3)
        assert outcome.more(OURS).mean == 0.0


class TestRun:
    @pytest.fixture
    def rows(self, monkeypatch):
        def missing():
            raise FileNotFoundError("it is not here")

        rows = {
            "one": Row("one", little, is_real=True),
            "gone": Row("gone", missing, is_real=True),
            "two": Row("two", lambda: little(seed=1), is_real=True),
        }
        monkeypatch.setattr(running, "ROWS", rows)
        monkeypatch.setattr(running, "HINDSIGHT", HINDSIGHT[:2])
        monkeypatch.setattr("ocelad.lab.compare.suite.suite_summary.HINDSIGHT", HINDSIGHT[:2])
        return rows

    def test_rows_whose_data_are_missing_are_left_out_with_the_reason(self, rows):
        result = run_suite(list(rows), seeds=2, n_jobs=1)
        assert [outcome.row.name for outcome in result.outcomes] == ["one", "two"]
        assert result.skipped == {"gone": "it is not here"}
        assert result.seeds == (FIRST_FRESH_SEED, FIRST_FRESH_SEED + 1)
        assert all(outcome.comparison.reference == OURS for outcome in result.outcomes)
        content = json.loads(json.dumps(result.to_json()))
        assert [row["row"] for row in content["rows"]] == ["one", "two"]
        assert content["rows"][0]["methods"][0]["method"] == OURS
        with pytest.raises(ValueError, match=r"there is no row to run \(gone: it is not here\)"):
            run_suite(["gone"], seeds=1, n_jobs=1)

    def test_finished_trials_are_not_computed_again_and_a_restart_forgets_once(self, rows, tmp_path, monkeypatch):
        journal = tmp_path / "trials.jsonl"
        first = run_suite(["one", "two"], seeds=1, n_jobs=1, journal=journal)
        lines = journal.read_bytes().splitlines()
        run_suite(["one", "two"], seeds=1, n_jobs=1, journal=journal, restart=True)
        assert len(journal.read_bytes().splitlines()) == len(lines) == 2 * (len(NAMED) + 2)
        monkeypatch.setattr("ocelad.lab.compare.run_comparison.run_trial", lambda *_: pytest.fail("it ran"))
        again = run_suite(["one", "two"], seeds=1, n_jobs=1, journal=journal)
        means = [[o.mean(label).mean for o in result.outcomes for label in o.methods] for result in (first, again)]
        assert means[0] == means[1]

    def test_recovery_is_measured_where_there_are_switches(self, rows, monkeypatch):
        from ocelad.evaluation.streams import DriftingClusters, Phase
        from ocelad.lab.compare.comparison_streams import DriftingStream

        phases = [Phase("A, static", "A", 0.0, 200), Phase("B, static", "B", 0.0, 300)]
        stream = DriftingStream("s", "", lambda seed: DriftingClusters(phases, n_points=60, n_features=6, seed=seed))
        monkeypatch.setitem(rows, "s", Row("s", lambda: stream, switches=(200,)))
        told = []
        result = run_suite(["s"], seeds=1, n_jobs=1, progress=lambda *metadata: told.append(metadata))
        (outcome,) = result.outcomes
        assert outcome.recovering.every == 25
        assert len(outcome.recovery(OURS)) == 1
        assert {words for words, _, _ in told} == {"s", "s, recovery"}

    def test_a_method_that_cannot_take_a_row_is_not_run_on_it(self, rows, monkeypatch):
        blind = Method("blind", "", Fixed, needs=frozenset({"truth"}))
        monkeypatch.setattr(running, "METHODS", {**METHODS, "cbce": blind})
        (outcome,) = run_suite(["one"], seeds=1, n_jobs=1).outcomes
        assert outcome.methods[:-1] == [name for name in NAMED if name != "cbce"]
        monkeypatch.setattr(running, "METHODS", {**METHODS, OURS: blind})
        with pytest.raises(ValueError, match="it needs the true metric"):
            run_suite(["one"], seeds=1, n_jobs=1)

    def test_unknown_rows_are_refused(self):
        with pytest.raises(ValueError, match="a row of the suite must be one of 'S1'"):
            run_suite(["S9"])


class TestCommand:
    command = ("compare", "--suite", "adaptivity", "--rows", "wine", "--seeds", "2", "--jobs", "1")

    def test_tables_a_picture_csv_and_json_come_of_it(self, tmp_path):
        told = run(*self.command, cwd=tmp_path)
        for words in ("best of 10 COMID", "error against euclidean and rice", "us/pair, wine", "aims", "95 %"):
            assert words in told.stdout, words
        n_trials = 2 * (len(NAMED) + len(HINDSIGHT))
        assert f"wine: {n_trials} of {n_trials} trials" in told.stderr
        folder = tmp_path / "ocelad-compare"
        assert (folder / "suite.png").read_bytes().startswith(b"\x89PNG")
        content = json.loads((folder / "suite.json").read_text())
        assert content == json.loads(run(*self.command, "--json", cwd=tmp_path).stdout)
        assert content["seeds"] == [3000, 3001]
        lines = list(csv.DictReader((folder / "suite.csv").read_text().splitlines()))
        (row,) = content["rows"]
        assert {line["called"] for line in lines} == {*NAMED, "best of 10 COMID"}
        for method in row["methods"]:
            (line,) = [line for line in lines if (line["method"], line["measure"]) == (method["method"], "knn_error")]
            assert float(line["mean"]) == method["error"]["mean"]
            assert float(line["more_than_ours"]) == method["error"]["more_than_ours"]["mean"]
            assert f"{method['error']['mean']:.2f} / {method['found']['mean']:.1f}" in told.stdout

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("--suite", "adaptivity", "rice"), "a suite has its own methods; leave rice away, or --suite"),
            (("--suite", "adaptivity", "--tune", "3"), "--tune is not for a suite"),
            (("--suite", "adaptivity", "--stream", "static"), "--stream is not for a suite"),
            (("--suite", "adaptivity", "--class", "c"), "--class is not for a suite"),
            (("--suite", "adaptivity", "--rows", "S1,S9"), "the suite has no row 'S9'; accepted: S1, S2"),
            (("--suite", "speed"), "adaptivity"),
            (("rice", "--rows", "S1"), "--rows names rows of a suite: give --suite, too"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, arguments, sentence, tmp_path):
        assert sentence in run("compare", *arguments, cwd=tmp_path, code=2).stderr

    def test_a_row_alone_whose_data_are_missing_is_told_of(self, tmp_path, monkeypatch):
        monkeypatch.setenv("OCELAD_DATA", str(tmp_path / "nowhere"))
        command = ("compare", "--suite", "adaptivity", "--rows", "reviews", "--seeds", "1")
        assert "there is no row to run (reviews: there is no folder" in run(*command, cwd=tmp_path, code=1).stderr

    def test_an_interrupt_says_how_to_go_on(self, tmp_path, monkeypatch):
        def interrupted(*rows, **settings):
            raise KeyboardInterrupt

        monkeypatch.setattr("ocelad.lab.compare.suite.run_suite", interrupted)
        told = run(*self.command, cwd=tmp_path, code=130).stderr
        assert "trials.jsonl: run the same command again to go on" in told

    def test_first_seeds_of_plain_comparisons_stay(self, tmp_path):
        told = run(
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
        assert json.loads(told.stdout)["seeds"] == [FIRST_SEED]
