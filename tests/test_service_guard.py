"""The security middleware in front of a small app that stands in for the real one."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from urllib.request import urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_http import Connection, error_code, send_raw, serving
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from ocelad.service.api_error import ApiError
from ocelad.service.security import (
    Authentication,
    Authenticator,
    Caller,
    Guard,
    LimitedHttpProtocol,
    RequestLimits,
    cached_callers,
    http_protocol,
)
from ocelad.service.security.guard import SECURITY_HEADERS
from ocelad.service.security.rate_limiter import RateLimiter
from ocelad.service.token_secret import generate_secret, hash_secret

# A constant with the form of a secret: it appears in the ids of parametrized tests.
A_SECRET = "ocelad_" + "A" * 43
GET = "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n".format


def small_app():
    """Return an app that echoes bodies, responds late, never or with an error, and sends endless responses."""
    ends = threading.Event()

    async def echo(request):
        return PlainTextResponse(await request.body())

    async def late(request):
        await asyncio.sleep(30)
        return PlainTextResponse()

    async def long(request):
        async def parts():
            for _ in range(3):
                yield b"."
                await asyncio.sleep(0.2)

        return StreamingResponse(parts())

    async def events(request):
        async def parts():
            while True:
                yield b"."
                await asyncio.sleep(0.05)

        return StreamingResponse(parts())

    async def endless(request):
        async def parts():
            try:
                while True:
                    yield bytes(2**20)
                    await asyncio.sleep(0)
            finally:
                ends.set()

        return StreamingResponse(parts())

    async def fails(request):
        await request.body()
        raise RuntimeError("raised by the app")

    both = ["GET", "POST"]
    routes = [
        Route("/", echo),
        Route("/late", late),
        Route("/long", long),
        Route("/endless", endless),
        Route("/fails", fails, methods=both),
        Route("/echo", echo, methods=both),
        Route("/v1/projects", echo, methods=both),
        Route("/v1/projects/digits/items", echo, methods=both),
        Route("/v1/health", echo),
        Route("/v1/projects/digits/events", events),
    ]
    app = Starlette(routes=routes)
    app.state.ends = ends
    return app


LIMITS = {"max_body": 1000, "max_items_body": 3000, "max_upload": 5000, "body_timeout": 0.4, "request_timeout": 0.4}


class FakeTokens:
    """A store of tokens with one token per set of permissions; ``down`` makes look-ups fail."""

    def __init__(self, *permissions):
        self.tokens = [
            SimpleNamespace(name=f"t{i}", permissions=each, revoked_at=None, expires_at=None)
            for i, each in enumerate(permissions)
        ]
        self.secrets = [generate_secret() for _ in permissions]
        self.n_lookups, self.down = 0, False

    def find_token(self, hash):
        self.n_lookups += 1
        if self.down:
            raise DatabaseDown
        return next((token for token, s in zip(self.tokens, self.secrets, strict=True) if hash_secret(s) == hash), None)


class DatabaseDown(Exception):
    pass


def authenticator(tokens=None, **settings):
    """Return an authenticator of these tokens; None: no token is required."""
    return Authenticator(tokens or FakeTokens(), tokens is not None, unavailable=DatabaseDown, **settings)


def guarded(
    app=None,
    *,
    allowed_hosts=(),
    tokens=None,
    cache_seconds=2.0,
    rate=None,
    max_streams=2,
    max_streams_per_caller=32,
    **limits,
):
    authenticated = Authentication(
        RequestLimits(app or small_app(), **LIMITS | limits),
        authenticate=authenticator(tokens, cache_seconds=cache_seconds),
        errors=[(DatabaseDown, 503, "store_unavailable")],
        rate=rate,
        max_streams=max_streams,
        max_streams_per_caller=max_streams_per_caller,
    )
    return Guard(authenticated, allowed_hosts=allowed_hosts)


@pytest.fixture(scope="module")
def port():
    with serving(
        guarded(allowed_hosts=("127.0.0.1", "Labels.example.org")), http=LimitedHttpProtocol.with_header_timeout(0.4)
    ) as port:
        yield port


def status_of(app, **request):
    """Return the status and the headers of a response."""
    return call(app, **request)[:2]


def call(app, *, method="GET", path="/echo", query=b"", client="127.0.0.1", scheme="http", **headers):
    """Call an app without a socket and return status, headers and body; _ stands for - in names of headers."""
    raw = [
        (name.replace("_", "-").encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()
    ]
    scope = {"type": "http", "method": method, "path": path, "query_string": query, "headers": raw, "scheme": scheme}
    scope |= {"client": (client, 1), "server": ("127.0.0.1", 80), "http_version": "1.1", "root_path": ""}
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], Headers(raw=sent[0]["headers"]), sent[1]["body"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8765", 200),
        ("127.0.0.1:1", 200),
        ("[::1]", 200),
        ("[::1]:8765", 200),
        ("labels.example.org", 200),
        ("labels.example.org:443", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example:127.0.0.1", 421),
        ("localhost:", 421),
        ("127.0.0.2", 421),
        ("192.168.1.7", 421),
        ("", 421),
    ],
)
def test_only_the_service_s_own_host_names_are_accepted(port, host, status):
    answer = send_raw(port, f"GET /echo HTTP/1.1\r\nHost: {host}\r\n\r\n")
    assert answer[0] == status
    assert status == 200 or error_code(answer) == "wrong_host"


@pytest.mark.parametrize("hosts", ["", "Host: localhost\r\nHost: evil.example\r\n"])
def test_a_request_has_one_host(port, hosts):
    assert send_raw(port, f"GET /echo HTTP/1.1\r\n{hosts}\r\n")[0] == 400


@pytest.mark.parametrize("allowed_hosts", [("127.0.0.1",), ("192.168.1.8", "labels.example.org"), ()])
def test_a_single_address_accepts_no_other_address(allowed_hosts):
    app = guarded(allowed_hosts=allowed_hosts)
    for host in ("localhost", "127.0.0.1:8765", "[::1]", *allowed_hosts):
        assert status_of(app, host=host)[0] == 200
    for host in ("192.168.1.7:8765", "[2001:db8::7]", "evil.example"):
        assert status_of(app, host=host)[0] == 421


def test_a_wildcard_address_accepts_any_ip_address_but_no_other_name():
    app = guarded(allowed_hosts=("0.0.0.0",))
    assert status_of(app, host="192.168.1.7:8765")[0] == 200
    assert status_of(app, host="[2001:db8::7]")[0] == 200
    assert status_of(app, host="evil.example")[0] == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://localhost"}, 200),
        ({"origin": "https://localhost"}, 200),  # from a proxy that terminates TLS
        ({"origin": "http://localhost:80"}, 200),
        ({"origin": "http://localhost:9999"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://localhost.evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "ftp://localhost"}, 403),
        ({"sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),  # another port of localhost is the same site
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}, 403),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_of_other_origins_are_rejected(method, headers, status):
    assert status_of(guarded(), method=method, **headers)[0] == status


def test_cross_site_requests_may_only_navigate_to_the_page():
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert status_of(guarded(), path="/", **link)[0] == 200
    assert status_of(guarded(), path="/", **link | {"sec_fetch_dest": "iframe"})[0] == 403
    assert status_of(guarded(), path="/", **link | {"sec_fetch_mode": "no-cors"})[0] == 403
    assert status_of(guarded(), path="/", method="POST", **link)[0] == 403


def test_an_http_origin_is_rejected_by_an_https_service():
    assert status_of(guarded(), scheme="https", origin="https://localhost")[0] == 200
    assert status_of(guarded(), scheme="https", origin="http://localhost")[0] == 403


@pytest.mark.parametrize("query", ["token=x", "a=1&access_token=x", "token", f"x={A_SECRET}", f"x=%6f{A_SECRET[1:]}"])
def test_secrets_in_queries_are_rejected(query):
    assert status_of(guarded(), query=query.encode())[0] == 400
    assert status_of(guarded(), query=b"tokens=3&x=ocelad_2")[0] == 200


def test_every_response_has_security_headers_and_is_not_stored_unless_it_says_so(port):
    for path in ("/", "/echo", "/nothing", "/v1/nothing"):
        _, headers, _ = send_raw(port, GET(path))
        assert {(name.decode(), value.decode()) for name, value in SECURITY_HEADERS} <= set(headers.items())
        assert headers["cache-control"] == "no-store"

    async def cacheable(scope, receive, send):
        await PlainTextResponse("", headers={"Cache-Control": "max-age=60"})(scope, receive, send)

    with serving(guarded(cacheable)) as own_port:
        assert send_raw(own_port, GET("/"))[1]["cache-control"] == "max-age=60"


def test_websockets_are_closed():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(guarded()({"type": "websocket", "path": "/", "headers": []}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


POST = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n".format
CHUNKED = "POST {} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".format


@pytest.mark.parametrize(
    ("path", "max_body"), [("/echo", 1000), ("/v1/projects", 5000), ("/v1/projects/digits/items", 3000)]
)
def test_bodies_have_a_maximal_size(port, path, max_body):
    assert send_raw(port, POST(path, max_body), b"x" * max_body)[2] == b"x" * max_body
    # Rejected by its length, before any of it is received.
    assert error_code(send_raw(port, POST(path, max_body + 1))) == "too_large"
    assert error_code(send_raw(port, POST(path, 10**30)[:-2] + "\r\n")) in ("too_large", "bad_request")
    chunks = b"".join(b"64\r\n" + b"x" * 100 + b"\r\n" for _ in range(max_body // 100))
    assert send_raw(port, CHUNKED(path), chunks, b"0\r\n\r\n")[2] == b"x" * max_body
    assert error_code(send_raw(port, CHUNKED(path), chunks, b"1\r\nx\r\n")) == "too_large"


def test_a_slow_body_times_out(port):
    with Connection(port) as connection:
        connection.send(POST("/echo", 100), b"x")
        assert error_code(connection.read_response()) == "too_slow"
        assert connection.is_closed()


def test_a_body_that_arrives_steadily_does_not_time_out():
    with serving(guarded(max_body=10**6), http=LimitedHttpProtocol) as port, Connection(port) as connection:
        connection.send(POST("/echo", 40_000))
        for _ in range(8):  # 0.8 seconds in total; the timeout of an empty body is 0.4
            connection.send(b"x" * 5000)
            threading.Event().wait(0.1)
        assert connection.read_response()[0] == 200


def test_the_app_s_response_to_a_truncated_body_is_not_sent(port):
    assert error_code(send_raw(port, POST("/fails", 100))) == "too_slow"
    assert error_code(send_raw(port, CHUNKED("/fails"), b"7d0\r\n" + b"x" * 2000 + b"\r\n")) == "too_large"


def test_exceptions_of_the_app_are_passed_on():
    with pytest.raises(RuntimeError, match="raised by the app"):
        status_of(guarded(), path="/fails")


def test_a_response_must_begin_in_time_but_may_last_longer(port):
    assert error_code(send_raw(port, GET("/late"))) == "timeout"
    with urlopen(f"http://127.0.0.1:{port}/long") as answer:
        assert answer.read() == b"..."


def test_creating_a_project_may_take_longer():
    def delayed(app):
        async def slow(scope, receive, send):
            await asyncio.sleep(0.1)
            await app(scope, receive, send)

        return slow

    app = guarded(delayed(small_app()), request_timeout=0.02)
    assert status_of(app, method="POST", path="/v1/projects")[0] == 200
    assert status_of(app, method="POST", path="/v1/projects/digits/items")[0] == 503


def test_creating_a_project_never_has_less_time_than_other_requests():
    async def slow(scope, receive, send):
        await asyncio.sleep(0.1)
        await PlainTextResponse()(scope, receive, send)

    app = guarded(slow, request_timeout=20.0, upload_timeout=0.01)
    assert status_of(app, method="POST", path="/v1/projects")[0] == 200


@pytest.mark.parametrize(
    ("method", "headers", "advice"),
    [("GET", {}, "try again"), ("POST", {"idempotency_key": "k"}, "the same Idempotency-Key"), ("POST", {}, "check")],
)
def test_a_timeout_advises_whether_to_repeat_the_request(method, headers, advice):
    async def never(scope, receive, send):
        await asyncio.sleep(30)

    status, _, body = call(guarded(never, request_timeout=0.01), method=method, **headers)
    assert status == 503
    assert advice in json.loads(body)["error"]["message"]


def test_the_number_of_streams_is_limited():
    stream = GET("/v1/projects/digits/events")
    with serving(guarded(request_timeout=60.0), http=LimitedHttpProtocol) as port:
        with Connection(port) as first, Connection(port) as second:
            for connection in (first, second):
                connection.send(stream)
                assert connection.read_response()[0] == 200
            assert error_code(send_raw(port, stream)) == "unavailable"
        # The streams of disconnected clients are released as soon as the disconnect is noticed.
        assert any(send_raw(port, stream)[0] == 200 or threading.Event().wait(0.02) for _ in range(500))


def test_closed_streams_are_forgotten():
    app = guarded(PlainTextResponse("a short stream"))
    for i in range(5):
        assert status_of(app, path="/v1/projects/digits/events", client=f"192.0.2.{i}")[0] == 200
    assert not app._app._streams


def test_slow_headers_time_out(port):
    with Connection(port) as connection:
        connection.send("GET /echo HTTP/1.1\r\nHost: loc")
        assert error_code(connection.read_response()) == "too_slow"
        assert connection.is_closed()


@pytest.mark.parametrize("start", ["GET /echo HTTP/1.1\r\n", POST("/echo", 1000)])
def test_trickling_headers_or_body_do_not_hold_a_connection(port, start):
    with Connection(port) as connection:
        connection.send(start)
        with pytest.raises(ConnectionError):
            trickle(connection, "x: y\r\n")


def trickle(connection, part):
    for _ in range(100):
        connection.send(part)
        threading.Event().wait(0.05)


@pytest.mark.parametrize(("before", "idle"), [("", ""), ("", "\r\n"), (GET("/echo"), "\r\n")])
def test_an_idle_connection_is_closed(port, before, idle):
    """Also with empty lines between requests, which reset uvicorn's own timer."""
    with Connection(port) as connection:
        connection.send(before)
        assert not before or connection.read_response()[0] == 200
        connection.send(idle)
        assert connection.is_closed()


