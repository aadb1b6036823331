"""Imports of answers over HTTP, and exports to the formats of other programs."""

from __future__ import annotations

import contextlib
import io
import random
import threading
import time
from dataclasses import replace
from itertools import count

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from postgres import postgres  # noqa: F401  a fixture
from serving import Server, served, some_items
from sqlalchemy import select
from test_labelled_pairs import IDS, NAMES

from ocelad.client import Client, ServiceError
from ocelad.service import answer_import
from ocelad.service.labelled_pairs import import_plan
from ocelad.service.routes import imports
from ocelad.service.store import Store, StoreUnavailable, tables
from ocelad.service.store.entry_log import KEY_LIFETIME_MS, delete_old_keys
from ocelad.service.store.log_chain import EMPTY_CHAIN, entry_digest, next_chain

ITEMS = some_items(m=6)
NUMBERS = count()
PAIRS = "id_a,id_b,same,person\nitem 0,item 1,yes,Zoë\nitem 1,item 2,no,\nitem 2,item 3,,\n"
FORMATS = ("csv", "jsonl", "parquet", "dedupe", "splink", "zingg")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with served(tmp_path_factory.mktemp("imports") / "data", ITEMS, rate=None, max_import=100_000) as (http, service):
        yield http, service


@pytest.fixture
def project(service):
    """The path of a new project."""
    return create(service[1])


def create(service, items=ITEMS):
    return f"/v1/projects/{service.create(f'p{next(NUMBERS)}', 'A project', items).id}"


def send(service, project, data, person=None, **params):
    headers = {} if person is None else {"Ocelad-Person": person}
    body = data.encode() if isinstance(data, str) else data
    return service[0].post(f"{project}/import", params=params, content=body, headers=headers)


def entries(service, project):
    page = service[0].get(f"{project}/history", params={"limit": 1000}).json()["entries"]
    return [(each["left"], each["right"], each["kind"], each["person"], each["source"]) for each in page]


def test_answers_are_imported_in_order_with_their_people(service, project):
    result = send(service, project, PAIRS, person="anna").json()
    assert (result["n_imported"], result["n_repeated"], result["n_unknown"], result["n_left_out"]) == (3, 0, 0, 0)
    assert (result["format"], result["first"], result["last"], result["dry_run"]) == ("pairs", 1, 3, False)
    assert entries(service, project) == [
        ("item 0", "item 1", "same", "Zoë", "import"),
        ("item 1", "item 2", "different", "anna", "import"),
        ("item 2", "item 3", "skip", "anna", "import"),
    ]


def test_a_dry_run_stores_nothing(service, project):
    result = send(service, project, PAIRS, dry_run=True).json()
    assert (result["n_answers"], result["n_imported"], result["dry_run"]) == (3, 0, True)
    assert entries(service, project) == []


@pytest.mark.parametrize("second", ["anna", "ben"])
def test_the_same_file_is_stored_once_whoever_imports_it(service, project, monkeypatch, second):
    monkeypatch.setattr(import_plan, "BATCH_SIZE", 2)
    assert send(service, project, PAIRS, person="anna").json()["n_imported"] == 3
    again = send(service, project, PAIRS, person=second).json()
    assert (again["n_imported"], again["n_repeated"], again["first"]) == (0, 3, None)
    assert len(entries(service, project)) == 3
    assert send(service, project, PAIRS + "item 0,item 4,1,\n").json()["n_imported"] == 4  # another file


def test_the_same_file_twice_at_once_is_stored_once(service, project, monkeypatch):
    monkeypatch.setattr(import_plan, "BATCH_SIZE", 1)
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(send(service, project, PAIRS, "anna").json())) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each["n_imported"] for each in results) == sum(each["n_repeated"] for each in results) == 3
    assert len(entries(service, project)) == 3


def test_items_that_were_unknown_do_not_repeat_answers(service, project, monkeypatch):
    """A batch is a part of the file, whether its items are known or not."""
    monkeypatch.setattr(import_plan, "BATCH_SIZE", 2)
    data = "id_a,id_b,same\nitem 0,new,1\nitem 1,item 2,1\nitem 2,item 3,0\n"
    assert send(service, project, data, skip_unknown=True).json()["n_imported"] == 2
    item = {"items": [{"id": "new", "features": [1.0, 2.0, 3.0]}]}
    assert service[0].post(f"{project}/items", json=item).status_code == 201
    again = send(service, project, data).json()
    assert (again["n_imported"], again["n_repeated"]) == (0, 3)
    assert "imported before" in again["notes"][0]
    assert len(entries(service, project)) == 2


