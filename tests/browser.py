"""Drive the service's page in Chromium with Playwright."""

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
# The browser's message about a failed request; responses with an error status are recorded separately.
_FAILED = "Failed to load resource: "


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a headless browser; skip the test if Playwright or Chromium is not installed."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=_ARGUMENTS)
        yield browser
        browser.close()


class Visitor:
    """A browser profile with one page.

    All problems of the page are recorded: script errors, violations of the content-security policy, error responses
    of the service, and requests to other hosts.
    """

    def __init__(self, browser: Any, url: str, path: str, **profile: Any) -> None:
        defaults = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
        self._context = browser.new_context(**{**defaults, **profile})
        self.page = self._context.new_page()
        self.page.set_default_timeout(60_000)
        self.problems: list[str] = []
        self.expected_status: int | None = None  # an error status that is not a problem
        self._host = urlsplit(url).netloc
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", self._on_request)
        self.page.on("response", self._on_response)
        self.page.goto(f"{url}{path}")

    def _on_console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_FAILED):
            self.problems.append(message.text)

    def _on_request(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != self._host:
            self.problems.append(f"request to {request.url}")

    def _on_response(self, response: Any) -> None:
        if response.status >= 400 and response.status != self.expected_status:
            self.problems.append(f"{response.status} for {response.url}")

    def leave(self) -> None:
        """Close the browser profile, and check that no problem was recorded."""
        self._context.close()
        assert not self.problems, self.problems

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()


class Person(Visitor):
    """A user of the answering page, in a separate browser profile."""

    def __init__(self, browser: Any, url: str, project: str, **profile: Any) -> None:
        super().__init__(browser, url, f"/?project={project}", **profile)
        self.ready()

    def ready(self) -> None:
        """Wait until a pair is shown and the map is drawn."""
        self.page.wait_for_selector("#pair:not([aria-busy]) [data-item]")
        self.page.wait_for_selector("#map-marks:not([data-moved='0'])")

    @property
    def pair(self) -> tuple[str, str]:
        """The ids of the two items that are shown."""
        self.page.wait_for_selector("#pair:not([aria-busy])")
        left, right = self.page.eval_on_selector_all("#pair [data-item]", "all => all.map((each) => each.dataset.item)")
        return left, right

    def press(self, key: str) -> tuple[str, str]:
        """Answer by pressing a key; return the pair that was answered."""
        pair = self.pair
        self.page.keyboard.press(key)
        return pair

    def saved(self) -> None:
        """Wait until every answer is acknowledged."""
        self.page.wait_for_selector("body[data-unsent='0']")

    def sees(self, seq: int) -> None:
        """Wait until the page knows this entry and shows what was learned from it."""
        self.page.wait_for_selector(f"body[data-seq='{seq}'][data-learned='{seq}']")

    def picture_of_map(self) -> str:
        """Return the pixels of the map's points after the next frame."""
        return self.page.evaluate("""async () => {
            await new Promise(requestAnimationFrame);
            await new Promise(requestAnimationFrame);
            return document.getElementById("map-points").toDataURL();
        }""")
