"""Files of labelled pairs: every format is read as it is written, and a fault is named with its place."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import replace
from unicodedata import normalize

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from serving import some_items

from ocelad.service.labelled_pairs import WRITERS, PairsError, UnknownItems, WrittenAnswer, plan_import
from ocelad.service.labelled_pairs import import_plan as plans

ITEMS = replace(
    some_items(m=5),
    ids=("a", "b", "c", "7", "007"),
    fields={"name": ["Bob", "bob ", "Eve", "Kim", "Kim"], "age": [1, 2, 3, 4, 4.5]},
)
# Ids of any kind, as programs make them: quotes, delimiters, line breaks, leading zeros, other scripts.
IDS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0") | st.sampled_from(',;"\t\n\r0 =|'), min_size=1
)
# Keys with a meaning in some format.
KEYS = (
    *("match", "distinct", "id_a", "id_b", "same", "id", "name", "person", "__class__", "__value__", "z_cluster"),
    *("z_isMatch", "unique_id_l", "unique_id_r", "clerical_match_score", "ocelad_person"),
)
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), max_size=20).map(
    lambda name: normalize("NFC", name)
)


def plan(data, items=ITEMS, person="me", **options):
    return plan_import(data.encode() if isinstance(data, str) else data, items, person, **options)


def read(data, **options):
    """Return the answers of a file as (left, right, answer)."""
    return [(each.left, each.right, each.answer) for each in plan(data, **options).entries]


def written(format, answers, items):
    return b"".join(WRITERS[format](lambda: iter(answers), items))


@st.composite
def projects(draw):
    """Items with any ids and fields, and answers about them."""
    ids = tuple(draw(st.lists(IDS, min_size=2, max_size=8, unique=True)))
    columns = draw(
        st.lists(st.sampled_from(["id", "Id", "text", "name", "z_cluster", "f0", "ocelad_seq"]), unique=True)
    )
    values = st.none() | st.text(max_size=5) | st.integers(-9, 9)
    items = replace(
        some_items(m=len(ids)),
        ids=ids,
        fields={name: draw(st.lists(values, min_size=len(ids), max_size=len(ids))) for name in columns},
    )
    if draw(st.booleans()):
        items = replace(items, display="text", text=[f"text {i}" for i in range(len(ids))])
    sources = st.sampled_from(["id", "name", "key", "z_isMatch", "unique_id", "text"])
    items = replace(items, source_columns=draw(st.dictionaries(st.sampled_from(["id", "text"]), sources)))
    pair = st.lists(st.integers(0, len(ids) - 1), min_size=2, max_size=2, unique=True)
    drawn = draw(st.lists(st.tuples(pair, st.booleans(), NAMES), max_size=12))
    return items, [WrittenAnswer(*at, same, person, seq) for seq, (at, same, person) in enumerate(drawn, 3)]


@pytest.mark.parametrize("format", WRITERS)
@given(project=projects())
def test_what_is_written_is_read_in_the_same_order(format, project):
    items, answers = project
    data = written(format, answers, items)
    if not answers and format == "dedupe":
        assert json.loads(data) == {"distinct": [], "match": []}
    found = plan_import(data, items, "")
    assert found.format == format
    assert [(each.left, each.right, each.answer == "same", each.person) for each in found.entries] == [
        (each.left, each.right, each.same, each.person) for each in answers
    ]


def test_dedupe_reads_the_file_of_an_export():
    """dedupe's own program accepts two lists of tuples of records and nothing else."""
    answers = [WrittenAnswer(0, 1, True, "anna", 1), WrittenAnswer(0, 2, False, "", 2)]
    content = json.loads(written("dedupe", answers, ITEMS))
    assert list(content) == ["distinct", "match"]
    (pair,) = content["match"]
    assert pair["__class__"] == "tuple"
    left, right = pair["__value__"]
    assert (left["id"], left["name"], right["id"], right["age"]) == ("a", "Bob", "b", 2)
    assert left["f0"] == ITEMS.features[0, 0]


