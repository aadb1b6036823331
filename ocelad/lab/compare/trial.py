"""``run_trial``: run methods on one stream by test-then-train, and score their plays at regular intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from ocelad._typing import Floats
from ocelad.ensemble.bank import LearnerError
from ocelad.lab.baselines.batch import FitError
from ocelad.lab.compare.adapters import TrueMetricAdapter
from ocelad.lab.compare.block_streams import Block, Stream
from ocelad.lab.compare.methods import Method, StreamInfo
from ocelad.lab.compare.scoring import BlockLearner, Scores, score_play

NamedTupleType = TypeVar("NamedTupleType", bound=tuple[float, ...])

# Errors of a built-in method on unsuitable data, which end its run. Any other error is a bug and propagates.
FAILURES = (ArithmeticError, FitError, LearnerError, np.linalg.LinAlgError)

# The fields of a record that are stored in JSON without conversion.
_JSON_FIELDS = ("method", "seed", "rounds", "phases", "pair_phases", "failure")


@dataclass(frozen=True)
class Record:
    """The scores of one method on one stream.

    Attributes
    ----------
    method : str
        The label of the method.
    seed : int
    rounds : list of int
        The rounds of the evaluations.
    phases, pair_phases : list of str
        The phase of the evaluation points, and of the pairs, at each evaluation.
    scores : list of Scores
    microseconds : float
        The mean time to learn from a pair, without evaluation and without the first block.
    failure : str or None
        The reason why the run ended early, or None.
    """

    method: str
    seed: int
    rounds: list[int] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    pair_phases: list[str] = field(default_factory=list)
    scores: list[Scores] = field(default_factory=list)
    microseconds: float = np.nan
    failure: str | None = None

    def values(self, measure: str) -> Floats:
        """Return one of the scores at each evaluation."""
        return np.array([getattr(scores, measure) for scores in self.scores])

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON-serializable dict; NaN becomes None."""
        fields = {name: getattr(self, name) for name in _JSON_FIELDS}
        return {**fields, "microseconds": _or_none(self.microseconds), "scores": scores_to_json(self.scores, Scores)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Record:
        """Return the record that ``to_json`` converted."""
        fields = {name: content[name] for name in _JSON_FIELDS}
        scores = scores_from_json(content["scores"], Scores)
        return cls(**fields, scores=scores, microseconds=_or_nan(content["microseconds"]))


def scores_to_json(scores: Sequence[Any], kind: type[NamedTupleType]) -> dict[str, list[float | None]]:
    """Return named tuples of numbers as lists by the names of their fields; NaN becomes None."""
    return {name: [_or_none(getattr(each, name)) for each in scores] for name in _fields(kind)}


def scores_from_json(content: dict[str, list[float | None]], kind: type[NamedTupleType]) -> list[NamedTupleType]:
    """Return the named tuples that ``scores_to_json`` converted."""
    columns = [[_or_nan(value) for value in content[name]] for name in _fields(kind)]
    return [kind(*row) for row in zip(*columns, strict=True)]


def _fields(kind: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = kind._fields
    return names


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value


def caught_errors(method: Method) -> tuple[type[Exception], ...]:
    """Return the errors that end the run of a method, and are recorded as its failure."""
    return FAILURES if method.built_in else (Exception,)


def describe_failure(error: Exception) -> str:
    """Return the message of an error, after its type if the message may need it.

    >>> describe_failure(FloatingPointError("it overflows")), describe_failure(KeyError("x"))
    ('it overflows', "KeyError: 'x'")
    """
    return str(error) if isinstance(error, FAILURES) else f"{type(error).__name__}: {error}"


class _Run:
    """One method on one stream, until the end of the stream or its failure."""

    def __init__(self, method: Method, info: StreamInfo, score_pairs: bool) -> None:
        self._requires, self._score_pairs = method.requires, score_pairs
        self._caught_errors = caught_errors(method)
        self._record = Record(method.label, info.seed)
        self._seconds, self._n_timed = 0.0, 0
        self._failure: str | None = None
        self._learner: BlockLearner | None = None
        try:
            learner = method.create(info if "labels" in method.requires else info._replace(initial_points=None))
            assert isinstance(learner, BlockLearner)  # guaranteed by Method.check_settings
            self._learner = learner
        except self._caught_errors as error:
            self._failure = f"before the first round: {describe_failure(error)}"

    def step(self, block: Block, evaluate: bool) -> None:
        """Score the play on a block if ``evaluate``, then learn from the block."""
        if self._learner is None or self._failure is not None:
            return
        restricted = block.restricted_to(self._requires)
        try:
            with np.errstate(all="ignore"):  # a diverging method raises an error of its own
                if isinstance(self._learner, TrueMetricAdapter) and block.truth is not None:
                    self._learner.set_truth(block.truth)
                if evaluate:
                    scores = score_play(self._learner.play(), block, score_pairs=self._score_pairs)
                    self._record.rounds.append(block.round)
                    self._record.phases.append(block.phase)
                    self._record.pair_phases.append(block.pair_phase)
                    self._record.scores.append(scores)
                start = perf_counter()
                self._learner.update(restricted)
                if block.round > 1:  # the first block may include compilation
                    self._seconds += perf_counter() - start
                    self._n_timed += len(block)
        except self._caught_errors as error:
            self._failure = f"in the rounds from {block.round} on: {describe_failure(error)}"

    def record(self) -> Record:
        """Return the record of the run."""
        microseconds = 1e6 * self._seconds / self._n_timed if self._n_timed else np.nan
        return replace(self._record, microseconds=microseconds, failure=self._failure)


def run_trial(
    stream: Stream, methods: Sequence[Method], seed: int, every: int, *, score_pairs: bool = True
) -> list[Record]:
    """Run the methods on the stream of a seed, and return one record per method.

    Parameters
    ----------
    stream : Stream
    methods : sequence of Method
    seed : int
    every : int
        The number of rounds between evaluations.
    score_pairs : bool
        Whether to compute the ranking error on the pairs.

    Examples
    --------
    >>> from ocelad.lab.compare import METHODS, STREAMS
    >>> (record,) = run_trial(STREAMS["static"], [METHODS["euclidean"]], seed=0, every=1000)
    >>> record.rounds
    [1000, 2000, 3000]
    """
    points = stream.initial_points(seed) if any("labels" in method.requires for method in methods) else None
    info = StreamInfo(stream.n_features, stream.rounds, seed, points, stream.sparse)
    runs = [_Run(method, info, score_pairs) for method in methods]
    for block in stream.blocks(seed, every):
        for run in runs:
            run.step(block, evaluate=block.round % every == 0)
    return [run.record() for run in runs]
