"""embed, distance and probability of the rows of a DataFrame, by one metric or by the tracker of each row's key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad._validation import check_integer
from ocelad.adaptive.shared_prior import SharedPrior, as_priors
from ocelad.fleet.packed_trackers import Form
from ocelad.fleet.row_measures import Kind, RowMeasure, metric_from_numbers, metric_numbers, rows_by_code
from ocelad.metric import Metric, check_metric
from ocelad.spark.answer_columns import (
    PointColumns,
    check_key,
    check_points,
    check_spark_table,
    column,
    field,
    fields_of,
    find_column,
    map_in_arrow,
    states_by_key,
    unused_name,
)
from ocelad.spark.processor import LearningSettings
from ocelad.spark.session import check_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

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

    It is a function of DataFrames by ``mapInArrow``, computed for many rows at once as pandas UDFs are; it is no
    function for SQL.

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
        The key columns of both tables, of the same types.
    prior, form
        Those with which the trackers have learned. States of ``ocelad.spark`` know their prior and refuse others.
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
    if metric is not None:
        check_metric(metric)
    if (states is None) != (key is None):
        raise ValueError("states and key belong together: key names the key columns of both tables")
    check_spark_table(df, "df")
    check_python(df.sparkSession)
    if (existing := find_column(df, output)) is not None:
        raise ValueError(f"df has a column {existing!r} already; choose another name with output=")
    roles = ("points",) if kind == "embed" else ("left", "right")
    expected = n_features if metric is None else metric.n_features
    if n_features not in (None, expected):
        raise ValueError(f"the metric has {expected} features; got n_features={n_features}")
    count = check_points(df, dict(zip(roles, sides, strict=True)), expected)
    checked = tuple(side if isinstance(side, str) else tuple(side) for side in sides)
    measure = RowMeasure(kind, checked, count, output, n_components)
    if metric is not None:
        return map_in_arrow(df, _by_metric(measure, metric), _fields(df, measure))
    assert states is not None
    assert key is not None
    keys = check_key(df, key)
    of_keys = states_by_key(states, df, keys, "states", narrows=True)
    if states.isStreaming:
        raise ValueError("states is a stream; accepted: a table at rest with one row for each key")
    settings = LearningSettings(count, form, as_priors(prior, count), has_ids=False)
    settings.learner()  # refuses a form
    return _by_key(df, of_keys, keys, measure, settings)


def _by_metric(measure: RowMeasure, metric: Metric) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            values = measure.column(batch, [(np.arange(batch.num_rows), metric)])
            yield batch.append_column(measure.output, values)

    return apply


def _by_key(
    df: DataFrame, states: DataFrame, keys: tuple[str, ...], measure: RowMeasure, settings: LearningSettings
) -> DataFrame:
    """Join rows with the metrics of their keys, which are computed once for each key."""
    from pyspark.sql.functions import coalesce, col, concat, concat_ws, count, first, lit, raise_error, when

    of_row = unused_name(df, "ocelad_metric")
    key_names = [unused_name(df, f"ocelad_key_{at}") for at in range(len(keys))]
    metrics = map_in_arrow(
        states, _metrics_of(settings, keys, of_row), [*fields_of(states, keys), field(of_row, "BINARY")]
    )
    metrics = metrics.toDF(*key_names, of_row).dropna(subset=key_names)  # null is no key
    # The aggregation refuses a second state of a key, which would multiply the rows of df. Its shuffle is the one
    # that a sort-merge join of these keys needs, too.
    key_text = concat_ws(", ", *(coalesce(col(name).cast("string"), lit("null")) for name in key_names))
    sentence = concat(
        lit("states has two states for the key "), key_text, lit("; accepted: one, as ocelad.spark.latest returns them")
    )
    metric = when(count(lit(1)) > 1, raise_error(sentence)).otherwise(first(of_row))
    metrics = metrics.groupBy(*key_names).agg(metric.alias(of_row))
    same_key = [column(name) == col(key_name) for name, key_name in zip(keys, key_names, strict=True)]
    joined = df.join(metrics, same_key, "left").drop(*key_names)

    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        new_key = settings.learner().packed.metric_of_new_key()
        for batch in batches:
            at = batch.schema.get_field_index(of_row)
            distinct = batch.column(at).dictionary_encode()
            codes = np.asarray(distinct.indices.fill_null(-1).to_numpy(zero_copy_only=False))
            metrics = (
                (members, new_key if code < 0 else _read_metric(distinct.dictionary[code].as_py()))
                for code, members in rows_by_code(codes)
            )
            rows = batch.select([name for name in batch.schema.names if name != of_row])
            yield rows.append_column(measure.output, measure.column(rows, metrics))

    return map_in_arrow(joined, apply, _fields(df, measure))


def _metrics_of(
    settings: LearningSettings, keys: tuple[str, ...], output: str
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function that turns states into metrics: a metric is small, and needs no further computation."""

    def apply(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        learner = settings.learner()
        for batch in batches:
            for first in range(0, batch.num_rows, _BLOCK_STATES):
                part = batch.slice(first, _BLOCK_STATES)
                trackers = [learner.read(bytes(state)).tracker for state in part.column("state").to_pylist()]
                arrays = {name: part.column(name) for name in keys}
                metrics = learner.packed.metrics(trackers)
                arrays[output] = pa.array([metric_numbers(metric).tobytes() for metric in metrics], pa.binary())
                yield pa.RecordBatch.from_pydict(arrays)

    return apply


def _read_metric(data: bytes) -> Metric:
    return metric_from_numbers(np.frombuffer(data))


def _fields(df: DataFrame, measure: RowMeasure) -> list[StructField]:
    # The fields of df keep their metadata: a watermark of a stream, and the names of the entries of vectors.
    return [*df.schema.fields, field(measure.output, _TYPES[measure.kind])]
