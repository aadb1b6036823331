"""embed, distance and probability of the rows of a Dask DataFrame, by one metric or by the tracker of each row's key.

Needs ``pip install 'ocelad[dask]'``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np

try:
    import dask.dataframe as dd
    import pandas as pd
    import pyarrow as pa
    from dask import delayed
except ImportError as error:
    raise ImportError(f"ocelad.dask needs Dask's dataframes: pip install 'ocelad[dask]' ({error})") from None

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer
from ocelad.adaptive.shared_prior import SharedPrior, as_priors
from ocelad.fleet.fleet import Fleet
from ocelad.fleet.packed_trackers import Form, PackedTrackers
from ocelad.fleet.row_measures import (
    Ints,
    Kind,
    RowMeasure,
    metric_from_numbers,
    metric_numbers,
    rows_by_code,
)
from ocelad.fleet.stored_tracker import StoredTracker, prior_digest
from ocelad.metric import Metric, check_metric

__all__ = ["distance", "embed", "probability"]

#: The column with the points of one side, an array of numbers in each row, or its numeric columns.
PointColumns: TypeAlias = str | Sequence[Hashable]
#: A fleet, or the states of trackers by key.
States: TypeAlias = "Fleet | Mapping[Any, bytes] | Any"

_ARRAYS = pa.list_(pa.float64())
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
_OUTPUT_TYPES = {"distance": pa.float64(), "probability": pa.float64(), "embed": _ARRAYS}
# The number of states whose metrics are computed together: they are in memory at once.
_BLOCK_STATES = 1024


def distance(
    df: dd.DataFrame,
    left: PointColumns,
    right: PointColumns,
    *,
    metric: Metric | None = None,
    states: States | None = None,
    key: Hashable | Sequence[Hashable] | None = None,
    prior: SharedPrior | Sequence[SharedPrior] | None = None,
    form: Form | None = None,
    n_features: int | None = None,
    output: str = "distance",
) -> dd.DataFrame:
    """Return the rows with a further column: the distance of two points. It is computed when the result is.

    Give one ``metric`` for all rows, or ``states`` and ``key``: then each row is measured by the tracker of its key.
    A key without a state, or null, is measured by the prior if that is likely to help, as in ``Fleet.probability``.

    Where a point is null, holds null or has another length, the result is null. NaN and infinity give NaN. So that the
    two differ, the column has the type ``double[pyarrow]``.

    Parameters
    ----------
    df : dask.dataframe.DataFrame
    left, right : str or list of column names
        The two points: a column with arrays of numbers, or numeric columns.
    metric : Metric or None
    states : Fleet, mapping, pandas or Dask DataFrame, or None
        The trackers: an open fleet, as it is now; states by key, as ``Fleet.state`` returns them; or a table with the
        key columns and ``state``, one row for each key, such as ``ocelad.spark.latest`` wrote. Keys have the types of
        those of ``df``. Their metrics are computed once, those of a Dask DataFrame by the workers. Each worker has all
        of them in memory: at 25 features, 5 KB for each key.
    key : str, list of column names, or None
        The key columns of ``df``, and of a table of states.
    prior, form
        Those with which the trackers have learned; a fleet brings its own.
    n_features : int or None
        Needed with ``states`` that are no fleet, if points are arrays.
    output : str
        The name of the new column.

    Examples
    --------
    >>> import pandas as pd
    >>> from dask import dataframe
    >>> pairs = pd.DataFrame({"a": [0.0, 1.0], "b": [0.0, 2.0], "c": [3.0, 1.0], "d": [4.0, 5.0]})
    >>> df = dataframe.from_pandas(pairs, npartitions=1)
    >>> distance(df, ["a", "b"], ["c", "d"], metric=Metric(np.eye(2))).compute()["distance"].tolist()
    [5.0, 3.0]
    """
    return _measured(df, "distance", (left, right), metric, states, key, prior, form, n_features, output)


def probability(
    df: dd.DataFrame,
    left: PointColumns,
    right: PointColumns,
    *,
    metric: Metric | None = None,
    states: States | None = None,
    key: Hashable | Sequence[Hashable] | None = None,
    prior: SharedPrior | Sequence[SharedPrior] | None = None,
    form: Form | None = None,
    n_features: int | None = None,
    output: str = "probability",
) -> dd.DataFrame:
    """Return the rows with a further column: the probability that two points are the same.

    Parameters
    ----------
    df, left, right, metric, states, key, prior, form, n_features, output
        As in ``distance``. The threshold of ``metric`` must be calibrated, as that of a tracker is.
    """
    return _measured(df, "probability", (left, right), metric, states, key, prior, form, n_features, output)


def embed(
    df: dd.DataFrame,
    points: PointColumns,
    *,
    metric: Metric | None = None,
    states: States | None = None,
    key: Hashable | Sequence[Hashable] | None = None,
    prior: SharedPrior | Sequence[SharedPrior] | None = None,
    form: Form | None = None,
    n_features: int | None = None,
    n_components: int | None = None,
    output: str = "embedding",
) -> dd.DataFrame:
    """Return the rows with a further column: an array of numbers, in which the Euclidean distance is the learned one.

    Embeddings of different keys must not be compared: each key has its own distance. The column has the type
    ``list<item: double>[pyarrow]``.

    Parameters
    ----------
    df, metric, states, key, prior, form, n_features, output
        As in ``distance``.
    points : str or list of column names
        The column with the points, or numeric columns.
    n_components : int or None
        The number of dimensions, as in ``Metric.embed``; None: all.
    """
    if n_components is not None:
        check_integer(n_components, "n_components", at_least=1)
    return _measured(df, "embed", (points,), metric, states, key, prior, form, n_features, output, n_components)


class _MetricTable(NamedTuple):
    """The metrics of keys, small enough to travel to workers.

    Attributes
    ----------
    positions : dict
        The row of each key.
    numbers : array of shape (n_keys, 1 + n_features^2)
        Rows of ``metric_numbers``.
    of_new_key : Metric
    """

    positions: dict[Hashable, int]
    numbers: Floats
    of_new_key: Metric

    def of(self, key: Hashable) -> Metric:
        """Return the metric of a key; None is a new one."""
        at = None if key is None else self.positions.get(key)
        return self.of_new_key if at is None else metric_from_numbers(self.numbers[at])


def _measured(
    df: dd.DataFrame,
    kind: Kind,
    sides: Sequence[PointColumns],
    metric: Metric | None,
    states: States | None,
    key: Hashable | Sequence[Hashable] | None,
    prior: SharedPrior | Sequence[SharedPrior] | None,
    form: Form | None,
    n_features: int | None,
    output: str,
    n_components: int | None = None,
) -> dd.DataFrame:
    if not isinstance(df, dd.DataFrame):
        raise TypeError(f"df is a {type(df).__name__}; accepted: a DataFrame of dask.dataframe")
    if (metric is None) == (states is None):
        raise ValueError("give either metric, one for all rows, or states and key, one for each key")
    if metric is not None:
        check_metric(metric)
    if (states is None) != (key is None):
        raise ValueError("states and key belong together: key names the key columns of df")
    if output in df.columns:
        raise ValueError(f"df has a column {output!r} already; choose another name with output=")
    known = metric if metric is not None else states if isinstance(states, Fleet) else None
    expected = n_features if known is None or known.n_features is None else known.n_features
    if n_features not in (None, expected):
        raise ValueError(f"the trackers have {expected} features; got n_features={n_features}")
    roles = ("points",) if kind == "embed" else ("left", "right")
    columns = [_check_side(df, role, side) for role, side in zip(roles, sides, strict=True)]
    count = _count_features(dict(zip(roles, columns, strict=True)), expected)
    names = list(dict.fromkeys(name for side in columns for name in _as_list(side)))
    at = {name: f"c{position}" for position, name in enumerate(names)}  # the names of Arrow are texts
    arrow_sides = tuple(tuple(at[name] for name in side) if isinstance(side, list) else at[side] for side in columns)
    measure = RowMeasure(kind, arrow_sides, count, output, n_components)
    keys, metrics = [], metric
    if states is not None:
        keys = _check_key(df, key, "df")
        metrics = _metrics_of(states, keys, df, count, prior, form)
    lists = [side for side in columns if not isinstance(side, list)]
    # A value that is delayed is in the graph once, and not once for each partition.
    return df.map_partitions(
        _measure_partition,
        delayed(metrics, pure=True, traverse=False) if isinstance(metrics, Metric | _MetricTable) else metrics,
        measure,
        names,
        lists,
        keys,
        meta=df._meta.assign(**{output: pd.Series(dtype=pd.ArrowDtype(_OUTPUT_TYPES[kind]), index=df._meta.index)}),
    )


def _measure_partition(
    part: pd.DataFrame,
    metrics: Metric | _MetricTable,
    measure: RowMeasure,
    names: list[Any],
    lists: list[Any],
    keys: list[Any],
) -> pd.DataFrame:
    """Return a partition with the new column."""
    arrays = [_to_arrow(part[name], name in lists) for name in names]
    batch = pa.RecordBatch.from_arrays(arrays, names=[f"c{position}" for position in range(len(names))])
    if isinstance(metrics, _MetricTable):
        distinct, codes = _group(part, keys)
        of_rows = [(rows, metrics.of(distinct[code])) for code, rows in rows_by_code(codes)]
    else:
        of_rows = [(np.arange(len(part)), metrics)]
    values = pd.arrays.ArrowExtensionArray(pa.chunked_array([measure.column(batch, of_rows)]))
    return part.assign(**{measure.output: pd.Series(values, index=part.index)})


def _to_arrow(column: pd.Series, holds_arrays: bool) -> Any:
    """Return a column as an Arrow array, in which NaN stays a number and only what is missing is null."""
    try:
        if not holds_arrays:
            array = pa.array(column, from_pandas=False)
            if not any(is_kind(array.type) for is_kind in _NUMBERS):
                raise pa.ArrowTypeError(f"it holds {array.type}")
        elif pd.api.types.is_object_dtype(column.dtype):
            array = pa.array(column.where(column.notna(), None), _ARRAYS, from_pandas=False)
        else:
            array = pa.array(column).cast(_ARRAYS)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        accepted = "arrays of numbers" if holds_arrays else "numbers"
        raise TypeError(f"the column {column.name!r} does not hold {accepted}: {error}") from None
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _group(part: pd.DataFrame, keys: list[Any]) -> tuple[list[Hashable], Ints]:
    """Return distinct keys, the last of which is None, and the position of each row's key: -1 if it holds null."""
    found = [part[name].factorize() for name in keys]
    if len(keys) == 1:
        codes, values = found[0]
        return [*values.tolist(), None], np.asarray(codes, np.intp)
    table = np.stack([codes for codes, _ in found], axis=1)
    combinations, rows = np.unique(table, axis=0, return_inverse=True)
    lists = [values.tolist() for _, values in found]
    distinct = [
        None if -1 in combination else tuple(values[code] for values, code in zip(lists, combination, strict=True))
        for combination in combinations.tolist()
    ]
    return [*distinct, None], np.asarray(rows, np.intp).ravel()


