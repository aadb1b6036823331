"""Hypothesis strategies for events, streams of events, pairs and metrics.

>>> from hypothesis import given, settings
>>> @settings(max_examples=10, database=None)
... @given(streams(n_features=3))
... def swapping_x_and_z_changes_nothing(events):
...     from ocelad import track_metric
...     one, other = track_metric(3), track_metric(3)
...     for u, y in events:
...         one.step(Event(u, y)), other.step(Event(-u, y))
...     assert one.play() == other.play()
>>> swapping_x_and_z_changes_nothing()
"""

from __future__ import annotations

import numpy as np

try:
    from hypothesis import strategies as st
    from hypothesis.extra.numpy import arrays
except ImportError:
    raise ImportError("the strategies need Hypothesis: pip install 'ocelad[testing]'") from None

from ocelad._typing import Floats
from ocelad.metric import Metric
from ocelad.pairs import Event, Pair

LARGEST = 3.0


def vectors(n_features: int, largest: float = LARGEST) -> st.SearchStrategy[Floats]:
    """Points or differences with entries from ``-largest`` to ``largest``; zeros and repeated values occur often."""
    return arrays(np.float64, n_features, elements=_entries(largest) | st.sampled_from([0.0, largest, -largest]))


def _entries(largest: float) -> st.SearchStrategy[float]:
    return st.floats(-largest, largest, allow_subnormal=False)


def events(n_features: int, largest: float = LARGEST) -> st.SearchStrategy[Event]:
    """Events: a difference and a label."""
    return st.builds(Event, vectors(n_features, largest), st.sampled_from([1.0, -1.0]))


def streams(
    n_features: int, min_size: int = 1, max_size: int = 20, largest: float = LARGEST
) -> st.SearchStrategy[list[Event]]:
    """Short streams of events."""
    return st.lists(events(n_features, largest), min_size=min_size, max_size=max_size)


def pairs(n_features: int, largest: float = LARGEST) -> st.SearchStrategy[Pair]:
    """Pairs of points that are similar or dissimilar."""
    return st.builds(Pair, vectors(n_features, largest), vectors(n_features, largest), st.booleans())


def metrics(n_features: int, max_rank: int | None = None) -> st.SearchStrategy[Metric]:
    """Metrics of any rank from 0 to ``max_rank``, with thresholds from 1 to 10."""
    rank = n_features if max_rank is None else max_rank
    factors = arrays(np.float64, (rank, n_features), elements=_entries(LARGEST))
    return st.builds(lambda L, mu: Metric(L.T @ L, mu), factors, st.floats(1, 10))