def test_a_connection_is_tokens_alive_over_many_requests(port):
    with Connection(port) as connection:
        for _ in range(4):
            connection.send(GET("/echo")[:10])
            threading.Event().wait(0.15)  # in total longer than the limit, though no single request is
            connection.send(GET("/echo")[10:])
            assert connection.read_response()[0] == 200


def test_pipelined_requests_are_answered_in_order(port):
    with Connection(port) as connection:
        connection.send(POST("/echo", 1) + "a" + POST("/echo", 1) + "b", GET("/nothing"))
        assert [connection.read_response()[::2] for _ in range(2)] == [(200, b"a"), (200, b"b")]
        assert connection.read_response()[0] == 404


@pytest.mark.parametrize(
    "request_",
    [
        "NONSENSE\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost: localhost\r\nBad Header: x\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost: localhost\r\nx: a\0b\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_malformed_requests_get_a_regular_error_response(port, request_):
    assert error_code(send_raw(port, request_)) == "bad_request"


def test_headers_have_a_maximal_size(port):
    with Connection(port) as connection:
        connection.send("GET /echo HTTP/1.1\r\nHost: localhost\r\n", "x: " + 70_000 * "y")
        assert error_code(connection.read_response()) == "headers_too_large"
        assert connection.is_closed()


def test_a_response_that_is_not_read_is_aborted():
    protocol = type("Impatient", (LimitedHttpProtocol,), {"write_timeout": 0.3})
    app = small_app()
    with serving(guarded(app), http=protocol) as port, Connection(port) as connection:
        connection.send(GET("/endless"))
        assert app.state.ends.wait(20)


def test_a_client_that_reads_on_after_a_pause_keeps_its_connection():
    protocol = type("Impatient", (LimitedHttpProtocol,), {"write_timeout": 0.3})
    size = 2**24  # more than the buffers of both sockets

    async def large(request):
        return PlainTextResponse(bytes(size))

    app = guarded(Starlette(routes=[Route("/large", large)]))
    with serving(app, http=protocol) as port, Connection(port) as connection:
        connection.send(GET("/large"))
        threading.Event().wait(0.1)
        assert len(connection.read_response()[2]) == size
        threading.Event().wait(0.5)  # longer than the timeout, which no longer applies
        connection.send(GET("/large"))
        assert connection.read_response()[0] == 200


def test_the_number_of_connections_is_limited():
    protocol = type("Few", (LimitedHttpProtocol.with_header_timeout(60.0),), {"max_connections": 2})
    with serving(guarded(), http=protocol) as port, Connection(port) as first, Connection(port) as second:
        for connection in (first, second):
            connection.send(GET("/echo"))
            assert connection.read_response()[0] == 200
        with Connection(port) as third:
            assert third.is_closed()


def test_the_number_of_connections_of_one_address_is_limited(monkeypatch):
    monkeypatch.setattr(http_protocol, "remote_network", lambda scope: scope["client"][0])
    protocol = type("FewEach", (LimitedHttpProtocol.with_header_timeout(60.0),), {"max_connections_per_address": 1})
    with serving(guarded(), http=protocol) as port, Connection(port) as first:
        first.send(GET("/echo"))
        assert first.read_response()[0] == 200
        with Connection(port) as second:
            assert second.is_closed()


def test_the_rate_of_an_address_is_limited_but_not_of_loopback():
    app = guarded(rate=1.0)
    assert [status_of(app, client="192.0.2.1")[0] for _ in range(3)] == [200, 200, 429]
    status, headers = status_of(app, client="192.0.2.1")
    assert status == 429
    assert headers["retry-after"] == "1"
    assert status_of(app, client="192.0.2.2")[0] == 200
    assert {status_of(app, client="127.0.0.1")[0] for _ in range(9)} == {200}


def bearer(secret):
    return {"authorization": f"Bearer {secret}", "path": "/v1/projects"}


def test_the_rate_of_a_token_is_limited_over_all_addresses():
    tokens = FakeTokens({"*": "read"})
    app = guarded(tokens=tokens, rate=1.0)
    clients = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "127.0.0.1"]  # behind a proxy every client has a loopback address
    assert [status_of(app, client=client, **bearer(tokens.secrets[0]))[0] for client in clients] == [200, 200, 429, 429]


def test_tokens_of_one_address_are_limited_separately():
    tokens = FakeTokens(*[{"*": "read"}] * 20)
    app = guarded(tokens=tokens, rate=1.0)
    assert {status_of(app, client="192.0.2.1", **bearer(secret))[0] for secret in tokens.secrets * 2} == {200}
    assert {status_of(app, client="192.0.2.1", **bearer(secret))[0] for secret in tokens.secrets} == {429}


def test_requests_without_a_token_are_limited_by_address():
    app = guarded(tokens=FakeTokens(), rate=1.0)
    assert [status_of(app, client="192.0.2.1", path="/v1/projects")[0] for _ in range(3)] == [401, 401, 429]
    assert status_of(app, client="192.0.2.1")[0] == 429  # of the page, too
    assert status_of(app, client="192.0.2.1", path="/v1/health")[0] == 200
    assert status_of(app, client="192.0.2.2")[0] == 200


def test_unknown_tokens_are_limited_by_network_without_affecting_others(monkeypatch):
    monkeypatch.setattr(cached_callers, "_FAILURES_PER_SECOND", 1e-6)
    tokens = FakeTokens({"*": "read"})
    app = guarded(tokens=tokens, cache_seconds=0.0)
    assert status_of(app, client="2001:db8::1", **bearer(tokens.secrets[0]))[0] == 200
    statuses = [status_of(app, client="2001:db8::1", **bearer(generate_secret()))[0] for _ in range(25)]
    assert statuses == [401] * 20 + [429] * 5
    assert tokens.n_lookups == 1 + 20  # the rejected ones are not looked up
    assert status_of(app, client="2001:db8::2", **bearer(generate_secret()))[0] == 429  # in the same network
    assert status_of(app, client="2001:db8:0:1::1", **bearer(generate_secret()))[0] == 401
    assert status_of(app, client="2001:db8::1", **bearer(tokens.secrets[0]))[0] == 200
    for path in ("/v1/health", "/"):
        assert status_of(app, client="2001:db8::1", path=path)[0] == 200


def test_no_body_is_read_before_authentication():
    async def receive():
        raise AssertionError("the body was read")

    async def send(message):
        statuses.append(message.get("status"))

    app, statuses = guarded(tokens=FakeTokens()), []
    for path in ("/v1/projects", "/v1/projects/digits/items", "/v1/projects/digits/comparisons", "/metrics"):
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
        }
        asyncio.run(app(scope | {"scheme": "http", "client": ("127.0.0.1", 1)}, receive, send))
    assert statuses == [401, None] * 4


