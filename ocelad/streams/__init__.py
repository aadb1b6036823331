"""Drifting streams of pairs, seeded."""

from ocelad.streams.clusters import PAPER_PHASES, DriftingClusters, Moment, Phase
from ocelad.streams.scenarios import SCENARIOS, Scenario
from ocelad.streams.words import SwitchingWords

__all__ = ["PAPER_PHASES", "SCENARIOS", "DriftingClusters", "Moment", "Phase", "Scenario", "SwitchingWords"]
