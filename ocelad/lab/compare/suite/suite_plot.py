"""A picture of the suite: the error and P(NMI > 0.8) of each method on each row, and what is aimed at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ocelad.evaluation.plots import GREY, PALETTE, pyplot
from ocelad.lab.compare.suite.benchmarks import OURS
from ocelad.lab.compare.suite.suite_summary import HINDSIGHT_NAME, SuiteResult
from ocelad.lab.compare.summary import MEASURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "D", "^", "v", "P", "X")
# How far above each other the methods of a row are, of the distance of two rows.
APART = 0.1
# Zero is nowhere on an axis of orders of magnitude.
LEAST = 0.01


def draw(result: SuiteResult, path: str | Path) -> None:
    """Draw it into a .png, .pdf or .svg file."""
    plt = pyplot()
    n_rows = len(result.outcomes)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, 1.8 + 0.5 * n_rows), sharey=True, width_ratios=[1.6, 1], layout="constrained"
    )
    names = list(dict.fromkeys(outcome.name_of(label) for outcome in result.outcomes for label in outcome.methods))
    styles = {name: (PALETTE[at % 7], MARKERS[at % len(MARKERS)]) for at, name in enumerate(names)}
    for ax, measure in ((left, None), (right, "found")):
        for at, name in enumerate(names):
            _draw_method(ax, result, name, measure, APART * (at - (len(names) - 1) / 2), *styles[name])
        for at, outcome in enumerate(result.outcomes):
            ax.axhline(at + 0.5, color=GREY, linewidth=0.4, zorder=0)
            wanted = outcome.row.error if measure is None else outcome.row.found
            if wanted is not None:
                ax.plot(wanted, at, "|", color="black", markersize=22, markeredgewidth=1.6, zorder=4)
        ax.plot([], [], "|", color="black", markersize=14, markeredgewidth=1.6, label="aimed at")
        ax.spines[["top", "right", "left"]].set_visible(False)
    left.set_xscale("log")
    left.xaxis.set_major_locator(_ticks())
    left.xaxis.set_major_formatter("{x:g}")
    left.xaxis.set_minor_formatter("")
    left.set_xlabel("error (%), with one standard error")
    right.set_xlim(-3, 103)
    right.set_xlabel(MEASURES["found"])
    left.set_yticks(range(n_rows), [_named(outcome.row.name, outcome.main) for outcome in result.outcomes])
    left.set_ylim(n_rows - 0.5, -0.5)
    handles, labels = left.get_legend_handles_labels()
    title = f"{len(result.seeds)} streams a row"
    figure.legend(handles, labels, loc="outside center right", frameon=False, fontsize=9, title=title)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_method(
    ax: Axes, result: SuiteResult, name: str, measure: str | None, below: float, color: str, marker: str
) -> None:
    """One method on all rows that have it, a little above or below their middle."""
    places, means, errors = [], [], []
    for at, outcome in enumerate(result.outcomes):
        for label in outcome.methods:
            if outcome.name_of(label) == name and (measure is None or measure in outcome.measures):
                estimate = outcome.mean(label, measure)
                places.append(at + below)
                means.append(max(estimate.mean, LEAST) if measure is None else estimate.mean)
                errors.append(np.nan_to_num(estimate.error))
    ours = name == OURS
    ax.errorbar(
        means,
        places,
        xerr=errors,
        fmt=marker,
        color=color,
        markersize=9 if ours else 6,
        markerfacecolor=color if ours or name == HINDSIGHT_NAME else "none",
        linewidth=1.0,
        label=name,
        zorder=3 if ours else 2,
    )


def _named(row: str, main: str) -> str:
    """With what its error is, where that is not of neighbours."""
    return row if main == "knn_error" else f"{row} ({MEASURES[main].removesuffix(' in %')})"


def _ticks() -> object:
    from matplotlib.ticker import LogLocator  # pyplot() has said in a sentence if it is not there

    return LogLocator(subs=(1.0, 2.0, 5.0))
