"""Lists of answers: every filter agrees with a plain loop over the log; answers are changed in one step."""

from __future__ import annotations

import csv
import io
import random
import threading
import weakref
from dataclasses import replace
from itertools import count

import pytest
from postgres import postgres  # noqa: F401  a fixture
from serving import served, some_items
from test_service_security import PERMISSIONS

from ocelad.service import item_search
from ocelad.service.entries import NewEntry
from ocelad.service.item_search import ItemSearches, search_items
from ocelad.service.routes import answer_lists
from ocelad.service.store import AnswerFilter, Store, answer_query, open_tokens

ITEMS = replace(
    some_items(m=12),
    display="text",
    text=[f"The text of number {i}" + (" Straße" if i == 3 else "") for i in range(12)],
)
PEOPLE = ["anna", "ben", "Zoë"]
NUMBERS = count()


def fill(store, project, n=150, seed=0):
    """Append random answers and undos."""
    rng = random.Random(seed)
    for _ in range(n):
        left, right = rng.sample(range(len(ITEMS)), 2)
        answer, source = rng.choice(["same", "different", "skip"]), rng.choice(["given", "active", "import"])
        store.append(project, [NewEntry(left, right, answer, source)], rng.choice(PEOPLE)).result()
        if rng.random() < 0.2:
            store.undo(project, None, rng.choice(PEOPLE)).exception()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with served(tmp_path_factory.mktemp("answers") / "data", ITEMS, rate=None) as (http, service):
        fill(service.store, "some")
        yield http, service


@pytest.fixture
def project(service):
    return f"/v1/projects/{service[1].create(f'p{next(NUMBERS)}', 'A project', ITEMS).id}"


def expected(http, accept):
    """Return the numbers of the answers in the log that a function accepts, the oldest first."""
    log = http.get("/v1/projects/some/history", params={"limit": 1000}).json()["entries"]
    return [each["seq"] for each in log if each["kind"] in ("same", "different", "skip") and accept(each)]


def listed(http, limit=7, path="/v1/projects/some", **params):
    """Return the numbers of all pages, and their number as the pages say it."""
    found, after = [], None
    while True:
        given = {**params, "limit": limit} | ({} if after is None else {"after": after})
        page = http.get(f"{path}/answers", params=given).json()
        found += [each["seq"] for each in page["answers"]]
        assert len(page["answers"]) <= limit
        after = page["next"]
        if after is None:
            return found, page["n_answers"]


@pytest.mark.parametrize(
    ("params", "accept"),
    [
        ({}, lambda entry: True),
        ({"person": "Zoë"}, lambda entry: entry["person"] == "Zoë"),
        ({"person": "nobody"}, lambda entry: False),
        ({"answer": "skip"}, lambda entry: entry["kind"] == "skip"),
        ({"source": "import"}, lambda entry: entry["source"] == "import"),
        ({"undone": True}, lambda entry: entry["undone"]),
        ({"undone": False}, lambda entry: not entry["undone"]),
        ({"item": "item 3"}, lambda entry: "item 3" in (entry["left"], entry["right"])),
        ({"search": "STRASSE"}, lambda entry: "item 3" in (entry["left"], entry["right"])),
        ({"search": "red"}, lambda entry: any(int(entry[side][5:]) % 2 for side in ("left", "right"))),
        ({"search": "11 number red"}, lambda entry: "item 11" in (entry["left"], entry["right"])),
        ({"search": "  "}, lambda entry: True),
        (
            {"item": "item 2", "search": "item 3", "undone": False, "answer": "same"},
            lambda entry: (
                {entry["left"], entry["right"]} == {"item 2", "item 3"}
                and not entry["undone"]
                and entry["kind"] == "same"
            ),
        ),
    ],
    ids=lambda value: None if callable(value) else str(value),
)
@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("many", [False, True])
def test_a_filter_agrees_with_the_log(service, monkeypatch, params, accept, order, many):
    """Whether the database compares the items, or the service."""
    if many:
        monkeypatch.setattr(answer_query, "_MAX_ITEMS", 0)
        monkeypatch.setattr(answer_query, "_PAGE", 10)
    wanted = expected(service[0], accept)
    found = listed(service[0], order=order, **params)
    assert found == (wanted[::-1] if order == "newest" else wanted, len(wanted))


