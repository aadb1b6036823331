"""The command ocelad compare --suite few-answers."""

from __future__ import annotations

import csv
import json

import pytest
from command import run

from ocelad.lab.compare.few_answers import METHODS, RIVALS

LABELS = ["adaptive", "curved", *(method.label for method in RIVALS), "lego"]


@pytest.fixture(autouse=True)
def one_split(monkeypatch):
    """Split the small data sets once, to save time."""
    from dataclasses import replace

    from ocelad.lab.compare.few_answers import few_answers_runner

    known = few_answers_runner.ANSWER_BENCHMARKS
    single = {name: replace(benchmark, n_splits=1) for name, benchmark in known.items()}
    monkeypatch.setattr(few_answers_runner, "ANSWER_BENCHMARKS", single)


class TestCommand:
    command = (
        *("compare", "lego", "--suite", "few-answers", "--benchmarks", "iris", "--seeds", "2"),
        *("--first-seed", "0", "--answers", "25", "--jobs", "1"),
    )

    def test_it_writes_tables_a_picture_csv_and_json(self, tmp_path):
        result = run(*self.command, cwd=tmp_path)
        for words in (
            "k-NN error, adaptive minus euclidean",
            "ranking error, adaptive minus euclidean",
            "kissme:window=512",
            "recalibration slope",
            "Missed targets",
            "of 4 cells the log loss of adaptive is no worse than that of logistic",
            "targets are missed",
        ):
            assert words in result.stdout, words
        n_trials = 2 * len(LABELS)
        assert f"iris/balanced: {n_trials} of {n_trials} trials" in result.stderr
        folder = tmp_path / "ocelad-compare"
        assert (folder / "suite.png").read_bytes().startswith(b"\x89PNG")
        content = json.loads((folder / "suite.json").read_text())
        assert content == json.loads(run(*self.command, "--json", cwd=tmp_path).stdout)
        assert (content["seeds"], content["answers"]) == ([0, 1], [10, 20])
        assert content["methods"]["kissme:window=128"]["window"] == 128
        lines = list(csv.DictReader((folder / "suite.csv").read_text().splitlines()))
        assert {line["benchmark"] for line in lines} == {"iris/natural", "iris/balanced"}
        for method in content["benchmarks"][1]["methods"]:
            for cell in method.get("knn_error", ()):
                keys = "iris/balanced", method["method"], str(cell["answers"]), "knn_error"
                (line,) = [x for x in lines if (x["benchmark"], x["method"], x["answers"], x["measure"]) == keys]
                assert float(line["mean"]) == cell["mean"]
                assert float(line["difference"]) == cell["difference"]["mean"]
        assert {line["method"] for line in lines if line["measure"] == "knn_error"} == {*LABELS} - {"logistic"}

    def test_one_seed_cannot_miss_a_mean(self, tmp_path):
        result = run(*self.command[:7], "1", *self.command[8:], cwd=tmp_path)
        assert "One seed has no confidence bound" in result.stdout

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (("--suite", "few-answers", "--benchmarks", "wines"), 2, "the suite has no benchmark 'wines'; accepted:"),
            (("--suite", "few-answers", "--answers", "5"), 2, "5 is not in the range 10<=x<=12000"),
            (("--suite", "few-answers", "--stream", "static"), 2, "--stream cannot be used with --suite"),
            (("--suite", "few-answers", "legoo"), 2, "there is no method 'legoo' (did you mean 'lego'?)"),
            (("rice", "--answers", "100"), 2, "--answers belongs to --suite few-answers: give that, too"),
        ],
    )
    def test_contradictory_options_are_rejected(self, arguments, code, message, tmp_path):
        printed = run("compare", *arguments, cwd=tmp_path, code=code).stderr
        assert message in printed

    def test_missing_data_are_reported(self, tmp_path, monkeypatch):
        monkeypatch.delenv("OCELAD_DATA", raising=False)
        command = ("compare", "--suite", "few-answers", "--benchmarks", "reviews-300-type", "--seeds", "1")
        printed = run(*command, cwd=tmp_path, code=1).stderr
        assert "there is no benchmark to run (reviews-300-type/natural: OCELAD_DATA is not set" in printed

    def test_an_interrupt_says_how_to_resume(self, tmp_path, monkeypatch):
        def interrupted(*benchmarks, **settings):
            raise KeyboardInterrupt

        monkeypatch.setattr("ocelad.lab.compare.few_answers.run_few_answers", interrupted)
        assert "run the same command again" in run(*self.command, cwd=tmp_path, code=130).stderr

    def test_the_logistic_regression_is_no_method_of_a_plain_comparison(self, tmp_path):
        assert "logistic" in METHODS
        printed = run("compare", "logistic", "--stream", "static", cwd=tmp_path, code=2).stderr
        assert "there is no method 'logistic'" in printed
