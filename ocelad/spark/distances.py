"""embed, distance and probability of the rows of a DataFrame, by one metric or by the tracker of each row's key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad._validation import check_integer
from ocelad.adaptive.shared_prior import SharedPrior, as_priors
from ocelad.fleet.packed_trackers import Form, PackedTrackers
from ocelad.fleet.row_measures import Kind, RowMeasure, metric_from_numbers, metric_numbers, rows_by_code
from ocelad.metric import Metric
from ocelad.spark.answer_columns import PointColumns, check_key, check_points, column, map_in_arrow, quoted, schema_of
from ocelad.spark.session import check_python
from ocelad.spark.stored_tracker import StoredTracker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATE, _METRIC = "ocelad_state", "ocelad_metric"
_TYPES = {"distance": "DOUBLE", "probability": "DOUBLE", "embed": "ARRAY<DOUBLE>"}
# Metrics of one record batch of states are computed together.
_BLOCK_STATES = 1024


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
    A key without a state is measured by the prior if that is likely to help, as in ``Fleet.probability``.

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
    kind: Kind,
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
    measure = RowMeasure(kind, checked, count, output, n_components)
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


def _by_metric(measure: RowMeasure, metric: Metric) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            values = measure.column(batch, [(np.arange(batch.num_rows), metric)])
            yield batch.append_column(measure.output, values)

    return apply


def _by_key(
    df: DataFrame, states: DataFrame, keys: tuple[str, ...], measure: RowMeasure, packed: PackedTrackers
) -> DataFrame:
    """Join rows with the metrics of their keys, which are computed once for each key."""
    from pyspark.sql.functions import col

    metrics = map_in_arrow(states, _metrics_of(packed, keys), f"{schema_of(states, keys)}, {_METRIC} BINARY")
    renamed = metrics.select(*(column(name).alias(f"ocelad_key_{at}") for at, name in enumerate(keys)), _METRIC)
    same_key = [column(name) == col(f"ocelad_key_{at}") for at, name in enumerate(keys)]
    joined = df.join(renamed, same_key, "left").drop(*(f"ocelad_key_{at}" for at in range(len(keys))))

    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        new_key = packed.metric_of_new_key()
        for batch in batches:
            at = batch.schema.get_field_index(_METRIC)
            distinct = batch.column(at).dictionary_encode()
            codes = np.asarray(distinct.indices.fill_null(-1).to_numpy(zero_copy_only=False))
            metrics = (
                (members, new_key if code < 0 else _read_metric(distinct.dictionary[code].as_py()))
                for code, members in rows_by_code(codes)
            )
            rows = batch.select([name for name in batch.schema.names if name != _METRIC])
            yield rows.append_column(measure.output, measure.column(rows, metrics))

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
    return metric_numbers(metric).tobytes()


def _read_metric(data: bytes) -> Metric:
    return metric_from_numbers(np.frombuffer(data))


def _schema(df: DataFrame, measure: RowMeasure) -> str:
    return f"{schema_of(df, df.columns)}, {quoted(measure.output)} {_TYPES[measure.kind]}"
