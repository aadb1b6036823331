"""The requests of the client, its pauses and its timeouts, with a fake network and a fake clock."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from ocelad.client import Client, ServiceError
from ocelad.client import connection as connections
from ocelad.client import events as event_streams
from ocelad.client.events import Event, parse_events
from ocelad.service.events import KEEP_ALIVE
from ocelad.service.settings import Settings

URL = "http://127.0.0.1:8765"
ITEM = {"id": "a", "features": [1.0]}
NO_PROJECTS = httpx.Response(200, json={"projects": []})
DISTANCES = {
    "seq": 3,
    "threshold": 1.0,
    "distances": [1.0],
    "similar": [True],
    "probabilities": [0.5],
    "decisions": None,
}
STORED = httpx.Response(201, json={"first": 1, "last": 1, "repeated": False})


def refused(status, code="busy", **headers):
    error = {"error": {"code": code, "message": "later", "where": None}}
    return httpx.Response(status, json=error, headers={name.replace("_", "-"): text for name, text in headers.items()})


def stream(*events):
    """Return a response with these (id, kind) events; it ends after the last one."""
    return httpx.Response(200, text="".join(f"id: {seq}\nevent: {kind}\ndata: {{}}\n\n" for seq, kind in events))


class Clock:
    """A clock that only pauses move; the pauses are recorded."""

    def __init__(self):
        self.now, self.pauses = 1000.0, []

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    """A fake clock, and the shortest pauses that the jitter allows."""
    clock = Clock()
    monkeypatch.setattr(connections, "time", SimpleNamespace(sleep=clock.sleep))
    monkeypatch.setattr(connections, "random", SimpleNamespace(uniform=lambda low, high: low))
    monkeypatch.setattr(event_streams, "sleep", clock.sleep)
    monkeypatch.setattr(event_streams, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def network(monkeypatch, clock):
    """A function that sets the responses or errors of the network, the last one repeated; it returns the requests."""

    def respond(*responses):
        remaining, sent = itertools.chain(responses, itertools.repeat(responses[-1])), []

        def handle(_, request):
            sent.append(request)
            response = next(remaining)
            if isinstance(response, Exception):
                raise response
            # Responses are read once: each request gets a new one.
            return httpx.Response(response.status_code, headers=response.headers, stream=response.stream)

        monkeypatch.setattr(httpx.HTTPTransport, "handle_request", handle)
        return sent

    return respond


# Pauses


def test_pauses_double_up_to_a_limit(network, clock):
    sent = network(httpx.ConnectError("refused"))
    with Client(URL, retries=9) as client, pytest.raises(ServiceError) as error:
        client.projects()
    assert error.value.code == "unreachable"
    assert len(sent) == 10
    assert clock.pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 6.4, 6.4])


def test_jitter_only_lengthens_a_pause_and_keeps_it_below_the_next(network, clock, monkeypatch):
    network(httpx.ConnectError("refused"))
    monkeypatch.setattr(connections, "random", SimpleNamespace(uniform=lambda low, high: high))
    with Client(URL, retries=6) as client, pytest.raises(ServiceError):
        client.projects()
    shortest = [0.1 * 2**i for i in range(7)]
    for pause, least, following in zip(clock.pauses, shortest[:-1], shortest[1:], strict=True):
        assert least < pause < following


def test_the_default_retries_outlast_a_short_restart_and_report_an_outage_within_ten_seconds(network, clock):
    network(httpx.ConnectError("refused"))
    with Client(URL) as client, pytest.raises(ServiceError):
        client.projects()
    assert 5.0 < sum(clock.pauses) < 10.0


@pytest.mark.parametrize(
    ("header", "pause"),
    [("7", 7.0), ("30", 30.0), ("3600", 30.0), ("0", 0.1), ("", 0.1), ("-5", 0.1), ("Wed, 21 Oct 2015", 0.1)],
)
def test_a_requested_pause_is_respected_up_to_half_a_minute(network, clock, header, pause):
    sent = network(refused(503, retry_after=header), NO_PROJECTS)
    with Client(URL) as client:
        assert client.projects() == []
    assert clock.pauses == pytest.approx([pause])
    assert len(sent) == 2


def test_nothing_pauses_after_a_success_or_the_last_failure(network, clock):
    network(NO_PROJECTS)
    with Client(URL) as client:
        client.projects()
    sent = network(refused(503))
    with Client(URL, retries=0) as client, pytest.raises(ServiceError):
        client.projects()
    assert (clock.pauses, len(sent)) == ([], 1)


# Which requests are retried


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 428, 430, 500, 501, 505])
def test_a_permanent_error_is_not_retried(network, clock, status):
    sent = network(refused(status, "wrong"))
    with Client(URL) as client, pytest.raises(ServiceError) as error:
        client.projects()
    assert (error.value.code, error.value.status, len(sent), clock.pauses) == ("wrong", status, 1, [])
    assert str(error.value) == error.value.message == "later"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_temporary_error_is_retried(network, clock, status):
    sent = network(refused(status), NO_PROJECTS)
    with Client(URL) as client:
        assert client.projects() == []
    assert len(sent) == 2


@pytest.mark.parametrize(
    ("failure", "n_sent"),
    [
        (httpx.ConnectError("refused"), 2),  # nothing was sent: a repetition is safe
        (refused(429), 2),
        (httpx.ReadError("reset"), 1),
        (httpx.ReadTimeout("no data"), 1),
        (refused(503), 1),
    ],
)
def test_creating_a_project_and_adding_items_are_not_repeated_if_they_may_have_had_an_effect(network, failure, n_sent):
    for send in (
        lambda client: client.create_project("new", b"id,x\n", format="csv"),
        lambda client: client.project("some").add_items([ITEM]),
    ):
        sent = network(failure, httpx.Response(404, json={"error": {"code": "x", "message": "x", "where": None}}))
        with Client(URL) as client, pytest.raises(ServiceError):
            send(client)
        assert len(sent) == n_sent


@pytest.mark.parametrize("failure", [httpx.ReadError("reset"), httpx.ReadTimeout("no data"), refused(502)])
def test_queries_and_answers_are_repeated(network, failure):
    sent = network(failure, httpx.Response(200, json=DISTANCES))
    with Client(URL) as client:
        assert client.project("some").distance([("a", "b")]).distances == [1.0]
    assert [request.content for request in sent] == [sent[0].content] * 2
    sent = network(failure, STORED)
    with Client(URL) as client:
        assert client.project("some").compare("a", "b", same=None).last == 1
    assert len({request.headers["idempotency-key"] for request in sent}) == 1
    assert len(sent) == 2


def test_a_download_is_retried_and_its_error_is_that_of_the_service(network, tmp_path):
    file = httpx.Response(200, content=b"rows")
    sent = network(refused(503), httpx.ReadError("reset"), file)
    with Client(URL) as client:
        client.project("some").export(tmp_path / "log.ndjson", "log")
    assert (tmp_path / "log.ndjson").read_bytes() == b"rows"
    assert len(sent) == 3
    assert dict(sent[0].url.params) == {"content": "log", "format": "jsonl"}
    network(refused(404, "unknown_project"))
    with Client(URL) as client, pytest.raises(ServiceError, match="later") as error:
        client.project("some").export(tmp_path / "other.parquet")
    assert error.value.code == "unknown_project"
    assert not (tmp_path / "other.parquet").exists()


@pytest.mark.parametrize(
    ("name", "format", "expected"),
    [("a.jsonl", None, "jsonl"), ("a", None, "parquet"), ("a.jsonl", "parquet", "parquet"), ("a", "jsonl", "jsonl")],
)
def test_the_format_of_an_export_is_that_of_the_suffix_unless_it_is_given(network, tmp_path, name, format, expected):
    sent = network(httpx.Response(200))
    with Client(URL) as client:
        client.project("some").export(tmp_path / name, format=format)
    assert sent[0].url.params["format"] == expected


# What is sent


def test_headers_say_who_asks(network):
    sent = network(NO_PROJECTS)
    with Client(URL, token="ocelad_x", person="anna") as client:
        client.projects()
    with Client(URL) as client:
        client.projects()
    known, unknown = (request.headers for request in sent)
    assert (known["authorization"], known["ocelad-person"]) == ("Bearer ocelad_x", "anna")
    assert not {"authorization", "ocelad-person"} & set(unknown)
    assert known["accept"] == unknown["accept"] == "application/json"


def test_only_answers_have_an_idempotency_key(network):
    sent = network(httpx.Response(200, json=DISTANCES))
    with Client(URL) as client:
        client.project("some").distance([("a", [1.0, 2.0])])
    assert "idempotency-key" not in sent[0].headers
    sent = network(STORED)
    with Client(URL) as client:
        for _ in range(2):
            client.project("some").compare("a", "b", same=True)
        assert client.project("some").compare_many([("a", "b", True)] * 5, batch=2, key="import") == 5
    keys = [request.headers["idempotency-key"] for request in sent]
    assert keys[2:] == ["import-0", "import-2", "import-4"]
    assert len(set(keys)) == 5


def test_parameters_that_are_not_given_are_not_sent(network):
    sent = network(refused(404))
    with Client(URL) as client:
        for clusters in (None, 3):
            with pytest.raises(ServiceError):
                client.project("some").map(clusters)
    assert [dict(request.url.params) for request in sent] == [{}, {"clusters": "3"}]


def test_a_boolean_is_not_an_id(network):
    sent = network(STORED)
    with Client(URL) as client, pytest.raises(ServiceError) as error:
        client.project("some").compare(True, "b", same=True)
    assert (error.value.code, error.value.where) == ("invalid", "body.left")
    assert not sent


def test_a_closed_client_sends_nothing(network):
    sent = network(NO_PROJECTS)
    with Client(URL) as client:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        client.projects()
    assert not sent


@pytest.mark.parametrize(
    ("url", "is_local"),
    [("http://localhost:1", True), (URL, True), ("http://[::1]:1", True), ("https://example.org", False)],
)
def test_a_service_on_this_machine_is_not_asked_through_a_proxy(url, is_local):
    with Client(url) as client:
        assert client._connection._http.trust_env is not is_local


def test_an_error_without_words_is_reported_by_its_name(network):
    network(httpx.ReadTimeout(""))
    with Client("http://example.org:99", retries=0) as client, pytest.raises(ServiceError) as error:
        client.projects()
    assert error.value.message == "no response from http://example.org:99: ReadTimeout"


# Timeouts


def timeouts(request):
    return request.extensions["timeout"]


def test_a_query_waits_no_longer_than_the_service_works_on_it(network):
    sent = network(NO_PROJECTS)
    with Client(URL) as client:
        client.projects()
    with Client(URL, timeout=7.0) as client:
        client.projects()
    assert 0 < timeouts(sent[0])["read"] <= Settings().request_timeout
    assert timeouts(sent[1]) == dict.fromkeys(("connect", "read", "write", "pool"), 7.0)


def test_creating_a_project_waits_as_long_as_the_proxy_of_the_docs(network):
    docs = Path(__file__).parent.parent / "docs" / "how-to" / "operate-the-service.md"
    seconds = float(re.search(r"proxy_read_timeout (\d+)s", docs.read_text())[1])
    sent = network(refused(409))
    for timeout in (7.0, 10.0 * seconds):
        with Client(URL, timeout=timeout) as client, pytest.raises(ServiceError):
            client.create_project("new", b"id,x\n", format="csv")
    for request, timeout in zip(sent, (7.0, 10.0 * seconds), strict=True):
        assert timeouts(request) == {
            **dict.fromkeys(("connect", "write", "pool"), timeout),
            "read": max(timeout, seconds),
        }


def test_a_silent_event_stream_is_given_up_after_several_missing_comments_and_within_a_minute(network):
    sent = network(stream((1, "hello")))
    for timeout in (7.0, 500.0):
        with Client(URL, timeout=timeout) as client:
            next(client.project("some").events())
    assert 2 * KEEP_ALIVE < timeouts(sent[0])["read"] < 60.0
    assert timeouts(sent[0])["connect"] == 7.0
    assert timeouts(sent[1])["read"] == 500.0


# Event streams


def test_a_stream_is_reopened_after_its_last_event_with_pauses_that_start_again(network, clock):
    down, ended = httpx.ConnectError("refused"), stream()
    sent = network(down, ended, refused(503), stream((4, "hello"), (5, "learned")), down, down, stream((6, "hello")))
    with Client(URL) as client:
        events = client.project("some").events()
        assert [(next(events).seq, len(clock.pauses)) for _ in range(3)] == [(4, 3), (5, 3), (6, 6)]
        events.close()
    # The pauses double until an event arrives.
    assert clock.pauses == pytest.approx([0.1, 0.2, 0.4, 0.1, 0.2, 0.4])
    assert [request.headers.get("last-event-id") for request in sent] == [None] * 4 + ["5"] * 3
    assert {request.headers["accept"] for request in sent} == {"text/event-stream"}


def test_an_event_without_an_id_keeps_the_cursor(network):
    sent = network(stream((4, "hello")), httpx.Response(200, text="event: items\ndata: {}\n\n"), stream((9, "hello")))
    with Client(URL) as client:
        events = client.project("some").events(after=2)
        assert [next(events).seq for _ in range(3)] == [4, None, 9]
        events.close()
    assert [request.headers["last-event-id"] for request in sent] == ["2", "4", "4"]


def test_an_outage_is_reported_when_it_exceeds_its_limit(network, clock):
    sent = network(refused(503, retry_after="2"))
    with Client(URL) as client, pytest.raises(ServiceError, match="later"):
        next(client.project("some").events(max_outage=4.0))
    assert clock.pauses == [2.0, 2.0, 2.0]  # after exactly 4 seconds it is tried once more
    assert len(sent) == 4


def test_an_outage_begins_when_the_next_event_is_awaited(network, clock):
    sent = network(stream((1, "hello")), refused(503, retry_after="2"))
    with Client(URL) as client:
        events = client.project("some").events(max_outage=4.0)
        next(events)
        clock.now += 100.0  # the event is processed
        with pytest.raises(ServiceError, match="later"):
            next(events)
    assert len(sent) == 4


def test_without_a_limit_an_outage_has_no_end(network, clock):
    network(*[httpx.ConnectError("refused")] * 500, stream((1, "hello")))
    with Client(URL, retries=0) as client:
        events = client.project("some").events()
        assert next(events).seq == 1
        events.close()
    assert max(clock.pauses) == pytest.approx(6.4)


def test_a_permanent_error_ends_a_stream(network, clock):
    sent = network(stream((1, "hello")), refused(403, "forbidden"))
    with Client(URL) as client:
        events = client.project("some").events()
        next(events)
        with pytest.raises(ServiceError) as error:
            next(events)
    assert (error.value.code, len(sent), len(clock.pauses)) == ("forbidden", 2, 1)


def test_the_lines_of_an_event_stream():
    lines = ['data: {"a":', ": a comment", "data:1}", "id: 7", "", "event: items", "", "event:  odd", "data: {}", ""]
    assert list(parse_events([*lines, "data: {}"])) == [
        Event("message", {"a": 1}, 7),
        Event(" odd", {}, None),  # only one space is removed, and the event without data is dropped
    ]


@pytest.mark.parametrize(
    ("name", "format", "expected"),
    [("a.JSONL", None, "jsonl"), ("a.ndjson", None, "jsonl"), ("a.csv", "parquet", "parquet"), ("a", "csv", "csv")],
)
def test_the_format_of_items_is_that_of_the_suffix_unless_it_is_given(network, tmp_path, name, format, expected):
    (tmp_path / name).write_bytes(b"items")
    sent = network(refused(409))
    with Client(URL) as client, pytest.raises(ServiceError):
        client.create_project("new", tmp_path / name, format=format, fields=["colour"])
    assert sent[0].content == b"items"
    assert dict(sent[0].url.params) == {"id": "new", "format": expected, "fields": "colour"}
