"""What a shell completes: files, and the names of methods, streams, figures and settings.

The names are listed here, because importing the packages that define them takes longer than a person waits for the Tab
key. A test compares both.
"""

from __future__ import annotations

from typing import Any

import click

METHODS = (
    *("adaptive", "curved", "rice", "rice-hinge", "saol", "cbce", "ader", "hedge"),
    *("comid", "comid-slow", "comid-decaying", "comid-oracle", "itml-online", "lego", "pola", "adagrad", "ftrl"),
    *("kissme", "oasis", "lmnn-start", "lmnn", "lmnn-pairs", "mmc", "itml", "nca", "lda", "pca", "mds"),
    *("whitening", "standardized", "standardized-start", "euclidean", "cosine", "truth"),
)
GROUPS = ("all", "ensembles", "online", "batch", "fixed")
STREAMS = (
    *("paper", "static", "slow", "fast", "switching", "noisy", "rotated", "rotated-noisy", "heavy-tailed"),
    *("units", "words"),
)
FIGURES = ("1", "2", "3", "4", "5", "6", "regret")
SETTINGS = (
    *("loss", "step_size", "shrinkage", "regularizer", "divergence", "shortest_interval", "n_scales", "finest"),
    *("initial_scale", "initial_threshold", "max_norm", "engine", "max_rank", "diagonal", "l1_tolerance"),
)


class FilePath(click.ParamType):  # type: ignore[type-arg]
    """The name of a file, or "-"; shells complete files."""

    name = "file"

    def shell_complete(self, context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        """Let the shell complete the names of files."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class Words(click.ParamType):  # type: ignore[type-arg]
    """A text of which shells complete some words, and with ``files`` the names of files, too."""

    name = "text"

    def __init__(self, words: tuple[str, ...], *, files: bool = False) -> None:
        self.words = words
        self.files = files

    def shell_complete(self, context: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
        """Return the words that begin as the incomplete one; let the shell complete files if there are none."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
        return found or ([CompletionItem(incomplete, type="file")] if self.files else [])
