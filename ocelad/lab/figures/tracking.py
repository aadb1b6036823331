"""Figure 3: tracking a changing metric; the drift, the k-NN error, and how often k-means finds the clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.evaluation.picture_style import GREY, PALETTE, pyplot, styled
from ocelad.lab.experiments import tracking
from ocelad.lab.experiments.tracking import FIGURE_METHODS, REFERENCE
from ocelad.lab.figures.figure import Claim, Figure, SummaryTable
from ocelad.lab.figures.figure_data import FigureData
from ocelad.lab.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The names in the paper, colours and line styles: solid for the paper's methods, dashed for additional ones.
NAMES = {
    "rice-hinge": ("RICE-OCELAD, hinge", PALETTE[0], "-"),
    "rice": ("RICE-OCELAD, logistic", PALETTE[0], "--"),
    "comid": ("COMID, high rate", PALETTE[1], "-"),
    "comid-slow": ("COMID, low rate", PALETTE[4], "-"),
    "comid-decaying": ("COMID, decaying rate", PALETTE[4], "--"),
    "comid-oracle": ("COMID, restarted at changes", PALETTE[1], "--"),
    "itml-online": ("online ITML", PALETTE[2], "-"),
    "lmnn-start": ("LMNN (batch)", PALETTE[6], "-"),
    "saol": ("SAOL", PALETTE[3], "-"),
    "cbce": ("CBCE", PALETTE[5], "--"),
}
# The line styles of methods that are not in NAMES.
_OTHER_STYLES = ("-.", ":")
# A movement of the projector above this is a change of the clustering, not drift.
_MAX_DRIFT = 0.5


@styled
def draw(data: FigureData) -> Any:
    """Draw the drift, the mean error and the share of trials in which k-means finds the clusters over the rounds."""
    figure, (top, middle, bottom) = pyplot().subplots(
        3, 1, figsize=(10.5, 9.5), sharex=True, height_ratios=[1, 2.4, 2.4], layout="constrained"
    )
    _draw_drift(top, data)
    for ax, measure in ((middle, "knn_error"), (bottom, "found")):
        for method in _methods(data):
            _draw_curve(ax, data, method, measure)
        for end in _phase_ends(data):
            ax.axvline(end, color=GREY, linewidth=0.8, zorder=0)
    middle.set_yscale("log")
    middle.set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    middle.minorticks_off()
    middle.set_ylabel("mean 5-NN error (%)")
    bottom.set_ylabel("trials with NMI > 0.8 (%)")
    bottom.set_ylim(-2, 102)
    bottom.set_xlabel("round")
    bottom.set_xlim(0, data.tables["drift"]["round"].max())
    title = f"{data.metadata['settings']['trials']:,} trials, best first;\nbands: one standard error"
    handles, labels = middle.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside center right", frameon=False, title=title, fontsize=9)
    return figure


def _methods(data: FigureData) -> list[str]:
    """Return the methods, sorted by their mean error."""
    overall = data.where("overall", phase="all")
    return [str(method) for method in overall["method"][np.argsort(overall["knn_error"])]]


def _name(method: str) -> str:
    return NAMES[method][0] if method in NAMES else method


def _style(data: FigureData, method: str) -> tuple[str, str]:
    """Return the colour and the line style of a method; methods that are not in NAMES are grey."""
    if method in NAMES:
        return NAMES[method][1:]
    others = [str(other) for other in data.tables["methods"]["method"] if other not in NAMES]
    return GREY, _OTHER_STYLES[others.index(method) % len(_OTHER_STYLES)]


def _draw_curve(ax: Axes, data: FigureData, method: str, measure: str) -> None:
    curve = data.where("curves", method=method)
    color, dash = _style(data, method)
    mean, error = curve[measure], curve[f"{measure}_se"]
    ours = method == REFERENCE
    ax.plot(
        curve["round"], mean, dash, color=color, label=_name(method), linewidth=2.6 if ours else 1.5, zorder=3 + ours
    )
    ax.fill_between(
        curve["round"], np.maximum(mean - error, 1e-2), mean + error, color=color, alpha=0.2, linewidth=0, zorder=2
    )


def _phase_ends(data: FigureData) -> list[int]:
    """Return the rounds of the last evaluation of each phase but the last."""
    curve = data.where("curves", method=data.tables["curves"]["method"][0])
    return [
        int(curve["round"][i - 1]) for i in range(1, len(curve["phase"])) if curve["phase"][i] != curve["phase"][i - 1]
    ]


def _draw_drift(ax: Axes, data: FigureData) -> None:
    drift = data.tables["drift"]
    small = drift["moved"] < _MAX_DRIFT
    ax.plot(drift["round"][small], drift["moved"][small], color=PALETTE[0], linewidth=0.8)
    top = 1.25 * drift["moved"][small].max()
    for t, moved in zip(drift["round"][~small], drift["moved"][~small], strict=True):
        label = f"clustering changes: {moved:.2f}"
        ax.text(t + 60, 0.93 * top, label, fontsize=8, va="top").set_in_layout(False)
        ax.axvline(t, color=PALETTE[1], linewidth=1.6)
    ax.set_ylim(0, top)
    ax.set_ylabel("drift per round")
    ax.set_title("Movement of the true metric's projector (Frobenius norm)", loc="left", fontsize=10)


def summarize(data: FigureData) -> SummaryTable:
    """Return the mean error in each phase and over all, and how often the clusters are found."""
    overall = data.tables["overall"]
    phases = list(dict.fromkeys(overall["phase"].tolist()))
    rows = []
    for method in _methods(data):
        by_phase = [_overall(data, method, phase) for phase in phases]
        errors = [f"{row['knn_error']:.2f}" for row in by_phase]
        total = by_phase[-1]
        rows.append([_name(method), *errors, _format_estimate(total, "knn_error_more"), f"{total['found']:.1f}"])
    columns = ["5-NN error (%)", *phases, f"minus {_name(REFERENCE)}", "P(NMI > .8) (%)"]
    return SummaryTable(columns, rows)


def claims(data: FigureData) -> list[Claim]:
    """Check the paper's statements about its figure 3."""
    compared = set(data.tables["overall"]["method"].tolist())
    return [claim(data) for method, claim in _CLAIMS if {method, REFERENCE} <= compared]