class TestPairs:
    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_delimiters(self, delimiter):
        data = "id_a,id_b,same\na,b,yes\n7,007,no\n\nb,c,\n".replace(",", delimiter)
        assert read(data) == [(0, 1, "same"), (3, 4, "different"), (1, 2, "skip")]

    @pytest.mark.parametrize(
        ("words", "answer"),
        [
            (("yes", "TRUE", "1", "1.0", "same", "match", " Same "), "same"),
            (("no", "false", "0", "different", "distinct", "-1"), "different"),
            (("", "skip", " "), "skip"),
        ],
    )
    def test_words(self, words, answer):
        rows = "".join(f'a,b,"{word}"\n' for word in words)
        assert read(f"id_a,id_b,same\n{rows}") == [(0, 1, answer)] * len(words)

    def test_one_name_has_one_form(self):
        """Names are compared as texts."""
        (entry,) = plan("id_a,id_b,same,person\na,b,1,Zoe\u0308\n").entries
        assert entry.person == "Zo\xeb"

    def test_people(self):
        found = plan("id_a,id_b,same,person,at\na,b,1,Zoë,2024-01-01\nb,c,0,,\n")
        assert [each.person for each in found.entries] == ["Zoë", "me"]
        assert [each.source for each in found.entries] == ["import", "import"]
        assert found.notes == ["The times in the file are not stored: the log records when answers were imported."]

    def test_latin_1_and_excel(self):
        items = replace(ITEMS, ids=("grün", "b", "c", "d", "e"))
        found = plan("sep=;\r\nid_a;id_b;same\r\ngrün;b;ja\r\n".replace("ja", "1").encode("latin-1"), items)
        assert [(each.left, each.right) for each in found.entries] == [(0, 1)]
        assert found.notes == ["The file is not UTF-8 and was read as Latin-1."]
        assert plan("id_a,id_b,same\ngrün,b,1\n".encode("utf-16"), items).entries == found.entries
        assert plan("id_a,id_b,same\ngrün,b,1\n".encode("utf-8-sig"), items).entries == found.entries

    def test_other_tables(self):
        rows = [{"id_a": "a", "id_b": 7, "same": True}, {"id_a": "b", "id_b": "c", "same": None}]
        expected = [(0, 3, "same"), (1, 2, "skip")]
        assert read(json.dumps(rows)) == read("\n".join(map(json.dumps, rows))) == expected
        table, file = pa.table({"id_a": ["a", "b"], "id_b": ["7", "c"], "same": [True, None]}), io.BytesIO()
        pq.write_table(table, file)
        assert read(file.getvalue()) == expected
        file = io.BytesIO()
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        assert read(file.getvalue()) == expected

    def test_an_exported_log(self):
        log = "id_a,id_b,similar,undone\na,b,same,true\na,b,undo,false\na,a,name,false\na,c,skip,false\n"
        found = plan(log)
        assert [(each.left, each.right, each.answer) for each in found.entries] == [(0, 2, "skip")]
        assert found.n_left_out == 3
        assert found.notes == ["Left out: undone answers (1).", "Left out: entries that are not answers (2)."]


