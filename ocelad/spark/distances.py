"""embed, distance and probability of the rows of a DataFrame, by one metric or by the tracker of each row's key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.fleet.packed_trackers import Form, PackedTrackers
from ocelad.metric import Metric
from ocelad.spark.answer_columns import PointColumns, check_key, check_points, column, map_in_arrow, quoted, schema_of
from ocelad.spark.session import check_python
from ocelad.spark.stored_tracker import StoredTracker
from ocelad.spark.track import as_priors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Kind: TypeAlias = Literal["distance", "probability", "embed"]
_STATE, _METRIC = "ocelad_state", "ocelad_metric"
_TYPES = {"distance": "DOUBLE", "probability": "DOUBLE", "embed": "ARRAY<DOUBLE>"}
# Metrics of one record batch of states are computed together.
_BLOCK_STATES = 1024


class _Measure(NamedTuple):
    """What is computed for each row; it travels to Spark's workers."""

    kind: _Kind
    sides: tuple[str | tuple[str, ...], ...]
    n_features: int
    output: str
    n_components: int | None = None

    def values(self, points: Sequence[Floats], metric: Metric) -> list[Any]:
        """Return the result for each row of the points."""
        if self.kind == "embed":
            return list(metric.embed(points[0], self.n_components))
        if self.kind == "distance":
            return list(np.sqrt(metric.squared_length(points[0] - points[1])))
        log_odds = metric.threshold - metric.squared_length(points[0] - points[1])
        return list(_sigmoid(log_odds))


def distance(
    df: DataFrame,
    left: PointColumns,
    right: PointColumns,
    *,
    metric: Metric | None = None,
    states: DataFrame | None = None,
    key: str | Sequence[str] | None = None,
    prior: SharedPrior | Sequence[SharedPrior] | None = None,
    form: Form = "exact",
    n_features: int | None = None,
    output: str = "distance",
) -> DataFrame:
    """Return the rows with a further column: the distance of two points.

    Give one ``metric`` for all rows, or ``states`` and ``key``: then each row is measured by the tracker of its key.
    A key without a state is measured as a new key would be: by the prior, if there is one.

    Where a point is null, holds null or has another length, the result is null. NaN and infinity give NaN.

    Parameters
    ----------
    df : DataFrame
        A table, or with ``metric`` or ``states`` at rest a stream.
    left, right : str or list of str
        The two points, as in ``track_stream``.
    metric : Metric or None
        It is broadcast.
    states : DataFrame or None
        The key columns and ``state``, one row for each key, as ``track_table`` and ``latest`` return them.
    key : str or list of str
        The key columns of both tables.
    prior, form
        Those with which the trackers have learned.
    n_features : int or None
        Needed with ``states`` if points are arrays.
    output : str
        The name of the new column.

    Examples
    --------
    ::

        trackers = track_table(answers, key="user", left="x", right="z", same="same", n_features=25)
        measured = distance(pairs, "x", "z", states=trackers, key="user", n_features=25)
    """
    return _measured(df, "distance", (left, right), metric, states, key, prior, form, n_features, output)


def probability(
    df: DataFrame,
    left: PointColumns,
    right: PointColumns,
    *,
    metric: Metric | None = None,
    states: DataFrame | None = None,
    key: str | Sequence[str] | None = None,
    prior: SharedPrior | Sequence[SharedPrior] | None = None,
    form: Form = "exact",
    n_features: int | None = None,
    output: str = "probability",
) -> DataFrame:
    """Return the rows with a further column: the probability that two points are the same.

    Parameters
    ----------
    df, left, right, metric, states, key, prior, form, n_features, output
        As in ``distance``. The threshold of ``metric`` must be calibrated, as that of a tracker is.
    """
    return _measured(df, "probability", (left, right), metric, states, key, prior, form, n_features, output)


