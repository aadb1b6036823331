"""RecordComparison: comparison vectors of pairs of records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ocelad.records.column_kinds import Kind, check_kind, count_unread, guess_kind
from ocelad.records.comparators import COMPARATORS, Comparator
from ocelad.records.record_table import RecordTable

#: The entry of a comparison vector where a value is missing: a dissimilarity of 1/4, between that of equal and of
#: unrelated values.
MISSING_ENTRY = 0.5
# Pairs that are compared at once.
_BATCH = 100_000
# Columns of one table only that a note names.
_MAX_NAMED = 8


class RecordComparison:
    """Compares pairs of records, column by column.

    An entry of a comparison vector is the square root of a dissimilarity from 0, equal, to 1. The squared distance of a
    comparison vector from 0 is thus a weighted sum of dissimilarities, as in the model of Fellegi and Sunter, and it is
    what a ``MetricTracker`` learns from pairs of a comparison vector and 0.

    Parameters
    ----------
    left, right : RecordTable
        Two tables, or the same one twice.
    kinds : mapping of str to Kind
        The kinds of columns; those of other columns that both tables have are guessed.
    exclude : collection of str
        Columns that are not compared.

    Attributes
    ----------
    kinds : dict of str to Kind
        The columns that are compared.
    feature_names : tuple of str
        The entries of a comparison vector, such as "name letters".
    notes : tuple of str
        Columns that are not compared, and why, and values that cannot be read as numbers or dates.

    References
    ----------
    Fellegi and Sunter, A theory for record linkage, JASA 1969.

    Examples
    --------
    >>> from ocelad.records.record_table import read_table
    >>> left = read_table({"name": ["Ann Lee", "Bob Ray"], "born": [1970, 1980]}, "left")
    >>> right = read_table({"name": ["Lee, Anne", None], "born": [1970, 1990]}, "right")
    >>> comparison = RecordComparison(left, right)
    >>> comparison.feature_names
    ('name letters', 'name words', 'born difference')
    >>> comparison.compare(np.array([[0, 0], [1, 1]]))[:, :2].round(2)
    array([[0.63, 0.26],
           [0.5 , 0.5 ]], dtype=float32)
    """

    def __init__(
        self,
        left: RecordTable,
        right: RecordTable,
        kinds: Mapping[str, Kind] | None = None,
        exclude: tuple[str, ...] = (),
    ) -> None:
        kinds = dict(kinds or {})
        both = [name for name in left.columns if name in right.columns]
        if not both:
            sides = (", ".join(map(repr, list(table.columns)[:_MAX_NAMED])) for table in (left, right))
            raise ValueError(
                f"the tables have no column in common to compare: one has {next(sides)}, the other {next(sides)}; "
                "accepted: columns of the same name"
            )
        for name in (*kinds, *exclude):
            if name not in both:
                raise ValueError(f"no column {name!r} is in both tables; they have {', '.join(map(repr, both))}")
        notes, self.kinds = [], dict[str, Kind]()
        if only := [name for name in (*left.columns, *right.columns) if name not in both]:
            more = f" and {len(only) - _MAX_NAMED} more" if len(only) > _MAX_NAMED else ""
            notes.append(f"in one table only, not compared: {', '.join(only[:_MAX_NAMED])}{more}")
        for name in both:
            if name in exclude:
                continue
            values = [*left.columns[name], *(right.columns[name] if right is not left else ())]
            kind = check_kind(kinds[name], name) if name in kinds else guess_kind(values, name)
            if kind is None:
                notes.append(f"without values, not compared: {name}")
            else:
                self.kinds[name] = kind
                notes += _note_unread(name, kind, [left, right] if right is not left else [left])
        if not self.kinds:
            raise ValueError(
                f"all {len(both)} columns are excluded or without values; accepted: at least one to compare"
            )
        self.notes = tuple(notes)
        self._comparators: list[tuple[str, Comparator]] = [
            (f"{name} {comparator.name}", comparator(left.columns[name], right.columns[name]))
            for name, kind in self.kinds.items()
            for comparator in COMPARATORS[kind]
        ]
        self.feature_names = tuple(name for name, _ in self._comparators)

    def dissimilarities(self, pairs: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Return the dissimilarities of pairs of rows, of shape (n_pairs, n_features); NaN where one is missing."""
        left, right = pairs[:, 0], pairs[:, 1]
        return np.column_stack([comparator.compare(left, right) for _, comparator in self._comparators])

    def compare(self, pairs: npt.NDArray[Any], advance: Callable[[int], None] | None = None) -> npt.NDArray[np.float32]:
        """Return the comparison vectors of pairs of rows, of shape (n_pairs, n_features).

        ``advance`` is called with the number of pairs after each batch.
        """
        vectors = np.empty((len(pairs), len(self.feature_names)), dtype=np.float32)
        for first in range(0, len(pairs), _BATCH):
            batch = self.dissimilarities(pairs[first : first + _BATCH])
            vectors[first : first + _BATCH] = np.where(np.isnan(batch), MISSING_ENTRY, np.sqrt(batch))
            if advance is not None:
                advance(len(batch))
        return vectors


def _note_unread(name: str, kind: Kind, tables: Sequence[RecordTable]) -> list[str]:
    """Return a note about the values of a column that cannot be read as its kind, if there are any."""
    columns = [table.columns[name] for table in tables]
    counts, examples = zip(*(count_unread(values, kind) for values in columns), strict=True)
    n_unread, n_values = sum(counts), sum(value is not None for values in columns for value in values)
    if not n_unread:
        return []
    example = next(value for count, value in zip(counts, examples, strict=True) if count)
    share = f"{n_unread} of {n_values} values ({100 * n_unread / n_values:.3g} %) of {name}"
    return [f"unreadable as {kind}, compared as missing: {share}, such as {example!r}"]
