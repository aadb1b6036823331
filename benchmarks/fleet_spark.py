"""Measure how many pairs per second a stream of many keys learns on Spark, and what Spark takes without learning.

Three kinds: ``engine`` stores as many bytes as trackers would take, without learning; ``learning`` learns and returns
no states; ``defaults`` is what the guide on Spark does: event times and ids, states in each row, and a Parquet sink.

python benchmarks/fleet_spark.py --keys 1000 --keys 10000 --keys 100000

Needs ``pip install 'ocelad[spark]'`` and Java 17. Each key looks at one feature of its own. Its answers are spread over
the whole stream, so that most keys of a micro-batch have one or two answers.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from results import save, show
from rich.console import Console

from ocelad.fleet.packed_trackers import PackedTrackers
from ocelad.spark import spark_session, track_stream
from ocelad.spark.answer_columns import ANSWER
from ocelad.spark.track import _answers, check_columns

KINDS = ("engine", "learning", "defaults")
SIDES = {"key": "user", "left": "x", "right": "z", "same": "same"}


class EngineOnly:
    """Reads the rows of a key and stores as many bytes as its tracker would take, without learning.

    They are random, because zeros would be compressed to nothing, and numbers of trackers are hardly compressible.
    """

    def __init__(self, sizes: list[int]) -> None:
        self._sizes = sizes

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("tracker", "state BINARY", None)
        self._rng = np.random.default_rng()

    def handleInputRows(self, key: tuple[Any, ...], rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        from pyspark.sql import Row

        n_new = sum(1 for row in rows if row[ANSWER])
        before = self._state.get()
        n_answers = n_new + (0 if before is None else int.from_bytes(before[0][:8], "little"))
        self._state.update((n_answers.to_bytes(8, "little") + self._rng.bytes(self._sizes[n_answers] - 8),))
        yield Row(user=key[0], n_answers=n_answers)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None: ...

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        return iter(())

    def close(self) -> None: ...


def write_stream(folder: Path, n_keys: int, n_answers: int, n_features: int, n_batches: int) -> None:
    """Write the answers of all keys in random order, two files for each micro-batch."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    first = 0
    for at, users in enumerate(np.array_split(rng.permutation(np.repeat(np.arange(n_keys), n_answers)), 2 * n_batches)):
        x, z = (rng.normal(size=(len(users), n_features)) for _ in range(2))
        one = np.arange(len(users)), users % n_features
        columns = {
            "user": [f"user {user}" for user in users],
            "x": pa.FixedSizeListArray.from_arrays(x.ravel(), n_features).cast(pa.list_(pa.float64())),
            "z": pa.FixedSizeListArray.from_arrays(z.ravel(), n_features).cast(pa.list_(pa.float64())),
            "same": np.abs(x[one] - z[one]) < 1.0,
            "n": first + np.arange(len(users)),
            "at": pa.array(1_000_000 * (first + np.arange(len(users))), pa.timestamp("us", tz="UTC")),
        }
        first += len(users)
        pq.write_table(pa.table(columns), folder / f"{at:05}.parquet")


def run(spark: Any, folder: Path, kind: str, n_answers: int, n_features: int, form: str) -> dict[str, float]:
    """Run the stream from its first file to its last one."""
    checkpoint, output = folder.parent / "checkpoint", folder.parent / "rounds"
    for old in (checkpoint, output):
        shutil.rmtree(old, ignore_errors=True)
    schema = "user STRING, x ARRAY<DOUBLE>, z ARRAY<DOUBLE>, same BOOLEAN, n BIGINT, at TIMESTAMP"
    answers = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(str(folder))
    if kind == "learning":
        rounds = track_stream(answers, **SIDES, n_features=n_features, form=form, with_state=False)
    elif kind == "defaults":
        rounds = track_stream(answers, **SIDES, n_features=n_features, form=form, event_time="at", id="n")
    else:
        columns = check_columns(answers, **SIDES, n_features=n_features, event_time=None, id=None)
        packed, rng = PackedTrackers(n_features, form=form), np.random.default_rng(0)
        U, y = rng.normal(size=(n_answers, n_features)), rng.choice([-1.0, 1.0], n_answers)
        sizes = [24, *(len(packed.learn_one(None, U[:n], y[:n])) for n in range(1, n_answers + 1))]
        grouped = _answers(answers, columns, with_time=False).groupBy("user")
        rounds = grouped.transformWithState(EngineOnly(sizes), "user STRING, n_answers BIGINT", "append", "None")
    begin = perf_counter()
    writer = rounds.writeStream.format("parquet" if kind == "defaults" else "noop")
    writer = writer.option("checkpointLocation", str(checkpoint)).option("path", str(output))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    wall = perf_counter() - begin
    batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
    last = batches[-1]["stateOperators"][0]
    n_rows = sum(batch["numInputRows"] for batch in batches)
    steady = batches[1:] or batches  # the first one starts workers and loads the kernels
    return {
        "seconds": wall,
        "pairs/s": n_rows / wall,
        "last pairs/s": batches[-1]["numInputRows"] / (batches[-1]["durationMs"]["triggerExecution"] / 1000.0),
        "steady pairs/s": 1000.0
        * sum(batch["numInputRows"] for batch in steady)
        / sum(batch["durationMs"]["triggerExecution"] for batch in steady),
        "keys stored": last["numRowsTotal"],
        "checkpoint MB": _megabytes(checkpoint),
        "rounds MB": _megabytes(output),
    }


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


@click.command()
@click.option("--keys", type=int, multiple=True, default=(1_000, 10_000, 100_000), help="Numbers of keys.")
@click.option("--answers", type=int, default=10, help="Answers per key.")
@click.option("--features", type=int, default=25)
@click.option("--batches", type=int, default=10, help="Micro-batches per stream.")
@click.option("--cores", type=int, default=2)
@click.option("--form", type=click.Choice(["exact", "compact"]), default="exact")
@click.option("--only", type=click.Choice(KINDS), help="One of the three measurements.")
def main(keys: tuple[int, ...], answers: int, features: int, batches: int, cores: int, form: str, only: str) -> None:
    spark = spark_session(
        f"local[{cores}]",
        {"spark.sql.shuffle.partitions": cores, "spark.ui.enabled": False, "spark.driver.memory": "3g"},
    )
    spark.sparkContext.setLogLevel("ERROR")
    folder, rows = Path(mkdtemp()), []
    kinds = KINDS if only is None else (only,)
    try:
        write_stream(folder / "warm-up", 100, answers, features, 2)
        for kind in kinds:  # the first run of a session starts workers, and compiles code of the JVM and kernels
            run(spark, folder / "warm-up", kind, answers, features, form)
        for n_keys in keys:
            stream = folder / str(n_keys)
            write_stream(stream, n_keys, answers, features, batches)
            for kind in kinds:
                rows.append({"": kind, "keys": n_keys} | run(spark, stream, kind, answers, features, form))
                Console().print(rows[-1])
            shutil.rmtree(stream)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        spark.stop()
    title = f"{features} features, {answers} answers per key, {batches} micro-batches, {cores} cores"
    show(Console(width=120), title, rows)
    save("fleet_spark", {"answers": answers, "features": features, "batches": batches, "form": form}, rows)


if __name__ == "__main__":
    main()
