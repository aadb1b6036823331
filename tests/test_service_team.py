"""Several people who answer: repeated pairs, agreement, disagreements, settlement, figures and erasure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import served, some_items

from ocelad.evaluation.agreement import cohen_kappa, krippendorff_alpha
from ocelad.service.entries import Entry
from ocelad.service.store import open_tokens
from ocelad.service.team import AnswerIndex, RepeatedPairs, TeamFigures

PATH = "/v1/projects/some"
PEOPLE = ["anna", "ben", "eve"]


def entry(seq, kind, left=0, right=1, person="anna", source="given", undoes=None, at=None):
    return Entry(seq, seq * 1000 if at is None else at, kind, left, right, source, person, undoes)


def index_of(log):
    return AnswerIndex(lambda after, limit: log[after : after + min(limit, 3)])


def post(client, part, body, person="", key=None, status=(200, 201)):
    headers = {"Ocelad-Person": person} | ({} if key is None else {"Idempotency-Key": key})
    response = client.post(f"{PATH}{part}", json=body, headers=headers)
    assert response.status_code in (status if isinstance(status, tuple) else (status,)), response.text
    return response.json()


def compare(client, left, right, answer, person, **more):
    body = {"left": f"item {left}", "right": f"item {right}", "answer": answer, **more}
    return post(client, "/comparisons", body, person)["last"]


def get(client, part, person="", status=200):
    response = client.get(f"{PATH}{part}", headers={"Ocelad-Person": person})
    assert response.status_code == status, response.text
    return response.json()


# The index, against its definition.


@st.composite
def logs(draw):
    log = []
    for seq in range(1, draw(st.integers(1, 30)) + 1):
        answers = [e for e in log if e.kind in ("same", "different", "skip") and e.seq not in {u.undoes for u in log}]
        if answers and draw(st.integers(0, 3)) == 0:
            undone = draw(st.sampled_from(answers))
            source = draw(st.sampled_from(["review", undone.source]))
            log.append(entry(seq, "undo", undone.left, undone.right, "rex", source, undone.seq))
            continue
        left, right = draw(st.sampled_from([(0, 1), (1, 0), (0, 2), (1, 2)]))
        kind = draw(st.sampled_from(["same", "different", "skip"]))
        person = draw(st.sampled_from([*PEOPLE, ""]))
        source = draw(st.sampled_from(["given", "repeat", "random", "review", "settle"]))
        log.append(entry(seq, kind, left, right, person, source))
    return log


def given_by_definition(log):
    """The answers that people think: those that are not undone, or undone by a settlement only."""
    undos = {each.undoes: each for each in log if each.undoes is not None}
    answers = [each for each in log if each.kind in ("same", "different", "skip") and each.source != "review"]
    return [each for each in answers if each.seq not in undos or undos[each.seq].source == "review"]


@given(log=logs(), cuts=st.lists(st.integers(0, 30), max_size=3))
@settings(deadline=None)
def test_the_index_agrees_with_its_definition_however_it_is_read(log, cuts):
    visible = []
    index = index_of(visible)
    for cut in sorted([*cuts, len(log)]):
        visible[:] = log[:cut]
        with index:
            pass
    undone = {each.undoes for each in log}
    with index:
        for pair in ((0, 1), (0, 2), (1, 2)):
            about = [each for each in log if {each.left, each.right} == set(pair)]
            opinions = {
                each.person: each.kind == "same"
                for each in given_by_definition(log)
                if each in about and each.kind != "skip" and each.person
            }
            assert index.opinions(pair) == opinions
            assert (pair in index.shared) == (len(opinions) > 1)
            standing = {}
            for each in about:
                if each.kind in ("same", "different", "skip") and each.seq not in undone and each.source != "review":
                    standing[each.person] = each.kind
            reviews = [e for e in about if e.source == "review" and e.kind != "undo" and e.seq not in undone]
            disagrees = {"same", "different"} <= set(standing.values()) and not reviews
            assert any(found.pair == pair for found in index.disagreements(0, 10)) == disagrees
            settled = index.settled(pair)
            assert (settled and settled.seq) == (reviews[-1].seq if reviews else None)
        for person in PEOPLE:
            kinds = [each.kind for each in given_by_definition(log) if each.person == person]
            counts = index.people[person].counts if person in index.people else {}
            for kind in ("same", "different", "skip"):
                assert counts.get(kind, 0) == kinds.count(kind)


def test_erased_answers_leave_the_index():
    log = [entry(1, "same"), entry(2, "different", person="ben"), entry(3, "same", 1, 2), entry(4, "skip", 2, 3)]
    index = index_of(log)
    with index:
        assert index.n_disagreements == 1
    log[1] = entry(2, "erased", 0, 0, "", at=0)
    log.append(entry(5, "erase", 0, 0, "rex"))
    for _ in range(2):
        with index:
            assert index.n_disagreements == 0
            assert "ben" not in index.people
            assert index.seq == 5
    index.forget()
    log[:] = [entry(1, "same", 4, 5, "eve")]
    with index:
        assert list(index.people) == ["eve"]


def test_figures_of_people_and_couples():
    log, truth = [], {}
    rng = np.random.default_rng(0)
    for left in range(30):
        for person in PEOPLE:
            if rng.random() < 0.8:
                same = truth.setdefault(left, bool(rng.random() < 0.5))
                answer = same if rng.random() < (0.6 if person == "eve" else 0.95) else not same
                log.append(entry(len(log) + 1, "same" if answer else "different", left, 40, person, "repeat"))
    for left in range(5):
        log.append(entry(len(log) + 1, "same" if truth[left] else "different", left, 40, "rex", "review"))
    ratings = np.full((30, 3), -1)
    for each in log:
        if each.person in PEOPLE:
            ratings[each.left, PEOPLE.index(each.person)] = each.kind == "same"
    with index_of(log) as index:
        figures = TeamFigures(index)
        agreement = figures.agreement()
        assert agreement == figures.agreement("repeated")
        assert agreement.alpha == pytest.approx(krippendorff_alpha(ratings))
        assert agreement.n_people == 3
        assert agreement.n_pairs == ((ratings >= 0).sum(axis=1) > 1).sum()
        assert agreement.alpha_interval.low < agreement.alpha < agreement.alpha_interval.high
        for couple in figures.couples():
            first, second = (ratings[:, PEOPLE.index(person)] for person in couple.people)
            np.testing.assert_allclose(couple.kappa, cohen_kappa(first, second))
            assert couple.agreed.n == ((first >= 0) & (second >= 0)).sum()
        people = {each.person: each for each in figures.people(None)}
        assert list(people) == PEOPLE  # a reviewer's decisions are not answers
        eve = people["eve"]
        assert eve.n_same + eve.n_different == (ratings[:, 2] >= 0).sum()
        assert eve.with_settled.n == sum(ratings[left, 2] >= 0 for left in range(5))
        assert eve.with_settled.n_equal == sum(ratings[left, 2] == truth[left] for left in range(5))
        others = [(ratings[:, 2] == ratings[:, k])[(ratings[:, 2] >= 0) & (ratings[:, k] >= 0)] for k in (0, 1)]
        assert eve.with_others == (sum(map(len, others)), int(sum(map(np.sum, others))))
        assert 1.0 <= eve.median_seconds < 5.0


# Repeated pairs.


def test_a_pair_is_repeated_for_people_who_were_not_asked():
    log = [
        entry(1, "same", 0, 1, "anna"),
        entry(2, "same", 0, 2, "anna", "check"),  # its answer was implied
        entry(3, "skip", 0, 3, "anna"),
        entry(4, "same", 0, 4, "anna"),
        entry(5, "undo", 0, 4, "anna", undoes=4),
        entry(6, "different", 0, 5, "anna"),
        entry(7, "different", 0, 5, "rex", "review"),
        entry(8, "same", 0, 6, ""),
        entry(9, "different", 0, 7, "anna"),
        entry(10, "different", 7, 0, "eve", "repeat"),
    ]
    now = [0.0]
    repeats = RepeatedPairs(index_of(log), seed=0, clock=lambda: now[0])
    assert set(repeats.next("ben", 2)) == {0, 1}
    assert repeats.next("ben", 2) is None  # the only one is reserved for ben
    assert set(repeats.next("zoe", 2)) == {0, 1}
    now[0] = 61.0
    assert set(repeats.next("ben", 2)) == {0, 1}
    assert set(repeats.next("ben", 3)) == {0, 7}
    assert repeats.next("anna", 5) is None
    assert repeats.next("", 5) is None
    log.append(entry(11, "skip", 0, 1, "ben", "repeat"))
    now[0] = 200.0
    assert repeats.next("ben", 2) is None


def test_the_share_of_repeated_pairs_is_as_configured():
    repeats = RepeatedPairs(index_of([]), seed=0)
    assert not any(repeats.is_due(0.0) for _ in range(100))
    assert all(repeats.is_due(1.0) for _ in range(100))
    assert 250 < sum(repeats.is_due(0.3) for _ in range(1000)) < 350


def test_people_are_asked_what_others_have_answered(tmp_path):
    with served(tmp_path / "data", some_items(30)) as (client, service):
        for right in range(1, 8):
            compare(client, 0, right, "same" if right % 2 else "different", "anna")
        assert {get(client, "/next-pair", "ben")["source"] for _ in range(20)} <= {"active", "random", "link", "check"}
        changed = client.patch(PATH, json={"repeat_share": 1.0})
        assert changed.json()["repeat_share"] == 1.0
        seen = set()
        for _ in range(7):
            pair = get(client, "/next-pair", "ben")
            assert pair["source"] == "repeat"
            assert "same" not in pair["reason"]
            left, right = pair["left"]["id"], pair["right"]["id"]
            seen.add(frozenset((left, right)))
            body = {"left": left, "right": right, "answer": "different", "ticket": pair["ticket"]}
            post(client, "/comparisons", body, "ben")
        assert seen == {frozenset(("item 0", f"item {right}")) for right in range(1, 8)}
        assert get(client, "/next-pair", "ben")["source"] != "repeat"  # there is nothing left to ask again
        assert get(client, "/next-pair", "anna")["source"] != "repeat"
        assert [each.source for each in service.store.entries("some")][7:] == 7 * ["repeat"]
        report = get(client, "/agreement")
        assert report["repeated"] == report["all"]
        assert (report["all"]["n_pairs"], report["all"]["n_people"], report["all"]["n_answers"]) == (7, 2, 14)
        assert report["all"]["percent"]["value"] == pytest.approx(3 / 7)
        for wrong in ({"repeat_share": 1.5}, {"repeat_people": 1}, {"repeat_share": "x"}):
            assert client.patch(PATH, json=wrong).status_code == 422


# Disagreements.


def test_a_reviewer_settles_disagreements(tmp_path):
    with served(tmp_path / "data", some_items(12)) as (client, service):
        compare(client, 0, 1, "same", "anna")
        compare(client, 1, 0, "different", "ben")
        compare(client, 1, 0, "same", "eve")
        compare(client, 2, 3, "different", "anna")
        compare(client, 2, 3, "same", "ben")
        compare(client, 4, 5, "same", "anna")
        compare(client, 4, 5, "skip", "ben")
        page = get(client, "/disagreements?limit=1")
        assert page["n_disagreements"] == 2
        [first] = page["disagreements"]
        assert {first["left"]["id"], first["right"]["id"]} == {"item 0", "item 1"}
        assert [(each["person"], each["answer"]) for each in first["answers"]] == [
            ("anna", "same"),
            ("ben", "different"),
            ("eve", "same"),
        ]
        [second] = get(client, f"/disagreements?after={page['next']}")["disagreements"]
        assert {second["left"]["id"], second["right"]["id"]} == {"item 2", "item 3"}

        body = {"left": "item 1", "right": "item 0", "answer": "different"}
        settled = post(client, "/disagreements/settle", body, "rex", key="k", status=201)
        assert (settled["n_undone"], settled["repeated"]) == (2, False)
        again = post(client, "/disagreements/settle", body, "rex", key="k", status=200)
        assert again == {**settled, "repeated": True}
        assert post(client, "/disagreements/settle", body, "rex", status=409)["error"]["code"] == "already_settled"
        assert get(client, "/disagreements")["n_disagreements"] == 1
        project = service.project("some")
        assert project.learner.wait(project.seq, 60)
        assert project.view.n_answers == 5  # ben's and rex's, and three others
        assert project.view.graph.implied(0, 1) == -1
        entries = service.store.entries("some")[-3:]
        assert [(each.kind, each.source, each.person) for each in entries] == [
            ("undo", "review", "rex"),
            ("undo", "review", "rex"),
            ("different", "review", "rex"),
        ]
        # People's answers count as they were given.
        people = {each["person"]: each for each in get(client, "/people")["people"]}
        assert people["anna"]["with_settled"] == {"n": 1, "n_equal": 0}
        assert people["ben"]["with_settled"] == {"n": 1, "n_equal": 1}
        assert people["anna"]["n_answers"] == 3
        assert get(client, "/agreement")["all"]["n_pairs"] == 2

        undone = post(client, "/undo", {"seq": settled["last"]}, "rex")
        assert undone["n_undone"] == 1
        assert get(client, "/disagreements")["n_disagreements"] == 1  # the answers that lost stay undone
        assert post(client, "/disagreements/settle", {**body, "answer": "skip"}, "rex")["n_undone"] == 1

        body = {"left": "item 6", "right": "item 7", "answer": "same"}
        assert post(client, "/disagreements/settle", body, status=409)["error"]["code"] == "nothing_to_settle"
        body = {"left": "item 6", "right": "item 6", "answer": "same"}
        post(client, "/disagreements/settle", body, status=422)
        post(client, "/disagreements/settle", {**body, "right": "?"}, status=404)


def test_a_decision_waits_for_no_answer_that_is_undone_meanwhile(tmp_path, monkeypatch):
    with served(tmp_path / "data", some_items(12)) as (client, service):
        compare(client, 0, 1, "same", "anna")
        seq = compare(client, 0, 1, "different", "ben")
        project, store = service.project("some"), service.store
        losing = project.answers.losing

        def undo_meanwhile(pair, answer):
            found = losing(pair, answer)
            if seq in found and not store.undone("some"):
                store.undo("some", seq, "ben").result(20)
            return found

        monkeypatch.setattr(project.answers, "losing", undo_meanwhile)
        body = {"left": "item 0", "right": "item 1", "answer": "same"}
        assert post(client, "/disagreements/settle", body, "rex")["n_undone"] == 0


# Who may see what.


def test_permissions(tmp_path):
    with served(tmp_path / "data", some_items(12), require_token=True) as (client, service):
        with open_tokens(service.settings.folder) as tokens:
            rights = {"reader": "read", "anna": "answer", "ben": "answer", "rex": "review", "boss": "admin"}
            headers = {
                name: {"Authorization": f"Bearer {tokens.create(name, {'some': permission})}"}
                for name, permission in rights.items()
            }
        for name, answer in (("anna", "same"), ("ben", "different")):
            body = {"left": "item 0", "right": "item 1", "answer": answer}
            assert client.post(f"{PATH}/comparisons", json=body, headers=headers[name]).status_code == 201

        def listed(name):
            page = client.get(f"{PATH}/people", headers=headers[name]).json()
            assert (page["n_people"], page["n_answers"], page["n_disagreements"]) == (2, 2, 1)
            return [each["person"] for each in page["people"]]

        assert (listed("reader"), listed("anna"), listed("rex"), listed("boss")) == (
            [],
            ["anna"],
            ["anna", "ben"],
            ["anna", "ben"],
        )
        for name, couples in (("reader", 0), ("anna", 1), ("rex", 1)):
            assert len(client.get(f"{PATH}/agreement", headers=headers[name]).json()["couples"]) == couples
        body = {"left": "item 0", "right": "item 1", "answer": "same"}
        erasure = {"person": "anna", "confirm": "anna"}
        for name, reviews, erases in (("reader", 403, 403), ("ben", 403, 403), ("rex", 200, 403)):
            assert client.get(f"{PATH}/disagreements", headers=headers[name]).status_code == reviews
            assert client.post(f"{PATH}/people/erase", json=erasure, headers=headers[name]).status_code == erases
            learned = client.post(f"{PATH}/people/weights/learn", headers=headers[name])
            assert learned.status_code == 403
            if reviews == 403:
                settled = client.post(f"{PATH}/disagreements/settle", json=body, headers=headers[name])
                assert settled.status_code == 403
        assert client.post(f"{PATH}/disagreements/settle", json=body, headers=headers["rex"]).status_code == 201
        wrong = client.post(f"{PATH}/people/erase", json={**erasure, "confirm": "Anna"}, headers=headers["anna"])
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "not_confirmed")
        erased = client.post(f"{PATH}/people/erase", json=erasure, headers=headers["anna"])
        assert (erased.status_code, erased.json()) == (200, {"n_erased": 1})
        assert b"anna" not in b"".join(repr(each).encode() for each in service.store.entries("some"))
        audit = service.store.audit(action="person.erase")
        assert [(each.who, each.detail) for each in audit] == [("", {"n_erased": 1})]
