"""The data of figures and their files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocelad.lab.figures.figure_data import FigureData

texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(lambda text: text.strip() == text)
names = texts.map(lambda text: f"x{text}")
columns = st.one_of(
    st.lists(st.integers(-(2**53), 2**53), min_size=3, max_size=3),
    st.lists(st.floats(allow_nan=True), min_size=3, max_size=3),
    st.lists(texts, min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
)


def table():
    return {"method": ["a, b", 'c"d'], "error": [0.1 + 0.2, np.nan], "found": [True, False], "round": [1, 2]}


@pytest.mark.parametrize("format", ["csv", "parquet"])
class TestFiles:
    @given(metadata=st.dictionaries(names, st.integers() | names), columns=st.dictionaries(names, columns, min_size=1))
    def test_saved_data_can_be_loaded(self, tmp_path_factory, format, metadata, columns):
        folder = tmp_path_factory.mktemp("data")
        data = FigureData(metadata, {"one": columns, "two": table()})
        first = [path.read_bytes() for path in data.save(folder, format)]
        again = FigureData.load(folder)
        assert again.metadata == metadata
        assert {name: list(each) for name, each in again.tables.items()} == {
            name: list(each) for name, each in data.tables.items()
        }
        for name in columns:
            np.testing.assert_array_equal(again.tables["one"][name], data.tables["one"][name])
        assert [path.read_bytes() for path in again.save(folder, format)] == first

    def test_only_one_format_is_left(self, tmp_path, format):
        other = {"csv": "parquet", "parquet": "csv"}[format]
        FigureData({}, {"one": table()}).save(tmp_path, other)
        FigureData({"now": 1}, {"one": table()}).save(tmp_path, format)
        assert [path.name for path in tmp_path.iterdir()] == [f"one.{format}"]
        assert FigureData.load(tmp_path).metadata == {"now": 1}

    @pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"# ocelad figure {broken\na\n1\n", b"\xff\xfe\x00"])
    def test_other_files_are_rejected_by_name(self, tmp_path, format, content):
        (tmp_path / f"one.{format}").write_bytes(content)
        with pytest.raises(ValueError, match=rf"one\.{format}' is not a figure data file"):
            FigureData.load(tmp_path)

    def test_truncated_files_are_rejected(self, tmp_path, format):
        (path,) = FigureData({}, {"one": table()}).save(tmp_path, format)
        whole = path.read_bytes()
        for cut in (1, 4, 12, len(whole.splitlines()[-1]) + 1):
            path.write_bytes(whole[: len(whole) - cut])
            with pytest.raises(ValueError, match="not a figure data file"):
                FigureData.load(tmp_path)


def test_text_that_looks_like_numbers_stays_text(tmp_path):
    FigureData({}, {"one": {"label": ["1", "2"], "word": ["True", "nan"]}}).save(tmp_path)
    loaded = FigureData.load(tmp_path).tables["one"]
    assert loaded["label"].tolist() == ["1", "2"]
    assert loaded["word"].tolist() == ["True", "nan"]


@pytest.mark.parametrize(("old", "new"), [("2.5", "much"), ("True", "perhaps"), ("7", "7.5"), ("2.5,", "")])
def test_cells_of_another_type_are_rejected(tmp_path, old, new):
    (path,) = FigureData({}, {"one": {"error": [2.5], "found": [True], "round": [7]}}).save(tmp_path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match="is not a figure data file"):
        FigureData.load(tmp_path)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_tables_of_an_earlier_run_are_deleted_and_other_files_are_not(tmp_path, format):
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    FigureData({}, {"one": table(), "two": table()}).save(tmp_path, format)
    FigureData({}, {"one": table()}).save(tmp_path, format)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.csv", f"one.{format}"]


def test_missing_tables_are_named(tmp_path):
    FigureData({}, {"one": table(), "two": table()}).save(tmp_path)
    (tmp_path / "two.csv").unlink()
    with pytest.raises(FileNotFoundError, match="two is missing in"):
        FigureData.load(tmp_path)


def test_a_folder_without_data(tmp_path):
    with pytest.raises(FileNotFoundError, match="there are no data in the folder"):
        FigureData.load(tmp_path / "nowhere")


def test_files_of_different_runs_are_not_mixed(tmp_path):
    for run in (1, 2):
        FigureData({"run": run}, {"one": table(), "two": table()}).save(tmp_path / f"{run}")
    (tmp_path / "1" / "one.csv").replace(tmp_path / "2" / "one.csv")
    with pytest.raises(ValueError, match="are from different runs"):
        FigureData.load(tmp_path / "2")


@pytest.mark.parametrize("columns", [{"a": [1], "b": [1, 2]}, {"a": [[1]]}])
def test_columns_of_different_shapes_are_rejected(columns):
    with pytest.raises(ValueError, match="must have one length"):
        FigureData({}, {"one": columns})


def test_where():
    data = FigureData({}, {"one": {"a": ["x", "y", "x"], "b": [1, 1, 2], "c": [0.1, 0.2, 0.3]}})
    assert data.where("one", a="x")["c"].tolist() == [0.1, 0.3]
    assert data.where("one", a="x", b=2)["c"].tolist() == [0.3]
