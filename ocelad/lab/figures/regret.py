"""The figure "regret": the worst interval of each length, against the bound of Theorem 1."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad.evaluation.plots import GREY, pyplot
from ocelad.evaluation.regret import bound
from ocelad.lab.experiments import regret
from ocelad.lab.experiments.regret import PLAYERS
from ocelad.lab.figures.differences import is_above_chance, mean_and_error
from ocelad.lab.figures.figure import Claim, Figure, Shown
from ocelad.lab.figures.rows import Rows
from ocelad.lab.figures.tracking import NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OURS = "rice-hinge"
_AGAINST = {"moving": "the true metric as it moves", "still": "the best of 5 metrics that stand still"}
_SAID = {
    "saol": "low static regret only: follows discrete changes, but no slow drift",
    "comid": "one rate cannot be right for every drift",
}
_DASHES = {"moving": "-", "still": ":"}


def draw(rows: Rows) -> Any:
    """The worst regret at each length with the bound above it, and how much of the bound it is."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(11, 5.4), layout="constrained")
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("length of the interval |I| (rounds)")
        ax.grid(which="major", color="#dddddd", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    for method in PLAYERS:
        _draw_regret(left, rows, method)
        _draw_shares(right, rows, method)
    _draw_bound(left, rows)
    left.set_title("Worst interval of each length, against the true metric", loc="left", fontsize=10)
    left.set_ylabel("regret (sum of hinge losses)")
    right.axhline(100, color=GREY, linewidth=1.8, linestyle="--")
    right.set_ylim(1, 200)
    right.set_yticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"])
    right.minorticks_off()
    right.set_title("Largest share of the bound of any interval and trial", loc="left", fontsize=10)
    right.set_ylabel("regret / second term of the bound (%)")
    _legend(figure, left, right, rows)
    return figure


def _draw_regret(ax: Axes, rows: Rows, method: str) -> None:
    name, color, _ = NAMES[method]
    worst = rows.where("worst", method=method, comparator="moving")
    shown = worst["regret_min"] > 0  # a logarithm has no place for the rest
    length = worst["length"][shown]
    ours = method == _OURS
    ax.plot(length, worst["regret"][shown], color=color, label=name, linewidth=2.6 if ours else 1.6, zorder=3 + ours)
    ax.fill_between(
        length, worst["regret_min"][shown], worst["regret_max"][shown], color=color, alpha=0.2, linewidth=0, zorder=2
    )


def _draw_bound(ax: Axes, rows: Rows) -> None:
    """The least that the second term is for any interval of that length: for the one that begins with round 1."""
    length = np.unique(rows.tables["worst"]["length"])
    least = bound(np.ones(len(length)), length)
    ax.plot(length, least, "--", color=GREY, linewidth=1.8)
    words = "The bound of Theorem 1, its second term alone:\nat least 40 log(|I| + 1) √|I|"
    ax.annotate(words, (0.02, 0.98), xycoords="axes fraction", va="top", color="#444444", fontsize=9)
    ax.set_ylim(top=3 * least[-1])


def _draw_shares(ax: Axes, rows: Rows, method: str) -> None:
    _, color, _ = NAMES[method]
    for comparator, dash in _DASHES.items():
        worst = rows.where("worst", method=method, comparator=comparator)
        shown = worst["share_max"] > 0
        ax.plot(worst["length"][shown], 100 * worst["share_max"][shown], dash, color=color, linewidth=1.8)


def _legend(figure: Any, left: Axes, right: Axes, rows: Rows) -> None:
    for comparator, label in (
        ("moving", "against the true metric"),
        ("still", "against the best of 5 that stand still"),
    ):
        right.plot([], [], _DASHES[comparator], color=GREY, linewidth=1.8, label=label)
    handles, labels = (a + b for a, b in zip(*(ax.get_legend_handles_labels() for ax in (left, right)), strict=True))
    title = f"{len(rows.tables['truth']['trial'])} trials; left: means, and bands from the least to the largest"
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9, title=title)


def shown(rows: Rows) -> Shown:
    """The worst regret and the largest share of the bound at some lengths."""
    lengths = np.unique(rows.tables["worst"]["length"])
    some = [int(lengths[np.abs(lengths - wanted).argmin()]) for wanted in (1, 10, 100, 1000) if wanted < lengths[-1]]
    some.append(int(lengths[-1]))
    body = []
    for method, comparator in product(PLAYERS, _AGAINST):
        worst = [rows.where("worst", method=method, comparator=comparator, length=length) for length in some]
        cells = [f"{row['regret'][0]:.0f} ({row['share_max'][0]:.1%})" for row in worst]
        body.append([NAMES[method][0], _AGAINST[comparator], *cells])
    return Shown(["mean regret (most of the bound)", "against", *(f"|I| = {length}" for length in some)], body)


