"""The page in a real browser, with the real service."""

from __future__ import annotations

import random
import re

import httpx
import pytest
from browser import Person, chromium
from serving import Server
from sklearn.datasets import load_digits, load_wine

WORDS = ["The", "cat", "sat", "on", "a", "mat,", "red", "soft", "and", "very", "warm", "naïve", "it's", "日本"]
TAG = "<b>loud</b>"  # must be shown as text


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


class Service:
    """A service that can be killed and restarted."""

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
def server(tmp_path_factory, browser):  # the browser first: without it the tests are skipped
    server = Service(tmp_path_factory.mktemp("page") / "data")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def client(server):
    with httpx.Client(base_url=f"{server.url}/v1", timeout=20) as client:
        yield client


@pytest.fixture
def visit(browser, server):
    """Return a function that opens the page as a new person; all leave after the test."""
    people = []

    def open_page(project="digits", **profile):
        people.append(Person(browser, server.url, project, **profile))
        return people[-1]

    yield open_page
    for person in people:
        person.leave()


def upload(client, name, columns):
    """Create a project from a table and return its name."""
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


def read_pages(client, path, key, after=None):
    found = []
    while True:
        page = client.get(f"projects/{path}", params={} if after is None else {"after": after}).json()
        found, after = found + page[key], page["next"]
        if after is None:
            return found


def items(client, project):
    return read_pages(client, f"{project}/items", "items")


def log(client, project, after=0):
    return read_pages(client, f"{project}/history", "entries", after)


def test_thirty_answers_by_keyboard_an_undo_and_a_reload(visit, client):
    person, first_seq = visit(), seq(client, "digits")
    digit = client.get("projects/digits/columns/digit").json()["values"]
    digits = {item["id"]: digit[item["position"]] for item in items(client, "digits")}
    rows = int(person.page.get_attribute("#timeline-table", "data-rows"))
    picture, moved = person.picture_of_map(), int(person.page.get_attribute("#map-marks", "data-moved"))
    answered = []
    for _ in range(30):
        left, right = person.pair
        answer = "same" if digits[left] == digits[right] else "different"
        answered.append((answer, *person.press(answer[0])))
    person.saved()
    person.sees(first_seq + 30)

    entries = log(client, "digits", first_seq)
    assert [(entry["kind"], entry["left"], entry["right"]) for entry in entries] == answered
    assert len({frozenset(pair) for _, *pair in answered}) == 30  # no pair was asked twice
    assert {entry["person"] for entry in entries} == {person.text("#person-name")}
    assert person.picture_of_map() != picture
    assert int(person.page.get_attribute("#map-marks", "data-moved")) > moved
    assert int(person.page.get_attribute("#timeline-table", "data-rows")) == rows + 30
    assert person.text("#n-answers") == str(rows + 30)
    assert "30" in person.page.locator("#announcement").text_content()

    person.press("z")
    person.saved()
    person.sees(first_seq + 31)
    assert person.pair == answered[-1][1:]  # it is shown again
    assert log(client, "digits", first_seq)[-1]["undoes"] == first_seq + 30
    assert person.text("#n-answers") == str(rows + 29)

    person.page.reload()
    person.ready()
    person.page.wait_for_selector(f"#timeline-table[data-rows='{rows + 29}']", state="attached")
    assert person.text("#n-answers") == str(rows + 29)
    assert len(log(client, "digits", first_seq)) == 31


def test_a_pair_is_not_asked_twice(visit, texts):
    person, replies = visit(texts), []

    def repeat(route):  # the service proposes each pair twice
        replies.append(replies[-1] if len(replies) % 2 else route.fetch().json())
        route.fulfill(json=replies[-1])

    person.page.route("**/next-pair", repeat)
    asked = [frozenset(person.press("d")) for _ in range(6)]
    person.page.unroute_all(behavior="wait")
    assert len(set(asked)) == 6
    assert len(replies) > 4


