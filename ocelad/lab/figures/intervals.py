"""Figure 2: the dyadic intervals of RICE, the source of each learner, and the weights of the scales."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocelad.evaluation.picture_style import GREY, PALETTE, pyplot, styled
from ocelad.evaluation.plots import draw_stacked_weights
from ocelad.lab.experiments import intervals
from ocelad.lab.figures.figure import Claim, Figure, SummaryTable
from ocelad.lab.figures.figure_data import FigureData

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINEAGE_COLORS = (PALETTE[1], PALETTE[4])
_HALF_HEIGHT = 0.36  # of a bar


class Interval(NamedTuple):
    """A scale, and the first and the last round of one of its intervals, cut off at the end of the run."""

    scale: int
    first: int
    last: int


@styled
def draw(data: FigureData) -> Any:
    """Draw the intervals of the first rounds; below, the shares over long runs, and the share and loss by scale."""
    figure = pyplot().figure(figsize=(11, 8.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1.15, 1], width_ratios=[2.1, 1])
    _draw_schedule(figure, figure.add_subplot(grid[0, :]), data)
    _draw_long_runs(figure.add_subplot(grid[1, 0]), data)
    _draw_losses(figure.add_subplot(grid[1, 1]), data)
    return figure


def _draw_schedule(figure: Any, ax: Axes, data: FigureData) -> None:
    from matplotlib.patches import Rectangle

    weights, scales = data.tables["weights"], data.tables["scales"]
    share = np.full((len(scales["scale"]), weights["round"].max()), np.nan)
    share[weights["scale"], weights["round"] - 1] = 100 * weights["share"]
    intervals = all_intervals(data)
    for row, shares in enumerate(share):  # one strip per scale, with space for the arrows between them
        extent = (0.5, share.shape[1] + 0.5, row - _HALF_HEIGHT, row + _HALF_HEIGHT)
        image = ax.imshow(
            shares[None, :], extent=extent, aspect="auto", cmap="Blues", vmin=0, vmax=np.nanmax(share[1:])
        )
    for scale, first, last in intervals:
        corner = (first - 0.5, scale - _HALF_HEIGHT)
        ax.add_patch(
            Rectangle(corner, last - first + 1, 2 * _HALF_HEIGHT, fill=False, edgecolor=PALETTE[6], linewidth=0.8)
        )
    _draw_starts(ax, data)
    for color, start in zip(_LINEAGE_COLORS, _select_lineages(intervals), strict=False):
        _draw_lineage(ax, lineage(data, start), color)
    labels = [
        f"{length}: η = {1e3 * step:.2f}" for length, step in zip(scales["length"], scales["step_size"], strict=True)
    ]
    ax.set_yticks(scales["scale"], labels)
    ax.set_ylabel("interval length: step size (10⁻³)")
    ax.set_xlabel("round")
    ax.set_xlim(0, share.shape[1] + 1)
    ax.set_ylim(-0.6, len(share) - 0.4)
    ax.set_title(
        "Each learner starts from the metric of the next shorter scale (arrows; two lineages in colour)",
        loc="left",
        fontsize=10,
    )
    figure.colorbar(image, ax=ax, label="share of the ensemble (%)", pad=0.01, extend="max")


def all_intervals(data: FigureData) -> list[Interval]:
    """Return one interval per start, which lasts until the round before the next start of its scale."""
    starts, end = data.tables["starts"], int(data.tables["weights"]["round"].max())
    intervals = []
    for scale in np.unique(starts["scale"]).tolist():
        firsts = starts["round"][starts["scale"] == scale].tolist()
        intervals += [Interval(scale, first, after - 1) for first, after in pairwise([*firsts, end + 1])]
    return intervals


def lineage(data: FigureData, last: Interval) -> list[Interval]:
    """Return an interval, the interval whose learner it was started from, and so on down to the finest scale."""
    starts, intervals = data.tables["starts"], all_intervals(data)
    line = [last]
    while line[-1].scale > 0:
        scale, first, _ = line[-1]
        source = starts["source"][(starts["round"] == first) & (starts["scale"] == scale)][0]
        line.append(next(each for each in intervals if each.scale == source and each.first < first <= each.last + 1))
    return line


def _select_lineages(intervals: list[Interval]) -> list[Interval]:
    """Return the last interval of each of the two coarsest scales, without the finest."""
    scales = sorted({each.scale for each in intervals if each.scale > 0}, reverse=True)[: len(_LINEAGE_COLORS)]
    return [max(each for each in intervals if each.scale == scale) for scale in scales]


def _draw_starts(ax: Axes, data: FigureData) -> None:
    starts = data.tables["starts"]
    for first, scale, source in zip(starts["round"], starts["scale"], starts["source"], strict=True):
        if scale > source >= 0:
            _draw_arrow(ax, first, source, scale, GREY, 0.9)
    end = data.tables["weights"]["round"].max()
    ax.annotate(
        "", (end + 0.9, 0), (0.6, 0), arrowprops={"arrowstyle": "-|>", "color": GREY, "linewidth": 0.9}, zorder=3
    )


def _draw_lineage(ax: Axes, line: list[Interval], color: str) -> None:
    from matplotlib.patches import Rectangle

    for scale, first, last in line:
        corner = (first - 0.5, scale - _HALF_HEIGHT)
        outline = Rectangle(
            corner, last - first + 1, 2 * _HALF_HEIGHT, fill=False, edgecolor=color, linewidth=2.6, zorder=4
        )
        ax.add_patch(outline)
    for younger, older in pairwise(line):
        _draw_arrow(ax, younger.first, older.scale, younger.scale, color, 2.2)


def _draw_arrow(ax: Axes, first: int, source: int, scale: int, color: str, width: float) -> None:
    """Draw an arrow from the last round of the source interval to the first round of the new one."""
    style = {"arrowstyle": "-|>", "color": color, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (first, scale - _HALF_HEIGHT), (first - 1, source + _HALF_HEIGHT), arrowprops=style, zorder=5)


def _draw_long_runs(ax: Axes, data: FigureData) -> None:
    ends, lengths, shares, _ = _long_runs(data)
    draw_stacked_weights(ax, ends, shares, lengths)
    phases = data.tables["phases"]
    firsts = np.append(0, phases["last_round"][:-1])
    for name, first, last in zip(phases["phase"], firsts, phases["last_round"], strict=True):
        if first:
            ax.axvline(first, color="white", linewidth=1.2)
        label = str(name).replace(", ", ",\n").replace(" drift", "\ndrift").replace("moderate again", "moderate\nagain")
        ax.text((first + last) / 2, 1.02, label, ha="center", va="bottom", fontsize=8)
    ax.set_xlim(0, ends[-1])
    ax.set_xlabel("round")


def _draw_losses(ax: Axes, data: FigureData) -> None:
    first, lengths, losses, shares = _settled_means(data)
    scales = np.arange(len(losses))
    ax.bar(scales, 100 * shares, color=PALETTE[5], width=0.8)
    ax.set_ylabel("mean share (%), bars")
    ax.set_xlabel("interval length")
    ax.set_xticks(scales[::2], [str(length) for length in lengths[::2]], fontsize=8)
    ax.spines[["top"]].set_visible(False)
    other = ax.twinx()
    other.grid(visible=False)
    other.plot(scales, losses, "o-", color=PALETTE[1], linewidth=1.8, markersize=5)
    other.set_ylabel("mean hinge loss, line", color=PALETTE[1])
    other.tick_params(axis="y", colors=PALETTE[1])
    other.spines[["top"]].set_visible(False)
    ax.set_title(f"Share and loss from round {first} on", loc="left", fontsize=10)


class _LongRuns(NamedTuple):
    """Means of long runs: the last round of each block, the interval lengths, and one row of means per block."""

    ends: list[int]
    lengths: list[int]
    shares: np.ndarray
    losses: np.ndarray


def _long_runs(data: FigureData) -> _LongRuns:
    long = data.tables["long"]
    ends, lengths = (np.unique(long[name]).tolist() for name in ("last_round", "length"))
    return _LongRuns(ends, lengths, *(long[name].reshape(len(ends), len(lengths)) for name in ("share", "loss")))


class _SettledMeans(NamedTuple):
    """Means from the first block on in which all scales are active that are active in the last block."""

    first: int
    lengths: list[int]
    losses: np.ndarray
    shares: np.ndarray


def _settled_means(data: FigureData) -> _SettledMeans:
    ends, lengths, shares, losses = _long_runs(data)
    active = np.isfinite(losses[-1])
    since = int(np.isfinite(losses[:, active]).all(axis=1).argmax())
    active_lengths = [length for length, is_active in zip(lengths, active, strict=True) if is_active]
    means = (values[since:, active].mean(axis=0) for values in (losses, shares))
    return _SettledMeans([0, *ends][since] + 1, active_lengths, *means)


def summarize(data: FigureData) -> SummaryTable:
    """Return the mean share and loss of each scale over the long runs, from the round on in which all are active."""
    first, *means = _settled_means(data)
    rows = [[str(length), f"{share:.1%}", f"{loss:.3f}"] for length, loss, share in zip(*means, strict=True)]
    return SummaryTable([f"interval length (from round {first} on)", "mean share", "mean hinge loss"], rows)


def claims(data: FigureData) -> list[Claim]:
    """Check the paper's statements about RICE and the weights."""
    return [_counts_active(data), _starts_from_below(data), _selects_scale(data)]


