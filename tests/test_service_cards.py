"""Cards of items and options of projects: what people see, chosen when a project is created and later."""

from __future__ import annotations

import base64
import io
import json
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from serving import served, some_items

from ocelad.client import Client, ServiceError
from ocelad.service.items import (
    ItemsError,
    card_columns,
    check_cards,
    choose_cards,
    default_cards,
    items_digest,
    load_items,
    make_card,
    read_upload,
)
from ocelad.service.items.cards import MAX_TITLE_LENGTH, check_link
from ocelad.service.items.load_items import parse_upload
from ocelad.service.project_options import DEFAULT_QUESTION, Cards, ProjectOptions

SHOP = "\n".join(
    [
        "sku,Name,Price,weight,Description,URL,phone,in_stock",
        *(
            f"s{k},Cup number {k},{k + 0.5},{k % 3},A cup of the best clay that was ever found in place {k},"
            f"{'https://shop.example/' + str(k) if k != 3 else 'ask the seller'},00{k},{'true' if k % 2 else 'false'}"
            for k in range(12)
        ),
    ]
).encode()
NUMBERS = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "data"
    with pytest.MonkeyPatch.context() as patch, served(folder, some_items()) as (client, service):
        patch.setattr("ocelad.service.items.read_upload", parse_upload)  # a process for each upload takes seconds
        yield client, service


@pytest.fixture
def http(server):
    return server[0]


def create(http, data=SHOP, **parameters):
    """Create a project with a new name, and return its description."""
    given = {"id": f"cards-{next(NUMBERS)}", "format": "csv", **parameters}
    answer = http.post("/v1/projects", params=given, content=data)
    assert answer.status_code == 201, answer.text
    return answer.json()


def path_of(project):
    return f"/v1/projects/{project['id']}"


def picture(width, height, format="PNG", seed=0):
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format)
    return out.getvalue()


class TestDefaults:
    def test_columns_are_used_as_their_names_say(self, http):
        project = create(http, item_id="sku", features="Price,weight")
        fields = ["phone", "in_stock"]
        assert project["cards"] == {
            "title": "Name",
            "text": "Description",
            "link": "URL",
            "picture": None,
            "fields": fields,
        }
        item = http.get(f"{path_of(project)}/items").json()["items"][2]
        assert (item["title"], item["link"]) == ("Cup number 2", "https://shop.example/2")
        assert item["text"].startswith("A cup of the best clay")
        assert list(item["fields"].items()) == [("phone", "002"), ("in_stock", False)]
        assert item["features"] == {}
        assert http.get(f"{path_of(project)}/items/s2").json()["features"] == {"Price": 2.5, "weight": 2.0}

    def test_a_link_that_is_none_of_the_web_is_displayed_as_text(self, http):
        item = http.get(f"{path_of(create(http, item_id='sku'))}/items/s3").json()
        assert item["link"] is None
        assert item["fields"]["URL"] == "ask the seller"

    def test_every_column_can_be_chosen(self):
        items = parse_upload(SHOP, "csv", id="sku", exclude=["phone"])
        names = SHOP.split(b"\n")[0].decode().split(",")
        found = {column.name: (column.kind, column.is_feature) for column in card_columns(items)}
        assert sorted(found) == sorted(names)
        assert found["Price"] == ("number", True)
        assert (found["URL"][0], found["in_stock"][0], found["phone"][0]) == ("link", "boolean", "text")

    def test_a_title_is_not_displayed_as_text_again(self):
        rows = "name,x\n" + "".join(f"a name of more than thirty characters {k},{k}\n" for k in range(5))
        items = parse_upload(rows.encode(), "csv")
        assert items.text is None
        assert default_cards(items).title == "name"

    def test_words_of_the_only_texts_are_features_even_if_they_are_titles(self):
        items = parse_upload(b"title\nred cat\nblue dog\nred dog\n", "csv")
        assert list(items.text) == ["red cat", "blue dog", "red dog"]

    @pytest.mark.parametrize(
        "link",
        [
            "javascript:alert(1)",
            "data:text/html,x",
            "//a.org",
            "ftp://a.org",
            "https://",
            "https://a b",
            "https://a\u0000",
        ],
    )
    def test_only_links_of_the_web_are_links(self, link):
        assert check_link(link) is None

    def test_old_items_without_names_of_columns_have_cards(self):
        items = some_items()
        assert default_cards(items) == Cards(fields=("colour",))
        assert [column.name for column in card_columns(items)] == ["colour", "f0", "f1", "f2"]


