"""The figure "regret": the worst interval of each length compared with the bound of Theorem 1."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.evaluation.picture_style import GREY, PALETTE, pyplot, styled
from ocelad.evaluation.regret import regret_bound
from ocelad.lab.experiments import regret
from ocelad.lab.experiments.regret import METHOD_NAMES
from ocelad.lab.figures.figure import Claim, Figure, SummaryTable
from ocelad.lab.figures.figure_data import FigureData
from ocelad.lab.figures.tracking import NAMES
from ocelad.lab.statistics import paired_difference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OURS = "rice-hinge"
_COMPARATORS = {"moving": "the true metric as it moves", "still": "the best of 5 fixed metrics"}
_PAPER = {
    "saol": "low static regret only: follows discrete changes, but no slow drift",
    "comid": "one rate cannot be right for every drift",
}
_DASHES = {"moving": "-", "still": ":"}


@styled
def draw(data: FigureData) -> Any:
    """Draw the worst regret at each length with the bound, and the ratio of both."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(11, 5.4), layout="constrained")
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("length of the interval |I| (rounds)")
    for method in METHOD_NAMES:
        _draw_regret(left, data, method)
        _draw_shares(right, data, method)
    _draw_bound(left, data)
    left.set_title("Worst interval of each length, against the true metric", loc="left", fontsize=10)
    left.set_ylabel("regret (sum of hinge losses)")
    right.axhline(100, color=GREY, linewidth=1.8, linestyle="--")
    right.set_ylim(1, 200)
    right.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    right.minorticks_off()
    right.set_title("Largest ratio to the bound over all intervals and trials", loc="left", fontsize=10)
    right.set_ylabel("regret / second term of the bound (%)")
    _draw_legend(figure, left, right, data)
    return figure


def _draw_regret(ax: Axes, data: FigureData, method: str) -> None:
    name, color, _ = NAMES[method]
    worst = data.where("worst", method=method, comparator="moving")
    positive = worst["regret_min"] > 0  # the others have no place on a logarithmic axis
    length = worst["length"][positive]
    ours = method == _OURS
    ax.plot(length, worst["regret"][positive], color=color, label=name, linewidth=2.6 if ours else 1.6, zorder=3 + ours)
    ax.fill_between(
        length,
        worst["regret_min"][positive],
        worst["regret_max"][positive],
        color=color,
        alpha=0.2,
        linewidth=0,
        zorder=2,
    )


def _draw_bound(ax: Axes, data: FigureData) -> None:
    """Draw the smallest second term of the bound at each length, which is that of the interval from round 1."""
    length = np.unique(data.tables["worst"]["length"])
    least = regret_bound(np.ones(len(length)), length)
    ax.plot(length, least, "--", color=GREY, linewidth=1.8)
    label = "Second term of the bound of Theorem 1:\nat least 40 log(|I| + 1) √|I|"
    ax.annotate(label, (0.02, 0.98), xycoords="axes fraction", va="top", color=PALETTE[6], fontsize=9)
    ax.set_ylim(top=3 * least[-1])


def _draw_shares(ax: Axes, data: FigureData, method: str) -> None:
    _, color, _ = NAMES[method]
    for comparator, dash in _DASHES.items():
        worst = data.where("worst", method=method, comparator=comparator)
        positive = worst["share_max"] > 0
        ax.plot(worst["length"][positive], 100 * worst["share_max"][positive], dash, color=color, linewidth=1.8)


def _draw_legend(figure: Any, left: Axes, right: Axes, data: FigureData) -> None:
    for comparator, label in (
        ("moving", "against the true metric"),
        ("still", "against the best of 5 fixed metrics"),
    ):
        right.plot([], [], _DASHES[comparator], color=GREY, linewidth=1.8, label=label)
    handles, labels = (a + b for a, b in zip(*(ax.get_legend_handles_labels() for ax in (left, right)), strict=True))
    title = f"{len(data.tables['truth']['trial'])} trials; left: means, with bands from minimum to maximum"
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9, title=title)


def summarize(data: FigureData) -> SummaryTable:
    """Return the worst regret and the largest ratio to the bound at some lengths."""
    lengths = np.unique(data.tables["worst"]["length"])
    some = [int(lengths[np.abs(lengths - wanted).argmin()]) for wanted in (1, 10, 100, 1000) if wanted < lengths[-1]]
    some.append(int(lengths[-1]))
    rows = []
    for method, comparator in product(METHOD_NAMES, _COMPARATORS):
        worst = [data.where("worst", method=method, comparator=comparator, length=length) for length in some]
        cells = [f"{row['regret'][0]:.0f} ({row['share_max'][0]:.1%})" for row in worst]
        rows.append([NAMES[method][0], _COMPARATORS[comparator], *cells])
    columns = ["mean regret (largest ratio to the bound)", "comparator", *(f"|I| = {length}" for length in some)]
    return SummaryTable(columns, rows)


