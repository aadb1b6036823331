"""The page in a real browser, at the real service."""

from __future__ import annotations

import random
import re

import httpx
import pytest
from browser import Person, chromium
from serving import Server
from sklearn.datasets import load_digits, load_wine

WORDS = ["The", "cat", "sat", "on", "a", "mat,", "red", "soft", "and", "very", "warm", "naïve", "it's", "日本"]
TAG = "<b>loud</b>"  # a word like others


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


class Service:
    """The service, which can be gone for a while."""

    def __init__(self, folder):
        self._folder, self._server = folder, Server(folder, "--demo")
        self.url, self.running = self._server.url, True

    def kill(self):
        self._server.kill()
        self.running = False

    def start(self):
        self._server, self.running = Server(self._folder, "--port", self.url.rsplit(":", 1)[1]), True

    def stop(self):
        if self.running:
            self._server.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory, browser):  # the browser first: without one no service is needed
    server = Service(tmp_path_factory.mktemp("page") / "data")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=f"{server.url}/v1", timeout=20) as client:
        yield client


@pytest.fixture
def visit(browser, server):
    """People who come to the page, and go after the test."""
    people = []

    def come(project="digits", **profile):
        people.append(Person(browser, server.url, project, **profile))
        return people[-1]

    yield come
    for person in people:
        person.leave()


def upload(client, name, columns):
    """A new project of a table; its name."""
    rows = [columns, *zip(*columns.values(), strict=True)]
    table = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)
    reply = client.post("projects", params={"id": name, "format": "csv"}, content=table)
    assert reply.status_code == 201, reply.text
    return name


@pytest.fixture(scope="module")
def texts(client):
    rng = random.Random(3)
    reviews = [" ".join([*rng.choices(WORDS, k=9), TAG]) for _ in range(30)]
    return upload(client, "texts", {"id": [f"t{i}" for i in range(30)], "review": reviews})


@pytest.fixture(scope="module")
def wines(client):
    wine = load_wine()
    columns = dict(zip(wine.feature_names, wine.data.T.tolist(), strict=True))
    return upload(client, "wines", {"id": [f"wine {i}" for i in range(len(wine.data))], **columns})


def seq(client, project):
    return client.get(f"projects/{project}").json()["seq"]


def listed(client, path, what, after=None):
    found = []
    while True:
        page = client.get(f"projects/{path}", params={} if after is None else {"after": after}).json()
        found, after = found + page[what], page["next"]
        if after is None:
            return found


def items(client, project):
    return listed(client, f"{project}/items", "items")


def log(client, project, after=0):
    return listed(client, f"{project}/history", "entries", after)


def test_thirty_answers_by_keyboard_an_undo_and_a_reload(visit, client):
    person, begun = visit(), seq(client, "digits")
    digits = {item["id"]: item["fields"]["digit"] for item in items(client, "digits")}
    rows = int(person.page.get_attribute("#timeline-table", "data-rows"))
    drawn, moved = person.picture_of_map(), int(person.page.get_attribute("#map-marks", "data-moved"))
    answered = []
    for _ in range(30):
        left, right = person.pair
        answer = "same" if digits[left] == digits[right] else "different"
        answered.append((answer, *person.press(answer[0])))
    person.saved()
    person.sees(begun + 30)

    kept = log(client, "digits", begun)
    assert [(entry["kind"], entry["left"], entry["right"]) for entry in kept] == answered
    assert len({frozenset(pair) for _, *pair in answered}) == 30  # no pair was asked twice
    assert {entry["who"] for entry in kept} == {person.text("#person-name")}
    assert person.picture_of_map() != drawn
    assert int(person.page.get_attribute("#map-marks", "data-moved")) > moved
    assert int(person.page.get_attribute("#timeline-table", "data-rows")) == rows + 30
    assert person.text("#n-answers") == str(rows + 30)
    assert "30" in person.page.locator("#told").text_content()

    person.press("z")
    person.saved()
    person.sees(begun + 31)
    assert person.pair == answered[-1][1:]  # it is asked again
    assert log(client, "digits", begun)[-1]["undoes"] == begun + 30
    assert person.text("#n-answers") == str(rows + 29)

    person.page.reload()
    person.ready()
    person.page.wait_for_selector(f"#timeline-table[data-rows='{rows + 29}']", state="attached")
    assert person.text("#n-answers") == str(rows + 29)
    assert len(log(client, "digits", begun)) == 31


