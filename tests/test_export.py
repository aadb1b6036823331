"""Handing the learned distance over: ``export_index``, and the commands export and neighbors."""

from __future__ import annotations

import json
import sys
from typing import Any

import command
import numpy as np
import pytest

from ocelad import Metric, MetricTracker
from ocelad.neighbors.export_index import export_index

run: Any = command.run


@pytest.fixture
def items() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(400, 12)).astype(np.float32)


@pytest.fixture
def metric() -> Metric:
    rng = np.random.default_rng(1)
    return Metric.low_rank(1.0, rng.normal(size=(3, 12)), np.array([5.0, 2.0, 1.0]), 4.0)


def nearest(metric: Any, items: np.ndarray, query: np.ndarray, k: int) -> list[int]:
    return np.argsort(metric.distance(items.astype(np.float64), query), kind="stable")[:k].tolist()


def test_a_matrix_gives_the_learned_distances(metric: Metric, items: np.ndarray, tmp_path: Any) -> None:
    for given in (None, items):
        written = export_index(metric, "matrix", tmp_path / "P.npy", items=given)
        P = np.load(written.path)
        assert P.shape == (12, 12) == (12, written.n_dimensions)
        points = items.astype(np.float64) @ P
        np.testing.assert_allclose(
            np.linalg.norm(points[:50] - points[50:100], axis=1), metric.distance(items[:50], items[50:100]), rtol=1e-9
        )


def test_a_missing_library_is_named_with_what_to_install(
    metric: Metric, items: np.ndarray, tmp_path: Any, monkeypatch: Any
) -> None:
    metric.save(tmp_path / "a.metric")
    np.save(tmp_path / "items.npy", items)
    for module in ("faiss", "ocelad.neighbors.backends.faiss_backend"):
        monkeypatch.setitem(sys.modules, module, None)  # the import fails
    error = run("export", "a.metric", "items.npy", "--to", "faiss", cwd=tmp_path, code=1).stderr
    assert error.startswith("Error: the backend 'faiss' needs a library that is not installed")
    assert error.endswith("install it with: pip install 'ocelad[faiss]'\n")


@pytest.mark.parametrize("n_components", [None, 5])
@pytest.mark.parametrize("to", ["npy", "faiss", "usearch", "lancedb"])
def test_exported_items_are_searched_by_the_store_itself(
    to: Any, n_components: int | None, metric: Metric, items: np.ndarray, tmp_path: Any
) -> None:
    ids = [f"i{i}" for i in range(400)]
    options = {"kind": "flat"} if to == "faiss" else None
    written = export_index(
        metric, to, tmp_path / "out", items=items, ids=ids, n_components=n_components, options=options
    )
    assert (written.n_items, written.n_dimensions) == (400, n_components or 12)
    assert written.matrix is not None
    P = np.load(written.matrix)
    query = np.random.default_rng(2).normal(size=12)
    projected = (query @ P).astype(np.float32)
    if to == "npy":
        found = np.argsort(np.linalg.norm(np.load(written.path) - projected, axis=1))[:10].tolist()
    elif to == "faiss":
        import faiss

        found = faiss.read_index(str(written.path)).search(projected[None], 10)[1][0].tolist()
    elif to == "usearch":
        from usearch.index import Index

        found = Index.restore(str(written.path)).search(projected, 10).keys.tolist()
    else:
        import lancedb

        rows = lancedb.connect(written.path).open_table("items").search(projected).limit(10).to_list()
        assert written.ids is None
        found = [ids.index(row["id"]) for row in rows]
    if to != "lancedb":
        assert written.ids is not None
        assert json.loads(written.ids.read_text()) == ids
    expected = nearest(metric, items, query, 10)
    assert len(set(found) & set(expected)) >= (10 if n_components is None else 4)


