"""The two product types of the experiments on reviews."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ocelad.evaluation.streams.reviews import PAPER_DOMAINS, find_domains

#: The product types of the paper, as a setting of a figure.
PAPER_SETTING = " ".join(PAPER_DOMAINS)


def parse_domains(setting: str) -> tuple[str, ...]:
    """Return the two product types of a setting, which blanks or commas separate, in alphabetical order.

    >>> parse_domains("kitchen,books")
    ('books', 'kitchen')
    """
    names = tuple(sorted(filter(None, re.split(r"[\s,]+", setting))))
    if len(set(names)) != 2 or len(names) != 2 or not all(re.fullmatch(r"\w[\w&.-]*", name) for name in names):
        raise ValueError(f"domains must be two different product types, such as {PAPER_SETTING!r}; got {setting!r}")
    return names


def check_domains(domains: Sequence[str], reviews_folder: str | Path | None) -> None:
    """Raise ValueError if there are no reviews of a product type."""
    if tuple(domains) == PAPER_DOMAINS:  # what is missing of those is said when they are read
        return
    known = find_domains(reviews_folder)
    for name in domains:
        if name not in known:
            raise ValueError(f"there are no reviews of {name!r}; accepted: {', '.join(known)}")
