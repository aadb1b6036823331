"""Plot a comparison: each measure over time with a band of one standard error, or one panel per method."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.evaluation.picture_style import GREY, PALETTE, pyplot, save_figure, styled
from ocelad.lab.compare.comparison import HIGHER_IS_BETTER, MEASURES, Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# All colours of the palette first; then the same with other dashes.
STYLES = [(color, dash) for dash, color in product(("-", "--"), PALETTE)]
# With more methods than this, each gets its own panel.
MAX_LINES = 12
N_COLUMNS = 4


@styled
def draw_comparison(comparison: Comparison, path: str | Path) -> None:
    """Draw the comparison into a .png, .pdf or .svg file."""
    figure = _lines(comparison) if len(comparison.methods) <= MAX_LINES else _panels(comparison)
    save_figure(figure, path)


def _lines(comparison: Comparison) -> Any:
    """Draw one axes per measure, with all methods in each."""
    measures = comparison.measures
    figure, axes = pyplot().subplots(
        len(measures), 1, figsize=(10.5, 1.2 + 2.9 * len(measures)), sharex=True, squeeze=False, layout="constrained"
    )
    methods = [method.label for method in comparison.methods]
    styles = dict(zip(methods, STYLES, strict=False))
    for ax, measure in zip(axes[:, 0], measures, strict=True):
        for label in comparison.ranking:
            _draw_line(ax, comparison, label, measure, *styles[label])
        _finish_axes(ax, comparison, measure, methods)
        ax.set_ylabel(MEASURES[measure])
    _label_phases(axes[0, 0], comparison)
    axes[-1, 0].set_xlabel("round")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside center right", frameon=False, fontsize=9, title=_title(comparison))
    return figure


def _panels(comparison: Comparison) -> Any:
    """Draw the main measure of each method in its own panel, together with the reference."""
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
        _draw_line(ax, comparison, comparison.reference, comparison.main_measure, PALETTE[0], "-")
        _draw_line(ax, comparison, label, comparison.main_measure, PALETTE[1], "-")
        _finish_axes(ax, comparison, comparison.main_measure, [comparison.reference, *order])
        ax.set_title(_legend_label(comparison, label), fontsize=10, color=PALETTE[1], loc="left")
        ax.tick_params(labelsize=8)
    for ax in axes.flat[len(order) :]:
        ax.set_visible(False)
    figure.supxlabel("round", fontsize=10)
    figure.supylabel(MEASURES[comparison.main_measure], fontsize=10)
    figure.suptitle(f"{comparison.reference} (blue) and each method (orange); {_title(comparison)}", fontsize=11)
    return figure


def _title(comparison: Comparison) -> str:
    n = len(comparison.seeds)
    streams = f", {n} streams" if n > 1 else ""
    return f"{comparison.stream.name}{streams}; best first"


def _legend_label(comparison: Comparison, label: str) -> str:
    """Return the label, with a star if the method uses side information."""
    requires = {method.label: method.requires for method in comparison.methods}
    return f"{label} *" if requires[label] else label


def _draw_line(ax: Axes, comparison: Comparison, label: str, measure: str, color: str, dash: str) -> None:
    rounds, means, errors = comparison.curve(label, measure)
    if not rounds:
        return
    width, zorder = (2.4, 3) if label == comparison.reference else (1.4, 2)
    ax.plot(rounds, means, dash, color=color, label=_legend_label(comparison, label), linewidth=width, zorder=zorder)
    ax.fill_between(rounds, means - errors, means + errors, color=color, alpha=0.18, linewidth=0)


def _finish_axes(ax: Axes, comparison: Comparison, measure: str, methods: Sequence[str]) -> None:
    """Set the scale and the limits of the axes, and mark the starts of phases."""
    means = np.concatenate([comparison.curve(label, measure)[1] for label in methods])
    positive = means[np.isfinite(means) & (means > 0)]
    if measure in HIGHER_IS_BETTER:
        ax.set_ylim(-2, 102)
    elif len(positive):
        from matplotlib.ticker import LogLocator  # pyplot() reports a missing Matplotlib

        # Errors range from 0.3 % to 50 %; a linear axis would merge the best methods into one line.
        ax.set_yscale("log")
        ax.set_ylim(max(0.7 * positive.min(), 0.01), 1.3 * positive.max())  # bands may reach 0, which a log axis lacks
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
    ax.set_xlim(0, comparison.stream.rounds)
    for start, _ in _phase_starts(comparison)[1:]:
        ax.axvline(start, color=GREY, linewidth=0.8, zorder=0)


def _phase_starts(comparison: Comparison) -> list[tuple[int, str]]:
    """Return the evaluation rounds after which a phase starts, with its name."""
    record = next((r for label in comparison.records for r in comparison.records[label] if r.rounds), None)
    if record is None:
        return []
    rounds, phases = [0, *record.rounds], [None, *record.phases]
    return [(rounds[i], phase) for i, phase in enumerate(record.phases) if phase != phases[i]]


def _label_phases(ax: Axes, comparison: Comparison) -> None:
    starts = _phase_starts(comparison)
    if not 1 < len(starts) <= 6:
        return
    ends = [*(start for start, _ in starts[1:]), comparison.stream.rounds]
    for (start, phase), end in zip(starts, ends, strict=True):
        ax.text(
            (start + end) / 2, 1.01, phase, transform=ax.get_xaxis_transform(), ha="center", va="bottom", fontsize=9
        )
