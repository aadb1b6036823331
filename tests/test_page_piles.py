"""The piles on the page, in a real browser with the real service."""

from __future__ import annotations

import csv
from itertools import count

import pytest
from playwright.sync_api import expect
from test_page import browser, client, log, seq, server, upload, visit  # noqa: F401  fixtures

N_LETTERS = 40
numbers = count(1)


@pytest.fixture
def letters(client):  # noqa: F811
    """A project of texts whose first ten items are in three piles: 0 to 4, 5 to 7, 8 and 9."""
    columns = {
        "id": [f"t{i}" for i in range(N_LETTERS)],
        "review": [f"{'abcd'[i % 4]} word{i}" for i in range(N_LETTERS)],
    }
    project = upload(client, f"letters-{next(numbers)}", columns)
    answer(
        client, project, *[(0, i, True) for i in (1, 2, 3, 4)], (5, 6, True), (5, 7, True), (8, 9, True), (0, 5, False)
    )
    return project


def answer(client, project, *pairs):  # noqa: F811
    new = [
        {"left": f"t{left}", "right": f"t{right}", "answer": "same" if same else "different"}
        for left, right, same in pairs
    ]
    client.post(f"projects/{project}/comparisons", json={"comparisons": new}).raise_for_status()


def piles(person):
    """Return the piles on the page: the id, the name and the size of each."""
    return person.page.eval_on_selector_all(
        "#piles .pile",
        """all => all.map((pile) => [
            pile.dataset.group,
            pile.querySelector(".pile-name").value,
            parseInt(pile.querySelector(".pile-size").textContent, 10),
        ])""",
    )


def pile(person, id):
    return person.page.locator(f"#piles .pile[data-group='{id}']")


def waits_for(person, *expected):
    """Wait until the page shows these piles."""
    person.page.wait_for_function(
        """(expected) => JSON.stringify([...document.querySelectorAll("#piles .pile")].map((pile) => [
            pile.dataset.group,
            pile.querySelector(".pile-name").value,
            parseInt(pile.querySelector(".pile-size").textContent, 10),
        ])) === JSON.stringify(expected)""",
        arg=[list(each) for each in expected],
    )


THREE = ("t0", "", 5), ("t5", "", 3), ("t8", "", 2)


def test_piles_and_what_the_answers_imply(visit, client, letters):  # noqa: F811
    person = visit(letters)
    person.sees(seq(client, letters))
    assert piles(person) == [list(each) for each in THREE]
    # Within the piles 10 + 3 + 1 pairs, and 15 between the first two.
    assert person.text("#implied") == "8 answers imply 29 comparisons and 3 piles."
    texts = pile(person, "t0").locator(".pile-text").all_inner_texts()
    assert texts == ["a word0", "b word1"]
    assert pile(person, "t0").inner_text().endswith("and 3 others")
    assert person.page.locator("#contradictions").is_hidden()
    assert person.page.locator("#more-piles").is_hidden()


def test_two_piles_are_merged_by_keyboard_and_the_merge_is_undone(visit, client, letters):  # noqa: F811
    person, first_seq = visit(letters), seq(client, letters)
    person.sees(first_seq)
    page = person.page
    merge = page.get_by_role("button", name="Merge")
    assert merge.is_disabled()
    for id in ("t5", "t8"):
        page.get_by_label(f"Select pile of {id}").focus()
        page.keyboard.press("Space")
    merge.focus()
    page.keyboard.press("Enter")
    waits_for(person, ("t0", "", 5), ("t5", "", 5))
    person.saved()
    assert merge.is_disabled()
    entries = log(client, letters, first_seq)
    assert [(entry["kind"], entry["bundle"]) for entry in entries] == [("same", first_seq + 1)] * 2
    person.press("z")
    waits_for(person, *THREE)
    assert page.locator("#announcement").text_content() == "Undone: the merge of two piles."
    assert [entry["kind"] for entry in log(client, letters, first_seq + 2)] == ["undo"] * 2


def test_a_pile_is_dragged_onto_another_one(visit, client, letters):  # noqa: F811
    person = visit(letters)
    person.sees(seq(client, letters))
    pile(person, "t8").locator(".pile-size").drag_to(pile(person, "t0"))
    waits_for(person, ("t0", "", 7), ("t5", "", 3))


def test_items_are_split_off_an_open_pile(visit, client, letters):  # noqa: F811
    person, first_seq = visit(letters), seq(client, letters)
    person.sees(first_seq)
    page = person.page
    page.get_by_role("button", name="Open pile of t0: 5 items").click()
    dialog = page.locator("#pile-dialog")
    split = dialog.get_by_role("button", name="Split off")
    dialog.locator("[data-item=t4]").wait_for()
    assert dialog.locator("[data-item]").count() == 5
    assert split.is_disabled()
    page.keyboard.press("s")  # no answer while the dialog is open
    for id in ("t0", "t1", "t2", "t3", "t4"):
        dialog.locator(f"[data-item={id}]").check()
    assert split.is_disabled()  # nothing would be left
    for id in ("t0", "t1", "t2"):
        dialog.locator(f"[data-item={id}]").uncheck()
    assert split.inner_text() == "Split off 2 items"
    split.click()
    waits_for(person, ("t0", "", 3), ("t5", "", 3), ("t3", "", 2), ("t8", "", 2))
    assert dialog.is_hidden()
    person.press("z")
    waits_for(person, *THREE)
    assert {entry["kind"] for entry in log(client, letters, first_seq)} == {"same", "different", "undo"}