def test_the_last_pairs_are_asked_once_each(visit, client):
    few = upload(client, "few", {"id": list("abcd"), "size": [1, 2, 4, 8], "age": [3, 1, 4, 1]})
    person = visit(few)

    def acknowledge_late(route):
        person.page.wait_for_timeout(150)  # the next pair is requested before the service has stored the answer
        route.continue_()

    person.page.route("**/comparisons", acknowledge_late)
    person.expected_status = 409  # no pair is left
    asked = [frozenset(person.press("d")) for _ in range(6)]
    person.page.wait_for_selector("#no-question:not([hidden])", timeout=10_000)
    person.saved()
    assert person.page.get_by_role("button", name="Same").is_disabled()
    assert {frozenset((entry["left"], entry["right"])) for entry in log(client, few)} == set(asked)
    assert len(set(asked)) == len(log(client, few)) == 6


def files_of(page):
    """Return the address of the folder with the files of the page."""
    return page.evaluate("() => document.querySelector('script[type=module]').src.replace(/\\/[^/]*$/, '')")


# A separate map: four fixed grey points in the corners, and a red one that moves.
MAP_OF_FIVE = """async (files) => {
    const { ItemMap } = await import(`${files}/map.js`);
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
    window.moveRedPoint = (x) => map.move(Float32Array.of(-1, -1, 1, -1, 1, 1, -1, 1, x, 0));
    window.redPointX = () => {
        const copy = new OffscreenCanvas(points.width, points.height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(points, 0, 0);
        const { data, width } = copy.getImageData(0, 0, points.width, points.height);
        const found = [];
        for (let i = 0; i < data.length; i += 4) if (data[i] === 255 && data[i + 1] === 0) found.push((i / 4) % width);
        return found.reduce((sum, x) => sum + x, 0) / found.length / width;
    };
}"""


@pytest.mark.parametrize("preference", ["no-preference", "reduce"])
def test_points_are_animated_unless_reduced_motion_is_preferred(visit, preference):
    page = visit(reduced_motion=preference).page
    page.clock.install()  # the test controls the time
    page.clock.pause_at(page.evaluate("() => Date.now() + 10_000"))
    page.evaluate(MAP_OF_FIVE, files_of(page))

    def x_after(milliseconds):
        page.clock.run_for(milliseconds)
        return page.evaluate("() => redPointX()")

    page.evaluate("() => moveRedPoint(-0.5)")
    left = x_after(1000)
    page.evaluate("() => moveRedPoint(0.5)")
    if preference == "reduce":
        assert x_after(20) == x_after(1000) == pytest.approx(1 - left, abs=0.01)
        return
    on_its_way = [x_after(100) for _ in range(3)]
    assert left < on_its_way[0] < on_its_way[1] < on_its_way[2] == pytest.approx(0.5, abs=0.05)
    page.evaluate("() => moveRedPoint(-0.5)")  # it reverses from where it is
    assert x_after(20) == pytest.approx(on_its_way[2], abs=0.02)
    assert x_after(1000) == pytest.approx(left, abs=0.01)


def test_the_effect_of_keys_depends_on_the_focus(visit, client, texts):
    person, first_seq = visit(texts), seq(client, texts)
    page = person.page
    page.focus("#colour-by")
    page.keyboard.press("s")
    page.click("#person")
    page.keyboard.type("sds")
    page.keyboard.press("Escape")
    person.press(" ")  # the focused button was clicked, so that the key skips the pair instead of pressing it
    page.focus("[data-answer=same]")
    person.press(" ")  # this button is pressed
    page.wait_for_selector("#pair:not([aria-busy])")
    page.click("[data-answer=different]")
    person.press(" ")
    page.click("#help")
    page.click("#keys-on")
    page.keyboard.press("Escape")
    page.keyboard.press("s")
    person.saved()
    assert [entry["kind"] for entry in log(client, texts, first_seq)] == ["skip", "same", "different", "skip"]


