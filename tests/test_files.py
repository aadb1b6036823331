"""File readers: exact values, chunks that depend only on the rows, positions, and invalid rows and files."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ocelad.io import FileError, RowError, open_comparisons, open_items
from ocelad.io.comparison_files import ComparisonSchema
from ocelad.io.item_files import ItemSchema
from ocelad.io.tabular import sources
from ocelad.io.tabular.arrow import combine_chunks, to_float64
from ocelad.io.tabular.columnar import ColumnarBlock
from ocelad.io.tabular.file_errors import quote, quote_all
from ocelad.io.tabular.prefetch import Prefetch
from ocelad.io.tabular.text import TextBlock

# Differences of larger numbers overflow when squared, which makes a row invalid.
NUMBERS = st.floats(-1e150, 1e150) | st.floats(-1, 1) | st.integers(-5, 5).map(float)
LABEL_WORDS = {1: ["1", "true", "Same", "SIMILAR", "yes", "1.0", "+1"], -1: ["-1", "0", "False", "different", "no"]}


@contextmanager
def block_bytes(count: int) -> Iterator[None]:
    """Set the number of bytes that are read at a time."""
    default = sources.BLOCK_BYTES
    sources.BLOCK_BYTES = count
    try:
        yield
    finally:
        sources.BLOCK_BYTES = default


@pytest.fixture(scope="module")
def fresh(tmp_path_factory) -> Callable[[str], Path]:
    """Return a function that makes new paths, one for every example of hypothesis."""
    folder = tmp_path_factory.mktemp("files")
    count = itertools.count()

    def path(suffix: str) -> Path:
        return folder / f"{next(count)}{suffix}"

    return path


class Outcome:
    """The chunks of a stream, and its exception."""

    def __init__(self, path: Any, **options: Any) -> None:
        self.error: ValueError | None = None
        self.chunks = []
        self.stream = None
        try:
            with open_comparisons(path, **options) as self.stream:
                for chunk in self.stream:
                    self.chunks.append(chunk)
        except (FileError, RowError) as error:
            self.error = error
        assert "\n" not in str(self.error)

    @property
    def sizes(self) -> list[int]:
        return [len(chunk.pairs) for chunk in self.chunks]

    @property
    def bits(self) -> bytes:
        return b"".join(chunk.pairs.tobytes() for chunk in self.chunks)

    @property
    def y(self) -> list[float]:
        return [label for chunk in self.chunks for label in chunk.y.tolist()]

    @property
    def lines(self) -> list[int]:
        return [line for chunk in self.chunks for line in chunk.lines.tolist()]

    @property
    def times(self) -> list[Any]:
        return [time for chunk in self.chunks for time in chunk.times or ()]

    def same_as(self, other: Outcome) -> None:
        assert str(self.error) == str(other.error)
        assert self.sizes == other.sizes
        assert self.bits == other.bits
        assert [chunk.position for chunk in self.chunks] == [chunk.position for chunk in other.chunks]
        assert self.times == other.times
        assert [type(time) for time in self.times] == [type(time) for time in other.times]
        if self.chunks and self.chunks[0].y is not None:
            assert self.y == other.y


def skipped_rows(path: Path) -> list[dict[str, Any]]:
    skipped = path.with_name(path.name + ".skipped.jsonl")
    return [json.loads(line) for line in skipped.read_text().splitlines()] if skipped.exists() else []


# ---- every format: the values read are bit by bit those written


def names(n: int) -> tuple[list[str], list[str]]:
    return [f"x_{j}" for j in range(n)], [f"z_{j}" for j in range(n)]


def write_delimited(path: Path, X: np.ndarray, y: np.ndarray, separator: str, end: str = "\n") -> None:
    xs, zs = names(X.shape[2])
    lines = [separator.join([*xs, *zs, "similar"])]
    lines += [
        separator.join([*map(repr, row.ravel().tolist()), str(int(label))]) for row, label in zip(X, y, strict=True)
    ]
    path.write_bytes(end.join([*lines, ""]).encode())


def write_json(path: Path, X: np.ndarray, y: np.ndarray, shape: str) -> None:
    lines = []
    for (x, z), label in zip(X.tolist(), y.tolist(), strict=True):
        if shape == "lists":
            record = {"similar": label > 0, "x": x, "z": z}
        elif shape == "objects":
            keys = [f"k{j}" for j in range(len(x))]
            record = {"x": dict(zip(keys, x, strict=True)), "z": dict(zip(keys, z, strict=True)), "same": int(label)}
        else:
            record = {
                **dict(zip([*names(len(x))[0], *names(len(x))[1]], [*x, *z], strict=True)),
                "y": "yes" if label > 0 else "no",
            }
        lines.append(json.dumps(record) + "\n")
    path.write_text("".join(lines))


def arrow_table(X: np.ndarray, y: np.ndarray, shape: str) -> pa.Table:
    n = X.shape[2]
    if shape == "wide":
        columns = zip([*names(n)[0], *names(n)[1]], X.reshape(len(X), -1).T, strict=True)
        return pa.table({**{name: pa.array(column) for name, column in columns}, "label": pa.array(y > 0)})
    fixed = shape == "fixed"
    type_ = pa.list_(pa.float64(), n) if fixed else pa.list_(pa.float64())
    sides = {side: pa.array(X[:, i].tolist(), type_) for i, side in enumerate("xz")}
    return pa.table(
        {**sides, "label": pa.array(["same" if label > 0 else "different" for label in y]).dictionary_encode()}
    )


def write_arrow(path: Path, table: pa.Table, stream: bool, rows: int) -> None:
    with pa.OSFile(str(path), "wb") as file:
        opened = pa.ipc.new_stream(file, table.schema) if stream else pa.ipc.new_file(file, table.schema)
        with opened as writer:
            writer.write_table(table, max_chunksize=rows)


WRITERS: dict[str, tuple[str, Callable[[Path, np.ndarray, np.ndarray], None]]] = {
    "csv": (".csv", lambda p, X, y: write_delimited(p, X, y, ",")),
    "csv, CRLF": (".csv", lambda p, X, y: write_delimited(p, X, y, ",", "\r\n")),
    "tsv": (".tsv", lambda p, X, y: write_delimited(p, X, y, "\t")),
    "jsonl, lists": (".jsonl", lambda p, X, y: write_json(p, X, y, "lists")),
    "jsonl, objects": (".ndjson", lambda p, X, y: write_json(p, X, y, "objects")),
    "jsonl, flat": (".json", lambda p, X, y: write_json(p, X, y, "flat")),
    "parquet": (".parquet", lambda p, X, y: pq.write_table(arrow_table(X, y, "wide"), p, row_group_size=3)),
    "parquet, lists": (".pq", lambda p, X, y: pq.write_table(arrow_table(X, y, "lists"), p)),
    "arrow": (".arrow", lambda p, X, y: write_arrow(p, arrow_table(X, y, "wide"), False, 2)),
    "arrow, lists": (".feather", lambda p, X, y: write_arrow(p, arrow_table(X, y, "fixed"), False, 5)),
    "arrow, stream": (".arrows", lambda p, X, y: write_arrow(p, arrow_table(X, y, "lists"), True, 2)),
}


@st.composite
def comparisons(draw) -> tuple[np.ndarray, np.ndarray]:
    n, m = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    numbers = draw(st.lists(NUMBERS, min_size=2 * n * m, max_size=2 * n * m))
    y = draw(st.lists(st.sampled_from([1.0, -1.0]), min_size=m, max_size=m))
    return np.array(numbers).reshape(m, 2, n), np.array(y)


@pytest.mark.parametrize("kind", WRITERS)
@given(
    data=comparisons(), block=st.sampled_from([1, 7, 64, 1 << 20]), chunk_size=st.integers(1, 10), zipped=st.booleans()
)
def test_every_format_is_read_exactly(fresh, kind, data, block, chunk_size, zipped):
    X, y = data
    suffix, write = WRITERS[kind]
    path = fresh(suffix)
    write(path, X, y)
    text = suffix not in (".parquet", ".pq", ".arrow", ".arrows", ".feather")
    if zipped and text:
        zipped_path = path.with_name(path.name + ".gz")
        zipped_path.write_bytes(gzip.compress(path.read_bytes()))
        path = zipped_path
    with block_bytes(block):
        read = Outcome(path, chunk_size=chunk_size)
    assert read.error is None
    assert read.bits == X.tobytes()
    assert read.y == y.tolist()
    first = 2 if kind.startswith(("csv", "tsv")) else 1
    assert read.lines == list(range(first, first + len(X)))
    assert read.sizes[:-1] == [chunk_size] * (len(read.sizes) - 1)
    assert read.stream.bytes_read == read.stream.total_bytes == path.stat().st_size
    assert len(read.stream.feature_names) == X.shape[2]
    json.dumps(read.chunks[-1].position)


@given(data=comparisons(), chunk_size=st.integers(1, 4), block=st.sampled_from([1, 1 << 20]))
def test_items_and_comparisons_of_them(fresh, data, chunk_size, block):
    X, y = data
    items, path = fresh(".parquet"), fresh(".jsonl")
    points = X.reshape(-1, X.shape[2])
    features = {f"f{j}": column for j, column in enumerate(points.T)}
    pq.write_table(pa.table({"id": np.arange(len(points)), **features}), items)
    # Ids are integers in one file and text in the other.
    rows = [{"id_a": str(2 * i), "id_b": 2 * i + 1, "label": int(label)} for i, label in enumerate(y)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with block_bytes(block):
        read = Outcome(path, items=items, chunk_size=chunk_size)
    assert read.error is None
    assert read.bits == X.tobytes()
    assert read.y == y.tolist()
    assert read.stream.feature_names == tuple(features)


@given(data=comparisons(), kind=st.sampled_from(["csv", "jsonl, lists", "jsonl, objects", "jsonl, flat"]))
def test_reading_row_by_row_gives_the_same_bits(fresh, data, kind):
    suffix, write = WRITERS[kind]
    path = fresh(suffix)
    write(path, *data)
    at_once = Outcome(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TextBlock, "table", lambda self: None)
        Outcome(path).same_as(at_once)


def test_times_do_not_depend_on_how_a_block_is_read(fresh):
    path = fresh(".jsonl")
    rows = [{"x": [1], "z": [2], "same": True, "time": time} for time in (1.5, 3, 2**60 + 1, None)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    at_once = Outcome(path)
    assert at_once.times == [1.5, 3, 2**60, None]
    with path.open("a") as file:
        file.write("bad\n")
    one_by_one = Outcome(path, on_error="skip")
    assert repr(one_by_one.times) == repr(at_once.times)


def test_a_block_without_invalid_rows_is_not_read_row_by_row(fresh, monkeypatch):
    def fail(self, i):
        raise AssertionError

    path = fresh(".csv")
    path.write_text('x_a,z_a,similar,note\n1,2,1,"a, ""quoted""\nnote"\n\n3,4,0,b\r\n')
    monkeypatch.setattr(TextBlock, "record", fail)
    monkeypatch.setattr(ColumnarBlock, "record", fail)
    read = Outcome(path)
    assert read.lines == [2, 5]
    for x, z in (([1.0, 2.0], [3.0, 4.0]), ({"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0})):
        path = fresh(".parquet")
        pq.write_table(pa.table({"x": [x] * 3, "z": [z] * 3, "y": [1, 0, 1]}), path)
        assert Outcome(path).chunks[0].pairs.tolist() == [[[1.0, 2.0], [3.0, 4.0]]] * 3


def test_valid_items_and_answers_are_not_converted_row_by_row(fresh, monkeypatch):
    def fail(self, record, as_number):
        raise AssertionError

    monkeypatch.setattr(ItemSchema, "row", fail)
    monkeypatch.setattr(ComparisonSchema, "row", fail)
    path = fresh(".parquet")
    table = {"id": ["a", "b"], "label": ["red", None], "f": [1.0, 2.0]}
    pq.write_table(pa.table(table), path)
    assert items_of(path)[2] == ["red", None]
    path = fresh(".csv")
    path.write_text("id,label,f\na,red,1\nb,blue,2\n")
    assert items_of(path)[0] == ["a", "b"]
    answers = fresh(".csv")
    answers.write_text("id_a,id_b,y,time\na,b,yes,7\nb,a,no,8\n")
    assert Outcome(answers, items=path).y == [1.0, -1.0]


# ---- a slow reference reader for text files, character by character


def is_number(text: str) -> bool:
    text = text.strip(" \t")
    if not text or set(text) - set("0123456789+-.eE"):
        return False
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


LABELS = dict.fromkeys(("true", "same", "similar", "yes"), 1.0)
LABELS |= dict.fromkeys(("false", "different", "dissimilar", "no"), -1.0)


def label_of(cell: Any) -> float | None:
    if isinstance(cell, bool):
        return 1.0 if cell else -1.0
    if isinstance(cell, str):
        text = cell.strip(" \t")
        if text.lower() in LABELS:
            return LABELS[text.lower()]
        cell = float(text) if is_number(text) else None
    return {1: 1.0, 0: -1.0, -1: -1.0}.get(cell) if isinstance(cell, (int, float)) else None


def records(text: str) -> list[tuple[int, list[str] | None]]:
    """Return the records of a CSV text with their lines; None for a record with wrong quotes. Skips blank lines."""
    found: list[tuple[int, list[str] | None]] = []
    line, at = 1, 0
    while at < len(text):
        first_line, begin, state, valid, cells = line, at, "start", True, [""]
        while at < len(text):
            character = text[at]
            at += 1
            line += character == "\n"
            if state == "quoted":
                if character == '"':
                    state = "closed"
                else:
                    cells[-1] += character
            elif character == '"' and state == "closed":
                cells[-1] += '"'
                state = "quoted"
            elif character == '"' and state == "start":
                state = "quoted"
            elif character == "\n":
                break
            elif character == ",":
                cells.append("")
                state = "start"
            elif character == "\r" and text[at : at + 1] in ("\n", ""):
                continue
            else:
                valid = valid and state != "closed" and character != "\r"
                cells[-1] += character
                state = "bare"
        if text[begin:at] not in ("\n", "\r\n", "\r"):
            found.append((first_line, cells if valid and state != "quoted" else None))
    return found


class Expected:
    """The valid rows with their values, and the lines of the invalid rows."""

    def __init__(self) -> None:
        self.lines: list[int] = []
        self.bad: list[int] = []
        self.numbers: list[float] = []
        self.y: list[float] = []

    def add(self, line: int, numbers: list[float] | None, label: float | None) -> None:
        valid = numbers is not None and label is not None
        if valid:
            one, other = np.array(numbers).reshape(2, -1)
            with np.errstate(over="ignore"):
                valid = bool(np.isfinite(((one - other) ** 2).sum()))
        if not valid:
            self.bad.append(line)
            return
        self.lines.append(line)
        self.numbers += numbers
        self.y.append(label)


def expected_from_csv(text: str) -> Expected:
    """Read a CSV text with the header x_a,x_b,z_b,z_a,similar,note."""
    expected = Expected()
    for line, cells in records(text)[1:]:
        if cells is None or len(cells) != 6 or not all(map(is_number, cells[:4])):
            expected.add(line, None, None)
        else:
            x_a, x_b, z_b, z_a = map(float, cells[:4])
            expected.add(line, [x_a, x_b, z_a, z_b], label_of(cells[4]))
    return expected


def expected_from_json(text: str) -> Expected:
    """Read JSON lines with lists of two numbers."""
    expected = Expected()
    for line, row in enumerate(text.split("\n"), 1):
        if row in ("", "\r"):
            continue
        numbers = label = None
        try:
            duplicates: list[str] = []

            def unique(members, duplicates=duplicates):
                keys = [key for key, _ in members]
                duplicates += [key for key in keys if keys.count(key) > 1]
                return dict(members)

            record = json.loads(row.removesuffix("\r"), object_pairs_hook=unique)
            if isinstance(record, dict) and not {"x", "z", "similar"} & set(duplicates):
                numbers = [*record["x"], *record["z"]] if len(record["x"]) == len(record["z"]) == 2 else None
                label = label_of(record["similar"])
                if not all(type(number) in (int, float) and np.isfinite(float(number)) for number in numbers or ()):
                    numbers = None
                numbers = numbers and [float(number) for number in numbers]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            numbers = None
        expected.add(line, numbers, label)
    return expected


@given(st.lists(st.lists(st.text('ab ,"\n\t', max_size=5), min_size=2, max_size=4), min_size=1, max_size=4))
def test_the_reference_reader_reads_what_the_csv_module_writes(rows):
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    assert [cells for _, cells in records(text.getvalue())] == rows


CSV_HEADER = "x_a,x_b,z_b,z_a,similar,note\n"
CSV_ROWS = [
    "1,2.5,-3e2,4,1,n\n",
    '0.1,0.2,0.3,1e-320,no,"a, b"\n',
    '5,6,7,8,"Same","c ""d""\ne"\r\n',
    "1,1,1,1,-1,\n",
    "\n",
]
JSON_ROWS = [
    '{"x": [1, 2.5], "z": [-3e2, 4], "similar": true}\n',
    '{"similar": "yes", "z": [0.1, 1e-320], "x": [0.2, 12345678901234567890]}\r\n',
    '{"x": [1, 1], "z": [1, 1], "similar": 0, "more": {"a": [1, {}]}}\n',
    "\n",
]
FRAGMENTS = [
    *[
        "\r\n",
        "\n",
        "\r",
        '"',
        '""',
        ",",
        ",,",
        " ",
        "\t",
        "nan",
        "inf",
        "-",
        "+",
        ".",
        "e5",
        "1e999",
        "1e-999",
        "1_0",
        "0x1",
    ],
    *[
        "abc",
        "true",
        "é",
        "\ufeff",
        "\u2028",
        "{",
        "}",
        "[",
        "]",
        "null",
        ":",
        '"x": [1, 2], ',
        '"\\ud800"',
        "}\n{",
        "} {",
        "//",
    ],
]


@st.composite
def mangled(draw, rows: list[str], fragments: list[str]) -> str:
    """Draw rows with fragments inserted, and parts deleted or duplicated."""
    text = "".join(draw(st.lists(st.sampled_from(rows), min_size=1, max_size=6)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        end = draw(st.integers(at, min(len(text), at + 6)))
        text = text[:at] + draw(st.sampled_from(["", text[at:end] * 2, *fragments])) + text[end:]
    return text


def assert_as_expected(path: Path, expected: Expected, block: int, chunk_size: int, **options: Any) -> None:
    with block_bytes(block):
        read = Outcome(path, on_error="skip", chunk_size=chunk_size, **options)
        assert read.error is None
        assert read.lines == expected.lines
        assert read.bits == np.array(expected.numbers).tobytes()
        assert read.y == expected.y
        assert all(size == chunk_size for size in read.sizes[:-1])
        assert [row["line"] for row in skipped_rows(path)] == expected.bad
        assert read.stream.n_skipped == len(expected.bad)
        stopped = Outcome(path, chunk_size=chunk_size, **options)
    Outcome(path, on_error="skip", chunk_size=chunk_size, **options).same_as(read)
    Outcome(path, chunk_size=chunk_size, **options).same_as(stopped)
    assert [stopped.error.line] == expected.bad[:1] if expected.bad else stopped.error is None
    before = [line for line in expected.lines if not expected.bad or line < expected.bad[0]]
    assert stopped.lines == (before[: len(before) // chunk_size * chunk_size] if expected.bad else before)


@given(mangled(CSV_ROWS, FRAGMENTS), st.sampled_from([1, 5, 33, 1 << 20]), st.integers(1, 4), st.booleans())
@example('1,2,3,4,1,"\n', 1, 1, False)
@example('1,2,3,4,1,"a"b\n1,2,3,4,1,c"d"\n', 1 << 20, 1, False)
@example('1,2,3,4,1,a"b\n1,2,3,4,1,c"d\n', 1 << 20, 1, False)
@example("1,2,3,4,1,a\rb\n1,2,3,4,1,a\r", 1 << 20, 1, False)
@example("\r1,2,3,4,1,a\n", 1 << 20, 1, False)
@example('1"2",2,3,4,1,a\n', 1 << 20, 1, False)
@example('"1","2",3,4,1,"a"\n"1"2,2,3,4,1,a\n', 1 << 20, 1, False)
@example("1,2,3,4,1,a\n\r\n\n1,2,3,4,1,b\n\r", 1 << 20, 1, False)
@example("1,2,3,4,1,a\n\ufeff1,2,3,4,1,a\n", 1, 1, False)
def test_mangled_csv_is_read_like_the_reference(fresh, rows, block, chunk_size, mark):
    path = fresh(".csv")
    path.write_bytes(b"\xef\xbb\xbf" * mark + (CSV_HEADER + rows).encode())
    assert_as_expected(path, expected_from_csv(CSV_HEADER + rows), block, chunk_size)


@given(mangled(JSON_ROWS, FRAGMENTS), st.sampled_from([1, 5, 33, 1 << 20]), st.integers(1, 4), st.booleans())
@example(f"{JSON_ROWS[0][:-1]} {JSON_ROWS[0]}\n", 1 << 20, 2, False)
@example(f'{{"x": [1, 1],\n"z": [1, 1], "similar": true}} {JSON_ROWS[0]}', 1 << 20, 2, False)
@example('{"x": [1, 1], "z": [1, 1], "similar": true, "similar": false}\n', 1 << 20, 2, False)
@example(f"null\n{JSON_ROWS[0]}null", 5, 2, False)
@example(f"{JSON_ROWS[0][:-1]} null {JSON_ROWS[0]}\n", 1 << 20, 2, False)
def test_mangled_json_lines_are_read_like_the_reference(fresh, rows, block, chunk_size, mark):
    path = fresh(".jsonl")
    text = JSON_ROWS[0] + rows
    path.write_bytes(b"\xef\xbb\xbf" * mark + text.encode())
    assert_as_expected(path, expected_from_json(text), block, chunk_size)


@given(st.data())
def test_damaged_bytes_give_a_file_error_or_rows(fresh, data):
    """In every format: no other exception, and every row is either valid or skipped."""
    kind = data.draw(st.sampled_from(sorted(WRITERS)))
    suffix, write = WRITERS[kind]
    path = fresh(suffix)
    X = np.arange(60.0).reshape(10, 2, 3)
    write(path, X, np.array([1.0, -1.0] * 5))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["flip", "delete", "insert", "truncate"])):
            case "flip":
                content[at] ^= data.draw(st.integers(1, 255))
            case "delete":
                del content[at : at + data.draw(st.integers(1, 9))]
            case "insert":
                content[at:at] = data.draw(
                    st.binary(max_size=4) | st.sampled_from([b"\n", b'"', b"\xef\xbb\xbf", b"\0"])
                )
            case _:
                del content[at:]
        content = content or bytearray(b"x")
    path.write_bytes(content)
    options = data.draw(
        st.sampled_from([{}, {"format": "csv"}, {"format": "jsonl"}, {"format": "arrow"}, {"label": False}])
    )
    outcomes = []
    for block in (1 << 20, 11):
        with block_bytes(block):
            read = Outcome(path, on_error="skip", chunk_size=3, **options)
        outcomes.append(read)
        if read.error is None:
            assert len(skipped_rows(path)) == read.stream.n_skipped
            assert np.isfinite(np.frombuffer(read.bits)).all()
            lines = [*read.lines, *(row["line"] for row in skipped_rows(path))]
            assert len(set(lines)) == len(lines)
    if kind.startswith(("csv", "tsv", "jsonl")):
        outcomes[0].same_as(outcomes[1])


# ---- positions


def valid_and_invalid_rows(kind: str) -> bytes:
    csv_rows = (
        CSV_HEADER
        + "".join(f"{i},2,3,4,yes,{'é' * (i % 3)}\n" + ("x,2,3,4,1,\n\n" * (i % 3 == 1)) for i in range(9))
        + "bad"
    )
    json_rows = "".join(
        json.dumps({"x": [i, 2], "z": [3, 4], "similar": True, "time": 10 - i}) + "\n" + "{]\n" * (i % 4 == 1)
        for i in range(9)
    )
    return (csv_rows if kind == "csv" else json_rows + "bad").encode()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("chunk_size", [1, 2, 3, 9])
def test_a_resumed_stream_equals_an_uninterrupted_one(fresh, kind, zipped, chunk_size):
    content = valid_and_invalid_rows(kind)
    path = fresh(f".{kind}.gz" if zipped else f".{kind}")
    path.write_bytes(gzip.compress(content) if zipped else content)
    whole = Outcome(path, on_error="skip", chunk_size=chunk_size)
    assert whole.error is None
    skipped = skipped_rows(path)
    assert skipped
    for after in range(len(whole.chunks)):
        position = json.loads(json.dumps(whole.chunks[after].position))
        # The file of skipped rows holds rows after the position, which are dropped.
        rest = Outcome(path, on_error="skip", chunk_size=chunk_size, resume=position)
        assert rest.bits == b"".join(chunk.pairs.tobytes() for chunk in whole.chunks[after + 1 :])
        assert [chunk.position for chunk in rest.chunks] == [chunk.position for chunk in whole.chunks[after + 1 :]]
        assert rest.stream.position == whole.stream.position
        assert rest.stream.n_out_of_order == whole.stream.n_out_of_order
        assert skipped_rows(path) == skipped


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrow, stream"])
def test_columnar_files_are_resumed_by_row(fresh, kind):
    suffix, write = WRITERS[kind]
    path = fresh(suffix)
    X = np.arange(60.0).reshape(10, 2, 3)
    X[4, 1, 1] = np.nan
    write(path, X, np.ones(10))
    for chunk_size in (1, 2, 4, 9):
        whole = Outcome(path, on_error="skip", chunk_size=chunk_size)
        assert whole.lines == [1, 2, 3, 4, 6, 7, 8, 9, 10]
        for after, chunk in enumerate(whole.chunks):
            rest = Outcome(path, on_error="skip", chunk_size=chunk_size, resume=chunk.position)
            assert rest.error is None
            assert rest.lines == [line for chunk in whole.chunks[after + 1 :] for line in chunk.lines.tolist()]
            assert [row["line"] for row in skipped_rows(path)] == [5]
    assert "row 5" in str(Outcome(path).error)


def test_a_position_holds_when_the_file_grows(fresh):
    path = fresh(".csv")
    path.write_text("x_a,z_a,y\n1,2,1\n3,4,1")
    position = Outcome(path).chunks[-1].position
    with path.open("a") as file:
        file.write("\n5,6,0\n7,x,1\n")
    rest = Outcome(path, resume=position, chunk_size=1)
    assert rest.lines == [4]
    assert rest.error.line == 5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content[:-12], "resume with the same file"),
        (lambda content: content.replace(b"1", b"2", 1), "begins with other bytes"),
        (lambda content: b"", "empty"),
    ],
)
def test_another_file_is_not_resumed(fresh, change, words):
    path = fresh(".csv")
    path.write_bytes(b"x_a,z_a,y\n1,2,1\n" + b"3,4,0\n" * 20_000)
    position = Outcome(path, chunk_size=20_000).chunks[-1].position
    path.write_bytes(change(path.read_bytes()))
    assert words in str(Outcome(path, resume=position, chunk_size=20_000).error)


def test_a_position_is_checked(fresh):
    path = fresh(".csv")
    path.write_text("x_a,z_a,y\n1,2,1\n")
    position = Outcome(path).chunks[-1].position
    for wrong in ({}, {**position, "offset": "1"}, {**position, "rows": -1}, {**position, "head_sha256": None}):
        assert "resume=" in str(Outcome(path, resume=wrong).error)
    assert "the position is of a jsonl file" in str(Outcome(path, resume={**position, "format": "jsonl"}).error)
    lost = {**position, "skipped": 1, "side_bytes": 100}
    assert "skipped rows are lost" in str(Outcome(path, on_error="skip", resume=lost).error)


# ---- the file of skipped rows


def test_skipped_rows_are_written_before_the_position_is_available(fresh, monkeypatch):
    path, skipped = fresh(".csv"), fresh(".jsonl")
    path.write_text("x_a,z_a,y\n1,2,1\nx,2,1\n3,4,1\n5,6,perhaps\n")
    synced = []
    monkeypatch.setattr("os.fsync", lambda number: synced.append(os.fstat(number).st_ino))
    with open_comparisons(path, on_error="skip", skipped=skipped, chunk_size=1) as stream:
        next(stream)
        assert not skipped.exists()
        chunk = next(stream)
        assert synced == [skipped.stat().st_ino]
        assert skipped.stat().st_size == chunk.position["side_bytes"] > 0
        assert stream.n_skipped == chunk.position["skipped"] == 1
        assert list(stream) == []
        assert stream.n_skipped == 2
    rows = [json.loads(line) for line in skipped.read_text().splitlines()]
    assert rows[0] == {"line": 3, "reason": "column 'x_a' holds 'x'; a finite number is expected", "row": "x,2,1"}
    assert rows[1]["line"] == 5
    assert "yes/no" in rows[1]["reason"]
    # A new run truncates the file.
    path.write_text("x_a,z_a,y\n1,2,1\n")
    assert Outcome(path, on_error="skip", skipped=skipped).error is None
    assert skipped.read_text() == ""


def test_skipped_rows_never_overwrite_another_file(fresh):
    path, other = fresh(".csv"), fresh(".txt")
    path.write_text("x_a,z_a,y\n1,2,1\n")
    other.write_text("a letter\n")
    assert "the file that is read; accepted: another file" in str(Outcome(path, on_error="skip", skipped=path).error)
    assert "does not hold skipped rows" in str(Outcome(path, on_error="skip", skipped=other).error)
    assert path.read_text() == "x_a,z_a,y\n1,2,1\n"
    assert other.read_text() == "a letter\n"


# ---- selection of columns


@pytest.mark.parametrize(
    ("header", "options", "features"),
    [
        ("x_a,x_b,z_a,z_b,similar", {}, ("a", "b")),
        ("z_b,z_a,x_a,x_b,same", {}, ("a", "b")),
        ("x.a,z.a,x.b,z.b,label", {}, ("a", "b")),
        ("x0,x1,z0,z1,y", {}, ("0", "1")),
        ("a_x,b_x,a_z,b_z,y", {}, ("a", "b")),
        ("left_a,right_a,left_b,right_b,y", {"x": "left_*", "z": "right_*"}, ("a", "b")),
        ("x,y,x2,y2,same", {"x": ["x", "y"], "z": ["x2", "y2"]}, ("x", "y")),
        ("p,q,r,s,similar", {"x": ["p", "q"], "z": ["r", "s"]}, ("p", "q")),
        ("x_a,x_b,z_a,z_b,ok", {"x": ["x_b"], "z": ["z_b"], "label": "ok"}, ("b",)),
        ("a (x),b (x),a (z),b (z),y", {"x": "* (x)", "z": "* (z)"}, ("a", "b")),
        ("a*,ab,c?,cd,y", {"x": "a*", "z": "c?"}, ("a*",)),
        (" x_a , x_b , z_a , z_b , y ", {}, ("a", "b")),
        ('"x_a","x_b","z_a","z_b","y"', {}, ("a", "b")),
    ],
)
def test_columns_are_found_by_their_names(fresh, header, options, features):
    path = fresh(".csv")
    path.write_text(f"{header}\n1,2,3,4,1\n")
    read = Outcome(path, **options)
    assert read.error is None
    assert read.stream.feature_names == features
    cells = dict(zip([name.strip(' "') for name in header.split(",")], [1.0, 2.0, 3.0, 4.0, 1.0], strict=True))
    ((x, z),) = read.chunks[0].pairs
    for feature, a, b in zip(features, x, z, strict=True):
        assert {name for name, value in cells.items() if value == a} != {
            name for name, value in cells.items() if value == b
        }
        assert any(feature in name for name, value in cells.items() if value == a)


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("x_a,x_b,z_a,y\n1,2,3,1\n", {}, "'x_b' but no column 'z_b'"),
        ("x_a,z_a,z_c,y\n1,2,3,1\n", {}, "'z_c' but no column 'x_c'"),
        ("a,b,y\n1,2,1\n", {}, "it has 'a', 'b', 'y'"),
        ("x_a,z_a\n1,2\n", {}, "label=False"),
        ("x_a,z_a,y\n1,2,1\n", {"label": "nice"}, "no column 'nice'"),
        ("x_a,z_a,y\n1,2,1\n", {"time": "when"}, "no column 'when'"),
        ("x_a,z_a,y\n1,2,1\n", {"x": "x_*"}, "without z="),
        ("x_a,z_a,y\n1,2,1\n", {"x": "left_*", "z": "right_*"}, "no column like 'left_*'"),
        ("x_a,z_a,y\n1,2,1\n", {"x": ["x_a"], "z": ["z_a", "y"], "label": False}, "equally many"),
        ("x_a,z_a,y\n1,2,1\n", {"x": [], "z": []}, "at least 1"),
        ("x_a,z_a,y\n1,2,1\n", {"x": ["x_a", "x_a"], "z": ["z_a", "y"], "label": False}, "'x_a' twice"),
        ("x_a_z,y\n1,1\n", {"x": "x_a_*", "z": "*_a_z"}, "but no column"),
        ("x_x,z_z,y\n1,2,1\n", {"x": "?_*", "z": "*_?"}, "matches both x='?_*' and z='*_?'"),
        ("x_a,z_a,x_a,y\n1,2,1,1\n", {}, "'x_a' twice"),
        ("1,2,3\n4,5,6\n", {}, "no header"),
        ("", {}, "empty"),
        ("\n\n", {}, "empty"),
        ('"x_a,z_a\n', {}, "header"),
        ("x_a,z_a,y\n1,2,1\n", {"format": "parquet"}, "not a Parquet file"),
        ("x_a,z_a,y\n1,2,1\n", {"format": "arrow"}, "another format"),
        ("x_a,z_a,y\n1,2,1\n", {"format": "jsonl"}, "line 1: the line is not JSON"),
        ("x_a,z_a,y\r1,2,1\r", {}, "carriage return"),
        ("x_a;z_a;y\n1;2;1\n", {"format": "tsv"}, "semicolons (format='csv')"),
        ("x_a,z_a,y\n1,2,1\n", {"format": "tsv"}, "format='csv'"),
    ],
)
def test_the_message_names_the_problem_of_a_file(fresh, content, options, words):
    path = fresh(".csv")
    path.write_text(content, newline="")
    error = Outcome(path, **options).error
    assert str(path) in str(error)
    assert words in str(error)


@pytest.mark.parametrize(
    ("content", "suffix", "words"),
    [
        ("x_a,z_a,y\n1,2,1\n".encode("utf-16")[:-1], ".csv", "not valid UTF-16"),
        ("x_a,z_a,y\n1,2,1\n".encode("utf-16-be") + b"\xd8\x00\x00\x31", ".csv", "not valid UTF-16"),
        (b"x_a,z_a,y\n1,2,1\n\n1,\x81,1\n", ".csv", "line 4: byte 0x81"),
        ("x_a,z_a,y,name\n1,2,1,\u00e9\n".encode() + b"1,2,1,\xff\n", ".csv", "line 3: byte 0xff"),
        (b"x_a,z_a,y\n1,2,1\n1,\x00,1\n", ".csv", "line 3: byte 0x00"),
        (bytes(range(256)), ".csv", "not text"),
        (b"PAR1 and no more", ".parquet", "damaged"),
        (b"PAR1 and no more", ".csv", "format='parquet'"),
        (b"PAR1 and no more", "", "damaged"),
        (b"ARROW1 and no more", ".arrow", "damaged"),
        (gzip.compress(b"x_a,z_a,y\n" + b"1,2,1\n" * 99, mtime=0)[:-9], ".csv", "truncated"),
        (gzip.compress(b"x_a,z_a,y\n" + b"1,2,1\n" * 99, mtime=0)[:-8] + b"12345678", ".csv", "damaged"),
        (gzip.compress(b"x", mtime=0), ".parquet", "unzip"),
        (gzip.compress(b"", mtime=0), ".csv", "empty"),
        (b'[{"x": [1], "z": [2], "y": 1}]', ".json", "one object per line"),
        (b'{"x": [1], "z": [2, 3], "y": 1}', ".json", "x has 1 numbers and z has 2"),
        (b'{"x": {"a": 1}, "z": {"b": 1}, "y": 1}', ".json", "'a' occurs in only one of x and z"),
        (b'{"x": [1], "z": {"b": 1}, "y": 1}', ".json", "two lists"),
    ],
)
def test_the_message_names_the_problem_of_the_bytes(fresh, content, suffix, words):
    path = fresh(suffix)
    path.write_bytes(content)
    error = Outcome(path).error
    assert str(path) in str(error)
    assert words in str(error)


ENCODED_ROWS = [("Ärmel", "1,50", "-3"), ("Öse; groß", "12,25", "4,5"), ("a\n“b”", "1.234,5", ""), ("c", "7", "8,25")]


@pytest.mark.parametrize("block", [7, 1 << 20])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_encodings_and_separators_of_spreadsheets(fresh, encoding, separator, block):
    """The same table in every encoding, separator and block size has the same points and names."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\r\n")
    writer.writerow(["Größe", "id", "height", "width"])
    for name, height, width in ENCODED_ROWS:
        numbers = [cell if separator == ";" else cell.replace(".", "").replace(",", ".") for cell in (height, width)]
        writer.writerow([name, name[:1], *numbers])
    path = fresh(".csv")
    path.write_bytes(out.getvalue().encode(encoding))
    with block_bytes(block), open_items(path, missing="median") as stream:
        chunks = list(stream)
        assert stream.feature_names == ("height", "width")
    assert np.concatenate([chunk.X for chunk in chunks]).tolist() == [[1.5, -3], [12.25, 4.5], [1234.5, 4.5], [7, 8.25]]
    assert [id for chunk in chunks for id in chunk.ids] == ["Ä", "Ö", "a", "c"]
    assert any("Windows-1252" in note for note in stream.notes) == (encoding == "cp1252")


