"""How the help texts of commands become pages: called by ``conf.py`` for each part of a text."""

from __future__ import annotations

import re
from typing import Any


def format_words(text: str) -> str:
    """Show `commands` and --options as code, and keep ``x_`` and ``acid*`` from being read as markup."""
    parts = re.split(r"((?<![:`])`+[^`]+`+)", text)
    for at, part in enumerate(parts):
        if at % 2:
            parts[at] = f"``{part.strip('`')}``"
        else:
            escaped = re.sub(r"(?<=\w)_(?!\w)|(?<!\*)\*(?!\*)", r"\\\g<0>", part)
            parts[at] = re.sub(r"(?<!\S)--[a-z][a-z-]*", r"``\g<0>``", escaped)
    return "".join(parts)


def format_help(app: Any, context: Any, lines: list[str]) -> None:
    """Show examples, commands and options of a help text as code."""
    formatted: list[str] = []
    paragraph: list[str] = []  # a command may continue on the next line
    in_examples = False
    for line in [*lines, ""]:
        is_text = bool(line) and not line.lstrip().startswith(("..", "|"))
        in_examples = line.startswith("| Example") or (in_examples and line.startswith("|"))
        if is_text:
            paragraph.append(line)
            continue
        formatted += format_words("\n".join(paragraph)).split("\n") if paragraph else []
        paragraph = []
        if line.startswith("| Example"):
            formatted += ["Examples:", "", ".. code-block:: text", ""]
        elif in_examples:
            formatted.append(f"   {line[1:].strip()}")
        else:
            formatted.append(format_words(line) if line.startswith("|") else line)
    lines[:] = formatted[:-1]
