"""Comparators: the dissimilarities of two columns, pair by pair, in [0, 1] and NaN where a value is missing.

A comparator is made from both columns, prepares their values once, and then compares rows of the left column with rows
of the right one, many at a time. All are symmetric, and 0 for equal values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from rapidfuzz import fuzz, process
from rapidfuzz.distance import OSA, JaroWinkler

from ocelad._typing import Floats
from ocelad.records.column_kinds import Kind, clean_code, clean_text, to_days, to_numbers

Rows: TypeAlias = npt.NDArray[np.integer[Any]]

# Values, and pairs of them, from which the distribution of the differences of random pairs is estimated.
_N_VALUES, _N_DIFFERENCES = 100_000, 20_000


class Comparator(ABC):
    """Compares two columns.

    Attributes
    ----------
    name : str
        What is compared, after the name of the column: "letters", for instance.
    """

    name: ClassVar[str]

    @abstractmethod
    def __init__(self, left: Sequence[Any], right: Sequence[Any]) -> None: ...

    @abstractmethod
    def compare(self, left_rows: Rows, right_rows: Rows) -> Floats:
        """Return the dissimilarity of each pair of rows."""


class _TextComparator(Comparator):
    """Compares prepared texts by a scorer of rapidfuzz."""

    #: A scorer of rapidfuzz, and its value for equal texts.
    scorer: ClassVar[Any]
    best: ClassVar[float] = 1.0

    @staticmethod
    @abstractmethod
    def prepare(values: Sequence[Any]) -> list[str]:
        """Return the texts to compare; an empty one is missing."""

    def __init__(self, left: Sequence[Any], right: Sequence[Any]) -> None:
        self._left = np.array(self.prepare(left), dtype=object)
        # The columns of one table are the same objects.
        self._right = self._left if right is left else np.array(self.prepare(right), dtype=object)

    def compare(self, left_rows: Rows, right_rows: Rows) -> Floats:
        left, right = self._left[left_rows], self._right[right_rows]
        scores = process.cpdist(left.tolist(), right.tolist(), scorer=self.scorer, dtype=np.float64)
        missing = (left == "") | (right == "")
        return np.where(missing, np.nan, np.clip(1.0 - np.asarray(scores) / self.best, 0.0, 1.0))


class Letters(_TextComparator):
    """The Jaro-Winkler distance of texts: letters in common, in nearly the same order, the first ones most."""

    name = "letters"
    scorer: ClassVar[Any] = staticmethod(JaroWinkler.normalized_similarity)

    @staticmethod
    def prepare(values: Sequence[Any]) -> list[str]:
        return [clean_text(value) for value in values]


class Words(Letters):
    """The overlap of the words of two texts: 0 if one text has all the words of the other, in any order.

    rapidfuzz's token_set_ratio: the shared words are set aside, and the edit distance of the words of only one text
    counts, so that a mistyped word is not a foreign one.
    """

    name = "words"
    scorer: ClassVar[Any] = staticmethod(fuzz.token_set_ratio)
    best = 100.0


class Characters(_TextComparator):
    """The edit distance of codes, in which two exchanged characters are one error, over the longer length."""

    name = "characters"
    scorer: ClassVar[Any] = staticmethod(OSA.normalized_similarity)

    @staticmethod
    def prepare(values: Sequence[Any]) -> list[str]:
        return [clean_code(value) for value in values]


class Digits(Characters):
    """The edit distance of dates written as year, month and day: it finds wrong digits."""

    name = "digits"

    @staticmethod
    def prepare(values: Sequence[Any]) -> list[str]:
        days = to_days(values)
        known = ~np.isnan(days)
        texts = np.full(len(days), "", dtype=object)
        texts[known] = np.datetime_as_string(days[known].astype("datetime64[D]"))
        return [text.replace("-", "") for text in texts.tolist()]


class Exact(Comparator):
    """0 for equal values, after accents, case and punctuation are removed, otherwise 1."""

    name = "exact"

    def __init__(self, left: Sequence[Any], right: Sequence[Any]) -> None:
        codes: dict[str, int] = {"": -1}
        self._left = np.array([codes.setdefault(clean_text(value), len(codes)) for value in left])
        self._right = np.array([codes.setdefault(clean_text(value), len(codes)) for value in right])

    def compare(self, left_rows: Rows, right_rows: Rows) -> Floats:
        left, right = self._left[left_rows], self._right[right_rows]
        return np.where((left < 0) | (right < 0), np.nan, (left != right).astype(np.float64))


class Difference(Comparator):
    """The share of random pairs whose values are closer, where values count by their rank.

    The unit and the skewness of a column thus do not matter: 100 and 110 employees are as close as 10 and 11 if as many
    values are between them.
    """

    name = "difference"

    def __init__(self, left: Sequence[Any], right: Sequence[Any]) -> None:
        self._left, self._right = self.to_numbers(left), self.to_numbers(right)
        values = np.concatenate([self._left, self._right])
        values = values[~np.isnan(values)]
        rng = np.random.default_rng(0)
        if len(values) > _N_VALUES:
            values = rng.choice(values, _N_VALUES, replace=False)
        self._sorted = np.sort(values)
        self._left_ranks, self._right_ranks = self._ranks(self._left), self._ranks(self._right)
        known = [ranks[~np.isnan(ranks)] for ranks in (self._left_ranks, self._right_ranks)]
        if not all(map(len, known)):
            known = [np.zeros(1), np.zeros(1)]
        drawn = [rng.choice(ranks, _N_DIFFERENCES) for ranks in known]
        self._differences = np.sort(np.abs(drawn[0] - drawn[1]))

    @staticmethod
    def to_numbers(values: Sequence[Any]) -> Floats:
        return to_numbers(values)

    def _ranks(self, values: Floats) -> Floats:
        """Return the mean of the first and last position of each value among the sorted ones."""
        below, above = (np.searchsorted(self._sorted, values, side) for side in ("left", "right"))
        return np.where(np.isnan(values), np.nan, (below + above) / 2.0)

    def compare(self, left_rows: Rows, right_rows: Rows) -> Floats:
        differences = np.abs(self._left_ranks[left_rows] - self._right_ranks[right_rows])
        # Equal values are no further apart than any random pair.
        shares = np.searchsorted(self._differences, differences, "left") / len(self._differences)
        return np.where(np.isnan(differences), np.nan, shares)


class Days(Difference):
    """``Difference`` of dates."""

    name = "days"

    @staticmethod
    def to_numbers(values: Sequence[Any]) -> Floats:
        return to_days(values)


#: The comparators of each kind of column.
COMPARATORS: dict[Kind, tuple[type[Comparator], ...]] = {
    "text": (Letters, Words),
    "word": (Letters,),
    "code": (Characters,),
    "number": (Difference,),
    "date": (Days, Digits),
    "exact": (Exact,),
}
