"""Plot the few-answers suite: one small panel per benchmark, our errors minus those of Euclidean distance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ocelad.evaluation.picture_style import GREY, PALETTE, pyplot, save_figure, styled
from ocelad.lab.compare.few_answers.answer_methods import CURVED, EUCLIDEAN
from ocelad.lab.compare.few_answers.few_answers_results import AnswerResult, FewAnswersResult
from ocelad.lab.compare.few_answers.no_harm import MAX_EXCESS, NAMES
from ocelad.lab.compare.suites import OURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_COLUMNS = 4
# The measures of a panel, with their colours.
MEASURES = {"knn_error": PALETTE[0], "ranking_error": PALETTE[1]}
# Differences up to this size are on a linear scale, larger ones on a logarithmic one.
LINEAR_RANGE = 2.0


@styled
def draw_few_answers(result: FewAnswersResult, path: str | Path) -> None:
    """Draw the results into a .png, .pdf or .svg file."""
    plt = pyplot()
    n_rows = -(-len(result.outcomes) // N_COLUMNS)
    figure, axes = plt.subplots(
        n_rows,
        N_COLUMNS,
        figsize=(12, 1.2 + 1.9 * n_rows),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for at, (ax, outcome) in enumerate(zip(axes.flat, result.outcomes, strict=False)):
        _draw_panel(ax, outcome)
        ax.tick_params(labelsize=8, labelbottom=at + N_COLUMNS >= len(result.outcomes))  # nothing is below
    for ax in axes.flat[len(result.outcomes) :]:
        ax.set_visible(False)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", frameon=False, fontsize=9, ncols=len(labels))
    figure.supxlabel("answers", fontsize=10)
    figure.supylabel(f"minus {EUCLIDEAN}, points", fontsize=10)
    save_figure(figure, path)


def _draw_panel(ax: Axes, outcome: AnswerResult) -> None:
    ax.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    for measure, color in MEASURES.items():
        estimates = [outcome.difference(OURS, measure, answers) for answers in outcome.checkpoints]
        means = np.array([estimate.mean for estimate in estimates])
        errors = np.nan_to_num([estimate.standard_error for estimate in estimates])
        ax.plot(
            outcome.checkpoints,
            means,
            "o-",
            color=color,
            markersize=3,
            linewidth=1.6,
            label=f"{OURS}: {NAMES[measure]}",
        )
        ax.fill_between(outcome.checkpoints, means - errors, means + errors, color=color, alpha=0.18, linewidth=0)
        curved = [outcome.difference(CURVED, measure, answers).mean for answers in outcome.checkpoints]
        ax.plot(outcome.checkpoints, curved, "--", color=color, linewidth=1.2, label=f"{CURVED}: {NAMES[measure]}")
        ax.axhline(MAX_EXCESS[measure], color=color, linewidth=0.8, linestyle=":", zorder=0, label="limit")
    ax.set_title(outcome.benchmark.name, fontsize=9, loc="left")
    ax.set_xscale("log")
    ax.set_xticks(outcome.checkpoints, [str(answers) for answers in outcome.checkpoints])
    ax.minorticks_off()
    ax.set_yscale("symlog", linthresh=LINEAR_RANGE)
    ax.yaxis.set_major_formatter("{x:g}")
