"""How much is accepted of each thing, and the error that says what was too much or wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_ITEMS = 200_000
MOST_FEATURES = 4_000
# Items times features: 800 MB as float64.
MOST_NUMBERS = 100_000_000
MOST_FIELDS = 100
#: Of an id, and of the name of a feature or a field.
NAME_CHARACTERS = 200
#: Of a text that is shown; the rest is cut off.
TEXT_CHARACTERS = 20_000
#: Of a text in a field; the rest is cut off.
FIELD_CHARACTERS = 200
# Squares of larger numbers, or of inverses of smaller spreads, come too near the end of float64.
LARGEST_NUMBER = 1e150
MOST_PIXELS = 50_000_000
PICTURE_SIDE = 256
#: Of all pictures together, as they are shown.
MOST_PICTURE_BYTES = 2 << 30
_ELLIPSIS = "…"
_NOT_PLAIN = re.compile("[\0\ud800-\udfff]")
# Controls, and what ends a line or turns the direction of a text: two ids could look the same, or like something else.
_UNSEEN = re.compile("[\x01-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Limits:
    """What is accepted of one file.

    Attributes
    ----------
    items, features, numbers : int
        How many rows, features per row, and numbers in all.
    unzipped_bytes : int or None
        Of a text file, when it is unzipped. None: any number.
    characters : int or None
        Of all ids, texts and fields together, as they are kept. None: any number.
    """

    items: int = MOST_ITEMS
    features: int = MOST_FEATURES
    numbers: int = MOST_NUMBERS
    unzipped_bytes: int | None = None
    characters: int | None = None

    def check(self, name: str, n_items: int, n_features: int) -> None:
        """Refuse more than is accepted."""
        if n_features > self.features:
            raise ItemsError(f"{name} has {n_features:,} features; at most {self.features:,} are accepted")
        if n_items > self.items:
            raise ItemsError(f"{name} has more than {self.items:,} items, which is the most that is accepted")
        if n_items * n_features > self.numbers:
            raise ItemsError(
                f"{name} has more than {self.numbers:,} numbers: {n_features:,} features of {n_items:,} items or more; "
                "accepted: fewer items, or fewer features"
            )

    def check_characters(self, name: str, n_characters: int) -> None:
        """Refuse more text than is accepted."""
        if self.characters is not None and n_characters > self.characters:
            raise ItemsError(
                f"{name} has more than {self.characters:,} characters in its texts, which is the most that is accepted"
            )


#: Of what comes from elsewhere.
UPLOAD_LIMITS = Limits(numbers=25_000_000, unzipped_bytes=256 << 20, characters=64_000_000)


class ItemsError(ValueError):
    """What is wrong with items, in one sentence; ``where`` is where in what a client sent, such as "items.3.id"."""

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(message)
        self.where = where


def cut(text: str, most: int) -> str:
    """A text, shortened with an ellipsis where it is longer than ``most`` characters.

    What no database or UTF-8 holds, a zero or half of a surrogate pair, becomes a mark of replacement.

    >>> cut("abcdef", 4), cut("a\\0b", 4)
    ('abc…', 'a�b')
    """
    whole = text if len(text) <= most else text[: most - len(_ELLIPSIS)] + _ELLIPSIS
    return whole if is_plain(whole) else _NOT_PLAIN.sub("\ufffd", whole)


def is_plain(text: str) -> bool:
    """Whether a text can be kept and told of as it is; an id or a name that cannot is refused."""
    return _NOT_PLAIN.search(text) is None


def wrong_with_id(id: str) -> str | None:
    """Why an id is refused, for the end of a sentence that begins with it; None: it is accepted.

    >>> wrong_with_id("a\\u202eb")
    'holds U+202E, a control or a mark of direction, which nobody sees'
    """
    if len(id) > NAME_CHARACTERS:
        return f"is longer than {NAME_CHARACTERS} characters"
    if not is_plain(id):
        return "holds a character that is none in UTF-8, or a zero"
    if unseen := _UNSEEN.search(id):
        return f"holds U+{ord(unseen[0]):04X}, a control or a mark of direction, which nobody sees"
    return None
