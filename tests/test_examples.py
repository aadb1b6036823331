"""The examples do what they say."""

from __future__ import annotations

import re

import numpy as np
import pytest
import regret_on_every_interval
import track_anything

# Streams on which no setting of the example was chosen.
SEEDS = [100, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (101, 102))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("problem", [track_anything.MEAN, track_anything.REGRESSION], ids=lambda p: p.name)
def test_ocelad_beats_the_best_fixed_step_size_in_hindsight(problem, seed):
    step_sizes = np.geomspace(0.002, 0.7 if problem.n == 1 else 0.1, 24)
    ours, theirs = track_anything.excess_losses(problem, seed, step_sizes)
    best = theirs["all"].argmin()
    assert 0 < best < len(step_sizes) - 1  # the best of the grid lies inside it
    assert ours["all"] < theirs["all"][best]
    # It is no free lunch: what is best for one kind of phase is better there.
    assert ours["calm"] > theirs["calm"].min()
    assert ours["wild"] > theirs["wild"].min()


def test_track_anything_prints_its_tables(capsys):
    track_anything.main(range(1))
    output = capsys.readouterr().out
    assert "drifting mean" in output
    assert "OCELAD loses less than every fixed step size on 1 of 1 streams" in output


def test_track_anything_shows_how_it_fares_elsewhere(capsys, monkeypatch):
    monkeypatch.setattr(track_anything, "LENGTHS", {"calm": 20, "wild": 10})
    track_anything.elsewhere(track_anything.MEAN, np.array([0.05, 0.2]), range(1))
    rows = capsys.readouterr().out.splitlines()[-3:]
    assert [len(re.findall(r"\d+\.\d\d", row)) for row in rows] == [3, 3, 3]


def test_regret_on_every_interval(capsys, tmp_path):
    regret_on_every_interval.main(str(tmp_path / "regret.png"))
    output = capsys.readouterr().out
    share = float(re.search(r"18,003,000 intervals: ([\d.]+)%", output).group(1))
    assert 0 < share < 100
    assert (tmp_path / "regret.png").read_bytes().startswith(b"\x89PNG")