def _counts_active(data: FigureData) -> Claim:
    weights = data.tables["weights"]
    rounds, counts = np.unique(weights["round"], return_counts=True)
    paper = np.floor(np.log2(rounds)).astype(int)
    if (counts == paper).all():
        return Claim("Active learners at round t", "floor(log2 t)", "floor(log2 t)", True)
    more = "floor(log2 t) + 1" if (counts == paper + 1).all() else f"{counts.tolist()}"
    remark = "by the paper's rule, the first interval of length L starts at t = L, which gives one more than its count"
    return Claim("Active learners at round t", "floor(log2 t)", f"{more} in rounds 1 to {rounds[-1]}", False, remark)


def _starts_from_below(data: FigureData) -> Claim:
    starts = data.tables["starts"]
    above = starts["scale"] > 0
    below = starts["source"][above] == starts["scale"][above] - 1
    ours = f"{below.sum()} of the {above.sum()} starts above the finest scale are from the scale below"
    remark = "the paper does not specify the finest scale; here its learner continues"
    paper = "every learner from the last estimate of the next shorter scale"
    return Claim("Source of each learner", paper, ours, bool(below.all()), remark)


def _selects_scale(data: FigureData) -> Claim:
    first, lengths, losses, shares = _settled_means(data)
    best, heaviest = int(losses.argmin()), int(shares.argmax())
    near = slice(max(best - 1, 0), best + 2)
    sums = (
        f"it and its neighbours have {shares[near].sum():.0%} of the weight, the three shortest {shares[:3].sum():.0%}"
    )
    ours = f"from round {first} on the least loss is at length {lengths[best]}; {sums}"
    remark = (
        "the weights of short intervals restart, at up to 1/2, before they can decrease" if best != heaviest else ""
    )
    return Claim("Weights", "select the appropriate scale at each time", ours, best == heaviest, remark)


FIGURE = Figure(
    name="2",
    title="Dyadic intervals and the source of each learner",
    experiment=intervals.compute_tables,
    draw=draw,
    claims=claims,
    summarize=summarize,
    settings={"trials": 20, "first_seed": 0, "shown_rounds": 31, "rounds": 6000},
    quick={"trials": 2, "rounds": 1800},
)
