"""Sparse pairs: documents as bags of words, compared by their topic and then by their style."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ocelad._typing import Floats
from ocelad._validation import check_integer

N_GROUPS = 3  # of topics, and of styles
SQUARED_LENGTH = 20.0  # of a document; those without a common word are twice as far apart


class SwitchingWords:
    """Pairs of documents, sparse; first those of one topic are similar, then those of one style.

    A document has words of its topic, words of its style, and words that say nothing, of which frequent ones come more
    often. Each word counts once.

    Parameters
    ----------
    n_words, n_documents : int
        How many there are of each; 300 words or more.
    length : int
        How many rounds each of the two questions is asked for.
    seed : int
        The same seed gives the same stream.

    Attributes
    ----------
    documents : csr_array of shape (n_documents, n_words)
        Rows of squared length 20.
    labels : array of shape (2, n_documents)
        The topic of each document, and its style.
    pairs : array of shape (2 length, 2)
        Which two documents are compared in each round.
    y : array of shape (2 length,)
        +1 similar, -1 dissimilar, by the question that is asked in the round.

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
        draw = np.random.default_rng(self.seed)
        self.labels = draw.integers(N_GROUPS, size=(2, n))
        self.documents = _documents(self.labels, self.n_words, draw)
        first, second = draw.integers(n, size=2 * self.length), draw.integers(n - 1, size=2 * self.length)
        self.pairs = np.stack([first, second + (second >= first)], axis=1)  # any other document, all equally likely
        asked = np.repeat([0, 1], self.length)
        same = self.labels[asked, self.pairs[:, 0]] == self.labels[asked, self.pairs[:, 1]]
        self.y: Floats = np.where(same, 1.0, -1.0)

    def __len__(self) -> int:
        return len(self.y)

    def question(self, t: int) -> str:
        """What is asked in round t = 1, 2, 3, ..."""
        return self.questions[int(t > self.length)]


def _documents(labels: np.ndarray, n_words: int, draw: np.random.Generator) -> Any:
    """30 words of each topic and of each style come first; a document has 6 of its own and 20 of the others."""
    own, telling = 30, 2 * N_GROUPS * 30
    often = np.cumsum(np.arange(1.0, n_words - telling + 1) ** -0.7)
    rows = []
    for topic, style in labels.T:
        of_topic = own * topic + draw.choice(own, 6, replace=False)
        of_style = own * (N_GROUPS + style) + draw.choice(own, 6, replace=False)
        others = telling + np.unique(np.searchsorted(often, often[-1] * draw.random(20)))
        rows.append(np.concatenate([of_topic, of_style, others]))
    sizes = np.array([len(row) for row in rows])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    values = np.repeat(np.sqrt(SQUARED_LENGTH / sizes), sizes)
    return csr_array((values, np.concatenate(rows), ends), shape=(len(rows), n_words))
