"""ocelad fleet: files with a column of keys, run as a user or a script would run the commands."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from importlib import import_module
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from command import run
from fleet_streams import KeyedStream, keyed_stream, learned, learned_at_once
from pyarrow import ipc, parquet
from scipy.special import expit

from ocelad import MetricTracker
from ocelad.cli.file_kind import describe_file
from ocelad.cli.fleet_report import find_key, format_bytes
from ocelad.fleet import Fleet, FleetDamaged
from ocelad.fleet.file_learning import find_position, learn_chunk
from ocelad.io import open_comparisons, open_items

fleet_track = import_module("ocelad.cli.fleet_track")  # the package has the command of this name
NAMES = ("tempo", "loudness", "length", "year")
COLUMNS = ["user", *(f"{side}_{name}" for side in "xz" for name in NAMES), "similar"]
N_ROWS, CHUNK_ROWS = 1500, 400


def as_texts(stream):
    """Return a stream with the keys as they are in a file."""
    return KeyedStream([str(key) for key in stream.keys], stream.pairs, stream.y)


STREAM = as_texts(keyed_stream(N_ROWS, 30, seed=3))
EXPECTED = learned_at_once(STREAM)


def to_rows(stream):
    flat = stream.pairs.reshape(len(stream), -1).tolist()
    return [[key, *points, int(y)] for key, points, y in zip(stream.keys, flat, stream.y, strict=True)]


def to_csv(rows, columns=COLUMNS, delimiter=","):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows([columns, *rows])
    return out.getvalue()


def to_table(stream):
    columns = {name: pa.array(values) for name, values in zip(COLUMNS, zip(*to_rows(stream), strict=True), strict=True)}
    return pa.table(columns)


def to_json_lines(stream):
    """Keys that are integers are numbers: they are the same keys as texts."""
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in to_rows(stream)]
    return "".join(
        json.dumps(row | {"user": int(row["user"]) if row["user"].isdigit() else row["user"]}) + "\n" for row in rows
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The answers in all formats, items, and what is learned from the answers."""
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "answers.csv").write_text(to_csv(to_rows(STREAM)))
    (folder / "answers.tsv").write_text(to_csv(to_rows(STREAM), delimiter="\t"))
    (folder / "answers.jsonl").write_text(to_json_lines(STREAM))
    with gzip.open(folder / "answers.jsonl.gz", "wt") as file:
        file.write(to_json_lines(STREAM))
    table = to_table(STREAM)
    parquet.write_table(table.set_column(0, "user", table["user"].dictionary_encode()), folder / "answers.parquet")
    with ipc.new_file(str(folder / "answers.arrow"), table.schema) as file:
        file.write_table(table)
    points = np.random.default_rng(5).normal(size=(60, 4))
    users = [*STREAM.keys[:56], "stranger", "stranger", "12345", "12345"]
    rows = [
        [f"song {i}", user, *point, "blue"] for i, (user, point) in enumerate(zip(users, points.tolist(), strict=True))
    ]
    (folder / "items.csv").write_text(to_csv(rows, ["id", "user", *NAMES, "color"]))
    run("fleet", "track", "answers.csv", "--key", "user", cwd=folder)
    return folder


