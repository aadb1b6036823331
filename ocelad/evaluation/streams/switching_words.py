"""Sparse pairs of documents as bags of words; first the topic is compared, then the style."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.evaluation.streams.pair_sampling import draw_uniform_pairs

N_GROUPS = 3  # of topics, and of styles
SQUARED_LENGTH = 20.0  # of a document; the squared distance of documents without a common word is 40


class SwitchingWords:
    """Sparse pairs of documents; first documents of one topic are similar, then documents of one style.

    A document has words of its topic, words of its style, and other words with different frequencies. Each word counts
    once.

    Parameters
    ----------
    n_words, n_documents : int
        The number of words, at least 300, and of documents.
    length : int
        The number of rounds for each of the two questions.
    seed : int
        The same seed gives the same stream.

    Attributes
    ----------
    documents : csr_array of shape (n_documents, n_words)
        Rows of squared length 20.
    labels : array of shape (2, n_documents)
        The topic and the style of each document.
    pairs : array of shape (2 length, 2)
        The indices of the two documents of each round.
    y : array of shape (2 length,)
        +1 similar, -1 dissimilar, by the question of the round.

    Examples
    --------
    >>> stream = SwitchingWords(seed=1)
    >>> stream.documents.shape, len(stream), stream.question(1), stream.question(1501)
    ((1500, 2000), 3000, 'topic', 'style')
    """

    questions = ("topic", "style")

    def __init__(self, *, n_words: int = 2000, n_documents: int = 1500, length: int = 1500, seed: int = 0) -> None:
        self.n_words = check_integer(n_words, "n_words", at_least=300)
        self.length = check_integer(length, "length", at_least=1)
        self.seed = check_integer(seed, "seed", at_least=0)
        n = check_integer(n_documents, "n_documents", at_least=10)
        rng = np.random.default_rng(self.seed)
        self.labels = rng.integers(N_GROUPS, size=(2, n))
        self.documents = _documents(self.labels, self.n_words, rng)
        self.pairs = np.stack(draw_uniform_pairs(n, 2 * self.length, rng), axis=1)
        question = np.repeat([0, 1], self.length)
        same = self.labels[question, self.pairs[:, 0]] == self.labels[question, self.pairs[:, 1]]
        self.y: Floats = np.where(same, 1.0, -1.0)

    def __len__(self) -> int:
        return len(self.y)

    def question(self, t: int) -> str:
        """Return the question of round t = 1, 2, 3, ..."""
        return self.questions[int(t > self.length)]


def _documents(labels: np.ndarray, n_words: int, rng: np.random.Generator) -> Any:
    """Draw documents with 6 words of their topic, 6 of their style, and up to 20 other words.

    The first words of the vocabulary are 30 for each topic and 30 for each style.
    """
    per_group, n_informative = 30, 2 * N_GROUPS * 30
    cumulative = np.cumsum(np.arange(1.0, n_words - n_informative + 1) ** -0.7)
    rows = []
    for topic, style in labels.T:
        topic_words = per_group * topic + rng.choice(per_group, 6, replace=False)
        style_words = per_group * (N_GROUPS + style) + rng.choice(per_group, 6, replace=False)
        others = n_informative + np.unique(np.searchsorted(cumulative, cumulative[-1] * rng.random(20)))
        rows.append(np.concatenate([topic_words, style_words, others]))
    sizes = np.array([len(row) for row in rows])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    values = np.repeat(np.sqrt(SQUARED_LENGTH / sizes), sizes)
    return csr_array((values, np.concatenate(rows), ends), shape=(len(rows), n_words))
