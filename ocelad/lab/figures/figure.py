"""``Figure``: how a figure is computed and drawn, and how it compares with the paper.

An experiment (``ocelad/lab/experiments/``) computes tables from trials that a ``Runner`` runs. The figure of the same
name (``ocelad/lab/figures/``) draws them and checks the paper's claims. Since drawing is separate, saved data can be
drawn again, and a change of the drawing does not invalidate finished trials.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import ocelad
from ocelad._validation import check_choice
from ocelad.lab.figures.figure_data import FigureData, Table
from ocelad.lab.journal import PACKAGES
from ocelad.lab.runner import Runner

Tables: TypeAlias = Mapping[str, Table]


class SummaryTable(NamedTuple):
    """The main numbers of a figure as a table of text: the headings of its columns, and its rows."""

    columns: list[str]
    rows: list[list[str]]


class Claim(NamedTuple):
    """A claim of the paper and what the computed data say about it.

    Attributes
    ----------
    what : str
        The subject, such as "SAOL: mean k-NN error".
    paper, ours : str
        What the paper states or shows, and what was computed here.
    agrees : bool or None
        Whether both agree qualitatively; None if the paper makes no claim, or the data cannot decide it.
    remark : str
        The reason, or a caveat.
    """

    what: str
    paper: str
    ours: str
    agrees: bool | None
    remark: str = ""

    @property
    def verdict(self) -> str:
        """``agrees`` as "yes", "no" or "-"."""
        return {True: "yes", False: "no", None: "-"}[self.agrees]


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or an additional one.

    Attributes
    ----------
    name, title : str
    experiment : callable (runner, reviews_folder, settings as keywords) -> tables
        Computes the tables. The folder is None for the default location of the reviews.
    draw : callable (data) -> matplotlib figure
    claims : callable (data) -> list of Claim
    summarize : callable (data) -> SummaryTable, or None
        The main numbers, for figures whose claims do not contain all of them.
    settings : dict
        The settings of the experiment at full size. All figures use the names "first_seed" and "trials".
    quick : dict
        The settings that differ in a quick run of some seconds.
    needs_reviews : bool
        Whether it needs the reviews, which are not part of the package.
    departures : str
        Where the computation differs from the paper, or the paper does not specify it.
    check : callable (settings as keywords), or None
        Raises an error for a wrong setting before anything is computed.
    """

    name: str
    title: str
    experiment: Callable[..., Tables]
    draw: Callable[[FigureData], Any]
    claims: Callable[[FigureData], list[Claim]]
    summarize: Callable[[FigureData], SummaryTable] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    needs_reviews: bool = False
    departures: str = ""
    check: Callable[..., None] | None = None

    def resolve_settings(self, *, quick: bool = False, **changed: Any) -> dict[str, Any]:
        """Return all settings with some of them changed; raise if a value is wrong or of another type."""
        for name, value in changed.items():
            check_choice(name, f"a setting of figure {self.name}", self.settings)
            default = self.settings[name]
            if type(value) is not type(default) and not (isinstance(default, float) and type(value) is int):
                raise TypeError(
                    f"{name} of figure {self.name} must be {type(default).__name__}, such as {default!r}; got {value!r}"
                )
        resolved = {**self.settings, **(self.quick if quick else {}), **changed}
        if self.check is not None:
            self.check(**resolved)
        return resolved

    def compute(
        self, runner: Runner | None = None, *, reviews_folder: Path | None = None, **settings: Any
    ) -> FigureData:
        """Compute the data of the figure; settings that are not given are those of the full size."""
        resolved = self.resolve_settings(**settings)
        tables = self.experiment(runner or Runner(), reviews_folder, **resolved)
        versions = {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}}
        metadata = {"figure": self.name, "settings": resolved, "version": ocelad.__version__, "versions": versions}
        return FigureData(metadata, {name: dict(table) for name, table in tables.items()})  # type: ignore[arg-type]
