"""A picture of a comparison: each measure over time with a band of one standard error, or a panel for each method."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.evaluation.plots import GREY, PALETTE, pyplot
from ocelad.lab.compare.summary import MEASURES, MORE_IS_BETTER, Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that the colour-blind tell apart (the palest apart, which lines are too thin for); then other dashes.
STYLES = [(color, dash) for dash, color in product(("-", "--", ":"), PALETTE[:7])]
# So many lines can be told apart; of more methods each has a panel of its own.
MOST_LINES = 12
N_COLUMNS = 4


def draw(comparison: Comparison, path: str | Path) -> None:
    """Draw it into a .png, .pdf or .svg file."""
    plt = pyplot()
    figure = _lines(comparison) if len(comparison.methods) <= MOST_LINES else _panels(comparison)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _lines(comparison: Comparison) -> Any:
    """The measures one below the other, all methods in each."""
    measures = comparison.measures
    figure, axes = pyplot().subplots(
        len(measures), 1, figsize=(10.5, 1.2 + 2.9 * len(measures)), sharex=True, squeeze=False, layout="constrained"
    )
    methods = [method.label for method in comparison.methods]
    styles = dict(zip(methods, STYLES, strict=False))
    for ax, measure in zip(axes[:, 0], measures, strict=True):
        for label in comparison.ranking:
            _draw_line(ax, comparison, label, measure, *styles[label])
        _finish(ax, comparison, measure, methods)
        ax.set_ylabel(MEASURES[measure])
    _name_phases(axes[0, 0], comparison)
    axes[-1, 0].set_xlabel("round")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside center right", frameon=False, fontsize=9, title=_about(comparison))
    return figure


def _panels(comparison: Comparison) -> Any:
    """The main measure of each method in a panel of its own, the reference beside it."""
    order = [label for label in comparison.ranking if label != comparison.reference]
    n_rows = -(-len(order) // N_COLUMNS)
    figure, axes = pyplot().subplots(
        n_rows,
        N_COLUMNS,
        figsize=(12, 0.8 + 2.0 * n_rows),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for ax, label in zip(axes.flat, order, strict=False):
        _draw_line(ax, comparison, comparison.reference, comparison.main, PALETTE[0], "-")
        _draw_line(ax, comparison, label, comparison.main, PALETTE[1], "-")
        _finish(ax, comparison, comparison.main, [comparison.reference, *order])
        ax.set_title(_shown(comparison, label), fontsize=10, color=PALETTE[1], loc="left")
        ax.tick_params(labelsize=8)
    for ax in axes.flat[len(order) :]:
        ax.set_visible(False)
    figure.supxlabel("round", fontsize=10)
    figure.supylabel(MEASURES[comparison.main], fontsize=10)
    figure.suptitle(f"{comparison.reference} (blue) beside each method (orange); {_about(comparison)}", fontsize=11)
    return figure


def _about(comparison: Comparison) -> str:
    n = len(comparison.seeds)
    streams = f", {n} streams" if n > 1 else ""
    return f"{comparison.stream.name}{streams}; best first"


def _shown(comparison: Comparison, label: str) -> str:
    """With a star where the method is told more than the pairs."""
    told = {method.label: method.needs for method in comparison.methods}
    return f"{label} *" if told[label] else label


def _draw_line(ax: Axes, comparison: Comparison, label: str, measure: str, color: str, dash: str) -> None:
    rounds, means, errors = comparison.over_time(label, measure)
    if not rounds:
        return
    width, above = (2.4, 3) if label == comparison.reference else (1.4, 2)
    ax.plot(rounds, means, dash, color=color, label=_shown(comparison, label), linewidth=width, zorder=above)
    ax.fill_between(rounds, means - errors, means + errors, color=color, alpha=0.18, linewidth=0)


def _finish(ax: Axes, comparison: Comparison, measure: str, methods: Sequence[str]) -> None:
    """Axes, and lines where phases begin."""
    means = np.concatenate([comparison.over_time(label, measure)[1] for label in methods])
    seen = means[np.isfinite(means) & (means > 0)]
    if measure in MORE_IS_BETTER:
        ax.set_ylim(-2, 102)
    elif len(seen):
        from matplotlib.ticker import LogLocator  # pyplot() has said in a sentence if it is not there

        # From a third of a percent to fifty: on a plain axis the good ones would all be one line.
        ax.set_yscale("log")
        ax.set_ylim(max(0.7 * seen.min(), 0.01), 1.3 * seen.max())  # bands may reach down to 0, which is nowhere here
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlim(0, comparison.stream.rounds)
    for begin, _ in _phase_begins(comparison)[1:]:
        ax.axvline(begin, color=GREY, linewidth=0.8, zorder=0)


def _phase_begins(comparison: Comparison) -> list[tuple[int, str]]:
    """After which evaluations another phase begins, and which."""
    record = next((r for label in comparison.records for r in comparison.records[label] if r.rounds), None)
    if record is None:
        return []
    rounds, phases = [0, *record.rounds], [None, *record.phases]
    return [(rounds[i], phase) for i, phase in enumerate(record.phases) if phase != phases[i]]


def _name_phases(ax: Axes, comparison: Comparison) -> None:
    begins = _phase_begins(comparison)
    if not 1 < len(begins) <= 6:
        return
    ends = [*(begin for begin, _ in begins[1:]), comparison.stream.rounds]
    for (begin, phase), end in zip(begins, ends, strict=True):
        ax.text(
            (begin + end) / 2, 1.01, phase, transform=ax.get_xaxis_transform(), ha="center", va="bottom", fontsize=9
        )