# Metrics of keys.


def _metrics_of(
    states: States,
    keys: list[Any],
    df: dd.DataFrame,
    n_features: int,
    prior: SharedPrior | Sequence[SharedPrior] | None,
    form: Form | None,
) -> Any:
    """Return the metrics of all keys, or a delayed value if the workers have to compute them."""
    if isinstance(states, Fleet):
        if prior is not None or form is not None:
            raise ValueError("states is a fleet, which brings its prior and form; accepted: neither prior nor form")
        if len(keys) > 1:
            raise ValueError(f"a fleet has one key, and key names {len(keys)} columns; accepted: one column")
        with states.locked():
            packed = PackedTrackers(n_features, form=states.form, priors=states.priors)
            table = _metric_table(((name, states.state(name)) for name in states.keys()), packed)  # noqa: SIM118  in order
    else:
        chosen: Form = "exact" if form is None else check_choice(form, "form", get_args(Form))
        packed = PackedTrackers(n_features, form=chosen, priors=as_priors(prior, n_features))
        if isinstance(states, dd.DataFrame):
            _check_states(states, keys)
            parts = [delayed(_table_of)(part, keys, packed) for part in states[[*keys, "state"]].to_delayed()]
            _check_key_types([_kind_of_type(states.dtypes[name]) for name in keys], keys, df.dtypes)
            return delayed(_joined)(parts, packed, keys, df.dtypes)
        if isinstance(states, pd.DataFrame):
            _check_states(states, keys)
            table = _table_of(states, keys, packed)
        elif isinstance(states, Mapping):
            table = _metric_table(states.items(), packed)
        else:
            raise TypeError(
                f"states is a {type(states).__name__}; accepted: a Fleet, a mapping from keys to states, or a pandas "
                "or Dask DataFrame with the key columns and state"
            )
    _check_key_types(_kinds_of_keys(table, keys), keys, df.dtypes)
    return table


