"""The demonstration: four methods on the paper's drifting stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.adaptive.changes import Change
from ocelad.adaptive.expert_names import expert_group, group_weights
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.engines.rice import track_metric
from ocelad.evaluation.picture_style import GREY, PALETTE, current_theme, mark_round, pyplot, save_figure, styled
from ocelad.evaluation.plots import draw_stacked_weights, mark_changes
from ocelad.evaluation.prequential import FixedMetric, ScoreRow, SingleLearner, Tracker, prequential_scores
from ocelad.evaluation.streams import PAPER_PHASES, DriftingClusters, Phase
from ocelad.learners.comid import Comid
from ocelad.metric import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ADAPTIVE = "adaptive"
RICE = "RICE-OCELAD"
EUCLIDEAN = "Euclidean"
# The best of 1e-3, 3e-3 and 1e-2 in the first phase, in which nothing drifts
# (ocelad compare comid:loss=logistic,step_size=1e-3 ... --first-seed 0).
FIXED_STEP_SIZE = 3e-3
FIXED = f"COMID {FIXED_STEP_SIZE:g}"
COLORS = {ADAPTIVE: PALETTE[2], RICE: PALETTE[0], FIXED: PALETTE[1], EUCLIDEAN: GREY}
EVALUATIONS = 60


@dataclass(frozen=True)
class DemoProgress:
    """The state of the demonstration after a round.

    Attributes
    ----------
    round : int
    phase : Phase
    knn_error : float or None
        The error of the method adaptive at the last evaluation; None before the first.
    top_experts : str
        The experts of the method adaptive with the largest weight since the last evaluation, in words.
    change : Change or None
        A change of the question that the method adaptive has detected in this round.
    """

    round: int
    phase: Phase
    knn_error: float | None
    top_experts: str
    change: Change | None = None


class PhaseSummary(NamedTuple):
    """What the method adaptive has done in a phase.

    Attributes
    ----------
    phase : Phase
    top_experts : str
        The experts with the largest weight, in words.
    weight : float
        Their mean weight.
    drift : float
        The mean relative change of the metric per 1000 rounds.
    changes : list of Change
        Those detected in the phase.
    """

    phase: Phase
    top_experts: str
    weight: float
    drift: float
    changes: list[Change]


class Demo:
    """One run over the stream. Iterating over it runs it; then it can be drawn.

    Parameters
    ----------
    seed : int
        Seed of the stream.
    rounds : int
        Length of the stream; the paper's phases are scaled to fit.

    Examples
    --------
    >>> demo = Demo(seed=0, rounds=60)
    >>> [progress.round for progress in demo][-1]
    60
    >>> len(demo.rows)  # 60 evaluations of four methods
    240
    >>> demo.summaries()[0].top_experts
    'plain distance'
    """

    def __init__(self, seed: int = 0, rounds: int = 6000) -> None:
        self.stream = DriftingClusters(scale_phases(rounds), seed=seed)
        self.every = max(1, len(self.stream) // EVALUATIONS)
        self.rows: list[ScoreRow] = []
        # Of the method adaptive, at each evaluation: the mean weights of its experts and its mean drift since the last.
        self.rounds: list[int] = []
        self.weights: list[Floats] = []
        self.drifts: list[float] = []
        self.changes: list[Change] = []
        self.experts: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[DemoProgress]:
        self.rows, self.rounds, self.weights, self.drifts, self.changes = [], [], [], [], []
        n = self.stream.n_features
        start = Metric(np.eye(n) / n)
        adaptive = track_adaptive(n)
        self.experts = adaptive.expert_names
        trackers: dict[str, Tracker] = {
            ADAPTIVE: adaptive,
            RICE: track_metric(n),
            FIXED: SingleLearner(Comid(start, step_size=FIXED_STEP_SIZE, loss="logistic")),
            EUCLIDEAN: FixedMetric(start),
        }
        weights, drift, since, error, top = np.zeros(len(self.experts)), 0.0, 0, None, expert_group(self.experts[0])
        for step, rows in prequential_scores(self.stream, trackers, every=self.every):
            self.rows += rows
            for row in rows:
                error = row.knn_error if row.method == ADAPTIVE else error
            weights, drift, since = weights + adaptive.expert_weights, drift + adaptive.drift, since + 1
            change = None
            if adaptive.changes and adaptive.changes[-1].detected == step.round:
                change = adaptive.changes[-1]
                self.changes.append(change)
            if rows:
                self.rounds.append(step.round)
                self.weights.append(weights / since)
                self.drifts.append(1000 * drift / since)
                top = self._top_experts(weights[None] / since)[0]
                weights, drift, since = np.zeros(len(self.experts)), 0.0, 0
            yield DemoProgress(step.round, step.phase, error, top, change)

    def _top_experts(self, weights: Floats) -> tuple[str, float]:
        """Return the group of experts with the largest mean weight, and that weight."""
        groups, shares = group_weights(self.experts, weights, smallest=0.0)
        means = shares.mean(axis=0)
        return groups[int(means.argmax())], float(means.max())

    def summaries(self) -> list[PhaseSummary]:
        """Return what the method adaptive has done in each phase."""
        ends = np.cumsum([0] + [phase.length for phase in self.stream.phases])
        summaries = []
        for phase, first, last in zip(self.stream.phases, ends, ends[1:], strict=False):
            inside = [k for k, t in enumerate(self.rounds) if first < t <= last]
            top, weight = self._top_experts(np.array([self.weights[k] for k in inside]))
            changes = [change for change in self.changes if first < change.detected <= last]
            drift = float(np.mean([self.drifts[k] for k in inside]))
            summaries.append(PhaseSummary(phase, top, weight, drift, changes))
        return summaries

    def overall(self, method: str) -> tuple[float, float]:
        """Return the mean k-NN error and the mean NMI of a method over the whole stream."""
        return _mean_scores(row for row in self.rows if row.method == method)

    def by_phase(self, method: str) -> list[tuple[float, float]]:
        """Return the mean k-NN error and the mean NMI of a method in each phase."""
        return [
            _mean_scores(row for row in self.rows if row.method == method and row.phase == phase.name)
            for phase in self.stream.phases
        ]

    @styled
    def draw(self, path: str | Path) -> None:
        """Draw four panels over time: the stream, the k-NN errors, and the drift and the experts of the default method.

        ``theme`` is "light" or "dark".
        """
        if not self.rows:
            raise RuntimeError("there is nothing to draw yet: iterate over the Demo first")
        figure, (top, errors, drift, experts) = pyplot().subplots(
            4, 1, figsize=(10, 9.6), sharex=True, height_ratios=[1, 2.2, 1, 1.9], layout="constrained"
        )
        _draw_phases(top, self.stream.phases)
        for method, color in COLORS.items():
            rows = [row for row in self.rows if row.method == method]
            at, values = [row.round for row in rows], [100 * row.knn_error for row in rows]
            errors.plot(at, values, color=color, linewidth=2, label=method)
        errors.set_ylabel("5-NN error (%)")
        errors.set_ylim(bottom=0)
        errors.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        drift.stairs(self.drifts, [0, *self.rounds], baseline=None, color=COLORS[ADAPTIVE], linewidth=1.8)
        drift.set_ylim(bottom=0)
        drift.set_ylabel("drift_\nper 1000 rounds")
        drift.set_title(
            f"What the method {ADAPTIVE} shows: how fast its distance moves, and the weights of its experts"
        )
        groups, weights = group_weights(self.experts, np.array(self.weights))
        draw_stacked_weights(experts, self.rounds, weights, groups)
        experts.set_xlabel("round")
        experts.set_xlim(0, len(self.stream))
        for ax in (errors, drift, experts):
            for end in np.cumsum([phase.length for phase in self.stream.phases])[:-1]:
                mark_round(ax, float(end))
        mark_changes((drift, experts), self.changes)
        figure.align_ylabels()
        save_figure(figure, path, Title=f"ocelad demo --seed {self.stream.seed} --rounds {len(self.stream)}")


def scale_phases(rounds: int) -> tuple[Phase, ...]:
    """Return the paper's phases, scaled to this number of rounds in total.

    >>> [phase.length for phase in scale_phases(600)]
    [100, 100, 100, 100, 200]
    """
    check_integer(rounds, "rounds", at_least=60)
    total = sum(phase.length for phase in PAPER_PHASES)
    ends = np.cumsum([0] + [phase.length for phase in PAPER_PHASES]) * rounds // total
    lengths = np.diff(ends)
    return tuple(replace(phase, length=int(length)) for phase, length in zip(PAPER_PHASES, lengths, strict=True))


def _mean_scores(rows: Iterable[ScoreRow]) -> tuple[float, float]:
    error, nmi = np.mean([(row.knn_error, row.nmi) for row in rows], axis=0)
    return float(error), float(nmi)


def _draw_phases(ax: Axes, phases: Sequence[Phase]) -> None:
    """Draw how fast the stream drifts, and where the question changes."""
    ends = np.cumsum([0] + [phase.length for phase in phases])
    ax.stairs([phase.drift for phase in phases], ends, baseline=None, color=PALETTE[6], linewidth=2)
    top = 1.9 * max(phase.drift for phase in phases)
    for phase, start, end in zip(phases, ends, ends[1:], strict=False):
        ax.text((start + end) / 2, 0.97 * top, phase.name, ha="center", va="top", fontsize=9)
    for before, after, end in zip(phases, phases[1:], ends[1:], strict=False):
        mark_round(ax, float(end))
        if before.clustering != after.clustering:
            label = f"{before.clustering} → {after.clustering}"
            box = {"facecolor": current_theme().background, "edgecolor": PALETTE[1], "boxstyle": "round,pad=0.25"}
            ax.text(end, 0.52 * top, label, ha="center", va="center", fontsize=9, color=PALETTE[1], bbox=box)
    ax.set_ylim(0, top)
    ax.set_ylabel("drift of the\nstream")
    ax.grid(visible=False)
