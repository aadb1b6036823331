"""A picture of a comparison: each measure over time, with a band of one standard error."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.compare.summary import MEASURES, Comparison
from ocelad.plots import GREY, PALETTE, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that the colour-blind tell apart come first; where there are more methods, other dashes.
STYLES = [(color, dash) for dash, color in product(("-", "--", ":", "-."), PALETTE)]


def draw(comparison: Comparison, path: str | Path) -> None:
    """Draw it into a .png, .pdf or .svg file."""
    plt = pyplot()
    measures = [measure for measure in comparison.measures if measure != "ranked_wrong"] or ["ranked_wrong"]
    figure, axes = plt.subplots(
        len(measures), 1, figsize=(10.5, 1.2 + 3.4 * len(measures)), sharex=True, squeeze=False, layout="constrained"
    )
    for ax, measure in zip(axes[:, 0], measures, strict=True):
        _draw_measure(ax, comparison, measure)
    _name_phases(axes[0, 0], comparison)
    axes[-1, 0].set_xlabel("round")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside center right", frameon=False, fontsize=9, title=_title(comparison))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _title(comparison: Comparison) -> str:
    n = len(comparison.seeds)
    return f"least over all first;\nmean of {n} streams" if n > 1 else "least over all first"


def _draw_measure(ax: Axes, comparison: Comparison, measure: str) -> None:
    by_main = sorted(comparison.rows(), key=lambda line: (np.isnan(line.mean), line.mean))
    styles: dict[str, Any] = dict(zip((method.label for method in comparison.methods), STYLES * 9, strict=False))
    smallest = np.inf
    for line in by_main:
        rounds, means, errors = comparison.over_time(line.method, measure)
        if not rounds:
            continue
        color, dash = styles[line.method]
        first = line.method == comparison.reference
        ax.plot(
            rounds,
            means,
            dash,
            color=color,
            label=line.method,
            linewidth=2.6 if first else 1.4,
            zorder=3 if first else 2,
        )
        ax.fill_between(rounds, means - errors, means + errors, color=color, alpha=0.18, linewidth=0)
        smallest = min(smallest, *(means[means > 0].tolist() or [np.inf]))
    ax.set_ylabel(MEASURES[measure])
    if measure == "found":
        ax.set_ylim(-2, 102)
    elif np.isfinite(smallest):
        # From a third of a percent to twenty: on a plain axis the good ones would all be one line.
        from matplotlib.ticker import LogLocator  # pyplot() has said in a sentence if it is not there

        ax.set_yscale("log")
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
