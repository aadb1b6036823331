"""StreamLearner: the trackers of keys and the shared prior learn from a stream of answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ocelad.fleet.held_states import HeldStates
from ocelad.fleet.keyed_pairs import KeyedAnswers
from ocelad.fleet.packed_trackers import PackedTrackers
from ocelad.fleet.shared_learner import N_SAMPLED_KEYS, SharedLearner, last_renewal, n_renewals, next_renewal

# Answers of one call of compiled code.
_MAX_ROWS = 65536


class Call(NamedTuple):
    """The answers of one call, the first of which is at a position of the stream."""

    first: int
    answers: KeyedAnswers

    @property
    def last(self) -> int:
        """The position after the last answer."""
        return self.first + len(self.answers)


class StreamLearner:
    """Lets the trackers of keys, and the shared prior, learn from a stream.

    What is learned follows from the stream. It does not depend on how many states are in memory or, in the exact form,
    on how the stream is divided into calls; the compact form rounds after each call. A call may be given again after an
    interruption or a crash: what was learned is left out.

    Parameters
    ----------
    packed : PackedTrackers
    states : HeldStates
    shared : SharedLearner or None
        None: new keys begin with the last of ``packed.priors``, if there is one.
    """

    def __init__(self, packed: PackedTrackers, states: HeldStates, shared: SharedLearner | None) -> None:
        self.packed, self.shared, self._states = packed, shared, states
        self._has_new_prior = False

    def learn(self, call: Call) -> None:
        """Learn from a call, in parts between which the shared prior is renewed."""
        at = call.first
        while at < call.last:
            last = call.last if self.shared is None else min(call.last, next_renewal(at))
            self._learn_part(call, at, last)
            if self.shared is not None:
                self._teach_prior(self.shared, call, at, last)
            at = last

    def _learn_part(self, call: Call, first: int, last: int) -> None:
        """Let the trackers of keys learn from the answers at some positions of the stream."""
        self._store_prior()
        answers = call.answers
        prior = len(self.packed.priors) - 1 if self.shared is None else n_renewals(first) - 1
        groups = answers.rows.group(first - call.first, last - call.first)
        for chunk in groups.chunks(self._states.n_keys_at_once(self.packed.n_features), _MAX_ROWS):
            keys = [answers.rows.keys[code] for code in chunk.codes.tolist()]
            held = self._states.get(keys)
            wanted = [at for at, state in enumerate(held) if state is None or state.through < last]
            if not wanted:
                continue
            part = chunk.select(wanted)
            before = [None if (old := held[at]) is None else old.state for at in wanted]
            rows = part.order
            learned = self.packed.learn(before, answers.U[rows], answers.y[rows], part.ends, [prior] * len(wanted))
            firsts = rows[np.append(0, part.ends[:-1])] + call.first
            for at, first_answer, state in zip(wanted, firsts.tolist(), learned, strict=True):
                old = held[at]
                self._states.put(keys[at], first_answer if old is None else old.serial, last, state)
            self._states.evict()

    def _teach_prior(self, shared: SharedLearner, call: Call, first: int, last: int) -> None:
        """Let the shared prior learn from the answers at some positions of the stream."""
        if shared.n_answers >= last:
            return
        rows = slice(first - call.first, last - call.first)
        sample: Sequence[bytes] = ()
        if last == next_renewal(first):
            sample = self._states.since(last_renewal(first), N_SAMPLED_KEYS)
            self._has_new_prior = True
        shared.learn(call.answers.U[rows], call.answers.y[rows], sample)
        self._store_prior()

    def _store_prior(self) -> None:
        """Write a renewed prior before later states: from these, learning again would not sample the same states."""
        shared = self.shared
        if self._has_new_prior and shared is not None and self._states.file is not None:
            self._states.write_first(lambda: {"shared": shared.to_bytes()})
        self._has_new_prior = False
