"""Cards: what people see of an item when they answer. Each shows the columns that the project has chosen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ocelad.service.items.column_names import CLASSES, LINKS, TITLES, find_named, is_named
from ocelad.service.items.upload_limits import ItemsError, truncate
from ocelad.service.itemset import FieldValue, ItemSet
from ocelad.service.project_options import Cards

CardColumnKind = Literal["text", "link", "number", "boolean", "picture"]

_LINK = re.compile(r"https?://[^\s/?#<>\"\\^`{|}\x00-\x20\x7f]+[^\s<>\"\\^`{|}\x00-\x20\x7f]*", re.IGNORECASE)
# The number of values that determine the kind of a column.
_N_SAMPLED = 200
#: The largest numbers of features that can be chosen for cards, and of fields on a card that nobody has chosen.
MAX_CARD_FEATURES, MAX_DEFAULT_FIELDS = 100, 12
MAX_TITLE_LENGTH, MAX_LINK_LENGTH = 300, 2_000


class CardColumn(NamedTuple):
    """A column that a card can show; ``is_feature``: the distance is learned from it."""

    name: str
    kind: CardColumnKind
    is_feature: bool = False


class Card(NamedTuple):
    """The content of an item's card; ``has_picture``: it shows the item's picture."""

    title: str | None
    text: str | None
    link: str | None
    has_picture: bool
    fields: dict[str, FieldValue]


def card_columns(items: ItemSet) -> list[CardColumn]:
    """Return the columns that cards can show: ids, texts, pictures, fields, and features that are columns of a table.

    >>> from ocelad.service.items.load_items import parse_upload
    >>> items = parse_upload(b"id,name,price\\na,cup,1\\nb,pot,3\\n", "csv")
    >>> [(column.name, column.kind, column.is_feature) for column in card_columns(items)]
    [('id', 'text', False), ('name', 'text', False), ('price', 'number', True)]
    """
    found = []
    if (id_column := _id_column(items)) is not None:
        found.append(CardColumn(id_column, "text"))
    if (text_column := _text_column(items)) is not None:
        found.append(CardColumn(text_column, "text"))
    if (picture_column := _picture_column(items)) is not None:
        found.append(CardColumn(picture_column, "picture"))
    found += [CardColumn(name, _kind(values)) for name, values in items.fields.items()]
    return found + [CardColumn(name, "number", is_feature=True) for name in _feature_columns(items)]


def default_cards(items: ItemSet) -> Cards:
    """Return the cards of a project that has not chosen any: the columns whose names say what they are.

    Columns of classes are left out: they would give the answer away.
    """
    columns = [column for column in card_columns(items) if not column.is_feature]
    text, picture, id_column = _text_column(items), _picture_column(items), _id_column(items)
    free = [column for column in columns if column.name not in (text, picture, id_column)]
    title = find_named(TITLES, (column.name for column in free if column.kind == "text"))
    links = [column.name for column in free if column.kind == "link"]
    link = find_named(LINKS, links) or next(iter(links), None)
    shown = [column.name for column in free if column.name not in (title, link) and not is_named(CLASSES, column.name)]
    fields = tuple(shown[:MAX_DEFAULT_FIELDS])
    return Cards(title=title, text=text, link=link, picture=picture, fields=fields)


def choose_cards(items: ItemSet, chosen: Mapping[str, Any]) -> Cards:
    """Return the default cards with some columns chosen by role, as ``Cards`` names them; raise ItemsError.

    Columns that were chosen for one role are not displayed a second time by default.
    """
    cards = default_cards(items).model_copy(update=dict(chosen))
    taken = {name for role, name in chosen.items() if role != "fields"} | set(chosen.get("fields", ()))
    single = {role: None for role in ("title", "text", "link") if role not in chosen and getattr(cards, role) in taken}
    fields = cards.fields if "fields" in chosen else tuple(name for name in cards.fields if name not in taken)
    cards = cards.model_copy(update={**single, "fields": fields})
    check_cards(items, cards)
    return cards


def check_cards(items: ItemSet, cards: Cards) -> None:
    """Raise ItemsError if a card names a column that the items do not have, or that cannot have this role."""
    kinds = {column.name: column.kind for column in card_columns(items)}
    for role, name in (*_single_roles(cards), *(("fields", field) for field in cards.fields)):
        if name not in kinds:
            accepted = _list_names(kinds)
            raise ItemsError(f"the items have no column {name!r} for the cards; accepted: {accepted}", f"cards.{role}")
        if (kinds[name] == "picture") != (role == "picture"):
            of_kind = [other for other, kind in kinds.items() if (kind == "picture") == (role == "picture")]
            raise ItemsError(
                f"the column {name!r} cannot be the {_ROLE_NAMES[role]} of a card; accepted: {_list_names(of_kind)}",
                f"cards.{role}",
            )
    for name in cards.fields:
        if cards.fields.count(name) > 1:
            raise ItemsError(f"the column {name!r} occurs twice in the fields of the cards", "cards.fields")


def readable_cards(items: ItemSet, cards: Cards) -> Cards:
    """Return the cards without columns that the items do not have."""
    known = {column.name for column in card_columns(items)}
    return Cards(
        **{role: name for role, name in _single_roles(cards) if name in known},
        fields=tuple(name for name in cards.fields if name in known),
    )


def make_card(items: ItemSet, cards: Cards, position: int) -> Card:
    """Return the card of an item; a link that is not one of the web is a field, so that it is displayed as text."""
    title = None if cards.title is None else _as_text(_value(items, cards.title, position))
    text = None if cards.text is None else _as_text(_value(items, cards.text, position)) or ""
    link = None if cards.link is None else _value(items, cards.link, position)
    fields = {name: _value(items, name, position) for name in cards.fields}
    web_link = check_link(link)
    if cards.link is not None and link not in (None, "") and web_link is None and cards.link not in fields:
        fields = {cards.link: link, **fields}
    has_picture = cards.picture is not None and (items.has_picture is None or bool(items.has_picture[position]))
    return Card(None if not title else truncate(title, MAX_TITLE_LENGTH), text, web_link, has_picture, fields)


def check_link(value: FieldValue) -> str | None:
    """Return a link of the web, http or https; None for anything else.

    >>> check_link(" https://example.org/a?b=1 "), check_link("javascript:alert(1)"), check_link("https://a b")
    ('https://example.org/a?b=1', None, None)
    """
    link = value.strip() if isinstance(value, str) else ""
    return link if len(link) <= MAX_LINK_LENGTH and _LINK.fullmatch(link) else None


def _value(items: ItemSet, column: str, position: int) -> FieldValue:
    if column in items.fields:
        return items.fields[column][position]
    if column == _text_column(items) and items.text is not None:
        return items.text[position]
    if column == _id_column(items):
        return items.ids[position]
    value = float(items.features[position, items.feature_names.index(column)])
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _id_column(items: ItemSet) -> str | None:
    """Return the column of ids; items of earlier versions do not name it. Items that are numbered have none."""
    return items.source_columns.get("id")


def _text_column(items: ItemSet) -> str | None:
    """Return the column of texts; those of earlier versions, which do not name it, have the name "text"."""
    if items.text is None:
        return None
    return items.source_columns.get("text") or _unused_name("text", items)


def _picture_column(items: ItemSet) -> str | None:
    if items.pictures is None:
        return None
    return items.source_columns.get("picture") or _unused_name("picture", items)


def _unused_name(name: str, items: ItemSet) -> str:
    return name if name not in items.fields and name not in items.feature_names else f"({name})"


def _feature_columns(items: ItemSet) -> Sequence[str]:
    is_table = items.scaling.kind == "features" and len(items.feature_names) <= MAX_CARD_FEATURES
    return items.feature_names if is_table else ()


def _kind(values: Sequence[FieldValue]) -> CardColumnKind:
    present = [value for value in values if value is not None][:_N_SAMPLED]
    if present and all(isinstance(value, bool) for value in present):
        return "boolean"
    if present and all(isinstance(value, (int, float)) for value in present):
        return "number"
    # One exception in five: people fill in "none", or forget the protocol.
    n_links = sum(check_link(value) is not None for value in present)
    return "link" if present and 5 * n_links >= 4 * len(present) else "text"


_ROLE_NAMES = {"title": "title", "text": "text", "link": "link", "picture": "picture", "fields": "field"}


def _single_roles(cards: Cards) -> list[tuple[str, str]]:
    named = (("title", cards.title), ("text", cards.text), ("link", cards.link), ("picture", cards.picture))
    return [(role, name) for role, name in named if name is not None]


def _list_names(names: Iterable[str], limit: int = 20) -> str:
    listed = list(names)
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return (", ".join(map(repr, listed[:limit])) + more) or "none"


def _as_text(value: FieldValue) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
