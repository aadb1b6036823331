"""Figures, and access to matplotlib, which is an optional dependency."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad._typing import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, which colour-blind readers can distinguish.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
GREY = "#777777"


def pyplot() -> Any:
    """Import ``matplotlib.pyplot``, or raise an ImportError that names the extra to install."""
    try:
        import matplotlib.pyplot
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'ocelad[plot]'") from None
    return matplotlib.pyplot


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a file and close it."""
    figure.savefig(path, dpi=120)
    pyplot().close(figure)


def plot_history(rows: Sequence[Any], shares: Floats, experts: Sequence[str]) -> Any:
    """Plot the course of tracking over the pairs: accuracy, drift, and the weight of each expert.

    Parameters
    ----------
    rows : sequence of Summary
    shares : array of shape (n_rows, n_experts)
        The normalised weights of the experts.
    experts : sequence of str
        The names of the experts; for scales their interval lengths.
    """
    figure, (top, middle, bottom) = pyplot().subplots(
        3, 1, figsize=(9, 8.4), sharex=True, height_ratios=[1.6, 1, 1.8], layout="constrained"
    )
    ends = [row.round for row in rows]
    _draw_steps(top, ends, [100 * row.accuracy for row in rows], PALETTE[0])
    top.set_ylabel("accuracy (%)")
    top.set_ylim(top=min(top.get_ylim()[1], 100.5))
    top.set_title("Each pair predicted before it was learned", loc="left", fontsize=10)
    _draw_steps(middle, ends, [row.drift for row in rows], PALETTE[1])
    middle.set_ylabel("drift per 1000 pairs")
    middle.set_ylim(bottom=0)
    draw_stacked_weights(bottom, ends, shares, experts, "expert")
    bottom.set_xlabel("pairs")
    for ax in (top, middle, bottom):
        _tidy(ax, ends[-1])
    return figure


def plot_weights(rows: Sequence[Any], shares: Floats, experts: Sequence[str]) -> Any:
    """Plot the normalised weight of each expert over the pairs."""
    figure, ax = pyplot().subplots(figsize=(9, 4.2), layout="constrained")
    ends = [row.round for row in rows]
    draw_stacked_weights(ax, ends, shares, experts, "expert")
    ax.set_xlabel("pairs")
    _tidy(ax, ends[-1])
    return figure


def plot_spectrum(eigenvalues: Floats) -> Any:
    """Plot the eigenvalues of a metric in decreasing order."""
    figure, ax = pyplot().subplots(figsize=(7, 4), layout="constrained")
    ax.bar(np.arange(1, len(eigenvalues) + 1), eigenvalues, color=PALETTE[0], width=0.8)
    ax.set_xlabel("direction")
    ax.set_ylabel("eigenvalue of the metric")
    ax.xaxis.get_major_locator().set_params(integer=True)
    _tidy(ax)
    return figure


def plot_feature_weights(rows: Sequence[Any], description: str) -> Any:
    """Plot the share of each feature, the largest at the top.

    Parameters
    ----------
    rows : sequence of FeatureWeight
    description : str
        What a share is a share of.
    """
    names = [row.feature for row in rows]
    figure, ax = pyplot().subplots(figsize=(7, 1 + 0.24 * len(names)), layout="constrained")
    ax.barh(range(len(names)), [100 * row.share for row in rows], color=PALETTE[0], height=0.7)
    ax.set_yticks(range(len(names)), [name if len(name) <= 40 else f"{name[:19]}…{name[-20:]}" for name in names])
    ax.invert_yaxis()
    ax.set_xlabel(f"{description} (%)")
    _tidy(ax)
    return figure


