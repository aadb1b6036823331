"""Product reviews as word counts: the Multi-Domain Sentiment Dataset, which the paper's section VI-B learns from."""

from ocelad.streams.reviews.download import download_reviews
from ocelad.streams.reviews.load import load_reviews
from ocelad.streams.reviews.reviews import QUESTIONS, Reviews, draw_pairs

__all__ = ["QUESTIONS", "Reviews", "download_reviews", "draw_pairs", "load_reviews"]
