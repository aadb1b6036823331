"""Reviews as word counts with labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer, check_number, check_sparse
from ocelad.evaluation.streams.pair_sampling import Rows, draw_pairs

Question: TypeAlias = Literal["type", "sentiment", "both", "star"]
#: The questions that define which reviews are similar: do they have the same ...?
QUESTIONS: tuple[Question, ...] = get_args(Question)

_VALUES, _PARTS = ("raw", "bin"), ("idf", "l2")
PREPROCESSINGS = tuple(
    ".".join([value, *parts]) for value in _VALUES for parts in ((), ("idf",), ("l2",), ("idf", "l2"))
)


@dataclass(frozen=True, eq=False)
class Reviews:
    """Reviews as word counts with their labels. The arrays are read-only.

    Attributes
    ----------
    counts : csr_array of shape (n_reviews, n_words)
        The count of each word in each review; every review has at least one word.
    words : tuple of str
        The word of each column; ``of_the`` is a pair of words.
    domains : array of str
        The product type of each review, such as "books".
    sentiment : array of str
        "positive" or "negative".
    stars : array of int, or None
        The number of stars, if known.
    source : str
        The data set: "top5000", "processed_acl", "processed_stars".

    Examples
    --------
    >>> reviews = Reviews([[2, 0, 1], [0, 1, 0], [2, 0, 1]], ("plot", "battery", "good"),
    ...                   ["books", "electronics", "books"], ["positive", "negative", "negative"])
    >>> reviews.labels("both").tolist()
    ['books, positive', 'electronics, negative', 'books, negative']
    >>> reviews.groups
    array([0, 1, 0])
    >>> reviews.points("bin.l2").toarray().round(2)
    array([[0.71, 0.  , 0.71],
           [0.  , 1.  , 0.  ],
           [0.71, 0.  , 0.71]])
    """

    counts: Any
    words: tuple[str, ...]
    domains: Any
    sentiment: Any
    stars: Any = None
    source: str = "given"

    def __post_init__(self) -> None:
        counts = check_sparse(csr_array(self.counts), "counts")
        if counts.nnz and (counts.data.min() < 0 or (counts.data != np.round(counts.data)).any()):
            raise ValueError("counts holds a number that is not a count; accepted: whole numbers of 0 or above")
        empty = np.flatnonzero(np.diff(counts.indptr) == 0)
        if len(empty):
            raise ValueError(f"the review at position {empty[0]} has no word; accepted: at least one word per review")
        words = tuple(self.words)
        if len(words) != counts.shape[1]:
            raise ValueError(f"words has {len(words)} names for {counts.shape[1]} columns; accepted: one per column")
        labels: dict[str, npt.NDArray[Any]] = {
            "domains": np.array(self.domains, dtype=str),
            "sentiment": np.array(self.sentiment, dtype=str),
        }
        if self.stars is not None:
            labels["stars"] = np.array(self.stars, dtype=np.int64)
        for name, values in labels.items():
            if values.shape != (counts.shape[0],):
                raise ValueError(f"{name} has shape {values.shape}; accepted: one entry for each of {counts.shape[0]}")
        arrays: list[npt.NDArray[Any]] = [counts.data, counts.indices, counts.indptr, *labels.values()]
        for array in arrays:
            array.setflags(write=False)
        for name, value in {"counts": counts, "words": words, **labels}.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    def __repr__(self) -> str:
        return f"Reviews({len(self)} of {', '.join(np.unique(self.domains))}; {len(self.words)} words; {self.source})"

    @cached_property
    def groups(self) -> Rows:
        """The duplicate group of each review, 0, 1, 2, ...; reviews of one group have the same counts."""
        counts, seen = self.counts, dict[bytes, int]()
        ends = counts.indptr.tolist()
        rows = (counts.indices[a:b].tobytes() + counts.data[a:b].tobytes() for a, b in pairwise(ends))
        groups = np.array([seen.setdefault(row, len(seen)) for row in rows])
        groups.setflags(write=False)
        return groups

    def fingerprint(self) -> str:
        """Return a digest of the counts, words and labels, which is the same on every machine."""
        digest = sha256("\n".join(self.words).encode())
        for array in (self.counts.indptr, self.counts.indices, self.counts.data):
            digest.update(array.astype("<i8").tobytes())
        for labels in (self.domains, self.sentiment, [] if self.stars is None else self.stars):
            digest.update("\n".join(map(str, labels)).encode() + b"\0")
        return digest.hexdigest()

    def summary(self) -> dict[str, Any]:
        """Return the number of reviews and words, the source and the fingerprint."""
        sizes = {"reviews": len(self), "words": len(self.words)}
        return {**sizes, "source": self.source, "fingerprint": self.fingerprint()}

    def labels(self, question: str) -> npt.NDArray[np.str_]:
        """Return the class of each review for a question: "type", "sentiment", "both" (four classes) or "star"."""
        check_choice(question, "question", QUESTIONS)
        if question == "star" and self.stars is None:
            raise ValueError(
                f"the reviews of {self.source} have no stars; accepted: 'type', 'sentiment' or 'both', "
                "or the reviews of processed_stars"
            )
        if question == "both":
            return np.char.add(np.char.add(self.domains, ", "), self.sentiment)
        return np.array({"type": self.domains, "sentiment": self.sentiment, "star": self.stars}[question], dtype=str)

    def points(self, preprocessing: str = "bin.idf.l2", *, idf_from: Any = None) -> Any:
        """Return the reviews as points, a ``csr_array``.

        Parameters
        ----------
        preprocessing : str
            "raw" for counts or "bin" for 1 if the word occurs, followed by ".idf", ".l2" or both. "idf" multiplies each
            word by ``1 + log((1 + n) / (1 + n_with_word))``, which gives rare words more weight. "l2" scales rows to
            length 1.
        idf_from : array of int, or None
            The rows from which word frequencies are computed, so that other rows have no influence. None: all rows.
        """
        parts = check_choice(preprocessing, "preprocessing", PREPROCESSINGS).split(".")
        points = self.counts.copy()
        if "bin" in parts:
            points.data = np.ones_like(points.data)
        if "idf" in parts:
            seen = self.counts if idf_from is None else self.counts[self._rows(idf_from, "idf_from")]
            with_word = np.bincount(seen.indices, minlength=len(self.words))
            points = csr_array(points @ diags_array(1.0 + np.log((1 + seen.shape[0]) / (1 + with_word))))
        if "l2" in parts:
            points = csr_array(diags_array(1.0 / np.sqrt(points.multiply(points).sum(axis=1))) @ points)
        return points

    def points_for(self, train: Any, preprocessing: str = "bin.idf.l2") -> Any:
        """Return ``points`` with word frequencies and scale computed from the training rows only.

        All points are divided by one number, so that the mean squared length of the training rows is 1 and one step
        size suits every preprocessing. This does not change which points are nearest neighbours.
        """
        train = self._rows(train, "train")
        points = self.points(preprocessing, idf_from=train)
        seen = points[train]
        return csr_array(points / np.sqrt(seen.multiply(seen).sum() / len(train)))

    def split(self, held_out: float = 0.3, seed: int = 0) -> tuple[Rows, Rows]:
        """Split the rows at random into training rows and held-out rows; a duplicate group stays on one side.

        Parameters
        ----------
        held_out : float
            The approximate share of held-out reviews, above 0 and below 1.
        seed : int
        """
        share = check_number(held_out, "held_out", above=0)
        sizes = np.bincount(self.groups)
        order = np.random.default_rng(check_integer(seed, "seed", at_least=0)).permutation(len(sizes))
        chosen = order[np.cumsum(sizes[order]) <= share * len(self)]
        if not 0 < len(chosen) < len(sizes):
            raise ValueError(
                f"held_out must leave reviews on both sides; got {held_out!r} of {len(self)} reviews "
                f"in {len(sizes)} groups"
            )
        is_held_out = np.isin(self.groups, chosen)
        return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)

    def pairs(
        self, rows: Any, question: str, n_pairs: int, seed: int = 0, *, balanced: bool = False
    ) -> tuple[Rows, Rows, Floats]:
        """Draw random pairs of the given rows; see ``draw_pairs``."""
        return draw_pairs(self.labels(question), n_pairs, seed, rows=self._rows(rows, "rows"), balanced=balanced)

    def _rows(self, rows: Any, name: str) -> Rows:
        given = np.asarray(rows)
        if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
            raise ValueError(f"{name} must be a one-dimensional array of row numbers; got {rows!r}")
        if given.min() < 0 or given.max() >= len(self):
            raise ValueError(f"{name} ranges from {given.min()} to {given.max()}; accepted: 0 to {len(self) - 1}")
        return given.astype(np.int64)