@pytest.mark.parametrize("block", [5, 64, 1 << 20])
def test_a_latin_1_file_is_resumed_with_the_same_ids(fresh, block):
    """Letters that happen to be valid UTF-8 after the first ones that are not are still read as Windows-1252."""
    rows = ["a,1,1", "é,2,1", "b,3,1", "Ã©,4,1", "c,5,1", "ü,6,1"]
    path = fresh(".csv")
    path.write_bytes("\n".join(["t,x_a,z_a,y", *(f"{row[0]}{row[1:]},1" for row in rows)]).encode("cp1252"))
    with block_bytes(block):
        whole = Outcome(path, chunk_size=1, time="t")
        assert whole.error is None
        assert whole.times[:4] == ["a", "é", "b", "Ã©"]
        for i, chunk in enumerate(whole.chunks[:-1]):
            rest = Outcome(path, chunk_size=1, time="t", resume=chunk.position)
            assert rest.times == whole.times[i + 1 :]


def test_a_mixture_of_encodings_is_refused_at_its_line(fresh):
    path = fresh(".csv")
    path.write_bytes("x_a,z_a,y,n\n1,2,1,é\n".encode() + "1,2,1,é\n".encode("cp1252"))
    assert "line 3: byte 0xe9 is not text" in str(Outcome(path).error)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (["1,5", "2", "3,25"], [1.5, 2, 3.25]),
        (["1.234,5", "1.234", "2,5"], [1234.5, 1234, 2.5]),  # one decimal comma: points separate thousands
        (["1.5", "2", "3.25"], [1.5, 2, 3.25]),
        (["1,5e3", "-2,5", "+3"], [1500, -2.5, 3]),
    ],
)
def test_decimal_commas(fresh, column, expected):
    path = fresh(".csv")
    path.write_text("id;x;n\n" + "".join(f"i{i};{cell};{i}\n" for i, cell in enumerate(column)))
    with open_items(path) as stream:
        assert np.concatenate([chunk.X for chunk in stream])[:, 0].tolist() == expected


