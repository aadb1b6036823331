"""Tickets: only the service decides how a pair was chosen; and what the metric adds on random pairs."""

from __future__ import annotations

import string
from itertools import pairwise
from math import dist, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import served, some_items

from ocelad.service import serialize
from ocelad.service.learning.learning_state import Answers, LearningState
from ocelad.service.learning.random_pairs import RandomCounts, RandomPair, RandomPairs
from ocelad.service.tickets import Tickets

PATH = "/v1/projects/some"
SOURCES = ["active", "random", "link", "check", "settle", "repeat"]
TICKETS = Tickets(b"secret", "some", 1)
positions = st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)).filter(lambda pair: pair[0] != pair[1])


def random_pair(client):
    """Return a pair that the service has drawn at random."""
    for _ in range(400):
        pair = client.get(f"{PATH}/next-pair").json()
        if pair["source"] == "random":
            return pair
    raise AssertionError("no random pair")


def compare(client, pair, answer="same", key=None, **more):
    body = {"left": pair["left"]["id"], "right": pair["right"]["id"], "answer": answer, **more}
    headers = {} if key is None else {"Idempotency-Key": key}
    response = client.post(f"{PATH}/comparisons", json=body, headers=headers)
    assert response.status_code in (200, 201), response.text
    return response.json()


def timeline(client, service):
    project = service.project("some")
    assert project.learner.wait(project.seq, 60)
    return client.get(f"{PATH}/timeline").json()["random_pairs"]


@given(pair=positions, other=positions, source=st.sampled_from(SOURCES))
def test_a_ticket_names_its_source_for_its_pair_only(pair, other, source):
    ticket = TICKETS.issue(*pair, source)
    assert TICKETS.source(ticket, *pair) == TICKETS.source(ticket, *reversed(pair)) == source
    assert Tickets(b"secret", "some", 1).source(ticket, *pair) == source  # as after a restart
    if set(pair) != set(other):
        assert TICKETS.source(ticket, *other) == "given"
    for stranger in (Tickets(b"other", "some", 1), Tickets(b"secret", "more", 1), Tickets(b"secret", "some", 2)):
        assert stranger.source(ticket, *pair) == "given"


@given(pair=positions, ticket=st.text(max_size=30) | st.text(string.ascii_letters, min_size=17, max_size=17))
def test_no_other_text_is_a_ticket(pair, ticket):
    assert TICKETS.source(ticket, *pair) == "given"


@given(pair=positions, at=st.integers(0, 16), source=st.sampled_from(SOURCES), letter=st.sampled_from("alrcsp-_9"))
def test_a_changed_ticket_is_none(pair, at, source, letter):
    ticket = TICKETS.issue(*pair, source)
    changed = ticket[:at] + letter + ticket[at + 1 :]
    assert TICKETS.source(changed, *pair) == (source if changed == ticket else "given")
    assert TICKETS.source(ticket[:-1], *pair) == TICKETS.source(ticket + "A", *pair) == "given"


def test_the_service_does_not_believe_clients_about_the_choice_of_a_pair(tmp_path):
    with served(tmp_path / "data", some_items(40), random_share=0.5) as (client, service):
        pair = random_pair(client)
        compare(client, random_pair(client), source="random")
        compare(client, random_pair(client), ticket="r" + 16 * "A")
        compare(client, random_pair(client), ticket=pair["ticket"])
        compare(client, pair, ticket=pair["ticket"])
        chosen = [entry.source for entry in service.store.entries("some")]
        assert chosen == ["given", "given", "given", "random"]
        assert timeline(client, service)["n"] == 1
        for source in ("review", "import", "?"):
            body = {"left": "item 0", "right": "item 1", "answer": "same", "source": source}
            assert client.post(f"{PATH}/comparisons", json=body).status_code == 422


def test_a_ticket_is_valid_after_a_restart_and_counts_once(tmp_path):
    with served(tmp_path / "data", some_items(40), random_share=1.0) as (client, _):
        pair, second, third = (client.get(f"{PATH}/next-pair").json() for _ in range(3))
        compare(client, pair, ticket=pair["ticket"], key="first")
    with served(tmp_path / "data", some_items(40)) as (client, service):
        again = compare(client, pair, ticket=pair["ticket"], key="first")
        assert again == {"first": 1, "last": 1, "repeated": True}  # a retry, although its source would be another one
        compare(client, pair, "different", ticket=pair["ticket"])
        assert timeline(client, service)["n"] == 1  # also before the pairs that were asked are in memory
        client.get(f"{PATH}/next-pair")
        taught = {"left": second["right"]["id"], "right": second["left"]["id"], "answer": "same"}
        body = {"comparisons": [taught, {**taught, "ticket": second["ticket"]}]}
        assert client.post(f"{PATH}/comparisons", json=body).status_code == 201
        assert timeline(client, service)["n"] == 1
        compare(client, third, "skip")
        seq = compare(client, third, ticket=third["ticket"])["last"]
        assert timeline(client, service)["n"] == 2
        assert client.post(f"{PATH}/undo", json={"seq": seq}).status_code == 201
        assert timeline(client, service)["n"] == 1
        compare(client, third, ticket=third["ticket"])
        assert timeline(client, service)["n"] == 2
        assert [entry.source for entry in service.store.entries("some")][2:4] == ["given", "given"]
        compare(client, pair, ticket=pair["ticket"])
        assert service.store.entries("some")[-1].source == "given"


