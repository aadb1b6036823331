"""Product reviews as word counts: the Multi-Domain Sentiment Dataset of section VI-B."""

from ocelad.evaluation.streams.reviews.download import download_reviews
from ocelad.evaluation.streams.reviews.load import (
    PAPER_DOMAINS,
    PAPER_N_WORDS,
    find_domains,
    find_review_folder,
    load_reviews,
    load_verified_reviews,
)
from ocelad.evaluation.streams.reviews.reviews import PREPROCESSINGS, QUESTIONS, Reviews
from ocelad.evaluation.streams.reviews.switching_reviews import SwitchingReviews

__all__ = [
    "PAPER_DOMAINS",
    "PAPER_N_WORDS",
    "PREPROCESSINGS",
    "QUESTIONS",
    "Reviews",
    "SwitchingReviews",
    "download_reviews",
    "find_domains",
    "find_review_folder",
    "load_reviews",
    "load_verified_reviews",
]
