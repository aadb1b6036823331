"""The kinds of columns, how they are guessed from the values, and how values are prepared for comparison."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import date, datetime
from itertools import islice
from math import isfinite
from typing import Any, Literal, TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice

#: How the values of a column are compared: by letters and words; by letters; by characters of a code, such as a
#: telephone number; as numbers; as dates; or only whether they are equal.
Kind: TypeAlias = Literal["text", "word", "code", "number", "date", "exact"]
KINDS: tuple[Kind, ...] = ("text", "word", "code", "number", "date", "exact")

# The number of values from which a kind is guessed, and the share of them that must look like it.
_N_SAMPLED, _MIN_SHARE = 1000, 0.9
# A column is a text, and not a word, if at least this share of its values has several words.
_MANY_WORDS = 0.1
# A column is a code if at least this share of its characters are digits.
_MANY_DIGITS = 0.4
# Numbers with at least this many digits, all of one length, identify something: they are codes.
_CODE_DIGITS = 6
# A word of the name of a column that says that its digits are a code.
_CODE_NAME = re.compile(
    r"(^|[\W_])(zip|zip_?code|post_?code|postal_?code|plz|phone|telephone|tel|mobile|fax|ean|isbn|ssn)($|[\W_])",
    re.IGNORECASE,
)

_DATE_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d", "%Y%m%d")
_DAY_FIRST, _MONTH_FIRST = "%d/%m/%Y", "%m/%d/%Y"
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?[./]\d\d?[./]\d{4}|\d{4}/\d\d?/\d\d?")
_SLASHES = re.compile(r"\s*(\d\d?)/(\d\d?)/\d{4}")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


def check_kind(kind: Any, column: str) -> Kind:
    """Return ``kind`` if it is one of ``KINDS``."""
    return check_choice(kind, f"the kind of column {column!r}", KINDS)


def guess_kind(values: Sequence[Any], name: str = "") -> Kind | None:
    """Return the kind of a column that its values look like; None if it has no values.

    Numbers in a column with the name of a code, such as "zip" or "phone", are codes.

    >>> guess_kind(["Ann Lee", "Bob Ray"]), guess_kind(["Rome", "Oslo"]), guess_kind(["020 7946 0018", None])
    ('text', 'word', 'code')
    >>> guess_kind(["1980-02-29", "29.2.1980"]), guess_kind(["12.50", "7"]), guess_kind([True, False])
    ('date', 'number', 'exact')
    >>> guess_kind(["12345", "98765"]), guess_kind(["12345", "98765"], "zip_code")
    ('number', 'code')
    """
    found = list(islice((value for value in values if value is not None), _N_SAMPLED))
    if not found:
        return None
    if all(isinstance(value, bool) for value in found):
        return "exact"
    if all(isinstance(value, (date, datetime, np.datetime64)) for value in found):
        return "date"
    texts = [str(value).strip() for value in found]

    def most(matches: Sequence[bool]) -> bool:
        return sum(matches) >= _MIN_SHARE * len(texts)

    if most([_DATE.fullmatch(text) is not None for text in texts]):
        return "date"
    if most([_NUMBER.fullmatch(text) is not None for text in texts]):
        if _CODE_NAME.search(name) and most([text.isdigit() for text in texts]):
            return "code"
        is_typed = all(isinstance(value, (int, float)) for value in found)
        has_zero = any(len(text) > 1 and text[0] == "0" and text.isdigit() for text in texts)
        lengths = {len(text) for text in texts}
        is_long = len(lengths) == 1 and min(lengths) >= _CODE_DIGITS and all(text.isdigit() for text in texts)
        return "code" if not is_typed and (has_zero or is_long) else "number"
    characters = "".join(texts)
    n_digits = sum(character.isdigit() for character in characters)
    if n_digits >= _MANY_DIGITS * sum(character.isalnum() for character in characters):
        return "code"
    n_many = sum(len(words_of(text)) > 1 for text in texts)
    return "text" if n_many >= _MANY_WORDS * len(texts) else "word"


def clean_text(value: Any) -> str:
    """Return a value as lower-case words without accents and punctuation; empty if it is missing.

    >>> clean_text("Müller-Lüdenscheidt,  E. ")
    'muller ludenscheidt e'
    """
    if value is None:
        return ""
    text = unicodedata.normalize("NFKD", str(value).casefold())
    # Combining marks are accents; letters of other scripts stay.
    letters = "".join(letter for letter in text if not unicodedata.combining(letter))
    return " ".join(words_of(letters))


def clean_code(value: Any) -> str:
    """Return the letters and digits of a code; empty if it is missing.

    >>> clean_code("+44 20-7946.0018")
    '442079460018'
    """
    return clean_text(value).replace(" ", "")


def words_of(text: str) -> list[str]:
    """Return the words of a text: sequences of letters and digits."""
    return re.findall(r"[^\W_]+", text)


def to_numbers(values: Sequence[Any]) -> Floats:
    """Return values as numbers; NaN where a value is missing or is no number."""
    return np.array([_to_number(value) for value in values], dtype=np.float64)


def _to_number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan
    return number if isfinite(number) else np.nan


def to_days(values: Sequence[Any]) -> Floats:
    """Return the dates of a column as days since 1970; NaN where a value is missing or is no date.

    In dates such as 3/4/1980 the day is first, unless more dates of the column can only be read with the month first.

    >>> to_days(["1970-01-11", "11.1.1970", None, "soon"])
    array([10., 10., nan, nan])
    >>> to_days(["11/1/1970"]), to_days(["1/11/1970", "12/31/1969"])
    (array([10.]), array([10., -1.]))
    """
    formats = (*_DATE_FORMATS, *_slash_formats(values))
    return np.array([_to_day(value, formats) for value in values], dtype=np.float64)


def count_unread(values: Sequence[Any], kind: Kind) -> tuple[int, Any]:
    """Return how many values of a column cannot be read as this kind, and the first of them.

    >>> count_unread(["1980-01-02", None, "soon", "late"], "date"), count_unread(["12", "x"], "number")
    ((2, 'soon'), (1, 'x'))
    """
    if kind not in ("date", "number"):
        return 0, None
    read = ~np.isnan(to_days(values) if kind == "date" else to_numbers(values))
    unread = [value for value, is_read in zip(values, read.tolist(), strict=True) if value is not None and not is_read]
    return len(unread), next(iter(unread), None)


def _slash_formats(values: Sequence[Any]) -> tuple[str, str]:
    """Return the two formats of dates with slashes, first the one that reads more values."""
    parts = [_SLASHES.match(value) for value in values if isinstance(value, str)]
    n_day_first, n_month_first = (sum(int(match[place]) > 12 for match in parts if match) for place in (1, 2))
    return (_MONTH_FIRST, _DAY_FIRST) if n_month_first > n_day_first else (_DAY_FIRST, _MONTH_FIRST)


def _to_day(value: Any, formats: Sequence[str]) -> float:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[D]").item()
    if isinstance(value, datetime):
        value = value.date()
    if not isinstance(value, date):
        value = _parse_date(str(value).strip(), formats) if value is not None else None
    return np.nan if value is None else float(value.toordinal() - date(1970, 1, 1).toordinal())


def _parse_date(text: str, formats: Sequence[str]) -> date | None:
    text = re.split(r"[T ]", text, maxsplit=1)[0]
    for format in formats:
        try:
            return datetime.strptime(text, format).date()
        except ValueError:
            continue
    return None
