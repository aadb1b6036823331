"""The quick way of an answer does what the route does, to the last letter."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from serving import some_items

from ocelad.service.app import KNOWN, create_app
from ocelad.service.fast_path import Quick
from ocelad.service.security import Authentication
from ocelad.service.service import Service
from ocelad.service.settings import Settings
from ocelad.service.store import open_tokens


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = Service.open(Settings(folder=tmp_path_factory.mktemp("quick") / "data", require_token=True))
    try:
        service.create("some", "Some items", some_items())
        yield service
    finally:
        service.close()


@pytest.fixture(scope="module")
def ways(service):
    """The app with the quick way, and without it, both behind the doors; and tokens."""
    app = create_app(service)
    quick = app.build_middleware_stack()
    while not isinstance(quick, Quick):
        quick = getattr(quick, "app", None) or quick._app
    doors = {"authenticate": app.state.authenticate, "known": KNOWN}
    with open_tokens(service.settings.folder) as kept:
        tokens = {right: kept.create(right, {"some": right}) for right in ("read", "answer")}
    return (
        app,
        Authentication(quick, **doors),
        Authentication(quick._app, **doors),
        {**tokens, "none": None, "unknown": "ocelad_" + 43 * "x"},
    )


def answer(app, way, path, headers, parts, ends=True, query=""):
    """Status, headers and body; the client may go away before it has sent all."""
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": query.encode()}
    scope |= {"headers": raw, "root_path": "", "scheme": "http", "http_version": "1.1", "app": app}
    scope |= {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1), "asgi": {"version": "3.0", "spec_version": "2.3"}}
    waiting = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if ends:
        waiting[-1]["more_body"] = False
    else:
        waiting.append({"type": "http.disconnect"})
    sent = []

    async def receive():
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(way(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(message.get("body", b"") for message in sent[1:])


NUMBERS = itertools.count()
RIGHT = '{"left": "item 0", "right": "item 7", "answer": "same"}'
ids = st.sampled_from(["item 0", "item 1", "item 2", "?", "", 3, None, "\ud800", "x" * 201])
comparisons = st.fixed_dictionaries(
    {"left": ids, "right": ids, "answer": st.sampled_from(["same", "different", "skip", "undo", True])},
    optional={"asked": st.sampled_from(["active", "given", "?"]), "more": st.just(1)},
)
right = st.builds(
    lambda left, right, answer: {"left": f"item {left}", "right": f"item {right}", "answer": answer},
    st.integers(0, 5),
    st.integers(6, 11),
    st.sampled_from(["same", "different", "skip"]),
)
bodies = st.one_of(
    right.map(json.dumps),
    st.lists(right, min_size=1, max_size=3).map(lambda rows: json.dumps({"comparisons": rows})),
    comparisons.map(json.dumps),
    st.lists(comparisons, max_size=2).map(lambda rows: json.dumps({"comparisons": rows})),
    st.sampled_from(["", "{", "null", "[]", "NaN", '{"left": "item 0", "left": "item 1"}', "\xff", "[" * 5000]),
)


asked_for = given(
    body=bodies,
    holder=st.sampled_from(["answer", "answer", "answer", "read", "none", "unknown"]),
    project=st.sampled_from(["some", "some", "some", "other", "Some", "a b"]),
    kind=st.sampled_from(
        ["application/json", "application/json", "application/json; charset=utf-8", "text/plain", None]
    ),
    person=st.sampled_from([None, "", "anna", "a/b", " b ", "x" * 65, "\xff"]),
    key=st.sampled_from([None, "k", "k", "a b", "k" * 190, "k" * 300, ""]),
    cut=st.integers(0, 9),
    query=st.sampled_from(["", "", "", "x=1", "&"]),
)


def check(service, ways, body, holder, project, kind, person, key, cut, query):
    app, quick, route, tokens = ways
    data = body.encode("latin-1", "surrogatepass") if body == "\xff" else body.encode()
    headers = [("host", "localhost")]
    headers += [("authorization", f"Bearer {tokens[holder]}")] if tokens[holder] else []
    headers += [("content-type", kind)] if kind is not None else []
    headers += [("ocelad-person", person)] if person is not None else []
    path = f"/v1/projects/{project}/comparisons"

    def asked(way, name):
        with_key = headers if key is None else [*headers, ("idempotency-key", key.replace("k", name, 1))]
        return answer(app, way, path, with_key, [data[:cut], data[cut:]], query=query)

    one, other = (chr(letter) + format(next(NUMBERS), "x") for letter in b"ab")
    slow, fast = asked(route, one), asked(quick, other)
    assert fast[0] == slow[0]
    assert fast[1].keys() == slow[1].keys()
    if slow[0] >= 400:
        assert fast[2] == slow[2]
        return
    told, again = json.loads(slow[2]), json.loads(fast[2])
    assert (told["repeated"], again["repeated"]) == (False, False)
    assert again["first"] == told["last"] + 1
    kept, kept_again = (
        [(entry.kind, entry.left, entry.right, entry.asked, entry.who) for entry in entries(service, each)]
        for each in (told, again)
    )
    assert kept_again == kept
    if key is not None:  # each knows the other's keys
        assert json.loads(asked(quick, one)[2]) == {**told, "repeated": True}
        assert json.loads(asked(route, other)[2]) == {**again, "repeated": True}


@settings(max_examples=100)
@asked_for
@example(body=RIGHT, holder="answer", project="some", kind="application/json", person="anna", key="k", cut=3, query="")
@example(body=RIGHT, holder="read", project="some", kind="application/json", person="anna", key="k", cut=3, query="")
@example(body=RIGHT, holder="answer", project="other", kind="application/json", person="anna", key="k", cut=3, query="")
@example(body=RIGHT, holder="answer", project="some", kind="text/plain", person="anna", key="k", cut=3, query="")
@example(body=RIGHT, holder="answer", project="some", kind=None, person="anna", key="k", cut=3, query="")
@example(
    body=RIGHT, holder="answer", project="some", kind="application/json", person="anna", key="k", cut=3, query="x=1"
)
def test_both_ways_answer_alike(service, ways, **request):
    check(service, ways, **request)


@pytest.mark.slow
@settings(max_examples=1000)
@asked_for
def test_and_to_much_more(service, ways, **request):
    check(service, ways, **request)


@pytest.mark.parametrize("way", [1, 2])
def test_what_is_not_whole_is_not_kept(service, ways, way):
    """A client that goes away in the middle may have sent what could be read, if not what it meant."""
    headers = [("content-type", "application/json"), ("authorization", f"Bearer {ways[3]['answer']}")]
    last = service.project("some").seq
    status, _, _ = answer(ways[0], ways[way], "/v1/projects/some/comparisons", headers, [RIGHT.encode()], ends=False)
    assert status == 400
    assert service.store.entries("some", last, 1) == []


def entries(service, told):
    return service.store.entries("some", told["first"] - 1, told["last"] - told["first"] + 1)
