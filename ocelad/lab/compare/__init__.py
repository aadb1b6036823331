"""Any methods on any stream under one protocol: the same pairs, the same rounds, the same evaluation.

>>> from ocelad.lab.compare import compare
>>> comparison = compare(["rice", "euclidean"], "static", seeds=2, every=1000, n_jobs=1)
>>> [line.method for line in comparison.rows()]
['rice', 'euclidean']
"""

from __future__ import annotations

from ocelad.lab.compare.comparison_streams import Block as Block
from ocelad.lab.compare.comparison_streams import PairStream as PairStream
from ocelad.lab.compare.comparison_streams import Stream as Stream
from ocelad.lab.compare.methods import Between as Between
from ocelad.lab.compare.methods import Method as Method
from ocelad.lab.compare.methods import OneOf as OneOf
from ocelad.lab.compare.methods import Setting as Setting
from ocelad.lab.compare.registry import FIGURE as FIGURE
from ocelad.lab.compare.registry import GROUPS as GROUPS
from ocelad.lab.compare.registry import METHODS as METHODS
from ocelad.lab.compare.registry import STREAMS as STREAMS
from ocelad.lab.compare.run_comparison import compare as compare
from ocelad.lab.compare.summary import Comparison as Comparison
