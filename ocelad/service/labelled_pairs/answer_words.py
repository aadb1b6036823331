"""The words for an answer in files of other programs."""

from __future__ import annotations

from typing import Any

from ocelad.io.tabular import cells
from ocelad.service.entries import Answer

ACCEPTED_ANSWERS = (
    "accepted: same/different, match/distinct, yes/no, true/false, 1/0, similar/dissimilar, or skip or nothing for a "
    "skipped pair"
)
_WORDS: dict[str, Answer] = {
    **dict.fromkeys(("same", "match", "yes", "y", "true", "t", "similar", "duplicate"), "same"),
    **dict.fromkeys(("different", "distinct", "no", "n", "false", "f", "dissimilar"), "different"),
    **dict.fromkeys(("", "skip", "skipped", "unsure", "uncertain"), "skip"),
}
_NUMBERS: dict[float, Answer] = {1.0: "same", 0.0: "different", -1.0: "different"}


def parse_answer(cell: Any) -> Answer | None:
    """Return the answer in a cell; None if it holds none.

    >>> [parse_answer(cell) for cell in ("Yes", "distinct", 1, "0.0", True, " ", None, "perhaps")]
    ['same', 'different', 'same', 'different', 'same', 'skip', 'skip', None]
    """
    if isinstance(cell, bool):
        return "same" if cell else "different"
    if cell is None or (isinstance(cell, float) and cell != cell):
        return "skip"
    if isinstance(cell, str):
        word = cell.strip().casefold()
        number = cells.parse_number(word)
        return _WORDS.get(word) if number is None else _NUMBERS.get(number)
    number = cells.to_number(cell)
    return None if number is None else _NUMBERS.get(number)
