"""Figure 2: the dyadic intervals of RICE, who is started from whom, and how the scales are weighed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ocelad.evaluation.plots import GREY, PALETTE, draw_shares, pyplot
from ocelad.lab.experiments import intervals
from ocelad.lab.figures.figure import Claim, Figure, Shown
from ocelad.lab.figures.rows import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINEAGES = (PALETTE[1], PALETTE[4])
_HALF = 0.36  # of the height of a bar


class Interval(NamedTuple):
    """A scale, and the first and the last round of one of its intervals; a last round beyond the run is cut off."""

    scale: int
    first: int
    last: int


def draw(rows: Rows) -> Any:
    """The intervals of the first rounds; below, the shares over a long run, and what each scale loses."""
    figure = pyplot().figure(figsize=(11, 8.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1.15, 1], width_ratios=[2.1, 1])
    _draw_schedule(figure, figure.add_subplot(grid[0, :]), rows)
    _draw_long(figure.add_subplot(grid[1, 0]), rows)
    _draw_losses(figure.add_subplot(grid[1, 1]), rows)
    return figure


def _draw_schedule(figure: Any, ax: Axes, rows: Rows) -> None:
    from matplotlib.patches import Rectangle

    weights, scales = rows.tables["weights"], rows.tables["scales"]
    share = np.full((len(scales["scale"]), weights["round"].max()), np.nan)
    share[weights["scale"], weights["round"] - 1] = 100 * weights["share"]
    every = all_intervals(rows)
    for row, shares in enumerate(share):  # one strip for each scale, with room between for the arrows
        extent = (0.5, share.shape[1] + 0.5, row - _HALF, row + _HALF)
        image = ax.imshow(
            shares[None, :], extent=extent, aspect="auto", cmap="Blues", vmin=0, vmax=np.nanmax(share[1:])
        )
    for scale, first, last in every:
        corner = (first - 0.5, scale - _HALF)
        ax.add_patch(Rectangle(corner, last - first + 1, 2 * _HALF, fill=False, edgecolor="#333333", linewidth=0.8))
    _draw_starts(ax, rows)
    for color, start in zip(_LINEAGES, _shown_lineages(every), strict=False):
        _draw_lineage(ax, lineage(rows, start), color)
    labels = [
        f"{length}: η = {1e3 * step:.2f}" for length, step in zip(scales["length"], scales["step_size"], strict=True)
    ]
    ax.set_yticks(scales["scale"], labels)
    ax.set_ylabel("length of intervals: step size (10⁻³)")
    ax.set_xlabel("round")
    ax.set_xlim(0, share.shape[1] + 1)
    ax.set_ylim(-0.6, len(share) - 0.4)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(
        "Each learner starts from what the next shorter scale has learned (arrows; two lines of descent in colour)",
        loc="left",
        fontsize=10,
    )
    figure.colorbar(image, ax=ax, label="share of the ensemble (%)", pad=0.01, extend="max")


def all_intervals(rows: Rows) -> list[Interval]:
    """One for each start, to the round before the next start of its scale."""
    starts, end = rows.tables["starts"], int(rows.tables["weights"]["round"].max())
    found = []
    for scale in np.unique(starts["scale"]).tolist():
        firsts = starts["round"][starts["scale"] == scale].tolist()
        found += [Interval(scale, first, after - 1) for first, after in pairwise([*firsts, end + 1])]
    return found


def lineage(rows: Rows, last: Interval) -> list[Interval]:
    """An interval, the one whose learner it was started from, and so on down to the finest scale."""
    starts, every = rows.tables["starts"], all_intervals(rows)
    line = [last]
    while line[-1].scale > 0:
        scale, first, _ = line[-1]
        source = starts["source"][(starts["round"] == first) & (starts["scale"] == scale)][0]
        line.append(next(one for one in every if one.scale == source and one.first < first <= one.last + 1))
    return line


def _shown_lineages(every: list[Interval]) -> list[Interval]:
    """Of the two coarsest scales that are above the finest: the last interval."""
    scales = sorted({one.scale for one in every if one.scale > 0}, reverse=True)[: len(_LINEAGES)]
    return [max(one for one in every if one.scale == scale) for scale in scales]


def _draw_starts(ax: Axes, rows: Rows) -> None:
    starts = rows.tables["starts"]
    for first, scale, source in zip(starts["round"], starts["scale"], starts["source"], strict=True):
        if scale > source >= 0:
            _arrow(ax, first, source, scale, GREY, 0.9)
    end = rows.tables["weights"]["round"].max()
    ax.annotate(
        "", (end + 0.9, 0), (0.6, 0), arrowprops={"arrowstyle": "-|>", "color": GREY, "linewidth": 0.9}, zorder=3
    )


def _draw_lineage(ax: Axes, line: list[Interval], color: str) -> None:
    from matplotlib.patches import Rectangle

    for scale, first, last in line:
        corner = (first - 0.5, scale - _HALF)
        outline = Rectangle(corner, last - first + 1, 2 * _HALF, fill=False, edgecolor=color, linewidth=2.6, zorder=4)
        ax.add_patch(outline)
    for younger, older in pairwise(line):
        _arrow(ax, younger.first, older.scale, younger.scale, color, 2.2)


def _arrow(ax: Axes, first: int, source: int, scale: int, color: str, width: float) -> None:
    """From the last round of the one below to the first round of the one that starts."""
    style = {"arrowstyle": "-|>", "color": color, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (first, scale - _HALF), (first - 1, source + _HALF), arrowprops=style, zorder=5)


def _draw_long(ax: Axes, rows: Rows) -> None:
    ends, lengths, shares, _ = _long(rows)
    draw_shares(ax, ends, shares, lengths)
    phases = rows.tables["phases"]
    firsts = np.append(0, phases["last_round"][:-1])
    for name, first, last in zip(phases["phase"], firsts, phases["last_round"], strict=True):
        if first:
            ax.axvline(first, color="white", linewidth=1.2)
        words = str(name).replace(", ", ",\n").replace(" drift", "\ndrift").replace("moderate again", "moderate\nagain")
        ax.text((first + last) / 2, 1.02, words, ha="center", va="bottom", fontsize=8)
    ax.set_xlim(0, ends[-1])
    ax.set_xlabel("round")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_losses(ax: Axes, rows: Rows) -> None:
    first, lengths, losses, shares = _settled(rows)
    scales = np.arange(len(losses))
    ax.bar(scales, 100 * shares, color=PALETTE[5], width=0.8)
    ax.set_ylabel("mean share (%), bars")
    ax.set_xlabel("length of intervals")
    ax.set_xticks(scales[::2], [str(length) for length in lengths[::2]], fontsize=8)
    ax.spines[["top"]].set_visible(False)
    other = ax.twinx()
    other.plot(scales, losses, "o-", color=PALETTE[1], linewidth=1.8, markersize=5)
    other.set_ylabel("mean hinge loss, line", color=PALETTE[1])
    other.tick_params(axis="y", colors=PALETTE[1])
    other.spines[["top"]].set_visible(False)
    ax.set_title(f"Weight and loss, from round {first} on", loc="left", fontsize=10)


class _Long(NamedTuple):
    """Long runs: the last round of each stretch, the lengths of the scales, and a row of both means per stretch."""

    ends: list[int]
    lengths: list[int]
    shares: np.ndarray
    losses: np.ndarray


def _long(rows: Rows) -> _Long:
    long = rows.tables["long"]
    ends, lengths = (np.unique(long[name]).tolist() for name in ("last_round", "length"))
    return _Long(ends, lengths, *(long[name].reshape(len(ends), len(lengths)) for name in ("share", "loss")))


class _Settled(NamedTuple):
    """Means from the first round on in which all scales are there that are there when the last stretch begins."""

    first: int
    lengths: list[int]
    losses: np.ndarray
    shares: np.ndarray


def _settled(rows: Rows) -> _Settled:
    ends, lengths, shares, losses = _long(rows)
    known = np.isfinite(losses[-1])
    since = int(np.isfinite(losses[:, known]).all(axis=1).argmax())
    some = [length for length, is_known in zip(lengths, known, strict=True) if is_known]
    means = (values[since:, known].mean(axis=0) for values in (losses, shares))
    return _Settled([0, *ends][since] + 1, some, *means)


def shown(rows: Rows) -> Shown:
    """The share and the loss of each scale over the long runs, from when all scales are there."""
    first, *means = _settled(rows)
    body = [[str(length), f"{share:.1%}", f"{loss:.3f}"] for length, loss, share in zip(*means, strict=True)]
    return Shown([f"length of intervals (from round {first} on)", "mean share", "mean hinge loss"], body)


def claims(rows: Rows) -> list[Claim]:
    """What the paper says of RICE and of the weights, and what the run did."""
    return [_active(rows), _sources(rows), _selects(rows)]


def _active(rows: Rows) -> Claim:
    weights = rows.tables["weights"]
    rounds, counts = np.unique(weights["round"], return_counts=True)
    paper = np.floor(np.log2(rounds)).astype(int)
    if (counts == paper).all():
        return Claim("Active learners at round t", "floor(log2 t)", "floor(log2 t)", True)
    more = "floor(log2 t) + 1" if (counts == paper + 1).all() else f"{counts.tolist()}"
    remark = "the paper's own rule, that the first interval of length L starts at t = L, gives one more than it counts"
    return Claim("Active learners at round t", "floor(log2 t)", f"{more} in rounds 1 to {rounds[-1]}", False, remark)


def _sources(rows: Rows) -> Claim:
    starts = rows.tables["starts"]
    above = starts["scale"] > 0
    below = starts["source"][above] == starts["scale"][above] - 1
    ours = f"{below.sum()} of the {above.sum()} starts above the finest scale are from the scale below"
    remark = "what the finest does is left open; here it carries on"
    paper = "every learner from the last estimate of the next shorter scale"
    return Claim("Who is started from whom", paper, ours, bool(below.all()), remark)


def _selects(rows: Rows) -> Claim:
    first, lengths, losses, shares = _settled(rows)
    best, heaviest = int(losses.argmin()), int(shares.argmax())
    near = slice(max(best - 1, 0), best + 2)
    held = f"it and its neighbours hold {shares[near].sum():.0%}, and the three shortest {shares[:3].sum():.0%}"
    ours = f"from round {first} on the least loss is at length {lengths[best]}; {held}"
    remark = "the weights of short intervals begin anew, at up to 1/2, before they can fall" if best != heaviest else ""
    return Claim("Weights", "select the appropriate scale at each time", ours, best == heaviest, remark)


FIGURE = Figure(
    name="2",
    title="Learners on dyadic intervals, each started from a shorter one",
    experiment=intervals.tables,
    draw=draw,
    claims=claims,
    shown=shown,
    settings={"trials": 20, "first_seed": 0, "shown_rounds": 31, "rounds": 6000},
    quick={"trials": 2, "rounds": 1800},
)
