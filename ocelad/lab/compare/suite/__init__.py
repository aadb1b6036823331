"""The adaptivity suite: one setting of each method on many streams, with what is aimed at and whether it is met.

>>> from ocelad.lab.compare.suite import ROWS
>>> ROWS["S4"].stream.metadata
'clustering A, very fast drift'
"""

from __future__ import annotations

from ocelad.lab.compare.suite.benchmarks import FIRST_FRESH_SEED as FIRST_FRESH_SEED
from ocelad.lab.compare.suite.benchmarks import HINDSIGHT as HINDSIGHT
from ocelad.lab.compare.suite.benchmarks import OPPONENTS as OPPONENTS
from ocelad.lab.compare.suite.benchmarks import OURS as OURS
from ocelad.lab.compare.suite.benchmarks import ROWS as ROWS
from ocelad.lab.compare.suite.benchmarks import Row as Row
from ocelad.lab.compare.suite.run_suite import run_suite as run_suite
from ocelad.lab.compare.suite.suite_summary import Aim as Aim
from ocelad.lab.compare.suite.suite_summary import Outcome as Outcome
from ocelad.lab.compare.suite.suite_summary import SuiteResult as SuiteResult
