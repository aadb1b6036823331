"""Limits of the items that are accepted, and the error for items that are not."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_ITEMS = 2_000_000
MAX_FEATURES = 4_000
# The largest number of items times features: 800 MB as float64.
MAX_VALUES = 100_000_000
# Of float32 vectors, which are mapped into memory: 3.2 GB.
MAX_SINGLE_VALUES = 800_000_000
MAX_FIELDS = 100
#: The largest length of an id, and of the name of a feature or a field.
MAX_NAME_LENGTH = 200
#: Longer displayed texts are truncated.
MAX_TEXT_LENGTH = 20_000
#: Longer texts in fields are truncated. A field may be chosen as the text or the link of a card later.
MAX_FIELD_LENGTH = 2_000
# Squares of larger numbers, and of the inverses of smaller ranges, would be close to the overflow of float64.
MAX_ABS_VALUE = 1e150
# Squares of larger numbers would be close to the overflow of float32.
MAX_ABS_SINGLE = 1e15
MAX_PIXELS = 50_000_000
#: The largest width and height of a displayed picture; larger ones are reduced.
MAX_PICTURE_SIDE = 256
#: The largest width and height of a picture in its own size.
MAX_FULL_SIDE = 2048
#: The largest total size of the displayed pictures, and of those in their own size; beyond it, later ones have only
#: the displayed size.
MAX_PICTURE_BYTES, MAX_FULL_BYTES = 2 << 30, 1 << 30
_ELLIPSIS = "…"
_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")
# Control characters, line separators, and what Unicode calls default ignorable: characters of no width, marks of text
# direction, variation selectors and fillers. With them, different ids could look the same.
_INVISIBLE = re.compile(
    "[\x01-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)


@dataclass(frozen=True)
class UploadLimits:
    """Limits of one file of items.

    Attributes
    ----------
    max_items, max_features, max_values : int
        The largest numbers of rows, of features per row, and of feature values in total.
    max_single_values : int
        The largest number of feature values of float32 vectors.
    max_picture_bytes, max_full_bytes : int
        The largest total size of displayed pictures, and of pictures in their own size; beyond the latter, pictures
        have only the displayed size.
    max_unzipped_bytes : int or None
        The largest size of a text file after decompression. None: no limit.
    max_characters : int or None
        The largest total length of ids, texts and fields, after truncation. None: no limit.
    """

    max_items: int = MAX_ITEMS
    max_features: int = MAX_FEATURES
    max_values: int = MAX_VALUES
    max_unzipped_bytes: int | None = None
    max_characters: int | None = None
    max_single_values: int = MAX_SINGLE_VALUES
    max_picture_bytes: int = MAX_PICTURE_BYTES
    max_full_bytes: int = MAX_FULL_BYTES

    def check(self, name: str, n_items: int, n_features: int, *, single: bool = False) -> None:
        """Raise ItemsError if there are too many items or features."""
        if n_features > self.max_features:
            raise ItemsError(f"{name} has {n_features:,} features; at most {self.max_features:,} are accepted")
        if n_items > self.max_items:
            raise ItemsError(f"{name} has too many items; at most {self.max_items:,} are accepted")
        max_values = self.max_single_values if single else self.max_values
        if n_items * n_features > max_values:
            raise ItemsError(
                f"{name} has too many numbers, at least {n_items:,} items with {n_features:,} features; "
                f"at most {max_values:,} numbers are accepted"
            )

    def check_pictures(self, name: str, n_bytes: int) -> None:
        """Raise ItemsError if the displayed pictures are too large in total."""
        if n_bytes > self.max_picture_bytes:
            size = self.max_picture_bytes
            accepted = f"{size >> 30} GiB" if size >> 30 else f"{size >> 20} MiB"
            raise ItemsError(f"the pictures of {name} are larger than {accepted} in total, at the size of display")

    def check_characters(self, name: str, n_characters: int) -> None:
        """Raise ItemsError if there is too much text."""
        if self.max_characters is not None and n_characters > self.max_characters:
            raise ItemsError(f"{name} has too much text; at most {self.max_characters:,} characters are accepted")


#: The limits of uploads over HTTP.
HTTP_UPLOAD_LIMITS = UploadLimits(
    max_items=200_000,
    max_values=25_000_000,
    max_unzipped_bytes=256 << 20,
    max_characters=64_000_000,
    max_single_values=25_000_000,
    max_picture_bytes=512 << 20,
    max_full_bytes=512 << 20,
)


class ItemsError(ValueError):
    """Items that are not accepted; ``where`` is the location in the request, such as "items.3.id"."""

    def __init__(self, message: str, where: str | None = None) -> None:
        super().__init__(message)
        self.where = where


def truncate(text: str, max_length: int) -> str:
    """Shorten a text to at most ``max_length`` characters, with an ellipsis at its end.

    Characters that databases or UTF-8 cannot store, NUL and unpaired surrogates, become U+FFFD.

    >>> truncate("abcdef", 4), truncate("a\\0b", 4)
    ('abc…', 'a�b')
    """
    short = text if len(text) <= max_length else text[: max_length - len(_ELLIPSIS)] + _ELLIPSIS
    return short if is_storable(short) else _NOT_STORABLE.sub("\ufffd", short)


def is_storable(text: str) -> bool:
    """Return whether databases and UTF-8 can store a text; ids and names must be storable."""
    return _NOT_STORABLE.search(text) is None


def id_problem(id: str) -> str | None:
    """Return why an id is rejected, as the end of a sentence that begins with the id; None if it is accepted.

    >>> id_problem("a\\u202eb")
    'contains U+202E, an invisible character'
    >>> id_problem("..")
    'is a dot or two dots, which have another meaning in URLs'
    """
    if len(id) > MAX_NAME_LENGTH:
        return f"is longer than {MAX_NAME_LENGTH} characters"
    if not is_storable(id):
        return "contains NUL or a character that is invalid in UTF-8"
    if invisible := _INVISIBLE.search(id):
        return f"contains U+{ord(invisible[0]):04X}, an invisible character"
    if id != id.strip():
        return "begins or ends with a blank"
    if id in (".", ".."):
        return "is a dot or two dots, which have another meaning in URLs"
    return None