def test_an_interrupted_import_is_resumed(service, project, monkeypatch):
    monkeypatch.setattr(import_plan, "BATCH_SIZE", 1)
    append, calls = Store.append, count()

    def fail_once(self, *arguments, **options):
        if next(calls) == 1:
            raise StoreUnavailable("the disk is full")
        return append(self, *arguments, **options)

    monkeypatch.setattr(Store, "append", fail_once)
    assert send(service, project, PAIRS).status_code == 503
    assert len(entries(service, project)) == 1
    result = send(service, project, PAIRS).json()
    assert (result["n_imported"], result["n_repeated"]) == (2, 1)
    assert [each[0] for each in entries(service, project)] == ["item 0", "item 1", "item 2"]


def test_keys_of_imports_do_not_expire(service, project):
    """A file that is imported again after weeks is recognized."""
    send(service, project, PAIRS)
    with service[1].store._database.write_transaction() as connection:
        delete_old_keys(connection, 2**52 + KEY_LIFETIME_MS)
    assert send(service, project, PAIRS).json()["n_repeated"] == 3


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_each_entry_is_chained_with_the_salt_of_its_own_person(tmp_path, request, kind):
    """Otherwise the answers of one person could not be erased alone."""
    url = None if kind == "sqlite" else request.getfixturevalue("postgres").new_url()
    with Store.open(tmp_path, url) as store:
        store.create_project("some", "Some", ITEMS, {}, "")
        plan = import_plan.plan_import(PAIRS.encode(), ITEMS, "anna")
        assert answer_import.store_import(store, "some", plan).n_imported == 3
        assert answer_import.store_import(store, "some", plan).n_repeated == 3
        with store._database.read_connection() as connection:
            salts = {row.who: bytes(row.salt) for row in connection.execute(select(tables.people))}
        before, chain = [entry.chain for entry in store.entries("some")], EMPTY_CHAIN
        for entry in store.entries("some"):
            chain = next_chain(chain, entry_digest(entry, salts[entry.person]))
            assert entry.chain == chain
        assert store.erase_person("some", "Zoë", "anna") == 1
        after = store.entries("some")
        assert [entry.kind for entry in after] == ["erased", "different", "skip", "erase"]
        assert [entry.chain for entry in after][:3] == before
        with store._database.read_connection() as connection:
            people = connection.execute(select(tables.people.c.who)).scalars().all()
        assert set(people) == {"anna"}


def test_one_invalid_row_refuses_the_whole_file(service, project):
    answer = send(service, project, PAIRS + "item 0,item 4,perhaps,\n")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["where"]) == (422, "bad_pairs", "body")
    assert error["message"].startswith("line 5: same is 'perhaps'; accepted: same/different")
    assert entries(service, project) == []


def test_unknown_items_stop_or_are_left_out(service, project):
    data = PAIRS + "item 0,nobody,1,\n"
    answer = send(service, project, data)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unknown_items")
    assert "'nobody' (line 5)" in answer.json()["error"]["message"]
    result = send(service, project, data, skip_unknown=True).json()
    assert (result["n_imported"], result["n_unknown"]) == (3, 1)
    assert result["unknown"] == [{"item": "'nobody'", "where": "line 5"}]


def test_parquet_is_read_in_another_process(service, project, monkeypatch):
    file = io.BytesIO()
    pq.write_table(pa.table({"id_a": ["item 0"], "id_b": ["item 1"], "same": [True]}), file)
    monkeypatch.setattr(pq, "ParquetFile", None)  # in this process it must not be used
    assert send(service, project, file.getvalue()).json()["n_imported"] == 1
    answer = send(service, project, b"PAR1" + bytes(100))
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_pairs")


def test_an_archived_project_is_not_changed(service, project):
    send(service, project, PAIRS)
    service[1].archive(project.rpartition("/")[2], True)
    answer = send(service, project, PAIRS + "item 0,item 4,1,\n")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "archived")
    change = service[0].post(f"{project}/answers/1/change", json={"answer": "skip"})
    assert (change.status_code, change.json()["error"]["code"]) == (409, "archived")
    assert len(service[0].get(f"{project}/answers").json()["answers"]) == 3


def test_a_file_that_is_too_large_is_refused(service, project):
    answer = send(service, project, PAIRS + "\n" * 100_000)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_imports_are_bounded_and_do_not_delay_other_requests(service, project, monkeypatch):
    started, go_on = threading.Semaphore(0), threading.Event()

    def wait(*arguments, **options):
        started.release()
        assert go_on.wait(20)
        return answer_import.store_import(*arguments, **options)

    monkeypatch.setattr(imports, "store_import", wait)
    data = [PAIRS + "\n" * i for i in range(2)]
    threads = [threading.Thread(target=send, args=(service, project, each)) for each in data]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert started.acquire(timeout=20)
    refused = send(service, project, PAIRS)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
    assert refused.headers["retry-after"]
    assert service[0].get(f"{project}/history").status_code == 200
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(entries(service, project)) == 6


