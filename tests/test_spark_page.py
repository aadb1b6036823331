"""The code of the page on Spark runs from top to bottom, in an empty folder."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ocelad.spark.session import find_java

ROOT = Path(__file__).parents[1]
needs = [name for name, found in (("pyspark", find_spec("pyspark")), ("Java", find_java())) if not found]


@pytest.mark.heavy
@pytest.mark.skipif(bool(needs), reason=f"{' and '.join(needs)} missing: make .venv/.spark installs it")
def test_the_page_runs(tmp_path):
    page = ROOT.joinpath("docs", "how-to", "spark.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 8
    # Blocks only show how a table is made in some places; what the page says about them is checked here.
    checks = """
counts = {row["user"]: row["n_answers"] for row in trackers.collect()}
assert counts == {"user 0": 199, "user 1": 200, "user 2": 200, "user 3": 200}, counts
of_store = {row["user"]: row["state"] for row in states.collect()}
assert of_store.keys() == counts.keys()
refused_again = spark.read.json("refused").collect()
assert [row["problem"] for row in refused_again] == ["x has 1 number; accepted: 3 finite numbers"], refused_again
found = measured.collect()
assert len(found) == 5 and all(0 < row["probability"] < 1 < 9 + row["distance"] for row in found), found
assert [len(row["point"]) for row in points.collect()] == [3] * 5
by_store = distance(pairs, "x", "z", **(by_key | {"states": states})).collect()
assert sorted(row["distance"] for row in by_store) == sorted(row["distance"] for row in found)
assert sum(row["n_answers"] for row in learned.collect()) == 399
writer = continued.writeStream.format("parquet").option("checkpointLocation", "checkpoint-continued")
writer.trigger(availableNow=True).start("continued").awaitTermination()
counts = {row["user"]: row["n_answers"] for row in latest(spark.read.parquet("continued"), key="user").collect()}
assert counts == dict.fromkeys(["user 0", "user 1", "user 2", "user 3"], 200), counts
spark.stop()
"""
    script = tmp_path / "page.py"
    script.write_text("\n".join([*blocks, checks]))
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert re.search(r"user 0 *\| *60 *\| *x has 1 number; accepted: 3 finite numbers", done.stdout)
