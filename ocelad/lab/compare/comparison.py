"""``Comparison``: means with standard errors, paired differences, and the methods that the reference does not beat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

import ocelad
from ocelad._typing import Floats
from ocelad.lab.compare.block_streams import Stream
from ocelad.lab.compare.methods import Method
from ocelad.lab.compare.plain_table import plain_table
from ocelad.lab.compare.scoring import NMI_THRESHOLD, Scores
from ocelad.lab.compare.trial import Record
from ocelad.lab.statistics import Estimate, estimate_mean, paired_difference

#: The measures with their labels; all are in percent.
MEASURES = {
    "knn_error": "5-NN error in %",
    "clusters_found": f"P(NMI > {NMI_THRESHOLD:g}) in %",
    "ranking_error": "wrongly ranked pairs in %",
}
HIGHER_IS_BETTER = frozenset({"clusters_found"})
#: The standard errors of a single stream are over this number of consecutive segments of its evaluations.
N_SEGMENTS = 10


def main_measure(stream: Stream) -> str:
    """Return the measure by which methods are tuned and ranked; lower is better."""
    return "knn_error" if stream.has_eval_sets else "ranking_error"


class TuningResult(NamedTuple):
    """The result of tuning one method.

    Attributes
    ----------
    best : Method
        The method with the best settings.
    trials : list of (settings, score)
        All settings tried, with their mean score as a share.
    """

    best: Method
    trials: list[tuple[dict[str, Any], float]]


class MethodSummary(NamedTuple):
    """The results of one method by one measure, in percent.

    Attributes
    ----------
    method : str
        The label of the method.
    overall : Estimate
        The mean over the whole stream.
    by_phase : dict from phase to Estimate
    difference : Estimate
        The method minus the reference, paired by seed.
    """

    method: str
    overall: Estimate
    by_phase: dict[str, Estimate]
    difference: Estimate

    @property
    def mean(self) -> float:
        """The mean over the whole stream."""
        return self.overall.mean


Verdict: TypeAlias = Literal["better", "tie", "unknown"]


class Unbeaten(NamedTuple):
    """A method that the reference does not beat significantly by a measure.

    Attributes
    ----------
    measure : str
    phase : str or None
        None: the whole stream.
    method : str
        The label of the method.
    difference : Estimate
        The method minus the reference, in percent.
    verdict : {"better", "tie", "unknown"}
        "better" if the method is significantly better than the reference, "tie" if the difference is not significant,
        "unknown" if there are fewer than two differences: a single stream, or failed runs.
    """

    measure: str
    phase: str | None
    method: str
    difference: Estimate
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class Comparison:
    """The results of methods on the same streams, as returned by ``compare``.

    Attributes
    ----------
    stream : Stream
    methods : tuple of Method
        The methods before tuning; ``tuned`` holds the settings that were used.
    records : dict from label to list of Record
        One record for each seed.
    reference : str
        The label of the method that the others are compared with.
    every : int
        The number of rounds between evaluations.
    seeds : tuple of int
    tuned : mapping from label to TuningResult
    """

    stream: Stream
    methods: tuple[Method, ...]
    records: dict[str, list[Record]]
    reference: str
    every: int
    seeds: tuple[int, ...]
    tuned: Mapping[str, TuningResult] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the methods as a table, the best first: the main measure, and the difference to the reference."""
        by_label = {summary.method: summary for summary in self.summaries()}
        with_more = {method.label for method in self.methods if method.requires}
        columns = ["method", "mean", f"minus {self.reference}"]
        columns += [MEASURES["clusters_found"]] if self.stream.has_eval_sets else []
        rows = []
        for label in self.ranking:
            summary, n_failed = by_label[label], len(self.failures(label))
            name = f"{label} *" if label in with_more else label
            name += f" ({n_failed} of {len(self.records[label])} runs failed)" if n_failed else ""
            row = [name, str(summary.overall), "" if label == self.reference else str(summary.difference)]
            row += [str(self._summary(label, "clusters_found").overall)] if self.stream.has_eval_sets else []
            rows.append(row)
        n_streams = f"{len(self.seeds)} streams" if len(self.seeds) > 1 else "one stream"
        n_streams += "" if self.stream.seeded else f" in {self.n_segments} segments"
        table = plain_table(f"{MEASURES[self.main_measure]}: {self.stream.name}, {n_streams}", columns, rows)
        legend = ["* uses more than the pairs"] if with_more else []
        return "\n".join([table, *legend, *self.failure_notes()])

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures that are available on this stream, the main measure first."""
        if not self.stream.has_eval_sets:
            return ("ranking_error",)
        return tuple(measure for measure in MEASURES if self.stream.has_both_answers or measure != "ranking_error")

    @property
    def main_measure(self) -> str:
        """The measure by which methods are tuned and ranked."""
        return main_measure(self.stream)

    @property
    def ranking(self) -> list[str]:
        """The labels, the best by the main measure first; methods with failed runs come last."""
        return [summary.method for summary in sorted(self.summaries(), key=self._sort_key)]

    def _sort_key(self, summary: MethodSummary) -> tuple[int, bool, float]:
        return len(self.failures(summary.method)), np.isnan(summary.mean), summary.mean

    def summaries(self, measure: str | None = None) -> list[MethodSummary]:
        """Return the summary of each method by a measure, in the order of ``methods``; None: the main measure."""
        measure = measure or self.main_measure
        return [self._summary(method.label, measure) for method in self.methods]

    def _summary(self, label: str, measure: str) -> MethodSummary:
        values = self._independent_values(label, measure)
        difference = paired_difference(values, self._independent_values(self.reference, measure))
        by_phase = {phase: estimate_mean(self._independent_values(label, measure, phase)) for phase in self.phases}
        return MethodSummary(label, estimate_mean(values), by_phase, difference)

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that contain scores of the main measure, in the order of the stream."""
        scored = {
            phase
            for records in self.records.values()
            for record in records
            for phase, score in zip(self.phases_of(record), record.values(self.main_measure), strict=True)
            if score == score
        }
        return tuple(phase for phase in self.stream.phases if phase in scored)

    def phases_of(self, record: Record, measure: str | None = None) -> list[str]:
        """Return the phase to which each score of a measure belongs; None: the main measure.

        Pairs are ranked until the next evaluation: this score belongs to the phase of most of these pairs.
        """
        return record.pair_phases if (measure or self.main_measure) == "ranking_error" else record.phases

    def curve(self, label: str, measure: str) -> tuple[list[int], Floats, Floats]:
        """Return the rounds of the evaluations, and the mean over the seeds and its standard error at each."""
        complete = self._complete(label)
        if not complete:
            return [], np.empty(0), np.empty(0)
        estimates = [estimate_mean(column) for column in np.array([_percent(r, measure) for r in complete]).T]
        means, errors = ([getattr(e, name) for e in estimates] for name in ("mean", "standard_error"))
        return complete[0].rounds, np.array(means), np.array(errors)

    def failures(self, label: str) -> list[Record]:
        """Return the records of a method's failed runs, which no mean includes."""
        return [record for record in self.records[label] if record.failure is not None]

    def failure_notes(self) -> list[str]:
        """Return one sentence for each method with failed runs, with the message of the first failure."""
        failures = {method.label: self.failures(method.label) for method in self.methods}
        return [
            f"{label} failed on {len(failed)} of {len(self.seeds)} streams, which are excluded from its means; the "
            f"first failure: {failed[0].failure}"
            for label, failed in failures.items()
            if failed
        ]

    def microseconds(self, label: str) -> float:
        """Return the time to learn from a pair, the median over the seeds."""
        times = [record.microseconds for record in self._complete(label)]
        return float(np.median(times)) if times else np.nan

    def unbeaten(self) -> list[Unbeaten]:
        """Return where the reference does not win: by the main measure per phase, then by each measure overall."""
        # A phase of a single stream has too few values that can be considered independent.
        phases = self.phases if len(self.phases) > 1 and self.stream.seeded else ()
        cases = [*((self.main_measure, phase) for phase in phases), *((measure, None) for measure in self.measures)]
        return [found for measure, phase in cases for found in self._unbeaten(measure, phase)]

    def _unbeaten(self, measure: str, phase: str | None) -> Iterator[Unbeaten]:
        reference = self._independent_values(self.reference, measure, phase)
        worse = -1 if measure in HIGHER_IS_BETTER else 1
        for method in self.methods:
            difference = paired_difference(self._independent_values(method.label, measure, phase), reference)
            sign = difference.significant_sign
            if method.label != self.reference and sign != worse:
                verdict: Verdict = "unknown" if sign is None else "tie" if sign == 0 else "better"
                yield Unbeaten(measure, phase, method.label, difference, verdict)

    def _complete(self, label: str) -> list[Record]:
        return [record for record in self.records[label] if record.failure is None]

    def _independent_values(self, label: str, measure: str, phase: str | None = None) -> Floats:
        """Return values that can be considered independent, paired across methods: one per seed, or per segment."""
        if not self.stream.seeded:
            (record,) = self.records[label]
            values = self._in_phase(record, measure, phase)
            return np.array([_finite_mean(part) for part in np.array_split(values, min(N_SEGMENTS, len(values) or 1))])
        return np.array([_finite_mean(self._in_phase(record, measure, phase)) for record in self.records[label]])

    def _in_phase(self, record: Record, measure: str, phase: str | None) -> Floats:
        """Return a measure at the evaluations of a phase, or at all; NaN for each of them if the run failed."""
        longest = max((r for records in self.records.values() for r in records), key=lambda r: len(r.rounds))
        values = _percent(record, measure) if record.failure is None else np.full(len(longest.rounds), np.nan)
        return values if phase is None else values[np.array(self.phases_of(longest, measure)) == phase]

    @property
    def n_segments(self) -> int:
        """The number of segments that the standard errors of a single stream are over."""
        return len(self._independent_values(self.reference, self.main_measure))

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a dict for JSON; it may contain NaN."""
        return {
            "program": f"ocelad {ocelad.__version__}",
            "stream": {"name": self.stream.name, "rounds": self.stream.rounds, "n_features": self.stream.n_features},
            "every": self.every,
            "seeds": list(self.seeds),
            "reference": self.reference,
            "measures": {measure: MEASURES[measure] for measure in self.measures},
            "methods": [self._method_json(method) for method in self.methods],
            "unbeaten": [
                {**found._asdict(), "difference": found.difference._asdict(), "phase": found.phase or "all"}
                for found in self.unbeaten()
            ],
        }

    def _method_json(self, method: Method) -> dict[str, Any]:
        label = method.label
        tuned = self.tuned.get(label)
        summaries = {measure: self._summary(label, measure) for measure in self.measures}
        trials = [] if tuned is None else tuned.trials
        return {
            "method": label,
            "requires": sorted(method.requires),
            "settings": (tuned.best if tuned else method).settings,
            "tuning": [{"settings": settings, self.main_measure: score} for settings, score in trials],
            "microseconds_per_pair": self.microseconds(label),
            "failures": [{"seed": record.seed, "reason": record.failure} for record in self.failures(label)],
            **{
                measure: {
                    "mean": summary.mean,
                    "standard_error": summary.overall.standard_error,
                    "difference": summary.difference._asdict(),
                    "by_phase": {phase: estimate._asdict() for phase, estimate in summary.by_phase.items()},
                    "over_time": self._curve_json(label, measure),
                }
                for measure, summary in summaries.items()
            },
        }

    def _curve_json(self, label: str, measure: str) -> dict[str, list[Any]]:
        rounds, means, errors = self.curve(label, measure)
        return {"rounds": rounds, "mean": means.tolist(), "standard_error": errors.tolist()}


def _percent(record: Record, measure: str) -> Floats:
    """Return a measure at each evaluation, in percent."""
    if measure == "clusters_found":
        nmi = record.values("nmi")
        return np.where(np.isnan(nmi), np.nan, np.where(nmi > NMI_THRESHOLD, 100.0, 0.0))
    assert measure in Scores._fields
    return 100.0 * record.values(measure)


def _finite_mean(values: Floats | Sequence[float]) -> float:
    finite = np.asarray(values)[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else np.nan
