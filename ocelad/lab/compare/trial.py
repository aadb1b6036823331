"""One stream and the methods on it: every so many rounds each is judged by what it says, then all learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from ocelad._typing import Floats
from ocelad.ensemble.bank import LearnerError
from ocelad.lab.baselines.batch import FitError
from ocelad.lab.compare.comparison_streams import Block, Stream
from ocelad.lab.compare.contestants import Truth
from ocelad.lab.compare.methods import Method, Setting
from ocelad.lab.compare.scoring import Contender, Scores, judged

# What a method may fail with on data that do not suit it; all else is a fault of the program, and stops.
FAILURES = (ArithmeticError, FitError, LearnerError, np.linalg.LinAlgError)

# The fields of a record that JSON holds as they are.
_PLAIN = ("method", "seed", "rounds", "phases", "pair_phases", "failed")


@dataclass(frozen=True)
class Record:
    """How one method did on one stream.

    Attributes
    ----------
    method : str
        Its label.
    seed : int
    rounds : list of int
        When it was judged.
    phases, pair_phases : list of str
        In which phase that was, and in which the pairs were that it was judged on.
    scores : list of Scores
    microseconds : float
        What learning from a pair took, on average; evaluation and the first block not counted.
    failed : str or None
        Why it did not come to the end, if so.
    """

    method: str
    seed: int
    rounds: list[int] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    pair_phases: list[str] = field(default_factory=list)
    scores: list[Scores] = field(default_factory=list)
    microseconds: float = np.nan
    failed: str | None = None

    def measured(self, measure: str) -> Floats:
        """One of the scores at each evaluation."""
        return np.array([getattr(scores, measure) for scores in self.scores])

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it."""
        scores = {name: [_or_none(value) for value in self.measured(name)] for name in Scores._fields}
        metadata = {name: getattr(self, name) for name in _PLAIN}
        return {**metadata, "microseconds": _or_none(self.microseconds), "scores": scores}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Record:
        """What ``to_json`` gave."""
        columns = [[_or_nan(value) for value in kept["scores"][name]] for name in Scores._fields]
        metadata = {name: kept[name] for name in _PLAIN}
        scores = [Scores(*row) for row in zip(*columns, strict=True)]
        return cls(**metadata, scores=scores, microseconds=_or_nan(kept["microseconds"]))


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


class _Run:
    """A method on its way, until it comes to the end or fails."""

    def __init__(self, method: Method, setting: Setting, by_pairs: bool) -> None:
        self._needs, self._by_pairs = method.needs, by_pairs
        self._record = Record(method.label, setting.seed)
        self._seconds, self._learned = 0.0, 0
        self._failed: str | None = None
        self._contender: Contender | None = None
        try:
            self._contender = method.contender(setting if "labels" in method.needs else setting._replace(opening=None))
        except FAILURES as error:
            self._failed = f"before the first round: {error}"

    def pass_through(self, block: Block, judge: bool) -> None:
        """Be judged on a block, if it is time, and learn from it."""
        if self._contender is None or self._failed is not None:
            return
        told = block.told(self._needs)
        try:
            with np.errstate(all="ignore"):  # a method on its way to fail is told of by its own refusal
                if isinstance(self._contender, Truth) and block.truth is not None:
                    self._contender.told(block.truth)
                if judge:
                    scores = judged(self._contender.play(), block, by_pairs=self._by_pairs)
                    self._record.rounds.append(block.round)
                    self._record.phases.append(block.phase)
                    self._record.pair_phases.append(block.pair_phase)
                    self._record.scores.append(scores)
                start = perf_counter()
                self._contender.update(told)
                if block.round > 1:  # in the first a compiler may have been waited for
                    self._seconds += perf_counter() - start
                    self._learned += len(block)
        except FAILURES as error:
            self._failed = f"in the rounds from {block.round} on: {error}"

    def record(self) -> Record:
        """What came of it."""
        microseconds = 1e6 * self._seconds / self._learned if self._learned else np.nan
        return replace(self._record, microseconds=microseconds, failed=self._failed)


def run_trial(
    stream: Stream, methods: Sequence[Method], seed: int, every: int, *, by_pairs: bool = True
) -> list[Record]:
    """How each of the methods does on the stream of a seed, judged by points with classes, and by pairs if so wished.

    Examples
    --------
    >>> from ocelad.lab.compare import METHODS, STREAMS
    >>> (record,) = run_trial(STREAMS["static"], [METHODS["euclidean"]], seed=0, every=1000)
    >>> record.rounds
    [1000, 2000, 3000]
    """
    opening = stream.opening(seed) if any("labels" in method.needs for method in methods) else None
    setting = Setting(stream.n_features, stream.rounds, seed, opening, stream.sparse)
    runs = [_Run(method, setting, by_pairs) for method in methods]
    for block in stream.blocks(seed, every):
        for run in runs:
            run.pass_through(block, judge=block.round % every == 0)
    return [run.record() for run in runs]
