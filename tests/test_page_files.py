"""The files of the page: versions never mix, and a page of another version offers to reload."""

from __future__ import annotations

import re

import pytest
from serving import served, some_items
from test_page import browser, client, files_of, log, seq, server, texts, visit  # noqa: F401  fixtures

from ocelad.service.page_files import PAGE, PageFiles


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with served(tmp_path_factory.mktemp("files") / "data", some_items()) as (client, _):  # noqa: F811
        yield client


def test_the_files_of_a_page_are_cached_forever_and_the_page_itself_is_checked(http):
    page = http.get("/")
    assert (page.status_code, page.headers["cache-control"]) == (200, "no-cache")
    addresses = re.findall(r'(?:src|href)="(static/[^"]+)"', page.text)
    assert len(addresses) >= 5
    digest = http.get("/v1/health").json()["page"]
    for address in addresses:
        assert address.startswith(f"static/{digest}/")
        for method in ("GET", "HEAD"):
            file = http.request(method, f"/{address}")
            assert (file.status_code, file.headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
            assert file.headers["x-content-type-options"] == "nosniff"
            assert "content-security-policy" in file.headers
    again = http.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_every_file_of_the_folder_is_served_as_it_is(http):
    digest = http.get("/v1/health").json()["page"]
    files = [path for path in PAGE.rglob("*") if path.suffix in (".js", ".css", ".svg")]
    assert len(files) > 30
    for path in files:
        file = http.get(f"/static/{digest}/{path.relative_to(PAGE).as_posix()}")
        assert (file.status_code, file.content) == (200, path.read_bytes())


@pytest.mark.parametrize(
    "path", ["0123456789abcdef/main.js", "main.js", "index.html", "", "{digest}/index.html", "{digest}/"]
)
def test_files_of_another_version_are_not_found_and_not_stored(http, path):
    digest = http.get("/v1/health").json()["page"]
    file = http.get("/static/" + path.replace("{digest}", digest))
    assert (file.status_code, file.headers["cache-control"]) == (404, "no-store")
    assert file.json()["error"]["code"] == "not_found"


def test_any_change_of_a_file_changes_the_digest(tmp_path):
    def digest(**files):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for name, content in files.items():
            (folder / name.replace("_", ".")).write_text(content)
        return PageFiles(folder).digest

    digests = [digest(index_html="a", a_js="b"), digest(index_html="a", a_js="c"), digest(index_html="ab", a_js="")]
    digests += [digest(index_html="a", b_js="b"), digest(index_html="c", a_js="b")]
    assert len(set(digests)) == 5
    assert digest(index_html="a", a_js="b") == digests[0]


def test_each_html_file_is_a_page_with_the_digest_and_the_names_of_all(tmp_path):
    (tmp_path / "index.html").write_text('<html data-pages=""><script src="static/a.js"></script>')
    (tmp_path / "team.html").write_text("<p>")
    (tmp_path / "notes.txt").write_text("not served")
    files = PageFiles(tmp_path)
    assert files.paths == {"/", "/team"}
    expected = f'<html data-pages="index team"><script src="static/{files.digest}/a.js"></script>'
    assert files._pages["index"].decode() == expected


def test_a_link_on_another_site_may_open_the_pages_only(http):
    foreign = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert http.get("/", headers=foreign).status_code == 200
    digest = http.get("/v1/health").json()["page"]
    for path in ("/v1/projects", f"/static/{digest}/main.js", "/metrics"):
        assert http.get(path, headers=foreign).status_code == 403


def test_a_page_of_another_version_offers_to_reload_and_keeps_answering(visit, client, texts):  # noqa: F811
    person, first_seq = visit(texts), seq(client, texts)
    page = person.page
    page.route("**/v1/health", lambda route: route.fulfill(json={"status": "ok", "version": "9", "page": "f" * 16}))
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
    reload = page.get_by_role("button", name="Reload")
    reload.wait_for()
    person.press("s")
    person.saved()
    assert len(log(client, texts, first_seq)) == 1
    with page.expect_navigation():
        reload.click()
    page.unroute_all()
    person.ready()
    assert page.locator(".banner").count() == 0


def test_a_restarted_service_of_another_version_is_noticed(visit, server, client, texts):  # noqa: F811
    person = visit(texts)
    person.page.wait_for_selector("body[data-connection='live']")
    person.page.route(
        "**/v1/health", lambda route: route.fulfill(json={"status": "ok", "version": "9", "page": "f" * 16})
    )
    server.kill()
    person.page.wait_for_selector("body[data-connection='reconnecting']")
    server.start()
    person.page.get_by_text("The service has a new version of this page.").wait_for()


@pytest.mark.parametrize("name", ["main.js", "dom.js", "style.css", "words/en.js"])
def test_a_file_that_cannot_be_loaded_leads_to_a_reload_and_then_to_a_sentence(browser, server, name):  # noqa: F811
    context = browser.new_context()
    page = context.new_page()
    loads = []
    page.on("request", lambda request: loads.append(request.url) if request.is_navigation_request() else None)
    page.route(f"**/{name}", lambda route: route.fulfill(status=404))
    page.goto(server.url)
    page.get_by_text("A part of the page could not be loaded.").wait_for()
    assert len(loads) == 2  # it tried once more
    page.unroute_all()
    page.get_by_role("button", name="Reload").click()
    page.wait_for_selector("#pair:not([aria-busy]) [data-item]")
    context.close()


def test_a_name_in_any_script_is_stored_and_shown(visit, client, texts):  # noqa: F811
    person, first_seq = visit(texts), seq(client, texts)
    page = person.page
    refused = page.locator("#person-refused")
    page.click("#person")
    for bad in ("a\u200bb", "a\u202eb", "a/b", "<b>", "ㅤ", "ä" * 65):
        page.fill("#person-input", bad)
        page.keyboard.press("Enter")
        assert "letters or digits of any script" in refused.inner_text()
    names = ["Zoë O’Neil", "李雷", "דנה", "Дмитрий", "नेहा", "e\u0301va"]
    for name in names:
        page.fill("#person-input", name)
        page.keyboard.press("Enter")
        page.wait_for_selector("#person-dialog:not([open])", state="attached")
        person.press("s")
        person.saved()
        page.click("#person")
    page.keyboard.press("Escape")
    stored = [entry["person"] for entry in log(client, texts, first_seq)]
    assert stored == [*names[:-1], "éva"]
    assert person.text("#person-name") == "éva"
    assert files_of(page)
