"""The HTTP API of a service in this process: requests, responses and errors."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from base64 import b64decode
from time import monotonic, sleep
from urllib.parse import quote

import numpy as np
import pytest
from serving import served, some_items

from ocelad import MetricTracker
from ocelad.client import Client
from ocelad.curved_metric import CurvedMetric
from ocelad.service import store as store_errors
from ocelad.service.app import ERRORS
from ocelad.service.notifier import Notifier


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served") / "data") as (client, service):
        yield client, service


class ProjectClient:
    """A client of one project: every test has its own project on a shared server."""

    def __init__(self, client, service, name):
        self.get, self.post, self.stream = client.get, client.post, client.stream
        self.patch, self.put, self.delete = client.patch, client.put, client.delete
        self.P, self.name, self.service = f"/v1/projects/{name}", name, service
        self.project = service.project(name)


@pytest.fixture
def client(server):
    http, service = server
    name = f"project-{len(list(service))}"
    service.create(name, "Some items", some_items())
    return ProjectClient(http, service, name)


def compare(client, left, right, answer, **headers):
    body = {"left": f"item {left}", "right": f"item {right}", "answer": answer}
    return client.post(f"{client.P}/comparisons", json=body, headers=headers)


def wait_until_learned(client):
    """Wait until all durable entries have been learned from."""
    deadline = monotonic() + 20
    while client.get("/v1/ready").json()["backlog"][client.name]:
        assert monotonic() < deadline
        sleep(0.01)


def test_every_route_rejects_unknown_query_parameters(client):
    routes = client.get("/v1/openapi.json").json()["paths"]
    assert len(routes) > 10
    for path, methods in routes.items():
        ask = {method: getattr(client, method) for method in ("get", "post", "patch", "put", "delete")}
        for method, described in methods.items() if path.startswith("/v1/") else ():
            answer = ask[method](path.replace("{project}", client.name), params={"limits": 3})
            names = [each["name"] for each in described.get("parameters", ()) if each["in"] == "query"]
            error = {"code": "invalid", "where": "query"}
            error["message"] = f"there is no parameter 'limits'; accepted: {', '.join(names) or 'none'}"
            assert (answer.status_code, answer.json()["error"]) == (422, error), path


class TestAnswers:
    def test_answers_are_numbered_and_learned_from(self, client):
        assert compare(client, 0, 1, "same").json() == {"first": 1, "last": 1, "repeated": False}
        batch = [{"left": "item 2", "right": f"item {i}", "answer": "different"} for i in (3, 4)]
        answer = client.post(f"{client.P}/comparisons", json={"comparisons": batch})
        assert (answer.status_code, answer.json()["first"], answer.json()["last"]) == (201, 2, 3)
        wait_until_learned(client)
        points = client.project.items.points
        settings = client.service.store.project(client.name).settings
        known = {"method": "adaptive", "curved": True, "transitive": True, "known_items": len(points)}
        assert {name: value for name, value in settings.items() if name != "version"} == known
        oracle = MetricTracker(curved=True, preprocessor=points).fit([(0, 1), (2, 3), (2, 4)], [1, -1, -1])
        assert client.project.view.metric == oracle.metric_

    def test_an_idempotency_key_stores_an_answer_once(self, client):
        first = compare(client, 0, 1, "same", **{"Idempotency-Key": "k1"})
        again = compare(client, 0, 1, "same", **{"Idempotency-Key": "k1"})
        assert (first.status_code, again.status_code, again.json()) == (201, 200, {**first.json(), "repeated": True})
        other = compare(client, 0, 1, "different", **{"Idempotency-Key": "k1"})
        assert (other.status_code, other.json()["error"]["code"]) == (409, "key_conflict")
        assert client.get(client.P).json()["seq"] == 1

    def test_an_idempotency_key_belongs_to_one_person(self, client):
        compare(client, 0, 1, "same", **{"Idempotency-Key": "k1", "Ocelad-Person": "anna"})
        other = compare(client, 0, 1, "same", **{"Idempotency-Key": "k1", "Ocelad-Person": "ben"})
        assert (other.status_code, other.json()["repeated"]) == (201, False)
        again = compare(client, 0, 1, "same", **{"Idempotency-Key": "k1", "Ocelad-Person": "anna"})
        assert (again.status_code, again.json()["repeated"]) == (200, True)
        assert client.get(client.P).json()["seq"] == 2

    def test_names_have_letters_of_any_script_and_one_form(self, client):
        names = ["Zoë O’Neil", "李雷", "דנה", "Дмитрий", "नेहा", "e\u0301va", "é" * 64]
        for name in names:
            assert compare(client, 0, 1, "same", **{"Ocelad-Person": quote(name)}).status_code == 201
        with Client(client.service.settings.address, person="Zoë O’Neil") as other:
            other.project(client.name).undo()
        entries = client.get(f"{client.P}/history").json()["entries"]
        assert [entry["person"] for entry in entries] == [*names[:5], "éva", names[6], names[0]]
        assert entries[-1]["undoes"] == 1

    @pytest.mark.parametrize(
        "name", ["a\u200bb", "a\u202eb", "a\u2066", "\ufeffa", "\u3164", "a\ufe0f", "a\n", "a/b", "<b>", "a%", "é" * 65]
    )
    def test_names_that_nobody_can_tell_from_others_are_refused_with_a_sentence(self, client, name):
        answers = [compare(client, 0, 1, "same", **{"Ocelad-Person": quote(name, safe="")})]
        answers.append(client.get(client.P, headers={"Ocelad-Person": quote(name, safe="")}))
        for answer in answers:
            assert answer.status_code == 422
            message = answer.json()["error"]["message"]
            assert "a person's name has at most 64 letters and digits of any script" in message
        assert client.get(client.P).json()["seq"] == 0

    def test_undo_applies_to_the_last_answer_of_the_same_person(self, client):
        compare(client, 0, 1, "same", **{"Ocelad-Person": "anna"})
        compare(client, 2, 3, "same", **{"Ocelad-Person": "ben"})
        undone = client.post(f"{client.P}/undo", json={}, headers={"Ocelad-Person": "anna"})
        assert (undone.status_code, undone.json()["entry"]["seq"], undone.json()["seq"]) == (201, 1, 3)
        assert undone.json()["entry"]["undone"]
        nothing = client.post(f"{client.P}/undo", json={}, headers={"Ocelad-Person": "anna"})
        assert (nothing.status_code, nothing.json()["error"]["code"]) == (409, "nothing_to_undo")
        again = client.post(f"{client.P}/undo", json={"seq": 1})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "already_undone")
        assert client.post(f"{client.P}/undo", json={"seq": 99}).json()["error"]["code"] == "unknown_entry"
        wait_until_learned(client)
        assert client.get(client.P).json()["n_answers"] == 1

    def test_a_batch_is_stored_completely_or_not_at_all(self, client):
        batch = [
            {"left": "item 0", "right": "item 1", "answer": "same"},
            {"left": "item 0", "right": "?", "answer": "same"},
        ]
        answer = client.post(f"{client.P}/comparisons", json={"comparisons": batch})
        assert (answer.status_code, answer.json()["error"]["where"]) == (404, "body.comparisons.1.right")
        assert client.get(client.P).json()["seq"] == 0

    @pytest.mark.parametrize(
        ("body", "status"),
        [
            ({"left": "item 0", "right": "item 0", "answer": "same"}, 422),
            ({"left": "item 0", "right": "item 1", "answer": "maybe"}, 422),
            ({"left": "item 0", "right": "item 1"}, 422),
            ({"left": "item 0", "right": 1, "answer": "same"}, 422),
            ({"left": "item 0", "right": "item 1", "answer": "same", "more": 1}, 422),
            ({"comparisons": []}, 422),
            ([], 422),
        ],
    )
    def test_invalid_comparisons_are_rejected(self, client, body, status):
        answer = client.post(f"{client.P}/comparisons", json=body)
        assert answer.status_code == status
        assert answer.json()["error"]["message"]
        assert client.get(client.P).json()["seq"] == 0

    @pytest.mark.parametrize(
        ("body", "where"),
        [
            ({"left": "item 0", "right": 1, "answer": "same"}, "body.right"),
            ({"left": "item 0", "right": "item 1"}, "body.answer"),
            ({"comparisons": []}, "body.comparisons"),
            ({"comparisons": [{"left": "item 0", "right": 1, "answer": "same"}]}, "body.comparisons.0.right"),
            ([], "body"),
        ],
    )
    def test_an_error_refers_to_one_kind_of_body_only(self, client, body, where):
        error = client.post(f"{client.P}/comparisons", json=body).json()["error"]
        assert (error["where"], error["message"].startswith(f"{where}: ")) == (where, True)
        assert "more)" not in error["message"]

    def test_an_error_refers_to_one_kind_of_point_only(self, client):
        for point, where in (([1, "x"], "body.points.0.1"), (7, "body.points.0"), ("", "body.points.0")):
            error = client.post(f"{client.P}/embed", json={"points": [point]}).json()["error"]
            assert (error["where"], "more)" in error["message"]) == (where, False)

    @pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
    @pytest.mark.parametrize("path", ["comparisons", "undo", "distance", "items"])
    def test_a_missing_content_type_is_named(self, client, headers, path):
        answer = client.post(f"{client.P}/{path}", content=b"{}", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_type")
        assert "Content-Type: application/json" in answer.json()["error"]["message"]

    def test_errors_describe_accepted_names_in_words(self, client):
        answer = client.post("/v1/projects", params={"id": "BAD NAME", "format": "csv"}, content=b"")
        assert "query.id: a project's name has 1 to 64 lowercase letters" in answer.json()["error"]["message"]
        answer = client.get(client.P, headers={"Ocelad-Person": "a/b"})
        assert "a person's name has at most 64 letters and digits of any script" in answer.json()["error"]["message"]

    def test_a_long_path_is_truncated_in_the_error(self, client):
        answer = client.get("/v1/" + "x" * 5000)
        assert answer.status_code == 404
        assert len(answer.json()["error"]["message"]) < 300

    def test_invalid_json_is_rejected(self, client):
        answer = client.post(f"{client.P}/comparisons", content=b"{", headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")


class TestHistory:
    def test_history_comes_in_pages(self, client):
        for i in range(1, 6):
            compare(client, 0, i, "same" if i % 2 else "skip")
        client.post(f"{client.P}/undo", json={"seq": 5})
        seen, after = [], 0
        while after is not None:
            page = client.get(f"{client.P}/history", params={"after": after, "limit": 4}).json()
            seen, after = seen + page["entries"], page["next"]
        assert [entry["seq"] for entry in seen] == [1, 2, 3, 4, 5, 6]
        assert [entry["kind"] for entry in seen] == ["same", "skip", "same", "skip", "same", "undo"]
        assert [entry["undone"] for entry in seen] == [False] * 4 + [True, False]

    def test_exports_can_be_read_by_ocelad_track(self, client, tmp_path):
        import pyarrow.parquet as pq

        from ocelad.io import open_comparisons

        for i, answer in enumerate(("same", "different", "skip", "same"), start=1):
            compare(client, 0, i, answer)
        client.post(f"{client.P}/undo", json={"seq": 1})
        for content in ("comparisons", "items"):
            answer = client.get(f"{client.P}/export", params={"content": content})
            (tmp_path / f"{content}.parquet").write_bytes(answer.content)
        with open_comparisons(tmp_path / "comparisons.parquet", items=tmp_path / "items.parquet") as stream:
            (chunk,) = stream
        features = some_items().features
        assert chunk.y.tolist() == [-1, 1]
        assert np.array_equal(chunk.pairs, np.stack([features[[0, 0]], features[[2, 4]]], axis=1))
        lines = client.get(f"{client.P}/export", params={"content": "log", "format": "jsonl"}).text.splitlines()
        assert [json.loads(line)["similar"] for line in lines][-1] == "undo"
        table = pq.read_table(io.BytesIO(client.get(f"{client.P}/export", params={"content": "log"}).content))
        assert table.num_rows == len(lines) == 5
        assert json.loads(lines[0]).keys() == set(table.column_names)
        assert {"person", "source", "undoes", "undone"} <= set(table.column_names)


class TestQueries:
    def test_distances_of_items_and_of_features(self, client):
        for i in range(1, 8):
            compare(client, 0, i, "same" if i % 2 else "different")
        wait_until_learned(client)
        items = some_items()
        answer = client.get(f"{client.P}/metric", params={"format": "safetensors"})
        path = client.service.settings.folder / "metric"
        path.write_bytes(answer.content)
        metric = CurvedMetric.load(path)
        pairs = [{"left": "item 0", "right": items.features[5].tolist()}, {"left": "item 3", "right": "item 4"}]
        reply = client.post(f"{client.P}/distance", json={"pairs": pairs}).json()
        expected = metric.distance(items.features[[0, 3]], items.features[[5, 4]])
        assert np.allclose(reply["distances"], expected, rtol=1e-9)
        assert reply["similar"] == (expected <= reply["threshold"]).tolist()
        assert reply["similar"] == [probability >= 0.5 for probability in reply["probabilities"]]
        assert np.allclose(reply["probabilities"], 1 / (1 + np.exp(expected**2 - metric.threshold)), rtol=1e-9)
        assert reply["decisions"] is None
        nearest = client.get(f"{client.P}/neighbors", params={"item": "item 0", "k": 3}).json()["neighbors"]
        order = np.argsort(metric.distance(items.features[1:], items.features[0]))[:3] + 1
        assert [each["item"]["position"] for each in nearest] == order.tolist()
        coordinates = np.array(
            client.post(f"{client.P}/embed", json={"points": list(items.ids), "n_components": 99}).json()["coordinates"]
        )
        assert np.allclose(np.linalg.norm(coordinates[0] - coordinates[5]), expected[0], rtol=1e-6)
        info = client.get(f"{client.P}/metric", params={"matrix": True}).json()
        factors = metric.factors  # the linear part measures scaled features, the matrix those in their own units
        assert np.allclose(info["matrix"], np.outer(factors, factors) * metric.linear_part.matrix, rtol=1e-9)
        assert info["n_answers"] == 7
        assert sum(each["share"] for each in info["features"]) == pytest.approx(1)

    def test_the_map_has_a_point_and_a_cluster_for_each_item(self, client):
        reply = client.get(f"{client.P}/map", params={"clusters": 3}).json()
        xy = np.frombuffer(b64decode(reply["xy"]), "<f4").reshape(-1, 2)
        clusters = np.frombuffer(b64decode(reply["clusters"]), np.uint8)
        assert xy.shape == (12, 2)
        assert np.isfinite(xy).all()
        assert set(clusters.tolist()) == {0, 1, 2}

    def test_the_next_pair_has_two_items_a_reason_and_a_source(self, client):
        reply = client.get(f"{client.P}/next-pair").json()
        assert reply["left"]["id"] != reply["right"]["id"]
        assert reply["reason"].endswith(".")
        assert reply["source"] in ("active", "link", "random")

    def test_the_timeline_has_a_row_for_each_answer(self, client):
        for i in range(1, 5):
            compare(client, 0, i, "same")
        wait_until_learned(client)
        reply = client.get(f"{client.P}/timeline").json()
        assert reply["n_answers"] == [1, 2, 3, 4]
        assert len(reply["loss"]) == len(reply["accuracy"]) == len(reply["drift"]) == len(reply["shares"][0]) == 4
        assert (reply["method"], reply["experts"][0], reply["changes"]) == ("adaptive", "Euclidean", [])
        assert len(reply["experts"]) == len(reply["shares"])
        info = client.get(f"{client.P}/metric").json()
        assert (info["method"], [each["name"] for each in info["experts"]]) == ("adaptive", reply["experts"])
        np.testing.assert_allclose(
            [each["share"] for each in info["experts"]], np.array(reply["shares"])[:, -1], atol=1e-6
        )

    def test_no_items_are_predicted_to_be_the_same_if_all_answers_are_different(self, client):
        for left, right in itertools.combinations(range(12), 2):
            compare(client, left, right, "different")
        wait_until_learned(client)
        reply = client.get(f"{client.P}/neighbors", params={"item": "item 0", "k": 11}).json()
        assert not any(each["similar"] for each in reply["neighbors"])
        pairs = [{"left": "item 0", "right": "item 0"}, {"left": "item 0", "right": "item 1"}]
        distances = client.post(f"{client.P}/distance", json={"pairs": pairs}).json()
        assert distances["similar"] == [bool(distances["threshold"] >= 0), False]
        assert distances["threshold"] == reply["threshold"]
        assert all(each["probability"] < 0.5 for each in reply["neighbors"])

    @pytest.mark.parametrize(
        ("path", "status", "code"),
        [
            ("{P}/neighbors?item=none", 404, "unknown_item"),
            ("{P}/neighbors?item=item%200&k=0", 422, "invalid"),
            ("/v1/projects/other/metric", 404, "unknown_project"),
            ("{P}/columns/none", 404, "not_found"),
            ("{P}/pictures/0", 404, "not_found"),
            ("/v1/nothing", 404, "not_found"),
            ("{P}/history?after=-1", 422, "invalid"),
            ("{P}/map?clusters=1", 422, "invalid"),
        ],
    )
    def test_missing_objects_and_invalid_parameters_have_error_codes(self, client, path, status, code):
        answer = client.get(path.replace("{P}", client.P))
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)

    def test_points_of_the_wrong_length_or_size_are_rejected(self, client):
        short = client.post(f"{client.P}/embed", json={"points": [[1.0, 2.0]]})
        assert (short.status_code, short.json()["error"]["where"]) == (422, "body.points.0")
        large = client.post(f"{client.P}/distance", json={"pairs": [{"left": [1e308] * 3, "right": [-1e308] * 3}]})
        assert large.status_code == 422


class TestProjects:
    def test_a_project_is_created_from_an_uploaded_file(self, client):
        body = "id,height,width,kind\na,1,2,x\nb,3,5,y\nc,7,4,x\n"
        made = client.post("/v1/projects", params={"id": "boxes", "format": "csv", "title": "Boxes"}, content=body)
        assert made.status_code == 201, made.text
        assert made.json()["feature_names"] == ["height", "width"]
        assert made.json()["method"] == "adaptive"
        again = client.post("/v1/projects", params={"id": "boxes", "format": "csv"}, content=body)
        assert (again.status_code, again.json()["error"]["code"]) == (409, "project_exists")
        assert "boxes" in [project["id"] for project in client.get("/v1/projects").json()["projects"]]
        assert client.get("/v1/projects/boxes/items/b").json()["features"] == {"height": 3.0, "width": 5.0}
        colours = client.get("/v1/projects/boxes/columns/kind").json()
        assert [colours["categories"][int(value)] for value in colours["values"]] == ["x", "y", "x"]

    def test_an_invalid_file_creates_no_project(self, client):
        answer = client.post("/v1/projects", params={"id": "bad", "format": "csv"}, content="id,a\nx,one\n")
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_items")
        assert client.get("/v1/projects/bad").status_code == 404

    def test_items_come_in_pages_and_can_be_added(self, client):
        page = client.get(f"{client.P}/items", params={"limit": 7}).json()
        rest = client.get(f"{client.P}/items", params={"after": page["next"], "limit": 7}).json()
        assert [item["position"] for item in page["items"] + rest["items"]] == list(range(12))
        assert rest["next"] is None
        new = {"items": [{"id": "new", "features": [0.0, 1.0, 2.0], "fields": {"colour": "red"}}]}
        assert client.post(f"{client.P}/items", json=new).json() == {"n_added": 1, "n_items": 13}
        assert client.post(f"{client.P}/items", json=new).json()["error"]["code"] in ("bad_items", "duplicate_item")
        assert compare(client, 0, 1, "same").status_code == 201
        body = {"left": "new", "right": "item 0", "answer": "different"}
        assert client.post(f"{client.P}/comparisons", json=body).status_code == 201
        wait_until_learned(client)
        near = client.get(f"{client.P}/neighbors", params={"item": "new"}).json()
        assert len(near["neighbors"]) == 10
        wrong = {"items": [{"id": "newer", "features": [0.0]}]}
        assert client.post(f"{client.P}/items", json=wrong).status_code == 422


class TestOperations:
    def test_a_restart_keeps_the_log_and_the_metric(self, tmp_path):
        with served(tmp_path / "data", some_items()) as (http, service):
            client = ProjectClient(http, service, "some")
            for i in range(1, 8):
                compare(client, 0, i, "same" if i % 2 else "different")
            wait_until_learned(client)
            before = client.project.view.metric
        with served(tmp_path / "data", some_items()) as (http, service):
            client = ProjectClient(http, service, "some")
            wait_until_learned(client)
            assert client.project.view.metric == before
            assert client.get(client.P).json()["seq"] == 7

    def test_health_readiness_and_prometheus_metrics(self, client):
        assert client.get("/v1/health").json()["status"] == "ok"
        ready = client.get("/v1/ready").json()
        assert (ready["status"], ready["reason"], ready["backlog"][client.name]) == ("ready", None, 0)
        compare(client, 0, 1, "same")
        text = client.get("/metrics").text
        assert f'ocelad_entries{{project="{client.name}"}} 1.0' in text
        assert f'ocelad_backlog{{project="{client.name}"}} ' in text
        assert 'route="/v1/projects/{project}/comparisons",status="201"' in text

    def test_an_internal_error_does_not_reveal_its_reason(self, client, monkeypatch):
        monkeypatch.setattr("ocelad.service.serialize.project_info", lambda *_: 1 / 0)
        answer = client.get(client.P)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
        assert "ZeroDivision" not in answer.text
        assert answer.headers["request-id"] in answer.text


def read_events(client, after, wanted, n_messages=1):
    """Return messages as (event, id, data) until there are some, and they contain ``wanted`` entries."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    messages, fields, count = [], {}, 0
    with client.stream("GET", f"{client.P}/events", headers=headers) as answer:
        for line in answer.iter_lines():
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
            elif fields:
                data = json.loads(fields["data"])
                messages.append((fields["event"], fields.get("id"), data))
                count, fields = count + len(data.get("entries", ())), {}
                if count >= wanted and len(messages) >= n_messages:
                    break
    return messages


