"""Streams of comparisons and tables of items from files, in chunks."""

from ocelad.io.comparisons import Chunk, ComparisonStream, open_comparisons
from ocelad.io.item_files import Items, ItemStream, open_items
from ocelad.io.output import OUTPUTS, open_output
from ocelad.io.tabular.errors import FileError, RowError

__all__ = [
    "OUTPUTS",
    "Chunk",
    "ComparisonStream",
    "FileError",
    "ItemStream",
    "Items",
    "RowError",
    "open_comparisons",
    "open_items",
    "open_output",
]
