"""Drifting streams of pairs, seeded."""

from ocelad.streams.clusters import PAPER_PHASES, DriftingClusters, Moment, Phase

__all__ = ["PAPER_PHASES", "DriftingClusters", "Moment", "Phase"]
