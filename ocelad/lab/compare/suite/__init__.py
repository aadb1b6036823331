"""The adaptivity suite: one setting of each method on many benchmarks, with targets.

>>> from ocelad.lab.compare.suite import BENCHMARKS
>>> BENCHMARKS["S4"].stream.name
'fast'
"""

from __future__ import annotations

from ocelad.lab.compare.suite.benchmarks import BENCHMARKS as BENCHMARKS
from ocelad.lab.compare.suite.benchmarks import COMID_GRID as COMID_GRID
from ocelad.lab.compare.suite.benchmarks import OPPONENTS as OPPONENTS
from ocelad.lab.compare.suite.benchmarks import Benchmark as Benchmark
from ocelad.lab.compare.suite.suite_results import BenchmarkResult as BenchmarkResult
from ocelad.lab.compare.suite.suite_results import SuiteResult as SuiteResult
from ocelad.lab.compare.suite.suite_runner import run_suite as run_suite
from ocelad.lab.compare.suites import FIRST_TEST_SEED as FIRST_TEST_SEED
from ocelad.lab.compare.suites import OURS as OURS
from ocelad.lab.compare.suites import Target as Target