def test_exports_replace_earlier_ones_and_nothing_else(metric: Metric, items: np.ndarray, tmp_path: Any) -> None:
    for n in (400, 100):
        export_index(metric, "lancedb", tmp_path / "table", items=items[:n])
        export_index(metric, "faiss", tmp_path / "index", items=items[:n], options={"kind": "flat"})
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "index",
        "index.matrix.npy",
        "table",
        "table.matrix.npy",
    ]
    (tmp_path / "table" / "thesis.tex").write_text("")
    export_index(metric, "lancedb", tmp_path / "table", items=items[:50])
    assert (tmp_path / "table" / "thesis.tex").exists()
    for to in ("npy", "faiss", "usearch", "matrix"):
        with pytest.raises(ValueError, match="is a folder; accepted: the name of a file"):
            export_index(metric, to, tmp_path / "table", items=items)


def test_ids_of_an_earlier_export_do_not_stay(metric: Metric, items: np.ndarray, tmp_path: Any) -> None:
    ids = np.arange(1000, 1400)
    written = export_index(metric, "npy", tmp_path / "out.npy", items=items, ids=ids)
    assert written.ids is not None
    assert json.loads(written.ids.read_text()) == ids.tolist()
    assert export_index(metric, "npy", tmp_path / "out.npy", items=items).ids is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.npy", "out.npy.matrix.npy"]


