"""Webhooks: signed requests to a receiver on loopback, retries, and addresses that are refused."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from serving import served, some_items

from ocelad.client import verify_webhook
from ocelad.service.entries import NewEntry
from ocelad.service.webhook_signatures import sign
from ocelad.service.webhooks import WebhookRefused, check_url, resolve, sender
from ocelad.service.webhooks import requests as webhook_requests

TIMEOUT = 60.0
LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1"))
ITEMS = some_items(30, 4)


class Receiver:
    """A server on loopback that records requests; ``statuses`` are those of the next responses."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        self.paths: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.received.append((dict(self.headers), body))
                outer.paths.append(self.path)
                status = outer.statuses.pop(0) if outer.statuses else 200
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook?a=1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(TIMEOUT)

    def wait(self, n: int) -> list[dict[str, Any]]:
        deadline = time.monotonic() + TIMEOUT
        while len(self.received) < n:
            assert time.monotonic() < deadline, f"{len(self.received)} of {n} requests"
            time.sleep(0.02)
        return [json.loads(body) for _, body in self.received]


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as receiver:
        yield receiver


def answers(n: int, feature: int, seed: int = 0) -> list[NewEntry]:
    """Answers by one feature."""
    rng = np.random.default_rng(seed)
    pairs = [[int(i) for i in rng.choice(len(ITEMS), 2, replace=False)] for _ in range(n)]
    x = ITEMS.points[np.arange(len(ITEMS))][:, feature]
    return [NewEntry(a, b, "same" if abs(x[a] - x[b]) < 0.6 else "different") for a, b in pairs]


def add(http: httpx.Client, url: str, **options: Any) -> dict[str, Any]:
    reply = http.post("/v1/projects/some/webhooks", json={"url": url, "interval": 1, **options})
    assert reply.status_code == 201, reply.text
    return reply.json()


def test_a_moved_metric_is_sent_once_with_a_signature(tmp_path: Path, receiver: Receiver) -> None:
    with served(tmp_path / "data", ITEMS, webhook_networks=LOOPBACK) as (http, service):
        made = add(http, receiver.url, events=["metric"], threshold=0.05)
        listed = http.get("/v1/projects/some/webhooks").json()["webhooks"]
        assert listed == [{name: value for name, value in made.items() if name != "secret"}]
        assert made["secret"] not in json.dumps([entry.detail for entry in service.store.audit()])
        service.store.append("some", answers(120, 0)).result()
        (first, *_) = receiver.wait(1)
        assert (first["event"], first["project"]) == ("metric", "some")
        assert first["moved"] > 0.05
        headers, body = receiver.received[0]
        assert receiver.paths[0] == "/hook?a=1"
        verify_webhook(made["secret"], body, headers["Ocelad-Signature"])
        for secret, sent, signature in (
            ("other", body, headers["Ocelad-Signature"]),
            (made["secret"], body + b" ", headers["Ocelad-Signature"]),
            (made["secret"], body, sign(made["secret"], body, int(time.time()) - 400)),
            (made["secret"], body, "v1=abc"),
        ):
            with pytest.raises(ValueError, match="the signature"):
                verify_webhook(secret, sent, signature)
        assert service.project("some").learner.wait(120, TIMEOUT)
        time.sleep(2.5)  # until the last view has been compared
        n = len(receiver.received)
        service.store.append("some", [NewEntry(0, 1, "skip")]).result()  # moves nothing
        time.sleep(2.5)
        assert len(receiver.received) == n
        number = made["number"]
        assert http.delete(f"/v1/projects/some/webhooks/{number}").status_code == 204
        assert http.delete(f"/v1/projects/some/webhooks/{number}").json()["error"]["code"] == "unknown_webhook"
        assert http.get("/v1/projects/some/webhooks").json() == {"webhooks": []}


def test_a_change_of_the_question_is_sent(tmp_path: Path, receiver: Receiver) -> None:
    with served(tmp_path / "data", ITEMS, webhook_networks=LOOPBACK) as (http, service):
        add(http, receiver.url, events=["change"])
        service.store.append("some", answers(150, 0)).result()
        opposite = [
            NewEntry(new.left, new.right, "same" if new.answer == "different" else "different")
            for new in answers(150, 0, seed=1)
        ]
        service.store.append("some", opposite).result()
        project = service.project("some")
        assert project.learner.wait(300, TIMEOUT)
        assert project.view.changes
        first = receiver.wait(1)[0]
        assert (first["event"], first["first"]) == ("change", project.view.changes[0].round)


def test_new_answers_are_sent_at_most_once_per_interval(tmp_path: Path, receiver: Receiver) -> None:
    with served(tmp_path / "data", ITEMS, webhook_networks=LOOPBACK) as (http, service):
        add(http, receiver.url, events=["answers"], interval=1)
        began = time.monotonic()
        for new in answers(30, 0):
            service.store.append("some", [new]).result()
            time.sleep(0.1)
        assert service.project("some").learner.wait(30, TIMEOUT)
        while sum(each["n_entries"] for each in receiver.wait(1)) < 30:
            assert time.monotonic() - began < TIMEOUT
            time.sleep(0.05)
        assert len(receiver.received) <= time.monotonic() - began + 2
        assert receiver.wait(1)[-1]["seq"] == 30


