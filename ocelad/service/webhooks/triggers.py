"""What webhooks are sent for: the metric has moved, the question has changed, or there are new answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad.service.learning import View

# Pairs of items whose distances show how far the metric has moved.
_N_PAIRS = 300


class Triggers:
    """Compares views of a project with the one that the last call was about.

    Parameters
    ----------
    events : mapping of str to dict
        By the name of the event, "metric", "change" or "answers", its options. That of "metric" is ``threshold``: how
        far distances have to move, on average and relative to their mean.
    view : View
        The state to compare with.
    """

    def __init__(self, events: Mapping[str, Mapping[str, Any]], view: View) -> None:
        self._events = events
        self._pairs = np.random.default_rng(0).integers(len(view.points), size=(2, _N_PAIRS))
        self._distances = self._relative_distances(view)
        self._n_changes, self._seq = len(view.changes), view.seq

    def check(self, view: View) -> list[dict[str, Any]]:
        """Return what has happened since the last call, one JSON object per event."""
        found = []
        if "metric" in self._events:
            distances = self._relative_distances(view)
            moved = float(np.abs(distances - self._distances).mean())
            if moved > self._events["metric"]["threshold"]:
                self._distances = distances
                found.append({"event": "metric", "moved": moved})
        if "change" in self._events:
            new = view.changes[self._n_changes :]
            self._n_changes = len(view.changes)  # undone answers may have made them fewer
            found += [{"event": "change", "first": each.round, "detected": each.detected} for each in new]
        if "answers" in self._events and view.seq > self._seq:
            found.append({"event": "answers", "n_entries": view.seq - self._seq})
            self._seq = view.seq
        return [{**each, "seq": view.seq, "n_answers": view.n_answers} for each in found]

    def _relative_distances(self, view: View) -> Floats:
        left, right = self._pairs
        distances = view.distances(view.points[left], view.points[right])
        mean = distances.mean()
        return distances / mean if mean > 0 else distances
