"""The examples run, and their statements hold."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import curved_distance
import first_answers
import implied_groups
import numpy as np
import pytest
import regret_on_every_interval
import track_anything
from click.testing import CliRunner

from ocelad.spark.session import find_java

# Streams that were never used to choose a setting of the example.
SEEDS = [100, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (101, 102))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("problem", [track_anything.MEAN, track_anything.REGRESSION], ids=lambda p: p.name)
def test_ocelad_beats_the_best_fixed_step_size_in_hindsight(problem, seed):
    step_sizes = np.geomspace(0.002, 0.7 if problem.n == 1 else 0.1, 24)
    ours, theirs = track_anything.excess_losses(problem, seed, step_sizes)
    best = theirs["all"].argmin()
    assert 0 < best < len(step_sizes) - 1  # the best of the grid lies inside it
    assert ours["all"] < theirs["all"][best]
    # In each kind of phase, the step size that suits it is better.
    assert ours["calm"] > theirs["calm"].min()
    assert ours["wild"] > theirs["wild"].min()


def test_track_anything_prints_its_tables(capsys, monkeypatch):
    monkeypatch.setattr(track_anything, "LENGTHS", {"calm": 20, "wild": 10})
    track_anything.main(range(2))
    output = capsys.readouterr().out
    assert len(re.findall(r"^drifting (mean|regression): mean loss above the noise, 2 streams$", output, re.M)) == 2
    assert len(re.findall(r"^(?:OCELAD|fixed 0\.\d{3} \(.*\)) +(?:-?\d+\.\d{3} *){3}$", output, re.M)) == 8
    assert len(re.findall(r"OCELAD loses less than every fixed step size on [012] of 2 streams", output)) == 2


def test_track_anything_prints_variations(capsys, monkeypatch):
    monkeypatch.setattr(track_anything, "LENGTHS", {"calm": 20, "wild": 10})
    track_anything.print_variations(track_anything.MEAN, np.array([0.05, 0.2]), range(1))
    rows = capsys.readouterr().out.splitlines()[-3:]
    assert [len(re.findall(r"\d+\.\d\d", row)) for row in rows] == [3, 3, 3]


def test_regret_on_every_interval(capsys, tmp_path):
    regret_on_every_interval.main(str(tmp_path / "regret.png"))
    output = capsys.readouterr().out
    share = float(re.search(r"18,003,000 intervals: ([\d.]+)%", output).group(1))
    assert 0 < share < 100
    assert (tmp_path / "regret.png").read_bytes().startswith(b"\x89PNG")


def test_curved_distance(capsys, tmp_path):
    curved_distance.main(str(tmp_path / "curved.png"))
    output = capsys.readouterr().out
    rows = re.findall(
        r"^(.+), (linear|curved): ([\d.]+) % of held-out pairs are wrong, and ([\d.]+) % of", output, re.M
    )
    errors = {(title, name): float(error) for title, name, error, _ in rows}
    assert len(errors) == 4
    for title in ("bananas", "digits with a loop"):
        assert errors[title, "curved"] < errors[title, "linear"]
    assert (tmp_path / "curved.png").read_bytes().startswith(b"\x89PNG")


def test_implied_groups(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(implied_groups, "CHECKPOINTS", (0, 30))
    monkeypatch.setattr(implied_groups, "N_SEEDS", 2)
    implied_groups.main(str(tmp_path / "implied.png"))
    rows = re.findall(r"^(.+), (\d+) answers: ([\d.]+) % ranking error$", capsys.readouterr().out, re.M)
    errors = {(way, int(n_answers)): float(error) for way, n_answers, error in rows}
    assert len(errors) == 4
    random, chosen = implied_groups.WAYS
    assert errors[chosen, 30] < min(errors[random, 30], errors[chosen, 0])
    assert (tmp_path / "implied.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.heavy
def test_first_answers_lower_the_errors_on_wines():
    trials = [first_answers.measure("wine", seed) for seed in (0, 1)]
    rows = {row["distance"]: row for row in first_answers.summarise("wine", trials)}
    learned, fixed = rows["ocelad, 100 answers"], [rows["Euclidean"], rows["standardized"]]
    assert learned["ranking error"] < min(row["ranking error"] for row in fixed)
    assert learned["5-NN error"] < rows["Euclidean"]["5-NN error"]


def test_the_picture_of_the_first_answers_follows_the_saved_results(tmp_path):
    picture = tmp_path / "first.png"
    assert CliRunner().invoke(first_answers.main, ["--picture", str(picture)]).exit_code == 0
    for path in (picture, tmp_path / "first-dark.png"):
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.heavy
@pytest.mark.skipif(not (find_spec("pyspark") and find_java()), reason="PySpark or Java missing: make .venv/.spark")
def test_fleet_on_spark(tmp_path):
    script = Path(__file__).parents[1] / "examples" / "fleet_on_spark.py"
    tmp_path.joinpath("fleet").mkdir()
    done = subprocess.run([sys.executable, script, tmp_path / "fleet"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    counts = [int(count) for count in re.findall(r"^\|tenant \d\| +(\d+)\|", done.stdout, re.M)]
    assert (sum(counts[:5]), sum(counts[5:])) == (750, 1500)  # the second run continues from the first one
    errors = re.findall(r"^tenant \d: ([\d.]+)% by the Euclidean distance, ([\d.]+)% by its own$", done.stdout, re.M)
    assert len(errors) == 5
    assert all(float(own) < 0.5 * float(euclidean) for euclidean, own in errors)
