"""Names of people, in letters of any script, as the header ``Ocelad-Person`` carries them."""

from __future__ import annotations

from unicodedata import category, normalize
from urllib.parse import unquote_to_bytes

MAX_PERSON_LENGTH = 64
#: The header: ASCII letters, digits, spaces and . _ - ' as they are, anything else percent-encoded UTF-8.
PERSON_PATTERN = r"^(?:[A-Za-z0-9 ._'-]|%[0-9A-Fa-f]{2}){0,768}$"
PERSON_RULE = (
    f"a person's name has at most {MAX_PERSON_LENGTH} letters and digits of any script, spaces and "
    ". _ - ' ’ · @ + | :, percent-encoded as UTF-8 in the header"
)
# In names, mail addresses and ids of login providers. A slash is not accepted: the log stores "token/person".
_PUNCTUATION = frozenset(" ._-'’·@+|:")
# Unicode calls these letters or marks, but they have no shape: two names could look the same.
_INVISIBLE = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180F, 0x3164, 0xFFA0),
            *range(0x180B, 0x180E),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)


def decode_person(header: str) -> str:
    """Return the name that a header carries, in Unicode's composed form; raise ValueError if it is not accepted.

    Names are compared as texts, so that one name may not have two forms, nor parts that nobody sees: control
    characters, zero-width characters and those that change the direction of writing are refused.

    >>> decode_person("anna"), decode_person("Zo%C3%AB"), decode_person("%E6%9D%8E%E9%9B%B7")
    ('anna', 'Zoë', '李雷')
    """
    try:
        name = normalize("NFC", unquote_to_bytes(header).decode())
    except UnicodeDecodeError:
        raise ValueError(PERSON_RULE) from None
    if len(name) > MAX_PERSON_LENGTH or not all(map(is_name_character, name)):
        raise ValueError(PERSON_RULE)
    return name


def is_name_character(character: str) -> bool:
    """Return whether a character may be in a name: a letter or digit of any script that has a shape, or punctuation.

    >>> [is_name_character(character) for character in "ñ李/\\u200b\\u3164"]
    [True, True, False, False, False]
    """
    return character in _PUNCTUATION or (category(character)[0] in "LMN" and character not in _INVISIBLE)
