"""Where things are on the page at several sizes of the window, in a real browser."""

from __future__ import annotations

import random

import pytest
from test_page import browser, client, server, texts, upload, visit, wines  # noqa: F401  fixtures

SIZES = [(1366, 650), (1280, 720), (820, 1180), (1366, 480)]  # laptops, a tablet, short and wide
MOBILE_SIZES = [(390, 844), (844, 390), (320, 568)]  # a phone upright and on its side, a narrow one
# Returns the elements that reach over the sides of the window and cannot be scrolled to.
CUT_OFF = """() => [...document.querySelectorAll("body *")].filter((each) => {
    const { left, right, width, height } = each.getBoundingClientRect();
    if (!width || !height || (left >= 0 && right <= innerWidth + 0.5)) return false;
    if (each.closest(".visually-hidden, .skip-link, svg, .u-wrap, dialog:not([open])")) return false;
    for (let parent = each.parentElement; parent; parent = parent.parentElement) {
        const { overflowX, position, width: size } = getComputedStyle(parent);
        if (overflowX !== "visible") return parent.getBoundingClientRect().right > innerWidth + 0.5;
    }
    return true;
}).map((each) => each.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def long_texts(client):  # noqa: F811
    rng = random.Random(4)
    words = ["bridge", "old", "river", "Donaudampfschifffahrtsgesellschaft", "and", "the", "city", "of", "warm"]
    columns = {
        "id": [f"a-rather-long-identifier-of-an-item-{i}" for i in range(20)],
        "name": [" ".join(rng.choices(words, k=9)) for _ in range(20)],
        "homepage": [f"https://example.org/some/long/path/of/a/page/{i}" for i in range(20)],
        "city": [rng.choice(["Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch", "Bern"]) for _ in range(20)],
        "description": [" ".join(rng.choices(words, k=150)) for _ in range(20)],
        "founded": list(range(20)),
    }
    project = upload(client, "long-texts", columns)
    guidelines = "Two offices of one company are the same. " * 60
    client.patch(f"projects/{project}", json={"guidelines": guidelines}).raise_for_status()
    return project


def in_sight(person, width, height):
    """Check that the answers are fully in the window and in their frame, and that nothing covers them."""
    frame = person.page.locator("#answers").bounding_box()
    for button in person.page.locator("#answers button").all():
        box = button.bounding_box()
        assert frame["x"] <= box["x"] < box["x"] + box["width"] <= frame["x"] + frame["width"] + 0.5
        assert button.evaluate("each => each.scrollWidth <= each.clientWidth + 1"), button.text_content()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= height
        assert box["height"] >= 40
        centre = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        on_top = "([x, y]) => document.elementFromPoint(x, y).closest('#answers button')?.textContent"
        assert person.page.evaluate(on_top, centre) == button.text_content()


@pytest.mark.parametrize("locale", ["en", "de"])
@pytest.mark.parametrize("is_mobile", [False, True])
@pytest.mark.parametrize("name", ["digits", "wines", "long_texts"])
def test_the_answers_are_always_in_sight_and_nothing_is_cut_off(visit, request, name, is_mobile, locale):  # noqa: F811
    project = name if name == "digits" else request.getfixturevalue(name)
    touch = {"is_mobile": True, "has_touch": True} if is_mobile else {}
    person = visit(project, locale=locale, **touch)
    page = person.page
    for width, height in MOBILE_SIZES if is_mobile else SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("() => { document.querySelector('#guidelines').removeAttribute('open'); scrollTo(0, 0); }")
        in_sight(person, width, height)
        assert page.evaluate("() => document.documentElement.scrollWidth") == width
        assert page.evaluate(CUT_OFF) == []
        page.evaluate("() => document.querySelector('#guidelines').setAttribute('open', '')")
        in_sight(person, width, height)
        page.evaluate("() => scrollTo(0, document.body.scrollHeight)")
        in_sight(person, width, height)
        person.press("d")
        person.saved()


def test_the_answers_stay_in_sight_under_a_banner(visit, texts):  # noqa: F811
    person = visit(texts, viewport={"width": 1366, "height": 650})
    body = {"error": {"code": "forbidden", "message": "the test refuses this", "where": None}}
    person.page.route("**/comparisons", lambda route: route.fulfill(status=403, json=body))
    person.expected_status = 403
    person.press("s")
    person.page.wait_for_selector("[data-banner^=held]")
    person.page.wait_for_timeout(200)
    in_sight(person, 1366, 650)
    box = person.page.locator("[data-banner^=held]").bounding_box()
    person.page.evaluate("() => scrollTo(0, document.body.scrollHeight)")
    assert person.page.locator("[data-banner^=held]").bounding_box() == box
    in_sight(person, 1366, 650)


def test_a_long_pair_can_be_scrolled_with_the_keyboard(visit, long_texts):  # noqa: F811
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    person = visit(long_texts, viewport={"width": 1366, "height": 650})
    for theme in ("light", "dark"):
        person.page.click("#theme")
        assert person.page.get_attribute("html", "data-theme") == theme
        found = axe.run(person.page).response["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
    frame = person.page.locator(".pair-frame")
    frame.focus()
    person.page.keyboard.press("End")
    person.page.wait_for_function("() => document.querySelector('.pair-frame').scrollTop > 0")
