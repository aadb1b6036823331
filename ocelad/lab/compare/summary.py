"""What a comparison says: means with standard errors, paired differences, and where a method does not win."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import stdtrit

import ocelad
from ocelad._typing import Floats
from ocelad.lab.compare.comparison_streams import Stream
from ocelad.lab.compare.methods import Method
from ocelad.lab.compare.scoring import FOUND, Scores
from ocelad.lab.compare.trial import Record

#: What is measured, in words; all are shown in percent.
MEASURES = {
    "knn_error": "5-NN error in %",
    "found": f"P(NMI > {FOUND:g}) in %",
    "ranked_wrong": "pairs ranked wrong in %",
}
MORE_IS_BETTER = frozenset({"found"})
#: Of one stream, standard errors are over so many stretches of rounds, one after the other.
STRETCHES = 10
#: A difference counts where an interval of so much confidence leaves out 0.
CONFIDENCE = 0.95


def main_measure(stream: Stream) -> str:
    """What methods are tuned by and ordered by: the smaller the better."""
    return "knn_error" if stream.has_scenes else "ranked_wrong"


class Tuned(NamedTuple):
    """What tuning came to: the best settings, how many were tried, and each with its mean score (a share)."""

    best: Method
    n_tried: int
    tried: list[tuple[dict[str, Any], float]]


class Estimate(NamedTuple):
    """A mean with its standard error, of so many values; NaN where there is too little to say."""

    mean: float
    error: float
    n: int = 0

    @property
    def sign(self) -> int | None:
        """-1 or 1 where the mean is surely below or above 0, 0 where that cannot be told, None where nothing can be.

        By Student's t, so that few values have to be clearer than many.
        """
        if not np.isfinite(self.error):
            return None
        reach = float(stdtrit(self.n - 1, 0.5 + CONFIDENCE / 2)) * self.error
        return int(np.sign(self.mean)) if abs(self.mean) > reach else 0

    @classmethod
    def of(cls, values: Floats) -> Estimate:
        """Of independent values; those that are NaN are left out.

        >>> Estimate.of(np.array([1.0, 3.0, np.nan]))
        Estimate(mean=2.0, error=1.0, n=2)
        """
        known = values[np.isfinite(values)]
        if not len(known):
            return cls(np.nan, np.nan)
        error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else np.nan
        return cls(float(known.mean()), error, len(known))


class Line(NamedTuple):
    """One method by one measure, in percent.

    Attributes
    ----------
    method : str
        Its label.
    overall : Estimate
        Over the whole stream.
    by_phase : dict from phase to Estimate
    difference : Estimate
        The method less the reference, paired: below 0, the method has less.
    """

    method: str
    overall: Estimate
    by_phase: dict[str, Estimate]
    difference: Estimate

    @property
    def mean(self) -> float:
        """Over the whole stream."""
        return self.overall.mean


Verdict: TypeAlias = Literal["better", "alike", "unknown"]


class NotWon(NamedTuple):
    """A method that the reference does not beat by a measure, in some phase or over the whole stream (``phase`` None).

    The difference is the method minus the reference in percent. The method is "better" where a 95 % interval of the
    difference leaves out 0, and "alike" where it does not; with one stream alone, or where one of the two failed, it is
    "unknown".
    """

    measure: str
    phase: str | None
    method: str
    difference: Estimate
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods on the same streams; what ``compare`` returns.

    Attributes
    ----------
    stream : Stream
    methods : tuple of Method
        As they were asked for; ``tuned`` has what they were run with.
    records : dict from label to list of Record
        One for each seed.
    reference : str
        The label of the method that the others are held against.
    every : int
        How many rounds lie between two evaluations.
    seeds : tuple of int
    tuned : mapping from label to Tuned
    """

    stream: Stream
    methods: tuple[Method, ...]
    records: dict[str, list[Record]]
    reference: str
    every: int
    seeds: tuple[int, ...]
    tuned: Mapping[str, Tuned] = field(default_factory=dict)

    @property
    def measures(self) -> tuple[str, ...]:
        """What is measured on this stream, the main one first."""
        return tuple(MEASURES) if self.stream.has_scenes else ("ranked_wrong",)

    @property
    def main(self) -> str:
        """The measure that methods are tuned by and ordered by."""
        return main_measure(self.stream)

    @property
    def ranking(self) -> list[str]:
        """The labels, the best by the main measure first; those that failed on some stream come last."""
        return [line.method for line in sorted(self.rows(), key=self._place)]

    def _place(self, line: Line) -> tuple[int, bool, float]:
        return len(self.failures(line.method)), np.isnan(line.mean), line.mean

    def rows(self, measure: str | None = None) -> list[Line]:
        """A line for each method, in the order in which they were asked for."""
        measure = measure or self.main
        return [self._line(method.label, measure) for method in self.methods]

    def _line(self, label: str, measure: str) -> Line:
        mine = self._units(label, measure)
        difference = Estimate.of(mine - self._units(self.reference, measure))
        by_phase = {phase: Estimate.of(self._units(label, measure, phase)) for phase in self.phases}
        return Line(label, Estimate.of(mine), by_phase, difference)

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases in which methods were judged."""
        judged = {phase for records in self.records.values() for record in records for phase in record.phases}
        return tuple(phase for phase in self.stream.phases if phase in judged)

    def over_time(self, label: str, measure: str) -> tuple[list[int], Floats, Floats]:
        """The rounds of the evaluations, and the mean and its standard error over the seeds at each, in percent."""
        complete = self._complete(label)
        if not complete:
            return [], np.empty(0), np.empty(0)
        estimates = [Estimate.of(column) for column in np.array([_values(r, measure) for r in complete]).T]
        return complete[0].rounds, np.array([e.mean for e in estimates]), np.array([e.error for e in estimates])

    def failures(self, label: str) -> list[Record]:
        """The records of a method that did not come to the end; they are in no mean."""
        return [record for record in self.records[label] if record.failed is not None]

    def microseconds(self, label: str) -> float:
        """What learning from a pair took, the median over the seeds."""
        times = [record.microseconds for record in self._complete(label)]
        return float(np.median(times)) if times else np.nan

    def not_won(self) -> list[NotWon]:
        """Where the reference does not win: by the main measure in phases, then by each over the whole stream."""
        # In a phase of a file there is too little that could be taken for independent.
        phases = self.phases if len(self.phases) > 1 and self.stream.seeded else ()
        wheres = [*((self.main, phase) for phase in phases), *((measure, None) for measure in self.measures)]
        return [lost for measure, phase in wheres for lost in self._not_won(measure, phase)]

    def _not_won(self, measure: str, phase: str | None) -> Iterator[NotWon]:
        theirs = self._units(self.reference, measure, phase)
        worse = -1 if measure in MORE_IS_BETTER else 1
        for method in self.methods:
            difference = Estimate.of(self._units(method.label, measure, phase) - theirs)
            if method.label != self.reference and difference.sign != worse:
                verdict: Verdict = (
                    "unknown" if difference.sign is None else "alike" if difference.sign == 0 else "better"
                )
                yield NotWon(measure, phase, method.label, difference, verdict)

    def _complete(self, label: str) -> list[Record]:
        return [record for record in self.records[label] if record.failed is None]

    def _units(self, label: str, measure: str, phase: str | None = None) -> Floats:
        """Values that may be taken for independent, the same for every method: one a seed, or one a stretch."""
        if not self.stream.seeded:
            (record,) = self.records[label]
            values = self._in_phase(record, measure, phase)
            return np.array([_mean(part) for part in np.array_split(values, min(STRETCHES, len(values) or 1))])
        return np.array([_mean(self._in_phase(record, measure, phase)) for record in self.records[label]])

    def _in_phase(self, record: Record, measure: str, phase: str | None) -> Floats:
        """A measure at the evaluations of a phase, or at all; NaN, and as many of them, where the method failed."""
        longest = max((r for records in self.records.values() for r in records), key=lambda r: len(r.rounds))
        values = _values(record, measure) if record.failed is None else np.full(len(longest.rounds), np.nan)
        phases = longest.pair_phases if measure == "ranked_wrong" else longest.phases
        return values if phase is None else values[np.array(phases) == phase]

    @property
    def n_stretches(self) -> int:
        """Of one stream: over how many stretches standard errors are."""
        return len(self._units(self.reference, self.main))

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON can hold it, once NaN has become null."""
        return {
            "program": f"ocelad {ocelad.__version__}",
            "stream": {"name": self.stream.name, "rounds": self.stream.rounds, "n_features": self.stream.n_features},
            "every": self.every,
            "seeds": list(self.seeds),
            "reference": self.reference,
            "measures": {measure: MEASURES[measure] for measure in self.measures},
            "methods": [self._method_json(method) for method in self.methods],
            "not_won": [
                {**lost._asdict(), "difference": lost.difference._asdict(), "phase": lost.phase or "all"}
                for lost in self.not_won()
            ],
        }

    def _method_json(self, method: Method) -> dict[str, Any]:
        label = method.label
        tuned = self.tuned.get(label)
        lines = {measure: self._line(label, measure) for measure in self.measures}
        return {
            "method": label,
            "told": sorted(method.needs),
            "settings": (tuned.best if tuned else method).values,
            "tried": [] if tuned is None else [{"settings": values, self.main: s} for values, s in tuned.tried],
            "microseconds_per_pair": self.microseconds(label),
            "failed": [{"seed": record.seed, "why": record.failed} for record in self.failures(label)],
            **{
                measure: {
                    "mean": line.mean,
                    "standard_error": line.overall.error,
                    "difference": line.difference._asdict(),
                    "by_phase": {phase: estimate._asdict() for phase, estimate in line.by_phase.items()},
                    "over_time": self._listed(label, measure),
                }
                for measure, line in lines.items()
            },
        }

    def _listed(self, label: str, measure: str) -> dict[str, list[Any]]:
        rounds, means, errors = self.over_time(label, measure)
        return {"rounds": rounds, "mean": means.tolist(), "standard_error": errors.tolist()}


def _values(record: Record, measure: str) -> Floats:
    """A measure at each evaluation, in percent."""
    if measure == "found":
        nmi = record.measured("nmi")
        return np.where(np.isnan(nmi), np.nan, np.where(nmi > FOUND, 100.0, 0.0))
    assert measure in Scores._fields
    return 100.0 * record.measured(measure)


def _mean(values: Floats | Sequence[float]) -> float:
    known = np.asarray(values)[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan
