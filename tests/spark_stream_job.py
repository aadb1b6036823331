"""The driver of a stream, for tests that kill it: python tests/spark_stream_job.py FOLDER CHECKPOINT OUTPUT."""

from __future__ import annotations

import sys
from pathlib import Path

from spark_cases import COLUMNS, PRIOR, read_files, run, start_session

from ocelad.spark import track_stream


def rounds_of(spark, files):
    """Return the query that is killed, and that is started again."""
    return track_stream(read_files(spark, files), **COLUMNS, event_time="at", id="n", prior=PRIOR)


if __name__ == "__main__":
    files, checkpoint, output = map(Path, sys.argv[1:])
    spark = start_session(output.parent)
    run(rounds_of(spark, files), checkpoint, output)