def read_items(folder):
    with open(folder / "items.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [row["user"] for row in rows], np.array([[float(row[name]) for name in NAMES] for row in rows])


def read_fleet(path):
    with Fleet.open(path) as fleet:
        return learned(fleet)


def learned_in_chunks(stream, **settings):
    """Return what is learned in calls of CHUNK_ROWS: the compact form rounds states after each call."""
    with Fleet(**settings) as fleet:
        for first in range(0, len(stream), CHUNK_ROWS):
            fleet.learn(*stream.part(first, first + CHUNK_ROWS))
        return learned(fleet)


def small_chunks():
    return mock.patch("ocelad.io.comparison_files._CHUNK_ROWS", CHUNK_ROWS)


def stopping_after(n_chunks, number=signal.SIGINT):
    """Send a signal to this process while the command learns from a chunk."""
    seen = []

    def learn(*arguments):
        learn_chunk(*arguments)
        seen.append(arguments)
        if len(seen) == n_chunks:
            signal.raise_signal(number)

    return mock.patch("ocelad.fleet.file_learning.learn_chunk", learn)


# Track.


@pytest.mark.parametrize("name", ["csv", "tsv", "jsonl", "jsonl.gz", "parquet", "arrow"])
def test_every_format_gives_the_same_fleet(folder, tmp_path, name):
    """Same bits of all states as Fleet.learn."""
    result = run("fleet", "track", folder / f"answers.{name}", "--key", "user", "-o", tmp_path / "fleet")
    assert read_fleet(tmp_path / "fleet") == EXPECTED
    assert result.stderr == ""
    with Fleet.open(tmp_path / "fleet") as fleet:
        assert fleet.settings.feature_names == NAMES


def test_standard_input(tmp_path):
    part = STREAM.part(0, 200)  # a pipe holds 64 KB
    command = ("fleet", "track", "-", "--key", "user", "--format", "jsonl")
    with mock.patch.object(fleet_track, "PIPE_CHUNK_SIZE", 60):
        run(*command, "-o", tmp_path / "fleet", input=to_json_lines(part))
    assert read_fleet(tmp_path / "fleet") == learned_at_once(part)
    assert "standard input has no name: give --output" in run(*command, code=2).stderr


@pytest.mark.parametrize("settings", [{"form": "compact"}, {"shared": False}])
def test_settings(folder, tmp_path, settings):
    options = ["--form", "compact"] if "form" in settings else ["--no-shared"]
    for source in ("answers.csv", "answers.parquet"):  # with a small memory, states go to the disk and back
        more = ["--memory", "20 KB"] if source == "answers.parquet" else []
        with small_chunks():
            run("fleet", "track", source, "--key", "user", *options, *more, "-o", tmp_path / source, cwd=folder)
        assert read_fleet(tmp_path / source) == learned_in_chunks(STREAM, **settings)
    report = json.loads(run("fleet", "inspect", tmp_path / "answers.csv", "--json").stdout)
    assert report["form"] == settings.get("form", "exact")
    assert report["prior"]["kind"] == ("learned" if settings.get("shared", True) else "none")


def test_answers_about_items_by_id(folder, tmp_path):
    """The pairs are those of the items; a column of the items is left out, and a missing number is filled in."""
    rng = np.random.default_rng(1)
    points, at = rng.normal(size=(40, 3)), rng.integers(40, size=(300, 2))
    keys, y = [f"u{k}" for k in rng.integers(5, size=300)], rng.choice([-1, 1], size=300)
    cells = [[f"i{i}", *row] for i, row in enumerate(points.tolist())]
    cells[7][2] = ""
    points[7, 1] = np.median(np.delete(points[:, 1], 7))
    (tmp_path / "items.csv").write_text(to_csv(cells, ["id", "a", "b", "c"]))
    rows = [[f"i{a}", f"i{b}", key, label] for (a, b), key, label in zip(at.tolist(), keys, y.tolist(), strict=True)]
    (tmp_path / "answers.csv").write_text(to_csv(rows, ["id_a", "id_b", "user", "same"]))
    options = ["--items", "items.csv", "--exclude", "c", "--missing", "median"]
    run("fleet", "track", "answers.csv", "--key", "user", *options, cwd=tmp_path)
    with Fleet.open(tmp_path / "answers.fleet") as fleet:
        assert learned(fleet) == learned_at_once(KeyedStream(keys, points[at][:, :, :2], y))
        assert fleet.settings.feature_names == ("a", "b")
    # The first item of a pair may be the key.
    run("fleet", "track", "answers.csv", "--key", "id_a", *options, "-o", "by_item", cwd=tmp_path)
    by_item = KeyedStream([f"i{a}" for a in at[:, 0]], points[at][:, :, :2], y)
    assert read_fleet(tmp_path / "by_item") == learned_at_once(by_item)


def test_vectors(tmp_path):
    """A column of vectors has no names of features; its points are found again, and rows of another file."""
    part = STREAM.part(0, 200)
    sides = {side: part.pairs[:, i].tolist() for i, side in enumerate("xz")}
    parquet.write_table(pa.table({"user": part.keys, **sides, "same": part.y == 1}), tmp_path / "answers.parquet")
    np.savez(tmp_path / "points.npz", user=np.array(part.keys), vector=part.pairs[:, 0])
    run("fleet", "track", "answers.parquet", "--key", "user", cwd=tmp_path)
    run("fleet", "embed", "answers.fleet", "points.npz", "--key", "user", "-o", "out.parquet", cwd=tmp_path)
    with Fleet.open(tmp_path / "answers.fleet") as fleet:
        assert learned(fleet) == learned_at_once(part)
        assert fleet.settings.feature_names is None
        assert_embedded(parquet.read_table(tmp_path / "out.parquet"), fleet.embed(part.keys, part.pairs[:, 0]))
    (tmp_path / "short.csv").write_text("user,a,b\nx,1,2\n")
    refused = run("fleet", "embed", "answers.fleet", "short.csv", "--key", "user", cwd=tmp_path, code=1)
    assert "Error: short.csv has 2 features; the fleet has 4\n" in refused.stderr


def test_the_report(folder, tmp_path):
    command = ("fleet", "track", folder / "answers.csv", "--key", "user")
    result = run(*command, cwd=tmp_path)
    counts = {key: STREAM.keys.count(key) for key in set(STREAM.keys)}
    assert (
        f"answers per key     median {np.median([*counts.values()]):g}, most {max(counts.values()):,}" in result.stdout
    )
    for words in ("keys                30 ", "answers             1,500 ", "learned from 1,024 answers", "per second"):
        assert words in result.stdout
    assert "Saved: answers.fleet\n" in result.stdout
    report = json.loads(run(*command, "--restart", "--json", cwd=tmp_path).stdout)
    with Fleet.open(tmp_path / "answers.fleet") as fleet:
        assert fleet.key_sizes() == {key: (counts[key], len(fleet.state(key))) for key in fleet.keys()}  # noqa: SIM118
        assert report["keys_with_changes"] == len(fleet.changes())
        assert report["bytes_per_key"] == round(sum(len(fleet.state(key)) for key in fleet) / len(fleet))
    assert (report["keys"], report["answers"], report["features"]) == (30, 1500, 4)
    assert (report["median_answers"], report["most_answers"]) == (np.median([*counts.values()]), max(counts.values()))
    assert (report["skipped"], report["stopped"], report["output"]) == (0, False, "answers.fleet")
    assert report["file_bytes"] == (tmp_path / "answers.fleet").stat().st_size
    assert run(*command, "--restart", "--quiet", cwd=tmp_path).stdout == ""


def test_progress(folder, tmp_path, monkeypatch):
    command = ("fleet", "track", folder / "answers.csv", "--key", "user", "-o", tmp_path / "fleet", "--restart")
    with small_chunks(), mock.patch.object(fleet_track, "LINE_SECONDS", 0.0):
        lines = run(*command).stderr.splitlines()
        assert [re.sub(" +", " ", line) for line in lines[:2]] == [
            f"pair {count} {len(set(STREAM.keys[:count]))} keys saved" for count in (400, 800)
        ]
        assert len(lines) == 4
        assert run(*command, "--json").stderr == run(*command, "--quiet").stderr == ""
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with mock.patch("sys.stderr", terminal), open_comparisons(folder / "answers.csv", key="user") as stream:
        options = {"form": None, "shared": None, "memory": "1 GB", "resume": False, "restart": True}
        with fleet_track._FileLearning(tmp_path / "fleet", options) as learning:
            assert not fleet_track._learn(learning, stream, "stop", is_shown=True)
    assert all(words in terminal.getvalue() for words in ("100%", "1,500 pairs", "30 keys"))


def test_answers_that_are_all_the_same_are_noted(tmp_path):
    (tmp_path / "answers.csv").write_text("user,x_a,z_a,same\nanna,1,2,yes\nben,3,5,yes\n")
    result = run("fleet", "track", "answers.csv", "--key", "user", cwd=tmp_path)
    assert 'Note: all 2 pairs of answers.csv are "same", and none is "different".' in result.stderr


# Resume.


def test_a_killed_run_resumes_to_the_same_bits(folder, tmp_path):
    """SIGKILL while the command waits for the rest of a pipe; what it has learned is in the file."""
    text = to_csv(to_rows(as_texts(keyed_stream(6000, 40, seed=8))))
    output, log = tmp_path / "fleet", tmp_path / "fleet-wal"
    command = [sys.executable, "-m", "ocelad", "fleet", "track", "-", "--key", "user", "-o", str(output)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    process.stdin.write("".join(text.splitlines(keepends=True)[:5000]).encode())
    process.stdin.flush()
    deadline = time.monotonic() + 120
    chunk_bytes = fleet_track.PIPE_CHUNK_SIZE * 37  # of the journal: 4 features, an answer and a key
    while not (log.exists() and log.stat().st_size > chunk_bytes) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    process.stdin.close()
    with Fleet.open(output, durable=True) as fleet:
        assert fleet.n_answers == find_position(fleet)["rows"] == fleet_track.PIPE_CHUNK_SIZE
    (tmp_path / "answers.csv").write_text(text)
    run("fleet", "track", tmp_path / "answers.csv", "--key", "user", "-o", output, "--resume")
    assert read_fleet(output) == learned_at_once(as_texts(keyed_stream(6000, 40, seed=8)))


@pytest.mark.parametrize(("number", "form"), [(signal.SIGINT, "exact"), (signal.SIGTERM, "compact")])
def test_a_stopped_run_resumes_to_the_same_bits(folder, tmp_path, number, form):
    command = ("fleet", "track", folder / "answers.csv", "--key", "user", "-o", tmp_path / "fleet", "--form", form)
    expected = learned_in_chunks(STREAM, form=form)
    with small_chunks(), stopping_after(2, number):
        stopped = run(*command, "--json", code=130)
    assert json.loads(stopped.stdout)["stopped"] is True
    assert f"Stopped and saved; to continue: ocelad fleet track {folder / 'answers.csv'} --key user" in stopped.stderr
    assert stopped.stderr.endswith(" --resume\n")
    with Fleet.open(tmp_path / "fleet") as fleet:
        assert fleet.n_answers == 2 * CHUNK_ROWS
    with small_chunks():
        for _ in range(2):  # the second time, nothing is left
            run(*command, "--resume")
            assert read_fleet(tmp_path / "fleet") == expected


def test_a_signal_is_answered_at_once_and_one_in_the_last_chunk_ends_a_complete_run(folder, tmp_path):
    command = ("fleet", "track", folder / "answers.csv", "--key", "user", "-o", tmp_path / "fleet")
    with stopping_after(1):
        stopped = run(*command, "--json")
    assert json.loads(stopped.stdout)["stopped"] is False
    assert stopped.stderr == (
        "Stopping after the present step; a second Ctrl-C stops at once.\n"
        "Done: all rows had been read, so that nothing is left to continue.\n"
    )
    assert read_fleet(tmp_path / "fleet") == EXPECTED


def test_a_second_signal_ends_the_wait_for_a_compiler(tmp_path):
    (tmp_path / "answers.csv").write_text("user,x_a,z_a,same\nanna,1,2,yes\nben,7,0,no\n")
    program = (
        "import time\n"
        "from unittest import mock\n"
        "from ocelad import cli\n"
        "class Compiler:\n"
        "    def wait(self):\n"
        "        print('compiling', flush=True)\n"
        "        time.sleep(60)\n"
        "loading = 'ocelad.engines.kernel_loading.'\n"
        "with mock.patch(loading + 'kernels_compiled', lambda *families: False), "
        "mock.patch(loading + '_start_compiler', lambda family: Compiler()):\n"
        "    cli.main()\n"
    )
    arguments = [sys.executable, "-c", program, "fleet", "track", "answers.csv", "--key", "user"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path}
    with subprocess.Popen(arguments, env={**os.environ, "NUMBA_DISABLE_JIT": "0"}, **pipes) as process:
        assert process.stdout.readline() == "compiling\n"
        process.send_signal(signal.SIGINT)
        for line in process.stderr:
            if line.startswith("Stopping after the present step"):
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130


def test_the_second_signal_ends_within_a_chunk_that_is_then_completed(folder, tmp_path):
    command = ("fleet", "track", folder / "answers.csv", "--key", "user", "-o", tmp_path / "fleet")
    finish, seen = Fleet._finish, []

    def interrupt(fleet):
        if fleet._pending is not None and len(seen) < 2:
            seen.append(fleet)
            if len(seen) == 2:
                raise KeyboardInterrupt
        finish(fleet)

    with small_chunks(), mock.patch.object(Fleet, "_finish", interrupt):
        assert run(*command, code=130).stdout == ""
    seen.clear()
    with Fleet.open(tmp_path / "fleet") as fleet:
        assert fleet.n_answers == find_position(fleet)["rows"] == 2 * CHUNK_ROWS
    run(*command, "--resume")
    assert read_fleet(tmp_path / "fleet") == EXPECTED


def test_a_file_that_has_grown_is_continued(tmp_path):
    (tmp_path / "answers.csv").write_text(to_csv(to_rows(STREAM.part(0, 700))))
    command = ("fleet", "track", "answers.csv", "--key", "user")
    run(*command, cwd=tmp_path)
    (tmp_path / "answers.csv").write_text(to_csv(to_rows(STREAM)))
    result = run(*command, "--resume", cwd=tmp_path)
    assert "This run learned from 800 answers" in result.stdout
    assert read_fleet(tmp_path / "answers.fleet") == EXPECTED


def test_an_existing_output_is_neither_overwritten_nor_mixed_up(folder, tmp_path):
    command = ("fleet", "track", folder / "answers.csv", "--key", "user", "-o", tmp_path / "fleet")
    run(*command, "--no-shared")

    def refused(*options, code=2):
        return run(*command, *options, code=code).stderr

    assert "exists; --resume continues from it, --restart replaces it" in refused()
    assert "--resume and --restart exclude each other" in refused("--resume", "--restart")
    assert "was started with --no-shared, not --shared; omit the option, or --restart" in refused(
        "--resume", "--shared"
    )
    assert "was started with --form exact, not --form compact" in refused("--resume", "--form", "compact")
    other = run(*command[:3], "--key", "similar", "--label", "user", "-o", tmp_path / "fleet", "--resume", code=1)
    assert "was read with the columns" in other.stderr
    assert read_fleet(tmp_path / "fleet") == learned_at_once(STREAM, shared=False)
    with Fleet.open(tmp_path / "fleet") as fleet:
        fleet.learn("python", STREAM.pairs[:1], STREAM.y[:1])
    assert "last learned in Python and has no position in a file" in refused("--resume")
    run(*command, "--restart")
    assert read_fleet(tmp_path / "fleet") == EXPECTED
    (tmp_path / "fleet").write_text("something else")
    assert "is not a saved fleet; --restart replaces only those" in refused("--restart")
    assert "fleet is a text file; `ocelad fleet track` expects a fleet" in refused("--resume", code=1)
    assert (tmp_path / "fleet").read_text() == "something else"


# Bad rows, and wrong files.


def with_bad_rows(columns=COLUMNS):
    """Return rows with bad ones between them, and the line and the reason of each of these."""
    rows, key, number = to_rows(STREAM), columns.index("user"), columns.index("x_year")
    bad = {
        3: (key, "", "column 'user' is empty; a key is expected: a text of at most 1000 characters, or a whole number"),
        700: (number, "nan", "column 'x_year' holds 'nan'; a finite number is expected"),
        701: (key, "k" * 1001, "a key is expected: a text of at most 1000 characters"),
        1450: (len(columns) - 1, "perhaps", "column 'similar' holds 'perhaps'; accepted: 1/-1"),
    }
    for at, (column, cell, _) in bad.items():
        row = list(rows[at])
        row[column] = cell
        rows.insert(at, row)
    return rows, {at + 2: reason for at, (_, _, reason) in bad.items()}  # the header is line 1


def test_bad_rows(tmp_path):
    rows, reasons = with_bad_rows()
    (tmp_path / "answers.csv").write_text(to_csv(rows))
    command = ("fleet", "track", "answers.csv", "--key", "user")
    first = run(*command, cwd=tmp_path, code=1).stderr
    assert "Nothing was saved. --on-error skip leaves out rows that cannot be read.\n" in first
    assert "Error: answers.csv, line 5: column 'user' is empty; a key is expected" in first
    assert [path.name for path in tmp_path.iterdir()] == ["answers.csv"]
    with small_chunks(), stopping_after(2):
        run(*command, "--on-error", "skip", cwd=tmp_path, code=130)
    side = tmp_path / "answers.csv.fleet-track.skipped.jsonl"
    for _ in range(2):
        result = run(*command, "--on-error", "skip", "--resume", cwd=tmp_path, code=3)
        assert "4 rows were skipped; they are in answers.csv.fleet-track.skipped.jsonl" in result.stderr
        skipped = [json.loads(line) for line in side.read_text().splitlines()]
        assert [row["line"] for row in skipped] == list(reasons)
        assert all(reason in row["reason"] for row, reason in zip(skipped, reasons.values(), strict=True))
        assert read_fleet(tmp_path / "answers.fleet") == EXPECTED


def test_a_bad_row_after_others_leaves_what_was_learned(tmp_path):
    rows, _ = with_bad_rows()
    (tmp_path / "answers.csv").write_text(to_csv(rows[4:]))
    command = ("fleet", "track", "answers.csv", "--key", "user")
    with small_chunks():
        stopped = run(*command, cwd=tmp_path, code=1).stderr
    assert "answers.fleet has the first 400 pairs; --resume continues from there; --resume --on-error skip" in stopped
    (tmp_path / "answers.csv").write_text(to_csv(to_rows(STREAM.part(3))))
    run(*command, "--resume", cwd=tmp_path)  # the file was corrected
    assert read_fleet(tmp_path / "answers.fleet") == learned_at_once(STREAM.part(3))


@pytest.mark.parametrize(
    ("rows", "options", "code", "sentence"),
    [
        (
            "user,x_a,z_a,same\na,1,2,1\n",
            ["--key", "tenant"],
            1,
            "has no column 'tenant' (--key); it has 'user', 'x_a'",
        ),
        (
            "user,x_a,z_a,same\na,1,2,1\n",
            ["--key", "same", "--label", "same"],
            1,
            "'same' (--key) has another role, too",
        ),
        ("user,x_a,z_a,same\na,1,2,1\n", [], 2, "Missing option '--key'"),
        ("user,x_a,z_a,same\n", ["--key", "user"], 1, "has no rows to learn from"),
        ("user,x_a,z_a,same\n,1,2,1\n", ["--key", "user", "--on-error", "skip"], 1, "has no rows to learn from"),
        ("user,a,b\na,1,2\n", ["--key", "user"], 1, "has no column 'similar' or 'same' or 'label' or 'y'"),
        ("user,x_a,z_a,same\na,1,1e80,1\n", ["--key", "user"], 1, "line 2: x and z are too far apart"),
        ("user,x_a,z_a,same\na,1,1e16,1\n", ["--key", "user", "--form", "compact"], 1, "up to 1e+15 are accepted"),
        (
            "user,x_a,z_a,same\na,1,2,1\n",
            ["--key", "user", "--memory", "much"],
            2,
            "memory is 'much'; accepted: a number",
        ),
        ("user,x_a,z_a,same\na,1,2,1\n", ["--key", "user", "-o", "no/fleet"], 2, "the folder 'no' does not exist"),
    ],
)
def test_what_is_refused_leaves_no_fleet(tmp_path, rows, options, code, sentence):
    (tmp_path / "answers.csv").write_text(rows)
    refused = run("fleet", "track", "answers.csv", *options, cwd=tmp_path, code=code).stderr
    assert sentence in refused
    assert not (tmp_path / "answers.fleet").exists()


def test_the_compact_form_of_many_features_is_refused_before_a_file_is_replaced(tmp_path):
    pairs = np.zeros((2, 2, 129))
    pairs[0] += 1.0
    table = {"user": ["a", "b"], "x": pairs[:, 0].tolist(), "z": pairs[:, 1].tolist(), "same": [True, False]}
    parquet.write_table(pa.table(table), tmp_path / "answers.parquet")
    command = ("fleet", "track", "answers.parquet", "--key", "user")
    run(*command, cwd=tmp_path)
    before = read_fleet(tmp_path / "answers.fleet")
    refused = run(*command, "--restart", "--form", "compact", cwd=tmp_path, code=1).stderr
    assert "--form compact is for at most 128 features; got 129. Accepted: --form exact" in refused
    assert read_fleet(tmp_path / "answers.fleet") == before


def test_wrong_files_are_named(folder, tmp_path):
    MetricTracker(method="rice").start(2).learn_one([0.0, 1.0], [1.0, 0.0], 1).save(tmp_path / "a.tracker")
    (tmp_path / "notes.txt").write_text("Just some text.\n")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (a)").connection.close()
    assert describe_file(folder / "answers.fleet") == "a fleet"
    assert describe_file(tmp_path / "other.db") == "an SQLite database"
    fleet = "expects a fleet, saved by `ocelad fleet track`"
    for name, kind, more in (
        ("a.tracker", "a tracker", "; for a tracker: `ocelad {}`"),
        ("notes.txt", "a text file", ""),
        ("other.db", "an SQLite database", ""),
    ):
        for command in ("inspect", "embed"):
            options = [folder / "items.csv", "--key", "user"] if command == "embed" else []
            refused = run("fleet", command, name, *options, cwd=tmp_path, code=1).stderr
            assert f"Error: {name} is {kind}; `ocelad fleet {command}` {fleet}{more.format(command)}\n" in refused
    missing = run("fleet", "inspect", tmp_path / "nothing", code=1).stderr
    assert f"nothing does not exist; `ocelad fleet inspect` {fleet}" in missing
    tracker = "expects a tracker, saved by `ocelad track`"
    for command in ("inspect", "embed"):
        options = ["items.csv"] if command == "embed" else []
        refused = run(command, "answers.fleet", *options, cwd=folder, code=1).stderr
        assert (
            f"answers.fleet is a fleet; `ocelad {command}` {tracker}; for a fleet: `ocelad fleet {command}`\n"
            in refused
        )
    refused = run("fleet", "track", "answers.fleet", "--key", "user", "-o", tmp_path / "new", cwd=folder, code=1).stderr
    assert "answers.fleet is a fleet; `ocelad fleet track` expects pairs" in refused
    refused = run("fleet", "embed", "answers.fleet", "answers.csv", "--key", "user", cwd=folder, code=1).stderr
    assert "answers.csv is a file of pairs (x_..., z_...); `ocelad fleet embed` expects items" in refused


def test_a_fleet_in_use_and_a_damaged_one(folder, tmp_path):
    content = (folder / "answers.fleet").read_bytes()
    path = tmp_path / "fleet"
    path.write_bytes(content)
    track = ("fleet", "track", folder / "answers.csv", "--key", "user", "-o", path)
    commands = (("fleet", "inspect", path), (*track, "--resume"))
    with Fleet.open(path):
        for command in (*commands, (*track, "--restart")):
            assert (
                "fleet' is in use by another process or another fleet; close that one" in run(*command, code=1).stderr
            )
    for damaged in (content[: len(content) // 2], content[:200], content[:9000] + b"\xff" * 60_000 + content[69_000:]):
        path.write_bytes(damaged)
        for command in commands:
            refused = run(*command, code=1).stderr
            assert re.search(r"Error: .*fleet' is damaged", refused)
            assert len(refused.splitlines()) == 1
    run(*track, "--restart")
    assert read_fleet(path) == EXPECTED


# Inspect.


def test_inspect_a_fleet(folder, tmp_path):
    text = run("fleet", "inspect", "answers.fleet", "--keys", "3", cwd=folder).stdout
    content = json.loads(run("fleet", "inspect", "answers.fleet", "--keys", "3", "--json", cwd=folder).stdout)
    with Fleet.open(folder / "answers.fleet") as fleet:
        expected = sorted(fleet, key=lambda key: -fleet.summary(key).n_answers)[:3]
        assert [row["key"] for row in content["most_active"]] == expected
        for row in content["most_active"]:
            summary = fleet.summary(row["key"])
            assert (row["answers"], row["drift"]) == (summary.n_answers, 1000 * summary.drift)
            assert f"{row['answers']:,}" in text
            assert f"{row['drift']:.3f}" in text
        assert content["prior"]["answers"] == 1024
        assert f"weight {content['prior']['weight']:.0%} in a new key" in text
    assert content["file_bytes"] == (folder / "answers.fleet").stat().st_size
    assert format_bytes(content["file_bytes"]) in text
    with Fleet(path=tmp_path / "empty"):
        pass
    assert "keys                0" in run("fleet", "inspect", tmp_path / "empty").stdout


def test_inspect_a_key_and_its_changes(tmp_path):
    """The question of one key changes; feature names come from the file, and the key is an integer in Python."""
    rng = np.random.default_rng(2)
    pairs = rng.normal(size=(1200, 2, 3))
    near = abs(pairs[:, 0] - pairs[:, 1]) < 1
    feature = np.where(np.arange(1200) < 600, 0, 1)
    names = ["height", "[width]", "depth"]
    tables = [pa.table(list(pairs[:, side].T), names=names) for side in (0, 1)]
    with Fleet(path=tmp_path / "fleet") as fleet:
        fleet.learn(17, tuple(tables), near[np.arange(1200), feature]).learn("steady", pairs[:200], near[:200, 2])
        change = fleet.changes(17)[0]
        summary, metric = fleet.summary(17), fleet.metric(17)
    content = json.loads(run("fleet", "inspect", tmp_path / "fleet", "--key", "17", "--json").stdout)
    assert (content["key"], content["answers"]) == (17, 1200)
    assert content["drift"] == 1000 * summary.drift
    assert content["changes"] == [each._asdict() for each in summary.changes]
    assert content["feature_weights"][0]["feature"] == "[width]"
    assert content["feature_weights"][0]["weight"] == metric.diagonal[1]
    assert content["prior_answers"] is None
    text = run("fleet", "inspect", tmp_path / "fleet", "--key", "17", "--features", "1").stdout
    for words in ("Key 17", "[width]", f"{change.round:,}", f"{change.evidence:.1f}"):
        assert words in text
    assert "height" not in text
    late = json.loads(run("fleet", "inspect", tmp_path / "fleet", "--key", "steady", "--json").stdout)
    assert late["prior_answers"] == 1024
    changed = json.loads(run("fleet", "inspect", tmp_path / "fleet", "--changed", "--json").stdout)
    assert [row["key"] for row in changed["most_active"]] == [17]
    assert changed["keys_with_changes"] == 1
    assert "Keys with changes" in run("fleet", "inspect", tmp_path / "fleet", "--changed").stdout
    unknown = run("fleet", "inspect", tmp_path / "fleet", "--key", "018", code=1).stderr
    assert unknown.endswith("fleet has no key '018'; accepted: one of its 2 keys, such as '17', 'steady'\n")


def test_keys_by_their_texts():
    fleet = Fleet().learn(["7", 7, 8, -1, "x"], STREAM.pairs[:5], STREAM.y[:5])
    texts = ("7", "8", "-1", "x", "08", "9", "8.0", "99999999999999999999", "-9999999999999999999")
    assert [find_key(fleet, text) for text in texts] == ["7", 8, -1, "x", *[None] * 5]


# Embed.


def assert_embedded(table, expected):
    points = np.column_stack([table[f"dimension_{j}"].to_numpy() for j in range(expected.shape[1])])
    np.testing.assert_array_equal(points, expected)


def test_embed(folder, tmp_path):
    command = ("fleet", "embed", "answers.fleet", "items.csv", "--key", "user")
    users, X = read_items(folder)
    for memory in ("1 GB", "10 KB"):
        out = tmp_path / f"{memory}.parquet"
        result = run(*command, "--label", "color", "-o", out, "--memory", memory, cwd=folder)
        assert f"Saved: {out} (60 rows, 7 columns)\n" in result.stdout
        table = parquet.read_table(out)
        assert table.column_names == ["id", "user", "color", *(f"dimension_{j}" for j in range(4))]
        assert table["id"].to_pylist() == [f"song {i}" for i in range(60)]
        assert table["user"].to_pylist() == users
        assert set(table["color"].to_pylist()) == {"blue"}
        with Fleet.open(folder / "answers.fleet") as fleet:
            assert_embedded(table, fleet.embed(users, X))
        assert "Note: 4 rows of 2 unknown keys, such as 'stranger', mapped by the shared prior.\n" in result.stderr
    with mock.patch("ocelad.io.item_files._CHUNK_ROWS", 7):
        lines = run(*command, "--label", "color", cwd=folder).stdout.splitlines()
    assert [float(cell) for cell in lines[1].split(",")[-4:]] == [table[f"dimension_{j}"][0].as_py() for j in range(4)]
    assert len(lines) == 61


def test_embed_by_integer_keys_of_python_and_by_ids(tmp_path):
    """The ids may be the keys; without a shared prior, unknown keys have the Euclidean distance."""
    part = STREAM.part(0, 300)
    keys = [hash(key) % 5 for key in map(len, part.keys)]
    with Fleet(path=tmp_path / "fleet", shared=False) as fleet:
        fleet.learn(keys, part.pairs, part.y)
        expected = fleet.embed([keys[0], 77], part.pairs[:2, 0])
    rows = [[key, *point] for key, point in zip([keys[0], 77], part.pairs[:2, 0].tolist(), strict=True)]
    (tmp_path / "items.csv").write_text(to_csv(rows, ["id", *NAMES]))
    result = run("fleet", "embed", "fleet", "items.csv", "--key", "id", "-o", "out.parquet", cwd=tmp_path)
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table.column_names[:2] == ["id", "dimension_0"]
    assert_embedded(table, expected)
    assert "1 row of 1 unknown key, such as '77', mapped by the Euclidean distance" in result.stderr


def test_bad_rows_of_items_and_refused_items(folder, tmp_path):
    (tmp_path / "items.csv").write_text("user,tempo,loudness,length,year\na,1,2,3,4\n,1,2,3,4\na,1,2,,4\n")
    command = ("fleet", "embed", folder / "answers.fleet", "items.csv", "--key", "user", "-o", "out.csv")
    refused = run(*command, cwd=tmp_path, code=1).stderr
    assert "Error: items.csv, line 3: column 'user' is empty; a key is expected" in refused
    assert not (tmp_path / "out.csv").exists()
    run(*command, "--on-error", "skip", cwd=tmp_path, code=3)
    assert (tmp_path / "items.csv.fleet-embed.skipped.jsonl").read_text().count("\n") == 2
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith('0,"a",')
    for change, sentence in (
        (("tempo", "speed"), "items.csv lacks the columns 'tempo', which the tracker was trained on"),
        (("user,", "tenant,"), "items.csv has no column 'user' (--key)"),
    ):
        (tmp_path / "items.csv").write_text("user,tempo,loudness,length,year\na,1,2,3,4\n".replace(*change))
        assert sentence.replace("columns", "column") in run(*command, cwd=tmp_path, code=1).stderr.replace(
            "columns", "column"
        )
    (tmp_path / "items.csv").write_text("dimension_2,tempo,loudness,length,year\na,1,2,3,4\n")
    refused = run(*command[:4], "--key", "dimension_2", cwd=tmp_path, code=2).stderr
    assert "--key dimension_2 has the name of a column of the output; rename it" in refused
    with Fleet(path=tmp_path / "empty"):
        pass
    refused = run("fleet", "embed", "empty", "items.csv", "--key", "user", cwd=tmp_path, code=1).stderr
    assert "Error: empty has learned nothing yet\n" in refused


# What the commands need of streams and of fleets.


def test_keys_of_streams(folder, tmp_path):
    with open_comparisons(folder / "answers.arrow", key="user", chunk_size=None) as stream:
        chunk = next(stream)
        assert chunk.keys == STREAM.keys
        assert len(list(stream)) == 0
    with open_comparisons(folder / "answers.csv") as stream:
        assert next(stream).keys is None
    rows = [{"id": "a", "label": 5, "v": 1.0}, {"id": "b", "label": 5.0, "v": 2.0}, {"id": "c", "label": "5", "v": 3.0}]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with open_items(tmp_path / "items.jsonl", key="label") as stream:  # then it is no label
        items = next(stream)
    assert (items.keys, items.labels, items.X.shape) == (["5", "5", "5"], None, (3, 1))
    (tmp_path / "items.jsonl").write_text('{"id": "a", "user": "\\ud800", "v": 1.0}\n')
    with (
        open_items(tmp_path / "items.jsonl", key="user") as stream,
        pytest.raises(ValueError, match="a key is expected"),
    ):
        next(stream)
    table = pa.table({"user": [1.0, 2.0, float("nan")], "v": [1.0, 2.0, 3.0]})
    parquet.write_table(table, tmp_path / "items.parquet")
    with open_items(tmp_path / "items.parquet", key="user", on_error="skip") as stream:
        assert [chunk.keys for chunk in stream] == [["1", "2"]]


@pytest.mark.parametrize("durable", [False, True])
def test_a_note_is_saved_with_the_answers(tmp_path, durable):
    path = tmp_path / "fleet"
    with Fleet(path=path, durable=durable) as fleet:
        assert fleet.note == ""
        assert fleet.learn("a", STREAM.pairs[:9], STREAM.y[:9], note="é 9").note == "é 9"
        with pytest.raises(TypeError, match="note is a int; accepted: a text"):
            fleet.learn("a", STREAM.pairs[:9], STREAM.y[:9], note=9)
        with pytest.raises(ValueError, match="note cannot be encoded as UTF-8"):
            fleet.learn("a", STREAM.pairs[:9], STREAM.y[:9], note="\ud800")
        fleet.learn("a", STREAM.pairs[:0], STREAM.y[:0], note="no answers")
        assert (fleet.note, fleet.n_answers) == ("é 9", 9)
    with Fleet.open(path, durable=durable) as fleet:
        assert fleet.note == "é 9"
    fleet = Fleet.open(path, durable=durable)
    fleet.learn("a", STREAM.pairs[9:12], STREAM.y[9:12], note="12")
    fleet._states.close()  # as if the process had been killed
    with Fleet.open(path) as fleet:
        assert (fleet.n_answers, fleet.note) == ((12, "12") if durable else (9, "é 9"))
        assert fleet.learn("b", STREAM.pairs[:1], STREAM.y[:1]).note == ""
    with Fleet.open(path) as fleet:
        assert fleet.note == ""
        assert find_position(fleet) is None


def test_open_takes_the_settings_of_the_file_and_reading_writes_nothing(tmp_path):
    for form in ("exact", "compact"):
        for shared in (True, False):
            path = tmp_path / f"{form} {shared}"
            with Fleet(path=path, form=form, shared=shared) as fleet:
                fleet.learn(*STREAM.part(0, 200))
                before = learned(fleet)
            content, written = path.read_bytes(), path.stat().st_mtime_ns
            with Fleet.open(path) as fleet:
                assert (fleet.form, fleet.settings.shared) == (form, "learned" if shared else "none")
                assert learned(fleet) == before
                sizes = fleet.key_sizes()
                assert list(sizes) == fleet.keys()
                assert all(sizes[key].n_answers == fleet.summary(key).n_answers for key in fleet)
            assert (path.read_bytes(), path.stat().st_mtime_ns) == (content, written)
    with pytest.raises(FileNotFoundError, match=r"the file .*nothing' does not exist; accepted: the file of a fleet"):
        Fleet.open(tmp_path / "nothing")
    (tmp_path / "empty").touch()
    with pytest.raises(FleetDamaged, match="is empty"):
        Fleet.open(tmp_path / "empty")


def test_a_fleet_with_a_fixed_prior(folder, tmp_path):
    with Fleet().learn(*STREAM.part(0, 64)) as fleet:
        prior = fleet.prior
    with Fleet(path=tmp_path / "fleet", shared=prior) as fleet:
        fleet.learn("a", STREAM.pairs[:70], STREAM.y[:70], note=json.dumps({"position": {}}))
    content = json.loads(run("fleet", "inspect", tmp_path / "fleet", "--json").stdout)
    assert content["prior"] == {"kind": "fixed", "weight": pytest.approx(expit(prior.log_weight))}
    assert "fixed, weight" in run("fleet", "inspect", tmp_path / "fleet").stdout
    key = json.loads(run("fleet", "inspect", tmp_path / "fleet", "--key", "a", "--json").stdout)
    assert (key["answers"], key["prior_answers"]) == (70, None)
    command = ("fleet", "track", folder / "answers.csv", "--key", "user", "-o", tmp_path / "fleet", "--resume")
    for option in ("--shared", "--no-shared"):
        refused = run(*command, option, code=2).stderr
        assert f"was started with a prior of its own, not {option}; omit the option, or --restart" in refused


def test_sizes_of_keys_in_memory_and_on_the_disk(tmp_path):
    with Fleet(path=tmp_path / "fleet", memory=30_000).learn(*STREAM) as fleet:
        assert 0 < len(fleet._states._held) < len(fleet)
        assert fleet.key_sizes() == {key: (STREAM.keys.count(key), len(fleet.state(key))) for key in fleet.keys()}  # noqa: SIM118


def test_sizes_of_keys_are_read_once(folder, tmp_path, monkeypatch):
    sizes, calls = Fleet.key_sizes, []
    monkeypatch.setattr(Fleet, "key_sizes", lambda fleet: calls.append(1) or sizes(fleet))
    output = str(tmp_path / "fleet")
    for arguments in (
        ["track", str(folder / "answers.csv"), "--key", "user", "-o", output],
        ["inspect", output],
        ["inspect", output, "--changed"],
    ):
        calls.clear()
        CliRunner().invoke(import_module("ocelad.cli.fleet").fleet, arguments, catch_exceptions=False)
        assert len(calls) == 1


def test_a_shell_completes_the_commands_of_fleets():
    environment = {"_OCELAD_COMPLETE": "bash_complete", "COMP_WORDS": "ocelad fleet ", "COMP_CWORD": "2"}
    completed = subprocess.run(
        [sys.executable, "-m", "ocelad"], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert {line.partition(",")[2] for line in completed.stdout.split()} == {"track", "inspect", "embed"}
