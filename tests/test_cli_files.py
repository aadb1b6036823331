"""The commands for files and saved trackers, run as a user or a script would run them."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from importlib import import_module
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from command import run
from PIL import Image
from pyarrow import ipc, parquet
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from ocelad import LabelMetricTracker, Metric, MetricTracker, Rice, TripletTracker
from ocelad.adaptive.expert_names import describe_expert
from ocelad.cli.described_items import read_points_of_pairs
from ocelad.cli.resuming import resume_command, stop_on_signal
from ocelad.estimators.file_tracker import FileTracker
from ocelad.estimators.saved_metric import load_metric
from ocelad.evaluation.scores import knn_error
from ocelad.io import open_comparisons, open_output

FEATURES = "tempo,loudness,length"
COMMAND = [sys.executable, "-m", "ocelad"]
track = import_module("ocelad.cli.track")  # the package has the command of this name
inspect = import_module("ocelad.cli.inspect")


def some_items(count=150, seed=0):
    rng = np.random.default_rng(seed)
    genre = rng.choice(["blues", "jazz"], size=count)
    X = rng.normal(size=(count, 3))
    X[:, 0] += np.where(genre == "jazz", 3.0, -3.0)
    return X.round(4), genre


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Create items, comparisons of their ids, the same comparisons with both points per row, and trackers of them."""
    folder = tmp_path_factory.mktemp("files")
    X, genre = some_items()
    rng = np.random.default_rng(1)
    at = rng.integers(0, 150, size=(600, 2))
    with open(folder / "items.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "tempo", "loudness", "length", "genre"])
        rows.writerows([f"song {i}", *X[i], genre[i]] for i in range(150))
    for name, pairs in (("answers", at[:400]), ("held_out", at[400:])):
        with open(folder / f"{name}.csv", "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["id_a", "id_b", "same"])
            rows.writerows([f"song {a}", f"song {b}", "yes" if genre[a] == genre[b] else "no"] for a, b in pairs)
    columns = {f"{side}_{name}": X[at[:400, k], j] for k, side in enumerate("xz") for j, name in enumerate("abc")}
    columns["similar"] = genre[at[:400, 0]] == genre[at[:400, 1]]
    table = pa.table(columns)
    parquet.write_table(table, folder / "pairs.parquet")
    with ipc.new_file(str(folder / "pairs.arrow"), table.schema) as file:
        file.write_table(table)
    lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    (folder / "pairs.jsonl").write_text(lines)
    with gzip.open(folder / "pairs.jsonl.gz", "wt") as file:
        file.write(lines)
    options = ["--items", "items.csv", "--features", FEATURES]
    run("track", "answers.csv", *options, "--method", "rice", "--step-size", "0.01", "-o", "songs.tracker", cwd=folder)
    run("track", "answers.csv", *options, "-o", "adaptive.tracker", cwd=folder)
    return folder


def read_pairs(folder):
    table = parquet.read_table(folder / "pairs.parquet").to_pandas()
    pairs = table.drop(columns="similar").to_numpy().reshape(-1, 2, 3)
    return pairs, np.where(table.similar, 1, -1)


@pytest.mark.parametrize("name", ["pairs.parquet", "pairs.arrow", "pairs.jsonl", "pairs.jsonl.gz", "-"])
def test_every_format_gives_the_same_tracker(folder, tmp_path, name):
    output = tmp_path / "tracker"
    given = (folder / "pairs.jsonl").read_text() if name == "-" else None
    source = name if name == "-" else folder / name
    run(
        "track",
        source,
        "-o",
        output,
        "--method",
        "rice",
        "--step-size",
        "0.01",
        *(["--format", "jsonl"] if given else []),
        input=given,
    )
    tracker = MetricTracker.load(output)
    assert tracker.metric_ == MetricTracker(method=Rice(step_size=0.01)).fit(*read_pairs(folder)).metric_
    assert tracker.feature_names_in_.tolist() == ["a", "b", "c"]


def test_items_and_answers(folder):
    tracker = MetricTracker.load(folder / "songs.tracker")
    assert tracker.metric_ == MetricTracker(method=Rice(step_size=0.01)).fit(*read_pairs(folder)).metric_
    assert tracker.feature_names_in_.tolist() == ["tempo", "loudness", "length"]


@pytest.mark.parametrize(("option", "curved"), [([], True), (["--curved"], True), (["--linear"], False)])
def test_items_are_known_before_the_first_pair(folder, tmp_path, option, curved):
    """The default is curved; --items gives the tracker all items, not only those of the answers."""
    options = ["--items", "items.csv", "--features", FEATURES, "--quiet", "--no-transitive", *option]
    run("track", "answers.csv", *options, "-o", tmp_path / "tracker", cwd=folder)
    tracker, (pairs, y), (X, _) = MetricTracker.load(tmp_path / "tracker"), read_pairs(folder), some_items()
    assert tracker.curved is curved
    assert tracker.metric_ == MetricTracker(curved=curved).fit(pairs, y, items=X).metric_
    assert tracker.metric_ != MetricTracker(curved=curved).fit(pairs, y).metric_
    run("track", "answers.csv", *options, "-o", tmp_path / "tracker", "--resume", cwd=folder)
    assert MetricTracker.load(tmp_path / "tracker").metric_ == tracker.metric_


def test_the_report_of_track(folder, tmp_path):
    result = run("track", folder / "pairs.parquet", "--method", "rice", "--step-size", "0.01", cwd=tmp_path)
    assert "pairs up to" in result.stdout
    assert "drift per 1000" in result.stdout
    assert "400 pairs of 3 features" in result.stdout
    assert "Saved: pairs.tracker" in result.stdout
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", result.stdout), "control characters"
    note = run("track", folder / "pairs.parquet", "--restart", "--method", "rice", "--set", "max_norm=2", cwd=tmp_path)
    assert "Note:" not in note.stderr, "pairs of squared length near 40 need no other step size"


def test_an_unsuitable_step_size_is_noted(folder, tmp_path):
    large = parquet.read_table(folder / "pairs.parquet").to_pandas()
    large.iloc[:, :6] *= 100
    large.to_parquet(tmp_path / "large.parquet")
    stderr = run("track", "large.parquet", "--method", "rice", cwd=tmp_path).stderr
    assert "the default step size suits about 40: the learned metric may be poor" in stderr
    assert (
        "Note"
        not in run(
            "track", "large.parquet", "--restart", "--method", "rice", "--step-size", "1e-9", cwd=tmp_path
        ).stderr
    )


def test_resume_restart_and_neither(folder, tmp_path):
    source = folder / "pairs.parquet"
    run("track", source, "--method", "rice", "--step-size", "0.01", "--quiet", cwd=tmp_path)
    before = (tmp_path / "pairs.tracker").read_bytes()
    refused = run("track", source, cwd=tmp_path, code=2)
    assert "'pairs.tracker' exists; --resume continues from it, --restart replaces it" in refused.stderr
    again = run("track", source, "--resume", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["pairs"] == 400
    assert (tmp_path / "pairs.tracker").read_bytes() == before
    other = run("track", source, "--resume", "--method", "rice", "--step-size", "0.5", cwd=tmp_path, code=2)
    assert "was started with step_size 0.01, not 0.5" in other.stderr
    run("track", source, "--restart", "--method", "rice", "--step-size", "0.5", "--quiet", cwd=tmp_path)
    assert MetricTracker.load(tmp_path / "pairs.tracker").method.step_size == 0.5


BAD_TRACKS = [
    (["missing.csv"], 1, "missing.csv"),
    (["answers.csv"], 1, "columns"),
    (["answers.csv", "--items", "items.csv", "--features", "tempo,genre"], 1, "column 'genre' holds 'jazz'"),
    (["answers.csv", "--items", "items.csv", "--features", FEATURES, "--label", "verdict"], 1, "'verdict'"),
    (["answers.csv", "--items", "items.csv", "--id", "song"], 1, "'song'"),
    (
        ["pairs.parquet", "--step-size", "0.5"],
        2,
        "step_size is a setting of --method rice, but method is 'adaptive'; set --method rice or omit step_size",
    ),
    (["pairs.parquet", "--method", "rice", "--step-size", "-1"], 2, "step_size must be a finite number above 0"),
    (
        ["pairs.parquet", "--set", "method=rice", "--set", "step_size=abc"],
        2,
        "step_size must be a finite number above 0",
    ),
    (["pairs.jsonl", "-o", "pairs.jsonl", "--restart"], 2, "'pairs.jsonl' is an input file"),
    (["answers.csv", "--items", "items.csv", "-o", "items.csv", "--restart"], 2, "'items.csv' is an input file"),
    (["pairs.jsonl", "-o", "items.csv", "--restart"], 2, "'items.csv' is not a saved tracker"),
    (["pairs.jsonl", "--on-error", "skip", "--skipped", "items.csv"], 1, "items.csv exists and does not hold skipped"),
    (["-", "--format", "csv", "-o", "new", "--on-error", "skip"], 1, "--skipped"),
    (
        ["pairs.parquet", "--curved", "--method", "rice"],
        2,
        "--curved needs the method adaptive; omit --curved, or omit --method",
    ),
    (["pairs.parquet", "--set", "speed=3"], 2, "is not NAME=VALUE with one of"),
    (["pairs.parquet", "--weight", "w"], 1, "pairs.parquet has no column 'w' (--weight); it has 'x_a'"),
    (["pairs.parquet", "--weight", "x_a", "--method", "rice"], 2, "--weight needs the method adaptive"),
    (["pairs.parquet", "--weight", "similar", "--label", "similar"], 1, "'similar' (--weight) has another role, too"),
    (["pairs.parquet", "--set", "loss"], 2, "is not NAME=VALUE"),
    (["pairs.parquet", "--loss", "square"], 2, "'square' is not one of"),
    (["pairs.parquet", "-o", "no/where.tracker"], 2, "the folder 'no' does not exist"),
    (["pairs.parquet", "--resume", "--restart"], 2, "--resume and --restart exclude each other"),
    (["pairs.parquet", "--format", "csv"], 1, "pairs.parquet"),
    (["-"], 2, "standard input has no name: give --output"),
    (["pairs.jsonl", "--resume", "-o", "items.csv"], 1, "items.csv is a CSV file; `ocelad track` expects a tracker"),
]


@pytest.mark.parametrize(("arguments", "code", "sentence"), BAD_TRACKS)
def test_wrong_usage_gives_a_clear_error(folder, arguments, code, sentence):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run("track", *arguments, cwd=folder, code=code, input="x_a,z_a,similar\n1,2,1\n")
    assert sentence in " ".join(result.stderr.split())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_bad_rows_stop_or_are_skipped(folder, tmp_path):
    lines = (folder / "pairs.jsonl").read_text().splitlines()
    lines[20] = "{rubbish"
    lines[30] = lines[30].replace("true", '"perhaps"').replace("false", '"perhaps"')
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    stopped = run("track", "pairs.jsonl", cwd=tmp_path, code=1)
    assert "line 21" in stopped.stderr
    result = run("track", "pairs.jsonl", "--restart", "--on-error", "skip", cwd=tmp_path, code=3)
    assert "2 rows were skipped; they are in pairs.jsonl.skipped.jsonl" in result.stderr
    skipped = [json.loads(line) for line in (tmp_path / "pairs.jsonl.skipped.jsonl").read_text().splitlines()]
    assert [row["line"] for row in skipped] == [21, 31]
    assert MetricTracker.load(tmp_path / "pairs.tracker").n_rounds_ == 398


def test_embed(folder, tmp_path):
    X, genre = some_items()
    expected = MetricTracker.load(folder / "songs.tracker").transform(X)
    printed = run("embed", "songs.tracker", "items.csv", "--label", "genre", cwd=folder).stdout
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert [row["id"] for row in rows] == [f"song {i}" for i in range(150)]
    assert [row["genre"] for row in rows] == genre.tolist()
    points = np.array([[float(row[f"dimension_{j}"]) for j in range(3)] for row in rows])
    np.testing.assert_array_equal(points, expected)
    for suffix, read in ((".parquet", parquet.read_table), (".arrow", lambda path: ipc.open_file(path).read_all())):
        output = tmp_path / f"points{suffix}"
        run("embed", "songs.tracker", "items.csv", "--dimensions", "2", "-o", output, cwd=folder)
        table = read(str(output)).to_pandas()
        metric = MetricTracker.load(folder / "songs.tracker").metric_
        np.testing.assert_allclose(table[["dimension_0", "dimension_1"]], X @ metric.projection(X, 2), rtol=1e-9)
        assert table.columns.tolist() == ["id", "dimension_0", "dimension_1"]
    run("embed", "songs.tracker", "items.csv", "-o", tmp_path / "points.jsonl", cwd=folder)
    first = json.loads((tmp_path / "points.jsonl").read_text().splitlines()[0])
    assert first == {"id": "song 0", **{f"dimension_{j}": expected[0, j] for j in range(3)}}
    assert "points.xls" in run("embed", "songs.tracker", "items.csv", "-o", "points.xls", cwd=folder, code=2).stderr


def test_distance(folder):
    tracker = MetricTracker.load(folder / "songs.tracker")
    pairs, _ = read_pairs(folder)
    printed = run(
        "distance", "songs.tracker", "answers.csv", "--items", "items.csv", "--features", FEATURES, cwd=folder
    ).stdout
    rows = list(csv.DictReader(io.StringIO(printed)))
    np.testing.assert_allclose([float(row["distance"]) for row in rows], tracker.pair_distance(pairs), rtol=1e-12)
    assert [int(row["similar"]) for row in rows] == tracker.predict(pairs).tolist()
    assert [int(row["line"]) for row in rows] == list(range(2, 402))
    wrong = run("distance", "songs.tracker", "pairs.parquet", cwd=folder, code=1)
    assert "pairs.parquet has the unknown features 'a', 'b', 'c' and lacks 'length'" in wrong.stderr


def test_distance_with_probabilities(folder, tmp_path):
    tracker = MetricTracker.load(folder / "adaptive.tracker")
    pairs, _ = read_pairs(folder)
    of_items = ["--items", "items.csv", "--features", FEATURES]
    printed = run("distance", "adaptive.tracker", "answers.csv", *of_items, cwd=folder).stdout
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert list(rows[0]) == ["line", "id_a", "id_b", "same", "distance", "probability", "similar"]
    given = list(csv.DictReader((folder / "answers.csv").read_text().splitlines()))
    assert [[row[name] for name in given[0]] for row in rows] == [list(row.values()) for row in given]
    np.testing.assert_allclose([float(row["distance"]) for row in rows], tracker.pair_distance(pairs), rtol=1e-12)
    probabilities = [float(row["probability"]) for row in rows]
    np.testing.assert_allclose(probabilities, tracker.predict_proba(pairs)[:, 1], rtol=1e-12)
    assert [int(row["similar"]) for row in rows] == tracker.predict(pairs).tolist()
    run("distance", "adaptive.tracker", "answers.csv", *of_items, "-o", tmp_path / "pairs.parquet", cwd=folder)
    assert parquet.read_table(tmp_path / "pairs.parquet")["probability"].to_pylist() == probabilities
    of_rice = run("distance", "songs.tracker", "answers.csv", *of_items, cwd=folder)
    assert "probability" not in of_rice.stdout
    assert 'no probabilities of "same"' in of_rice.stderr


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_distance_copies_the_columns_that_are_not_features(folder, tmp_path, suffix):
    table = parquet.read_table(folder / "pairs.parquet")
    table = table.append_column("pair", pa.array([f"00{i}" for i in range(400)]))
    table = table.append_column("price", pa.array([None, *range(399)]))
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(i) for i in range(400)]
    table = table.append_column("day", pa.array(days if suffix == ".parquet" else list(map(str, days))))
    table = table.append_column("tags", pa.array([["a", "b"]] * 400))
    table = table.append_column("distance", pa.array(["far"] * 400))  # the output has a column of this name
    if suffix == ".parquet":
        parquet.write_table(table, tmp_path / "pairs.parquet")
    elif suffix == ".csv":
        table.drop_columns("tags").to_pandas().to_csv(tmp_path / "pairs.csv", index=False)
    else:
        rows = [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]
        rows[0], rows[1] = rows[1], rows[0]  # now the second row lacks a price
        (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run("track", folder / "pairs.parquet", "-o", tmp_path / "t", "--quiet")
    run("distance", tmp_path / "t", tmp_path / f"pairs{suffix}", "-o", tmp_path / "out.jsonl")
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert list(found[0]) == ["line", "pair", "price", "day", "distance", "probability", "similar"]
    assert found[2]["day"] == "2026-01-03"
    assert [row["pair"] for row in found[2:]] == [f"00{i}" for i in range(2, 400)]
    prices = {row["pair"]: row["price"] for row in found}
    assert prices["000"] is None
    assert float(prices["007"]) == 6
    assert all(isinstance(row["distance"], float) for row in found)


def test_probabilities_of_other_estimators(folder, tmp_path):
    """Labelled points have probabilities of "same class"; triplets have none."""
    X, genre = some_items()
    pairs, _ = read_pairs(folder)
    labels = LabelMetricTracker(random_state=0).fit(X, genre)
    labels.save(tmp_path / "labels")
    LabelMetricTracker(MetricTracker(method="rice"), random_state=0).fit(X, genre).save(tmp_path / "rice_labels")
    LabelMetricTracker().fit(X[:1], genre[:1]).save(tmp_path / "no_pair")
    TripletTracker().fit(X.reshape(50, 3, 3)).save(tmp_path / "triplets")
    rows = list(csv.DictReader(io.StringIO(run("distance", tmp_path / "labels", folder / "pairs.parquet").stdout)))
    odds = labels.metric_.threshold - labels.metric_.squared_distance(pairs[:, 0], pairs[:, 1])
    np.testing.assert_allclose([float(row["probability"]) for row in rows], 1 / (1 + np.exp(-odds)), rtol=1e-9)
    for name in ("rice_labels", "no_pair", "triplets"):
        assert run("distance", tmp_path / name, folder / "pairs.parquet").stdout.startswith(
            '"line","distance","similar"'
        )


def test_weights_of_a_column(folder, tmp_path):
    pairs, y = read_pairs(folder)
    weights = np.random.default_rng(0).choice([0.1, 1.0, 5.0], size=400)
    table = parquet.read_table(folder / "pairs.parquet").append_column("w", pa.array(weights))
    parquet.write_table(table, tmp_path / "weighted.parquet")
    for options, curved in ((["--linear", "-o", "linear.tracker"], False), ([], True)):
        run("track", "weighted.parquet", "--weight", "w", "--quiet", *options, cwd=tmp_path)
        tracker = MetricTracker.load(tmp_path / ("weighted.tracker" if curved else "linear.tracker"))
        assert tracker.metric_ == MetricTracker(curved=curved).fit(pairs, y, sample_weight=weights).metric_
    assert tracker.feature_names_in_.tolist() == ["a", "b", "c"]
    other = run("track", "weighted.parquet", "--resume", cwd=tmp_path, code=1).stderr
    assert "was read with the columns" in other
    wrong = weights.copy()
    wrong[9] = -1.0
    table = table.set_column(table.num_columns - 1, "w", pa.array(wrong))
    parquet.write_table(table, tmp_path / "wrong.parquet")
    stderr = run("track", "wrong.parquet", "--weight", "w", cwd=tmp_path, code=1).stderr
    assert "wrong.parquet, row 10: column 'w' holds -1; accepted: weights from 0 to 10" in stderr
    run("track", "wrong.parquet", "--weight", "w", "--on-error", "skip", "--quiet", cwd=tmp_path, code=3)
    assert MetricTracker.load(tmp_path / "wrong.tracker").n_rounds_ == 399


def test_detected_changes_are_shown_with_their_evidence(folder, tmp_path):
    pairs, y = read_pairs(folder)
    tracker = MetricTracker().fit(pairs, y).partial_fit(pairs, -y)
    tracker.save(tmp_path / "changed")
    content = json.loads(run("inspect", tmp_path / "changed", "--json").stdout)
    assert content["changes"] == [change._asdict() for change in tracker.changes_]
    change = tracker.changes_[0]
    assert 400 < change.round <= change.detected
    text = run("inspect", tmp_path / "changed").stdout
    assert "evidence" in text
    assert re.search(rf"{change.round}\s+{change.detected}\s+{change.evidence:.1f}", text)


def test_the_largest_eigenvalues_of_very_many_features():
    """All eigenvalues of 4100 features would be too many, so that the rank is not shown."""
    diagonal = np.linspace(0.0, 1.0, 4100) ** 4
    metric = Metric.low_rank(diagonal, np.eye(2, 4100), np.array([5.0, 3.0]), 1.0)  # two of the features weigh more
    content = inspect.describe_metric(metric)
    assert content["rank"] is None
    np.testing.assert_allclose(content["spectrum"], np.sort(metric.diagonal)[::-1][:10], rtol=1e-6)


def held_out(folder):
    X, _ = some_items()
    rows = list(csv.DictReader((folder / "held_out.csv").read_text().splitlines()))
    at = np.array([[int(row[name].split()[1]) for name in ("id_a", "id_b")] for row in rows])
    return X[at], np.array([1 if row["same"] == "yes" else -1 for row in rows])


@pytest.mark.parametrize("name", ["songs.tracker", "adaptive.tracker"])
def test_evaluate_reports_the_reliability_of_probabilities(folder, tmp_path, name):
    tracker, (pairs, y) = MetricTracker.load(folder / name), held_out(folder)
    picture = tmp_path / "reliability.png"
    options = ["held_out.csv", "--items", "items.csv", "--features", FEATURES]
    result = run("evaluate", name, *options, "--json", "--plot", picture, cwd=folder)
    reliability = json.loads(result.stdout)["reliability"]
    probabilities = tracker.predict_proba(pairs)
    assert reliability["log_loss"] == pytest.approx(log_loss(y, probabilities))
    assert reliability["brier_score"] == pytest.approx(brier_score_loss(y, probabilities[:, 1]))
    assert reliability["roc_auc"] == pytest.approx(roc_auc_score(y, probabilities[:, 1]))
    assert reliability["calibrated"] == (name == "adaptive.tracker")
    assert sum(each["pairs"] for each in reliability["bins"]) == len(y)
    for each in reliability["bins"]:
        if each["distance"] > 0.0:
            odds = tracker.metric_.threshold - each["distance"] ** 2
            assert 1 / (1 + np.exp(-odds)) == pytest.approx(each["predicted"], rel=1e-9)
    assert [each["distance"] for each in reliability["bins"]] == sorted(
        (each["distance"] for each in reliability["bins"]), reverse=True
    )
    with Image.open(picture) as drawn:
        assert np.unique(np.asarray(drawn.convert("L"))).size > 20, "an empty picture"
    text = run("evaluate", name, *options, cwd=folder).stdout
    assert ("not calibrated" in text) == (name == "songs.tracker")
    assert "expected calibration error" in text
    tracker.metric_.save(tmp_path / "metric")
    alone = json.loads(run("evaluate", tmp_path / "metric", *options, "--json", cwd=folder).stdout)["reliability"]
    assert not alone["calibrated"]
    odds = tracker.metric_.threshold - tracker.metric_.squared_distance(pairs[:, 0], pairs[:, 1])
    assert alone["log_loss"] == pytest.approx(np.mean(np.log1p(np.exp(-y * odds))))
    for wrong, sentence in (("a.gif", "for --plot: 'a.gif' does not end in"), ("no/a.png", "the folder 'no'")):
        assert sentence in run("evaluate", name, *options, "--plot", wrong, cwd=folder, code=2).stderr
    of_items = ["--items", "items.csv", "--class", "genre", "--plot", picture]
    assert "give a FILE of pairs" in run("evaluate", name, *of_items, cwd=folder, code=2).stderr


def test_the_adaptive_method_on_the_command_line(folder, tmp_path):
    tracker = MetricTracker.load(folder / "adaptive.tracker")
    assert tracker.method_ == "adaptive"
    content = json.loads(run("inspect", "adaptive.tracker", "--json", cwd=folder).stdout)
    assert (content["method"], content["engine"], content["settings"]) == ("adaptive", "adaptive", {"curved": True})
    assert content["drift"] == 1000 * tracker.drift_
    assert content["changes"] == [change._asdict() for change in tracker.changes_]
    assert list(content["weights"]) == list(tracker.experts_)
    text = run("inspect", "adaptive.tracker", cwd=folder).stdout
    assert all(
        word in text
        for word in (
            "drift per 1000 pairs",
            "Detected changes",
            describe_expert(tracker.experts_[np.argmax(tracker.weights_)]),
        )
    )
    assert "drift" not in json.loads(run("inspect", "songs.tracker", "--json", cwd=folder).stdout)
    for kind in ("history", "weights"):
        run("plot", "adaptive.tracker", kind, "-o", tmp_path / f"{kind}.png", cwd=folder)

    source = folder / "pairs.parquet"
    for option, curved in (("--linear", False), ("--curved", True), ("--restart", True)):
        report = json.loads(run("track", source, option, "--restart", "--json", cwd=tmp_path).stdout)
        assert report["method"] == "adaptive"
        assert {row["leading"] for row in report["rows"]} <= set(tracker.experts_)
        saved = MetricTracker.load(tmp_path / "pairs.tracker")
        assert saved.metric_ == MetricTracker(curved=curved).fit(*read_pairs(folder)).metric_
        content = json.loads(run("inspect", "pairs.tracker", "--json", cwd=tmp_path).stdout)
        assert (content["curved"], content["settings"]) == (curved, {"curved": True} if curved else {})
    other = run("track", source, "--resume", "--method", "rice", cwd=tmp_path, code=2).stderr
    assert "was started with method 'adaptive', not 'rice'" in other
    refused = run("track", source, "--resume", "--step-size", "0.5", cwd=tmp_path, code=2).stderr
    assert "step_size is a setting of --method rice" in refused


def test_evaluate(folder):
    tracker = MetricTracker.load(folder / "songs.tracker")
    X, genre = some_items()
    options = ["--items", "items.csv", "--features", FEATURES, "--class", "genre", "--json"]
    scores = json.loads(run("evaluate", "songs.tracker", "held_out.csv", *options, cwd=folder).stdout)["scores"]
    assert scores["5-NN error"]["learned"] == knn_error(tracker.transform(X), genre)
    assert scores["5-NN error"]["Euclidean"] == knn_error(X, genre)
    assert scores["NMI of k-means"]["learned"] > 0.9
    pairs, y = held_out(folder)
    assert scores["ROC AUC of pairs"]["learned"] == roc_auc_score(y, tracker.decision_function(pairs))
    assert scores["accuracy of pairs"]["learned"] == np.mean(tracker.predict(pairs) == y)
    assert "ROC AUC of pairs" in run("evaluate", "songs.tracker", "held_out.csv", *options[:4], cwd=folder).stdout
    assert "nothing to evaluate on" in run("evaluate", "songs.tracker", cwd=folder, code=2).stderr


def test_evaluate_compares_with_standardized_euclidean_distance(folder, tmp_path):
    """The features are divided by the training pairs' standard deviations, otherwise by those of the items or pairs."""
    X, genre = some_items()
    (train, _), (pairs, y) = read_pairs(folder), held_out(folder)
    options = ["--items", "items.csv", "--features", FEATURES, "--class", "genre", "--json"]
    content = json.loads(run("evaluate", "songs.tracker", "held_out.csv", *options, cwd=folder).stdout)
    assert content["standardized_by"] == ["the training pairs", "the training pairs"]
    scales = train.reshape(-1, 3).std(axis=0)
    distances = np.linalg.norm((pairs[:, 0] - pairs[:, 1]) / scales, axis=1)
    assert content["scores"]["ROC AUC of pairs"]["standardized"] == pytest.approx(roc_auc_score(y, -distances))
    assert content["scores"]["5-NN error"]["standardized"] == knn_error(X / scales, genre)
    MetricTracker.load(folder / "songs.tracker").save(tmp_path / "by Python")
    content = json.loads(run("evaluate", tmp_path / "by Python", "held_out.csv", *options, cwd=folder).stdout)
    assert content["standardized_by"] == ["the items of items.csv"] * 2
    assert content["scores"]["5-NN error"]["standardized"] == knn_error(X / X.std(axis=0), genre)
    lines = (folder / "pairs.jsonl").read_text().replace("x_a", "x_tempo").replace("z_a", "z_tempo")
    lines = lines.replace("_b", "_loudness").replace("_c", "_length")
    (tmp_path / "pairs.jsonl").write_text(lines)
    text = run("evaluate", tmp_path / "by Python", tmp_path / "pairs.jsonl").stdout
    assert "their standard deviations over the pairs of " in text
    assert "standardized" in text.splitlines()[2]


def test_evaluate_says_what_was_learned_from(folder, tmp_path):
    options = ["--items", "items.csv", "--features", FEATURES]
    given, answers = ((folder / name).read_text().splitlines() for name in ("held_out.csv", "answers.csv"))
    (tmp_path / "mixed.csv").write_text("\n".join([*given, *answers[1:31]]) + "\n")
    trained = {frozenset(row.split(",")[:2]) for row in answers[1:]}
    n_known = sum(frozenset(row.split(",")[:2]) in trained for row in [*given[1:], *answers[1:31]])
    for name in ("songs.tracker", "adaptive.tracker"):
        text = run("evaluate", name, tmp_path / "mixed.csv", *options, cwd=folder).stdout
        assert f"Learned from: {n_known} of the 230 pairs. The scores are not held-out." in text
        content = json.loads(run("evaluate", name, tmp_path / "mixed.csv", *options, "--json", cwd=folder).stdout)
        assert content["learned_from"] == {"pairs": {"n_learned": n_known, "n": 230, "exact": True}}
    (tmp_path / "new.csv").write_text(
        "\n".join([given[0], *(row for row in given[1:] if frozenset(row.split(",")[:2]) not in trained)]) + "\n"
    )
    text = run("evaluate", "songs.tracker", tmp_path / "new.csv", *options, "--class", "genre", cwd=folder).stdout
    assert re.search(r"Learned from: none of the 1\d\d pairs\.\n", text)
    assert re.search(r"In pairs that were learned from: 1\d\d of the 150 items\.\n", text)
    MetricTracker.load(folder / "songs.tracker").save(tmp_path / "by Python")
    text = run("evaluate", tmp_path / "by Python", "held_out.csv", *options, cwd=folder).stdout
    assert "Learned from: unknown. A tracker that `ocelad track` of this version saved would know." in text
    content = json.loads(run("evaluate", tmp_path / "by Python", "held_out.csv", *options, "--json", cwd=folder).stdout)
    assert content["learned_from"] == {"pairs": None}


def test_evaluate_explains_the_two_areas_under_the_curve(folder):
    options = ["--items", "items.csv", "--features", FEATURES]
    text = run("evaluate", "songs.tracker", "held_out.csv", *options, cwd=folder).stdout
    assert 'ROC AUC of pairs: how often a "same" pair is nearer than a "different" one.' in text
    assert 'ROC AUC of probabilities: how often it is more probably "same".' in text


@pytest.mark.parametrize("answer", ["same", "different"])
@pytest.mark.parametrize("method", ["adaptive", "rice"])
def test_one_answer_only_warns(folder, tmp_path, answer, method):
    """A stream with one of the two answers is learned from, scored and drawn, as far as that is possible."""
    table = parquet.read_table(folder / "pairs.parquet")
    chosen = np.array(table["similar"]) == (answer == "same")
    parquet.write_table(table.filter(pa.array(chosen)), tmp_path / "pairs.parquet")
    note = f'pairs.parquet are "{answer}", and none is'
    tracked = run("track", "pairs.parquet", "--method", method, cwd=tmp_path)
    assert note in tracked.stderr
    inspected = run("inspect", "pairs.tracker", cwd=tmp_path)
    assert f'Note: all {chosen.sum()} pairs of pairs.tracker are "{answer}"' in inspected.stderr
    for tracker in ("pairs.tracker", folder / f"{'songs' if method == 'rice' else 'adaptive'}.tracker"):
        renamed = table.filter(pa.array(chosen)).rename_columns(
            table.column_names
            if tracker == "pairs.tracker"
            else [f"{side}_{name}" for side in "xz" for name in FEATURES.split(",")] + ["similar"]
        )
        parquet.write_table(renamed, tmp_path / "evaluated.parquet")
        evaluated = run("evaluate", tracker, "evaluated.parquet", "--plot", "reliability.png", cwd=tmp_path)
        assert f'are "{answer}", and none is' in evaluated.stderr
        assert "There is no ROC AUC" in evaluated.stderr
        assert "accuracy of pairs" in evaluated.stdout
        scores = json.loads(run("evaluate", tracker, "evaluated.parquet", "--json", cwd=tmp_path).stdout)["scores"]
        assert list(scores) == ["accuracy of pairs"]
        assert list(scores["accuracy of pairs"]) == ["learned"]
        for text in (evaluated.stdout, tracked.stdout, inspected.stdout):
            assert not re.search(r"\bnan\b|\binf\b", text, re.I)
    for kind in ("history", "weights", "spectrum", "features"):
        run("plot", "pairs.tracker", kind, cwd=tmp_path)
    compared = run("compare", "adaptive", "--stream", "pairs.parquet", "--json", cwd=tmp_path)
    assert note in compared.stderr
    assert json.loads(compared.stdout)["methods"] == []


def test_inspect(folder, tmp_path):
    tracker = MetricTracker.load(folder / "songs.tracker")
    content = json.loads(run("inspect", "songs.tracker", "--json", cwd=folder).stdout)
    assert (content["kind"], content["rounds"], content["features"], content["rank"]) == ("tracker", 400, 3, 3)
    assert content["feature_weights"][0]["feature"] == "tempo"
    assert (content["shares_of"], content["curved"]) == ("units", False)  # the method rice stores no spreads
    np.testing.assert_allclose(list(content["weights"].values()), tracker.weights_)
    assert list(content["weights"]) == [str(2**j) for j in range(len(tracker.weights_))]
    np.testing.assert_allclose(content["spectrum"], np.linalg.eigvalsh(tracker.get_mahalanobis_matrix())[::-1])
    assert content["settings"] == {}  # those of the method are its defaults
    text = run("inspect", "songs.tracker", cwd=folder).stdout
    assert all(word in text for word in ("tempo", "Largest eigenvalues", "Weight of each expert", "threshold"))
    tracker.metric_.save(tmp_path / "metric")
    assert json.loads(run("inspect", tmp_path / "metric", "--json").stdout)["kind"] == "metric"
    assert "nothing does not exist; `ocelad inspect` expects" in run("inspect", tmp_path / "nothing", code=1).stderr
    (tmp_path / "text").write_text("hello")
    assert "text is a text file; `ocelad inspect` expects" in run("inspect", tmp_path / "text", code=1).stderr


def test_inspect_lists_features_by_their_share_of_the_distances_between_items(folder, tmp_path):
    tracker, (X, _) = MetricTracker.load(folder / "songs.tracker"), some_items()
    rows = [",".join(map(str, [*X[a], *X[b]])) for a, b in ((0, 1), (3, 2))]
    header = ",".join(f"{side}_{name}" for side in "xz" for name in ("tempo", "loudness", "length"))
    (folder / "named.csv").write_text("\n".join([header, *rows]) + "\n")
    for options, points in ((["--items", "items.csv"], X), (["--pairs", "named.csv"], X[:4])):
        content = json.loads(run("inspect", "songs.tracker", *options, "--json", cwd=folder).stdout)
        assert content["shares_of"] == "items"
        expected = tracker.feature_weights(items=points)
        assert [row["feature"] for row in content["feature_weights"]] == [row.feature for row in expected]
        np.testing.assert_allclose([row["share"] for row in content["feature_weights"]], [r.share for r in expected])
        text = " ".join(run("inspect", "songs.tracker", *options, cwd=folder).stdout.split())
        assert all(words in text for words in ("squared distances between items", "weight per unit", "%"))
        output = tmp_path / "features.png"
        run("plot", "songs.tracker", "features", *options, "-o", output, cwd=folder)
        assert output.exists()
    text = " ".join(run("inspect", "songs.tracker", cwd=folder).stdout.split())
    assert "share of the weights per unit of each feature: the items are not known" in text
    adaptive = json.loads(run("inspect", "adaptive.tracker", "--json", cwd=folder).stdout)
    assert adaptive["shares_of"] == "stream"
    for command in (["inspect", "songs.tracker"], ["plot", "songs.tracker", "features"]):
        both = [*command, "--items", "items.csv", "--pairs", "named.csv"]
        assert "both --items and --pairs are given" in run(*both, cwd=folder, code=2).stderr
    stderr = run("inspect", "songs.tracker", "--pairs", "pairs.parquet", cwd=folder, code=1).stderr
    assert "pairs.parquet has the unknown features" in stderr
    tracker.metric_.save(tmp_path / "metric")
    content = json.loads(run("inspect", tmp_path / "metric", "--pairs", folder / "pairs.parquet", "--json").stdout)
    assert (content["feature_weights"][0]["feature"], content["shares_of"]) == ("x0", "items")


def test_a_long_file_of_pairs_is_thinned_out(tmp_path):
    X = np.random.default_rng(0).normal(size=(5000, 2))
    rows = "\n".join(f"{i},{x},{i + 0.5},{z}" for i, (x, z) in enumerate(X))
    (tmp_path / "pairs.csv").write_text(f"x_a,x_b,z_a,z_b\n{rows}\n")
    Metric(np.eye(2)).save(tmp_path / "metric")
    points = read_points_of_pairs(load_metric(tmp_path / "metric"), str(tmp_path / "pairs.csv"), 1000)
    assert points[:, 0].tolist() == [i + half for i in range(0, 5000, 8) for half in (0.0, 0.5)]


def test_inspect_shows_a_curved_distance(folder, tmp_path):
    pairs, y = read_pairs(folder)
    MetricTracker(curved=True).fit(pairs, y).save(tmp_path / "curved")
    content = json.loads(run("inspect", tmp_path / "curved", "--json").stdout)
    assert (content["curved"], content["shares_of"], len(content["spectrum"])) == (True, "stream", 3)
    assert sum(row["share"] for row in content["feature_weights"]) == pytest.approx(1.0)
    assert "Largest eigenvalues of the linear part" in run("inspect", tmp_path / "curved").stdout


def test_a_curved_distance_on_the_command_line(folder, tmp_path):
    source = folder / "pairs.parquet"
    run("track", source, "--curved", "-o", "curved.tracker", "--quiet", cwd=tmp_path)
    tracker = MetricTracker.load(tmp_path / "curved.tracker")
    assert tracker.curved is True
    assert tracker.metric_ == MetricTracker(curved=True).fit(*read_pairs(folder)).metric_
    content = json.loads(run("inspect", "curved.tracker", "--json", cwd=tmp_path).stdout)
    assert (content["curved"], content["rounds"], content["method"]) == (True, 400, "adaptive")
    assert list(content["weights"]) == list(tracker.experts_)
    np.testing.assert_allclose(content["spectrum"], np.linalg.eigvalsh(tracker.linear_part_.matrix)[::-1])
    run("track", source, "--curved", "-o", "curved.tracker", "--resume", "--quiet", cwd=tmp_path)
    assert MetricTracker.load(tmp_path / "curved.tracker").metric_ == tracker.metric_
    run("track", source, "--linear", "-o", "linear.tracker", "--quiet", cwd=tmp_path)
    assert MetricTracker.load(tmp_path / "linear.tracker").metric_ == MetricTracker().fit(*read_pairs(folder)).metric_
    other = run("track", source, "--linear", "-o", "curved.tracker", "--resume", cwd=tmp_path, code=2).stderr
    assert "was started with curved True, not False; omit the option, or --restart" in other
    run("track", source, "-o", "linear.tracker", "--resume", "--quiet", cwd=tmp_path)  # keeps what it was started with
    assert not MetricTracker.load(tmp_path / "linear.tracker").curved
    other = run("track", source, "--curved", "-o", "linear.tracker", "--resume", cwd=tmp_path, code=2).stderr
    assert "was started with curved False, not True; omit the option, or --restart" in other

    options = ["--items", "items.csv", "--features", FEATURES]
    curved = ["--curved", "-o", tmp_path / "songs.tracker", "--quiet"]
    run("track", "answers.csv", *options, *curved, cwd=folder)
    songs = MetricTracker.load(tmp_path / "songs.tracker")
    printed = run("distance", tmp_path / "songs.tracker", "held_out.csv", *options, cwd=folder).stdout
    rows, (pairs, y) = list(csv.DictReader(io.StringIO(printed))), held_out(folder)
    np.testing.assert_allclose([float(row["distance"]) for row in rows], songs.pair_distance(pairs), rtol=1e-12)
    probabilities = [float(row["probability"]) for row in rows]
    np.testing.assert_allclose(probabilities, songs.predict_proba(pairs)[:, 1], rtol=1e-12)
    assert [int(row["similar"]) for row in rows] == songs.predict(pairs).tolist()
    options += ["--class", "genre", "--json"]
    scores = json.loads(run("evaluate", tmp_path / "songs.tracker", "held_out.csv", *options, cwd=folder).stdout)
    X, genre = some_items()
    scores = scores["scores"]
    assert scores["5-NN error"]["learned"] == knn_error(songs.transform(X), genre)
    expected = roc_auc_score(y, songs.decision_function(pairs))
    assert scores["ROC AUC of pairs"]["learned"] == pytest.approx(expected, rel=1e-12)
    assert scores["accuracy of pairs"]["learned"] == np.mean(songs.predict(pairs) == y)
    songs.metric_.save(tmp_path / "metric")
    of_metric = run("distance", tmp_path / "metric", "held_out.csv", *options[:4], cwd=folder).stdout
    distances = [float(row["distance"]) for row in csv.DictReader(io.StringIO(of_metric))]
    np.testing.assert_allclose(distances, songs.pair_distance(pairs), rtol=1e-12)


def test_rice_is_linear_on_the_command_line(folder, tmp_path):
    source = folder / "pairs.parquet"
    refused = run("track", source, "--method", "rice", "--curved", cwd=tmp_path, code=2).stderr
    assert "--curved needs the method adaptive; omit --curved, or omit --method rice" in refused
    for option in ([], ["--linear"]):
        run("track", source, "--method", "rice", "--restart", "--quiet", *option, cwd=tmp_path)
        saved = MetricTracker.load(tmp_path / "pairs.tracker")
        assert (saved.method_, saved.curved) == ("rice", False)
    assert "--curved / --linear" in run("track", "--help").stdout


def test_inspect_shows_the_settings_that_differ_from_the_defaults(folder, tmp_path):
    method = Rice(shrinkage=0.05, loss="hinge")
    MetricTracker(method=method).fit(*read_pairs(folder)).save(tmp_path / "shrunk.tracker")
    content = json.loads(run("inspect", "shrunk.tracker", "--json", cwd=tmp_path).stdout)
    assert content["settings"] == {"shrinkage": 0.05, "loss": "hinge"}
    assert "setting shrinkage" in run("inspect", "shrunk.tracker", cwd=tmp_path).stdout


@pytest.mark.parametrize("kind", ["history", "weights", "spectrum", "features", "embedding"])
def test_plot(folder, tmp_path, kind):
    more = ["--items", "items.csv", "--label", "genre"] if kind == "embedding" else []
    output = tmp_path / f"{kind}.png"
    assert run("plot", "songs.tracker", kind, *more, "-o", output, cwd=folder).stdout == f"Picture: {output}\n"
    with Image.open(output) as picture:
        assert min(picture.size) > 200
        assert np.unique(np.asarray(picture.convert("L"))).size > 20, "an empty picture"


def test_plot_refuses(folder, tmp_path):
    assert "give --items FILE" in run("plot", "songs.tracker", "embedding", cwd=folder, code=2).stderr
    assert "does not end in" in run("plot", "songs.tracker", "history", "-o", "a.gif", cwd=folder, code=2).stderr
    MetricTracker().fit(*read_pairs(folder)).save(tmp_path / "plain")
    assert "has no history" in run("plot", tmp_path / "plain", "history", cwd=tmp_path, code=1).stderr
    Metric(np.eye(3)).save(tmp_path / "metric")
    run("plot", tmp_path / "metric", "spectrum", cwd=tmp_path)
    assert (tmp_path / "metric-spectrum.png").exists()


@pytest.mark.parametrize("command", ["track", "embed", "distance", "evaluate", "inspect", "plot"])
def test_help_shows_an_example(command):
    text = run(command, "--help").stdout
    assert "Examples:" in text
    assert f"ocelad {command} " in text


def test_a_terminal_shows_a_progress_bar(folder, tmp_path):
    master, slave = pty.openpty()
    arguments = [*COMMAND, "track", str(folder / "pairs.parquet"), "-o", str(tmp_path / "tracker")]
    process = subprocess.Popen(arguments, stdout=slave, stderr=slave, env={**os.environ, "COLUMNS": "120"})
    os.close(slave)
    shown = b""
    while select.select([master], [], [], 60)[0]:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    assert process.wait() == 0
    assert "400 pairs" in shown.decode()
    assert "Saved:" in shown.decode()


def test_each_command_has_its_own_file_of_skipped_rows(folder, tmp_path):
    lines = (folder / "pairs.jsonl").read_text().splitlines()
    lines[20] = "{rubbish"
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    skip = ["--on-error", "skip"]
    run("track", "pairs.jsonl", *skip, cwd=tmp_path, code=3)
    skipped = (tmp_path / "pairs.jsonl.skipped.jsonl").read_bytes()
    stderr = run("distance", "pairs.tracker", "pairs.jsonl", *skip, cwd=tmp_path, code=3).stderr
    assert "1 row was skipped; it is in pairs.jsonl.distance.skipped.jsonl." in stderr
    scores = run("evaluate", "pairs.tracker", "pairs.jsonl", *skip, "--json", cwd=tmp_path, code=3)
    assert json.loads(scores.stdout)["skipped"] == 1
    assert (tmp_path / "pairs.jsonl.skipped.jsonl").read_bytes() == skipped
    run("track", "pairs.jsonl", "--resume", *skip, cwd=tmp_path, code=3)
    assert "1 row was skipped." in run("track", "pairs.jsonl", "--resume", cwd=tmp_path, code=3).stderr


def test_resuming_finds_reordered_features_by_their_names(folder, tmp_path):
    rows = list(csv.reader((folder / "items.csv").read_text().splitlines()))
    with open(tmp_path / "reordered.csv", "w", newline="") as file:
        csv.writer(file).writerows([row[0], *row[3:0:-1]] for row in rows)
    answers = (folder / "answers.csv").read_text()
    (tmp_path / "answers.csv").write_text(answers)
    items = ["--items", str(folder / "items.csv"), "--features", FEATURES]
    run("track", "answers.csv", *items, "--quiet", cwd=tmp_path)
    (tmp_path / "answers.csv").write_text(answers + "song 1,song 2,yes\n")
    (tmp_path / "copy.tracker").write_bytes((tmp_path / "answers.tracker").read_bytes())
    run("track", "answers.csv", *items, "--resume", "--quiet", cwd=tmp_path)
    run("track", "answers.csv", "--items", "reordered.csv", "--resume", "--quiet", "-o", "copy.tracker", cwd=tmp_path)
    one, other = (MetricTracker.load(tmp_path / name) for name in ("answers.tracker", "copy.tracker"))
    assert one.metric_ == other.metric_


def test_resuming_a_tracker_saved_from_python_is_refused(folder, tmp_path):
    run("track", folder / "pairs.parquet", "--quiet", cwd=tmp_path)
    MetricTracker.load(tmp_path / "pairs.tracker").set_threshold(1).save(tmp_path / "pairs.tracker")
    stderr = run("track", folder / "pairs.parquet", "--resume", cwd=tmp_path, code=2).stderr
    assert "has no position in a file" in " ".join(stderr.split())


@pytest.mark.parametrize("name", ["data.v1.csv", "data.v1.jsonl.gz", ".hidden.csv"])
def test_names_of_trackers(folder, tmp_path, name):
    text = (folder / "pairs.jsonl").read_text()
    if ".csv" in name:
        rows = [json.loads(line) for line in text.splitlines()]
        text = "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)])
    content = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    (tmp_path / name).write_bytes(content)
    report = json.loads(run("track", name, "--json", cwd=tmp_path).stdout)
    assert report["output"] == name.split(".csv")[0].split(".jsonl")[0] + ".tracker"


def test_the_tracker_knows_its_features(folder):
    options = ["--items", "items.csv"]
    assert run("distance", "songs.tracker", "held_out.csv", *options, cwd=folder).stdout
    scores = run("evaluate", "songs.tracker", "held_out.csv", *options, "--class", "genre", "--json", cwd=folder).stdout
    assert len(json.loads(scores)["scores"]) == 4
    assert (
        "give --items"
        in run("evaluate", "songs.tracker", "held_out.csv", "--class", "genre", cwd=folder, code=2).stderr
    )


def write_all(path, columns, pieces):
    with open_output(path, columns) as out:
        for piece in pieces:
            out.write(piece)


def test_written_tables(tmp_path):
    columns = {"id": "value", "label": "value", "number": "float"}
    pieces = [{"id": [1, 2], "label": ["a", None], "number": np.array([0.5, 1.5])}]
    pieces.append({"id": [None, 3], "label": [1, "b"], "number": np.array([2.5, 3.5])})
    readers = {".parquet": parquet.read_table, ".arrow": lambda path: ipc.open_file(path).read_all()}
    for suffix, read in readers.items():
        write_all(tmp_path / f"table{suffix}", columns, pieces)
        table = read(tmp_path / f"table{suffix}").to_pydict()
        assert table == {"id": [1, 2, None, 3], "label": ["a", None, "1", "b"], "number": [0.5, 1.5, 2.5, 3.5]}
        write_all(tmp_path / f"empty{suffix}", columns, [])
        assert read(tmp_path / f"empty{suffix}").column_names == list(columns)
        with pytest.raises(ValueError, match=r"the column 'id' holds 1.5, but its first rows hold only integers"):
            write_all(tmp_path / f"wrong{suffix}", columns, [*pieces, {**pieces[1], "id": [1.5, 2]}])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{name}{suffix}" for name in ("table", "empty") for suffix in readers
    )
    write_all(tmp_path / "table.jsonl", columns, pieces[1:])
    rows = [json.loads(line) for line in (tmp_path / "table.jsonl").read_text().splitlines()]
    assert rows == [{"id": None, "label": 1, "number": 2.5}, {"id": 3, "label": "b", "number": 3.5}]


def test_outputs_that_are_inputs_are_refused(folder, tmp_path):
    for name in ("songs.tracker", "items.csv", "pairs.parquet"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "tracker.csv").write_bytes((folder / "songs.tracker").read_bytes())
    for arguments in (
        ["embed", "songs.tracker", "items.csv", "-o", "items.csv"],
        ["embed", "tracker.csv", "items.csv", "-o", "tracker.csv"],
        ["distance", "songs.tracker", "pairs.parquet", "-o", "pairs.parquet"],
        ["track", "pairs.parquet", "-o", "songs.tracker", "--from", "songs.tracker"],
    ):
        assert "is an input file; choose another name" in run(*arguments, cwd=tmp_path, code=2).stderr
    assert (tmp_path / "items.csv").read_bytes() == (folder / "items.csv").read_bytes()


def test_resuming_with_another_label_column_is_refused(folder, tmp_path):
    table = parquet.read_table(folder / "pairs.parquet").to_pandas()
    table["other"] = ~table.similar
    table[:300].to_csv(tmp_path / "pairs.csv", index=False)
    run("track", "pairs.csv", "--quiet", "--label", "similar", cwd=tmp_path)
    table.to_csv(tmp_path / "pairs.csv", index=False)
    stderr = run("track", "pairs.csv", "--resume", "--label", "other", cwd=tmp_path, code=1).stderr
    assert "'similar' and is now read with" in stderr
    run("track", "pairs.csv", "--resume", "--quiet", "--label", "similar", cwd=tmp_path)
    assert MetricTracker.load(tmp_path / "pairs.tracker").n_rounds_ == 400


def test_from_continues_with_another_file(folder, tmp_path):
    table = parquet.read_table(folder / "pairs.parquet").to_pandas()
    table[:250].to_parquet(tmp_path / "yesterday.parquet")
    table[250:].to_parquet(tmp_path / "today.parquet")
    run("track", "yesterday.parquet", "--method", "rice", "--step-size", "0.01", "--quiet", cwd=tmp_path)
    run("track", "today.parquet", "--from", "yesterday.tracker", "--quiet", cwd=tmp_path)
    both = MetricTracker.load(tmp_path / "today.tracker")
    assert both.metric_ == MetricTracker(method=Rice(step_size=0.01)).fit(*read_pairs(folder)).metric_
    run("track", "today.parquet", "--resume", "--quiet", cwd=tmp_path)
    assert MetricTracker.load(tmp_path / "today.tracker").n_rounds_ == 400
    assert json.loads(run("inspect", "today.tracker", "--json", cwd=tmp_path).stdout)["rounds"] == 400


def test_columns_by_name(folder, tmp_path):
    given = [
        "--x",
        "x_a,x_c",
        "--z",
        "z_a,z_c",
        "-o",
        tmp_path / "two.tracker",
        "--method",
        "rice",
        "--step-size",
        "0.01",
        "--quiet",
    ]
    run("track", "pairs.parquet", *given, cwd=folder)
    pairs, y = read_pairs(folder)
    assert (
        MetricTracker.load(tmp_path / "two.tracker").metric_
        == MetricTracker(method=Rice(step_size=0.01)).fit(pairs[:, :, ::2], y).metric_
    )
    (tmp_path / "odd.csv").write_text('id,"a,b",c\n1,0,0\n2,1,1\n')
    (tmp_path / "odd_answers.csv").write_text("id_a,id_b,same\n1,2,yes\n")
    run("track", "odd_answers.csv", "--items", "odd.csv", "--features", '"a,b",c', "--quiet", cwd=tmp_path)
    assert MetricTracker.load(tmp_path / "odd_answers.tracker").feature_names_in_.tolist() == ["a,b", "c"]


def test_a_file_without_rows_is_an_error(tmp_path):
    (tmp_path / "pairs.csv").write_text("x_a,z_a,similar\n")
    assert "has no rows to learn from" in run("track", "pairs.csv", cwd=tmp_path, code=1).stderr
    assert not (tmp_path / "pairs.tracker").exists()


def test_large_numbers_leave_a_readable_tracker(tmp_path):
    rows = [f"{x},{x - 0.5},1" for x in np.random.default_rng(0).normal(size=300)]
    rows[200] = "1e100,0,1"
    (tmp_path / "pairs.csv").write_text("x_a,z_a,similar\n" + "\n".join(rows) + "\n")
    for more in (["--method", "rice"], ["--method", "rice", "--set", "step_size=1e300"]):
        result = run("track", "pairs.csv", "--restart", "--json", *more, cwd=tmp_path)
        assert json.loads(result.stdout)["pairs"] == 300
        assert json.loads(run("inspect", "pairs.tracker", "--json", cwd=tmp_path).stdout)["rounds"] == 300
        run("track", "pairs.csv", "--resume", "--quiet", cwd=tmp_path)
    stderr = run("track", "pairs.csv", "--restart", cwd=tmp_path, code=1).stderr
    assert "line 202: x and z are too far apart: they differ by 1e+100; differences up to 1e+75 are accepted" in stderr
    run("track", "pairs.csv", "--restart", "--on-error", "skip", "--quiet", cwd=tmp_path, code=3)
    assert json.loads(run("inspect", "pairs.tracker", "--json", cwd=tmp_path).stdout)["rounds"] == 299


def test_errors_name_options(folder, tmp_path):
    (tmp_path / "pairs.csv").write_text("x_a,z_a,verdict\n1,2,1\n")
    stderr = run("track", "pairs.csv", cwd=tmp_path, code=1).stderr
    assert "--label" in stderr
    assert "label=" not in stderr


def test_other_estimators_can_be_inspected(folder, tmp_path):
    X, genre = some_items()
    LabelMetricTracker(random_state=0).fit(X, genre).save(tmp_path / "labels")
    TripletTracker().fit(X[:150].reshape(50, 3, 3)).save(tmp_path / "triplets")
    for name, kind in (("labels", "LabelMetricTracker"), ("triplets", "TripletTracker")):
        content = json.loads(run("inspect", tmp_path / name, "--json").stdout)
        assert (content["estimator"], content["features"]) == (kind, 3)
        assert kind in run("inspect", tmp_path / name).stdout
        run("plot", tmp_path / name, "features", "-o", tmp_path / f"{name}.png")
        stderr = run("track", folder / "pairs.parquet", "-o", tmp_path / name, "--resume", code=1).stderr
        assert f"holds a {kind}, not a MetricTracker" in stderr


def test_a_numeric_label_colours_an_embedding(folder, tmp_path):
    options = ["--items", "items.csv", "--label", "tempo", "-o", tmp_path / "tempo.png"]
    run("plot", "songs.tracker", "embedding", *options, cwd=folder)
    with Image.open(tmp_path / "tempo.png") as picture:
        assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 500


def test_leftovers_of_a_kill_are_removed(folder, tmp_path):
    left = [tmp_path / f".pairs.tracker.{letter * 32}.part" for letter in "ab"]
    others = [tmp_path / f".other.tracker.{'a' * 32}.part", tmp_path / ".pairs.tracker.notes.part"]
    for more in ([], ["--resume"]):
        for path in (*left, *others):
            path.write_bytes(b"half")
        run("track", folder / "pairs.parquet", "--quiet", *more, cwd=tmp_path)
        assert not any(path.exists() for path in left)
        assert all(path.exists() for path in others)


def test_a_pair_at_the_threshold_is_similar(tmp_path):
    Metric.from_diagonal([1.0], threshold=4.0).save(tmp_path / "metric")
    (tmp_path / "pairs.csv").write_text("x_a,z_a\n0,2\n5,3\n0,2.0000000000000004\n0,0\n")
    rows = list(csv.DictReader(io.StringIO(run("distance", "metric", "pairs.csv", cwd=tmp_path).stdout)))
    assert [(float(row["distance"]), int(row["similar"])) for row in rows] == [
        (2.0, 1),
        (2.0, 1),
        (2.0000000000000004, -1),
        (0.0, 1),
    ]


class StubTracking:
    """A tracking with a given number of pairs and mean squared length."""

    def __init__(self, n_pairs, squared_length, method):
        self.tracker = SimpleNamespace(method=method, n_rounds_=n_pairs)
        self.history = SimpleNamespace(total=lambda: SimpleNamespace(squared_length=squared_length))


@pytest.mark.parametrize(
    ("n_pairs", "squared_length", "method", "is_noted"),
    [
        (1000, track.DEFAULT_SQUARED_LENGTH, "rice", False),
        (1000, 0.99 * track.MAX_LENGTH_FACTOR * track.DEFAULT_SQUARED_LENGTH, "rice", False),
        (1000, 1.01 * track.MAX_LENGTH_FACTOR * track.DEFAULT_SQUARED_LENGTH, "rice", True),
        (1000, 1.01 / track.MAX_LENGTH_FACTOR * track.DEFAULT_SQUARED_LENGTH, "rice", False),
        (1000, 0.99 / track.MAX_LENGTH_FACTOR * track.DEFAULT_SQUARED_LENGTH, "rice", True),
        (track.MIN_PAIRS_TO_WARN, 1e6, "rice", True),
        (track.MIN_PAIRS_TO_WARN - 1, 1e6, "rice", False),
        (1000, 1e6, Rice(step_size=0.5), False),
        (1000, 1e6, "adaptive", False),
        (1000, 0.0, "rice", False),
    ],
)
def test_a_scale_that_does_not_suit_the_default_step_size_is_noted(n_pairs, squared_length, method, is_noted, capsys):
    track._warn_if_badly_scaled(StubTracking(n_pairs, squared_length, method))
    assert ("the learned metric may be poor" in capsys.readouterr().err) == is_noted


def test_saves_are_reported_unless_quiet(folder, tmp_path):
    pairs, many = (folder / "pairs.jsonl").read_text(), tmp_path / "many.jsonl"
    many.write_text(pairs * 6)  # 2400 pairs: chunks of 25, because the file is small
    command = ("track", many, "--method", "rice", "--restart", "--every")
    lines = run(*command, "1500", cwd=tmp_path).stderr.splitlines()
    assert [re.sub(" +", " ", line).split(" loss ")[0] for line in lines if line.endswith("saved")] == ["pair 1,500"]
    assert "saved" not in run(*command, "5000", cwd=tmp_path).stderr
    assert run(*command, "1000", "--quiet", cwd=tmp_path).stderr == ""
    assert "saved" not in run(*command, "1000", "--json", cwd=tmp_path).stderr


def test_the_first_signal_stops_the_stream_and_the_second_one_raises():
    before, stops = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}, []
    with stop_on_signal(SimpleNamespace(stop=lambda: stops.append(1), is_exhausted=False)) as received:
        assert received == stops == []
        signal.raise_signal(signal.SIGTERM)
        assert (received, stops) == ([signal.SIGTERM], [1])
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert (received, stops) == ([signal.SIGTERM], [1])
    assert {number: signal.getsignal(number) for number in before} == before


def test_the_command_that_continues_resumes_once(monkeypatch):
    for extra in ([], ["--restart"], ["--resume"]):
        monkeypatch.setattr("sys.argv", ["/usr/bin/ocelad", "track", "my pairs.csv", *extra, "--quiet"])
        assert resume_command("my pairs.csv") == "ocelad track 'my pairs.csv' --quiet --resume"
    monkeypatch.setattr("sys.argv", ["/usr/bin/ocelad", "track", "-", "-o", "pairs.tracker"])
    words = "... | ocelad track - -o pairs.tracker --resume, where ... writes the same rows again"
    assert resume_command("-") == words


def test_the_bar_of_a_terminal_shows_pairs_and_accuracy_unless_quiet(folder, tmp_path, monkeypatch):
    for quiet in (False, True):
        terminal = io.StringIO()
        terminal.isatty = lambda: True
        monkeypatch.setattr("sys.stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        tracking = FileTracker(MetricTracker(method="rice"))
        with open_comparisons(folder / "pairs.parquet", chunk_size=100) as stream:
            assert not track._track(tracking, stream, tmp_path / "tracker", 1000, quiet=quiet)
        accuracy = f"accuracy {tracking.history.last().accuracy:.1%}"
        assert all((words in terminal.getvalue()) != quiet for words in ("100%", "400 pairs", accuracy))
        assert FileTracker.load(tmp_path / "tracker").tracker.n_rounds_ == 400


def test_items_without_a_column_of_ids_are_noted(tmp_path):
    items, numbers, texts = (tmp_path / name for name in ("items.csv", "numbers.csv", "texts.csv"))
    items.write_text("Kundennr,x\n" + "".join(f"{i + 1},{i % 3}\n" for i in range(9)))
    numbers.write_text("id_a,id_b,same\n1,4,yes\n1,3,no\n")
    texts.write_text("id_a,id_b,same\npat-1,pat-4,yes\n1,3,no\n")
    way = f"{items} has no column 'id', so that its items are numbered from 0; name the column of ids with --id"
    assert f"Note: {way}.\n" in run("track", numbers, "--items", items, "-o", tmp_path / "1.tracker").stderr
    named = run("track", numbers, "--items", items, "--id", "Kundennr", "-o", tmp_path / "2.tracker")
    assert "numbered" not in named.stderr
    mixed = run("track", texts, "--items", items, "-o", tmp_path / "3.tracker", code=1).stderr
    assert f"column 'id_a' holds the id 'pat-1'; {items} has no such item" in mixed
    texts.write_text("id_a,id_b,same\npat-1,pat-4,yes\n")
    refused = run("track", texts, "--items", items, "-o", tmp_path / "3.tracker", code=1).stderr
    assert f"{texts}: column 'id_a' holds the id 'pat-1', but {way}\n" in refused
    assert "--on-error" not in refused


def test_a_stopped_run_says_how_to_continue(folder, tmp_path, monkeypatch):
    """As if a signal had arrived before the first chunk, or after the last one."""
    finish = track._track
    command = ("track", folder / "pairs.parquet", "--method", "rice", "-o", tmp_path / "tracker")
    monkeypatch.setattr(track, "_track", lambda tracking, *others, **options: bool(tracking.tracker.start(3)))
    assert "Stopped before the first pair." in run(*command, code=130).stderr
    monkeypatch.setattr(track, "_track", lambda *arguments, **options: finish(*arguments, **options) or True)
    result = run(*command, "--json", code=130)
    assert (json.loads(result.stdout)["stopped"], json.loads(result.stdout)["pairs"]) == (True, 400)
    assert f"Stopped and saved; to continue: ocelad track {folder / 'pairs.parquet'}" in result.stderr
    assert result.stderr.endswith(" --resume\n")
    monkeypatch.setattr(track, "_track", finish)
    assert json.loads(run(*command, "--json", "--resume").stdout)["stopped"] is False
    monkeypatch.setattr(track, "_track", mock.Mock(side_effect=KeyboardInterrupt))
    assert run(*command, "--restart", code=130).stdout == ""
