"""Letting no one in: the real service, against who should not get in, and against clients that behave badly."""

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
from raw_http import Connection, code_of, exchanged
from serving import Server, served, some_items

import ocelad
from ocelad.cli.serve import serve
from ocelad.client import Client
from ocelad.service.routes import projects
from ocelad.service.secret import new_secret
from ocelad.service.security.guard import SECURITY_HEADERS
from ocelad.service.settings import Settings
from ocelad.service.store import open_tokens
from ocelad.service.wire import NewItems

ITEM = {"items": [{"id": "{}", "features": [1.0, 2.0, 3.0]}]}
PAIR = {"left": "item 0", "right": "item 1", "answer": "same"}
# Every route, what it needs, and a request that is right but for who asks. "all": the right to read in all projects.
ROUTES = {
    ("get", "/v1/health"): (None, {}),
    ("get", "/v1/ready"): (None, {}),
    ("get", "/metrics"): ("all", {}),
    ("get", "/v1/projects"): ("token", {}),
    ("post", "/v1/projects"): ("admin", {"params": {"id": "some", "format": "csv"}, "content": b"id,x\n"}),
    ("get", "/v1/projects/{project}"): ("read", {}),
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
    ("get", "/v1/projects/{project}/metric"): ("read", {}),
    ("post", "/v1/projects/{project}/distance"): ("read", {"json": {"pairs": [{"left": "item 0", "right": "item 1"}]}}),
    ("post", "/v1/projects/{project}/embed"): ("read", {"json": {"points": ["item 0"]}}),
    ("get", "/v1/projects/{project}/neighbors"): ("read", {"params": {"item": "item 0"}}),
    ("get", "/v1/projects/{project}/next-pair"): ("answer", {}),
    ("get", "/v1/projects/{project}/timeline"): ("read", {}),
    ("get", "/v1/projects/{project}/map"): ("read", {}),
}
PLACES = {"project": "some", "item": "item 0", "position": "0", "name": "colour"}
RIGHTS = ("read", "answer", "admin")


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A service that asks for tokens, in a thread; a token for each right in "some", and some that are of no use."""
    with served(tmp_path_factory.mktemp("closed") / "data", some_items(), some_items(), require_token=True) as (
        http,
        service,
    ):
        with open_tokens(service.settings.folder) as kept:
            tokens = {right: kept.create(f"of {right}", {"some": right}) for right in RIGHTS}
            tokens["all"] = kept.create("of all", {"*": "read"})
            tokens["other"] = kept.create("of another", {"some1": "admin"})
            tokens["revoked"] = kept.create("of nobody", {"*": "admin"})
            kept.revoke("of nobody")
        yield http, {None: None, "unknown": new_secret(), "nonsense": "x", **tokens}


def test_every_route_is_in_the_table(closed):
    described = closed[0].get("/v1/openapi.json").json()["paths"]
    assert {(method, path) for path, methods in described.items() for method in methods} == set(ROUTES)


@pytest.mark.parametrize("holder", [None, "unknown", "nonsense", "revoked", "other", *RIGHTS, "all"])
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_asks_for_its_right(closed, method, path, holder):
    http, tokens = closed
    needs, request = ROUTES[method, path]
    headers = {} if tokens[holder] is None else {"Authorization": f"Bearer {tokens[holder]}"}
    with http.stream(method, path.format(**PLACES), headers=headers, **request) as response:
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
    elif needs == "all":
        assert status == (200 if holder == "all" else 403)
    elif holder == "other":  # who may not read a project is not told that there is one
        assert (status, code) in ((404, "unknown_project"), (403, "forbidden"))
        assert status == 403 if path == "/v1/projects" else status == 404
    elif RIGHTS.index(held) < RIGHTS.index(needs):
        assert (status, code) == (403, "forbidden")
    else:
        assert status not in (401, 403)


def test_only_projects_that_may_be_read_are_listed(closed):
    http, tokens = closed

    def listed(holder):
        answer = http.get("/v1/projects", headers={"Authorization": f"Bearer {tokens[holder]}"})
        return {project["id"]: project["right"] for project in answer.json()["projects"]}

    assert listed("answer") == {"some": "answer"}
    assert listed("other") == {"some1": "admin"}
    assert listed("all") == {"some": "read", "some1": "read"}


def test_answers_are_kept_under_the_name_of_the_token(closed):
    http, tokens = closed
    headers = {"Authorization": f"Bearer {tokens['admin']}", "Ocelad-Person": "violet otter"}
    last = http.post("/v1/projects/some/comparisons", json=PAIR, headers=headers).json()["last"]
    page = http.get("/v1/projects/some/history", params={"after": last - 1}, headers=headers).json()
    assert page["entries"][0]["who"] == "of admin/violet otter"


def test_projects_are_made_by_who_may(closed):
    """The right to administer one project is none to make others; an upload is not even read."""
    http, tokens = closed
    headers = {"Authorization": f"Bearer {tokens['admin']}"}
    answer = http.post("/v1/projects", params={"id": "new", "format": "csv"}, headers=headers, content=b"id,x\na,1\n")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


def test_many_items_are_not_read_in_the_loop(closed, monkeypatch):
    """To read all the JSON that may be sent takes seconds."""
    http, tokens = closed
    readers = set()

    class Read(NewItems):
        @classmethod
        def model_validate_json(cls, data):
            readers.add(threading.current_thread().name)
            return super().model_validate_json(data)

    monkeypatch.setattr(projects, "NewItems", Read)
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
def test_items_that_are_not_right_are_refused_in_a_sentence(closed, content, kind, status, where):
    http, tokens = closed
    headers = {"Authorization": f"Bearer {tokens['admin']}", "Content-Type": kind}
    answer = http.post("/v1/projects/some/items", content=content, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["where"]) == (status, where)


Beyond = namedtuple("Beyond", "server port folder secret")


@pytest.fixture(scope="module")
def beyond(tmp_path_factory):
    """The real command, open to the whole network (and reached by loopback here), with limits that are soon reached."""
    folder = tmp_path_factory.mktemp("beyond") / "data"
    secret = run("token", "create", "anna", "--right", "admin", "--data-folder", folder).stdout.strip()
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
        yield Beyond(server, port, folder, secret)
    finally:
        server.stop()


def request(beyond, line, *headers, body="", secret=None):
    """One request as it is; the answer."""
    token = f"Authorization: Bearer {beyond.secret if secret is None else secret}"
    lines = [f"{line} HTTP/1.1", *headers, token]
    if not any(header.lower().startswith("host:") for header in headers):
        lines.append("Host: 127.0.0.1")
    if body:
        lines += [f"Content-Length: {len(body)}", "Content-Type: application/json"]
    return exchanged(beyond.port, "\r\n".join(lines) + "\r\n\r\n", body)


COMPARE = "POST /v1/projects/some/comparisons"
PAIR_BODY = json.dumps(PAIR)


def test_beyond_loopback_a_token_is_needed(beyond):
    assert exchanged(beyond.port, "GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")[0] == 200
    assert code_of(exchanged(beyond.port, "GET /v1/projects HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")) == "unauthorized"
    assert code_of(request(beyond, "GET /v1/projects", secret=new_secret())) == "unauthorized"
    assert request(beyond, "GET /v1/projects")[0] == 200
    ready = exchanged(beyond.port, "GET /v1/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    assert b"some" not in ready[2]  # names of projects are not for everyone


@pytest.mark.parametrize("path", [path for method, path in ROUTES if method == "post"])
def test_who_may_not_send_something_is_told_so_before_it_comes(beyond, path):
    head = f"POST {path.format(project='some')} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    assert code_of(exchanged(beyond.port, f"{head}Content-Length: 9\r\n\r\n")) == "unauthorized"
    assert code_of(exchanged(beyond.port, f"{head}Transfer-Encoding: chunked\r\n\r\n1\r\n[\r\n")) == "unauthorized"


def test_tokens_are_made_and_revoked_while_the_service_runs(beyond):
    arguments = ("--data-folder", beyond.folder)
    secret = run("token", "create", "ben", "--project", "some", "--right", "read", *arguments).stdout.strip()
    assert request(beyond, "GET /v1/projects/some", secret=secret)[0] == 200
    assert request(beyond, COMPARE, body=PAIR_BODY, secret=secret)[0] == 403
    listed = json.loads(run("token", "list", "--json", *arguments).stdout)["tokens"]
    assert {token["name"]: token["rights"] for token in listed}["ben"] == {"some": "read"}
    assert secret not in json.dumps(listed)
    run("token", "revoke", "ben", *arguments)
    until = time.monotonic() + 20
    while request(beyond, "GET /v1/projects/some", secret=secret)[0] == 200:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert code_of(request(beyond, "GET /v1/projects/some", secret=secret)) == "unauthorized"


@pytest.mark.parametrize("line", ["GET /", "GET /v1/health", "GET /v1/projects", COMPARE, "OPTIONS " + COMPARE[5:]])
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (["Host: evil.example"], "wrong_host"),  # its name now points here: DNS rebinding
        (["Host: evil.example:8765", "Origin: http://evil.example:8765"], "wrong_host"),
        (["Host: 127.0.0.1", "Origin: http://evil.example"], "forbidden"),
        (["Host: 127.0.0.1", "Origin: null"], "forbidden"),
        (["Host: 127.0.0.1:8765", "Origin: http://127.0.0.1:9999"], "forbidden"),
        (["Host: 127.0.0.1", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"], "forbidden"),
    ],
)
def test_pages_of_others_get_nothing_even_with_the_token(beyond, line, headers, code):
    answer = request(beyond, line, *headers, body=PAIR_BODY if line == COMPARE else "")
    assert code_of(answer) == code
    assert not any(name.startswith("access-control-") for name in answer[1])


def test_no_answer_allows_other_origins_or_sets_a_cookie(beyond):
    same = f"Origin: http://127.0.0.1:{beyond.port}"
    host = f"Host: 127.0.0.1:{beyond.port}"
    for line in ("GET /", "GET /static/main.js", "GET /v1/projects", "GET /nothing", "OPTIONS /v1/projects"):
        status, headers, _ = request(beyond, line, host, same)
        assert status in (200, 404, 405)
        assert not {"set-cookie", "access-control-allow-origin", "server", "x-powered-by"} & set(headers)
        assert {(name.decode(), value.decode()) for name, value in SECURITY_HEADERS} <= set(headers.items())
    status, headers, _ = request(beyond, "GET /v1/projects", host, same)
    assert (status, headers["cache-control"]) == (200, "no-store")


def test_the_page_holds_nothing_that_its_policy_forbids(beyond):
    _, _, page = request(beyond, "GET /")
    text = page.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"\s(?:on\w+|style)=", text)
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text)


@pytest.mark.parametrize(
    ("line", "most"),
    [
        (COMPARE, 20_000),
        ("POST /v1/projects/some/items", 30_000),
        ("POST /v1/projects?id=new&format=csv", 50_000),
        ("GET /v1/projects", 20_000),
    ],
)
def test_oversized_bodies_are_refused(beyond, line, most):
    head = f"{line} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {beyond.secret}\r\n"
    told = exchanged(beyond.port, f"{head}Content-Length: {most + 1}\r\n\r\n")
    assert code_of(told) == "too_large"
    if line.startswith("POST"):  # a route without a body does not read one
        chunks = b"".join(b"400\r\n" + b" " * 1024 + b"\r\n" for _ in range(most // 1024 + 1))
        assert code_of(exchanged(beyond.port, f"{head}Transfer-Encoding: chunked\r\n\r\n", chunks)) == "too_large"
    assert request(beyond, "GET /v1/projects")[0] == 200


@pytest.mark.parametrize("size", [66_000, 150_000])
def test_large_headers_are_refused(beyond, size):
    """Also where the block that they are complete with is what makes them too large."""
    head = f"{COMPARE} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {beyond.secret}\r\nX: {'x' * size}"
    type_and_length = f"Content-Type: application/json\r\nContent-Length: {len(PAIR_BODY)}"
    told = exchanged(beyond.port, f"{head}\r\n{type_and_length}\r\n\r\n{PAIR_BODY}")
    assert told is None or code_of(told) == "headers_too_large"  # none: closed while more was coming
    assert request(beyond, "GET /v1/projects", f"X: {'x' * 60_000}")[0] == 200


def test_slow_clients_are_let_go(beyond):
    head = f"{COMPARE} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {beyond.secret}\r\n"
    with Connection(beyond.port) as headers, Connection(beyond.port) as body, Connection(beyond.port) as silent:
        headers.send(head)
        body.send(head, "Content-Length: 1000\r\n\r\n", PAIR_BODY)
        assert code_of(headers.answer()) == "too_slow"
        assert code_of(body.answer()) == "too_slow"
        assert headers.is_closed()
        assert body.is_closed()
        assert silent.is_closed()


def test_there_are_only_so_many_streams(beyond):
    events = (
        f"GET /v1/projects/some/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {beyond.secret}\r\n\r\n"
    )
    with Connection(beyond.port) as first, Connection(beyond.port) as second:
        for connection in (first, second):
            connection.send(events)
            assert connection.answer()[0] == 200
        assert code_of(exchanged(beyond.port, events)) == "unavailable"
    until = time.monotonic() + 20
    while exchanged(beyond.port, events)[0] != 200:  # the places are free again
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
def test_paths_lead_nowhere_else(beyond, path):
    status, headers, body = request(beyond, f"GET {path}")
    assert status in (400, 404, 422), body
    assert b"import" not in body
    assert b"root:" not in body
    assert code_of((status, headers, body))


@pytest.mark.parametrize(
    "line",
    [
        "GET /v1/projects/some%0d%0aSet-Cookie:%20a=b",
        "GET /v1/projects/some/export?what=log&format=jsonl%0d%0aSet-Cookie:%20a=b",
        "GET /v1/projects/some/neighbors?item=%0d%0aSet-Cookie:%20a=b",
        "GET /%0d%0aSet-Cookie:%20a=b",
    ],
)
def test_no_header_is_made_of_what_is_sent(beyond, line):
    status, headers, _ = request(beyond, line)
    assert status in (400, 404, 422)
    assert "set-cookie" not in headers


@pytest.mark.parametrize(
    "header",
    [
        "Ocelad-Person: a\tb",
        "Ocelad-Person: " + "a" * 65,
        "Ocelad-Person: <script>",
        "Ocelad-Person: a/b",
        "Idempotency-Key: a b",
        "Idempotency-Key: " + "k" * 201,
        "Idempotency-Key: \xe4",
    ],
)
def test_names_and_keys_are_of_plain_characters(beyond, header):
    answer = request(beyond, COMPARE, header, body=PAIR_BODY)
    assert code_of(answer) == "invalid"


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
def test_whatever_json_is_sent_is_refused_in_a_sentence(beyond, body):
    assert code_of(request(beyond, COMPARE, body=body)) in ("bad_request", "invalid", "not_found", "unknown_item")


def test_secrets_do_not_belong_into_addresses_and_come_into_no_log(beyond):
    secret = new_secret()
    assert code_of(request(beyond, f"GET /v1/projects?token={beyond.secret}")) == "bad_request"
    assert code_of(request(beyond, f"GET /v1/projects?x={secret}")) == "bad_request"
    request(beyond, f"GET /v1/projects/{secret}")
    request(beyond, "GET /v1/projects", secret=f"{secret} nonsense")
    request(beyond, COMPARE, f"Idempotency-Key: {secret}", body=secret)
    log = beyond.server.log.read_text()
    assert '"event": "request"' in log  # it is written, and of everything
    assert beyond.secret not in log
    assert secret not in log


def test_nothing_went_wrong_meanwhile(beyond):
    """The last one of this server."""
    assert request(beyond, COMPARE, body=PAIR_BODY)[0] == 201
    log = beyond.server.log.read_text()
    assert "Traceback" not in log
    assert '"status": 500' not in log
    with httpx.Client(base_url=beyond.server.url.replace("0.0.0.0", "127.0.0.1"), trust_env=False) as http:
        measured = http.get("/metrics", headers={"Authorization": f"Bearer {beyond.secret}"}).text
    assert 'status="500"' not in measured


def test_names_of_the_service_come_from_the_environment_with_commas_between(monkeypatch):
    monkeypatch.setenv("OCELAD_SERVE_ALLOW_HOSTS", "labels.example.org, [2001:db8::7],192.0.2.7")
    assert Settings().allow_hosts == ("labels.example.org", "2001:db8::7", "192.0.2.7")


@pytest.mark.parametrize("name", ["labels.example.org:443", "[::1]:80", "https://labels.example.org", "*", "a b", ""])
def test_names_of_the_service_that_nothing_can_match_are_refused(tmp_path, name):
    told = CliRunner().invoke(serve, ["--allow-host", name, "--data-folder", str(tmp_path)])
    assert told.exit_code == 2
    assert f"--allow-host: {name!r}" in told.stderr
    told = CliRunner().invoke(serve, ["--data-folder", str(tmp_path)], env={"OCELAD_SERVE_ALLOW_HOSTS": name or "?"})
    assert "OCELAD_SERVE_ALLOW_HOSTS: " in told.stderr
    assert "without a port" in told.stderr


def test_no_unpickling_in_the_package():
    """What unpickles runs what it is sent: nothing here does, and nothing is evaluated."""
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
