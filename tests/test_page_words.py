"""The words of the page: one file per language, and nothing beside them, in a real browser."""

from __future__ import annotations

import json
import re
from typing import get_args

import pytest
from test_page import browser, client, files_of, seq, server, texts, upload, visit, wines  # noqa: F401  fixtures

from ocelad.choice import reasons
from ocelad.service.entries import PairSource
from ocelad.service.routes import groups

PLACES = re.compile(r"\{(\w+)\}")
READ_WORDS = "async (address) => (await import(address)).words"


@pytest.fixture(scope="module")
def words(browser, server):  # noqa: F811
    """The words by language."""
    page = browser.new_page()
    page.goto(server.url)
    page.wait_for_selector("html.ready")
    files = files_of(page)
    languages = page.evaluate("async (address) => (await import(address)).LANGUAGES", f"{files}/words.js")
    found = {language: page.evaluate(READ_WORDS, f"{files}/words/{language}.js") for language in languages}
    page.close()
    return found


def forms(value):
    return {"other": value} if isinstance(value, str) else value


def test_all_languages_have_the_same_keys_and_places(words):
    assert {"en", "de"} <= set(words)
    for language, found in words.items():
        assert set(found) == set(words["en"]), language
        for key, value in found.items():
            expected = {place for text in forms(words["en"][key]).values() for place in PLACES.findall(text)}
            for form, text in forms(value).items():
                assert text.strip() == text != "", (language, key)
                missing = expected - set(PLACES.findall(text)) - ({"n"} if form == "one" else set())
                assert not missing, (language, key, form)
                assert set(PLACES.findall(text)) <= expected, (language, key, form)
            if isinstance(value, dict):
                assert set(value) == {"one", "other"}, (language, key)
                assert isinstance(words["en"][key], dict)


# Texts on the page that are not those of the words: data, keys, and names.
DATA = ", ".join(
    (
        "kbd",
        "code",
        ".brand",
        ".letter",
        ".item-id",
        ".item-title",
        ".item-text",
        ".item-fields dd",
        ".item-fields dt",
        ".item-link",
        ".summary-body",
        ".pile-text",
        ".pile-name",
        ".feature-name",
        ".feature-values tbody",
        "#person-name",
        "#project-title",
        "#project-choice option",
        "#language option",
        "#colour-by optgroup option",
        "#question-title",
        "#guidelines-text",
        ".banner p",
        ".u-over",
    )
)
FOREIGN = """(data) => {
    const found = [];
    const MARKED = /⟦[^⟦⟧]*⟧/gu;  // words within words are marked, too
    const unmarked = (text) => (text.match(MARKED) ? unmarked(text.replace(MARKED, "")) : text);
    const isForeign = (text) => /\\p{L}{2}/u.test(unmarked(text));
    const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const { parentElement: parent, textContent } = walker.currentNode;
        if (parent.closest(`script, style, title, ${data}`)) continue;
        if (isForeign(textContent)) found.push(textContent.trim());
    }
    for (const each of document.querySelectorAll("*")) {
        if (each.closest(data)) continue;
        for (const name of ["aria-label", "title", "placeholder", "alt", "aria-description", "aria-roledescription"]) {
            const text = each.getAttribute(name) ?? "";
            const isData = name === "title" && each.textContent.includes(text);
            if (!isData && isForeign(text) && !text.startsWith("ocelad_")) found.push(`${name}: ${text}`);
        }
    }
    return [...new Set(found)];
}"""


def pseudo(value):
    """Mark each text; the values in its places are inside the marks, and do not count."""
    return f"⟦{value}⟧" if isinstance(value, str) else {form: pseudo(text) for form, text in value.items()}


@pytest.fixture
def marked(visit, words):  # noqa: F811
    """Return a function that opens the page with marks around all words, and one that returns texts without marks."""
    script = "export const words = " + json.dumps({key: pseudo(value) for key, value in words["en"].items()})

    def open_page(project):
        person = visit(project)
        person.page.route(
            "**/words/en.js", lambda route: route.fulfill(body=script, content_type="text/javascript; charset=utf-8")
        )
        person.page.reload()
        person.ready()
        return person

    return open_page


def foreign(person):
    return person.page.evaluate(FOREIGN, DATA)


@pytest.mark.parametrize("project", ["digits", "texts", "wines"])
def test_no_words_are_outside_the_files_of_words(marked, client, texts, wines, project):  # noqa: F811
    person = marked(project)
    page = person.page
    first_seq = seq(client, project)
    assert foreign(person) == []
    for key in "sszs":
        person.press(key)
    person.saved()
    person.sees(first_seq + 4)
    page.focus("#map-marks")
    page.keyboard.press("Enter")
    page.wait_for_selector("#neighbors li")
    assert foreign(person) == []
    page.check("#timeline-as-table")
    page.select_option("#colour-by", "neighbors")
    for summary in page.locator("summary:visible").all():
        summary.click()
    page.locator("#piles .pile-open").first.click()
    page.wait_for_selector("#pile-items li")
    assert foreign(person) == []
    page.keyboard.press("Escape")
    page.click("#person")
    page.fill("#person-input", "​")
    page.locator("#person-dialog button[type=submit]").click()
    assert "⟦" in person.text("#person-refused")
    assert foreign(person) == []


def test_blank_states_and_refusals_are_in_the_words(marked, client):  # noqa: F811
    two = upload(client, "two", {"id": list("ab"), "size": [1, 2]})
    person = marked(two)
    person.expected_status = 409
    person.press("d")
    person.page.wait_for_selector("#no-question:not([hidden])")
    assert foreign(person) == []
    body = {"error": {"code": "forbidden", "message": "refused", "where": None}}
    person.page.route("**/undo", lambda route: route.fulfill(status=409, json=body))
    person.page.evaluate("() => (location.search = '?project=unknown')")
    person.page.wait_for_selector(".blank-state")
    assert foreign(person) == []


def test_every_reason_of_the_service_has_words(marked, texts):  # noqa: F811
    person = marked(texts)
    say = "async ([files, pair]) => (await import(`${files}/reasons.js`)).reasonFor(pair)"
    special = [("settle", reasons.AGAIN_REASON), ("settle", reasons.SETTLE_REASON), ("given", groups._ON_REQUEST)]
    special += [("given", groups._IN_ONE_GROUP), ("given", groups._IN_TWO_GROUPS)]
    cases = special + [(source, "A reason.") for source in get_args(PairSource) if source != "import"]
    files = files_of(person.page)
    said = [person.page.evaluate(say, [files, {"source": source, "reason": reason}]) for source, reason in cases]
    assert [text for text in said if not text.startswith("⟦")] == []
    assert len(set(said[:5])) == 5  # each of the special ones has its own


def test_the_language_is_that_of_the_browser_until_another_is_chosen(visit, client):  # noqa: F811
    person = visit(locale="de-AT")
    page = person.page
    assert page.get_attribute("html", "lang") == "de"
    assert page.get_by_role("button", name="Gleich").is_visible()
    assert page.get_by_role("heading", name="Sind diese beiden gleich?").is_visible()
    assert "1.797 Dinge" in page.get_attribute("#map-marks", "aria-label")
    page.select_option("#language", "en")
    page.wait_for_selector("html[lang=en]")
    person.ready()
    assert page.get_by_role("button", name="Same").is_visible()
    assert "1,797 items" in page.get_attribute("#map-marks", "aria-label")
    page.reload()
    person.ready()
    assert page.get_attribute("html", "lang") == "en"


def test_an_unknown_language_is_english(visit):  # noqa: F811
    person = visit(locale="is-IS")
    assert person.page.get_attribute("html", "lang") == "en"