def _overall(data: FigureData, method: str, phase: str = "all") -> dict[str, float]:
    row = data.where("overall", method=method, phase=phase)
    return {name: float(column[0]) for name, column in row.items() if name not in ("method", "phase")}


def _format_estimate(row: dict[str, float], column: str) -> str:
    if column not in row:
        return ""
    error = row[f"{column}_se"]
    return f"{row[column]:+.3f} \u00b1 {error:.3f}" if np.isfinite(error) else f"{row[column]:+.3f}"


def _format_scores(data: FigureData, method: str) -> str:
    row = _overall(data, method)
    return f"error {row['knn_error']:.2f} %, P(NMI > .8) {row['found']:.1f} %"


def _fails(data: FigureData, method: str) -> bool:
    """Whether a method finds the clusters less than half as often as RICE-OCELAD does."""
    return _overall(data, method)["found"] < 0.5 * _overall(data, REFERENCE)["found"]


def _adapts(data: FigureData) -> Claim:
    """Check whether the clusters are found in at least 90 % of the trials at the end of every phase."""
    curve = data.where("curves", method=REFERENCE)
    ends = [np.flatnonzero(curve["phase"] == phase)[-1] for phase in dict.fromkeys(curve["phase"].tolist())]
    found = ", ".join(f"{curve['found'][end]:.0f}" for end in ends)
    ours = f"{_format_scores(data, REFERENCE)}; at the ends of the phases {found} %"
    agrees = bool(min(curve["found"][end] for end in ends) >= 90)
    return Claim("RICE-OCELAD", "adapts well throughout the entire interval", ours, agrees)