def test_a_name_is_edited_and_survives_answers_and_a_reload(visit, client, letters):  # noqa: F811
    person = visit(letters)
    person.sees(seq(client, letters))
    page, name = person.page, page_name(person, "t5")
    name.fill("short <b>ones</b>")
    answer(client, letters, (8, 10, True))  # the pile of t8 grows while the name is edited
    person.page.wait_for_function("(seq) => document.body.dataset.seq === String(seq)", arg=seq(client, letters))
    page.wait_for_timeout(500)
    assert name.input_value() == "short <b>ones</b>"
    assert page.evaluate("document.activeElement.classList.contains('pile-name')")
    name.press("Enter")
    waits_for(person, ("t0", "", 5), ("t5", "short <b>ones</b>", 3), ("t8", "", 3))
    page.reload()
    person.ready()
    waits_for(person, ("t0", "", 5), ("t5", "short <b>ones</b>", 3), ("t8", "", 3))
    page_name(person, "t5").fill("  ")  # an empty name changes nothing
    page_name(person, "t5").press("Enter")
    page_name(person, "t0").fill("long ones")
    page_name(person, "t0").press("Escape")
    person.saved()
    person.press("z")  # the last change of this person was the name, before the reload
    waits_for(person, *THREE[:2], ("t8", "", 3))
    assert page.locator("#announcement").text_content() == "Undone: the name of the pile of t5."
    assert [entry["kind"] for entry in log(client, letters, 8)] == ["same", "name", "undo"]


def page_name(person, id):
    return person.page.get_by_label(f"Name of the pile of {id}")


def test_a_contradiction_is_asked_as_the_next_question(visit, client, letters):  # noqa: F811
    answer(client, letters, (1, 2, True), (3, 4, True), (1, 3, False))
    person, first_seq = visit(letters), seq(client, letters)
    person.sees(first_seq)
    before = person.pair
    row = person.page.locator("#contradiction-list li")
    assert row.count() == 1
    assert row.get_by_text("different, but in one pile").is_visible()
    row.get_by_role("button").click()
    person.page.wait_for_selector("#pair [data-item=t1] + [data-item=t3]")
    assert person.pair == ("t1", "t3")
    assert person.text("#reason").startswith("Answers contradict each other: most say that these two are different")
    assert person.page.evaluate("document.activeElement.id") == "question"
    person.press("s")
    person.saved()
    if set(before) != {"t1", "t3"}:  # the service may have asked about it by itself
        assert person.pair == before  # the pair that was shown comes next
    person.sees(first_seq + 1)
    expect(person.page.locator("#contradictions")).to_be_hidden()
    last = log(client, letters, first_seq)[-1]
    assert [last[name] for name in ("kind", "left", "right", "source")] == ["same", "t1", "t3", "given"]


def test_a_rejected_change_is_reported_and_is_not_undone(visit, client, letters):  # noqa: F811
    person, first_seq = visit(letters), seq(client, letters)
    person.sees(first_seq)
    person.page.route("**/groups?*", lambda route: route.abort())  # the page does not learn of the other merge
    client.post(f"projects/{letters}/groups/merge", json={"left": "t5", "right": "t8"}).raise_for_status()
    person.expected_status = 409
    for id in ("t5", "t8"):
        person.page.get_by_label(f"Select pile of {id}").check()
    person.page.get_by_role("button", name="Merge").click()
    person.page.get_by_text("'t5' and 't8' are in one group already").wait_for()
    person.page.unroute_all(behavior="wait")
    person.press("z")  # there is nothing of this person to undo
    person.page.get_by_text("has no answer left to undo").wait_for()
    assert seq(client, letters) == first_seq + 2


def test_many_piles_are_listed_in_pages(visit, client):  # noqa: F811
    rows = {"id": [f"t{i}" for i in range(600)], "x": [i % 17 for i in range(600)], "y": [i % 5 for i in range(600)]}
    many = upload(client, "many-piles", rows)
    answer(client, many, *[(0, i, True) for i in range(1, 100)], *[(i, i + 1, True) for i in range(100, 160, 2)])
    person = visit(many)
    person.sees(seq(client, many))
    assert len(piles(person)) == 12
    person.page.get_by_role("button", name="Show more piles").click()
    person.page.wait_for_selector("#more-piles[hidden]", state="attached")
    assert len(piles(person)) == 31
    person.page.get_by_role("button", name="Open pile of t0: 100 items").click()
    person.page.locator("#pile-dialog [data-item=t59]").wait_for()
    assert person.page.locator("#pile-dialog [data-item]").count() == 60
    person.page.get_by_role("button", name="Show more items").click()
    person.page.locator("#pile-dialog [data-item=t99]").wait_for()
    assert person.page.locator("#pile-dialog [data-item]").count() == 100
    assert person.page.get_by_role("button", name="Show more items").is_hidden()


