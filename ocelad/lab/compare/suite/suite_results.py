"""The results of the suite: means, paired differences, the best COMID learner in hindsight, and the targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import ocelad
from ocelad.lab.compare.comparison import MEASURES, Comparison, MethodSummary, Unbeaten
from ocelad.lab.compare.suite.benchmarks import COMID_GRID, Benchmark
from ocelad.lab.compare.suite.recovery import recovery_time
from ocelad.lab.compare.suites import OURS, Target, format_targets
from ocelad.lab.statistics import Estimate

#: The target of the recovery time, in rounds.
MAX_RECOVERY_TIME = 150
#: The name of the best COMID learner in hindsight in all tables.
BEST_COMID = f"best of {len(COMID_GRID)} COMID"
#: On real data our error may exceed the lower error of these two methods by at most this many percentage points.
MAX_EXCESS_ERROR, SAFE_BASELINES = 0.2, ("euclidean", "rice")


def best_comid(comparison: Comparison) -> str:
    """Return the label of the COMID learner with the lowest mean error on the compared streams.

    Learners with failed runs rank after those without.
    """
    grid = {method.label for method in COMID_GRID}
    return next(label for label in comparison.ranking if label in grid)


@dataclass(frozen=True, eq=False)
class BenchmarkResult:
    """The results of all methods on one benchmark.

    Attributes
    ----------
    benchmark : Benchmark
    comparison : Comparison
        The comparison of all methods, including the COMID grid.
    recovery_comparison : Comparison or None
        A comparison with more evaluations, if the benchmark measures recovery times.
    """

    benchmark: Benchmark
    comparison: Comparison
    recovery_comparison: Comparison | None = None

    @cached_property
    def best_comid(self) -> str:
        """The label of the best COMID learner in hindsight."""
        return best_comid(self.comparison)

    @property
    def methods(self) -> list[str]:
        """The labels of the reported methods: ours, its opponents, and the best COMID learner in hindsight."""
        grid = {method.label for method in COMID_GRID}
        return [*(m.label for m in self.comparison.methods if m.label not in grid), self.best_comid]

    def display_name(self, label: str) -> str:
        """Return the name of a method in tables, the same for every benchmark."""
        return BEST_COMID if label == self.best_comid else label

    @property
    def main_measure(self) -> str:
        """The measure that is reported as the error."""
        return self.comparison.main_measure

    @property
    def measures(self) -> tuple[str, ...]:
        """The error and, if the points have classes, P(NMI > 0.8)."""
        if self.comparison.stream.has_eval_sets:
            return self.main_measure, "clusters_found"
        return (self.main_measure,)

    @cached_property
    def _summaries(self) -> dict[str, dict[str, MethodSummary]]:
        return {
            measure: {summary.method: summary for summary in self.comparison.summaries(measure)}
            for measure in self.measures
        }

    def mean(self, label: str, measure: str | None = None) -> Estimate:
        """Return the mean of a measure over the whole stream, with its standard error over the seeds."""
        return self._summaries[measure or self.main_measure][label].overall

    def difference(self, label: str, measure: str | None = None) -> Estimate:
        """Return the difference of a method minus ours, paired by seed."""
        return self._summaries[measure or self.main_measure][label].difference

    def recovery_times(self, label: str) -> tuple[int | None, ...]:
        """Return the recovery time of a method after each switch, by its mean error over the seeds."""
        if self.recovery_comparison is None:
            return ()
        rounds, errors, _ = self.recovery_comparison.curve(label, self.main_measure)
        if not rounds:
            return (None,) * len(self.benchmark.switches)
        phases = next(record.phases for record in self.recovery_comparison.records[label] if record.failure is None)
        return tuple(recovery_time(rounds, phases, errors, switch) for switch in self.benchmark.switches)

    @property
    def beats_safe_baselines(self) -> bool:
        """Whether our mean error is below those of Euclidean distance and of RICE-OCELAD."""
        return all(self.difference(label).mean > 0 for label in SAFE_BASELINES if label != OURS)

    @property
    def targets(self) -> list[Target]:
        """The targets of the benchmark; none is met if a run of our method failed, because its means are incomplete.

        A target bounds a mean, or a mean of paired differences. It is not a test of significance: ``unbeaten`` lists
        the differences that are not significant.
        """
        targets = [*self._bounds(), *self._against_best_comid(), *self._against_safe_baselines(), *self._recovery()]
        failed = bool(self.comparison.failures(OURS))
        return [target._replace(met=target.met and not failed) for target in targets]

    def _bounds(self) -> list[Target]:
        name, targets = self.benchmark.name, []
        max_error, min_found = self.benchmark.max_error, self.benchmark.min_clusters_found
        if max_error is not None:
            error = self.mean(OURS).mean
            targets.append(Target(name, "error", f"at most {max_error:.2f}", error, error <= max_error))
        if min_found is not None:
            found = self.mean(OURS, "clusters_found").mean
            quantity = _short("clusters_found")
            targets.append(Target(name, quantity, f"at least {min_found:.1f}", found, found >= min_found))
        return targets

    def _against_best_comid(self) -> list[Target]:
        if not self.benchmark.beats_best_comid:
            return []
        # 0.0 - x instead of -x, which would print equal means as -0.00.
        error, found = (
            0.0 - self.difference(self.best_comid, measure).mean for measure in (self.main_measure, "clusters_found")
        )
        name = self.benchmark.name
        return [
            Target(name, "error minus the best COMID's", "below 0", error, error < 0),
            Target(name, f"{_short('clusters_found')} minus the best COMID's", "above 0", found, found > 0),
        ]

    def _against_safe_baselines(self) -> list[Target]:
        if not self.benchmark.is_real:
            return []
        excess = max(0.0 - self.difference(label).mean for label in SAFE_BASELINES)
        quantity = f"error minus the lower error of {' and '.join(SAFE_BASELINES)}"
        bound = f"at most {MAX_EXCESS_ERROR:g}"
        return [Target(self.benchmark.name, quantity, bound, excess, excess <= MAX_EXCESS_ERROR)]

    def _recovery(self) -> list[Target]:
        return [
            Target(
                self.benchmark.name,
                f"recovery time after round {switch}",
                f"at most {MAX_RECOVERY_TIME}",
                np.nan if rounds is None else float(rounds),
                rounds is not None and rounds <= MAX_RECOVERY_TIME,
            )
            for switch, rounds in zip(self.benchmark.switches, self.recovery_times(OURS), strict=False)
        ]

    def unbeaten(self) -> list[Unbeaten]:
        """Return the reported methods that ours does not beat significantly over the whole stream.

        The measures are the error and, if the benchmark has a target for it, P(NMI > 0.8).
        """
        has_target = self.benchmark.min_clusters_found is not None
        measures = {self.main_measure, "clusters_found"} if has_target else {self.main_measure}
        reported = set(self.methods)
        return [
            found
            for found in self.comparison.unbeaten()
            if found.phase is None and found.measure in measures and found.method in reported
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the result as a dict for JSON; it may contain NaN."""
        return {
            "benchmark": self.benchmark.name,
            "stream": self.comparison.stream.name,
            "description": self.comparison.stream.description,
            "error_measure": MEASURES[self.main_measure],
            "best_comid": self.best_comid,
            "comid_grid": [method.label for method in COMID_GRID],
            "methods": [self._method_json(label) for label in self.methods],
            "targets": [target._asdict() for target in self.targets],
        }

    def _method_json(self, label: str) -> dict[str, Any]:
        measured = {
            "error" if measure == self.main_measure else measure: {
                **self.mean(label, measure)._asdict(),
                "difference": self.difference(label, measure)._asdict(),
            }
            for measure in self.measures
        }
        return {
            "method": label,
            **measured,
            "recovery_times": list(self.recovery_times(label)),
            "microseconds_per_pair": self.comparison.microseconds(label),
            "failures": [{"seed": record.seed, "reason": record.failure} for record in self.comparison.failures(label)],
        }


