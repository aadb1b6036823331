"""Seeded streams of pairs: drifting clusters, documents, reviews; records of entities; pairs of labelled points."""

from ocelad.evaluation.streams.drifting_clusters import PAPER_PHASES, DriftingClusters, Phase, StreamStep
from ocelad.evaluation.streams.entity_records import EntityRecords
from ocelad.evaluation.streams.linked_tables import LinkedTables
from ocelad.evaluation.streams.pair_sampling import draw_pairs
from ocelad.evaluation.streams.reviews import Reviews, download_reviews, load_reviews
from ocelad.evaluation.streams.scenarios import SCENARIOS, Scenario
from ocelad.evaluation.streams.switching_words import SwitchingWords

__all__ = [
    "PAPER_PHASES",
    "SCENARIOS",
    "DriftingClusters",
    "EntityRecords",
    "LinkedTables",
    "Phase",
    "Reviews",
    "Scenario",
    "StreamStep",
    "SwitchingWords",
    "download_reviews",
    "draw_pairs",
    "load_reviews",
]
