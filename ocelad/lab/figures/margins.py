"""Figure 1: the margin constraints around a point of interest, before and after learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.evaluation.picture_style import GREY, PALETTE, current_theme, pyplot, styled
from ocelad.lab.experiments import margins
from ocelad.lab.figures.figure import Claim, Figure, SummaryTable
from ocelad.lab.figures.figure_data import FigureData
from ocelad.lab.statistics import paired_difference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLASSES = (("class of x", PALETTE[0], "o"), ("second class", PALETTE[1], "s"), ("third class", PALETTE[4], "^"))
_SHARES = {
    "similar": "similar pairs",
    "dissimilar": "dissimilar pairs",
    "all": "all pairs",
    "new_all": "all pairs of new points",
}


@styled
def draw(data: FigureData) -> Any:
    """Draw the points at their learned distances from the point of interest, before and after learning."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(11, 5.4), sharex=True, sharey=True, layout="constrained")
    pairs = data.metadata["settings"]["pairs"]
    for ax, when, title in ((left, "before", "Before"), (right, "after", f"After {pairs} pairs")):
        _draw_margins(ax, data, when)
        _draw_points(ax, data, when)
        ax.set_aspect("equal")
        ax.set_xlabel("distance from x, first direction")
        ax.set_title(f"{title}: {_violations(data, when)}", loc="left", fontsize=10)
    _draw_moves(right, data)
    left.set_ylabel("second direction")
    left.set_xlim(*_limits(data, 1))
    left.set_ylim(*_limits(data, 2))
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, columnspacing=1.4, frameon=False, fontsize=9)
    return figure


def _limits(data: FigureData, direction: int) -> tuple[float, float]:
    """Return the axis limits that contain the points of both panels and the circles."""
    radius = max(np.sqrt(data.tables["metrics"]["threshold"] + 1))
    coordinates = [data.tables["points"][f"{when}_x{direction}"] for when in ("before", "after")]
    return min(-radius, *map(np.min, coordinates)) - 0.25, max(radius, *map(np.max, coordinates)) + 0.25


def _metric(data: FigureData, when: str) -> dict[str, float]:
    row = data.where("metrics", when=when)
    return {name: float(column[0]) for name, column in row.items() if name != "when"}


def _violations(data: FigureData, when: str) -> str:
    points = data.tables["points"]
    count = f"{points[f'{when}_violated'].sum()} of the {len(points['class']) - 1} constraints of x are violated"
    return f"{count}; μ = {_metric(data, when)['threshold']:.2f}"


def _draw_margins(ax: Axes, data: FigureData, when: str) -> None:
    from matplotlib.patches import Circle

    mu = _metric(data, when)["threshold"]
    inner, outer = np.sqrt(mu - 1), np.sqrt(mu + 1)
    ax.add_patch(Circle((0, 0), outer, facecolor=current_theme().grid, edgecolor="none", zorder=0))
    ax.add_patch(Circle((0, 0), inner, facecolor="none", edgecolor=PALETTE[0], linewidth=1.6, zorder=1))
    ax.add_patch(Circle((0, 0), inner, facecolor=PALETTE[0], edgecolor="none", alpha=0.15, zorder=1))
    ax.add_patch(Circle((0, 0), outer, facecolor="none", edgecolor=GREY, linewidth=1.6, linestyle="--", zorder=1))
    ax.plot([], [], color=PALETTE[0], linewidth=1.6, label="d² = μ − 1, same class: inside")
    ax.plot([], [], "--", color=GREY, linewidth=1.6, label="d² = μ + 1, others: outside")


def _draw_points(ax: Axes, data: FigureData, when: str) -> None:
    points = data.tables["points"]
    x1, x2, violated = (points[f"{when}_{name}"] for name in ("x1", "x2", "violated"))
    others = np.arange(len(violated)) > 0
    for number, (name, color, marker) in enumerate(_CLASSES):
        for broken in (False, True):
            chosen = others & (points["class"] == number) & (violated == broken)
            ax.scatter(
                x1[chosen],
                x2[chosen],
                s=46,
                marker=marker,
                facecolor=current_theme().background if broken else color,
                edgecolor=color,
                linewidth=1.8,
                label=name + (", violated" if broken else ""),
                zorder=4,
            )
    ax.scatter([0], [0], s=190, marker="*", color=PALETTE[6], label="x", zorder=5)


def _draw_moves(ax: Axes, data: FigureData) -> None:
    """Draw an arrow for each point whose constraint was violated before learning."""
    points = data.tables["points"]
    ax.plot([], [], color=GREY, linewidth=0.8, marker=">", markevery=[-1], label="moved, was violated")
    for i in np.flatnonzero(points["before_violated"]):
        ax.annotate(
            "",
            (points["after_x1"][i], points["after_x2"][i]),
            (points["before_x1"][i], points["before_x2"][i]),
            arrowprops={"arrowstyle": "-|>", "color": GREY, "linewidth": 0.8, "alpha": 0.8, "shrinkB": 4},
            zorder=3,
        )


def summarize(data: FigureData) -> SummaryTable:
    """Return the mean shares of violated constraints before and after learning."""
    rows = []
    for when in ("before", "after"):
        violated = data.where("violated", when=when)
        rows.append([when, *(f"{violated[column].mean():.1%}" for column in _SHARES)])
    return SummaryTable(["violated", *_SHARES.values()], rows)


def claims(data: FigureData) -> list[Claim]:
    """Check the statements of the caption."""
    nearer = "target neighbours move towards the point of interest"
    farther = "points of other classes move away from the target neighbourhood"
    return [
        _fewer(data, "similar", nearer, "of the pairs within a class violate the constraint"),
        _fewer(data, "dissimilar", farther, "of the pairs across classes violate the constraint"),
    ]


def _fewer(data: FigureData, kind: str, paper: str, subject: str) -> Claim:
    """Check whether significantly fewer constraints are violated after learning than before."""
    before, after = (data.where("violated", when=when)[kind] for when in ("before", "after"))
    pairs = data.metadata["settings"]["pairs"]
    ours = f"{before.mean():.1%} {subject}; after {pairs} pairs {after.mean():.1%} ({len(before)} trials)"
    return Claim(_SHARES[kind].capitalize(), paper, ours, paired_difference(before, after).significant_sign == 1)


FIGURE = Figure(
    name="1",
    title="Margin constraints before and after learning",
    experiment=margins.compute_tables,
    draw=draw,
    claims=claims,
    summarize=summarize,
    settings={"trials": 200, "first_seed": 1, "pairs": 300},
    quick={"trials": 10},
)
