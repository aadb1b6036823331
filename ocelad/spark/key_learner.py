"""KeyLearner: what a key learns from the answers of one micro-batch: their order, repeated and late ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ocelad.adaptive.shared_prior import SharedPrior
from ocelad.fleet.packed_trackers import Form, PackedTrackers
from ocelad.fleet.stored_tracker import NO_DIGEST, Ids, StoredTracker, Times, digests, prior_digest


class KeyAnswers(NamedTuple):
    """Answers of one key.

    Attributes
    ----------
    answers : structured array
        Of the type ``answer_type``.
    ids : sequence, or None
        The id of each answer.
    """

    answers: npt.NDArray[np.void]
    ids: Sequence[Any] | None = None


class Learned(NamedTuple):
    """A key after it has learned.

    Attributes
    ----------
    stored : bytes or None
        For the state store; None: all answers came too late, and the key is new.
    tracker : bytes or None
        The state of its tracker.
    n_new, n_skipped : int
        The numbers of answers that were learned, and that were not: repeated or late.
    """

    stored: bytes | None
    tracker: bytes | None
    n_new: int
    n_skipped: int


class KeyLearner:
    """Lets keys learn from answers, each once, in an order that does not depend on how Spark delivers them.

    Parameters
    ----------
    n_features : int
    form : {"exact", "compact"}
    priors : sequence of SharedPrior
        New keys begin with the last one.

    Examples
    --------
    >>> from ocelad.spark.answer_rows import answer_type
    >>> answers = np.zeros(2, answer_type(3))
    >>> answers["u"], answers["y"] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [1, -1]
    >>> learner = KeyLearner(n_features=3)
    >>> first = learner.learn([None], [KeyAnswers(answers, ["a", "b"])])[0]
    >>> again = learner.learn([first.stored], [KeyAnswers(answers[:1], ["a"])])[0]
    >>> first.n_new, again.n_new, again.n_skipped, again.tracker == first.tracker
    (2, 0, 1, True)
    """

    def __init__(self, n_features: int, *, form: Form = "exact", priors: Sequence[SharedPrior] = ()) -> None:
        # Spark runs one task per core: threads within a task would compete for the cores.
        self.packed = PackedTrackers(n_features, form=form, priors=priors, n_threads=1)
        self._digests = [prior_digest(prior) for prior in priors]

    def learn(
        self, stored: Sequence[bytes | None], keys: Sequence[KeyAnswers], watermark: int | None = None
    ) -> list[Learned]:
        """Learn the answers of several keys.

        Parameters
        ----------
        stored : sequence of bytes or None
            The content of the state store for each key; None: a new key.
        keys : sequence of KeyAnswers
        watermark : int or None
            An event time in microseconds. Answers up to it are late: they are not learned. Their ids are forgotten,
            because they would be late if they came again. None: no answer is late, and no id is forgotten.
        """
        before = [self._begin() if data is None else self.read(data) for data in stored]
        chosen = [self._choose(state, key, watermark) for state, key in zip(before, keys, strict=True)]
        learning = [at for at, (answers, _, _) in enumerate(chosen) if len(answers)]
        trackers: list[bytes | None] = [state.tracker or None for state in before]
        if learning:
            blocks = [chosen[at][0] for at in learning]
            answers = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]
            ends = np.cumsum([len(block) for block in blocks])
            U, y = np.ascontiguousarray(answers["u"]), answers["y"].astype(np.float64)
            for at, state in zip(
                learning, self.packed.learn([trackers[at] for at in learning], U, y, ends), strict=True
            ):
                trackers[at] = state
        results = []
        for old, tracker, key, (answers, ids, times) in zip(before, trackers, keys, chosen, strict=True):
            new = None
            if tracker is not None:
                if times is not None and watermark is not None:
                    young = times > watermark
                    ids, times = ids[young], times[young]
                new = old._replace(tracker=tracker, ids=ids, times=times).to_bytes()
            results.append(Learned(new, tracker, len(answers), len(key.answers) - len(answers)))
        return results

    def adopt(self, tracker: bytes) -> bytes:
        """Return the content of the state store for a tracker that was learned before."""
        stored = self.read(tracker)
        self.packed.summary(stored.tracker)  # refuses bytes that are no tracker
        return stored.to_bytes()

    def read(self, data: bytes) -> StoredTracker:
        """Return the state of a key, which must belong to trackers of these settings."""
        return StoredTracker.from_bytes(data).checked(self.packed, self._digests)

    def _begin(self) -> StoredTracker:
        prior = len(self._digests) - 1
        digest = self._digests[prior] if self._digests else NO_DIGEST
        return StoredTracker(b"", self.packed.n_features, self.packed.form, prior, digest)

    def _choose(
        self, state: StoredTracker, key: KeyAnswers, watermark: int | None
    ) -> tuple[npt.NDArray[np.void], Ids, Times | None]:
        """Return the answers to learn from in their order, and the ids that are known afterwards with their times."""
        answers, ids = key
        order = answer_order(answers, ids)
        if watermark is not None:
            order = [at for at in order if answers["order"][at] > watermark]
        if ids is None:
            return answers[order], state.ids, state.times
        found = digests([ids[at] for at in order])
        known = set(state.ids.tolist())
        new = []
        for position, digest in enumerate(found.tolist()):
            if digest not in known:
                known.add(digest)
                new.append(position)
        chosen = answers[[order[position] for position in new]]
        all_ids = np.concatenate([state.ids, found[new]])
        if watermark is None:
            return chosen, all_ids, None
        times = state.times if state.times is not None else np.full(len(state.ids), np.iinfo(np.int64).max)
        return chosen, all_ids, np.concatenate([times, chosen["order"]])

    def report(self, learned: Learned) -> dict[str, Any]:
        """Return what is reported of a key: the columns ``OUTPUT_COLUMNS``."""
        row: dict[str, Any] = {"n_answers": 0, "n_new": learned.n_new, "n_skipped": learned.n_skipped}
        if learned.tracker is None:
            return row | {"drift": None, "n_changes": 0, "last_change": None, "state": None}
        summary = self.packed.summary(learned.tracker)
        changes = summary.changes
        return row | {
            "n_answers": summary.n_answers,
            "drift": float(summary.drift),
            "n_changes": len(changes),
            "last_change": int(changes[-1].round) if changes else None,
            "state": learned.stored,
        }


def answer_order(answers: npt.NDArray[np.void], ids: Sequence[Any] | None) -> list[int]:
    """Return the order in which a key learns: by event time (or arrival), then id, then the answers' own bytes.

    Answers that differ in nothing are the same in any order, so what is learned does not depend on how Spark's shuffle
    orders rows. Arrival is the position of a row in its partition. It depends on how Spark divides the rows of a source
    into partitions, which follows the number of cores, so that only event times or ids promise the same bits after a
    restart. Arrival is kept nevertheless: the content of answers as their order would learn all "different" before all
    "same", and hide changes of the question.
    """
    times, content = answers["order"].tolist(), [answer.tobytes() for answer in answers]
    if ids is None:
        return sorted(range(len(answers)), key=lambda at: (times[at], content[at]))
    return sorted(range(len(answers)), key=lambda at: (times[at], ids[at], content[at]))
