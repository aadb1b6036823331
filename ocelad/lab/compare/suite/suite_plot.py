"""Plot the suite: the error and P(NMI > 0.8) of each method on each benchmark, with the targets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ocelad.evaluation.picture_style import GREY, PALETTE, pyplot, save_figure, styled
from ocelad.lab.compare.comparison import MEASURES
from ocelad.lab.compare.suite.suite_results import BEST_COMID, SuiteResult
from ocelad.lab.compare.suites import OURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "D", "^", "v", "P", "X")
# The vertical distance of methods, as a share of the distance of benchmarks.
SPACING = 0.1
# Smaller errors are drawn here, because a log axis has no zero.
MIN_ERROR = 0.01


@styled
def draw_suite(result: SuiteResult, path: str | Path) -> None:
    """Draw the results into a .png, .pdf or .svg file."""
    plt = pyplot()
    n_benchmarks = len(result.outcomes)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, 1.8 + 0.5 * n_benchmarks), sharey=True, width_ratios=[1.6, 1], layout="constrained"
    )
    names = list(dict.fromkeys(outcome.display_name(label) for outcome in result.outcomes for label in outcome.methods))
    styles = {name: (PALETTE[at % 7], MARKERS[at % len(MARKERS)]) for at, name in enumerate(names)}
    for ax, measure in ((left, None), (right, "clusters_found")):
        for at, name in enumerate(names):
            _draw_method(ax, result, name, measure, SPACING * (at - (len(names) - 1) / 2), *styles[name])
        for at, outcome in enumerate(result.outcomes):
            ax.axhline(at + 0.5, color=GREY, linewidth=0.4, zorder=0)
            benchmark = outcome.benchmark
            target = benchmark.max_error if measure is None else benchmark.min_clusters_found
            if target is not None:
                ax.plot(target, at, "|", color=PALETTE[6], markersize=22, markeredgewidth=1.6, zorder=4)
        ax.plot([], [], "|", color=PALETTE[6], markersize=14, markeredgewidth=1.6, label="target")
        ax.spines[["top", "right", "left"]].set_visible(False)
    left.set_xscale("log")
    left.xaxis.set_major_locator(_ticks())
    left.xaxis.set_major_formatter("{x:g}")
    left.xaxis.set_minor_formatter("")
    left.set_xlabel("error (%), with one standard error")
    right.set_xlim(-3, 103)
    right.set_xlabel(MEASURES["clusters_found"])
    left.set_yticks(
        range(n_benchmarks), [_tick_label(outcome.benchmark.name, outcome.main_measure) for outcome in result.outcomes]
    )
    left.set_ylim(n_benchmarks - 0.5, -0.5)
    handles, labels = left.get_legend_handles_labels()
    title = f"{len(result.seeds)} streams per benchmark"
    figure.legend(handles, labels, loc="outside center right", frameon=False, fontsize=9, title=title)
    save_figure(figure, path)


def _draw_method(
    ax: Axes, result: SuiteResult, name: str, measure: str | None, offset: float, color: str, marker: str
) -> None:
    """Draw one method on all benchmarks that have it, at an offset from their centre lines."""
    positions, means, errors = [], [], []
    for at, outcome in enumerate(result.outcomes):
        for label in outcome.methods:
            if outcome.display_name(label) == name and (measure is None or measure in outcome.measures):
                estimate = outcome.mean(label, measure)
                positions.append(at + offset)
                means.append(max(estimate.mean, MIN_ERROR) if measure is None else estimate.mean)
                errors.append(np.nan_to_num(estimate.standard_error))
    ours = name == OURS
    ax.errorbar(
        means,
        positions,
        xerr=errors,
        fmt=marker,
        color=color,
        markersize=9 if ours else 6,
        markerfacecolor=color if ours or name == BEST_COMID else "none",
        linewidth=1.0,
        label=name,
        zorder=3 if ours else 2,
    )


def _tick_label(benchmark: str, measure: str) -> str:
    """Return the name of a benchmark, with its measure if that is not the k-NN error."""
    return benchmark if measure == "knn_error" else f"{benchmark} ({MEASURES[measure].removesuffix(' in %')})"


def _ticks() -> object:
    from matplotlib.ticker import LogLocator  # pyplot() reports a missing Matplotlib

    return LogLocator(subs=(1.0, 2.0, 5.0))