def test_a_pair_is_not_asked_twice_in_a_row(visit, texts):
    person, replies = visit(texts), []

    def repeat(route):
        replies.append(replies[0] if 0 < len(replies) < 3 else route.fetch().json())
        route.fulfill(json=replies[-1])

    person.page.route("**/next-pair", repeat)
    asked = [person.press("d") for _ in range(4)]
    person.page.unroute_all(behavior="wait")
    repeated = (replies[0]["left"]["id"], replies[0]["right"]["id"])
    assert asked[2] == repeated != asked[3]


def test_the_last_pairs_are_asked_once_each(visit, client):
    few = upload(client, "few", {"id": list("abcd"), "size": [1, 2, 4, 8], "age": [3, 1, 4, 1]})
    person = visit(few)

    def acknowledge_late(route):
        person.page.wait_for_timeout(150)  # the next pair is asked for before the service has the answer
        route.continue_()

    person.page.route("**/comparisons", acknowledge_late)
    person.expected = 409  # that nothing is left to ask
    asked = [frozenset(person.press("d")) for _ in range(6)]
    person.page.wait_for_selector("#no-question:not([hidden])", timeout=10_000)
    person.saved()
    assert person.page.get_by_role("button", name="Same").is_disabled()
    assert {frozenset((entry["left"], entry["right"])) for entry in log(client, few)} == set(asked)
    assert len(set(asked)) == len(log(client, few)) == 6


# A map of its own: four grey points in the corners, which stay there, and a red one that goes from left to right.
MAP_OF_FIVE = """async () => {
    const { ItemMap } = await import("/static/map.js");
    const [points, marks] = ["points", "marks"].map(() => document.createElement("canvas"));
    for (const canvas of [points, marks]) {
        Object.assign(canvas.style, { position: "fixed", inset: "0", width: "400px", height: "400px" });
        document.body.append(canvas);
    }
    const map = new ItemMap(points, marks, { pointed() {}, opened() {} });
    const [ground, ink] = [[255, 255, 255], [0, 0, 0]];
    const [grey, red] = [0xff888888, 0xff0000ff];
    map.paint({
        colours: Uint32Array.of(grey, grey, grey, grey, red),
        order: Uint32Array.of(0, 1, 2, 3, 4),
        palette: { ground, ink, same: ink, different: ink },
    });
    window.moveTheRedOneTo = (x) => map.move(Float32Array.of(-1, -1, 1, -1, 1, 1, -1, 1, x, 0));
    window.whereTheRedOneIs = () => {
        const copy = new OffscreenCanvas(points.width, points.height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(points, 0, 0);
        const { data, width } = copy.getImageData(0, 0, points.width, points.height);
        const found = [];
        for (let i = 0; i < data.length; i += 4) if (data[i] === 255 && data[i + 1] === 0) found.push((i / 4) % width);
        return found.reduce((sum, x) => sum + x, 0) / found.length / width;
    };
}"""


@pytest.mark.parametrize("wish", ["no-preference", "reduce"])
def test_points_travel_unless_less_motion_is_wanted(visit, wish):
    page = visit(reduced_motion=wish).page
    page.clock.install()  # time passes when it is told to
    page.clock.pause_at(page.evaluate("() => Date.now() + 10_000"))
    page.evaluate(MAP_OF_FIVE)

    def place_after(milliseconds):
        page.clock.run_for(milliseconds)
        return page.evaluate("() => whereTheRedOneIs()")

    page.evaluate("() => moveTheRedOneTo(-0.5)")
    left = place_after(1000)
    page.evaluate("() => moveTheRedOneTo(0.5)")
    if wish == "reduce":
        assert place_after(20) == place_after(1000) == pytest.approx(1 - left, abs=0.01)
        return
    on_the_way = [place_after(100) for _ in range(3)]
    assert left < on_the_way[0] < on_the_way[1] < on_the_way[2] == pytest.approx(0.5, abs=0.05)
    page.evaluate("() => moveTheRedOneTo(-0.5)")  # it turns around where it is
    assert place_after(20) == pytest.approx(on_the_way[2], abs=0.02)
    assert place_after(1000) == pytest.approx(left, abs=0.01)


def test_what_keys_do_depends_on_where_they_are_pressed(visit, client, texts):
    person, begun = visit(texts), seq(client, texts)
    page = person.page
    page.focus("#colour-by")
    page.keyboard.press("s")
    page.click("#person")
    page.keyboard.type("sds")
    page.keyboard.press("Escape")
    person.press(" ")  # the button that opened the dialog has the focus, because it was clicked: it is not meant
    page.focus("[data-answer=same]")
    person.press(" ")  # this one is
    page.wait_for_selector("#pair:not([aria-busy])")
    page.click("[data-answer=different]")
    person.press(" ")
    page.click("#help")
    page.click("#keys-on")
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    person.saved()
    assert [entry["kind"] for entry in log(client, texts, begun)] == ["skip", "same", "different", "skip"]


