"""A file of the wrong kind: every command says in one sentence what it is and what the command expects."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from command import run
from PIL import Image
from pyarrow import csv, feather, parquet

from ocelad import Metric, MetricTracker
from ocelad.cli.file_kind import ITEMS, check_table, describe_file
from ocelad.io.tabular.file_formats import FORMATS

TRACKER = "expects a tracker, saved by `ocelad track`"
PAIRS = "expects pairs: rows with two points (x_..., z_...), or with two ids (id_a, id_b) and --items"
ITEMS_EXPECTED = "expects items: one row per item, with its features"
# Each file, and what it is called where a tracker, pairs and items are expected; None: the command takes it.
KINDS = {
    "items.csv": ("a CSV file", "a table of items (columns 'id', 'a', 'b')", None),
    "answers.csv": ("a CSV file", None, "a file of pairs of ids (id_a, id_b)"),
    "pairs.csv": ("a CSV file", None, "a file of pairs (x_..., z_...)"),
    "items.npy": ("a NumPy file", "a table of items (columns 'vector')", None),
    "a.tracker": (None, "a tracker", "a tracker"),
    "metric": (None, "a metric", "a metric"),
    "picture.png": ("a picture", "a picture", "a picture"),
    "photo.csv": ("a picture", "a picture", "a picture"),
    "folder": ("a folder", "a folder", "a folder"),
    "empty.csv": ("an empty file", "an empty file", "an empty file"),
    "notes.txt": ("a text file", "a text file without columns", "a text file without columns"),
    "random.bin": ("a binary file", "a binary file", "a binary file"),
    "sheet.xlsx": ("an Excel workbook, which can be saved as CSV",) * 3,
    "cut.xlsx": ("an Excel workbook, which can be saved as CSV",) * 3,
    "old.xls": ("an Excel workbook, which can be saved as CSV",) * 3,
    "archive.zip": ("a ZIP archive",) * 3,
    "paper.pdf": ("a PDF file",) * 3,
}
COMMANDS = {
    "tracker": """
        inspect FILE
        embed FILE items.csv
        distance FILE pairs.csv
        neighbors FILE items.csv
        export FILE --to matrix
        evaluate FILE pairs.csv
        plot FILE history
        track pairs.csv --from FILE -o new
        track answers.csv --items items.csv --resume -o FILE
    """,
    "pairs": """
        track FILE -o new
        distance a.tracker FILE
        evaluate a.tracker FILE
        plot a.tracker features --pairs FILE
        inspect a.tracker --pairs FILE
        compare adaptive --stream FILE
    """,
    "items": """
        embed a.tracker FILE
        neighbors a.tracker FILE
        export a.tracker FILE --to npy -o new
        evaluate a.tracker --items FILE --class kind
        plot a.tracker embedding --items FILE
        inspect a.tracker --items FILE
        distance a.tracker answers.csv --items FILE
        track answers.csv --items FILE -o new
        compare adaptive --stream answers.csv --items FILE
    """,
}
# An output must not be an input, and click refuses a folder as output.
NOT_AN_OUTPUT = ("items.csv", "answers.csv", "folder")
# Without the features of a tracker, any columns of numbers are features.
ANY_FEATURES = ("track", "compare")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "items.csv").write_text("id,a,b\n" + "".join(f"i{k},{k},{k * k % 7}\n" for k in range(9)))
    (folder / "answers.csv").write_text("id_a,id_b,same\ni0,i1,yes\ni2,i3,no\n")
    (folder / "pairs.csv").write_text("x_a,x_b,z_a,z_b,similar\n0,1,1,0,1\n2,5,9,7,0\n")
    np.save(folder / "items.npy", np.eye(4))
    MetricTracker(method="rice").start(2, ["a", "b"]).learn_one([0.0, 1.0], [1.0, 0.0], 1).save(folder / "a.tracker")
    Metric(np.eye(2)).save(folder / "metric")
    for name, kind in (("picture.png", "PNG"), ("photo.csv", "JPEG")):
        Image.new("RGB", (4, 4)).save(folder / name, kind)
    (folder / "folder").mkdir()
    (folder / "empty.csv").touch()
    (folder / "notes.txt").write_text("Just some text.\nAnother line.\n")
    (folder / "random.bin").write_bytes(np.random.default_rng(0).bytes(300))
    for name, member in (("sheet.xlsx", "xl/workbook.xml"), ("archive.zip", "a.txt")):
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(member, "content")
    (folder / "cut.xlsx").write_bytes((folder / "sheet.xlsx").read_bytes()[:40])
    (folder / "old.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504))
    (folder / "paper.pdf").write_bytes(b"%PDF-1.7\n")
    return folder


def expect(command, name, kind, expected, folder):
    refused = run(*command.replace("FILE", name).split(), cwd=folder, code=1)
    assert f"Error: {name} is {kind}; `ocelad {command.split()[0]}` {expected}\n" in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("name", KINDS)
def test_a_wrong_file_is_named_with_what_is_expected(folder, name):
    for role, kind, expected in zip(COMMANDS, KINDS[name], (TRACKER, PAIRS, ITEMS_EXPECTED), strict=True):
        for command in commands_for(role) if kind else ():
            if "-o FILE" in command and name in NOT_AN_OUTPUT:
                continue
            if role == "items" and name in ("answers.csv", "pairs.csv") and command.startswith(ANY_FEATURES):
                continue
            expect(command, name, kind, expected, folder)


def commands_for(role):
    return [line.strip() for line in COMMANDS[role].strip().splitlines()]


@pytest.mark.parametrize("name", ["a.tracker", "picture.png", "empty.csv", "random.bin"])
def test_the_commands_of_the_service_name_a_wrong_file(folder, name):
    kind = KINDS[name][2]
    for command, expected in (
        ("serve FILE --data-folder data", "expects a table of items, or a folder of pictures"),
        ("import FILE --project x --data-folder data", "expects answers: a table with id_a, id_b and same"),
    ):
        refused = run(*command.replace("FILE", name).split(), cwd=folder, code=1)
        assert f"{name} is {kind}; `ocelad {command.split()[0]}` {expected}" in refused.stderr
    assert not (folder / "data").exists()


def test_a_metric_has_no_history(folder):
    for kind in ("history", "weights", "features"):
        refused = run("plot", "metric", kind, cwd=folder, code=1)
        assert f"metric is a metric; `ocelad plot` {TRACKER}, to draw its {kind}" in refused.stderr


def test_a_missing_tracker_is_named_with_what_is_expected(folder):
    for command in commands_for("tracker")[:-1]:
        refused = run(*command.replace("FILE", "nothing").split(), cwd=folder, code=1)
        assert f"the file nothing does not exist; `ocelad {command.split()[0]}` {TRACKER}" in refused.stderr


def test_other_errors_of_a_file_of_the_right_kind_stay(folder, tmp_path):
    (tmp_path / "pairs.csv").write_text("x_a,x_b,z_a,similar\n0,1,1,1\n")
    refused = run("track", tmp_path / "pairs.csv", cwd=tmp_path, code=1)
    assert "has the column 'x_b' but no column 'z_b'" in refused.stderr
    damaged = (folder / "a.tracker").read_bytes()[:-1]
    (tmp_path / "damaged").write_bytes(damaged)
    assert "is not a valid tracker file" in run("inspect", tmp_path / "damaged", code=1).stderr


def test_kinds_of_text_and_archives(tmp_path):
    def kind(name, content):
        (tmp_path / name).write_bytes(content)
        return describe_file(tmp_path / name)

    assert kind("a.csv", b"one column\n1\n") == "a CSV file"
    assert kind("b", b"a,b\n") == "a CSV file"
    assert kind("c", "a,ü\n".encode("utf-16")) == "a CSV file"
    assert kind("u", "id,a\n".encode("utf-16-be")) == kind("v", "id,a\n".encode("utf-16-le")) == "a CSV file"
    assert kind("d", b"a\tb\n") == "a TSV file"
    assert kind("e", json.dumps({"a": 1}).encode()) == "a JSON file"
    assert kind("f", b"RIFF\x00\x00\x00\x00WEBP") == "a picture"
    assert kind("g.zip", b"PK\x03\x04") == "a damaged ZIP archive"
    assert kind("h", (2).to_bytes(8, "little") + b"{}") == "a damaged tracker, or a safetensors file of another program"
    np.savez(tmp_path / "i.npz", vectors=np.eye(2))
    assert describe_file(tmp_path / "i.npz") == "a NumPy archive"


@pytest.mark.parametrize("content", ["BMI,age\n1,2\n", "PK,name\n1,a\n", "RIFF,a\n1,2\n", "BM\n1\n"])
def test_names_of_columns_do_not_make_a_table_a_picture_or_an_archive(tmp_path, content):
    (tmp_path / "a.csv").write_text(content)
    assert describe_file(tmp_path / "a.csv") == "a CSV file"


def test_pictures_and_archives_with_short_marks_are_found(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a", "BMP")
    assert describe_file(tmp_path / "a") == "a picture"
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    assert describe_file(tmp_path / "empty.zip") == "a ZIP archive"


def write_stream(table, path):
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


# How a table is written in each format that the library reads.
WRITERS = {
    "csv": lambda table, path: csv.write_csv(table, path),
    "tsv": lambda table, path: csv.write_csv(table, path, csv.WriteOptions(delimiter="\t")),
    "jsonl": lambda table, path: path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist())),
    "parquet": parquet.write_table,
    "arrow": lambda table, path: feather.write_feather(table, str(path)),
    "npy": lambda table, path: np.save(path, table.to_pandas().to_numpy()),
    "npz": lambda table, path: np.savez(path, x=np.eye(2)),
    "arrows": write_stream,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_the_commands_take_every_format_that_the_library_reads(tmp_path, suffix):
    assert set(WRITERS) >= set(FORMATS)
    path = tmp_path / f"table.{suffix}"
    WRITERS[suffix](pa.table({"a": [1.0, 2.0], "b": [3.0, 5.0]}), path)
    check_table(str(path), ITEMS)
