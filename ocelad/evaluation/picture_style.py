"""The style of all pictures: fonts, sizes, grid and colours, light or dark; and access to matplotlib.

Colours are named by their position in the palette, ``"C0"`` to ``"C7"``, so that each theme has its own shades.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

from ocelad._validation import check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Returned = TypeVar("Returned")
ThemeName: TypeAlias = Literal["light", "dark"]


class Theme(NamedTuple):
    """The colours of a theme.

    Attributes
    ----------
    background, text, muted, grid : str
        Muted is for what is not data: references, and marks of phases.
    palette : tuple of str
        Eight colours. Colour-blind readers can distinguish any two, and each has a contrast of 3 with the background.
    """

    background: str
    text: str
    muted: str
    grid: str
    palette: tuple[str, ...]


THEMES: dict[str, Theme] = {
    "light": Theme(
        background="#ffffff",
        text="#20242a",
        muted="#737980",
        grid="#e3e6ea",
        palette=("#0072b2", "#d55e00", "#009670", "#b8327f", "#6e4a00", "#309bd0", "#20242a", "#9a5cff"),
    ),
    "dark": Theme(
        background="#14171c",
        text="#e6e9ee",
        muted="#8a9099",
        grid="#2b3038",
        palette=("#4a9ff0", "#f2803a", "#2dbd94", "#e58fc4", "#efd520", "#a3e6ff", "#f4f4f4", "#8b69c4"),
    ),
}
#: The colours of the palette, in any theme.
PALETTE = tuple(f"C{k}" for k in range(8))
#: A grey that is visible in both themes.
GREY = "#7d838b"
#: Dots per inch of a picture of pixels.
DPI = 130

_theme: ContextVar[ThemeName] = ContextVar("theme", default="light")


def current_theme() -> Theme:
    """Return the theme in which pictures are drawn."""
    return THEMES[_theme.get()]


@contextmanager
def picture_theme(name: ThemeName) -> Iterator[Theme]:
    """Draw all pictures within the ``with`` block in a theme.

    >>> with picture_theme("dark") as theme:
    ...     theme.background
    '#14171c'
    """
    token = _theme.set(check_choice(name, "theme", ("light", "dark")))
    try:
        yield current_theme()
    finally:
        _theme.reset(token)


def styled(draw: Callable[..., Returned]) -> Callable[..., Returned]:
    """Let a function draw in the style of this package.

    It also accepts ``theme``, "light" or "dark"; None: that of ``picture_theme``, by default light.
    """

    @wraps(draw)
    def drawn(*arguments: Any, theme: ThemeName | None = None, **settings: Any) -> Returned:
        plt = pyplot()
        with picture_theme(_theme.get() if theme is None else theme) as colors, plt.rc_context(_settings(colors)):
            result = draw(*arguments, **settings)
            if hasattr(result, "draw_without_rendering"):
                result.draw_without_rendering()  # ticks that are made later take the colours of these
                _fix_colors(result)
            return result

    return drawn


def _fix_colors(figure: Any) -> None:
    """Replace names of palette colours, which matplotlib would look up when the figure is saved, by the colours."""
    from matplotlib.colors import to_hex
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    for artist in figure.findobj(lambda artist: isinstance(artist, (Line2D, Text))):
        for name in ("color", "markerfacecolor", "markeredgecolor"):
            value = getattr(artist, f"get_{name}", lambda: None)()
            if value in PALETTE:
                artist.set(**{name: to_hex(value)})


def _settings(theme: Theme) -> dict[str, Any]:
    """Return the settings of matplotlib for a theme."""
    text = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor")
    lines = ("axes.edgecolor", "xtick.color", "ytick.color", "legend.edgecolor")
    faces = ("figure.facecolor", "axes.facecolor", "legend.facecolor")
    return {
        **dict.fromkeys(text, theme.text),
        **dict.fromkeys(lines, theme.muted),
        **dict.fromkeys(faces, theme.background),
        "savefig.facecolor": "auto",
        "axes.prop_cycle": pyplot().cycler(color=theme.palette),
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": theme.grid,
        "grid.linewidth": 0.7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.labelsize": 10,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "legend.fontsize": 9,
        "legend.title_fontsize": 9,
        "legend.frameon": False,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # matplotlib brings it along: pictures look the same everywhere
        "font.size": 10,
        "lines.linewidth": 1.8,
        "svg.fonttype": "none",
    }


def pyplot() -> Any:
    """Import ``matplotlib.pyplot``, or raise an ImportError that names the extra to install."""
    try:
        import matplotlib.pyplot
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'ocelad[plot]'") from None
    return matplotlib.pyplot


def save_figure(figure: Figure, path: str | os.PathLike[str], **metadata: str) -> None:
    """Write a figure to a file and close it."""
    figure.savefig(path, dpi=DPI, metadata=metadata or None)
    pyplot().close(figure)


def mark_round(ax: Axes, at: float) -> None:
    """Draw a thin vertical line, such as between two phases."""
    ax.axvline(at, color=GREY, linewidth=0.8, alpha=0.6, zorder=0)