def test_piles_are_exported_as_csv(visit, client, letters):  # noqa: F811
    client.post(f"projects/{letters}/groups/name", json={"item": "t6", "name": "five"}).raise_for_status()
    person = visit(letters)
    person.sees(seq(client, letters))
    with person.page.expect_download() as download:
        person.page.get_by_role("link", name="Export as CSV").click()
    assert download.value.suggested_filename == f"{letters}-groups.csv"
    with open(download.value.path(), newline="") as file:
        rows = {row["id"]: (row["group"], row["name"]) for row in csv.DictReader(file)}
    assert len(rows) == N_LETTERS
    assert rows["t4"] == ("t0", "")
    assert rows["t7"] == ("t5", "five")
    assert rows["t30"] == ("t30", "")


def test_a_project_without_groups_has_no_piles(visit, client):  # noqa: F811
    table = "id,x\n" + "\n".join(f"t{i},{i % 7}" for i in range(12))
    parameters = {"id": "no-piles", "format": "csv", "transitive": "false"}
    client.post("projects", params=parameters, content=table).raise_for_status()
    person = visit("no-piles")
    person.press("s")
    person.sees(1)
    assert person.page.locator("#piles-panel").is_hidden()


def test_a_reader_sees_the_piles_and_cannot_change_them(browser, server, client, letters):  # noqa: F811
    answer(client, letters, (1, 2, True), (3, 4, True), (1, 3, False))
    with browser.new_context() as context:
        page = context.new_page()

        def only_read(route):
            body = route.fetch().json()
            route.fulfill(json={"projects": [{**each, "permission": "read"} for each in body["projects"]]})

        page.route("**/v1/projects", only_read)
        page.goto(f"{server.url}/?project={letters}")
        page.locator("#contradiction-list li").wait_for()
        assert page.locator("#piles .pile").count() == 3
        panel = page.locator("#piles-panel")
        assert panel.get_by_role("checkbox").count() == panel.get_by_role("button", name="Merge").count() == 0
        assert page.locator("#contradiction-list button").count() == 0
        assert not page.get_by_label("Name of the pile of t0").is_editable()
        page.get_by_role("button", name="Open pile of t0: 5 items").click()
        page.locator("#pile-items li").nth(4).wait_for()
        assert page.locator("#pile-dialog").get_by_role("button").all_inner_texts() == ["Close"]


def test_the_piles_are_accessible(visit, client, letters):  # noqa: F811
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    answer(client, letters, (1, 2, True), (3, 4, True), (1, 3, False))
    person = visit(letters)
    person.sees(seq(client, letters))
    person.page.get_by_label("Select pile of t0").check()
    for theme in ("light", "dark"):
        person.page.emulate_media(color_scheme=theme)
        assert axe.run(person.page).response["violations"] == []
        person.page.get_by_role("button", name="Open pile of t0: 5 items").click()
        person.page.locator("#pile-dialog [data-item=t4]").check()
        assert axe.run(person.page).response["violations"] == []
        person.page.keyboard.press("Escape")
        assert person.page.evaluate("document.activeElement.className") == "pile-open"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_of_the_piles_is_cut_off(visit, client, letters, width, scheme):  # noqa: F811
    client.post(
        f"projects/{letters}/groups/name", json={"item": "t0", "name": "a very long name " * 5}
    ).raise_for_status()
    person = visit(letters, viewport={"width": width, "height": 800}, color_scheme=scheme)
    person.sees(seq(client, letters))
    cut_off = """(root) => [...document.querySelectorAll(`${root}, ${root} *`)].filter((each) => {
        const { left, right, width } = each.getBoundingClientRect();
        return width && (left < -0.5 || right > innerWidth + 0.5) && !each.closest(".visually-hidden");
    }).map((each) => each.className)"""
    assert person.page.evaluate(cut_off, "#piles-panel") == []
    person.page.get_by_role("button", name="5 items").click()
    person.page.locator("#pile-dialog [data-item=t4]").wait_for()
    assert person.page.evaluate(cut_off, "#pile-dialog") == []
    assert person.page.evaluate("document.documentElement.scrollWidth") == width
    colours = person.page.eval_on_selector(".pile", "(pile) => getComputedStyle(pile).backgroundColor")
    assert colours == ("rgb(245, 244, 240)" if scheme == "light" else "rgb(21, 26, 29)")
