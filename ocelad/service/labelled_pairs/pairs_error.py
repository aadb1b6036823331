"""Errors of files of labelled pairs; the message of each is one sentence."""

from __future__ import annotations


class PairsError(ValueError):
    """A file of labelled pairs that is not accepted."""


class UnknownItems(PairsError):
    """Pairs name items that the project does not have."""