def test_two_people_see_each_others_answers(visit, client, texts):
    one, other, first_seq = visit(texts), visit(texts), seq(client, texts)
    before, answers = other.picture_of_map(), int(one.text("#n-answers"))
    for key in "sdsd":
        one.press(key)
    other.sees(first_seq + 4)
    other.press("s")
    for person in (one, other):
        person.sees(first_seq + 5)
        assert person.text("#n-answers") == str(answers + 5)
    assert other.picture_of_map() != before
    names = [person.text("#person-name") for person in (one, other)]
    assert [entry["person"] for entry in log(client, texts, first_seq)] == [names[0]] * 4 + [names[1]]
    other.page.get_by_text(f"Live, with {names[0]}").wait_for()


def test_after_a_lost_connection_every_event_is_received_and_every_answer_stored_once(visit, server, client):
    person, first_seq = visit(), seq(client, "digits")
    answers = int(person.text("#n-answers"))
    person.page.clock.install()
    server.kill()
    person.page.wait_for_selector("body[data-connection='reconnecting']")
    given = [person.press("d"), person.press("s")]  # the current pair and the one fetched in advance
    person.page.get_by_text("2 changes not saved yet").wait_for()
    server.start()
    left, right, *_ = items(client, "digits")
    other = {"left": left["id"], "right": right["id"], "answer": "skip"}
    client.post("projects/digits/comparisons", json={"comparisons": [other] * 300}).raise_for_status()
    person.page.clock.fast_forward(6_000)  # longer than the longest pause
    person.saved()
    person.sees(first_seq + 302)
    assert person.page.get_attribute("body", "data-received") == "302"  # each of them once
    assert person.text("#n-answers") == str(answers + 2)
    stored = [
        (entry["kind"], entry["left"], entry["right"]) for entry in log(client, "digits", first_seq) if entry["person"]
    ]
    assert stored == [("different", *given[0]), ("same", *given[1])]
    assert person.text("#saved") == ""
    person.ready()  # a pair is shown again


