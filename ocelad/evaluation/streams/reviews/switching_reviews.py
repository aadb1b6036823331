"""Pairs of reviews, compared by their sentiment and then by the type of the product."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.evaluation.streams.reviews.reviews import Question, Reviews
from ocelad.evaluation.streams.switching_words import SQUARED_LENGTH


class SwitchingReviews:
    """Pairs of reviews, sparse; first those of one sentiment are similar, then those of one product type.

    It is to real reviews what ``SwitchingWords`` is to documents that are drawn, and has its attributes.

    Parameters
    ----------
    reviews : Reviews
    length : int
        How many rounds each of the two questions is asked for.
    seed : int
        The same seed gives the same pairs.

    Examples
    --------
    >>> reviews = Reviews([[2, 0, 1], [0, 1, 0], [1, 1, 1]], ("plot", "battery", "good"),
    ...                   ["books", "electronics", "books"], ["positive", "negative", "negative"])
    >>> stream = SwitchingReviews(reviews, length=100, seed=1)
    >>> stream.pairs.shape, stream.question(100), stream.question(101)
    ((200, 2), 'sentiment', 'type')
    """

    questions: tuple[Question, Question] = ("sentiment", "type")

    def __init__(self, reviews: Reviews, *, length: int = 1500, seed: int = 0) -> None:
        self.n_words = len(reviews.words)
        self.length = check_integer(length, "length", at_least=1)
        self.seed = check_integer(seed, "seed", at_least=0)
        self.documents = reviews.points("bin.idf.l2") * np.sqrt(SQUARED_LENGTH)
        rows, seeds = np.arange(len(reviews)), (2 * self.seed, 2 * self.seed + 1)
        asked = [reviews.pairs(rows, each, self.length, of) for each, of in zip(self.questions, seeds, strict=True)]
        self.pairs = np.concatenate([np.stack([left, right], axis=1) for left, right, _ in asked])
        self.y: Floats = np.concatenate([y for _, _, y in asked])

    def __len__(self) -> int:
        return len(self.y)

    def question(self, t: int) -> str:
        """What is asked in round t = 1, 2, 3, ..."""
        return self.questions[int(t > self.length)]