class TestFaults:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ("id_a,id_b,same\na,b,1\na,c,perhaps\n", "line 3: same is 'perhaps'; accepted: same/different, match"),
            ("id_a,id_b,same\n,b,1\n", "line 2: id_a is empty; accepted: the id of an item"),
            ("id_a,id_b,same\na,a,1\n", "line 2 compares 'a' with itself; accepted: two different items"),
            ("id_a,id_b,same\na,b\n", "line 2 has 2 cells, and the header in line 1 has 3; accepted: as many"),
            ("id_a,id_b\na,b\n", "no column same; accepted: columns id_a, id_b and same"),
            ('id_a,id_b,same\n"a,b,1\n', "line 2 cannot be read as CSV"),
            ("id_a,id_b,same,person\na,b,1,\x07\n", "line 2: person is '\\x07'; accepted: a name of 1 to 200"),
            ("name,size\na,1\n", "the columns are name, size; accepted: a table of id_a, id_b and same, a training"),
            ("", "the file is empty; accepted: CSV"),
            ("PK\3\4", "looks like an Excel file"),
            ("PAR1", "the file is damaged"),
            ("ARROW1", "the file is damaged"),
            ("[1]", "object 1 is not a JSON object"),
            ("[", "the file is not valid JSON: Expecting value in line 1"),
            ("[" * 100_000, "nested too deeply"),
            ("[" + "1" * 5_000 + "]", "too long numbers"),
            ('{"id_a": "a", "id_b": "b", "same": 1}\nno\n', "line 2 is not a JSON object"),
            ('{"match": [', "the file is not valid JSON"),
            ('{"match": [[{}, {}, {}]]}', "pair 1 of 'match' is not a pair of records; accepted:"),
            ('{"match": [], "more": []}', "the file has the key 'more'"),
            (
                "unique_id_l,unique_id_r,clerical_match_score\na,b,7\n",
                "line 2: clerical_match_score is '7'; accepted: a",
            ),
            ("z_cluster,z_isMatch,id\n1,1,a\n", "line 2: the cluster '1' has one record; accepted: two or more"),
            ("z_cluster,z_isMatch,id\n1,1,a\n1,0,b\n", "have different values of z_isMatch"),
            ("z_cluster,z_isMatch,id\n1,3,a\n1,3,b\n", "line 2: z_isMatch is '3'; accepted: 1 (match), 0 (no match)"),
            ('{"z_cluster": [], "z_isMatch": 1}\n', "line 1 has no z_cluster"),
            ("z_cluster,z_isMatch,id\n" + "1,1,a\n" * 51, "has more than 50 records"),
        ],
    )
    def test_a_fault_is_named(self, data, message):
        with pytest.raises(PairsError) as error:
            plan(data)
        assert message in str(error.value)

    def test_unknown_items_are_listed(self):
        data = "id_a,id_b,same\na,b,1\n" + "".join(f"a,x{i},1\n" for i in range(12))
        with pytest.raises(UnknownItems, match=r"^12 of 13 answers .*: 'x0' \(line 3\), .*'x9' \(line 12\) and 2 more"):
            plan(data)
        found = plan(data, skip_unknown=True)
        assert (len(found.entries), found.n_unknown, len(found.unknown)) == (1, 12, 10)
        assert (found.unknown[0].item, found.unknown[0].where) == ("'x0'", "line 3")

    def test_too_many_pairs(self, monkeypatch):
        monkeypatch.setattr(plans, "MAX_PAIRS", 2)
        with pytest.raises(PairsError, match="more than 2 pairs; split it"):
            plan("id_a,id_b,same\n" + "a,b,1\n" * 3)

    @given(data=st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
    def test_no_bytes_raise_another_error(self, data):
        for format in (None, "pairs", "dedupe", "splink", "zingg"):
            with contextlib.suppress(PairsError):
                plan(data, format=format, skip_unknown=True)

    @given(
        content=st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3),
            lambda values: (
                st.lists(values, max_size=3)
                | st.dictionaries(
                    st.sampled_from(KEYS),
                    values,
                    max_size=5,
                )
            ),
        )
    )
    def test_no_json_raises_another_error(self, content):
        for format in (None, "pairs", "dedupe", "splink", "zingg"):
            with contextlib.suppress(PairsError):
                plan(json.dumps(content), format=format, skip_unknown=True)