def claims(rows: Rows) -> list[Claim]:
    """What Theorem 1 says, and what the rows say."""
    return [
        _bound_holds(rows, "moving"),
        _bound_holds(rows, "still"),
        _growth(rows),
        _beside(rows, "saol"),
        _beside(rows, "comid"),
    ]


def _bound_holds(rows: Rows, comparator: str) -> Claim:
    of_trials = rows.where("trials", method=_OURS, comparator=comparator)
    worst = int(of_trials["share"].argmax())
    share, rounds, trials = (
        float(of_trials["share"][worst]),
        rows.metadata["settings"]["rounds"],
        len(of_trials["share"]),
    )
    intervals = trials * rounds * (rounds + 1) // 2
    ours = (
        f"on all {intervals:,} intervals of {trials} trials at most {share:.1%} of the second term alone; "
        f"the most at length {of_trials['length'][worst]}"
    )
    paper = "at most 8 C (1 + gamma) sqrt|I| + 40 log(s + 1) sqrt|I| on every interval"
    what = f"RICE-OCELAD: regret against {_AGAINST[comparator]}"
    return Claim(what, paper, ours, share <= 1, _of_the_bound(rows, comparator))


def _of_the_bound(rows: Rows, comparator: str) -> str:
    """What one must know of the bound to read the share."""
    others = rows.tables["trials"]["method"] != _OURS
    most = float(rows.tables["trials"]["share"][others & (rows.tables["trials"]["comparator"] == comparator)].max())
    gamma = f"up to {rows.tables['truth']['path_length'].max():.0f}" if comparator == "moving" else "0"
    known = f"C is not known, so that the first term is left out (gamma is {gamma}), which makes the bound smaller"
    return known + (f"; the bound is loose: the other methods come to {most:.1%} at most" if most <= 1 else "")


def _growth(rows: Rows) -> Claim:
    worst = rows.where("worst", method=_OURS, comparator="moving")
    long = worst["length"] >= worst["length"].max() / 50
    length, gamma = worst["length"][long], worst["path_length"][long]
    ours, allowed = (_exponent(length, values) for values in (worst["regret"][long], (1 + gamma) * np.sqrt(length)))
    said = f"from length {length[0]} on like |I|^{ours:.2f}, where (1 + gamma) sqrt|I| grows like |I|^{allowed:.2f}"
    remark = "faster than sqrt|I| itself, which only a truth that moves allows" if ours > 0.5 else ""
    what = "RICE-OCELAD: how the worst regret grows with the length"
    return Claim(what, "like (1 + gamma) sqrt|I| at most", said, ours <= allowed, remark)


def _exponent(length: np.ndarray, values: np.ndarray) -> float:
    """p of the power law ``length^p`` that fits best, in logarithms."""
    return float(np.polyfit(np.log(length), np.log(np.maximum(values, 1e-9)), 1)[0])


def _beside(rows: Rows, method: str) -> Claim:
    """Whether RICE-OCELAD regrets less over the whole stream."""
    ours, other = (rows.where("trials", method=name, comparator="moving")["total"] for name in (_OURS, method))
    mean, error = mean_and_error(other - ours)
    said = f"{other.mean():.0f} over all rounds, RICE-OCELAD {ours.mean():.0f}: {mean:+.0f}"
    if len(ours) == 1:
        return Claim(
            f"{NAMES[method][0]}: regret against the true metric", _SAID[method], said, None, "one trial alone"
        )
    said, agrees = f"{said} ± {error:.0f}", is_above_chance(other - ours)
    remark = "" if agrees or method != "comid" else "its rate was chosen by looking at such streams"
    return Claim(f"{NAMES[method][0]}: regret against the true metric", _SAID[method], said, agrees, remark)


FIGURE = Figure(
    name="regret",
    title="Regret on every interval, and the bound",
    experiment=regret.tables,
    draw=draw,
    claims=claims,
    shown=shown,
    settings={"trials": 50, "first_seed": 1000, "rounds": 6000},
    quick={"trials": 4, "rounds": 2000},
)
