"""SharedLearner: one tracker that learns from the answers of all keys, from whose metric new keys begin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import log
from typing import NamedTuple, Self

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad.adaptive.shared_prior import CAUTION, SharedPrior
from ocelad.fleet.packed_trackers import PackedTrackers
from ocelad.metric import Metric

#: The prior is renewed after this many answers, then whenever their number has doubled.
FIRST_RENEWAL = 64
#: It learns from all of the first answers, and from every SAMPLE_STEP-th one after that.
N_ALL, SAMPLE_STEP = 4096, 16
#: The number of keys, begun with the last prior, that show how much it helps; and the answers of each that count.
N_SAMPLED_KEYS, MIN_ANSWERS, MAX_ANSWERS = 256, 5, 10
# The log weight of the first prior, about which nothing is known; pseudo-keys of the estimate of later ones; and the
# most that it may be: keys that agree gain nearly as much, and keys that contradict all others lose far less.
FIRST_LOG_WEIGHT, PSEUDO_KEYS, MAX_LOG_WEIGHT = -3.0, 4.0, -1.0


def n_renewals(n_answers: int) -> int:
    """Return how often the prior has been renewed after a number of answers.

    >>> [n_renewals(n_answers) for n_answers in (0, 63, 64, 127, 128, 256)]
    [0, 0, 1, 1, 2, 3]
    """
    return (n_answers // FIRST_RENEWAL).bit_length()


def next_renewal(n_answers: int) -> int:
    """Return the number of answers at the first renewal after ``n_answers``."""
    return FIRST_RENEWAL << n_renewals(n_answers)


def last_renewal(n_answers: int) -> int:
    """Return the number of answers at the last renewal up to ``n_answers``; 0 if there was none."""
    return next_renewal(n_answers) // 2 if n_renewals(n_answers) else 0


class _Learned(NamedTuple):
    """The state of the tracker, and the number of answers: one value, so that an interruption changes both or none."""

    state: bytes | None
    n_answers: int


class SharedLearner:
    """Learns the prior of new keys from the answers of all keys, and how much it helps.

    What it learns does not depend on how the stream is divided into calls: the prior is renewed at fixed numbers of
    answers, which ``learn`` may not skip.

    Parameters
    ----------
    packed : PackedTrackers
        Its ``priors`` grow with each renewal.
    """

    def __init__(self, packed: PackedTrackers) -> None:
        self._packed, self._trackers = packed, PackedTrackers(packed.n_features)
        self._learned = _Learned(None, 0)

    @property
    def n_answers(self) -> int:
        """The number of answers that all keys have given."""
        return self._learned.n_answers

    @property
    def _state(self) -> bytes | None:
        return self._learned.state

    @property
    def n_until_renewal(self) -> int:
        """The number of answers until the prior is renewed; at least 1."""
        return next_renewal(self.n_answers) - self.n_answers

    def learn(self, U: Floats, y: Floats, sample: Sequence[bytes] = ()) -> None:
        """Learn from answers in the order of the stream, at most ``n_until_renewal``; renew the prior if it is due.

        Parameters
        ----------
        U, y : arrays
            Differences of all keys, and their answers.
        sample : sequence of bytes
            States of keys that began with the last prior, after these answers; they are used if the prior is due.
        """
        count, left = len(y), self.n_until_renewal
        if count > left:
            raise ValueError(f"the prior is renewed after {left} answers; got {count} at once")
        rows = self.n_answers + np.arange(count)
        used = (rows < N_ALL) | (rows % SAMPLE_STEP == 0)
        state = self._trackers.learn_one(self._state, U[used], y[used]) if used.any() else self._state
        if count == left:
            # Replaced if it is there: whoever interrupts this method calls it again.
            at = n_renewals(self.n_answers)
            log_weight = self._log_weight(self._packed.priors[at - 1], sample) if at else FIRST_LOG_WEIGHT
            self._packed.priors[at:] = [SharedPrior(self._trackers.metric(state), log_weight)]
        self._learned = _Learned(state, self.n_answers + count)

    def _log_weight(self, prior: SharedPrior, sample: Sequence[bytes]) -> float:
        """Return the log odds, less caution, that a prior predicts the first answers of a key better than no prior."""
        n_better = n_keys = 0
        known = [answers for state in sample if (answers := self._packed.answers(state)) is not None]
        for U, y in known:
            if len(y) < MIN_ANSWERS:
                continue
            U, y = U[:MAX_ANSWERS], y[:MAX_ANSWERS]
            of_prior = prior.metric.threshold - prior.metric.squared_length(U)
            without = self._trackers.predictions([None], U, y, np.array([len(y)]))
            n_keys += 1
            n_better += log_loss(of_prior, y) < log_loss(without, y)
        if n_keys == 0:
            return prior.log_weight
        pseudo = PSEUDO_KEYS / 2.0
        return min(log((n_better + pseudo) / (n_keys - n_better + pseudo)) - CAUTION, MAX_LOG_WEIGHT)

    def arrays(self) -> tuple[Arrays, dict[str, object]]:
        """Return everything that later answers depend on, priors included: arrays, and JSON values."""
        arrays: Arrays = {"state": np.frombuffer(self._state or b"", np.uint8)}
        priors = []
        for at, prior in enumerate(self._packed.priors):
            arrays[f"prior.{at}"] = np.array(prior.metric.matrix)
            priors.append([prior.metric.threshold, prior.metric.round, prior.log_weight])
        return arrays, {"n_answers": self.n_answers, "priors": priors}

    def to_bytes(self) -> bytes:
        """Return ``arrays`` as bytes."""
        from safetensors.numpy import save

        arrays, metadata = self.arrays()
        return save(arrays, {"ocelad": json.dumps(metadata)})

    @classmethod
    def from_bytes(cls, data: bytes, packed: PackedTrackers) -> Self:
        """Continue from what ``to_bytes`` returned; replaces the priors of ``packed``."""
        from safetensors.numpy import load

        arrays = load(data)
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(json.loads(data[8 : 8 + length])["__metadata__"]["ocelad"])
        learner = cls(packed)
        learner._learned = _Learned(arrays["state"].tobytes() or None, metadata["n_answers"])
        packed.priors = [
            SharedPrior(Metric.from_trusted_matrix(arrays[f"prior.{at}"], threshold, round), log_weight)
            for at, (threshold, round, log_weight) in enumerate(metadata["priors"])
        ]
        return learner


def log_loss(log_odds: Floats, y: Floats) -> float:
    """Return the mean logarithmic loss of log odds of "same"."""
    return float(np.mean(np.logaddexp(0.0, -log_odds * y)))
