"""A login on the page, in Chromium, by an OpenID provider that the test starts."""

from __future__ import annotations

import pytest
from browser import chromium
from openid_provider import CLIENT_ID, CLIENT_SECRET, serving_provider
from serving import served, some_items

SESSION = "ocelad-session"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A service whose only door is a login."""
    with serving_provider() as provider:
        settings = {
            "oidc_issuer": provider.issuer,
            "oidc_client_id": CLIENT_ID,
            "oidc_client_secret": CLIENT_SECRET,
            "login_groups": "tasters=admin",
        }
        with served(tmp_path_factory.mktemp("login") / "data", some_items(), **settings) as (http, service):
            yield provider, str(http.base_url), service


@pytest.fixture(scope="module")
def chrome():
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(chrome):
    context = chrome.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()


def violations(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]


def test_a_person_logs_in_answers_and_logs_out(site, page):
    provider, url, service = site
    provider.claims = {}
    page.goto(f"{url}/?project=some")
    page.wait_for_selector("#token-dialog[open] #login-link:visible")
    assert violations(page) == []
    page.click("#login-link")
    page.wait_for_selector("#pair:not([aria-busy]) [data-item]")
    assert page.url == f"{url}/?project=some"
    assert page.evaluate("document.cookie") == ""  # no script can read the session
    (cookie,) = page.context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == (SESSION, True, "Lax")
    page.wait_for_function("document.getElementById('person-name').textContent === 'anna@example.org'")
    before = service.store.project("some").seq
    page.keyboard.press("s")
    page.wait_for_selector("body[data-unsent='0']")
    (entry,) = service.store.entries("some", before)
    assert entry.person == "anna@example.org"
    page.click("#person")
    page.click("#log-out")
    page.wait_for_selector("#token-dialog[open] #login-link:visible")
    assert page.context.cookies() == []
    assert [each.action for each in service.store.audit(who="anna@example.org")] == ["login", "logout"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_refused_login_is_a_page_with_one_sentence_and_a_way_on(site, page, theme):
    provider, url, _ = site
    provider.claims = {"aud": "somebody else"}
    page.emulate_media(color_scheme=theme)
    page.goto(f"{url}/?project=some")
    page.click("#login-link")
    page.wait_for_selector("h1")
    assert "another service" in page.locator("main").inner_text()
    assert violations(page) == []
    assert page.context.cookies() == []
    provider.claims = {}
    page.keyboard.press("Tab")  # to the link "Log in again"
    page.keyboard.press("Enter")
    page.wait_for_selector("#pair:not([aria-busy]) [data-item]")
