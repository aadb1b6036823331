"""Features of texts: which words they share, in a few directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ocelad._typing import Floats
from ocelad.service.items.upload_limits import ItemsError, cut

N_DIRECTIONS = 64
_MOST_WORDS = 50_000
_NAME_WORDS = 3
_WORD_CHARACTERS = 30
# A direction that holds so little of the first one's length is rounding.
_NOISE = 1e-9


def text_features(name: str, texts: Sequence[str]) -> tuple[Floats, tuple[str, ...]]:
    """Points for texts, and the names of their features: the words that weigh most in each.

    Words are weighed by TF-IDF, and the table of texts by words is brought to its 64 strongest directions (truncated
    singular values, with a fixed seed).

    >>> texts = ["the red cat", "a red dog", "the blue dog", "a blue cat"]
    >>> points, names = text_features("pets.csv", texts)
    >>> points.shape, len(names), names[0].count("·")
    ((4, 4), 4, 2)
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from threadpoolctl import threadpool_limits

    vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=_MOST_WORDS, token_pattern=r"(?u)\b\w\w+\b")
    try:
        table = vectorizer.fit_transform(texts)
    except ValueError:  # no word in any of them
        raise ItemsError(f"the texts of {name} hold no words; words of two letters or more are expected") from None
    words = vectorizer.get_feature_names_out()
    count = min(N_DIRECTIONS, *table.shape)
    if table.shape[1] == 1:
        return table.toarray(), (f"word {cut(str(words[0]), _WORD_CHARACTERS)}",)
    directions = TruncatedSVD(count, n_iter=10, random_state=0)
    with threadpool_limits(1):  # another number of threads sums in another order, to other last bits
        points = np.asarray(directions.fit_transform(table))
    strong = directions.singular_values_ > _NOISE * directions.singular_values_[0]
    return points[:, strong], _names(directions.components_[strong], words)


def _names(directions: Floats, words: Sequence[str]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for direction in directions:
        strongest = np.argsort(-np.abs(direction), kind="stable")[:_NAME_WORDS]
        name = "·".join(cut(str(words[i]), _WORD_CHARACTERS) for i in strongest)
        same = sum(other == name or other.startswith(f"{name} (") for other in names)
        names[f"{name} ({same + 1})" if same else name] = None
    return tuple(names)
