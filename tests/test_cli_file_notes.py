"""What the commands for files and trackers say beside their result: notes, and errors in the user's words."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from command import run

from ocelad.estimators.file_tracker import FileTracker
from ocelad.evaluation import picture_style
from ocelad.io import state_files
from ocelad.lab.compare.comparison_plot import STYLES

ITEMS = ["--items", "items.csv", "--missing", "median"]
TRACK = [*ITEMS, "--linear", "--no-transitive"]


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Items with missing prices and categories, answers that are half "same", others that mostly are not, a tracker."""
    folder = tmp_path_factory.mktemp("notes")
    rng = np.random.default_rng(0)
    category = rng.choice(["toys", "kitchen"], size=60)
    X = rng.normal(size=(60, 2)).round(3) + np.where(category == "toys", 1.5, -1.5)[:, None]
    header = ["id", "height_cm", "price", "category"]
    rows = [[f"P{i:04}", X[i, 0], X[i, 1] if i % 10 else "", category[i] if i % 7 else ""] for i in range(60)]
    write(folder / "items.csv", header, rows)
    write(folder / "customers.csv", header[:2], [row[:2] for row in rows])
    at = rng.integers(0, 60, size=(700, 2))
    same = category[at[:, 0]] == category[at[:, 1]]
    answers = [[f"P{a:04}", f"P{b:04}", "yes" if yes else "no"] for (a, b), yes in zip(at, same, strict=True)]
    write(folder / "answers.csv", ["id_a", "id_b", "same"], answers[:300])
    mostly = np.concatenate([300 + np.flatnonzero(~same[300:])[:90], 300 + np.flatnonzero(same[300:])[:30]])
    write(folder / "held_out.csv", ["id_a", "id_b", "same"], [answers[i] for i in mostly])
    run("track", "answers.csv", *TRACK, cwd=folder)
    return folder


def test_evaluate_says_how_the_accuracies_compare(folder):
    text = run("evaluate", "answers.tracker", "held_out.csv", *ITEMS, cwd=folder).stdout
    assert "learned with its own threshold, standardized and Euclidean with the threshold that is best" in text
    assert 'accuracy of always predicting the more common answer, "different": 0.7500.' in text
    assert re.search(
        r'Note: 25 % of these pairs are "same", but \d\d % of the training answers; threshold and prob', text
    )
    content = json.loads(run("evaluate", "answers.tracker", "held_out.csv", *ITEMS, "--json", cwd=folder).stdout)
    assert content["commoner_answer"] == {"answer": "different", "accuracy": 0.75}
    assert "Note:" not in run("evaluate", "answers.tracker", "answers.csv", *ITEMS, cwd=folder).stdout


def test_a_note_says_how_a_column_of_classes_is_left_out(folder, tmp_path):
    lines = (folder / "items.csv").read_text().splitlines()
    rows = [f"{line},{k % 3}" for k, line in enumerate(lines[1:])]
    (tmp_path / "items.csv").write_text("\n".join([f"{lines[0]},target", *rows]))
    (tmp_path / "answers.csv").write_bytes((folder / "answers.csv").read_bytes())
    command = ("track", "answers.csv", *ITEMS)
    note = "the column 'target' is a feature; if it holds classes, leave it out with --exclude target"
    assert note in run(*command, cwd=tmp_path).stderr
    for options in (["--exclude", "target"], ["--features", "height_cm,target"]):
        assert note not in run(*command, *options, "--restart", cwd=tmp_path).stderr


def test_an_id_that_is_repeated_is_named_with_its_lines(tmp_path):
    (tmp_path / "pairs.csv").write_text("x_a,x_b,z_a,z_b,same\n0,0,0,1,1\n0,0,3,0,0\n")
    (tmp_path / "items.csv").write_text("id,a,b\np1,0,0\np2,1,0\np1,2,0\np2,3,0\n")
    run("track", "pairs.csv", "--quiet", cwd=tmp_path)
    sentence = "items.csv, line 4: the id 'p1' occurs already in line 2"
    refused = run("neighbors", "pairs.tracker", "items.csv", cwd=tmp_path, code=1)
    assert refused.stderr == f"Error: {sentence}\n"
    embedded = run("embed", "pairs.tracker", "items.csv", cwd=tmp_path)
    assert embedded.stderr == f"Note: {sentence}; all rows are embedded.\n"
    assert len(embedded.stdout.splitlines()) == 5