def test_a_point_among_decimal_commas_is_refused(fresh):
    path = fresh(".csv")
    path.write_text("id;x\n" + "".join(f"i{i};{i},5\n" for i in range(2000)) + "last;1.50\n")
    with (
        open_items(path) as stream,
        pytest.raises(RowError, match=r"line 2002: column 'x' holds '1.50', but its first"),
    ):
        list(stream)


def test_points_separate_thousands_in_all_columns_if_one_has_decimal_commas(fresh):
    path = fresh(".csv")
    cells = ["6.561;1.001;a", "715;1.002;b", "1.234.567;1.003;c"]
    path.write_text("x;id;n;y\n" + "".join(f"{cell};{i},5\n" for i, cell in enumerate(cells)))
    with open_items(path) as stream:
        items = next(stream)
    assert items.ids == ["1.001", "1.002", "1.003"]  # ids are not numbers
    assert items.X.tolist() == [[6561, 0.5], [715, 1.5], [1234567, 2.5]]
    assert "points separate thousands, because 'y' has decimal commas: 6.561 in 'x' is 6561" in stream.notes[1]


@pytest.mark.parametrize("n_rows", [1, 2000])  # before and after the sampled rows
def test_a_decimal_point_beside_a_column_with_decimal_commas_is_refused(fresh, n_rows):
    path = fresh(".csv")
    path.write_text(
        "id;x;version;y\n" + "".join(f"i{i};{i};1.2;{i},5\n" for i in range(n_rows)) + "last;3.14;1.3;7,5\n"
    )
    reason = f"line {n_rows + 2}: column 'x' holds '3.14', but the numbers of 'y' have decimal commas"
    with open_items(path, features=["x", "y"]) as stream, pytest.raises(RowError, match=reason):
        list(stream)
    with open_items(path, exclude=["x", "version"]) as stream:
        assert sum(len(items.X) for items in stream) == n_rows + 1


