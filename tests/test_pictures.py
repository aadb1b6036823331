"""Pictures in both themes: all text is inside, colours are visible and distinct, and all panels are there."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D

from ocelad.adaptive.changes import Change
from ocelad.estimators.history import Summary
from ocelad.evaluation import plots
from ocelad.evaluation.picture_style import THEMES, picture_theme, save_figure
from ocelad.lab import demo as demo_module
from ocelad.lab.demo import Demo

LONG = "a remarkably long name that goes on and on and on until nobody reads it any more, number "
themes = pytest.mark.parametrize("theme", THEMES)
# Machado, Oliveira and Fernandes (2009): what people without red or green cones see, for linear RGB.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
}


def linear(color):
    rgb = np.array(to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(rgb):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    x, y, z = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def assert_text_is_inside(figure):
    figure.draw_without_rendering()
    renderer, (width, height) = figure.canvas.get_renderer(), figure.canvas.get_width_height()
    texts = [text for text in figure.findobj(plt.Text) if text.get_visible() and text.get_text().strip()]
    axes_of = {
        id(child): ax for ax in figure.axes for child in (*ax.xaxis.get_ticklabels(), *ax.yaxis.get_ticklabels())
    }
    for text in texts:
        if id(text) in axes_of:
            continue  # ticks beyond the limits are not drawn
        box = text.get_window_extent(renderer)
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        assert inside, (text.get_text(), box.bounds, (width, height))


def some_history(n=20):
    rows = [Summary(25 * (t + 1), 25, 0.5, 0.8, 3.0, 1.0, 0) for t in range(n)]
    shares = np.random.default_rng(0).random((n, 6))
    return rows, shares / shares.sum(axis=1, keepdims=True), [f"{LONG}{k}" for k in range(5)] + ["others"]


@themes
def test_each_colour_is_visible_and_any_two_are_distinct(theme):
    colors = THEMES[theme]
    assert all(contrast(color, colors.background) >= 3 for color in (*colors.palette, colors.muted))
    assert contrast(colors.text, colors.background) >= 7
    for name, matrix in VISIONS.items():
        seen = {color: lab(np.array(matrix) @ linear(color)) for color in colors.palette}
        for one, other in combinations(colors.palette, 2):
            assert np.linalg.norm(seen[one] - seen[other]) > 12, (name, one, other)


@themes
def test_all_text_is_inside_the_picture(theme, tmp_path):
    rng = np.random.default_rng(0)
    classes = [f"{LONG}{k % 11}" for k in range(200)]
    figures = [
        plots.plot_history(*some_history(), changes=[Change(100, 120, 11.0)], theme=theme),
        plots.plot_weights(*some_history(), changes=[Change(100, 120, 11.0)], theme=theme),
        plots.plot_spectrum(np.arange(9.0)[::-1], theme=theme),
        plots.plot_embedding(rng.normal(size=(200, 4)), classes, LONG, theme=theme),
        plots.plot_embedding(rng.normal(size=(200, 4)), np.arange(200), LONG, theme=theme),
        plots.plot_embedding(rng.normal(size=(200, 4)), [k % 40 for k in range(200)], "digit", theme=theme),
        plots.plot_reliability([], theme=theme),
    ]
    for figure in figures:
        assert to_hex(figure.get_facecolor()) == THEMES[theme].background
        assert_text_is_inside(figure)
        for text in figure.findobj(plt.Text):
            assert contrast(text.get_color(), THEMES[theme].background) >= 3
        for line in figure.findobj(Line2D):  # no name that matplotlib looks up when the figure is saved
            assert str(line.get_color()) not in {f"C{k}" for k in range(10)}
        save_figure(figure, tmp_path / "picture.png")


@pytest.mark.parametrize("n_classes", [2, 10, plots.MAX_CLASSES, plots.MAX_CLASSES + 5])
def test_classes_have_different_colours_or_markers(n_classes):
    labels = [k % n_classes for k in range(20 * n_classes)]  # numbers, such as the digits
    figure = plots.plot_embedding(np.random.default_rng(0).normal(size=(len(labels), 3)), labels, "class")
    (ax, *_) = figure.axes
    if n_classes > plots.MAX_CLASSES:
        assert len(figure.axes) == 2  # a colour scale
    else:
        styles = {(to_hex(each.get_facecolor()[0]), len(each.get_paths()[0].vertices)) for each in ax.collections}
        assert len(styles) == len(ax.collections) == n_classes
        assert [text.get_text() for text in ax.get_legend().get_texts()] == [str(k) for k in range(n_classes)]
    plt.close(figure)


@pytest.mark.parametrize("missing", [None, "", float("nan")])
@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_points_without_a_label_are_missing_and_do_not_change_the_kind_of_the_others(kind, missing):
    labels = [f"{k / 8}" if kind == "numbers" else f"kind {k % 3}" for k in range(60)]
    labels[::6] = [missing] * 10
    figure = plots.plot_embedding(np.random.default_rng(0).normal(size=(60, 3)), labels, "price")
    ax = figure.axes[0]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(ax.collections[0].get_offsets()) == 10
    if kind == "numbers":
        assert len(figure.axes) == 2  # a colour scale
        assert texts == ["missing"]
        assert ax.collections[1].get_array().tolist() == [k / 8 for k in range(60) if k % 6]
    else:
        assert texts == ["missing", "kind 0", "kind 1", "kind 2"]
    plt.close(figure)


def test_labels_at_the_centres_of_classes_do_not_overlap():
    points = np.random.default_rng(0).normal(size=(600, 3))  # all classes have nearly the same centre
    figure = plots.plot_embedding(points, [("toys", "kitchen", "garden", "books", "music")[k % 5] for k in range(600)])
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts if text.get_visible()]
    assert len(boxes) >= 3
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    plt.close(figure)


def test_a_theme_is_that_of_the_block_or_of_the_call_and_ends_with_it():
    before = dict(plt.rcParams)
    with picture_theme("dark"):
        dark, light = plots.plot_spectrum(np.ones(3)), plots.plot_spectrum(np.ones(3), theme="light")
    after = plots.plot_spectrum(np.ones(3))
    found = [to_hex(figure.get_facecolor()) for figure in (dark, light, after)]
    assert found == [THEMES[name].background for name in ("dark", "light", "light")]
    assert dict(plt.rcParams) == before
    with pytest.raises(ValueError, match="theme must be one of 'light', 'dark'"):
        plots.plot_spectrum(np.ones(3), theme="sepia")
    plt.close("all")


@themes
def test_the_demonstration_shows_the_experts_and_changes_of_the_default(theme, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(demo_module, "save_figure", lambda figure, path, **_: figures.append(figure))
    run = Demo(rounds=60)
    for _ in run:
        pass
    run.changes = [Change(20, 25, 11.0)]
    run.draw(tmp_path / "demo.png", theme=theme)
    (figure,) = figures
    assert_text_is_inside(figure)
    _stream, errors, drift, experts = figure.axes
    assert [text.get_text() for text in errors.get_legend().get_texts()] == list(demo_module.COLORS)
    assert "drift_" in drift.get_ylabel()
    assert [text.get_text() for text in drift.get_legend().get_texts()] == ["change detected"]
    assert "plain distance" in [text.get_text() for text in experts.get_legend().get_texts()]
    for ax in (drift, experts):
        assert any(list(line.get_xdata()) == [25, 25] for line in ax.lines)
    np.testing.assert_allclose(np.array(run.weights).sum(axis=1), 1.0)
    plt.close(figure)
