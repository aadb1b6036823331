"""Names of columns that say what the column is for: the title of an item, a link, a picture."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# In small letters and without separators; the first ones are preferred.
TITLES = ("title", "name", "fullname", "displayname", "productname", "itemname", "headline", "heading", "titel")
LINKS = ("link", "url", "href", "website", "homepage", "uri")
#: Columns with what people are to find out: a card that showed them would give the answer away.
CLASSES = ("label", "class", "target", "y", "cluster", "group", "entity", "groundtruth")
PICTURES = ("picture", "image", "img", "photo", "picturebytes", "imagebytes", "thumbnail", "jpg", "jpeg", "png")


def is_named(names: Sequence[str], column: str) -> bool:
    """Return whether a column has one of the names, regardless of capitals, spaces, dots, - and _.

    >>> is_named(CLASSES, "Ground truth")
    True
    """
    return _plain(column) in names


def _plain(column: str) -> str:
    return re.sub(r"[\s_.-]+", "", column).lower()


def find_named(names: Sequence[str], columns: Iterable[str]) -> str | None:
    """Return the column with the first of the names, regardless of capitals, spaces, dots, - and _.

    >>> find_named(TITLES, ["price", "Full_Name", "Name"])
    'Name'
    """
    plain = {_plain(column): column for column in reversed(list(columns))}
    return next((plain[name] for name in names if name in plain), None)
