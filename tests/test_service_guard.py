"""What guards the service, before a small app that stands for the real one."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from urllib.request import urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_http import Connection, code_of, exchanged, serving
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from ocelad.service.refusal import Refusal
from ocelad.service.secret import hash_of, new_secret
from ocelad.service.security import Authentication, Authenticator, Caller, Guard, Limits, SlowHeaders, connections
from ocelad.service.security import authenticator as authenticating
from ocelad.service.security.guard import SECURITY_HEADERS
from ocelad.service.security.token_buckets import Rates

# What a secret looks like; made once, because tests have their names from it.
A_SECRET = "ocelad_" + "A" * 43
GET = "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n".format


def small_app():
    """Echoes what it is sent; begins an answer late, never, or with an error; sends more than anybody reads."""
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
        raise RuntimeError("of the app itself")

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


class StateReader:
    """A store of tokens, each known by its secret; it can be away."""

    def __init__(self, *rights):
        self.tokens = [SimpleNamespace(name=f"t{i}", rights=each, revoked_at=None) for i, each in enumerate(rights)]
        self.secrets = [new_secret() for _ in rights]
        self.asked, self.away = 0, False

    def find_token(self, hash):
        self.asked += 1
        if self.away:
            raise Away
        return next((token for token, s in zip(self.tokens, self.secrets, strict=True) if hash_of(s) == hash), None)


class Away(Exception):
    pass


def authenticator(kept=None, **settings):
    """Of these tokens; without any, one that asks for none."""
    return Authenticator(kept or StateReader(), kept is not None, unavailable=Away, **settings)


def guarded(
    app=None, *, allowed_hosts=(), kept=None, cache_for=2.0, rate=None, max_streams=2, streams_each=32, **limits
):
    doors = Authentication(
        Limits(app or small_app(), **LIMITS | limits),
        authenticate=authenticator(kept, cache_for=cache_for),
        known=[(Away, 503, "store_unavailable")],
        rate=rate,
        max_streams=max_streams,
        streams_each=streams_each,
    )
    return Guard(doors, allowed_hosts=allowed_hosts)


@pytest.fixture(scope="module")
def port():
    with serving(guarded(allowed_hosts=("127.0.0.1", "Labels.example.org")), http=SlowHeaders.within(0.4)) as port:
        yield port


def asked(app, **request):
    """The status and the headers of an answer."""
    return exchange(app, **request)[:2]


def exchange(app, *, method="GET", path="/echo", query=b"", client="127.0.0.1", scheme="http", **headers):
    """Status, headers and body of an answer, without a socket between; names of headers with _ for -."""
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
def test_only_requests_meant_for_this_service_are_let_in(port, host, status):
    answer = exchanged(port, f"GET /echo HTTP/1.1\r\nHost: {host}\r\n\r\n")
    assert answer[0] == status
    assert status == 200 or code_of(answer) == "wrong_host"


@pytest.mark.parametrize("hosts", ["", "Host: localhost\r\nHost: evil.example\r\n"])
def test_a_request_has_one_host(port, hosts):
    assert exchanged(port, f"GET /echo HTTP/1.1\r\n{hosts}\r\n")[0] == 400


def test_where_all_addresses_are_listened_to_any_in_numbers_is_accepted_and_no_name():
    app = guarded(allowed_hosts=("0.0.0.0",))
    assert asked(app, host="192.168.1.7:8765")[0] == 200
    assert asked(app, host="[2001:db8::7]")[0] == 200
    assert asked(app, host="evil.example")[0] == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://localhost"}, 200),
        ({"origin": "https://localhost"}, 200),  # by a proxy that speaks TLS
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
        ({"sec_fetch_site": "same-site"}, 403),  # another port of localhost is of the same site
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}, 403),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_pages_of_others_are_refused(method, headers, status):
    assert asked(guarded(), method=method, **headers)[0] == status


def test_a_link_to_the_page_may_be_followed_and_nothing_else():
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert asked(guarded(), path="/", **link)[0] == 200
    assert asked(guarded(), path="/", **link | {"sec_fetch_dest": "iframe"})[0] == 403
    assert asked(guarded(), path="/", **link | {"sec_fetch_mode": "no-cors"})[0] == 403
    assert asked(guarded(), path="/", method="POST", **link)[0] == 403


def test_a_page_by_http_is_none_of_a_service_by_https():
    assert asked(guarded(), scheme="https", origin="https://localhost")[0] == 200
    assert asked(guarded(), scheme="https", origin="http://localhost")[0] == 403


@pytest.mark.parametrize("query", ["token=x", "a=1&access_token=x", "token", f"x={A_SECRET}", f"x=%6f{A_SECRET[1:]}"])
def test_secrets_in_addresses_are_refused(query):
    assert asked(guarded(), query=query.encode())[0] == 400
    assert asked(guarded(), query=b"tokens=3&x=ocelad_2")[0] == 200


def test_every_answer_has_the_headers_and_only_the_page_may_be_kept(port):
    for path in ("/", "/echo", "/nothing", "/v1/nothing"):
        _, headers, _ = exchanged(port, GET(path))
        assert {(name.decode(), value.decode()) for name, value in SECURITY_HEADERS} <= set(headers.items())
        assert ("no-store" in headers.get("cache-control", "")) == (path != "/")


def test_websockets_are_refused():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(guarded()({"type": "websocket", "path": "/", "headers": []}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


POST = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n".format
CHUNKED = "POST {} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".format


@pytest.mark.parametrize(
    ("path", "most"), [("/echo", 1000), ("/v1/projects", 5000), ("/v1/projects/digits/items", 3000)]
)
def test_bodies_have_a_largest_size(port, path, most):
    assert exchanged(port, POST(path, most), b"x" * most)[2] == b"x" * most
    # Refused before any of it comes.
    assert code_of(exchanged(port, POST(path, most + 1))) == "too_large"
    assert code_of(exchanged(port, POST(path, 10**30)[:-2] + "\r\n")) in ("too_large", "bad_request")
    chunks = b"".join(b"64\r\n" + b"x" * 100 + b"\r\n" for _ in range(most // 100))
    assert exchanged(port, CHUNKED(path), chunks, b"0\r\n\r\n")[2] == b"x" * most
    assert code_of(exchanged(port, CHUNKED(path), chunks, b"1\r\nx\r\n")) == "too_large"


def test_a_body_that_comes_too_slowly_is_not_waited_for(port):
    with Connection(port) as connection:
        connection.send(POST("/echo", 100), b"x")
        assert code_of(connection.answer()) == "too_slow"
        assert connection.is_closed()


def test_a_body_that_comes_steadily_has_its_time():
    with serving(guarded(max_body=10**6), http=SlowHeaders) as port, Connection(port) as connection:
        connection.send(POST("/echo", 40_000))
        for _ in range(8):  # 0.8 seconds in all, with 0.4 for a body of nothing
            connection.send(b"x" * 5000)
            threading.Event().wait(0.1)
        assert connection.answer()[0] == 200


def test_what_the_app_makes_of_a_cut_body_is_not_sent(port):
    assert code_of(exchanged(port, POST("/fails", 100))) == "too_slow"
    assert code_of(exchanged(port, CHUNKED("/fails"), b"7d0\r\n" + b"x" * 2000 + b"\r\n")) == "too_large"


def test_errors_of_the_app_itself_are_left_to_it():
    with pytest.raises(RuntimeError, match="of the app itself"):
        asked(guarded(), path="/fails")


def test_an_answer_must_begin_in_time_and_may_take_longer(port):
    assert code_of(exchanged(port, GET("/late"))) == "timeout"
    with urlopen(f"http://127.0.0.1:{port}/long") as answer:
        assert answer.read() == b"..."


def test_making_a_project_may_take_longer():
    def at_first(app):
        async def slow(scope, receive, send):
            await asyncio.sleep(0.1)
            await app(scope, receive, send)

        return slow

    app = guarded(at_first(small_app()), request_timeout=0.02)
    assert asked(app, method="POST", path="/v1/projects")[0] == 200
    assert asked(app, method="POST", path="/v1/projects/digits/items")[0] == 503


@pytest.mark.parametrize(
    ("method", "headers", "advice"),
    [("GET", {}, "ask again"), ("POST", {"idempotency_key": "k"}, "the same Idempotency-Key"), ("POST", {}, "look")],
)
def test_what_took_too_long_may_be_sent_again_where_that_is_safe(method, headers, advice):
    async def never(scope, receive, send):
        await asyncio.sleep(30)

    status, _, body = exchange(guarded(never, request_timeout=0.01), method=method, **headers)
    assert status == 503
    assert advice in json.loads(body)["error"]["message"]


def test_there_are_only_so_many_streams():
    stream = GET("/v1/projects/digits/events")
    with serving(guarded(request_timeout=60.0), http=SlowHeaders) as port:
        with Connection(port) as first, Connection(port) as second:
            for connection in (first, second):
                connection.send(stream)
                assert connection.answer()[0] == 200
            assert code_of(exchanged(port, stream)) == "unavailable"
        # The places of those that went away are free again, as soon as that is noticed.
        assert any(exchanged(port, stream)[0] == 200 or threading.Event().wait(0.02) for _ in range(500))


def test_slow_headers_are_cut_off(port):
    with Connection(port) as connection:
        connection.send("GET /echo HTTP/1.1\r\nHost: loc")
        assert code_of(connection.answer()) == "too_slow"
        assert connection.is_closed()


@pytest.mark.parametrize("start", ["GET /echo HTTP/1.1\r\n", POST("/echo", 1000)])
def test_drops_of_headers_or_of_a_body_do_not_hold_a_connection(port, start):
    with Connection(port) as connection:
        connection.send(start)
        with pytest.raises(ConnectionError):
            drip(connection, "x: y\r\n")


def drip(connection, drop):
    for _ in range(100):
        connection.send(drop)
        threading.Event().wait(0.05)


@pytest.mark.parametrize(("before", "drops"), [("", ""), ("", "\r\n"), (GET("/echo"), "\r\n")])
def test_silence_does_not_hold_a_connection(port, before, drops):
    """Nor do empty lines between requests, which uvicorn takes for a sign of life."""
    with Connection(port) as connection:
        connection.send(before)
        assert not before or connection.answer()[0] == 200
        connection.send(drops)
        assert connection.is_closed()


def test_a_connection_is_kept_over_many_requests(port):
    with Connection(port) as connection:
        for _ in range(4):
            connection.send(GET("/echo")[:10])
            threading.Event().wait(0.15)  # longer than the limit in all, though no single request takes as long
            connection.send(GET("/echo")[10:])
            assert connection.answer()[0] == 200


def test_requests_one_behind_the_other_are_answered_in_order(port):
    with Connection(port) as connection:
        connection.send(POST("/echo", 1) + "a" + POST("/echo", 1) + "b", GET("/nothing"))
        assert [connection.answer()[::2] for _ in range(2)] == [(200, b"a"), (200, b"b")]
        assert connection.answer()[0] == 404


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
def test_what_is_no_request_is_refused_in_the_one_shape(port, request_):
    assert code_of(exchanged(port, request_)) == "bad_request"


def test_headers_have_a_largest_size(port):
    with Connection(port) as connection:
        connection.send("GET /echo HTTP/1.1\r\nHost: localhost\r\n", "x: " + 70_000 * "y")
        assert code_of(connection.answer()) == "headers_too_large"
        assert connection.is_closed()


def test_an_answer_that_nobody_reads_is_given_up():
    protocol = type("Impatient", (SlowHeaders,), {"write_timeout": 0.3})
    app = small_app()
    with serving(guarded(app), http=protocol) as port, Connection(port) as connection:
        connection.send(GET("/endless"))
        assert app.state.ends.wait(20)


def test_there_are_only_so_many_connections():
    protocol = type("Few", (SlowHeaders.within(60.0),), {"max_connections": 2})
    with serving(guarded(), http=protocol) as port, Connection(port) as first, Connection(port) as second:
        for connection in (first, second):
            connection.send(GET("/echo"))
            assert connection.answer()[0] == 200
        with Connection(port) as third:
            assert third.is_closed()


def test_one_address_has_only_so_many_connections(monkeypatch):
    monkeypatch.setattr(connections, "far_address", lambda scope: scope["client"][0])
    protocol = type("FewEach", (SlowHeaders.within(60.0),), {"connections_each": 1})
    with serving(guarded(), http=protocol) as port, Connection(port) as first:
        first.send(GET("/echo"))
        assert first.answer()[0] == 200
        with Connection(port) as second:
            assert second.is_closed()


def test_too_many_requests_of_an_address_have_to_wait_and_loopback_has_not():
    app = guarded(rate=1.0)
    assert [asked(app, client="192.0.2.1")[0] for _ in range(3)] == [200, 200, 429]
    status, headers = asked(app, client="192.0.2.1")
    assert status == 429
    assert headers["retry-after"] == "1"
    assert asked(app, client="192.0.2.2")[0] == 200
    assert {asked(app, client="127.0.0.1")[0] for _ in range(9)} == {200}


def bearer(secret):
    return {"authorization": f"Bearer {secret}", "path": "/v1/projects"}


def test_a_token_has_the_same_limit_wherever_it_is_used():
    kept = StateReader({"*": "read"})
    app = guarded(kept=kept, rate=1.0)
    clients = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "127.0.0.1"]  # behind a proxy all are of this machine
    assert [asked(app, client=client, **bearer(kept.secrets[0]))[0] for client in clients] == [200, 200, 429, 429]


def test_tokens_behind_one_address_do_not_count_together():
    kept = StateReader(*[{"*": "read"}] * 20)
    app = guarded(kept=kept, rate=1.0)
    assert {asked(app, client="192.0.2.1", **bearer(secret))[0] for secret in kept.secrets * 2} == {200}
    assert {asked(app, client="192.0.2.1", **bearer(secret))[0] for secret in kept.secrets} == {429}


def test_who_has_no_token_is_counted_by_address():
    app = guarded(kept=StateReader(), rate=1.0)
    assert [asked(app, client="192.0.2.1", path="/v1/projects")[0] for _ in range(3)] == [401, 401, 429]
    assert asked(app, client="192.0.2.1")[0] == 429  # the page, too
    assert asked(app, client="192.0.2.1", path="/v1/health")[0] == 200
    assert asked(app, client="192.0.2.2")[0] == 200


def test_addresses_that_keep_sending_unknown_tokens_have_to_wait_and_nobody_else_has(monkeypatch):
    monkeypatch.setattr(authenticating, "_FAILURES_PER_SECOND", 1e-6)
    kept = StateReader({"*": "read"})
    app = guarded(kept=kept, cache_for=0.0)
    assert asked(app, client="2001:db8::1", **bearer(kept.secrets[0]))[0] == 200
    statuses = [asked(app, client="2001:db8::1", **bearer(new_secret()))[0] for _ in range(25)]
    assert statuses == [401] * 20 + [429] * 5
    assert kept.asked == 1 + 20  # nothing is looked up for the others
    assert asked(app, client="2001:db8::2", **bearer(new_secret()))[0] == 429  # of the same network
    assert asked(app, client="2001:db8:0:1::1", **bearer(new_secret()))[0] == 401
    assert asked(app, client="2001:db8::1", **bearer(kept.secrets[0]))[0] == 200
    for path in ("/v1/health", "/"):
        assert asked(app, client="2001:db8::1", path=path)[0] == 200


def test_nothing_is_read_before_it_is_known_who_sends_it():
    async def receive():
        raise AssertionError("something was read")

    async def send(message):
        statuses.append(message.get("status"))

    app, statuses = guarded(kept=StateReader()), []
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


def test_one_token_has_only_so_many_streams():
    kept = StateReader({"*": "read"}, {"*": "read"})
    stream = "GET /v1/projects/digits/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n".format
    app = guarded(kept=kept, streams_each=1, max_streams=5, request_timeout=60.0)
    with serving(app, http=SlowHeaders) as port, Connection(port) as first:
        first.send(stream(kept.secrets[0]))
        assert first.answer()[0] == 200
        assert code_of(exchanged(port, stream(kept.secrets[0]))) == "unavailable"
        assert exchanged(port, stream(kept.secrets[1]))[0] == 200


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 3)), max_size=60), st.sampled_from([0.5, 1.0, 4.0]))
def test_no_key_takes_more_than_its_rate_allows(requests, rate):
    """In any interval: at most the burst, and what the bucket fills by; and who waits as told is let in."""
    rates, now, taken = Rates(rate, burst=3.0), 0.0, {}
    for key, pause in requests:
        now += pause
        assert (rates.wait(key, now) == 0) == (rates.take(key, now) == 0 and not taken.setdefault(key, []).append(now))
    for times in taken.values():
        for first in range(len(times)):
            for last in range(first, len(times)):
                assert last - first + 1 <= 3.0 + rate * (times[last] - times[first]) + 1e-6
    for key in taken:
        assert rates.take(key, now + rates.wait(key, now) + 1e-9) == 0


def test_few_keys_are_kept():
    rates = Rates(1.0, burst=1.0, most_keys=2)
    assert [rates.take(key, 0.0) for key in "abab"] == [0, 0, 1, 1]
    rates.take("c", 0.0)
    assert [rates.wait(key, 0.0) for key in "abc"] == [0, 1, 1]


def caller(authenticate, **headers):
    return asyncio.run(authenticate(request_with(**headers)))


def request_with(**headers):
    return HTTPConnection({"type": "http", "headers": Headers(headers).raw})


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer x", "Basic YTpi", "{}", "Bearer {}x", "Bearer {} {}", f"Bearer {A_SECRET}"],
)
def test_who_names_no_known_token_is_nobody(authorization):
    kept = StateReader({"*": "read"})
    (secret,) = kept.secrets
    headers = {} if authorization is None else {"authorization": authorization.format(secret, secret)}
    with pytest.raises(Refusal) as refused:
        caller(authenticator(kept), **headers)
    assert refused.value.status == 401
    assert "Bearer" in refused.value.headers["WWW-Authenticate"]
    assert secret not in refused.value.message


def test_a_token_is_looked_up_now_and_then_and_ends_when_it_is_revoked():
    kept = StateReader({"digits": "answer"})
    forgets, remembers = authenticator(kept, cache_for=0.0), authenticator(kept, cache_for=60.0)
    for authenticate in (forgets, remembers, remembers):
        assert caller(authenticate, authorization=f"bearer {kept.secrets[0]}") == Caller("t0", {"digits": "answer"})
    assert kept.asked == 2
    kept.tokens[0].revoked_at = 1
    assert caller(remembers, authorization=f"Bearer {kept.secrets[0]}").name == "t0"
    for _ in range(2):
        with pytest.raises(Refusal, match="revoked"):
            caller(forgets, authorization=f"Bearer {kept.secrets[0]}")


def test_who_was_known_is_believed_for_a_while_when_the_store_is_away():
    kept = StateReader({"digits": "answer"}, {"digits": "read"})
    known, unknown = ({"authorization": f"Bearer {secret}"} for secret in kept.secrets)
    authenticate, strict = (authenticator(kept, cache_for=0.0, believe_for=seconds) for seconds in (60.0, 0.0))
    for each in (authenticate, strict):
        assert caller(each, **known).name == "t0"
    kept.away = True
    for _ in range(2):
        assert caller(authenticate, **known).name == "t0"
    for each, headers in ((authenticate, unknown), (strict, known)):
        with pytest.raises(Away):
            caller(each, **headers)
    kept.away, kept.tokens[0].revoked_at = False, 1
    with pytest.raises(Refusal, match="revoked"):
        caller(authenticate, **known)


def test_a_store_that_does_not_answer_is_asked_once_at_a_time_and_holds_up_nobody_who_was_known():
    kept, answers = StateReader({"*": "read"}), threading.Event()
    found = kept.find_token

    def slowly(hash):
        token = found(hash)
        assert answers.wait(20)
        return token

    async def ask_often(authenticate, request):
        asking = [asyncio.create_task(authenticate(request)) for _ in range(10)]
        await asyncio.sleep(0.05)
        answers.set()
        return {(await each).name for each in asking}

    async def ask_meanwhile(authenticate, request):
        answers.clear()
        try:
            return (await authenticate(request)).name  # though the look-up has not ended
        finally:
            answers.set()

    kept.find_token = slowly
    request = request_with(authorization=f"Bearer {kept.secrets[0]}")
    authenticate = authenticator(kept, cache_for=0.0, patience=0.01)
    assert asyncio.run(ask_often(authenticate, request)) == {"t0"}
    assert kept.asked == 1
    assert asyncio.run(ask_meanwhile(authenticate, request)) == "t0"
    assert kept.asked == 2


def test_where_no_token_is_needed_everybody_on_this_machine_is_admin_but_nobody_behind_a_proxy():
    authenticate = authenticator()
    assert caller(authenticate).right("any") == "admin"
    marks = ("forwarded", "via", "x-real-ip", *(f"x-forwarded-{what}" for what in ("for", "host", "proto", "server")))
    for name in marks:
        with pytest.raises(Refusal, match="--require-token"):
            caller(authenticate, **{name: "192.0.2.1"})


@given(st.dictionaries(st.sampled_from(["*", "a", "b"]), st.sampled_from(["read", "answer", "admin"])))
def test_a_right_in_all_projects_is_one_in_each(rights):
    caller, order = Caller("x", rights), [None, "read", "answer", "admin"]
    for project in "ab":
        expected = max(rights.get("*"), rights.get(project), key=order.index)
        assert caller.right(project) == expected
        assert [caller.may(right, project) for right in order[1:]] == [
            order.index(expected) >= order.index(right) for right in order[1:]
        ]


def test_secrets_are_long_and_never_the_same():
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == len({hash_of(secret) for secret in secrets}) == 100
    assert {len(secret) for secret in secrets} == {50}
    assert json.dumps(sorted(secrets)).isascii()