# Random pairs.


def euclidean_by_definition(distances, same):
    """The number of correct predictions, by trying all thresholds halfway between distances, one pair at a time."""
    n_correct = 0
    for i, (distance, answer) in enumerate(zip(distances, same, strict=True)):
        before = list(zip(distances[:i], same[:i], strict=True))
        if len({kind for _, kind in before}) < 2:
            predicted = sum(kind for _, kind in before) * 2 > i
        else:
            values = sorted({each for each, _ in before})
            middles = [first + (second - first) / 2 for first, second in pairwise(values)]
            thresholds = [0.0, *middles, inf]
            errors = [sum((each < threshold) != kind for each, kind in before) for threshold in thresholds]
            best = [each for each, n in zip(thresholds, errors, strict=True) if n == min(errors)]
            predicted = distance < best[(len(best) - 1) // 2]
        n_correct += predicted == answer
    return n_correct


@given(rows=st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.booleans()), max_size=40))
def test_counts_agree_with_their_definition(rows):
    pairs = RandomPairs()
    for code, (distance, same, correct) in enumerate(rows):
        pairs = pairs.add(RandomPair(0, 7 * code % 101, 200, float(distance)), same=same, correct=correct)
    n_same = sum(same for _, same, _ in rows)
    n_euclidean = euclidean_by_definition([float(each) for each, _, _ in rows], [same for _, same, _ in rows])
    expected = len(rows), sum(correct for _, _, correct in rows), max(n_same, len(rows) - n_same), n_euclidean
    assert pairs.counts == expected
    for code in range(len(rows)):  # each pair counts once
        assert pairs.add(RandomPair(0, 200, 7 * code % 101, 1.0), same=True, correct=True) is pairs
    restored = RandomPairs.from_state(*pairs.state())
    assert (restored.counts, restored.threshold) == (pairs.counts, pairs.threshold)


@pytest.mark.parametrize(
    ("settings", "n"), [({"method": "rice"}, 5), ({"method": "adaptive"}, 5), ({"method": "adaptive"}, 200)]
)
def test_the_course_is_the_same_however_answers_are_divided(settings, n):
    rng = np.random.default_rng(3)
    points = rng.normal(size=(30, n))
    pairs = [rng.choice(30, 2, replace=False) for _ in range(120)]
    left, right = np.array(pairs).T
    distances = [dist(points[i].tolist(), points[j].tolist()) for i, j in pairs]
    y = np.where(np.array(distances) < np.median(distances), 1.0, -1.0)
    answers = Answers(left, right, y, rng.random(120) < 0.5)
    whole = LearningState(n, settings, points).learn(answers, points)
    divided, done = LearningState(n, settings, points), 0
    for size in (1, 2, 30, 7, 80):
        part = slice(done, done + size)
        divided = divided.learn(Answers(left[part], right[part], y[part], answers.random[part]), points)
        done += size
        if divided.can_be_saved:
            divided = LearningState(n, settings, points).with_state(*divided.state())
    course = [state.timeline(state.tracker.play()).random_course for state in (whole, divided)]
    assert course[0] == course[1]
    counts = course[0][-1]
    codes = {frozenset(pair) for pair, random in zip(map(tuple, pairs), answers.random, strict=True) if random}
    assert counts.n == len(codes)
    assert counts.n_euclidean > counts.n_commoner  # the answers are those of Euclidean distance
    for before, after in pairwise(course[0]):
        assert all(old <= new for old, new in zip(before, after, strict=True))


def test_the_timeline_has_the_counts_and_their_course(tmp_path):
    with served(tmp_path / "data", some_items(30), random_share=1.0) as (client, service):
        empty = client.get(f"{PATH}/timeline").json()["random_pairs"]
        lists = {"n": [], "n_correct": [], "n_commoner": [], "n_euclidean": []}
        assert empty == {"n": 0, "n_correct": 0, "n_commoner": 0, "n_euclidean": 0, "course": lists}
        for i in range(12):
            pair = client.get(f"{PATH}/next-pair").json()
            compare(client, pair, "same" if i % 3 == 0 else "different", ticket=pair["ticket"])
        counts = timeline(client, service)
        course = counts.pop("course")
        assert counts == {name: values[-1] for name, values in course.items()}
        assert course["n"] == list(range(1, 13))
        assert course["n_commoner"][2:] == [max(n - n // 3 - (n % 3 > 0), n // 3 + (n % 3 > 0)) for n in range(3, 13)]
        view = service.project("some").view
        assert serialize.timeline(view).random_pairs.n == view.timeline.random_counts.n == 12
        assert isinstance(view.timeline.random_counts, RandomCounts)
