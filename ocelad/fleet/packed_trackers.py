"""PackedTrackers: trackers as bytes, one per key, which learn many at a time."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer
from ocelad.adaptive.adaptive_tracker import PLAIN_ROUNDS, AdaptiveTracker
from ocelad.adaptive.changes import Change
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.metric import Metric
from ocelad.pairs import Events

#: How the numbers of a tracker are stored: all their bits, or in a fifth of the space.
Form: TypeAlias = Literal["exact", "compact"]
#: No shared prior: a tracker begins at the Euclidean distance.
NO_PRIOR = -1
# Magic bytes, version of the format, kind of the body, position of the prior (plus 1) and number of answers.
_HEADER = struct.Struct("<4sBBHQ")
_MAGIC, _VERSION = b"ocel", 1
_ANSWERS, _EXACT, _COMPACT = 0, 1, 2


class TrackerSummary(NamedTuple):
    """What a tracker has seen.

    Attributes
    ----------
    n_answers : int
    drift : float
        The relative change of the metric per answer, measured every 64 answers.
    changes : tuple of Change
        The last changes of the question that were detected, oldest first.
    prior : int
        The position of the shared prior that it began with, or NO_PRIOR.
    """

    n_answers: int
    drift: float
    changes: tuple[Change, ...]
    prior: int


class PackedTrackers:
    """Trackers of the default method as bytes.

    A tracker with at most 64 answers is stored as these answers: that is small, and loses nothing. From then on its
    state is stored, in the exact or the compact form.

    Parameters
    ----------
    n_features : int
    form : {"exact", "compact"}
    priors : sequence of SharedPrior
        New trackers begin with one of them; ``priors`` is a list that may grow.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> U = rng.normal(size=(100, 3))
    >>> y = np.where(abs(U[:, 0]) < 0.5, 1.0, -1.0)  # only the first feature is informative
    >>> packed = PackedTrackers(n_features=3)
    >>> state = packed.learn_one(None, U, y)
    >>> packed.summary(state).n_answers, packed.metric(state).matrix.argmax()
    (100, np.int64(0))
    """

    def __init__(self, n_features: int, *, form: Form = "exact", priors: Sequence[SharedPrior] = ()) -> None:
        self.n_features = check_integer(n_features, "n_features", at_least=1)
        self.form: Form = check_choice(form, "form", get_args(Form))
        self.priors = list(priors)

    def learn(
        self, states: Sequence[bytes | None], U: Floats, y: Floats, ends: np.ndarray, priors: Sequence[int] | None = None
    ) -> list[bytes]:
        """Return the states of trackers after further answers; None is a new tracker.

        Parameters
        ----------
        states : sequence of bytes or None
        U : array of shape (n_answers, n_features)
            Differences of the pairs, those of the first tracker first.
        y : array of shape (n_answers,)
            +1 for "same", -1 for "different".
        ends : array of int of shape (n_trackers,)
            The row after each tracker's last answer.
        priors : sequence of int, or None
            The position of the prior that each tracker begins with if it is new, or NO_PRIOR; None: the last one.
        """
        begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        default = len(self.priors) - 1
        return [
            self._learned(state, U[first:last], y[first:last], default if priors is None else priors[at])
            for at, (state, first, last) in enumerate(zip(states, begins, ends, strict=True))
        ]

    def learn_one(self, state: bytes | None, U: Floats, y: Floats, prior: int | None = None) -> bytes:
        """Return the state of one tracker after further answers; see ``learn``."""
        return self.learn([state], U, y, np.array([len(y)]), None if prior is None else [prior])[0]

    def _learned(self, state: bytes | None, U: Floats, y: Floats, prior: int) -> bytes:
        tracker = self.tracker(state, prior)
        tracker.replay(Events(np.array(U), np.array(y)))
        return self.pack(tracker, prior if state is None else _header(state).prior)

    def log_odds(self, state: bytes, U: Floats) -> Floats:
        """Return the log odds of "same" for each difference, a row of U."""
        metric = self.metric(state)
        return np.asarray(metric.threshold - metric.squared_length(U))

    def metrics(self, states: Sequence[bytes | None], priors: Sequence[int] | None = None) -> list[Metric]:
        """Return the metric of each tracker; ``threshold - d^2`` are its log odds. None is a new tracker."""
        default = len(self.priors) - 1
        return [
            self.tracker(state, default if priors is None else priors[at]).play() for at, state in enumerate(states)
        ]

    def metric(self, state: bytes | None) -> Metric:
        """Return the metric of one tracker."""
        return self.metrics([state])[0]

    def summary(self, state: bytes) -> TrackerSummary:
        """Return what a tracker has seen, without computing anything."""
        header, tracker = _header(state), self.tracker(state)
        return TrackerSummary(header.n_answers, tracker.drift, tuple(tracker.changes), header.prior)

    def answers(self, state: bytes) -> tuple[Floats, Floats] | None:
        """Return the differences and answers that a tracker has learned from; None once only its state is stored."""
        return self._answers(state) if _header(state).kind == _ANSWERS else None

    def predictions(self, U: Floats, y: Floats) -> Floats:
        """Return the log odds that a new tracker without a prior predicts for each pair before it learns from it."""
        return AdaptiveTracker(self.n_features).replay(Events(np.array(U), np.array(y))) * y

    def tracker(self, state: bytes | None, prior: int | None = None) -> AdaptiveTracker:
        """Return a tracker of its own that continues from a state; None: a new one."""
        if state is not None:
            prior = _header(state).prior
        elif prior is None:
            prior = len(self.priors) - 1
        began_with = None if prior == NO_PRIOR else self.priors[prior]
        tracker = AdaptiveTracker(self.n_features, prior=began_with)
        if state is None:
            return tracker
        header = _header(state)
        if header.kind == _ANSWERS:
            if header.n_answers:
                U, y = self._answers(state)
                tracker.replay(Events(U, y))
            return tracker
        from safetensors.numpy import load

        body = state[_HEADER.size :]
        length = int.from_bytes(body[:8], "little")
        plain = AdaptiveTracker(self.n_features)
        plain.restore(load(body[8 + length :]), json.loads(body[8 : 8 + length]))
        return plain

    def pack(self, tracker: AdaptiveTracker, prior: int = NO_PRIOR) -> bytes:
        """Return the state of a tracker that began with one of the priors."""
        from safetensors.numpy import save

        n_answers = tracker.n_rounds
        if n_answers <= PLAIN_ROUNDS:
            arrays, _ = tracker.state()
            U, y = arrays["U"], arrays["y"]
            real = "<f8" if self.form == "exact" else "<f4"
            return _pack_header(_ANSWERS, prior, n_answers) + U.astype(real).tobytes() + y.astype("i1").tobytes()
        arrays, metadata = tracker.state()
        words = json.dumps(metadata).encode()
        return _pack_header(_EXACT, prior, n_answers) + len(words).to_bytes(8, "little") + words + save(arrays)

    def _answers(self, state: bytes) -> tuple[Floats, Floats]:
        header, real = _header(state), np.dtype("<f8" if self.form == "exact" else "<f4")
        count, n = header.n_answers, self.n_features
        U = np.frombuffer(state, real, count * n, _HEADER.size).reshape(count, n).astype(float)
        y = np.frombuffer(state, "i1", count, _HEADER.size + count * n * real.itemsize).astype(float)
        return U, y


class _Header(NamedTuple):
    kind: int
    prior: int
    n_answers: int


def _header(state: bytes) -> _Header:
    if len(state) < _HEADER.size:
        raise ValueError(f"a state of {len(state)} bytes is truncated; accepted: what PackedTrackers.learn returned")
    magic, version, kind, prior, n_answers = _HEADER.unpack_from(state)
    if magic != _MAGIC:
        raise ValueError("these bytes are no state of a tracker; accepted: what PackedTrackers.learn returned")
    if version != _VERSION:
        raise ValueError(f"the state has version {version} of the format; this version of ocelad reads {_VERSION}")
    return _Header(kind, prior - 1, n_answers)


def _pack_header(kind: int, prior: int, n_answers: int) -> bytes:
    return _HEADER.pack(_MAGIC, _VERSION, kind, prior + 1, n_answers)
