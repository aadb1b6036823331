"""The demonstration: both methods on the paper's drifting stream, beside doing nothing and one fixed rate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ocelad._typing import Floats
from ocelad._validation import check_integer
from ocelad.adaptive.track import track_adaptive
from ocelad.engines.track import track_metric
from ocelad.ensemble.schedule import Schedule
from ocelad.evaluation.plots import draw_shares, pyplot
from ocelad.evaluation.prequential import Alone, Frozen, Row, Tracker, prequential
from ocelad.evaluation.streams import PAPER_PHASES, DriftingClusters, Phase
from ocelad.learners.comid import Comid
from ocelad.metric import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ADAPTIVE = "adaptive"
TRACKED = "RICE-OCELAD"
EUCLIDEAN = "Euclidean"
# The best of 1e-3, 3e-3 and 1e-2 in the first, static phase: what one would choose before anything drifts
# (ocelad compare comid:loss=logistic,step_size=1e-3 ... --first-seed 0).
FIXED_RATE = 3e-3
FIXED = f"COMID {FIXED_RATE:g}"
COLORS = {ADAPTIVE: "#009E73", TRACKED: "#0072B2", FIXED: "#D55E00", EUCLIDEAN: "#777777"}
EVALUATIONS = 60


@dataclass(frozen=True)
class Snapshot:
    """Where the demonstration is: the round that passed, and what the last evaluation said."""

    round: int
    phase: Phase
    knn_error: float | None
    heaviest_length: int


class Demo:
    """One run over the stream; iterate over it to make it happen, then draw it.

    Examples
    --------
    >>> demo = Demo(seed=0, rounds=60)
    >>> [snapshot.round for snapshot in demo][-1]
    60
    >>> len(demo.rows)  # 60 evaluations of four methods
    240
    """

    def __init__(self, seed: int = 0, rounds: int = 6000) -> None:
        self.stream = DriftingClusters(phases_of(rounds), seed=seed)
        self.every = max(1, len(self.stream) // EVALUATIONS)
        self.rows: list[Row] = []
        self.shares: list[Floats] = []
        self.share_rounds: list[int] = []

    def __iter__(self) -> Iterator[Snapshot]:
        self.rows, self.shares, self.share_rounds = [], [], []
        n = self.stream.n_features
        start = Metric(np.eye(n) / n)
        tracker = track_metric(n)
        trackers: dict[str, Tracker] = {
            ADAPTIVE: track_adaptive(n),
            TRACKED: tracker,
            FIXED: Alone(Comid(start, step_size=FIXED_RATE, loss="logistic")),
            EUCLIDEAN: Frozen(start),
        }
        sums, error = np.zeros(64), None
        for moment, rows in prequential(self.stream, trackers, every=self.every):
            self.rows += rows
            for row in rows:
                error = row.knn_error if row.method == ADAPTIVE else error
            probabilities = tracker.round_state.probabilities
            sums[: len(probabilities)] += probabilities
            if rows:
                # Averaged since the last evaluation: the weights swing with every start of an interval.
                self.shares.append(sums / sums.sum())
                self.share_rounds.append(moment.round)
                sums = np.zeros(64)
            shares = self.shares[-1] if self.shares else sums
            yield Snapshot(moment.round, moment.phase, error, self._length(int(shares.argmax())))

    def _length(self, scale: int) -> int:
        return Schedule().scale(scale).length

    def overall(self, method: str) -> tuple[float, float]:
        """Mean k-NN error and NMI of a method over the whole stream."""
        return _means(row for row in self.rows if row.method == method)

    def by_phase(self, method: str) -> list[tuple[float, float]]:
        """Mean k-NN error and NMI of a method in each phase."""
        return [
            _means(row for row in self.rows if row.method == method and row.phase == phase.name)
            for phase in self.stream.phases
        ]

    def draw(self, path: str | Path) -> None:
        """Three rows over time: drift rate, k-NN error, and the share of each scale."""
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
        draw_shares(bottom, self.share_rounds, shares, [self._length(j) for j in range(shares.shape[1])])
        bottom.set_xlabel("round")
        for ax in (top, middle, bottom):
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_xlim(0, len(self.stream))
        for ax in (middle, bottom):
            for end in np.cumsum([phase.length for phase in self.stream.phases])[:-1]:
                ax.axvline(end, color="#bbbbbb", linewidth=0.8, zorder=0)
        metadata = f"ocelad demo --seed {self.stream.seed} --rounds {len(self.stream)}"
        figure.savefig(path, dpi=120, metadata={"Title": metadata})
        plt.close(figure)


def phases_of(rounds: int) -> tuple[Phase, ...]:
    """The paper's phases, stretched or squeezed to so many rounds in all.

    >>> [phase.length for phase in phases_of(600)]
    [100, 100, 100, 100, 200]
    """
    check_integer(rounds, "rounds", at_least=60)
    total = sum(phase.length for phase in PAPER_PHASES)
    ends = np.cumsum([0] + [phase.length for phase in PAPER_PHASES]) * rounds // total
    lengths = np.diff(ends)
    return tuple(replace(phase, length=int(length)) for phase, length in zip(PAPER_PHASES, lengths, strict=True))


def _means(rows: Iterable[Row]) -> tuple[float, float]:
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