def test_a_failed_request_is_repeated_and_redirects_are_not_followed(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "RETRIES", (0.05, 0.1, 0.1, 0.1, 0.1))
    receiver.statuses = [500, 302, 503]
    with served(tmp_path / "data", ITEMS, webhook_networks=LOOPBACK) as (http, service):
        add(http, receiver.url, events=["answers"])
        service.store.append("some", answers(1, 0)).result()
        sent = receiver.wait(4)
        assert len({each["id"] for each in sent}) == 1  # the same request
        assert set(receiver.paths) == {"/hook?a=1"}
        time.sleep(0.5)
        assert len(receiver.received) == 4
        assert http.get("/v1/projects/some/webhooks").json()["webhooks"][0]["failure"] is None
        receiver.statuses = [500] * 6
        service.store.append("some", answers(1, 0)).result()
        receiver.wait(10)  # and then it is given up
        service.store.append("some", answers(1, 0)).result()
        assert receiver.wait(11)[-1]["n_entries"] == 1


def test_a_webhook_remains_after_a_restart_and_is_deleted_with_its_project(tmp_path: Path, receiver: Receiver) -> None:
    with served(tmp_path / "data", ITEMS, webhook_networks=LOOPBACK) as (http, _):
        made = add(http, receiver.url, events=["answers"])
    with served(tmp_path / "data", webhook_networks=LOOPBACK) as (http, service):
        body = {"left": "item 0", "right": "item 1", "answer": "same"}
        assert http.post("/v1/projects/some/comparisons", json=body).status_code == 201
        receiver.wait(1)
        headers, sent = receiver.received[0]
        verify_webhook(made["secret"], sent, headers["Ocelad-Signature"])
        service.delete("some")
        service.create("some", "Some", ITEMS)
        assert http.get("/v1/projects/some/webhooks").json() == {"webhooks": []}


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://localhost:80/",
        "http://[::1]/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://0.0.0.0/",
        "http://2130706433/",
        "http://[fe80::1]/",
        "http://224.0.0.1/",
        "http://100.64.0.1/",
    ],
)
def test_addresses_that_are_not_public_are_refused(url: str) -> None:
    with pytest.raises(WebhookRefused, match=r"not public|no address"):
        resolve(check_url(url), ())


@pytest.mark.parametrize(
    "url", ["ftp://example.org/", "file:///etc/passwd", "http://", "http://me:secret@example.org/", "http://a b/", "x",
            "http://example.org:99999/", "http://exa\nmple.org/", "http://example.org/\r\nX: y"]
)  # fmt: skip
def test_urls_that_are_not_accepted(url: str, tmp_path: Path) -> None:
    with pytest.raises(WebhookRefused, match="is not a URL of a webhook"):
        check_url(url)


def test_a_refused_address_is_one_sentence_of_the_api(tmp_path: Path) -> None:
    with served(tmp_path / "data", ITEMS) as (http, service):
        for url in ("http://127.0.0.1:1/", "gopher://example.org/"):
            reply = http.post("/v1/projects/some/webhooks", json={"url": url})
            assert (reply.status_code, reply.json()["error"]["code"]) == (422, "bad_webhook")
        assert service.store.webhooks() == []
        assert http.get("/v1/projects/none/webhooks").status_code == 404
        many = {"url": "http://127.0.0.1:1/", "events": ["metric", "nothing"]}
        assert http.post("/v1/projects/some/webhooks", json=many).status_code == 422


def test_the_address_that_was_checked_is_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolves to another address the second time leads nowhere else."""
    target = check_url(receiver.url.replace("127.0.0.1", "rebinding.example"))
    monkeypatch.setattr("socket.getaddrinfo", _resolving_to("127.0.0.1"))
    assert webhook_requests.post(target, resolve(target, LOOPBACK), b"{}", {}) == 200
    assert receiver.received[0][0]["Host"].startswith("rebinding.example")
    monkeypatch.setattr("socket.getaddrinfo", _resolving_to("93.184.216.34", "127.0.0.1"))
    with pytest.raises(WebhookRefused, match=r"127\.0\.0\.1"):
        resolve(target, ())


def _resolving_to(*addresses: str) -> Any:
    def resolving(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        found = [host] if host[0].isdigit() else addresses
        return [(2, 1, 6, "", (address, port)) for address in found]

    return resolving


def test_a_receiver_that_trickles_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_requests, "TOTAL_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def trickle() -> None:
            connection, _ = listening.accept()
            with connection:
                try:
                    connection.sendall(b"HTTP/1.1 200 OK\r\n")
                    for i in range(200):
                        connection.sendall(b"X-%d: y\r\n" % i)
                        time.sleep(0.1)
                except OSError:
                    pass

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        target = check_url(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        began = time.monotonic()
        webhook_requests.post(target, "127.0.0.1", b"{}", {})
        assert time.monotonic() - began < 5
        thread.join(TIMEOUT)