def test_neighbors_within_an_error_say_why_there_are_none(folder, tmp_path):
    command = ["neighbors", "answers.tracker", "items.csv", "--missing", "median", "--of", "P0000"]
    note = run(*command, "--within", "0.0001", cwd=folder).stderr
    assert "Note: no distance can be promised an error of 0.01 % after 300 answers; -k finds the nearest" in note
    write(tmp_path / "far.csv", ["height_cm", "price"], [[1e3, 1e3]])
    command = ["neighbors", "answers.tracker", "items.csv", "--missing", "median", "--queries", tmp_path / "far.csv"]
    assert "Note: no item is near enough" in run(*command, "--within", "0.45", cwd=folder).stderr
    written = run(*command, "-k", "3", "-o", tmp_path / "near.csv", cwd=folder)
    assert "near.csv (3 rows, 5 columns)" in written.stdout
    assert "Note" not in written.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (
            ["evaluate", "answers.tracker", *ITEMS, "--class", "cat"],
            1,
            "items.csv has no column 'cat' (--class); it has",
        ),
        (
            ["embed", "answers.tracker", "customers.csv"],
            1,
            "customers.csv lacks the column 'price', which the tracker was trained on; it has 'id', 'height_cm'",
        ),
        (
            ["plot", "x.linker", "history"],
            1,
            "x.linker is a file of answers, saved by `ocelad records`; `ocelad plot` expects",
        ),
        (
            ["track", "held_out.csv", *ITEMS, "--from", "answers.tracker", "--features", "price", "-o", "new"],
            2,
            "--features leaves out 'height_cm', which the tracker was trained on; omit --features",
        ),
        (
            ["track", "held_out.csv", *ITEMS, "--from", "answers.tracker", "--exclude", "price", "-o", "new"],
            1,
            "--exclude leaves out the column 'price', which the tracker was trained on; omit --exclude",
        ),
        (
            ["compare", "euclidean", "rice", "--stream", "answers.csv", *ITEMS, "--tune", "3", "--every", "100"],
            2,
            "less than two times --every 100; accepted: --every 37 or less, or no tuning",
        ),
    ],
)
def test_errors_name_what_the_user_typed(folder, arguments, code, sentence):
    state_files.write(folder / "x.linker", state_files.LINKER, {"weights": np.ones(1)}, {})
    assert sentence in run(*arguments, cwd=folder, code=code).stderr


def test_a_missing_file_of_pairs_is_reported_before_the_items_are_read(folder):
    error = run("track", "none.csv", *ITEMS, cwd=folder, code=1).stderr
    assert error == "Error: the file none.csv does not exist\n"