def _metric_table(items: Any, packed: PackedTrackers) -> _MetricTable:
    """Return the metrics of pairs of a key and a state."""
    positions: dict[Hashable, int] = {}
    blocks = [np.empty((0, 1 + packed.n_features**2))]
    prior_digests = [prior_digest(prior) for prior in packed.priors]
    for block in _blocks(items):
        states = []
        for key, state in block:
            if key in positions:
                raise ValueError(f"states has two states for the key {key!r}; accepted: one")
            if not isinstance(state, bytes | bytearray | memoryview):
                raise TypeError(f"the state of the key {key!r} is a {type(state).__name__}; accepted: bytes")
            positions[key] = len(positions)
            states.append(StoredTracker.from_bytes(bytes(state)).checked(packed, prior_digests).tracker)
        blocks.append(np.stack([metric_numbers(metric) for metric in packed.metrics(states)]))
    return _MetricTable(positions, np.concatenate(blocks), packed.metric_of_new_key())


def _blocks(items: Any) -> Iterator[list[tuple[Hashable, Any]]]:
    block: list[tuple[Hashable, Any]] = []
    for item in items:
        block.append(item)
        if len(block) == _BLOCK_STATES:
            yield block
            block = []
    if block:
        yield block


def _table_of(states: pd.DataFrame, keys: list[Any], packed: PackedTrackers) -> _MetricTable:
    """Return the metrics of a table of states; a row whose key holds null or whose state is null has none."""
    distinct, codes = _group(states, keys)
    found = ((distinct[code], state) for code, state in zip(codes, states["state"], strict=True))
    return _metric_table(((key, state) for key, state in found if key is not None and not _is_null(state)), packed)