def test_the_number_of_streams_of_one_token_is_limited():
    tokens = FakeTokens({"*": "read"}, {"*": "read"})
    stream = "GET /v1/projects/digits/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n".format
    app = guarded(tokens=tokens, max_streams_per_caller=1, max_streams=5, request_timeout=60.0)
    with serving(app, http=LimitedHttpProtocol) as port, Connection(port) as first:
        first.send(stream(tokens.secrets[0]))
        assert first.read_response()[0] == 200
        assert error_code(send_raw(port, stream(tokens.secrets[0]))) == "unavailable"
        assert send_raw(port, stream(tokens.secrets[1]))[0] == 200


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 3)), max_size=60), st.sampled_from([0.5, 1.0, 4.0]))
def test_no_key_exceeds_its_rate(requests, rate):
    """In any interval at most the burst and the refill are taken; after the announced wait a request succeeds."""
    limiter, now, taken = RateLimiter(rate, burst=3.0), 0.0, {}
    for key, pause in requests:
        now += pause
        assert (limiter.wait(key, now) == 0) == (
            limiter.take(key, now) == 0 and not taken.setdefault(key, []).append(now)
        )
    for times in taken.values():
        for first in range(len(times)):
            for last in range(first, len(times)):
                assert last - first + 1 <= 3.0 + rate * (times[last] - times[first]) + 1e-6
    for key in taken:
        assert limiter.take(key, now + limiter.wait(key, now) + 1e-9) == 0


