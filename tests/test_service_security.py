"""The real service against callers without permission and against misbehaving clients."""

from __future__ import annotations

import ast
import json
import re
import threading
import time
from collections import namedtuple
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from command import run
from raw_http import Connection, error_code, send_raw
from serving import Server, served, some_items

import ocelad
from ocelad.cli.serve import serve
from ocelad.client import Client
from ocelad.service.routes import projects
from ocelad.service.security.guard import SECURITY_HEADERS
from ocelad.service.settings import Settings
from ocelad.service.store import open_tokens
from ocelad.service.token_secret import generate_secret
from ocelad.service.wire import NewItems

ITEM = {"items": [{"id": "{}", "features": [1.0, 2.0, 3.0]}]}
PAIR = {"left": "item 0", "right": "item 1", "answer": "same"}
# Every route, the permission that it requires, and a valid request. "all": the permission to read all projects.
ROUTES = {
    ("get", "/v1/health"): (None, {}),
    ("get", "/v1/ready"): (None, {}),
    ("get", "/metrics"): ("all", {}),
    ("get", "/v1/audit"): ("all admin", {}),
    ("get", "/v1/me"): ("token", {}),
    ("post", "/v1/logout"): ("token", {}),
    ("get", "/v1/projects"): ("token", {}),
    ("post", "/v1/projects"): ("admin", {"params": {"id": "some", "format": "csv"}, "content": b"id,x\n"}),
    ("get", "/v1/projects/{project}"): ("read", {}),
    ("patch", "/v1/projects/{project}"): ("admin", {"json": {"title": "Some items"}}),
    ("delete", "/v1/projects/{project}"): ("admin", {"params": {"confirm": "another"}}),
    ("get", "/v1/projects/{project}/ready"): ("read", {}),
    ("post", "/v1/projects/{project}/archive"): ("admin", {}),
    ("post", "/v1/projects/{project}/unarchive"): ("admin", {}),
    ("post", "/v1/projects/{project}/copy"): ("admin", {"json": {"id": "some"}}),
    ("get", "/v1/projects/{project}/webhooks"): ("admin", {}),
    ("post", "/v1/projects/{project}/webhooks"): ("admin", {"json": {"url": "http://127.0.0.1/"}}),
    ("delete", "/v1/projects/{project}/webhooks/{number}"): ("admin", {}),
    ("get", "/v1/projects/{project}/item"): ("read", {"params": {"id": "item 0"}}),
    ("get", "/v1/projects/{project}/people"): ("read", {}),
    ("get", "/v1/projects/{project}/agreement"): ("read", {}),
    ("post", "/v1/projects/{project}/people/weights/learn"): ("admin", {}),
    ("post", "/v1/projects/{project}/people/erase"): ("admin", {"json": {"person": "nobody", "confirm": "somebody"}}),
    ("get", "/v1/projects/{project}/disagreements"): ("review", {}),
    ("post", "/v1/projects/{project}/disagreements/settle"): ("review", {"json": PAIR}),
    ("get", "/v1/projects/{project}/items"): ("read", {}),
    ("post", "/v1/projects/{project}/items"): ("admin", {"json": ITEM}),
    ("get", "/v1/projects/{project}/items/{item}"): ("read", {}),
    ("get", "/v1/projects/{project}/pictures/{position}"): ("read", {}),
    ("get", "/v1/projects/{project}/columns/{name}"): ("read", {}),
    ("post", "/v1/projects/{project}/comparisons"): ("answer", {"json": PAIR}),
    ("post", "/v1/projects/{project}/undo"): ("answer", {"json": {}}),
    ("get", "/v1/projects/{project}/history"): ("read", {}),
    ("get", "/v1/projects/{project}/events"): ("read", {}),
    ("get", "/v1/projects/{project}/export"): ("read", {}),
    ("get", "/v1/projects/{project}/answers"): ("read", {}),
    ("post", "/v1/projects/{project}/answers/{seq}/change"): ("answer", {"json": {"answer": "skip"}}),
    ("post", "/v1/projects/{project}/import"): ("admin", {"content": b"id_a,id_b,same\n"}),
    ("get", "/v1/projects/{project}/groups"): ("read", {}),
    ("get", "/v1/projects/{project}/groups/items"): ("read", {"params": {"item": "item 0"}}),
    ("get", "/v1/projects/{project}/contradictions"): ("read", {}),
    ("get", "/v1/projects/{project}/pair"): ("answer", {"params": {"left": "item 0", "right": "item 1"}}),
    ("post", "/v1/projects/{project}/groups/merge"): ("answer", {"json": {"left": "item 0", "right": "item 1"}}),
    ("post", "/v1/projects/{project}/groups/split"): ("answer", {"json": {"items": ["item 0"]}}),
    ("post", "/v1/projects/{project}/groups/name"): ("answer", {"json": {"item": "item 0", "name": "ones"}}),
    ("get", "/v1/projects/{project}/metric"): ("read", {}),
    ("post", "/v1/projects/{project}/distance"): ("read", {"json": {"pairs": [{"left": "item 0", "right": "item 1"}]}}),
    ("post", "/v1/projects/{project}/embed"): ("read", {"json": {"points": ["item 0"]}}),
    ("get", "/v1/projects/{project}/neighbors"): ("read", {"params": {"item": "item 0"}}),
    ("get", "/v1/projects/{project}/next-pair"): ("answer", {}),
    ("get", "/v1/projects/{project}/timeline"): ("read", {}),
    ("get", "/v1/projects/{project}/map"): ("read", {}),
}
PATH_PARAMETERS = {"number": "1", "project": "some", "item": "item 0", "position": "0", "name": "colour", "seq": "999"}
PERMISSIONS = ("read", "answer", "review", "admin")


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A service that requires tokens, in a thread; one token per permission on "some", and some that are useless."""
    with served(tmp_path_factory.mktemp("closed") / "data", some_items(), some_items(), require_token=True) as (
        http,
        service,
    ):
        with open_tokens(service.settings.folder) as store:
            tokens = {each: store.create(f"of {each}", {"some": each}) for each in PERMISSIONS}
            tokens["all"] = store.create("of all", {"*": "read"})
            tokens["other"] = store.create("of another", {"some1": "admin"})
            tokens["revoked"] = store.create("revoked", {"*": "admin"})
            store.revoke("revoked")
        yield http, {None: None, "unknown": generate_secret(), "nonsense": "x", **tokens}


def test_every_route_is_in_the_table(closed):
    described = closed[0].get("/v1/openapi.json").json()["paths"]
    assert {(method, path) for path, methods in described.items() for method in methods} == set(ROUTES)


@pytest.mark.parametrize("holder", [None, "unknown", "nonsense", "revoked", "other", *PERMISSIONS, "all"])
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_requires_its_permission(closed, method, path, holder):
    http, tokens = closed
    needs, request = ROUTES[method, path]
    headers = {} if tokens[holder] is None else {"Authorization": f"Bearer {tokens[holder]}"}
    with http.stream(method, path.format(**PATH_PARAMETERS), headers=headers, **request) as response:
        status = response.status_code
        code = None
        if status >= 400:
            response.read()
            code = response.json()["error"]["code"]
    assert status != 500
    held = "read" if holder == "all" else holder
    if needs is None:
        assert status == 200
    elif holder in (None, "unknown", "nonsense", "revoked"):
        assert (status, code) == (401, "unauthorized")
        assert response.headers["www-authenticate"].startswith("Bearer")
    elif needs == "token":
        assert status == 200
    elif needs == "all admin":
        assert (status, code) == (403, "forbidden")
    elif needs == "all":
        assert status == (200 if holder == "all" else 403)
    elif holder == "other":  # a caller without permission must not learn that the project exists
        assert (status, code) in ((404, "unknown_project"), (403, "forbidden"))
        assert status == 403 if path == "/v1/projects" else status == 404
    elif PERMISSIONS.index(held) < PERMISSIONS.index(needs):
        assert (status, code) == (403, "forbidden")
    else:
        assert status not in (401, 403)


def test_only_readable_projects_are_listed(closed):
    http, tokens = closed

    def listed(holder):
        answer = http.get("/v1/projects", headers={"Authorization": f"Bearer {tokens[holder]}"})
        return {project["id"]: project["permission"] for project in answer.json()["projects"]}

    assert listed("answer") == {"some": "answer"}
    assert listed("other") == {"some1": "admin"}
    assert listed("all") == {"some": "read", "some1": "read"}


def test_answers_are_stored_under_the_name_of_the_token(closed):
    http, tokens = closed
    headers = {"Authorization": f"Bearer {tokens['admin']}", "Ocelad-Person": "violet otter"}
    last = http.post("/v1/projects/some/comparisons", json=PAIR, headers=headers).json()["last"]
    page = http.get("/v1/projects/some/history", params={"after": last - 1}, headers=headers).json()
    assert page["entries"][0]["person"] == "of admin/violet otter"


def test_creating_a_project_requires_a_permission(closed):
    """The permission to administer one project does not allow the creation of others."""
    http, tokens = closed
    headers = {"Authorization": f"Bearer {tokens['admin']}"}
    answer = http.post("/v1/projects", params={"id": "new", "format": "csv"}, headers=headers, content=b"id,x\na,1\n")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


def test_new_items_are_not_parsed_in_the_event_loop(closed, monkeypatch):
    """Parsing the largest accepted body takes seconds."""
    http, tokens = closed
    readers = set()

    class RecordingNewItems(NewItems):
        @classmethod
        def model_validate_json(cls, data):
            readers.add(threading.current_thread().name)
            return super().model_validate_json(data)

    monkeypatch.setattr(projects, "NewItems", RecordingNewItems)
    headers = {"Authorization": f"Bearer {tokens['admin']}"}
    answer = http.post("/v1/projects/some/items", json={"items": [{"id": "read", "features": [1, 2]}]}, headers=headers)
    assert answer.json()["error"]["code"] == "bad_items"
    (reader,) = readers
    assert "worker" in reader


@pytest.mark.parametrize(
    ("content", "kind", "status", "where"),
    [
        (b'{"items": [', "application/json", 400, None),
        (b"[" * 100_000, "application/json", 400, None),
        (b"\xff", "application/json", 400, None),
        (b"", "application/json", 400, None),
        (b'{"items": []}', "application/json; charset=utf-8", 422, "body.items"),
        (b'{"items": [{"id": "a", "features": ["x"]}]}', "application/json", 422, "body.items.0.features.0"),
        (b'{"items": [{"id": "a", "features": [1, 2, 3]}], "more": 1}', "Application/JSON", 422, "body.more"),
        (b'{"items": [{"id": "a", "features": [1, 2, 3]}]}', "text/plain", 415, "header"),
    ],
    ids=range(8),
)
def test_invalid_items_are_rejected_with_a_location(closed, content, kind, status, where):
    http, tokens = closed
    headers = {"Authorization": f"Bearer {tokens['admin']}", "Content-Type": kind}
    answer = http.post("/v1/projects/some/items", content=content, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["where"]) == (status, where)


PublicServer = namedtuple("PublicServer", "server port folder secret")


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """The real command, listening on all addresses (here used over loopback), with low limits."""
    folder = tmp_path_factory.mktemp("public") / "data"
    secret = run("token", "create", "anna", "--permission", "admin", "--data-folder", folder).stdout.strip()
    limits = {
        "OCELAD_SERVE_HEADER_TIMEOUT": "0.7",
        "OCELAD_SERVE_BODY_TIMEOUT": "0.7",
        "OCELAD_SERVE_MAX_BODY": "20000",
        "OCELAD_SERVE_MAX_ITEMS_BODY": "30000",
        "OCELAD_SERVE_MAX_UPLOAD": "50000",
        "OCELAD_SERVE_MAX_STREAMS": "2",
    }
    arguments = ("--empty", "--host", "0.0.0.0", "--log-level", "debug", "--log-format", "json")
    server = Server(folder, *arguments, env=limits)
    port = int(server.url.rpartition(":")[2])
    items = "id,x,y\n" + "".join(f"item {i},{i},{i * i}\n" for i in range(12))
    try:
        with Client(f"http://127.0.0.1:{port}", token=secret) as client:
            client.create_project("some", items.encode(), format="csv")
        yield PublicServer(server, port, folder, secret)
    finally:
        server.stop()


def request(public, line, *headers, body="", secret=None):
    """Send one raw request and return the response."""
    token = f"Authorization: Bearer {public.secret if secret is None else secret}"
    lines = [f"{line} HTTP/1.1", *headers, token]
    if not any(header.lower().startswith("host:") for header in headers):
        lines.append("Host: 127.0.0.1")
    if body:
        lines += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
    return send_raw(public.port, "\r\n".join(lines) + "\r\n\r\n", body)


COMPARE = "POST /v1/projects/some/comparisons"
PAIR_BODY = json.dumps(PAIR)


def test_a_token_is_required_beyond_loopback(public):
    assert send_raw(public.port, "GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")[0] == 200
    assert error_code(send_raw(public.port, "GET /v1/projects HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")) == "unauthorized"
    assert error_code(request(public, "GET /v1/projects", secret=generate_secret())) == "unauthorized"
    assert request(public, "GET /v1/projects")[0] == 200
    ready = send_raw(public.port, "GET /v1/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert b"some" not in ready[2]  # names of projects are not public


@pytest.mark.parametrize("path", [path for method, path in ROUTES if method == "post"])
def test_requests_without_a_token_are_rejected_before_their_body(public, path):
    head = f"POST {path.format(**PATH_PARAMETERS)} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    assert error_code(send_raw(public.port, f"{head}Content-Length: 9\r\n\r\n")) == "unauthorized"
    assert error_code(send_raw(public.port, f"{head}Transfer-Encoding: chunked\r\n\r\n1\r\n[\r\n")) == "unauthorized"


def test_tokens_are_created_and_revoked_while_the_service_runs(public):
    arguments = ("--data-folder", public.folder)
    secret = run("token", "create", "ben", "--project", "some", "--permission", "read", *arguments).stdout.strip()
    assert request(public, "GET /v1/projects/some", secret=secret)[0] == 200
    assert request(public, COMPARE, body=PAIR_BODY, secret=secret)[0] == 403
    listed = json.loads(run("token", "list", "--json", *arguments).stdout)["tokens"]
    assert {token["name"]: token["permissions"] for token in listed}["ben"] == {"some": "read"}
    assert secret not in json.dumps(listed)
    run("token", "revoke", "ben", *arguments)
    until = time.monotonic() + 20
    while request(public, "GET /v1/projects/some", secret=secret)[0] == 200:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert error_code(request(public, "GET /v1/projects/some", secret=secret)) == "unauthorized"


@pytest.mark.parametrize("line", ["GET /", "GET /v1/health", "GET /v1/projects", COMPARE, "OPTIONS " + COMPARE[5:]])
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (["Host: evil.example"], "wrong_host"),  # DNS rebinding: the name resolves to this machine
        (["Host: evil.example:8765", "Origin: http://evil.example:8765"], "wrong_host"),
        (["Host: 127.0.0.1", "Origin: http://evil.example"], "forbidden"),
        (["Host: 127.0.0.1", "Origin: null"], "forbidden"),
        (["Host: 127.0.0.1:8765", "Origin: http://127.0.0.1:9999"], "forbidden"),
        (["Host: 127.0.0.1", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"], "forbidden"),
    ],
)
def test_requests_of_other_origins_are_rejected_even_with_a_token(public, line, headers, code):
    answer = request(public, line, *headers, body=PAIR_BODY if line == COMPARE else "")
    assert error_code(answer) == code
    assert not any(name.startswith("access-control-") for name in answer[1])


def test_no_response_allows_other_origins_or_sets_a_cookie(public):
    same = f"Origin: http://127.0.0.1:{public.port}"
    host = f"Host: 127.0.0.1:{public.port}"
    for line in ("GET /", "GET /static/main.js", "GET /v1/projects", "GET /nothing", "OPTIONS /v1/projects"):
        status, headers, _ = request(public, line, host, same)
        assert status in (200, 404, 405)
        assert not {"set-cookie", "access-control-allow-origin", "server", "x-powered-by"} & set(headers)
        assert {(name.decode(), value.decode()) for name, value in SECURITY_HEADERS} <= set(headers.items())
    status, headers, _ = request(public, "GET /v1/projects", host, same)
    assert (status, headers["cache-control"]) == (200, "no-store")


def test_the_page_contains_nothing_that_its_policy_forbids(public):
    _, _, page = request(public, "GET /")
    text = page.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"\s(?:on\w+|style)=", text)
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text)


@pytest.mark.parametrize(
    ("line", "max_body"),
    [
        (COMPARE, 20_000),
        ("POST /v1/projects/some/items", 30_000),
        ("POST /v1/projects?id=new&format=csv", 50_000),
        ("GET /v1/projects", 20_000),
    ],
)
def test_oversized_bodies_are_rejected(public, line, max_body):
    head = f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {public.secret}\r\n"
    response = send_raw(public.port, f"{head}Content-Length: {max_body + 1}\r\n\r\n")
    assert error_code(response) == "too_large"
    if line.startswith("POST"):  # a route without a body does not read it
        chunks = b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(max_body // 1024 + 1))
        assert error_code(send_raw(public.port, f"{head}Transfer-Encoding: chunked\r\n\r\n", chunks)) == "too_large"
    assert request(public, "GET /v1/projects")[0] == 200


@pytest.mark.parametrize("size", [66_000, 150_000])
def test_large_headers_are_rejected(public, size):
    """Also if only their last block makes them too large."""
    head = f"{COMPARE} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {public.secret}\r\nX: {'x' * size}"
    type_and_length = f"Content-Type: application/json\r\nContent-Length: {len(PAIR_BODY)}"
    response = send_raw(public.port, f"{head}\r\n{type_and_length}\r\n\r\n{PAIR_BODY}")
    assert response is None or error_code(response) == "headers_too_large"  # None: closed while more arrived
    assert request(public, "GET /v1/projects", f"X: {'x' * 60_000}")[0] == 200


def test_slow_clients_time_out(public):
    head = f"{COMPARE} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {public.secret}\r\n"
    with Connection(public.port) as headers, Connection(public.port) as body, Connection(public.port) as silent:
        headers.send(head)
        body.send(head, "Content-Length: 1000\r\n\r\n", PAIR_BODY)
        assert error_code(headers.read_response()) == "too_slow"
        assert error_code(body.read_response()) == "too_slow"
        assert headers.is_closed()
        assert body.is_closed()
        assert silent.is_closed()


def test_the_number_of_streams_is_limited(public):
    events = (
        f"GET /v1/projects/some/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {public.secret}\r\n\r\n"
    )
    with Connection(public.port) as first, Connection(public.port) as second:
        for connection in (first, second):
            connection.send(events)
            assert connection.read_response()[0] == 200
        assert error_code(send_raw(public.port, events)) == "unavailable"
    until = time.monotonic() + 20
    while send_raw(public.port, events)[0] != 200:  # until the closed streams are noticed
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/..%5capp.py",
        "/static/%2e%2e%2f%2e%2e%2f__init__.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/main.js%00.html",
        "/static/",
        "/static/%ff",
        "/static/" + "a" * 5000,
        "/../../etc/passwd",
        "/v1/projects/../../etc/passwd",
        "/v1/projects/some/pictures/..%2f..%2fapp.py",
        "/v1/projects/some/pictures/-1",
        "/v1/projects/some/pictures/99999999999999999999999",
        "/v1/projects/some/pictures/0.5",
        "/v1/projects/some/items/..%2f..%2fapp.py",
        "/v1/projects/some/items/%00",
        "/v1/projects/some/columns/..%2f..%2fapp.py",
        "/v1/projects/%2e%2e",
        "/v1/projects/some%00",
        "/v1/projects/%f0%9f%92%a9",
    ],
)
def test_no_path_leads_outside(public, path):
    status, headers, body = request(public, f"GET {path}")
    assert status in (400, 404, 422), body
    assert b"import" not in body
    assert b"root:" not in body
    assert error_code((status, headers, body))


@pytest.mark.parametrize(
    "line",
    [
        "GET /v1/projects/some%0d%0aSet-Cookie:%20a=b",
        "GET /v1/projects/some/export?content=log&format=jsonl%0d%0aSet-Cookie:%20a=b",
        "GET /v1/projects/some/neighbors?item=%0d%0aSet-Cookie:%20a=b",
        "GET /%0d%0aSet-Cookie:%20a=b",
    ],
)
def test_no_header_can_be_injected(public, line):
    status, headers, _ = request(public, line)
    assert status in (400, 404, 422)
    assert "set-cookie" not in headers


@pytest.mark.parametrize(
    "header",
    [
        "Ocelad-Person: a\tb",
        "Ocelad-Person: " + "a" * 65,
        "Ocelad-Person: <script>",
        "Ocelad-Person: a/b",
        "Ocelad-Person: a%2Fb",
        "Ocelad-Person: a%0Ab",
        "Ocelad-Person: a%E2%80%8Bb",
        "Ocelad-Person: a%E2%80%AEb",
        "Ocelad-Person: %FF",
        "Ocelad-Person: %zz",
        "Ocelad-Person: " + "%C3%A4" * 65,
        "Idempotency-Key: a b",
        "Idempotency-Key: " + "k" * 201,
        "Idempotency-Key: \xe4",
    ],
)
def test_invalid_names_and_keys_are_rejected(public, header):
    answer = request(public, COMPARE, header, body=PAIR_BODY)
    assert error_code(answer) == "invalid"


@pytest.mark.parametrize(
    "body",
    [
        "[" * 15_000,
        '{"comparisons":' + "[" * 15_000,
        '{"left": "\\ud800", "right": "item 1", "answer": "same"}',
        '{"left": "item 0", "right": "item 1\\u0000", "answer": "same"}',
        '{"left": "item 0", "right": "item 1", "answer": "same", "answer": NaN}',
        '{"left": 1e999, "right": "item 1", "answer": "same"}',
        '{"left": ' + "9" * 10_000 + ', "right": "item 1", "answer": "same"}',
        '{"left": "item 0", "right": "item 1", "answer": "same", "more": 1}',
        "\xff\xfe",
        "null",
        "\x00",
    ],
    ids=range(11),
)
def test_hostile_json_is_rejected(public, body):
    assert error_code(request(public, COMPARE, body=body)) in ("bad_request", "invalid", "not_found", "unknown_item")


def test_secrets_in_urls_are_rejected_and_never_logged(public):
    secret = generate_secret()
    assert error_code(request(public, f"GET /v1/projects?token={public.secret}")) == "bad_request"
    assert error_code(request(public, f"GET /v1/projects?x={secret}")) == "bad_request"
    request(public, f"GET /v1/projects/{secret}")
    request(public, "GET /v1/projects", secret=f"{secret} nonsense")
    request(public, COMPARE, f"Idempotency-Key: {secret}", body=secret)
    log = public.server.log.read_text()
    assert '"event": "request"' in log  # requests are logged at all
    assert public.secret not in log
    assert secret not in log


def test_the_server_logged_no_internal_error(public):
    """The last test of this server."""
    assert request(public, COMPARE, body=PAIR_BODY)[0] == 201
    log = public.server.log.read_text()
    assert "Traceback" not in log
    assert '"status": 500' not in log
    with httpx.Client(base_url=public.server.url.replace("0.0.0.0", "127.0.0.1"), trust_env=False) as http:
        metrics = http.get("/metrics", headers={"Authorization": f"Bearer {public.secret}"}).text
    assert 'status="500"' not in metrics


def test_host_names_are_comma_separated_in_the_environment(monkeypatch):
    monkeypatch.setenv("OCELAD_SERVE_ALLOW_HOSTS", "labels.example.org, [2001:db8::7],192.0.2.7")
    assert Settings().allow_hosts == ("labels.example.org", "2001:db8::7", "192.0.2.7")


@pytest.mark.parametrize("name", ["labels.example.org:443", "[::1]:80", "https://labels.example.org", "*", "a b", ""])
def test_invalid_host_names_are_rejected(tmp_path, name):
    result = CliRunner().invoke(serve, ["--allow-host", name, "--data-folder", str(tmp_path)])
    assert result.exit_code == 2
    assert f"--allow-host: {name!r}" in result.stderr
    result = CliRunner().invoke(serve, ["--data-folder", str(tmp_path)], env={"OCELAD_SERVE_ALLOW_HOSTS": name or "?"})
    assert "OCELAD_SERVE_ALLOW_HOSTS: " in result.stderr
    assert "without a port" in result.stderr


def test_the_package_neither_unpickles_nor_evaluates():
    """Both would execute untrusted input."""
    forbidden = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"}
    package = Path(ocelad.__file__).parent
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = set()
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").partition(".")[0]}
            elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                names = set() if isinstance(node.value, ast.Constant) and node.value.value is False else {"pickle"}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
                names = {"pickle"}
            assert not names & forbidden, f"{file.relative_to(package)}:{node.lineno}"