def _joined(tables: list[_MetricTable], packed: PackedTrackers, keys: list[Any], types: Any) -> _MetricTable:
    positions: dict[Hashable, int] = {}
    for table in tables:
        for key in table.positions:
            if key in positions:
                raise ValueError(f"states has two states for the key {key!r}; accepted: one")
            positions[key] = len(positions)
    numbers = np.concatenate([table.numbers for table in tables])
    joined = _MetricTable(positions, numbers, packed.metric_of_new_key())
    _check_key_types(_kinds_of_keys(joined, keys), keys, types)
    return joined


def _is_null(state: Any) -> bool:
    return state is None or state is pd.NA or (isinstance(state, float) and np.isnan(state))


# Checks of columns.


def _check_side(df: dd.DataFrame, role: str, side: PointColumns) -> Any:
    """Return the name of the column of arrays, or a list of numeric columns."""
    if isinstance(side, str):
        dtype = _type_of(df, side, role)
        is_arrow_list = isinstance(dtype, pd.ArrowDtype) and (
            pa.types.is_list(dtype.pyarrow_dtype)
            or pa.types.is_large_list(dtype.pyarrow_dtype)
            or pa.types.is_fixed_size_list(dtype.pyarrow_dtype)
        )
        if not is_arrow_list and not pd.api.types.is_object_dtype(dtype):
            hint = (
                ". Dask turns lists of a pandas DataFrame into texts; dask.config.set({'dataframe.convert-string': "
                "False}) leaves them as they are"
                if isinstance(dtype, pd.StringDtype)
                else ""
            )
            raise TypeError(f"{role} is the column {side!r} of type {dtype}; accepted: arrays of numbers{hint}")
        return side
    names = list(side)
    for name in names:
        dtype = _type_of(df, name, role)
        is_number = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
        if not pd.api.types.is_object_dtype(dtype) and (not is_number or pd.api.types.is_complex_dtype(dtype)):
            raise TypeError(f"{role} has the column {name!r} of type {dtype}; accepted: numbers")
    return names


