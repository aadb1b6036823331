"""Groups in the service: the graph of a log, the HTTP API, and the answers that merge and split groups."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import Server, served, some_items
from test_service_learning import (
    ADAPTIVE,
    Entry,
    active_answers,
    answer,
    kernels,  # noqa: F401  a fixture
    random_items,
    random_log,
    running_learner,
    undo,
    wait_for,
)

from ocelad import MetricTracker, track_adaptive
from ocelad.adaptive.curved_tracker import CurvedTracker
from ocelad.comparison_graph import ComparisonGraph
from ocelad.implied_answers import Answer, ImpliedAnswers, TableItems
from ocelad.service.learning import check_settings
from ocelad.service.learning.groups import Group, Groups
from ocelad.service.service import Service
from ocelad.service.settings import Settings
from ocelad.service.store import Store

TRANSITIVE = {**ADAPTIVE, "transitive": True}


# Learning.


def name(seq, item, text):
    return Entry(seq, 1000 + seq, "name", item, item, "given", "anna", name=text)


@st.composite
def logs(draw, n_items):
    log = []
    for seq in range(1, draw(st.integers(1, 40)) + 1):
        kind = draw(st.sampled_from(["same", "same", "same", "different", "different", "skip", "name", "undo"]))
        standing = [each for each in log if each.kind != "undo" and each.seq not in {other.undoes for other in log}]
        if kind == "undo" and standing:
            log.append(undo(seq, draw(st.sampled_from(standing))))
        elif kind == "name":
            log.append(name(seq, draw(st.integers(0, n_items - 1)), draw(st.sampled_from("xyz"))))
        else:
            left, right = draw(st.lists(st.integers(0, n_items - 1), min_size=2, max_size=2, unique=True))
            log.append(answer(seq, left, right, "skip" if kind == "undo" else kind))
    return log


def graph_of(log):
    """By definition: the graph of the answers that no entry undoes, and the names by item, the earliest first."""
    undone = {entry.undoes for entry in log}
    graph, names = ComparisonGraph(), {}
    for entry in log:
        if entry.seq in undone:
            continue
        if entry.kind in ("same", "different"):
            graph.add(entry.left, entry.right, entry.kind == "same")
        elif entry.kind == "name":
            names = {item: text for item, text in names.items() if item != entry.left} | {entry.left: entry.name}
    return graph, names


def described(graph):
    arrays, metadata = graph.state()
    return {key: value.tolist() for key, value in arrays.items()}, metadata, graph.groups(), graph.n_implied


@given(data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_view_has_the_groups_of_its_log_however_entries_arrive(data):
    items, log, durable, views = random_items(7, 3), data.draw(logs(7)), [], []
    with TemporaryDirectory() as folder:
        while len(durable) < len(log):
            with running_learner(durable, items, TRANSITIVE, Path(folder) / "snapshot", views.append) as learner:
                views.append(learner.view)
                for _ in range(data.draw(st.integers(1, 3), label="calls until a restart")):
                    more = log[len(durable) : len(durable) + data.draw(st.integers(1, 12))]
                    durable.extend(more)
                    learner.add_entries(more)
                    if data.draw(st.booleans(), label="wait"):
                        wait_for(learner, len(durable))
                wait_for(learner, len(durable))
    assert views[-1].seq == len(log)
    for view in views:  # also the earlier ones: no view has changed since it was published
        graph, names = graph_of(log[: view.seq])
        assert described(view.graph) == described(graph)
        assert list(view.groups._names.items()) == list(names.items())


@pytest.mark.parametrize("curved", [False, True])
def test_a_long_log_gives_the_same_bits_as_implied_answers_one_by_one(tmp_path, kernels, curved):  # noqa: F811
    items = random_items(20, 4)
    log = random_log(260, 20, seed=3, undos=0.05)
    log += [undo(261, next(entry for entry in log[30:] if entry.kind == "same"))]  # deep: before all checkpoints
    tracker_settings = {**ADAPTIVE, "curved": curved, "transitive": True, "known_items": 20}
    durable = []
    for cut in (40, 150, 151, 260, 261):
        with running_learner(durable, items, tracker_settings, tmp_path / "snapshot") as learner:
            durable.extend(log[len(durable) : cut])
            learner.add_entries(durable[-1:])
            view = wait_for(learner, cut)
        standing = active_answers(durable)
        tracker = (CurvedTracker(4, items=items.points) if curved else track_adaptive(4)).with_groups()
        implied, table = ImpliedAnswers(), TableItems(items.points)
        for entry in standing:
            implied.learn(tracker, Answer(entry.left, entry.right, 1.0 if entry.kind == "same" else -1.0), table)
        implied.update(tracker, table)
        assert view.metric == tracker.play()
        assert described(view.graph) == described(implied.graph)
        assert view.n_answers == len(standing)
    if curved:  # which knows the items as MetricTracker does
        pairs, y = [(entry.left, entry.right) for entry in standing], [entry.kind == "same" for entry in standing]
        assert view.metric == MetricTracker(curved=True, preprocessor=items.points).fit(pairs, y).metric_


def test_learning_before_kernels_are_ready_ends_with_the_same_bits(tmp_path, kernels):  # noqa: F811
    items, log, path = random_items(20, 4), random_log(140, 20, seed=5), tmp_path / "snapshot"
    tracker_settings = {**ADAPTIVE, "curved": True, "transitive": True, "known_items": 20}
    with running_learner(log, items, tracker_settings) as learner:
        expected = wait_for(learner, 140)
    kernels["ready"] = False
    with running_learner(log, items, tracker_settings, path) as learner:
        wait_for(learner, 140)  # it does not wait for compiled code
    assert not path.exists()
    with running_learner(log[:130], items, tracker_settings, path) as learner:
        wait_for(learner, 130)
        kernels["ready"] = True
        learner.add_entries(log[130:])
        view = wait_for(learner, 140)
    assert view.metric == expected.metric
    np.testing.assert_array_equal(view.timeline.table, expected.timeline.table)
    assert described(view.graph) == described(expected.graph)
    assert path.exists()


def test_items_that_are_added_later_do_not_change_what_was_learned():
    few, many, log = random_items(20, 4), random_items(300, 4), random_log(120, 20, seed=4)
    many = replace(many, ids=few.ids + many.ids[20:], features=np.concatenate([few.features, many.features[20:]]))
    metrics = []
    for items in (few, many):
        with running_learner(log, items, {**ADAPTIVE, "transitive": True, "known_items": 20}) as learner:
            metrics.append(wait_for(learner, len(log)).metric)
    assert metrics[0] == metrics[1]


def test_projects_of_earlier_versions_have_no_groups():
    log = [answer(1, 0, 1), name(2, 0, "x"), answer(3, 1, 2)]
    with running_learner(log, random_items(4, 3), ADAPTIVE) as learner:
        view = wait_for(learner, 3)
    assert view.graph is None
    assert view.groups is None
    assert view.n_answers == 2


def test_a_group_has_the_last_name_of_its_items():
    graph = ComparisonGraph()
    for left, right, same in [(3, 1, True), (1, 5, True), (2, 4, True), (2, 3, False)]:
        graph.add(left, right, same)
    groups = Groups(graph.state(), {1: "first", 2: "others", 5: "last", 7: "alone"})
    assert groups.all == [Group([3, 1, 5], "last"), Group([2, 4], "others")]
    assert groups.of_item(5) == groups.all[0]
    assert groups.of_item(7) == Group([7], "alone")
    assert groups.of_item(0) == Group([0], None)
    found = list(groups.entities(8))
    assert found == [
        (0, None),
        (3, "last"),
        (2, "others"),
        (3, "last"),
        (2, "others"),
        (3, "last"),
        (6, None),
        (7, "alone"),
    ]


def test_settings_are_transitive_unless_refused():
    assert check_settings(4, {})["transitive"] is True
    assert check_settings(4, {"transitive": False})["transitive"] is False
    for wrong in ("no", 1, None):
        with pytest.raises(ValueError, match=r"^transitive is .*; accepted: true or false$"):
            check_settings(4, {"transitive": wrong})


# The HTTP API.


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served") / "data") as (client, service):
        yield client, service


class Project:
    """A client of one project: every test has its own project on a shared server."""

    def __init__(self, http, service, name):
        self.http, self.path, self.name, self.service = http, f"/v1/projects/{name}", name, service
        self.project = service.project(name)

    def get(self, part="", **params):
        assert self.project.learner.wait(self.project.seq, 20)
        return self.http.get(f"{self.path}{part}", params=params)

    def post(self, part, body, **headers):
        return self.http.post(f"{self.path}{part}", json=body, headers=headers)

    def answers(self, *pairs):
        """Answer pairs of numbers of items: same if the third is true."""
        new = [
            {"left": f"item {left}", "right": f"item {right}", "answer": "same" if same else "different"}
            for left, right, same in pairs
        ]
        response = self.post("/comparisons", {"comparisons": new})
        assert response.status_code == 201, response.text

    def groups(self):
        """Return the groups as lists of the numbers of their items."""
        listed = self.get("/groups").json()["groups"]
        found = [self.get("/groups/items", item=group["id"]).json()["items"] for group in listed]
        return [[int(item["id"].removeprefix("item ")) for item in items] for items in found]

    def names(self):
        return {group["id"]: group["name"] for group in self.get("/groups").json()["groups"] if group["name"]}


@pytest.fixture
def project(server):
    http, service = server
    name = f"project-{len(list(service))}"
    service.create(name, "Some items", some_items())
    return Project(http, service, name)


def test_answers_make_groups_and_imply_comparisons(project):
    assert project.get("/groups").json() == {
        "seq": 0,
        "n_answers": 0,
        "n_implied": 0,
        "n_groups": 0,
        "n_contradictions": 0,
        "groups": [],
        "next": None,
    }
    project.answers((0, 1, True), (1, 2, True), (3, 4, True), (2, 3, False), (5, 0, False))
    page = project.get("/groups", limit=2).json()
    # Within groups 3 + 1 pairs, between them 6, and item 5 with 3 items.
    assert [page[name] for name in ("seq", "n_answers", "n_implied", "n_groups", "n_contradictions")] == [
        5,
        5,
        13,
        3,
        0,
    ]
    assert [(group["id"], group["name"], group["size"]) for group in page["groups"]] == [
        ("item 0", None, 3),
        ("item 3", None, 2),
    ]
    assert [item["id"] for item in page["groups"][0]["items"]] == ["item 0", "item 1", "item 2"]
    assert page["next"] == 2
    last = project.get("/groups", after=2, limit=2).json()
    assert ([group["id"] for group in last["groups"]], last["next"]) == (["item 5"], None)

    members = project.get("/groups/items", item="item 2", limit=2).json()
    assert (members["group"]["size"], members["next"]) == (3, 2)
    members = project.get("/groups/items", item="item 2", after=2, limit=2).json()
    assert ([item["id"] for item in members["items"]], members["next"]) == (["item 2"], None)
    alone = project.get("/groups/items", item="item 9").json()  # an item without answers
    assert (alone["group"]["id"], [item["id"] for item in alone["items"]]) == ("item 9", ["item 9"])

    info = project.get().json()
    assert [info[name] for name in ("transitive", "n_answers", "n_implied", "n_groups", "n_contradictions")] == [
        *[True, 5, 13, 3, 0]
    ]


def test_merge_split_and_name_are_undone_as_a_whole(project):
    project.answers((0, 1, True), (1, 2, True), (3, 4, True), (2, 3, False))
    anna = {"Ocelad-Person": "anna"}
    merged = project.post("/groups/merge", {"left": "item 0", "right": "item 4"}, **anna)
    # Two votes more than the one against it.
    assert (merged.status_code, merged.json()) == (201, {"first": 5, "last": 7, "repeated": False})
    assert project.groups() == [[0, 1, 2, 3, 4]]
    split = project.post("/groups/split", {"items": ["item 0", "item 3"]}, **anna).json()
    assert project.groups() == [[1, 2, 4], [0, 3]]
    assert project.project.view.graph.implied(1, 0) == -1
    named = project.post("/groups/name", {"item": "item 3", "name": " odd ones "}, **anna).json()
    assert project.names() == {"item 0": "odd ones"}
    assert named["first"] == named["last"] == split["last"] + 1

    entries = project.get("/history").json()["entries"]
    assert [entry["bundle"] for entry in entries] == (
        [None] * 4 + [5] * 3 + [split["first"]] * (split["last"] - split["first"] + 1) + [None]
    )
    assert {entry["kind"] for entry in entries[4:7]} == {"same"}
    last = entries[-1]
    assert (last["kind"], last["left"], last["right"], last["name"]) == ("name", "item 3", "item 3", "odd ones")

    undone = project.post("/undo", {}, **anna).json()
    assert (undone["entry"]["seq"], undone["n_undone"]) == (named["first"], 1)
    assert (project.names(), project.groups()) == ({}, [[1, 2, 4], [0, 3]])
    undone = project.post("/undo", {}, **anna).json()
    assert (undone["entry"]["seq"], undone["n_undone"]) == (split["last"], split["last"] - split["first"] + 1)
    assert project.groups() == [[0, 1, 2, 3, 4]]
    undone = project.post("/undo", {"seq": 6}).json()  # any entry of the bundle
    assert (undone["entry"]["seq"], undone["n_undone"]) == (7, 3)
    assert project.groups() == [[0, 1, 2], [3, 4]]
    again = project.post("/undo", {"seq": 5})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "already_undone")
    assert project.post("/undo", {}, **anna).json()["error"]["code"] == "nothing_to_undo"
    assert all(entry["undone"] for entry in project.get("/history").json()["entries"][4 : named["last"]])


def test_names_follow_their_items(project):
    project.answers((0, 1, True), (2, 3, True))
    project.post("/groups/name", {"item": "item 1", "name": "left"})
    project.post("/groups/name", {"item": "item 3", "name": "right"})
    assert project.names() == {"item 0": "left", "item 2": "right"}
    project.post("/groups/merge", {"left": "item 0", "right": "item 2"})
    assert project.names() == {"item 0": "right"}  # the last one
    project.post("/groups/split", {"items": ["item 2", "item 3"]})
    assert project.names() == {"item 0": "left", "item 2": "right"}
    project.post("/groups/name", {"item": "item 9", "name": "Größe 📏"})  # an item without answers
    alone = project.get("/groups/items", item="item 9").json()["group"]
    assert (alone["name"], alone["size"]) == ("Größe 📏", 1)


def test_a_repeated_request_takes_effect_once(project):
    project.answers((0, 1, True), (2, 3, True))
    for part, body in (
        ("/groups/merge", {"left": "item 0", "right": "item 2"}),
        ("/groups/split", {"items": ["item 0"]}),
        ("/groups/name", {"item": "item 0", "name": "one"}),
    ):
        first = project.post(part, body, **{"Idempotency-Key": part})
        assert first.status_code == 201, first.text
        seq = project.get().json()["seq"]
        # The groups have changed by now, so that the same request would need other answers or none.
        again = project.post(part, body, **{"Idempotency-Key": part})
        assert (again.status_code, again.json()) == (200, {**first.json(), "repeated": True})
        other = project.post("/groups/merge", {"left": "item 7", "right": "item 8"}, **{"Idempotency-Key": part})
        assert (other.status_code, other.json()["error"]["code"]) == (409, "key_conflict")
        assert project.get().json()["seq"] == seq


def test_contradictions_are_listed_and_asked_about(project):
    project.answers((0, 1, True), (1, 2, True), (0, 1, True), (1, 2, True), (0, 2, False))
    project.answers((3, 4, True), (3, 4, True), (0, 3, False), (1, 3, False), (2, 4, True))
    page = project.get("/contradictions", limit=1).json()
    assert page["next"] == 1
    page["contradictions"] += project.get("/contradictions", after=1).json()["contradictions"]
    found = [(each["left"]["id"], each["right"]["id"], each["votes"]) for each in page["contradictions"]]
    assert found == [("item 0", "item 2", -1.0), ("item 2", "item 4", 1.0)]
    assert project.get().json()["n_contradictions"] == 2
    for left, right, votes in found:
        pair = project.get("/pair", left=left, right=right).json()
        assert (pair["left"]["id"], pair["right"]["id"], pair["source"]) == (left, right, "given")
        assert pair["reason"].startswith("Answers contradict each other: most say that these two are ")
        assert ("different, but" in pair["reason"]) == (votes < 0)
        assert pair["distance"] > 0
        assert pair["differences"]
    assert project.get("/pair", left="item 7", right="item 8").json()["reason"] == "Asked on request."
    project.answers((2, 0, True), (4, 2, False))
    assert project.get("/contradictions").json()["contradictions"] == []


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet"])
def test_groups_are_exported_with_all_items(project, format):
    project.answers((0, 1, True), (1, 2, True), (3, 4, True))
    project.post("/groups/name", {"item": "item 1", "name": 'a "big", one'})
    response = project.get("/export", content="groups", format=format)
    assert response.headers["content-disposition"] == f'attachment; filename="{project.name}-groups.{format}"'
    if format == "csv":
        assert response.text.splitlines()[0] == "id,group,name"
        rows = [{**row, "name": row["name"] or None} for row in csv.DictReader(io.StringIO(response.text))]
    elif format == "jsonl":
        rows = [json.loads(line) for line in response.text.splitlines()]
    else:
        rows = pq.read_table(io.BytesIO(response.content)).to_pylist()
    named, others = {0: 0, 1: 0, 2: 0}, {3: 3, 4: 3}
    assert rows == [
        {
            "id": f"item {i}",
            "group": f"item {({**named, **others}).get(i, i)}",
            "name": 'a "big", one' if i in named else None,
        }
        for i in range(12)
    ]


@pytest.mark.parametrize("content", ["comparisons", "log", "items"])
def test_other_contents_are_exported_as_csv(project, content):
    project.answers((0, 1, True), (1, 2, False))
    project.post("/groups/name", {"item": "item 1", "name": "one"})
    rows = list(csv.DictReader(io.StringIO(project.get("/export", content=content, format="csv").text)))
    assert len(rows) == {"comparisons": 2, "log": 3, "items": 12}[content]
    if content == "log":
        assert [(row["similar"], row["name"]) for row in rows] == [("same", ""), ("different", ""), ("name", "one")]


BAD = [
    ("merge", {"left": "item 0", "right": "item 99"}, 404, "unknown_item", "there is no item 'item 99' in"),
    ("merge", {"left": "item 0", "right": "item 0"}, 422, "invalid", "'item 0' is merged with itself; accepted: two"),
    (
        "merge",
        {"left": "item 0", "right": "item 2"},
        409,
        "same_group",
        "'item 0' and 'item 2' are in one group already",
    ),
    ("merge", {"left": "item 0"}, 422, "invalid", "body.right: field required"),
    ("merge", {"left": "item 0", "right": 3}, 422, "invalid", "body.right: input should be a valid string"),
    ("split", {"items": []}, 422, "invalid", "body.items: list should have at least 1 item"),
    ("split", {"items": ["item 0", "item 99"]}, 404, "unknown_item", "there is no item 'item 99' in"),
    (
        "split",
        {"items": ["item 0", "item 1", "item 2"]},
        409,
        "whole_group",
        "these items are a whole group; accepted:",
    ),
    ("split", {"items": ["item 0", "item 1", "item 2", "item 2", "item 0"]}, 409, "whole_group", "these items are a "),
    ("split", {"items": ["item 9"]}, 409, "whole_group", "these items are a whole group; accepted: items that leave"),
    (
        "split",
        {"items": ["item 0", "item 3"]},
        409,
        "different_groups",
        "'item 0' and 'item 3' are in different groups",
    ),
    ("split", {"items": "item 0"}, 422, "invalid", "body.items: input should be a valid list"),
    ("name", {"item": "item 99", "name": "x"}, 404, "unknown_item", "there is no item 'item 99' in"),
    ("name", {"item": "item 0", "name": ""}, 422, "invalid", "body.name: the name is empty or contains control"),
    (
        "name",
        {"item": "item 0", "name": " \u00a0 "},
        422,
        "invalid",
        "body.name: the name is empty or contains control",
    ),
    ("name", {"item": "item 0", "name": "a\nb"}, 422, "invalid", "body.name: the name is empty or contains control"),
    ("name", {"item": "item 0", "name": "a\x00b"}, 422, "invalid", "body.name: the name is empty or contains control"),
    (
        "name",
        {"item": "item 0", "name": "a\u2028b"},
        422,
        "invalid",
        "body.name: the name is empty or contains control",
    ),
    ("name", {"item": "item 0", "name": "x" * 101}, 422, "invalid", "body.name: string should have at most 100"),
    ("name", {"item": "item 0", "name": 7}, 422, "invalid", "body.name: input should be a valid string"),
    ("name", {"item": "item 0", "name": None}, 422, "invalid", "body.name: input should be a valid string"),
]


@pytest.mark.parametrize(("part", "body", "status", "code", "message"), BAD)
def test_bad_input_is_refused_in_one_sentence_and_changes_nothing(project, part, body, status, code, message):
    project.answers((0, 1, True), (1, 2, True), (3, 4, True))
    response = project.post(f"/groups/{part}", body)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code), error
    assert error["message"].startswith(message), error
    assert "\n" not in error["message"]
    assert project.get().json()["seq"] == 3
    assert project.groups() == [[0, 1, 2], [3, 4]]


def test_projects_without_groups_say_so(server):
    http, service = server
    table = "id,x\n" + "\n".join(f"{i},{i * i % 7}" for i in range(9))
    created = http.post("/v1/projects", params={"id": "plain", "format": "csv", "transitive": "false"}, content=table)
    assert (created.status_code, created.json()["transitive"]) == (201, False)
    plain = Project(http, service, "plain")
    assert plain.post("/comparisons", {"left": "0", "right": "1", "answer": "same"}).status_code == 201
    answers = [
        plain.get("/groups"),
        plain.get("/groups/items", item="0"),
        plain.get("/contradictions"),
        plain.get("/export", content="groups", format="csv"),
        plain.post("/groups/merge", {"left": "1", "right": "2"}),
        plain.post("/groups/split", {"items": ["1"]}),
        plain.post("/groups/name", {"item": "1", "name": "one"}),
    ]
    reason = "'plain' has no groups, because it was created with transitive=false or by an earlier version"
    assert {(each.status_code, each.json()["error"]["code"], each.json()["error"]["message"]) for each in answers} == {
        (409, "no_groups", reason)
    }
    info = plain.get().json()
    assert [info[name] for name in ("seq", "n_answers", "n_implied", "n_groups")] == [1, 1, None, None]
    assert plain.get("/pair", left="0", right="1").json()["reason"] == "Asked on request."


def test_a_merge_waits_for_earlier_answers_but_not_for_ever(project, monkeypatch):
    monkeypatch.setattr("ocelad.service.routes.groups.MAX_WAIT", 0.05)
    monkeypatch.setattr(project.project.learner, "add_entries", lambda entries: None)  # it learns nothing any more
    project.answers((0, 1, True))
    response = project.post("/groups/merge", {"left": "item 1", "right": "item 2"})
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert project.project.seq == 1


def test_a_killed_service_has_the_same_groups_again(tmp_path):
    with Store.open(tmp_path / "data") as store:
        store.create_project("some", "Some", some_items(), check_settings(3, {"curved": False}), "")
    server = Server(tmp_path / "data")
    with httpx.Client(base_url=f"{server.url}/v1/projects/some", timeout=20) as http:
        pairs = [("item 0", "item 1"), ("item 1", "item 2"), ("item 3", "item 4")]
        new = [{"left": left, "right": right, "answer": "same"} for left, right in pairs]
        http.post("comparisons", json={"comparisons": new}).raise_for_status()
        http.post("groups/merge", json={"left": "item 0", "right": "item 3"}).raise_for_status()
        http.post("groups/split", json={"items": ["item 1", "item 4"]}).raise_for_status()
        http.post("groups/name", json={"item": "item 4", "name": "pair"}).raise_for_status()
        http.post("groups/name", json={"item": "item 0", "name": "wrong"}).raise_for_status()
        http.post("undo", json={}).raise_for_status()
        more = [{"left": "item 10", "right": f"item {5 + i % 5}", "answer": "different"} for i in range(70)]
        http.post("comparisons", json={"comparisons": more}).raise_for_status()
    server.kill()

    def found():
        service = Service.open(Settings(folder=tmp_path / "data"))
        try:
            project = service.project("some")
            assert project.learner.wait(project.seq, 20)
            entries = project.entries(0, 1000)
            assert described(project.view.graph) == described(graph_of(entries)[0])
            return [(sorted(group.items), group.name) for group in project.view.groups.all if len(group.items) > 1]
        finally:
            service.close()

    assert found() == [([0, 2, 3], None), ([1, 4], "pair")]
    assert found() == [([0, 2, 3], None), ([1, 4], "pair")]  # from a snapshot
    assert (tmp_path / "data/snapshots/some.tracker").exists()
