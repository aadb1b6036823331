"""Checkpoints of the learning state, from which learning restarts after an undo."""

from __future__ import annotations

from typing import NamedTuple

from ocelad.service.learning.learning_state import LearningState


class Checkpoint(NamedTuple):
    """A learning state after an entry of the log, and the size of its arrays when saved."""

    seq: int
    state: LearningState
    n_bytes: int


class Checkpoints:
    """Checkpoints whose spacing grows with their age, so that their number is logarithmic in the length of the log.

    Parameters
    ----------
    initial : LearningState
        The state before the first answer, which is always available.
    max_bytes : int
        The largest total size of the saved arrays; the oldest checkpoints are dropped first. With its buffers, a state
        takes up to four times as much memory.
    """

    def __init__(self, initial: LearningState, max_bytes: int = 2**27) -> None:
        self._initial = initial
        self._max_bytes = max_bytes
        self._checkpoints: list[Checkpoint] = []

    def __len__(self) -> int:
        return len(self._checkpoints)

    @property
    def n_bytes(self) -> int:
        """The total size of the saved arrays."""
        return sum(each.n_bytes for each in self._checkpoints)

    def add(self, seq: int, state: LearningState) -> None:
        """Add the state after entry ``seq``, which must be later than all checkpoints."""
        self._checkpoints.append(Checkpoint(seq, state, state.n_bytes))
        self._thin_out()
        while len(self._checkpoints) > 1 and self.n_bytes > self._max_bytes:
            del self._checkpoints[0]

    def restore_before(self, seq: int) -> tuple[int, LearningState]:
        """Return the last state from before entry ``seq`` and the number of its entry; drop all later checkpoints."""
        while self._checkpoints and self._checkpoints[-1].seq >= seq:
            self._checkpoints.pop()
        if not self._checkpoints:
            return 0, self._initial
        return self._checkpoints[-1].seq, self._checkpoints[-1].state

    def _thin_out(self) -> None:
        """Drop a checkpoint if its neighbours are closer to each other than half their distance to the last one."""
        last, remaining = self._checkpoints[-1].seq, self._checkpoints[:1]
        for candidate, following in zip(self._checkpoints[1:], self._checkpoints[2:], strict=False):
            if following.seq - remaining[-1].seq > (last - following.seq) / 2:
                remaining.append(candidate)
        self._checkpoints = remaining + self._checkpoints[1:][-1:]
