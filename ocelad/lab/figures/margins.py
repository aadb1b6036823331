"""Figure 1: the margin constraints around a point of interest, before and after a COMID learner has seen pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.evaluation.plots import GREY, PALETTE, pyplot
from ocelad.lab.experiments import margins
from ocelad.lab.figures.differences import is_above_chance
from ocelad.lab.figures.figure import Claim, Figure, Shown
from ocelad.lab.figures.rows import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLASSES = (("its class", PALETTE[0], "o"), ("another class", PALETTE[1], "s"), ("a third class", PALETTE[4], "^"))
_SHARES = {
    "similar": "similar pairs",
    "dissimilar": "dissimilar pairs",
    "all": "all pairs",
    "new_all": "all pairs of new points",
}


def draw(rows: Rows) -> Any:
    """The points as the metric sees them, around the point of interest, before and after."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(11, 5.4), sharex=True, sharey=True, layout="constrained")
    pairs = rows.metadata["settings"]["pairs"]
    for ax, when, title in ((left, "before", "Before"), (right, "after", f"After {pairs} pairs")):
        _draw_margins(ax, rows, when)
        _draw_points(ax, rows, when)
        ax.set_aspect("equal")
        ax.set_xlabel("distance from x, first direction")
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_title(f"{title}: {_violations(rows, when)}", loc="left", fontsize=10)
    _draw_moves(right, rows)
    left.set_ylabel("second direction")
    left.set_xlim(*_limits(rows, 1))
    left.set_ylim(*_limits(rows, 2))
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, columnspacing=1.4, frameon=False, fontsize=9)
    return figure


def _limits(rows: Rows, direction: int) -> tuple[float, float]:
    """From where to where the points of both panels and the circles are."""
    circle = max(np.sqrt(rows.tables["metrics"]["threshold"] + 1))
    places = [rows.tables["points"][f"{when}_x{direction}"] for when in ("before", "after")]
    return min(-circle, *map(np.min, places)) - 0.25, max(circle, *map(np.max, places)) + 0.25


def _metric(rows: Rows, when: str) -> dict[str, float]:
    row = rows.where("metrics", when=when)
    return {name: float(column[0]) for name, column in row.items() if name != "when"}


def _violations(rows: Rows, when: str) -> str:
    points = rows.tables["points"]
    count = f"{points[f'{when}_violated'].sum()} of the {len(points['class']) - 1} constraints of x are violated"
    return f"{count}; μ = {_metric(rows, when)['threshold']:.2f}"


def _draw_margins(ax: Axes, rows: Rows, when: str) -> None:
    from matplotlib.patches import Circle

    mu = _metric(rows, when)["threshold"]
    inner, outer = np.sqrt(mu - 1), np.sqrt(mu + 1)
    ax.add_patch(Circle((0, 0), outer, facecolor="#f0f0f0", edgecolor="none", zorder=0))
    ax.add_patch(Circle((0, 0), inner, facecolor="#dcebf5", edgecolor=PALETTE[0], linewidth=1.6, zorder=1))
    ax.add_patch(Circle((0, 0), outer, facecolor="none", edgecolor=GREY, linewidth=1.6, linestyle="--", zorder=1))
    ax.plot([], [], color=PALETTE[0], linewidth=1.6, label="d² = μ − 1, its class: inside")
    ax.plot([], [], "--", color=GREY, linewidth=1.6, label="d² = μ + 1, others: outside")


def _draw_points(ax: Axes, rows: Rows, when: str) -> None:
    points = rows.tables["points"]
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
                facecolor="white" if broken else color,
                edgecolor=color,
                linewidth=1.8,
                label=name + (", violated" if broken else ""),
                zorder=4,
            )
    ax.scatter([0], [0], s=190, marker="*", color="black", label="x", zorder=5)


def _draw_moves(ax: Axes, rows: Rows) -> None:
    """From where to where those went that were violated before."""
    points = rows.tables["points"]
    ax.plot([], [], color=GREY, linewidth=0.8, marker=">", markevery=[-1], label="moved, was violated")
    for at in np.flatnonzero(points["before_violated"]):
        ax.annotate(
            "",
            (points["after_x1"][at], points["after_x2"][at]),
            (points["before_x1"][at], points["before_x2"][at]),
            arrowprops={"arrowstyle": "-|>", "color": GREY, "linewidth": 0.8, "alpha": 0.8, "shrinkB": 4},
            zorder=3,
        )


def shown(rows: Rows) -> Shown:
    """Which share of the constraints is violated, before and after, on average over the trials."""
    body = []
    for when in ("before", "after"):
        violated = rows.where("violated", when=when)
        body.append([when, *(f"{violated[column].mean():.1%}" for column in _SHARES)])
    return Shown(["violated", *_SHARES.values()], body)


def claims(rows: Rows) -> list[Claim]:
    """What the caption says that the constraints do, and how often they do it."""
    nearer = "target neighbours move towards the point of interest"
    farther = "points of other classes move away from the target neighbourhood"
    return [
        _fewer(rows, "similar", nearer, "of the pairs within a class are too far apart"),
        _fewer(rows, "dissimilar", farther, "of the pairs of two classes are too near"),
    ]


def _fewer(rows: Rows, kind: str, paper: str, words: str) -> Claim:
    """Whether fewer are violated after than before."""
    before, after = (rows.where("violated", when=when)[kind] for when in ("before", "after"))
    pairs = rows.metadata["settings"]["pairs"]
    ours = f"{before.mean():.1%} {words}; after {pairs} pairs {after.mean():.1%} ({len(before)} trials)"
    return Claim(_SHARES[kind].capitalize(), paper, ours, is_above_chance(before - after))


FIGURE = Figure(
    name="1",
    title="Margin constraints, and what learning does to them",
    experiment=margins.tables,
    draw=draw,
    claims=claims,
    shown=shown,
    settings={"trials": 200, "first_seed": 1, "pairs": 300},
    quick={"trials": 10},
)
