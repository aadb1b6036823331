"""ocelad reproduce: compute all figures and write one report."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import Any

import click

from ocelad.cli.exit_codes import ROWS_SKIPPED
from ocelad.cli.figure import compute_figure, make_claims_table, run_options
from ocelad.cli.options import json_option, theme_option
from ocelad.cli.output import find_plotting_error, print_json, print_tables
from ocelad.cli.progress import format_duration

REPORT = "report.html"


@click.command(short_help="Compute all figures of the paper and write a report.")
@click.option("--quick", is_flag=True, help="Use small sizes that take about two minutes in total.")
@click.option("--only", metavar="N,N", help="Compute only these figures, separated by commas.")
@run_options
@theme_option
@json_option
def reproduce(only: str | None, as_json: bool, **options: Any) -> None:
    """Compute all figures of the paper and write one HTML page with pictures, claims and settings.

    The page is one file without external resources. Trials that are finished in the folder, also by "ocelad figure",
    are not run again. Figures whose reviews are missing are skipped and listed on the page (exit code 3).

    \b
    Examples:
      ocelad reproduce --quick
      ocelad reproduce --data ~/multi-domain-sentiment
      ocelad reproduce --only 1,2,3 --output results
    """
    from ocelad.io.atomic import write_atomically
    from ocelad.lab.figures import FIGURES
    from ocelad.lab.figures.figure_folder import FigureFolder
    from ocelad.lab.figures.html_report import ReportFigure, make_report

    chosen = _parse_names(only)
    if (plotting_error := find_plotting_error()) is not None:
        raise ImportError(plotting_error)
    start, missing = monotonic(), dict[str, str]()
    reported: dict[str, ReportFigure] = {}
    path = options["output"] / REPORT

    def write() -> None:
        in_order = [reported[name] for name in FIGURES if name in reported]
        write_atomically(path, make_report(in_order, missing).encode())

    for number, name in enumerate(chosen, 1):
        figure, folder = FIGURES[name], FigureFolder(options["output"], FIGURES[name])
        click.echo(f"Figure {name} ({number} of {len(chosen)}): {figure.title}", err=True)
        try:
            data, _ = compute_figure(folder, figure.resolve_settings(quick=options["quick"]), options)
        except (OSError, ValueError) as error:
            if not figure.needs_reviews:
                raise
            missing[name] = str(error)
            click.echo(f"Not computed: {error}", err=True)
            continue
        reported[name] = ReportFigure(figure, data, folder.draw(data).read_bytes())
        write()  # after each figure, so that an interrupted run leaves a report of the finished ones
    for name in set(FIGURES) - set(chosen):
        with suppress(OSError, ValueError):  # figures that earlier runs computed are part of the report
            folder = FigureFolder(options["output"], FIGURES[name])
            data = folder.load()
            reported[name] = ReportFigure(FIGURES[name], data, folder.draw(data).read_bytes())
    write()
    claims = {name: [claim._asdict() for claim in FIGURES[name].claims(reported[name].data)] for name in reported}
    if as_json:
        print_json({"figures": claims, "missing": missing, "report": str(path)})
    else:
        tables = (make_claims_table(FIGURES[name], reported[name].data) for name in FIGURES if name in reported)
        print_tables(*tables, width=140)
        click.echo(f"Done in {format_duration(monotonic() - start)}.")
        click.echo(f"Report: {path}")
    if missing:
        click.get_current_context().exit(ROWS_SKIPPED)


def _parse_names(only: str | None) -> list[str]:
    from ocelad.lab.figures import FIGURES

    names = list(FIGURES) if only is None else [name.strip() for name in only.split(",")]
    for name in names:
        if name not in FIGURES:
            raise click.BadParameter(
                f"there is no figure {name!r}; accepted: {', '.join(FIGURES)}", param_hint="--only"
            )
    return list(dict.fromkeys(names))