def test_the_number_of_keys_is_limited():
    limiter = RateLimiter(1.0, burst=1.0, max_keys=2)
    assert [limiter.take(key, 0.0) for key in "abab"] == [0, 0, 1, 1]
    limiter.take("c", 0.0)
    assert [limiter.wait(key, 0.0) for key in "abc"] == [0, 1, 1]


def test_the_least_recently_used_key_is_evicted_first():
    limiter = RateLimiter(1.0, burst=2.0, max_keys=2)
    for key in "aba":
        assert limiter.take(key, 0.0) == 0
    limiter.take("c", 0.0)  # evicts b, which was used before the second use of a
    assert limiter.wait("a", 0.0) == 1
    assert [limiter.take("b", 0.0) for _ in range(3)] == [0, 0, 1]  # b starts with a full bucket and evicts a
    assert limiter.wait("c", 0.0) == 0


def test_a_known_key_evicts_no_other():
    limiter = RateLimiter(1.0, burst=2.0, max_keys=2)
    for key in "abbaab":
        limiter.take(key, 0.0)
    assert [limiter.wait(key, 0.0) for key in "ab"] == [1, 1]


def test_a_limited_caller_stays_limited_while_others_are_evicted(monkeypatch):
    monkeypatch.setattr(RateLimiter.__init__, "__defaults__", (3,))
    app = guarded(rate=1e-6, tokens=(tokens := FakeTokens({"*": "read"})))
    limited = bearer(tokens.secrets[0])
    assert status_of(app, client="192.0.2.1", **limited)[0] == 200
    for i in range(1, 3):  # fewer other callers than buckets: the limit holds
        status_of(app, client=f"198.51.100.{i}")
        assert status_of(app, client="192.0.2.1", **limited)[0] == 429
    for i in range(3, 6):
        status_of(app, client=f"198.51.100.{i}")
    assert status_of(app, client="192.0.2.1", **limited)[0] == 200  # its bucket was evicted


