"""Sessions of Spark that run ocelad: the state store, and the workers' Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
# Avro reads a state whose schema has got a further column; Spark's other encoding, its default, refuses it.
STATE_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
# Otherwise Spark runs micro-batches without rows all the time where keys have a time to live, and availableNow
# never ends. Expired keys are forgotten without them, too.
EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
# In the first micro-batch of a query with initial states, Spark hands over the rows of a key in parts of this size, in
# the order of its shuffle, so that what a key learns would depend on that order. 0: no limit; Spark still limits the
# bytes of a record batch.
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
MIN_SPARK, MIN_JAVA = (4, 1), 17
NEEDS_SPARK = "ocelad.spark needs Apache Spark 4.1 or newer: pip install 'ocelad[spark]'"
NEEDS_JAVA = "Spark needs Java 17 or newer: apt install openjdk-17-jre-headless, or set JAVA_HOME"


def spark_session(
    master: str | None = None, settings: Mapping[str, Any] | None = None, *, app_name: str = "ocelad"
) -> SparkSession:
    """Return a session with what ``track_stream`` needs: the RocksDB state store, and workers that run this Python.

    States are stored as Avro, so that a later version may add a column to them. There are no micro-batches without rows
    (``spark.sql.streaming.noDataMicroBatches.enabled``): with a time to live they would never end. Arrow record batches
    have no limit of rows (``spark.sql.execution.arrow.maxRecordsPerBatch`` is 0), so that a stream with initial states
    learns the same bits however Spark orders rows.

    Parameters
    ----------
    master : str or None
        As in Spark, such as ``"local[2]"``; None: Spark's own setting, or all cores of this machine.
    settings : mapping or None
        Further settings of Spark. The number of shuffle partitions (200 if it is not set) belongs to a stream's
        checkpoint: a small number, such as the number of cores, suits one machine.
    app_name : str

    Examples
    --------
    ::

        spark = spark_session("local[2]", {"spark.sql.shuffle.partitions": 2})
    """
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError(
            f"settings is {settings!r}; accepted: a mapping, such as {{'spark.sql.shuffle.partitions': 2}}, or None"
        )
    check_installation()
    from pyspark.sql import SparkSession

    # Spark reads it when its context starts; "python3" on the path may be another one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name).config(STATE_STORE, ROCKSDB).config(STATE_ENCODING, "avro")
    builder = builder.config(EMPTY_BATCHES, "false").config(ARROW_ROWS, "0")
    # One task per core learns already: threads within a task would compete for the cores.
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        builder = builder.config(f"spark.executorEnv.{name}", "1")
    if master is not None:
        builder = builder.master(master)
    for name, value in (settings or {}).items():
        builder = builder.config(name, str(value))
    spark = builder.getOrCreate()
    check_session(spark, run=False)
    return spark


def check_session(spark: SparkSession, *, run: bool = True) -> None:
    """Raise an error if ``track_stream`` would fail in this session.

    Parameters
    ----------
    spark : SparkSession
    run : bool
        Whether to start a worker, which takes a second, and compare its versions of Python and ocelad with this
        process.
    """
    if not (hasattr(spark, "version") and hasattr(spark, "conf")):
        raise TypeError(f"spark is {spark!r}; accepted: a session of Spark, such as ocelad.spark.spark_session()")
    check_stream(spark)
    if run:
        _check_worker(spark)


def check_stream(spark: SparkSession, *, has_initial: bool = False) -> None:
    """Raise an error if streams of this session cannot keep trackers: Spark's version, state store or Python.

    With initial states, ``ARROW_ROWS`` must be 0, too.
    """
    found = tuple(int(part) for part in re.findall(r"\d+", spark.version)[:2])
    if found < MIN_SPARK:
        raise RuntimeError(f"this session runs Spark {spark.version}; accepted: {MIN_SPARK[0]}.{MIN_SPARK[1]} or newer")
    provider = spark.conf.get(STATE_STORE)
    # Platforms have RocksDB providers of their own, such as com.databricks.sql.streaming.state.
    if str(provider).split(".")[-1] != ROCKSDB.split(".")[-1]:
        raise RuntimeError(
            f"transformWithState needs the RocksDB state store, and this session has {str(provider).split('.')[-1]}; "
            f"accepted: spark.conf.set({STATE_STORE!r}, {ROCKSDB!r}), or a session of ocelad.spark.spark_session"
        )
    if has_initial and int(spark.conf.get(ARROW_ROWS) or 0) > 0:
        raise RuntimeError(
            f"initial needs record batches of any number of rows, and this session limits them to "
            f"{spark.conf.get(ARROW_ROWS)}, which would split the answers of a key; accepted: "
            f"spark.conf.set({ARROW_ROWS!r}, 0), or a session of ocelad.spark.spark_session"
        )
    check_python(spark)


def check_installation() -> None:
    """Raise an error that names what to install if PySpark or Java are missing."""
    try:
        for name in ("pyspark", "pandas", "pyarrow", "google.protobuf"):
            import_module(name)
    except ImportError as error:
        raise ImportError(f"{NEEDS_SPARK} ({error})") from None
    if "SPARK_REMOTE" in os.environ or "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        return  # the server has Java
    java = find_java()
    if java is None:
        raise RuntimeError(f"no Java was found; {NEEDS_JAVA}")
    found = java_version(java)
    if found is not None and found < MIN_JAVA:
        raise RuntimeError(f"{java} is Java {found}; {NEEDS_JAVA}")


def find_java() -> str | None:
    """Return the path of the Java that Spark's launcher would run."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        return str(java) if java.exists() else None
    return shutil.which("java")