def test_track_learns_with_one_thread_of_blas(folder, tmp_path, monkeypatch):
    """Threads that wait for cores which other programs use made it several times slower."""
    from click.testing import CliRunner
    from threadpoolctl import threadpool_info, threadpool_limits

    from ocelad.cli import cli

    n_threads, follow = set(), FileTracker.follow

    def watched(*arguments):
        n_threads.update(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")
        return follow(*arguments)

    monkeypatch.setattr(FileTracker, "follow", watched)
    with threadpool_limits(2, user_api="blas"):
        paths = [str(folder / "answers.csv"), "--items", str(folder / "items.csv"), "--missing", "median"]
        result = CliRunner().invoke(cli, ["track", *paths, "-o", str(tmp_path / "new.tracker")])
        assert result.exit_code == 0, result.output
    assert n_threads == {1}


def test_a_misspelt_id_can_be_skipped_or_mended(folder, tmp_path):
    rows = (folder / "answers.csv").read_text().splitlines(keepends=True)
    (tmp_path / "items.csv").write_text((folder / "items.csv").read_text())
    for line, first in ((2, "Nothing was saved. --on-error skip leaves out"), (40, "has the first 25 pairs; --resume")):
        bad = [*rows[:line], rows[line].replace("P", "Q", 1), *rows[line + 1 :]]
        (tmp_path / "bad.csv").write_text("".join(bad))
        stderr = run("track", "bad.csv", *TRACK, cwd=tmp_path, code=1).stderr
        assert first in stderr
        assert "--on-error skip" in stderr
    assert "--restart replaces it" in run("track", "bad.csv", *TRACK, cwd=tmp_path, code=2).stderr
    skipped = run("track", "bad.csv", *TRACK, "--resume", "--on-error", "skip", cwd=tmp_path, code=3)
    assert "1 row was skipped; it is in" in skipped.stderr
    assert FileTracker.load(tmp_path / "bad.tracker").tracker.n_rounds_ == 299
    run("track", "bad.csv", *TRACK, "-o", "mended.tracker", cwd=tmp_path, code=1)
    (tmp_path / "bad.csv").write_text("".join(rows))
    run("track", "bad.csv", *TRACK, "-o", "mended.tracker", "--resume", cwd=tmp_path)
    assert FileTracker.load(tmp_path / "mended.tracker").tracker.n_rounds_ == 300


def test_the_picture_of_a_history_has_no_short_last_part(tmp_path, monkeypatch):
    rows = [f"{i % 7},{i % 5},{i % 3},{i % 4},{i % 2}\n" for i in range(80)]
    (tmp_path / "pairs.csv").write_text("x_a,x_b,z_a,z_b,same\n" + "".join(rows))
    run("track", "pairs.csv", "--quiet", cwd=tmp_path)
    figures = []
    monkeypatch.setattr(picture_style, "save_figure", lambda figure, path: figures.append(figure))
    run("plot", "pairs.tracker", "history", "-o", tmp_path / "history.png", cwd=tmp_path)
    (accuracy,) = figures[0].axes[0].lines[:1]
    assert accuracy.get_xdata().tolist() == [12.5, 52.5]  # the centres of 25 and 55 pairs


@pytest.mark.parametrize(("label", "texts"), [("price", ["missing"]), ("category", ["missing", "toys", "kitchen"])])
def test_the_picture_of_an_embedding_shows_empty_cells_as_missing(folder, tmp_path, monkeypatch, label, texts):
    figures = []
    monkeypatch.setattr(picture_style, "save_figure", lambda figure, path: figures.append(figure))
    command = ["plot", "answers.tracker", "embedding", *ITEMS, "--label", label, "-o", tmp_path / "map.png"]
    run(*command, cwd=folder)
    (figure,) = figures
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == texts
    assert len(figure.axes) == (2 if label == "price" else 1)  # with a colour scale


def test_inspect_explains_the_rank_and_lists_small_weights_together(folder, tmp_path):
    run(
        "track", folder / "answers.csv", "--items", folder / "items.csv", "--missing", "median", "-o", "t", cwd=tmp_path
    )
    content = json.loads(run("inspect", "t", "--json", cwd=tmp_path).stdout)
    linear, weights = content["rank_linear"], content["weights"].values()
    text = run("inspect", "t", cwd=tmp_path).stdout
    assert f"{content['rank']} ({linear} linear + {content['rank'] - linear} curved)" in text
    assert f"drift per 1000 pairs   {content['drift']:.4g}" in text
    small = [weight for weight in weights if weight < 0.001]
    assert small
    assert re.search(rf"\b{len(small)} others? +{sum(small):.4f}", text)
    assert "0.0000" not in text.partition("Weight of each expert")[2].partition("other")[0]


def test_embed_says_what_it_wrote(folder, tmp_path):
    command = ["embed", "answers.tracker", "items.csv", "--missing", "median", "--dimensions", "99"]
    written = run(*command, "-o", tmp_path / "points.csv", cwd=folder)
    assert f"Saved: {tmp_path / 'points.csv'} (60 rows, 3 columns)" in written.stdout
    assert "Note: the learned space has only 2 dimensions." in written.stderr
    pairs = ["distance", "answers.tracker", "held_out.csv", *ITEMS, "-o", tmp_path / "pairs.csv"]
    assert "pairs.csv (120 rows, 7 columns)" in run(*pairs, cwd=folder).stdout


def test_the_methods_of_a_picture_have_distinct_colours_as_far_as_the_palette_goes():
    assert len({color for color, _ in STYLES[:8]}) == 8
    assert len(set(STYLES)) == len(STYLES)
