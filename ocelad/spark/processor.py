"""TrackerProcessor: the stateful processor that Spark runs for each key of a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.fleet.packed_trackers import Form
from ocelad.spark.answer_columns import ANSWER, ID, OUTPUT_COLUMNS, field
from ocelad.spark.answer_rows import answer_type
from ocelad.spark.key_learner import KeyAnswers, KeyLearner

if TYPE_CHECKING:
    from pyspark.sql import Row
    from pyspark.sql.types import StructField

#: The name and the schema of the state in Spark's state store: they are the same in all versions.
STATE_NAME, STATE_SCHEMA = "tracker", "state BINARY"


class LearningSettings(NamedTuple):
    """How keys learn; it travels to Spark's workers.

    Attributes
    ----------
    n_features : int
    form : {"exact", "compact"}
    priors : tuple of SharedPrior
    has_ids : bool
    has_watermark : bool
        Whether answers can be too late.
    """

    n_features: int
    form: Form
    priors: tuple[SharedPrior, ...]
    has_ids: bool
    has_watermark: bool = False

    def learner(self) -> KeyLearner:
        """Return a new learner."""
        return KeyLearner(self.n_features, form=self.form, priors=self.priors)


class TrackerProcessor:
    """Learns the answers of a key in a micro-batch, and reports what the key has learned.

    It has the methods of PySpark's ``StatefulProcessor``, and is no subclass, so that it is importable without PySpark.

    Parameters
    ----------
    settings : LearningSettings
    key : tuple of str
        The names of the key columns.
    outputs : tuple of str
        The columns to report, of ``OUTPUT_COLUMNS``.
    ttl_ms : int or None
        Time to live of a key after its last answer, in milliseconds.
    """

    def __init__(
        self, settings: LearningSettings, key: tuple[str, ...], outputs: tuple[str, ...], ttl_ms: int | None
    ) -> None:
        self._settings, self._key, self._outputs, self._ttl_ms = settings, key, outputs, ttl_ms
        self._learner: KeyLearner | None = None

    def init(self, handle: Any) -> None:
        """Declare the state; Spark calls this on the driver, too."""
        self._state = handle.getValueState(STATE_NAME, STATE_SCHEMA, self._ttl_ms)

    @property
    def learner(self) -> KeyLearner:
        """The learner of this process, made when the first key needs it."""
        if self._learner is None:
            self._learner = self._settings.learner()
        return self._learner

    def handleInputRows(self, key: tuple[Any, ...], rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Learn the answers of a key in this micro-batch."""
        from pyspark.sql import Row

        read = [(row[ANSWER], row[ID]) if self._settings.has_ids else (row[ANSWER], None) for row in rows]
        answers = np.frombuffer(b"".join(answer for answer, _ in read), answer_type(self._settings.n_features))
        ids = [name for _, name in read] if self._settings.has_ids else None
        watermark = 1000 * timerValues.getCurrentWatermarkInMs() if self._settings.has_watermark else None
        before = self._state.get()
        stored = None if before is None or before[0] is None else bytes(before[0])
        learned = self.learner.learn([stored], [KeyAnswers(answers, ids)], watermark)[0]
        if learned.n_new:
            self._state.update((learned.stored,))
        report = self.learner.report(learned)
        values = [report[name] for name in self._outputs]
        yield Row(*self._key, *self._outputs)(*key, *values)

    def handleInitialState(self, key: tuple[Any, ...], initialState: Row, timerValues: Any) -> None:
        """Begin with a tracker that was learned before."""
        check_initial_key(key)
        if self._state.exists():
            raise two_states(key)
        self._state.update((self.learner.adopt(bytes(initialState["state"])),))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """No timers are set: Spark itself removes expired state."""
        return iter(())

    def close(self) -> None:
        """Nothing is open."""


def two_states(key: tuple[Any, ...]) -> ValueError:
    """Return the error that a key has two initial states."""
    name = ", ".join(map(repr, key))
    return ValueError(f"initial has two states for the key {name}; accepted: one, as ocelad.spark.latest returns them")


def check_initial_key(key: tuple[Any, ...]) -> None:
    """Refuse an initial state of a key that is null: no answer is learned for it."""
    if None in key:
        raise ValueError(f"initial has a state whose key is null ({', '.join(map(repr, key))}); accepted: a key")


def output_fields(outputs: tuple[str, ...] = OUTPUT_COLUMNS) -> list[StructField]:
    """Return the columns of a report."""
    types = dict(zip(OUTPUT_COLUMNS, ("BIGINT", "BIGINT", "BIGINT", "DOUBLE", "INT", "BIGINT", "BINARY"), strict=True))
    return [field(name, types[name]) for name in outputs]