def test_an_answer_has_its_items_and_its_undo(service):
    http = service[0]
    page = http.get("/v1/projects/some/answers", params={"undone": True, "limit": 1}).json()
    (answer,) = page["answers"]
    undo = http.get("/v1/projects/some/history", params={"after": answer["undone_by"] - 1, "limit": 1}).json()
    assert undo["entries"][0]["undoes"] == answer["seq"]
    assert answer["left"]["text"].startswith("The text of number")
    assert not answer["may_change"]
    assert page["n_items_searched"] is None


def test_a_search_is_cut_off_in_time(service, monkeypatch):
    """The list goes on with the next page, also where a page found nothing."""
    monkeypatch.setattr(answer_query, "_MAX_ITEMS", 0)
    monkeypatch.setattr(answer_query, "_PAGE", 5)
    monkeypatch.setattr(answer_lists, "SEARCH_SECONDS", 0)
    http = service[0]
    page = http.get("/v1/projects/some/answers", params={"item": "item 3", "limit": 3}).json()
    assert page["n_answers"] is None
    assert page["next"] is not None
    wanted = expected(http, lambda entry: "item 3" in (entry["left"], entry["right"]))
    assert listed(http, item="item 3")[0] == wanted[::-1]


def test_the_search_of_items_is_cut_off_in_time(monkeypatch):
    monkeypatch.setattr(item_search, "_STEP", 2)
    found = search_items(ITEMS, "item", -1)
    assert (found.n_searched, found.positions) == (2, {0, 1})
    assert search_items(ITEMS, "item", 60).n_searched == 12


def test_a_search_is_remembered_for_its_items_only(monkeypatch):
    searches = ItemSearches()
    first = searches.find(ITEMS, "item 3", 60)
    monkeypatch.setattr(item_search, "search_items", None)
    assert searches.find(ITEMS, "item 3", 60) is first
    other = replace(ITEMS)
    searches._found[id(other), "item 3"] = weakref.ref(ITEMS), first  # an address may be used again
    with pytest.raises(TypeError):
        searches.find(other, "item 3", 60)


def test_all_pages_as_csv(service, monkeypatch):
    monkeypatch.setattr(answer_lists, "_CSV_PAGE", 7)
    params = {"person": "Zoë", "format": "csv", "order": "oldest"}
    answer = service[0].get("/v1/projects/some/answers", params=params)
    assert answer.headers["content-type"].startswith("text/csv")
    assert 'filename="some-answers.csv"' in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [int(row["seq"]) for row in rows] == expected(service[0], lambda entry: entry["person"] == "Zoë")
    assert {row["undone"] for row in rows} == {"true", "false"}


def test_a_list_as_csv_can_be_imported(service, project):
    http = service[0]
    text = http.get("/v1/projects/some/answers", params={"format": "csv", "order": "oldest"}).content
    result = http.post(f"{project}/import", content=text).json()
    standing = expected(http, lambda entry: not entry["undone"])
    assert (result["n_imported"], result["n_left_out"]) == (
        len(standing),
        len(expected(http, lambda entry: entry["undone"])),
    )


@pytest.mark.parametrize(
    ("params", "where"),
    [
        ({"answer": "perhaps"}, "query.answer"),
        ({"item": "nobody"}, "query.item"),
        ({"limit": 1000}, "query.limit"),
        ({"order": "best"}, "query.order"),
        ({"search": "x" * 201}, "query.search"),
        ({"colour": "red"}, "query"),
    ],
)
def test_invalid_filters_are_refused(service, params, where):
    answer = service[0].get("/v1/projects/some/answers", params=params)
    assert (answer.status_code, answer.json()["error"]["where"]) == (404 if "item" in params else 422, where)


def compare(http, project, answer="same", person="anna"):
    body = {"left": "item 0", "right": "item 1", "answer": answer}
    return http.post(f"{project}/comparisons", json=body, headers={"Ocelad-Person": person}).json()["last"]


