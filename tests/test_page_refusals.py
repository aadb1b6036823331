"""Answers that the service refuses stay in the browser until the person decides, in a real browser."""

from __future__ import annotations

import json

import pytest
from test_page import browser, client, log, seq, server, texts, visit, wines  # noqa: F401  fixtures

SENTENCE = "the test refuses this"
BANNER = "[data-banner^=held]"


def refuse(person, project, status, code="refused"):
    """Let the page see a service that refuses the answers of a project."""
    body = {"error": {"code": code, "message": SENTENCE, "where": None}}
    person.page.route(f"**/projects/{project}/comparisons", lambda route: route.fulfill(status=status, json=body))
    person.expected_status = status


def held(person, n):
    person.page.wait_for_selector(f"body[data-held='{n}'][data-unsent='0']")


def stored_keys(person):
    return person.page.evaluate("() => Object.keys(localStorage).filter((key) => key.startsWith('ocelad.unsent.'))")


def pairs(client, project, after):  # noqa: F811
    return [(entry["kind"], entry["left"], entry["right"]) for entry in log(client, project, after)]


@pytest.mark.parametrize(("status", "code"), [(403, "forbidden"), (404, "unknown_project"), (421, "misdirected")])
def test_refused_answers_are_kept_over_a_reload_and_sent_when_the_person_tries_again(
    visit,  # noqa: F811
    client,  # noqa: F811
    texts,  # noqa: F811
    status,
    code,
):
    person, first_seq = visit(texts), seq(client, texts)
    refuse(person, texts, status, code)
    given = [("same", *person.press("s")), ("different", *person.press("d"))]
    held(person, 2)
    banner = person.page.locator(BANNER)
    assert "refused 2 answers" in banner.inner_text()
    assert SENTENCE in banner.inner_text().lower()
    person.page.reload()  # without a question: nothing would be lost
    held(person, 2)
    assert len(stored_keys(person)) == 2
    banner.get_by_role("button", name="Try again").click()
    held(person, 2)  # it is refused again
    person.page.unroute_all()
    banner.get_by_role("button", name="Try again").click()
    held(person, 0)
    assert pairs(client, texts, first_seq) == given
    assert stored_keys(person) == []
    assert banner.count() == 0


def test_refused_answers_are_saved_as_a_file_and_discarded_only_after_a_question(visit, client, texts):  # noqa: F811
    person, first_seq = visit(texts), seq(client, texts)
    refuse(person, texts, 403)
    given = [("same", *person.press("s")), ("skip", *person.press(" "))]
    held(person, 2)
    banner = person.page.locator(BANNER)
    with person.page.expect_download() as download:
        banner.get_by_role("button", name="Save as a file").click()
    file = json.loads(download.value.path().read_text())
    assert (file["project"], file["refused"]) == (texts, SENTENCE)
    assert [(each["answer"], each["left"], each["right"]) for each in file["requests"]] == given
    assert {each["person"] for each in file["requests"]} == {person.text("#person-name")}
    assert len(stored_keys(person)) == 2  # a file is no reason to remove them
    dialog = person.page.locator("dialog[open]")
    banner.get_by_role("button", name="Discard").click()
    assert "Discard 2 answers?" in dialog.inner_text()
    dialog.get_by_role("button", name="Cancel").click()
    assert len(stored_keys(person)) == 2
    banner.get_by_role("button", name="Discard").click()
    dialog.get_by_role("button", name="Discard").click()
    held(person, 0)
    assert stored_keys(person) == []
    assert pairs(client, texts, first_seq) == []


def test_the_refusal_of_one_project_does_not_delay_the_answers_of_another(
    visit,  # noqa: F811
    client,  # noqa: F811
    server,  # noqa: F811
    texts,  # noqa: F811
    wines,  # noqa: F811
):
    person, first_seq = visit(texts), seq(client, wines)
    refuse(person, texts, 404, "unknown_project")
    person.press("s")
    held(person, 1)
    person.page.goto(f"{server.url}/?project={wines}")
    held(person, 1)
    person.ready()
    given = ("different", *person.press("d"))
    person.saved()
    assert pairs(client, wines, first_seq) == [given]
    assert f"“{texts}”" in person.page.locator(BANNER).inner_text()


@pytest.mark.parametrize("status", [409, 422])
def test_an_invalid_answer_is_kept_and_the_next_ones_are_stored(visit, client, texts, status):  # noqa: F811
    person, first_seq = visit(texts), seq(client, texts)
    refuse(person, texts, status, "invalid")
    refused = ("same", *person.press("s"))
    held(person, 1)
    person.page.unroute_all()
    given = ("different", *person.press("d"))
    person.saved()
    held(person, 1)
    assert pairs(client, texts, first_seq) == [given]
    person.page.locator(BANNER).get_by_role("button", name="Try again").click()
    held(person, 0)
    assert pairs(client, texts, first_seq) == [given, refused]


def test_the_undo_of_a_refused_answer_withdraws_it(visit, client, texts):  # noqa: F811
    person, first_seq = visit(texts), seq(client, texts)
    person.press("s")
    person.saved()
    refuse(person, texts, 403)
    first = person.press("d")
    held(person, 1)
    person.press("z")
    held(person, 0)
    assert person.pair == first  # it is shown again
    assert stored_keys(person) == []
    assert [kind for kind, *_ in pairs(client, texts, first_seq)] == ["same"]


def test_a_refusal_of_a_second_tab_is_settled_in_both(visit, client, server, texts):  # noqa: F811
    person, first_seq = visit(texts), seq(client, texts)
    refuse(person, texts, 403)
    person.press("s")
    held(person, 1)
    other = person.page.context.new_page()
    other.goto(f"{server.url}/?project={texts}")  # it sends what the first tab could not
    held(person, 0)
    assert [kind for kind, *_ in pairs(client, texts, first_seq)] == ["same"]
    other.close()
