"""The folder of a figure: finished trials, rows, and the picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ocelad.evaluation.plots import save
from ocelad.lab.figures.figure import Figure
from ocelad.lab.figures.rows import Format, Rows
from ocelad.lab.journal import Journal
from ocelad.lab.runner import Progress, Runner
from ocelad.lab.trials import Backend

JOURNAL = "trials.jsonl"


class Folder:
    """Where a figure's trials are kept, and its rows and picture are written.

    Parameters
    ----------
    root : path
        The folder that has one for each figure.
    figure : Figure
    """

    def __init__(self, root: str | Path, figure: Figure) -> None:
        self.figure = figure
        self.path = Path(root) / f"figure-{figure.name}"

    def compute(
        self,
        settings: Mapping[str, Any],
        *,
        data: Path | None = None,
        engine: Backend = "processes",
        n_jobs: int = -1,
        address: str | None = None,
        progress: Progress | None = None,
        restart: bool = False,
        format: Format = "csv",
    ) -> Rows:
        """Run the trials that are not finished, and save the rows."""
        with Journal(self.path / JOURNAL, restart=restart) as journal:
            runner = Runner(journal, engine=engine, n_jobs=n_jobs, address=address, progress=progress)
            rows = self.figure.rows(runner, data=data, **settings)
        rows.save(self.path, format)
        return rows

    def rows(self) -> Rows:
        """Those that were saved."""
        rows = Rows.load(self.path)
        if rows.metadata.get("figure") != self.figure.name:
            raise ValueError(f"the rows in {str(self.path)!r} are of figure {rows.metadata.get('figure')!r}")
        return rows

    def draw(self, rows: Rows, kind: str = "png") -> Path:
        """Draw them into the folder."""
        path = self.path / f"figure.{kind}"
        save(self.figure.draw(rows), path)
        return path
