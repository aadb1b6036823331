"""The paper's figures, each by one command: rows are computed and saved, and drawn apart from that.

>>> from ocelad.lab.figures import FIGURES
>>> FIGURES["3"].title
'A changing metric is tracked'
"""

from __future__ import annotations

from ocelad.lab.figures import embeddings, intervals, margins, regret, review_drift, tracking
from ocelad.lab.figures.figure import Claim as Claim
from ocelad.lab.figures.figure import Figure as Figure
from ocelad.lab.figures.rows import Rows as Rows

#: Those of the paper by their numbers, and one beside them.
FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in (
        margins.FIGURE,
        intervals.FIGURE,
        tracking.FIGURE,
        *embeddings.FIGURES,
        review_drift.FIGURE,
        regret.FIGURE,
    )
}
