"""FileTracker: the history is correct, and an interruption at any time does not change the final result."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocelad import LearnerError, Metric, MetricTracker, Rice, track_metric
from ocelad.ensemble.schedule import Schedule
from ocelad.estimators.file_tracker import CHUNK_SIZE, PIPE_CHUNK_SIZE, FileTracker
from ocelad.io import RowError, open_comparisons
from ocelad.learners.losses import LOSSES
from ocelad.pairs import Event

N = 4


def some_pairs(count, n_features=N, seed=0):
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(count, 2, n_features)).round(3)
    first_half = np.arange(count) < count // 2
    relevant = np.where(first_half, pairs[:, 0, 0] - pairs[:, 1, 0], pairs[:, 0, 1] - pairs[:, 1, 1])
    return pairs, np.where(np.abs(relevant) < 1, 1.0, -1.0)


def write_csv(path, pairs, y):
    n = pairs.shape[2]
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([f"x_f{j}" for j in range(n)] + [f"z_f{j}" for j in range(n)] + ["similar"])
        for (x, z), label in zip(pairs.tolist(), y, strict=True):
            rows.writerow([*x, *z, int(label)])
    return path


def track_file(path, output, every=100, chunk_size=50, stop_after=None, tracking=None, **options):
    """Track to the end, or stop after some chunks like a kill: without a final save."""
    tracking = tracking or FileTracker(MetricTracker(method=Rice(step_size=0.05)))
    options |= {"chunk_size": chunk_size, "resume": tracking.position}
    with open_comparisons(path, **options) as stream:
        rounds = tracking.follow(stream, output, every)
        for number, _ in enumerate(rounds, 1):
            if number == stop_after:
                tracking.save = lambda path: None
                break
        rounds.close()
    return tracking


def test_the_history_agrees_with_the_core(tmp_path):
    pairs, y = some_pairs(330)
    path = write_csv(tmp_path / "pairs.csv", pairs, y)
    tracking = track_file(path, tmp_path / "tracker")
    core, losses, n_correct = track_metric(N, step_size=0.05), [], 0
    for (x, z), label in zip(pairs, y, strict=True):
        metric = core.play()
        losses.append(LOSSES["logistic"].value(metric.margin(Event(x - z, label))))
        n_correct += metric.similar(x, z) == (label > 0)
        core.step(Event(x - z, label))
    total = tracking.history.total()
    assert total.round == 330
    assert total.loss == pytest.approx(np.mean(losses))
    assert total.accuracy == pytest.approx(n_correct / 330)
    assert total.squared_length == pytest.approx(np.square(pairs[:, 0] - pairs[:, 1]).sum(axis=1).mean())
    assert [row.n_pairs for row in tracking.history.rows()] == [50] * 6 + [30]
    assert tracking.tracker.metric_ == core.play()
    assert tracking.tracker.feature_names_in_.tolist() == [f"f{j}" for j in range(N)]


@pytest.mark.parametrize("size", [CHUNK_SIZE, PIPE_CHUNK_SIZE])
def test_chunks_do_not_end_when_most_scales_have_just_started(size):
    n_starting = Schedule().n_starting
    mean = np.mean([n_starting(t) for t in range(1, 4097)])
    assert np.mean([n_starting(k * size) for k in range(1, 4097)]) == pytest.approx(mean, abs=0.1)


def test_drift_is_the_change_of_the_metric(tmp_path):
    pairs, y = some_pairs(300)
    tracking = track_file(write_csv(tmp_path / "pairs.csv", pairs, y), tmp_path / "tracker", chunk_size=100)
    tracker, changes = MetricTracker(method=Rice(step_size=0.05)).start(N), []
    for first in (0, 100, 200):
        before = tracker.get_mahalanobis_matrix()
        after = tracker.partial_fit(pairs[first : first + 100], y[first : first + 100]).get_mahalanobis_matrix()
        changes.append(np.linalg.norm(after - before) / np.linalg.norm(after))
    assert [row.drift for row in tracking.history.rows()] == pytest.approx([10 * change for change in changes])


def test_the_estimated_change_with_many_features():
    tracking, rng = FileTracker(MetricTracker()), np.random.default_rng(3)
    rows = rng.normal(size=(6, 3000))
    one = Metric.low_rank(0.5, rows, np.ones(6), threshold=1.0)
    two = Metric.low_rank(0.5, 1.2 * rows, np.ones(6), threshold=1.0)
    estimate = np.linalg.norm(tracking._probe(two) - tracking._probe(one))
    assert estimate == pytest.approx(0.44 * np.linalg.norm(rows @ rows.T), rel=0.25)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from([1, 50, 120, 10_000]))
def test_a_stop_after_any_chunk_does_not_change_the_result(tmp_path, stops, every):
    path = tmp_path / "pairs.csv"
    if not path.exists():
        write_csv(path, *some_pairs(470))
    whole, output = tmp_path / "whole", tmp_path / "stopped"
    track_file(path, whole, every)
    output.unlink(missing_ok=True)
    for stop in stops:
        track_file(path, output, every, stop_after=stop, tracking=FileTracker.load(output) if output.exists() else None)
    track_file(path, output, every, tracking=FileTracker.load(output) if output.exists() else None)
    assert output.read_bytes() == whole.read_bytes()


def test_stopping_early_saves(tmp_path):
    pairs, y = some_pairs(300)
    path, output = write_csv(tmp_path / "pairs.csv", pairs, y), tmp_path / "tracker"
    tracking = FileTracker(MetricTracker(method=Rice(step_size=0.05)))
    with open_comparisons(path, chunk_size=50) as stream, closing(tracking.follow(stream, output)) as rounds:
        next(rounds)
    saved = FileTracker.load(output)
    assert saved.tracker.n_rounds_ == 50
    assert saved.history.total().n_pairs == 50
    assert (
        MetricTracker.load(output).metric_ == MetricTracker(method=Rice(step_size=0.05)).fit(pairs[:50], y[:50]).metric_
    )


def test_a_bad_row_saves_the_chunks_before_it_and_a_corrected_file_is_resumed(tmp_path):
    pairs, y = some_pairs(300)
    path, output = write_csv(tmp_path / "pairs.csv", pairs, y), tmp_path / "tracker"
    good = path.read_text()
    lines = good.splitlines(keepends=True)
    lines[180] = lines[180].replace(lines[180].split(",")[0], "abc", 1)
    path.write_text("".join(lines))
    with pytest.raises(RowError, match="line 181: column 'x_f0' holds 'abc'"):
        track_file(path, output)
    assert FileTracker.load(output).tracker.n_rounds_ == 150
    path.write_text(good)
    track_file(path, output, tracking=FileTracker.load(output))
    track_file(path, tmp_path / "whole")
    assert output.read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_file_that_has_grown_is_resumed(tmp_path):
    pairs, y = some_pairs(400)
    path = write_csv(tmp_path / "pairs.csv", pairs[:250], y[:250])
    track_file(path, tmp_path / "tracker")
    write_csv(path, pairs, y)
    grown = track_file(path, tmp_path / "tracker", tracking=FileTracker.load(tmp_path / "tracker"))
    assert grown.tracker.metric_ == MetricTracker(method=Rice(step_size=0.05)).fit(pairs, y).metric_


COMMAND = [sys.executable, "-m", "ocelad", "track"]


@pytest.mark.heavy
def test_twenty_kills_at_random_times_do_not_change_the_result(tmp_path):
    pairs, y = some_pairs(60_000, n_features=10)
    path = write_csv(tmp_path / "pairs.csv", pairs, y)
    with open(path) as file:
        lines = file.readlines()
    for at in (5_000, 31_000, 55_555):  # no row may be reported as skipped twice, or lost
        lines[at] = "not,a,row\n"
    path.write_text("".join(lines))
    options = ["--every", "2048", "--on-error", "skip", "--set", "method=rice", "--set", "step_size=0.05", "--quiet"]

    def arguments(name):
        output = ["-o", str(tmp_path / name), "--skipped", str(tmp_path / f"{name}.skipped")]
        return [*COMMAND, str(path), *output, *options, "--resume"]

    start = time.perf_counter()
    assert subprocess.run(arguments("whole"), check=False).returncode == 3
    duration = time.perf_counter() - start
    whole, skipped = (tmp_path / "whole").read_bytes(), (tmp_path / "whole.skipped").read_bytes()
    assert len(skipped.splitlines()) == 3
    moments, kills, finished = random.Random(0), 0, 0
    while kills < 20:
        process = subprocess.Popen(arguments("killed"))
        try:
            code = process.wait(timeout=moments.uniform(0.2, 1.1) * duration)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if code == -signal.SIGKILL:
            kills += 1
            continue
        assert code == 3
        assert (tmp_path / "killed").read_bytes() == whole
        assert (tmp_path / "killed.skipped").read_bytes() == skipped
        (tmp_path / "killed").unlink()
        (tmp_path / "killed.skipped").unlink()
        finished += 1
    assert subprocess.run(arguments("killed"), check=False).returncode == 3
    assert (tmp_path / "killed").read_bytes() == whole
    assert (tmp_path / "killed.skipped").read_bytes() == skipped
    assert not list(tmp_path.glob(".*")), "leftovers"
    print(f"{kills} kills, {finished + 1} complete runs")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ctrl_c_saves_and_exits_cleanly(tmp_path, number):
    pairs, y = some_pairs(20_000)
    path = write_csv(tmp_path / "pairs.csv", pairs, y)
    # The dense engine is slow enough to be interrupted.
    arguments = [*COMMAND, str(path), "-o", str(tmp_path / "tracker"), "--every", "1024"]
    arguments += ["--method", "rice", "--set", "engine=dense"]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ)
    while not (tmp_path / "tracker").exists():
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "Stopped and saved; to continue" in err
    assert "Saved:" in out
    rounds = FileTracker.load(tmp_path / "tracker").tracker.n_rounds_
    assert rounds % CHUNK_SIZE == 0
    assert 0 < rounds < 20_000


def test_a_pair_that_cannot_be_learned_from_saves_the_chunks_before_it(tmp_path):
    pairs, y = some_pairs(260)
    pairs[230] = [[1e149] * N, [0.0] * N]
    path = write_csv(tmp_path / "pairs.csv", pairs, y)
    with pytest.raises(LearnerError, match="could not learn from the pair"):
        track_file(
            path,
            tmp_path / "tracker",
            every=10_000,
            tracking=FileTracker(MetricTracker(method=Rice(loss="squared_hinge"))),
        )
    saved = FileTracker.load(tmp_path / "tracker")
    assert saved.tracker.n_rounds_ == saved.history.total().n_pairs == 200


@pytest.mark.parametrize("stops", [(), (1, 2)])
def test_weights_of_a_column(tmp_path, stops):
    pairs, y = some_pairs(300)
    weights = np.random.default_rng(1).choice([0.0, 0.25, 1.0, 3.0], size=300)
    path = tmp_path / "pairs.csv"
    lines = write_csv(path, pairs, y).read_text().splitlines()
    path.write_text("\n".join(f"{line},{w}" for line, w in zip(lines, ["w", *weights], strict=True)) + "\n")
    tracking = FileTracker(MetricTracker())
    for stop in (*stops, None):
        track_file(path, tmp_path / "tracker", every=50, stop_after=stop, tracking=tracking, weight="w")
        tracking = FileTracker.load(tmp_path / "tracker")
    weighted = MetricTracker().fit(pairs, y, sample_weight=weights)
    assert tracking.tracker.metric_ == weighted.metric_ != MetricTracker().fit(pairs, y).metric_


def test_a_stream_without_labels_is_refused(tmp_path):
    path = write_csv(tmp_path / "pairs.csv", *some_pairs(20))
    with pytest.raises(ValueError, match="opened without labels"):
        track_file(path, tmp_path / "tracker", label=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_waiting_pipe_can_be_interrupted(tmp_path, number):
    header = ",".join([f"x_{j}" for j in range(2)] + [f"z_{j}" for j in range(2)] + ["similar"])
    arguments = [*COMMAND, "-", "--format", "csv", "-o", str(tmp_path / "tracker"), "--every", "1024"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(arguments, text=True, **pipes)
    process.stdin.write(header + "\n" + "0.5,1,0.25,3,1\n0.5,1,9,3,0\n" * 50_000)
    process.stdin.flush()
    while not (tmp_path / "tracker").exists():
        time.sleep(0.05)
        assert process.poll() is None
    time.sleep(1.0)  # until it waits
    process.send_signal(number)
    process.wait(timeout=60)
    with process.stdin, process.stdout, process.stderr:
        assert process.returncode == 130
        assert "Stopped and saved" in process.stderr.read()
    assert FileTracker.load(tmp_path / "tracker").tracker.n_rounds_ >= 1024


def test_the_report_as_json(tmp_path):
    path = write_csv(tmp_path / "pairs.csv", *some_pairs(300))
    result = subprocess.run([*COMMAND, str(path), "--json"], capture_output=True, text=True, cwd=tmp_path, check=True)
    report = json.loads(result.stdout)
    assert report["pairs"] == 300
    assert report["output"] == "pairs.tracker"
    assert MetricTracker.load(tmp_path / "pairs.tracker").n_rounds_ == 300


@pytest.mark.parametrize(("n_bad", "n_saves"), [(0, 2), (3, 3)])
def test_skipped_rows_at_the_end_are_saved_and_nothing_is_saved_twice(tmp_path, n_bad, n_saves, monkeypatch):
    path = write_csv(tmp_path / "pairs.csv", *some_pairs(200))
    with open(path, "a") as file:
        file.write("bad\n" * n_bad)
    saves, save = [], FileTracker.save
    monkeypatch.setattr(FileTracker, "save", lambda self, path: (saves.append(1), save(self, path)))
    tracking = track_file(path, tmp_path / "tracker", every=100, on_error="skip")
    saved = FileTracker.load(tmp_path / "tracker")
    assert saved.position == tracking.position
    assert (saved.position["skipped"], saved.tracker.n_rounds_, len(saves)) == (n_bad, 200, n_saves)


# -- Known items --


def write_items(folder, count=80, n_features=N, seed=0):
    """Write items, and answers about their ids; return the points, the positions of the pairs, and the labels."""
    rng = np.random.default_rng(seed)
    X, at = rng.normal(size=(count, n_features)).round(3), rng.integers(count, size=(330, 2))
    y = np.where(np.abs(X[at[:, 0], 0] - X[at[:, 1], 0]) < 1, 1, -1)
    with open(folder / "items.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", *(f"f{j}" for j in range(n_features))])
        rows.writerows([f"item {i}", *x] for i, x in enumerate(X.tolist()))
    with open(folder / "answers.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id_a", "id_b", "similar"])
        rows.writerows([f"item {a}", f"item {b}", label] for (a, b), label in zip(at.tolist(), y.tolist(), strict=True))
    return X, at, y


def test_a_stream_of_ids_knows_the_points_of_all_items(tmp_path):
    X, _, _ = write_items(tmp_path)
    with open_comparisons(tmp_path / "answers.csv", items=tmp_path / "items.csv") as stream:
        np.testing.assert_array_equal(stream.items.X, X)
        list(stream)
        np.testing.assert_array_equal(stream.items.X, X)
    path = write_csv(tmp_path / "pairs.csv", *some_pairs(20))
    with open_comparisons(path) as stream:
        assert stream.items is None


@pytest.mark.parametrize("curved", [False, True])
@pytest.mark.parametrize("stops", [(), (1,), (1, 2)])
def test_items_are_known_before_the_first_pair(tmp_path, curved, stops):
    """Also if the run is stopped and resumed within the first rounds, which the definition plays."""
    X, at, y = write_items(tmp_path)
    options = {"items": tmp_path / "items.csv", "chunk_size": 30, "every": 30}
    tracking = FileTracker(MetricTracker(curved=curved, transitive=False))
    for stop in (*stops, None):
        track_file(tmp_path / "answers.csv", tmp_path / "tracker", stop_after=stop, tracking=tracking, **options)
        tracking = FileTracker.load(tmp_path / "tracker")
    expected = MetricTracker(curved=curved).start(N, items=X)
    for first in range(0, len(y), 30):
        expected.partial_fit(X[at[first : first + 30]], y[first : first + 30])
    assert tracking.tracker.metric_ == expected.metric_
    assert tracking.tracker.metric_ == MetricTracker(curved=curved).fit(X[at], y, items=X).metric_
    assert tracking.tracker.metric_ != MetricTracker(curved=curved).fit(X[at], y).metric_
    assert tracking.tracker.n_rounds_ == len(y)


@pytest.mark.parametrize("stops", [(), (1,), (1, 2)])
def test_answers_of_a_file_imply_others(tmp_path, stops):
    """The same as in Python, also if the run is stopped and resumed."""
    X, at, y = write_items(tmp_path)
    options = {"items": tmp_path / "items.csv", "chunk_size": 30, "every": 30}
    tracking = FileTracker(MetricTracker(curved=True))
    for stop in (*stops, None):
        track_file(tmp_path / "answers.csv", tmp_path / "tracker", stop_after=stop, tracking=tracking, **options)
        tracking = FileTracker.load(tmp_path / "tracker")
    expected = MetricTracker(curved=True, preprocessor=X).fit(at, y, items=X)
    assert tracking.tracker.metric_ == expected.metric_
    assert tracking.tracker.n_implied_ == expected.n_implied_ > 0
    assert len(tracking.tracker.groups_) == len(expected.groups_)


def test_rice_learns_without_the_items(tmp_path):
    X, at, y = write_items(tmp_path)
    method = Rice(step_size=0.05)
    options = {"items": tmp_path / "items.csv", "tracking": FileTracker(MetricTracker(method=method))}
    tracking = track_file(tmp_path / "answers.csv", tmp_path / "tracker", **options)
    assert tracking.tracker.metric_ == MetricTracker(method=method).fit(X[at], y).metric_
