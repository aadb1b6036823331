"""The paper's figures. Computing a figure's data and drawing them are separate steps.

>>> from ocelad.lab.figures import FIGURES
>>> FIGURES["3"].title
'Tracking a changing metric'
"""

from __future__ import annotations

from ocelad.lab.figures import embeddings, intervals, margins, regret, review_drift, tracking
from ocelad.lab.figures.figure import Claim as Claim
from ocelad.lab.figures.figure import Figure as Figure
from ocelad.lab.figures.figure_data import FigureData as FigureData

#: The figures by name: those of the paper by their numbers, and "regret", which the paper does not have.
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
