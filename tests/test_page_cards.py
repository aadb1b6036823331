"""The cards of items, the project's own question, and progress, in a real browser."""

from __future__ import annotations

import pytest
from test_page import browser, client, seq, server, texts, upload, visit, wines  # noqa: F401  fixtures


@pytest.fixture(scope="module")
def firms(client):  # noqa: F811
    n = 12
    columns = {
        "id": [f"f{i}" for i in range(n)],
        "name": [f"Firm {i} <b>&" for i in range(n)],
        "city": ["Bern" if i % 2 else "Wien" for i in range(n)],
        "homepage": ["https://example.org/a?b=1" if i % 2 else "http://example.net" for i in range(n)],
        "founded": [1900 + i * i for i in range(n)],
        "staff": [(7 * i) % 5 for i in range(n)],
    }
    project = upload(client, "firms", columns)
    question = {"question": "Is this one company?", "guidelines": "Branches are the same.\n<script>alert(1)</script>"}
    client.patch(f"projects/{project}", json=question).raise_for_status()
    return project


def test_a_card_shows_what_names_an_item_and_its_features_on_demand(visit, client, firms):  # noqa: F811
    person = visit(firms)
    page = person.page
    left, _ = person.pair
    item = client.get(f"projects/{firms}/items/{left}").json()
    card = page.locator("#pair article").first
    assert card.locator(".item-title").inner_text() == item["title"]  # markup is shown as text
    assert card.locator(".item-fields dt").all_inner_texts() == list(item["fields"])
    link = card.locator("a.item-link")
    assert link.get_attribute("href").rstrip("/") == item["link"]
    assert set(link.get_attribute("rel").split()) >= {"noopener", "noreferrer"}
    assert link.get_attribute("target") == "_blank"
    assert page.locator("#pair table").count() == 0
    page.get_by_text("Show features").click()
    page.wait_for_selector("#pair tbody th")
    assert set(page.locator("#pair tbody th").all_inner_texts()) == {"founded", "staff"}
    person.press("d")
    page.wait_for_selector(f"#pair article:not([data-item='{left}'])")
    page.wait_for_selector("#pair table")  # the page remembers it
    page.reload()
    person.ready()
    page.wait_for_selector("#pair table")


