"""The client with a real service and with connections that break."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import socket
import threading
import time
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from raw_http import serving
from serving import served, some_items
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ocelad import Metric
from ocelad.client import Client, ServiceError
from ocelad.client import connection as connections

ITEMS = some_items(m=30)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr(connections, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(connections, "_MAX_PAUSE", 0.01)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service") / "data", ITEMS) as (http, service):
        yield str(http.base_url), service


@pytest.fixture
def project(service):
    """A new project with the same items."""
    url, server = service
    created = server.create(f"p{len(list(server))}", "A project", ITEMS)
    with Client(url, person="anna") as client:
        yield client.project(created.id)


def answers(count, seed=0):
    rng = random.Random(seed)
    return [(*rng.sample(ITEMS.ids, 2), rng.choice([True, False, None])) for _ in range(count)]


def as_answers(entries):
    values = {"same": True, "different": False, "skip": None}
    return [(entry.left, entry.right, values[entry.kind]) for entry in entries]


class Relay:
    """A proxy between a client and a service that closes connections early.

    Parameters
    ----------
    url : str
        The address of the service.
    byte_limit : callable
        Returns, for each connection, the number of response bytes after which it is closed.
    """

    def __init__(self, url, byte_limit):
        self._target = int(url.rpartition(":")[2])
        self._byte_limit = byte_limit
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self.connections += 1
                threading.Thread(target=self._relay, args=(client, self._byte_limit()), daemon=True).start()

    def _relay(self, client, limit):
        with client, socket.create_connection(("127.0.0.1", self._target)) as service:
            upstream = threading.Thread(target=self._forward, args=(client, service, 2**62))
            upstream.start()
            self._forward(service, client, limit)
            upstream.join()

    @staticmethod
    def _forward(source, target, limit):
        with contextlib.suppress(OSError):
            while limit > 0 and (data := source.recv(65536)):
                target.sendall(data[:limit])
                limit -= len(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._listening.close()


def test_ids_may_be_numbers(service):
    url, server = service
    numbered = replace(ITEMS, ids=tuple(str(i) for i in range(len(ITEMS))))
    server.create("numbered", "Numbered", numbered)
    with Client(url) as client:
        project = client.project("numbered")
        assert project.compare(0, np.int64(1), same=True).last == 1
        assert project.compare_many([(2, "3", False)]) == 1
        assert project.item(4).id == project.neighbors(4, k=1).item.id == "4"
        assert project.distance([(0, 1)]) == project.distance([("0", "1")])


def test_an_invalid_request_raises_a_service_error(project, service):
    for send, where in (
        (lambda: project.compare("", "item 1", same=True), "body.left"),
        (lambda: project.compare_many([("item 0", None, True)]), "body.right"),
        (lambda: project.undo(0), "body.seq"),
        (lambda: project.embed([]), "body.points"),
        (lambda: project.merge_groups("item 0", None), "body.right"),
        (lambda: project.split_group([]), "body.items"),
        (lambda: project.name_group("item 0", "a\nb"), "body.name"),
        (lambda: project.add_items([{"id": "a"}]), "body.items.0.features"),
    ):
        with pytest.raises(ServiceError) as error:
            send()
        assert (error.value.code, error.value.where) == ("invalid", where)
    with Client(service[0]) as client, pytest.raises(ServiceError, match="a project's name has 1 to 64 lowercase"):
        client.create_project("BAD NAME", b"x,z\n1,2\n3,4\n", format="csv")


def test_a_project_is_created_from_a_file(service, tmp_path):
    path = tmp_path / "wines.CSV"
    path.write_text("id,f0,f1\na,1,2\nb,3,4\nc,5,7\n")
    with Client(service[0]) as client:
        wines = client.create_project("wines", path, title="Wines", item_id="id", features="f0")
        assert (wines.info().title, wines.info().n_items, wines.info().feature_names) == ("Wines", 3, ["f0"])
        assert {"some", "wines"} <= {project.id for project in client.projects()}
        with pytest.raises(ServiceError, match="wines") as error:
            client.create_project("wines", path)
        assert (error.value.code, error.value.status) == ("project_exists", 409)
        with pytest.raises(ValueError, match="format"):
            client.create_project("more", b"id,x\n")
        fewer = client.create_project("fewer", path, fields=["f0"], curved=False, transitive=False)
        assert (fewer.info().feature_names, fewer.info().curved, wines.info().curved) == (["f1"], False, True)
        assert isinstance(fewer.metric(), Metric)
        assert (fewer.info().transitive, wines.info().transitive) == (False, True)
        assert client.health().status == "ok"


def test_a_project_is_created_from_vectors(service, tmp_path):
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    vectors[1, 2] = np.nan
    np.savez(tmp_path / "vectors.npz", ids=np.array(["a", "b", "c", "d"]), v=vectors, w=vectors[:, :2])
    with Client(service[0]) as client:
        with pytest.raises(ServiceError, match=r"row 2: column 'v\[2\]' holds nan"):
            client.create_project("vectors", tmp_path / "vectors.npz", features="v")
        filled = client.create_project("vectors", tmp_path / "vectors.npz", exclude=["w"], missing="median")
        assert filled.info().feature_names == ["0", "1", "2"]
        assert filled.info().n_items == 4


def test_the_creation_of_a_project_has_a_longer_timeout():
    async def answer(request):
        await asyncio.sleep(0.5)
        return JSONResponse({}, 201)

    app = Starlette(routes=[Route("/v1/projects", answer, methods=["GET", "POST"])])
    with serving(app) as port, Client(f"http://127.0.0.1:{port}", timeout=0.2, retries=0) as client:
        with pytest.raises(ServiceError) as error:
            client.projects()
        assert error.value.code == "unreachable"
        with pytest.raises(ServiceError) as error:  # there was a response, although an invalid one
            client.create_project("wines", b"id,x\n", format="csv")
        assert error.value.code == "not_the_service"


def test_answers_are_stored_in_order(project):
    rows = answers(57)
    assert project.compare(*rows[0]).last == 1
    assert project.compare_many(iter(rows[1:]), batch=20) == 56
    log = list(project.history())
    assert as_answers(log) == rows
    assert [entry.seq for entry in log] == list(range(1, 58))
    assert {entry.person for entry in log} == {"anna"}
    assert [entry.seq for entry in project.history(after=50)] == list(range(51, 58))
    undone = project.undo()
    assert (undone.entry.seq, undone.seq) == (57, 58)
    assert project.undo(3).entry.seq == 3
    assert [entry.seq for entry in project.history() if entry.undone] == [3, 57]


def test_rows_that_are_sent_again_with_their_key_are_stored_once(project):
    rows = answers(50)
    project.compare_many(rows[:30], batch=10, key="import")
    project.compare_many(rows, batch=10, key="import")
    assert as_answers(project.history()) == rows


def test_long_histories_and_many_items_are_read_in_pages(project):
    rows = answers(2100)
    project.compare_many(rows)
    assert as_answers(project.history()) == rows
    new = [{"id": f"new {i}", "features": [float(i), 0.0, 1.0]} for i in range(1001)]
    assert project.add_items(new).n_items == 1031
    items = list(project.items())
    assert [item.id for item in items] == [*ITEMS.ids, *(item["id"] for item in new)]
    assert project.item("new 7").features == {"f0": 7.0, "f1": 0.0, "f2": 1.0}


def test_queries_agree_with_the_metric(project):
    rows = [row for row in answers(200) if row[2] is not None]
    project.compare_many(rows)
    for event in project.events(after=0):
        if event.kind in ("hello", "learned") and event.data.get("learned_seq", event.data["seq"]) == len(rows):
            break
    metric = project.metric()
    features = dict(zip(ITEMS.ids, ITEMS.features, strict=True))
    left, right = ITEMS.ids[:2]
    response = project.distance([(left, right), (features[left], right), (features[left].tolist(), features[right])])
    assert response.seq == len(rows)
    expected = metric.distance(features[left], features[right])
    assert np.allclose(response.distances, expected, rtol=1e-9)
    coordinates = np.array(project.embed([left, features[right]], n_components=99).coordinates)
    assert np.isclose(np.linalg.norm(coordinates[0] - coordinates[1]), expected, rtol=1e-6)
    nearest = project.neighbors(left, k=3).neighbors
    order = sorted((metric.distance(features[left], features[other]), other) for other in ITEMS.ids[1:])
    assert [each.item.id for each in nearest] == [id for _, id in order[:3]]
    info = project.metric_info(matrix=True)
    assert info.curved
    assert np.allclose(info.matrix, np.outer(metric.factors, metric.factors) * metric.linear_part.matrix)
    assert project.metric_info().matrix is None
    assert project.next_pair().source in ("active", "link", "random", "check", "settle")
    assert project.timeline().n_answers[-1] == len(rows) == info.n_answers
    assert project.map(clusters=3).n_items == len(ITEMS.ids)


def wait_until_learned(project):
    last = project.info().seq
    for event in project.events(after=last):
        if event.kind in ("hello", "learned") and event.data.get("learned_seq", event.data["seq"]) == last:
            return


def test_groups_are_listed_merged_split_named_and_undone(project, tmp_path):
    def groups():
        wait_until_learned(project)
        return {tuple(item.id for item in project.group_items(each.id)): each.name for each in project.groups()}

    a, b, c, d, e = ITEMS.ids[:5]
    project.compare_many([(a, b, True), (c, d, True), (d, e, True)])
    assert groups() == {(c, d, e): None, (a, b): None}
    merged = project.merge_groups(a, d)
    assert (merged.first, merged.last) == (4, 5)
    assert groups() == {(a, b, c, d, e): None}
    project.split_group([b, c])
    project.name_group(b, "two")
    assert groups() == {(a, d, e): None, (b, c): "two"}
    project.export(tmp_path / "groups.csv", "groups")
    rows = (tmp_path / "groups.csv").read_text().splitlines()
    assert rows[:4] == ["id,group,name", f'"{a}","{a}",', f'"{b}","{b}","two"', f'"{c}","{b}","two"']
    assert len(rows) == 1 + len(ITEMS.ids)
    assert project.undo().entry.name == "two"
    assert project.undo().n_undone > 1
    assert groups() == {(a, b, c, d, e): None}
    project.compare_many([(d, e, True), (a, e, False)])
    wait_until_learned(project)
    assert [(each.left.id, each.right.id, each.votes) for each in project.contradictions()] == [(a, e, -1.0)]
    info = project.info()
    assert (info.n_groups, info.n_contradictions) == (1, 1)
    assert 0 < info.n_implied < 10
    with pytest.raises(ServiceError, match="these items are a whole group"):
        project.split_group([a, b, c, d, e])


def test_exports_are_files(project, tmp_path):
    rows = answers(40)
    project.compare_many(rows)
    project.export(tmp_path / "answers.parquet")
    project.export(tmp_path / "log.jsonl", "log")
    project.export(tmp_path / "items", "items", format="parquet")
    table = pq.read_table(tmp_path / "answers.parquet").to_pydict()
    assert list(zip(table["id_a"], table["id_b"], strict=True)) == [row[:2] for row in rows if row[2] is not None]
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(entry["id_a"], entry["id_b"]) for entry in log] == [row[:2] for row in rows]
    assert pq.read_table(tmp_path / "items").num_rows == len(ITEMS.ids)
    assert len(list(tmp_path.iterdir())) == 3  # no temporary file is left


def test_answers_are_stored_once_although_connections_break(service, project):
    """Most responses are lost; the requests are repeated, and the service recognizes their keys."""
    rng, rows = random.Random(0), answers(60)
    with (
        Relay(service[0], lambda: rng.choice([0, 40, 700, 3000, 3000])) as relay,
        Client(relay.url, retries=100) as client,
    ):
        relayed = client.project(project.id)
        for row in rows[:15]:
            relayed.compare(*row)
        relayed.compare_many(rows[15:], batch=3)
        assert relayed.undo().entry.seq == 60
        assert relay.connections > 8
    log = list(project.history())
    assert as_answers(log[:-1]) == rows
    assert (log[-1].kind, len(log)) == ("undo", 61)


@pytest.mark.parametrize("after", [0, None])
def test_every_entry_is_received_once_although_connections_break(service, project, after):
    rows = answers(300)
    limits = itertools.chain([1500, 0, 4000, 900, 20_000, 2000], itertools.repeat(10**6))
    with Relay(service[0], lambda: next(limits)) as relay, Client(relay.url, retries=100) as client:
        events = client.project(project.id).events(after)
        while next(events).kind != "hello":  # all later entries are received
            pass
        writing = threading.Thread(target=lambda: [project.compare_many(rows[i : i + 10]) for i in range(0, 300, 10)])
        writing.start()
        received = []
        for event in events:
            received += event.entries
            assert not event.entries or event.seq == event.entries[-1].seq
            if len(received) >= len(rows):
                break
        writing.join()
        events.close()
        assert relay.connections == 7
    assert [entry.seq for entry in received] == list(range(1, 301))
    assert as_answers(received) == rows


def test_an_interrupted_export_leaves_no_file(service, project, tmp_path):
    project.compare_many(answers(500))
    with Relay(service[0], lambda: 3000) as relay, Client(relay.url, retries=2) as client:
        with pytest.raises(ServiceError) as error:
            client.project(project.id).export(tmp_path / "log.jsonl", "log")
        assert (error.value.code, error.value.status) == ("unreachable", None)
        assert relay.connections == 3
    assert not list(tmp_path.iterdir())


def test_a_rejected_request_raises_a_service_error(service):
    with Client(service[0]) as client:
        with pytest.raises(ServiceError, match="missing") as error:
            client.project("some").compare("item 0", "missing", same=True)
        assert (error.value.status, error.value.where) == (404, "body.right")
        with pytest.raises(ServiceError, match="no project") as error:
            client.project("a?b").info()
        assert (error.value.code, error.value.status) == ("unknown_project", 404)


def test_an_unreachable_service_raises_a_service_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", retries=1) as client, pytest.raises(ServiceError) as error:
        client.projects()
    assert error.value.code == "unreachable"
    assert str(port) in error.value.message
    for url in ("127.0.0.1:8765", "ftp://here", ""):
        with pytest.raises(ValueError, match="url must be an HTTP address"):
            Client(url)


@contextlib.contextmanager
def fake_service(*responses):
    """Yield a client of a server that returns these responses, the last one repeatedly, and the requests."""
    remaining, sent = itertools.chain(responses, itertools.repeat(responses[-1])), []

    async def answer(request):
        sent.append((request.headers, await request.body()))
        return next(remaining)

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    with serving(app) as port, Client(f"http://127.0.0.1:{port}", token="ocelad_x", retries=3) as client:
        yield client, sent


def busy(status):
    return JSONResponse(
        {"error": {"code": "busy", "message": "later", "where": None}}, status, headers={"Retry-After": "0"}
    )


STORED = JSONResponse({"first": 1, "last": 1, "repeated": False}, 201)


@pytest.mark.parametrize("status", [429, 503])
def test_a_request_to_a_busy_service_is_retried_with_the_same_key(status):
    with fake_service(busy(status), busy(status), STORED) as (client, sent):
        assert client.project("some").compare("a", "b", same=True).last == 1
    assert len({(headers["idempotency-key"], body) for headers, body in sent}) == 1
    assert len(sent) == 3
    assert {headers["authorization"] for headers, _ in sent} == {"Bearer ocelad_x"}


def test_the_number_of_retries_is_limited():
    with fake_service(busy(503)) as (client, sent), pytest.raises(ServiceError, match="later") as error:
        client.projects()
    assert (error.value.code, error.value.status, len(sent)) == ("busy", 503, 4)


def test_a_request_that_is_not_repeatable_is_not_retried_after_it_may_have_been_processed():
    item = {"id": "a", "features": [1.0]}
    with fake_service(busy(503), STORED) as (client, sent), pytest.raises(ServiceError, match="later"):
        client.project("some").add_items([item])
    assert len(sent) == 1
    added = JSONResponse({"n_added": 1, "n_items": 1})
    with fake_service(busy(429), added) as (client, sent):  # rejected before it was processed
        assert client.project("some").add_items([item]).n_added == 1


@pytest.mark.parametrize("response", [PlainTextResponse("a proxy's page", 502), PlainTextResponse("hello"), STORED])
def test_a_response_that_is_not_from_the_service_raises_a_service_error(response):
    with fake_service(response) as (client, _), pytest.raises(ServiceError) as error:
        client.projects()
    assert (error.value.code, error.value.status) == ("not_the_service", response.status_code)


EMPTY_STREAM = Response(media_type="text/event-stream")


def test_a_stream_that_always_ends_at_once_is_given_up_after_the_maximal_outage():
    with (
        fake_service(EMPTY_STREAM) as (client, sent),
        pytest.raises(ServiceError, match="the event stream ended") as error,
    ):
        next(client.project("some").events(max_outage=0.05))
    assert error.value.code == "unreachable"
    assert len(sent) > 1


def test_a_stream_is_reopened_after_any_number_of_failures():
    """A proxy reports that the service is unavailable, more often than a single request would be retried."""
    proxy = [PlainTextResponse("a proxy's page", status) for status in (502, 504)]
    hello = Response('event: hello\nid: 7\ndata: {"seq": 7}\n\n', media_type="text/event-stream")
    with fake_service(*[EMPTY_STREAM, busy(503), *proxy] * 4, hello) as (client, sent):
        events = client.project("some").events(after=5)
        assert [next(events).seq for _ in range(2)] == [7, 7]
        events.close()
    assert [headers["last-event-id"] for headers, _ in sent] == ["5"] * 17 + ["7"]


def test_a_rejected_stream_is_not_reopened():
    gone = JSONResponse({"error": {"code": "unauthorized", "message": "revoked", "where": None}}, 401)
    with fake_service(gone) as (client, sent), pytest.raises(ServiceError, match="revoked"):
        next(client.project("some").events())
    assert len(sent) == 1


def test_the_token_is_not_sent_to_the_target_of_a_redirect():
    with fake_service(STORED) as (other, sent):
        redirect = Response(status_code=307, headers={"Location": str(other._connection._http.base_url)})
        with fake_service(redirect) as (client, _), pytest.raises(ServiceError):
            client.projects()
    assert not sent


def test_answers_are_listed_and_changed(project):
    project.compare_many([("item 0", "item 1", True), ("item 1", "item 2", False), ("item 0", "item 2", None)])
    assert [each.seq for each in project.answers()] == [3, 2, 1]
    assert [each.seq for each in project.answers(order="oldest", item="item 1")] == [1, 2]
    assert [each.answer for each in project.answers(person="anna", search="ITEM 2", answer="skip")] == ["skip"]
    changed = project.change_answer(1, same=False)
    assert (changed.undo, changed.seq) == (4, 5)
    assert [each.seq for each in project.answers(undone=False)] == [5, 3, 2]
    assert [each.undone_by for each in project.answers(undone=True)] == [4]
    with pytest.raises(ServiceError) as error:
        project.change_answer(1, same=None)
    assert error.value.code == "already_undone"


def test_lists_of_answers_have_many_pages(project):
    rows = answers(450)
    project.compare_many(rows)
    listed = list(project.answers(order="oldest"))
    assert [(each.left.id, each.right.id) for each in listed] == [row[:2] for row in rows]


def test_an_export_is_imported(project, service, tmp_path):
    rows = [row for row in answers(300, seed=1) if row[2] is not None]
    project.compare_many(rows)
    url, server = service
    with Client(url, person="ben") as client:
        target = client.project(server.create("imported", "Imported", ITEMS).id)
        for format in ("zingg", "dedupe", "splink", "csv"):
            project.export(tmp_path / "answers", format=format)
            checked = target.import_answers(tmp_path / "answers", dry_run=True)
            assert (checked.n_answers, checked.n_imported) == (len(rows), 0)
        result = target.import_answers((tmp_path / "answers").read_bytes(), format="csv")
        assert result.n_imported == len(rows)
        assert target.import_answers(tmp_path / "answers").n_repeated == len(rows)
        assert as_answers(target.history()) == rows
        with pytest.raises(ServiceError) as error:
            target.import_answers(b"id_a,id_b,same\nitem 0,x,1\n")
        assert error.value.code == "unknown_items"
        result = target.import_answers(b"id_a,id_b,same\nitem 0,x,1\n", skip_unknown=True)
        assert (result.n_unknown, result.n_imported) == (1, 0)


def test_several_people(service, project):
    url, server = service
    with Client(url, person="ben") as other:
        ben = other.project(project.id)
        for i in range(1, 6):
            project.compare("item 0", f"item {i}", i % 2 == 0)
            ben.compare("item 0", f"item {i}", i % 2 == 0 or i == 5)
        assert [(each.person, each.n_answers) for each in project.people()] == [("anna", 5), ("ben", 5)]
        assert project.agreement().all.percent.value == 0.8
        [found] = project.disagreements()
        assert {found.left.id, found.right.id} == {"item 0", "item 5"}
        assert ben.settle(found.left.id, found.right.id, True).n_undone == 1
        assert list(project.disagreements()) == []
        assert set(project.learn_weights().people) == {"anna", "ben"}
        assert ben.erase_person("ben").n_erased == 7  # with the decision
        until = time.monotonic() + 30
        while server.refusal(project.id) is not None:  # it is learned again without these answers
            assert time.monotonic() < until
            time.sleep(0.01)
        assert [each.person for each in project.people()] == ["anna"]
        kinds = [entry.kind for entry in project.history()]
        assert kinds.count("erased") == 6
        assert kinds[-1] == "erase"
