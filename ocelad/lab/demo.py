"""The demonstration: four methods on the paper's drifting stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.adaptive.track_adaptive import track_adaptive
from ocelad.engines.rice import track_metric
from ocelad.ensemble.schedule import Schedule
from ocelad.evaluation.plots import draw_stacked_weights, pyplot
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
COLORS = {ADAPTIVE: "#009E73", RICE: "#0072B2", FIXED: "#D55E00", EUCLIDEAN: "#777777"}
EVALUATIONS = 60
# More scales than any stream has.
_MAX_SCALES = 64


@dataclass(frozen=True)
class DemoProgress:
    """The state of the demonstration after a round.

    Attributes
    ----------
    round : int
    phase : Phase
    knn_error : float or None
        The error of the method adaptive at the last evaluation; None before the first.
    top_length : int
        The interval length of RICE-OCELAD that had the largest share since the last evaluation.
    """

    round: int
    phase: Phase
    knn_error: float | None
    top_length: int


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
    """

    def __init__(self, seed: int = 0, rounds: int = 6000) -> None:
        self.stream = DriftingClusters(scale_phases(rounds), seed=seed)
        self.every = max(1, len(self.stream) // EVALUATIONS)
        self.rows: list[ScoreRow] = []
        self.shares: list[Floats] = []
        self.share_rounds: list[int] = []

    def __iter__(self) -> Iterator[DemoProgress]:
        self.rows, self.shares, self.share_rounds = [], [], []
        n = self.stream.n_features
        start = Metric(np.eye(n) / n)
        rice = track_metric(n)
        trackers: dict[str, Tracker] = {
            ADAPTIVE: track_adaptive(n),
            RICE: rice,
            FIXED: SingleLearner(Comid(start, step_size=FIXED_STEP_SIZE, loss="logistic")),
            EUCLIDEAN: FixedMetric(start),
        }
        sums, error = np.zeros(_MAX_SCALES), None
        for step, rows in prequential_scores(self.stream, trackers, every=self.every):
            self.rows += rows
            for row in rows:
                error = row.knn_error if row.method == ADAPTIVE else error
            probabilities = rice.round_state.probabilities
            sums[: len(probabilities)] += probabilities
            if rows:
                # The weights change with every start of an interval, so that the mean since the last evaluation is
                # shown.
                self.shares.append(sums / sums.sum())
                self.share_rounds.append(step.round)
                sums = np.zeros(_MAX_SCALES)
            shares = self.shares[-1] if self.shares else sums
            yield DemoProgress(step.round, step.phase, error, _interval_length(int(shares.argmax())))

    def overall(self, method: str) -> tuple[float, float]:
        """Return the mean k-NN error and the mean NMI of a method over the whole stream."""
        return _mean_scores(row for row in self.rows if row.method == method)

    def by_phase(self, method: str) -> list[tuple[float, float]]:
        """Return the mean k-NN error and the mean NMI of a method in each phase."""
        return [
            _mean_scores(row for row in self.rows if row.method == method and row.phase == phase.name)
            for phase in self.stream.phases
        ]

    def draw(self, path: str | Path) -> None:
        """Draw three panels over time: the drift, the k-NN errors, and the share of each interval length."""
        if not self.rows:
            raise RuntimeError("there is nothing to draw yet: iterate over the Demo first")
        plt = pyplot()
        figure, (top, middle, bottom) = plt.subplots(
            3, 1, figsize=(9, 8.4), sharex=True, height_ratios=[1, 2.2, 1.8], layout="constrained"
        )
        _draw_drift(top, self.stream.phases)
        for method, color in COLORS.items():
            rows = [row for row in self.rows if row.method == method]
            middle.plot(
                [row.round for row in rows],
                [100 * row.knn_error for row in rows],
                color=color,
                linewidth=2,
                label=method,
            )
        middle.set_ylabel("5-NN error (%)")
        middle.set_ylim(bottom=0)
        middle.legend(frameon=False, ncols=len(COLORS), loc="lower center", bbox_to_anchor=(0.5, 1.0))
        shares = np.array(self.shares)
        draw_stacked_weights(bottom, self.share_rounds, shares, [_interval_length(j) for j in range(shares.shape[1])])
        bottom.set_xlabel("round")
        for ax in (top, middle, bottom):
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_xlim(0, len(self.stream))
        for ax in (middle, bottom):
            for end in np.cumsum([phase.length for phase in self.stream.phases])[:-1]:
                ax.axvline(end, color="#bbbbbb", linewidth=0.8, zorder=0)
        command = f"ocelad demo --seed {self.stream.seed} --rounds {len(self.stream)}"
        figure.savefig(path, dpi=120, metadata={"Title": command})
        plt.close(figure)


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


def _interval_length(scale: int) -> int:
    return Schedule().scale(scale).length


def _mean_scores(rows: Iterable[ScoreRow]) -> tuple[float, float]:
    error, nmi = np.mean([(row.knn_error, row.nmi) for row in rows], axis=0)
    return float(error), float(nmi)


def _draw_drift(ax: Axes, phases: Sequence[Phase]) -> None:
    ends = np.cumsum([0] + [phase.length for phase in phases])
    ax.stairs([phase.drift for phase in phases], ends, baseline=None, color="#333333", linewidth=2)
    top = 1.6 * max(phase.drift for phase in phases)
    for phase, start, end in zip(phases, ends, ends[1:], strict=False):
        ax.text((start + end) / 2, 0.97 * top, phase.name, ha="center", va="top", fontsize=8)
    for before, after, end in zip(phases, phases[1:], ends[1:], strict=False):
        if before.clustering != after.clustering:
            ax.axvline(end, color="#CC3311", linewidth=1.2, linestyle=":")
            label = f"{before.clustering} → {after.clustering}"
            ax.text(
                end, 0.62 * top, label, ha="center", va="center", fontsize=9, color="#CC3311", backgroundcolor="white"
            )
    ax.set_ylim(0, top)
    ax.set_ylabel("drift per round")
