"""The pages about projects, answers and the team in a real browser, with the real service."""

from __future__ import annotations

import csv
import io
import json

import httpx
import pytest
from browser import Person, Visitor, chromium
from serving import Server
from test_page import files_of
from test_page_words import DATA, FOREIGN, READ_WORDS, pseudo

TAG = "<b>loud</b>"  # must be shown as text
WINES = [
    ("w1", f"Château {TAG}", "Red and heavy; from the south", "12,5", "13,1"),
    ("w2", "Riesling", "Light and dry, from a hill", "8,9", "11,5"),
    ("w3", "Merlot", "Round, plum, some oak", "9,9", "13,5"),
    ("w4", "Silvaner", "Green, herbs, asparagus", "7,5", "12,0"),
    ("w5", "Rosé", "Strawberries and summer", "6,5", "12,2"),
    ("w6", "Grüner Veltliner", "Pepper and lime", "7,9", "12,4"),
]
# As a spreadsheet of a German office writes it: semicolons, decimal commas, and quotes where they are needed.
ROWS = [("id", "Name", "Notes", "price", "alcohol"), *WINES]
WINE_FILE = "\n".join(";".join(f'"{cell}"' if ";" in cell else cell for cell in row) for row in ROWS)
PHONE = {"viewport": {"width": 320, "height": 640}, "is_mobile": True, "has_touch": True}
DESK, WIDTHS = {"viewport": {"width": 1280, "height": 900}}, [1280, 1000]
# Returns the controls that reach over the sides of the window and cannot be scrolled to.
CUT_OFF = """() => [...document.querySelectorAll("main button, main select, main input, dialog[open] *")]
    .filter((each) => each.checkVisibility() && !each.closest(".table-frame, .visually-hidden"))
    .filter((each) => {
        const { left, right } = each.getBoundingClientRect();
        return left < -1 || right > innerWidth + 1;
    })
    .map((each) => each.outerHTML)"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def server(tmp_path_factory, browser):  # the browser first: without it the tests are skipped
    server = Server(tmp_path_factory.mktemp("team") / "data", "--empty")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=f"{server.url}/v1", timeout=20) as client:
        yield client


@pytest.fixture
def visit(browser, server):
    """Return a function that opens a page as a new person; all leave after the test."""
    visitors = []

    def open_page(path, **profile):
        visitors.append(Visitor(browser, server.url, path, **profile))
        return visitors[-1]

    yield open_page
    for visitor in visitors:
        visitor.leave()


@pytest.fixture
def answering(browser, server):
    """Return a function that opens the answering page as a person with a name."""
    people = []

    def open_page(project, name):
        person = Person(browser, server.url, project)
        people.append(person)
        person.page.click("#person")
        person.page.fill("#person-input", name)
        person.page.click("#person-dialog [type=submit]")
        person.page.reload()
        person.ready()
        return person

    yield open_page
    for person in people:
        person.leave()


@pytest.fixture
def wines(client):
    """A fresh project of six wines."""
    names = (f"wines{number}" for number in range(1000))
    known = {project["id"] for project in client.get("projects", params={"archived": "true"}).json()["projects"]}
    name = next(name for name in names if name not in known)
    created = client.post(
        "projects",
        params={"id": name, "format": "csv", "title": f"Wines {TAG}", "item_title": "Name"},
        content=WINE_FILE.encode(),
    )
    assert created.status_code == 201, created.text
    return name


def wine_file(name="wines.csv", encoding="latin-1"):
    return {"name": name, "mimeType": "text/csv", "buffer": WINE_FILE.encode(encoding)}


def say(client, project, person, left, right, answer):
    reply = client.post(
        f"projects/{project}/comparisons",
        json={"left": left, "right": right, "answer": answer},
        headers={"Ocelad-Person": person},
    )
    assert reply.status_code == 201, reply.text


def info(client, project):
    return client.get(f"projects/{project}").json()


def open_form(page):
    """Open the form for a new project, which is open if there is no project."""
    page.wait_for_selector("#project-list:not([aria-busy])", state="attached")
    if page.locator("#create").is_hidden():
        page.click("#new-project")


def upload(visitor, title, **fields):
    """Make a project with the form, and return its id."""
    page = visitor.page
    open_form(page)
    page.set_input_files("#file", wine_file())
    page.wait_for_selector("#columns:not([hidden])")
    page.fill("#title", title)
    for selector, value in fields.items():
        page.fill(f"#{selector.replace('_', '-')}", value)
    page.select_option("#column-item_title", "Name")
    project = page.input_value("#project-id")
    page.click("#submit-create")
    page.wait_for_selector(f"[data-project={project}]")
    return project


def test_the_day_of_a_team(visit, answering, client, tmp_path):
    lead = visit("/projects")
    page = lead.page
    page.wait_for_selector("#create:not([hidden])")
    if not client.get("projects").json()["projects"]:
        assert "Make one from a file" in lead.text("#no-projects")
    project = upload(lead, "Our wines", question_text="Same wine?", guidelines_input="Colour counts.\nPrice does not.")
    assert "6 items, 2 features" in lead.text("[data-banner=created]")
    made = info(client, project)
    assert (made["title"], made["question"]) == ("Our wines", "Same wine?")
    assert made["guidelines"] == "Colour counts.\nPrice does not."
    assert made["cards"]["title"] == "Name"

    page.goto(page.url.replace("/projects", f"/team?project={project}"))
    page.select_option("#repeat-share", "1")
    page.click("#repeats-form [type=submit]")
    page.get_by_role("button", name="Saved").wait_for()
    assert info(client, project)["repeat_share"] == 1

    ann, ben = answering(project, "Ann"), answering(project, "Бен")
    said = [frozenset(ann.press("d")) for _ in range(3)]
    ann.saved()
    ann.sees(3)
    ben.page.reload()
    ben.ready()
    asked = frozenset(ben.press("s"))
    ben.saved()
    assert asked in said  # the pair is asked of a second person
    ben.sees(4)

    page.reload()
    page.wait_for_selector("#dispute:not([hidden])")
    assert "1 pair to settle" in lead.text("#disagreements-hint")
    assert lead.text("#dispute-question") == "Same wine?"
    shown = page.eval_on_selector_all("#dispute-pair [data-item]", "all => all.map((each) => each.dataset.item)")
    assert frozenset(shown) == asked
    rows = page.locator("#dispute-rows tr").all_inner_texts()
    assert {(row.split()[0], row.split()[1]) for row in rows} == {("Ann", "different"), ("Бен", "same")}
    page.keyboard.press("d")
    page.get_by_text("There is nothing to settle").wait_for()
    page.locator("[data-person='Бен'] td").nth(4).get_by_text("0 of 1").wait_for()
    listed = client.get(f"projects/{project}/answers").json()["answers"]
    assert [(each["source"], each["answer"]) for each in listed[:1]] == [("review", "different")]
    assert [each["undone_by"] is not None for each in listed if each["person"] == "Бен"] == [True]

    page.click("nav a[data-page=answers]")
    page.wait_for_selector("#answer-rows tr")
    with page.expect_download() as saving:
        page.click("#export-shown")
    saved = tmp_path / "answers.csv"
    saving.value.save_as(saved)
    exported = list(csv.DictReader(io.StringIO(saved.read_text())))
    assert len(exported) == 5
    for format in ("dedupe", "splink", "zingg", "parquet"):
        page.select_option("#export-format", format)
        with page.expect_download() as saving:
            page.click("#export-all")
        assert saving.value.suggested_filename.startswith(project)
        assert saving.value.path().stat().st_size > 0

    page.click("nav a[data-page=projects]")
    fresh = upload(lead, "Fresh wines")
    page.goto(page.url.split("/projects")[0] + f"/answers?project={fresh}")
    page.get_by_text("Nobody has answered yet.").wait_for()
    page.set_input_files("#import-file", saved)
    page.get_by_text("Import 4 answers").wait_for()  # without the one that was undone
    assert info(client, fresh)["seq"] == 0  # so far it was only checked
    page.click("#import-submit")
    page.locator(".done", has_text="4 answers were imported.").wait_for()
    page.wait_for_selector("#answer-rows tr")
    assert page.locator("#answer-rows tr").count() == 4
    people = [each["person"] for each in client.get(f"projects/{fresh}/answers").json()["answers"]]
    assert sorted(people).count("Ann") == 3

    page.goto(page.url.split("/answers")[0] + "/projects")
    page.click(f"[data-project={project}] [data-action=delete]")
    confirm = page.locator("dialog[open] [type=submit]")
    assert confirm.is_disabled()
    page.fill("#delete-id", project[:-1])
    assert confirm.is_disabled()
    page.fill("#delete-id", project)
    ann.expected_status = ben.expected_status = 404  # their pages notice it
    confirm.click()
    page.wait_for_selector("[data-banner=deleted]")
    assert page.locator(f"[data-project={project}]").count() == 0
    assert client.get(f"projects/{project}").status_code == 404
    assert client.get(f"projects/{fresh}").status_code == 200


def test_a_file_is_dropped_and_its_columns_are_chosen(visit, client):
    visitor = visit("/projects")
    page = visitor.page
    open_form(page)
    page.evaluate(
        """(bytes) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], "Dropped wines.csv"));
            const drop = new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
            document.getElementById("drop-zone").dispatchEvent(drop);
        }""",
        list(WINE_FILE.encode("latin-1")),
    )
    page.wait_for_selector("#columns:not([hidden])")
    assert page.locator("#preview th").all_inner_texts() == ["id", "Name", "Notes", "price", "alcohol"]
    assert page.locator("#preview td").nth(1).inner_text() == f"Château {TAG}"
    assert page.locator("#preview td").nth(2).inner_text() == "Red and heavy; from the south"
    assert page.input_value("#title") == "Dropped wines"
    assert page.input_value("#project-id") == "dropped-wines"
    page.select_option("#columns-features", "chosen")
    features = page.locator(".checks[data-role=features] input")
    assert [each.input_value() for each in features.all() if each.is_checked()] == ["price", "alcohol"]
    page.locator(".checks[data-role=features] input[value=price]").uncheck()
    page.select_option("#columns-show", "chosen")
    page.locator(".checks[data-role=show] input[value=price]").check()
    page.click("#more-settings summary")
    page.select_option("#method", "adaptive-linear")
    page.click("#submit-create")
    page.wait_for_selector("[data-project=dropped-wines]")
    made = info(client, "dropped-wines")
    assert made["feature_names"] == ["alcohol"]
    assert (made["method"], made["curved"]) == ("adaptive", False)
    assert "price" in made["cards"]["fields"]


@pytest.mark.parametrize(
    ("fill", "place", "sentence"),
    [
        ({"project-id": "Not An Id"}, "#id-refused", "lowercase letters"),
        ({"question-text": "a\u2028b"}, "#question-refused", "control characters"),
    ],
)
def test_the_sentence_of_the_service_stands_beside_the_field(visit, fill, place, sentence):
    visitor = visit("/projects")
    visitor.expected_status = 422
    page = visitor.page
    open_form(page)
    page.set_input_files("#file", wine_file("refused.csv"))
    page.wait_for_selector("#columns:not([hidden])")
    page.click("#more-settings summary")
    for name, value in fill.items():
        page.fill(f"#{name}", value)
    page.click("#submit-create")
    page.wait_for_selector(f"{place}:not(:empty)")
    assert sentence in visitor.text(place)
    assert page.locator("[aria-invalid=true]").count() == 1
    assert page.locator("#submit-create").is_enabled()  # the form can be sent again


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("wines.xlsx", b"PK", "Save a spreadsheet as CSV"),
        ("wines.csv", b"id,size\na,1\na,2\n", "id"),
        ("wines.parquet", b"not parquet", ""),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_beside_the_file(visit, client, name, content, sentence):
    visitor = visit("/projects")
    visitor.expected_status = 422
    page = visitor.page
    open_form(page)
    before = len(client.get("projects").json()["projects"])
    page.set_input_files("#file", {"name": name, "mimeType": "", "buffer": content})
    if page.locator("#submit-create").is_enabled():
        page.click("#submit-create")
    page.wait_for_selector("#file-refused:not(:empty)")
    assert sentence in visitor.text("#file-refused")
    assert len(client.get("projects").json()["projects"]) == before


def test_a_project_is_edited_copied_archived_and_restored(visit, client, wines):
    say(client, wines, "ann", "w1", "w2", "same")
    visitor = visit("/projects")
    page = visitor.page
    card = page.locator(f"[data-project={wines}]")
    card.wait_for()
    assert TAG in card.inner_text()
    card.locator("[data-action=settings]").click()
    page.fill("#new-title", "Renamed")
    page.fill("#new-question", "One wine?")
    page.fill("#new-guidelines", "As you like it.")
    page.select_option("#card-text", "")
    page.locator(".checks[data-role=fields] input[value=Notes]").check()
    page.click("dialog[open] [type=submit]")
    page.locator("dialog[open]").wait_for(state="detached")
    card.get_by_role("link", name="Renamed", exact=True).wait_for()
    changed = info(client, wines)
    assert (changed["title"], changed["question"], changed["guidelines"]) == ("Renamed", "One wine?", "As you like it.")
    assert (changed["cards"]["title"], changed["cards"]["text"]) == ("Name", None)
    assert "Notes" in changed["cards"]["fields"]

    for with_answers in (False, True):
        card.locator("[data-action=copy]").click()
        copy = page.input_value("#copy-id")
        page.set_checked("#copy-answers", with_answers)
        page.click("dialog[open] [type=submit]")
        page.locator(f"[data-project={copy}]").wait_for()
        assert info(client, copy)["seq"] == int(with_answers)

    card.locator("[data-action=archive]").click()
    card.wait_for(state="detached")
    assert info(client, wines)["archived_at"] is not None
    page.check("#show-archived")
    card.wait_for()
    card.locator("[data-action=unarchive]").click()
    page.locator(f"[data-project={wines}] [data-action=archive]").wait_for()
    assert info(client, wines)["archived_at"] is None


def test_only_what_is_allowed_is_shown(visit, client, wines):
    say(client, wines, "ann", "w1", "w2", "same")
    visitor = visit("/projects")
    page = visitor.page

    def only_read(route):
        body = route.fetch().json()
        if "projects" in body:
            route.fulfill(json={**body, "projects": [{**each, "permission": "read"} for each in body["projects"]]})
        elif "permissions" in body:
            route.fulfill(json={**body, "permissions": {"*": "read"}})
        elif "permission" in body:
            route.fulfill(json={**body, "permission": "read"})
        else:
            route.fulfill(json=body)

    for pattern in ("**/v1/projects", "**/v1/projects?*", f"**/v1/projects/{wines}", "**/v1/me"):
        page.route(pattern, only_read)
    page.reload()
    page.wait_for_selector(f"[data-project={wines}]")
    assert page.locator("#new-project").is_hidden()
    assert page.locator("[data-action]").count() == 0
    page.goto(page.url.replace("/projects", f"/answers?project={wines}"))
    page.wait_for_selector("#answer-rows tr")
    assert page.locator("#import").is_hidden()
    page.goto(page.url.replace("/answers", "/team"))
    page.wait_for_selector("#people-frame tr")
    for hidden in ("#repeats", "#weights-form", "#audit", "#dispute"):
        assert page.locator(hidden).is_hidden()
    assert page.get_by_role("button", name="Erase").count() == 0


def test_answers_are_filtered_searched_changed_and_undone(visit, client, wines):
    for person, left, right, answer in [
        ("ann", "w1", "w2", "same"),
        ("ben", "w2", "w3", "different"),
        ("ann", "w4", "w5", "skip"),
    ]:
        say(client, wines, person, left, right, answer)
    visitor = visit(f"/answers?project={wines}")
    page = visitor.page

    def shown(n):
        page.wait_for_function("(n) => document.querySelectorAll('#answer-rows tr').length === n", arg=n)
        return [int(row.get_attribute("data-seq")) for row in page.locator("#answer-rows tr").all()]

    assert shown(3) == [3, 2, 1]
    page.fill("#filter-person", "ann")
    assert shown(2) == [3, 1]
    page.select_option("#filter-answer", "same")
    assert shown(1) == [1]
    page.reload()  # the filters are in the address
    assert shown(1) == [1]
    page.click("#filters [type=reset]")
    shown(3)
    page.fill("#filter-search", "plum")
    assert shown(1) == [2]
    page.click("#filters [type=reset]")
    shown(3)
    page.locator("[data-seq='1'] .linklike").nth(1).click()
    assert shown(2) == [2, 1]
    assert page.input_value("#filter-item") == "w2"
    page.fill("#filter-item", "nobody")
    visitor.expected_status = 404
    page.wait_for_selector("#answers-refused:not(:empty)")
    page.click("#filters [type=reset]")
    shown(3)

    page.locator("[data-seq='2'] .change").select_option("same")
    assert shown(4) == [5, 3, 2, 1]
    assert page.locator("[data-seq='2'].undone").count() == 1
    page.locator("[data-seq='1']").get_by_role("button", name="Undo").click()
    page.wait_for_selector("[data-seq='1'].undone")
    page.select_option("#filter-undone", "false")
    assert shown(2) == [5, 3]
    kept = [each for each in client.get(f"projects/{wines}/answers").json()["answers"] if each["undone_by"] is None]
    assert [(each["seq"], each["answer"]) for each in kept] == [(5, "same"), (3, "skip")]


def test_an_import_lists_unknown_items_and_leaves_them_out(visit, client, wines):
    visitor = visit(f"/answers?project={wines}")
    page = visitor.page
    table = f"id_a,id_b,same,person\nw1,w2,yes,cleo\nw3,{TAG},no,cleo\n".encode()
    page.set_input_files("#import-file", {"name": "labels.csv", "mimeType": "text/csv", "buffer": table})
    page.get_by_text("Import 1 answer").wait_for()
    assert TAG in visitor.text(".unknown")
    page.click("#import-submit")
    page.locator(".done", has_text="1 answer was imported.").wait_for()
    assert info(client, wines)["seq"] == 1
    visitor.expected_status = 422
    page.set_input_files("#import-file", {"name": "bad.csv", "mimeType": "text/csv", "buffer": b"x,y\n1,2\n"})
    page.wait_for_selector("#import-refused:not(:empty)")
    assert page.locator("#import-submit").is_hidden()


def test_weights_are_set_and_a_persons_answers_are_erased(visit, client, wines):
    for person, answer in [("ann", "same"), ("ben", "same"), ("cleo", "different")]:
        say(client, wines, person, "w1", "w2", answer)
        say(client, wines, person, "w3", "w4", answer)
    visitor = visit(f"/team?project={wines}")
    page = visitor.page
    page.wait_for_selector("[data-person=cleo]")
    page.check("[name=weights][value=set]")
    page.fill("[data-weight-of=cleo]", "2")
    page.click("#weights-form [type=submit]")
    assert "0 to 1" in visitor.text("#weights-form .refused")
    page.fill("[data-weight-of=cleo]", "0.25")
    page.click("#weights-form [type=submit]")
    page.wait_for_function("() => document.getElementById('announcement').textContent.includes('saved')")
    figures = {each["person"]: each["weight"] for each in client.get(f"projects/{wines}/people").json()["people"]}
    assert figures == {"ann": 1, "ben": 1, "cleo": 0.25}
    page.check("[name=weights][value=learned]")
    page.click("#weights-form [type=submit]")
    page.wait_for_function("() => document.querySelector('[data-weight-of=cleo]').value !== '0.25'")
    assert info(client, wines)["weights"] == "learned"

    page.get_by_role("button", name="Erase the answers of cleo").click()
    assert page.locator("dialog[open] [type=submit]").is_disabled()
    page.fill("#erase-name", "cleo")
    visitor.expected_status = 503  # while the distance is learned again
    page.click("dialog[open] [type=submit]")
    page.locator("[data-person=cleo]").wait_for(state="detached")
    assert {each["person"] for each in client.get(f"projects/{wines}/answers").json()["answers"]} == {"ann", "ben"}


# What each page shows when it is checked.
def open_create(page, wines):
    open_form(page)
    page.set_input_files("#file", wine_file())
    page.wait_for_selector("#columns:not([hidden])")
    page.select_option("#columns-features", "chosen")
    page.click("#more-settings summary")


def open_action(action):
    def open_dialog(page, wines):
        page.click(f"[data-project={wines}] [data-action={action}]")
        page.wait_for_selector("dialog[open]")

    return open_dialog


def open_import(page, wines):
    page.wait_for_selector("#answer-rows tr")
    table = b"id_a,id_b,same\nw1,w2,yes\nw3,nobody,no\n"
    page.set_input_files("#import-file", {"name": "labels.csv", "mimeType": "text/csv", "buffer": table})
    page.wait_for_selector("#import-submit:not([hidden])")


def open_team(page, wines):
    page.wait_for_selector("#dispute:not([hidden])")
    page.wait_for_selector("#audit-list table")
    page.wait_for_selector("#people-frame tr")
    page.click("#agreement summary")
    page.check("[name=weights][value=set]")


def open_erase(page, wines):
    page.wait_for_selector("#audit-list table")
    page.get_by_role("button", name="Erase").first.click()
    page.wait_for_selector("dialog[open]")


def open_nothing(page, wines):
    page.wait_for_selector(".blank-state")


STATES = {
    "create": ("projects", open_create),
    "settings": ("projects", open_action("settings")),
    "copy": ("projects", open_action("copy")),
    "delete": ("projects", open_action("delete")),
    "answers": ("answers?project={wines}", open_import),
    "team": ("team?project={wines}", open_team),
    "erase": ("team?project={wines}", open_erase),
    "nothing": ("team?project=unknown", open_nothing),
}


@pytest.fixture(scope="module")
def disputed(client):
    """A project with answers of two people, who disagree about one of two pairs."""
    created = client.post(
        "projects",
        params={"id": "disputed", "format": "csv", "title": f"Wines {TAG}", "item_title": "Name"},
        content=WINE_FILE.encode(),
    )
    assert created.status_code == 201, created.text
    for person, second in [("ann", "same"), ("a-very-long-name-without-any-space-in-it-of-somebody", "different")]:
        say(client, "disputed", person, "w1", "w2", "same")
        say(client, "disputed", person, "w3", "w4", second)
    return "disputed"


@pytest.mark.parametrize("state", STATES)
def test_the_pages_are_accessible_and_nothing_is_cut_off(visit, disputed, state):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    path, prepare = STATES[state]
    for profile, widths in [(DESK, WIDTHS), (PHONE, [320])]:
        page = visit("/" + path.format(wines=disputed), **profile).page
        prepare(page, disputed)
        for theme in ("light", "dark"):
            page.evaluate("(theme) => (document.documentElement.dataset.theme = theme)", theme)
            found = axe.run(page).response["violations"]
            assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("() => document.documentElement.scrollWidth") == width
            assert page.evaluate(CUT_OFF) == []


@pytest.mark.parametrize("path", ["projects", "answers?project=disputed", "team?project=disputed"])
def test_the_pages_speak_german(visit, disputed, path):
    visitor = visit(f"/{path}", locale="de-DE")
    page = visitor.page
    page.wait_for_selector(f"[data-project={disputed}], #answer-rows tr, #audit-list table")
    assert page.get_attribute("html", "lang") == "de"
    heading = {"projects": "Projekte", "answers": "Antworten", "team": "Sind sich alle einig?"}[path.split("?")[0]]
    assert visitor.text("h1") == heading


@pytest.mark.parametrize("state", STATES)
def test_all_words_of_the_pages_are_in_the_files_of_words(visit, server, disputed, state):
    path, prepare = STATES[state]
    visitor = visit("/projects")
    page = visitor.page
    page.wait_for_selector("html.ready")
    words = page.evaluate(READ_WORDS, f"{files_of(page)}/words/en.js")
    script = "export const words = " + json.dumps({key: pseudo(value) for key, value in words.items()})
    page.route(
        "**/words/en.js", lambda route: route.fulfill(body=script, content_type="text/javascript; charset=utf-8")
    )
    page.goto(f"{server.url}/{path.format(wines=disputed)}")
    prepare(page, disputed)
    data = f"{DATA}, th[scope=row], td, [dir=auto], #preview, option, .checks, .unknown li, #chosen-file, .banner"
    assert page.evaluate(FOREIGN, data) == []
