"""The choice of pairs in the service: entries of the log reach the chooser, and pairs are stored with their source."""

from __future__ import annotations

import pytest
from serving import served, some_items

from ocelad.service.service import Service
from ocelad.service.settings import Settings

PATH = "/v1/projects/some"


def post(client, part, body):
    response = client.post(f"{PATH}{part}", json=body)
    assert response.status_code == 201, response.text
    return response.json()


def compare(client, left, right, answer, ticket=None):
    body = {"left": f"item {left}", "right": f"item {right}", "answer": answer, "ticket": ticket}
    return post(client, "/comparisons", body)["last"]


def graph_of(project):
    """Return the graph of the chooser, after all durable entries."""
    project.chooser._asked.update(0)
    return project.chooser._asked.graph


def test_an_answer_is_stored_with_the_source_of_its_ticket(tmp_path):
    sources = ["link", "check", "settle", "active", "random"]
    with served(tmp_path / "data", some_items()) as (client, service):
        for i, source in enumerate(sources):
            ticket = service.project("some").tickets.issue(0, i + 1, source)
            compare(client, 0, i + 1, "same", ticket=ticket)
        compare(client, 0, 9, "same")
        assert [entry.source for entry in service.store.entries("some")] == [*sources, "given"]
        refused = client.post(f"{PATH}/comparisons", json={"left": "item 0", "right": "item 8", "source": "?"})
        assert refused.status_code == 422


def test_people_are_asked_until_all_pairs_are_answered_or_implied(tmp_path):
    """Items are the same if their numbers are equal modulo 3."""
    n_answers, sources = 0, set()
    with served(tmp_path / "data", some_items(20)) as (client, service):
        while (response := client.get(f"{PATH}/next-pair")).status_code == 200:
            pair = response.json()
            left, right = (int(pair[side]["id"].removeprefix("item ")) for side in ("left", "right"))
            compare(client, left, right, "same" if left % 3 == right % 3 else "different", pair["ticket"])
            n_answers += 1
            sources.add(pair["source"])
        graph = graph_of(service.project("some"))
        assert response.status_code == 409
        assert response.json()["error"]["code"] == "nothing_to_ask"
        assert "other answers imply their answer" in response.text
    assert sorted(map(len, graph.groups())) == [6, 7, 7]
    assert n_answers < 120  # of 190 pairs; the items have random features
    assert "link" in sources


def test_names_are_not_recorded_and_an_undo_undoes_the_entry_that_it_names(tmp_path):
    with served(tmp_path / "data", some_items()) as (client, service):
        project = service.project("some")
        wrong = compare(client, 0, 1, "different")
        compare(client, 0, 1, "same")
        compare(client, 1, 2, "same")
        skipped = compare(client, 1, 2, "skip")
        project.learner.wait(project.seq, 20)
        post(client, "/groups/name", {"item": "item 0", "name": "x"})
        post(client, "/undo", {"seq": wrong})
        post(client, "/undo", {"seq": skipped})
        assert graph_of(project).groups() == [[0, 1, 2]]
        assert project.chooser._asked.item_counts.tolist() == [1, 2, 1] + [0] * 9
    again = Service.open(Settings(folder=tmp_path / "data"))
    try:
        assert graph_of(again.project("some")).groups() == [[0, 1, 2]]
    finally:
        again.close()


def test_projects_without_groups_have_random_and_active_pairs_only(tmp_path):
    with served(tmp_path / "data") as (client, service):
        service.create("some", "Some items", some_items(30), {"transitive": False})
        sources = set()
        for i in range(1, 20):
            compare(client, 0, i, "same")
            sources |= {client.get(f"{PATH}/next-pair").json()["source"] for _ in range(5)}
        assert sources == {"random", "active"}
        assert graph_of(service.project("some")) is None


@pytest.mark.parametrize(("settings", "expected"), [({}, 0.12), ({"random_share": 0.5}, 0.5)])
def test_the_share_of_random_pairs_follows_the_project_unless_it_is_given(tmp_path, settings, expected):
    with served(tmp_path / "data", some_items(), **settings) as (_, service):
        assert service.project("some").chooser._random_share == expected
        given = service.create("other", "Some items", some_items(), {"transitive": False}).chooser._random_share
        assert given == settings.get("random_share", 0.2)
