"""ocelad reproduce: all figures, and one page about them."""

from __future__ import annotations

from time import monotonic
from typing import Any

import click

from ocelad.cli.figure import claims_table, computed, running
from ocelad.cli.progress import duration
from ocelad.cli.shared import as_json, print_json, print_tables, why_no_picture

REPORT = "report.html"


@click.command(short_help="All figures of the paper, and one page about them.")
@click.option("--quick", is_flag=True, help="Small sizes, about two minutes in all.")
@click.option("--only", metavar="N,N", help="Some of the figures, with commas between.")
@running
@as_json
def reproduce(only: str | None, as_json: bool, **options: Any) -> None:
    """Compute all figures of the paper and write one HTML page: pictures, the paper's words beside ours, and settings.

    The page needs nothing else: it can be sent to somebody as it is. What is finished is not computed again, also what
    "ocelad figure" computed in the same folder.

    \b
    Examples:
      ocelad reproduce --quick
      ocelad reproduce --data ~/multi-domain-sentiment
      ocelad reproduce --only 1,2,3 --output results
    """
    from ocelad.figures import FIGURES
    from ocelad.figures.report import part, report
    from ocelad.saved import replace_whole

    chosen = _chosen(only)
    if (no_picture := why_no_picture()) is not None:
        raise ImportError(no_picture)
    start, parts, missing = monotonic(), [], {}
    path = options["output"] / REPORT
    for number, name in enumerate(chosen, 1):
        figure = FIGURES[name]
        click.echo(f"Figure {name} ({number} of {len(chosen)}): {figure.title}", err=True)
        try:
            rows, _ = computed(figure, figure.chosen(quick=options["quick"]), options)
        except FileNotFoundError as error:
            if not figure.needs_reviews:
                raise
            missing[name] = str(error)
            click.echo(f"Not computed: {error}", err=True)
            continue
        parts.append(part(figure, rows))
        replace_whole(path, report(parts, missing).encode())  # what is there so far can be looked at
    replace_whole(path, report(parts, missing).encode())
    if as_json:
        figures = {each.figure.name: [c._asdict() for c in each.figure.claims(each.rows)] for each in parts}
        print_json({"figures": figures, "missing": missing, "report": str(path)})
        return
    for each in parts:
        print_tables(claims_table(each.figure, each.rows), width=140)
    click.echo(f"Done in {duration(monotonic() - start)}.")
    click.echo(f"Report: {path}")


def _chosen(only: str | None) -> list[str]:
    from ocelad.figures import FIGURES

    names = list(FIGURES) if only is None else [name.strip() for name in only.split(",")]
    for name in names:
        if name not in FIGURES:
            raise click.BadParameter(
                f"there is no figure {name!r}; accepted: {', '.join(FIGURES)}", param_hint="--only"
            )
    return list(dict.fromkeys(names))
