"""Nearest neighbours by a distance that moves: ``MovingIndex``."""

from ocelad.neighbors.moving_index import MovingIndex, Neighbors

__all__ = ["MovingIndex", "Neighbors"]