def test_only_links_to_the_web_are_links(visit, client, firms):  # noqa: F811
    person = visit(firms)
    bad = ["javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "//example.org", "ftp://example.org", "x"]

    def respond(route):
        pair = route.fetch().json()
        route.fulfill(json={**pair, "left": {**pair["left"], "link": bad[0]}})
        bad.append(bad.pop(0))

    person.page.route("**/next-pair", respond)
    person.page.reload()
    person.ready()
    for _ in bad:
        assert person.page.locator("#pair article").first.locator("a").count() == 0
        assert person.page.locator("#pair article").nth(1).locator("a").count() == 1
        person.press("d")
    person.page.unroute_all(behavior="wait")


def test_the_question_and_the_guidelines_are_those_of_the_project(visit, firms, texts):  # noqa: F811
    person = visit(firms)
    page = person.page
    assert person.text("#question-title") == "Is this one company?"
    page.locator("#guidelines summary").click()
    assert person.text("#guidelines-text") == "Branches are the same.\n<script>alert(1)</script>"
    other = visit(texts)
    assert other.text("#question-title") == "Are these two the same?"
    assert other.page.locator("#guidelines").is_hidden()


def test_a_picture_is_enlarged_in_a_dialog_that_zooms(visit):  # noqa: F811
    person = visit()
    page = person.page
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with page.expect_request(lambda request: "size=full" in request.url):
        page.locator("#pair .picture").first.click()
    frame = page.locator(".picture-dialog .zoom-frame")
    page.wait_for_selector(".zoom-frame[data-zoom='1.00']")
    picture = frame.locator("img")
    fitting, box = picture.bounding_box(), frame.bounding_box()
    assert fitting["width"] <= box["width"] + 1
    assert max(fitting["height"] / box["height"], fitting["width"] / box["width"]) == pytest.approx(1, abs=0.02)
    assert axe.run(page).response["violations"] == []
    page.locator(".picture-dialog").get_by_role("button", name="Zoom in").click()
    page.keyboard.press("+")
    assert picture.bounding_box()["width"] == pytest.approx(2.25 * fitting["width"], rel=0.02)
    page.keyboard.press("0")
    assert picture.bounding_box()["width"] == pytest.approx(fitting["width"], rel=0.02)
    page.keyboard.press("Escape")
    page.locator(".picture-dialog").wait_for(state="detached")
    assert person.page.evaluate("document.activeElement.className") == "picture"


PLAIN = {"n": 50, "n_correct": 41}
BARS = ["Learned from answers", "Always the commoner answer", "Plain distance"]


@pytest.mark.parametrize(
    ("pairs", "verdict", "sentence", "bars"),
    [
        (
            {**PLAIN, "n_commoner": 36, "n_euclidean": 30},
            "Yes: teaching has helped.",
            "Right on 41 of 50 random pairs; always giving the commoner answer would be right on 36, "
            "plain distance on 30.",
            dict(zip(BARS, ["82%", "72%", "60%"], strict=True)),
        ),
        (
            {**PLAIN, "n_commoner": 38, "n_euclidean": 36},
            "Perhaps: right more often than the simple rules, but it may be chance.",
            "Right on 41 of 50 random pairs; always giving the commoner answer would be right on 38, "
            "plain distance on 36.",
            dict(zip(BARS, ["82%", "76%", "72%"], strict=True)),
        ),
        (
            {**PLAIN, "n_commoner": 41},
            "Not yet: as good as the best simple rule.",
            "Right on 41 of 50 random pairs; always giving the commoner answer would be right on 41.",
            dict(zip(BARS, ["82%", "82%"], strict=False)),
        ),
        (
            {**PLAIN, "n_euclidean": 45},
            "Not yet: a simple rule is right more often.",
            "Right on 41 of 50 random pairs; plain distance would be right on 45.",
            {BARS[0]: "82%", BARS[2]: "90%"},
        ),
        (PLAIN, "", "Right on 41 of 50 random pairs.", {BARS[0]: "82%"}),
        (
            {"n": 19, "n_correct": 18, "n_commoner": 10, "n_euclidean": 10},
            "Too early to say: 1 more random pair is needed.",
            "Right on 18 of 19 random pairs; always giving the commoner answer would be right on 10, "
            "plain distance on 10.",
            dict(zip(BARS, ["95%", "53%", "53%"], strict=True)),
        ),
    ],
)
def test_whether_teaching_helped_is_shown_beside_simple_rules(visit, client, wines, pairs, verdict, sentence, bars):  # noqa: F811
    person = visit(wines)
    timeline = client.get(f"projects/{wines}/timeline").json()
    person.page.route("**/timeline", lambda route: route.fulfill(json={**timeline, "random_pairs": pairs}))
    person.page.reload()
    person.page.get_by_text(sentence).wait_for()
    frame = person.page.locator("#random-pairs")
    assert frame.locator(".verdict-line").text_content() == verdict
    shown = zip(
        frame.locator(".bar-name").all_inner_texts(), frame.locator(".bar-number").all_inner_texts(), strict=True
    )
    assert dict(shown) == bars
    widths = frame.locator(".fill").evaluate_all("all => all.map((fill) => parseFloat(fill.style.width))")
    assert [round(width) for width in widths] == [int(share.rstrip("%")) for share in bars.values()]


def test_the_course_of_random_pairs_is_a_chart(visit, client):  # noqa: F811
    person = visit()
    timeline = client.get("projects/digits/timeline").json()
    course = {"n": [0, 1, 1, 2, 3], "n_correct": [0, 1, 1, 1, 2], "n_commoner": [0, 1, 1, 2, 2]}
    pairs = {"n": 3, "n_correct": 2, "n_commoner": 2, "course": course}
    person.page.route("**/timeline", lambda route: route.fulfill(json={**timeline, "random_pairs": pairs}))
    person.page.reload()
    person.page.wait_for_selector("#random-pairs .chart canvas")
    assert person.text("#random-pairs .course-title") == "Share of right predictions, over the random pairs"


def test_without_random_pairs_the_page_says_what_comes(visit, client):  # noqa: F811
    empty = upload(client, "no-answers", {"id": list("abcd"), "size": [1, 2, 4, 8]})
    person = visit(empty)
    assert "Some pairs are drawn at random" in person.text("#random-pairs")
    assert "No answers yet." in person.text("#timeline")
    assert "form piles as you answer" in person.text("#implied")
