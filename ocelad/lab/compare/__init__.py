"""Compare any methods on any stream with one protocol: the same pairs, the same rounds, the same evaluation.

>>> from ocelad.lab.compare import compare
>>> comparison = compare(["rice", "euclidean"], "static", seeds=2, every=1000, n_jobs=1)
>>> [summary.method for summary in comparison.summaries()]
['rice', 'euclidean']
"""

from __future__ import annotations

from ocelad.lab.compare.block_streams import Block as Block
from ocelad.lab.compare.block_streams import PairStream as PairStream
from ocelad.lab.compare.block_streams import Stream as Stream
from ocelad.lab.compare.comparison import Comparison as Comparison
from ocelad.lab.compare.comparison_plot import draw_comparison as draw_comparison
from ocelad.lab.compare.methods import Categorical as Categorical
from ocelad.lab.compare.methods import LogUniform as LogUniform
from ocelad.lab.compare.methods import Method as Method
from ocelad.lab.compare.methods import StreamInfo as StreamInfo
from ocelad.lab.compare.registry import FIGURE as FIGURE
from ocelad.lab.compare.registry import GROUPS as GROUPS
from ocelad.lab.compare.registry import METHODS as METHODS
from ocelad.lab.compare.registry import STREAMS as STREAMS
from ocelad.lab.compare.run_comparison import compare as compare