def test_an_answer_is_changed_in_one_step(service, project):
    http = service[0]
    seq = compare(http, project)
    answer = http.post(
        f"{project}/answers/{seq}/change", json={"answer": "different"}, headers={"Ocelad-Person": "ben"}
    )
    assert (answer.status_code, answer.json()) == (201, {"seq": 3, "undo": 2, "repeated": False})
    log = http.get(f"{project}/history").json()["entries"]
    kinds = [(each["kind"], each["undone"], each["person"], each["bundle"]) for each in log]
    assert kinds == [("same", True, "anna", None), ("undo", False, "ben", 2), ("different", False, "ben", 2)]
    service[1].project(project.rpartition("/")[2]).learner.wait(3, 20)
    assert http.get(project).json()["n_answers"] == 1


def test_a_change_is_stored_once(service, project):
    http = service[0]
    seq = compare(http, project)
    change = {"json": {"answer": "skip"}, "headers": {"Idempotency-Key": "k"}}
    assert http.post(f"{project}/answers/{seq}/change", **change).status_code == 201
    again = http.post(f"{project}/answers/{seq}/change", **change)
    assert (again.status_code, again.json()["repeated"]) == (200, True)
    assert len(http.get(f"{project}/history").json()["entries"]) == 3


def test_two_changes_at_once_have_one_winner(service, project):
    http = service[0]
    seq = compare(http, project)
    codes = []

    def send():
        codes.append(http.post(f"{project}/answers/{seq}/change", json={"answer": "skip"}).status_code)

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [201, 409, 409, 409, 409, 409]
    standing = [each for each in http.get(f"{project}/history").json()["entries"] if not each["undone"]]
    assert [each["kind"] for each in standing] == ["undo", "skip"]


def test_what_cannot_be_changed(service, project):
    http = service[0]
    seq = compare(http, project)

    def refused(seq, answer):
        response = http.post(f"{project}/answers/{seq}/change", json={"answer": answer})
        return response.status_code, response.json()["error"]["code"]

    assert refused(seq, "same") == (409, "same_answer")
    assert refused(99, "same") == (404, "unknown_entry")
    http.post(f"{project}/undo", json={"seq": seq})
    assert refused(seq, "different") == (409, "already_undone")
    assert refused(seq + 1, "different") == (409, "not_an_answer")


def test_own_answers_may_be_changed_and_others_need_admin(tmp_path):
    with served(tmp_path / "data", ITEMS, require_token=True) as (http, service):
        with open_tokens(service.settings.folder) as store:
            tokens = {each: store.create(each, {"some": each}) for each in PERMISSIONS}

        def call(holder, method, path, **request):
            headers = {"Authorization": f"Bearer {tokens[holder]}"}
            return http.request(method, f"/v1/projects/some/{path}", headers=headers, **request)

        pair = {"left": "item 0", "right": "item 1", "answer": "same"}
        for holder in ("admin", "answer"):
            assert call(holder, "post", "comparisons", json=pair).status_code == 201
        may = {
            holder: [each["may_change"] for each in call(holder, "get", "answers?order=oldest").json()["answers"]]
            for holder in PERMISSIONS
        }
        assert may == {"read": [False, False], "answer": [False, True], "review": [False, False], "admin": [True, True]}
        change = {"json": {"answer": "different"}}
        assert call("answer", "post", "answers/1/change", **change).status_code == 403
        assert call("answer", "post", "answers/2/change", **change).status_code == 201
        assert call("admin", "post", "answers/4/change", json={"answer": "skip"}).status_code == 201
        people = [each["person"] for each in call("read", "get", "answers").json()["answers"]]
        assert people == ["admin", "answer", "answer", "admin"]


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_both_databases_list_the_same(tmp_path, request, kind):
    url = None if kind == "sqlite" else request.getfixturevalue("postgres").new_url()
    with Store.open(tmp_path / "data", url) as store:
        store.create_project("some", "Some", ITEMS, {}, "")
        fill(store, "some", 60)
        log = store.entries("some")
        undone = {entry.undoes: entry.seq for entry in log if entry.undoes is not None}
        of_ben = [
            entry for entry in log if entry.person == "ben" and entry.kind == "same" and 3 in (entry.left, entry.right)
        ]
        filter = AnswerFilter(person="ben", answer="same", items=(frozenset([3]),))
        rows = store.answers("some", filter, newest_first=False)
        assert rows.answers == [(entry, undone.get(entry.seq)) for entry in of_ben]
        assert rows.next is None
        assert store.count_answers("some", filter) == len(of_ben)
        assert store.count_answers("some", AnswerFilter(undone=True)) == len(undone)
