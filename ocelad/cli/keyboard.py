"""Inputs on a terminal without Enter: single keys, and what arrives together, such as a function key or a word."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

#: What a terminal sends for Ctrl-D.
END_OF_INPUT = "\x04"
#: Inputs that follow a question, or another input, sooner than this are not an answer: nobody reads a question in half
#: a second, and the letters of a word follow each other faster.
PAUSE = 0.5
# The rest of an escape sequence or of a pasted text arrives within this time, also over a network.
_BURST = 0.03
_N_BYTES = 1024


@dataclass
class Keyboard:
    """Reads inputs, and says which of them came too soon after a question or after another input.

    Attributes
    ----------
    read_text : callable
        Waits for the next input and returns all that arrives together; an empty text is the end of the input.
    pause : float
        Seconds that must pass before an input.
    """

    read_text: Callable[[], str]
    pause: float = PAUSE
    _last: float = 0.0

    def start_question(self) -> None:
        """Note that a question has just been shown."""
        self._last = time.monotonic()

    def read(self) -> tuple[str, bool]:
        """Return the next input, and whether it came too soon. The end of the input, or Ctrl-D, is an empty text."""
        try:
            text = self.read_text()
        except EOFError:
            text = ""
        before, self._last = self._last, time.monotonic()
        return "" if text == END_OF_INPUT else text, self._last - before < self.pause


@contextmanager
def open_keyboard() -> Iterator[Keyboard]:
    """Yield the keyboard of the terminal, which is switched once.

    ``click.getchar`` switches it for each key, and loses keys that are typed meanwhile. If standard input is no
    terminal, each character is an input, at any time.
    """
    if os.name != "posix":
        yield Keyboard(click.getchar)
        return
    if not sys.stdin.isatty():
        yield Keyboard(lambda: sys.stdin.read(1), pause=0.0)
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        yield Keyboard(lambda: _read_burst(descriptor))
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _read_burst(descriptor: int) -> str:
    """Return what arrives together."""
    import select

    data = os.read(descriptor, _N_BYTES)
    while data and select.select([descriptor], [], [], _BURST)[0]:
        more = os.read(descriptor, _N_BYTES)
        if not more:
            break
        data = data[-_N_BYTES:] + more  # of a long pasted text, no more is needed to see that it is no key
    return data.decode(errors="replace")
