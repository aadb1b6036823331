"""The adaptivity suite: one setting of each method on many streams, with what is aimed at and whether it is met.

>>> from ocelad.compare.suite import ROWS
>>> ROWS["S4"].stream.about
'clustering A, very fast drift'
"""

from __future__ import annotations

from ocelad.compare.suite.rows import FIRST_FRESH_SEED as FIRST_FRESH_SEED
from ocelad.compare.suite.rows import HINDSIGHT as HINDSIGHT
from ocelad.compare.suite.rows import OPPONENTS as OPPONENTS
from ocelad.compare.suite.rows import OURS as OURS
from ocelad.compare.suite.rows import ROWS as ROWS
from ocelad.compare.suite.rows import Row as Row
from ocelad.compare.suite.run import run_suite as run_suite
from ocelad.compare.suite.summary import Aim as Aim
from ocelad.compare.suite.summary import Outcome as Outcome
from ocelad.compare.suite.summary import SuiteResult as SuiteResult
