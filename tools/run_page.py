"""Run the code of pages of Markdown in empty folders, as a reader would, and check what it prints and draws.

    python tools/run_page.py docs/tutorials/*.md [--pictures docs/tutorials/pictures]

Blocks run in the order of the page: ``python`` blocks as doctests with common variables, ``sh`` blocks in bash. A
``text`` block after a command is its output; "..." stands for any text. A command that ends in "&" runs until the end
of the page. Lines with "pip install" are left out: the environment that runs this program must have the extras. A
picture that the page shows from the folder ``pictures`` must be drawn by its code; ``--pictures`` copies it there
(this needs Pillow; all else needs only the standard library). The port 8765 is replaced by a free one.
"""

from __future__ import annotations

import argparse
import contextlib
import doctest
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INSTALL = re.compile(r"pip install '?ocelad(?:\[([a-z,]+)\])?'?((?: [a-z-]+)*)")
_PICTURE = re.compile(r"(?:\(|\{figure\} )(?:tutorials/)?pictures/([\w-]+\.png)")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_PORT = "8765"


class Block(NamedTuple):
    language: str
    text: str
    line: int


class PageError(Exception):
    """What a reader would not have seen."""


def extras(page: Path) -> tuple[str, ...]:
    """Return the extras that the page tells its reader to install."""
    found = _INSTALL.findall(page.read_text(encoding="utf-8"))
    return tuple(sorted({extra for names, _ in found for extra in names.split(",") if extra}))


def other_packages(page: Path) -> tuple[str, ...]:
    """Return the other packages that the page tells its reader to install."""
    found = _INSTALL.findall(page.read_text(encoding="utf-8"))
    return tuple(sorted({package for _, packages in found for package in packages.split()}))


def pictures(page: Path) -> list[str]:
    """Return the names of the pictures that the page shows and its code must draw."""
    return sorted(set(_PICTURE.findall(page.read_text(encoding="utf-8"))))


def blocks(text: str) -> Iterator[Block]:
    for match in _FENCE.finditer(text):
        yield Block(match[1], match[2], text.count("\n", 0, match.start()) + 2)


def run_page(page: Path, folder: Path) -> None:
    """Run all blocks of a page in a folder; raise a ``PageError`` where the page is wrong."""
    port = str(_free_port())
    text = page.read_text(encoding="utf-8").replace(_PORT, port)
    variables: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None
    with contextlib.chdir(folder), _Background(port) as background:
        for block in blocks(text):
            where = f"{page}:{block.line}"
            if block.language == "text" and printed is not None:
                if not doctest.OutputChecker().check_output(block.text, printed, _FLAGS):
                    raise PageError(f"{where}: the page shows\n{block.text}but the command prints\n{printed}")
            elif block.language == "python" and ">>>" in block.text:
                _run_python(block, where, variables)
            printed = _run_commands(block, where, background) if block.language == "sh" else None
    for picture in pictures(page):
        if not folder.joinpath(picture).is_file():
            raise PageError(f"{page}: its code does not draw {picture}")


def _run_python(block: Block, where: str, variables: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, variables, where, where, 0)
    report: list[str] = []
    failed = doctest.DocTestRunner(optionflags=_FLAGS).run(test, out=report.append, clear_globs=False).failed
    variables.update(test.globs)
    if failed:
        raise PageError("".join(report))


class _Background:
    """Commands that run until the end of the page."""

    def __init__(self, port: str) -> None:
        self._port = port
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> _Background:
        return self

    def start(self, command: str, environment: dict[str, str]) -> None:
        environment = environment | {"OCELAD_SERVE_PORT": self._port}
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._running.append(subprocess.Popen(["bash", "-c", f"exec {command}"], env=environment, **silent))

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            process.wait(60)


def _run_commands(block: Block, where: str, background: _Background) -> str:
    """Run the commands of a block and return what they print."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OCELAD_SERVE_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    commands = block.text.replace("\\\n", " ").split("\n")
    foreground = [line for line in commands if "pip install" not in line and not line.rstrip().endswith("&")]
    for line in commands:
        if line.rstrip().endswith("&"):
            background.start(line.rstrip().removesuffix("&"), environment)
    script = "set -euo pipefail\n" + "\n".join(foreground)
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise PageError(f"{where}: exit code {done.returncode}\n{block.text}{done.stdout}{done.stderr}")
    return done.stdout


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _copy_picture(drawn: Path, target: Path) -> None:
    """Copy a picture with a palette of 256 colours, which makes the file smaller."""
    from PIL import Image

    Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(target, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the code of pages of Markdown in empty folders.")
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="copy the pictures of the pages there")
    arguments = parser.parse_args()
    os.environ["MPLBACKEND"] = "agg"
    for page in arguments.pages:
        begin = time.perf_counter()
        with TemporaryDirectory() as folder:
            try:
                run_page(page.resolve(), Path(folder))
            except PageError as error:
                sys.exit(str(error))
            if arguments.pictures is not None:
                for picture in pictures(page):
                    _copy_picture(Path(folder, picture), arguments.pictures / picture)
        print(f"{page}: {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    main()