def embed(
    df: DataFrame,
    points: PointColumns,
    *,
    metric: Metric | None = None,
    states: DataFrame | None = None,
    key: str | Sequence[str] | None = None,
    prior: SharedPrior | Sequence[SharedPrior] | None = None,
    form: Form = "exact",
    n_features: int | None = None,
    n_components: int | None = None,
    output: str = "embedding",
) -> DataFrame:
    """Return the rows with a further column: an array of numbers, in which the Euclidean distance is the learned one.

    Embeddings of different keys must not be compared: each key has its own distance.

    Parameters
    ----------
    df, metric, states, key, prior, form, n_features, output
        As in ``distance``.
    points : str or list of str
        The column with the points, or numeric columns.
    n_components : int or None
        The number of dimensions, as in ``Metric.embed``; None: all.
    """
    if n_components is not None:
        check_integer(n_components, "n_components", at_least=1)
    return _measured(df, "embed", (points,), metric, states, key, prior, form, n_features, output, n_components)


def _measured(
    df: DataFrame,
    kind: _Kind,
    sides: Sequence[PointColumns],
    metric: Metric | None,
    states: DataFrame | None,
    key: str | Sequence[str] | None,
    prior: SharedPrior | Sequence[SharedPrior] | None,
    form: Form,
    n_features: int | None,
    output: str,
    n_components: int | None = None,
) -> DataFrame:
    if (metric is None) == (states is None):
        raise ValueError("give either metric, one for all rows, or states and key, one for each key")
    if metric is not None and not isinstance(metric, Metric):
        raise TypeError(f"metric is a {type(metric).__name__}; accepted: a Metric, such as tracker.metric_")
    if (states is None) != (key is None):
        raise ValueError("states and key belong together: key names the key columns of both tables")
    check_python(df.sparkSession)
    if output in df.columns:
        raise ValueError(f"df has a column {output!r} already; choose another name with output=")
    roles = ("points",) if kind == "embed" else ("left", "right")
    expected = n_features if metric is None else metric.n_features
    count = check_points(df, dict(zip(roles, sides, strict=True)), expected)
    checked = tuple(side if isinstance(side, str) else tuple(side) for side in sides)
    measure = _Measure(kind, checked, count, output, n_components)
    if metric is not None:
        return map_in_arrow(df, _by_metric(measure, metric), _schema(df, measure))
    assert states is not None
    assert key is not None
    keys = check_key(df, key)
    if check_key(states, keys) and dict(states.dtypes).get("state") != "binary":
        raise ValueError("states has no binary column 'state'; accepted: the key columns and state")
    if states.isStreaming:
        raise ValueError("states is a stream; accepted: a table at rest with one row for each key")
    packed = PackedTrackers(count, form=form, priors=as_priors(prior, count))
    return _by_key(df, states.select(*map(column, (*keys, "state"))), keys, measure, packed)


def _by_metric(measure: _Measure, metric: Metric) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            points, valid = _points(batch, measure)
            values = _nothing(batch.num_rows)
            _fill(values, np.flatnonzero(valid), points, metric, measure)
            yield batch.append_column(measure.output, _column_of(values, measure))

    return apply


def _by_key(
    df: DataFrame, states: DataFrame, keys: tuple[str, ...], measure: _Measure, packed: PackedTrackers
) -> DataFrame:
    """Join rows with the metrics of their keys, which are computed once for each key."""
    from pyspark.sql.functions import col

    metrics = map_in_arrow(states, _metrics_of(packed, keys), f"{schema_of(states, keys)}, {_METRIC} BINARY")
    renamed = metrics.select(*(column(name).alias(f"ocelad_key_{at}") for at, name in enumerate(keys)), _METRIC)
    same_key = [column(name) == col(f"ocelad_key_{at}") for at, name in enumerate(keys)]
    joined = df.join(renamed, same_key, "left").drop(*(f"ocelad_key_{at}" for at in range(len(keys))))

    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        new_key = packed.metric(None)
        for batch in batches:
            at = batch.schema.get_field_index(_METRIC)
            distinct = batch.column(at).dictionary_encode()
            groups = np.asarray(distinct.indices.fill_null(-1).to_numpy(zero_copy_only=False))
            rows = batch.select([name for name in batch.schema.names if name != _METRIC])
            points, valid = _points(rows, measure)
            values = _nothing(batch.num_rows)
            order = np.argsort(groups, kind="stable")
            for members in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
                if not len(members):
                    continue
                group = groups[members[0]]
                metric = new_key if group < 0 else _read_metric(distinct.dictionary[int(group)].as_py())
                _fill(values, members[valid[members]], points, metric, measure)
            yield rows.append_column(measure.output, _column_of(values, measure))

    return map_in_arrow(joined, apply, _schema(df, measure))