def test_two_people_see_each_others_answers(visit, client, texts):
    one, other, begun = visit(texts), visit(texts), seq(client, texts)
    before, answers = other.picture_of_map(), int(one.text("#n-answers"))
    for key in "sdsd":
        one.press(key)
    other.sees(begun + 4)
    other.press("s")
    for person in (one, other):
        person.sees(begun + 5)
        assert person.text("#n-answers") == str(answers + 5)
    assert other.picture_of_map() != before
    names = [person.text("#person-name") for person in (one, other)]
    assert [entry["who"] for entry in log(client, texts, begun)] == [names[0]] * 4 + [names[1]]
    other.page.get_by_text(f"Live, with {names[0]}").wait_for()


def test_a_lost_connection_misses_nothing_and_sends_everything_once(visit, server, client):
    person, begun = visit(), seq(client, "digits")
    answers = int(person.text("#n-answers"))
    person.page.clock.install()
    server.kill()
    person.page.wait_for_selector("body[data-connection='reconnecting']")
    given = [person.press("d"), person.press("s")]  # the one that is shown, and the one that was ahead
    person.page.get_by_text("2 changes not saved yet").wait_for()
    server.start()
    left, right, *_ = items(client, "digits")
    other = {"left": left["id"], "right": right["id"], "answer": "skip"}
    client.post("projects/digits/comparisons", json={"comparisons": [other] * 300}).raise_for_status()
    person.page.clock.fast_forward(6_000)  # longer than it waits before it tries again
    person.saved()
    person.sees(begun + 302)
    assert person.page.get_attribute("body", "data-heard") == "302"  # each of them, and once
    assert person.text("#n-answers") == str(answers + 2)
    kept = [(entry["kind"], entry["left"], entry["right"]) for entry in log(client, "digits", begun) if entry["who"]]
    assert kept == [("different", *given[0]), ("same", *given[1])]
    assert person.text("#saved") == ""
    person.ready()  # there is a pair again


