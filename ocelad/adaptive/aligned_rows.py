"""apply_to_rows: products whose bits do not depend on how a stream is divided into calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ocelad._typing import Floats

# Rows of every product.
ROWS_PER_PRODUCT = 8


def apply_to_rows(function: Callable[[Floats], Floats], rows: Floats, t: int) -> Floats:
    """Return the function of rows of rounds t, t + 1, ..., which accepts a stack of arrays and treats rows alike.

    BLAS rounds a row differently among other numbers of rows, or at another place. So every row is multiplied among
    ROWS_PER_PRODUCT rows, at a place that depends only on its round.

    >>> apply_to_rows(lambda stack: stack @ np.ones(2), np.array([[1.0, 2.0], [3.0, 4.0]]), t=7)
    array([3., 7.])
    """
    first, (count, n) = t % ROWS_PER_PRODUCT, rows.shape
    stack = np.zeros((-(-(first + count) // ROWS_PER_PRODUCT), ROWS_PER_PRODUCT, n))
    stack.reshape(-1, n)[first : first + count] = rows
    values = function(stack)
    return values.reshape(-1, *values.shape[2:])[first : first + count]
