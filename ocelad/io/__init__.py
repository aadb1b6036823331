"""Files: streams of comparisons and of items, tables as output, and saved state."""

from ocelad.io.comparison_files import ComparisonChunk, ComparisonStream, open_comparisons
from ocelad.io.item_files import ItemChunk, ItemStream, KnownFeatures, open_items
from ocelad.io.table_output import OUTPUT_SUFFIXES, open_output
from ocelad.io.tabular.file_errors import FileError, RowError

__all__ = [
    "OUTPUT_SUFFIXES",
    "ComparisonChunk",
    "ComparisonStream",
    "FileError",
    "ItemChunk",
    "ItemStream",
    "KnownFeatures",
    "RowError",
    "open_comparisons",
    "open_items",
    "open_output",
]
