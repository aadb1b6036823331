"""Fleet: many trackers, one per key, which learn together."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from threading import RLock
from typing import Any, NamedTuple, Self, get_args, overload
from weakref import finalize

import numpy as np
from scipy.special import expit

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer, dissimilar_label
from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.adaptive.changes import Change
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.estimators.tuples import Points, to_type
from ocelad.fleet.fleet_store import FleetDamaged, FleetStore
from ocelad.fleet.held_states import HeldStates
from ocelad.fleet.keyed_pairs import (
    Key,
    KeyedAnswers,
    check_key,
    read_answers,
    read_keys,
    read_pairs,
    read_rows,
    read_table,
)
from ocelad.fleet.memory_size import parse_memory
from ocelad.fleet.packed_trackers import NO_PRIOR, Form, PackedTrackers, TrackerSummary
from ocelad.fleet.shared_learner import N_SAMPLED_KEYS, SharedLearner
from ocelad.metric import Metric
from ocelad.pairs import subtract

# Keys that learn, or whose metrics are computed, in one call of compiled code.
_MAX_CHUNK, _MAX_ROWS = 4096, 65536
# Answers are divided into calls of at most so many bytes: SQLite limits the size of a value.
_CALL_BYTES = 64_000_000
# The journal is emptied, which writes all states, when it has so many bytes, and this share of those of the states.
_JOURNAL_BYTES, _JOURNAL_SHARE = 64_000_000, 0.125
# Without durable=True, what was learned is saved when so many bytes of states have gone to the disk.
_UNSAVED_BYTES = 1_000_000_000
# The share of the memory for metrics, and the most bytes of it.
_METRICS_SHARE, _METRICS_BYTES = 0.125, 64_000_000


class _Call(NamedTuple):
    """The answers of one call, the first of which is at a position of the stream."""

    first: int
    answers: KeyedAnswers

    @property
    def last(self) -> int:
        return self.first + len(self.answers)


class Fleet:
    """Many trackers, one for each key: a tenant, a user, a site or a topic.

    Each tracker learns by the method "adaptive" from the answers of its key, in the order given; splitting them into
    several calls does not change the result. A new key begins with what other keys have taught, as far as that helps.
    A call that raises an error because of its input changes nothing; one that is interrupted is completed by the next
    call. Several threads may use a fleet.

    Parameters
    ----------
    n_features : int or None
        None: that of the first pairs.
    form : {"exact", "compact"}
        Whether the states have all their bits, or take less space.
    shared : bool or SharedPrior
        Whether new keys begin with a metric that is learned from all keys. A ``SharedPrior``: with this one, which
        stays as it is.
    memory : str or int
        The memory for states, as "500 MB" or a number of bytes. The least recently used ones go to the disk. The
        tracker of a key takes about 100 KB at 25 features after 1000 answers in the exact form.
    path : path or None
        The file in which states are stored. It is created, or continued if it exists. None: a temporary one, if the
        memory is full.
    durable : bool
        Whether everything learned survives a crash and a loss of power as soon as ``learn`` returns. False: ``save``
        and ``close`` write it to the ``path``, and after a crash the file has what was last saved.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> pairs = rng.normal(size=(400, 2, 3))
    >>> keys = np.array(["anna", "ben"] * 200)
    >>> feature = np.where(keys == "anna", 0, 2)  # anna looks at the first feature, ben at the last one
    >>> near = abs(pairs[:, 0] - pairs[:, 1]) < 1
    >>> fleet = Fleet().learn(keys, pairs, near[np.arange(400), feature])
    >>> fleet.keys(), fleet.n_answers
    (['anna', 'ben'], 400)
    >>> [int(fleet.metric(key).matrix.diagonal().argmax()) for key in fleet.keys()]
    [0, 2]
    >>> fleet.probability(["anna", "ben"], [[[0, 0, 0], [0, 0, 3]]] * 2).round() # one pair, as both see it
    array([1., 0.])
    >>> fleet.close()
    """

    def __init__(
        self,
        n_features: int | None = None,
        *,
        form: Form = "exact",
        shared: bool | SharedPrior = True,
        memory: str | int = "1 GB",
        path: str | os.PathLike[str] | None = None,
        durable: bool = False,
    ) -> None:
        self._n_features = None if n_features is None else check_integer(n_features, "n_features", at_least=1)
        self._form: Form = check_choice(form, "form", get_args(Form))
        if not isinstance(shared, SharedPrior):
            check_choice(shared, "shared", (True, False))
        elif n_features is not None and shared.metric.n_features != n_features:
            raise ValueError(f"the prior has {shared.metric.n_features} features; {n_features} are expected")
        self._shared_prior = shared
        n_bytes = parse_memory(memory)
        if check_choice(durable, "durable", (True, False)) and path is None:
            raise ValueError("durable=True needs a path: the file that survives")
        self._n_answers = 0
        self._names: tuple[str, ...] | None = None
        self._dissimilar: float | None = None
        self._packed: PackedTrackers | None = None
        self._learner: SharedLearner | None = None
        self._unfinished: list[_Call] = []
        self._schedule = SharedLearner(PackedTrackers(1))
        self._is_prior_stored = True
        self._metrics: OrderedDict[Key, Metric] = OrderedDict()
        self._metric_bytes = min(int(_METRICS_SHARE * n_bytes), _METRICS_BYTES)
        self._is_durable, self._is_closed = durable, False
        self._lock = RLock()
        store = None if path is None else FleetStore(path, "each call" if durable else "commit")
        try:
            self._states = HeldStates(n_bytes - self._metric_bytes, store)
            self._closing = finalize(self, self._states.close)
            if isinstance(shared, SharedPrior) and self._n_features is None:
                self._n_features = shared.metric.n_features
            if store is not None:
                self._continue(store)
            elif self._n_features is not None:
                self._start(self._n_features)
        except BaseException:
            if store is not None:
                store.close()
            raise

    # Learning.

    def learn(self, keys: Any, pairs: Any, y: Any) -> Self:
        """Let the trackers of keys learn from pairs in the order given.

        Parameters
        ----------
        keys : sequence, array or column of texts or integers of shape (n_pairs,), or one key for all pairs
            The key of each pair. "1" and 1 are different keys.
        pairs : array-like of shape (n_pairs, 2, n_features), or (left, right)
            left and right are tables (pandas, polars, Arrow) of shape (n_pairs, n_features); row i of both is pair i.
        y : array-like of shape (n_pairs,)
            +1 (or True) for same, -1 (or 0 or False) for different. One fleet has either -1 or 0.
        """
        with self._lock:
            self._ready()
            points = read_pairs(pairs, self._n_features, self._names)
            answers = read_answers(keys, points, y, self._form)
            code = self._checked_label_code(y)
            if not len(answers):
                return self
            names = self._names if points.names is None else points.names
            settings = self._n_features, self._names, self._dissimilar
            if self._packed is None:
                self._start(points.n_features)
            has_new_settings = settings != (self._n_features, names, code)
            self._names, self._dissimilar = names, code
            try:
                self._journal(answers, has_new_settings)
            except BaseException:
                if not self._unfinished:
                    _, self._names, self._dissimilar = settings
                    if settings[0] is None:
                        self._n_features = self._packed = self._learner = None
                raise
            self._finish()
        return self

    def learn_table(
        self, table: Any, *, key: str, left: str | Sequence[str], right: str | Sequence[str], same: str
    ) -> Self:
        """Let the trackers of keys learn from the rows of a table; see ``learn``.

        Parameters
        ----------
        table : dataframe
            Of pandas, polars, Arrow or another library that narwhals supports.
        key : str
            The column of keys.
        left, right : sequence of str, or str
            The columns of the features of the two points, in the same order; or one column of vectors each.
        same : str
            The column of answers.

        Examples
        --------
        >>> import polars as pl
        >>> table = pl.DataFrame({"user": ["anna", "ben"], "a": [0.0, 1.0], "b": [2.0, 3.0], "same": [True, False]})
        >>> Fleet().learn_table(table, key="user", left=["a"], right=["b"], same="same").keys()
        ['anna', 'ben']
        """
        columns = read_table(table, key, left, right, same)
        return self.learn(columns.keys, columns.pairs, columns.y)

    def _journal(self, answers: KeyedAnswers, has_new_settings: bool) -> None:
        """Take answers as those to learn from, and write them to the journal if the fleet is durable."""
        first = self._n_answers
        calls = []
        for part in answers.parts(max(1, _CALL_BYTES // (8 * answers.U.shape[1]))):
            calls.append(_Call(first, part))
            first += len(part)
        self._unfinished = calls
        store = self._states.store
        if store is None or not self._is_durable:
            return
        try:
            store.append(
                ((call.first, call.answers.to_bytes()) for call in calls), self._settings() if has_new_settings else {}
            )
        except BaseException:
            # An interruption can arrive after the transaction has been committed.
            if not store.has_answers(self._n_answers):
                self._unfinished = []
            raise

    def _finish(self) -> None:
        """Learn from answers that were not learned from yet."""
        if not self._unfinished:
            return
        while self._unfinished:
            call = self._unfinished[0]
            self._learn_call(call)
            self._n_answers, self._unfinished = call.last, self._unfinished[1:]
        store = self._states.store
        if store is None or store.durability == "temporary":
            return
        if self._is_durable:
            is_due = store.journal_bytes > max(_JOURNAL_BYTES, _JOURNAL_SHARE * self._states.unstored_bytes)
        else:
            is_due = store.uncommitted_bytes > _UNSAVED_BYTES
        if is_due:
            self.save()

    def _learn_call(self, call: _Call) -> None:
        """Learn from a call, in parts between which the shared prior is renewed.

        What has been learned already, before an interruption or a crash, is left out.
        """
        at = call.first
        while at < call.last:
            last = min(call.last, self._next_renewal(at))
            self._learn_part(call, at, last)
            self._teach_prior(call, at, last)
            at = last

    def _learn_part(self, call: _Call, first: int, last: int) -> None:
        """Let the trackers of keys learn from the answers at some positions of the stream."""
        assert self._packed is not None
        self._store_prior()
        answers, prior = call.answers, self._prior_at(first)
        groups = answers.rows.group(first - call.first, last - call.first)
        for chunk in groups.chunks(self._n_keys_at_once(), _MAX_ROWS):
            keys = [answers.rows.keys[code] for code in chunk.codes.tolist()]
            held = self._states.get(keys)
            wanted = [at for at, state in enumerate(held) if state is None or state.through < last]
            if not wanted:
                continue
            part = chunk.select(wanted)
            before = [None if (old := held[at]) is None else old.state for at in wanted]
            rows = part.order
            learned = self._packed.learn(before, answers.U[rows], answers.y[rows], part.ends, [prior] * len(wanted))
            firsts = rows[np.append(0, part.ends[:-1])] + call.first
            for at, first_answer, state in zip(wanted, firsts.tolist(), learned, strict=True):
                old = held[at]
                self._states.put(keys[at], first_answer if old is None else old.serial, last, state)
                self._forget_metric(keys[at])
            self._states.evict()

    def _teach_prior(self, call: _Call, first: int, last: int) -> None:
        """Let the shared prior learn from the answers at some positions of the stream."""
        learner = self._learner
        if learner is None or learner.n_answers >= last:
            return
        rows = slice(first - call.first, last - call.first)
        is_due = last == self._next_renewal(first)
        sample: Sequence[bytes] = ()
        if is_due:
            sample = self._states.since(self._last_renewal(first), N_SAMPLED_KEYS)
        if is_due:
            self._is_prior_stored = False
        learner.learn(call.answers.U[rows], call.answers.y[rows], sample)
        self._store_prior()

    def _store_prior(self) -> None:
        """Write a renewed prior before later states: when the journal is replayed, the sampled states are the same."""
        store = self._states.store
        if self._is_prior_stored or self._learner is None:
            return
        if store is not None and store.durability != "temporary":
            store.write_meta({"shared": self._learner.to_bytes()})
        self._is_prior_stored = True

    # The schedule of the shared prior, by positions of the stream.

    def _next_renewal(self, position: int) -> int:
        """Return the position of the next renewal of the shared prior, after ``position``."""
        if self._learner is None:
            return position + 2**62
        self._schedule.n_answers = position
        return position + self._schedule.n_until_renewal

    def _renewals(self, position: int) -> list[int]:
        """Return the positions of the renewals up to ``position``."""
        renewals, at = [], 0
        while self._learner is not None and (at := self._next_renewal(at)) <= position:
            renewals.append(at)
        return renewals

    def _last_renewal(self, position: int) -> int:
        return max(self._renewals(position), default=0)

    def _prior_at(self, position: int) -> int:
        """Return the prior with which a key begins whose first answer is at a position."""
        if self._learner is not None:
            return len(self._renewals(position)) - 1
        return 0 if isinstance(self._shared_prior, SharedPrior) else NO_PRIOR

    # Results.

    def probability(self, keys: Any, pairs: Any) -> Floats:
        """Return the probability of "same" for each pair, as the tracker of its key predicts it.

        An unknown key has the metric with which a new key would begin: the current shared prior. If there is none, that
        is a multiple of the Euclidean distance. The result is float32 if the pairs are float32, otherwise float64.

        Parameters
        ----------
        keys, pairs
            As in ``learn``.
        """
        return self._of_pairs(keys, pairs, lambda metric, U: expit(metric.threshold - metric.squared_length(U)))

    def distance(self, keys: Any, pairs: Any) -> Floats:
        """Return the distance of the points of each pair by the metric of its key; see ``probability``."""
        return self._of_pairs(keys, pairs, lambda metric, U: np.sqrt(metric.squared_length(U)))

    def embed(self, keys: Any, X: Any) -> Floats:
        """Map points to a space where the Euclidean distance equals the distance by the metric of the key.

        Each key has a space of its own. All have ``n_features`` columns, the largest eigenvalue first; the last columns
        of a metric of lower rank are 0.

        Parameters
        ----------
        keys
            As in ``learn``, one for each row.
        X : array-like or table of shape (n_rows, n_features)
        """
        with self._lock:
            self._ready()
            rows, dtype = read_rows(X, self._n_features, self._names)
            result = np.zeros(rows.shape)
            for key_rows, metric in self._by_key(keys, len(rows), rows.shape[1], "rows"):
                embedded = metric.embed(rows[key_rows])
                result[key_rows, : embedded.shape[1]] = embedded
            return to_type(result, dtype)

    def metric(self, key: Key) -> Metric:
        """Return the metric of a key; of an unknown one as in ``probability``."""
        with self._lock:
            self._ready()
            key = check_key(key)
            if self._n_features is None:
                raise ValueError("this fleet has learned nothing, and it was created without n_features; set it")
            return self._metrics_of([key], self._n_features)[0]

    def state(self, key: Key) -> bytes:
        """Return everything that the tracker of a key has learned, as bytes; see ``PackedTrackers``."""
        with self._lock:
            self._ready()
            held = self._states.get([check_key(key)])[0]
            self._states.evict()
            if held is None:
                raise KeyError(f"this fleet has no key {key!r}; accepted: one of the {len(self)} in keys()")
            return held.state

    def tracker(self, key: Key) -> AdaptiveTracker:
        """Return a tracker of its own that continues from what a key has learned; the fleet does not follow it."""
        with self._lock:
            state = self.state(key)
            assert self._packed is not None
            return self._packed.tracker(state)

    def summary(self, key: Key) -> TrackerSummary:
        """Return the number of answers of a key, the drift of its metric and the changes of its question."""
        with self._lock:
            state = self.state(key)
            assert self._packed is not None
            return self._packed.summary(state)

    @overload
    def changes(self, key: None = None) -> dict[Key, list[Change]]: ...

    @overload
    def changes(self, key: Key) -> list[Change]: ...

    def changes(self, key: Key | None = None) -> dict[Key, list[Change]] | list[Change]:
        """Return the detected changes of the question.

        Parameters
        ----------
        key : str, int or None
            None: of all keys, as a dict that has the keys with changes. It reads all states.
        """
        if key is not None:
            return list(self.summary(key).changes)
        with self._lock:
            self._ready()
            packed = self._packed
            found: dict[Key, list[Change]] = {}
            for one, state in self._states.items():
                assert packed is not None
                if changes := packed.summary(state).changes:
                    found[one] = list(changes)
            return found

    @property
    def n_features(self) -> int | None:
        """The number of features of a point; None before the first pair, if it was not given."""
        return self._n_features

    @property
    def n_answers(self) -> int:
        """The number of answers that all keys have given."""
        with self._lock:
            self._ready()
            return self._n_answers

    @property
    def prior(self) -> SharedPrior | None:
        """The shared prior with which a new key would begin now; None if there is none yet."""
        with self._lock:
            self._ready()
            return self.priors[-1] if self.priors else None

    @property
    def priors(self) -> tuple[SharedPrior, ...]:
        """All shared priors, the oldest first; ``summary(key).prior`` is the position of the one a key began with."""
        with self._lock:
            self._ready()
            return () if self._packed is None else tuple(self._packed.priors)

    def keys(self) -> list[Key]:
        """Return the keys in the order of their first answers."""
        with self._lock:
            self._ready()
            return self._states.keys()

    def __len__(self) -> int:
        with self._lock:
            self._ready()
            return len(self._states)

    def __contains__(self, key: object) -> bool:
        with self._lock:
            self._ready()
            try:
                return check_key(key) in self._states
            except (TypeError, ValueError):
                return False

    def __iter__(self) -> Iterator[Key]:
        return iter(self.keys())

    def __repr__(self) -> str:
        if self._is_closed:
            return "Fleet(closed)"
        with self._lock:
            return f"Fleet(n_features={self._n_features}, n_keys={len(self._states)}, n_answers={self._n_answers})"

    def _of_pairs(self, keys: Any, pairs: Any, measure: Callable[[Metric, Floats], Floats]) -> Floats:
        """Return a number for each pair, from the metric of its key and the differences."""
        with self._lock:
            self._ready()
            points: Points = read_pairs(pairs, self._n_features, self._names)
            U = subtract(*points.parts)
            result = np.empty(len(U))
            for rows, metric in self._by_key(keys, len(U), points.n_features, "pairs"):
                result[rows] = measure(metric, U[rows])
            return to_type(result, points.dtype)

    def _by_key(self, keys: Any, count: int, n_features: int, rows_name: str) -> Iterator[tuple[Any, Metric]]:
        """Return the rows of each key, and its metric."""
        keyed = read_keys(keys, count, rows_name)
        for chunk in keyed.group().chunks(self._n_keys_at_once(), max(1, count)):
            metrics = self._metrics_of([keyed.keys[code] for code in chunk.codes.tolist()], n_features)
            begin = 0
            for end, metric in zip(chunk.ends.tolist(), metrics, strict=True):
                yield chunk.order[begin:end], metric
                begin = end

    def _metrics_of(self, keys: Sequence[Key], n_features: int) -> list[Metric]:
        """Return the metrics of keys; those that are not in the cache are computed together."""
        found: dict[Key, Metric] = {}
        for key in keys:
            if (metric := self._metrics.get(key)) is not None:
                self._metrics.move_to_end(key)
                found[key] = metric
        absent = [key for key in keys if key not in found]
        packed = self._packed if self._packed is not None else PackedTrackers(n_features)
        if absent:
            known = [(key, held.state) for key, held in zip(absent, self._states.get(absent), strict=True) if held]
            computed = packed.metrics([state for _, state in known]) if known else []
            for (key, _), metric in zip(known, computed, strict=True):
                found[key] = metric
                self._keep_metric(key, metric)
            self._states.evict()
            if len(known) < len(absent):
                of_new_key = packed.metrics([None], [len(packed.priors) - 1])[0]
                for key in absent:
                    found.setdefault(key, of_new_key)
        return [found[key] for key in keys]

    def _keep_metric(self, key: Key, metric: Metric) -> None:
        """Keep a metric for later calls, in place of those that were not used for the longest time."""
        self._metrics[key] = metric
        n_bytes = 8 * metric.n_features**2 + 1000
        while len(self._metrics) * n_bytes > self._metric_bytes:
            self._metrics.popitem(last=False)

    def _forget_metric(self, key: Key) -> None:
        self._metrics.pop(key, None)

    def _n_keys_at_once(self) -> int:
        """Return the number of keys whose states may be in memory beyond the bound."""
        return max(16, min(_MAX_CHUNK, self._states.max_bytes // (8 * self._states.largest)))

    # Saving and closing.

    def save(self) -> None:
        """Write everything learned to the path. A durable fleet does it from time to time, to open fast."""
        with self._lock:
            self._ready()
            store = self._states.store
            if store is None or store.durability == "temporary":
                raise ValueError("this fleet has no path to save to; create it with path=...")
            with self._states.storing_all(store):
                store.write_meta({**self._settings(), "n_answers": b"%d" % self._n_answers})
                if self._learner is not None:
                    store.write_meta({"shared": self._learner.to_bytes()})

    def close(self) -> None:
        """Save what was learned, if there is a path, and close the file; a temporary one is removed."""
        with self._lock:
            if self._is_closed:
                return
            store = self._states.store
            try:
                if store is not None and store.durability != "temporary" and store.process == os.getpid():
                    self.save()
            finally:
                self._is_closed = True
                self._closing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError("a Fleet cannot be pickled or copied; open its path in the other process after close()")

    def _ready(self) -> None:
        """Refuse a fleet that is closed, or open in another process; complete a call that was interrupted."""
        if self._is_closed:
            raise ValueError("this fleet is closed; accepted: a new Fleet, with the same path to continue")
        if self._states.store is not None and self._states.store.process != os.getpid():
            raise ValueError("this fleet was opened by another process; accepted: a Fleet that this process opens")
        self._finish()

    def _start(self, n_features: int) -> None:
        """Create the trackers, when the number of features is known."""
        self._n_features = n_features
        priors = [self._shared_prior] if isinstance(self._shared_prior, SharedPrior) else []
        self._packed = PackedTrackers(n_features, form=self._form, priors=priors)
        self._learner = SharedLearner(self._packed) if self._shared_prior is True else None

    def _checked_label_code(self, y: Any) -> float | None:
        """Return what stands for "different" after these labels; refuse 0 after -1, and the reverse."""
        code = dissimilar_label(y)
        if code is not None and self._dissimilar not in (None, code):
            raise ValueError(
                f"y holds {code:g} for different pairs, but earlier labels held {self._dissimilar:g}; accepted: one of "
                "the two, or booleans"
            )
        return self._dissimilar if code is None else code

    # The file.

    def _settings(self) -> dict[str, bytes]:
        """Return the settings as they are written to the file."""
        settings = {
            "n_features": self._n_features,
            "form": self._form,
            "shared": self._kind_of_prior(),
            "feature_names": self._names,
            "dissimilar_label": self._dissimilar,
        }
        return {"settings": json.dumps(settings).encode()}

    def _kind_of_prior(self) -> str:
        """Return "learned" or "none", or a text that stands for the fixed prior."""
        if not isinstance(self._shared_prior, SharedPrior):
            return "learned" if self._shared_prior else "none"
        metric, log_weight = self._shared_prior.metric, self._shared_prior.log_weight
        values = [metric.threshold, metric.round, log_weight]
        arrays = {name: np.asarray(array).tolist() for name, array in metric.arrays().items()}
        return "fixed: " + sha256(json.dumps([values, arrays]).encode()).hexdigest()

    def _continue(self, store: FleetStore) -> None:
        """Continue from the file: its settings, and the answers in its journal."""
        settings = store.read_settings()
        if settings is None:
            if len(self._states) or next(store.journal(), None) is not None:
                raise FleetDamaged(f"{store.name} is damaged: it has no settings; accepted: a backup of the file")
            # A fleet that nobody has closed must not take the place of one with other settings.
            with store.checkpoint():
                store.write_meta(self._settings())
            settings = json.loads(self._settings()["settings"])
        self._check_settings(settings, store.name)
        n_features = settings["n_features"] or self._n_features
        if n_features is None:
            return
        self._start(n_features)
        assert self._packed is not None
        self._names = None if settings["feature_names"] is None else tuple(settings["feature_names"])
        self._dissimilar, self._n_answers = settings["dissimilar_label"], int(store.read_meta("n_answers") or 0)
        if self._learner is not None and (shared := store.read_meta("shared")) is not None:
            self._learner = SharedLearner.from_bytes(shared, self._packed)
        for first, answers in store.journal():
            if first != self._n_answers:
                raise FleetDamaged(
                    f"{store.name} is damaged: the answers from {self._n_answers} to {first} are missing; accepted: a "
                    "backup of the file"
                )
            call = _Call(first, KeyedAnswers.from_bytes(answers))
            self._learn_call(call)
            self._n_answers = call.last

    def _check_settings(self, settings: dict[str, Any], name: str) -> None:
        """Refuse a file of a fleet with other settings than those asked for."""
        n, of_file = self._n_features, settings["n_features"]
        if n is not None and of_file is not None and n != of_file:
            raise ValueError(
                f"{name} has a fleet of {of_file} features; got n_features={n}; accepted: {of_file}, or None"
            )
        if settings["form"] != self._form:
            raise ValueError(
                f"{name} has a fleet of the form {settings['form']!r}; got form={self._form!r}; accepted: the same form"
            )
        if settings["shared"] != self._kind_of_prior():
            words = {"learned": "shared=True", "none": "shared=False"}
            raise ValueError(
                f"{name} has a fleet with {words.get(settings['shared'], 'another prior as shared')}; accepted: the "
                "same prior"
            )
