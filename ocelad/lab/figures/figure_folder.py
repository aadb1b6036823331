"""``FigureFolder``: the folder with the finished trials, the data and the picture of a figure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ocelad.evaluation.picture_style import save_figure
from ocelad.lab.figures.figure import Figure
from ocelad.lab.figures.figure_data import FigureData, Format
from ocelad.lab.journal import Journal
from ocelad.lab.runner import Progress, Runner
from ocelad.lab.trials import Backend

JOURNAL = "trials.jsonl"


class FigureFolder:
    """The folder with the finished trials, the data and the picture of a figure.

    Parameters
    ----------
    root : path
        The folder that contains the folders of all figures.
    figure : Figure
    variant : str
        The end of the name of the folder, for settings whose results must not be mixed with those of others.
    """

    def __init__(self, root: str | Path, figure: Figure, variant: str = "") -> None:
        self.figure = figure
        self.path = Path(root) / f"figure-{figure.name}{variant and f'-{variant}'}"

    def compute(
        self,
        settings: Mapping[str, Any],
        *,
        reviews_folder: Path | None = None,
        backend: Backend = "processes",
        n_jobs: int = -1,
        address: str | None = None,
        progress: Progress | None = None,
        restart: bool = False,
        format: Format = "csv",
    ) -> FigureData:
        """Run the trials that are not finished, save the data and return them."""
        with Journal(self.path / JOURNAL, restart=restart) as journal:
            runner = Runner(journal, backend=backend, n_jobs=n_jobs, address=address, progress=progress)
            data = self.figure.compute(runner, reviews_folder=reviews_folder, **settings)
        data.save(self.path, format)
        return data

    def load(self) -> FigureData:
        """Load the saved data."""
        data = FigureData.load(self.path)
        if data.metadata.get("figure") != self.figure.name:
            raise ValueError(f"the data in {str(self.path)!r} are of figure {data.metadata.get('figure')!r}")
        return data

    def draw(self, data: FigureData, kind: str = "png") -> Path:
        """Draw the data into a file of this kind in the folder, and return its path."""
        path = self.path / f"figure.{kind}"
        save_figure(self.figure.draw(data), path)
        return path