class TestEvents:
    @pytest.mark.parametrize("after", [0, 3, 300, None])
    def test_each_entry_after_the_last_seen_is_sent_once(self, client, after):
        batch = [{"left": "item 0", "right": "item 1", "answer": "same"}] * 450
        client.post(f"{client.P}/comparisons", json={"comparisons": batch})
        wanted = 450 - (450 if after is None else after)
        messages = read_events(client, after, wanted)
        assert messages[0][0] == "hello"
        seqs = [entry["seq"] for _, _, data in messages for entry in data.get("entries", ())]
        assert seqs == list(range(451 - wanted, 451))
        assert [id for name, id, _ in messages if name == "comparisons"] == [
            str(data["entries"][-1]["seq"]) for name, _, data in messages if name == "comparisons"
        ]

    def test_a_reader_ahead_of_the_log_starts_at_its_end(self, client):
        compare(client, 0, 1, "same")
        replaced, hello = read_events(client, 99, 0, n_messages=2)
        assert (replaced[0], hello[0]) == ("replaced", "hello")
        assert hello[1:] == ("1", {**hello[2], "seq": 1})

    def test_a_notification_wakes_all_present_waiters_and_no_later_one(self):
        async def wake():
            notifier = Notifier()
            notifier.attach(asyncio.get_running_loop())
            waiting = [asyncio.create_task(notifier.wait(5)) for _ in range(3)]
            await asyncio.sleep(0)
            await asyncio.to_thread(notifier.notify)
            assert await asyncio.gather(*waiting) == [True] * 3
            assert not await notifier.wait(0.01)

        asyncio.run(wake())


def test_the_status_of_an_error_says_whether_a_repetition_may_help():
    """Clients repeat a request after 503 and after no status of invalid requests."""
    for kind, status, code in ERRORS:
        if issubclass(kind, (store_errors.StoreUnavailable, store_errors.Overloaded)):
            assert status == 503
        elif code.startswith("unknown_"):
            assert status == 404
        else:
            assert status == (422 if code in ("invalid", "bad_items") else 409)
    kinds = [kind for kind, _, _ in ERRORS]
    for at, kind in enumerate(kinds):  # the first match counts
        assert not any(issubclass(later, kind) for later in kinds[at + 1 :])
