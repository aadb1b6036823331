"""A column of keys: to whom, or to what, each row belongs, such as a user, a tenant or a site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ocelad._validation import MAX_KEY_LENGTH, is_encodable
from ocelad.io.tabular import cells
from ocelad.io.tabular.arrow import combine_chunks
from ocelad.io.tabular.point_columns import Record, get_cell

_ACCEPTED = f"a key is expected: a text of at most {MAX_KEY_LENGTH} characters, or a whole number"


@dataclass(frozen=True)
class KeyColumn:
    """A column of keys, which are read as text: files of all formats then have the same keys."""

    column: str

    def keys(self, table: Any) -> list[str] | None:
        """Return the key of each row of a table; None if one is invalid."""
        column = combine_chunks(table.column(self.column))
        if column.null_count:
            return None
        encoded = column.dictionary_encode()
        found = [normalize_key(entry) for entry in encoded.dictionary.to_pylist()]
        if None in found:
            return None
        distinct = np.array(found, dtype=object)
        keys: list[str] = distinct[encoded.indices.to_numpy(zero_copy_only=False)].tolist()
        return keys

    def key(self, record: Record) -> str:
        """Return the key of one record. Raises ``BadRowError`` if it is invalid."""
        return cells.require(self.column, get_cell(record, self.column), normalize_key, _ACCEPTED)


def normalize_key(cell: Any) -> str | None:
    """Return a key as text, so that the number 17 and the text "17" are the same key; None if the cell holds no key.

    >>> normalize_key("anna"), normalize_key(17), normalize_key(1.5), normalize_key("")
    ('anna', '17', None, None)
    """
    key = cells.normalize_id(cell)
    return key if key is not None and len(key) <= MAX_KEY_LENGTH and is_encodable(key) else None
