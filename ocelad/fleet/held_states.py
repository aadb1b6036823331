"""HeldStates: the states of a fleet, the last used ones in memory and the others on the disk."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from warnings import warn

from ocelad.fleet.fleet_store import FleetStore, StateHead, StoredState
from ocelad.fleet.keyed_pairs import Key

#: What a key takes beside its state: entries of dictionaries, and the headers of objects (measured).
OVERHEAD_BYTES = 400
# The share of a full memory that is freed at once: one transaction for many states.
_FREED_SHARE = 0.1
NOT_STORED = -1
# States read at once from the disk when all are listed.
_N_READ = 64
# Keys that learn, or whose metrics are computed, at a time: at most; and at least, whatever the memory is.
_MAX_KEYS, _MIN_KEYS = 4096, 16
# The size of a large state in numbers: of each entry of an n x n matrix, and of the rest (measured, rounded up).
_NUMBERS_PER_ENTRY, _NUMBERS_PER_STATE = 10, 1000
# They may take this share of the memory beyond the bound.
_SHARE_AT_ONCE = 0.125


class Held:
    """The state of a key in memory.

    ``serial``, ``through`` and ``state`` are those of ``StoredState``; ``stored`` is the ``through`` of what the disk
    has, or NOT_STORED.
    """

    __slots__ = ("serial", "state", "stored", "through")

    def __init__(self, serial: int, through: int, state: bytes, stored: int) -> None:
        self.serial, self.through, self.state, self.stored = serial, through, state, stored


class HeldStates:
    """States by key, with a bound on the memory that they take.

    Parameters
    ----------
    max_bytes : int
    store : FleetStore or None
        None: a temporary one is created when the memory is full.

    Examples
    --------
    >>> states = HeldStates(max_bytes=1000, store=None)
    >>> for serial, key in enumerate("abc"):
    ...     states.put(key, serial, through=serial + 1, state=bytes(300))
    >>> states.evict()
    >>> len(states), states.n_bytes <= 1000
    (3, True)
    >>> states.close()
    """

    def __init__(self, max_bytes: int, store: FleetStore | None) -> None:
        self.max_bytes, self.store = max_bytes, store
        #: The bytes in memory, and those of them that the disk lacks.
        self.n_bytes = self.unstored_bytes = 0
        self._held: OrderedDict[Key, Held] = OrderedDict()
        self._n_keys = 0 if store is None else store.n_states()
        self._n_new = 0  # keys in memory that the disk lacks
        self._is_counting = False  # an interruption leaves it True
        self._values_first: Callable[[], dict[str, bytes]] = dict
        self._has_warned = False

    @property
    def file(self) -> FleetStore | None:
        """The store, if it is a file that stays when the fleet is closed."""
        return None if self.store is None or self.store.durability == "temporary" else self.store

    @property
    def unsaved_file(self) -> str | None:
        """The name of the open file, if what was learned since the last checkpoint is lost without another one."""
        file = self.file
        if file is None or file.durability != "commit" or not file.is_open or file.process != os.getpid():
            return None
        return file.name if self.unstored_bytes or file.is_in_transaction else None

    def n_keys_at_once(self, n_features: int) -> int:
        """Return the number of keys whose states may be in memory beyond the bound."""
        state_bytes = 8 * (_NUMBERS_PER_ENTRY * n_features**2 + _NUMBERS_PER_STATE)
        return max(_MIN_KEYS, min(_MAX_KEYS, int(_SHARE_AT_ONCE * self.max_bytes / state_bytes)))

    def __len__(self) -> int:
        self._check_counts()
        return self._n_keys

    @property
    def _n_stored(self) -> int:
        """The number of keys that the disk has."""
        return len(self) - self._n_new

    def __contains__(self, key: Key) -> bool:
        return key in self._held or (self._n_stored > 0 and self._store().has_state(key))

    def keys(self) -> list[Key]:
        """Return the keys in the order of their first answers."""
        serials = self._store().serials() if self._n_stored else {}
        serials.update((key, held.serial) for key, held in self._held.items())
        return sorted(serials, key=serials.__getitem__)

    def get(self, keys: Sequence[Key]) -> list[Held | None]:
        """Return the states of keys; None for those that have none. Those on the disk are read into memory."""
        found = list(map(self._held.get, keys))
        if self._n_stored:
            absent = [key for key, held in zip(keys, found, strict=True) if held is None]
            for stored in self._store().read_states(absent).values():
                self._set(stored.key, Held(stored.serial, stored.through, stored.state, stored.through))
            if absent:
                found = list(map(self._held.get, keys))
        for key, held in zip(keys, found, strict=True):
            if held is not None:
                self._held.move_to_end(key)
        return found

    def put(self, key: Key, serial: int, through: int, state: bytes) -> None:
        """Hold the state of a key, as the last used one. If the key is not new, ``get`` must have read it."""
        held = self._held.get(key)
        if held is None:
            self._set(key, Held(serial, through, state, NOT_STORED))
            return
        self._set(key, Held(held.serial, through, state, held.stored))
        self._held.move_to_end(key)

    def evict(self) -> None:
        """Free memory if more than ``max_bytes`` are in use: the least recently used states go to the disk.

        On a full disk, the states that it lacks stay in memory, and a later call tries again.
        """
        self._check_counts()
        if self.n_bytes <= self.max_bytes:
            return
        leaving = self._least_used(self._held)
        lacking = self._lacking(leaving)
        try:
            if lacking:
                self._write(lacking)
                self._mark_stored(lacking)
        except OSError as error:
            self.postpone(error)
            leaving = self._least_used([key for key, held in self._held.items() if held.stored == held.through])
        for key in leaving:
            self._set(key, None)

    def write_first(self, values: Callable[[], dict[str, bytes]]) -> None:
        """Write named values together with the next states: the store must not have these without them."""
        self._values_first = values

    def postpone(self, error: OSError) -> None:
        """Warn once that states stay in memory because they cannot be written; raise if written ones were lost."""
        if self.store is not None:
            self.store.check_intact()
        if not self._has_warned:
            self._has_warned = True
            message = f"{error}. Nothing is lost: states stay in memory, beyond the bound, until they can be written"
            warn(message, RuntimeWarning, stacklevel=2)

    @contextmanager
    def storing_all(self, store: FleetStore) -> Iterator[None]:
        """Make a checkpoint of the store with all states, and with what the ``with`` block writes."""
        lacking = self._lacking(self._held)
        with store.checkpoint():
            self._write(lacking)
            yield
        self._mark_stored(lacking)

    def since(self, serial: int, count: int) -> list[bytes]:
        """Return the states of the first ``count`` keys from a serial on."""
        first = {held.serial: held.state for held in self._held.values() if held.serial >= serial}
        if self._n_stored:
            # What is in memory is newer.
            stored = self._store().states_since(serial, count)
            first = {state.serial: state.state for state in stored} | first
        return [first[at] for at in sorted(first)[:count]]

    def items(self) -> Iterator[tuple[Key, bytes]]:
        """Return all keys with their states, in the order of their first answers; nothing is read into memory."""
        keys = iter(self.keys())
        while some := list(islice(keys, _N_READ)):
            absent = [key for key in some if key not in self._held]
            stored = self._store().read_states(absent) if absent else {}
            for key in some:
                yield key, stored[key].state if key in stored else self._held[key].state

    def heads(self, n_bytes: int) -> list[StateHead]:
        """Return the first bytes of all states, in the order of their first answers; nothing is read into memory."""
        heads = {head.key: head for head in self._store().heads(n_bytes)} if self._n_stored else {}
        for key, held in self._held.items():  # what is in memory is newer
            heads[key] = StateHead(key, held.serial, held.state[:n_bytes], len(held.state))
        return sorted(heads.values(), key=lambda head: head.serial)

    def close(self) -> None:
        """Close the store; what was not written to it is lost."""
        if self.store is not None:
            self.store.close()

    def _least_used(self, keys: Iterable[Key]) -> list[Key]:
        """Return the first of the keys whose states have to leave the memory."""
        excess, leaving = self.n_bytes - int((1.0 - _FREED_SHARE) * self.max_bytes), []
        for key in keys:
            if excess <= 0:
                break
            excess -= _size(key, self._held[key])
            leaving.append(key)
        return leaving

    def _lacking(self, keys: Iterable[Key]) -> list[tuple[Key, Held]]:
        """Return those of the states that the disk lacks."""
        return [(key, held) for key in keys if (held := self._held[key]).stored != held.through]

    def _write(self, states: Sequence[tuple[Key, Held]]) -> None:
        stored = [StoredState(key, held.serial, held.through, held.state) for key, held in states]
        self._store().write_states(stored, self._values_first())

    def _mark_stored(self, states: Sequence[tuple[Key, Held]]) -> None:
        self._values_first = dict
        for key, held in states:
            self._set(key, Held(held.serial, held.through, held.state, held.through))

    def _set(self, key: Key, held: Held | None) -> None:
        """Hold a state, in place of an earlier one of the key; None: none. An interruption changes all or nothing."""
        self._check_counts()
        self._is_counting = True
        old = self._held.get(key)
        if held is None:
            del self._held[key]
        else:
            self._held[key] = held
            self._count(key, held, 1)
        if old is not None:
            self._count(key, old, -1)
        elif held is not None and held.stored == NOT_STORED:
            self._n_keys += 1
        self._is_counting = False

    def _count(self, key: Key, held: Held, sign: int) -> None:
        size = _size(key, held)
        self.n_bytes += sign * size
        if held.stored != held.through:
            self.unstored_bytes += sign * size
        if held.stored == NOT_STORED:
            self._n_new += sign

    def _check_counts(self) -> None:
        """Count everything again if counting was interrupted."""
        if not self._is_counting:
            return
        on_disk = {} if self.store is None else self.store.serials()
        self._n_keys = len(on_disk.keys() | self._held.keys())
        self.n_bytes = self.unstored_bytes = self._n_new = 0
        for key, held in self._held.items():
            self._count(key, held, 1)
        self._is_counting = False

    def _store(self) -> FleetStore:
        if self.store is None:
            self.store = FleetStore(None, "temporary")
        return self.store


def _size(key: Key, held: Held) -> int:
    return OVERHEAD_BYTES + len(held.state) + (len(key.encode()) if isinstance(key, str) else 0)