def test_a_hidden_tab_disconnects_and_receives_all_events_later(visit, client, texts):
    person, first_seq = visit(texts), seq(client, texts)
    page = person.page
    page.wait_for_selector("body[data-connection='live']")
    set_hidden = """(hidden) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.clock.install()
    page.evaluate(set_hidden, True)
    page.clock.fast_forward(70_000)
    page.wait_for_selector("body[data-connection='reconnecting']")
    page.clock.fast_forward(70_000)
    left, right, *_ = items(client, texts)
    new = {"left": left["id"], "right": right["id"], "answer": "same"}
    client.post(f"projects/{texts}/comparisons", json=new).raise_for_status()
    page.wait_for_timeout(300)  # enough time to reconnect
    assert page.get_attribute("body", "data-connection") == "reconnecting"
    page.evaluate(set_hidden, False)
    person.sees(first_seq + 1)
    assert page.get_attribute("body", "data-received") == "1"


def test_an_answer_whose_acknowledgement_is_lost_counts_once(visit, client, texts):
    person, first_seq = visit(texts), seq(client, texts)
    lost = []

    def lose_first_response(route):
        if lost:
            route.continue_()
        else:
            lost.append(route.fetch().status)
            route.abort()

    person.page.route("**/comparisons", lose_first_response)
    person.press("s")
    person.saved()
    person.sees(first_seq + 1)
    assert lost == [201]
    assert [entry["kind"] for entry in log(client, texts, first_seq)] == ["same"]


@pytest.mark.parametrize("reload", [False, True])
def test_the_undo_of_a_refused_answer_undoes_nothing(visit, client, texts, reload):
    person, first_seq = visit(texts), seq(client, texts)
    person.press("s")
    person.saved()
    refusal = {"error": {"code": "invalid", "message": "refused by the test", "where": None}}
    waiting = []

    def refuse(route):
        waiting.append(route)

    person.expected_status = 422
    person.page.route("**/comparisons", refuse)
    person.press("d")
    person.page.wait_for_function("() => document.body.textContent.includes('not saved yet')")
    person.press("z")  # the answer is on its way, and the undo waits behind it
    waiting[0].fulfill(status=422, json=refusal)
    if reload:
        person.saved()  # the refusal has arrived; until then a reload sends both again
        person.page.unroute("**/comparisons")
        person.page.reload()
        person.ready()
    person.saved()
    assert [entry["kind"] for entry in log(client, texts, first_seq)] == ["same"]


def test_unsent_answers_survive_a_reload(visit, client, texts):
    person, first_seq = visit(texts), seq(client, texts)
    person.page.route("**/comparisons", lambda route: route.abort())
    given = [person.press("s"), person.press("d")]
    person.page.get_by_text("2 changes not saved yet").wait_for()
    dialogs = []
    person.page.on("dialog", lambda dialog: (dialogs.append(dialog.type), dialog.accept()))
    person.page.reload()
    assert dialogs == ["beforeunload"]
    person.page.unroute("**/comparisons")
    person.ready()
    person.saved()
    assert [(entry["left"], entry["right"]) for entry in log(client, texts, first_seq)] == given


def test_the_page_fits_on_a_phone(visit, client, texts, wines):
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    for project in ("digits", texts, wines):
        person = visit(project, **phone)
        first_seq = seq(client, project)
        width = person.page.evaluate("() => document.documentElement.scrollWidth")
        assert width == 390
        for name in ("Same", "Different", "Skip", "Undo"):
            box = person.page.locator("#answers").get_by_role("button", name=name).bounding_box()
            assert box["height"] >= 44
            assert box["y"] + box["height"] <= 844
        person.page.tap("[data-answer=different]")
        person.saved()
        person.sees(first_seq + 1)
        assert [entry["kind"] for entry in log(client, project, first_seq)] == ["different"]


@pytest.mark.parametrize("project", ["digits", "texts", "wines"])
def test_the_page_is_accessible(visit, project, texts, wines):
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


def test_the_history_is_in_plain_words_and_a_change_is_announced(visit, client, wines):
    person = visit(wines)
    page = person.page

    def answer():
        before = seq(client, wines)
        person.press("s")
        person.saved()
        person.sees(before + 1)
        return [page.locator(f"#timeline {part}").all_inner_texts() for part in ("h3", ".hint", ".chart-text")]

    titles, hints, texts = answer()
    assert titles == ["Right predictions", "Change of the distance", "What the predictions rest on"]
    assert hints[1] == "a peak: the meaning of “same” changed"
    assert re.fullmatch(r"Now: mostly [\w ,]+ \(\d+%\)", texts[2])
    experts = client.get(f"projects/{wines}/timeline").json()["experts"]
    assert not any(name in page.locator("#timeline").inner_text() for name in experts)  # names for experts only
    page.check("#timeline-as-table")
    columns = page.locator("#timeline-table th[scope=col]").all_inner_texts()
    assert columns[:4] == ["Answers", "Right predictions", "Change of the distance", "plain distance"]
    row = page.locator("#timeline-table tbody tr").first.locator("td").all_inner_texts()
    assert sum(float(cell.rstrip("%")) for cell in row[2:]) == pytest.approx(100, abs=3)
    page.uncheck("#timeline-as-table")

    changes = [{"first": 3, "detected": 9, "evidence": 5.0}]
    timeline = {**client.get(f"projects/{wines}/timeline").json(), "changes": changes}
    n = len(timeline["n_answers"])

    def respond(route):
        route.fulfill(json={**timeline, "seq": seq(client, wines)})

    page.route("**/timeline", respond)
    _, hints, _ = answer()  # the charts are updated in place
    assert hints[1] == "the meaning of “same” changed near answer 3 (noticed at 9)"
    timeline |= {"method": "rice", "experts": ["1", "2", "128"], "shares": [[0.25] * n, [0.35] * n, [0.4] * n]}
    _, _, texts = answer()
    assert texts[2] == "Now: mostly the last 8 answers (60%)"


def test_the_neighbours_say_if_no_items_are_predicted_to_be_the_same(visit, client, wines):
    person = visit(wines)
    page = person.page

    def hint():
        page.focus("#map-marks")
        page.keyboard.press("Enter")
        page.wait_for_selector("#neighbors li")
        text = page.locator("#neighbors > .hint").inner_text()
        page.keyboard.press("Escape")
        page.wait_for_selector("#neighbors", state="hidden")
        return text

    assert re.fullmatch(r"Predicted “same” up to a distance of [0-9.]+\.", hint())

    def respond(route):
        answer = route.fetch().json()
        route.fulfill(json={**answer, "threshold": -0.5})

    page.route("**/neighbors?*", respond)
    assert hint() == "At present no items are predicted to be the same."


def test_a_click_on_the_map_lists_the_nearest_neighbours(visit, client):
    person = visit()
    page = person.page
    frame = page.locator("#map-marks").bounding_box()
    page.mouse.move(frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2)
    pointed = page.locator("#tooltip .item-id").inner_text()
    page.mouse.down()
    page.mouse.up()
    page.wait_for_selector("#neighbors li")
    expected = client.get("projects/digits/neighbors", params={"item": pointed, "k": 10}).json()["neighbors"]
    assert page.locator("#neighbors .summary.selected .item-id").inner_text() == pointed
    assert page.locator("#neighbors li .item-id").all_inner_texts() == [each["item"]["id"] for each in expected]
    assert page.locator("#neighbors li img").count() == 10
    page.locator("#neighbors li button").first.click()
    page.locator(f"#neighbors .summary.selected >> text={expected[0]['item']['id']}").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_selector("#neighbors", state="hidden")


def test_the_map_is_coloured_by_clusters_columns_and_distance(visit, client):
    person = visit()
    page, legend = person.page, person.page.locator("#legend")
    assert legend.get_by_role("button").count() == 6
    page.select_option("#n-clusters", "3")
    legend.get_by_role("button").nth(3).wait_for(state="detached")
    pictures = [person.picture_of_map()]
    page.select_option("#colour-by", "column:parity")
    sizes = {name: sum(digit % 2 == odd for digit in load_digits().target) for name, odd in (("even", 0), ("odd", 1))}
    legend.get_by_text("odd").wait_for()
    entries = [
        re.fullmatch(r"(\w+)\s*([\d,]+)", entry).groups() for entry in legend.get_by_role("button").all_inner_texts()
    ]
    assert {name: int(size.replace(",", "")) for name, size in entries} == sizes
    pictures.append(person.picture_of_map())
    legend.get_by_role("button").first.click()
    pictures.append(person.picture_of_map())
    page.select_option("#colour-by", "neighbors")
    frame = page.locator("#map-marks").bounding_box()
    page.mouse.move(frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2)
    legend.get_by_text("neighbour 50").wait_for()
    pictures.append(person.picture_of_map())
    assert len(set(pictures)) == 4


def test_keys_and_wheel_move_the_map_and_0_shows_all(visit):
    person = visit()
    page, pictures = person.page, [person.picture_of_map()]
    page.focus("#map-marks")
    for key in ("+", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
        pictures.append(person.picture_of_map())
    page.keyboard.press("-")
    assert person.picture_of_map() == pictures[0]
    page.mouse.move(*(page.locator("#map-marks").bounding_box()[side] + 200 for side in "xy"))
    page.mouse.wheel(0, -300)
    pictures.append(person.picture_of_map())
    assert len(set(pictures)) == len(pictures)
    page.keyboard.press("0")
    assert person.picture_of_map() == pictures[0]


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
    compare = """async ([files, cases]) => {
        const { diffWords } = await import(`${files}/text-diff.js`);
        return cases.map(([left, right]) => diffWords(left, right));
    }"""
    compared = person.page.evaluate(compare, [files_of(person.page), cases])
    for (left, right), runs in zip(cases, compared, strict=True):
        assert ["".join(run["text"] for run in side) for side in runs] == [left, right]
        common = [[word for run in side if not run["differs"] for word in words(run["text"])] for side in runs]
        assert common[0] == common[1]
        assert len(common[0]) == common_length(words(left), words(right))


def words(text):
    return re.findall(r"\w+(?:['’_-]\w+)*", text.lower())


def common_length(left, right):
    """Return the length of the longest common subsequence by the textbook recurrence."""
    above = [0] * (len(right) + 1)
    for word in left:
        row = [0]
        for j, other in enumerate(right):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
        above = row
    return above[-1]


def test_features_are_listed_by_their_share_of_the_distance(visit, client, wines):
    metric = client.get(f"projects/{wines}/metric").json()
    first, second, *others = metric["features"]
    shares = [first, {**second, "share": -0.02}, *others]
    page = visit(wines).page
    page.route("**/metric*", lambda route: route.fulfill(json={**metric, "n_answers": 1, "features": shares}))
    page.reload()
    page.wait_for_selector(".feature-bars li")
    assert page.inner_text("#features-title") == "What the distance looks at"
    assert "share of the distance between items" in page.inner_text("#features-hint")
    rows = page.locator(".feature-bars li")
    assert f"{first['name']}: " in rows.nth(0).get_attribute("title")
    assert "of the distance between two items" in rows.nth(0).get_attribute("title")
    assert "-2%" in rows.nth(1).locator(".feature-share").inner_text()
    assert rows.nth(1).locator(".fill").evaluate("bar => bar.style.width") == "0%"  # a negative share has no bar


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


def test_an_error_is_shown_with_the_message_of_the_service(visit, texts):
    person = visit(texts)
    person.expected_status = 409
    person.page.keyboard.press("z")
    message = person.page.locator("[role=alert] .error")
    message.wait_for()
    assert f"'{person.text('#person-name')}' has no answer" in message.inner_text()
    person.saved()  # it is not sent again
    message.get_by_role("button").click()
    assert person.page.locator(".error").count() == 0


def test_a_token_is_requested_once_and_sent(browser, server, texts):
    context = browser.new_context()
    page = context.new_page()
    valid, sent = "Bearer ocelad_first", []

    def guard(route):
        headers = route.request.headers
        sent.append(headers.pop("authorization", None))
        if sent[-1] == valid:
            route.continue_(headers=headers)
        else:
            body = {"error": {"code": "unauthorized", "message": "a token is needed", "where": None}}
            route.fulfill(status=401, json=body)

    def enter(token, message):
        page.get_by_text(message).wait_for()
        page.get_by_role("textbox", name="Token").fill(token)
        page.keyboard.press("Enter")

    page.route("**/v1/**", guard)
    page.goto(f"{server.url}/?project={texts}")
    enter("ocelad_first", "This service requires a token.")
    page.wait_for_selector("#pair:not([aria-busy]) [data-item]")
    assert sent.count(None) == 1
    assert set(sent) == {None, valid}
    valid = "Bearer ocelad_second"  # as if the first was revoked: several requests are rejected at once
    page.keyboard.press("s")
    page.keyboard.press("d")
    enter("ocelad_second", "This token is unknown or was revoked.")
    page.wait_for_selector("body[data-unsent='0']")
    page.wait_for_selector("#pair:not([aria-busy]) [data-item]")
    assert page.evaluate("() => Object.values(localStorage).join().includes('ocelad_')") is False
    context.close()


def test_an_unknown_project_leaves_a_selection_of_the_others(browser, server, texts):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{server.url}/?project=unknown")
    page.get_by_text("There is no project “unknown” that you may read.").wait_for()
    assert page.get_by_role("group", name="Your answer").count() == 0
    page.select_option("#project-choice", texts)
    page.wait_for_selector("#pair:not([aria-busy]) [data-item]")
    assert page.input_value("#project-choice") == texts
    context.close()


def test_a_reader_is_not_asked_about_pairs(browser, server, texts):
    context = browser.new_context()
    page = context.new_page()

    def only_read(route):
        body = route.fetch().json()
        route.fulfill(json={"projects": [{**each, "permission": "read"} for each in body["projects"]]})

    urls = []
    page.on("request", lambda request: urls.append(request.url))
    page.route("**/v1/projects", only_read)
    page.goto(f"{server.url}/?project={texts}")
    page.get_by_text("You may view this project, but not answer.").wait_for()
    page.wait_for_selector("#map-marks:not([data-moved='0'])")
    page.keyboard.press("s")
    assert page.get_by_role("button", name="Same").count() == 0
    assert not any("next-pair" in url or "comparisons" in url for url in urls)
    context.close()
