"""Pairs of positions as single numbers, and draws among those that are left."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import isqrt

import numpy as np


def code_of(left: int, right: int) -> int:
    """The number of a pair, whichever comes first: 0, 1, 2, ... in the order of the later item, then the earlier one.

    New items come last, so that a pair's number stays what it was when there are more of them.

    >>> [code_of(1, 0), code_of(0, 2), code_of(2, 1), code_of(3, 0)]
    [0, 1, 2, 3]
    """
    first, last = min(left, right), max(left, right)
    return last * (last - 1) // 2 + first


def pair_of(code: int) -> tuple[int, int]:
    """The two positions, the earlier one first.

    >>> pair_of(code_of(7, 3))
    (3, 7)
    """
    last = (1 + isqrt(1 + 8 * code)) // 2
    return code - last * (last - 1) // 2, last


def n_pairs(n_items: int) -> int:
    """How many pairs so many items have; their numbers are those below it."""
    return n_items * (n_items - 1) // 2


def draw(generator: np.random.Generator, n_items: int, most: int, *taken: Collection[int]) -> list[int]:
    """Some pairs that nobody has taken, by their numbers: each once, at most so many, and none only where none is left.

    The first of them is any of those that are left, all equally likely.

    >>> draw(np.random.default_rng(0), 4, 30, {0, 1}, {3, 4, 77})
    [2, 5]
    """
    end = n_pairs(n_items)
    codes = generator.permutation(end) if end <= most else generator.integers(end, size=most)
    free = [code for code in codes.tolist() if not any(code in some for some in taken)]
    return list(dict.fromkeys(free or _draw_of_few(generator, end, most, taken)))


def _draw_of_few(generator: np.random.Generator, end: int, most: int, taken: Iterable[Iterable[int]]) -> list[int]:
    """The same, with repetitions, where so few are left that one must count them."""
    gone = np.array(sorted({code for some in taken for code in some if code < end}), dtype=np.int64)
    if len(gone) == end:
        return []
    places = generator.integers(end - len(gone), size=most)
    # Before the k-th that is gone there are gone[k] - k that are left.
    passed = np.searchsorted(gone - np.arange(len(gone)), places, side="right")
    found: list[int] = (places + passed).tolist()
    return found
