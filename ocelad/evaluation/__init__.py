"""Streams to learn from, and measures of how well a metric does on them."""
