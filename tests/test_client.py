"""The client, against a real service, over connections that break."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import socket
import threading
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from raw_http import serving
from serving import served, some_items
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ocelad.client import Client, ServiceError
from ocelad.client import connection as connections

ITEMS = some_items(m=30)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(connections, "_FIRST_PAUSE", 0.001)
    monkeypatch.setattr(connections, "_LONGEST_PAUSE", 0.01)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with served(tmp_path_factory.mktemp("service") / "data", ITEMS) as (http, service):
        yield str(http.base_url), service


@pytest.fixture
def project(service):
    """A project of its own, with the same items."""
    url, within = service
    live = within.create(f"p{len(list(within))}", "A project", ITEMS)
    with Client(url, person="anna") as client:
        yield client.project(live.id)


def answers(count, seed=0):
    rng = random.Random(seed)
    return [(*rng.sample(ITEMS.ids, 2), rng.choice([True, False, None])) for _ in range(count)]


def as_answers(entries):
    meaning = {"same": True, "different": False, "skip": None}
    return [(entry.left, entry.right, meaning[entry.kind]) for entry in entries]


class Relay:
    """Stands between a client and a service, and cuts connections off.

    Parameters
    ----------
    url : str
        Of the service.
    passes : function
        For each connection: how many bytes of answers it lets through before it closes it.
    """

    def __init__(self, url, passes):
        self._target = int(url.rpartition(":")[2])
        self._passes = passes
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self.connections += 1
                threading.Thread(target=self._relay, args=(client, self._passes()), daemon=True).start()

    def _relay(self, client, most):
        with client, socket.create_connection(("127.0.0.1", self._target)) as service:
            there = threading.Thread(target=self._pass_on, args=(client, service, 2**62))
            there.start()
            self._pass_on(service, client, most)
            there.join()

    @staticmethod
    def _pass_on(source, target, most):
        with contextlib.suppress(OSError):
            while most > 0 and (data := source.recv(65536)):
                target.sendall(data[:most])
                most -= len(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._listening.close()


def test_ids_may_be_numbers(service):
    url, within = service
    numbered = replace(ITEMS, ids=tuple(str(i) for i in range(len(ITEMS))))
    within.create("numbered", "Numbered", numbered)
    with Client(url) as client:
        project = client.project("numbered")
        assert project.compare(0, np.int64(1), same=True).last == 1
        assert project.compare_many([(2, "3", False)]) == 1
        assert project.item(4).id == project.neighbors(4, k=1).item.id == "4"
        assert project.distance([(0, 1)]) == project.distance([("0", "1")])


def test_what_is_wrong_is_a_service_error(project, service):
    for wrong, where in (
        (lambda: project.compare("", "item 1", same=True), "body.left"),
        (lambda: project.compare_many([("item 0", None, True)]), "body.right"),
        (lambda: project.undo(0), "body.seq"),
        (lambda: project.embed([]), "body.points"),
        (lambda: project.add_items([{"id": "a"}]), "body.items.0.features"),
    ):
        with pytest.raises(ServiceError) as told:
            wrong()
        assert (told.value.code, told.value.where) == ("invalid", where)
    with Client(service[0]) as client, pytest.raises(ServiceError, match="a project's name is of small letters"):
        client.create_project("BAD NAME", b"x,z\n1,2\n3,4\n", format="csv")


def test_a_project_is_made_of_a_file(service, tmp_path):
    path = tmp_path / "wines.CSV"
    path.write_text("id,f0,f1\na,1,2\nb,3,4\nc,5,7\n")
    with Client(service[0]) as client:
        wines = client.create_project("wines", path, title="Wines", item_id="id", features="f0")
        assert (wines.info().title, wines.info().n_items, wines.info().feature_names) == ("Wines", 3, ["f0"])
        assert {"some", "wines"} <= {project.id for project in client.projects()}
        with pytest.raises(ServiceError, match="wines") as refused:
            client.create_project("wines", path)
        assert (refused.value.code, refused.value.status) == ("project_exists", 409)
        with pytest.raises(ValueError, match="format"):
            client.create_project("more", b"id,x\n")
        assert client.create_project("shown", path, fields=["f0"]).info().feature_names == ["f1"]
        assert client.health().status == "ok"


def test_making_a_project_may_take_longer_than_anything_else():
    async def answer(request):
        await asyncio.sleep(0.5)
        return JSONResponse({}, 201)

    app = Starlette(routes=[Route("/v1/projects", answer, methods=["GET", "POST"])])
    with serving(app) as port, Client(f"http://127.0.0.1:{port}", timeout=0.2, retries=0) as client:
        with pytest.raises(ServiceError) as failed:
            client.projects()
        assert failed.value.code == "unreachable"
        with pytest.raises(ServiceError) as failed:  # an answer came, if not the right one
            client.create_project("wines", b"id,x\n", format="csv")
        assert failed.value.code == "not_the_service"


def test_answers_are_kept_in_their_order(project):
    rows = answers(57)
    assert project.compare(*rows[0]).last == 1
    assert project.compare_many(iter(rows[1:]), batch=20) == 56
    log = list(project.history())
    assert as_answers(log) == rows
    assert [entry.seq for entry in log] == list(range(1, 58))
    assert {entry.who for entry in log} == {"anna"}
    assert [entry.seq for entry in project.history(after=50)] == list(range(51, 58))
    undone = project.undo()
    assert (undone.entry.seq, undone.seq) == (57, 58)
    assert project.undo(3).entry.seq == 3
    assert [entry.seq for entry in project.history() if entry.undone] == [3, 57]


def test_rows_that_are_sent_again_with_their_key_are_kept_once(project):
    rows = answers(50)
    project.compare_many(rows[:30], batch=10, key="import")
    project.compare_many(rows, batch=10, key="import")
    assert as_answers(project.history()) == rows


def test_long_histories_and_many_items_come_in_pages(project):
    rows = answers(2100)
    project.compare_many(rows)
    assert as_answers(project.history()) == rows
    new = [{"id": f"new {i}", "features": [float(i), 0.0, 1.0]} for i in range(1001)]
    assert project.add_items(new).n_items == 1031
    items = list(project.items())
    assert [item.id for item in items] == [*ITEMS.ids, *(item["id"] for item in new)]
    assert project.item("new 7").features == {"f0": 7.0, "f1": 0.0, "f2": 1.0}


def test_questions_are_answered_as_the_metric_answers_them(project):
    rows = [row for row in answers(200) if row[2] is not None]
    project.compare_many(rows)
    for event in project.events(after=0):
        if event.kind in ("hello", "learned") and event.data.get("learned", event.data["seq"]) == len(rows):
            break
    metric = project.metric()
    features = dict(zip(ITEMS.ids, ITEMS.features, strict=True))
    left, right = ITEMS.ids[:2]
    told = project.distance([(left, right), (features[left], right), (features[left].tolist(), features[right])])
    assert told.seq == len(rows)
    expected = metric.distance(features[left], features[right])
    assert np.allclose(told.distances, expected, rtol=1e-9)
    places = np.array(project.embed([left, features[right]], n_components=3).coordinates)
    assert np.isclose(np.linalg.norm(places[0] - places[1]), expected, rtol=1e-6)
    nearest = project.neighbors(left, k=3).neighbors
    order = sorted((metric.distance(features[left], features[other]), other) for other in ITEMS.ids[1:])
    assert [each.item.id for each in nearest] == [id for _, id in order[:3]]
    info = project.metric_info(matrix=True)
    assert np.allclose(info.matrix, metric.matrix)
    assert project.metric_info().matrix is None
    assert project.next_pair().asked in ("active", "random")
    assert project.timeline().answers[-1] == len(rows) == info.n_answers
    assert project.map(clusters=3).n_items == len(ITEMS.ids)


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
    assert len(list(tmp_path.iterdir())) == 3  # nothing is left beside


def test_answers_are_kept_once_though_connections_break(service, project):
    """Most answers of the service are lost on the way: what was sent is sent again, and known by its key."""
    rng, rows = random.Random(0), answers(60)
    with (
        Relay(service[0], lambda: rng.choice([0, 40, 700, 3000, 3000])) as relay,
        Client(relay.url, retries=100) as client,
    ):
        through = client.project(project.id)
        for row in rows[:15]:
            through.compare(*row)
        through.compare_many(rows[15:], batch=3)
        assert through.undo().entry.seq == 60
        assert relay.connections > 8
    log = list(project.history())
    assert as_answers(log[:-1]) == rows
    assert (log[-1].kind, len(log)) == ("undo", 61)


@pytest.mark.parametrize("after", [0, None])
def test_every_entry_is_told_of_once_though_connections_break(service, project, after):
    rows = answers(300)
    passes = itertools.chain([1500, 0, 4000, 900, 20_000, 2000], itertools.repeat(10**6))
    with Relay(service[0], lambda: next(passes)) as relay, Client(relay.url, retries=100) as client:
        events = client.project(project.id).events(after)
        while next(events).kind != "hello":  # from here on all is told
            pass
        writing = threading.Thread(target=lambda: [project.compare_many(rows[i : i + 10]) for i in range(0, 300, 10)])
        writing.start()
        seen = []
        for event in events:
            seen += event.entries
            assert not event.entries or event.seq == event.entries[-1].seq
            if len(seen) >= len(rows):
                break
        writing.join()
        events.close()
        assert relay.connections == 7
    assert [entry.seq for entry in seen] == list(range(1, 301))
    assert as_answers(seen) == rows


def test_an_export_that_breaks_off_leaves_nothing(service, project, tmp_path):
    project.compare_many(answers(500))
    with Relay(service[0], lambda: 3000) as relay, Client(relay.url, retries=2) as client:
        with pytest.raises(ServiceError) as failed:
            client.project(project.id).export(tmp_path / "log.jsonl", "log")
        assert (failed.value.code, failed.value.status) == ("unreachable", None)
        assert relay.connections == 3
    assert not list(tmp_path.iterdir())


def test_what_is_refused_is_told(service):
    with Client(service[0]) as client:
        with pytest.raises(ServiceError, match="nowhere") as refused:
            client.project("some").compare("item 0", "nowhere", same=True)
        assert (refused.value.status, refused.value.where) == (404, "body.right")
        with pytest.raises(ServiceError, match="no project") as refused:
            client.project("a?b").info()
        assert (refused.value.code, refused.value.status) == ("unknown_project", 404)


def test_a_service_that_is_not_there_is_told_of():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", retries=1) as client, pytest.raises(ServiceError) as failed:
        client.projects()
    assert failed.value.code == "unreachable"
    assert str(port) in failed.value.message
    for url in ("127.0.0.1:8765", "ftp://here", ""):
        with pytest.raises(ValueError, match="accepted"):
            Client(url)


@contextlib.contextmanager
def answering(*responses):
    """A client of a server that gives one answer after the other, the last one for ever; and what was sent to it."""
    following, sent = itertools.chain(responses, itertools.repeat(responses[-1])), []

    async def answer(request):
        sent.append((request.headers, await request.body()))
        return next(following)

    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    with serving(app) as port, Client(f"http://127.0.0.1:{port}", token="ocelad_x", retries=3) as client:
        yield client, sent


def busy(status):
    return JSONResponse(
        {"error": {"code": "busy", "message": "later", "where": None}}, status, headers={"Retry-After": "0"}
    )


KEPT = JSONResponse({"first": 1, "last": 1, "repeated": False}, 201)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_asked_again_with_the_same_key(status):
    with answering(busy(status), busy(status), KEPT) as (client, sent):
        assert client.project("some").compare("a", "b", same=True).last == 1
    assert len({(headers["idempotency-key"], body) for headers, body in sent}) == 1
    assert len(sent) == 3
    assert {headers["authorization"] for headers, _ in sent} == {"Bearer ocelad_x"}


def test_patience_ends():
    with answering(busy(503)) as (client, sent), pytest.raises(ServiceError, match="later") as refused:
        client.projects()
    assert (refused.value.code, refused.value.status, len(sent)) == ("busy", 503, 4)


def test_what_may_have_been_done_is_not_done_twice():
    item = {"id": "a", "features": [1.0]}
    with answering(busy(503), KEPT) as (client, sent), pytest.raises(ServiceError, match="later"):
        client.project("some").add_items([item])
    assert len(sent) == 1
    added = JSONResponse({"n_added": 1, "n_items": 1})
    with answering(busy(429), added) as (client, sent):  # before anything was done
        assert client.project("some").add_items([item]).n_added == 1


@pytest.mark.parametrize("response", [PlainTextResponse("a proxy's page", 502), PlainTextResponse("hello"), KEPT])
def test_whoever_else_answers_is_told_of(response):
    with answering(response) as (client, _), pytest.raises(ServiceError) as failed:
        client.projects()
    assert (failed.value.code, failed.value.status) == ("not_the_service", response.status_code)


NOTHING = Response(media_type="text/event-stream")


def test_a_stream_that_always_ends_at_once_is_given_up_by_who_has_no_patience():
    with answering(NOTHING) as (client, sent), pytest.raises(ServiceError, match="has ended") as failed:
        next(client.project("some").events(patience=0.05))
    assert failed.value.code == "unreachable"
    assert len(sent) > 1


def test_a_stream_is_opened_again_however_often_that_fails():
    """The service is away, and what stands before it says so, for longer than a single request would be sent again."""
    proxy = [PlainTextResponse("a proxy's page", status) for status in (502, 504)]
    hello = Response('event: hello\nid: 7\ndata: {"seq": 7}\n\n', media_type="text/event-stream")
    with answering(*[NOTHING, busy(503), *proxy] * 4, hello) as (client, sent):
        events = client.project("some").events(after=5)
        assert [next(events).seq for _ in range(2)] == [7, 7]
        events.close()
    assert [headers["last-event-id"] for headers, _ in sent] == ["5"] * 17 + ["7"]


def test_a_stream_that_is_refused_is_not_opened_again():
    gone = JSONResponse({"error": {"code": "unauthorized", "message": "revoked", "where": None}}, 401)
    with answering(gone) as (client, sent), pytest.raises(ServiceError, match="revoked"):
        next(client.project("some").events())
    assert len(sent) == 1


def test_the_secret_is_never_sent_to_where_an_answer_points():
    with answering(KEPT) as (other, sent):
        away = Response(status_code=307, headers={"Location": str(other._connection._http.base_url)})
        with answering(away) as (client, _), pytest.raises(ServiceError):
            client.projects()
    assert not sent
