"""track_stream and track_table: one tracker for each key of a stream, or of a table at rest."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.adaptive.shared_prior import SharedPrior, as_priors
from ocelad.fleet.packed_trackers import Form
from ocelad.spark.answer_columns import (
    ANSWER,
    ID,
    OUTPUT_COLUMNS,
    TIME,
    AnswerColumns,
    PointColumns,
    check_columns,
    check_key,
    check_spark_table,
    column,
    field,
    fields_of,
    find_column,
    map_in_arrow,
    states_by_key,
)
from ocelad.spark.answer_rows import answer_type, read_answers, to_binary
from ocelad.spark.key_learner import KeyAnswers, Learned
from ocelad.spark.processor import LearningSettings, TrackerProcessor, check_initial_key, output_fields, two_states
from ocelad.spark.session import check_python, check_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

# Tables at rest learn about this many answers at once: few calls for many keys, and a few hundred MB at most.
BLOCK_ANSWERS, BLOCK_KEYS = 65_536, 4_096
_STATE = "ocelad_state"
_SECONDS = {"s": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def track_stream(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    left: PointColumns,
    right: PointColumns,
    same: str,
    n_features: int | None = None,
    event_time: str | None = None,
    watermark: timedelta | str | None = None,
    id: str | None = None,
    prior: SharedPrior | Sequence[SharedPrior] | None = None,
    form: Form = "exact",
    ttl: timedelta | str | None = None,
    initial: DataFrame | None = None,
    with_state: bool = True,
) -> DataFrame:
    """Learn one distance for each key of a stream; return a row for each key and micro-batch.

    The state of a key is one binary value in Spark's RocksDB state store. Spark's checkpoint makes it exactly-once: a
    query that is killed and started again learns each answer once. With ``event_time`` or ``id`` it ends with the same
    bits. Rows that are not answers are skipped; ``refused_rows`` returns them with the reason.

    A key learns the answers of a micro-batch in the order of their event times, then ids. Without ``event_time`` and
    ``id``, the order is that of the rows in their partitions, and a restart on another number of cores, on which
    Spark's partitions depend, may end with other bits.

    Parameters
    ----------
    df : DataFrame
        A stream.
    key : str or list of str
        The columns that name the tenant, user, site or topic. Null is refused.
    left, right : str or list of str
        The two points: a column with arrays of numbers, or numeric columns.
    same : str
        A column with booleans, or with +1 for "same" and -1 or 0 for "different".
    n_features : int or None
        Needed if points are arrays.
    event_time : str or None
        A column of timestamps.
    watermark : timedelta, str or None
        How late an answer may be, such as ``"10 minutes"``: answers up to the watermark of a micro-batch are not
        learned. They count in ``n_skipped``, or in the query's progress (``numRowsDroppedByWatermark``) if Spark drops
        them before, which it does without ``ttl`` for those that were late in the micro-batch before, too. None: late
        answers are learned when they arrive.
    id : str or None
        A column that identifies an answer: rows of a key with an id that it has learned are skipped. Each id takes 8
        bytes of the key's state; with a watermark it takes 16, until it is older than the watermark.
    prior : SharedPrior, a sequence of them, or None
        New keys begin with it, or with the last one. It is part of the query: restart with the same ones, or append
        new ones.
    form : {"exact", "compact"}
        How trackers are stored; see ``PackedTrackers``.
    ttl : timedelta, str or None
        A key without an answer for this time, such as ``"90 days"``, is forgotten. In a session that is not from
        ``spark_session``, set ``spark.sql.streaming.noDataMicroBatches.enabled`` to false: otherwise Spark runs
        micro-batches without rows all the time, and the trigger ``availableNow`` never ends.
    initial : DataFrame or None
        Trackers that were learned before: the key columns and ``state``, one row for each key, as ``track_table`` and
        ``latest`` return them, or the states of a ``Fleet``. Spark reads it when the query starts for the first time.
        A stream needs ``spark.sql.execution.arrow.maxRecordsPerBatch`` to be 0, as ``spark_session`` sets it.
    with_state : bool
        Whether to return the column ``state``, which ``distance`` and ``embed`` need.

    Returns
    -------
    DataFrame
        A stream with the key and ``n_answers``, the number of answers learned so far; ``n_new`` and ``n_skipped``,
        those of this micro-batch that were learned, and not learned; ``drift``, the relative change of the metric per
        answer; ``n_changes``, the number of detected changes of the question, and ``last_change``, the first answer of
        the last one; ``state``, what the state store holds: the tracker, the digest of its prior and, with ``id``, the
        ids that it has learned. Write it in output mode append.

    Examples
    --------
    ::

        answers = spark.readStream.schema("user STRING, x ARRAY<DOUBLE>, z ARRAY<DOUBLE>, same INT").json("answers")
        rounds = track_stream(answers, key="user", left="x", right="z", same="same", n_features=25)
        rounds.writeStream.format("parquet").option("checkpointLocation", "checkpoint").start("rounds")
    """
    check_spark_table(df, "df")
    if not df.isStreaming:
        raise ValueError("df is a table at rest, and track_stream learns from a stream; use track_table")
    check_stream(df.sparkSession, has_initial=initial is not None)
    if watermark is not None and event_time is None:
        raise ValueError("watermark needs event_time, the column of timestamps that it is about")
    _check_own_watermark(df, watermark)
    columns = check_columns(
        df, key=key, left=left, right=right, same=same, n_features=n_features, event_time=event_time, id=id, form=form
    )
    ttl_ms = None if ttl is None else _milliseconds(ttl, "ttl")
    has_watermark = watermark is not None
    settings = _settings(columns, prior, form, has_watermark=has_watermark)
    outputs = OUTPUT_COLUMNS if with_state else OUTPUT_COLUMNS[:-1]
    answers = _answers(df, columns, with_time=has_watermark)
    if watermark is not None:
        answers = _with_watermark(answers, watermark)
    begin = None
    if initial is not None:
        begin = states_by_key(initial, df, columns.key, "initial").groupBy(*(column(name) for name in columns.key))
    from pyspark.sql.types import StructType

    grouped: Any = answers.groupBy(*(column(name) for name in columns.key))
    rounds: DataFrame = grouped.transformWithState(
        TrackerProcessor(settings, columns.key, outputs, ttl_ms),
        outputStructType=StructType([*fields_of(df, columns.key), *output_fields(outputs)]),
        outputMode="append",
        # Spark expires state by processing time only, and drops late rows by event time only.
        timeMode="ProcessingTime" if ttl_ms is not None else "EventTime" if has_watermark else "None",
        initialState=begin,
    )
    return rounds


def track_table(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    left: PointColumns,
    right: PointColumns,
    same: str,
    n_features: int | None = None,
    event_time: str | None = None,
    id: str | None = None,
    prior: SharedPrior | Sequence[SharedPrior] | None = None,
    form: Form = "exact",
    initial: DataFrame | None = None,
    with_state: bool = True,
) -> DataFrame:
    """Learn one distance for each key of a table at rest; return one row for each key.

    It learns what ``track_stream`` would learn from the same rows in one micro-batch, to the same bits with
    ``event_time`` or ``id``, and many keys at a time. Keys of ``initial`` without answers are returned, too. As
    ``initial`` of a stream with the same ``id``, the result lets the stream skip answers that the table had.

    Parameters
    ----------
    df : DataFrame
        A table at rest.
    key, left, right, same, n_features, event_time, id, prior, form, initial, with_state
        As in ``track_stream``.

    Returns
    -------
    DataFrame
        As in ``track_stream``, with one row for each key.
    """
    from pyspark.sql.functions import lit

    check_spark_table(df, "df")
    if df.isStreaming:
        raise ValueError("df is a stream, and track_table learns from a table at rest; use track_stream")
    check_python(df.sparkSession)
    columns = check_columns(
        df, key=key, left=left, right=right, same=same, n_features=n_features, event_time=event_time, id=id, form=form
    )
    outputs = OUTPUT_COLUMNS if with_state else OUTPUT_COLUMNS[:-1]
    rows = _answers(df, columns, with_time=False).withColumn(_STATE, lit(None).cast("binary"))
    if initial is not None:
        states = states_by_key(initial, df, columns.key, "initial").withColumnRenamed("state", _STATE)
        rows = rows.unionByName(states, allowMissingColumns=True)
    keys = [column(name) for name in columns.key]
    by_key = rows.repartition(*keys).sortWithinPartitions(*keys, column(ANSWER).isNotNull())
    learn = _table_learner(_settings(columns, prior, form), columns.key, outputs)
    return map_in_arrow(by_key, learn, [*fields_of(df, columns.key), *output_fields(outputs)])


def refused_rows(
    df: DataFrame,
    *,
    key: str | Sequence[str],
    left: PointColumns,
    right: PointColumns,
    same: str,
    n_features: int | None = None,
    event_time: str | None = None,
    id: str | None = None,
    form: Form = "exact",
) -> DataFrame:
    """Return the rows of a stream or a table that are not answers, with a column ``problem``: one sentence.

    These are the rows that ``track_stream`` and ``track_table`` skip: the key or a value is null, a number is not
    finite, an array has another length, or the label is not a valid one.

    Parameters
    ----------
    df, key, left, right, same, n_features, event_time, id, form
        As in ``track_stream``.

    Examples
    --------
    ::

        columns = dict(key="user", left="x", right="z", same="same", n_features=25)
        refused = refused_rows(answers, **columns)
        refused.writeStream.format("json").option("checkpointLocation", "checkpoint-refused").start("refused")
    """
    check_spark_table(df, "df")
    check_python(df.sparkSession)
    columns = check_columns(
        df, key=key, left=left, right=right, same=same, n_features=n_features, event_time=event_time, id=id, form=form
    )
    if (existing := find_column(df, "problem")) is not None:
        raise ValueError(f"df has a column {existing!r} already; rename it")

    def refused(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            problems = read_answers(batch, columns).problems
            bad = pa.array([problem is not None for problem in problems])
            yield batch.append_column("problem", pa.array(problems, pa.string())).filter(bad)

    return map_in_arrow(df, refused, [*df.schema.fields, field("problem", "STRING")])


def _answers(df: DataFrame, columns: AnswerColumns, *, with_time: bool) -> DataFrame:
    """Return the good rows: the key, the answer as one binary value, and its id and event time where they are needed.

    One binary value is far cheaper to shuffle, and to hand to Python row by row, than arrays of numbers.
    """

    def good(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        first = 0
        for batch in batches:
            answers, problems = read_answers(batch, columns, first)
            first += batch.num_rows
            arrays = {name: batch.column(name) for name in columns.key}
            if columns.id is not None:
                arrays[ID] = batch.column(columns.id)
            if with_time:
                assert columns.event_time is not None
                arrays[TIME] = batch.column(columns.event_time)
            arrays[ANSWER] = to_binary(answers)
            yield pa.RecordBatch.from_pydict(arrays).filter(pa.array([problem is None for problem in problems]))

    from pyspark.sql.types import StructField

    fields: list[StructField] = fields_of(df, columns.key)
    if columns.id is not None:
        fields += [StructField(ID, one.dataType) for one in fields_of(df, [columns.id])]
    if with_time:
        fields.append(field(TIME, "TIMESTAMP"))
    fields.append(field(ANSWER, "BINARY"))
    return map_in_arrow(df.select(*(column(name) for name in columns.names)), good, fields)


def _table_learner(
    settings: LearningSettings, key: tuple[str, ...], outputs: tuple[str, ...]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function that learns from record batches that are sorted by key, the initial state of a key first."""

    def learn(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        learner, block, n_answers = settings.learner(), _KeyBlock(settings), 0
        schema: Any = None
        for batch in batches:
            schema = pa.schema([batch.schema.field(name) for name in key]) if schema is None else schema
            block.add(batch, key)
            n_answers += batch.num_rows
            if n_answers >= BLOCK_ANSWERS or len(block.keys) >= BLOCK_KEYS:
                # The last key may go on in the next batch.
                yield _report(block.take(len(block.keys) - 1, learner), learner, schema, outputs)
                n_answers = 0
        if schema is not None:
            yield _report(block.take(len(block.keys), learner), learner, schema, outputs)

    return learn


class _KeyBlock:
    """Rows of consecutive keys that wait to be learned together."""

    def __init__(self, settings: LearningSettings) -> None:
        self._settings = settings
        self.keys: list[tuple[Any, ...]] = []
        self._states: list[bytes | None] = []
        self._answers: list[list[bytes]] = []
        self._ids: list[list[Any]] = []

    def add(self, batch: Any, key: tuple[str, ...]) -> None:
        """Add the rows of a record batch."""
        columns = [batch.column(name).to_pylist() for name in key]
        answers, states = batch.column(ANSWER).to_pylist(), batch.column(_STATE).to_pylist()
        ids = batch.column(ID).to_pylist() if self._settings.has_ids else [None] * batch.num_rows
        for name, answer, state, answer_id in zip(zip(*columns, strict=True), answers, states, ids, strict=True):
            if not self.keys or name != self.keys[-1]:
                self.keys.append(name)
                self._states.append(None)
                self._answers.append([])
                self._ids.append([])
            if answer is None:
                check_initial_key(name)
                if self._states[-1] is not None:
                    raise two_states(name)
                self._states[-1] = state
            else:
                self._answers[-1].append(answer)
                self._ids[-1].append(answer_id)

    def take(self, count: int, learner: Any) -> list[tuple[tuple[Any, ...], Learned]]:
        """Learn the first keys and remove them."""
        kind = answer_type(self._settings.n_features)
        states = [None if state is None else learner.adopt(state) for state in self._states[:count]]
        answers = [
            KeyAnswers(np.frombuffer(b"".join(rows), kind), ids if self._settings.has_ids else None)
            for rows, ids in zip(self._answers[:count], self._ids[:count], strict=True)
        ]
        results = list(zip(self.keys[:count], learner.learn(states, answers), strict=True))
        del self.keys[:count], self._states[:count], self._answers[:count], self._ids[:count]
        return results


def _report(results: list[tuple[tuple[Any, ...], Learned]], learner: Any, keys: Any, outputs: tuple[str, ...]) -> Any:
    """Return a record batch with one row for each key."""
    import pyarrow as pa

    reports = [learner.report(learned) for _, learned in results]
    types = {"drift": pa.float64(), "n_changes": pa.int32(), "state": pa.binary()}
    arrays = [pa.array([name[at] for name, _ in results], field.type) for at, field in enumerate(keys)]
    arrays += [pa.array([report[name] for report in reports], types.get(name, pa.int64())) for name in outputs]
    return pa.RecordBatch.from_arrays(arrays, names=[*keys.names, *outputs])


def _settings(
    columns: AnswerColumns,
    prior: SharedPrior | Sequence[SharedPrior] | None,
    form: Form,
    *,
    has_watermark: bool = False,
) -> LearningSettings:
    priors = as_priors(prior, columns.n_features)
    return LearningSettings(columns.n_features, form, priors, columns.id is not None, has_watermark)


def latest(rounds: DataFrame, *, key: str | Sequence[str]) -> DataFrame:
    """Return the last row of each key of a table that ``track_stream`` wrote: the one with the most answers.

    Of several with as many, it is one in which nothing new was learned.

    With ``ttl``, a key that was forgotten begins to count again, and its last row may be another one: overwrite the
    states of each micro-batch by key then, with ``foreachBatch``.

    Parameters
    ----------
    rounds : DataFrame
        A table at rest.
    key : str or list of str
        The key columns.

    Examples
    --------
    ::

        trackers = latest(spark.read.parquet("rounds"), key="user")
    """
    from pyspark.sql.functions import col, max_by, struct

    check_spark_table(rounds, "rounds")
    if rounds.isStreaming:
        raise ValueError("rounds is a stream; accepted: a table at rest that track_stream wrote")
    keys = check_key(rounds, key)
    if "n_answers" not in rounds.columns:
        raise ValueError("rounds has no column 'n_answers'; accepted: a table that track_stream wrote")
    others = [column(name).alias(name) for name in rounds.columns if name not in keys]
    # Where nothing was learned, the number of answers stays. The other columns make the choice the same each time.
    ranks = [col("n_answers"), *(-col(name) for name in ("n_new",) if name in rounds.columns)]
    ranks += [col(name) for name in ("n_skipped", "state") if name in rounds.columns]
    last = max_by(struct(*others), struct(*ranks)).alias("ocelad_last")
    return rounds.groupBy(*(column(name) for name in keys)).agg(last).select(*map(column, keys), "ocelad_last.*")


def _check_own_watermark(df: DataFrame, watermark: timedelta | str | None) -> None:
    """Refuse a second watermark, which Spark refuses when the query runs; warn of one that has no effect here."""
    named = [one.name for one in df.schema.fields if "spark.watermarkDelayMs" in (one.metadata or {})]
    if not named:
        return
    if watermark is not None:
        raise ValueError(
            f"df has a watermark on {named[0]!r} already, and Spark allows one; accepted: watermark=, or withWatermark "
            "before, but not both"
        )
    warnings.warn(
        f"track_stream does not use the watermark of df on {named[0]!r}, and learns late answers; to skip them, give "
        "watermark= in its place",
        stacklevel=3,
    )


def _with_watermark(answers: DataFrame, watermark: timedelta | str) -> DataFrame:
    from pyspark.errors import PySparkException

    is_timedelta = isinstance(watermark, timedelta)
    delay = f"{_milliseconds(watermark, 'watermark')} milliseconds" if is_timedelta else watermark
    try:
        return answers.withWatermark(TIME, delay)
    except PySparkException as error:
        raise ValueError(
            f"watermark is {watermark!r}; accepted: a timedelta, or text such as '10 minutes' or '2 hours'"
        ) from error


def _milliseconds(duration: timedelta | str, name: str) -> int:
    """Return a duration in milliseconds.

    >>> _milliseconds("90 days", "ttl"), _milliseconds(timedelta(minutes=1), "ttl")
    (7776000000, 60000)
    """
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+?)s?\s*", str(duration))
        if not found or found[2] not in _SECONDS:
            raise ValueError(f"{name} is {duration!r}; accepted: a timedelta, or text such as '90 days' or '2 hours'")
        seconds = float(found[1]) * _SECONDS[found[2]]
    if seconds <= 0:
        raise ValueError(f"{name} is {duration!r}; accepted: a duration above 0")
    return round(1000 * seconds)
