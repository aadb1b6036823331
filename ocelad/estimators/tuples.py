"""read_points: the points of pairs, triplets and quadruplets, from every accepted kind of input."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_array, check_sparse, is_sparse
from ocelad.estimators.item_lookup import ItemLookup, find_items, named_items
from ocelad.io import dataframes

TUPLE_NAMES = {2: "pairs", 3: "triplets", 4: "quadruplets"}


class Points(NamedTuple):
    """The points of tuples, by their place in the tuple.

    Attributes
    ----------
    parts : tuple of arrays or of ``csr_array``
        The first points of all tuples, the second points, and so on; one point per row.
    names : tuple of str, or None
        The names of the features, if the points came in tables.
    keys : array of shape (n_tuples, size), or None
        The ids or indices by which the points were given.
    dtype : type
        float32 if all points were given in it, otherwise float64. The parts are float64; results have this type.
    """

    parts: tuple[Any, ...]
    names: tuple[str, ...] | None
    keys: np.ndarray | None = None
    dtype: type[np.floating[Any]] = np.float64

    @property
    def n_tuples(self) -> int:
        """The number of tuples."""
        return int(self.parts[0].shape[0])

    @property
    def n_features(self) -> int:
        """The number of features of a point."""
        return int(self.parts[0].shape[1])


def read_points(tuples: Any, size: int, preprocessor: Any = None, n_features: int | None = None) -> Points:
    """Return the points of tuples of ``size`` points, after checking them.

    Parameters
    ----------
    tuples : array-like of shape (n_tuples, size, n_features), or (X, Z, ...), or indices of shape (n_tuples, size)
        X, Z, ... are ``size`` SciPy sparse matrices or tables; row i of all of them is tuple i. Indices, or ids,
        require a preprocessor.
    size : int
        2, 3 or 4.
    preprocessor : ItemLookup, or array-like, sparse matrix, table, mapping or callable, or None
        The points that indices or ids refer to; see ``find_items``.
    n_features : int or None
        The required number of features; None: any.

    Examples
    --------
    >>> read_points([[0, 2], [1, 0]], 2, preprocessor=[[0.0], [5.0], [7.0]]).parts
    (array([[0.],
           [5.]]), array([[7.],
           [0.]]))
    """
    name = TUPLE_NAMES[size]
    accepted = _accepted(size, preprocessor)
    if is_sparse(tuples):
        raise TypeError(f"{name} is one sparse matrix; accepted: {size} of them, ({', '.join('XZVW'[:size])})")
    if isinstance(tuples, (tuple, list)) and len(tuples) == size and any(map(_has_rows, tuples)):
        named = [dataframes.to_rows(part, letter) for part, letter in zip(tuples, "XZVW", strict=False)]
        names = named[0].names
        first, *others = ("the left table", "the right table") if size == 2 else list("XZVW"[:size])
        for part, other in zip(named[1:], others, strict=True):
            dataframes.check_feature_names(part.names, names, other, first)
        return Points(
            _check_parts([part.values for part in named], "XZVW", n_features), names, dtype=result_type(*tuples)
        )
    if dataframes.is_dataframe(tuples):
        tuples = np.column_stack(dataframes.column_arrays(tuples))
    if preprocessor is not None and np.ndim(tuples) == 2:
        return _read_keys(np.asarray(tuples), size, preprocessor, n_features)
    _check_not_keys(tuples, size, accepted)
    rows = check_array(tuples, name, 3, n_features=n_features, shapes={3: accepted})
    if rows.shape[1] != size:
        raise ValueError(f"{name} has shape {rows.shape}; accepted: {accepted}")
    return Points(tuple(rows[:, k] for k in range(size)), None, dtype=result_type(tuples))


def result_type(*values: Any) -> type[np.floating[Any]]:
    """Return the type of results that are computed from arrays, sparse matrices or tables, as in scikit-learn.

    It is float32 if all of them hold float32 numbers, otherwise float64.
    """
    return np.float32 if all(map(dataframes.is_single_precision, values)) else np.float64


def to_type(values: Floats, dtype: Any) -> Floats:
    """Return float64 results in the type of the input; a number that is too large for float32 becomes infinite."""
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)


def _accepted(size: int, preprocessor: Any) -> str:
    name = TUPLE_NAMES[size]
    more = "" if preprocessor is not None else " with a preprocessor"
    return f"numbers of shape (n_{name}, {size}, n_features), or indices or ids of shape (n_{name}, {size}){more}"


def _check_not_keys(tuples: Any, size: int, accepted: str) -> None:
    """Refuse one tuple of keys that is not in a list, and keys without a preprocessor."""
    try:
        array = np.asarray(tuples)
    except ValueError:  # ragged; refused later
        return
    name = TUPLE_NAMES[size]
    if array.shape == (size,):
        one = f"[[{', '.join('abcd'[:size])}]]"
        raise ValueError(f"{name} has shape {array.shape}; wrap a single one: {one}; accepted: {accepted}")
    if array.ndim == 2 and array.shape[1] == size and is_keys(array):
        raise ValueError(
            f"{name} holds ids or indices, and there is no preprocessor that has their points; set it by "
            f"set_params(preprocessor=...); accepted: {accepted}"
        )


def is_keys(array: np.ndarray) -> bool:
    """Return whether an array holds texts or integers only, which may be ids or indices."""
    if array.dtype.kind == "O":
        return array.size > 0 and all(isinstance(entry, str | Integral) for entry in array.ravel())
    return array.dtype.kind in "iuUST"


def _has_rows(part: Any) -> bool:
    return is_sparse(part) or dataframes.is_dataframe(part)


def _check_parts(parts: list[Any], letters: Sequence[str], n_features: int | None) -> tuple[Any, ...]:
    """Return the checked parts: all sparse or all dense, with the same numbers of rows and features."""
    sparse = is_sparse(parts[0])
    checked: list[Any] = []
    for part, letter in zip(parts, letters, strict=False):
        if is_sparse(part) != sparse:
            one, other = (letters[0], letter) if sparse else (letter, letters[0])
            raise TypeError(f"{one} is sparse and {other} is not; accepted: all of them sparse, or none")
        n = checked[0].shape[1] if checked else n_features
        checked.append(
            check_sparse(part, letter, n_features=n) if sparse else check_array(part, letter, 2, n_features=n)
        )
        if checked[-1].shape[0] != checked[0].shape[0]:
            raise ValueError(
                f"{letters[0]} has {checked[0].shape[0]} rows and {letter} has {checked[-1].shape[0]}; "
                "accepted: equally many, one tuple per row"
            )
    return tuple(checked)


def _read_keys(keys: Any, size: int, preprocessor: Any, n_features: int | None) -> Points:
    """Return the points that the preprocessor has for indices or ids."""
    name = TUPLE_NAMES[size]
    if keys.shape[1] != size or len(keys) == 0:
        raise ValueError(f"{name} has shape {keys.shape}; accepted: {_accepted(size, preprocessor)}")
    items = preprocessor if isinstance(preprocessor, ItemLookup) else find_items(preprocessor)
    try:
        rows = [items.rows(keys[:, k], name, k) for k in range(size)]
    except (TypeError, ValueError) as error:
        if keys.dtype.kind != "f":
            raise
        # Probably a PairTransformer has taken the indices for points.
        raise type(error)(f"{error}; in a pipeline, set PairTransformer(..., preprocessor=...)") from None
    with named_items(rows, [keys[:, k] for k in range(size)]):
        named = [dataframes.to_rows(part, "the preprocessor") for part in rows]
        values = _check_parts([part.values for part in named], ["the preprocessor"] * size, n_features)
    return Points(values, named[0].names, keys, result_type(*rows))
