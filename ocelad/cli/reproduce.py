"""ocelad reproduce: all figures, and one page about them."""

from __future__ import annotations

from contextlib import suppress
from time import monotonic
from typing import Any

import click

from ocelad.cli.figure import claims_table, computed, running
from ocelad.cli.progress import duration
from ocelad.cli.shared import ROWS_SKIPPED, as_json, print_json, print_tables, why_no_picture

REPORT = "report.html"


@click.command(short_help="All figures of the paper, and one page about them.")
@click.option("--quick", is_flag=True, help="Small sizes, about two minutes in all.")
@click.option("--only", metavar="N,N", help="Some of the figures, with commas between.")
@running
@as_json
def reproduce(only: str | None, as_json: bool, **options: Any) -> None:
    """Compute all figures of the paper and write one HTML page: pictures, the paper's words beside ours, and settings.

    The page needs nothing else: it can be sent to somebody as it is. What is finished is not computed again, also what
    "ocelad figure" computed in the same folder. Figures whose reviews are not there are left out, and named on the page
    (exit code 3).

    \b
    Examples:
      ocelad reproduce --quick
      ocelad reproduce --data ~/multi-domain-sentiment
      ocelad reproduce --only 1,2,3 --output results
    """
    from ocelad.io.state_files import replace_whole
    from ocelad.lab.figures import FIGURES
    from ocelad.lab.figures.folder import Folder
    from ocelad.lab.figures.report import Part, report

    chosen = _chosen(only)
    if (no_picture := why_no_picture()) is not None:
        raise ImportError(no_picture)
    start, missing = monotonic(), dict[str, str]()
    parts: dict[str, Part] = {}
    path = options["output"] / REPORT

    def write() -> None:
        in_order = [parts[name] for name in FIGURES if name in parts]
        replace_whole(path, report(in_order, missing).encode())

    for number, name in enumerate(chosen, 1):
        figure, folder = FIGURES[name], Folder(options["output"], FIGURES[name])
        click.echo(f"Figure {name} ({number} of {len(chosen)}): {figure.title}", err=True)
        try:
            rows, _ = computed(figure, figure.chosen(quick=options["quick"]), options)
        except (OSError, ValueError) as error:
            if not figure.needs_reviews:
                raise
            missing[name] = str(error)  # the others do not need the reviews
            click.echo(f"Not computed: {error}", err=True)
            continue
        parts[name] = Part(figure, rows, folder.draw(rows).read_bytes())
        write()  # what is there so far can be looked at
    for name in set(FIGURES) - set(chosen):
        with suppress(OSError, ValueError):  # those that were computed earlier belong to the page
            folder = Folder(options["output"], FIGURES[name])
            rows = folder.rows()
            parts[name] = Part(FIGURES[name], rows, folder.draw(rows).read_bytes())
    write()
    claims = {name: [claim._asdict() for claim in FIGURES[name].claims(parts[name].rows)] for name in parts}
    if as_json:
        print_json({"figures": claims, "missing": missing, "report": str(path)})
    else:
        print_tables(*(claims_table(FIGURES[name], parts[name].rows) for name in FIGURES if name in parts), width=140)
        click.echo(f"Done in {duration(monotonic() - start)}.")
        click.echo(f"Report: {path}")
    if missing:
        click.get_current_context().exit(ROWS_SKIPPED)


def _chosen(only: str | None) -> list[str]:
    from ocelad.lab.figures import FIGURES

    names = list(FIGURES) if only is None else [name.strip() for name in only.split(",")]
    for name in names:
        if name not in FIGURES:
            raise click.BadParameter(
                f"there is no figure {name!r}; accepted: {', '.join(FIGURES)}", param_hint="--only"
            )
    return list(dict.fromkeys(names))