def _metrics_of(packed: PackedTrackers, keys: tuple[str, ...]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function that turns states into metrics: a metric is small, and needs no further computation."""

    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            for first in range(0, batch.num_rows, _BLOCK_STATES):
                part = batch.slice(first, _BLOCK_STATES)
                states = [None if state is None else bytes(state) for state in part.column("state").to_pylist()]
                trackers = [None if state is None else StoredTracker.from_bytes(state).tracker for state in states]
                arrays = {name: part.column(name) for name in keys}
                arrays[_METRIC] = pa.array([_write_metric(metric) for metric in packed.metrics(trackers)], pa.binary())
                yield pa.RecordBatch.from_pydict(arrays)

    return apply


def _write_metric(metric: Metric) -> bytes:
    """Return the threshold and the matrix of a metric as bytes."""
    return np.concatenate([[metric.threshold], np.asarray(metric.matrix).ravel()]).tobytes()


def _read_metric(data: bytes) -> Metric:
    numbers = np.frombuffer(data)
    n = round(np.sqrt(len(numbers) - 1))
    return Metric.from_trusted_matrix(numbers[1:].reshape(n, n).copy(), float(numbers[0]))


def _points(batch: Any, measure: _Measure) -> tuple[list[Floats], np.ndarray]:
    """Return the points of each side, and which rows have no null."""
    sides = [_side(batch, side, measure.n_features) for side in measure.sides]
    return [X for X, _ in sides], np.logical_and.reduce([valid for _, valid in sides])


def _side(batch: Any, side: str | tuple[str, ...], n: int) -> tuple[Floats, np.ndarray]:
    import pyarrow as pa

    count = batch.num_rows
    X, valid = np.full((count, n), np.nan), np.ones(count, bool)
    if not isinstance(side, str):
        for at, name in enumerate(side):
            numbers = batch.column(name)
            X[:, at] = numbers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            valid &= np.asarray(numbers.is_valid().to_numpy(zero_copy_only=False))
        return X, valid
    arrays = batch.column(side)
    lengths = np.asarray(arrays.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False))
    valid = lengths == n
    values = arrays.filter(pa.array(valid)).flatten()
    X[valid] = np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)).reshape(-1, n)
    if values.null_count:
        complete = np.asarray(values.is_valid().to_numpy(zero_copy_only=False)).reshape(-1, n).all(axis=1)
        valid[np.flatnonzero(valid)[~complete]] = False
    return X, valid


def _nothing(count: int) -> np.ndarray:
    return np.full(count, None, dtype=object)


def _fill(values: np.ndarray, rows: np.ndarray, points: list[Floats], metric: Metric, measure: _Measure) -> None:
    """Write the results of some rows; those with NaN or infinity give NaN."""
    if not len(rows):
        return
    finite = np.logical_and.reduce([np.isfinite(X[rows]).all(axis=1) for X in points])
    if finite.any():
        for row, value in zip(rows[finite], measure.values([X[rows[finite]] for X in points], metric), strict=True):
            values[row] = value
    if not finite.all():
        for row in rows[~finite]:
            values[row] = (
                np.full(metric.embed(np.zeros(measure.n_features)).shape, np.nan) if measure.kind == "embed" else np.nan
            )


def _column_of(values: np.ndarray, measure: _Measure) -> Any:
    import pyarrow as pa

    return pa.array(list(values), pa.list_(pa.float64()) if measure.kind == "embed" else pa.float64())


def _sigmoid(log_odds: Floats) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(log_odds))


def _schema(df: DataFrame, measure: _Measure) -> str:
    return f"{schema_of(df, df.columns)}, {quoted(measure.output)} {_TYPES[measure.kind]}"
