"""RecordLinker: learns from answers which records of two tables, or of one, describe the same entity."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from sklearn.base import clone

from ocelad._typing import Arrays, Floats, Metadata
from ocelad._validation import check_integer, check_number
from ocelad.ensemble.state_reader import add_prefix
from ocelad.estimators import MetricTracker
from ocelad.estimators.saveable import strip_prefix
from ocelad.io import state_files
from ocelad.records.blocking import MAX_BLOCK, Rule, candidate_pairs, default_rules, parse_rules
from ocelad.records.calibration import fit_shift
from ocelad.records.column_kinds import Kind
from ocelad.records.grouping import group_records
from ocelad.records.one_to_one import match_one_to_one
from ocelad.records.question_choice import N_START, Source, choose_at_start, choose_by_odds
from ocelad.records.record_comparison import RecordComparison
from ocelad.records.record_table import read_table

# Pairs among which the next one is chosen: all pairs of a random sample of left records.
_POOL = 20_000
# Candidate pairs that the tracker knows before the first answer.
_N_KNOWN = 2000
# Pairs whose probabilities are computed at once.
_BATCH = 100_000
# Pairs with a smaller probability are never links.
_MIN_PROBABILITY = 0.02
_ANSWER_CODES = {True: 1, False: 0, None: -1}


class NoQuestionsLeft(LookupError):
    """Every candidate pair has been answered or skipped."""


class Question(NamedTuple):
    """A pair of records to ask about: rows of the left and of the right table, and why.

    ``probability`` is that of "same" by the tracker, with which the pair was chosen.
    """

    left: int
    right: int
    probability: float
    source: Source


class Answer(NamedTuple):
    """An answer about a pair of rows; ``same`` is None for a skipped pair."""

    left: int
    right: int
    same: bool | None


class _AnswerById(NamedTuple):
    """An answer about the ids of two records, as texts."""

    left: str
    right: str
    same: bool | None


@dataclass(frozen=True, eq=False)
class Links:
    """Links: pairs of records that are probably the same, in descending order of probability.

    Attributes
    ----------
    left, right : array of int of shape (n_links,)
        Rows.
    probability : array of shape (n_links,)
        The probability that the records are the same; 1 if a person said so.
    decision : array of int of shape (n_links,)
        What ``MetricTracker.decide`` says: 1, the same; 0, a person should check it; -1, different.
    answered : array of bool of shape (n_links,)
        Whether a person has answered.
    threshold : float
        The smallest probability of a link.
    """

    left: npt.NDArray[np.intp]
    right: npt.NDArray[np.intp]
    probability: Floats
    decision: npt.NDArray[np.int64]
    answered: npt.NDArray[np.bool_]
    threshold: float

    def __len__(self) -> int:
        return len(self.left)


class RecordLinker:
    """Finds the records of two tables, or of one, that describe the same entity, and learns how from answers.

    1. *Blocking* finds candidate pairs: records that share a word, the end of a code, or a date.
    2. *Comparison vectors* hold the dissimilarities of a pair, column by column.
    3. A ``MetricTracker`` learns from comparison vectors and answers; ``propose`` chooses the next pair to ask about.
    4. ``links`` returns the pairs that are probably the same, with probabilities, calibrated on the answers, and
       decisions.

    Parameters
    ----------
    left, right : dataframe or mapping from columns to lists
        Columns of the same name are compared. ``right=None``: find duplicates within the left table.
    id : str or None
        The column of ids; None: "id" if there is one, otherwise row numbers.
    compare : mapping of str to str
        The kinds of columns: "text", "word", "code", "number", "date" or "exact"; the others are guessed.
    exclude : iterable of str
        Columns that are not compared.
    block : str, iterable of str, or None
        Blocking rules, such as "phone,name:3+city": a candidate pair has the same telephone number, or the same city
        and first three letters of the name. See ``BlockKey`` for the parts of a value. None: by the kinds.
    max_block : int
        A key that more pairs share is skipped.
    tracker : MetricTracker or None
        An unfitted tracker; None: ``MetricTracker()``.
    seed : int
        The same seed proposes the same pairs after the same answers.
    progress : callable or None
        Called after each batch of comparisons with the number of pairs in it and that of all pairs.

    Attributes
    ----------
    tables : tuple of RecordTable
        The left and the right table; twice the same one for duplicates.
    comparison : RecordComparison
    rules : tuple of Rule
    pairs : array of int of shape (n_pairs, 2)
        The candidate pairs.
    vectors : array of shape (n_pairs, n_features)
        Their comparison vectors.
    tracker : MetricTracker
    answers : list of Answer
        All answers so far, with skipped pairs.
    notes : tuple of str
        Columns that are not compared, and frequent keys that are skipped.

    Examples
    --------
    >>> from ocelad.evaluation.streams import LinkedTables
    >>> tables = LinkedTables("companies", n_rows=200, seed=1)
    >>> linker = RecordLinker(tables.left, tables.right)
    >>> links = set(map(tuple, tables.links.tolist()))
    >>> for _ in range(25):
    ...     question = linker.propose()
    ...     linker.learn(question.left, question.right, (question.left, question.right) in links)
    >>> found = linker.links(one_to_one=True)
    >>> right = sum(pair in links for pair in zip(found.left.tolist(), found.right.tolist()))
    >>> right / len(found) > 0.9, right / len(links) > 0.9                  # precision, recall
    (True, True)
    """

    def __init__(
        self,
        left: Any,
        right: Any = None,
        *,
        id: str | None = None,
        compare: Mapping[str, Kind] | None = None,
        exclude: Iterable[str] = (),
        block: str | Iterable[str] | None = None,
        max_block: int = MAX_BLOCK,
        tracker: MetricTracker | None = None,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.max_block = check_integer(max_block, "max_block", at_least=1)
        self.seed = check_integer(seed, "seed", at_least=0)
        table = read_table(left, "the left table", id)
        self.tables = table, table if right is None else read_table(right, "the right table", id)
        self._excluded = tuple(exclude)
        self.comparison = RecordComparison(*self.tables, compare, self._excluded)
        columns = dict.fromkeys(name for name in table.columns if name in self.tables[1].columns)
        self._has_default_rules = block is None
        self.rules: tuple[Rule, ...] = (
            default_rules(self.comparison.kinds) if block is None else parse_rules(block, columns)
        )
        candidates = candidate_pairs(*self.tables, self.rules, self.max_block)
        self.pairs = candidates.pairs
        if not len(self.pairs):
            raise ValueError(
                "no two records share a key of the blocking rules "
                f"({', '.join(self._rule_texts())}); accepted: rules with candidate pairs"
            )
        self.notes = (*self.comparison.notes, *candidates.notes)
        advance = None if progress is None else lambda count: progress(count, len(self.pairs))
        self.vectors = self.comparison.compare(self.pairs, advance)
        # The code of a pair, by which its position is found; pairs are sorted.
        self._codes = self._encode(self.pairs[:, 0], self.pairs[:, 1])
        self._template = tracker
        self._unused: list[_AnswerById] = []
        rng = np.random.default_rng(self.seed)
        self._known = self.vectors[_draw(len(self.pairs), _N_KNOWN, rng)].astype(np.float64)
        self._pool = self._draw_pool(rng)
        self._pool_vectors = self.vectors[self._pool].astype(np.float64)
        self._pool_distances = np.sum(self._pool_vectors**2, axis=1)
        self._start()

    @property
    def is_one_table(self) -> bool:
        """Whether duplicates within one table are searched."""
        return self.tables[0] is self.tables[1]

    @property
    def has_started(self) -> bool:
        """Whether there are at least two answers of each kind; before, probabilities are guesses."""
        known = [answer.same for answer in self.answers]
        return min(known.count(True), known.count(False)) >= N_START

    def _rule_texts(self) -> list[str]:
        return ["+".join(map(str, rule)) for rule in self.rules]

    def _encode(self, left: Any, right: Any) -> Any:
        return np.asarray(left, dtype=np.int64) * len(self.tables[1]) + right

    def _draw_pool(self, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """Return the pairs to choose from: all pairs of as many random left records as have about ``_POOL`` pairs."""
        if len(self.pairs) <= _POOL:
            return np.arange(len(self.pairs))
        order = rng.permutation(len(self.tables[0]))
        counts = np.bincount(self.pairs[:, 0], minlength=len(order))[order]
        n_records = int(np.searchsorted(np.cumsum(counts), _POOL)) + 1
        chosen = np.zeros(len(order), dtype=bool)
        chosen[order[:n_records]] = True
        return np.flatnonzero(chosen[self.pairs[:, 0]])

    def _start(self) -> None:
        """Forget all answers."""
        self.answers: list[Answer] = []
        self._asked = np.zeros(len(self._pool), dtype=bool)
        self._by_code: dict[int, bool | None] = {}
        self.tracker: MetricTracker = MetricTracker() if self._template is None else clone(self._template)
        # Comparison vectors are differences: with both signs, those of the items have their second moments.
        items = np.vstack([self._known, -self._known]) if self.tracker.method == "adaptive" else None
        self.tracker.start(len(self.comparison.feature_names), self.comparison.feature_names, items=items)

    def propose(self) -> Question:
        """Return the next pair to ask about. It changes nothing: without an answer it is proposed again.

        Raises NoQuestionsLeft if all pairs have been asked.
        """
        if self._asked.all():
            raise NoQuestionsLeft("every candidate pair has been asked; `links` returns the result")
        log_odds = self._log_odds(self._pool_vectors)
        n_asked = len(self.answers)
        if not self.has_started:
            position, source = choose_at_start(
                self._pool_distances, self._asked, [answer.same for answer in self.answers]
            )
        else:
            rng = np.random.default_rng([self.seed, n_asked])
            position, source = choose_by_odds(log_odds, self._asked, rng)
        left, right = self.pairs[self._pool[position]].tolist()
        return Question(left, right, float(expit(log_odds[position])), source)

    def learn(self, left: int, right: int, same: bool | None) -> None:
        """Learn the answer about a pair of rows; None: the pair was skipped and is not proposed again.

        A further answer about a pair replaces the earlier one in ``links``.
        """
        left = check_integer(left, "left", at_least=0, at_most=len(self.tables[0]) - 1)
        right = check_integer(right, "right", at_least=0, at_most=len(self.tables[1]) - 1)
        if self.is_one_table:
            if left == right:
                raise ValueError(f"left and right are the same row, {left}; accepted: two rows")
            left, right = sorted((left, right))
        if same is not None:
            vector = self._vector(left, right)
            self.tracker.learn_one(vector, np.zeros_like(vector), bool(same))
        self._record(Answer(left, right, None if same is None else bool(same)))

    def _record(self, answer: Answer) -> None:
        self.answers.append(answer)
        self._by_code[int(self._encode(answer.left, answer.right))] = answer.same
        position = self._position(answer.left, answer.right)
        if position is not None:
            at = int(np.searchsorted(self._pool, position))
            if at < len(self._pool) and self._pool[at] == position:
                self._asked[at] = True

    def _position(self, left: int, right: int) -> int | None:
        """Return the position of a candidate pair; None for other pairs."""
        code = self._encode(left, right)
        at = int(np.searchsorted(self._codes, code))
        return at if at < len(self._codes) and self._codes[at] == code else None

    def _vector(self, left: int, right: int) -> Floats:
        position = self._position(left, right)
        vectors = self.comparison.compare(np.array([[left, right]])) if position is None else self.vectors[[position]]
        return np.asarray(vectors[0], dtype=np.float64)

    def undo(self) -> Answer:
        """Take back the last answer and return it; the others are learned again."""
        if not self.answers:
            raise ValueError("there is no answer to undo")
        *others, last = self.answers
        self._relearn(others)
        return last

    def _relearn(self, answers: Iterable[Answer]) -> None:
        self._start()
        for answer in answers:
            self.learn(*answer)

    def _log_odds(self, vectors: npt.NDArray[Any]) -> Floats:
        """Return the log odds that the records of each comparison vector are the same."""
        found = np.empty(len(vectors))
        for first in range(0, len(vectors), _BATCH):
            batch = vectors[first : first + _BATCH].astype(np.float64)
            found[first : first + _BATCH] = self.tracker.log_odds(np.stack([batch, np.zeros_like(batch)], axis=1))
        return found

    def _shift(self) -> float:
        """Return what is added to the log odds of the tracker, so that they fit the answers; see ``fit_shift``."""
        if not self.has_started:
            return 0.0
        answered = {code: same for code, same in self._by_code.items() if same is not None}
        vectors = np.stack([self._vector(*divmod(code, len(self.tables[1]))) for code in answered])
        return fit_shift(self._log_odds(vectors), np.array(list(answered.values())))

    def probabilities(self) -> Floats:
        """Return the probability that the records are the same, for each candidate pair."""
        return np.asarray(expit(self._log_odds(self.vectors) + self._shift()))

    def links(self, *, one_to_one: bool = False, threshold: float | None = None, error: float = 0.02) -> Links:
        """Return the pairs that are probably the same.

        Parameters
        ----------
        one_to_one : bool
            Whether a record has at most one link: of two tables in which no entity occurs twice. The links then have
            the largest expected number of correct ones; no guess takes the place of a pair that a person has linked.
        threshold : float or None
            The smallest probability of a link. None: 1/2; with ``one_to_one``, where the best partner of a record is
            more often right than its probability says, the threshold with the largest expected F1, as soon as there are
            two answers of each kind.
        error : float
            The promised share of wrong decisions; see ``MetricTracker.decide``.
        """
        if one_to_one and self.is_one_table:
            raise ValueError("one_to_one needs two tables; within one table an entity may have many records")
        if threshold is not None:
            threshold = check_number(threshold, "threshold", at_least=0, at_most=1)
        pairs, log_odds, answered = self._with_answers()
        probability = np.where(answered != 0, (answered + 1) / 2.0, expit(log_odds + self._shift()))
        # The promise is about the log odds along the stream of answers, without the shift.
        is_adaptive = self.tracker.method_ == "adaptive"
        decision = self.tracker.decide_log_odds(log_odds, error) if is_adaptive else np.zeros(len(pairs), dtype=int)
        decision = np.where(answered != 0, answered, decision)
        possible = np.flatnonzero(answered >= 0)
        if threshold is None and not (one_to_one and self.has_started):
            threshold = 0.5
        chosen, threshold = choose_links(
            pairs[possible], probability[possible], one_to_one, threshold, answered[possible] > 0
        )
        chosen = possible[chosen]
        left, right = pairs[chosen].astype(np.intp).T
        return Links(left, right, probability[chosen], decision[chosen], answered[chosen] != 0, threshold)

    def _with_answers(self) -> tuple[npt.NDArray[Any], Floats, npt.NDArray[np.int64]]:
        """Return candidate and answered pairs, their log odds, and the answers: 1, -1, or 0 without one."""
        answered = {code: same for code, same in self._by_code.items() if same is not None}
        codes = np.array(list(answered), dtype=np.int64)
        others = np.setdiff1d(codes, self._codes)
        extra = np.column_stack([others // len(self.tables[1]), others % len(self.tables[1])])
        pairs = np.vstack([self.pairs, extra])
        vectors = self.vectors
        if len(extra):
            vectors = np.vstack([vectors, self.comparison.compare(extra)])
        known = np.zeros(len(pairs), dtype=np.int64)
        all_codes = np.concatenate([self._codes, others])
        order = np.argsort(all_codes, kind="stable")
        positions = order[np.searchsorted(all_codes, codes, sorter=order)]
        known[positions] = [1 if same else -1 for same in answered.values()]
        return pairs, self._log_odds(vectors), known

    def groups(self, links: Links) -> npt.NDArray[np.int64]:
        """Return the number of the entity of each record of one table; records without links are alone."""
        if not self.is_one_table:
            raise ValueError("groups are those of one table; of two tables, links are the result")
        return group_records(
            len(self.tables[0]), np.column_stack([links.left, links.right]), links.probability, links.threshold
        )

    def state(self) -> tuple[Arrays, Metadata]:
        """Return the answers, what was learned, and the settings, as arrays and as values that JSON can store."""
        arrays, metadata = self.tracker.state()
        answers = np.array([(left, right, _ANSWER_CODES[same]) for left, right, same in self.answers], dtype=np.int64)
        return {"answers": answers.reshape(-1, 3), **add_prefix("tracker", arrays)}, {
            "settings": self._settings(),
            "ids": [[str(self.tables[0].ids[left]), str(self.tables[1].ids[right])] for left, right, _ in self.answers],
            "unused": [[left, right, _ANSWER_CODES[same]] for left, right, same in self._unused],
            "tables": [table.digest() for table in self.tables],
            "tracker": metadata,
        }

    def _settings(self) -> Metadata:
        both = [name for name in self.tables[0].columns if name in self.tables[1].columns]
        return {
            "compare": self.comparison.kinds,
            "exclude": [name for name in both if name in self._excluded],
            "block": self._rule_texts(),
            "default_block": self._has_default_rules,
            "max_block": self.max_block,
            "seed": self.seed,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to one file, which is replaced atomically. The tables are not saved."""
        state_files.write(path, state_files.LINKER, *self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str], left: Any, right: Any = None, **options: Any) -> Self:
        """Read a file written by ``save``, with the settings saved there; ``options`` replace some of them.

        With the same tables and settings, the linker continues to the same bits. If a table has changed since, if
        options differ, or if a ``tracker`` is given, the answers are learned again; records of changed tables are
        recognized by their ids. Answers about records that are missing stay in the state, and count again as soon as
        the records are back. ``compare`` includes columns that were excluded before.
        """
        _, metadata = state_files.read(path, state_files.LINKER)
        with state_files.content_errors(path, state_files.LINKER):
            saved = metadata["settings"]
            settings = {name: saved[name] for name in ("compare", "exclude", "block", "max_block", "seed")}
            has_default_rules = bool(saved["default_block"])
            kinds, excluded = dict(settings["compare"]), list(settings["exclude"])
        given = {name: value for name, value in options.items() if value is not None}
        if has_default_rules:
            settings.pop("block")  # they follow from the kinds
        left = read_table(left, "the left table", given.get("id"))
        right = None if right is None else read_table(right, "the right table", given.get("id"))
        both = [name for name in left.columns if right is None or name in right.columns]
        settings["compare"] = {name: kind for name, kind in kinds.items() if name in both}
        settings["exclude"] = [name for name in excluded if name in both and name not in given.get("compare", ())]
        linker = cls(left, right, **{**settings, **given})
        if missing := [name for name in kinds if name not in both]:
            linker.notes += (f"compared before, and now not in both tables: {', '.join(missing)}",)
        linker.restore(path)
        return linker

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Continue with the answers in a file that ``save`` wrote; see ``load``."""
        arrays, metadata = state_files.read(path, state_files.LINKER)
        with state_files.content_errors(path, state_files.LINKER):
            same_of = {code: same for same, code in _ANSWER_CODES.items()}
            answers = [Answer(left, right, same_of[code]) for left, right, code in arrays["answers"].tolist()]
            saved = MetricTracker.from_state(strip_prefix("tracker", arrays), metadata["tracker"])
            settings, digests, ids = metadata["settings"], metadata["tables"], metadata["ids"]
            by_id = [_AnswerById(left, right, answer.same) for (left, right), answer in zip(ids, answers, strict=True)]
            unused = [_AnswerById(left, right, same_of[code]) for left, right, code in metadata.get("unused", [])]
        has_own_tracker = self._template is not None
        if not has_own_tracker:
            self._template = clone(saved)
        if digests != [table.digest() for table in self.tables]:
            answers, unused = self._find_again(path, [*unused, *by_id])
            self._relearn(answers)
        elif settings != self._settings() or has_own_tracker:
            self._relearn(answers)
        else:
            self._start()
            self.tracker = saved
            for answer in answers:
                self._record(answer)
        self._unused = unused
        if unused:
            n_answers = len(unused) + len(answers)
            note = f"not used, because their records are missing: {len(unused)} of {n_answers} answers"
            self.notes = (*self.notes, note)

    def _find_again(self, path: Any, answers: list[_AnswerById]) -> tuple[list[Answer], list[_AnswerById]]:
        """Return the answers with the rows that their records have now, and the answers whose records are missing."""
        if not all(table.has_ids for table in self.tables):
            raise ValueError(
                f"{str(path)!r} was saved for other tables, or a table has changed since and has no ids; accepted: the "
                "same tables, or tables with a column of ids"
            )
        rows = [{str(entry): row for row, entry in enumerate(table.ids)} for table in self.tables]
        found, missing = [], []
        for answer in answers:
            left, right = rows[0].get(answer.left), rows[1].get(answer.right)
            if left is None or right is None:
                missing.append(answer)
            else:
                found.append(Answer(left, right, answer.same))
        return found, missing


def choose_links(
    pairs: npt.NDArray[Any],
    probabilities: Floats,
    one_to_one: bool,
    threshold: float | None,
    answered: npt.NDArray[np.bool_] | bool = False,
) -> tuple[npt.NDArray[np.intp], float]:
    """Return the positions of the links among pairs, in descending order of probability, and their threshold.

    ``one_to_one`` and ``threshold`` are those of ``RecordLinker.links``; a threshold of None is the best one.
    ``answered`` are the pairs of which a person said that they are the same: no guess takes their place.
    """
    lowest = _MIN_PROBABILITY if threshold is None else threshold
    chosen = np.flatnonzero(probabilities >= lowest)
    if one_to_one:
        # A gain above 0 for each pair, so that also a probability of 0 is accepted. An answered pair excludes at most
        # two guesses, of its left and of its right record: its gain is larger than theirs together.
        gains = probabilities + 1e-9 + 2.0 * np.asarray(answered)
        chosen = chosen[match_one_to_one(pairs[chosen], gains[chosen])]
    chosen = chosen[np.argsort(-probabilities[chosen], kind="stable")]
    if threshold is None:
        threshold = best_threshold(probabilities[chosen])
    return chosen[probabilities[chosen] >= threshold], threshold


def best_threshold(probabilities: Floats) -> float:
    """Return the threshold with the largest expected F1 of pairs with these probabilities, in descending order.

    Of the first k pairs, ``sum(p[:k])`` are expected to be right, of ``sum(p)`` right ones, which gives
    ``F1 = 2 sum(p[:k]) / (k + sum(p))``. The best threshold is about half of the best F1, and never above 1/2.

    >>> best_threshold(np.array([0.99, 0.9, 0.6, 0.2]))
    0.5
    """
    if not len(probabilities):
        return 0.5
    right = np.cumsum(probabilities)
    scores = 2.0 * right / (np.arange(1, len(right) + 1) + right[-1])
    return min(0.5, float(probabilities[int(np.argmax(scores))]))


def _draw(count: int, n_drawn: int, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    return np.arange(count) if count <= n_drawn else np.sort(rng.choice(count, n_drawn, replace=False))