def caller(authenticate, **headers):
    return asyncio.run(authenticate(request_with(**headers)))


def request_with(**headers):
    return HTTPConnection({"type": "http", "headers": Headers(headers).raw})


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer x", "Basic YTpi", "{}", "Bearer {}x", "Bearer {} {}", f"Bearer {A_SECRET}"],
)
def test_a_missing_malformed_or_unknown_token_is_rejected(authorization):
    tokens = FakeTokens({"*": "read"})
    (secret,) = tokens.secrets
    headers = {} if authorization is None else {"authorization": authorization.format(secret, secret)}
    with pytest.raises(ApiError) as raised:
        caller(authenticator(tokens), **headers)
    assert raised.value.status == 401
    assert "Bearer" in raised.value.headers["WWW-Authenticate"]
    assert secret not in raised.value.message


def test_a_cached_token_is_looked_up_again_and_rejected_once_revoked():
    tokens = FakeTokens({"digits": "answer"})
    uncached, cached = authenticator(tokens, cache_seconds=0.0), authenticator(tokens, cache_seconds=60.0)
    for authenticate in (uncached, cached, cached):
        assert caller(authenticate, authorization=f"bearer {tokens.secrets[0]}") == Caller("t0", {"digits": "answer"})
    assert tokens.n_lookups == 2
    tokens.tokens[0].revoked_at = 1
    assert caller(cached, authorization=f"Bearer {tokens.secrets[0]}").name == "t0"
    for _ in range(2):
        with pytest.raises(ApiError, match="revoked"):
            caller(uncached, authorization=f"Bearer {tokens.secrets[0]}")


