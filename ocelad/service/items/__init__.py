"""The items of a project: reading, scaling, appending, describing and writing them."""

from ocelad.service.items.built_in import BUILT_IN, load_built_in
from ocelad.service.items.cards import (
    Card,
    CardColumn,
    card_columns,
    check_cards,
    choose_cards,
    default_cards,
    make_card,
    readable_cards,
)
from ocelad.service.items.column_roles import ColumnOptions
from ocelad.service.items.columns import Column, ColumnValues, column_values, list_columns
from ocelad.service.items.differences import Difference, largest_differences
from ocelad.service.items.digests import items_digest, source_digest
from ocelad.service.items.item_scaling import fit_scaling
from ocelad.service.items.load_items import load_items
from ocelad.service.items.new_items import check_new_items, concatenate
from ocelad.service.items.sandbox import read_upload
from ocelad.service.items.upload_limits import ItemsError, UploadLimits
from ocelad.service.items.write_items import write_items

__all__ = [
    "BUILT_IN",
    "Card",
    "CardColumn",
    "Column",
    "ColumnOptions",
    "ColumnValues",
    "Difference",
    "ItemsError",
    "UploadLimits",
    "card_columns",
    "check_cards",
    "check_new_items",
    "choose_cards",
    "column_values",
    "concatenate",
    "default_cards",
    "fit_scaling",
    "items_digest",
    "largest_differences",
    "list_columns",
    "load_built_in",
    "load_items",
    "make_card",
    "read_upload",
    "readable_cards",
    "source_digest",
    "write_items",
]
