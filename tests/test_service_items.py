"""Items: equal results from every format, one-sentence errors, and scaling that is independent of units."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from ocelad.io import open_items
from ocelad.service import serialize
from ocelad.service.items import (
    ItemsError,
    UploadLimits,
    check_new_items,
    column_values,
    default_cards,
    fit_scaling,
    items_digest,
    largest_differences,
    list_columns,
    load_built_in,
    load_items,
    read_upload,
    source_digest,
    write_items,
)
from ocelad.service.items.item_scaling import MAX_SCALED_RANGE
from ocelad.service.items.load_items import parse_upload
from ocelad.service.items.text_features import text_features
from ocelad.service.items.upload_limits import MAX_FIELD_LENGTH, MAX_TEXT_LENGTH
from ocelad.service.itemset import ItemSet
from ocelad.service.wire import NewItem

ROWS = [
    {
        "id": f"i{k}",
        "height": k * 1.5,
        "width": float(k % 7) - 0.1,
        "flag": k % 2 == 0,
        "word": ("red", "blue")[k % 2],
        "story": f"a story of some length, “quoted”, of the item with the number {k}",
        "label": k % 3,
    }
    for k in range(60)
]


def as_csv(rows: list[dict[str, Any]], separator: str = ",") -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return out.getvalue().encode()


def as_jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def as_parquet(rows: list[dict[str, Any]] | pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows), out, **options)
    return out.getvalue()


def as_arrow(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pa.feather.write_feather(pa.Table.from_pylist(rows), out)
    return out.getvalue()


WRITERS = {
    "csv": as_csv,
    "tsv": lambda rows: as_csv(rows, "\t"),
    "csv.gz": lambda rows: gzip.compress(as_csv(rows)),
    "jsonl": as_jsonl,
    "jsonl.gz": lambda rows: gzip.compress(as_jsonl(rows)),
    "parquet": as_parquet,
    "arrow": as_arrow,
}
UPLOADS = {"csv": as_csv, "jsonl": as_jsonl, "parquet": as_parquet}


def read_text(text: str, **options: Any) -> ItemSet:
    return parse_upload(text.encode(), "csv", **options)


def points(items: ItemSet) -> np.ndarray:
    return np.asarray(items.points) - items.points[0]


# Reading tables


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_gives_the_same_items(suffix, tmp_path):
    path = tmp_path / f"items.{suffix}"
    path.write_bytes(WRITERS[suffix](ROWS))
    items = load_items(path)
    assert items.ids == tuple(row["id"] for row in ROWS)
    assert items.feature_names == ("height", "width")
    assert items.features.tolist() == [[row["height"], row["width"]] for row in ROWS]
    assert items.display == "text"
    assert items.text == [row["story"] for row in ROWS]
    assert items.fields == {name: [row[name] for row in ROWS] for name in ("flag", "word", "label")}
    assert [type(values[0]) for values in items.fields.values()] == [bool, str, int]
    assert items.scaling.kind == "features"
    assert items_digest(items) == items_digest(parse_upload(as_jsonl(ROWS), "jsonl"))


NUMBERS = st.floats(-1e3, 1e3) | st.integers(-5, 5).map(float)
# With a first letter, so that a word is never a number or a boolean.
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=8).map("w{}".format)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, WORDS, st.none() | WORDS), min_size=2, max_size=40))
def test_formats_agree_on_any_rows(cells):
    cells[0] = (2e3, 0.0, "w", "w")  # items differ, and texts are texts from the first row on
    rows = [dict(zip(("a", "b", "lines", "X"), row, strict=True)) for row in cells]
    found = {format: parse_upload(write(rows), format) for format, write in UPLOADS.items()}
    assert len({items_digest(items) for items in found.values()}) == 1
    assert found["csv"].features.tolist() == [[row["a"], row["b"]] for row in rows]


def test_items_without_ids_are_numbered_as_by_open_items(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("a,b\n1,2\n3,4\n5,7\n")
    with open_items(path) as stream:
        assert [str(id) for chunk in stream for id in chunk.ids] == list(load_items(path).ids) == ["0", "1", "2"]


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_column_of_lists_becomes_the_features(format):
    rows = [{"id": k, "year": 1990 + k % 30, "vector": [k * 0.5, -1.0, k % 3]} for k in range(30)]
    items = parse_upload(UPLOADS[format](rows), format)
    assert items.features.tolist() == [row["vector"] for row in rows]
    assert items.feature_names == ("0", "1", "2")
    assert items.scaling.kind == "all"
    assert items.fields == {"year": [row["year"] for row in rows]}


def test_texts_without_numbers_get_features_from_their_words(tmp_path):
    subjects = {"refund": "please refund my money for the order", "login": "cannot login password reset fails"}
    words = np.random.default_rng(0).permutation([f"word{k}" for k in range(100)])
    rows = [{"body": f"{list(subjects.values())[k % 2]} {words[k]}", "urgent": k % 3 == 0} for k in range(100)]
    items = parse_upload(as_csv(rows), "csv")
    assert items.display == "text"
    assert items.text == [row["body"] for row in rows]
    assert items.features.shape == (100, 64)
    assert len(set(items.feature_names)) == 64
    assert {"refund", "login"} & set("·".join(items.feature_names[:2]).split("·")) or "password" in "".join(
        items.feature_names[:2]
    )
    near = np.linalg.norm(items.points[0] - items.points[2::2], axis=1).max()
    far = np.linalg.norm(items.points[0] - items.points[1::2], axis=1).min()
    assert near < far
    assert items_digest(items) == items_digest(parse_upload(as_csv(rows), "csv"))


def test_given_roles_of_columns_are_used():
    rows = [{**row, "key": f"k{k}"} for k, row in enumerate(ROWS)]
    items = parse_upload(as_csv(rows), "csv", id="key", text="word", features="h*", fields=["width"])
    assert items.ids[:2] == ("k0", "k1")
    assert items.text is not None
    assert items.text[:2] == ["red", "blue"]
    assert items.feature_names == ("height",)
    assert set(items.fields) == {"id", "width", "flag", "story", "label"}
    assert parse_upload(as_csv(rows), "csv", features="h*, width").feature_names == ("height", "width")
    words = parse_upload(as_csv(rows), "csv", features="story", text="word")
    assert words.text == items.text
    assert words.feature_names == text_features("", [row["story"] for row in ROWS])[1]
    assert words.fields["height"][1] == 1.5


@pytest.mark.parametrize(
    ("text", "features", "display", "fields"),
    [
        ("a,target,Y\n1,5,6\n2,6,7\n", ["a"], "features", {"target": [5, 6], "Y": [6, 7]}),
        (",a\n0,5\n1,6\n", ["a"], "features", {}),
        ("a,b\n1,x\n2,\n", ["a"], "features", {"b": ["x", None]}),
        ("a,b\n1,true\n2,FALSE\n", ["a"], "features", {"b": [True, False]}),
        ("a,label\n1,1.5\n2,x\n", ["a"], "features", {"label": ["1.5", "x"]}),
        ("a,b\n1,\n2,\n", ["a"], "features", {"b": [None, None]}),
        (f"a,b\n1,{'x' * 29}\n2,y\n", ["a"], "features", {"b": ["x" * 29, "y"]}),
        (f"a,b\n1,{'x' * 59}\n2,y\n", ["a"], "text", {}),
        ("a,b\nred,apples\nred,pears\n", ["apples", "pears"], "text", {"a": ["red", "red"]}),
    ],
)
def test_default_roles_of_columns(text, features, display, fields):
    items = read_text(text)
    assert sorted(set("·".join(items.feature_names).split("·"))) == features
    assert items.display == display
    assert items.fields == fields


def test_long_texts_are_truncated():
    rows = [{"a": k, "word": "w" * 3000, "story": "s" * 30_000} for k in range(3)]
    items = parse_upload(as_jsonl(rows), "jsonl")
    assert items.text == ["s" * (MAX_TEXT_LENGTH - 1) + "…"] * 3
    assert items.fields == {"word": ["w" * (MAX_FIELD_LENGTH - 1) + "…"] * 3}


def test_characters_that_cannot_be_stored_are_replaced():
    rows = [{"a": k, "word": "x\0", "story": "a long story with an unpaired surrogate: \ud800"} for k in range(3)]
    items = parse_upload(as_jsonl(rows), "jsonl")
    assert items.text == ["a long story with an unpaired surrogate: \ufffd"] * 3
    assert items.fields == {"word": ["x\ufffd"] * 3}


INVALID = {
    "nothing": (b"", "csv", "is empty"),
    "blank": (b"\n\n", "csv", "is empty"),
    "header only": (b"a,b\n", "csv", "has no items; at least 2"),
    "one item": (b"a,b\n1,2\n", "csv", "has one item; at least 2"),
    "no header": (b"1,2\n3,4\n", "csv", "has no header"),
    "not a number": (b"a,b\n1,2\n3,nan\n4,5\n", "csv", "line 3: column 'b' holds 'nan'; a finite number is expected"),
    "infinite": (b"a,b\n1,2\n3,1e999\n4,5\n", "csv", "line 3: column 'b' holds '1e999'"),
    "missing": (b"a,b\n1,2\n3,\n4,5\n", "csv", "line 3: column 'b' is empty; .* fields="),
    "too large": (b"a,b\n1,2\n3,1e200\n", "csv", "line 3: 'b' is 1e\\+200; at most 1e\\+150 is accepted"),
    "id twice": (b"id,a\nx,1\ny,2\nx,3\n", "csv", "line 4: the id 'x' occurs in line 2 already"),
    "no id": (b"id,a\nx,1\n,2\n", "csv", "line 3: column 'id' is empty; an id is expected"),
    "long id": (b"id,a\nx,1\n" + b"y" * 201 + b",2\n", "csv", "line 3: the id 'y+.* longer than 200"),
    "control in an id": (
        b"id,a\nx,1\ny\x1b[2J,2\n",
        "csv",
        "line 3: the id 'y.* contains U\\+001B, an invisible character",
    ),
    "an id that turns": ("id,a\nx,1\ny\u202etxt,2\n".encode(), "csv", "line 3: the id 'y.* contains U\\+202E"),
    "column twice": (b"a,a\n1,2\n", "csv", "has the column 'a' twice"),
    "long name": (b"a" * 201 + b"\n1\n2\n", "csv", "longer than 200 characters"),
    "cells missing": (b"a,b\n1,2\n3\n", "csv", "line 3: the row has 1 cells; the header has 2"),
    "no features": (b"label\n1\n2\n", "csv", "has no columns of features"),
    "no words": (b"a,b\n?!,--\n..,;;\n", "csv", "the texts of the upload contain no words"),
    "all the same": (b"a,b\n1,2\n1,2\n", "csv", "all items have the same features"),
    "mixed encodings": ("a,b,n\n1,2,é\n".encode() + b"3,4,\xff\n", "csv", "line 3: byte 0xff is not text"),
    "not in Windows-1252": (b"a,b\n1,2\n3,\x81\n", "csv", "line 3: byte 0x81 is not text"),
    "half a character of UTF-16": ("a,b\n1,2\n".encode("utf-16")[:-1], "csv", "not valid UTF-16"),
    "a dot": (b"id,x\na,1\n.,2\n", "csv", "line 3: the id '.' is a dot or two dots"),
    "two dots": (b"id,x\n..,1\na,2\n", "csv", "line 2: the id '..' is a dot or two dots"),
    "no width": ("id,x\na,1\na\u200bb,2\n".encode(), "csv", r"line 3: the id '.*' contains U\+200B, an invisible"),
    "a blank before": (b"id,x\na,1\n b,2\n", "csv", "line 3: the id ' b' begins or ends with a blank"),
    "a column of a dot": (b"id,x,.\na,1,f\nb,2,g\n", "csv", "a column cannot be named '.'"),
    "not JSON": (b'{"a": 1}\n{"a": \n', "jsonl", "line 2: the line is not JSON"),
    "an array": (b"[1, 2]", "jsonl", "begins with '\\['"),
    "two lists": (b'{"a": [1], "b": [2]}\n', "jsonl", "several columns of lists, 'a', 'b'"),
    "half an id": (b'{"id": "a", "b": 2}\n{"id": "\\ud800", "b": 1}\n', "jsonl", "line 2: the id '.*invalid in UTF-8"),
    "half a name": (b'{"a": 1, "\\ud800": 2}\n{"a": 3, "\\ud800": 1}\n', "jsonl", "the name '.*invalid in UTF-8"),
    "a member's name": (b'{"v": {"id": 1, "b": 2}}\n', "jsonl", "a feature cannot be named 'id'"),
    "short list": (b'{"a": [1, 2]}\n{"a": [2]}\n', "jsonl", "line 2: column 'a' holds 1 numbers; 2 are expected"),
    "key twice": (b'{"a": 1, "w": "x"}\n{"a": 2, "w": "x", "w": "y"}\n', "jsonl", "line 2: 'w' occurs twice"),
    "no Parquet": (b"a,b\n1,2\n", "parquet", "is not a Parquet file"),
    "Parquet as CSV": (as_parquet(ROWS), "csv", "is a Parquet file by its first bytes"),
    "truncated Parquet": (as_parquet(ROWS)[:-30], "parquet", "truncated, damaged or in another format"),
    "damaged gzip": (gzip.compress(as_csv(ROWS))[:-30], "csv", "truncated"),
    "null in Parquet": (as_parquet([{"a": 1.0}, {"a": None}]), "parquet", "row 2: column 'a' is empty"),
    "no columns": (as_parquet(pa.table({})), "parquet", "has no columns"),
}


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_file_is_rejected_with_one_sentence(case):
    data, format, sentence = INVALID[case]
    with pytest.raises(ValueError, match=f"^the upload.*{sentence}|^{sentence}") as error:
        parse_upload(data, format)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"id": "missing"}, "has no column 'missing' \\(id=\\); it has 'id', 'height'"),
        ({"text": "missing"}, "no column 'missing' .text="),
        ({"fields": ["missing"]}, "no column 'missing' .fields="),
        ({"features": "no*"}, "no column 'no.' .features="),
        ({"features": ["height", "word"]}, "'word' contains 'red' in its first row; features= accepts"),
        ({"features": "label"}, "a feature cannot be named 'label'"),
        ({"limits": UploadLimits(max_items=59)}, "too many items; at most 59"),
        ({"limits": UploadLimits(max_features=1)}, "has 2 features; at most 1"),
        ({"limits": UploadLimits(max_values=100)}, "too many numbers, .*; at most 100 numbers"),
        ({"limits": UploadLimits(max_unzipped_bytes=1000)}, "MiB when unzipped"),
    ],
)
def test_invalid_options_and_files_above_a_limit_are_rejected(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_upload(as_csv(ROWS), "csv", **options)


def test_files_at_the_limits_are_accepted():
    limits = UploadLimits(max_items=60, max_features=2, max_values=120, max_unzipped_bytes=len(as_csv(ROWS)))
    assert len(parse_upload(as_csv(ROWS), "csv", limits=limits)) == 60


# Uploads

VALID = [
    ("csv", as_csv(ROWS)),
    ("csv", gzip.compress(as_csv(ROWS))),
    ("jsonl", as_jsonl(ROWS)),
    ("jsonl", as_jsonl([{"v": [k, 1.0]} for k in range(9)])),
    ("parquet", as_parquet(ROWS)),
    ("parquet", as_parquet(ROWS, compression="none", use_dictionary=False, row_group_size=16)),
    ("parquet", as_parquet([{"v": [k, 1.0]} for k in range(9)], compression="zstd")),
]


def check_parsed_or_rejected(data: bytes, format: Any) -> None:
    try:
        items = parse_upload(data, format)
    except ValueError as error:
        sentence = str(error)
    else:
        sentence = "accepted"
        assert np.isfinite(items.points).all()
        assert len(set(items.ids)) == len(items) >= 2
        json.dumps([items.ids, items.text, items.fields, items.feature_names], ensure_ascii=False).encode()
    assert sentence
    assert "\n" not in sentence


@given(st.binary(max_size=200), st.sampled_from(sorted(UPLOADS)))
@example(b"PAR1" + b"\0" * 8 + b"PAR1", "parquet")
def test_any_bytes_are_parsed_or_rejected(data, format):
    check_parsed_or_rejected(data, format)


@settings(max_examples=300)
@given(st.data())
def test_damaged_files_are_parsed_or_rejected(data):
    format, valid = data.draw(st.sampled_from(VALID))
    changed = bytearray(valid)
    for _ in range(data.draw(st.integers(1, 3))):
        # Half of them near the end, where Parquet stores its metadata.
        end = data.draw(st.booleans())
        at = data.draw(st.integers(max(0, len(changed) - 400) if end else 0, max(0, len(changed) - 1)))
        how = data.draw(st.sampled_from(["set", "cut", "insert", "remove"]))
        if how == "set":
            changed[at : at + 1] = data.draw(st.binary(min_size=1, max_size=1))
        elif how == "cut":
            del changed[at:]
        elif how == "insert":
            changed[at:at] = data.draw(st.binary(max_size=8))
        else:
            del changed[at : at + 8]
    check_parsed_or_rejected(bytes(changed), format)


def test_an_upload_is_read_in_a_separate_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit('code in the working directory was run')")
    options: dict[str, Any] = {"text": "word", "features": ["width"], "fields": ["height"]}
    received = read_upload(as_parquet(ROWS), "parquet", **options)
    assert items_digest(received) == items_digest(parse_upload(as_parquet(ROWS), "parquet", **options))
    with pytest.raises(ItemsError, match=r"^the upload is empty$"):
        read_upload(b"", "csv")


def test_a_decompression_bomb_is_rejected():
    n = 100_000
    long = pa.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int32), ["x" * 5_000_000])
    bomb = as_parquet(pa.table({"a": np.arange(float(n)), "text": long}), compression="zstd")
    assert len(bomb) < 1_000_000
    with pytest.raises(ItemsError, match="does not fit in memory"):
        read_upload(bomb, "parquet")


def test_the_total_length_of_texts_is_limited_in_every_format():
    rows = [{"id": f"i{k}", "x": float(k), "text": "é" * 100, "colour": "red"} for k in range(20)]
    n = sum(len(row["id"]) + 100 + 3 for row in rows)
    for data, format in ((as_csv(rows), "csv"), (as_parquet(rows), "parquet"), (as_jsonl(rows), "jsonl")):
        assert len(parse_upload(data, format, text="text", limits=UploadLimits(max_characters=n))) == 20
        with pytest.raises(ItemsError, match=f"has too much text; at most {n - 1:,} characters"):
            parse_upload(data, format, text="text", limits=UploadLimits(max_characters=n - 1))


def test_a_small_file_with_too_much_text_is_rejected():
    long = pa.DictionaryArray.from_arrays(np.zeros(4000, dtype=np.int32), ["\u20ac" * MAX_TEXT_LENGTH])
    bomb = as_parquet(pa.table({"a": np.arange(4000.0), "text": long}), compression="zstd")
    assert len(bomb) < 100_000
    with pytest.raises(ItemsError, match="the upload has too much text; at most 64,000,000 characters"):
        read_upload(bomb, "parquet")


def test_uploads_are_read_one_after_another(monkeypatch):
    running, n_running, lock = [], [], threading.Lock()

    def run(*args, **kwargs):
        with lock:
            running.append(1)
            n_running.append(len(running))
        time.sleep(0.02)
        with lock:
            running.pop()
        return subprocess.CompletedProcess(args, 1)

    monkeypatch.setattr("ocelad.service.items.sandbox.subprocess.run", run)

    def read():
        with pytest.raises(ItemsError):
            read_upload(b"", "csv")

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert n_running == [1] * 4


@pytest.mark.skipif(not Path("/proc/self/oom_score_adj").exists(), reason="only Linux has this file")
def test_the_process_is_the_first_to_be_killed_when_memory_runs_out(tmp_path):
    program = "from ocelad.service.items import sandbox; import sys; sys.stdin.close()\n"
    program += "try: sandbox.main()\nexcept ValueError: print(open('/proc/self/oom_score_adj').read())"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "1000"


def test_a_process_that_dies_is_reported(monkeypatch):
    monkeypatch.setattr("ocelad.service.items.sandbox.sys.executable", "/bin/false")
    with pytest.raises(ItemsError, match="its process ended with status 1"):
        read_upload(as_csv(ROWS), "csv")


def test_an_upload_has_limited_time(monkeypatch):
    monkeypatch.setattr("ocelad.service.items.sandbox.MAX_SECONDS", 0.01)
    with pytest.raises(ItemsError, match=r"more than 0\.01 seconds"):
        read_upload(as_csv(ROWS), "csv")


# Scaling


def varies(X: np.ndarray) -> bool:
    """Return whether the range of every feature is much larger than rounding errors."""
    return bool((np.ptp(X, axis=0) > 1e-3 * np.abs(X).max()).all())


POINTS = st.tuples(st.integers(2, 30), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-999, 999).map(lambda whole: whole / 999)).filter(
        varies
    )
)


@given(POINTS, st.floats(-149, 149), st.sampled_from(["features", "all"]))
def test_the_unit_of_all_features_does_not_matter(X, exponent, kind):
    other = X * 10.0**exponent
    np.testing.assert_allclose(
        other * fit_scaling(other, kind).factors, X * fit_scaling(X, kind).factors, rtol=1e-9, atol=1e-9
    )


@given(POINTS, st.data())
def test_the_unit_of_each_feature_does_not_matter(X, data):
    units = 10.0 ** data.draw(arrays(np.float64, X.shape[1], elements=st.floats(-140, 140)))
    other = X * units
    np.testing.assert_allclose(
        other * fit_scaling(other, "features").factors, X * fit_scaling(X, "features").factors, rtol=1e-9, atol=1e-9
    )


@given(POINTS, st.sampled_from(["features", "all"]))
def test_the_median_squared_distance_is_10(X, kind):
    factors = fit_scaling(X, kind).factors
    points = X * factors
    U = (points[:, None] - points[None]).reshape(-1, X.shape[1])
    squares = np.square(U).sum(axis=1)
    distinct = np.sort(squares[squares > 1e-20])
    # The median of all pairs is close to that of the drawn pairs; with few items it lies between two of them.
    assert distinct[int(0.4 * (len(distinct) - 1))] <= 10 * (1 + 1e-9)
    assert distinct[int(0.6 * (len(distinct) - 1)) + 1 if len(distinct) > 1 else 0] >= 10 * (1 - 1e-9)
    assert np.abs(U).max() <= MAX_SCALED_RANGE * (1 + 1e-9)
    if kind == "features":
        deviations = points.std(axis=0)
        np.testing.assert_allclose(deviations, deviations[0])
    else:
        assert (factors == factors[0]).all()


def test_scaling_of_extremes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    expected = fit_scaling(X, "all").factors[0]
    outliers = X.copy()
    outliers[:5] *= 50
    assert fit_scaling(outliers, "all").factors[0] == pytest.approx(expected, rel=0.1)
    outliers[0] = 1e9
    assert np.ptp(outliers * fit_scaling(outliers, "all").factors, axis=0).max() == pytest.approx(MAX_SCALED_RANGE)
    outliers[0] = 1e150
    assert np.ptp(outliers * fit_scaling(outliers, "all").factors, axis=0).max() <= MAX_SCALED_RANGE
    X[:, 1] = 0.1 + 0.2
    assert fit_scaling(X, "features").factors[1] == 0
    X[::2, 1] = 0.3  # differs only by rounding
    assert fit_scaling(X, "features").factors[1] == 0
    assert fit_scaling(X, "none").factors.tolist() == [1, 1, 1]
    one_differs = np.zeros((200_000, 1))
    one_differs[7] = 1e-6
    assert fit_scaling(one_differs, "features").factors[0] * 1e-6 > 1


def test_a_feature_with_a_tiny_range_counts_as_constant():
    assert np.isfinite(fit_scaling(np.array([[0.0], [2e-150]]), "all").factors).all()
    with pytest.raises(ItemsError, match="all items have the same features"):
        fit_scaling(np.array([[0.0], [0.5e-150]]), "all")


# Digests


def variants(items: ItemSet) -> dict[str, ItemSet]:
    features = items.features.copy()
    features[3, 1] = np.nextafter(features[3, 1], 9)
    factors = items.scaling.factors.copy()
    factors[0] *= 2
    return {
        "ids": replace(items, ids=("other", *items.ids[1:])),
        "features": replace(items, features=features),
        "names": replace(items, feature_names=("other", *items.feature_names[1:])),
        "scaling": replace(items, scaling=replace(items.scaling, factors=factors)),
        "text": replace(items, text=["other", *(items.text or ())[1:]]),
        "pictures": replace(items, pictures=[b"ab", b"c"]),
        "pictures divided differently": replace(items, pictures=[b"a", b"bc"]),
        "a field's name": replace(items, fields={"other": items.fields["word"]}),
        "a field": replace(items, fields={"word": ["other", *items.fields["word"][1:]]}),
    }


def test_the_digest_depends_on_all_content():
    items = replace(read_text(as_csv(ROWS).decode()), fields={"word": [row["word"] for row in ROWS]})
    digests = [items_digest(items), *map(items_digest, variants(items).values())]
    assert len(set(digests)) == len(digests)
    assert items_digest(replace(items, features=np.asfortranarray(items.features))) == digests[0]


def test_the_digest_of_a_source_depends_on_bytes_names_and_options(tmp_path):
    path = tmp_path / "items.csv"
    path.write_bytes(as_csv(ROWS))
    first = source_digest(path)
    assert source_digest(path, text="word") != first
    path.write_bytes(as_csv(ROWS[:-1]))
    assert source_digest(path) != first
    path.write_bytes(as_csv(ROWS))
    assert source_digest(path) == first
    folder = source_digest(tmp_path)
    path.rename(tmp_path / "other.csv")
    assert source_digest(tmp_path) != folder


# Pictures


def draw_picture(shade: int, size: tuple[int, int] = (40, 30), mode: str = "RGB") -> Image.Image:
    image = Image.new("L", size, shade)
    image.paste(255 - shade, (0, 0, size[0] // 2, size[1]))
    return image.convert(mode)


def open_png(png: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(png))
    image.load()
    return image


@pytest.fixture
def folder(tmp_path) -> Path:
    for name in ("cats", "dogs", ".hidden", "cats/deeper"):
        (tmp_path / name).mkdir()
    draw_picture(10).save(tmp_path / "cats" / "b.png")
    draw_picture(60, (900, 300)).save(tmp_path / "cats" / "a.JPG", "JPEG")
    draw_picture(110).save(tmp_path / "dogs" / "c.webp", lossless=True)
    draw_picture(160, mode="P").save(tmp_path / "dogs" / "d.gif", save_all=True, append_images=[draw_picture(0)])
    draw_picture(210).save(tmp_path / "top.bmp")
    draw_picture(0).save(tmp_path / ".hidden" / "e.png")
    draw_picture(0).save(tmp_path / "cats" / "deeper" / "f.png")
    (tmp_path / "notes.txt").write_text("no picture")
    return tmp_path


def test_a_folder_of_pictures(folder):
    progress: list[tuple[int, int]] = []
    items = load_items(folder, progress=lambda *counts: progress.append(counts))
    assert items.ids == ("cats/a.JPG", "cats/b.png", "dogs/c.webp", "dogs/d.gif", "top.bmp")
    assert items.fields == {"folder": ["cats", "cats", "dogs", "dogs", None]}
    assert items.display == "picture"
    assert items.features.shape == (5, 256)
    assert items.scaling.kind == "all"
    assert progress == [(k, 5) for k in range(6)]
    for shade, row in zip((60, 10, 110, 160, 210), items.features.reshape(5, 16, 16), strict=True):
        np.testing.assert_allclose(row[:, 8:], shade / 255, atol=3 / 255)
        np.testing.assert_allclose(row[:, :8], 1 - shade / 255, atol=3 / 255)
    assert items.pictures is not None
    assert [open_png(png).format for png in items.pictures] == ["PNG"] * 5
    assert [open_png(png).size for png in items.pictures] == [(256, 85)] + [(40, 30)] * 4
    assert items_digest(items) == items_digest(load_items(folder))


def test_the_pixels_of_small_pictures_of_one_size_are_features(tmp_path):
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, size=(3, 28, 28), dtype=np.uint8)
    for k, each in enumerate(pixels):
        Image.fromarray(each).save(tmp_path / f"{k}.png")
    items = load_items(tmp_path)
    assert items.features.shape == (3, 784)
    np.testing.assert_allclose(items.features, pixels.reshape(3, -1) / 255)
    assert items.feature_names[29] == "row 2, column 2"
    assert items.fields == {}
    draw_picture(0, (27, 28)).save(tmp_path / "other.png")
    assert load_items(tmp_path).features.shape == (4, 256)


def test_metadata_of_pictures_are_removed(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90 degrees
    exif[0x010E] = "a secret"
    draw_picture(10, (40, 20)).save(tmp_path / "a.jpg", exif=exif, quality=95)
    clear = Image.new("RGBA", (20, 40), (0, 0, 0, 0))
    clear.save(tmp_path / "b.png")
    deep = Image.fromarray(np.full((20, 40), 40_000, dtype=np.uint16))
    deep.save(tmp_path / "c.png")
    items = load_items(tmp_path)
    assert items.pictures is not None
    assert open_png(items.pictures[0]).size == (20, 40)
    assert all(
        b"secret" not in png and not open_png(png).getexif() and not open_png(png).info for png in items.pictures
    )
    np.testing.assert_allclose(items.features[0].reshape(16, 16)[:8], 245 / 255, atol=0.02)
    np.testing.assert_allclose(items.features[1], 1)
    np.testing.assert_allclose(items.features[2], (40_000 >> 8) / 255)


def truncate_file(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def bomb(path: Path) -> None:
    Image.new("1", (20_000, 20_000)).save(path)


def large(path: Path) -> None:
    Image.new("1", (8_000, 8_000)).save(path)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (truncate_file, "damaged or truncated"),
        (lambda path: path.write_bytes(b"no picture"), "not a readable picture"),
        (lambda path: path.write_bytes(b""), "not a readable picture"),
        (lambda path: path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"), "not a readable picture"),
        (bomb, "too many pixels; at most 50,000,000"),
        (large, "8000 x 8000 pixels; at most 50,000,000"),
    ],
)
def test_an_unreadable_picture_is_reported_or_skipped(folder, damage, sentence):
    path = folder / "cats" / "b.png"
    damage(path)
    with pytest.raises(ItemsError, match=f"^{path} .*{sentence}"):
        load_items(folder)
    skipped: list[str] = []
    items = load_items(folder, skip=skipped.append)
    assert items.ids == ("cats/a.JPG", "dogs/c.webp", "dogs/d.gif", "top.bmp")
    assert len(skipped) == 1
    assert sentence in skipped[0]


def test_a_folder_without_enough_pictures_is_rejected(tmp_path):
    with pytest.raises(ItemsError, match=r"has no pictures; accepted: files with the suffix \.png"):
        load_items(tmp_path)
    draw_picture(10).save(tmp_path / "a.png")
    with pytest.raises(ItemsError, match="has 1 readable pictures; at least 2"):
        load_items(tmp_path)
    draw_picture(90).save(tmp_path / "b.png")
    with pytest.raises(ItemsError, match="too many items; at most 1 "):
        load_items(tmp_path, limits=UploadLimits(max_items=1))
    (tmp_path / "c.png").write_bytes((tmp_path / "b.png").read_bytes())
    (tmp_path / ("n" * 197 + ".png")).write_bytes((tmp_path / "b.png").read_bytes())
    with pytest.raises(ItemsError, match="is longer than 200 characters"):
        load_items(tmp_path)


# Descriptions of items


def test_pictures_of_built_in_digits_show_the_features():
    items = load_built_in("digits")
    assert items.features.shape == (1797, 64)
    assert items.pictures is not None
    picture = np.asarray(open_png(items.pictures[5]))
    assert picture.shape == (96, 96)
    np.testing.assert_allclose(255 - picture[6::12, 6::12], items.features[5].reshape(8, 8) * 255 / 16, atol=0.51)
    assert (picture == np.kron(picture[::12, ::12], np.ones((12, 12)))).all()
    assert [each.kind for each in list_columns(items)] == ["category", "category"]
    assert {parity for digit, parity in zip(*items.fields.values(), strict=True) if digit == 7} == {"odd"}
    assert items_digest(items) == items_digest(load_built_in("digits"))


def test_built_in_points_show_both_clusterings():
    items = load_built_in("synthetic")
    assert items.features.shape == (2000, 25)
    for name, first in (("cluster A", 0), ("cluster B", 3)):
        labels = np.array(items.fields[name])
        X = items.features[:, first : first + 3]
        means = np.array([X[labels == label].mean(axis=0) for label in (1, 2, 3)])
        nearest = np.square(X[:, None] - means).sum(axis=2).argmin(axis=1) + 1
        assert np.mean(nearest == labels) > 0.95


def test_an_unknown_built_in_set_is_rejected():
    with pytest.raises(ValueError, match="name must be one of 'digits', 'synthetic'; got 'mnist'"):
        load_built_in("mnist")  # type: ignore[arg-type]


def shown(items: ItemSet) -> SimpleNamespace:
    """Return a project with the default cards of its items."""
    return SimpleNamespace(id="some", items=items, cards=default_cards(items))


def test_an_item_is_serialized_on_request_with_its_features():
    project = shown(parse_upload(as_csv(ROWS), "csv"))
    assert serialize.item(project, 4, with_features=True).model_dump() == {
        "id": "i4",
        "position": 4,
        "title": None,
        "text": ROWS[4]["story"],
        "link": None,
        "picture": None,
        "picture_full": None,
        "features": {"height": 6.0, "width": 3.9},
        "fields": {"flag": True, "word": "red"},  # not the label, which people are to find out
    }
    assert serialize.item(project, 4).features == {}
    digits = serialize.item(shown(load_built_in("digits")), 4)
    assert digits.picture == "/v1/projects/some/pictures/4"
    assert digits.picture_full == "/v1/projects/some/pictures/4?size=full"


@pytest.mark.parametrize("n_features", [100, 101])
def test_an_item_with_more_than_100_features_is_serialized_without_them(n_features):
    X = np.arange(2.0 * n_features).reshape(2, -1)
    items = ItemSet(("a", "b"), X, tuple(f"f{j}" for j in range(n_features)), fit_scaling(X, "all"))
    project = shown(items)
    assert len(serialize.item(project, 0, with_features=True).features) == (100 if n_features == 100 else 0)


@pytest.mark.parametrize(("values", "kind"), [(range(20), "category"), (range(21), "number"), ((0.5, 1), "number")])
def test_few_whole_numbers_are_categories(values, kind):
    n = len(values)
    items = replace(load_built_in("synthetic"), ids=tuple(map(str, range(n))), fields={"value": list(values)})
    assert [column.kind for column in list_columns(items)] == [kind]


@pytest.mark.parametrize("n_categories", [200, 201])
def test_a_column_with_at_most_200_categories_can_colour_the_map(n_categories):
    names = [f"n{k}" for k in range(n_categories)]
    items = replace(load_built_in("synthetic"), ids=tuple(names), fields={"name": list(names)})
    assert len(list_columns(items)) == (n_categories == 200)


def test_columns_are_numbers_or_categories():
    n = 300
    fields: dict[str, list[Any]] = {
        "weight": [None, *(k / 2 for k in range(n - 1))],
        "class": [k % 3 + (k == 0) for k in range(n)],
        "flag": [k % 3 == 0 for k in range(n)],
        "name": [f"n{k}" for k in range(n)],
        "empty": [None] * n,
        "word": [None, *("b" if k % 2 else "a" for k in range(n - 1))],
    }
    items = replace(load_built_in("synthetic"), ids=tuple(map(str, range(n))), fields=fields)
    assert {each.name: each.kind for each in list_columns(items)} == {
        "weight": "number",
        "class": "category",
        "flag": "category",
        "word": "category",
    }
    assert column_values(items, "weight").values == fields["weight"]
    for name in ("class", "flag", "word"):
        column = column_values(items, name)
        assert column.categories is not None
        back = [None if value is None else column.categories[int(value)] for value in column.values]
        assert back == [None if value is None else str(value).lower() for value in fields[name]]
    assert column_values(items, "class").categories == ["1", "2", "0"]
    assert column_values(items, "flag").categories == ["false", "true"]
    with pytest.raises(ItemsError, match="'name' has 300 categories; at most 200"):
        column_values(items, "name")
    with pytest.raises(ItemsError, match="no column 'missing'; accepted: 'weight', 'class'"):
        column_values(items, "missing")


@given(POINTS, st.integers(1, 8))
def test_differences_are_shares_of_the_squared_distance(X, limit):
    items = ItemSet(tuple(map(str, range(len(X)))), X, tuple("abcdef"[: X.shape[1]]), fit_scaling(X, "features"))
    found = largest_differences(items, 0, 1, limit)
    squares = np.square(items.points[0] - items.points[1])
    assert len(found) == min(limit, np.count_nonzero(squares))
    shares = [each.share for each in found]
    assert shares == sorted(shares, reverse=True)
    for each in found:
        j = items.feature_names.index(each.feature)
        assert (each.left, each.right) == (X[0, j], X[1, j])
        assert each.share == pytest.approx(squares[j] / squares.sum(), rel=1e-6)
    if limit >= X.shape[1] and squares.any():
        assert sum(shares) == pytest.approx(1)
    assert largest_differences(items, 0, 0) == []


# New items


@pytest.fixture(scope="module")
def project() -> ItemSet:
    return parse_upload(as_csv(ROWS), "csv")


def new_item(**other: Any) -> NewItem:
    defaults = {"id": "new", "features": [1.0, 2.0], "text": "t" * 30_000, "fields": {"word": "green", "label": 7.0}}
    return NewItem.model_validate({**defaults, **other})


def test_new_items_have_the_scaling_of_the_project(project):
    added = check_new_items(project, [new_item(), new_item(id="newer", features=[-3.5, 0.0], fields={})])
    assert added.ids == ("new", "newer")
    assert added.features.tolist() == [[1.0, 2.0], [-3.5, 0.0]]
    assert added.scaling is project.scaling
    assert added.feature_names == project.feature_names
    assert added.text is not None
    assert len(added.text[0]) == MAX_TEXT_LENGTH
    assert added.fields == {"flag": [None, None], "word": ["green", None], "label": [7, None]}


@pytest.mark.parametrize(
    ("other", "where", "sentence"),
    [
        ({"id": "i3"}, "items.1.id", "the id 'i3' exists already"),
        ({"id": "first"}, "items.1.id", "the id 'first' exists already"),
        ({"id": "a\0"}, "items.1.id", "NUL or a character that is invalid in UTF-8"),
        ({"id": "a\n"}, "items.1.id", "contains U\\+000A, an invisible character"),
        ({"features": [1.0]}, "items.1.features", "has 1 features; 2 are expected"),
        ({"features": [1.0, 1e200]}, "items.1.features", "beyond 1e\\+150"),
        ({"features": [1.0, 1e9]}, "items.1.features", "too far from the others in 'width'"),
        ({"text": None}, "items.1.text", "has no text"),
        ({"fields": {"missing": 1.0}}, "items.1.fields", "no field 'missing'; accepted: 'flag', 'word', 'label'"),
        ({"fields": {"word": 1.0}}, "items.1.fields", "the field 'word' is 1.0; text is expected"),
        ({"fields": {"flag": "yes"}}, "items.1.fields", "the field 'flag' is 'yes'; true or false is expected"),
    ],
)
def test_invalid_new_items_are_rejected(project, other, where, sentence):
    with pytest.raises(ItemsError, match=sentence) as error:
        check_new_items(project, [new_item(id="first"), new_item(**other)])
    assert error.value.where == where


@pytest.mark.parametrize(("multiple", "accepted"), [(0.999, True), (1.001, False)])
def test_new_items_may_be_ten_times_as_far_away_as_the_largest_range(project, multiple, accepted):
    offset = multiple * 10 * MAX_SCALED_RANGE / project.scaling.factors
    item = new_item(features=(project.features[0] + offset * [1, 0]).tolist())
    if accepted:
        assert len(check_new_items(project, [item])) == 1
    else:
        with pytest.raises(ItemsError, match="too far from the others in 'height'"):
            check_new_items(project, [item])


def test_new_items_must_have_the_display_of_the_project(project):
    with pytest.raises(ItemsError, match="are pictures"):
        check_new_items(load_built_in("digits"), [new_item(features=[0.0] * 64)])
    with pytest.raises(ItemsError, match="has a text; the items of this project have none"):
        check_new_items(replace(project, text=None, display="features"), [new_item()])


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv", ".arrow"])
def test_written_items_are_read_by_the_command_line(project, suffix, tmp_path):
    path = tmp_path / f"items{suffix}"
    write_items(project, path)
    with open_items(path) as stream:
        (chunk,) = stream
    assert tuple(chunk.ids) == project.ids
    assert stream.feature_names == project.feature_names
    assert (project.features == chunk.X).all()


def test_y_is_a_feature_only_if_there_is_an_x(tmp_path):
    path = tmp_path / "items.csv"
    for head, expected in (("x,y,z", ("x", "y", "z")), ("X,y,z", ("X", "y", "z")), ("w,y,z", ("w", "z"))):
        path.write_text(f"{head}\n1,2,3\n2,3,5\n")
        assert load_items(path).feature_names == expected


@pytest.mark.parametrize("head", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0"])
@pytest.mark.parametrize("name", ["items.xlsx", "items.csv"])
def test_a_workbook_is_recognized(tmp_path, head, name):
    path = tmp_path / name
    path.write_bytes(head + bytes(range(256)))
    with pytest.raises(ItemsError, match=r"looks like an Excel file .*; save it as CSV"):
        load_items(path)


def test_the_error_for_a_file_that_is_no_picture_names_no_object(tmp_path):
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"not a picture")
    with pytest.raises(ItemsError, match=r"a\.png is not a readable picture; accepted: PNG") as error:
        load_items(tmp_path)
    assert "<" not in str(error.value)


def test_new_items_count_towards_the_limit_of_the_project(monkeypatch):
    items = parse_upload(as_csv(ROWS), "csv")
    n, width = items.features.shape
    new = [NewItem(id=f"new {i}", features=items.features[i].tolist(), text="a text") for i in range(3)]
    monkeypatch.setattr("ocelad.service.items.new_items.MAX_VALUES", (n + 2) * width)
    assert len(check_new_items(items, new[:2])) == 2
    with pytest.raises(ItemsError, match="the project with the new items has too many numbers"):
        check_new_items(items, new)


def test_items_that_differ_by_rounding_count_as_equal():
    """The median is that of the pairs that differ: each of them is a pair with the only other point."""
    equal = 1e6 * (1.0 + np.finfo(float).eps * np.arange(40.0))
    X = np.append(equal, 0.0)[:, None]
    for kind in ("features", "all"):
        scaled = X * fit_scaling(X, kind).factors
        assert np.square(scaled[0] - scaled[-1]).item() == pytest.approx(10.0)
