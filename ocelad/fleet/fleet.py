"""Fleet: many trackers, one per key, which learn together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple, Self, get_args, overload
from warnings import warn
from weakref import finalize

import numpy as np
from scipy.special import expit

from ocelad._typing import Floats
from ocelad._validation import check_choice, check_integer, dissimilar_label
from ocelad.adaptive.adaptive_tracker import AdaptiveTracker
from ocelad.adaptive.changes import Change
from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.estimators.tuples import to_type
from ocelad.fleet.fleet_settings import FleetSettings, check_note, kind_of_prior, prior_from_bytes, prior_to_bytes
from ocelad.fleet.fleet_store import FleetDamaged, FleetStore, read_stored
from ocelad.fleet.held_states import HeldStates
from ocelad.fleet.key_metrics import KeyMetrics
from ocelad.fleet.key_sizes import KeySize, count_answers
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
from ocelad.fleet.packed_trackers import HEADER_BYTES, Form, PackedTrackers, TrackerSummary
from ocelad.fleet.shared_learner import SharedLearner
from ocelad.fleet.stream_learner import Call, StreamLearner
from ocelad.io.dataframes import check_feature_names
from ocelad.metric import Metric
from ocelad.pairs import subtract

# The most bytes of one call, into which answers are split: SQLite limits the size of a value.
_CALL_BYTES = 64_000_000
# The journal is emptied, which writes all states, above this size in bytes and this share of the size of the states.
_JOURNAL_BYTES, _JOURNAL_SHARE = 64_000_000, 0.125
# Without durable=True, what was learned is saved when more bytes of states than these were written to the disk.
_UNSAVED_BYTES = 1_000_000_000
# The share of the memory for metrics, and the most bytes of it.
_METRICS_SHARE, _METRICS_BYTES = 0.125, 64_000_000


class _PendingCalls(NamedTuple):
    """Answers that were accepted and are not learned from yet, and what the fleet becomes by them."""

    settings: FleetSettings
    learner: StreamLearner
    calls: tuple[Call, ...]
    note: str


class Fleet:
    """Many trackers, one for each key: a tenant, a user, a site or a topic.

    Each tracker learns by the method "adaptive" from the answers of its key, in the order given. In the exact form,
    splitting them into several calls gives the same bits; the compact form rounds after each call. A new key begins
    with what other keys have taught, as far as that helps. A call that raises an error because of its input changes
    nothing; one that is interrupted is completed by the next call. Several threads may use a fleet.

    On a full disk, ``learn`` of a durable fleet raises OSError if it cannot store the answers; after it, ``n_answers``
    and ``note`` say what is stored. Everything else that cannot be written stays in memory, with a RuntimeWarning, and
    is written by a later call.

    Parameters
    ----------
    n_features : int or None
        None: that of the first pairs.
    form : {"exact", "compact"}
        Whether the states have all their bits, or take a half to a quarter of the space; see ``PackedTrackers``.
    shared : bool or SharedPrior
        Whether new keys begin with a metric that is learned from all keys. A ``SharedPrior``: with this one, which
        stays as it is.
    memory : str or int
        The memory for states, as "500 MB" or a number of bytes. The least recently used ones go to the disk. At 25
        features in the exact form, the tracker of a key takes 208 bytes for each of 64 answers, then about 50 KB.
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
        if n_features is not None:
            n_features = check_integer(n_features, "n_features", at_least=1)
        check_choice(form, "form", get_args(Form))
        if not isinstance(shared, SharedPrior):
            check_choice(shared, "shared", (True, False))
        elif n_features not in (None, shared.metric.n_features):
            raise ValueError(f"the prior has {shared.metric.n_features} features; {n_features} are expected")
        else:
            n_features = shared.metric.n_features
        n_bytes = parse_memory(memory)
        if check_choice(durable, "durable", (True, False)) and path is None:
            raise ValueError("durable=True needs a path: the file that survives")
        self._settings = FleetSettings(n_features, form, kind_of_prior(shared))
        self._shared_prior, self._is_durable, self._is_closed = shared, durable, False
        if n_features is not None:
            self._new_packed(n_features)  # a refused form must not leave a file
        self._n_answers = self._n_saved = 0
        self._note = ""
        self._learner: StreamLearner | None = None
        self._pending: _PendingCalls | None = None
        self._lock = RLock()
        store = None if path is None else FleetStore(path, "each call" if durable else "commit")
        try:
            metric_bytes = min(int(_METRICS_SHARE * n_bytes), _METRICS_BYTES)
            self._states = HeldStates(n_bytes - metric_bytes, store)
            self._metrics = KeyMetrics(self._states, metric_bytes)
            self._closing = finalize(self, _close_dropped, self._states)
            if store is not None:
                self._continue(store)
            elif n_features is not None:
                self._learner = self._new_learner(n_features)
        except BaseException:
            if store is not None:
                store.close()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, memory: str | int = "1 GB", durable: bool = False) -> Self:
        """Continue the fleet in an existing file, with the form and the prior that it has.

        Parameters
        ----------
        path : path
        memory, durable
            As in ``Fleet``.
        """
        data = read_stored(path, "settings")
        if data is None:  # it was created, and its process ended before anything else
            return cls(memory=memory, path=path, durable=durable)
        settings = FleetSettings.from_json(data)
        shared: bool | SharedPrior = settings.shared == "learned"
        if settings.has_fixed_prior:
            prior = read_stored(path, "prior")
            if prior is None:
                raise FleetDamaged(f"{str(path)!r} is damaged: it has no prior; accepted: a backup of the file")
            shared = prior_from_bytes(prior)
        return cls(form=settings.form, shared=shared, memory=memory, path=path, durable=durable)

    # Learning.

    def learn(self, keys: Any, pairs: Any, y: Any, *, note: str = "") -> Self:
        """Let the trackers of keys learn from pairs in the order given.

        Parameters
        ----------
        keys : sequence, array or column of texts or integers of shape (n_pairs,), or one key for all pairs
            The key of each pair. "1" and 1 are different keys.
        pairs : array-like of shape (n_pairs, 2, n_features), or (left, right)
            left and right are tables (pandas, polars, Arrow) of shape (n_pairs, n_features); row i of both is pair i.
        y : array-like of shape (n_pairs,)
            +1 (or True) for same, -1 (or 0 or False) for different. One fleet has either -1 or 0.
        note : str
            What to remember with these answers, such as their position in a stream. The file never has the answers
            without the note, or the note without the answers; the attribute ``note`` is that of the last call.
        """
        return self._learn(keys, pairs, y, note)

    def _learn(self, keys: Any, pairs: Any, y: Any, note: str, names: tuple[str, ...] | None = None) -> Self:
        """Learn from answers; ``names`` are those of the features if the pairs do not have them."""
        with self._lock:
            self._ready()
            note, settings = check_note(note), self._settings
            points = read_pairs(pairs, settings.n_features, settings.feature_names)
            if names is not None:
                check_feature_names(names, settings.feature_names, "the table")
                points = points._replace(names=names)
            answers = read_answers(keys, points, y, settings.form)
            label = self._checked_label(y)
            if not len(answers):
                return self
            settings = settings._replace(
                n_features=points.n_features,
                feature_names=points.names if settings.feature_names is None else settings.feature_names,
                dissimilar_label=label,
            )
            learner = self._new_learner(points.n_features) if self._learner is None else self._learner
            self._pending = _PendingCalls(settings, learner, tuple(self._calls(answers)), note)
            self._write_journal(self._pending)
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
            The columns of the features of the two points, in the same order; or one column of vectors each. The names
            of the left columns are those of the features, which later tables must have.
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
        return self._learn(columns.keys, columns.pairs, columns.y, "", columns.names)

    def _calls(self, answers: KeyedAnswers) -> Iterator[Call]:
        """Return answers with their positions in the stream, in parts that SQLite can store."""
        first = self._n_answers
        for part in answers.parts(max(1, _CALL_BYTES // answers.max_row_bytes)):
            yield Call(first, part)
            first += len(part)

    def _write_journal(self, pending: _PendingCalls) -> None:
        """Write answers to the journal if the fleet is durable, and the settings if they are new."""
        if not self._is_durable:
            return
        assert self._states.store is not None
        meta = {} if pending.settings == self._settings else {"settings": pending.settings.to_json()}
        meta |= {} if pending.note == self._note else {"note": pending.note.encode()}
        self._states.store.append(((call.first, call.answers.to_bytes()) for call in pending.calls), meta)

    def _finish(self) -> None:
        """Learn from answers that were accepted and not learned from yet."""
        pending, store = self._pending, self._states.file
        if pending is None:
            return
        if self._is_durable and store is not None and not store.has_answers(self._n_answers):
            self._pending = None  # writing the journal failed, and the caller knows it
            return
        self._settings, self._learner, self._note = pending.settings, pending.learner, pending.note
        for call in pending.calls:
            if call.first >= self._n_answers:
                self._metrics.forget(call.answers.rows.keys)
                self._learner.learn(call)
                self._n_answers = call.last
        self._pending = None
        if store is None:
            return
        if self._is_durable:
            is_due = store.journal_bytes > max(_JOURNAL_BYTES, _JOURNAL_SHARE * self._states.unstored_bytes)
        else:
            is_due = store.uncommitted_bytes > _UNSAVED_BYTES
        if is_due:
            try:
                self.save()
            except OSError as error:  # the answers are learned, and the journal of a durable fleet has them
                self._states.postpone(error)

    def _checked_label(self, y: Any) -> float | None:
        """Return what stands for "different" after these labels; refuse 0 after -1, and the reverse."""
        label, known = dissimilar_label(y), self._settings.dissimilar_label
        if label is not None and known not in (None, label):
            raise ValueError(
                f"y holds {label:g} for different pairs, but earlier labels held {known:g}; accepted: one of the two, "
                "or booleans"
            )
        return known if label is None else label

    # Results.

    def probability(self, keys: Any, pairs: Any) -> Floats:
        """Return the probability of "same" for each pair, as the tracker of its key predicts it.

        An unknown key is measured by the current shared prior, if that has predicted the first answers of most new keys
        better than none would have; otherwise by a multiple of the Euclidean distance. The result is float32 if the
        pairs are float32, otherwise float64.

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
            rows, dtype = read_rows(X, self._settings.n_features, self._settings.feature_names)
            keyed = read_keys(keys, len(rows), "rows")
            result = np.zeros(rows.shape)
            for key_rows, metric in self._metrics.by_key(keyed, self._packed(rows.shape[1])):
                embedded = metric.embed(rows[key_rows])
                result[key_rows, : embedded.shape[1]] = embedded
            return to_type(result, dtype)

    def metric(self, key: Key) -> Metric:
        """Return the metric of a key; of an unknown one as in ``probability``."""
        with self._lock:
            self._ready()
            key = check_key(key)
            if self.n_features is None:
                raise ValueError("this fleet has learned nothing, and it was created without n_features; set it")
            return self._metrics.of([key], self._packed(self.n_features))[0]

    def state(self, key: Key) -> bytes:
        """Return everything that the tracker of a key has learned, as bytes; see ``PackedTrackers``."""
        return self._known(key)[1]

    def tracker(self, key: Key) -> AdaptiveTracker:
        """Return a tracker of its own that continues from what a key has learned; the fleet does not follow it."""
        packed, state = self._known(key)
        return packed.tracker(state)

    def summary(self, key: Key) -> TrackerSummary:
        """Return the number of answers of a key, the drift of its metric and the changes of its question."""
        packed, state = self._known(key)
        return packed.summary(state)

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
            found: dict[Key, list[Change]] = {}
            if self._learner is not None:
                for one, state in self._states.items():
                    if changes := self._learner.packed.summary(state).changes:
                        found[one] = list(changes)
            return found

    def key_sizes(self) -> dict[Key, KeySize]:
        """Return the number of answers of each key, and the bytes of its state, in the order of first answers.

        Unlike ``summary``, it computes nothing and reads only the beginnings of states.
        """
        with self._lock:
            self._ready()
            heads = self._states.heads(HEADER_BYTES)
            return {head.key: KeySize(count_answers(head.head), head.n_bytes) for head in heads}

    @property
    def settings(self) -> FleetSettings:
        """The form, the kind of prior and the features of the fleet."""
        return self._settings

    @property
    def note(self) -> str:
        """The note of the last call of ``learn`` with answers; empty if it had none."""
        with self._lock:
            self._ready()
            return self._note

    @property
    def n_features(self) -> int | None:
        """The number of features of a point; None before the first pair, if it was not given."""
        return self._settings.n_features

    @property
    def form(self) -> Form:
        """The form of the states: "exact" or "compact"."""
        return self._settings.form

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
            priors = self.priors
            return priors[-1] if priors else None

    @property
    def priors(self) -> tuple[SharedPrior, ...]:
        """All shared priors, the oldest first; ``summary(key).prior`` is the position of the one a key began with."""
        with self._lock:
            self._ready()
            return () if self._learner is None else tuple(self._learner.packed.priors)

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
            return f"Fleet(n_features={self.n_features}, n_keys={len(self._states)}, n_answers={self._n_answers})"

    def _of_pairs(self, keys: Any, pairs: Any, measure: Callable[[Metric, Floats], Floats]) -> Floats:
        """Return a number for each pair, from the metric of its key and the differences."""
        with self._lock:
            self._ready()
            points = read_pairs(pairs, self._settings.n_features, self._settings.feature_names)
            keyed = read_keys(keys, points.n_tuples)
            U = subtract(*points.parts)
            result = np.empty(len(U))
            for rows, metric in self._metrics.by_key(keyed, self._packed(points.n_features)):
                result[rows] = measure(metric, U[rows])
            return to_type(result, points.dtype)

    def _known(self, key: Key) -> tuple[PackedTrackers, bytes]:
        """Return the state of a key that has answers, and what reads it."""
        with self._lock:
            self._ready()
            held = self._states.get([check_key(key)])[0]
            self._states.evict()
            if held is None or self._learner is None:
                raise KeyError(f"this fleet has no key {key!r}; accepted: one of the {len(self)} in keys()")
            return self._learner.packed, held.state

    def _packed(self, n_features: int) -> PackedTrackers:
        """Return the trackers; new ones if the fleet has not learned."""
        return self._new_packed(n_features) if self._learner is None else self._learner.packed

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other thread use the fleet in a ``with`` block: several results are then of one moment."""
        with self._lock:
            self._ready()
            yield

    # Saving and closing.

    def save(self) -> None:
        """Write everything learned to the path. A durable fleet does it from time to time, to open fast."""
        with self._lock:
            self._ready()
            store = self._states.file
            if store is None:
                raise ValueError("this fleet has no path to save to; create it with path=...")
            with self._states.storing_all(store):
                store.write_meta(self._meta())
            self._n_saved = self._n_answers

    def _meta(self) -> dict[str, bytes]:
        """Return everything that the file has beside the states and the journal."""
        meta = {
            "settings": self._settings.to_json(),
            "n_answers": b"%d" % self._n_answers,
            "note": self._note.encode(),
        }
        if self._learner is not None and self._learner.shared is not None:
            meta["shared"] = self._learner.shared.to_bytes()
        if isinstance(self._shared_prior, SharedPrior):
            meta["prior"] = prior_to_bytes(self._shared_prior)
        return meta

    def close(self) -> None:
        """Save what was learned, if there is a path, and close the file; a temporary one is removed.

        If saving fails or is interrupted, the fleet stays open, and a later ``close`` tries again. A durable fleet is
        closed even on a full disk: its file has all answers.
        """
        with self._lock:
            if self._is_closed:
                return
            store = self._states.file
            is_saved = self._pending is None and self._n_saved == self._n_answers  # reading changes no file
            if store is not None and store.process == os.getpid() and not is_saved:
                try:
                    self.save()
                except OSError as error:
                    if store.is_broken:  # what was learned is lost already
                        self._close()
                    if not self._is_durable:
                        raise
                    message = f"{error}. Nothing is lost: the next opening learns from the answers in the journal"
                    warn(message, RuntimeWarning, stacklevel=2)
            self._close()

    def _close(self) -> None:
        self._is_closed = True
        self._closing.detach()
        self._states.close()

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
        if self._states.store is not None:
            self._states.store.check_intact()
        self._finish()

    def _new_packed(self, n_features: int) -> PackedTrackers:
        priors = [self._shared_prior] if isinstance(self._shared_prior, SharedPrior) else []
        return PackedTrackers(n_features, form=self._settings.form, priors=priors)

    def _new_learner(self, n_features: int) -> StreamLearner:
        packed = self._new_packed(n_features)
        return StreamLearner(packed, self._states, SharedLearner(packed) if self._shared_prior is True else None)

    def _continue(self, store: FleetStore) -> None:
        """Continue from the file: its settings, and the answers in its journal."""
        data = store.read_meta("settings")
        of_file = None if data is None else FleetSettings.from_json(data)
        if of_file is not None:
            self._settings.check_file(of_file, store.name)
            self._settings = of_file._replace(n_features=of_file.n_features or self.n_features)
        is_new = of_file is None or of_file.n_features is None
        if is_new and (len(self._states) or next(store.journal(), None) is not None):
            raise _damaged(store, "settings" if of_file is None else "number of features")
        if self._settings != of_file:
            # The journal needs them; and a fleet that was never closed must not be replaced by one with others.
            with store.checkpoint():
                store.write_meta(self._meta())
        if self.n_features is None:
            return
        self._learner = self._new_learner(self.n_features)
        self._n_answers = self._n_saved = int(_stored(store, "n_answers"))
        self._note = _stored(store, "note").decode()
        if self._learner.shared is not None:
            shared = store.read_meta("shared") if self._n_answers == 0 else _stored(store, "shared")
            if shared is not None:
                self._learner.shared = SharedLearner.from_bytes(shared, self._learner.packed)
        for first, answers in store.journal():
            if first != self._n_answers:
                raise FleetDamaged(
                    f"{store.name} is damaged: the answers from {self._n_answers} to {first} are missing; accepted: a "
                    "backup of the file"
                )
            call = Call(first, KeyedAnswers.from_bytes(answers))
            self._learner.learn(call)
            self._n_answers = call.last


def _stored(store: FleetStore, name: str) -> bytes:
    """Return a named value that the file of every fleet has."""
    value = store.read_meta(name)
    if value is None:
        raise _damaged(store, name)
    return value


def _damaged(store: FleetStore, name: str) -> FleetDamaged:
    return FleetDamaged(f"{store.name} is damaged: it has no {name}; accepted: a backup of the file")


def _close_dropped(states: HeldStates) -> None:
    """Close the states of a fleet that was not closed; warn if that loses what it has learned."""
    name = states.unsaved_file
    states.close()
    if name is not None:
        message = (
            f"a Fleet with path={name} was dropped without close(): what it learned since it was last saved is lost"
        )
        warn(message, ResourceWarning, stacklevel=2)
