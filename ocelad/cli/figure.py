"""ocelad figure: a figure of the paper by one command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from ocelad.cli.progress import duration, tell_of_interrupt, trial_progress
from ocelad.cli.shared import PICTURES, as_json, print_json, print_tables, table, why_no_picture

if TYPE_CHECKING:
    from ocelad.lab.figures import Figure, Rows

Command = Callable[..., None]


def running(command: Command) -> Command:
    """The options that say where trials run and where results go."""
    for option in reversed(
        (
            click.option(
                "--output",
                default="ocelad-figures",
                show_default=True,
                type=click.Path(file_okay=False, path_type=Path),
                help="The folder of the results; what is finished in it is not computed again.",
            ),
            click.option(
                "--data",
                type=click.Path(file_okay=False, path_type=Path),
                help="The folder of the reviews (figures 4 to 6); that in OCELAD_DATA by default.",
            ),
            click.option("--download", is_flag=True, help="Fetch the reviews once (19 MB) and keep them in a cache."),
            click.option(
                "--engine",
                default="processes",
                show_default=True,
                type=click.Choice(["processes", "threads", "dask"]),
                help="Where trials run; dask: on a cluster that is there already.",
            ),
            click.option("--address", metavar="URL", help="Of the Dask scheduler, such as tcp://127.0.0.1:8786."),
            click.option(
                "--jobs", default=-1, show_default=True, type=int, help="How many at once; -1: all processors."
            ),
            click.option(
                "--format",
                "format_",
                default="csv",
                show_default=True,
                type=click.Choice(["csv", "parquet"]),
                help="Of the files of rows.",
            ),
            click.option("--restart", is_flag=True, help="Forget what is finished in the folder."),
        )
    ):
        command = option(command)
    return command


@click.command(short_help="A figure of the paper: rows, picture, and what agrees.")
@click.argument("name", required=False, metavar="N")
@click.option("--quick", is_flag=True, help="A small size, to have something to look at in seconds.")
@click.option("--trials", type=click.IntRange(1), help="How many trials (figures that have some).")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Another setting; --list names them.")
@click.option("--redraw", is_flag=True, help="Draw the saved rows again, and compute nothing.")
@click.option("--picture", default="png", show_default=True, type=click.Choice([kind[1:] for kind in PICTURES]))
@click.option("--list", "list_", is_flag=True, help="Name the figures and their settings, and stop.")
@running
@as_json
def figure(name: str | None, list_: bool, as_json: bool, **options: Any) -> None:
    """Compute figure N of the paper, save its rows, and draw it.

    The rows are saved with settings, seeds and versions, and drawn apart from that: --redraw needs no computation.
    Ctrl-C or a kill loses nothing that is finished: run the same command again, and it goes on. The rows are the same
    wherever the trials run, and in whatever order.

    \b
    Examples:
      ocelad figure --list
      ocelad figure 3 --quick
      ocelad figure 3 --trials 300
      ocelad figure 3 --engine dask --address tcp://127.0.0.1:8786
      ocelad figure 5 --data ~/multi-domain-sentiment --set features=raw
      ocelad figure 3 --redraw --picture svg
    """
    from ocelad.lab.figures import FIGURES

    if list_:
        _print_list(as_json)
        return
    if name is None:
        raise click.UsageError(f"say which figure: {', '.join(FIGURES)} (--list tells more)")
    if name not in FIGURES:
        raise click.UsageError(f"there is no figure {name!r}; accepted: {', '.join(FIGURES)}")
    chosen = FIGURES[name]
    no_picture = why_no_picture()
    if options["redraw"]:
        rows, seconds = _redrawn(chosen, options, no_picture), None
    else:
        rows, seconds = computed(chosen, _settings(chosen, options), options)
    folder = _folder(chosen, options)
    picture = folder.draw(rows, options["picture"]) if no_picture is None else None
    if as_json:
        print_json(as_plain(chosen, rows, picture))
        return
    print_tables(*shown_tables(chosen, rows), width=140)
    if chosen.departures:
        click.echo(chosen.departures)
    if seconds is not None:
        click.echo(f"Computed in {duration(seconds)}.")
    click.echo(f"Rows: {folder.path}")
    click.echo(f"Picture: {picture}" if picture else f"No picture: {no_picture}")


def computed(figure: Figure, settings: Mapping[str, Any], options: dict[str, Any]) -> tuple[Rows, float]:
    """The rows of a figure by the options of ``running``, and how many seconds it took."""
    _check_running(options)
    folder = _folder(figure, options)
    data = _downloaded() if options["download"] and figure.needs_reviews else options["data"]
    _tell_of_other_rows(folder, settings)
    start = monotonic()
    with trial_progress() as progress:
        try:
            rows = folder.compute(
                settings,
                data=data,
                engine=options["engine"],
                n_jobs=options["jobs"],
                address=options["address"],
                progress=progress,
                restart=options["restart"],
                format=options["format_"],
            )
        except KeyboardInterrupt:
            tell_of_interrupt(folder.path, options["restart"])
    return rows, monotonic() - start


def _tell_of_other_rows(folder: Any, settings: Mapping[str, Any]) -> None:
    """Say if rows of other settings are about to be replaced."""
    try:
        before = folder.rows().metadata["settings"]
    except (OSError, ValueError, KeyError):
        return
    changed = [f"{name} was {before.get(name)}" for name, value in settings.items() if before.get(name) != value]
    if changed:
        click.echo(
            f"The rows in {folder.path} are of other settings and will be replaced: {'; '.join(changed)}.", err=True
        )


def _check_running(options: dict[str, Any]) -> None:
    """Refuse before the work what would fail in it."""
    if options["engine"] == "dask" and not options["address"]:
        raise click.UsageError("--engine dask needs --address, the scheduler's, such as tcp://127.0.0.1:8786")
    if options["engine"] != "dask" and options["address"]:
        raise click.UsageError("--address is for --engine dask")
    if options["jobs"] != -1 and options["jobs"] < 1:
        raise click.BadParameter(f"{options['jobs']} is neither -1 nor 1 or more", param_hint="--jobs")
    try:
        options["output"].mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(
            f"the folder {str(options['output'])!r} cannot be made ({error.strerror})", param_hint="--output"
        ) from None
    if options["download"] and options["data"]:
        raise click.UsageError("--download fetches the reviews to where --data would not look: leave one away")


def shown_tables(figure: Figure, rows: Rows) -> list[Any]:
    """The main numbers, and the paper's words beside ours."""
    claims = claims_table(figure, rows)
    if figure.shown is None:
        return [claims]
    shown = figure.shown(rows)
    return [table(f"Figure {figure.name}: {figure.title}", shown.head, shown.body), claims]


