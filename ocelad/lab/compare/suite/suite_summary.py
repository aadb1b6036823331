"""What the suite comes to: the best COMID learner in hindsight, means, paired differences, and which aims are met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

import ocelad
from ocelad.lab.compare.suite.benchmarks import HINDSIGHT, OURS, Row
from ocelad.lab.compare.suite.recovery import recovered
from ocelad.lab.compare.summary import MEASURES, Comparison, Estimate, Line, NotWon

#: Recovery aimed at, in rounds.
RECOVERY = 150
#: What the best COMID learner in hindsight is called, whichever it is.
HINDSIGHT_NAME = f"best of {len(HINDSIGHT)} COMID"
#: By how many points our error on real data may be above that of the better of these two.
TOLERATED, HARMLESS = 0.2, ("euclidean", "rice")


class Aim(NamedTuple):
    """Something that is to be shown on a row, and what was found.

    Attributes
    ----------
    row, what : str
    wanted : str
        In words, such as "at most 1.10".
    value : float
        What was found.
    met : bool
    """

    row: str
    what: str
    wanted: str
    value: float
    met: bool


def best_in_hindsight(comparison: Comparison) -> str:
    """The label of the COMID learner of the lowest mean error on the very streams that are compared on.

    One that failed on some of them comes after all that did not.
    """
    tried = {method.label for method in HINDSIGHT}
    return next(label for label in comparison.ranking if label in tried)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A row of the suite, and how the methods did.

    Attributes
    ----------
    row : Row
    comparison : Comparison
        Of all methods, those of the grid among them.
    recovering : Comparison or None
        Evaluated more often, where it is measured how soon methods recover.
    """

    row: Row
    comparison: Comparison
    recovering: Comparison | None = None

    @cached_property
    def hindsight(self) -> str:
        """The label of the best COMID learner in hindsight."""
        return best_in_hindsight(self.comparison)

    @property
    def methods(self) -> list[str]:
        """The labels of what is shown: ours, those that it is held against, and the best COMID learner in hindsight."""
        tried = {method.label for method in HINDSIGHT}
        return [*(m.label for m in self.comparison.methods if m.label not in tried), self.hindsight]

    def name_of(self, label: str) -> str:
        """What a method is called, the same in every row."""
        return HINDSIGHT_NAME if label == self.hindsight else label

    @property
    def main(self) -> str:
        """The measure that is called the error."""
        return self.comparison.main

    @property
    def measures(self) -> tuple[str, ...]:
        """The error, and P(NMI > 0.8) where there are classes."""
        return (self.main, "found") if self.comparison.stream.has_scenes else (self.main,)

    @cached_property
    def _lines(self) -> dict[str, dict[str, Line]]:
        return {measure: {line.method: line for line in self.comparison.rows(measure)} for measure in self.measures}

    def mean(self, label: str, measure: str | None = None) -> Estimate:
        """Over the whole stream, with the standard error over the seeds."""
        return self._lines[measure or self.main][label].overall

    def more(self, label: str, measure: str | None = None) -> Estimate:
        """What a method has more than ours, paired by seed."""
        return self._lines[measure or self.main][label].difference

    def recovery(self, label: str) -> tuple[int | None, ...]:
        """After how many rounds a method has recovered from each switch, by its mean error over the seeds."""
        if self.recovering is None:
            return ()
        rounds, errors, _ = self.recovering.over_time(label, self.main)
        if not rounds:
            return (None,) * len(self.row.switches)
        phases = next(record.phases for record in self.recovering.records[label] if record.failed is None)
        return tuple(recovered(rounds, phases, errors, switch) for switch in self.row.switches)

    @property
    def beats_both(self) -> bool:
        """Whether ours has less error than Euclidean distance and than RICE-OCELAD."""
        return all(self.more(label).mean > 0 for label in HARMLESS if label != OURS)

    @property
    def aims(self) -> list[Aim]:
        """What is to be shown here; a mean that streams are missing from, on which our method failed, shows nothing."""
        aims = [*self._bounds(), *self._against_hindsight(), *self._against_harm(), *self._recoveries()]
        failed = bool(self.comparison.failures(OURS))
        return [aim._replace(met=aim.met and not failed) for aim in aims]

    def _bounds(self) -> list[Aim]:
        name, aims = self.row.name, []
        if self.row.error is not None:
            error = self.mean(OURS).mean
            aims.append(Aim(name, "error", f"at most {self.row.error:.2f}", error, error <= self.row.error))
        if self.row.found is not None:
            found = self.mean(OURS, "found").mean
            aims.append(Aim(name, _short("found"), f"at least {self.row.found:.1f}", found, found >= self.row.found))
        return aims

    def _against_hindsight(self) -> list[Aim]:
        if not self.row.beats_hindsight:
            return []
        # Of paired means: the other way round it would be minus zero where both are the same.
        error, found = (0.0 - self.more(self.hindsight, measure).mean for measure in (self.main, "found"))
        return [
            Aim(self.row.name, "error, less the best COMID's", "below 0", error, error < 0),
            Aim(self.row.name, f"{_short('found')}, less the best COMID's", "above 0", found, found > 0),
        ]

    def _against_harm(self) -> list[Aim]:
        if not self.row.is_real:
            return []
        more = self.mean(OURS).mean - min(self.mean(label).mean for label in HARMLESS)
        what = f"error against {' and '.join(HARMLESS)}"
        return [Aim(self.row.name, what, f"at most {TOLERATED:g} more", more, more <= TOLERATED)]

    def _recoveries(self) -> list[Aim]:
        return [
            Aim(
                self.row.name,
                f"recovery after round {switch}",
                f"at most {RECOVERY}",
                np.nan if steps is None else float(steps),
                steps is not None and steps <= RECOVERY,
            )
            for switch, steps in zip(self.row.switches, self.recovery(OURS), strict=False)
        ]

    def not_won(self) -> list[NotWon]:
        """Which of the methods shown ours does not beat: by the error, and where clusters are to be found by that."""
        shown, measures = set(self.methods), {self.main, "found"} if self.row.found is not None else {self.main}
        found = [lost for lost in self.comparison.not_won() if lost.phase is None and lost.measure in measures]
        return [lost for lost in found if lost.method in shown]

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it, once NaN has become null."""
        return {
            "row": self.row.name,
            "stream": self.comparison.stream.name,
            "about": self.comparison.stream.metadata,
            "error_is": MEASURES[self.main],
            "best_comid": self.hindsight,
            "best_comid_of": [method.label for method in HINDSIGHT],
            "methods": [self._method_json(label) for label in self.methods],
            "aims": [aim._asdict() for aim in self.aims],
        }

    def _method_json(self, label: str) -> dict[str, Any]:
        measured = {
            "error" if measure == self.main else measure: {
                **self.mean(label, measure)._asdict(),
                "more_than_ours": self.more(label, measure)._asdict(),
            }
            for measure in self.measures
        }
        return {
            "method": label,
            **measured,
            "recovery": list(self.recovery(label)),
            "microseconds_per_pair": self.comparison.microseconds(label),
            "failed": [{"seed": record.seed, "why": record.failed} for record in self.comparison.failures(label)],
        }


@dataclass(frozen=True, eq=False)
class SuiteResult:
    """What ``run_suite`` returns.

    Attributes
    ----------
    outcomes : tuple of Outcome
        One for each row that was run.
    skipped : mapping from str to str
        The rows that could not be run, and why.
    """

    outcomes: tuple[Outcome, ...]
    skipped: Mapping[str, str]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the streams, the same in each row."""
        return self.outcomes[0].comparison.seeds

    @property
    def aims(self) -> list[Aim]:
        """Those of all rows, and that of the real rows together."""
        aims = [aim for outcome in self.outcomes for aim in outcome.aims]
        real = [outcome for outcome in self.outcomes if outcome.row.is_real]
        if real:
            won = sum(outcome.beats_both for outcome in real)
            what = f"rows with less error than {' and '.join(HARMLESS)}"
            aims.append(Aim("real rows", what, f"at least half of {len(real)}", won, 2 * won >= len(real)))
        return aims

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it, once NaN has become null."""
        return {
            "program": f"ocelad {ocelad.__version__}",
            "suite": "adaptivity",
            "ours": OURS,
            "seeds": list(self.seeds),
            "rows": [outcome.to_json() for outcome in self.outcomes],
            "aims": [aim._asdict() for aim in self.aims],
            "skipped": dict(self.skipped),
        }


def _short(measure: str) -> str:
    return MEASURES[measure].removesuffix(" in %")