@pytest.mark.parametrize(
    ("cell", "is_comma"), [('"23,9"', True), ("512.3 €", False), ('"1,234"', True), ("high", False)]
)
def test_columns_that_look_like_numbers_are_left_out_with_an_example(fresh, cell, is_comma):
    path = fresh(".csv")
    path.write_text(f"id,x,BMI,name\na,1,{cell},b\nb,2,{cell},c\n", encoding="utf-8")
    text = cell.strip('"')
    with open_items(path) as stream:
        assert stream.feature_names == ("x",)
        note = stream.notes[0]
        comma_notes = stream.notes[1:]
    example = f" (such as {text!r})" if text != "high" else ""
    assert f"left out of the features: 'BMI'{example}, 'name', which have no numbers;" in note
    advice = f"{path}: {text!r} in 'BMI' is read as text: for decimal commas, separate the columns with semicolons"
    assert [one.startswith(advice) for one in comma_notes] == [True] * is_comma


@pytest.mark.parametrize("cell", ["k.A.", "inf", "n/a"])
@pytest.mark.parametrize("missing", ["stop", "median"])
def test_the_error_about_a_cell_without_a_number_names_the_way_out(fresh, cell, missing):
    path = fresh(".csv")
    path.write_text(f"id,x\na,1\nb,{cell}\nc,3\n")
    reason = f"{path}, line 3: column 'x' holds '{cell}'; a finite number is expected; "
    if (cell, missing) == ("n/a", "median"):
        with open_items(path, missing=missing) as stream:
            assert next(stream).X.tolist() == [[1], [2], [3]]
        return
    with pytest.raises(RowError) as raised, open_items(path, missing=missing) as stream:
        next(stream)
    further = ", and missing='median' fills in the median" if missing == "stop" else ""
    ways = {"n/a": "missing='median' fills in the median"}
    assert str(raised.value) == reason + ways.get(cell, f"if it means a missing number, empty the cell{further}")


