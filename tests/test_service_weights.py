"""Weights of people's answers: what is learned is a function of the log and the weights."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from time import monotonic, sleep

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import served, some_items

from ocelad.service.entries import Entry
from ocelad.service.learning import Learner, default_settings, with_known_items
from ocelad.service.learning.learning_state import Answers, LearningState

PATH = "/v1/projects/some"
PEOPLE = ["anna", "ben", "eve"]
LINEAR = {"method": "adaptive", "curved": False, "transitive": False}
ITEMS = some_items(20, 4)


def some_log(n=80, seed=0):
    rng = np.random.default_rng(seed)
    log = []
    for seq in range(1, n + 1):
        left, right = rng.choice(20, 2, replace=False).tolist()
        kind = "same" if rng.random() < 0.4 else "different"
        log.append(Entry(seq, seq, kind, left, right, "given", PEOPLE[rng.integers(3)]))
    return log


def metric_of(log, tracker_settings, weights):
    state = LearningState(4, tracker_settings, ITEMS.points)
    return state.learn(Answers.from_entries(log, (), weights), ITEMS.points).tracker.play()


@contextmanager
def learning(log, tracker_settings, weights=None, snapshot=None):
    learner = Learner(
        ITEMS,
        tracker_settings,
        snapshot=snapshot,
        read=lambda after, limit: log[after : after + limit],
        weights=weights,
    )
    try:
        yield learner
    finally:
        learner.close()


def wait_until_idle(learner, seq):
    assert learner.wait(seq, 60)
    until = monotonic() + 60
    while not learner.is_idle:
        assert monotonic() < until, learner.failure
        sleep(0.01)
    return learner.view.metric


both = pytest.mark.parametrize("tracker_settings", [LINEAR, with_known_items(default_settings(), 20)])


@both
def test_weights_of_one_change_nothing_and_other_weights_do(tracker_settings):
    log = some_log()
    plain = metric_of(log, tracker_settings, None)
    assert metric_of(log, tracker_settings, {}) == plain
    assert metric_of(log, tracker_settings, {"anna": 1.0, "ben": 1.0, "nobody": 0.0}) == plain
    assert metric_of(log, tracker_settings, {"eve": 0.3}) != plain


@both
def test_answers_of_weight_0_teach_nothing(tracker_settings):
    """The pair is still seen, but the answer does not matter."""
    log = some_log()
    flipped = [
        replace(each, kind="same" if each.kind == "different" else "different") if each.person == "eve" else each
        for each in log
    ]
    assert metric_of(flipped, tracker_settings, {"eve": 0.0}) == metric_of(log, tracker_settings, {"eve": 0.0})
    assert metric_of(flipped, tracker_settings, {}) != metric_of(log, tracker_settings, {})


def test_a_reviewers_decision_has_full_weight():
    log = some_log()
    reviewed = [Entry(e.seq, e.at, e.kind, e.left, e.right, "review", "eve") for e in log]
    assert metric_of(reviewed, LINEAR, {"eve": 0.1}) == metric_of(reviewed, LINEAR, {})


@both
@given(data=st.data())
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_change_of_weights_gives_the_bits_of_a_replay(tracker_settings, data, tmp_path_factory):
    weights = st.dictionaries(st.sampled_from(PEOPLE), st.sampled_from([0.0, 0.25, 1.0]), max_size=3)
    log, durable, used = some_log(), [], {}
    snapshot = tmp_path_factory.mktemp("weights") / "snapshot"
    for cut in (30, 60, 80):
        with learning(durable, tracker_settings, used, snapshot) as learner:
            more = log[len(durable) : cut]
            durable.extend(more)
            learner.add_entries(more)
            for _ in range(data.draw(st.integers(0, 2))):
                used = data.draw(weights)
                learner.replace_weights(used)
                if data.draw(st.booleans()):
                    wait_until_idle(learner, cut)
            metric = wait_until_idle(learner, cut)
            assert metric == metric_of(durable, tracker_settings, used)
        if data.draw(st.booleans()):
            used = data.draw(weights)  # they were changed while the project was not loaded


def test_a_snapshot_of_other_weights_is_not_used(tmp_path, caplog):
    log, weights = some_log(), {"eve": 0.5, "Zebedee": 0.3}
    with learning(log, LINEAR, weights, tmp_path / "snapshot") as learner:
        wait_until_idle(learner, 80)
    assert b"Zebedee" not in (tmp_path / "snapshot").read_bytes()
    with learning(log, LINEAR, weights, tmp_path / "snapshot") as learner:
        assert learner.view.seq == 80
    assert "other weights" not in caplog.text
    with learning(log, LINEAR, {}, tmp_path / "snapshot") as learner:
        assert learner.view.seq == 0
        assert wait_until_idle(learner, 80) == metric_of(log, LINEAR, {})
    assert "other weights" in caplog.text


def post(client, part, body, person="", status=(200, 201)):
    response = client.post(f"{PATH}{part}", json=body, headers={"Ocelad-Person": person})
    assert response.status_code in (status if isinstance(status, tuple) else (status,)), response.text
    return response.json()


def test_weights_are_set_and_learned_by_requests(tmp_path):
    rng = np.random.default_rng(0)
    with served(tmp_path / "data", some_items(20, 4)) as (client, service):
        assert post(client, "/people/weights/learn", {}, status=409)["error"]["code"] == "nothing_to_learn"
        for _ in range(60):
            left, right = rng.choice(20, 2, replace=False).tolist()
            same = left % 3 == right % 3
            for person in PEOPLE:
                answer = same != (person == "eve" and rng.random() < 0.4)
                body = {"left": f"item {left}", "right": f"item {right}", "answer": "same" if answer else "different"}
                post(client, "/comparisons", body, person)
        project = service.project("some")
        plain = wait_until_idle(project.learner, project.seq)
        learned = post(client, "/people/weights/learn", {})
        assert learned["people"]["anna"] == learned["people"]["ben"] == 1.0
        assert learned["people"]["eve"] < 0.5
        assert learned["accuracies"]["eve"] == pytest.approx(0.6, abs=0.15)
        weighed = wait_until_idle(project.learner, project.seq)
        assert weighed != plain
        people = {each["person"]: each for each in client.get(f"{PATH}/people").json()["people"]}
        assert people["eve"]["weight"] == learned["people"]["eve"]
        assert people["eve"]["accuracy"] == pytest.approx(learned["accuracies"]["eve"])
        assert client.get(PATH).json()["weights"] == "learned"
        expected = metric_of_project(project)
        assert weighed == expected
    with served(tmp_path / "data") as (client, service):  # after a restart
        project = service.project("some")
        assert wait_until_idle(project.learner, project.seq) == weighed
        body = {"weights": {"mode": "set", "people": {"eve": 0.0}}}
        assert client.patch(PATH, json=body).json()["weights"] == "set"
        assert wait_until_idle(project.learner, project.seq) not in (plain, weighed)
        assert client.patch(PATH, json={"weights": {"mode": "equal"}}).status_code == 200
        assert wait_until_idle(project.learner, project.seq) == plain
        for wrong in (
            {"mode": "set", "people": {"eve": 1.5}},
            {"mode": "set", "people": {"eve": -1}},
            {"mode": "learned"},
            {"mode": "equal", "people": {"eve": 0.5}},
            {"people": {}},
        ):
            assert client.patch(PATH, json={"weights": wrong}).status_code == 422, wrong


def metric_of_project(project):
    record = project._store.project("some")
    state = LearningState(4, record.settings, project.items.points)
    entries = project._store.entries("some", 0, 1000)
    weights = project.options.weights.effective
    return state.learn(Answers.from_entries(entries, (), weights), project.items.points).tracker.play()


def test_the_method_rice_has_no_weights(tmp_path):
    with served(tmp_path / "data") as (client, service):
        service.create("some", "Some items", some_items(), {"method": "rice"})
        refused = client.patch(PATH, json={"weights": {"mode": "set", "people": {"eve": 0.5}}})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_weights")
        assert post(client, "/people/weights/learn", {}, status=409)["error"]["code"] == "no_weights"


def test_an_erased_person_leaves_nothing_behind(tmp_path):
    with served(tmp_path / "data", some_items(12)) as (client, service):
        for i, person in enumerate(3 * ["anna", "Zoë zero"]):
            body = {"left": "item 0", "right": f"item {i + 1}", "answer": "same"}
            header = "anna" if person == "anna" else "Zo%C3%AB zero"
            post(client, "/comparisons", body, header)
        project = service.project("some")
        client.patch(PATH, json={"weights": {"mode": "set", "people": {"Zoë zero": 0.5, "anna": 0.9}}})
        wait_until_idle(project.learner, project.seq)
        assert post(client, "/people/erase", {"person": "Zoë zero", "confirm": "Zoë zero"}) == {"n_erased": 3}
        until = monotonic() + 30
        while (response := client.get(f"{PATH}/people")).status_code == 503 and monotonic() < until:
            sleep(0.05)
        assert [each["person"] for each in response.json()["people"]] == ["anna"]
        project = service.project("some")
        wait_until_idle(project.learner, project.seq)
        assert project.view.n_answers == 3
        history = client.get(f"{PATH}/history").json()["entries"]
        assert [each["kind"] for each in history] == 3 * ["same", "erased"] + ["erase"]
        for each in history[1:6:2]:
            assert (each["left"], each["right"], each["person"], each["at"]) == (None, None, "", 0)
        log = client.get(f"{PATH}/export?content=log&format=csv").text
        assert log.count("erased") == 3
        exported = client.get(f"{PATH}/export?content=comparisons&format=jsonl").text.splitlines()
        assert len(exported) == 3
        assert post(client, "/people/erase", {"person": "nobody", "confirm": "nobody"}, status=422)
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            assert "Zoë".encode() not in path.read_bytes(), path