@dataclass(frozen=True, eq=False)
class SuiteResult:
    """The results of the suite, as returned by ``run_suite``.

    Attributes
    ----------
    outcomes : tuple of BenchmarkResult
        One for each benchmark that was run.
    skipped : mapping from str to str
        The benchmarks that could not be run, with the reasons.
    """

    outcomes: tuple[BenchmarkResult, ...]
    skipped: Mapping[str, str]

    def __str__(self) -> str:
        """Return a table of the targets, and whether each is met."""
        return format_targets("adaptivity", self.targets, self.skipped)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the streams, the same for each benchmark."""
        return self.outcomes[0].comparison.seeds

    @property
    def targets(self) -> list[Target]:
        """The targets of all benchmarks, and the common target of the real ones."""
        targets = [target for outcome in self.outcomes for target in outcome.targets]
        real = [outcome for outcome in self.outcomes if outcome.benchmark.is_real]
        if real:
            won = sum(outcome.beats_safe_baselines for outcome in real)
            quantity = f"benchmarks with less error than {' and '.join(SAFE_BASELINES)}"
            bound = f"at least half of {len(real)}"
            targets.append(Target("real benchmarks", quantity, bound, won, 2 * won >= len(real)))
        return targets

    def to_json(self) -> dict[str, Any]:
        """Return the results as a dict for JSON; it may contain NaN."""
        return {
            "program": f"ocelad {ocelad.__version__}",
            "suite": "adaptivity",
            "ours": OURS,
            "seeds": list(self.seeds),
            "benchmarks": [outcome.to_json() for outcome in self.outcomes],
            "targets": [target._asdict() for target in self.targets],
            "skipped": dict(self.skipped),
        }


def _short(measure: str) -> str:
    return MEASURES[measure].removesuffix(" in %")
