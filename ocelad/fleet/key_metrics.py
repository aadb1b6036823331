"""KeyMetrics: the metrics of keys, the last used ones in a cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

from ocelad.fleet.held_states import HeldStates
from ocelad.fleet.keyed_pairs import Ints, Key, KeyedRows
from ocelad.fleet.packed_trackers import PackedTrackers
from ocelad.metric import Metric

# What a metric takes beside its numbers.
_OVERHEAD_BYTES = 1000


class KeyMetrics:
    """Computes the metrics of many keys at once, and caches the last used ones.

    Parameters
    ----------
    states : HeldStates
    max_bytes : int
        The memory for cached metrics.
    """

    def __init__(self, states: HeldStates, max_bytes: int) -> None:
        self._states, self._max_bytes = states, max_bytes
        self._cache: OrderedDict[Key, Metric] = OrderedDict()

    def by_key(self, keyed: KeyedRows, packed: PackedTrackers) -> Iterator[tuple[Ints, Metric]]:
        """Return the rows of each key and its metric; few of them are in memory at a time."""
        count = len(keyed.codes)
        for chunk in keyed.group().chunks(self._states.n_keys_at_once(packed.n_features), max(1, count)):
            metrics = self.of([keyed.keys[code] for code in chunk.codes.tolist()], packed)
            begin = 0
            for end, metric in zip(chunk.ends.tolist(), metrics, strict=True):
                yield chunk.order[begin:end], metric
                begin = end

    def of(self, keys: Sequence[Key], packed: PackedTrackers) -> list[Metric]:
        """Return the metric of each key; see ``metric_of_new_key`` for unknown ones."""
        found = {key: metric for key in keys if (metric := self._cache.get(key)) is not None}
        for key in found:
            self._cache.move_to_end(key)
        absent = [key for key in keys if key not in found]
        if absent:
            known = [(key, held.state) for key, held in zip(absent, self._states.get(absent), strict=True) if held]
            computed = packed.metrics([state for _, state in known]) if known else []
            for (key, _), metric in zip(known, computed, strict=True):
                found[key] = metric
                self._add(key, metric)
            self._states.evict()
            if len(known) < len(absent):
                of_new_key = packed.metric_of_new_key()
                for key in absent:
                    found.setdefault(key, of_new_key)
        return [found[key] for key in keys]

    def forget(self, keys: Iterable[Key]) -> None:
        """Drop the metrics of keys that learn."""
        for key in keys:
            self._cache.pop(key, None)

    def _add(self, key: Key, metric: Metric) -> None:
        """Add a metric to the cache; the least recently used ones leave it."""
        self._cache[key] = metric
        # A metric that has embedded points keeps its components, too.
        n_bytes = 16 * metric.n_features**2 + _OVERHEAD_BYTES
        while len(self._cache) * n_bytes > self._max_bytes:
            self._cache.popitem(last=False)