def test_the_number_of_cached_tokens_is_limited(monkeypatch):
    monkeypatch.setattr(cached_callers, "_MAX_CACHED", 2)
    tokens = FakeTokens(*[{"*": "read"}] * 3)
    authenticate = authenticator(tokens, cache_seconds=60.0)
    for i in (0, 1, 2, 2, 1, 0):  # the third evicts the first, which is then looked up again
        assert caller(authenticate, authorization=f"Bearer {tokens.secrets[i]}").name == f"t{i}"
    assert tokens.n_lookups == 4


def test_a_cached_token_is_accepted_for_a_while_when_the_database_is_down():
    tokens = FakeTokens({"digits": "answer"}, {"digits": "read"})
    known, unknown = ({"authorization": f"Bearer {secret}"} for secret in tokens.secrets)
    authenticate, strict = (
        authenticator(tokens, cache_seconds=0.0, max_stale_seconds=seconds) for seconds in (60.0, 0.0)
    )
    for each in (authenticate, strict):
        assert caller(each, **known).name == "t0"
    tokens.down = True
    for _ in range(2):
        assert caller(authenticate, **known).name == "t0"
    for each, headers in ((authenticate, unknown), (strict, known)):
        with pytest.raises(DatabaseDown):
            caller(each, **headers)
    tokens.down, tokens.tokens[0].revoked_at = False, 1
    with pytest.raises(ApiError, match="revoked"):
        caller(authenticate, **known)


