"""Any methods on any stream under one protocol: the same pairs, the same rounds, the same evaluation.

>>> from ocelad.compare import compare
>>> comparison = compare(["rice", "euclidean"], "static", seeds=2, every=1000, n_jobs=1)
>>> [line.method for line in comparison.rows()]
['rice', 'euclidean']
"""

from __future__ import annotations

from ocelad.compare.catalogue import FIGURE as FIGURE
from ocelad.compare.catalogue import GROUPS as GROUPS
from ocelad.compare.catalogue import METHODS as METHODS
from ocelad.compare.catalogue import STREAMS as STREAMS
from ocelad.compare.methods import Between as Between
from ocelad.compare.methods import Method as Method
from ocelad.compare.methods import OneOf as OneOf
from ocelad.compare.methods import Setting as Setting
from ocelad.compare.run import compare as compare
from ocelad.compare.streams import Block as Block
from ocelad.compare.streams import PairStream as PairStream
from ocelad.compare.streams import Stream as Stream
from ocelad.compare.summary import Comparison as Comparison
