"""Features of texts by latent semantic analysis: truncated SVD of TF-IDF weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocelad._typing import Floats
from ocelad.service.items.upload_limits import ItemsError, truncate

N_COMPONENTS = 64
_MAX_WORDS = 50_000
_WORDS_PER_NAME = 3
_MAX_WORD_LENGTH = 30
# Components with a smaller singular value, relative to the largest, are rounding errors.
_NOISE = 1e-9


def text_features(name: str, texts: Sequence[str]) -> tuple[Floats, tuple[str, ...]]:
    """Return the features of texts, and their names: the words with the largest weights in each component.

    The features are the first 64 components of a truncated SVD, with a fixed seed, of the TF-IDF weights.

    >>> texts = ["the red cat", "a red dog", "the blue dog", "a blue cat"]
    >>> points, names = text_features("pets.csv", texts)
    >>> points.shape, len(names), names[0].count("·")
    ((4, 4), 4, 2)
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from threadpoolctl import threadpool_limits

    vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=_MAX_WORDS, token_pattern=r"(?u)\b\w\w+\b")
    try:
        table = vectorizer.fit_transform(texts)
    except ValueError:  # no text has a word
        raise ItemsError(f"the texts of {name} contain no words of at least two letters") from None
    words = vectorizer.get_feature_names_out()
    n_components = min(N_COMPONENTS, *table.shape)
    if table.shape[1] == 1:
        return table.toarray(), (f"word {truncate(str(words[0]), _MAX_WORD_LENGTH)}",)
    svd = TruncatedSVD(n_components, n_iter=10, random_state=0)
    with threadpool_limits(1):  # the number of threads would change the order of sums and thus the last bits
        points = np.asarray(svd.fit_transform(table))
    significant = svd.singular_values_ > _NOISE * svd.singular_values_[0]
    return points[:, significant], _names(svd.components_[significant], words)


def _names(components: Floats, words: Sequence[str]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for component in components:
        largest = np.argsort(-np.abs(component), kind="stable")[:_WORDS_PER_NAME]
        name = "·".join(truncate(str(words[i]), _MAX_WORD_LENGTH) for i in largest)
        n_same = sum(other == name or other.startswith(f"{name} (") for other in names)
        names[f"{name} ({n_same + 1})" if n_same else name] = None
    return tuple(names)
