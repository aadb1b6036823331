"""Drifting streams of pairs, seeded."""

from ocelad.streams.clusters import PAPER_PHASES, DriftingClusters, Moment, Phase
from ocelad.streams.words import SwitchingWords

__all__ = ["PAPER_PHASES", "DriftingClusters", "Moment", "Phase", "SwitchingWords"]
