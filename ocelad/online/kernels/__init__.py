"""Compiled loops over the learners of all scales."""