def _count_features(columns: dict[str, Any], expected: int | None) -> int:
    """Return the number of features that all sides have."""
    counts = {role: len(side) for role, side in columns.items() if isinstance(side, list)}
    if expected is not None:
        counts["n_features"] = check_integer(expected, "n_features", at_least=1)
    if not counts:
        raise ValueError("n_features is needed, because a column of arrays does not say their length")
    if len(set(counts.values())) > 1 or not min(counts.values()):
        said = ", ".join(f"{role}: {count}" for role, count in counts.items())
        raise ValueError(f"the numbers of features differ or are 0 ({said}); accepted: the same number for both sides")
    return next(iter(counts.values()))


def _check_key(df: Any, key: Any, role: str) -> list[Any]:
    keys = list(key) if isinstance(key, list | tuple) else [key]
    if not keys:
        raise ValueError("key names no column; accepted: the name of a column, or a list of names")
    for name in keys:
        if name not in df.columns:
            raise ValueError(f"key is {name!r}, which is no column of {role}; the columns are {_listed(df)}")
    return keys


def _check_states(states: Any, keys: list[Any]) -> None:
    """Refuse a table without the key columns, or without states."""
    _check_key(states, keys, "states")
    if "state" not in states.columns:
        raise ValueError("states has no column 'state'; accepted: the key columns and state")
    dtype = states.dtypes["state"]
    is_bytes = isinstance(dtype, pd.ArrowDtype) and (
        pa.types.is_binary(dtype.pyarrow_dtype) or pa.types.is_large_binary(dtype.pyarrow_dtype)
    )
    if not is_bytes and not pd.api.types.is_object_dtype(dtype):
        raise TypeError(f"states has the column 'state' of type {dtype}; accepted: bytes")


def _check_key_types(kinds: list[str | None], keys: list[Any], types: Any) -> None:
    """Refuse keys of another type than those of the rows, which would all be measured as new keys."""
    for name, kind in zip(keys, kinds, strict=True):
        of_rows = _kind_of_type(types[name])
        if None not in (kind, of_rows) and kind != of_rows:
            raise TypeError(
                f"the key column {name!r} has {of_rows}, and all keys of states are {kind}; accepted: the same type"
            )


def _kinds_of_keys(table: _MetricTable, keys: list[Any]) -> list[str | None]:
    """Return for each key column whether all states have texts, bytes or numbers in it; None: none of them."""
    columns = [list(table.positions)] if len(keys) == 1 else list(zip(*table.positions, strict=True))
    return [_kind_of_values(column) for column in columns] if table.positions else [None] * len(keys)


def _kind_of_values(values: Sequence[Any]) -> str | None:
    if all(isinstance(value, str) for value in values):
        return "texts"
    if all(isinstance(value, bytes) for value in values):
        return "bytes"
    return "numbers" if all(isinstance(value, Real) for value in values) else None


def _kind_of_type(dtype: Any) -> str | None:
    """Return whether a column has texts or numbers; None: its type does not say, or it has others."""
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if isinstance(dtype, pd.ArrowDtype):
        is_text = pa.types.is_string(dtype.pyarrow_dtype) or pa.types.is_large_string(dtype.pyarrow_dtype)
    else:
        is_text = isinstance(dtype, pd.StringDtype)
    return "texts" if is_text else "numbers" if pd.api.types.is_numeric_dtype(dtype) else None


def _type_of(df: dd.DataFrame, name: Hashable, role: str) -> Any:
    if name not in df.columns:
        raise ValueError(f"{role} is {name!r}, which is no column; the columns are {_listed(df)}")
    return df.dtypes[name]


def _listed(df: Any) -> str:
    return ", ".join(map(repr, df.columns))


def _as_list(side: Any) -> list[Any]:
    return side if isinstance(side, list) else [side]
