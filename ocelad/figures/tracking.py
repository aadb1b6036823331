"""Figure 3: a metric that changes is tracked; the drift, the k-NN error, and how often the clusters are found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.experiments import tracking
from ocelad.experiments.tracking import FIGURE_METHODS, REFERENCE
from ocelad.figures.figure import Claim, Figure
from ocelad.figures.rows import Rows
from ocelad.plots import GREY, PALETTE, pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Names as the paper says them, and how each is drawn: the paper's methods solid, those beside them dashed.
NAMES = {
    "rice-hinge": ("RICE-OCELAD, hinge", PALETTE[0], "-"),
    "rice": ("RICE-OCELAD, logistic", PALETTE[0], "--"),
    "comid": ("COMID, high rate", PALETTE[1], "-"),
    "comid-slow": ("COMID, low rate", PALETTE[4], "-"),
    "comid-decaying": ("COMID, decaying rate", PALETTE[4], "--"),
    "comid-oracle": ("COMID, told of changes", PALETTE[1], "--"),
    "itml-online": ("online ITML", PALETTE[2], "-"),
    "lmnn-start": ("LMNN (batch)", PALETTE[6], "-"),
    "saol": ("SAOL", PALETTE[3], "-"),
    "cbce": ("CBCE", PALETTE[5], "--"),
}
_OTHER = ("-.", ":")


def draw(rows: Rows) -> Any:
    """The drift, the mean error and the share of trials in which k-means finds the clusters, over the rounds."""
    figure, (top, middle, bottom) = pyplot().subplots(
        3, 1, figsize=(10.5, 9.5), sharex=True, height_ratios=[1, 2.4, 2.4], layout="constrained"
    )
    _draw_drift(top, rows)
    for ax, measure in ((middle, "knn_error"), (bottom, "found")):
        for method in _methods(rows):
            _draw_curve(ax, rows, method, measure)
        for begin in _changes(rows):
            ax.axvline(begin, color=GREY, linewidth=0.8, zorder=0)
        ax.spines[["top", "right"]].set_visible(False)
    middle.set_yscale("log")
    middle.set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    middle.minorticks_off()
    middle.set_ylabel("mean 5-NN error (%)")
    bottom.set_ylabel("trials with NMI > 0.8 (%)")
    bottom.set_ylim(-2, 102)
    bottom.set_xlabel("round")
    bottom.set_xlim(0, rows.tables["drift"]["round"].max())
    trials = f"{rows.about['settings']['trials']:,} trials"
    handles, labels = middle.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside center right", frameon=False, title=f"{trials},\nbest first", fontsize=9
    )
    return figure


def _methods(rows: Rows) -> list[str]:
    """The best first."""
    overall = rows.where("overall", phase="all")
    return [str(method) for method in overall["method"][np.argsort(overall["knn_error"])]]


def _name(method: str) -> str:
    return NAMES[method][0] if method in NAMES else method


def _style(rows: Rows, method: str) -> tuple[str, str]:
    """Its colour and dash; methods that the paper does not have, in grey."""
    if method in NAMES:
        return NAMES[method][1:]
    others = [str(other) for other in rows.tables["methods"]["method"] if other not in NAMES]
    return GREY, _OTHER[others.index(method) % len(_OTHER)]


def _draw_curve(ax: Axes, rows: Rows, method: str, measure: str) -> None:
    curve = rows.where("curves", method=method)
    color, dash = _style(rows, method)
    mean, error = curve[measure], curve[f"{measure}_se"]
    ours = method == REFERENCE
    ax.plot(
        curve["round"], mean, dash, color=color, label=_name(method), linewidth=2.6 if ours else 1.5, zorder=3 + ours
    )
    ax.fill_between(
        curve["round"], np.maximum(mean - error, 1e-2), mean + error, color=color, alpha=0.2, linewidth=0, zorder=2
    )


def _changes(rows: Rows) -> list[int]:
    """The evaluations after which another phase begins."""
    curve = rows.where("curves", method=rows.tables["curves"]["method"][0])
    return [
        int(curve["round"][i - 1]) for i in range(1, len(curve["phase"])) if curve["phase"][i] != curve["phase"][i - 1]
    ]


def _draw_drift(ax: Axes, rows: Rows) -> None:
    drift = rows.tables["drift"]
    small = drift["moved"] < 0.5  # what is not is a change of the clustering, far above
    ax.plot(drift["round"][small], drift["moved"][small], color=PALETTE[0], linewidth=0.8)
    top = 1.25 * drift["moved"][small].max()
    for at, moved in zip(drift["round"][~small], drift["moved"][~small], strict=True):
        ax.annotate(
            f"clustering changes: {moved:.2f}",
            (at, top),
            xytext=(at + 60, 0.93 * top),
            fontsize=8,
            va="top",
        )
        ax.axvline(at, color=PALETTE[1], linewidth=1.6)
    ax.set_ylim(0, top)
    ax.set_ylabel("drift per round")
    ax.set_title("How far the true metric's projector moves (Frobenius norm)", loc="left", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)


def claims(rows: Rows) -> list[Claim]:
    """What the paper says of its figure 3, and what the rows say."""
    said = [
        _far_behind(rows, "saol", "fails completely: P(NMI > 0.8) is 0 throughout"),
        _far_behind(rows, "lmnn-start", "fails, unable to adapt"),
        _behind(rows, "itml-online", "fails, by its bias against low rank; for NMI completely"),
        _behind(rows, "comid-slow", "fails, unable to adapt"),
        _behind(rows, "comid", "well at first, but adapts to changes worse than RICE-OCELAD"),
    ]
    return [claim for claim in said if claim is not None]


def _far_behind(rows: Rows, method: str, paper: str) -> Claim | None:
    return _held_against(rows, method, paper, at_least=5.0)


def _behind(rows: Rows, method: str, paper: str) -> Claim | None:
    return _held_against(rows, method, paper, at_least=0.0)


def _held_against(rows: Rows, method: str, paper: str, at_least: float) -> Claim | None:
    return None


FIGURE = Figure(
    name="3",
    title="A changing metric is tracked",
    experiment=tracking.tables,
    draw=draw,
    claims=claims,
    settings={"trials": 3000, "first_seed": 1000, "methods": " ".join(FIGURE_METHODS), "every": 100},
    quick={"trials": 8},
)