def test_curved_distances_are_exported_with_their_items(items: np.ndarray, tmp_path: Any) -> None:
    rng = np.random.default_rng(3)
    tracker = MetricTracker(curved=True).start(12, items=items)
    for i, j in rng.integers(400, size=(60, 2)):
        tracker.learn_one(items[i], items[j], abs(items[i, 0]) < 1 == (abs(items[j, 0]) < 1))
    with pytest.raises(ValueError, match="a curved distance has no matrix"):
        export_index(tracker.metric_, "matrix", tmp_path / "P.npy", items=items)
    written = export_index(tracker.metric_, "npy", tmp_path / "points.npy", items=items)
    assert written.matrix is None
    points = np.load(written.path)
    np.testing.assert_allclose(
        np.linalg.norm(points[:50] - points[50:100], axis=1),
        tracker.metric_.distance(items[:50], items[50:100]),
        rtol=1e-4,
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"to": "pinecone"}, "there is no export to 'pinecone'; accepted: matrix, npy"),
        ({"to": "npy"}, "the export to npy needs items"),
        ({"to": "matrix", "n_components": 2}, "n_components needs items"),
        ({"to": "npy", "items": [[1.0, 2.0]]}, "items has 2 features; 12 are expected"),
        ({"to": "npy", "items": np.ones((2, 12)), "ids": ["a"]}, "1 ids and 2 items"),
        ({"to": "npy", "items": np.ones((2, 12)), "ids": "ab"}, "ids is the text 'ab'; accepted: a sequence of ids"),
        ({"to": "faiss", "items": np.ones((2, 12)), "options": {"kind": "tree"}}, "kind is 'tree'"),
    ],
)
def test_bad_exports_are_refused(arguments: dict[str, Any], sentence: str, metric: Metric, tmp_path: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=sentence):
        export_index(metric, path=tmp_path / "out", **arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("to", ["matrix", "npy", "faiss", "usearch"])
def test_a_missing_folder_is_named(to: Any, metric: Metric, items: np.ndarray, tmp_path: Any) -> None:
    with pytest.raises(FileNotFoundError, match=r"^the folder '.*nowhere' does not exist$"):
        export_index(metric, to, tmp_path / "nowhere" / "out", items=items)


def test_a_tracker_is_not_exported(items: np.ndarray, tmp_path: Any) -> None:
    with pytest.raises(TypeError, match=r"metric is a MetricTracker; accepted: a Metric, such as tracker\.metric_"):
        export_index(MetricTracker().start(12), "npy", tmp_path / "out", items=items)  # type: ignore[arg-type]


# The commands.


@pytest.fixture
def trained(items: np.ndarray, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a folder with vectors, a table of them with ids, and a tracker that has learned from pairs of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    np.save("vectors.npy", items)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(items.ravel()), 12)
    names = [f"i{i}" for i in range(400)]
    pq.write_table(pa.table({"id": names, "text": names, "vector": vectors}), "items.parquet")
    pairs = np.random.default_rng(4).integers(400, size=(200, 2))
    rows = [f"i{i},i{j},{1 if (items[i, 0] > 0) == (items[j, 0] > 0) else -1}" for i, j in pairs]
    (tmp_path / "pairs.csv").write_text("\n".join(["id_a,id_b,y", *rows]))
    run("track", "pairs.csv", "--items", "items.parquet", "--linear")
    return tmp_path


def test_neighbors_from_files_are_those_of_the_metric(trained: Any, items: np.ndarray) -> None:
    tracker = MetricTracker.load("pairs.tracker")
    result = run("neighbors", "pairs.tracker", "items.parquet", "--of", "i7", "-k", "4")
    rows = [line.split(",") for line in result.stdout.splitlines()[1:]]
    expected = [at for at in nearest(tracker.metric_, items, items[7].astype(np.float64), 5) if at != 7][:4]
    assert [row[2].strip('"') for row in rows] == [f"i{at}" for at in expected]
    np.testing.assert_allclose([float(row[3]) for row in rows], tracker.metric_.distance(items[expected], items[7]))
    # The same items without ids, searched by the vectors of a file.
    run("neighbors", "pairs.tracker", "vectors.npy", "--queries", "items.parquet", "-k", "1", "-o", "n.csv")
    found = [line.split(",")[:3] for line in (trained / "n.csv").read_text().splitlines()[1:]]
    assert found == [[f'"i{i}"', "1", str(i)] for i in range(400)]


def test_neighbors_that_may_be_taken_for_the_same(trained: Any, items: np.ndarray) -> None:
    tracker = MetricTracker.load("pairs.tracker")
    result = run("neighbors", "pairs.tracker", "vectors.npy", "--within", "0.4", "--of", "3")
    pairs = np.stack([np.tile(items[3], (400, 1)), items], axis=1).astype(np.float64)
    same = set(np.flatnonzero(tracker.decide(pairs, 0.4) > 0).tolist()) - {3}
    assert {int(line.split(",")[2]) for line in result.stdout.splitlines()[1:]} == same


@pytest.mark.parametrize("to", ["matrix", "npy", "faiss", "usearch", "lancedb"])
def test_export_command(to: str, trained: Any) -> None:
    run("export", "pairs.tracker", "items.parquet", "--to", to, "--dimensions", "3", "-o", "out")
    assert (trained / "out").exists()
    P = np.load(trained / ("out" if to == "matrix" else "out.matrix.npy"))
    assert P.shape == (12, 3)


@pytest.mark.parametrize(
    ("code", "arguments", "sentence"),
    [
        (2, "export pairs.tracker --to faiss", "--to faiss needs ITEMS"),
        (2, "export pairs.tracker vectors.npy --to npy --kind flat", "--kind is an option of --to faiss"),
        (1, "export pairs.tracker none.npy --to npy", "none.npy"),
        (2, "export pairs.tracker vectors.npy --to npy -o no/where", "the folder 'no' does not exist"),
        (1, "export pairs.csv vectors.npy --to npy", "pairs.csv"),
        (2, "neighbors pairs.tracker vectors.npy --of x9", "there is no item 'x9'"),
        (2, "neighbors pairs.tracker vectors.npy --of \u00b2", "there is no item '\u00b2'"),
        (2, "neighbors pairs.tracker vectors.npy --of 1 --queries vectors.npy", "give one of them"),
        (1, "neighbors pairs.tracker vectors.npy --within 0.7 --of 1", "error must be a number above 0"),
        (2, "neighbors pairs.tracker vectors.npy -o out.xls", "does not end in"),
        (2, "neighbors metric.safetensors vectors.npy --within 0.1", "--within needs a file"),
        (1, "neighbors pairs.tracker pairs.csv", "pairs.csv"),
        (1, "neighbors pairs.tracker cut.npy", "cut.npy"),
    ],
)
def test_wrong_use_of_the_commands_is_one_sentence(code: int, arguments: str, sentence: str, trained: Any) -> None:
    MetricTracker.load("pairs.tracker").metric_.save("metric.safetensors")
    (trained / "cut.npy").write_bytes((trained / "vectors.npy").read_bytes()[:-50])
    assert sentence in run(*arguments.split(), code=code).stderr
