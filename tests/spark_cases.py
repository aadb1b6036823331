"""A stream of answers in files, the session of Spark that tests share, and the states in a checkpoint."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ocelad import Metric
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.spark import spark_session
from ocelad.spark.session import ROCKSDB as ROCKSDB

N_FEATURES, N_FILES = 3, 6
SETTINGS = {
    "spark.sql.shuffle.partitions": 2,
    "spark.ui.enabled": False,
    "spark.driver.memory": "1g",
    "spark.sql.streaming.pollingDelay": "10ms",
}
SCHEMA = "user STRING, x ARRAY<DOUBLE>, z ARRAY<DOUBLE>, same INT, at TIMESTAMP, n BIGINT"
#: Columns of the answers; with an event time, the order of the stream is that of the micro-batches, too.
COLUMNS = {"key": "user", "left": "x", "right": "z", "same": "same", "n_features": N_FEATURES}
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PRIOR = SharedPrior(Metric(np.diag([2.0, 1.0, 0.5]), threshold=1.0), log_weight=0.5)


def start_session(folder: Path):
    """Return the session of Spark of this process."""
    spark = spark_session("local[2]", {**SETTINGS, "spark.sql.warehouse.dir": folder / "warehouse"})
    spark.sparkContext.setLogLevel("OFF")
    return spark


def answers(n_answers=900, n_keys=6, seed=0):
    """Return a table of answers, one per second; the first keys give most, so that some have few."""
    rng = np.random.default_rng(seed)
    users = np.minimum(rng.geometric(0.35, n_answers), n_keys)
    x, z = rng.normal(size=(2, n_answers, N_FEATURES))
    near = np.abs(x - z)[np.arange(n_answers), users % N_FEATURES] < 1.0
    return {
        "user": [f"user {user}" for user in users],
        "x": x.tolist(),
        "z": z.tolist(),
        "same": np.where(near, 1, -1).tolist(),
        "at": [BEGIN + timedelta(seconds=at) for at in range(n_answers)],
        "n": list(range(n_answers)),
    }


def rows_of(table, rows):
    """Return some rows of a table of columns."""
    return {name: [values[row] for row in rows] for name, values in table.items()}


def write_file(folder, at, table):
    """Write the file that a stream reads as its micro-batch number ``at``: the source reads files by their times."""
    folder.mkdir(parents=True, exist_ok=True)
    times = pa.array(table["at"], pa.timestamp("us", tz="UTC"))
    types = {"x": pa.list_(pa.float64()), "z": pa.list_(pa.float64()), "same": pa.int32(), "user": pa.string()}
    columns = {name: pa.array(values, types.get(name)) for name, values in (table | {"at": times}).items()}
    path = folder / f"{at:03}.parquet"
    hidden = folder / f".{at:03}.parquet"  # Spark may list the folder meanwhile
    pq.write_table(pa.table(columns), hidden)
    os.utime(hidden, (1_700_000_000 + at, 1_700_000_000 + at))
    hidden.rename(path)


def write_files(folder, table, n_files=N_FILES):
    """Write consecutive parts of a table."""
    for at, rows in enumerate(np.array_split(np.arange(len(table["user"])), n_files)):
        write_file(folder, at, rows_of(table, rows.tolist()))


def read_files(spark, folder):
    """Return a stream of files, one per micro-batch."""
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def run(rounds, checkpoint, output):
    """Run a query until it has read all files; return it."""
    writer = rounds.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start(str(output))
    query.awaitTermination()
    return query


def stored_states(spark, checkpoint):
    """Return what the state store holds for each key, as bytes; with a time to live, it holds that, too."""
    states = spark.read.format("statestore").option("stateVarName", "tracker").load(str(checkpoint))
    values = {row["key"]["user"]: row["value"].asDict() for row in states.collect()}
    return {key: bytes((value.get("value") or value)["state"]) for key, value in values.items()}
