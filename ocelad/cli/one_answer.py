"""The note about pairs that all have the same answer."""

from __future__ import annotations


def note_one_answer(n_similar: int, n_dissimilar: int, where: str) -> str | None:
    """Return a sentence if pairs have only one of the two answers, otherwise None; ``where`` names them.

    >>> note_one_answer(100, 0, "pairs.csv")
    'Note: all 100 pairs of pairs.csv are "same", and none is "different".'
    >>> note_one_answer(99, 1, "pairs.csv") is None
    True
    """
    if (n_similar > 0) == (n_dissimilar > 0):
        return None
    answer, other = ("same", "different") if n_similar else ("different", "same")
    n = n_similar + n_dissimilar
    pairs = f"all {n:,} pairs of {where} are" if n > 1 else f"the only pair of {where} is"
    return f'Note: {pairs} "{answer}", and none is "{other}".'