class TestChoice:
    def test_columns_are_chosen_when_a_project_is_created(self, http):
        project = create(
            http,
            item_id="sku",
            exclude="phone",
            item_title="Description",
            text="Name",
            link="URL",
            show=["weight", "sku", "phone"],
            question="The same cup?",
            guidelines="Look at\nthe handle.",
        )
        assert project["question"] == "The same cup?"
        assert project["guidelines"] == "Look at\nthe handle."
        item = http.get(f"{path_of(project)}/items").json()["items"][4]
        assert item["title"].startswith("A cup of the best clay")
        assert item["text"] == "Cup number 4"
        assert list(item["fields"].items()) == [("weight", 1), ("sku", "s4"), ("phone", "004")]

    def test_columns_are_chosen_later(self, http):
        project = create(http, item_id="sku", exclude="phone")
        change = {"title": "Cups", "cards": {"title": None, "text": "phone", "fields": ["in_stock", "Price", "Name"]}}
        changed = http.patch(path_of(project), json=change).json()
        assert changed["title"] == "Cups"
        assert changed["question"] == DEFAULT_QUESTION
        assert changed["cards"] == {
            "title": None,
            "text": "phone",
            "link": "URL",
            "picture": None,
            "fields": ["in_stock", "Price", "Name"],
        }
        assert http.get(path_of(project)).json()["cards"] == changed["cards"]
        item = http.get(f"{path_of(project)}/items").json()["items"][1]
        assert (item["title"], item["text"]) == (None, "001")
        assert list(item["fields"].items()) == [("in_stock", True), ("Price", 1.5), ("Name", "Cup number 1")]
        words = http.patch(path_of(project), json={"question": "  Same?  ", "guidelines": "Think."}).json()
        assert (words["question"], words["guidelines"], words["cards"]) == ("Same?", "Think.", changed["cards"])

    def test_choices_survive_a_restart(self, tmp_path):
        with served(tmp_path / "data", some_items()) as (client, _):
            client.patch("/v1/projects/some", json={"title": "T", "question": "Q?", "cards": {"fields": ["f1"]}})
        with served(tmp_path / "data", some_items()) as (client, service):
            info = client.get("/v1/projects/some").json()
            assert (info["title"], info["question"], info["cards"]["fields"]) == ("T", "Q?", ["f1"])
            item = client.get("/v1/projects/some/items").json()["items"][0]
            assert item["fields"] == {"f1": pytest.approx(service.project("some").items.features[0, 1])}

    @pytest.mark.parametrize(
        ("change", "words", "where"),
        [
            ({"cards": {"title": "nothing"}}, "no column 'nothing'", "body.cards.title"),
            ({"cards": {"picture": "Name"}}, "cannot be the picture of a card", "body.cards.picture"),
            ({"cards": {"fields": ["Name", "Name"]}}, "'Name' occurs twice", "body.cards.fields"),
            ({"cards": {"colour": "Name"}}, "", "body.cards.colour"),
            ({"features": ["Price"]}, "features cannot be changed", "body"),
            ({"method": "rice"}, "method cannot be changed", "body"),
            ({"question": "\u0007"}, "control characters", "body.question"),
            ({"question": "q" * 301}, "300", "body.question"),
            ({"guidelines": "a\u0000"}, "control characters", "body.guidelines"),
            ({"title": ""}, "at least 1", "body.title"),
        ],
    )
    def test_a_wrong_change_is_refused_with_one_sentence_and_changes_nothing(self, http, change, words, where):
        project = create(http, item_id="sku")
        answer = http.patch(path_of(project), json={"title": "New", **change} if "title" not in change else change)
        assert answer.status_code == 422
        error = answer.json()["error"]
        assert words in error["message"]
        assert error["where"] == where
        now = http.get(path_of(project)).json()
        assert (now["title"], now["cards"]) == (project["title"], project["cards"])

    def test_only_an_admin_changes_a_project(self, server):
        answer = server[0].patch("/v1/projects/nothing", json={"title": "x"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown_project")

    def test_a_wrong_column_is_refused_when_a_project_is_created(self, http):
        answer = http.post("/v1/projects", params={"id": "wrong", "format": "csv", "link": "nothing"}, content=SHOP)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_items")
        assert "no column 'nothing' for the cards" in answer.json()["error"]["message"]
        assert http.get("/v1/projects/wrong").status_code == 404

    def test_the_client_chooses_columns(self, server, tmp_path):
        (tmp_path / "shop.csv").write_bytes(SHOP)
        with Client(str(server[0].base_url)) as client:
            long = "Look. " * 500
            made = client.create_project(
                "by-client", tmp_path / "shop.csv", item_id="sku", show=["phone"], guidelines=long, question="Hm?"
            )
            info = made.info()
            assert (info.question, info.guidelines, info.cards.fields) == ("Hm?", long, ["phone"])
            assert made.change(cards={"title": "phone"}).cards.title == "phone"
            with pytest.raises(ServiceError, match="features cannot be changed"):
                made._connection.send("PATCH", made._path, json={"features": "x"})

    @given(data=st.data())
    def test_cards_show_the_columns_that_were_chosen(self, data):
        items = parse_upload(SHOP, "csv", id="sku")
        names = st.sampled_from([column.name for column in card_columns(items)])
        roles = data.draw(st.dictionaries(st.sampled_from(["title", "text", "link"]), names))
        fields = data.draw(st.lists(names, unique=True))
        cards = choose_cards(items, {**roles, "fields": tuple(fields)})
        for role, name in roles.items():
            assert getattr(cards, role) == name
        for position in range(len(items)):
            card = make_card(items, cards, position)
            assert [name for name in card.fields if name in fields] == fields
            assert set(card.fields) - set(fields) <= {cards.link}
            assert card.link is None or card.link.startswith("https://")
            assert card.title is None or 0 < len(card.title) <= MAX_TITLE_LENGTH

    def test_a_picture_cannot_be_a_field(self):
        rows = [{"id": f"p{k}", "v": [k, 1.0], "image": {"bytes": picture(9, 9, seed=k)}} for k in range(3)]
        items = parse_upload(as_parquet(rows), "parquet")
        with pytest.raises(ItemsError, match="'image' cannot be the field of a card; accepted: 'id'"):
            check_cards(items, Cards(fields=("image",)))


def as_parquet(rows):
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


class TestOptions:
    def test_keys_of_later_versions_are_kept(self):
        stored = {"question": "Q?", "colour": {"a": 1}, "cards": {"title": "x", "later": [1]}}
        options = ProjectOptions.read(stored)
        assert options.changed(guidelines="G").stored() == {
            **stored,
            "guidelines": "G",
            "cards": {**stored["cards"], **({} if "fields" not in options.stored()["cards"] else {"fields": []})},
        }

    def test_an_option_that_cannot_be_read_has_its_default_and_is_kept(self):
        stored = {"question": ["later"], "guidelines": "G"}
        options = ProjectOptions.read(stored)
        assert (options.question, options.guidelines, options.cards) == (DEFAULT_QUESTION, "G", None)
        assert options.stored() == stored
        assert options.changed(question="Q?").stored() == {"question": "Q?", "guidelines": "G"}


class TestPictures:
    @pytest.mark.parametrize("shape", ["bytes", "hugging face", "base64", "data url"])
    def test_pictures_beside_vectors(self, http, shape):
        files = [picture(300 + k, 200, "JPEG" if k % 2 else "PNG", k) for k in range(4)]
        forms = {
            "bytes": lambda file: file,
            "hugging face": lambda file: {"bytes": file, "path": "a.png"},
            "base64": lambda file: base64.b64encode(file).decode(),
            "data url": lambda file: "data:image/png;base64," + base64.b64encode(file).decode(),
        }
        rows = [
            {"id": f"p{k}", "vector": [float(k), 1.0, k * k], "name": f"n{k}", "image": forms[shape](file)}
            for k, file in enumerate(files)
        ]
        rows.append({"id": "none", "vector": [9.0, 9.0, 9.0], "name": "no picture", "image": None})
        if shape in ("bytes", "hugging face"):
            project = create(http, as_parquet(rows), format="parquet")
        else:
            project = create(http, "".join(json.dumps(row) + "\n" for row in rows).encode(), format="jsonl")
        assert (project["display"], project["cards"]["picture"], project["cards"]["title"]) == (
            "picture",
            "image",
            "name",
        )
        assert len(project["feature_names"]) == 3
        items = http.get(f"{path_of(project)}/items").json()["items"]
        assert (items[4]["picture"], items[4]["picture_full"]) == (None, None)
        for k, item in enumerate(items[:4]):
            small, full = (http.get(item[name]) for name in ("picture", "picture_full"))
            assert small.headers["content-type"] == "image/png"
            assert max(Image.open(io.BytesIO(small.content)).size) == 256
            assert Image.open(io.BytesIO(full.content)).size == (300 + k, 200)
            assert full.headers["content-type"] == ("image/jpeg" if k % 2 else "image/png")
        off = http.patch(path_of(project), json={"cards": {"picture": None}}).json()
        assert off["cards"]["picture"] is None
        assert http.get(f"{path_of(project)}/items").json()["items"][0]["picture"] is None

    def test_pictures_leave_the_sandbox_as_they_are(self):
        rows = [{"v": [k, 1.0], "image": picture(300, 20, seed=k) if k else None, "t": f"text {k}"} for k in range(3)]
        here, there = (read(as_parquet(rows), "parquet", text="t") for read in (parse_upload, read_upload))
        assert items_digest(here) == items_digest(there)
        assert (here.full_pictures, here.text) == (there.full_pictures, there.text)
        assert there.has_picture.tolist() == [False, True, True]
        assert there.source_columns == {"text": "t", "picture": "image"}

    def test_a_large_picture_is_bounded(self):
        rows = [{"v": [k, 1.0], "image": picture(3000, 40, "JPEG", k)} for k in range(2)]
        items = parse_upload(as_parquet(rows), "parquet")
        assert Image.open(io.BytesIO(items.full_pictures[0])).size == (2048, 27)

    def test_pictures_without_other_features_are_features(self, http):
        rows = [{"image": picture(20, 20, seed=k), "kind": "ab"[k % 2]} for k in range(4)]
        project = create(http, as_parquet(rows), format="parquet")
        assert len(project["feature_names"]) == 400
        assert project["cards"]["text"] == "kind"

    @pytest.mark.parametrize("cell", [b"not a picture", picture(50, 50)[:300]])
    def test_a_damaged_picture_is_refused_with_its_row(self, cell):
        rows = [{"v": [k, 1.0], "image": picture(9, 9) if k else cell} for k in range(3)]
        with pytest.raises(ValueError, match="row 1: the picture in column 'image' is"):
            parse_upload(as_parquet(rows), "parquet")

    def test_paths_are_read_below_the_folder_of_a_table_only(self, tmp_path):
        (tmp_path / "data" / "photos").mkdir(parents=True)
        for k in range(3):
            (tmp_path / "data" / "photos" / f"{k}.png").write_bytes(picture(9, 9, seed=k))
        (tmp_path / "secret.png").write_bytes(picture(9, 9))
        (tmp_path / "data" / "link.png").symlink_to(tmp_path / "secret.png")
        table = tmp_path / "data" / "table.csv"
        table.write_text("id,x,photo\n" + "".join(f"i{k},{k},photos/{k}.png\n" for k in range(3)))
        items = load_items(table)
        assert (items.display, items.feature_names, len(items.pictures)) == ("picture", ("x",), 3)
        with pytest.raises(ValueError, match="picture= accepts"):
            parse_upload(table.read_bytes(), "csv", picture="photo")
        assert parse_upload(table.read_bytes(), "csv").fields["photo"][0] == "photos/0.png"
        for path in ("../secret.png", str(tmp_path / "secret.png"), "link.png"):
            table.write_text(f"id,x,photo\na,1,photos/0.png\nb,2,{path}\n")
            with pytest.raises(ValueError, match=r"line 3: .*outside the folder of the table"):
                load_items(table)
        table.write_text("id,x,photo\na,1,photos/0.png\nb,2,photos/nothing.png\n")
        with pytest.raises(ValueError, match=r"line 3: .*cannot be opened"):
            load_items(table)

    def test_pictures_of_a_folder_have_their_own_size(self, tmp_path):
        (tmp_path / "some").mkdir()
        for k in range(2):
            (tmp_path / "some" / f"{k}.png").write_bytes(picture(400, 300, seed=k))
        items = load_items(tmp_path / "some")
        assert Image.open(io.BytesIO(items.full_pictures[1])).size == (400, 300)
        with served(tmp_path / "data", items) as (client, _):
            item = client.get("/v1/projects/some/items").json()["items"][1]
            assert Image.open(io.BytesIO(client.get(item["picture_full"]).content)).size == (400, 300)
            assert client.get("/v1/projects/some/pictures/7?size=full").status_code == 404


class TestFiles:
    def test_a_note_says_that_a_file_is_not_in_utf_8(self, http):
        data = "id;Größe;Name\na;1,5;Ärmel\nb;2,5;Öse\n"
        project = create(http, data.encode("cp1252"))
        assert len(project["notes"]) == 1
        assert "Windows-1252" in project["notes"][0]
        assert create(http, data.encode())["notes"] == []
        item = http.get(f"{path_of(project)}/items/a").json()
        assert (item["title"], item["features"]) == ("Ärmel", {"Größe": 1.5})

    def test_line_ends_in_quotes_and_empty_cells(self, http):
        data = b'id,name,x,y,more\r\na,"two\r\nlines",1,2,\r\nb,,3,4,"q ""r"""\r\n'
        items = http.get(f"{path_of(create(http, data))}/items").json()["items"]
        assert (items[0]["title"], items[1]["title"]) == ("two\r\nlines", None)
        assert (items[0]["fields"], items[1]["fields"]) == ({"more": None}, {"more": 'q "r"'})


class TestIds:
    @pytest.mark.parametrize("id", [".", "..", "a\u200b", "\u202ea", " a", "a\t", "a\u00ad", "a\ufe0f", "\ufeffa"])
    def test_ids_that_look_like_others_or_paths_are_refused(self, server, id):
        http, service = server
        new = {"items": [{"id": "fine", "features": [0, 0, 0]}, {"id": id, "features": [0, 0, 0]}]}
        answer = http.post("/v1/projects/some/items", json=new)
        assert (answer.status_code, answer.json()["error"]["where"]) == (422, "body.items.1.id")
        assert len(service.project("some").items) == 12
        table = f'id,x\nfine,1\n"{id}",2\n'.encode()
        answer = http.post("/v1/projects", params={"id": "ids", "format": "csv"}, content=table)
        assert answer.status_code == 422
        assert "line 3: the id" in answer.json()["error"]["message"]

    def test_projects_that_have_such_ids_are_served(self, tmp_path):
        from dataclasses import replace

        items = replace(some_items(4), ids=(".", "..", "a\u200bb", " c "))
        with served(tmp_path / "data", items) as (http, _):
            for position, id in enumerate(items.ids):
                for parameters in ({"id": id}, {"position": position}):
                    found = http.get("/v1/projects/some/item", params=parameters)
                    assert (found.status_code, found.json()["id"]) == (200, id)
                    assert len(found.json()["features"]) == 3
            with Client(str(http.base_url)) as client:
                assert [client.project("some").item(id).id for id in items.ids] == list(items.ids)
            body = {"left": ".", "right": "..", "answer": "same"}
            assert http.post("/v1/projects/some/comparisons", json=body).status_code == 201
            for parameters in ({}, {"id": ".", "position": 0}):
                assert http.get("/v1/projects/some/item", params=parameters).status_code == 422
            assert http.get("/v1/projects/some/item", params={"position": 4}).status_code == 404
            assert http.get("/v1/projects/some/item", params={"id": "nothing"}).status_code == 404


class TestMethod:
    def test_a_project_is_created_with_a_method_and_its_settings(self, server):
        http, service = server
        project = create(http, method="rice", settings='{"step_size": 0.5}')
        stored = service.store.project(project["id"]).settings
        assert (project["method"], project["curved"], stored["step_size"]) == ("rice", False, 0.5)
        linear = create(http, curved="false")
        assert (linear["method"], linear["curved"], linear["replay"]) == ("adaptive", False, "same")

    @pytest.mark.parametrize(
        ("parameters", "words"),
        [
            ({"method": "rice", "settings": "{"}, "not a JSON object"),
            ({"method": "rice", "settings": "[1]"}, "not a JSON object"),
            ({"method": "rice", "settings": '{"stepsize": 1}'}, "no setting 'stepsize'; accepted: "),
            ({"method": "rice", "settings": '{"step_size": -1}'}, "step_size must be a finite number above 0"),
            ({"method": "rice", "settings": '{"step_size": "x"}'}, "step_size"),
            ({"method": "rice", "settings": '{"max_rank": 1e400}'}, "max_rank"),
            ({"method": "rice", "settings": '{"loss": ["hinge"]}'}, "loss"),
            ({"method": "rice", "settings": '{"engine": "blocked"}'}, "engine"),
            ({"method": "rice", "curved": "true"}, "linear distance"),
            ({"settings": '{"step_size": 0.5}'}, "step_size is a setting of method='rice'"),
            ({"settings": '{"curved": false}'}, "the parameter curved="),
            ({"method": "best"}, "adaptive"),
        ],
    )
    def test_wrong_settings_are_refused_with_one_sentence(self, http, parameters, words):
        answer = http.post("/v1/projects", params={"id": "wrong", "format": "csv", **parameters}, content=SHOP)
        assert (answer.status_code, words in answer.json()["error"]["message"]) == (422, True), answer.text
        assert http.get("/v1/projects/wrong").status_code == 404

    def test_the_client_sends_the_method(self, server):
        with Client(str(server[0].base_url)) as client:
            made = client.create_project("by-rice", SHOP, format="csv", method="rice", settings={"max_rank": 2})
            assert made.info().method == "rice"
            assert server[1].store.project("by-rice").settings["max_rank"] == 2


def test_cards_of_a_folder_show_its_path(tmp_path):
    (tmp_path / "some" / "cats").mkdir(parents=True)
    for k in range(2):
        (tmp_path / "some" / "cats" / f"{k}.png").write_bytes(picture(9, 9, seed=k))
    columns = [column.name for column in card_columns(load_items(Path(tmp_path, "some")))]
    assert columns == ["path", "picture", "folder"]
