"""Drifting streams of pairs, seeded, and product reviews to draw pairs from."""

from ocelad.streams.clusters import PAPER_PHASES, DriftingClusters, Moment, Phase
from ocelad.streams.reviews import Reviews, download_reviews, load_reviews
from ocelad.streams.scenarios import SCENARIOS, Scenario
from ocelad.streams.words import SwitchingWords

__all__ = [
    "PAPER_PHASES",
    "SCENARIOS",
    "DriftingClusters",
    "Moment",
    "Phase",
    "Reviews",
    "Scenario",
    "SwitchingWords",
    "download_reviews",
    "load_reviews",
]