def test_invalid_sources_and_options(fresh, tmp_path):
    assert "does not exist" in str(Outcome(fresh(".csv")).error)
    assert "folder" in str(Outcome(tmp_path).error)
    assert "source must be a path" in str(Outcome(5).error)
    with pytest.raises(ValueError, match="on_error must be one of 'stop', 'skip'"):
        open_comparisons(fresh(".csv"), on_error="ignore")
    path = fresh(".csv")
    path.write_text("x_a,z_a,y\n1,2,1\n")
    with pytest.raises(ValueError, match="format must be one of"):
        open_comparisons(path, format="xls")
    with pytest.raises(ValueError, match="chunk_size"):
        open_comparisons(path, chunk_size=0)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1,abc,1", "column 'z_a' holds 'abc'; a finite number is expected"),
        ("nan,1,1", "column 'x_a' holds 'nan'"),
        ("1,-inf,1", "column 'z_a' holds '-inf'"),
        ("1e999,1,1", "column 'x_a' holds '1e999'"),
        (",1,1", "column 'x_a' is empty"),
        ("1,1", "2 cells; the header has 3"),
        ("1,1,1,1", "4 cells; the header has 3"),
        ("1,1,2", "column 'y' holds '2'; accepted: 1/-1"),
        ("1,1,", "column 'y' is empty"),
        ("1e300,1,1", "too far apart"),
        ('1,1,"1', "a quote that is not closed"),
    ],
)
def test_an_invalid_row_raises_an_error_with_its_line(fresh, row, reason):
    path = fresh(".csv")
    path.write_text(f"x_a,z_a,y\n1,2,1\n\n{row}\n")
    error = Outcome(path).error
    assert isinstance(error, RowError)
    assert str(error).startswith(f"{path}, line 4: ")
    assert reason in str(error)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"x": {"a": 1}, "z": {"a": 1, "b": 2}, "same": true}', "'x.b' is missing"),
        ('{"x": {"a": 1, "b": true}, "z": {"a": 1, "b": 2}, "same": true}', "column 'x.b' holds True"),
        ('{"x": {"a": 1, "b": "2"}, "z": {"a": 1, "b": 2}, "same": true}', "column 'x.b' holds '2'"),
        ('{"x": {"a": 1, "b": null}, "z": {"a": 1, "b": 2}, "same": true}', "column 'x.b' is empty"),
        ('{"x": {"a": 1, "b": 2, "b": 3}, "z": {"a": 1, "b": 2}, "same": true}', "'x.b' occurs twice"),
        ('{"x": [1, 2], "z": {"a": 1, "b": 2}, "same": true}', "column 'x' holds [1, 2]"),
        ('{"z": {"a": 1, "b": 2}, "same": true}', "'x' is missing"),
        ('{"x": {"a": 1, "b": 2}, "z": {"a": 1, "b": 2}}', "'same' is missing"),
        ("[]", "a JSON object is expected"),
        ("{", "not JSON"),
    ],
)
def test_an_invalid_object_raises_an_error_with_its_line(fresh, row, reason):
    path = fresh(".jsonl")
    path.write_text('{"x": {"a": 1, "b": 2}, "z": {"b": 1, "a": 2}, "same": true}\n' + row)
    error = Outcome(path).error
    assert isinstance(error, RowError)
    assert str(error).startswith(f"{path}, line 2: ")
    assert reason in str(error)


@given(st.lists(st.sampled_from([(word, sign) for sign, words in LABEL_WORDS.items() for word in words]), min_size=1))
def test_labels(fresh, words):
    path = fresh(".csv")
    path.write_text("x_a,z_a,label\n" + "".join(f"1,2,{word}\n" for word, _ in words))
    assert Outcome(path).y == [sign for _, sign in words]


@pytest.mark.parametrize("values", [[1, 0, -1], [1.0, 0.0, -1.0], [True, False, False], ["Yes", "no", "0"]])
def test_labels_in_typed_columns(fresh, values):
    path = fresh(".parquet")
    pq.write_table(pa.table({"x_a": [1, 2, 3], "z_a": [1.0, 2.0, 3.0], "y": values}), path)
    assert Outcome(path).y == [1.0, -1.0, -1.0]


def test_types_of_columns(fresh):
    path = fresh(".parquet")
    decimals = pa.array(["1.10", "2.25", "3.10"]).cast(pa.decimal128(10, 2))
    columns = {"x_a": pa.array([1, 2, 2**60 + 1]), "z_a": decimals, "x_b": pa.array([1.5, 2.5, 3.5], pa.float32())}
    columns |= {"z_b": pa.array([1.0, 2.0, 1.0]).dictionary_encode(), "y": pa.array([1, 1, 1], pa.int8())}
    pq.write_table(pa.table(columns), path)
    read = Outcome(path)
    assert read.chunks[0].pairs[:, 1, 0].tolist() == [1.1, 2.25, 3.1]
    assert read.chunks[0].pairs[2].tolist() == [[float(2**60 + 1), 3.5], [3.1, 1.0]]
    pq.write_table(pa.table(columns | {"x_a": pa.array(["1", "2", "3"])}), path)
    assert "'x_a' holds no numbers" in str(Outcome(path).error)
    pq.write_table(pa.table(columns | {"x_a": pa.array([1, None, 3])}), path)
    assert "row 2: column 'x_a' is empty" in str(Outcome(path).error)
    assert Outcome(path, on_error="skip").lines == [1, 3]
    assert json.loads(skipped_rows(path)[0]["row"])["x_a"] is None