def claims(data: FigureData) -> list[Claim]:
    """Check Theorem 1 and the paper's statements about the other methods."""
    return [
        _bound_holds(data, "moving"),
        _bound_holds(data, "still"),
        _growth(data),
        _has_more_regret(data, "saol"),
        _has_more_regret(data, "comid"),
    ]


def _bound_holds(data: FigureData, comparator: str) -> Claim:
    trials = data.where("trials", method=_OURS, comparator=comparator)
    worst = int(trials["share"].argmax())
    share, n_trials = float(trials["share"][worst]), len(trials["share"])
    rounds = data.metadata["settings"]["rounds"]
    n_intervals = n_trials * rounds * (rounds + 1) // 2
    ours = (
        f"at most {share:.1%} of the second term on all {n_intervals:,} intervals of {n_trials} trials; "
        f"the maximum is at length {trials['length'][worst]}"
    )
    paper = "at most 8 C (1 + gamma) sqrt|I| + 40 log(s + 1) sqrt|I| on every interval"
    what = f"RICE-OCELAD: regret against {_COMPARATORS[comparator]}"
    return Claim(what, paper, ours, share <= 1, _describe_bound(data, comparator))


def _describe_bound(data: FigureData, comparator: str) -> str:
    """Return the remark on the omitted term of the bound, and on how loose the bound is."""
    others = data.tables["trials"]["method"] != _OURS
    largest = float(data.tables["trials"]["share"][others & (data.tables["trials"]["comparator"] == comparator)].max())
    gamma = f"up to {data.tables['truth']['path_length'].max():.0f}" if comparator == "moving" else "0"
    omitted = f"C is unknown, so the first term is omitted (gamma is {gamma}), which makes the bound smaller"
    return omitted + (f"; the bound is loose: the other methods reach at most {largest:.1%}" if largest <= 1 else "")


def _growth(data: FigureData) -> Claim:
    worst = data.where("worst", method=_OURS, comparator="moving")
    long = worst["length"] >= worst["length"].max() / 50
    length, gamma = worst["length"][long], worst["path_length"][long]
    ours, allowed = (_exponent(length, values) for values in (worst["regret"][long], (1 + gamma) * np.sqrt(length)))
    growth = f"from length {length[0]} on like |I|^{ours:.2f}; (1 + gamma) sqrt|I| grows like |I|^{allowed:.2f}"
    remark = "faster than sqrt|I|, which the bound allows only because the true metric moves" if ours > 0.5 else ""
    what = "RICE-OCELAD: growth of the worst regret with the length"
    return Claim(what, "at most like (1 + gamma) sqrt|I|", growth, ours <= allowed, remark)


def _exponent(length: np.ndarray, values: np.ndarray) -> float:
    """Return the exponent p of the power law ``length^p``, fitted by least squares to the logarithms."""
    return float(np.polyfit(np.log(length), np.log(np.maximum(values, 1e-9)), 1)[0])


def _has_more_regret(data: FigureData, method: str) -> Claim:
    """Check whether a method has significantly more regret over the whole stream than RICE-OCELAD."""
    ours, other = (data.where("trials", method=name, comparator="moving")["total"] for name in (_OURS, method))
    difference = paired_difference(other, ours)
    what = f"{NAMES[method][0]}: regret against the true metric"
    totals = f"{other.mean():.0f} over all rounds, RICE-OCELAD {ours.mean():.0f}: {difference.mean:+.0f}"
    if len(ours) == 1:
        return Claim(what, _PAPER[method], totals, None, "one trial has no standard error")
    agrees = difference.significant_sign == 1
    remark = "" if agrees or method != "comid" else "its step size was tuned on such streams"
    return Claim(what, _PAPER[method], f"{totals} ± {difference.standard_error:.0f}", agrees, remark)


FIGURE = Figure(
    name="regret",
    title="Regret on every interval and the bound of Theorem 1",
    experiment=regret.compute_tables,
    draw=draw,
    claims=claims,
    summarize=summarize,
    settings={"trials": 50, "first_seed": 1000, "rounds": 6000},
    quick={"trials": 4, "rounds": 2000},
)