def test_a_tab_that_nobody_looks_at_rests_and_misses_nothing(visit, client, texts):
    person, begun = visit(texts), seq(client, texts)
    page = person.page
    page.wait_for_selector("body[data-connection='live']")
    look = """(away) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => away });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.clock.install()
    page.evaluate(look, True)
    page.clock.fast_forward(70_000)
    page.wait_for_selector("body[data-connection='reconnecting']")
    page.clock.fast_forward(70_000)
    left, right, *_ = items(client, texts)
    new = {"left": left["id"], "right": right["id"], "answer": "same"}
    client.post(f"projects/{texts}/comparisons", json=new).raise_for_status()
    page.wait_for_timeout(300)  # in which it would connect, if it did
    assert page.get_attribute("body", "data-connection") == "reconnecting"
    page.evaluate(look, False)
    person.sees(begun + 1)
    assert page.get_attribute("body", "data-heard") == "1"


def test_an_answer_whose_acknowledgement_is_lost_counts_once(visit, client, texts):
    person, begun = visit(texts), seq(client, texts)
    lost = []

    def lose_the_first(route):
        if lost:
            route.continue_()
        else:
            lost.append(route.fetch().status)
            route.abort()

    person.page.route("**/comparisons", lose_the_first)
    person.press("s")
    person.saved()
    person.sees(begun + 1)
    assert lost == [201]
    assert [entry["kind"] for entry in log(client, texts, begun)] == ["same"]


def test_answers_that_could_not_be_sent_outlive_a_reload(visit, client, texts):
    person, begun = visit(texts), seq(client, texts)
    person.page.route("**/comparisons", lambda route: route.abort())
    given = [person.press("s"), person.press("d")]
    person.page.get_by_text("2 changes not saved yet").wait_for()
    asked = []
    person.page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    person.page.reload()
    assert asked == ["beforeunload"]
    person.page.unroute("**/comparisons")
    person.ready()
    person.saved()
    assert [(entry["left"], entry["right"]) for entry in log(client, texts, begun)] == given


def test_a_phone(visit, client, texts, wines):
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    for project in ("digits", texts, wines):
        person = visit(project, **phone)
        begun = seq(client, project)
        wide = person.page.evaluate("() => document.documentElement.scrollWidth")
        assert wide == 390
        for name in ("Same", "Different", "Skip", "Undo"):
            box = person.page.get_by_role("button", name=name).bounding_box()
            assert box["height"] >= 44
            assert box["y"] + box["height"] <= 844
        person.page.tap("[data-answer=different]")
        person.saved()
        person.sees(begun + 1)
        assert [entry["kind"] for entry in log(client, project, begun)] == ["different"]


@pytest.mark.parametrize("project", ["digits", "texts", "wines"])
def test_nothing_that_keeps_people_out(visit, project, texts, wines):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    person = visit(project)
    page = person.page

    def violations():
        found = axe.run(page).response["violations"]
        return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]

    person.press("s")
    person.saved()
    page.focus("#map-marks")
    page.keyboard.press("Enter")
    page.wait_for_selector("#neighbors li")
    for theme in ("light", "dark"):
        page.click("#theme")
        assert page.get_attribute("html", "data-theme") == theme
        assert violations() == []
    page.check("#timeline-as-table")
    page.select_option("#colour-by", "neighbors")
    page.click("#help")
    assert violations() == []


def test_the_items_that_are_nearest_now(visit, client):
    person = visit()
    page = person.page
    frame = page.locator("#map-marks").bounding_box()
    page.mouse.move(frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2)
    pointed = page.locator("#tooltip .item-id").inner_text()
    page.mouse.down()
    page.mouse.up()
    page.wait_for_selector("#neighbors li")
    told = client.get("projects/digits/neighbors", params={"item": pointed, "k": 10}).json()["neighbors"]
    assert page.locator("#neighbors .summary.of .item-id").inner_text() == pointed
    assert page.locator("#neighbors li .item-id").all_inner_texts() == [each["item"]["id"] for each in told]
    assert page.locator("#neighbors li img").count() == 10
    page.locator("#neighbors li button").first.click()
    page.locator(f"#neighbors .summary.of >> text={told[0]['item']['id']}").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_selector("#neighbors", state="hidden")


def test_colours_of_the_map(visit, client):
    person = visit()
    page, legend = person.page, person.page.locator("#legend")
    assert legend.get_by_role("button").count() == 6
    page.select_option("#n-clusters", "3")
    legend.get_by_role("button").nth(3).wait_for(state="detached")
    pictures = [person.picture_of_map()]
    page.select_option("#colour-by", "column:parity")
    sizes = {name: sum(digit % 2 == odd for digit in load_digits().target) for name, odd in (("even", 0), ("odd", 1))}
    legend.get_by_text("odd").wait_for()
    shown = [
        re.fullmatch(r"(\w+)\s*([\d,]+)", entry).groups() for entry in legend.get_by_role("button").all_inner_texts()
    ]
    assert {name: int(size.replace(",", "")) for name, size in shown} == sizes
    pictures.append(person.picture_of_map())
    legend.get_by_role("button").first.click()
    pictures.append(person.picture_of_map())
    page.select_option("#colour-by", "neighbors")
    frame = page.locator("#map-marks").bounding_box()
    page.mouse.move(frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2)
    legend.get_by_text("50th neighbour").wait_for()
    pictures.append(person.picture_of_map())
    assert len(set(pictures)) == 4


def test_keys_and_wheel_move_the_map_and_0_shows_all(visit):
    person = visit()
    page, seen = person.page, [person.picture_of_map()]
    page.focus("#map-marks")
    for key in ("+", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
        seen.append(person.picture_of_map())
    page.keyboard.press("-")
    assert person.picture_of_map() == seen[0]
    page.mouse.move(*(page.locator("#map-marks").bounding_box()[side] + 200 for side in "xy"))
    page.mouse.wheel(0, -300)
    seen.append(person.picture_of_map())
    assert len(set(seen)) == len(seen)
    page.keyboard.press("0")
    assert person.picture_of_map() == seen[0]


def test_words_that_differ_are_marked(visit, client, texts):
    person = visit(texts)
    shown = dict(zip(person.pair, person.page.locator("#pair .item-text").all_text_contents(), strict=True))
    assert shown == {item["id"]: item["text"] for item in items(client, texts) if item["id"] in shown}
    assert person.page.locator("#pair b").count() == 0
    assert person.page.locator("#pair mark").count() > 0
    rng = random.Random(5)
    cases = [
        [" ".join(rng.choices([TAG, *WORDS][:size], k=rng.randint(0, 12))) for _ in "ab"]
        for size in (2, 5, 15)
        for _ in range(60)
    ]
    compare = """async (cases) => {
        const { differingWords } = await import("/static/words.js");
        return cases.map(([left, right]) => differingWords(left, right));
    }"""
    for (left, right), runs in zip(cases, person.page.evaluate(compare, cases), strict=True):
        assert ["".join(run["text"] for run in side) for side in runs] == [left, right]
        kept = [[word for run in side if not run["differs"] for word in words(run["text"])] for side in runs]
        assert kept[0] == kept[1]
        assert len(kept[0]) == common_length(words(left), words(right))


def words(text):
    return re.findall(r"\w+(?:['’_-]\w+)*", text.lower())


def common_length(left, right):
    """Of the longest sequence that both have, by the textbook's recurrence."""
    above = [0] * (len(right) + 1)
    for word in left:
        row = [0]
        for j, other in enumerate(right):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
        above = row
    return above[-1]


