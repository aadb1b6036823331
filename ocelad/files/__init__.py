"""Streams of comparisons and tables of items from files, in chunks."""

from ocelad.files.comparisons import Chunk, ComparisonStream, open_comparisons
from ocelad.files.errors import FileError, RowError
from ocelad.files.items import Items, ItemStream, open_items
from ocelad.files.output import OUTPUTS, open_output

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