def claims_table(figure: Figure, rows: Rows) -> Any:
    """The paper's words beside ours."""
    body = [[each.what, each.paper, each.ours, each.verdict, each.remark] for each in figure.claims(rows)]
    head = ["", "the paper", "here", "agrees", "why"]
    return table(f"Figure {figure.name}, beside the paper", head, body, numbers=False)


def as_plain(figure: Figure, rows: Rows, picture: Path | None) -> dict[str, Any]:
    """What JSON can hold of it."""
    claims = [claim._asdict() for claim in figure.claims(rows)]
    return {**rows.metadata, "title": figure.title, "claims": claims, "picture": picture and str(picture)}


def _folder(figure: Figure, options: dict[str, Any]) -> Any:
    from ocelad.lab.figures.folder import Folder

    return Folder(options["output"], figure)


def _redrawn(figure: Figure, options: dict[str, Any], no_picture: str | None) -> Rows:
    if no_picture is not None:
        raise ImportError(no_picture)
    if options["trials"] or options["changes"] or options["quick"] or options["restart"]:
        raise click.UsageError("--redraw takes the rows as they are: leave --quick, --trials, --set and --restart away")
    rows: Rows = _folder(figure, options).rows()
    return rows


def _settings(figure: Figure, options: dict[str, Any]) -> dict[str, Any]:
    """Those of the size that is asked for, with what is changed."""
    changed: dict[str, Any] = {}
    for change in options["changes"]:
        key, equals, value = change.partition("=")
        if not equals or key not in figure.settings:
            accepted = ", ".join(figure.settings) or "none, figure " + figure.name + " has no settings"
            raise click.BadParameter(
                f"{change!r} is no KEY=VALUE of figure {figure.name}; keys: {accepted}", param_hint="--set"
            )
        changed[key] = _value(key, value, figure.settings[key])
    if options["trials"]:
        if "trials" not in figure.settings:
            raise click.UsageError(f"figure {figure.name} has no trials; its settings: {', '.join(figure.settings)}")
        changed["trials"] = options["trials"]
    return figure.chosen(quick=options["quick"], **changed)


def _value(key: str, value: str, usual: Any) -> Any:
    try:
        return type(usual)(value)
    except ValueError:
        kind = {"int": "a whole number", "float": "a number"}[type(usual).__name__]
        raise click.BadParameter(f"{key} is {value!r}; accepted: {kind}, such as {usual}", param_hint="--set") from None


def _downloaded() -> Path:
    """The folder of the reviews, which are fetched if they are not there."""
    from ocelad.evaluation.streams.reviews import download_reviews

    tenths: set[int] = set()

    def tell(done: int, total: int | None) -> None:
        tenth = 10 * done // total if total else 0
        if tenth not in tenths:
            tenths.add(tenth)
            click.echo(f"reviews: {done / 1e6:.0f} MB{f' of {total / 1e6:.0f}' if total else ''}", err=True)

    return download_reviews(progress=tell)


def _print_list(as_json: bool) -> None:
    from ocelad.lab.figures import FIGURES

    if as_json:
        print_json({name: {"title": each.title, "settings": dict(each.settings)} for name, each in FIGURES.items()})
        return
    body = [[name, each.title, _listed(each.settings), _listed(each.quick)] for name, each in FIGURES.items()]
    head = ["", "what it shows", "settings", "of these with --quick"]
    print_tables(table("Figures", head, body, numbers=False), width=120)


def _listed(settings: Mapping[str, Any]) -> str:
    return "\n".join(f"{key}={value}" for key, value in settings.items())