def plot_embedding(points: Floats, labels: Any = None, title: str | None = None) -> Any:
    """Plot points on their first two principal axes, coloured by their labels."""
    figure, ax = pyplot().subplots(figsize=(7.5, 6), layout="constrained")
    plane = principal_plane(points)
    size = float(np.clip(12000 / len(plane), 4, 40))
    if labels is None:
        ax.scatter(plane[:, 0], plane[:, 1], s=size, color=PALETTE[0], alpha=0.7, linewidths=0)
    elif (numbers := _as_numbers(labels)) is not None and len(np.unique(numbers)) > len(PALETTE):
        scatter = ax.scatter(plane[:, 0], plane[:, 1], s=size, c=numbers, cmap="viridis", alpha=0.8, linewidths=0)
        figure.colorbar(scatter, ax=ax, label=title)
    else:
        _draw_classes(ax, plane, np.asarray(labels), size, title)
    ax.set_xlabel("first principal axis under the learned distance")
    ax.set_ylabel("second")
    ax.set_aspect("equal", adjustable="datalim")
    _tidy(ax)
    return figure


def plot_reliability(bins: Sequence[Any]) -> Any:
    """Plot the observed share of similar pairs against the predicted probability, with the diagonal.

    Parameters
    ----------
    bins : sequence of CalibrationBin
    """
    figure, ax = pyplot().subplots(figsize=(5.5, 5.5), layout="constrained")
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle="--")
    ax.plot([each.predicted for each in bins], [each.observed for each in bins], "o-", color=PALETTE[0])
    ax.set_xlabel('predicted probability of "same"')
    ax.set_ylabel("observed share")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    _tidy(ax)
    return figure


def _as_numbers(labels: Any) -> Floats | None:
    """Return the labels as numbers, or None if a label is not a number."""
    try:
        return np.array([float(label) for label in labels])
    except ValueError:
        return None


def _draw_classes(ax: Axes, plane: Floats, labels: Any, size: float, title: str | None) -> None:
    """Draw the largest classes in different colours, and all others in grey."""
    x, y = plane.T
    names, counts = np.unique(labels, return_counts=True)
    largest = sorted(names[np.argsort(-counts, kind="stable")][: len(PALETTE) - 1], key=lambda name: (len(name), name))
    others = plane[~np.isin(labels, largest)]
    if len(others):
        ax.scatter(others[:, 0], others[:, 1], s=size, color=GREY, alpha=0.7, linewidths=0, label="others")
    for name, color in zip(largest, PALETTE, strict=False):
        ax.scatter(x[labels == name], y[labels == name], s=size, color=color, alpha=0.7, linewidths=0, label=str(name))
    ax.legend(title=title, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), markerscale=1.5)


def principal_plane(points: Floats) -> Floats:
    """Project points on their first two principal axes; zeros for missing axes.

    >>> principal_plane(np.array([[0.0, 0.0], [0.0, 2.0], [0.0, 4.0]])).round(6) + 0.0
    array([[ 2.,  0.],
           [ 0.,  0.],
           [-2.,  0.]])
    """
    centred = points - points.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(points), 2))
    projected = centred @ axes[:2].T
    plane[:, : projected.shape[1]] = projected
    return plane


def draw_stacked_weights(
    ax: Axes, ends: Sequence[int], shares: Floats, names: Sequence[Any], title: str = "interval length"
) -> None:
    """Draw normalised weights as stacked areas; each row of them is drawn at its end."""
    used = np.flatnonzero(shares.any(axis=0))
    colors = pyplot().colormaps["viridis"](np.linspace(0, 0.95, len(used)))
    ax.stackplot(
        [0, *ends],
        np.vstack([shares[:1], shares])[:, used].T,
        colors=colors,
        labels=[str(names[int(j)]) for j in used],
    )
    ax.set_ylim(0, 1)
    ax.set_ylabel("normalised weight")
    ax.legend(
        title=title,
        frameon=False,
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        reverse=True,
        fontsize=8,
        title_fontsize=8,
        labelspacing=0.2,
    )


def _draw_steps(ax: Axes, ends: Sequence[int], values: Sequence[float], color: str) -> None:
    ax.stairs(values, [0, *ends], baseline=None, color=color, linewidth=1.6)


def _tidy(ax: Axes, end: int | None = None) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    if end is not None:
        ax.set_xlim(0, end)
