"""Items that are vectors: NumPy, Parquet and Arrow files in every command, missing numbers, and excluded columns."""

import io
import json

import numpy as np
import pyarrow as pa
import pytest
from command import run
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather
from pyarrow import parquet as pq

from ocelad import MetricTracker
from ocelad.estimators.file_tracker import FileTracker
from ocelad.io import FileError, KnownFeatures, RowError, open_comparisons, open_items
from ocelad.service.items import UploadLimits, load_items
from ocelad.service.items.load_items import parse_upload

N_ITEMS, N_FEATURES, N_ANSWERS = 40, 5, 80
OPTIONS = ["--linear", "--no-transitive", "--quiet"]


def draw_items():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N_ITEMS, N_FEATURES)).astype(np.float32)
    return X, np.where(X[:, 0] > 0, "warm", "cold")


def to_table(X, classes, kind):
    if kind == "fixed":
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    else:
        vectors = pa.array(list(X), pa.list_(pa.float32()) if kind == "list" else pa.large_list(pa.float32()))
    return pa.table(
        {"id": np.arange(len(X)), "title": [f"no. {i}" for i in range(len(X))], "vector": vectors}
    ).append_column("class", pa.array(classes.tolist()))


def write_items(path, X, classes):
    """Write the items in the format of the suffix; a stem that ends in "fixed" means fixed-size lists."""
    kind = "fixed" if path.stem.endswith("fixed") else "large" if path.stem.endswith("large") else "list"
    if path.suffix == ".npy":
        np.save(path, X)
    elif path.suffix == ".npz":
        np.savez(path, ids=np.arange(len(X)).astype(str), vectors=X, **{"class": classes})
    elif path.suffix == ".parquet":
        pq.write_table(to_table(X, classes, kind), path)
    elif path.suffix == ".arrow":
        table = to_table(X, classes, kind)
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table, max_chunksize=7)
    elif path.suffix == ".feather":
        feather.write_feather(to_table(X, classes, kind), path)
    else:
        rows = zip(X.tolist(), classes.tolist(), strict=True)
        path.write_text(
            "".join(json.dumps({"id": i, "title": "a", "v": v, "class": c}) + "\n" for i, (v, c) in enumerate(rows))
        )
    return path


