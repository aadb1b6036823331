"""Figure 3: a metric that changes is tracked; the drift, the k-NN error, and how often the clusters are found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.evaluation.plots import GREY, PALETTE, pyplot
from ocelad.lab.experiments import tracking
from ocelad.lab.experiments.tracking import FIGURE_METHODS, REFERENCE
from ocelad.lab.figures.figure import Claim, Figure, Shown
from ocelad.lab.figures.rows import Rows

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
    title = f"{rows.metadata['settings']['trials']:,} trials, best first;\nbands: one standard error"
    handles, labels = middle.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside center right", frameon=False, title=title, fontsize=9)
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
        words = f"clustering changes: moves by {moved:.2f}"
        ax.text(at + 60, 0.93 * top, words, fontsize=8, va="top").set_in_layout(False)
        ax.axvline(at, color=PALETTE[1], linewidth=1.6)
    ax.set_ylim(0, top)
    ax.set_ylabel("drift per round")
    ax.set_title("How far the true metric's projector moves (Frobenius norm)", loc="left", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)


def shown(rows: Rows) -> Shown:
    """Mean error in each phase and over all, and how often the clusters are found."""
    overall = rows.tables["overall"]
    phases = list(dict.fromkeys(overall["phase"].tolist()))
    body = []
    for method in _methods(rows):
        of_phases = [_overall(rows, method, phase) for phase in phases]
        errors = [f"{row['knn_error']:.2f}" for row in of_phases]
        last = of_phases[-1]
        body.append([_name(method), *errors, _estimate(last, "knn_error_more"), f"{last['found']:.1f}"])
    head = ["5-NN error (%)", *phases, f"more than {_name(REFERENCE)}", "P(NMI > .8) (%)"]
    return Shown(head, body)


def claims(rows: Rows) -> list[Claim]:
    """What the paper says of its figure 3, and what the rows say."""
    compared = set(rows.tables["overall"]["method"].tolist())
    return [claim(rows) for method, claim in _CLAIMS if {method, REFERENCE} <= compared]


def _overall(rows: Rows, method: str, phase: str = "all") -> dict[str, float]:
    row = rows.where("overall", method=method, phase=phase)
    return {name: float(column[0]) for name, column in row.items() if name not in ("method", "phase")}


def _estimate(row: dict[str, float], column: str) -> str:
    if column not in row:
        return ""
    error = row[f"{column}_se"]
    return f"{row[column]:+.3f} \u00b1 {error:.3f}" if np.isfinite(error) else f"{row[column]:+.3f}"


def _numbers(rows: Rows, method: str) -> str:
    row = _overall(rows, method)
    return f"error {row['knn_error']:.2f} %, P(NMI > .8) {row['found']:.1f} %"


def _fails(rows: Rows, method: str) -> bool:
    """Whether it finds the clusters less than half as often as RICE-OCELAD does."""
    return _overall(rows, method)["found"] < 0.5 * _overall(rows, REFERENCE)["found"]


def _adapts(rows: Rows) -> Claim:
    """Whether at the end of every phase the clusters are found in nine of ten trials."""
    curve = rows.where("curves", method=REFERENCE)
    ends = [np.flatnonzero(curve["phase"] == phase)[-1] for phase in dict.fromkeys(curve["phase"].tolist())]
    found = ", ".join(f"{curve['found'][end]:.0f}" for end in ends)
    ours = f"{_numbers(rows, REFERENCE)}; at the ends of the phases {found} %"
    agrees = bool(min(curve["found"][end] for end in ends) >= 90)
    return Claim("RICE-OCELAD", "adapts well throughout the entire interval", ours, agrees)


def _logistic(rows: Rows) -> Claim:
    remark = "the paper has the hinge loss only"
    return Claim("RICE-OCELAD, logistic loss", "-", _numbers(rows, "rice"), None, remark)


def _saol(rows: Rows) -> Claim:
    found = _overall(rows, "saol")["found"]
    remark = "not quite zero: now and then the learner that is drawn happens to be a good one" if found else ""
    paper = "fails: P(NMI > .8) is zero throughout"
    return Claim("SAOL", paper, _numbers(rows, "saol"), _fails(rows, "saol"), remark)


def _lmnn(rows: Rows) -> Claim:
    return Claim("LMNN (batch)", "fails, unable to adapt", _numbers(rows, "lmnn-start"), _fails(rows, "lmnn-start"))


def _itml(rows: Rows) -> Claim:
    agrees = _fails(rows, "itml-online")
    remark = "" if agrees else "with tuned targets it follows, more slowly, and is the best of all while nothing moves"
    paper = "fails, by its bias against low rank; for NMI completely"
    return Claim("online ITML", paper, _numbers(rows, "itml-online"), agrees, remark)


def _slow(rows: Rows) -> Claim:
    agrees = _fails(rows, "comid-slow")
    remark = (
        "" if agrees else "a low rate that stays the same is only a little slower; one that decays falls far behind"
    )
    return Claim("COMID, low rate", "fails, unable to adapt", _numbers(rows, "comid-slow"), agrees, remark)


def _decaying(rows: Rows) -> Claim:
    remark = "not in the paper's figure; what a learning rate for a world at rest would be"
    return Claim("COMID, decaying rate", "-", _numbers(rows, "comid-decaying"), None, remark)


def _high(rows: Rows) -> Claim:
    row = _overall(rows, "comid")
    more, error = row["knn_error_more"], row["knn_error_more_se"]
    ours = f"{_numbers(rows, 'comid')}; {_estimate(row, 'knn_error_more')} points more error"
    agrees: bool | None = more > 0
    remark = "a small difference: its rate was chosen by looking at drifting streams"
    if not abs(more) > 2 * error:  # nor where one trial alone has no error
        agrees, remark = None, "no difference that so many trials can tell"
    return Claim("COMID, high rate", "cannot adapt to changes as well as RICE-OCELAD", ours, agrees, remark)


def _alone(rows: Rows) -> Claim:
    """Whether every other method that is told no more than the pairs fails."""
    told = rows.tables["methods"]["told"].tolist()
    others = [m for m, more in zip(rows.tables["methods"]["method"].tolist(), told, strict=True) if not more]
    if set(others) <= {"rice", REFERENCE}:
        return Claim("Who adapts", "RICE-OCELAD alone", "no other method was run that is told the pairs alone", None)
    follow = [_name(m) for m in others if m not in ("rice", REFERENCE) and not _fails(rows, m)]
    ours = f"these follow, too: {', '.join(follow)}" if follow else "no other method does"
    return Claim("Who adapts", "RICE-OCELAD alone", ours, not follow)


# Each with a method that must be there for it.
_CLAIMS = (
    (REFERENCE, _adapts),
    ("rice", _logistic),
    ("saol", _saol),
    ("lmnn-start", _lmnn),
    ("itml-online", _itml),
    ("comid-slow", _slow),
    ("comid-decaying", _decaying),
    ("comid", _high),
    (REFERENCE, _alone),
)


FIGURE = Figure(
    name="3",
    title="A changing metric is tracked",
    experiment=tracking.tables,
    draw=draw,
    claims=claims,
    shown=shown,
    settings={"trials": 3000, "first_seed": 1000, "methods": " ".join(FIGURE_METHODS), "every": 100},
    quick={"trials": 8},
    departures=(
        "The paper gives no numbers for the clusters, the noise, the drift and the lengths of the phases; they are "
        "chosen as said in ocelad.evaluation.streams.DriftingClusters. The settings of all methods were chosen on streams of "
        "other seeds."
    ),
)