def test_failing_look_ups_do_not_extend_the_time_of_a_cached_token(monkeypatch):
    """Each failed look-up postpones the next one, but the cached caller expires all the same."""
    clock = [0.0]
    monkeypatch.setattr(cached_callers, "monotonic", lambda: clock[0])
    tokens = FakeTokens({"digits": "answer"})
    headers = {"authorization": f"Bearer {tokens.secrets[0]}"}
    authenticate = authenticator(tokens, cache_seconds=2.0, max_stale_seconds=60.0)
    assert caller(authenticate, **headers).name == "t0"
    tokens.down, tokens.tokens[0].revoked_at = True, 1
    for clock[0] in (1.0, 3.0, 4.0, 30.0, 59.0):
        assert caller(authenticate, **headers).name == "t0"
    assert tokens.n_lookups == 1 + 3  # at 3, 30 and 59 seconds; the result of the last one is used for 2 seconds
    for clock[0] in (61.0, 62.0, 1000.0):
        with pytest.raises(DatabaseDown):
            caller(authenticate, **headers)
    tokens.down = False
    with pytest.raises(ApiError, match="revoked"):
        caller(authenticate, **headers)


def test_a_token_known_to_be_revoked_is_not_accepted_when_the_database_goes_down():
    tokens = FakeTokens({"digits": "answer"})
    headers = {"authorization": f"Bearer {tokens.secrets[0]}"}
    authenticate = authenticator(tokens, cache_seconds=0.0, max_stale_seconds=60.0)
    assert caller(authenticate, **headers).name == "t0"
    tokens.tokens[0].revoked_at = 1
    with pytest.raises(ApiError, match="revoked"):
        caller(authenticate, **headers)
    tokens.down = True
    for _ in range(3):
        with pytest.raises(DatabaseDown):
            caller(authenticate, **headers)


