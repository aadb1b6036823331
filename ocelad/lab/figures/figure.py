"""``Figure``: what is computed for it, how it is drawn, and what it says beside the paper.

An experiment (``ocelad/lab/experiments/``) computes tables from trials that a ``Runner`` runs; a figure
(``ocelad/lab/figures/``) draws them and says what they show. So a picture can be drawn anew from saved rows, and a change
of the drawing makes no trial void.
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
from ocelad.lab.figures.rows import Rows, Table
from ocelad.lab.journal import PACKAGES
from ocelad.lab.runner import Runner

Tables: TypeAlias = Mapping[str, Table]


class Shown(NamedTuple):
    """A table for readers: what is at the head of its columns, and its rows, as text."""

    head: list[str]
    body: list[list[str]]


class Claim(NamedTuple):
    """Something that the paper says, and what the rows say of it.

    Attributes
    ----------
    what : str
        What is looked at, such as "SAOL: mean k-NN error".
    paper, ours : str
        What the paper says, or shows, and what came out here.
    agrees : bool or None
        Whether that is the same in kind; None where the paper says nothing that could be held against it.
    remark : str
        Why, or what else must be known of it.
    """

    what: str
    paper: str
    ours: str
    agrees: bool | None
    remark: str = ""

    @property
    def verdict(self) -> str:
        """Whether it agrees, in a word."""
        return {True: "yes", False: "no", None: "-"}[self.agrees]


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or one beside it.

    Attributes
    ----------
    name, title : str
    experiment : callable -> tables
        Called with a runner, ``data`` and the settings;
        ``data`` is the folder of the reviews, or None for where they are by default.
    draw : callable (rows) -> matplotlib figure
    claims : callable (rows) -> list of Claim
    shown : callable (rows) -> Shown, or None
        The main numbers, where the claims do not say them all.
    settings : dict
        What the experiment is called with, at full size; "first_seed" and "trials" are called so in all figures.
    quick : dict
        What of it is smaller, to have something to look at in seconds.
    needs_reviews : bool
        Whether it is about the reviews, which are not part of the package.
    departures : str
        Where it is not done as in the paper, or the paper does not say how it was done.
    """

    name: str
    title: str
    experiment: Callable[..., Tables]
    draw: Callable[[Rows], Any]
    claims: Callable[[Rows], list[Claim]]
    shown: Callable[[Rows], Shown] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)
    needs_reviews: bool = False
    departures: str = ""

    def chosen(self, *, quick: bool = False, **changed: Any) -> dict[str, Any]:
        """The settings with some of them changed; another kind of value than the usual one is refused."""
        for name, value in changed.items():
            check_choice(name, f"a setting of figure {self.name}", self.settings)
            usual = self.settings[name]
            if type(value) is not type(usual) and not (isinstance(usual, float) and isinstance(value, int)):
                raise TypeError(
                    f"{name} of figure {self.name} is {value!r}; accepted: {type(usual).__name__}, such as {usual!r}"
                )
        return {**self.settings, **(self.quick if quick else {}), **changed}

    def rows(self, runner: Runner | None = None, *, data: Path | None = None, **settings: Any) -> Rows:
        """Compute what it is drawn from; settings that are not given are those of the full size."""
        chosen = self.chosen(**settings)
        tables = self.experiment(runner or Runner(), data, **chosen)
        versions = {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}}
        metadata = {"figure": self.name, "settings": chosen, "version": ocelad.__version__, "versions": versions}
        return Rows(metadata, {name: dict(table) for name, table in tables.items()})  # type: ignore[arg-type]
