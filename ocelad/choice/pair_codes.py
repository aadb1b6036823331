"""Pairs of positions as single integers, and random draws of pairs that are left."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import isqrt

import numpy as np


def encode_pair(left: int, right: int) -> int:
    """Return the code of an unordered pair: 0, 1, 2, ... in the order of the larger position, then the smaller one.

    New items have larger positions, so that the code of a pair does not change when items are added.

    >>> [encode_pair(1, 0), encode_pair(0, 2), encode_pair(2, 1), encode_pair(3, 0)]
    [0, 1, 2, 3]
    """
    first, last = min(left, right), max(left, right)
    return last * (last - 1) // 2 + first


def decode_pair(code: int) -> tuple[int, int]:
    """Return the two positions of a code, the smaller one first.

    >>> decode_pair(encode_pair(7, 3))
    (3, 7)
    """
    last = (1 + isqrt(1 + 8 * code)) // 2
    return code - last * (last - 1) // 2, last


def n_pairs(n_items: int) -> int:
    """Return the number of pairs of ``n_items`` items; their codes are the integers below it."""
    return n_items * (n_items - 1) // 2


def draw_codes(generator: np.random.Generator, n_items: int, max_codes: int, *excluded: Collection[int]) -> list[int]:
    """Draw distinct codes that are not excluded: at most ``max_codes``, and at least one if any is left.

    The first one is uniform over all codes that are left.

    >>> draw_codes(np.random.default_rng(0), 4, 30, {0, 1}, {3, 4, 77})
    [2, 5]
    """
    end = n_pairs(n_items)
    codes = generator.permutation(end) if end <= max_codes else generator.integers(end, size=max_codes)
    free = [code for code in codes.tolist() if not any(code in some for some in excluded)]
    return list(dict.fromkeys(free or _draw_from_few(generator, end, max_codes, excluded)))


def _draw_from_few(
    generator: np.random.Generator, end: int, max_codes: int, excluded: Iterable[Iterable[int]]
) -> list[int]:
    """Draw codes, with repetitions, if so few are left that random codes are unlikely to be among them."""
    used = np.array(sorted({code for some in excluded for code in some if code < end}), dtype=np.int64)
    if len(used) == end:
        return []
    ranks = generator.integers(end - len(used), size=max_codes)
    # The k-th used code is preceded by used[k] - k codes that are left.
    n_skipped = np.searchsorted(used - np.arange(len(used)), ranks, side="right")
    codes: list[int] = (ranks + n_skipped).tolist()
    return codes
