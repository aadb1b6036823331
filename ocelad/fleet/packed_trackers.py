"""PackedTrackers: trackers as bytes, one per key, which learn many at a time."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer
from ocelad.adaptive.adaptive_tracker import PLAIN_ROUNDS, AdaptiveTracker
from ocelad.adaptive.changes import Change
from ocelad.adaptive.config import AdaptiveConfig
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.engines.kernel_loading import compile_elsewhere
from ocelad.metric import Metric
from ocelad.pairs import Events

if TYPE_CHECKING:
    from ocelad.adaptive.tracker_worker import Record, TrackerWorker  # imports numba

#: How the numbers of a tracker are stored: all their bits, or in a half to a quarter of the space.
Form: TypeAlias = Literal["exact", "compact"]
#: With more features than this, states are those of ``AdaptiveTracker``: exact, and learned one key at a time.
MAX_COMPILED_FEATURES = AdaptiveConfig().max_moment_features
#: No shared prior: a tracker begins at the Euclidean distance.
NO_PRIOR = -1
# Magic bytes, version of the format, kind of the body, position of the prior (plus 1), numbers of features and answers.
_HEADER = struct.Struct("<4sBBHII")
HEADER_BYTES = _HEADER.size
_MAGIC, _VERSION = b"ocel", 1
_ANSWERS, _EXACT, _COMPACT, _GENERAL = 0, 1, 2, 3
# The lengths of the two parts of a record, or of the JSON and the arrays of a general state.
_LENGTHS = struct.Struct("<II")
_BODY = HEADER_BYTES + _LENGTHS.size
# Trackers per call of compiled code, and bytes that their records may take.
_CHUNK, _CHUNK_BYTES = 256, 64_000_000

_Result = TypeVar("_Result")


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

    A tracker with at most 64 answers is stored as these answers: that is small, loses nothing, and nothing is computed
    until its metric is asked for. From then on its state is stored, in the exact or the compact form. Many trackers
    learn at a time, in compiled code over all cores.

    Parameters
    ----------
    n_features : int
    form : {"exact", "compact"}
        The compact form takes half of the space for answers and less than a third for states. Its probabilities differ
        from those of the exact form by less than 0.001 on average, and by less than 0.1 where a pair falls on another
        side of a bound. It rounds after each call, so that the result depends a little on how answers are split into
        calls. It exists for at most 128 features.
    priors : sequence of SharedPrior
        New trackers begin with one of them; ``priors`` is a list that may grow.
    n_threads : int or None
        None: one per core that this process may use.

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

    def __init__(
        self,
        n_features: int,
        *,
        form: Form = "exact",
        priors: Sequence[SharedPrior] = (),
        n_threads: int | None = None,
    ) -> None:
        self.n_features = check_integer(n_features, "n_features", at_least=1)
        self.form: Form = check_choice(form, "form", get_args(Form))
        self._compiled = self.n_features <= MAX_COMPILED_FEATURES
        if form == "compact" and not self._compiled:
            raise ValueError(
                f"form='compact' is for at most {MAX_COMPILED_FEATURES} features; got {n_features}. "
                "Accepted: form='exact', or fewer features, for example by PCA"
            )
        self.priors = list(priors)
        n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._n_threads = n_cores if n_threads is None else check_integer(n_threads, "n_threads", at_least=1)
        self._real = np.dtype("<f8" if form == "exact" else "<f4")
        self._answer_bytes = (self.n_features + 1) * self._real.itemsize
        self._new_records: dict[int, Record] = {}
        self._idle: SimpleQueue[TrackerWorker] = SimpleQueue()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.n_features, self.form, self.priors)

    # Learning.

    def learn(
        self,
        states: Sequence[bytes | None],
        U: Floats,
        y: Floats,
        ends: np.ndarray,
        priors: Sequence[int] | None = None,
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
        rows = np.ascontiguousarray(np.column_stack([U, y]), dtype=self._real)
        learned, states, bounds = rows.tobytes(), self._started(states, priors), [0, *np.asarray(ends).tolist()]
        new_states: list[bytes] = [b""] * len(states)
        computed = []
        for at, (state, (first, last)) in enumerate(zip(states, pairwise(bounds), strict=True)):
            kind, prior, _, n_answers = read_header(state)
            if kind == _ANSWERS and n_answers + last - first <= PLAIN_ROUNDS:
                added = learned[first * self._answer_bytes : last * self._answer_bytes]
                header = self._header(_ANSWERS, prior, n_answers + last - first)
                new_states[at] = header + state[HEADER_BYTES:] + added
            elif first == last:
                new_states[at] = state
            else:
                computed.append(at)
        for chunk, computed_states in self._in_chunks(self._learn_chunk, states, rows, bounds, computed):
            for at, new in zip(chunk, computed_states, strict=True):
                new_states[at] = new
        return new_states

    def learn_one(self, state: bytes | None, U: Floats, y: Floats, prior: int | None = None) -> bytes:
        """Return the state of one tracker after further answers; see ``learn``."""
        return self.learn([state], U, y, np.array([len(y)]), None if prior is None else [prior])[0]

    def _learn_chunk(self, work: _Work) -> list[bytes]:
        if not self._compiled:
            return [self._learn_in_python(state, U, y) for state, U, y in work.each()]
        with self._worker() as worker:
            new, ends, played = worker.learn(*work.arrays())
        begin, states = (0, 0), []
        for at, (end, kernel_played) in enumerate(zip(ends.tolist(), played.tolist(), strict=True)):
            state, n_rows = work.states[at], work.lengths[at]
            if kernel_played:
                numbers, integers = new.numbers[begin[0] : end[0]], new.integers[begin[1] : end[1]]
                before = read_header(state)
                states.append(self._pack_record(before.prior, before.n_answers + n_rows, numbers, integers))
            else:
                states.append(self._learn_in_python(*work.one(at)))
            begin = end
        return states

    def _learn_in_python(self, state: bytes, U: Floats, y: Floats) -> bytes:
        """Learn where kernels cannot: with many features, or where directions have to be orthonormalised."""
        compile_elsewhere("adaptive")
        tracker = self.tracker(state)
        tracker.replay(Events(U, y))
        return self.pack(tracker, read_header(state).prior)

    # Results.

    def metrics(self, states: Sequence[bytes | None], priors: Sequence[int] | None = None) -> list[Metric]:
        """Return the metric of each tracker; ``threshold - d^2`` are its log odds. None is a new tracker."""
        started = self._started(states, priors)
        metrics: list[Any] = [None] * len(started)
        no_rows, bounds = np.empty((0, self.n_features + 1), self._real), [0] * (len(started) + 1)
        for chunk, computed in self._in_chunks(self._chunk_metrics, started, no_rows, bounds, range(len(started))):
            for at, metric in zip(chunk, computed, strict=True):
                metrics[at] = metric
        return metrics

    def metric(self, state: bytes | None) -> Metric:
        """Return the metric of one tracker."""
        return self.metrics([state])[0]

    def metric_of_new_key(self) -> Metric:
        """Return the metric of a key without answers: the last prior, if it is likely; otherwise a new tracker's.

        A new tracker does not know the scale of its features, so that its prior has little effect before an answer.
        """
        if self.priors and self.priors[-1].is_likely:
            return self.priors[-1].metric
        return self.metric(None)

    def _chunk_metrics(self, work: _Work) -> list[Metric]:
        if not self._compiled:
            return [self.tracker(state).play() for state in work.states]
        with self._worker() as worker:
            matrices, thresholds, played = worker.metrics(*work.arrays())
        return [
            Metric.from_trusted_matrix(matrices[at].copy(), float(thresholds[at]), read_header(state).n_answers)
            if played[at]
            else self.tracker(state).play()
            for at, state in enumerate(work.states)
        ]

    def log_odds(self, state: bytes | None, U: Floats) -> Floats:
        """Return the log odds of "same" for each difference, a row of U."""
        metric = self.metric(state)
        return np.asarray(metric.threshold - metric.squared_length(U))

    def predictions(self, states: Sequence[bytes | None], U: Floats, y: Floats, ends: np.ndarray) -> Floats:
        """Return the log odds that trackers predict for their pairs, each before they learn from it; see ``learn``.

        A new tracker begins without a prior. The states stay as they are.
        """
        started = self._started(states, [NO_PRIOR] * len(states))
        rows, bounds = np.column_stack([U, y]).astype(self._real), [0, *np.asarray(ends).tolist()]
        log_odds = np.empty(len(y))
        for chunk, parts in self._in_chunks(self._chunk_predictions, started, rows, bounds, range(len(started))):
            for at, part in zip(chunk, parts, strict=True):
                log_odds[bounds[at] : bounds[at + 1]] = part
        return log_odds

    def _chunk_predictions(self, work: _Work) -> list[Floats]:
        if not self._compiled:
            return [self.tracker(state).replay(Events(U, y)) * y for state, U, y in work.each()]
        with self._worker() as worker:
            log_odds, played = worker.predictions(*work.arrays())
        parts = []
        for at, (begin, end) in enumerate(pairwise([0, *work.ends.tolist()])):
            if played[at]:
                parts.append(log_odds[end - work.lengths[at] : end] if end > begin else np.empty(0))
            else:
                state, U, y = work.one(at)
                parts.append(self.tracker(state).replay(Events(U, y)) * y)
        return parts

    def summary(self, state: bytes) -> TrackerSummary:
        """Return what a tracker has seen."""
        self._check(state)
        header = read_header(state)
        if header.kind == _ANSWERS:
            return TrackerSummary(header.n_answers, 0.0, (), header.prior)
        if header.kind != _GENERAL:
            with self._worker() as worker:
                drift, changes = worker.drift_and_changes(self._record(state))
            return TrackerSummary(header.n_answers, drift, tuple(changes), header.prior)
        tracker = self.tracker(state)
        return TrackerSummary(header.n_answers, tracker.drift, tuple(tracker.changes), header.prior)

    def answers(self, state: bytes) -> tuple[Floats, Floats] | None:
        """Return the differences and answers that a tracker has learned from; None once only its state is stored."""
        self._check(state)
        if read_header(state).kind != _ANSWERS:
            return None
        rows = self._answer_rows(state)
        return rows[:, :-1].astype(float), rows[:, -1].astype(float)

    def _answer_rows(self, state: bytes) -> np.ndarray:
        return np.frombuffer(state, self._real, offset=HEADER_BYTES).reshape(-1, self.n_features + 1)

    # Trackers of their own.

    def tracker(self, state: bytes | None, prior: int | None = None) -> AdaptiveTracker:
        """Return a tracker of its own that continues from a state; None: a new one, with a prior or the last one."""
        state = self._started([state], None if prior is None else [prior])[0]
        header = read_header(state)
        if header.kind == _GENERAL:
            from safetensors.numpy import load

            length = _LENGTHS.unpack_from(state, HEADER_BYTES)[0]
            tracker = AdaptiveTracker(self.n_features)
            tracker.restore(load(state[_BODY + length :]), json.loads(state[_BODY : _BODY + length]))
            return tracker
        if header.kind != _ANSWERS:
            with self._worker() as worker:
                return worker.tracker(self._record(state))
        tracker = AdaptiveTracker(self.n_features, prior=self._prior(header.prior))
        answers = self.answers(state)
        if answers is not None and header.n_answers:
            tracker.replay(Events(*answers))
        return tracker

    def pack(self, tracker: AdaptiveTracker, prior: int = NO_PRIOR) -> bytes:
        """Return the state of a tracker of pairs with weight 1 that began with one of the priors."""
        if tracker.n_features != self.n_features:
            raise ValueError(f"the tracker has {tracker.n_features} features; {self.n_features} are expected")
        if tracker.settings["sparse"] or tracker.settings["events"] != "pairs":
            raise ValueError("the tracker learned from sparse pairs or comparisons; accepted: dense pairs")
        if tracker.n_rounds <= PLAIN_ROUNDS and "U" in (arrays := tracker.state()[0]):
            rows = np.column_stack([arrays["U"], arrays["y"]]).astype(self._real)
            return self._header(_ANSWERS, prior, tracker.n_rounds) + rows.tobytes()
        if self._compiled:
            with self._worker() as worker:
                record = worker.record(tracker)
            return self._pack_record(prior, tracker.n_rounds, *record)
        from safetensors.numpy import save

        tracker.compiled_parts()
        arrays, metadata = tracker.state()
        words, body = json.dumps(metadata).encode(), save(arrays)
        header = self._header(_GENERAL, prior, tracker.n_rounds)
        return header + _LENGTHS.pack(len(words), len(body)) + words + body

    # States.

    def _started(self, states: Sequence[bytes | None], priors: Sequence[int] | None) -> list[bytes]:
        """Return the states, and those of new trackers for None; refuse what this object cannot read."""
        last = len(self.priors) - 1
        started = []
        for at, state in enumerate(states):
            if state is None:
                state = self._header(_ANSWERS, last if priors is None else priors[at], 0)
            self._check(state)
            started.append(state)
        return started

    def _check(self, state: bytes) -> None:
        """Refuse a state that this object cannot read: compiled code has no bounds."""
        kind, prior, n_features, n_answers = read_header(state)
        if n_features != self.n_features:
            raise ValueError(f"the state has {n_features} features; {self.n_features} are expected")
        if kind not in (_ANSWERS, self._body_kind):
            raise ValueError(f"the state is not in the {self.form} form; accepted: states of one form")
        size = len(state)
        if kind == _ANSWERS:
            expected = HEADER_BYTES + n_answers * self._answer_bytes
        elif size < _BODY:
            expected = _BODY
        else:
            first, second = _LENGTHS.unpack_from(state, HEADER_BYTES)
            sizes = (self._real.itemsize, 2) if self._compiled else (1, 1)
            expected = _BODY + first * sizes[0] + second * sizes[1]
        if size != expected:
            raise ValueError(
                f"a state of {size} bytes was found where {expected} are expected for {self.n_features} features in "
                f"the {self.form} form: it is truncated, or of the other form"
            )
        if not NO_PRIOR <= prior < len(self.priors):
            raise ValueError(f"the state began with prior {prior}; there are {len(self.priors)} priors")

    @property
    def _body_kind(self) -> int:
        """The kind of states that are not stored as answers."""
        if not self._compiled:
            return _GENERAL
        return _EXACT if self.form == "exact" else _COMPACT

    def _header(self, kind: int, prior: int, n_answers: int) -> bytes:
        return _HEADER.pack(_MAGIC, _VERSION, kind, prior + 1, self.n_features, n_answers)

    def _pack_record(self, prior: int, n_answers: int, numbers: np.ndarray, integers: np.ndarray) -> bytes:
        """Return the state with a record."""
        lengths = _LENGTHS.pack(len(numbers), len(integers))
        return self._header(self._body_kind, prior, n_answers) + lengths + numbers.tobytes() + integers.tobytes()

    def _record(self, state: bytes) -> Record:
        from ocelad.adaptive.tracker_worker import Record

        return Record(*self._record_parts(state))

    def _record_parts(self, state: bytes) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers and integers of a record."""
        n_numbers, n_integers = _LENGTHS.unpack_from(state, HEADER_BYTES)
        integers = np.frombuffer(state, "<i2", n_integers, _BODY + n_numbers * self._real.itemsize)
        return np.frombuffer(state, self._real, n_numbers, _BODY), integers

    def _prior(self, position: int) -> SharedPrior | None:
        return None if position == NO_PRIOR else self.priors[position]

    def _new_record(self, prior: int) -> Record:
        """Return the record of a new tracker, which begins with a prior."""
        if prior not in self._new_records:
            with self._worker() as worker:
                self._new_records[prior] = worker.record(AdaptiveTracker(self.n_features, prior=self._prior(prior)))
        return self._new_records[prior]

    # Chunks of trackers, in threads.

    def _in_chunks(
        self,
        compute: Callable[[_Work], list[_Result]],
        states: list[bytes],
        rows: np.ndarray,
        bounds: list[int],
        positions: Sequence[int],
    ) -> Iterator[tuple[Sequence[int], list[_Result]]]:
        """Compute results of the trackers at some positions; return those of each chunk of positions."""
        size = min(self._chunk, max(1, -(-len(positions) // self._n_threads)))
        chunks = [positions[first : first + size] for first in range(0, len(positions), size)]
        works = (
            _Work(self, [states[at] for at in chunk], rows, [bounds[at : at + 2] for at in chunk]) for chunk in chunks
        )
        if len(chunks) <= 1 or self._n_threads == 1 or not self._compiled:
            yield from zip(chunks, map(compute, works), strict=True)
            return
        with ThreadPoolExecutor(self._n_threads) as pool:
            yield from zip(chunks, pool.map(compute, works), strict=True)

    @cached_property
    def _chunk(self) -> int:
        """The number of trackers per call of compiled code."""
        if not self._compiled:
            return _CHUNK
        with self._worker() as worker:
            return max(1, min(_CHUNK, _CHUNK_BYTES // (8 * worker.max_numbers + 2 * worker.max_integers)))

    @contextmanager
    def _worker(self) -> Iterator[TrackerWorker]:
        """Lend a worker to the present thread."""
        from ocelad.adaptive.tracker_worker import TrackerWorker

        try:
            worker = self._idle.get_nowait()
        except Empty:
            compile_elsewhere("many_trackers")
            worker = TrackerWorker(self.n_features, self.form == "compact")
        try:
            yield worker
        finally:
            self._idle.put(worker)

    def work_arrays(
        self, states: Sequence[bytes], rows: np.ndarray, bounds: Sequence[Sequence[int]]
    ) -> tuple[Record, np.ndarray, Floats, Floats, np.ndarray]:
        """Return what ``TrackerWorker`` takes: the records of trackers, and the answers that they have yet to play.

        A tracker that is stored as its answers begins with the record of a new tracker, and plays them again.
        """
        from ocelad.adaptive.tracker_worker import Record

        numbers, integers, begins, parts, ends = [], [], [], [], []
        new: dict[int, tuple[int, int]] = {}  # where the record of a new tracker with each prior begins
        at = (0, 0)
        end = 0
        for state, (first, last) in zip(states, bounds, strict=True):
            kind, prior, _, n_answers = read_header(state)
            if kind == _ANSWERS and prior in new:
                begins.append(new[prior])
            else:
                begins.append(at)
                if kind == _ANSWERS:
                    new[prior] = at
                record = self._new_record(prior) if kind == _ANSWERS else self._record_parts(state)
                numbers.append(record[0])
                integers.append(record[1])
                at = at[0] + len(record[0]), at[1] + len(record[1])
            if kind == _ANSWERS and n_answers:
                parts.append(self._answer_rows(state))
                end += n_answers
            if last > first:
                parts.append(rows[first:last])
                end += last - first
            ends.append(end)
        all_rows = np.concatenate([np.empty((0, self.n_features + 1), self._real), *parts]).astype(float)
        U, y = np.ascontiguousarray(all_rows[:, :-1]), np.ascontiguousarray(all_rows[:, -1])
        records = Record(np.concatenate(numbers), np.concatenate(integers))
        return records, np.array(begins, np.int64), U, y, np.array(ends, np.int64)


class _Work:
    """Trackers and the answers that they learn from: a chunk for one call of compiled code."""

    def __init__(self, packed: PackedTrackers, states: list[bytes], rows: np.ndarray, bounds: list[list[int]]) -> None:
        self._packed, self.states, self._rows, self._bounds = packed, states, rows, bounds
        self.lengths = [last - first for first, last in bounds]
        self.ends = np.empty(0, np.int64)

    def arrays(self) -> tuple[Record, np.ndarray, Floats, Floats, np.ndarray]:
        """Return what ``TrackerWorker`` takes."""
        arrays = self._packed.work_arrays(self.states, self._rows, self._bounds)
        self.ends = arrays[-1]
        return arrays

    def one(self, at: int) -> tuple[bytes, Floats, Floats]:
        """Return a state with its new differences and answers."""
        rows = self._rows[slice(*self._bounds[at])].astype(float)
        return self.states[at], np.ascontiguousarray(rows[:, :-1]), rows[:, -1].copy()

    def each(self) -> Iterator[tuple[bytes, Floats, Floats]]:
        """Iterate over all of them."""
        return map(self.one, range(len(self.states)))


class Header(NamedTuple):
    """The kind of a state's body, the position of its prior, and its numbers of features and answers."""

    kind: int
    prior: int
    n_features: int
    n_answers: int


def read_header(state: bytes) -> Header:
    """Return what the first ``HEADER_BYTES`` of a state say."""
    if len(state) < HEADER_BYTES:
        raise ValueError(f"a state of {len(state)} bytes is truncated; accepted: what PackedTrackers.learn returned")
    magic, version, kind, prior, n_features, n_answers = _HEADER.unpack_from(state)
    if magic != _MAGIC:
        raise ValueError("these bytes are no state of a tracker; accepted: what PackedTrackers.learn returned")
    if version != _VERSION:
        raise ValueError(f"the state has version {version} of the format; this version of ocelad reads {_VERSION}")
    return Header(kind, prior - 1, n_features, n_answers)


def _unpickle(n_features: int, form: Form, priors: list[SharedPrior]) -> PackedTrackers:
    return PackedTrackers(n_features, form=form, priors=priors)