def _logistic(data: FigureData) -> Claim:
    remark = "the paper uses only the hinge loss"
    return Claim("RICE-OCELAD, logistic loss", "-", _format_scores(data, "rice"), None, remark)


def _saol(data: FigureData) -> Claim:
    found = _overall(data, "saol")["found"]
    remark = "not quite zero: sometimes the randomly drawn learner is a good one" if found else ""
    paper = "fails: P(NMI > .8) is zero throughout"
    return Claim("SAOL", paper, _format_scores(data, "saol"), _fails(data, "saol"), remark)


def _lmnn(data: FigureData) -> Claim:
    return Claim(
        "LMNN (batch)", "fails, unable to adapt", _format_scores(data, "lmnn-start"), _fails(data, "lmnn-start")
    )


def _itml(data: FigureData) -> Claim:
    agrees = _fails(data, "itml-online")
    remark = "" if agrees else "with tuned targets it adapts, more slowly, and is the best of all without drift"
    paper = "fails, by its bias against low rank; for NMI completely"
    return Claim("online ITML", paper, _format_scores(data, "itml-online"), agrees, remark)


def _slow(data: FigureData) -> Claim:
    agrees = _fails(data, "comid-slow")
    remark = "" if agrees else "a constant low rate is only a little slower; a decaying rate falls far behind"
    return Claim("COMID, low rate", "fails, unable to adapt", _format_scores(data, "comid-slow"), agrees, remark)


def _decaying(data: FigureData) -> Claim:
    remark = "not in the paper's figure; the usual step sizes of a stationary problem"
    return Claim("COMID, decaying rate", "-", _format_scores(data, "comid-decaying"), None, remark)


def _high(data: FigureData) -> Claim:
    row = _overall(data, "comid")
    difference = Estimate(row["knn_error_more"], row["knn_error_more_se"], int(row["trials"]))
    ours = f"{_format_scores(data, 'comid')}; {_format_estimate(row, 'knn_error_more')} points more error"
    agrees: bool | None = difference.mean > 0
    remark = "a small difference: its step size was tuned on drifting streams"
    if not difference.is_significant:
        agrees, remark = None, "no significant difference with this number of trials"
    return Claim("COMID, high rate", "cannot adapt to changes as well as RICE-OCELAD", ours, agrees, remark)


def _only_one_adapts(data: FigureData) -> Claim:
    """Check whether every other method fails, except those that use more than the pairs."""
    what, paper = "Methods that adapt", "only RICE-OCELAD"
    needs = data.tables["methods"]["told"].tolist()
    others = [m for m, more in zip(data.tables["methods"]["method"].tolist(), needs, strict=True) if not more]
    if set(others) <= {"rice", REFERENCE}:
        return Claim(what, paper, "no other method that uses only the pairs was run", None)
    adapting = [_name(m) for m in others if m not in ("rice", REFERENCE) and not _fails(data, m)]
    ours = f"also {', '.join(adapting)}" if adapting else "no other method"
    return Claim(what, paper, ours, not adapting)


# The claims, each with a method that it needs.
_CLAIMS = (
    (REFERENCE, _adapts),
    ("rice", _logistic),
    ("saol", _saol),
    ("lmnn-start", _lmnn),
    ("itml-online", _itml),
    ("comid-slow", _slow),
    ("comid-decaying", _decaying),
    ("comid", _high),
    (REFERENCE, _only_one_adapts),
)


FIGURE = Figure(
    name="3",
    title="Tracking a changing metric",
    experiment=tracking.compute_tables,
    draw=draw,
    claims=claims,
    summarize=summarize,
    settings={"trials": 3000, "first_seed": 1000, "methods": " ".join(FIGURE_METHODS), "every": 100},
    quick={"trials": 8},
    departures=(
        "The paper gives no numbers for the clusters, the noise, the drift and the lengths of the phases; the choices "
        "are documented in ocelad.evaluation.streams.DriftingClusters. The settings of all methods were chosen on "
        "streams of other seeds."
    ),
    check=tracking.check_settings,
)