def test_damaged_columns_of_arrow_files_are_detected(fresh):
    """Arrow files have no checksums. One column holds text that is not UTF-8, one a list that ends after its values."""
    offsets = pa.py_buffer(np.array([0, 1, 2], dtype=np.int32))
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"1\xff")])
    far = pa.py_buffer(np.array([0, 2**30, 2], dtype=np.int32))
    lists = pa.Array.from_buffers(pa.list_(pa.float64()), 2, [None, far], children=[pa.array([1.0, 2.0])])
    valid = pa.array([[1.0], [2.0]])
    for columns in ({"x": valid, "z": valid, "y": text}, {"x": valid, "z": lists, "y": pa.array([1, 1])}):
        path = fresh(".arrow")
        write_arrow(path, pa.table(columns), False, 2)
        assert "damaged" in str(Outcome(path).error)


def test_without_labels(fresh):
    path = fresh(".csv")
    path.write_text("x_a,z_a\n1,2\n")
    assert Outcome(path, label=False).chunks[0].y is None


def write_weights(path, weights):
    """Write three comparisons and their weights, as text or as JSON values."""
    if path.suffix == ".csv":
        rows = "".join(f"{i},2,1,{weight}\n" for i, weight in enumerate(weights))
        path.write_text("x_a,z_a,similar,certainty\n" + rows)
    elif path.suffix == ".jsonl":
        rows = [{"x_a": i, "z_a": 2, "similar": 1, "certainty": weight} for i, weight in enumerate(weights)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        columns = {"x_a": range(len(weights)), "z_a": [2] * len(weights), "similar": [1] * len(weights)}
        pq.write_table(pa.table({**columns, "certainty": pa.array(weights)}), path)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_weights_are_read_from_a_named_column(fresh, suffix):
    path = fresh(suffix)
    write_weights(path, [0.5, 10, 0])
    for chunk_size in (1, 2, 3):
        read = Outcome(path, weight="certainty", chunk_size=chunk_size)
        assert np.concatenate([chunk.weights for chunk in read.chunks]).tolist() == [0.5, 10.0, 0.0]
    assert read.stream.feature_names == ("a",)
    assert Outcome(path).chunks[0].weights is None
    first = Outcome(path, weight="certainty", chunk_size=1).chunks[0].position
    rest = Outcome(path, weight="certainty", resume=first)
    assert np.concatenate([chunk.weights for chunk in rest.chunks]).tolist() == [10.0, 0.0]
    assert "was read with the columns" in str(Outcome(path, resume=first).error)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        (-0.25, "column 'certainty' holds -0.25; accepted: weights from 0 to 10"),
        (10.5, "column 'certainty' holds 10.5; accepted: weights from 0 to 10"),
        (1e300, r"column 'certainty' holds 1e+300; accepted: weights from 0 to 10"),
        (None, "column 'certainty' is empty; a finite number is expected"),
    ],
)
def test_an_invalid_weight_is_an_invalid_row(fresh, suffix, weight, reason):
    path = fresh(suffix)
    write_weights(path, [1.0, "" if weight is None and suffix == ".csv" else weight, 2.0])
    error = str(Outcome(path, weight="certainty").error)
    assert error.endswith(reason)
    assert (", line 3: " if suffix == ".csv" else " 2: ") in error
    read = Outcome(path, weight="certainty", on_error="skip")
    assert np.concatenate([chunk.weights for chunk in read.chunks]).tolist() == [1.0, 2.0]
    assert skipped_rows(path)[0]["reason"] == reason


@pytest.mark.parametrize("cell", ["often", "nan", "inf", "1,5"])
def test_a_weight_that_is_no_number_is_an_invalid_row(fresh, cell):
    path = fresh(".csv")
    path.write_text(f'x_a,z_a,similar,certainty\n1,2,1,1\n1,2,1,"{cell}"\n')
    assert str(Outcome(path, weight="certainty").error).endswith(
        f"line 3: column 'certainty' holds '{cell}'; a finite number is expected"
    )


def test_the_column_of_weights_has_no_other_role(fresh):
    path, columns = fresh(".parquet"), {"x_a": [1.0], "z_a": [2.0], "y": [1]}
    pq.write_table(pa.table(columns | {"x_w": [0.5]}), path)
    read = Outcome(path, weight="x_w")
    assert read.stream.feature_names == ("a",)
    assert read.chunks[0].weights.tolist() == [0.5]
    pq.write_table(pa.table(columns | {"word": ["a"]}), path)
    assert "has no column 'w' (weight=)" in str(Outcome(path, weight="w").error)
    assert "the column 'word' holds no numbers" in str(Outcome(path, weight="word").error)
    for options in ({"label": "y"}, {"x": ["y"], "z": ["z_a"], "label": False}, {"time": "y", "label": False}):
        error = str(Outcome(path, weight="y", **options).error)
        assert "the column 'y' (weight=) has another role, too; accepted: another column" in error


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_differences_up_to_a_limit(fresh, suffix):
    path, rows = fresh(suffix), [(1e10, 0.0), (2.0, -1e10), (5e9, -6e9)]
    if suffix == ".csv":
        path.write_text("x_a,z_a,similar\n" + "".join(f"{x},{z},1\n" for x, z in rows))
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps({"x_a": x, "z_a": z, "similar": 1}) + "\n" for x, z in rows))
    else:
        x, z = zip(*rows, strict=True)
        pq.write_table(pa.table({"x_a": x, "z_a": z, "similar": [1, 1, 1]}), path)
    assert len(Outcome(path).chunks[0].pairs) == 3
    assert len(Outcome(path, max_difference=1.2e10).chunks[0].pairs) == 3
    reason = "x and z are too far apart: they differ by 1.1e+10; differences up to 1.05e+10 are accepted"
    assert str(Outcome(path, max_difference=1.05e10).error).endswith(reason)
    assert len(Outcome(path, max_difference=1.05e10, on_error="skip").chunks[0].pairs) == 2


def test_times_are_returned_and_disorder_is_counted(fresh):
    path = fresh(".csv")
    path.write_text(
        "x_a,z_a,y,timestamp\n" + "".join(f"1,2,1,{time}\n" for time in ["9", "10", "", "9.5", "11", "2024", "2023-01"])
    )
    for chunk_size in (1, 2, 7):
        read = Outcome(path, chunk_size=chunk_size)
        assert read.times == ["9", "10", None, "9.5", "11", "2024", "2023-01"]
        # 9.5 follows 10. "2023-01" is not a number, and as text it precedes "2024".
        assert read.stream.n_out_of_order == 2
    equal = fresh(".csv")
    equal.write_text("x_a,z_a,y,time\n" + "1,2,1,5\n" * 3)
    assert Outcome(equal).stream.n_out_of_order == 0
    equal.write_text("x_a,z_a,y,time\n" + "1,2,1,noon\n" * 3)
    assert Outcome(equal).stream.n_out_of_order == 0
    path = fresh(".parquet")
    times = pa.array([3, 1, None, 2], pa.timestamp("ms"))
    pq.write_table(pa.table({"x_a": [1.0] * 4, "z_a": [1.0] * 4, "y": [1] * 4, "when": times}), path)
    read = Outcome(path, time="when")
    assert read.stream.n_out_of_order == 1
    assert read.times[0] == "1970-01-01 00:00:00.003"
    assert Outcome(path, time=False).chunks[0].times is None


# ---- items


def items_of(path: Any, **options: Any) -> tuple[list[Any], np.ndarray, list[Any], Any]:
    with open_items(path, **options) as stream:
        parts = list(stream)
    labels = [label for part in parts for label in part.labels or ()]
    return [id for part in parts for id in part.ids], np.concatenate([part.X for part in parts]), labels, stream


def test_items(fresh):
    path = fresh(".csv")
    path.write_text("id,height,label,width\na,1,red,2\nb,3,blue,4\n")
    ids, X, labels, stream = items_of(path, chunk_size=1)
    assert (ids, X.tolist(), labels) == (["a", "b"], [[1, 2], [3, 4]], ["red", "blue"])
    assert stream.feature_names == ("height", "width")
    ids, X, _, _ = items_of(path, id="label", label=False, features=["wid*"])
    assert (ids, X.tolist()) == (["red", "blue"], [[2], [4]])
    ids, X, _, stream = items_of(path, label=False)
    assert (X.tolist(), stream.feature_names) == ([[1, 2], [3, 4]], ("height", "width"))
    assert "1 column is left out of the features: 'label', which has no numbers; features=" in stream.notes[0]
    with pytest.raises(FileError, match=r"'label' holds 'red' in its first row.*features="):
        open_items(path, label=False, features=["height", "label"])
    with pytest.raises(FileError, match=r"no column 'key' \(id=\)"):
        open_items(path, id="key")
    assert items_of(path, label=False, features=["h*", "w*"])[1].tolist() == [[1, 2], [3, 4]]
    index = fresh(".csv")
    index.write_text(",a\n0,5\n")
    with pytest.raises(FileError, match="without a name"):
        open_items(index)
    with pytest.raises(FileError, match=r"no column 'depth' \(features=\)"):
        open_items(path, features="depth")


