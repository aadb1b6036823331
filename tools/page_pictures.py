"""Take the pictures of the page in docs/, in Chromium, of a real service with made-up answers.

python tools/page_pictures.py [--output docs] [--only team.png]

The items, the people and the rule by which they answer are fixed; the service draws the pairs, so that numbers on the
pictures differ a little from run to run. Needs the extras "serve" and "client", playwright and Debian's chromium.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import httpx
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, sync_playwright

from ocelad.client import Client

_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_WIDE, _PHONE = {"width": 1280, "height": 960}, {"width": 390, "height": 780}
_MAX_BYTES = 150_000
# Names in three scripts; the last person is wrong about some pairs.
PEOPLE = ("Anna", "Βασιλική", "Дарья")
# Milliseconds that the page has to show something.
_TIMEOUT = 60_000

# Name, description, colour, height in cm, volume in l, price. Three shops sell each, in other words.
_PRODUCTS = (
    ("Milk jug", "A small jug of stoneware for milk, glazed inside", "#8aa9c9", 11, 0.3, 14),
    ("Teapot", "A teapot with a bamboo handle and a strainer of steel", "#557a5c", 15, 1.0, 39),
    ("Espresso cup", "A cup for espresso with thick walls of porcelain", "#c96f4a", 6, 0.1, 9),
    ("Soup bowl", "A deep bowl for soup with two handles", "#d9b44a", 8, 0.6, 17),
    ("Coffee mug", "A large mug for coffee, fit for the dishwasher", "#9c5a7c", 10, 0.4, 12),
    ("Water carafe", "A carafe of clear glass with a cork", "#7fc4c4", 27, 1.2, 24),
    ("Egg cup", "An egg cup of white porcelain with a blue rim", "#5a78b8", 5, 0.05, 5),
    ("Salad bowl", "A wide bowl of beech wood for salad", "#b98a5a", 10, 2.5, 33),
)
_SHOPS = (
    ("{}", "{}", 1.0),
    ("{}, handmade", "{}. Ships within two days", 1.06),
    ("{} (set of 1)", "Shop item: {}", 0.95),
)
_GUIDELINES = "The same product in another shop counts as the same, also at another price. Another colour does not."


def product_rows() -> list[dict[str, Any]]:
    """Return a small table: each product as three shops describe it, with a drawn picture."""
    rows = []
    for number, (name, text, colour, height, volume, price) in enumerate(_PRODUCTS):
        for shop, (title, words, factor) in enumerate(_SHOPS):
            rows.append(
                {
                    "id": f"{'ABC'[shop]}-{101 + number}",
                    "name": title.format(name),
                    "description": words.format(text),
                    "link": f"https://shop-{'abc'[shop]}.example/{101 + number}",
                    "shop": f"Shop {'ABC'[shop]}",
                    "price": round(price * factor, 2),
                    "height_cm": height,
                    "volume_l": volume,
                    "picture": base64.b64encode(_drawing(colour, height, volume, shop)).decode(),
                }
            )
    return rows


def _drawing(colour: str, height: float, volume: float, shop: int) -> bytes:
    """Draw a vessel, as wide as its volume and height say."""
    picture = Image.new("RGB", (480, 360), ("#f3f1ec", "#e9eef2", "#f2ece6")[shop])
    draw = ImageDraw.Draw(picture)
    tall = 60 + 8 * min(height, 25)
    wide = 60 + 130 * min(volume / (height / 10), 1.2)
    left, right, top, bottom = 240 - wide, 240 + wide, 310 - tall, 310
    draw.ellipse((left - 20, bottom - 14, right + 20, bottom + 18), fill="#d6d2ca")
    if volume < 2:
        draw.arc((right - 30, top + 15, right + 55, bottom - 15), -95, 95, fill=colour, width=14)
    draw.rounded_rectangle((left, top, right, bottom), radius=28, fill=colour)
    draw.ellipse((left, top - 14, right, top + 18), fill="#ffffff", outline=colour, width=6)
    buffer = BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


class Demonstration:
    """A running service with two projects and answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OCELAD_SERVE_")}
        command = [sys.executable, "-m", "ocelad", "serve", "--demo", "--port", "0", "--log-format", "json"]
        self._process = subprocess.Popen(
            [*command, "--data-folder", str(folder / "data")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.url = line.split("/?project=")[0].removeprefix("ocelad is at ")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)

    def copy_digits(self) -> None:
        """Add a project of the same pictures with another question."""
        new = {"id": "parity", "title": "odd and even", "answers": False}
        httpx.post(f"{self.url}/v1/projects/digits/copy", json=new, timeout=60).raise_for_status()
        with Client(self.url) as client:
            client.project("parity").change(question="Are both odd, or both even?")

    def answer_digits(self, project: str, column: str, n: int, n_names: int = 0) -> None:
        """Answer by a column of the digits; then name the largest piles by it."""
        with Client(self.url, person=PEOPLE[0]) as client:
            digits = client.project(project)
            found = digits.column(column)
            assert found.categories is not None
            classes = [found.categories[int(value or 0)] for value in found.values]
            for _ in range(n):
                pair = digits.next_pair()
                same = classes[pair.left.position] == classes[pair.right.position]
                digits.compare(pair.left.id, pair.right.id, same, ticket=pair.ticket)
            for group in islice(digits.groups(), n_names):
                digits.name_group(group.id, f"{column} {classes[group.items[0].position]}")

    def create_products(self) -> Path:
        path = self.folder / "products.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in product_rows()), encoding="utf-8")
        with Client(self.url) as client:
            client.create_project(
                "products",
                path,
                title="Products of three shops",
                question="Is this the same product?",
                guidelines=_GUIDELINES,
                show=["shop", "price"],
            )
        body = {"repeat_share": 0.5, "repeat_people": 3}
        httpx.patch(f"{self.url}/v1/projects/products", json=body).raise_for_status()
        return path

    def answer_products(self, n: int) -> None:
        """Let everybody answer in turn, by the product; the last person errs in every fifth round."""
        clients = [Client(self.url, person=person) for person in PEOPLE]
        for round_number in range(n):
            for number, client in enumerate(clients):
                project = client.project("products")
                response = httpx.get(
                    f"{self.url}/v1/projects/products/next-pair",
                    headers={"Ocelad-Person": quote(PEOPLE[number])},
                )
                if response.status_code != 200:
                    continue
                pair = response.json()
                left, right = pair["left"]["id"], pair["right"]["id"]
                same = left[2:] == right[2:]
                if number == 2 and round_number % 5 == 3 and not same:
                    same = True
                project.compare(left, right, same, ticket=pair["ticket"])
        for client in clients:
            client.close()


class Camera:
    """Takes pictures of the page as one person sees it."""

    def __init__(self, browser: Browser, url: str, output: Path, only: str | None) -> None:
        self._browser, self._url, self._output, self._only = browser, url, output, only

    def take(
        self,
        name: str,
        path: str,
        prepare: Callable[[Page], None] | None = None,
        *,
        part: str | None = None,
        viewport: dict[str, int] = _WIDE,
        person: str = PEOPLE[0],
        scale: float = 1.0,
    ) -> None:
        """Open a page, prepare it, and save a picture of the window, or of the elements that ``part`` selects."""
        if self._only not in (None, name):
            return
        context = self._browser.new_context(
            viewport=viewport, device_scale_factor=scale, reduced_motion="reduce", color_scheme="light", locale="en"
        )
        context.add_init_script(f"localStorage.setItem('ocelad.person', {json.dumps(person)})")
        page = context.new_page()
        page.set_default_timeout(_TIMEOUT)
        page.goto(self._url + path)
        page.wait_for_load_state("load")
        if prepare is not None:
            prepare(page)
        page.wait_for_timeout(1500)  # pictures are decoded and the map stands still
        page.mouse.move(0, 0)
        shot = page.screenshot() if part is None else page.locator(part).screenshot()
        context.close()
        self._save(name, shot)

    def _save(self, name: str, shot: bytes) -> None:
        """Save a picture with a palette of as many colours as fit into the limit."""
        picture = Image.open(BytesIO(shot)).convert("RGB")
        for colours in (256, 128, 64, 32):
            buffer = BytesIO()
            picture.quantize(colours, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
            if buffer.tell() <= _MAX_BYTES:
                break
        self._output.joinpath(name).write_bytes(buffer.getvalue())
        print(f"{name}: {picture.width} x {picture.height}, {buffer.tell():,} bytes")


def _pair_shown(page: Page) -> None:
    page.wait_for_selector("#pair:not([aria-busy])")
    page.wait_for_timeout(1500)


def take_all(camera: Camera, table: Path) -> None:
    def progress(page: Page) -> None:
        _pair_shown(page)
        page.locator("#random-pairs").scroll_into_view_if_needed()

    def piles(page: Page) -> None:
        page.wait_for_selector("#piles li")
        page.locator("#piles-panel").scroll_into_view_if_needed()

    def form(page: Page) -> None:
        page.click("#new-project")
        page.set_input_files("#file", table)
        page.wait_for_selector("#after-file:not([hidden])")
        page.fill("#title", "Products of three shops")
        page.fill("#question-text", "Is this the same product?")
        page.fill("#guidelines-input", _GUIDELINES)

    def answers(page: Page) -> None:
        page.wait_for_selector("tbody tr")

    def team(page: Page) -> None:
        page.wait_for_selector("#dispute:not([hidden]) #dispute-rows tr")

    camera.take("page.png", "/?project=digits", _pair_shown, viewport={"width": 1280, "height": 860})
    camera.take("progress.png", "/?project=parity", progress, part="section:has(#random-pairs)")
    camera.take("piles.png", "/?project=digits", piles, part="#piles-panel")
    camera.take("cards.png", "/?project=products", _pair_shown, part="#question", person="Rita")
    camera.take("phone.png", "/?project=products", _pair_shown, viewport=_PHONE, person="Rita")
    camera.take("projects.png", "/projects", form, viewport={"width": 1100, "height": 1500})
    camera.take("answers.png", "/answers?project=products", answers, viewport={"width": 1100, "height": 800})
    camera.take("team.png", "/team?project=products", team, viewport={"width": 1100, "height": 1300}, person="Rita")


def main() -> None:
    parser = argparse.ArgumentParser(description="Take the pictures of the page in docs/.")
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "docs")
    parser.add_argument("--only", metavar="NAME", help="take this picture only, such as team.png")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        shown = Demonstration(Path(folder))
        try:
            table = shown.create_products()
            shown.answer_products(30)
            shown.answer_digits("digits", "digit", 250, n_names=5)
            shown.copy_digits()
            shown.answer_digits("parity", "parity", 400)
            time.sleep(5)  # everything is learned
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(_ARGUMENTS))
            take_all(Camera(browser, shown.url, arguments.output, arguments.only), table)
            browser.close()
        finally:
            shown.close()


if __name__ == "__main__":
    main()