class TestRecords:
    """Records of dedupe and Zingg name items by an id, or by their columns."""

    def pair(self, left, right):
        return json.dumps({"distinct": [], "match": [[left, right]]})

    def test_ids(self):
        assert read(self.pair({"id": "a"}, {"ID": 7})) == [(0, 3, "same")]
        assert read(self.pair({"key": "a"}, {"key": "b"}), id_column="key") == [(0, 1, "same")]

    def test_ids_of_another_table_are_not_taken_for_ids(self):
        """Row numbers occur in many tables; the columns tell them apart."""
        records = {"id": 7, "name": "Eve", "age": 3}, {"id": "a", "name": "Kim", "age": 4.5}
        assert read(self.pair(*records)) == [(2, 4, "same")]
        assert read(self.pair(*records), id_column="id") == [(3, 0, "same")]

    def test_columns(self):
        assert read(self.pair({"name": "EVE", "age": "3"}, {"name": "kim", "age": 4.5})) == [(2, 4, "same")]
        assert read(self.pair({"name": "eve", "other": 1}, {"age": 1})) == [(2, 0, "same")]

    def test_a_record_of_several_items_is_unknown(self):
        with pytest.raises(UnknownItems, match=r"\{'name': 'Kim'\} \(pair 1 of 'match'\)"):
            plan(self.pair({"name": "Kim"}, {"name": "Eve"}))

    def test_texts(self):
        items = replace(ITEMS, display="text", text=["red fox", "Grey Owl", "red fox", "x", "y"])
        record = {"title": "Red fox ", "age": 3}
        assert read(self.pair(record, {"anything": "grey owl"}), items=items) == [(2, 1, "same")]

    def test_values_of_any_type(self):
        record = {"name": {"__class__": "tuple", "__value__": [1, 2]}, "age": [1]}
        assert plan(self.pair(record, {"name": "Eve"}), skip_unknown=True).n_unknown == 1

    def test_the_columns_of_the_items_file_are_written(self):
        columns = {"id": "unique_id", "text": "title"}
        items = replace(ITEMS, display="text", text=list("vwxyz"), source_columns=columns)
        content = json.loads(written("dedupe", [WrittenAnswer(0, 1, True, "", 1)], items))
        left, _ = content["match"][0]["__value__"]
        assert (left["unique_id"], left["title"]) == ("a", "v")
        data = written("zingg", [WrittenAnswer(0, 1, True, "", 1)], replace(items, source_columns={"id": "isbn"}))
        assert data.startswith(b"z_cluster,z_isMatch,isbn,")
        assert read(data, items=replace(items, source_columns={"id": "isbn"})) == [(0, 1, "same")]
        assert read(data, id_column="isbn") == [(0, 1, "same")]

    def test_the_same_item_twice_is_left_out(self):
        found = plan(self.pair({"id": "a"}, {"id": "a"}))
        assert (found.entries, found.notes) == ([], ["Left out: pairs of an item with itself (1)."])

    def test_lists_of_dedupe_as_tuples_and_uncertain_pairs(self):
        content = {"match": [{"__class__": "tuple", "__value__": [{"id": "a"}, {"id": "b"}]}], "distinct": []}
        assert read(json.dumps({**content, "uncertain": [[{"id": "a"}, {"id": "c"}]]})) == [
            (0, 1, "same"),
            (0, 2, "skip"),
        ]


class TestSplink:
    def test_labels_with_datasets(self):
        """The columns of Splink's own example, fake_1000_labels.csv."""
        items = replace(ITEMS, ids=("0", "1", "2", "left-__-5", "5"))
        data = (
            "unique_id_l,source_dataset_l,unique_id_r,source_dataset_r,clerical_match_score\n"
            "0,fake_1000,1,fake_1000,1.0\n0,fake_1000,2,fake_1000,0.0\n5,left,5,right,0.5\n"
        )
        found = plan(data, items)
        assert found.format == "splink"
        assert [(each.left, each.right, each.answer) for each in found.entries] == [
            (0, 1, "same"),
            (0, 2, "different"),
            (3, 4, "skip"),
        ]
        assert found.notes == ["Scores between 0 and 1 (1): above 0.5 means same, below it different, and 0.5 skipped."]

    def test_another_name_of_the_id(self):
        assert read("person_l,person_r,clerical_match_score\na,b,0.9\nb,c,0.1\n") == [
            (0, 1, "same"),
            (1, 2, "different"),
        ]


class TestZingg:
    def test_a_parquet_file_of_the_labeller(self):
        file = io.BytesIO()
        table = {
            "z_zid": [1, 2, 3, 4, 5, 6, 7, 8],
            "z_cluster": ["x:1", "x:1", "x:2", "x:2", "x:3", "x:3", "x:4", "x:4"],
            "z_isMatch": pa.array([1, 1, 0, 0, 2, 2, -1, -1], pa.int32()),
            "id": ["a", "b", "a", "c", "b", "c", "a", "7"],
        }
        pq.write_table(pa.table(table), file)
        found = plan(file.getvalue())
        assert found.format == "zingg"
        assert [(each.left, each.right, each.answer) for each in found.entries] == [
            (0, 1, "same"),
            (0, 2, "different"),
            (1, 2, "skip"),
        ]
        assert (found.n_left_out, found.notes) == (1, ["Left out: clusters without a label (-1) (1)."])

    def test_all_records_of_a_cluster_are_compared(self):
        data = "z_cluster,z_isMatch,id\n9,1,a\n8,0,7\n9,1,b\n8,0,007\n9,1,c\n"
        assert read(data) == [(0, 1, "same"), (0, 2, "same"), (1, 2, "same"), (3, 4, "different")]

    def test_a_file_without_a_header(self):
        """As Zingg's own example of training samples is."""
        data = "10,1,x,a,Bob\n10,1,y,b,bob\nn0,0,x,a,Bob\nn0,0,z,c,Eve\n"
        assert read(data, format="zingg") == [(0, 1, "same"), (0, 2, "different")]
