"""Compiled loops of the adaptive ensemble."""
