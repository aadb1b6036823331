"""Pairs of reviews, compared by sentiment and then by product type."""

from __future__ import annotations

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.evaluation.streams.reviews.reviews import Question, Reviews
from ocelad.evaluation.streams.switching_words import SQUARED_LENGTH


class SwitchingReviews:
    """Sparse pairs of reviews; first reviews of one sentiment are similar, then reviews of one product type.

    It has the attributes of ``SwitchingWords``, with real reviews as documents.

    Parameters
    ----------
    reviews : Reviews
    length : int
        The number of rounds for each of the two questions.
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
        drawn = [
            reviews.pairs(rows, question, self.length, seed_)
            for question, seed_ in zip(self.questions, seeds, strict=True)
        ]
        self.pairs = np.concatenate([np.stack([left, right], axis=1) for left, right, _ in drawn])
        self.y: Floats = np.concatenate([y for _, _, y in drawn])

    def __len__(self) -> int:
        return len(self.y)

    def question(self, t: int) -> str:
        """Return the question of round t = 1, 2, 3, ..."""
        return self.questions[int(t > self.length)]
