"""Pictures of trackers: their history, weights, eigenvalues, feature weights, embeddings and calibration.

Each function returns a figure, and accepts ``theme="dark"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ocelad._typing import Floats
from ocelad.adaptive.changes import Change
from ocelad.adaptive.expert_names import OTHERS, PLAIN
from ocelad.evaluation.picture_style import GREY, PALETTE, current_theme, pyplot, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Classes are told apart by colour, and of more than one palette of them by marker, too.
MARKERS = ("o", "^", "s")
MAX_CLASSES = len(PALETTE) * len(MARKERS)
# The longest names in a legend, and at the centres of classes, if there are at most so many.
_MAX_NAME, _MAX_LABEL, _MAX_LABELS = 26, 14, 12
_MISSING = "missing"


@styled
def plot_history(rows: Sequence[Any], shares: Floats, experts: Sequence[str], *, changes: Sequence[Change] = ()) -> Any:
    """Plot the course of tracking over the pairs: accuracy, drift, and the weights of groups of experts.

    Parameters
    ----------
    rows : sequence of Summary
    shares : array of shape (n_rows, n_experts)
        The normalised weights of the experts, or of groups of them.
    experts : sequence of str
        Their names.
    changes : sequence of Change
        Detected changes of the question.
    """
    figure, (top, middle, bottom) = pyplot().subplots(
        3, 1, figsize=(9, 8.4), sharex=True, height_ratios=[1.6, 1, 1.8], layout="constrained"
    )
    ends = [row.round for row in rows]
    centres = [(first + last) / 2 for first, last in pairwise([0, *ends])]
    accuracy = 100 * np.array([row.accuracy for row in rows])
    # Agresti and Coull's proportion has a standard error also if all predictions are right.
    sizes = np.array([row.n_pairs for row in rows]) + 4
    adjusted = (accuracy * (sizes - 4) / 100 + 2) / sizes
    error = 100 * np.sqrt(adjusted * (1 - adjusted) / sizes)
    top.fill_between(centres, accuracy - error, np.minimum(accuracy + error, 100), color="C0", alpha=0.2, linewidth=0)
    top.plot(centres, accuracy, color="C0", marker="o", markersize=3)
    top.set_ylabel("accuracy (%)")
    top.set_ylim(top=min(top.get_ylim()[1], 101))
    top.set_title("Each pair predicted before it was learned; band: one standard error")
    middle.stairs([row.drift for row in rows], [0, *ends], baseline=None, color="C1", linewidth=1.8)
    middle.set_ylabel("drift per 1000 pairs")
    middle.set_ylim(bottom=0)
    draw_stacked_weights(bottom, ends, shares, experts)
    bottom.set_xlabel("pairs")
    bottom.set_xlim(0, ends[-1])
    mark_changes((top, middle, bottom), changes)
    return figure


@styled
def plot_weights(rows: Sequence[Any], shares: Floats, experts: Sequence[str], *, changes: Sequence[Change] = ()) -> Any:
    """Plot the normalised weights of groups of experts over the pairs; see ``plot_history``."""
    figure, ax = pyplot().subplots(figsize=(9, 4.2), layout="constrained")
    ends = [row.round for row in rows]
    draw_stacked_weights(ax, ends, shares, experts)
    ax.set_xlabel("pairs")
    ax.set_xlim(0, ends[-1])
    mark_changes((ax,), changes)
    return figure


@styled
def plot_spectrum(eigenvalues: Floats) -> Any:
    """Plot the eigenvalues of a metric in decreasing order."""
    figure, ax = pyplot().subplots(figsize=(7, 4), layout="constrained")
    ax.bar(np.arange(1, len(eigenvalues) + 1), eigenvalues, color=PALETTE[0], width=0.8)
    ax.grid(axis="x", visible=False)
    ax.set_xlabel("direction")
    ax.set_ylabel("eigenvalue of the metric")
    ax.xaxis.get_major_locator().set_params(integer=True)
    return figure


@styled
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
    ax.set_yticks(range(len(names)), [shorten(name, 40) for name in names])
    ax.grid(axis="y", visible=False)
    ax.invert_yaxis()
    ax.set_xlabel(f"{description} (%)")
    return figure


@styled
def plot_embedding(points: Floats, labels: Any = None, title: str | None = None) -> Any:
    """Plot points on their first two principal axes, coloured by their labels.

    Up to 24 different labels are classes, numbers too; with more, numbers get a colour scale, and of other labels the
    rarest are drawn in grey. Points without a label (None, NaN or empty text) are grey circles.

    Parameters
    ----------
    points : array of shape (n_points, n_directions)
    labels : array-like of shape (n_points,), or None
    title : str or None
        The title of the legend.
    """
    figure, ax = pyplot().subplots(figsize=(8.5, 6), layout="constrained")
    plane = principal_plane(points)
    size = float(np.clip(16000 / len(plane), 9, 40))
    title = None if title is None else shorten(title, _MAX_NAME)
    if labels is None:
        ax.scatter(plane[:, 0], plane[:, 1], s=size, color=PALETTE[0], alpha=0.7, linewidths=0)
    else:
        has_label = np.array([label is not None and label == label and str(label) != "" for label in labels])
        labels = [label for label, is_given in zip(labels, has_label, strict=True) if is_given]
        x, y = plane[~has_label].T
        if len(x):
            ax.scatter(x, y, s=size, facecolors="none", edgecolors=GREY, alpha=0.7, linewidths=0.8, label=_MISSING)
        plane = plane[has_label]
        if (numbers := _as_numbers(labels)) is not None and len(np.unique(numbers)) > MAX_CLASSES:
            scatter = ax.scatter(plane[:, 0], plane[:, 1], s=size, c=numbers, cmap="viridis", alpha=0.8, linewidths=0)
            figure.colorbar(scatter, ax=ax, label=title)
            if len(x):
                ax.legend()
        else:
            _draw_classes(ax, plane, np.array([str(label) for label in labels]), size, title)
    ax.set_xlabel("first principal axis under the learned distance")
    ax.set_ylabel("second")
    ax.set_aspect("equal", adjustable="datalim")
    _separate_texts(figure, ax)
    return figure


@styled
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
    return figure


def _as_numbers(labels: Any) -> Floats | None:
    """Return the labels as numbers, or None if a label is not a number."""
    try:
        return np.array([float(label) for label in labels])
    except ValueError:
        return None


def _draw_classes(ax: Axes, plane: Floats, labels: Any, size: float, title: str | None) -> None:
    """Draw the largest classes in different colours and markers, and others in grey; name few at their centres."""
    from matplotlib import patheffects

    names, counts = np.unique(labels, return_counts=True)
    shown = MAX_CLASSES if len(names) <= MAX_CLASSES else MAX_CLASSES - 1
    largest = sorted(names[np.argsort(-counts, kind="stable")][:shown], key=lambda name: (len(name), name))
    others = plane[~np.isin(labels, largest)]
    if len(others):
        ax.scatter(others[:, 0], others[:, 1], s=size, color=GREY, alpha=0.4, linewidths=0, label=OTHERS)
    outline = [patheffects.withStroke(linewidth=3, foreground=current_theme().background)]
    for k, name in enumerate(largest):
        x, y = plane[labels == name].T
        style: Any = {"color": PALETTE[k % len(PALETTE)], "marker": MARKERS[k // len(PALETTE)]}
        ax.scatter(x, y, s=size, alpha=0.7, linewidths=0, label=shorten(name, _MAX_NAME), **style)
        if len(name) > _MAX_LABEL or len(names) > _MAX_LABELS:
            continue
        ax.text(
            float(np.median(x)),
            float(np.median(y)),
            name,
            fontsize=12,
            ha="center",
            va="center",
            fontweight="bold",
            color=style["color"],
            path_effects=outline,
            zorder=4,
        )
    legend = ax.legend(title=title, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_sizes([36.0])  # type: ignore[attr-defined]


def _separate_texts(figure: Any, ax: Axes) -> None:
    """Move texts that overlap an earlier one up or down by their height, or hide them if that does not help."""
    if len(ax.texts) < 2:
        return
    figure.draw_without_rendering()  # the limits and the layout are final only now
    placed: list[Any] = []
    for text in ax.texts:
        box = text.get_window_extent()
        shifts = (0.0, box.height, -box.height)
        free = (shift for shift in shifts if not any(box.translated(0, shift).overlaps(other) for other in placed))
        if (shift := next(free, None)) is None:
            text.set_visible(False)
            continue
        x, y = ax.transData.transform(text.get_position())
        moved = ax.transData.inverted().transform((x, y + shift))
        text.set_position((float(moved[0]), float(moved[1])))
        placed.append(box.translated(0, shift))


def shorten(name: str, length: int) -> str:
    """Return a name of at most this length, without its middle.

    >>> shorten("a feature with a long name", 12)
    'a feat… name'
    """
    return name if len(name) <= length else f"{name[: length // 2]}…{name[length // 2 + 1 - length :]}"


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
    ax: Axes, ends: Sequence[int], shares: Floats, names: Sequence[Any], title: str | None = None
) -> None:
    """Draw normalised weights as stacked areas; each row of them is drawn at its end.

    Up to eight areas have the colours of the palette; more, such as all scales of the method "rice", a sequence.
    """
    used = np.flatnonzero(shares.any(axis=0))
    greys = {PLAIN: GREY, OTHERS: current_theme().grid}
    if len(used) - len(greys.keys() & {names[int(j)] for j in used}) <= len(PALETTE):
        palette = iter(PALETTE)
        colors = [greys.get(names[int(j)]) or next(palette) for j in used]
    else:
        colors = list(pyplot().colormaps["viridis"](np.linspace(0, 0.95, len(used))))
    ax.stackplot(
        [0, *ends],
        np.vstack([shares[:1], shares])[:, used].T,
        colors=colors,
        labels=[shorten(str(names[int(j)]), 28) for j in used],
        edgecolor=current_theme().background,
        linewidth=0.4,
    )
    ax.set_ylim(0, 1)
    ax.set_ylabel("normalised weight")
    ax.legend(title=title, loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True, fontsize=8.5, labelspacing=0.3)


def mark_changes(panels: Sequence[Axes], changes: Sequence[Change]) -> None:
    """Mark the rounds in which changes were detected in all panels, and say so beside or above the first one."""
    style: Any = {"color": current_theme().text, "linewidth": 1.2, "linestyle": (0, (2, 2))}
    for ax in panels:
        for change in changes:
            ax.axvline(change.detected, zorder=3, **style)
    if not changes:
        return
    first, words = panels[0], "change detected"
    if first.get_legend() is None:
        first.plot([], [], label=words, **style)
        first.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:
        first.set_title(f"dashed: {words}", loc="right", fontsize=9)
