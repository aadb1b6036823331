"""Product reviews as word counts: the Multi-Domain Sentiment Dataset, which the paper's section VI-B learns from."""

from ocelad.evaluation.streams.reviews.download import download_reviews
from ocelad.evaluation.streams.reviews.load import PAPER_WORDS, find_reviews, load_reviews, reviews_known
from ocelad.evaluation.streams.reviews.reviews import PREPROCESSINGS, QUESTIONS, Reviews
from ocelad.evaluation.streams.reviews.switching_reviews import SwitchingReviews

__all__ = [
    "PAPER_WORDS",
    "PREPROCESSINGS",
    "QUESTIONS",
    "Reviews",
    "SwitchingReviews",
    "download_reviews",
    "find_reviews",
    "load_reviews",
    "reviews_known",
]
