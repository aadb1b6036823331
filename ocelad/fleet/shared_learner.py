"""SharedLearner: one tracker that learns from the answers of all keys, from whose metric new keys begin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import log
from typing import Self

import numpy as np

from ocelad._typing import Arrays, Floats
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.fleet.packed_trackers import PackedTrackers
from ocelad.metric import Metric

#: The prior is renewed after this many answers, then whenever their number has doubled.
FIRST_RENEWAL = 64
#: It learns from all of the first answers, and from every SAMPLE_STEP-th one after that.
N_ALL, SAMPLE_STEP = 4096, 16
#: The number of keys, begun with the last prior, that show how much it helps; and the answers of each that count.
N_SAMPLED_KEYS, MIN_ANSWERS, MAX_ANSWERS = 256, 5, 10
# The log weight of the first prior, about which nothing is known, and pseudo-keys of the estimate of later ones.
FIRST_LOG_WEIGHT, PSEUDO_KEYS = -2.0, 4.0


class SharedLearner:
    """Learns the prior of new keys from the answers of all keys, and how much it helps.

    What it learns does not depend on how the stream is divided into calls: the prior is renewed at fixed numbers of
    answers, which ``learn`` may not skip.

    Parameters
    ----------
    packed : PackedTrackers
        Its ``priors`` grow with each renewal.

    Attributes
    ----------
    n_answers : int
        The number of answers that all keys have given.
    """

    def __init__(self, packed: PackedTrackers) -> None:
        self._packed, self._trackers = packed, PackedTrackers(packed.n_features)
        self._state: bytes | None = None
        self.n_answers = 0

    @property
    def n_until_renewal(self) -> int:
        """The number of answers until the prior is renewed; at least 1."""
        renewal = FIRST_RENEWAL
        while renewal <= self.n_answers:
            renewal *= 2
        return renewal - self.n_answers

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
        if used.any():
            self._state = self._trackers.learn_one(self._state, U[used], y[used])
        self.n_answers += count
        if count == left:
            log_weight = self._log_weight(sample) if self._packed.priors else FIRST_LOG_WEIGHT
            self._packed.priors.append(SharedPrior(self._trackers.metric(self._state), log_weight))

    def _log_weight(self, sample: Sequence[bytes]) -> float:
        """Return the log odds that the last prior predicts the first answers of a new key better than no prior."""
        prior, n_better, n_keys = self._packed.priors[-1], 0, 0
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
        return log((n_better + pseudo) / (n_keys - n_better + pseudo))

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
        learner.n_answers = metadata["n_answers"]
        learner._state = arrays["state"].tobytes() or None
        packed.priors = [
            SharedPrior(Metric.from_trusted_matrix(arrays[f"prior.{at}"], threshold, round), log_weight)
            for at, (threshold, round, log_weight) in enumerate(metadata["priors"])
        ]
        return learner


def log_loss(log_odds: Floats, y: Floats) -> float:
    """Return the mean logarithmic loss of log odds of "same"."""
    return float(np.mean(np.logaddexp(0.0, -log_odds * y)))
