"""The fast path for answers and the route do the same, byte for byte."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from serving import some_items

from ocelad.service.app import ERRORS, create_app
from ocelad.service.fast_path import FastPath
from ocelad.service.security import Authentication
from ocelad.service.service import Service
from ocelad.service.settings import Settings
from ocelad.service.store import open_tokens


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service.open(Settings(folder=tmp_path_factory.mktemp("fast_path") / "data", require_token=True))
    try:
        service.create("some", "Some items", some_items())
        yield service
    finally:
        service.close()


@pytest.fixture(scope="module")
def apps(service):
    """The app, with the fast path and without it, both behind authentication; and tokens."""
    app = create_app(service)
    fast_path = app.build_middleware_stack()
    while not isinstance(fast_path, FastPath):
        fast_path = getattr(fast_path, "app", None) or fast_path._app
    options = {"authenticate": app.state.authenticate, "errors": ERRORS}
    with open_tokens(service.settings.folder) as store:
        tokens = {each: store.create(each, {"some": each}) for each in ("read", "answer")}
    return (
        app,
        Authentication(fast_path, **options),
        Authentication(fast_path._app, **options),
        {**tokens, "none": None, "unknown": "ocelad_" + 43 * "x"},
    )


def call(app, handler, path, headers, parts, complete=True, query=""):
    """Return status, headers and body; unless ``complete``, the client disconnects before the end of the body."""
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": query.encode()}
    scope |= {"headers": raw, "root_path": "", "scheme": "http", "http_version": "1.1", "app": app}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1), "asgi": {"version": "3.0", "spec_version": "2.3"}}
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if complete:
        messages[-1]["more_body"] = False
    else:
        messages.append({"type": "http.disconnect"})
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(handler(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(message.get("body", b"") for message in sent[1:])


NUMBERS = itertools.count()
VALID = '{"left": "item 0", "right": "item 7", "answer": "same"}'
ids = st.sampled_from(["item 0", "item 1", "item 2", "?", "", 3, None, "\ud800", "x" * 201])
comparisons = st.fixed_dictionaries(
    {"left": ids, "right": ids, "answer": st.sampled_from(["same", "different", "skip", "undo", True])},
    optional={
        "source": st.sampled_from(["active", "given", "?", "review"]),
        "ticket": st.sampled_from([None, "r" + 16 * "A", "\ud800", "x" * 101, 3]),
        "more": st.just(1),
    },
)
valid_comparisons = st.builds(
    lambda left, right, answer: {"left": f"item {left}", "right": f"item {right}", "answer": answer},
    st.integers(0, 5),
    st.integers(6, 11),
    st.sampled_from(["same", "different", "skip"]),
)
bodies = st.one_of(
    valid_comparisons.map(json.dumps),
    st.lists(valid_comparisons, min_size=1, max_size=3).map(lambda rows: json.dumps({"comparisons": rows})),
    comparisons.map(json.dumps),
    st.lists(comparisons, max_size=2).map(lambda rows: json.dumps({"comparisons": rows})),
    st.sampled_from(["", "{", "null", "[]", "NaN", '{"left": "item 0", "left": "item 1"}', "\xff", "[" * 5000]),
)


any_request = given(
    body=bodies,
    holder=st.sampled_from(["answer", "answer", "answer", "read", "none", "unknown"]),
    project=st.sampled_from(["some", "some", "some", "other", "Some", "a b"]),
    kind=st.sampled_from(
        ["application/json", "application/json", "application/json; charset=utf-8", "text/plain", None]
    ),
    person=st.sampled_from([None, "", "anna", "a/b", " b ", "x" * 65, "\xff", "Zo%C3%AB", "%ff", "%", "%E2%80%8B"]),
    key=st.sampled_from([None, "k", "k", "a b", "k" * 190, "k" * 300, ""]),
    cut=st.integers(0, 9),
    query=st.sampled_from(["", "", "", "x=1", "&"]),
)


def check(service, apps, body, holder, project, kind, person, key, cut, query):
    app, fast_path, route, tokens = apps
    data = body.encode("latin-1", "surrogatepass") if body == "\xff" else body.encode()
    headers = [("host", "localhost")]
    headers += [("authorization", f"Bearer {tokens[holder]}")] if tokens[holder] else []
    headers += [("content-type", kind)] if kind is not None else []
    headers += [("ocelad-person", person)] if person is not None else []
    path = f"/v1/projects/{project}/comparisons"

    def submit(handler, name):
        with_key = headers if key is None else [*headers, ("idempotency-key", key.replace("k", name, 1))]
        return call(app, handler, path, with_key, [data[:cut], data[cut:]], query=query)

    one, other = (chr(letter) + format(next(NUMBERS), "x") for letter in b"ab")
    slow, fast = submit(route, one), submit(fast_path, other)
    assert fast[0] == slow[0]
    assert fast[1].keys() == slow[1].keys()
    if slow[0] >= 400:
        assert fast[2] == slow[2]
        return
    first, second = json.loads(slow[2]), json.loads(fast[2])
    assert (first["repeated"], second["repeated"]) == (False, False)
    assert second["first"] == first["last"] + 1
    by_route, by_fast_path = (
        [(entry.kind, entry.left, entry.right, entry.source, entry.person) for entry in entries(service, each)]
        for each in (first, second)
    )
    assert by_fast_path == by_route
    if key is not None:  # each recognizes the keys of the other
        assert json.loads(submit(fast_path, one)[2]) == {**first, "repeated": True}
        assert json.loads(submit(route, other)[2]) == {**second, "repeated": True}


@settings(max_examples=100)
@any_request
@example(body=VALID, holder="answer", project="some", kind="application/json", person="anna", key="k", cut=3, query="")
@example(body=VALID, holder="read", project="some", kind="application/json", person="anna", key="k", cut=3, query="")
@example(body=VALID, holder="answer", project="other", kind="application/json", person="anna", key="k", cut=3, query="")
@example(body=VALID, holder="answer", project="some", kind="text/plain", person="anna", key="k", cut=3, query="")
@example(body=VALID, holder="answer", project="some", kind=None, person="anna", key="k", cut=3, query="")
@example(
    body=VALID, holder="answer", project="some", kind="application/json", person="anna", key="k", cut=3, query="x=1"
)
def test_fast_path_and_route_agree(service, apps, **request):
    check(service, apps, **request)


@pytest.mark.slow
@settings(max_examples=1000)
@any_request
def test_fast_path_and_route_agree_on_many_requests(service, apps, **request):
    check(service, apps, **request)


@pytest.mark.parametrize("handler", [1, 2])
def test_an_incomplete_body_is_not_stored(service, apps, handler):
    """The part that arrived before a disconnect may be valid JSON, but not what the client meant."""
    headers = [("content-type", "application/json"), ("authorization", f"Bearer {apps[3]['answer']}")]
    last = service.project("some").seq
    status, _, _ = call(
        apps[0], apps[handler], "/v1/projects/some/comparisons", headers, [VALID.encode()], complete=False
    )
    assert status == 400
    assert service.store.entries("some", last, 1) == []


@pytest.mark.parametrize(
    ("person", "stored"),
    [
        ("anna", "answer/anna"),
        (" anna ", "answer/anna"),
        ("%D7%93%D7%A0%D7%94 O'Neil", "answer/דנה O'Neil"),
        ("Zoe%CC%88", "answer/Zoë"),
        ("", "answer"),
        (None, "answer"),
    ],
)
def test_both_store_the_same_person_and_keep_the_keys_of_people_apart(service, apps, person, stored):
    app, fast_path, route, tokens = apps
    base = [("content-type", "application/json"), ("authorization", f"Bearer {tokens['answer']}")]
    key = ("idempotency-key", f"shared{next(NUMBERS)}")

    def submit(handler, name):
        headers = [*base, key] + ([] if name is None else [("ocelad-person", name)])
        status, _, body = call(app, handler, "/v1/projects/some/comparisons", headers, [VALID.encode()])
        return status, json.loads(body)

    status, acknowledgement = submit(fast_path, person)
    assert status == 201
    assert [entry.person for entry in entries(service, acknowledgement)] == [stored]
    assert submit(route, person) == (200, {**acknowledgement, "repeated": True})
    status, of_another = submit(fast_path, "ben")
    assert (status, of_another["first"]) == (201, acknowledgement["first"] + 1)
    assert submit(route, "ben") == (200, {**of_another, "repeated": True})


def test_valid_requests_do_not_reach_the_route(service, apps, monkeypatch):
    """Or the fast path could silently fall back to the route for every request."""
    app, fast_path, _, tokens = apps
    middleware = fast_path._app
    monkeypatch.setattr(middleware, "_app", None)
    headers = [("content-type", "application/json"), ("authorization", f"Bearer {tokens['answer']}")]
    status, _, _ = call(app, fast_path, "/v1/projects/some/comparisons", headers, [VALID.encode()])
    assert status == 201


def entries(service, acknowledgement):
    first, last = acknowledgement["first"], acknowledgement["last"]
    return service.store.entries("some", first - 1, last - first + 1)