def test_a_slow_look_up_runs_once_at_a_time_and_does_not_delay_cached_callers():
    tokens, released = FakeTokens({"*": "read"}), threading.Event()
    find_token = tokens.find_token

    def slow_find_token(hash):
        token = find_token(hash)
        assert released.wait(20)
        return token

    async def call_often(authenticate, request):
        calls = [asyncio.create_task(authenticate(request)) for _ in range(10)]
        await asyncio.sleep(0.05)
        released.set()
        return {(await each).name for each in calls}

    async def call_meanwhile(authenticate, request):
        released.clear()
        try:
            return (await authenticate(request)).name  # before the look-up has ended
        finally:
            released.set()

    tokens.find_token = slow_find_token
    request = request_with(authorization=f"Bearer {tokens.secrets[0]}")
    authenticate = authenticator(tokens, cache_seconds=0.0, lookup_timeout=0.01)
    assert asyncio.run(call_often(authenticate, request)) == {"t0"}
    assert tokens.n_lookups == 1
    assert asyncio.run(call_meanwhile(authenticate, request)) == "t0"
    assert tokens.n_lookups == 2


def test_without_tokens_local_callers_are_admins_and_proxies_are_rejected():
    authenticate = authenticator()
    assert caller(authenticate).permission_on("any") == "admin"
    headers = ("forwarded", "via", "x-real-ip", *(f"x-forwarded-{what}" for what in ("for", "host", "proto", "server")))
    for name in headers:
        with pytest.raises(ApiError, match="--require-token"):
            caller(authenticate, **{name: "192.0.2.1"})


@given(st.dictionaries(st.sampled_from(["*", "a", "b"]), st.sampled_from(["read", "answer", "admin"])))
def test_the_highest_permission_applies(permissions):
    caller, order = Caller("x", permissions), [None, "read", "answer", "admin"]
    for project in "ab":
        expected = max(permissions.get("*"), permissions.get(project), key=order.index)
        assert caller.permission_on(project) == expected
        assert [caller.may(each, project) for each in order[1:]] == [
            order.index(expected) >= order.index(each) for each in order[1:]
        ]


def test_secrets_are_long_and_unique():
    secrets = {generate_secret() for _ in range(100)}
    assert len(secrets) == len({hash_secret(secret) for secret in secrets}) == 100
    assert {len(secret) for secret in secrets} == {50}
    assert json.dumps(sorted(secrets)).isascii()