def test_items_without_ids_are_numbered_including_skipped_rows(fresh):
    path = fresh(".csv")
    path.write_text("a,b\n1,2\nx,4\n5,6\n,\n7,8\n")
    ids, X, _, stream = items_of(path, on_error="skip", chunk_size=2)
    assert (ids, X[:, 0].tolist(), stream.n_skipped) == ([0, 2, 4], [1, 5, 7], 2)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_items_as_lists(fresh, suffix):
    path = fresh(suffix)
    rows = [{"id": 7, "embedding": [1.0, 2.0]}, {"id": 8, "embedding": [3.0, 4.0]}]
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ids, X, _, stream = items_of(path)
    assert (ids, X.tolist(), stream.feature_names) == ([7, 8], [[1, 2], [3, 4]], ("0", "1"))


def test_unknown_and_duplicate_ids(fresh):
    items, path = fresh(".csv"), fresh(".csv")
    items.write_text("id,f\na,1\nb,2\n")
    path.write_text("id_a,id_b,y\na,b,1\na,c,1\n,a,1\nb,a,0\n")
    assert "line 3: column 'id_b' holds the id 'c'" in str(Outcome(path, items=items).error)
    read = Outcome(path, items=items, on_error="skip")
    assert read.lines == [2, 5]
    assert [row["line"] for row in skipped_rows(path)] == [3, 4]
    assert "no column 'left' (id_a=)" in str(Outcome(path, items=items, id_a="left").error)
    items.write_text("id,f\na,1\nb,2\na,3\n")
    assert "line 4: the id 'a' occurs already in line 2" in str(Outcome(path, items=items).error)
    items.write_text("id,f\na,1\nb,x\n")
    assert f"{items}, line 3" in str(Outcome(path, items=items).error)
    skipped = fresh(".jsonl")
    read = Outcome(path, items=open_items(items, on_error="skip", skipped=skipped), on_error="skip")
    assert read.lines == []
    assert [row["line"] for row in skipped_rows(path)] == [2, 3, 4, 5]


def test_features_of_nested_columns_come_from_the_first_valid_row(fresh):
    path = fresh(".jsonl")
    rows = [{"x": [1], "z": [2, 3], "y": 1}, {"x": [1, 2], "z": [3, 4], "y": 1}, {"x": [5, 6], "z": [7, 8], "y": 0}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    read = Outcome(path, on_error="skip")
    assert read.lines == [2, 3]
    assert read.stream.feature_names == ("0", "1")
    path.write_text(json.dumps(rows[0]) + "\n")
    assert "x and z have different features in each of the first 1 rows" in str(Outcome(path, on_error="skip").error)
    path.write_text(json.dumps({**rows[1], "w": [1]}) + "\n")
    assert "only as one for x and one for z" in str(Outcome(path, x=["x", "w"], z=["z", "w"]).error)


def test_a_typed_column_that_cannot_hold_labels_is_an_error(fresh):
    path = fresh(".parquet")
    pq.write_table(pa.table({"x_a": [1.0], "z_a": [1.0], "y": [[1.0]]}), path)
    assert "'y' holds neither text nor numbers nor booleans" in str(Outcome(path).error)


@pytest.mark.parametrize("n_rows", [32, 33, 200])
def test_one_invalid_row_in_a_block_is_found(fresh, n_rows):
    path = fresh(".csv")
    for bad in (0, n_rows // 2, n_rows - 1):
        rows = ["1,2,x\n" if i == bad else f"{i},2,1\n" for i in range(n_rows)]
        path.write_text("x_a,z_a,y\n" + "".join(rows))
        read = Outcome(path, on_error="skip")
        assert read.lines == [i + 2 for i in range(n_rows) if i != bad]
        assert [row["line"] for row in skipped_rows(path)] == [bad + 2]


# ---- gzip, standard input, memory, threads


def test_gzip_members_are_concatenated_and_padding_is_ignored(fresh):
    path = fresh(".csv.gz")
    content = [b"x_a,z_a,y\n1,2,1\n", b"3,4,", b"0\n5,6,1\n"]
    path.write_bytes(b"".join(map(gzip.compress, content)) + b"\0" * 1000)
    for block in (1, 7, 1 << 20):
        with block_bytes(block):
            assert Outcome(path).bits == np.arange(1.0, 7.0).tobytes()


@pytest.mark.parametrize("zipped", [False, True])
def test_a_source_holds_at_most_max_bytes(zipped):
    content = b"x" * 5000
    data = gzip.compress(content) if zipped else content

    def read_all(max_bytes):
        source = sources.Source(io.BytesIO(data), max_bytes=max_bytes)
        return b"".join(iter(lambda: source.read(1000), b""))

    assert read_all(5000) == content
    with pytest.raises(FileError, match="the upload holds more than 0 MiB when unzipped, which is the maximum"):
        read_all(4999)


def test_long_values_and_names_are_shortened_in_messages():
    assert quote("a" * 58) == repr("a" * 58)
    assert quote("a" * 59) == "'" + "a" * 56 + "..."
    assert quote_all("abc", 3) == "'a', 'b', 'c'"
    assert quote_all("abcd", 3) == "'a', 'b', 'c', ... (4 in all)"


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"x_a,z_a,y\n1,2,1\n3,4,0\n", {}),
        (b"x_a\tz_a\ty\n1\t2\t1\n3\t4\t0\n", {}),
        (b'{"x": [1], "z": [2], "y": 1}\n{"x": [3], "z": [4], "y": 0}\n', {}),
        (gzip.compress(b"x_a,z_a,y\n1,2,1\n3,4,0\n", mtime=0), {"format": "csv"}),
    ],
)
def test_standard_input(monkeypatch, content, options):
    def pipe() -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    pipe()
    read = Outcome("-", chunk_size=1, **options)
    assert read.error is None
    assert read.bits == np.array([1.0, 2.0, 3.0, 4.0]).tobytes()
    assert read.stream.total_bytes is None
    pipe()
    assert Outcome("-", resume=read.chunks[0].position, **options).bits == np.array([3.0, 4.0]).tobytes()
    pipe()
    assert "skipped=" in str(Outcome("-", on_error="skip", **options).error)


def test_standard_input_is_a_pipe():
    """Rows are available as soon as they are written, and the program can end while the pipe is open."""
    program = """
import sys
from ocelad.io import open_comparisons
with open_comparisons("-", chunk_size=1) as stream:
    print(next(stream).pairs.tolist(), flush=True)
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.write(b"x_a,z_a,y\n1,2,1\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"[[[1.0], [2.0]]]\n"
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == b""


def test_columnar_files_cannot_be_read_from_a_pipe(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"PAR1........")))
    assert "cannot be read from a pipe" in str(Outcome("-").error)


def test_a_line_that_is_too_long_is_an_error(fresh, monkeypatch):
    monkeypatch.setattr(sources, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(sources, "BLOCK_BYTES", 100)
    path = fresh(".csv")
    path.write_text("x_a,z_a,y\n1,2,1\n" + "1" * 5000)
    assert "line 3: the row is longer" in str(Outcome(path).error)


def test_the_message_names_the_missing_extra(fresh, monkeypatch):
    from ocelad.io.tabular import arrow

    path = fresh(".csv")
    path.write_text("x_a,z_a,y\n1,2,1\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    arrow.arrow.cache_clear()
    try:
        assert "pip install 'ocelad[files]'" in str(Outcome(path).error)
    finally:
        arrow.arrow.cache_clear()


def test_closing_early_leaves_no_thread(fresh):
    path = fresh(".csv")
    path.write_text("x_a,z_a,y\n" + "1,2,1\n" * 1000)
    with block_bytes(10), open_comparisons(path, chunk_size=1) as stream:
        next(stream)
        assert any(thread.name == "ocelad-files" for thread in threading.enumerate())
    assert not any(thread.name == "ocelad-files" for thread in threading.enumerate())
    assert list(stream) == []


def test_reading_ahead_is_bounded_and_passes_errors_on():
    produced = []

    def numbers() -> Iterator[int]:
        for i in range(5):
            produced.append(i)
            yield i
        raise FileError("the end is near")

    ahead = Prefetch(numbers())
    assert next(ahead) == 0
    ahead.close()
    assert len(produced) <= 4
    with pytest.raises(FileError, match="near"):
        list(Prefetch(numbers()))


MEASURE = """
import resource, sys
from ocelad.io import open_comparisons
with open_comparisons(sys.argv[1]) as stream:
    rows = sum(len(chunk.pairs) for chunk in stream)
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl", ".parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path, suffix):
    X = np.random.default_rng(0).normal(size=(1000, 2, 25))
    y = np.ones(1000)
    peaks = []
    # About as many megabytes. One page of each column of a Parquet file is in memory; the smaller file fills it, too.
    for repeats in (100, 300) if suffix == ".parquet" else (20, 200):
        path = tmp_path / f"{repeats}{suffix}"
        if suffix == ".parquet":
            table = arrow_table(X, y, "wide")
            pq.write_table(pa.concat_tables([table] * (2 * repeats)), path, compression="none", use_dictionary=False)
        else:
            part = tmp_path / "part"
            write_json(part, X, y, "lists") if suffix == ".jsonl" else write_delimited(part, X, y, ",")
            header, _, rows = part.read_bytes().partition(b"\n")
            with gzip.open(path, "wb", compresslevel=1) if suffix.endswith("gz") else path.open("wb") as file:
                file.write(header + b"\n")
                for _ in range(repeats):
                    file.write(rows)
        out = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, check=True, text=True).stdout
        peaks.append(int(out.split()[1]))
    assert peaks[1] - peaks[0] < 20_000, f"peaks in KB: {peaks}"


