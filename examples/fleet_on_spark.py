"""Track one distance for each tenant of a stream on Spark, from files of answers to distances.

    python examples/fleet_on_spark.py [FOLDER]

Needs ``pip install 'ocelad[spark]'`` and Java 17. Everything runs on this machine, with two cores. Five tenants look at
one of four features each. Their answers come as files, in two parts: the query runs twice, and the second run continues
from the checkpoint of the first one, as after a restart. At the end, each tenant's distance ranks pairs that nobody has
answered.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.evaluation.scores import pair_auc
from ocelad.spark import distance, latest, spark_session, track_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N_FEATURES, N_FILES, ANSWERS_PER_FILE = 4, 6, 250
TENANTS = [f"tenant {n}" for n in range(5)]
SCHEMA = "tenant STRING, x ARRAY<DOUBLE>, z ARRAY<DOUBLE>, same BOOLEAN, at TIMESTAMP, id BIGINT"
COLUMNS: dict[str, Any] = {"key": "tenant", "left": "x", "right": "z", "same": "same", "n_features": N_FEATURES}


def answers(count: int, first: int, seed: int) -> list[dict[str, Any]]:
    """Return answers of random tenants. Tenant n looks at the feature n modulo 4; the first ones give most answers."""
    rng = np.random.default_rng(seed)
    rows = []
    for at in range(first, first + count):
        n = min(int(rng.geometric(0.35)) - 1, len(TENANTS) - 1)
        x, z = rng.normal(size=(2, N_FEATURES))
        same = bool(abs(x - z)[n % N_FEATURES] < 1.0)
        time = datetime(2026, 1, 1) + timedelta(seconds=at)
        rows.append({"tenant": TENANTS[n], "x": x.tolist(), "z": z.tolist(), "same": same, "at": str(time), "id": at})
    return rows


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    """Write rows as a file of JSON lines, of which Spark sees nothing before it is complete."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(folder / name)


def track(spark: SparkSession, folder: Path) -> None:
    """Learn from the files that are there and were not read before."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "answers"))
    rounds = track_stream(stream, **COLUMNS, event_time="at", id="id")
    writer = rounds.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "rounds")).awaitTermination()


def main(folder: Path) -> None:
    spark = spark_session("local[2]", {"spark.sql.shuffle.partitions": 2, "spark.ui.enabled": False})
    spark.sparkContext.setLogLevel("ERROR")
    try:
        for part in np.array_split(np.arange(N_FILES), 2):
            for n in part.tolist():
                write(folder / "answers", f"{n:03}.json", answers(ANSWERS_PER_FILE, n * ANSWERS_PER_FILE, seed=n))
            track(spark, folder)
            trackers = latest(spark.read.parquet(str(folder / "rounds")), key="tenant")
            print(f"After {part[-1] + 1} files:")
            trackers.select("tenant", "n_answers", "n_changes").orderBy("tenant").show()
        write(folder / "new", "new.json", answers(2000, 0, seed=100))
        pairs = spark.read.schema(SCHEMA).json(str(folder / "new"))
        by_key: dict[str, Any] = {"states": trackers, "key": "tenant", "n_features": N_FEATURES}
        rows = distance(pairs, "x", "z", **by_key).collect()
    finally:
        spark.stop()
    print("Pairs that nobody has answered, and that are ranked in the wrong order:")
    for tenant in TENANTS:
        own = [row for row in rows if row["tenant"] == tenant]
        same = np.array([row["same"] for row in own])
        learned = np.array([row["distance"] for row in own])
        euclidean = np.array([np.linalg.norm(np.subtract(row["x"], row["z"])) for row in own])
        errors = [1.0 - pair_auc(distances, same) for distances in (euclidean, learned)]
        print(f"{tenant}: {errors[0]:.1%} by the Euclidean distance, {errors[1]:.1%} by its own")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with TemporaryDirectory() as temporary:
            main(Path(temporary))