def java_version(java: str) -> int | None:
    """Return the feature version of a Java, such as 17; None if it does not say."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java_version(answer.stderr + answer.stdout)


def parse_java_version(text: str) -> int | None:
    """Return the feature version that ``java -version`` prints.

    >>> parse_java_version('openjdk version "17.0.15" 2025-04-15'), parse_java_version('java version "1.8.0_402"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def check_python(spark: SparkSession) -> None:
    """Raise an error if the workers of a session on this machine would run another Python.

    On a cluster, paths may differ, and a worker has to say: see ``check_session``.
    """
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none
    if context is None or not str(context.master).startswith("local"):
        return
    python = shutil.which(context.pythonExec) or context.pythonExec
    if python != sys.executable and _identity(python) != (_folder(sys.prefix), _minor_version()):
        raise RuntimeError(
            f"Spark's workers would run {python}, and this process runs {sys.executable}; accepted: the same Python: "
            "set PYSPARK_PYTHON to it before the session starts, or use ocelad.spark.spark_session"
        )


@cache
def _identity(python: str) -> tuple[str, str] | None:
    """Return the folder that decides which packages a Python sees, and its minor version; None if it does not run.

    The Python has to say: its path may be a link, or a script that chooses a Python, as those of pyenv are.
    """
    code = "import sys; print(sys.prefix); print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = answer.stdout.splitlines()
    return (_folder(lines[-2]), lines[-1]) if len(lines) > 1 else None


def _folder(path: str) -> str:
    return str(Path(path).resolve())


def _minor_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _check_worker(spark: SparkSession) -> None:
    """Run one task and compare the versions of Python and ocelad."""
    try:
        answer = spark.range(1).mapInArrow(_worker_versions, "versions STRING").first()
    except Exception as error:
        raise RuntimeError(
            f"a worker of Spark cannot run ocelad; install ocelad {_versions()[1]} for its Python ({_last_line(error)})"
        ) from None
    found, here = answer[0].split(), _versions()
    for name, theirs, ours in zip(("Python", "ocelad", "NumPy"), found, here, strict=True):
        if theirs != ours:
            raise RuntimeError(f"Spark's workers have {name} {theirs}, and this process has {ours}; install the same")


def _worker_versions(batches: Any) -> Any:
    import pyarrow as pa

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"versions": [" ".join(_versions())]})


def _versions() -> tuple[str, str, str]:
    return _minor_version(), version("ocelad"), version("numpy")


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "Error" in line]
    return lines[-1] if lines else type(error).__name__