def test_feature_values_that_differ_are_marked(visit, client, wines):
    person = visit(wines)
    left, right = person.pair
    features = [client.get(f"projects/{wines}/items/{id}").json()["features"] for id in (left, right)]
    page = person.page
    page.locator("#pair summary").click()
    page.wait_for_selector("#pair details td")
    rows = page.locator("#pair tbody tr").all()
    names = [row.locator("th").inner_text() for row in rows]
    assert sorted(names) == sorted(features[0])
    marked = [name for name, row in zip(names, rows, strict=True) if row.locator("mark").count()]
    assert marked
    assert marked == names[: len(marked)]  # the largest differences first
    for row, name in zip(rows, names, strict=True):
        for cell, values in zip(row.locator("td").all(), features, strict=False):
            assert float(cell.inner_text().replace(",", "")) == pytest.approx(values[name], rel=0.006)


def test_a_refusal_is_told_in_its_sentence(visit, texts):
    person = visit(texts)
    person.expected = 409
    person.page.keyboard.press("z")
    told = person.page.locator("[role=alert] .problem")
    told.wait_for()
    assert f"'{person.text('#person-name')}' has no answer" in told.inner_text()
    person.saved()  # it is not sent again and again
    told.get_by_role("button").click()
    assert person.page.locator(".problem").count() == 0


def test_a_token_is_asked_for_once_and_sent(browser, server, texts):
    context = browser.new_context()
    page = context.new_page()
    good, sent = "Bearer ocelad_first", []

    def guard(route):
        headers = route.request.headers
        sent.append(headers.pop("authorization", None))
        if sent[-1] == good:
            route.continue_(headers=headers)
        else:
            body = {"error": {"code": "unauthorized", "message": "a token is needed", "where": None}}
            route.fulfill(status=401, json=body)

    def give(token, why):
        page.get_by_text(why).wait_for()
        page.get_by_role("textbox", name="Token").fill(token)
        page.keyboard.press("Enter")

    page.route("**/v1/**", guard)
    page.goto(f"{server.url}/?project={texts}")
    give("ocelad_first", "This service asks for a token.")
    page.wait_for_selector("#pair:not([aria-busy]) [data-item]")
    assert sent.count(None) == 1
    assert set(sent) == {None, good}
    good = "Bearer ocelad_second"  # as if the first had been revoked: several requests are refused at once
    page.keyboard.press("s")
    page.keyboard.press("d")
    give("ocelad_second", "This token is not known here, or was revoked.")
    page.wait_for_selector("body[data-unsent='0']")
    page.wait_for_selector("#pair:not([aria-busy]) [data-item]")
    assert page.evaluate("() => Object.values(localStorage).join().includes('ocelad_')") is False
    context.close()


def test_a_project_that_is_not_there_leaves_a_choice_of_those_that_are(browser, server, texts):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{server.url}/?project=nowhere")
    page.get_by_text('There is no project "nowhere" that you may see.').wait_for()
    assert page.get_by_role("button", name="Same").count() == 0
    page.select_option("#project-choice", texts)
    page.wait_for_selector("#pair:not([aria-busy]) [data-item]")
    assert page.input_value("#project-choice") == texts
    context.close()


def test_who_may_only_read_is_asked_nothing(browser, server, texts):
    context = browser.new_context()
    page = context.new_page()

    def only_read(route):
        body = route.fetch().json()
        route.fulfill(json={"projects": [{**each, "right": "read"} for each in body["projects"]]})

    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.route("**/v1/projects", only_read)
    page.goto(f"{server.url}/?project={texts}")
    page.get_by_text("You may look at this project, but not answer in it.").wait_for()
    page.wait_for_selector("#map-marks:not([data-moved='0'])")
    page.keyboard.press("s")
    assert page.get_by_role("button", name="Same").count() == 0
    assert not any("next-pair" in url or "comparisons" in url for url in asked)
    context.close()
