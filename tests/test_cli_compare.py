"""The command ocelad compare."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from command import kill_four_times, run

from ocelad.lab.compare import METHODS, STREAMS, few_answers
from ocelad.lab.compare.suite import BENCHMARKS


def write_pairs(path, n_pairs=600, n=3, seed=0, scale=1.0):
    """Write pairs that are similar if their first features are, with another unit of the last one."""
    X, Z = np.random.default_rng(seed).normal(size=(2, n_pairs, n))
    y = np.where(abs(X[:, 0] - Z[:, 0]) < 1, 1, -1)
    X[:, -1], Z[:, -1] = scale * X[:, -1], scale * Z[:, -1]
    header = ",".join([*(f"x{i}" for i in range(n)), *(f"z{i}" for i in range(n)), "y"])
    np.savetxt(path, np.column_stack([X, Z, y]), delimiter=",", header=header, comments="", fmt="%.6g")
    return ("--x", "x*", "--z", "z*", "--label", "y")


def test_the_list_names_every_method_and_stream():
    printed = run("compare", "--list").stdout
    assert all(name in printed for name in (*METHODS, *STREAMS, *BENCHMARKS, *few_answers.BENCHMARKS))
    content = json.loads(run("compare", "--list", "--json").stdout)
    assert content["methods"].keys() == METHODS.keys()
    assert content["streams"].keys() == STREAMS.keys()
    assert content["suites"] == {"adaptivity": list(BENCHMARKS), "few-answers": list(few_answers.BENCHMARKS)}


def test_prints_tables_and_writes_a_picture_and_json(tmp_path):
    command = (
        "compare",
        "comid",
        "truth",
        "euclidean",
        "--stream",
        "static",
        "--seeds",
        "2",
        "--every",
        "500",
        "--jobs",
        "1",
    )
    printed = run(*command, cwd=tmp_path)
    lines = printed.stdout.splitlines()
    order = [line.split()[0] for line in lines if line.strip().startswith(("comid", "truth", "euclidean"))]
    assert order[:3] == ["truth", "comid", "euclidean"]
    assert "Where comid does not win" in printed.stdout
    assert "truth *" in printed.stdout
    assert (tmp_path / "ocelad-compare" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads((tmp_path / "ocelad-compare" / "comparison.json").read_text())
    assert content == json.loads(run(*command, "--json", cwd=tmp_path).stdout)
    assert content["seeds"] == [1000, 1001]
    assert "comparing: 6 of 6 trials" in printed.stderr


def test_a_file_of_pairs_is_a_stream(tmp_path):
    columns = write_pairs(tmp_path / "pairs.csv")
    printed = run("compare", "rice", "euclidean", "--stream", "pairs.csv", *columns, "--jobs", "1", cwd=tmp_path).stdout
    assert "wrongly ranked pairs in %" in printed
    assert "one stream" in printed
    assert "over 6 consecutive segments of the stream" in printed


def test_items_with_classes_give_the_knn_error(tmp_path):
    rng = np.random.default_rng(0)
    points, group = rng.normal(size=(40, 3)), rng.integers(2, size=40)
    points[:, 0] += 4 * group
    rows = [
        f"{i},{','.join(f'{v:.4f}' for v in p)},{'ab'[g]}" for i, (p, g) in enumerate(zip(points, group, strict=True))
    ]
    (tmp_path / "items.csv").write_text("\n".join(["id,f0,f1,f2,kind", *rows]))
    pairs = rng.integers(40, size=(300, 2))
    rows = [f"{a},{b},{int(group[a] == group[b])}" for a, b in pairs]
    (tmp_path / "pairs.csv").write_text("\n".join(["id_a,id_b,similar", *rows]))
    options = ("--items", "items.csv", "--class", "kind", "--jobs", "1")
    printed = run("compare", "rice", "euclidean", "--stream", "pairs.csv", *options, cwd=tmp_path).stdout
    assert "5-NN error in %" in printed


def test_bad_rows_can_be_skipped_and_are_reported(tmp_path):
    columns = write_pairs(tmp_path / "pairs.csv")
    with open(tmp_path / "pairs.csv", "a") as file:
        file.write("a,b,c,d,e,f,1\n")
    command = ("compare", "euclidean", "--stream", "pairs.csv", *columns, "--jobs", "1")
    assert "line 602" in run(*command, cwd=tmp_path, code=1).stderr
    assert "1 row was skipped" in run(*command, "--on-error", "skip", cwd=tmp_path, code=3).stderr


def test_groups_stand_for_the_methods_that_can_run_on_the_stream(tmp_path):
    columns = write_pairs(tmp_path / "pairs.csv", 300)
    printed = run("compare", "fixed", "--stream", "pairs.csv", *columns, "--jobs", "1", cwd=tmp_path)
    assert "Omitted, cannot run on the stream 'pairs.csv': truth" in printed.stderr
    assert "euclidean" in printed.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("saoll",), 2, "there is no method 'saoll' (did you mean 'saol'?); accepted: adaptive, curved, rice,"),
        (
            ("riec", "comid", "comd"),
            2,
            "there is no method 'riec' (did you mean 'rice'?), and no method 'comd' (did you mean 'comid'?); accepted",
        ),
        (("rice,saol",), 2, "there is no method 'rice,saol' (on the command line, separate names by spaces)"),
        (("comid:speed=1",), 2, "comid has no setting 'speed'"),
        (("rice", "lego", "--stream", "words"), 2, "lego: it does not accept sparse points"),
        (
            ("rice", "--stream", "nowhere.csv"),
            2,
            "'nowhere.csv' is neither a file nor a built-in stream; accepted: paper, static",
        ),
        (("rice", "--stream", "papr", "--seeds", "1"), 2, "'papr' is neither a file nor a built-in stream"),
        (("rice", "--seeds", "0"), 2, "--seeds"),
        (("rice", "--every", "100000"), 2, "every is 100000; accepted: at most 6000, the length of the stream 'paper'"),
        (("comid:loss=foo",), 2, "comid:loss=foo: loss must be one of"),
        (("comid:step_size=abc",), 2, "comid:step_size=abc: step_size must be a finite number"),
        (("rice", "--on-error", "skip"), 2, "--on-error describes a file of pairs; 'paper' is a built-in stream"),
        (("rice", "--class", "kind"), 2, "--class describes a file of pairs"),
        (("rice", "--reference", "comid"), 2, "the reference 'comid' is not compared"),
        (("rice", "--tune", "3", "--first-seed", "1"), 2, "tuning uses the seeds 0 to 2"),
        (("rice", "--jobs", "-3"), 1, "n_jobs"),
    ],
)
def test_wrong_usage_is_reported_in_a_sentence(tmp_path, arguments, code, message):
    assert message in run("compare", *arguments, cwd=tmp_path, code=code).stderr


def test_unsuitable_files_are_reported(tmp_path):
    columns = write_pairs(tmp_path / "pairs.csv")
    for arguments, code, message in [
        (("lmnn", "--stream", "pairs.csv", *columns), 2, "lmnn: it requires the classes of the points"),
        (("rice", "--stream", "pairs.csv", *columns, "--seeds", "3"), 2, "a file of pairs is one stream: omit --seeds"),
        (("rice", "--stream", "pairs.csv", *columns, "--class", "kind"), 2, "give --items FILE, too"),
    ]:
        assert message in run("compare", *arguments, cwd=tmp_path, code=code).stderr


def test_a_note_names_batch_methods_that_are_never_fitted(tmp_path):
    columns = write_pairs(tmp_path / "pairs.csv", n_pairs=150)
    command = (
        "compare",
        "euclidean",
        "standardized",
        "--stream",
        "pairs.csv",
        *columns,
        "--every",
        "50",
        "--jobs",
        "1",
    )
    assert "pairs.csv has 150 pairs, few for standardized: a batch" in run(*command, cwd=tmp_path).stderr
    fitted = run(*command[:2], "standardized:every=100", *command[3:], "-o", "fitted", cwd=tmp_path)
    assert "few for" not in fitted.stderr


def test_standardized_is_compared_beside_euclidean_on_a_file(tmp_path):
    columns = write_pairs(tmp_path / "pairs.csv", n_pairs=300, scale=100.0)
    command = ("compare", "comid", "euclidean", "--stream", "pairs.csv", *columns, "--jobs", "1")
    printed = run(*command, "--json", cwd=tmp_path)
    assert "few for" not in printed.stderr
    scores = {each["method"]: each["ranking_error"]["mean"] for each in json.loads(printed.stdout)["methods"]}
    assert list(scores) == ["comid", "euclidean", "standardized:every=60"]
    assert scores["standardized:every=60"] < scores["euclidean"] - 5
    # A long stream is compared as before, and so is a built-in one, whose features have one unit.
    write_pairs(tmp_path / "long.csv", n_pairs=500)
    printed = run("compare", "euclidean", "--stream", "long.csv", *command[5:], "-o", "long", "--json", cwd=tmp_path)
    assert [each["method"] for each in json.loads(printed.stdout)["methods"]] == ["euclidean", "standardized"]
    assert "evaluated every" not in printed.stderr
    printed = run(
        "compare", "euclidean", "--stream", "static", "--seeds", "1", "-o", "static", "--jobs", "1", "--json",
        "--every", "1500", cwd=tmp_path,
    )  # fmt: skip
    assert [each["method"] for each in json.loads(printed.stdout)["methods"]] == ["euclidean"]


def test_a_file_of_few_pairs_is_evaluated_more_often(tmp_path):
    columns = write_pairs(tmp_path / "pairs.csv", n_pairs=100)
    command = ("compare", "euclidean", "--stream", "pairs.csv", *columns, "--jobs", "1")
    printed = run(*command, cwd=tmp_path)
    assert "Note: pairs.csv has 100 pairs: methods are evaluated every 20 pairs." in printed.stderr
    assert re.search(r"euclidean .* \d+\.\d\d ±", printed.stdout)
    assert "evaluated every" not in run(*command, "--every", "50", "-o", "other", cwd=tmp_path).stderr
    tuned = run("compare", "comid", *command[2:], "--tune", "2", "-o", "tuned", cwd=tmp_path)
    assert "methods are evaluated every 12 pairs." in tuned.stderr


def test_one_answer_only_is_compared_by_the_items_if_there_are_any(tmp_path):
    rows = "".join(f"{i},{(i + 2) % 40},1\n" for i in range(40))
    (tmp_path / "pairs.csv").write_text(f"id_a,id_b,y\n{rows}")
    (tmp_path / "items.csv").write_text("id,f,kind\n" + "".join(f"{i},{i % 7},{'ab'[i % 2]}\n" for i in range(40)))
    command = ("compare", "rice", "euclidean", "--stream", "pairs.csv", "--items", "items.csv", "--every", "20")
    printed = run(*command, "--features", "f", cwd=tmp_path)
    assert "No pairs can be ranked, so that nothing is compared" in printed.stderr
    assert printed.stdout == ""
    printed = run(*command, "--class", "kind", "--jobs", "1", cwd=tmp_path)
    assert "No pairs can be ranked; methods are compared by the items" in printed.stderr
    assert "5-NN error in %" in printed.stdout
    assert "rank" not in printed.stdout
    assert "nan" not in printed.stdout.lower()


def test_the_default_methods_of_a_file_can_run_on_it(tmp_path):
    columns = write_pairs(tmp_path / "pairs.csv")
    command = ("compare", "--stream", "pairs.csv", *columns, "--jobs", "1", "--json")
    methods = [each["method"] for each in json.loads(run(*command, cwd=tmp_path).stdout)["methods"]]
    assert methods[:2] == ["adaptive", "rice"]
    assert {"euclidean", "standardized"} <= set(methods)
    assert not {"truth", "comid-oracle"} & set(methods)
    for chosen in (["euclidean", "standardized"], ["comid"]):  # nothing is added
        printed = run("compare", *chosen, *command[1:], "-o", "-".join(chosen), cwd=tmp_path)
        assert [each["method"] for each in json.loads(printed.stdout)["methods"]] == chosen


def test_one_stream_cannot_decide_who_wins(tmp_path):
    command = ("compare", "euclidean", "truth", "--stream", "static", "--seeds", "1", "--every", "1500", "--jobs", "1")
    printed = run(*command, cwd=tmp_path).stdout
    assert "wins everywhere" not in printed
    assert "truth * ? -" in printed
    assert "static, one stream" in printed


def test_a_failed_restart_deletes_nothing(tmp_path):
    command = ("compare", "euclidean", "--stream", "static", "--seeds", "2", "--every", "1500", "--jobs", "1")
    run(*command, cwd=tmp_path)
    journal = tmp_path / "ocelad-compare" / "trials.jsonl"
    before = journal.read_bytes()
    run(*command, "--restart", "--reference", "foo", cwd=tmp_path, code=2)
    assert journal.read_bytes() == before
    assert "comparing: 0 of 2" in run(*command, "--restart", cwd=tmp_path).stderr
    assert "comparing: 2 of 2" in run(*command, cwd=tmp_path).stderr.splitlines()[0]


def test_every_score_is_in_a_table(tmp_path):
    command = ("compare", "euclidean", "comid:step_size=1e-3,loss=hinge", "--stream", "static", "--seeds", "2")
    run(*command, "--every", "1000", "--jobs", "1", cwd=tmp_path)
    with open(tmp_path / "ocelad-compare" / "scores.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 3
    content = json.loads((tmp_path / "ocelad-compare" / "comparison.json").read_text())
    mean = 100 * np.mean([float(row["knn_error"]) for row in rows if row["method"] == "euclidean"])
    assert mean == pytest.approx(content["methods"][0]["knn_error"]["mean"])


def test_parts_of_a_file_have_the_same_scores_in_the_table_and_in_the_csv_file(tmp_path):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(80, 4)).tolist()
    rows = [f"{','.join(map(str, point))},{i % 2}\n" for i, point in enumerate(points)]
    (tmp_path / "pairs.csv").write_text("x_a,x_b,z_a,z_b,same\n" + "".join(rows))
    printed = run("compare", "euclidean", "--stream", "pairs.csv", "--every", "20", "--jobs", "1", cwd=tmp_path).stdout
    assert "P1: 2/5; P2: 4/5; P3: 5/5 of the file. An evaluation ranks the pairs until the next one" in printed
    with open(tmp_path / "ocelad-compare" / "scores.csv", newline="") as file:
        scores = [row for row in csv.DictReader(file) if row["method"] == "euclidean" and row["ranking_error"]]
    assert [(row["round"], row["phase"]) for row in scores] == [("20", "2/5"), ("40", "4/5"), ("60", "5/5")]
    line = next(line for line in printed.splitlines() if line.strip().startswith("euclidean"))
    assert line.split()[1:4] == [f"{100 * float(row['ranking_error']):.2f}" for row in scores]


def test_tuned_settings_are_printed(tmp_path):
    command = (
        "compare",
        "comid",
        "--stream",
        "static",
        "--seeds",
        "1",
        "--tune",
        "2",
        "--tune-seeds",
        "1",
        "--every",
        "1500",
    )
    printed = run(*command, "--jobs", "1", cwd=tmp_path)
    assert "Tuned on other streams" in printed.stdout
    assert "step_size=" in printed.stdout
    assert "tuning: 2 of 2 trials" in printed.stderr


@pytest.mark.slow
def test_a_killed_comparison_continues_with_the_same_result(tmp_path):
    command = [sys.executable, "-m", "ocelad", "compare", "comid", "euclidean", "--seeds", "12", "--every", "200"]

    def result(folder):
        content = json.loads((tmp_path / folder / "comparison.json").read_text())
        for method in content["methods"]:
            del method["microseconds_per_pair"]
        return content

    subprocess.run([*command, "--output", "unbroken"], cwd=tmp_path, check=True, capture_output=True)
    journal = tmp_path / "killed" / "trials.jsonl"
    kill_four_times([*command, "--output", "killed"], journal, tmp_path)
    finished = len(journal.read_text().splitlines())
    assert finished > 0
    printed = subprocess.run([*command, "--output", "killed"], cwd=tmp_path, check=True, capture_output=True, text=True)
    first = printed.stderr.splitlines()[0]
    assert int(first.split()[1]) >= finished - 1, first  # one line may have been torn
    assert result("killed") == result("unbroken")