def test_the_audit_log_records_an_import(service, project):
    send(service, project, PAIRS, person="anna")
    last = service[1].store.audit(action="answers.import", limit=1000)[-1]
    assert (last.who, last.target, last.detail["n_imported"]) == ("anna", project.rpartition("/")[2], 3)


@st.composite
def answered(draw):
    ids = tuple(draw(st.lists(IDS.filter(lambda id: len(id) <= 200), min_size=2, max_size=6, unique=True)))
    pair = st.lists(st.integers(0, len(ids) - 1), min_size=2, max_size=2, unique=True)
    return ids, draw(st.lists(st.tuples(pair, st.sampled_from(["same", "different"]), NAMES), max_size=8))


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=8, deadline=None)
@given(case=answered())
def test_an_export_is_imported_into_a_fresh_project_in_the_same_order(service, format, case):
    """Ids of any script, with commas, quotes, line breaks and leading zeros."""
    ids, given_answers = case
    http, server = service
    items = replace(some_items(m=len(ids)), ids=ids, fields={"name": list(ids)})
    source, target = create(server, items), create(server, items)
    for (left, right), answer, person in given_answers:
        new = import_plan.NewEntry(left, right, answer, "given", person)
        server.store.append(source.rpartition("/")[2], [new]).result()
    exported = http.get(f"{source}/export", params={"content": "comparisons", "format": format})
    assert exported.status_code == 200
    result = http.post(f"{target}/import", params={"format": format}, content=exported.content)
    if not given_answers and format == "jsonl":  # an empty file
        assert result.status_code == 422
        return
    assert result.status_code == 200, result.text
    assert result.json()["n_imported"] == len(given_answers)
    found = [each[:4] for each in entries(service, target)]
    assert found == [(ids[left], ids[right], answer, person) for (left, right), answer, person in given_answers]


@pytest.mark.parametrize("content", ["log", "items", "groups"])
@pytest.mark.parametrize("format", ["dedupe", "splink", "zingg"])
def test_only_answers_are_written_for_other_programs(service, project, content, format):
    answer = service[0].get(f"{project}/export", params={"content": content, "format": format})
    assert (answer.status_code, answer.json()["error"]["where"]) == (422, "query.format")


def test_undone_answers_are_not_written_for_other_programs(service, project):
    send(service, project, PAIRS)
    service[0].post(f"{project}/undo", json={"seq": 1})
    exported = service[0].get(f"{project}/export", params={"format": "splink"})
    assert exported.text.splitlines()[1:] == ["item 1,item 2,0.0,"]
    assert (
        'filename="' + project.rpartition("/")[2] + '-comparisons.splink.csv"'
        in exported.headers["content-disposition"]
    )


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", b"{", b"[[]]", b"PK\3\4", b"\0" * 50])
def test_a_file_of_another_kind_gets_a_sentence(service, project, data):
    answer = send(service, project, data)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_pairs")
    assert "accepted" in answer.json()["error"]["message"] or "save it as CSV" in answer.json()["error"]["message"]


def test_a_file_without_rows_imports_nothing(service, project):
    assert send(service, project, "id_a,id_b,same\n").json()["n_imported"] == 0


@pytest.mark.slow
def test_an_import_survives_kills_and_stores_every_answer_once(tmp_path):
    """The same command is run again until it succeeds; the service is killed in between."""
    folder, file, n = tmp_path / "data", tmp_path / "answers.csv", 40_000
    with Store.open(folder) as store:
        store.create_project("some", "Some", ITEMS, {}, "")
    rng = random.Random(0)
    pairs = [(*rng.sample(range(len(ITEMS)), 2), rng.choice(["same", "different"])) for _ in range(n)]
    rows = "".join(f"{ITEMS.ids[left]},{ITEMS.ids[right]},{answer}\n" for left, right, answer in pairs)
    file.write_text(f"id_a,id_b,same\n{rows}")
    kills = 0
    for _ in range(3):
        server = Server(folder)
        importing = threading.Thread(target=_try_import, args=(server.url, file))
        importing.start()
        with Client(server.url) as client:
            before = client.project("some").info().seq
            deadline = time.monotonic() + 60
            while (seq := client.project("some").info().seq) == before < n and time.monotonic() < deadline:
                time.sleep(0.005)
        kills += before < seq < n
        server.kill()
        importing.join()
    assert kills
    server = Server(folder)
    with Client(server.url) as client:
        result = client.project("some").import_answers(file)
    assert result.n_imported + result.n_repeated == n
    assert server.stop() == 0
    with Store.open(folder) as store:
        assert [(each.left, each.right, each.kind) for each in store.entries("some", limit=2 * n)] == pairs


def _try_import(url, file):
    with contextlib.suppress(ServiceError), Client(url, retries=0) as client:
        client.project("some").import_answers(file)
