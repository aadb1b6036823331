"""Keys that are pressed faster than pairs arrive, in a real browser."""

from __future__ import annotations

import re

import pytest
from test_page import browser, client, log, seq, server, texts, upload, visit  # noqa: F401  fixtures


def slow_pairs(person, milliseconds):
    def respond(route):
        person.page.wait_for_timeout(milliseconds)
        route.continue_()

    person.page.route("**/next-pair", respond)


@pytest.mark.parametrize("project", ["texts", "digits"])
def test_ten_quick_keys_are_ten_answers(visit, client, texts, project):  # noqa: F811
    person, first_seq = visit(project), seq(client, project)
    keys = "sdsdddsdss"
    for key in keys:
        person.page.keyboard.press(key)
    person.sees(first_seq + 10)
    entries = log(client, project, first_seq)
    assert [entry["kind"][0] for entry in entries] == list(keys)
    assert len({frozenset((entry["left"], entry["right"])) for entry in entries}) == 10


def test_an_undo_among_quick_keys_undoes_the_answer_before_it(visit, client, texts):  # noqa: F811
    person, first_seq = visit(texts), seq(client, texts)
    slow_pairs(person, 100)
    for key in "sszdzzs":
        person.page.keyboard.press(key)
    person.page.wait_for_selector(f"body[data-seq='{first_seq + 7}']")
    person.page.unroute_all(behavior="wait")
    entries = log(client, texts, first_seq)
    assert [entry["kind"] for entry in entries] == ["same", "same", "undo", "different", "undo", "undo", "same"]
    pairs = [(entry["left"], entry["right"]) for entry in entries]
    assert pairs[1] == pairs[2] == pairs[3] == pairs[4] != pairs[0] == pairs[5] == pairs[6]
    assert [entry["undoes"] for entry in entries if entry["undoes"]] == [first_seq + number for number in (2, 4, 1)]


def test_a_pair_has_been_shown_before_a_key_answers_it(visit, client, texts):  # noqa: F811
    """Each pair that is answered was painted with its two items."""
    person, first_seq = visit(texts), seq(client, texts)
    person.page.evaluate("""() => {
        window.seen = [];
        const look = () => {
            const items = [...document.querySelectorAll("#pair [data-item]")].map((each) => each.dataset.item);
            if (JSON.stringify(items) !== JSON.stringify(window.seen.at(-1))) window.seen.push(items);
            requestAnimationFrame(look);
        };
        look();
    }""")
    for key in "sdsds":
        person.page.keyboard.press(key)
    person.sees(first_seq + 5)
    seen = [tuple(items) for items in person.page.evaluate("() => window.seen")]
    answered = [(entry["left"], entry["right"]) for entry in log(client, texts, first_seq)]
    assert [pair for pair in seen if pair in answered] == answered


def test_keys_for_which_no_pair_is_left_are_reported(visit, client):  # noqa: F811
    three = upload(client, "three", {"id": list("abc"), "size": [1, 2, 4]})
    person = visit(three)
    person.expected_status = 409  # no pair is left
    # The page learns that no pair is left only after all keys: a key on a page that shows no pair is no typed answer.
    held, release = [], False
    person.page.route("**/next-pair", lambda route: route.continue_() if release else held.append(route))
    for _ in range(5):
        person.page.keyboard.press("d")
    release = True
    for route in held:
        route.continue_()
    unused = person.page.get_by_text(re.compile(r"\d key press(es were| was) not used"))
    unused.wait_for()
    n_unused = int(unused.inner_text()[0])
    person.page.unroute_all(behavior="wait")
    person.saved()
    assert n_unused > 0
    assert len(log(client, three)) == 5 - n_unused
    assert "Nothing is left to ask" in person.text("#no-question")