@pytest.mark.parametrize("sizes", [(), (0,), (3,), (2, 1), (1, 0, 2)])
def test_all_chunks_of_a_column_are_read(sizes):
    values = [float(i) for i in range(sum(sizes))]
    ends = list(itertools.accumulate(sizes, initial=0))
    chunks = [pa.array(values[first:last], pa.float64()) for first, last in itertools.pairwise(ends)]
    column = pa.chunked_array(chunks, pa.float64())
    assert combine_chunks(column).to_pylist() == to_float64(column).tolist() == values
    assert combine_chunks(pa.array(values)).to_pylist() == values
    assert to_float64(pa.chunked_array([[1.0], [None]])) is None


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("with_id", [False, True])
@pytest.mark.parametrize("with_label", [False, True])
def test_items_next_to_an_invalid_row_keep_their_ids_and_labels(fresh, kind, with_id, with_label):
    """An invalid row makes its block be read row by row."""
    path = fresh(f".{kind}")
    rows = [{"id": f"item {i}", "label": "red" if i % 2 else "blue", "f": float(i), "g": 0.5} for i in range(6)]
    names = [name for name in rows[0] if name in ("f", "g") or (with_id if name == "id" else with_label)]

    def write(rows):
        kept = [{name: row[name] for name in names} for row in rows]
        lines = [json.dumps(row) for row in kept] if kind == "jsonl" else [",".join(names)]
        if kind == "csv":
            lines += [",".join(str(row[name]) for name in names) for row in kept]
        path.write_text("\n".join(lines) + "\n")

    write(rows)
    ids, X, labels, _ = items_of(path)
    write([{**row, "g": "wrong"} if row is rows[3] else row for row in rows])
    some_ids, some_X, some_labels, stream = items_of(path, on_error="skip")
    assert stream.n_skipped == 1
    assert ids == ([row["id"] for row in rows] if with_id else list(range(6)))
    assert labels == ([row["label"] for row in rows] if with_label else [])
    for whole, some in ((ids, some_ids), (X.tolist(), some_X.tolist()), (labels, some_labels)):
        assert some == [value for i, value in enumerate(whole) if i != 3]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("wrong", [None, float("inf")])
def test_items_have_ids_and_finite_numbers(fresh, suffix, wrong):
    path = fresh(suffix)
    for table, words in (
        ({"id": ["a", "b"], "f": [1.0, wrong]}, "(line 3|row 2): column 'f'"),
        ({"id": ["a", None], "f": [1.0, 2.0]}, "an id is expected|'id' is empty"),
    ):
        if suffix == ".parquet":
            pq.write_table(pa.table(table), path)
        else:
            rows = [["" if cell is None else str(cell) for cell in row] for row in zip(*table.values(), strict=True)]
            path.write_text("\n".join(["id,f", *map(",".join, rows)]) + "\n")
        with pytest.raises(RowError, match=words):
            items_of(path)
        assert items_of(path, on_error="skip")[0] == ["a"]


def test_columns_without_numbers_are_named(fresh):
    path = fresh(".jsonl")
    for text, words in (
        ('{"id": "a", "v": []}\n', "line 1: the column 'v' holds no numbers"),
        ('{"id": "a", "v": [1], "w": [2]}\n', "several columns of lists, 'v', 'w'"),
    ):
        path.write_text(text)
        with pytest.raises((FileError, RowError), match=words):
            items_of(path)
    path.write_text('{"id": "a", "v": []}\n{"id": "b", "v": {"x": 1, "y": 2}}\n')
    assert items_of(path, on_error="skip")[:2] == (["b"], pytest.approx(np.array([[1.0, 2.0]])))
    path.write_text('{"id": "a", "v": []}\n{"id": "b", "v": {}}\n')
    with pytest.raises(FileError, match="none of the first rows holds numbers in the column 'v'"):
        open_items(path, on_error="skip")
    path.write_text('{"id": "a"}\n')
    with pytest.raises(FileError, match="has no columns of features"):
        open_items(path)


@pytest.mark.parametrize("kind", [".csv", ".jsonl", ".parquet"])
def test_the_position_before_the_first_chunk_is_the_beginning(fresh, kind):
    path = fresh(kind)
    rows = [{"x_a": float(i), "z_a": 0.5, "y": i % 2} for i in range(5)]
    if kind == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        lines = [json.dumps(row) if kind == ".jsonl" else ",".join(map(str, row.values())) for row in rows]
        path.write_text("\n".join(["x_a,z_a,y"] * (kind == ".csv") + lines) + "\n")
    with open_comparisons(path) as stream:
        position = stream.position
        assert (stream.n_rows, stream.n_skipped, stream.bytes_read) == (0, 0, 0)
        assert (position["offset"], position["line"], position["rows"]) == (0, 1, 0)
    resumed, whole = Outcome(path, resume=position), Outcome(path)
    assert resumed.error is None
    assert resumed.lines == whole.lines
    resumed.same_as(whole)


def test_columns_of_ids_and_points_are_not_taken_for_labels_or_times(fresh):
    items, path = fresh(".csv"), fresh(".csv")
    items.write_text("id,f\na,1\nb,2\n")
    path.write_text("similar,time,y\na,b,1\nb,a,0\n")
    read = Outcome(path, items=items, id_a="similar", id_b="time")
    assert (read.error, read.y, read.times) == (None, [1.0, -1.0], [])
    path.write_text("similar,time,y\n1,2,1\n3,5,0\n")
    read = Outcome(path, x=["similar"], z=["time"])
    assert (read.error, read.y, read.times) == (None, [1.0, -1.0], [])
    path.write_text("l,r,y\n1,2,1\n")
    assert Outcome(path, x="l*", z="r*").chunks[0].pairs.tolist() == [[[1.0], [2.0]]]
    path.write_text("x_a,z_a,y,similar,time\n1,2,no,yes,7\n")
    assert (Outcome(path).y, Outcome(path).times) == ([1.0], ["7"])


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("block", [1, 7, 40])
def test_a_gzipped_file_is_resumed_after_any_number_of_blocks(fresh, kind, block):
    path = fresh(f".{kind}.gz")
    path.write_bytes(gzip.compress(valid_and_invalid_rows(kind)))
    with block_bytes(block):
        whole = Outcome(path, on_error="skip", chunk_size=1)
        for at in range(len(whole.chunks)):
            resumed = Outcome(path, on_error="skip", chunk_size=1, resume=whole.chunks[at].position)
            assert resumed.lines == whole.lines[at + 1 :]
            assert [chunk.position for chunk in resumed.chunks] == [chunk.position for chunk in whole.chunks[at + 1 :]]


@pytest.mark.parametrize("row", [[None, 2.0], None, [1.0], [1.0, 2.0, 3.0]])
@pytest.mark.parametrize("as_objects", [False, True])
def test_an_invalid_list_or_object_in_a_typed_column_is_found(fresh, row, as_objects):
    path = fresh(".parquet")
    if as_objects:
        if row is not None and len(row) != 2:
            return  # a struct has all of its fields
        type = pa.struct([("a", pa.float64()), ("b", pa.float64())])
        points = [{"a": 1.0, "b": 2.0}, None if row is None else dict(zip("ab", row, strict=True))]
    else:
        type, points = pa.list_(pa.float64()), [[1.0, 2.0], row]
    column = pa.array([points[0], points[1], points[0]], type)
    pq.write_table(pa.table({"id": ["a", "b", "c"], "v": column}), path)
    ids, X, _, _ = items_of(path, on_error="skip")
    assert (ids, X.tolist()) == (["a", "c"], [[1.0, 2.0]] * 2)
    with pytest.raises(RowError, match="row 2: "):
        items_of(path)
    valid = pa.array([points[0]] * 3, type)
    for x, z in ((column, valid), (valid, column)):
        pq.write_table(pa.table({"x": x, "z": z, "y": [1, 1, 0]}), path)
        read = Outcome(path, on_error="skip")
        assert (read.lines, read.y) == ([1, 3], [1.0, -1.0])
        assert read.chunks[0].pairs.tolist() == [[[1.0, 2.0]] * 2] * 2


@pytest.mark.parametrize("kind", [".csv", ".csv.gz", ".jsonl", ".parquet", ".arrow"])
def test_the_bytes_read_grow_to_the_size_of_the_file(fresh, kind):
    path, rows = fresh(kind), [{"x_a": float(i), "z_a": 0.5, "y": i % 2} for i in range(200)]
    if kind in (".parquet", ".arrow"):
        table = pa.Table.from_pylist(rows)
        if kind == ".parquet":
            pq.write_table(table, path, row_group_size=20)
        else:
            write_arrow(path, table, False, 20)
    else:
        lines = [json.dumps(row) if kind == ".jsonl" else ",".join(map(str, row.values())) for row in rows]
        text = "\n".join(["x_a,z_a,y"] * (kind != ".jsonl") + lines) + "\n"
        path.write_bytes(gzip.compress(text.encode()) if kind.endswith(".gz") else text.encode())
    with block_bytes(400), open_comparisons(path, chunk_size=20) as stream:
        read = [stream.bytes_read for _ in stream]
        assert read == sorted(read)
        assert 0 < read[0] <= read[-1] <= stream.total_bytes == stream.bytes_read == path.stat().st_size
        if not kind.endswith(".gz"):  # a small file is unzipped at once
            assert read[0] < read[4] < read[-1]


@pytest.mark.parametrize("invalid", [{0}, {21}, {40}, {63}, {20, 33, 45}, set(range(64)) - {37}])
def test_invalid_rows_of_a_typed_column_are_found(fresh, invalid):
    path = fresh(".parquet")
    values = [None if i in invalid else float(i) for i in range(64)]
    pq.write_table(pa.table({"id": [f"item {i}" for i in range(64)], "f": values}), path)
    ids, X, _, stream = items_of(path, on_error="skip")
    valid = [i for i in range(64) if i not in invalid]
    assert (ids, X[:, 0].tolist()) == ([f"item {i}" for i in valid], [float(i) for i in valid])
    assert stream.n_skipped == len(invalid)
    assert [row["line"] for row in skipped_rows(path)] == [i + 1 for i in sorted(invalid)]
