"""Checks of arguments. Every error message says in one sentence what was wrong and what is accepted."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from decimal import Decimal
from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from ocelad._typing import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Value = TypeVar("Value")

# Longer values are not quoted in messages.
_MAX_QUOTED = 60

_SHAPES = {
    1: "numbers of shape (n_features,)",
    2: "numbers of shape (n_rows, n_features)",
    3: "numbers of shape (n_pairs, 2, n_features)",
}


def check_array(
    value: Any, name: str, *ndims: int, n_features: int | None = None, shapes: Mapping[int, str] = _SHAPES
) -> Floats:
    """Return ``value`` as a finite float64 array with one of the numbers of dimensions; ``shapes`` describes these.

    >>> check_array([[1, 2], [3, 4]], "X", 2).dtype
    dtype('float64')
    >>> check_array([1.0, float("nan")], "x", 1)
    Traceback (most recent call last):
        ...
    ValueError: x holds nan at position 1; only finite numbers are accepted
    """
    accepted = " or ".join(shapes[n] for n in ndims)
    raw = _numbers(value, name, accepted)
    if raw.ndim not in ndims:
        raise ValueError(f"{name} has shape {raw.shape}; accepted: {accepted}")
    if raw.size == 0:
        raise ValueError(f"{name} is empty (shape {raw.shape}); accepted: {accepted}, with at least one entry")
    if n_features is not None and raw.shape[-1] != n_features:
        raise ValueError(f"{name} has {raw.shape[-1]} features; {n_features} are expected")
    floats = _as_float64(raw, name)
    if not np.isfinite(floats).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(floats))[0])
        at = f"position {where[0]}" if len(where) == 1 else f"index {where}"
        raise ValueError(f"{name} holds {floats[where]} at {at}; only finite numbers are accepted")
    return floats


def is_sparse(value: object) -> bool:
    """Return whether ``value`` is a SciPy sparse matrix or array, without importing SciPy."""
    if isinstance(value, np.ndarray):
        return False
    scipy_sparse = sys.modules.get("scipy.sparse")  # a sparse value exists only if it has been imported
    return scipy_sparse is not None and bool(scipy_sparse.issparse(value))


def check_sparse(value: Any, name: str, *, n_features: int | None = None) -> csr_array[np.float64]:
    """Return a SciPy sparse matrix or array, one point per row, as a new finite float64 ``csr_array``.

    Its indices are sorted, duplicate entries are summed, and zeros are not stored. A sparse array of shape
    (n_features,) is one row.

    >>> from scipy.sparse import coo_array
    >>> check_sparse(coo_array(([1, 2, 0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3)), "X").data
    array([3.])
    """
    from scipy.sparse import csr_array

    accepted = f"a sparse matrix of {_SHAPES[2]}"
    if value.ndim == 1:
        value = value.reshape((1, -1))
    if value.ndim != 2 or 0 in value.shape:
        raise ValueError(f"{name} has shape {value.shape}; accepted: {accepted}, with at least one row and feature")
    if value.dtype.kind not in "biuf":
        raise TypeError(f"{name} holds values of type {value.dtype}; accepted: {accepted}")
    if n_features is not None and value.shape[1] != n_features:
        raise ValueError(f"{name} has {value.shape[1]} features; {n_features} are expected")
    rows = csr_array(value, dtype=np.float64, copy=True)
    with np.errstate(over="ignore", invalid="ignore"):
        rows.sum_duplicates()
    if not np.isfinite(rows.data).all():
        first = int(np.flatnonzero(~np.isfinite(rows.data))[0])
        where = int(np.searchsorted(rows.indptr, first, side="right")) - 1, int(rows.indices[first])
        raise ValueError(f"{name} holds {rows.data[first]} at index {where}; only finite numbers are accepted")
    rows.eliminate_zeros()
    return rows


#: What labels may be, in words.
ACCEPTED_LABELS = "+1 (or True) for similar, -1 (or 0 or False) for dissimilar"


def check_labels(value: Any, name: str, count: int) -> Floats:
    """Return ``count`` labels as +1.0 (similar) and -1.0 (dissimilar), from +1/-1, 1/0 or booleans.

    >>> check_labels([True, False], "y", 2)
    array([ 1., -1.])
    """
    accepted = ACCEPTED_LABELS
    raw = _numbers(value, name, accepted)
    if raw.ndim != 1:
        raise ValueError(f"{name} has shape {raw.shape}; accepted: one label per pair, shape (n_pairs,)")
    if len(raw) != count:
        raise ValueError(f"{name} has {len(raw)} labels for {count} pairs; accepted: one label per pair")
    if are_boolean(raw):
        return np.where(raw.astype(bool), 1.0, -1.0)
    floats = _as_float64(raw, name)
    wrong = np.flatnonzero((floats != 1.0) & (floats != -1.0) & (floats != 0.0))
    if wrong.size:
        raise ValueError(f"{name} holds {floats[wrong[0]]:g} at position {wrong[0]}; accepted: {accepted}")
    if (floats == 0.0).any() and (floats == -1.0).any():
        raise ValueError(f"{name} holds 0 and -1; accepted: {accepted}, but only one of them")
    return np.where(floats > 0.0, 1.0, -1.0)


def are_boolean(labels: Any) -> bool:
    """Return whether labels, one or many, are booleans."""
    raw = np.asarray(labels)
    return raw.dtype == np.bool_ or (
        raw.dtype.kind == "O" and all(isinstance(entry, (bool, np.bool_)) for entry in raw.ravel())
    )


def dissimilar_label(labels: Any) -> float | None:
    """Return the number that stands for dissimilar in valid labels, one or many: 0 or -1; None if none of them occurs.

    >>> dissimilar_label([1, 0]), dissimilar_label([1, -1]), dissimilar_label([True, False])
    (0.0, -1.0, None)
    """
    raw = np.asarray(labels)
    if are_boolean(raw):
        return None
    smallest = float(raw.astype(float).min(initial=1.0))
    return smallest if smallest < 1.0 else None


def check_label(value: Any, name: str) -> float:
    """Return one label as +1.0 or -1.0."""
    if isinstance(value, (bool, np.bool_)):
        return 1.0 if value else -1.0
    if isinstance(value, (Real, np.number)) and value in (1, 0, -1):
        return 1.0 if value == 1 else -1.0
    raise (ValueError if isinstance(value, Real) else TypeError)(f"{name} is {value!r}; accepted: {ACCEPTED_LABELS}")


def check_number(
    value: Any, name: str, *, at_least: float | None = None, above: float | None = None, at_most: float | None = None
) -> float:
    """Return ``value`` as a finite float within the given limits.

    >>> check_number(0, "step_size", above=0)
    Traceback (most recent call last):
        ...
    ValueError: step_size must be a finite number above 0; got 0
    """
    error: type[Exception] = TypeError
    if not isinstance(value, (bool, np.bool_, str, bytes)):
        try:
            result = float(value)
        except (TypeError, ValueError, OverflowError):
            pass
        else:
            error = ValueError
            inside = (
                isfinite(result)
                and (above is None or result > above)
                and (at_least is None or result >= at_least)
                and (at_most is None or result <= at_most)
            )
            if inside:
                return result
    limits = [
        words.format(limit)
        for words, limit in ((" above {:g}", above), (" of at least {:g}", at_least), (" of at most {:g}", at_most))
        if limit is not None
    ]
    raise error(f"{name} must be a finite number{' and'.join(limits)}; got {value!r}")


def check_integer(value: Any, name: str, *, at_least: int, at_most: int = 2**62) -> int:
    """Return ``value`` as an int from ``at_least`` to ``at_most``.

    >>> check_integer(2.5, "n_features", at_least=1)
    Traceback (most recent call last):
        ...
    TypeError: n_features must be a whole number of at least 1; got 2.5
    """
    sentence = f"{name} must be a whole number of at least {at_least}; got {value!r}"
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(sentence)
    result = int(value.__index__())
    if result < at_least:
        raise ValueError(sentence)
    if result > at_most:
        raise ValueError(f"{name} must be a whole number of at most {at_most}; got {value!r}")
    return result


def check_choice(value: Any, name: str, accepted: Iterable[Value]) -> Value:
    """Return ``value`` if it is one of the accepted ones.

    >>> check_choice("hing", "loss", ["hinge", "logistic"])
    Traceback (most recent call last):
        ...
    ValueError: loss must be one of 'hinge', 'logistic'; got 'hing'
    """
    options = list(accepted)
    for option in options:
        if type(value) is type(option) and value == option:
            return option
    raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}; got {value!r}")


def _numbers(value: Any, name: str, accepted: str) -> npt.NDArray[Any]:
    """Return ``value`` as an array of real numbers, not converted yet."""
    if np.ma.is_masked(value):
        raise ValueError(f"{name} has masked entries; accepted: {accepted}, none masked")
    try:
        raw = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} is ragged: its rows differ in length; accepted: {accepted}") from None
    if raw.ndim == 0 and raw.dtype.kind == "O":
        what = "None" if value is None else f"a {type(value).__name__}"
        raise TypeError(f"{name} is {what}; accepted: {accepted}")
    if raw.dtype.kind in "US":
        # Numbers beside texts have become texts, too.
        raw = np.asarray(value, dtype=object)
    if raw.dtype.kind not in "biufO":
        raise TypeError(f"{name} holds values of type {raw.dtype}; accepted: {accepted}")
    if raw.dtype.kind == "O":
        for position, entry in enumerate(raw.flat):
            if not isinstance(entry, (Real, Decimal, np.bool_)):
                raise TypeError(f"{name} holds {_quote(entry)}{_place(position, raw.shape)}; accepted: {accepted}")
    return raw


def _quote(entry: Any) -> str:
    quoted = repr(entry.item() if isinstance(entry, np.generic) else entry)
    return quoted if len(quoted) <= _MAX_QUOTED else f"a {type(entry).__name__} of {len(quoted)} characters"


def _place(position: int, shape: tuple[int, ...]) -> str:
    """Return the place of an entry of an array in words.

    >>> _place(3, (5,)), _place(3, (2, 2)), _place(0, ())
    (' at position 3', ' at index (1, 1)', '')
    """
    if len(shape) <= 1:
        return f" at position {position}" if shape else ""
    return f" at index {tuple(int(i) for i in np.unravel_index(position, shape))}"


def _as_float64(raw: npt.NDArray[Any], name: str) -> Floats:
    try:
        return np.ascontiguousarray(raw, dtype=np.float64)
    except OverflowError:
        raise ValueError(f"{name} holds a number that is too large for float64") from None


#: The most characters of a key, which says to whom an answer belongs.
MAX_KEY_LENGTH = 1000


def is_encodable(text: str) -> bool:
    """Return whether a text can be encoded: one half of a surrogate pair cannot.

    >>> is_encodable("\u00e9"), is_encodable("\\ud800")
    (True, False)
    """
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


#: The largest weight of a pair; larger ones would let single pairs decide.
MAX_SAMPLE_WEIGHT = 10.0


def check_weights(sample_weight: Any, n_samples: int) -> Floats | None:
    """Return the weights of samples as an array; None if none are given."""
    if sample_weight is None:
        return None
    weights = check_array(sample_weight, "sample_weight", 1, shapes={1: "numbers of shape (n_pairs,)"})
    if len(weights) != n_samples:
        raise ValueError(f"sample_weight has {len(weights)} numbers; accepted: {n_samples}, one for each pair")
    if weights.min() < 0 or weights.max() > MAX_SAMPLE_WEIGHT:
        at = int(np.argmax((weights < 0) | (weights > MAX_SAMPLE_WEIGHT)))
        raise ValueError(
            f"sample_weight holds {weights[at]:g} at position {at}; accepted: numbers from 0 to {MAX_SAMPLE_WEIGHT:g}"
        )
    return weights