FILES = (
    *("vectors.npy", "vectors.npz", "vectors.parquet", "fixed.parquet", "large.parquet"),
    *("vectors.arrow", "fixed.arrow", "fixed.feather", "vectors.jsonl"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the same items in each format, answers by id, and a tracker of the Parquet file."""
    path = tmp_path_factory.mktemp("vectors")
    X, classes = draw_items()
    for name in FILES:
        write_items(path / name, X, classes)
    rng = np.random.default_rng(5)
    pairs = rng.integers(N_ITEMS, size=(N_ANSWERS, 2))
    same = classes[pairs[:, 0]] == classes[pairs[:, 1]]
    lines = [f"{a},{b},{int(answer)}" for (a, b), answer in zip(pairs.tolist(), same.tolist(), strict=True)]
    (path / "answers.csv").write_text("\n".join(["id_a,id_b,same", *lines]) + "\n")
    run("track", "answers.csv", "--items", "vectors.parquet", "--features", "vector", *OPTIONS, cwd=path)
    return path


def read(path, **options):
    with open_items(path, **options) as stream:
        chunks = list(stream)
    return stream, [id for chunk in chunks for id in chunk.ids], np.concatenate([chunk.X for chunk in chunks])


@pytest.mark.parametrize("name", FILES)
def test_every_format_has_the_same_items(folder, name):
    stream, ids, X = read(folder / name, chunk_size=11)
    assert list(map(str, ids)) == [str(i) for i in range(N_ITEMS)]
    np.testing.assert_array_equal(X, draw_items()[0])
    assert X.dtype == (np.float64 if name.endswith("jsonl") else np.float32)
    assert stream.feature_names == tuple("01234")
    assert stream.vector_column == {".npz": "vectors", ".jsonl": "v"}.get((folder / name).suffix, "vector")


@pytest.mark.parametrize("name", FILES)
def test_every_command_reads_every_format_without_being_told_the_features(folder, tmp_path, name):
    """Trackers of all formats are equal, and each command finds the vectors in a file of another format."""
    run("track", "answers.csv", "--items", name, *OPTIONS, "-o", tmp_path / "tracker", cwd=folder)
    expected = MetricTracker.load(folder / "answers.tracker")
    assert MetricTracker.load(tmp_path / "tracker").metric_ == expected.metric_
    points = run("embed", "answers.tracker", name, "-o", tmp_path / "points.parquet", cwd=folder)
    assert not points.stderr
    table = pq.read_table(tmp_path / "points.parquet").to_pandas()
    X, _ = draw_items()
    np.testing.assert_allclose(
        table.filter(like="dimension"), expected.transform(X.astype(float)), rtol=1e-9, atol=1e-12
    )
    reduced = tmp_path / "reduced.parquet"
    run("embed", "answers.tracker", name, "--dimensions", "2", "-o", reduced, cwd=folder)
    np.testing.assert_allclose(
        pq.read_table(reduced).to_pandas().filter(like="dimension"), X @ expected.metric_.projection(X, 2), rtol=1e-9
    )
    printed = run("distance", "answers.tracker", "answers.csv", "--items", name, cwd=folder).stdout
    assert len(printed.splitlines()) == 1 + N_ANSWERS
    shares = run("inspect", "answers.tracker", "--items", name, "--json", cwd=folder).stdout
    assert json.loads(shares)["shares_of"] == "items"
    if name != "vectors.npy":  # which has no classes
        scores = run("evaluate", "answers.tracker", "--items", name, "--class", "class", "--json", cwd=folder).stdout
        assert 0 <= json.loads(scores)["scores"]["5-NN error"]["learned"] <= 1


def test_plot_and_compare_read_vectors(folder, tmp_path):
    items = ["--items", "vectors.npz"]
    run("plot", "answers.tracker", "embedding", *items, "--label", "class", "-o", tmp_path / "a.png", cwd=folder)
    run("plot", "answers.tracker", "features", "--items", "vectors.npy", "-o", tmp_path / "b.png", cwd=folder)
    stream = ["--stream", "answers.csv", *items, "--class", "class", "--every", "20"]
    compared = run("compare", "euclidean", *stream, "--output", tmp_path / "out", "--json", cwd=folder).stdout
    assert json.loads(compared)
    assert (tmp_path / "a.png").stat().st_size > 1000


@pytest.mark.parametrize("name", FILES)
def test_the_service_reads_every_format(folder, name):
    formats = {".feather": "arrow"}
    path = folder / name
    items = load_items(path)
    np.testing.assert_array_equal(items.features, draw_items()[0])
    assert items.ids == tuple(map(str, range(N_ITEMS)))
    uploaded = parse_upload(path.read_bytes(), formats.get(path.suffix, path.suffix[1:]))
    np.testing.assert_array_equal(uploaded.features, items.features)
    assert uploaded.ids == items.ids
    assert uploaded.fields == items.fields


def test_the_tracker_remembers_the_column_of_vectors(folder, tmp_path):
    X, classes = draw_items()
    table = to_table(X, classes, "list").append_column("other", pa.array(list(X[:, :2])))
    pq.write_table(table, tmp_path / "two.parquet")
    stderr = run("track", folder / "answers.csv", "--items", "two.parquet", cwd=tmp_path, code=1).stderr
    assert "two.parquet has several columns of lists, 'vector', 'other'; select one with --features" in stderr
    told = ["--features", "vector"]
    answers = (folder / "answers.csv").read_text()
    (tmp_path / "a.csv").write_text(answers)
    run("track", "a.csv", "--items", "two.parquet", *told, *OPTIONS, cwd=tmp_path)
    assert FileTracker.load(tmp_path / "a.tracker").vector_column == "vector"
    (tmp_path / "a.csv").write_text(answers + "1,2,1\n")
    run("track", "a.csv", "--items", "two.parquet", "--resume", *OPTIONS, cwd=tmp_path)
    run("track", "a.csv", "--items", "two.parquet", "--from", "a.tracker", "-o", "b.tracker", *OPTIONS, cwd=tmp_path)
    for tracker in ("a.tracker", "b.tracker"):
        run("embed", tracker, "two.parquet", "-o", "points.csv", cwd=tmp_path)
        run("evaluate", tracker, "a.csv", "--items", "two.parquet", "--json", cwd=tmp_path)
    stderr = run("embed", "a.tracker", "two.parquet", "--features", "other", cwd=tmp_path, code=1).stderr
    assert "lacks '2', '3', '4'" in stderr


def test_numpy_files_stay_in_the_file(folder):
    with open_comparisons(folder / "answers.csv", items=folder / "vectors.npy") as stream:
        X = stream.items.X
        assert isinstance(X, np.memmap)
        assert X.dtype == np.float32
        pairs = np.concatenate([chunk.pairs for chunk in stream])
    assert pairs.dtype == np.float64
    assert pairs.shape == (N_ANSWERS, 2, N_FEATURES)


@pytest.mark.parametrize("curved", [False, True])
def test_float32_items_give_the_same_tracker_as_float64_ones(curved):
    """Also if they are known before the first answer, and answers imply others."""
    X, classes = draw_items()
    pairs = np.random.default_rng(7).integers(N_ITEMS, size=(30, 2))
    same = classes[pairs[:, 0]] == classes[pairs[:, 1]]
    one, other = (
        MetricTracker(preprocessor=items, curved=curved).fit(pairs, same) for items in (X, X.astype(np.float64))
    )
    assert one.metric_ == other.metric_
    np.testing.assert_array_equal(one.transform([3, 1]), other.transform(X[[3, 1]]))


@given(st.sampled_from(["<f2", "<f4", ">f4", "<f8", ">f8", "<i2", ">i8", "|u1"]), st.booleans(), st.integers(1, 9))
def test_npy_files_of_any_type_and_order(tmp_path_factory, dtype, fortran, chunk_size):
    X = (np.arange(28).reshape(7, 4) * 3 % 17).astype(dtype)
    path = tmp_path_factory.mktemp("npy") / "a.npy"
    np.save(path, np.asfortranarray(X) if fortran else X)
    _, ids, found = read(path, chunk_size=chunk_size)
    assert ids == list(range(7))
    np.testing.assert_array_equal(found, X)


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


X = np.ones((3, 2))
WITH_NAN, WITH_INFINITY = X.copy(), X.copy()
WITH_NAN[1, 1], WITH_INFINITY[2, 0] = np.nan, np.inf
BAD_FILES = [
    ("a.npy", npy(X)[:-3], "a.npy is truncated, damaged or in another format"),
    ("a.npy", npy(X)[:20], "a.npy is truncated, damaged or in another format"),
    ("a.npy", b"id,x\n1,2\n", "a.npy is not a NumPy file: its first bytes are b'id,x"),
    ("a.npy", npy(np.ones(3)), r"float64 with shape \(3,\); accepted: vectors as rows of a 2-D array of numbers"),
    ("a.npy", npy(np.ones((3, 0))), "vectors of length 0"),
    ("a.npy", npy(np.ones((0, 3))), "has no rows"),
    ("a.npy", npy(np.array([["a"]])), "<U1 with shape"),
    ("a.npy", npy(np.array([[{}]]), allow_pickle=True), "holds Python objects"),
    ("a.npy", npy(WITH_NAN), r"a.npy, row 2: column 'vector\[1\]' holds nan; a finite number is expected"),
    ("a.npy", npy(WITH_INFINITY), r"row 3: column 'vector\[0\]' holds inf"),
    ("a.npz", npz(vectors=X)[:-30], "truncated, damaged"),
    ("a.npz", npz(ids=np.arange(2), vectors=X), "different lengths: 'ids' has 2, 'vectors' has 3"),
    ("a.npz", npz(ids=np.array(["a", "b", "a"]), vectors=X), "row 3: the id 'a' occurs already in row 1"),
    ("a.npz", npz(ids=np.array(["a", "b", ""]), vectors=X), "row 3: column 'ids' is empty; an id is expected"),
    ("a.npz", npz(a=X, b=X), "several columns of lists, 'a', 'b'; select one with features="),
    ("a.npz", npz(a=np.ones((3, 2, 2))), r"'a' holds float64 with shape \(3, 2, 2\)"),
    ("a.npz", npz(ids=np.array(["a", None, "b"], dtype=object), vectors=X), "holds Python objects; accepted"),
    ("a.npz", npz(ids=np.array(["a", "b", "c"])), "has no columns of features"),
]


@pytest.mark.parametrize(("name", "content", "sentence"), BAD_FILES)
def test_bad_numpy_files_get_one_sentence(tmp_path, name, content, sentence):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "answers.csv").write_text("id_a,id_b,same\n0,1,1\n")
    with (
        pytest.raises((FileError, RowError), match=sentence),
        open_comparisons(tmp_path / "answers.csv", items=tmp_path / name) as stream,
    ):
        list(stream)
    stderr = run("track", "answers.csv", "--items", name, cwd=tmp_path, code=1).stderr
    assert stderr.count("Error: ") == 1
    assert "Traceback" not in stderr
    assert not (tmp_path / "answers.tracker").exists()


def test_an_uploaded_archive_is_not_unzipped_beyond_its_limit():
    file = io.BytesIO()
    np.savez_compressed(file, vectors=np.zeros((200_000, 8)))
    assert len(file.getvalue()) < 1 << 20
    with pytest.raises(FileError, match="the upload holds more than 1 MiB when unzipped"):
        parse_upload(file.getvalue(), "npz", limits=UploadLimits(max_unzipped_bytes=1 << 20))


def test_ids_of_archives_are_texts_bytes_or_numbers(tmp_path):
    for ids in (np.array(["ä", "b"]), np.array(["ä".encode(), b"b"])):
        np.savez(tmp_path / "a.npz", ids=ids, v=np.eye(2), model="name of a model")
        assert read(tmp_path / "a.npz")[1] == ["ä", "b"]
    np.savez(tmp_path / "a.npz", id=[7, 9], v=np.eye(2))
    assert read(tmp_path / "a.npz")[1] == [7, 9]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl"])
def test_ragged_vectors_name_the_row(tmp_path, suffix):
    path = tmp_path / f"items{suffix}"
    vectors = [[1.0, 2.0], [1.0, 2.0, 3.0], None, [4.0, None]]
    if suffix == ".jsonl":
        path.write_text("".join(json.dumps({"v": v}) + "\n" for v in vectors))
    else:
        table = pa.table({"v": pa.array(vectors, pa.list_(pa.float32()))})
        if suffix == ".parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
    with pytest.raises(RowError, match=r" 2: column 'v' holds 3 numbers; 2 are expected"):
        read(path)
    stream, ids, _ = read(path, on_error="skip", skipped=tmp_path / "skipped")
    assert (ids, stream.n_skipped) == ([0], 3)
    _, ids, X = read(path, on_error="skip", skipped=tmp_path / "skipped", missing="median")
    assert ids == [0, 2, 3]
    np.testing.assert_array_equal(X, [[1, 2], [2.5, 2], [4, 2]])


def test_text_columns_are_left_out_and_columns_can_be_excluded(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("id,title,height,zip,width\na,1984,1,7,2\nb,Emma,3,8,4\nc,Ulysses,5,9,7\n")
    stream, _, X = read(path, exclude="zip")
    assert stream.feature_names == ("height", "width")
    assert X.shape == (3, 2)
    assert read(path, exclude=["z*", "width"])[0].feature_names == ("height",)
    with pytest.raises(FileError, match=r"no column 'depth' \(exclude=\)"):
        open_items(path, exclude="depth")
    with pytest.raises(FileError, match="'zip' is in features= and in exclude="):
        open_items(path, features=["zip"], exclude="zip")
    (tmp_path / "answers.csv").write_text("id_a,id_b,same\na,b,1\nb,c,0\n")
    command = ["track", "answers.csv", "--items", "items.csv", "--exclude", "zip", "--linear"]
    stderr = run(*command, cwd=tmp_path).stderr
    assert "Note: items.csv: 1 column is left out of the features: 'title', which has no numbers; --features" in stderr
    assert "left out" not in run("embed", "answers.tracker", "items.csv", cwd=tmp_path).stderr
    items = load_items(path, exclude=["zip"])
    assert items.feature_names == ("height", "width")
    assert list(items.fields) == ["title", "zip"]


numbers = st.one_of(st.none(), st.floats(-10, 10, width=32))


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=9), st.sampled_from([".csv", ".parquet", ".jsonl"]))
def test_missing_numbers_are_the_median_of_their_column(tmp_path_factory, rows, suffix):
    path = tmp_path_factory.mktemp("missing") / f"items{suffix}"
    if suffix == ".csv":
        cells = [",".join("" if value is None else repr(value) for value in row) for row in rows]
        path.write_text("a,b\n" + "".join(f"{line}\n" for line in cells))
    elif suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip("ab", row, strict=True))) + "\n" for row in rows))
    else:
        pq.write_table(
            pa.table(
                {
                    name: pa.array(column, pa.float64())
                    for name, column in zip("ab", zip(*rows, strict=True), strict=True)
                }
            ),
            path,
        )
    columns = np.array([[np.nan if value is None else value for value in row] for row in rows])
    if np.isnan(columns).all(axis=0).any():
        with pytest.raises(FileError, match="is missing in every row"):
            read(path, features=["a", "b"], missing="median")
        return
    expected = np.where(np.isnan(columns), np.nanmedian(columns, axis=0), columns)
    np.testing.assert_array_equal(read(path, features=["a", "b"], missing="median")[2], expected)
    if np.isnan(columns).any():
        with pytest.raises(RowError, match="is empty; a finite number is expected"):
            read(path, features=["a", "b"])


def test_missing_numbers_on_the_command_line_and_in_the_service(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("id,a,b\na,1,\nb,NA,4\nc,5,6\nd,2,5\n")
    (tmp_path / "answers.csv").write_text("id_a,id_b,same\na,b,1\nb,c,0\n")
    stderr = run("track", "answers.csv", "--items", "items.csv", cwd=tmp_path, code=1).stderr
    assert "items.csv, line 2: column 'b' is empty; a finite number is expected" in stderr
    assert "--missing median" in stderr
    run("track", "answers.csv", "--items", "items.csv", "--missing", "median", "--linear", cwd=tmp_path)
    assert "is empty" in run("embed", "answers.tracker", "items.csv", cwd=tmp_path, code=1).stderr
    run("embed", "answers.tracker", "items.csv", "--missing", "median", cwd=tmp_path)
    run("inspect", "answers.tracker", "--items", "items.csv", "--missing", "median", cwd=tmp_path)
    stdin = run("embed", "answers.tracker", "-", "--missing", "median", cwd=tmp_path, input=path.read_text(), code=1)
    assert "standard input can be read only once" in stdin.stderr
    items = load_items(path, missing="median")
    assert items.features.tolist() == [[1, 5], [2, 4], [5, 6], [2, 5]]
    with pytest.raises(RowError, match="is empty"):
        load_items(path)


def test_known_features_are_found_by_name_then_by_column(tmp_path):
    path = tmp_path / "items.parquet"
    pq.write_table(pa.table({"b": [1.0], "a": [2.0], "v": [[3.0, 4.0]], "0": [5.0], "1": [6.0]}), path)
    for known, expected in (
        (KnownFeatures(("a", "b")), [2, 1]),
        (KnownFeatures(("p", "q"), "v"), [3, 4]),
        (KnownFeatures(("0", "1"), "v"), [5, 6]),
        (KnownFeatures(("p", "q"), "gone"), [3, 4]),
        (KnownFeatures(None), [3, 4]),
    ):
        assert read(path, features=known)[2].tolist() == [expected]
    with pytest.raises(FileError, match="lacks the columns 'p', 'q', which the tracker was trained on"):
        open_items(path, features=KnownFeatures(("p", "q")))


def test_embed_of_several_files_on_the_same_axes(folder, tmp_path):
    X, _ = draw_items()
    np.save(tmp_path / "queries.npy", 2 * X[:4])
    common = ["--dimensions", "2", "--axes-of", folder / "vectors.npy", "-o", tmp_path / "points.parquet"]
    run("embed", "answers.tracker", tmp_path / "queries.npy", *common, cwd=folder)
    found = pq.read_table(tmp_path / "points.parquet").to_pandas().filter(like="dimension")
    metric = MetricTracker.load(folder / "answers.tracker").metric_
    np.testing.assert_allclose(found, 2 * X[:4] @ metric.projection(X, 2), rtol=1e-9)
    alone = run("embed", "answers.tracker", "vectors.npy", "--axes-of", "vectors.npz", cwd=folder, code=2)
    assert "--axes-of needs --dimensions" in alone.stderr
