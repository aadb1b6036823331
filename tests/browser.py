"""People at the page: Chromium, driven by playwright, at the real service."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# What a browser itself writes about each request that failed; refusals are noted as such.
_FAILED = "Failed to load resource: "


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser without a window; tests are skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium on this machine")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=_ARGUMENTS)
        yield browser
        browser.close()


class Person:
    """Someone at the page, in a browser profile of their own.

    Whatever the page does wrong while they are there is noted: errors of scripts, what the content-security policy
    refused, what the service refused, requests to other places.
    """

    def __init__(self, browser: Any, url: str, project: str, **profile: Any) -> None:
        usual = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
        self._context = browser.new_context(**{**usual, **profile})
        self.page = self._context.new_page()
        self.page.set_default_timeout(60_000)
        self.wrong: list[str] = []
        self.expected: int | None = None  # a status with which the service may refuse
        self._home = urlsplit(url).netloc
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", self._asked)
        self.page.on("response", self._answered)
        self.page.goto(f"{url}/?project={project}")
        self.ready()

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_FAILED):
            self.wrong.append(message.text)

    def _asked(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != self._home:
            self.wrong.append(f"asked {request.url}")

    def _answered(self, response: Any) -> None:
        if response.status >= 400 and response.status != self.expected:
            self.wrong.append(f"{response.status} for {response.url}")

    def leave(self) -> None:
        """Go; nothing must have been wrong."""
        self._context.close()
        assert not self.wrong, self.wrong

    def ready(self) -> None:
        """Wait until a pair is shown and the map is drawn."""
        self.page.wait_for_selector("#pair:not([aria-busy]) [data-item]")
        self.page.wait_for_selector("#map-marks:not([data-moved='0'])")

    @property
    def pair(self) -> tuple[str, str]:
        """The ids of the two that are asked about."""
        self.page.wait_for_selector("#pair:not([aria-busy])")
        left, right = self.page.eval_on_selector_all("#pair [data-item]", "all => all.map((each) => each.dataset.item)")
        return left, right

    def press(self, key: str) -> tuple[str, str]:
        """Answer by a key; the pair that was answered."""
        pair = self.pair
        self.page.keyboard.press(key)
        return pair

    def saved(self) -> None:
        """Wait until every answer is acknowledged."""
        self.page.wait_for_selector("body[data-unsent='0']")

    def sees(self, seq: int) -> None:
        """Wait until the page has heard of this entry, and shows what was learned from it."""
        self.page.wait_for_selector(f"body[data-seq='{seq}'][data-learned='{seq}']")

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def picture_of_map(self) -> str:
        """The pixels of the points, as drawn with the next frame."""
        return self.page.evaluate("""async () => {
            await new Promise(requestAnimationFrame);
            await new Promise(requestAnimationFrame);
            return document.getElementById("map-points").toDataURL();
        }""")
